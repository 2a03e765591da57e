"""The operations of warps on mbarrier objects, and the end of an object (PTX ISA 9.1 §9.7.13.15.9, 9.7.13.15.10; rule
order.mbarrier_lives).

An object ends at mbarrier.inval, at another mbarrier.init, and at a store or a copy over its bytes. Every operation
on it must happen before: operations of threads by order, arrivals of asynchronous operations by a wait for their
phase. This module records, for each object, the last operation of each warp of the cluster, and the last asynchronous
arrival of each line.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.masks import all_set
from smemsim.core.ptx.module import Instruction
from smemsim.run.lower.cfg import leads_past
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.happens_before import Formal, VectorClocks
from smemsim.run.sanitizer.named_barriers import NamedPhases
from smemsim.run.sanitizer.operations import Operation, Operations
from smemsim.run.sanitizer.races import Access
from smemsim.run.sanitizer.reporting import BARRIER, WORD, Reporting
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.views import Mbarrier
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["MbarrierObjects"]


BECAUSE = "PTX ISA 9.1 §9.7.13.15.9, 9.7.13.15.10 (an mbarrier object ends with mbarrier.inval, after its last use)"
WORDS = 2  # of an object
COUNTED = ("arrive", "arrive_drop", "expect_tx", "complete_tx")  # operations of mbarrier that a phase counts
WAITS = -1  # in place of a phase: the operation counts in none


@dataclasses.dataclass(frozen=True)
class _Arrival:
    """The last asynchronous arrival of an instruction: the phase that was open when it was issued, and the operations
    that it comes after.
    """

    instruction: Instruction
    phase: int
    after: tuple[Operation, ...]


class _Object:
    """An mbarrier object.

    For each warp of the cluster from `first` on, `when` and `line` have the clock and the line of its last operation on
    the object, 0 for none. The phase in which the operation counts is `phase`. It is WAITS if the operation does not
    count.
    """

    def __init__(self, barrier: Mbarrier, made: Instruction, first: int, warps: int) -> None:
        self.barrier, self.made, self.first = barrier, made, first
        self.when, self.line, self.phase = np.zeros(warps, np.int32), np.zeros(warps, np.int32), np.full(warps, WAITS, np.int32)
        self.arrivals: dict[int, _Arrival] = {}  # by line


class MbarrierObjects:
    """The mbarrier objects of a wave."""

    def __init__(self, x: Wave, clocks: VectorClocks, operations: Operations, reporting: Reporting, named: NamedPhases) -> None:
        self.x, self.clocks, self.operations, self.reporting, self.named = x, clocks, operations, reporting, named
        self.per_cta = x.stride // WARP
        self._objects: dict[Mbarrier, _Object] = {}
        self._at: dict[int, _Object] = {}  # the last object of each word of `x.shared`
        self._paths: dict[tuple[int, int, str], bool] = {}  # by the ids of two instructions: see `_leads`

    def spread(self, first: MbarrierObjects, twins: Twins) -> None:
        """Those of all CTAs, from those of the first one."""
        for one in first._objects.values():
            for n, own in enumerate(twins.made[one.barrier]):
                twin = _Object(own, one.made, one.first + n * twins.warps, len(one.when))
                twin.when[:], twin.line[:], twin.phase[:] = one.when, one.line, one.phase
                for line, arrival in one.arrivals.items():
                    after = tuple(op for op in arrival.after if self.operations.remembers(op))
                    if after or not arrival.after:
                        twin.arrivals[line] = dataclasses.replace(arrival, after=after)
                self._keep(twin, is_last=self._word(one.barrier) in first._at and first._at[self._word(one.barrier)] is one)

    @staticmethod
    def _word(barrier: Mbarrier) -> int:
        return barrier.place // WORD

    def _keep(self, one: _Object, *, is_last: bool) -> None:
        self._objects[one.barrier] = one
        if is_last:
            word = self._word(one.barrier)
            self._at.update(dict.fromkeys(range(word, word + WORDS), one))

    # ---- what is done with an object

    def makes(self, i: Instruction, barrier: Mbarrier, thread: int) -> None:
        """A thread executes mbarrier.init."""
        warp = thread // WARP
        self._look(i, [self._word(barrier)], np.array([warp]))
        cluster = self.per_cta * self.x.launch.cluster_size
        old = self._at.get(self._word(barrier))
        if old is not None:
            self._objects.pop(old.barrier, None)
        one = _Object(barrier, i, warp // cluster * cluster, cluster)
        self._keep(one, is_last=True)
        self._note(one, i, np.array([warp]))

    def uses(self, i: Instruction, barrier: Mbarrier, warps: np.ndarray) -> None:
        """Warps operate on the object."""
        one = self._objects.get(barrier)
        if one is not None:
            self._note(one, i, warps)

    def _note(self, one: _Object, i: Instruction, warps: np.ndarray) -> None:
        own = warps - one.first
        counts = i.op != "mbarrier" or i.modifiers[0] in COUNTED
        one.when[own], one.line[own], one.phase[own] = self.clocks.clock[warps], i.site, one.barrier.state.phase if counts else WAITS

    def arrives_late(self, i: Instruction, barrier: Mbarrier, after: Sequence[Operation]) -> None:
        """An asynchronous arrival is issued: it comes after these operations."""
        one = self._objects.get(barrier)
        if one is not None:
            one.arrivals[i.site] = _Arrival(i, barrier.state.phase, tuple(after))

    def arrives_before(self, warp: int, line: int, other: int) -> Instruction | None:
        """An arrival of a warp for which another warp has waited, if the access of `line` may follow the arrival before
        the warp waits again. The barrier is an mbarrier, a named barrier, or the barrier of the cluster.
        """
        than = self.reporting.sites.get(line)
        if than is None:
            return None
        for arrival in (*self.named.seen_arrivals(warp, other), *self._cluster_arrivals):
            if self._leads(arrival, than, "waits"):
                return arrival
        for one in self._objects.values():
            own = warp - one.first
            if not 0 <= own < len(one.when) or one.phase[own] == WAITS or one.when[own] > self.clocks.has_seen(other, warp):
                continue
            by = self.reporting.sites.get(int(one.line[own]))
            if by is not None and by.op == "mbarrier" and by.modifiers[0] == "arrive" and self._leads(by, than, "waits"):
                return by
        return None

    def counts_too_few(self, warp: int, other: int) -> str:
        """The fix if mbarrier.init counts fewer arrivals than a round has. A warp has arrived at the mbarrier. Other
        warps that arrive by the same instruction completed its last phase, and a warp has waited for that phase. "" if
        there is no such mbarrier.
        """
        for one in self._objects.values():
            own, state = warp - one.first, one.barrier.state
            if (
                not 0 <= own < len(one.when)
                or not state.arrivals.rounds
                or other not in self.clocks.waited_for(one.barrier, state.phase - 1)
            ):
                continue
            before, now = _warps_of(state.arrivals.rounds[-1]), _warps_of(state.arrivals.now)
            is_split = (
                own in before and not now and state.pending < state.expected
            )  # some of those that arrived at once are counted in the next phase
            is_late = own in now - before and state.expected > 1 and one.line[own] in one.line[sorted(before)]
            if is_split or is_late:
                count = 2 * state.expected - state.pending
                return (
                    f"{count} instead of {state.expected} arrivals in mbarrier.init of {one.made.at}, if one phase is for all {count} "
                    f"({self.x.program.at(int(one.line[own]))}): the phase ended before warp {self.reporting.warp(warp)} arrived"
                )
        return ""

    def arrives_relaxed(self, warp: int, line: int, other: int) -> int:
        """The line of a relaxed arrival of a warp after its access of `line`, without a fence between. Another warp has
        waited for that phase. 0 if there is no such arrival.
        """
        than = self.reporting.sites.get(line)
        if than is None:
            return 0
        for one in self._objects.values():
            own = warp - one.first
            if (
                not 0 <= own < len(one.when)
                or one.phase[own] == WAITS
                or other not in self.clocks.waited_for(one.barrier, int(one.phase[own]))
            ):
                continue
            by = self.reporting.sites.get(int(one.line[own]))
            if by is not None and by.op == "mbarrier" and {"arrive", "relaxed"} <= set(by.modifiers) and self._leads(than, by, "fences"):
                return by.site
        return 0

    def _leads(self, first: Instruction, then: Instruction, past: str) -> bool:
        """Does a path lead from one instruction to another by none of the program's waits, or fences?"""
        key = id(first), id(then), past
        if key not in self._paths:
            self._paths[key] = leads_past(self.x.program, first, then, self._waits if past == "waits" else self._fences)
        return self._paths[key]

    @functools.cached_property
    def _cluster_arrivals(self) -> list[Instruction]:
        """The arrivals of the program at the barrier of the cluster: accesses between one and its wait are not
        ordered by it.
        """
        instructions = (i for block in self.x.program.blocks for i in block.instructions)
        return [i for i in instructions if i.op == "barrier" and i.modifiers[:2] == ("cluster", "arrive")]

    @functools.cached_property
    def _fences(self) -> list[Instruction]:
        """The fences of the program."""
        return [i for block in self.x.program.blocks for i in block.instructions if i.op in ("fence", "membar")]

    @functools.cached_property
    def _waits(self) -> list[Instruction]:
        """The instructions of the program that wait for other threads."""
        return [
            i
            for block in self.x.program.blocks
            for i in block.instructions
            if i.op in ("bar", "barrier") or (i.op == "mbarrier" and i.modifiers[0] in ("try_wait", "test_wait"))
        ]

    # ---- what ends it

    def ends(self, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> None:
        """Threads execute mbarrier.inval."""
        one, warps = self._objects.get(barrier), distinct(threads // WARP)
        if one is not None:
            self._end(i, one, warps)
            self._note(one, i, warps)

    def is_over(self, barrier: Mbarrier, threads: np.ndarray) -> bool:
        """May threads end the object?"""
        one = self._objects.get(barrier)
        return one is None or self._is_over(one, distinct(threads // WARP))

    def _is_over(self, one: _Object, warps: np.ndarray) -> bool:
        return not self._unordered(one, warps, 0)[0].any() and self._pending(one, warps) is None

    def are_over(self, at: np.ndarray, warps: np.ndarray) -> bool:
        """May warps end the objects that lie in words?"""
        pairs = {
            (id(self._at[word]), warp): self._at[word] for word, warp in zip(at.tolist(), warps.tolist(), strict=True) if word in self._at
        }
        return all(self._is_over(one, np.array([warp])) for (_, warp), one in pairs.items())

    def overwritten(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        """Warps, or operations that they issue, write words in which objects lie."""
        for warp in distinct(warps).tolist():
            self._look(i, distinct(at[warps == warp]).tolist(), np.array([warp]))

    def _look(self, i: Instruction, words: list[int], warps: np.ndarray) -> None:
        for one in {id(self._at[word]): self._at[word] for word in words if word in self._at}.values():
            self._end(i, one, warps)

    def _end(self, i: Instruction, one: _Object, warps: np.ndarray) -> None:
        """X008 where warps end an object with which others may still do something; X005 where an arrival may still
        come.
        """
        late, formal = self._unordered(one, warps, i.site if i is one.made else 0)
        if late.any():
            by, other = np.argwhere(late)[0].tolist()
            self._tell(i, one, int(warps[by]), other, formal)
        elif (pending := self._pending(one, warps)) is not None:
            named = self._named(one)
            self.reporting.tell(
                i, races.mbarrier_in_flight(Access("end", f"warp {self.reporting.warp(int(warps[0]))}", i), Access("arrive", "asynchronous arrival", pending), named), f"before {i.at}: mbarrier.try_wait for the phase that the arrival completes", BECAUSE, one.barrier.touched,
            )  # fmt: skip

    def _unordered(self, one: _Object, warps: np.ndarray, but: int) -> tuple[np.ndarray, Formal]:
        """The operations that are not ordered before the end of the object, by the ending threads and by warp of the
        cluster. Operations of line `but` do not count. An operation that counts in a phase is complete for a warp
        that knows the phase is, whatever the arrival releases.
        """
        readers = one.first + np.arange(len(one.when))
        others = (readers != warps[:, None]) & (one.line != but)
        late = others & (one.when > self.clocks.has_seen(warps[:, None], readers))
        for by, reader in np.argwhere(late & (one.phase != WAITS)).tolist():
            others[by, reader] = not self._know(one, warps[by : by + 1], int(one.phase[reader]))
        return self.clocks.missing(lambda order: others & (one.when > order.has_seen(warps[:, None], readers)))

    def _know(self, one: _Object, warps: np.ndarray, phase: int) -> bool:
        """Do all of the warps know that a phase is over: have they waited for it, or synchronised with
        a warp that has?
        """
        known = self.clocks.know_phase(warps, one.barrier, phase)
        for own in (warp - one.first for warp in self.clocks.waited_for(one.barrier, phase)):
            if 0 <= own < len(one.when):  # what is kept for CTAs that do the same has the warps of all
                known |= self.clocks.has_seen(warps, np.int64(one.first + own)) >= one.when[own]
        return all_set(known)

    def _pending(self, one: _Object, warps: np.ndarray) -> Instruction | None:
        """An instruction whose asynchronous arrival, or completion of a copy, warps do not know to have come. An
        operation that is forgotten is over.
        """
        for op, number in self.operations.completing_on(one.barrier):
            if not all_set(self.clocks.done[warps, self.clocks.column(number)]):
                instruction: Instruction = op.instruction
                return instruction
        for arrival in one.arrivals.values():
            if self._know(one, warps, arrival.phase):
                continue
            after = np.array([number for _, number in self.operations.numbered(arrival.after, one.barrier.cta.index)], np.int64)
            if not arrival.after or not self.clocks.done[np.ix_(warps, self.clocks.column(after))].all():
                return arrival.instruction
        return None

    @staticmethod
    def _does(i: Instruction) -> str:
        kinds = {"inval": "invalidates", "init": "initialises again"}
        return kinds.get(i.modifiers[0], "overwrites") if i.op == "mbarrier" else "overwrites"

    def _named(self, one: _Object) -> str:
        return f"{one.barrier.offset:#x} of CTA {one.barrier.cta.number}"

    def _tell(self, i: Instruction, one: _Object, warp: int, other: int, formal: Formal) -> None:
        line = int(one.line[other])
        than = self.reporting.sites.get(line)
        far = (one.first + other) // self.per_cta != warp // self.per_cta
        between = "barrier.cluster.arrive and barrier.cluster.wait of all CTAs of the cluster" if far else BARRIER
        self.reporting.tell(
            i, races.mbarrier_ended(
                Access("write", f"warp {self.reporting.warp(warp)}, which {self._does(i)} it", i), self.reporting.access("use", one.first + other, line), self._named(one),
            ), f"put {between} between the last use and this line", BECAUSE,
            one.barrier.touched, formal=formal, other=than,
        )  # fmt: skip


def _warps_of(threads: set[int]) -> set[int]:
    """The warps of some threads."""
    return {thread // WARP for thread in threads}
