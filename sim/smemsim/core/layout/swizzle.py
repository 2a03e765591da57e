"""How shared memory is swizzled: one XOR, the same for TMA and the tensor core, always on
the absolute shared address.
"""

from __future__ import annotations

__all__ = ["guide_chunk", "swizzle"]


def swizzle(address: int, base_offset: int, mask: int, shift: int) -> int:
    """XOR the index of the 128-byte line into the address, `shift` bits up. The last step of every address.

        0b … YYY ZZZ xxxx      mask 7, 3, 1 for 128B, 64B, 32B; 0 for none; shift 4 (5 for 32-byte atoms)

    The origin of the pattern is moved by `base_offset` lines. Only its value modulo mask + 1 counts. Measured (H200):
    traces wgmma_operands (descriptors, base_offset 0 … 7) and tma_loads (TMA, which has no base offset).

    >>> swizzle(128, 0, 7, 4)  # line 1, chunk 0 goes to chunk 1
    144
    >>> swizzle(128, 1, 7, 4)
    128
    """
    return address ^ ((((address - 128 * base_offset) >> 7) & mask) << shift)


def guide_chunk(y: int, x: int, pointer: int, modulus: int) -> int:
    """Table 11 of the CUDA guide: `smem[y][x] <-> smem[y][((y + offset) % modulus) ^ x]`, offset = pointer / 128 %
    modulus.

    Lines of 128 bytes are counted from `pointer` by `y`. One of the eight 16-byte chunks of a line is `x`. Read like
    this, and for pointers that are multiples of 128, the table equals `swizzle`. With `y` as the row of a box of 64 or
    32 bytes it is wrong. Several rows share a line there, and hardware uses the line.

    >>> guide_chunk(1, 0, 0, 8)
    1
    """
    return ((y + pointer // 128 % modulus) % modulus) ^ x
