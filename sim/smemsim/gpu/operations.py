"""All operations: importing this module registers their builders."""

from __future__ import annotations

import importlib

__all__ = ["MODULES"]

MODULES = (
    "addresses",
    "alu",
    "atomics",
    "barriers",
    "bulk_copies",
    "calls",
    "control",
    "cp_async",
    "fences",
    "launch_control",
    "load_store",
    "matrices",
    "mbarrier_operations",
    "mma_sync",
    "refused",
    "remote",
    "stack",
    "system",
    "tcgen05_commit",
    "tcgen05_copy",
    "tcgen05_mma",
    "tensor_allocation",
    "tensor_copies",
    "tensor_load_store",
    "tensor_maps",
    "warps",
    "wgmma",
    "wmma",
)
for _name in MODULES:
    importlib.import_module(f"smemsim.gpu.{_name}")
