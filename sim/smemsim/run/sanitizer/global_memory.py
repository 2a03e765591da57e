"""Global memory: what the sanitizer does with each access. Most accesses pass a compiled check (`global_loops.py`),
which records them and lists suspicious ones. The rule makes suspects of that list, and findings are made of the
suspects.

CTAs that run one after the other here run together on a card, or in another order. So the accesses of a launch's
waves are recorded until the launch ends (`History`). A later wave knows only what it has acquired at an address in
global memory (`VectorClocks.foreign`). The life of one cell: see `global_table.py`. `shared_memory.py` and
`tensor_memory.py` have the same parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.machine.uninitialised import WORD, Declared
from smemsim.core.ptx.module import Instruction
from smemsim.run.sanitizer import global_loops as loops
from smemsim.run.sanitizer.epoch_numbers import scope_of
from smemsim.run.sanitizer.global_findings import GlobalFindings, is_past_l1
from smemsim.run.sanitizer.global_marks import ATOMICS, GlobalMarks
from smemsim.run.sanitizer.global_rule import ArrayAccess, GlobalRule, Stays
from smemsim.run.sanitizer.global_table import GlobalTable
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.history import ArrayShadow, History, Written
from smemsim.run.sanitizer.operations import Operation, Operations, Renumbering
from smemsim.run.sanitizer.programmatic_launch import Prerequisite
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.sanitizer.taint import Taint
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.accesses import Piece, Values
    from smemsim.run.views import Wave

__all__ = ["GlobalShadow", "GlobalsOfFirst"]


def _returns(i: Instruction) -> bool:
    """Does an instruction update memory and return what was there?"""
    return i.op == "atom"


class GlobalShadow:
    """Compare the accesses of one wave to global memory with the recorded ones, and record them."""

    def __init__(
        self,
        x: Wave,
        clocks: VectorClocks,
        operations: Operations,
        reporting: Reporting,
        history: History,
        taint: Taint,
        first: int,
        open_cp_async: Callable[[Instruction], dict[int, Operation]] | None = None,
    ) -> None:
        """`first` is the number of the wave's first warp in the history. `open_cp_async` returns the open operation of
        each warp to which a cp.async of the running threads belongs.
        """
        self.x, self.clocks, self.history, self.first, self.open_cp_async = x, clocks, history, first, open_cp_async
        self.table = GlobalTable(x, clocks, history, first)
        self.rule = GlobalRule(self.table, operations)
        self.findings = GlobalFindings(self.table, self.rule, reporting)
        self.marks = GlobalMarks(self.table, self.rule, self.findings, taint)
        self.before = Prerequisite(x, clocks, operations, history, self.findings.where) if history.before else None

    def remembered(self) -> list[int]:
        """The numbers of the operations that stand for fences and waits."""
        return [*self.rule.remembered(), *(self.before.remembered() if self.before is not None else ())]

    def renumber(self, to: Renumbering) -> None:
        """Does nothing: this part holds operations, which know their new numbers."""

    @property
    def clock(self) -> np.ndarray:
        """The clock of each warp of the wave."""
        return self.clocks.clock

    def lets_next_begin(self, warps: np.ndarray) -> None:
        """Warps execute griddepcontrol.launch_dependents."""
        per_cta = self.table.per_cta
        for warp, known in zip(warps.tolist(), self.clocks.known_at_fence(warps), strict=True):
            cta, begin = warp // per_cta, warp // per_cta * per_cta % self.clocks.columns
            self.history.triggers(self.first // per_cta + cta, self.first + cta * per_cta, known[begin : begin + per_cta])
        if self.before is not None:
            self.before.releases(warps)

    def name(self, i: Instruction, memory: np.ndarray, at: int) -> str:
        """A place of an array as findings call it."""
        array = self.table.array(memory, 1)
        return "global memory" if array is None else self.findings.where(i, array, at >> array.cells.shift)

    def _tell(self, a: ArrayAccess, found: int, values: Values | None = None, stays: Stays | None = None) -> bool:
        """Report what the compiled check has found, as far as it is wrong. Is anything?"""
        return bool(found) and self.findings.tell(a, self.rule.suspects(a, found, values, stays))

    # ---- threads

    def read(self, i: Instruction, piece: Piece, size: int) -> None:
        """The running threads read `size` bytes each."""
        if self.before is not None:
            self.before.look(i, piece.memory, piece.at, size, self.x.threads >> 5, writes=False)
        if i.op in ATOMICS:  # that have changed nothing in this run: they use their operands
            self.history.unused.executes(i, self.first + (self.x.threads >> 5), self.history.warps)
        array = self.table.read_array(i, piece.memory, size)
        if array is None:
            return
        if array.blank is not None:
            if i.op in ("ld", "cp", "wmma"):
                self.marks.loads_unwritten(i, array, piece.at, size)
            elif i.op in ATOMICS:  # that have left uninitialised content
                array.blank.fill(piece.at, size)
        if self.marks.stored:
            self.marks.reads_stored(i, array, piece.at, size)
        if "nc" in i.modifiers:
            self.findings.is_constant(i, array, piece.at)
        if found := self._reads(i, array, piece.at, size, stops=False):
            self._tell(ArrayAccess(i, array, piece.at, self.x.threads, "read"), found)
        self._note_lines(i, array, piece.at)

    def passes_read(self, i: Instruction, piece: Piece, size: int) -> bool:
        """Is a read unsuspicious, and completely recorded? Else `read` must be called."""
        if self.before is not None and not self.before.are_behind(self.x.threads >> 5):
            return False
        array = self.table.read_array(i, piece.memory, size)
        if array is None:
            return True
        if "nc" in i.modifiers or (array.blank is not None and array.blank.words(piece.at, size).any()):
            return False
        if self.marks.stored and self.marks.stored.of(piece.memory, piece.at, size) is not None:
            return False
        if self._reads(i, array, piece.at, size, stops=True):
            return False
        self._note_lines(i, array, piece.at)
        return True

    def _note_lines(self, i: Instruction, array: ArrayShadow, at: np.ndarray) -> None:
        """The running threads load by way of the L1."""
        if self.history.may_lack_fence and not scope_of(i) and not is_past_l1(i):
            array.loads(at, self.table.cta_of(self.x.threads >> 5))

    def _reads(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int, *, stops: bool) -> int:
        array.fit(size)
        array.for_reads()
        index = self.history.numbers.index(i)
        stores = self.history.unused.follows(i)
        if self.history.numbers.scope[index] and len(array.cells.earlier):
            self._observe(i, index, array, at, size)
        if stores is not None and not stores:  # it cannot race (rule order.unused_read), and would replace one that can
            return 0
        when = self.clocks.clock
        if i.op == "cp" and self.open_cp_async is not None:
            when = self.table.begins(array, self.open_cp_async(i).items())
        found: int = loops.read(at, size, self.x.threads, when, index, stops, self.table.known, array.cells, self.history.suspects)
        return found

    def _observe(self, i: Instruction, index: int, array: ArrayShadow, at: np.ndarray, size: int) -> None:
        """The running threads read by a strong operation. The strong writes that they observe (for an atomic with the
        one before it) happen before their later accesses (rule order.observation).
        """
        threads, instructions = self.x.threads, self.history.numbers.instructions
        found = loops.observed(at, size, threads, index, self.table.known, array.cells, self.history.suspects)
        writes: dict[tuple[int, int], tuple[int, ...]] = {}
        for n, cell, epoch, role in self.history.suspects[:found].tolist():
            key = cell, int(threads[n]) >> 5
            if role == loops.WRITER:
                writes[key] = (epoch,)
            elif instructions[int(array.cells.writers[cell]) & loops.INDEX].op in ATOMICS:
                writes[key] = (*writes.get(key, ()), epoch)
        for (cell, warp), epochs in writes.items():
            own = self.first + warp + 1 << loops.WHO | int(self.clocks.clock[warp]) << loops.WHEN | index
            array.observes(cell, self.first + warp, own, epochs)

    def write(self, i: Instruction, piece: Piece, size: int, values: Values | None = None) -> None:
        """The running threads have written `size` bytes each. With `values`, threads that do not change the bytes do
        not race.
        """
        if self.before is not None:
            self.before.look(i, piece.memory, piece.at, size, self.x.threads >> 5, writes=True)
        if (array := self.table.array(piece.memory, size)) is None:
            return
        found = self._writes(i, array, piece, size, stops=False, values=values)
        if found:
            self._tell(ArrayAccess(i, array, piece.at, self.x.threads, "write"), found, values)
        self.findings.tell_bound(i, array)

    def passes_write(self, i: Instruction, piece: Piece, size: int) -> bool:
        """The same of a write, before it happens."""
        if self.before is not None and not self.before.are_behind(self.x.threads >> 5):
            return False
        array = self.table.array(piece.memory, size)
        if array is None:
            return True
        if self._writes(i, array, piece, size, stops=True):
            return False
        self.findings.tell_bound(i, array)
        return True

    def cells_of_store(
        self, i: Instruction, memory: np.ndarray, size: int, threads: int, *, fills_words: Callable[[], bool] = lambda: False
    ) -> tuple[int, loops.Cells] | None:
        """The number of a weak store of so many threads, and its cells. The result is None if there are no cells, or in
        other cases. For a store of less than a word, `fills_words` says whether neighbouring threads write all bytes of
        each word.
        """
        if self.before is not None or (array := self.table.array(memory, size)) is None or isinstance(array.region.blank, Declared):
            return None
        if self.marks.stored.has(memory):
            return None
        # which bytes it writes is noted
        if size < WORD and array.blank is not None and (array.blank.is_tracked or not fills_words()):
            return None
        if array.is_copied or self.history.unused.is_followed(i) or (self.clocks.carries_global and threads <= WARP):
            return None
        array.fit(size)
        index = self.history.numbers.index(i)
        array.for_writes(0)
        return index, array.cells

    def fills(
        self,
        stores: Sequence[Instruction],
        memory: np.ndarray,
        size: int,
        table: np.ndarray,
        rows: np.ndarray,
        apart: np.ndarray,
        nowhere: int,
        begin: int,
        end: int,
    ) -> bool:
        """Do consecutive stores of threads fill bytes without accesses (`global_loops.fill`)? Then they
        are recorded.
        """
        found = [self.cells_of_store(i, memory, size, end - begin) for i in stores]
        indices = np.array([one[0] for one in found if one is not None], np.int64)
        if len(indices) < len(stores) or found[0] is None:
            return False
        cells = found[0][1]
        if size != 1 << cells.shift or len(cells.readers) or len(cells.line_readers) or len(cells.earlier):
            return False
        return bool(
            loops.fill(
                table, rows, apart, nowhere, memory.ctypes.data, begin, end, size, np.tile(indices, loops.GROUP), self.table.known, cells
            )
        )

    def _writes(self, i: Instruction, array: ArrayShadow, piece: Piece, size: int, *, stops: bool, values: Values | None = None) -> int:
        array.fit(size)
        index = self.history.numbers.index(i)
        array.for_writes(int(self.history.numbers.scope[index]))
        if self.marks.stored:
            self.marks.stored.clear(piece.memory, piece.at, size)
        if array.region.blank is not None:
            array.region.blank.fill(piece.at, size, None if values is None or size >= WORD else values.before())
            if self.x.in_flight is not None:
                array.region.blank.fill_late(piece.at, size)
        self.history.unused.executes(i, self.first + (self.x.threads >> 5), self.history.warps)
        if self.history.numbers.scope[index] and id(i) in self.rule.updates:
            if stops:
                return 1
            a = ArrayAccess(i, array, piece.at, self.x.threads, "write")
            self.findings.tell(a, self.rule.lost_updates(a, size))
        if self._has_atom and i.op in ("red", "st") and self.history.numbers.scope[index] and len(array.cells.earlier):
            self._keep_observed(array, piece.at, size)
        if not self.history.numbers.scope[index] and self.clocks.carries_global and len(piece.at) <= WARP:
            self._weakly_stored(piece)
        found: int = loops.write(piece.at, size, self.x.threads, index, -1, stops, self.table.known, array.cells, self.history.suspects)
        return found

    @functools.cached_property
    def _has_atom(self) -> bool:
        found: bool = self.x.launch.program.has(_returns)
        return found

    def _keep_observed(self, array: ArrayShadow, at: np.ndarray, size: int) -> None:
        """The running threads are about to write over atomics of their warps. The results of these have shown earlier
        writes, which is recorded now (rule order.observation).
        """
        cells, numbers = array.cells, self.history.numbers
        first, warps = at >> cells.shift, self.first + (self.x.threads >> 5)
        for n in range(size >> cells.shift):
            places = first + n
            last = cells.writers[places]
            mine = np.flatnonzero((last >> loops.WHO == warps + 1) & (cells.earlier[places] != 0))
            for cell, warp, own in dict.fromkeys(zip(places[mine].tolist(), warps[mine].tolist(), last[mine].tolist(), strict=True)):
                if numbers.instructions[own & loops.INDEX].op == "atom":
                    before = array.observed.get(cell, {}).get(warp)
                    kept = () if before is None else before.writes
                    array.observes(cell, warp, own, tuple({*kept, int(cells.earlier[cell])}))

    def _weakly_stored(self, piece: Piece) -> None:
        """Plain stores end what was released at their addresses."""
        memory = piece.memory.__array_interface__["data"][0]
        for at in distinct(piece.at).tolist():
            if self.clocks.is_carrier(what := (piece.space, memory, at)):
                self.clocks.weakly_stored(what)

    # ---- tensor maps, which one instruction of a thread reads whole

    def object_read(self, i: Instruction, thread: int, address: int, size: int) -> bool:
        """A thread reads an object of `size` bytes; returns whether that races."""
        for array, at in self.table.places(np.array([address]), size, is_read=True):
            threads = np.array([thread])
            if self.before is not None:
                self.before.look(i, array.region.words, at, size, threads >> 5, writes=False)
            array.fit(size)
            array.for_reads()
            index, when = self.history.numbers.index(i), self.clocks.clock
            found = loops.read(at, size, threads, when, index, False, self.table.known, array.cells, self.history.suspects)
            return self._tell(ArrayAccess(i, array, at, threads, "read"), found)
        return False

    def written(self, address: int, size: int, warp: int) -> list[Written]:
        """The writes of threads of this wave, those of the own CTA where CTAs are apart, that lie in `size` bytes,
        each once.
        """
        found = {}
        for array, at in self.table.places(np.array([address]), size, is_read=True):
            if not len(array.cells.writers):
                continue
            nothing = np.zeros_like(self.clocks.seen)
            count = loops.unfenced(at, size, warp, nothing, self.table.known, array.cells, self.history.suspects)
            for epoch in distinct(self.history.suspects[:count, 2]).tolist():
                who = (epoch >> loops.WHO) - 1 - self.first
                if 0 <= who < len(self.clocks.clock):
                    instruction = self.history.numbers.instructions[epoch & loops.INDEX]
                    found[epoch] = Written(who, epoch >> loops.WHEN & loops.CLOCK, instruction)
        return list(found.values())

    # ---- asynchronous operations

    def op_reads(self, op: Operation, addresses: np.ndarray, size: int) -> None:
        """An asynchronous operation reads `size` bytes at each of these addresses, through the asynchronous proxy,
        until it is complete.
        """
        for array, at in self.table.places(addresses, size, is_read=True):
            a = ArrayAccess(op.instruction, array, at, np.full(len(at), op.warps[0] * WARP), "read")
            if self.before is not None:
                self.before.look(a.i, array.region.words, at, size, a.threads >> 5, writes=False)
            array.fit(size)
            index = self.history.numbers.index(a.i)
            array.for_reads()
            when = self.table.begins(array, [(int(op.warps[0]), op)])
            found = loops.read(at, size, a.threads, when, index, False, self.table.known, array.cells, self.history.suspects)
            if not self._tell(a, found):
                self.findings.tell(a, [self.rule.unfenced(op, array, at, size)])

    def op_writes(self, op: Operation, addresses: np.ndarray, size: int, stays: Stays | None = None) -> None:
        """An asynchronous operation is about to write. `stays`: which addresses hold the same bytes already; writes
        there do not race.
        """
        when = self.table.writes_since(op)
        for array, at in self.table.places(addresses, size):
            a = ArrayAccess(op.instruction, array, at, np.full(len(at), op.warps[0] * WARP), "write")
            if self.before is not None:
                self.before.look(a.i, array.region.words, at, size, a.threads >> 5, writes=True)
            if "reduce" in a.i.modifiers:
                self.marks.changes_unwritten(a.i, array, at, size)
            if self.marks.stored:
                self.marks.stored.clear(array.region.words, at, size)
            if array.region.blank is not None:
                array.region.blank.fill(at, size)
            array.fit(size)
            index = self.history.numbers.index(a.i)
            array.for_writes(int(self.history.numbers.scope[index]))
            unfenced = self.rule.unfenced(op, array, at, size)
            found = loops.write(at, size, a.threads, index, when, False, self.table.known, array.cells, self.history.suspects)
            if not self._tell(a, found, stays=stays):
                self.findings.tell_bound(a.i, array)
                self.findings.tell(a, [self.rule.that_change(array, unfenced, stays)])

    def passes_op_write(self, op: Operation, addresses: np.ndarray, size: int, *, when: int, behind: int) -> bool:
        """Is such a write unsuspicious? It has this place among asynchronous writes; its warp is so many after the
        operation's, and has the same knowledge of its CTA. Then it is recorded; else the write must be handled for
        that warp, and may be recorded in part.
        """
        places = list(self.table.places(addresses, size))
        if self.before is not None or len(places) != 1:
            return False
        ((array, at),) = places
        if self.marks.stored.has(array.region.words):
            return False
        if array.region.blank is not None:
            if "reduce" in op.instruction.modifiers:
                return False
            array.region.blank.fill(at, size)
        array.fit(size)
        index, warp = self.history.numbers.index(op.instruction), int(op.warps[0])
        array.for_writes(int(self.history.numbers.scope[index]))
        known = self.table.known._replace(first=self.first + behind)
        if self.rule.may_be_unfenced(array, at, size, warp, known):
            return False
        found = loops.write(at, size, np.full(len(at), warp * WARP), index, when, True, known, array.cells, self.history.suspects)
        if not found:
            self.findings.tell_bound(op.instruction, array)
        return not found


class GlobalsOfFirst:
    """Global memory for a cohort (`first.py`): the knowledge of the first CTA is that of each CTA about its own warps.
    `shadow` is that of the first CTA. Only asynchronous operations are recorded.
    """

    def __init__(self, shadow: GlobalShadow) -> None:
        self.shadow = shadow
        self._open: dict[Operation, dict[int, int]] = {}  # without a wait: by CTA the place among asynchronous writes

    def op_writes(self, op: Operation, cta: int, addresses: np.ndarray, size: int) -> bool:
        """A write of the twin of the first CTA's operation. False if the cohort must split."""
        when = self._open.setdefault(op, {})[cta] = self.shadow.history.numbers.issues()
        return self.shadow.passes_op_write(op, addresses, size, when=when, behind=cta * self.shadow.table.per_cta)

    def waited(self, op: Operation) -> None:
        """All CTAs have waited."""
        for when in self._open.pop(op, {}).values():
            self.shadow.history.numbers.waited[when] = self.shadow.clocks.clock[op.warps[0]]

    def spread(self, of_all: GlobalShadow) -> None:
        """The cohort splits: from now on the sanitizer of all CTAs gets the events."""
        of_all.table.begun({op.of(cta): when for op, begun in self._open.items() for cta, when in begun.items()})
