"""All operations: importing this module registers their builders."""

from __future__ import annotations

from smemsim.gpu import addresses, atomics, barriers, control, cp_async, fences, load_store, mbarrier_operations, remote, system, warps
from smemsim.gpu.alu import bits, compare, convert, either, moves, video
from smemsim.gpu.registry import ON_EXIT

__all__ = ["MODULES", "ON_EXIT"]

MODULES = (
    control,
    addresses,
    load_store,
    atomics,
    fences,
    warps,
    barriers,
    mbarrier_operations,
    cp_async,
    remote,
    moves,
    either,
    bits,
    compare,
    convert,
    video,
    system,
)
