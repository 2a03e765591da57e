"""Compiled code in a Python process that has the device itself: its CUDA libraries are answered by that device.

A library that launches kernels of its own on torch's tensors (TVM's runtime, an extension in C++) calls `libcuda.so.1` or `libcudart`. Those of
smemsim ask the process that `clib/door.c` connects to, unless this process has the tensors: then they ask here.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import threading
from typing import Any

__all__ = ["answer"]


_ANSWER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_replies = threading.local()  # each thread's last one, which the caller reads when it has returned
_kept: list[Any] = []


def _reply(message: int, size: int) -> int:
    from smemsim.virtual.local import session

    raw = session().reply(ctypes.string_at(message, size))
    _replies.last = ctypes.create_string_buffer(raw, len(raw))
    return ctypes.addressof(_replies.last)


@functools.cache
def answer() -> None:
    """Answer compiled code of this process from now on: under `smemsim exec`, which has the libraries on the path of the linker."""
    if not os.environ.get("SMEMSIM_SOCKET"):
        return
    try:
        here = ctypes.CDLL("libcuda.so.1").smemsim_answer_here
    except (OSError, AttributeError):
        return
    here.argtypes = [ctypes.c_void_p]
    _kept.append(_ANSWER(_reply))
    here(ctypes.cast(_kept[0], ctypes.c_void_p))
    atexit.register(here, None)  # destructors of compiled code come later, and are told that CUDA is over
