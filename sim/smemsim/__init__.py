"""smemsim: which byte does the tensor core read?

A model, bit for bit, of how TMA writes swizzled tiles into shared memory and how `wgmma` (sm_90a) and `tcgen05` (sm_100a, sm_103a)
read them back through 64-bit shared-memory matrix descriptors, held against traces captured on an H200.

Everything public is an attribute of this module; parts are imported when first used, so that decoding a word needs neither numpy
nor numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from smemsim.floating_point import default_state

if TYPE_CHECKING:
    from smemsim.arithmetic.explain import DotProduct, DotTerm
    from smemsim.arithmetic.mma import dot_product, mma
    from smemsim.arithmetic.values import element_value, from_float64, to_float64
    from smemsim.campaign.report import CampaignReport
    from smemsim.campaign.sweep import sweep
    from smemsim.errors import HardwareTrap, InputError, InternalError, SmemsimError, TraceError, Unmodelled
    from smemsim.evidence.launched import launch_file
    from smemsim.finding import Finding, TensorMapError
    from smemsim.finding import Finding as CheckFinding
    from smemsim.finding import Finding as RunFinding
    from smemsim.judge.build import Scenario
    from smemsim.judge.check import check
    from smemsim.judge.descriptors.answers import Answer, FoundDescriptor
    from smemsim.judge.descriptors.find import find_descriptors
    from smemsim.judge.difference.diagnose import Diagnosis, explain_difference
    from smemsim.judge.gpu import Gpu
    from smemsim.judge.product import ProductExplanation, explain_product
    from smemsim.judge.report import Report
    from smemsim.judge.run import Run
    from smemsim.judge.tile import TilePicture
    from smemsim.judge.triton import launch_triton
    from smemsim.layout.cute import CuteLayout
    from smemsim.machine.bulk import BulkTransfer, bulk_bytes, bulk_copy, bulk_prefetch, bulk_reduce
    from smemsim.machine.cluster import ClusterAddress, Delivery, mapa, multicast
    from smemsim.machine.cluster_memory import Cluster
    from smemsim.machine.memory import Operand, SharedMemory
    from smemsim.machine.product import MmaResult
    from smemsim.machine.region import GlobalMemory
    from smemsim.machine.tcgen05 import tcgen05_mma
    from smemsim.machine.tma import Transfer, tma_load, tma_load_bytes, tma_prefetch, tma_reduce, tma_store, tma_store_bytes
    from smemsim.machine.tmem.address import TmemAddress
    from smemsim.machine.tmem.copy import tcgen05_cp, tcgen05_shift
    from smemsim.machine.tmem.layout import AccumulatorLayout, ATmemLayout, MetadataLayout, ScaleLayout
    from smemsim.machine.tmem.memory import TensorMemory, TmemAccess, tmem_put, tmem_take
    from smemsim.machine.wgmma import wgmma, wgmma_registers
    from smemsim.planning.arrangement import IllegalPlan
    from smemsim.planning.make import Choice, Plan, plan, plans
    from smemsim.program.arrays import DeviceArray
    from smemsim.show.tile import show_html, tile_svg
    from smemsim.spec.bulk import BULK_TRAPS
    from smemsim.spec.disputes import DISPUTES
    from smemsim.spec.errata import ERRATA
    from smemsim.spec.evidence import RULES
    from smemsim.spec.findings import Severity
    from smemsim.spec.grades import Grade
    from smemsim.spec.swizzles import Swizzle
    from smemsim.words.instr import INSTR_RULES, InstrDescriptor
    from smemsim.words.operand import operand_addresses
    from smemsim.words.smem import LboMode, SmemDescriptor
    from smemsim.words.tensor_map import TensorMap
    from smemsim.words.tensor_map.replace import build_sequence, tensormap_replace
    from smemsim.words.tensor_map.rules import TENSOR_MAP_RULES

__version__ = "0.1.0"

_HOMES = {
    "CuteLayout": "layout.cute",
    "tmem_put": "machine.tmem.memory",
    "tmem_take": "machine.tmem.memory",
    "AccumulatorLayout": "machine.tmem.layout",
    "ATmemLayout": "machine.tmem.layout",
    "MetadataLayout": "machine.tmem.layout",
    "ScaleLayout": "machine.tmem.layout",
    "TmemAccess": "machine.tmem.memory",
    "TmemAddress": "machine.tmem.address",
    "TensorMemory": "machine.tmem.memory",
    "tcgen05_cp": "machine.tmem.copy",
    "tcgen05_shift": "machine.tmem.copy",
    "tcgen05_mma": "machine.tcgen05",
    "wgmma": "machine.wgmma",
    "wgmma_registers": "machine.wgmma",
    "MmaResult": "machine.product",
    "DotProduct": "arithmetic.explain",
    "DotTerm": "arithmetic.explain",
    "dot_product": "arithmetic.mma",
    "mma": "arithmetic.mma",
    "element_value": "arithmetic.values",
    "from_float64": "arithmetic.values",
    "to_float64": "arithmetic.values",
    "CampaignReport": "campaign.report",
    "sweep": "campaign.sweep",
    "check": "judge.check",
    "Report": "judge.report",
    "Scenario": "judge.build",
    "INSTR_RULES": "words.instr",
    "InstrDescriptor": "words.instr",
    "operand_addresses": "words.operand",
    "LboMode": "words.smem",
    "SmemDescriptor": "words.smem",
    "TensorMap": "words.tensor_map",
    "Diagnosis": "judge.difference.diagnose",
    "explain_difference": "judge.difference.diagnose",
    "HardwareTrap": "errors",
    "InputError": "errors",
    "InternalError": "errors",
    "SmemsimError": "errors",
    "TensorMapError": "finding",
    "TraceError": "errors",
    "Unmodelled": "errors",
    "build_sequence": "words.tensor_map.replace",
    "tensormap_replace": "words.tensor_map.replace",
    "TENSOR_MAP_RULES": "words.tensor_map.rules",
    "BulkTransfer": "machine.bulk",
    "bulk_bytes": "machine.bulk",
    "bulk_copy": "machine.bulk",
    "bulk_prefetch": "machine.bulk",
    "bulk_reduce": "machine.bulk",
    "Cluster": "machine.cluster_memory",
    "ClusterAddress": "machine.cluster",
    "Delivery": "machine.cluster",
    "mapa": "machine.cluster",
    "multicast": "machine.cluster",
    "GlobalMemory": "machine.region",
    "Operand": "machine.memory",
    "SharedMemory": "machine.memory",
    "tma_load": "machine.tma",
    "tma_prefetch": "machine.tma",
    "tma_store": "machine.tma",
    "Transfer": "machine.tma",
    "tma_load_bytes": "machine.tma",
    "tma_reduce": "machine.tma",
    "tma_store_bytes": "machine.tma",
    "Answer": "judge.descriptors.answers",
    "FoundDescriptor": "judge.descriptors.answers",
    "find_descriptors": "judge.descriptors.find",
    "ProductExplanation": "judge.product",
    "explain_product": "judge.product",
    "TilePicture": "judge.tile",
    "show_html": "show.tile",
    "tile_svg": "show.tile",
    "Choice": "planning.make",
    "plans": "planning.make",
    "Plan": "planning.make",
    "plan": "planning.make",
    "IllegalPlan": "planning.arrangement",
    "DeviceArray": "program.arrays",
    "Gpu": "judge.gpu",
    "Run": "judge.run",
    "launch_file": "evidence.launched",
    "launch_triton": "judge.triton",
    "BULK_TRAPS": "spec.bulk",
    "DISPUTES": "spec.disputes",
    "ERRATA": "spec.errata",
    "RULES": "spec.evidence",
    "Grade": "spec.grades",
    "Finding": "finding",
    "CheckFinding": "finding",
    "RunFinding": "finding",
    "Severity": "spec.findings",
    "Swizzle": "spec.swizzles",
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
    "Answer",
    "BulkTransfer",
    "CampaignReport",
    "CheckFinding",
    "Choice",
    "Cluster",
    "ClusterAddress",
    "CuteLayout",
    "Delivery",
    "DeviceArray",
    "Diagnosis",
    "DotProduct",
    "DotTerm",
    "Finding",
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
    "Operand",
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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'smemsim' has no attribute {name!r}")
    with default_state():  # modules compute their tables when they are imported
        value = getattr(importlib.import_module(f"smemsim.{_HOMES[name]}"), _SAME.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "__doc__", "__file__", "__path__"])
