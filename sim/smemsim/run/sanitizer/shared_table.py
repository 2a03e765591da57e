"""The table of shared memory: for each word the last writer and the readers since, each with its clock.

The life of one word: warp 2 stores, so `who` is 2, `when` the clock of warp 2, and `line` that of the store. Warp 3
loads: `read_when[word, 3]` is the clock of warp 3. A TMA load overwrites the word: `who` is OPERATIONS + its number. An
operation that reads the word joins `read_by`. `shared_rule.py` asks the table, `shared_loops.py` does so compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.masks import any_set
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.launches import RESERVED_BARRIERS
from smemsim.run.checks import NotedTables
from smemsim.run.following import WHOLE
from smemsim.run.marks import MANY
from smemsim.run.sanitizer import operation_sets, shared_loops
from smemsim.run.sanitizer.byte_masks import Parts, Write
from smemsim.run.sanitizer.epochs import Epochs
from smemsim.run.sanitizer.folding import Folding, Knowledge
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.lanes import Lanes
from smemsim.run.sanitizer.operations import NOBODY, OPERATIONS, Operation, Operations, Renumbering
from smemsim.run.sanitizer.strong_bytes import StrongBytes
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.warps import WARP
from smemsim.run.word_ranges import WordRanges

if TYPE_CHECKING:
    from smemsim.run.views import Cta, Wave

__all__ = ["ATOMIC", "SharedTable"]


WORD = 4
ATOMIC = -2  # in `who`: atomic and other strong operations of any thread, and operations on mbarriers
_NONE = np.zeros(0, np.int64)


def _of_tables(name: str) -> Any:
    """A table of all CTAs."""
    return property(lambda table: getattr(table.tables, name))


class SharedTable:
    """The last writer and the readers of each word of the shared memory of one wave.

    The arrays of all CTAs, or of the first one while `folding` says that the others do the same, are `kept`
    (`shared_loops.Tables`). The arrays of all CTAs are `tables`. Reading them, or `who`, `when` and the like, ends the
    cohort. Accesses of less than a word are in `parts` and `strong_bytes`. A summary for whole words is in `epochs`.
    """

    def __init__(self, x: Wave, clocks: VectorClocks, operations: Operations, lanes: Lanes, knowledge: Knowledge | None) -> None:
        self.x, self.clocks, self.operations, self.lanes = x, clocks, operations, lanes
        self.words = words = len(x.shared) // WORD
        self.per_cta = x.stride // WARP
        self.per_cluster = self.per_cta * x.launch.cluster_size
        self.parts = Parts(words, self.per_cluster)
        self.strong_bytes = StrongBytes(words)
        self.folding = None if knowledge is None else Folding(x, clocks, lanes, knowledge)
        count = words if self.folding is None else words // len(x.ctas)
        counts = [np.zeros(count, np.int32) for _ in range(3)]
        read_when = np.zeros((count, self.per_cluster), np.int32)
        self.kept = shared_loops.Tables(
            np.full(count, NOBODY, np.int32), counts[0], counts[1], np.zeros(count, bool), read_when, counts[2], *(read_when, counts[2]) * 2,
            has_strong=False, read_by=np.zeros(count, np.int32), mark=np.zeros(count, np.int64), read_mark=np.zeros(count, np.int64),
            joint=np.zeros(0, np.int32), has_joint=False, sets=operation_sets.made(),
        )  # fmt: skip
        if x.scratch:  # the system hands its part over with the barriers of cooperative groups in clocks
            for cta in range(len(x.ctas)):
                begin = (cta * x.pitch + x.scratch) // WORD
                self.who[begin : begin + RESERVED_BARRIERS // WORD] = ATOMIC
        self.epochs = Epochs(self.kept, len(x.ctas), x.pitch // WORD)
        # passes reads of all threads, see `run/jit/shadow.py`
        self.by_epochs: Callable[[int, int, np.ndarray], bool] | None = None

    # ---- the arrays

    @property
    def tables(self) -> shared_loops.Tables:
        """The tables of all CTAs."""
        if self.folding is not None:
            self.unfold()
        return self.kept

    who, when, line, strong, mark, read_mark = map(_of_tables, ("who", "when", "line", "strong", "mark", "read_mark"))
    read_when, read_line, read_by = map(_of_tables, ("read_when", "read_line", "read_by"))

    @property
    def noted(self) -> NotedTables:
        """The tables in which compiled blocks note accesses that an epoch orders; valid as long as `folding` is the
        same.
        """
        epochs, tables = self.epochs, self.kept
        return NotedTables(
            self.folding, epochs.written, epochs.read, epochs.epoch, self.clocks.clock, self.lanes.now, tables.read_when, tables.read_line,
            tables.read_mark, tables.who, tables.when, tables.line, tables.strong, tables.mark,
        )  # fmt: skip

    @property
    def known(self) -> shared_loops.Known:
        """The knowledge of warps, for the compiled checks."""
        clocks, operations = self.clocks, self.operations
        return shared_loops.Known(
            clocks.clock, clocks.seen, clocks.fenced, clocks.done, clocks.read_done, clocks.done_fenced, operations.generic, operations.is_cp_async,
            operations.stream, operations.chain, operations.noted, self.lanes.now,
        )  # fmt: skip

    def has_epochs(self) -> bool:
        """Do the epochs of CTAs decide the order: does no CTA reach the windows of others, and are all accesses whole
        words? Makes `epochs`.
        """
        if self.per_cluster != self.per_cta or self.parts.kept:
            self.epochs.forget()
            return False
        self.parts.read_whole(_NONE, _NONE)
        return self.epochs.is_made or self.epochs.make(self.kept)

    # ---- one CTA for all, and all

    def are_in_step(self) -> bool:
        """Do the warps of all CTAs of a cohort have the same clocks, synchronisations and epochs?"""
        return self.folding is not None and self.folding.are_in_step(self.epochs)

    def unfold(self) -> None:
        """The tables become those of all CTAs."""
        if self.folding is not None:
            self.kept = self.folding.unfolded(self.kept, self.epochs)
            self.folding = self.by_epochs = None

    def spread(self, first: SharedTable, twins: Twins) -> None:
        """The tables of the first CTA stand for all CTAs from now on, of which it was the only one."""
        assert self.folding is not None
        self.kept = first.kept
        self.epochs.spread(first.epochs)
        self.folding.knowledge.has_issued(first.operations.operations)

    def reads_of_one(self) -> tuple[np.ndarray, ...]:
        """The table of reads of the CTA that stands for all."""
        tables = self.kept
        return self.epochs.read.copy(), tables.read_line.copy(), tables.read_when.copy(), tables.read_mark.copy()

    def unfold_where_others_read(self, cta: int, before: tuple[np.ndarray, ...]) -> None:
        """Expand the tables to all CTAs. For CTAs from one on, the record of reads is the one `before` the last reads,
        which are those of the others.
        """
        folding, self.by_epochs = self.folding, None
        assert folding is not None
        self.unfold()
        begin, tables = cta * self.words // folding.count, self.kept
        for all_of, kept in zip(
            (self.epochs.read, tables.read_line, tables.read_when, tables.read_mark), folding.all_reads(before), strict=True
        ):
            all_of[begin:] = kept[begin:]

    def of_one(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places and threads of an access for `kept`: those of one CTA for a cohort."""
        if self.folding is not None:
            of_one = self.folding.of_one(places, self.epochs)
            if of_one is not None:
                return of_one
            self.unfold()
        return places, self.x.threads

    # ---- numbers of operations

    def remembered(self) -> np.ndarray:
        """The operations that words have, by their numbers."""
        found, is_used = np.zeros(self.operations.room, bool), np.zeros(int(self.kept.sets.used[0]), bool)
        shared_loops.operations_of(self.kept, found, is_used)
        numbers = np.flatnonzero(found)
        return numbers if self.folding is None else self.folding.remembered(numbers)

    def renumber(self, to: Renumbering) -> None:
        """Operations have new numbers."""
        is_used, tables = np.zeros(int(self.kept.sets.used[0]), bool), self.kept
        shared_loops.sets_of(tables, is_used)
        kept, entries = operation_sets.compacted(tables.sets, is_used, to.new)
        shared_loops.renumber(tables.who, to.new)
        for table in (tables.read_by, tables.joint):
            operation_sets.renumber(table, to.new, entries)
        self.kept = tables._replace(sets=kept)

    def each_of(self, entries: np.ndarray) -> Iterator[tuple[Operation, np.ndarray]]:
        """Each operation that words have, by their entries, and which words have it."""
        kinds = distinct(entries)
        for number in operation_sets.members_of(self.kept.sets, kinds):
            having = [entry for entry in kinds.tolist() if number in operation_sets.members_of(self.kept.sets, np.array([entry]))]
            yield self.operations[number], np.isin(entries, having)

    def readers_among(self, at: np.ndarray) -> list[int]:
        """The operations that read one of these words, by their numbers."""
        return operation_sets.members_of(self.tables.sets, distinct(self.read_by[at]))

    def is_noted(self, note: Callable[[], Any]) -> bool:
        """Is something noted at once, once there is room for the sets of operations that it makes?"""
        while (found := int(note())) == operation_sets.FULL:
            self.kept = self.kept._replace(sets=operation_sets.larger(self.kept.sets))
        return found == operation_sets.DONE

    def joins(self, name: str, at: np.ndarray, number: int, warps: np.ndarray, over: np.ndarray) -> None:
        """An operation joins those that words have in a table ("read_by" "joint"); others leave that
        these warps know to be over.
        """
        words = np.ascontiguousarray(at, np.int64)

        def note() -> Any:
            table = getattr(self.tables, name)
            done = operation_sets.add(table, words, number, int(warps[0]), len(warps), over, self.operations.chain, self.kept.sets)
            return operation_sets.DONE if done else operation_sets.FULL

        self.is_noted(note)

    def keeps_writers(self, at: np.ndarray, warps: np.ndarray, who: np.ndarray) -> None:
        """Warps, by operations, write words that other operations (`who`, NOBODY for none) write without a race. Those
        that they do not know to be over still count (`joint`).
        """
        others = np.flatnonzero((who >= OPERATIONS) & ~self.clocks.done[warps, self.clocks.column(np.maximum(who - OPERATIONS, 0))])
        if others.size and not self.tables.has_joint:
            self.kept = self.kept._replace(joint=np.zeros(len(self.who), np.int32), has_joint=True)
        for key in distinct((who[others].astype(np.int64) - OPERATIONS) << 32 | warps[others]).tolist():
            number, warp = key >> 32, key & 0xFFFFFFFF
            some = others[(who[others] == OPERATIONS + number) & (warps[others] == warp)]
            self.joins("joint", at[some], number, np.array([warp]), self.clocks.done)

    def writes_of_copies(self, op: Operation, part: Operation, lanes: int) -> None:
        """Words that some lanes have copied by an operation of cp.async belong to another operation, `part`. Words that
        other lanes have copied, too, stay.
        """
        words = np.flatnonzero(self.who == OPERATIONS + op.number)
        mine = (lanes >> np.minimum(self.mark[words] & MANY, WARP) & 1).astype(bool)
        self.who[words[mine]] = OPERATIONS + part.number
        for other, copied in list(self.each_of(self.tables.joint)) if self.tables.has_joint else ():
            if other is op:  # which lanes have copied there too is not known any more
                self.tables.joint[copied] = 0

    def keeps_stores(self, at: np.ndarray, stores: Write, bits: np.ndarray | None = None) -> None:
        """Other warps have stored the values of earlier `stores` again, unordered, in words or in these `bits` of them.
        The earlier ones count as readers from now on: who reads the value need not follow them, and who overwrites it
        must.
        """
        readers, read_when = stores.who % self.per_cluster, self.read_when
        if bits is None:
            self.parts.read_whole(at, readers)
        else:
            self.parts.read(at, bits, readers, read_when[at, readers] < stores.when)
        read_when[at, readers] = np.maximum(read_when[at, readers], stores.when)
        self.read_line[at] = stores.line

    # ---- places of words

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

    def of_cta(self, cta: Cta, offsets: np.ndarray | WordRanges) -> WordRanges:
        """The words of a CTA's window: runs of it, or offsets from its begin."""
        runs = offsets if isinstance(offsets, WordRanges) else WordRanges.of(np.asarray(offsets, np.int64) >> 2)
        return runs.behind(cta.index * (self.x.pitch // WORD))

    # ---- what has been written

    def are_touched(self, at: np.ndarray) -> bool:
        """Has any thread or operation accessed one of these words?"""
        return any_set(self.who[at] != NOBODY) or any_set(self.read_line[at]) or any_set(self.read_by[at])

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

    def has_holes(self, at: WordRanges) -> bool:
        """Are some bytes of written words uninitialised?"""
        return self.parts.has_holes and bool(self.parts.holes_of(at.words).any())

    def fill_part(self, at: np.ndarray, flat: np.ndarray, size: int) -> None:
        """Bytes of words are written: the other bytes of uninitialised words become holes."""
        self.parts.fill(at, self.parts.bits(flat, size), self.who[at] == NOBODY)

    def last_writer(self, word: int) -> Instruction | None:
        """The last writer of a word."""
        if self.who[word] >= OPERATIONS:
            return self.operations[int(self.who[word]) - OPERATIONS].instruction
        found: Instruction | None = self.x.program.sites.get(int(self.line[word]))
        return found

    def beside(self, word: int) -> Instruction | None:
        """The writer of the written word next to a word of the same CTA. None if nothing has written any."""
        per_cta = self.x.pitch // WORD
        begin = word // per_cta * per_cta
        written = np.flatnonzero((self.who[begin : begin + per_cta] != NOBODY) & (self.line[begin : begin + per_cta] > 0))
        if not written.size:
            return None
        return self.last_writer(begin + int(written[np.argmin(np.abs(written - (word - begin)))]))

    # ---- record an access

    def write(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        """Warps have written words, each by several lanes for all that is known so far."""
        self.who[at], self.when[at], self.line[at], self.strong[at] = warps, self.clocks.clock[warps], i.site, False
        self.mark[at] |= MANY

    def read(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        """Warps have read words."""
        self.read_when[at, warps % self.per_cluster] = self.clocks.clock[warps]
        self.read_line[at] = i.site
