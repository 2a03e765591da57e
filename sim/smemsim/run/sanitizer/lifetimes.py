"""Shared memory lives as long as its CTA. A thread that accesses another CTA's shared memory does so after that CTA has
begun, and before it may end (PTX ISA 9.1 §5.1.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.async_ops import facts_of
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.operations import Operation, Operations
from smemsim.run.sanitizer.races import Access
from smemsim.run.sanitizer.synchronisation import CommitGroups
from smemsim.run.views import mbarriers
from smemsim.run.warps import EXITED, WARP, warp_name

if TYPE_CHECKING:
    from smemsim.run.views import Cta, Mbarrier, Wave

__all__ = ["Endings", "Lifetimes"]


class _Arrivals:
    """The last arrival of each warp at mbarriers of each other CTA. It is complete for a CTA that has waited for its
    phase, or for a later one of the same warp, whatever it releases.

    Three arrays have the clock, the line and the number of the last arrival. The last number that a CTA knows of is in
    `over`. Earlier actions of the warp up to clock `released` are complete for the CTA, too: an end needs no acquire.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.when, self.line, self.number, self.over, self.released = (np.zeros(shape, np.int32) for _ in range(5))
        self._open: dict[
            Any, dict[int, tuple[int, int]]
        ] = {}  # by the object and warp: the number, and what is released, in its open phase
        self._complete: dict[Any, dict[int, tuple[int, int]]] = {}  # in those that are complete
        self._count = 0

    def note(self, what: Any, warps: np.ndarray, released: np.ndarray) -> int:
        """Warps arrive at an mbarrier, and release up to these clocks; returns the number of that."""
        self._count += 1
        for warp, clock in zip(warps.tolist(), released.tolist(), strict=True):
            arrived = self._open.setdefault(what, {})
            arrived[warp] = self._count, max(clock, arrived.get(warp, (0, 0))[1])
        return self._count

    def complete(self, what: Any) -> None:
        """The open phase of an mbarrier is complete."""
        if what in self._open:
            self._complete.setdefault(what, {}).update(self._open.pop(what))

    def acquire(self, what: Any, ctas: np.ndarray) -> None:
        """Warps of these CTAs have waited for the last complete phase of an mbarrier."""
        for warp, (number, clock) in self._complete.get(what, {}).items():
            self.over[ctas, warp] = np.maximum(self.over[ctas, warp], number)
            self.released[ctas, warp] = np.maximum(self.released[ctas, warp], clock)

    def late(self, seen: np.ndarray) -> np.ndarray:
        """Which are not over, CTA by warp, where CTAs have seen so much of warps."""
        return np.asarray((self.when > seen) & (self.number > self.over))


class Lifetimes:
    """The last time that each warp of a cluster touched each other CTA, its shared memory or an mbarrier there; asked
    when all have ended.
    """

    def __init__(self, x: Wave, clocks: VectorClocks) -> None:
        self.x, self.clocks, self.per_cta = x, clocks, x.stride // WARP
        self.is_needed = x.launch.cluster_size > 1
        self._met: dict[int, np.ndarray] = {}
        if self.is_needed:
            shape = (len(x.ctas), x.total // WARP)
            self.when, self.line = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
            # Those of tcgen05.commit release nothing, and are executed one after the other (PTX ISA 9.1 §9.7.16.6).
            # Those of threads may release less than a CTA of the cluster acquires, by their scope or as .relaxed.
            self.commits, self.arrivals = _Arrivals(shape), _Arrivals(shape)
            self._has_waited = np.zeros(len(x.ctas), bool)  # at a barrier of the cluster: all its CTAs have begun

    def touch(self, i: Instruction, ctas: Any, warps: np.ndarray) -> None:
        """Warps touch CTAs (their index, one for all or one each)."""
        if self.is_needed and not self._is_own(ctas, warps):
            if type(ctas) is int and len(warps) == 1 and self._has_waited.all() and self._is_there(ctas):
                at: Any = ctas, warps[0]
            else:
                at = self._others(i, ctas, warps)
            self.when[at], self.line[at] = self.clocks.clock[at[1]], i.site

    def _is_own(self, ctas: Any, warps: np.ndarray) -> bool:
        """Are these warps (in ascending order) of the one CTA that they touch?"""
        return type(ctas) is int and len(warps) > 0 and warps[0] // self.per_cta == ctas == warps[-1] // self.per_cta

    def _others(self, i: Instruction, ctas: Any, warps: np.ndarray, *, is_there: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """The other CTAs that warps access, and those warps. X008 if the CTA has not begun yet, or (`is_there`) may
        have ended.
        """
        ctas = np.broadcast_to(ctas, warps.shape)
        other = ctas != warps // self.per_cta
        at = ctas[other], warps[other]
        if other.any():
            if not self._has_waited.all():
                self._has_begun(i, *at)
            if is_there:
                self._is_gone(i, *at)
        return at

    def arrives(self, i: Instruction, what: Any, cta: int, warps: np.ndarray, *, is_commit: bool, releases: bool) -> None:
        """Warps arrive at `what`, an mbarrier of a CTA (its index), by threads or by tcgen05.commit; do they release
        to the cluster?
        """
        if not self.is_needed:
            return
        kind = self.commits if is_commit else self.arrivals
        number = kind.note(what, warps, self.clocks.clock[warps] * releases)
        at = self._others(i, cta, warps, is_there=not is_commit)
        kind.when[at], kind.line[at], kind.number[at] = self.clocks.clock[at[1]], i.site, number

    def complete(self, what: Any) -> None:
        """The open phase of an mbarrier is complete."""
        if self.is_needed:
            self.commits.complete(what)
            self.arrivals.complete(what)

    def acquire(self, what: Any, warps: np.ndarray) -> None:
        """Warps have waited for the last complete phase of an mbarrier."""
        if self.is_needed:
            ctas = distinct(warps // self.per_cta)
            self.commits.acquire(what, ctas)
            self.arrivals.acquire(what, ctas)

    def has_begun(self, cta: int, warp: int) -> bool:
        """Does a warp know that another CTA of its cluster has begun?"""
        begin = cta * self.per_cta
        return bool(self._has_waited[warp // self.per_cta] or self.clocks.seen[warp, begin : begin + self.per_cta].any())

    def _has_begun(self, i: Instruction, ctas: np.ndarray, warps: np.ndarray) -> None:
        """X008 where warps touch CTAs that may not have begun: nothing that these did is known to them."""
        seen = self.clocks.seen[warps].reshape(len(warps), -1, self.per_cta).max(axis=2)
        early = ~self._has_waited[warps // self.per_cta] & (seen[np.arange(len(warps)), ctas] == 0)
        if early.any():
            x, first = self.x, int(np.argmax(early))
            said = races.before_cta(Access("access", warp_name(x, int(warps[first])), i), x.ctas[int(ctas[first])].number)
            x.launch.find(
                said.code, i, said.what, "barrier.cluster.arrive and barrier.cluster.wait by all CTAs after mbarrier.init, before the first access", because="PTX ISA 9.1 §5.1.6",
                halves=said.halves, why=said.why,
            )  # fmt: skip

    def _is_there(self, cta: int) -> bool:
        """Has a CTA threads that have not exited?"""
        return bool((self.x.pc[cta * self.x.stride : (cta + 1) * self.x.stride] < EXITED).any())

    def _is_gone(self, i: Instruction, ctas: np.ndarray, warps: np.ndarray) -> None:
        """X008 where warps touch a CTA all of whose threads have exited."""
        for cta in distinct(ctas).tolist():
            if not self._is_there(cta):
                warp = int(warps[ctas == cta][0])
                self._say_gone(i, cta, warp, has_ended=True)

    def _say_gone(self, i: Instruction, cta: int, warp: int, *, has_ended: bool) -> None:
        said = races.after_cta(Access("access", warp_name(self.x, warp), i), self.x.ctas[cta].number, has_ended=has_ended)
        self.x.launch.find(
            said.code, i, said.what, "barrier.cluster.arrive and barrier.cluster.wait by all CTAs before the kernel ends",
            because="PTX ISA 9.1 §5.1.6", halves=said.halves, why=said.why,
        )  # fmt: skip

    def met(self, first: int, count: int) -> None:
        """The warps of a cluster, `count` from `first` on, have arrived at its barrier. Relaxed or not, their earlier
        actions are over for warps that wait there.
        """
        self._met[first] = self.clocks.clock[first : first + count].copy()

    def waited(self, first: int, threads: np.ndarray) -> None:
        """Threads of the cluster whose first warp is `first` have waited at its barrier."""
        clocks = self._met.get(first)
        if clocks is None or not self.is_needed:
            return
        for cta in distinct(threads // WARP // self.per_cta).tolist():
            self._has_waited[cta] = True
            for when in (self.when, self.commits.when, self.arrivals.when):
                row = when[cta, first : first + len(clocks)]
                row[row <= clocks] = 0

    def ended(self) -> None:
        """All CTAs have ended: X008 where one could have ended before another was done with it."""
        if not self.is_needed:
            return
        x = self.x
        lines = x.program.sites
        seen = self.clocks.seen.reshape(len(x.ctas), self.per_cta, -1).max(1)
        kinds = (
            (self.when > np.maximum(seen, self.arrivals.released), self.line),
            *((kind.late(seen), kind.line) for kind in (self.commits, self.arrivals)),
        )
        open_ones = [(*at, int(line[tuple(at)])) for late, line in kinds for at in np.argwhere(late).tolist()]
        for cta, warp, line in open_ones:
            i = lines.get(line)
            if i is not None:
                self._say_gone(i, cta, warp, has_ended=False)


def _is_multicast(op: Operation) -> bool:
    """Does a copy go to several CTAs? A wait in one CTA does not show that it has arrived in another: each has its own
    mbarrier for that.
    """
    return "multicast::cluster" in op.instruction.modifiers


def _is_to_another(op: Operation) -> bool:
    """Does a copy go from the shared memory of a CTA to that of a CTA of the cluster? Its mbarrier is there, too."""
    return op.instruction.op == "cp" and {"shared::cluster", "shared::cta"} <= {*op.instruction.modifiers}


class Endings:
    """Bulk copies and requests for other clusters for which no thread has waited when their CTA ends. The shared memory
    goes to the next CTA, and they still read or write it.
    """

    def __init__(self, x: Wave, clocks: VectorClocks, operations: Operations, groups: CommitGroups) -> None:
        self.x, self.clocks, self.operations, self.groups = x, clocks, operations, groups

    def are_over(self, cta: Cta) -> bool:
        """Has a thread waited for all operations of the only CTA here?"""
        if any(not self._is_known(self.clocks.read_done, op.number, 0, 1) for op in self.groups.of_kind("bulk")):
            return False
        return all(
            self._has_come(*own, 0, 1, barrier) for barrier in mbarriers(cta).values() for own in self.operations.completing_on(barrier)
        )

    def ended(self) -> None:
        """All CTAs have ended: X005 for each line whose copies may still be in flight, unless a missing wait is
        reported already.
        """
        if not self.operations.operations or any(code in ("T210", "X004", "X005") for code, *_ in self.x.launch.result.findings):
            return
        per_cta = self.x.stride // WARP
        for op in self.groups.of_kind("bulk"):
            first = int(op.warps[0]) // per_cta
            if not self._is_known(self.clocks.read_done, op.number, first, 1):
                self._tell(
                    op,
                    first,
                    "read",
                    "cp.async.bulk.commit_group, and cp.async.bulk.wait_group.read 0 by the thread that issued it, before it exits",
                )
        count = self.x.launch.cluster_size
        for cta in self.x.ctas.made:
            for barrier in mbarriers(cta).values():
                for op, number in self.operations.completing_on(barrier):
                    if not self._has_come(op, number, cta.index - cta.rank, count, barrier):
                        self._tell(
                            op,
                            cta.index,
                            "write",
                            "wait for the phase of its mbarrier (mbarrier.try_wait) before the CTA ends, or do not issue it",
                        )
                    elif (
                        op.has_written
                        and _is_to_another(op)
                        and not self._is_known(self.clocks.done, number, int(op.warps[0]) // per_cta, 1)
                    ):
                        self._tell(
                            op,
                            int(op.warps[0]) // per_cta,
                            "read",
                            "barrier.cluster.arrive and barrier.cluster.wait after the other CTA has waited for the copy, before this CTA exits",
                        )

    def _has_come(self, op: Operation, number: int, first: int, count: int, barrier: Mbarrier) -> bool:
        """Does some warp of these CTAs know that nothing comes any more by an operation that completes
        on an mbarrier?
        """
        if not op.has_written or not facts_of(op.kind).is_load:
            return True
        return self._is_known(self.clocks.done, number, first, count) and (bool(barrier.state.passed.seen) or not _is_multicast(op))

    def _is_known(self, done: np.ndarray, number: int, first: int, count: int) -> bool:
        """Does some warp of these CTAs know that an operation is over?"""
        per_cta = self.x.stride // WARP
        return bool(done[first * per_cta : (first + count) * per_cta, self.clocks.column(number)].any())

    def _tell(self, op: Operation, cta: int, does: str, repair: str) -> None:
        milder = (
            Severity.NOTE if does == "read" else None
        )  # CUTLASS 7107b05 sm100_epilogue_tma_warpspecialized.hpp and DeepGEMM 54e2261 end so, and are right
        said = races.copy_after_cta(Access(does, "a copy", op.instruction), self.x.ctas[cta].number)
        self.x.launch.find(
            said.code,
            op.instruction,
            said.what,
            repair,
            because="PTX ISA 9.1 §5.1.6, 9.7.9.25.3",
            milder=milder,
            halves=said.halves,
            why=said.why,
        )
