"""Video instructions on packed integers (PTX ISA 9.7.19): vadd, vsub, vavrg, vabsdiff, vmin, vmax and vset of two halves or four bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.gpu.alu.forms import Form, elementwise
from smemsim.gpu.registry import Step, implements, unmodelled
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker

__all__: list[str] = []

_OPERATIONS: dict[str, Any] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": None,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}
_COMPARISONS: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@implements(*(f"{name}{count}" for name in (*_OPERATIONS, "vset") for count in (2, 4)))
def build_video(i: Instruction, c: Linker) -> Step:
    """Element by element, exactly, then clamped with `.sat` or cut; with `.add` the sum of the results and of c. Selectors of bytes: none."""
    form = Form(i)
    count, name = int(i.op[-1]), i.op[:-1]
    saturate, accumulate = form.has("sat"), form.has("add")
    compare = form.one_of(*_COMPARISONS) if name == "vset" else None
    kinds = form.kinds(2)
    form.done(operands=(4,))
    if set(kinds) - {"u32", "s32"} or (name == "vset") != (compare is not None) or (saturate and accumulate):
        raise unmodelled(i)
    to, a_kind, b_kind = kinds if name != "vset" else ("u32", *kinds)
    bits = 32 // count
    parts = [np.dtype(f"{'i' if kind == 's32' else 'u'}{bits // 8}") for kind in (a_kind, b_kind)]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if to == "s32" else (0, (1 << bits) - 1)
    raw = np.dtype(f"u{bits // 8}")

    def elements(a: Any, part: np.dtype[Any]) -> Any:
        return np.ascontiguousarray(a)[..., None].view(part).astype(np.int64)

    def compute(a: Any, b: Any) -> Any:
        if compare is not None:
            return _COMPARISONS[compare](a, b).astype(np.int64)
        if name == "vavrg":  # rounded up in magnitude
            total = a + b
            return np.where(total < 0, -((1 - total) >> 1), (total + 1) >> 1)
        return _OPERATIONS[name](a, b)

    def run(a: Any, b: Any, d: Any) -> Any:
        result = compute(elements(a, parts[0]), elements(b, parts[1]))
        if saturate:
            result = np.clip(result, low, high)
        if accumulate:
            return (result.sum(axis=-1) + np.asarray(d)).astype(np.uint32)
        return np.ascontiguousarray(result.astype(raw)).view(np.uint32)[..., 0]

    return elementwise(c, i.operands[0], "u32", [(operand, "u32") for operand in i.operands[1:]], run)
