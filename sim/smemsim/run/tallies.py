"""What JIT-compiled code counts for observers (`Observer.tallied`, `Observer.accessed_together`): lanes of blocks,
lanes that predicates leave out, and the places of loads and stores.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from smemsim.core.ptx.module import Instruction

__all__ = ["CompiledAccesses", "Placed", "Tally"]


@dataclasses.dataclass(frozen=True, eq=False)
class Tally:
    """Counts of one piece of compiled code, which grow as it runs: `numbers` has them after the launch.

    `off` has for each instruction with a predicate the entry with the lanes for which the predicate is false. `blocks`
    has, for instructions that `Observer.executes` does not report, the entries with their warps and their lanes.
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

    `places` (rows, threads) has the place of each thread from `first` up to, not including, `last`, or `nowhere` if its
    predicate is false. `begins` has for each access what has to be added to a place: then it is an offset in the wave's
    shared memory, or an address in global memory. `mask` (threads) has the threads that run; None: all. It is the same
    sequence `accesses` each time.

    `shapes` (rows, groups of 16 threads) is 0, or says how far the places of a group are from its first one: equal
    numbers mean equal distances. It does not count for groups in which a thread does not run.
    """

    accesses: Sequence[Placed]
    begins: np.ndarray
    places: np.ndarray
    shapes: np.ndarray
    nowhere: int
    first: int
    last: int
    mask: np.ndarray | None

    def of(self, n: int, first: int, last: int, row: int = -1) -> tuple[np.ndarray, np.ndarray]:
        """The threads (ascending), of those from one to another, that execute the n-th access, and where. `row`: its row
        in `places`, if that is not the usual one.
        """
        access = self.accesses[n]
        places = self.places[access.row if row < 0 else row, first:last]
        runs = places != self.nowhere
        if self.mask is None and runs.all():
            return np.arange(first, last), places + (access.apart + self.begins[n])
        if self.mask is not None:
            runs &= self.mask[first:last]
        threads = np.flatnonzero(runs)
        return threads + first, places[threads] + (access.apart + self.begins[n])
