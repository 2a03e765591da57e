"""Exact sums of products: what a matrix instruction computes where no step of it has to round.

Every float is a whole number times a power of two. Products are added in a fixed-point accumulator wide enough for all of them (a row of
32-bit limbs), so that the sum is exact for any exponents; only the result is converted, once. Where the true sum needs more bits than the
result has, or a datapath may drop low bits of a term beside a much larger one, the element is not *certain*: silicon rounds there, and how
is a matter of its own arithmetic.
"""

from __future__ import annotations

__all__ = ["LIMB", "add_at", "lowest_bit", "round_accumulator"]

LIMB = 32  # bits of one limb of the accumulator


def lowest_bit(value: int) -> int:
    """Index of the lowest bit that is set; 0 for 0.

    >>> lowest_bit(-24), lowest_bit(1), lowest_bit(0)
    (3, 0, 0)
    """
    index = 0
    while value != 0 and value >> index & 1 == 0:
        index += 1
    return index


def add_at(limbs, number: int, position: int) -> None:  # type: ignore[no-untyped-def]
    """Add number * 2^position to the accumulator; |number| < 2^32. Limbs are signed and carry only in `round_accumulator`.

    >>> limbs = [0, 0, 0]
    >>> add_at(limbs, -1, 4); add_at(limbs, 3, 33); limbs
    [4294967280, 5, 0]
    """
    value = number << (position & (LIMB - 1))
    limbs[position >> 5] += value & 0xFFFFFFFF
    limbs[(position >> 5) + 1] += value >> LIMB


def round_accumulator(limbs, low: int, exponent_bits: int, fraction_bits: int, to_nearest: bool) -> tuple[int, bool]:  # type: ignore[no-untyped-def]
    """(bits of a float, was that exact) of sum(limbs[i] * 2^(32 i)) * 2^low; the limbs are used up.

    Toward zero, or to nearest with ties to even; too large is infinity; a result of zero is +0.

    >>> [hex(x) for x in round_accumulator([3, 0], -1, 8, 23, False)], round_accumulator([1 << 12 | 1, 0, 0], 0, 5, 10, True)
    (['0x3fc00000', '0x1'], (27648, False))
    >>> hex(round_accumulator([-2, 0], 0, 8, 23, False)[0])
    '0xc0000000'
    """
    count, carry = len(limbs), 0
    for i in range(count):
        total = limbs[i] + carry
        carry = total >> LIMB
        limbs[i] = total & 0xFFFFFFFF
    negative = carry < 0
    if negative:
        carry = 1
        for i in range(count):
            total = (limbs[i] ^ 0xFFFFFFFF) + carry
            carry = total >> LIMB
            limbs[i] = total & 0xFFFFFFFF
    top = count - 1
    while top >= 0 and limbs[top] == 0:
        top -= 1
    if top < 0:
        return 0, True
    length = 0
    while limbs[top] >> length:
        length += 1
    length += LIMB * top  # bits of the magnitude
    bias = (1 << (exponent_bits - 1)) - 1
    leading = low + length - 1
    last = max(leading, 1 - bias) - fraction_bits  # power of two of the result's last bit
    shift = last - low  # bits of the magnitude that lie below it
    fraction, rest, half = 0, 0, 0
    if shift <= 0:
        for i in range(top + 1):
            fraction |= limbs[i] << (LIMB * i - shift)  # at most fraction_bits + 1 bits in all
    else:
        limb, within = shift >> 5, shift & (LIMB - 1)
        for i in range(limb, top + 1):
            fraction |= limbs[i] << (LIMB * (i - limb)) >> within
        below = shift - 1
        if below <= LIMB * top + LIMB - 1:
            half = limbs[below >> 5] >> (below & (LIMB - 1)) & 1
            rest = limbs[below >> 5] & ((1 << (below & (LIMB - 1))) - 1)
        for i in range(min(below >> 5, top + 1)):
            rest |= limbs[i]
    exact = half == 0 and rest == 0
    if to_nearest and half and (rest or fraction & 1):
        fraction += 1
    normal = fraction >> fraction_bits  # 1, or 2 after rounding up to the next power of two
    biased = max(leading, 1 - bias) + bias + normal - 1
    sign = 1 << (exponent_bits + fraction_bits) if negative else 0
    if biased >= 2 * bias + 1:
        return sign | (2 * bias + 1) << fraction_bits, False
    if fraction == 0:
        return 0, exact
    return sign | biased << fraction_bits | (fraction & ((1 << fraction_bits) - 1)), exact
