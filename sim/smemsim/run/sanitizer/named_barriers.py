"""Barriers of some warps of a CTA (bar.sync and bar.arrive with a thread count): which warps complete which phase (PTX
ISA 9.1 §9.7.13.1).

A barrier counts arrivals of any warps. A warp arrives for the next phase, and is not ordered after all arrivals of the
previous phase. It may arrive while the previous phase is open, and is then counted in that phase. Then an intended warp
continues without the others, or waits for ever (rule order.named_phases).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.core.finding import Half
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["NamedPhases"]


MOST = 8  # warps that are listed


@dataclasses.dataclass
class _Phase:
    """The arrivals of a phase: warps with their clocks, the instruction of the last one, and whether any of them waits.
    `arrivals` has those that do not wait.
    """

    clocks: dict[int, int] = dataclasses.field(default_factory=dict)
    site: int = 0
    has_waits: bool = False
    arrivals: dict[int, Instruction] = dataclasses.field(default_factory=dict)


class NamedPhases:
    """By barrier: the arrivals of the open phase, and of the one before."""

    def __init__(self, x: Wave, clocks: VectorClocks, reporting: Reporting) -> None:
        self.x, self.clocks, self.reporting = x, clocks, reporting
        self._open: dict[Any, _Phase] = {}
        self._last: dict[Any, _Phase] = {}

    def arrives(self, i: Instruction, key: Any, title: str, warps: np.ndarray, *, waits: bool) -> None:
        """Warps arrive, and have not yet released anything by that. One that has arrived and comes to wait may do so
        in one phase (rule barrier.arrive_sync).
        """
        phase = self._open.setdefault(key, _Phase())
        phase.has_waits |= waits
        last = self._last.get(key)
        # of arrivals alone it does not matter which are counted where
        if last is not None and (waits or last.has_waits):
            others = [warp for warp in warps.tolist() if not (waits and warp in last.clocks) and warp not in phase.clocks]
            self._look(i, title, np.array(others, np.int64), last)
        phase.clocks.update(zip(warps.tolist(), self.clocks.clock[warps].tolist(), strict=True))
        phase.arrivals.update({} if waits else dict.fromkeys(warps.tolist(), i))
        phase.site = i.site

    def complete(self, key: Any) -> None:
        """The phase is over."""
        phase = self._open.pop(key, None)
        if phase is not None:
            self._last[key] = phase

    def seen_arrivals(self, warp: int, other: int) -> list[Instruction]:
        """The instructions by which a warp has arrived, and has not waited, in phases that are over and that another
        warp has seen.
        """
        seen = int(self.clocks.has_seen(other, warp))
        return [phase.arrivals[warp] for phase in self._last.values() if warp in phase.arrivals and phase.clocks[warp] <= seen]

    def _look(self, i: Instruction, title: str, warps: np.ndarray, last: _Phase) -> None:
        """Does one of the warps not know of all arrivals of the last phase?"""
        others, arrived = np.array(list(last.clocks)), np.array(list(last.clocks.values()))

        def unseen(clocks: VectorClocks) -> np.ndarray:
            return np.asarray((clocks.has_seen(warps[:, None], others) < arrived).any(axis=1))

        early, formal = self.clocks.missing(unseen)
        if not early.any() or formal:
            return
        who = self.reporting.warp(int(warps[int(np.argmax(early))]))
        numbers = [str(other % (self.x.stride // WARP)) for other in sorted(last.clocks)]
        filled = f"warp{'s' * (len(numbers) > 1)} {', '.join(numbers[:MOST])}{' ...' * (len(numbers) > MOST)}"
        self.x.launch.find(
            "X010", i, f"warp {who} may arrive at {title} while the barrier's previous phase is still open",
            f"another barrier number for each group of warps, or for each stage; or let warp {who} wait until that phase is over (a bar.sync with those warps) before it arrives again",
            because="PTX ISA 9.1 §9.7.13.1", milder=Severity.WRONG, halves=(Half("arrive", f"warp {who} ({i.name})", i), Half("arrive", f"{filled} ({self.x.program.at(last.site)})")),
            why="nothing orders the arrival after those of the previous phase, and the barrier counts any warp, so which warps synchronise is left to chance",
        )  # fmt: skip
