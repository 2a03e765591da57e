"""The asynchronous operations that a wave still remembers, by number; a number is used again when nothing refers to its operation any more."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from smemsim.gpu.wave import Cta
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.gpu.watching.products import Follows

__all__ = ["GENERIC", "Groups", "Handles", "Operation"]

GENERIC = ("cp.async", "st.async", "red.async", "tcgen05.alloc")  # asynchronous, but not of the asynchronous proxy
NO_STREAM, ALL_RED = 0, -1  # operations of one stream make no race among themselves: red.async, those of tcgen05 by their warp
ROOM = 256  # operations that there is room for to begin with


@dataclasses.dataclass(eq=False)
class Operation:
    """An asynchronous operation: its number, what and where it is, the warps that issued it, the registers that it holds, and the products that it
    makes. Of the registers, `results` are those of D, `copies` those to which D was moved before anybody had waited for it.

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
    barriers: dict[int, tuple[Cta, int]] = dataclasses.field(default_factory=dict)
    results: set[int] = dataclasses.field(default_factory=set)
    copies: set[int] = dataclasses.field(default_factory=set)
    products: list[Follows] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class Groups:
    """The operations of a thread's open group, and of those that it has committed and not waited for."""

    open: list[Operation] = dataclasses.field(default_factory=list)
    pending: list[list[Operation]] = dataclasses.field(default_factory=list)


class Handles:
    """Operations by number. `generic` says of each whether it is one of the generic proxy, `copies` whether it is a cp.async, `stream` with which it makes no race."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._make_room(ROOM)

    def _make_room(self, room: int) -> None:
        self.generic, self.copies, self.stream = np.zeros(room, bool), np.zeros(room, bool), np.zeros(room, np.int32)

    def __getitem__(self, number: int) -> Operation:
        return self.operations[number]

    def __len__(self) -> int:
        return len(self.operations)

    @property
    def room(self) -> int:
        """How many operations have a number at most."""
        return len(self.generic)

    def begin(self, kind: str, instruction: Instruction, warps: np.ndarray, since: int, when: int) -> Operation:
        """The next operation; there has to be room."""
        operation = Operation(len(self.operations), kind, instruction, warps, since, when)
        self.operations.append(operation)
        self._note(operation)
        return operation

    def piped(self, operation: Operation, numbers: np.ndarray) -> np.ndarray:
        """Are operations no race with this one: the tensor core executes its own one after the other (PTX ISA 9.7.16.6.4), red.async is atomic?"""
        stream = int(self.stream[operation.number])
        return np.asarray((self.stream[numbers] == stream) & (stream != NO_STREAM))

    def keep(self, kept: np.ndarray) -> np.ndarray:
        """Forget all operations but these (ascending numbers), which are numbered anew; returns the new number of each old one, -1 where it has none.

        There is room for twice as many as are kept, and never less than before.
        """
        new = np.full(max(1, len(self.operations)), -1, np.int32)
        new[kept] = np.arange(len(kept))
        self.operations = [self.operations[n] for n in kept.tolist()]
        room = self.room
        while room < 2 * len(kept):
            room *= 2
        self._make_room(room)
        for number, operation in enumerate(self.operations):
            operation.number = number
            self._note(operation)
        return new

    def _note(self, operation: Operation) -> None:
        kind = operation.kind
        self.generic[operation.number], self.copies[operation.number] = kind in GENERIC, kind == "cp.async"
        self.stream[operation.number] = (
            ALL_RED if kind == "red.async" else 1 + operation.warps[0] if kind.startswith("tcgen05") else NO_STREAM
        )
