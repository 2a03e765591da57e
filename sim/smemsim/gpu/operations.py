"""All operations: importing this module registers their builders."""

from __future__ import annotations

import importlib

__all__ = ["MODULES"]

MODULES = (
    "alu",
    "barriers.cta",
    "barriers.mbarrier_operations",
    "calls",
    "control",
    "copies.bulk",
    "copies.cp_async",
    "copies.remote",
    "copies.tensor",
    "copies.tensor_maps",
    "launch_control",
    "matrix.ldmatrix",
    "matrix.mma_sync",
    "matrix.wgmma",
    "matrix.wmma",
    "memory.addresses",
    "memory.atomics",
    "memory.fences",
    "memory.load_store",
    "refused",
    "stack",
    "system",
    "tcgen05.allocation",
    "tcgen05.commit",
    "tcgen05.copy",
    "tcgen05.load_store",
    "tcgen05.mma",
    "warps",
)
for _name in MODULES:
    importlib.import_module(f"smemsim.gpu.{_name}")
