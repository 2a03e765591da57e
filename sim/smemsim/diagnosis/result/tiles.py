"""The right numbers in other places within the tiles that a kernel writes, or whole tiles elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from smemsim.core.layout.swizzle import swizzle
from smemsim.core.spec.shared_memory import CHUNK, LINE
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.diagnosis.difference.moved import moved_told
from smemsim.diagnosis.result.arrays import Arrays, Explanation, Tile
from smemsim.diagnosis.result.places import MOST_LINES, RUN, TRIED, may_be, nearest, repeats

__all__ = ["BOXES", "SHOWN", "SWIZZLES", "chunked", "slid", "swizzled"]


PLAIN = (Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128)
LEAST_KNOWN = 0.5  # of the elements of tiles at an edge
TOGETHER = 128  # tiles that are looked at together
LEARNED = 32  # tiles that a permutation is learned from
LEAST_TILE = 512  # elements; what is smaller is a matrix of stmatrix, and no tile
MOST = 1 << 15  # elements of a tile whose permutation is looked for
SHOWN = 3
SHOWN_ROWS = 16
Rule = Callable[[Arrays, Tile], Explanation | None]


def swizzled(arrays: Arrays, tile: Tile) -> Explanation | None:
    """Were tiles written into shared memory with another swizzle than the one that their store takes away, or from
    another origin of its pattern?
    """
    row_bytes = tile.columns * arrays.itemsize
    if row_bytes % CHUNK or row_bytes & (row_bytes - 1) or row_bytes > LINE:
        return None
    found = _fitting(arrays, tile)
    of_store, written = next(found, (None, None))
    if of_store is None or written is None:
        return None
    told = _swizzle_told(tile, arrays.itemsize, of_store, written)
    others = [_with(other) for _, other in found] if repeats(arrays) else []
    if not others:
        return told
    return dataclasses.replace(told, what=f"{told.what} (the numbers repeat: it may also be written {' or '.join(others)})")


def _fitting(arrays: Arrays, tile: Tile) -> Iterator[tuple[Swizzle, Swizzle]]:
    """The swizzles of a store and of what was written that give all wrong tiles."""
    stores = [Swizzle(tile.swizzle)] if tile.swizzle else PLAIN[1:]
    for of_store in stores:
        for written in PLAIN if tile.swizzle else (Swizzle.NONE,):
            if of_store not in PLAIN or (written == of_store and not tile.offset % MODES[of_store].period):
                continue
            if gives(arrays, tile, _through(tile, arrays.itemsize, of_store, written)):
                yield of_store, written


def _through(tile: Tile, itemsize: int, of_store: Swizzle, written: Swizzle) -> np.ndarray:
    """Whose element of the tile a store puts where, if shared memory was written with another swizzle, counted from the
    tile's first byte.
    """
    address = np.arange(tile.rows * tile.columns, dtype=np.int64) * itemsize
    # an XOR of bits with higher bits is its own inverse
    for mode, origin in ((MODES[of_store], tile.offset), (MODES[written], 0)):
        address = np.asarray(swizzle(address + origin, 0, mode.mask, mode.shift)) - origin  # type: ignore[arg-type]  # the formula takes arrays too
    return np.asarray(address // itemsize)


def _swizzle_told(tile: Tile, itemsize: int, of_store: Swizzle, written: Swizzle) -> Explanation:
    both = MODES[written if of_store is Swizzle.NONE else of_store]
    rule = ""
    if Swizzle.NONE in (of_store, written) and both.width == tile.columns * itemsize and not tile.offset % both.period:
        lines = LINE // both.width  # rows in a line
        rule = f": chunk c of row r is where c ^ {f'(r // {lines} % {both.mask + 1})' if lines > 1 else f'(r % {both.mask + 1})'} belongs"
    if not tile.swizzle:
        return Explanation(
            f"the 16-byte chunks in each {tile.name} are exchanged as swizzle {of_store} does it{rule}",
            "write and read shared memory with one swizzle",
        )
    if written == of_store:
        return Explanation(
            f"the 16-byte chunks in each {tile.name} lie as if shared memory was written with swizzle {written} counted from the first byte of the tile; the "
            f"tile begins {tile.offset % both.period} B after a multiple of {both.period} B, and the tensor map swizzles by address",
            f"begin the tile at a multiple of {both.period} B, or take the bits of the XOR from the address{_by(tile)}",
            "A105",
        )
    fits = written is Swizzle.NONE or tile.columns * itemsize <= MODES[written].width  # the driver refuses wider boxes
    return Explanation(
        f"the 16-byte chunks in each {tile.name} lie as if shared memory was written {_with(written)}{rule}; the tensor map there is "
        f"{'SWIZZLE_' + of_store.upper()}",
        f"write shared memory {_with(of_store)}{_by(tile)}{f', or make the map SWIZZLE_{written.upper()}' if fits else ''}",
        "R501",
    )


def _with(mode: Swizzle) -> str:
    return "without a swizzle" if mode is Swizzle.NONE else f"with swizzle {mode}"


def _by(tile: Tile) -> str:
    return f" ({tile.writers})" if tile.writers else ""


def chunked(arrays: Arrays, tile: Tile) -> Explanation | None:
    """Were tiles written with an XOR of 16-byte chunks that is no swizzle of a tensor map?"""
    row_bytes = tile.columns * arrays.itemsize
    count = row_bytes // CHUNK
    if not tile.swizzle or Swizzle(tile.swizzle) not in PLAIN or row_bytes % CHUNK or count < 2 or count & (count - 1) or row_bytes > LINE:
        return None
    if tile.swizzle != Swizzle.NONE and row_bytes > MODES[Swizzle(tile.swizzle)].width:  # the driver refuses such a map
        return None
    moved = _chunks_source(arrays, tile, count)
    if moved is None or not moved.any():
        return None
    per, index = CHUNK // arrays.itemsize, np.arange(tile.rows * tile.columns)
    row, column = np.divmod(index, tile.columns)
    if not gives(arrays, tile, row * tile.columns + (column // per ^ moved[row]) * per + column % per):
        return None
    mode = MODES[Swizzle(tile.swizzle)]
    begin = tile.offset + np.arange(tile.rows, dtype=np.int64) * row_bytes
    by_store = (np.asarray(swizzle(begin, 0, mode.mask, mode.shift)) ^ begin) // CHUNK % count  # type: ignore[arg-type]
    of_store = "does not move them" if mode.swizzle is Swizzle.NONE else f"has it at c ^ {_law(by_store)}"
    return Explanation(
        f"the 16-byte chunks in each {tile.name} lie as if chunk c of row r was written at c ^ {_law(moved ^ by_store)}; SWIZZLE_{mode.swizzle.upper()}, "
        f"which the tensor map there is, {of_store}",
        f"write shared memory {_with(mode.swizzle)}{_by(tile)}",
        "R501",
    )


def slid(arrays: Arrays, tile: Tile) -> Explanation | None:
    """Does a store read its tile some rows before or after the place where it was written?"""
    at = arrays.wrong_tiles(tile)
    if not tile.swizzle or tile.rows < 2 or not len(at) or arrays.shape[0] % tile.rows or arrays.shape[1] % tile.columns:
        return None
    found, wanted = (
        y.reshape(len(y), tile.rows, tile.columns) for y in (arrays.tiles(arrays.found, tile, at), arrays.tiles(arrays.wanted, tile, at))
    )
    middle = tile.rows // 2
    for row in np.flatnonzero(arrays.near(wanted[0], found[0, middle]).all(axis=1)).tolist():
        by = row - middle
        mine, theirs = (found[:, : tile.rows - by], wanted[:, by:]) if by > 0 else (found[:, -by:], wanted[:, : tile.rows + by])
        if by and arrays.near(mine, theirs).all() and arrays.telling(mine, theirs, mine.size):
            return Explanation(*_slid_told(tile, arrays.itemsize, by), "R508")
    return None


def _slid_told(tile: Tile, itemsize: int, by: int) -> tuple[str, str]:
    """The fault of a store that reads its tile `by` rows further on than it was written, and the change to make."""
    way = "after" if by > 0 else "before"
    return (
        f"row r of each {tile.name} has the data of row r {'+' if by > 0 else '-'} {abs(by)}: the store reads shared memory "
        f"{abs(by) * tile.columns * itemsize} B {way} the address where the tile was written",
        f"write and store the tile at one shared address{_by(tile)}",
    )


def _chunks_source(arrays: Arrays, tile: Tile, count: int) -> np.ndarray | None:
    """(rows,): with what number the chunks of each row are exchanged; None where that is no rule."""
    if not len(arrays.wrong_tiles(tile)):
        return None
    found, wanted = (y.reshape(len(y), tile.rows, count, -1) for y in _some(arrays, tile))
    places = np.arange(count)
    moved = np.zeros(tile.rows, np.int64)
    for row in range(tile.rows):
        alike = [n for n in range(count) if arrays.near(found[:, row], wanted[:, row, places ^ n]).all()]
        if len(alike) != 1:
            return None
        moved[row] = alike[0]
    return moved


def _law(moved: np.ndarray) -> str:
    """An XOR for each row, in words."""
    row = np.arange(len(moved))
    for period in (1, 2, 4, 8):
        for lines in (1, 2, 4, 8):
            for first in range(period):
                if (moved == (row // lines + first) % period).all():
                    told = f"r // {lines}" if lines > 1 else "r"
                    return "0" if period == 1 else f"(({told} + {first}) % {period})" if first else f"({told} % {period})"
    period = next((n for n in (1, 2, 4, 8, 16, 32) if (moved == moved[row % n]).all()), 0)
    if period == 1:
        return str(moved[0])
    if period:
        return f"{moved[:period].tolist()}[r % {period}]"
    return f"[{', '.join(map(str, moved[:SHOWN_ROWS].tolist()))}, ...][r]"


def moved_tiles(arrays: Arrays, tile: Tile) -> Explanation | None:
    """Whole tiles in the place of others; those that hold what was there before count as missing."""
    at, wanted = arrays.wrong_tiles(tile), arrays.split(arrays.wanted, tile)
    down, _, across, _ = wanted.shape
    if (
        tile.rows * tile.columns < LEAST_TILE
        or not 2 <= down * across <= MOST_LINES
        or arrays.count > np.count_nonzero(arrays.split(arrays.wrong, tile))
    ):
        return None
    begins = wanted[:, 0, :, : min(RUN, tile.columns)]
    mine = arrays.split(arrays.found, tile)[at[:, 0], 0, at[:, 1], : begins.shape[2]]
    some = mine[:TRIED]
    zeros = np.abs(some).max(axis=1) == 0
    if not (zeros | np.array([arrays.near(wanted_tile, begins).all(axis=2).any() for wanted_tile in some])).all() and arrays.before is None:
        return None
    if arrays.before is not None:
        kept = arrays.near(some, arrays.split(arrays.before, tile)[at[:TRIED, 0], 0, at[:TRIED, 1], : begins.shape[2]]).all(axis=1)
        if not (kept | np.array([arrays.near(wanted_tile, begins).all(axis=2).any() for wanted_tile in some])).all():
            return None
    found = arrays.tiles(arrays.found, tile, at)
    old = np.zeros_like(found) if arrays.before is None else arrays.tiles(arrays.before, tile, at)
    kept = arrays.near(found, old).all(axis=1)
    at, found = at[~kept], found[~kept]
    every = np.argwhere(np.ones((down, across), bool))
    if not len(at):
        return None
    flat = arrays.tiles(arrays.wanted, tile, every)
    best = nearest(arrays, found, flat)
    if best is None or not arrays.near(found, flat[best]).all():
        return None
    if not arrays.telling(found, flat[best], int(np.count_nonzero(~arrays.near(found, arrays.tiles(arrays.wanted, tile, at))))):
        return None
    lost = f"; {int(kept.sum())} more hold {'what was there before' if old[kept].any() else '0'}" if kept.any() else ""
    return Explanation(
        f"whole tiles lie in the place of others: {_tiles_told(at, every[best], tile)}{lost}",
        _where_to_look(tile, bool((every[best] == at[:, ::-1]).all()), is_twice=not kept.any() and not _has_all(at, every[best])),
    )


def _has_all(places: np.ndarray, some: np.ndarray) -> bool:
    """Are some places all among these?"""
    return {*map(tuple, some.tolist())} <= {*map(tuple, places.tolist())}


def _where_to_look(tile: Tile, is_exchanged: bool, *, is_twice: bool) -> str:
    """`is_twice`: tiles that are where they belong are elsewhere too, which no exchange of coordinates does."""
    if not tile.line:
        return "look at how a CTA comes to the coordinates of its tile"
    if is_exchanged:
        return f"exchange the coordinates of the {tile.name}: dimension 0, the contiguous one (columns), comes first"
    if is_twice:
        return (
            f"tiles are there twice: look at the coordinates of the loads for them, at what the {tile.name} reads, and at its coordinates"
        )
    return f"look at the coordinates of the {tile.name}"


def carried(arrays: Arrays, tile: Tile) -> Explanation | None:
    """Do tiles hold besides what was expected that of another tile, or one number: were accumulators not zeroed?"""
    at = arrays.wrong_tiles(tile)
    if tile.rows * tile.columns < LEAST_TILE or not len(at) or arrays.shape[0] % tile.rows or arrays.shape[1] % tile.columns:
        return None
    found, wanted = arrays.tiles(arrays.found, tile, at), arrays.tiles(arrays.wanted, tile, at)
    more = found - wanted
    constant = np.median(more, axis=1, keepdims=True)
    is_constant = arrays.near(found, wanted + constant).all(axis=1)
    every = np.argwhere(np.ones((arrays.shape[0] // tile.rows, arrays.shape[1] // tile.columns), bool))
    rest = np.flatnonzero(~is_constant)
    if not len(rest) or not 2 <= len(every) <= MOST_LINES:
        return None
    all_found = arrays.tiles(arrays.found, tile, every)
    source = nearest(arrays, more[rest], all_found)
    if source is None or not arrays.near(found[rest], wanted[rest] + all_found[source]).all():
        return None
    if not arrays.telling(found[rest], wanted[rest] + all_found[source], len(rest) * tile.rows * tile.columns):
        return None
    size = np.array([tile.rows, tile.columns])
    some = ", ".join(
        f"at {(at[n] * size).tolist()} that of {(every[s] * size).tolist()}" for n, s in list(zip(rest, source, strict=True))[:SHOWN]
    )
    begun = sorted({float(f"{c:.2g}") for c in constant[is_constant].ravel()})
    first = f"; {int(is_constant.sum())} more begin with {', '.join(f'{c:g}' for c in begun[:SHOWN])} instead of 0" if begun else ""
    return Explanation(
        f"accumulators are not zeroed: {len(rest)} {tile.rows}x{tile.columns} tiles hold besides their own sums those of another tile ({some}"
        f"{', ...' if len(rest) > SHOWN else ''}){first}",
        f"write 0 into the accumulators before a tile begins, or make scale-d (enable-input-d) 0 for its first product{f' ({tile.begins})' if tile.begins else ''}",
    )


def _tiles_told(at: np.ndarray, source: np.ndarray, tile: Tile) -> str:
    if (source == at[:, ::-1]).all():
        return f"the {tile.rows}x{tile.columns} tile (i, j) is that of (j, i)"
    size = np.array([tile.rows, tile.columns])
    steps = np.unique(source - at, axis=0)
    if len(steps) == 1 and len(at) > 1:
        m, n = (f"{x} {'-' if d < 0 else '+'} {abs(int(d))}" if d else x for x, d in zip("mn", steps[0] * size, strict=True))
        return f"the {tile.rows}x{tile.columns} tile at [m, n] is that of [{m}, {n}] ({len(at)} tiles)"
    some = ", ".join(f"at {(a * size).tolist()} is that of {(s * size).tolist()}" for a, s in zip(at[:SHOWN], source[:SHOWN], strict=True))
    return f"the {tile.rows}x{tile.columns} tile {some}{', ...' if len(at) > SHOWN else ''}"


def gives(arrays: Arrays, tile: Tile, source: np.ndarray) -> bool:
    """Does a permutation of their elements, `source`, give all wrong tiles?"""
    if arrays.shape[0] % tile.rows or arrays.shape[1] % tile.columns:
        return _gives_cut(arrays, tile, source)
    at = arrays.wrong_tiles(tile)
    for begin in (0, *range(1, len(at), TOGETHER)):
        some = at[begin : begin + TOGETHER] if begin else at[:1]
        if not arrays.near(arrays.tiles(arrays.found, tile, some), np.take(arrays.tiles(arrays.wanted, tile, some), source, axis=1)).all():
            return False
    found, wanted = _some(arrays, tile)
    return arrays.telling(found, wanted[:, source], arrays.count)


def _gives_cut(arrays: Arrays, tile: Tile, source: np.ndarray) -> bool:
    """Does the permutation `source` give all wrong tiles of an array that ends within tiles? Elements that come from
    outside of it are unknown.
    """
    r, c = np.nonzero(arrays.wrong)
    at = np.unique(np.stack([r // tile.rows, c // tile.columns], axis=1), axis=0)
    for some in (at[:1], at):
        r, c = (some[:, n, None] * size for n, size in enumerate((tile.rows, tile.columns)))
        local = np.arange(len(source))
        to, of = ((r + y // tile.columns, c + y % tile.columns) for y in (local, source))
        inside, known = ((y[0] < arrays.shape[0]) & (y[1] < arrays.shape[1]) for y in (to, of))
        known &= inside
        found, moved = (y[z[0][known], z[1][known]] for y, z in ((arrays.found, to), (arrays.wanted, of)))
        if known.sum() < LEAST_KNOWN * inside.sum() or not arrays.near(found, moved).all():
            return False
    return arrays.telling(found, moved, int(np.count_nonzero(~arrays.near(found, arrays.wanted[to[0][known], to[1][known]]))))


def permuted(arrays: Arrays, tile: Tile) -> Explanation | None:
    """Elements in other places within each tile: transposed, or rows or columns elsewhere."""
    if tile.rows * tile.columns > MOST or not len(arrays.wrong_tiles(tile)):
        return None
    for source, told, change in _candidates(arrays, tile):
        if gives(arrays, tile, source):
            return Explanation(f"in each {tile.name} that is wrong {told}", change)
    return None


def exchanged(arrays: Arrays, tile: Tile) -> Explanation | None:
    """Elements in other places within each tile by an XOR of index bits, as swizzles,
    fragments and ldmatrix move them.
    """
    if tile.rows * tile.columns > MOST or not len(arrays.wrong_tiles(tile)):
        return None
    source = _linear(arrays, *_some(arrays, tile))
    if source is None or not gives(arrays, tile, source):
        return None
    return Explanation(
        f"in each {tile.name} that is wrong elements lie in other places: {_bits_told(source, tile.columns)}",
        "look at which row and column each register of the accumulator fragment belongs to, and at how they are stored",
    )


def _some(arrays: Arrays, tile: Tile) -> tuple[np.ndarray, np.ndarray]:
    """(found, wanted) of some wrong tiles, (n, rows * columns)."""
    at = arrays.wrong_tiles(tile)[:LEARNED]
    return arrays.tiles(arrays.found, tile, at), arrays.tiles(arrays.wanted, tile, at)


def _candidates(arrays: Arrays, tile: Tile) -> Iterator[tuple[np.ndarray, str, str]]:
    h, w = tile.rows, tile.columns
    mine, theirs = (y.reshape(-1, h, w) for y in _some(arrays, tile))
    index = np.arange(h * w).reshape(h, w)
    if h == w:
        yield (
            index.T.ravel(),
            "rows and columns are exchanged",
            "look at the layout in which the tile is written (.trans of stmatrix, rows for columns)",
        )
    for axis, what, letter in ((1, "row", "m"), (2, "column", "n")):
        a, b = (np.ascontiguousarray(np.moveaxis(y, axis, 0)).reshape(y.shape[axis], -1) for y in (mine, theirs))
        wrong = np.flatnonzero(~arrays.near(a, b).all(axis=1))
        source = nearest(arrays, a, b) if len(a) > 1 and may_be(arrays, a, b, wrong) else None
        if source is not None and (source != np.arange(len(source))).any():
            told = f"{what}s lie in other places: {moved_told(source, what, letter)}"
            change = f"look at which {what} a register of the accumulator fragment belongs to"
            yield np.take(index, source, axis=axis - 1).ravel(), told, change


def _linear(arrays: Arrays, found: np.ndarray, wanted: np.ndarray) -> np.ndarray | None:
    """That permutation, learned from where the elements went whose index has one bit set."""
    size = found.shape[1]
    if size & (size - 1):
        return None
    images = []
    for at in (0, *(1 << n for n in range(size.bit_length() - 1))):
        far = np.abs(found[:, at : at + 1] - wanted).max(axis=0)
        best = int(far.argmin())
        if not arrays.near(found[:, at], wanted[:, best]).all():
            return None
        images.append(best)
    source = np.full(1, images[0])
    for image in images[1:]:
        source = np.concatenate([source, source ^ image ^ images[0]])
    return source if len(np.unique(source)) == size else None


def _bits_told(source: np.ndarray, width: int) -> str:
    some = [n for n in (1 << k for k in range(len(source).bit_length() - 1)) if source[n] != n]
    if source[0]:
        some.insert(0, 0)
    told = ", ".join(
        f"[{n // width}, {n % width}] has what belongs in [{source[n] // width}, {source[n] % width}]" for n in some[: SHOWN + 1]
    )
    return f"{told}{', ...' if len(some) > SHOWN + 1 else ''}"


SWIZZLES: tuple[Rule, ...] = (swizzled, chunked)
BOXES: tuple[tuple[Rule, ...], ...] = ((swizzled, slid, moved_tiles, permuted, carried), (exchanged,))
