"""`quad_pairs`: mma.sync.m8n8k4 of f16, four products of a warp side by side, each by the 8 threads of a quad pair.

Threads 4p to 4p + 3 and 16 + 4p to 19 + 4p are quad pair p and have an A, a B, a C and a D of their own, of 8 x 4, 4 x 8 and 8 x 8 elements:

                     thread (t of 4, h of 2 halves of the warp) has element i
    A .row, B .col    A[t + 4h, i], B[i, t + 4h]                      i < 4
    A .col, B .row    A[i + 4h, t], B[t, i + 4h]                      i < 4
    C, D f16          [t + 4h, i]                                     i < 8
    C, D f32          [t % 2 + (i & 2) + 4h, (i & 4) + (t & 2) + i % 2]

From sm_75 on it is no instruction of the tensor core: ptxas 13.0.88 makes f32 arithmetic of it, with every step rounded to nearest. D of f32 is
C + fma(a3, b3, fma(a2, b2, fma(a1, b1, fma(a0, b0, 0)))), D of f16 is C + fma(a1, b1, a0 * b0) + fma(a3, b3, a2 * b2) rounded to f16 once more.

Layouts documented: PTX ISA 9.7.14.5.1. Measured (H200): trace launches (kernel mma_hard).
"""

from __future__ import annotations

import functools

import numpy as np

__all__ = ["QUAD_PAIR_SHAPE", "quad_pair_registers", "quad_pairs"]

QUAD_PAIR_SHAPE = (8, 8, 4)


def quad_pair_registers(dtype: str) -> int:
    """Registers of each thread for C or D.

    >>> quad_pair_registers("f16"), quad_pair_registers("f32")
    (4, 8)
    """
    return 4 if dtype == "f16" else 8


def quad_pairs(a: np.ndarray, b: np.ndarray, c: np.ndarray, *, a_layout: str, b_layout: str, d_type: str, c_type: str) -> np.ndarray:
    """D's registers of `mma.sync.aligned.m8n8k4`, uint32 (registers, warps, 32), of those of A, B (2 each) and C; layouts are "row" or "col".

    >>> one = np.full((2, 1, 32), 0x3C003C00, np.uint32)  # f16 pairs
    >>> d = quad_pairs(one, one, np.zeros((8, 1, 32), np.uint32), a_layout="row", b_layout="col", d_type="f32", c_type="f32")
    >>> float(d.view(np.float32)[7, 0, 31])
    4.0
    """
    # of every thread the four elements of A's row and of B's column, in the order of K: (warps, quad pairs, 8, 4)
    of_a, of_b = (_lines(x, across) for x, across in ((a, a_layout == "col"), (b, b_layout == "row")))
    where = _places(c_type)
    start = _elements(c, c_type)[:, where[0], where[1]]
    x, y = of_a[:, :, :, None], of_b[:, :, None]
    d = _added(start, _chain(x, y)) if d_type == "f32" else _pairs(x, y, start)
    found = np.empty((d.shape[0], 32, 8), np.float32)
    thread, element = _places(d_type)
    found[:, thread, element] = d
    if d_type == "f32":
        return np.ascontiguousarray(_canonical(found).transpose(2, 0, 1))
    with np.errstate(over="ignore", invalid="ignore"):
        half = np.where(np.isnan(found), np.uint16(0x7FFF), found.astype(np.float16).view(np.uint16))
    return np.ascontiguousarray(half.view(np.uint32).transpose(2, 0, 1))


def _elements(registers: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers (warps, 32, elements) of what threads hold."""
    raw = np.ascontiguousarray(registers.transpose(1, 2, 0))
    return raw.view(np.float16).astype(np.float32) if dtype == "f16" else raw.view(np.float32)


def _lines(registers: np.ndarray, across: bool) -> np.ndarray:
    """(warps, quad pairs, row of A or column of B, K); `across`: a thread has four lines at one K."""
    held = _elements(registers, "f16").reshape(-1, 2, 4, 4, 4)  # warp, half of the warp, quad pair, thread of the quad, element
    held = held.transpose(0, 2, 1, 4, 3) if across else held.transpose(0, 2, 1, 3, 4)
    return held.reshape(-1, 4, 8, 4)


@functools.cache
def _places(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """The thread and its element that is [row, column] of each quad pair: two arrays (4, 8, 8)."""
    pair, row, column = np.meshgrid(np.arange(4), np.arange(8), np.arange(8), indexing="ij")
    quad = 4 * pair + 16 * (row // 4)
    if dtype == "f16":
        return quad + row % 4, column
    return quad + row % 2 + (column & 2), (column & 4) + (row & 2) + column % 2


def _chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = np.zeros(np.broadcast_shapes(a.shape, b.shape)[:-1], np.float32)
    for k in range(a.shape[-1]):
        total = _fused(a[..., k], b[..., k], total)
    return total


def _pairs(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    for k in (0, 2):
        with np.errstate(invalid="ignore"):
            first = a[..., k] * b[..., k]
        c = _added(c, _fused(a[..., k + 1], b[..., k + 1], first))
    return c


def _added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(a + b)


def _fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    from smemsim.arithmetic.compiled import ufunc
    from smemsim.arithmetic.results import single_fused

    with np.errstate(all="ignore"):
        found: np.ndarray = ufunc(single_fused, "uint32(float64,float64,float64)")(a, b, c)
    return found.view(np.float32)


def _canonical(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.where(np.isnan(values), np.uint32(0x7FFFFFFF), values.view(np.uint32))
    return found
