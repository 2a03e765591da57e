"""The 32-bit instruction descriptor of tcgen05.mma, bit by bit: three formats, and what the codes in their fields mean;
the mask of .ws.

Which format a word has, the word does not say: the instruction's `.kind` does. PTX ISA 9.1 §9.7.16.4.2, tables 42 to
44; CUTLASS include/cute/arch/mma_sm100_desc.hpp (InstrDescriptor, InstrDescriptorBlockScaled) has the same fields.
"""

from __future__ import annotations

from smemsim.core.spec.fields import Field, Word

__all__ = ["BLOCK_SCALED", "MAX_SHIFTS", "MXF4", "PLAIN", "SCALE_TYPES", "ZERO_COLUMN_MASK"]


_T42, _T43, _T44 = (f"PTX ISA 9.1 §9.7.16.4.2, table {n}" for n in (42, 43, 44))
# Its class sets the bit by default, and calls it irrelevant for SM100. Its example 2cta_mma_blockscale_m128.py runs
# with 0x08401480.
_CUTE_DSL = "CuTe DSL 4.8.1, cutlass.experimental.primitives.Tcgen05MxOmmaInstrDesc"

# fmt: off
PLAIN = Word("idesc", 32, {  # kinds f16, tf32, f8f6f4, i8
    "sparsity_selector": Field( 1,  0,                    source=_T42),
    "sparsity":          Field( 2,  2,                    source=_T42),
    "saturate":          Field( 3,  3,                    source=_T42),
    "d_type":            Field( 5,  4,                    source=_T42),
    "_r6":               Field( 6,  6, want=0,            source=_T42),
    "a_type":            Field( 9,  7,                    source=_T42),
    "b_type":            Field(12, 10,                    source=_T42),
    "negate_a":          Field(13, 13,                    source=_T42),
    "negate_b":          Field(14, 14,                    source=_T42),
    "transpose_a":       Field(15, 15,                    source=_T42),
    "transpose_b":       Field(16, 16,                    source=_T42),
    "n":                 Field(22, 17, shift=3,           source=_T42),
    "_r23":              Field(23, 23, want=0,            source=_T42),
    "m":                 Field(28, 24, shift=4,           source=_T42),
    "_r29":              Field(29, 29, want=0,            source=_T42),
    "max_shift":         Field(31, 30,                    source=_T42),
})

BLOCK_SCALED = Word("idesc", 32, {  # kind mxf8f6f4
    "_r0":               Field( 1,  0, want=0,            source=_T43),
    "sparsity":          Field( 2,  2,                    source=_T43),
    "_r3":               Field( 3,  3, want=0,            source=_T43),
    "b_sf_id":           Field( 5,  4,                    source=_T43),
    "_r6":               Field( 6,  6, want=0,            source=_T43),
    "a_type":            Field( 9,  7,                    source=_T43),
    "b_type":            Field(12, 10,                    source=_T43),
    "negate_a":          Field(13, 13,                    source=_T43),
    "negate_b":          Field(14, 14,                    source=_T43),
    "transpose_a":       Field(15, 15,                    source=_T43),
    "transpose_b":       Field(16, 16,                    source=_T43),
    "n":                 Field(22, 17, shift=3,           source=_T43),
    "scale_type":        Field(23, 23,                    source=_T43),
    "_r24":              Field(26, 24, want=0,            source=_T43),
    "m":                 Field(28, 27, shift=7,           source=_T43),
    "a_sf_id":           Field(30, 29,                    source=_T43),
    "_r31":              Field(31, 31, want=0,            source=_T43),
})

MXF4 = Word("idesc", 32, {  # kinds mxf4, mxf4nvf4
    "_r0":               Field( 1,  0, want=0,            source=_T44),
    "sparsity":          Field( 2,  2,                    source=_T44),
    "_r3":               Field( 3,  3, want=0,            source=_T44),
    "b_sf_id":           Field( 5,  4,                    source=_T44),
    "_r6":               Field( 6,  6, want=0,            source=_T44),
    "a_type":            Field( 9,  7,                    source=_T44),
    "b_type":            Field(11, 10,                    source=_T44),
    "sparsity_version":  Field(12, 12,                    source=_CUTE_DSL),  # reserved in table 44
    "negate_a":          Field(13, 13,                    source=_T44),
    "negate_b":          Field(14, 14,                    source=_T44),
    "_r15":              Field(16, 15, want=0,            source=_T44),
    "n":                 Field(22, 17, shift=3,           source=_T44),
    "scale_type":        Field(23, 23,                    source=_T44),
    "_r24":              Field(26, 24, want=0,            source=_T44),
    "m":                 Field(28, 27, shift=7,           source=_T44),
    "a_sf_id":           Field(30, 29,                    source=_T44),
    "k_size":            Field(31, 31,                    source=_T44),
})

_T45 = "PTX ISA 9.1 §9.7.16.4.3, table 45; CUTLASS MaskAndShiftB"
ZERO_COLUMN_MASK = Word("zero_column_mask", 64, {  # .ws; a start count and a first span for each band of N
    "start_count_0":     Field( 7,  0,                    source=_T45),
    "start_count_1":     Field(15,  8,                    source=_T45),
    "start_count_2":     Field(23, 16,                    source=_T45),
    "start_count_3":     Field(31, 24,                    source=_T45),
    "first_span_0":      Field(32, 32,                    source=_T45),
    "first_span_1":      Field(33, 33,                    source=_T45),
    "first_span_2":      Field(34, 34,                    source=_T45),
    "first_span_3":      Field(35, 35,                    source=_T45),
    "_r36":              Field(38, 36, want=0,            source=_T45),
    "non_zero_mask":     Field(39, 39,                    source=_T45),
    "skip_span":         Field(47, 40,                    source=_T45),
    "use_span":          Field(55, 48,                    source=_T45),
    "shift":             Field(61, 56,                    source=_T45),
    "_r62":              Field(63, 62, want=0,            source=_T45),
})
# fmt: on

SCALE_TYPES = {0: "ue4m3", 1: "ue8m0"}  # bit 23
MAX_SHIFTS = (0, 8, 16, 32)  # bits 31:30: rows of B that .ws may reuse the array shifted by
