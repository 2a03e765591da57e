"""Compiled code in a Python process that has the device itself: its CUDA libraries are answered by that device.

A library that launches kernels of its own on torch's tensors (TVM's runtime, an extension in C++) calls `libcuda.so.1`
or `libcudart`. Those of smemsim ask the process that `clib/door.c` connects to, unless this process has the tensors:
then they ask here.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import threading
from typing import Any

from smemsim.base.errors import InputError
from smemsim.virtual.turns import once

__all__ = ["answer", "load", "make_current", "renew"]


_ANSWER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
# Each thread's last one, which the caller reads when it has returned. Not `threading.local`: what a thread that Python
# did not start has there is gone by then.
_replies: dict[int, Any] = {}
_kept: list[Any] = []
_answered: list[ctypes.CDLL] = []  # the driver, once it asks here
_loaded: list[ctypes.CDLL] = []  # if the linker of the process has no path to the libraries


def load() -> None:
    """Load the libraries, if they exist, so that later loads by name get these: the linker of this process has no path
    to them.
    """
    from smemsim.virtual.build import libraries

    with contextlib.suppress(OSError, InputError):
        folder = libraries()
        _loaded.extend(
            ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)
            for name in ("libcuda.so.1", "libcudart.so.13", "libcudart.so.12", "libnvidia-ml.so.1")
        )


def make_current() -> None:
    """Compiled code that this thread calls has a context, as where torch has begun with the card."""
    for library in _answered[:1]:
        library.smemsim_make_current()


def renew() -> None:
    """Let the device that these libraries have in another process work again, if they have one."""
    for library in _loaded[:1]:
        library.smemsim_renew()


def _reply(message: int, size: int) -> int:
    from smemsim.virtual.local import session

    raw = session().reply(ctypes.string_at(message, size))
    reply = _replies[threading.get_ident()] = ctypes.create_string_buffer(raw, len(raw))
    return ctypes.addressof(reply)


@once
def answer() -> None:
    """Answer calls of compiled code in this process from now on.

    Under `smemsim exec` the libraries are on the path of the linker; elsewhere `load` was called.
    """
    if not _loaded and not os.environ.get("SMEMSIM_SOCKET"):
        return
    try:
        libraries = _loaded or [ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)]
        here = libraries[0].smemsim_answer_here
    except (OSError, AttributeError):
        return
    _answered.append(libraries[0])
    here.argtypes = [ctypes.c_void_p]
    _kept.append(_ANSWER(_reply))
    here(ctypes.cast(_kept[0], ctypes.c_void_p))
    atexit.register(here, None)  # destructors of compiled code run later, and see that CUDA is shut down
