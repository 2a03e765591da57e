"""The instructions `mma.sync` and `mma.sp.sync` of every card. Rows have types, shapes, selectors.

    mma{.sp}.sync.aligned.mMnNkK.row.col{.satfinite}.D.A.B.C{.OP.popc}  d, a, b, c {, metadata, selector}

Sources: PTX ISA 9.1 §9.7.14.5 and 9.7.14.6. The compiler ptxas 13.0.88 assembles the rows below. On sm_90a, sm_100a,
sm_103a and sm_110a its code has no instruction for 8-bit floats. Operands become f16, two HMMA chained over K mod 4 in
{0, 1} and {2, 3} start from zero, and C is added last (`expanded`). K of mma.sp counts the stored elements of A; ptxas
has mma.sp of 8-bit floats with results of f32 only.

Grades: the sums are measured on an H200 (trace launches, kernels mma_hard*). One instruction of floats is one sum of
all its products and C, cut like that of wgmma, and rounded once. That a B200 does the same is inferred: Khattak and
Mikaitis measured mma.sync on an H100, an H200 and a B200. The sums of Ampere, Ada and RTX Blackwell are documented:
MMA-Sim (arXiv 2511.10909, mmasim 2.1.1) says that its models agree with such cards bit for bit. No such card was
measured for smemsim. Sums of 6-bit types, of 4-bit types in bytes and of sparse operands on these cards are inferred.
"""

from __future__ import annotations

from typing import NamedTuple

from smemsim.core.spec.grades import Grade
from smemsim.core.spec.mma_arithmetic import MmaArithmetic

__all__ = [
    "BYTE_IDS", "F8F6F4", "MMA_SYNC_SUMS", "MMA_SYNC_TYPES", "SCALE_VECTORS", "SELECTORS", "THREAD_IDS", "UNITS", "WMMA_TYPES", "MmaSyncTypes", "ScaleVector", "WmmaTypes",
]  # fmt: skip


Shape = tuple[int, int, int]


class MmaSyncTypes(NamedTuple):
    """Types that go together, and their shapes (M, N, K). `group` elements of K share four bits of metadata (0: no
    .sp).
    """

    a: tuple[str, ...]
    d: tuple[str, ...]
    bits: int
    shapes: tuple[Shape, ...]
    sparse: tuple[Shape, ...] = ()
    group: int = 0
    satfinite: bool = False
    expanded: bool = False
    kinds: tuple[str, ...] = ("",)  # after `.kind::` in the name


F8F6F4 = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")

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
    # With `.kind::`; of f8f6f4 and mxf8f6f4 every element has a byte: 6 bits in its low ones, 4 bits in bits 5:2 (PTX
    # ISA 9.1 §9.7.14.5.14).
    MmaSyncTypes(F8F6F4,          ("f16", "f32"),  8, ((16, 8, 32),),                              ((16, 8, 64),),              4, expanded=True, kinds=("f8f6f4",)),
    MmaSyncTypes(F8F6F4,          ("f32",),        8, ((16, 8, 32),),                              ((16, 8, 64),),              4, kinds=("mxf8f6f4",)),
    MmaSyncTypes(("e2m1",),       ("f32",),        4, ((16, 8, 64),),                              ((16, 8, 128),),             8, kinds=("mxf4", "mxf4nvf4")),
)
# fmt: on


class WmmaTypes(NamedTuple):
    """Shapes (M, N, K) of wmma with A and B of one type, and the types of C and D.

    At once `k_step` elements of K are multiplied. With 0 all are.
    """

    shapes: tuple[Shape, ...]
    accumulators: tuple[str, ...]
    k_step: int = 0


# PTX ISA 9.1 §9.7.14.4; ptxas 13.0.88 assembles these for sm_90a, and besides them f64 of two larger shapes, which are
# not modelled.
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


class ScaleVector(NamedTuple):
    """How many scale factors a row of A and a column of B have (`.scale_vec::NX`), of which types; `is_default` is what
    a name without it means.
    """

    factors: int
    types: tuple[str, ...]
    is_default: bool = False
    since: tuple[int, int] = (8, 7)  # the version of the PTX ISA that it came with


# Block-scaled kinds (PTX ISA 9.1 §9.7.14.3, table 36; ptxas 13.0.88; 4X with ue8m0: ptxas 13.4.59).
SCALE_VECTORS: dict[str, tuple[ScaleVector, ...]] = {
    "mxf8f6f4": (ScaleVector(1, ("ue8m0",), is_default=True),),
    "mxf4": (ScaleVector(2, ("ue8m0",), is_default=True),),
    "mxf4nvf4": (ScaleVector(2, ("ue8m0",)), ScaleVector(4, ("ue4m3",)), ScaleVector(4, ("ue8m0",), since=(9, 1))),
}
# Legal selectors of scale factors: the first byte by how many there are, and the thread of A's pairs and of B's four
# (table 37).
BYTE_IDS = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}
THREAD_IDS = {"A": (0, 1), "B": (0, 1, 2, 3)}

SELECTORS = {4: (0, 1, 2, 3), 8: (0, 1), 16: (0,)}  # legal values by the groups of a row (PTX ISA 9.1 §9.7.14.6.1)

# The tensor core of a card, for mma.sync. sm_86 and sm_121a are taken for the card of their generation that was studied
# (inferred).
UNITS: dict[str, str] = {
    "sm_80": "Ampere", "sm_86": "Ampere", "sm_89": "Ada", **dict.fromkeys(("sm_90a", "sm_100a", "sm_103a", "sm_110a"), "Hopper"),
    **dict.fromkeys(("sm_120a", "sm_121a"), "RTX Blackwell"),
}  # fmt: skip

_SOURCE = "trace launches (mma_hard*); Khattak and Mikaitis (mma.sync on H100, H200, B200), MMA-Sim"
_STUDY = "MMA-Sim (mmasim 2.1.1)"


def _sum(
    types: tuple[str, ...], d: str, k: int, fraction: int, zero: int, source: str = _SOURCE, *, kept: int = 25, group: int = 1, grade: Grade = Grade.MEASURED
) -> MmaArithmetic:  # fmt: skip
    return MmaArithmetic(("mma.sync",), types, types, d, k, kept, fraction, d == "f16", zero, group, grade, source)


def _exact(types: tuple[str, ...], k: int) -> MmaArithmetic:
    return MmaArithmetic(
        ("mma.sync",), types, types, "s32", k, None, 0, False, 0, 1, Grade.MEASURED, "trace launches (mma_hard*); PTX ISA 9.1 §9.7.14.5.14"
    )


def _studied(
    types: tuple[str, ...],
    d: str,
    k: int,
    *,
    kept: int,
    zeros: tuple[int, int],
    fraction: int = 23,
    group: int = 1,
    grade: Grade = Grade.DOCUMENTED,
) -> MmaArithmetic:
    """A row of the study; `zeros`: the exponents of zeros with f32 and with f16 results."""
    return _sum(types, d, k, 10 if d == "f16" else fraction, zeros[d == "f16"], _STUDY, kept=kept, group=group, grade=grade)


_FP8 = ("e4m3", "e5m2")
_OLD, _NEW = (-132, -20), (-133, -21)  # exponents of zeros
_AMPERE = {
    ("f16", "f32"): _studied(("f16",), "f32", 8, kept=24, zeros=_OLD),
    ("bf16", "f32"): _studied(("bf16",), "f32", 8, kept=24, zeros=_OLD),
    ("tf32", "f32"): _studied(("tf32",), "f32", 4, kept=24, zeros=_OLD),
    ("f16", "f16"): _studied(("f16",), "f16", 8, kept=24, zeros=_OLD),
}
_BY_UNIT: dict[str, dict[tuple[str, str], MmaArithmetic]] = {
    "Hopper": {
        ("f16", "f32"): _sum(("f16",), "f32", 16, 23, -133),
        ("bf16", "f32"): _sum(("bf16",), "f32", 16, 23, -133),
        ("tf32", "f32"): _sum(("tf32",), "f32", 8, 23, -133),
        ("f16", "f16"): _sum(("f16",), "f16", 16, 10, -21, f"{_SOURCE}; the exponent of zeros as of wgmma and in mmasim 2.1.1 (before: -22)"),
    },
    "Ampere": _AMPERE,
    "Ada": _AMPERE | {("fp8", d): _studied(_FP8, d, 16, kept=13, zeros=_OLD, fraction=13) for d in ("f32", "f16")},
    "RTX Blackwell": {
        ("f16", "f32"): _studied(("f16",), "f32", 16, kept=25, zeros=_NEW),
        ("bf16", "f32"): _studied(("bf16",), "f32", 16, kept=25, zeros=_NEW),
        ("tf32", "f32"): _studied(("tf32",), "f32", 8, kept=25, zeros=_NEW),
        ("f16", "f16"): _studied(("f16",), "f16", 16, kept=25, zeros=_NEW),
        **{("fp8", d): _studied(_FP8, d, 32, kept=25, zeros=_NEW) for d in ("f32", "f16")},
        **{("f8f6f4", d): _studied(F8F6F4, d, 32, kept=25, zeros=_NEW) for d in ("f32", "f16")},
        ("mxf8f6f4", "f32"): _studied(F8F6F4, "f32", 32, kept=25, zeros=_NEW),
        **dict.fromkeys((("mxf4", "f32"), ("mxf4nvf4", "f32")), _studied(("e2m1",), "f32", 64, kept=35, zeros=(-139, 0), group=16)),
    },
}  # fmt: skip
# One sum of at most `k` products, by (unit, kind or A's type, D's type). "fp8" are e4m3 and e5m2 on cards with a unit
# for them. s4, u4 and b1 are counted as bytes. f64 is a chain of fused multiply-adds in the order of K.
MMA_SYNC_SUMS: dict[tuple[str, str, str], MmaArithmetic] = {
    (unit, *key): row for unit, rows in _BY_UNIT.items() for key, row in (rows | {("s8", "s32"): _exact(("s8", "u8"), 32)}).items()
}
