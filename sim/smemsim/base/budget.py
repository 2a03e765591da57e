"""One budget of memory for the whole process: what a kernel or a file asks for is counted before it is taken.

Arrays in simulated memory, waves of CTAs, and what files hold are counted together. The limit is that of the
environment variable SMEMSIM_MEMORY (bytes, or 8G, 512M ...), that of `set_limit`, or a part of this machine's memory.

>>> amount("1.5G"), told(3 << 30), told(1000)
(1610612736, '3.0 GiB', '1000 B')
"""

from __future__ import annotations

import gc
import os
import pathlib
import re
import threading
import weakref
from typing import Any

from smemsim.base.arguments import MOST_BITS, shown, whole
from smemsim.base.errors import InputError

__all__ = ["amount", "ask", "hold", "left", "limit", "set_limit", "told"]


VARIABLE = "SMEMSIM_MEMORY"
PART = 0.75  # of the machine's memory: the rest is for what is not counted
FALLBACK = 8 << 30  # bytes, if the machine does not report its memory
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)\s*([KMGT]?)(?:iB|B)?", re.IGNORECASE | re.ASCII)
_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class _Taken:
    def __init__(self) -> None:
        self.limit: int | None = None
        self.bytes = 0
        self.lock = threading.RLock()  # a weak reference may be given back while another is taken

    def add(self, size: int) -> None:
        with self.lock:
            self.bytes += size


_taken = _Taken()


def amount(text: str, name: str = VARIABLE) -> int:
    """Bytes of a text such as 4096, 512M, 1.5G. InputError for another one."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise InputError(f"{name} = {shown(text)}: needs an amount of memory, such as 4096, 512M or 8G")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def told(size: int) -> str:
    """A number of bytes for a sentence."""
    if size.bit_length() > MOST_BITS:
        return f"more than 2^{MOST_BITS} B"
    for unit, one in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)):
        if size >= one:
            return f"{size / one:,.1f} {unit}"
    return f"{size} B"


def set_limit(size: int | None) -> None:
    """How many bytes this process may take; None: as the environment or the machine says."""
    _taken.limit = None if size is None else whole("size", size, minimum=1)


def limit() -> int:
    """How many bytes this process may take, all in all."""
    if _taken.limit is None:
        text = os.environ.get(VARIABLE)
        _taken.limit = amount(text) if text else int(PART * _machine())
    return _taken.limit


def _machine() -> int:
    """Bytes of memory of the machine, or of the control group that this process is in."""
    known = []
    try:
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        known.append(FALLBACK)
    for name in _GROUPS:
        try:
            known.append(int(pathlib.Path(name).read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue
    return min(size for size in known if size > 0)


def ask(what: str, size: int) -> None:
    """InputError where `size` bytes more are beyond the limit; `what` says in a sentence what needs them."""
    most = limit()
    if _taken.bytes + size > most:
        gc.collect()  # unreachable objects with reference cycles
    if _taken.bytes + size > most:
        held = f", {told(_taken.bytes)} are taken already" if _taken.bytes else ""
        raise InputError(f"{what}: needs {told(size)} of memory{held}; the limit is {told(most)} (--memory, or {VARIABLE})")


def left() -> int:
    """How many bytes more this process may take."""
    return limit() - _taken.bytes


def hold(owner: Any, size: int) -> None:
    """Count `size` bytes as taken as long as `owner` lives."""
    if size:
        _taken.add(size)
        weakref.finalize(owner, _taken.add, -size).atexit = False
