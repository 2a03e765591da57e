"""Exact sums compiled, over whole tiles. Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from smemsim.arithmetic import exact as _exact
from smemsim.arithmetic.loops import exponent, significand

__all__ = ["float_tile", "integer_tile", "parts"]

compiled = njit(cache=True, nogil=True, error_model="numpy")

# The scalar functions call one another by name: their compiled forms take those names here.
lowest_bit = compiled(_exact.lowest_bit)
add_at = compiled(_exact.add_at)
round_accumulator = compiled(_exact.round_accumulator)


@compiled
def parts(bits, exponent_bits, fraction_bits):  # type: ignore[no-untyped-def]
    """(whole numbers, their powers of two, the floats' exponents) of finite floats: the numbers are odd, or 0."""
    numbers, powers, exponents = np.empty(bits.shape, np.int64), np.empty(bits.shape, np.int64), np.empty(bits.shape, np.int64)
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            number, top = significand(bits[i, j], exponent_bits, fraction_bits), exponent(bits[i, j], exponent_bits, fraction_bits)
            low = lowest_bit(number)
            numbers[i, j], powers[i, j], exponents[i, j] = number >> low, top - fraction_bits + low, top
    return numbers, powers, exponents


@compiled
def span(numbers, values):  # type: ignore[no-untyped-def]
    """(lowest, highest) of the values whose numbers are not zero; (0, 0) if all are."""
    low, high, some = 0, 0, False
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            if numbers[i, j] != 0:
                low = min(low, values[i, j]) if some else values[i, j]
                high = max(high, values[i, j]) if some else values[i, j]
                some = True
    return low, high


@compiled
def float_tile(a, b, c, index, kept_bits, zero_exponent, exponent_bits, fraction_bits, to_nearest, d, certain):  # type: ignore[no-untyped-def]
    """d[m, n] = sum over s of a[m, s] * b[n, index[m, s]], plus c[m, n]; a, b, c are triples from `parts`.

    `certain` is where no datapath that keeps `kept_bits` below its largest term, zeros counting with `zero_exponent`, can come to anything
    else.
    """
    low = min(span(a[0], a[1])[0] + span(b[0], b[1])[0], span(c[0], c[1])[0])
    # No sum reaches 2^high: a number of exponent e is below 2^(e + 1), a product of two below 2^(e + f + 2).
    high = max(span(a[0], a[2])[1] + span(b[0], b[2])[1] + 2, span(c[0], c[2])[1] + 1) + 8
    narrow = index.shape[1] < 128 and high - low < 63  # then one 64-bit integer holds every sum
    limbs = np.zeros(2 if narrow else (high - low) // 32 + 3, np.int64)
    for m in range(d.shape[0]):
        for n in range(d.shape[1]):
            some, top, bottom, total = c[0][m, n] != 0, c[2][m, n], c[1][m, n], 0
            if not narrow:
                limbs[:] = 0
            if some and narrow:
                total = c[0][m, n] << (c[1][m, n] - low)
            elif some:
                add_at(limbs, c[0][m, n], c[1][m, n] - low)
            for s in range(index.shape[1]):
                k = index[m, s]
                number = a[0][m, s] * b[0][n, k]
                if number != 0:
                    power = a[1][m, s] + b[1][n, k]
                    if narrow:
                        total += number << (power - low)
                    else:
                        add_at(limbs, number, power - low)
                    most = a[2][m, s] + b[2][n, k]
                    top = max(top, most) if some else most
                    bottom = min(bottom, power) if some else power
                    some = True
            if narrow:
                limbs[0], limbs[1] = total & 0xFFFFFFFF, total >> 32
            d[m, n], exact = round_accumulator(limbs, low, exponent_bits, fraction_bits, to_nearest)
            certain[m, n] = exact and (not some or max(top, zero_exponent) - bottom <= kept_bits)


@compiled
def integer_tile(a, b, c, index, single_bits, d):  # type: ignore[no-untyped-def]
    """The same over int64 integers, without rounding; with `single_bits` elements are words whose common bits are counted."""
    for m in range(d.shape[0]):
        for n in range(d.shape[1]):
            total = c[m, n]
            for s in range(index.shape[1]):
                if single_bits:
                    common = a[m, s] & b[n, index[m, s]]
                    while common:
                        common &= common - 1
                        total += 1
                else:
                    total += a[m, s] * b[n, index[m, s]]
            d[m, n] = total
