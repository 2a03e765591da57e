"""`tmem_put` and `tmem_take`: a whole matrix of D, A, scale factors or metadata into tensor memory by its layout, every copy of it, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.arguments import shown, whole
from smemsim.errors import InputError
from smemsim.machine.tmem.layout import AccumulatorLayout
from smemsim.machine.tmem.memory import TensorMemory
from smemsim.machine.tmem.operands import ATmemLayout, MetadataLayout
from smemsim.machine.tmem.pairs import memories_of
from smemsim.machine.tmem.scales import ScaleLayout
from smemsim.machine.tmem.writers import TmemMatrix
from smemsim.spec.tensor_memory import CELL_BITS, COLUMNS, LANES, METADATA

__all__ = ["tmem_put", "tmem_take"]

Layout = AccumulatorLayout | ATmemLayout | ScaleLayout | MetadataLayout
CELL_BYTES = CELL_BITS // 8
Memories = TensorMemory | tuple[TensorMemory, TensorMemory]


def _fields(layout: Any) -> tuple[tuple[int, int], int, list[tuple[np.ndarray, ...]]]:
    """(shape of the matrix, bits of an entry, (CTA, lane, column, lowest bit) of every entry for each copy)."""
    if isinstance(layout, AccumulatorLayout):
        shape, bits, step, copies = (layout.m, layout.n), CELL_BITS, 1, 1
    elif isinstance(layout, ATmemLayout):
        shape, bits, step, copies = (layout.m, layout.k), layout.bits, 1, layout.copies
    elif isinstance(layout, ScaleLayout):
        shape, bits, step, copies = (layout.m if layout.operand == "A" else layout.n, layout.scales), 8, 1, layout.copies
    elif isinstance(layout, MetadataLayout):
        step = METADATA[layout.kind].chunk
        shape, bits, copies = (layout.m, layout.k // step), 4, layout.copies
    else:
        raise InputError(f"layout = {shown(layout)}: needs an AccumulatorLayout, ATmemLayout, ScaleLayout or MetadataLayout")
    row, column = np.meshgrid(np.arange(shape[0]), np.arange(0, shape[1] * step, step), indexing="ij")
    if isinstance(layout, AccumulatorLayout):
        return shape, bits, [(*layout.location(row, column), np.zeros(shape, np.int64))]
    found = [layout.location(row, column, copy) for copy in range(copies)]
    unit = 8 if isinstance(layout, ScaleLayout) else 1  # scales are told by their byte, the others by their bit
    return shape, bits, [(cta, lane, where, at * unit) for cta, lane, where, at in found]


def tmem_put(tensor_memory: Memories, layout: Layout, values: np.ndarray, *, label: str = "threads") -> None:
    """Write a matrix into the tensor memory of a CTA or of both of a pair, as its layout says, every copy of it.

    `values` are raw bits, one entry an element: (M, N) cells of D, (M, stored K) containers of A, (rows, scales) bytes of scale factors, or
    (M, groups) sets of four bits of metadata. Bits beside them stay. `label` is the writer's name. Raises InputError for anything else, and
    as TensorMemory does where columns are not allocated.

    >>> tmem = TensorMemory()
    >>> layout = ScaleLayout("A", m=128, n=64, kind="mxf8f6f4", scale_vec="1X", column=tmem.alloc(32).column)
    >>> tmem_put(tmem, layout, np.full((128, 1), 0x7F))
    >>> hex(tmem.read(69, 1)), tmem_take(tmem, layout).shape
    ('0x7f', (128, 1))
    """
    shape, bits, copies = _fields(layout)
    memories = memories_of("tensor_memory", tensor_memory, TensorMemory, getattr(layout, "cta_group", 1))
    if not isinstance(values, np.ndarray) or values.shape != shape or values.dtype.kind not in "iu":
        got = f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
        raise InputError(f"values: needs whole numbers of shape {shape}, {bits} bits each, not {got}")
    if values.size and not 0 <= int(values.min()) <= int(values.max()) < 1 << bits:
        raise InputError(f"values from {values.min()} to {values.max()}: an entry has {bits} bits")
    writer, entry = TmemMatrix(label, shape[1]), np.arange(values.size).reshape(shape)
    for number, memory in enumerate(memories):
        memory.check_allocated(*(np.concatenate([copy[i][copy[0] == number] for copy in copies]) for i in (1, 2)))
    for number, memory in enumerate(memories):
        mask, new = np.zeros((2, LANES, COLUMNS), np.uint32)
        place = np.full((LANES, COLUMNS, CELL_BYTES), -1)
        for cta, lane, column, bit in copies:
            mine = cta == number
            at = (lane[mine], column[mine])
            np.bitwise_or.at(mask, at, ((1 << bits) - 1 << bit[mine]).astype(np.uint32))
            np.bitwise_or.at(new, at, (values[mine].astype(np.int64) << bit[mine]).astype(np.uint32))
            backwards = slice(None, None, -1)  # so that of several entries in one byte the lowest stays
            for byte in range(max(1, bits // 8)):
                place[at[0][backwards], at[1][backwards], bit[mine][backwards] // 8 + byte] = entry[mine][backwards]
        lane, column = np.nonzero(mask)
        cells = memory.cells[lane, column] & ~mask[lane, column] | new[lane, column]
        places = place[lane, column]
        memory.write_bytes(lane, column, cells, places >= 0, writer, places)


def tmem_take(tensor_memory: Memories, layout: Layout, *, copy: int = 0) -> np.ndarray:
    """The other way: the matrix as raw bits, uint32, read from one copy of it.

    >>> tmem = TensorMemory()
    >>> d = AccumulatorLayout(64, 32, column=tmem.alloc(32).column)
    >>> tmem_put(tmem, d, np.arange(64 * 32).reshape(64, 32))
    >>> int(tmem_take(tmem, d)[20, 3]) == 20 * 32 + 3
    True
    """
    _, bits, copies = _fields(layout)
    memories = memories_of("tensor_memory", tensor_memory, TensorMemory, getattr(layout, "cta_group", 1))
    number = whole("copy", copy, minimum=0)
    if number >= len(copies):
        raise InputError(f"copy = {number}: the matrix lies there {len(copies)} times")
    cta, lane, column, bit = copies[number]
    words = np.stack([memory.cells for memory in memories])[cta, lane, column]
    found: np.ndarray = words >> bit.astype(np.uint32) & np.uint32((1 << bits) - 1)
    return found
