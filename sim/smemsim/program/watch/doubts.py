"""Values that may be wrong: what an instruction read too early, or where nobody had written, as marks that follow the value to where it is used.

A kernel may read what it throws away: the rows below a ragged tile, the lanes without a product, the element past the end of a row. That harms nobody,
so what is wrong with a read is a doubt about its value, and is told where the value is used. A value is used when it decides an address, a branch, a
guard, or goes to global memory; moved, converted, multiplied or stored to shared or tensor memory it is not: the result has its doubts instead. Of D of
a matrix instruction a row has the doubts of its row of A, and a column those of its row of B.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

import numpy as np

from smemsim.ptx.module import Instruction

__all__ = ["Doubts", "Tell"]


Tell: TypeAlias = Callable[[Instruction | None], None]  # of who uses the value; None where the kernel ends before anybody could
MOST = 4096  # sets of doubts; of what comes together beyond that one side is kept


class Doubts:
    """A mark is the number of a set of doubts, 0 of none; arrays of marks are int32.

    >>> doubts, told = Doubts(), []
    >>> a, b = (doubts.of(name, lambda user, name=name: told.append(name)) for name in "ab")
    >>> both = doubts.join(np.array([0, a, a], np.int32), np.array([0, 0, b], np.int32))
    >>> doubts.tell(None, both[1:2]); doubts.tell(None, both)
    >>> told
    ['a', 'a', 'b']
    """

    def __init__(self) -> None:
        self._sets: list[frozenset[int]] = [frozenset()]
        self._numbers: dict[frozenset[int], int] = {frozenset(): 0}
        self._known: dict[Hashable, int] = {}
        self._tells: list[Tell] = []
        self._whole: dict[int, Hashable] = {}  # by number their key: those that leave nothing of a result without doubt

    def of(self, key: Hashable, tell: Tell, *, is_whole: bool = False) -> int:
        """The mark of the doubt with this key alone, told by its first `tell`."""
        mark = self._known.get(key)
        if mark is None:
            mark = self._known[key] = self._number(frozenset((len(self._tells),)))
            self._tells.append(tell)
        if is_whole:
            self._whole.update(dict.fromkeys(self._sets[mark], key))
        return mark

    def _number(self, doubts: frozenset[int]) -> int:
        found = self._numbers.get(doubts)
        if found is None:
            found = self._numbers[doubts] = len(self._sets)
            self._sets.append(doubts)
        return found

    def union(self, a: int, b: int) -> int:
        """The mark of both."""
        if a == b or not b or (a and len(self._sets) >= MOST):
            return a
        return self._number(self._sets[a] | self._sets[b])

    def join(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The marks of what two values make."""
        found: np.ndarray = np.maximum(a, b)
        if a is b:
            return found
        both = (a != b) & (found > 0) & (np.minimum(a, b) > 0)
        if both.any():
            a, b = (np.broadcast_to(marks, both.shape)[both].astype(np.int64) for marks in (a, b))
            pairs, at = np.unique(a << 32 | b, return_inverse=True)
            found[both] = np.array([self.union(pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist()], np.int32)[at]
        return found

    def all(self, marks: np.ndarray, axis: int) -> np.ndarray:
        """The marks of what all values along an axis make."""
        found: np.ndarray = marks.max(axis=axis)
        if (np.where(marks == 0, np.expand_dims(found, axis), marks) != np.expand_dims(found, axis)).any():
            parts = np.moveaxis(marks, axis, 0)
            found = parts[0]
            for part in parts[1:]:
                found = self.join(found, part)
        return found

    def tell(self, user: Instruction | None, marks: np.ndarray) -> None:
        """These values are used."""
        doubts = frozenset().union(*(self._sets[mark] for mark in np.unique(marks).tolist()))
        for number in sorted(doubts):
            self._tells[number](user)

    def abandon(self, concerns: Callable[[Hashable], bool] = lambda key: True) -> None:
        """The kernel ends, and nobody uses its values any more: told is what spoiled a result wholly, of the doubts whose key concerns somebody."""
        for number, key in self._whole.items():
            if concerns(key):
                self._tells[number](None)
