"""Directed dot products of the block-scaled kinds: odd scale factors, what exponent a block counts with, floors and
overflow by way of the factors.

All rows of a launch have the same words of scale factors, so only the byte of a factor in its word is assumed. Probes
with other words are other launches. One question is which terms are aligned together: the 16 elements of a group, the
elements of a factor, or single products. So terms that must be separate are 16 elements apart. Elements k = 0 and 16
share a factor of .block32. Elements 0 and 32 share one only if the row has a single factor.
"""

from __future__ import annotations

from fractions import Fraction

from smemsim.capture.blackwell.builder import ONE, POWER, Builder, Instruction

FIRST, SECOND, LATER, LAST = 0, 16, 32, 48  # k where a group of 16 begins


def word(i: Instruction, first: int, later: int | None = None) -> int:
    """A word of factors: `first` for the lower half of K, `later` for the upper one."""
    later = first if later is None else later
    own = [first] if i.scales == 1 else [first] * (i.scales // 2) + [later] * (i.scales // 2)
    return int.from_bytes(bytes((own * 4)[:4]), "little")


Terms = tuple[list[tuple[Fraction, Fraction]], list[int]]


def group(value: Fraction, begin: int) -> Terms:
    """(products, where): products of e2m1 numbers, in at most 16 elements from k = `begin`
    on, that add up to a value.
    """
    sizes = [(Fraction(x), Fraction(y)) for x, y in ((6, 6), (4, 4), (2, 4), (2, 2), (1, 2), (1, 1))] + [(ONE / 2, ONE), (ONE / 2, ONE / 2)]
    left, terms = abs(value), []
    for x, y in sizes:
        while left >= x * y:
            terms.append((x if value > 0 else -x, y))
            left -= x * y
    if left or len(terms) > 16:
        raise ValueError(f"{value} is no sum of 16 products of e2m1")
    return terms, list(range(begin, begin + len(terms)))


def sums(*values: tuple[int, Fraction]) -> Terms:
    """(products, where) of several groups, given as (begin, value)."""
    terms, at = [], []
    for begin, value in values:
        some, places = group(value, begin)
        terms += some
        at += places
    return terms, at


def scaled(p: Builder) -> None:
    codes(p)
    if p.i.scales > 1:
        codes_of_one_block(p)
        groups(p)
    if p.i.ue8m0:
        large(p)
        floors(p)


def codes(p: Builder) -> None:
    """Every odd scale factor, on A and on B."""
    one = 0x7F if p.i.ue8m0 else 0x38
    odd = (0x00, 0x01, 0xFE, 0xFF) if p.i.ue8m0 else (0x00, 0x01, 0x07, 0x08, 0x3F, 0x7E, 0x7F, 0x80, 0x81, 0xB8, 0xFF)
    pairs = [(x, one) for x in odd] + [(one, x) for x in odd] + [(x, x) for x in odd]
    pairs += [(0x00, 0xFE), (0x01, 0xFD), (0xFF, 0x00)] if p.i.ue8m0 else [(0x07, 0x3F), (0x7F, 0x00), (0xB8, 0x01)]
    for x, y in pairs:
        scales = word(p.i, x), word(p.i, y)
        name = f"factors {x:#04x} {y:#04x}"
        p.add(f"{name}: 1", [ONE], scales=scales)
        p.add(f"{name}: -1", [-ONE], scales=scales)
        p.add(f"{name}: 1, c = 1", [ONE], 1, scales=scales)
        p.add(f"{name}: 1 - 1, c = 1", [ONE, -ONE], 1, scales=scales)
        p.add(f"{name}: zeros", [], scales=scales)
        p.add(f"{name}: zeros, c = 1", [], 1, scales=scales)
        p.add(f"{name}: zeros, c = -0", [], raw=p.minus_zero, scales=scales)


def codes_of_one_block(p: Builder) -> None:
    """An odd factor of the upper half of K, which has elements or none."""
    one = 0x7F if p.i.ue8m0 else 0x38
    for x in (0x00, 0xFF, 0xFE) if p.i.ue8m0 else (0x00, 0x7F, 0xB8, 0x01):
        scales = word(p.i, one, x), word(p.i, one)
        p.add(f"upper factor {x:#04x}: none there", [ONE], scales=scales, at=(FIRST,))
        p.add(f"upper factor {x:#04x}: 1 there", [ONE], scales=scales, at=(LATER,))
        p.add(f"upper factor {x:#04x}: 1 - 1 there", [ONE, ONE, -ONE], scales=scales, at=(FIRST, LATER, LATER + 1))


def both(i: Instruction, first: int, later: int) -> tuple[tuple[int, int], int, int]:
    """Words whose products of factors are 2^first and 2^later, and these exponents; UE4M3
    has 2^16 and 2^-18 instead.
    """
    if i.ue8m0:
        return (word(i, 127), word(i, 127 + first, 127 + later)), first, later
    return (word(i, 0x78, 0x01),) * 2, 16, -18  # 256 * 256, and the smallest subnormal by itself


def groups(p: Builder) -> None:
    """Does a group count with its factors' exponent, whatever its sum is? How many bits below that are kept?"""
    for down in (30, 39) if p.i.ue8m0 else (34,):
        scales, first, later = both(p.i, 0, -down)
        for j in range(-2, 7):  # 2^(later + j) beside 2^first: 24 to 41 bits below it
            below = first - later - j
            for size in (1, 64, 576):
                terms, at = sums((FIRST, Fraction(size)), (SECOND, Fraction(-size)), (LATER, POWER**j))
                p.add(f"group keeps {below} below {size}", terms, at=at, scales=scales)
            terms, at = sums((FIRST, -ONE), (LATER, POWER**j))
            p.add(f"c leads by {below}", terms, POWER**first, at=at, scales=scales)
        for j in range(7):  # two groups that are cut to nothing each, and to one bit together
            terms, at = sums((FIRST, ONE), (SECOND, -ONE), *((begin, Fraction(3, 4) * POWER**j) for begin in (LATER, LAST)))
            p.add(f"groups cut apart {first - later - j}", terms, at=at, scales=scales)
        for sign in (1, -1):
            for part in (Fraction(7, 4), Fraction(3, 2), Fraction(5, 4)):
                terms, at = sums((FIRST, ONE), (SECOND, -ONE), (LATER, sign * part))
                p.add(f"group cut {first - later}", terms, at=at, scales=scales)
    scales, first, later = both(p.i, 38, 0)
    for j in range(-2, 7):  # a group that cancels, and one that has nothing but zeros, beside one that is 2^(later + j)
        small, at = group(POWER**j, LATER)
        distance = first - later - j
        p.add(f"group cancels {distance} above", [ONE, -ONE, *small], at=(FIRST, FIRST + 1, *at), scales=scales)
        p.add(f"group of zeros {distance} above", small, at=at, scales=scales)
        p.add(f"factor cancels {distance} above", [ONE, -ONE, *small], at=(FIRST, SECOND, *at), scales=scales)
        p.add(f"group cancels {distance} above c", [ONE, -ONE], POWER ** (later + j), at=(FIRST, FIRST + 1), scales=scales)
        p.add(f"group of zeros {distance} above c", [], POWER ** (later + j), scales=scales)


def large(p: Builder) -> None:
    """2^128 and what is beyond, by way of the factors."""
    scales = word(p.i, 127 + 64), word(p.i, 127 + 63)
    for sign in (1, -1):
        p.add("scaled overflow", [sign * ONE] * 2, scales=scales)
        p.add("scaled overflow and back", [sign * ONE, sign * ONE, -sign * ONE], scales=scales)
        below = 0x7E7FFFFF | (p.minus_zero if sign < 0 else 0)
        p.add("scaled, just below overflow", [sign * Fraction(3, 4)] * 2, raw=below, scales=scales)
    for e in (100, 126, 127):
        scales = word(p.i, 127 + e), word(p.i, 127 + e)
        p.add(f"scaled 2^{2 * e} cancels", [ONE, -ONE], 1, scales=scales)
        p.add(f"scaled 2^{2 * e}", [ONE], 1, scales=scales)


def floors(p: Builder) -> None:
    """2^-149 - 2^-k: the exponent that zeros count with decides from which k on it is 2^-149 and not 0."""
    if p.i.scales == 1:
        top = max(e for e in range(9) if p.product(POWER**e))
        scales = word(p.i, 0), word(p.i, 254 - 149 - top)
        for k in range(150, 176):
            p.add(f"scaled floor {k}", [POWER**top, -(POWER ** (149 + top - k))], scales=scales)
            p.add(f"scaled floor {k}, no c", [POWER**top, -(POWER ** (149 + top - k))], scales=scales, enable=0)
        return
    for exponent in (-160, -169, -178, -187):
        scales = word(p.i, 0), word(p.i, 254 - 149, 254 + exponent)
        for j in range(-2, 7):
            small, at = group(-(POWER**j), LATER)
            p.add(f"group floor {-exponent - j}", [ONE, *small], at=(FIRST, *at), scales=scales)
            p.add(f"group floor {-exponent - j}, no c", [ONE, *small], at=(FIRST, *at), scales=scales, enable=0)
