"""The cost of an access of a warp: wavefronts of shared memory, sectors of global memory, and the fewest that its bytes
need.

Every function takes many warps. The byte address of each lane is `at` (warps, 32). The mask of the active lanes is
`active` (bit n for lane n). The bytes of each lane are `size`. The numbers come from `core/spec/counters.py`, with
their grades.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smemsim.core.layout.bank_loops import LINE, busiest_banks, different_sectors, fewest, load_costs, paired_lanes
from smemsim.core.spec.counters import ACCESS_COSTS, LANES, LANES_TOGETHER, OPERAND_BYTES, PAIRED, SECTOR, TAG_LINE, Counts
from smemsim.core.spec.shared_memory import BANKS

__all__ = [
    "Cost",
    "conflict_free",
    "copy_cost",
    "ideal_sectors",
    "ideal_wavefronts",
    "matrix_lanes",
    "operand_wavefronts",
    "paired_distances",
    "pairs",
    "sectors",
    "shared_cost",
]

PAIRED_OPS = ("ld",)


class Cost(NamedTuple):
    """Wavefronts of each warp, the most of one group of lanes, and whether the number is exact (else a lower bound)."""

    wavefronts: np.ndarray
    worst: np.ndarray
    exact: np.ndarray


def _rows(at: Any, active: Any) -> tuple[np.ndarray, np.ndarray]:
    rows = np.ascontiguousarray(np.atleast_2d(np.asarray(at, np.int64)))
    return rows, np.ascontiguousarray(np.broadcast_to(np.asarray(active, np.int64), (len(rows),)))


def _busiest(at: np.ndarray, active: np.ndarray, size: int, together: int, *, by_lane: bool) -> tuple[np.ndarray, np.ndarray]:
    cost, worst = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    busiest_banks(at, active, max(size // BANKS.width, 1), together, by_lane, cost, worst)
    return cost, worst


def pairs(at: Any, active: Any) -> np.ndarray:
    """For each warp: does every active lane have the address of lane XOR 1, or each that of lane XOR 2? Inactive
    neighbours do not count.

    >>> pairs(np.arange(32) // 2 * 16, 0xFFFFFFFF)
    array([ True])
    """
    rows, masks = _rows(at, active)
    out = np.zeros(len(rows), bool)
    for distance in PAIRED:
        found = np.zeros(len(rows), bool)
        paired_lanes(rows, masks, distance, found)
        out |= found
    return out


def shared_cost(op: str, at: Any, active: Any, size: int) -> Cost:
    """The cost of an access of shared memory. The operation is a key of `ACCESS_COSTS`: ld, st, ldmatrix, stmatrix,
    atom, cas, one, …

    >>> lanes = np.arange(32)
    >>> [int(shared_cost("ld", lanes * 4 * stride, 0xFFFFFFFF, 4).wavefronts[0]) for stride in (1, 2, 32, 33)]
    [1, 2, 32, 1]
    """
    rule = ACCESS_COSTS[op]
    rows, masks = _rows(at, active)
    exact = np.ones(len(rows), bool)
    if rule.counts is Counts.NOTHING:
        return Cost(np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64), exact)
    together = LANES_TOGETHER[size]
    if op in PAIRED_OPS:
        cost, worst = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        load_costs(rows, masks, max(size // BANKS.width, 1), together, paired_distances(op, size), cost, worst)
        return Cost(cost, worst, exact)
    cost, worst = _busiest(rows, masks, size, together, by_lane=rule.counts is not Counts.WORDS)
    if op == "cas":
        cost, worst = 2 * cost, 2 * worst
    return Cost(cost, worst, exact)


def paired_distances(op: str, size: int) -> np.ndarray:
    """The distances of lanes at one address for which two groups go together. For a load of more than one group they
    are those of `pairs`. Else there are none.

    >>> paired_distances("ld", 16), len(paired_distances("st", 16)), len(paired_distances("ld", 4))
    (array([1, 2]), 0, 0)
    """
    return np.array(PAIRED if op in PAIRED_OPS and LANES_TOGETHER[size] < LANES else (), np.int64)


def matrix_lanes(active: Any, count: int) -> Any:
    """The lanes whose addresses ldmatrix and stmatrix of `count` matrices use: 8 for each.

    >>> hex(matrix_lanes(0xFFFFFFFF, 2))
    '0xffff'
    """
    return active & ((1 << 8 * count) - 1)


def ideal_wavefronts(active: Any, size: int) -> np.ndarray:
    """The fewest wavefronts that the bytes of the active lanes need: 128 bytes go through at once.

    >>> ideal_wavefronts([0xFFFFFFFF, 0x1, 0x0], 16)
    array([4, 1, 0])
    """
    out: np.ndarray = fewest(_count(active), size, LINE)
    return out


def _count(active: Any) -> np.ndarray:
    masks = np.ascontiguousarray(np.atleast_1d(np.asarray(active, np.uint32)))
    if (masks == masks[:1]).all():  # as of whole warps
        return np.full(len(masks), int(masks[0]).bit_count() if len(masks) else 0, np.int64)
    out: np.ndarray = np.unpackbits(masks.view(np.uint8)).reshape(len(masks), -1).sum(axis=1).astype(np.int64)
    return out


def copy_cost(at: Any, source: Any, active: Any, size: int) -> Cost:
    """The cost of cp.async through L1 (`.ca`) in shared memory. The global addresses are `source`. It is exact if every
    group of lanes reads one line.

    >>> lanes = np.arange(32) * 4
    >>> copy_cost(lanes, lanes, 0xFFFFFFFF, 4)
    Cost(wavefronts=array([1]), worst=array([1]), exact=array([ True]))
    """
    rows, masks = _rows(at, active)
    sources, _ = _rows(source, active)
    together = LANES_TOGETHER[size]
    total, worst, exact = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64), np.ones(len(rows), bool)
    for first in range(0, LANES, together):
        part = masks & (((1 << together) - 1) << first)
        most = np.maximum(*(_busiest(x, part, size, together, by_lane=True)[0] for x in (rows, sources)))
        total, worst = total + most, np.maximum(worst, most)
        exact &= _pieces(sources, part, TAG_LINE) <= 1
    return Cost(total, worst, exact)


def _pieces(at: np.ndarray, active: np.ndarray, size: int) -> np.ndarray:
    out = np.zeros(len(at), np.int64)
    different_sectors(at, active, size.bit_length() - 1, out)
    return out


def sectors(at: Any, active: Any) -> np.ndarray:
    """How many 32-byte sectors of global memory a warp's access touches; each lane's bytes lie in one sector.

    >>> sectors(np.arange(32) * 8, 0xFFFFFFFF)
    array([8])
    """
    return _pieces(*_rows(at, active), SECTOR)


def ideal_sectors(touched: Any, active: Any, size: int) -> np.ndarray:
    """The sectors that the bytes of the active lanes need if they lie together, no more than are touched.

    >>> ideal_sectors([32], [0xFFFFFFFF], 4)
    array([4])
    """
    out: np.ndarray = np.minimum(np.asarray(touched), fewest(_count(active), size, SECTOR))
    return out


def operand_wavefronts(a_bytes: int, b_bytes: int) -> int:
    """How many wavefronts a wgmma reads its operands with: `a_bytes` and `b_bytes` of shared memory, A 0 from
    registers. No swizzle or major conflicts.

    >>> operand_wavefronts(64 * 16 * 2, 256 * 16 * 2)
    80
    """
    return -(-(a_bytes + b_bytes) // OPERAND_BYTES)


def conflict_free(op: str, at: Any, active: Any, size: int) -> np.ndarray:
    """For each warp: does every group of lanes that go together take one pass?

    >>> conflict_free("st", np.arange(32) * 8, 0xFFFFFFFF, 4)
    array([False])
    """
    return shared_cost(op, at, active, size).worst <= 1
