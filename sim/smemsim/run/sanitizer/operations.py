"""The asynchronous operations that a wave still remembers, by number (PTX ISA 8). A number is used again when nothing
refers to its operation any more.

Operations are counted within their unit, a CTA or a cluster: number n of unit u is `u * columns + n`. So CTAs of a
cohort have the same numbers except for the unit. Warps record their knowledge of operations by column
(`VectorClocks.column`). If units cannot synchronise with each other, a warp has a column for each operation of its own
unit. Else (`are_shared`) it has one for each operation of the wave, because a release through global memory may show
that another unit's operations are complete.

CTAs that issue the same operation at once have one `Operation`, which stands for all. `Operation.of` makes that of
one CTA on demand.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.async_ops import facts_of
from smemsim.run.following import Tell
from smemsim.run.views import Cta
from smemsim.run.warps import WARP, WARPGROUP

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = [
    "GROUP", "MATRIX", "MBARRIER", "NOBODY", "NO_STREAM", "OPERATIONS", "ROOM", "Operation", "Operations", "Renumbering", "are_warps",
    "columns_of", "width_of",
]  # fmt: skip


MATRIX = ("wgmma", "tcgen05")  # operations of warpgroups and of tensor memory
MBARRIER = -3  # in tables of writers: an mbarrier object is there (`mbarriers.py`)
# in tables of who: warps have their number, asynchronous operations theirs from here on
NOBODY, OPERATIONS = -1, 1 << 20
# Operations of one stream make no race among themselves: red.async, bulk reductions (each element's is atomic), those
# of tcgen05 by their warp. Atomic ones only write.
NO_STREAM, ALL_RED, ALL_REDUCED = 0, -1, -2
_LINES = 1 << 32  # of a chain: the thread and the line
LEAST_ROOM, ROOM, PER_WARP = 1, 256, 16  # operations that there is room for to begin with, at least, and for each warp
GROUP = WARPGROUP // WARP


def are_warps(who: np.ndarray) -> np.ndarray:
    """Which entries of a table of writers are warps?

    >>> are_warps(np.array([MBARRIER, NOBODY, 0, 7, OPERATIONS])).tolist()
    [False, False, True, True, False]
    """
    found: np.ndarray = (who >= 0) & (who < OPERATIONS)
    return found


class Follower(Protocol):
    """Follows the result of an operation, or a part of it, to where it is used."""

    def doubt(self, code: str, places: np.ndarray, tell: Tell) -> None:
        """Something is wrong with words of shared memory that the operation reads, by their places."""

    def read(self, at: np.ndarray, nobody: np.ndarray) -> None:
        """The operation reads these words, of which `nobody` has written some."""

    def overwritten(self, operation: Operation, places: np.ndarray, tell: Tell) -> bool:
        """Words that it may still read are overwritten: can that be reported when its result is used?"""

    def twin(self, cta: Cta) -> Follower:
        """The same follower for another CTA, from that of the first one without a report."""


@dataclasses.dataclass(eq=False, slots=True)
class InGroups:
    """The state of an operation in commit groups: the lanes that issued it, as a bit set, and those of them that have
    waited for it, or for its reads.
    """

    lanes: int = 0
    waited: int = 0
    waited_read: int = 0


@dataclasses.dataclass(eq=False, slots=True)
class InRegisters:
    """The registers of an operation: has it some in flight, those of D, and those to which D was moved before it was
    waited for.
    """

    are_held: bool = False
    results: frozenset[int] = frozenset()
    copies: set[int] = dataclasses.field(default_factory=set)

    def copy(self) -> InRegisters:
        """The same, to be changed by itself."""
        return InRegisters(self.are_held, self.results, set(self.copies))


@dataclasses.dataclass(eq=False, slots=True)
class Operation:
    """An asynchronous operation: its number, kind and place, the warps (for one the lane) that issued it, and its
    products.

    - Its state in commit groups is `groups`, its state in registers is `registers`.
    - The wave's count of blocks at its issue is `since`. The clock of its first warp is `when`.
    - The mbarriers that count a copy are `barriers`: the index of the receiving CTA, then the CTA and the offset of the
      mbarrier.
    - The place in `Numbers.waited` of its reads of global memory is `source`; 0 means that they are not followed.
    - With a `cohort`, the operation stands for that of each CTA. It has the number and the warps of the first one.
    - Operations of single CTAs that have been made are in `members`, by CTA. The CTAs in which it is forgotten are in
      `gone`.
    """

    number: int
    kind: str
    instruction: Instruction
    warps: np.ndarray
    since: int = 0
    when: int = 0
    lane: int = 0
    has_written: bool = False  # bytes of shared memory
    barriers: dict[int, tuple[Cta, int]] = dataclasses.field(default_factory=dict)
    products: list[Follower] = dataclasses.field(default_factory=list)
    groups: InGroups = dataclasses.field(default_factory=InGroups)
    registers: InRegisters = dataclasses.field(default_factory=InRegisters)
    cohort: Operations | None = None
    members: dict[int, Operation] = dataclasses.field(default_factory=dict)
    gone: frozenset[int] = frozenset()
    source: int = 0

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.instruction.name} of {self.instruction.at}"

    def of(self, cta: int) -> Operation:
        """That of a CTA, by its index, of an operation that stands for those of all; one that stands for itself is
        that.
        """
        if self.cohort is None:
            return self
        member = self.members.get(cta)
        if member is None:
            member = self.members[cta] = self.cohort.made(self, cta)
        return member

    def doubt(self, code: str, places: np.ndarray, tell: Callable[[], None]) -> None:
        """Something is wrong with words that it reads: report it at once or, for a product, when the affected part is
        used.
        """
        if self.products:
            self.products[-1].doubt(code, places, lambda user: tell())
        else:
            tell()

    def is_followed(self, places: np.ndarray, tell: Callable[[], None]) -> bool:
        """Words that it may still read are overwritten: will that be reported when its result is used?"""
        followed = [product.overwritten(self, places, lambda user: tell()) for product in self.products]
        return bool(followed) and all(followed)


@dataclasses.dataclass(frozen=True)
class Renumbering:
    """Operations have new numbers: `new` by the old ones; each unit has so many `columns` for them now. In rows of
    flags, of now `width`, column `to[n]` is what column `kept[n]` was.
    """

    new: np.ndarray
    columns: int
    kept: np.ndarray
    to: np.ndarray
    width: int

    def flags(self, rows: np.ndarray) -> np.ndarray:
        """Rows of flags of operations, by their columns."""
        found = np.zeros((*rows.shape[:-1], self.width), bool)
        found[..., self.to] = rows[..., self.kept]
        return found


class Holder(Protocol):
    """Keeps numbers of operations."""

    def remembered(self) -> Iterable[int] | np.ndarray:
        """The numbers that it has."""

    def renumber(self, to: Renumbering) -> None:
        """Operations have new numbers."""


class Operations:
    """Asynchronous operations of a wave by number, `columns` for each unit.

    The flags `generic` and `is_cp_async` say whether it is of the generic proxy, and whether it is a cp.async.
    Operations of one `stream` do not race with each other. Its `chain` has the earlier operations that are complete
    when it is known to be complete (0: no chain). The flag `noted` says that other than matrix instructions read the
    bytes of its line (`elsewhere` of the launch).

    A number is used again when none of the `holders` has it any more.
    """

    def __init__(self, x: Wave, clock: np.ndarray, units: int, columns: int, *, are_shared: bool) -> None:
        self.x, self.clock, self.units, self.are_shared = x, clock, units, are_shared
        self.operations: dict[int, Operation] = {}  # one that stands for all CTAs by the first one's number
        self._warps, self._used = len(clock) // units, [0] * units  # of each unit: its warps, and its columns in use
        self.holders: list[Holder] = []
        self.waits: set[str] = set()  # the kinds of commit groups that threads have waited for
        self._make_room(columns)

    def _make_room(self, columns: int) -> None:
        self.columns, room = columns, self.units * columns
        self._begins = np.arange(self.units)[:, None] * columns  # the first number of each unit
        self.generic, self.is_cp_async, self.noted, self.stream = *(np.zeros(room, bool) for _ in range(3)), np.zeros(room, np.int32)
        self.chain = np.zeros(room, np.int64)

    def __getitem__(self, number: int) -> Operation:
        found = self.operations.get(number)
        if found is not None and found.cohort is None:
            return found
        unit, own = divmod(number, self.columns)
        return self.operations[own].of(unit)

    def made(self, op: Operation, cta: int) -> Operation:
        """That of a CTA, of one that stands for those of all."""
        its, warps = self.x.ctas[cta], _numbers(int(op.warps[0]) + cta * self._warps, len(op.warps))
        barriers = {cta: (its, next(iter(op.barriers.values()))[1])} if op.barriers else {}
        products = [product.twin(its) for product in op.products]
        number = op.number + cta * self.columns
        groups = dataclasses.replace(op.groups)  # each CTA waits by itself from now on
        return Operation(  # until `RegistersInFlight` tells the CTAs apart they have one state in registers
            number, op.kind, op.instruction, warps, op.since, op.when, op.lane, op.has_written, barriers, products, groups, op.registers
        )

    def each(self, ops: Sequence[Operation]) -> list[Operation]:
        """Those of all CTAs, one CTA after the other, of some that stand for them."""
        if not ops or ops[0].cohort is None:
            return list(ops)
        return [op.of(cta) for cta in range(self.units) for op in ops]

    def numbers(self, ops: Iterable[Operation]) -> list[int]:
        """The numbers of operations, in each CTA of those that stand for all."""
        return [op.number + cta * self.columns for op in ops for cta in range(1 if op.cohort is None else self.units)]

    @property
    def room(self) -> int:
        """How many operations have a number at most."""
        return len(self.generic)

    def _next(self, unit: int) -> int:
        """The number of the next operation of a unit."""
        if self._used[unit] == self.columns:
            self.forget()
        self._used[unit] += 1
        return unit * self.columns + self._used[unit] - 1

    def begin(self, i: Instruction, thread: int, kind: str) -> Operation:
        """The next operation, issued by a thread, or by its whole warpgroup."""
        first = thread // WARP
        if kind == "wgmma":
            first -= int(self.x.tid[thread]) // WARP % GROUP
        warps, number = _numbers(first, GROUP if kind == "wgmma" else 1), self._next(first // self._warps)
        operation = self.operations[number] = Operation(number, kind, i, warps, self.x.steps, int(self.clock[first]), thread % WARP)
        self._note(operation)
        return operation

    def begin_together(self, i: Instruction, threads: Sequence[int], kind: str, own: int = 0) -> list[Operation]:
        """`begin` of several, for a warpgroup by its first thread each. Each CTA has the same threads, and the first
        one has `own` threads. If their warps have the same clocks, the operations of the first CTA stand for those of
        all.
        """
        firsts, is_group = np.asarray(threads) // WARP, kind == "wgmma"
        when = self.clock[firsts].tolist()
        stand_for_all = own > 0 and when == when[:own] * self.units
        numbers, count = (
            self._next_of_all(own) if stand_for_all else self._next_of_each(firsts),
            own if stand_for_all else len(firsts),
        )
        if numbers is None:
            return [self.begin(i, thread, kind) for thread in threads]
        owns, since, size, cohort = numbers[:count].tolist(), self.x.steps, GROUP if is_group else 1, self if stand_for_all else None
        made = [
            Operation(number, kind, i, _numbers(first, size), since, clock, thread % WARP, cohort=cohort)
            for number, first, clock, thread in zip(owns, firsts[:count].tolist(), when[:count], threads[:count], strict=True)
        ]
        self.operations.update(zip(owns, made, strict=True))
        self.generic[numbers], self.is_cp_async[numbers], self.noted[numbers] = (
            facts_of(kind).is_generic,
            kind == "cp.async",
            self._is_noted(made[0]),
        )
        self.stream[numbers] = self._stream(kind, i, firsts)
        self.chain[numbers] = self._chain(kind, i, firsts * WARP if is_group else np.asarray(threads))
        return made

    def _next_of_all(self, own: int) -> np.ndarray:
        """The next `own` numbers of each unit, equal except for the unit."""
        if max(self._used) + own > self.columns:
            self.forget(own)
        begin = max(self._used)
        self._used = [begin + own] * self.units
        found: np.ndarray = (self._begins + np.arange(begin, begin + own)).reshape(-1)
        return found

    def _next_of_each(self, firsts: np.ndarray) -> np.ndarray | None:
        """The next numbers of the units of warps, None where there is no room for all of them."""
        used, numbers = self._used.copy(), list[int]()
        for unit in (firsts // self._warps).tolist():
            numbers.append(unit * self.columns + used[unit])
            used[unit] += 1
        if max(used) > self.columns:
            return None
        self._used = used
        return np.array(numbers)

    def _is_noted(self, operation: Operation) -> bool:
        """The address that tcgen05.alloc writes is there for threads: of that nothing is to be noted."""
        return operation.kind == "tcgen05.alloc" or operation.instruction.line in self.x.launch.result.elsewhere

    def read_elsewhere(self, numbers: Iterable[int]) -> None:
        """Others than matrix instructions read what these write."""
        self.x.launch.result.elsewhere.update(self[number].instruction.line for number in numbers)
        for op in self.operations.values():
            self.noted[self.numbers([op])] = self._is_noted(op)

    @staticmethod
    def _stream(kind: str, i: Instruction, warps: Any) -> Any:
        """The streams of operations that warps issue."""
        if kind == "bulk" and i.modifiers[0] == "reduce":
            return ALL_REDUCED
        return ALL_RED if kind == "red.async" else 1 + warps if kind.startswith("tcgen05") else NO_STREAM

    @staticmethod
    def _chain(kind: str, i: Instruction, threads: Any) -> Any:
        """The chains of operations that threads issue by an instruction. A thread that knows one to be complete knows
        the earlier ones of its chain to be complete, because groups and tcgen05.commit complete in order for their
        thread.
        """
        is_ordered = facts_of(kind).is_in_order or "bulk_group" in i.modifiers
        return is_ordered * ((threads + 1) * _LINES + i.site)

    def remembers(self, op: Operation, cta: int = 0) -> bool:
        """Does an operation still have a number; of one that stands for all, that of a CTA?"""
        if self.operations.get(op.number) is op:
            return cta not in op.gone
        cta, own = divmod(op.number, self.columns)
        first = self.operations.get(own)
        return first is not None and first.members.get(cta) is op and cta not in first.gone

    def numbered(self, ops: Iterable[Operation], cta: int) -> list[tuple[Operation, int]]:
        """The operations of a CTA, as far as they have a number: with that, and one that stands for those of all CTAs
        in place of its own.
        """
        return [(op, op.number + (op.cohort is not None) * cta * self.columns) for op in ops if self.remembers(op, cta)]

    def completing_on(self, barrier: Any) -> list[tuple[Operation, int]]:
        """`numbered` of those that complete on an mbarrier."""
        return self.numbered(barrier.operations, barrier.cta.index)

    def piped(self, operation: Operation, numbers: np.ndarray, *, reads: bool = False) -> np.ndarray:
        """Do writes of operations not race with what this one writes, or `reads`? The tensor core executes its own
        operations one after the other (PTX ISA 9.1 §9.7.16.6.4); red.async and bulk reductions are atomic
        (9.7.9.25.4.2: each is .relaxed.gpu).
        """
        stream = int(self.stream[operation.number])
        return np.asarray((self.stream[numbers] == stream) & (stream > NO_STREAM if reads else stream != NO_STREAM))

    def forget(self, more: int = 0) -> None:
        """Forget the operations without holders, except those of the present instruction. There is room for twice as
        many as remain, and for so many more. A column that one unit keeps is kept for all units, so that cohorts keep
        equal columns.
        """
        held = np.zeros(self.room, bool)
        for holder in self.holders:
            held[np.asarray(holder.remembered(), np.int64)] = True
        held[self.numbers(op for op in self.operations.values() if op.since == self.x.steps)] = True
        of_units = held.reshape(self.units, -1)
        kept, columns = np.flatnonzero(of_units.any(axis=0)), self.columns
        while columns < max(2 * len(kept), len(kept) + more):
            columns *= 2
        each, to = np.arange(self.units)[:, None], np.arange(len(kept))
        old, before = each * self.columns + kept, self.operations
        new = np.full(self.room, -1, np.int32)
        new[old] = each * columns + to
        self._make_room(columns)
        self._used, self.operations = [len(kept)] * self.units, {}
        for number, op in before.items():
            if op.cohort is not None:
                op.gone |= frozenset(np.flatnonzero(~of_units[:, number]).tolist())
            elif not held[number]:
                continue
            if new[number] >= 0:
                self._has_number(op, int(new[number]))
        width = width_of(self.units, columns, are_shared=self.are_shared)
        before_in_row, now_in_row = (old.reshape(-1), new[old.reshape(-1)]) if self.are_shared else (kept, to)
        renumbering = Renumbering(new, columns, before_in_row, now_in_row, width)
        for holder in self.holders:
            holder.renumber(renumbering)

    def _has_number(self, op: Operation, number: int) -> None:
        """An operation has a number, and those for which it stands have theirs."""
        self.operations[number], op.number = op, number
        for cta, member in op.members.items():
            member.number = number + cta * self.columns
        self._note(op)

    def spread(self, first: Operations) -> None:
        """The operations of the first CTA, which was alone, stand for those of all."""
        self.operations, self._used, apart = dict(first.operations), first._used * self.units, self._warps * np.arange(self.units)[:, None]
        for op in self.operations.values():
            op.cohort = self
        for table, of_one in ((self.generic, first.generic), (self.is_cp_async, first.is_cp_async), (self.noted, first.noted)):
            table[:] = np.tile(of_one, self.units)
        self.waits = set(first.waits)
        self.chain[:] = (first.chain + (first.chain != 0) * apart * WARP * _LINES).reshape(-1)
        self.stream[:] = (first.stream + (first.stream > NO_STREAM) * apart).reshape(-1)

    def _note(self, op: Operation) -> None:
        numbers = np.array(self.numbers([op]))
        warps = int(op.warps[0]) + self._warps * np.arange(len(numbers))
        self.generic[numbers], self.is_cp_async[numbers], self.noted[numbers] = (
            facts_of(op.kind).is_generic,
            op.kind == "cp.async",
            self._is_noted(op),
        )
        self.stream[numbers] = self._stream(op.kind, op.instruction, warps)
        self.chain[numbers] = self._chain(op.kind, op.instruction, warps * WARP + (op.lane if len(op.warps) == 1 else 0))
        self.have_lanes([op])

    def have_lanes(self, operations: Iterable[Operation]) -> None:
        """Operations have other lanes: those that several lanes wait for are of no chain."""
        for op in operations:
            lanes = op.groups.lanes
            if op.kind != "wgmma" and lanes & (lanes - 1):
                self.chain[self.numbers([op])] = 0


def columns_of(warps: int, units: int, *, is_alone: bool) -> int:
    """For how many operations of each unit there is room to begin with, a power of two; all units have so many warps.
    CTAs that keep to themselves have none.
    """
    return _power_of_two(LEAST_ROOM if is_alone else max(ROOM, PER_WARP * warps) // units)


def width_of(units: int, columns: int, *, are_shared: bool) -> int:
    """How many columns there are for what a warp knows of operations: a power of two."""
    return _power_of_two(units * columns) if are_shared else columns


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


@functools.lru_cache(maxsize=1024)
def _numbers(first: int, count: int) -> np.ndarray:
    """The numbers of consecutive warps. Read-only."""
    numbers = np.arange(first, first + count)
    numbers.flags.writeable = False
    return numbers
