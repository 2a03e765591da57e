"""The knowledge of single lanes of a warp from their own waits (PTX ISA 9.1 §8.1, 9.7.13.15.16). Other lanes are
separate threads. They learn it when they synchronise with the waiting lanes (bar.warp.sync, or any instruction that
lanes execute together), or when they wait themselves.

Warps are ordered by `happens_before.py`. This module records the knowledge of each lane from the first wait of some
lanes until the lanes of the warp synchronise. Lanes with equal knowledge share one row, so a warp has at most 32 rows.
Other knowledge of a warp belongs to all its lanes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.finding import ranges
from smemsim.core.ptx.module import Instruction
from smemsim.run.following import WHOLE
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.operations import NOBODY, OPERATIONS, Operation, Operations, Renumbering
from smemsim.run.sanitizer.phases import Rows
from smemsim.run.sanitizer.races import Access
from smemsim.run.sanitizer.reporting import WORD, Reporting
from smemsim.run.sanitizer.shared_rule import WordAccess
from smemsim.run.sanitizer.shared_table import SharedTable
from smemsim.run.sanitizer.synchronisation import ALL_LANES, by_warps
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.warps import EXITED, WARP, are_whole_warps

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["PartialWaits"]


MOST_WAITS = 8  # of lanes that are remembered
# What lanes know: the clocks of other warps that they have seen, the complete operations, and those whose reads are
# complete.
_Known: TypeAlias = tuple[np.ndarray, ...]


def _joined(one: _Known, other: _Known) -> _Known:
    """The knowledge of both."""
    return tuple(map(np.maximum, one, other))


def _is_within(one: _Known, other: _Known) -> bool:
    """Is all that one knows known to the other?"""
    return not any((a > b).any() for a, b in zip(one, other, strict=True))


@dataclasses.dataclass(eq=False)
class _Lanes:
    """Lanes of a warp (a bit set) with equal knowledge. The part of it that counts from their next fence on is
    `coming`. The last `waits` that they learned from each have what the lanes knew then.
    """

    lanes: int
    known: _Known
    coming: _Known | None = None
    waits: tuple[tuple[Instruction, _Known], ...] = ()

    def split(self, lanes: int) -> _Lanes:
        """Some of these lanes, which are no longer among them."""
        self.lanes &= ~lanes
        return _Lanes(lanes, self.known, self.coming, self.waits)

    def note(self, i: Instruction) -> None:
        """The lanes have learned by a wait."""
        known = self.known if self.coming is None else _joined(self.known, self.coming)
        if not self.waits or not _is_within(known, self.waits[-1][1]):
            self.waits = *self.waits[1 - MOST_WAITS :], (i, known)

    def learn(self, more: _Known) -> None:
        """The lanes know this, too."""
        self.known = _joined(self.known, more)

    def learn_next(self, more: _Known) -> None:
        """The lanes learn this after their next fence."""
        self.coming = _joined(self.coming or more, more)

    def knows_as(self, other: _Lanes) -> bool:
        """Do other lanes know the same?"""
        if self.coming is not None or other.coming is not None:
            return False
        return all(map(np.array_equal, self.known, other.known))


@dataclasses.dataclass(eq=False)
class _Warp:
    """The knowledge of a warp's lanes since they synchronised last, `met` times. The warp's knowledge when that was
    brought up to date is `known`.
    """

    met: int
    known: _Known
    each: list[_Lanes]

    def of(self, lanes: int) -> list[_Lanes]:
        """These lanes, apart from the others."""
        found = []
        for some in list(self.each):
            if some.lanes & lanes and some.lanes & ~lanes:
                self.each.append(some.split(some.lanes & lanes))
                found.append(self.each[-1])
            elif some.lanes & lanes:
                found.append(some)
        return found

    def merge(self, alive: int) -> None:
        """Lanes that know the same share a row again; lanes that have exited know nothing more."""
        kept: list[_Lanes] = []
        for some in self.each:
            some.lanes &= alive
            same = next((other for other in kept if some.lanes and other.knows_as(some)), None)
            if same is not None:
                same.lanes |= some.lanes
            elif some.lanes:
                kept.append(some)
        self.each = kept


class _Late(NamedTuple):
    """An earlier access of words, by an operation or at a line. `is_known` says whether that is within a knowledge."""

    at: np.ndarray
    theirs: Access
    is_known: Callable[[_Known], bool]
    op: Operation | None = None
    line: int = 0


class PartialWaits:
    """The knowledge of lanes, by warp, if some lanes alone have waited."""

    def __init__(self, x: Wave, clocks: VectorClocks, operations: Operations, reporting: Reporting, table: SharedTable) -> None:
        self.x, self.clocks, self.operations, self.reporting, self.table = x, clocks, operations, reporting, table
        self.waits: dict[int, _Warp] = {}
        self._heard: dict[Any, bytes] = {}  # by address: the threads that have read there last

    def remembered(self) -> list[int]:
        """Holds no operation: a forgotten operation is in no word."""
        return []

    def renumber(self, to: Renumbering) -> None:
        """Operations have new numbers."""

        def moved(known: _Known) -> _Known:
            return known[0], *map(to.flags, known[1:])

        for own in self.waits.values():
            own.known = moved(own.known)
            for some in own.each:
                some.known = moved(some.known)
                some.waits = tuple((i, moved(known)) for i, known in some.waits)
                some.coming = None if some.coming is None else moved(some.coming)

    def spread(self, first: PartialWaits, twins: Twins) -> None:
        """Those of all CTAs, from those of the first one."""

        def rows(known: _Known) -> list[_Known]:
            of_all = zip(twins.clocks(known[0]), *map(twins.flags, known[1:]), strict=True)
            return [tuple(part.copy() for part in one) for one in of_all]

        for warp, own in first.waits.items():
            made = [_Warp(own.met, known, []) for known in rows(own.known)]
            for some in own.each:
                each = rows(some.known)
                coming = [None] * len(made) if some.coming is None else rows(some.coming)
                for n, one in enumerate(made):
                    waits = tuple((i, rows(known)[n]) for i, known in some.waits)
                    one.each.append(_Lanes(some.lanes, each[n], coming[n], waits))
            self.waits.update({warp + n * twins.warps: one for n, one in enumerate(made)})

    # ---- waits

    def waits_now(self, threads: np.ndarray, met: np.ndarray) -> None:
        """Threads (ascending) are about to learn what a phase of an mbarrier, or a store, has released, or that their
        own copies are complete. By warp, `met` is the number of synchronisations of its lanes.
        """
        if not self.waits and are_whole_warps(threads):
            return
        for warp, lanes in by_warps(threads):
            own = self._own(warp, met)
            if own is not None:  # what the warp has learned by other means counts for all of its lanes
                self._bring_up(own, warp, ALL_LANES)
            elif self._alive(warp) & ~lanes:
                known = self._of(warp)
                self.waits[warp] = _Warp(int(met[warp]), known, [_Lanes(ALL_LANES, known)])

    def _of(self, warp: int) -> _Known:
        """What a warp knows."""
        clocks = self.clocks
        return clocks.seen[warp].copy(), clocks.done[warp].copy(), clocks.read_done[warp].copy()

    def waited(self, i: Instruction, threads: np.ndarray, what: Any, *, relaxed: bool) -> None:
        """Threads have learned it; `relaxed`: after their next fence."""
        for warp, lanes in by_warps(threads) if self.waits else ():
            own = self.waits.get(warp)
            if own is None:
                continue
            if len(own.each) == 1 and not relaxed:
                self._begin(own, warp, lanes, i)
                continue
            self._learn(own, warp, lanes, self.clocks.closed(what), relaxed=relaxed)
            self._note(own, warp, lanes, i)

    def _begin(self, own: _Warp, warp: int, lanes: int, i: Instruction) -> None:
        """The first lanes of a warp have learned something. All knew the same before."""
        before, own.known = own.known, self._of(warp)
        if _is_within(own.known, before):
            del self.waits[warp]
            return
        (others,) = own.each
        others.lanes &= ~lanes
        own.each.append(_Lanes(lanes, own.known, waits=((i, own.known),)))

    def hears(self, threads: np.ndarray, what: Any, *, relaxed: bool, scope: int) -> bool:
        """May threads learn something at an address that they are about to read? Not if they poll it again, and nothing
        has changed.
        """
        told = self.clocks.told(what, relaxed=relaxed, scope=scope)
        if told is None:
            return False
        before, self._heard[what] = self._heard.get(what), threads.tobytes()
        return before != self._heard[what] or not told.issuperset((threads >> 5).tolist())

    def have_waited(self, i: Instruction, threads: np.ndarray) -> None:
        """Threads know that their copies are complete, which their warp knows now."""
        for warp, lanes in by_warps(threads) if self.waits else ():
            own = self.waits.get(warp)
            if own is not None:
                self._bring_up(own, warp, lanes)
                self._note(own, warp, lanes, i)

    def _note(self, own: _Warp, warp: int, lanes: int, i: Instruction) -> None:
        """Lanes have learned by a wait. Nothing is kept of a warp if all of its lanes know the same."""
        for some in own.of(lanes):
            some.note(i)
        own.merge(self._alive(warp))
        if len(own.each) < 2:
            del self.waits[warp]

    def _learn(self, own: _Warp, warp: int, lanes: int, released: Iterable[Rows], *, relaxed: bool) -> None:
        """Lanes of a warp learn what was released, as far as the warp knows it. The new knowledge is theirs alone."""
        now = self._of(warp)
        self._bring_up(own, warp, ALL_LANES if relaxed else lanes)
        known = [(rows[0], rows[2], rows[3]) for rows in released]
        if not known:
            return
        more: _Known = tuple(np.maximum.reduce(parts) for parts in zip(*known, strict=True))
        for some in own.of(lanes):
            if relaxed:
                some.learn_next(more)
            else:
                some.learn(tuple(map(np.minimum, more, now)))

    def _bring_up(self, own: _Warp, warp: int, lanes: int) -> None:
        """These lanes learn what the warp has learned since the last call. Knowledge that fences completed belongs to
        the lanes of the relaxed wait.
        """
        now = self._of(warp)
        new = tuple(map(np.greater, now, own.known))
        if not any(part.any() for part in new):
            return
        coming = [some.coming for some in own.each if some.coming is not None]
        for some in own.of(lanes):
            mine = new
            for others in coming:
                if others is not some.coming:
                    known = some.coming or tuple(map(np.zeros_like, now))
                    mine = tuple(m & ((o < n) | (k >= n)) for m, o, n, k in zip(mine, others, now, known, strict=True))
            some.learn(tuple(np.where(m, n, np.zeros_like(n)) for m, n in zip(mine, now, strict=True)))
        own.known = now
        for some in own.each:
            self._arrives(some, now)

    @staticmethod
    def _arrives(some: _Lanes, now: _Known) -> None:
        """What was to come for lanes is there, if their warp knows it now."""
        if some.coming is not None and _is_within(some.coming, now):
            some.learn(some.coming)
            some.coming = None

    def fenced(self, threads: np.ndarray, met: np.ndarray) -> None:
        """Threads have executed a fence, with which their relaxed reads and waits acquire."""
        for warp, lanes in by_warps(threads):
            own = self._own(warp, met)
            if own is not None:
                self._bring_up(own, warp, ALL_LANES)
                for some in own.of(lanes):
                    self._arrives(some, own.known)

    def _alive(self, warp: int) -> int:
        """The lanes of a warp that have not exited."""
        alive = np.flatnonzero(self.x.pc[warp * WARP : (warp + 1) * WARP] < EXITED)
        return int(np.bitwise_or.reduce(np.int64(1) << alive)) if len(alive) else 0

    # ---- accesses

    def concerns(self, met: np.ndarray) -> bool:
        """Does a running warp have lanes that have not waited for what others of it have?"""
        if not self.waits:
            return False
        return any(self._own(warp, met) is not None for warp in distinct(self.x.threads >> 5).tolist())

    def _own(self, warp: int, met: np.ndarray) -> _Warp | None:
        """The own knowledge of lanes of a warp that have not synchronised since."""
        own = self.waits.get(warp)
        if own is not None and own.met != met[warp]:
            del self.waits[warp]
            return None
        return own

    def is_behind(self, warp: int, lanes: int, met: np.ndarray) -> bool:
        """Does one of these lanes of a warp not know what other lanes of it know?"""
        own = self._own(warp, met)
        if own is None:
            return False
        self._bring_up(own, warp, ALL_LANES)
        return any(some.lanes & lanes and not _is_within(own.known, some.known) for some in own.each)

    def look(
        self, a: WordAccess, lanes: np.ndarray, met: np.ndarray, *, stays: np.ndarray | None = None, is_strong: bool = False,
        by: Operation | None = None,
    ) -> None:  # fmt: skip
        """Lanes read or overwrite words, each entry by one lane, by strong operations or by an operation (`by`). The
        write leaves some words unchanged (`stays`).
        """
        for warp in distinct(a.warps).tolist():
            own = self._own(warp, met)
            if own is None:
                continue
            self._bring_up(own, warp, ALL_LANES)
            mine = a.warps == warp
            for some in own.each:
                rows = mine & (some.lanes >> lanes & 1).astype(bool)
                if rows.any() and not _is_within(own.known, some.known):
                    bits = None if a.bits is None else a.bits[rows]
                    part = a._replace(at=a.at[rows], bits=bits)
                    unchanged = np.zeros(len(part.at), bool) if stays is None else stays[rows]
                    late = next(self._late(part, warp, own, some, unchanged, is_strong=is_strong), None)
                    if late is not None:
                        self._tell(part, own, some, warp, late, by)

    def _late(self, a: WordAccess, warp: int, own: _Warp, some: _Lanes, unchanged: np.ndarray, *, is_strong: bool) -> Iterator[_Late]:
        """The earlier accesses of words that the warp knows, and these lanes of it do not."""
        (seen, done, read_done), (my_seen, my_done, my_read_done), columns = own.known, some.known, self.clocks.columns
        n, who, when, line = self._writers(a, is_strong=is_strong)
        at = a.at[n]
        by_operation = who >= OPERATIONS
        of = self.clocks.column(np.where(by_operation, who - OPERATIONS, 0))
        late = by_operation & done[of] & ~my_done[of]
        if late.any():
            op, column = self.operations[int(who[late][0] - OPERATIONS)], int(of[late][0])
            yield _Late(at[late], self.reporting.written(int(who[late][0]), 0), lambda known: bool(known[1][column]), op)
        others = np.where(by_operation | (who < 0), warp, who)
        late = (others != warp) & (seen[others % columns] >= when) & (my_seen[others % columns] < when) & ~unchanged[n]
        if late.any():
            k = int(np.argmax(late))
            yield _Late(
                at[late], self.reporting.written(int(who[k]), int(line[k])), _has_seen(others[k] % columns, when[k]), line=int(line[k])
            )
        if a.does == "read":
            return
        table, per_cluster = self.table, self.table.per_cluster
        readers = warp // per_cluster * per_cluster + np.arange(per_cluster)
        of, tables = readers % columns, [(table.read_when, table.read_line)]
        if table.tables.has_strong and not is_strong:
            tables.append((table.tables.polled_when, table.tables.polled_line))
        for clocks, lines in tables:
            read, has_line = clocks[a.at], lines[a.at] != 0
            are_late = (read > my_seen[of]) & (read <= seen[of]) & (readers != warp) & (has_line & ~unchanged)[:, None]
            if are_late.any() and a.bits is not None and lines is table.read_line:
                are_late &= table.parts.read_by(a.at, a.bits).T
            if are_late.any():
                word, reader = (int(index[0]) for index in np.nonzero(are_late))
                site = int(lines[a.at[word]])
                load = self.reporting.at(site)
                does = "write" if load is not None and load.op == "st" else "read"  # of a value that was stored again
                theirs = self.reporting.access(does, int(readers[reader]), site)
                yield _Late(a.at[are_late.any(axis=1)], theirs, _has_seen(of[reader], read[word, reader]), line=site)
        for op, reads in table.each_of(table.read_by[a.at]) if table.read_by[a.at].any() else ():
            column = self.clocks.column(op.number)
            if read_done[column] and not my_read_done[column]:
                yield _Late(a.at[reads], self.reporting.by(op, "read"), lambda known, column=column: bool(known[2][column]), op)  # type: ignore[misc]

    def _writers(self, a: WordAccess, *, is_strong: bool) -> tuple[np.ndarray, ...]:
        """The writers of the accessed words, each with its clock and its line, and which of the words each wrote."""
        table, parts, every = self.table, self.table.parts, np.arange(len(a.at))
        who = table.who[a.at]
        if is_strong:
            who = np.where(table.strong[a.at] & (who < OPERATIONS), NOBODY, who)
        if not parts.kept:
            return every, who, table.when[a.at], table.line[a.at]
        bits = np.full(len(a.at), WHOLE, np.uint8) if a.bits is None else a.bits
        last = every[parts.overlap(a.at, bits) | (who >= OPERATIONS)]
        found = [(last, who[last], table.when[a.at[last]], table.line[a.at[last]])]
        if parts.has_others and not is_strong:
            others = parts.others(a.at)
            n, byte = np.nonzero((others.who >= 0) & (bits[:, None] >> np.arange(WORD) & 1 != 0))
            found.append((n, others.who[n, byte], others.when[n, byte], others.line[n, byte]))
        return tuple(map(np.concatenate, zip(*found, strict=True)))

    def _tell(self, a: WordAccess, own: _Warp, some: _Lanes, warp: int, late: _Late, by: Operation | None) -> None:
        mine = Access(a.does, f"lanes of warp {self.reporting.warp(warp)}", a.i) if by is None else self.reporting.by(by, a.does)
        knowing = [other for other in own.each if late.is_known(other.known)]
        waits = [i for other in knowing for i, known in other.waits if late.is_known(known)]
        why = f"only {_named(sum(other.lanes for other in knowing))} {f'waited, at {waits[0].at},' if waits else 'knows of it,'} and the lanes have not synchronised since"
        is_of_thread = bool(waits) and waits[0].op == "cp"  # no other lane can wait for its copies
        repair = "bar.warp.sync (__syncwarp) after the wait" + ", or let all lanes wait" * (not is_of_thread)
        unfenced = next((i for i, known in some.waits if late.is_known(known)), None)
        if unfenced is not None:
            why = f"the wait of these lanes at {unfenced.at} is relaxed, and no fence of theirs follows it"
            repair = "fence.acq_rel (__threadfence) after the wait, or a wait without .relaxed"
        if late.op is None:
            said = races.unordered(mine, late.theirs, why=why)
        elif a.does == "write":
            said = races.overwritten_in_flight(mine, late.theirs, why=why)
        else:
            said = races.read_before_arrival(mine, late.theirs, why=why)
        only_read = late.theirs.does == "read"
        if late.op is not None and by is None and unfenced is None and (ignorant := self._ignorant(warp, late.op, only_read=only_read)):
            others = f"warp{'s' * (len(ignorant) > 1)} {ranges(ignorant)} {'have' if len(ignorant) > 1 else 'has'}"
            said = dataclasses.replace(said, why=f"{why}; {others} not waited", kind=f"barrier for {late.op.kind}")
            repair = "bar.sync (__syncthreads) after the wait" + ", or let all threads wait" * (not is_of_thread)
        cause = "" if late.op is None else late.op.kind
        find = functools.partial(self.reporting.find, a.i, late.at, said, repair, cause=cause, other=late.line)
        if by is not None and a.does == "read":
            by.doubt(said.code, late.at, find)
        else:
            find()

    def _ignorant(self, warp: int, op: Operation, *, only_read: bool) -> list[int]:
        """The other running warps of a warp's CTA that do not know an operation, or (`only_read`) its reads, to be
        complete, by their numbers in the CTA.
        """
        running, per_cta = distinct(self.x.threads >> 5).tolist(), self.x.stride // WARP
        near = [other for other in running if other // per_cta == warp // per_cta and other != warp]
        return [other % per_cta for other in near if not self.clocks.is_over(other, op, only_read=only_read)]


def _has_seen(column: int, when: int) -> Callable[[_Known], bool]:
    """Does a knowledge include what a warp did at a clock?"""
    return lambda known: bool(known[0][column] >= when)


def _named(lanes: int) -> str:
    """Lanes as findings call them."""
    each = [lane for lane in range(WARP) if lanes >> lane & 1]
    if len(each) == 1:
        return f"lane {each[0]}"
    return f"lanes {each[0]} to {each[-1]}" if each and each[-1] - each[0] == len(each) - 1 else "some lanes"
