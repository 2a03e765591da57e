"""All operations: importing this module registers their builders."""

from __future__ import annotations

from smemsim.gpu import (
    addresses,
    atomics,
    barriers,
    bulk_copies,
    control,
    cp_async,
    fences,
    load_store,
    matrices,
    mbarrier_operations,
    mma_sync,
    remote,
    system,
    tensor_copies,
    tensor_maps,
    warps,
    wgmma,
)
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
    bulk_copies,
    tensor_copies,
    tensor_maps,
    wgmma,
    mma_sync,
    matrices,
    moves,
    either,
    bits,
    compare,
    convert,
    video,
    system,
)
