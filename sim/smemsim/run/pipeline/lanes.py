"""The activity of warps and engines over time, for the picture: spans of waits, and of matrix instructions and stores.
Lengths are assumed.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from smemsim.core.ptx.module import Instruction

__all__ = ["GROUP", "Lanes", "Missing", "Role", "Span", "Stuck"]

MOST_SPANS = 4096
GROUP = 4  # warps of a warpgroup
DOES = ("load", "mma", "store", "tensor memory", "wait")  # the warps that identify a role


class Span(NamedTuple):
    """From `begin` to `end` a warp waits, or an engine works. The label is a barrier with its phase, or the number of a
    load. A thread learns `loads` and `reads` by a wait, as in `Known`.
    """

    # of a warp: "load", "mma", "store", "wait", "own MMAs", "barrier"; of an engine: "mma", "store", "tensor memory"
    kind: str
    begin: float
    end: float
    label: str
    instruction: Instruction
    loads: int = 0
    reads: int = 0


class Missing(NamedTuple):
    """The arrivals and bytes that the current `phase` of an mbarrier lacks: `pending` of `expected` arrivals, and `tx`
    bytes. Warps that have arrived in it are `came`, with the line. Warps whose last arrival was in an earlier phase are
    `before`. Its arrivals know `reads`, as in `Known`. Other CTAs of the cluster that have arrived at their own
    mbarrier at this offset, and never at this one, are `absent`, by their number in the grid. The number of the CTA of
    `came` is `cta`.
    """

    phase: int
    expected: int
    pending: int
    tx: int
    came: tuple[tuple[int, Instruction], ...]
    before: tuple[int, ...]
    reads: int
    absent: tuple[int, ...] = ()
    cta: int = 0


class Stuck(NamedTuple):
    """A wait that never ends: the warps of the first CTA that wait, the instruction, and the condition that they wait
    for, in words. The first of them is `thread`. The mbarrier that it waits at is `barrier`. Warps that have arrived at
    it, or at those of other stages, and have not in this phase, are `overdue`. The mbarriers at which they have arrived
    are `elsewhere`.
    """

    warps: tuple[int, ...]
    instruction: Instruction
    why: str
    thread: int = -1
    barrier: tuple[int, int] | None = None
    overdue: tuple[int, ...] = ()
    missing: Missing | None = None
    elsewhere: tuple[tuple[int, int], ...] = ()


class Role(NamedTuple):
    """Warps that execute the same instructions. `name` is what they do, `warp` is the one that is drawn."""

    name: str
    warps: tuple[int, ...]
    warp: int


@dataclasses.dataclass(eq=False)
class Lanes:
    """The spans of the first CTA, by warp and by engine: ("tensor core", n) for the n-th reader, ("stores", 0)."""

    warps: dict[int, list[Span]] = dataclasses.field(default_factory=dict)
    engines: dict[tuple[str, int], list[Span]] = dataclasses.field(default_factory=dict)
    stuck: list[Stuck] = dataclasses.field(default_factory=list)
    # by the number of a reader: its warps
    readers: dict[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    count: int = 0

    def warp_does(self, warp: int, kind: str, begin: float, end: float, label: str, i: Instruction, loads: int = 0, reads: int = 0) -> None:
        """A warp does something, or waits."""
        if self.count < MOST_SPANS:
            self.count += 1
            self.warps.setdefault(warp, []).append(Span(kind, begin, end, label, i, loads, reads))

    def engine_does(self, engine: str, number: int, span: Span) -> None:
        """An engine does something. Spans of one label that follow each other are one."""
        spans = self.engines.setdefault((engine, number), [])
        if spans and (last := spans[-1]).label == span.label and last.kind == span.kind and last.end >= span.begin:
            spans[-1] = last._replace(end=max(last.end, span.end))
        elif self.count < MOST_SPANS:
            self.count += 1
            spans.append(span)

    def roles(self) -> list[Role]:
        """Warps by what they execute: those that load first, those that only wait last. The four warps of a warpgroup
        that multiplies are one.
        """
        by_unit: dict[int, set[tuple[str, int]]] = {}
        members: dict[int, list[int]] = {}
        for warp, spans in sorted(self.warps.items()):
            group = warp // GROUP * GROUP
            is_group = all(any(one.kind == "mma" for one in self.warps.get(w, ())) for w in range(group, group + GROUP))
            unit = group if is_group else warp
            by_unit.setdefault(unit, set()).update((span.kind, span.instruction.line) for span in spans)
            members.setdefault(unit, []).append(warp)
        found: dict[frozenset[tuple[str, int]], list[int]] = {}
        for unit, does in by_unit.items():
            found.setdefault(frozenset(does), []).extend(members[unit])
        roles = []
        for of, warps in found.items():
            if kinds := [kind for kind in DOES if any(kind == k for k, _ in of)]:
                roles.append((kinds, Role(_named(kinds), tuple(warps), warps[0])))
        return [role for _, role in sorted(roles, key=lambda one: ([DOES.index(k) for k in one[0]], one[1].warps))]


def _named(kinds: list[str]) -> str:
    """The name of warps with these instructions.

    >>> _named(["load", "wait"]), _named(["mma", "store"]), _named(["wait"])
    ('loads', 'MMAs, stores', 'waits')
    """
    words = {"load": "loads", "mma": "MMAs", "store": "stores", "tensor memory": "epilogue"}
    return ", ".join(words[k] for k in kinds if k in words) or "waits"
