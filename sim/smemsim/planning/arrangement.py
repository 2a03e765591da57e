"""The arrangement of a tile: wishes, atoms, instructions, canonical forms, banks, fields.

Shared memory has 32 banks of 4 bytes. So a 16-byte chunk is in one of 8 groups of four banks: address / 16 mod 8. An
access of eight chunks has no conflicts if they are in eight groups. The count is the number of chunks in the fullest
group, 1 to 8: the largest one of all such accesses of the tile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from smemsim.base.arguments import choice, in_steps, shown, whole
from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.layout.banks import shared_cost
from smemsim.core.layout.cute import CuteLayout, CuteSwizzle, logical_divide, recast, tile_to_shape, zipped_divide
from smemsim.core.spec.architectures import Architecture, architecture
from smemsim.core.spec.counters import LANES
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import ElementFormat, element_format
from smemsim.core.spec.shared_memory import ATOM_ROWS, BANKS, CHUNK
from smemsim.core.spec.smem_descriptor import REACH, START, layout_codes
from smemsim.core.spec.swizzles import MODES, Swizzle, SwizzleMode
from smemsim.core.spec.tcgen05 import KINDS, kind_of, shapes_of
from smemsim.core.spec.tensor_map import LIMITS
from smemsim.core.spec.wgmma import WGMMA_M, WGMMA_TYPES
from smemsim.core.words.instr import InstrDescriptor
from smemsim.core.words.operand import operand_addresses, swizzled
from smemsim.core.words.operand_layout import check_major
from smemsim.core.words.smem import SmemDescriptor

__all__ = [
    "STACKS",
    "Arrangement",
    "Conflicts",
    "CuteSteps",
    "Field",
    "IllegalPlan",
    "Instruction",
    "Wish",
    "arrange",
    "canonical_layouts",
    "conflicts_of",
    "cute_steps",
    "fields_of",
    "instruction_of",
    "wish_of",
]


# ---- What is wished for: the tile, its type and layout, and the instruction that reads it


STACKS = ("strided", "contiguous")
MOST = 1 << 16  # rows or K of a tile; shared memory has far less


class IllegalPlan(InputError):
    """A tile that the hardware cannot have: `reason`, and in `nearest` the arguments of a legal plan that differs
    least, or None.

    A `smemsim.InputError`.

    >>> import smemsim
    >>> smemsim.plan(100, 64, dtype="bf16", major="K", swizzle="128B", arch="sm_90a")
    Traceback (most recent call last):
    smemsim.planning.arrangement.IllegalPlan: rows = 100: an atom has 8 lines; rows must be a multiple of 8; nearest that works: rows = 128
    """

    def __init__(self, reason: str, nearest: dict[str, Any] | None = None, changed: tuple[str, ...] = ()) -> None:
        told = ", ".join(_told(name, nearest[name]) for name in changed) if nearest else ""
        super().__init__(f"{reason}; nearest that works: {told}" if told else reason)
        self.reason = reason
        self.nearest = nearest
        self.changed = changed


def _told(name: str, value: Any) -> str:
    if value is None:
        return f"{name} left out"
    return f"{name} = {value:#x}" if name == "base_address" else f"{name} = {value!r}"


@dataclasses.dataclass(frozen=True)
class Wish:
    """The arguments of `plan`, read. `m`, `n`, `kind` are None where they follow from the rest; `rows` are those of one
    CTA.
    """

    rows: int
    k: int
    fmt: ElementFormat
    major: str
    swizzle: Swizzle
    machine: Architecture
    m: int | None
    n: int | None
    side: str
    kind: str | None
    cta_group: int
    stack: str
    base_address: int
    stages: int
    matrix: tuple[int, int] | None
    pitch_bytes: int | None
    at: tuple[int, int]
    other_major: str

    @property
    def mode(self) -> SwizzleMode:
        """The row of its swizzle."""
        return MODES[self.swizzle]

    @property
    def axis(self) -> str:
        """ "m" or "n": what the rows are."""
        return "m" if self.side == "a" else "n"

    def arguments(self) -> dict[str, Any]:
        """The arguments of `plan` that give this wish."""
        return {
            "rows": self.rows, "k": self.k, "dtype": self.fmt.name, "major": self.major, "swizzle": str(self.swizzle), "arch": self.machine.name,
            "m": self.m, "n": self.n, "side": self.side, "kind": self.kind, "cta_group": self.cta_group, "stack": self.stack,
            "base_address": self.base_address, "stages": self.stages, "matrix": self.matrix,
            "pitch_bytes": self.pitch_bytes, "at": self.at, "other_major": self.other_major,
        }  # fmt: skip


def wish_of(rows: Any, k: Any, *, dtype: Any, major: Any, swizzle: Any, arch: Any, m: Any, n: Any, side: Any, kind: Any, cta_group: Any,
            stack: Any, base_address: Any, stages: Any, matrix: Any, pitch_bytes: Any, at: Any, other_major: Any) -> Wish:  # fmt: skip
    """The arguments of `plan` as a wish; InputError for what is no number, no name, no architecture."""
    check_major(major)
    machine, fmt = architecture(arch), element_format(dtype)
    side = choice("side", side.lower() if isinstance(side, str) else side, ("a", "b"), "'a' (M x K) or 'b' (N x K)")
    cta_group = whole("cta_group", cta_group)
    if cta_group not in (1, 2):
        raise InputError(f"cta_group = {cta_group}: needs 1, or 2 for a pair of CTAs")
    return Wish(
        rows=_extent("rows", rows),
        k=_extent("k", k),
        fmt=fmt,
        major=major,
        swizzle=_swizzle(swizzle),
        machine=machine,
        m=None if m is None else whole("m", m, minimum=1),
        n=None if n is None else whole("n", n, minimum=1),
        side=side,
        kind=None if kind is None else str(kind).removeprefix(".").removeprefix("kind::"),
        cta_group=cta_group,
        stack=_stack(stack, major),
        base_address=whole("base_address", base_address, minimum=0, wanted="a .shared byte address"),
        stages=_extent("stages", stages),
        matrix=None if matrix is None else _pair("matrix", matrix, 1),
        pitch_bytes=None if pitch_bytes is None else whole("pitch_bytes", pitch_bytes, minimum=1, most_bits=40),
        at=_pair("at", at, 0),
        other_major=choice("other_major", other_major, ("K", "MN"), "'K' or 'MN', of the operand that is not planned"),
    )


def _extent(name: str, value: Any) -> int:
    number = whole(name, value, minimum=1)
    if number > MOST:
        raise InputError(f"{name} = {number}: more than any shared memory holds; needs at most {MOST}")
    return number


def _pair(name: str, value: Any, minimum: int) -> tuple[int, int]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InputError(f"{name} = {shown(value)}: needs two numbers, that of rows and that of K")
    first, second = (whole(f"{name}[{i}]", x, minimum=minimum, most_bits=31) for i, x in enumerate(value))
    return first, second


def _swizzle(value: Any) -> Swizzle:
    text = value.removeprefix("SWIZZLE_") if isinstance(value, str) else value
    named = {"NONE": "none", "0": "none", "32": "32B", "64": "64B", "128": "128B"}.get(str(text), text)
    names = tuple(str(s) for s in MODES)
    return Swizzle(choice("swizzle", str(named) if isinstance(named, Swizzle) else named, names, f"one of {' '.join(names)}"))


def _stack(value: Any, major: str) -> str:
    """ "strided" or "contiguous" of what may also be the axis along which atoms follow one another: "MN" (or "M", "N"),
    "K".
    """
    if value is None:
        return "strided"
    axes = {"M": "MN", "N": "MN", "m": "MN", "n": "MN", "mn": "MN", "k": "K"}
    given = axes.get(value, value) if isinstance(value, str) else value
    if given in ("MN", "K"):
        return "contiguous" if given == major else "strided"
    wanted = "'strided' (default), 'contiguous', or the axis along which atoms follow one another first: 'MN' or 'K'"
    return choice("stack", given, STACKS, wanted)


# ---- The instruction that reads the tile: its kind, shape and descriptor; what is left open is chosen
# so that it fits the tile


GRAVE = (Severity.TRAP, Severity.WRONG)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One MMA: `m` and `n` of the whole instruction, `rows` that one CTA's operand has;
    `descriptor` of tcgen05 only.
    """

    name: str
    kind: str
    m: int
    n: int
    k: int
    rows: int
    packing: str
    descriptor: InstrDescriptor | None


def instruction_of(wish: Wish) -> Instruction:
    """The instruction for a wish. Raises IllegalPlan for one that the architecture does not have."""
    if wish.fmt.name not in wish.machine.mma_types:
        raise IllegalPlan(f"{wish.machine.instruction} reads {' '.join(wish.machine.mma_types)} from shared memory, not {wish.fmt.name}")
    if wish.fmt.bits == 1:
        raise Unmodelled("plans of b1 operands: TMA has no type of one bit, and nothing here was checked with one")
    return _wgmma(wish) if wish.machine.instruction == "wgmma" else _tcgen05(wish)


def _wgmma(wish: Wish) -> Instruction:
    name = wish.fmt.name
    if wish.kind not in (None, "wgmma"):
        raise IllegalPlan(f"kind = {wish.kind!r}: {wish.machine.name} has wgmma, which has no kinds")
    if wish.cta_group != 1:
        raise IllegalPlan("cta_group = 2: wgmma works in one CTA; pairs exist from sm_100a on")
    row = next(r for r in WGMMA_TYPES if name in (r.a if wish.side == "a" else r.b))
    if wish.major == "MN" and not row.transposes:
        raise IllegalPlan(f"{name} MN-major: wgmma transposes 16-bit types only, others are K-major")
    m = WGMMA_M if wish.m is None else wish.m
    if m != WGMMA_M:
        raise IllegalPlan(f"m = {m}: one wgmma has M = {WGMMA_M}; a taller tile is read by several")
    n = _fitting(wish, row.n, 1) if wish.n is None else wish.n
    if n not in row.n:
        raise IllegalPlan(f"n = {n}: wgmma with {name} has N = {in_steps(row.n)}")
    d = "f32" if "f32" in row.d else row.d[0]
    other = row.b[0] if wish.side == "a" and name not in row.b else name
    types = (name, other) if wish.side == "a" else (other, name)
    text = f"wgmma.mma_async.sync.aligned.m{m}n{n}k{row.k}.{d}.{types[0]}.{types[1]}"
    return Instruction(text, "wgmma", m, n, row.k, m if wish.side == "a" else n, "packed", None)


def _kind(wish: Wish) -> str:
    if wish.kind is not None:
        return kind_of(wish.kind).name
    found = [k.name for k in KINDS.values() if wish.fmt.name in (k.a_types if wish.side == "a" else k.b_types).values()]
    return "mxf4" if wish.fmt.name == "e2m1" else found[0]


def _tcgen05(wish: Wish) -> Instruction:
    kind = KINDS[_kind(wish)]
    name, group = wish.fmt.name, wish.cta_group
    types = kind.a_types if wish.side == "a" else kind.b_types
    if wish.machine.name not in kind.archs:
        raise IllegalPlan(f"kind {kind.name}: {wish.machine.name} does not have it ({', '.join(kind.archs)} do)")
    if name not in types.values():
        raise IllegalPlan(f"dtype = {name!r}: kind {kind.name} reads {' '.join(types.values())}")
    if not kind.transposable and "MN" in (wish.major, wish.other_major):
        raise IllegalPlan(f"major = 'MN': kind {kind.name} reads K-major operands only (its descriptor has no transpose bits)")
    shapes = shapes_of(kind, cta_group=group, ws=False, sparse=False, wide_k=False)
    ms, ns = (sorted({x for s in shapes for x in getattr(s, axis)}) for axis in "mn")
    if wish.side == "a":
        m = _fitting(wish, ms, group) if wish.m is None else wish.m
        n = max(x for x in ns if x <= 128) if wish.n is None else wish.n
    else:
        m = max(ms) if wish.m is None else wish.m
        n = _fitting(wish, ns, group) if wish.n is None else wish.n
    pair = " with cta_group 2" if group == 2 else ""
    if m not in ms:
        raise IllegalPlan(f"m = {m}: kind {kind.name}{pair} has M = {in_steps(ms)}")
    if n not in (with_m := {x for s in shapes if m in s.m for x in s.n}):
        raise IllegalPlan(f"n = {n}: kind {kind.name}{pair} with M = {m} has N = {in_steps(with_m)}")
    other_types = kind.b_types if wish.side == "a" else kind.a_types
    other = name if name in other_types.values() else next(iter(other_types.values()))
    a_type, b_type = (name, other) if wish.side == "a" else (other, name)
    a_major, b_major = (wish.major, wish.other_major) if wish.side == "a" else (wish.other_major, wish.major)
    descriptor = InstrDescriptor(kind=kind.name, m=m, n=n, a_type=a_type, b_type=b_type, a_major=a_major, b_major=b_major)
    context = {"arch": wish.machine.name, "cta_group": group, "ws": False, f"swizzle_{wish.side}": str(wish.swizzle)}
    for finding in descriptor.problems(**context):
        if finding.severity in GRAVE:
            raise IllegalPlan(f"{finding.message}{f' ({finding.repair})' if finding.repair else ''}")
    scaled = ".block_scale" if kind.block_scaled else ""
    text = f"tcgen05.mma.cta_group::{group}.kind::{kind.name}{scaled}"
    packing = kind.packing if wish.fmt.bits < 8 else "packed"
    return Instruction(text, kind.name, m, n, kind.k, (m if wish.side == "a" else n) // group, packing, descriptor)


def _fitting(wish: Wish, legal: Iterable[int], group: int) -> int:
    """The largest M or N whose share of one CTA divides the tile; where none does, the one next to it."""
    options = sorted(legal)
    found = [x for x in options if wish.rows % (x // group) == 0]
    return found[-1] if found else min(options, key=lambda x: abs(x - wish.rows * group))


# ---- Where every element of a tile lies in shared memory: the swizzle atom, how atoms are stacked, and the strides
# that the descriptor needs


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """A tile in shared memory. The *contiguous* axis is K of a K-major tile, M or N of an MN-major one; *lines* run
    along the other, strided one.

    An atom is `atom_lines` lines of `mode.width` bytes, without gaps. `strided_bytes` and `contiguous_bytes` lie
    between atoms that are neighbours along those axes. One chunk of 16 bytes holds `per_chunk` elements.
    """

    wish: Wish
    instruction: Instruction
    per_chunk: int

    @property
    def element_bits(self) -> int:
        """Bits that an element takes in shared memory: 8 for padded 4- and 6-bit types."""
        return 8 * CHUNK // self.per_chunk

    @property
    def inner(self) -> int:
        """Elements across an atom, along the contiguous axis."""
        return self.wish.mode.chunks * self.per_chunk

    @property
    def atom_lines(self) -> int:
        """Lines of an atom."""
        return ATOM_ROWS if self.wish.major == "K" else self.wish.mode.k_rows

    @property
    def atom_bytes(self) -> int:
        """Bytes of an atom."""
        return self.atom_lines * self.wish.mode.width

    @property
    def contiguous(self) -> int:
        """Elements of the tile along the contiguous axis."""
        return self.wish.k if self.wish.major == "K" else self.wish.rows

    @property
    def lines(self) -> int:
        """Lines of the tile."""
        return self.wish.rows if self.wish.major == "K" else self.wish.k

    @property
    def grid(self) -> tuple[int, int]:
        """Atoms along the strided and along the contiguous axis."""
        return self.lines // self.atom_lines, self.contiguous // self.inner

    @property
    def strided_bytes(self) -> int:
        """Bytes from an atom to the next one along the strided axis."""
        return self.atom_bytes * (1 if self.wish.stack == "strided" else self.grid[1])

    @property
    def contiguous_bytes(self) -> int:
        """Bytes from an atom to the next one along the contiguous axis."""
        return self.atom_bytes * (1 if self.wish.stack == "contiguous" else self.grid[0])

    def linear(self, line: Any, chunk: Any = 0) -> Any:
        """Bytes from the tile's beginning to a 16-byte chunk of a line, before the XOR; numbers, or arrays of them."""
        across = self.wish.mode.chunks
        return (
            line // self.atom_lines * self.strided_bytes
            + line % self.atom_lines * self.wish.mode.width
            + chunk // across * self.contiguous_bytes
            + chunk % across * CHUNK
        )

    @property
    def padded(self) -> bool:
        """Do 4- or 6-bit elements take a byte each?"""
        return self.wish.fmt.bits < 8 and self.element_bits == 8

    @property
    def panels(self) -> bool:
        """Are the lines of one panel, a swizzle width wide, without gaps? Else every atom stands alone."""
        return self.strided_bytes == self.atom_bytes or self.grid[0] == 1

    @property
    def tile_bytes(self) -> int:
        """Bytes of one stage."""
        return self.atom_bytes * self.grid[0] * self.grid[1]

    @property
    def atom(self) -> CuteLayout:
        """The atom as a CuTe layout (M or N, K) in elements."""
        functor = CuteSwizzle(self.wish.mode.mask.bit_length(), self.wish.mode.shift, 7 - self.wish.mode.shift)
        if self.wish.major == "K":
            return CuteLayout((self.atom_lines, self.inner), (self.inner, 1), functor)
        return CuteLayout((self.inner, self.atom_lines), (1, self.inner), functor)

    @property
    def order(self) -> tuple[int, int]:
        """The order of `tile_to_shape`: 0 for the axis along which atoms follow one another."""
        along_rows = (self.wish.major == "K") == (self.wish.stack == "strided")
        return (0, 1) if along_rows else (1, 0)

    @property
    def tile(self) -> CuteLayout:
        """The tile as a CuTe layout (M or N, K) in elements: the atoms stacked."""
        return tile_to_shape(self.atom, (self.wish.rows, self.wish.k), self.order)

    @property
    def blocks(self) -> int:
        """Instructions along M or N."""
        return self.wish.rows // self.instruction.rows

    @property
    def steps(self) -> int:
        """Instructions along K."""
        return self.wish.k // self.instruction.k

    def offset(self, block: int, step: int) -> int:
        """Bytes from the tile's first element to that of the instruction at a block and K step, before the XOR."""
        return self.tile(block * self.instruction.rows, step * self.instruction.k) * self.element_bits // 8

    @property
    def strides(self) -> tuple[int, int]:
        """(LBO, SBO) in bytes, from the atoms' strides.

        K-major: SBO steps to the next 8 rows; LBO to the next 16 bytes of K without swizzle, else it is unused and
        written as 16. MN-major: SBO steps along K and LBO along M or N; without swizzle the other way round. PTX ISA
        9.1 §9.7.16.3.3.
        """
        if self.wish.major == "K":
            return (CHUNK if self.wish.mode.mask else self.contiguous_bytes), self.strided_bytes
        if self.wish.mode.mask:
            return self.contiguous_bytes, self.strided_bytes
        return self.strided_bytes, self.contiguous_bytes

    def descriptor(self, block: int = 0, step: int = 0, stage: int = 0) -> SmemDescriptor:
        """The shared-memory descriptor of one instruction."""
        lbo, sbo = self.strides
        start = self.wish.base_address + stage * self.tile_bytes + self.offset(block, step)
        return SmemDescriptor(
            arch=self.wish.machine.name, start_address=start, leading_byte_offset=lbo, stride_byte_offset=sbo, swizzle=self.wish.swizzle
        )


def arrange(wish: Wish) -> Arrangement:
    """The tile of a wish. Raises IllegalPlan with the reason where the hardware cannot have it."""
    instruction = instruction_of(wish)
    codes, mode, fmt = layout_codes(wish.machine.smem_descriptor).values(), wish.mode, wish.fmt
    if wish.swizzle not in codes:
        raise IllegalPlan(f"swizzle = '{wish.swizzle}': {wish.machine.name} descriptors have {', '.join(codes)}")
    tile = Arrangement(wish, instruction, fmt.elements_per_chunk(instruction.packing))
    axes = (("k", wish.k), ("rows", wish.rows)) if wish.major == "K" else (("rows", wish.rows), ("k", wish.k))
    (name, along), (line_name, lines) = axes
    if along % tile.inner:
        raise IllegalPlan(f"{name} = {along}: with the {wish.swizzle} swizzle, {name} must be a multiple of {tile.inner}: "
                          f"a {wish.major}-major atom is {mode.width} B wide, {tile.inner} {fmt.name} elements")  # fmt: skip
    if lines % tile.atom_lines:
        raise IllegalPlan(
            f"{line_name} = {lines}: an atom has {tile.atom_lines} lines; {line_name} must be a multiple of {tile.atom_lines}"
        )
    if wish.k % instruction.k:
        raise IllegalPlan(f"k = {wish.k}: one instruction reads {instruction.k} of K; k must be a multiple of {instruction.k}")
    if wish.rows % instruction.rows:
        share = f"{wish.axis} / cta_group" if wish.cta_group == 2 else wish.axis
        raise IllegalPlan(
            f"rows = {wish.rows}: one instruction reads {instruction.rows} rows of this CTA ({share}); rows must be a multiple of that"
        )
    if wish.major == "MN" and instruction.rows % tile.per_chunk:
        raise IllegalPlan(f"{wish.axis} = {instruction.rows}: the next block would begin inside a {CHUNK}-byte chunk of {tile.per_chunk} "
                          f"{fmt.name} elements, where no descriptor can start")  # fmt: skip
    if wish.major == "MN" and instruction.rows % tile.inner and tile.inner % instruction.rows and tile.blocks > 1:
        raise IllegalPlan(f"{wish.axis} = {instruction.rows}: the next block would begin inside an atom of {tile.inner} elements and leave it; "
                          f"a divisor or a multiple of {tile.inner} does not")  # fmt: skip
    _memory(tile)
    try:
        problems = tile.descriptor().problems(
            dtype=fmt, major=wish.major, rows=instruction.rows, k=instruction.k, packing=instruction.packing, tile_bytes=None
        )
    except InputError as e:
        raise IllegalPlan(str(e)) from None
    for finding in problems:
        if finding.severity in GRAVE:
            raise IllegalPlan(f"{finding.message}{f' ({finding.repair})' if finding.repair else ''}")
    return tile


def _memory(tile: Arrangement) -> None:
    wish, machine = tile.wish, tile.wish.machine
    if wish.base_address % LIMITS.smem_alignment:
        raise IllegalPlan(f"base_address = {wish.base_address:#x}: TMA writes to multiples of {LIMITS.smem_alignment} B")
    if wish.base_address < machine.shared_begin:
        raise IllegalPlan(f"base_address = {wish.base_address:#x}: the first {machine.shared_begin} B are reserved by the system")
    end, most = wish.base_address + wish.stages * tile.tile_bytes, machine.shared_end - machine.shared_begin
    if end > machine.shared_end:
        stages = f"{wish.stages} stages of " if wish.stages > 1 else ""
        raise IllegalPlan(
            f"{stages}{tile.tile_bytes:,} B from {wish.base_address:#x} on end at {end:#x}; a CTA's shared memory ends at {machine.shared_end:#x} ({most // 1024} KiB)"
        )


# ---- The canonical layout of one operand, and the steps by which CuTe comes from the tile's layout to
# the descriptor's fields


@dataclasses.dataclass(frozen=True)
class CuteSteps:
    """The layouts of CuTe. Elements are counted by `tile` and `partitioned`. Units of 16 bytes, like those of the
    descriptor, are counted by `units`, `canonical` and `descriptors`.

    The layout `partitioned` is ((operand), (blocks, K steps)). The layout `canonical` is the operand divided by `unit`
    (8 rows of a chunk, or a swizzle atom). For each block and K step, `descriptors` has the sum to add to the start.
    The strides `lbo` and `sbo` are bytes, from `canonical`. They are None if the operand has one unit only, so that the
    stride does not exist.
    """

    tile: CuteLayout
    order: tuple[int, int]
    subtile: tuple[int, int]
    partitioned: CuteLayout
    units: CuteLayout
    unit: tuple[int, int]
    canonical: CuteLayout
    descriptors: CuteLayout
    lbo: int | None
    sbo: int | None


def cute_steps(tile: Arrangement) -> CuteSteps:
    """tile_to_shape, zipped_divide by one instruction's operand, recast to 16 bytes, logical_divide by the unit of the
    descriptor.
    """
    bits, wish, mode = 8 * CHUNK, tile.wish, tile.wish.mode
    subtile = (tile.instruction.rows, tile.instruction.k)
    partitioned = zipped_divide(tile.tile, subtile)
    units = recast(partitioned, bits, tile.element_bits)
    operand = units.mode(0)
    if wish.major == "K":
        unit = (ATOM_ROWS, 1)
    else:
        unit = (min(mode.chunks, operand.mode(0).size), tile.atom_lines)
    canonical = logical_divide(operand, unit)
    rows, k = (_stride_of(canonical.mode(i)) for i in (0, 1))
    swapped = wish.major == "MN" and not mode.mask
    lbo, sbo = (rows, k) if (wish.major == "MN") != swapped else (k, rows)
    return CuteSteps(tile.tile, tile.order, subtile, partitioned, units, unit, canonical, units.mode(1), lbo, sbo)


def _stride_of(mode: CuteLayout) -> int | None:
    """Bytes between units, from (unit, rest)."""
    size, step = mode.mode(1).leaves()[0]
    return CHUNK * step if size > 1 else None


def canonical_layouts(tile: Arrangement) -> tuple[str, str]:
    """(symbolic, numeric) canonical layout of one operand in elements, as the PTX ISA writes it: T elements in 16
    bytes.
    """
    mode, (lbo, sbo) = tile.wish.mode, (8 * x // tile.element_bits for x in tile.strides)
    per, chunks, swizzled = tile.per_chunk, mode.chunks, bool(mode.mask)
    rows, k = tile.instruction.rows, tile.instruction.k // per
    if tile.wish.major == "K":
        symbolic = f"((8,m),(T,{k})):(({chunks}T,SBO),(1,{'T' if swizzled else 'LBO'}))"
        numeric = f"((8,{rows // ATOM_ROWS}),({per},{k})):(({chunks * per},{sbo}),(1,{per if swizzled else lbo}))"
    else:
        far, near = ("LBO", "SBO") if swizzled else ("SBO", "LBO")
        far_by, near_by = (lbo, sbo) if swizzled else (sbo, lbo)
        m, lines = -(-rows // tile.inner), tile.atom_lines
        symbolic = f"((T,{chunks},m),({lines},k)):((1,T,{far}),({chunks}T,{near}))"
        numeric = f"(({per},{chunks},{m}),({lines},{tile.instruction.k // lines})):((1,{per},{far_by}),({chunks * per},{near_by}))"
    return f"{mode.cute} o {symbolic}", f"{mode.cute} o {numeric}"


# ---- Bank conflicts of a planned tile, counted from addresses; nothing here is a measured time


@dataclasses.dataclass(frozen=True)
class Conflicts:
    """The number of chunks, of eight, in the fullest group of four banks. It is the largest count of the tile.

    For `mma`, they are 8 lines from a multiple of 8 on, one chunk of each, as the tensor core reads them (8x16 B). For
    `column`, they are the same from any line on, as `ldmatrix` reads 8 rows. For `line`, they are 8 consecutive chunks
    of one line, as threads read along the contiguous axis. There are fewer if a line has fewer.

    With 128B_ATOM_32B eight lines are two atoms. No document says whether the tensor core reads eight at once there.
    """

    mma: int
    column: int
    line: int


def conflicts_of(tile: Arrangement) -> Conflicts:
    """Count them for the tile at its base address."""
    chunks = tile.contiguous // tile.per_chunk
    addresses = swizzled(tile.wish.base_address + tile.linear(*np.indices((tile.lines, chunks))), tile.wish.mode)
    return Conflicts(_worst(addresses, BANKS.groups), _worst(addresses, 1), _worst(addresses.T, 1))


def _worst(addresses: np.ndarray, step: int) -> int:
    """The most wavefronts of any eight neighbours along axis 0 that begin at a multiple of `step`, read as rows of a
    matrix.
    """
    length = min(BANKS.groups, len(addresses))
    windows = np.lib.stride_tricks.sliding_window_view(addresses, length, axis=0)[::step].reshape(-1, length)
    at = np.zeros((len(windows), LANES), np.int64)
    at[:, :length] = windows
    return int(shared_cost("ldmatrix", at, (1 << length) - 1, CHUNK).wavefronts.max())


# ---- What LBO and SBO of a plan walk: found by moving each field and looking which elements move with it


@dataclasses.dataclass(frozen=True)
class Field:
    """One of LBO and SBO: bytes, the encoded value, whether the instruction uses it, what it steps over, and examples.

    An example is the first element of a step with its shared address, (row, k, address). There are at most three; the
    first one is the first element of the operand.
    """

    name: str
    bytes: int
    encoded: int
    used: bool
    walks: str
    places: tuple[tuple[int, int, int], ...]

    def as_dict(self) -> dict[str, object]:
        """The field as a dictionary for JSON."""
        return {**dataclasses.asdict(self), "places": [{"row": r, "k": k, "address": a} for r, k, a in self.places]}


def fields_of(tile: Arrangement) -> tuple[Field, Field]:
    """(LBO, SBO) of the first instruction."""
    base, operand = tile.descriptor(), tile.instruction
    given: dict[str, Any] = {
        "arch": tile.wish.machine.name,
        "dtype": tile.wish.fmt,
        "major": tile.wish.major,
        "rows": operand.rows,
        "k": operand.k,
    }
    given["packing"] = operand.packing
    addresses = operand_addresses(base, **given)
    unit = 1 << START.shift
    found = []
    for name, short in (("leading_byte_offset", "LBO"), ("stride_byte_offset", "SBO")):
        fields = {n: getattr(base, n) for n in ("start_address", "leading_byte_offset", "stride_byte_offset")}
        value = fields[name]
        fields[name] = value + unit if value < REACH // 2 else value - unit
        moved = operand_addresses(SmemDescriptor(arch=base.arch, swizzle=base.swizzle, **fields), **given) != addresses
        places: tuple[tuple[int, int, int], ...] = ()
        walks = "not used by this instruction"
        if moved.any():
            row, k = _first(moved)
            walks = f"to the next {row} rows ({tile.wish.axis.upper()})" if row else f"to the next {k} of K"
            steps = [(row * i, k * i) for i in range(3)]
            places = tuple((r, c, int(addresses[r, c])) for r, c in steps if r < operand.rows and c < operand.k)
        found.append(Field(short, value, value // unit, bool(moved.any()), walks, places))
    return found[0], found[1]


def _first(moved: np.ndarray) -> tuple[int, int]:
    """The first row or the first K that moves while the other index is 0."""
    columns = np.flatnonzero(moved[0])
    return (0, int(columns[0])) if len(columns) else (int(np.flatnonzero(moved[:, 0])[0]), 0)
