"""Arrivals of one instruction at mbarriers of several CTAs of a cluster (rule order.sibling_arrivals).

DeepGEMM's consumers free a stage of a multicast pipeline like this: each lane of a warp arrives at the mbarrier of
another CTA. A warp that knows that a phase of one of these mbarriers is complete knows that the arriving instructions
have been executed, also by their other lanes. By the PTX ISA lanes are threads, and nothing orders the arrivals of
two.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.views import Mbarrier, mbarriers
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["SiblingArrivals"]


KEPT = 3  # phases of an mbarrier
_Execution: TypeAlias = tuple[int, int, int]  # of an instruction: the wave's count of blocks, the line, the warp


class SiblingArrivals:
    """By mbarrier and phase which executions of instructions have arrived, and how often."""

    def __init__(self, x: Wave, clocks: VectorClocks) -> None:
        self.x, self.clocks = x, clocks
        self._arrived: dict[Mbarrier, dict[int, collections.Counter[_Execution]]] = {}

    def note(self, i: Instruction, arrivals: Sequence[tuple[np.ndarray, Mbarrier]], count: int) -> None:
        """Threads are about to arrive at mbarriers, `count` times each."""
        for threads, barrier in arrivals:
            phase, phases = barrier.state.phase, self._arrived.setdefault(barrier, {})
            if phase not in phases:
                phases[phase] = collections.Counter()
                phases.pop(phase - KEPT, None)
            for warp, lanes in collections.Counter((threads // WARP).tolist()).items():
                phases[phase][self.x.steps, i.site, warp] += count * lanes

    def are_known(self, warp: int, barrier: Mbarrier) -> bool:
        """Has each instruction that arrived in the previous phase of an mbarrier arrived, by another lane, in a phase
        of another CTA's mbarrier that a warp knows to be complete?
        """
        last = self._arrived.get(barrier, {}).get(barrier.state.phase - 1, collections.Counter())
        if last.total() < barrier.state.expected:
            return False
        first = barrier.cta.index - barrier.cta.rank
        others = (mbarriers(self.x.ctas[first + rank]).get(barrier.offset) for rank in range(self.x.launch.cluster_size))
        return any(other is not None and other is not barrier and last.keys() <= self._over(warp, other) for other in others)

    def _over(self, warp: int, barrier: Mbarrier) -> set[_Execution]:
        """The arrivals in phases of an mbarrier of which a warp knows that they are over."""
        phases = self._arrived.get(barrier, {})
        known = (phase for phase in phases if self.clocks.know_phase(np.array([warp]), barrier, phase)[0])
        return {execution for phase in known for execution in phases[phase]}
