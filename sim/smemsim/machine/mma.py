"""The multiply itself, on raw bits that were read through descriptors."""

from __future__ import annotations

import numpy as np

from smemsim.errors import InputError, Unmodelled
from smemsim.spec.mma_arithmetic import WGMMA_BF16_F32

__all__ = ["wgmma_bf16"]


def wgmma_bf16(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """D of one `wgmma.mma_async … k16.f32.bf16.bf16`: a (M, 16) and b (N, 16) bf16 bits, c (M, N) and the result f32 bits.

    Bit for bit for finite values (measured: trace reference_gemm); infinities and NaNs are not modelled yet.

    >>> one = np.full((8, 16), 0x3F80, np.uint16)
    >>> hex(wgmma_bf16(one, one, np.zeros((8, 8), np.uint32))[0, 0])
    '0x41800000'
    """
    from smemsim.arithmetic import loops

    row = WGMMA_BF16_F32
    if a.ndim != 2 or b.ndim != 2 or a.shape[1:] != (row.terms,) or b.shape[1:] != (row.terms,) or c.shape != (len(a), len(b)):
        raise InputError(f"a {a.shape}, b {b.shape}, c {c.shape}: needs (M, {row.terms}), (N, {row.terms}) and (M, N)")
    special = (1 << row.exponent_bits) - 1
    if any((x >> row.fraction_bits & special == special).any() for x in (a, b)) or (c >> 23 & special == special).any():
        raise Unmodelled("an operand holds an infinity or a NaN; their arithmetic is not modelled in this version")
    d = np.empty(c.shape, np.uint32)
    constants = (row.exponent_bits, row.fraction_bits, row.kept_bits, row.zero_exponent)
    loops.mma_tile(a.astype(np.int64), b.astype(np.int64), c.astype(np.int64), *constants, d)
    return d
