"""Changes of a PTX module by instruction: other instructions in the place of one. Lines of the text stay what they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from smemsim.core.ptx.module import Function, Immediate, Instruction, Module
from smemsim.core.ptx.parser import read_module

__all__ = ["Edit", "edited", "instructions", "with_number"]


class Edit(NamedTuple):
    """The instruction `of` becomes `becomes`. Every instruction at its line with its text is changed, in each function."""

    of: Instruction
    becomes: tuple[Instruction, ...]


def instructions(text: str, at: Instruction, module: Module) -> tuple[Instruction, ...]:
    """The instructions of a text without registers, at the line of another instruction, under its guard.

    >>> module = read_module(".version 8.8 .target sm_90a .address_size 64 .entry k() { bar.sync 0; ret; }")
    >>> [i.name for i in instructions("fence.proxy.async;", module.entries[0].body[0], module)]
    ['fence.proxy.async']
    """
    head = f".version {module.version} .target {', '.join(module.target)} .address_size {module.address_size}"
    body = read_module(f"{head} .entry k() {{ {text} }}").entries[0].body or ()
    return tuple(dataclasses.replace(i, line=at.line, location=at.location, guard=at.guard) for i in body)


def with_number(i: Instruction, operand: int, value: int) -> Instruction:
    """The instruction with a number as one of its operands."""
    operands = list(i.operands)
    operands[operand] = Immediate(value)
    return dataclasses.replace(i, operands=tuple(operands))


def edited(module: Module, edits: Sequence[Edit]) -> Module:
    """The module with these changes. A branch to a changed instruction goes to the first of what it becomes.

    >>> text = ".version 8.8 .target sm_90a .address_size 64 .entry k() { bra L; bar.sync 0; L: ret; }"
    >>> module = read_module(text)
    >>> bar = module.entries[0].body[1]
    >>> other = edited(module, [Edit(bar, (bar, bar))]).entries[0]
    >>> [i.op for i in other.body], dict(other.labels)
    (['bra', 'bar', 'bar', 'ret'], {'L': 3})
    """
    changes = {(edit.of.line, edit.of.text): edit.becomes for edit in edits}
    done: dict[int, Function] = {}  # an alias is the same function under another name
    for f in module.functions.values():
        done[id(f)] = _edited(f, changes)
    functions = {name: done[id(f)] for name, f in module.functions.items()}
    return dataclasses.replace(module, functions=functions)


def _edited(f: Function, changes: dict[tuple[int, str], tuple[Instruction, ...]]) -> Function:
    if f.body is None or changes.keys().isdisjoint((i.line, i.text) for i in f.body):
        return f
    body: list[Instruction] = []
    starts: list[int] = []  # where each instruction of before, and the end, is now
    for i in f.body:
        starts.append(len(body))
        body += _placed(changes.get((i.line, i.text), (i,)), i)
    starts.append(len(body))
    return dataclasses.replace(f, body=tuple(body), labels={name: starts[n] for name, n in f.labels.items()})


def _placed(new: Iterable[Instruction], old: Instruction) -> Iterable[Instruction]:
    """Each instruction of the text is an object of its own."""
    return (dataclasses.replace(i, location=old.location) for i in new)
