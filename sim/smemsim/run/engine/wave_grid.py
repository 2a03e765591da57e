"""Which CTAs of the launch's grid a wave executes, and which thread of which CTA each of its threads is.

Thread t of the wave is thread t % stride of CTA t // stride; CTAs are padded to whole warps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.core.spec.bulk import BULK_LIMITS
from smemsim.run.slots import same_for_waves
from smemsim.run.warps import ALL, WARP, WARPGROUP, Cta, Ctas, are_whole_warps

if TYPE_CHECKING:
    from smemsim.run.engine.launch import Launch

__all__ = ["ALL", "OFFSET_MASK", "RANK_SHIFT", "WARP", "WARPGROUP", "Cta", "Ctas", "WaveGrid", "are_whole_warps"]


RANK_SHIFT = BULK_LIMITS.cta_rank_shift  # of a `.shared` address: the CTA's rank, above the offset in its window
OFFSET_MASK = (1 << RANK_SHIFT) - 1


class WaveGrid:
    """The CTAs and threads of a wave by their numbers. `count` are CTAs, `stride` the threads of one with its padding,
    `total` all threads.

    By thread: `tid` (in the CTA), `lane`, `cta_of` (the CTA's index in the wave), `rank_bits` (the CTA's rank as in a
    `.shared` address), `cluster_first` (the index of the first CTA of the cluster). By CTA: `numbers` and `ctaids` in
    the grid, `ranks` in the cluster.
    """

    def __init__(self, launch: Launch, clusters: Sequence[int]) -> None:
        self.launch = launch
        self.stride = -(-launch.threads // WARP) * WARP
        self.padded = launch.threads < self.stride
        self.count = len(clusters) * launch.cluster_size
        self.total = self.count * self.stride
        self.tid: np.ndarray = self.alike("tid", lambda: np.tile(np.arange(self.stride, dtype=np.int64), self.count))
        self.lane: np.ndarray = self.alike("lane", lambda: self.tid % WARP)
        self.cta_of: np.ndarray = self.alike("cta_of", lambda: np.repeat(np.arange(self.count), self.stride))
        self.everybody: np.ndarray = self.alike("everybody", lambda: np.arange(self.total))
        index = self.alike("CTAs", lambda: np.arange(self.count))
        self.ranks: np.ndarray = self.alike("ranks", lambda: index % launch.cluster_size)
        self.numbers: np.ndarray
        self.ctaids: tuple[np.ndarray, np.ndarray, np.ndarray]
        self.numbers, self.ctaids = launch.ctas_at(np.repeat(np.asarray(clusters, np.int64), launch.cluster_size), self.ranks)
        self.rank_bits: np.ndarray = self.alike("rank bits", lambda: np.repeat(self.ranks << RANK_SHIFT, self.stride))
        self.cluster_first: np.ndarray = self.alike("first of cluster", lambda: np.repeat(index - self.ranks, self.stride))

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
