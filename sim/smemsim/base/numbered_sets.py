"""Sets of numbers, each known by a number of its own: 0 is the empty set. Arrays hold these numbers as marks."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["NumberedSets"]


class NumberedSets:
    """Equal sets have one number.

    >>> sets = NumberedSets()
    >>> one, both = sets.number({4}), sets.number({4, 7})
    >>> one, both, sets.union(one, both), sets.number(()), sorted(sets[both])
    (1, 2, 2, 0, [4, 7])
    """

    def __init__(self) -> None:
        self._sets: list[frozenset[int]] = [frozenset()]
        self._numbers: dict[frozenset[int], int] = {frozenset(): 0}

    def __getitem__(self, number: int) -> frozenset[int]:
        return self._sets[number]

    def number(self, members: Iterable[int]) -> int:
        """The number of a set."""
        members = frozenset(members)
        number = self._numbers.get(members)
        if number is None:
            number = self._numbers[members] = len(self._sets)
            self._sets.append(members)
        return number

    def union(self, one: int, other: int) -> int:
        """The number of what two sets have together."""
        return self.number(self._sets[one] | self._sets[other])
