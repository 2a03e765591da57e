"""Raw descriptor words as an array that prints in hex."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Words"]


class Words(np.ndarray):
    """An array of raw words (uint64). It is printed in hex, 16 digits a word.

    >>> Words.of([0x4000004000010040, 0x4000004000010042])
    Words([0x4000004000010040 0x4000004000010042])
    """

    @classmethod
    def of(cls, words: Any) -> Words:
        """The words of a nested list, or of an array of whole numbers."""
        return np.asarray(words, np.uint64).view(cls)

    def __str__(self) -> str:
        return np.array2string(np.asarray(self), formatter={"int": lambda word: f"{int(word):#018x}"})

    def __repr__(self) -> str:
        return f"Words({self})"
