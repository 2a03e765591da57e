"""The garbage collector while PTX is read and linked, and while a launch runs.

A launch makes many objects that live as long as a wave, none of which the collector finds before that; going through all of them again and again, and through
all that the process has beside, takes as long as the instructions themselves. So it comes by seldom until the last launch that runs is over.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

__all__ = ["seldom_collected"]


YOUNG = 50_000  # objects more than before, after which the collector looks at these
_lock = threading.Lock()
_running: list[tuple[int, int, int]] = []  # of launches that run: the thresholds in front of each


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """The collector comes by seldom in here, unless it does not come by at all."""
    with _lock:
        before = gc.get_threshold()
        _running.append(_running[0] if _running else before)
        gc.set_threshold(max(before[0], YOUNG) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        with _lock:
            before = _running.pop()
            if not _running:
                gc.set_threshold(*before)
