"""Bytes that `mbarrier.expect_tx` expects without an arrival of its own (PTX ISA 9.1 §9.7.13.15.3, 9.7.13.15.11; rule
order.mbarrier_phases).

The phase waits for these bytes only if an arrival of the phase comes after the instruction: an arrival of the same
warp, or one that has seen it. If there is none, the phase may end before, and the bytes count in the next one.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.races import Clauses
from smemsim.run.sanitizer.reporting import Reporting

if TYPE_CHECKING:
    from smemsim.run.sanitizer.twins import Twins
    from smemsim.run.views import Mbarrier

__all__ = ["ExpectedBytes"]


ARRIVES = ("arrive", "arrive_drop")


@dataclasses.dataclass(frozen=True)
class _Expectation:
    """A warp's instruction, its clock then, and the phase that was open."""

    instruction: Instruction
    warp: int
    clock: int
    barrier: Mbarrier
    phase: int


class ExpectedBytes:
    """The expectations of an mbarrier that wait for an arrival: those of open phases, and those of phases that have
    ended without one.
    """

    def __init__(self, clocks: VectorClocks, reporting: Reporting) -> None:
        self.clocks, self.reporting = clocks, reporting
        self._open: list[_Expectation] = []
        self._late: dict[int, _Expectation] = {}  # by line

    @property
    def is_needed(self) -> bool:
        """Is there anything to follow, or to report?"""
        return bool(self._open or self._late)

    def spread(self, first: ExpectedBytes, twins: Twins) -> None:
        """Those of the first CTA stand for those of all: these do the same."""
        own = [(one, twins.made.get(one.barrier)) for one in first._open]
        self._open = [dataclasses.replace(one, barrier=made[0]) for one, made in own if made]
        self._late = dict(first._late)

    def uses(self, i: Instruction, barrier: Any, warps: np.ndarray) -> None:
        """Warps are about to operate on an mbarrier."""
        if self._open:
            self._look()
        word = i.modifiers[0] if i.op == "mbarrier" else ""
        if word == "expect_tx" and barrier.state.tx <= 0:  # bytes that are still expected hold the phase
            self._open += [
                _Expectation(i, warp, int(self.clocks.clock[warp]), barrier, barrier.state.phase) for warp in set(warps.tolist())
            ]
        elif self._open and (word in ARRIVES or i.op == "tcgen05" or "arrive" in i.modifiers):
            self._open = [one for one in self._open if one.barrier is not barrier or not self._is_known(one, warps)]

    def _is_known(self, one: _Expectation, warps: np.ndarray) -> bool:
        """Is a warp among these that executed the instruction, or has seen it?"""
        return bool((warps == one.warp).any()) or any(
            (order.has_seen(warps, one.warp) >= one.clock).any() for order in (self.clocks, *self.clocks.orders.might_be)
        )

    def _look(self) -> None:
        """Phases that are over, and no arrival knew of the bytes."""
        for one in self._open:
            if one.barrier.state.phase > one.phase:
                self._late.setdefault(one.instruction.site, one)
        self._open = [one for one in self._open if one.barrier.state.phase <= one.phase]

    def ended(self) -> None:
        """X010 of what may count in the phase after: all threads have exited."""
        self._look()
        for one in self._late.values():
            what = f"expect_tx may count in phase {one.phase + 1} of the mbarrier at {one.barrier.offset:#x} of CTA {one.barrier.cta.number}, not in phase {one.phase}"
            why = f"no arrival of phase {one.phase} comes after it, so the phase may end first"
            self.reporting.tell(
                one.instruction, Clauses("X010", what, (self.reporting.access("expect", one.warp, one.instruction.site).half,), why), "mbarrier.arrive.expect_tx in this thread (count the arrival in mbarrier.init), or a barrier between this line and the arrivals",
                "PTX ISA 9.1 §9.7.13.15.3, 9.7.13.15.11", one.barrier.touched,
            )  # fmt: skip
