"""Races with reads of global memory whose value may not be used (rule order.unused_read): they wait until a store has
used it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.lower.dataflow import stores_of

if TYPE_CHECKING:
    from smemsim.run.lower.program import Program

__all__ = ["Pending", "UnusedReads"]


@dataclasses.dataclass(frozen=True, eq=False)
class Pending:
    """A race with a read whose value may not be used: the stores that would use it, the reading warps,
    and the report.
    """

    stores: frozenset[int]
    readers: np.ndarray
    key: tuple[str, int, int]
    tell: Callable[[int], None]  # of the place in `readers` of a warp that has used it


class UnusedReads:
    """The races of a launch that wait, and which warps have executed the stores that use what a load has brought.
    `told` are the races that are reported.
    """

    def __init__(self, program: Program, told: set[tuple[str, int, int]]) -> None:
        self.program, self.told = program, told
        self._pending: list[Pending] = []
        self._held: dict[tuple[str, int, int], set[int]] = {}  # by what is pending: the readers
        self._followed: dict[int, frozenset[int] | None] = {}  # of loads: see `follows`
        # of stores that use what a load has brought: which warps of the launch have executed them
        self.done: dict[int, np.ndarray] = {}

    def follows(self, load: Instruction) -> frozenset[int] | None:
        """The stores that use the value of a load of a written array; None: it is used otherwise. From now on their
        executing warps are recorded.
        """
        if id(load) not in self._followed:
            self._followed[id(load)] = stores = stores_of(self.program, load)
            for store in stores or ():
                self.done.setdefault(store, np.zeros(256, bool))
        return self._followed[id(load)]

    def is_followed(self, i: Instruction) -> bool:
        """Does it matter which warps execute a store?"""
        return id(i) in self.done

    def executes(self, i: Instruction, warps: np.ndarray, count: int) -> None:
        """Warps of the launch, which has `count` by now, execute a store."""
        done = self.done.get(id(i))
        if done is not None:
            if count > len(done):
                done = self.done[id(i)] = np.concatenate((done, np.zeros(count, bool)))
            done[warps] = True
            if self._pending:
                self._tell_used()

    def has_done(self, i: Instruction, first: int, done: np.ndarray) -> None:
        """Which warps, from a number on, have executed a store elsewhere."""
        before = self.done.get(id(i), done[:0])
        self.done[id(i)] = np.concatenate((before[:first], np.zeros(max(0, first - len(before)), bool), done, np.zeros(256, bool)))

    @property
    def is_waiting(self) -> bool:
        """Is there a race that waits for a use?"""
        return bool(self._pending)

    def holds_back(self, pending: Pending) -> None:
        """Hold a race back until the value is used (rule order.unused_read)."""
        known = self._held.setdefault(pending.key, set())
        if not known.issuperset(pending.readers.tolist()):
            known.update(pending.readers.tolist())
            self._pending.append(pending)
            self._tell_used()

    def _tell_used(self) -> None:
        """Tell races with reads whose value has been used by now."""
        left, self._pending = self._pending, []
        for pending in left:
            used = np.zeros(len(pending.readers), bool)
            for store in pending.stores:
                done = self.done[store]
                used |= (pending.readers < len(done)) & done[np.minimum(pending.readers, len(done) - 1)]
            if not used.any():
                self._pending += [pending] if pending.key not in self.told else []
            elif pending.key not in self.told:
                self.told.add(pending.key)
                pending.tell(int(np.argmax(used)))
