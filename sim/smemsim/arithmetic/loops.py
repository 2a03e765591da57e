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
def mma_tile(a, b, c, exponent_bits, fraction_bits, kept_bits, zero_exponent, d):  # type: ignore[no-untyped-def]
    """d[m, n] = sum of a[m, k] * b[n, k] + c[m, n], all raw bits in int64 (c and d those of f32), as one instruction computes it."""
    terms = a.shape[1]
    products, exponents = np.empty(terms, np.int64), np.empty(terms, np.int64)
    for m in range(a.shape[0]):
        for n in range(b.shape[0]):
            c_significand, c_exponent = significand(c[m, n], 8, 23), exponent(c[m, n], 8, 23)
            largest = c_exponent if c_significand != 0 else zero_exponent
            for k in range(terms):
                products[k] = significand(a[m, k], exponent_bits, fraction_bits) * significand(b[n, k], exponent_bits, fraction_bits)
                exponents[k] = exponent(a[m, k], exponent_bits, fraction_bits) + exponent(b[n, k], exponent_bits, fraction_bits)
                if products[k] != 0 and exponents[k] > largest:
                    largest = exponents[k]
            total = cut(c_significand, c_exponent - 23 - largest + kept_bits)
            for k in range(terms):
                total += cut(products[k], exponents[k] - 2 * fraction_bits - largest + kept_bits)
            d[m, n] = f32_toward_zero(total, largest - kept_bits)
