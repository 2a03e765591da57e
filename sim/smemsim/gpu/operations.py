"""All operations: importing this module registers their builders."""

from __future__ import annotations

from smemsim.gpu import (
    addresses,
    alu,
    atomics,
    barriers,
    bulk_copies,
    control,
    cp_async,
    fences,
    launch_control,
    load_store,
    matrices,
    mbarrier_operations,
    mma_sync,
    remote,
    system,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tensor_allocation,
    tensor_copies,
    tensor_load_store,
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
    control,
    cp_async,
    fences,
    launch_control,
    load_store,
    matrices,
    mbarrier_operations,
    mma_sync,
    remote,
    system,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tensor_allocation,
    tensor_copies,
    tensor_load_store,
    tensor_maps,
    warps,
    wgmma,
    wmma,
)
