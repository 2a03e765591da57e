"""The words of races: what X003, X004, X005 and X008 say of two accesses. Shared, global and tensor memory find the accesses; each sentence is here once."""

from __future__ import annotations

import dataclasses

from smemsim.core.finding import Half
from smemsim.core.ptx.module import Instruction

__all__ = [
    "UNORDERED",
    "Access",
    "Clauses",
    "lost_in_warp",
    "lost_update",
    "mbarrier_ended",
    "overwritten_in_flight",
    "read_before_arrival",
    "tensor_memory",
    "unfenced",
    "unordered",
    "within_warp",
]


UNORDERED = "nothing orders the two"
_PROXY = "what threads write and read is ordered with the asynchronous proxy (TMA, tensor core) only by fence.proxy.async"


@dataclasses.dataclass(frozen=True)
class Access:
    """An access of a race: "read", "write" or another verb, who does it ("warp 0 of CTA 1", "an operation of warp 2"), and its instruction."""

    does: str
    who: str
    instruction: Instruction | None = None

    @property
    def half(self) -> Half:
        """As a message shows it."""
        return Half(self.does, f"{self.who} ({self.instruction.name})" if self.instruction is not None else self.who, self.instruction)


@dataclasses.dataclass(frozen=True)
class Clauses:
    """What is wrong, with the two accesses, and why."""

    what: str
    halves: tuple[Half, ...]
    why: str = ""


def unordered(mine: Access, theirs: Access, where: str = "{where}", why: str = UNORDERED) -> Clauses:
    """X008: two accesses of the same bytes that no barrier, release or fence orders; `mine` comes second in this run.

    >>> unordered(Access("read", "warp 0"), Access("write", "warp 1"), "shared 0x400").what
    'shared 0x400 may be read before it is written'
    """
    writes = [access.does != "read" for access in (mine, theirs)]
    what = {
        (False, True): f"{where} may be read before it is written",
        (True, False): f"{where} may be overwritten before it is read",
        (True, True): f"{where} is written twice, in no order",
    }[writes[0], writes[1]]
    return Clauses(what, (mine.half, theirs.half), why)


def lost_update(mine: Access, theirs: Access, load: Instruction, where: str = "{where}") -> Clauses:
    """X008: two warps read a value, change it and write it back, and nothing orders the two."""
    why = f"{UNORDERED}: if both read before either writes, one update is lost"
    return Clauses(f"an update of {where} may be lost", (Half("read", load.name, load), mine.half, theirs.half), why)


def lost_in_warp(mine: Access, load: Instruction, where: str = "{where}", why: str = "") -> Clauses:
    """X008: lanes of one warp read a value, change it and write it back by one instruction."""
    return Clauses(f"an update of {where} is lost", (Half("read", load.name, load), mine.half), why)


def mbarrier_ended(mine: Access, theirs: Access, where: str) -> Clauses:
    """X008: an mbarrier object is invalidated, initialised again or overwritten, and another warp may still use it."""
    return Clauses(f"the mbarrier at {where} ends while another warp may still use it", (mine.half, theirs.half), UNORDERED)


def within_warp(mine: Access, theirs: Access, where: str = "{where}", why: str = "the lanes do not reconverge between the two") -> Clauses:
    """X008: two lanes of one warp access the same bytes, and no synchronisation of the warp is between them."""
    return unordered(mine, theirs, where, why)


def unfenced(mine: Access, theirs: Access, where: str = "{where}") -> Clauses:
    """X003: an asynchronous operation (`mine`) touches what threads have touched, and no fence.proxy.async is between them."""
    does = "read" if mine.does == "read" else "overwritten"
    then = "written" if theirs.does == "write" else theirs.does
    what = f"{where} is {does} through the asynchronous proxy, without fence.proxy.async after threads have {then} it"
    return Clauses(what, (mine.half, theirs.half), _PROXY)


def read_before_arrival(mine: Access, operation: Access, where: str = "{where}", why: str = "") -> Clauses:
    """X004: bytes are read that an asynchronous operation writes, and the reader has not waited for it."""
    return Clauses(f"{where} is read before the asynchronous write of it is complete", (mine.half, operation.half), why)


def tensor_memory(mine: Access, theirs: Access, where: str, why: str = UNORDERED) -> Clauses:
    """X012: cells of tensor memory are read, overwritten or given back, and what used them before may not be complete."""
    does = {"read": "read", "free": "given back"}.get(mine.does, "overwritten")
    what = (
        f"{where} may be read before it is written"
        if (mine.does, theirs.does) == ("read", "write")
        else f"{where} is {does} while it may still be {'read' if theirs.does == 'read' else 'written'}"
    )
    return Clauses(what, (mine.half, theirs.half), why)


def overwritten_in_flight(mine: Access, operation: Access, where: str = "{where}", why: str = "") -> Clauses:
    """X005: bytes are overwritten that an asynchronous operation may still read or write."""
    return Clauses(
        f"{where} is overwritten while an asynchronous operation may still {operation.does} it", (mine.half, operation.half), why
    )
