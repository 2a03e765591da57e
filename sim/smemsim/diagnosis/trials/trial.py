"""Executes the fixes of a launch's findings: the PTX with the change, and the same inputs.

A fix helps if the finding is gone, no other came, and the change does not only hide the fault (`soundness.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from smemsim.base.errors import SmemsimError
from smemsim.core.finding import Finding
from smemsim.core.ptx.edits import Edit, edited
from smemsim.core.ptx.module import Module
from smemsim.core.spec.findings import Severity
from smemsim.diagnosis.run import Run
from smemsim.diagnosis.trials.candidates import Candidate, candidates_of
from smemsim.diagnosis.trials.outcome import Outcome, Outcomes, key_of, keys_of
from smemsim.diagnosis.trials.soundness import observer_of
from smemsim.run.engine.records import Bulk, Load
from smemsim.run.events import Observer

__all__ = ["MOST_SECONDS", "try_fixes"]

MOST_FINDINGS = 4  # of a launch whose fixes are tried
MOST_RUNS = 24  # of a launch
MOST_SECONDS = 10.0  # of all trials of a launch
LEAST_SECONDS = 0.1  # that a trial has
GRAVE = (Severity.TRAP, Severity.WRONG)
_Came: TypeAlias = dict[tuple[str, int], Severity]  # findings by code and line
_Again: TypeAlias = Callable[[Module, float, tuple[Observer, ...]], Run]


def try_fixes(run: Run, module: Module, again: _Again, seconds: float = MOST_SECONDS) -> Outcomes:
    """The results of the fixes of a run's findings, by the finding.

    The function `again` executes a changed module with the inputs of the run, with observers, for at most so many
    seconds. A finding that follows from another one is not tried.
    """
    trials = _Trials(run, module, again, seconds)
    found = [f for f in run.findings if f.severity in GRAVE and f.cause is None and not f.tried]
    outcomes: Outcomes = {}
    removed: frozenset[tuple[str, int]] = frozenset()
    for f in found[:MOST_FINDINGS]:
        if not keys_of(f) <= removed and (outcome := trials.of(f)) is not None:
            outcomes[key_of(f)] = outcome
            removed |= outcome.removes
    return outcomes


def _mbarriers(run: Run) -> dict[int, str]:
    """The mbarriers on which the loads of the first CTA complete, in the order of their
    use: by address, their names.
    """
    events = [event for event in run.launch.result.events.transfers() if isinstance(event, Load | Bulk)]
    first = min((event.cta for event in events), default=0)
    own = [event for event in events if event.cta == first]
    addresses = [
        *(d.mbar.smem_address for event in own if isinstance(event, Load) for d in event.deliveries),
        *(t.mbar.smem_address for event in own if isinstance(event, Bulk) for t in event.transfers if t.mbar is not None),
    ]
    return {address: run.launch.program.places.mbarrier_named(address) for address in addresses}


class _Trials:
    """The trials of one run; a change is executed once."""

    def __init__(self, run: Run, module: Module, again: _Again, seconds: float) -> None:
        self.module, self.again, self.mbarriers = module, again, _mbarriers(run)
        self.end, self.left = time.monotonic() + seconds, MOST_RUNS
        self.before = {key for f in run.findings if f.severity in GRAVE for key in keys_of(f)}
        self.done: dict[tuple[Edit, ...], _Came | None] = {}  # by the change: other ones may have the same words

    def of(self, f: Finding) -> Outcome | None:
        """The results of changes that may fix a finding; None if nothing is known."""
        failed, has_gone = None, False
        for candidate in candidates_of(f, self.module, self.mbarriers):
            if candidate.edits not in self.done:
                if not self.left or time.monotonic() > self.end:
                    return None  # a change that was not tried may help
                self.left -= 1
                self.done[candidate.edits] = self._executed(candidate)
            came = self.done[candidate.edits]
            stays = came is not None and any(key in came for key in keys_of(f))
            if came is not None and not stays and self._is_better(came):
                return Outcome(candidate.fix, is_beside=candidate.is_beside, removes=frozenset(self.before - came.keys()))
            has_gone |= not stays  # it may help, and something else comes to light
            failed = failed or (candidate.text if candidate.is_all else None)
        return Outcome(failed, works=False) if failed and not has_gone else None

    def _executed(self, candidate: Candidate) -> _Came | None:
        """The findings of a run with a change; None if it did not come to its end, cannot be executed, or
        only hides the fault.
        """
        observer = observer_of(candidate)
        try:
            changed, seconds = edited(self.module, candidate.edits), max(self.end - time.monotonic(), LEAST_SECONDS)
            run = self.again(changed, seconds, () if observer is None else (observer,))
        except SmemsimError:
            return None
        if run.interrupted:
            self.left = 0
        if run.interrupted or run.out_of_time or not (observer is None or observer.is_sound):
            return None
        return {key: f.severity for f in run.findings if f.severity in GRAVE for key in keys_of(f)}

    def _is_better(self, came: _Came) -> bool:
        """Is no finding new, and does the kernel come to its end?"""
        return came.keys() <= self.before and Severity.TRAP not in came.values()
