"""The words of races: what X003, X004, X005, X008 and X012 say of accesses. Shared, global and tensor memory find
these; each code and each sentence is here once.
"""

from __future__ import annotations

import dataclasses

from smemsim.core.finding import Half
from smemsim.core.ptx.module import Instruction

__all__ = [
    "ATOMIC",
    "ATOMIC_IN_WARP",
    "LANES_APART",
    "LOST_IN_WARP",
    "UNORDERED",
    "UPDATE",
    "Access",
    "Clauses",
    "after_cta",
    "before_cta",
    "copy_after_cta",
    "copy_after_mbarrier",
    "lost_in_warp",
    "lost_update",
    "map_not_acquired",
    "map_unfenced",
    "mbarrier_ended",
    "mbarrier_in_flight",
    "mbarrier_not_visible",
    "non_coherent",
    "operation_with",
    "overwritten_in_flight",
    "own_tensor_access",
    "read_before_arrival",
    "read_before_issue",
    "tensor_memory",
    "tensor_read_early",
    "unfenced",
    "unordered",
    "within_warp",
]


UNORDERED = "nothing orders the two"
_STORES = "TMA and the tensor core may not see ordinary stores before fence.proxy.async"
_PROXY = "TMA and the tensor core may write before ordinary loads and stores are complete, unless fence.proxy.async follows these"


def operation_with(memory: str, other: Instruction) -> str:
    """What sets apart the races of one instruction: the memory and the other instruction."""
    return f"{memory}, {other.site}"


@dataclasses.dataclass(frozen=True)
class Access:
    """One access of a race: "read", "write" or another verb, its actor ("warp 0 of CTA 1", "an operation of warp 2"),
    and its instruction.
    """

    does: str
    who: str
    instruction: Instruction | None = None

    @property
    def half(self) -> Half:
        """The access in the form of a message."""
        return Half(self.does, f"{self.who} ({self.instruction.name})" if self.instruction is not None else self.who, self.instruction)


@dataclasses.dataclass(frozen=True)
class Clauses:
    """The clauses of a finding: what is wrong, by which code of `core/spec/findings.py`, with the accesses, and why.
    The missing part is `kind`, if the code has several cases (see `InLaunch`).
    """

    code: str
    what: str
    halves: tuple[Half, ...] = ()
    why: str = ""
    kind: str = ""


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
    return Clauses("X008", what, (mine.half, theirs.half), why)


def lost_update(
    mine: Access, theirs: Access, load: Instruction, where: str = "{where}", why: str = "", *, of_one_cta: bool = True
) -> Clauses:  # fmt: skip
    """X008: two warps, `of_one_cta` or not, read a value, change it and write it back, and nothing orders the two."""
    why = f"{why or UNORDERED}: if both read before either writes, one update is lost"
    both = "both warps" if of_one_cta else "both CTAs"
    who = both if mine.instruction is theirs.instruction else mine.who  # another store has its own load
    return Clauses("X008", f"an update of {where} may be lost", (Half("read", f"{who} ({load.name})", load), mine.half, theirs.half), why)


# Operations of findings that no barrier of the CTA repairs: what `lost_in_warp` words; a lane releases, and has not
# synchronised with another lane.
UPDATE, LANES_APART = "update", "lanes"
LOST_IN_WARP = "each lane reads before any lane writes: only one update is left"
ATOMIC = "one atomic operation (atom or red) in place of the load and the store, or a lock with acquire and release around both"
ATOMIC_IN_WARP = (
    "one atomic (atom, red) instead of the load and the store, or first a sum over the lanes with one address (shfl, redux, match)"
)


def lost_in_warp(mine: Access, load: Instruction, where: str = "{where}", why: str = LOST_IN_WARP) -> Clauses:
    """X008: lanes of one warp read a value, change it and write it back by one instruction. The fix is
    ATOMIC_IN_WARP.
    """
    return Clauses("X008", f"an update of {where} is lost", (Half("read", load.name, load), mine.half), why)


def mbarrier_ended(mine: Access, theirs: Access, where: str) -> Clauses:
    """X008: an mbarrier object is invalidated, initialised again or overwritten, and another warp may still use it."""
    return Clauses("X008", f"the mbarrier at {where} ends while another warp may still use it", (mine.half, theirs.half), UNORDERED)


def within_warp(mine: Access, theirs: Access, where: str = "{where}", why: str = "the lanes do not reconverge between the two") -> Clauses:
    """X008: two lanes of one warp access the same bytes, and no synchronisation of the warp is between them."""
    return unordered(mine, theirs, where, why)


def unfenced(mine: Access, theirs: Access, where: str = "{where}") -> Clauses:
    """X003: an asynchronous operation (`mine`) touches what threads have touched, and no fence.proxy.async is between
    them.
    """
    does = "reads" if mine.does == "read" else "overwrites"
    then = {"write": "stores", "read": "loads"}.get(theirs.does, "accesses")
    what = f"an asynchronous operation {does} {where} without fence.proxy.async after the {then} of threads"
    return Clauses("X003", what, (mine.half, theirs.half), _STORES if mine.does == "read" else _PROXY)


def read_before_arrival(mine: Access, operation: Access, where: str = "{where}", why: str = "") -> Clauses:
    """X004: bytes are read that an asynchronous operation writes, and the reader has not waited for it."""
    return Clauses("X004", f"{where} is read before the asynchronous write of it is complete", (mine.half, operation.half), why)


def read_before_issue(mine: Access, operation: Access, where: str = "{where}", why: str = "") -> Clauses:
    """X004: bytes are read before the asynchronous operation that writes them has been issued."""
    return Clauses("X004", f"{where} is read before a load has written it", (mine.half, operation.half), why)


def tensor_memory(mine: Access, theirs: Access, where: str, why: str = UNORDERED) -> Clauses:
    """X012: cells of tensor memory are read, overwritten or deallocated before an earlier operation on them is
    complete.
    """
    does = {"read": "read", "free": "deallocated"}.get(mine.does, "overwritten")
    what = (
        f"{where} may be read before it is written"
        if (mine.does, theirs.does) == ("read", "write")
        else f"{where} is {does} while it may still be {'read' if theirs.does == 'read' else 'written'}"
    )
    if theirs.does == "alloc":
        what = f"{where} is {does}, and {theirs.who} may not have allocated it yet"
    return Clauses("X012", what, (mine.half, theirs.half), why)


def overwritten_in_flight(mine: Access, operation: Access, where: str = "{where}", why: str = "") -> Clauses:
    """X005: bytes are overwritten that an asynchronous operation may still read or write."""
    what = f"{where} is overwritten while an asynchronous operation may still {operation.does} it"
    return Clauses("X005", what, (mine.half, _earlier(mine, operation).half), why)


def mbarrier_in_flight(mine: Access, arrival: Access, where: str) -> Clauses:
    """X005: an mbarrier object ends, and an asynchronous arrival may still come."""
    what = f"the mbarrier at {where} ends while an asynchronous operation may still arrive at it"
    return Clauses("X005", what, (mine.half, _earlier(mine, arrival).half), "these threads have not waited for that phase")


def _earlier(mine: Access, theirs: Access) -> Access:
    """An asynchronous operation that was issued before another access. One instruction may make both, in a loop."""
    is_same = mine.instruction is not None and theirs.instruction is not None and mine.instruction.text == theirs.instruction.text
    is_same = is_same and mine.instruction.line == theirs.instruction.line  # type: ignore[union-attr]
    return dataclasses.replace(theirs, who=f"{theirs.who}, issued earlier{' by the same line' * is_same}")


def before_cta(access: Access, cta: int) -> Clauses:
    """X008: a thread accesses the shared memory of a CTA that may not have begun."""
    what = f"shared memory of CTA {cta} is accessed before that CTA may have begun"
    return Clauses("X008", what, (access.half,), "nothing that the other CTA did is ordered before this access")


def after_cta(access: Access, cta: int, *, has_ended: bool) -> Clauses:
    """X008: a thread accesses the shared memory of a CTA that has ended, or may have."""
    if has_ended:
        what, why = "is accessed after all threads of that CTA have exited", "the shared memory of a CTA that has ended no longer exists"
    else:
        what, why = "is accessed, and that CTA may have ended by then", "that CTA waits for nothing that comes after this access"
    return Clauses("X008", f"shared memory of CTA {cta} {what}", (access.half,), why)


def copy_after_cta(operation: Access, cta: int) -> Clauses:
    """X005: a CTA ends, and an asynchronous operation may still access its shared memory."""
    what = f"CTA {cta} ends while a copy may still {operation.does} its shared memory"
    halves = () if operation.instruction is None else (Half(operation.does, operation.instruction.name, operation.instruction),)
    return Clauses("X005", what, halves, "no thread has waited for the copy, and the next CTA gets this memory")


def copy_after_mbarrier(end: Instruction, copy: Instruction, where: str) -> Clauses:
    """X005: an mbarrier object is invalidated or initialised again, and a copy may still complete on it."""
    does = "initialises" if end.modifiers[0] == "init" else "invalidates"
    why = f"these threads have not waited for the copy; {end.name} {does} the mbarrier"
    halves = Half("end", end.name, end), Half("copy", copy.name, copy)
    return Clauses("X005", f"the mbarrier at {where} ends while a copy may still complete on it", halves, why)


def mbarrier_not_visible(use: Access, init: Access, offset: int) -> Clauses:
    """X008: a warp uses an mbarrier, and nothing orders mbarrier.init by another warp before."""
    return Clauses("X008", f"the mbarrier at {offset:#x} may be used before it is initialised", (use.half, init.half), UNORDERED)


def non_coherent(i: Instruction, other: Instruction, where: str) -> Clauses:
    """X008: a load through the non-coherent cache reads what the launch has written."""
    halves = Half("read", i.name, i), Half("write", other.name, other)
    why = "this launch writes the bytes, and the non-coherent cache may still hold the old value"
    return Clauses("X008", f"{where} is read through the non-coherent cache", halves, why)


def map_unfenced(mine: Access, theirs: Access, address: int, kind: str) -> Clauses:
    """X003: a tensor map is used that threads have written, and no fence.proxy.tensormap of a `kind` ("acquire",
    "release") is between.
    """
    fence = f"fence.proxy.tensormap::generic.{kind}"
    what = f"the tensor map at global {address:#x} is used without {fence} after threads have written it"
    why = f"threads write the map through the generic proxy, copies read it through the tensormap proxy; only {fence} orders the two"
    return Clauses("X003", what, (mine.half, theirs.half), why)


def map_not_acquired(use: Access, address: int) -> Clauses:
    """X003: a tensor map in global memory is used that the host or an earlier launch has written, and the CTA has not
    acquired it.
    """
    return Clauses(
        "X003",
        f"the tensor map at global {address:#x} is used without fence.proxy.tensormap::generic.acquire in this CTA",
        (use.half,),
        "by the CUDA guide, a map that the host or an earlier launch has written to global memory needs this fence in each CTA; no failure is known",
    )


def own_tensor_access(mine: Access, theirs: Access, why: str) -> Clauses:
    """X012: a warp reads what its own tcgen05.st writes, or overwrites what its own tcgen05.ld reads, and has not
    waited.
    """
    does, before = ("overwrites", "ld") if theirs.does == "read" else ("reads", "st")
    what = f"a warp {does} tensor memory after its own tcgen05.{before}, without tcgen05.wait::{before}"
    return Clauses("X012", what, (mine.half, theirs.half), why)


def tensor_read_early(reader: Instruction, writer: Instruction, where: str) -> Clauses:
    """X012: cells of tensor memory are read before an operation writes them."""
    halves = Half("read", reader.name, reader), Half("write", writer.name, writer)
    return Clauses("X012", f"{where} is read before it is written", halves, "nothing makes the reader wait")
