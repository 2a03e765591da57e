"""Changes of a PTX module by instruction: other instructions in the place of one. Lines of
the text stay what they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from smemsim.core.ptx.module import MOST_OF_A_LINE, Address, Function, Immediate, Instruction, Module, Register, RegisterType
from smemsim.core.ptx.parser import read_module

__all__ = ["Edit", "edited", "instructions", "replaced_by", "with_number"]


class Edit(NamedTuple):
    """The instruction `of` becomes `becomes`.

    New `registers` come after those of the function. The first has slot `len(function.registers)`. New `labels` have
    the number of their instruction in `becomes`. At most one change of a function adds registers.
    """

    of: Instruction
    becomes: tuple[Instruction, ...]
    registers: tuple[RegisterType, ...] = ()
    labels: tuple[tuple[str, int], ...] = ()


def instructions(text: str, at: Instruction, module: Module) -> tuple[Instruction, ...]:
    """The instructions of a text without registers, at the line of another instruction, under its guard. They have the
    last places of the line, so each has a site of its own.

    >>> module = read_module(".version 8.8 .target sm_90a .address_size 64 .entry k() { bar.sync 0; ret; }")
    >>> [i.name for i in instructions("fence.proxy.async;", module.entries[0].body[0], module)]
    ['fence.proxy.async']
    """
    head = f".version {module.version} .target {', '.join(module.target)} .address_size {module.address_size}"
    body = read_module(f"{head} .entry k() {{ {text} }}").entries[0].body or ()
    return tuple(dataclasses.replace(i, line=at.line, location=at.location, guard=at.guard, nth=MOST_OF_A_LINE - i.nth) for i in body)


def replaced_by(text: str, at: Instruction, module: Module, function: Function, *, is_before: bool) -> Edit:
    """A change that puts a text with registers of its own before or after an instruction of a function; for all threads
    that reach it. Its labels are new ones.

    >>> module = read_module(".version 8.8 .target sm_90a .address_size 64 .entry k() { bar.sync 0; ret; }")
    >>> k = module.entries[0]
    >>> text = ".reg .b32 %n; mov.u32 %n, 7; nanosleep.u32 %n;"
    >>> other = edited(module, [replaced_by(text, k.body[0], module, k, is_before=False)]).entries[0]
    >>> [i.text for i in other.body], [r.type for r in other.registers]
    (['bar.sync 0', 'mov.u32 %n, 7', 'nanosleep.u32 %n', 'ret'], ['b32'])
    """
    head = f".version {module.version} .target {', '.join(module.target)} .address_size {module.address_size}"
    read = read_module(f"{head} .entry k() {{ {text} }}").entries[0]
    by = len(function.registers)
    new = tuple(
        dataclasses.replace(
            i, line=at.line, location=at.location, nth=MOST_OF_A_LINE - i.nth, guard=None if i.guard is None else dataclasses.replace(i.guard, slot=i.guard.slot + by),
            operands=tuple(_moved(operand, by) for operand in i.operands),
        )
        for i in read.body or ()
    )  # fmt: skip
    labels = tuple((name, n if is_before else n + 1) for name, n in read.labels.items())
    return Edit(at, (*new, at) if is_before else (at, *new), read.registers, labels)


def _moved(operand: Any, by: int) -> Any:
    """An operand whose registers have slots that are so many higher."""
    if isinstance(operand, Register):
        return dataclasses.replace(operand, slot=operand.slot + by)
    if isinstance(operand, Address) and isinstance(operand.base, Register):
        return dataclasses.replace(operand, base=_moved(operand.base, by))
    return operand


def with_number(i: Instruction, operand: int, value: int) -> Instruction:
    """The instruction with a number as one of its operands."""
    operands = list(i.operands)
    operands[operand] = Immediate(value)
    return dataclasses.replace(i, operands=tuple(operands))


def edited(module: Module, edits: Sequence[Edit]) -> Module:
    """The module with these changes. A branch to a changed instruction goes to the first of what it becomes.

    >>> text = ".version 8.8 .target sm_90a .address_size 64 .entry k() { bra L; bar.sync 0; bar.sync 0; L: ret; }"
    >>> module = read_module(text)
    >>> bar = module.entries[0].body[1]
    >>> other = edited(module, [Edit(bar, (bar, bar))]).entries[0]
    >>> [i.op for i in other.body], dict(other.labels)
    (['bra', 'bar', 'bar', 'bar', 'ret'], {'L': 4})
    """
    changes = {(edit.of.line, edit.of.nth): edit for edit in edits}
    done: dict[int, Function] = {}  # an alias is the same function under another name
    for f in module.functions.values():
        done[id(f)] = _edited(f, changes)
    functions = {name: done[id(f)] for name, f in module.functions.items()}
    return dataclasses.replace(module, functions=functions)


def _edited(f: Function, changes: dict[tuple[int, int], Edit]) -> Function:
    if f.body is None or changes.keys().isdisjoint((i.line, i.nth) for i in f.body):
        return f
    body: list[Instruction] = []
    starts: list[int] = []  # where each instruction of before, and the end, is now
    registers, labels = f.registers, dict[str, int]()
    for i in f.body:
        starts.append(len(body))
        edit = changes.get((i.line, i.nth))
        if edit is not None:
            registers += edit.registers
            labels |= {name: len(body) + n for name, n in edit.labels}
        body += _placed((i,) if edit is None else edit.becomes, i)
    starts.append(len(body))
    labels |= {name: starts[n] for name, n in f.labels.items()}
    return dataclasses.replace(f, body=tuple(body), labels=labels, registers=registers)


def _placed(new: Iterable[Instruction], old: Instruction) -> Iterable[Instruction]:
    """Each instruction of the text is an object of its own."""
    return (dataclasses.replace(i, location=old.location) for i in new)
