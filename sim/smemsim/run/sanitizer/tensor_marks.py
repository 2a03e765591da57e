"""Uninitialised values in tensor memory: the marks of its cells, and reads of cells that no instruction has written.

The life of one cell: a tcgen05.ld reads it, and no instruction has written it. Its values get the mark of that line. A
use of the value is R507 (`unwritten_is_used`). If an operation writes the cell later, which the reader did not wait
for, it is X012 instead (`came_late`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.tensor_memory import COLUMNS, LANES, WARP_LANES
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.operations import NOBODY, OPERATIONS
from smemsim.run.sanitizer.origins import WORD
from smemsim.run.sanitizer.taint import Taint, is_followed
from smemsim.run.sanitizer.tensor_findings import TensorFindings
from smemsim.run.sanitizer.tensor_rule import FILL, PRODUCT, CellAccess, TensorRule
from smemsim.run.sanitizer.tensor_table import TensorTable
from smemsim.run.sanitizer.uninitialised import half_of_cells, uninitialised

__all__ = ["TensorMarks"]


_WRITERS = ("st", "cp")  # what fills cells, besides products
OF_HALF_LANES = "D of M = 64 is in lanes 0 to 15, 32 to 47, 64 to 79 and 96 to 111, and nothing has written the others"


class TensorMarks:
    """The values in doubt in tensor memory. Cells are numbered through all CTAs."""

    table: TensorTable
    rule: TensorRule
    findings: TensorFindings

    def __init__(self, taint: Taint) -> None:
        self.taint = taint
        self.early: dict[int, tuple[Instruction, np.ndarray]] = {}  # by line: reads of uninitialised cells
        # for them, by line: why the wait before them passed at once, and the fix
        self.passed: dict[int, tuple[str, str]] = {}
        self.sums: set[int] = set()  # the lines that added to them
        # for them, by line: what arrived later, to be reported when the value is used
        self.late: dict[int, Callable[[], None]] = {}
        # of uninitialised values, of the four bytes of each cell, made when the first one is written
        self.marks: np.ndarray | None = None

    # ---- the marks of cells

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

    def are_unwritten(self, cells: np.ndarray) -> np.ndarray:
        """Which cells, by their place among all, has no instruction written?"""
        self.table.unfold()
        found: np.ndarray = self.table.cells.who.reshape(-1)[cells] == NOBODY
        return found

    def are_marked(self, cells: np.ndarray) -> np.ndarray:
        """Which cells, by their place among all, hold a copy of uninitialised bytes?"""
        return np.zeros(cells.shape, bool) if self.marks is None else self.marks.reshape(-1, WORD)[cells].any(axis=-1)

    def of_bytes(self, i: Instruction, cells: np.ndarray) -> np.ndarray:
        """The same of the bytes of cells: (..., 4)."""
        nobody = self.are_unwritten(cells)
        found: np.ndarray = np.zeros((*cells.shape, WORD), np.int32) if self.marks is None else self.marks.reshape(-1, WORD)[cells]
        if nobody.any():
            mark = self.taint.origins.of(("tensor", i.site), functools.partial(self.unwritten_is_used, i.site), is_whole=bool(nobody.all()))
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
            self.table.unfold()
            self.marks = np.zeros((*self.table.cells.who.shape, WORD), np.int32)
        self.marks.reshape(-1, WORD)[cells] = marks

    def put_lower(self, i: Instruction, cells: np.ndarray, marks: np.ndarray) -> None:
        """tcgen05.st.unpack::16b has written the lower halves of cells, with marks of their bytes (..., 2). The upper
        halves of uninitialised cells stay uninitialised.
        """
        self.table.unfold()
        mark = np.int32(self.taint.origins.of(("tensor half", i.site), functools.partial(self._half_is_used, i)))
        before = np.zeros(1, np.int32) if self.marks is None else self.marks.reshape(-1, WORD)[cells][..., WORD // 2 :]
        upper = np.where((self.table.cells.who.reshape(-1)[cells] == NOBODY)[..., None], mark, before).astype(np.int32)
        self.put_parts(cells, np.concatenate([marks, np.broadcast_to(upper, marks.shape)], axis=-1))

    def are_unread_products(self, cells: np.ndarray) -> bool:
        """Do cells (places among all) hold a result of an mma that nothing has read?"""
        self.table.unfold()
        return bool((self.table.cells.unread.reshape(-1)[cells] == PRODUCT).all())

    # ---- R507, or X012 if the cells are written later

    def _reads_unwritten(self, a: CellAccess, nobody: np.ndarray, *, is_sum: bool) -> None:
        """Cells are read that nothing has written: R507, when the value is used if it is followed."""
        if is_sum:
            self.sums.add(a.i.site)
        if is_followed(a.i):
            if a.i.site not in self.passed:
                self.passed[a.i.site] = self.findings.reporting.passed_before_commit(a.warp)
            self.early.setdefault(a.i.site, (a.i, np.zeros(self.table.cells.who.shape, bool)))[1][a.at] |= nobody
        else:
            said, _ = uninitialised(self.findings.where(a.at, nobody), a.i)
            self.table.x.launch.find(said.code, a.i, said.what, self._repair(a, nobody))

    def _repair(self, a: CellAccess, nobody: np.ndarray) -> str:
        """What to write before the cells are read. An instruction that fills other cells may have a wrong address."""
        elsewhere, is_late = self._filled_instead(a, nobody)
        if is_late:
            return f"write these cells before {a.i.at} reads them: {elsewhere} writes them only after that"
        has_filled = f": so far {elsewhere}" if elsewhere else " (tcgen05.st or tcgen05.cp, and its wait)"
        if a.i.site in self.sums:
            first = "enable-input-d false for the first instruction that adds into D"
            begins = f"if the sum begins with numbers in D, such as a bias: write these cells first{has_filled}"
            return f"{begins}; or {first}" if elsewhere else f"{first}; or {begins}"
        if a.i.modifiers[0] == "ld":
            said = f": so far {elsewhere}" if elsewhere else ""
            return f"check the address, and that the instruction that writes these cells was issued{said}"
        return f"write these cells first, and check the address{has_filled}"

    def _filled_instead(self, a: CellAccess, nobody: np.ndarray) -> tuple[str, bool]:
        """The instruction that has filled the nearest cells of the CTA, as a sentence; "" without one. Or the line that
        has filled these cells since they were read, and True.
        """
        cells, cta = self.table.cells, a.at[0]
        # numbers for D are read by no other instruction, as scale factors are
        is_filled = cells.unread[cta] >= FILL if a.i.site in self.sums else cells.who[cta] != NOBODY
        lines = cells.line[cta] * is_filled
        fills = {i.site: i for i in self.table.x.program.inlined.body if i.op == "tcgen05" and i.modifiers[0] in _WRITERS}
        if since := set(distinct(lines[a.at[1:]][nobody]).tolist()) & fills.keys():
            return fills[min(since)].at, True
        here = distinct(np.arange(COLUMNS)[a.at[2]][nobody.any(axis=0)])
        apart: dict[int, int] = {}
        for line in fills.keys() & set(distinct(lines).tolist()):
            columns = np.flatnonzero((lines == line).any(axis=0))
            apart[line] = int(np.abs(columns[:, None] - here).min())
        if not apart:
            return "", False
        line = min(apart, key=lambda n: (apart[n], n))
        where = self.findings.where((cta, slice(0, LANES), slice(0, COLUMNS)), lines == line)
        return f"{fills[line].at} ({fills[line].name}) has written only {where}", False

    def unwritten_is_used(self, site: int, user: Instruction | None) -> None:
        """An uninitialised value that an instruction read is used."""
        if site in self.late:
            self.late.pop(site)()
        elif site in self.early:
            i, cells = self.early[site]
            cta = int(np.argmax(cells.any((1, 2))))
            where = self.findings.where((cta, slice(0, LANES), slice(0, COLUMNS)), cells[cta])
            said, milder = uninitialised(where, i, user, is_voted=self.taint.is_voted)
            repair = self._repair(CellAccess(i, (cta, slice(0, LANES), slice(0, COLUMNS)), -1, "read"), cells[cta])
            why, wait = self.passed.get(site, ("", ""))
            repair, why = f"{wait}; or {repair}" if wait else repair, said.why if milder is not None else why or said.why
            if self._has_half_of_lanes(cta, cells[cta]):
                why, repair = OF_HALF_LANES, "let warp w load rows 16w to 16w + 15 of D from lanes 32w to 32w + 15"
            self.table.x.launch.find(said.code, i, said.what, repair, milder=milder, why=why, halves=said.halves)

    def _has_half_of_lanes(self, cta: int, nobody: np.ndarray) -> bool:
        """Is a product in the columns of these cells, in the first 16 of each 32 lanes alone, as D of M = 64 is?"""
        who = self.table.cells.who[cta][:, nobody.any(axis=0)]
        numbers, lanes = distinct(who[who != NOBODY]).tolist(), (who != NOBODY).any(axis=1)
        by = [self.findings.reporting.operations[n - OPERATIONS].kind if n >= OPERATIONS else "" for n in numbers]
        return {*by} == {"tcgen05.mma"} and bool((lanes == (np.arange(LANES) % WARP_LANES < WARP_LANES // 2)).all())

    def _half_is_used(self, i: Instruction, user: Instruction | None) -> None:
        """R507: the upper halves of cells are used, of which an instruction has written the lower ones alone."""
        said = half_of_cells(i, user)
        self.table.x.launch.find(
            said.code, i, said.what, "tcgen05.ld.pack::16b, which reads the lower halves; or write whole columns first", because="PTX ISA 9.1 §9.7.16.8.3",
            why=said.why, halves=said.halves,
        )  # fmt: skip

    def _came_late(self, i: Instruction, at: Any, warp: int) -> None:
        """An operation writes cells that were read uninitialised before: the reader did not wait.

        Not if the reader was complete before the operation was issued: then it could not wait.
        """
        reporting = self.findings.reporting
        for site, (reader, cells) in list(self.early.items()):
            missed = cells[at] & (self.table.cells.who[at] == NOBODY) & self.rule.are_read_late(at, warp)
            if missed.any() and site != i.site:
                del self.early[site]
                said = races.tensor_read_early(reader, i, self.findings.where(at, missed))
                repair = f"{reporting.commit_of(i, reader)}; wait for the parity of this round"
                tell = functools.partial(
                    self.table.x.launch.find, said.code, reader, said.what, repair, because="PTX ISA 9.1 §9.7.16.6", why=said.why, halves=said.halves,
                )  # fmt: skip
                reporting.came_late(reader, tell, self.late)
