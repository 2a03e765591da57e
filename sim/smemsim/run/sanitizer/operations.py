"""The asynchronous operations that a wave still remembers, by number (PTX ISA 8); a number is used again when nothing refers to its operation any more.

Operations are counted within their unit, a CTA or a cluster: number n of unit u is `u * columns + n`, so that CTAs that do the same have the same numbers but for that. What
warps know of operations they note by column (`VectorClocks.column`). Where units cannot hear of each other, a warp knows of the operations of its own unit alone, and has a
column for each of these; else (`are_shared`) one for each of the wave: what is released through global memory says of another unit's operations that they are over.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.following import Tell
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.views import Cta
from smemsim.run.warps import WARP, WARPGROUP

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = [
    "GENERIC", "GROUP", "MBARRIER", "NOBODY", "NO_STREAM", "OPERATIONS", "ROOM", "Operation", "Operations", "Renumbering", "columns_of",
    "width_of",
]  # fmt: skip


MBARRIER = -3  # in tables of who: an mbarrier object lies there (`mbarriers.py`)
NOBODY, OPERATIONS = -1, 1 << 20  # in tables of who: warps have their number, asynchronous operations theirs from here on
GENERIC = ("cp.async", "st.async", "red.async", "tcgen05.alloc")  # asynchronous, but not of the asynchronous proxy
# Operations of one stream make no race among themselves: red.async, bulk reductions (each element's is atomic), those of tcgen05 by their warp. Atomic ones only write.
NO_STREAM, ALL_RED, ALL_REDUCED = 0, -1, -2
_IN_ORDER = ("wgmma", "tcgen05.mma", "tcgen05.cp", "tcgen05.shift")
_LINES = 1 << 32  # of a chain: the thread and the line
LEAST_ROOM, ROOM, PER_WARP = 1, 256, 16  # operations that there is room for to begin with, at least, and for each warp
GROUP = WARPGROUP // WARP


class Follower(Protocol):
    """Follows the result of an operation, or a part of it, to where it is used."""

    def doubt(self, code: str, places: np.ndarray, tell: Tell) -> None:
        """Something is wrong with words of shared memory that the operation reads, by their places."""

    def read(self, at: np.ndarray, nobody: np.ndarray) -> None:
        """The operation reads these words, of which `nobody` has written some."""

    def overwritten(self, operation: Operation, places: np.ndarray, tell: Tell) -> bool:
        """Words that it may still read are overwritten: can that be told when its result is used?"""

    def twin(self, cta: Cta) -> Follower:
        """Who follows the same of another CTA, from that of the first one, of which nothing has been said."""


@dataclasses.dataclass(eq=False, slots=True)
class Operation:
    """An asynchronous operation: its number, what and where it is, the warps (of one the lane) that issued it, the registers that it holds until it is waited for, and the
    products that it makes. Of the registers, `results` are those of D, `copies` those to which D was moved before that.

    `since` is the wave's count of blocks when it was issued, `when` the clock of its first warp, `barriers` the mbarriers that count a copy: by the
    CTA (index) that gets the bytes, the CTA and the offset of the mbarrier. `lanes` are the threads that issued an operation of a commit group, as a bit set of lanes;
    `waited` and `waited_read` are those of them that have waited for it, or for what it reads.
    """

    number: int
    kind: str
    instruction: Instruction
    warps: np.ndarray
    since: int = 0
    when: int = 0
    lane: int = 0
    holds_registers: bool = False
    has_written: bool = False  # bytes of shared memory
    barriers: dict[int, tuple[Cta, int]] = dataclasses.field(default_factory=dict)
    results: frozenset[int] = frozenset()
    copies: set[int] = dataclasses.field(default_factory=set)
    products: list[Follower] = dataclasses.field(default_factory=list)
    lanes: int = 0
    waited: int = 0
    waited_read: int = 0

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.instruction.name} of line {self.instruction.line}"

    def twin(self, cta: Cta, warps: int, *, is_over: bool) -> Operation:
        """The same operation of another CTA, from that of the first one; a CTA has so many warps. Is it over for everybody?"""
        barriers = {cta.index: (cta, next(iter(self.barriers.values()))[1])} if self.barriers else {}
        products = [] if is_over else [product.twin(cta) for product in self.products]
        own = _numbers(int(self.warps[0]) + cta.index * warps, len(self.warps))
        return Operation(
            self.number, self.kind, self.instruction, own, self.since, self.when, self.lane, self.holds_registers,
            self.has_written, barriers, self.results, set(self.copies), products, self.lanes, self.waited, self.waited_read,
        )  # fmt: skip

    def doubt(self, code: str, places: np.ndarray, tell: Callable[[], None]) -> None:
        """Something is wrong with words that it reads: told at once, or, of a product, when the part of it that depends on them is used."""
        if self.products:
            self.products[-1].doubt(code, places, lambda user: tell())
        else:
            tell()

    def is_followed(self, places: np.ndarray, tell: Callable[[], None]) -> bool:
        """Words are overwritten that it may still read: is that told when its result is used?"""
        followed = [product.overwritten(self, places, lambda user: tell()) for product in self.products]
        return bool(followed) and all(followed)


@dataclasses.dataclass(frozen=True)
class Renumbering:
    """Operations have new numbers: `new` by the old ones; each unit has so many `columns` for them now. In rows of flags, of now `width`, column `to[n]` is what column
    `kept[n]` was."""

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
    """Asynchronous operations of a wave, of each unit as many as it has `columns`, by number. `generic` says of each whether it is one of the generic proxy, `copies` whether it is a cp.async,
    `stream` with which it makes no race, `chain` which earlier ones are over when it is known to be over (0: of no chain), `noted` whether its line is among those whose bytes others than matrix instructions read (`elsewhere` of the launch).
    A number is used again when none of the `holders` has it any more."""

    def __init__(self, x: Wave, clock: np.ndarray, units: int, columns: int, *, are_shared: bool) -> None:
        self.x, self.clock, self.units, self.are_shared = x, clock, units, are_shared
        self.operations: dict[int, Operation] = {}
        self._warps, self._used = len(clock) // units, [0] * units  # of each unit: its warps, and its columns in use
        self.holders: list[Holder] = []
        self.waits: set[str] = set()  # the kinds of commit groups that threads have waited for
        self._make_room(columns)

    def _make_room(self, columns: int) -> None:
        self.columns, room = columns, self.units * columns
        self.generic, self.copies, self.noted, self.stream = *(np.zeros(room, bool) for _ in range(3)), np.zeros(room, np.int32)
        self.chain = np.zeros(room, np.int64)

    def __getitem__(self, number: int) -> Operation:
        return self.operations[number]

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

    def begin_together(self, i: Instruction, threads: Sequence[int], kind: str) -> list[Operation]:
        """`begin` of several, of a warpgroup each by its first thread."""
        firsts, is_group, columns = np.asarray(threads) // WARP, kind == "wgmma", self.columns
        used, owns = self._used.copy(), list[int]()
        for unit in (firsts // self._warps).tolist():
            owns.append(unit * columns + used[unit])
            used[unit] += 1
        if max(used) > columns:
            return [self.begin(i, thread, kind) for thread in threads]
        when, since, size, self._used = self.clock[firsts].tolist(), self.x.steps, GROUP if is_group else 1, used
        made = [
            Operation(number, kind, i, _numbers(first, size), since, clock, thread % WARP)
            for number, first, clock, thread in zip(owns, firsts.tolist(), when, threads, strict=True)
        ]
        self.operations.update(zip(owns, made, strict=True))
        numbers = np.array(owns)
        self.generic[numbers], self.copies[numbers], self.noted[numbers] = kind in GENERIC, kind == "cp.async", self._is_noted(made[0])
        self.stream[numbers] = self._stream(kind, i, firsts)
        self.chain[numbers] = self._chain(kind, i, firsts * WARP if is_group else np.asarray(threads))
        return made

    def _is_noted(self, operation: Operation) -> bool:
        """The address that tcgen05.alloc writes is there for threads: of that nothing is to be noted."""
        return operation.kind == "tcgen05.alloc" or operation.instruction.line in self.x.launch.result.elsewhere

    def read_elsewhere(self, numbers: Iterable[int]) -> None:
        """Others than matrix instructions read what these write."""
        self.x.launch.result.elsewhere.update(self[number].instruction.line for number in numbers)
        self.noted[list(self.operations)] = [self._is_noted(operation) for operation in self.operations.values()]

    @staticmethod
    def _stream(kind: str, i: Instruction, warps: Any) -> Any:
        """The streams of operations that warps issue."""
        if kind == "bulk" and i.modifiers[0] == "reduce":
            return ALL_REDUCED
        return ALL_RED if kind == "red.async" else 1 + warps if kind.startswith("tcgen05") else NO_STREAM

    @staticmethod
    def _chain(kind: str, i: Instruction, threads: Any) -> Any:
        """The chains of operations that threads issue by an instruction: who knows one to be over knows the earlier ones of its chain to be over, since groups
        and tcgen05.commit complete in order for their thread."""
        is_ordered = kind in _IN_ORDER or "bulk_group" in i.modifiers
        return is_ordered * ((threads + 1) * _LINES + i.line)

    def remembers(self, operation: Operation) -> bool:
        """Does an operation still have a number?"""
        return self.operations.get(operation.number) is operation

    def piped(self, operation: Operation, numbers: np.ndarray, *, reads: bool = False) -> np.ndarray:
        """Are the writes of operations no race with what this one writes, or `reads`: the tensor core executes its own one after the other (PTX ISA 9.1
        §9.7.16.6.4), red.async and bulk reductions are atomic (9.7.9.25.4.2: each is .relaxed.gpu)?"""
        stream = int(self.stream[operation.number])
        return np.asarray((self.stream[numbers] == stream) & (stream > NO_STREAM if reads else stream != NO_STREAM))

    def forget(self) -> None:
        """Forget the operations that nobody holds, but for those that this very instruction issues; there is room for twice as many as are kept. A column that one unit
        keeps all units keep: those that do the same go on to have the same columns."""
        held = np.zeros(self.room, bool)
        for holder in self.holders:
            held[np.asarray(holder.remembered(), np.int64)] = True
        held[[op.number for op in self.operations.values() if op.since == self.x.steps]] = True
        kept, columns = np.flatnonzero(held.reshape(self.units, -1).any(axis=0)), self.columns
        while columns < 2 * len(kept):
            columns *= 2
        each, to = np.arange(self.units)[:, None], np.arange(len(kept))
        old, before = each * self.columns + kept, self.operations
        new = np.full(self.room, -1, np.int32)
        new[old] = each * columns + to
        self._make_room(columns)
        self._used, self.operations = [len(kept)] * self.units, {}
        for number in np.flatnonzero(held).tolist():
            operation = self.operations[int(new[number])] = before[number]
            operation.number = int(new[number])
            self._note(operation)
        width = width_of(self.units, columns, are_shared=self.are_shared)
        before_in_row, now_in_row = (old.reshape(-1), new[old.reshape(-1)]) if self.are_shared else (kept, to)
        renumbering = Renumbering(new, columns, before_in_row, now_in_row, width)
        for holder in self.holders:
            holder.renumber(renumbering)

    def spread(self, first: Operations, twins: Twins, over: np.ndarray) -> None:
        """The operations of all CTAs, from those of the first one. Of those that are `over` for everybody nobody asks any more what depends on what they read."""
        self.operations, self._used, apart = {}, first._used * twins.count, twins.warps * np.arange(twins.count)[:, None]
        for number, op in first.operations.items():
            is_over = bool(over[number])
            twins.add([op, *(op.twin(twins.ctas[n], twins.warps, is_over=is_over) for n in range(1, twins.count))])
            for n in range(twins.count):
                own = twins.of(op, n)
                own.number = n * self.columns + number
                self.operations[own.number] = own
        for table, of_one in ((self.generic, first.generic), (self.copies, first.copies), (self.noted, first.noted)):
            table[:] = np.tile(of_one, twins.count)
        self.chain[:] = (first.chain + (first.chain != 0) * apart * WARP * _LINES).reshape(-1)
        self.stream[:] = (first.stream + (first.stream > NO_STREAM) * apart).reshape(-1)

    def _note(self, operation: Operation) -> None:
        kind = operation.kind
        self.generic[operation.number], self.copies[operation.number] = kind in GENERIC, kind == "cp.async"
        self.noted[operation.number] = self._is_noted(operation)
        self.stream[operation.number] = self._stream(kind, operation.instruction, operation.warps[0])
        thread = int(operation.warps[0]) * WARP + (operation.lane if len(operation.warps) == 1 else 0)
        self.chain[operation.number] = self._chain(kind, operation.instruction, thread)
        self.have_lanes([operation])

    def have_lanes(self, operations: Iterable[Operation]) -> None:
        """Operations have other lanes: those that several lanes wait for are of no chain."""
        for operation in operations:
            if operation.kind != "wgmma" and operation.lanes & (operation.lanes - 1):
                self.chain[operation.number] = 0


def columns_of(warps: int, units: int, *, is_alone: bool) -> int:
    """For how many operations of each unit there is room to begin with, a power of two; all units have so many warps. CTAs that keep to themselves have none."""
    return _power_of_two(LEAST_ROOM if is_alone else max(ROOM, PER_WARP * warps) // units)


def width_of(units: int, columns: int, *, are_shared: bool) -> int:
    """How many columns there are for what a warp knows of operations: a power of two."""
    return _power_of_two(units * columns) if are_shared else columns


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


@functools.lru_cache(maxsize=1024)
def _numbers(first: int, count: int) -> np.ndarray:
    """The numbers of warps that follow one another; nobody may write to it."""
    numbers = np.arange(first, first + count)
    numbers.flags.writeable = False
    return numbers
