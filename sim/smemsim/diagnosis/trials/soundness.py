"""Does a change that makes findings vanish really order the accesses, or does it only hide the fault?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.diagnosis.trials.candidates import Candidate
from smemsim.run.events import Observer
from smemsim.run.isa.barriers.cta import have_parted_at
from smemsim.run.warps import WARP

__all__ = ["Soundness", "observer_of"]


def observer_of(candidate: Candidate) -> Soundness | None:
    """The observer of a trial; None for a change that needs none."""
    if any("warp" in i.modifiers for i in candidate.barriers):
        return WarpSoundness(candidate)
    return Soundness(candidate) if candidate.barriers or candidate.parities else None


class Soundness(Observer):
    """Observes the new barriers and the changed parities of a trial.

    A barrier of all threads must not be in a branch that some threads do not take. The others would arrive at it by
    another instruction, or exit, and later barriers would be one phase apart.

    A wait for the right parity finds another phase complete each time. If it finds one phase complete twice, or always
    passes before any phase is complete, it does not wait.
    """

    def __init__(self, candidate: Candidate) -> None:
        # a barrier with a number of threads is for some of them
        self._barriers = {i.site for i in candidate.barriers if len(i.operands) == 1 and "warp" not in i.modifiers}
        self._waits = {i.site for i in candidate.parities}
        self._is_apart = self._has_waited = self._waits_twice = False
        # by mbarrier and first thread of a warp: the phases that were complete
        self._passed: dict[tuple[Any, int], int] = {}

    @property
    def is_sound(self) -> bool:
        """Has the change ordered what it should?"""
        return not self._is_apart and not self._waits_twice and (self._has_waited or not self._waits)

    def barrier_met(self, x: Any, i: Instruction, number: int, ctas: np.ndarray, threads: np.ndarray, count: int | None) -> None:
        """All threads of a CTA must have arrived, none may have exited."""
        self._is_apart |= i.site in self._barriers and len(threads) < len(ctas) * x.launch.threads

    def barrier_arrived(
        self, x: Any, i: Instruction, barrier: Any, threads: np.ndarray, *, waits: bool = True, is_relaxed: bool = False
    ) -> None:
        """Lanes of a warp have arrived apart from the others."""
        self._is_apart |= i.site in self._barriers

    def wave_ended(self, x: Any) -> None:
        """Did warps arrive in one phase by the new barrier, and others by another one?"""
        self._is_apart |= any(have_parted_at(x, site) for site in self._barriers)

    def mbarriers_passed(self, x: Any, i: Instruction, waits: Any, *, relaxed: bool, scope: int, by_parity: bool, is_seen: bool) -> None:
        """Note which phase each warp has found complete."""
        if i.site not in self._waits:
            return
        for threads, barrier in waits:
            phase = barrier.state.phase
            self._has_waited |= phase > 0
            for first in threads[np.unique(threads >> 5, return_index=True)[1]].tolist():
                self._waits_twice |= self._passed.get((barrier, first), -1) >= phase
                self._passed[barrier, first] = phase


class WarpSoundness(Soundness):
    """Observes a new bar.warp.sync with all lanes in its mask: all lanes of the warp must execute it."""

    def __init__(self, candidate: Candidate) -> None:
        super().__init__(candidate)
        self._of_warps = {i.site for i in candidate.barriers if "warp" in i.modifiers}

    def executes(self, x: Any, instructions: Sequence[Instruction]) -> None:
        """Lanes execute the new barrier together."""
        if any(i.site in self._of_warps for i in instructions):
            warps, lanes = np.unique(x.threads >> 5, return_counts=True)
            left = x.launch.threads - warps % (x.stride // WARP) * WARP  # the last warp of a CTA may have fewer lanes
            self._is_apart |= bool((lanes < np.minimum(left, WARP)).any())
