"""The table of tensor memory: the last writer of each cell and the readers since, the operations of each thread, and
the accesses of each warp without a wait.

The life of one cell: a tcgen05.mma writes it, so `who` is OPERATIONS + its number. Warp 1 reads it by tcgen05.ld:
`read_when[0, cell]` is PENDING until its tcgen05.wait::ld, and the clock of warp 1 from then on. A later mma overwrites
the cell. All tables can be those of the first CTA alone, while all CTAs do the same; `unfold` makes them those of all.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.masks import any_set
from smemsim.core.spec.tensor_memory import COLUMNS, LANES
from smemsim.run.sanitizer import operation_sets
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.operations import GROUP, NOBODY, OPERATIONS, Operation, Operations, Renumbering
from smemsim.run.warps import WARP, warps_of

if TYPE_CHECKING:
    from smemsim.core.machine.tmem.layout import AccumulatorLayout, Box
    from smemsim.run.cohort import Cohort
    from smemsim.run.sanitizer.folding import Knowledge
    from smemsim.run.views import Wave

__all__ = ["PENDING", "Cells", "Issued", "TensorTable", "Unwaited"]


PENDING = 1 << 30  # the clock of what its warp has not waited for
Pending = list[tuple[Any, int, int]]  # places in an array, the warp, the line


class Cells:
    """The last writer and the readers of each cell, (CTAs, lanes, columns).

    The last writer is in `who`, `when` and `line`: a warp, or an operation from OPERATIONS on, its clock, and its line.
    The last read by the warp of these lanes in each warpgroup is in `read_when` and `read_line`: its clock and its
    line. Operations that may still read are in `read_by`, as entries of `sets`. A matrix product, or a part of its sum,
    that nothing has read is in `unread`. The part may be one number everywhere, or different numbers that threads have
    stored.
    """

    def __init__(self, shape: tuple[int, int, int], groups: int) -> None:
        self.who = np.full(shape, NOBODY, np.int32)
        self.when, self.line = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self.read_when = np.zeros((groups, *shape), np.int32)
        self.read_line = np.zeros(shape, np.int32)
        self.read_by, self.sets = np.zeros(shape, np.int32), operation_sets.made()
        self.unread = np.zeros(shape, np.uint8)

    def of_all(self, ctas: int, per_cta: int, columns: int) -> None:
        """The cells of all CTAs, of `per_cta` warps and `columns` operations each, from those of the first one."""
        apart = np.arange(ctas, dtype=np.int32)[:, None, None]
        for name in ("when", "line", "read_line", "unread"):
            setattr(self, name, np.repeat(getattr(self, name), ctas, axis=0))
        self.read_when = np.repeat(self.read_when, ctas, axis=1)
        who = np.repeat(self.who, ctas, axis=0)
        self.who = who + np.where(who >= OPERATIONS, apart * columns, (who >= 0) * apart * per_cta).astype(np.int32)
        self.read_by = operation_sets.entries_of_twins(self.read_by[0], ctas, columns, self.sets)
        self.sets = operation_sets.of_twins(self.sets, ctas, columns)

    def renumber(self, new: np.ndarray) -> None:
        """Operations have new numbers."""
        by = self.who >= OPERATIONS
        self.who[by] = OPERATIONS + new[self.who[by] - OPERATIONS]
        is_used = np.zeros(int(self.sets.used[0]), bool)
        is_used[-self.read_by[self.read_by < 0]] = True
        self.sets, entries = operation_sets.compacted(self.sets, is_used, new)
        operation_sets.renumber(self.read_by.reshape(-1), new, entries)

    def empties(self, at: Any) -> None:
        """The content of cells counts as unwritten from now on."""
        self.who[at], self.unread[at], self.read_by[at] = NOBODY, 0, 0
        self.read_when[(slice(None), *at)] = 0

    def are_touched(self, at: Any) -> bool:
        """Has any access touched cells?"""
        return any_set(self.who[at] != NOBODY) or any_set(self.read_by[at]) or any_set(self.read_when[(slice(None), *at)])

    def operations_named(self) -> list[int]:
        """The numbers of the operations to which cells refer."""
        of_cells = (distinct(self.who[self.who >= OPERATIONS]) - OPERATIONS).tolist()
        return [*of_cells, *operation_sets.members_of(self.sets, distinct(self.read_by))]


class Issued:
    """The operations of each thread: `flags` of all so far, by their columns; `open`: those since its last commit, by
    thread and line; `last`: what its last commit came after. Have several threads of a CTA issued some (`by_several`)?
    """

    def __init__(self) -> None:
        self.by_several = False
        self.flags: dict[int, np.ndarray] = {}
        self.open: dict[tuple[int, int], Operation] = {}
        self.last: dict[int, list[Operation]] = {}

    def of_all(self, ctas: int, stride: int, operations: Operations, columns: Callable[[np.ndarray, int], np.ndarray]) -> None:
        """Those of all CTAs, of `stride` threads each, from those of the first one; `columns` moves flags to a CTA's
        columns.
        """
        every = range(ctas)
        self.flags = {thread + n * stride: columns(flags, n) for thread, flags in self.flags.items() for n in every}
        self.open = {(thread + n * stride, line): op.of(n) for (thread, line), op in self.open.items() for n in every}
        self.last = {
            thread + n * stride: [op.of(n) for op in ops if operations.remembers(op, n)] for thread, ops in self.last.items() for n in every
        }

    def renumber(self, to: Renumbering) -> None:
        """Operations have new numbers."""
        for thread, row in self.flags.items():
            self.flags[thread] = to.flags(row)


@dataclasses.dataclass(eq=False)
class Unwaited:
    """Accesses of warps without a wait: `loads` have places in `Cells.read_when` and registers (a bit set), `stores`
    places in `Cells.who`. `registers` are those of all loads.
    """

    loads: dict[int, list[tuple[Any, int]]] = dataclasses.field(default_factory=dict)
    stores: dict[int, Pending] = dataclasses.field(default_factory=dict)
    registers: int = 0

    def of_all(self, ctas: int, per_cta: int) -> None:
        """Those of all CTAs, of `per_cta` warps each, from those of the first one."""
        every = range(ctas)
        self.stores = {
            warp + n * per_cta: [((n, *at[1:]), by + n * per_cta, line) for at, by, line in stores]
            for warp, stores in self.stores.items() for n in every
        }  # fmt: skip
        self.loads = {
            warp + n * per_cta: [((at[0], n, *at[2:]), registers) for at, registers in loads]
            for warp, loads in self.loads.items() for n in every
        }  # fmt: skip


class TensorTable:
    """The shadow of the tensor memory of one wave. While `knowledge` is there, and all CTAs do the same, it is that of
    the first one. Clocks (`clocks`) order tcgen05 instructions.
    """

    def __init__(self, x: Wave, clocks: VectorClocks, operations: Operations, knowledge: Knowledge | None) -> None:
        self.x, self.operations, self.clocks = x, operations, clocks.orders.tensor or clocks
        self.ctas, self.per_cta = len(x.tensor), x.stride // WARP
        self.knowledge = knowledge if self.ctas and clocks.orders.tensor is None else None
        self._ctas_at_first = 1 if self.knowledge is not None else self.ctas
        self.issued, self.unwaited = Issued(), Unwaited()
        # By CTA: its accumulators that only adding operations have accessed, each with the last one and its box. The
        # cells have an earlier one.
        self.added: dict[int, dict[tuple[AccumulatorLayout, int], tuple[Operation, Box]]] = {}

    @functools.cached_property
    def cells(self) -> Cells:
        """The cells of the first CTA while it stands for all, else those of all: made for the first access."""
        return Cells((self._ctas_at_first, LANES, COLUMNS), -(-self.per_cta // GROUP))

    # ---- one CTA for all, and all

    def spread(self, first: TensorTable) -> None:
        """The state of the first CTA, which was alone, stands for that of all."""
        if self.ctas:
            self.cells, self.issued, self.unwaited, self.added = first.cells, first.issued, first.unwaited, first.added
            self.issued.flags = {thread: self.columns_of(flags, 0) for thread, flags in self.issued.flags.items()}
            if self.knowledge is None:
                self._unfold()

    def unfold(self) -> None:
        """The tables become those of all CTAs."""
        if self.knowledge is not None:
            self.knowledge = None
            self._unfold()

    def _unfold(self) -> None:
        self.cells.of_all(self.ctas, self.per_cta, self.operations.columns)
        self.issued.of_all(self.ctas, self.x.stride, self.operations, self.columns_of)
        self.unwaited.of_all(self.ctas, self.per_cta)
        self.added = {n: {d: (op.of(n), box) for d, (op, box) in self.added.get(0, {}).items()} for n in range(self.ctas)}

    def columns_of(self, flags: np.ndarray, cta: int) -> np.ndarray:
        """The columns of a CTA's operations, from those of the first one."""
        found, columns = np.zeros(self.clocks.done.shape[1], bool), self.clocks.ops.own
        begin = cta * columns if self.clocks.ops.are_shared else 0
        found[begin : begin + columns] = flags[:columns]
        return found

    def of_one(self, accesses: Sequence[Any], passes: Callable[[Sequence[Any]], bool]) -> Sequence[Any]:
        """The accesses (warp, CTA, ...) for which the tables are needed: the first CTA's for a cohort that `passes`."""
        if self.knowledge is not None:
            own = cast("Cohort", self.x.cohort).own_accesses(accesses)
            if own is not None and self.knowledge.is_the_same() and passes(own):
                return own
            self.unfold()
        return accesses

    def running_warps(self) -> list[int]:
        """The running warps that the tables have: the first CTA's, where all do the same."""
        if self.knowledge is not None:
            own = cast("Cohort", self.x.cohort).own_running(self.x)
            if own is not None and self.knowledge.is_the_same():
                return list(map(int, warps_of(own)))
            self.unfold()
        return list(map(int, warps_of(self.x.threads)))

    # ---- numbers of operations

    def remembered(self) -> list[int]:
        """The numbers of the operations that cells or open commits refer to."""
        added = (op.number for held in self.added.values() for op, _ in held.values())
        numbers = [*self.cells.operations_named(), *added, *(op.number for op in self.issued.open.values())]
        every = range(1 if self.knowledge is None else self.ctas)
        return [number + n * self.operations.columns for number in numbers for n in every]

    def renumber(self, to: Renumbering) -> None:
        """Operations have new numbers."""
        self.cells.renumber(to.new)
        self.issued.renumber(to)

    def readers_among(self, at: Any) -> list[int]:
        """The operations that may still read one of these cells, by their numbers."""
        return operation_sets.members_of(self.cells.sets, distinct(self.cells.read_by[at]))

    def joins(self, op: Operation, at: Any, is_over: Callable[[int], bool]) -> None:
        """An operation joins the readers of cells; those leave them that are over."""
        before = self.cells.read_by[at]
        first = int(before.flat[0])
        if (before == first).all():  # most often one operation has read them all
            self.cells.read_by[at] = self._joined(op, first, is_over)
            return
        entries, which = np.unique(before, return_inverse=True)
        joined = np.array([self._joined(op, entry, is_over) for entry in entries.tolist()], np.int32)
        self.cells.read_by[at] = joined[which.reshape(before.shape)]

    def _joined(self, op: Operation, entry: int, is_over: Callable[[int], bool]) -> int:
        if entry in (0, op.number + 1):
            return op.number + 1
        left = [n for n in operation_sets.members_of(self.cells.sets, np.array([entry])) if not is_over(n)]
        self.cells.sets, joined = operation_sets.entry_of(self.cells.sets, {*left, op.number})
        return joined

    def touched(self, cta: int) -> None:
        """Somebody touches tensor memory of a CTA: the cells get what was added there last."""
        for op, (_, lanes, first, end) in self.added.pop(cta, {}).values():
            at = (cta, lanes, slice(first, end))
            self.cells.who[at], self.cells.read_by[at], self.cells.line[at] = OPERATIONS + op.number, op.number + 1, op.instruction.site

    # ---- operations of threads

    def begun(self, thread: int, op: Operation) -> Operation:
        """A thread has issued an operation, which is returned."""
        self.issued.open[thread, op.instruction.site] = op
        flags, stride = self.issued.flags, self.x.stride
        if thread not in flags:
            self.issued.by_several |= any(other // stride == thread // stride for other in flags)
            flags[thread] = np.zeros_like(self.clocks.done[0])
        flags[thread][self.clocks.column(op.number)] = True
        if self.issued.by_several and op.kind == "tcgen05.mma":
            flags[thread][self._copied_for(thread)] = True
        return op

    def _copied_for(self, thread: int) -> list[int]:
        """The columns of the tcgen05.cp of other threads of the CTA that a tcgen05.mma of a thread comes after: those
        that its warp has seen. The tensor core executes it after them (rule tcgen05.copied_first), so they are complete
        when it is.
        """
        issued, stride, seen = self.issued, self.x.stride, self.clocks.seen[thread // WARP]
        return [
            self.clocks.column(op.number) for (other, _), op in issued.open.items()
            if other != thread and other // stride == thread // stride and op.kind == "tcgen05.cp" and seen[int(op.warps[0])] >= op.when
        ]  # fmt: skip

    def before_commit(self, thread: int) -> np.ndarray:
        """The columns of the operations that a commit of a thread comes after.

        These are all that the thread has issued, and the copies that the tensor core has executed before them.
        """
        cta, own = divmod(thread, self.x.stride) if self.knowledge is not None else (0, thread)
        flags = self.issued.flags.get(own)
        if flags is None:
            return np.zeros_like(self.clocks.done[0])
        return flags if self.knowledge is None else self.columns_of(flags, cta)

    def committed(self, thread: int) -> list[Operation]:
        """The operations that a commit of a thread is the first to come after; where there are none, those of its
        commit before. They may stand for those of all CTAs.
        """
        thread = thread if self.knowledge is None else thread % self.x.stride
        return [op for key, op in self.issued.open.items() if key[0] == thread] or self.issued.last.get(thread, [])
