"""In which order rows, and steps along k, have their bytes of global memory."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from smemsim.base.distinct import distinct

__all__ = ["exchanged", "is_affine", "is_in_order", "is_in_runs", "is_looked_up", "is_regular"]


def is_in_runs(at: np.ndarray) -> bool:
    """Do neighbours share bytes, as many each but the first and the last ones?"""
    begins = np.flatnonzero(np.diff(at, prepend=-1))
    lengths = np.diff(np.append(begins, len(at)))
    inner = lengths[1:-1] if len(lengths) > 2 else lengths[:1]
    return len(distinct(at)) == len(begins) and len(distinct(inner)) == 1 and int(lengths.max()) <= int(inner[0])


def is_looked_up(at: np.ndarray) -> bool:
    """For the bytes of rows, (rows, factors): do rows share some, in no order that a row's number gives? Then their
    addresses come from data, as those of a table do.

    >>> is_looked_up(np.array([[5], [7], [5], [5]])), is_looked_up(np.array([[5], [7], [5], [7]]))
    (True, False)
    """
    return any(
        len(distinct(own)) < len(own) and not is_in_runs(own) and not is_affine(own.tolist())
        for own in (column[column >= 0] for column in at.T)
    )


def is_regular(seq: Sequence[int]) -> bool:
    """Does a sequence repeat its first values in their order, or has it each value equally often? A kernel may use
    factors again like this; a copy that was left out gives another sequence.
    """
    period = len(set(seq))
    return all(value == seq[n % period] for n, value in enumerate(seq)) or len({seq.count(value) for value in set(seq)}) == 1


def is_in_order(seq: Sequence[int]) -> bool:
    """Do addresses grow with k, or with each bit of the number of a k?"""
    if all(a < b for a, b in itertools.pairwise(seq)):
        return True
    return all(seq[1 << bit] > seq[0] for bit in range((len(seq) - 1).bit_length())) and is_affine(seq)


def is_affine(seq: Sequence[int]) -> bool:
    """Is each address the first one and a sum of one number for each bit of its place?"""
    return _sums_of_bits(seq) == list(seq)


def _sums_of_bits(seq: Sequence[int]) -> list[int]:
    """The sequence with these values at 0 and at powers of two that is a sum of one number
    for each bit of the place.
    """
    weights = [seq[1 << bit] - seq[0] for bit in range((len(seq) - 1).bit_length())]
    return [seq[0] + sum(w for bit, w in enumerate(weights) if n >> bit & 1) for n in range(len(seq))]


def exchanged(at: np.ndarray) -> tuple[str, np.ndarray, int] | None:
    """How the rows of an array are exchanged, for bytes of rows that lie a pitch apart. Returns a sentence, the row
    that each one gets, and the pitch in bytes. The sentence is "" for another order, and for the order of the rows.
    Returns None for other bytes.

    >>> exchanged(np.array([4, 0, 12, 8]))
    ('so that row r gets those of row r ^ 1', array([1, 0, 3, 2]), 4)
    """
    rows, apart = np.arange(len(at)), at - at.min()
    pitch = int(np.gcd.reduce(apart))
    of = apart // max(pitch, 1)
    if not pitch or not np.array_equal(np.sort(of), rows):
        return None
    says = ""
    if np.array_equal(of, rows[::-1]):
        says = "in the opposite order"
    elif of[0] and np.array_equal(of, rows ^ of[0]):
        says = f"so that row r gets those of row r ^ {int(of[0])}"
    elif of[0] and np.array_equal(of, (rows + of[0]) % len(at)):
        says = f"so that row r gets those of row (r + {int(of[0])}) % {len(at)}"
    return says, of, pitch
