"""The rule of shared memory: which earlier accesses of the same words does nothing order before the present one? It
lists suspects, from which `shared_findings.py` makes findings (PTX ISA 8: races; 9.7.13.4: proxies).

For example: warp 3 loads a word that warp 2 has written at its clock 7. If `clocks.has_seen(3, 2)` is less than 7,
`last_writers` lists warp 2 as a suspect that lacks "order". If a TMA load wrote it, and warp 3 does not know that
operation to be over, `last_writers` lists the load, which lacks a "wait".
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.masks import any_set
from smemsim.core.ptx.module import Instruction
from smemsim.run.async_ops import facts_of, is_bulk
from smemsim.run.following import WHOLE
from smemsim.run.lower.dataflow import is_polled, repeats, updates
from smemsim.run.marks import LANE_BITS, MANY, PART_BITS, SEVERAL
from smemsim.run.sanitizer.byte_masks import Write
from smemsim.run.sanitizer.epoch_numbers import scope_of
from smemsim.run.sanitizer.happens_before import Formal, VectorClocks
from smemsim.run.sanitizer.lanes import Lanes
from smemsim.run.sanitizer.mbarriers import MbarrierObjects
from smemsim.run.sanitizer.operations import MBARRIER, NO_STREAM, OPERATIONS, Operation, Operations, are_warps
from smemsim.run.sanitizer.races import Access
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.sanitizer.shared_table import SharedTable
from smemsim.run.sanitizer.strong_words import StrongWords
from smemsim.run.scopes import CTA
from smemsim.run.warps import ALL

if TYPE_CHECKING:
    from smemsim.run.accesses import Values

__all__ = ["SharedRule", "Suspect", "WordAccess"]


# What is between two accesses in a right kernel: a barrier or release, a synchronisation of the warp's lanes, a scope
# that includes both, one atomic operation for the whole update, one value, fence.proxy.async, a wait for an operation.
Lacks: TypeAlias = Literal["order", "lanes", "scope", "atomicity", "one value", "fence", "wait"]
HANDED_ON = ("arrive",)  # what does not excuse that stores of one CTA are read by another: rule order.narrow_arrival
_BYTES = np.arange(4, dtype=np.uint8)


class WordAccess(NamedTuple):
    """The present access: an entry of `at` (words) and of `warps` for each word that a thread accesses. A write has
    `values`, and `bits` of each word if it writes only some of its bytes. If an operation reads, and no threads, it is
    `reader`.
    """

    i: Instruction
    at: np.ndarray
    warps: np.ndarray
    does: Literal["read", "write"]
    values: Values | None = None
    reader: Operation | None = None
    bits: np.ndarray | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Suspect:
    """An earlier access (`theirs`) of some words that nothing orders before the present one (`mine`), and what it
    `lacks`.

    If `formal` is set, only an instruction is missing that compilers leave out. If `weak` is set, the instruction is
    there, and too weak. The two warps of a race are `warps`. The site of the earlier access is `line`. The earlier
    operation is `op`. The load of an update is `load`. If the present access knows more than the rule, `why` has its
    reason.
    """

    lacks: Lacks
    at: np.ndarray
    mine: Access
    theirs: Access
    formal: Formal = ""
    weak: Formal = ""
    warps: tuple[int, int] = (-1, -1)
    line: int = 0
    op: Operation | None = None
    load: Instruction | None = None
    why: str = ""


Suspects: TypeAlias = Iterator[Suspect]


class SharedRule:
    """Lists the suspects of an access of shared memory."""

    def __init__(
        self, table: SharedTable, clocks: VectorClocks, operations: Operations, reporting: Reporting, lanes: Lanes, objects: MbarrierObjects
    ) -> None:  # fmt: skip
        self.table, self.clocks, self.operations, self.reporting = table, clocks, operations, reporting
        self.x, self.lanes, self.objects, self.strong = table.x, lanes, objects, StrongWords(table, clocks)

    def _missing(
        self, test: Callable[[VectorClocks], np.ndarray], values: Values | None, which: np.ndarray | slice = ALL, but: tuple[str, ...] = (),
        *, written: np.ndarray | None = None,
    ) -> tuple[np.ndarray, Formal]:  # fmt: skip
        """`VectorClocks.missing` without the words that the write leaves unchanged, as `values` (or `which` of them)
        says. `written` are the lines that have written these words, for which that may not count.
        """
        late = test(self.clocks)
        if not late.any():
            return late, ""
        if values is not None:
            late &= ~values.lay_there[which] | self._add(written)
        return self.clocks.confirmed(late, test, but=but)

    def _add(self, lines: np.ndarray | None) -> np.ndarray | bool:
        """Which lines would change a value if they came after the store that leaves it, although they have left the
        same one (`repeats`)?
        """
        return False if lines is None or not self._adding_lines else np.isin(lines, self._adding_lines)

    @functools.cached_property
    def _adding_lines(self) -> list[int]:
        program = self.x.launch.program
        return [i.site for i in program.inlined.body if not repeats(program, i)]

    def _access(self, a: WordAccess, warp: int) -> Access:
        return self.reporting.access(a.does, warp, a.i.site)

    def _written_at(self, place: int) -> Access:
        """The last write of a word."""
        return self.reporting.written(int(self.table.who[place]), int(self.table.line[place]))

    # ---- the last writer of each word

    def last_writers(self, a: WordAccess, who: np.ndarray) -> Suspects:
        """The last writers `who` of words (NOBODY where they do not matter), whom the accessing warps have not seen."""
        if a.does == "write" and any_set(objects := who == MBARRIER):
            self.objects.overwritten(a.i, a.at[objects], a.warps[objects])
        by_warp = are_warps(who) & (who != a.warps)
        if any_set(by_warp):
            yield from self._warps_wrote(a, who, by_warp)
        by_op = who >= OPERATIONS
        if any_set(by_op):
            yield from self._operations_write(a, who, by_op)

    def _warps_wrote(self, a: WordAccess, who: np.ndarray, by_warp: np.ndarray) -> Suspects:
        at = a.at[by_warp]
        mine, other, when = a.warps[by_warp], who[by_warp], self.table.when[at]
        unseen, formal = self._missing(_not_seen(mine, other, when), a.values, by_warp, HANDED_ON, written=self.table.line[at])
        if a.values is not None:
            bits = self.table.parts.written(at) if self.table.parts.kept else None
            bits = bits if bits is None or a.bits is None else bits & a.bits[by_warp]
            self._keep_stores(a, np.flatnonzero(by_warp), Write(other, when, self.table.line[at]), unseen, bits)
        if unseen.any():
            strong = unseen & self.table.strong[at]
            unseen[strong] = ~self.strong.have_observed(at[strong], mine[strong], other[strong], when[strong])
        if unseen.any():
            places = at[unseen]
            _, alone = self.clocks.missing(lambda order: (order.has_seen(mine, other) < when) & unseen)
            yield Suspect(
                "order", places, self._access(a, mine[unseen][0]), self._written_at(places[0]), formal, "" if formal else alone,
                warps=(int(mine[unseen][0]), int(other[unseen][0])), line=int(self.table.line[places[0]]),
            )  # fmt: skip

    def _keep_stores(
        self, a: WordAccess, n: np.ndarray, theirs: Write, told: np.ndarray, bits: np.ndarray | None
    ) -> None:  # fmt: skip
        """The n-th words, or these bits of them, get the values again that others have stored there, unordered
        (`SharedTable.keeps_stores`). Those that are `told` get other values.
        """
        if a.values is None:
            return
        again = ~told & np.isin(theirs.line, self._store_lines) & _not_seen(a.warps[n], theirs.who, theirs.when)(self.clocks)
        if again.any():
            self.table.keeps_stores(a.at[n[again]], Write(*(part[again] for part in theirs)), None if bits is None else bits[again])

    @functools.cached_property
    def _store_lines(self) -> list[int]:
        """The lines of plain stores."""
        return [i.site for i in self.x.launch.program.inlined.body if i.op == "st" and not scope_of(i)]

    def _operations_write(self, a: WordAccess, who: np.ndarray, by_op: np.ndarray) -> Suspects:
        numbers, warps = who[by_op] - OPERATIONS, a.warps[by_op]
        unseen, formal = self.clocks.missing(lambda order: ~order.done[warps, order.column(numbers)], but=self._handed_on(numbers))
        mine, places = warps[unseen], a.at[by_op][unseen]
        for op, part in self._by_kind(self.table.who[places] - OPERATIONS):
            yield from self._is_in_flight(a, places[part], int(mine[part][0]), op, formal)

    def _handed_on(self, numbers: np.ndarray) -> tuple[str, ...]:
        """Which obstacles do not excuse an incomplete operation? cp.async writes like threads, and its bytes were seen
        missing (rule order.narrow_arrival).
        """
        return HANDED_ON if self.operations.is_cp_async[numbers].any() else ()

    def _by_kind(self, numbers: np.ndarray) -> Iterator[tuple[Operation, np.ndarray]]:
        """The first operation of each kind among some operations, with which of them are of that kind."""
        kinds = {number: self.operations[number].kind for number in distinct(numbers).tolist()}
        for kind in dict.fromkeys(kinds.values()):
            part = np.isin(numbers, [number for number, its in kinds.items() if its == kind])
            yield self.operations[int(numbers[part][0])], part

    def _is_in_flight(self, a: WordAccess, at: np.ndarray, warp: int, op: Operation, formal: Formal) -> Suspects:
        """A warp accesses words that an operation still writes, which wrote the first of them."""
        why = ""
        if a.does == "read":
            if self._is_refilled(at):
                return
        elif self._is_unread(a.i, at, op):
            why = "no thread has read yet what the earlier copy brought there, and these bytes replace it"
            self._refilled[at] = True
        yield Suspect(
            "wait", at, self._access(a, warp), self.reporting.by(op, "write"), formal, warps=(warp, int(op.warps[0])), op=op, why=why
        )  # fmt: skip

    @functools.cached_property
    def _refilled(self) -> np.ndarray:
        """Words that a load has brought again before any thread had read the previous bytes."""
        return np.zeros(self.table.words, bool)

    def _is_refilled(self, at: np.ndarray) -> bool:
        """Are words read that a load has brought which was issued too early? That is reported."""
        return bool(self.clocks.too_early and self._refilled[at].all())

    def _is_unread(self, i: Instruction, at: np.ndarray, op: Operation) -> bool:
        """Does a load overwrite words of another load that no thread is known to have read since that was issued?"""
        if not is_bulk(i) or not facts_of(op.kind).is_load or self.table.read_line[at].any():
            return False
        return all(self.operations[number].since < op.since for number in self.table.readers_among(at))

    # ---- other writers of words: of bytes, by strong accesses, together with the last one

    def byte_writers(self, a: WordAccess, bits: np.ndarray | np.uint8, *, is_strong: bool = False) -> Suspects:
        """The writers of accessed bytes (`bits` of each word) that are not the last ones of their words. `is_strong`:
        strong writes make no race with this access.
        """
        if not self.table.parts.has_others:
            return
        found = self.table.parts.others(a.at)  # (words, bytes)
        theirs = (found.who >= 0) & (found.who != a.warps[:, None]) & (np.broadcast_to(bits, a.at.shape)[:, None] >> _BYTES & 1 != 0)
        if is_strong:
            theirs &= ~np.isin(found.line, self._strong_lines)
        n, byte = np.nonzero(theirs)
        if not n.size:
            return
        mine, other, when = a.warps[n], found.who[n, byte], found.when[n, byte]
        unseen, formal = self._missing(_not_seen(mine, other, when), a.values, n, HANDED_ON, written=found.line[n, byte])
        self._keep_stores(a, n, Write(other, when, found.line[n, byte]), unseen, np.left_shift(1, byte).astype(np.uint8))
        if unseen.any():
            k = int(np.argmax(unseen))
            yield self._of_byte(a, a.at[n[unseen]], mine[k], other[k], byte[k], found.line[n[k], byte[k]], formal)

    def strong_bytes(self, a: WordAccess, bits: np.ndarray | np.uint8) -> Suspects:
        """Strong accesses of less than a word, of bytes that are now accessed by a plain one."""
        strong = self.table.strong_bytes
        if not strong.are_there(a.at):
            return
        found = strong.accesses(a.at, a.warps, np.broadcast_to(bits, a.at.shape), with_reads=a.does != "read")
        if not found.n.size:
            return
        mine = a.warps[found.n]
        unseen, formal = self._missing(
            _not_seen(mine, found.who, found.when), a.values, found.n, HANDED_ON, written=np.where(found.wrote, found.line, 0)
        )
        for k in np.flatnonzero(unseen & found.wrote).tolist():
            place = int(a.at[found.n[k]]) * len(_BYTES) + int(found.byte[k])
            unseen[k] = not strong.is_observed(
                place, int(mine[k]), int(found.who[k]), int(found.when[k]), lambda one, other: int(self.clocks.has_seen(one, other))
            )  # fmt: skip
        if unseen.any():
            k = int(np.argmax(unseen))
            does = "write" if found.wrote[k] else "read"
            yield self._of_byte(a, a.at[found.n[unseen]], mine[k], found.who[k], found.byte[k], found.line[k], formal, does)

    def _of_byte(
        self, a: WordAccess, at: np.ndarray, mine: int, other: int, byte: int, line: int, formal: Formal, does: str = "write"
    ) -> Suspect:  # fmt: skip
        who = f"warp {self.reporting.warp(other)}, byte {byte}"
        theirs = Access(does, who, self.reporting.at(int(line)))
        return Suspect("order", at, self._access(a, mine), theirs, formal, warps=(int(mine), int(other)), line=int(line))

    @functools.cached_property
    def _strong_lines(self) -> list[int]:
        """The lines of strong stores and of atomic operations."""
        body = self.x.launch.program.inlined.body
        return [i.site for i in body if i.op in ("atom", "red") or (i.op == "st" and scope_of(i))]

    def joint_writers(self, a: WordAccess, exempt: Callable[[Operation], np.ndarray] | None = None) -> Suspects:
        """Operations besides the last one that still write words. `exempt` are the words that an operation may write
        together with the present one. A reader of copies of the same bytes needs only one.
        """
        if not self.table.kept.has_joint:
            return
        for op, written in self.table.each_of(self.table.tables.joint[a.at]):
            if a.does == "read" and self.operations.stream[op.number] == NO_STREAM:
                continue
            still = written if exempt is None else written & ~exempt(op)
            late, formal = self.clocks.missing(lambda order, n=op.number, still=still: still & ~order.done[a.warps, order.column(n)])  # type: ignore[misc]
            if late.any() and a.reader is not None:
                warps = int(a.reader.warps[0]), int(op.warps[0])
                yield Suspect(
                    "wait", a.at[late], self.reporting.by(a.reader, "read"), self.reporting.by(op, "write"), formal, warps=warps, op=op,
                    why=self.reporting.unwaited(op, warps[0]),
                )  # fmt: skip
            elif late.any():
                yield from self._is_in_flight(a, a.at[late], int(a.warps[late][0]), op, formal)

    # ---- readers of words that are overwritten

    def readers(
        self, a: WordAccess, read_by: np.ndarray | None = None, exempt: Callable[[Operation], np.ndarray] | None = None
    ) -> Suspects:  # fmt: skip
        """The readers that may not be done when words are overwritten, and other writers. `read_by` are the warps that
        read the same bytes, `exempt` see `joint_writers`.
        """
        yield from self.reading_warps(a, read_by)
        tables = self.table.tables
        if tables.has_strong:
            yield from self._warps_accessed(a, tables.polled_when, tables.polled_line)
            yield from self.changing_warps(a)
        yield from self.reading_operations(a)
        yield from self.joint_writers(a, exempt)

    def reading_warps(self, a: WordAccess, read_by: np.ndarray | None = None) -> Suspects:
        """Warps that have read words."""
        return self._warps_accessed(a, self.table.read_when, self.table.read_line, read_by)

    def changing_warps(self, a: WordAccess) -> Suspects:
        """Warps that have changed words by strong operations, not only the last one."""
        return self._warps_accessed(a, self.table.tables.changed_when, self.table.tables.changed_line, wrote=True)

    def _warps_accessed(
        self, a: WordAccess, table: np.ndarray, lines: np.ndarray, read_by: np.ndarray | None = None, *, wrote: bool = False
    ) -> Suspects:  # fmt: skip
        """Warps whose clocks are in `table`, with `lines`; they `wrote` by strong operations."""
        per_cluster = self.table.per_cluster
        read = np.flatnonzero(lines[a.at])
        if not read.size:
            return
        at, mine = a.at[read], a.warps[read]
        when = table[at].T
        readers = mine // per_cluster * per_cluster + np.arange(per_cluster)[:, None]
        others = readers != mine if read_by is None else (readers != mine) & read_by[:, read]
        late, formal = self._missing(
            lambda order: (when > order.has_seen(mine, readers)) & others, a.values, read, written=lines[at] if wrote else None
        )
        if wrote and late.any():
            who, word = np.nonzero(late)
            late[who, word] = ~self.strong.have_observed(at[word], mine[word], readers[who, word], when[who, word])
        stores = np.isin(lines[at], self._store_lines) if late.any() and not wrote else np.zeros(len(at), bool)
        for part, does in ((late & ~stores, "change" if wrote else "read"), (late & stores, "write")):
            who, word = np.nonzero(part)
            if not len(who):
                continue
            warps, places = (int(mine[word[0]]), int(readers[who[0], word[0]])), at[word]
            line = int(lines[places[0]])
            if does == "write":  # a value that is not there any more (`SharedTable.keeps_stores`)
                table[places, readers[who, word] % per_cluster] = 0
            theirs = self.reporting.access(does, warps[1], line)
            yield Suspect("order", places, self._access(a, warps[0]), theirs, formal, warps=warps, line=line)

    def reading_operations(self, a: WordAccess) -> Suspects:
        """Asynchronous operations that read words."""
        for op, reads in self.table.each_of(self.table.read_by[a.at]):
            late, formal = self.clocks.missing(
                lambda order, n=op.number, reads=reads: reads & ~order.read_done[a.warps, order.column(n)]  # type: ignore[misc]
            )
            if late.any():
                warp = int(np.broadcast_to(a.warps, late.shape)[late][0])
                theirs, warps = self.reporting.by(op, "read"), (warp, int(op.warps[0]))
                yield Suspect("wait", a.at[late], self._access(a, warp), theirs, formal, warps=warps, op=op)

    def is_unordered(self, op: Operation, site: int, at: np.ndarray) -> bool:
        """Is an operation that now writes words not ordered after their readers, by the instruction of a site?"""
        clocks, first, per_cluster = self.clocks, int(op.warps[0]), self.table.per_cluster
        readers = first // per_cluster * per_cluster + np.arange(per_cluster)
        if (self.table.read_when[at] > clocks.has_seen(first, readers)).any():
            return True
        by = self.table.readers_among(at)
        return any(self.operations[n].instruction.site == site and not clocks.read_done[first, clocks.column(n)] for n in by)

    # ---- lanes of one warp

    def lanes_wrote(self, a: WordAccess, lanes: np.ndarray, mine: np.ndarray) -> Suspects:
        """Other lanes of an accessing lane's warp, which has written words (`mine`), and has not synchronised since."""
        late = mine & self.lanes.apart(self.table.mark[a.at], a.warps, lanes)
        if a.values is not None and late.any():
            late &= ~a.values.lay_there | self._add(self.table.line[a.at])
        if late.any():
            first = int(np.argmax(late))
            other, line = int(self.table.mark[a.at[first]]) & MANY, int(self.table.line[a.at[first]])
            who = f"lane {other} of the same warp" if other != SEVERAL else "other lanes of the same warp"
            yield self._of_lanes(a, late, lanes, Access("write", who, self.reporting.at(line)), line)

    def lanes_read(self, a: WordAccess, lanes: np.ndarray) -> Suspects:
        """Other lanes of a writing lane's warp that have read words, and have not synchronised with it since."""
        late = self.lanes.apart(self.table.read_mark[a.at], a.warps, lanes)
        if a.values is not None and late.any():
            late &= ~a.values.lay_there
        if late.any():
            line = int(self.table.read_line[a.at[int(np.argmax(late))]])
            theirs = Access("read", "another lane of the same warp", self.reporting.at(line))
            yield self._of_lanes(a, late, lanes, theirs, line)

    def _of_lanes(self, a: WordAccess, late: np.ndarray, lanes: np.ndarray, theirs: Access, line: int) -> Suspect:
        first = int(np.argmax(late))
        mine = Access(a.does, f"lane {int(lanes[first])} of warp {self.reporting.warp(int(a.warps[first]))}", a.i)
        return Suspect("lanes", a.at[late], mine, theirs, line=line)

    def lanes_changed(self, a: WordAccess, lanes: np.ndarray) -> Suspects:
        """Lanes that have written words by a plain store which another lane of their warp now accesses by a strong
        operation. Also by a volatile store, if it is now a volatile load outside of a polling loop (rule
        order.warp_synchronous).
        """
        mine = self.table.who[a.at] == a.warps
        if not mine.any():
            return
        if a.does == "read" and "volatile" in a.i.modifiers and not self._is_polled(a.i):
            mine &= ~self.table.strong[a.at] | np.isin(self.table.line[a.at], self._volatile_lines)
        else:
            mine &= ~self.table.strong[a.at]
        yield from self.lanes_wrote(a, lanes, mine)

    @functools.cached_property
    def _volatile_lines(self) -> list[int]:
        body = self.x.launch.program.inlined.body
        return [i.site for i in body if i.op == "st" and "volatile" in i.modifiers]

    def _is_polled(self, load: Instruction) -> bool:
        if id(load) not in self._polled:
            self._polled[id(load)] = is_polled(self.x.launch.program, load)
        return self._polled[id(load)]

    @functools.cached_property
    def _polled(self) -> dict[int, bool]:
        return {}

    # ---- one instruction of several threads, and strong accesses

    def same_instruction(self, a: WordAccess, flat: np.ndarray) -> Suspects:
        """Warps that have written at the same places `flat` by this instruction, and other values."""
        lost = np.zeros(len(a.at), bool) if a.values is None else ~a.values.stay
        if not lost.any():
            return
        places, which = np.unique(flat, return_inverse=True)
        last = np.zeros(len(places), np.int64)
        last[which] = a.warps
        last = last[which]
        lost &= last != a.warps  # of lanes of one warp one stays (CUDA guide, 7.1)
        if lost.any() and a.values is not None:
            lost &= _may_leave_others(flat, a.warps, a.values.written())
        if lost.any():
            mine, theirs = (Access("write", f"warp {self.reporting.warp(w[lost][0])}", a.i) for w in (a.warps, last))
            yield Suspect("one value", a.at[lost], mine, theirs)

    @functools.cached_property
    def _updates(self) -> dict[int, Instruction]:
        """The loads of stores that write back what they compute of a load of the same word."""
        return updates(self.x.launch.program)

    @functools.cached_property
    def _updating_lines(self) -> list[int]:
        body = self.x.launch.program.inlined.body
        return [i.site for i in body if i.op == "st" and id(i) in self._updates]

    def lost_updates(self, a: WordAccess) -> Suspects:
        """Warps store, by relaxed or volatile stores, a value that they compute from such a load of the same word:
        others that have done the same, unordered (rule order.update). Plain accesses race anyway.
        """
        table, at, warps = self.table, a.at, a.warps
        if a.i.op != "st" or id(a.i) not in self._updates:
            return
        who = table.who[at]
        theirs = are_warps(who) & (who != warps) & table.strong[at] & np.isin(table.line[at], self._updating_lines)
        one, other, when, places = warps[theirs], who[theirs], table.when[at[theirs]], at[theirs]
        late, formal = self.clocks.missing(_not_seen(one, other, when))
        found = places[late]
        if not late.any():  # by the same instruction
            places, first, which = np.unique(at, return_index=True, return_inverse=True)
            found, formal = distinct(places[which.reshape(-1)[warps != warps[first][which.reshape(-1)]]]), ""
        if len(found):
            if late.any():
                line, pair, before = int(table.line[found[0]]), (one[late][0], other[late][0]), self._written_at(found[0])
            else:
                own = warps[at == found[0]]
                line, pair = a.i.site, (own[own != own[0]][0], own[0])
                before = self.reporting.access("write", own[0], line)
            mine, load = self.reporting.access("write", pair[0], a.i.site), self._updates[id(a.i)]
            yield Suspect("atomicity", found, mine, before, formal, warps=(int(pair[0]), int(pair[1])), line=line, load=load)

    def other_scopes(self, a: WordAccess, scope: int, bits: np.ndarray | None = None) -> Suspects:
        """Strong accesses by another CTA of the cluster, if the scope of one of the two is .cta. These race like plain
        ones (PTX ISA 9.1 §8.4). The array `bits` has the bytes of the words that are accessed, if not all are.
        """
        if self.table.per_cluster == self.table.per_cta:
            return
        writes, strong_bytes = a.does == "write", self.table.strong_bytes
        found = self.strong.of_other_scope(a.at, a.warps, scope, writes=writes, is_part=bits is not None)
        if found is not None:
            yield from self._words_of_other_scope(a, *found)
        if not strong_bytes.are_there(a.at) or not (scope == CTA or strong_bytes.has_narrow):
            return
        of_bytes = np.broadcast_to(np.uint8(WHOLE) if bits is None else bits, a.at.shape)
        theirs = strong_bytes.accesses(a.at, a.warps, of_bytes, with_reads=writes, only_narrow=scope != CTA)
        mine = a.warps[theirs.n]
        far = mine // self.table.per_cta != theirs.who // self.table.per_cta
        late, formal = self.clocks.missing(lambda order: far & (order.has_seen(mine, theirs.who) < theirs.when))
        if late.any():
            yield self._of_scope(a, a.at[theirs.n[late]], int(theirs.line[np.argmax(late)]), formal)

    def _words_of_other_scope(self, a: WordAccess, polled: np.ndarray, changed: np.ndarray) -> Suspects:
        per_cta, per_cluster, tables = self.table.per_cta, self.table.per_cluster, self.table.tables
        readers = a.warps // per_cluster * per_cluster + np.arange(per_cluster)[:, None]
        far = readers // per_cta != a.warps // per_cta
        for when, line in ((changed, tables.changed_line), (polled, tables.polled_line))[: 1 + (a.does == "write")]:
            late, formal = self.clocks.missing(lambda order, clocks=when[a.at].T: far & (order.has_seen(a.warps, readers) < clocks))  # type: ignore[misc]
            if late.any():
                places = a.at[np.nonzero(late)[1]]
                yield self._of_scope(a, places, int(line[places[0]]), formal)

    def _of_scope(self, a: WordAccess, at: np.ndarray, line: int, formal: Formal) -> Suspect:
        theirs = Access("access", "another CTA", self.reporting.at(line))
        return Suspect("scope", at, Access("access", "a warp", a.i), theirs, formal, line=line)

    # ---- an operation reads

    def _order_of(self, op: Operation) -> VectorClocks:
        """The order in which an operation is issued after others."""
        return self.clocks.orders.tensor or self.clocks if op.kind.startswith("tcgen05") else self.clocks

    def writing_warps(self, op: Operation, at: np.ndarray, other: np.ndarray) -> Suspects:
        """Warps (`other`) that have written words which an operation reads."""
        w, when, order = op.warps, self.table.when[at], self._order_of(op)
        unseen, formal = order.missing(lambda order: (order.seen[w][:, other % order.columns] < when).any(axis=0), but=HANDED_ON)
        mine = self.reporting.by(op, "read")
        if op.kind == "wgmma" and unseen.any():
            own = self._of_warpgroup(op, at, other, unseen)
            if own.any():
                places = at[own]
                # the reader is named by its first warp, so the writer is another one
                first = places[np.argmax(other[own] != w[0])]
                yield Suspect("order", places, mine, self._written_at(first), "warpgroup", line=int(self.table.line[first]))
                unseen = unseen & ~own
        if unseen.any():
            _, alone = order.missing(lambda order: (order.seen[w][:, other % order.columns] < when).any(axis=0) & unseen)
            places = at[unseen]
            line = int(self.table.line[places[0]])
            yield Suspect("order", places, mine, self._written_at(places[0]), formal, "" if formal else alone, line=line)
        if facts_of(op.kind).is_generic or (unseen.any() and not formal):
            return
        unfenced, formal = order.missing(
            lambda order: (order.fenced[w][:, other % order.columns] < when).all(axis=0) & ~unseen, but=HANDED_ON
        )
        if unfenced.any():
            places = at[unfenced]
            yield Suspect("fence", places, mine, self._written_at(places[0]), formal, line=int(self.table.line[places[0]]))

    def _of_warpgroup(self, op: Operation, at: np.ndarray, other: np.ndarray, unseen: np.ndarray) -> np.ndarray:
        """Which of the words that not all warps of a wgmma have seen are its own warps' words, each after its own
        fence.proxy.async? Those are a remark: rule order.warpgroup.
        """
        order, writer = self._order_of(op), np.where(np.isin(other, op.warps), other, op.warps[0])
        own: np.ndarray = unseen & (writer == other) & (order.fenced[writer, writer % order.columns] >= self.table.when[at])
        return own

    def writing_operations(self, op: Operation, at: np.ndarray, number: np.ndarray) -> Suspects:
        """Operations (by `number`) that write words which another one reads."""
        w, order = op.warps, self._order_of(op)
        apart = ~self.operations.piped(op, number, reads=True)
        unseen, formal = order.missing(
            lambda order: ~order.done[w][:, order.column(number)].all(axis=0) & apart, but=self._handed_on(number)
        )
        if unseen.any() and self._is_refilled(at[unseen]):
            return
        mine = self.reporting.by(op, "read")
        if unseen.any():
            writer = self.operations[int(number[unseen][0])]
            warps = int(w[0]), int(writer.warps[0])
            yield Suspect("wait", at[unseen], mine, self.reporting.by(writer, "write"), formal, warps=warps, op=writer)
        if facts_of(op.kind).is_generic:
            return
        crosses = self.operations.generic[number] & ~unseen
        unfenced, formal = order.missing(lambda order: crosses & ~order.done_fenced[w][:, order.column(number)].any(axis=0))
        if unfenced.any():
            places = at[unfenced]
            writer = self.operations[int(self.table.who[places[0]]) - OPERATIONS]
            yield Suspect("fence", places, mine, self._written_at(places[0]), formal, op=writer)

    # ---- an operation writes

    def looks_for_reads(self, op: Operation) -> bool:
        """Must reads of threads without fence.proxy.async before the overwriting operation be reported (rule
        order.proxy_reads)? Once for each instruction.
        """
        return not facts_of(op.kind).is_generic and self.x.launch.result.findings.found("X003", op.instruction, "read") is None

    def unfenced_reads(self, op: Operation, at: np.ndarray) -> Suspects:
        """Reads of threads in words that an operation overwrites, with no fence.proxy.async between."""
        warp, clocks, tables, per_cluster = int(op.warps[0]), self.clocks, self.table.kept, self.table.per_cluster
        readers = warp // per_cluster * per_cluster + np.arange(per_cluster)
        when, columns = tables.read_when[at], readers % clocks.columns
        # others are a race, which is reported
        late = (when > clocks.fenced[warp, columns]) & (when <= clocks.seen[warp, columns])
        unfenced = late.any(axis=1) & (tables.read_line[at] > 0) & ~np.isin(tables.read_line[at], self._store_lines)
        places, late = at[unfenced], late[unfenced]
        if len(places):
            # the table has the line of the last reader alone, which may have its fence
            last = (tables.read_mark[places] >> LANE_BITS + PART_BITS) % self.lanes.count % per_cluster
            n = int(np.argmax(late[np.arange(len(places)), last]))
            load, reader = self.reporting.at(int(tables.read_line[places[n]])), int(readers[np.argmax(late[n])])
            if late[n, last[n]]:
                theirs = Access("read", "threads", load)
            else:
                theirs = Access("read", f"warp {self.reporting.warp(reader)}", self.reporting.unfenced_load(op.instruction))
            line = 0 if theirs.instruction is None else theirs.instruction.site
            yield Suspect("fence", places, self.reporting.by(op, "write"), theirs, line=line, warps=(warp, reader))

    def unfenced_writes(self, op: Operation, at: np.ndarray, who: np.ndarray) -> Suspects:
        """Writes of warps (`who`) in words that an operation of the asynchronous proxy overwrites."""
        by_warp = are_warps(who)
        if facts_of(op.kind).is_generic or not by_warp.any():
            return
        places, other, first = at[by_warp], who[by_warp], op.warps[0]
        when = self.table.when[places]
        unfenced, formal = self.clocks.missing(
            lambda order: (order.fenced[first, other % order.columns] < when) & (order.has_seen(first, other) >= when)
        )
        if unfenced.any():
            late = places[unfenced]
            line = int(self.table.line[late[0]])
            yield Suspect("fence", late, self.reporting.by(op, "write"), self._written_at(late[0]), formal, line=line)

    def may_write_beside(self, op: Operation, lay_there: np.ndarray | None, held: np.ndarray, other: Operation) -> np.ndarray:
        """Which words may an operation write together with another one: both are reductions, or it writes the same
        bytes and the other one is equal?
        """
        is_piped = bool(self.operations.piped(op, np.array([other.number]))[0])
        same = np.zeros(len(held), bool) if lay_there is None or op.instruction.name != other.instruction.name else lay_there
        found: np.ndarray = same[held] | is_piped | (other is op)
        return found

    def are_beside(self, op: Operation, who: np.ndarray, lay_there: np.ndarray | None) -> np.ndarray:
        """Which of the last writers of words are operations at whose time another one may write? These are reductions,
        or equal copies of the same bytes. Each of several warps may issue a copy, and the barrier counts them all.
        """
        mine = who == OPERATIONS + op.number
        beside: np.ndarray = self.operations.piped(op, np.maximum(who - OPERATIONS, 0)) & (who >= OPERATIONS) & ~mine
        if lay_there is not None:
            numbers = distinct(who[who >= OPERATIONS]) - OPERATIONS
            alike = [n for n in numbers.tolist() if self.operations[n].instruction.name == op.instruction.name]
            beside |= lay_there & np.isin(who, np.array(alike, np.int64) + OPERATIONS) & ~mine
        return beside

    def are_addresses(self, at: np.ndarray) -> np.ndarray:
        """Which words has tcgen05.alloc written? Triton and Gluon load over these without a fence."""
        by_op = self.table.who[at] >= OPERATIONS
        numbers = np.where(by_op, self.table.who[at] - OPERATIONS, 0)
        found: np.ndarray = by_op & self.operations.generic[numbers] & (self.operations.stream[numbers] > 0)
        return found


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
