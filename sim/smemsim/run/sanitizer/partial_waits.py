"""The knowledge of single lanes of a warp from their own waits (PTX ISA 9.1 §8.1, 9.7.13.15.16). Other lanes are
separate threads. They learn it when they synchronise with the waiting lanes (bar.warp.sync, or any instruction that
lanes execute together), or when they wait themselves.

Warps are ordered by `happens_before.py`. This module records the knowledge of each lane from the first wait of some
lanes until the lanes of the warp synchronise. Lanes with equal knowledge share one row, so a warp has at most 32 rows.
Other knowledge of a warp belongs to all its lanes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.finding import ranges
from smemsim.core.ptx.module import Instruction
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.operations import OPERATIONS, Operations, Renumbering
from smemsim.run.sanitizer.phases import Rows
from smemsim.run.sanitizer.races import Access
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.sanitizer.synchronisation import ALL_LANES, Threads, by_warps
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.warps import EXITED, WARP, are_whole_warps

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["PartialWaits"]


@dataclasses.dataclass(eq=False)
class _Lanes:
    """Lanes of a warp (a bit set) with equal knowledge: the clocks of other warps that they have seen, and the complete
    operations. The part of both that counts from their next fence on is `coming`. The last wait that they learned from
    is `wait`.
    """

    lanes: int
    seen: np.ndarray
    done: np.ndarray
    coming: tuple[np.ndarray, np.ndarray] | None = None
    wait: Instruction | None = None

    def split(self, lanes: int) -> _Lanes:
        """Some of these lanes, which are no longer among them."""
        self.lanes &= ~lanes
        return _Lanes(lanes, self.seen, self.done, self.coming, self.wait)

    def learn(self, seen: np.ndarray, done: np.ndarray) -> None:
        """The lanes know this, too."""
        self.seen, self.done = np.maximum(self.seen, seen), self.done | done

    def learn_next(self, seen: np.ndarray, done: np.ndarray) -> None:
        """The lanes learn this after their next fence."""
        before = self.coming or (seen, done)
        self.coming = np.maximum(before[0], seen), before[1] | done

    def knows_as(self, other: _Lanes) -> bool:
        """Do other lanes know the same?"""
        if self.coming is not None or other.coming is not None:
            return False
        return np.array_equal(self.seen, other.seen) and np.array_equal(self.done, other.done)


@dataclasses.dataclass(eq=False)
class _Warp:
    """The knowledge of a warp's lanes since they synchronised last, `met` times. The warp's knowledge when that was
    brought up to date is `seen` and `done`.
    """

    met: int
    seen: np.ndarray
    done: np.ndarray
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


class PartialWaits:
    """The knowledge of lanes, by warp, if some lanes alone have waited."""

    def __init__(
        self, x: Wave, clocks: VectorClocks, operations: Operations, reporting: Reporting, lines: Callable[[], np.ndarray]
    ) -> None:
        self.x, self.clocks, self.operations, self.reporting, self.lines = x, clocks, operations, reporting, lines
        self.waits: dict[int, _Warp] = {}

    def remembered(self) -> list[int]:
        """Holds no operation: a forgotten operation is in no word."""
        return []

    def renumber(self, to: Renumbering) -> None:
        """Operations have new numbers."""
        for own in self.waits.values():
            own.done = to.flags(own.done)
            for some in own.each:
                some.done = to.flags(some.done)
                some.coming = None if some.coming is None else (some.coming[0], to.flags(some.coming[1]))

    def spread(self, first: PartialWaits, twins: Twins) -> None:
        """Those of all CTAs, from those of the first one."""

        def rows(seen: np.ndarray, done: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
            return [(s.copy(), d.copy()) for s, d in zip(twins.clocks(seen), twins.flags(done), strict=True)]

        for warp, own in first.waits.items():
            made = [_Warp(own.met, seen, done, []) for seen, done in rows(own.seen, own.done)]
            for some in own.each:
                each = rows(some.seen, some.done)
                coming = [None] * len(made) if some.coming is None else rows(*some.coming)
                for n, one in enumerate(made):
                    one.each.append(_Lanes(some.lanes, *each[n], coming[n], some.wait))
            self.waits.update({warp + n * twins.warps: one for n, one in enumerate(made)})

    # ---- waits

    def waits_now(self, threads: np.ndarray, met: np.ndarray) -> None:
        """Threads are about to learn what a phase of an mbarrier has released, or that their own copies are complete.
        By warp, `met` is the number of synchronisations of its lanes.
        """
        if not self.waits and are_whole_warps(threads):
            return
        for warp, lanes in by_warps(threads):
            own = self._own(warp, met)
            if own is not None:  # what the warp has learned by other means counts for all of its lanes
                self._bring_up(own, warp, ALL_LANES)
            elif self._alive(warp) & ~lanes:
                seen, done = self.clocks.seen[warp].copy(), self.clocks.done[warp].copy()
                self.waits[warp] = _Warp(int(met[warp]), seen, done, [_Lanes(ALL_LANES, seen.copy(), done.copy())])

    def waited(self, i: Instruction, threads: np.ndarray, what: Any, *, relaxed: bool) -> None:
        """Threads have learned it; `relaxed`: after their next fence."""
        for warp, lanes in by_warps(threads) if self.waits else ():
            own = self.waits.get(warp)
            if own is None:
                continue
            self._learn(own, warp, lanes, self.clocks.closed(what), relaxed=relaxed)
            self._note(own, warp, lanes, i)

    def have_waited(self, i: Instruction, threads: Threads) -> None:
        """Threads know that their copies are complete, which their warp knows now."""
        for warp, lanes in threads if self.waits else ():
            own = self.waits.get(warp)
            if own is not None:
                self._bring_up(own, warp, lanes)
                self._note(own, warp, lanes, i)

    def _note(self, own: _Warp, warp: int, lanes: int, i: Instruction) -> None:
        """Lanes have learned by a wait. Nothing is kept of a warp if all of its lanes know the same."""
        for some in own.of(lanes):
            some.wait = i
        own.merge(self._alive(warp))
        if len(own.each) < 2:
            del self.waits[warp]

    def heard(self, threads: np.ndarray, what: Any) -> None:
        """Threads have read at an address what others have released there."""
        for warp, lanes in by_warps(threads) if self.waits else ():
            if warp in self.waits:
                self._learn(self.waits[warp], warp, lanes, self.clocks.closed(what), relaxed=False, by_all=True)

    def _learn(self, own: _Warp, warp: int, lanes: int, released: Iterable[Rows], *, relaxed: bool, by_all: bool = False) -> None:
        """Lanes of a warp learn what was released, as far as the warp knows it. If not all lanes learn it (`by_all`),
        the new knowledge is theirs alone.
        """
        seen, done = self.clocks.seen[warp], self.clocks.done[warp]
        self._bring_up(own, warp, ALL_LANES if by_all or relaxed else lanes)
        known = [(rows[0], rows[2]) for rows in released]
        for some in own.of(lanes):
            for more_seen, more_done in known:
                if relaxed:
                    some.learn_next(more_seen, more_done)
                else:
                    some.learn(np.minimum(more_seen, seen), more_done & done)

    def _bring_up(self, own: _Warp, warp: int, lanes: int) -> None:
        """These lanes learn what the warp has learned since the last call. Knowledge that fences completed belongs to
        the lanes of the relaxed wait.
        """
        seen, done = self.clocks.seen[warp], self.clocks.done[warp]
        new_seen, new_done = seen > own.seen, done & ~own.done
        if not (new_seen.any() or new_done.any()):
            return
        coming = [some.coming for some in own.each if some.coming is not None]
        for some in own.of(lanes):
            mine_seen, mine_done = new_seen, new_done
            for others in coming:
                if others is not some.coming:
                    known = some.coming or (np.zeros_like(seen), np.zeros_like(done))
                    mine_seen, mine_done = mine_seen & ((others[0] < seen) | (known[0] >= seen)), mine_done & (~others[1] | known[1])
            some.learn(np.where(mine_seen, seen, 0), mine_done)
        own.seen, own.done = seen.copy(), done.copy()
        for some in own.each:
            if some.coming is not None and (some.coming[0] <= seen).all() and not (some.coming[1] & ~done).any():
                some.coming = None

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

    def look(self, i: Instruction, at: np.ndarray, who: np.ndarray, when: np.ndarray, does: str, met: np.ndarray) -> None:
        """The running threads read or overwrite (`does`) words at places `at`, (a thread, a word of it), that `who`
        has written `when`.
        """
        threads = self.x.threads
        for warp in distinct(threads >> 5).tolist():
            own = self._own(warp, met)
            if own is None:
                continue
            self._bring_up(own, warp, ALL_LANES)
            mine = threads >> 5 == warp
            for some in own.each:
                rows = mine & (some.lanes >> (threads % WARP) & 1).astype(bool)
                if rows.any():
                    self._look(i, warp, own, some, at[rows], who[rows], when[rows], does)

    def _look(
        self, i: Instruction, warp: int, own: _Warp, some: _Lanes, at: np.ndarray, who: np.ndarray, when: np.ndarray, does: str
    ) -> None:
        at, who, when = at.reshape(-1), who.reshape(-1), when.reshape(-1)
        by_operation = who >= OPERATIONS
        numbers = np.where(by_operation, who - OPERATIONS, 0)
        of = self.clocks.column(numbers)
        late = by_operation & own.done[of] & ~some.done[of]
        warps = np.where(by_operation | (who < 0), warp, who)
        columns = warps % self.clocks.columns
        late |= (warps != warp) & (own.seen[columns] >= when) & (some.seen[columns] < when)
        if not late.any():
            return
        first = int(np.argmax(late))
        is_copy = bool(by_operation[first])
        knowing = [
            other for other in own.each
            if (other.done[of[first]] if is_copy else other.seen[columns[first]] >= when[first])
        ]  # fmt: skip
        waits = [other.wait for other in knowing if other.wait is not None]
        mine = Access("read" if does == "read" else "write", f"lanes of warp {self.reporting.warp(warp)}", i)
        theirs = self.reporting.written(int(who[first]), int(self.lines()[at[first]]))
        why = f"only {_named(sum(other.lanes for other in knowing))} {f'waited, at {waits[0].at},' if waits else 'knows of it,'} and the lanes have not synchronised since"
        of_copy = races.read_before_arrival if does == "read" else races.overwritten_in_flight
        worded = of_copy if is_copy else races.unordered
        repair = "bar.warp.sync (__syncwarp) after the wait, or let all lanes wait"
        if is_copy and (ignorant := self._ignorant(warp, of[first])):
            why += f"; warp{'s' * (len(ignorant) > 1)} {ranges(ignorant)} {'have' if len(ignorant) > 1 else 'has'} not waited"
            repair = "bar.sync (__syncthreads) after the wait, or let all threads wait"
        self.reporting.find(
            i, at[late & (by_operation == is_copy)], worded(mine, theirs, why=why), repair,
            cause=self.operations[int(numbers[first])].kind if is_copy else "",
        )  # fmt: skip

    def _ignorant(self, warp: int, column: int) -> list[int]:
        """The other running warps of a warp's CTA that do not know an operation to be complete, by their numbers in the
        CTA.
        """
        running, per_cta = distinct(self.x.threads >> 5).tolist(), self.x.stride // WARP
        near = [other for other in running if other // per_cta == warp // per_cta and other != warp]
        return [other % per_cta for other in near if not self.clocks.done[other, column]]


def _named(lanes: int) -> str:
    """Lanes as findings call them."""
    each = [lane for lane in range(WARP) if lanes >> lane & 1]
    if len(each) == 1:
        return f"lane {each[0]}"
    return f"lanes {each[0]} to {each[-1]}" if each and each[-1] - each[0] == len(each) - 1 else "some lanes"
