"""Which threads of a wave run next under a schedule.

Warps run in groups, each as if it were one: the first in rank that can go on. Now and then the one that runs becomes
the last, or the groups are drawn anew (S. Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of
Finding Bugs", ASPLOS 2010: few changes at random places find most bugs that depend on an order). A group may be a
single warp, or all of them.
"""

from __future__ import annotations

import dataclasses
import random

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.run.engine.schedule import LATEST, Schedule
from smemsim.run.engine.wave import EXITED, GATHERING, WARP, YIELDED, Wave

__all__ = ["Apart", "WarpScheduler"]


GROUPS = 8  # of warps, at most
PARTED = 1 << 11  # blocks that threads execute by turns that are drawn
BURST = 32  # of these, that go to one of them at once, at most


class Apart:
    """Threads in loops, by turns that are drawn, a warp or one of its lanes at a time: each makes progress by itself
    (CUDA C++ Programming Guide, independent thread scheduling).

    Two threads may undo each other's steps, such as a lock that is released when the second lock is taken. If they run
    in step, or alternate in the rhythm of their loops, they return to the same state for ever. Hardware does not keep
    them in step.
    """

    def __init__(self, x: Wave) -> None:
        self._random = random.Random(0)
        self.left, self._burst = PARTED, 0
        self._chosen = np.zeros(0, np.int64)
        self.ended = int((x.pc >= EXITED).sum())

    @staticmethod
    def can_help(x: Wave, before: Apart | None = None) -> bool:
        """Are there threads to part, and has one ended since they last were, if that counts?"""
        is_new = before is None or int((x.pc >= EXITED).sum()) > before.ended
        return is_new and int((x.pc < GATHERING).sum()) > 1

    def pick(self, x: Wave) -> tuple[int, np.ndarray]:
        """The block that runs now, and the threads of a warp that execute it."""
        yielded = (x.pc >= YIELDED) & (x.pc < GATHERING)
        x.pc[yielded] -= YIELDED
        self.left -= 1
        self._burst -= 1
        ready = self._chosen[x.pc[self._chosen] < YIELDED]
        if self._burst < 0 or not ready.size:
            ready = np.flatnonzero(x.pc < YIELDED)
            one = int(ready[int(self._random.random() * len(ready))])
            ready = ready[ready // WARP == one // WARP] if self._random.random() < 0.5 else np.array([one])
            self._chosen, self._burst = ready, int(self._random.random() * BURST)
        at = int(x.pc[ready].min())
        here = np.zeros(x.total, bool)
        here[ready[x.pc[ready] == at]] = True
        return at, here


@dataclasses.dataclass(eq=False)
class WarpScheduler:
    """Which threads of a wave run next. `rank` has that of each warp's group: the lowest goes first."""

    schedule: Schedule
    rank: np.ndarray
    left: int = 0  # blocks until the next change
    soon: bool = False  # that one is of one group alone

    @classmethod
    def of(cls, schedule: Schedule, x: Wave) -> WarpScheduler:
        """The turns of a new wave."""
        of_cta = np.arange(x.total // WARP, dtype=np.int64) % (x.stride // WARP)
        turns = cls(schedule, of_cta if schedule.seed != LATEST else -of_cta)
        if schedule.is_drawn:
            turns._group()
        return turns

    def _group(self) -> None:
        """Draw groups anew: all warps, each CTA's or each place in it, or any; some of them one warp against all
        others.
        """
        s, warps = self.schedule, len(self.rank)
        groups = min(GROUPS, warps)
        if s.chance(0.25):
            self.rank = np.zeros(warps, np.int64)
            self.rank[min(int(s.uniform() * warps), warps - 1)] = 1 if s.chance(0.5) else -1
        else:
            self.rank = np.array([int(s.uniform() * groups) for _ in range(warps)], np.int64)
        self.left = 1 + int(s.uniform() * 2 * s.change)

    def pick(self, x: Wave) -> tuple[int, np.ndarray]:
        """The block that runs now, and the threads that execute it: some that can go on. There is one that can."""
        s = self.schedule
        if s.is_drawn:
            self.left -= 1
            if self.left < 0 and self.soon:
                self.soon, self.left = False, 1 + int(s.uniform() * 2 * s.change)
            elif self.left < 0:
                self._group()
        key = x.pc
        lows = key.reshape(-1, WARP).min(axis=1)
        ready = lows < YIELDED
        best = int(self.rank[ready].min())
        chosen = ready & (self.rank == best)
        if s.is_drawn and self.left == 0:
            self.rank[chosen] = int(self.rank.max()) + 1
        at = int(lows[chosen].min())
        mine = np.repeat(chosen, WARP)
        if s.parts_lanes and s.chance(0.25):
            at = s.draw(distinct(key[mine & (key < YIELDED)]).tolist())
        return at, mine & (key == at)

    def change_soon(self) -> None:
        """Something is under way, and others could look at it: let them go on, maybe."""
        if self.schedule.chance(self.schedule.changes_soon):
            self.soon, self.left = True, min(self.left, self.schedule.draw((1, 2, 4)))

    def pauses(self) -> bool:
        """Do other waves go on first?"""
        return self.schedule.chance(self.schedule.pauses)
