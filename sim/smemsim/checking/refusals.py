"""What to write instead of arguments that the driver refuses; each proposal is encoded before it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smemsim.descriptors.tensor_map import TensorMap
from smemsim.descriptors.tensor_map.arguments import member
from smemsim.errors import SmemsimError
from smemsim.spec.tensor_map import DATA_TYPES, LIMITS

__all__ = ["refusal_repair"]


def refusal_repair(raw: dict[str, Any], code: str, encode: Callable[..., TensorMap]) -> str:
    """A sentence, or nothing where no single argument helps or the refusal says it. `encode` builds the map with other arguments, or raises."""
    dtype = None if "raw" in raw else member("data_type", raw["data_type"], [])
    if dtype is None or "box_dim" not in raw:
        return ""
    box, strides = (list(x) if isinstance(x, list) else [x] for x in (raw["box_dim"], raw.get("global_strides", [])))
    bits = DATA_TYPES[dtype].bits
    tries: list[tuple[dict[str, Any], str]] = []
    if code == "T203":
        unit = LIMITS.inner_alignment * 8 // bits
        up = -(-max(box[0], 1) // unit) * unit
        tries = [({"box_dim": [n, *box[1:]]}, f"box_dim[0] = {n}, {n * bits // 8} B") for n in (up, up - unit) if n]
    elif code == "T204":
        wide = [-(-stride // LIMITS.address_alignment) * LIMITS.address_alignment for stride in strides]
        tries = [({"global_strides": wide}, f"global_strides = {wide}: rows padded to a multiple of {LIMITS.address_alignment} B")]
    for changed, text in tries:
        try:
            encode(**changed)
        except SmemsimError:
            continue
        return text
    return ""
