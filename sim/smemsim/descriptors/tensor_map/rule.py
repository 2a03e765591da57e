"""What a rule of the encode calls is: a row with a check, its grades, and where it is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal

from smemsim.descriptors.tensor_map.arguments import Arguments
from smemsim.spec.architectures import ARCHITECTURES
from smemsim.spec.evidence import Grade

__all__ = ["ALL_CALLS", "FINE", "IM2COL", "TILED", "WIDE", "Call", "Rule", "Target", "Violation", "rule"]

Call = Literal["tiled", "im2col", "im2col_wide"]
TILED: tuple[Call, ...] = ("tiled",)
IM2COL: tuple[Call, ...] = ("im2col",)
WIDE: tuple[Call, ...] = ("im2col_wide",)
ALL_CALLS: tuple[Call, ...] = (*TILED, *IM2COL, *WIDE)
FINE: Sequence[str] = ()


class Violation(str):
    """The sentence of a broken rule; `rule` is the rule's name, `code` the number of the finding it is in a larger check."""

    rule: str
    code: str

    def __new__(cls, sentence: str, rule: str, code: str = "T205") -> Violation:
        self = super().__new__(cls, sentence)
        self.rule, self.code = rule, code
        return self


@dataclasses.dataclass(frozen=True)
class Target:
    """What a map is judged for: an architecture (None: one of them all), and an encode call or, with `encode` False, bytes that exist.

    Instructions can give a map fields that no encode call gives it (tensormap.replace); such maps are legal where the PTX ISA says so.
    """

    arch: str | None
    encode: bool

    @property
    def relaxed_stores(self) -> bool:
        """sm_103a relaxes what stores of 6-bit elements need (PTX ISA 5.5.1.1)."""
        return not self.encode and self.arch in (None, "sm_103a")


Check = Callable[[Arguments, Target], Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule: its name, what it asks for, where that is written, how sure it is on each architecture, which calls it is for.

    `code` is the finding's number when a larger check reports it; `needs` names the enums without which there is nothing
    to judge; `newer` rules are about types and swizzles that Hopper has not.
    """

    name: str
    text: str
    source: str
    grades: dict[str, Grade]
    code: str
    calls: tuple[Call, ...]
    encode_only: bool
    needs: tuple[str, ...]
    newer: bool
    check: Check = dataclasses.field(repr=False)

    def __str__(self) -> str:
        grades = ", ".join(f"{arch} {grade}" for arch, grade in self.grades.items())
        return f"{self.name}: {self.text} ({grades}; {self.source})"


def rule(
    table: list[Rule],
    source: str,
    sm_90a: str,
    blackwell: str,
    *,
    code: str = "T205",
    calls: tuple[Call, ...] = ALL_CALLS,
    encode_only: bool = False,
    needs: tuple[str, ...] = (),
    newer: bool = False,
) -> Callable[[Check], Check]:
    """Make a check a row of the table; its docstring is the rule's text, its grades those of sm_90a ("": not there) and of sm_100a, sm_103a."""
    grades = {name: Grade(g) for name in ARCHITECTURES if (g := sm_90a if name == "sm_90a" else blackwell)}

    def register(check: Check) -> Check:
        text = " ".join((check.__doc__ or "").split())
        table.append(Rule(check.__name__, text, source, grades, code, calls, encode_only, needs, newer, check))
        return check

    return register
