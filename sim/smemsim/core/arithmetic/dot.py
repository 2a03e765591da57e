"""One dot product as the tensor core computes it: exact products, one alignment, truncation, one final conversion.

1. Every term, a product, is exact. Its exponent is the sum of the factors' exponents, not renormalised.
2. The largest exponent of the terms and c is found. A zero term counts with a fixed low exponent.
3. Every term is cut, toward zero, to a multiple of 2^(largest - kept_bits).
4. The cut terms are summed exactly, in no order.
5. The sum is converted, once, to the result's format. Zero is always +0.

Values are float64, which holds each of these numbers exactly: products have at most 24 bits, sums 48. Infinities and
NaNs need no rules: float64 gives the same results as hardware.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["alignment", "convert", "cut", "decode", "exponent", "fused", "group", "larger", "plus_zero", "two_to"]


NOTHING = -2000  # the exponent of what does not count; also with that of another factor added
DOUBLE_FRACTION = 52  # bits of a float64's fraction
# what a format does with exponents of all ones; ONLY_NAN: only the magnitude of all ones is special
NO_SPECIALS, ONLY_NAN, IEEE = 0, 1, 2


def two_to(exponent: int) -> float:
    """2^exponent, -1022 to 1023.

    >>> float(two_to(-3))
    0.125
    """
    return np.int64((1023 + exponent) << DOUBLE_FRACTION).view(np.float64)


def decode(bits: int, exponent_bits: int, fraction_bits: int, specials: int) -> float:
    """The value of a float; one without fraction bits is a scale factor ue8m0, 2^(bits - 127) also for 0.

    >>> float(decode(0xC0C0, 8, 7, IEEE)), float(decode(0, 8, 0, ONLY_NAN)) == 2.0**-127, float(decode(0xFF, 4, 3, ONLY_NAN))
    (-6.0, True, nan)
    """
    negative = bits >> (exponent_bits + fraction_bits) & 1
    biased, fraction = bits >> fraction_bits & ((1 << exponent_bits) - 1), bits & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    highest = biased == (1 << exponent_bits) - 1
    if specials == ONLY_NAN and highest and fraction == (1 << fraction_bits) - 1:
        return np.nan
    if specials == IEEE and highest and fraction:
        return np.nan
    if specials == IEEE and highest:
        return -np.inf if negative else np.inf
    if fraction_bits == 0:
        return two_to(biased - bias)
    # Subnormals have no hidden bit, and the exponent of the smallest normal number.
    size = (
        (fraction + (1 << fraction_bits)) * two_to(biased - bias - fraction_bits) if biased else fraction * two_to(1 - bias - fraction_bits)
    )
    return -size if negative else size


def exponent(value: float, smallest: int) -> int:
    """The exponent by which a float is aligned: `smallest` for subnormals; NOTHING for zeros, infinities and NaNs,
    which do not count.

    >>> int(exponent(-6.0, -126)), int(exponent(2.0**-130, -126)), exponent(0.0, -126) == NOTHING
    (2, -126, True)
    """
    if value == 0 or value - value != 0:
        return NOTHING
    return larger((int(np.float64(value).view(np.int64)) >> DOUBLE_FRACTION & 0x7FF) - 1023, smallest)


def larger(x: int, y: int) -> int:
    """The larger one of two exponents."""
    return y if y > x else x


def cut(term: float, unit: float) -> float:
    """The term in units of 1 / `unit`, its lower bits cut off: toward zero.

    >>> float(cut(-1.75, 2.0)), float(cut(2.0**-30, 2.0**25))
    (-3.0, 0.0)
    """
    return np.trunc(term * unit)  # type: ignore[no-any-return]


def group(a: Sequence[float], b: Sequence[float], scale: float, scale_exponent: int) -> tuple[float, int]:
    """(value, exponent) of a term that is a whole group: its products are summed exactly, then scaled, and aligned by
    the scale's exponent alone.

    A group of nothing but zeros does not count; one that cancels does.

    >>> group([1.0, -1.0], [2.0, 2.0], 8.0, 3), group([0.5, 0.0], [3.0, 1.0], 2.0, 1), group([0.0], [3.0], 2.0, 1) == (0.0, NOTHING)
    ((0.0, 3), (3.0, 1), True)
    """
    total, some = 0.0, False
    for k in range(len(a)):
        total += a[k] * b[k]
        some = some or a[k] * b[k] != 0
    return total * scale, scale_exponent if some else NOTHING


def alignment(exponents: Sequence[int], c_exponent: int, zero_exponent: int) -> int:
    """The largest exponent of the terms and of c; zeros count with `zero_exponent`.

    >>> alignment([2, -1], NOTHING, -133), alignment([NOTHING], NOTHING, -133)
    (2, -133)
    """
    largest = larger(c_exponent, zero_exponent)
    for e in exponents:
        largest = larger(largest, e)
    return largest


def fused(terms: Sequence[float], exponents: Sequence[int], c: float, c_exponent: int, kept_bits: int, zero_exponent: int) -> float:
    """c plus the terms, before the final conversion; `kept_bits` and `zero_exponent` as in `MmaArithmetic`.

    Terms are cut 25 bits below the largest one, here 2^24: 1.75 / 2 is cut to 1.5 / 2.

    >>> float(fused([2.0**24, 0.875], [24, -1], 0.0, NOTHING, 25, -133)) - 2.0**24
    0.5
    """
    lowest = alignment(exponents, c_exponent, zero_exponent) - kept_bits
    unit = two_to(-lowest)
    total = cut(c, unit)
    for term in terms:
        total += cut(term, unit)
    return total * two_to(lowest)


def convert(value: float, exponent_bits: int, fraction_bits: int, to_nearest: bool, largest: int, overflow: int, nan: int) -> int:
    """Bits of a float of that format: toward zero, or to nearest with ties to even; magnitudes past the code `largest`
    give `overflow`.

    >>> hex(convert(-1.5, 8, 7, False, 0x7F7F, 0x7F80, 0x7FFF)), hex(convert(65520.0, 5, 10, True, 0x7BFF, 0x7C00, 0x7FFF))
    ('0xbfc0', '0x7c00')
    >>> hex(convert(2.0**-149, 8, 23, False, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF)), hex(convert(2.0**128, 8, 23, False, 0x7F7FFFFF, 0x7F800000, 0))
    ('0x1', '0x7f800000')
    """
    word = int(np.float64(value).view(np.int64))
    lowest = 2 - (1 << (exponent_bits - 1))
    # exponent of the leading bit; 1024 of infinities and NaNs
    top = larger((word >> DOUBLE_FRACTION & 0x7FF) - 1023, lowest)
    units = abs(value) * two_to(fraction_bits - top) if top < 1024 else 0.0  # of the last bit that is kept
    units = np.rint(units) if to_nearest else np.trunc(units)
    # The exponent is added, not put in place: the leading bit of `units`, and a carry, run into it.
    code = int(units) + ((top - lowest) << fraction_bits)
    code = code if code <= largest else overflow
    code = code | (1 << (exponent_bits + fraction_bits)) if word < 0 else code
    return nan if np.isnan(value) else code


def plus_zero(code: int, sign: int) -> int:
    """The bits of a result: what came to zero, also by underflow of a negative sum, is +0.

    >>> plus_zero(0x80000000, 0x80000000)
    0
    """
    return 0 if code == sign else code
