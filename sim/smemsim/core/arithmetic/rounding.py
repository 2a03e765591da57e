"""Float arithmetic with one rounding, in any mode and to any format. The exact result is a sum of float64 numbers. Then
its bits follow.

    exact = (value + rest + tiny) * 2^scale

The number `rest` is at most half a unit in the last place of `value`. The number `tiny` is far smaller. Only its sign
counts. A float64 holds products of formats with at most 24 fraction bits exactly. Results of f64 are computed with
operands scaled to about 1, so no step over- or underflows. Codes are integers in two's complement. In negative codes
the sign bit and all bits above it are set.

A format is (exponent_bits, fraction_bits, largest, overflow, nan): the code of its largest number, the code for larger
ones, and its NaN.
"""

from __future__ import annotations

import math

import numpy as np

from smemsim.core.arithmetic.dot import two_to

__all__ = [
    "FLUSH",
    "NEAREST",
    "NEAREST_AWAY",
    "TO_MINUS_INFINITY",
    "TO_PLUS_INFINITY",
    "TO_ZERO",
    "added",
    "converted",
    "from_integer",
    "fused",
    "fused_double",
    "product",
    "quotient",
    "quotient_double",
    "root",
    "root_double",
    "rounded",
    "two_product",
    "two_sum",
]


NEAREST, TO_ZERO, TO_MINUS_INFINITY, TO_PLUS_INFINITY, NEAREST_AWAY = range(5)
# Added to a mode: what is below the smallest normal number, also when rounded as if exponents had no end, becomes zero.
# Measured (H200): the .ftz forms of tests/data/h200_arithmetic.json.
FLUSH = 8
SPLITTER = 134217729.0  # 2^27 + 1
DOUBLE_INFINITY, DOUBLE_LARGEST, DOUBLE_NAN = 0x7FF0000000000000, 0x7FEFFFFFFFFFFFFF, 0x7FF8000000000000
DOUBLE_FRACTION, BELOW = 52, 9  # fraction bits of a double; bits that are kept below them
WIDEST = DOUBLE_FRACTION + BELOW
FAR = 200  # binary places by which c and a product may be apart to be added as they are


def two_sum(a: float, b: float) -> tuple[float, float]:
    """The float64 sum, and what it is off by, exactly.

    >>> two_sum(1.0, 2.0**-60) == (1.0, 2.0**-60)
    True
    """
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: float, b: float) -> tuple[float, float]:
    """The float64 product, and what it is off by, exactly, for operands whose product is far from the limits of
    float64.

    >>> two_product(1 + 2.0**-40, 1 + 2.0**-40) == (1 + 2.0**-39, 2.0**-80)
    True
    """
    product = a * b
    big = SPLITTER * a
    a_high = big - (big - a)
    a_low = a - a_high
    big = SPLITTER * b
    b_high = big - (big - b)
    b_low = b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def with_sign(code: int, exponent_bits: int, fraction_bits: int, negative: bool) -> int:
    """A magnitude with its sign, in two's complement.

    >>> with_sign(0x3C00, 5, 10, True) & 0xFFFF == 0xBC00
    True
    """
    return code | (-1 << (exponent_bits + fraction_bits)) if negative else code


def rounded(
    value: float, rest: float, tiny: float, scale: int,
    exponent_bits: int, fraction_bits: int, largest: int, overflow: int, mode: int,
) -> int:  # fmt: skip
    """The code of a number that is not zero.

    >>> hex(rounded(1.0, 2.0**-60, 0.0, 0, 5, 10, 0x7BFF, 0x7C00, TO_PLUS_INFINITY))
    '0x3c01'
    >>> hex(rounded(65520.0, 0.0, -1.0, 0, 5, 10, 0x7BFF, 0x7C00, NEAREST)), hex(rounded(65520.0, 0.0, 0.0, 0, 5, 10, 0x7BFF, 0x7C00, NEAREST))
    ('0x7bff', '0x7c00')
    """
    flush, mode = mode & FLUSH, mode & 7
    word = int(np.float64(value).view(np.int64))
    negative = word < 0
    field = word >> DOUBLE_FRACTION & 0x7FF
    significand = word & 0xFFFFFFFFFFFFF
    if field:
        significand |= 0x10000000000000
    else:
        field = 1
    # Nine bits below the last one of `value`: eight of `rest`, and one that says that there is more.
    significand <<= BELOW
    top = field - 1023 + scale  # exponent of the leading bit
    unit = top - WIDEST  # exponent of the last of the bits
    if rest != 0 or tiny != 0:
        below = rest * two_to(1083 - field) if rest != 0 else 0.0
        whole = math.floor(below)
        more = below != whole
        if not more and tiny != 0:
            more = True
            if tiny < 0:
                whole -= 1
        part = 2 * int(whole) + (1 if more else 0)
        if negative:
            part = -part
        significand += part
        if significand < 1 << WIDEST:
            top -= 1
    lowest = 2 - (1 << (exponent_bits - 1))
    exponent = top if flush else max(top, lowest)
    shift = min(exponent - fraction_bits - unit, 63)
    kept, lost, half = significand >> shift, significand & ((1 << shift) - 1), 1 << (shift - 1)
    if mode == 0:
        up = lost > half or (lost == half and (kept & 1) == 1)
    elif mode == 2:
        up = negative and lost > 0
    elif mode == 3:
        up = not negative and lost > 0
    elif mode == 4:
        up = lost >= half
    else:
        up = False
    if up:
        kept += 1
    if exponent < lowest:
        reaches = exponent == lowest - 1 and kept >> (fraction_bits + 1) == 1
        return with_sign(1 << fraction_bits if reaches else 0, exponent_bits, fraction_bits, negative)
    # The leading bit of `kept`, and a carry, run into the exponent.
    code = largest + 1 if exponent > 2 - lowest else kept + ((exponent - lowest) << fraction_bits)
    if code > largest:
        inward = mode == 1 or (mode == 2 and not negative) or (mode == 3 and negative)
        code = largest if inward else overflow
    return with_sign(code, exponent_bits, fraction_bits, negative)


def zero_of_sum(a: float, b: float, exponent_bits: int, fraction_bits: int, mode: int) -> int:
    """The zero that a sum of two numbers comes to: -0 of two negative zeros, and of everything else toward minus
    infinity.
    """
    both = a == 0 and b == 0
    negative_a, negative_b = math.copysign(1.0, a) < 0, math.copysign(1.0, b) < 0
    negative = negative_a if both and negative_a == negative_b else mode & 7 == 2
    return with_sign(0, exponent_bits, fraction_bits, negative)


def converted(value: float, exponent_bits: int, fraction_bits: int, largest: int, overflow: int, infinity: int, nan: int, mode: int) -> int:
    """The code of a float64; `infinity` that of an infinity. With `nan` 0 NaNs are handed on: sign and upper bits, made
    quiet.

    >>> hex(converted(65519.0, 5, 10, 0x7BFF, 0x7C00, 0x7C00, 0x7FFF, NEAREST)), hex(converted(-0.0, 8, 7, 0, 0, 0, 0, NEAREST) & 0xFFFF)
    ('0x7bff', '0x8000')
    """
    if math.isnan(value) and nan != 0:
        return nan
    if math.isnan(value):
        word = int(np.float64(value).view(np.int64))
        payload = (word & 0xFFFFFFFFFFFFF) >> (52 - fraction_bits) | 1 << (fraction_bits - 1)
        return with_sign(((1 << exponent_bits) - 1) << fraction_bits | payload, exponent_bits, fraction_bits, word < 0)
    if value == 0 or value - value != 0:
        return with_sign(0 if value == 0 else infinity, exponent_bits, fraction_bits, math.copysign(1.0, value) < 0)
    return rounded(value, 0.0, 0.0, 0, exponent_bits, fraction_bits, largest, overflow, mode)


def from_integer(
    magnitude: int, negative: int, exponent_bits: int, fraction_bits: int, largest: int, overflow: int, mode: int
) -> int:  # fmt: skip
    """The code of an integer of at most 64 bits, given as its magnitude in two's complement.

    >>> hex(from_integer(16777217, 0, 8, 23, 0x7F7FFFFF, 0x7F800000, TO_PLUS_INFINITY)), hex(from_integer(-1, 0, 8, 23, 0x7F7FFFFF, 0, NEAREST))
    ('0x4b800001', '0x5f800000')
    """
    if magnitude == 0:
        return 0
    sign = -1.0 if negative else 1.0
    high, low = float(magnitude >> 32 & 0xFFFFFFFF) * 4294967296.0, float(magnitude & 0xFFFFFFFF)
    value, rest = two_sum(high, low)
    return rounded(sign * value, sign * rest, 0.0, 0, exponent_bits, fraction_bits, largest, overflow, mode)


def fused(a: float, b: float, c: float, exponent_bits: int, fraction_bits: int, largest: int, overflow: int, nan: int, mode: int) -> int:
    """a * b + c of formats whose products float64 holds: f32 and smaller ones.

    >>> hex(fused(1 + 2.0**-12, 1 + 2.0**-12, -1 - 2.0**-11, 8, 23, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF, NEAREST))  # 2^-24
    '0x33800000'
    """
    product = a * b
    total, rest = two_sum(product, c)
    if math.isnan(total):
        return nan
    if total - total != 0:
        return with_sign(largest + 1, exponent_bits, fraction_bits, total < 0)
    if total == 0:
        return zero_of_sum(product, c, exponent_bits, fraction_bits, mode)
    return rounded(total, rest, 0.0, 0, exponent_bits, fraction_bits, largest, overflow, mode)


def added(a: float, b: float, exponent_bits: int, fraction_bits: int, largest: int, overflow: int, nan: int, mode: int) -> int:
    """a + b, as `fused`.

    >>> hex(added(65504.0, 16.0, 5, 10, 0x7BFF, 0x7C00, 0x7FFF, TO_ZERO)), hex(added(1.0, -1.0, 5, 10, 0x7BFF, 0x7C00, 0x7FFF, TO_MINUS_INFINITY) & 0xFFFF)
    ('0x7bff', '0x8000')
    """
    return fused(a, 1.0, b, exponent_bits, fraction_bits, largest, overflow, nan, mode)


def product(a: float, b: float, exponent_bits: int, fraction_bits: int, largest: int, overflow: int, nan: int, mode: int) -> int:
    """a * b, as `fused`; a zero has the product's sign in every mode.

    >>> hex(product(-1.0, 0.0, 5, 10, 0x7BFF, 0x7C00, 0x7FFF, NEAREST) & 0xFFFF), hex(product(1.0, 0.0, 5, 10, 0, 0, 0, TO_MINUS_INFINITY))
    ('0x8000', '0x0')
    """
    zero = math.copysign(0.0, math.copysign(1.0, a) * math.copysign(1.0, b))
    return fused(a, b, zero, exponent_bits, fraction_bits, largest, overflow, nan, mode)


def fused_double(a: float, b: float, c: float, mode: int) -> int:
    """a * b + c of float64; of NaNs the default one.

    >>> one = 1 + 2.0**-52
    >>> hex(fused_double(one, one, -1.0, NEAREST)), hex(fused_double(2.0**-1074, 0.5, 0.0, TO_PLUS_INFINITY))
    ('0x3cc0000000000000', '0x1')
    """
    finite = a - a == 0 and b - b == 0 and c - c == 0
    if not finite:
        product = a * b if not (a - a == 0 and b - b == 0) else 0.0
        total = product + c
        return DOUBLE_NAN if math.isnan(total) else with_sign(DOUBLE_INFINITY, 11, 52, total < 0)
    if a == 0 or b == 0:
        zero = math.copysign(0.0, math.copysign(1.0, a) * math.copysign(1.0, b))
        return int(np.float64(c).view(np.int64)) if c != 0 else zero_of_sum(zero, c, 11, 52, mode)
    a, a_exponent = math.frexp(a)
    b, b_exponent = math.frexp(b)
    scale = a_exponent + b_exponent
    product, low = two_product(a, b)
    if c == 0:
        return rounded(product, low, 0.0, scale, 11, 52, DOUBLE_LARGEST, DOUBLE_INFINITY, mode)
    c, c_exponent = math.frexp(c)
    apart = c_exponent - scale
    if apart > FAR:
        return rounded(c, 0.0, product, c_exponent, 11, 52, DOUBLE_LARGEST, DOUBLE_INFINITY, mode)
    if apart < -FAR:
        return rounded(product, low, c, scale, 11, 52, DOUBLE_LARGEST, DOUBLE_INFINITY, mode)
    total, first = two_sum(product, math.ldexp(c, apart))
    second, tiny = two_sum(first, low)
    total, rest = two_sum(total, second)
    if total == 0:
        return zero_of_sum(1.0, -1.0, 11, 52, mode)
    return rounded(total, rest, tiny, scale, 11, 52, DOUBLE_LARGEST, DOUBLE_INFINITY, mode)


def quotient(a: float, b: float, exponent_bits: int, fraction_bits: int, largest: int, overflow: int, nan: int, mode: int) -> int:
    """a / b of f32 and smaller formats.

    >>> hex(quotient(1.0, 3.0, 8, 23, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF, TO_PLUS_INFINITY))
    '0x3eaaaaab'
    """
    if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (a - a != 0 and b - b != 0):
        return nan
    negative = math.copysign(1.0, a) * math.copysign(1.0, b) < 0
    if b == 0 or a - a != 0:
        return with_sign(largest + 1, exponent_bits, fraction_bits, negative)
    if a == 0 or b - b != 0:
        return with_sign(0, exponent_bits, fraction_bits, negative)
    value = a / b
    high, low = two_product(value, b)
    left = (a - high) - low
    return rounded(value, 0.0, left if b > 0 else -left, 0, exponent_bits, fraction_bits, largest, overflow, mode)


def quotient_double(a: float, b: float, mode: int) -> int:
    """a / b of float64.

    >>> hex(quotient_double(1.0, 3.0, NEAREST)), hex(quotient_double(2.0**-1074, 2.0, NEAREST)), hex(quotient_double(2.0**-1074, 2.0, TO_PLUS_INFINITY))
    ('0x3fd5555555555555', '0x0', '0x1')
    """
    if a == 0 or b == 0 or a - a != 0 or b - b != 0:
        return quotient(a, b, 11, 52, DOUBLE_LARGEST, DOUBLE_INFINITY, DOUBLE_NAN, mode)
    a, a_exponent = math.frexp(a)
    b, b_exponent = math.frexp(b)
    value = a / b
    high, low = two_product(value, b)
    left = (a - high) - low
    tiny = left if b > 0 else -left
    return rounded(value, 0.0, tiny, a_exponent - b_exponent, 11, 52, DOUBLE_LARGEST, DOUBLE_INFINITY, mode)


def root(a: float, exponent_bits: int, fraction_bits: int, largest: int, overflow: int, nan: int, mode: int) -> int:
    """Square root of f32 and smaller formats.

    >>> hex(root(2.0, 8, 23, 0x7F7FFFFF, 0x7F800000, 0, TO_ZERO)), hex(root(-0.0, 5, 10, 0x7BFF, 0x7C00, 0, NEAREST) & 0xFFFF)
    ('0x3fb504f3', '0x8000')
    """
    if math.isnan(a) or a < 0:
        return nan
    if a == 0 or a - a != 0:
        return with_sign(0 if a == 0 else largest + 1, exponent_bits, fraction_bits, math.copysign(1.0, a) < 0)
    value = math.sqrt(a)
    high, low = two_product(value, value)
    return rounded(value, 0.0, (a - high) - low, 0, exponent_bits, fraction_bits, largest, overflow, mode)


def root_double(a: float, mode: int) -> int:
    """Square root of float64.

    >>> hex(root_double(2.0, NEAREST)), hex(root_double(2.0, TO_PLUS_INFINITY))
    ('0x3ff6a09e667f3bcd', '0x3ff6a09e667f3bcd')
    """
    if math.isnan(a) or a <= 0 or a - a != 0:
        return root(a, 11, 52, DOUBLE_LARGEST, DOUBLE_INFINITY, DOUBLE_NAN, mode)
    a, exponent = math.frexp(a)
    if exponent % 2:
        a, exponent = a * 2, exponent - 1
    value = math.sqrt(a)
    high, low = two_product(value, value)
    return rounded(value, 0.0, (a - high) - low, exponent // 2, 11, 52, DOUBLE_LARGEST, DOUBLE_INFINITY, mode)
