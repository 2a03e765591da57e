"""Traces of tensor maps: encode calls, pointers, tensormap.replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.base.errors import TraceError
from smemsim.core.finding import TensorMapError
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.tensor_map import TENSOR_MAP
from smemsim.core.words.tensor_map import TensorMap
from smemsim.core.words.tensor_map.replace import tensormap_replace
from smemsim.core.words.tensor_map.text import refused_nulls
from smemsim.evidence.format import Suite
from smemsim.evidence.kinds.common import Comparer
from smemsim.evidence.outcome import Case, Outcome, agree, differ

__all__ = ["MAP_COLUMNS", "EncodePointer", "TensorMapEncode", "TensormapReplace", "recorded_map"]


# ---- Tensor maps: the driver's verdict and its 128 bytes


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


class TensorMapEncode(Comparer):
    """The arguments that the driver's encode calls accept, and the 128 bytes they write."""

    columns = {  # noqa: RUF012
        "result": 1, "tensor_map": 2, "rank": 1, "global_address": 1, "global_dim": 2, "global_strides": 2, "element_strides": 2,
        "data_type": 1, "interleave": 1, "swizzle": 1, "l2_promotion": 1, "oob_fill": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        super().__init__(suite)
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
    """Compares both ways: the bytes decode to the map, and the model would have written every bit of them."""
    read = TensorMap.from_bytes(raw)
    if not tm.is_im2col_wide and read == tm:
        return agree(len(raw))
    # Hopper's driver makes a plain im2col map of a wide one: the bytes do not show which call made them.
    if tm.is_im2col_wide and bytes(tm) == raw and (read.call, read.pixel_box, read.unknown_bits) == ("im2col", tm.pixel_box, 0):
        return agree(len(raw))
    hardware, model, bits = np.frombuffer(raw, np.uint8), np.frombuffer(bytes(tm), np.uint8), RULES["tensor_map.bits"]
    outcome = differ(hardware, model, bits, "map bytes", lambda at: f"byte {at[0]}: driver {raw[at[0]]:#x} | model {model[at]:#x}", 1)
    if not outcome.differing:
        return Outcome(len(raw), len(raw), "the map decoded from the driver's bytes is another one", (), bits, "map bytes")
    return outcome


# ---- Encode calls with null pointers, and with a map object at any address


# What the trace calls the pointers of the call; besides them `what` says that all of them are given, to one call or the
# other.
NULLS = {"map": "tensor_map", "dims": "global_dim", "strides": "global_strides", "box": "box_dim", "steps": "element_strides"}
PLAIN = ("legal", "im2col_wide")


class EncodePointer(Comparer):
    """One legal call with bf16 elements, except for a null pointer or for the address of the 128 bytes."""

    columns = {"what": 1, "alignment": 1, "rank": 1, "result": 1}  # noqa: RUF012

    def __init__(self, suite: Suite) -> None:
        super().__init__(suite)
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


# ---- `tensormap.replace`: the 128 bytes before and after


WORD_BYTES = 4


class TensormapReplace(Comparer):
    """One instruction on one map, in global or shared memory."""

    columns = {"input": 2, "field": 1, "ordinal": 1, "value": 1, "space": 1, "output": 2}  # noqa: RUF012

    def __init__(self, suite: Suite) -> None:
        super().__init__(suite)
        a, size = suite.arrays, TENSOR_MAP.bits // 8
        for name in ("input", "output"):
            if a[name].dtype != np.uint8 or a[name].shape[1] != size:
                raise TraceError(f"{suite.path}: array '{name}' does not hold {size} bytes a case")
        if a["value"].dtype.kind != "u" or a["ordinal"].dtype.kind != "i":
            raise TraceError(f"{suite.path}: arrays 'value' and 'ordinal' hold whole numbers, 'ordinal' signed ones")

    def case(self, index: int) -> Case:
        """Compare the 128 bytes."""
        a = self.suite.arrays
        field, value, given = str(a["field"][index]), int(a["value"][index]), int(a["ordinal"][index])
        ordinal = None if given == -1 else given
        before, hardware = a["input"][index].tobytes(), a["output"][index]
        model = np.frombuffer(tensormap_replace(before, field, value, ordinal=ordinal, arch=self.suite.arch), np.uint8)

        def title() -> str:
            at = "" if ordinal is None else f"{ordinal}, "
            return f"tensormap.replace.tile.{field}.{a['space'][index]} [map], {at}{value:#x} on {before.hex()}"

        def describe(at: tuple[int, ...]) -> str:
            word = at[0] // WORD_BYTES
            span = slice(WORD_BYTES * word, WORD_BYTES * (word + 1))
            was, real, ours = (int.from_bytes(bytes(x[span]), "little") for x in (before, hardware, model))
            wrong = (real ^ ours) << 8 * WORD_BYTES * word
            fields = [name.lstrip("_") for name, f in TENSOR_MAP.fields.items() if f.raw(wrong)]
            return f"word {word} ({', '.join(fields)}), bits {real ^ ours:#010x}: of {was:#010x} hardware made {real:#010x} | model {ours:#010x}"

        return Case(title, differ(hardware, model, RULES["tensor_map.replace"], "map bytes", describe, 1))
