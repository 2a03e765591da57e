"""The warp-level matrix instructions `mma.sync` and `mma.sp.sync` of sm_90a and sm_100a: which types, shapes and selectors there are, and their numbers.

    mma{.sp}.sync.aligned.mMnNkK.row.col{.satfinite}.D.A.B.C{.OP.popc}  d, a, b, c {, metadata, selector}

Sources: PTX ISA 9.1 §9.7.14.5 and 9.7.14.6; ptxas 13.0.88 assembles the rows below for both. Its code for 8-bit floats has no instruction of their own
on either: operands become f16, two HMMA chained over K mod 4 in {0, 1} and {2, 3} start from zero, and C is added last (`expanded`). Of mma.sp K counts the
elements of A that are stored; ptxas has it with results of f32 alone.

Grades: the sums are measured on an H200 (trace launches, kernels mma_hard*): one instruction of floats is one sum, of all its products and C, cut as
that of wgmma, and rounded once. That a B200 does the same is inferred: Khattak and Mikaitis measured mma.sync on an H100, an H200 and a B200.
"""

from __future__ import annotations

from typing import NamedTuple

from smemsim.spec.grades import Grade
from smemsim.spec.mma_arithmetic import MmaArithmetic

__all__ = ["MMA_SYNC_SUMS", "MMA_SYNC_TYPES", "SELECTORS", "WMMA_TYPES", "MmaSyncTypes", "WmmaTypes"]


Shape = tuple[int, int, int]


class MmaSyncTypes(NamedTuple):
    """Types that go together, and their shapes (M, N, K). `group` elements of K share four bits of metadata (0: no .sp)."""

    a: tuple[str, ...]
    d: tuple[str, ...]
    bits: int
    shapes: tuple[Shape, ...]
    sparse: tuple[Shape, ...] = ()
    group: int = 0
    satfinite: bool = False
    expanded: bool = False


# fmt: off
MMA_SYNC_TYPES: tuple[MmaSyncTypes, ...] = (  # any type of A with any of B in its row; C has the type of D
    #            A                D               bits shapes                                      sparse                      group
    MmaSyncTypes(("f16",),        ("f16", "f32"), 16, ((16, 8, 8), (16, 8, 16)),                   ((16, 8, 16), (16, 8, 32)),  4),
    MmaSyncTypes(("bf16",),       ("f32",),       16, ((16, 8, 8), (16, 8, 16)),                   ((16, 8, 16), (16, 8, 32)),  4),
    MmaSyncTypes(("tf32",),       ("f32",),       32, ((16, 8, 4), (16, 8, 8)),                    ((16, 8, 8), (16, 8, 16)),   2),
    MmaSyncTypes(("e4m3", "e5m2"), ("f32",),       8, ((16, 8, 16), (16, 8, 32)),                  ((16, 8, 64),),              4, expanded=True),
    MmaSyncTypes(("e4m3", "e5m2"), ("f16",),       8, ((16, 8, 16), (16, 8, 32)),                  expanded=True),
    MmaSyncTypes(("f64",),        ("f64",),       64, ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16))),
    MmaSyncTypes(("s8", "u8"),    ("s32",),        8, ((8, 8, 16), (16, 8, 16), (16, 8, 32)),      ((16, 8, 32), (16, 8, 64)),  4, satfinite=True),
    MmaSyncTypes(("s4", "u4"),    ("s32",),        4, ((8, 8, 32), (16, 8, 32), (16, 8, 64)),      ((16, 8, 64), (16, 8, 128)), 8, satfinite=True),
    MmaSyncTypes(("b1",),         ("s32",),        1, ((8, 8, 128), (16, 8, 128), (16, 8, 256))),
)
# fmt: on


class WmmaTypes(NamedTuple):
    """Shapes (M, N, K) of wmma with A and B of one type, and the types that C and D may have.

    `k_step` elements of K are multiplied at once, 0: all of them.
    """

    shapes: tuple[Shape, ...]
    accumulators: tuple[str, ...]
    k_step: int = 0


# PTX ISA 9.1 §9.7.14.4; ptxas 13.0.88 assembles these for sm_90a, and besides them f64 of two larger shapes, which are not modelled.
_WMMA_16 = ((16, 16, 16), (8, 32, 16), (32, 8, 16))
WMMA_TYPES: dict[str, WmmaTypes] = {
    "f16": WmmaTypes(_WMMA_16, ("f16", "f32")),
    "bf16": WmmaTypes(_WMMA_16, ("f32",)),
    **dict.fromkeys(("s8", "u8"), WmmaTypes(_WMMA_16, ("s32",))),
    "tf32": WmmaTypes(((16, 16, 8),), ("f32",), k_step=4),  # measured: trace launches (wmma_tf32)
    "f64": WmmaTypes(((8, 8, 4),), ("f64",)),
    **dict.fromkeys(("s4", "u4"), WmmaTypes(((8, 8, 32),), ("s32",))),
    "b1": WmmaTypes(((8, 8, 128),), ("s32",)),
}

SELECTORS = {4: (0, 1, 2, 3), 8: (0, 1), 16: (0,)}  # legal values by the groups of a row (PTX ISA 9.1 §9.7.14.6.1)

_SOURCE = "trace launches (mma_hard*); Khattak and Mikaitis (mma.sync on H100, H200, B200), MMA-Sim"


def _sum(types: tuple[str, ...], d: str, k: int, fraction: int, zero: int, source: str = _SOURCE) -> MmaArithmetic:
    return MmaArithmetic(("mma.sync",), types, types, d, k, 25, fraction, d == "f16", zero, 1, Grade.MEASURED, source)


def _exact(types: tuple[str, ...], k: int) -> MmaArithmetic:
    return MmaArithmetic(
        ("mma.sync",), types, types, "s32", k, None, 0, False, 0, 1, Grade.MEASURED, "trace launches (mma_hard*); PTX ISA 9.1 §9.7.14.5.14"
    )


# One sum a row of K, by (A's type, D's type); s4, u4 and b1 are counted as bytes. f64 is a chain of fused multiply-adds in the order of K.
MMA_SYNC_SUMS: dict[tuple[str, str], MmaArithmetic] = {
    ("f16", "f32"): _sum(("f16",), "f32", 16, 23, -133),
    ("bf16", "f32"): _sum(("bf16",), "f32", 16, 23, -133),
    ("tf32", "f32"): _sum(("tf32",), "f32", 8, 23, -133),
    ("f16", "f16"): _sum(("f16",), "f16", 16, 10, -21, f"{_SOURCE}; the exponent of zeros as of wgmma and in mmasim 2.1.1 (before: -22)"),
    ("s8", "s32"): _exact(("s8", "u8"), 32),
}
