"""The float types that instructions compute with, and the NaN each of them makes."""

from __future__ import annotations

from typing import NamedTuple

from smemsim.core.spec.formats import FORMATS

__all__ = ["FLOAT_TYPES", "FloatType"]


class FloatType(NamedTuple):
    """A type of float instructions. If there is no number, the result is `nan`. Measured on an H200 (trace launches,
    and `tools/capture/arithmetic_forms.py` with digests in tests/data/h200_arithmetic.json). Inferred for sm_100a.

    Types f32, f16 and bf16 have that one NaN. Type f64 passes on the NaN of an operand, made quiet. It uses `nan` only
    if no operand is one. If several operands are NaNs, it takes the last one: b before c in an fma, the dividend before
    the divisor. The compiler ptxas may exchange the operands of sums and products: then it is the other one's (trace
    launches, float_f64).
    """

    name: str
    nan: int
    source: str

    @property
    def exponent_bits(self) -> int:
        """Bits of the exponent."""
        return FORMATS[self.name].exponent_bits

    @property
    def fraction_bits(self) -> int:
        """Bits of the fraction."""
        return FORMATS[self.name].fraction_bits

    @property
    def bits(self) -> int:
        """All bits."""
        return FORMATS[self.name].bits

    @property
    def largest(self) -> int:
        """The code of the largest number."""
        return FORMATS[self.name].largest

    @property
    def infinity(self) -> int:
        """The code of infinity."""
        return self.largest + 1

    @property
    def smallest_normal(self) -> float:
        """The smallest number that is not subnormal."""
        return float(2.0 ** FORMATS[self.name].smallest_exponent)


_ISA = "measured; PTX ISA 9.1 §9.7.3, 9.7.4 leave the bits of the one NaN open"
FLOAT_TYPES: dict[str, FloatType] = {
    t.name: t
    for t in (
        FloatType("f32", 0x7FFFFFFF, _ISA),
        FloatType("f64", -0x8000000000000, "measured; PTX ISA 9.1 §9.7.3 says that payloads are handed on, and not which"),
        FloatType("f16", 0x7FFF, _ISA),
        FloatType("bf16", 0x7FFF, _ISA),
    )
}
