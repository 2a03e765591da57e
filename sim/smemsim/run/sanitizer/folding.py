"""Tables of shared memory for a cohort: one CTA stands for all, while the CTAs of a wave do the same, each in its own
window.

CTAs of one kernel mostly access the same words of their windows by the same threads between the same barriers, and
issue the same asynchronous operations. Then the ordering state of each word is identical in every CTA. So the tables
of `shared_table.py` have the words of the first CTA only. Every access is first compared across the CTAs. The
comparison covers the running threads, their places or operations, the clocks and the synchronisations. It also covers
what their warps know about each other and about the operations. If one of these differs, or an access is not ordered,
the tables are expanded to all CTAs (`unfolded`), and the access is checked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.run.cohort import Cohort, are_repeated, own_of
from smemsim.run.sanitizer import operation_sets, shared_loops
from smemsim.run.sanitizer.epochs import Epochs
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.lanes import LANE_BITS, PART_BITS, Lanes
from smemsim.run.sanitizer.operations import OPERATIONS, Operation, Renumbering, are_warps
from smemsim.run.sanitizer.shared_loops import Tables

if TYPE_CHECKING:
    from smemsim.run.views import Cta, Wave

__all__ = ["Folding", "Knowledge"]


class Knowledge:
    """Do the warps of all CTAs have the same knowledge about each other and about their operations? All tables that
    exist once depend on this answer.
    """

    def __init__(self, x: Wave, clocks: VectorClocks) -> None:
        self.count, self.warps, self.clocks = len(x.ctas), len(clocks.clock) // len(x.ctas), clocks
        self.alike: set[int] = set()  # operations of the first CTA that the others have issued alike, by number
        self._open: set[int] = set()  # those of which not all warps know that they are over
        self._at = -1  # the change of the clocks after which the knowledge was last found equal

    def has_issued(self, numbers: Iterable[int]) -> bool:
        """All CTAs issue operations, which have these numbers in the first one. False where their warps know not the
        same of them.
        """
        new = set(numbers) - self.alike
        if not self._know_alike(new):
            return False
        self.alike |= new
        self._open |= new
        return True

    def is_the_same(self) -> bool:
        """Do they know the same?"""
        clocks = self.clocks
        if self._at == clocks.changes:
            return True
        clock = clocks.clock.reshape(self.count, -1)
        if not (clock == clock[0]).all() or not all((block == block[0]).all() for block in clocks.own_blocks(self.warps)):
            return False
        if not self._know_alike(self._open):
            return False
        own, firsts = slice(self.warps), list(self._open)
        are_over = np.asarray((clocks.done[own, firsts] & clocks.read_done[own, firsts]).all(axis=0))
        self._open = {first for first, is_over in zip(firsts, are_over.tolist(), strict=True) if not is_over}
        self._at = clocks.changes
        return True

    def _know_alike(self, firsts: set[int]) -> bool:
        clocks = self.clocks
        shift = clocks.ops.own if clocks.ops.are_shared else 0
        return not firsts or bool(
            shared_loops.know_alike(clocks.done, clocks.read_done, self.warps, np.array(list(firsts), np.int64), shift)
        )

    def remembered(self) -> tuple[int, ...]:
        """None: operations that no other table remembers may be forgotten."""
        return ()

    def renumber(self, to: Renumbering) -> None:
        """Operations have new numbers."""
        self.alike = {int(to.new[first]) for first in self.alike if to.new[first] >= 0}
        self._open, self._at = set(self.alike), -1


class Folding:
    """Whether the CTAs of a wave do the same, and how tables of one become those of all."""

    def __init__(self, x: Wave, clocks: VectorClocks, lanes: Lanes, knowledge: Knowledge) -> None:
        self.x, self.clocks, self.lanes, self.knowledge = x, clocks, lanes, knowledge
        self.count, self.warps = len(x.ctas), len(clocks.clock) // len(x.ctas)
        self._numbers = np.arange(self.count, dtype=np.int64)[:, None]
        assert x.cohort is not None
        self.cohort: Cohort = x.cohort
        self._times = self._numbers * self.warps << PART_BITS

    @property
    def _apart(self) -> np.ndarray:
        """The distance of each CTA's operation numbers from those of the first CTA."""
        return self._numbers * self.clocks.ops.own

    @staticmethod
    def is_possible(x: Wave) -> bool:
        """Do the CTAs of a wave leave each other's windows alone?"""
        return x.cohort is not None and x.cohort.is_apart and not x.scratch

    def are_in_step(self, epochs: Epochs) -> bool:
        """Do the warps of all CTAs have the same clocks, meetings and epochs?"""
        clock = self.clocks.clock.reshape(self.count, -1)
        return bool((clock == clock[0]).all()) and self._have_met_alike(epochs)

    def _have_met_alike(self, epochs: Epochs) -> bool:
        now = self.lanes.now.reshape(self.count, -1)
        return bool((epochs.epoch == epochs.epoch[0]).all() and (now - self._times == now[0]).all())

    def _are_alike(self, epochs: Epochs) -> bool:
        """Are all CTAs in step, and do their warps know the same?"""
        return self.knowledge.is_the_same() and self._have_met_alike(epochs)

    def of_one(self, places: np.ndarray, epochs: Epochs) -> tuple[np.ndarray, np.ndarray] | None:
        """The places (bytes) of an access of the running threads in the first CTA's window, and its threads. None if
        other CTAs differ.
        """
        if not self._are_alike(epochs):
            return None
        at, threads = self.cohort.own_places(places), self.cohort.own_threads(self.x.threads)
        return None if at is None or threads is None else (at, threads)

    def of_first(self, ops: Sequence[Operation], ctas: Sequence[Cta], epochs: Epochs) -> int:
        """The number of operations of the first CTA, among those that CTAs issue alike; 0 if CTAs differ."""
        if not self._are_alike(epochs):
            return 0
        own, numbers = self._numbers_of(ops, ctas)
        return own if numbers is not None and self.knowledge.has_issued(numbers.tolist()) else 0

    def _numbers_of(self, ops: Sequence[Operation], ctas: Sequence[Cta]) -> tuple[int, np.ndarray | None]:
        """How many of operations are the first CTA's, and their numbers; None where other CTAs issue something else."""
        if ops[0].cohort is not None:  # begun at once by all CTAs
            return len(ops), np.array([op.number for op in ops])
        count, own = self.count, len(ops) // self.count
        if not own or own * count != len(ops) or [cta.index for cta in ctas] != np.repeat(self._numbers, own).tolist():
            return own, None
        if not are_repeated([op.lane for op in ops], own) or own_of(np.array([op.warps[0] for op in ops]), count, self.warps) is None:
            return own, None
        return own, own_of(np.array([op.number for op in ops]), count, self.clocks.ops.own)

    def remembered(self, of_one: np.ndarray) -> np.ndarray:
        """The operations of all CTAs, from those of the first."""
        found: np.ndarray = (of_one + self._apart).reshape(-1)
        return found

    def unfolded(self, tables: Tables, epochs: Epochs) -> Tables:
        """The tables of all CTAs, from those of one; the summary of `epochs` becomes one of all, too."""
        epochs.written, epochs.read = self._of_all(epochs.written), self._of_all(epochs.read)
        who = np.tile(tables.who, self.count)
        of_each = who.reshape(self.count, -1)
        of_each += are_warps(of_each) * (self._numbers * self.warps).astype(np.int32)
        if self.knowledge.alike:
            of_each += (of_each >= OPERATIONS) * self._apart.astype(np.int32)
        twins = self.count, self.clocks.ops.own
        read_by, joint = (
            operation_sets.entries_of_twins(entries, *twins, tables.sets).reshape(-1) for entries in (tables.read_by, tables.joint)
        )
        read_when, read_line = self._of_all(tables.read_when), self._of_all(tables.read_line)
        return tables._replace(
            who=who, when=self._of_all(tables.when), line=self._of_all(tables.line), strong=self._of_all(tables.strong),
            read_when=read_when, read_line=read_line, polled_when=read_when, polled_line=read_line, changed_when=read_when,
            changed_line=read_line, read_by=read_by, mark=self._marks(tables.mark), read_mark=self._marks(tables.read_mark),
            joint=joint, sets=operation_sets.of_twins(tables.sets, *twins),
        )  # fmt: skip

    def _of_all(self, of_one: np.ndarray) -> np.ndarray:
        """A table of all CTAs, each of which has what one has; memory that holds nothing is not touched."""
        if not of_one.any():
            return np.zeros((self.count * len(of_one), *of_one.shape[1:]), of_one.dtype)
        return np.tile(of_one, (self.count, *(1,) * (of_one.ndim - 1)))

    def all_reads(self, of_one: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """For all CTAs what one CTA has: stamps of reads, their lines, clocks and marks."""
        *tables, marks = of_one
        return *map(self._of_all, tables), self._marks(marks)

    def _marks(self, of_one: np.ndarray) -> np.ndarray:
        """Marks of all CTAs: the time of a warp is that of the first CTA's, and its number."""
        marks = self._of_all(of_one)
        if of_one.any():
            of_each = marks.reshape(self.count, -1)
            of_each += (of_each != 0) * (self._times << LANE_BITS)
        return marks
