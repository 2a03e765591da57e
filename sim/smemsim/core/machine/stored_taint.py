"""Uninitialised values that kernels have stored to global memory, up to their use: by a later instruction, a later
launch, or the host.

A kernel may store values that nothing reads: the columns of a tile past the last one, in a buffer that another kernel
adds up. So a store only marks its words. The marks belong to the memory, and outlive launches. A word has its mark as
long as it holds the stored bits: what the host writes there needs no report.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from smemsim.base.numbered_sets import NumberedSets
from smemsim.core.machine.padding import Rows, pad_columns

__all__ = ["Saved", "StoredDoubt", "StoredTaint", "strided"]


WORD = 4
ALL, LATE = 0b1111, 0b10000  # bytes of a word, as bits; the word is not there yet, under a schedule
FEW_DOUBTS = 1024  # from which on doubts that are over are looked for when twice as many are there


def strided(shape: Sequence[int], strides: Sequence[int], size: int) -> Callable[[np.ndarray], np.ndarray]:
    """Which bytes, by their distance from the first one, elements of `size` bytes cover; strides are in bytes.

    >>> strided((2, 3), (16, 4), 4)(np.array([0, 11, 12, 16, 28])).tolist()
    [True, True, False, True, False]
    """

    def inside(offset: np.ndarray) -> np.ndarray:
        left = offset.copy()
        for stride, count in sorted(zip(strides, shape, strict=True), reverse=True):
            if stride > 0:
                left -= np.minimum(left // stride, count - 1) * stride
        found: np.ndarray = left < size
        return found

    return inside


class StoredDoubt(Protocol):
    """The doubt about stored values. The findings of the launch that has stored them are `findings`. If `is_pad` is
    set, the host may copy those that lie like padding. If `is_gap` is set, they are padding in their source, too. If
    `is_told` is set, it is known that the host has copied them.
    """

    findings: Any
    is_used: bool
    is_told: bool
    is_pad: bool
    is_gap: bool

    def use(self, by: Any, *, in_kernel: bool) -> bool:
        """Something uses such a value. Is that new?"""

    def copied(self, by: Any, offsets: np.ndarray, rows: Callable[[], Rows]) -> bool:
        """The host gets such bytes, at these distances from the first byte that it gets. All uninitialised bytes that
        it gets are gaps of `rows`. Is that new?
        """


def _may_be_pad(doubt: StoredDoubt, by: Any) -> bool:
    """May the host get such a value as padding? `by` None: a launch is over, and its caller names arrays; then it wants
    what has been computed.
    """
    return doubt.is_gap or (doubt.is_pad and by is not None)


class Array(Protocol):
    """An array of global memory: its words, the first at `words_begin`, and the addresses of its bytes."""

    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def words(self) -> np.ndarray: ...
    @property
    def words_begin(self) -> int: ...


class Saved(NamedTuple):
    """The marks of one array at some moment."""

    region: Array
    at: np.ndarray
    numbers: np.ndarray
    parts: np.ndarray
    values: np.ndarray


@dataclasses.dataclass(eq=False)
class _Marks:
    """The marks of the words of one array. By word it has the number of a set of doubts, the bytes that have it (as
    bits), and the word as it was stored. No word outside `first` to `end` has one. Tables of zeros take no memory until
    they are written.
    """

    region: Array
    numbers: np.ndarray
    parts: np.ndarray
    values: np.ndarray
    first: int
    end: int = 0

    @classmethod
    def of(cls, region: Array) -> _Marks:
        count = region.words.nbytes // WORD
        return cls(region, np.zeros(count, np.int32), np.zeros(count, np.uint8), np.zeros(count, np.uint32), count)

    def bits(self, at: Any) -> np.ndarray:
        """Which bytes of words have their mark still, as bits. If a whole word has one, all of it must be as it was."""
        differ = self.values[at] ^ self.region.words.view(np.uint32)[at]
        same = np.packbits(np.ascontiguousarray(differ)[..., None].view(np.uint8) == 0, axis=-1, bitorder="little")[..., 0]
        parts = self.parts[at]
        same = np.where((parts & ALL == ALL) & (differ != 0), np.uint8(0), same)
        found: np.ndarray = np.where(parts & LATE, parts & np.uint8(ALL), parts & same)
        return found

    def marked(self, first: int, end: int) -> np.ndarray:
        """The words from `first` up to `end` that have marks still, by their places."""
        first, end = max(first, self.first), min(end, self.end)
        at = first + np.flatnonzero(self.parts[first:end]) if first < end else np.zeros(0, np.int64)
        found: np.ndarray = at[self.bits(at) != 0]
        return found

    def leave(self, at: np.ndarray, numbers: np.ndarray, parts: np.ndarray, *, is_late: bool = False) -> None:
        """Words have these marks, and hold what is there, or will later."""
        self.numbers[at] = np.where(parts != 0, numbers, 0)
        self.parts[at] = np.where(parts != 0, parts | LATE, 0) if is_late else parts
        self.values[at] = self.region.words.view(np.uint32)[at]
        if at.size and parts.any():
            self.first, self.end = min(self.first, int(at.min())), max(self.end, int(at.max()) + 1)


class StoredTaint:
    """The marks of all arrays of a global memory. A mark is the number of a set of doubts, 0 of none.

    >>> from types import SimpleNamespace
    >>> from smemsim.core.machine.global_memory import Region
    >>> region, taint, told = Region.of(0x100, np.zeros(16, np.uint8)), StoredTaint(), []
    >>> doubt = SimpleNamespace(is_pad=False, is_gap=False, is_used=False, is_told=False)
    >>> doubt.use, doubt.copied = lambda by, in_kernel: told.append(by) or True, lambda by, offsets, rows: False
    >>> number = taint.number_of([doubt])
    >>> taint.put(region, np.array([4, 8]), 4, np.array([number, 0], np.int32))
    >>> taint.of(region.words, np.array([4, 8]), 4).any(axis=1).tolist()
    [True, False]
    >>> taint.use(0x108, 0x110, "a copy"), taint.use(0x104, 0x105, "another copy"), told
    (False, True, ['another copy'])
    >>> taint.clear(region.words, np.array([5]), 1)
    >>> taint.of(region.words, np.array([4]), 4).astype(bool).tolist()
    [[True, False, True, True]]
    >>> region.data[4:8] = 7  # the host writes
    >>> taint.of(region.words, np.array([4]), 4)
    """

    def __init__(self) -> None:
        self._arrays: dict[int, _Marks] = {}  # by the words of the array
        self._doubts: dict[int, StoredDoubt] = {}
        self._count = 0  # doubts so far
        self._places: dict[int, int] = {}  # of a doubt in `_doubts`
        self._sets = NumberedSets()  # of doubts, by their places
        self.due: list[StoredDoubt] | None = None  # doubts whose values were used, if somebody takes them from here
        self._live = 0  # doubts that the last `sweep` has left
        self.carried = 0  # stores of values with marks that an earlier store has left

    def __bool__(self) -> bool:
        return bool(self._arrays)

    # ---- sets of doubts

    def number_of(self, doubts: Any) -> int:
        """The number of a set of doubts."""
        places = set()
        for doubt in doubts:
            place = self._places.get(id(doubt))
            if place is None:
                place = self._places[id(doubt)] = self._count
                self._doubts[place] = doubt
                self._count += 1
            places.add(place)
        return self._sets.number(places)

    def doubts_of(self, number: int) -> list[StoredDoubt]:
        """The doubts of a set."""
        return [self._doubts[place] for place in sorted(self._sets[number]) if place in self._doubts]

    @property
    def doubts(self) -> list[StoredDoubt]:
        """All doubts."""
        return list(self._doubts.values())

    def _joined(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The numbers of what two sets each have together."""
        pairs, at = np.unique(np.stack([one, other]), axis=1, return_inverse=True)
        made = [self._sets.union(a, b) for a, b in pairs.T.tolist()]
        found: np.ndarray = np.array(made, np.int32)[at.reshape(-1)]
        return found

    # ---- kernels

    def has(self, memory: np.ndarray) -> bool:
        """Has a word of an array, which is known by its words, a mark?"""
        return id(memory) in self._arrays

    def put(self, region: Array, at: np.ndarray, size: int, numbers: np.ndarray, *, is_late: bool = False) -> None:
        """Values of `size` bytes have been stored at byte offsets of an array's words. Their marks are (n,), or (n,
        size) for their bytes. With `is_late`, they are there when `settle` is called.
        """
        if not numbers.any():
            return
        marks = self._arrays.setdefault(id(region.words), _Marks.of(region))
        numbers = np.broadcast_to(numbers[:, None], (len(at), size)) if numbers.ndim == 1 else numbers
        if size >= WORD:
            words = numbers.reshape(-1, WORD)
            bits = np.packbits(words != 0, axis=-1, bitorder="little")[:, 0]
            joined = words[:, 0]
            for n in range(1, WORD):
                joined = joined if (joined == words[:, n]).all() else self._joined(joined, words[:, n])
            marks.leave(((at >> 2)[:, None] + np.arange(size // WORD)).reshape(-1), joined, bits, is_late=is_late)
            return
        for n in range(size):
            for part in range(WORD):  # words of accesses at the same byte of a word are different ones
                own = (at + n & WORD - 1) == part
                word = (at[own] + n) >> 2
                kept = marks.bits(word) & ~np.uint8(1 << part) & np.uint8(ALL)
                number = np.where(kept != 0, self._joined(marks.numbers[word], numbers[own, n]), numbers[own, n])
                bits = kept | (numbers[own, n] != 0).astype(np.uint8) << np.uint8(part)
                marks.leave(word, number, bits, is_late=is_late or bool((marks.parts[word] & LATE).any()))

    def add(self, region: Array, at: np.ndarray, size: int, numbers: np.ndarray) -> None:
        """Values of `size` bytes with these marks (n,) have been added to what is at byte offsets of an array's words,
        and others may be, until `settle` is called.
        """
        at, numbers = np.unique(np.stack([at, numbers]), axis=1)
        while at.size:  # at one place one after the other
            places, first = np.unique(at, return_index=True)
            before, given = self.of(region.words, places, size), numbers[first].astype(np.int32)
            joined = given if before is None else self._joined(before.max(axis=1), given)
            self.put(region, places, size, joined, is_late=True)
            at, numbers = np.delete(at, first), np.delete(numbers, first)

    def settle(self) -> None:
        """Everything that was stored is there now."""
        for marks in self._arrays.values():
            at = marks.first + np.flatnonzero(marks.parts[marks.first : marks.end] & LATE)
            marks.leave(at, marks.numbers[at], marks.parts[at] & np.uint8(ALL))

    def of(self, memory: np.ndarray, at: np.ndarray, size: int) -> np.ndarray | None:
        """The marks of the bytes of accesses at byte offsets, (n, size); None where there are none."""
        marks = self._arrays.get(id(memory))
        if marks is None:
            return None
        word = (at >> 2)[:, None] + np.arange(-(-size // WORD))
        if not marks.parts[word].any():
            return None
        first = (at & WORD - 1)[:, None] if size < WORD else 0
        places = np.asarray(first + np.arange(size) % WORD, np.uint8)
        times = min(size, WORD)
        is_set = marks.bits(word).repeat(times, axis=1)[:, :size] >> places & 1 != 0
        return np.where(is_set, marks.numbers[word].repeat(times, axis=1)[:, :size], np.int32(0)) if is_set.any() else None

    def clear(self, memory: np.ndarray, at: np.ndarray, size: int) -> None:
        """Accesses at byte offsets write values without a doubt."""
        marks = self._arrays.get(id(memory))
        if marks is None:
            return
        if size >= WORD:
            word = (at >> 2)[:, None] + np.arange(size // WORD)
            marks.parts[word[word < len(marks.parts)]] = 0
            return
        bits = np.left_shift((1 << size) - 1, at & WORD - 1).astype(np.uint8)
        np.bitwise_and.at(marks.parts, at >> 2, ~bits)

    # ---- the host, and copies; addresses are those of global memory

    def use(self, begin: int, end: int, by: Any, inside: Callable[[np.ndarray], np.ndarray] | None = None) -> bool:
        """The bytes from `begin` up to `end` are used, those that are `inside` by their distance from `begin`. Is a
        doubt among them, not used before?
        """
        offset, number = self.marked(begin, end)
        if inside is None:
            return self._use_by_host(offset, number, by)
        own = inside(offset)
        if self._may_be_pads(number[own], by) and inside(np.arange(end - begin)).all():
            return self._use_by_host(offset, number, by)
        is_new = self.use_numbers(np.unique(number[own]).tolist(), by)
        return self.copied(offset[own], number[own], by) or is_new

    def _may_be_pads(self, number: np.ndarray, by: Any) -> bool:
        return any(_may_be_pad(doubt, by) for n in np.unique(number).tolist() for doubt in self.doubts_of(n))

    def _use_by_host(self, offset: np.ndarray, number: np.ndarray, by: Any) -> bool:
        """The host gets all bytes of a range, of which those at these offsets have these marks."""
        if not self._may_be_pads(number, by):
            is_new = self.use_numbers(np.unique(number).tolist(), by)
            return self.copied(offset, number, by) or is_new
        order = np.argsort(offset, kind="stable")
        of_rows = number[order][~pad_columns(offset[order])]
        is_new = self.use_numbers(np.unique(of_rows).tolist(), by)
        is_new = self.use_numbers(np.unique(number).tolist(), by, are_pads=True) or is_new
        return self.copied(offset, number, by) or is_new

    def copied(self, offset: np.ndarray, number: np.ndarray, by: Any) -> bool:
        """The host has got bytes with these marks, at these distances from the first byte that it got. Their use
        is not known. Is that new?
        """
        is_new = False
        new = [n for n in np.unique(number).tolist() if not all(doubt.is_used or doubt.is_told for doubt in self.doubts_of(n))]
        if not new:
            return is_new
        own = np.isin(number, new)
        offset, number, everything = offset[own], number[own], offset
        rows = functools.cache(lambda: Rows(np.unique(everything)))
        order = np.argsort(number, kind="stable")
        numbers, begins = np.unique(number[order], return_index=True)
        for n, own in zip(numbers.tolist(), np.split(offset[order], begins[1:]), strict=True):
            for doubt in self.doubts_of(n):
                if not doubt.is_used and doubt.copied(by, own, rows):
                    is_new = True
                    if self.due is not None:
                        self.due.append(doubt)
        return is_new

    def marked(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The marked bytes from `begin` up to `end`, by their distance from `begin`, and their marks."""
        found = [(np.zeros(0, np.int64), np.zeros(0, np.int32))]
        for marks, first, last in self._overlapping(begin, end):
            offset, number = self._bytes(marks, first, last)
            found.append((offset + (marks.region.words_begin - begin), number))
        offsets, numbers = (np.concatenate(each) for each in zip(*found, strict=True))
        return offsets, numbers

    @staticmethod
    def _bytes(marks: _Marks, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """The marked bytes of an array between two offsets, by theirs, and their marks."""
        at = marks.marked(first >> 2, -(-last >> 2))
        which, byte = np.nonzero(marks.bits(at)[:, None] >> np.arange(WORD, dtype=np.uint8) & 1)
        offset = at[which] * WORD + byte
        own = (offset >= first) & (offset < last)
        return offset[own], marks.numbers[at[which[own]]]

    def use_numbers(self, numbers: Any, by: Any, *, in_kernel: bool = False, are_pads: bool = False) -> bool:
        """Values with these marks are used, by an instruction or else by the host. `are_pads`: they lie as padding
        does.
        """
        is_new = False
        for place in sorted(set().union(*(self._sets[n] for n in numbers))):
            doubt = self._doubts.get(place)
            if doubt is not None and not (are_pads and _may_be_pad(doubt, by)) and doubt.use(by, in_kernel=in_kernel):
                is_new = True
                if self.due is not None:
                    self.due.append(doubt)
        return is_new

    def use_all(self, by: Any, of: Callable[[Any], bool] = lambda region: True) -> None:
        """Everything that is marked is used, in the arrays that `of` chooses; these have no marks any more. `by` None:
        the host gets these arrays.
        """
        for key, marks in list(self._arrays.items()):
            if of(marks.region):
                if by is None:
                    self._use_by_host(*self._bytes(marks, WORD * marks.first, WORD * marks.end), by)
                else:
                    at = marks.marked(marks.first, marks.end)
                    self.use_numbers(set(np.unique(marks.numbers[at]).tolist()), by)
                del self._arrays[key]
        self.sweep()

    def move(self, region: Array | None, to: int, source: int, size: int) -> None:
        """Bytes have been copied to an address, which lies in a region; their marks go with them."""
        offset, numbers = self.marked(source, source + size)
        self.wrote(to, to + size)
        if region is not None and len(offset):
            self.put(region, offset + (to - region.words_begin), 1, numbers)

    def wrote(self, begin: int, end: int) -> None:
        """The host, or a copy, has written the bytes from `begin` up to `end`."""
        for marks, first, last in self._overlapping(begin, end):
            whole, after = -(-first >> 2), last >> 2
            if whole < after:
                marks.parts[whole:after] = 0
            for byte in {*range(first, min(4 * whole, last)), *range(max(4 * after, first), last)}:
                marks.parts[byte >> 2] &= ~np.uint8(1 << (byte & 3))

    def forget(self, memory: np.ndarray) -> None:
        """An array is gone."""
        self._arrays.pop(id(memory), None)

    def _overlapping(self, begin: int, end: int) -> Iterator[tuple[_Marks, int, int]]:
        """The arrays with marks that have bytes in a range of addresses, and these as offsets of their words."""
        for marks in list(self._arrays.values()):
            first, last = max(begin, marks.region.begin), min(end, marks.region.end)
            if first < last:
                yield marks, first - marks.region.words_begin, last - marks.region.words_begin

    # ---- what is kept

    def sweep_if_due(self) -> None:
        """The same as `sweep`, but of many doubts only as often as their number doubles."""
        if len(self._doubts) < FEW_DOUBTS or len(self._doubts) >= 2 * self._live:
            self.sweep()

    def sweep(self) -> None:
        """Forget doubts that no word has any more, and arrays without marks."""
        live = set[int]()
        for key, marks in list(self._arrays.items()):
            at = marks.marked(marks.first, marks.end)
            if not at.size:
                del self._arrays[key]
            live |= set(np.unique(marks.numbers[at]).tolist())
        kept = set().union(*(self._sets[number] for number in live))
        for place in [place for place in self._doubts if place not in kept]:
            del self._places[id(self._doubts.pop(place))]
        self._live = len(self._doubts)

    def saved(self) -> list[Saved]:
        """The marks as they are now."""
        found = []
        for marks in self._arrays.values():
            at = marks.marked(marks.first, marks.end)
            found.append(Saved(marks.region, at, marks.numbers[at], marks.bits(at), marks.values[at]))
        return found

    def join(self, region: Array, saved: Saved) -> None:
        """Words that had these marks are in another array now."""
        at = saved.at + (saved.region.words_begin - region.words_begin) // WORD
        own = (at >= 0) & (at < region.words.nbytes // WORD)
        if own.any():
            marks = self._arrays.setdefault(id(region.words), _Marks.of(region))
            marks.leave(at[own], saved.numbers[own], saved.parts[own])
            marks.values[at[own]] = saved.values[own]

    def restore(self, saved: list[Saved]) -> None:
        """Give the words the marks of then. The arrays hold what they held then."""
        self._arrays.clear()
        for region, at, numbers, parts, values in saved:
            marks = self._arrays[id(region.words)] = _Marks.of(region)
            marks.leave(at, numbers, parts)
            marks.values[at] = values
