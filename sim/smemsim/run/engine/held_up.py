"""A launch that hangs: which waits hold up others, from what the waiting threads could still execute."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Address, Instruction, Operand, Register, Symbol
from smemsim.core.ptx.origins import origin, symbols_behind
from smemsim.run.engine.wave import EXITED, GATHERING, PARKED, YIELDED, Wait, Wave
from smemsim.run.lower.cfg import following
from smemsim.run.slots import Slot

__all__ = ["Holders", "brings_bytes", "could_come", "feeders", "holders", "reached"]


MOST = 128  # waits that are looked at


def reached(x: Wave, block: int) -> frozenset[int]:
    """The blocks that threads can reach from the begin of a block; all blocks if the target of a jump is not known."""
    return _reached(x)(block)


def _reached(x: Wave) -> functools._lru_cache_wrapper[frozenset[int]]:
    @functools.cache
    def find(block: int) -> frozenset[int]:
        seen: set[int] = set()
        open_ = [block]
        while open_:
            n = open_.pop()
            if n in seen or n >= len(x.program.blocks):
                continue
            seen.add(n)
            after = following(x.program, n)
            if after is None:
                return frozenset(range(len(x.program.blocks)))
            open_ += after
        return frozenset(seen)

    return find


_REACHED: Slot[functools._lru_cache_wrapper[frozenset[int]]] = Slot(_reached)


def could_come(x: Wave, threads: np.ndarray, sites: Iterable[int]) -> np.ndarray:
    """Which of these threads would come to an instruction of these sites if they went on."""
    wanted = set(sites)
    blocks = {n for n, block in enumerate(x.program.blocks) if any(i.site in wanted for i in block.instructions)}
    keys, could = x.pc[threads], np.zeros(len(threads), bool)
    for at in distinct(keys).tolist():
        if at < EXITED:
            first = at - (PARKED if at >= PARKED else GATHERING if at >= GATHERING else YIELDED if at >= YIELDED else 0)
            could |= (keys == at) & bool(reached(x, first) & blocks)
    found: np.ndarray = threads[could]
    return found


def brings_bytes(i: Instruction) -> bool:
    """Does an instruction complete bytes at an mbarrier, when what it copies has come?"""
    return "mbarrier::complete_tx::bytes" in i.modifiers


def _feeds(i: Instruction) -> bool:
    """Could an instruction arrive at an mbarrier, or bring it bytes?"""
    arrives = i.op == "mbarrier" and i.modifiers[0] in ("arrive", "arrive_drop", "complete_tx")
    commits = i.op == "tcgen05" and i.modifiers[0] == "commit"
    return arrives or commits or brings_bytes(i) or (i.op == "cp" and "arrive" in i.modifiers)


def feeders(x: Wave, offset: int) -> list[Instruction]:
    """The instructions that could arrive at the mbarrier of an address, or bring it bytes. An instruction could not if
    the text computes its address from other variables, or if it has another constant address.
    """
    places, body = x.program.places, x.program.inlined.body
    own = places.shared_at(offset)

    def may(i: Instruction) -> bool:
        addresses = [one for one in i.operands if isinstance(one, Address) and one.coordinates is None]
        exact = _exact(x, i, addresses[-1]) if addresses else None
        if exact is not None:
            return exact == offset
        names = symbols_behind(body, addresses[-1]) if addresses else frozenset()  # the mbarrier is the last address
        return not names or (own.name in names if own is not None else not all(places.of(name).size for name in names))

    return [i for i in body if _feeds(i) and may(i)]


def _exact(x: Wave, i: Instruction, address: Address) -> int | None:
    """The address that an operand has if it is the beginning of a variable and a number; None for others."""
    base: Operand = address.base
    inlined = x.program.inlined
    if isinstance(base, Register) and (made := origin(inlined.body, inlined.labels, i, base)) is not None and made.op == "mov":
        base = made.operands[-1]
    if not isinstance(base, Symbol):
        return None
    place = x.program.places.of(base.name)
    return place.offset + base.offset + address.offset if place.space == "shared" and place.size else None


def _meets(i: Instruction, wait: Instruction) -> bool:
    """Is an instruction an arrival at a barrier of threads of the kind that others wait at?"""
    return i.op in ("bar", "barrier") and "warp" not in i.modifiers and ("cluster" in i.modifiers) == ("cluster" in wait.modifiers)


def _holders(x: Wave, wait: Wait) -> np.ndarray:
    """The threads that could end a wait if they went on."""
    body = x.program.inlined.body
    if wait.missing is not None:
        missing = wait.missing()
        elsewhere = [other.threads for other in x.positions.waiting if other is not wait and other.missing is not None]
        at_barriers = np.intersect1d(missing, np.concatenate(elsewhere)) if elsewhere else missing[:0]
        return np.union1d(could_come(x, missing, (i.site for i in body if _meets(i, wait.instruction))), at_barriers)
    known = wait.fed() if wait.fed is not None else set()
    cluster = x.launch.cluster_size * x.stride
    first = int(wait.threads[0]) // cluster * cluster
    others = np.setdiff1d(np.arange(first, min(first + cluster, x.total)), wait.threads)
    again = could_come(x, others, known)
    may = feeders(x, wait.touched[0].begin) if wait.touched else [i for i in body if _feeds(i)]
    return again if again.size else could_come(x, others, (i.site for i in may))


class Holders(NamedTuple):
    """What holds up the waits of a launch that hangs, itself or by other waits. Waits are named by their `id`.

    The `roots` hold up others, and no wait outside a cycle holds them up: they are the causes. All waits are roots if
    there are too many to analyse. By wait, `threads` has those that hold it up; it is None if there are too many.
    """

    roots: set[int]
    threads: dict[int, np.ndarray] | None


def holders(x: Wave) -> Holders:
    """What holds up each wait."""
    waits = x.positions.waiting
    if len(waits) > MOST:
        return Holders({id(wait) for wait in waits}, None)
    own = [_holders(x, wait) for wait in waits]
    held = np.array([[bool(np.isin(other.threads, mine).any()) for other in waits] for mine in own], bool).reshape(len(waits), len(waits))
    for n in range(len(waits)):  # whatever holds up what holds up a wait holds up that too
        held |= held[:, n : n + 1] & held[n]
    roots = {id(wait) for n, wait in enumerate(waits) if all(held[m, n] for m in np.flatnonzero(held[n]).tolist())}
    threads = {id(wait): distinct(np.concatenate([own[n], *(own[m] for m in np.flatnonzero(held[n]))])) for n, wait in enumerate(waits)}
    return Holders(roots, threads)
