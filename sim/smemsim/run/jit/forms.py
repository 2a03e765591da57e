"""Which instructions have a compiled form: a function that adds its text to a group's vectors.

A form does what the instruction's builder does, bit for bit. For an unknown modifier, type or operand it raises
`Uncompiled` (or `Unmodelled`, from the modifiers), and the instruction stays interpreted. `smemsim campaign ptx`
compares both.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TypeAlias

from smemsim.core.ptx.module import Instruction
from smemsim.run.jit.vectors import Value, Vectors

__all__ = ["Form", "compiles", "form_of"]


Form: TypeAlias = Callable[[Vectors, Instruction, Value | None], None]
_FORMS: dict[str, Form] = {}
_FILES = ("integers", "floats", "functions", "moves", "lanes")


def compiles(*operations: str) -> Callable[[Form], Form]:
    """Register the form of operations."""

    def register(form: Form) -> Form:
        for operation in operations:
            if operation in _FORMS:
                raise AssertionError(f"{operation} has two compiled forms")
            _FORMS[operation] = form
        return form

    return register


@functools.cache
def _all() -> dict[str, Form]:
    for name in _FILES:
        importlib.import_module(f"smemsim.run.jit.{name}")
    return _FORMS


def form_of(i: Instruction) -> Form | None:
    """The compiled form of an instruction; None where there is none."""
    return _all().get(i.op)
