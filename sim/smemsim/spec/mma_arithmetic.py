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
    "ZERO_EXPONENT",
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


WGMMA_BF16_F32 = MmaArithmetic(terms=16, exponent_bits=8, fraction_bits=7, kept_bits=25, zero_exponent=-133, source="trace reference_gemm")

# A term or C that is zero counts with a fixed low exponent, which cuts off what lies far below it. Published values for wgmma and tcgen05 are
# -133 and -139; for deciding what cannot depend on it the smallest exponent of f32 stands for all of them.
ZERO_EXPONENT = -126

# Bits below its largest term that a datapath keeps, and fraction bits of its f32 results: for deciding which results cannot depend on it.
# Public studies of the instructions (MMA-Sim; DeepGEMM issue 176 for tcgen05); 25 is measured for wgmma bf16 alone (trace reference_gemm).
KEPT_BITS, KEPT_FRACTION = 25, 23
HOPPER_FP8_KEPT_BITS, HOPPER_FP8_KEPT_FRACTION = 13, 13

# Accumulators whose last conversion rounds to nearest even; f32 is cut toward zero. Public studies of tensor-core arithmetic.
TO_NEAREST = ("f16",)
