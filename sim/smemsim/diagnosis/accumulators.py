"""Accumulators of tcgen05.mma whose columns overlap: the cause of findings of tensor memory that a wait cannot mend."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from smemsim.base.errors import SmemsimError
from smemsim.core.finding import Finding, InLaunch
from smemsim.core.machine.tmem.layout import AccumulatorLayout
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.records import Mma

__all__ = ["with_overlaps"]

MOST = 1 << 14  # matrix instructions that are looked at
LANE = 16  # bits of a column in an address
CODES = ("X012", "X017")


class _Overlap(NamedTuple):
    """The first columns of two accumulators, and how many columns each has."""

    first: int
    second: int
    columns: int


def with_overlaps(findings: Sequence[Finding], launch: Launch) -> list[Finding]:
    """The findings. Those of products in tensor memory name two accumulators that overlap, if there are any."""
    if not any(f.code in CODES for f in findings):
        return list(findings)
    lines = {e.instruction.line for e in _products(launch)}
    overlap = _overlap(_products(launch))
    return [_told(f, overlap) if overlap is not None and f.code in CODES and lines & _lines(f) else f for f in findings]


def _products(launch: Launch) -> Iterable[Mma]:
    events = (e for e in launch.result.events if isinstance(e, Mma) and e.kind != "wgmma")
    return itertools.islice(events, MOST)


def _lines(f: Finding) -> set[int]:
    """The lines of a finding: of its instruction and of what the two halves are."""
    at = f.at.instruction if isinstance(f.at, InLaunch) else None
    return {i.line for i in (at, *(half.instruction for half in f.halves)) if i is not None}


def _overlap(products: Iterable[Mma]) -> _Overlap | None:
    """Two accumulators of one shape of a CTA that share some of their columns, and not all of them."""
    places: dict[tuple[int, int, int, int, int], set[int]] = {}
    for e in products:
        lane, column = e.d >> LANE, e.d & (1 << LANE) - 1
        places.setdefault((e.cta, lane, e.m, e.n, e.cta_group), set()).add(column)
    for (_, _, m, n, group), columns in places.items():
        try:
            width = AccumulatorLayout(m, n, group).columns
        except SmemsimError:
            continue
        for first, second in itertools.pairwise(sorted(columns)):
            if second - first < width:
                return _Overlap(first, second, width)
    return None


def _told(f: Finding, overlap: _Overlap) -> Finding:
    first, second, columns = overlap
    places = f"columns {first} to {first + columns - 1} and {second} to {second + columns - 1}"
    meant = f"; or if they are meant to overlap: {f.repair}" if f.repair else ""
    return dataclasses.replace(
        f, why="; ".join(filter(None, (f"two accumulators overlap: {places} of tensor memory", f.why))),
        repair=f"accumulators {columns} columns apart (now {second - first}), as many as each has{meant}",
        numbers={**f.numbers, "apart": second - first, "columns": columns},
    )  # fmt: skip
