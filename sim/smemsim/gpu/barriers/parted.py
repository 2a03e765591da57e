"""Barriers in branches: lanes of a warp, or warps, that arrive at one phase of a barrier by different instructions (PTX ISA 9.7.13.1, 9.7.13.4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.gpu.wave import WARP
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.gpu.wave import Wave

__all__ = ["check_aligned", "check_parted", "note_parted", "tell_parted"]

HARMED = ("X003", "X004", "X005", "X008", "R507")  # accesses that nothing orders
MOST = 12  # warps that are listed


@dataclasses.dataclass(eq=False)
class _Parted:
    """A phase of a barrier in which warps arrived by different instructions: `lines` by warp, 0 of those that did not, from warp `first` on.

    `late` are warps that come to `at`, the line of some of the others, only behind it.
    """

    title: str
    first: int
    lines: np.ndarray
    late: list[int] = dataclasses.field(default_factory=list)
    at: int = 0


def check_aligned(x: Wave, i: Instruction, title: str, first: int, arrived: np.ndarray, aligned: np.ndarray) -> None:
    """X011 where lanes of a warp have arrived by different instructions at an aligned barrier, which is one for all of them.

    `arrived` are the lines by which threads have, from thread `first` of the wave on, 0 of those that have not; `aligned` whether these are aligned.
    """
    concerned = np.repeat(aligned.reshape(-1, WARP).any(axis=1), WARP)
    lines = np.where(concerned, arrived, 0).reshape(-1, WARP)
    lowest = np.where(lines > 0, lines, np.iinfo(np.int32).max).min(axis=1)
    parted = np.flatnonzero((lines.max(axis=1) > 0) & (lines.max(axis=1) != lowest))
    if not parted.size:
        return
    warp = int(parted[0])
    parts = {int(line): np.flatnonzero(lines[warp] == line).tolist() for line in np.unique(lines[warp][lines[warp] > 0])}
    which = ", ".join(f"{_lanes(lanes)} at line {line}" for line, lanes in parts.items())
    i = _at(x, min(parts)) or i
    x.launch.find(
        "X011", i, f"threads of {_warps(x, [first // WARP + warp])} arrive at {title} with different instructions: {which}; that is undefined for {i.name}, "
        "which the whole warp executes together", "put one barrier where the paths have met",
        because="PTX ISA 9.7.13.1",
    )  # fmt: skip


def note_parted(x: Wave, key: Any, title: str, first: int, arrived: np.ndarray) -> None:
    """Remember the first phase of a barrier of all threads in which warps have arrived by different instructions; as for `check_aligned`."""
    by_warp = arrived.reshape(-1, WARP).max(axis=1)
    known: dict[Any, _Parted] = x.state.setdefault(note_parted, {})
    if key not in known and len(np.unique(by_warp[by_warp > 0])) > 1:
        known[key] = _Parted(title, first // WARP, by_warp)


def check_parted(x: Wave, i: Instruction, concerns: Callable[[Any], bool]) -> None:
    """The running threads arrive at a barrier, whose keys are those that it `concerns`: only now by a line by which others did in a parted phase?"""
    for key, parted in x.state.get(note_parted, {}).items():
        if parted.late or not concerns(key):
            continue
        warps = np.unique(x.threads >> 5) - parted.first
        own = warps[(warps >= 0) & (warps < len(parted.lines))].tolist()
        late = [warp for warp in own if parted.lines[warp] not in (0, i.line)]
        if (parted.lines == i.line).any():
            parted.late, parted.at = late, i.line


def tell_parted(x: Wave) -> None:
    """X011 at a barrier of all threads that some warps come to and others skip, where accesses that nothing orders show that it matters.

    The barriers that follow then part the same warps: each phase ends when some are one barrier behind. Without such an access it does no harm, and
    nothing is said.
    """
    if not any(f.code in HARMED for f in x.launch.findings.values()):
        return
    for parted in x.state.get(note_parted, {}).values():
        i = _at(x, int(parted.lines[parted.late[0]])) if parted.late else None
        if i is None:
            continue
        mine, others = (
            _warps(x, [parted.first + warp for warp in w]) for w in (parted.late, np.flatnonzero(parted.lines == parted.at).tolist())
        )
        x.launch.find(
            "X011", i, f"{parted.title}: the phase that {mine} arrived in here is the one that {others} arrived in at line {parted.at}, where {mine} arrived "
            "only a phase later: a branch lets some skip this barrier, and behind it they are one barrier apart",
            "let all threads come to it: take it out of the branch, or use a barrier of its own for those that do",
            because="CUDA: __syncthreads() in a branch needs all threads to take it the same way",
        )  # fmt: skip


def _at(x: Wave, line: int) -> Instruction | None:
    return next((i for i in x.program.inlined.body if i.line == line), None)


def _warps(x: Wave, warps: list[int]) -> str:
    """Warps, by their number in the wave, as a kernel author knows them."""
    found = []
    per_cta = x.stride // WARP
    for cta in dict.fromkeys(warp // per_cta for warp in warps):
        own = [str(warp % per_cta) for warp in warps if warp // per_cta == cta]
        of = f" of CTA {x.ctas[cta].number}" if x.launch.ctas > 1 else ""
        found.append(f"warp{'s' * (len(own) > 1)} {', '.join(own[:MOST])}{' ...' * (len(own) > MOST)}{of}")
    return " and ".join(found[:MOST])


def _lanes(lanes: list[int]) -> str:
    whole = lanes == list(range(lanes[0], lanes[-1] + 1))
    return f"lane {lanes[0]}" if len(lanes) == 1 else f"lanes {lanes[0]} to {lanes[-1]}" if whole else f"lanes {', '.join(map(str, lanes))}"
