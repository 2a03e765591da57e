"""The results of a launch besides memory (`LaunchResult`): findings, events, printed text, and notes for the report.

CTAs of one launch may run in several processes. Each process begins with a `fresh` result, and the first process
`merge`s them in the order of the CTAs. A further kind of result is one more field of `LaunchResult`: nothing else has
to name it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np

from smemsim.core.finding import Finding
from smemsim.core.ptx.module import Instruction
from smemsim.run.copied_words import CopiedWords
from smemsim.run.engine.records import Events
from smemsim.run.events import MergeableObserver

__all__ = ["MOST_OUTPUT", "Findings", "LaunchResult", "MapaRanks", "Output"]


MOST_OUTPUT = 1 << 26  # characters that all printf of a launch write


def _key(finding: Finding) -> tuple[str, int, str]:
    return finding.code, finding.site, finding.operation


class Findings(dict[tuple[str, int, str], Finding]):
    """The findings of a launch: one for a code at an instruction, and a further one for each other operation there.

    The findings of another process are `known`. The CTAs in which races of a code, an instruction, an operation and a
    severity were seen are `ctas`.
    """

    def __init__(
        self, found: Mapping[tuple[str, int, str], Finding] | None = None, known: Iterable[Finding] = (),
        ctas: Mapping[tuple[str, int, str, bool], set[int]] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(found or {})
        self._known = {id(finding): finding for finding in known}
        self._ctas = dict(ctas or {})
        self.kept = 0  # times that one was kept or replaced

    def in_cta(self, code: str, i: Instruction, operation: str, number: int, *, is_milder: bool) -> None:
        """A race of two accesses is in a CTA, by its number in the grid."""
        self._ctas.setdefault((code, i.site, operation, is_milder), set()).add(number)

    def ctas(self, finding: Finding) -> tuple[int, ...]:
        """The CTAs in which a race was seen, in ascending order; none if they are not known."""
        return tuple(sorted(self._ctas.get((finding.code, finding.site, finding.operation, finding.is_milder), ())))

    def found(self, code: str, i: Instruction, operation: str = "") -> Finding | None:
        """The finding of a code at an instruction; if there are several, that of the same operation."""
        return self.get((code, i.site, operation))

    def before(self, finding: Finding) -> Finding | None:
        """The finding that is kept for the code, the instruction and the operation of one."""
        return self.get(_key(finding))

    def take_back(self, code: str, i: Instruction) -> bool:
        """Drop the first finding of a code at an instruction. Was there one?"""
        own = next((key for key in self if key[:2] == (code, i.site)), None)
        return own is not None and self.pop(own) is not None

    def keep(self, finding: Finding) -> None:
        """Keep a finding, unless there is one of its code at its instruction that is not milder. A race between warps
        goes before one between lanes.
        """
        key = _key(finding)
        before = self.get(key)
        if before is None or self.is_lesser(before, finding.is_milder, within_warp=finding.is_within_warp):
            self[key] = finding
            self.kept += 1

    def replace(self, before: Finding, after: Finding) -> None:
        """Another text takes the place of a finding's."""
        self.update({key: after for key, finding in self.items() if finding is before})
        self.kept += 1

    @staticmethod
    def is_lesser(before: Finding, is_milder: bool, *, within_warp: bool) -> bool:
        """Does another finding of this code at this line say more than the one before?"""
        return not is_milder and (before.is_milder or (before.is_within_warp and not within_warp))

    def fresh(self) -> Findings:
        """The same findings for another process, which reports only what it adds."""
        return Findings(self, self.values())

    @property
    def added(self) -> list[Finding]:
        """The findings that were not there from the beginning."""
        return [finding for finding in self.values() if id(finding) not in self._known]

    def merge(self, other: Findings) -> None:
        """Keep what another process has added."""
        for finding in other.added:
            self.keep(finding)
        for key, numbers in other._ctas.items():
            self._ctas[key] = self._ctas.get(key, set()) | numbers

    def __reduce__(self) -> tuple[Any, ...]:
        """Only what was added goes to another process."""
        return Findings, ({key: finding for key, finding in self.items() if id(finding) not in self._known}, (), self._ctas)


class Output(list[str]):
    """The text that threads printed, in order. At most `MOST_OUTPUT` characters of it are kept."""

    def __init__(self, parts: Iterable[str] = (), size: int = 0) -> None:
        super().__init__(parts)
        self.size = size  # characters, also of what was left out

    def write(self, printed: str) -> None:
        """Add the text of one printf. The last text that does not fit becomes a note that the buffer is full."""
        if self.size <= MOST_OUTPUT:
            self.size += len(printed)
            left_out = f"\n(printf wrote more than {MOST_OUTPUT >> 20} MiB: the rest is left out)\n"
            self.append(printed if self.size <= MOST_OUTPUT else left_out)

    def fits(self, other: Output) -> bool:
        """Is there room for all that another process has printed?"""
        return not other or self.size + sum(map(len, other)) <= MOST_OUTPUT

    def merge(self, other: Output) -> None:
        """Add what another process has printed."""
        self += other
        self.size += sum(map(len, other))

    def __reduce__(self) -> tuple[Any, ...]:
        return Output, (list(self), self.size)


class MapaRanks(dict[int, tuple[frozenset[int], bool]]):
    """By the line of each mapa: the ranks of the CTAs that execute it, and whether any of them asks for another CTA's
    window.
    """

    def note(self, line: int, ranks: Iterable[int], *, crossed: bool) -> None:
        """CTAs of these ranks execute the mapa at a line."""
        before, has_crossed = self.get(line, (frozenset(), False))
        self[line] = before.union(ranks), has_crossed or crossed

    def merge(self, other: MapaRanks) -> None:
        """Add what another process has noted."""
        for line, (ranks, crossed) in other.items():
            self.note(line, ranks, crossed=crossed)


_UNITED: dict[type, Callable[[Any, Any], Any]] = {
    set: lambda one, other: one | other,
    list: lambda one, other: one + other,
    dict: lambda one, other: one | other,
    bool: lambda one, other: one or other,
    int: lambda one, other: one or other,
    str: lambda one, other: one or other,
}


@dataclasses.dataclass(eq=False, kw_only=True)
class LaunchResult:
    """The results of a launch besides memory.

    The type of a field defines what `fresh` and `merge` do with it. Sets are united, lists are appended, dictionaries
    are updated. For numbers and texts, the first value that is not 0 or empty stays. A class of its own has `merge`,
    and `fresh` if another process does not begin with an empty one.

    >>> one, other = LaunchResult(), LaunchResult(evidence={"tcgen05.shift: inferred"})
    >>> one.merge(other)
    >>> one.evidence, one.fresh().evidence
    ({'tcgen05.shift: inferred'}, set())
    """

    status: int = 0  # the CUDA error that the launch ended with, 0 without one
    out_of_time: bool = False  # has it been ended because it ran for `limit_seconds`?
    # why a launch of a part of the grid could not go on: what it waits for may come of a CTA that was left out
    held_up: str = ""
    findings: Findings = dataclasses.field(default_factory=Findings)
    events: Events = dataclasses.field(default_factory=Events)  # transfers and matrix instructions
    output: Output = dataclasses.field(default_factory=Output)  # of printf
    # one line for each failed assertion, as the CUDA runtime prints it
    asserted: list[str] = dataclasses.field(default_factory=list)
    conditions: dict[int, int] = dataclasses.field(default_factory=dict)  # the values of conditional handles of a graph
    evidence: set[str] = dataclasses.field(default_factory=set)  # sentences about what rests on less than measurements
    # lines that read accumulator cells in which no product has left a sum
    left_out: set[int] = dataclasses.field(default_factory=set)
    # sentences about limits of the race detector beyond which it may miss a race
    bounds: set[str] = dataclasses.field(default_factory=set)
    # lines of copies whose bytes are read by others than matrix instructions
    elsewhere: set[int] = dataclasses.field(default_factory=set)
    copied_words: CopiedWords = dataclasses.field(default_factory=CopiedWords)  # of launches with mma.sync
    mapped: MapaRanks = dataclasses.field(default_factory=MapaRanks)
    # of a schedule: addresses of floats that are added to atomically
    summed: list[np.ndarray] = dataclasses.field(default_factory=list)
    operand_check: MergeableObserver | None = None

    def fresh(self) -> Self:
        """The state with which a process that executes other CTAs of the launch begins."""
        return type(self)(**{name: _fresh(value) for name, value in self._values()})

    def merge(self, other: LaunchResult) -> None:
        """Add what other CTAs have left."""
        for name, mine in self._values():
            theirs = getattr(other, name)
            if hasattr(mine, "merge"):
                if theirs is not None:
                    mine.merge(theirs)
            elif mine is not None:
                setattr(self, name, _UNITED[type(mine)](mine, theirs))

    def finish(self) -> Self:
        """The CTAs of this process are over: the result as it goes to another process."""
        if self.operand_check is not None:
            self.operand_check = self.operand_check.finish()
        return self

    def _values(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)]


def _fresh(value: Any) -> Any:
    return value.fresh() if hasattr(value, "fresh") else None if value is None else type(value)()
