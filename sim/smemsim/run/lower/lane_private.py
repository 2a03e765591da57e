"""Accesses to a different place for each lane of a warp, from their addresses: a multiple of the lane's number, and
numbers that are equal in the warp.
"""

from __future__ import annotations

from typing import cast

from smemsim.core.ptx.module import Address, Immediate, Instruction, Operand, Register, Special, Symbol
from smemsim.run.isa.registers import bits_of
from smemsim.run.lower.dataflow import givers_of
from smemsim.run.lower.fused import ARITHMETIC
from smemsim.run.lower.program import Program

__all__ = ["is_spread"]


# the same in all threads of a CTA
_OF_GRID = frozenset(f"{name}.{axis}" for name in ("ctaid", "ntid", "nctaid") for axis in "xyz")
_ALIKE, _MANY = -1, 1 << 32
# the numbers of two of 32 lanes differ by 31 at most, which is 16, 1 << 4, or has fewer zeros after its last bit
_LANES = 4


def is_spread(program: Program, i: Instruction, *, in_rows: bool) -> bool:
    """Do the lanes of a warp execute a load or store at different places, whatever they hold? `in_rows`: a warp's
    threads differ in %tid.x alone.
    """
    address = i.operands[i.op == "ld"]
    base = address.base if isinstance(address, Address) else address
    kind = _Lanes(program, in_rows=in_rows).of(base)
    return kind is not None and kind != _ALIKE


class _Lanes:
    """For every value: `_ALIKE` if the lanes of a warp have the same one.

    If each lane has another value, it is the maximum number of zeros after the last bit of the difference of two of
    them. The values stay different in a type with more bits than that. None if it is neither, or not known.
    """

    def __init__(self, program: Program, *, in_rows: bool) -> None:
        self.givers, self.in_rows = givers_of(program), in_rows
        self.found: dict[int, int | None] = {}

    def of(self, operand: Operand) -> int | None:
        if isinstance(operand, Special):
            return self._special(operand.name)
        if isinstance(operand, Register):
            if operand.slot not in self.found:
                self.found[operand.slot] = None  # of a value that is made of itself
                self.found[operand.slot] = self._given(operand.slot)
            return self.found[operand.slot]
        return _ALIKE if isinstance(operand, (Immediate, Symbol)) else None

    def _special(self, name: str) -> int | None:
        if name in _OF_GRID:
            return _ALIKE
        if name == "laneid":
            return _LANES
        if not self.in_rows:
            return None
        return {"tid.x": _LANES, "tid.y": _ALIKE, "tid.z": _ALIKE}.get(name)

    def _given(self, slot: int) -> int | None:
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
        return self._apart(i, kinds)

    @staticmethod
    def _apart(i: Instruction, kinds: list[int | None]) -> int | None:
        """The result of an instruction with numbers that differ by lane, if one of its operands is that and the others
        are equal.
        """
        apart = [n for n, kind in enumerate(kinds) if kind is not None and kind != _ALIKE]
        types = [m for m in i.modifiers if m[0] in "bsu" and m[1:].isdecimal()]
        if len(apart) != 1 or None in kinds or not {"sat", "hi"}.isdisjoint(i.modifiers) or len(types) != 1 + (i.op == "cvt"):
            return None
        zeros = cast(int, kinds[apart[0]]) + _more_zeros(i, apart[0])
        return zeros if zeros < min(map(bits_of, types)) * (2 if "wide" in i.modifiers else 1) else None


def _more_zeros(i: Instruction, n: int) -> int:
    """The number of zeros that an instruction puts after the last bit of its operand `n`, one after its result; very
    many if that is not known.
    """
    if i.op in ("add", "sub", "mov", "cvta", "cvt") or (i.op == "mad" and n == 2):
        return 0
    factor = i.operands[2 - n] if i.op in ("mul", "mad") else i.operands[2]
    if not isinstance(factor, Immediate):
        return _MANY
    if i.op == "shl":
        return factor.value & 0xFFFFFFFF
    return (factor.value & -factor.value).bit_length() - 1 if i.op in ("mul", "mad") and factor.value else _MANY
