"""A limit on the time of a piece of code, in the main thread."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

__all__ = ["at_most"]


@contextlib.contextmanager
def at_most(seconds: float, late: BaseException) -> Iterator[None]:
    """Raise `late` if the body takes longer. The alarm that was set before is set again afterwards."""

    def over(*_: object) -> None:
        raise late

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
