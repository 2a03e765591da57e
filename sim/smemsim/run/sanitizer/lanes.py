"""Lanes of one warp: they are threads like others (PTX ISA 9.1 §3.1, 8.1). They are ordered only by bar.warp.sync, by
another instruction that they execute together (.sync, .aligned), or like any two threads.

`happens_before.py` orders warps. This module records when the lanes of each warp last synchronised: the other lanes
have not seen later writes of a lane. The time of a warp is a number that no other warp has, and never 0. Its lowest
bits count synchronisations of a part of the lanes since all of them synchronised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.run.marks import LANE_BITS, MANY, PART_BITS, SEVERAL
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.warps import ALL, EXITED, WARP, are_whole_warps

if TYPE_CHECKING:
    from smemsim.core.ptx.module import Instruction
    from smemsim.run.views import Wave

__all__ = ["LANE_BITS", "ONLY_WAIT", "PART_BITS", "Lanes"]


ONLY_WAIT = frozenset(
    ("activemask", "elect", "ldmatrix", "match", "mma", "movmatrix", "redux", "shfl", "stmatrix", "vote", "wmma")
)  # lanes wait for each other; nothing says that this orders memory


_PARTS = (1 << PART_BITS) - 1


class Lanes:
    """The time at which the lanes of each warp last synchronised: `now` by warp. A mark of an access is the time of its
    warp and its lane.
    """

    def __init__(self, x: Wave, count: int = 0, *, follows: frozenset[int] = frozenset()) -> None:
        """`count` warps have their own times, if these are the first ones; else those of the wave.

        With stores that it `follows` there is a second one, `by_barriers`, for which instructions that only make
        lanes wait do not count. `waited_at` is the last of these.
        """
        warps = x.total // WARP
        self.x, self.count = x, count or warps
        self.now = np.arange(self.count, self.count + warps, dtype=np.int64) << PART_BITS
        # of any of its lanes, by warp; one that only learns of others does not meet
        self.meetings = np.zeros(warps, np.int64)
        self.by_barriers = Lanes(x, count) if follows else None
        self.waited_at: Instruction | None = None
        # by warp: up to which of its meetings each lane (row) has seen each other
        self._met: dict[int, np.ndarray] = {}
        self._have_met: dict[int, np.ndarray] = {}  # the same without what lanes have learned of others

    def spread(self, first: Lanes, twins: Twins) -> None:
        """Those of the warps of all CTAs, from those of the first one's."""
        begins = np.arange(twins.count, dtype=np.int64)[:, None] * twins.warps
        self.now[:] = (first.now + (begins << PART_BITS)).reshape(-1)
        self.meetings[:] = np.tile(first.meetings, twins.count)
        self._met, self._have_met = (twins.by_warp(met, lambda of_lanes, n: of_lanes.copy()) for met in (first._met, first._have_met))

    def meet(self, threads: np.ndarray | None = None, *, times: int = 1, at: Instruction | None = None) -> None:
        """The running threads, or these, execute an instruction (`at`) that lanes of a warp execute together; all
        threads of the wave so many of them.
        """
        if self.by_barriers is not None:
            if at is not None and at.op in ONLY_WAIT:
                self.waited_at = at
            else:
                self.by_barriers.meet(threads, times=times)
        if threads is None and self.x.sel is ALL:
            self._all_of(slice(None), times)
            self.forget_parts()
            return
        self._some(self.x.threads if threads is None else threads, learns_only=False)

    def forget_parts(self) -> None:
        """All lanes of the wave have synchronised. The separate knowledge of parts of warps is over."""
        self._met.clear()
        self._have_met.clear()

    def all_have_met(self) -> None:
        """All lanes of the wave have synchronised at a barrier, which `now` has already."""
        self.forget_parts()
        if self.by_barriers is not None:
            self.by_barriers.meet()

    def learn(self, threads: np.ndarray) -> None:
        """Threads have synchronised with others, possibly with a lane of their warp."""
        if len(self.x.shared):
            self._some(threads, learns_only=True)

    def learn_each(self, some: Sequence[np.ndarray]) -> None:
        """Threads have synchronised so one after the other: most often each is a lane of one warp."""
        warps = {int(threads[0]) // WARP for threads in some} if all(len(threads) == 1 for threads in some) else set()
        warp = warps.pop() if len(warps) == 1 else -1
        if warp < 0 or not len(self.x.shared) or np.count_nonzero(self.x.pc[warp * WARP : (warp + 1) * WARP] < EXITED) < 2:
            for threads in some:
                self.learn(threads)
            return
        met = self._met.setdefault(warp, np.zeros((WARP, WARP), np.int64))
        for threads in some:
            self.now[warp] += 1
            met[int(threads[0]) % WARP] = self.now[warp] & _PARTS

    def _all_of(self, warps: np.ndarray | slice, times: int = 1) -> None:
        self.meetings[warps] += times
        self.now[warps] &= ~_PARTS
        self.now[warps] += times * self.count << PART_BITS

    def _some(self, threads: np.ndarray, *, learns_only: bool) -> None:
        if len(threads) == 1:
            warp, lane = divmod(int(threads[0]), WARP)
            if np.count_nonzero(self.x.pc[warp * WARP : (warp + 1) * WARP] < EXITED) > 1:
                self._part(warp, np.array([lane]), learns_only=learns_only)
                return
        elif are_whole_warps(threads):
            warps = threads[::WARP] // WARP
            self._all_of(warps)
            for warp in warps.tolist() if self._met else ():
                self._forget(warp)
            return
        chosen = np.zeros(self.x.total, bool)
        chosen[threads] = True
        here = chosen.reshape(-1, WARP)
        some = np.asarray(here.any(axis=1))
        part = some & np.asarray(((self.x.pc < EXITED).reshape(-1, WARP) & ~here).any(axis=1))
        whole = some & ~part
        self._all_of(whole)
        if self._met:
            for warp in np.flatnonzero(whole).tolist():
                self._forget(warp)
        for warp in np.flatnonzero(part).tolist():
            self._part(warp, np.flatnonzero(here[warp]), learns_only=learns_only)

    def _forget(self, warp: int) -> None:
        self._met.pop(warp, None)
        self._have_met.pop(warp, None)

    def _part(self, warp: int, lanes: np.ndarray, *, learns_only: bool) -> None:
        met = self._met.setdefault(warp, np.zeros((WARP, WARP), np.int64))
        self.now[warp] += 1
        count = int(self.now[warp]) & _PARTS
        if learns_only:
            met[lanes] = count
            return
        self.meetings[warp] += 1
        for matrix in (met, self._have_met.setdefault(warp, np.zeros((WARP, WARP), np.int64))):
            matrix[lanes] = matrix[lanes].max(axis=0)
            matrix[np.ix_(lanes, lanes)] = count

    def marks(self, warps: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """The marks of accesses that lanes of warps make now."""
        found: np.ndarray = self.now[warps] << LANE_BITS | lanes
        return found

    def is_since(self, mark: int, now: int) -> bool:
        """Have all lanes of a warp last synchronised at the same time, for a mark and for one of now?"""
        return mark >> LANE_BITS + PART_BITS == now >> LANE_BITS + PART_BITS

    def not_met(self, marks: np.ndarray, warp: int, lane: int) -> np.ndarray:
        """Has a lane of a warp not synchronised with those that made accesses with these marks, whatever it has
        learned?
        """
        by = marks & (1 << LANE_BITS) - 1
        late: np.ndarray = (marks >> LANE_BITS + PART_BITS == self.now[warp] >> PART_BITS) & (by != lane)
        met = self._have_met.get(warp)
        return late if met is None else late & (met[lane, by] <= marks >> LANE_BITS & _PARTS)

    def has_met(self, warp: int, lanes: np.ndarray) -> np.ndarray:
        """The synchronisations of a part of a warp up to which some of its lanes have synchronised with each lane,
        since all of them did.
        """
        met = self._have_met.get(warp)
        found: np.ndarray = np.zeros(WARP, np.int64) if met is None else met[lanes].max(axis=0)
        return found

    def apart(self, marks: np.ndarray, warps: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Have these lanes of warps not synchronised with those that made accesses with these marks, of the same
        warp?
        """
        other = marks & (1 << LANE_BITS) - 1
        same = marks >> LANE_BITS + PART_BITS == self.now[warps] >> PART_BITS
        late: np.ndarray = same & (other != lanes) & (other != MANY)
        for n in np.flatnonzero(late).tolist() if self._met else ():
            met = self._met.get(int(warps[n]))
            if met is None:
                continue
            since, by = int(marks[n]) >> LANE_BITS & _PARTS, int(other[n])
            seen = np.delete(met[lanes[n]], lanes[n]).min() if by == SEVERAL else met[lanes[n], by]
            late[n] = seen <= since
        return late
