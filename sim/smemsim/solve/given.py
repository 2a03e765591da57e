"""Matrices as people have them: raw bits, or numbers of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.arguments import shown
from smemsim.arithmetic.values import from_float64, raw_bits, to_float64
from smemsim.errors import InputError
from smemsim.spec.formats import ElementFormat

__all__ = ["element_bits"]


def element_bits(name: str, value: Any, fmt: ElementFormat) -> np.ndarray:
    """Raw bits of a type. Unsigned integers are raw bits; float arrays, and signed ones for integer types, are numbers, which the type must have.

    >>> from smemsim.spec.formats import FORMATS
    >>> element_bits("a", np.array([1.0, -2.0], np.float32), FORMATS["bf16"]).tolist()
    [16256, 49152]
    """
    try:
        array = np.asarray(value)
    except ValueError:  # rows of several lengths
        raise InputError(f"{name} = {shown(value)}: needs an array") from None
    if array.dtype.kind == "V" or (array.dtype.kind == "f" and array.dtype.name in fmt.numpy_names):  # ml_dtypes, also from a file
        if array.dtype.itemsize * 8 < fmt.bits:
            raise InputError(f"{name}: an array of {array.dtype}; {fmt.name} has {fmt.bits} bits")
        return raw_bits(name, np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}"), fmt)
    if array.dtype.kind == "i" and not fmt.is_float and fmt.signed:
        limit = 1 << fmt.bits - 1
        if array.size and (array.min() < -limit or array.max() >= limit):
            raise InputError(f"{name} has numbers outside {-limit} ... {limit - 1}: {fmt.name} has {fmt.bits} bits")
        return raw_bits(name, array.astype(np.int64) & (1 << fmt.bits) - 1, fmt)
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # signalling NaNs
            values = array.astype(np.float64)
        if not fmt.is_float:
            raise InputError(f"{name}: an array of {array.dtype}; needs whole numbers of {fmt.name}")
        bits = from_float64(values, fmt.name)
        with np.errstate(invalid="ignore"):
            off = (to_float64(bits, fmt.name) != values) & ~np.isnan(values)
        if off.any():
            raise InputError(f"{name} has {float(values[off][0])!r}, which is no {fmt.name}: round to {fmt.name} first, or give raw bits")
        return bits
    if array.dtype.kind not in "ui":
        raise InputError(f"{name} = {shown(value)}: needs an array of raw {fmt.name} bits, or of numbers")
    return raw_bits(name, array, fmt)
