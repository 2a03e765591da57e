"""Scalar functions compiled to numpy ufuncs, when they are first asked for. Importing this module does not import numba; `ufunc` does."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

__all__ = ["ufunc"]


@functools.cache
def ufunc(scalar: Callable[..., Any], *signatures: str) -> Any:
    """The ufunc of a scalar function of plain numbers, for numba signatures such as "uint32(float32,float32)".

    Functions of smemsim that it calls by name are compiled with it. Integers count modulo 2^64 there, so a function must not need more bits.

    >>> from smemsim.arithmetic.integers import bit_reverse
    >>> hex(ufunc(bit_reverse, "uint32(int64,int64)")(1, 32))
    '0x80000000'
    """
    from numba import vectorize

    return vectorize(list(signatures), cache=True)(_with_compiled_names(scalar))


def _with_compiled_names(scalar: Callable[..., Any]) -> Any:
    code = scalar.__code__
    names = dict(scalar.__globals__)
    for name in code.co_names:
        other = names.get(name)
        if isinstance(other, types.FunctionType) and other.__module__.startswith("smemsim."):
            names[name] = _inner(other)
    made = types.FunctionType(code, names, scalar.__name__)
    made.__module__, made.__qualname__ = scalar.__module__, scalar.__qualname__
    return made


@functools.cache
def _inner(scalar: Callable[..., Any]) -> Any:
    from numba import njit

    return njit(cache=True, nogil=True, error_model="numpy", inline="never")(_with_compiled_names(scalar))
