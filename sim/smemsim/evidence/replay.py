"""Replay golden traces against the model: what was compared, what differs."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from smemsim.base.errors import HardwareTrap, InputError, SmemsimError, TraceError, Unmodelled
from smemsim.base.floating_point import in_default_state
from smemsim.diagnosis.difference.diagnose import Diagnosis
from smemsim.evidence.format import Suite, find_suites, load_suite
from smemsim.evidence.kinds import KINDS
from smemsim.evidence.kinds.tcgen05 import RefusedInstruction
from smemsim.evidence.outcome import Case, Outcome

__all__ = ["Difference", "SuiteReport", "check", "compared_cases", "replay", "replay_suite"]


KEPT = 5  # differences a report keeps in full


@dataclasses.dataclass(frozen=True)
class Difference:
    """One differing case. `diagnosis` describes the difference, for values of a whole matrix instruction."""

    case: int
    title: str
    outcome: Outcome
    diagnosis: Diagnosis | None = None


@dataclasses.dataclass(frozen=True)
class SuiteReport:
    """The result of one suite: the first `differences` in full, the number `differing`, and the `unmodelled` cases."""

    suite: Suite
    cases: int
    compared: int
    differing: int
    differences: tuple[Difference, ...]
    unmodelled: tuple[tuple[int, str], ...]

    @property
    def compiled(self) -> bool:
        """Do the cases come from a compiler, not from hardware?"""
        return "compiler" in self.suite.manifest["device"]

    @property
    def same(self) -> bool:
        """Was everything compared, and is there no difference?"""
        return self.differing == 0 and not self.unmodelled

    def text(self) -> str:
        """The report in sentences; for a difference the first one, a map, the rule in force and how to reproduce it."""
        origin = f"[{self.suite.arch}, {_origin(self.suite.manifest['device'])}]"
        head = f"{self.suite.name} {origin}: {self.cases:,} cases, {self.compared:,} values compared"
        lines = [f"{head}, {f'{self.differing:,} cases differ' if self.differing else 'no difference'}"]
        if self.unmodelled:
            case, why = self.unmodelled[0]
            lines.append(f"  {len(self.unmodelled):,} cases are not modelled; the first, case {case}: {why}")
        for difference in self.differences[:1]:
            lines += _difference_lines(self.suite, difference)
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "path": str(self.suite.path),
            "suite": self.suite.name,
            "kind": self.suite.kind,
            "arch": self.suite.arch,
            "device": self.suite.manifest["device"],
            "cases": self.cases,
            "compared": self.compared,
            "differing": self.differing,
            "same": self.same,
            "unmodelled": [{"case": case, "reason": why} for case, why in self.unmodelled[:KEPT]],
            "differences": [
                {
                    "case": d.case,
                    "title": d.title,
                    "compared": d.outcome.compared,
                    "differing": d.outcome.differing,
                    "what": d.outcome.what,
                    "first": d.outcome.first,
                    "looks_like": d.diagnosis.looks_like if d.diagnosis else None,
                    "because": list(d.diagnosis.because) if d.diagnosis else [],
                    "rule": d.outcome.rule.name if d.outcome.rule else None,
                    "reproduce": _reproduce(self.suite, d.case),
                }
                for d in self.differences
            ],
        }


def _origin(device: dict[str, Any]) -> str:
    """The origin of a trace: a card and its driver, or a compiler, which is not hardware."""
    if "compiler" in device:
        return f"compiled by {device['compiler']}, not hardware"
    return f"{device.get('gpu', 'unknown GPU')}, driver {device.get('driver', 'unknown')}"


def _reproduce(suite: Suite, case: int) -> str:
    return f"smemsim replay {suite.path} --case {case}"


def _difference_lines(suite: Suite, d: Difference) -> list[str]:
    outcome = d.outcome
    lines = [
        f"  case {d.case}: {d.title}",
        f"  {outcome.differing:,} of {outcome.compared:,} {outcome.what} differ.  first: {outcome.first}",
    ]
    if outcome.map:
        lines.append(f"  where ({outcome.what} in their order, several a mark; x: one of them differs):")
        lines += [f"    {line}" for line in outcome.map]
    if d.diagnosis:
        lines += [f"  looks like: {d.diagnosis.looks_like}", *(f"    {line}" for line in d.diagnosis.because)]
    if outcome.rule:
        lines.append(f"  rule in force: {outcome.rule}")
    lines.append(f"  reproduce: {_reproduce(suite, d.case)}")
    return lines


def _check_columns(suite: Suite, columns: dict[str, int]) -> None:
    for name, dimensions in columns.items():
        array = suite.arrays.get(name)
        if array is None:
            raise TraceError(f"{suite.path}: a {suite.kind} trace needs the array '{name}', which is missing")
        wanted = len(suite) + 1 if name.endswith("_start") else len(suite)
        if array.ndim != dimensions or len(array) != wanted:
            raise TraceError(f"{suite.path}: array '{name}' has shape {array.shape}, expected {wanted} entries in {dimensions} dimensions")
        if name.endswith("_start"):
            body = suite.arrays.get(name.removesuffix("_start"), np.zeros(0))
            if array.dtype.kind != "i" or (np.diff(array) < 0).any() or int(array[0]) != 0 or int(array[-1]) != len(body):
                raise TraceError(f"{suite.path}: '{name}' does not divide its array into {len(suite)} cases")


def check(suite: Suite) -> None:
    """TraceError for a kind without a replay, and for arrays that are missing or do not fit."""
    kind = KINDS.get(suite.kind)
    if kind is None:
        raise TraceError(f"{suite.path}: kind {suite.kind!r} is not one this version replays ({', '.join(KINDS)})")
    _check_columns(suite, kind.columns)


@in_default_state
def replay_suite(suite: Suite, *, case: int | None = None, progress: Callable[[int], None] | None = None) -> SuiteReport:
    """Compare one suite, or one case of it, with the model. `progress` is called after every case."""
    check(suite)
    if case is not None and not 0 <= case < len(suite):
        raise InputError(f"case = {case}: {suite.path} has cases 0 to {len(suite) - 1}")
    compared, differing = 0, 0
    kept: list[Difference] = []
    unmodelled: list[tuple[int, str]] = []
    chosen: Iterable[int] = range(len(suite)) if case is None else [case]
    for index, compared_case in compared_cases(suite, chosen):
        if isinstance(compared_case, Unmodelled):
            unmodelled.append((index, str(compared_case)))
        else:
            compared += compared_case.outcome.compared
            if compared_case.outcome.differing:
                differing += 1
                if len(kept) < KEPT:
                    diagnosis = _guarded(suite, index, compared_case.explain) if compared_case.explain else None
                    kept.append(Difference(index, compared_case.title, compared_case.outcome, diagnosis))
        if progress:
            progress(index)
    return SuiteReport(suite, len(suite) if case is None else 1, compared, differing, tuple(kept), tuple(unmodelled))


def compared_cases(suite: Suite, chosen: Iterable[int]) -> Iterator[tuple[int, Case | Unmodelled]]:
    """Each case with the result of its comparison, or the reason why it cannot be compared. TraceError for a damaged
    trace.
    """
    kind = KINDS[suite.kind]
    comparer = _guarded(suite, None, lambda: kind(suite))
    for index in chosen:
        try:
            yield index, _guarded(suite, index, lambda index=index: comparer.case(index))  # type: ignore[misc]
        except Unmodelled as e:
            yield index, e
        except RefusedInstruction as e:
            yield index, Case(lambda: "the model refuses the instruction", e.outcome(suite, index))
        except HardwareTrap as e:
            yield index, Case(lambda: "the model traps", Outcome(1, 1, f"hardware runs | model traps: {e}", (), None, "outcome"))


def _guarded(suite: Suite, case: int | None, call: Callable[[], Any]) -> Any:
    """Runs a comparison; an error that a damaged case causes is reported as the trace's fault."""
    try:
        return call()
    except (Unmodelled, HardwareTrap):
        raise  # these are what the model says, not what is wrong with the trace
    except (SmemsimError, ValueError, IndexError, KeyError, TypeError, OverflowError, AttributeError, MemoryError) as e:
        where = "" if case is None else f" case {case}"
        why = str(e) if isinstance(e, SmemsimError) else "its numbers do not fit one another"
        raise TraceError(f"{suite.path}:{where} cannot be read as a {suite.kind} case ({why}); the trace is damaged") from e


@in_default_state
def replay(*paths: str | pathlib.Path, case: int | None = None) -> list[SuiteReport]:
    """Replay every trace at or below the paths.

    >>> replay("no/such/folder")
    Traceback (most recent call last):
    smemsim.base.errors.TraceError: no/such/folder: no such folder; a trace is a folder with manifest.json and data.npz
    """
    folders = [folder for path in paths for folder in find_suites(pathlib.Path(path))]
    if case is not None and len(folders) != 1:
        raise InputError(f"case = {case}: name one trace, not {len(folders)}")
    return [replay_suite(load_suite(folder), case=case) for folder in folders]
