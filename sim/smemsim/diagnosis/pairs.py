"""Rows that the two CTAs of a pair bring for one tcgen05.mma with .cta_group::2 (PTX ISA 9.1 §9.7.16.10.5): half of A's
and half of B's each.
"""

from __future__ import annotations

from collections.abc import Iterator

from smemsim.core.finding import Finding, at_instruction
from smemsim.core.spec.findings import Severity
from smemsim.diagnosis.operands.read import OperandRead
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.run.engine.records import Mma

__all__ = ["halves"]


_SOURCE = "PTX ISA 9.1 §9.7.16.10.5"


def halves(reads: Reads) -> list[Finding]:
    """R508 where both CTAs of a pair bring the same rows of an operand, or rows that overlap; a remark where B's halves
    lie in the other order.

    A tile that ends where its tensor does may overlap the other one: that is how ragged ends are loaded.
    """
    told: dict[tuple[str, int], Finding] = {}
    for (side, *_), (event, first, second) in reads.pairs.items():
        for f in _found(side, event, first, second):
            told.setdefault((side, second.loads[0].event.instruction.line), f)
    return list(told.values())


def _found(side: str, event: Mma, first: OperandRead, second: OperandRead) -> Iterator[Finding]:
    rows = (event.m if side == "a" else event.n) // 2
    extent = second.modes[0][0].extent
    is_sure = first.share == second.share == 1 and first.matrix == second.matrix and len(first.modes[0]) == 1
    if not is_sure or first.at[1] != second.at[1] or first.is_fill or second.is_fill:
        return
    of_first, of_second = first.at[0], second.at[0]
    low, by = min(of_first, of_second), of_second - of_first
    name, load = side.upper(), second.loads[0]
    if abs(by) < rows and max(of_first, of_second) + rows < extent and low + 2 * rows <= extent:
        which = "the same rows" if not by else f"overlapping rows ({rows - abs(by)} of {rows})"
        yield at_instruction(
            "R508", load.event.instruction, f"both CTAs of the pair load {which} of {name} for {event.instruction.at}: rows "
            f"{_rows(of_first, rows)} in CTA {first.loads[0].cta}, rows {_rows(of_second, rows)} in CTA {load.cta}",
            f"row {of_first + rows} in the second CTA of the pair (the rank in the pair times {rows})", because=_SOURCE,
            why=f"each CTA of a pair has half of the {2 * rows} rows of {name}",
        )  # fmt: skip
    elif side == "b" and by == -rows:
        yield at_instruction(
            "R508", load.event.instruction, f"the first CTA of the pair loads rows {_rows(of_first, rows)} of B for {event.instruction.at}, the second rows "
            f"{_rows(of_second, rows)}", f"row {of_second} in the first CTA, row {of_first} in the second",
            why=f"columns 0 to {rows - 1} of D then belong to the rows from {of_first} on", because=_SOURCE, milder=Severity.NOTE,
        )  # fmt: skip


def _rows(first: int, count: int) -> str:
    return f"{first} to {first + count - 1}"
