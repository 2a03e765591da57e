"""The shadow of tensor memory (PTX ISA 9.1 §9.7.16.6): the writers and readers of each cell. It knows whether the next
access has waited for them.

tcgen05.ld and .st of a warp are complete after its tcgen05.wait; tcgen05.mma, .cp and .shift after a wait at the
mbarrier of a later tcgen05.commit. Those of one thread execute one after the other (PTX ISA 9.1 §9.7.16.6).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.finding import Half
from smemsim.core.machine.tmem.layout import boxes_of_d
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.tensor_memory import COLUMNS, LANES, WARP_LANES
from smemsim.run.sanitizer import operation_sets, races
from smemsim.run.sanitizer.happens_before import Formal, VectorClocks
from smemsim.run.sanitizer.operations import GROUP, NOBODY, OPERATIONS, Operation, Operations, Renumbering
from smemsim.run.sanitizer.phases import Alike, count_of
from smemsim.run.sanitizer.races import Access
from smemsim.run.sanitizer.registers import Named
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.sanitizer.taint import WORD, Taint, is_followed
from smemsim.run.sanitizer.tensor_tables import Cells, Issued, Unwaited
from smemsim.run.sanitizer.uninitialised import half_of_cells, uninitialised
from smemsim.run.warps import WARP, warps_of

if TYPE_CHECKING:
    from smemsim.core.machine.tmem.layout import AccumulatorLayout, Box
    from smemsim.run.cohort import Cohort
    from smemsim.run.sanitizer.folding import Knowledge
    from smemsim.run.views import Cta, Mbarrier, Wave

__all__ = ["PRODUCT", "TensorShadow"]


PENDING = 1 << 30  # the clock of what its warp has not waited for
PRODUCT, FILL, NUMBERS = 1, 2, 3


class TensorShadow:
    """The accesses of tcgen05 instructions of one wave, and whether the next one is ordered after them."""

    def __init__(
        self, x: Wave, clocks: VectorClocks, operations: Operations, reporting: Reporting, taint: Taint, knowledge: Knowledge | None
    ) -> None:
        self.x, self.operations, self.reporting, self.taint = x, operations, reporting, taint
        # that of everything, and that of tcgen05 instructions
        self.all_order, self.clocks = clocks, clocks.orders.tensor or clocks
        self.ctas, self.per_cta = len(x.tensor), x.stride // WARP
        # While that is there, and all CTAs do the same, the tables are those of the first one.
        self.knowledge = knowledge if self.ctas and clocks.orders.tensor is None else None
        shape = (1 if self.knowledge is not None else self.ctas, LANES, COLUMNS)
        self.cells, self.issued, self.unwaited = Cells(shape, -(-self.per_cta // GROUP)), Issued(), Unwaited()
        self.early: dict[int, tuple[Instruction, np.ndarray]] = {}  # by line: reads of uninitialised cells
        # for them, by line: what arrived later, to be reported when the value is used
        self.late: dict[int, Callable[[], None]] = {}
        # of uninitialised values, of the four bytes of each cell, made when the first one is written
        self.marks: np.ndarray | None = None
        # By CTA: its accumulators that only adding operations have accessed, each with the last one and its box. The
        # tables have an earlier one.
        self._added: dict[int, dict[tuple[AccumulatorLayout, int], tuple[Operation, Box]]] = {}
        self._summed: set[int] = set()  # parts of the program whose tcgen05.st have filled an accumulator

    @functools.cached_property
    def named(self) -> Named:
        """Which registers of loads the blocks of the program name."""
        return Named(self.x.program)

    def spread(self, first: TensorShadow) -> None:
        """What is known of the first CTA, which was alone, stands for what is known of all."""
        if self.ctas:
            knowledge, own = self.knowledge, vars(self).copy()
            vars(self).update(vars(first))
            vars(self).update({name: own[name] for name in ("x", "operations", "reporting", "taint", "all_order", "clocks", "ctas")})
            self.knowledge = knowledge
            self.issued.flags = {thread: self._columns(flags, 0) for thread, flags in self.issued.flags.items()}
            if knowledge is None:
                self._unfold()

    def unfold(self) -> None:
        """The tables become those of all CTAs."""
        if self.knowledge is not None:
            self.knowledge = None
            self._unfold()

    def _unfold(self) -> None:
        self.cells.of_all(self.ctas, self.per_cta, self.operations.columns)
        self.issued.of_all(self.ctas, self.x.stride, self.operations, self._columns)
        self.unwaited.of_all(self.ctas, self.per_cta)
        self._added = {n: {d: (op.of(n), box) for d, (op, box) in self._added.get(0, {}).items()} for n in range(self.ctas)}

    def _columns(self, flags: np.ndarray, cta: int) -> np.ndarray:
        """The columns of a CTA's operations, from those of the first one."""
        found, columns = np.zeros(self.clocks.done.shape[1], bool), self.clocks.ops.own
        begin = cta * columns if self.clocks.ops.are_shared else 0
        found[begin : begin + columns] = flags[:columns]
        return found

    def _to_look_at(self, accesses: Sequence[Any], passes: Callable[[Sequence[Any]], bool]) -> Sequence[Any]:
        """The accesses (warp, CTA, ...) for which the tables are needed: the first CTA's for a cohort that `passes`."""
        if self.knowledge is not None:
            own = cast("Cohort", self.x.cohort).own_accesses(accesses)
            if own is not None and self.knowledge.is_the_same() and passes(own):
                return own
            self.unfold()
        return accesses

    def _warps(self, x: Wave) -> list[int]:
        """The running warps that the tables have: the first CTA's, where all do the same."""
        if self.knowledge is not None:
            own = cast("Cohort", x.cohort).own_running(x)
            if own is not None and self.knowledge.is_the_same():
                return list(map(int, warps_of(own)))
            self.unfold()
        return list(map(int, warps_of(x.threads)))

    def each(self, ops: Sequence[Operation]) -> list[Operation]:
        """The operations of all CTAs, each of which does something of its own from now on."""
        self.unfold()
        return self.operations.each(ops)

    # ---- threads

    def loaded(self, x: Wave, i: Instruction, boxes: Sequence[tuple[int, int, int, int, int]], lanes: int) -> bool:
        """Warps read boxes (warp, CTA, first lane, first column, end column). Returns whether some cells are
        uninitialised.

        A use of the registers before tcgen05.wait::ld is not reported: Triton does it, and ptxas waits for the
        registers (`Named`). A load that no tcgen05.wait::ld follows is a remark (rule tcgen05.registers).
        """
        user = self.named.unwaited_user(i)
        if user is not None:
            self.x.launch.find(
                "X007", user, "registers of tcgen05.ld are used without tcgen05.wait::ld", f"tcgen05.wait::ld.sync.aligned after line {i.line}",
                because="PTX ISA 9.1 §9.7.16.8.1, 9.7.16.8.5", milder=Severity.NOTE, other=i, halves=(Half("use", user.name, user), Half("load", i.name, i)),
                why="ptxas makes instructions wait for registers that they name; the PTX ISA promises the values only after tcgen05.wait::ld",
            )  # fmt: skip
        is_unwritten = False
        for warp, cta, lane, first, end in self._to_look_at(boxes, lambda own: self.passes_load(own, lanes)):
            at = (cta, slice(lane, lane + lanes), slice(first, end))
            is_unwritten |= self._seen(i, at, warp, "reads")
            if warp in self.unwaited.stores:
                self._has_stored(i, at, warp)
            if not self._summed.isdisjoint(self._fills(at)):
                self.x.launch.result.left_out.add(i.line)
            self.cells.unread[at] = 0
            group = (int(self.x.tid[warp * WARP]) // WARP) // GROUP
            self.cells.read_line[at] = i.line
            if self.named.at_once(i):
                self.cells.read_when[(group, *at)] = self.clocks.clock[warp]
            else:
                self.cells.read_when[(group, *at)] = PENDING
                self.unwaited.loads.setdefault(warp, []).append(((group, *at), self.named.registers(i)))
                self.unwaited.registers |= self.named.registers(i)
        return is_unwritten

    def _has_stored(self, i: Instruction, at: Any, warp: int) -> None:
        """A remark if a warp loads cells that it has stored, with no tcgen05.wait::st between (rule
        tcgen05.own_stores).
        """
        own = (self.cells.who[at] == warp) & (self.cells.when[at] == PENDING)
        if not own.any():
            return
        other = self.reporting.lines.get(int(self.cells.line[at][own][0]))
        if other is not None:
            said = races.own_tensor_access(
                self.reporting.access("read", warp, i.line), self.reporting.access("write", warp, other.line), WANTED
            )
            self.x.launch.find(
                said.code, i, said.what, f"tcgen05.wait::st.sync.aligned after line {other.line}",
                because="PTX ISA 9.1 §9.7.16.6.4.2", milder=Severity.NOTE, operation=other.name, other=other,
                halves=said.halves, why=said.why,
            )  # fmt: skip

    def _has_loaded(self, i: Instruction, at: Any, warp: int) -> None:
        """A remark if a warp stores to cells that it loads, with no tcgen05.wait::ld and no use of the loaded
        registers between (rule tcgen05.own_loads).
        """
        read_when = self.cells.read_when[(int(self.x.tid[warp * WARP]) // WARP // GROUP, *at)]
        if not read_when.any():
            return
        for line in distinct(self.cells.read_line[at][read_when > 0]).tolist():
            load = self.reporting.lines.get(line)
            if load is not None and self.named.are_unused(
                load, i, is_pending=bool((read_when[self.cells.read_line[at] == line] == PENDING).any())
            ):
                said = races.own_tensor_access(
                    self.reporting.access("write", warp, i.line), self.reporting.access("read", warp, line), WANTED
                )
                self.x.launch.find(
                    said.code, i, said.what, f"tcgen05.wait::ld.sync.aligned after line {line}",
                    because="PTX ISA 9.1 §9.7.16.6.4.2", milder=Severity.NOTE, operation=load.name, other=load,
                    halves=said.halves, why=said.why,
                )  # fmt: skip

    def _fills(self, at: Any) -> set[int]:
        """The parts of the program whose tcgen05.st have put there what no instruction has read yet."""
        fills = self.cells.unread[at] >= FILL
        lines = distinct(self.cells.line[at][fills]).tolist() if fills.any() else ()
        return {self._part_of_line.get(line, -1) for line in lines}

    @functools.cached_property
    def _part_of_line(self) -> dict[int, int]:
        """By line a number that instructions share between which no branch and no label lies."""
        inlined = self.x.program.inlined
        labels, count, parts = {*inlined.labels.values()}, 0, {}
        for n, i in enumerate(inlined.body):
            count += n in labels
            parts[i.line] = count
            count += i.op == "bra"
        return parts

    def passes_load(self, boxes: Sequence[tuple[int, int, int, int, int]], lanes: int) -> bool:
        """Does each warp read what an operation has written that it knows to be over, or what it has itself, and is
        none of it in doubt?
        """
        if self.marks is not None:
            return False
        for warp, cta, lane, first, end in boxes:
            self._touched(cta)
            cells = self.cells.who[cta, lane : lane + lanes, first:end]
            who = int(cells.flat[0])
            if (cells != who).any() or not (
                who == warp or (who >= OPERATIONS and self.clocks.done[warp, self.clocks.column(who - OPERATIONS)])
            ):
                return False
        return True

    def stored(self, x: Wave, i: Instruction, boxes: Sequence[tuple[int, int, int, int, int]], lanes: int, *, are_alike: bool) -> None:
        """Warps write boxes."""
        for warp, cta, lane, first, end in self._to_look_at(boxes, lambda own: not self.are_touched(own, lanes)):
            at = (cta, slice(lane, lane + lanes), slice(first, end))
            self._seen(i, at, warp, "overwrites")
            self._readers_done(i, at, warp, "overwrites")
            self._has_loaded(i, at, warp)
            self.cells.who[at], self.cells.when[at], self.cells.line[at] = warp, PENDING, i.line
            self.cells.unread[at] = FILL if are_alike else NUMBERS
            self.unwaited.stores.setdefault(warp, []).append((at, warp, i.line))

    def waited(self, x: Wave, what: str) -> None:
        """tcgen05.wait of the running warps."""
        clock = self.clocks.clock
        for warp in self._warps(x):
            if what == "ld":
                for at, _ in self.unwaited.loads.pop(warp, ()):
                    self.cells.read_when[at] = clock[warp]
                self.unwaited.registers = 0 if not self.unwaited.loads else self.unwaited.registers
            else:
                for at, _, _ in self.unwaited.stores.pop(warp, ()):
                    mine = (self.cells.who[at] == warp) & (self.cells.when[at] == PENDING)
                    self.cells.when[at] = np.where(mine, clock[warp], self.cells.when[at])

    def names(self, x: Wave, first: int) -> None:
        """The running threads name registers (a bit set): the loads that bring some of them are done."""
        for warp in self._warps(x):
            waiting = self.unwaited.loads.pop(warp, [])
            for at, registers in waiting:
                if registers & first:
                    self.cells.read_when[at] = self.clocks.clock[warp]
            left = [(at, registers) for at, registers in waiting if not registers & first]
            for at, _ in left:  # of the same cells, too
                self.cells.read_when[at] = PENDING
            if left:
                self.unwaited.loads[warp] = left
        if not self.unwaited.loads:
            self.unwaited.registers = 0

    def freed(self, i: Instruction, given: Sequence[tuple[int, int, int, int]]) -> None:
        """tcgen05.dealloc by warps (warp, CTA, first column, end column): no operation may use the columns any more,
        and their content becomes uninitialised.
        """
        for warp, cta, first, end in self._to_look_at(given, self.passes_freed):
            self.are_free(i, warp, cta, first, end)
            self.empties(cta, first, end)

    def are_free(self, i: Instruction, warp: int, cta: int, first: int, end: int) -> None:
        """A warp gives columns of a CTA back: X012 where others may still be using them."""
        at = (cta, slice(0, LANES), slice(first, end))
        self._seen(i, at, warp, "gives back")
        self._readers_done(i, at, warp, "gives back")

    def empties(self, cta: int, first: int, end: int) -> None:
        """What is in columns of a CTA counts as unwritten from now on."""
        at = (cta, slice(0, LANES), slice(first, end))
        self.cells.empties(at)
        if self.marks is not None:
            self.marks[at] = 0

    def passes_freed(self, given: Sequence[tuple[int, int, int, int]]) -> bool:
        """Does each warp know that all is over that others have done to the cells?"""
        clocks = self.clocks
        for warp, cta, first, end in given:
            self._touched(cta)
            at = (cta, slice(0, LANES), slice(first, end))
            who, by, read_when = self.cells.who[at], self.cells.read_by[at], self.cells.read_when[(slice(None), *at)]
            numbers = [*distinct(who[who >= OPERATIONS] - OPERATIONS).tolist(), *operation_sets.members_of(self.cells.sets, distinct(by))]
            by_warp = (who >= 0) & (who < OPERATIONS)
            if (
                not clocks.done[warp, clocks.column(np.array(numbers, np.int64))].all()
                or (clocks.seen[warp][who[by_warp]] < self.cells.when[at][by_warp]).any()
            ):
                return False
            groups, lanes = np.arange(len(read_when))[:, None] * GROUP, np.arange(LANES) // WARP_LANES
            readers = cta * self.per_cta + np.minimum(groups + lanes, self.per_cta - 1)
            if (read_when > clocks.seen[warp, readers][:, :, None]).any():
                return False
        return True

    # ---- operations

    def begin(self, x: Wave, i: Instruction, thread: int, kind: str) -> Operation:
        """An operation that a thread issues; those of one line that one commit completes are one."""
        self.unfold()
        op = self.issued.open.get((thread, i.line))
        return self._begun(thread, self.operations.begin(i, thread, kind)) if op is None else op

    def _begun(self, thread: int, op: Operation) -> Operation:
        self.issued.open[thread, op.instruction.line] = op
        self.issued.flags.setdefault(thread, np.zeros_like(self.clocks.done[0]))[self.clocks.column(op.number)] = True
        return op

    def begin_together(self, x: Wave, i: Instruction, threads: Sequence[int], kind: str, *what: Sequence[Any]) -> list[Operation]:
        """`begin` of several; see `Sanitizer.begin_together`."""
        knowledge = self.knowledge
        own = 0 if knowledge is None or not knowledge.is_the_same() else cast("Cohort", x.cohort).own_count(threads, *what)
        held = [self.issued.open[thread, i.line] for thread in threads[:own] if (thread, i.line) in self.issued.open]
        if own and len(held) == own:
            return held
        if knowledge is None or not own or held:
            self.unfold()
            return [self.begin(x, i, thread, kind) for thread in threads]
        ops = self.operations.begin_together(i, threads, kind, own)
        knowledge.has_issued(op.number for op in ops)
        return [self._begun(thread, op) for thread, op in zip(threads, ops, strict=False)]

    def are_unread_products(self, cells: np.ndarray) -> bool:
        """Do cells (places among all) hold a result of an mma that nothing has read?"""
        self.unfold()
        return bool((self.cells.unread.reshape(-1)[cells] == PRODUCT).all())

    def passes(self, op: Operation, members: Sequence[Cta], reads: Sequence[Box], writes: Sequence[Box]) -> bool:
        """An mma reads and writes boxes. Have only operations accessed them that the tensor core has executed before
        it, and is no product lost? Then it is recorded without a finding; else it must be reported by `reads` and
        `writes`.
        """
        of_reads, of_writes = (
            [(members[n].index, lanes, slice(first, end)) for n, lanes, first, end in boxes] for boxes in (reads, writes)
        )
        if self.early or self.marks is not None:
            return False
        for member in members:
            self._touched(member.index)
        if not all(self._is_of_piped(op, at) for at in (*of_reads, *of_writes)) or any(
            (self.cells.who[at] == NOBODY).any() for at in of_reads
        ):
            return False
        read = {(n, first, end) for n, _, first, end in reads}
        if any(
            (n, first, end) not in read and _is_lost(self.cells.unread[at])
            for (n, _, first, end), at in zip(writes, of_writes, strict=True)
        ):
            return False
        for at in of_writes:
            self._summed |= self._fills(at)
        for at in of_reads:
            self._joins(op, at)
            self.cells.unread[at] = 0
        for at in of_writes:
            self.cells.unread[at], self.cells.who[at], self.cells.line[at] = PRODUCT, OPERATIONS + op.number, op.instruction.line
        return True

    def _is_of_piped(self, op: Operation, at: Any) -> bool:
        """Have only operations accessed cells, if any, that the tensor core has executed before this one, and stores
        that its warp has seen?
        """
        warp, cells = int(op.warps[0]), self.cells.who[at]
        if self.cells.read_when[(slice(None), *at)].any():
            return False
        by_warp = (cells >= 0) & (cells < OPERATIONS)
        if by_warp.any() and (self.clocks.seen[warp][np.where(by_warp, cells, 0)] < self.cells.when[at])[by_warp].any():
            return False
        who, by = distinct(cells), operation_sets.members_of(self.cells.sets, distinct(self.cells.read_by[at]))
        numbers = {*(who[who >= OPERATIONS] - OPERATIONS).tolist(), *by}
        return all(self._is_piped(op.instruction, warp, self.operations[n]) for n in numbers)

    def are_touched(self, boxes: Sequence[tuple[int, int, int, int, int]], lanes: int) -> bool:
        """Has any access touched a cell of boxes, in the form of `stored`?"""
        each = [(cta, slice(lane, lane + lanes), slice(first, end)) for _, cta, lane, first, end in boxes]
        return any(self.cells.are_touched(at) for at in each)

    def remembered(self) -> list[int]:
        """The numbers of the operations that cells or open commits refer to."""
        added = (op.number for held in self._added.values() for op, _ in held.values())
        numbers = [*self.cells.operations_named(), *added, *(op.number for op in self.issued.open.values())]
        every = range(1 if self.knowledge is None else self.ctas)
        return [number + n * self.operations.columns for number in numbers for n in every]

    def renumber(self, to: Renumbering) -> None:
        """Operations have new numbers."""
        self.cells.renumber(to.new)
        self.issued.renumber(to)

    def operated(self, op: Operation, members: Sequence[Cta], reads: Sequence[Box], writes: Sequence[Box]) -> None:
        """An operation reads and writes boxes of tensor memory of the CTAs of its group."""
        # for tcgen05.shift: moved values are not followed
        if self.reads(op, members, reads) and self.marks is not None:
            for which, lanes, first, end in reads:
                self.taint.origins.tell(op.instruction, self.marks[members[which].index, lanes, first:end])
        self.writes(op, members, writes)

    def adds_again(self, op: Operation, members: Sequence[Cta], d: AccumulatorLayout) -> bool:
        """An operation adds to an accumulator, and accesses nothing else of tensor memory. Have only operations done so
        that the tensor core has executed before it? Then it is recorded without a finding; else it must be reported
        by `reads` and `writes`.
        """
        held = [self._added.get(member.index, {}).get((d, which)) for which, member in enumerate(members)]
        warp = int(op.warps[0])
        if self.marks is not None or not all(one is not None and self._is_piped(op.instruction, warp, one[0]) for one in held):
            return False
        self.added(op, members, d)
        return True

    def added(self, op: Operation, members: Sequence[Cta], d: AccumulatorLayout) -> None:
        """An operation has added to an accumulator."""
        for box in boxes_of_d(d):
            self._added.setdefault(members[box[0]].index, {})[d, box[0]] = op, box

    def _touched(self, cta: int) -> None:
        """Somebody touches tensor memory of a CTA: the tables get what was added there last."""
        for op, (_, lanes, first, end) in self._added.pop(cta, {}).values():
            at = (cta, lanes, slice(first, end))
            self.cells.who[at], self.cells.read_by[at], self.cells.line[at] = OPERATIONS + op.number, op.number + 1, op.instruction.line

    def reads(self, op: Operation, members: Sequence[Cta], boxes: Sequence[Box]) -> bool:
        """An operation reads boxes. Is something wrong with what is there?"""
        warp, i = int(op.warps[0]), op.instruction
        is_doubtful = False
        for which, lanes, first, end in boxes:
            at = (members[which].index, lanes, slice(first, end))
            is_doubtful |= self._seen(i, at, warp, "reads") or (self.marks is not None and bool(self.marks[at].any()))
            self._joins(op, at)
            self._summed |= self._fills(at)
            self.cells.unread[at] = 0
        return is_doubtful

    def _joins(self, op: Operation, at: Any) -> None:
        """An operation joins the readers of cells; those leave them that are over, or that the tensor core executes
        before it.
        """
        warp, before = int(op.warps[0]), self.cells.read_by[at]
        first = int(before.flat[0])
        if (before == first).all():  # most often one operation has read them all
            self.cells.read_by[at] = self._joined(op, warp, first)
            return
        entries, which = np.unique(before, return_inverse=True)
        joined = np.array([self._joined(op, warp, entry) for entry in entries.tolist()], np.int32)
        self.cells.read_by[at] = joined[which.reshape(before.shape)]

    def _joined(self, op: Operation, warp: int, entry: int) -> int:
        if entry in (0, op.number + 1):
            return op.number + 1
        left = [
            n
            for n in operation_sets.members_of(self.cells.sets, np.array([entry]))
            if not self.clocks.done[warp, self.clocks.column(n)] and not self._is_piped(op.instruction, warp, self.operations[n])
        ]
        self.cells.sets, joined = operation_sets.entry_of(self.cells.sets, {*left, op.number})
        return joined

    def reads_as(self, op: Operation, members: Sequence[Cta], boxes: Sequence[Box], dtype: str) -> None:
        """An operation reads boxes as numbers of less than 32 bits, several a column: R508 where a product left its
        sums there, one a column.
        """
        for which, lanes, first, end in boxes:
            self._touched(members[which].index)
            at = (members[which].index, lanes, slice(first, end))
            by = distinct(self.cells.who[at][self.cells.who[at] >= OPERATIONS]) - OPERATIONS
            for before in (self.operations[n] for n in by.tolist()):
                # .ashift leaves rows of A moved, too
                if before.kind != "tcgen05.mma" or "ashift" in before.instruction.modifiers:
                    continue
                where, i = self._where(at, self.cells.who[at] == OPERATIONS + before.number), op.instruction
                self.x.launch.find(
                    "R508", i, f"{where} holds 32-bit sums, and is read as {dtype} numbers of A", "the columns that hold A; or convert the sums first "
                    "(tcgen05.ld, cvt, tcgen05.st, tcgen05.wait::st)", because="PTX ISA 9.1 §9.7.16.10.4",
                    halves=(Half("read", i.name, i), Half("write", before.instruction.name, before.instruction)),
                )  # fmt: skip

    def writes(self, op: Operation, members: Sequence[Cta], boxes: Sequence[Box], *, is_product: bool | None = None) -> None:
        """An operation writes boxes; an mma a product, unless it says otherwise."""
        warp, i = int(op.warps[0]), op.instruction
        is_product = i.modifiers[0] == "mma" if is_product is None else is_product
        for which, lanes, first, end in boxes:
            at = (members[which].index, lanes, slice(first, end))
            self._seen(i, at, warp, "overwrites")
            self._came_late(i, at, warp)
            self._readers_done(i, at, warp, "overwrites")
            if is_product:
                self._lost(i, at, warp)
                self._summed |= self._fills(at)
            self.cells.unread[at] = PRODUCT if is_product else 0
            self.cells.who[at], self.cells.line[at] = OPERATIONS + op.number, i.line

    def committed(self, thread: int) -> list[Operation]:
        """The operations that a commit of a thread is the first to come after; where there are none, those of its
        commit before. They may stand for those of all CTAs.
        """
        thread = thread if self.knowledge is None else thread % self.x.stride
        return [op for key, op in self.issued.open.items() if key[0] == thread] or self.issued.last.get(thread, [])

    def commit(self, commits: Sequence[tuple[int, Mbarrier]]) -> None:
        """tcgen05.commit of threads: all its own operations so far, and no other lane's, are complete when the phase
        of the barrier is.
        """
        if self.knowledge is not None and not cast("Cohort", self.x.cohort).own_count([thread for thread, _ in commits]):
            self.unfold()
        threads = {thread if self.knowledge is None else thread % self.x.stride for thread, _ in commits}
        self.issued.last.update({thread: self.committed(thread) for thread in threads})
        self.issued.open = {key: op for key, op in self.issued.open.items() if key[0] not in threads}
        each = iter(commits)
        for warps, what in self.all_order.together(
            [np.array([thread // WARP]) for thread, _ in commits], [barrier for _, barrier in commits]
        ):
            rows = np.stack([self._issued_by(thread) for thread, _ in itertools.islice(each, count_of(what))])
            self.all_order.brings_all(rows if isinstance(what, Alike) else rows[0], warps, what)

    def _issued_by(self, thread: int) -> np.ndarray:
        """The columns of the operations that a thread has issued so far."""
        cta, own = divmod(thread, self.x.stride) if self.knowledge is not None else (0, thread)
        flags = self.issued.flags.get(own)
        if flags is None:
            return np.zeros_like(self.clocks.done[0])
        return flags if self.knowledge is None else self._columns(flags, cta)

    # ---- inside

    def _seen(self, i: Instruction, at: Any, warp: int, done: str) -> bool:
        """Has the warp seen the writes of the cells that it, or its operation, now reads or overwrites? Returns whether
        it reads uninitialised cells.
        """
        self._touched(at[0])
        who, clocks, x = self.cells.who[at], self.clocks, self.x
        first = int(who.flat[0])
        if (who == first).all():  # most often one instruction wrote them all
            if first >= OPERATIONS:
                operation = self.operations[first - OPERATIONS]
                if clocks.done[warp, clocks.column(first - OPERATIONS)] or self._is_piped(i, warp, operation):
                    return False
            elif (first == warp and i.modifiers[0] in ("ld", "st")) or (first == NOBODY and done != "reads"):
                return False
        is_unwritten = done == "reads" and bool((who == NOBODY).any())
        if is_unwritten:
            if is_followed(i):
                self.early.setdefault(i.line, (i, np.zeros(self.cells.who.shape, bool)))[1][at] |= who == NOBODY
            else:
                where = self._where(at, who == NOBODY)
                said, _ = uninitialised(where, i)
                x.launch.find(said.code, i, said.what, _UNWRITTEN.get(i.modifiers[0], _WRITE_FIRST))
        by_op = who >= OPERATIONS
        if by_op.any():
            numbers = distinct(who[by_op]) - OPERATIONS
            numbers = numbers[[not self._is_piped(i, warp, self.operations[n]) for n in numbers.tolist()]]
            unseen, formal = self.clocks.missing(lambda clocks: ~clocks.done[warp, clocks.column(numbers)])
            if unseen.any():
                number = int(numbers[unseen][0])
                operation = self.operations[number]
                where = self._where(at, who == OPERATIONS + number)
                self.reporting.tell(
                    i, races.tensor_memory(
                        self._access(i, warp, done), self.reporting.by(operation, "write"), where,
                        f"{self.reporting.unwaited(operation, warp)}{self.clocks.why_early(warp)}",
                    ), self._wait_for(operation, warp), "PTX ISA 9.1 §9.7.16.6", formal=formal, cta=x.ctas[at[0]],
                )  # fmt: skip
        by_warp = (who >= 0) & ~by_op
        if i.modifiers[0] in ("ld", "st", "dealloc"):
            by_warp &= who != warp
        if by_warp.any():
            when = self.cells.when[at]
            late_cells, formal = self.clocks.missing(lambda clocks: by_warp & (clocks.seen[warp][np.where(by_warp, who, 0)] < when))
            if late_cells.any():
                place = tuple(a[0] for a in np.nonzero(late_cells))
                pending, line = bool(when[place] == PENDING), int(self.cells.line[at][place])
                self._not_ordered(i, warp, done, self._where(at, late_cells), ("st", "writes"), int(who[place]), line, pending, formal)
        return is_unwritten

    def _readers_done(self, i: Instruction, at: Any, warp: int, done: str) -> None:
        """May the cells be overwritten, or given back?"""
        cta, lanes = at[0], at[1]
        for group, read_when in enumerate(self.cells.read_when):
            when = read_when[at]
            if not when.any():
                continue
            lane = np.arange(LANES)[lanes]
            readers = cta * self.per_cta + np.minimum(group * GROUP + lane // WARP_LANES, self.per_cta - 1)
            others = (readers != warp)[:, None] if i.modifiers[0] in ("ld", "st", "dealloc") else np.ones((len(readers), 1), bool)
            late, formal = self.clocks.missing(
                lambda order, when=when, readers=readers, others=others: others & (when > order.seen[warp, readers][:, None])  # type: ignore[misc]
            )
            if late.any():
                place = tuple(a[0] for a in np.nonzero(late))
                pending = bool(when[place] == PENDING)
                reader, line = int(readers[place[0]]), int(self.cells.read_line[at][place])
                self._not_ordered(i, warp, done, self._where(at, late), ("ld", "reads"), reader, line, pending, formal)
        by = self.cells.read_by[at]
        first = by.flat[:1]
        kinds = first if (by == first[0]).all() else distinct(by)  # most often one operation has read them all
        for number in operation_sets.members_of(self.cells.sets, kinds):
            operation = self.operations[number]
            if self._is_piped(i, warp, operation):
                continue
            unseen, formal = self.clocks.missing(lambda order, number=number: ~order.done[warp, [order.column(number)]])  # type: ignore[misc]
            if unseen.any():
                having = [entry for entry in kinds.tolist() if number in operation_sets.members_of(self.cells.sets, np.array([entry]))]
                self.reporting.tell(
                    i, races.tensor_memory(
                        self._access(i, warp, done), self.reporting.by(operation, "read"), self._where(at, np.isin(by, having)),
                        self.reporting.unwaited(operation, warp),
                    ), self.reporting.commit_of(operation.instruction), "PTX ISA 9.1 §9.7.16.6", formal=formal, cta=self.x.ctas[cta],
                )  # fmt: skip

    def _access(self, i: Instruction, warp: int, done: str) -> Access:
        """An access of a warp: it "reads", "overwrites" or "gives back"."""
        return Access({"reads": "read", "overwrites": "write"}.get(done, "free"), f"warp {self._warp(warp)}", i)

    def _wait_for(self, op: Operation, warp: int) -> str:
        """The fix if a warp does not wait for an operation."""
        if self.clocks.why_early(warp):
            return "wait for every phase of that mbarrier in turn; the warp that commits waits first until this warp has read, so that it is never two phases ahead"
        if change := self.reporting.relaxed_wait(warp):
            return change
        return self.reporting.commit_of(op.instruction)

    def _is_piped(self, i: Instruction, warp: int, before: Operation) -> bool:
        """Does the tensor core execute an instruction that a warp issues now after an operation? It does if that was
        issued before, by any warp.
        """
        first = int(before.warps[0])
        return i.modifiers[0] in _PIPED and (first == warp or bool(self.clocks.seen[warp, first] >= before.when))

    def _not_ordered(
        self, i: Instruction, warp: int, done: str, where: str, what: tuple[str, str], other: int, line: int, pending: bool, formal: Formal
    ) -> None:
        """X012: a warp's tcgen05.ld or .st is not known to be done; `what` it is, and does."""
        access, _ = what
        why = f"its warp has not executed tcgen05.wait::{access}" if pending else "nothing orders the two"
        wait = f"tcgen05.wait::{access}.sync.aligned after the tcgen05.{access}, then a barrier, before this instruction"
        after = (
            f"arrive at a barrier after tcgen05.wait::{access} of line {line}, and wait there before this instruction (if these are relaxed: with "
            "tcgen05.fence::before_thread_sync and ::after_thread_sync); or correct one of the two addresses"
        )
        theirs = Access("read" if access == "ld" else "write", f"warp {self._warp(other)}", self.reporting.lines.get(line))
        self.reporting.tell(
            i, races.tensor_memory(self._access(i, warp, done), theirs, where, why),
            wait if pending else after, "PTX ISA 9.1 §9.7.16.6", formal=formal, cta=self.x.ctas[warp // self.per_cta],
        )  # fmt: skip

    def of_cells(self, i: Instruction, cells: np.ndarray) -> np.ndarray:
        """The marks of cells, by their place among all, that an instruction reads; uninitialised ones have the mark of
        the instruction.
        """
        found: np.ndarray = self.taint.origins.all(self.of_bytes(i, cells), axis=-1)
        return found

    def of_halves(self, i: Instruction, cells: np.ndarray) -> np.ndarray:
        """The same of the halves of cells, the lower one first: (..., 2)."""
        found: np.ndarray = self.taint.origins.all(self.of_bytes(i, cells).reshape(*cells.shape, 2, -1), axis=-1)
        return found

    def of_bytes(self, i: Instruction, cells: np.ndarray) -> np.ndarray:
        """The same of the bytes of cells: (..., 4)."""
        self.unfold()
        found: np.ndarray = np.zeros((*cells.shape, WORD), np.int32) if self.marks is None else self.marks.reshape(-1, WORD)[cells]
        nobody = self.cells.who.reshape(-1)[cells] == NOBODY
        if nobody.any():
            mark = self.taint.origins.of(("tensor", i.line), functools.partial(self.unwritten_is_used, i.line), is_whole=bool(nobody.all()))
            found = self.taint.origins.join(found, np.where(nobody, mark, 0).astype(np.int32)[..., None])
        return found

    def put_cells(self, cells: np.ndarray, marks: np.ndarray | int) -> None:
        """Cells, by their place among all, have got values with these marks."""
        self.put_parts(cells, np.asarray(marks)[..., None])

    def put_parts(self, cells: np.ndarray, marks: np.ndarray) -> None:
        """Cells have got values whose bytes have these marks: (..., 4), or (..., 1) where all have the same."""
        if self.marks is None:
            if not np.any(marks):
                return
            self.unfold()
            self.marks = np.zeros((*self.cells.who.shape, WORD), np.int32)
        self.marks.reshape(-1, WORD)[cells] = marks

    def put_lower(self, i: Instruction, cells: np.ndarray, marks: np.ndarray) -> None:
        """tcgen05.st.unpack::16b has written the lower halves of cells, with marks of their bytes (..., 2). The upper
        halves of uninitialised cells stay uninitialised.
        """
        self.unfold()
        mark = np.int32(self.taint.origins.of(("tensor half", i.line), functools.partial(self._half_is_used, i)))
        before = np.zeros(1, np.int32) if self.marks is None else self.marks.reshape(-1, WORD)[cells][..., WORD // 2 :]
        upper = np.where((self.cells.who.reshape(-1)[cells] == NOBODY)[..., None], mark, before).astype(np.int32)
        self.put_parts(cells, np.concatenate([marks, np.broadcast_to(upper, marks.shape)], axis=-1))

    def _half_is_used(self, i: Instruction, user: Instruction | None) -> None:
        """R507: the upper halves of cells are used, of which an instruction has written the lower ones alone."""
        said = half_of_cells(i, user)
        self.x.launch.find(
            said.code, i, said.what, "tcgen05.ld.pack::16b, which reads the lower halves; or write whole columns first", because="PTX ISA 9.1 §9.7.16.8.3",
            why=said.why, halves=said.halves,
        )  # fmt: skip

    def unwritten_is_used(self, line: int, user: Instruction | None) -> None:
        """An uninitialised value that a line read is used."""
        if line in self.late:
            self.late.pop(line)()
        elif line in self.early:
            i, cells = self.early[line]
            cta = int(np.argmax(cells.any((1, 2))))
            where = self._where((cta, slice(0, LANES), slice(0, COLUMNS)), cells[cta])
            said, milder = uninitialised(where, i, user, is_voted=self.taint.is_voted)
            repair = _UNWRITTEN.get(i.modifiers[0], _WRITE_FIRST)
            self.x.launch.find(said.code, i, said.what, repair, milder=milder, why=said.why, halves=said.halves)

    def _came_late(self, i: Instruction, at: Any, warp: int) -> None:
        """An operation writes cells that were read uninitialised before: the reader did not wait.

        Not if the reader was complete before the operation was issued: then it could not wait.
        """
        for line, (reader, cells) in list(self.early.items()):
            missed = cells[at] & (self.cells.who[at] == NOBODY) & self._is_read_late(at, warp)
            if missed.any() and line != i.line:
                del self.early[line]
                said = races.tensor_read_early(reader, i, self._where(at, missed))
                repair = f"{self.reporting.commit_of(i)}; wait for the parity of this round"
                tell = functools.partial(
                    self.x.launch.find, said.code, reader, said.what, repair, because="PTX ISA 9.1 §9.7.16.6", why=said.why, halves=said.halves,
                )  # fmt: skip
                self.reporting.came_late(reader, tell, self.late)

    def _is_read_late(self, at: Any, warp: int) -> np.ndarray:
        """The cells whose readers a warp does not know to be done."""
        lane = np.arange(LANES)[at[1]]
        late = np.zeros(self.cells.who[at].shape, bool)
        for group, read_when in enumerate(self.cells.read_when):
            readers = at[0] * self.per_cta + np.minimum(group * GROUP + lane // WARP_LANES, self.per_cta - 1)
            seen = self.clocks.seen[warp, readers]
            late |= read_when[at] > seen[:, None]
        return late

    def _lost(self, i: Instruction, at: Any, warp: int) -> None:
        """X017 if a product is overwritten that no instruction has read. A remark if it is numbers of `tcgen05.st`:
        dead work changes no result. One number everywhere is no loss.
        """
        held = self.cells.unread[at]
        if (held == PRODUCT).all():
            by = int(self.cells.who[at].flat[0]) - OPERATIONS
            is_committed = all(op.number != by for op in self.issued.open.values())
            self.x.launch.find(
                "X017", i, f"the product in {self._where(at, held > 0)} is overwritten, and no instruction has read it",
                ("wait first until it has been read (another mbarrier, at which its readers arrive); or, if this belongs to the same sum, " * is_committed)
                + "enable-input-d true for all but the first instruction that adds into D", because="PTX ISA 9.1 §9.7.16.10",
                other=self.operations[by].instruction,
                halves=(self._access(i, warp, "overwrites").half, self.reporting.by(self.operations[by], "write").half),
            )  # fmt: skip
        elif (held >= FILL).all() and (held == NUMBERS).any():
            self.x.launch.find(
                "X017", i, f"the numbers that tcgen05.st wrote to {self._where(at, held > 0)} are overwritten, and no instruction has read them",
                "enable-input-d true for the first instruction too, if the sum begins with the numbers in D", because="PTX ISA 9.1 §9.7.16.10",
                milder=Severity.NOTE,
                halves=(self._access(i, warp, "overwrites").half, self.reporting.access("write", warp, int(self.cells.line[at].flat[0])).half),
            )  # fmt: skip

    def _where(self, at: Any, cells: np.ndarray) -> str:
        """Cells as lanes and columns."""
        lane = np.arange(LANES)[at[1]][np.flatnonzero(cells.any(1))]
        column = np.arange(COLUMNS)[at[2]][np.flatnonzero(cells.any(0))]
        of = f" of CTA {self.x.ctas[at[0]].number}" if self.x.launch.ctas > 1 else ""
        lanes = f"lanes {lane[0]} to {lane[-1]}" if len(lane) > 1 else f"lane {lane[0]}"
        columns = f"columns {column[0]} to {column[-1]}" if len(column) > 1 else f"column {column[0]}"
        return f"tensor memory {lanes}, {columns}{of}"

    def _warp(self, warp: int) -> str:
        cta, own = divmod(warp, self.per_cta)
        return str(own) if self.x.launch.ctas == 1 else f"{own} of CTA {self.x.ctas[cta].number}"


def _is_lost(held: np.ndarray) -> bool:
    """Is the unread content of some cells a product, or the start values of a sum, so that it must not
    be overwritten?
    """
    return bool((held == PRODUCT).all() or ((held >= FILL).all() and (held == NUMBERS).any()))


_PIPED = ("mma", "cp", "shift")
WANTED = "the PTX ISA wants one; no failure without it is known"
_WRITE_FIRST = "write these cells first (tcgen05.st, tcgen05.cp or tcgen05.mma), and check the address"
_UNWRITTEN = {
    "mma": "enable-input-d must be false for the first instruction that adds into D; A, scale factors and metadata must be written first",
    "ld": "check the address, and that the instruction that writes it was issued",
}
