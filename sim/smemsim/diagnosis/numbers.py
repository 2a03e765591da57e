"""Numbers in words, and the accepted difference of two numbers.

Numbers are equal if |found - wanted| <= atol + rtol * |wanted|, as in numpy.testing.assert_allclose. They are equal
except for rounding if |found - wanted| <= own * |wanted| + sums * (|wanted| + typical) + least.

One unit in the last place of the element type is `own`. Its smallest step is `least`. The part for the kernel's way to
sum is `sums`. The typical expected number is `typical`.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from smemsim.base.errors import InputError
from smemsim.core.arithmetic.values import from_float64, to_float64
from smemsim.core.spec.formats import FORMATS, ElementFormat

__all__ = ["EXACT", "NO_ROUNDING", "Rounding", "Tolerance", "numbers_told", "rounded", "typical"]


# ---- Which of many numbers, as people say them: runs of them, or what they are modulo a period


PERIODS = (2, 4, 8, 16, 32, 64, 128)  # of swizzles, instructions and tiles
SHORT = 8  # so many numbers are read as fast as a rule
PARTS = 4


def numbers_told(numbers: list[int], of: int) -> str:
    """Some of the numbers 0 to `of` - 1 as text, ascending; "..." if there are too many.

    >>> numbers_told([0, 1, 2, 5], 8), numbers_told([0, 8, 16, 24], 32), numbers_told([*range(0, 64, 8)], 64)
    ('0 to 2, 5', '0 mod 8', '0, 8, 16 ... 56')
    """
    for period in PERIODS if of > SHORT else ():
        classes = {n % period for n in numbers}
        if of > period and of % period == 0 and len(classes) < period and len(numbers) == len(classes) * of // period:
            told = _runs(sorted(classes))
            if len(classes) == 1 and of // period > PARTS:
                return f"{numbers[0]}, {numbers[1]}, {numbers[2]} ... {numbers[-1]}"
            return told if told.endswith("...") else f"{told} mod {period}"
    return _runs(numbers)


def _runs(numbers: list[int]) -> str:
    parts, first = [], 0
    for last, number in enumerate(numbers):
        if last + 1 == len(numbers) or numbers[last + 1] != number + 1:
            parts.append(str(number) if first == last else f"{numbers[first]} to {number}")
            first = last + 1
    return ", ".join(parts) if len(parts) <= PARTS else f"{', '.join(parts[: PARTS - 1])}, ..."


# ---- How far apart numbers may be: what a user allows (`rtol`, `atol`), and what rounding alone gives


SAMPLE = 4096
UPPER = 0.75  # the quantile of the magnitudes that stands for all
LATER = 2.0**8  # units in the last place of an f32 or f64 sum, of many terms in another order
F32_FRACTION = 23


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """The tolerance of a user, in numpy's words. Infinities of one sign are equal, and so are NaNs.

    >>> Tolerance(rtol=0.1).near(np.array([1.05, 2.5, np.nan]), np.array([1.0, 2.0, np.nan])).tolist()
    [True, False, True]
    """

    rtol: float = 0.0
    atol: float = 0.0

    def __post_init__(self) -> None:
        for name, x in (("rtol", self.rtol), ("atol", self.atol)):
            if isinstance(x, bool) or not isinstance(x, (int, float)) or not 0 <= x < float("inf"):
                raise InputError(f"{name} = {x!r}: needs a number, 0 or more")

    def near(self, found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Which numbers are within the tolerance of the expected ones."""
        a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
        with np.errstate(all="ignore"):
            close = (np.abs(a - b) <= self.atol + self.rtol * np.abs(b)) & np.isfinite(b)
        return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)) | close)

    def __str__(self) -> str:
        return f"rtol = {self.rtol:g}, atol = {self.atol:g}"


EXACT = Tolerance()


@dataclasses.dataclass(frozen=True)
class Rounding:
    """The error of rounding in numbers of a type. It is zero for integers, of which every bit counts."""

    own: float = 0.0
    sums: float = 0.0
    least: float = 0.0

    @classmethod
    def of(cls, fmt: ElementFormat | None, sums: float) -> Rounding:
        """The tolerance of an element type; None if the type is unknown. `sums` is the part of matrix instructions and
        approximations beyond another order of summation.
        """
        if fmt is None or not fmt.is_float:
            return cls()
        if fmt.fraction_bits > F32_FRACTION:
            sums = 0.0
        step = 2.0 ** -max(fmt.fraction_bits, F32_FRACTION)
        return cls(2.0**-fmt.fraction_bits, max(sums, LATER * step), 2.0 ** (fmt.smallest_exponent - fmt.fraction_bits))

    @property
    def relative(self) -> float:
        """The part of a typical number."""
        return max(self.own, self.sums)

    def near(self, found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Which elements rounding may have made of each other."""
        a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
        with np.errstate(all="ignore"):
            room = self.own * np.abs(b) + self.sums * (np.abs(b) + typical(b)) + self.least
            close = (np.abs(a - b) <= room) & np.isfinite(b)
        return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)) | close)

    def may_be_near(self, found: np.ndarray, wanted: np.ndarray, all_wanted: np.ndarray) -> bool:
        """Does `near` of all numbers not fail for some of them alone? A typical number is
        no larger than the largest.
        """
        finite = np.abs(all_wanted[np.isfinite(all_wanted)])
        size = float(finite.max(initial=0.0))
        with np.errstate(all="ignore"):
            room = self.own * np.abs(wanted) + self.sums * (np.abs(wanted) + size) + self.least
            is_far = np.isfinite(wanted) & ~(np.abs(found - wanted) <= room)
        return not bool(is_far.any())


NO_ROUNDING = Rounding()


def typical(wanted: np.ndarray) -> float:
    """The size of a typical number of an array.

    >>> typical(np.array([0.0, -2.0, 2.0, 2.0, np.inf]))
    2.0
    """
    flat = wanted.reshape(-1)[:: max(1, wanted.size // SAMPLE)]
    flat = np.abs(flat[np.isfinite(flat)])
    if not flat.size:
        return 0.0
    ascending, place = np.sort(flat), UPPER * (flat.size - 1)  # np.quantile imports numpy.ma when it is first called
    below, above = float(ascending[math.floor(place)]), float(ascending[math.ceil(place)])
    return float(below + (above - below) * (place % 1))


def rounded(wanted: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers of a wider type as the nearest of an element type.

    >>> rounded(np.array([1.001, 7e4]), "f16").tolist()
    [1.0009765625, inf]
    """
    fmt = FORMATS.get(dtype)
    if fmt is None or not fmt.is_float or wanted.dtype.kind not in "fiu":
        return wanted
    try:
        return to_float64(from_float64(wanted, dtype), dtype)
    except InputError:  # a NaN that the type does not have: equal to nothing
        return wanted
