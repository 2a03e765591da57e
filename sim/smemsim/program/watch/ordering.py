"""What orders accesses: groups that are committed and waited for, barriers, fences, and who has seen mbarrier.init."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.program.watch.clocks import Groups, Operation
from smemsim.program.watch.registers import Registers
from smemsim.program.wave import EXITED, WARP
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.program.wave import Wave

__all__ = ["Ordering"]


MOST_COPIES = 16  # that complete on an mbarrier and are remembered with it


class Ordering(Registers):
    """The part of the watch that hears of synchronisation."""

    def completes_on(self, op: Operation, barrier: Any) -> None:
        """Its completion is counted by the current phase of an mbarrier (the Mbarrier object), which those who issue it have to know."""
        self.uses(op.instruction, barrier, op.warps * WARP)
        self.order.brings(op, op.warps, barrier)
        barrier.copies = [op, *(other for other in barrier.copies if self._remembers(other))][:MOST_COPIES]

    def _remembers(self, op: Operation) -> bool:
        return op.number < len(self.operations) and self.operations[op.number] is op

    def not_waited_for(self, ops: list[Operation], threads: np.ndarray) -> Operation | None:
        """One of these operations that not all of these threads know to be complete."""
        warps = np.unique(threads >> 5)
        return next((op for op in ops if self._remembers(op) and not self.order.done[warps, op.number].all()), None)

    def joins(self, op: Operation, thread: int, group: str) -> None:
        """It belongs to the next group its thread commits: "bulk" "cp.async" "wgmma" "tcgen05"."""
        for warp in op.warps.tolist():
            self._groups.setdefault((warp, group), Groups()).open.append(op)

    def commit(self, x: Wave, i: Instruction, group: str, barrier: Any = None) -> None:
        """The running threads commit their open group; tcgen05.commit and cp.async.mbarrier.arrive name the mbarrier that counts it."""
        for warp in self._running(x).tolist():
            if group == "cp.async":
                self._copies.pop(warp, None)
            groups = self._groups.setdefault((warp, group), Groups())
            if barrier is not None:
                for operation in groups.open:
                    self.order.brings(operation, np.array([warp]), barrier)
            else:
                groups.pending.append(groups.open)
            groups.open = []

    def wait(self, x: Wave, i: Instruction, group: str, left: int, *, only_read: bool = False) -> None:
        """The running threads wait until at most `left` of their groups are pending; `only_read`: for what they read (`.read`)."""
        for warp in self._running(x).tolist():
            groups = self._groups.setdefault((warp, group), Groups())
            count = max(0, len(groups.pending) - left)
            over = [op for done in groups.pending[:count] for op in done]
            if over:
                self.order.knows(np.array([warp]), over, only_read=only_read)
            if not only_read:
                del groups.pending[:count]
            if group == "wgmma" and over:
                self._registers_free(warp, over)

    def release(self, x: Wave, threads: np.ndarray, what: Any, *, relaxed: bool = False) -> None:
        """Threads arrive at something (a barrier object): what they have seen, or had at their last fence, goes into its current phase."""
        self.order.release(np.unique(threads >> 5), what, relaxed=relaxed)

    def release_relaxed(self, x: Wave, i: Instruction, threads: np.ndarray, what: Any) -> None:
        """Threads arrive at a barrier of the cluster by barrier.cluster.arrive.relaxed: what rests on that alone is told milder."""
        self.order.release_if(np.unique(threads >> 5), what)
        self.relaxed = i

    def stored(self, threads: np.ndarray, what: Any, *, relaxed: bool, replaces: bool) -> None:
        """Threads write at an address by operations that others may synchronise with; `replaces` says that it was no atomic."""
        self.order.stored(np.unique(threads >> 5), what, relaxed=relaxed, replaces=replaces)

    def left(self, x: Wave, threads: slice, what: Any) -> None:
        """Those of the threads whose whole warp has exited count as arrived, and release (rule order.exit)."""
        gone = np.flatnonzero((x.key[threads] >= EXITED).reshape(-1, WARP).all(axis=1)) + threads.start // WARP
        if gone.size:
            self.order.left(gone, what)

    def complete(self, what: Any) -> None:
        """A phase is complete: those who acquire from now on see what was released into it."""
        self.order.complete(what)

    def acquire(self, x: Wave, threads: np.ndarray, what: Any, *, relaxed: bool = False, meets: bool = False) -> None:
        """Threads have seen the last complete phase; where that was relaxed it counts from their next fence on, or until they meet others."""
        warps = np.unique(threads >> 5)
        self.order.acquire(warps, what, relaxed=relaxed)
        if meets:
            self.order.fence(warps, acquires=True, releases=False)

    def waited(self, threads: np.ndarray, barrier: Any, i: Instruction) -> None:
        """Threads have found a phase of an mbarrier over (the Mbarrier object): what it brought is what they expect to read."""
        for warp in np.unique(threads >> 5).tolist():
            self.last_waits[warp] = barrier, i.line, barrier.last

    def meet(self, x: Wave, ctas: np.ndarray, *, is_for_all: bool) -> None:
        """The running threads of these CTAs (by their index) meet at a barrier: release, complete and acquire in one.

        Where it is for all threads, those that have exited count as arrived.
        """
        per_cta = x.stride // WARP
        here = np.zeros(x.total // WARP, bool)
        here[x.threads >> 5] = True
        warps = ctas[:, None] * per_cta + np.arange(per_cta)
        gone = np.asarray((x.key >= EXITED).reshape(-1, WARP).all(axis=1)) & is_for_all
        self.order.fence(warps[here[warps]], acquires=True, releases=False)
        self.order.meet(warps, here[warps], gone[warps])

    def fence_async(self, x: Wave, i: Instruction) -> None:
        """fence.proxy.async: what the running threads have seen is visible to asynchronous operations ordered behind it."""
        self.order.fence_proxy(self._running(x))

    def fence(self, x: Wave, *, acquires: bool, releases: bool) -> None:
        """A memory fence of the running threads, with which their relaxed accesses order."""
        self.order.fence(self._running(x), acquires=acquires, releases=releases)

    # ---- mbarriers

    def makes(self, i: Instruction, barrier: Any, thread: int) -> None:
        """A thread executes mbarrier.init."""
        warp = thread // WARP
        self._made[barrier] = (warp, int(self.order.clock[warp]), i, {warp})

    def publish(self, x: Wave) -> None:
        """fence.mbarrier_init of the running threads: who meets them at a barrier of the cluster, relaxed or not, has seen their mbarrier.init."""
        warps = set(self._running(x).tolist())
        self._published |= {barrier for barrier, made in self._made.items() if made[0] in warps}

    def met(self, first: int, count: int) -> None:
        """The warps of a cluster, `count` from `first` on, have met at its barrier."""
        warps = set(range(first, first + count))
        for barrier in [b for b in self._published if self._made[b][0] in warps]:
            self._made[barrier][3].update(warps)
            self._published.discard(barrier)

    def uses(self, i: Instruction, barrier: Any, threads: np.ndarray) -> None:
        """Threads arrive or wait at an mbarrier: has each seen mbarrier.init?"""
        if barrier not in self._made:
            return
        maker, when, made, known = self._made[barrier]
        warps = set(np.unique(threads >> 5).tolist()) - known
        for warp in sorted(warps):
            if self.order.seen[warp, maker] >= when:
                known.add(warp)
            else:
                might_be = self.order.might_be
                self.tell(
                    "X008", i, f"{i.name} of warp {self._warp(warp)} uses the mbarrier at {barrier.offset:#x}, which warp {self._warp(maker)} "
                    f"initialises at line {made.line}: nothing orders the two",
                    "after mbarrier.init: fence.mbarrier_init, then bar.sync (barrier.cluster in clusters), before others use it",
                    "PTX ISA 9.7.13.15.9", formal=might_be is not None and bool(might_be.seen[warp, maker] >= when),
                )  # fmt: skip
