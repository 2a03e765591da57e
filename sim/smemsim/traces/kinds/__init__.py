"""Every kind of trace against the model: one class a kind, each comparing one case at a time."""

from __future__ import annotations

from smemsim.traces.kinds.bulk import BulkCopy, BulkReduce, ClusterAddresses, Multicast
from smemsim.traces.kinds.common import Comparer
from smemsim.traces.kinds.compiled import CompiledMma
from smemsim.traces.kinds.dots import WgmmaDots
from smemsim.traces.kinds.launch import LaunchOutputs
from smemsim.traces.kinds.operand import WgmmaOperand
from smemsim.traces.kinds.pointers import EncodePointer
from smemsim.traces.kinds.reductions import TmaLoadBytes, TmaReduce
from smemsim.traces.kinds.replace import TensormapReplace
from smemsim.traces.kinds.smem_dump import SmemDump
from smemsim.traces.kinds.tcgen05_alloc import Tcgen05Alloc, Tcgen05Contention
from smemsim.traces.kinds.tcgen05_dot import Tcgen05Dot
from smemsim.traces.kinds.tcgen05_gemm import Tcgen05Gemm
from smemsim.traces.kinds.tcgen05_operand import Tcgen05Operand
from smemsim.traces.kinds.tensor_map import TensorMapEncode
from smemsim.traces.kinds.tensor_memory import TmemLayout
from smemsim.traces.kinds.tensor_memory_moves import Tcgen05Copy, TmemAccesses, TmemShift
from smemsim.traces.kinds.tensor_memory_operands import TmemMetadata, TmemOperand, TmemScale
from smemsim.traces.kinds.tiles import ReferenceGemm, TmaWgmma
from smemsim.traces.kinds.tma_blackwell import TmaBlackwell, TmaPair
from smemsim.traces.kinds.transfer import AnyTransfer, TmaStore, TmaTransfer
from smemsim.traces.kinds.values import TmaValues
from smemsim.traces.kinds.wgmma import WgmmaMma

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
    "tcgen05_contention": Tcgen05Contention,
    "tcgen05_dot": Tcgen05Dot,
    "tcgen05_gemm": Tcgen05Gemm,
    "tma_blackwell": TmaBlackwell,
    "tma_pair": TmaPair,
}
