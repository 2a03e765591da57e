"""What a kernel left in an array beside what was expected: the one rule that gives all the wrong elements."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from smemsim.arithmetic.values import from_float64, to_float64
from smemsim.judge.difference import moved_told
from smemsim.judge.numbers import EXACT, Tolerance, numbers_told, typical
from smemsim.layout.swizzle import swizzle
from smemsim.spec.formats import FORMATS
from smemsim.spec.shared_memory import CHUNK, LINE
from smemsim.spec.swizzles import MODES, Swizzle

__all__ = [
    "BOXES",
    "PLACES",
    "SWIZZLES",
    "VALUES",
    "Arrays",
    "Code",
    "Explanation",
    "Tile",
    "added",
    "carried",
    "chunked",
    "displaced",
    "exchanged",
    "explain_arrays",
    "explain_sums",
    "is_product",
    "lines",
    "may_be",
    "moved_tiles",
    "narrower",
    "nearest",
    "negated",
    "permuted",
    "repeats",
    "scaled",
    "slid",
    "swizzled",
    "transposed",
    "unwritten",
    "usual_tiles",
]


# ---- Two arrays, element by element: which are wrong, and does a rule give them? A rule that chance could satisfy does not count


LEAST = 16  # wrong elements, fewer of which no rule is made of
SURE_BITS = 100.0  # of evidence: how unlikely it must be that elements fit by chance
MOST_ALIKE = 0.9  # share of pairs of elements that are equal anyway, above which nothing is said
SAMPLE = 4096
EDGE = 0.25  # of the wrong elements may lie where a rule says nothing: at edges


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What is the matter with an array, and what to change; `code` is that of a finding which says the same, where there is one."""

    what: str
    change: str = ""
    code: str = ""

    def __str__(self) -> str:
        return f"{self.what}; {self.change}" if self.change else self.what


@dataclasses.dataclass(frozen=True)
class Tile:
    """Rows and columns in which an array is written, beginning at element (0, 0); `told` is how a sentence calls it.

    `swizzle` is the mode of the tensor map behind the stores, "" where it is not known, and `line` that of a store. It lies `offset` bytes behind a
    multiple of 1,024 in shared memory; `writers` is how a sentence calls the instructions that write it there, `begins` the first product of a tile where it
    adds to what the accumulators hold.
    """

    rows: int
    columns: int
    told: str = ""
    swizzle: str = ""
    line: int = 0
    offset: int = 0
    writers: str = ""
    begins: str = ""

    @property
    def name(self) -> str:
        """The name of such a tile in sentences."""
        return self.told or f"{self.rows}x{self.columns} tile"


class Arrays:
    """Numbers as a kernel left them (`found`), as expected (`wanted`), and as before the launch, all of one shape (rows, columns).

    Elements are equal where they are no further apart than `relative` of the number and of a typical one, or than `tolerance` allows. Below that
    nothing is explained: it is rounding. What is no number is a large one.
    """

    def __init__(
        self,
        found: np.ndarray,
        wanted: np.ndarray,
        before: np.ndarray | None = None,
        *,
        relative: float,
        itemsize: int,
        tolerance: Tolerance = EXACT,
    ) -> None:
        top = max((float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in (found, wanted)), default=0.0) or 1.0
        small = top < 1e30 and found.dtype.itemsize <= 4 and found.dtype.kind == "f"
        kind = np.float32 if small else np.float64
        self.found, self.wanted = (_numbers(x, kind, top) for x in (found, wanted))
        self.before = None if before is None else _numbers(before, kind, top)
        self.relative, self.itemsize = relative, itemsize
        self.tolerance = tolerance
        self.scale = typical(self.wanted) if relative else 0.0
        self.wrong = ~self.near(self.found, self.wanted)
        self.count = int(np.count_nonzero(self.wrong))
        self._wrong_tiles: dict[tuple[int, int], np.ndarray] = {}

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return int(self.found.shape[0]), int(self.found.shape[1])

    def near(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Which elements of the two arrays count as equal."""
        if self.tolerance == EXACT:
            return np.asarray(np.abs(a - b) <= self.relative * (np.abs(b) + self.scale) if self.relative else a == b)
        size, allowed = np.abs(b), self.tolerance
        return np.asarray(np.abs(a - b) <= np.maximum(self.relative * (size + self.scale), allowed.atol + allowed.rtol * size))

    @functools.cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of some wrong elements, spread over all."""
        flat = np.flatnonzero(self.wrong)
        chosen = flat[np.unique(np.linspace(0, len(flat) - 1, SAMPLE).astype(np.int64))]
        return np.asarray(chosen // self.shape[1]), np.asarray(chosen % self.shape[1])

    def telling(self, found: np.ndarray, moved: np.ndarray, count: int) -> bool:
        """Could no chance make `count` elements equal? Judged by pairs of some that have nothing to do with each other."""
        a, b = found.reshape(-1), moved.reshape(-1)
        chosen = np.random.default_rng(0).integers(0, a.size, (2, SAMPLE))
        alike = float(self.near(a[chosen[0]], b[chosen[1]]).mean())
        bits = -np.log2(max(alike, 1 / SAMPLE))
        return count >= LEAST and alike < MOST_ALIKE and count * bits >= SURE_BITS

    @property
    def old(self) -> np.ndarray:
        """What was there before the launch; zeros where nobody says."""
        return np.zeros((1, 1), self.found.dtype) if self.before is None else self.before

    def gives(self, moved: np.ndarray, free: np.ndarray | None = None) -> bool:
        """Does a rule's array have all the elements that the kernel left? In `free` places it says nothing: few of the wrong ones may lie there, or
        more where nothing was written.
        """
        r, c = self.places
        known = np.ones(len(r), bool) if free is None else ~free[r, c]
        if not known.any() or not self.near(self.found[r, c], moved[r, c])[known].all():
            return False
        right = self.near(self.found, moved)
        counted = self.count
        if free is not None:
            right |= free
            counted -= int(np.count_nonzero(free & self.wrong))
        least = 1 - EDGE
        if free is not None and counted < least * self.count and self.near(self.found, self.old)[free].all():
            least = EDGE
        if not right.all() or counted < least * self.count:
            return False
        return self.telling(self.found[r, c][known], moved[r, c][known], counted)

    def split(self, matrix: np.ndarray, tile: Tile) -> np.ndarray:
        """(down, rows, across, columns): the whole tiles of an array."""
        down, across = self.shape[0] // tile.rows, self.shape[1] // tile.columns
        return matrix[: down * tile.rows, : across * tile.columns].reshape(down, tile.rows, across, tile.columns)

    def tiles(self, x: np.ndarray, tile: Tile, at: np.ndarray) -> np.ndarray:
        """(n, rows * columns): the tiles at some places (n, 2), counted in tiles."""
        return np.asarray(self.split(x, tile)[at[:, 0], :, at[:, 1], :]).reshape(len(at), -1)

    def wrong_tiles(self, tile: Tile) -> np.ndarray:
        """(n, 2): the places of tiles in which something is wrong, counted in tiles."""
        key = tile.rows, tile.columns
        if key not in self._wrong_tiles:
            self._wrong_tiles[key] = np.argwhere(np.asarray(self.split(self.wrong, tile).any(axis=3)).any(axis=1))
        return self._wrong_tiles[key]


def _numbers(x: np.ndarray, kind: type, top: float) -> np.ndarray:
    out: np.ndarray = x.astype(kind)
    return out if np.isfinite(out).all() else np.nan_to_num(out, nan=8 * top, posinf=4 * top, neginf=-4 * top)


# ---- The right numbers in other places of the whole array: transposed, displaced, whole rows or columns elsewhere


RUN = 8  # elements that are looked for together
TRIED, MOST_TRIED = 5, 20
DIRECTIONS = 16  # of random projections, by which lines are compared
MOST_LINES = 8192


def transposed(arrays: Arrays) -> Explanation | None:
    """Rows for columns; of an array that is not square, in memory."""
    told = "it is transposed: [m, n] has what belongs in [n, m]"
    if arrays.shape[0] != arrays.shape[1]:
        told = f"it is transposed: as {arrays.shape[1]}x{arrays.shape[0]} in memory, where {arrays.shape[0]}x{arrays.shape[1]} was expected"
    if min(arrays.shape) < 2 or not arrays.gives(arrays.wanted.T.reshape(arrays.shape)):
        return None
    return Explanation(told, "write it the other way round, or exchange A and B: B^T A^T is (A B)^T")


def displaced(arrays: Arrays) -> Explanation | None:
    """Everything some rows and columns, or some elements in memory, further on; what had no place left is lost."""
    columns = arrays.shape[1]
    flat = arrays.wanted.reshape(-1)
    votes: dict[int, int] = {}
    r, c = arrays.places
    tried = 0
    for n in np.random.default_rng(2).integers(0, len(r), MOST_TRIED).tolist():
        at = int(r[n]) * columns + min(int(c[n]), max(0, columns - RUN))
        run = arrays.found.reshape(-1)[at : at + RUN]
        if run.size < RUN or not run.any():
            continue
        tried += 1
        if max(votes.values(), default=0) > 1 or (tried > TRIED and not votes):
            break
        room = 2 * arrays.relative * (abs(float(run[0])) + arrays.scale)
        begins = np.flatnonzero(np.abs(flat[: flat.size - RUN + 1] - run[0]) <= room)
        for k in range(RUN):
            begins = begins[arrays.near(run[k], flat[begins + k])]
        if len(begins) == 1:
            votes[at - int(begins[0])] = votes.get(at - int(begins[0]), 0) + 1
    for d in sorted(votes, key=lambda d: -votes[d])[:2]:
        down = round(d / columns)
        right = d - down * columns
        other = 1 if right > 0 else -1
        for rule in (
            _along(arrays, d) if right else None,
            _shifted(arrays, down, right),
            _shifted(arrays, down + other, right - other * columns),
        ):
            if rule is not None:
                return rule
    return None


def _shifted(arrays: Arrays, down: int, right: int) -> Explanation | None:
    rows, columns = arrays.shape
    if abs(down) >= rows or abs(right) >= columns or not (down or right):
        return None
    moved, free = np.zeros_like(arrays.wanted), np.ones(arrays.shape, bool)
    to, source = ((slice(max(0, a), rows + min(0, a)), slice(max(0, b), columns + min(0, b))) for a, b in ((down, right), (-down, -right)))
    moved[to], free[to] = arrays.wanted[source], False
    if not arrays.gives(moved, free):
        return None
    parts = [f"{abs(n)} {what}{'s' * (abs(n) != 1)} too far {way[n < 0]}"
             for n, what, way in ((down, "row", ("down", "up")), (right, "column", ("right", "left"))) if n]  # fmt: skip
    at = "[" + ", ".join(f"{axis} {'-' if n > 0 else '+'} {abs(n)}" if n else axis for axis, n in (("m", down), ("n", right))) + "]"
    return Explanation(f"all of it lies {' and '.join(parts)}: [m, n] has what belongs in {at}", "change the coordinates of the store")


def _along(arrays: Arrays, d: int) -> Explanation | None:
    size = arrays.wanted.size
    moved, free = np.zeros(size, arrays.wanted.dtype), np.ones(size, bool)
    if not d or abs(d) >= size:
        return None
    to, source = (slice(max(0, n), size + min(0, n)) for n in (d, -d))
    moved[to], free[to] = arrays.wanted.reshape(-1)[source], False
    if not arrays.gives(moved.reshape(arrays.shape), free.reshape(arrays.shape)):
        return None
    way = "further on" if d > 0 else "before its place"
    return Explanation(
        f"all of it lies {abs(d)} element{'s' * (abs(d) != 1)} ({abs(d) * arrays.itemsize} bytes) {way} in memory",
        "change the address that the store begins at",
    )


def nearest(arrays: Arrays, found: np.ndarray, wanted: np.ndarray, which: np.ndarray | None = None) -> np.ndarray | None:
    """Which line of `wanted` each line of `found`, or those in `which`, is most like; None where several are equally like it: nobody can say.

    Both are (lines, elements). Lines are compared by random projections; whether they are equal is for others to see.
    """
    if max(len(found), len(wanted)) > MOST_LINES:
        return None
    random = np.random.default_rng(1).standard_normal((found.shape[1], DIRECTIONS)).astype(found.dtype)
    a, b = (np.asarray(y @ random, np.float64) for y in (found, wanted))
    a = a if which is None else a[which]
    far = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * a @ b.T
    best = far.argmin(axis=1)
    if far.shape[1] > 1:
        first = far[np.arange(len(far)), best]
        far[np.arange(len(far)), best] = np.inf
        # sums of n rounded products differ by about sqrt(n) roundings: what is as near as that is the same
        room = DIRECTIONS * found.shape[1] * (4 * arrays.relative * arrays.scale) ** 2 + 1e-9 * float(np.median((a * a).sum(axis=1)))
        if (far.min(axis=1) <= np.maximum(first, 0) + room).mean() > 0.5:
            return None
    return np.asarray(best)


def repeats(arrays: Arrays) -> bool:
    """Are most rows, or most columns, of what was expected like another one? Then nobody can say what lies where."""
    for axis in (0, 1):
        one = np.moveaxis(arrays.wanted, axis, 0)
        random = np.random.default_rng(3).standard_normal((one.shape[1], 1)).astype(one.dtype)
        sums = np.sort((one @ random).ravel().astype(np.float64))
        if len(sums) > 1 and np.mean(np.diff(sums) <= 1e-6 * np.abs(sums).max()) > 0.5:
            return True
    return False


def lines(arrays: Arrays) -> Explanation | None:
    """Whole rows, or whole columns, in other places."""
    for axis, what, letter in ((0, "row", "m"), (1, "column", "n")):
        found, wanted = (np.moveaxis(y, axis, 0) for y in (arrays.found, arrays.wanted))
        if len(found) < 2 or found.shape[1] < 2:
            continue
        wrong, some = np.asarray(arrays.wrong.any(axis=1 - axis)), np.asarray(found.any(axis=1))
        if not may_be(arrays, found, wanted, np.flatnonzero(wrong & some)):
            continue
        empty = wrong & ~some
        moved = _lines_source(arrays, found, wanted, axis, empty)
        if moved is None:
            continue
        shape = (-1, 1) if axis == 0 else (1, -1)
        free = np.broadcast_to(empty.reshape(shape), arrays.shape) if empty.any() else None
        if arrays.gives(np.take(arrays.wanted, moved, axis=axis), free):
            lost = f", and {what}s {numbers_told(np.flatnonzero(empty).tolist(), len(empty))} are 0" if empty.any() else ""
            return Explanation(
                f"its {what}s lie in other places: {moved_told(moved, what, letter)}{lost}",
                f"look at how the store comes to its {what}: the coordinates, or which {what} a register of the accumulator belongs to",
            )
    return None


def may_be(arrays: Arrays, found: np.ndarray, wanted: np.ndarray, which: np.ndarray) -> bool:
    """Is there a line of `wanted` that each of some lines of `found` could be, judged by a few elements?"""
    at = np.linspace(0, found.shape[1] - 1, RUN).astype(int)
    theirs = wanted[:, at]
    return all(bool(arrays.near(found[n, at], theirs).all(axis=1).any()) for n in which[:: max(1, len(which) // TRIED)])


def _lines_source(arrays: Arrays, found: np.ndarray, wanted: np.ndarray, axis: int, empty: np.ndarray) -> np.ndarray | None:
    """The index of the line that each line comes from; lines that are right or empty stay."""
    wrong = np.flatnonzero(arrays.wrong.any(axis=1 - axis) & ~empty)
    if not len(wrong):
        return None
    best = nearest(arrays, found, wanted, wrong)
    if best is None:
        return None
    source = np.arange(len(found))
    source[wrong] = best
    return source


PLACES: tuple[Callable[[Arrays], Explanation | None], ...] = (transposed, displaced, lines)


# ---- The right numbers in other places within the tiles that a kernel writes, or whole tiles elsewhere


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
    """Were tiles written into shared memory with another swizzle than the one that their store takes away, or from another origin of its pattern?"""
    row_bytes = tile.columns * arrays.itemsize
    if row_bytes % CHUNK or row_bytes & (row_bytes - 1) or row_bytes > LINE:
        return None
    stores = [Swizzle(tile.swizzle)] if tile.swizzle else PLAIN[1:]
    for of_store in stores:
        for written in PLAIN if tile.swizzle else (Swizzle.NONE,):
            if of_store not in PLAIN or (written == of_store and not tile.offset % MODES[of_store].period):
                continue
            if gives(arrays, tile, _through(tile, arrays.itemsize, of_store, written)):
                return _swizzle_told(tile, arrays.itemsize, of_store, written)
    return None


def _through(tile: Tile, itemsize: int, of_store: Swizzle, written: Swizzle) -> np.ndarray:
    """Whose element of the tile a store puts where, if shared memory was written with another swizzle, counted from the tile's first byte."""
    address = np.arange(tile.rows * tile.columns, dtype=np.int64) * itemsize
    for mode, origin in ((MODES[of_store], tile.offset), (MODES[written], 0)):  # an XOR of bits with higher bits is its own inverse
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
            f"the 16-byte chunks in each {tile.name} lie as if shared memory was written with swizzle {written} counted from the tile's first byte; that "
            f"lies {tile.offset % both.period} B behind a multiple of {both.period} B, and the swizzle of the tensor map goes by the address",
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
    """Does a store read its tile some rows before or behind where it was written?"""
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
    """What is the matter with a store that reads its tile `by` rows further on than it was written, and what to change."""
    way = "behind" if by > 0 else "before"
    return (
        f"row r of each {tile.name} has what belongs in row r {'+' if by > 0 else '-'} {abs(by)}: the store reads shared memory from "
        f"{abs(by) * tile.columns * itemsize} B {way} where the tile was written",
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
    """Does the permutation `source` give all wrong tiles of an array that ends within tiles? Elements that come from outside of it are unknown."""
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
    """Elements in other places within each tile by an XOR of index bits, as swizzles, fragments and ldmatrix move them."""
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


# ---- Sums that lack some k or have it twice, and products of other matrices than those that were meant


ROWS = 8  # of D that the k are looked for in
MOST_STEPS = 512
MOST_COLUMNS = 2048
HOW = {  # what D has of a step, by how often it is there beyond once
    -1: "lacks the product of {}",
    1: "has the product of {} twice",
    2: "has the product of {} three times",
    -2: "has the product of {} with the other sign",
}
BLOCK = 16  # rows and columns that are wrong together
MOST_RIGHT = 0.99  # share of the elements of some rows
SOME = 64  # rows or columns that the chunks are learned from
SURE = 0.1  # how far from a whole number a count of chunks may be


@dataclasses.dataclass(frozen=True)
class Code:
    """How a sentence calls the instructions behind a product: the `loop` over K and its `loads`, and by operand those that read or write its tile."""

    loop: str = ""
    loads: str = ""
    reads: Mapping[str, str] = dataclasses.field(default_factory=dict)
    writes: Mapping[str, str] = dataclasses.field(default_factory=dict)


NO_CODE = Code()


def is_product(arrays: Arrays, a: np.ndarray, b: np.ndarray) -> bool:
    """Was A B expected, for (M, K) and (N, K)? Judged by some rows."""
    if arrays.shape != (len(a), len(b)) or a.shape[1] != b.shape[1]:
        return False
    r, _ = arrays.places
    rows = np.unique(r[np.linspace(0, len(r) - 1, ROWS).astype(int)])
    return bool(arrays.near(a[rows] @ b.T, arrays.wanted[rows]).mean() > MOST_RIGHT)


def explain_sums(
    arrays: Arrays, a: np.ndarray, b: np.ndarray, steps: Sequence[int], *, itemsize: int = 0, code: Code = NO_CODE
) -> Explanation | None:
    """What the product D = A B makes of it: `a` (M, K) and `b` (N, K) are numbers, `steps` the numbers of k that a kernel may take at once.

    `itemsize` is the bytes of an element of the operands in shared memory, 0 where 16-byte chunks of them are not looked at.
    """
    if arrays.shape != (len(a), len(b)) or a.shape[1] != b.shape[1]:
        return None
    for step in dict.fromkeys(steps):
        if (explanation := _counted(arrays, a, b, step, code)) is not None:
            return explanation
    if (explanation := _other(arrays, a, b)) is not None or not itemsize or not is_product(arrays, a, b):
        return explanation
    return _chunks(arrays, a, b, itemsize, code)


def _counted(arrays: Arrays, a: np.ndarray, b: np.ndarray, step: int, code: Code) -> Explanation | None:
    """The explanation that D lacks some steps of k, or has them several times; None where that is not so."""
    count = -(-a.shape[1] // step)
    if not 2 <= count <= MOST_STEPS:
        return None
    r, _ = arrays.places
    rows = np.unique(r[np.linspace(0, len(r) - 1, ROWS).astype(int)])
    columns = np.flatnonzero(arrays.wrong[rows].any(axis=0))[:MOST_COLUMNS]
    ranges = [slice(n * step, (n + 1) * step) for n in range(count)]
    terms = np.stack([a[rows, k].astype(np.float64) @ b[columns, k].T.astype(np.float64) for k in ranges])
    wrong = arrays.wrong[np.ix_(rows, columns)]
    matrix, delta = terms[:, wrong].T, (arrays.found.astype(np.float64) - arrays.wanted)[np.ix_(rows, columns)][wrong]
    if len(delta) < 4 * count:
        return None
    times = np.rint(np.linalg.lstsq(matrix.T @ matrix, matrix.T @ delta, rcond=None)[0])
    chosen = np.flatnonzero(times)
    if not len(chosen) or np.abs(times).max() > max(HOW) or (times == -1).all():
        return None
    k = np.concatenate([np.arange(a.shape[1])[ranges[n]] for n in chosen])
    weight = np.repeat(times, step)[: a.shape[1]][k].astype(a.dtype)
    blocks = _blocks(arrays.wrong)
    change = np.where(blocks, (a[:, k] * weight) @ b[:, k].T, 0)
    if not arrays.gives((arrays.wanted + change).astype(arrays.wanted.dtype)):
        return None
    where = "all of it" if blocks.all() else "what is wrong"
    kinds = {n: np.flatnonzero(times == n) for n in HOW if (times == n).any()}
    what = " and ".join(HOW[n].format(_ranges(steps, step, a.shape[1])) for n, steps in kinds.items())
    return Explanation(f"{where} {what}", _change(kinds, count, step, code))


def _change(kinds: dict[int, np.ndarray], count: int, step: int, code: Code) -> str:
    if len(kinds) > 1:
        return f"look at the coordinates along k of the loads{f' ({code.loads})' if code.loads else ''}, and at the stages that they go to"
    ((times, chosen),) = kinds.items()
    if times == -2:
        return "look at imm-scale-a and imm-scale-b (negate-a, negate-b) of those instructions"
    if times > 0:
        return "look for a step of the K loop that is executed twice, or an accumulator that is added to D twice"
    if chosen[-1] == len(chosen) - 1:
        return "look at where the K loop begins, and at scale-d (enable-input-d): 0 in a later step forgets what came before"
    if chosen[0] == count - len(chosen):
        trips = f"{count - len(chosen)} steps of {step} are there, {count} are needed"
        return f"look at where the K loop ends{f' ({code.loop})' if code.loop else ''}: {trips}"
    return f"look at how k goes on from step to step{f' ({code.loop})' if code.loop else ''}"


def _ranges(chosen: np.ndarray, step: int, extent: int) -> str:
    """The chosen steps of k in words, as ranges where these are few."""
    runs = np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1)
    if len(runs) > 3:
        return f"steps {numbers_told(chosen.tolist(), -(-extent // step))} of k ({step} each)"
    return "k = " + " and ".join(f"{run[0] * step} to {min((run[-1] + 1) * step, extent) - 1}" for run in runs)


def _blocks(wrong: np.ndarray) -> np.ndarray:
    """Whole blocks in which something is wrong."""
    rows, columns = wrong.shape
    padded = np.pad(wrong, ((0, -rows % BLOCK), (0, -columns % BLOCK)))
    some = padded.reshape(padded.shape[0] // BLOCK, BLOCK, padded.shape[1] // BLOCK, BLOCK).any(axis=(1, 3))
    return np.asarray(some.repeat(BLOCK, axis=0).repeat(BLOCK, axis=1)[:rows, :columns])


def _other(arrays: Arrays, a: np.ndarray, b: np.ndarray) -> Explanation | None:
    """Is D another product of the same matrices? B here is (K, N), as in D = A B."""
    named = {"A": a, "A^T": a.T, "B": b.T, "B^T": b}
    if not is_product(arrays, a, b):
        return None
    r, _ = arrays.places
    rows = np.unique(r[np.linspace(0, len(r) - 1, ROWS).astype(int)])
    for left, p in named.items():
        for right, q in named.items():
            if (left, right) == ("A", "B") or (p.shape[0], q.shape[1]) != arrays.shape or p.shape[1] != q.shape[0]:
                continue
            if arrays.near(arrays.found[rows], p[rows] @ q).mean() > MOST_RIGHT and arrays.gives((p @ q).astype(arrays.wanted.dtype)):
                same = left[0] == right[0]
                change = f"look for a load or a descriptor of {left[0]} where the other operand is meant" if same else _turned(left, right)
                return Explanation(f"it is {left} {right}, not A B", change)
    return None


def _turned(left: str, right: str) -> str:
    swapped = "exchange A and B" if left[0] == "B" else ""
    turned = [name for name, t in ((left[0], left), (right[0], right)) if t.endswith("T")]
    major = (
        f"look at the major-ness of {' and '.join(turned)} (tnspA, tnspB, the instruction descriptor) and the strides of its map"
        if turned
        else ""
    )
    return "; ".join(filter(None, (swapped, major)))


def _chunks(arrays: Arrays, a: np.ndarray, b: np.ndarray, itemsize: int, code: Code) -> Explanation | None:
    """Are 16-byte chunks of an operand multiplied in the place of others, as a wrong lane address of ldmatrix or a missing swizzle makes it?"""
    found = {}
    for name, mine, other, d in (("A", a, b, arrays.found), ("B", b, a, arrays.found.T)):
        weights = _weights(mine, other, d, itemsize)
        if weights is None:
            continue
        product = _mixed(mine, weights, CHUNK // itemsize) @ other.T
        if arrays.gives((product if name == "A" else product.T).astype(arrays.wanted.dtype)):
            found[name] = weights
    # Where all rows are alike, the same may be said of the other operand: it is the one of which each place has one chunk.
    found = {name: w for name, w in found.items() if _is_choice(w)} or found
    if not found:
        return None
    told = [
        f"16-byte chunks of {name} are multiplied in the place of others: {_weights_told(w, CHUNK // itemsize)}"
        for name, w in found.items()
    ]
    look = [f"{code.reads.get(name, f'the instructions that read {name}')}" for name in found] + [
        w for name in list(found)[:1] if (w := code.writes.get(name))
    ]
    return Explanation("; or ".join(told), f"look at the row and the chunk in the addresses of {' and '.join(look)}")


def _is_choice(weights: np.ndarray) -> bool:
    """Is there one chunk in each place?"""
    return bool((np.abs(weights).sum(axis=(2, 3)) == 1).all() and (weights.sum(axis=(2, 3)) == 1).all())


PARTNER = 8  # rows of a matrix of ldmatrix: the one that another matrix holds is so far away


def _weights(mine: np.ndarray, other: np.ndarray, found: np.ndarray, itemsize: int) -> np.ndarray | None:
    """(16, chunk, 2, chunk): how often, for rows r and r ^ 8 of each r % 16, a chunk of `mine` stands where another one of its line belongs."""
    per = CHUNK // itemsize
    count = next((n for n in (LINE // CHUNK, 4, 2) if mine.shape[1] % (n * per) == 0), 0)
    if not count or len(mine) % BLOCK or len(other) < SOME:
        return None
    columns = np.unique(np.linspace(0, len(other) - 1, SOME).astype(int))
    theirs = other[columns].reshape(len(columns), -1, count, per)
    weights = np.zeros((BLOCK, count, 2, count))
    for row in range(BLOCK):
        rows = np.arange(row, len(mine), BLOCK)[: SOME // 4]
        pair = np.stack([mine[rows], mine[rows ^ PARTNER]], axis=1).reshape(len(rows), 2, -1, count, per)
        terms = np.einsum("rptae,ntbe->rnbpa", pair, theirs, optimize=True).reshape(len(rows) * len(columns), -1).astype(np.float64)
        if len(terms) < 2 * terms.shape[1]:
            return None
        solved = _solved(terms, found[np.ix_(rows, columns)].astype(np.float64).ravel())
        if solved is None or np.abs(solved - np.rint(solved)).max() > SURE:
            return None
        weights[row] = np.rint(solved).reshape(count, 2, count)
    return weights


def _solved(terms: np.ndarray, sums: np.ndarray) -> np.ndarray | None:
    """How often each term is in the sums; None where they do not tell."""
    square = terms.T @ terms
    try:
        return np.asarray(np.linalg.solve(square, terms.T @ sums))
    except np.linalg.LinAlgError:
        return None


def _mixed(mine: np.ndarray, weights: np.ndarray, per: int) -> np.ndarray:
    """An operand as it would be that gives the same product by right instructions."""
    rows, count = len(mine), weights.shape[1]
    lines = mine.reshape(rows, -1, count, per)
    mixed = np.zeros_like(lines)
    for row, to, half, chunk in np.argwhere(weights):
        mixed[row::BLOCK, :, to] += weights[row, to, half, chunk].astype(mine.dtype) * lines[row ^ PARTNER * half :: BLOCK, :, chunk]
    return mixed.reshape(mine.shape)


def _weights_told(weights: np.ndarray, per: int) -> str:
    count = weights.shape[1]
    row, chunk = np.indices((BLOCK, count))
    source = weights.reshape(BLOCK, count, -1).argmax(axis=2)
    if _is_choice(weights) and (source < count).all():
        moved = source ^ chunk
        laws = {f"c ^ {n}": np.full_like(chunk, n) for n in range(1, count)}
        laws |= {f"c ^ (r % {n})": row % n for n in (2, 4, 8)} | {
            f"c ^ (r // {n} % {m})": row // n % m for n, m in ((2, 4), (4, 2), (2, 2))
        }
        moves = next((name for name, law in laws.items() if (moved == law).all()), "")
        if moves:
            return f"chunk {moves} of row r stands where chunk c belongs (a chunk is k = {per} c to {per} c + {per - 1}, of each {count * per})"
    kinds: dict[str, list[int]] = {}
    for r in range(BLOCK):
        for c in range(count):
            of = [(int(p), int(s), int(weights[r, c, p, s])) for p, s in np.argwhere(weights[r, c])]
            if of == [(0, c, 1)]:
                continue
            text = " + ".join(f"{f'{w} x ' * (w != 1)}chunk {s}{f' of row r ^ {PARTNER}' * p}" for p, s, w in of) or "nothing"
            kinds.setdefault(f"{text} stands where chunk {c} belongs", []).append(r)
    parts = [f"{text}{'' if len(rows) == BLOCK else f' in rows {numbers_told(rows, BLOCK)} of {BLOCK}'}" for text, rows in kinds.items()]
    return f"{', '.join(parts[:SHOWN])}{', ...' if len(parts) > SHOWN else ''} (a chunk is {per} k, {count} of them {count * per})"


# ---- The right places and wrong numbers: what was there before, the other sign, a factor, another type in between


NARROWER = ("e5m2", "e4m3", "bf16", "f16", "tf32")  # the narrowest first: its numbers are those of the wider ones too
FACTORS = 64
LOST = 5  # bits behind the last one of a type: a conversion to it moves most numbers by more
MOST_RUNS = 1 << 16
MOST_NEAR = 0.999  # of them: what is summed in another order may come to the other side of a tie


def unwritten(arrays: Arrays) -> Explanation | None:
    """Nothing was written there, or what was there already."""
    before, old = arrays.before, arrays.old
    r, c = arrays.places
    zeros = before is None or not before[r, c].any()
    if (
        not arrays.near(arrays.found[r, c], np.broadcast_to(old, arrays.shape)[r, c]).all()
        or not arrays.near(arrays.found, old)[arrays.wrong].all()
    ):
        return None
    where = _where(arrays)
    for sign, name in ((-1, "negative"), (1, "positive")):
        signed, least = arrays.wanted * sign, 4 * arrays.relative * arrays.scale
        if (
            zeros
            and (signed[r, c] > 0).all()
            and not (~arrays.wrong & (signed > least)).any()
            and (~arrays.wrong & (signed < -least)).sum() >= LEAST
        ):
            return Explanation(f"every {name} number is 0", "look for a max or min with 0 (relu), or a conversion to unsigned")
    held = "is 0" if zeros else "holds what was there before the launch"
    also = ", as before the launch" if zeros and before is not None else ""
    return Explanation(
        f"all that is wrong {held}{also}, {where}",
        "look whether a store reaches these elements: the grid, a tile's coordinates, a predicate, a loop that ends too early",
    )


def negated(arrays: Arrays) -> Explanation | None:
    """The explanation that every element has the opposite sign; None where that is not so."""
    if not arrays.gives(-arrays.wanted):
        return None
    return Explanation(
        "it has the other sign everywhere", "look at imm-scale-a and imm-scale-b (or negate-a, negate-b), or at a factor of -1"
    )


def scaled(arrays: Arrays) -> Explanation | None:
    """The explanation that every element was multiplied by one constant factor; None where that is not so."""
    r, c = arrays.places
    a, b = arrays.found[r, c].astype(np.float64), arrays.wanted[r, c].astype(np.float64)
    if not (b != 0).any():
        return None
    factor = float((a * b).sum() / (b * b).sum())
    if not np.isfinite(factor):
        return None
    nearest = next(
        (k / n for n in range(1, FACTORS) for k in (round(factor * n),) if k and abs(k / n - factor) < 2**-10 * abs(factor)), factor
    )
    power = 2.0 ** round(np.log2(abs(factor))) if factor else 0.0
    for k in dict.fromkeys([np.copysign(power, factor), nearest, factor]):
        if abs(k - 1) > 2**-6 and abs(k) > 2**-24 and arrays.gives(arrays.wanted * arrays.wanted.dtype.type(k)):
            told = f"1/{round(1 / k)}" if abs(k) < 1 and 1 / k == round(1 / k) else f"{k:.6g}"
            return Explanation(
                f"all of it is {told} of what was expected", "look at alpha, the scale factors of the operands, or a sum over several CTAs"
            )
    return None


def added(arrays: Arrays) -> Explanation | None:
    """The explanation that one constant was added to every element; None where that is not so."""
    r, c = arrays.places
    more = float(np.median(arrays.found[r, c].astype(np.float64) - arrays.wanted[r, c]))
    if not more or not np.isfinite(more) or not arrays.gives(arrays.wanted + arrays.wanted.dtype.type(more)):
        return None
    return Explanation(
        f"all of it is {abs(more):.6g} too {'large' if more > 0 else 'small'}", "look at the bias, or at what the accumulator begins with"
    )


def narrower(found: np.ndarray, wanted: np.ndarray, dtype: str) -> Explanation | None:
    """Are all values those of a narrower type, next to the expected ones? Then they went through it. `found` and `wanted` are numbers of type `dtype`."""
    own = FORMATS.get(dtype)
    if own is None or not own.is_float:
        return None
    some = np.flatnonzero(np.isfinite(wanted) & np.isfinite(found) & (wanted != 0))
    some = some[:: max(1, len(some) // 65536)]
    a, b = (np.asarray(v, np.float64).reshape(-1)[some] for v in (found, wanted))
    for name in NARROWER:
        fmt = FORMATS[name]
        if fmt.fraction_bits >= own.fraction_bits or len(a) < LEAST:
            continue
        least = 2.0 ** (fmt.smallest_exponent - fmt.fraction_bits)
        near = np.abs(a - b) <= 2.0**-fmt.fraction_bits * np.abs(b) + least
        cut = np.median(np.abs(a - b) / np.abs(b)) >= 2.0 ** -(fmt.fraction_bits + LOST)  # else the numbers were short by themselves
        if not cut or len(np.unique(a)) < LEAST or not _is_of(a, name) or _is_of(b, name) or near.mean() < MOST_NEAR:
            continue
        told = {"f16": "f16 (or tf32)"}.get(name, name)  # whose numbers have as many bits
        return Explanation(
            f"all of it are {told} numbers, rounded or cut off from what was expected",
            f"look for a conversion to {name} before D is written",
        )
    return None


def _is_of(values: np.ndarray, dtype: str) -> bool:
    """Are all numbers those of a type?"""
    return bool((to_float64(from_float64(values, dtype), dtype) == values).all())


def _where(arrays: Arrays) -> str:
    """The places that are wrong, in words; elements between them that were not to change are left out."""
    places = _places(arrays.wrong)
    if "..." not in places:
        return places
    same = np.concatenate([[False], arrays.near(arrays.found, arrays.old).ravel(), [False]])
    edges = np.flatnonzero(same[1:] != same[:-1]).reshape(-1, 2)
    wrong = np.concatenate([[0], np.cumsum(arrays.wrong)])
    held = np.zeros(arrays.wrong.size, bool)
    has_wrong = wrong[edges[:, 1]] > wrong[edges[:, 0]]
    for begin, end in edges[has_wrong][:MOST_RUNS]:
        held[begin:end] = True
    other = _places(held.reshape(arrays.shape))
    return places if "..." in other else other


def _places(which: np.ndarray) -> str:
    rows, columns = (np.flatnonzero(which.any(axis)).tolist() for axis in (1, 0))
    if which.shape[0] == 1:
        return f"in elements {numbers_told(columns, which.shape[1])}"
    return f"in rows {numbers_told(rows, which.shape[0])}, columns {numbers_told(columns, which.shape[1])}"


VALUES: tuple[Callable[[Arrays], Explanation | None], ...] = (unwritten, negated, scaled, added)


# ---- The simplest rule that gives an array as a kernel left it from the one that was expected


MOST_TILES = 6


def explain_arrays(
    found: np.ndarray, wanted: np.ndarray, *, before: np.ndarray | None = None, dtype: str = "", tiles: Sequence[Tile] = (), relative: float = 0.0,
    itemsize: int | None = None, tolerance: Tolerance = EXACT,
) -> Explanation | None:  # fmt: skip
    """What one rule makes of `wanted` what is `found`, numbers of one shape (rows, columns); None where none is certain.

    `before` is what the array held, `dtype` the element type by its PTX name, `tiles` how the kernel may write it, `itemsize` the bytes of an
    element in memory. Elements that differ by less than `relative`, or within `tolerance`, are equal. A rule must give all wrong elements but those at edges, and
    must not be one that chance or a few distinct values could satisfy.

    >>> wanted = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    >>> str(explain_arrays(wanted.T, wanted)).partition(";")[0]
    'it is transposed: [m, n] has what belongs in [n, m]'
    >>> explain_arrays(np.random.default_rng(1).standard_normal((64, 64)), wanted), explain_arrays(wanted * 0 + 1, wanted * 0)
    (None, None)
    """
    arrays = Arrays(found, wanted, before, relative=relative, itemsize=itemsize or found.dtype.itemsize, tolerance=tolerance)
    if arrays.count < LEAST:
        return None if arrays.count else narrower(found, wanted, dtype)
    of_stores = (one(arrays, tile) for tile in tiles if tile.swizzle for one in SWIZZLES)
    if (explanation := next((explanation for explanation in of_stores if explanation is not None), None)) is not None and not repeats(
        arrays
    ):
        return explanation
    simple = [next((explanation for rule in rules if (explanation := rule(arrays)) is not None), None) for rules in (VALUES, PLACES)]
    given = [explanation for explanation in simple if explanation is not None]
    if len(given) > 1:  # of numbers that count up, the next one is one more
        return Explanation(f"{given[0].what}; or {given[1].what}", "these numbers do not tell which")
    if given:
        return given[0]
    tried = () if repeats(arrays) else (*tiles, *usual_tiles(arrays, tiles)[:MOST_TILES])
    for rules in BOXES:
        for tile in tried:
            for one in rules:
                if (explanation := one(arrays, tile)) is not None:
                    return explanation
    return narrower(found, wanted, dtype)


def usual_tiles(arrays: Arrays, known: Sequence[Tile]) -> list[Tile]:
    """Tiles that kernels often write, where nothing says which: those a swizzle wide, the matrices of stmatrix, and tiles of CTAs."""
    rows, columns = arrays.shape
    inner = [] if known else [MODES[mode].width // arrays.itemsize for mode in (Swizzle.B128, Swizzle.B64, Swizzle.B32)]
    shapes = [(64, n) for n in inner] + [(8, 8), (128, 128), (64, 64), (128, 64), (64, 128), (64, 256), (128, 256)]
    shapes = [s for s in dict.fromkeys(shapes) if s[0] <= rows and s[1] <= columns and rows % s[0] == 0 and columns % s[1] == 0]
    return [Tile(*s) for s in shapes if s not in {(t.rows, t.columns) for t in known}]
