"""Which accesses go to a place of its own for each lane of a warp, as their addresses say: a multiple of the lane's number, and numbers that the warp has alike."""

from __future__ import annotations

from smemsim.program.linking.flows import givers_of
from smemsim.program.linking.fused import ARITHMETIC
from smemsim.program.linking.program import Program
from smemsim.program.registers import bits_of
from smemsim.ptx.module import Address, Immediate, Instruction, Operand, Register, Special, Symbol

__all__ = ["is_spread"]


_OF_GRID = frozenset(f"{name}.{axis}" for name in ("ctaid", "ntid", "nctaid") for axis in "xyz")  # the same in all threads of a CTA
_ALIKE, _APART = "alike", "apart"


def is_spread(program: Program, i: Instruction, *, in_rows: bool) -> bool:
    """Do the lanes of a warp execute a load or store at different places, whatever they hold? `in_rows`: a warp's threads differ in %tid.x alone."""
    address = i.operands[i.op == "ld"]
    base = address.base if isinstance(address, Address) else address
    return _Lanes(program, in_rows=in_rows).of(base) == _APART


class _Lanes:
    """Of every value whether the lanes of a warp have it alike, or each another one; None where it is neither, or nobody knows."""

    def __init__(self, program: Program, *, in_rows: bool) -> None:
        self.givers, self.in_rows = givers_of(program), in_rows
        self.found: dict[int, str | None] = {}

    def of(self, operand: Operand) -> str | None:
        if isinstance(operand, Special):
            return self._special(operand.name)
        if isinstance(operand, Register):
            if operand.slot not in self.found:
                self.found[operand.slot] = None  # of a value that is made of itself
                self.found[operand.slot] = self._given(operand.slot)
            return self.found[operand.slot]
        return _ALIKE if isinstance(operand, (Immediate, Symbol)) else None

    def _special(self, name: str) -> str | None:
        if name in _OF_GRID:
            return _ALIKE
        if name == "laneid":
            return _APART
        if not self.in_rows:
            return None
        return {"tid.x": _APART, "tid.y": _ALIKE, "tid.z": _ALIKE}.get(name)

    def _given(self, slot: int) -> str | None:
        givers = self.givers.get(slot, ())
        if len(givers) != 1 or givers[0].guard is not None:
            return None
        i = givers[0]
        if i.op == "ld":
            return (
                _ALIKE
                if i.modifiers[0].startswith("param") and isinstance(i.operands[1], Address) and isinstance(i.operands[1].base, Symbol)
                else None
            )
        if i.op not in ARITHMETIC | {"cvta"}:
            return None
        kinds = [self.of(operand) for operand in i.operands[1:]]
        if all(kind == _ALIKE for kind in kinds):
            return _ALIKE
        return _APART if self._keeps_apart(i, kinds) else None

    @staticmethod
    def _keeps_apart(i: Instruction, kinds: list[str | None]) -> bool:
        """Is what an instruction makes of different numbers different, one of its operands being apart and the others alike?"""
        if kinds.count(_APART) != 1 or None in kinds:
            return False
        if i.op in ("add", "sub", "mov", "cvta"):
            return True
        if i.op == "cvt":
            to, of = map(bits_of, i.modifiers[-2:])
            return to >= of and not any(m.startswith("f") for m in i.modifiers[-2:])
        if i.op not in ("mad", "mul", "shl") or "hi" in i.modifiers:
            return False
        factor = i.operands[2 if kinds[0] == _APART else 1]
        is_sum = i.op == "mad" and kinds[2] == _APART
        return is_sum or (i.op == "shl" and kinds[0] == _APART) or (isinstance(factor, Immediate) and factor.value not in (0, 0.0))
