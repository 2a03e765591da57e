"""Words that some lanes of a warp free, by a release, while its other lanes may still read them (PTX ISA 9.1 §8.1,
8.8). Lanes are threads: a lane that releases covers only the reads of lanes that it has synchronised with
(bar.warp.sync, or any instruction that they execute together). The mirror of `release_missing_writes.py` for reads.

A pattern of libraries is a remark (rule order.lane_frees). In it a lane arrives at an mbarrier, and has executed the
same load as the other lanes of its warp.

Warps are ordered by `happens_before.py`. Each release ends a tick of the warp's clock. This module records the lanes
that a tick does not cover. The tables of shared memory have the lanes that have read a word, and when (`read_mark`).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction
from smemsim.run.lower.cfg import comes_by
from smemsim.run.marks import LANE_BITS, MANY, NO_LANE, PART_BITS, SEVERAL
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.lanes import Lanes
from smemsim.run.sanitizer.races import LANES_APART, Access, unordered
from smemsim.run.sanitizer.release_missing_writes import unmet_loads
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.sanitizer.shared_table import SharedTable
from smemsim.run.warps import EXITED, WARP

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["ReleaseMissingReads"]


LEAST = 1 << 12  # times of warps, from which on it is looked which of them a word still has
_TIME = LANE_BITS + PART_BITS
_EVER = np.iinfo(np.int64).max


@dataclasses.dataclass
class _Tick:
    """Releases at one clock of a warp: up to which of its meetings (of a part of the lanes) what each lane has read
    is known to those that release.
    """

    answers: np.ndarray
    release: Instruction
    block: int
    by: int


class ReleaseMissingReads:
    """Releases by some lanes of the warps of a wave, by the time of the warp: when all of its lanes last
    synchronised.
    """

    def __init__(self, x: Wave, clocks: VectorClocks, lanes: Lanes, reporting: Reporting, shared: SharedTable) -> None:
        self.x, self.clocks, self.lanes, self.reporting, self.shared = x, clocks, lanes, reporting, shared
        self.loads = np.array(sorted(unmet_loads(x.program)), np.int64)
        self.ticks: dict[int, dict[int, _Tick]] = {}  # by time and clock
        # ticks that end with a proxy fence, which releases nothing: they answer for no lane
        self._by_proxy: set[tuple[int, int]] = set()
        self._limit = LEAST

    # ---- releases

    def releases(self, i: Instruction, threads: np.ndarray, *, relaxed: bool) -> None:
        """Threads are about to release, or to fence; `relaxed`: what they knew at their last fence. Those that come
        to an aligned barrier come with their warp.
        """
        if i.op == "bar" or "aligned" in i.modifiers:
            return
        for warp in distinct(threads // WARP).tolist():
            here = threads[threads // WARP == warp] % WARP
            alive = self.x.pc[warp * WARP : (warp + 1) * WARP] < EXITED
            clock = self.clocks.at_fence(warp) if relaxed else int(self.clocks.clock[warp])
            known = self.ticks.get(time := self._time(warp), {})
            if clock and (len(here) < np.count_nonzero(alive) or clock in known):
                self._note(time, clock, _Tick(self._answers(warp, here), i, self.x.at, int(here[0])))

    def fences_proxy(self, warps: np.ndarray) -> None:
        """These warps are about to execute a proxy fence."""
        self._drop_times()
        self._by_proxy.update((self._time(warp), int(self.clocks.clock[warp])) for warp in warps.tolist())

    def _time(self, warp: int) -> int:
        return int(self.lanes.now[warp]) >> PART_BITS

    def _answers(self, warp: int, here: np.ndarray) -> np.ndarray:
        answers = self.lanes.has_met(warp, here)
        answers[here] = _EVER
        return answers

    def _note(self, time: int, clock: int, tick: _Tick) -> None:
        self._drop_times()
        known = self.ticks.setdefault(time, {})
        if clock in known:
            tick.answers = np.maximum(tick.answers, known[clock].answers)
        known[clock] = tick

    def _drop_times(self) -> None:
        """Times at which no word was read last, and which are over, are forgotten."""
        if len(self.ticks) + len(self._by_proxy) <= self._limit:
            return
        kept = set((self.lanes.now >> PART_BITS).tolist()) | set(distinct(self.shared.read_mark >> _TIME).tolist())
        self.ticks = {time: ticks for time, ticks in self.ticks.items() if time in kept}
        self._by_proxy = {(time, clock) for time, clock in self._by_proxy if time in kept}
        self._limit = max(LEAST, 2 * (len(self.ticks) + len(self._by_proxy)))

    # ---- writes

    def look(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        """X008 where warps are about to overwrite words that a lane of another warp may still read, whose release
        they know from other lanes alone.
        """
        marks = self.shared.read_mark[at]
        open_ = np.isin(marks >> _TIME, np.fromiter(self.ticks, np.int64)) & np.isin(self.shared.read_line[at], self.loads)
        for n in np.flatnonzero(open_).tolist():
            reader, warp = int(marks[n] >> _TIME) % self.lanes.count, int(warps[n])
            tick = None if reader == warp else self._unanswered(int(marks[n]), reader, warp, int(at[n]))
            if tick is not None:
                self._tell(i, int(at[n]), reader, int(marks[n]) & MANY, tick)
                return

    def _unanswered(self, mark: int, reader: int, warp: int, at: int) -> _Tick | None:
        """The last release of those that a warp has seen, if none of them answers for the lane that has read a word."""
        clocks, time, ticks = self.clocks, mark >> _TIME, self.ticks[mark >> _TIME]
        if clocks.columns < len(clocks.clock) and warp // clocks.columns != reader // clocks.columns:
            return None
        read, seen = int(self.shared.read_when[at, reader % self.shared.per_cluster]), int(clocks.has_seen(warp, reader))
        if not 0 <= seen - read < len(ticks) + len(self._by_proxy):
            return None
        between = [clock for clock in range(read, seen + 1) if clock in ticks or (time, clock) not in self._by_proxy]
        found = [ticks.get(clock) for clock in between]
        return found[-1] if found and all(tick is not None and not self._answers_for(tick, mark) for tick in found) else None

    @staticmethod
    def _answers_for(tick: _Tick, mark: int) -> bool:
        lane, part = mark & MANY, mark >> LANE_BITS & (1 << PART_BITS) - 1
        if lane < WARP:
            return bool(tick.answers[lane] > part)
        # of several lanes it is not known which
        return lane in (NO_LANE, MANY) or int(np.count_nonzero(tick.answers > part)) > 1

    def _is_custom(self, site: int, tick: _Tick) -> bool:
        """Is a release a pattern of libraries: an arrival at an mbarrier, by a lane that has executed the load of this
        site like the others?
        """
        blocks = enumerate(self.x.program.blocks)
        loads = {n for n, block in blocks if any(i.site == site and i.op == "ld" and i.guard is None for i in block.instructions)}
        return tick.release.op == "mbarrier" and comes_by(self.x.program, tick.block, loads)

    def _tell(self, i: Instruction, at: int, reader: int, lane: int, tick: _Tick) -> None:
        warp, release, line = self.reporting.warp(reader), tick.release, int(self.shared.read_line[at])
        whose = f"lane {lane}" if lane != SEVERAL else "other lanes"
        mine, theirs = Access("write", "a warp", i), Access("read", f"{whose} of warp {warp}", self.reporting.at(line))
        why = f"lane {tick.by} releases, at {release.at} ({release.name}), and {whose} has not synchronised with it in between"
        if self._is_custom(line, tick):
            self.reporting.excuses["lane"] = release
            self.reporting.find(i, np.array([at]), unordered(mine, theirs), formal="lane", other=line)
            return
        self.reporting.find(
            i, np.array([at]), unordered(mine, theirs, why=why),
            f"bar.warp.sync (__syncwarp) of all lanes between their loads and {release.at}, or let each lane arrive", cause=LANES_APART, other=line,
        )  # fmt: skip
