"""One dot product as the tensor core computes it: exact products, one alignment, truncation, one final conversion.

    1. every product is exact; its exponent is the sum of the factors' exponents, not renormalised
    2. emax is the largest exponent of the products and c; zero terms count with a fixed low one
    3. every term is cut, toward zero, to a multiple of 2^(emax - kept_bits)
    4. the integers are summed exactly
    5. the sum is cut, toward zero, to the result's format; zero is always +0

Measured (H200) for wgmma bf16 -> f32: trace reference_gemm.
"""

from __future__ import annotations

__all__ = ["cut", "exponent", "f32_toward_zero", "significand"]


def exponent(bits: int, exponent_bits: int, fraction_bits: int) -> int:
    """Unbiased exponent of a finite float; subnormals have that of the smallest normal number.

    >>> exponent(0x3F80, 8, 7), exponent(0x0001, 8, 7)
    (0, -126)
    """
    biased = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    return max(biased, 1) - ((1 << (exponent_bits - 1)) - 1)


def significand(bits: int, exponent_bits: int, fraction_bits: int) -> int:
    """Signed integer significand in units of 2^(exponent - fraction_bits).

    >>> significand(0xBFC0, 8, 7), significand(0x0001, 8, 7)
    (-192, 1)
    """
    biased = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    magnitude = bits & ((1 << fraction_bits) - 1)
    if biased > 0:
        magnitude += 1 << fraction_bits
    return -magnitude if bits >> (exponent_bits + fraction_bits) & 1 else magnitude


def cut(value: int, shift: int) -> int:
    """value * 2^shift, truncated toward zero.

    >>> cut(5, 2), cut(-5, -1)
    (20, -2)
    """
    if shift >= 0:
        return value << shift
    if shift < -62:
        return 0
    return -(-value >> -shift) if value < 0 else value >> -shift


def f32_toward_zero(total: int, scale: int) -> int:
    """Bits of the float32 at or next to total * 2^scale in the direction of zero; infinity from 2^128 on, +0 for zero.

    >>> hex(f32_toward_zero(3, -1)), hex(f32_toward_zero(-((1 << 25) + 1), 0)), f32_toward_zero(-1, -150)
    ('0x3fc00000', '0xcc000000', 0)
    """
    if total == 0:
        return 0  # before the exponent is looked at: terms near 2^200 can cancel
    sign, magnitude = (0x80000000, -total) if total < 0 else (0, total)
    length = 0
    while magnitude >> length:
        length += 1
    top = scale + length - 1  # exponent of the leading bit
    if top > 127:
        return sign | 0x7F800000
    lowest = max(top, -126) - 23  # exponent of the last bit that is kept
    fraction = magnitude << (scale - lowest) if scale >= lowest else magnitude >> min(lowest - scale, 63)
    if fraction == 0:
        return 0
    biased = top + 127 if fraction >= 1 << 23 else 0
    return sign | biased << 23 | (fraction & 0x7FFFFF)
