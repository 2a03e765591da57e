"""Words looked up in the tables of `idesc`. Importing this module imports numba."""

from __future__ import annotations

import numpy as np

from smemsim.addressing.loops import compiled

__all__ = ["look_up", "sweep"]


@compiled
def found(word, shifts, entries):  # type: ignore[no-untyped-def]
    """The bits of all tables for a word."""
    bits = np.uint32(0)
    for table in range(shifts.shape[0]):
        at = 0
        for field in range(shifts.shape[1]):
            at |= ((word >> shifts[table, field, 0]) & shifts[table, field, 1]) << shifts[table, field, 2]
        bits |= entries[table, at]
    return np.int64(bits)


@compiled
def look_up(words, shifts, entries, out):  # type: ignore[no-untyped-def]
    """`found` of some words."""
    for i in range(len(words)):
        out[i] = found(words[i], shifts, entries)


LOW = 12  # bits of a word that one pass runs through


@compiled
def sweep(first, count, shifts, entries, counts, firsts):  # type: ignore[no-untyped-def]
    """Count the words from `first` on, a multiple of 2^12 of them, by their bits; `firsts` has the first of each, or -1.

    What the lowest bits add to the index of a table is the same for every pass.
    """
    tables = shifts.shape[0]
    low = np.empty((tables, 1 << LOW), np.int32)
    for table in range(tables):
        for word in range(1 << LOW):
            at = 0
            for field in range(shifts.shape[1]):
                at |= ((word >> shifts[table, field, 0]) & shifts[table, field, 1]) << shifts[table, field, 2]
            low[table, word] = at
    bits = np.empty(1 << LOW, np.uint32)
    for high in range(first, first + count, 1 << LOW):
        bits[:] = 0
        for table in range(tables):
            at = 0
            for field in range(shifts.shape[1]):
                at |= ((high >> shifts[table, field, 0]) & shifts[table, field, 1]) << shifts[table, field, 2]
            for word in range(1 << LOW):
                bits[word] |= entries[table, at | low[table, word]]
        for word in range(1 << LOW):
            which = bits[word]
            counts[which] += 1
            if firsts[which] < 0:
                firsts[which] = high | word
