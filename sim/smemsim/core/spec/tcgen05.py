"""tcgen05.mma by `.kind`: instruction-descriptor format, element types, K, scale factors, and the shapes that exist.

PTX ISA 9.1 §9.7.16.2 and its tables 39 (shapes) and 51 to 57 (types, majors, scale factors). Nothing here is measured:
where CUTLASS or a compiler says something else, `TCGEN05_DISPUTES` has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from smemsim.base.arguments import choice
from smemsim.core.spec.fields import Word
from smemsim.core.spec.grades import Dispute
from smemsim.core.spec.instr_descriptor import BLOCK_SCALED, MXF4, PLAIN
from smemsim.core.spec.tensor_memory import METADATA, SCALE_MODES, ScaleMode

__all__ = [
    "ASHIFT_M",
    "KINDS",
    "SCALE_TYPES_OF_BLOCK",
    "SHAPES",
    "TCGEN05_DISPUTES",
    "Kind",
    "Shape",
    "kind_of",
    "scale_modes",
    "shapes_of",
]


ASHIFT_M = (128, 256)  # rows of D with .ashift; PTX ISA 9.1 §9.7.16.10


class Kind(NamedTuple):
    """One `.kind::…`; types by their code in the instruction descriptor. `k` is dense, a sparse instruction has twice
    as many.
    """

    name: str
    word: Word
    a_types: Mapping[int, str]
    b_types: Mapping[int, str]
    d_types: Mapping[int, str]  # by code where the format has the field, else one type at -1
    k: int
    packing: str = "packed"  # of 4-bit types in shared memory: 6-bit types are always padded
    transposable: bool = True
    scale_input_d: bool = False
    archs: tuple[str, ...] = ("sm_100a", "sm_103a", "sm_110a")
    source: str = "PTX ISA 9.1 §9.7.16.2"

    @property
    def block_scaled(self) -> bool:
        """Are A and B scaled block by block, with factors in tensor memory?"""
        return "scale_type" in self.word.fields

    @property
    def selectors(self) -> tuple[int, ...]:
        """Values the sparsity selector may have."""
        return METADATA[self.name].selectors

    @property
    def has_wide_k(self) -> bool:
        """Does K = 96 exist (sm_103a)?"""
        return "k_size" in self.word.fields


class Shape(NamedTuple):
    """M and N that some kinds have, with these qualifiers. `sparse` or `wide_k` None: both with and without."""

    kinds: tuple[str, ...]
    cta_group: int
    ws: bool
    sparse: bool | None
    wide_k: bool
    m: tuple[int, ...]
    n: tuple[int, ...]
    source: str = "PTX ISA 9.1 §9.7.16.2, table 39"
    dispute: str = ""


_F16 = {0: "f16", 1: "bf16"}
_TF32 = {2: "tf32"}
_F8F6F4 = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_I8 = {0: "u8", 1: "s8"}
_F4 = {1: "e2m1"}
_F32 = {-1: "f32"}
# fmt: off
KINDS: dict[str, Kind] = {kind.name: kind for kind in (
    Kind("f16",      PLAIN,        _F16,    _F16,    {0: "f16", 1: "f32"}, 16, scale_input_d=True),
    Kind("tf32",     PLAIN,        _TF32,   _TF32,   {1: "f32"},            8, scale_input_d=True),
    Kind("f8f6f4",   PLAIN,        _F8F6F4, _F8F6F4, {0: "f16", 1: "f32"}, 32, packing="padded"),
    Kind("i8",       PLAIN,        _I8,     _I8,     {2: "s32"},           32, archs=("sm_100a", "sm_110a")),
    Kind("mxf8f6f4", BLOCK_SCALED, _F8F6F4, _F8F6F4, _F32,                 32, packing="padded"),
    Kind("mxf4",     MXF4,         _F4,     _F4,     _F32,                 64, transposable=False),
    Kind("mxf4nvf4", MXF4,         _F4,     _F4,     _F32,                 64, transposable=False),
)}

# Types of the scale factors by elements of K that share one (PTX ISA 9.1 §9.7.16.10.7.1).
SCALE_TYPES_OF_BLOCK: dict[int, tuple[str, ...]] = {32: ("ue8m0",), 16: ("ue8m0", "ue4m3")}

_8, _16, _32 = (tuple(range(step, 257, step)) for step in (8, 16, 32))
_I8_N = (8, 16, 24, *range(32, 257, 16))
_PLAIN = ("f16", "tf32", "f8f6f4")
_4BIT = ("mxf4", "mxf4nvf4")
SHAPES: tuple[Shape, ...] = (
    #     kinds                   cg  ws     sparse wide_k M               N
    Shape(_PLAIN,                 1, False, None,  False, (64, 128),      _8,     dispute="N of M = 128"),
    Shape(_PLAIN,                 2, False, None,  False, (128, 256),     _16,    dispute="N of a pair"),
    Shape(("i8",),                1, False, None,  False, (64, 128),      _I8_N,  dispute="N of kind i8"),
    Shape(("i8",),                2, False, None,  False, (128, 256),     _32,    dispute="N of kind i8"),
    Shape((*_PLAIN, "i8"),        1, True,  False, False, (32, 64, 128),  (64, 128, 256)),
    Shape((*_PLAIN, "i8"),        1, True,  True,  False, (32, 64, 128),  (64, 128)),
    Shape(("mxf8f6f4", *_4BIT),   1, False, None,  False, (128,),         _8,     dispute="N of M = 128"),
    Shape(("mxf8f6f4", *_4BIT),   2, False, False, False, (128, 256),     _16,    dispute="M of block-scaled pairs"),
    Shape(("mxf8f6f4", *_4BIT),   2, False, True,  False, (256,),         _16),
    Shape(_4BIT,                  1, False, False, True,  (128,),         _16),
    Shape(_4BIT,                  2, False, False, True,  (128, 256),     _16,    dispute="M of K = 96"),
)
# fmt: on

WIDE_K = 96  # of mxf4 and mxf4nvf4 with idesc bit 31, on sm_103a

TCGEN05_DISPUTES: dict[str, Dispute] = {
    "N = 256 of .ws": Dispute(
        "yes, also for 8-bit floats",
        "PTX ISA 9.1 table 39. Modular's test_mla_layout_g_mma_smoke.mojo has N = 256 and 32 rows",
        "Tilebench's report on matmul_fp32_fp16_fp8: on a B200, columns 128 to 255 of TileLang's product with 128 rows were wrong, for f8f6f4 only. TileLang's own sm_100 example does not check its result",
    ),
    "MN-major 4- and 6-bit operands of f8f6f4": Dispute(
        "yes. decode prints a note", "Triton and CUTLASS's tests use them", "PTX ISA 9.1 §9.7.16.3, table 54, has only K-major ones"
    ),
    "N of M = 128": Dispute(
        "every multiple of 8",
        "PTX ISA 9 table 39, CUTLASS with A in shared memory",
        "older tables, DeepGEMM, and CUTLASS with A in tensor memory require a multiple of 16",
    ),
    "N of a pair": Dispute("every multiple of 16", "PTX ISA 9 table 39", "CUTLASS with A in tensor memory requires a multiple of 32"),
    "N of kind i8": Dispute(
        "for one CTA, N = 24 exists. For a pair, N is a multiple of 32",
        "PTX ISA 9 table 39, CUTLASS C++ for pairs",
        "CUTLASS refuses N = 24. CuTe DSL documents multiples of 16 for pairs",
    ),
    "M of block-scaled pairs": Dispute("128 or 256", "PTX ISA 9 table 39", "CUTLASS C++ has only 256 for mxf8f6f4"),
    "M of K = 96": Dispute("one CTA has M = 128. A pair has M = 128 or 256", "CUTLASS, Triton", "the PTX ISA has only M = 256 for a pair"),
    "mixed f16 and bf16": Dispute(
        "yes",
        "the instruction descriptor has a type field for each (PTX ISA table 42). Triton emits such words (golden/compiled)",
        "no document shows such an instruction",
    ),
    "zero-column mask": Dispute(
        "the mask describes runs of columns that count as zero, and runs of columns that are used. A run of zeros has skip + 1 columns, and a run of used columns has use + 1",
        "worked examples of PTX ISA 9.1 §9.7.16.4.3",
        "the table of the same section exchanges skip and use. CUTLASS also inverts the field non-zero-mask",
    ),
}


def kind_of(name: Any) -> Kind:
    """The row of a kind by its name, with or without `kind::` in front.

    >>> kind_of("kind::f16").k
    16
    """
    if isinstance(name, Kind):
        return name
    short = name.removeprefix(".").removeprefix("kind::") if isinstance(name, str) else name
    return KINDS[choice("kind", short, tuple(KINDS), f"one of {' '.join(KINDS)}")]


def scale_modes(kind: Kind, *, wide_k: bool, asked: str | None = None) -> tuple[ScaleMode, ...]:
    """The scale vector sizes of a kind, those that `asked` names: "2X" or "block32", which is any with 32 elements of K
    to a factor.

    >>> [mode.name for mode in scale_modes(kind_of("mxf4nvf4"), wide_k=False)]
    ['2X', '4X']
    """
    rows = (mode for mode in SCALE_MODES if kind.name in mode.kinds and (WIDE_K in mode.k) == wide_k)
    return tuple(mode for mode in rows if asked in (None, mode.name, f"block{mode.block}"))


def shapes_of(kind: Kind, *, cta_group: int | None, ws: bool | None, sparse: bool, wide_k: bool) -> tuple[Shape, ...]:
    """Rows of `SHAPES` for these qualifiers; None stands for a qualifier that is not known.

    >>> [(s.cta_group, s.m) for s in shapes_of(kind_of("mxf4"), cta_group=None, ws=None, sparse=True, wide_k=False)]
    [(1, (128,)), (2, (256,))]
    """
    return tuple(
        s
        for s in SHAPES
        if kind.name in s.kinds
        and cta_group in (None, s.cta_group)
        and ws in (None, s.ws)
        and s.sparse in (None, sparse)
        and s.wide_k == wide_k
    )
