"""Bank conflicts of a planned tile, counted from addresses; nothing here is a measured time.

Shared memory has 32 banks of 4 bytes, so that a 16-byte chunk lies in one of 8 groups of four banks: address / 16 mod 8. An access of eight
chunks is free of conflicts when they lie in eight groups; what is counted is how many of the eight lie in the fullest group, 1 at best and 8 at
worst, and of all such accesses of the tile the largest count.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from smemsim.descriptors.operand import swizzled
from smemsim.planning.arrangement import Arrangement
from smemsim.spec.shared_memory import BANKS

__all__ = ["Conflicts", "conflicts_of"]


@dataclasses.dataclass(frozen=True)
class Conflicts:
    """Chunks in the fullest group of four banks, of eight; the largest such count of the tile.

    `mma`: 8 lines from a multiple of 8 on, one chunk of each, as the tensor core reads them (8x16 B). `column`: the same from any line on,
    as `ldmatrix` reads 8 rows. `line`: 8 chunks of one line that follow one another in the matrix, as threads read along the contiguous
    axis; fewer where a line has fewer. With 128B_ATOM_32B eight lines are two atoms; whether the tensor core takes eight at once there is in
    no document.
    """

    mma: int
    column: int
    line: int


def conflicts_of(tile: Arrangement) -> Conflicts:
    """Count them for the tile at its base address."""
    chunks = tile.contiguous // tile.per_chunk
    addresses = swizzled(tile.wish.base_address + tile.linear(*np.indices((tile.lines, chunks))), tile.wish.mode)
    group = BANKS.group(addresses)
    return Conflicts(_worst(group, BANKS.groups), _worst(group, 1), _worst(group.T, 1))


def _worst(group: np.ndarray, step: int) -> int:
    """The fullest group of any eight neighbours along axis 0 that begin at a multiple of `step`."""
    length = min(BANKS.groups, len(group))
    windows = np.lib.stride_tricks.sliding_window_view(group, length, axis=0)[::step]
    return int(max((windows == g).sum(axis=-1).max() for g in range(BANKS.groups)))
