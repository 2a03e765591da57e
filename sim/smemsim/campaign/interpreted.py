"""The compiled loops without the compiler: the same source run by Python, one number at a time."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

__all__ = ["interpreted"]


class _Wide:
    """numpy, whose 16-bit integers have 64 bits: the compiler computes with 64 where numpy would stay with 16."""

    int16 = np.int64

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def _divides_bytes(function: types.FunctionType) -> bool:
    """Does a function make arrays at addresses that it chooses? Then the sizes of their elements count: it has numpy as
    it is.
    """
    return "ctypes" in function.__code__.co_names


def interpreted(module: types.ModuleType) -> types.SimpleNamespace:
    """A module whose compiled functions are the Python functions that they were compiled from, and call each other as
    such.

    >>> from smemsim.core.layout import loops
    >>> interpreted(loops).swizzle(128, 0, 7, 4)
    144
    """
    scope: dict[str, Any] = dict(vars(module)) | {"np": _Wide()}
    for name, value in vars(module).items():
        if hasattr(value, "py_func"):
            original = value.py_func
            own = vars(module) if _divides_bytes(original) else scope
            scope[name] = types.FunctionType(original.__code__, own, original.__name__, original.__defaults__)
    return types.SimpleNamespace(**{name: value for name, value in scope.items() if not name.startswith("__")})
