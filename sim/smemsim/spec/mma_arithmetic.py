"""How many bits the tensor core keeps: one row for each instruction and pair of types that is modelled."""

from __future__ import annotations

import dataclasses

__all__ = ["WGMMA_BF16_F32", "MmaArithmetic"]


@dataclasses.dataclass(frozen=True)
class MmaArithmetic:
    """The constants of one truncated fused dot product; exponent and fraction bits are those of A's and B's format."""

    terms: int  # products that are summed at once, with c
    exponent_bits: int
    fraction_bits: int
    kept_bits: int  # bits below the largest exponent; what lies lower is cut off each term
    zero_exponent: int  # the exponent that zero terms count with
    source: str


WGMMA_BF16_F32 = MmaArithmetic(16, 8, 7, 25, -133, "trace reference_gemm")
