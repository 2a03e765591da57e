"""What each warp has seen: vector clocks over warps, and which asynchronous operations it knows to be complete.

A warp's clock counts its releases and fences. Row w of `seen` says up to which count of every other warp its writes happen before what w does
next; row w of `fenced` the same for asynchronous operations that w issues, behind fence.proxy.async. Columns of `done`, `read_done` and
`done_fenced` are asynchronous operations: w knows that all of it, or what it reads, is complete, or a fence lies behind that knowledge.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from smemsim.gpu.watching.handles import ROOM, Operation

__all__ = ["Order"]

Rows: TypeAlias = tuple[np.ndarray, ...]  # one of each of the five matrices


class _Phase:
    """What has been released into a barrier: `open` since its last phase, `closed` with all phases before."""

    def __init__(self) -> None:
        self.open: Rows | None = None
        self.operations: list[Operation] = []
        self.closed: Rows | None = None
        self.told: set[int] = set()  # the warps that know what is closed


class Order:
    """Happens-before of `warps` warps."""

    def __init__(self, warps: int) -> None:
        self.clock = np.ones(warps, np.int32)
        self.seen = np.zeros((warps, warps), np.int32)
        self.fenced = np.zeros((warps, warps), np.int32)
        self.done, self.read_done, self.done_fenced = (np.zeros((warps, ROOM), bool) for _ in range(3))
        self._phases: dict[Any, _Phase] = {}
        self._own()

    def _own(self) -> None:
        np.fill_diagonal(self.seen, self.clock)

    @property
    def rows(self) -> tuple[np.ndarray, ...]:
        """All that a warp knows, a row each."""
        return self.seen, self.fenced, self.done, self.read_done, self.done_fenced

    def keep(self, kept: np.ndarray, room: int) -> None:
        """Operations have new numbers: column n is what column `kept[n]` was; `room` columns."""

        def moved(flags: np.ndarray) -> np.ndarray:
            found = np.zeros((*flags.shape[:-1], room), bool)
            found[..., : len(kept)] = flags[..., kept]
            return found

        self.done, self.read_done, self.done_fenced = (moved(m) for m in self.rows[2:])
        for phase in self._phases.values():
            phase.open, phase.closed = (rows and (*rows[:2], *map(moved, rows[2:])) for rows in (phase.open, phase.closed))

    def tick(self, warps: np.ndarray) -> None:
        """What these warps do from now on is not yet seen by anybody who has seen what they did before."""
        self.clock[warps] += 1
        self.seen[warps, warps] = self.clock[warps]

    def fence(self, warps: np.ndarray) -> None:
        """fence.proxy.async."""
        self.fenced[warps] = np.maximum(self.fenced[warps], self.seen[warps])
        self.done_fenced[warps] |= self.done[warps]
        self.tick(warps)

    def _into(self, phase: _Phase, warps: np.ndarray) -> None:
        """What warps know goes into the open phase."""
        self._join(phase, tuple(m[warps].max(axis=0) for m in self.rows))

    @staticmethod
    def _join(phase: _Phase, known: Rows) -> None:
        phase.open = tuple(np.maximum(a, b) for a, b in zip(phase.open, known, strict=True)) if phase.open else known

    def release(self, warps: np.ndarray, what: Any) -> None:
        """What warps know goes into the open phase of `what`."""
        self._into(self._phases.setdefault(what, _Phase()), warps)
        self.tick(warps)

    def meet(self, warps: np.ndarray, here: np.ndarray) -> None:
        """Groups of warps (a row each) of which those that are `here` release to and acquire from each other, all groups at once."""
        old = [m[warps] for m in self.rows]
        joined = [m.max(axis=1, where=here[:, :, None], initial=0) for m in old]
        self.tick(warps[here])
        for matrix, known in zip(self.rows, joined, strict=True):
            mine = matrix[warps]
            matrix[warps] = np.where(here[:, :, None], np.maximum(mine, known[:, None, :]), mine)

    def brings(self, operation: Operation, warps: np.ndarray, what: Any) -> None:
        """The open phase of `what` waits for an operation of these warps; who sees the phase complete knows what they knew."""
        phase = self._phases.setdefault(what, _Phase())
        phase.operations.append(operation)
        self._into(phase, warps)

    def brings_all(self, operations: np.ndarray, warp: int, what: Any) -> None:
        """The open phase of `what` waits for all these operations (a flag for each there is) of a warp."""
        phase = self._phases.setdefault(what, _Phase())
        seen, fenced, done, read_done, done_fenced = (m[warp].copy() for m in self.rows)
        self._join(phase, (seen, fenced, done | operations, read_done | operations, done_fenced))

    def complete(self, what: Any) -> None:
        """The open phase is complete."""
        phase = self._phases.setdefault(what, _Phase())
        if phase.open is None or phase.closed is None:
            joined = phase.open or phase.closed or tuple(np.zeros_like(m[0]) for m in self.rows)
        else:
            joined = tuple(np.maximum(a, b) for a, b in zip(phase.open, phase.closed, strict=True))
        numbers = [operation.number for operation in phase.operations]
        for row in joined[2:4]:
            row[numbers] = True
        phase.open, phase.operations, phase.closed = None, [], joined
        phase.told.clear()

    @property
    def pending(self) -> list[Operation]:
        """The operations that open phases wait for."""
        return [operation for phase in self._phases.values() for operation in phase.operations]

    def acquire(self, warps: np.ndarray, what: Any) -> None:
        """Warps know what the complete phases of `what` hold."""
        phase = self._phases.get(what)
        if phase is None or phase.closed is None:
            return
        new = set(warps.tolist())
        if new <= phase.told:  # who polls asks again and again
            return
        phase.told |= new
        for matrix, row in zip(self.rows, phase.closed, strict=True):
            matrix[warps] = np.maximum(matrix[warps], row)

    def knows(self, warps: np.ndarray, operations: list[Operation], *, only_read: bool = False) -> None:
        """Warps have waited for operations."""
        columns = np.array([operation.number for operation in operations])
        self.read_done[np.ix_(warps, columns)] = True
        if not only_read:
            self.done[np.ix_(warps, columns)] = True
