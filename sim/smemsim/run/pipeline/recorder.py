"""Records the loads of one cluster's stages, and what the issuing thread knew at each of them.

A *filling* is what one phase of an mbarrier brings to shared memory: the loads of A and B into one stage. Knowledge moves through threads and barriers like
happens-before: a wait for the phase of a filling's mbarrier tells a thread that the filling is complete; `wgmma.wait_group` or a phase that
`tcgen05.commit` completes tells it that the matrix instructions which read a filling are complete. Knowledge is kept by thread, as a bit set of fillings.

Times are only for the picture. They follow from `Costs` and the same dependences, and no verdict uses them.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.events import AtMbarriers, GroupKind, Observer

if TYPE_CHECKING:
    from smemsim.run.async_ops import AsyncOp
    from smemsim.run.views import Barrier, Mbarrier, Wave

__all__ = ["MOST", "Costs", "Filling", "Origin", "PipelineRecorder"]

MOST = 512  # fillings of a launch that are recorded; later ones repeat them
READERS = 8  # warpgroups, or threads that issue tcgen05.mma, that read one filling
WARP, WARPGROUP = 32, 128
_LOADS = frozenset({"tma_load", "bulk"})


class Costs(NamedTuple):
    """Assumed lengths, in units of one tensor core instruction: nothing here was measured."""

    load: int = 6  # from the issue of a load to its last byte
    interval: int = 1  # between the ends of two loads
    mma: int = 1


class Origin(NamedTuple):
    """How a thread learned that reads are complete: its own `wait`, the `arrival` that passed it on and what that thread had waited by."""

    wait: Instruction
    arrival: Instruction | None = None
    first: Instruction | None = None
    barrier: tuple[int, int] | None = None
    phase: int = -1


@dataclasses.dataclass(eq=False)
class Filling:
    """One filling of a stage: the loads that one phase of an mbarrier counts.

    `ring` is equal for the fillings of one ring: the tensors and sizes of their loads. `stage` is where in shared memory the first load goes, with its CTA. `issued`,
    `loads` and `reads` are what the issuing thread knew before: bit sets of fillings that were issued, that were complete, and (READERS bits for each) whose
    matrix instructions were complete. `origins` says by which wait it knew of the reads.
    """

    number: int
    instruction: Instruction
    thread: int
    barrier: tuple[int, int]
    phase: int
    stage: tuple[int, int]
    issued: int
    loads: int
    reads: int
    origins: dict[int, Origin]
    sizes: tuple[tuple[Any, int], ...] = ()
    places: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)  # CTA, first word, the word behind the last
    readers: int = 0
    at: float = 0.0
    full: float = 0.0
    read: float = -1.0
    free: float = -1.0

    @property
    def ring(self) -> tuple[Any, ...]:
        """What the fillings of one ring have in common."""
        return (self.thread // WARP, *self.sizes)


@dataclasses.dataclass(eq=False)
class _Known:
    """What a thread, or a phase of a barrier, knows. `origins` is by bit of `reads`."""

    issued: int = 0
    loads: int = 0
    reads: int = 0
    origins: dict[int, Origin] = dataclasses.field(default_factory=dict)
    time: float = 0.0

    def learn(self, other: _Known, via: Instruction | None = None, barrier: tuple[int, int] | None = None, phase: int = -1) -> None:
        """Know what another knows too; `via` is the wait by which it is learned."""
        fresh = other.reads & ~self.reads
        if fresh:
            for bit in _bits(fresh):
                was = other.origins.get(bit)
                if via is None:
                    if was is not None:
                        self.origins[bit] = was
                else:
                    self.origins[bit] = Origin(via, None if was is None else was.arrival, None if was is None else was.wait, barrier, phase)
        self.issued |= other.issued
        self.loads |= other.loads
        self.reads |= other.reads
        self.time = max(self.time, other.time)


def _bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class PipelineRecorder(Observer):
    """Records the first cluster of a launch, or that of CTA `cta`."""

    def __init__(self, cta: int = 0, costs: Costs | None = None) -> None:
        self.cta, self.costs = cta, costs or Costs()
        self.fillings: list[Filling] = []
        self.is_cut = False
        self._wave: Wave | None = None
        self._begin = self._end = 0
        self._forget()

    def _forget(self) -> None:
        self._known: dict[int, _Known] = collections.defaultdict(_Known)
        self._open: dict[tuple[int, int], _Known] = collections.defaultdict(_Known)
        self._done: dict[tuple[int, int], _Known] = {}
        self._phase: dict[tuple[int, int], int] = collections.defaultdict(int)
        self._filled: dict[tuple[int, int, int], Filling] = {}
        self._current: dict[int, list[tuple[int, int, Filling]]] = collections.defaultdict(list)
        self._multiplied: dict[int, int] = collections.defaultdict(int)  # by thread: what it has issued and not committed
        self._ends: dict[int, float] = collections.defaultdict(float)
        self._groups: dict[int, list[tuple[int, float]]] = collections.defaultdict(list)
        self._readers: dict[int, int] = {}
        self._engine = 0.0
        self._met: dict[Any, _Known] = collections.defaultdict(_Known)
        self._passing: dict[Any, _Known] = {}

    # ---- which threads

    def wave_began(self, x: Wave) -> None:
        if self._wave is None and self.cta in x.numbers:
            index = int(np.flatnonzero(x.numbers == self.cta)[0])
            cluster = x.ctas[index].cluster
            members = [cta.index for cta in x.ctas if cta.cluster == cluster]
            self._wave, self._begin, self._end = x, min(members) * x.stride, (max(members) + 1) * x.stride

    def wave_ended(self, x: Wave) -> None:
        if x is self._wave:
            self._forget()

    wave_stopped = wave_hung = wave_ended

    def _own(self, threads: np.ndarray) -> list[int]:
        return [t for t in np.asarray(threads).tolist() if self._begin <= t < self._end]

    def _is_own(self, x: Wave, cta: int) -> bool:
        return x is self._wave and self._begin <= cta * x.stride < self._end

    # ---- loads

    def issued(self, x: Wave, op: AsyncOp) -> None:
        if x is not self._wave:
            return
        if op.kind in _LOADS:
            one_each = len(op.issuers) > 1
            for n, (cta, thread) in enumerate(op.issuers):
                if self._is_own(x, cta.index):
                    for write in [op.writes[n]] if one_each else op.writes:
                        if write.barrier is not None:
                            self._loads(op, n, thread, write)
        elif op.kind in ("wgmma", "tcgen05.mma"):
            for n, (cta, thread) in enumerate(op.issuers):
                if self._is_own(x, cta.index):
                    self._multiplies(op, n, cta.index, thread)

    def _loads(self, op: AsyncOp, n: int, thread: int, write: Any) -> None:
        of, offset = write.barrier
        barrier = of.index, offset
        key = *barrier, self._phase[barrier]
        words = write.words
        first, end = int(words.begins.min()), int(words.begins.max()) + words.count
        known = self._known[thread]
        filling = self._filled.get(key)
        if filling is None:
            if len(self.fillings) >= MOST:
                self.is_cut = True
                return
            filling = self._filled[key] = Filling(
                len(self.fillings), op.instruction, thread, barrier, key[2], (write.cta.index, first), known.issued, known.loads, known.reads,
                dict(known.origins), at=known.time,
            )  # fmt: skip
            self.fillings.append(filling)
        filling.sizes += ((_source(op, n), write.size),)
        filling.places.append((write.cta.index, first, end))
        self._engine = max(self._engine + self.costs.interval, known.time + self.costs.load)
        filling.full = max(filling.full, self._engine)
        known.issued |= 1 << filling.number
        current = self._current[write.cta.index]
        current[:] = [entry for entry in current if entry[1] <= first or entry[0] >= end]
        current.append((first, end, filling))

    # ---- matrix instructions

    def _multiplies(self, op: AsyncOp, n: int, cta: int, thread: int) -> None:
        if n >= len(op.reads):
            return
        reader = self._readers.setdefault(thread, len(self._readers))
        begins, known = op.reads[n].begins, self._known[thread]
        start = max(known.time, self._ends[thread])
        end = self._ends[thread] = start + self.costs.mma
        for first, behind, filling in self._current[cta]:
            if reader < READERS and bool(((begins >= first) & (begins < behind)).any()):
                bit = filling.number * READERS + reader
                filling.readers |= 1 << reader
                self._multiplied[thread] |= 1 << bit
                filling.read = start if filling.read < 0 else min(filling.read, start)
                filling.free = max(filling.free, end)

    def group_committed(self, x: Wave, i: Instruction, kind: GroupKind) -> None:
        if kind == "wgmma" and x is self._wave:
            for thread in self._own(x.threads[::WARPGROUP]):
                self._groups[thread].append((self._multiplied.pop(thread, 0), self._ends[thread]))

    def group_waited(self, x: Wave, i: Instruction, kind: GroupKind, left: int, *, only_read: bool = False) -> None:
        if kind != "wgmma" or x is not self._wave:
            return
        for thread in self._own(x.threads[::WARPGROUP]):
            groups = self._groups[thread]
            over, groups[:] = groups[: len(groups) - left], groups[len(groups) - left :] if left else []
            for reads, end in over:
                made = _Known(reads=reads, time=end)
                for lane in range(thread, thread + WARPGROUP):
                    self._known[lane].learn(made, i)

    def committed(self, x: Wave, i: Instruction, commits: Sequence[tuple[int, Mbarrier]]) -> None:
        if x is not self._wave:
            return
        for thread, barrier in commits:
            if self._begin <= thread < self._end:
                known, reads = self._known[thread], self._multiplied[thread]
                made = _Known(known.issued, known.loads, reads, {bit: Origin(i, i) for bit in _bits(reads)}, self._ends[thread])
                made.learn(known)  # what has been issued began after what its thread knew
                made.time = self._ends[thread]
                self._open[barrier.cta.index, barrier.offset].learn(made)

    # ---- mbarriers

    def mbarriers_reached(
        self, x: Wave, i: Instruction, arrivals: AtMbarriers, count: int, *, is_async: bool, relaxed: bool, scope: int
    ) -> None:
        if x is not self._wave or is_async:
            return
        for threads, barrier in arrivals:
            own = self._own(threads)
            if own:
                phase = self._open[barrier.cta.index, barrier.offset]
                for thread in own:
                    known = self._known[thread]
                    fresh = known.reads & ~phase.reads
                    phase.learn(known)
                    for bit in _bits(fresh):
                        was = known.origins.get(bit)
                        phase.origins[bit] = Origin(i if was is None else was.wait, i)

    def mbarriers_completed(self, x: Wave, barriers: Sequence[Mbarrier]) -> None:
        if x is not self._wave:
            return
        for barrier in barriers:
            key = barrier.cta.index, barrier.offset
            if not self._is_own(x, key[0]):
                continue
            done = self._open.pop(key, None) or _Known()
            filling = self._filled.get((*key, self._phase[key]))
            if filling is not None:
                done.loads |= 1 << filling.number
                done.time = max(done.time, filling.full)
            self._done[key] = done
            self._phase[key] += 1

    def mbarriers_passed(
        self, x: Wave, i: Instruction, waits: AtMbarriers, *, relaxed: bool, scope: int, by_parity: bool, is_seen: bool
    ) -> None:
        if x is not self._wave:
            return
        for threads, barrier in waits:
            key = barrier.cta.index, barrier.offset
            done = self._done.get(key)
            if done is not None:
                for thread in self._own(threads):
                    self._known[thread].learn(done, i, key, self._phase[key] - 1)

    # ---- barriers of threads

    def _meet(self, threads: list[int]) -> None:
        if len(threads) > 1:
            met = _Known()
            for thread in threads:
                met.learn(self._known[thread])
            for thread in threads:
                self._known[thread].learn(met)

    def barrier_met(self, x: Wave, i: Instruction, number: int, ctas: np.ndarray, threads: np.ndarray, count: int | None) -> None:
        if x is self._wave:
            own = self._own(threads)
            for cta in {t // x.stride for t in own}:
                self._meet([t for t in own if t // x.stride == cta])

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
            for thread in self._own(threads):
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


def _source(op: AsyncOp, n: int) -> Any:
    """What a load reads: its tensor map, or nothing that is known."""
    record = op.records[n] if n < len(op.records) else None
    tensor_map = getattr(record, "tensor_map", None)
    return None if tensor_map is None else tensor_map.global_address
