"""What TMA does to values: FLOAT32 to TF32 while loading, for the tensor-map types TFLOAT32 and TFLOAT32_FTZ."""

from __future__ import annotations

__all__ = ["f32_to_tf32"]


def f32_to_tf32(bits: int) -> int:
    """Round float32 bits to 10 fraction bits, to nearest, ties to even; the low 13 bits become 0.

    Denormals are rounded, not flushed, also for the type named FTZ; the largest numbers round to infinity; every NaN
    becomes 0x7FFFE000, sign and payload lost. Measured (H200): trace tma_values. Stores copy the bits.

    >>> hex(f32_to_tf32(0x3F801000)), hex(f32_to_tf32(0x3F803000)), hex(f32_to_tf32(0xFF800001))
    ('0x3f800000', '0x3f804000', '0x7fffe000')
    """
    if bits & 0x7FFFFFFF > 0x7F800000:
        return 0x7FFFE000
    return (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000
