"""A finding of a check."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from smemsim.spec.findings import Finding, Severity

__all__ = ["CheckFinding"]


@dataclasses.dataclass(frozen=True)
class CheckFinding(Finding):
    """A finding about a scenario: `where` is a path into it, `title` the same for people; `wrong` of `of` elements are wrong, `first` is the first
    of these, `pattern` says what they have in common; `fix` (path, old, new) is what was tried and makes the reads right, `together` are several of these
    where one is not enough; `grade` is what the rule rests on."""

    title: str = ""
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    first: Mapping[str, Any] | None = None
    wrong: int = 0
    of: int = 0
    fix: tuple[str, Any, Any] | None = None
    grade: str = ""
    pattern: tuple[str, ...] = ()
    together: tuple[tuple[str, Any, Any], ...] = ()

    def __str__(self) -> str:
        repair = f"; repair: {self.repair}" if self.repair else ""
        because = f" [because of {self.because}]" if self.because else ""
        note = "note: " if self.severity is Severity.NOTE else ""
        return f"{self.code}  {self.title or self.where}: {note}{self.message}{repair}{because}"

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        path, old, new = self.fix or (None, None, None)
        return {
            "code": self.code,
            "severity": str(self.severity),
            "where": self.where,
            "message": self.message,
            "numbers": dict(self.numbers),
            "first": None if self.first is None else dict(self.first),
            "wrong": self.wrong,
            "of": self.of,
            "pattern": list(self.pattern),
            "repair": {"text": self.repair, "path": path, "old": old, "new": new},
            "together": [{"path": path, "old": old, "new": new} for path, old, new in self.together],
            "because": self.because,
            "grade": self.grade,
        }
