"""A program again from one moment on, each time with another rule: children of its process, so that what came before is
not done again.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from smemsim.core.spec.alternatives import ALTERNATIVES, Alternative
from smemsim.core.spec.assumptions import exchange
from smemsim.core.spec.calibration import CALIBRATION
from smemsim.core.spec.tensor_memory import COLUMNS
from smemsim.virtual import process
from smemsim.virtual.errors import NOT_SUPPORTED

__all__ = ["CODES", "REFUTES", "assume", "branch", "outcome_of_launches", "own_memory"]

# What came of a program under an alternative, and the exit code that tells it.
CODES = {"right": 0, "wrong": 81, "traps": 82, "hangs": 83, "refused": 84, "unmodelled": 85, "over limit": 86, "ended": 87}
REFUTES = ("wrong", "traps", "hangs", "refused")
_NORESERVE = 0x4000


def assume(alternative: str) -> None:
    """From now on this process computes with an alternative, on Hopper with one of a measured rule."""
    a = (CALIBRATION if os.environ.get("SMEMSIM_ARCH") == "sm_90a" else ALTERNATIVES)[alternative]
    exchange({a.point: a.change}, alternative)
    if a.point == "metadata.cell":
        _take_indices_as_they_are()
    if a.point == "accumulator.path":
        _go_around_behind_the_last_column(a, alternative)


def _take_indices_as_they_are() -> None:
    """Metadata of other cells meets elements that it was not made for, and 0b0000, which encoders write for a group of
    zeros, says nothing of others.

    Such a group then picks what its two indices say, as wgmma does. All groups around it have listed metadata of other
    elements: a sum that is right by that would be right by chance.
    """
    from smemsim.core.machine import tcgen05

    tcgen05._check_metadata = lambda *_: None


def _go_around_behind_the_last_column(a: Alternative, alternative: str) -> None:
    """An accumulator that takes more columns may pass the last one. Hardware faults there, and the program fails, or it
    goes on at the first one.
    """
    from smemsim.core.machine.tmem import layout

    layout.check_columns = lambda *_: None  # type: ignore[assignment]
    exchange({a.point: a.change, "accumulator.cell": lambda cell, *_: (*cell[:2], cell[2] % COLUMNS)}, alternative)


def own_memory() -> None:
    """Give a child a copy of the device's memory, which children share otherwise."""
    if not process.has_device():
        return
    memory = process.device().memory
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.mmap.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long],
    )
    from smemsim.virtual.memory import RANGE_BYTES

    for n, base in enumerate((memory.device_base, memory.host_base)):
        flags = mmap.MAP_PRIVATE | 0x10 | _NORESERVE  # MAP_FIXED: in place of what is there
        if libc.mmap(base, RANGE_BYTES, mmap.PROT_READ | mmap.PROT_WRITE, flags, memory.descriptor, n * RANGE_BYTES) != base:
            os._exit(CODES["ended"])


def branch(seconds: float, begin: Callable[[], None], rest: Callable[[], Any] | None = None) -> int | None:
    """A child that does `begin`, then `rest` and ends with its exit code; without `rest` the child returns (None) and
    goes on by itself.

    The parent waits, at most so long, and has the exit code.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        quiet = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(quiet, descriptor)
        own_memory()
        begin()
        if rest is None:
            return None
        code = CODES["ended"]
        try:
            code = rest()
        finally:
            os._exit(code)
    return _ended(child, seconds)


def _ended(child: int, seconds: float) -> int:
    end, pause = time.monotonic() + seconds, 0.002
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return CODES["over limit"]
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def outcome_of_launches(launches: list[Any]) -> str:
    """What launches of a program that went wrong say of why: "" where they say nothing."""
    for x in launches:
        if x.refused:
            return "unmodelled" if x.error == NOT_SUPPORTED else "refused"
        if x.error:
            codes = {f["code"] for f in (x.run or {}).get("findings", [])}
            return "hangs" if "X006" in codes else "over limit" if "702" in str(x.error) else "traps"
    return ""
