"""Registers that `wgmma` reads and that were written after the last `wgmma.fence` (PTX ISA 9.1 §9.7.15.7.1), from the
program's text.
"""

from __future__ import annotations

import weakref
from typing import TypeAlias

from smemsim.core.ptx.module import Immediate, Instruction, Vector, slots_in
from smemsim.run.lower.cfg import following, scale_d
from smemsim.run.lower.program import Program

__all__ = ["unfenced"]


_Given: TypeAlias = dict[int, Instruction]  # by the register's slot: what has written it since the last wgmma.fence

_found: weakref.WeakKeyDictionary[Program, dict[int, Instruction]] = weakref.WeakKeyDictionary()


def unfenced(program: Program) -> dict[int, Instruction]:
    """For each wgmma, by its `id`, an instruction that writes a register which it reads, with no wgmma.fence on some
    path between the two.

    Copies are followed, and constants may come late: compilers put them before the registers that the wgmma itself
    names.
    """
    if program not in _found:
        _found[program] = _find(program)
    return _found[program]


def _find(program: Program) -> dict[int, Instruction]:
    if not any(i.op == "wgmma" and i.modifiers[0] == "mma_async" for i in program.inlined.body):
        return {}
    count, wanted = len(program.blocks), _wanted(program)
    begins: list[_Given] = [{} for _ in range(count + 1)]
    found: dict[int, Instruction] = {}
    left = list(range(count)) if program.inlined.frames else [0]  # a called function begins anywhere
    seen: set[int] = set()
    while left:
        n = left.pop()
        seen.add(n)
        given = dict(begins[n])
        for i in program.blocks[n].instructions:
            _execute(i, given, wanted, found)
        targets = following(program, n)
        if targets is None:  # any block may come next
            left += set(range(count)) - seen
        for to in targets or ():
            news = {slot: i for slot, i in given.items() if slot not in begins[to]}
            if to < count and (news or to not in seen):
                begins[to] |= news
                left.append(to)
    return found


def _execute(i: Instruction, given: _Given, wanted: set[int], found: dict[int, Instruction]) -> None:
    """Take what an instruction does into account."""
    if i.op == "wgmma":
        if i.modifiers[0] == "fence":
            given.clear()
        elif i.modifiers[0] == "mma_async":
            by = next((given[slot] for slot in sorted(_reads(i)) if slot in given), None)
            if by is not None:
                found.setdefault(id(i), by)
            for slot in slots_in(i.operands[0]):
                given.pop(slot, None)
        return
    slots = i.given & wanted
    if not slots:
        return
    by = i if i.op != "mov" else next((given[slot] for slot in sorted(i.used) if slot in given), None)
    for slot in slots:
        if by is not None:
            given[slot] = by
        elif i.guard is None:
            given.pop(slot, None)


def _reads(i: Instruction) -> set[int]:
    """The registers of A, and of D unless it always begins a new sum, that a wgmma.mma_async reads."""
    scale = scale_d(i)
    is_new = isinstance(scale, Immediate) and scale.value == 0
    return {slot for operand in i.operands[is_new:2] if isinstance(operand, Vector) for slot in slots_in(operand)}


def _wanted(program: Program) -> set[int]:
    """The registers that a wgmma reads, and those that they are copied from."""
    body = program.inlined.body
    wanted = {slot for i in body if i.op == "wgmma" and i.modifiers[0] == "mma_async" for slot in _reads(i)}
    copies = [i for i in body if i.op == "mov"]
    grows = True
    while grows:
        more = {slot for i in copies if not wanted.isdisjoint(i.given) for slot in i.used}
        grows = not more <= wanted
        wanted |= more
    return wanted
