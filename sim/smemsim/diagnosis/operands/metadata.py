"""The places in global memory from which the registers of threads come, by their values: sparse metadata of
wgmma.mma_async.sp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.machine.global_memory import GlobalMemory

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["RegisterSources"]

WORD = 4  # bytes
MOST_BYTES = 1 << 25  # of all arrays that are searched
MOST_KEPT = 1 << 14  # registers whose sources are kept


class RegisterSources:
    """The words of arrays that a launch does not write, by their values.

    Metadata repeats: one word may occur at several addresses. The address of a unique word is known. The addresses of
    the words of all threads are known under two conditions. Each address is a sum of one number for each bit of the
    thread's number, and each word is at that address.

    >>> memory = GlobalMemory(); begin = memory.place(np.arange(64, dtype=np.uint32).repeat(2))
    >>> sources = RegisterSources(memory, set())
    >>> (sources.of(np.array([3, 3, 4, 4], np.uint32), np.arange(4)) is None, sources.of(np.array([99], np.uint32), np.arange(1)) is None)
    (True, True)
    """

    def __init__(self, memory: GlobalMemory, written: Collection[int]) -> None:
        """`written` are the arrays, by the identity of their words, that the launch may write."""
        regions = [r for r in memory.filled() if id(r.words) not in written and r.begin % WORD == 0]
        left, parts, places = MOST_BYTES, [np.zeros(0, np.uint32)], [np.zeros(0, np.int64)]
        for region in sorted(regions, key=lambda r: len(r.data)):
            left -= len(region.data)
            if left >= 0:
                words = region.data[: len(region.data) // WORD * WORD].view(np.uint32)
                parts.append(words)
                places.append(region.begin + WORD * np.arange(len(words)))
        self.is_whole = left >= 0
        words = np.concatenate(parts)
        self._by_address = words, np.concatenate(places)
        order = np.argsort(words, kind="stable")
        self._words, self._places = words[order], self._by_address[1][order]
        ascending = np.argsort(self._by_address[1], kind="stable")
        self._by_address = words[ascending], self._by_address[1][ascending]
        self._kept: dict[tuple[bytes, bytes], np.ndarray | None] = {}

    def of(self, values: np.ndarray, threads: np.ndarray) -> np.ndarray | None:
        """The addresses of the registers of threads; None where they are not known, as of registers that all have one
        value.
        """
        if not self.is_whole or (values == values[0]).all():
            return None
        key = values.tobytes(), threads.tobytes()
        if key not in self._kept:
            if len(self._kept) > MOST_KEPT:
                self._kept.clear()
            self._kept[key] = self._find(values, threads)
        return self._kept[key]

    def _find(self, values: np.ndarray, threads: np.ndarray) -> np.ndarray | None:
        first, end = (np.searchsorted(self._words, values, side) for side in ("left", "right"))
        if (first == end).any():
            return None
        known = {int(t): int(self._places[at]) for t, at, n in zip(threads, first, end - first, strict=True) if n == 1}
        at = _sums(known, threads)
        if at is None:
            return None
        words, places = self._by_address
        where = np.minimum(np.searchsorted(places, at), len(places) - 1)
        return at if (places[where] == at).all() and (words[where] == values).all() else None


def _sums(known: dict[int, int], threads: np.ndarray) -> np.ndarray | None:
    """The addresses of threads, a sum of one number for each bit of a thread's number, by those of some of them; None
    where these do not say.
    """
    bits = [1 << b for b in range(int(threads.max()).bit_length()) if len(distinct(threads >> b & 1)) > 1]
    steps = {}
    for bit in bits:
        step = {known[t | bit] - known[t] for t in known if not t & bit and t | bit in known}
        if len(step) != 1:
            return None
        steps[bit] = step.pop()
    one = next(iter(known))
    by = sum(
        ((((threads & bit) > 0).astype(np.int64) - bool(one & bit)) * step for bit, step in steps.items()), np.zeros(len(threads), np.int64)
    )
    found: np.ndarray = by + known[one]
    return found
