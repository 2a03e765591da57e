"""How PTX types lie in registers: the numpy types."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from smemsim.base.errors import InputError

__all__ = ["DTYPES", "UNSIGNED", "bits_of", "dtype_of", "storage"]


DTYPES: dict[str, type[np.generic]] = {
    "pred": np.bool_,
    **{f"u{n}": getattr(np, f"uint{n}") for n in (8, 16, 32, 64)},
    **{f"s{n}": getattr(np, f"int{n}") for n in (8, 16, 32, 64)},
    **{f"b{n}": getattr(np, f"uint{n}") for n in (8, 16, 32, 64)},
    "f32": np.float32,
    "f64": np.float64,
    **dict.fromkeys(("f16", "bf16", "e4m3x2", "e5m2x2", "ue8m0x2", "e2m3x2", "e3m2x2", "s2f6x2"), np.uint16),
    **dict.fromkeys(("f16x2", "bf16x2", "tf32", "u16x2", "s16x2", "e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4"), np.uint32),
    "e2m1x2": np.uint8,
    "e2m1x4": np.uint16,
    "f32x2": np.uint64,
}
UNSIGNED: dict[int, type[np.generic]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@functools.cache
def dtype_of(name: str) -> np.dtype[Any]:
    """The numpy type that an instruction computes with for a PTX type."""
    if name not in DTYPES:
        raise InputError(f".{name}: not a type that registers have")
    return np.dtype(DTYPES[name])


@functools.cache
def bits_of(name: str) -> int:
    """Bits of a PTX type; 1 for predicates."""
    return 1 if name == "pred" else 128 if name == "b128" else dtype_of(name).itemsize * 8


@functools.cache
def storage(name: str) -> np.dtype[Any]:
    """The numpy type of a register that is declared with a PTX type (of each half of .b128)."""
    if name == "b128":
        return np.dtype(np.uint64)
    kind = dtype_of(name)
    return kind if kind == np.bool_ else np.dtype(UNSIGNED[max(kind.itemsize, 1)])
