"""Tensor maps: the driver's verdict and its 128 bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import TensorMapError, TraceError
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


_OWN = {
    "tiled": ("box_dim",),
    "im2col": ("pixel_box_lower_corner", "pixel_box_upper_corner", "channels_per_pixel", "pixels_per_column"),
    "im2col_wide": ("pixel_box_lower_corner_width", "pixel_box_upper_corner_width", "channels_per_pixel", "pixels_per_column", "mode"),
}
_MAKERS: dict[str, Callable[..., TensorMap]] = {
    "tiled": TensorMap.tiled,
    "im2col": TensorMap.im2col,
    "im2col_wide": TensorMap.im2col_wide,
}


class TensorMapEncode:
    """What the driver's encode calls accept, and the 128 bytes they write."""

    columns = {  # noqa: RUF012
        "result": 1, "tensor_map": 2, "rank": 1, "global_address": 1, "global_dim": 2, "global_strides": 2, "element_strides": 2,
        "data_type": 1, "interleave": 1, "swizzle": 1, "l2_promotion": 1, "oob_fill": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.call = next((call for call, own in _OWN.items() if all(name in suite.arrays for name in own)), "")
        if not self.call:
            raise TraceError(
                f"{suite.path}: has the arguments of no encode call: needs {', or '.join(' and '.join(own) for own in _OWN.values())}"
            )

    def case(self, index: int) -> Case:
        """Compare the verdict, then the bytes, then what they decode to."""
        a = self.suite.arrays
        rank = int(a["rank"][index])
        shorter = {"global_strides": 1, "pixel_box_lower_corner": 2, "pixel_box_upper_corner": 2}
        arguments: dict[str, Any] = {}
        for name in (*ENUMS, "global_address", "global_dim", "global_strides", "element_strides", *_OWN[self.call]):
            value = a[name][index]
            arguments[name] = int(value) if value.ndim == 0 else tuple(value[: max(rank - shorter.get(name, 0), 0)].tolist())
        make = _MAKERS[self.call]

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
    read = TensorMap.from_bytes(raw)
    if not tm.is_im2col_wide and read == tm:
        return agree(len(raw))
    # Of a wide map Hopper's driver makes a plain im2col map: the bytes do not say which call made them.
    if tm.is_im2col_wide and bytes(tm) == raw and (read.call, read.pixel_box, read.unknown_bits) == ("im2col", tm.pixel_box, 0):
        return agree(len(raw))
    hardware, model, bits = np.frombuffer(raw, np.uint8), np.frombuffer(bytes(tm), np.uint8), RULES["tensor_map.bits"]
    outcome = differ(hardware, model, bits, "map bytes", lambda at: f"byte {at[0]}: driver {raw[at[0]]:#x} | model {model[at]:#x}", 1)
    if not outcome.differing:
        return Outcome(len(raw), len(raw), "the map decoded from the driver's bytes is another one", (), bits, "map bytes")
    return outcome
