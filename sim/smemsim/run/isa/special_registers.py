"""Special registers (PTX ISA 10)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.base.errors import Unmodelled
from smemsim.core.spec.cards import residency_of
from smemsim.core.spec.launches import RESERVED_OFFSETS
from smemsim.core.spec.ptx import CLOCKS, WARP_SIZE
from smemsim.run.isa.registers import Read, Wave
from smemsim.run.slots import Slot

__all__ = ["fill_special", "is_alike", "is_fixed", "special"]


_AXES = {"x": 0, "y": 1, "z": 2}


def special(name: str) -> Read:
    """A function that gives a special register's values for the threads that run."""
    base, _, axis = name.partition(".")
    if is_fixed(name):
        if is_alike(name):
            return lambda x: x.alike(name, lambda: _of_threads(x, name))[x.sel]
        values = _values(name)
        return lambda x: values(x)[x.sel]
    if base in (*_THREADS, *_CTAS) and axis == "w":
        return lambda x: np.uint64(0)  # "unused", and zero
    if name in CLOCKS:
        shift = 32 if name.endswith("_hi") else 0
        return lambda x: np.uint64(x.progress.clock(x.launch.schedule) >> shift)
    raise Unmodelled(
        f"%{name}: smemsim has no values for this special register; to execute the rest, write a constant in its place, as mov.u32 %r1, 0"
    )


@functools.cache
def _values(name: str) -> Slot[np.ndarray]:
    """A special register's values, of all threads of a wave."""
    return Slot(lambda x: _of_threads(x, name))


def fill_special(x: Wave, name: str, out: np.ndarray) -> None:
    """Put a special register's values, of all threads, into an array of any type of integers."""
    of_ctas = _of_ctas(name)
    if of_ctas is None:
        out[:] = _of_threads(x, name)
    else:
        out.reshape(-1, x.stride)[:] = _unsigned(of_ctas(x))[:, None]


def _of_threads(x: Wave, name: str) -> np.ndarray:
    """A special register's values, of all threads."""
    of_ctas = _of_ctas(name)
    if of_ctas is not None:
        return np.repeat(_unsigned(of_ctas(x)), x.stride)
    base, _, axis = name.partition(".")
    return _THREADS[base](x, _AXES[axis]) if axis else _PLAIN[name](x)


def _of_ctas(name: str) -> Callable[[Wave], Any] | None:
    """The function that returns a special register's values, one for each CTA. None if threads of a CTA have
    several.
    """
    base, _, axis = name.partition(".")
    if axis in _AXES and base in _CTAS:
        return lambda x: _CTAS[base](x, _AXES[axis])
    return _PLAIN_OF_CTAS.get(name)


def _unsigned(values: list[int] | np.ndarray) -> np.ndarray:
    return np.asarray(values).astype(np.uint64)


def _tid(x: Wave, n: int) -> np.ndarray:
    bx, by, _ = x.launch.block
    tid: np.ndarray = x.tid.astype(np.uint64)
    along: tuple[np.ndarray, ...] = (tid % bx, tid // bx % by, tid // (bx * by))
    return along[n]


# fmt: off
_THREADS: dict[str, Callable[[Wave, int], np.ndarray]] = {"tid": _tid}
_CTAS: dict[str, Callable[[Wave, int], Any]] = {
    "ntid":           lambda x, n: [x.launch.block[n]] * len(x.ctas),
    "ctaid":          lambda x, n: x.grid.ctaids[n],
    "nctaid":         lambda x, n: [x.launch.grid[n]] * len(x.ctas),
    "clusterid":      lambda x, n: x.grid.ctaids[n] // x.launch.cluster[n],
    "nclusterid":     lambda x, n: [x.launch.grid[n] // x.launch.cluster[n]] * len(x.ctas),
    "cluster_ctaid":  lambda x, n: x.grid.ctaids[n] % x.launch.cluster[n],
    "cluster_nctaid": lambda x, n: [x.launch.cluster[n]] * len(x.ctas),
}
_PLAIN: dict[str, Callable[[Wave], np.ndarray]] = {
    "laneid":              lambda x: x.grid.lane.astype(np.uint64),
    "warpid":              lambda x: x.tid.astype(np.uint64) // np.uint64(WARP_SIZE),
    "is_explicit_cluster": lambda x: np.repeat(np.array([x.launch.cluster_size > 1] * len(x.ctas)), x.stride),
    "lanemask_eq":         lambda x: np.uint64(1) << x.grid.lane.astype(np.uint64),
    "lanemask_lt":         lambda x: (np.uint64(1) << x.grid.lane.astype(np.uint64)) - np.uint64(1),
    "lanemask_le":         lambda x: (np.uint64(2) << x.grid.lane.astype(np.uint64)) - np.uint64(1),
    "lanemask_gt":         lambda x: ((np.uint64(2) << x.grid.lane.astype(np.uint64)) - np.uint64(1)) ^ np.uint64(0xFFFFFFFF),
    "lanemask_ge":         lambda x: ((np.uint64(1) << x.grid.lane.astype(np.uint64)) - np.uint64(1)) ^ np.uint64(0xFFFFFFFF),
}
_PLAIN_OF_CTAS: dict[str, Callable[[Wave], Any]] = {
    "nwarpid":             lambda x: [residency_of(x.launch.arch).threads // WARP_SIZE] * len(x.ctas),
    "cluster_ctarank":     lambda x: x.grid.ranks,
    "cluster_nctarank":    lambda x: [x.launch.cluster_size] * len(x.ctas),
    "smid":                lambda x: x.launch.places.of(x.numbers.tolist()),
    "nsmid":               lambda x: [x.launch.multiprocessors] * len(x.ctas),
    "gridid":              lambda x: [1] * len(x.ctas),
    "dynamic_smem_size":   lambda x: [x.launch.shared_bytes] * len(x.ctas),
    "total_smem_size":     lambda x: [x.launch.window_bytes] * len(x.ctas),
    "aggr_smem_size":      lambda x: [x.launch.asked_bytes + residency_of(x.launch.arch).reserved_bytes] * len(x.ctas),
    "envreg1":             lambda x: [x.launch.workspace >> 32] * len(x.ctas),
    "envreg2":             lambda x: [x.launch.workspace & 0xFFFFFFFF] * len(x.ctas),
    "reserved_smem_offset_begin": lambda x: [RESERVED_OFFSETS["begin"]] * len(x.ctas),
    "reserved_smem_offset_end":   lambda x: [RESERVED_OFFSETS["end"]] * len(x.ctas),
    "reserved_smem_offset_cap":   lambda x: [RESERVED_OFFSETS["cap"]] * len(x.ctas),
    "reserved_smem_offset_0":     lambda x: [RESERVED_OFFSETS["0"]] * len(x.ctas),
    "reserved_smem_offset_1":     lambda x: [RESERVED_OFFSETS["1"]] * len(x.ctas),
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
    return (axis in _AXES and (base in _THREADS or base in _CTAS)) or name in _PLAIN or name in _PLAIN_OF_CTAS
