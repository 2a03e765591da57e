"""The address of each 16-byte chunk of an operand, before the XOR of `swizzle`.

A chunk is 16 consecutive bytes along the contiguous axis: 8 elements of a 16-bit type. The contiguous axis is K for a
K-major operand and M or N for an MN-major one. Additions are full additions: start, LBO and SBO may be any multiples of
16.
"""

from __future__ import annotations

__all__ = ["absolute_chunk", "k_major_chunk", "mn_major_chunk"]


def k_major_chunk(start: int, lbo: int, sbo: int, width: int, row: int, chunk: int) -> int:
    """Linear address of 16-byte chunk `chunk` along K of row `row`. The width is 16 (no swizzle), 32, 64 or 128 bytes.
    Formula:

        start + row%8 * width + row/8 * SBO + (16*chunk) % width + (16*chunk) / width * LBO

    Rows are `width` bytes apart in groups of 8; groups are SBO apart. LBO is added whenever `width` bytes of K are used
    up: for every chunk without swizzle, for the second half of a sparse operand's 64 bytes with 32B, else never.
    Measured (H200): trace wgmma_operands. Documented for tcgen05: PTX ISA 9.1 §9.7.16.3.3.

    >>> k_major_chunk(1024, 16, 1024, 128, 9, 0)
    2176
    """
    chunks = width // 16
    return start + row % 8 * width + row // 8 * sbo + chunk % chunks * 16 + chunk // chunks * lbo


def mn_major_chunk(start: int, lbo: int, sbo: int, width: int, k_rows: int, chunk: int, k: int) -> int:
    """Linear address of chunk `chunk` along M or N in row `k` of K. The rows of K in an atom, `k_rows`, are 8, or 4 for
    the 32-byte-atom mode.

        swizzled   start + k%8 * width + k/8 * SBO + chunk % (width/16) * 16 + chunk / (width/16) * LBO
        none       start + k%8 * 16    + k/8 * LBO                           + chunk * SBO

    Without swizzle LBO and SBO have each other's role. Measured (H200): trace wgmma_operands. The 4 rows of the
    32-byte-atom mode are what compilers emit (CUTLASS, CuTe DSL).

    >>> mn_major_chunk(0, 8192, 1024, 128, 8, 8, 0), mn_major_chunk(0, 8192, 1024, 128, 8, 0, 8)
    (8192, 1024)
    """
    if width == 16:
        lbo, sbo = sbo, lbo
    chunks = width // 16
    return start + k % k_rows * width + k // k_rows * sbo + chunk % chunks * 16 + chunk // chunks * lbo


def absolute_chunk(start: int, next_buffer: int, sbo: int, row: int, chunk: int) -> int:
    """The absolute-LBO mode of sm_103a: rows of 48 bytes, K-major, 128B swizzle; LBO is the address of the next buffer.

    Chunks that would pass the end of the 128-byte row are the first ones of `next_buffer`, at the same row. Documented:
    PTX ISA 9.1 §9.7.16.3.1.2; how the rows continue is inferred from it and from what CUTLASS emits.

    >>> absolute_chunk(96, 16384, 1024, 0, 1), absolute_chunk(96, 16384, 1024, 0, 2)
    (112, 16384)
    """
    column = start // 16 % 8 + chunk
    base = start + 16 * chunk if column < 8 else next_buffer + 16 * (column - 8)
    return base + row % 8 * 128 + row // 8 * sbo
