"""The report at the end of a capture: what agrees with the model, what differs, what is settled by it, and how to send
it.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from smemsim.capture.plan import DECIDES
from smemsim.capture.runner import SKIPPED, Done
from smemsim.core.spec.disputes import DISPUTES
from smemsim.evidence.format import load_suite
from smemsim.evidence.replay import SuiteReport, replay_suite
from smemsim.evidence.settle import Settlement, settle_suites

__all__ = ["CaptureReport", "report_of"]


@dataclasses.dataclass(frozen=True)
class CaptureReport:
    """The traces of a capture, compared with the model. `settlement` is None if nothing differs on a card on which
    smemsim's rules were measured."""

    out: pathlib.Path
    arch: str
    card: dict[str, str]
    done: tuple[Done, ...]
    reports: tuple[SuiteReport, ...]
    settlement: Settlement | None

    @property
    def differing(self) -> int:
        """Cases that differ from the model."""
        return sum(r.differing for r in self.reports)

    @property
    def decided(self) -> tuple[str, ...]:
        """Disputes between documents that these traces decide for smemsim's reading: all cases of their suite agree."""
        agree = [r.suite.name for r in self.reports if r.same]
        return tuple(name for suite in agree for name in DECIDES.get(suite, ()))

    def text(self, send: str) -> str:
        """The report in plain words."""
        cases, values = sum(r.cases for r in self.reports), sum(r.compared for r in self.reports)
        lines = [f"Captured: {len(self.reports)} suites, {cases:,} cases, in {self.out}"]
        left = [d for d in self.done if not d.is_there]
        lines += [f"  not captured: {d.suite}: {d.why}" for d in left if d.state != SKIPPED]
        if skipped := [d.suite for d in left if d.state == SKIPPED]:
            lines.append(f"  left for another time: {', '.join(skipped)}; run the same command again, and it goes on there")
        lines.append(
            f"Agrees with the model: {cases - self.differing - sum(len(r.unmodelled) for r in self.reports):,} cases, {values:,} values compared"
        )
        if unmodelled := sum(len(r.unmodelled) for r in self.reports):
            lines.append(f"Not modelled: {unmodelled:,} cases; the traces keep what the card did")
        lines.append(f"Differs from the model: {self.differing:,} cases" if self.differing else "Differs from the model: nothing")
        for r in self.reports:
            if r.differing:
                lines += [f"  {line}" for line in r.text().splitlines()]
        lines.append("Settled:")
        if self.settlement is None:
            lines.append(f"  {self.arch}: the rules were measured on an H200, and this card does the same")
        else:
            lines += [f"  {line}" for line in self.settlement.text().splitlines()]
            lines += [f"  dispute {name!r}: the card does what smemsim assumes: {DISPUTES[name].takes}" for name in self.decided]
        lines += [
            f"To send it: pack the folder (tar cJf {self.out.name}.tar.xz {self.out}) and attach it to {send}",
            "  The folder holds the card's name, driver and answers; no names of machines or users, and no paths. Edit nothing in it.",
        ]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "arch": self.arch,
            "device": self.card,
            "suites": [dataclasses.asdict(d) for d in self.done],
            "reports": [r.as_dict() for r in self.reports],
            "decided": list(self.decided),
            "settled": None if self.settlement is None else self.settlement.as_dict(),
        }


def report_of(out: pathlib.Path, arch: str, card: dict[str, str], done: Sequence[Done]) -> CaptureReport:
    """Replay what a capture has in its folder, and settle what it can."""
    suites = [load_suite(out / d.suite) for d in done if d.is_there]
    reports = tuple(replay_suite(suite) for suite in suites)
    is_settled = arch == "sm_90a" and all(not r.differing for r in reports)
    return CaptureReport(out, arch, card, tuple(done), reports, None if is_settled else settle_suites(suites))
