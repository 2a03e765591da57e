"""What orders what: the asynchronous operations, and what every warp has seen (PTX ISA 8, memory consistency model: causality order).

A warp's clock counts its releases and fences, and the operations that it issues. Row w of `seen` says up to which count of every other warp its
writes happen before what w does next; row w of `fenced` the same for asynchronous operations that w issues, behind fence.proxy.async. Columns of
`done`, `read_done` and `done_fenced` are asynchronous operations: w knows that all of it, or what it reads, is complete, or a fence lies behind that
knowledge.

Relaxed accesses order by the fences around them (PTX ISA 8.7, release and acquire patterns): a relaxed arrival or store hands on what its warp knew at its
last fence, and what a relaxed wait or load has seen counts from the warp's next fence on.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeAlias, cast

import numpy as np

from smemsim.program.wave import WARP, WARPGROUP, Cta
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.program.wave import Wave

__all__ = ["GENERIC", "GROUP", "NOBODY", "OPERATIONS", "Operation", "Operations", "Order", "Tell"]


# ---- The asynchronous operations that a wave still remembers, by number; a number is used again when nothing refers to its operation any
# more


NOBODY, OPERATIONS = -1, 1 << 20  # in tables of who: warps have their number, asynchronous operations theirs from here on
GENERIC = ("cp.async", "st.async", "red.async", "tcgen05.alloc")  # asynchronous, but not of the asynchronous proxy
NO_STREAM, ALL_RED = 0, -1  # operations of one stream make no race among themselves: red.async, those of tcgen05 by their warp
ROOM = 256  # operations that there is room for to begin with
GROUP = WARPGROUP // WARP
Tell: TypeAlias = Callable[[Instruction | None], None]  # of who uses a value; None where the kernel ends before anybody could


class Follower(Protocol):
    """Follows the result of an operation, or a part of it, to where it is used."""

    def doubt(self, code: str, places: np.ndarray, tell: Tell) -> None:
        """Something is wrong with words of shared memory that the operation reads, by their places."""

    def read(self, at: np.ndarray, nobody: np.ndarray) -> None:
        """The operation reads these words, of which `nobody` has written some."""

    def overwritten(self, operation: Operation, places: np.ndarray, tell: Tell) -> bool:
        """Words that it may still read are overwritten: can that be told when its result is used?"""


@dataclasses.dataclass(eq=False)
class Operation:
    """An asynchronous operation: its number, what and where it is, the warps that issued it, the registers that it holds until it is waited for, and the
    products that it makes. Of the registers, `results` are those of D, `copies` those to which D was moved before that.

    `since` is the wave's count of blocks when it was issued, `when` the clock of its first warp, `barriers` the mbarriers that count a copy: by the
    CTA (index) that gets the bytes, the CTA and the offset of the mbarrier.
    """

    number: int
    kind: str
    instruction: Instruction
    warps: np.ndarray
    since: int = 0
    when: int = 0
    slots: set[int] = dataclasses.field(default_factory=set)
    holds_registers: bool = False
    barriers: dict[int, tuple[Cta, int]] = dataclasses.field(default_factory=dict)
    results: set[int] = dataclasses.field(default_factory=set)
    copies: set[int] = dataclasses.field(default_factory=set)
    products: list[Follower] = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.instruction.name} of line {self.instruction.line}"

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


class Holder(Protocol):
    """Keeps numbers of operations."""

    def remembered(self) -> Iterable[int] | np.ndarray:
        """The numbers that it has."""

    def renumber(self, kept: np.ndarray, new: np.ndarray, room: int) -> None:
        """Operations have new numbers: `new` of each old one, of which `kept` are left; there is `room` for so many."""


class Operations:
    """Asynchronous operations of a wave by number. `generic` says of each whether it is one of the generic proxy, `copies` whether it is a cp.async,
    `stream` with which it makes no race. A number is used again when none of the `holders` has it any more."""

    def __init__(self, x: Wave, clock: np.ndarray) -> None:
        self.x, self.clock = x, clock
        self.operations: list[Operation] = []
        self.holders: list[Holder] = []
        self._make_room(ROOM)

    def _make_room(self, room: int) -> None:
        self.generic, self.copies, self.stream = np.zeros(room, bool), np.zeros(room, bool), np.zeros(room, np.int32)

    def __getitem__(self, number: int) -> Operation:
        return self.operations[number]

    @property
    def room(self) -> int:
        """How many operations have a number at most."""
        return len(self.generic)

    def begin(self, i: Instruction, thread: int, kind: str) -> Operation:
        """The next operation, issued by a thread, or by its whole warpgroup."""
        first = thread // WARP
        if kind == "wgmma":
            first -= int(self.x.tid[thread]) // WARP % GROUP
        if len(self.operations) == self.room:
            self._forget()
        warps = np.arange(first, first + (GROUP if kind == "wgmma" else 1))
        operation = Operation(len(self.operations), kind, i, warps, self.x.steps, int(self.clock[first]))
        self.operations.append(operation)
        self._note(operation)
        return operation

    def remembers(self, operation: Operation) -> bool:
        """Does an operation still have a number?"""
        return operation.number < len(self.operations) and self.operations[operation.number] is operation

    def piped(self, operation: Operation, numbers: np.ndarray) -> np.ndarray:
        """Are operations no race with this one: the tensor core executes its own one after the other (PTX ISA 9.7.16.6.4), red.async is atomic?"""
        stream = int(self.stream[operation.number])
        return np.asarray((self.stream[numbers] == stream) & (stream != NO_STREAM))

    def _forget(self) -> None:
        """Forget the operations that nobody holds, but for those that this very instruction issues; there is room for twice as many as are kept."""
        kept = np.zeros(len(self.operations), bool)
        for holder in self.holders:
            kept[np.asarray(holder.remembered(), np.int64)] = True
        kept[[op.number for op in self.operations if op.since == self.x.steps]] = True
        numbers = np.flatnonzero(kept)
        new = np.full(max(1, len(self.operations)), -1, np.int32)
        new[numbers] = np.arange(len(numbers))
        self.operations = [self.operations[n] for n in numbers.tolist()]
        room = self.room
        while room < 2 * len(numbers):
            room *= 2
        self._make_room(room)
        for number, operation in enumerate(self.operations):
            operation.number = number
            self._note(operation)
        for holder in self.holders:
            holder.renumber(numbers, new, room)

    def _note(self, operation: Operation) -> None:
        kind = operation.kind
        self.generic[operation.number], self.copies[operation.number] = kind in GENERIC, kind == "cp.async"
        self.stream[operation.number] = (
            ALL_RED if kind == "red.async" else 1 + operation.warps[0] if kind.startswith("tcgen05") else NO_STREAM
        )


# ---- What each warp has seen: vector clocks over warps, and which asynchronous operations it knows to be complete


Rows: TypeAlias = tuple[np.ndarray, ...]  # one of each of the five matrices
P = ParamSpec("P")


class _Phase:
    """What has been released into a barrier, or at an address: `open` since its last phase, `closed` with all phases before."""

    def __init__(self) -> None:
        self.open: Rows | None = None
        self.operations: list[Operation] = []
        self.closed: Rows | None = None
        self.told: set[int] = set()  # the warps that know what is closed
        self.heard: set[int] = set()  # those that will with their next fence
        self.writer = -1  # the warp that stored last at an address


def _both(method: Callable[Concatenate[Order, P], None]) -> Callable[Concatenate[Order, P], None]:
    """What happens, happens in the order that might be as well."""

    @functools.wraps(method)
    def act(self: Order, *args: P.args, **given: P.kwargs) -> None:
        method(self, *args, **given)
        if self.might_be is not None:
            method(self.might_be, *args, **given)

    return cast(Callable[Concatenate["Order", P], None], act)


class Order:
    """Happens-before of `warps` warps. `might_be` is what it were if relaxed arrivals at barriers of the cluster released, where there are any."""

    def __init__(self, warps: int, *, might_be: Order | None = None) -> None:
        self.might_be = might_be
        self.clock = np.ones(warps, np.int32)
        self.seen = np.zeros((warps, warps), np.int32)
        self.fenced = np.zeros((warps, warps), np.int32)
        self.done, self.read_done, self.done_fenced = (np.zeros((warps, ROOM), bool) for _ in range(3))
        self._at_fence: Rows | None = None  # what warps knew at their last fence
        self._at_next_fence: Rows | None = None  # what they will know behind their next one
        self._phases: dict[Any, _Phase] = {}
        np.fill_diagonal(self.seen, self.clock)

    @property
    def rows(self) -> tuple[np.ndarray, ...]:
        """All that a warp knows, a row each."""
        return self.seen, self.fenced, self.done, self.read_done, self.done_fenced

    def remembered(self) -> list[int]:
        """The operations that open phases wait for, by their numbers."""
        return [operation.number for phase in self._phases.values() for operation in phase.operations]

    @_both
    def renumber(self, kept: np.ndarray, new: np.ndarray, room: int) -> None:
        """Operations have new numbers: column n is what column `kept[n]` was; `room` columns."""

        def moved(flags: np.ndarray) -> np.ndarray:
            renumbered = np.zeros((*flags.shape[:-1], room), bool)
            renumbered[..., : len(kept)] = flags[..., kept]
            return renumbered

        def all_moved(rows: Rows | None) -> Rows | None:
            return rows and (*rows[:2], *map(moved, rows[2:]))

        self.done, self.read_done, self.done_fenced = (moved(m) for m in self.rows[2:])
        self._at_fence, self._at_next_fence = all_moved(self._at_fence), all_moved(self._at_next_fence)
        for phase in self._phases.values():
            phase.open, phase.closed = all_moved(phase.open), all_moved(phase.closed)

    def missing(self, test: Callable[[Order], np.ndarray]) -> tuple[np.ndarray, bool]:
        """Where what is known fails a test, and whether it does so only because barriers of the cluster were arrived at relaxed."""
        late = test(self)
        return self.confirmed(late, test) if late.any() else (late, False)

    def confirmed(self, late: np.ndarray, test: Callable[[Order], np.ndarray]) -> tuple[np.ndarray, bool]:
        """Which of the places `late`, where a test failed, are wrong, and whether only relaxed arrivals at barriers of the cluster make the test fail."""
        if self.might_be is None:
            return late, False
        wrong = late & test(self.might_be)
        return (wrong, False) if wrong.any() else (late, True)

    def _tick(self, warps: np.ndarray) -> None:
        """What these warps do from now on is not yet seen by anybody who has seen what they did before."""
        self.clock[warps] += 1
        self.seen[warps, warps] = self.clock[warps]

    @_both
    def fence_proxy(self, warps: np.ndarray) -> None:
        """fence.proxy.async."""
        self.fenced[warps] = np.maximum(self.fenced[warps], self.seen[warps])
        self.done_fenced[warps] |= self.done[warps]
        self._tick(warps)

    @_both
    def fence(self, warps: np.ndarray, *, acquires: bool, releases: bool) -> None:
        """A memory fence: relaxed accesses in front of it have acquired, those behind it release."""
        if acquires and self._at_next_fence is not None:
            for matrix, heard in zip(self.rows, self._at_next_fence, strict=True):
                matrix[warps] = np.maximum(matrix[warps], heard[warps])
        if releases:
            if self._at_fence is None:
                self._at_fence = tuple(np.zeros_like(m) for m in self.rows)
            for held, matrix in zip(self._at_fence, self.rows, strict=True):
                held[warps] = matrix[warps]
            self._tick(warps)

    def _into(self, phase: _Phase, warps: np.ndarray, known: Rows | None = None) -> None:
        """What warps know goes into the open phase."""
        self._join(phase, tuple(m[warps].max(axis=0) for m in known or self.rows))

    @staticmethod
    def _join(phase: _Phase, known: Rows) -> None:
        phase.open = tuple(np.maximum(a, b) for a, b in zip(phase.open, known, strict=True)) if phase.open else known

    @_both
    def release(self, warps: np.ndarray, what: Any, *, relaxed: bool = False) -> None:
        """What warps know goes into the open phase of `what`; `relaxed`: what they knew at their last fence."""
        self._release(warps, self._phases.setdefault(what, _Phase()), relaxed)

    def release_if(self, warps: np.ndarray, what: Any) -> None:
        """A relaxed arrival at a barrier of the cluster: a release in the order that might be."""
        for order, relaxed in ((self, True), (self.might_be, False)):
            if order is not None:
                order._release(warps, order._phases.setdefault(what, _Phase()), relaxed)

    def _release(self, warps: np.ndarray, phase: _Phase, relaxed: bool) -> None:
        if not relaxed:
            self._into(phase, warps)
        elif self._at_fence is not None:
            self._into(phase, warps, self._at_fence)
        self._tick(warps)

    @_both
    def left(self, warps: np.ndarray, what: Any) -> None:
        """Warps have exited, which counts as an arrival (rule order.exit)."""
        self._into(self._phases.setdefault(what, _Phase()), warps)

    @_both
    def stored(self, warps: np.ndarray, what: Any, *, relaxed: bool, replaces: bool) -> None:
        """Warps write at an address `what` by operations that release, or, relaxed, by what they knew at their last fence.

        Who reads there reads the last store: what others released there before counts no more, unless it is an atomic (not `replaces`).
        """
        phase = self._phases.setdefault(what, _Phase())
        own = int(warps[0]) if len(warps) == 1 else -1
        if replaces and (own < 0 or phase.writer != own):
            phase.closed = None
        if replaces:
            phase.writer = own
        self._release(warps, phase, relaxed)
        self._complete(phase)

    @_both
    def meet(self, warps: np.ndarray, here: np.ndarray, gone: np.ndarray) -> None:
        """Groups of warps (a row each) of which those that are `here` release to and acquire from each other, all groups at once.

        Those that are `gone` have exited, and count as arrived.
        """
        old = [m[warps] for m in self.rows]
        joined = [m.max(axis=1, where=(here | gone)[:, :, None], initial=0) for m in old]
        self._tick(warps[here])
        for matrix, known in zip(self.rows, joined, strict=True):
            mine = matrix[warps]
            matrix[warps] = np.where(here[:, :, None], np.maximum(mine, known[:, None, :]), mine)

    @_both
    def brings(self, operation: Operation, warps: np.ndarray, what: Any) -> None:
        """The open phase of `what` waits for an operation of these warps; who sees the phase complete knows what they knew, and nothing they do from now on."""
        phase = self._phases.setdefault(what, _Phase())
        phase.operations.append(operation)
        self._into(phase, warps)
        self._tick(warps)

    @_both
    def brings_all(self, operations: np.ndarray, warp: int, what: Any) -> None:
        """The open phase of `what` waits for all these operations (a flag for each there is) of a warp."""
        phase = self._phases.setdefault(what, _Phase())
        seen, fenced, done, read_done, done_fenced = (m[warp].copy() for m in self.rows)
        self._join(phase, (seen, fenced, done | operations, read_done | operations, done_fenced))
        self._tick(np.array([warp]))

    @_both
    def complete(self, what: Any) -> None:
        """The open phase is complete."""
        self._complete(self._phases.setdefault(what, _Phase()))

    def _complete(self, phase: _Phase) -> None:
        if phase.open is None or phase.closed is None:
            joined = phase.open or phase.closed or tuple(np.zeros_like(m[0]) for m in self.rows)
        else:
            joined = tuple(np.maximum(a, b) for a, b in zip(phase.open, phase.closed, strict=True))
        numbers = [operation.number for operation in phase.operations]
        for row in joined[2:4]:
            row[numbers] = True
        phase.open, phase.operations, phase.closed = None, [], joined
        phase.told.clear()
        phase.heard.clear()

    @_both
    def acquire(self, warps: np.ndarray, what: Any, *, relaxed: bool = False) -> None:
        """Warps know what the complete phases of `what` hold; `relaxed`: behind their next fence."""
        phase = self._phases.get(what)
        if phase is None or phase.closed is None:
            return
        new, told = set(warps.tolist()), phase.heard if relaxed else phase.told
        if new <= told:  # who polls asks again and again
            return
        told |= new
        known: Rows = self.rows
        if relaxed:
            if self._at_next_fence is None:
                self._at_next_fence = tuple(np.zeros_like(m) for m in self.rows)
            known = self._at_next_fence
        for matrix, row in zip(known, phase.closed, strict=True):
            matrix[warps] = np.maximum(matrix[warps], row)

    @_both
    def knows(self, warps: np.ndarray, operations: list[Operation], *, only_read: bool = False) -> None:
        """Warps have waited for operations."""
        columns = np.array([operation.number for operation in operations])
        self.read_done[np.ix_(warps, columns)] = True
        if not only_read:
            self.done[np.ix_(warps, columns)] = True
