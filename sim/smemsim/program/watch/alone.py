"""Waits of some lanes of a warp at an mbarrier (PTX ISA 9.1 §8.1, 9.7.13.15.16): the other lanes are threads of their own, and know nothing of it before they
meet those that have waited (bar.warp.sync, or any instruction that they execute together), or wait themselves.

The order of `clocks.py` is that of warps. Here stands what a warp knew before some of its lanes alone waited, until its lanes meet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.distinct import distinct
from smemsim.program.watch.clocks import Order, Rows
from smemsim.program.watch.operations import OPERATIONS, Operations
from smemsim.program.watch.telling import Telling
from smemsim.program.watch.twins import Twins
from smemsim.program.wave import EXITED, WARP, are_whole_warps
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.program.wave import Wave

__all__ = ["LanesAlone"]


MOST = 4  # waits of one warp that are kept


@dataclasses.dataclass(eq=False)
class _Wait:
    """Lanes of a warp that have waited at an mbarrier, and what the warp had seen before; `met` is how often its lanes had met."""

    barrier: Any
    instruction: Instruction
    lanes: np.ndarray
    seen: np.ndarray
    done: np.ndarray
    met: int

    def learn(self, released: Iterable[Rows]) -> None:
        """The other lanes have waited for a phase, and know what was released into it."""
        for seen, _, done, *_ in released:
            self.seen = np.maximum(self.seen, seen)
            self.done = self.done | done


class LanesAlone:
    """Waits of some lanes of a warp, by warp."""

    def __init__(self, x: Wave, order: Order, operations: Operations, telling: Telling, lines: Callable[[], np.ndarray]) -> None:
        self.x, self.order, self.operations, self.telling, self.lines = x, order, operations, telling, lines
        self.waits: dict[int, list[_Wait]] = {}

    def remembered(self) -> list[int]:
        """Holds no operation: what it has of them is dropped when they get new numbers."""
        return []

    def renumber(self, kept: np.ndarray, new: np.ndarray, room: int) -> None:
        """Operations have new numbers."""
        self.waits.clear()

    def spread(self, first: LanesAlone, twins: Twins) -> None:
        """Those of all CTAs, from those of the first one."""
        for warp, waits in first.waits.items():
            for wait in waits:
                seen, done = twins.clocks(wait.seen), twins.flags(wait.done)
                for n, own in enumerate(twins.made[wait.barrier]):
                    mine = self.waits.setdefault(warp + n * twins.warps, [])
                    mine.append(_Wait(own, wait.instruction, wait.lanes.copy(), seen[n].copy(), done[n].copy(), wait.met))

    def waited(self, i: Instruction, threads: np.ndarray, barrier: Any, met: np.ndarray) -> None:
        """Threads are about to learn what a phase of an mbarrier (the Mbarrier object) has brought; `met` is by warp how often its lanes have met."""
        if not self.waits and are_whole_warps(threads):
            return
        for warp in distinct(threads >> 5).tolist():
            here = np.zeros(WARP, bool)
            here[threads[threads >> 5 == warp] % WARP] = True
            alive = self.x.key[warp * WARP : (warp + 1) * WARP] < EXITED
            if not (alive & ~here).any():
                self.waits.pop(warp, None)
                continue
            mine = self.waits.setdefault(warp, [])
            for wait in mine:
                if wait.barrier is barrier or not (here & ~wait.lanes).any():
                    wait.lanes |= here
                else:  # what lanes wait for elsewhere they do not have from those that waited here
                    wait.learn(self.order.closed(barrier))
            mine[:] = [wait for wait in mine if wait.met == met[warp] and (alive & ~wait.lanes).any()]
            if len(mine) < MOST and not any((wait.lanes == here).all() or wait.barrier is barrier for wait in mine):
                mine.append(_Wait(barrier, i, here, self.order.seen[warp].copy(), self.order.done[warp].copy(), int(met[warp])))

    def concerns(self, met: np.ndarray) -> bool:
        """Does a running warp have lanes that have not waited for what others of it have?"""
        if not self.waits:
            return False
        return any(self._open(warp, met) for warp in distinct(self.x.threads >> 5).tolist() if warp in self.waits)

    def _open(self, warp: int, met: np.ndarray) -> list[_Wait]:
        """The waits of a warp whose lanes have not met since."""
        left = [wait for wait in self.waits[warp] if wait.met == met[warp]]
        if left:
            self.waits[warp] = left
        else:
            del self.waits[warp]
        return left

    def look(self, i: Instruction, at: np.ndarray, who: np.ndarray, when: np.ndarray, does: str, met: np.ndarray) -> None:
        """The running threads read or overwrite (`does`) words at places `at`, (a thread, a word of it), that `who` has written `when`."""
        threads = self.x.threads
        for warp in [warp for warp in distinct(threads >> 5).tolist() if warp in self.waits]:
            for wait in self._open(warp, met):
                rows = (threads >> 5 == warp) & ~wait.lanes[threads % WARP]
                if rows.any():
                    self._look(i, warp, wait, at[rows], who[rows], when[rows], does)

    def _look(self, i: Instruction, warp: int, wait: _Wait, at: np.ndarray, who: np.ndarray, when: np.ndarray, does: str) -> None:
        at, who, when = at.reshape(-1), who.reshape(-1), when.reshape(-1)
        by_operation = who >= OPERATIONS
        numbers = np.where(by_operation, who - OPERATIONS, 0)
        late = by_operation & self.order.done[warp][numbers] & ~wait.done[numbers]
        warps = np.where(by_operation | (who < 0), warp, who)
        late |= (warps != warp) & (self.order.seen[warp][warps] >= when) & (wait.seen[warps] < when)
        if not late.any():
            return
        first = int(np.argmax(late))
        is_copy = bool(by_operation[first])
        code = ("X004" if does == "read" else "X005") if is_copy else "X008"
        writer = self.telling.writer(int(who[first]), int(self.lines()[at[first]]))
        lanes = np.flatnonzero(wait.lanes)
        alone = (
            f"lane {lanes[0]}"
            if len(lanes) == 1
            else f"lanes {lanes[0]} to {lanes[-1]}"
            if np.ptp(lanes) == len(lanes) - 1
            else "some lanes"
        )
        self.telling.find(
            code, i, at[late & (by_operation == is_copy)], f"{{where}} is {does} by {{i}} of lanes of warp {self.telling.warp(warp)} that have not waited for {writer}: "
            f"{alone} alone {'has' * (len(lanes) == 1) or 'have'} waited, at line {wait.instruction.line}, and they have not met since",
            "bar.warp.sync (__syncwarp) behind the wait, or let all lanes wait",
            cause=self.operations[int(numbers[first])].kind if is_copy else "",
        )  # fmt: skip
