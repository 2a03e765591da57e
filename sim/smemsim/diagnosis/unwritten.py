"""Which bytes of an array nothing has written by the end of a launch, in words for R507."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.finding import Finding
from smemsim.core.machine.uninitialised import MOST_GARBAGE, WORD, Blank

if TYPE_CHECKING:
    from smemsim.core.machine.global_memory import GlobalMemory

__all__ = ["extents_of", "with_extent"]

MOST = 2 * MOST_GARBAGE  # bytes of an array that are looked through; of a longer one only the ends are marked
AT_ONCE = 1 << 20  # bytes


def extents_of(findings: list[Finding], memory: GlobalMemory) -> dict[int, str]:
    """For the arrays of these findings, by their addresses: which of their bytes nothing has written, in words.

    An array that a kernel allocated in its heap is left out.
    """
    found = {}
    for at in {f.arrays[0] for f in findings if f.code == "R507" and f.arrays}:
        region = memory.holding(at, at + 1)
        if region is not None and region.blank is not None and region.chunks is None and len(region.data) <= MOST:
            found[at] = _words(_unwritten(region.blank, at - region.words_begin, len(region.data)), len(region.data))
    return found


def with_extent(f: Finding, extents: dict[int, str]) -> Finding:
    """A finding with the bytes of its array that nothing has written, in its reason."""
    told = extents.get(f.arrays[0], "") if f.code == "R507" and f.arrays else ""
    return dataclasses.replace(f, why=f"{told}; {f.why}") if told else f


def _unwritten(blank: Blank, begin: int, size: int) -> np.ndarray:
    """Which of `size` bytes are uninitialised; the first has the offset `begin`."""
    first, end = begin // WORD * WORD, -(-(begin + size) // WORD) * WORD
    parts = [blank.bytes(np.arange(at, min(at + AT_ONCE, end), WORD), WORD).ravel() for at in range(first, end, AT_ONCE)]
    return np.concatenate(parts)[begin - first : begin - first + size]


def _words(unwritten: np.ndarray, size: int) -> str:
    """The bytes in words. "" if all are written.

    >>> _words(np.array([True] * 4), 4), _words(np.array([False, True, True, False]), 4)
    ("nothing has written any of the array's 4 bytes", "nothing has written bytes 1 to 2 of the array's 4")
    >>> _words(np.array([True, False, True, False]), 4)
    "nothing has written 2 of the array's 4 bytes, from byte 0 to byte 2"
    """
    at = np.flatnonzero(unwritten)
    if not len(at):
        return ""
    first, last, count = int(at[0]), int(at[-1]), len(at)
    if count == size:
        return f"nothing has written any of the array's {size} bytes"
    if count == last - first + 1:
        return f"nothing has written byte{'s' * (count > 1)} {first}{f' to {last}' * (count > 1)} of the array's {size}"
    return f"nothing has written {count} of the array's {size} bytes, from byte {first} to byte {last}"
