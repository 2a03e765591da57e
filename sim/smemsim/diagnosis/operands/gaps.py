"""Parts of K between others that no instruction multiplies for a tile of D."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from smemsim.diagnosis.operands.read import Reach
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.diagnosis.operands.sums import Sum, sums_of

__all__ = ["Gap", "gaps"]


class Gap(NamedTuple):
    """The k from `begin` to `end` (not included) that no instruction multiplies for some tile of D, of the matrices of
    `reach`. If `is_everywhere` is set, no tile has them, and it is the only gap.
    """

    reach: Reach
    begin: int
    end: int
    is_everywhere: bool


def gaps(reads: Reads) -> Iterator[Gap]:
    """The gaps in the sums that go from the first to the last k that any CTA multiplies.

    A sum that goes less far is a part: other CTAs have the rest. Parts of a tile are no gaps: loads brought them.
    """
    # by matrices and rows: (k, how many)
    covered: dict[tuple[int, int], dict[tuple[int, int], set[tuple[int, int]]]] = {}
    for its in sums_of(reads):
        first = its.entries[0]
        bases = first.reads[0].base, first.reads[1].base
        steps = set(_steps(its))
        if steps and its.is_one_tile and not first.at().apart:
            covered.setdefault(bases, {}).setdefault(first.at().rows, set()).update(steps)
    for bases, tiles in covered.items():
        reach = reads.reaches.get(bases)
        if reach is None or (reach.a_begin, reach.a_end) != (reach.b_begin, reach.b_end):
            continue
        found = [_between(steps, reach) for steps in tiles.values()]
        is_everywhere = len(found[0]) == 1 and all(some == found[0] for some in found)
        tile = min(reach.a.k_of_box, reach.b.k_of_box)
        for begin, end in dict.fromkeys(gap for some in found for gap in some):
            if (end - begin) % tile == 0:
                yield Gap(reach, begin, end, is_everywhere)


def _steps(its: Sum) -> Iterator[tuple[int, int]]:
    """(first k, how many) of the instructions of a sum; none for those of which A is nothing
    but fill, or not from a load.
    """
    for entry in its.entries:
        for read, event in zip(entry.product.a, entry.product.events, strict=True):
            if read is not None:
                yield read.at[1] * entry.scales[0], event.k


def _between(steps: set[tuple[int, int]], reach: Reach) -> list[tuple[int, int]]:
    """The k that instructions with these k leave out; none if they do not go from the first to the last k."""
    ordered = sorted(steps)
    ends = list(itertools.accumulate((k + count for k, count in ordered), max))
    if ordered[0][0] != reach.a_begin or ends[-1] != reach.a_end:
        return []
    return [(end, k) for end, (k, _) in zip(ends, ordered[1:], strict=False) if k > end]
