"""The descriptor fault that makes a product wrong.

D is linear in A: with at least as many columns as K has elements, D gives every element of A, and in the same way of B.
If these are the tile's own chunks at other places, the places are a layout, and descriptors for it are searched.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from smemsim.base.arguments import choice, shown, whole
from smemsim.base.array_files import RAW_SIZES
from smemsim.base.errors import InputError, Unmodelled
from smemsim.base.floating_point import in_default_state
from smemsim.base.members import OwnMembers
from smemsim.core.arithmetic.multiply import row_of
from smemsim.core.arithmetic.values import from_float64, raw_bits, to_float64
from smemsim.core.spec.architectures import Architecture, architecture
from smemsim.core.spec.formats import ElementFormat, element_format
from smemsim.core.spec.shared_memory import ATOM_ROWS, CHUNK, LINE
from smemsim.core.spec.smem_descriptor import REACH, START, layout_codes
from smemsim.core.spec.swizzles import MODES, Swizzle, SwizzleMode
from smemsim.core.spec.tcgen05 import KINDS
from smemsim.core.spec.wgmma import WGMMA_M
from smemsim.core.words.operand import swizzled
from smemsim.core.words.operand_layout import check_major, check_packing
from smemsim.core.words.smem import SmemDescriptor
from smemsim.diagnosis.descriptors.answers import FoundDescriptor, read_addresses
from smemsim.diagnosis.descriptors.places import inverted, solutions
from smemsim.diagnosis.descriptors.shapes import Shape
from smemsim.diagnosis.difference.compared import Compared
from smemsim.diagnosis.difference.diagnose import LooksLike, Tests, diagnose
from smemsim.diagnosis.difference.sides import Product, Side
from smemsim.diagnosis.numbers import PERIODS, numbers_told
from smemsim.diagnosis.parts import part_name
from smemsim.diagnosis.pointers import pointer_faults, sums

__all__ = [
    "NOBODY",
    "ZERO",
    "Fault",
    "ProductExplanation",
    "ProductFault",
    "Tile",
    "candidates_of",
    "element_bits",
    "explain_product",
    "faults_of",
    "in_part",
    "moved_chunks",
    "pattern",
    "recovered",
    "solved_for",
    "those",
]


# ---- Matrices as people have them: raw bits, or numbers of numpy


def element_bits(name: str, value: Any, fmt: ElementFormat) -> np.ndarray:
    """Raw bits of a type. Unsigned integers are raw bits; float arrays, and signed ones for integer types, are numbers,
    which the type must have.

    >>> from smemsim.core.spec.formats import FORMATS
    >>> element_bits("a", np.array([1.0, -2.0], np.float32), FORMATS["bf16"]).tolist()
    [16256, 49152]
    """
    try:
        array = np.asarray(value)
    except ValueError:  # rows of several lengths
        raise InputError(f"{name} = {shown(value)}: needs an array") from None
    # ml_dtypes, also from a file
    if array.dtype.kind == "V" or (array.dtype.kind == "f" and array.dtype.name in fmt.numpy_names):
        if array.dtype.itemsize * 8 < fmt.bits or array.dtype.names is not None or array.dtype.itemsize not in RAW_SIZES:
            raise InputError(f"{name}: an array of {array.dtype}; {fmt.name} has {fmt.bits} bits")
        return raw_bits(name, np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}"), fmt)
    if array.dtype.kind == "i" and not fmt.is_float and fmt.signed:
        limit = 1 << fmt.bits - 1
        if array.size and (array.min() < -limit or array.max() >= limit):
            raise InputError(f"{name} has numbers outside {-limit} ... {limit - 1}: {fmt.name} has {fmt.bits} bits")
        return raw_bits(name, array.astype(np.int64) & (1 << fmt.bits) - 1, fmt)
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # signalling NaNs
            values = array.astype(np.float64)
        if not fmt.is_float:
            raise InputError(f"{name}: an array of {array.dtype}; needs whole numbers of {fmt.name}")
        bits = from_float64(values, fmt.name)
        with np.errstate(invalid="ignore"):
            off = (to_float64(bits, fmt.name) != values) & ~np.isnan(values)
        if off.any():
            raise InputError(f"{name} has {float(values[off][0])!r}, which is no {fmt.name}: round to {fmt.name} first, or give raw bits")
        return bits
    if array.dtype.kind not in "ui":
        raise InputError(f"{name} = {shown(value)}: needs an array of raw {fmt.name} bits, or of numbers")
    return raw_bits(name, array, fmt)


# ---- Where a D is wrong, in words: how much of it, and which rows, columns, or pairs of both are right


NEARLY = 0.9  # what is right by chance does not count


def pattern(wrong: np.ndarray, *, is_rounding: bool = False) -> str:
    """The shortest rule for the wrong elements of D, if there is one. For differences that `is_rounding`, only their
    number.

    >>> row = np.arange(16)
    >>> pattern(np.repeat((row % 8 > 0)[:, None], 8, axis=1))
    '87.5 % of D is wrong (112 of 128): rows 0 mod 8 are right, all others wrong'
    """
    if not wrong.any():
        return "all of D is right"
    share = (
        f"{wrong.mean() * 100:.4g} % of D {'differs in the last bits' if is_rounding else 'is wrong'} ({int(wrong.sum())} of {wrong.size})"
    )
    if wrong.all() or is_rounding:
        return share
    sentences = []
    for axis, what in ((1, "row"), (0, "column")):
        right = np.asarray(~wrong.any(axis=axis))
        if right.any():
            sentences.append(_lines(right, what, is_whole=bool(wrong.mean(axis=axis)[~right].min() > NEARLY)))
    if not sentences:
        sentences = [_pairs(wrong)]
    return ": ".join(filter(None, (share, " and ".join(sentences))))


def _lines(right: np.ndarray, what: str, *, is_whole: bool) -> str:
    """Which lines are right, or which are wrong where that is shorter; those are wrong as a whole, or in part."""
    own, lost = (np.nonzero(x)[0].tolist() for x in (right, ~right))
    right_lines, others = numbers_told(own, len(right)), numbers_told(lost, len(right))
    if others.count(",") < right_lines.count(","):
        are = f"{what}s {others} are" if len(lost) > 1 else f"{what} {others} is"
        return f"{are} wrong{'' if is_whole else ' in part'}, all other {what}s are right"
    rest = "all others wrong" if is_whole else "the others are wrong in part"
    if right_lines.endswith("..."):
        return f"{len(own)} of {len(right)} {what}s are right, the first is {own[0]}, {rest}"
    return f"{what}s {right_lines} are right, {rest}" if len(own) > 1 else f"{what} {right_lines} is right, {rest}"


def _pairs(wrong: np.ndarray) -> str:
    """Elements that are right because row and column agree modulo something."""
    row, column = np.arange(wrong.shape[0])[:, None], np.arange(wrong.shape[1])[None]
    for period in PERIODS:
        same = row % period == column % period
        if not wrong[same].any() and wrong[~same].mean() > NEARLY:
            return f"elements with row mod {period} == column mod {period} are right, all others wrong"
    return ""


# ---- An operand of a whole tile in the plain layout of its swizzle, and which elements other
# descriptors would read of it


NOBODY, ZERO = -1, -2  # instead of an element: outside of the tile, and uninitialised, which is 0
BASE = 1 << 14  # a multiple of every swizzle's period, with room before it


@dataclasses.dataclass(frozen=True, eq=False)
class Tile:
    """Panels as wide as the swizzle, one after the other; in each the lines (rows of a K-major operand, else of K)
    follow one another.

    TMA boxes whose inner dimension is the swizzle's width have this layout. `shape` cuts it into the blocks and steps
    of instructions.
    """

    shape: Shape
    mode: SwizzleMode

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and K of the whole tile."""
        return self.shape.blocks * self.shape.rows, self.shape.steps * self.shape.k

    @functools.cached_property
    def offsets(self) -> np.ndarray:
        """(lines, chunks) of the whole tile: bytes from its begin, before the XOR."""
        s = self.shape
        rows, k = self.extent
        lines, along = (rows, k) if s.major == "K" else (k, rows)
        line, byte = np.arange(lines)[:, None], np.arange(-(-along // s.per_chunk))[None] * CHUNK
        width = self.mode.width
        return np.asarray(byte // width * (lines * width) + line * width + byte % width)

    def addresses(self, offsets: np.ndarray, mode: SwizzleMode | None = None, base: int = BASE) -> np.ndarray:
        """The places at which chunks of these offsets are written, also with another swizzle."""
        return swizzled(base + offsets, mode or self.mode)

    def cut(self, elements: np.ndarray) -> np.ndarray:
        """(rows, k) of the tile as (blocks, steps, rows, k) of its instructions."""
        s = self.shape
        return elements.reshape(s.blocks, s.rows, s.steps, s.k).swapaxes(1, 2)

    def joined(self, elements: np.ndarray) -> np.ndarray:
        """The inverse of `cut`."""
        return elements.swapaxes(1, 2).reshape(self.extent)

    @functools.cached_property
    def places(self) -> np.ndarray:
        """(blocks, steps, rows, k): where every element lies."""
        s = self.shape
        chunks = self.addresses(self.offsets)
        rows, k = self.extent
        along = np.arange(k if s.major == "K" else rows)
        lined = chunks[:, along // s.per_chunk] + along % s.per_chunk * s.fmt.bits // 8
        return self.cut(s.lined(lined))

    @functools.cached_property
    def right(self) -> FoundDescriptor:
        """The words that read it. Raises InputError for a tile that no descriptor of its swizzle reads."""
        for one in solutions(self.shape, self.places):
            if one.swizzle is self.mode.swizzle:
                return one
        s = self.shape
        raise InputError(
            f"swizzle {self.mode.swizzle}: no descriptor reads a {s.major}-major tile of {s.fmt.name} in instructions of {s.rows} x {s.k} with it, below {REACH - BASE} B"
        )

    def owners(self, addresses: np.ndarray, written: np.ndarray | None = None) -> np.ndarray:
        """The chunk of the tile (its number) at every 16 B of shared memory, NOBODY's elsewhere; ZERO for those that
        were not `written`.
        """
        owner_of_chunk = np.full(2 * REACH // CHUNK, NOBODY, np.int64)
        number = np.arange(addresses.size)
        owner_of_chunk[addresses.ravel() // CHUNK] = number if written is None else np.where(written.ravel(), number, ZERO)
        return owner_of_chunk

    def read(self, words: np.ndarray, owners: np.ndarray, major: str | None = None) -> np.ndarray | None:
        """(rows, k): the element of the tile, row * K + k, that is read instead of each one; None if the reads of the
        words are not known.
        """
        s = self.shape if major is None else dataclasses.replace(self.shape, major=major)
        try:
            lined = s.lined(read_addresses(s, words))
        except (Unmodelled, InputError):
            return None
        inside = lined >= 0
        chunk = owners[np.where(inside & (lined < 2 * REACH), lined, 0) // CHUNK]
        own = np.broadcast_to(np.arange(s.along) % s.per_chunk, lined.shape)
        count = self.offsets.shape[1]
        line, along = chunk // count, chunk % count * s.per_chunk + own
        rows, k = self.extent
        row, column = (line, along) if self.shape.major == "K" else (along, line)
        found = np.where((chunk >= 0) & (row < rows) & (column < k), row * k + column, np.minimum(chunk, NOBODY))
        return self.joined(s.lined(found)).astype(np.int32)


# ---- What an operand must have been, solved for from D, chunk by chunk: where each chunk came from, and the
# descriptor that reads it so


SINGULAR = 1e6  # of a matrix whose equations say too little
AT_ONCE = 512  # chunks that are compared with all others


def recovered(c: Compared, tile: Tile, name: str) -> np.ndarray | None:
    """(rows, k): the element of the tile (row * K + k, or ZERO) that each one was; None if D does not show it."""
    p = c.product
    matrix = p.terms("BA"["AB".index(name)])
    with np.errstate(all="ignore"):
        given = c.values(c.hardware) - p.start()
    given = given if name == "A" else given.T
    if len(matrix) < matrix.shape[1] or not (np.isfinite(matrix).all() and np.isfinite(given).all()):
        return None
    s = tile.shape
    own = s.lined(p.terms(name))
    orthogonal, triangle = np.linalg.qr(matrix)
    scale = np.abs(np.diagonal(triangle))
    if scale.max() >= SINGULAR * scale.min() or not np.isfinite(own).all():
        return None
    solved = np.linalg.solve(triangle, orthogonal.T @ given.T)
    room = (c.loose if name == "A" else c.loose.T).T
    if (np.abs(matrix @ solved - given.T) > room).any():
        return None
    was = s.lined(solved.T)
    vectors, wanted = _chunks(own, s.per_chunk), _chunks(was, s.per_chunk)
    known = np.concatenate([vectors, np.zeros_like(vectors[:1])])
    squares = (known**2).sum(axis=1)
    nearest = np.empty(len(wanted), np.int64)
    for first in range(0, len(wanted), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        nearest[part] = np.argmin(squares - 2 * wanted[part] @ known.T, axis=1)
    stay = (np.arange(len(wanted)), nearest)
    same = (known[stay[0]] == known[stay[1]]).all(axis=1)
    nearest = np.where(same, stay[0], nearest)
    count = tile.offsets.shape[1]
    chunk = np.repeat(nearest.reshape(-1, count), s.per_chunk, axis=1)[:, : own.shape[1]]
    along = chunk % count * s.per_chunk + np.arange(own.shape[1]) % s.per_chunk
    row, k = (chunk // count, along) if s.major == "K" else (along, chunk // count)
    rows, columns = tile.extent
    inside = (row < rows) & (k < columns) & (chunk < len(vectors))
    return np.asarray(s.lined(np.where(inside, row * columns + k, ZERO)))


def _chunks(lined: np.ndarray, per_chunk: int) -> np.ndarray:
    """(chunks, elements) of (lines, along)."""
    padded = np.pad(lined, ((0, 0), (0, -lined.shape[1] % per_chunk)))
    return padded.reshape(-1, per_chunk)


def moved_chunks(tile: Tile, source: np.ndarray) -> tuple[str, str]:
    """(fields, what were otherwise) for elements that come from elsewhere in the tile."""
    lies = tile.joined(tile.places).ravel()
    found = [] if (source < 0).any() else inverted(tile.shape, tile.cut(lies[source]))[0]
    if found:
        return min((_changes(tile, one) for one in found), key=lambda one: one[0].count(",") + 5 * ("absolute" in one[1]))
    rule = _xor(tile, source)
    if rule:
        return "swizzle", rule
    columns = tile.extent[1]
    moved = np.argwhere(source != np.arange(source.size).reshape(source.shape))
    row, k = (int(x) for x in moved[0])
    from_ = int(source[row, k])
    what = "0" if from_ < 0 else f"what belongs in ({from_ // columns}, {from_ % columns})"
    text = "made of its own 16-byte chunks in other places, as no descriptor reads them"
    return "layout", f"{text}: ({row}, {k}) has {what} ({len(moved)} of {source.size} elements)"


def _xor(tile: Tile, source: np.ndarray) -> str:
    """Chunks that stay in their line with an XOR of the line number that is no known swizzle, in words; "" for other
    patterns.
    """
    s = tile.shape
    lined, right = s.lined(source), s.lined(np.arange(source.size).reshape(source.shape))
    count = lined.shape[1] // s.per_chunk
    first = lined[:, :: s.per_chunk][:, :count]
    lines = right[:, :: s.per_chunk][:, :count]
    chunk_of = {int(x): i for line in lines for i, x in enumerate(line)}
    moved = np.array([[chunk_of.get(int(x), -1) for x in line] for line in first])
    keys = moved ^ np.arange(count)
    same_line = np.isin(first, lines) & (np.sort(first, axis=1) == np.sort(lines, axis=1))
    if (moved < 0).any() or not same_line.all() or (keys != keys[:, :1]).any() or len(keys) < 8:
        return ""
    key = keys[:, 0]
    if (key != key[np.arange(len(key)) % 8]).any():
        return ""
    line = "row" if s.major == "K" else "k"
    return f"read with chunk c of each {line} taken for c ^ {key[:8].tolist()}[{line} % 8], which no descriptor does here: is the swizzle meant another?"


def _changes(tile: Tile, descriptor: FoundDescriptor) -> tuple[str, str]:
    """In which fields a descriptor is not the right one."""
    right = tile.right
    fields = (
        ("layout_type", "swizzle", right.swizzle, descriptor.swizzle),
        ("base_offset", "base offset", 0, 0 if 0 in descriptor.base_offsets else descriptor.base_offsets[0]),
        ("leading_byte_offset", "LBO", right.leading, descriptor.leading),
        ("stride_byte_offset", "SBO", right.stride, descriptor.stride),
    )
    changed = [
        (field, f"{name} {new}{'' if old is None else f' instead of {old}'}") for field, name, old, new in fields if new not in (None, old)
    ]
    if descriptor.absolute:
        changed.append(("lbo_mode", "absolute LBO"))
    by = descriptor.starts - right.starts
    if by.any():
        by_all = (by == by[0, 0]).all()
        off = [f"{part_name(block, step, *by.shape)} {int(by[block, step]):+} B" for block, step in np.argwhere(by).tolist()]
        changes = (
            f"starts {int(by[0, 0]):+} B"
            if by_all
            else f"other starts: {', '.join(off[:4])}{f', … ({len(off)} of {by.size})' if len(off) > 4 else ''}"
        )
        changed.append(("start_address", changes))
    return ", ".join(field for field, _ in changed), f"read with {' and '.join(text for _, text in changed)}"


# ---- The faults that descriptors and writers are known to have, as what an operand becomes by them


class Fault(NamedTuple):
    """The fault, as the end of "the operand were ...". The field to look at is `field`. The element read in place of
    each is `source` (rows, k).
    """

    field: str
    text: str
    source: np.ndarray


class Words(NamedTuple):
    """Fields of the words of a tile; starts (blocks, steps)."""

    swizzle: Swizzle
    base: int
    leading: int
    stride: int
    starts: np.ndarray

    def encoded(self, arch: str) -> np.ndarray:
        """The words; starts lose what does not fit the field."""
        fields: dict[str, Any] = {"leading_byte_offset": self.leading, "stride_byte_offset": self.stride, "base_offset": self.base}
        word = SmemDescriptor(arch=arch, swizzle=self.swizzle, **fields).encode()
        return np.uint64(word) | (self.starts >> START.shift & START.mask).astype(np.uint64)


def faults_of(tile: Tile) -> Iterator[Fault]:
    """All faults of descriptors and writers that are known, the most common first; a fault may change nothing, or the
    same as another one.
    """
    right, arch = tile.right, tile.shape.machine.name
    words = Words(right.swizzle, 0, CHUNK if right.leading is None else right.leading, right.stride or 0, right.starts)
    plain = tile.owners(tile.addresses(tile.offsets))
    yield from _writers(tile, words, arch)
    for field, text, other, major in _readers(tile, words):
        try:
            encoded = other.encoded(arch)
        except InputError:  # a field that does not hold it
            continue
        source = tile.read(encoded, plain, major)
        if source is not None:
            yield Fault(field, text, source)


def _writers(tile: Tile, words: Words, arch: str) -> Iterator[Fault]:
    """The data lie otherwise than the descriptor has it."""
    right = words.encoded(arch)

    def read(field: str, text: str, owners: np.ndarray, given: np.ndarray = right) -> Iterator[Fault]:
        source = tile.read(given, owners)
        if source is not None:
            yield Fault(field, text, source)

    for name in dict.fromkeys(layout_codes(tile.shape.machine.smem_descriptor).values()):
        if MODES[name] is not tile.mode:
            where = tile.addresses(tile.offsets, MODES[name])
            yield from read("swizzle of the writer", f"written with swizzle {name} and read with {tile.mode.swizzle}", tile.owners(where))
    for lines_off in range(1, tile.mode.mask + 1):
        by = LINE * lines_off
        where = tile.addresses(tile.offsets, base=0) + BASE + by
        moved = words._replace(starts=words.starts + by).encoded(arch)
        text = f"written with the XOR of offsets in a buffer {by} B past a multiple of {tile.mode.period} B (hardware takes addresses)"
        yield from read("base address", text, tile.owners(where), moved)
    lines, chunks = tile.offsets.shape
    where = tile.addresses(tile.offsets)
    line, chunk = np.broadcast_arrays(np.arange(lines)[:, None], np.arange(chunks)[None])
    panel, panels = chunk // tile.mode.chunks, -(-chunks // tile.mode.chunks)
    what = ("rows", "K") if tile.shape.major == "K" else ("K", "rows")
    for half, missing in (("second", line >= lines // 2), ("first", line < lines // 2)):
        yield from read("the writer's box", f"written without the {half} half of its {what[0]}, which is 0", tile.owners(where, ~missing))
    for half, missing in (("second", chunk >= chunks // 2), ("first", chunk < chunks // 2)):
        yield from read("the writer's box", f"written without the {half} half of its {what[1]}, which is 0", tile.owners(where, ~missing))
    for number in range(panels if panels > 2 else 0):
        text = f"written without panel {number} of {panels} ({tile.mode.width} B wide), which is 0"
        yield from read("the writer's box", text, tile.owners(where, panel != number))


def _readers(tile: Tile, w: Words) -> Iterator[tuple[str, str, Words, str | None]]:
    """(field, text, words, major-ness if it is another) that read the tile otherwise."""
    s = tile.shape
    for name in dict.fromkeys(layout_codes(s.machine.smem_descriptor).values()):
        if name is not w.swizzle:
            mode = MODES[name]
            text = f"read with swizzle {name} where they lie in {w.swizzle}"
            yield "layout_type", text, w._replace(swizzle=name), None
            rows = mode.k_rows if s.major == "MN" else ATOM_ROWS
            yield "layout_type", f"{text} (SBO {rows * mode.width} B)", w._replace(swizzle=name, stride=rows * mode.width), None
    for base in range(1, tile.mode.mask + 1):
        yield "base_offset", f"read with base offset {base} instead of 0", w._replace(base=base), None
    if tile.right.leading is not None and tile.right.stride is not None:
        yield (
            "LBO and SBO",
            f"read with LBO and SBO exchanged ({w.stride} and {w.leading} B)",
            w._replace(leading=w.stride, stride=w.leading),
            None,
        )
    for field, own, used in (("stride_byte_offset", w.stride, tile.right.stride), ("leading_byte_offset", w.leading, tile.right.leading)):
        short = "SBO" if field.startswith("stride") else "LBO"
        for value in _strides(own) if used is not None else ():
            hint = (
                " (bytes where the field counts 16 B)"
                if value == own * CHUNK % REACH
                else " (shifted right twice)"
                if value * CHUNK == own
                else ""
            )
            changed = w._replace(stride=value) if short == "SBO" else w._replace(leading=value)
            yield field, f"read with {short} {value} B instead of {own} B{hint}", changed, None
    other = "MN" if s.major == "K" else "K"
    spread = {w.leading, w.stride, tile.offsets.shape[0] * tile.mode.width}
    for leading in sorted(spread):
        yield "major", f"read {other}-major instead of {s.major}-major (LBO {leading} B)", w._replace(leading=leading), other
    yield from _starts(tile, w)


def _strides(own: int) -> list[int]:
    """Values that people write instead."""
    some = [
        own * CHUNK % REACH,
        own // (CHUNK * CHUNK) * CHUNK,
        0,
        2 * own,
        own // 2,
        4 * own,
        own // 4,
        8 * own,
        own // 8,
        *(CHUNK << i for i in range(10)),
    ]
    return [x for x in dict.fromkeys(some) if x != own and x % CHUNK == 0 and 0 <= x < REACH]


def _starts(tile: Tile, w: Words) -> Iterator[tuple[str, str, Words, str | None]]:
    """Faults of the start addresses: between K steps, between blocks, or of all of them."""
    for text, starts in (*_steps_moved(tile, w.starts), *_blocks_moved(w.starts), *_all_moved(w.starts)):
        yield "start_address", text, w._replace(starts=starts), None


def _steps_moved(tile: Tile, starts: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """(what the fault is, the starts (blocks, K steps) with it), of the advance from one K step to the next."""
    steps = starts.shape[1]
    if steps < 2:
        return
    first, by = starts[:, :1], starts - starts[:, :1]
    step = int(by[0, 1])
    straight = first + step * np.arange(steps)
    if (straight != starts).any():
        yield f"read with K steps {step} B apart all along, without the jump to the next panel", straight
        rows = tile.shape.rows * tile.mode.width
        jump = tile.offsets.shape[0] * tile.mode.width
        if tile.shape.major == "K" and rows != jump:
            text = f"read with panels {rows} B apart, those of one instruction's rows, instead of {jump} B"
            yield text, first + by // jump * rows + by % jump
    for factor, text in ((0, "not at all (the first step again and again)"), (2, "twice as far"), (0.5, "half as far (elements for bytes, say)"),
                         (1 / CHUNK, "1/16 as far (16-byte units shifted again)"), (CHUNK, "16 times as far (bytes in a field of 16 B)"), (4, "4 times as far")):  # fmt: skip
        yield f"read with K steps that advance {text}", first + (by * factor).astype(np.int64) // CHUNK * CHUNK
    for i in range(steps):
        for j in (i - 1, i + 1):
            if 0 <= j < steps:
                exchanged = starts.copy()
                exchanged[:, i] = starts[:, j]
                yield f"read in K step {i} as in step {j}", exchanged
    late = starts + np.diff(starts, append=starts[:, -1:] + step)
    yield "read with every K step one too far (the advance came before the first)", late


def _blocks_moved(starts: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """(what the fault is, the starts (blocks, K steps) with it), of the distance between blocks of rows."""
    if starts.shape[0] > 1:
        across = starts - starts[:1]
        for factor, text in ((0, "all the same"), (2, "twice as far apart"), (0.5, "half as far apart")):
            yield f"read with blocks of rows {text}", starts[:1] + (across * factor).astype(np.int64) // CHUNK * CHUNK


def _all_moved(starts: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """(what the fault is, the starts (blocks, K steps) with it), where all of them are off by one distance."""
    for far in (16, 32, 48, 64, 80, 96, 112, 128, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 16384):
        for sign, text in ((1, "further"), (-1, "back")):
            yield f"read {far} B {text} than it begins", starts + sign * far


# ---- Faults against a D: what each one makes of the operands, and is the product then that D?


SEEN = 12  # rows and columns of D that are looked at before anything else
MOST = 24  # faults that are multiplied


@dataclasses.dataclass(frozen=True)
class ProductFault:
    """One fault that gives D: the operand ("A", "B" or "A and B") and the field, in words. It explains `explained` of
    `of` elements of D. The other elements come from unknown memory outside the tile.
    """

    operand: str
    field: str
    text: str
    explained: int
    of: int

    @property
    def certain(self) -> bool:
        """Does it give all of D?"""
        return self.explained == self.of

    def __str__(self) -> str:
        rest = "" if self.certain else f" ({self.explained} of {self.of} elements; the others come from outside the tile)"
        return f"{self.operand} {'were' if ' ' in self.operand else 'was'} {self.text}{rest}"


class Candidate(NamedTuple):
    """A fault of one operand, or the same one of both."""

    operand: str
    field: str
    text: str
    sources: tuple[np.ndarray | None, np.ndarray | None]  # of A, of B; None where it is as it should be


def candidates_of(tiles: list[Tile]) -> Iterator[Candidate]:
    """The faults of A, those of B, and those of both that are the same."""
    own = [_different(tile.shape, tile.mode) for tile in tiles]
    for name, faults in zip("AB", own, strict=True):
        for fault in faults:
            yield Candidate(name, fault.field, fault.text, (fault.source, None) if name == "A" else (None, fault.source))
    other = {fault.text: fault for fault in own[1]}
    for fault in own[0]:
        if fault.text in other:
            yield Candidate("A and B", fault.field, fault.text, (fault.source, other[fault.text].source))


def pointers_of(tiles: list[Tile]) -> Iterator[Candidate]:
    """The faults of pointers into global memory, of A and of B; what both blocks of K get wrong alike is another sum
    (`sums`).
    """
    sizes = (tiles[0].extent[0], tiles[1].extent[0], tiles[0].extent[1])
    for name, tile in zip("AB", tiles, strict=True):
        for field, text, source in pointer_faults(tile.extent, sizes):
            yield Candidate(name, field, text, (source, None) if name == "A" else (None, source))


@functools.lru_cache(maxsize=4)
def _different(shape: Shape, mode: SwizzleMode) -> list[Fault]:
    """The faults of a tile that change what is read, without those that do what an earlier
    one of the same field does.
    """
    faults = list(faults_of(Tile(shape, mode)))
    right = np.arange(faults[0].source.size).reshape(faults[0].source.shape)
    some = {(one.field, one.source.tobytes()): one for one in reversed(faults) if (one.source != right).any()}
    return list(some.values())[::-1]


def _read(side: Side, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(lines, K) bits that are read instead, and which lines are known."""
    flat = side.flat()
    bits = np.where(source >= 0, flat.ravel()[np.maximum(source, 0)], 0).astype(flat.dtype)
    return bits, np.asarray((source != NOBODY).all(axis=1))


def _changed(product: Product, candidate: Candidate) -> tuple[Product, np.ndarray]:
    """The product with the fault, and which elements of D it knows."""
    known = np.ones(product.c.shape, bool)
    for name, source, axis in zip("AB", candidate.sources, (0, 1), strict=True):
        if source is not None:
            side = product.side(name)
            bits, lines = _read(side, source)
            product = product.having(name, side.steps(bits))
            known &= lines[:, None] if axis == 0 else lines[None]
    return product, known


def _near(c: Compared, candidates: list[Candidate], *, zeros: bool = False) -> Iterator[tuple[Candidate, bool]]:
    """Those whose sums, in float64, may be D in a few rows and columns; and, is everything of these known, if only
    because outside are `zeros`?
    """
    p = c.product
    rows, columns = (_sample(np.asarray(c.differs.any(axis=axis))) for axis in (1, 0))
    part = c.part(rows, columns)
    with np.errstate(all="ignore"):
        terms, start = [p.terms(name) for name in "AB"], p.start()[rows][:, columns]
        here = terms[0][rows] @ terms[1][columns].T
        for candidate in candidates:
            given, known = [], np.ones(here.shape, bool)
            for x, source, lines, axis in zip(terms, candidate.sources, (rows, columns), (0, 1), strict=True):
                if source is None:
                    given.append(x[lines])
                    continue
                own = source[lines]
                given.append(np.where(own >= 0, x.ravel()[np.maximum(own, 0)], 0.0))
                good = (own != NOBODY).all(axis=1) | zeros
                known &= good[:, None] if axis == 0 else good[None]
            change = given[0] @ given[1].T - here + 0 * start
            if (part.near(change) | ~known).all():
                yield candidate, bool(known.all())


def _sample(differs: np.ndarray) -> np.ndarray:
    """Some lines, of those that differ and of those that do not, over all of them."""
    sample = []
    for lines in (np.nonzero(differs)[0], np.nonzero(~differs)[0]):
        if len(lines):
            sample.append(lines[np.unique(np.linspace(0, len(lines) - 1, SEEN).astype(int))])
    return np.unique(np.concatenate(sample))


def those(c: Compared, candidates: list[Candidate]) -> list[ProductFault]:
    """The faults that give all of D, of one operand if there are such; if none does, those that do when 0 lies outside
    the tile.
    """
    for zeros in (False, True):
        faults: list[ProductFault] = []
        tried = 0
        for candidate, known in _near(c, candidates, zeros=zeros):
            if not known or tried == MOST or (faults and candidate.operand == "A and B" != faults[0].operand):
                continue
            other, all_known = _changed(c.product, candidate)
            if bool(all_known.all()) != zeros:
                tried += 1
                if c.fits(other).all():
                    text = f"{candidate.text}{', with 0 where that is outside the tile' if zeros else ''}"
                    faults.append(ProductFault(candidate.operand, candidate.field, text, c.wrong.size, c.wrong.size))
        if faults:
            return faults
    return []


def solved_for(c: Compared, tiles: list[Tile], solved: Callable[[int], np.ndarray | None]) -> list[ProductFault]:
    """Other layouts of one operand, which D says by itself where it has as many columns (or rows) as K."""
    faults = []
    for i, (name, tile) in enumerate(zip("AB", tiles, strict=True)):
        source = solved(i)
        if source is None or (source == np.arange(source.size).reshape(source.shape)).all():
            continue
        side = c.product.side(name)
        if c.fits(c.product.having(name, side.steps(_read(side, source)[0]))).all():
            faults.append(ProductFault(name, *moved_chunks(tile, source), c.wrong.size, c.wrong.size))
    return faults


def in_part(c: Compared, candidates: list[Candidate]) -> list[ProductFault]:
    """Faults that give all elements of D that they determine, some of them wrong, the most specific first."""
    c = dataclasses.replace(c, exact=not c.beyond.any())
    faults: list[ProductFault] = []
    for candidate, _ in _near(c, candidates):
        other, known = _changed(c.product, candidate)
        if len(faults) < MOST and not known.all() and (c.differs & known).any() and (c.fits(other) | ~known).all():
            faults.append(ProductFault(candidate.operand, candidate.field, candidate.text, int(known.sum()), known.size))
    return sorted(faults, key=lambda candidate: -candidate.explained)


# ---- `explain_product`: from a wrong D and the right A and B alone, which descriptor fault is it?


MOST_SIZE = 1024  # rows, columns or K of D


@dataclasses.dataclass(frozen=True)
class ProductExplanation(metaclass=OwnMembers):
    """The explanation of a wrong D.

    The wrong part of D is `pattern`, and `wrong` of `of` elements are wrong. If no difference is larger than rounding,
    `pattern` says how much of D differs in the last bits. The faults of descriptors and writers that give D are
    `faults`. All have the same effect. The fields `looks_like` and `because` are those of `Diagnosis`, for everything
    that was tried. The flag `measured` says whether the rules rest on an H200.

    >>> import numpy as np
    >>> import smemsim
    >>> a = np.ones((64, 16), np.float32)
    >>> found = smemsim.explain_product(a @ a.T, a, a, arch="sm_90a", a_type="bf16")
    >>> print(found, (found.wrong, found.of))
    looks like the same; all of D is right (0, 4096)
    """

    looks_like: LooksLike
    because: tuple[str, ...]
    pattern: str
    wrong: int
    of: int
    faults: tuple[ProductFault, ...]
    measured: bool

    def __str__(self) -> str:
        return "; ".join(filter(None, (f"looks like {self.looks_like}", self.pattern, *self.because)))

    def as_dict(self) -> dict[str, Any]:
        """The explanation as a dictionary for JSON."""
        return {
            "looks_like": self.looks_like,
            "because": list(self.because),
            "pattern": self.pattern,
            "wrong": self.wrong,
            "of": self.of,
            "faults": [dataclasses.asdict(one) | {"certain": one.certain} for one in self.faults],
            "measured": self.measured,
        }


@in_default_state
def explain_product(
    d: Any,
    a: Any,
    b: Any,
    c: Any = None,
    *,
    arch: str,
    a_type: str,
    b_type: str | None = None,
    d_type: str = "f32",
    kind: str | None = None,
    a_swizzle: str = "128B",
    b_swizzle: str = "128B",
    a_major: str = "K",
    b_major: str = "K",
    m: int | None = None,
    n: int | None = None,
) -> ProductExplanation:
    """Which fault of a descriptor or of a writer explains a wrong product of a whole tile: D (M, N) = A (M, K) B^T (N,
    K) + C.

    The matrices are raw bits in unsigned integers, or numbers of numpy. The tile is cut into instructions of `m` x `n`
    and their K. Each operand is expected in the plain layout of its swizzle: panels of its width, one line after the
    other. The `kind` is that of `dot_product` on sm_100a, and "wgmma" on sm_90a.

    The known faults of A, of B and of both are tried. A fault is an answer if it gives this D: in float64 first, then
    bit for bit, or except for rounding. If no fault does, A or B is solved for, and a descriptor for it is searched.
    The answer lists all faults that the data do not tell apart. `explain_difference` covers other options, rounding,
    missing K steps and rows in other places.

    Raises InputError for shapes that no instructions have. Raises Unmodelled for kinds with scale factors. On sm_90a
    addresses and sums are measured on an H200. On sm_100a they are witnessed, documented or inferred.

    >>> from smemsim import explain_product
    >>> import numpy as np
    >>> import smemsim
    >>> rng = np.random.default_rng(1)
    >>> a, b = (smemsim.to_float64(rng.integers(0x3F80, 0x4000, (64, 64)), "bf16") for _ in "ab")
    >>> read = a.reshape(64, 8, 8)[np.arange(64)[:, None], np.arange(8) ^ np.arange(64)[:, None] % 8].reshape(64, 64)
    >>> found = explain_product((read @ b.T).astype(np.float32), a, b, arch="sm_90a", a_type="bf16")
    >>> found.pattern
    '87.5 % of D is wrong (3584 of 4096): rows 1 to 7 mod 8 are wrong, all other rows are right'
    >>> print(found.faults[0])
    A was written with swizzle none and read with 128B
    """
    machine = architecture(arch)
    types = tuple(element_format(x) for x in (a_type, a_type if b_type is None else b_type, d_type))
    names = (types[0].name, types[1].name, types[2].name)
    kind = _kind_of(machine, kind)
    row = row_of(kind, *names)
    a_bits, b_bits, d_bits = (_raw_bits(name, x, fmt) for name, x, fmt in zip("abd", (a, b, d), types, strict=True))
    rows, columns, k = _sizes(a_bits, b_bits, d_bits, row.k)
    start = np.zeros((rows, columns), np.uint32) if c is None else element_bits("c", c, types[2])
    if start.shape != (rows, columns):
        raise InputError(f"c has shape {start.shape}: D is {(rows, columns)}")
    packing = KINDS[kind].packing if kind in KINDS else "packed"
    m, n = _part("m", m, rows, WGMMA_M if kind == "wgmma" else 128), _part("n", n, columns, 256)
    tiles = [
        _tile(machine, "a", (types[0], a_swizzle, a_major, packing), (rows, m), (k, row.k)),
        _tile(machine, "b", (types[1], b_swizzle, b_major, packing), (columns, n), (k, row.k)),
    ]
    product = Product(kind, names, Side(_steps(a_bits, row.k)), Side(_steps(b_bits, row.k)), start)
    return _explained(product, tiles, d_bits.astype(np.uint32), measured=machine.measured)


def _kind_of(machine: Architecture, kind: str | None) -> str:
    """The kind of instruction, which only sm_100a has several of. Raises Unmodelled for one with scale factors."""
    kinds = ("wgmma",) if machine.instruction == "wgmma" else tuple(KINDS)
    wanted = f"{'the kind of instruction: ' * (len(kinds) > 1)}{' '.join(kinds)}"
    found = choice("kind", kinds[0] if kind is None and len(kinds) == 1 else kind, kinds, wanted)
    if found in KINDS and KINDS[found].block_scaled:
        raise Unmodelled(
            f"kind {found}: products with scale factors are not explained from D alone; explain_difference takes what was read"
        )
    return found


def _raw_bits(name: str, x: Any, fmt: ElementFormat) -> np.ndarray:
    """The elements of a matrix as raw bits. Raises InputError for raw bits that are too narrow for the type."""
    given = getattr(x, "dtype", None)
    if given is not None and given.kind == "u" and given.itemsize * 8 < fmt.bits:
        raise InputError(
            f"{name}: an array of {given}; raw bits of {fmt.name} have {fmt.bits}. Of a converted matrix give the numbers, as float32"
        )
    return element_bits(name, x, fmt)


def _tile(
    machine: Architecture, name: str, form: tuple[ElementFormat, str, str, str], lines: tuple[int, int], k: tuple[int, int]
) -> Tile:  # fmt: skip
    """An operand of a type, swizzle, major and packing, whose lines and k are cut into instructions of so many each."""
    fmt, swizzle, major, packing = form
    check_major(major)
    check_packing(packing)
    modes = {str(x): MODES[x] for x in layout_codes(machine.smem_descriptor).values()}
    choice(f"{name}_swizzle", swizzle, tuple(modes), f"one of {' '.join(modes)}")
    shape = Shape(machine, fmt, major, packing, lines[0] // lines[1], k[0] // k[1], lines[1], k[1])
    tile = Tile(shape, modes[swizzle])
    _ = tile.right  # refuses what no descriptor reads
    return tile


def transposed(c: Compared) -> list[str]:
    """A square A or B, or both, given with its rows for its columns."""
    said = []
    for names in ("B", "A", "AB"):
        product = c.product
        for name in names:
            flat = product.side(name).flat()
            if flat.shape[0] == flat.shape[1]:
                product = product.having(name, product.side(name).steps(np.ascontiguousarray(flat.T)))
        if product is not c.product and c.explained(product):
            wants = " and ".join(f"{name.lower()} is taken as {MEANT[name]}" for name in names)
            said.append(
                f"{' and '.join(names)} {'were' if len(names) > 1 else 'was'} transposed ({wants}: give {', '.join(f'{name.lower()}.T' for name in names)})"
            )
    return said[:1] if said and len(said[0]) < len(said[-1]) else said


MEANT = {"A": "(M, K)", "B": "(N, K)"}


def not_numbers(c: Compared) -> list[str]:
    """The text for a D with NaN or infinities if the product has numbers."""
    with np.errstate(all="ignore"):
        has, odd = np.isfinite(c.values(c.model)), ~np.isfinite(c.values(c.hardware))
    count = int((has & odd).sum())
    if not count:
        return []
    return [
        f"{'all' if count == has.size else f'{count} of'} {has.size} elements of D are NaN or infinite, and the product of a and b is finite; the kernel read "
        "a NaN or an infinity in A, B or C (uninitialised memory?), or scaled D by one"
    ]


CONVERTED = ("e5m2", "e4m3", "bf16", "f16")  # what epilogues make of f32, the coarsest first


def _conversion(hardware: np.ndarray, d_type: str) -> tuple[str, np.ndarray | None]:
    """The coarsest type that has all the numbers of an f32 D, and how far (M, N) a conversion to it may have moved
    them.
    """
    if d_type != "f32":
        return "", None
    values = to_float64(hardware, d_type)
    finite = np.where(np.isfinite(values), values, 0)
    if not finite.any():
        return "", None
    for name in CONVERTED:
        fmt = element_format(name)
        if (to_float64(from_float64(finite, name), name) == finite).all():
            half = 2.0 ** -(fmt.fraction_bits + 1)
            smallest = 2.0 ** (fmt.smallest_exponent - fmt.fraction_bits - 1)
            return name, np.asarray(np.maximum(np.abs(finite) * half / (1 - half), smallest))
    return "", None


def _sizes(a: np.ndarray, b: np.ndarray, d: np.ndarray, k: int) -> tuple[int, int, int]:
    """M, N and K."""
    for name, x in (("a", a), ("b", b), ("d", d)):
        if x.ndim != 2 or not x.size or max(x.shape) > MOST_SIZE:
            raise InputError(
                f"{name} has shape {x.shape}: needs a matrix of at most {MOST_SIZE} x {MOST_SIZE}; A is (M, K), B (N, K), D (M, N)"
            )
    if d.shape != (len(a), len(b)) or a.shape[1] != b.shape[1]:
        turned = [
            name
            for name, rows, columns in (("a", len(d), b.shape[1]), ("b", d.shape[1], a.shape[1]))
            if {"a": a, "b": b}[name].T.shape == (rows, columns)
        ]
        hint = f"; give {turned[0]}.T" if turned else ""
        raise InputError(f"a {a.shape}, b {b.shape} and d {d.shape} do not fit: A is (M, K), B (N, K), D (M, N){hint}")
    if a.shape[1] % k:
        raise InputError(f"a has K = {a.shape[1]}: an instruction has {k} elements of K, and a tile a multiple of that")
    return len(a), len(b), a.shape[1]


def _part(name: str, value: int | None, extent: int, most: int) -> int:
    """Rows of one instruction's operand."""
    size = min(extent, most) if value is None else whole(name, value, minimum=1)
    if extent % size:
        raise InputError(f"{name} = {size}: does not divide the {extent} {'rows' if name == 'm' else 'columns'} of D")
    return size


def _steps(bits: np.ndarray, k: int) -> np.ndarray:
    return np.ascontiguousarray(bits.reshape(len(bits), -1, k).transpose(1, 0, 2))


def _explained(product: Product, tiles: list[Tile], hardware: np.ndarray, *, measured: bool) -> ProductExplanation:
    converted, extra = _conversion(hardware, product.types[2])
    c = Compared.of(product, hardware, extra)
    shape = c.wrong.shape
    if not c.wrong.any():
        return ProductExplanation("the same", (), pattern(c.wrong), 0, c.wrong.size, (), measured)
    certain: dict[bool, list[ProductFault]] = {}
    solved = functools.cache(lambda i: recovered(c, tiles[i], "AB"[i]))
    candidates = [*candidates_of(tiles), *pointers_of(tiles)]

    def faults(own: Compared) -> list[str]:
        certain[own.exact] = found = those(own, candidates) or solved_for(own, tiles, solved)
        return [str(fault) for fault in found]

    layouts: Tests = (("a wrong layout", transposed), ("a wrong layout", faults))
    # half a box that is not there is one of these too
    if sums(own := dataclasses.replace(c, exact=not c.beyond.any())):
        layouts = (("a wrong layout", faults), ("a wrong layout", sums)) if those(own, candidates) else (("another option", sums),)
    said = diagnose(product, hardware, layouts, extra)
    found = next((certain[exact] for exact in (True, False) if certain.get(exact)), [])
    because, looks_like = said.because, said.looks_like
    if looks_like == "unknown" and not found:
        found = in_part(c, candidates)
        because = (*(f"it may be that {fault}" for fault in found), *because)
    if converted:
        because = (*because, f"D has numbers of {converted} only: an epilogue may have converted it, and what that rounds is allowed for")
    because = (*not_numbers(c), *because)
    where = c.beyond if c.beyond.any() else c.wrong
    return ProductExplanation(
        looks_like, because, pattern(where, is_rounding=not c.beyond.any()), int(where.sum()), shape[0] * shape[1], tuple(found), measured
    )
