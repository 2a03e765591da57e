"""Every kind of trace against the model: one class a kind, each comparing one case at a time."""

from __future__ import annotations

from smemsim.evidence.kinds.bulk import BulkCopy, BulkReduce, ClusterAddresses, Multicast
from smemsim.evidence.kinds.common import Comparer
from smemsim.evidence.kinds.compiled import CompiledMma
from smemsim.evidence.kinds.counters import AccessCounters
from smemsim.evidence.kinds.early_use import EarlyUse
from smemsim.evidence.kinds.hang import Hang
from smemsim.evidence.kinds.launch import LaunchOutputs
from smemsim.evidence.kinds.launch_counters import LaunchCounters
from smemsim.evidence.kinds.smem_dump import SmemDump
from smemsim.evidence.kinds.tcgen05 import Tcgen05Alloc, Tcgen05Commit, Tcgen05Contention, Tcgen05Dot, Tcgen05Gemm, Tcgen05Operand
from smemsim.evidence.kinds.tensor_map import EncodePointer, TensorMapEncode, TensormapReplace
from smemsim.evidence.kinds.tensor_memory import Tcgen05Copy, TmemAccesses, TmemLayout, TmemMetadata, TmemOperand, TmemScale, TmemShift
from smemsim.evidence.kinds.texture import TextureSamples
from smemsim.evidence.kinds.transfer import AnyTransfer, TmaBlackwell, TmaLoadBytes, TmaPair, TmaReduce, TmaStore, TmaTransfer, TmaValues
from smemsim.evidence.kinds.wgmma import ReferenceGemm, TmaWgmma, WgmmaDots, WgmmaMma, WgmmaOperand

__all__ = ["KINDS", "Comparer"]


KINDS: dict[str, type[Comparer]] = {
    "tensor_map_encode": TensorMapEncode,
    "encode_pointer": EncodePointer,
    "tensormap_replace": TensormapReplace,
    "wgmma_operand": WgmmaOperand,
    "wgmma_mma": WgmmaMma,
    "wgmma_dots": WgmmaDots,
    "tma_load": TmaTransfer,
    "tma_store": TmaStore,
    "tma_transfer": AnyTransfer,
    "tma_reduce": TmaReduce,
    "tma_load_bytes": TmaLoadBytes,
    "tma_values": TmaValues,
    "tma_wgmma": TmaWgmma,
    "reference_gemm": ReferenceGemm,
    "bulk_copy": BulkCopy,
    "bulk_reduce": BulkReduce,
    "multicast": Multicast,
    "cluster_address": ClusterAddresses,
    "smem_dump": SmemDump,
    "launch": LaunchOutputs,
    "hang": Hang,
    "early_use": EarlyUse,
    "access_counters": AccessCounters,
    "launch_counters": LaunchCounters,
    "texture": TextureSamples,
    "compiled_mma": CompiledMma,
    "tcgen05_operand": Tcgen05Operand,
    "tmem_layout": TmemLayout,
    "tmem_operand": TmemOperand,
    "tmem_scale": TmemScale,
    "tmem_metadata": TmemMetadata,
    "tmem_access": TmemAccesses,
    "tcgen05_copy": Tcgen05Copy,
    "tmem_shift": TmemShift,
    "tcgen05_alloc": Tcgen05Alloc,
    "tcgen05_commit": Tcgen05Commit,
    "tcgen05_contention": Tcgen05Contention,
    "tcgen05_dot": Tcgen05Dot,
    "tcgen05_gemm": Tcgen05Gemm,
    "tma_blackwell": TmaBlackwell,
    "tma_pair": TmaPair,
}
