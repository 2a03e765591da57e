"""Registers that `wgmma` reads and that were written after the last `wgmma.fence` (PTX ISA 9.1 §9.7.15.7.1), from the
program's text.

A wgmma writes its D, too. The next wgmma may add to this D without a fence only if it has the same shape and the same
registers, and never read it as A.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple, TypeAlias

from smemsim.core.ptx.module import Immediate, Instruction, Operand, Register, Vector, slots_in
from smemsim.run.lower.cfg import following, scale_d
from smemsim.run.lower.program import Program

__all__ = ["lie_alike", "ordered", "shape_of", "unfenced"]


# by the register's slot: what has written it since the last wgmma.fence, with the `_form` of a wgmma, "" for others
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
    wgmma may leave for one that reads them as A or adds to them in another form; and the forms.
    """

    slots: set[int]
    left: set[int]
    forms: list[str]

    @classmethod
    def of(cls, program: Program) -> _Wanted:
        products = _products(program)
        of_a = {slot for i in products if isinstance(i.operands[1], Vector) for slot in slots_in(i.operands[1])}
        of_d: dict[int, set[str]] = {}
        for i in products:
            for slot in slots_in(i.operands[0]):
                of_d.setdefault(slot, set()).add(_form(i))
        left = {slot for slot, forms in of_d.items() if len(forms) > 1 or slot in of_a}
        return cls(_wanted(program), left, sorted({_form(i) for i in products}))


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
            form = _form(i)
            for slot in slots_in(i.operands[0]):
                _forget(given, slot, wanted)
                if slot in wanted.left:
                    given[slot, form] = i
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
    for form in wanted.forms if slot in wanted.left else ():
        given.pop((slot, form), None)


def _by_wgmma(i: Instruction, given: _Given, wanted: _Wanted) -> Instruction | None:
    """A wgmma since the last fence that has written registers which another one reads as A, or adds to in another
    form. One whose D lies otherwise comes first.
    """
    of_a = slots_in(i.operands[1]) if isinstance(i.operands[1], Vector) else frozenset()
    found = [
        given[slot, form]
        for slot in sorted(_reads(i) & wanted.left)
        for form in wanted.forms
        if (slot, form) in given and (slot in of_a or form != _form(i))
    ]
    return next((by for by in found if not lie_alike(i, by)), found[0] if found else None)


def lie_alike(i: Instruction, by: Instruction) -> bool:
    """Are two sums that share registers right without a fence? `by` comes first.

    Then D of both begins with the same registers, or D of `i` lies in D of `by`, from a multiple of four registers on
    (rule wgmma.two_sums).
    """
    one, two = (ordered(each.operands[0]) for each in (i, by))
    starts = range(0, max(1, len(two) - len(one) + 1), 4)
    return any(one[: len(two)] == two[at : at + len(one)] for at in starts)


def ordered(operand: Operand) -> list[int]:
    """The slots of a vector's registers, in their order."""
    return [item.slot for item in operand.items if isinstance(item, Register)] if isinstance(operand, Vector) else []


def _form(i: Instruction) -> str:
    """The shape of a wgmma.mma_async, and the registers of its D in their order."""
    return f"{shape_of(i)} {ordered(i.operands[0])}"


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
