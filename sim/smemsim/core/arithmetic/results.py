"""The steps of a float instruction around its one rounding: flushed subnormals, clamps, NaNs, min and max (PTX ISA 9.1
§9.7.3, 9.7.4).

Codes are raw bits in integers from 0 up; those of f64 in two's complement.
"""

from __future__ import annotations

import math

import numpy as np

from smemsim.core.arithmetic.dot import two_to
from smemsim.core.arithmetic.reduce import float_least
from smemsim.core.arithmetic.rounding import fused_double, quotient_double, root_double, two_sum

__all__ = [
    "bf16_pair",
    "double_added",
    "double_divided",
    "double_fused",
    "double_multiplied",
    "double_product",
    "double_quotient",
    "double_root",
    "double_rooted",
    "double_sum",
    "extreme",
    "finished",
    "flushed",
    "quiet",
    "signed",
    "single_fused",
    "single_product",
    "single_quotient",
    "single_root",
    "single_sum",
    "tf32_away",
    "to_integer",
]


SINGLE_NAN = 0x7FFFFFFF


def flushed(value: float, smallest: float) -> float:
    """`.ftz` of an operand: zeros of the same sign for what is smaller than the smallest normal number.

    >>> flushed(-(2.0**-140), 2.0**-126), flushed(2.0**-126, 2.0**-126) == 2.0**-126
    (-0.0, True)
    """
    return math.copysign(0.0, value) if abs(value) < smallest else value


def finished(code: int, exponent_bits: int, fraction_bits: int, nan: int, flush: int, saturate: int, relu: int) -> int:
    """A rounded result after `.ftz` (subnormals to zero), `.sat` (to 0 and 1, NaN to 0) and `.relu` (negative numbers
    to 0).

    >>> [hex(finished(x, 5, 10, 0x7FFF, 0, 1, 0)) for x in (0x7FFF, 0xBC00, 0x8000, 0x4000, 0x3800)]
    ['0x0', '0x0', '0x0', '0x3c00', '0x3800']
    """
    top = exponent_bits + fraction_bits
    magnitude = code & ((1 << (top - 1)) * 2 - 1 if top < 63 else 0x7FFFFFFFFFFFFFFF)
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    negative = code >> top & 1
    is_nan = magnitude > infinity
    if flush and magnitude < 1 << fraction_bits:
        code = code - magnitude
    if saturate:
        one = ((1 << (exponent_bits - 1)) - 1) << fraction_bits
        code = 0 if is_nan or negative else min(code, one)
    if relu:
        code = nan if is_nan else 0 if negative else code
    return code


def extreme(
    a: int, b: int, exponent_bits: int, fraction_bits: int, nan: int, largest: int, hands_on_nan: int, flush: int, signs: int
) -> int:  # fmt: skip
    """The result of `min`, or with `largest` of `max`. A NaN and a number give the number, or with `hands_on_nan`
    (`.NaN`) a NaN. Negative zero is below +0.

    With `signs` (`.xorsign.abs`) magnitudes are compared, and the result gets the sign of the product. With `nan` 0
    (f64) two NaNs give the second, made quiet.

    >>> hex(extreme(0x7E01, 0x3C00, 5, 10, 0x7FFF, 1, 0, 0, 0)), hex(extreme(0x7E01, 0x3C00, 5, 10, 0x7FFF, 1, 1, 0, 0))
    ('0x3c00', '0x7fff')
    >>> hex(extreme(0xBC00, 0x4000, 5, 10, 0x7FFF, 1, 0, 0, 1) & 0xFFFF)
    '0xc000'
    """
    top = exponent_bits + fraction_bits
    everything = (1 << (top - 1)) * 2 - 1 if top < 63 else 0x7FFFFFFFFFFFFFFF
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    smallest_normal = 1 << fraction_bits
    negative = (a >> top & 1) != (b >> top & 1)
    magnitude_a, magnitude_b = a & everything, b & everything
    if flush:
        a = a - magnitude_a if magnitude_a < smallest_normal else a
        b = b - magnitude_b if magnitude_b < smallest_normal else b
    if nan == 0 and magnitude_a > infinity and magnitude_b > infinity:
        return b | smallest_normal >> 1
    if hands_on_nan and (magnitude_a > infinity or magnitude_b > infinity):
        return nan
    if signs:
        a, b = a & everything, b & everything
    result = float_least(a, b, exponent_bits, fraction_bits, nan, largest != 0)
    if signs and result <= infinity:
        result = result | (-1 << top) if negative else result
    return result


def signed(code: int, exponent_bits: int, fraction_bits: int, nan: int, negate: int, flush: int) -> int:
    """`abs`, or with `negate` `neg`; with `nan` 0 (f64) a NaN stays as it is, made quiet.

    >>> hex(signed(0xBC00, 5, 10, 0x7FFF, 0, 0)), hex(signed(0xFC01, 5, 10, 0x7FFF, 0, 0)), hex(signed(0x8001, 5, 10, 0x7FFF, 1, 1))
    ('0x3c00', '0x7fff', '0x0')
    """
    top = exponent_bits + fraction_bits
    magnitude = code & ((1 << (top - 1)) * 2 - 1 if top < 63 else 0x7FFFFFFFFFFFFFFF)
    if magnitude > ((1 << exponent_bits) - 1) << fraction_bits:
        return nan if nan != 0 else code | 1 << (fraction_bits - 1)
    if flush and magnitude < 1 << fraction_bits:
        magnitude = 0
    return magnitude | (-1 << top) if negate and not code >> top & 1 else magnitude


def single_bits(value: float) -> int:
    """Bits of a float32; every NaN is 0x7FFFFFFF.

    >>> hex(single_bits(-0.0)), hex(single_bits(np.nan))
    ('0x80000000', '0x7fffffff')
    """
    return SINGLE_NAN if math.isnan(value) else int(np.float32(value).view(np.uint32))


def single_sum(a: float, b: float) -> int:
    """`add.rn.f32`, of float32 operands."""
    return single_bits(a + b)


def single_product(a: float, b: float) -> int:
    """`mul.rn.f32`, of float32 operands."""
    return single_bits(a * b)


def single_quotient(a: float, b: float) -> int:
    """`div.rn.f32`, of float32 operands."""
    return single_bits(a / b)


def single_root(a: float) -> int:
    """`sqrt.rn.f32`, of a float32 operand."""
    return single_bits(np.sqrt(a))


def single_fused(a: float, b: float, c: float) -> int:
    """`fma.rn.f32`, of float64 operands that are float32 numbers: the sum is rounded to odd first, so that the last
    rounding is the only one.

    >>> hex(single_fused(1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60)), hex(single_fused(1 + 2.0**-12, 1 + 2.0**-12, 0.0))
    ('0x3f801001', '0x3f801000')
    """
    total, rest = two_sum(a * b, c)
    if rest != 0 and not math.isnan(rest):
        word = int(np.float64(total).view(np.int64))
        if word & 1 == 0:
            word += 1 if (rest > 0) == (word >= 0) else -1
        total = np.int64(word).view(np.float64)
    return single_bits(float(np.float32(total)))


def bf16_pair(a: int, b: int) -> int:
    """`cvt.rn.bf16x2.f32` of raw f32: the upper halves, rounded to nearest even.

    >>> hex(bf16_pair(0x3F808000, 0x7F800001))
    '0x3f807fff'
    """
    high = 0x7FFF if a & 0x7FFFFFFF > 0x7F800000 else (a + 0x7FFF + (a >> 16 & 1)) >> 16
    low = 0x7FFF if b & 0x7FFFFFFF > 0x7F800000 else (b + 0x7FFF + (b >> 16 & 1)) >> 16
    return high << 16 | low


def quiet(a: float, b: float, c: float) -> int:
    """The NaN of an f64 result: that of the last operand that is one, made quiet; the default one if none is.

    >>> hex(quiet(np.nan, np.int64(0x7FF0000000000001).view(np.float64), 0.0)), quiet(np.inf, 0.0, 0.0)
    ('0x7ff8000000000001', -2251799813685248)
    """
    for value in (c, b, a):
        if math.isnan(value):
            return int(np.float64(value).view(np.int64)) | 0x8000000000000
    return -0x8000000000000


def double_bits(value: float, a: float, b: float, c: float) -> int:
    """Bits of an f64 result of these operands."""
    return quiet(a, b, c) if math.isnan(value) else int(np.float64(value).view(np.int64))


def double_sum(a: float, b: float) -> int:
    """`add.rn.f64`."""
    return double_bits(a + b, a, b, 0.0)


def double_product(a: float, b: float) -> int:
    """`mul.rn.f64`."""
    return double_bits(a * b, a, b, 0.0)


def double_quotient(a: float, b: float) -> int:
    """The result of `div.rn.f64`. With two NaNs it is the first one."""
    return double_bits(a / b, b, a, 0.0)


def double_root(a: float) -> int:
    """`sqrt.rn.f64`."""
    return double_bits(np.sqrt(a), a, 0.0, 0.0)


def double_fused(a: float, b: float, c: float, mode: int) -> int:
    """The result of `fma.f64` in any mode. With several NaNs it is that of b, then of c."""
    code = fused_double(a, b, c, mode)
    return quiet(a, c, b) if code & 0x7FFFFFFFFFFFFFFF > 0x7FF0000000000000 else code


def double_divided(a: float, b: float, mode: int) -> int:
    """`div.f64` in any mode."""
    code = quotient_double(a, b, mode)
    return quiet(b, a, 0.0) if code & 0x7FFFFFFFFFFFFFFF > 0x7FF0000000000000 else code


def double_rooted(a: float, mode: int) -> int:
    """`sqrt.f64` in any mode."""
    return quiet(a, 0.0, 0.0) if math.isnan(a) or a < 0 else root_double(a, mode)


def double_added(a: float, b: float, mode: int) -> int:
    """`add.f64` in any mode."""
    code = fused_double(a, 1.0, b, mode)
    return quiet(a, b, 0.0) if code & 0x7FFFFFFFFFFFFFFF > 0x7FF0000000000000 else code


def double_multiplied(a: float, b: float, mode: int) -> int:
    """`mul.f64` in any mode."""
    code = fused_double(a, b, math.copysign(0.0, math.copysign(1.0, a) * math.copysign(1.0, b)), mode)
    return quiet(a, b, 0.0) if code & 0x7FFFFFFFFFFFFFFF > 0x7FF0000000000000 else code


def to_integer(value: float, mode: int, bits: int, signed: int, nan: int) -> int:
    """A float64 as an integer, clamped to its range; to nearest even, or toward zero, minus or plus infinity by the
    codes of `rounding`.

    >>> to_integer(2.5, 0, 32, 1, 0), to_integer(-1.5, 1, 32, 1, 0), to_integer(-1.0, 0, 8, 0, 0), to_integer(300.0, 0, 8, 0, 0)
    (2, -1, 0, 255)
    """
    if math.isnan(value):
        return nan
    if value - value == 0:
        if mode == 0:
            value = float(np.rint(value))
        elif mode == 1:
            value = float(np.trunc(value))
        elif mode == 2:
            value = float(np.floor(value))
        else:
            value = float(np.ceil(value))
    span = bits - 1 if signed else bits
    limit = two_to(span)
    if value >= limit:
        return (1 << (span - 1)) - 1 + (1 << (span - 1)) if span < 64 else -1
    least = -limit if signed else 0.0
    if value <= least:
        return (-1 << span) if signed else 0
    if value >= 9223372036854775808.0:  # of u64: in two's complement
        return int(value - 9223372036854775808.0) - 0x7FFFFFFFFFFFFFFF - 1
    return int(value)


def tf32_away(code: int, finite: int) -> int:
    """`cvt.rna.tf32.f32` as ptxas spells it out in integers: half a unit is added to finite numbers, the low 13 bits
    are cut off.

    NaNs are cut only, and `finite` (`.satfinite`) takes a unit from whatever is infinite or a NaN then.

    >>> [hex(tf32_away(x, 1)) for x in (0x3F801000, 0x7F7FFFFF, 0x7FC00005)]
    ['0x3f802000', '0x7f7fe000', '0x7fbfe000']
    """
    if code & 0x7FFFFFFF < 0x7F800000:
        code += 0x1000
    code &= -0x2000
    return code - 0x2000 if finite and code & 0x7FFFFFFF >= 0x7F800000 else code
