"""What the operands of a run were meant to be: as they were read, unless another meaning explains with a small repair what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable

from smemsim.checking.report import CheckFinding, Report
from smemsim.checking.scenario import check
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.gpu.launch import Launch
from smemsim.running.operand_reads import Reads
from smemsim.running.scenario_of import AS_READ, Written, scenario_of
from smemsim.spec.findings import Severity
from smemsim.spec.swizzles import Swizzle

__all__ = ["judged"]

STRAYED = ("X003", "X004", "X008", "R507", "A107")  # what the watch finds of an instruction that reads past its tile


def judged(launch: Launch, reads: Reads) -> tuple[Written, Report | None]:
    """The run as a scenario with the meaning that explains most, and its report; None where there is nothing to judge.

    Raises Unmodelled for what check does not model.
    """
    written = scenario_of(launch, reads)
    if not written.steps:
        return written, None
    report = check(written.scenario)
    meaning = dict(AS_READ)
    wrong = [side for side in ("a", "b") if _of_side(report, side)]
    for side in wrong:
        for kind, alone in (("turned", True), ("corner", False), ("turned", False)):
            other = scenario_of(launch, reads, meaning=meaning | {side: kind})
            better = check(other.scenario)
            if _is_better(report, better, side, kind, launch.arch, alone=alone):
                meaning[side], written, report = kind, other, better
                break
    for side in _strayed(launch, reads):
        if side not in wrong:
            other = scenario_of(launch, reads, meaning=meaning | {side: "corner"})
            better = check(other.scenario)
            if _is_of_starts(_of_side(better, side)):
                meaning[side], written, report = "corner", other, better
    if any(f.code in ("R507", "R508") and not f.repair for f in report.findings):
        other = scenario_of(launch, reads, meaning=meaning, wide=True)
        better = check(other.scenario)
        if sum(not f.repair for f in better.findings) < sum(not f.repair for f in report.findings):
            written, report = other, better
    return written, report


def _strayed(launch: Launch, reads: Reads) -> Iterable[str]:
    """The operands some of which begin behind the first row of their tile, and which go on past what was there for them: the start may be wrong."""
    lines = {line for code, line, *_ in launch.findings if code in STRAYED}
    for side in ("a", "b"):
        strayed = [
            read
            for p in reads.products
            for event, read in zip(p.events, getattr(p, side), strict=True)
            if event.instruction.line in lines and read
        ]
        if any(read.share < 1 for read in strayed):
            yield side


def _of_side(report: Report, side: str) -> list[CheckFinding]:
    return [f for f in report.findings if f".{side}" in f.where and f.severity in (Severity.TRAP, Severity.WRONG)]


def _is_better(report: Report, other: Report, side: str, kind: str, arch: str, *, alone: bool) -> bool:
    """Does another meaning of an operand explain more? `alone`: of a turned one, nothing but the major-ness has to change; else no repair may be known,
    and a turned one begins where it did."""
    before, after = _of_side(report, side), _of_side(other, side)
    if not after or any(f.code == "R508" and not f.repair for f in after):
        return False
    if kind == "turned":
        if not _places(after) <= _places(before):  # it makes operands wrong that were right
            return False
        turned = [f for f in after if f.code == "R505"]
        if not turned or not all((_is_kept if alone else _begins_there)(f, arch) for f in turned):
            return False
    if kind == "corner" and _is_of_starts(after):
        return any(f.code in ("R507", "R508") and not f.repair for f in before)
    return alone or any(f.code == "R508" and not f.repair for f in before)


def _places(found: list[CheckFinding]) -> set[str]:
    """The steps that findings are about."""
    return {f.where.partition(".")[0] for f in found}


def _is_of_starts(found: list[CheckFinding]) -> bool:
    return bool(found) and all(f.code == "R508" and f.fix is not None for f in found)


def _words(f: CheckFinding, arch: str) -> list[tuple[SmemDescriptor, SmemDescriptor]]:
    """The descriptors that a repair changes: as they are, and as they must be."""
    found = []
    for path, old, new in f.together:
        if ".word" in path:
            pairs = zip(old, new, strict=True) if isinstance(old, list) else ((old, new),)
            found += [
                (SmemDescriptor.decode(int(one, 16), arch=arch), SmemDescriptor.decode(int(two, 16), arch=arch)) for one, two in pairs
            ]
    return found


def _begins_there(f: CheckFinding, arch: str) -> bool:
    words = _words(f, arch)
    return not words or words[0][0].start_address == words[0][1].start_address


def _is_kept(f: CheckFinding, arch: str) -> bool:
    """Does a repair leave the descriptors as they are, but for the LBO, which a swizzled operand along K does not use?"""
    along_k = any(path.endswith(".major") and new == "K" for path, _, new in f.together)
    for one, two in _words(f, arch):
        lbo = one.leading_byte_offset == two.leading_byte_offset or (along_k and one.swizzle != Swizzle.NONE)
        if not lbo or _all_but_lbo(one) != _all_but_lbo(two):
            return False
    return True


def _all_but_lbo(d: SmemDescriptor) -> tuple[int, int, int, Swizzle]:
    return d.start_address, d.stride_byte_offset, d.base_offset, d.swizzle
