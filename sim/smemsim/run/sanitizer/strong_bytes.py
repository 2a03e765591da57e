"""Strong accesses (atomic, relaxed, acquire, release, volatile) of less than a word of shared memory, by byte."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["Accesses", "StrongBytes"]


WORD = 4


class Accesses(NamedTuple):
    """Strong accesses that other warps have made of bytes that are now accessed: an entry for each pair.

    The array `n` has the place of the present access. The others describe the earlier access: its warp, the clock of
    this warp, its line, the byte of the word, and whether it was a write.
    """

    n: np.ndarray
    who: np.ndarray
    when: np.ndarray
    line: np.ndarray
    byte: np.ndarray
    wrote: np.ndarray


@dataclasses.dataclass(eq=False, slots=True)
class _Byte:
    """The accesses of a byte, the last one of each warp: (when, line). The narrow ones are those of scope .cta in a
    cluster. Warps that have read the byte by a strong operation are in `observed`, with the time of the read and the
    writes that they have found there.
    """

    writes: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    reads: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    narrow_writes: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    narrow_reads: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    observed: dict[int, tuple[int, dict[int, int]]] = dataclasses.field(default_factory=dict)


class StrongBytes:
    """The strong accesses of less than a word in the shared memory of a wave.

    >>> bytes = StrongBytes(4)
    >>> bytes.note(np.array([5]), 2, np.array([0]), np.array([7]), 20, reads=False, writes=True)
    >>> found = bytes.accesses(np.array([1, 1]), np.array([1, 1]), np.array([0b0001, 0b1110], np.uint8), with_reads=False)
    >>> found.n.tolist(), found.who.tolist(), found.when.tolist(), found.byte.tolist()
    ([1, 1], [0, 0], [7, 7], [1, 2])
    """

    def __init__(self, words: int) -> None:
        self._words = words
        self._has: np.ndarray | None = None  # which words have such accesses
        self._bytes: dict[int, _Byte] = {}
        self.has_narrow = False

    def are_there(self, at: np.ndarray) -> bool:
        """Has any of these words such accesses?"""
        return self._has is not None and bool(self._has[at].any())

    def is_written(self, place: int) -> bool:
        """Was the byte at a place last written by such an access?"""
        byte = self._bytes.get(place)
        return byte is not None and bool(byte.writes)

    def note(
        self, flat: np.ndarray, size: int, warps: np.ndarray, clocks: np.ndarray, line: int, *, reads: bool, writes: bool, is_narrow: bool = False
    ) -> None:  # fmt: skip
        """Warps access `size` bytes at places `flat`, at these clocks. A read finds what others have written."""
        self.has_narrow |= is_narrow
        if self._has is None:
            self._has = np.zeros(self._words, bool)
        self._has[flat >> 2] = True
        for place, warp, clock in zip(flat.tolist(), warps.tolist(), clocks.tolist(), strict=True):
            for n in range(place, place + size):
                byte = self._bytes.setdefault(n, _Byte())
                if reads:
                    found = {other: when for other, (when, _) in byte.writes.items() if other != warp}
                    if found and byte.observed.get(warp, (0, {}))[1] != found:
                        byte.observed[warp] = clock, found
                    if not writes:
                        byte.reads[warp] = clock, line
                if writes:
                    byte.writes[warp] = clock, line
                if is_narrow:
                    (byte.narrow_writes if writes else byte.narrow_reads)[warp] = clock, line

    def accesses(self, at: np.ndarray, warps: np.ndarray, bits: np.ndarray, *, with_reads: bool, only_narrow: bool = False) -> Accesses:
        """The strong writes (`with_reads`: and reads) by others of these bytes of words, which warps now access."""
        found: list[tuple[int, int, int, int, int, bool]] = []
        assert self._has is not None
        for n in np.flatnonzero(self._has[at]).tolist():
            place, warp, own = int(at[n]) * WORD, int(warps[n]), int(bits[n])
            for k in range(WORD):
                byte = self._bytes.get(place + k) if own >> k & 1 else None
                if byte is None:
                    continue
                writes, reads = (byte.narrow_writes, byte.narrow_reads) if only_narrow else (byte.writes, byte.reads)
                found += [(n, other, when, line, k, True) for other, (when, line) in writes.items() if other != warp]
                if with_reads:
                    found += [(n, other, when, line, k, False) for other, (when, line) in reads.items() if other != warp]
        at_, who_, when_, line_, part_, wrote_ = np.array(found, np.int64).reshape(-1, len(Accesses._fields)).T
        return Accesses(at_, who_, when_, line_, part_, wrote_.astype(bool))

    def is_observed(self, place: int, warp: int, other: int, when: int, has_seen: Callable[[int, int], int]) -> bool:
        """Has a warp observed another one's strong write to the byte at a place, itself or by way of a third warp that
        it has seen?
        """
        byte = self._bytes.get(place)
        return byte is not None and any(
            writes.get(other, -1) >= when and (reader == warp or has_seen(warp, reader) >= since)
            for reader, (since, writes) in byte.observed.items()
        )

    def forget(self, at: np.ndarray, bits: np.ndarray | None = None) -> None:
        """Words, or these bytes of them, were written by other accesses, which stand for the earlier ones."""
        if not self.are_there(at):
            return
        for n in np.flatnonzero(self._has[at]).tolist():  # type: ignore[index]
            for k in range(WORD):
                if bits is None or int(bits[n]) >> k & 1:
                    self._bytes.pop(int(at[n]) * WORD + k, None)
