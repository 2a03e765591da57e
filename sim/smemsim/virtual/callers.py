"""Compiled code in a Python process that has the device itself: its CUDA libraries are answered by that device.

A library that launches kernels of its own on torch's tensors (TVM's runtime, an extension in C++) calls `libcuda.so.1` or `libcudart`. Those of
smemsim ask the process that `clib/door.c` connects to, unless this process has the tensors: then they ask here.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import pathlib
import threading
from typing import Any

from smemsim.errors import InputError

__all__ = ["answer", "load"]


_ANSWER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
# Each thread's last one, which the caller reads when it has returned. Not `threading.local`: what a thread that Python did not start has there is gone by then.
_replies: dict[int, Any] = {}
_kept: list[Any] = []
_is_to_load: list[bool] = []  # once, where the process has no path with the libraries


def load() -> None:
    """Load the libraries when `answer` is called."""
    _is_to_load.append(True)


def _reply(message: int, size: int) -> int:
    from smemsim.virtual.local import session

    raw = session().reply(ctypes.string_at(message, size))
    reply = _replies[threading.get_ident()] = ctypes.create_string_buffer(raw, len(raw))
    return ctypes.addressof(reply)


@functools.cache
def answer() -> None:
    """Answer compiled code of this process from now on.

    Under `smemsim exec` the libraries are on the path of the linker. `load` says to load them now (pytest), so that whoever asks for them later by their
    names gets those: nothing where they are not there and no compiler can build them.
    """
    try:
        libraries = [ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL) for path in _libraries()]
        here = libraries[0].smemsim_answer_here
    except (OSError, AttributeError, IndexError, InputError):
        return
    here.argtypes = [ctypes.c_void_p]
    _kept.append(_ANSWER(_reply))
    here(ctypes.cast(_kept[0], ctypes.c_void_p))
    atexit.register(here, None)  # destructors of compiled code come later, and are told that CUDA is over


def _libraries() -> list[str | pathlib.Path]:
    if os.environ.get("SMEMSIM_SOCKET"):
        return ["libcuda.so.1"]
    if not _is_to_load:
        return []
    from smemsim.virtual.build import libraries

    folder = libraries()
    return [folder / name for name in ("libcuda.so.1", "libcudart.so.13", "libcudart.so.12")]
