"""Load machine code that numba has made, without numba: importing numba takes longer than most commands.

The code calls a few C functions from three extension modules of numba. These modules are loaded alone, and LLVM links
the code with them (`Code`).
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import functools
import importlib
import importlib.machinery
import importlib.util
import pathlib
import re
import sys
from typing import Any, NamedTuple

__all__ = ["UNLINKED", "Code", "calls", "host", "link_function", "link_ufunc", "versions"]


EXTENSIONS = {"helpers": "_helperlib", "functions": "_dynfunc", "runtime": "core.runtime._nrt_python"}
_FORM = "uncounted, what it calls inside"  # of the code that `build` makes
# what another numba or LLVM than those tried may answer with
UNLINKED = (ImportError, AttributeError, RuntimeError, OSError)
_UFUNC_FROM_LOOPS = 1  # its place in numpy's table of C functions, numpy/_core/code_generators/numpy_api.py


class Code(NamedTuple):
    """An object file; the names in it of the function that Python calls, or of a ufunc's loop, and of its environment;
    what it `calls`.
    """

    image: bytes
    name: str
    environment: str
    calls: tuple[str, ...]


@functools.cache
def versions() -> str:
    """The versions that machine code depends on, besides its source and the processor."""
    names = " ".join(f"{name} {_version(name)}" for name in ("numba", "llvmlite"))
    return f"{names} {sys.implementation.cache_tag} {sys.platform} {_FORM}"


def _version(name: str) -> str:
    """The version of a distribution, as its own file says it: importing importlib.metadata takes longer than a command
    may, and numba longer than all others.
    """
    found = importlib.util.find_spec(name)
    for folder in (found.submodule_search_locations if found is not None else None) or ():
        with contextlib.suppress(OSError):
            said = re.search(
                r"""^(?: "version": |version_version = )["']([^"']+)["']""",
                pathlib.Path(folder, "_version.py").read_text(encoding="utf-8"),
                re.MULTILINE,
            )
            if said:
                return said[1]
    from importlib import metadata

    return metadata.version(name)


@functools.cache
def host() -> str:
    """The processor, as LLVM names it and what it can do."""
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def _extension(name: str) -> Any:
    """An extension module of numba's, without importing numba."""
    whole = f"numba.{name}"
    if whole in sys.modules:
        return sys.modules[whole]
    found = importlib.util.find_spec("numba")
    if found is None or not found.submodule_search_locations:
        raise ImportError("numba is not installed")
    *folders, own = name.split(".")
    folder = pathlib.Path(found.submodule_search_locations[0], *folders)
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = folder / f"{own}{suffix}"
        if path.exists():
            spec = importlib.util.spec_from_file_location(own, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise ImportError(f"numba has no {name}")


@functools.cache
def _functions() -> Any:
    """numba's module of functions and their environments."""
    return _extension(EXTENSIONS["functions"])


@functools.cache
def _symbols() -> dict[str, int]:
    """The addresses of what numba's code calls (numba/core/base.py, numba/core/runtime/nrt.py)."""
    helpers, runtime = _extension(EXTENSIONS["helpers"]), _extension(EXTENSIONS["runtime"])
    runtime.memsys_use_cpython_allocator()
    found = {"_Py_NoneStruct": id(None)}
    for module in (helpers, _functions()):
        found |= {f"numba_{name}": address for name, address in module.c_helpers.items()}
    found |= {name if name.startswith("_") else f"NRT_{name}": address for name, address in runtime.c_helpers.items()}
    for name, value in vars(builtins).items():
        if isinstance(value, type) and issubclass(value, BaseException):
            found[f"PyExc_{name}"] = id(value)
    return found


def calls(image: bytes) -> tuple[str, ...]:
    """The names in an object file that numba's code may call. Linking is six times as fast if LLVM knows only these."""
    return tuple(name for name in _symbols() if name.encode() in image)


@functools.cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=1, jit=True)
    return llvm.create_lljit_compiler(target, use_jit_link=False, suppress_errors=True)


_alive: list[Any] = []  # what linked functions are in


def _linked(code: Code) -> tuple[int, int]:
    """The addresses of its function and its environment. Raises RuntimeError for one that cannot be linked."""
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_object_img(code.image).add_current_process()
    for name in code.calls:
        builder = builder.import_symbol(name, _symbols()[name])
    library = builder.export_symbol(code.name).export_symbol(code.environment).link(_linker(), f"loop{len(_alive)}")
    _alive.append(library)
    return library[code.name], library[code.environment]


def _set_environment(address: int, scope: dict[str, Any]) -> Any:
    environment = _functions().Environment(scope)
    _alive.append(environment)
    ctypes.c_void_p.from_address(address).value = id(environment)
    return environment


def link_function(code: Code, module: Any, title: str) -> Any:
    """The function that Python calls."""
    at, where = _linked(code)
    made = _set_environment(where, {"__name__": module.__name__})
    return _functions().make_function(module, title, "", at, made, ())


def link_ufunc(loops: list[tuple[Code, tuple[str, ...]]], title: str) -> Any:
    """A ufunc of loops, each with its types, the result's last."""
    import numpy as np

    umath: Any = importlib.import_module("numpy._core._multiarray_umath")

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(get(umath._UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p))
    made = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, *[ctypes.c_int] * 4, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int
    )(table[_UFUNC_FROM_LOOPS])  # fmt: skip
    count, arguments = len(loops), len(loops[0][1]) - 1
    addresses = (ctypes.c_void_p * count)()
    for number, (code, _) in enumerate(loops):
        addresses[number], where = _linked(code)
        _set_environment(where, {"__name__": title})
    data = (ctypes.c_void_p * count)()
    types = bytes(np.dtype(name).num for _, names in loops for name in names)
    text = title.encode()
    _alive.append((addresses, data, types, text))
    return made(ctypes.addressof(addresses), ctypes.addressof(data), types, count, arguments, 1, -1, text, text, 0)
