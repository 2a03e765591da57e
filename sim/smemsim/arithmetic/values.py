"""What raw element bits are worth, as exact fractions: for showing terms and for tests; tiles go through `multiply`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from smemsim.arguments import whole
from smemsim.arithmetic.dot import exponent, significand
from smemsim.errors import InputError
from smemsim.spec.formats import SCALE_BIAS, SCALE_MAGNITUDE, element_format

__all__ = ["element_value"]


def element_value(bits: Any, dtype: Any) -> Fraction | float:
    """The exact value of one element; a float for infinities and NaNs. Integers are two's complement, ue8m0 is 2^(bits - 127).

    Raises InputError for bits that the type does not have.

    >>> element_value(0xC0C0, "bf16"), element_value(0x7F, "ue8m0"), element_value(0xF, "e2m1"), element_value(0x7F, "e4m3")
    (Fraction(-6, 1), Fraction(1, 1), Fraction(-6, 1), nan)
    """
    fmt, word = element_format(dtype), whole("bits", bits)
    if not 0 <= word < 1 << fmt.bits:
        raise InputError(f"bits = {word:#x}: {fmt.name} has {fmt.bits} bits")
    if not fmt.is_float:
        return Fraction(word - (1 << fmt.bits) if fmt.signed and word >> (fmt.bits - 1) else word)
    from smemsim.arithmetic.multiply import has_specials

    if has_specials(np.array([word]), fmt)[0]:
        top = word >> fmt.dropped_bits & ((1 << fmt.fraction_bits) - 1)
        if fmt.specials == "ieee" and not top:
            return float("-inf") if word >> (fmt.bits - 1) else float("inf")
        return float("nan")
    if not fmt.fraction_bits:
        return Fraction(2) ** (word - SCALE_BIAS)
    if fmt.name == "ue4m3":
        word &= SCALE_MAGNITUDE
    number = word >> fmt.dropped_bits
    scale = exponent(number, fmt.exponent_bits, fmt.fraction_bits) - fmt.fraction_bits
    return significand(number, fmt.exponent_bits, fmt.fraction_bits) * Fraction(2) ** scale
