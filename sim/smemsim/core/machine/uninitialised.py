"""Which bytes of an array are uninitialised. This is exact for declared arrays; for memory that a program allocates it
follows from the content.

The host part of a program writes to memory without smemsim: its library computes there, its extension copies. So
allocated memory is filled with garbage whose words depend on their place. A word counts as uninitialised while it holds
this garbage. Stores of kernels of less than a word are seen: after them, the other bytes of the word count as
uninitialised while they hold the garbage.
"""

from __future__ import annotations

import abc
import functools

import numpy as np

__all__ = ["MOST_GARBAGE", "SECTOR", "WORD", "Blank", "Declared", "Garbage", "litter"]


WORD = 4
SECTOR = 32  # bytes of which an allocation of the heap has whole ones
ALL = 0b1111  # bytes of a word, as bits
LINE = 32  # words: of a line all bytes that kernels have left out are garbage, or the host has written there
PERIOD = 1 << 20  # bytes of addresses after which garbage is the same again
# bytes at each end of an allocation that get garbage: the rest of a huge one costs no memory before it is used
MOST_GARBAGE = 1 << 23
MOST_MOVED = 64  # copies within the card whose uninitialised words an array remembers
SEED = 0x5EED


class Blank(abc.ABC):
    """The uninitialised bytes of an array's words. Offsets are those of `Region.words`."""

    @abc.abstractmethod
    def words(self, at: np.ndarray, size: int) -> np.ndarray:
        """For accesses of `size` bytes at offsets `at` (n,): which words of each have an uninitialised byte, (n,
        words). An access of less than 4 bytes has one word.
        """

    @abc.abstractmethod
    def bytes(self, at: np.ndarray, size: int) -> np.ndarray:
        """The same of their bytes, (n, size)."""

    @abc.abstractmethod
    def remains(self) -> bool:
        """Are there such bytes?"""

    @property
    @abc.abstractmethod
    def is_tracked(self) -> bool:
        """Is it known of bytes that stores of less than a word have written them?"""

    @abc.abstractmethod
    def fill(self, at: np.ndarray, size: int, before: np.ndarray | None = None) -> None:
        """Accesses of `size` bytes write at offsets `at`: they are about to, or they have and these bytes (n, size) lay
        there `before`.
        """

    @abc.abstractmethod
    def wrote(self, begin: int, end: int) -> None:
        """The host has written the bytes from an offset up to another one."""

    @abc.abstractmethod
    def fill_late(self, at: np.ndarray, size: int) -> None:
        """Accesses whose bytes arrive later, under a schedule. `fill` was called for them."""


class Declared(Blank):
    """An array that was declared uninitialised, of `length` bytes from the offset `begin` on.

    >>> blank = Declared(64, 16, 8)
    >>> blank.fill(np.array([16]), 2)
    >>> blank.words(np.array([16, 20, 24]), 4).ravel().tolist()
    [True, True, False]
    """

    def __init__(self, total: int, begin: int, length: int) -> None:
        self._mask = np.zeros(total, bool)
        self._mask[begin : begin + length] = True

    def words(self, at: np.ndarray, size: int) -> np.ndarray:
        """Which words of each access have an uninitialised byte, (n, words)."""
        found: np.ndarray = self._mask[at[:, None] + np.arange(size)]
        return np.asarray(np.logical_or.reduceat(found, np.arange(0, size, WORD), axis=1))

    def bytes(self, at: np.ndarray, size: int) -> np.ndarray:
        """Which bytes of each access are uninitialised, (n, size)."""
        found: np.ndarray = self._mask[at[:, None] + np.arange(size)]
        return found

    def remains(self) -> bool:
        """Is any byte of the array still uninitialised?"""
        return bool(self._mask.any())

    @property
    def is_tracked(self) -> bool:
        """Are the bytes at these offsets followed exactly?"""
        return True

    def fill(self, at: np.ndarray, size: int, before: np.ndarray | None = None) -> None:
        """Mark the bytes of accesses as written."""
        self._mask[at[:, None] + np.arange(size)] = False

    def fill_late(self, at: np.ndarray, size: int) -> None:
        """Does nothing: `fill` has noted it."""

    def wrote(self, begin: int, end: int) -> None:
        """Mark a range of bytes as written."""
        self._mask[begin:end] = False


@functools.cache
def _pattern() -> np.ndarray:
    """The garbage for PERIOD bytes of addresses, uint32.

    Every half word is 0x7bxx or 0xfbxx, with bit 6 of its lower byte clear. It is huge and finite as f32, bf16, f16 and
    each half of fp8. So a product with 0 is 0, and a wrong sum is visible. It is neither an address nor a small number.
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
    """Memory that was allocated and filled by `litter`. The bytes at `address` are `data`. The first one has the offset
    `begin`.

    >>> data = np.zeros(128, np.uint8)
    >>> litter(data, 0x1000)
    >>> blank = Garbage(data, 0x1000, 0)
    >>> data[40:44] = 0
    >>> blank.words(np.array([0, 36, 40, 44]), 4).ravel().tolist(), blank.remains()
    ([True, True, False, True], True)
    >>> copy = np.zeros(128, np.uint8)
    >>> other = Garbage(copy, 0x2000, 0)
    >>> copy[:32] = data[32:64]; other.takes(blank, 0, 32, 32)
    >>> other.words(np.array([0, 4, 8, 12, 32]), 4).ravel().tolist(), blank.is_untouched(), other.is_untouched()
    ([True, True, False, True, False], False, False)
    >>> blank.fill(np.array([64, 66]), 1); data[[64, 66]] = 0
    >>> blank.bytes(np.array([64]), 4).tolist()
    [[False, True, False, True]]
    """

    def __init__(self, data: np.ndarray, address: int, begin: int) -> None:
        self.first, count = _words_of(address, len(data))
        shift = self.first * WORD - address
        self.memory = data[shift : shift + count * WORD].view(np.uint32)
        self.shift = begin + shift
        self._parts = [_words_of(address + offset, size) for offset, size in _ends(len(data))]
        self.is_gone = False
        self.has_parts = False  # has a kernel looked at bytes beside which others were written?
        self._late: np.ndarray | None = None  # bytes of words that have been written, whatever their content
        # bytes that kernels have written of words that were garbage, by stores of less than a word
        self._written: np.ndarray | None = None
        # words that were copied here from other garbage: from a number up to another one, and how far they lay behind
        self._moved: list[tuple[int, int, int]] = []

    def takes(self, other: Garbage, to: int, source: int, size: int) -> None:
        """Bytes of another array, from an offset on, have been copied here: garbage among them is uninitialised here,
        too.
        """
        first, shift = -(-(to - self.shift) // WORD), (to - self.shift) % WORD
        behind = (source - other.shift + -shift % WORD) // WORD - first
        count = min((size - -shift % WORD) // WORD, len(self.memory) - first, len(other.memory) - first - behind)
        if (source - other.shift) % WORD != shift or first < 0 or first + behind < 0 or count <= 0:
            return
        if not other._are_garbage(np.arange(first + behind, first + behind + count)).any():
            return
        end, own = first + count, behind + other.first - self.first
        came = [(first, end, own)]
        for begin, until, further in other._moved:
            came.append((max(first, begin - behind), min(end, until - behind), own + further))
        kept = [old for old in self._moved if not (first <= old[0] and old[1] <= end)]
        self._moved = [*kept, *(each for each in came if each[0] < each[1])][-MOST_MOVED:]
        self.is_gone = False

    def is_untouched(self) -> bool:
        """Has nothing written any byte, as far as the garbage shows?"""
        pattern, written = _pattern(), self._written is not None or self._late is not None or bool(self._moved)
        for first, count in self._parts:
            n = np.arange(first - self.first, first - self.first + count)
            written = written or not (self.memory[n] == pattern[(n + self.first) & len(pattern) - 1]).all()
        return not written

    def words(self, at: np.ndarray, size: int) -> np.ndarray:
        """Which words of each access have an uninitialised byte, (n, words)."""
        if size % WORD == 0:
            found: np.ndarray = self._bits(self._numbers(at, size)) != 0
            return found
        return np.asarray(np.logical_or.reduceat(self.bytes(at, size), np.arange(0, size, WORD), axis=1))

    def bytes(self, at: np.ndarray, size: int) -> np.ndarray:
        """Which bytes of each access are uninitialised, (n, size)."""
        bits = self._bits(self._numbers(at, size)).repeat(min(size, WORD), axis=1)[:, :size]
        found: np.ndarray = bits >> ((at[:, None] - self.shift + np.arange(size)) % WORD).astype(np.uint8) & 1 != 0
        return found

    def _numbers(self, at: np.ndarray, size: int) -> np.ndarray:
        """The words of accesses, by their numbers in the memory; -1 of those that lie outside."""
        n = (at[:, None] + np.arange(0, size, min(size, WORD)) - self.shift) >> 2
        found: np.ndarray = np.where((n >= 0) & (n < len(self.memory)), n, -1)
        return found

    def _bits(self, n: np.ndarray) -> np.ndarray:
        """Which bytes of words, by their numbers, are uninitialised, as bits."""
        bits: np.ndarray = np.where((n >= 0) & self._are_garbage(n), np.uint8(ALL), np.uint8(0))
        if self._written is not None:
            open_ = (n >= 0) & (bits == 0) & (self._written[n] != 0) & (self._written[n] != ALL)
            if open_.any():
                self.has_parts = True
                bits[open_] = self._left_out(n[open_])
        return bits if self._late is None else bits & ~self._late[n] & np.uint8(ALL)

    def _left_out(self, n: np.ndarray) -> np.ndarray:
        """The bytes of words that kernels have written in part which are garbage still; none if others of the line are
        not, as where the host has written.
        """
        assert self._written is not None
        line = np.minimum((n // LINE * LINE)[:, None] + np.arange(LINE), len(self.memory) - 1)
        written = self._written[line]
        left = np.where(written != 0, ~written & np.uint8(ALL), np.uint8(0))
        are_left = (self._alike(line) & left == left).all(axis=1)
        found: np.ndarray = np.where(are_left, ~self._written[n] & np.uint8(ALL), np.uint8(0))
        return found

    def _alike(self, n: np.ndarray) -> np.ndarray:
        """Which bytes of words are as they were littered, as bits."""
        pattern = _pattern()
        differ = self.memory[n] ^ pattern[(n + self.first) & len(pattern) - 1]
        found: np.ndarray = np.packbits(np.ascontiguousarray(differ)[..., None].view(np.uint8) == 0, axis=-1, bitorder="little")[..., 0]
        return found

    @property
    def is_tracked(self) -> bool:
        """Are the bytes at these offsets followed exactly?"""
        return self._written is not None

    def fill(self, at: np.ndarray, size: int, before: np.ndarray | None = None) -> None:
        """Mark the bytes of accesses as written. Whole words need no mark: their content shows it."""
        n = self._numbers(at, size)
        if size >= WORD:
            if self._written is not None:
                self._written[n[(n >= 0) & (self._written[n] != 0)]] = ALL
            return
        inside = n[:, 0] >= 0
        n, at = n[inside, 0], at[inside] - self.shift
        are_new = self._are_garbage(n) if before is None else self._were_garbage(n, at, before[inside])
        if self._written is None:
            if not are_new.any():
                return
            self._written = np.zeros(len(self.memory), np.uint8)
        some = are_new | (self._written[n] != 0)
        np.bitwise_or.at(self._written, n[some], np.left_shift((1 << size) - 1, at[some] & 3).astype(np.uint8))

    def _were_garbage(self, n: np.ndarray, at: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Were words garbage, when these bytes lay at `at` (bytes of the memory)?"""
        words, which = np.unique(n, return_inverse=True)
        raw = self.memory[words][:, None].view(np.uint8).copy()
        raw[which.reshape(-1)[:, None], (at & 3)[:, None] + np.arange(before.shape[1])] = before
        pattern = _pattern()
        found: np.ndarray = raw.view(np.uint32)[:, 0] == pattern[(words + self.first) & len(pattern) - 1]
        return found[which.reshape(-1)]

    def fill_late(self, at: np.ndarray, size: int) -> None:
        """Mark bytes that arrive later, under a schedule."""
        if self._late is None:
            self._late = np.zeros(len(self.memory), np.uint8)
        n = self._numbers(at, size)
        bits = np.full(n.shape, ALL) if size >= WORD else np.left_shift((1 << size) - 1, at - self.shift & 3)[:, None]
        np.bitwise_or.at(self._late, n[n >= 0], bits[n >= 0].astype(np.uint8))

    def wrote(self, begin: int, end: int) -> None:
        """Does nothing: what the host has written is seen there."""

    def _are_garbage(self, n: np.ndarray) -> np.ndarray:
        """Which words of the memory, by their numbers in it, are as they were littered?"""
        pattern = _pattern()
        if not len(self.memory):
            return np.zeros(n.shape, bool)
        found: np.ndarray = self.memory[n] == pattern[(n + self.first) & len(pattern) - 1]
        for begin, end, behind in self._moved:
            found |= (n >= begin) & (n < end) & (self.memory[n] == pattern[(n + self.first + behind) & len(pattern) - 1])
        return found

    def remains(self) -> bool:
        """Is any byte still uninitialised? A byte that was written stays written."""
        if not self.is_gone:
            is_open = self._written is not None and bool(((self._written != 0) & (self._written != ALL)).any())
            moved = any(self._are_garbage(np.arange(begin, end)).any() for begin, end, _ in self._moved)
            self.is_gone = not is_open and not moved and not any(self._remains(first - self.first, count) for first, count in self._parts)
        return not self.is_gone

    def _remains(self, first: int, count: int) -> bool:
        """Are some of `count` words from a number on garbage?"""
        pattern = _pattern()
        while count:
            n = (first + self.first) % len(pattern)
            own = min(count, len(pattern) - n)
            same = self.memory[first : first + own] == pattern[n : n + own]
            if self._late is not None:
                same &= self._late[first : first + own] != ALL
            if same.any():
                return True
            first, count = first + own, count - own
        return False
