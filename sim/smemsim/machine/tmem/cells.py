"""The cells that tcgen05.mma touches, as arrays: of D, of A, of scale factors and of metadata; kept, because those of a kernel come again and again."""

from __future__ import annotations

import functools

import numpy as np

from smemsim.machine.tmem.layout import AccumulatorLayout
from smemsim.machine.tmem.operands import ATmemLayout, MetadataLayout
from smemsim.machine.tmem.scales import ScaleLayout
from smemsim.spec.tensor_memory import METADATA

__all__ = [
    "Box",
    "Copies",
    "Parts",
    "boxes_of",
    "boxes_of_d",
    "cells_of_a",
    "cells_of_d",
    "cells_of_metadata",
    "cells_of_scales",
    "lane_set",
]

Lanes = slice | np.ndarray
Box = tuple[int, Lanes, int, int]  # CTA of the group, lanes, the first column and the one behind the last: all that one access touches

Parts = tuple[tuple[np.ndarray, np.ndarray], ...]  # (lane, column) in each CTA
Copies = tuple[tuple[np.ndarray, ...], ...]  # (CTA, lane, column, unit of the cell), one entry a copy


@functools.lru_cache(maxsize=64)
def cells_of_d(layout: AccumulatorLayout) -> Parts:
    """(lanes, columns) of D's rows in each CTA, (rows, N)."""
    m, n = np.meshgrid(np.arange(layout.m), np.arange(layout.n), indexing="ij")
    _, lane, column = layout.location(m, n)
    rows = layout.m // layout.cta_group
    return tuple((lane[cta * rows : (cta + 1) * rows], column[cta * rows : (cta + 1) * rows]) for cta in range(layout.cta_group))


@functools.lru_cache(maxsize=64)
def cells_of_a(layout: ATmemLayout) -> Copies:
    """Of A's stored elements, (M, stored K), with the lowest bit of each."""
    m, k = np.meshgrid(np.arange(layout.m), np.arange(layout.k), indexing="ij")
    return tuple(layout.location(m, k, copy) for copy in range(layout.copies))


@functools.lru_cache(maxsize=64)
def cells_of_scales(layout: ScaleLayout) -> Copies:
    """Of scale factors, (rows, factors of a row), with the byte of each."""
    rows = layout.m if layout.operand == "A" else layout.n
    row, index = np.meshgrid(np.arange(rows), np.arange(layout.scales), indexing="ij")
    return tuple(layout.location(row, index, copy) for copy in range(layout.copies))


@functools.lru_cache(maxsize=64)
def cells_of_metadata(layout: MetadataLayout) -> Copies:
    """Of the metadata's sets of four bits, (M, sets of a row), with the lowest bit of each."""
    m, k = np.meshgrid(np.arange(layout.m), np.arange(0, layout.k, METADATA[layout.kind].chunk), indexing="ij")
    return tuple(layout.location(m, k, copy) for copy in range(layout.copies))


def lane_set(lanes: np.ndarray) -> Lanes:
    """Lanes as a slice where they follow one another."""
    found = np.unique(lanes)
    first, last = int(found[0]), int(found[-1])
    return slice(first, last + 1) if last - first + 1 == len(found) else found


@functools.lru_cache(maxsize=64)
def boxes_of_d(layout: AccumulatorLayout) -> tuple[Box, ...]:
    """Where D lies, a box in each CTA."""
    return tuple((cta, lane_set(lane), int(column.min()), int(column.max()) + 1) for cta, (lane, column) in enumerate(cells_of_d(layout)))


@functools.lru_cache(maxsize=64)
def boxes_of(layout: ATmemLayout | ScaleLayout | MetadataLayout) -> tuple[Box, ...]:
    """Where A, scale factors or metadata lie, all copies of them, a box in each CTA that has any."""
    if isinstance(layout, ATmemLayout):
        copies = cells_of_a(layout)
    else:
        copies = cells_of_scales(layout) if isinstance(layout, ScaleLayout) else cells_of_metadata(layout)
    cta, lane, column = (np.stack([copy[n] for copy in copies]) for n in range(3))
    found = []
    for number in np.unique(cta).tolist():
        mine = cta == number
        found.append((number, lane_set(lane[mine]), int(column[mine].min()), int(column[mine].max()) + 1))
    return tuple(found)
