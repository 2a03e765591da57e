"""Shared memory lives as long as its CTA: who of a cluster touches another CTA's does so once that has begun, and before it may end (PTX ISA 5.1.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.program.traps import warp_name
from smemsim.program.watch.clocks import Order
from smemsim.program.wave import WARP
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.program.wave import Wave

__all__ = ["Lifetimes"]


class Lifetimes:
    """The last time that each warp of a cluster touched each other CTA, its shared memory or an mbarrier there; asked when all have ended."""

    def __init__(self, x: Wave, order: Order) -> None:
        self.x, self.order, self.per_cta = x, order, x.stride // WARP
        self.is_needed = x.launch.cluster_size > 1
        shape = (len(x.ctas), x.total // WARP) if self.is_needed else (0, 0)
        self.when, self.line = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self._met: dict[int, np.ndarray] = {}
        self._has_waited = np.zeros(len(x.ctas), bool)  # at a barrier of the cluster: all its CTAs have begun

    def touch(self, i: Instruction, ctas: Any, warps: np.ndarray) -> None:
        """Warps touch CTAs (their index, one for all or one each)."""
        if not self.is_needed:
            return
        ctas = np.broadcast_to(ctas, warps.shape)
        other = ctas != warps // self.per_cta
        if other.any():
            at = ctas[other], warps[other]
            if not self._has_waited.all():
                self._has_begun(i, *at)
            self.when[at], self.line[at] = self.order.clock[warps[other]], i.line

    def _has_begun(self, i: Instruction, ctas: np.ndarray, warps: np.ndarray) -> None:
        """X008 where warps touch CTAs that may not have begun: nothing that these did is known to them."""
        seen = self.order.seen[warps].reshape(len(warps), -1, self.per_cta).max(axis=2)
        early = ~self._has_waited[warps // self.per_cta] & (seen[np.arange(len(warps)), ctas] == 0)
        if early.any():
            x, first = self.x, int(np.argmax(early))
            x.launch.find(
                "X008", i, f"{i.name} of {warp_name(x, int(warps[first]))} touches CTA {x.ctas[int(ctas[first])].number} of its cluster, which may not "
                "have begun: nothing that it did is ordered before this",
                "barrier.cluster.arrive and barrier.cluster.wait by all CTAs behind mbarrier.init, before the first access", because="PTX ISA 5.1.6",
            )  # fmt: skip

    def met(self, first: int, count: int) -> None:
        """The warps of a cluster, `count` from `first` on, have arrived at its barrier: relaxed or not, what they did before is over for who waits there."""
        self._met[first] = self.order.clock[first : first + count].copy()

    def waited(self, first: int, threads: np.ndarray) -> None:
        """Threads of the cluster whose first warp is `first` have waited at its barrier."""
        clocks = self._met.get(first)
        if clocks is None or not self.is_needed:
            return
        for cta in np.unique(threads // WARP // self.per_cta).tolist():
            self._has_waited[cta] = True
            row = self.when[cta, first : first + len(clocks)]
            row[row <= clocks] = 0

    def ended(self) -> None:
        """All CTAs have ended: X008 where one could have ended before another was done with it."""
        if not self.is_needed:
            return
        x = self.x
        lines = {i.line: i for i in x.program.inlined.body}
        seen = self.order.seen.reshape(len(x.ctas), self.per_cta, -1).max(1)
        for cta, warp in np.argwhere(self.when > seen).tolist():
            i = lines.get(int(self.line[cta, warp]))
            if i is not None:
                x.launch.find(
                    "X008", i, f"{i.name} of {warp_name(x, warp)} touches CTA {x.ctas[cta].number} of "
                    "its cluster, which may have ended by then: nothing that CTA waits for comes after it",
                    "barrier.cluster.arrive and barrier.cluster.wait by all CTAs before the kernel ends", because="PTX ISA 5.1.6",
                )  # fmt: skip
