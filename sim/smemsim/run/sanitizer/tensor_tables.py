"""What the sanitizer keeps of tensor memory (`tensor_memory.py`): the tables of its cells, the operations of each
thread, and the accesses of each warp without a wait.

Each can be of the first CTA alone, while all do the same; `of_all` makes it one of all CTAs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.run.sanitizer import operation_sets
from smemsim.run.sanitizer.operations import NOBODY, OPERATIONS, Operation, Operations, Renumbering

__all__ = ["Cells", "Issued", "Pending", "Unwaited"]


Pending = list[tuple[Any, int, int]]  # places in an array, the warp, the line


class Cells:
    """The last writer and the readers of each cell, (CTAs, lanes, columns).

    - `who`, `when`, `line`: the last writer (a warp, or an operation from OPERATIONS on), its clock, its line.
    - `read_when`, `read_line`: the clock of the last read by the warp of these lanes in each warpgroup, and its line.
    - `read_by`: the operations that may still read, as entries of `sets`.
    - `unread`: a matrix product or a part of its sum, one number everywhere or different ones of threads, that
      nothing has read.
    """

    def __init__(self, shape: tuple[int, int, int], groups: int) -> None:
        self.who = np.full(shape, NOBODY, np.int32)
        self.when, self.line = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self.read_when = np.zeros((groups, *shape), np.int32)
        self.read_line = np.zeros(shape, np.int32)
        self.read_by, self.sets = np.zeros(shape, np.int32), operation_sets.made()
        self.unread = np.zeros(shape, np.uint8)

    def of_all(self, ctas: int, per_cta: int, columns: int) -> None:
        """The cells of all CTAs, of `per_cta` warps and `columns` operations each, from those of the first one."""
        apart = np.arange(ctas, dtype=np.int32)[:, None, None]
        for name in ("when", "line", "read_line", "unread"):
            setattr(self, name, np.repeat(getattr(self, name), ctas, axis=0))
        self.read_when = np.repeat(self.read_when, ctas, axis=1)
        who = np.repeat(self.who, ctas, axis=0)
        self.who = who + np.where(who >= OPERATIONS, apart * columns, (who >= 0) * apart * per_cta).astype(np.int32)
        self.read_by = operation_sets.entries_of_twins(self.read_by[0], ctas, columns, self.sets)
        self.sets = operation_sets.of_twins(self.sets, ctas, columns)

    def renumber(self, new: np.ndarray) -> None:
        """Operations have new numbers."""
        by = self.who >= OPERATIONS
        self.who[by] = OPERATIONS + new[self.who[by] - OPERATIONS]
        is_used = np.zeros(int(self.sets.used[0]), bool)
        is_used[-self.read_by[self.read_by < 0]] = True
        self.sets, entries = operation_sets.compacted(self.sets, is_used, new)
        operation_sets.renumber(self.read_by.reshape(-1), new, entries)

    def empties(self, at: Any) -> None:
        """What is in cells counts as unwritten from now on."""
        self.who[at], self.unread[at], self.read_by[at] = NOBODY, 0, 0
        self.read_when[(slice(None), *at)] = 0

    def are_touched(self, at: Any) -> bool:
        """Has any access touched cells?"""
        return bool((self.who[at] != NOBODY).any() or self.read_by[at].any() or self.read_when[(slice(None), *at)].any())

    def operations_named(self) -> list[int]:
        """The numbers of the operations to which cells refer."""
        of_cells = (distinct(self.who[self.who >= OPERATIONS]) - OPERATIONS).tolist()
        return [*of_cells, *operation_sets.members_of(self.sets, distinct(self.read_by))]


class Issued:
    """The operations of each thread: `flags` of all so far, by their columns; `open`: those since its last commit, by
    thread and line; `last`: what its last commit came after.
    """

    def __init__(self) -> None:
        self.flags: dict[int, np.ndarray] = {}
        self.open: dict[tuple[int, int], Operation] = {}
        self.last: dict[int, list[Operation]] = {}

    def of_all(self, ctas: int, stride: int, operations: Operations, columns: Callable[[np.ndarray, int], np.ndarray]) -> None:
        """Those of all CTAs, of `stride` threads each, from those of the first one; `columns` moves flags to a CTA's
        columns.
        """
        every = range(ctas)
        self.flags = {thread + n * stride: columns(flags, n) for thread, flags in self.flags.items() for n in every}
        self.open = {(thread + n * stride, line): op.of(n) for (thread, line), op in self.open.items() for n in every}
        self.last = {
            thread + n * stride: [op.of(n) for op in ops if operations.remembers(op, n)] for thread, ops in self.last.items() for n in every
        }

    def renumber(self, to: Renumbering) -> None:
        """Operations have new numbers."""
        for thread, row in self.flags.items():
            self.flags[thread] = to.flags(row)


@dataclasses.dataclass(eq=False)
class Unwaited:
    """Accesses of warps without a wait: `loads` have places in `Cells.read_when` and registers (a bit set), `stores`
    places in `Cells.who`. `registers` are those of all loads.
    """

    loads: dict[int, list[tuple[Any, int]]] = dataclasses.field(default_factory=dict)
    stores: dict[int, Pending] = dataclasses.field(default_factory=dict)
    registers: int = 0

    def of_all(self, ctas: int, per_cta: int) -> None:
        """Those of all CTAs, of `per_cta` warps each, from those of the first one."""
        every = range(ctas)
        self.stores = {
            warp + n * per_cta: [((n, *at[1:]), by + n * per_cta, line) for at, by, line in stores]
            for warp, stores in self.stores.items() for n in every
        }  # fmt: skip
        self.loads = {
            warp + n * per_cta: [((at[0], n, *at[2:]), registers) for at, registers in loads]
            for warp, loads in self.loads.items() for n in every
        }  # fmt: skip
