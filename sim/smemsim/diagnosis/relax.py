"""Waits that are not needed: the kernel runs again with one of them weakened (P102).

`wait_group N` becomes `wait_group N + 1`, and a barrier of threads is left out. If the sanitizer stays silent and
memory is the same, the wait was not needed in this launch.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError, SmemsimError
from smemsim.core.finding import Finding, at_instruction
from smemsim.core.ptx.module import Instruction
from smemsim.core.ptx.sources import Sources
from smemsim.diagnosis.again import MemoryCopy
from smemsim.diagnosis.rings import shorter
from smemsim.diagnosis.run import Run
from smemsim.run.events import GroupKind, Observer

if TYPE_CHECKING:
    from smemsim.run.engine.launch import LaunchConfig, RunOptions

__all__ = ["Relaxed", "WaitObserver", "needless_waits"]

MOST_TRIED = 16  # waits of a launch
MOST_LISTED = 8  # waits that a message lists
MOST_GROUPS = 6  # groups more that may stay in flight
FEWEST = 3  # times that a wait must have mattered
_GROUPS = re.compile(r"\b((?:wgmma|cp\.async(?:\.bulk)?)\.wait_group(?:\.read)?(?:\.sync\.aligned)?)(\s+)(\d+)(\s*;)")
_MBARRIERS = re.compile(r"\bmbarrier\.(?:try|test)_wait[\w.:]*\s+([%\w$]+)\s*,[^;]*;")
_BARRIERS = re.compile(r"(?:@!?%?[\w$]+\s+)?\b(?:bar|barrier)(?:\.cta)?\.sync(?:\.aligned)?\s+[^;]*;")


class WaitObserver(Observer):
    """Counts, for each wait of the first CTA, how often something was pending there; for a barrier of threads how often
    its phase ended.
    """

    def __init__(self) -> None:
        self.mattered: collections.Counter[Instruction] = collections.Counter()
        # waits for mbarriers: tried only if they are named
        self.passed: collections.Counter[Instruction] = collections.Counter()
        self._pending: collections.Counter[tuple[str, int]] = collections.Counter()
        self._wave: Any = None

    def wave_began(self, x: Any) -> None:
        self._wave = self._wave or x

    def _warps(self, x: Any, threads: np.ndarray) -> list[int]:
        return sorted({t // 32 for t in threads.tolist() if t < x.stride}) if x is self._wave else []

    def group_committed(self, x: Any, i: Instruction, kind: GroupKind) -> None:
        for warp in self._warps(x, x.threads):
            self._pending[kind, warp] += 1

    def group_waited(self, x: Any, i: Instruction, kind: GroupKind, left: int, *, only_read: bool = False) -> None:
        warps = self._warps(x, x.threads)
        if any(self._pending[kind, warp] > left for warp in warps):
            self.mattered[i] += 1
        for warp in warps:
            self._pending[kind, warp] = min(self._pending[kind, warp], left)

    def mbarriers_passed(self, x: Any, i: Instruction, waits: Any, *, relaxed: bool, scope: int, by_parity: bool, is_seen: bool) -> None:
        self.passed[i] += any(self._warps(x, threads) for threads, _ in waits)

    def barrier_met(self, x: Any, i: Instruction, number: int, ctas: np.ndarray, threads: np.ndarray, count: int | None) -> None:
        self.mattered[i] += bool(self._warps(x, threads[:1]))

    def barrier_passed(self, x: Any, i: Instruction, barrier: Any, threads: np.ndarray) -> None:
        self.mattered[i] += bool(self._warps(x, threads[:1]))


class Relaxed(NamedTuple):
    """What --relax has done: the notes, and lines on each wait that was weakened, or on why none was."""

    notes: list[Finding]
    lines: list[str]


class _Wait(NamedTuple):
    """A wait of one source line, with all its PTX lines. `groups` is the N of `wait_group N`; None for a barrier of
    threads or a wait for an mbarrier.
    """

    instruction: Instruction
    lines: tuple[int, ...]
    groups: int | None

    def weakened(self, text: str, count: int) -> str:
        """The kernel with `wait_group count` there, without the barrier, or with a wait that passes at once."""
        lines = text.split("\n")
        for number in self.lines:
            line = _BARRIERS.sub("", lines[number - 1])
            line = _MBARRIERS.sub(r"setp.eq.u32 \1, 0, 0;", line)
            lines[number - 1] = _GROUPS.sub(lambda m: f"{m[1]}{m[2]}{count}{m[4]}", line)
        return "\n".join(lines)


def _waits(text: str, mattered: Sequence[Instruction]) -> Iterator[_Wait]:
    """The waits that mattered and stand alone in their lines."""
    lines, by_place = text.split("\n"), collections.defaultdict(list)
    for i in sorted(mattered, key=lambda i: i.line):
        groups, barriers = _GROUPS.findall(lines[i.line - 1]), _BARRIERS.findall(lines[i.line - 1])
        if len(groups) + len(barriers) + len(_MBARRIERS.findall(lines[i.line - 1])) == 1:
            count = int(groups[0][2]) if groups else None
            by_place[i.name, i.line if i.location is None else i.location, count].append(i)
    for (_, _, count), waits in by_place.items():
        yield _Wait(waits[0], tuple(dict.fromkeys(i.line for i in waits)), count)


def needless_waits(
    gpu: Any,
    usual: Run,
    config: LaunchConfig,
    options: RunOptions,
    before: MemoryCopy,
    waits: WaitObserver,
    at: Sequence[str] = (),
) -> Relaxed:
    """Report P102 for each wait of a run without findings that was not needed. Global memory before the run is
    `before`. At the end memory is again as the run left it. The Gpu that ran it is `gpu`. The waits to try are `at`
    (default: all but those for mbarriers).
    """
    mattered = _named(usual, waits, at) if at else waits.mattered
    if not usual.ok or usual.launch.status or usual.ctas < usual.launch.ctas:
        return Relaxed([], ["relax: no wait was weakened: the launch has findings, or did not run to its end"])
    if usual.stages is not None and not any(ring.refills > len(ring.stages) for ring in usual.pipeline.rings):
        return Relaxed([], ["relax: no wait was weakened: no ring of stages was filled often enough (more than twice each stage)"])
    asked = dataclasses.replace(
        options, workers=1, progress=False, observers=(), counters=False, pipeline=False, limit_seconds=5 + 4 * usual.seconds
    )  # fmt: skip

    known = {f.code for f in usual.remarks}

    def needed_by(text: str) -> str:
        """Why the weakened wait was needed; "" if it was not."""
        before.put_back()
        try:
            run = gpu.run(text, config, asked)
        except SmemsimError:
            return "the launch fails"
        if codes := [code for code in dict.fromkeys(f.code for f in (*run.findings, *run.remarks)) if code not in known]:
            return f"smemsim reports {', '.join(codes)}"  # X007 may be a remark
        if not run.ok or run.launch.status or run.ctas != usual.ctas:
            return "the launch does not end"
        is_same = all(np.array_equal(region.data, left.bytes[region]) for region in before.regions)
        return "" if is_same else "memory differs at the end"

    found: list[Finding] = []
    lines: list[str] = []
    with before.in_place() as left:
        tried_waits = [*_waits(usual.ptx, [i for i, n in mattered.items() if n >= FEWEST])][:MOST_TRIED]
        for wait in tried_waits:
            count, why = _weakest(wait, usual.ptx, needed_by)
            lines.append(f"      {usual.place_of(wait.instruction)}  {_weaker(wait, count)}: {_verdict(count, why)}")
            if count is not None:
                found.append(_told(wait, count, mattered[wait.instruction]))
    return Relaxed(found, [_headline(len(tried_waits), len(found)), *lines])


def _weakest(wait: _Wait, text: str, needed_by: Callable[[str], str]) -> tuple[int | None, str]:
    """(the most groups that may stay in flight, 0 for a barrier that is left out, None if the wait is needed; why the
    next weaker one is needed).
    """
    first = 0 if wait.groups is None else wait.groups + 1
    found = None
    for count in range(first, first + (1 if wait.groups is None else MOST_GROUPS)):
        if why := needed_by(wait.weakened(text, count)):
            return found, why
        found = count
    return found, ""


def _name(wait: _Wait) -> str:
    i = wait.instruction
    return i.name.removesuffix(".aligned") if wait.groups is None else shorter(i.name)


def _weaker(wait: _Wait, count: int | None) -> str:
    """The waits that were tried: "wgmma.wait_group 0 as 1", "bar.sync left out"."""
    if wait.groups is None:
        return f"{_name(wait)} left out"
    return f"{_name(wait)} {wait.groups} as {wait.groups + 1 if count is None else count}"


def _verdict(count: int | None, why: str) -> str:
    return f"needed: {why}" if count is None else "not needed (P102): smemsim stays silent, and memory is the same"


def _headline(tried: int, needless: int) -> str:
    """How many waits were weakened, and how many were not needed."""
    if not tried:
        return f"relax: no wait was weakened: none held a thread of CTA 0 back at least {FEWEST} times"
    return f"relax: {tried} wait{'s' * (tried != 1)} weakened, {needless} not needed in this launch"


def _named(usual: Run, waits: WaitObserver, at: Sequence[str]) -> dict[Instruction, int]:
    """The waits at a PTX line ("582"), at a source line ("gemm.cu:163"), or whose name begins so ("wgmma.wait_group").
    InputError for a name that no wait has.
    """
    place = Sources(usual.launch.program.inlined.body).place
    known = {**waits.passed, **waits.mattered}
    found: dict[Instruction, int] = {}
    for name in at:
        here = {
            i: n
            for i, n in known.items()
            if str(i.line) == name or i.name.startswith(name) or (i.location is not None and _is_at(str(place(i.location)), name))
        }
        if not here:
            own = [
                f"{i.line} ({i.name}{'' if i.location is None else f', {str(place(i.location)).rpartition(chr(47))[2]}'})"
                for i in sorted(known, key=lambda i: i.line)
            ]
            listed = ", ".join(own[:MOST_LISTED]) + f" and {len(own) - MOST_LISTED} more" * (len(own) > MOST_LISTED)
            raise InputError(
                f"relax at {shown(name)}: no wait of CTA 0 is there; give a line of the PTX, a source line (gemm.cu:163), or the begin of an "
                f"instruction's name. {f'The waits are at PTX lines {listed}' if own else 'CTA 0 has no wait'}"
            )
        found |= here
    return found


def _is_at(place: str, name: str) -> bool:
    return place == name or place.endswith("/" + name)


def _told(wait: _Wait, count: int, times: int) -> Finding:
    i = wait.instruction
    name = _name(wait)
    others = "" if len(wait.lines) == 1 else f" (nor at {len(wait.lines) - 1} more PTX lines of its source line)"
    fix = f"leave {name} out" if wait.groups is None else f"{name} {count}"
    weaker = "without it" if wait.groups is None else f"with {name} {count}"
    why = f"a thread had something to wait for here {times} times, but {weaker} the sanitizer reports nothing, and all bytes in memory are the same"
    return at_instruction(
        "P102",
        i,
        f"{name} was not needed in this launch{others}",
        f"{fix} (tried: silent), if launches of other sizes do not need it",
        why=why,
    )
