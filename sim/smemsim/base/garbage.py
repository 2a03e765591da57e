"""The garbage collector while PTX is read and linked, and while a launch runs.

A launch makes many objects that live as long as a wave. The collector cannot free them earlier, and scanning them again
and again takes as long as the instructions. So the collector runs rarely until the last launch is over.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

__all__ = ["HARDLY", "seldom_collected"]


YOUNG = 50_000  # objects more than before, after which the collector looks at these
HARDLY = 50_000_000  # the same while PTX is read and linked: everything that these make stays
_lock = threading.Lock()
_running: list[tuple[int, int, int]] = []  # of launches that run: the thresholds before each


@contextlib.contextmanager
def seldom_collected(young: int = YOUNG) -> Iterator[None]:
    """Context manager: the garbage collector runs after so many new objects, or not at all if it is off."""
    with _lock:
        before = gc.get_threshold()
        _running.append(_running[0] if _running else before)
        gc.set_threshold(max(before[0], young) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        with _lock:
            before = _running.pop()
            if not _running:
                gc.set_threshold(*before)
