"""Accesses of memory by the threads of one instruction: which bytes, and what a store leaves there. Values that
execution makes and observers read (`events.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from smemsim.core.spec.tensor_map import TENSOR_MAP

__all__ = ["AT_ONCE", "WHOLE_MAP", "Piece", "Values", "for_part"]


WHOLE_MAP = TENSOR_MAP.parts.size  # bytes that tensormap.replace accesses
# What moves the bytes of a thread at once: numpy copies rows of an array far more slowly than single values.
AT_ONCE: dict[int, np.dtype[Any]] = {n: np.dtype(t) for n, t in ((1, "u1"), (2, "u2"), (4, "u4"), (8, "u8"), (16, "c16"))}


class Values:
    """The values of a store, for the sanitizer: made before the store, asked after it. There is one entry for each word
    of each thread, or for its bytes if they are fewer.

    The values that each thread has written are returned by `own`. Without it, the winner of several threads at one
    place is not known.
    """

    def __init__(self, piece: Piece, size: int, own: Callable[[], np.ndarray] | None = None) -> None:
        self._piece, self.size, self._own = piece, size, own
        self._before = self._raw()

    def _raw(self) -> np.ndarray:
        if self.size > 16:
            words = self._piece.memory.view(AT_ONCE[16])
            wide: np.ndarray = words[(self._piece.at >> 4)[:, None] + np.arange(self.size // 16)].reshape(-1)
            return wide
        found: np.ndarray = self._piece.memory.view(AT_ONCE[self.size]).take(self._piece.at >> self.size.bit_length() - 1)
        return found

    def before(self) -> np.ndarray:
        """The bytes that lay there before the store, (threads, size)."""
        return np.ascontiguousarray(self._before).view(np.uint8).reshape(-1, self.size)

    def _words(self, raw: np.ndarray) -> np.ndarray:
        return raw.view(AT_ONCE[min(self.size, 4)])

    @functools.cached_property
    def lay_there(self) -> np.ndarray:
        """Does the write leave the bytes of shared memory unchanged? Word by word."""
        found: np.ndarray = self._words(self._before) == self._words(self._raw())
        return found

    def written(self) -> np.ndarray:
        """The bytes that the threads have written, whichever thread's value stays."""
        return self._words(self._raw() if self._own is None else np.ascontiguousarray(self._own()))

    @functools.cached_property
    def stay(self) -> np.ndarray:
        """Is the value of this thread in memory, not a different one of another thread?"""
        now = self._words(self._raw())
        found: np.ndarray = np.ones(len(now), bool) if self._own is None else self.written() == now
        return found

    def bytes_of(self, n: np.ndarray, begin: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """`count` bytes from byte `begin` on of what the n-th threads write: has the write changed them, and do theirs
        stay?
        """

        def some(raw: np.ndarray) -> np.ndarray:
            found: np.ndarray = raw.view(np.uint8).reshape(-1, self.size)[n[:, None], begin[:, None] + np.arange(count)]
            return found

        now = some(self._raw())
        own_ = now if self._own is None else some(np.ascontiguousarray(self._own()))
        return (some(self._before) != now).any(axis=1), (own_ == now).all(axis=1)


class Piece(NamedTuple):
    """Bytes that running threads access: a memory, and where in it each of them does; `part` are their places among
    the running threads.
    """

    # "global", "shared", "local", or "reserved": of shared memory, not followed by the sanitizer, an access is reported
    space: str
    memory: np.ndarray  # whole words, contiguous
    at: np.ndarray  # byte offset in it of each thread, int64
    part: np.ndarray | None = None  # None: all that run


def for_part(x: Any, piece: Piece, act: Callable[[], None]) -> None:
    """Do something while only the threads of a piece are selected."""
    if piece.part is None:
        act()
        return
    kept = x.sel
    x.select(x.threads[piece.part])
    try:
        act()
    finally:
        x.select(kept)
