"""`tensormap.replace`: the 128 bytes before and after."""

from __future__ import annotations

import numpy as np

from smemsim.descriptors.tensor_map.replace import tensormap_replace
from smemsim.errors import TraceError
from smemsim.spec.evidence import RULES
from smemsim.spec.tensor_map import TENSOR_MAP
from smemsim.traces.format import Suite
from smemsim.traces.outcome import Case, differ

__all__ = ["TensormapReplace"]

WORD_BYTES = 4


class TensormapReplace:
    """One instruction on one map, in global or shared memory."""

    columns = {"input": 2, "field": 1, "ordinal": 1, "value": 1, "space": 1, "output": 2}  # noqa: RUF012

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
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
