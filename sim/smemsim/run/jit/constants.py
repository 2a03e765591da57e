"""Registers that hold one number wherever they have been given a value: compilers put the lanes and the mask of
`shfl`, `vote` and `redux` there.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING

from smemsim.core.ptx.module import Immediate, Instruction, Operand, Register
from smemsim.run.jit.forms import form_of

if TYPE_CHECKING:
    from smemsim.run.lower.program import Program

__all__ = ["JOINT", "constants", "in_numbers", "is_joint"]


JOINT = frozenset(("shfl", "vote", "redux"))
_FULL = 0xFFFFFFFF
# with those that have a text: their first operand alone is a result
_KNOWN = JOINT | {"bar", "barrier", "bra", "ld", "st"}
_MOVES = (("u32",), ("s32",), ("b32",))


def constants(program: Program) -> dict[int, int]:
    """The number of each register that one `mov` of a number, and nothing else, gives a value."""
    if program.constants is None:
        program.constants = {} if program.inlined.frames else _constants(program)
    return program.constants


def _constants(program: Program) -> dict[int, int]:
    given: collections.Counter[int] = collections.Counter()
    numbers: dict[int, int] = {}
    for i in program.inlined.body:
        is_known = i.op in _KNOWN or form_of(i) is not None
        given.update(slot for slot, gives in i.mentions if gives or not is_known)
        if i.op == "mov" and i.guard is None and i.modifiers in _MOVES and len(i.operands) == 2:
            to, number = i.operands
            if isinstance(to, Register) and not to.part and isinstance(number, Immediate) and number.kind == "int":
                numbers[to.slot] = number.value & _FULL
    return {slot: number for slot, number in numbers.items() if given[slot] == 1 and slot not in program.wide}


def in_numbers(program: Program, i: Instruction) -> Instruction:
    """The instruction with numbers in place of such registers among its lanes and its mask."""
    if i.op not in JOINT:
        return i
    known = constants(program)
    return dataclasses.replace(i, operands=(*i.operands[:2], *(_number(x, known) for x in i.operands[2:])))


def _number(operand: Operand, known: dict[int, int]) -> Operand:
    if isinstance(operand, Register) and operand.slot in known and not operand.part:
        return Immediate(known[operand.slot])
    return operand


def is_joint(program: Program, i: Instruction) -> bool:
    """Is it one of these, for all lanes of a warp?"""
    if i.op not in JOINT or i.guard is not None or not i.operands:
        return False
    mask = _number(i.operands[-1], constants(program))
    return isinstance(mask, Immediate) and mask.value & _FULL == _FULL
