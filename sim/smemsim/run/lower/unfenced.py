"""Registers that `wgmma` reads and that were written after the last `wgmma.fence` (PTX ISA 9.1 §9.7.15.7.1), from the
program's text.

A wgmma writes its D, too. The next wgmma may add to this D without a fence only if it has the same shape, and never
read it as A.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple, TypeAlias

from smemsim.core.ptx.module import Immediate, Instruction, Vector, slots_in
from smemsim.run.lower.cfg import following, scale_d
from smemsim.run.lower.program import Program

__all__ = ["shape_of", "unfenced"]


# by the register's slot: what has written it since the last wgmma.fence. The shape is that of a wgmma, "" for others
_Given: TypeAlias = dict[tuple[int, str], Instruction]

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


class _Wanted(NamedTuple):
    """What matters in a program: the registers that a wgmma reads, and those that they are copied from; those that a
    wgmma may leave for one that reads them as A or adds in another shape; and the shapes.
    """

    slots: set[int]
    left: set[int]
    shapes: list[str]

    @classmethod
    def of(cls, program: Program) -> _Wanted:
        products = _products(program)
        of_a = {slot for i in products if isinstance(i.operands[1], Vector) for slot in slots_in(i.operands[1])}
        of_d = {slot for i in products for slot in slots_in(i.operands[0])}
        shapes = sorted({shape_of(i) for i in products})
        return cls(_wanted(program), of_d if len(shapes) > 1 else of_a & of_d, shapes)


def _find(program: Program) -> dict[int, Instruction]:
    if not _products(program):
        return {}
    count, wanted = len(program.blocks), _Wanted.of(program)
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
            news = {key: i for key, i in given.items() if key not in begins[to]}
            if to < count and (news or to not in seen):
                begins[to] |= news
                left.append(to)
    return found


def _products(program: Program) -> list[Instruction]:
    return [i for i in program.inlined.body if i.op == "wgmma" and i.modifiers[0] == "mma_async"]


def _execute(i: Instruction, given: _Given, wanted: _Wanted, found: dict[int, Instruction]) -> None:
    """Take what an instruction does into account."""
    if i.op == "wgmma":
        if i.modifiers[0] == "fence" and i.guard is None:  # with a guard it may be skipped
            given.clear()
        elif i.modifiers[0] == "mma_async":
            by = next((given[slot, ""] for slot in sorted(_reads(i)) if (slot, "") in given), None) or _by_wgmma(i, given, wanted)
            if by is not None:
                found.setdefault(id(i), by)
            shape = shape_of(i)
            for slot in slots_in(i.operands[0]):
                _forget(given, slot, wanted)
                if slot in wanted.left:
                    given[slot, shape] = i
        return
    slots = i.given & wanted.slots
    if not slots:
        return
    by = i if i.op != "mov" else next((given[slot, ""] for slot in sorted(i.used) if (slot, "") in given), None)
    for slot in slots:
        if i.guard is None:
            _forget(given, slot, wanted)
        if by is not None:
            given[slot, ""] = by


def _forget(given: _Given, slot: int, wanted: _Wanted) -> None:
    """A register has another value now."""
    given.pop((slot, ""), None)
    for shape in wanted.shapes if slot in wanted.left else ():
        given.pop((slot, shape), None)


def _by_wgmma(i: Instruction, given: _Given, wanted: _Wanted) -> Instruction | None:
    """A wgmma since the last fence that has written registers which another one reads as A, or adds to in another
    shape.
    """
    of_a = slots_in(i.operands[1]) if isinstance(i.operands[1], Vector) else frozenset()
    for slot in sorted(_reads(i) & wanted.left):
        for shape in wanted.shapes:
            if (slot, shape) in given and (slot in of_a or shape != shape_of(i)):
                return given[slot, shape]
    return None


def shape_of(i: Instruction) -> str:
    """The shape of a wgmma.mma_async, such as m64n8k16."""
    return next(word for word in i.modifiers if word.startswith("m64n"))


def _reads(i: Instruction) -> set[int]:
    """The registers of A, and of D unless it always begins a new sum, that a wgmma.mma_async reads."""
    scale = scale_d(i)
    is_new = isinstance(scale, Immediate) and scale.value == 0
    return {slot for operand in i.operands[is_new:2] if isinstance(operand, Vector) for slot in slots_in(operand)}


def _wanted(program: Program) -> set[int]:
    """The registers that a wgmma reads, and those that they are copied from."""
    body = program.inlined.body
    wanted = {slot for i in _products(program) for slot in _reads(i)}
    copies = [i for i in body if i.op == "mov"]
    grows = True
    while grows:
        more = {slot for i in copies if not wanted.isdisjoint(i.given) for slot in i.used}
        grows = not more <= wanted
        wanted |= more
    return wanted
