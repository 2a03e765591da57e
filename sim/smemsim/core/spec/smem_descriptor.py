"""The 64-bit shared-memory matrix descriptor, bit by bit, as wgmma (sm_90a) and tcgen05
(sm_100a, sm_103a) define it.
"""

from __future__ import annotations

from smemsim.core.spec.fields import Field, Word
from smemsim.core.spec.swizzles import MODES, Swizzle

__all__ = ["BASE_OFFSET", "IDLE_STRIDES", "REACH", "SM90_SMEM_DESC", "SM100_SMEM_DESC", "START", "layout_codes"]


# fmt: off
SM90_SMEM_DESC = Word("sm90.smem_desc", 64, {
    "start_address":       Field(13,  0, unit="B", shift=4, source="PTX ISA 9.1 §9.7.15.5.1.2.2"),
    "_r14":                Field(15, 14, want=0,            source="PTX ISA 9.1 §9.7.15.5.1.2.2"),
    "leading_byte_offset": Field(29, 16, unit="B", shift=4, source="PTX ISA 9.1 §9.7.15.5.1.2.2"),
    "_r30":                Field(31, 30, want=0,            source="PTX ISA 9.1 §9.7.15.5.1.2.2"),
    "stride_byte_offset":  Field(45, 32, unit="B", shift=4, source="PTX ISA 9.1 §9.7.15.5.1.2.2"),
    "_r46":                Field(48, 46, want=0,            source="PTX ISA 9.1 §9.7.15.5.1.2.2"),
    "base_offset":         Field(51, 49,                    source="PTX ISA 9.1 §9.7.15.5.1.2.2"),
    "_r52":                Field(61, 52, want=0,            source="PTX ISA 9.1 §9.7.15.5.1.2.2"),
    "layout_type":         Field(63, 62,                    source="PTX ISA 9.1 §9.7.15.5.1.2.2"),
})

SM100_SMEM_DESC = Word("sm100.smem_desc", 64, {
    "start_address":       Field(13,  0, unit="B", shift=4, source="PTX ISA 9.1 §9.7.16.4.1"),
    "_r14":                Field(15, 14, want=0,            source="PTX ISA 9.1 §9.7.16.4.1"),
    "leading_byte_offset": Field(29, 16, unit="B", shift=4, source="PTX ISA 9.1 §9.7.16.4.1"),
    "_r30":                Field(31, 30, want=0,            source="PTX ISA 9.1 §9.7.16.4.1"),
    "stride_byte_offset":  Field(45, 32, unit="B", shift=4, source="PTX ISA 9.1 §9.7.16.4.1"),
    "constant":            Field(48, 46, want=0b001,        source="PTX ISA 9.1 §9.7.16.4.1"),
    "base_offset":         Field(51, 49,                    source="PTX ISA 9.1 §9.7.16.4.1"),
    "lbo_mode":            Field(52, 52,                    source="PTX ISA 9.1 §9.7.16.4.1.1"),
    "_r53":                Field(60, 53, want=0,            source="PTX ISA 9.1 §9.7.16.4.1"),
    "layout_type":         Field(63, 61,                    source="PTX ISA 9.1 §9.7.16.4.1"),
})
# fmt: on

# the same in every descriptor; LBO and SBO have as many bits of the same unit
START = SM90_SMEM_DESC.fields["start_address"]
BASE_OFFSET = SM90_SMEM_DESC.fields["base_offset"]  # the same in every descriptor
REACH = START.mask + 1 << START.shift  # bytes: starts, LBO and SBO are below it
# Bytes that kernels write into LBO or SBO where nothing uses it: 0 DeepGEMM, JAX, Triton; one unit CUTLASS, TVM
# (compiled).
IDLE_STRIDES = (0, 16)


def layout_codes(word: Word) -> dict[int, Swizzle]:
    """The swizzle each layout code means in a descriptor; codes that are not in it are invalid.

    >>> layout_codes(SM100_SMEM_DESC)[2], layout_codes(SM90_SMEM_DESC)[1]
    ('128B', '128B')
    """
    attribute = "wgmma_code" if word is SM90_SMEM_DESC else "tcgen05_code"
    return {getattr(mode, attribute): swizzle for swizzle, mode in MODES.items() if getattr(mode, attribute) is not None}
