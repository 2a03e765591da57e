"""Every kind of trace against the model: one class a kind, each comparing one case at a time."""

from __future__ import annotations

from smemsim.traces.kinds.common import Comparer
from smemsim.traces.kinds.operand import WgmmaOperand
from smemsim.traces.kinds.tensor_map import TensorMapEncode
from smemsim.traces.kinds.tiles import ReferenceGemm, TmaWgmma
from smemsim.traces.kinds.transfer import TmaStore, TmaTransfer
from smemsim.traces.kinds.values import TmaValues

__all__ = ["KINDS", "Comparer"]

KINDS: dict[str, type[Comparer]] = {
    "tensor_map_encode": TensorMapEncode,
    "wgmma_operand": WgmmaOperand,
    "tma_load": TmaTransfer,
    "tma_store": TmaStore,
    "tma_values": TmaValues,
    "tma_wgmma": TmaWgmma,
    "reference_gemm": ReferenceGemm,
}
