"""Encode calls with null pointers, and with a map object at any address."""

from __future__ import annotations

from typing import Any

from smemsim.descriptors.tensor_map import TensorMap
from smemsim.descriptors.tensor_map.pointers import refused_nulls
from smemsim.errors import TensorMapError, TraceError
from smemsim.spec.evidence import RULES
from smemsim.traces.format import Suite
from smemsim.traces.outcome import Case, Outcome, agree

__all__ = ["EncodePointer"]

# What the trace calls the pointers of the call; besides them `what` says that all of them are given, to one call or the other.
NULLS = {"map": "tensor_map", "dims": "global_dim", "strides": "global_strides", "box": "box_dim", "steps": "element_strides"}
PLAIN = ("legal", "im2col_wide")


class EncodePointer:
    """One call of bf16 elements, legal but for a null pointer or for where the 128 bytes are to be written."""

    columns = {"what": 1, "alignment": 1, "rank": 1, "result": 1}  # noqa: RUF012

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        if unknown := set(suite.arrays["what"].tolist()) - {*NULLS, *PLAIN}:
            raise TraceError(f"{suite.path}: 'what' is {min(map(str, unknown))!r}: needs one of {', '.join((*PLAIN, *NULLS))}")

    def case(self, index: int) -> Case:
        """Compare the verdict."""
        a = self.suite.arrays
        what, alignment, rank, result = str(a["what"][index]), int(a["alignment"][index]), int(a["rank"][index]), int(a["result"][index])
        refused = self._refusals(what, rank)

        def title() -> str:
            call = "cuTensorMapEncodeIm2colWide" if what == "im2col_wide" else "cuTensorMapEncodeTiled"
            return f"{call}, rank {rank}, {f'{what} null' if what in NULLS else 'all legal'}, the map {alignment} B past a multiple of 256"

        if bool(refused) == bool(result):
            return Case(title, agree(1))
        first = f"the driver {'refuses' if result else 'accepts'} | model {f'refuses: {refused[0]}' if refused else 'accepts'}"
        return Case(title, Outcome(1, 1, first, (), RULES["tensor_map.verdict"], "verdict"))

    def _refusals(self, what: str, rank: int) -> list[str]:
        """Why the model refuses the call; the address of the map itself is nothing that it asks for."""
        dims, strides = (64, 4, 4, 4, 4)[:rank], (128, 512, 2048, 8192)[: max(rank - 1, 0)]
        same: dict[str, Any] = {"data_type": "bf16", "global_address": 1 << 20, "global_dim": dims, "global_strides": strides}
        same |= {"swizzle": "128B", "arch": self.suite.arch}
        try:
            if what == "im2col_wide":
                corners: dict[str, Any] = {"pixel_box_lower_corner_width": 0, "pixel_box_upper_corner_width": 0}
                TensorMap.im2col_wide(**same, **corners, channels_per_pixel=64, pixels_per_column=16)
            else:
                TensorMap.tiled(**same, box_dim=(64, 2, 2, 2, 2)[:rank])
        except TensorMapError as e:
            return e.violations
        return [str(sentence) for sentence in refused_nulls([NULLS[what]] if what in NULLS else [])]
