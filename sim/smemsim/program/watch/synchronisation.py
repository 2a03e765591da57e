"""What threads commit and wait for in groups (PTX ISA 9.1 §9.7.9.25.3, async-group), and whose mbarrier.init they have seen (9.7.13.15.9)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from smemsim.program.watch.clocks import Formal, Order
from smemsim.program.watch.operations import Operation
from smemsim.program.watch.twins import Twins
from smemsim.program.wave import WARP
from smemsim.ptx.module import Instruction

__all__ = ["CommitGroups", "Initialised"]


@dataclasses.dataclass(eq=False)
class _Groups:
    """The operations of a warp's open group, and of those that it has committed and not waited for."""

    open: list[Operation] = dataclasses.field(default_factory=list)
    pending: list[list[Operation]] = dataclasses.field(default_factory=list)


class CommitGroups:
    """The groups of every warp, of each kind: "bulk" "cp.async" "wgmma". `copies` are the open operations of cp.async, by their warp."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.copies: dict[int, Operation] = {}
        self._groups: dict[tuple[int, str], _Groups] = {}

    def remembered(self) -> list[int]:
        """The operations of all groups, by their numbers."""
        groups = [op for g in self._groups.values() for some in (g.open, *g.pending) for op in some]
        return [op.number for op in (*groups, *self.copies.values())]

    def renumber(self, kept: np.ndarray, new: np.ndarray, room: int) -> None:
        """Does nothing: this part holds operations, which know their new numbers."""

    def spread(self, first: CommitGroups, twins: Twins) -> None:
        """The groups of the warps of all CTAs, from those of the first one's."""
        self.copies.update(twins.by_warp(first.copies, twins.of))
        for (warp, kind), g in first._groups.items():
            for n in range(twins.count):
                open_, *pending = ([twins.of(op, n) for op in some] for some in (g.open, *g.pending))
                self._groups[warp + n * twins.warps, kind] = _Groups(open_, pending)

    def of_kind(self, kind: str) -> list[Operation]:
        """The operations of all groups of a kind, open or pending."""
        return [op for (_, of), g in self._groups.items() if of == kind for some in (*g.pending, g.open) for op in some]

    def _of(self, warp: int, kind: str) -> _Groups:
        found = self._groups.get((warp, kind))
        if found is None:
            found = self._groups[warp, kind] = _Groups()
        return found

    def joins(self, ops: Iterable[Operation], kind: str) -> None:
        """Operations belong to the next group that their warps commit."""
        groups_of = self._groups
        for op in ops:
            for warp in op.warps.tolist():
                groups = groups_of.get((warp, kind))
                (groups or self._of(warp, kind)).open.append(op)

    def commit(self, warps: np.ndarray, kind: str) -> None:
        """Warps commit their open groups."""
        for warp in warps.tolist():
            if kind == "cp.async":
                self.copies.pop(warp, None)
            groups = self._of(warp, kind)
            groups.pending.append(groups.open)
            groups.open = []

    def counted(self, warps: np.ndarray, barrier: Any) -> None:
        """An mbarrier counts, by cp.async.mbarrier.arrive, all copies that warps have issued until now, committed or not; no group changes
        (PTX ISA 9.1 §9.7.13.15.15)."""
        for warp in warps.tolist():
            self.copies.pop(warp, None)
            groups = self._of(warp, "cp.async")
            flags = np.zeros(self.order.done.shape[1], bool)
            for group in (*groups.pending, groups.open):
                group[:] = [op for op in group if not self.order.done[warp, op.number]]
                flags[[op.number for op in group]] = True
            self.order.brings_all(flags, np.array([warp]), barrier)

    def wait(self, warps: np.ndarray, kind: str, left: int, *, only_read: bool = False) -> Iterator[tuple[int, list[Operation]]]:
        """Warps wait until at most `left` groups are pending, `only_read` for what these read: each warp that waits for something, and for what."""
        waited = []
        for warp in warps.tolist():
            groups = self._groups.get((warp, kind))
            count = 0 if groups is None else len(groups.pending) - left
            if groups is None or count <= 0:
                continue
            over = [op for done in groups.pending[:count] for op in done]
            if not only_read:
                del groups.pending[:count]
            if over:
                waited.append((warp, over))
        if waited:
            self.order.know(waited, only_read=only_read)
        yield from waited

    def wait_for(self, op: Operation, warp: int, kind: str) -> list[Operation]:
        """A warp waits for the group of an operation, and so for all in front of it, committed or not; returns what it has waited for."""
        groups = self._of(warp, kind)
        count = next((n for n, group in enumerate(groups.pending, 1) if op in group), None)
        over = [one for group in groups.pending[:count] for one in group]
        if count is None:  # not committed yet
            over += groups.open
            groups.open = []
        del groups.pending[:count]
        if over:
            self.order.knows(np.array([warp]), over)
        return over


@dataclasses.dataclass(eq=False)
class _Made:
    """An mbarrier.init: the warp that executed it, its clock then, the instruction, and which warps have seen it."""

    warp: int
    when: int
    instruction: Instruction
    seen_by: set[int]


class Initialised:
    """The mbarriers that have been initialised, and who has seen that."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._made: dict[Any, _Made] = {}
        self._published: set[Any] = set()  # those with a fence.mbarrier_init behind

    def spread(self, first: Initialised, twins: Twins) -> None:
        """Those of all CTAs, from those of the first one."""
        for barrier, made in first._made.items():
            for n, own in enumerate(twins.made[barrier]):
                begin = n * twins.warps
                self._made[own] = _Made(made.warp + begin, made.when, made.instruction, {warp + begin for warp in made.seen_by})
                if barrier in first._published:
                    self._published.add(own)

    def makes(self, i: Instruction, barrier: Any, thread: int) -> None:
        """A thread executes mbarrier.init."""
        warp = thread // WARP
        self._made[barrier] = _Made(warp, int(self.order.clock[warp]), i, {warp})

    def publish(self, warps: set[int]) -> None:
        """fence.mbarrier_init of warps: who meets them at a barrier of the cluster, relaxed or not, has seen their mbarrier.init."""
        self._published |= {barrier for barrier, made in self._made.items() if made.warp in warps}

    def met(self, warps: set[int]) -> None:
        """The warps of a cluster have met at its barrier."""
        for barrier in [b for b in self._published if self._made[b].warp in warps]:
            self._made[barrier].seen_by |= warps
            self._published.discard(barrier)

    def unseen(self, barrier: Any, warps: np.ndarray) -> Iterator[tuple[int, int, Instruction, Formal]]:
        """Warps that use an mbarrier and have not seen its mbarrier.init: each with the warp that executed that, the instruction, and which of
        EXCUSES alone is in the way."""
        made = self._made.get(barrier)
        if made is None:
            return
        for warp in sorted(set(warps.tolist()) - made.seen_by):
            if self.order.has_seen(warp, made.warp) >= made.when:
                made.seen_by.add(warp)
            else:
                excuse = next((order.widens[-1] for order in self.order.might_be if order.has_seen(warp, made.warp) >= made.when), "")
                yield warp, made.warp, made.instruction, excuse
