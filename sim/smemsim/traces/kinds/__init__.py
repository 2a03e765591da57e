"""Every kind of trace against the model: one class a kind, each comparing one case at a time."""

from __future__ import annotations

from smemsim.traces.kinds.bulk import BulkCopy, BulkReduce, ClusterAddresses, Multicast
from smemsim.traces.kinds.common import Comparer
from smemsim.traces.kinds.compiled import CompiledMma
from smemsim.traces.kinds.operand import WgmmaOperand
from smemsim.traces.kinds.pointers import EncodePointer
from smemsim.traces.kinds.reductions import TmaLoadBytes, TmaReduce
from smemsim.traces.kinds.replace import TensormapReplace
from smemsim.traces.kinds.tensor_map import TensorMapEncode
from smemsim.traces.kinds.tiles import ReferenceGemm, TmaWgmma
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
    "compiled_mma": CompiledMma,
}
