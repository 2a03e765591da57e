"""Tensor maps: the driver's verdict and its 128 bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import TensorMapError
from smemsim.spec.evidence import RULES
from smemsim.traces.format import Suite
from smemsim.traces.outcome import Case, Outcome, agree, differ

__all__ = ["MAP_COLUMNS", "TensorMapEncode", "recorded_map"]

ENUMS = ("data_type", "interleave", "swizzle", "l2_promotion", "oob_fill")
MAP_COLUMNS = {
    "tensor_map": 2, "rank": 1, "global_address": 1, "global_dim": 2, "global_strides": 2, "box_dim": 2, "element_strides": 2,
    "data_type": 1, "interleave": 1, "swizzle": 1, "l2_promotion": 1, "oob_fill": 1,
}  # fmt: skip


def recorded_map(suite: Suite, index: int) -> tuple[TensorMap, Outcome | None]:
    """The tensor map of a case from its arguments; an outcome when the 128 bytes are not those of the driver."""
    a = suite.arrays
    rank = int(a["rank"][index])

    def some(name: str, n: int) -> tuple[int, ...]:
        return tuple(a[name][index][:n].tolist())

    raw = a["tensor_map"][index].tobytes()
    try:
        tm = TensorMap.tiled(
            global_address=int(a["global_address"][index]),
            global_dim=some("global_dim", rank),
            global_strides=some("global_strides", rank - 1),
            box_dim=some("box_dim", rank),
            element_strides=some("element_strides", rank),
            arch=suite.arch,
            **{name: int(a[name][index]) for name in ENUMS},
        )
    except TensorMapError as e:
        return TensorMap.from_bytes(raw), Outcome(1, 1, f"the driver accepts the map | model: {e}", (), RULES["tensor_map.bits"], "map")
    outcome = _compare_bytes(raw, tm)
    return tm, outcome if outcome.differing else None


class TensorMapEncode:
    """What the driver's encode calls accept, and the 128 bytes they write."""

    columns = {  # noqa: RUF012
        "result": 1, "tensor_map": 2, "rank": 1, "global_address": 1, "global_dim": 2, "global_strides": 2, "element_strides": 2,
        "data_type": 1, "interleave": 1, "swizzle": 1, "l2_promotion": 1, "oob_fill": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.tiled = "box_dim" in suite.arrays

    def case(self, index: int) -> Case:
        """Compare the verdict, then the bytes, then what they decode to."""
        a = self.suite.arrays
        rank = int(a["rank"][index])
        arguments: dict[str, Any] = {name: int(a[name][index]) for name in (*ENUMS, "global_address")}
        lengths = {"global_dim": rank, "global_strides": max(rank - 1, 0), "element_strides": rank}
        if self.tiled:
            lengths["box_dim"] = rank
        else:
            lengths |= {"pixel_box_lower_corner": max(rank - 2, 0), "pixel_box_upper_corner": max(rank - 2, 0)}
            arguments |= {name: int(a[name][index]) for name in ("channels_per_pixel", "pixels_per_column")}
        arguments |= {name: tuple(a[name][index][:n].tolist()) for name, n in lengths.items()}
        make = TensorMap.tiled if self.tiled else TensorMap.im2col

        def title() -> str:
            return f"{make.__name__}({', '.join(f'{name}={value}' for name, value in arguments.items())})"

        result, raw = int(a["result"][index]), a["tensor_map"][index]
        try:
            tm, why = make(**arguments, arch=self.suite.arch), ""
        except TensorMapError as e:
            tm, why = None, str(e)
        verdict = RULES["tensor_map.verdict"]
        if (tm is None) != (result != 0):
            first = f"the driver {'refuses' if result else 'accepts'} | model {f'refuses: {why}' if tm is None else 'accepts'}"
            return Case(title, Outcome(1, 1, first, (), verdict, "verdict"))
        if tm is None:
            return Case(title, agree(1))
        return Case(title, _compare_bytes(raw.tobytes(), tm))


def _compare_bytes(raw: bytes, tm: TensorMap) -> Outcome:
    """Both ways at once: the bytes decode to the map, and no bit of them is one that the model would not have written."""
    if TensorMap.from_bytes(raw) == tm:
        return agree(len(raw))
    hardware, model, bits = np.frombuffer(raw, np.uint8), np.frombuffer(bytes(tm), np.uint8), RULES["tensor_map.bits"]
    outcome = differ(hardware, model, bits, "map bytes", lambda at: f"byte {at[0]}: driver {raw[at[0]]:#x} | model {model[at]:#x}", 1)
    if not outcome.differing:
        return Outcome(len(raw), len(raw), "the map decoded from the driver's bytes is another one", (), bits, "map bytes")
    return outcome
