"""Which CTAs of the launch's grid a wave executes, and which thread of which CTA each of its threads is.

Thread t of the wave is thread t % stride of CTA t // stride; CTAs are padded to whole warps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smemsim.core.spec.bulk import BULK_LIMITS
from smemsim.run.slots import same_for_waves
from smemsim.run.warps import ALL, WARP, WARPGROUP, Cta, Ctas, are_whole_warps

if TYPE_CHECKING:
    from smemsim.run.engine.launch import Launch

__all__ = ["ALL", "OFFSET_MASK", "RANK_SHIFT", "WARP", "WARPGROUP", "Cta", "Ctas", "WaveGrid", "are_whole_warps"]


RANK_SHIFT = BULK_LIMITS.cta_rank_shift  # of a `.shared` address: the CTA's rank, above the offset in its window
OFFSET_MASK = (1 << RANK_SHIFT) - 1


class _Places(NamedTuple):
    """The arrays of `WaveGrid` that all waves of as many CTAs share."""

    tid: np.ndarray
    lane: np.ndarray
    cta_of: np.ndarray
    everybody: np.ndarray
    ranks: np.ndarray
    rank_bits: np.ndarray
    cluster_first: np.ndarray

    @classmethod
    def of(cls, count: int, stride: int, cluster_size: int) -> _Places:
        """Those of `count` CTAs of `stride` threads each."""
        tid, index = np.tile(np.arange(stride, dtype=np.int64), count), np.arange(count)
        ranks = index % cluster_size
        by_thread = (np.repeat(of_cta, stride) for of_cta in (index, ranks << RANK_SHIFT, index - ranks))
        cta_of, rank_bits, cluster_first = by_thread
        return cls(tid, tid % WARP, cta_of, np.arange(count * stride), ranks, rank_bits, cluster_first)


class WaveGrid:
    """The CTAs and threads of a wave by their numbers. There are `count` CTAs. Each has `stride` threads with its
    padding. There are `total` threads.

    By thread, it has `tid` (in the CTA), `lane`, `cta_of` (the CTA's index in the wave), `rank_bits` (the CTA's rank as
    in a `.shared` address) and `cluster_first`. The last one is the index of the first CTA of the cluster. By CTA, it
    has `numbers` and `ctaids` in the grid, and `ranks` in the cluster.
    """

    def __init__(self, launch: Launch, clusters: Sequence[int]) -> None:
        self.launch = launch
        self.stride = -(-launch.threads // WARP) * WARP
        self.padded = launch.threads < self.stride
        self.count = len(clusters) * launch.cluster_size
        self.total = self.count * self.stride
        places: _Places = self.alike(_Places, lambda: _Places.of(self.count, self.stride, launch.cluster_size))
        self.tid, self.lane, self.cta_of, self.everybody, self.ranks, self.rank_bits, self.cluster_first = places
        self.numbers: np.ndarray
        self.ctaids: tuple[np.ndarray, np.ndarray, np.ndarray]
        self.numbers, self.ctaids = launch.ctas_at(np.repeat(np.asarray(clusters, np.int64), launch.cluster_size), self.ranks)

    def alike(self, name: Any, make: Callable[[], Any]) -> Any:
        """Data that all waves of the launch with as many threads share, made by the first that needs it."""
        return same_for_waves(self.launch, self.total, name, make)

    def units(self, size: int) -> np.ndarray:
        """The number of each thread's unit of `size` threads: warps, or warpgroups. A unit is in one CTA."""
        found: np.ndarray = self.alike(f"units of {size}", lambda: self.cta_of * (-(-self.stride // size)) + self.tid // size)
        return found

    @functools.cached_property
    def _index_of(self) -> dict[int, int]:
        return {number: index for index, number in enumerate(self.numbers.tolist())}

    def index_of(self, number: int) -> int:
        """The index in the wave of a CTA by its number in the grid."""
        return self._index_of[number]

    def of(self, index: int) -> tuple[int, tuple[int, int, int], int, int]:
        """(number in the grid, ctaid, cluster in the wave, rank) of a CTA."""
        x, y, z = (int(along[index]) for along in self.ctaids)
        cluster, rank = divmod(index, self.launch.cluster_size)
        return int(self.numbers[index]), (x, y, z), cluster, rank
