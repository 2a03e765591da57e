"""barrier.cluster: all threads of a cluster that have not exited (PTX ISA 9.7.13.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.gpu.barriers.parted import check_aligned, check_parted, note_parted
from smemsim.gpu.registry import ON_EXIT, End, Step, unmodelled
from smemsim.gpu.traps import misuse, thread_name
from smemsim.gpu.wave import EXITED, WARP, Wait
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Wave

__all__ = ["ClusterBarrier", "build_cluster"]


class ClusterBarrier:
    """A cluster's barrier. A thread that has arrived in the current phase has `arrived` set; `idle` ones have not arrived since they waited."""

    def __init__(self, x: Wave, cluster: int) -> None:
        self.cluster = cluster
        size = x.launch.cluster_size * x.stride
        self.first = cluster * size
        self.own = slice(self.first, self.first + size)
        self.arrived, self.idle = np.zeros(size, bool), np.ones(size, bool)
        self.line = np.zeros(size, np.int32)  # of the instruction that each thread arrived with
        self.aligned = np.zeros(size, bool)  # did it arrive by an instruction of its whole warp?
        self.waits: list[Wait] = []

    @property
    def key(self) -> tuple[str, int]:
        """What the watch knows it by."""
        return "barrier.cluster", self.cluster

    def settle(self, x: Wave) -> None:
        """If all have arrived, the next phase begins."""
        if not self.arrived.any() or not (self.arrived | (x.key[self.own] >= EXITED)).all():
            return
        lines = np.where(self.arrived, self.line, 0)
        check_aligned(x, x.program.blocks[x.at].instructions[-1], "barrier.cluster", self.first, lines, self.aligned)
        note_parted(x, self.key, "barrier.cluster", self.first, lines)
        self.arrived[:] = False
        x.changes += 1
        if x.watch is not None:
            x.watch.left(x, self.own, self.key)
            x.watch.complete(self.key)
            x.watch.met(self.first // WARP, len(self.arrived) // WARP)
            x.watch.lifetimes.met(self.first // WARP, len(self.arrived) // WARP)
        waits, self.waits = self.waits, []
        for wait in waits:
            self.idle[wait.threads - self.first] = True
            if x.watch is not None:
                x.watch.acquire(x, wait.threads, self.key, meets=True)
                x.watch.lifetimes.waited(self.first // WARP, wait.threads)
            x.wake(wait)

    def describe(self, x: Wave) -> str:
        """How many have come and how many have not, for a report of a hang."""
        return f"barrier.cluster: {int(self.arrived.sum())} threads have arrived, {len(self.missing(x))} have not"

    def missing(self, x: Wave) -> np.ndarray:
        """Threads of the wave that have not arrived."""
        return self.first + np.flatnonzero(~self.arrived & (x.key[self.own] < EXITED))


def _barriers(x: Wave) -> list[ClusterBarrier]:
    found: list[ClusterBarrier] | None = x.state.get("cluster barriers")
    if found is None:
        found = x.state["cluster barriers"] = [ClusterBarrier(x, n) for n in range(len(x.ctas) // x.launch.cluster_size)]
    return found


def _by_cluster(x: Wave) -> list[tuple[ClusterBarrier, np.ndarray]]:
    """The clusters of the running threads, with their threads' numbers within."""
    threads, barriers = x.threads, _barriers(x)
    size = x.launch.cluster_size * x.stride
    cuts = np.searchsorted(threads, np.arange(len(barriers) + 1) * size)
    return [(b, threads[lo:hi] - b.first) for b, lo, hi in zip(barriers, cuts, cuts[1:], strict=False) if lo < hi]


def build_cluster(i: Instruction, c: Linker) -> Step:
    """`barrier.cluster.arrive` and `.wait`, .aligned or not."""
    rest = [m for m in i.modifiers[1:] if m != "aligned"]
    if rest[:1] == ["arrive"] and rest[1:] in ([], ["release"], ["relaxed"]):
        return lambda x: _arrive(x, i, relaxed="relaxed" in rest)
    if rest[:1] == ["wait"] and rest[1:] in ([], ["acquire"]):
        return End(lambda x, following: _wait(x, i, following))
    raise unmodelled(i)


def _arrive(x: Wave, i: Instruction, *, relaxed: bool) -> None:
    check_parted(x, i, lambda key: key[0] == "barrier.cluster")
    for barrier, own in _by_cluster(x):
        if not barrier.idle[own].all():
            thread = int(own[int(np.flatnonzero(~barrier.idle[own])[0])]) + barrier.first
            misuse(x, i, f"{thread_name(x, thread)} arrives twice without barrier.cluster.wait between", "wait before arriving again")
        barrier.arrived[own], barrier.idle[own] = True, False
        barrier.line[own], barrier.aligned[own] = i.line, "aligned" in i.modifiers
        if x.watch is not None and relaxed:
            x.watch.release_relaxed(x, i, own + barrier.first, barrier.key)
        elif x.watch is not None:
            x.watch.release(x, own + barrier.first, barrier.key)
        x.changes += 1
        barrier.settle(x)


def _wait(x: Wave, i: Instruction, following: int) -> None:
    x.key[x.sel] = following
    for barrier, own in _by_cluster(x):
        if barrier.idle[own].any():
            thread = int(own[int(np.flatnonzero(barrier.idle[own])[0])]) + barrier.first
            misuse(x, i, f"{thread_name(x, thread)} waits without having arrived", "barrier.cluster.arrive first")
        late = barrier.arrived[own]
        done = own[~late]
        barrier.idle[done] = True
        if done.size and x.watch is not None:
            x.watch.acquire(x, done + barrier.first, barrier.key, meets=True)
            x.watch.lifetimes.waited(barrier.first // WARP, done + barrier.first)
        if late.any():
            wait = x.park(own[late] + barrier.first, following, i, lambda b=barrier: b.describe(x))  # type: ignore[misc]
            wait.missing = lambda b=barrier: b.missing(x)
            barrier.waits.append(wait)


def _exited(x: Wave, threads: np.ndarray) -> None:
    if "cluster barriers" in x.state:
        for barrier in _barriers(x):
            barrier.settle(x)


ON_EXIT.append(_exited)
