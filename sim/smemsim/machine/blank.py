"""Which bytes of an array nobody has written: told byte by byte of arrays that were declared so, and by what lies there of memory that a program allocates.

A program's host writes to memory in ways that nobody sees: its library computes there, its extension copies. So memory that is allocated gets garbage
whose words only this place can have, and bytes count as unwritten as long as all of the 32 around them are that garbage. Whoever writes some of these
has written all: nothing is told of a right program, and little is missed.
"""

from __future__ import annotations

import abc
import functools

import numpy as np

__all__ = ["MOST_GARBAGE", "SECTOR", "WORD", "Blank", "Declared", "Garbage", "litter"]


WORD = 4
SECTOR = 32  # bytes that are garbage, or written, together: what memory moves at the least
PERIOD = 1 << 20  # bytes of addresses after which garbage is the same again
MOST_GARBAGE = 1 << 23  # bytes at each end of an allocation that get garbage: the rest of a huge one costs no memory before it is used
SEED = 0x5EED


class Blank(abc.ABC):
    """The bytes of an array's words that nobody has written; offsets are those of `Region.words`."""

    @abc.abstractmethod
    def words(self, at: np.ndarray, size: int) -> np.ndarray:
        """Of accesses of `size` bytes at offsets `at` (n,): which words of each have a byte that nobody has written, (n, words)? One of less than 4 bytes has one word."""

    @abc.abstractmethod
    def remains(self) -> bool:
        """Are there such bytes?"""

    @abc.abstractmethod
    def fill(self, at: np.ndarray, size: int) -> None:
        """Accesses of `size` bytes have written at offsets `at`."""

    @abc.abstractmethod
    def wrote(self, begin: int, end: int) -> None:
        """The host has written the bytes from an offset up to another one."""

    @abc.abstractmethod
    def fill_late(self, at: np.ndarray, size: int) -> None:
        """Accesses have written so whose bytes lie there later, under a schedule; `fill` has been told."""


class Declared(Blank):
    """An array that somebody declared unwritten, of `length` bytes from the offset `begin` on.

    >>> blank = Declared(64, 16, 8)
    >>> blank.fill(np.array([16]), 2)
    >>> blank.words(np.array([16, 20, 24]), 4).ravel().tolist()
    [True, True, False]
    """

    def __init__(self, total: int, begin: int, length: int) -> None:
        self._mask = np.zeros(total, bool)
        self._mask[begin : begin + length] = True

    def words(self, at: np.ndarray, size: int) -> np.ndarray:
        """See `Blank.words`."""
        unit = min(size, WORD)
        found: np.ndarray = self._mask[at[:, None] + np.arange(size)]
        return np.asarray(found.reshape(len(at), -1, unit).any(axis=2))

    def remains(self) -> bool:
        """See `Blank.remains`."""
        return bool(self._mask.any())

    def fill(self, at: np.ndarray, size: int) -> None:
        """See `Blank.fill`."""
        self._mask[at[:, None] + np.arange(size)] = False

    def fill_late(self, at: np.ndarray, size: int) -> None:
        """Does nothing: `fill` has noted it."""

    def wrote(self, begin: int, end: int) -> None:
        """See `Blank.wrote`."""
        self._mask[begin:end] = False


@functools.cache
def _pattern() -> np.ndarray:
    """The words of garbage of PERIOD bytes of addresses, uint32.

    Every half is 0x7bxx or 0xfbxx, its lower byte without bit 6: huge and finite as f32, bf16, f16 and each half of fp8, so that a product with 0 is 0 and
    what is left of a sum is seen; no address, and no small number.
    """
    raw = np.random.PCG64(SEED).random_raw(PERIOD // 8).view(np.uint16)
    halves: np.ndarray = raw & np.uint16(0x80BF) | np.uint16(0x7B00)
    return halves.view(np.uint32)


def _words_of(begin: int, size: int) -> tuple[int, int]:
    """The first whole word of some bytes of memory, and how many."""
    first = -(-begin // WORD)
    return first, max(0, (begin + size) // WORD - first)


def _ends(size: int) -> list[tuple[int, int]]:
    """(offset, bytes) of the parts of an allocation that get garbage."""
    if size <= 2 * MOST_GARBAGE:
        return [(0, size)]
    return [(0, MOST_GARBAGE), (size - MOST_GARBAGE, MOST_GARBAGE)]


def litter(data: np.ndarray, address: int) -> None:
    """Fill the bytes of an allocation (uint8) at an address with garbage; of a huge one those at both ends.

    >>> data = np.zeros(8, np.uint8)
    >>> litter(data, 0x1000)
    >>> bool(np.isfinite(data.view(np.float16)).all()), bool((np.abs(data.view(np.float16)) > 50000).all())
    (True, True)
    """
    pattern = _pattern()
    for offset, size in _ends(len(data)):
        first, count = _words_of(address + offset, size)
        at = first * WORD - address
        while count:
            n = first % len(pattern)
            own = min(count, len(pattern) - n)
            data[at : at + own * WORD] = pattern[n : n + own].view(np.uint8)
            first, count, at = first + own, count - own, at + own * WORD


class Garbage(Blank):
    """Memory that was allocated and filled by `litter`: `data` are the bytes at `address`, whose first one has the offset `begin`.

    >>> data = np.zeros(128, np.uint8)
    >>> litter(data, 0x1000)
    >>> blank = Garbage(data, 0x1000, 0)
    >>> data[40:44] = 0
    >>> blank.words(np.array([0, 32, 40, 64]), 4).ravel().tolist(), blank.remains()
    ([True, False, False, True], True)
    """

    unit = SECTOR  # bytes that count as written, or not, together

    def __init__(self, data: np.ndarray, address: int, begin: int) -> None:
        self.first, count = _words_of(address, len(data))
        shift = self.first * WORD - address
        self.memory = data[shift : shift + count * WORD].view(np.uint32)
        self.shift = begin + shift
        self._parts = [_words_of(address + offset, size) for offset, size in _ends(len(data))]
        self.is_gone = False
        self.has_parts = False  # has somebody looked at garbage beside which others have written?
        self._late: np.ndarray | None = None  # words that have been written, whatever lies there

    def words(self, at: np.ndarray, size: int) -> np.ndarray:
        """See `Blank.words`."""
        unit = min(size, WORD)
        n = (at[:, None] + np.arange(0, size, unit) - self.shift) >> 2
        inside = (n >= 0) & (n < len(self.memory))
        found: np.ndarray = inside & self._are_garbage(np.where(inside, n, 0))
        if found.any():
            together = self.unit // WORD
            sector = (n[found] + self.first) // together * together - self.first
            around = np.clip(sector[:, None] + np.arange(together), 0, len(self.memory) - 1)
            are_whole = self._are_garbage(around).all(axis=1)
            self.has_parts |= not are_whole.all()
            found[found] = are_whole
        return found

    def fill(self, at: np.ndarray, size: int) -> None:
        """Does nothing: what has been written is seen there."""

    def fill_late(self, at: np.ndarray, size: int) -> None:
        """See `Blank.fill_late`."""
        if self._late is None:
            self._late = np.zeros(len(self.memory), bool)
        n = (at[:, None] + np.arange(0, size, min(size, WORD)) - self.shift) >> 2
        self._late[n[(n >= 0) & (n < len(self._late))]] = True

    def wrote(self, begin: int, end: int) -> None:
        """Does nothing: what the host has written is seen there."""

    def _are_garbage(self, n: np.ndarray) -> np.ndarray:
        """Which words of the memory, by their numbers in it, are as they were littered?"""
        pattern = _pattern()
        found: np.ndarray = self.memory[n] == pattern[(n + self.first) & len(pattern) - 1]
        return found if self._late is None else found & ~self._late[n]

    def remains(self) -> bool:
        """See `Blank.remains`; what is written once stays written."""
        if not self.is_gone:
            self.is_gone = not any(self._remains(first - self.first, count) for first, count in self._parts)
        return not self.is_gone

    def _remains(self, first: int, count: int) -> bool:
        """Are some of `count` words from a number on garbage? One of each 32 bytes is looked at."""
        step = SECTOR // WORD
        sector = (first + self.first) // step * step - self.first
        for begin in range(sector, first + count if count else sector, PERIOD):
            n = np.maximum(np.arange(begin, min(begin + PERIOD, first + count), step), first)
            some = n[self._are_garbage(n)]
            if len(some) and self.words(some[: 1 << 12] * WORD + self.shift, WORD).any():
                return True
        return False
