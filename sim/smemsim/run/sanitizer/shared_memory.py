"""Shared memory: what the sanitizer does with each access. Most pass a compiled check (`passes_...`), which records
them. For the rest the rule lists suspects, findings are made of these, and the access is recorded here.

The life of one word: warp 2 stores to it, and `passes_write` records the store. Warp 3 loads it without a barrier, so
`passes_read` returns False. Then `read` asks `shared_rule.last_writers`, which lists warp 2. An X008 is made by
`shared_findings.tell`, and `SharedTable.read` records the load. The modules `global_memory.py` and `tensor_memory.py`
have the same parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction
from smemsim.run.async_ops import facts_of
from smemsim.run.following import WHOLE
from smemsim.run.marks import LANE_BITS, MANY, NO_LANE, SEVERAL
from smemsim.run.sanitizer import shared_loops
from smemsim.run.sanitizer.byte_masks import Write
from smemsim.run.sanitizer.folding import Knowledge
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.lanes import Lanes
from smemsim.run.sanitizer.mbarriers import MbarrierObjects
from smemsim.run.sanitizer.operations import MBARRIER, NOBODY, OPERATIONS, Operation, Operations, are_warps
from smemsim.run.sanitizer.reporting import WORD, Reporting
from smemsim.run.sanitizer.shared_findings import SharedFindings
from smemsim.run.sanitizer.shared_rule import SharedRule, Suspects, WordAccess
from smemsim.run.sanitizer.shared_table import ATOMIC, SharedTable
from smemsim.run.scopes import CTA, GPU
from smemsim.run.warps import ALL, WARP
from smemsim.run.word_ranges import WordRanges

if TYPE_CHECKING:
    from smemsim.run.accesses import Values
    from smemsim.run.views import Cta, Wave

__all__ = ["SharedShadow"]


_NONE = np.zeros(0, np.int64)


class SharedShadow:
    """The accesses of one wave, and whether the next one is ordered after them."""

    def __init__(
        self, x: Wave, clocks: VectorClocks, operations: Operations, reporting: Reporting, lanes: Lanes, objects: MbarrierObjects, knowledge: Knowledge | None
    ) -> None:  # fmt: skip
        self.x, self.clocks, self.operations, self.lanes, self.objects = x, clocks, operations, lanes, objects
        self.table = SharedTable(x, clocks, operations, lanes, knowledge)
        self.rule = SharedRule(self.table, clocks, operations, reporting, lanes, objects)
        self.findings = SharedFindings(self.table, clocks, reporting, objects)

    # ---- threads read

    def passes_read(self, i: Instruction, flat: np.ndarray, size: int, *, stops_at_operations: bool) -> bool:
        """The running threads read whole words. False, and nothing is recorded, if a closer check is
        needed (`read`).
        """
        table = self.table
        if table.parts.kept or size < WORD:
            return False
        places = np.ascontiguousarray(flat, np.int64)
        if table.by_epochs is not None and self.x.sel is ALL and table.by_epochs(i.site, size // WORD, places):
            return True
        places, threads = table.of_one(places)
        done = shared_loops.read(places, size // WORD, threads, i.site, stops_at_operations, table.kept, table.known)
        if done:
            table.parts.read_whole(_NONE, _NONE)
            if table.epochs.is_made:
                table.epochs.note(places, size // WORD, writes=False)
        return bool(done)

    def read(self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int) -> np.ndarray:
        """Warps read words, or `size` bytes of them at `flat`. Returns the writers."""
        self.table.epochs.forget()
        table, rule, a = self.table, self.rule, WordAccess(i, at, warps, "read")
        who: np.ndarray = table.who[at]
        readers, lanes, is_part = warps % table.per_cluster, self._lanes_of(size), size < WORD
        bits = table.parts.bits(flat, size) if is_part else np.full(1, WHOLE, np.uint8)
        if is_part:
            table.parts.read(at, bits, readers, table.read_when[at, readers] != self.clocks.clock[warps])
        else:
            table.parts.read_whole(at, readers)
        written = np.where(table.parts.overlap(at, bits), who, NOBODY) if is_part else who
        self.findings.tell(a, rule.last_writers(a, written), rule.byte_writers(a, bits), rule.strong_bytes(a, bits))
        if not is_part:
            self.findings.tell(a, rule.lanes_wrote(a, lanes, who == warps))
            self._mark_read(at, warps, lanes)
        if table.tables.has_strong:
            self.findings.tell(a, rule.changing_warps(a))
        self.findings.tell(a, rule.joint_writers(a))
        table.read(i, at, warps)
        return who

    def _mark_read(self, at: np.ndarray, warps: np.ndarray, lanes: np.ndarray) -> None:
        """Lanes of warps read words."""
        marks, read_mark = self.lanes.marks(warps, lanes), self.table.read_mark
        before = read_mark[at] ^ marks
        read_mark[at] = np.where((before == 0) | (before >> LANE_BITS != 0), marks, marks & ~MANY | SEVERAL)

    def strong_read(self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int, scope: int = GPU) -> None:
        """Warps read words, or `size` bytes of them at `flat`, by relaxed, acquire or volatile loads of a scope."""
        self.table.epochs.forget()
        table, rule, a = self.table, self.rule, WordAccess(i, at, warps, "read")
        who = np.where(table.strong[at] & (table.who[at] < OPERATIONS), NOBODY, table.who[at])
        if size < WORD:
            bits = table.parts.bits(flat, size)
            who = np.where((who >= OPERATIONS) | table.parts.overlap(at, bits), who, NOBODY)
            self.findings.tell(a, rule.last_writers(a, who), rule.byte_writers(a, bits, is_strong=True), rule.joint_writers(a))
            self._note_part(a, flat, size, scope, reads=True, writes=False)
            self.findings.tell(a, rule.other_scopes(a, scope, bits))
            return
        self.findings.tell(
            a, rule.last_writers(a, who), rule.byte_writers(a, np.uint8(WHOLE), is_strong=True), rule.joint_writers(a),
            rule.lanes_changed(a, self._lanes_of(size)),
        )  # fmt: skip
        rule.strong.note(i, at, warps, changed=False)
        rule.strong.observe(at, warps)
        self.findings.tell(a, rule.other_scopes(a, scope))

    # ---- threads write

    def passes_write(self, i: Instruction, flat: np.ndarray, size: int, values: Values | None) -> bool:
        """The running threads write whole words. False, and nothing is recorded, if a closer check is
        needed (`write`).
        """
        table = self.table
        if table.parts.kept or size < WORD:
            return False
        places, threads = table.of_one(np.ascontiguousarray(flat, np.int64))
        if table.folding is not None and shared_loops.is_shared_by_threads(places, size // WORD, threads, self._marks):
            table.unfold()  # the remaining value must be the same for all
            places, threads = np.ascontiguousarray(flat, np.int64), self.x.threads
        done = self._noted(
            lambda: shared_loops.write(places, size // WORD, threads, i.site, table.kept, table.known),
            lambda: (table.places_of(places, size), np.repeat(threads >> 5, size // WORD)),
        )
        if done and table.epochs.is_made:
            table.epochs.note(places, size // WORD, writes=True)
        if done == 2:
            self._one_stays(i, *table.places(flat, size), values)
        return bool(done)

    def passes_write_apart(self, i: Instruction, flat: np.ndarray, size: int) -> bool:
        """`passes_write` if no word is written by several threads. False, and nothing is recorded, if one is."""
        if self.table.parts.kept or size < WORD:
            return False
        return not self.share_words(flat, size) and self.passes_write(i, flat, size, None)

    def share_words(self, flat: np.ndarray, size: int) -> bool:
        """Do several of the running threads access one word?"""
        return bool(shared_loops.is_shared_by_threads(np.ascontiguousarray(flat, np.int64), size // WORD, self.x.threads, self._marks))

    @functools.cached_property
    def _marks(self) -> np.ndarray:
        """Room for the thread that writes each word."""
        return np.zeros(self.table.words, np.int32)

    def write(self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int, values: Values | None) -> None:
        """Warps write words, or `size` bytes of them at `flat`."""
        self.table.epochs.forget()
        if size < WORD:
            self._write_part(i, at, warps, flat, size, values)
            return
        table, rule, a = self.table, self.rule, WordAccess(i, at, warps, "write", values)
        lanes, bits, who = self._lanes_of(size), np.uint8(WHOLE), table.who[at]
        self.findings.tell(
            a, rule.last_writers(a, who), rule.byte_writers(a, bits), rule.strong_bytes(a, bits), rule.lanes_wrote(a, lanes, who == warps),
            rule.lanes_read(a, lanes), rule.readers(a),
        )  # fmt: skip
        table.parts.written_whole(at)
        table.strong_bytes.forget(at)
        table.write(i, at, warps)
        table.mark[at] = marks = self.lanes.marks(warps, lanes)
        differs = table.mark[at] != marks
        if differs.any():
            table.mark[at[differs]] |= MANY
            self._one_stays(i, at, warps, values)

    def _write_part(self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int, values: Values | None) -> None:
        """Bytes of words are written: neighbours that other warps write or read are no race."""
        table, rule, bits = self.table, self.rule, self.table.parts.bits(flat, size)
        a, who, when, line = WordAccess(i, at, warps, "write", values, bits=bits), table.who[at], table.when[at], table.line[at]
        table.parts.fill(at, bits, who == NOBODY)
        written = np.where(table.parts.overlap(at, bits), who, NOBODY)
        self.findings.tell(a, rule.last_writers(a, written), rule.byte_writers(a, bits), rule.strong_bytes(a, bits))
        self.findings.tell(a, rule.readers(a, table.parts.read_by(at, bits)))
        table.strong_bytes.forget(at, bits)
        table.write(i, at, warps)
        # what a warp wrote before it last met others is known to them
        before = np.where(when == table.when[at], who, NOBODY)
        is_gone = are_warps(who) & (who != table.who[at])
        own = Write(warps, self.clocks.clock[warps], np.full(len(at), i.site))
        table.parts.note_others(at, bits, table.who[at] == warps, Write(np.where(is_gone, who, -1), when, line), own)
        table.parts.write(at, bits, before, warps, table.who[at])
        if (table.who[at] != warps).any():
            self._one_stays(i, at, warps, values, flat)

    def strong_write(
        self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int, *, changed: bool, scope: int = GPU
    ) -> None:
        """Warps write words, or `size` bytes of them at `flat`, by operations that do not race among themselves within
        a scope. Those that changed nothing (not `changed`) have only looked.

        For an uninitialised word they count as the first writers in any case: atom.exch may leave the uninitialised
        content there.
        """
        self.table.epochs.forget()
        table, rule, a = self.table, self.rule, WordAccess(i, at, warps, "write")
        changed = changed or bool((table.who[at] == NOBODY).any())
        if size < WORD:
            self._strong_write_part(a, flat, size, changed=changed, scope=scope)
            return
        lanes = self._lanes_of(size)
        self.findings.tell(
            a, rule.last_writers(a, np.where(table.strong[at], NOBODY, table.who[at])), rule.byte_writers(a, np.uint8(WHOLE), is_strong=True),
            rule.lanes_changed(a, lanes), rule.reading_warps(a), rule.reading_operations(a), rule.joint_writers(a),
        )  # fmt: skip
        rule.strong.note(i, at, warps, changed=changed)
        if not changed:
            rule.strong.observe(at, warps)
        self.findings.tell(a, rule.other_scopes(a, scope), rule.lost_updates(a))
        if changed:
            table.parts.written_whole(at)
            table.write(i, at, warps)
            table.strong[at] = True
            table.mark[at] = marks = self.lanes.marks(warps, lanes)
            shared = table.mark[at] != marks
            table.mark[at[shared]] = table.mark[at[shared]] & ~MANY | SEVERAL

    def _strong_write_part(self, a: WordAccess, flat: np.ndarray, size: int, *, changed: bool, scope: int) -> None:
        """`strong_write` of bytes of words. Plain accesses of the other bytes are no race, and stay recorded."""
        table, rule, i, at = self.table, self.rule, a.i, a.at
        bits, who = table.parts.bits(flat, size), np.where(table.strong[at] & (table.who[at] < OPERATIONS), NOBODY, table.who[at])
        who = np.where((who >= OPERATIONS) | table.parts.overlap(at, bits), who, NOBODY)
        self.findings.tell(a, rule.last_writers(a, who), rule.byte_writers(a, bits, is_strong=True))
        if changed:
            self.findings.tell(a, rule.reading_warps(a, table.parts.read_by(at, bits)))
        self.findings.tell(a, rule.reading_operations(a))
        self._note_part(a, flat, size, scope, reads=i.op == "atom" or not changed, writes=changed)
        self.findings.tell(a, rule.other_scopes(a, scope, bits))
        table.parts.taken(at, bits)
        others = at[(table.who[at] == NOBODY) | (table.who[at] >= OPERATIONS)]
        table.parts.written_whole(others, keeps_holes=True)
        table.who[others], table.line[others], table.strong[others] = ATOMIC, i.site, True

    def _note_part(self, a: WordAccess, flat: np.ndarray, size: int, scope: int, *, reads: bool, writes: bool) -> None:
        """Record strong accesses of `size` bytes of words, at `flat`."""
        table, clocks = self.table, self.clocks.clock[a.warps]
        is_narrow = scope == CTA and table.per_cluster > table.per_cta
        table.strong_bytes.note(flat, size, a.warps, clocks, a.i.site, reads=reads, writes=writes, is_narrow=is_narrow)

    def _one_stays(
        self, i: Instruction, at: np.ndarray, warps: np.ndarray, values: Values | None, flat: np.ndarray | None = None
    ) -> None:  # fmt: skip
        """Threads have written one word, or byte (at `flat`), with one instruction: wrong where their values differ."""
        a = WordAccess(i, at, warps, "write", values)
        if flat is None and values is not None and i.op == "st" and (again := (self.table.who[at] != warps) & values.stay).any():
            earlier = warps[again]
            self.table.keeps_stores(at[again], Write(earlier, self.clocks.clock[earlier], np.full(len(earlier), i.site)))
        self.findings.tell(a, self.rule.same_instruction(a, at if flat is None else flat))

    def _lanes_of(self, size: int) -> np.ndarray:
        """The lanes of the running threads, an entry for each word that they access."""
        lanes: np.ndarray = self.x.threads & (WARP - 1)
        return lanes if size <= WORD else np.repeat(lanes, size // WORD)

    def _noted(self, note: Callable[[], Any], words: Callable[[], tuple[np.ndarray, np.ndarray]]) -> int:
        """The result of a compiled check of a write. If mbarrier objects lie in the `words` that warps write, the write
        may end all of them. Then nothing is kept of these objects any more.
        """
        done = int(note())
        if done or self.table.folding is not None:
            return done
        at, warps = words()
        objects = self.table.kept.who[at] == MBARRIER
        if not objects.any() or not self.objects.are_over(at[objects], warps[objects]):
            return done
        self.table.kept.who[at[objects]] = ATOMIC
        return int(note())

    # ---- mbarrier objects, cp.async

    def initialised(self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray) -> None:
        """Warps have made mbarrier objects, at places `flat`; what is done with these is no access of threads."""
        table, rule = self.table, self.rule
        table.epochs.forget()
        if table.folding is not None and (of_one := table.folding.of_one(flat, table.epochs)) is not None:
            own = (of_one[0][:, None] // WORD + np.arange(len(at) // len(flat))).reshape(-1)
            tables = table.kept
            if (tables.who[own] == NOBODY).all() and not (tables.read_line[own].any() or tables.read_by[own].any()):
                tables.who[own], tables.line[own] = MBARRIER, i.site
                return
        who, a = table.who[at], WordAccess(i, at, warps, "write")
        self.findings.tell(a, rule.last_writers(a, np.where(who == MBARRIER, NOBODY, who)), rule.readers(a))
        table.parts.written_whole(at)
        table.who[at], table.line[at], table.strong[at] = MBARRIER, i.site, False

    def passes_copy(self, i: Instruction, flat: np.ndarray, size: int, numbers: np.ndarray, values: Values | None) -> bool:
        """cp.async of the running threads writes `size` bytes at places `flat`; the open operations of their warps have
        these numbers. False, and nothing is recorded, if a closer check is needed (`copy`).
        """
        table = self.table
        table.epochs.forget()
        if table.parts.kept:
            return False
        places, threads = np.ascontiguousarray(flat, np.int64), self.x.threads
        done = self._noted(
            lambda: shared_loops.copy(places, size // WORD, threads, numbers, i.site, table.tables, table.known),
            lambda: table.places(flat, size),
        )
        if done == 2:
            self._one_stays(i, *table.places(flat, size), values)
        return bool(done)

    def copy(self, i: Instruction, at: np.ndarray, warps: np.ndarray, numbers: np.ndarray, values: Values) -> None:
        """cp.async of warps, whose open operations have these numbers, writes words."""
        table, rule, a = self.table, self.rule, WordAccess(i, at, warps, "write", values)
        table.epochs.forget()
        own, who = OPERATIONS + numbers[warps], table.who[at]
        copies = (who >= OPERATIONS) & self.operations.is_cp_async[np.maximum(who - OPERATIONS, 0)]
        same = copies & values.lay_there & (who != own)  # several warps may copy the same
        seen = np.where(same | (who == own), NOBODY, who) if copies.any() else who
        self.findings.tell(
            a, rule.last_writers(a, seen), rule.readers(a, exempt=lambda op: (op.kind == "cp.async") & values.lay_there)
        )  # fmt: skip
        table.keeps_writers(at, warps, np.where(same, who, NOBODY))
        self.findings.tell(a, rule.strong_bytes(a, np.uint8(WHOLE)))
        table.parts.written_whole(at)
        table.strong_bytes.forget(at)
        table.who[at], table.line[at], table.strong[at] = own, i.site, False
        table.mark[at] = marks = self.lanes.marks(warps, self._lanes_of(len(at) // self.x.n * WORD))
        table.mark[at[table.mark[at] != marks]] |= MANY
        if (table.who[at] != own).any():
            self._one_stays(i, at, warps, values)

    # ---- operations read

    def passes_op_read(self, op: Operation, at: WordRanges, *, stops_at_operations: bool, by_any: bool = False) -> bool:
        """An operation reads words, issued by its lane or (`by_any`) by each of its warp. False, and nothing is
        recorded, if a closer check is needed (`op_reads`).
        """
        table = self.table
        table.epochs.forget()
        given = at.begins, at.count, int(op.warps[0]), len(op.warps), self._mark_of(op, NO_LANE if by_any else op.lane), op.number
        is_generic = facts_of(op.kind).is_generic
        return table.is_noted(lambda: shared_loops.operation_reads(*given, is_generic, stops_at_operations, table.tables, table.known))

    def passes_ops_read(self, ops: Sequence[Operation], ctas: Sequence[Cta], runs: WordRanges, *, stops_at_operations: bool) -> bool:
        """Operations of one instruction read the same words of CTAs' windows. False if one must be checked alone: each
        must be reported then.
        """
        table = self.table
        table.epochs.forget()
        ops, windows, firsts, marks, owns = self._to_look_at(ops, ctas)
        given = runs.begins, runs.count, windows, firsts, len(ops[0].warps), marks, owns, facts_of(ops[0].kind).is_generic
        return table.is_noted(lambda: shared_loops.operations_read(*given, stops_at_operations, table.kept, table.known))

    def op_reads(self, op: Operation, at: np.ndarray) -> np.ndarray:
        """An operation reads words. Returns their writers; NOBODY also if the intended bytes have not arrived."""
        table, rule, warps = self.table, self.rule, np.broadcast_to(op.warps[:1], at.shape)
        a = WordAccess(op.instruction, at, warps, "read", reader=op)
        table.epochs.forget()
        who: np.ndarray = table.who[at]
        by_op = (who >= OPERATIONS) & (who != OPERATIONS + op.number)
        if not facts_of(op.kind).is_generic and self.operations.generic[who[by_op] - OPERATIONS].any():
            numbers = who[by_op] - OPERATIONS
            allocs = [n for n in distinct(numbers).tolist() if self.operations[n].kind == "tcgen05.alloc"]
            if allocs:  # an address of tensor memory is no operand: the intended bytes have not arrived
                who = np.where(np.isin(who, np.array(allocs) + OPERATIONS), NOBODY, who)
                by_op &= who != NOBODY
        by_warp = are_warps(who)
        if by_warp.any():
            self.findings.tell(a, rule.writing_warps(op, at[by_warp], who[by_warp]))
            if len(op.warps) == 1:
                lanes = a._replace(reader=None)
                self.findings.tell(lanes, rule.lanes_wrote(lanes, np.full(len(at), op.lane), who == warps))
        if by_op.any():
            self.findings.tell(a, rule.writing_operations(op, at[by_op], who[by_op] - OPERATIONS))
        self.findings.tell(a, rule.joint_writers(a))
        table.joins("read_by", at, op.number, op.warps, self.clocks.read_done)
        return who

    # ---- operations write

    def passes_op_write(self, op: Operation, at: WordRanges) -> bool:
        """An operation writes words. False, and nothing is recorded, if a closer check is needed (`op_writes`)."""
        table = self.table
        table.epochs.forget()
        first, mark = int(op.warps[0]), self._mark_of(op, op.lane)
        given = (
            at.begins,
            at.count,
            first,
            mark,
            op.number,
            facts_of(op.kind).is_generic,
            op.instruction.site,
            self.rule.looks_for_reads(op),
        )
        done = self._noted(
            lambda: shared_loops.operation_writes(*given, table.tables, table.known), lambda: (at.words, np.full(len(at.words), first))
        )  # fmt: skip
        if done and table.parts.kept:
            table.parts.written_whole(at.words)
        if done == 2:
            self._tell(op, at.words, self.rule.unfenced_reads(op, at.words))
        return bool(done)

    def passes_ops_write(self, ops: Sequence[Operation], ctas: Sequence[Cta], runs: WordRanges) -> bool:
        """Operations of one instruction, of one warp each, write the same words of CTAs' windows. False if one must be
        checked alone: each must be reported then.
        """
        table = self.table
        table.epochs.forget()
        if table.parts.kept:
            return False
        ops, windows, warps, marks, owns = self._to_look_at(ops, ctas)
        first = ops[0]
        given = (
            runs.begins,
            runs.count,
            windows,
            warps,
            marks,
            owns,
            facts_of(first.kind).is_generic,
            first.instruction.site,
            self.rule.looks_for_reads(first),
        )
        done = self._noted(
            lambda: shared_loops.operations_write(*given, table.kept, table.known),
            lambda: ((runs.words + windows[:, None]).reshape(-1), np.repeat(warps, len(runs.words))),
        )
        if done == 2:
            for op, window in zip(ops, windows.tolist(), strict=True):
                words = runs.behind(window).words
                self._tell(op, words, self.rule.unfenced_reads(op, words))
        return bool(done)

    def op_writes(self, op: Operation, at: np.ndarray, lay_there: np.ndarray | None) -> None:
        """An operation writes words; `lay_there` marks those that the write leaves unchanged."""
        table, rule, i, warps = self.table, self.rule, op.instruction, np.full(len(at), op.warps[0])
        a = WordAccess(i, at, warps, "write")
        table.epochs.forget()
        who = table.who[at]
        beside = rule.are_beside(op, who, lay_there)
        joint, who = np.where(beside, who, NOBODY), np.where(beside | (who == OPERATIONS + op.number), NOBODY, who)
        lanes, changed = np.full(len(at), op.lane), np.ones(len(at), bool) if lay_there is None else ~lay_there
        of_changed = WordAccess(i, at[changed], warps[changed], "write")
        self.findings.tell(
            a, rule.last_writers(a, who), rule.lanes_wrote(a, lanes, (who == warps) & changed), rule.lanes_read(of_changed, lanes[changed])
        )  # fmt: skip
        if rule.looks_for_reads(op):
            self._tell(op, at, rule.unfenced_reads(op, at[changed & (table.who[at] != NOBODY) & ~rule.are_addresses(at)]))
        held = table.who[at] != NOBODY  # readers of the others came too early, which is reported
        of_held = WordAccess(i, at[held], warps[held], "write")
        self.findings.tell(of_held, rule.readers(of_held, exempt=functools.partial(rule.may_write_beside, op, lay_there, held)))
        table.keeps_writers(at, warps, joint)
        self.findings.tell(a, rule.unfenced_writes(op, at, who), rule.strong_bytes(a, np.uint8(WHOLE)))
        table.parts.written_whole(at)
        table.strong_bytes.forget(at)
        # not checked again after a read of them
        if not facts_of(op.kind).is_generic and (addresses := at[rule.are_addresses(at)]).size:
            table.read_line[addresses], table.read_when[addresses] = 0, 0
        table.who[at], table.line[at], table.strong[at] = OPERATIONS + op.number, i.site, False

    def _tell(self, op: Operation, at: np.ndarray, suspects: Suspects) -> None:
        """Report suspects of words that an operation writes."""
        self.findings.tell(WordAccess(op.instruction, at, op.warps, "write"), suspects)

    def _mark_of(self, op: Operation, lane: int) -> int:
        """The mark of a lane that issues an operation; -1 of one that whole warps issue together."""
        return int(self.lanes.now[op.warps[0]]) << LANE_BITS | lane if len(op.warps) == 1 else -1

    def _to_look_at(
        self, ops: Sequence[Operation], ctas: Sequence[Cta]
    ) -> tuple[Sequence[Operation], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """Operations in the windows of CTAs, those of one CTA for a cohort; with the windows' first words, the
        operations' first warps, marks and numbers.
        """
        folding = self.table.folding
        count = 0 if folding is None else folding.of_first(ops, ctas, self.table.epochs)
        if count:
            ops, ctas = ops[:count], ctas[:count]
        else:
            self.table.unfold()
            if ops[0].cohort is not None:
                ops, ctas = self.operations.each(ops), [self.x.ctas[n] for n in range(self.operations.units) for _ in ops]
        pitch = self.x.pitch // WORD
        windows, firsts, owns = (
            np.array([cta.index * pitch for cta in ctas], np.int64),
            np.array([op.warps[0] for op in ops], np.int64),
            np.array([op.number for op in ops], np.int64),
        )
        return ops, windows, firsts, np.array([self._mark_of(op, op.lane) for op in ops], np.int64), owns
