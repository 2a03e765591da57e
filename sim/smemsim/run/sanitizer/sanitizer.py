"""The sanitizer of one wave: it receives events about accesses and synchronisation, and reports what is wrong.

It follows the PTX memory model (PTX ISA 8). A later access of another thread sees a write only if synchronisation is
in between. The asynchronous proxy (TMA, wgmma, tcgen05) also needs a fence.proxy.async on that path. Writes of an
asynchronous operation are seen only after a wait for its completion. Threads of one warp count as ordered.

The sanitizer has one part for each kind of state. It passes each event to the parts that it concerns (`dispatch.py`,
`async_dispatch.py`). Each memory has a table (`..._table.py`), a rule that lists suspects (`..._rule.py`), and findings
(`..._findings.py`).

- The memories are `shared`, `globals` and `tensor` (`shared_memory.py`, `global_memory.py`, `tensor_memory.py`).
- Tensor maps that the kernel makes are `maps` (`tensor_maps.py`).
- Happens-before is `clocks` (`happens_before.py`, `orders.py`).
- Asynchronous operations and commit groups are `operations` and `groups` (`operations.py`, `synchronisation.py`).
- Barriers are `mbarriers` and `named` (`mbarriers.py`, `mbarrier_rules.py`, `named_barriers.py`).
- Registers in flight are `registers` (`registers.py`).
- Orders by weaker accesses alone are `messages` and `unscoped` (`messages.py`, `unscoped_arrivals.py`).
- Checks at the end of a CTA or of the wave are `at_end` (`lifetimes.py`, `pairs.py`).
- The last synchronisation of a warp's lanes is `lanes` (`lanes.py`).
- Actions of some lanes without the others are `apart` (`partial_waits.py`, `release_missing_writes.py`,
  `release_missing_reads.py`).
- Updates that lanes lose are `lost` (`lost_updates.py`).
- Uninitialised values, up to their use, are `taint` and `early` (`taint.py`, `uninitialised_reads.py`).
- Findings, and the names in them, are `reporting` (`reporting.py`, `races.py`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.masks import all_set
from smemsim.core.ptx.module import Instruction
from smemsim.run.checks import Wanted
from smemsim.run.events import Observer
from smemsim.run.following import WHOLE
from smemsim.run.marks import MANY, PART_BITS
from smemsim.run.sanitizer import shared_loops
from smemsim.run.sanitizer.across_waves import ACROSS_WAVES
from smemsim.run.sanitizer.clock_loops import all_threads_meet
from smemsim.run.sanitizer.dispatch import Events
from smemsim.run.sanitizer.epochs import LAST, STEP
from smemsim.run.sanitizer.folding import Folding, Knowledge
from smemsim.run.sanitizer.global_memory import GlobalShadow, GlobalsOfFirst
from smemsim.run.sanitizer.global_rule import is_for_shared
from smemsim.run.sanitizer.global_table import GlobalTable
from smemsim.run.sanitizer.history import History
from smemsim.run.sanitizer.lanes import Lanes
from smemsim.run.sanitizer.lifetimes import Endings, Lifetimes
from smemsim.run.sanitizer.lost_updates import LostUpdates
from smemsim.run.sanitizer.mbarrier_rules import MbarrierRules
from smemsim.run.sanitizer.messages import Messages
from smemsim.run.sanitizer.named_barriers import NamedPhases
from smemsim.run.sanitizer.operations import MATRIX, NOBODY, OPERATIONS, Operation, Operations
from smemsim.run.sanitizer.orders import clocks_of
from smemsim.run.sanitizer.pairs import PairAllocations
from smemsim.run.sanitizer.partial_waits import PartialWaits
from smemsim.run.sanitizer.phases import Alike, count_of
from smemsim.run.sanitizer.registers import RegistersInFlight
from smemsim.run.sanitizer.release_missing_reads import ReleaseMissingReads
from smemsim.run.sanitizer.release_missing_writes import ReleaseMissingWrites, unmet_stores
from smemsim.run.sanitizer.reporting import WORD, Reporting
from smemsim.run.sanitizer.shared_memory import SharedShadow
from smemsim.run.sanitizer.shared_rule import WordAccess
from smemsim.run.sanitizer.synchronisation import CommitGroups, by_warps
from smemsim.run.sanitizer.taint import Taint
from smemsim.run.sanitizer.tensor_maps import MapsInMemory
from smemsim.run.sanitizer.tensor_memory import TensorShadow
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.sanitizer.uninitialised_reads import UninitialisedReads
from smemsim.run.sanitizer.unread_copies import has_copies, words_of_copies
from smemsim.run.sanitizer.unscoped_arrivals import UnscopedArrivals
from smemsim.run.scopes import CTA, GPU, UNWRITTEN
from smemsim.run.views import Mbarrier, current
from smemsim.run.warps import ALL, EXITED, WARP, warps_of
from smemsim.run.word_ranges import WordRanges

if TYPE_CHECKING:
    from smemsim.run.accesses import Piece, Values
    from smemsim.run.lower.program import Block
    from smemsim.run.views import Cta, Wave

__all__ = ["AtEnd", "Begin", "LanesApart", "Sanitizer"]


COPIES = 16  # operations of an mbarrier, after so many more of which it is looked which are still remembered
ASYNCHRONOUS = ("cp", *MATRIX)
_Early: TypeAlias = tuple[Instruction, int, Mbarrier, int]
_NO_WARPS = np.zeros(0, np.int64)


@dataclasses.dataclass(frozen=True)
class Begin:
    """The start of a sanitizer: the `number` of the wave in its launch, and that of its first warp in global memory's
    tables. For a part of another sanitizer (`first.py`) also the follower of values, the room for operations of each
    unit, and the number of `warps`.
    """

    number: int
    entered: int
    taint: Taint | None = None
    room: int = 0
    warps: int = 0


class LanesApart(NamedTuple):
    """Actions of some lanes of a warp without the others: waits, and releases. The writes and the reads of the other
    lanes are no part of them.
    """

    partial_waits: PartialWaits
    missing_writes: ReleaseMissingWrites
    missing_reads: ReleaseMissingReads


class AtEnd(NamedTuple):
    """Conditions at an end: accesses of CTAs of a cluster, operations in flight and allocations of CTA pairs must be
    over.
    """

    lifetimes: Lifetimes
    in_flight: Endings
    pairs: PairAllocations


class Sanitizer(Events, Observer):
    """The sanitizer of one wave. Every method is called for the threads that run (`x.threads`) unless it names
    others.
    """

    is_of_first = False  # see `first.py`

    def __init__(self, x: Wave, history: History | None = None, begin: Begin | None = None) -> None:
        self.x = x
        for loop in shared_loops.OF_OPERATIONS if not x.program.uses.isdisjoint(ASYNCHRONOUS) else ():
            loop.ready()
        if begin is None:
            number = ACROSS_WAVES(x.launch).begins()
            begin = Begin(number, 0 if history is None else history.enters(x, number))
        self.clocks = clocks_of(x, begin.number, begin.room)
        clocks = self.clocks
        self.operations = Operations(x, clocks.clock, clocks.ops.units, clocks.ops.own, are_shared=clocks.ops.are_shared)
        self.reporting = Reporting(x, self.clocks, self.operations)
        self.groups = CommitGroups(self.clocks, self.operations, x.cohort)
        self.reporting.groups = self.groups
        self.lanes, self.named = Lanes(x, begin.warps, follows=unmet_stores(x.program)), NamedPhases(x, self.clocks, self.reporting)
        self.mbarriers = MbarrierRules(x, self.clocks, self.operations, self.reporting, self.named)
        knowledge = Knowledge(x, self.clocks) if Folding.is_possible(x) else None
        self.shared = SharedShadow(x, self.clocks, self.operations, self.reporting, self.lanes, self.mbarriers.objects, knowledge)
        self.early = UninitialisedReads(x, self.reporting, self.shared.table)
        self.taint = begin.taint or Taint(x, self.shared.table.blank_bytes, self.early.is_used)
        self.tensor = TensorShadow(x, self.clocks, self.operations, self.reporting, self.taint, knowledge)
        self.registers = RegistersInFlight(x, self.groups, self.operations)
        lifetimes = Lifetimes(x, self.clocks)
        self.at_end = AtEnd(
            lifetimes,
            Endings(x, self.clocks, self.operations, self.groups),
            PairAllocations(x, self.tensor, lifetimes, self.reporting),
        )
        self.globals = (
            None
            if history is None
            else GlobalShadow(x, self.clocks, self.operations, self.reporting, history, self.taint, begin.entered, self._open_cp_async)
        )
        # the knowledge of writes by operations without a wait
        self.writes: GlobalTable | GlobalsOfFirst | None = None if self.globals is None else self.globals.table
        self.apart = LanesApart(
            PartialWaits(x, self.clocks, self.operations, self.reporting, self.shared.table),
            ReleaseMissingWrites(x, self.clocks, self.lanes, self.reporting, self._name_in_global),
            ReleaseMissingReads(x, self.clocks, self.lanes, self.reporting, self.shared.table),
        )
        self.messages = Messages(x, self.clocks, self.reporting) if self.clocks.orders.loose is not None else None
        self.unscoped = (
            UnscopedArrivals(x, self.clocks, self.operations, self.reporting, self.shared.table) if UnscopedArrivals.may_matter(x) else None
        )
        self.lost = LostUpdates(x, self.reporting, self._name_in_global)
        self.maps = None if self.globals is None else MapsInMemory(self.clocks, self.operations, self.reporting, self.globals)
        self.operations.holders += [
            *filter(None, (knowledge,)),
            self.apart.partial_waits,
            self.clocks,
            self.groups,
            self.shared.table,
            self.tensor.table,
            self.registers,
        ]
        if self.globals is not None and self.maps is not None:
            self.operations.holders += [self.globals, self.maps]
        has_matrix = not x.program.uses.isdisjoint(MATRIX)
        self.wants = Wanted.by(x, history is not None, operands=x.launch.checks_operands and has_matrix, registers=has_matrix)

    def spread(self, first: Sanitizer, twins: Twins, brought: dict[int, list[Any]]) -> None:
        """The state of all CTAs, from that of the first one without a report. `brought` has, by warp, what the phases
        brought to each CTA that it waited for last.
        """
        self.operations.spread(first.operations)
        for kept_once in ("groups", "registers", "tensor"):
            getattr(self, kept_once).spread(getattr(first, kept_once))
        for part in ("clocks", "mbarriers", "lanes"):
            getattr(self, part).spread(getattr(first, part), twins)
        self.shared.table.spread(first.shared.table, twins)
        self.apart.partial_waits.spread(first.apart.partial_waits, twins)
        self.reporting.spread(first.reporting, twins, brought)
        for barrier, of_all in twins.made.items():
            kept = [op for op in barrier.operations if self.operations.remembers(op)]
            for own in of_all:
                own.operations = list(kept)

    # ---- the end

    def wave_hung(self, x: Wave) -> None:
        """Nothing can continue: uninitialised reads were meant to wait for loads that are still to come."""
        self.wave_stopped(x)
        self.early.nothing_came()

    def wave_stopped(self, x: Wave) -> None:
        """The kernel ends before its values could be used: report what spoiled a whole product."""
        self.taint.origins.abandon()
        self.taint.overwrites.ended()

    def ends_in_order(self, cta: Cta) -> bool:
        """All threads have exited: is there nothing to report for a wave of this CTA alone?"""
        taint = self.taint
        if (
            self.at_end.lifetimes.is_needed
            or self.mbarriers.are_needed
            or taint.overwrites.is_open
            or taint.origins.are_whole
            or self.registers.is_lost
        ):
            return False
        return self.at_end.in_flight.are_over(cta)

    def wave_ended(self, x: Wave) -> None:
        """All threads have exited."""
        if has_copies(x):
            x.launch.result.copied_words.merge(words_of_copies(x, self.shared.table, self.operations))
        self.registers.ended()
        self.at_end.lifetimes.ended()
        self.taint.overwrites.ended()  # before what is silent if a missing wait is reported
        self.at_end.in_flight.ended()
        self.taint.origins.abandon(self._is_race)
        self.mbarriers.ended()

    def wave_freed(self, x: Wave) -> None:
        """The wave is over: the parts know each other no more, so that their tables are freed."""
        self.operations.holders.clear()
        self.shared.table.by_epochs = None
        self.operations.operations.clear()
        vars(self).clear()

    def _is_race(self, key: Any) -> bool:
        """Does a taint mean that a read comes too early? A whole operand is never multiplied in vain. Bytes that are
        never written matter only if they are used.
        """
        late = {"shared": self.early.late, "tensor": self.tensor.late}.get(key[0])
        return late is None or key[1] in late

    # ---- ordinary accesses of shared memory

    def read(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> None:
        """The running threads read `size` bytes at places `flat` (n,) of `x.shared`."""
        self._reach(x, i, flat)
        self._alone(i, flat, size, "read")
        if self.unscoped is not None and self.unscoped.looks_at_loads:
            self.unscoped.read(i, *self.shared.table.places(flat, size))
        if self.taint.shared is None and self.shared.passes_read(i, flat, size, stops_at_operations=self.wants.operands):
            return
        at, warps = self.shared.table.places(flat, size)
        who = self.shared.read(i, at, warps, flat, size)
        blank = self.shared.table.blank_of(at, flat, size, who)
        nobody = blank != 0
        if nobody.any():
            self.early.note(i, at[nobody], self._running(x), blank[nobody])
        if self.taint.shared is not None or nobody.any():
            self._doubtful(x, i, at, flat, size)
        self._elsewhere(who)

    def follows_values(self) -> bool:
        """Must the sanitizer check each access of shared memory for more than its order?"""
        if (
            self.at_end.lifetimes.is_needed
            or self.apart.missing_reads.ticks
            or (self.unscoped is not None and self.unscoped.looks_at_loads)
        ):
            return True
        return self.taint.shared is not None or self.apart.partial_waits.concerns(self.lanes.meetings)

    def passes_read(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> bool:
        """Is a read unsuspicious, and completely recorded? Else `read` must be called, and nothing has
        been recorded.
        """
        if self.follows_values():
            return False
        return self.shared.passes_read(i, flat, size, stops_at_operations=self.wants.operands)

    def passes_write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> bool:
        """The same of a write that no two threads make at one place."""
        if self.follows_values():
            return False
        return self.shared.passes_write_apart(i, flat, size)

    def strong_read(self, x: Wave, i: Instruction, flat: np.ndarray, size: int, scope: int = GPU) -> None:
        """The running threads read by relaxed, acquire or volatile loads: no race with strong stores and atomics, but
        with plain stores and operations in flight.
        """
        self._reach(x, i, flat)
        self._alone(i, flat, size, "read", is_strong=True)
        at, warps = self.shared.table.places(flat, size)
        blank = self.shared.table.blank_of(at, flat, size)
        nobody = blank != 0
        self.shared.strong_read(i, at, warps, flat, size, scope)
        if nobody.any():
            self.early.note(i, at[nobody], self._running(x), blank[nobody])
        if i.op == "ld" and (self.taint.shared is not None or nobody.any()):
            self._doubtful(x, i, at, flat, size)

    def write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int, values: Values | None = None) -> None:
        """The running threads have written `size` bytes at places `flat` (n,) of `x.shared`.

        With `values`, a write of the bytes that are already there does not race.
        """
        self._reach(x, i, flat)
        self._alone(i, flat, size, "write", values=values)
        if self.taint.shared is not None:
            self.taint.shared.clear(flat, size)
        if self.apart.missing_reads.ticks:
            self.apart.missing_reads.look(i, *self.shared.table.places(flat, size))
        if not self.shared.passes_write(i, flat, size, values):
            self.shared.write(i, *self.shared.table.places(flat, size), flat, size, values)

    def strong_write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int, *, changed: bool = True, scope: int = GPU) -> None:
        """The running threads write by atomic, relaxed, release or volatile operations, which make no race among
        themselves.

        Atomics that left everything as it was (`changed` False) have only looked.
        """
        self._reach(x, i, flat)
        self._alone(i, flat, size, "write" if changed else "read", is_strong=True)
        is_whole = i.op == "st" or "exch" in i.modifiers  # what lay there before matters no more
        if self.taint.shared is not None and is_whole:
            self.taint.shared.clear(flat, size)
        at, warps = self.shared.table.places(flat, size)
        if changed and self.apart.missing_reads.ticks:
            self.apart.missing_reads.look(i, at, warps)
        blank = at[:0] if is_whole else at[self.shared.table.blank_of(at, flat, size) != 0]
        if size < WORD:
            self.shared.table.fill_part(at, flat, size)
        self.shared.strong_write(i, at, warps, flat, size, changed=changed, scope=scope)
        self.changed_nothing(x, i, blank)

    def takes(self, x: Wave, i: Instruction, piece: Piece, size: int) -> None:
        """The running threads are about to exchange words: of those at one place the first one gets the old value."""
        if piece.space == "global":
            marks = None if self.globals is None else self.globals.marks.finds(i, piece, size)
        else:
            marks = self._finds(x, i, piece.at, size) if piece.space == "shared" else None
        if marks is not None:
            is_first = np.zeros(len(marks), bool)
            is_first[np.unique(piece.at, return_index=True)[1]] = True
            self.taint.loads(x.threads[is_first], marks[is_first], size)

    def _finds(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> np.ndarray | None:
        """The marks of the bytes at places `flat` of `x.shared` (n, of each); None where none is in doubt."""
        at, _ = self.shared.table.places(flat, size)
        blank = at[self.shared.table.blank_of(at, flat, size) != 0]
        if blank.size:
            self.early.note(i, blank, self._running(x))
        elif self.taint.shared is None:
            return None
        return self.taint.of_access(i, flat, size)

    def blank(self, flat: np.ndarray, size: int) -> np.ndarray:
        """The uninitialised words at places `flat` of `x.shared`."""
        at, _ = self.shared.table.places(flat, size)
        blank: np.ndarray = at[self.shared.table.blank_of(at, flat, size) != 0]
        return blank

    def looks_at_unwritten(self, flat: np.ndarray, size: int) -> None:
        """Remember the uninitialised words at places `flat`, for red.async that is about to change them."""
        self.early.to_change = self.blank(flat, size)

    def changed_nothing(self, x: Wave, i: Instruction, blank: np.ndarray) -> None:
        """The running threads have changed uninitialised words by an operation: they stay uninitialised."""
        if blank.size:
            self.early.note(i, blank, self._running(x))
            self.taint.put_words(blank, np.full(len(blank), self.taint.nobody(i), np.int32))

    def initialised(self, x: Wave, i: Instruction, flat: np.ndarray) -> None:
        """The running threads have made mbarrier objects at places `flat` of `x.shared`; what is done with these is
        no access of threads.
        """
        self.shared.initialised(i, *self.shared.table.places(flat, 2 * WORD), flat)

    def last_writer(self, word: int) -> Instruction | None:
        """The last writer of a word of `x.shared`."""
        return self.shared.table.last_writer(word)

    def are_unwritten(self, cells: np.ndarray) -> np.ndarray:
        """Which cells of tensor memory, by their place among all, has no instruction written, or hold uninitialised
        bytes?
        """
        found: np.ndarray = self.tensor.are_unwritten(cells) | self.tensor.are_marked(cells)
        return found

    def _alone(
        self, i: Instruction, flat: np.ndarray, size: int, does: Literal["read", "write"], *, values: Values | None = None,
        is_strong: bool = False,
    ) -> None:  # fmt: skip
        """Do lanes touch words that only other lanes of their warp have waited for?"""
        partial = self.apart.partial_waits
        if not partial.waits or not partial.concerns(self.lanes.meetings):
            return
        at, warps = self.shared.table.places(flat, size)
        lanes = np.repeat(self.x.threads % WARP, max(1, size // WORD))
        a = WordAccess(i, at, warps, does, bits=self.shared.table.parts.bits(flat, size) if size < WORD else None)
        partial.look(a, lanes, self.lanes.meetings, stays=None if values is None else values.lay_there, is_strong=is_strong)

    def _are_behind(self, ops: Sequence[Operation]) -> bool:
        """Is one of operations issued by a lane that has not waited for what others of its warp have?"""
        partial = self.apart.partial_waits
        if not partial.waits:
            return False
        each = (one for op in ops if len(op.warps) == 1 for one in ([op] if op.cohort is None else self.operations.each([op])))
        return any(partial.is_behind(int(op.warps[0]), 1 << op.lane, self.lanes.meetings) for op in each)

    def _lane_of_op(self, op: Operation, at: np.ndarray, does: Literal["read", "write"]) -> None:
        """The same of words that an operation touches, issued by one lane."""
        if at.size and self._are_behind([op]):
            a = WordAccess(op.instruction, at, np.broadcast_to(op.warps[:1], at.shape), does)
            self.apart.partial_waits.look(a, np.full(len(at), op.lane), self.lanes.meetings, by=op)

    def _name_in_global(self, i: Instruction, memory: np.ndarray, at: int) -> str:
        return "global memory" if self.globals is None else self.globals.name(i, memory, at)

    def _running(self, x: Wave) -> np.ndarray:
        return distinct(x.threads >> 5)

    def _reach(self, x: Wave, i: Instruction, flat: np.ndarray) -> None:
        if self.at_end.lifetimes.is_needed:
            self.at_end.lifetimes.touch(i, flat // x.pitch, x.threads >> 5)

    def _elsewhere(self, who: np.ndarray) -> None:
        """Note for the operand check the operations `who` whose bytes are read by others than matrix instructions."""
        if self.wants.operands and (by := who[who >= OPERATIONS]).size:
            self.operations.read_elsewhere(distinct(by - OPERATIONS).tolist())

    def _doubtful(self, x: Wave, i: Instruction, at: np.ndarray, flat: np.ndarray, size: int) -> None:
        """The running threads read words of which some have a value that is in doubt, or none."""
        if i.op in ("ld", "wmma"):
            marks = self.taint.of_access(i, flat, size)
            if marks.any():
                self.taint.loads(x.threads, marks, size)
        elif i.op == "ldmatrix":
            self.taint.matrix_is_unwritten = True
        elif self.taint.shared is not None:
            self.taint.origins.tell(i, self.taint.shared.of(flat, size))

    # ---- asynchronous operations

    def begin(self, x: Wave, i: Instruction, thread: int, kind: str) -> Operation:
        """An asynchronous operation of a kind (`AsyncOp.kind`) that a thread issues. Returns its handle."""
        return self.operations.begin(i, thread, kind)

    def begin_together(self, i: Instruction, threads: Sequence[int], kind: str, *what: Sequence[Any]) -> list[Operation]:
        """Asynchronous operations of one instruction, each issued by a thread, or by the warpgroup whose first it is.
        Where CTAs do the same (`first.py`) these are those of the first one; `what` has an entry for each, by which
        they differ.
        """
        cohort = self.x.cohort
        return self.operations.begin_together(
            i, threads, kind, 0 if cohort is None or not cohort.is_apart else cohort.own_count(threads, *what)
        )

    def begin_alike(self, i: Instruction, threads: Sequence[int], kind: str, own: int) -> list[Operation]:
        """`begin_together` of threads of which each CTA has the same ones, to do the same: the first CTA has `own`; 0
        where that is not so.
        """
        return self.operations.begin_together(i, threads, kind, 0 if self.x.cohort is None or not self.x.cohort.is_apart else own)

    def of_all_ctas(self, ops: Sequence[Operation]) -> Sequence[Operation]:
        """The operations of all CTAs, of those that `begin_together` gave."""
        return self.operations.each(ops)

    def of_issuer(self, ops: Sequence[Operation], n: int) -> Operation:
        """The operation of the n-th thread, of those that `begin_together` gave."""
        cta, own = divmod(n, len(ops))
        return ops[own].of(cta)

    def op_reads(self, op: Operation, cta: Cta, offsets: np.ndarray | WordRanges) -> None:
        """An operation reads these bytes of a CTA's window (offsets from the window's begin, one for every 4 bytes is
        enough; or runs of words).
        """
        runs = self.shared.table.of_cta(cta, offsets)
        self.at_end.lifetimes.touch(op.instruction, cta.index, op.warps)
        if self.unscoped is not None:
            self.unscoped.read(op.instruction, runs.words, op.warps[:1])
        if self.apart.missing_writes.is_exposed(self.x.shared):
            self.apart.missing_writes.op_reads(op, self.x.shared, runs.words)
        if self.apart.partial_waits.waits:
            self._lane_of_op(op, runs.words, "read")
        is_elsewhere = self._notes_reads_of(op)
        is_ordered = not self.shared.table.has_holes(runs) and self.shared.passes_op_read(op, runs, stops_at_operations=is_elsewhere)
        if is_ordered and not self._follows(op):
            return
        at = runs.words
        nobody = np.zeros(len(at), bool)
        if not is_ordered:
            who = self.shared.op_reads(op, at)
            blank = np.where(who == NOBODY, np.uint8(WHOLE), self.shared.table.blank_bytes(at))
            nobody = blank != 0
            if nobody.any():
                padding = self._padding(op.instruction, at[nobody])
                self.early.note(op.instruction, at[nobody], self._running(self.x), blank[nobody], padding)
            if is_elsewhere:
                self._elsewhere(who)
        if op.products:
            op.products[-1].read(at, nobody)
        elif self.taint.shared is not None:
            self.taint.origins.tell(op.instruction, self.taint.shared.of_words(at))

    def _padding(self, i: Instruction, words: np.ndarray) -> np.ndarray | int:
        """Which bytes of words, as bits, are padding of rows that a copy to global memory leaves where it is? The boxes
        of tensor copies have none: their rows follow one another.
        """
        if i.op != "cp" or i.modifiers[:2] != ("async", "bulk") or "global" not in i.modifiers or "tensor" in i.modifiers:
            return 0
        return np.packbits(self.taint.gaps(words), axis=-1, bitorder="little")[..., 0]

    def reads_for_all_lanes(self, op: Operation, cta: Cta, offsets: np.ndarray | WordRanges) -> bool:
        """An operation of one lane, reported to `op_reads`, reads the same for each lane of its warp. False: each must
        be reported.
        """
        runs = self.shared.table.of_cta(cta, offsets)
        return (
            not self._follows(op)
            and not self.shared.table.has_holes(runs)
            and not self._are_behind([op])
            and self.shared.passes_op_read(op, runs, stops_at_operations=self._notes_reads_of(op), by_any=True)
        )

    def _follows(self, op: Operation) -> bool:
        """Is there a doubt that what an operation reads could have?"""
        return self.taint.shared is not None or bool(op.products and self.taint.overwrites.probes_of(op.instruction))

    def ops_read(self, ops: Sequence[Operation], ctas: Sequence[Cta], runs: WordRanges) -> bool:
        """Operations of one instruction read the same words of CTAs' windows, without a finding. False: each must be
        reported to `op_reads`.
        """
        if self._follows(ops[0]) or self.apart.missing_writes.is_exposed(self.x.shared) or self.shared.table.parts.has_holes:
            return False
        if self._are_behind(ops):
            return False
        ctas = ctas[: len(ops)]
        if self.unscoped is not None:
            for op, cta in zip(ops, ctas, strict=True):
                self.unscoped.read(op.instruction, self.shared.table.of_cta(cta, runs).words, op.warps[:1])
        if not self.shared.passes_ops_read(ops, ctas, runs, stops_at_operations=self._notes_reads_of(ops[0])):
            return False
        for op, cta in zip(ops, ctas, strict=True) if self.at_end.lifetimes.is_needed else ():
            self.at_end.lifetimes.touch(op.instruction, cta.index, op.warps)
        return True

    def _notes_reads_of(self, op: Operation) -> bool:
        """Is it to be noted what others than matrix instructions read, and this operation is one?"""
        return self.wants.operands and op.kind not in ("wgmma", "tcgen05.mma")

    def op_writes(self, op: Operation, cta: Cta, offsets: np.ndarray | WordRanges, lay_there: np.ndarray | None = None) -> None:
        """An operation writes these bytes of a CTA's window; `lay_there` marks the words that the write leaves
        unchanged.
        """
        runs = self.shared.table.of_cta(cta, offsets)
        self.at_end.lifetimes.touch(op.instruction, cta.index, op.warps)
        op.has_written |= len(runs.begins) * runs.count > 0
        if self.apart.partial_waits.waits:
            self._lane_of_op(op, runs.words if lay_there is None else runs.words[~lay_there], "write")
        if self.apart.missing_reads.ticks:
            self.apart.missing_reads.look(op.instruction, runs.words, np.broadcast_to(op.warps[:1], len(runs.words)))
        self.early.comes(op, runs, functools.partial(self.shared.rule.is_unordered, op))
        if lay_there is not None or not self.shared.passes_op_write(op, runs):
            self.shared.op_writes(op, runs.words, lay_there)
        if self.taint.shared is not None:
            self.taint.shared.clear(runs.words * WORD, WORD)

    def ops_write(self, ops: Sequence[Operation], ctas: Sequence[Cta], runs: WordRanges) -> None:
        """Operations of one instruction write the same words of the windows of CTAs of their own."""
        if not self.passes_ops_write(ops, ctas, runs):
            for op in ops:  # an mbarrier has the one that stands for those of all CTAs
                op.has_written |= len(runs.begins) * runs.count > 0
            for op, cta in zip(self.operations.each(ops), ctas, strict=True):
                self.op_writes(op, cta, runs)

    def passes_ops_write(self, ops: Sequence[Operation], ctas: Sequence[Cta], runs: WordRanges) -> bool:
        """Are such writes unsuspicious, and all of them recorded? Else each must be handled alone."""
        if self.early.has_read or self.apart.missing_reads.ticks or self.taint.shared is not None or self._are_behind(ops):
            return False
        ctas = ctas[: len(ops)]
        for op in ops:  # before those of other CTAs are made of them
            op.has_written |= len(runs.begins) * runs.count > 0
        if not self.shared.passes_ops_write(ops, ctas, runs):
            return False
        for op, cta in zip(ops, ctas, strict=True):
            self.at_end.lifetimes.touch(op.instruction, cta.index, op.warps)
        return True

    def reads_what_changes(self, address: int) -> bool:
        """Is there anything to report for an operation that reads the array of a global address?"""
        return self.globals is not None and self.globals.history.changes(address)

    def op_reads_global(self, op: Operation, addresses: np.ndarray, size: int) -> None:
        """An operation reads `size` bytes of global memory at each of these addresses, through the
        asynchronous proxy.
        """
        if self.globals is not None:
            self.globals.op_reads(op, addresses, size)

    def op_brings(self, op: Operation, cta: Cta, addresses: np.ndarray, size: int, places: np.ndarray) -> None:
        """The bytes that an operation has written in a CTA's window come from these global addresses, `size` bytes at
        each. `places` (n, words) are offsets in the window.
        """
        marks = None if self.globals is None else self.globals.marks.brought(op.instruction, addresses, size)
        if marks is not None:
            flat = places.reshape(-1) + cta.index * self.x.pitch
            if size < WORD:
                self.taint.put_stored(flat, size, marks)
                return
            if size != places.shape[1] * WORD:  # packed elements, which get bytes of their own
                marks = np.repeat(self.taint.origins.all(marks, axis=1)[:, None], places.shape[1] * WORD, axis=1)
            self.taint.put_words(flat // WORD, marks.reshape(-1, WORD))

    def op_writes_global(
        self, op: Operation, cta: Cta, addresses: np.ndarray, size: int, stays: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> None:
        """An operation that a CTA has issued is about to write so; `stays` says of addresses of bytes which of them
        hold what it writes.
        """
        if self.globals is not None:
            self.globals.op_writes(op, addresses, size, stays)

    def map_used(self, x: Wave, i: Instruction, thread: int, address: int, size: int) -> None:
        """A thread issues a transfer with the tensor map at an address."""
        if self.maps is not None:
            self.maps.used(i, thread, address, size)

    def copy(self, x: Wave, i: Instruction, flat: np.ndarray, size: int, values: Values) -> None:
        """cp.async: as `op_writes` for the running threads; what a warp copies before it commits is one operation."""
        numbers = self._numbers_of_copies(x, i)
        self._reach(x, i, flat)
        self._alone(i, flat, size, "write", values=values)
        if self.apart.missing_reads.ticks:
            self.apart.missing_reads.look(i, *self.shared.table.places(flat, size))
        if not self.shared.passes_copy(i, flat, size, numbers, values):
            self.shared.copy(i, *self.shared.table.places(flat, size), numbers, values)
        if self.taint.shared is not None:
            self.taint.shared.clear(flat, size)
        self.taint.copied(x.threads, flat)

    def passes_copy(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> bool:
        """Is a copy unsuspicious, without two different copies at one place, and completely recorded? Else `copy` must
        be called.
        """
        if self.follows_values():
            return False
        return self.shared.passes_copy(i, flat, size, self._numbers_of_copies(x, i), None)

    def _numbers_of_copies(self, x: Wave, i: Instruction) -> np.ndarray:
        """The numbers of the operations, by their warps, that the running threads copy by."""
        copies = self._open_cp_async(i)
        numbers = np.zeros(x.total // WARP, np.int32)
        numbers[list(copies)] = [operation.number for operation in copies.values()]
        return numbers

    def _open_cp_async(self, i: Instruction) -> dict[int, Operation]:
        """The operations, by their warps, that the running threads copy by."""
        x, copies = self.x, self.groups.open_cp_async
        for warp, lanes in by_warps(x.threads):
            operation = copies.get(warp)
            if operation is None:
                copies[warp] = operation = self.begin(x, i, warp * WARP, "cp.async")
            if lanes & ~operation.groups.lanes:
                self.groups.joins([operation], "cp.async", lanes & ~operation.groups.lanes)
        return copies

    def allocated(self, x: Wave, i: Instruction, flat: np.ndarray) -> None:
        """tcgen05.alloc of the running warps writes words at `flat` of `x.shared`. They are visible after a barrier;
        proxies do not matter.

        Triton lets TMA overwrite the word without fence.proxy.async.
        """
        starts = np.flatnonzero(np.diff(x.threads // WARP, prepend=-1))
        threads = x.threads[starts]
        ctas = [x.ctas[cta] for cta in x.cta_of[threads].tolist()]
        offsets = (flat[starts] - x.cta_of[threads] * x.pitch).tolist()
        ops = self.begin_together(i, threads.tolist(), "tcgen05.alloc", offsets)
        if len(set(offsets)) == 1 and len({cta.index for cta in ctas}) == len(ctas):
            self.ops_write(ops, ctas, WordRanges.of(np.array(offsets[:1]) // WORD))
        else:
            for op, cta, offset in zip(self.operations.each(ops), ctas, offsets, strict=True):
                self.op_writes(op, cta, np.array([offset]))
        self.clocks.know([(int(op.warps[0]), [op]) for op in ops], ctas=1 if ops[0].cohort is None else self.operations.units)

    # ---- registers

    def accumulate(self, ops: Sequence[Operation], slots: frozenset[int], sums: frozenset[int], goes_on: Sequence[bool]) -> None:
        """Operations (wgmma) hold these registers of their warpgroup until a wait, and leave a sum in those of `sums`.
        The sum continues the present one if it `goes_on`, or starts another. Each operation belongs to the next group
        that its threads commit.
        """
        self.registers.accumulate(ops, slots, sums, goes_on)
        self.groups.joins(ops, "wgmma")

    def adds_to_nothing(self, op: Operation, sums: frozenset[int]) -> bool:
        """Have some of these registers, which get values from wgmma alone, none yet?"""
        return self.registers.adds_to_nothing(op, sums)

    @property
    def held_slots(self) -> int:
        """The registers (a bit set) whose use by a block matters: in flight, or with a sum that nothing has read."""
        return self.registers.in_flight | self.registers.of_sums | self.tensor.table.unwaited.registers

    def names(self, x: Wave, block: Block) -> None:
        """The running threads begin a block, which names registers."""
        if not block.slots & self.held_slots or self.may_wait_in(block):
            return
        if block.slots & self.registers.of_sums:
            self.registers.named(block)
        if block.slots & self.tensor.table.unwaited.registers:
            self.tensor.names(self.tensor.rule.named.first(block))

    def may_wait_in(self, block: Block) -> bool:
        """Does the place matter at which a block names registers in flight?"""
        slots, unwaited = block.slots, self.tensor.table.unwaited.registers
        if slots & self.registers.in_flight and self.registers.touches(block):
            return True
        return bool(slots & unwaited and block.behind & unwaited & ~self.tensor.rule.named.first(block))

    def waits_at(self, x: Wave, i: Instruction) -> None:
        """The running threads come to an instruction of such a block."""
        if i.slot_bits & (self.registers.in_flight | self.registers.of_sums) and i.op != "wgmma":
            self.registers.named_by(i)
        if i.slot_bits & self.tensor.table.unwaited.registers and not self.tensor.rule.named.is_load(i):
            self.tensor.names(i.slot_bits)

    # ---- completion: groups and mbarriers

    def complete_on(self, ops: Sequence[Operation], barriers: Sequence[Mbarrier]) -> None:
        """The current phases of mbarriers each count an operation's completion; the issuing threads must have seen
        its mbarrier.init.
        """
        apart, all_warps = self.x.stride // WARP, []
        for n, barrier in enumerate(barriers):
            op, cta = ops[n % len(ops)], barrier.cta.index
            all_warps.append(op.warps if op.cohort is None else op.warps + cta * apart)
            self.mbarriers.uses(op.instruction, barrier, all_warps[-1])
            if op.source and self.globals is not None:
                self.globals.table.counts(op, barrier)
            barrier.operations.insert(0, op)
            if len(barrier.operations) % COPIES == 0:
                barrier.operations = [other for other in barrier.operations if self.operations.remembers(other, cta)]
        for n, (warps, what) in enumerate(self.clocks.together(all_warps, barriers)):
            self.clocks.brings(ops if isinstance(what, Alike) else [self.of_issuer(ops, n)], warps, what)

    def not_waited_for(self, barrier: Mbarrier, threads: np.ndarray) -> Operation | None:
        """The first operation that completes on an mbarrier, and some of these threads do not know to be over; None
        where they know that all are.
        """
        warps = distinct(threads >> 5)
        return next(
            (
                op
                for op, number in self.operations.completing_on(barrier)
                if not all_set(self.clocks.done[warps, self.clocks.column(number)])
            ),
            None,
        )

    def joins(self, ops: Sequence[Operation], group: str, lanes: int = 0) -> None:
        """Operations each belong to the next group that their thread commits, or that each of these `lanes` (a bit
        set) of its warp does: "bulk" "cp.async" "wgmma".
        """
        self.groups.joins(ops, group, lanes)
        if lanes:
            self.operations.have_lanes(ops)

    def commit(self, x: Wave, i: Instruction, group: str) -> None:
        """The running threads commit their open group."""
        self.groups.commit(self.groups.threads(x, group), group)

    def _part_of_copies(self, op: Operation, lanes: int) -> Operation:
        """The part of an operation of cp.async that some of its lanes have issued, as an operation of its own."""
        part = self.begin(self.x, op.instruction, int(op.warps[0]) * WARP, op.kind)
        part.groups.lanes = part.groups.waited = lanes
        op.groups.lanes &= ~lanes
        self.shared.table.writes_of_copies(op, part, lanes)
        if self.globals is not None:
            self.globals.table.waited_in_part(op)
        return part

    def counted(self, threads: np.ndarray, barrier: Any) -> None:
        """The phase of an mbarrier counts the copies (cp.async) of threads."""
        for op in self.groups.counted(by_warps(threads), barrier, self._part_of_copies):
            if op.source and self.globals is not None:
                self.globals.table.counts(op, barrier)

    def wait(self, x: Wave, i: Instruction, group: str, left: int, *, only_read: bool = False) -> None:
        """The running threads wait until at most `left` of their groups are pending; `only_read`: for what they read
        (`.read`).
        """
        self.reporting.group_waits.update({(warp, group): (i, left) for warp in self._running(x).tolist()})
        threads, is_of_lanes = self.groups.threads(x, group), group in ("cp.async", "bulk") and self.wants.shared
        if is_of_lanes:
            self.apart.partial_waits.waits_now(x.threads, self.lanes.meetings)
        waited, by_all = self.groups.wait(threads, group, left, self._part_of_copies, only_read=only_read), group in self.groups.of_first
        if is_of_lanes:
            self.apart.partial_waits.have_waited(i, x.threads)
        if group == "wgmma":
            self.registers.free(dict(waited), by_all=by_all)
            return
        self.operations.waits.add(group)
        writes = self.writes
        if writes is None or only_read:
            return
        for _, over in waited:
            for operation in self.operations.each(over) if by_all else over:
                writes.waited(operation)

    def waited(self, i: Instruction, waits: Sequence[tuple[np.ndarray, Mbarrier]]) -> None:
        """Threads have found phases of mbarriers over: what these brought is what they expect to read."""
        for threads, barrier in waits:
            if self.clocks.orders.might_be and "cta" in i.modifiers and self.clocks.hears_afar(distinct(threads >> 5), barrier):
                self.reporting.excuses["wait"] = i
            self.reporting.waits.update(dict.fromkeys(warps_of(threads).tolist(), (barrier, i.site, barrier.state.deliveries.last)))

    def waited_for_launch(self, x: Wave, i: Instruction) -> None:
        """griddepcontrol.wait of the running threads."""
        if self.globals is not None and self.globals.before is not None:
            self.globals.before.waited(i, self._running(x))

    def lets_next_begin(self, x: Wave) -> None:
        """griddepcontrol.launch_dependents of the running threads."""
        if self.globals is not None:
            self.globals.lets_next_begin(self._running(x))

    def makes(self, i: Instruction, made: Sequence[tuple[Mbarrier, int]]) -> None:
        """Threads execute mbarrier.init, each of a barrier."""
        for barrier, thread in made:
            self.mbarriers.makes(i, barrier, thread)

    def ends(self, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> None:
        """Threads execute mbarrier.inval."""
        self.mbarriers.objects.ends(i, barrier, threads)

    def publish(self, x: Wave) -> None:
        """fence.mbarrier_init of the running threads."""
        self.mbarriers.initialised.publish(set(self._running(x).tolist()))

    def uses(self, i: Instruction, uses: Sequence[tuple[np.ndarray, Mbarrier]]) -> None:
        """Threads arrive or wait at mbarriers, or issue what arrives there: has each seen mbarrier.init?"""
        for threads, barrier in uses:
            self.mbarriers.uses(i, barrier, threads >> 5)
            if i.op == "tcgen05":
                self.mbarriers.objects.arrives_late(i, barrier, self.tensor.table.committed(int(threads[0])))
            elif i.op == "cp":
                self.mbarriers.objects.arrives_late(i, barrier, self.groups.unfinished(distinct(threads >> 5)))

    def arrive(self, i: Instruction, arrivals: Sequence[tuple[np.ndarray, Mbarrier]]) -> None:
        """Threads are about to arrive at mbarriers."""
        self.mbarriers.arrive(i, [(distinct(threads >> 5), barrier) for threads, barrier in arrivals if barrier.state.phase])
        for threads, barrier in arrivals:
            if len(threads) > barrier.state.pending:
                self.mbarriers.crosses(i, threads, barrier)

    # ---- order

    def release(self, x: Wave, threads: np.ndarray, what: Any) -> None:
        """Threads arrive at a barrier of threads: what they have seen goes into its current phase."""
        warps = distinct(threads >> 5)
        self._releases(threads, relaxed=False)
        self.clocks.hands_on(warps, what)
        self.clocks.release(warps, what)

    def release_at(self, x: Wave, arrivals: Sequence[tuple[np.ndarray, Mbarrier]], *, relaxed: bool, scope: int) -> None:
        """Threads arrive at mbarriers: what they have seen, or had at their last fence, goes into the
        current phases.
        """
        if self.unscoped is not None and scope == UNWRITTEN:
            self.unscoped.arrives(current(x), arrivals)
        for threads, barrier in arrivals:
            if self.clocks.orders.might_be and scope == CTA and (x.cta_of[threads] != barrier.cta.index).any():
                self.reporting.excuses["arrive"] = current(x)
            self._releases(threads, relaxed=relaxed)
        for warps, what in self.clocks.together([warps_of(threads) for threads, _ in arrivals], [barrier for _, barrier in arrivals]):
            self.clocks.release(warps, what, relaxed=relaxed, scope=scope)

    def _releases(self, threads: np.ndarray, *, relaxed: bool) -> None:
        """Threads are about to release, or to fence: do lanes of their warps take no part?"""
        if self.apart.missing_writes.stores:
            self.apart.missing_writes.releases(current(self.x), threads, relaxed=relaxed)
        if len(self.apart.missing_reads.loads):
            self.apart.missing_reads.releases(current(self.x), threads, relaxed=relaxed)

    def release_relaxed(self, x: Wave, i: Instruction, threads: np.ndarray, what: Any) -> None:
        """Threads arrive at a barrier of the cluster by barrier.cluster.arrive.relaxed: findings that depend on that
        alone are milder.
        """
        self.clocks.release_if(distinct(threads >> 5), what)
        self.reporting.excuses["relaxed"] = i

    def stored(self, accesses: Sequence[tuple[np.ndarray, Any]], *, relaxed: bool, replaces: bool, scope: int = GPU) -> None:
        """Threads of the same warps write, each at an address of its own, by operations that others may synchronise
        with; `replaces` says that it was no atomic.
        """
        if self.messages is not None:
            self.messages.stored(current(self.x), accesses)
        for _, what in accesses:
            if not self._is_strong(what):
                self.clocks.weakly_stored(what)
        self._releases(np.concatenate([threads for threads, _ in accesses]), relaxed=relaxed)
        warps = distinct(accesses[0][0] >> 5)
        self.clocks.stored(warps, [what for _, what in accesses], relaxed=relaxed, replaces=replaces, scope=scope)

    def hands_on_at(self, threads: np.ndarray, space: str, memory: int, at: np.ndarray) -> bool:
        """Can a relaxed atomic of threads pass something on? If none of their warps has fenced, and its addresses have
        no history, it synchronises nothing.
        """
        return self.clocks.hands_on_at(distinct(threads >> 5), space, memory, at)

    def loaded(self, accesses: Sequence[tuple[np.ndarray, Any]], *, relaxed: bool, scope: int) -> None:
        """Threads of the same warps have read so by operations that synchronise with the writer, unless that was a
        plain store.
        """
        strong = [(threads, what) for threads, what in accesses if self._is_strong(what)]
        if strong:
            decides = True
            if self.messages is not None:
                self.messages.loaded(i := current(self.x), strong)
                decides = self.messages.decides(i)
            warps, partial = distinct(strong[0][0] >> 5), self.apart.partial_waits
            news: list[tuple[np.ndarray, Any]] = []
            if self.wants.shared and not (relaxed and current(self.x).op == "atom"):  # a counter, most often
                news = [(threads, what) for threads, what in strong if partial.hears(threads, what, relaxed=relaxed, scope=scope)]
            if news:
                partial.waits_now(np.unique(np.concatenate([threads for threads, _ in news])), self.lanes.meetings)
            self.clocks.loaded(warps, [what for _, what in strong], relaxed=relaxed, scope=scope, decides=decides)
            for threads, what in news if partial.waits else ():
                partial.waited(current(self.x), threads, what, relaxed=relaxed)
        self.lanes.learn_each([threads for threads, what in strong if not self._is_own(threads, what)])

    def _is_strong(self, what: Any) -> bool:
        """Does what a strong operation has written lie at an address?"""
        space, _, at = what
        return space != "shared" or bool(self.shared.table.strong[at >> 2]) or self.shared.table.strong_bytes.is_written(at)

    def _is_own(self, threads: np.ndarray, what: Any) -> bool:
        """Is a thread the last writer of the word of shared memory at an address? It learns nothing of others there. An
        atomic operation has read what was there before its own write.
        """
        space, _, at = what
        if space != "shared" or len(threads) != 1 or current(self.x).op in ("atom", "red"):
            return False
        warp, lane = divmod(int(threads[0]), WARP)
        table = self.shared.table
        return int(table.who[at >> 2]) == warp and int(table.mark[at >> 2]) & MANY == lane

    def left(self, x: Wave, threads: slice, what: Any) -> None:
        """Those of the threads whose whole warp has exited count as arrived, and release (rule order.exit)."""
        gone = np.flatnonzero((x.pc[threads] >= EXITED).reshape(-1, WARP).all(axis=1)) + threads.start // WARP
        if gone.size:
            self.clocks.left(gone, what)

    def complete(self, whats: Sequence[Any]) -> None:
        """Phases of barriers are complete. Warps that acquire from now on see what was released into them."""
        for _, what in self.clocks.together([_NO_WARPS] * len(whats), whats):
            self.clocks.complete(what)
        for what in whats:
            self.at_end.lifetimes.complete(what)

    def acquire(self, x: Wave, threads: np.ndarray, what: Any, *, meets: int) -> None:
        """Threads have seen the last complete phase of a barrier of threads: those that have synchronised at one of
        this scope (`meets`) have fenced (rule order.barrier_fences).
        """
        warps = distinct(threads >> 5)
        self.clocks.acquire(warps, what)
        self.lanes.learn(threads)
        self.clocks.takes_over(warps, what)
        self.clocks.fence(warps, acquires=True, releases=False, scope=meets)

    def acquire_at(
        self, i: Instruction, waits: Sequence[tuple[np.ndarray, Mbarrier]], *, relaxed: bool, scope: int, by_parity: bool
    ) -> None:
        """Threads have seen the last complete phases of mbarriers. If the wait was relaxed, it counts from their next
        fence on.
        """
        each = iter(waits)
        for warps, what in self.clocks.together([warps_of(threads) for threads, _ in waits], [barrier for _, barrier in waits]):
            now = list(itertools.islice(each, count_of(what)))
            if self.wants.shared:
                self.apart.partial_waits.waits_now(np.concatenate([threads for threads, _ in now]), self.lanes.meetings)
            self.clocks.acquire(warps, what, relaxed=relaxed, scope=scope, by_parity=by_parity)
            for threads, barrier in now if self.apart.partial_waits.waits else ():
                self.apart.partial_waits.waited(i, threads, barrier, relaxed=relaxed)
            if self.globals is not None:
                self.globals.table.hears(now)
            self.lanes.learn(np.concatenate([threads for threads, _ in now]))
            for _, barrier in now if self.at_end.lifetimes.is_needed else ():
                self.at_end.lifetimes.acquire(barrier, warps)

    def meet(self, x: Wave, ctas: np.ndarray, threads: np.ndarray, *, is_for_all: bool) -> None:
        """Threads of these CTAs (by index) synchronise at a barrier: release, complete and acquire in one.

        At a barrier of all threads, exited ones count as arrived.
        """
        is_everybody, per_cta = len(threads) == x.total, x.stride // WARP
        if is_everybody and x.sel is ALL and self._all_meet(per_cta):
            return
        self.lanes.meet(None if is_everybody and x.sel is ALL else threads)
        if is_everybody:
            everybody = x.alike("warps of CTAs", lambda: np.arange(x.total // WARP).reshape(-1, per_cta))
            present = x.alike("everybody is here", lambda: (np.ones(everybody.shape, bool), np.zeros(everybody.shape, bool)))
            self.clocks.fence(everybody.reshape(-1), acquires=True, releases=False, scope=CTA)
            self.clocks.meet(everybody, *present)
            self.shared.table.epochs.ends(ctas)
            return
        here = np.zeros(x.total // WARP, bool)
        here[threads >> 5] = True
        warps = ctas[:, None] * per_cta + np.arange(per_cta)
        gone = np.asarray((x.pc >= EXITED).reshape(-1, WARP).all(axis=1)) & is_for_all
        self.clocks.fence(warps[here[warps]], acquires=True, releases=False, scope=CTA)
        self.clocks.meet(warps, here[warps], gone[warps])
        self.shared.table.epochs.ends(ctas[(here | gone)[warps].all(axis=1)])

    def _all_meet(self, size: int) -> bool:
        """`meet` of all threads of the wave, whose CTAs have `size` warps. False, and nothing has happened, where
        more is known than clocks of the own CTA.
        """
        clocks, lanes, epochs = self.clocks, self.lanes, self.shared.table.epochs
        if not clocks.is_plain:
            return False
        clocks.changes += 1
        lanes.all_have_met()
        if not all_threads_meet(
            clocks.clock,
            clocks.seen,
            clocks.fenced,
            size,
            clocks.has_fenced,
            lanes.now,
            lanes.meetings,
            1 << PART_BITS,
            epochs.epoch,
            STEP,
            LAST,
        ):
            epochs.forget()
        return True

    def met(self, first: int, count: int) -> None:
        """The warps of a cluster, `count` from `first` on, have all arrived at its barrier."""
        self.mbarriers.initialised.met(set(range(first, first + count)))
        self.at_end.lifetimes.met(first, count)

    def fence_async(self, x: Wave, i: Instruction) -> None:
        """fence.proxy.async: what the running threads have seen is visible to asynchronous operations
        ordered after it.
        """
        warps = self._running(x)
        self.apart.missing_writes.fences_proxy(warps)
        if len(self.apart.missing_reads.loads):
            self.apart.missing_reads.fences_proxy(warps)
        if self.globals is not None and not is_for_shared(i):
            self.globals.rule.fence_async(i, warps)
        self.clocks.fence_proxy(warps)

    def fence_global(self, x: Wave, i: Instruction) -> None:
        """fence.proxy.async.global: what the running threads have seen of global memory is visible to asynchronous
        operations ordered after it.
        """
        if self.globals is not None:
            self.globals.rule.fence_global(i, self._running(x))

    def fence_maps(self, x: Wave, i: Instruction, addresses: np.ndarray | None, scope: int) -> None:
        """fence.proxy.tensormap::generic of the running threads: an acquire of the maps at these addresses, one for
        each thread, or a release.
        """
        self.fence(x, acquires=addresses is not None, releases=addresses is None, scope=scope)
        if self.maps is None:
            return
        if addresses is None:
            for warp in self._running(x).tolist():
                self.maps.releases(i, warp)
            return
        for warp, address in dict.fromkeys(zip((x.threads >> 5).tolist(), addresses.tolist(), strict=True)):
            self.maps.acquires(i, warp, address)

    def fence(self, x: Wave, *, acquires: bool, releases: bool, scope: int = GPU) -> None:
        """A memory fence of the running threads, with which their relaxed accesses order."""
        if releases:
            self._releases(x.threads, relaxed=False)
        self.clocks.fence(self._running(x), acquires=acquires, releases=releases, scope=scope)
        if acquires and self.apart.partial_waits.waits:
            self.apart.partial_waits.fenced(x.threads, self.lanes.meetings)

    def fence_tensor(self, x: Wave, *, acquires: bool, releases: bool) -> None:
        """tcgen05.fence of the running threads."""
        self.clocks.fence_tensor(self._running(x), acquires=acquires, releases=releases)
