"""`tensormap.replace`: the bits of the 128 bytes that each field of the instruction writes.

There is no such machine instruction: ptxas expands it into loads, masks and stores of single 32-bit words (64 bits for
the address). The rows are the constants in the code of ptxas 13.0.88 for sm_90a, sm_100a and sm_103a, the same for
`.global` and `.shared::cta` and for every PTX version from 8.3 on. Older versions differ in two rows. Before CUDA 12.5
global_stride is not shifted: the operand counts 16 bytes, and its bits 35:32 become the high ones. Up to 12.5
swizzle_mode leaves bit 22 alone. The codes are those that ptxas accepts; their names and the form of the instruction
are in PTX ISA 9.1 §9.7.9.28. Grades: evidence.py, rule tensor_map.replace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from smemsim.core.spec.fields import Field
from smemsim.core.spec.tensor_map import DATA_TYPES, TENSOR_MAP, TensorMapDataType

__all__ = ["ELEMTYPES", "MAX_ORDINALS", "REPLACE_FIELDS", "ReplaceField", "Write", "target", "writes_of"]


MAX_ORDINALS = 5


class Write(NamedTuple):
    """One store into the map: the bits of `field` become those of (operand - minus) >> shift; `{}` stands for the
    ordinal.
    """

    field: str
    minus: int = 0
    shift: int = 0


@dataclasses.dataclass(frozen=True)
class ReplaceField:
    """One `.field` of the instruction: the operand, the ordinals, the writes in their order.

    The values 0, 1, … of an immediate operand have the names `codes`. An architecture has `accepted` of them. A field
    without codes takes a register of `bits` bits.
    """

    name: str
    bits: int
    ordinals: int
    writes: tuple[Write, ...]
    codes: tuple[str, ...] = ()
    accepted: Mapping[str, int] = dataclasses.field(default_factory=dict)
    source: str = "PTX ISA 9.1 §9.7.9.28, ptxas 13.0.88"

    def exists_on(self, arch: str) -> bool:
        """Does ptxas take the field for this architecture?"""
        return not self.codes or arch in self.accepted


# PTX numbers the element types in its own way: these are the driver's types by elemtype code.
ELEMTYPES: tuple[TensorMapDataType, ...] = (
    TensorMapDataType.UINT8, TensorMapDataType.UINT16, TensorMapDataType.UINT32, TensorMapDataType.INT32,
    TensorMapDataType.UINT64, TensorMapDataType.INT64, TensorMapDataType.FLOAT16, TensorMapDataType.FLOAT32,
    TensorMapDataType.FLOAT32_FTZ, TensorMapDataType.FLOAT64, TensorMapDataType.BFLOAT16, TensorMapDataType.TFLOAT32,
    TensorMapDataType.TFLOAT32_FTZ, TensorMapDataType.U4_ALIGN8B, TensorMapDataType.U4_ALIGN16B, TensorMapDataType.U6_ALIGN16B,
)  # fmt: skip


_NEWER = ("sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a")
_EVERYWHERE = ("sm_90a", *_NEWER)
# fmt: off
REPLACE_FIELDS: dict[str, ReplaceField] = {f.name: f for f in (
    ReplaceField("global_address",    64, 0, (Write("global_address"),)),
    ReplaceField("rank",              32, 0, (Write("rank"),)),                       # the operand is the rank - 1 already
    ReplaceField("box_dim",           32, MAX_ORDINALS, (Write("box{}", minus=1),)),
    ReplaceField("global_dim",        32, MAX_ORDINALS, (Write("dim{}", minus=1),)),
    ReplaceField("global_stride",     64, MAX_ORDINALS, (Write("stride{}_low", shift=4), Write("stride{}_high", shift=36))),
    ReplaceField("element_stride",    32, MAX_ORDINALS, (Write("element_stride{}", minus=1),)),
    ReplaceField("elemtype",          32, 0, (Write("format"), Write("to_tf32")),     # not the code itself: see writes_of
                 ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz", "b4x16", "b4x16_p64", "b6x16_p32"),
                 {"sm_90a": 13, **dict.fromkeys(_NEWER, 16)}),
    ReplaceField("interleave_layout", 32, 0, (Write("interleave"),), ("none", "16B", "32B"), dict.fromkeys(_EVERYWHERE, 3)),
    ReplaceField("swizzle_mode",      32, 0, (Write("swizzle_low"), Write("swizzle_high", shift=2)),  # clears the high bit on sm_90a too
                 ("none", "32B", "64B", "128B", "96B"), dict.fromkeys(_EVERYWHERE, 4) | {"sm_103a": 5}),
    ReplaceField("swizzle_atomicity", 32, 0, (Write("atomicity"), Write("backing_hint", shift=2)),    # three bits wide: clears the hint
                 ("16B", "32B", "32B_FLIP_8B", "64B"), dict.fromkeys(_NEWER, 4)),
    ReplaceField("fill_mode",         32, 0, (Write("nan_fill"),), ("zeros", "nan"), dict.fromkeys(_EVERYWHERE, 2)),
)}
# A map has four strides. ptxas takes a fifth all the same and goes on counting: its low word is the one that holds the
# high bits of all.
_FIFTH_STRIDE = {"stride4_low": Field(32 * 7 + 31, 32 * 7), "stride4_high": Field(32 * 7 + 19, 32 * 7 + 16)}
# fmt: on


def target(write: Write, ordinal: int | None) -> tuple[str, Field]:
    """The name and place of the bits that a write goes to.

    >>> target(Write("box{}"), 1)[1].low
    448
    """
    name = write.field.format(ordinal)
    return name, _FIFTH_STRIDE.get(name) or TENSOR_MAP.fields[name]


def writes_of(row: ReplaceField, operand: int) -> tuple[tuple[Write, int], ...]:
    """The writes of an instruction and what each of them takes its bits from.

    The element type's code picks the driver's type, and that has a format; bit 16 is written for the tf32 types only.

    >>> [(write.field, value) for write, value in writes_of(REPLACE_FIELDS["elemtype"], 10)]
    [('format', 10)]
    >>> [(write.field, value) for write, value in writes_of(REPLACE_FIELDS["elemtype"], 11)]
    [('format', 7), ('to_tf32', 1)]
    """
    if row.name != "elemtype":
        return tuple((write, operand) for write in row.writes)
    data_type = DATA_TYPES[ELEMTYPES[operand]]
    values = (data_type.format_code, 1) if data_type.to_tf32 else (data_type.format_code,)
    return tuple(zip(row.writes, values, strict=False))
