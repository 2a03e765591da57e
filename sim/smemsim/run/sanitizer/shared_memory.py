"""The shadow of shared memory: the last writer and the readers of each word, and the findings of the next access (PTX
ISA 8: races of reads and writes; 9.7.13.4: proxies).

The tables are plain arrays over words (`loops.Tables`). `loops` checks and records most accesses, which are
unsuspicious. The rest is checked here again, by numpy, and reported.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.launches import RESERVED_BARRIERS
from smemsim.run.async_ops import facts_of, is_bulk
from smemsim.run.checks import NotedTables
from smemsim.run.following import WHOLE
from smemsim.run.lower.dataflow import is_polled, updates
from smemsim.run.marks import LANE_BITS, MANY, NO_LANE, SEVERAL
from smemsim.run.sanitizer import operation_sets, races, shared_loops
from smemsim.run.sanitizer.byte_masks import Parts, Write
from smemsim.run.sanitizer.epoch_numbers import scope_of
from smemsim.run.sanitizer.epochs import Epochs
from smemsim.run.sanitizer.folding import Folding, Knowledge
from smemsim.run.sanitizer.happens_before import Formal, VectorClocks
from smemsim.run.sanitizer.lanes import Lanes
from smemsim.run.sanitizer.mbarriers import MbarrierObjects
from smemsim.run.sanitizer.operations import MBARRIER, NO_STREAM, NOBODY, OPERATIONS, Operation, Operations, Renumbering
from smemsim.run.sanitizer.races import Access, Clauses
from smemsim.run.sanitizer.reporting import BARRIER, WORD, Reporting
from smemsim.run.sanitizer.strong_bytes import StrongBytes
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.scopes import CTA, GPU
from smemsim.run.warps import ALL, WARP
from smemsim.run.word_ranges import WordRanges

if TYPE_CHECKING:
    from smemsim.run.accesses import Values
    from smemsim.run.views import Cta, Wave

__all__ = ["SharedShadow"]


ATOMIC = -2  # in `who`: atomic and other strong operations of any thread, and operations on mbarriers
_NONE = np.zeros(0, np.int64)
HANDED_ON = ("arrive",)  # what does not excuse that stores of one CTA are read by another: rule order.narrow_arrival


def _of_tables(name: str) -> Any:
    """A table of all CTAs."""
    return property(lambda shadow: getattr(shadow.tables, name))


_BYTES = np.arange(WORD, dtype=np.uint8)


class SharedShadow:
    """The accesses of one wave, and whether the next one is ordered after them."""

    def __init__(
        self, x: Wave, clocks: VectorClocks, operations: Operations, reporting: Reporting, lanes: Lanes, objects: MbarrierObjects, knowledge: Knowledge | None
    ) -> None:  # fmt: skip
        self.objects = objects
        self.x, self.clocks, self.operations, self.reporting, self.lanes = x, clocks, operations, reporting, lanes
        self.words = words = len(x.shared) // WORD
        self.per_cta = x.stride // WARP
        self.per_cluster = self.per_cta * x.launch.cluster_size
        self.parts = Parts(words, self.per_cluster)
        self.strong_bytes = StrongBytes(words)
        self.folding = None if knowledge is None else Folding(x, clocks, lanes, knowledge)
        kept = words if self.folding is None else words // len(x.ctas)
        counts = [np.zeros(kept, np.int32) for _ in range(3)]
        read_when = np.zeros((kept, self.per_cluster), np.int32)
        self._tables = shared_loops.Tables(
            np.full(kept, NOBODY, np.int32), counts[0], counts[1], np.zeros(kept, bool), read_when, counts[2], *(read_when, counts[2]) * 2,
            has_strong=False, read_by=np.zeros(kept, np.int32), mark=np.zeros(kept, np.int64), read_mark=np.zeros(kept, np.int64),
            joint=np.zeros(0, np.int32), has_joint=False, sets=operation_sets.made(),
        )  # fmt: skip
        if x.scratch:  # the system hands its part over with the barriers of cooperative groups in clocks
            for cta in range(len(x.ctas)):
                begin = (cta * x.pitch + x.scratch) // WORD
                self.who[begin : begin + RESERVED_BARRIERS // WORD] = ATOMIC
        self.epochs = Epochs(self._tables, len(x.ctas), x.pitch // WORD)
        # passes reads of all threads, see `run/jit/shadow.py`
        self.by_epochs: Callable[[int, int, np.ndarray], bool] | None = None
        self._observed: dict[
            int, dict[int, tuple[int, np.ndarray]]
        ] = {}  # by word and warp: the clock of a strong read, those of the strong writes it has found
        self._narrow: tuple[np.ndarray, np.ndarray] | None = (
            None  # clocks of strong reads and writes of scope .cta, if a cluster has several CTAs
        )

    @property
    def kept(self) -> shared_loops.Tables:
        """The present tables: those of one CTA for a cohort (`folding`)."""
        return self._tables

    @property
    def tables(self) -> shared_loops.Tables:
        """The tables of all CTAs."""
        if self.folding is not None:
            self.unfold()
        return self._tables

    @property
    def noted(self) -> NotedTables:
        """The tables in which compiled blocks note accesses that an epoch orders; valid as long as `folding` is the
        same.
        """
        epochs, tables = self.epochs, self._tables
        return NotedTables(
            self.folding, epochs.written, epochs.read, epochs.epoch, self.clocks.clock, self.lanes.now, tables.read_when, tables.read_line,
            tables.read_mark, tables.who, tables.when, tables.line, tables.strong, tables.mark,
        )  # fmt: skip

    def are_in_step(self) -> bool:
        """Do the warps of all CTAs of a cohort have the same clocks, synchronisations and epochs?"""
        return self.folding is not None and self.folding.are_in_step(self.epochs)

    def unfold(self) -> None:
        """The tables become those of all CTAs."""
        if self.folding is not None:
            self._tables = self.folding.unfolded(self._tables, self.epochs)
            self.folding = self.by_epochs = None

    def spread(self, first: SharedShadow, twins: Twins) -> None:
        """The tables of the first CTA stand for all CTAs from now on, of which it was the only one."""
        assert self.folding is not None
        self._tables = first._tables
        self.epochs.spread(first.epochs)
        self.folding.knowledge.has_issued(first.operations.operations)

    def reads_of_one(self) -> tuple[np.ndarray, ...]:
        """What is kept of reads of the CTA that stands for all."""
        tables = self._tables
        return self.epochs.read.copy(), tables.read_line.copy(), tables.read_when.copy(), tables.read_mark.copy()

    def unfold_where_others_read(self, cta: int, before: tuple[np.ndarray, ...]) -> None:
        """Expand the tables to all CTAs. For CTAs from one on, the record of reads is the one `before` the last reads,
        which are those of the others.
        """
        folding, self.by_epochs = self.folding, None
        assert folding is not None
        self.unfold()
        begin, tables = cta * self.words // folding.count, self._tables
        for all_of, kept in zip(
            (self.epochs.read, tables.read_line, tables.read_when, tables.read_mark), folding.all_reads(before), strict=True
        ):
            all_of[begin:] = kept[begin:]

    who, when, line, strong, mark, read_mark = map(_of_tables, ("who", "when", "line", "strong", "mark", "read_mark"))
    read_when, read_line, read_by = map(_of_tables, ("read_when", "read_line", "read_by"))

    def remembered(self) -> np.ndarray:
        """The operations that words have, by their numbers."""
        found, is_used = np.zeros(self.operations.room, bool), np.zeros(int(self._tables.sets.used[0]), bool)
        shared_loops.operations_of(self._tables, found, is_used)
        numbers = np.flatnonzero(found)
        return numbers if self.folding is None else self.folding.remembered(numbers)

    def renumber(self, to: Renumbering) -> None:
        """Operations have new numbers."""
        is_used, tables = np.zeros(int(self._tables.sets.used[0]), bool), self._tables
        shared_loops.sets_of(tables, is_used)
        kept, entries = operation_sets.compacted(tables.sets, is_used, to.new)
        shared_loops.renumber(tables.who, to.new)
        for table in (tables.read_by, tables.joint):
            operation_sets.renumber(table, to.new, entries)
        self._tables = tables._replace(sets=kept)

    @property
    def _known(self) -> shared_loops.Known:
        clocks, operations = self.clocks, self.operations
        return shared_loops.Known(
            clocks.clock,
            clocks.seen,
            clocks.fenced,
            clocks.done,
            clocks.read_done,
            clocks.done_fenced,
            operations.generic,
            operations.copies,
            operations.stream,
            operations.chain,
            operations.noted,
            self.lanes.now,
        )

    def has_epochs(self) -> bool:
        """Do the epochs of CTAs decide the order: does no CTA reach the windows of others, and are all accesses whole
        words? Makes `epochs`.
        """
        if self.per_cluster != self.per_cta or self.parts.kept:
            self.epochs.forget()
            return False
        self.parts.read_whole(_NONE, _NONE)
        return self.epochs.is_made or self.epochs.make(self._tables)

    # ---- words

    def places(self, flat: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(the words, the warps) of accesses of the running threads, `size` bytes each at places `flat`; an entry for
        each word.
        """
        at, warps = flat >> 2, self.x.threads >> 5
        if size > WORD:
            count = size // WORD
            at, warps = (at[:, None] + np.arange(count)).reshape(-1), np.repeat(warps, count)
        return at, warps

    def places_of(self, flat: np.ndarray, size: int) -> np.ndarray:
        """The words of accesses, `size` bytes each at places `flat`."""
        found: np.ndarray = ((flat >> 2)[:, None] + np.arange(size // WORD)).reshape(-1)
        return found

    def are_touched(self, at: np.ndarray) -> bool:
        """Has any thread or operation accessed one of these words?"""
        return bool((self.who[at] != NOBODY).any() or self.read_line[at].any() or self.read_by[at].any())

    def of_cta(self, cta: Cta, offsets: np.ndarray | WordRanges) -> WordRanges:
        """The words of a CTA's window: runs of it, or offsets from its begin."""
        runs = offsets if isinstance(offsets, WordRanges) else WordRanges.of(np.asarray(offsets, np.int64) >> 2)
        return runs.behind(cta.index * (self.x.pitch // WORD))

    def nobody_wrote(self, at: np.ndarray) -> np.ndarray:
        """Are these words uninitialised?"""
        nobody: np.ndarray = self.who[at] == NOBODY
        return nobody

    def blank_bytes(self, at: np.ndarray, who: np.ndarray | None = None) -> np.ndarray:
        """Which bytes of these words, whose last writers are known or not, are uninitialised: a bit for each."""
        nobody = (self.who[at] if who is None else who) == NOBODY
        found: np.ndarray = nobody.astype(np.uint8) * np.uint8(WHOLE)
        return found | self.parts.holes_of(at) if self.parts.has_holes else found

    def blank_of(self, at: np.ndarray, flat: np.ndarray, size: int, who: np.ndarray | None = None) -> np.ndarray:
        """Which of the bytes of these words that accesses of `size` bytes at places `flat` touch are uninitialised,
        as bits.
        """
        bits = self.blank_bytes(at, who)
        return bits if size >= WORD or not bits.any() else bits & self.parts.bits(flat, size)

    def beside(self, word: int) -> Instruction | None:
        """What has written the written word next to a word of the same CTA; None if nothing has written any."""
        per_cta = self.x.pitch // WORD
        begin = word // per_cta * per_cta
        written = np.flatnonzero((self.who[begin : begin + per_cta] != NOBODY) & (self.line[begin : begin + per_cta] > 0))
        if not written.size:
            return None
        return self.reporting.lines.get(int(self.line[begin + written[np.argmin(np.abs(written - (word - begin)))]]))

    def has_holes(self, at: WordRanges) -> bool:
        """Are some bytes of written words uninitialised?"""
        return self.parts.has_holes and bool(self.parts.holes_of(at.words).any())

    def fill_part(self, at: np.ndarray, flat: np.ndarray, size: int) -> None:
        """Bytes of words are written: the other bytes of uninitialised words become holes."""
        self.parts.fill(at, self.parts.bits(flat, size), self.who[at] == NOBODY)

    def writer(self, place: int) -> str:
        """The last writer of the word at a place, by its name in findings."""
        return self.reporting.writer(int(self.who[place]), int(self.line[place]))

    def _written_at(self, place: int) -> Access:
        """The write of the word at a place."""
        return self.reporting.written(int(self.who[place]), int(self.line[place]))

    def is_unordered(self, op: Operation, line: int, at: np.ndarray) -> bool:
        """Is an operation that now writes words not ordered after their readers, by the instruction of a line?"""
        clocks, first = self.clocks, int(op.warps[0])
        readers = first // self.per_cluster * self.per_cluster + np.arange(self.per_cluster)
        if (self.read_when[at] > clocks.has_seen(first, readers)).any():
            return True
        by = operation_sets.members_of(self.tables.sets, distinct(self.read_by[at]))
        return any(self.operations[n].instruction.line == line and not clocks.read_done[first, clocks.column(n)] for n in by)

    # ---- ordinary accesses

    def is_read(self, i: Instruction, flat: np.ndarray, size: int, *, stops_at_operations: bool) -> bool:
        """The running threads read whole words. False, and nothing is recorded, if a closer check is
        needed (`read`).
        """
        if self.parts.kept or size < WORD:
            return False
        places = np.ascontiguousarray(flat, np.int64)
        if self.by_epochs is not None and self.x.sel is ALL and self.by_epochs(i.line, size // WORD, places):
            return True
        places, threads = self._to_look_at(places)
        done = shared_loops.read(places, size // WORD, threads, i.line, stops_at_operations, self._tables, self._known)
        if done:
            self.parts.read_whole(_NONE, _NONE)
            if self.epochs.is_made:
                self.epochs.note(places, size // WORD, writes=False)
        return bool(done)

    def _to_look_at(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places and threads of an access for the tables: those of one CTA for a cohort."""
        if self.folding is not None:
            of_one = self.folding.of_one(places, self.epochs)
            if of_one is not None:
                return of_one
            self.unfold()
        return places, self.x.threads

    def read(self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int) -> np.ndarray:
        """Warps read words, or `size` bytes of them at `flat`; returns who had written them."""
        self.epochs.forget()
        who: np.ndarray = self.who[at]
        readers, now = warps % self.per_cluster, self.clocks.clock[warps]
        if size < WORD:
            bits = self.parts.bits(flat, size)
            self.parts.read(at, bits, readers, self.read_when[at, readers] != now)
            self._seen(i, at, warps, np.where(self.parts.overlap(at, bits), who, NOBODY), "read")
            self._bytes_seen(i, at, warps, bits, does="read")
            self._strong_bytes_seen(i, at, warps, bits, does="read")
        else:
            self.parts.read_whole(at, readers)
            self._seen(i, at, warps, who, "read")
            self._bytes_seen(i, at, warps, np.uint8(WHOLE), does="read")
            self._strong_bytes_seen(i, at, warps, np.uint8(WHOLE), does="read")
            self._lanes_met(i, at, warps, self._lanes_of(size), "read", who == warps)
            self._mark_read(at, warps, self._lanes_of(size))
        if self.tables.has_strong:
            self._threads_have_changed(i, at, warps, does="read")
        self._others_have_written(i, at, warps, "read")
        self.read_when[at, readers] = now
        self.read_line[at] = i.line
        return who

    def strong_read(self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int, scope: int = GPU) -> None:
        """Warps read words, or `size` bytes of them at `flat`, by relaxed, acquire or volatile loads of a scope."""
        self.epochs.forget()
        who = np.where(self.strong[at] & (self.who[at] < OPERATIONS), NOBODY, self.who[at])
        if size < WORD:
            bits = self.parts.bits(flat, size)
            self._seen(i, at, warps, np.where((who >= OPERATIONS) | self.parts.overlap(at, bits), who, NOBODY), "read")
            self._bytes_seen(i, at, warps, bits, does="read", is_strong=True)
            self._others_have_written(i, at, warps, "read")
            self._note_part(i, flat, size, warps, scope, reads=True, writes=False)
            self._in_scope(i, at, warps, scope, writes=False, bits=bits)
            return
        self._seen(i, at, warps, who, "read")
        self._others_have_written(i, at, warps, "read")
        self._lanes_changed(i, at, warps, self._lanes_of(size), "read")
        self._is_strong(i, at, warps, changed=False)
        self._observe(at, warps)
        self._in_scope(i, at, warps, scope, writes=False)

    def is_written(self, i: Instruction, flat: np.ndarray, size: int, values: Values | None) -> bool:
        """The running threads write whole words. False, and nothing is recorded, if a closer check is
        needed (`write`).
        """
        if self.parts.kept or size < WORD:
            return False
        places, threads = self._to_look_at(np.ascontiguousarray(flat, np.int64))
        if self.folding is not None and shared_loops.is_shared_by_threads(places, size // WORD, threads, self._marks):
            self.unfold()  # the remaining value must be the same for all
            places, threads = np.ascontiguousarray(flat, np.int64), self.x.threads
        done = shared_loops.write(places, size // WORD, threads, i.line, self._tables, self._known)
        if not done and self._frees(self.places_of(places, size), np.repeat(threads >> 5, size // WORD)):
            done = shared_loops.write(places, size // WORD, threads, i.line, self._tables, self._known)
        if done and self.epochs.is_made:
            self.epochs.note(places, size // WORD, writes=True)
        if done == 2:
            at, warps = self.places(flat, size)
            self._one_stays(i, at, at, warps, values)
        return bool(done)

    def is_written_apart(self, i: Instruction, flat: np.ndarray, size: int) -> bool:
        """`is_written` if no word is written by several threads. False, and nothing is recorded, if one is."""
        if self.parts.kept or size < WORD:
            return False
        return not self.share_words(flat, size) and self.is_written(i, flat, size, None)

    def share_words(self, flat: np.ndarray, size: int) -> bool:
        """Do several of the running threads access one word?"""
        return bool(shared_loops.is_shared_by_threads(np.ascontiguousarray(flat, np.int64), size // WORD, self.x.threads, self._marks))

    @functools.cached_property
    def _marks(self) -> np.ndarray:
        """Room for the thread that writes each word."""
        return np.zeros(self.words, np.int32)

    def write(self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int, values: Values | None) -> None:
        """Warps write words, or `size` bytes of them at `flat`."""
        self.epochs.forget()
        if size < WORD:
            self._write_part(i, at, warps, flat, size, values)
            return
        lanes = self._lanes_of(size)
        self._seen(i, at, warps, self.who[at], "overwritten", values)
        self._bytes_seen(i, at, warps, np.uint8(WHOLE), values)
        self._strong_bytes_seen(i, at, warps, np.uint8(WHOLE), values)
        self._lanes_met(i, at, warps, lanes, "overwritten", self.who[at] == warps, values)
        self._lanes_have_read(i, at, warps, lanes, values)
        self._readers_done(i, at, warps, values)
        self.parts.written_whole(at)
        self.strong_bytes.forget(at)
        self._written(i, at, warps)
        self.mark[at] = marks = self.lanes.marks(warps, lanes)
        differs = self.mark[at] != marks
        if differs.any():
            self.mark[at[differs]] |= MANY
            self._one_stays(i, at, at, warps, values)

    def _write_part(self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int, values: Values | None) -> None:
        """Bytes of words are written: neighbours that other warps write or read are no race."""
        bits, who, when, line = self.parts.bits(flat, size), self.who[at], self.when[at], self.line[at]
        self.parts.fill(at, bits, who == NOBODY)
        self._seen(i, at, warps, np.where(self.parts.overlap(at, bits), who, NOBODY), "overwritten", values)
        self._bytes_seen(i, at, warps, bits, values)
        self._strong_bytes_seen(i, at, warps, bits, values)
        self._readers_done(i, at, warps, values, self.parts.read_by(at, bits))
        self.strong_bytes.forget(at, bits)
        self._written(i, at, warps)
        # what a warp wrote before it last met others is known to them
        before = np.where(when == self.when[at], who, NOBODY)
        is_gone = (who >= 0) & (who < OPERATIONS) & (who != self.who[at])
        own = Write(warps, self.clocks.clock[warps], np.full(len(at), i.line))
        self.parts.note_others(at, bits, self.who[at] == warps, Write(np.where(is_gone, who, -1), when, line), own)
        self.parts.write(at, bits, before, warps, self.who[at])
        if (self.who[at] != warps).any():
            self._one_stays(i, flat, at, warps, values)

    def strong_write(
        self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int, *, changed: bool, scope: int = GPU
    ) -> None:
        """Warps write words, or `size` bytes of them at `flat`, by operations that do not race among themselves within
        a scope. Those that changed nothing (not `changed`) have only looked.

        For an uninitialised word they count as the first writers in any case: atom.exch may leave the uninitialised
        content there.
        """
        self.epochs.forget()
        changed = changed or bool(self.nobody_wrote(at).any())
        if size < WORD:
            self._strong_write_part(i, at, warps, flat, size, changed=changed, scope=scope)
            return
        self._seen(i, at, warps, np.where(self.strong[at], NOBODY, self.who[at]), "overwritten")
        self._lanes_changed(i, at, warps, self._lanes_of(size), "overwritten")
        self._threads_have_read(i, at, warps, self.read_when, self.read_line)
        self._operations_have_read(i, at, warps)
        self._others_have_written(i, at, warps, "overwritten")
        self._is_strong(i, at, warps, changed=changed)
        if not changed:
            self._observe(at, warps)
        self._in_scope(i, at, warps, scope, writes=True)
        if i.op == "st" and id(i) in self._updates:
            self._is_update(i, at, warps)
        if changed:
            self.parts.written_whole(at)
            self._written(i, at, warps)
            self.strong[at] = True
            lanes = self._lanes_of(size)
            marks = self.lanes.marks(warps, lanes)
            self.mark[at] = marks
            shared = self.mark[at] != marks
            self.mark[at[shared]] = self.mark[at[shared]] & ~MANY | SEVERAL

    def _strong_write_part(
        self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int, *, changed: bool, scope: int
    ) -> None:
        """`strong_write` of bytes of words. Plain accesses of the other bytes are no race, and stay recorded."""
        bits, who = self.parts.bits(flat, size), np.where(self.strong[at] & (self.who[at] < OPERATIONS), NOBODY, self.who[at])
        self._seen(i, at, warps, np.where((who >= OPERATIONS) | self.parts.overlap(at, bits), who, NOBODY), "overwritten")
        self._bytes_seen(i, at, warps, bits, is_strong=True)
        if changed:
            self._threads_have_read(i, at, warps, self.read_when, self.read_line, read_by=self.parts.read_by(at, bits))
        self._operations_have_read(i, at, warps)
        self._note_part(i, flat, size, warps, scope, reads=i.op == "atom" or not changed, writes=changed)
        self._in_scope(i, at, warps, scope, writes=True, bits=bits)
        self.parts.taken(at, bits)
        others = at[(self.who[at] == NOBODY) | (self.who[at] >= OPERATIONS)]
        self.parts.written_whole(others, keeps_holes=True)
        self.who[others], self.line[others], self.strong[others] = ATOMIC, i.line, True

    def _note_part(self, i: Instruction, flat: np.ndarray, size: int, warps: np.ndarray, scope: int, *, reads: bool, writes: bool) -> None:
        """Note strong accesses of `size` bytes of words, at `flat`."""
        is_narrow = scope == CTA and self.per_cluster > self.per_cta
        self.strong_bytes.note(flat, size, warps, self.clocks.clock[warps], i.line, reads=reads, writes=writes, is_narrow=is_narrow)

    @functools.cached_property
    def _updates(self) -> dict[int, Instruction]:
        return updates(self.x.launch.program)

    @functools.cached_property
    def _updating_lines(self) -> list[int]:
        body = self.x.launch.program.inlined.body
        return [i.line for i in body if i.op == "st" and id(i) in self._updates]

    def _is_update(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        """Warps store, by relaxed or volatile stores, a value that they compute from such a load of the same word: has
        another one done the same, unordered (rule order.update)? Plain accesses race anyway.
        """
        who = self.who[at]
        theirs = (who >= 0) & (who < OPERATIONS) & (who != warps) & self.strong[at] & np.isin(self.line[at], self._updating_lines)
        mine, other, when, places = warps[theirs], who[theirs], self.when[at[theirs]], at[theirs]
        late, formal = self.clocks.missing(lambda order: order.has_seen(mine, other) < when)
        found = places[late]
        if not late.any():  # by the same instruction
            places, first, which = np.unique(at, return_index=True, return_inverse=True)
            found, formal = distinct(places[which.reshape(-1)[warps != warps[first][which.reshape(-1)]]]), ""
        if len(found):
            self.reporting.find(
                i, found, races.lost_update(Access("write", "a warp", i), self._written_at(found[0]), self._updates[id(i)]),
                "one atomic operation (atom or red) in place of the load and the store, or a lock with acquire and release around both", formal=formal,
                other=int(self.line[found[0]]) if late.any() else i.line,
            )  # fmt: skip

    def _is_strong(self, i: Instruction, at: np.ndarray, warps: np.ndarray, *, changed: bool) -> None:
        """Note strong operations."""
        if not self.tables.has_strong:  # only then there are tables of their own
            polled, seen_at, written, changed_at = (np.zeros_like(t) for t in (self.read_when, self.read_line) * 2)
            self._tables = self.tables._replace(
                polled_when=polled, polled_line=seen_at, changed_when=written, changed_line=changed_at, has_strong=True
            )
        tables = self.tables
        when, line = (tables.changed_when, tables.changed_line) if changed else (tables.polled_when, tables.polled_line)
        when[at, warps % self.per_cluster] = self.clocks.clock[warps]
        line[at] = i.line

    def _observe(self, at: np.ndarray, warps: np.ndarray) -> None:
        """Warps read words by strong operations. The strong writes that they observe (for an atomic with those before
        it) happen before their later actions (rule order.observation).
        """
        who, when = self.who[at], self.when[at]
        found = self.strong[at] & (who >= 0) & (who < OPERATIONS) & (who != warps)
        found[found] = self.clocks.has_seen(warps[found], who[found]) < when[found]
        for place, warp, other in zip(at[found].tolist(), warps[found].tolist(), who[found].tolist(), strict=True):
            clocks = self.tables.changed_when[place] * any(self.line[place] in lines for lines in self._lines.values())
            clocks[other % self.per_cluster] = self.when[place]
            of_word = self._observed.setdefault(place, {})
            # a warp that observes the same writes again has observed them before
            if warp not in of_word or (clocks > of_word[warp][1]).any():
                of_word[warp] = int(self.clocks.clock[warp]), clocks

    @functools.cached_property
    def _lines(self) -> dict[str, set[int]]:
        """The lines of atomic operations."""
        return {op: {i.line for i in self.x.launch.program.inlined.body if i.op == op} for op in ("atom", "red")}

    def _have_observed(self, at: np.ndarray, warps: np.ndarray, others: np.ndarray, when: np.ndarray) -> np.ndarray:
        """Which clocks of others' strong writes to words happen before the present actions of warps, because a strong
        read, or an atomic of their own, has observed them?
        """
        known = np.zeros(len(at), bool)
        for n, (place, warp, other, clock) in enumerate(zip(at.tolist(), warps.tolist(), others.tolist(), when.tolist(), strict=True)):
            if self.who[place] == warp:
                # the old value of a reduction is not returned
                known[n] = self.strong[place] and self.line[place] in self._lines["atom"]
                continue
            known[n] = any(
                clocks[other % self.per_cluster] >= clock and (reader == warp or self.clocks.has_seen(warp, reader) >= since)
                for reader, (since, clocks) in self._observed.get(place, {}).items()
            )
        return known

    def _in_scope(
        self, i: Instruction, at: np.ndarray, warps: np.ndarray, scope: int, *, writes: bool, bits: np.ndarray | None = None
    ) -> None:
        """X008 where strong operations of two CTAs of a cluster meet, and the scope of one is .cta: these race like
        plain ones (PTX ISA 9.1 §8.4). `bits`: the bytes of the words that are accessed, if not all are.
        """
        if self.per_cluster == self.per_cta:
            return
        if scope == CTA and bits is None:
            if self._narrow is None:
                self._narrow = np.zeros_like(self.read_when), np.zeros_like(self.read_when)
            self._narrow[writes][at, warps % self.per_cluster] = self.clocks.clock[warps]
        self._in_scope_of_words(i, at, warps, scope, writes=writes)
        if self.strong_bytes.are_there(at) and (scope == CTA or self.strong_bytes.has_narrow):
            self._in_scope_of_bytes(i, at, warps, scope, writes=writes, bits=np.uint8(WHOLE) if bits is None else bits)

    def _in_scope_of_words(self, i: Instruction, at: np.ndarray, warps: np.ndarray, scope: int, *, writes: bool) -> None:
        """`_in_scope` against strong accesses of whole words."""
        tables = self.tables
        polled, changed = tables.polled_when, tables.changed_when
        if not tables.has_strong or (scope != CTA and self._narrow is None):
            return
        if scope != CTA and self._narrow is not None:
            polled, changed = self._narrow
        readers = warps // self.per_cluster * self.per_cluster + np.arange(self.per_cluster)[:, None]
        far = readers // self.per_cta != warps // self.per_cta
        for when, line in ((changed, tables.changed_line), (polled, tables.polled_line))[: 1 + writes]:
            late, formal = self.clocks.missing(lambda order, clocks=when[at].T: far & (order.has_seen(warps, readers) < clocks))  # type: ignore[misc]
            if late.any():
                places = at[np.nonzero(late)[1]]
                self._beyond_scope(i, places, int(line[places[0]]), formal)

    def _in_scope_of_bytes(
        self, i: Instruction, at: np.ndarray, warps: np.ndarray, scope: int, *, writes: bool, bits: np.ndarray | np.uint8
    ) -> None:
        """`_in_scope` against strong accesses of less than a word."""
        found = self.strong_bytes.accesses(at, warps, np.broadcast_to(bits, at.shape), with_reads=writes, only_narrow=scope != CTA)
        mine = warps[found.n]
        far = mine // self.per_cta != found.who // self.per_cta
        late, formal = self.clocks.missing(lambda order: far & (order.has_seen(mine, found.who) < found.when))
        if late.any():
            self._beyond_scope(i, at[found.n[late]], int(found.line[np.argmax(late)]), formal)

    def _beyond_scope(self, i: Instruction, places: np.ndarray, line: int, formal: Formal) -> None:
        theirs = Access("access", "another CTA", self.reporting.lines.get(line))
        why = f"the scope .cta of one of them does not include the other, and {races.UNORDERED}"
        self.reporting.find(
            i, places, races.unordered(Access("access", "a warp", i), theirs, why=why), ".cluster in place of .cta in both", formal=formal, other=line,
        )  # fmt: skip

    def _lanes_of(self, size: int) -> np.ndarray:
        """The lanes of the running threads, an entry for each word that they access."""
        lanes: np.ndarray = self.x.threads & (WARP - 1)
        return lanes if size <= WORD else np.repeat(lanes, size // WORD)

    def _lanes_met(
        self,
        i: Instruction,
        at: np.ndarray,
        warps: np.ndarray,
        lanes: np.ndarray,
        done: str,
        mine: np.ndarray,
        values: Values | None = None,
    ) -> None:
        """X008 where a lane touches words that another one of its warp has written (`mine`: the warp has), and they
        have not met since.
        """
        late = mine & self.lanes.apart(self.mark[at], warps, lanes)
        if values is not None and late.any():
            late &= ~values.lay_there
        if late.any():
            first = int(np.argmax(late))
            other = int(self.mark[at[first]]) & MANY
            who = f"lane {other} of the same warp" if other != SEVERAL else "other lanes of the same warp"
            own = Access(
                "read" if done == "read" else "write", f"lane {int(lanes[first])} of warp {self.reporting.warp(int(warps[first]))}", i
            )
            theirs = Access("write", who, self.reporting.lines.get(int(self.line[at[first]])))
            self.reporting.find(
                i, at[late], races.within_warp(own, theirs), "bar.warp.sync (__syncwarp) between them",
                other=int(self.line[at[first]]), within_warp=True,
            )  # fmt: skip

    def _lanes_changed(self, i: Instruction, at: np.ndarray, warps: np.ndarray, lanes: np.ndarray, done: str) -> None:
        """X008 if a lane accesses, by a strong operation, a word that another lane of its warp has written by a plain
        store, without a synchronisation since. Also if it loads, by a volatile load outside of a polling loop, a word
        that another lane has stored by a volatile store (rule order.warp_synchronous).
        """
        mine = self.who[at] == warps
        if not mine.any():
            return
        if done == "read" and "volatile" in i.modifiers and not self._is_polled(i):
            stored = [n for n in distinct(self.line[at[mine]]).tolist() if self._is_volatile(n)]
            mine &= ~self.strong[at] | np.isin(self.line[at], stored)
        else:
            mine &= ~self.strong[at]
        self._lanes_met(i, at, warps, lanes, done, mine)

    def _mark_read(self, at: np.ndarray, warps: np.ndarray, lanes: np.ndarray) -> None:
        """Lanes of warps read words."""
        marks = self.lanes.marks(warps, lanes)
        before = self.read_mark[at] ^ marks
        self.read_mark[at] = np.where((before == 0) | (before >> LANE_BITS != 0), marks, marks & ~MANY | SEVERAL)

    def _is_volatile(self, line: int) -> bool:
        other = self.reporting.lines.get(line)
        return other is not None and other.op == "st" and "volatile" in other.modifiers

    def _is_polled(self, load: Instruction) -> bool:
        if id(load) not in self._polled:
            self._polled[id(load)] = is_polled(self.x.launch.program, load)
        return self._polled[id(load)]

    @functools.cached_property
    def _polled(self) -> dict[int, bool]:
        return {}

    def _lanes_have_read(self, i: Instruction, at: np.ndarray, warps: np.ndarray, lanes: np.ndarray, values: Values | None) -> None:
        """X008 where a lane overwrites words that another one of its warp has read, and they have not met since."""
        late = self.lanes.apart(self.read_mark[at], warps, lanes)
        if values is not None and late.any():
            late &= ~values.lay_there
        if late.any():
            first = int(np.argmax(late))
            own = Access("write", f"lane {int(lanes[first])} of warp {self.reporting.warp(int(warps[first]))}", i)
            theirs = Access("read", "another lane of the same warp", self.reporting.lines.get(int(self.read_line[at[first]])))
            self.reporting.find(
                i, at[late], races.within_warp(own, theirs),
                "bar.warp.sync (__syncwarp) between them", other=int(self.read_line[at[first]]), within_warp=True,
            )  # fmt: skip

    def initialised(self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray) -> None:
        """Warps have made mbarrier objects, at places `flat`; what is done with these is no access of threads."""
        self.epochs.forget()
        if self.folding is not None and (of_one := self.folding.of_one(flat, self.epochs)) is not None:
            own = (of_one[0][:, None] // WORD + np.arange(len(at) // len(flat))).reshape(-1)
            tables = self._tables
            if (tables.who[own] == NOBODY).all() and not (tables.read_line[own].any() or tables.read_by[own].any()):
                tables.who[own], tables.line[own] = MBARRIER, i.line
                return
        who = self.who[at]
        self._seen(i, at, warps, np.where(who == MBARRIER, NOBODY, who), "overwritten")
        self._readers_done(i, at, warps)
        self.parts.written_whole(at)
        self.who[at], self.line[at], self.strong[at] = MBARRIER, i.line, False

    def is_copied(self, i: Instruction, flat: np.ndarray, size: int, numbers: np.ndarray, values: Values | None) -> bool:
        """cp.async of the running threads writes `size` bytes at places `flat`; the open operations of their warps have
        these numbers. False, and nothing is recorded, if a closer check is needed (`copied`).
        """
        self.epochs.forget()
        if self.parts.kept:
            return False
        places, threads = np.ascontiguousarray(flat, np.int64), self.x.threads
        done = shared_loops.copy(places, size // WORD, threads, numbers, i.line, self.tables, self._known)
        if not done and self._frees(*self.places(flat, size)):
            done = shared_loops.copy(places, size // WORD, threads, numbers, i.line, self.tables, self._known)
        if done == 2:
            at, warps = self.places(flat, size)
            self._one_stays(i, at, at, warps, values)
        return bool(done)

    def copied(self, i: Instruction, at: np.ndarray, warps: np.ndarray, numbers: np.ndarray, values: Values) -> None:
        """cp.async of warps, whose open operations have these numbers, writes words."""
        self.epochs.forget()
        own, who = OPERATIONS + numbers[warps], self.who[at]
        copies = (who >= OPERATIONS) & self.operations.copies[np.maximum(who - OPERATIONS, 0)]
        same = copies & values.lay_there & (who != own)  # several warps may copy the same
        seen = np.where(same | (who == own), NOBODY, who) if copies.any() else who
        self._seen(i, at, warps, seen, "overwritten", values)
        self._readers_done(i, at, warps, values, exempt=lambda op: (op.kind == "cp.async") & values.lay_there)
        self._keeps_writers(at, warps, np.where(same, who, NOBODY))
        self._strong_bytes_seen(i, at, warps, np.uint8(WHOLE), values)
        self.parts.written_whole(at)
        self.strong_bytes.forget(at)
        self.who[at], self.line[at], self.strong[at] = own, i.line, False
        self.mark[at] = marks = self.lanes.marks(warps, self._lanes_of(len(at) // self.x.n * WORD))
        self.mark[at[self.mark[at] != marks]] |= MANY
        if (self.who[at] != own).any():
            self._one_stays(i, at, at, warps, values)

    def part_of_copies(self, op: Operation, part: Operation, lanes: int) -> None:
        """Words that some lanes have copied by an operation of cp.async belong to another operation, `part`. Words that
        other lanes have copied, too, stay.
        """
        words = np.flatnonzero(self.who == OPERATIONS + op.number)
        mine = (lanes >> np.minimum(self.mark[words] & MANY, WARP) & 1).astype(bool)
        self.who[words[mine]] = OPERATIONS + part.number
        for other, copied in list(self._each_of(self.tables.joint)) if self.tables.has_joint else ():
            if other is op:  # which lanes have copied there too is not known any more
                self.tables.joint[copied] = 0

    # ---- asynchronous operations

    def is_read_by(self, op: Operation, at: WordRanges, *, stops_at_operations: bool, by_any: bool = False) -> bool:
        """An operation reads words, issued by its lane or (`by_any`) by each of its warp. False, and nothing is
        recorded, if a closer check is needed (`read_by_operation`).
        """
        self.epochs.forget()
        first, mark = int(op.warps[0]), self._mark_of(op, NO_LANE if by_any else op.lane)

        def note() -> Any:
            return shared_loops.operation_reads(
                at.begins,
                at.count,
                first,
                len(op.warps),
                mark,
                op.number,
                facts_of(op.kind).is_generic,
                stops_at_operations,
                self.tables,
                self._known,
            )

        return self._is_noted(note)

    def _is_noted(self, note: Callable[[], Any]) -> bool:
        """Is something noted at once, once there is room for the sets of operations that it makes?"""
        while (found := int(note())) == operation_sets.FULL:
            self._tables = self._tables._replace(sets=operation_sets.larger(self._tables.sets))
        return found == operation_sets.DONE

    def are_read_by(self, ops: Sequence[Operation], ctas: Sequence[Cta], runs: WordRanges, *, stops_at_operations: bool) -> bool:
        """Operations of one instruction read the same words of CTAs' windows. False if one must be checked alone: each
        must be reported then.
        """
        self.epochs.forget()
        ops, ctas = self._ops_to_look_at(ops, ctas)
        pitch, first = self.x.pitch // WORD, ops[0]
        windows = np.array([cta.index * pitch for cta in ctas], np.int64)
        firsts = np.array([op.warps[0] for op in ops], np.int64)
        owns = np.array([op.number for op in ops], np.int64)
        marks, size = np.array([self._mark_of(op, op.lane) for op in ops], np.int64), len(first.warps)

        def note() -> Any:
            return shared_loops.operations_read(
                runs.begins,
                runs.count,
                windows,
                firsts,
                size,
                marks,
                owns,
                facts_of(first.kind).is_generic,
                stops_at_operations,
                self._tables,
                self._known,
            )

        return self._is_noted(note)

    def _ops_to_look_at(self, ops: Sequence[Operation], ctas: Sequence[Cta]) -> tuple[Sequence[Operation], Sequence[Cta]]:
        """`_to_look_at` of operations in the windows of CTAs."""
        if self.folding is not None:
            count = self.folding.of_first(ops, ctas, self.epochs)
            if count:
                return ops[:count], ctas[:count]
            self.unfold()
        if ops[0].cohort is None:
            return ops, ctas
        return self.operations.each(ops), [self.x.ctas[n] for n in range(self.operations.units) for _ in ops]

    def read_by_operation(self, op: Operation, at: np.ndarray) -> np.ndarray:
        """An operation reads words. Returns their writers; NOBODY also if the intended bytes have not arrived."""
        self.epochs.forget()
        who: np.ndarray = self.who[at]
        by_op = (who >= OPERATIONS) & (who != OPERATIONS + op.number)
        if not facts_of(op.kind).is_generic and self.operations.generic[who[by_op] - OPERATIONS].any():
            numbers = who[by_op] - OPERATIONS
            allocs = [n for n in distinct(numbers).tolist() if self.operations[n].kind == "tcgen05.alloc"]
            if allocs:  # an address of tensor memory is no operand: the intended bytes have not arrived
                who = np.where(np.isin(who, np.array(allocs) + OPERATIONS), NOBODY, who)
                by_op &= who != NOBODY
        by_warp = (who >= 0) & (who < OPERATIONS)
        if by_warp.any():
            self._op_reads_of_warps(op, at[by_warp], who[by_warp])
            if len(op.warps) == 1:
                warps = np.broadcast_to(op.warps, at.shape)
                self._lanes_met(op.instruction, at, warps, np.full(len(at), op.lane), "read", who == warps)
        if by_op.any():
            self._op_reads_of_others(op, at[by_op], who[by_op] - OPERATIONS)
        self._others_have_written(op.instruction, at, np.broadcast_to(op.warps[:1], at.shape), "read", reader=op)
        self._joins(self.read_by, at, op.number, op.warps, self.clocks.read_done)
        return who

    def _joins(self, table: np.ndarray, at: np.ndarray, number: int, warps: np.ndarray, over: np.ndarray) -> None:
        """An operation joins those that words have in a table; others leave that these warps know to be over."""
        words = np.ascontiguousarray(at, np.int64)

        def note() -> Any:
            done = operation_sets.add(table, words, number, int(warps[0]), len(warps), over, self.operations.chain, self._tables.sets)
            return operation_sets.DONE if done else operation_sets.FULL

        self._is_noted(note)

    def _keeps_writers(self, at: np.ndarray, warps: np.ndarray, who: np.ndarray) -> None:
        """Warps, by operations, write words beside operations (`who`, NOBODY for none) that make no race with theirs:
        those that they do not know to be over count on (`joint`).
        """
        others = np.flatnonzero((who >= OPERATIONS) & ~self.clocks.done[warps, self.clocks.column(np.maximum(who - OPERATIONS, 0))])
        if others.size and not self.tables.has_joint:
            self._tables = self.tables._replace(joint=np.zeros(len(self.who), np.int32), has_joint=True)
        for key in distinct((who[others].astype(np.int64) - OPERATIONS) << 32 | warps[others]).tolist():
            number, warp = key >> 32, key & 0xFFFFFFFF
            some = others[(who[others] == OPERATIONS + number) & (warps[others] == warp)]
            self._joins(self._tables.joint, at[some], number, np.array([warp]), self.clocks.done)

    def _others_have_written(
        self, i: Instruction, at: np.ndarray, warps: np.ndarray, done: str, exempt: Callable[[Operation], np.ndarray] | None = None,
        reader: Operation | None = None,
    ) -> None:  # fmt: skip
        """X004 or X005 if words are read or overwritten (`done`) that operations besides the last one still write.
        `exempt` are the words that an operation may write together with the present one. A reader of copies of the
        same bytes needs only one.
        """
        if not self._tables.has_joint:
            return
        for op, written in self._each_of(self.tables.joint[at]):
            if done == "read" and self.operations.stream[op.number] == NO_STREAM:
                continue
            still = written if exempt is None else written & ~exempt(op)
            late, formal = self.clocks.missing(lambda order, n=op.number, still=still: still & ~order.done[warps, order.column(n)])  # type: ignore[misc]
            if late.any() and reader is not None:
                said = races.read_before_arrival(
                    self.reporting.by(reader, "read"), self.reporting.by(op, "write"), why=self.reporting.unwaited(op, int(reader.warps[0]))
                )
                self._doubt(
                    reader, at[late], said, self.reporting.wait_for(op), formal=formal,
                    cause=op.kind,
                )  # fmt: skip
            elif late.any():
                self._not_waited_for(i, at, at[late], int(warps[late][0]), op, done, formal)

    def _mark_of(self, op: Operation, lane: int) -> int:
        """The mark of a lane that issues an operation; -1 of one that whole warps issue together."""
        return int(self.lanes.now[op.warps[0]]) << LANE_BITS | lane if len(op.warps) == 1 else -1

    def _order_of(self, op: Operation) -> VectorClocks:
        """The order in which an operation is issued after others."""
        return self.clocks.orders.tensor or self.clocks if op.kind.startswith("tcgen05") else self.clocks

    def _op_reads_of_warps(self, op: Operation, places: np.ndarray, other: np.ndarray) -> None:
        """An operation reads what warps have written."""
        w, when = op.warps, self.when[places]
        order = self._order_of(op)
        unseen, formal = order.missing(lambda order: (order.seen[w][:, other % order.columns] < when).any(axis=0), but=HANDED_ON)
        if op.kind == "wgmma" and unseen.any():
            unseen = self._but_of_warpgroup(op, places, other, unseen)
        if unseen.any():
            _, alone = order.missing(lambda order: (order.seen[w][:, other % order.columns] < when).any(axis=0) & unseen)
            why, change = self.reporting.narrow("" if formal else alone)
            said = races.unordered(self.reporting.by(op, "read"), self._written_at(places[unseen][0]), why=why)
            line = int(self.line[places[unseen][0]])
            writer = self.reporting.lines.get(line)
            fence = None if writer is None else self.reporting.following(writer, "fence.proxy.async")
            between = "put fence.proxy.async and a barrier between them"
            if fence is not None:
                between = f"put a barrier between them, after fence.proxy.async of line {fence.line}"
            self._doubt(
                op, places[unseen], said, change or between, formal=formal, line=line,
            )  # fmt: skip
        if facts_of(op.kind).is_generic or (unseen.any() and not formal):
            return
        unfenced, formal = order.missing(
            lambda order: (order.fenced[w][:, other % order.columns] < when).all(axis=0) & ~unseen, but=HANDED_ON
        )
        if unfenced.any():
            place = places[unfenced][0]
            self._doubt(
                op, places[unfenced], races.unfenced(self.reporting.by(op, "read"), self._written_at(place)),
                f"fence.proxy.async.shared::cta after line {self.line[place]}, before the barrier", formal=formal, line=int(self.line[place]),
            )  # fmt: skip

    def _but_of_warpgroup(self, op: Operation, places: np.ndarray, other: np.ndarray, unseen: np.ndarray) -> np.ndarray:
        """Which of the words that not all warps of a wgmma have seen are not its own warps' words, each after its own
        fence.proxy.async? Those are a remark: rule order.warpgroup.
        """
        order, writer = self._order_of(op), np.where(np.isin(other, op.warps), other, op.warps[0])
        own = unseen & (writer == other) & (order.fenced[writer, writer % order.columns] >= self.when[places])
        if own.any():
            place = places[own][0]
            line, sentence = int(self.line[place]), races.unordered(self.reporting.by(op, "read"), self._written_at(place))

            def tell() -> None:
                self.reporting.excuses["warpgroup"] = op.instruction
                self.reporting.find(op.instruction, places[own], sentence, formal="warpgroup", other=line)

            op.doubt(sentence.code, places[own], tell)
        left: np.ndarray = unseen & ~own
        return left

    def _op_reads_of_others(self, op: Operation, places: np.ndarray, number: np.ndarray) -> None:
        """An operation reads what other operations write."""
        w = op.warps
        apart = ~self.operations.piped(op, number, reads=True)
        unseen, formal = self._order_of(op).missing(
            lambda order: ~order.done[w][:, order.column(number)].all(axis=0) & apart, but=self._handed_on(number)
        )
        # by a load that was issued too early, which is reported
        if unseen.any() and self.clocks.too_early and self._refilled[places[unseen]].all():
            return
        if unseen.any():
            late, writer = places[unseen], self.operations[int(number[unseen][0])]
            own = late[self.who[late] == OPERATIONS + writer.number]
            why, repair = self.reporting.other_stage(self.reporting.last_wait(w, late), own, writer)
            why = why or self.clocks.why_early(int(w[0]))
            said = races.read_before_arrival(
                self.reporting.by(op, "read"),
                self.reporting.by(writer, "write"),
                why=why.removeprefix(": ") or self.reporting.unwaited(writer, int(w[0])),
            )
            self._doubt(
                op, late, said,
                self.reporting.too_weak(writer, int(w[0])) or repair or self.reporting.wait_for(writer) + self.reporting.or_free_later(writer, int(w[0])),
                formal=formal, cause=writer.kind,
            )  # fmt: skip
        if facts_of(op.kind).is_generic:
            return
        crosses = self.operations.generic[number] & ~unseen
        unfenced, formal = self._order_of(op).missing(lambda order: crosses & ~order.done_fenced[w][:, order.column(number)].any(axis=0))
        if unfenced.any():
            self._doubt(
                op, places[unfenced], races.unfenced(self.reporting.by(op, "read"), self._written_at(places[unfenced][0])),
                "fence.proxy.async.shared::cta after the wait for it (cp.async.wait_group or its mbarrier), before the barrier", formal=formal,
            )  # fmt: skip

    def _doubt(
        self, op: Operation, places: np.ndarray, said: Clauses, repair: str, *, formal: Formal, cause: str = "", line: int = 0
    ) -> None:
        """Something is wrong with words that an operation reads; `line` is that of who wrote them."""
        tell = functools.partial(self.reporting.find, op.instruction, places, said, repair, formal=formal, cause=cause, other=line)
        op.doubt(said.code, places, tell)

    def is_written_by(self, op: Operation, at: WordRanges) -> bool:
        """An operation writes words. False, and nothing is recorded, if a closer check is needed
        (`written_by_operation`).
        """
        self.epochs.forget()
        is_generic, line = facts_of(op.kind).is_generic, op.instruction.line
        first, mark = int(op.warps[0]), self._mark_of(op, op.lane)
        given = at.begins, at.count, first, mark, op.number, is_generic, line, self._looks_for_reads(op)
        done = shared_loops.operation_writes(*given, self.tables, self._known)
        if not done and self._frees(at.words, np.full(len(at.words), first)):
            done = shared_loops.operation_writes(*given, self.tables, self._known)
        if done and self.parts.kept:
            self.parts.written_whole(at.words)
        if done == 2:
            self._over_reads(op, at.words)
        return bool(done)

    def _looks_for_reads(self, op: Operation) -> bool:
        """Must reads of threads without fence.proxy.async before the overwriting operation be reported (rule
        order.proxy_reads)? Once for each instruction.
        """
        return not facts_of(op.kind).is_generic and self.x.launch.result.findings.found("X003", op.instruction.line, "read") is None

    def _are_addresses(self, at: np.ndarray) -> np.ndarray:
        """Which words has tcgen05.alloc written? Triton and Gluon load over these without a fence."""
        by_op = self.who[at] >= OPERATIONS
        numbers = np.where(by_op, self.who[at] - OPERATIONS, 0)
        found: np.ndarray = by_op & self.operations.generic[numbers] & (self.operations.stream[numbers] > 0)
        return found

    def _over_reads(self, op: Operation, at: np.ndarray) -> None:
        """A remark where an operation overwrites what threads have read, and no fence.proxy.async lies between."""
        warp, clocks, tables = int(op.warps[0]), self.clocks, self._tables
        readers = warp // self.per_cluster * self.per_cluster + np.arange(self.per_cluster)
        when, columns = tables.read_when[at], readers % clocks.columns
        # others are a race, which is reported
        late = (when > clocks.fenced[warp, columns]) & (when <= clocks.seen[warp, columns])
        places = at[late.any(axis=1) & (tables.read_line[at] > 0)]
        if not len(places):
            return
        line = int(tables.read_line[places[0]])
        said = races.unfenced(self.reporting.by(op, "write"), Access("read", "threads", self.reporting.lines.get(line)))
        said = dataclasses.replace(
            said,
            why="by the PTX ISA nothing keeps the copy after the reads. Libraries release stages like this; a kernel of DeepEP read wrong values until it had the fence",
        )
        self.reporting.find(
            op.instruction, places, said,
            f"fence.proxy.async.shared::cta after line {line}, before the arrival, or before the copy", other=line, cause="read", milder=Severity.NOTE,
        )  # fmt: skip

    def are_written_by(self, ops: Sequence[Operation], ctas: Sequence[Cta], runs: WordRanges) -> bool:
        """Operations of one instruction, of one warp each, write the same words of CTAs' windows. False if one must be
        checked alone: each must be reported then.
        """
        self.epochs.forget()
        if self.parts.kept:
            return False
        ops, ctas = self._ops_to_look_at(ops, ctas)
        first, pitch = ops[0], self.x.pitch // WORD
        windows = np.array([cta.index * pitch for cta in ctas], np.int64)
        warps = np.array([op.warps[0] for op in ops], np.int64)
        marks = np.array([self._mark_of(op, op.lane) for op in ops], np.int64)
        owns = np.array([op.number for op in ops], np.int64)
        line, is_generic = first.instruction.line, facts_of(first.kind).is_generic
        looks = self._looks_for_reads(first)
        given = runs.begins, runs.count, windows, warps, marks, owns, is_generic, line, looks
        done = shared_loops.operations_write(*given, self._tables, self._known)
        if not done and self._frees((runs.words + windows[:, None]).reshape(-1), np.repeat(warps, len(runs.words))):
            done = shared_loops.operations_write(*given, self._tables, self._known)
        if done == 2:
            for op, window in zip(ops, windows.tolist(), strict=True):
                self._over_reads(op, runs.behind(window).words)
        return bool(done)

    def _frees(self, at: np.ndarray, warps: np.ndarray) -> bool:
        """Do mbarrier objects lie in words that warps write, and may they end all of them? Then nothing is kept of
        these any more.
        """
        objects = self._tables.who[at] == MBARRIER
        if self.folding is not None or not objects.any() or not self.objects.are_over(at[objects], warps[objects]):
            return False
        self._tables.who[at[objects]] = ATOMIC
        return True

    def written_by_operation(self, op: Operation, at: np.ndarray, lay_there: np.ndarray | None) -> None:
        """An operation writes words; `lay_there` marks those that the write leaves unchanged."""
        self.epochs.forget()
        warps = np.full(len(at), op.warps[0])
        who = self.who[at]
        mine = who == OPERATIONS + op.number
        beside = self.operations.piped(op, np.maximum(who - OPERATIONS, 0)) & (who >= OPERATIONS) & ~mine
        if lay_there is not None:
            beside |= lay_there & self._brought_so(op, who) & ~mine
        joint = np.where(beside, who, NOBODY)
        who = np.where(mine | beside, NOBODY, who)
        self._seen(op.instruction, at, warps, who, "overwritten")
        lanes, same = np.full(len(at), op.lane), np.zeros(len(at), bool) if lay_there is None else lay_there
        self._lanes_met(op.instruction, at, warps, lanes, "overwritten", (who == warps) & ~same)
        self._lanes_have_read(op.instruction, at[~same], warps[~same], lanes[~same], None)
        if self._looks_for_reads(op):
            self._over_reads(op, at[~same & (self.who[at] != NOBODY) & ~self._are_addresses(at)])
        held = self.who[at] != NOBODY  # readers of the others came too early, which is reported
        self._readers_done(op.instruction, at[held], warps[held], exempt=functools.partial(self._may_write_beside, op, lay_there, held))
        self._keeps_writers(at, warps, joint)
        by_warp = (who >= 0) & (who < OPERATIONS)
        if not facts_of(op.kind).is_generic and by_warp.any():
            self._op_overwrites(op, at[by_warp], who[by_warp])
        self._strong_bytes_seen(op.instruction, at, warps, np.uint8(WHOLE))
        self.parts.written_whole(at)
        self.strong_bytes.forget(at)
        if (
            not facts_of(op.kind).is_generic and (addresses := at[self._are_addresses(at)]).size
        ):  # not checked again after a read of the address
            self.read_line[addresses], self.read_when[addresses] = 0, 0
        self.who[at], self.line[at], self.strong[at] = OPERATIONS + op.number, op.instruction.line, False

    def _may_write_beside(self, op: Operation, lay_there: np.ndarray | None, held: np.ndarray, other: Operation) -> np.ndarray:
        """Which words may an operation write together with another one: both are reductions, or it writes the same
        bytes and the other one is equal?
        """
        is_piped = bool(self.operations.piped(op, np.array([other.number]))[0])
        same = np.zeros(len(held), bool) if lay_there is None or op.instruction.name != other.instruction.name else lay_there
        found: np.ndarray = same[held] | is_piped | (other is op)
        return found

    def _brought_so(self, op: Operation, who: np.ndarray) -> np.ndarray:
        """Which words were written by a copy like this one? Each of several warps may issue the copy, and the barrier
        counts them all.
        """
        numbers = distinct(who[who >= OPERATIONS]) - OPERATIONS
        alike = [n for n in numbers.tolist() if self.operations[n].instruction.name == op.instruction.name]
        return np.isin(who, np.array(alike, np.int64) + OPERATIONS)

    def _op_overwrites(self, op: Operation, places: np.ndarray, other: np.ndarray) -> None:
        """An operation of the asynchronous proxy overwrites what warps have written."""
        first, when = op.warps[0], self.when[places]
        unfenced, formal = self.clocks.missing(
            lambda order: (order.fenced[first, other % order.columns] < when) & (order.has_seen(first, other) >= when)
        )
        if unfenced.any():
            self.reporting.find(
                op.instruction, places[unfenced], races.unfenced(self.reporting.by(op, "write"), self._written_at(places[unfenced][0])),
                "fence.proxy.async.shared::cta after the ordinary stores, before the barrier", formal=formal,
                other=int(self.line[places[unfenced][0]]),
            )  # fmt: skip

    # ---- inside

    def _written(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        self.who[at], self.when[at], self.line[at], self.strong[at] = warps, self.clocks.clock[warps], i.line, False
        self.mark[at] |= MANY

    def _one_stays(self, i: Instruction, flat: np.ndarray, at: np.ndarray, warps: np.ndarray, values: Values | None) -> None:
        """Threads have written at the same places `flat` (of words `at`) with one instruction: wrong where their
        values differ.
        """
        lost = np.zeros(len(at), bool) if values is None else ~values.stay
        if not lost.any():
            return
        places, which = np.unique(flat, return_inverse=True)
        last = np.zeros(len(places), np.int64)
        last[which] = warps
        last = last[which]
        lost &= last != warps  # of lanes of one warp one stays (CUDA guide, 7.1)
        if lost.any() and values is not None:
            lost &= _may_leave_others(flat, warps, values.written())
        if lost.any():
            mine, other = (self.reporting.warp(w[lost][0]) for w in (warps, last))
            both = Access("write", f"warp {mine}", i), Access("write", f"warp {other}", i)
            self.reporting.find(
                i, at[lost], races.unordered(*both, why=f"their values differ, and {races.UNORDERED}"),
                "let one warp write, or put a barrier between them (__syncthreads, bar.sync; mbarrier)",
            )  # fmt: skip

    def _missing(
        self, test: Callable[[VectorClocks], np.ndarray], values: Values | None, which: np.ndarray | slice = ALL, but: tuple[str, ...] = ()
    ) -> tuple[np.ndarray, Formal]:
        """`VectorClocks.missing` without the words that the write leaves unchanged, as `values` (or `which` of them)
        says.
        """
        late = test(self.clocks)
        if not late.any():
            return late, ""
        if values is not None:
            late &= ~values.lay_there[which]
        return self.clocks.confirmed(late, test, but=but)

    def _seen(self, i: Instruction, at: np.ndarray, warps: np.ndarray, who: np.ndarray, done: str, values: Values | None = None) -> None:
        """Has every warp seen the writes of `who` that it now reads or overwrites?"""
        if done == "overwritten" and (objects := who == MBARRIER).any():
            self.objects.overwritten(i, at[objects], warps[objects])
        by_warp = (who >= 0) & (who < OPERATIONS) & (who != warps)
        if by_warp.any():
            mine, other, when = warps[by_warp], who[by_warp], self.when[at[by_warp]]
            unseen, formal = self._missing(lambda order: order.has_seen(mine, other) < when, values, by_warp, HANDED_ON)
            if unseen.any():
                strong = unseen & self.strong[at[by_warp]]
                unseen[strong] = ~self._have_observed(at[by_warp][strong], mine[strong], other[strong], when[strong])
            if unseen.any():
                places = at[by_warp][unseen]
                _, alone = self.clocks.missing(lambda order: (order.has_seen(mine, other) < when) & unseen)
                why, change = self.reporting.narrow("" if formal else alone)
                own = self.reporting.access("read" if done == "read" else "write", mine[unseen][0], i.line)
                self.reporting.find(
                    i, places, races.unordered(own, self._written_at(places[0]), why=why), change or self._between(int(mine[unseen][0]), int(other[unseen][0]), int(self.line[places[0]])), formal=formal,
                    other=int(self.line[places[0]]),
                )  # fmt: skip
        by_op = who >= OPERATIONS
        if by_op.any():
            but = self._handed_on(who[by_op] - OPERATIONS)
            unseen, formal = self.clocks.missing(lambda order: ~order.done[warps[by_op], order.column(who[by_op] - OPERATIONS)], but=but)
            mine, places = warps[by_op][unseen], at[by_op][unseen]
            for op, part in self._by_kind(self.who[places] - OPERATIONS):
                self._not_waited_for(i, at, places[part], int(mine[part][0]), op, done, formal)

    def _bytes_seen(
        self,
        i: Instruction,
        at: np.ndarray,
        warps: np.ndarray,
        bits: np.ndarray | np.uint8,
        values: Values | None = None,
        does: str = "write",
        *,
        is_strong: bool = False,
    ) -> None:
        """Has every warp seen the writes of the bytes that it now reads or overwrites, where others than the last
        writer of the word wrote them? `is_strong`: strong writes make no race with this access.
        """
        if not self.parts.has_others:
            return
        found = self.parts.others(at)  # (words, bytes)
        theirs = (found.who >= 0) & (found.who != warps[:, None]) & (np.broadcast_to(bits, at.shape)[:, None] >> _BYTES & 1 != 0)
        if is_strong:
            theirs &= ~np.isin(found.line, self._strong_lines)
        n, byte = np.nonzero(theirs)
        if not n.size:
            return
        mine, other, when = warps[n], found.who[n, byte], found.when[n, byte]
        unseen, formal = self._missing(_not_seen(mine, other, when), values, n, HANDED_ON)
        if unseen.any():
            first = int(np.argmax(unseen))
            by, one, two = self.reporting.lines[int(found.line[n[first], byte[first]])], int(mine[first]), int(other[first])
            own = self.reporting.access(does, one, i.line)
            theirs = Access("write", f"warp {self.reporting.warp(two)}, byte {byte[first]}", by)
            self.reporting.find(
                i, at[n[unseen]], races.unordered(own, theirs), self._between(one, two, by.line), formal=formal, other=by.line,
            )  # fmt: skip

    @functools.cached_property
    def _strong_lines(self) -> list[int]:
        """The lines of strong stores and of atomic operations."""
        body = self.x.launch.program.inlined.body
        return [i.line for i in body if i.op in ("atom", "red") or (i.op == "st" and scope_of(i))]

    def _strong_bytes_seen(
        self,
        i: Instruction,
        at: np.ndarray,
        warps: np.ndarray,
        bits: np.ndarray | np.uint8,
        values: Values | None = None,
        does: str = "write",
    ) -> None:
        """Has every warp seen the strong accesses of less than a word of the bytes that it now accesses by a plain one?"""
        if not self.strong_bytes.are_there(at):
            return
        found = self.strong_bytes.accesses(at, warps, np.broadcast_to(bits, at.shape), with_reads=does != "read")
        if not found.n.size:
            return
        mine = warps[found.n]
        unseen, formal = self._missing(_not_seen(mine, found.who, found.when), values, found.n, HANDED_ON)
        for k in np.flatnonzero(unseen & found.wrote).tolist():
            place = int(at[found.n[k]]) * WORD + int(found.byte[k])
            unseen[k] = not self.strong_bytes.is_observed(
                place, int(mine[k]), int(found.who[k]), int(found.when[k]), lambda one, other: int(self.clocks.has_seen(one, other))
            )  # fmt: skip
        if unseen.any():
            k = int(np.argmax(unseen))
            by, one, two = self.reporting.lines[int(found.line[k])], int(mine[k]), int(found.who[k])
            theirs = Access("write" if found.wrote[k] else "read", f"warp {self.reporting.warp(two)}, byte {found.byte[k]}", by)
            self.reporting.find(
                i, at[found.n[unseen]], races.unordered(self.reporting.access(does, one, i.line), theirs), self._between(one, two, by.line), formal=formal,
                other=by.line,
            )  # fmt: skip

    def _handed_on(self, numbers: np.ndarray) -> tuple[str, ...]:
        """Which obstacles do not excuse an incomplete operation? cp.async writes like threads, and its bytes were seen
        missing (rule order.narrow_arrival).
        """
        return HANDED_ON if self.operations.copies[numbers].any() else ()

    def _between(self, one: int, other: int, line: int) -> str:
        """What to put between the access of a warp and that of another one, at `line`."""
        if by := self.objects.arrives_before(other, line, one):
            name = "mbarrier.arrive" if by.op == "mbarrier" else by.name
            return f"move {name} of line {by.line} after line {line}: it arrives before that access is done"
        if relaxed := self.objects.arrives_relaxed(other, line, one):
            return f".release in place of .relaxed in the mbarrier.arrive of line {relaxed}, which releases nothing"
        if change := self.objects.counts_too_few(other, one):
            return change
        if one // self.per_cta == other // self.per_cta:
            return f"put {BARRIER}, or an mbarrier, between them"
        return "put barrier.cluster.arrive and barrier.cluster.wait of all CTAs of the cluster (cluster.sync()) between them, or an mbarrier at which the other CTA arrives"

    def _not_waited_for(
        self, i: Instruction, at: np.ndarray, late: np.ndarray, warp: int, op: Operation, done: str, formal: Formal
    ) -> None:
        """X004 or X005: of words that a warp reads or overwrites (`done`) some are still written by an operation,
        which wrote the first of them.
        """
        why, repair = "", ""
        if done == "read":
            why, repair = self.reporting.other_stage(self.reporting.last_wait(np.array([warp]), late), late, op)
            why = why or self.clocks.why_early(warp)
            repair = (
                self.reporting.too_weak(op, warp) or repair or self.reporting.wait_for(op, warp) + self.reporting.or_free_later(op, warp)
            )
            # by a load that was issued too early, which is reported
            if self.clocks.too_early and self._refilled[late].all():
                return
        elif self._is_unread(i, late, op):
            why = "it refills the stage before any thread has read what the earlier copy brought"
            self._refilled[late] = True
        brought = np.flatnonzero(self.who == OPERATIONS + op.number) if i.op == "cp" else late
        brought = brought if brought.size else late
        is_read = done == "read"
        worded = races.read_before_arrival if is_read else races.overwritten_in_flight
        self.reporting.find(
            i, late,
            worded(self.reporting.access("read" if is_read else "write", warp, i.line), self.reporting.by(op, "write"), why=why.removeprefix(": ") or self.reporting.unwaited(op, warp)),
            repair or self.reporting.make_room(i, at, brought, op, warp), formal=formal, cause=op.kind,
        )  # fmt: skip

    @functools.cached_property
    def _refilled(self) -> np.ndarray:
        """Words that a load has brought again before any thread had read the previous bytes."""
        return np.zeros(self.words, bool)

    def _is_unread(self, i: Instruction, at: np.ndarray, op: Operation) -> bool:
        """Does a load overwrite words of another load that no thread is known to have read since that was issued?"""
        if not is_bulk(i) or not facts_of(op.kind).is_copy or self.read_line[at].any():
            return False
        readers = operation_sets.members_of(self.tables.sets, distinct(self.read_by[at]))
        return all(self.operations[number].since < op.since for number in readers)

    def _by_kind(self, numbers: np.ndarray) -> Iterator[tuple[Operation, np.ndarray]]:
        """The first operation of each kind among some operations, with which of them are of that kind."""
        kinds = {number: self.operations[number].kind for number in distinct(numbers).tolist()}
        for kind in dict.fromkeys(kinds.values()):
            part = np.isin(numbers, [number for number, its in kinds.items() if its == kind])
            yield self.operations[int(numbers[part][0])], part

    def _readers_done(
        self, i: Instruction, at: np.ndarray, warps: np.ndarray, values: Values | None = None, read_by: np.ndarray | None = None,
        exempt: Callable[[Operation], np.ndarray] | None = None,
    ) -> None:  # fmt: skip
        """May the words at `at` be overwritten: has each writing warp seen all their readers complete? `read_by` are
        the warps that read the same bytes (`_others_have_written`).
        """
        self._threads_have_read(i, at, warps, self.read_when, self.read_line, values, read_by=read_by)
        if self.tables.has_strong:
            self._threads_have_read(i, at, warps, self.tables.polled_when, self.tables.polled_line, values)
            self._threads_have_changed(i, at, warps, values)
        self._operations_have_read(i, at, warps)
        self._others_have_written(i, at, warps, "overwritten", exempt)

    def _threads_have_read(
        self, i: Instruction, at: np.ndarray, warps: np.ndarray, table: np.ndarray, lines: np.ndarray, values: Values | None = None,
        read_by: np.ndarray | None = None, wrote: bool = False, does: str = "write",
    ) -> None:  # fmt: skip
        """`_readers_done` for readers that are threads, whose clocks are in `table`; they `wrote` by
        strong operations.
        """
        read = np.flatnonzero(lines[at])
        if not read.size:
            return
        mine, when = warps[read], table[at[read]].T
        readers = mine // self.per_cluster * self.per_cluster + np.arange(self.per_cluster)[:, None]
        others = readers != mine if read_by is None else (readers != mine) & read_by[:, read]
        late, formal = self._missing(lambda order: (when > order.has_seen(mine, readers)) & others, values, read)
        if wrote and late.any():
            who, word = np.nonzero(late)
            late[who, word] = ~self._have_observed(at[read[word]], mine[word], readers[who, word], when[who, word])
        if late.any():
            reader, first = (int(which[0]) for which in np.nonzero(late))
            places = at[read[np.nonzero(late)[1]]]
            theirs = self.reporting.access("change" if wrote else "read", readers[reader, first], int(lines[places[0]]))
            own = self.reporting.access(does, mine[first], i.line)
            self.reporting.find(
                i, places, races.unordered(own, theirs), self._between(int(mine[first]), int(readers[reader, first]), int(lines[places[0]])), formal=formal,
                other=int(lines[places[0]]),
            )  # fmt: skip

    def _threads_have_changed(
        self, i: Instruction, at: np.ndarray, warps: np.ndarray, values: Values | None = None, does: str = "write"
    ) -> None:
        """X008 where words are touched that any warp has changed by a strong operation, and not only the last one,
        and nothing orders the two.
        """
        self._threads_have_read(
            i, at, warps, self.tables.changed_when, self.tables.changed_line, values, wrote=True, does=does,
        )  # fmt: skip

    def _operations_have_read(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        """`_readers_done` for readers that are asynchronous operations."""
        for operation, reads in self._each_of(self.read_by[at]):
            late, formal = self.clocks.missing(
                lambda order, n=operation.number, reads=reads: reads & ~order.read_done[warps, order.column(n)]  # type: ignore[misc]
            )
            if not late.any():
                continue
            places, warp = at[late], int(np.broadcast_to(warps, late.shape)[late][0])
            why = self.reporting.unwaited(operation, warp, only_read=True)
            said = races.overwritten_in_flight(self.reporting.access("write", warp, i.line), self.reporting.by(operation, "read"), why=why)
            tell = functools.partial(
                self.reporting.find, i, places, said,
                self.reporting.wait_for(operation, warp, only_read=True), formal=formal, cause=operation.kind,
            )  # fmt: skip
            is_transfer = is_bulk(i)  # which is whole
            if not is_transfer or not operation.is_followed(places, tell):
                tell()

    def _each_of(self, entries: np.ndarray) -> Iterator[tuple[Operation, np.ndarray]]:
        """Each operation that words have, by their entries, and which words have it."""
        kinds = distinct(entries)
        for number in operation_sets.members_of(self._tables.sets, kinds):
            having = [entry for entry in kinds.tolist() if number in operation_sets.members_of(self._tables.sets, np.array([entry]))]
            yield self.operations[number], np.isin(entries, having)


def _may_leave_others(places: np.ndarray, warps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The words that threads write with one instruction and that get different values from different warps.

    Warps that write the same values are copies of each other: whichever is last, one of the same values stays.
    """
    _, value = np.unique(values, return_inverse=True)
    of_warps = np.unique(np.stack([places, value, warps], axis=1), axis=0)
    pairs, by = np.unique(of_warps[:, :2], axis=0, return_counts=True)  # how many warps write this value here
    at, count = np.unique(np.unique(of_warps[:, [0, 2]], axis=0)[:, 0], return_counts=True)  # how many write here
    few = pairs[by < count[np.searchsorted(at, pairs[:, 0])], 0]
    found: np.ndarray = np.isin(places, few)
    return found


def _not_seen(mine: np.ndarray, other: np.ndarray, when: np.ndarray) -> Callable[[VectorClocks], np.ndarray]:
    """Which of these warps have not seen what other ones did then, by an order?"""
    return lambda order: order.has_seen(mine, other) < when
