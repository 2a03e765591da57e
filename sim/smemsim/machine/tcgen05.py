"""tcgen05.mma: its operands, what hardware refuses, and the product in tensor memory."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.arguments import flag, shown, whole, wholes
from smemsim.arithmetic.multiply import Factors, Options, multiply, multiply_tiles, row_of
from smemsim.errors import InputError, Unmodelled
from smemsim.finding import Finding
from smemsim.layout.fragments import sparse_k
from smemsim.layout.tcgen05 import is_lane_disabled, is_zero_column
from smemsim.machine.memory import SharedMemory
from smemsim.machine.product import MmaOperand, MmaResult, from_shared, shared_grade, used_writers
from smemsim.machine.tmem.address import TmemAddress
from smemsim.machine.tmem.layout import (
    AccumulatorLayout,
    ATmemLayout,
    Box,
    Copies,
    MetadataLayout,
    Parts,
    ScaleLayout,
    boxes_of,
    boxes_of_d,
    cells_of_a,
    cells_of_d,
    cells_of_metadata,
    cells_of_scales,
    lane_set,
)
from smemsim.machine.tmem.memory import TensorMemory, check_together, memories_of
from smemsim.spec.evidence import RULES, Grade
from smemsim.spec.findings import Severity
from smemsim.spec.formats import element_format
from smemsim.spec.instr_descriptor import ZERO_COLUMN_MASK
from smemsim.spec.smem_descriptor import SM100_SMEM_DESC
from smemsim.spec.tcgen05 import kind_of, scale_modes
from smemsim.spec.tensor_memory import COLUMNS, DECOMPRESSIONS, EMPTY_GROUP, LANES, METADATA, SCALE_ID_SHIFT
from smemsim.words.instr import InstrDescriptor, shape_disputes
from smemsim.words.smem import SmemDescriptor

__all__ = [
    "BrokenRule",
    "Issue",
    "TmemMma",
    "Touched",
    "check_instruction",
    "disputes_of",
    "enabled",
    "factors_of",
    "grade_of",
    "index_of",
    "instruction",
    "layout_of_a",
    "layout_of_metadata",
    "layouts_of_scales",
    "read_a_from_tensor",
    "read_factors",
    "read_index",
    "read_shared",
    "scale_address",
    "scale_of_d",
    "stored_k",
    "tcgen05_mma",
    "tcgen05_mma_many",
    "zero_columns",
]


# ---- What an instruction may have beside its operands: is there such a tcgen05.mma, and what do its masks say?


class BrokenRule(InputError):
    """A rule of the instruction descriptor that an instruction breaks: `finding` says which."""

    def __init__(self, message: str, finding: Finding) -> None:
        super().__init__(message)
        self.finding = finding


def instruction(idesc: Any, kind: Any) -> InstrDescriptor:
    """The instruction descriptor, whose word needs the kind; reserved bits that are set do nothing (`RULES["tcgen05.idesc_bits"]`)."""
    if isinstance(idesc, InstrDescriptor):
        if kind is not None and kind_of(kind).name != idesc.kind:
            raise InputError(f"kind = {shown(kind)}: the instruction descriptor is one of kind {idesc.kind}")
        return idesc
    if kind is None:
        raise InputError("kind: needs the .kind of the instruction (f16, tf32, f8f6f4 ...); the word does not say it")
    return InstrDescriptor.decode(idesc, kind=kind)


def check_instruction(
    i: InstrDescriptor,
    arch: str,
    d: TmemAddress,
    a: Any,
    b: Any,
    *,
    cta_group: int,
    ws: bool,
    scale_vec: Any,
    scale_a: Any,
    scale_b: Any,
    metadata: Any,
) -> None:
    """InputError with the first rule of instruction, descriptors or qualifiers that is broken."""
    if isinstance(b, TmemAddress):
        raise InputError(f"b = {b}: B comes from shared memory only; give the word of a matrix descriptor")
    swizzles = {
        f"swizzle_{side}": str(_word(side, word, arch).swizzle) for side, word in (("a", a), ("b", b)) if not isinstance(word, TmemAddress)
    }
    known = {name: value for name, value in swizzles.items() if value != "invalid"}  # an invalid code is judged when the operand is read
    a_source = "tensor" if isinstance(a, TmemAddress) else "shared"
    for finding in i.problems(arch=arch, cta_group=cta_group, ws=ws, a_source=a_source, scale_vec=scale_vec, **known):
        if finding.severity in (Severity.TRAP, Severity.WRONG):
            raise BrokenRule(f"instruction descriptor {i.word:#010x}: {finding}", finding)
    if isinstance(a, TmemAddress) and a.lane != d.lane:
        raise InputError(f"a = {a}, d = {d}: A and D must begin at the same lane (PTX ISA 9.7.16.10.5)")
    for name, value in (("scale_a", scale_a), ("scale_b", scale_b)):
        if i.row.block_scaled and value is None:
            raise InputError(f"{name}: kind {i.kind} needs the tensor-memory address of its scale factors")
        if not i.row.block_scaled and value is not None:
            raise InputError(f"{name} = {shown(value)}: kind {i.kind} has no scale factors")
    if i.sparsity and metadata is None:
        raise InputError("metadata: the descriptor says sparse (bit 2); tcgen05.mma.sp needs the tensor-memory address of its metadata")
    if not i.sparsity and metadata is not None:
        raise InputError(
            f"metadata = {shown(metadata)}: the instruction descriptor is dense (bit 2 is 0); tcgen05.mma.sp needs a sparse one"
        )


def _word(side: str, descriptor: Any, arch: str) -> SmemDescriptor:
    if isinstance(descriptor, SmemDescriptor):
        return descriptor
    wanted = "the 64-bit word of a matrix descriptor" + (", or a TmemAddress for A in tensor memory" if side == "a" else "")
    return SmemDescriptor.decode(whole(side, descriptor, wanted=wanted), arch=arch)


def scale_of_d(i: InstrDescriptor, shift: Any, ws: bool) -> int:
    """The n of scale-input-d: D counts times 2^-n."""
    number = whole("scale_input_d", shift, minimum=0)
    if number and (ws or not i.row.scale_input_d):
        what = ".ws" if ws else f"kind {i.kind}"
        raise InputError(f"scale_input_d = {number}: kinds f16 and tf32 without .ws have it, {what} has not (PTX ISA 9.7.16.10.9)")
    if number > 15:
        raise InputError(f"scale_input_d = {number}: D is divided by 2^0 to 2^15 (PTX ISA 9.7.16.10.9)")
    return number


def zero_columns(mask: Any, i: InstrDescriptor, layout: AccumulatorLayout, ws: bool) -> np.ndarray | None:
    """(N,) bool of the columns of B that count as zero; None without a mask."""
    word = ZERO_COLUMN_MASK.check_range(mask, "zero_column_mask")
    if not word:
        return None
    if not ws:
        raise InputError(f"zero_column_mask = {word:#x}: only tcgen05.mma.ws has it (PTX ISA 9.7.16.10.9.3)")
    if any(ZERO_COLUMN_MASK.constants(word)):
        raise Unmodelled(f"zero_column_mask = {word:#018x}: reserved bits are set; what they do is not known")
    v = ZERO_COLUMN_MASK.decode(word)
    if v["shift"]:
        raise Unmodelled(
            f"zero_column_mask = {word:#018x}: shift = {v['shift']} columns of B; where the last columns come from then is in no document "
            "(PTX ISA 9.7.16.4.3)"
        )
    if not v["non_zero_mask"]:
        return None
    width = layout.columns  # of one band; each has a start count and a first span of its own
    return np.array(
        [
            is_zero_column(v[f"start_count_{n // width}"], v[f"first_span_{n // width}"], v["skip_span"], v["use_span"], n % width)
            for n in range(i.n)
        ]
    )


def enabled(words: Any, i: InstrDescriptor, cells: tuple[tuple[np.ndarray, np.ndarray], ...], ws: bool) -> np.ndarray | None:
    """(M, N) bool: is this element of D written? None when all are."""
    count = 4 * len(cells)
    given = wholes("disable_output_lane", words, wanted=f"{count} words of 32 bits, a bit for every lane")
    if not given:
        return None
    if ws or i.row.block_scaled:
        what = ".ws" if ws else f"kind {i.kind}"
        raise InputError(f"disable_output_lane: {what} has none (PTX ISA 9.7.16.10.9)")
    if len(given) != count or not all(0 <= word < 1 << 32 for word in given):
        raise InputError(
            f"disable_output_lane = {shown(given)}: .cta_group::{len(cells)} has {count} words of 32 bits, a bit for every lane"
        )
    off = np.array([[is_lane_disabled(given, cta, lane) for lane in range(LANES)] for cta in range(len(cells))])
    return np.concatenate([~off[cta][lane] for cta, (lane, _) in enumerate(cells)])


# ---- What tcgen05.mma reads: A and B through descriptors, A, scale factors and metadata from tensor memory. One entry a CTA


# How 4- and 6-bit elements stand in their byte of tensor memory: as tcgen05.cp's decompression puts them.
DECOMPRESSION_OF = {dtype: row for row in DECOMPRESSIONS.values() for dtype in row.types}


def read_shared(i: InstrDescriptor, operand: str, descriptor: int | SmemDescriptor, shared: tuple[SharedMemory, ...]) -> MmaOperand:
    """A (M x stored K) or B (N x K): each CTA gives its half of the rows from its own shared memory, at the same offset."""
    dtype, major = (i.a_type, i.a_major) if operand == "A" else (i.b_type, i.b_major)
    rows = i.m if operand == "A" else i.n
    k = i.k // 2 if operand == "A" and i.sparsity else i.k
    parts = [
        memory.read_operand(descriptor, dtype=dtype, major=major, rows=rows // len(shared), k=k, packing=i.row.packing) for memory in shared
    ]
    grade = shared_grade(descriptor, shared[0].arch, dtype, major, k, i.row.packing)
    if any(int(part.address.max(initial=0)) >= memory.end for part, memory in zip(parts, shared, strict=True)):
        grade = max(grade, RULES["operand.window"].grades[shared[0].arch], key=list(Grade).index)
    return from_shared(dtype, parts, grade)


def layout_of_a(i: InstrDescriptor, taddr: Any, cta_group: int, *, ws: bool) -> ATmemLayout:
    """Where A lies in tensor memory."""
    at = TmemAddress.decode(taddr, "a")
    if i.k_size:
        raise Unmodelled("A in tensor memory with K = 96: no document shows how a row of it lies there")
    return ATmemLayout(i.m, i.kind, cta_group, ws=ws, sparse=i.sparsity, lane=at.lane, column=at.column)


def read_a_from_tensor(i: InstrDescriptor, taddr: Any, tensor: tuple[TensorMemory, ...], *, ws: bool) -> tuple[MmaOperand, ...]:
    """A (M x stored K) from tensor memory, once for every band of N that has lanes of its own."""
    layout = layout_of_a(i, taddr, len(tensor), ws=ws)
    contained = DECOMPRESSION_OF.get(i.a_type) if layout.bits == 8 else None
    grade = layout.grade if contained is None else max(layout.grade, contained.grade, key=list(Grade).index)
    bits, shift = element_format(i.a_type).bits, contained.shift if contained else 0
    return tuple(_read_cells(i.a_type, bits, shift, copy, tensor, grade) for copy in cells_of_a(layout))


def _read_cells(
    dtype: str, bits: int, shift: int, cells: tuple[np.ndarray, ...], tensor: tuple[TensorMemory, ...], grade: Grade
) -> MmaOperand:
    cta, lane, column, bit = cells
    words, owners, doubts = np.empty(cta.shape, np.uint32), np.empty((2, *cta.shape), np.int64), np.zeros((2, *cta.shape), bool)
    for number, memory in enumerate(tensor):
        mine = cta == number
        words[mine] = memory.read(lane[mine], column[mine])
        writer, place = memory.owners(lane[mine], column[mine])
        byte = (bit[mine] // 8)[:, None]
        owners[0][mine] = np.take_along_axis(writer, byte, -1)[:, 0]
        owners[1][mine] = np.take_along_axis(place, byte, -1)[:, 0]
        of_bytes = memory.doubts(lane[mine], column[mine])
        for i in range(-(-bits // 8)):  # all bytes of the element; a container begins with a byte, or is half of one
            for kind_of_doubt in (0, 1):
                doubts[kind_of_doubt][mine] |= np.take_along_axis(of_bytes[kind_of_doubt], byte + i, -1)[:, 0]
    raw = words >> (bit + shift).astype(np.uint32) & np.uint32((1 << bits) - 1)
    kind = {32: np.uint32, 16: np.uint16}.get(bits, np.uint8)
    address = (lane << 16 | column).astype(np.uint32)
    writers = tuple(used_writers(owners[0][cta == number], memory.writers) for number, memory in enumerate(tensor))
    return MmaOperand(
        dtype, "tensor", raw.astype(kind), address, bit, cta[:, 0], owners[0], owners[1], writers, grade, doubts[0], doubts[1]
    )


def _column(name: str, taddr: Any) -> int:
    """The column of an address whose lane is 0."""
    at = TmemAddress.decode(taddr, name)
    if at.lane:
        raise Unmodelled(f"{name} = {at}: scale factors and metadata are addressed from lane 0; what another lane does is not known")
    return at.column


def scale_address(name: str, taddr: Any) -> tuple[int, int]:
    """(scale id in bits 31:30, column) of the address of scale factors.

    Kernels keep the id there from which they make the instruction descriptor, and pass the address as it is. The instruction takes the
    descriptor's (`RULES["tcgen05.scale_address"]`).

    >>> scale_address("scale_a", 0x800001D0), scale_address("scale_a", TmemAddress(0, 464))
    ((2, 464), (0, 464))
    """
    if isinstance(taddr, TmemAddress):
        return 0, _column(name, taddr)
    word = whole(name, taddr, minimum=0, wanted="a tensor memory address")
    return word >> SCALE_ID_SHIFT, _column(name, word & (1 << SCALE_ID_SHIFT) - 1)


def layouts_of_scales(
    i: InstrDescriptor, scale_a: Any, scale_b: Any, cta_group: int, *, scale_vec: str | None
) -> tuple[ScaleLayout, ScaleLayout]:
    """Where the scale factors of A and of B lie."""
    modes = scale_modes(i.row, wide_k=bool(i.k_size))
    if scale_vec is None and len(modes) > 1:
        raise InputError(f"scale_vec: kind {i.kind} has {' and '.join(mode.name for mode in modes)}; say which")
    of_a, of_b = (
        ScaleLayout(
            operand, m=i.m, n=i.n, kind=i.kind, scale_vec=scale_vec or modes[0].name, k=i.k if i.k_size else None, cta_group=cta_group,
            scale_id=scale_id, column=scale_address(f"scale_{operand.lower()}", taddr)[1],
        )
        for operand, taddr, scale_id in (("A", scale_a, i.a_sf_id), ("B", scale_b, i.b_sf_id))
    )  # fmt: skip
    return of_a, of_b


def factors_of(
    i: InstrDescriptor, layouts: tuple[ScaleLayout, ScaleLayout], tensor: tuple[TensorMemory, ...]
) -> tuple[Factors, tuple[Copies, Copies]]:
    """The scale factors of A (M, factors) and of B (N, factors), and their cells.

    Every factor lies in tensor memory several times; where the copies differ nobody knows which lanes of the array read which: Unmodelled.
    """
    found, cells = [], []
    for layout in layouts:
        copies = cells_of_scales(layout)
        bits = _fields(copies, tensor, 8, 0xFF)
        differ = (bits != bits[0]).nonzero()
        if len(differ[0]):
            copy, row, index = (int(x[0]) for x in differ)
            texts = ["CTA {} lane {} column {} byte {}".format(*layout.location(row, index, c)) for c in (0, copy)]
            raise Unmodelled(
                f"scale {index} of row {row} of {layout.operand} is {bits[0][row, index]:#04x} at {texts[0]} and {bits[copy][row, index]:#04x} at "
                f"{texts[1]}: tcgen05.mma wants it in every 32 lanes (tcgen05.cp.32x128b.warpx4 puts it there); which one counts is not known"
            )
        found.append(bits[0].astype(np.uint8))
        cells.append(copies)
    return Factors(found[0], found[1], str(i.scale_type), i.k // layouts[1].scales), (cells[0], cells[1])


def read_factors(
    i: InstrDescriptor, scale_a: Any, scale_b: Any, tensor: tuple[TensorMemory, ...], *, scale_vec: str | None
) -> tuple[Factors, int, bool, Grade]:
    """The scale factors, how many of them nobody wrote, whether some are in doubt, and their grade."""
    layouts = layouts_of_scales(i, scale_a, scale_b, len(tensor), scale_vec=scale_vec)
    factors, cells = factors_of(i, layouts, tensor)
    doubts = [_doubts(copies, tensor, 8) for copies in cells]
    grade = max((layout.grade for layout in layouts), key=list(Grade).index)
    return factors, sum(int(nobody[0].any(0).sum()) for nobody in doubts), any(bool(nobody[1].any()) for nobody in doubts), grade


def _fields(cells: Copies, tensor: tuple[TensorMemory, ...], unit: int, mask: int) -> np.ndarray:
    """The bits of fields of cells, one entry a copy; a unit of a cell has `unit` bits."""
    bits = []
    for cta, lane, column, at in cells:
        words = np.empty(cta.shape, np.int64)
        for number, memory in enumerate(tensor):
            mine = cta == number
            words[mine] = memory.read(lane[mine], column[mine])
        bits.append(words >> at * unit & mask)
    return np.stack(bits)


def _doubts(cells: Copies, tensor: tuple[TensorMemory, ...], unit: int) -> np.ndarray:
    """[did nobody write them, was their writer not sure] of fields of cells, (2, copies, ...)."""
    nobody = []
    for cta, lane, column, at in cells:
        doubts = np.zeros((2, *cta.shape), bool)
        for number, memory in enumerate(tensor):
            mine = cta == number
            byte = (at[mine] * unit // 8)[:, None]
            for found, of_bytes in zip(doubts, memory.doubts(lane[mine], column[mine]), strict=True):
                found[mine] = np.take_along_axis(of_bytes, byte, -1)[:, 0]
        nobody.append(doubts)
    return np.stack(nobody, axis=1)


def layout_of_metadata(i: InstrDescriptor, metadata: Any, cta_group: int, *, ws: bool) -> MetadataLayout:
    """Where the metadata of a sparse A lies."""
    return MetadataLayout(i.m, i.kind, cta_group, ws=ws, selector=i.sparsity_selector, column=_column("metadata", metadata))


def index_of(
    i: InstrDescriptor, layout: MetadataLayout, tensor: tuple[TensorMemory, ...], stored_a: Sequence[np.ndarray]
) -> tuple[np.ndarray, Copies]:
    """(M, stored K) the K that every stored element of a sparse A meets, and the metadata's cells. `stored_a`: A's bits, (M, stored K), every copy.

    Raises Unmodelled for four bits that the PTX ISA does not list (wgmma has a meaning for them, and nobody has asked tcgen05), and where
    the copies that .ws has for its bands differ.
    """
    row = METADATA[i.kind]
    cells = cells_of_metadata(layout)
    copies = _fields(cells, tensor, 1, 0xF)
    nibbles = copies[0]
    if (copies != nibbles).any():
        raise Unmodelled("the copies of the metadata differ between bands of lanes; whether each band reads its own is not known")
    odd = ~np.isin(nibbles, row.indices)
    if row.chunk > 2:
        odd &= (nibbles != EMPTY_GROUP) | _holds_numbers(i, stored_a, odd.shape)
    if odd.any():
        m, group = (int(x[0]) for x in np.nonzero(odd))
        place = "CTA {} lane {} column {} bit {}".format(*(x[m, group] for x in cells[0]))
        listed = ", ".join(f"{value:#06b}" for value in row.indices)
        raise Unmodelled(
            f"metadata of row {m}, K {group * row.chunk} on, at {place}: {nibbles[m, group]:#06b}; kind {i.kind} has {listed} ({row.source})"
            + (
                f"; {EMPTY_GROUP:#06b} stands for a group of zeros, and A has other elements there"
                if nibbles[m, group] == EMPTY_GROUP
                else ""
            )
        )
    stored = np.arange(i.k // 2)
    return stored_k(stored, nibbles[:, stored * 2 // row.chunk], row.chunk), cells


def _holds_numbers(i: InstrDescriptor, stored_a: Sequence[np.ndarray], groups: tuple[int, ...]) -> np.ndarray:
    """Which groups of A have a stored element that is not zero; -0 is zero."""
    sign = 0 if i.kind == "i8" else 1 << element_format(i.a_type).bits - 1
    found: np.ndarray = np.any([((bits & ~bits.dtype.type(sign)) != 0).reshape(*groups, -1).any(axis=2) for bits in stored_a], axis=0)
    return found


def read_index(
    i: InstrDescriptor, metadata: Any, tensor: tuple[TensorMemory, ...], stored_a: Sequence[np.ndarray], *, ws: bool
) -> tuple[np.ndarray, int, bool, Grade]:
    """`index_of`, how many groups of metadata nobody wrote, whether some are in doubt, and their grade."""
    layout = layout_of_metadata(i, metadata, len(tensor), ws=ws)
    index, cells = index_of(i, layout, tensor, stored_a)
    nobody = _doubts(cells, tensor, 1)
    return index, int(nobody[0].any(0).sum()), bool(nobody[1].any()), layout.grade


def stored_k(stored: np.ndarray, nibbles: np.ndarray, chunk: int) -> np.ndarray:
    """K of stored elements whose group of `chunk` elements of K has the metadata `nibbles`.

    An index moves one element of a 2:4 group, a pair of a 4:8 group (chunk 8), and the 16-bit halves of a tf32 (chunk 2).
    """
    if chunk == 2:
        return np.asarray(sparse_k(2 * stored, nibbles)) // 2  # type: ignore[arg-type]
    if chunk == 8:
        pairs = np.asarray(sparse_k(stored // 2, nibbles))  # type: ignore[arg-type]
        return np.asarray(2 * pairs + stored % 2)
    return np.asarray(sparse_k(stored, nibbles))  # type: ignore[arg-type]


# ---- `tcgen05_mma`: one tcgen05.mma on the memories of a CTA or a pair, every term known by address and by tensor coordinate


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TmemMma:
    """One CTA's part of a tcgen05.mma as a writer of tensor memory: rows `first_row` on of `result.d`."""

    result: MmaResult
    cta: int
    first_row: int

    def where(self, place: int) -> tuple[int, ...]:
        """(m, n, byte) of the byte `place`."""
        m, n = divmod(place // 4, self.result.d.shape[1])
        return self.first_row + m, n, place % 4

    def unsure(self, places: np.ndarray) -> np.ndarray:
        """Which of the bytes `places` belong to elements that the instruction was not certain of."""
        m, n = np.divmod(places // 4, self.result.d.shape[1])
        return np.asarray(~self.result.certain[self.first_row + m, n])

    def __repr__(self) -> str:
        return f"<CTA {self.cta} of {self.result!r}>"


def tcgen05_mma(
    tensor_memory: TensorMemory | tuple[TensorMemory, TensorMemory],
    d: int | TmemAddress,
    a: int | SmemDescriptor | TmemAddress,
    b: int | SmemDescriptor,
    idesc: int | InstrDescriptor,
    *,
    shared: SharedMemory | tuple[SharedMemory, SharedMemory],
    kind: str | None = None,
    cta_group: int = 1,
    ws: bool = False,
    enable_input_d: bool = True,
    scale_input_d: int = 0,
    disable_output_lane: tuple[int, ...] = (),
    scale_a: int | TmemAddress | None = None,
    scale_b: int | TmemAddress | None = None,
    scale_vec: str | None = None,
    metadata: int | TmemAddress | None = None,
    zero_column_mask: int = 0,
) -> MmaResult:
    """`tcgen05.mma`: D = A * B + D of one instruction, read through the descriptors and written to tensor memory.

    `d` is the address of D; `a` a shared-memory descriptor, or a `TmemAddress` for A in tensor memory; `b` a descriptor; `idesc` the
    instruction descriptor (a word needs `kind`). With `cta_group` 2 both memories are pairs, of the even CTA and its peer, and the same
    descriptors and addresses hold in both. `scale_a`, `scale_b` are the addresses of the scale factors of block-scaled kinds, `scale_vec`
    "1X", "2X", "4X" (or "block16", "block32"), `metadata` that of a sparse A; `scale_input_d` divides the D that is added by 2^n.

    The instruction is done when the call returns: there is no commit and no fence to forget here. The result has both operands with
    addresses and owners, `terms(m, n)`, and D. Operand addresses and places in tensor memory carry their grade (`result.grade`):
    documented, compiled or inferred, nothing is measured on Blackwell; `result.disputes` names what sources disagree about. What the
    elements come to is inferred from public studies (`result.arithmetic`); `result.certain` says where no datapath known to us comes to other
    bits; it is False where D depends on what nobody wrote, or on what an earlier instruction was not certain of.

    Raises InputError for an instruction that does not exist, with the first rule it breaks, HardwareTrap when an operand leaves the shared
    window, Unmodelled for what nobody knows; nothing is written then.

    >>> from smemsim.machine.memory import SharedMemory
    >>> shared, tmem = SharedMemory("sm_100a"), TensorMemory("sm_100a")
    >>> shared.write(0x400, np.full(128 * 16, 0x3F80, np.uint16))                  # ones in 8 x 16 B blocks, both operands
    >>> word = SmemDescriptor(arch="sm_100a", start_address=0x400, leading_byte_offset=128, stride_byte_offset=256)
    >>> result = tcgen05_mma(tmem, tmem.alloc(32), word, word, 0x08040490, kind="f16", shared=shared, enable_input_d=False)
    >>> result
    <tcgen05.mma.cta_group::1.kind::f16: 128 x 16 f32; addresses compiled; arithmetic inferred, no element depends on it>
    >>> float(tmem.cells[127, :16].view(np.float32)[15]), result.terms(9, 3)[0].a.place
    (16.0, 'shared 0x510')
    """
    i = instruction(idesc, kind)
    tensor = memories_of("tensor_memory", tensor_memory, TensorMemory, cta_group)
    memories = memories_of("shared", shared, SharedMemory, cta_group)
    check_together(tensor, memories, cta_group)
    ws = flag("ws", ws)
    at = TmemAddress.decode(d, "d")
    check_instruction(
        i, memories[0].arch, at, a, b, cta_group=cta_group, ws=ws, scale_vec=scale_vec, scale_a=scale_a, scale_b=scale_b, metadata=metadata
    )
    layout = AccumulatorLayout(i.m, i.n, cta_group, ws=ws, sparse=i.sparsity, lane=at.lane, column=at.column)
    cells = cells_of_d(layout)
    zero = zero_columns(zero_column_mask, i, layout, ws)
    shift = scale_of_d(i, scale_input_d, ws)
    written = enabled(disable_output_lane, i, cells, ws)
    a_operands = read_a_from_tensor(i, a, tensor, ws=ws) if isinstance(a, TmemAddress) else (read_shared(i, "A", a, memories),)
    b_operand = read_shared(i, "B", b, memories)
    factors, no_factor, odd_factor, factor_grade = (
        read_factors(i, scale_a, scale_b, tensor, scale_vec=scale_vec) if i.row.block_scaled else _NOTHING
    )
    index, no_index, odd_index, index_grade = (
        read_index(i, metadata, tensor, [x.bits for x in a_operands], ws=ws) if i.sparsity else _NOTHING
    )
    adds_d = flag("enable_input_d", enable_input_d)
    c, nobody, unsure = _read_d(i, cells, tensor) if adds_d else _no_d(i)
    for memory, where in zip(tensor, cells, strict=True):
        memory.check_allocated(*where)
    values = np.where(zero[:, None], 0, b_operand.bits) if zero is not None else b_operand.bits
    width = i.n // len(a_operands)
    bands = [slice(n, n + width) for n in range(0, i.n, width)]
    parts = [
        multiply(
            operand.bits,
            values[band],
            c[:, band],
            kind=i.kind,
            a_type=i.a_type,
            b_type=i.b_type,
            d_type=i.d_type,
            index=index,
            negate_a=i.negate_a,
            negate_b=i.negate_b,
            saturate=i.saturate,
            factors=None if factors is None else dataclasses.replace(factors, b=factors.b[band]),
            scale_c=shift,
            adds_c=adds_d,
        )
        for operand, band in zip(a_operands, bands, strict=True)
    ]
    certain = np.concatenate([part[1] for part in parts], axis=1) & ~unsure
    unknown = np.concatenate([operand.doubtful_rows[:, None] | np.zeros(width, bool) for operand in a_operands], axis=1)
    certain &= ~(unknown | b_operand.doubtful_rows[None, :] | nobody)
    certain &= not (no_factor or odd_factor or no_index or odd_index)
    counts = {
        "A": sum(int(operand.unwritten.sum()) for operand in a_operands),
        "B": int(b_operand.unwritten.sum()),
        "D": int(nobody.sum()),
        "the scale factors": no_factor,
        "the metadata": no_index,
    }
    result = MmaResult(
        f"tcgen05.mma{'.ws' if ws else ''}{'.sp' if i.sparsity else ''}.cta_group::{cta_group}.kind::{i.kind}",
        a_operands,
        b_operand,
        c,
        np.concatenate([part[0] for part in parts], axis=1),
        i.d_type,
        certain,
        grade_of(i, layout, [*(operand.grade for operand in (*a_operands, b_operand)), factor_grade, index_grade], masked=zero is not None),
        index,
        arithmetic=row_of(i.kind, i.a_type, i.b_type, i.d_type),
        unwritten={name: count for name, count in counts.items() if count},
        disputes=disputes_of(i, layout, a_in_tensor=isinstance(a, TmemAddress), masked=zero is not None),
        scale_c=shift,
        factors=factors,
        negate=(i.negate_a, i.negate_b),
        written=written,
        zero_columns=zero,
        saturate=i.saturate,
    )
    _write_d(result, cells, tensor)
    return result


_NOTHING: tuple[Any, int, bool, Grade] = (None, 0, False, Grade.DOCUMENTED)


def _read_d(i: InstrDescriptor, cells: Parts, tensor: tuple[TensorMemory, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(what D holds, where nobody wrote it, where the instructions that did were not certain of it), (M, N)."""
    half = i.d_type == "f16"  # 16-bit elements are the lower halves of their cells
    held = np.concatenate([memory.read(*where) for memory, where in zip(tensor, cells, strict=True)])
    doubts = [memory.doubts(*where) for memory, where in zip(tensor, cells, strict=True)]
    nobody, unsure = (
        np.concatenate([of_bytes[..., : 2 if half else 4].any(-1) for of_bytes in kind]) for kind in zip(*doubts, strict=True)
    )
    return held.astype(np.uint16) if half else held, nobody, unsure


def _no_d(i: InstrDescriptor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    nothing = np.zeros((i.m, i.n), bool)
    return np.zeros((i.m, i.n), np.uint16 if i.d_type == "f16" else np.uint32), nothing, nothing


def _write_d(result: MmaResult, cells: Parts, tensor: tuple[TensorMemory, ...]) -> None:
    first = 0
    for cta, (memory, (lane, column)) in enumerate(zip(tensor, cells, strict=True)):
        rows = slice(first, first + len(lane))
        writer, values = TmemMma(result, cta, first), result.d[rows].astype(np.uint32)
        if result.written is None:
            memory.write_cells(lane, column, values, writer)
        else:
            on = result.written[rows]
            place = np.arange(values.size).reshape(values.shape) * 4
            memory.write_placed(lane[on], column[on], values[on], writer, place[on])
        first += len(lane)


def grade_of(i: InstrDescriptor, layout: AccumulatorLayout, grades: list[Grade], *, masked: bool) -> Grade:
    """The weakest of what the operands' addresses and the places of D rest on."""
    grades = [*grades, layout.grade]
    grades += [RULES["tcgen05.idesc_bits"].grades["sm_100a"]] if any(i.table.constants(i.word)) else []
    grades += [RULES["tcgen05.pair"].grades["sm_100a"]] if layout.cta_group == 2 else []
    grades += [Grade.INFERRED] if masked else []
    return max(grades, key=list(Grade).index)


def disputes_of(i: InstrDescriptor, layout: AccumulatorLayout, *, a_in_tensor: bool, masked: bool) -> tuple[str, ...]:
    """The rows of smemsim.DISPUTES that the result rests on."""
    rows = {
        **dict.fromkeys(shape_disputes(i, cta_group=layout.cta_group, ws=layout.ws), True),
        "mixed f16 and bf16": {i.a_type, i.b_type} == {"f16", "bf16"},
        "layout C": layout.name == "C",
        "layout E": layout.name == "E",
        "A of .ws": layout.ws and a_in_tensor and i.m < 128,
        "decompression": a_in_tensor and i.a_type in DECOMPRESSION_OF and not i.kind.startswith("mxf4"),
        "MN-major 4- and 6-bit operands of f8f6f4": any(
            major == "MN" and element_format(dtype).bits < 8
            for dtype, major, read in ((i.a_type, i.a_major, not a_in_tensor), (i.b_type, i.b_major, True))
            if read
        ),
        "scales of B in two CTAs": i.row.block_scaled and layout.name == "B",
        "scales of K = 96": bool(i.k_size),
        "zero-column mask": masked,
        "reserved bits of instruction descriptors": any(i.table.constants(i.word)),
    }
    return tuple(name for name, in_force in rows.items() if in_force)


# ---- The tcgen05.mma of several CTAs at once, for those who run kernels: D in tensor memory, and the cells that were touched, nothing more


@dataclasses.dataclass(frozen=True, eq=False)
class Issue:
    """The operands of one tcgen05.mma, as `tcgen05_mma` has them; one memory for each CTA of the group."""

    tensor: tuple[TensorMemory, ...]
    shared: tuple[SharedMemory, ...]
    d: int
    a: int | TmemAddress
    b: int
    enable_input_d: bool = True
    scale_input_d: int = 0
    disable_output_lane: tuple[int, ...] = ()
    scale_a: int | None = None
    scale_b: int | None = None
    metadata: int | None = None
    zero_column_mask: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Touched:
    """What one of them did: the boxes of tensor memory that it `reads` and `writes`.

    `unwritten` says that bytes of shared memory were read that nobody wrote; `grade` and `disputes` are those of `MmaResult`.
    """

    reads: tuple[Box, ...]
    writes: tuple[Box, ...]
    unwritten: bool
    grade: Grade
    disputes: tuple[str, ...]


def tcgen05_mma_many(
    issues: Sequence[Issue], idesc: int, *, kind: str, ws: bool = False, scale_vec: str | None = None
) -> tuple[InstrDescriptor, list[Touched]]:
    """`tcgen05_mma` for several independent instructions of one form; the same operands, errors and results in tensor memory.

    Returns the instruction descriptor's meaning, and what each of them touched. Owners of cells are not looked at.

    >>> from smemsim.words.smem import SmemDescriptor
    >>> shared, tmem = SharedMemory("sm_100a"), TensorMemory("sm_100a", owners=False)
    >>> shared.write(0x400, np.full(128 * 16, 0x3F80, np.uint16))
    >>> word = SmemDescriptor(arch="sm_100a", start_address=0x400, leading_byte_offset=128, stride_byte_offset=256).encode()
    >>> one = Issue((tmem,), (shared,), tmem.alloc(32).encode(), word, word, enable_input_d=False)
    >>> i, (touched,) = tcgen05_mma_many([one], 0x08040490, kind="f16")
    >>> float(tmem.cells[127, :16].view(np.float32)[15]), touched.writes
    (16.0, ((0, slice(0, 128, None), 0, 16),))
    """
    i = _descriptor(idesc, kind)
    prepared = [_prepare(i, issue, ws, scale_vec) for issue in issues]
    results: list[np.ndarray | None] = [None] * len(prepared)
    plain = [n for n, p in enumerate(prepared) if p.options == prepared[0].options and p.index is None and len(p.a) == 1]
    if len(plain) > 1:
        d = _multiply(i, [prepared[n] for n in plain])
        for n, values in zip(plain, d, strict=True):
            results[n] = values
    for n, p in enumerate(prepared):
        done = results[n]
        _write(p, _multiply(i, [p])[0] if done is None else done)
    return i, [p.touched for p in prepared]


@dataclasses.dataclass(frozen=True, eq=False)
class _Prepared:
    """Everything that is read, before anything is written."""

    tensor: tuple[TensorMemory, ...]
    a: list[np.ndarray]  # for each band of N
    b: np.ndarray
    c: np.ndarray
    cells: tuple[np.ndarray, ...]
    written: np.ndarray | None
    index: np.ndarray | None
    factors: Factors | None
    options: Options
    touched: Touched


@functools.lru_cache(maxsize=64)
def _descriptor(idesc: int, kind: str) -> InstrDescriptor:
    return instruction(idesc, kind)


@functools.lru_cache(maxsize=256)
def _checked(
    i: InstrDescriptor, arch: str, lane_d: int, lane_a: int | None, mode_a: int, mode_b: int, cta_group: int, ws: bool, scale_vec: str | None,
    has: tuple[bool, bool, bool],
) -> None:  # fmt: skip
    """`check_instruction`, once for everything that it depends on: of the descriptors' words that is the swizzle."""
    given = [0 if there else None for there in has]
    a: Any = TmemAddress(lane_a, 0) if lane_a is not None else mode_a
    check_instruction(
        i, arch, TmemAddress(lane_d, 0), a, mode_b, cta_group=cta_group, ws=ws, scale_vec=scale_vec, scale_a=given[0], scale_b=given[1],
        metadata=given[2],
    )  # fmt: skip


_LAYOUT = SM100_SMEM_DESC.fields["layout_type"]
_SWIZZLE = _LAYOUT.mask << _LAYOUT.low


def _prepare(i: InstrDescriptor, issue: Issue, ws: bool, scale_vec: str | None) -> _Prepared:
    tensor, group = issue.tensor, len(issue.tensor)
    for memory in tensor:
        memory.check_group(group)
    arch, at = tensor[0].arch, TmemAddress.decode(issue.d, "d")
    in_tensor = isinstance(issue.a, TmemAddress)
    _checked(
        i, arch, at.lane, issue.a.lane if isinstance(issue.a, TmemAddress) else None, 0 if isinstance(issue.a, TmemAddress) else issue.a & _SWIZZLE,
        issue.b & _SWIZZLE, group, ws, scale_vec, (issue.scale_a is not None, issue.scale_b is not None, issue.metadata is not None),
    )  # fmt: skip
    layout = AccumulatorLayout(i.m, i.n, group, ws=ws, sparse=i.sparsity, lane=at.lane, column=at.column)
    cells = _flat_d(layout)
    zero = zero_columns(issue.zero_column_mask, i, layout, ws)
    shift = scale_of_d(i, issue.scale_input_d, ws)
    written = enabled(issue.disable_output_lane, i, cells_of_d(layout), ws)
    reads: list[Box] = []
    b, unwritten, grade = _shared(i, "B", issue.b, issue.shared)
    if zero is not None:
        b = np.where(zero[:, None], 0, b)
    if isinstance(issue.a, TmemAddress):
        of_a = layout_of_a(i, issue.a, group, ws=ws)
        a = [_tensor_a(i.a_type, of_a.bits, copy, tensor) for copy in cells_of_a(of_a)]
        reads += boxes_of(of_a)
        contained = DECOMPRESSION_OF.get(i.a_type) if of_a.bits == 8 else None
        grade = _weaker(grade, of_a.grade, *([contained.grade] if contained else []))
    else:
        bits, missing, graded = _shared(i, "A", issue.a, issue.shared)
        a, unwritten, grade = [bits], unwritten or missing, _weaker(grade, graded)
    factors = index = None
    if i.row.block_scaled:
        layouts = layouts_of_scales(i, issue.scale_a, issue.scale_b, group, scale_vec=scale_vec)
        factors, _ = factors_of(i, layouts, tensor)
        reads += [*boxes_of(layouts[0]), *boxes_of(layouts[1])]
        grade = _weaker(grade, *(one.grade for one in layouts))
    if i.sparsity:
        of_metadata = layout_of_metadata(i, issue.metadata, group, ws=ws)
        index, _ = index_of(i, of_metadata, tensor, a)
        reads += boxes_of(of_metadata)
        grade = _weaker(grade, of_metadata.grade)
    half = i.d_type == "f16"
    if issue.enable_input_d:
        c = np.concatenate([memory.cells.reshape(-1)[flat] for memory, flat in zip(tensor, cells, strict=True)])
        c = c.astype(np.uint16) if half else c
        reads += boxes_of_d(layout)
    else:
        c = np.zeros((i.m, i.n), np.uint16 if half else np.uint32)
    writes = boxes_of_d(layout)
    for cta, _, first, end in writes:
        tensor[cta].check_allocated(0, np.arange(first, end))
    if written is not None:
        rows = i.m // group
        on = [cells_of_d(layout)[cta][0][written[cta * rows : (cta + 1) * rows]] for cta in range(group)]
        writes = tuple((cta, lane_set(on[cta]), first, end) for cta, _, first, end in writes if on[cta].size)
    touched = Touched(
        tuple(reads), writes, unwritten, grade_of(i, layout, [grade], masked=zero is not None),
        disputes_of(i, layout, a_in_tensor=in_tensor, masked=zero is not None),
    )  # fmt: skip
    return _Prepared(
        tensor, a, b, c, cells, written, index, factors, Options(i.negate_a, i.negate_b, shift, i.saturate), touched,
    )  # fmt: skip


def _shared(i: InstrDescriptor, operand: str, word: int, shared: tuple[SharedMemory, ...]) -> tuple[np.ndarray, bool, Grade]:
    """(bits, did nobody write some of them, what the addresses rest on): each CTA gives its half of the rows."""
    dtype, major = (i.a_type, i.a_major) if operand == "A" else (i.b_type, i.b_major)
    rows = (i.m if operand == "A" else i.n) // len(shared)
    k = i.k // 2 if operand == "A" and i.sparsity else i.k
    parts = [memory.operand_bits(word, dtype=dtype, major=major, rows=rows, k=k, packing=i.row.packing) for memory in shared]
    grade = _shared_grade(word, shared[0].arch, dtype, major, k, i.row.packing)
    return parts[0][0] if len(parts) == 1 else np.concatenate([part[0] for part in parts]), any(part[1] for part in parts), grade


_shared_grade = functools.lru_cache(maxsize=512)(shared_grade)


def _tensor_a(dtype: str, container: int, copy: tuple[np.ndarray, ...], tensor: tuple[TensorMemory, ...]) -> np.ndarray:
    """A's elements, (M, stored K), of one copy."""
    contained = DECOMPRESSION_OF.get(dtype) if container == 8 else None
    bits, shift = element_format(dtype).bits, contained.shift if contained else 0
    cta, lane, column, bit = copy
    words = _gather(tensor, cta, lane, column)
    raw = words >> (bit + shift).astype(np.uint32) & np.uint32((1 << bits) - 1)
    return raw.astype({32: np.uint32, 16: np.uint16}.get(bits, np.uint8))


def _gather(tensor: tuple[TensorMemory, ...], cta: np.ndarray, lane: np.ndarray, column: np.ndarray) -> np.ndarray:
    if len(tensor) == 1:
        return tensor[0].read(lane, column)  # type: ignore[no-any-return]
    words = np.empty(cta.shape, np.uint32)
    for number, memory in enumerate(tensor):
        mine = cta == number
        words[mine] = memory.read(lane[mine], column[mine])
    return words


@functools.lru_cache(maxsize=64)
def _flat_d(layout: AccumulatorLayout) -> tuple[np.ndarray, ...]:
    """D's cells in each CTA, (rows, N)."""
    return tuple(lane * COLUMNS + column for lane, column in cells_of_d(layout))


def _weaker(*grades: Grade) -> Grade:
    return max(grades, key=list(Grade).index)


def _multiply(i: InstrDescriptor, prepared: Sequence[_Prepared]) -> list[np.ndarray]:
    """D of instructions that differ in nothing but their operands, or of a single one."""
    first = prepared[0]
    row, types = row_of(i.kind, i.a_type, i.b_type, i.d_type), (i.a_type, i.b_type, i.d_type)
    width = i.n // len(first.a)
    out = []
    for band, _ in enumerate(first.a):
        part = slice(band * width, (band + 1) * width)
        b, c = (np.stack([getattr(p, name) for p in prepared]) for name in ("b", "c"))
        factors = None
        if first.factors is not None:
            scales = [p.factors for p in prepared if p.factors is not None]
            factors = first.factors.of(np.stack([f.a for f in scales]), np.stack([f.b for f in scales])[:, part])
        out.append(
            multiply_tiles(
                np.stack([p.a[band] for p in prepared]), b[:, part], np.ascontiguousarray(c[:, :, part]), row=row, types=types,
                index=first.index, options=first.options, factors=factors,
            )
        )  # fmt: skip
    return list(np.concatenate(out, axis=2) if len(out) > 1 else out[0])


def _write(p: _Prepared, d: np.ndarray) -> None:
    first = 0
    for memory, flat in zip(p.tensor, p.cells, strict=True):
        values = d[first : first + len(flat)].astype(np.uint32, copy=False)
        if p.written is None:
            memory.cells.reshape(-1)[flat] = values
        else:
            on = p.written[first : first + len(flat)]
            memory.cells.reshape(-1)[flat[on]] = values[on]
        first += len(flat)
