"""The findings of tensor memory: X012, made of the suspects of `tensor_rule.py`. Also what an access does to
numbers there: X017 where a product is lost, R508 where sums are read as operands, X007 where no tcgen05.wait::ld
follows a load.

For example: a suspect that is a tcgen05.mma, and a read of warp 1. It becomes X012 "tensor memory (lanes 0
to 31, columns 0 to 63) may be read before it is written", with the mbarrier of the tcgen05.commit as the fix.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.finding import OR, Half, ranges
from smemsim.core.ptx.module import Instruction, lines_of
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.tensor_memory import COLUMNS, LANES
from smemsim.run.async_ops import BY_ONE_THREAD
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.operations import NOBODY, OPERATIONS, Operation
from smemsim.run.sanitizer.races import Access
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.sanitizer.tensor_rule import FILL, NUMBERS, PRODUCT, CellAccess, Suspect, is_cut
from smemsim.run.sanitizer.tensor_table import TensorTable
from smemsim.run.warps import WARP

__all__ = ["TensorFindings"]


WARPGROUP = 4  # warps
MOST_RUNS = 4  # of lanes, that are listed
BOTH_MULTIPLY = "both CTAs of a pair issue tcgen05.mma.cta_group::2; one such instruction computes D of both CTAs"
WANTED = "the PTX ISA wants one; no failure without it is known"


def _are_lanes(one: Operation, other: Operation) -> bool:
    """Are two operations of one warp issued by two of its lanes?"""
    return bool(one.warps[0] == other.warps[0]) and one.lane != other.lane


@dataclasses.dataclass(eq=False)
class Cut:
    """A product, by the number of its operation, of which another one has overwritten some `columns` unread.

    The first one's column next to them is `beside`, the other columns of the second one are `rest`. Has a load read
    both `beside` and `columns` (`joint`), and another load `columns` without it (`alone`)?
    """

    by: int
    a: CellAccess
    lost: Half
    columns: np.ndarray
    beside: int
    rest: np.ndarray
    joint: Instruction | None = None
    alone: bool = False


class TensorFindings:
    """Reports suspects, and lost numbers. The products that are cut are `cuts`, by CTA and the site of the second."""

    def __init__(self, table: TensorTable, reporting: Reporting) -> None:
        self.table, self.reporting, self.x, self.clocks = table, reporting, table.x, table.clocks
        self.cuts: dict[tuple[int, int], Cut] = {}

    # ---- X012

    def tell(self, a: CellAccess, *suspects: Iterable[Suspect]) -> None:
        """Report the suspects of an access."""
        for suspect in itertools.chain.from_iterable(suspects):
            if suspect.is_own:
                self._tell_own(a, suspect)
                continue
            where = self.where(a.at, suspect.cells)
            theirs, why, repair = self._of_operation(a, suspect, suspect.op) if suspect.op is not None else self._of_warp(a, suspect)
            cta = a.warp // self.table.per_cta if suspect.op is None else a.at[0]
            one, other = self._mine(a), theirs
            if self._comes_too_late(a, suspect) and theirs.instruction is not None:
                one, other, why = other, one, "the reader does not wait for the store"
                repair = f"arrive at an mbarrier after tcgen05.wait::st of {a.i.at}, and wait there before {theirs.instruction.at}"
            said = dataclasses.replace(races.tensor_memory(one, other, where, why), kind=self._kind(a, suspect))
            self.reporting.tell(a.i, said, repair, "PTX ISA 9.1 §9.7.16.6", formal=suspect.formal, cta=self.x.ctas[cta])

    def _comes_too_late(self, a: CellAccess, suspect: Suspect) -> bool:
        """Was a read meant to come after this tcgen05.st?"""
        cells = self.table.cells.who[a.at][suspect.cells]
        reader = self.reporting.at(suspect.line) if suspect.op is None else suspect.op.instruction
        if a.i.modifiers[:1] != ("st",) or suspect.does != "read" or not cells.size:
            return False
        return self.reporting.comes_too_late(a.i, reader, is_first=bool((cells == NOBODY).all()))

    def _kind(self, a: CellAccess, suspect: Suspect) -> str:
        """What is missing."""
        if suspect.op is None:
            return "wait of its own warp" if suspect.is_pending else "order"
        return self.reporting.lacks(suspect.op, a.warp)

    def _of_operation(self, a: CellAccess, suspect: Suspect, op: Operation) -> tuple[Access, str, str]:
        """The earlier access, why the two have no order, and the fix."""
        theirs = self.reporting.by(op, suspect.does)
        if self._is_of_peer(a, op):
            lines = lines_of(sorted({i.line: i for i in (a.i, op.instruction)}.values(), key=lambda i: i.line))
            return theirs, BOTH_MULTIPLY, f"let one CTA of the pair alone execute {lines} (a test of %cluster_ctarank)"
        why = self.reporting.unwaited(op, a.warp)
        if suspect.does == "read":
            return theirs, why, self._wait_for(op, a, only_read=True)
        early = self.clocks.why_early(a.warp)
        if early:
            return (
                theirs,
                f"{why}{early}",
                (
                    "let this warp wait for every phase of that mbarrier in turn; or let the warp that commits wait until this warp has read, so that it is never two "
                    "phases ahead"
                ),
            )
        repair = self.reporting.too_weak(op, a.warp)
        if not repair and (relaxed := self.reporting.relaxed_wait(a.warp)):
            why, repair = self.reporting.why_relaxed(a.warp), relaxed
        return theirs, why, repair or self._wait_for(op, a, only_read=False)

    def _is_of_peer(self, a: CellAccess, op: Operation) -> bool:
        """Do the two CTAs of a pair both issue a product of the pair?"""
        both = all(i.op == "tcgen05" and i.modifiers[:2] == ("mma", "cta_group::2") for i in (a.i, op.instruction))
        return both and int(op.warps[0]) // self.table.per_cta != a.warp // self.table.per_cta

    def _wait_for(self, op: Operation, a: CellAccess, *, only_read: bool) -> str:
        """The fix: a wait for the commit; before a deallocation, a barrier with the warp that has waited."""
        if a.i.modifiers[0] == "dealloc":
            return self.reporting.wait_for(op, a.i, a.warp, only_read=only_read)
        found = self.reporting.commit_instead(op, a.warp)
        return found or f"{self.reporting.commit_for(op, a.i, a.warp)}{self._or_before(op, a)}"

    def _or_before(self, op: Operation, a: CellAccess) -> str:
        """The other fix if a warp that has waited for an earlier operation accesses what another one writes.

        That may be the one that comes too early.
        """
        is_access = a.i.modifiers[0] in ("ld", "st") and self.reporting.committed_early(op, a.warp) is None
        if not is_access or not self.reporting.has_waited_for_commit(a.warp):
            return ""
        operation = self.x.program.named(op.instruction)
        return f"{OR}if {a.i.at} should come before that operation: before {operation}, wait for a barrier at which this warp arrives after {a.i.at}"

    def _of_warp(self, a: CellAccess, suspect: Suspect) -> tuple[Access, str, str]:
        access = "ld" if suspect.does == "read" else "st"
        warps = self._warps(suspect, a.at)
        theirs = Access(suspect.does, warps, self.reporting.at(suspect.line))
        if suspect.is_pending:
            wait = f"tcgen05.wait::{access}.sync.aligned after {self.reporting.line(suspect.line)}, then a barrier before {a.i.at}"
            return (
                theirs,
                f"{warps} {'have' if warps.startswith('warps') else 'has'} not executed tcgen05.wait::{access} after {self.reporting.line(suspect.line)}",
                wait,
            )
        if a.does == "free":
            near = a.warp // self.table.per_cta == suspect.warp // self.table.per_cta
            meet = "bar.sync (__syncthreads)" if near else "barrier.cluster.arrive and barrier.cluster.wait of both CTAs"
            done = f"tcgen05.wait::{access} of {self.reporting.line(suspect.line)}"
            return theirs, races.UNORDERED, f"{meet} after {done}, before {a.i.at}"
        return (
            theirs,
            races.UNORDERED,
            (
                f"arrive at a barrier after tcgen05.wait::{access} of {self.reporting.line(suspect.line)}, and wait there before {a.i.at} "
                "(if the barrier is .relaxed: tcgen05.fence::before_thread_sync before the arrival, ::after_thread_sync after the wait); "
                "or other columns, if the two should not use the same ones"
            ),
        )

    def _tell_own(self, a: CellAccess, suspect: Suspect) -> None:
        """A remark: a warp accesses what its own tcgen05.st or .ld may still access."""
        other = self.reporting.at(suspect.line)
        if other is not None:
            said = races.own_tensor_access(self._mine(a), self.reporting.access(suspect.does, a.warp, suspect.line), WANTED)
            wait = f"tcgen05.wait::{'ld' if suspect.does == 'read' else 'st'}.sync.aligned after {self.reporting.line(suspect.line)}"
            self.x.launch.find(
                said.code, a.i, said.what, wait, because="PTX ISA 9.1 §9.7.16.6.4.2", milder=Severity.NOTE, operation=other.name, other=other,
                halves=said.halves, why=said.why,
            )  # fmt: skip

    def no_wait_follows(self, load: Instruction, user: Instruction) -> None:
        """X007, a remark: an instruction uses registers of a tcgen05.ld that no tcgen05.wait::ld follows."""
        self.x.launch.find(
            "X007", user, "registers of tcgen05.ld are used without tcgen05.wait::ld", f"tcgen05.wait::ld.sync.aligned after {load.at}",
            because="PTX ISA 9.1 §9.7.16.8.1, 9.7.16.8.5", milder=Severity.NOTE, other=load,
            halves=(Half("use", user.name, user), Half("load", load.name, load)),
            why="ptxas makes instructions wait for registers that they name; the PTX ISA promises the values only after tcgen05.wait::ld",
        )  # fmt: skip

    # ---- numbers that are lost, or read as others

    def lost(self, a: CellAccess, op: Operation) -> None:
        """X017 if a product is overwritten by another one (`op`), and no instruction has read it. A remark if it is
        numbers of `tcgen05.st`: dead work changes no result. One number everywhere is no loss.
        """
        i, at, warp, _ = a
        held, because = self.table.cells.unread[at], "PTX ISA 9.1 §9.7.16.10"
        if (held == PRODUCT).all():
            by = self.reporting.operations[int(self.table.cells.who[at].flat[0]) - OPERATIONS]
            repair = "enable-input-d true for all but the first instruction that adds into D"
            is_committed = all(other.number != by.number for other in self.table.issued.open.values())
            if by.instruction is i and _are_lanes(by, op):
                repair = BY_ONE_THREAD
            elif is_committed:
                repair = (
                    "wait until the readers of the earlier product have read it (an mbarrier at which they arrive), then begin this one"
                    f"{OR}if this belongs to the same sum: {repair}"
                )
            self.x.launch.find(
                "X017", i, f"the product in {self.where(at, held > 0)} is overwritten, and no instruction has read it",
                repair, because=because,
                why="the new values replace the earlier product, so its numbers are lost",
                other=by.instruction, halves=(self._mine(a).half, self._lost(by, a, op)), kind="committed" * is_committed,
            )  # fmt: skip
        elif (held >= FILL).all() and (held == NUMBERS).any():
            self.x.launch.find(
                "X017", i, f"the numbers that tcgen05.st wrote to {self.where(at, held > 0)} are overwritten, and no instruction has read them",
                "enable-input-d true for the first instruction too, if the sum begins with the numbers in D", because=because, milder=Severity.NOTE,
                halves=(self._mine(a).half, self.reporting.access("lost", warp, int(self.table.cells.line[at].flat[0])).half),
                why="a sum that begins with enable-input-d false does not add to the old numbers",
            )  # fmt: skip
        elif is_cut(held):
            self._lost_in_part(a, op, held)

    def _lost_in_part(self, a: CellAccess, op: Operation, held: np.ndarray) -> None:
        """X017 as a remark: a product begins at another column, in the middle of a product that nothing has read. The
        columns that both have may be padding.
        """
        i, (cta, lanes, columns), *_ = a
        cells = self.table.cells
        last = np.arange(COLUMNS)[columns][np.flatnonzero((held == PRODUCT).all(axis=0))]
        of_lanes = cells.who[cta, lanes]
        who = of_lanes[:, last]
        by = int(who.flat[0])
        beside = last[0] - 1 if columns.start == last[0] else last[-1] + 1
        if by < OPERATIONS or (who != by).any() or not 0 <= beside < COLUMNS or (of_lanes[:, beside] != by).any():
            return
        other = self.reporting.operations[by - OPERATIONS]
        if other.kind != "tcgen05.mma":
            return
        lost = self._lost(other, a, op)
        self._tell_cut(a, last, lost, "it is right only if the columns that both have are padding of the first product", Severity.NOTE)
        rest = np.setdiff1d(np.arange(COLUMNS)[columns], last)
        if rest.size:
            self.cuts[cta, i.site] = Cut(by, a, lost, last, int(beside), rest)

    def _tell_cut(self, a: CellAccess, columns: np.ndarray, lost: Half, why: str, milder: Severity | None = None) -> None:
        at = (*a.at[:2], slice(int(columns[0]), int(columns[-1]) + 1))
        where = self.where(at, np.ones_like(self.table.cells.who[at], bool))
        self.x.launch.find(
            "X017", a.i, f"a part of a product, {where}, is overwritten by another product, and no instruction has read it",
            "a column for the second product at which the first one has ended", because="PTX ISA 9.1 §9.7.16.10", milder=milder,
            why=why, other=lost.instruction, halves=(self._mine(a).half, lost),
        )  # fmt: skip

    def read_cut(self, i: Instruction, at: Any) -> None:
        """A load reads cells of a CTA with cut products."""
        cta, lanes, columns = at
        for (of, _), cut in self.cuts.items():
            if of != cta or columns.start > cut.columns[-1] or columns.stop <= cut.columns[0]:
                continue
            if columns.start <= cut.beside < columns.stop and (self.table.cells.who[cta, lanes, cut.beside] == cut.by).all():
                cut.joint = i
            else:
                cut.alone = True

    def _read_as_one(self, cta: int, first: int, end: int) -> None:
        """X017 for products that are cut, if one load has read the columns that are left and the lost ones together,
        and nothing else has read the second product. Then they are no padding, unless the columns that nothing reads
        are zero, which may be padding of both. A race (X012) explains it better.
        """
        cells = self.table.cells
        if self.cuts and any(f.code == "X012" for f in self.x.launch.result.findings.values()):
            return
        for cut in [cut for (of, _), cut in self.cuts.items() if of == cta and first <= cut.columns[0] < end]:
            rest = (cut.a.at[1], cut.rest)
            is_unread = (cells.unread[cta][rest] == PRODUCT).all() and self.x.tensor[cta][rest].any()
            if cut.joint is not None and not cut.alone and is_unread:
                self._tell_cut(
                    cut.a, cut.columns, cut.lost,
                    f"{cut.joint.at} reads them together with column {cut.beside} of the first product, and nothing reads columns {cut.rest[0]} to {cut.rest[-1]} of the second one",
                )  # fmt: skip

    def unread(self, a: CellAccess, read: Collection[int]) -> None:
        """X017, a remark: columns are given back with a product of which no cell was read. Earlier products of its
        instruction were (their lines are `read`).
        """
        self._read_as_one(a.at[0], a.at[2].start, a.at[2].stop)
        cells = self.table.cells
        who, is_product = cells.who[a.at], cells.unread[a.at] == PRODUCT
        for number in distinct(who[is_product & (who >= OPERATIONS)]).tolist() if is_product.any() else ():
            by = self.reporting.operations[number - OPERATIONS]
            if by.instruction.site not in read or not is_product[who == number].all():
                continue
            self.x.launch.find(
                "X017", by.instruction, "the last product is lost: no instruction has read it when its columns are given back",
                "read the last product too, if it belongs to the result", milder=Severity.NOTE, operation="last",
                halves=(Half("lost", f"the last product of warp {self.reporting.warp(by.warps[0])}", by.instruction), self._mine(a).half),
                why="an earlier product of this line was read; it is right if this one belongs to a tile outside the matrix",
            )  # fmt: skip

    def _lost(self, by: Operation, a: CellAccess, op: Operation) -> Half:
        """The product that is lost to this access, by `op`."""
        is_behind, are_lanes = (by.instruction.line, by.instruction.nth) >= (a.i.line, a.i.nth), _are_lanes(by, op)
        again = ", in the iteration before" * bool(is_behind and not are_lanes and by.warps[0] == a.warp)
        who = f"lane {by.lane} of warp" if are_lanes else "warp"
        return Half("lost", f"the product of {who} {self.reporting.warp(by.warps[0])}{again} ({by.instruction.name})", by.instruction)

    def read_as(self, i: Instruction, at: Any, before: Operation, dtype: str) -> None:
        """R508: an instruction reads sums as operands. An operation has left one sum in each column."""
        where = self.where(at, self.table.cells.who[at] == OPERATIONS + before.number)
        self.x.launch.find(
            "R508", i, f"{where} holds 32-bit sums, and is read as {dtype} numbers of A", "the columns that hold A; or convert the sums first "
            "(tcgen05.ld, cvt, tcgen05.st, tcgen05.wait::st)", because="PTX ISA 9.1 §9.7.16.10.4",
            halves=(Half("read", i.name, i), Half("write", before.instruction.name, before.instruction)),
        )  # fmt: skip

    # ---- names

    def _mine(self, a: CellAccess) -> Access:
        return Access(a.does, f"warp {self._warp(a.warp)}", a.i)

    def _warps(self, suspect: Suspect, at: Any) -> str:
        """The warps of an earlier tcgen05.ld or .st. A warp has its own 32 lanes, so more lanes are of more warps. They
        are known of loads, and of stores if the CTA has no more than four.
        """
        quarters = distinct(np.arange(LANES)[at[1]][np.flatnonzero(suspect.cells.any(1))] // WARP).tolist()
        if len(quarters) < 2 or (self.table.per_cta > WARPGROUP and suspect.does != "read"):
            return f"warp {self._warp(suspect.warp)}"
        begin, own = suspect.warp - suspect.warp % self.table.per_cta, suspect.warp % self.table.per_cta
        warps = [own // WARPGROUP * WARPGROUP + quarter for quarter in quarters]
        last = self._warp(begin + warps[-1])
        if len(warps) > 2 and warps[-1] - warps[0] == len(warps) - 1:
            return f"warps {warps[0]} to {last}"
        return f"warps {', '.join(map(str, warps[:-1]))}, {last}"

    def where(self, at: Any, cells: np.ndarray) -> str:
        """Cells as lanes and columns."""
        lane = np.arange(LANES)[at[1]][np.flatnonzero(cells.any(1))]
        column = np.arange(COLUMNS)[at[2]][np.flatnonzero(cells.any(0))]
        of = f" of CTA {self.x.ctas[at[0]].number}" if self.x.launch.ctas > 1 else ""
        has_few_runs = np.count_nonzero(np.diff(lane) != 1) < MOST_RUNS
        several = ranges(lane.tolist()) if has_few_runs and len(lane) > 2 else f"{lane[0]} to {lane[-1]}"
        lanes = f"lanes {several}" if len(lane) > 1 else f"lane {lane[0]}"
        columns = f"columns {column[0]} to {column[-1]}" if len(column) > 1 else f"column {column[0]}"
        return f"tensor memory{of} ({lanes}, {columns})"

    def _warp(self, warp: int) -> str:
        cta, own = divmod(warp, self.table.per_cta)
        return str(own) if self.x.launch.ctas == 1 else f"{own} of CTA {self.x.ctas[cta].number}"
