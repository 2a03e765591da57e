"""The rule of tensor memory: which earlier accesses of the same cells does nothing order before the present one? It
lists suspects, from which `tensor_findings.py` makes findings (PTX ISA 9.1 §9.7.16.6).

For example: warp 1 reads cells by tcgen05.ld that a tcgen05.mma has written. If warp 1 does not know the mma to be
over, `last_writers` lists it. If another tcgen05.mma of the same thread reads them, `is_piped` says that the tensor
core executes the two one after the other, and there is no suspect.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.masks import all_set
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.tensor_memory import LANES, WARP_LANES
from smemsim.run.sanitizer import operation_sets
from smemsim.run.sanitizer.happens_before import Formal
from smemsim.run.sanitizer.operations import GROUP, NOBODY, OPERATIONS, Operation, are_warps
from smemsim.run.sanitizer.registers import Named
from smemsim.run.sanitizer.tensor_table import PENDING, TensorTable
from smemsim.run.warps import WARP

__all__ = ["FILL", "NUMBERS", "PRODUCT", "CellAccess", "Suspect", "TensorRule", "is_cut", "is_lost"]


PRODUCT, FILL, NUMBERS = 1, 2, 3  # what nothing has read in a cell: `Cells.unread`
_PIPED = ("mma", "cp", "shift")
_OF_WARPS = ("ld", "st", "dealloc")


class CellAccess(NamedTuple):
    """The present access of cells (CTA, lanes, columns) by a warp, or by an operation that it issues."""

    i: Instruction
    at: Any
    warp: int
    does: Literal["read", "write", "free"]


@dataclasses.dataclass(frozen=True, eq=False)
class Suspect:
    """An earlier access of some cells that nothing orders before the present one.

    The field `does` says whether it reads or writes. The access is an operation (`op`), or tcgen05.ld or .st of a
    `warp` at a line. If `is_pending` is set, no tcgen05.wait has followed so far. If `is_own` is set, the warp of the
    access is the one that now accesses the cells, which is a remark.
    """

    cells: np.ndarray
    does: Literal["read", "write"]
    formal: Formal = ""
    op: Operation | None = None
    warp: int = -1
    line: int = 0
    is_pending: bool = False
    is_own: bool = False


Suspects: TypeAlias = Iterator[Suspect]


class TensorRule:
    """Lists the suspects of an access of tensor memory."""

    def __init__(self, table: TensorTable) -> None:
        self.table, self.clocks, self.operations, self.x = table, table.clocks, table.operations, table.x

    @functools.cached_property
    def named(self) -> Named:
        """Which registers of loads the blocks of the program name."""
        return Named(self.x.program)

    def is_piped(self, i: Instruction, warp: int, before: Operation) -> bool:
        """Does the tensor core execute an instruction that a warp issues now after an operation? It does if that was
        issued before, by any warp.
        """
        first = int(before.warps[0])
        return i.modifiers[0] in _PIPED and (first == warp or bool(self.clocks.seen[warp, first] >= before.when))

    def is_over(self, i: Instruction, warp: int, number: int) -> bool:
        """Does a warp that issues an instruction know an operation to be complete by then?"""
        is_done = bool(self.clocks.done[warp, self.clocks.column(number)])
        return is_done or self.is_piped(i, warp, self.operations[number])

    # ---- suspects

    def are_known(self, a: CellAccess, who: np.ndarray) -> bool:
        """Has the warp seen the writers `who` of cells, which most often are one?"""
        first = int(who.flat[0])
        if not all_set(who == first):
            return False
        if first >= OPERATIONS:
            return self.is_over(a.i, a.warp, first - OPERATIONS)
        return (first == a.warp and a.i.modifiers[0] in ("ld", "st")) or (first == NOBODY and a.does != "read")

    def last_writers(self, a: CellAccess, who: np.ndarray) -> Suspects:
        """The last writers `who` of cells that the warp has not seen."""
        i, at, warp, _ = a
        by_op = who >= OPERATIONS
        if by_op.any():
            numbers = distinct(who[by_op]) - OPERATIONS
            numbers = numbers[[not self.is_piped(i, warp, self.operations[n]) for n in numbers.tolist()]]
            unseen, formal = self.clocks.missing(lambda clocks: ~clocks.done[warp, clocks.column(numbers)])
            if unseen.any():
                number = int(numbers[unseen][0])
                yield Suspect(who == OPERATIONS + number, "write", formal, self.operations[number])
        by_warp = (who >= 0) & ~by_op
        if i.modifiers[0] in _OF_WARPS:
            by_warp &= who != warp
        if by_warp.any():
            when = self.table.cells.when[at]
            late, formal = self.clocks.missing(lambda clocks: by_warp & (clocks.seen[warp][np.where(by_warp, who, 0)] < when))
            if late.any():
                place = tuple(a[0] for a in np.nonzero(late))
                line, is_pending = int(self.table.cells.line[at][place]), bool(when[place] == PENDING)
                yield Suspect(late, "write", formal, warp=int(who[place]), line=line, is_pending=is_pending)

    def readers(self, a: CellAccess) -> Suspects:
        """The readers that may not be done when cells are overwritten, or given back."""
        i, at, warp, _ = a
        cells = self.table.cells
        for group, read_when in enumerate(cells.read_when):
            when = read_when[at]
            if not when.any():
                continue
            readers = self._readers(at, group)
            others = (readers != warp)[:, None] if i.modifiers[0] in _OF_WARPS else np.ones((len(readers), 1), bool)
            late, formal = self.clocks.missing(
                lambda order, when=when, readers=readers, others=others: others & (when > order.seen[warp, readers][:, None])  # type: ignore[misc]
            )
            if late.any():
                place = tuple(a[0] for a in np.nonzero(late))
                line, is_pending = int(cells.read_line[at][place]), bool(when[place] == PENDING)
                yield Suspect(late, "read", formal, warp=int(readers[place[0]]), line=line, is_pending=is_pending)
        by = cells.read_by[at]
        first = by.flat[:1]
        kinds = first if all_set(by == first[0]) else distinct(by)  # most often one operation has read them all
        for number in operation_sets.members_of(cells.sets, kinds):
            operation = self.operations[number]
            if self.is_piped(i, warp, operation):
                continue
            unseen, formal = self.clocks.missing(lambda order, number=number: ~order.done[warp, [order.column(number)]])  # type: ignore[misc]
            if unseen.any():
                having = [entry for entry in kinds.tolist() if number in operation_sets.members_of(cells.sets, np.array([entry]))]
                yield Suspect(np.isin(by, having), "read", formal, operation)

    def _readers(self, at: Any, group: int) -> np.ndarray:
        """The warp of a group that reads each of the lanes of cells."""
        lanes = np.arange(LANES)[at[1]] // WARP_LANES
        found: np.ndarray = at[0] * self.table.per_cta + np.minimum(group * GROUP + lanes, self.table.per_cta - 1)
        return found

    def own_stores(self, a: CellAccess) -> Suspects:
        """Stores of the warp that now loads their cells, with no tcgen05.wait::st between (rule tcgen05.own_stores)."""
        cells = self.table.cells
        own = (cells.who[a.at] == a.warp) & (cells.when[a.at] == PENDING)
        if a.warp in self.table.unwaited.stores and own.any():
            yield Suspect(own, "write", warp=a.warp, line=int(cells.line[a.at][own][0]), is_own=True)

    def own_loads(self, a: CellAccess) -> Suspects:
        """Loads of the warp that now stores to their cells, with no tcgen05.wait::ld and no use of the loaded registers
        between (rule tcgen05.own_loads).
        """
        read_when = self.table.cells.read_when[(int(self.x.tid[a.warp * WARP]) // WARP // GROUP, *a.at)]
        if not read_when.any():
            return
        lines = self.table.cells.read_line[a.at]
        for line in distinct(lines[read_when > 0]).tolist():
            load, own = self.x.program.sites.get(line), lines == line
            if load is not None and self.named.are_unused(load, a.i, is_pending=bool((read_when[own] == PENDING).any())):
                yield Suspect(own, "read", warp=a.warp, line=line, is_own=True)

    def are_read_late(self, at: Any, warp: int) -> np.ndarray:
        """The cells whose readers a warp does not know to be done."""
        cells = self.table.cells
        late = np.zeros(cells.who[at].shape, bool)
        for group, read_when in enumerate(cells.read_when):
            late |= read_when[at] > self.clocks.seen[warp, self._readers(at, group)][:, None]
        return late

    # ---- accesses without any suspect

    def passes_read(self, boxes: Sequence[tuple[int, int, int, int, int]], lanes: int) -> bool:
        """Does each warp read what an operation has written that it knows to be over, or what it has itself?"""
        for warp, cta, lane, first, end in boxes:
            self.table.touched(cta)
            cells = self.table.cells.who[cta, lane : lane + lanes, first:end]
            who = int(cells.flat[0])
            if (cells != who).any() or not (
                who == warp or (who >= OPERATIONS and self.clocks.done[warp, self.clocks.column(who - OPERATIONS)])
            ):
                return False
        return True

    def passes_free(self, given: Sequence[tuple[int, int, int, int]]) -> bool:
        """Does each warp know that all is over that others have done to the cells?"""
        clocks, cells = self.clocks, self.table.cells
        for warp, cta, first, end in given:
            self.table.touched(cta)
            at = (cta, slice(0, LANES), slice(first, end))
            who, read_when = cells.who[at], cells.read_when[(slice(None), *at)]
            numbers = [*distinct(who[who >= OPERATIONS] - OPERATIONS).tolist(), *self.table.readers_among(at)]
            by_warp = are_warps(who)
            if (
                not clocks.done[warp, clocks.column(np.array(numbers, np.int64))].all()
                or (clocks.seen[warp][who[by_warp]] < cells.when[at][by_warp]).any()
            ):
                return False
            groups, lanes = np.arange(len(read_when))[:, None] * GROUP, np.arange(LANES) // WARP_LANES
            readers = cta * self.table.per_cta + np.minimum(groups + lanes, self.table.per_cta - 1)
            if (read_when > clocks.seen[warp, readers][:, :, None]).any():
                return False
        return True

    def is_of_piped(self, op: Operation, at: Any) -> bool:
        """Have only operations accessed cells, if any, that the tensor core has executed before this one, and stores
        that its warp has seen?
        """
        warp, cells = int(op.warps[0]), self.table.cells
        who = cells.who[at]
        if cells.read_when[(slice(None), *at)].any():
            return False
        by_warp = are_warps(who)
        if by_warp.any() and (self.clocks.seen[warp][np.where(by_warp, who, 0)] < cells.when[at])[by_warp].any():
            return False
        by, last = self.table.readers_among(at), distinct(who)
        numbers = {*(last[last >= OPERATIONS] - OPERATIONS).tolist(), *by}
        return all(self.is_piped(op.instruction, warp, self.operations[n]) for n in numbers)


def is_lost(held: np.ndarray) -> bool:
    """Is the unread content of some cells a product, or the start values of a sum, so that it must not
    be overwritten? Or do their first or last columns hold a product, and the others nothing?
    """
    if not held.any():
        return False
    return bool((held == PRODUCT).all() or ((held >= FILL).all() and (held == NUMBERS).any())) or is_cut(held)


def is_cut(held: np.ndarray) -> bool:
    """Do the first or the last columns hold a product that is unread, and the others nothing?"""
    full = (held == PRODUCT).all(axis=0)
    is_one = full[0] != full[-1] and np.count_nonzero(full[1:] != full[:-1]) == 1
    return bool(is_one and not held[:, ~full].any())
