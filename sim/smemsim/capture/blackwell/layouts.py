"""The place of D in tensor memory by the PTX ISA (9.7.16.10.5). It serves only to read tags at (m, n) as well as by
lane and column."""

from __future__ import annotations


def documented(m: int, n: int, row: int, column: int, *, group: int, ws: bool, sparse: bool) -> tuple[int, int, int]:
    """(CTA of the pair, lane, column) of D[row, column] of an m x n instruction."""
    if group == 2 and m == 256:  # layout A
        return row // 128, row % 128, column
    if group == 2:  # M = 128, 64 rows a CTA
        local = row % 64
        if sparse:  # layout C
            return row // 64, local % 16 + 32 * (local // 16), column
        return row // 64, local + 64 * (column >= n // 2), column % (n // 2)  # layout B
    if m == 128:  # layout D
        return 0, row, column
    if m == 64 and not ws:  # layout F
        return 0, row % 16 + 32 * (row // 16), column
    if m == 64:  # layout E
        return 0, row + 64 * (column >= n // 2), column % (n // 2)
    return 0, row + 32 * (column // (n // 4)), column % (n // 4)  # layout G
