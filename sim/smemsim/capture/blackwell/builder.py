"""Dot products that distinguish ways of summing: their elements, C, and scale factors. Those of the block-scaled kinds
are in scaled.py.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from smemsim.capture.blackwell.draw import kinds
from smemsim.capture.blackwell.words import ELEMENTS, KINDS, Element

F32 = Element("f32", 0, 32, 4, 8, 8, 23, 127)
F16 = ELEMENTS["f16"]
SCALES = {"": 0, ".block32": 32, ".block16": 16}  # elements of K that share a factor


@dataclasses.dataclass(frozen=True)
class Instruction:
    kind: str
    a: str
    b: str
    d: str = "f32"
    vector: str = ""  # .block16 or .block32
    ue8m0: bool = True

    @property
    def k(self) -> int:
        return KINDS[self.kind][0]

    @property
    def form(self) -> str:
        return f"{self.kind}{self.vector}.ss"

    @property
    def scales(self) -> int:
        """Scale factors of a row; 0 without."""
        return self.k // SCALES[self.vector] if self.vector else 0

    @property
    def one_scales(self) -> tuple[int, int]:
        """The words of scale factors (A, B) that are all 1."""
        word = 0x7F7F7F7F if self.ue8m0 else 0x38383838
        return word, word


def instructions() -> list[Instruction]:
    out = [Instruction("f16", a, b) for a in ("f16", "bf16") for b in ("f16", "bf16")]
    out += [Instruction("f16", "f16", "f16", "f16"), Instruction("tf32", "tf32", "tf32")]
    for a, b in (
        ("e4m3", "e4m3"),
        ("e5m2", "e5m2"),
        ("e4m3", "e5m2"),
        ("e2m1", "e2m1"),
        ("e3m2", "e3m2"),
        ("e2m3", "e2m3"),
        ("e2m1", "e4m3"),
        ("e3m2", "e5m2"),
    ):
        out.append(Instruction("f8f6f4", a, b))
        out.append(Instruction("mxf8f6f4", a, b, vector=".block32"))
    out += [Instruction("f8f6f4", "e4m3", "e4m3", "f16"), Instruction("f8f6f4", "e5m2", "e5m2", "f16")]
    out += [Instruction("i8", a, b, "s32") for a in ("s8", "u8") for b in ("s8", "u8")]
    out += [Instruction("mxf4", "e2m1x2", "e2m1x2", vector=".block32"), Instruction("mxf4nvf4", "e2m1x2", "e2m1x2", vector=".block32")]
    out += [Instruction("mxf4nvf4", "e2m1x2", "e2m1x2", vector=".block16", ue8m0=ue8m0) for ue8m0 in (True, False)]
    return [i for i in out if i.kind in kinds()]


class DotProbe(NamedTuple):
    """One dot product: codes of A and B by k, the bits that D holds before, the words of scale factors, and whether D
    is added at all.
    """

    name: str
    codes: list[tuple[int, int]]
    c: int
    scales: tuple[int, int]
    enable: int


class Bits(NamedTuple):
    """A product of two codes."""

    a: int
    b: int


Term = Fraction | tuple[Fraction, Fraction] | Bits
POWER, ONE = Fraction(2), Fraction(1)


@functools.cache
def bits(element: Element, value: Fraction | int) -> int | None:
    """The code of a value, if the format has it; the lower 13 bits of a tf32 word do not count."""
    try:
        code = element.encode(value)
    except ValueError:
        return None
    return None if element.name == "tf32" and code & 0x1FFF else code


def normal(element: Element, value: Fraction) -> bool:
    return abs(value) >= POWER ** (1 - element.bias)


@functools.cache
def factors(a: Element, b: Element, value: Fraction) -> tuple[Fraction, Fraction] | None:
    """Two powers of two, or a number and a power, whose product is `value`: one in `a`, the other in `b`. Neither is
    subnormal if possible.

    A subnormal counts with its format's lowest exponent, and the probes are about exponents.
    """
    found = None
    for y, is_normal in powers(b):
        x = value / y
        if bits(a, x) is not None:
            if is_normal and normal(a, x):
                return x, y
            found = found or (x, y)
    return found


@functools.cache
def powers(element: Element) -> tuple[tuple[Fraction, bool], ...]:
    """(power of two, whether it is normal) of those that an element holds, nearest to 1 first."""
    every = (POWER**e for e in sorted(range(-150, 151), key=abs))
    return tuple((y, normal(element, y)) for y in every if bits(element, y) is not None)


class Builder:
    """Collects the probes of an instruction. Values that the formats cannot hold are left out."""

    def __init__(self, i: Instruction) -> None:
        self.i, self.a, self.b = i, ELEMENTS[i.a], ELEMENTS[i.b]
        self.d = {"f16": F16, "f32": F32}.get(i.d)
        self.out: list[DotProbe] = []

    def product(self, term: Term) -> tuple[int, int] | None:
        """The codes of a term."""
        if isinstance(term, Bits):
            return tuple(term)
        pair = term if isinstance(term, tuple) else factors(self.a, self.b, term)
        x, y = (None, None) if pair is None else (bits(self.a, pair[0]), bits(self.b, pair[1]))
        return None if x is None or y is None else (x, y)

    def add(
        self, name: str, terms: Sequence[Term], c: Fraction | int = 0, *, at: Sequence[int] = (), raw: int | None = None,
        scales: tuple[int, int] | None = None, enable: int = 1,
    ) -> None:  # fmt: skip
        """A probe with these products at k = 0, 1 ... or `at`, and C as a number or as `raw` bits."""
        codes = [(0, 0)] * self.i.k
        for position, term in zip(at or range(len(terms)), terms, strict=False):
            found = self.product(term)
            if found is None:
                return
            codes[position] = found
        word = raw if raw is not None else int(c) & 0xFFFFFFFF if self.d is None else bits(self.d, Fraction(c))
        if word is not None:
            self.out.append(DotProbe(name, codes, word, scales or self.i.one_scales, enable))

    @property
    def minus_zero(self) -> int:
        """-0 of D."""
        return 0x8000 if self.i.d == "f16" else 0x80000000


def integers(p: Builder) -> None:
    low = 0 if not p.a.signed else -128
    for name, x, y, c in (
        ("largest", 127, 127, 0x7FFFFF00),
        ("smallest", low, 127, -0x7FFFFF00),
        ("wrap", 127, 127, 0x7FFFFFFF),
        ("zero", 0, 0, -1),
    ):
        p.add(name, [(Fraction(x), Fraction(y))] * p.i.k, c)


def kept_bits(p: Builder) -> None:
    """How many bits below the largest term count, of a product and of C; what becomes of the others."""
    big = next(POWER**e for e in range(14, -1, -1) if p.product(POWER**e) and p.product(-(POWER**e)))
    for down in range(8, 40):
        p.add(f"keep {down}", [big, -big, big / POWER**down])
        p.add(f"keep c {down}", [big, -big], big / POWER**down)
        p.add(f"c leads {down}", [-big, big / POWER**down], big)
    for down in (11, 12, 13, 14, 23, 24, 25, 26, 33, 34, 35, 36):  # truncated, and toward what
        for sign in (1, -1):
            for part in (Fraction(7, 4), Fraction(3, 2), Fraction(5, 4)):
                p.add(f"cut {down}", [big, -big, sign * part * big / POWER**down])
                p.add(f"cut c {down}", [big, -big], sign * part * big / POWER**down)
    rng = random.Random(9601)
    small = [v for v in (big / POWER**down for down in range(20, 44)) if p.product(v)]
    for _ in range(40):  # one sum, or several in a chain: a cancelling pair anywhere, small terms everywhere else
        x, y = rng.sample(range(p.i.k), 2)
        rest = [k for k in range(p.i.k) if k not in (x, y)]
        value = rng.choice(small[-6:]) if small else Fraction(0)
        p.add("pair", [big, -big, *[value] * len(rest)], value, at=(x, y, *rest))
    p.add("normalised", [(Fraction(3, 2) * 2, Fraction(3, 2) * 4), (-Fraction(3, 2) * 2, Fraction(3, 2) * 4)], 36 / POWER**25)
    for k in range(18, 30):
        p.add(f"zero and 2^-{k}", [(Fraction(0), big), ONE / POWER**k])
    largest = p.b.encode(POWER ** ((1 << p.b.exponent_bits) - 2 - p.b.bias))
    for k in (60, 100, 120):  # a zero product does not raise the largest exponent
        p.add(f"zero times the largest and 2^-{k}", [Bits(0, largest), ONE / POWER**k])


def rounding(p: Builder) -> None:
    """How D is rounded: 32-bit D toward zero or not, 16-bit D once or by way of 32 bits."""
    for part in (Fraction(3, 4), Fraction(1, 2), Fraction(1, 4)):
        for sign in (1, -1):
            p.add("round", [sign * ONE / 4] * 4, sign * part / POWER**23)
            p.add("round f16", [sign * ONE / 2, sign * ONE / 2, sign * part / POWER**10])
    for sign in (1, -1):
        p.add("round twice", [sign * ONE / 2, sign * ONE / 2, sign * ONE / POWER**11, sign * ONE / POWER**24])
        for part in (Fraction(1, 2), Fraction(3, 2)):  # halfway between two numbers of 11 bits
            p.add("halfway", [sign * part], sign * 1024)
            for below in (14, 25):
                p.add(f"halfway and 2^-{below}", [sign * part, sign * ONE / POWER**below], sign * 1024)
                p.add(f"halfway but 2^-{below}", [sign * part, -sign * ONE / POWER**below], sign * 1024)


def tiny(p: Builder) -> None:
    """Subnormal operands, and the floor under the exponents when everything is tiny."""
    a, b = p.a, p.b
    lowest_a, lowest_b = (POWER ** (1 - x.bias - (10 if x.name == "tf32" else x.fraction_bits)) for x in (a, b))
    p.add("subnormals", [(lowest_a, lowest_b)])
    p.add("subnormal and one", [(lowest_a, ONE)])
    p.add("minus subnormal", [(-lowest_a, lowest_b)])
    for k in range(145, 180):
        p.add(f"floor {k}", [POWER**-149, -(POWER**-k)])
    if p.i.d == "f16":
        for k in range(40, 49):  # half the smallest number, and what lies below it
            p.add(f"floor f16 {k}", [POWER**-25, POWER**-k])


def zeros(p: Builder) -> None:
    """The sign of a zero, with and without an added C: nothing but -0, what cancels, what is too small for D."""
    minus, unit, count = 1 << p.a.bits - 1, p.b.encode(1), p.i.k
    least = 25 if p.i.d == "f16" else 150  # below half of D's smallest number
    for name, terms in (
        ("nothing but -0", [Bits(minus, unit)] * count),
        ("-1 times 0", [Bits(p.a.encode(-1), 0)] * count),
        ("-0 and one 0", [Bits(minus, unit)] * (count - 1)),
        ("0", []),
        ("1 - 1", [ONE, -ONE]),
        ("negative and too small", [-(POWER**-least) * Fraction(3, 4)]),
        ("negative, half the smallest", [-(POWER**-least)]),
        ("positive and too small", [POWER**-least * Fraction(3, 4)]),
    ):
        p.add(f"{name}, c = 0", terms)
        p.add(f"{name}, c = -0", terms, raw=p.minus_zero)
        p.add(f"{name}, no c", terms, raw=p.minus_zero, enable=0)


def overflow(p: Builder) -> None:
    """Values that are too large for D, at the end or on the way."""
    wide = p.i.d != "f16"
    most = 128 if wide else 16  # 2^most is the first power of two that D does not have
    largest = 0x7F7FFFFF if wide else 0x7BFF
    for sign in (1, -1):
        half = sign * POWER ** (most - 1)
        p.add("overflow", [half, half])
        p.add("overflow and back", [half, half, -half])
        p.add("overflow by c", [half], half)
        p.add("just below overflow", [half * Fraction(3, 4)] * 2, raw=(0x7E7FFFFF if wide else 0x73FF) | (p.minus_zero if sign < 0 else 0))
        for ulp in (1, Fraction(3, 4), Fraction(1, 2), Fraction(1, 4)):  # from the largest number on
            step = sign * ulp * POWER ** (most - (24 if wide else 11))
            p.add(f"largest and {ulp} of its last bit", [step], raw=largest | (p.minus_zero if sign < 0 else 0))
    for e in (100, 200, 254) if wide else (16, 20, 30):
        p.add(f"2^{e} cancels", [POWER**e, -(POWER**e), ONE])
        p.add(f"2^{e} cancels, c", [POWER**e, -(POWER**e)], 1)


def specials(p: Builder) -> None:
    a, b, unit = p.a, p.b, p.b.encode(1)
    codes = {"nan": 0x7FC00001, "inf": 0x7F800000, "-inf": 0xFF800000, "max": 0x7F7FFFFF}
    if p.i.d == "f16":
        codes = {"nan": 0x7E01, "inf": 0x7C00, "-inf": 0xFC00, "max": 0x7BFF}
    for name, c in {"minus zero": p.minus_zero, **codes}.items():
        p.add(f"c {name}", [], raw=c)
        p.add(f"c {name} and one", [ONE], raw=c)
        p.add(f"c {name} and minus one", [-ONE], raw=c)
    if a.exponent_bits in (5, 8) and a.name != "e4m3":
        top = (1 << a.exponent_bits) - 1 << a.fraction_bits
        sign = 1 << a.exponent_bits + a.fraction_bits
        for name, found in (
            ("inf", [top]),
            ("-inf", [top | sign]),
            ("inf - inf", [top, top | sign]),
            ("nan", [top | 1]),
            ("-nan", [top | sign | 1]),
        ):
            p.add(name, [Bits(code, unit) for code in found])
        p.add("inf times zero", [Bits(top, 0)])
        p.add("inf times minus zero", [Bits(top, 1 << b.bits - 1)])
        p.add("inf and c -inf", [Bits(top, unit)], raw=codes["-inf"])
        p.add("nan low bits", [Bits(top | 1, unit), Bits(1, unit)])
    if a.name == "e4m3":
        p.add("nan", [Bits(0x7F, unit)])
        p.add("-nan", [Bits(0xFF, unit)])
    if a.name == "tf32":
        for code in (0x3F803FFF, 0x7F800001, 0x00001FFF, 0x7F801FFF):
            p.add("low bits", [Bits(code, unit)])
