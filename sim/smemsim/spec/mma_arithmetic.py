"""How many bits the tensor core keeps: one row for each instruction and pair of types that is modelled bit for bit."""

from __future__ import annotations

import dataclasses

__all__ = [
    "HOPPER_FP8_KEPT_BITS",
    "HOPPER_FP8_KEPT_FRACTION",
    "KEPT_BITS",
    "KEPT_FRACTION",
    "TO_NEAREST",
    "WGMMA_BF16_F32",
    "MmaArithmetic",
]


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

# Bits below its largest term that a datapath keeps, and fraction bits of its f32 results: for deciding which results cannot depend on it.
# Public studies of the instructions (MMA-Sim; DeepGEMM issue 176 for tcgen05); 25 is measured for wgmma bf16 alone (trace reference_gemm).
KEPT_BITS, KEPT_FRACTION = 25, 23
HOPPER_FP8_KEPT_BITS, HOPPER_FP8_KEPT_FRACTION = 13, 13

# Accumulators whose last conversion rounds to nearest even; f32 is cut toward zero. Public studies of tensor-core arithmetic.
TO_NEAREST = ("f16",)
