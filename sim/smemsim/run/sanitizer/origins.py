"""Marks of values that may be wrong. A mark is the number of a set of origins (`Origins`), which are reports of doubts.
The class `Words` has the marks of the bytes of a memory. Marks move between registers and memories in `taint.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.numbered_sets import NumberedSets
from smemsim.core.ptx.module import Instruction
from smemsim.run.following import Tell

__all__ = ["WORD", "Origins", "Words", "widened", "words_of"]


WORD = 4


class Origins:
    """A mark is the number of a set of doubts, 0 of none; arrays of marks are int32.

    >>> origins, told = Origins(), []
    >>> a, b = (origins.of(name, lambda user, name=name: told.append(name)) for name in "ab")
    >>> both = origins.join(np.array([0, a, a], np.int32), np.array([0, 0, b], np.int32))
    >>> origins.tell(None, both[1:2]); origins.tell(None, both)
    >>> told
    ['a', 'a', 'b']
    """

    def __init__(self) -> None:
        self._sets = NumberedSets()
        self._known: dict[Hashable, int] = {}
        self._tells: list[Tell] = []
        self._whole: dict[int, Hashable] = {}  # by number their key: those that leave nothing of a result without doubt
        # by number what `of` has been given for `computed`
        self._computed: dict[int, tuple[Hashable, Callable[[Instruction], Tell]]] = {}
        self._milder: dict[int, int] = {}  # by number the mark that `milder` gives
        self._of_results: set[int] = set()  # of these the ones for which only results count
        self._of_arrays: set[int] = set()  # those of arrays that nothing has written
        self._gaps: frozenset[int] = frozenset()  # those that `apart` has made of gaps
        self._keys: list[Hashable] = []  # by number

    def of(
        self,
        key: Hashable,
        tell: Tell,
        *,
        is_whole: bool = False,
        computed: Callable[[Instruction], Tell] | None = None,
        only_results: bool = False,
        is_array: bool = False,
    ) -> int:
        """The mark of one taint with this key, reported by its first `tell`.

        If the report is milder for a value that is only copied, `computed` gives the report for computed values. With
        `only_results` it is for results alone (`is_result` of `taint.py`). With `is_array` conversions copy, too.
        """
        mark = self._known.get(key)
        if mark is None:
            number = len(self._tells)
            mark = self._known[key] = self._sets.number((number,))
            self._tells.append(tell)
            self._keys.append(key)
            if computed is not None:
                self._computed[number] = key, computed
                self._of_results.update((number,) * only_results)
                self._of_arrays.update((number,) * is_array)
        if is_whole:
            self._whole.update(dict.fromkeys(self._sets[mark], key))
        return mark

    def union(self, a: int, b: int) -> int:
        """The mark of the doubts of two marks."""
        if a == b or not b:
            return a
        return self._sets.union(a, b)

    def join(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The marks of what two values make."""
        joined: np.ndarray = np.maximum(a, b)
        if a is b:
            return joined
        both = (a != b) & (joined > 0) & (np.minimum(a, b) > 0)
        if both.any():
            a, b = (np.broadcast_to(marks, both.shape)[both].astype(np.int64) for marks in (a, b))
            pairs, at = np.unique(a << 32 | b, return_inverse=True)
            joined[both] = np.array([self.union(pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist()], np.int32)[at]
        return joined

    def _each(self, marks: np.ndarray, of: Callable[[int], int]) -> np.ndarray:
        """The marks that a function gives for these marks, the same array if none changes."""
        known, which = np.unique(marks, return_inverse=True)
        made = [of(mark) for mark in known.tolist()]
        return marks if made == known.tolist() else np.array(made, np.int32)[which.reshape(marks.shape)]

    def _joined(self, mark: int, of: Callable[[int], int]) -> int:
        """The mark of what a function makes of the doubts of a mark."""
        made = 0
        for number in sorted(self._sets[mark]):
            made = self.union(of(number), made)
        return made

    @property
    def are_changed(self) -> bool:
        """Is there one that `computed` changes?"""
        return bool(self._computed)

    def known(self, key: Hashable) -> int:
        """The mark that `of` has given for a key."""
        return self._known[key]

    def key(self, number: int) -> Hashable:
        """The arguments of `of` for a taint."""
        return self._keys[number]

    def masked(self, marks: np.ndarray, of: Callable[[Tell], Tell]) -> np.ndarray:
        """The marks of values that are multiplied by 0, reported by what `of` makes of their reports: whatever is
        computed with them is milder, too.
        """
        those = self._of_results | self._of_arrays
        if not those or not marks.any():
            return marks

        def milder(number: int) -> int:
            return self.of(("masked", self._keys[number]), of(self._tells[number])) if number in those else self._sets.number((number,))

        return self._each(marks, lambda mark: self._joined(mark, milder) if self._sets[mark] & those else mark)

    def apart(self, marks: np.ndarray, kind: str) -> np.ndarray:
        """The marks of values that may be padding: `kind` is "gap" of what a thread has loaded, "pad" of what has been
        made of it. Sums of it have the marks that those of the value would have.
        """
        return self._each(marks, lambda mark: self._joined(mark, lambda number: self._apart_one(number, kind)))

    def _apart_one(self, number: int, kind: str) -> int:
        key: Any = self._keys[number]
        base = key[1] if key[0] in ("gap", "pad") else key
        own = self._computed.get(number)
        computed = (lambda by: self._tells[number]) if own is None else own[1]
        mark = self.of((kind, base), self._tells[number], computed=computed, only_results=True)
        if kind == "gap":
            self._gaps |= self._sets[mark]
        return mark

    def pure(self, i: Instruction, marks: np.ndarray) -> np.ndarray:
        """The marks of what an instruction makes of several values that all have marks. It may be padding like them,
        unless one of them is the result of other values, too.
        """
        if not marks.any():
            return marks
        return self._each(marks, lambda mark: self._joined(mark, lambda number: self._pure_one(i, number)))

    def _pure_one(self, i: Instruction, number: int) -> int:
        key: Any = self._keys[number]
        if key[0] == "pad":
            return self._known[key]
        if number in self._computed:
            (number,) = self._sets[self._computed_one(i, self._known[key], True)]
        elif key[0] != "shared":
            return self._known[key]
        return self._apart_one(number, "pad")

    def added(self, i: Instruction, marks: np.ndarray) -> np.ndarray:
        """The marks of words to which values with these marks are added: padding stays padding."""

        def sum_of(mark: int) -> int:
            pads = {number for number in self._sets[mark] if self._keys[number][0] == "pad"}  # type: ignore[index]
            others = self._computed_one(i, self._sets.number(self._sets[mark] - pads), True)
            return self.union(self._sets.number(pads), others)

        return self._each(marks, sum_of)

    def are_padding(self, marks: np.ndarray) -> np.ndarray:
        """Which values are padding of rows in shared memory, or were made of nothing else?"""
        known, which = np.unique(marks, return_inverse=True)
        kinds = [
            bool(own := self._sets[mark]) and all(self._keys[number][0] in ("gap", "pad") for number in own)  # type: ignore[index]
            for mark in known.tolist()
        ]
        found: np.ndarray = np.array(kinds, bool)[which.reshape(marks.shape)]
        return found

    @property
    def have_gaps(self) -> bool:
        """Has a thread loaded padding of rows in shared memory?"""
        return bool(self._gaps)

    def has_gaps(self, marks: np.ndarray) -> list[int]:
        """The numbers that `apart` has made of gaps, of those of marks."""
        if not self._gaps or not marks.any():
            return []
        numbers = frozenset().union(*(self._sets[mark] for mark in distinct(marks.reshape(-1)).tolist()))
        return sorted(numbers & self._gaps)

    def site_of(self, number: int) -> int:
        """The site of the load that has brought a gap."""
        site: int = self._keys[number][1][1]  # type: ignore[index]
        return site

    def plain(self, marks: np.ndarray, gaps: Collection[int]) -> np.ndarray:
        """The marks of values that are no padding after all: without these gaps, and with what they were made of."""

        def plain(number: int) -> int:
            return self._known[self._keys[number][1]] if number in gaps else self._sets.number((number,))  # type: ignore[index]

        return self._each(marks, lambda mark: self._joined(mark, plain))

    def computed(self, i: Instruction, marks: np.ndarray, *, is_result: bool = False) -> np.ndarray:
        """The marks of what an instruction makes of values with these marks; `is_result`: it is a matrix product, a sum
        of elements, or what the values alone decide.
        """
        if not self._computed or not marks.any():
            return marks
        return self._each(marks, lambda mark: self._computed_one(i, mark, is_result))

    def _computed_one(self, i: Instruction, mark: int, is_result: bool) -> int:
        origins = self._sets[mark]
        kept = set() if is_result else self._of_results | (self._of_arrays if i.op == "cvt" else set())
        changing = (origins & self._computed.keys()) - kept
        made = self._sets.number(origins - changing)
        for number in sorted(changing):
            key, tell = self._computed[number]
            made = self.union(self.of(("computed", key, i.site), tell(i)), made)
        return made

    def all(self, marks: np.ndarray, axis: int) -> np.ndarray:
        """The marks of what all values along an axis make."""
        joined: np.ndarray = marks.max(axis=axis)
        if (np.where(marks == 0, np.expand_dims(joined, axis), marks) != np.expand_dims(joined, axis)).any():
            parts = np.moveaxis(marks, axis, 0)
            joined = parts[0]
            for part in parts[1:]:
                joined = self.join(joined, part)
        return joined

    def numbers(self, mark: int) -> frozenset[int]:
        """The doubts of a mark."""
        return self._sets[mark]

    def tell_one(self, number: int, user: Instruction | None) -> None:
        """A value with this doubt is used."""
        self._tells[number](user)

    def tell(self, user: Instruction | None, marks: np.ndarray) -> None:
        """Values with these marks are used."""
        origins = frozenset().union(*(self._sets[mark] for mark in distinct(marks).tolist()))
        for number in sorted(origins):
            self._tells[number](user)

    def milder(self, marks: np.ndarray, name: str, of: Callable[[Tell], Tell]) -> np.ndarray:
        """The marks with other taints instead of their own, reported by what `of` makes of the first reports. `name`
        identifies `of`.
        """

        def milder(number: int) -> int:
            own = self._milder.get(number)
            if own is None:
                own = self.of((name, number), of(self._tells[number]))
                self._milder.update(dict.fromkeys((number, *self._sets[own]), own))
            return own

        return self._each(marks, lambda mark: self._joined(mark, milder))

    @property
    def are_whole(self) -> bool:
        """Is there one that leaves nothing of a result without doubt?"""
        return bool(self._whole)

    def abandon(self, concerns: Callable[[Hashable], bool] = lambda key: True) -> None:
        """The kernel ends, and its values are not used any more: report what spoiled a whole result, for the taints
        whose key concerns a live operation.
        """
        for number, key in self._whole.items():
            if concerns(key):
                self._tells[number](None)


class Words:
    """The marks of the bytes of a memory.

    >>> words = Words(Origins(), 2)
    >>> words.put(np.array([4, 6]), 2, np.array([0, 3], np.int32))
    >>> words.of(np.array([4, 6, 4]), 2).tolist(), words.of(np.array([0]), 8).tolist()
    ([[0], [3], [0]], [[0, 0, 0, 0, 0, 0, 3, 3]])
    >>> words.clear(np.array([4]), 4)
    >>> words.marks.tolist()
    [[0, 0, 0, 0], [0, 0, 0, 0]]
    """

    def __init__(self, origins: Origins, words: int) -> None:
        self.origins = origins
        self.marks = np.zeros((words, WORD), np.int32)

    def of(self, flat: np.ndarray, size: int) -> np.ndarray:
        """The marks of accesses of `size` bytes at `flat`: (n, bytes of one), or (n, words of one) if the bytes of
        each word have the same.
        """
        if size < WORD:
            found: np.ndarray = self.marks.reshape(-1)[flat[:, None] + np.arange(size)]
            return found[:, :1] if (found == found[:, :1]).all() else found
        whole: np.ndarray = self.marks[words_of(flat, size)]
        return whole[..., 0] if (whole == whole[..., :1]).all() else whole.reshape(len(flat), -1)

    def of_words(self, words: np.ndarray) -> np.ndarray:
        """The marks of words, by their places: of each those of all its bytes."""
        found: np.ndarray = self.origins.all(self.marks[words], axis=-1)
        return found

    def put(self, flat: np.ndarray, size: int, marks: np.ndarray) -> None:
        """Values with these marks, (n,) or of their bytes (n, bytes), are written."""
        if size >= WORD:
            self.marks[words_of(flat, size)] = marks[:, None, None] if marks.ndim == 1 else marks.reshape(len(flat), -1, WORD)
            return
        self.marks.reshape(-1)[flat[:, None] + np.arange(size)] = marks[:, None] if marks.ndim == 1 else marks

    def clear(self, flat: np.ndarray, size: int) -> None:
        """Values without a doubt are written."""
        self.put(flat, size, np.zeros(len(flat), np.int32))

    def widen(self, threads: int, words: int) -> None:
        """Every thread has `words` now; the new ones have no mark."""
        self.marks = widened(self.marks, threads, words * WORD).reshape(-1, WORD)


def widened(words: np.ndarray, threads: int, room: int) -> np.ndarray:
    """The words, or bytes, of each thread one after the other, when each gets room for so many."""
    own = words.reshape(threads, -1)
    return np.pad(own, ((0, 0), (0, room - own.shape[1]))).reshape(-1)


def words_of(flat: np.ndarray, size: int) -> np.ndarray:
    """The words of accesses of `size` bytes at `flat`: (n, words of one)."""
    found: np.ndarray = (flat >> 2)[:, None] + np.arange(size // WORD)
    return found
