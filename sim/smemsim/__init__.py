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
    from smemsim.addressing.cute import CuteLayout
    from smemsim.arithmetic.explain import DotProduct, DotTerm
    from smemsim.arithmetic.mma import dot_product, mma
    from smemsim.arithmetic.values import element_value, from_float64, to_float64
    from smemsim.campaign.report import CampaignReport
    from smemsim.campaign.sweep import sweep
    from smemsim.checking.report import CheckFinding, Report
    from smemsim.checking.scenario import check
    from smemsim.descriptors.instr import InstrDescriptor
    from smemsim.descriptors.instr_problems import INSTR_RULES
    from smemsim.descriptors.operand import operand_addresses
    from smemsim.descriptors.smem import LboMode, SmemDescriptor
    from smemsim.descriptors.tensor_map import TensorMap
    from smemsim.descriptors.tensor_map.replace import build_sequence, tensormap_replace
    from smemsim.descriptors.tensor_map.verdict import TENSOR_MAP_RULES
    from smemsim.diagnose.difference import Diagnosis, explain_difference
    from smemsim.errors import HardwareTrap, InputError, InternalError, SmemsimError, TensorMapError, TraceError, Unmodelled
    from smemsim.gpu.arrays import DeviceArray
    from smemsim.machine.bulk import BulkTransfer, bulk_bytes, bulk_copy, bulk_prefetch, bulk_reduce
    from smemsim.machine.cluster import ClusterAddress, Delivery, mapa, multicast
    from smemsim.machine.cluster_memory import Cluster
    from smemsim.machine.memory import Operand, SharedMemory
    from smemsim.machine.product import MmaResult
    from smemsim.machine.region import GlobalMemory
    from smemsim.machine.tcgen05 import tcgen05_mma
    from smemsim.machine.tma import tma_load, tma_prefetch, tma_store
    from smemsim.machine.tmem.access import TmemAccess
    from smemsim.machine.tmem.address import TmemAddress
    from smemsim.machine.tmem.copy import tcgen05_cp, tcgen05_shift
    from smemsim.machine.tmem.layout import AccumulatorLayout
    from smemsim.machine.tmem.memory import TensorMemory
    from smemsim.machine.tmem.operands import ATmemLayout, MetadataLayout
    from smemsim.machine.tmem.scales import ScaleLayout
    from smemsim.machine.tmem.whole import tmem_put, tmem_take
    from smemsim.machine.transfer import Transfer
    from smemsim.machine.values import tma_load_bytes, tma_reduce, tma_store_bytes
    from smemsim.machine.wgmma import wgmma, wgmma_registers
    from smemsim.planning.choices import Choice, plans
    from smemsim.planning.make import Plan, plan
    from smemsim.planning.wish import IllegalPlan
    from smemsim.running.findings import RunFinding
    from smemsim.running.gpu import Gpu
    from smemsim.running.run import Run
    from smemsim.running.triton import launch_triton
    from smemsim.scenario.build import Scenario
    from smemsim.show.page import show_html
    from smemsim.show.tile import TilePicture
    from smemsim.show.tile_svg import tile_svg
    from smemsim.solve.answer import Answer, FoundDescriptor
    from smemsim.solve.find import find_descriptors
    from smemsim.solve.product import ProductExplanation, explain_product
    from smemsim.spec.bulk import BULK_TRAPS
    from smemsim.spec.disputes import DISPUTES
    from smemsim.spec.errata import ERRATA
    from smemsim.spec.evidence import RULES, Grade
    from smemsim.spec.findings import Finding, Severity
    from smemsim.spec.swizzles import Swizzle

__version__ = "0.1.0"

_HOMES = {
    "CuteLayout": "addressing.cute",
    "tmem_put": "machine.tmem.whole",
    "tmem_take": "machine.tmem.whole",
    "AccumulatorLayout": "machine.tmem.layout",
    "ATmemLayout": "machine.tmem.operands",
    "MetadataLayout": "machine.tmem.operands",
    "ScaleLayout": "machine.tmem.scales",
    "TmemAccess": "machine.tmem.access",
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
    "check": "checking.scenario",
    "CheckFinding": "checking.report",
    "Report": "checking.report",
    "Scenario": "scenario.build",
    "INSTR_RULES": "descriptors.instr_problems",
    "InstrDescriptor": "descriptors.instr",
    "operand_addresses": "descriptors.operand",
    "LboMode": "descriptors.smem",
    "SmemDescriptor": "descriptors.smem",
    "TensorMap": "descriptors.tensor_map",
    "Diagnosis": "diagnose.difference",
    "explain_difference": "diagnose.difference",
    "HardwareTrap": "errors",
    "InputError": "errors",
    "InternalError": "errors",
    "SmemsimError": "errors",
    "TensorMapError": "errors",
    "TraceError": "errors",
    "Unmodelled": "errors",
    "build_sequence": "descriptors.tensor_map.replace",
    "tensormap_replace": "descriptors.tensor_map.replace",
    "TENSOR_MAP_RULES": "descriptors.tensor_map.verdict",
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
    "Transfer": "machine.transfer",
    "tma_load_bytes": "machine.values",
    "tma_reduce": "machine.values",
    "tma_store_bytes": "machine.values",
    "Answer": "solve.answer",
    "FoundDescriptor": "solve.answer",
    "find_descriptors": "solve.find",
    "ProductExplanation": "solve.product",
    "explain_product": "solve.product",
    "TilePicture": "show.tile",
    "show_html": "show.page",
    "tile_svg": "show.tile_svg",
    "Choice": "planning.choices",
    "plans": "planning.choices",
    "Plan": "planning.make",
    "plan": "planning.make",
    "IllegalPlan": "planning.wish",
    "DeviceArray": "gpu.arrays",
    "Gpu": "running.gpu",
    "Run": "running.run",
    "launch_triton": "running.triton",
    "RunFinding": "running.findings",
    "BULK_TRAPS": "spec.bulk",
    "DISPUTES": "spec.disputes",
    "ERRATA": "spec.errata",
    "RULES": "spec.evidence",
    "Grade": "spec.evidence",
    "Finding": "spec.findings",
    "Severity": "spec.findings",
    "Swizzle": "spec.swizzles",
}

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
    value = getattr(importlib.import_module(f"smemsim.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "__doc__", "__file__", "__path__"])
