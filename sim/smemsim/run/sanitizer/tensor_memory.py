"""Tensor memory: what the sanitizer does with each access of a tcgen05 instruction (PTX ISA 9.1 §9.7.16.6). The rule
lists suspects, findings are made of these, and the access is recorded.

The instructions tcgen05.ld and .st of a warp are complete after its tcgen05.wait. The instructions tcgen05.mma, .cp and
.shift are complete after a wait at the mbarrier of a later tcgen05.commit. Those of one thread execute one after the
other. The life of one cell: see `tensor_table.py`. `shared_memory.py` and `global_memory.py` have the same parts.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.machine.tmem.layout import boxes_of_d
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.tensor_memory import LANES
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.operations import GROUP, NOBODY, OPERATIONS, Operation, Operations
from smemsim.run.sanitizer.phases import Alike, count_of
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.sanitizer.taint import Taint
from smemsim.run.sanitizer.tensor_findings import TensorFindings
from smemsim.run.sanitizer.tensor_marks import TensorMarks
from smemsim.run.sanitizer.tensor_rule import FILL, NUMBERS, PRODUCT, CellAccess, TensorRule, is_lost
from smemsim.run.sanitizer.tensor_table import PENDING, TensorTable
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.core.machine.tmem.layout import AccumulatorLayout, Box
    from smemsim.run.cohort import Cohort
    from smemsim.run.sanitizer.folding import Knowledge
    from smemsim.run.views import Cta, Mbarrier, Wave

__all__ = ["TensorShadow"]


class TensorShadow(TensorMarks):
    """The accesses of tcgen05 instructions of one wave, and whether the next one is ordered after them."""

    def __init__(
        self, x: Wave, clocks: VectorClocks, operations: Operations, reporting: Reporting, taint: Taint, knowledge: Knowledge | None
    ) -> None:
        super().__init__(taint)
        self.x, self.operations, self.all_order = x, operations, clocks
        self.table = TensorTable(x, clocks, operations, knowledge)
        self.rule = TensorRule(self.table)
        self.findings = TensorFindings(self.table, reporting)
        self._read: set[tuple[int, int]] = set()  # CTAs and lines, a cell of whose products was read
        self._summed: set[int] = set()  # parts of the program whose tcgen05.st have filled an accumulator

    def spread(self, first: TensorShadow) -> None:
        """The state of the first CTA, which was alone, stands for that of all."""
        if self.table.ctas:
            self.early, self.late, self.marks, self._summed = first.early, first.late, first.marks, first._summed
            self._read = {(n, line) for n in range(self.table.ctas) for _, line in first._read}
            self.findings.cuts = {
                (n, site): dataclasses.replace(cut) for n in range(self.table.ctas) for (_, site), cut in first.findings.cuts.items()
            }
            self.table.spread(first.table)

    def each(self, ops: Sequence[Operation]) -> list[Operation]:
        """The operations of all CTAs, each of which does something of its own from now on."""
        self.table.unfold()
        return self.operations.each(ops)

    def _reach(self, a: CellAccess, *, is_sum: bool = False) -> bool:
        """Cells are accessed; `is_sum`: a product adds to them. Returns whether uninitialised ones are read."""
        self.table.touched(a.at[0])
        who = self.table.cells.who[a.at]
        if self.rule.are_known(a, who):
            return False
        is_unwritten = a.does == "read" and bool((who == NOBODY).any())
        if is_unwritten:
            self._reads_unwritten(a, who == NOBODY, is_sum=is_sum)
        self.findings.tell(a, self.rule.last_writers(a, who))
        return is_unwritten

    # ---- threads

    def read(self, i: Instruction, boxes: Sequence[tuple[int, int, int, int, int]], lanes: int) -> bool:
        """Warps read boxes (warp, CTA, first lane, first column, end column). Returns whether some cells are
        uninitialised.

        A use of the registers before tcgen05.wait::ld is not reported: Triton does it, and ptxas waits for the
        registers (`Named`). A load that no tcgen05.wait::ld follows is a remark (rule tcgen05.registers).
        """
        user = self.rule.named.unwaited_user(i)
        if user is not None:
            self.findings.no_wait_follows(i, user)
        is_unwritten = False
        for warp, cta, lane, first, end in self.table.of_one(boxes, lambda own: self.passes_read(own, lanes)):
            cells, at = self.table.cells, (cta, slice(lane, lane + lanes), slice(first, end))
            a = CellAccess(i, at, warp, "read")
            is_unwritten |= self._reach(a)
            self.findings.tell(a, self.rule.own_stores(a))
            if not self._summed.isdisjoint(self._fills(at)):
                self.x.launch.result.left_out.add(i.line)
            self._read.add((cta, int(cells.line[cta, lane, first])))
            if self.findings.cuts:
                self.findings.read_cut(i, at)
            cells.unread[at] = 0
            group = (int(self.x.tid[warp * WARP]) // WARP) // GROUP
            cells.read_line[at] = i.site
            if self.rule.named.at_once(i):
                cells.read_when[(group, *at)] = self.table.clocks.clock[warp]
            else:
                cells.read_when[(group, *at)] = PENDING
                unwaited = self.table.unwaited
                unwaited.loads.setdefault(warp, []).append(((group, *at), self.rule.named.registers(i)))
                unwaited.registers |= self.rule.named.registers(i)
        return is_unwritten

    def passes_read(self, boxes: Sequence[tuple[int, int, int, int, int]], lanes: int) -> bool:
        """Is nothing suspicious about a read of boxes, and none of it in doubt?"""
        return self.marks is None and self.rule.passes_read(boxes, lanes)

    def write(self, i: Instruction, boxes: Sequence[tuple[int, int, int, int, int]], lanes: int, *, are_alike: bool) -> None:
        """Warps write boxes."""
        for warp, cta, lane, first, end in self.table.of_one(boxes, lambda own: not self.are_touched(own, lanes)):
            cells, at = self.table.cells, (cta, slice(lane, lane + lanes), slice(first, end))
            a = CellAccess(i, at, warp, "write")
            self._reach(a)
            self.findings.tell(a, self.rule.readers(a), self.rule.own_loads(a))
            cells.who[at], cells.when[at], cells.line[at] = warp, PENDING, i.site
            cells.unread[at] = FILL if are_alike else NUMBERS
            self.table.unwaited.stores.setdefault(warp, []).append((at, warp, i.site))

    def are_touched(self, boxes: Sequence[tuple[int, int, int, int, int]], lanes: int) -> bool:
        """Has any access touched a cell of boxes, in the form of `write`?"""
        each = [(cta, slice(lane, lane + lanes), slice(first, end)) for _, cta, lane, first, end in boxes]
        return any(self.table.cells.are_touched(at) for at in each)

    def waited(self, what: str) -> None:
        """tcgen05.wait of the running warps."""
        clock, warps = self.table.clocks.clock, self.table.running_warps()
        cells, unwaited = self.table.cells, self.table.unwaited
        for warp in warps:
            if what == "ld":
                for at, _ in unwaited.loads.pop(warp, ()):
                    cells.read_when[at] = clock[warp]
                unwaited.registers = 0 if not unwaited.loads else unwaited.registers
            else:
                for at, _, _ in unwaited.stores.pop(warp, ()):
                    mine = (cells.who[at] == warp) & (cells.when[at] == PENDING)
                    cells.when[at] = np.where(mine, clock[warp], cells.when[at])

    def names(self, first: int) -> None:
        """The running threads name registers (a bit set): the loads that bring some of them are done."""
        warps = self.table.running_warps()
        cells, unwaited = self.table.cells, self.table.unwaited
        for warp in warps:
            waiting = unwaited.loads.pop(warp, [])
            for at, registers in waiting:
                if registers & first:
                    cells.read_when[at] = self.table.clocks.clock[warp]
            left = [(at, registers) for at, registers in waiting if not registers & first]
            for at, _ in left:  # of the same cells, too
                cells.read_when[at] = PENDING
            if left:
                unwaited.loads[warp] = left
        if not unwaited.loads:
            unwaited.registers = 0

    def free(self, i: Instruction, given: Sequence[tuple[int, int, int, int]]) -> None:
        """tcgen05.dealloc by warps (warp, CTA, first column, end column): no operation may use the columns any more,
        and their content becomes uninitialised.
        """
        for warp, cta, first, end in self.table.of_one(given, self.rule.passes_free):
            self.may_free(i, warp, cta, first, end)
            self.empties(cta, first, end)

    def may_free(self, i: Instruction, warp: int, cta: int, first: int, end: int) -> None:
        """A warp gives columns of a CTA back: X012 where others may still be using them."""
        a = CellAccess(i, (cta, slice(0, LANES), slice(first, end)), warp, "free")
        self._reach(a)
        self.findings.tell(a, self.rule.readers(a))
        self.findings.unread(a, {line for of, line in self._read if of == cta})

    def empties(self, cta: int, first: int, end: int) -> None:
        """The content of columns of a CTA counts as unwritten from now on."""
        at = (cta, slice(0, LANES), slice(first, end))
        self.table.cells.empties(at)
        if self.marks is not None:
            self.marks[at] = 0

    # ---- sums that begin with numbers of tcgen05.st

    def _fills(self, at: Any) -> set[int]:
        """The parts of the program whose tcgen05.st have put there what no instruction has read yet."""
        cells = self.table.cells
        fills = cells.unread[at] >= FILL
        lines = distinct(cells.line[at][fills]).tolist() if fills.any() else ()
        return {self._part_of.get(line, -1) for line in lines}

    @functools.cached_property
    def _part_of(self) -> dict[int, int]:
        """By site a number that instructions share between which no branch and no label lies."""
        inlined = self.x.program.inlined
        labels, count, parts = {*inlined.labels.values()}, 0, {}
        for n, i in enumerate(inlined.body):
            count += n in labels
            parts[i.site] = count
            count += i.op == "bra"
        return parts

    # ---- operations

    def begin(self, i: Instruction, thread: int, kind: str) -> Operation:
        """An operation that a thread issues; those of one instruction that one commit completes are one."""
        self.table.unfold()
        op = self.table.issued.open.get((thread, i.site))
        return self.table.begun(thread, self.operations.begin(i, thread, kind)) if op is None else op

    def begin_together(self, i: Instruction, threads: Sequence[int], kind: str, *what: Sequence[Any]) -> list[Operation]:
        """`begin` of several; see `Sanitizer.begin_together`."""
        knowledge, held_open = self.table.knowledge, self.table.issued.open
        own = 0 if knowledge is None or not knowledge.is_the_same() else cast("Cohort", self.x.cohort).own_count(threads, *what)
        held = [held_open[thread, i.site] for thread in threads[:own] if (thread, i.site) in held_open]
        if own and len(held) == own:
            return held
        if knowledge is None or not own or held:
            self.table.unfold()
            return [self.begin(i, thread, kind) for thread in threads]
        ops = self.operations.begin_together(i, threads, kind, own)
        knowledge.has_issued(op.number for op in ops)
        return [self.table.begun(thread, op) for thread, op in zip(threads, ops, strict=False)]

    def passes_op(self, op: Operation, members: Sequence[Cta], reads: Sequence[Box], writes: Sequence[Box]) -> bool:
        """An mma reads and writes boxes. Have only operations accessed them that the tensor core has executed before
        it, and is no product lost? Then it is recorded without a finding; else it must be reported by `op_reads` and
        `op_writes`.
        """
        of_reads, of_writes = (
            [(members[n].index, lanes, slice(first, end)) for n, lanes, first, end in boxes] for boxes in (reads, writes)
        )
        if self.early or self.marks is not None:
            return False
        for member in members:
            self.table.touched(member.index)
        cells, is_piped = self.table.cells, functools.partial(self.rule.is_of_piped, op)
        if not all(map(is_piped, (*of_reads, *of_writes))) or any((cells.who[at] == NOBODY).any() for at in of_reads):
            return False
        read = {(n, first, end) for n, _, first, end in reads}
        if any((n, first, end) not in read and is_lost(cells.unread[at]) for (n, _, first, end), at in zip(writes, of_writes, strict=True)):
            return False
        for at in of_writes:
            self._summed |= self._fills(at)
        for at in of_reads:
            self._joins(op, at)
            cells.unread[at] = 0
        for at in of_writes:
            cells.unread[at], cells.who[at], cells.line[at] = PRODUCT, OPERATIONS + op.number, op.instruction.site
        return True

    def _joins(self, op: Operation, at: Any) -> None:
        self.table.joins(op, at, functools.partial(self.rule.is_over, op.instruction, int(op.warps[0])))

    def op_accesses(self, op: Operation, members: Sequence[Cta], reads: Sequence[Box], writes: Sequence[Box]) -> None:
        """An operation reads and writes boxes of tensor memory of the CTAs of its group."""
        # for tcgen05.shift: moved values are not followed
        if self.op_reads(op, members, reads) and self.marks is not None:
            for which, lanes, first, end in reads:
                self.taint.origins.tell(op.instruction, self.marks[members[which].index, lanes, first:end])
        self.op_writes(op, members, writes)

    def adds_again(self, op: Operation, members: Sequence[Cta], d: AccumulatorLayout) -> bool:
        """An operation adds to an accumulator, and accesses nothing else of tensor memory. Have only operations done so
        that the tensor core has executed before it? Then it is recorded without a finding; else it must be reported
        by `op_reads` and `op_writes`.
        """
        held = [self.table.added.get(member.index, {}).get((d, which)) for which, member in enumerate(members)]
        warp = int(op.warps[0])
        if self.marks is not None or not all(one is not None and self.rule.is_piped(op.instruction, warp, one[0]) for one in held):
            return False
        self.added(op, members, d)
        return True

    def added(self, op: Operation, members: Sequence[Cta], d: AccumulatorLayout) -> None:
        """An operation has added to an accumulator."""
        for box in boxes_of_d(d):
            self.table.added.setdefault(members[box[0]].index, {})[d, box[0]] = op, box

    def op_reads(self, op: Operation, members: Sequence[Cta], boxes: Sequence[Box], sums: Sequence[Box] = ()) -> bool:
        """An operation reads boxes. It adds to `sums`. Is something wrong with what is there?"""
        is_doubtful, of_d = False, {(which, first, end) for which, _, first, end in sums}
        for which, lanes, first, end in boxes:
            at = (members[which].index, lanes, slice(first, end))
            is_unwritten = self._reach(CellAccess(op.instruction, at, int(op.warps[0]), "read"), is_sum=(which, first, end) in of_d)
            is_doubtful |= is_unwritten or (self.marks is not None and bool(self.marks[at].any()))
            self._joins(op, at)
            self._summed |= self._fills(at)
            self.table.cells.unread[at] = 0
        return is_doubtful

    def op_reads_as(self, op: Operation, members: Sequence[Cta], boxes: Sequence[Box], dtype: str) -> None:
        """An operation reads boxes as numbers of less than 32 bits, several a column: R508 where a product left its
        sums there, one a column.
        """
        for which, lanes, first, end in boxes:
            self.table.touched(members[which].index)
            at = (members[which].index, lanes, slice(first, end))
            who = self.table.cells.who[at]
            for before in (self.operations[n] for n in (distinct(who[who >= OPERATIONS]) - OPERATIONS).tolist()):
                # .ashift leaves rows of A moved, too
                if before.kind == "tcgen05.mma" and "ashift" not in before.instruction.modifiers:
                    self.findings.read_as(op.instruction, at, before, dtype)

    def op_writes(self, op: Operation, members: Sequence[Cta], boxes: Sequence[Box], *, is_product: bool | None = None) -> None:
        """An operation writes boxes; an mma a product, unless it says otherwise."""
        warp, i = int(op.warps[0]), op.instruction
        is_product = i.modifiers[0] == "mma" if is_product is None else is_product
        for which, lanes, first, end in boxes:
            cells, at = self.table.cells, (members[which].index, lanes, slice(first, end))
            a = CellAccess(i, at, warp, "write")
            self._reach(a)
            self._came_late(i, at, warp)
            self.findings.tell(a, self.rule.readers(a))
            if is_product:
                self.findings.lost(a, op)
                self._summed |= self._fills(at)
            cells.unread[at] = PRODUCT if is_product else 0
            cells.who[at], cells.line[at] = OPERATIONS + op.number, i.site

    def commit(self, commits: Sequence[tuple[int, Mbarrier]]) -> None:
        """tcgen05.commit of threads: all its own operations so far are complete when the phase of the barrier is. Of
        those of other lanes, only what the tensor core has executed before them is.
        """
        table = self.table
        if table.knowledge is not None and not cast("Cohort", self.x.cohort).own_count([thread for thread, _ in commits]):
            table.unfold()
        threads = {thread if table.knowledge is None else thread % self.x.stride for thread, _ in commits}
        table.issued.last.update({thread: table.committed(thread) for thread in threads})
        table.issued.open = {key: op for key, op in table.issued.open.items() if key[0] not in threads}
        each = iter(commits)
        for warps, what in self.all_order.together(
            [np.array([thread // WARP]) for thread, _ in commits], [barrier for _, barrier in commits]
        ):
            rows = np.stack([table.before_commit(thread) for thread, _ in itertools.islice(each, count_of(what))])
            self.all_order.brings_all(rows if isinstance(what, Alike) else rows[0], warps, what)
