"""The questions that traces of a card settle: the alternatives of a rule that they refute, the one that the card shows,
and the rules whose grade changes.

A trace is replayed under the rules, and under each alternative that would have changed something in it. A case that
differs under the alternative alone refutes it. If cases differ under the rules, and under one alternative none does,
the card does what that alternative says.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from smemsim.base.errors import InputError, TraceError, Unmodelled
from smemsim.base.floating_point import in_default_state
from smemsim.core.spec.alternatives import ALIKE, Alternative
from smemsim.core.spec.assumptions import exchange
from smemsim.core.spec.calibration import every_alternative
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.touched import touched
from smemsim.evidence.format import Suite
from smemsim.evidence.replay import check, compared_cases

__all__ = ["OPEN", "REFUTED", "SHOWN", "Settled", "Settlement", "settle_suites"]

REFUTED, SHOWN, OPEN, NEITHER = "refuted", "shown", "open", "neither"


@dataclasses.dataclass(frozen=True)
class Settled:
    """One alternative: `outcome` is refuted, shown, open or neither; `by` names the trace and the case that decide."""

    alternative: str
    sentence: str
    outcome: str
    by: str = ""

    @property
    def rule(self) -> str:
        """The name of the rule that it would replace."""
        return self.alternative.partition("=")[0]


@dataclasses.dataclass(frozen=True)
class Settlement:
    """The questions that traces of one card settle. It has every alternative that they could have distinguished from
    the rules, and the cases that differ under the rules.
    """

    arch: str
    card: str
    settled: tuple[Settled, ...]
    differing: dict[str, tuple[int, ...]]  # cases by suite that differ under the rules
    suites: tuple[str, ...]

    def of(self, rule: str) -> tuple[Settled, ...]:
        """The alternatives of one rule."""
        return tuple(s for s in self.settled if s.rule == rule)

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules with an alternative that was distinguished, in the order of `smemsim.RULES`."""
        return tuple(name for name in RULES if any(s.outcome != OPEN for s in self.of(name)))

    def grade(self, rule: str) -> Grade | None:
        """The grade that a rule has on this card from now on; None if these traces do not change it.

        A rule is measured if every known alternative is refuted, or if no trace can distinguish it from the rule.
        """
        before = RULES[rule].grades.get(self.arch)
        if before is Grade.MEASURED or any(s.outcome in (SHOWN, NEITHER) for s in self.of(rule)):
            return None
        known = {str(a) for a in _alternatives(self.arch).values() if a.rule == rule and str(a) not in ALIKE}
        refuted = {s.alternative for s in self.of(rule) if s.outcome == REFUTED}
        return Grade.MEASURED if known and known <= refuted else None

    def text(self) -> str:
        """The settled questions, in plain words, one rule a paragraph."""
        lines = []
        for rule in self.rules:
            said = self.of(rule)
            shown = [s for s in said if s.outcome == SHOWN]
            refuted = [s for s in said if s.outcome == REFUTED]
            grade = self.grade(rule)
            if shown:
                lines.append(f"{rule}: the card does otherwise. It does what {_one_of(shown)}. smemsim's rule: {RULES[rule].statement}")
            elif grade is not None:
                lines.append(
                    f"{rule}: measured now (before: {RULES[rule].grades.get(self.arch)}). All {len(refuted)} alternatives are refuted"
                )
            elif refuted:
                lines.append(f"{rule}: {len(refuted)} of {_count(self.arch, rule)} alternatives are refuted")
            if refuted and not shown and grade is None:
                lines += [
                    f"  left: {name} ({a.sentence}); {ALIKE.get(name) or 'these traces cannot tell it from the rule'}"
                    for name, a in self._left(rule)
                ]
            lines += [f"  refuted: {s.alternative} ({s.sentence}), by {s.by}" for s in refuted]
            lines += [f"  neither the rule nor {s.alternative} explains {s.by}" for s in said if s.outcome == NEITHER]
        for suite, cases in self.differing.items():
            if not any(s.outcome == SHOWN for s in self.settled):
                lines.append(
                    f"{suite}: {len(cases):,} cases differ, and no known alternative explains them; the first: smemsim replay {suite} --case {cases[0]}"
                )
        return "\n".join([*(lines or ["nothing is settled: these traces tell no rule from an alternative"]), *self._summary()])

    def _left(self, rule: str) -> list[tuple[str, Alternative]]:
        """The alternatives of a rule that these traces do not distinguish from it."""
        told = {s.alternative for s in self.of(rule) if s.outcome != OPEN}
        return [(name, a) for name, a in _alternatives(self.arch).items() if a.rule == rule and name not in told]

    def _summary(self) -> list[str]:
        """Do the traces agree with the rules, and whose grade changes?"""
        count = f"{len(self.suites)} trace{'s' * (len(self.suites) != 1)} of {self.card} ({self.arch})"
        cases = sum(map(len, self.differing.values()))
        agree = (
            f"{cases:,} cases of {', '.join(self.differing)} differ from the rules" if cases else "no modelled case differs from the rules"
        )
        changed = [
            f"{rule} ({RULES[rule].grades.get(self.arch)} -> {self.grade(rule)})" for rule in self.rules if self.grade(rule) is not None
        ]
        return [f"{count}: {agree}", f"grades that change: {', '.join(changed) or 'none'}"]

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "arch": self.arch,
            "card": self.card,
            "suites": list(self.suites),
            "differing": {name: list(cases) for name, cases in self.differing.items()},
            "grades": {rule: str(grade) for rule in self.rules if (grade := self.grade(rule)) is not None},
            "alternatives": [dataclasses.asdict(s) for s in self.settled],
        }


def _one_of(shown: Sequence[Settled]) -> str:
    if len(shown) == 1:
        return f"{shown[0].alternative} says: {shown[0].sentence} ({shown[0].by})"
    return f"one of these says, which the traces cannot tell apart: {', '.join(f'{s.alternative} ({s.sentence})' for s in shown)}"


def _count(arch: str, rule: str) -> int:
    return sum(a.rule == rule for a in _alternatives(arch).values())


def _alternatives(arch: str) -> dict[str, Alternative]:
    """The alternatives of the rules that a card has."""
    return {name: a for name, a in every_alternative(arch).items() if a.only in ("", arch) and arch in RULES[a.rule].grades}


@contextlib.contextmanager
def _assumed(a: Alternative) -> Iterator[None]:
    exchange({a.point: a.change}, str(a))
    try:
        yield
    finally:
        exchange({})


@in_default_state
def settle_suites(suites: Sequence[Suite], progress: Callable[[str], None] | None = None, *, only: Sequence[str] = ()) -> Settlement:
    """Hold the traces of one card against the rules and all their alternatives, or those that `only` names
    (RULE=ALTERNATIVE).

    Raises InputError for traces of a compiler, of two architectures, or for none; TraceError for a damaged one.
    """
    arch, card = _card(suites)
    known = {name: a for name, a in _alternatives(arch).items() if not only or name in only}
    cases: dict[str, dict[int, bool]] = {}
    met: dict[str, list[Suite]] = {}
    for suite in suites:
        check(suite)
        with touched(known, by_products=False) as found:
            of = compared_cases(suite, range(len(suite)))
            cases[suite.name] = {index: bool(c.outcome.differing) for index, c in of if not isinstance(c, Unmodelled)}
        for name in found:
            met.setdefault(name, []).append(suite)
        if progress:
            progress(suite.name)
    settled = []
    for name, a in known.items():
        if name in met:
            settled.append(_told(a, met[name], cases))
            if progress:
                progress(name)
    differing = {s: tuple(i for i, is_other in of.items() if is_other) for s, of in cases.items()}
    return Settlement(arch, card, tuple(settled), {s: c for s, c in differing.items() if c}, tuple(s.name for s in suites))


def _card(suites: Sequence[Suite]) -> tuple[str, str]:
    archs = sorted({suite.arch for suite in suites})
    if not suites or len(archs) > 1:
        raise InputError(
            f"settle: needs traces of one card; these are of {', '.join(archs) or 'none'}; name the folder of one architecture"
        )
    compiled = [suite.name for suite in suites if "compiler" in suite.manifest["device"]]
    if compiled:
        raise InputError(
            f"settle: {', '.join(compiled[:3])}: a compiler wrote these, and only a card settles a rule; name the folder of a card's traces"
        )
    return archs[0], str(suites[0].manifest["device"]["gpu"])


def _differs(suite: Suite, chosen: Sequence[int]) -> Iterator[tuple[int, bool]]:
    """Which of these cases differ. One that the model cannot compute under an alternative differs: hardware had an
    answer.
    """
    left = list(chosen)
    while left:
        try:
            for index, case in compared_cases(suite, tuple(left)):
                left.remove(index)
                if not isinstance(case, Unmodelled):
                    yield index, bool(case.outcome.differing)
        except TraceError:
            yield left.pop(0), True


def _told(a: Alternative, suites: Sequence[Suite], before: dict[str, dict[int, bool]]) -> Settled:
    """Replay what meets an alternative under it: first the cases that differ under the rule, then the others until one
    differs.
    """
    explained, first, with_difference = 0, "", ""
    for suite in suites:
        wrong = [index for index, is_other in before[suite.name].items() if is_other]
        right = [index for index, is_other in before[suite.name].items() if not is_other]
        with _assumed(a):
            for index, differs in _differs(suite, wrong):
                if differs:
                    with_difference = with_difference or f"case {index} of {suite.name}"
                else:
                    explained += 1
                    first = first or f"case {index} of {suite.name}"
            refuting = next((index for index, differs in _differs(suite, right) if differs), None)
        if refuting is not None:
            return Settled(str(a), a.sentence, REFUTED, f"case {refuting} of {suite.name}")
    if explained and not with_difference:
        return Settled(str(a), a.sentence, SHOWN, first)
    return Settled(str(a), a.sentence, NEITHER if explained else OPEN, with_difference if explained else "")
