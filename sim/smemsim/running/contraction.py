"""Do A and B step through the same K? Of the products that add up in one accumulator, each must multiply the same k of both operands."""

from __future__ import annotations

from smemsim.gpu.launch import InstructionFinding
from smemsim.running.operand_reads import OperandRead, Product, Reads

__all__ = ["mismatches"]


def mismatches(reads: Reads) -> list[InstructionFinding]:
    """R508 for the first product in which the k of A and of B part, at the load that brought the wrong one."""
    before: dict[tuple[object, ...], Product] = {}
    for p in reads.products:
        a, b = p.a[0], p.b[0]
        if a is None or b is None or not (a.is_matrix and b.is_matrix):
            before.pop(p.accumulator, None)
            continue
        last = before.get(p.accumulator)
        before[p.accumulator] = p
        if last is None or not p.events[0].scale_d:
            continue
        last_a, last_b = last.a[0], last.b[0]
        if last_a is None or last_b is None or (last_a.base, last_b.base) != (a.base, b.base):
            continue
        if (last_a.at[0], last_b.at[0]) != (a.at[0], b.at[0]):  # another tile of the result
            continue
        step_a, step_b = a.at[1] - last_a.at[1], b.at[1] - last_b.at[1]
        if step_a != step_b:
            return [_found(p, a, b, step_a, step_b)]
    return []


def _found(p: Product, a: OperandRead, b: OperandRead, step_a: int, step_b: int) -> InstructionFinding:
    """The operand that stays, or goes the shorter way, is the one that was loaded wrongly."""
    name, wrong, other = ("A", a, b) if abs(step_a) < abs(step_b) else ("B", b, a)
    line = p.events[0].instruction.line
    return InstructionFinding(
        "R508",
        wrong.loads[0].event.instruction,
        f"the product at line {line} multiplies k = {a.at[1]} of A with k = {b.at[1]} of B: since the one before A went on by {step_a}, B by "
        f"{step_b}; {name}'s tile was loaded at coordinates {wrong.loads[0].event.coordinates}",
        f"load {name} at k = {other.at[1]}, or read it from the stage that holds that",
    )
