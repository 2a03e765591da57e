"""Rules about mbarriers: initialised before they are used, not ended too early, phases in their order,
bytes expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.expected import ExpectedBytes
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.mbarriers import MbarrierObjects
from smemsim.run.sanitizer.named_barriers import NamedPhases
from smemsim.run.sanitizer.operations import Operations
from smemsim.run.sanitizer.phases import Alike, count_of
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.sanitizer.siblings import SiblingArrivals
from smemsim.run.sanitizer.synchronisation import Initialised
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.views import Mbarrier, mbarriers
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.views import Cta, Wave

__all__ = ["MbarrierRules"]


_Early: TypeAlias = tuple[Instruction, int, Mbarrier, int]

# the fixes for a use that does not know mbarrier.init: of a new mbarrier, and of one that was there before
ONCE = "after mbarrier.init: fence.mbarrier_init, then bar.sync (barrier.cluster in clusters), before others use it"
AGAIN = "let {at} execute once, before others use the mbarrier; or initialise another mbarrier there"


class MbarrierRules:
    """`objects` are the mbarriers of a wave, `initialised` which warps have seen mbarrier.init; `expected` are bytes,
    `siblings` arrivals of one instruction at several mbarriers.
    """

    def __init__(self, x: Wave, clocks: VectorClocks, operations: Operations, reporting: Reporting, named: NamedPhases) -> None:
        self.x, self.clocks, self.reporting = x, clocks, reporting
        self.objects = MbarrierObjects(x, clocks, operations, reporting, named)
        self.initialised, self.expected, self.siblings = Initialised(clocks), ExpectedBytes(clocks, reporting), SiblingArrivals(x, clocks)
        # By line: the instruction, the warp, the mbarrier, and its phase before; then the same of those that rule
        # order.sibling_arrivals excuses.
        self._early: tuple[dict[int, _Early], dict[int, _Early]] = {}, {}

    def spread(self, first: MbarrierRules, twins: Twins) -> None:
        """The state of all CTAs, from the state of the first one."""
        self.initialised.spread(first.initialised, twins)
        self.objects.spread(first.objects, twins)
        self.expected.spread(first.expected, twins)
        wrong, excused = first._early
        self._early = dict(wrong), dict(excused)

    @property
    def are_needed(self) -> bool:
        """May there be something to report at the end?"""
        return any(self._early) or self.expected.is_needed

    def ended(self) -> None:
        """All threads have exited."""
        self._tell_early()
        self.expected.ended()

    def makes(self, i: Instruction, barrier: Mbarrier, thread: int) -> None:
        """mbarrier.init by a thread."""
        self.objects.makes(i, barrier, thread)
        self.initialised.makes(i, barrier, thread)

    def uses(self, i: Instruction, barrier: Mbarrier, warps: np.ndarray) -> None:
        """Warps use an mbarrier: X008 if one of them has not seen mbarrier.init."""
        for warp, maker, made, formal in self.initialised.unseen(barrier, warps):
            self.reporting.tell(
                i, races.mbarrier_not_visible(
                    self.reporting.access("use", warp, i.site), self.reporting.access("init", maker, made.site), barrier.offset
                ),
                AGAIN.format(at=made.at) if barrier.is_again else ONCE,
                "PTX ISA 9.1 §9.7.13.15.9", formal=formal,
            )  # fmt: skip
        self.objects.uses(i, barrier, warps)
        self.expected.uses(i, barrier, warps)

    def arrive(self, i: Instruction, arrivals: Sequence[tuple[np.ndarray, Mbarrier]]) -> None:
        """Warps are about to arrive at mbarriers: do they know that the phase before is over (rule
        order.mbarrier_phases)?
        """
        for warps, what in self.clocks.together([warps for warps, _ in arrivals], [barrier for _, barrier in arrivals]):
            early, formal = self.clocks.missing(lambda order, warps=warps, what=what: ~order.know_last(warps, what))  # type: ignore[misc]
            if early.any() and not formal and not self.clocks.too_early:
                n = int(np.argmax(early.reshape(count_of(what), -1).any(axis=1)))
                barrier = arrivals[n][1] if isinstance(what, Alike) else what
                wrong = [warp for warp in warps[early].tolist() if not self.siblings.are_known(warp, barrier)]
                warp = wrong[0] if wrong else int(warps[early][0])
                self._early[not wrong].setdefault(i.site, (i, warp, barrier, barrier.state.phase - 1))

    def crosses(self, i: Instruction, threads: np.ndarray, barrier: Mbarrier) -> None:
        """Threads are about to arrive together, more than the phase expects. If cp.async.mbarrier.arrive has added
        arrivals to it, the phase may be open until the copies are complete: then the last threads arrive too early.
        """
        warp = int(threads[barrier.state.pending]) // WARP
        if barrier.state.has_added and not self.siblings.are_known(warp, barrier):
            self._early[0].setdefault(i.site, (i, warp, barrier, barrier.state.phase))

    def sends(self, i: Instruction, warp: int, at: tuple[Cta, int] | None) -> None:
        """A warp sends bytes to the mbarrier at an offset of a CTA: does it know that the phase before is over?"""
        barrier = None if at is None else mbarriers(at[0]).get(at[1])
        if barrier is not None and barrier.state.phase:
            self.arrive(i, [(np.array([warp]), barrier)])

    def _tell_early(self) -> None:
        """X010 where threads may have been counted in the phase before, if nothing else is wrong that would be why."""
        if any(f.severity is not Severity.NOTE for f in self.x.launch.result.findings.values()):
            return
        wrong, excused = self._early
        for site, (i, warp, barrier, phase) in (excused | wrong).items():
            is_excused = site not in wrong
            why = "the warp has not observed the end of that phase" + (
                "; it has observed another CTA's mbarrier at which other lanes of the same instructions arrive, and no failure is known"
                if is_excused
                else ""
            )
            sends = i.op in ("st", "red")
            what = f"the bytes of {i.op}.async" if sends else "an arrival"
            wait = f"let the warp wait for phase {phase} (mbarrier.try_wait.parity); or for another mbarrier, at which a warp arrives after it has waited for phase {phase}"
            repair = f"two mbarriers in turn; or before this line, {wait}" if sends else f"before this arrival, {wait}"
            self.x.launch.find(
                "X010", i, f"{what} may count in phase {phase} of the mbarrier at {barrier.offset:#x} of CTA {barrier.cta.number}, not in the next one", repair,
                because="PTX ISA 9.1 §9.7.13.15.3", milder=Severity.NOTE if is_excused else None, why=why,
                halves=(self.reporting.access("send" if sends else "arrive", warp, i.site).half,),
            )  # fmt: skip
