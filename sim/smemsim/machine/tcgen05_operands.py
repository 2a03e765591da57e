"""What tcgen05.mma reads: A and B through descriptors, A, scale factors and metadata from tensor memory. One entry a CTA."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from smemsim.addressing.fragments import sparse_k
from smemsim.arithmetic.multiply import Factors
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import InputError, Unmodelled
from smemsim.machine.memory import SharedMemory
from smemsim.machine.product import MmaOperand, from_shared
from smemsim.machine.tmem.address import TmemAddress
from smemsim.machine.tmem.memory import TensorMemory
from smemsim.machine.tmem.operands import ATmemLayout, MetadataLayout
from smemsim.machine.tmem.scales import ScaleLayout
from smemsim.spec.formats import element_format
from smemsim.spec.tcgen05 import SCALE_TYPES_OF_BLOCK, scale_modes
from smemsim.spec.tensor_memory import DECOMPRESSIONS, METADATA

__all__ = ["read_a_from_tensor", "read_factors", "read_index", "read_shared", "stored_k"]

# How 4- and 6-bit elements stand in their byte of tensor memory: as tcgen05.cp's decompression puts them.
_CONTAINER_SHIFT = {dtype: row.shift for row in DECOMPRESSIONS.values() for dtype in row.types}


def read_shared(i: InstrDescriptor, operand: str, descriptor: int | SmemDescriptor, shared: tuple[SharedMemory, ...]) -> MmaOperand:
    """A (M x stored K) or B (N x K): each CTA gives its half of the rows from its own shared memory, at the same offset."""
    dtype, major = (i.a_type, i.a_major) if operand == "A" else (i.b_type, i.b_major)
    rows = i.m if operand == "A" else i.n
    k = i.k // 2 if operand == "A" and i.sparsity else i.k
    parts = [
        memory.read_operand(descriptor, dtype=dtype, major=major, rows=rows // len(shared), k=k, packing=i.row.packing) for memory in shared
    ]
    return from_shared(dtype, parts)


@functools.lru_cache(maxsize=64)
def _cells_of_a(layout: ATmemLayout, copy: int) -> tuple[np.ndarray, ...]:
    m, k = np.meshgrid(np.arange(layout.m), np.arange(layout.k), indexing="ij")
    return layout.location(m, k, copy)


def read_a_from_tensor(i: InstrDescriptor, taddr: Any, tensor: tuple[TensorMemory, ...], *, ws: bool) -> tuple[MmaOperand, ...]:
    """A (M x stored K) from tensor memory, once for every band of N that has lanes of its own."""
    at = TmemAddress.decode(taddr)
    layout = ATmemLayout(i.m, i.kind, len(tensor), ws=ws, sparse=i.sparsity, lane=at.lane, column=at.column)
    fmt = element_format(i.a_type)
    return tuple(_read_cells(i.a_type, fmt.bits, layout.bits, _cells_of_a(layout, copy), tensor) for copy in range(layout.copies))


def _read_cells(dtype: str, bits: int, container: int, cells: tuple[np.ndarray, ...], tensor: tuple[TensorMemory, ...]) -> MmaOperand:
    cta, lane, column, bit = cells
    words, owners = np.empty(cta.shape, np.uint32), np.empty((2, *cta.shape), np.int64)
    for number, memory in enumerate(tensor):
        mine = cta == number
        words[mine] = memory.read(lane[mine], column[mine])
        writer, place = memory.owners(lane[mine], column[mine])
        byte = (bit[mine] // 8)[:, None]
        owners[0][mine] = np.take_along_axis(writer, byte, -1)[:, 0]
        owners[1][mine] = np.take_along_axis(place, byte, -1)[:, 0]
    shift = bit + (_CONTAINER_SHIFT.get(dtype, 0) if container == 8 else 0)
    raw = words >> shift.astype(np.uint32) & np.uint32((1 << bits) - 1)
    kind = {32: np.uint32, 16: np.uint16}.get(bits, np.uint8)
    address = (lane << 16 | column).astype(np.uint32)
    return MmaOperand(
        dtype, "tensor", raw.astype(kind), address, bit, cta[:, 0], owners[0], owners[1], tuple(tuple(memory.writers) for memory in tensor)
    )


def read_factors(i: InstrDescriptor, scale_a: Any, scale_b: Any, tensor: tuple[TensorMemory, ...], *, scale_vec: str | None) -> Factors:
    """The scale factors of A (M, factors) and of B (N, factors).

    Every factor lies in tensor memory several times; where the copies differ nobody knows which lanes of the array read which: Unmodelled.
    """
    if scale_vec is None:
        modes = [m for m in scale_modes(i.row, wide_k=bool(i.k_size)) if i.scale_type in SCALE_TYPES_OF_BLOCK[m.block]]
        if len(modes) != 1:
            raise InputError(f"scale_vec: kind {i.kind} with {i.scale_type} has {' and '.join(mode.name for mode in modes)}; say which")
        scale_vec = modes[0].name
    found = []
    for operand, taddr, scale_id in (("A", scale_a, i.a_sf_id), ("B", scale_b, i.b_sf_id)):
        at = TmemAddress.decode(taddr)
        k = i.k if i.k_size else None
        layout = ScaleLayout(
            operand, m=i.m, n=i.n, kind=i.kind, scale_vec=scale_vec, k=k, cta_group=len(tensor), scale_id=scale_id, column=at.column
        )
        copies = np.stack([_read_bytes(cells, tensor) for cells in _cells_of_scales(layout)])
        if (copies != copies[0]).any():
            copy, row, index = (int(x[0]) for x in np.nonzero(copies != copies[0]))
            places = [layout.location(row, index, c) for c in (0, copy)]
            texts = [f"CTA {cta} lane {lane} column {column} byte {byte}" for cta, lane, column, byte in places]
            raise Unmodelled(
                f"scale {index} of row {row} of {operand} is {copies[0][row, index]:#04x} at {texts[0]} and {copies[copy][row, index]:#04x} at "
                f"{texts[1]}: tcgen05.mma wants it in every 32 lanes (tcgen05.cp.32x128b.warpx4 puts it there); which one counts is not known"
            )
        found.append(copies[0])
        scales = layout.scales
    return Factors(found[0], found[1], str(i.scale_type), i.k // scales)


@functools.lru_cache(maxsize=64)
def _cells_of_scales(layout: ScaleLayout) -> tuple[tuple[np.ndarray, ...], ...]:
    rows = layout.m if layout.operand == "A" else layout.n
    row, index = np.meshgrid(np.arange(rows), np.arange(layout.scales), indexing="ij")
    return tuple(layout.location(row, index, copy) for copy in range(layout.copies))


def _read_bytes(cells: tuple[np.ndarray, ...], tensor: tuple[TensorMemory, ...]) -> np.ndarray:
    cta, lane, column, byte = cells
    found = np.empty(cta.shape, np.uint8)
    for number, memory in enumerate(tensor):
        mine = cta == number
        found[mine] = memory.read(lane[mine], column[mine]) >> (8 * byte[mine]).astype(np.uint32) & np.uint32(0xFF)
    return found


def read_index(i: InstrDescriptor, metadata: Any, tensor: tuple[TensorMemory, ...], *, ws: bool) -> np.ndarray:
    """(M, stored K): the K that every stored element of a sparse A meets.

    Raises Unmodelled for four bits that the PTX ISA does not list: wgmma has a meaning for them, and nobody has asked tcgen05.
    """
    at = TmemAddress.decode(metadata)
    layout = MetadataLayout(i.m, i.kind, len(tensor), ws=ws, selector=i.sparsity_selector, column=at.column)
    row = METADATA[i.kind]
    cta, lane, column, bit = _cells_of_metadata(layout, row.chunk)
    nibbles = np.empty(cta.shape, np.int64)
    for number, memory in enumerate(tensor):
        mine = cta == number
        nibbles[mine] = memory.read(lane[mine], column[mine]) >> bit[mine].astype(np.uint32) & np.uint32(0xF)
    odd = ~np.isin(nibbles, row.indices)
    if odd.any():
        m, group = (int(x[0]) for x in np.nonzero(odd))
        place = f"CTA {cta[m, group]} lane {lane[m, group]} column {column[m, group]} bit {bit[m, group]}"
        listed = ", ".join(f"{value:#06b}" for value in row.indices)
        raise Unmodelled(
            f"metadata of row {m}, K {group * row.chunk} on, at {place}: {nibbles[m, group]:#06b}; kind {i.kind} has {listed} ({row.source})"
        )
    stored = np.arange(i.k // 2)
    return stored_k(stored, nibbles[:, stored * 2 // row.chunk], row.chunk)


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


@functools.lru_cache(maxsize=64)
def _cells_of_metadata(layout: MetadataLayout, chunk: int) -> tuple[np.ndarray, ...]:
    m, k = np.meshgrid(np.arange(layout.m), np.arange(0, layout.k, chunk), indexing="ij")
    return layout.location(m, k)
