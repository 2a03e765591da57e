"""Which of many numbers, as people say them: runs of them, or what they are modulo a period."""

from __future__ import annotations

__all__ = ["numbers_told"]

PERIODS = (2, 4, 8, 16, 32, 64, 128)  # of swizzles, instructions and tiles
SHORT = 8  # so many numbers are read as fast as a rule
PARTS = 4


def numbers_told(numbers: list[int], of: int) -> str:
    """Some of the numbers 0 to `of` - 1, in ascending order; "..." at the end where they are too many to say.

    >>> numbers_told([0, 1, 2, 5], 8), numbers_told([0, 8, 16, 24], 32), numbers_told([7], 8)
    ('0 to 2, 5', '0 mod 8', '7')
    """
    for period in PERIODS if of > SHORT else ():
        classes = {n % period for n in numbers}
        if of > period and of % period == 0 and len(classes) < period and len(numbers) == len(classes) * of // period:
            told = _runs(sorted(classes))
            return told if told.endswith("...") else f"{told} mod {period}"
    return _runs(numbers)


def _runs(numbers: list[int]) -> str:
    parts, first = [], 0
    for last, number in enumerate(numbers):
        if last + 1 == len(numbers) or numbers[last + 1] != number + 1:
            parts.append(str(number) if first == last else f"{numbers[first]} to {number}")
            first = last + 1
    return ", ".join(parts) if len(parts) <= PARTS else f"{', '.join(parts[: PARTS - 1])}, ..."
