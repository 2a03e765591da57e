"""Special registers (PTX ISA 10)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from smemsim.errors import Unmodelled
from smemsim.program.registers import Read, Wave
from smemsim.spec.launches import RESERVED_OFFSETS, RESIDENCY
from smemsim.spec.ptx import CLOCKS, WARP_SIZE

__all__ = ["is_alike", "is_fixed", "special"]


_AXES = {"x": 0, "y": 1, "z": 2}


def special(name: str) -> Read:
    """A function that gives a special register's values for the threads that run."""
    base, _, axis = name.partition(".")
    if base in _THREADS and axis in _AXES:
        n = _AXES[axis]
        if base in _ALIKE:
            return lambda x: x.alike(name, lambda: _THREADS[base](x, n))[x.sel]
        return lambda x: x.fixed(name, lambda: _THREADS[base](x, n))[x.sel]
    if name in _PLAIN:
        if name in _ALIKE:
            return lambda x: x.alike(name, lambda: _PLAIN[name](x))[x.sel]
        return lambda x: x.fixed(name, lambda: _PLAIN[name](x))[x.sel]
    if base in _THREADS and axis == "w":
        return lambda x: np.uint64(0)  # "unused", and zero
    if name in CLOCKS:
        shift = 32 if name.endswith("_hi") else 0
        return lambda x: np.uint64(x.clock() >> shift)
    raise Unmodelled(f"%{name}: this special register is not modelled")


def _of_cta(x: Wave, values: list[int] | np.ndarray) -> np.ndarray:
    return np.repeat(np.asarray(values).astype(np.uint64), x.stride)


def _tid(x: Wave, n: int) -> np.ndarray:
    bx, by, _ = x.launch.block
    tid: np.ndarray = x.tid.astype(np.uint64)
    along: tuple[np.ndarray, ...] = (tid % bx, tid // bx % by, tid // (bx * by))
    return along[n]


# fmt: off
_THREADS: dict[str, Callable[[Wave, int], np.ndarray]] = {
    "tid":            _tid,
    "ntid":           lambda x, n: _of_cta(x, [x.launch.block[n]] * len(x.ctas)),
    "ctaid":          lambda x, n: _of_cta(x, x.ctaids[n]),
    "nctaid":         lambda x, n: _of_cta(x, [x.launch.grid[n]] * len(x.ctas)),
    "clusterid":      lambda x, n: _of_cta(x, x.ctaids[n] // x.launch.cluster[n]),
    "nclusterid":     lambda x, n: _of_cta(x, [x.launch.grid[n] // x.launch.cluster[n]] * len(x.ctas)),
    "cluster_ctaid":  lambda x, n: _of_cta(x, x.ctaids[n] % x.launch.cluster[n]),
    "cluster_nctaid": lambda x, n: _of_cta(x, [x.launch.cluster[n]] * len(x.ctas)),
}
_PLAIN: dict[str, Callable[[Wave], np.ndarray]] = {
    "laneid":              lambda x: x.lane.astype(np.uint64),
    "warpid":              lambda x: x.tid.astype(np.uint64) // np.uint64(WARP_SIZE),
    "nwarpid":             lambda x: _of_cta(x, [x.stride // WARP_SIZE] * len(x.ctas)),
    "cluster_ctarank":     lambda x: _of_cta(x, x.ranks),
    "cluster_nctarank":    lambda x: _of_cta(x, [x.launch.cluster_size] * len(x.ctas)),
    "is_explicit_cluster": lambda x: np.repeat(np.array([x.launch.cluster_size > 1] * len(x.ctas)), x.stride),
    "lanemask_eq":         lambda x: np.uint64(1) << x.lane.astype(np.uint64),
    "lanemask_lt":         lambda x: (np.uint64(1) << x.lane.astype(np.uint64)) - np.uint64(1),
    "lanemask_le":         lambda x: (np.uint64(2) << x.lane.astype(np.uint64)) - np.uint64(1),
    "lanemask_gt":         lambda x: ((np.uint64(2) << x.lane.astype(np.uint64)) - np.uint64(1)) ^ np.uint64(0xFFFFFFFF),
    "lanemask_ge":         lambda x: ((np.uint64(1) << x.lane.astype(np.uint64)) - np.uint64(1)) ^ np.uint64(0xFFFFFFFF),
    "smid":                lambda x: _of_cta(x, x.launch.places.of(x.numbers.tolist())),
    "nsmid":               lambda x: _of_cta(x, [x.launch.multiprocessors] * len(x.ctas)),
    "gridid":              lambda x: _of_cta(x, [1] * len(x.ctas)),
    "dynamic_smem_size":   lambda x: _of_cta(x, [x.launch.shared_bytes] * len(x.ctas)),
    "total_smem_size":     lambda x: _of_cta(x, [x.launch.window_bytes] * len(x.ctas)),
    "aggr_smem_size":      lambda x: _of_cta(x, [x.launch.asked_bytes + RESIDENCY.reserved_bytes] * len(x.ctas)),
    "envreg1":             lambda x: _of_cta(x, [x.launch.workspace >> 32] * len(x.ctas)),
    "envreg2":             lambda x: _of_cta(x, [x.launch.workspace & 0xFFFFFFFF] * len(x.ctas)),
    "reserved_smem_offset_begin": lambda x: _of_cta(x, [RESERVED_OFFSETS["begin"]] * len(x.ctas)),
    "reserved_smem_offset_end":   lambda x: _of_cta(x, [RESERVED_OFFSETS["end"]] * len(x.ctas)),
    "reserved_smem_offset_cap":   lambda x: _of_cta(x, [RESERVED_OFFSETS["cap"]] * len(x.ctas)),
    "reserved_smem_offset_0":     lambda x: _of_cta(x, [RESERVED_OFFSETS["0"]] * len(x.ctas)),
    "reserved_smem_offset_1":     lambda x: _of_cta(x, [RESERVED_OFFSETS["1"]] * len(x.ctas)),
}
# fmt: on


# Those that are the same in all waves of a launch.
_ALIKE = {"tid", "ntid", "nctaid", "nclusterid", "cluster_nctaid", "laneid", "warpid", "nwarpid", "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge"}  # fmt: skip


def is_alike(name: str) -> bool:
    """Is it the same for all waves of a launch that have as many CTAs?"""
    return name.partition(".")[0] in _ALIKE


def is_fixed(name: str) -> bool:
    """Does a special register hold one value for each thread, for as long as the thread lives?"""
    base, _, axis = name.partition(".")
    return (base in _THREADS and axis in _AXES) or name in _PLAIN
