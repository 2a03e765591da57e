"""The result of the fix of a finding that was executed."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, TypeAlias

from smemsim.core.finding import Finding

__all__ = ["Outcome", "Outcomes", "key_of", "keys_of", "with_outcome"]


class Outcome(NamedTuple):
    """The change that was executed, in words. If `works` is set, the finding was gone, and no other came. If
    `is_beside` is set, the text of the finding's fix is kept. The findings that were gone with it are in `removes`, by
    code and site.
    """

    text: str
    works: bool = True
    is_beside: bool = False
    removes: frozenset[tuple[str, int]] = frozenset()


Outcomes: TypeAlias = dict[tuple[str, int, str], Outcome]


def key_of(f: Finding) -> tuple[str, int, str]:
    """The key that distinguishes the findings of a launch: code, site and operation."""
    return f.code, f.site, f.operation


def keys_of(f: Finding) -> frozenset[tuple[str, int]]:
    """The code with each site of a finding."""
    return frozenset((f.code, site) for site in (f.site, *(at.site for at in f.alike)))


def with_outcome(f: Finding, outcomes: Outcomes) -> Finding:
    """The finding with what came of its fix: a fix that does not help is none."""
    outcome = outcomes.get(key_of(f))
    if outcome is None:
        return f
    if not outcome.works:
        return dataclasses.replace(f, repair="", failed=outcome.text)
    beside = outcome.is_beside and bool(f.repair) and f.repair != outcome.text
    return dataclasses.replace(f, repair=f.repair if beside else outcome.text, trial=outcome.text, tried=True, beside=beside)
