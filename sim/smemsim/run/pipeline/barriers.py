"""How knowledge of loads moves through the barriers of one cluster: mbarriers and barriers of threads."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.events import AtMbarriers, Observer
from smemsim.run.pipeline.knowledge import WARP, Costs, Filling, Known, Origin, Waited, bits_of
from smemsim.run.pipeline.lanes import Lanes, Missing, Stuck

if TYPE_CHECKING:
    from smemsim.run.views import Barrier, Mbarrier, Wave

__all__ = ["BarrierObserver", "Passes"]


MOST_WAITS = 64  # of a thread that are kept until its next load


class Passes:
    """How a wait for a parity has passed: `fresh` times it learned of a phase, `again` times its thread had passed
    that phase there before.
    """

    def __init__(self) -> None:
        self.fresh = self.again = 0


class BarrierObserver(Observer):
    """Knows for each thread of the cluster of CTA `cta`, and for each phase of a barrier, which
    fillings are complete.
    """

    def __init__(self, cta: int | None = None, costs: Costs | None = None) -> None:
        self.cta, self.costs = cta, costs or Costs()
        self.lanes = Lanes()
        self.barrier_names: dict[int, str] = {}  # by address, of those that small variables have
        self._variables: dict[int, str] = {}
        self.numbers: dict[int, int] = {}  # of CTAs in the grid, by their index
        self.passes: dict[Instruction, Passes] = collections.defaultdict(Passes)
        self._wave: Wave | None = None
        self._begin = self._end = self._first = self._stride = 0
        self._known: dict[int, Known] = collections.defaultdict(Known)
        self._open: dict[tuple[int, int], Known] = collections.defaultdict(Known)
        self._done: dict[tuple[int, int], Known] = {}
        self._phase: dict[tuple[int, int], int] = collections.defaultdict(int)
        self._filled: dict[tuple[int, int, int], Filling] = {}
        self._blocked: dict[int, Mbarrier] = {}  # by thread: the mbarrier that it waits at
        # by thread: its waits since its last filling
        self._waited: dict[int, collections.deque[Waited]] = collections.defaultdict(
            functools.partial(collections.deque, maxlen=MOST_WAITS)
        )
        # by mbarrier and warp: in which phase, and where, it arrived last
        self._arrived: dict[tuple[int, int], dict[int, tuple[int, Instruction]]] = collections.defaultdict(dict)
        self._met: dict[Any, Known] = collections.defaultdict(Known)
        self._passing: dict[Any, Known] = {}
        # by instruction, thread and mbarrier: the phase that was passed
        self._last: dict[tuple[int, int, tuple[int, int]], int] = {}

    # ---- which threads

    def wave_began(self, x: Wave) -> None:
        if self._wave is None and (self.cta is None or self.cta in x.numbers):
            index = 0 if self.cta is None else int(np.flatnonzero(x.numbers == self.cta)[0])
            cluster = x.ctas[index].cluster
            members = [cta.index for cta in x.ctas if cta.cluster == cluster]
            self._wave, self._begin, self._end = x, min(members) * x.stride, (max(members) + 1) * x.stride
            self._first, self._stride = index * x.stride, x.stride
            self.numbers = {cta.index: int(cta.number) for cta in x.ctas if cta.index in members}

    def wave_hung(self, x: Wave) -> None:
        if x is not self._wave:
            return
        for wait in sorted(x.positions.waiting, key=lambda wait: int(wait.threads[0])):
            own = [t for t in wait.threads.tolist() if self._first <= t < self._first + x.stride]
            if own:
                warps = tuple(sorted({(t - self._first) // WARP for t in own}))
                late = () if wait.participants is None else self._drawn(x, wait.participants()[1].tolist())
                overdue = tuple(sorted(warp for warp, _ in late))
                barrier = self._blocked.get(own[0])
                key = None if barrier is None else (barrier.cta.index, barrier.offset)
                missing = None if barrier is None else self._missing(x, barrier)
                numbers = {thread // WARP for _, thread in late}
                elsewhere = tuple(sorted(at for at, warps in self._arrived.items() if at != key and numbers & warps.keys()))
                for _, offset in elsewhere:
                    self._variable(x, offset)
                self.lanes.stuck.append(Stuck(warps, wait.instruction, wait.what(), own[0], key, overdue, missing, elsewhere))

    def _missing(self, x: Wave, barrier: Mbarrier) -> Missing:
        """The arrivals that the current phase of an mbarrier lacks."""
        key, state = (barrier.cta.index, barrier.offset), barrier.state
        self._variable(x, barrier.offset)
        own = range(self._first // WARP, (self._first + x.stride) // WARP)
        arrived = [
            (warp - own.start, phase == self._phase[key], i) for warp, (phase, i) in sorted(self._arrived[key].items()) if warp in own
        ]
        came, before = tuple((warp, i) for warp, is_now, i in arrived if is_now), tuple(warp for warp, is_now, _ in arrived if not is_now)
        absent = tuple(
            number for cta, number in self.numbers.items()
            if cta != key[0] and self._arrives(x, cta, (cta, key[1])) and not self._arrives(x, cta, key)
        )  # fmt: skip
        return Missing(
            state.phase,
            state.expected,
            state.pending,
            state.tx,
            came,
            before,
            self._open[key].reads,
            absent,
            self.numbers[self._first // x.stride],
        )

    def _arrives(self, x: Wave, cta: int, key: tuple[int, int]) -> bool:
        """Has a warp of a CTA arrived at an mbarrier?"""
        warps = range(cta * x.stride // WARP, (cta + 1) * x.stride // WARP)
        return key in self._arrived and any(warp in warps for warp in self._arrived[key])

    def _own(self, threads: np.ndarray) -> list[int]:
        return [t for t in np.asarray(threads).tolist() if self._begin <= t < self._end]

    def _is_own(self, x: Wave, cta: int) -> bool:
        return x is self._wave and self._begin <= cta * x.stride < self._end

    def _drawn(self, x: Wave, threads: Iterable[int]) -> list[tuple[int, int]]:
        """The warps of the first CTA among threads, each with its first one."""
        found: dict[int, int] = {}
        for t in threads:
            if self._first <= t < self._first + x.stride:
                found.setdefault((t - self._first) // WARP, t)
        return list(found.items())

    def _waits(self, x: Wave, threads: Iterable[int], kind: str, made: Known, label: str, i: Instruction) -> None:
        """Draw waits that end with this knowledge; called before the threads have it."""
        for warp, thread in self._drawn(x, threads):
            known = self._known[thread]
            if made.time > known.time:
                fresh = made.loads & ~known.loads, made.reads & ~known.reads
                self.lanes.warp_does(warp, kind, known.time, made.time, label, i, *fresh)

    # ---- mbarriers

    def _variable(self, x: Wave, address: int) -> str:
        """The small variable that has an mbarrier, as the source calls it; "" for none. Its place in the variable goes
        to `barrier_names`.
        """
        if address not in self._variables:
            name = x.launch.program.places.mbarrier_at(address)
            if name:
                self.barrier_names[address] = name
            self._variables[address] = name.partition("[")[0]
        return self._variables[address]

    def mbarriers_reached(
        self, x: Wave, i: Instruction, arrivals: AtMbarriers, count: int, *, is_async: bool, relaxed: bool, scope: int
    ) -> None:
        if x is not self._wave or is_async:
            return
        for threads, barrier in arrivals:
            key = barrier.cta.index, barrier.offset
            phase = self._open[key]
            for thread in self._own(threads):
                self._arrived[key][thread // WARP] = self._phase[key], i
                known = self._known[thread]
                fresh = known.reads & ~phase.reads
                phase.learn(known)
                phase.brought[thread] = phase.brought.get(thread, 0) | known.reads
                for bit in bits_of(fresh):
                    was = known.origins.get(bit)
                    phase.origins[bit] = Origin(i if was is None else was.wait, i)

    def mbarriers_completed(self, x: Wave, barriers: Sequence[Mbarrier]) -> None:
        if x is not self._wave:
            return
        for barrier in barriers:
            key = barrier.cta.index, barrier.offset
            if not self._is_own(x, key[0]):
                continue
            done = self._open.pop(key, None) or Known()
            filling = self._filled.get((*key, self._phase[key]))
            if filling is not None:
                filling.is_full = True
                done.loads |= 1 << filling.number
                done.time = max(done.time, filling.full)
            self._done[key] = done
            self._phase[key] += 1

    def mbarrier_blocked(self, x: Wave, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> None:
        if x is self._wave:
            for thread in self._own(threads):
                self._blocked[thread] = barrier

    def mbarriers_passed(
        self, x: Wave, i: Instruction, waits: AtMbarriers, *, relaxed: bool, scope: int, by_parity: bool, is_seen: bool
    ) -> None:
        if x is not self._wave:
            return
        for threads, barrier in waits:
            key = barrier.cta.index, barrier.offset
            own, phase = self._own(threads), self._phase[key] - 1
            if by_parity and own:
                self._passed(i, own[0], key, phase)
            done = self._done.get(key)
            if done is not None:
                self._variable(x, key[1])
                self._waits(x, own, "wait", done, f"{self.barrier_names.get(key[1], f'{key[1]:#x}')} phase {phase}", i)
                for thread in own:
                    self._known[thread].learn(done, i, key, phase)
                    self._waited[thread].append(Waited(i, key, phase, done.loads, done.reads & ~done.brought.get(thread, 0)))
            for thread in own:
                self._blocked.pop(thread, None)

    def _passed(self, i: Instruction, thread: int, key: tuple[int, int], phase: int) -> None:
        """Count whether a wait has learned anything."""
        last = self._last.get((id(i), thread, key))
        self._last[id(i), thread, key] = phase
        passes = self.passes[i]
        if phase >= 0 and phase != last:
            passes.fresh += 1
        elif last is not None:
            passes.again += 1

    # ---- barriers of threads

    def _together(self, threads: list[int]) -> Known:
        met = Known()
        for thread in threads:
            met.learn(self._known[thread])
        return met

    def _meet(self, threads: list[int]) -> None:
        if len(threads) > 1:
            met = self._together(threads)
            for thread in threads:
                self._known[thread].learn(met)

    def barrier_met(self, x: Wave, i: Instruction, number: int, ctas: np.ndarray, threads: np.ndarray, count: int | None) -> None:
        if x is self._wave:
            own = self._own(threads)
            for cta in {t // x.stride for t in own}:
                members = [t for t in own if t // x.stride == cta]
                met = self._together(members)
                self._waits(x, members, "barrier", met, f"bar.sync {number}", i)
                for thread in members:
                    self._known[thread].learn(met)

    def barrier_arrived(
        self, x: Wave, i: Instruction, barrier: Barrier, threads: np.ndarray, *, waits: bool = True, is_relaxed: bool = False
    ) -> None:
        if x is self._wave:
            for thread in self._own(threads):
                self._met[barrier.key].learn(self._known[thread])

    def barrier_completed(self, x: Wave, barrier: Barrier) -> None:
        if x is self._wave and barrier.key in self._met:
            self._passing[barrier.key] = self._met.pop(barrier.key)

    def barrier_passed(self, x: Wave, i: Instruction, barrier: Barrier, threads: np.ndarray) -> None:
        if x is self._wave and (known := self._passing.get(barrier.key)) is not None:
            own = self._own(threads)
            self._waits(x, own, "barrier", known, barrier.title, i)
            for thread in own:
                self._known[thread].learn(known)

    def lanes_met(self, x: Wave, i: Instruction, threads: np.ndarray | None = None, times: int = 1, *, are_done: bool = False) -> None:
        if x is not self._wave:
            return
        by_warp: dict[int, list[int]] = collections.defaultdict(list)
        for thread in self._own(x.threads if threads is None else threads):
            by_warp[thread // WARP].append(thread)
        for own in by_warp.values():
            first = self._known.get(own[0])
            if any((k := self._known.get(t)) is not first and k != first for t in own):
                self._meet(own)
