"""smemsim: which byte does the tensor core read?

A model, bit for bit, of how TMA writes swizzled tiles into shared memory and how `wgmma` (sm_90a) and `tcgen05` (sm_100a, sm_103a)
read them back through 64-bit shared-memory matrix descriptors, held against traces captured on an H200.

Everything public is an attribute of this module; parts are imported when first used, so that decoding a word needs neither numpy
nor numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smemsim.descriptors.operand import operand_addresses
    from smemsim.descriptors.smem import LboMode, SmemDescriptor
    from smemsim.descriptors.tensor_map import TensorMap
    from smemsim.errors import HardwareTrap, InputError, SmemsimError, TensorMapError, TraceError, Unmodelled
    from smemsim.machine.memory import GlobalMemory, SharedMemory
    from smemsim.machine.tma import tma_load, tma_load_bytes, tma_store
    from smemsim.spec.evidence import RULES, Grade
    from smemsim.spec.findings import Finding, Severity
    from smemsim.spec.swizzles import Swizzle

__version__ = "0.1.0"

_HOMES = {
    "operand_addresses": "descriptors.operand",
    "LboMode": "descriptors.smem",
    "SmemDescriptor": "descriptors.smem",
    "TensorMap": "descriptors.tensor_map",
    "HardwareTrap": "errors",
    "InputError": "errors",
    "SmemsimError": "errors",
    "TensorMapError": "errors",
    "TraceError": "errors",
    "Unmodelled": "errors",
    "GlobalMemory": "machine.memory",
    "SharedMemory": "machine.memory",
    "tma_load": "machine.tma",
    "tma_load_bytes": "machine.tma",
    "tma_store": "machine.tma",
    "RULES": "spec.evidence",
    "Grade": "spec.evidence",
    "Finding": "spec.findings",
    "Severity": "spec.findings",
    "Swizzle": "spec.swizzles",
}

__all__ = [
    "RULES",
    "Finding",
    "GlobalMemory",
    "Grade",
    "HardwareTrap",
    "InputError",
    "LboMode",
    "Severity",
    "SharedMemory",
    "SmemDescriptor",
    "SmemsimError",
    "Swizzle",
    "TensorMap",
    "TensorMapError",
    "TraceError",
    "Unmodelled",
    "operand_addresses",
    "tma_load",
    "tma_load_bytes",
    "tma_store",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'smemsim' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"smemsim.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
