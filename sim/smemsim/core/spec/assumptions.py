"""The one rule about hardware that this process replaces. Formulas ask at the points that `POINTS` names; without an
assumption nothing changes.

`smemsim.core.spec.alternatives` lists the alternatives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["MEASURED_POINTS", "POINTS", "assume_nothing", "assumed", "exchange", "in_force", "remembered"]

F = TypeVar("F", bound=Callable[..., Any])

# The points at which an assumption can take effect, and the value that passes there; after the semicolon, its
# subject. For wgmma only `MEASURED_POINTS` are asked.
POINTS: dict[str, str] = {
    "idesc.word": "the instruction descriptor of a tcgen05.mma, before it is decoded; kind",
    "accumulator.path": "the organization of D, an AccumulatorPath",
    "accumulator.cell": "(CTA, lane, column) of elements of D; its AccumulatorLayout, m, n",
    "a.cell": "(CTA, lane, column, lowest bit) of elements of A in tensor memory; its ATmemLayout, m, k, copy",
    "scales.cell": "(CTA, lane, column, byte) of scale factors; their ScaleLayout, row, index, copy",
    "scales.id": "the scale id that counts; that of the address, what ids the mode has",
    "metadata.cell": "(CTA, lane, column, lowest bit) of sparsity metadata; its MetadataLayout, m, k",
    "ld_st.cell": "(lane, column) of a register of tcgen05.ld and .st; shape, thread, register",
    "ld_st.window": "the lane at which an access of a warp begins; warp, lane of the address",
    "ld_st.address": "the address that counts in each thread; those given, the first thread of each warp",
    "cp.shape": "a form of tcgen05.cp, a CopyShape",
    "cp.sources": "the shared memories that the CTAs of a pair copy from",
    "decompression": "how an element stands in its byte, a Decompression",
    "pair.rows": "rows of an operand of a pair, an array for each CTA; A or B",
    "operand.words": "64-bit matrix descriptors, before their fields are taken; is the operand K-major",
    "operand.tables": "(lowest bit, mask, shift) of start, LBO, SBO, base_offset, layout code, mode, and (width, mask, shift, K rows) of each layout code; is it K-major",
    "arithmetic.row": "the constants of an instruction's dot products, an MmaArithmetic",
    "mma_sync.row": "the constants of the sums of mma.sync on a card that was not measured, an MmaArithmetic; the card",
    "mma_sync.scales": "the thread that has the scale factors of each row of A; thread-id-a",
    "arithmetic.tiles": "the function that multiplies; the constants",
    "zero_columns.counts": "start count, first span, skip span and use span of a band's zero-column mask",
    "zero_columns": "which columns of B count as zero; of one band how many columns it has",
    "lanes.disabled": "which lanes of each CTA's D are kept, (CTAs, lanes)",
    "alloc.column": "the column that an allocation gets; how many it asks for, which are taken",
    "commit.arrivals": "how often a commit arrives; cta_group",
    "commit.ranks": "the ranks that a commit with a mask arrives in; the issuing CTA's",
    "shift.source": "the lane whose contents a lane gets from tcgen05.shift; the lane",
    "tma.gathered": "the rows of a gather or scatter, in the order in which they lie in shared memory",
    "tma.pitch": "bytes of shared memory from row to row; swizzle, bytes of a row",
    "tma.mode": "the swizzle of a transfer, a SwizzleMode",
}

# Points of rules that are measured on Hopper (`smemsim.core.spec.calibration`).
MEASURED_POINTS: dict[str, str] = {
    "wgmma.words": "64-bit matrix descriptors of wgmma, before their fields are taken; is the operand K-major",
    "wgmma.tables": "tables of wgmma's descriptors, as operand.tables",
    "wgmma.row": "the constants of a measured instruction's dot products, an MmaArithmetic",
}

_CHANGES: dict[str, Callable[..., Any]] = {}
_REMEMBERED: list[Callable[[], None]] = []
_NAMES: list[str] = [""]


def assumed(point: str, value: Any, *about: Any) -> Any:
    """The value that passes at a point: the value itself, unless something else is assumed there.

    >>> assumed("commit.arrivals", 1, 2)
    1
    """
    change = _CHANGES.get(point)
    return value if change is None else change(value, *about)


def remembered(maxsize: int) -> Callable[[F], F]:
    """`functools.lru_cache` for what rests on rules that can be assumed otherwise: it is forgotten when an assumption
    changes.
    """

    def decorate(function: F) -> F:
        kept = functools.lru_cache(maxsize=maxsize)(function)
        _REMEMBERED.append(kept.cache_clear)
        return kept  # type: ignore[return-value]

    return decorate


def exchange(changes: dict[str, Callable[..., Any]], name: str = "") -> None:
    """Set the functions that replace values at their points. All others are removed."""
    unknown = [point for point in changes if point not in POINTS and point not in MEASURED_POINTS]
    if unknown:
        raise KeyError(unknown[0])
    _NAMES[0] = name
    _CHANGES.clear()
    _CHANGES.update(changes)
    for forget in _REMEMBERED:
        forget()


def in_force() -> str:
    """The name of what is assumed, as a key for what is kept; "" for nothing."""
    return _NAMES[0]


def assume_nothing() -> None:
    """All rules as they are."""
    exchange({})
