"""NVRTC and nvJitLink of `cuda.bindings` leave PTX in their cubins in a process that was not started by `smemsim exec`
(`clib/audit.c`).

cuda.bindings asks the linker for the libraries' functions (`dlsym`). The word with that function's address in its
modules' tables becomes that of one which hands out two of them with the option for line information.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from typing import Any

from smemsim.base.errors import InputError
from smemsim.virtual.build import libraries
from smemsim.virtual.linkage import slots, write

__all__ = ["MODULES", "install"]


MODULES = tuple(f"cuda.bindings.{name}" for name in ("_internal.nvrtc", "_internal.nvjitlink", "_bindings.cynvrtc"))
_kept: list[Any] = []
_done: set[int] = set()


def install() -> None:
    """Change the modules that were imported; nothing where there is no C compiler, or their
    tables are not as expected.
    """
    with contextlib.suppress(InputError, OSError, ValueError, RuntimeError, StopIteration):
        for name in MODULES:
            path = getattr(sys.modules.get(name), "__file__", None)
            for at in slots(os.path.basename(path), "dlsym") if path else ():
                if at not in _done:
                    write(at, _function())
                    _done.add(at)


def _function() -> int:
    if not _kept:
        _kept.append(ctypes.CDLL(str(libraries() / "libsmemsim-audit.so")))
    return ctypes.cast(_kept[0].smemsim_dlsym, ctypes.c_void_p).value or 0
