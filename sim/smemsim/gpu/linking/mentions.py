"""The registers that an instruction names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from smemsim.ptx.module import Address, Instruction, Operand, Pair, Register, Vector

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker

__all__ = ["is_read", "mentions", "slots_in", "slots_of"]

_NO_RESULT = {"bar", "barrier", "nanosleep", "red", "st"}  # their first operand is not a result; of `bar.red` it is

_GOES_ELSEWHERE = {"bra", "brx", "call"}
_PASSES_ON = {"and", "cvt", "mov", "not", "or", "selp", "setp", "xor"}  # who reads their result reads what they read; that is all they do


def mentions(i: Instruction) -> Iterator[tuple[int, bool]]:
    """The slots of the registers, and whether the instruction gives them a value."""
    if i.guard is not None:
        yield i.guard.slot, False
    gives = i.op not in _NO_RESULT or (i.op in ("bar", "barrier") and "red" in i.modifiers)
    for n, x in enumerate(i.operands):
        for slot, in_address in _registers_of(x):
            yield slot, n == 0 and gives and not in_address


def slots_of(i: Instruction) -> set[int]:
    """The slots of all of them."""
    return {slot for slot, _ in mentions(i)}


def is_read(i: Instruction, c: Linker) -> bool:
    """May a later instruction do something with a value that this one gives, and not only pass it on to registers that nobody reads?

    What runs straight on behind it may give its registers other values first.
    """
    values = _given(i)
    body = c.inlined.body
    at = next((n for n, other in enumerate(body) if other is i), len(body))
    for other in body[at + 1 :]:
        if _reads(other, values):
            if other.op not in _PASSES_ON:
                return True
            values |= _given(other)
            continue
        if other.op in _GOES_ELSEWHERE:
            return _is_read_anywhere(values, body)
        if other.guard is None:
            values -= slots_of(other)
        if not values:
            return False
    return False


def _is_read_anywhere(values: set[int], body: Sequence[Instruction]) -> bool:
    """Does any instruction do something with these registers, or with those that they are passed on to?"""
    count = 0
    while count < len(values):
        count = len(values)
        for other in body:
            if _reads(other, values):
                if other.op not in _PASSES_ON:
                    return True
                values = values | _given(other)
    return False


def _given(i: Instruction) -> set[int]:
    return {slot for slot, gives in mentions(i) if gives}


def _reads(i: Instruction, slots: set[int]) -> bool:
    return any(slot in slots and not gives for slot, gives in mentions(i))


def slots_in(operand: Operand) -> set[int]:
    """The slots of the registers of an operand."""
    return {slot for slot, _ in _registers_of(operand)}


def _registers_of(operand: Operand) -> Iterator[tuple[int, bool]]:
    """The slots of the registers of an operand, and whether they are part of an address."""
    pending: list[tuple[Operand, bool]] = [(operand, False)]
    while pending:
        x, in_address = pending.pop()
        if isinstance(x, Register):
            yield x.slot, in_address
        elif isinstance(x, Vector):
            pending += [(item, in_address) for item in x.items]
        elif isinstance(x, Pair):
            pending += [(x.first, in_address), (x.second, in_address)]
        elif isinstance(x, Address):
            pending += [(item, True) for item in (x.base, *(x.coordinates or ()))]
