"""The finding codes that people and their scenario files rely on: number, slug and severity. A code keeps its meaning for ever."""

from __future__ import annotations

import dataclasses
import enum

__all__ = ["CODES", "Code", "Finding", "Severity"]


class Severity(enum.StrEnum):
    """trap: refused or faults. wrong: silently wrong data. luck: right today, not guaranteed. note: worth knowing."""

    TRAP = "trap"
    WRONG = "wrong"
    LUCK = "luck"
    NOTE = "note"


@dataclasses.dataclass(frozen=True)
class Code:
    """A code's number, its slug, and the severity its findings have unless they say otherwise."""

    number: str
    slug: str
    severity: Severity


# fmt: off
CODES: dict[str, Code] = {number: Code(number, slug, Severity(severity)) for number, slug, severity in (
    ("A107", "outside-buffer",  "wrong"),
    ("T201", "box-range",       "trap"),
    ("T202", "inner-exceeds-swizzle", "trap"),
    ("T203", "inner-not-16",    "trap"),
    ("T204", "global-misaligned", "trap"),
    ("T205", "map-refused",     "trap"),
    ("T208", "inner-below-swizzle", "note"),
    ("D301", "field-in-bytes",  "wrong"),
    ("D302", "swizzle-code",    "wrong"),
    ("D305", "fixed-bits",      "note"),
    ("D306", "base-offset",     "wrong"),
    ("D307", "bytes-alias",     "wrong"),
    ("D310", "field-unused",    "note"),
    ("I601", "shape",           "trap"),
    ("I602", "type-major",      "trap"),
)}
# fmt: on


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or will be: what, where, with which numbers, and what to write instead."""

    code: str
    severity: Severity
    where: str
    message: str
    repair: str = ""
    because: str = ""  # the source of the rule

    def __str__(self) -> str:
        repair = f"; {self.repair}" if self.repair else ""
        because = f" [{self.because}]" if self.because else ""
        return f"{self.code} {self.severity} {self.where}: {self.message}{repair}{because}"
