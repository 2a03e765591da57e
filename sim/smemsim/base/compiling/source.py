"""The inputs of a compiled function: its own code, the functions and numbers that it names,
and those that they name.
"""

from __future__ import annotations

import functools
import hashlib
import types
from typing import Any

__all__ = ["digest", "python_of"]


def python_of(value: Any) -> Any:
    """The Python function of this package that a name in compiled code means; None for other names."""
    function = getattr(value, "py_func", value)
    return function if isinstance(function, types.FunctionType) and function.__module__.startswith("smemsim.") else None


@functools.cache
def digest(function: types.FunctionType) -> str:
    """The hexadecimal digest of all of it: another one where any line of it does something else.

    >>> from smemsim.core.arithmetic.integers import bit_reverse, leading_zeros
    >>> digest(bit_reverse) == digest(bit_reverse), digest(bit_reverse) == digest(leading_zeros)
    (True, False)
    """
    return hashlib.sha256("\n".join(_lines(function, set())).encode()).hexdigest()


def _lines(function: types.FunctionType, seen: set[Any]) -> list[str]:
    seen.add(function)
    code = function.__code__
    found = [function.__qualname__, *_code(code, function.__doc__)]
    for name in _names(code):
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        inner = python_of(value)
        if inner is not None:
            found += [] if inner in seen else _lines(inner, seen)
        elif not isinstance(value, (types.ModuleType, type)):
            whole = f"{value.dtype} {value.shape} {value.tobytes().hex()}" if hasattr(value, "tobytes") else repr(value)
            found.append(f"{name} {type(value).__name__} {whole}")
    return found


def _code(code: types.CodeType, said: str | None = None) -> list[str]:
    """The meaning of code, with the comprehensions in it. Its place and its docstring (`said`) do not count."""
    found = [code.co_code.hex(), repr(code.co_names)]
    for constant in code.co_consts[1:] if said else code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _code(constant)
        else:
            found.append(repr(constant))
    return found


def _names(code: types.CodeType) -> list[str]:
    inner = [name for constant in code.co_consts if isinstance(constant, types.CodeType) for name in _names(constant)]
    return [*code.co_names, *inner]
