"""Commits and waits of threads in groups (PTX ISA 9.1 §9.7.9.25.3, async-group), and the mbarrier.init that threads
have seen (9.7.13.15.9).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction
from smemsim.run.cohort import Cohort
from smemsim.run.sanitizer.happens_before import Formal, VectorClocks
from smemsim.run.sanitizer.operations import Operation, Operations, Renumbering
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.warps import WARP, are_whole_warps

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["ALL_LANES", "CommitGroups", "Initialised", "Threads", "by_warps"]


ALL_LANES = (1 << WARP) - 1
Threads: TypeAlias = Sequence[tuple[int, int]]  # warps, each with a bit set of its lanes


def by_warps(threads: np.ndarray) -> list[tuple[int, int]]:
    """Threads (ascending) by their warps: each with a bit set of its lanes."""
    if are_whole_warps(threads):
        return [(warp, ALL_LANES) for warp in (threads[::WARP] // WARP).tolist()]
    warps = threads // WARP
    firsts = np.flatnonzero(np.diff(warps, prepend=-1))
    lanes = np.bitwise_or.reduceat(np.int64(1) << (threads % WARP).astype(np.int64), firsts)
    return list(zip(warps[firsts].tolist(), lanes.tolist(), strict=True))


@dataclasses.dataclass(eq=False)
class _Groups:
    """The operations of an open group, and of the groups that are committed and not waited for, of some lanes of a warp
    (a bit set) with the same history. The reads of the first `read` committed groups are complete. When the lanes last
    waited, the first `before` of them were committed (-1: they have not waited).
    """

    lanes: int
    open: list[Operation] = dataclasses.field(default_factory=list)
    pending: list[list[Operation]] = dataclasses.field(default_factory=list)
    read: int = 0
    before: int = -1

    def of(self, cta: int) -> _Groups:
        """The groups of the same lanes of another CTA, whose operations these stand for."""
        open_, *pending = ([op.of(cta) for op in some] for some in (self.open, *self.pending))
        return _Groups(self.lanes, open_, pending, self.read, self.before)

    def split(self, lanes: int) -> _Groups:
        """The groups of some of the lanes, which are no longer among these."""
        self.lanes &= ~lanes
        return _Groups(lanes, list(self.open), [list(group) for group in self.pending], self.read, self.before)


class CommitGroups:
    """The groups of every thread, of each kind: "bulk" "cp.async" "wgmma" (of a warp). `open_cp_async` are the open
    operations of cp.async, by warp.

    An operation of several lanes is complete for their warp when each of them has waited for it. While the CTAs of a
    `cohort` issue, commit and wait for the same, the groups of a kind are those of the first one; a split copies
    them. Those of cp.async are not shared: their operations have lanes.
    """

    def __init__(self, clocks: VectorClocks, operations: Operations, cohort: Cohort | None) -> None:
        self.clocks, self.operations, self.cohort = clocks, operations, cohort
        self.of_first = (
            {"bulk", "wgmma"} if cohort is not None and cohort.is_apart else set[str]()
        )  # the kinds of which the groups are the first CTA's
        self.open_cp_async: dict[int, Operation] = {}
        self._groups: dict[tuple[int, str], list[_Groups]] = {}
        self._over: list[Operation] = []  # that a wait has taken from its group, until their warp knows them to be over

    def remembered(self) -> list[int]:
        """The operations of all groups, by their numbers."""
        of_kinds = {kind: self._of_kind(kind) for kind in {kind for _, kind in self._groups}}
        alone = [op for kind, ops in of_kinds.items() if kind not in self.of_first for op in ops]
        of_all = [op for kind, ops in of_kinds.items() if kind in self.of_first for op in ops]
        return self.operations.numbers(of_all) + [op.number for op in (*alone, *self._over, *self.open_cp_async.values())]

    def renumber(self, to: Renumbering) -> None:
        """Does nothing: this part holds operations, which know their new numbers."""

    def spread(self, first: CommitGroups) -> None:
        """The groups of the first CTA, which was alone, stand for those of all."""
        self._groups = first._groups
        if first.open_cp_async or self._of_kind("cp.async"):
            self._unfold("cp.async")
            self.open_cp_async = {
                warp + n * self._warps: op.of(n) for warp, op in first.open_cp_async.items() for n in range(self.operations.units)
            }

    @property
    def _warps(self) -> int:
        """The warps of a CTA."""
        return len(self.clocks.clock) // self.operations.units

    def unfold(self, kind: str) -> None:
        """The groups of a kind become those of all CTAs."""
        if kind in self.of_first:
            self.of_first.discard(kind)
            self._unfold(kind)

    def _unfold(self, kind: str) -> None:
        of_first = [(warp, each) for (warp, of), each in self._groups.items() if of == kind]
        for op in self._of_kind(kind):
            for n in range(self.operations.units):
                op.of(n).groups = dataclasses.replace(op.groups)
        for warp, each in of_first:
            for n in range(self.operations.units):
                self._groups[warp + n * self._warps, kind] = [g.of(n) for g in each]

    def threads(self, x: Wave, kind: str) -> Threads:
        """The running threads, by warp, whose groups of a kind change: those of the first CTA for a cohort. For wgmma
        warps have whole groups.
        """
        own = self.cohort.own_running(x) if self.cohort is not None and kind in self.of_first else None
        if own is None:
            self.unfold(kind)
            own = x.threads
        return [(warp, ALL_LANES) for warp in distinct(own >> 5).tolist()] if kind == "wgmma" else by_warps(own)

    def of_kind(self, kind: str) -> list[Operation]:
        """The operations of all groups of a kind, open or pending, of all CTAs."""
        self.unfold(kind)
        return self._of_kind(kind)

    def _of_kind(self, kind: str) -> list[Operation]:
        each = [g for (_, of), groups in self._groups.items() if of == kind for g in groups]
        return list(dict.fromkeys(op for g in each for some in (*g.pending, g.open) for op in some))

    def _of(self, warp: int, kind: str, lanes: int, *, makes: bool = False) -> list[_Groups]:
        """The groups of some lanes of a warp, apart from those of its other lanes; lanes that have issued nothing
        have none, unless this call `makes` them.
        """
        each = self._groups.get((warp, kind))
        if each is None:
            if not makes:
                return []
            each = self._groups[warp, kind] = []
        if len(each) == 1 and each[0].lanes == lanes:
            return each
        found, known = [], 0
        for g in list(each):
            known |= g.lanes
            if not g.lanes & lanes:
                continue
            if g.lanes & ~lanes:
                each.append(g.split(g.lanes & lanes))
                found.append(each[-1])
            else:
                found.append(g)
        if makes and lanes & ~known:
            found.append(_Groups(lanes & ~known))
            each.append(found[-1])
        return found

    def joins(self, ops: Sequence[Operation], kind: str, lanes: int = 0) -> None:
        """Operations belong to the next group that their threads commit: these `lanes`, else the one that issued the
        operation, or all of its warps.
        """
        if kind not in self.of_first:
            ops = self.operations.each(ops)
        elif ops[0].cohort is None:
            self.unfold(kind)
        for op in ops:
            own = lanes or (ALL_LANES if kind == "wgmma" else 1 << op.lane)
            op.groups.lanes |= own
            for warp in op.warps.tolist():
                for groups in self._of(warp, kind, own, makes=True):
                    if not groups.open or groups.open[-1] is not op:
                        groups.open.append(op)

    def commit(self, threads: Threads, kind: str) -> None:
        """Threads, by their warps, commit their open groups."""
        for warp, lanes in threads:
            if kind == "cp.async":
                self.open_cp_async.pop(warp, None)
            for groups in self._of(warp, kind, lanes):
                groups.pending.append(groups.open)
                groups.open = []

    def counted(self, threads: Threads, barrier: Any, splits: Callable[[Operation, int], Operation]) -> list[Operation]:
        """An mbarrier counts, by cp.async.mbarrier.arrive, all copies that threads have issued until now, committed or
        not; no group changes (PTX ISA 9.1 §9.7.13.15.15). For an operation with other lanes it counts the part of
        these lanes, which `splits` makes. Returns what it counts.
        """
        found: list[Operation] = []
        for warp, lanes in threads:
            self.open_cp_async.pop(warp, None)
            some = [group for groups in self._of(warp, "cp.async", lanes) for group in (*groups.pending, groups.open)]
            for group in some:
                group[:] = [op for op in group if not self.clocks.done[warp, self.clocks.column(op.number)]]
            for op in [op for op in dict.fromkeys(op for group in some for op in group) if op.groups.lanes & ~lanes]:
                self._replace(some, op, splits(op, op.groups.lanes & lanes))
            flags, ops = np.zeros(self.clocks.done.shape[1], bool), [op for group in some for op in group]
            flags[[self.clocks.column(op.number) for op in ops]] = True
            self.clocks.brings_all(flags, np.array([warp]), barrier)
            found += ops
        return found

    @staticmethod
    def _replace(some: list[list[Operation]], op: Operation, part: Operation) -> None:
        for group in some:
            group[:] = [part if one is op else one for one in group]

    def unfinished(self, warps: np.ndarray) -> list[Operation]:
        """The copies (cp.async) of warps that these do not know to be complete."""
        each = [(warp, g) for warp in warps.tolist() for g in self._groups.get((warp, "cp.async"), ())]
        return [
            op
            for warp, g in each
            for some in (*g.pending, g.open)
            for op in some
            if not self.clocks.done[warp, self.clocks.column(op.number)]
        ]

    def wait(
        self, threads: Threads, kind: str, left: int, splits: Callable[[Operation, int], Operation], *, only_read: bool = False
    ) -> list[tuple[int, list[Operation]]]:
        """Threads wait until at most `left` of their groups are pending, `only_read` for their reads. Yields each warp
        that has waited for operations, and these.

        If other lanes have a part in a copy, the part of these lanes is complete: `splits` makes an operation of it.
        """
        waited = []
        for warp, lanes in threads:
            over: dict[Operation, int] = {}  # by which lanes
            for groups in self._of(warp, kind, lanes):
                for op in _left_behind(groups, left, only_read=only_read):
                    over[op] = over.get(op, 0) | groups.lanes
            self._over += over
            done = (
                list(over)
                if kind == "wgmma"
                else [done for op, by in over.items() if (done := _is_over(op, by, splits, only_read=only_read))]
            )
            self._over += done
            if done:
                waited.append((warp, done))
        if waited:
            self.clocks.know(waited, ctas=self.operations.units if kind in self.of_first else 1, only_read=only_read)
        self._over.clear()
        return waited

    def younger(self, op: Operation, kind: str) -> int | None:
        """How many groups the threads of an operation have committed after its own group, which is pending; None if
        it is not.
        """
        groups, place = self._found(op, kind)
        return None if groups is None else len(groups.pending) - place

    def is_after_wait(self, op: Operation, kind: str) -> bool:
        """Have the threads of an operation waited, and then committed its group, which is pending?"""
        groups, place = self._found(op, kind)
        return groups is not None and place > groups.before >= 0

    def is_unwaited(self, op: Operation, kind: str) -> bool:
        """Have the threads of an operation committed its group, and never waited?"""
        groups, _ = self._found(op, kind)
        return groups is not None and groups.before < 0

    def _found(self, op: Operation, kind: str) -> tuple[_Groups | None, int]:
        """The pending group of an operation, counted from 1, and of which groups it is; None if it is not pending."""
        self.unfold(kind)
        for groups in self._groups.get((int(op.warps[0]), kind), ()):
            for n, group in enumerate(groups.pending, 1):
                if op in group:
                    return groups, n
        return None, 0

    def wait_for(self, op: Operation, warp: int, kind: str) -> list[Operation]:
        """A warp waits for the group of an operation, and so for all earlier ones, committed or not. Returns these
        operations.
        """
        self.unfold(kind)
        (groups,) = self._of(warp, kind, ALL_LANES, makes=True)
        count = next((n for n, group in enumerate(groups.pending, 1) if op in group), None)
        over = [one for group in groups.pending[:count] for one in group]
        if count is None and op not in groups.open:
            return []
        if count is None:  # not committed yet
            over += groups.open
            groups.open = []
        del groups.pending[:count]
        groups.before = len(groups.pending)
        if over:
            self.clocks.knows(np.array([warp]), over)
        return over


def _left_behind(groups: _Groups, left: int, *, only_read: bool) -> list[Operation]:
    """The operations of all groups but the last `left`, for which some lanes wait."""
    count = len(groups.pending) - left
    groups.before = len(groups.pending)
    if count <= 0:
        return []
    over = [op for done in groups.pending[groups.read * only_read : count] for op in done]
    if only_read:
        groups.read = max(groups.read, count)
    else:
        del groups.pending[:count]
        groups.read, groups.before = max(0, groups.read - count), len(groups.pending)
    return over


def _is_over(op: Operation, lanes: int, splits: Callable[[Operation, int], Operation], *, only_read: bool) -> Operation | None:
    """The complete part of an operation for which these lanes have waited: all, a part, or nothing, if other lanes have
    issued it, too.
    """
    known = op.groups
    if only_read:
        known.waited_read |= lanes
        return None if known.lanes & ~known.waited_read else op
    known.waited |= lanes
    if not known.lanes & ~known.waited:
        return op
    return splits(op, lanes) if op.kind == "cp.async" else None


@dataclasses.dataclass(eq=False)
class _Made:
    """An mbarrier.init: the warp that executed it, its clock then, the instruction, and which warps have seen it."""

    warp: int
    when: int
    instruction: Instruction
    seen_by: set[int]


class Initialised:
    """The mbarriers that have been initialised, and the warps that have seen that."""

    def __init__(self, clocks: VectorClocks) -> None:
        self.clocks = clocks
        self._made: dict[Any, _Made] = {}
        self._published: set[Any] = set()  # those with a later fence.mbarrier_init

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
        self._made[barrier] = _Made(warp, int(self.clocks.clock[warp]), i, {warp})

    def publish(self, warps: set[int]) -> None:
        """fence.mbarrier_init of warps: a thread that synchronises with them at a barrier of the cluster, relaxed or
        not, has seen their mbarrier.init.
        """
        self._published |= {barrier for barrier, made in self._made.items() if made.warp in warps}

    def met(self, warps: set[int]) -> None:
        """The warps of a cluster have synchronised at its barrier."""
        for barrier in [b for b in self._published if self._made[b].warp in warps]:
            self._made[barrier].seen_by |= warps
            self._published.discard(barrier)

    def unseen(self, barrier: Any, warps: np.ndarray) -> Iterator[tuple[int, int, Instruction, Formal]]:
        """Warps that use an mbarrier and have not seen its mbarrier.init: each with the warp that executed that, the
        instruction, and which of EXCUSES alone is in the way.
        """
        made = self._made.get(barrier)
        if made is None or made.seen_by.issuperset(warps.tolist()):
            return
        for warp in sorted(set(warps.tolist()) - made.seen_by):
            if self.clocks.has_seen(warp, made.warp) >= made.when:
                made.seen_by.add(warp)
            else:
                excuse = next(
                    (order.assumes.widens[-1] for order in self.clocks.orders.might_be if order.has_seen(warp, made.warp) >= made.when), ""
                )
                yield warp, made.warp, made.instruction, excuse
