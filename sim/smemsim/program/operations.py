"""All operations: importing this module registers their builders."""

from __future__ import annotations

import importlib

__all__ = ["MODULES"]


MODULES = (
    "alu",
    "barriers.cta",
    "barriers.mbarrier_operations",
    "control",
    "copies.bulk",
    "copies.cp_async",
    "copies.remote",
    "copies.tensor",
    "system",
    "matrix.ldmatrix",
    "matrix.mma_sync",
    "matrix.wgmma",
    "memory.addresses",
    "memory.atomics",
    "memory.ordering",
    "memory.load_store",
    "refused",
    "tcgen05.allocation",
    "tcgen05.commit",
    "tcgen05.copy",
    "tcgen05.load_store",
    "tcgen05.mma",
    "warps",
)
for _name in MODULES:
    importlib.import_module(f"smemsim.program.{_name}")
