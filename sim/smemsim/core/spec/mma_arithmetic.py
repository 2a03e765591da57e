"""The arithmetic of the tensor core: one row for each instruction and set of types, for `arithmetic.dot`.

Each term is cut, toward zero, at 2^(largest - kept_bits). Here largest is the largest exponent of the products and of
c. The sum is converted once.

Grades: the rows of wgmma are measured (traces wgmma_dots_f32, wgmma_dots_f16, wgmma_dots_s32). No B200 was measured:
the rows of tcgen05 are inferred from public studies. MMA-Sim (arXiv 2511.10909) is the only one that says it ran
tcgen05 itself.
"""

from __future__ import annotations

from typing import NamedTuple

from smemsim.core.spec.grades import Dispute, Grade

__all__ = [
    "ARITHMETIC",
    "ARITHMETIC_DISPUTES",
    "NAN",
    "OTHER_KEPT_BITS",
    "OTHER_ZERO_EXPONENTS",
    "ROUNDING",
    "MmaArithmetic",
    "arithmetic_of",
]


class MmaArithmetic(NamedTuple):
    """The constants of one instruction's dot product. `a_types` and `b_types` go together in any combination.

    If `kept_bits` is None, integers are summed exactly in 32 bits. The result has `fraction_bits`. The number 13 for
    f32 means that the low 10 bits of every result are 0. Before the scale is applied and terms are aligned, `group`
    elements are summed exactly (1: every product is a term).
    """

    kinds: tuple[str, ...]
    a_types: tuple[str, ...]
    b_types: tuple[str, ...]
    d_type: str
    k: int  # products that are summed at once, with c; a sparse instruction has as many
    kept_bits: int | None
    fraction_bits: int
    to_nearest: bool
    zero_exponent: int  # with which zero terms count
    group: int
    grade: Grade
    source: str


_FP8 = ("e4m3", "e5m2")
_F8F6F4 = (*_FP8, "e3m2", "e2m3", "e2m1")
_INT8 = ("s8", "u8")
_WGMMA, _TCGEN05 = "public studies of wgmma (MMA-Sim, Khattak and Mikaitis, FPRev)", "MMA-Sim"


def _row(kinds: str, a: tuple[str, ...], d: str, k: int, kept: int | None, fraction: int, zero: int = -133, group: int = 1, source: str = "",
         b: tuple[str, ...] | None = None) -> MmaArithmetic:  # fmt: skip
    wgmma = kinds == "wgmma"
    grade = Grade.MEASURED if wgmma else Grade.INFERRED
    source = f"trace wgmma_dots_{d}; {source or _WGMMA}" if wgmma else source or _TCGEN05
    return MmaArithmetic(tuple(kinds.split()), a, b or a, d, k, kept, fraction, d == "f16", zero, group, grade, source)


# fmt: off
ARITHMETIC: tuple[MmaArithmetic, ...] = (
    #    kinds               A and B          D      K    kept  fraction
    _row("wgmma",            ("f16",),        "f32", 16,  25,   23),
    _row("wgmma",            ("bf16",),       "f32", 16,  25,   23),
    _row("wgmma",            ("tf32",),       "f32", 8,   25,   23),
    _row("wgmma",            ("f16",),        "f16", 16,  25,   10, zero=-21, source="mmasim 2.1.1; Khattak and Mikaitis have it for mma.sync, earlier MMA-Sim has -133"),
    _row("wgmma",            _FP8,            "f32", 32,  13,   13),
    _row("wgmma",            _FP8,            "f16", 32,  13,   10, zero=-21),
    _row("wgmma",            _INT8,           "s32", 32,  None, 0, source="PTX ISA 9.1 §9.7.15.5.2: wraps, or clamps with .satfinite"),
    _row("wgmma",            ("b1",),         "s32", 256, None, 0, source="PTX ISA 9.1 §9.7.15.5.2: .and.popc"),
    _row("f16",              ("f16", "bf16"), "f32", 16,  25,   23),
    _row("f16",              ("f16",),        "f16", 16,  25,   10, zero=-21, source="mmasim 2.1.1; the exponent of zeros as of wgmma"),
    _row("tf32",             ("tf32",),       "f32", 8,   25,   23),
    _row("f8f6f4",           _F8F6F4,         "f32", 32,  25,   23, source="MMA-Sim; DeepGEMM issue 176 also finds 25 bits; 6-bit types by analogy"),
    _row("f8f6f4",           _F8F6F4,         "f16", 32,  25,   10, zero=-21, source="MMA-Sim; 6-bit types by analogy; the exponent of zeros as of wgmma"),
    _row("i8",               _INT8,           "s32", 32,  None, 0, source="PTX ISA 9.1 §9.7.16.4.2: wraps, or clamps with the saturate bit"),
    _row("mxf8f6f4",         _F8F6F4,         "f32", 32,  25,   23, source="MMA-Sim; 6-bit types by analogy"),
    _row("mxf4 mxf4nvf4",    ("e2m1",),       "f32", 64,  35,   23, zero=-139, group=16, source="MMA-Sim; DeepGEMM issue 176 finds 34 to 37 bits"),
)
# fmt: on

ARITHMETIC_DISPUTES: dict[str, Dispute] = {
    "bits kept of 4-bit types": Dispute(
        "35 bits. Groups of 16 products are summed exactly before",
        "MMA-Sim",
        "DeepGEMM issue 176 reports 34 to 37 bits. It agrees with 35, but does not prove it",
    ),
    "zeros with f16 accumulators": Dispute(
        "with the exponent -21, so a zero counts like a number of about 2^-21",
        "wgmma, measured (trace wgmma_dots_f16)",
        "earlier versions of MMA-Sim have -133 for tcgen05. mmasim 2.1.1 has -21",
    ),
    "sign of zero": Dispute(
        "no",
        "wgmma, measured (trace wgmma_dots_f32)",
        "later MMA-Sim, a MATLAB model and a SystemC model give -0 for negative sums that are too small for D",
    ),
}

# Constants of other datapaths and of other studies: what a D that differs by rounding may have been computed with.
# Bits: SM70 23, SM80 and SM89 24 (Khattak and Mikaitis). Zeros: MMA-Sim as released -126, for SM80 -132, for mma.sync
# with f16 results -22.
OTHER_KEPT_BITS, OTHER_ZERO_EXPONENTS = (23, 24), (-132, -126, -22)

NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}  # of every NaN result: positive, without the payload; measured on wgmma

# For results of tcgen05 that every known datapath computes alike: the fewest bits that a datapath keeps next to its
# largest term, and the largest exponent of a zero term.
LEAST_KEPT_BITS, LARGEST_ZERO_EXPONENT = 25, -126


def arithmetic_of(kind: str, a_type: str, b_type: str, d_type: str) -> MmaArithmetic | None:
    """The row of an instruction; None if it does not exist.

    >>> row = arithmetic_of("wgmma", "e4m3", "e5m2", "f32")
    >>> row.k, row.kept_bits, row.fraction_bits, str(row.grade)
    (32, 13, 13, 'measured')
    """
    for row in ARITHMETIC:
        if kind in row.kinds and a_type in row.a_types and b_type in row.b_types and d_type == row.d_type:
            return row
    return None


# The largest difference of two right results with another order of summation or another type of accumulation, as a
# part of the largest numbers. Inferred from the rows above and the ISA's bounds of the approximate functions; not
# measured.
ROUNDING = {
    "approximated": 2.0**-10,  # ex2.approx.f16, tanh.approx (PTX ISA 9.1 §9.7.3, 9.7.4)
    # f32 read as tf32, a factor that was rounded to 16 bits in between, products cut when they are aligned
    "multiplied": 2.0**-9,
    # accumulators with 10 (f16) or 13 (fp8 of wgmma) bits of a fraction, over some dozens of steps
    "narrowly summed": 2.0**-7,
}
