"""K steps of one operand that are exchanged with their neighbours, in all sums of two tensors, or with farther ones in
several accumulators.

For example: each k = 0 of A is multiplied with k = 16 of B, each k = 16 of A with k = 0 of B. The imaginary part of
complex numbers is such a sum, and the real part next to it is not.
"""

from __future__ import annotations

import collections

from smemsim.core.finding import Finding, at_instruction
from smemsim.core.spec.findings import Severity
from smemsim.diagnosis.operands.pairings import are_exchanged, partners
from smemsim.diagnosis.operands.read import Product
from smemsim.diagnosis.operands.recorded import Reads

__all__ = ["exchanged_steps"]


def exchanged_steps(reads: Reads) -> list[Finding]:
    """R508 as a remark for the first two tensors whose K steps are exchanged so in all sums."""
    of_tensors: dict[tuple[int, int], list[Product]] = collections.defaultdict(list)
    if any(p.pairs_freely for p in reads.products):
        for p in reads.products:
            if p.a[0] is not None and p.b[0] is not None:
                of_tensors[p.a[0].base, p.b[0].base].append(p)
    for products in of_tensors.values():
        steps = [step for p in products for step in zip(p.events, p.a, p.b, strict=True)]
        of = {pair: step[0] for step in steps for pair in partners([step])}
        (a, b), event = min(of.items(), key=lambda pair: pair[0], default=((0, 0), None))
        is_next = event is not None and abs(a - b) == event.k
        if event is None or len({event.k for event in of.values()}) != 1 or not are_exchanged(of, abs(a - b)):
            continue
        if not (is_next or _are_in_several(products)):
            continue
        return [
            at_instruction(
                "R508",
                event.instruction,
                f"{'neighbouring ' * is_next}K steps are exchanged: k = {a} of A is multiplied with k = {b} of B, and k = {b} of A with k = {a} of B",
                "the same k in both descriptors, unless the steps are parts of complex numbers",
                why="no sum of the launch multiplies the same k of these two tensors, as the real part of complex numbers would",
                arrays=tuple(read.loads[0].transfer.tensor_map.global_address for read in products[0].first if read is not None),
                milder=Severity.NOTE,
            )
        ]
    return []


def _are_in_several(products: list[Product]) -> bool:
    """Are sums of the same rows in several accumulators of a CTA?"""
    found: dict[object, set[object]] = collections.defaultdict(set)
    for p in products:
        found[p.cta, *(None if read is None else read.at[0] for read in (p.a[0], p.b[0]))].add(p.accumulator)
    return max(map(len, found.values())) > 1
