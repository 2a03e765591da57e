"""The registers that an instruction names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from smemsim.ptx.module import Address, Instruction, Operand, Pair, Register, Vector

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker

__all__ = ["is_read", "mentions", "slots_of"]

_NO_RESULT = {"bar", "barrier", "nanosleep", "red", "st"}  # their first operand is not a result; of `bar.red` it is

_GOES_ELSEWHERE = {"bra", "brx", "call"}


def mentions(i: Instruction) -> Iterator[tuple[int, bool]]:
    """The slots of the registers, and whether the instruction gives them a value."""
    if i.guard is not None:
        yield i.guard.slot, False
    gives = i.op not in _NO_RESULT or (i.op in ("bar", "barrier") and "red" in i.modifiers)
    pending: list[tuple[Operand, bool]] = [(x, n == 0 and gives) for n, x in enumerate(i.operands)]
    while pending:
        x, result = pending.pop()
        if isinstance(x, Register):
            yield x.slot, result
        elif isinstance(x, Vector):
            pending += [(item, result) for item in x.items]
        elif isinstance(x, Pair):
            pending += [(x.first, result), (x.second, result)]
        elif isinstance(x, Address):  # an address only names its registers
            pending += [(item, False) for item in (x.base, *(x.coordinates or ()))]


def slots_of(i: Instruction) -> set[int]:
    """The slots of all of them."""
    return {slot for slot, _ in mentions(i)}


def is_read(i: Instruction, c: Linker) -> bool:
    """May a later instruction read a register that this one gives a value? What runs straight on behind it may give it another one first."""
    results = {slot for slot, gives in mentions(i) if gives}
    body = c.inlined.body
    at = next((n for n, other in enumerate(body) if other is i), len(body))
    for other in body[at + 1 :]:
        if _reads(other, results):
            return True
        if other.op in _GOES_ELSEWHERE:
            return any(_reads(one, results) for one in body)
        if other.guard is None:
            results -= slots_of(other)
        if not results:
            return False
    return False


def _reads(i: Instruction, slots: set[int]) -> bool:
    return any(slot in slots and not gives for slot, gives in mentions(i))
