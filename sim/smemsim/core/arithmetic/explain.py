"""`dot_product`: one dot product step by step, as one instruction computes it: terms, alignment, what is cut, the sum,
the conversion.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from smemsim.base.members import OwnMembers
from smemsim.core.arithmetic import dot
from smemsim.core.arithmetic.multiply import Factors, Options
from smemsim.core.arithmetic.values import element_value
from smemsim.core.spec.formats import ElementFormat, element_format
from smemsim.core.spec.mma_arithmetic import NAN, MmaArithmetic

__all__ = ["DotProduct", "DotTerm", "explain"]


@dataclasses.dataclass(frozen=True)
class DotTerm(metaclass=OwnMembers):
    """One term of the sum: c, a product, or a group of products that are summed first.

    The elements of K in it are `k`; c has none. It is aligned by `exponent`, which is None for a zero, an infinity or a
    NaN. Without the low bits that are cut off, `value` is `kept`. All numbers are exact.

    >>> import smemsim
    >>> term = smemsim.dot_product([0x3F80] * 16, [0x4040] + [0x3080] * 15, arch="sm_90a", kind="wgmma", a_type="bf16", b_type="bf16", d_type="f32").terms[1]
    >>> term.k, float(term.value), term.exponent
    ((0,), 3.0, 1)
    """

    k: tuple[int, ...]
    a: tuple[int, ...]
    b: tuple[int, ...]
    value: Fraction | float
    exponent: int | None
    kept: Fraction | float

    @property
    def name(self) -> str:
        """The name of the term: `c`, `k 3` or `k 16..31`."""
        if not self.k:
            return "c"
        return f"k {self.k[0]}" if len(self.k) == 1 else f"k {self.k[0]}..{self.k[-1]}"

    @property
    def lost(self) -> Fraction | float:
        """The part of the term that was cut off."""
        return self.value - self.kept if isinstance(self.value, Fraction) and isinstance(self.kept, Fraction) else 0.0


@dataclasses.dataclass(frozen=True)
class DotProduct(metaclass=OwnMembers):
    """One element of D, step by step. Integers have no exponents.

    The terms are c and the products. All are aligned to `exponent`, that of term `largest` (None: the exponent with
    which zeros count). Terms are cut below the power of two `lowest`. The sum of the cut terms is `total`, the sum of
    the whole terms is `exact`. The bits of the result are `d`, its value is `value`. The bits of `exact` rounded once
    to nearest are `nearest`.

    >>> import smemsim
    >>> p = smemsim.dot_product([0x3F80] * 16, [0x4040] + [0x3080] * 15, arch="sm_90a", kind="wgmma", a_type="bf16", b_type="bf16", d_type="f32")
    >>> float(p.value), hex(p.d), p.exponent, p.largest.k
    (3.0, '0x40400000', 1, (0,))
    """

    kind: str
    types: tuple[str, str, str]
    arithmetic: MmaArithmetic
    terms: tuple[DotTerm, ...]
    exponent: int | None
    largest: DotTerm | None
    total: Fraction | float
    exact: Fraction | float
    d: int
    value: Fraction | float
    nearest: int
    saturated: bool = False

    def __repr__(self) -> str:
        return f"<DotProduct {self.kind} of {len(self.terms)} terms, {' '.join(self.types)}: d {self.d:#x}, nearest {self.nearest:#x}>"

    @property
    def lowest(self) -> int | None:
        """The exponent of the last bit that a term keeps: terms are cut below 2^lowest."""
        return None if self.exponent is None else self.exponent - (self.arithmetic.kept_bits or 0)

    @property
    def cut(self) -> tuple[DotTerm, ...]:
        """The terms that lost bits."""
        return tuple(term for term in self.terms if term.lost)

    @property
    def ulps(self) -> int | None:
        """By how many units in the last place `d` differs from `nearest`. None if one of them is infinite or a NaN."""
        fmt = element_format(self.types[2])
        if not fmt.is_float:
            return None
        ordered = [bits & fmt.magnitude if bits <= fmt.magnitude else -(bits & fmt.magnitude) for bits in (self.d, self.nearest)]
        return None if max(abs(x) for x in ordered) > fmt.largest else ordered[0] - ordered[1]

    def steps(self) -> list[str]:
        """The steps after the terms, in sentences."""
        row, fmt = self.arithmetic, element_format(self.types[2])
        if not fmt.is_float:
            how = "clamped to 32 bits" if self.saturated else "its low 32 bits"
            return [f"sum {_number(self.total)}, exact; D is {how}: {self.d:#010x} = {_number(self.value)}"]
        if not isinstance(self.total, Fraction):
            return [f"infinities and NaNs decide, in no order: D = {_hex(self.d, fmt)}, {_number(self.value)}"]
        by = f"the exponent that zeros count with, {row.zero_exponent}" if self.largest is None else f"that of {self.largest.name}"
        steps = [
            f"aligned to 2^{self.exponent}, {by}; {row.kept_bits} bits are kept below it: every term is cut, toward zero, at 2^{self.lowest}"
        ]
        lost = sum((term.lost for term in self.cut), Fraction(0))
        steps.append(f"{len(self.cut)} of {len(self.terms)} terms lose bits, {_number(lost)} in all" if self.cut else "no term loses bits")
        how = "to nearest even" if row.to_nearest else f"toward zero, to {row.fraction_bits} fraction bits"
        overflow = " (too large: infinity)" if isinstance(self.value, float) else ""
        steps.append(
            f"sum {_number(self.total)}, converted once to {fmt.name}, {how}: D = {_hex(self.d, fmt)} = {_number(self.value)}{overflow}"
        )
        if self.d == self.nearest:
            steps.append("the exact sum, rounded once to nearest, has the same bits")
        else:
            ulps = "" if self.ulps is None else f", {abs(self.ulps)} unit{'s' if abs(self.ulps) > 1 else ''} in the last place away"
            steps.append(f"the exact sum is {_number(self.exact)}; rounded once to nearest it would be {_hex(self.nearest, fmt)}{ulps}")
        return steps

    def __str__(self) -> str:
        return "; ".join(self.steps())


@np.errstate(all="ignore")  # infinities less infinities are NaNs, as they are in hardware
def explain(
    a: Sequence[int],
    b: Sequence[int],
    c: int,
    *,
    kind: str,
    types: tuple[str, str, str],
    row: MmaArithmetic,
    k: Sequence[int] | None = None,
    options: Options = Options(),  # noqa: B008
    factors: Factors | None = None,
) -> DotProduct:
    """One dot product of raw elements that meet pairwise; `k` are their logical K, `factors` those of the row and of
    the column.
    """
    where = list(range(len(a))) if k is None else list(k)
    if row.kept_bits is None:
        return _integers(a, b, c, kind, types, row, where, options.saturate)
    formats = [element_format(t) for t in types]
    elements = [[float(element_value(x, fmt)) for x in codes] for codes, fmt in zip((a, b, (c,)), formats, strict=True)]
    exponents = [[int(dot.exponent(x, fmt.smallest_exponent)) for x in values] for values, fmt in zip(elements, formats, strict=True)]
    c_value, c_exponent = elements[2][0] * 2.0**-options.scale_c, exponents[2][0] - options.scale_c
    sign = -1.0 if options.negate_a != options.negate_b else 1.0
    scale, scale_exponent = _scales(factors, where)
    size = len(a) // max(len(a) // row.group, factors.a.shape[-1]) if factors is not None and row.group > 1 else 1
    members = [range(first, first + size) for first in range(0, len(a), size)]
    made = []
    for part in members:
        first = part[0]
        if row.group == 1:
            value = elements[0][first] * elements[1][first] * scale[first]
            made.append((value, exponents[0][first] + exponents[1][first] + scale_exponent[first]))
        else:
            made.append(dot.group([elements[0][s] for s in part], [elements[1][s] for s in part], scale[first], scale_exponent[first]))
    values, each = [sign * value for value, _ in made], [e for _, e in made]
    aligned = dot.alignment(each, c_exponent, row.zero_exponent)
    unit = 2.0 ** (row.kept_bits - aligned)
    terms = [_term((), (), (), c_value, c_exponent, unit)]
    for part, value, e in zip(members, values, each, strict=True):
        terms.append(_term([where[s] for s in part], [a[s] for s in part], [b[s] for s in part], value, e, unit))
    total = float(dot.fused(values, each, c_value, c_exponent, row.kept_bits, row.zero_exponent))
    to = formats[2]
    exact = sum((t.value for t in terms), Fraction(0))
    d = _bits(total, to, row)
    largest = next((t for t in terms if t.exponent == aligned), None)
    return DotProduct(
        kind,
        types,
        row,
        tuple(terms),
        aligned,
        largest,
        _exact(total),
        exact,
        d,
        element_value(d, to),
        _nearest(exact, to),
    )


def _term(k: Sequence[int], a: Sequence[int], b: Sequence[int], value: float, exponent: int, unit: float) -> DotTerm:
    kept = float(dot.cut(value, unit)) / unit
    return DotTerm(tuple(k), tuple(a), tuple(b), _exact(value), exponent if exponent > dot.NOTHING // 2 else None, _exact(kept))


def _scales(factors: Factors | None, k: Sequence[int]) -> tuple[list[float], list[int]]:
    """The product of both factors of every element, and its exponent."""
    if factors is None:
        return [1.0] * len(k), [0] * len(k)
    fmt, block = element_format(factors.dtype), [x // factors.k_per_factor for x in k]
    values = [[float(element_value(int(bits[x]), fmt)) for x in block] for bits in (factors.a, factors.b)]
    exponents = [[int(dot.exponent(x, fmt.smallest_exponent)) for x in row] for row in values]
    return [x * y for x, y in zip(*values, strict=True)], [x + y for x, y in zip(*exponents, strict=True)]


def _bits(total: float, to: ElementFormat, row: MmaArithmetic) -> int:
    code = int(dot.convert(total, to.exponent_bits, to.fraction_bits, row.to_nearest, to.largest, to.largest + 1, NAN[to.name]))
    kept = code & ~((1 << to.fraction_bits - row.fraction_bits) - 1) if code != NAN[to.name] else code
    return dot.plus_zero(kept, 1 << to.bits - 1)


def _nearest(exact: Fraction | float, to: ElementFormat) -> int:
    """Bits of the exact sum rounded once, to nearest even."""
    if not isinstance(exact, Fraction):
        return int(dot.convert(exact, to.exponent_bits, to.fraction_bits, True, to.largest, to.largest + 1, NAN[to.name]))
    if exact == 0:
        return 0
    # float64 holds the sum's leading bits; one more, set if anything follows, lets it round as the whole sum would.
    top = abs(exact).numerator.bit_length() - abs(exact).denominator.bit_length()
    unit = Fraction(2) ** (top - 50)
    leading = abs(exact) // unit
    sticky = (2 * leading + (leading * unit != abs(exact))) * (unit / 2)
    value = float(sticky if exact > 0 else -sticky)
    return int(dot.convert(value, to.exponent_bits, to.fraction_bits, True, to.largest, to.largest + 1, NAN[to.name]))


def _integers(
    a: Sequence[int], b: Sequence[int], c: int, kind: str, types: tuple[str, str, str], row: MmaArithmetic, k: Sequence[int], saturate: bool
) -> DotProduct:
    start = element_value(c, types[2])
    terms = [DotTerm((), (), (), start, None, start)]
    for where, x, y in zip(k, a, b, strict=True):
        product = element_value(x, types[0]) * element_value(y, types[1])
        terms.append(DotTerm((where,), (x,), (y,), product, None, product))
    total = sum(int(t.value) for t in terms)
    clamped = min(max(total, -(1 << 31)), (1 << 31) - 1) if saturate else total
    d = clamped & 0xFFFFFFFF
    value = element_value(d, types[2])
    return DotProduct(kind, types, row, tuple(terms), None, None, Fraction(total), Fraction(total), d, value, d, saturate)


def _exact(x: float) -> Fraction | float:
    return Fraction(float(x)) if math.isfinite(x) else float(x)


def _hex(bits: int, fmt: ElementFormat) -> str:
    return f"{bits:#0{fmt.bits // 4 + 2}x}"


def _number(number: Any) -> str:
    """A number as people read it: exactly if that is short."""
    if isinstance(number, Fraction) and number.denominator == 1 and abs(number) < 10**15:
        return str(number.numerator)
    text = repr(float(number))
    return text if len(text) <= 14 else f"{float(number):.9g}"
