"""Functions compiled by numba into object files. Importing this module imports numba."""

from __future__ import annotations

import contextlib
import functools
import platform
import types
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError

from smemsim.base.compiling.link import UNLINKED, Code, calls

__all__ = ["OPTIONS", "object_of_function", "object_of_ufunc"]


PRODUCTS, WIDE = "smemsim.core.arithmetic.loops", ("x86_64", "AMD64")
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# The same without reference counts of arguments. No function returns an argument, and counting takes longer than most
# of the functions.
UNCOUNTED = OPTIONS | {"_nrt": False}


@contextlib.contextmanager
def _vectors(function: Any) -> Iterator[None]:
    """LLVM keeps to half of a processor's widest registers by itself. Exact products are made nearly twice as fast in
    whole ones; other loops are too short for them.
    """
    codegen = numba.core.registry.cpu_target.target_context.codegen()
    before = codegen._tm
    if function.__module__ == PRODUCTS and platform.machine() in WIDE:
        codegen._tm = _whole_registers(codegen._get_host_cpu_name(), codegen._tm_features)
    try:
        yield
    finally:
        codegen._tm = before


@functools.cache
def _whole_registers(name: str, features: str) -> Any:
    """The option of LLVM for vectors as wide as the processor's registers."""
    return llvm.Target.from_default_triple().create_target_machine(cpu=name, features=f"{features},-prefer-256-bit", opt=3)


def _with_compiled_names(function: Any, of: Any, options: tuple[tuple[str, Any], ...]) -> Any:
    """A function whose names of functions that are compiled too are numba's of these; `of` gives the Python function of
    a value, or None.
    """
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        inner = of(names.get(name))
        if inner is not None:
            names[name] = _inner(inner, of, options)
    made = types.FunctionType(function.__code__, names, function.__name__)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


@functools.cache
def _inner(function: Any, of: Any, options: tuple[tuple[str, Any], ...]) -> Any:
    """A function as others call it: Python and C do not. It becomes a part of its callers. A call passes seven numbers
    for each array, which takes as long as the work on a row.
    """
    return numba.njit(**dict(options), forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        _with_compiled_names(function, of, options)
    )


def _dispatcher(function: Any, of: Any, options: dict[str, Any], **wrappers: bool) -> Any:
    return numba.njit(**options, **wrappers)(_with_compiled_names(function, of, tuple(options.items())))


def _compiled(function: Any, arguments: Any, of: Any, **wrappers: bool) -> Any:
    """The code that numba makes of a function for arguments of these types. It is uncounted, unless it makes arrays."""
    try:
        found = _dispatcher(function, of, UNCOUNTED, **wrappers)
        found.compile(arguments)
    except NumbaError:
        found = _dispatcher(function, of, OPTIONS, **wrappers)
        found.compile(arguments)
    return found


def object_of_function(function: Any, arguments: tuple[Any, ...], of: Any) -> Code | None:
    """The code for arguments of these types; None where numba keeps more than that."""
    signature = tuple(numba.typeof(argument) for argument in arguments)
    with _vectors(function):
        found = _compiled(function, signature, of, no_cfunc_wrapper=True).overloads[signature]
    if found.environment.consts or found.lifted or found.reload_init or found.objectmode:
        return None
    return _code(found.library, found.fndesc.llvm_cpython_wrapper_name, found.fndesc.env_name)


def _code(library: Any, name: str, environment: str) -> Code | None:
    """The object that is linked later. None if that is not possible."""
    image = library._get_compiled_object()
    with contextlib.suppress(*UNLINKED):
        return Code(image, name, environment, calls(image))
    return None


def object_of_ufunc(function: Any, signature: str, of: Any) -> Code | None:
    """The code of a ufunc's loop for one signature; None where numba keeps more than that."""
    from numba.np.ufunc.wrappers import build_ufunc_wrapper

    (found,) = _compiled(function, signature, of, no_cpython_wrapper=True, no_cfunc_wrapper=True).overloads.values()
    if found.environment.consts or found.lifted or found.reload_init or found.objectmode:
        return None
    with global_compiler_lock:
        info = build_ufunc_wrapper(found.library, found.target_context, found.fndesc.llvm_func_name, found.signature, False, found)
        info.library.enable_object_caching()
        info.library.get_pointer_to_function(info.name)
    return _code(info.library, info.name, found.fndesc.env_name)


def plain_function(function: Any, of: Any) -> Any:
    """numba's own, which keeps nothing."""
    return _dispatcher(function, of, OPTIONS)


def plain_ufunc(function: Any, signatures: tuple[str, ...], of: Any) -> Any:
    """numba's own ufunc, which keeps nothing."""
    return numba.vectorize(list(signatures))(_with_compiled_names(function, of, tuple(OPTIONS.items())))
