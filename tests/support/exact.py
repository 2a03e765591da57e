"""The tensor core's dot product a second time, in exact fractions. It shares nothing with the package: formats and
constants stand here again.
"""

import functools
import math
from fractions import Fraction

TWO = Fraction(2)
INF, NAN = math.inf, math.nan
SIGNED, UNSIGNED = {"s8": 8, "s32": 32}, {"u8": 8, "b1": 1}
FORMATS = {  # bits, of the exponent, of the fraction, what exponents of all ones are, low bits that do not count
    "f32": (32, 8, 23, "ieee", 0), "tf32": (32, 8, 10, "ieee", 13), "bf16": (16, 8, 7, "ieee", 0), "f16": (16, 5, 10, "ieee", 0),
    "e5m2": (8, 5, 2, "ieee", 0), "e4m3": (8, 4, 3, "nan", 0), "e3m2": (6, 3, 2, "", 0), "e2m3": (6, 2, 3, "", 0), "e2m1": (4, 2, 1, "", 0),
    "ue4m3": (8, 4, 3, "nan", 0), "ue8m0": (8, 8, 0, "nan", 0),
}  # fmt: skip
FP8 = ("e4m3", "e5m2")


def constants(kind, a_type, d_type):
    """What is published of an instruction: bits kept below the largest exponent, the exponent of zeros, fraction bits
    of D, groups, K.
    """
    old, four = kind == "wgmma" and a_type in FP8, kind in ("mxf4", "mxf4nvf4")
    bits = 16 if four or a_type in ("f16", "bf16") else 8 if a_type == "tf32" else 32
    return {
        "kept": 13 if old else 35 if four else 25,
        "zero": -139 if four else -21 if d_type == "f16" else -133,
        "fraction": 10 if d_type == "f16" else 13 if old else 23,
        "nearest": d_type == "f16",
        "group": 16 if four else 1,
    }, 64 if four else bits


@functools.lru_cache(1 << 16)
def read(name, bits):
    """(value, exponent) of a code; subnormals have the exponent of the smallest normal number, infinities and NaNs are
    floats.
    """
    width, exponent_bits, fraction_bits, specials, dropped = FORMATS[name]
    bias, top = (1 << exponent_bits - 1) - 1, (1 << exponent_bits) - 1
    if name == "ue8m0":
        return (NAN, 0) if bits == 255 else (TWO ** (bits - 127), bits - 127)
    sign = -1 if bits >> width - 1 and name != "ue4m3" else 1
    field, fraction = bits >> dropped + fraction_bits & top, bits >> dropped & (1 << fraction_bits) - 1
    if field == top and (specials == "ieee" or (specials == "nan" and fraction + 1 == 1 << fraction_bits)):
        return (NAN if fraction else sign * INF), 0
    exponent = max(field, 1) - bias
    return sign * Fraction(fraction + ((1 << fraction_bits) if field else 0)) * TWO ** (exponent - fraction_bits), exponent


@functools.cache
def power(exponent):
    return TWO**exponent


def odd(value):
    return isinstance(value, float)


def product(values):
    if not any(map(odd, values)):
        return math.prod(values, start=Fraction(1))
    if 0 in values or any(value != value for value in values):  # noqa: PLR0124 (a NaN)
        return NAN
    return INF * math.prod(-1 if value < 0 else 1 for value in values)


def log2(value):
    exponent = abs(value).numerator.bit_length() - abs(value).denominator.bit_length()
    return exponent - (abs(value) < power(exponent))


def steps_of(value, unit, how):
    """The value in whole units: cut toward zero or down, or rounded to nearest even."""
    steps = value / unit
    if how == "zero":
        return math.floor(steps) if steps >= 0 else math.ceil(steps)
    return math.floor(steps) if how == "down" else round(steps)


def converted(value, d_type, fraction, *, nearest, to_infinity=True, minus=False, flush=False):
    """Bits of D. `minus`: a negative sum that comes to zero is -0."""
    width, exponent_bits, fraction_bits, *_ = FORMATS[d_type]
    bias, sign = (1 << exponent_bits - 1) - 1, int(value < 0) << width - 1
    if value == 0:
        return 0
    exponent = max(log2(value), 1 - bias)
    steps = steps_of(abs(value), power(exponent - fraction), "nearest" if nearest else "zero")
    if steps * power(exponent - fraction) >= power(bias + 1):
        return sign | ((2 * bias + 1) << fraction_bits) - (not to_infinity)
    if steps == 0 or (flush and steps < 1 << fraction):
        return sign if minus else 0
    return sign | ((exponent + bias - 1 << fraction) + steps) << fraction_bits - fraction


def terms_of(a, b, types, group, factors):
    """[(value, exponent)] of everything but c; the exponent of a zero is None. `factors`: (type, A's codes, B's codes,
    elements for each).
    """
    fixed = factors and (factors[0], tuple(factors[1]), tuple(factors[2]), factors[3])
    return list(_terms_of(tuple(a), tuple(b), tuple(types), group, fixed))


@functools.lru_cache(16)
def _terms_of(a, b, types, group, factors):
    """The same, kept: a sum is made under many rules."""
    pairs = [(read(types[0], x), read(types[1], y)) for x, y in zip(a, b, strict=True)]
    scales = [()] * len(pairs)
    if factors:
        dtype, of_a, of_b, block = factors
        scales = [(read(dtype, of_a[k // block]), read(dtype, of_b[k // block])) for k in range(len(pairs))]
    out = []
    for first in range(0, len(pairs), group):
        if group == 1:
            parts = (*pairs[first], *scales[first])
            value, exponent = product([v for v, _ in parts]), sum(e for _, e in parts)
            out.append((value, exponent if value else None))
        else:
            scale = scales[first]
            products = [x * y for (x, _), (y, _) in pairs[first : first + group]]
            worth = product([v for v, _ in scale])
            out.append((product([sum(products), worth]), sum(e for _, e in scale) if any(products) and worth else None))
    return out


def dot(a, b, c, types, *, kept, zero, fraction, nearest, group=1, factors=None, scale_c=0, cut="zero", normalise=False, late=False, twice=False,
        count_zeros=False, to_infinity=True, minus=False, flush=False):  # fmt: skip
    """Bits of D. What follows `scale_c` is what others have proposed: None of it is what the tensor core does."""
    terms = terms_of(a, b, types, group, factors)
    if count_zeros:
        terms = [(v, read(types[0], x)[1] + read(types[1], y)[1]) for (v, _), x, y in zip(terms, a, b, strict=True)]
    c_value, c_exponent = read(types[2], c)
    if not odd(c_value):
        c_value /= 2**scale_c
    terms.append((c_value, c_exponent - scale_c if c_value else None))
    specials = [v for v, _ in terms if odd(v)]
    if specials:
        nan, inf = (0x7FFF, 0x7C00) if types[2] == "f16" else (0x7FFFFFFF, 0x7F800000)
        if any(v != v for v in specials) or len(set(specials)) == 2:  # noqa: PLR0124
            return nan
        return inf | (specials[0] < 0) << FORMATS[types[2]][0] - 1
    if normalise:
        terms = [(v, log2(v) if v else None) for v, _ in terms]
    after = terms.pop()[0] if late else 0
    largest = max([zero if e is None else e for _, e in terms])
    unit = power(largest - kept)
    total = sum(steps_of(v, unit, cut) for v, _ in terms if v) * unit + after
    if twice:  # a float32 in between
        total = read("f32", converted(total, "f32", 23, nearest=False))[0]
    if minus and total == 0 and all(v == 0 for v, _ in terms):
        return 1 << FORMATS[types[2]][0] - 1
    return converted(total, types[2], fraction, nearest=nearest, to_infinity=to_infinity, minus=minus, flush=flush)


def whole(name, bits):
    """The value of an integer code."""
    return bits - (1 << SIGNED[name]) if name in SIGNED and bits >> SIGNED[name] - 1 else bits


def integer_dot(a, b, c, types, *, saturate=False):
    total = whole("s32", c) + sum(whole(types[0], x) * whole(types[1], y) for x, y in zip(a, b, strict=True))
    return (min(max(total, -(2**31)), 2**31 - 1) if saturate else total) & 0xFFFFFFFF


def bits_of(name):
    return (SIGNED | UNSIGNED).get(name) or FORMATS[name][0]


def landmarks(name):
    """Codes where something changes: zeros, subnormals, around 1, the largest, infinities and NaNs; with both signs."""
    if name not in FORMATS:
        return [0, 1, (1 << bits_of(name) - 1) - 1, 1 << bits_of(name) - 1, (1 << bits_of(name)) - 1]
    width, exponent_bits, fraction_bits, _, dropped = FORMATS[name]
    one, top = ((1 << exponent_bits - 1) - 1) << fraction_bits, (1 << exponent_bits) - 1 << fraction_bits
    small = [
        0,
        1,
        (1 << fraction_bits) - 1,
        1 << fraction_bits,
        one - 1,
        one,
        one + 1,
        top - 1,
        top,
        top + 1,
        top + (1 << fraction_bits) - 1,
    ]
    codes = {code << dropped for code in small if code >> exponent_bits + fraction_bits == 0}
    return sorted(codes | ({1 << width - 1 | code for code in codes} if name != "ue8m0" else set()))


def one_of(name):
    """The code of 1."""
    return landmark_of(name, 0) if name in FORMATS else 1


def landmark_of(name, exponent):
    """The code of 2^exponent, a normal number of the format."""
    _, exponent_bits, fraction_bits, _, dropped = FORMATS[name]
    return exponent + (1 << exponent_bits - 1) - 1 << fraction_bits + dropped
