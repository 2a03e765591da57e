"""All operations: importing this module registers their builders."""

from __future__ import annotations

from smemsim.gpu import (
    addresses,
    alu,
    atomics,
    barriers,
    bulk_copies,
    calls,
    control,
    cp_async,
    fences,
    load_store,
    matrices,
    mbarrier_operations,
    mma_sync,
    remote,
    stack,
    system,
    tensor_copies,
    tensor_maps,
    warps,
    wgmma,
    wmma,
)
from smemsim.gpu.registry import ON_EXIT

__all__ = ["MODULES", "ON_EXIT"]

MODULES = (
    addresses,
    alu,
    atomics,
    barriers,
    bulk_copies,
    calls,
    control,
    cp_async,
    fences,
    load_store,
    matrices,
    mbarrier_operations,
    mma_sync,
    remote,
    stack,
    system,
    tensor_copies,
    tensor_maps,
    warps,
    wgmma,
    wmma,
)
