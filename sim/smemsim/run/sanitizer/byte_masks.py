"""Bytes of words: which of the four the last writer of a word wrote, and which were read. Needed if a program has
accesses of less than a word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smemsim.run.following import WHOLE

__all__ = ["Parts", "Write"]


WORD = 4
_BYTES = np.arange(WORD, dtype=np.uint8)


class Write(NamedTuple):
    """Writes of threads: their warps (-1 of none), when by the warps' clocks, and the lines."""

    who: np.ndarray
    when: np.ndarray
    line: np.ndarray


class Parts:
    """A bit for each byte of each word, for the last writer and for each of `readers` warps. Nothing is recorded before
    the first access of less than a word; until then all bytes count.

    If several warps write a word in turn, `others` has the writers of the bytes that are not the last one's. If a
    warp reads in several ticks of its clock, only the bytes of the last tick are known: a race on the others is
    missed.

    >>> parts = Parts(2, readers=1)
    >>> one, two = parts.bits(np.array([4]), 1), parts.bits(np.array([6]), 2)
    >>> parts.write(np.array([1]), one, np.array([-1]), np.array([0]), np.array([0]))
    >>> parts.overlap(np.array([1]), one), parts.overlap(np.array([1]), two)
    (array([ True]), array([False]))
    """

    def __init__(self, words: int, readers: int) -> None:
        self.words, self.readers = words, readers
        self.kept = self._whole_reads = self.has_holes = False
        self._holes = np.zeros(0, np.uint8)
        self._written = self._read = np.zeros(0, np.uint8)
        self.has_others = False
        self._others = np.zeros((0, WORD, 3), np.int64)

    def _keep(self) -> None:
        if not self.kept:
            self.kept = True
            self._written = np.full(self.words, WHOLE, np.uint8)
            self._read = np.full((self.words, self.readers), WHOLE * self._whole_reads, np.uint8)

    @staticmethod
    def bits(flat: np.ndarray, size: int) -> np.ndarray:
        """The bytes of their words that accesses of 1 or 2 bytes at `flat` touch."""
        found: np.ndarray = np.left_shift((1 << size) - 1, flat & 3).astype(np.uint8)
        return found

    def written(self, at: np.ndarray) -> np.ndarray:
        """The bytes of each word that its last writer wrote, as bits."""
        self._keep()
        found: np.ndarray = self._written[at]
        return found

    def overlap(self, at: np.ndarray, bits: np.ndarray) -> np.ndarray:
        """Did the last writer of each word write any of these bytes?"""
        self._keep()
        found: np.ndarray = (self._written[at] & bits) != 0
        return found

    def read_by(self, at: np.ndarray, bits: np.ndarray) -> np.ndarray:
        """Which warps may have read any of these bytes? A row for each warp."""
        self._keep()
        found: np.ndarray = (self._read[at].T & bits) != 0
        return found

    def read(self, at: np.ndarray, bits: np.ndarray, readers: np.ndarray, is_new: np.ndarray) -> None:
        """Note a read of bytes by warps, `is_new` where a warp has not read the word in this tick of its clock."""
        self._keep()
        self._read[at[is_new], readers[is_new]] = 0
        np.bitwise_or.at(self._read, (at, readers), bits)

    def read_whole(self, at: np.ndarray, readers: np.ndarray) -> None:
        """Note a read of whole words by warps."""
        self._whole_reads = True
        if self.kept:
            self._read[at, readers] = WHOLE

    def write(self, at: np.ndarray, bits: np.ndarray, before: np.ndarray, warps: np.ndarray, now: np.ndarray) -> None:
        """Note a write of bytes by `warps` to words of which `before` were the writers, and `now` are."""
        self._keep()
        self._written[at[before != now]] = 0
        last = warps == now
        np.bitwise_or.at(self._written, at[last], bits[last])

    def note_others(self, at: np.ndarray, bits: np.ndarray, last: np.ndarray, gone: Write, own: Write) -> None:
        """Record, before `write`, the bytes of words that no longer belong to the last writer. These are the bytes of
        earlier writers, if they are `gone`, and bytes that warps write now by an instruction that is not the `last` of
        its words.
        """
        self._keep()
        if not self.has_others:
            if last.all() and (gone.who < 0).all():
                return
            self.has_others, self._others = True, np.full((self.words, WORD, 3), -1, np.int64)
        was_written = (self._written[at][:, None] >> _BYTES & 1 != 0) & (gone.who >= 0)[:, None]
        is_written = bits[:, None] >> _BYTES & 1 != 0
        for part, write in ((was_written, gone), (is_written & ~last[:, None], own), (is_written & last[:, None], None)):
            n, byte = np.nonzero(part)
            if n.size:
                self._others[at[n], byte] = -1 if write is None else np.stack(write, axis=-1)[n]

    def others(self, at: np.ndarray) -> Write:
        """The writer of each byte of words that is not the last writer of its word; -1 if there is none; (words,
        bytes).
        """
        return Write(*np.moveaxis(self._others[at], -1, 0))

    def taken(self, at: np.ndarray, bits: np.ndarray) -> None:
        """Note that these bytes of words belong to no plain write any more."""
        self._keep()
        np.bitwise_and.at(self._written, at, ~bits & np.uint8(WHOLE))
        if self.has_others:
            n, byte = np.nonzero(bits[:, None] >> _BYTES & 1)
            self._others[at[n], byte] = -1

    def written_whole(self, at: np.ndarray, *, keeps_holes: bool = False) -> None:
        """Note a write of whole words, or of bytes that count as the whole word in races."""
        if self.kept:
            self._written[at] = WHOLE
        if self.has_others:
            self._others[at] = -1
        if self.has_holes and not keeps_holes:
            self._holes[at] = 0

    def fill(self, at: np.ndarray, bits: np.ndarray, are_first: np.ndarray) -> None:
        """Note which bytes of words have a value now; `are_first` are words that had none."""
        if are_first.any():
            if not self.has_holes:
                self.has_holes, self._holes = True, np.zeros(self.words, np.uint8)
            self._holes[at[are_first]] = WHOLE
        if self.has_holes and (open_ := self._holes[at] != 0).any():
            np.bitwise_and.at(self._holes, at[open_], ~bits[open_] & np.uint8(WHOLE))

    def holes_of(self, at: np.ndarray) -> np.ndarray:
        """The bytes of words that have no value, next to others that have one: a bit for each."""
        return self._holes[at] if self.has_holes else np.zeros(at.shape, np.uint8)
