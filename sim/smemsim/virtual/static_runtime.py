"""The functions of `cuda.bindings.runtime`, in its own process, are those of smemsim's `libcudart`.

The package cuda.bindings has NVIDIA's static runtime inside one extension module. That module passes its functions to
the others as capsules (Cython's `__pyx_capi__`). Functions of the same name replace them before the others take them,
like in a program linked with `-cudart shared`. The driver of cuda.bindings needs no change: it finds `libcuda.so.1`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from smemsim.virtual.errors import NOT_SUPPORTED

__all__ = ["install"]


MODULES = tuple(
    f"cuda.bindings.{name}" for name in ("_internal.runtime", "_internal.runtime_ptds", "_bindings.cyruntime", "_bindings.cyruntime_ptds")
)
LIBRARIES = ("libcudart.so.13", "libcudart.so.12")  # of smemsim, first on the linker's path under `smemsim exec`
_SAME = {"_getLocalRuntimeVersion": "cudaRuntimeGetVersion"}
_kept: list[Any] = []  # capsules whose names are still used


def install() -> None:
    """Hand out smemsim's functions in the modules that were imported. Nothing outside `smemsim exec`, where its runtime
    is not there.
    """
    ours = _runtime()
    if ours is None:
        return
    for name in MODULES:
        functions = getattr(sys.modules.get(name), "__pyx_capi__", None)
        if functions:
            _replace(functions, ours)


def _runtime() -> ctypes.CDLL | None:
    if not os.environ.get("SMEMSIM_SOCKET"):
        return None
    version = getattr(sys.modules.get("cuda.bindings"), "__version__", "13")
    wanted = f"libcudart.so.{str(version).partition('.')[0]}"
    for name in (wanted, *LIBRARIES):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _replace(functions: dict[str, Any], ours: ctypes.CDLL) -> None:
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = ctypes.c_void_p, [ctypes.py_object]
    python.PyCapsule_New.restype, python.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    for name, theirs in list(functions.items()):
        if not name.startswith(("_cuda", "_getLocal")):
            continue
        wanted = _SAME.get(name, name.removeprefix("_"))
        function = getattr(ours, wanted, None) or _missing(wanted)
        _kept.append((theirs, function))  # the name of theirs says the signature, which the others check
        at = ctypes.cast(function, ctypes.c_void_p)
        functions[name] = python.PyCapsule_New(at, python.PyCapsule_GetName(theirs), None)


def _missing(name: str) -> Any:
    """Stands for a function of a runtime that is newer than smemsim's: it is named once, and answers that it is not
    supported.
    """
    told: list[str] = []

    def answer() -> int:
        if not told:
            told.append(name)
            print(f"smemsim: {name} is not there in the virtual GPU; it answers 801 (not supported)", file=sys.stderr)
        return NOT_SUPPORTED

    return ctypes.CFUNCTYPE(ctypes.c_int)(answer)
