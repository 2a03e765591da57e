"""The dot product compiled, over whole tiles. Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from smemsim.arithmetic import dot as _dot

__all__ = ["mma_tile"]

compiled = njit(cache=True, nogil=True, error_model="numpy")

exponent = compiled(_dot.exponent)
significand = compiled(_dot.significand)
cut = compiled(_dot.cut)
f32_toward_zero = compiled(_dot.f32_toward_zero)


@compiled
def split(bits, exponent_bits, fraction_bits):  # type: ignore[no-untyped-def]
    """Significands and exponents of an operand (rows, k)."""
    significands, exponents = np.empty(bits.shape, np.int64), np.empty(bits.shape, np.int64)
    for row in range(bits.shape[0]):
        for k in range(bits.shape[1]):
            significands[row, k] = significand(bits[row, k], exponent_bits, fraction_bits)
            exponents[row, k] = exponent(bits[row, k], exponent_bits, fraction_bits)
    return significands, exponents


@compiled
def mma_tile(a, b, c, exponent_bits, fraction_bits, kept_bits, zero_exponent, d):  # type: ignore[no-untyped-def]
    """d[m, n] = sum of a[m, k] * b[n, k] + c[m, n], all raw bits in int64 (c and d those of f32), as one instruction computes it."""
    terms = a.shape[1]
    a_significand, a_exponent = split(a, exponent_bits, fraction_bits)
    b_significand, b_exponent = split(b, exponent_bits, fraction_bits)
    c_significand, c_exponent = split(c, 8, 23)
    products, exponents = np.empty(terms, np.int64), np.empty(terms, np.int64)
    for m in range(a.shape[0]):
        for n in range(b.shape[0]):
            largest = c_exponent[m, n] if c_significand[m, n] != 0 else zero_exponent
            for k in range(terms):
                products[k] = a_significand[m, k] * b_significand[n, k]
                exponents[k] = a_exponent[m, k] + b_exponent[n, k]
                if products[k] != 0 and exponents[k] > largest:
                    largest = exponents[k]
            total = cut(c_significand[m, n], c_exponent[m, n] - 23 - largest + kept_bits)
            for k in range(terms):
                total += cut(products[k], exponents[k] - 2 * fraction_bits - largest + kept_bits)
            d[m, n] = f32_toward_zero(total, largest - kept_bits)
