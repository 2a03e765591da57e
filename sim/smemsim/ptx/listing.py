"""What a PTX file contains, told without running it: the forms of its instructions and where they stand."""

from __future__ import annotations

from smemsim.ptx.module import Module

__all__ = ["instruction_forms"]


def instruction_forms(module: Module) -> dict[str, list[int]]:
    """The lines of every form of instruction, such as "ld.global.b32", the most frequent form first.

    >>> from smemsim.ptx.parser import read_module
    >>> head = ".version 8.8 .target sm_90a .address_size 64"
    >>> instruction_forms(read_module(head + " .entry k() { bar.sync 0; bar.sync 0; ret; }"))
    {'bar.sync': [1, 1], 'ret': [1]}
    """
    lines: dict[str, list[int]] = {}
    bodies = {id(function.body): function.body for function in module.functions.values()}  # that of an alias once
    for body in bodies.values():
        for instruction in body or ():
            lines.setdefault(instruction.name, []).append(instruction.line)
    return dict(sorted(lines.items(), key=lambda item: (-len(item[1]), item[0])))
