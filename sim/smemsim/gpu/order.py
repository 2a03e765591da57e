"""What each warp has seen: vector clocks over warps, and which asynchronous operations it knows to be complete.

A warp's clock counts its releases and fences. Row w of `seen` says up to which count of every other warp its writes happen before what w does
next; row w of `fenced` the same for asynchronous operations that w issues, behind fence.proxy.async. Columns of `done`, `read_done` and
`done_fenced` are asynchronous operations: w knows that all of it, or what it reads, is complete, or a fence lies behind that knowledge.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Order"]


class _Phase:
    """What has been released into a barrier: `open` since its last phase, `closed` with all phases before."""

    def __init__(self) -> None:
        self.open: list[tuple[np.ndarray, ...]] = []
        self.operations: list[int] = []
        self.closed: tuple[np.ndarray, ...] | None = None


class Order:
    """Happens-before of `warps` warps."""

    def __init__(self, warps: int) -> None:
        self.clock = np.ones(warps, np.int32)
        self.seen = np.zeros((warps, warps), np.int32)
        self.fenced = np.zeros((warps, warps), np.int32)
        self.done, self.read_done, self.done_fenced = (np.zeros((warps, 64), bool) for _ in range(3))
        self._phases: dict[Any, _Phase] = {}
        self._own()

    def _own(self) -> None:
        np.fill_diagonal(self.seen, self.clock)

    @property
    def rows(self) -> tuple[np.ndarray, ...]:
        """All that a warp knows, a row each."""
        return self.seen, self.fenced, self.done, self.read_done, self.done_fenced

    def room_for(self, operation: int) -> None:
        """Make room for one more operation."""
        have = self.done.shape[1]
        if operation >= have:
            more = np.zeros((len(self.clock), have), bool)
            self.done, self.read_done, self.done_fenced = (np.concatenate([m, more], axis=1) for m in self.rows[2:])

    def tick(self, warps: np.ndarray) -> None:
        """What these warps do from now on is not yet seen by anybody who has seen what they did before."""
        self.clock[warps] += 1
        self.seen[warps, warps] = self.clock[warps]

    def fence(self, warps: np.ndarray) -> None:
        """fence.proxy.async."""
        self.fenced[warps] = np.maximum(self.fenced[warps], self.seen[warps])
        self.done_fenced[warps] |= self.done[warps]
        self.tick(warps)

    def release(self, warps: np.ndarray, what: Any) -> None:
        """What warps know goes into the open phase of `what`."""
        phase = self._phases.setdefault(what, _Phase())
        phase.open.append(tuple(m[warps].max(axis=0) for m in self.rows))
        self.tick(warps)

    def meet(self, warps: np.ndarray, here: np.ndarray) -> None:
        """Groups of warps (a row each) of which those that are `here` release to and acquire from each other, all groups at once."""
        old = [m[warps] for m in self.rows]
        joined = [m.max(axis=1, where=here[:, :, None], initial=0) for m in old]
        self.tick(warps[here])
        for matrix, known in zip(self.rows, joined, strict=True):
            mine = matrix[warps]
            matrix[warps] = np.where(here[:, :, None], np.maximum(mine, known[:, None, :]), mine)

    def brings(self, operation: int, warps: np.ndarray, what: Any) -> None:
        """The open phase of `what` waits for an operation of these warps; who sees the phase complete knows what they knew."""
        phase = self._phases.setdefault(what, _Phase())
        phase.operations.append(operation)
        phase.open.append(tuple(m[warps].max(axis=0) for m in self.rows))

    def brings_all(self, operations: np.ndarray, warp: int, what: Any) -> None:
        """The open phase of `what` waits for all these operations (a flag for each there is) of a warp."""
        phase = self._phases.setdefault(what, _Phase())
        rows = [m[warp] for m in self.rows]
        phase.open.append((rows[0].copy(), rows[1].copy(), rows[2] | operations, rows[3] | operations, rows[4].copy()))

    def complete(self, what: Any) -> None:
        """The open phase is complete."""
        phase = self._phases.setdefault(what, _Phase())
        known = [self._wide(part) for part in (*phase.open, *([phase.closed] if phase.closed else ()))]
        joined = tuple(np.max([part[n] for part in known], axis=0) for n in range(5)) if known else tuple(m[0] * 0 for m in self.rows)
        for row in joined[2:4]:
            row[phase.operations] = True
        phase.open, phase.operations, phase.closed = [], [], joined

    def acquire(self, warps: np.ndarray, what: Any) -> None:
        """Warps know what the complete phases of `what` hold."""
        phase = self._phases.get(what)
        if phase is None or phase.closed is None:
            return
        closed = self._wide(phase.closed)
        for matrix, row in zip(self.rows, closed, strict=True):
            matrix[warps] = np.maximum(matrix[warps], row)

    def _wide(self, part: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """A row with a place for every operation there is by now."""
        missing = self.done.shape[1] - len(part[2])
        return (*part[:2], *(np.pad(row, (0, missing)) for row in part[2:])) if missing else part

    def knows(self, warps: np.ndarray, operations: list[int], *, only_read: bool = False) -> None:
        """Warps have waited for operations."""
        columns = np.array(operations, np.int64)
        self.read_done[np.ix_(warps, columns)] = True
        if not only_read:
            self.done[np.ix_(warps, columns)] = True
