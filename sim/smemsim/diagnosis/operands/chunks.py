"""The chunks of 16 bytes of global memory that no other one equals."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from smemsim.core.machine.global_memory import Region
from smemsim.core.spec.shared_memory import CHUNK

__all__ = ["Chunks", "all_chunks"]


MOST_BYTES = 1 << 23  # of global memory that is looked through


@dataclasses.dataclass(frozen=True, eq=False)
class Chunks:
    """The chunks of global memory that no other one equals: their values, mixed to one word, in ascending order, and
    their addresses.
    """

    mixed: np.ndarray
    addresses: np.ndarray

    def places(self, values: np.ndarray) -> np.ndarray:
        """Addresses of chunks (..., 2) of uint64; 0 where there is none, or more than one."""
        wanted = _mixed(values)
        if not len(self.mixed):
            return np.zeros(wanted.shape, np.int64)
        at = np.minimum(np.searchsorted(self.mixed, wanted), len(self.mixed) - 1)
        return np.where(self.mixed[at] == wanted, self.addresses[at], 0)


def all_chunks(regions: Iterable[Region]) -> Chunks:
    """The chunks of arrays that are not too large in all."""
    mixed, addresses, left = [], [], MOST_BYTES
    for region in regions:
        skipped = -region.begin % CHUNK
        whole = (len(region.data) - skipped) // CHUNK * CHUNK
        if 0 < whole <= left:
            left -= whole
            mixed.append(_mixed(np.ascontiguousarray(region.data[skipped : skipped + whole]).view(np.uint64).reshape(-1, 2)))
            addresses.append(region.begin + skipped + CHUNK * np.arange(whole // CHUNK))
    if not mixed:
        return Chunks(np.zeros(0, np.uint64), np.zeros(0, np.int64))
    values, first, count = np.unique(np.concatenate(mixed), return_index=True, return_counts=True)
    return Chunks(values[count == 1], np.concatenate(addresses).astype(np.int64)[first[count == 1]])


def _mixed(values: np.ndarray) -> np.ndarray:
    """Two words of 64 bits as one that other ones hardly ever give."""
    low, high = values[..., 0], values[..., 1]
    with np.errstate(over="ignore"):
        one = (low ^ (low >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + high
        mixed: np.ndarray = (one ^ (one >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return mixed
