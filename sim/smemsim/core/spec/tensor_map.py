"""The CUtensorMap: the driver's enums, its limits, and the 128 bytes it writes.

The enum codes are those of the driver header (CUDA 13.0). The bit layout is measured: it reproduces every map in the
traces encode_tiled, encode_im2col and encode_im2col_wide bit for bit. The bits marked tcgen05 are what ptxas emits for
`tensormap.replace`, not measured. Which bits transfers ignore is measured on Hopper. On Blackwell it follows from the
maps of shipping kernels (`grade_unread`).
"""

from __future__ import annotations

import dataclasses
import enum
from typing import NamedTuple

from smemsim.core.spec.fields import Field, Word
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.swizzles import Swizzle

__all__ = [
    "DATA_TYPES",
    "DERIVED_FIELDS",
    "LIMITS",
    "MAP_BYTES",
    "POINTERS",
    "SWIZZLES",
    "SWIZZLE_ARCHITECTURES",
    "SWIZZLE_BITS",
    "TENSOR_MAP",
    "VERSIONS",
    "WIDE_IS_IM2COL",
    "WITHOUT_PADDED_TO_CLUSTER",
    "DataType",
    "Im2colWideMode",
    "Interleave",
    "L2Promotion",
    "OobFill",
    "TensorMapDataType",
    "TensorMapSwizzle",
    "corner_bits",
    "grade_unread",
    "pack_corner",
    "unpack_corner",
]


class Interleave(enum.IntEnum):
    """CUtensorMapInterleave."""

    INTERLEAVE_NONE = 0
    INTERLEAVE_16B = 1
    INTERLEAVE_32B = 2


class L2Promotion(enum.IntEnum):
    """CUtensorMapL2promotion: a hint, without effect on any address or value."""

    NONE = 0
    L2_64B = 1
    L2_128B = 2
    L2_256B = 3


class OobFill(enum.IntEnum):
    """CUtensorMapFloatOOBfill: what elements outside the tensor become."""

    NONE = 0
    NAN_REQUEST_ZERO_FMA = 1


class Im2colWideMode(enum.IntEnum):
    """CUtensorMapIm2ColWideMode: how many pixels a column has, `pixels_per_column` (W) or always 128 (W128). Hopper's
    maps drop it.
    """

    W = 0
    W128 = 1


class TensorMapSwizzle(enum.IntEnum):
    """CUtensorMapSwizzle. These codes are not a descriptor's layout codes.

    SWIZZLE_96B is in no driver's enum (its codes count up from 0; 96 is ours): only `tensormap.replace.swizzle_mode`
    sets it, on sm_103a.
    """

    SWIZZLE_NONE = 0
    SWIZZLE_32B = 1
    SWIZZLE_64B = 2
    SWIZZLE_128B = 3
    SWIZZLE_128B_ATOM_32B = 4
    SWIZZLE_128B_ATOM_32B_FLIP_8B = 5
    SWIZZLE_128B_ATOM_64B = 6
    SWIZZLE_96B = 96


# What the mode's three fields hold: (swizzle_low, atomicity, swizzle_high). Measured for the first four; the others are
# what ptxas emits for tensormap.replace.
SWIZZLE_BITS: dict[TensorMapSwizzle, tuple[int, int, int]] = {
    TensorMapSwizzle.SWIZZLE_NONE: (0, 0, 0),
    TensorMapSwizzle.SWIZZLE_32B: (1, 0, 0),
    TensorMapSwizzle.SWIZZLE_64B: (2, 0, 0),
    TensorMapSwizzle.SWIZZLE_128B: (3, 0, 0),
    TensorMapSwizzle.SWIZZLE_128B_ATOM_32B: (3, 1, 0),
    TensorMapSwizzle.SWIZZLE_128B_ATOM_32B_FLIP_8B: (3, 2, 0),
    TensorMapSwizzle.SWIZZLE_128B_ATOM_64B: (3, 3, 0),
    TensorMapSwizzle.SWIZZLE_96B: (0, 0, 1),
}
# Modes that not every architecture has: the atoms are refused by driver 580 on an H200 (trace encode_tiled); PTX ISA
# 9.1 §9.7.9.28.
_ATOMS = {code: ("sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a") for code, bits in SWIZZLE_BITS.items() if bits[1]}
SWIZZLE_ARCHITECTURES: dict[TensorMapSwizzle, tuple[str, ...]] = _ATOMS | {TensorMapSwizzle.SWIZZLE_96B: ("sm_103a",)}
# Architectures whose tensor loads with .shared::cluster have no sub-byte types and no swizzle atomicity; .shared::cta
# has both (PTX ISA 9.1 §9.7.9.27).
WITHOUT_PADDED_TO_CLUSTER = ("sm_120a", "sm_121a")
SWIZZLES: dict[TensorMapSwizzle, Swizzle] = {
    code: Swizzle(name) for code, name in zip(TensorMapSwizzle, ["none", *(s.name[8:] for s in list(TensorMapSwizzle)[1:])], strict=True)
}


class TensorMapDataType(enum.IntEnum):
    """CUtensorMapDataType; the sub-byte names begin with U because Python names cannot begin with 16."""

    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    INT32 = 3
    UINT64 = 4
    INT64 = 5
    FLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8
    BFLOAT16 = 9
    FLOAT32_FTZ = 10
    TFLOAT32 = 11
    TFLOAT32_FTZ = 12
    U4_ALIGN8B = 13
    U4_ALIGN16B = 14
    U6_ALIGN16B = 15


@dataclasses.dataclass(frozen=True)
class DataType:
    """One row: the element's bits in global memory, its smemsim name, its code inside the 128 bytes, its out-of-bounds
    NaN.
    """

    code: TensorMapDataType
    names: tuple[str, ...]  # accepted besides the driver's own
    bits: int
    format_code: int
    to_tf32: bool = False
    nan_fill: bytes = b""  # empty where the driver refuses NaN fill
    sm90: bool = True
    multiple: int = 1  # dimension 0 of the tensor must be one of this many elements
    # types with gaps in shared memory: the legal ones; `multiple` is then the inner box as well
    swizzles: tuple[str, ...] = ()
    store_only: tuple[str, ...] = ()  # swizzles that stores take and loads do not
    load_only: bool = False
    interleaved: bool = True  # may the layout be interleaved?
    # sm_103a, stores: what `multiple` is relaxed to, with 16-byte alignment and 64B swizzle (PTX ISA 9.1 §5.5.1.1)
    store_multiple: int = 0

    itemsize: int = dataclasses.field(init=False)  # bytes of an element; sub-byte types have none

    def __post_init__(self) -> None:
        object.__setattr__(self, "itemsize", self.bits // 8)


_PADDED = ("SWIZZLE_NONE", "SWIZZLE_128B", "SWIZZLE_128B_ATOM_32B")  # cuda.h of CUDA 13.0
_NAN = b"\xf7\x7f"  # 0x7FF7 in every 16 bits
# fmt: off
DATA_TYPES: dict[TensorMapDataType, DataType] = {d.code: d for d in (
    #        driver type                     our names               bits format
    DataType(TensorMapDataType.UINT8,        ("u8", "s8", "e4m3", "e5m2", "ue8m0", "ue4m3"), 8, 0),
    DataType(TensorMapDataType.UINT16,       ("u16", "s16"),           16,  1),
    DataType(TensorMapDataType.UINT32,       ("u32",),                 32,  2),
    DataType(TensorMapDataType.INT32,        ("s32",),                 32,  3),
    DataType(TensorMapDataType.UINT64,       ("u64",),                 64,  4),
    DataType(TensorMapDataType.INT64,        ("s64",),                 64,  5),
    DataType(TensorMapDataType.FLOAT16,      ("f16",),                 16,  6, nan_fill=_NAN),
    DataType(TensorMapDataType.FLOAT32,      ("f32",),                 32,  7, nan_fill=_NAN * 2),
    DataType(TensorMapDataType.FLOAT64,      ("f64",),                 64,  9, nan_fill=_NAN * 4),
    DataType(TensorMapDataType.BFLOAT16,     ("bf16",),                16, 10, nan_fill=_NAN),
    DataType(TensorMapDataType.FLOAT32_FTZ,  (),                       32,  8, nan_fill=_NAN * 2),
    DataType(TensorMapDataType.TFLOAT32,     ("tf32",),                32,  7, to_tf32=True, nan_fill=_NAN * 2),
    DataType(TensorMapDataType.TFLOAT32_FTZ, (),                       32,  8, to_tf32=True, nan_fill=_NAN * 2),
    DataType(TensorMapDataType.U4_ALIGN8B,   ("16U4_ALIGN8B", "e2m1"),  4, 11, sm90=False, multiple=2),
    DataType(TensorMapDataType.U4_ALIGN16B,  ("16U4_ALIGN16B",),        4, 12, sm90=False, multiple=128, swizzles=_PADDED, load_only=True),
    DataType(TensorMapDataType.U6_ALIGN16B,  ("16U6_ALIGN16B", "e3m2", "e2m3"), 6, 13, sm90=False, multiple=128, interleaved=False,
             swizzles=(*_PADDED, "SWIZZLE_128B_ATOM_64B"), store_only=("SWIZZLE_128B_ATOM_64B",), store_multiple=64),
)}
# fmt: on


class Limits(NamedTuple):
    """The driver's bounds, all inclusive (driver 580 on an H200; the documents say the same except where a rule says
    otherwise).
    """

    max_rank: int = 5
    address_end: int = 1 << 57  # in no document, measured: traces encode_tiled, encode_im2col
    address_bits: int = (
        # sums of coordinates times strides wrap around; compiled: Triton 3.9
        # python/triton/tools/ragged_tma.py rests on it
        64
    )
    address_alignment: int = 16
    address_alignment_32b: int = 32  # with INTERLEAVE_32B, and for the ALIGN16B types
    max_dim: int = 1 << 32
    max_usable_dim: int = 1 << 31  # transfers trap above it: traces tma_loads_far, tma_load_traps
    max_stride: int = (1 << 40) - 1
    max_box: int = 256
    max_element_stride: int = 8
    inner_alignment: int = 16
    max_box_bytes: int = 233472  # 228 KiB: in no document, measured
    max_pixels_per_column: int = 1024
    wide_corner_bits: int = 16  # cuTensorMapEncodeIm2colWide: pixelBoxLowerCornerWidth -32768 to 32767, of every rank
    wide_pixels: int = 128  # pixels of a column with mode W128
    smem_alignment: int = 128
    # of the 128 bytes that a transfer reads, CUDA error 716 otherwise: trace tma_mode_traps (the documents say 64 as
    # well; CUDA 13's header aligns the type to 128). The encode call writes to any address: trace encode_pointers
    object_alignment: int = 64


LIMITS = Limits()

# The pointers of cuTensorMapEncodeTiled that must not be null, by our names: trace encode_pointers, ranks 1, 2 and 5.
# globalStrides is one of them, although a tensor of rank 1 has no stride. globalAddress may be null: the driver does
# not follow it (trace encode_tiled).
POINTERS = {
    "tensor_map": "tensorMap",
    "global_dim": "globalDim",
    "global_strides": "globalStrides",
    "box_dim": "boxDim",
    "element_strides": "elementStrides",
}
# Where cuTensorMapEncodeIm2colWide is taken for cuTensorMapEncodeIm2col with corners of 0 along H and D: trace
# encode_im2col_wide.
WIDE_IS_IM2COL = ("sm_90a",)


def corner_bits(rank: int) -> int:
    """Bits of one axis of an im2col corner: 16, 8, 5 for rank 3, 4, 5."""
    return {3: 16, 4: 8, 5: 5}[rank]


def pack_corner(corner: tuple[int, ...], rank: int) -> int:
    """An im2col corner in 16 bits, W in the lowest ones, two's complement."""
    bits = corner_bits(rank)
    return sum((value & ((1 << bits) - 1)) << bits * i for i, value in enumerate(corner))


def unpack_corner(packed: int, rank: int) -> tuple[int, ...]:
    """The coordinates of a packed corner, of its rank - 2 axes.

    >>> unpack_corner(pack_corner((-1, 3), 4), 4)
    (-1, 3)
    """
    bits = corner_bits(rank)
    raw = [packed >> bits * i & ((1 << bits) - 1) for i in range(rank - 2)]
    return tuple(value - (1 << bits) if value >> (bits - 1) else value for value in raw)


def _at(word: int, high: int, low: int, *, plus: int = 0, want: int | None = None) -> Field:
    return Field(32 * word + high, 32 * word + low, plus=plus, want=want)


# Fields that repeat what the others say, or hint: a map that differs there moves the same bytes.
DERIVED_FIELDS = ("box_bytes", "swizzle_period", "backing_hint")

# fmt: off
MAP_BYTES = 128  # sizeof(CUtensorMap), cuda.h of CUDA 13.0
TENSOR_MAP = Word("tensor_map", 8 * MAP_BYTES, {
    "global_address":  Field(63, 0),
    "im2col":          _at(2, 0, 0),
    "version":         _at(2, 3, 1, want=0),         # driver 580: 0 (trace encode_tiled); CuTe DSL's host code: 1
    "rank":            _at(2, 6, 4, plus=1),
    "format":          _at(2, 10, 7),
    "interleave":      _at(2, 12, 11),
    "swizzle_low":     _at(2, 14, 13),
    "nan_fill":        _at(2, 15, 15),
    "to_tf32":         _at(2, 16, 16),
    "l2_promotion":    _at(2, 18, 17),
    "atomicity":       _at(2, 20, 19),               # tcgen05: 0 16B, 1 32B, 2 32B with 8-byte flip, 3 64B
    "backing_hint":    _at(2, 21, 21),               # set by newer drivers for tensors of 128 KiB and more; no effect on addresses
    "swizzle_high":    _at(2, 22, 22),               # sm_103a: with swizzle_low 0 the 96B mode, which no driver enum has
    "_r2_23":          _at(2, 31, 23, want=0),
    **{f"stride{i}_low":  _at(3 + i, 31, 0) for i in range(4)},                       # bits 35:4 of the byte stride
    **{f"stride{i}_high": _at(7, 4 * i + 3, 4 * i) for i in range(4)},                # bits 39:36
    "_r7_16":          _at(7, 31, 16, want=0),
    **{f"dim{i}":     _at(8 + i, 31, 0, plus=1) for i in range(5)},
    **{f"element_stride{i}": _at(13, 3 * i + 2, 3 * i, plus=1) for i in range(5)},
    "_r13_15":         _at(13, 23, 15, want=0),
    "box0":            _at(13, 31, 24, plus=1),      # im2col: channels per pixel
    **{f"box{k + 1}": _at(14, 8 * k + 7, 8 * k, plus=1) for k in range(4)},           # im2col: the corners
    "pixels":          _at(15, 9, 0),                # im2col: pixels per column - 1
    "_r15_10":         _at(15, 31, 10, want=0),
    "box_bytes":       _at(16, 31, 0),               # derived: itemsize * prod floor(box / element stride)
    "_r17":            _at(17, 31, 0, want=0),
    "swizzle_period":  _at(18, 31, 0),               # derived: 16, 256, 512, 1024
    **{f"_r{i}": _at(i, 31, 0, want=0) for i in range(19, 32)},
})
# fmt: on

# Host code that encodes maps itself: CuTe DSL (nvidia-cutlass-dsl 4.8.1, 189 maps of its examples for sm_100a and
# sm_103a) writes words 0 to 15 like the driver, except for `version` = 1. Words 16 to 31 have the old content of the
# stack. TensorRT writes version 1, too.
VERSIONS = (0, 1)
FIRST_UNREAD_WORD = 16
# Fields that choose what a transfer does: no encoder writes other values there than the modes have.
MODE_FIELDS = ("swizzle_low", "atomicity", "swizzle_high", "to_tf32")


def grade_unread(name: str, raw: int, arch: str | None) -> Grade | None:
    """The evidence that transfers ignore a field that holds `raw`, if the encoder would have written something else;
    None if it is not known.

    Measured (H200): trace tma_edited for every field, tma_swizzle_bits for the modes; `to_tf32` matters there
    (`descriptors.tensor_map.traps`). On Blackwell, CuTe DSL's kernels rely on it. Fields of missing dimensions are
    inferred from Hopper. Reserved bits below word 16 stay unknown, because the bits of im2col::w are undocumented.

    >>> grade_unread("box_bytes", 0x7fcc1234, "sm_100a"), grade_unread("_r2_23", 1, "sm_100a")
    ('compiled', None)
    """
    field = TENSOR_MAP.fields[name]
    if arch in (None, "sm_90a"):
        return Grade.MEASURED
    if name in DERIVED_FIELDS or field.low >= 32 * FIRST_UNREAD_WORD:
        return Grade.COMPILED
    if name == "version":
        return Grade.COMPILED if raw in VERSIONS else None
    return None if name.startswith("_") or name in MODE_FIELDS else Grade.INFERRED
