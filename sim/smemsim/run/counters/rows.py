"""The cost of one instruction so far, and sums of the accesses of many warps; plain numbers, no engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from smemsim.core.layout.banks import Cost, copy_cost, ideal_sectors, ideal_wavefronts, sectors, shared_cost
from smemsim.core.spec.counters import ACCESS_COSTS, COLUMNS, LANES, Counts, Sure

__all__ = ["SUMMED", "Row", "by_warp", "sum_of"]

WORD = 4  # bytes of local memory of one lane, beside those of the others
SUMMED = tuple(c.name for c in COLUMNS if c.name != "worst_degree")
_WORST = {Sure.EXACT: 0, Sure.BOUND: 1, Sure.NONE: 2}


@dataclasses.dataclass(slots=True)
class Row:
    """The counters of one instruction; names as in `spec.counters.COLUMNS`."""

    executed: int = 0
    lanes: int = 0
    predicated_off: int = 0
    shared_requests: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    worst_degree: int = 0
    global_requests: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    local_requests: int = 0
    local_sectors: int = 0
    cluster_bytes: int = 0
    operand_wavefronts: int = 0
    copied_bytes: int = 0
    mmas: int = 0
    flop: int = 0
    sure: Sure = Sure.EXACT
    why: str = ""

    def shared(self, op: str, at: np.ndarray, active: np.ndarray, size: int) -> None:
        """Warps have accessed shared memory: byte offsets (warps, 32), masks of lanes, bytes of a lane."""
        rule = ACCESS_COSTS[op]
        self._shared(shared_cost(op, at, active, size), active, 0 if rule.counts is Counts.NOTHING else size)
        if rule.sure is not Sure.EXACT:
            self.doubt(rule.sure, rule.why)

    def copied(self, at: np.ndarray, source: np.ndarray, active: np.ndarray, size: int) -> None:
        """Warps have copied by cp.async through L1, from global addresses `source`."""
        cost = copy_cost(at, source, active, size)
        self._shared(cost, active, size)
        if not cost.exact.all():
            self.doubt(Sure.BOUND, ACCESS_COSTS["cp.async.ca"].why)

    def _shared(self, cost: Cost, active: np.ndarray, size: int) -> None:
        self.shared_requests += len(active)
        self.wavefronts += int(cost.wavefronts.sum())
        self.worst_degree = max(self.worst_degree, int(cost.worst.max(initial=0)))
        self.ideal_wavefronts += int(ideal_wavefronts(active, size).sum())

    def everywhere(self, at: np.ndarray, active: np.ndarray, size: int) -> None:
        """Warps have accessed global memory: addresses (warps, 32), masks of lanes, bytes of a lane."""
        touched = sectors(at, active)
        self.global_requests += len(active)
        self.sectors += int(touched.sum())
        self.ideal_sectors += int(ideal_sectors(touched, active, size).sum())

    def local(self, threads: np.ndarray, at: np.ndarray, size: int) -> None:
        """Threads have accessed local memory: byte offsets in their own, bytes of a lane. Words of 4 bytes lie
        together, one of each lane.
        """
        rows, active = by_warp(threads, at)
        self.local_requests += len(active)
        lanes = np.arange(LANES) * WORD
        for word in range(max(size // WORD, 1)):
            self.local_sectors += int(sectors((rows // WORD + word) * LANES * WORD + lanes, active).sum())
        self.doubt(ACCESS_COSTS["local"].sure, ACCESS_COSTS["local"].why)

    def doubt(self, sure: Sure, why: str) -> None:
        """The number is less sure than it was; the least sure reason stays."""
        if _WORST[sure] > _WORST[self.sure]:
            self.sure, self.why = sure, why

    def add(self, other: Row) -> None:
        """Add what another instruction of the same line has cost."""
        for name in SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.worst_degree = max(self.worst_degree, other.worst_degree)
        self.doubt(other.sure, other.why)


def sum_of(rows: Sequence[Row]) -> Row:
    """The cost of rows together. If there is one, the result is the row itself."""
    if len(rows) == 1:
        return rows[0]
    total = Row()
    for row in rows:
        total.add(row)
    return total


def by_warp(threads: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Addresses of threads (ascending) as rows of 32 lanes, and the mask of the lanes that are there.

    >>> rows, active = by_warp(np.array([0, 1, 33]), np.array([4, 8, 12]))
    >>> rows[:, :2].tolist(), active.tolist()
    ([[4, 8], [0, 12]], [3, 2])
    """
    count = len(threads)
    if not count % LANES and not threads[0] % LANES and threads[-1] - threads[0] == count - 1:
        return at.reshape(-1, LANES), np.full(count // LANES, (1 << LANES) - 1, np.int64)
    warps, lanes = threads // LANES, threads % LANES
    begins = np.flatnonzero(np.diff(warps, prepend=-1))
    which = np.zeros(count, np.int64)
    which[begins] = 1
    which = np.cumsum(which) - 1
    rows = np.zeros((len(begins), LANES), np.int64)
    rows[which, lanes] = at
    active: np.ndarray = np.bitwise_or.reduceat(np.int64(1) << lanes.astype(np.int64), begins)
    return rows, active
