"""What tcgen05.mma reads: A and B through descriptors, A, scale factors and metadata from tensor memory. One entry a CTA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.addressing.fragments import sparse_k
from smemsim.arguments import whole
from smemsim.arithmetic.multiply import Factors
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import InputError, Unmodelled
from smemsim.machine.memory import SharedMemory
from smemsim.machine.product import MmaOperand, from_shared, shared_grade, used_writers
from smemsim.machine.tmem.address import TmemAddress
from smemsim.machine.tmem.cells import Copies, cells_of_a, cells_of_metadata, cells_of_scales
from smemsim.machine.tmem.memory import TensorMemory
from smemsim.machine.tmem.operands import ATmemLayout, MetadataLayout
from smemsim.machine.tmem.scales import ScaleLayout
from smemsim.spec.evidence import RULES, Grade
from smemsim.spec.formats import element_format
from smemsim.spec.tcgen05 import scale_modes
from smemsim.spec.tensor_memory import DECOMPRESSIONS, EMPTY_GROUP, METADATA, SCALE_ID_SHIFT

__all__ = [
    "factors_of",
    "index_of",
    "layout_of_a",
    "layout_of_metadata",
    "layouts_of_scales",
    "read_a_from_tensor",
    "read_factors",
    "read_index",
    "read_shared",
    "scale_address",
    "stored_k",
]

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
