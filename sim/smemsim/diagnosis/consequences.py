"""Which findings of a launch follow from another one: by its bytes and lines, and by what a tried fix removes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from smemsim.core.finding import Finding
from smemsim.core.spec.findings import CONSEQUENCES, Severity
from smemsim.diagnosis.trials.outcome import Outcomes, key_of, keys_of

__all__ = ["with_causes", "with_trials"]

GRAVE = (Severity.TRAP, Severity.WRONG)
IN_FLIGHT = ("X004", "X005")  # a missing proxy fence (X003) is not their cause: the fence waits for no operation
HANG = "X006"


def with_causes(findings: Sequence[Finding]) -> list[Finding]:
    """Findings, the most upstream first, each with the first one before it that it follows from.

    It is about the same instruction or the same bytes, an mbarrier's among them. If several waits never end, the later
    ones follow from the first.
    """
    done: list[Finding] = []
    for f in findings:
        cause = next((other for other in done if _is_cause(other, f)), None)
        done.append(f if cause is None else _following(f, cause))
    return done


def _is_cause(cause: Finding, f: Finding) -> bool:
    if f.code not in CONSEQUENCES or cause.severity not in GRAVE or (cause.code == "X003" and f.code in IN_FLIGHT):
        return False
    if cause.code == f.code:
        return f.code == HANG and f.severity is Severity.TRAP
    return cause.line == f.line or any(mine.meets(other) for mine in f.touched for other in cause.touched)


def _following(f: Finding, cause: Finding) -> Finding:
    """A finding that follows from another one, or from what that one follows from. Its own fix does not help."""
    root = cause if cause.cause is None else cause.cause
    return dataclasses.replace(f, cause=root, repair=f"fix {root.code} first")


def with_trials(findings: Sequence[Finding], outcomes: Outcomes) -> list[Finding]:
    """Findings with what the tried fixes of others removed: these follow from the finding whose fix it was.

    A finding is put after the one that it follows from.
    """
    causes: dict[int, Finding] = {}
    for f in findings:
        outcome = outcomes.get(key_of(f))
        if outcome is None or not outcome.works or id(f) in causes:
            continue
        for other in findings:
            is_free = other is not f and other.cause is None and id(other) not in causes and other.severity in GRAVE and not other.tried
            if is_free and keys_of(other) <= outcome.removes:
                causes[id(other)] = f
    if not causes:
        return list(findings)
    done: list[Finding] = []
    for f in findings:
        if id(f) not in causes:
            done.append(f)
            done += [_following(other, f) for other in findings if causes.get(id(other)) is f]
    return done
