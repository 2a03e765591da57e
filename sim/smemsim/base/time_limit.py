"""How long a PTX text may be read, and how long a program may be linked: `--limit-seconds` of `smemsim run`, each by
itself. Without it: any time.

>>> @timed("counting")
... def count():
...     while True:
...         check_time()
>>> with limited(0.001):
...     count()
Traceback (most recent call last):
smemsim.base.errors.InputError: counting took longer than the 0.001 s of --limit-seconds: allow more, or leave the limit out
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import time
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from smemsim.base.errors import InputError

__all__ = ["check_time", "limited", "timed"]

P = ParamSpec("P")
T = TypeVar("T")
_seconds: contextvars.ContextVar[float | None] = contextvars.ContextVar("seconds", default=None)
_ends: contextvars.ContextVar[tuple[float, str] | None] = contextvars.ContextVar("ends", default=None)  # when, and what


@contextlib.contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Context manager: limit the time of what is `timed`, in seconds."""
    before = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(before)


def timed(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function that may take as long as `limited` says; `what` is how the sentence calls it."""

    def of(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def run(*args: P.args, **given: P.kwargs) -> T:
            seconds = _seconds.get()
            if seconds is None:
                return function(*args, **given)
            before = _ends.set((time.monotonic() + seconds, what))
            try:
                return function(*args, **given)
            finally:
                _ends.reset(before)

        return run

    return of


def check_time() -> None:
    """InputError if the time of what is `timed` is over."""
    ends = _ends.get()
    if ends is not None and time.monotonic() > ends[0]:
        raise InputError(f"{ends[1]} took longer than the {_seconds.get():g} s of --limit-seconds: allow more, or leave the limit out")
