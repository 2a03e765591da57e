"""Recognise a tile of elements in global memory: rows and k of an array, at fixed strides, unchanged or converted from
f32.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.core.arithmetic.values import from_float64
from smemsim.core.machine.global_memory import GlobalMemory, Region
from smemsim.core.spec.formats import element_format

__all__ = ["RUN", "Arrays", "Recognised"]


RUN = 8  # elements that are looked for together
MOST_BYTES = 1 << 25  # of all arrays that are searched
MOST_CONVERTED = 1 << 20  # elements of an array that are converted
MOST_READ = 1 << 27  # bytes that all searches of a launch read
MOST_PLACES = 2  # of one run: where more are alike, nothing is recognised
MOST_STEPS = 8
LEAST = 0.5  # share of a tile that must be in the array; the rest may be zeros, as padding is
SAME = ""  # the type of an array whose elements are the tile's own


@dataclasses.dataclass(frozen=True)
class Recognised:
    """A tile whose element (row r, k) is element `at + r * row + k * step` of an array. The array starts at `begin` and
    has `size` elements. If the kernel has converted its elements, `converted` is their type, else "".
    """

    begin: int
    size: int
    itemsize: int
    at: int
    row: int
    step: int
    converted: str = SAME

    @property
    def is_along_k(self) -> bool:
        """Is K the contiguous axis of the array?"""
        return self.step == 1

    @property
    def extent(self) -> int:
        """K of the whole array, as its strides have it; 0 where they do not say."""
        if self.is_along_k:
            return abs(self.row)
        return self.size // self.step if self.step > 0 and self.size % self.step == 0 else 0

    def move(self, before: Recognised) -> tuple[int, int] | None:
        """(rows, k) from another tile of the same array to this one; None where it is of another array, or the strides
        do not say.
        """
        if (before.begin, before.row, before.step, before.converted) != (self.begin, self.row, self.step, self.converted):
            return None
        by = self.at - before.at
        wide = self.row if self.is_along_k else self.step
        if by % wide == 0:
            moves = by // wide, 0
        elif abs(by) < abs(wide):
            moves = 0, by
        else:
            return None
        return moves if self.is_along_k else moves[::-1]


class Arrays:
    """The arrays of global memory, as elements of a type, among which tiles are looked for."""

    def __init__(self, memory: GlobalMemory) -> None:
        self.memory = memory
        self._left = MOST_READ
        self._converted: dict[tuple[int, str], np.ndarray] = {}
        self._elements: dict[
            tuple[int, str, str], np.ndarray
        ] = {}  # by the begin of an array, the type it was converted from, and that of the tiles
        self._steps: list[int] = []  # from tile to tile

    def find(self, tile: np.ndarray, dtype: str) -> Recognised | None:
        """The place of a tile (rows, k) of raw bits; None if it is not found, or at several places."""
        if min(tile.shape) < 2:
            return None
        for region, elements, converted in self._sources(tile.dtype, dtype):
            found = self._in(tile, elements, region, converted)
            if found is not None:
                return found
        return None

    def has(self, tile: np.ndarray, dtype: str, known: Recognised) -> bool:
        """Is all of a tile (rows, k) of raw bits where that says?"""
        key = known.begin, known.converted, dtype
        return key in self._elements and _is_there(tile, self._elements[key], known)

    def go_on(self, run: np.ndarray, dtype: str, like: Recognised) -> Recognised | None:
        """The place of a tile of the same array and strides as another one, by its first elements along the array's
        contiguous axis. Known steps between tiles are tried first.
        """
        if (run == run[0]).all():
            return None
        key = like.begin, like.converted, dtype
        if key not in self._elements:
            same = (elements for region, elements, converted in self._sources(run.dtype, dtype) if (region.begin, converted) == key[:2])
            self._elements[key] = next(same, run[:0])
        elements = self._elements[key]
        for step in self._steps:
            at = like.at + step
            if 0 <= at <= len(elements) - len(run) and (elements[at : at + len(run)] == run).all():
                return dataclasses.replace(like, at=at)
        places = self._places(elements, run)
        if len(places) != 1:
            return None
        at = int(places[0])
        if len(self._steps) < MOST_STEPS:
            self._steps.append(at - like.at)
        return dataclasses.replace(like, at=at)

    def _sources(self, kind: np.dtype, dtype: str) -> Iterator[tuple[Region, np.ndarray, str]]:
        """Each array as elements of the tile's size; then those of f32 that may have been converted."""
        left, regions = MOST_BYTES, []
        for region in self.memory.filled():
            if len(region.data) <= left:
                left -= len(region.data)
                regions.append(region)
        for region in regions:
            yield region, region.data[: len(region.data) // kind.itemsize * kind.itemsize].view(kind), SAME
        if kind.itemsize < 4 and element_format(dtype).is_float:
            for region in regions:
                if len(region.data) // 4 <= MOST_CONVERTED and (numbers := self._numbers(region, dtype)) is not None:
                    yield region, numbers, "f32"

    def _numbers(self, region: Region, dtype: str) -> np.ndarray | None:
        """The numbers of an f32 array in another type, once for a launch; None where the type has no such numbers."""
        key = region.begin, dtype
        if key not in self._converted:
            values = region.data[: len(region.data) // 4 * 4].view(np.float32)
            with np.errstate(all="ignore"):
                try:
                    self._converted[key] = from_float64(values, dtype)
                except SmemsimError:
                    return None
        return self._converted[key]

    def _places(self, elements: np.ndarray, run: np.ndarray) -> np.ndarray:
        """The begins of a run of elements in an array; none if the launch's searches have read enough."""
        self._left -= elements.nbytes
        if self._left < 0 or len(elements) < len(run):
            return np.zeros(0, np.int64)
        at = np.flatnonzero(elements[: len(elements) - len(run) + 1] == run[0])
        for n, element in enumerate(run[1:], 1):
            at = at[elements[at + n] == element]
        return at

    def _in(self, tile: np.ndarray, elements: np.ndarray, region: Region, converted: str) -> Recognised | None:
        """A tile in one array, one of whose axes is contiguous there."""
        for turned in (False, True):
            lines = tile.T if turned else tile
            first, second = lines[0, :RUN], lines[1, :RUN]
            if len(first) < RUN or (first == first[0]).all():
                continue
            places = [self._places(elements, first)]
            if 0 < len(places[0]) <= MOST_PLACES:
                places.append(self._places(elements, second))
            if len(places) < 2 or not 0 < len(places[1]) <= MOST_PLACES:
                continue
            found = []
            for at, then in itertools.product(*(p.tolist() for p in places)):
                row, step = (1, then - at) if turned else (then - at, 1)
                one = Recognised(region.begin, len(elements), elements.itemsize, at, row, step, converted)
                if abs(then - at) >= lines.shape[1] and _is_there(tile, elements, one):
                    found.append(one)
            if len(found) == 1:
                return found[0]
        return None


def _is_there(tile: np.ndarray, elements: np.ndarray, where: Recognised) -> bool:
    """Are the elements those of the array, except for zeros?"""
    rows, k = tile.shape
    places = where.at + np.arange(rows)[:, None] * where.row + np.arange(k)[None] * where.step
    inside = (places >= 0) & (places < len(elements))
    same = inside & (elements[np.where(inside, places, 0)] == tile)
    return bool((same | (tile == 0)).all() and same.mean() >= LEAST)
