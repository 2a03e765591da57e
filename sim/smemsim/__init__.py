"""smemsim runs CUDA kernels without a GPU, bit for bit, and finds their bugs.

It models how TMA writes tiles into shared memory, and how `wgmma` (sm_90a) and `tcgen05` (sm_100a, sm_103a) read them
through shared-memory matrix descriptors. The model is compared with traces of an H200.

All public names are attributes of this module. Parts are imported at their first use: decoding a word needs neither
numpy nor numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from smemsim.base.floating_point import default_state

if TYPE_CHECKING:
    from smemsim.base.errors import (
        HardwareTrap,
        InputError,
        InternalError,
        NotKeptWarning,
        OutsideError,
        SmemsimError,
        TraceError,
        Unmodelled,
    )
    from smemsim.campaign.report import CampaignReport
    from smemsim.campaign.sweep import sweep
    from smemsim.core.arithmetic.explain import DotProduct, DotTerm
    from smemsim.core.arithmetic.mma import dot_product, mma
    from smemsim.core.arithmetic.values import element_value, from_float64, to_float64
    from smemsim.core.finding import Finding, TensorMapError
    from smemsim.core.finding import Finding as CheckFinding
    from smemsim.core.finding import Finding as RunFinding
    from smemsim.core.layout.conflicts import BankAccess, ConflictAnswer, ConflictFree, conflict_free_layouts
    from smemsim.core.layout.cute import CuteLayout
    from smemsim.core.machine.bulk import BulkTransfer, bulk_bytes, bulk_copy, bulk_prefetch, bulk_reduce
    from smemsim.core.machine.cluster import ClusterAddress, Delivery, mapa, multicast
    from smemsim.core.machine.cluster_memory import Cluster
    from smemsim.core.machine.global_memory import GlobalMemory
    from smemsim.core.machine.memory import Operand, SharedMemory
    from smemsim.core.machine.product import MmaResult
    from smemsim.core.machine.tcgen05 import BrokenRule, tcgen05_mma
    from smemsim.core.machine.tma import Transfer, tma_load, tma_load_bytes, tma_prefetch, tma_reduce, tma_store, tma_store_bytes
    from smemsim.core.machine.tmem.address import TmemAddress
    from smemsim.core.machine.tmem.copy import tcgen05_cp, tcgen05_shift
    from smemsim.core.machine.tmem.layout import AccumulatorLayout, ATmemLayout, MetadataLayout, ScaleLayout
    from smemsim.core.machine.tmem.memory import AllocationError, TensorMemory, TmemAccess, tmem_put, tmem_take
    from smemsim.core.machine.wgmma import wgmma, wgmma_registers
    from smemsim.core.spec.bulk import BULK_TRAPS
    from smemsim.core.spec.disputes import DISPUTES
    from smemsim.core.spec.errata import ERRATA
    from smemsim.core.spec.evidence import RULES
    from smemsim.core.spec.findings import Severity
    from smemsim.core.spec.grades import Grade
    from smemsim.core.spec.swizzles import Swizzle
    from smemsim.core.tables import TableError
    from smemsim.core.words.instr import INSTR_RULES, InstrDescriptor
    from smemsim.core.words.operand import operand_addresses
    from smemsim.core.words.smem import LboMode, SmemDescriptor
    from smemsim.core.words.tensor_map import TensorMap
    from smemsim.core.words.tensor_map.replace import build_sequence, tensormap_replace
    from smemsim.core.words.tensor_map.rules import TENSOR_MAP_RULES
    from smemsim.diagnosis.build import Scenario
    from smemsim.diagnosis.check import check
    from smemsim.diagnosis.descriptors.answers import Answer, FoundDescriptor
    from smemsim.diagnosis.descriptors.find import find_descriptors
    from smemsim.diagnosis.difference.diagnose import Diagnosis, explain_difference
    from smemsim.diagnosis.gpu import Gpu
    from smemsim.diagnosis.product import ProductExplanation, explain_product
    from smemsim.diagnosis.report import Report
    from smemsim.diagnosis.run import Run
    from smemsim.diagnosis.tile import TilePicture
    from smemsim.diagnosis.triton import launch_triton
    from smemsim.evidence.launched import launch_file
    from smemsim.planning.arrangement import IllegalPlan
    from smemsim.planning.make import Choice, Plan, plan, plans
    from smemsim.run.engine.arrays import DeviceArray
    from smemsim.show.tile import show_html, tile_svg
    from smemsim.virtual.errors import CudaError
    from smemsim.virtual.policy import FindingsError

__version__ = "0.2.0"

_HOMES = {
    "CuteLayout": "core.layout.cute",
    "tmem_put": "core.machine.tmem.memory",
    "tmem_take": "core.machine.tmem.memory",
    "AccumulatorLayout": "core.machine.tmem.layout",
    "ATmemLayout": "core.machine.tmem.layout",
    "MetadataLayout": "core.machine.tmem.layout",
    "ScaleLayout": "core.machine.tmem.layout",
    "TmemAccess": "core.machine.tmem.memory",
    "TmemAddress": "core.machine.tmem.address",
    "TensorMemory": "core.machine.tmem.memory",
    "AllocationError": "core.machine.tmem.memory",
    "TableError": "core.tables",
    "CudaError": "virtual.errors",
    "FindingsError": "virtual.policy",
    "tcgen05_cp": "core.machine.tmem.copy",
    "tcgen05_shift": "core.machine.tmem.copy",
    "tcgen05_mma": "core.machine.tcgen05",
    "BrokenRule": "core.machine.tcgen05",
    "wgmma": "core.machine.wgmma",
    "wgmma_registers": "core.machine.wgmma",
    "MmaResult": "core.machine.product",
    "DotProduct": "core.arithmetic.explain",
    "DotTerm": "core.arithmetic.explain",
    "dot_product": "core.arithmetic.mma",
    "mma": "core.arithmetic.mma",
    "element_value": "core.arithmetic.values",
    "from_float64": "core.arithmetic.values",
    "to_float64": "core.arithmetic.values",
    "CampaignReport": "campaign.report",
    "sweep": "campaign.sweep",
    "check": "diagnosis.check",
    "Report": "diagnosis.report",
    "Scenario": "diagnosis.build",
    "INSTR_RULES": "core.words.instr",
    "InstrDescriptor": "core.words.instr",
    "operand_addresses": "core.words.operand",
    "LboMode": "core.words.smem",
    "SmemDescriptor": "core.words.smem",
    "TensorMap": "core.words.tensor_map",
    "Diagnosis": "diagnosis.difference.diagnose",
    "explain_difference": "diagnosis.difference.diagnose",
    "HardwareTrap": "base.errors",
    "InputError": "base.errors",
    "InternalError": "base.errors",
    "NotKeptWarning": "base.errors",
    "OutsideError": "base.errors",
    "SmemsimError": "base.errors",
    "TensorMapError": "core.finding",
    "TraceError": "base.errors",
    "Unmodelled": "base.errors",
    "build_sequence": "core.words.tensor_map.replace",
    "tensormap_replace": "core.words.tensor_map.replace",
    "TENSOR_MAP_RULES": "core.words.tensor_map.rules",
    "BulkTransfer": "core.machine.bulk",
    "bulk_bytes": "core.machine.bulk",
    "bulk_copy": "core.machine.bulk",
    "bulk_prefetch": "core.machine.bulk",
    "bulk_reduce": "core.machine.bulk",
    "Cluster": "core.machine.cluster_memory",
    "ClusterAddress": "core.machine.cluster",
    "Delivery": "core.machine.cluster",
    "mapa": "core.machine.cluster",
    "multicast": "core.machine.cluster",
    "GlobalMemory": "core.machine.global_memory",
    "Operand": "core.machine.memory",
    "SharedMemory": "core.machine.memory",
    "tma_load": "core.machine.tma",
    "tma_prefetch": "core.machine.tma",
    "tma_store": "core.machine.tma",
    "Transfer": "core.machine.tma",
    "tma_load_bytes": "core.machine.tma",
    "tma_reduce": "core.machine.tma",
    "tma_store_bytes": "core.machine.tma",
    "Answer": "diagnosis.descriptors.answers",
    "FoundDescriptor": "diagnosis.descriptors.answers",
    "find_descriptors": "diagnosis.descriptors.find",
    "ProductExplanation": "diagnosis.product",
    "explain_product": "diagnosis.product",
    "TilePicture": "diagnosis.tile",
    "show_html": "show.tile",
    "tile_svg": "show.tile",
    "BankAccess": "core.layout.conflicts",
    "ConflictAnswer": "core.layout.conflicts",
    "ConflictFree": "core.layout.conflicts",
    "conflict_free_layouts": "core.layout.conflicts",
    "Choice": "planning.make",
    "plans": "planning.make",
    "Plan": "planning.make",
    "plan": "planning.make",
    "IllegalPlan": "planning.arrangement",
    "DeviceArray": "run.engine.arrays",
    "Gpu": "diagnosis.gpu",
    "Run": "diagnosis.run",
    "launch_file": "evidence.launched",
    "launch_triton": "diagnosis.triton",
    "BULK_TRAPS": "core.spec.bulk",
    "DISPUTES": "core.spec.disputes",
    "ERRATA": "core.spec.errata",
    "RULES": "core.spec.evidence",
    "Grade": "core.spec.grades",
    "Finding": "core.finding",
    "CheckFinding": "core.finding",
    "RunFinding": "core.finding",
    "Severity": "core.spec.findings",
    "Swizzle": "core.spec.swizzles",
}

_SAME = {"CheckFinding": "Finding", "RunFinding": "Finding"}  # names that the class of all findings has besides

__all__ = [
    "BULK_TRAPS",
    "DISPUTES",
    "ERRATA",
    "INSTR_RULES",
    "RULES",
    "TENSOR_MAP_RULES",
    "ATmemLayout",
    "AccumulatorLayout",
    "AllocationError",
    "Answer",
    "BankAccess",
    "BrokenRule",
    "BulkTransfer",
    "CampaignReport",
    "CheckFinding",
    "Choice",
    "Cluster",
    "ClusterAddress",
    "ConflictAnswer",
    "ConflictFree",
    "CudaError",
    "CuteLayout",
    "Delivery",
    "DeviceArray",
    "Diagnosis",
    "DotProduct",
    "DotTerm",
    "Finding",
    "FindingsError",
    "FoundDescriptor",
    "GlobalMemory",
    "Gpu",
    "Grade",
    "HardwareTrap",
    "IllegalPlan",
    "InputError",
    "InstrDescriptor",
    "InternalError",
    "LboMode",
    "MetadataLayout",
    "MmaResult",
    "NotKeptWarning",
    "Operand",
    "OutsideError",
    "Plan",
    "ProductExplanation",
    "Report",
    "Run",
    "RunFinding",
    "ScaleLayout",
    "Scenario",
    "Severity",
    "SharedMemory",
    "SmemDescriptor",
    "SmemsimError",
    "Swizzle",
    "TableError",
    "TensorMap",
    "TensorMapError",
    "TensorMemory",
    "TilePicture",
    "TmemAccess",
    "TmemAddress",
    "TraceError",
    "Transfer",
    "Unmodelled",
    "build_sequence",
    "bulk_bytes",
    "bulk_copy",
    "bulk_prefetch",
    "bulk_reduce",
    "check",
    "conflict_free_layouts",
    "dot_product",
    "element_value",
    "explain_difference",
    "explain_product",
    "find_descriptors",
    "from_float64",
    "launch_file",
    "launch_triton",
    "mapa",
    "mma",
    "multicast",
    "operand_addresses",
    "plan",
    "plans",
    "show_html",
    "sweep",
    "tcgen05_cp",
    "tcgen05_mma",
    "tcgen05_shift",
    "tensormap_replace",
    "tile_svg",
    "tma_load",
    "tma_load_bytes",
    "tma_prefetch",
    "tma_reduce",
    "tma_store",
    "tma_store_bytes",
    "tmem_put",
    "tmem_take",
    "to_float64",
    "wgmma",
    "wgmma_registers",
]


_MODULES = ("cutedsl", "evidence", "run", "testing", "triton", "virtual")  # after `import smemsim` alone, too


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        with default_state():
            return importlib.import_module(f"smemsim.{name}")
    if name not in _HOMES:
        from smemsim.base.arguments import suggestion

        raise AttributeError(f"module 'smemsim' has no attribute {name!r}{suggestion(name, __all__)}")
    with default_state():  # modules compute their tables when they are imported
        value = getattr(importlib.import_module(f"smemsim.{_HOMES[name]}"), _SAME.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "__doc__", "__file__", "__path__"])
