"""Threads of the host's program: the device answers the calls of one of them at a time, as a driver does."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

__all__ = ["Turn", "once", "one_at_a_time"]


class Turn:
    """The thread whose call is answered now; others wait, without Python's own lock.

    >>> turn = Turn()
    >>> with turn, turn, turn.pause():
    ...     turn.depth
    0
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.depth = 0  # calls that this thread's call has made of others

    def __enter__(self) -> None:
        self._lock.acquire()
        self.depth += 1

    def __exit__(self, *error: object) -> None:
        self.depth -= 1
        self._lock.release()

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """While a function of the host runs: it may wait for a thread that calls the device."""
        depth = self.depth
        for _ in range(depth):
            self.__exit__()
        try:
            yield
        finally:
            for _ in range(depth):
                self.__enter__()


Made = TypeVar("Made")


def once(make: Callable[[], Made]) -> functools._lru_cache_wrapper[Made]:
    """`functools.cache` of a function that several threads may call first at the same time: it is called once."""
    lock, kept = threading.RLock(), functools.cache(make)

    @functools.cache
    def call() -> Made:
        with lock:
            return kept()

    functools.update_wrapper(call, make)
    return call


def one_at_a_time(made: type[Made]) -> type[Made]:
    """A class whose public methods take the `turn` of their object."""

    def alone(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, *given: Any, **named: Any) -> Any:
            with self.turn:
                return method(self, *given, **named)

        return call

    for name, method in list(vars(made).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(made, name, alone(method))
    return made
