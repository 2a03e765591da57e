"""Integer instructions without a numpy function, element by element (PTX ISA 9.1 §9.7.1, 9.7.2, 9.7.8, 9.7.9.7).

Operands and results are integers with the bits from 0 up (64-bit ones in two's complement when compiled). Only the low
`bits` of a result count. `signed` marks instructions on signed types.
"""

from __future__ import annotations

__all__ = [
    "bit_field_extract",
    "bit_field_insert",
    "bit_mask",
    "bit_reverse",
    "find_leading",
    "find_nth_set",
    "leading_zeros",
    "permute",
    "sign_extend",
]


FORWARD_4, BACKWARD_4, REPLICATE_8, CLAMP_LEFT, CLAMP_RIGHT, REPLICATE_16, INDEXED = range(7)  # the modes of prmt
PERMUTE_MODES = {
    "f4e": FORWARD_4, "b4e": BACKWARD_4, "rc8": REPLICATE_8, "ecl": CLAMP_LEFT, "ecr": CLAMP_RIGHT, "rc16": REPLICATE_16,
}  # fmt: skip


def leading_zeros(value: int, bits: int) -> int:
    """`clz`: zeros above the highest one.

    >>> leading_zeros(1, 32), leading_zeros(0, 64)
    (31, 64)
    """
    for n in range(bits):
        if value >> (bits - 1 - n) & 1:
            return n
    return bits


def bit_reverse(value: int, bits: int) -> int:
    """`brev`: bit 0 becomes the highest one.

    >>> hex(bit_reverse(0x1, 32))
    '0x80000000'
    """
    result = 0
    for n in range(bits):
        result |= (value >> n & 1) << (bits - 1 - n)
    return result


def find_leading(value: int, bits: int, signed: int, shift_amount: int) -> int:
    """`bfind`: the position of the highest one, of negative numbers of the highest zero; -1 if there is none.

    With `shift_amount` the shift that brings it to the highest position.

    >>> find_leading(0x10, 32, 0, 0), find_leading(0x10, 32, 0, 1), find_leading(-1, 32, 1, 0)
    (4, 27, -1)
    """
    if signed and value >> (bits - 1) & 1:
        value = ~value
    n = leading_zeros(value, bits)
    if n == bits:
        return -1
    return n if shift_amount else bits - 1 - n


def find_nth_set(mask: int, base: int, offset: int) -> int:
    """`fns`: the n-th set bit from `base` on. A positive offset n counts upwards, a negative one downwards; offset 0 is
    `base` itself, if set. Returns -1 if there is no such bit. For the smallest offset the result is always 0
    (core/spec/errata.py).

    >>> find_nth_set(0b10110, 0, 1), find_nth_set(0b10110, 4, -2), find_nth_set(0b10110, 0, 0), find_nth_set(0b10110, 0, 4)
    (1, 2, -1, -1)
    """
    if offset == -(1 << 31):  # measured on an H200
        return 0
    if base > 31:
        return -1
    if offset == 0:
        return base if mask >> base & 1 else -1
    step = 1 if offset > 0 else -1
    left = offset * step
    n = base
    while 0 <= n < 32:
        if mask >> n & 1:
            left -= 1
            if left == 0:
                return n
        n += step
    return -1


def bit_field_extract(value: int, position: int, length: int, bits: int, signed: int) -> int:
    """`bfe`: `length` bits from `position` up; signed ones are extended by their highest bit, or the number's where the
    field leaves it.

    Position and length count modulo 256 in 32 bits; in 64 they count in full.

    >>> hex(bit_field_extract(0xABCD, 4, 8, 32, 0)), bit_field_extract(0xABCD, 4, 8, 32, 1), bit_field_extract(0x80000000, 31, 5, 32, 1)
    ('0xbc', -68, -1)
    """
    if bits == 32:
        position, length = position & 0xFF, length & 0xFF
    sign = 0
    if signed and length:
        sign = value >> min(position + length - 1, bits - 1) & 1
    inside = max(min(length, bits - position), 0)
    field = 0
    if inside:
        field = value >> position & (((1 << (inside - 1)) - 1) * 2 + 1)
    if sign and inside < bits:
        field |= -1 << inside
    return field


def bit_field_insert(field: int, value: int, position: int, length: int, bits: int) -> int:
    """`bfi`: `value` with `length` bits from `position` up taken from the low bits of `field`. Both count as in bfe.

    >>> hex(bit_field_insert(0xBC, 0xFFFF, 4, 8, 32))
    '0xfbcf'
    """
    if bits == 32:
        position, length = position & 0xFF, length & 0xFF
    inside = max(min(length, bits - position), 0)
    if inside == 0:
        return value
    mask = (((1 << (inside - 1)) - 1) * 2 + 1) << position
    return value & ~mask | field << position & mask


def bit_mask(position: int, width: int, clamp: int) -> int:
    """`bmsk`: `width` ones from `position` up; both modulo 32, or with `clamp` at most 32.

    >>> hex(bit_mask(4, 8, 1)), hex(bit_mask(36, 40, 0)), hex(bit_mask(4, 32, 1)), hex(bit_mask(32, 1, 1))
    ('0xff0', '0xff0', '0xfffffff0', '0x0')
    """
    if clamp:
        position, width = min(position, 32), min(width, 32)
    else:
        position, width = position & 31, width & 31
    return (((1 << width) - 1) << position) & 0xFFFFFFFF


def sign_extend(value: int, width: int, signed: int, clamp: int) -> int:
    """`szext`: the low `width` bits, extended by their sign or by zeros; the width modulo 32, or with `clamp` at most
    32.

    >>> sign_extend(0xFF, 8, 1, 1), sign_extend(0xFFF, 8, 0, 1), sign_extend(0xFF, 40, 0, 0), sign_extend(7, 0, 1, 0)
    (-1, 255, 255, 0)
    """
    width = min(width, 32) if clamp else width & 31
    if width == 0:
        return 0
    found = value & ((1 << width) - 1)
    return found | -1 << width if signed and found >> (width - 1) & 1 else found


def permute(a: int, b: int, selector: int, mode: int) -> int:
    """`prmt`: four bytes out of the eight of a (0 to 3) and b (4 to 7). INDEXED: a nibble for each, whose bit 3
    replicates the byte's sign.

    >>> hex(permute(0x33221100, 0x77665544, 0x7610, INDEXED)), hex(permute(0x80, 0, 0x8888, INDEXED)), hex(permute(0x33221100, 0x77665544, 1, FORWARD_4))
    ('0x77661100', '0xffffffff', '0x44332211')
    """
    both = a | b << 32
    low = selector & 3
    picks = selector  # a nibble for each byte
    if mode == 0:
        picks = 0x3210 + low * 0x1111
    elif mode == 1:
        picks = low | (low - 1 & 7) << 4 | (low - 2 & 7) << 8 | (low - 3 & 7) << 12
    elif mode == 2:
        picks = low * 0x1111
    elif mode == 3:
        picks = low | max(low, 1) << 4 | max(low, 2) << 8 | 0x3000
    elif mode == 4:
        picks = min(low, 1) << 4 | min(low, 2) << 8 | low << 12
    elif mode == 5:
        picks = 0x1010 + (low & 1) * 0x2222
    result = 0
    for n in range(4):
        nibble = picks >> (4 * n)
        byte = both >> (8 * (nibble & 7)) & 0xFF
        if nibble & 8:
            byte = (byte >> 7) * 0xFF
        result |= byte << (8 * n)
    return result
