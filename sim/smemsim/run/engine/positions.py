"""Positions of the threads of a wave, and what threads that do not run wait for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.engine.wave_grid import WaveGrid
from smemsim.run.warps import EXITED

if TYPE_CHECKING:
    from smemsim.core.finding import Touched, Value

__all__ = ["EXITED", "GATHERING", "LEAST_SUSPICIOUS", "PARKED", "YIELDED", "Positions", "Wait"]


YIELDED, GATHERING, PARKED = 1 << 24, 1 << 25, 1 << 26
LEAST_SUSPICIOUS = 5  # of waits that never end: one for others that wait, most likely
PATIENCE = 64  # rounds in which waits expired and nothing changed, before that is a hang


@dataclasses.dataclass(eq=False)
class Wait:
    """Threads that wait at `instruction` for others.

    The text `what` describes the wait, for a report of a hang. The pair `suspicion` has the distance from the cause (0
    is the nearest), and the change to make. The threads of the wave that have not arrived are `missing`, if known. The
    sites that have arrived at an mbarrier, or brought it bytes, are `fed`. The warps that have arrived at it in this
    phase, and the overdue ones, are `participants`.

    Threads in `mbarrier.try_wait` have an `expired` callback: they also continue after a while, when no other thread
    can.
    """

    threads: np.ndarray
    instruction: Instruction
    what: Callable[[], str]
    expired: Callable[[], None] | None = None
    suspicion: Callable[[], tuple[int, str]] = lambda: (LEAST_SUSPICIOUS, "")
    touched: tuple[Touched, ...] = ()  # the mbarrier that they wait at
    missing: Callable[[], np.ndarray] | None = None
    fed: Callable[[], set[int]] | None = None
    participants: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None
    numbers: Callable[[], dict[str, Value]] = dict  # of an mbarrier: other counts of arrivals, to be tried


class Positions:
    """The position of each thread: the number of its next block. If the thread does not run, YIELDED, GATHERING, PARKED
    or EXITED is added.

    If all threads are known to be at one place, `together` is its position, else None. The waits of parked threads are
    `waiting`.
    """

    def __init__(self, grid: WaveGrid) -> None:
        self.grid = grid
        self.together: int | None = None if grid.padded else 0  # if not None, `_pc` does not say it
        self._pc = np.empty(grid.total, np.int32)
        if grid.padded:
            self._pc[:] = np.where(grid.tid < grid.launch.threads, 0, EXITED)
        self.waiting: set[Wait] = set()
        self._patience = (-1, 0)

    @property
    def pc(self) -> np.ndarray:
        """The position of each thread."""
        if self.together is not None:
            self._pc.fill(self.together)
            self.together = None
        return self._pc

    @functools.cached_property
    def members(self) -> np.ndarray:
        """The member masks of threads that gather."""
        return np.zeros(self.grid.total, np.uint32)

    @functools.cached_property
    def met(self) -> np.ndarray:
        """Threads that have synchronised with others at a bar.warp.sync, and have not continued yet."""
        return np.zeros(self.grid.total, bool)

    def lowest(self) -> int:
        """The lowest place where a thread is."""
        return int(self._pc.min()) if self.together is None else self.together

    @property
    def clusters_left(self) -> int:
        """Clusters of which some thread has not exited: the others have left their place on the card."""
        of_cluster = self.pc.reshape(-1, self.grid.stride * self.grid.launch.cluster_size)
        return int((of_cluster < EXITED).any(axis=1).sum())

    def expire(self, changes: int) -> bool:
        """Nobody can go on: the waits that end by themselves do. False when there are none, or when that has not
        helped before, as `changes` of the wave say.
        """
        last, rounds = self._patience
        rounds = rounds + 1 if last == changes else 0
        self._patience = (changes, rounds)
        waits = [wait for wait in self.waiting if wait.expired is not None] if rounds < PATIENCE else []
        for wait in waits:
            self.waiting.discard(wait)
            self.pc[wait.threads] -= PARKED
            if wait.expired is not None:
                wait.expired()
        return bool(waits)
