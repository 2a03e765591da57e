"""Words of shared memory that an instruction touches, as runs of words that follow one another."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.product import SharedOperand
from smemsim.core.spec.assumptions import remembered

__all__ = ["WORD", "WordRanges", "read_runs"]


WORD = 4  # bytes


class WordRanges:
    """Ranges of `count` words from each of `begins` on. They are counted from a window's begin, or from that of all
    windows.

    All words one by one are `words`, in the order of access.

    >>> runs = WordRanges.among(np.array([8, 9, 16, 17, 18, 19]))
    >>> runs.begins.tolist(), runs.count, runs.behind(100).words.tolist()
    ([8, 16, 18], 2, [108, 109, 116, 117, 118, 119])
    """

    def __init__(self, begins: np.ndarray, count: int, each: Callable[[], np.ndarray] | None = None) -> None:
        self.begins, self.count, self._each = begins, count, each

    @classmethod
    def of(cls, words: np.ndarray) -> WordRanges:
        """Runs of one word."""
        return cls(np.ascontiguousarray(words, np.int64), 1)

    @classmethod
    def among(cls, words: np.ndarray) -> WordRanges:
        """The runs that there are among some words."""
        words = np.ascontiguousarray(words, np.int64)
        lengths = np.diff(np.flatnonzero(np.diff(words, prepend=words[:1] - 2) != 1), append=len(words))
        count = int(np.gcd.reduce(lengths)) if len(words) else 1
        return cls(words[::count].copy(), count)

    @functools.cached_property
    def words(self) -> np.ndarray:
        """All words."""
        if self._each is not None:
            return self._each()
        if self.count == 1:
            return self.begins
        found: np.ndarray = (self.begins[:, None] + np.arange(self.count)).reshape(-1)
        return found

    def behind(self, begin: int) -> WordRanges:
        """The same words of a window that begins there, counted from where that is counted."""
        return WordRanges(self.begins + begin, self.count, lambda: self.words + begin)


def read_runs(operands: tuple[SharedOperand, ...], shared: SharedMemory) -> WordRanges:
    """The words of a window that operands read, one after the other."""
    return _read_runs(operands, shared.arch, shared.begin, shared.end)


@remembered(512)
def _read_runs(operands: tuple[SharedOperand, ...], arch: str, begin: int, end: int) -> WordRanges:
    window = SharedMemory(arch, size=end - begin)
    return WordRanges.among(np.concatenate([operand.read_words(window) for operand in operands]) // WORD)
