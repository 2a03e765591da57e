"""The registers that an instruction names."""

from __future__ import annotations

from collections.abc import Iterator

from smemsim.ptx.module import Address, Instruction, Operand, Pair, Register, Vector

__all__ = ["mentions", "slots_in", "slots_of"]

_NO_RESULT = {"bar", "barrier", "nanosleep", "red", "st"}  # their first operand is not a result; of `bar.red` it is


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
