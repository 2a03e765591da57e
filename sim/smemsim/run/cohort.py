"""CTAs of a wave that do the same, each with its own threads and in its own window: the comparison.

What CTAs do at once is reported by numbers: of threads, warps, places in shared memory, operations. Those of the
first CTA come first, then those of each other one, in the same order. The CTAs do the same if each one's numbers are
the first one's, plus the distance of its threads, or its window, from the first one's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.run.warps import ALL, WARP

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["Cohort", "Unfolded", "are_repeated", "own_of", "repeats"]


@compiled(reads="numbers")
def _are_same(numbers, count, stride):  # type: ignore[no-untyped-def]
    """Are the numbers of `count` CTAs those of the first one, `stride` more from one CTA to the next, and those of
    the first one less than that?
    """
    own, are_same = len(numbers) // count, True
    if stride == 0:
        for n in range(own, len(numbers)):
            are_same &= numbers[n] == numbers[n - own]
        return are_same
    for n in range(own):
        are_same &= numbers[n] < stride
    for n in range(own, len(numbers)):
        are_same &= numbers[n] == numbers[n - own] + stride
    return are_same


def own_of(numbers: np.ndarray, count: int, stride: int) -> np.ndarray | None:
    """Those of the first of `count` CTAs among numbers (n,), where each CTA has the same, `stride` apart (0: the same
    numbers); None where one has others.

    >>> own_of(np.array([3, 5, 67, 69]), 2, 64)
    array([3, 5])
    >>> own_of(np.array([3, 5, 67, 70]), 2, 64) is None
    True
    """
    own, rest = divmod(len(numbers), count)
    return None if rest or not own or not _are_same(numbers, count, stride) else numbers[:own]


def are_repeated(items: Sequence[Any], own: int) -> bool:
    """Has each CTA equal items, so many (`own`) each? False where that number is 0: not known.

    >>> are_repeated([1, 2, 1, 2], 2), are_repeated([1, 2, 2, 1], 2)
    (True, False)
    """
    return own > 0 and list(items) == list(items[:own]) * (len(items) // own)


class Unfolded(Sequence[tuple[np.ndarray, Any]]):
    """Threads, and the objects at which they do something: those of the first CTA, then those of each other one, which
    does the same. The others' are made when something asks for them.

    `each` has, of the first CTA, the threads, the objects of all CTAs, and the distances to the threads of all (a
    column).

    >>> both = Unfolded([(np.array([3, 5]), ("a", "b"), np.array([[0], [64]]))])
    >>> [(threads.tolist(), at) for threads, at in both], both.own
    ([([3, 5], 'a'), ([67, 69], 'b')], [(array([3, 5]), 'a')])
    """

    def __init__(self, each: Sequence[tuple[np.ndarray, tuple[Any, ...], np.ndarray]]) -> None:
        self.each = each
        self._all: list[tuple[np.ndarray, Any]] | None = None

    @property
    def own(self) -> list[tuple[np.ndarray, Any]]:
        """Those of the first CTA."""
        return [(threads, objects[0]) for threads, objects, _ in self.each]

    @property
    def all(self) -> list[tuple[np.ndarray, Any]]:
        """Those of all CTAs."""
        if self._all is None:
            of_each = [zip(threads + steps, objects, strict=True) for threads, objects, steps in self.each]
            self._all = [one for of_cta in zip(*of_each, strict=True) for one in of_cta]
        return self._all

    def __len__(self) -> int:
        return len(self.each) * len(self.each[0][1]) if self.each else 0

    @overload
    def __getitem__(self, n: int) -> tuple[np.ndarray, Any]: ...

    @overload
    def __getitem__(self, n: slice) -> list[tuple[np.ndarray, Any]]: ...

    def __getitem__(self, n: int | slice) -> tuple[np.ndarray, Any] | list[tuple[np.ndarray, Any]]:
        return self.all[n]

    def __iter__(self) -> Iterator[tuple[np.ndarray, Any]]:
        return iter(self.all)


def repeats(numbers: np.ndarray, of_first: np.ndarray, apart: int) -> bool:
    """Are numbers of one CTA (ascending) those of the first CTA, `apart` more? `own_of` for CTAs that come one by one.

    >>> repeats(np.array([67, 69]), np.array([3, 5]), 64), repeats(np.array([67, 70]), np.array([3, 5]), 64)
    (True, False)
    """
    count = len(of_first)
    if len(numbers) != count or not count or numbers[0] - apart != of_first[0]:
        return False
    if numbers[-1] - numbers[0] == count - 1:  # they follow one another
        return bool(of_first[-1] - of_first[0] == count - 1)
    return bool((numbers - apart == of_first).all())


@dataclasses.dataclass(frozen=True)
class Cohort:
    """The CTAs of a wave, `count` of `threads` threads each with windows of `window` bytes, as far as they do the
    same. `is_apart`: none reaches another one's window.
    """

    count: int
    threads: int
    window: int
    is_apart: bool
    # `own_count` of threads, so far
    _own: dict[tuple[int, ...], int] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, x: Wave) -> Cohort | None:
        """The CTAs of a wave, where there are several that may be executed and checked as one (`SMEMSIM_COHORTS`)."""
        launch = x.launch
        return cls(len(x.ctas), x.stride, x.pitch, launch.cluster_size == 1) if launch.has_cohorts and len(x.ctas) > 1 else None

    def own_threads(self, threads: np.ndarray) -> np.ndarray | None:
        """The first CTA's among threads, where each CTA has the same; else None."""
        return own_of(threads, self.count, self.threads)

    def own_count(self, threads: Sequence[int], *what: Sequence[Any]) -> int:
        """How many of issuing threads are the first CTA's, where each CTA has the same ones, and each of `what` the
        same entries for them; 0 where one has not.
        """
        key = tuple(threads)
        if key not in self._own:
            own = self.own_threads(np.asarray(threads))
            self._own[key] = 0 if own is None else len(own)
        count = self._own[key]
        return count if all(are_repeated(each, count) for each in what) else 0

    def own_accesses(self, accesses: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]] | None:
        """The first CTA's among accesses (the warp, the index of the CTA, whatever else), where each CTA has the
        same; else None.
        """
        own, rest = divmod(len(accesses), self.count)
        firsts, apart = [*map(tuple, accesses[:own])], self.threads // WARP
        if rest or not own:
            return None
        each = [(warp + n * apart, cta + n, *what) for n in range(self.count) for warp, cta, *what in firsts]
        return firsts if [*map(tuple, accesses)] == each else None

    def own_running(self, x: Wave) -> np.ndarray | None:
        """The first CTA's among the running threads, if the same ones of each CTA run; else None."""
        return x.threads[: self.threads] if x.sel is ALL else self.own_threads(x.threads)

    def own_places(self, at: np.ndarray) -> np.ndarray | None:
        """The first CTA's among places in the windows (bytes), where each CTA has the same; else None."""
        return own_of(at, self.count, self.window)

    def are_same(self, values: np.ndarray) -> bool:
        """Has each CTA the same values?"""
        return own_of(values, self.count, 0) is not None
