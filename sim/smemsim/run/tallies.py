"""What JIT-compiled code counts for observers (`Observer.tallied`, `Observer.accessed_together`): lanes of blocks,
lanes that predicates leave out, and the places of loads and stores.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from smemsim.core.ptx.module import Instruction

__all__ = ["GROUP", "NOWHERE", "STEPS", "STEP_OF", "CompiledAccesses", "OneAccess", "Placed", "Tally"]


GROUP = 16  # threads: what compiled code notes of places is for so many
NOWHERE = -1  # the place of a thread that does not run
# of a group's shape: from one thread to the next in sizes of an access; others: any places
STEPS = {1: 0, 2: 1, 3: 2, 4: 4}
STEP_OF = np.array([STEPS.get(shape, 0) for shape in range(1 << 8)], np.int64)  # the same by the shape


@dataclasses.dataclass(frozen=True, eq=False)
class Tally:
    """Counts of one piece of compiled code, which grow as it runs. After the launch they are in `numbers`.

    For each instruction with a predicate, `off` has the entry with the lanes for which the predicate is false. For
    instructions that `Observer.executes` does not report, `blocks` has the entries with their warps and their lanes.
    """

    numbers: np.ndarray
    off: Sequence[tuple[Instruction, int]]
    blocks: Sequence[tuple[Sequence[Instruction], int, int]]


class Placed(NamedTuple):
    """A load or store of `size` bytes of each thread: its places are those of a row, `apart` bytes further."""

    instruction: Instruction
    space: str  # "global" or "shared"
    size: int
    row: int
    apart: int


class CompiledAccesses(NamedTuple):
    """Loads and stores that compiled code has executed, for some whole warps of a wave.

    Row r of `shapes` (rows, groups of 16 threads) has a number of STEPS, or 0. It says how far the places of the
    threads are from each other in `leads`, which has the place of the first one, at [r, step * group]. If it is 0,
    `places` (rows, threads) has the place of each thread. A thread that does not run is `nowhere`. Groups from the warp
    of `first` up to the warp of `last`, of which no thread runs, are `nowhere`, too.

    For each access, `begins` has the number that has to be added to a place. The sum is an offset in the wave's shared
    memory, or an address in global memory. It is the same sequence `accesses` each time.
    """

    accesses: Sequence[Placed]
    begins: np.ndarray
    leads: np.ndarray
    step: int
    places: np.ndarray
    shapes: np.ndarray
    nowhere: int
    first: int
    last: int

    def kept(self, n: int, most: int) -> OneAccess:
        """The n-th access alone, of at most so many threads (a multiple of 32). It stays as it
        is when the launch goes on.
        """
        first, access, step = self.first // GROUP, self.accesses[n], self.step
        last, row = -(-min(self.last, self.first + most) // GROUP), access.row
        return OneAccess(
            access.size, access.apart + int(self.begins[n]), self.leads[row, first * step : last * step : step].copy(),
            self.shapes[row, first:last].copy(), self.places[row, first * GROUP : last * GROUP].copy(), self.nowhere, first * GROUP,
        )  # fmt: skip

    def of(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The threads (ascending) that execute the n-th access, and where."""
        return self.kept(n, self.last - self.first).threads()


class OneAccess(NamedTuple):
    """One of `CompiledAccesses`: the places of threads from `first` on, by groups, with `apart` to be added."""

    size: int
    apart: int
    leads: np.ndarray
    shapes: np.ndarray
    places: np.ndarray
    nowhere: int
    first: int

    def threads(self) -> tuple[np.ndarray, np.ndarray]:
        """The threads (ascending) that execute it, and where."""
        at: np.ndarray = self.leads[:, None] + self.size * STEP_OF[self.shapes][:, None] * np.arange(GROUP)
        at[self.leads == self.nowhere] = self.nowhere
        general = self.shapes == 0
        at[general] = self.places.reshape(-1, GROUP)[general]
        at = at.reshape(-1)
        threads = np.flatnonzero(at != self.nowhere)
        return threads + self.first, at[threads] + self.apart
