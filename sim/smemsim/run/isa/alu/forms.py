"""Shared parts of the builders of this package: element-wise steps, packed types included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smemsim.core.ptx.module import Operand
from smemsim.run.isa.registers import DTYPES, Read, Write
from smemsim.run.isa.registry import Plain

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = ["PACKED", "Elementwise", "elementwise", "step"]


Elementwise: TypeAlias = Callable[..., Any]  # arrays of a result's operands -> its array

# The element type of packed types, and how many there are; f16x2 and the like are computed as that many elements.
PACKED: dict[str, tuple[str, int]] = {
    "f16x2": ("f16", 2), "bf16x2": ("bf16", 2), "u16x2": ("u16", 2), "s16x2": ("s16", 2), "f32x2": ("f32", 2),
}  # fmt: skip


def step(write: Write, reads: Sequence[Read], f: Elementwise) -> Plain:
    """write(f(operands)) as a step."""
    match tuple(reads):
        case (a,):
            return lambda x: write(x, f(a(x)))
        case (a, b):
            return lambda x: write(x, f(a(x), b(x)))
        case (a, b, c):
            return lambda x: write(x, f(a(x), b(x), c(x)))
    every = tuple(reads)
    return lambda x: write(x, f(*[read(x) for read in every]))


def elementwise(c: Linker, to: Operand, to_kind: str, sources: Sequence[tuple[Operand, str]], f: Elementwise) -> Plain:
    """A step that computes `f` on elements; operands and results of packed types as arrays with a second axis, of
    their elements.

    A result whose dtype is wider than the type is cut to its low bits.
    """
    if to_kind not in PACKED:
        return step(c.write(to, to_kind), [c.read(operand, kind) for operand, kind in sources], f)
    element, _ = PACKED[to_kind]
    reads = [_elements(c.read(operand, kind), kind) for operand, kind in sources]
    put, whole, part = c.write(to, to_kind), np.dtype(DTYPES[to_kind]), np.dtype(DTYPES[element])

    def write(x: Wave, values: Any) -> None:
        parts = np.ascontiguousarray(values)
        if parts.dtype.itemsize != part.itemsize:
            parts = parts.astype(f"u{part.itemsize}")
        put(x, parts.view(whole)[..., 0])

    return step(write, reads, f)


def _elements(read: Read, kind: str) -> Read:
    if kind not in PACKED:
        return lambda x: np.asarray(read(x))[..., None]
    part = np.dtype(DTYPES[PACKED[kind][0]])
    return lambda x: np.ascontiguousarray(read(x))[..., None].view(part)
