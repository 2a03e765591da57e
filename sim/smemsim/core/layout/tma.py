"""The chunks of the box of a TMA transfer, in global and in shared memory, in every mode. Dimension 0 is contiguous.

A box is rows of dimension 0 (im2col: the channels of one pixel; interleave: the slices of one line). A row is chunks of
16 bytes in shared memory. The address of a chunk is `swizzle` of the row's address plus 16 times its place in the row.
"""

from __future__ import annotations

__all__ = [
    "bytes_in_bounds",
    "flip_8b",
    "im2col_offset",
    "next_pixel",
    "pack_im2col_offset",
    "row_pitch",
    "store_bytes_in_bounds",
    "tile_size",
]


def tile_size(box: int, element_stride: int) -> int:
    """Elements a box of `box` takes along a dimension: every `element_stride`-th, the first always.

    In dimension 0 the stride is ignored without interleave. Measured (H200): traces tma_loads, tma_interleave.

    >>> tile_size(5, 2)
    3
    """
    return (box + element_stride - 1) // element_stride


def row_pitch(inner_bytes: int, swizzle_width: int) -> int:
    """Bytes from one row of the box to the next in shared memory: the full swizzle width even where the box is
    narrower.

    The bytes in between are not written and not counted. Interleaved boxes are dense whatever the swizzle, and do not
    come here. Measured (H200): traces tma_loads, tma_im2col.

    >>> row_pitch(48, 128), row_pitch(48, 16)
    (128, 48)
    """
    return swizzle_width if swizzle_width > 16 else inner_bytes


def bytes_in_bounds(first_byte: int, dim_bytes: int, size: int) -> int:
    """How many of a chunk's `size` bytes a load takes from the tensor when the chunk begins `first_byte` bytes into the
    row.

    Loads clip per element, so that a chunk may be part data, part fill. A chunk left of the tensor is fill as a whole,
    because dimension 0 must start on a multiple of 16 bytes. Measured (H200): traces tma_loads, tma_im2col.

    >>> bytes_in_bounds(16, 20, 16), bytes_in_bounds(32, 20, 16), bytes_in_bounds(-16, 20, 16)
    (4, 0, 0)
    """
    if first_byte < 0:
        return 0
    return min(max(dim_bytes - first_byte, 0), size)


def store_bytes_in_bounds(first_byte: int, dim_bytes: int, size: int) -> int:
    """How many of a chunk's `size` bytes a store writes. It clips dimension 0 at whole chunks: the one with the
    tensor's last byte is written whole.

    Measured (H200): traces tma_stores, tma_im2col_stores; the PTX ISA says that stores clip per element.

    >>> store_bytes_in_bounds(16, 20, 16), store_bytes_in_bounds(32, 20, 16)
    (16, 0)
    """
    return size if 0 <= first_byte < dim_bytes else 0


def next_pixel(position: int, element_stride: int, lower: int, upper: int) -> int:
    """The next pixel of an im2col walk along one axis. Back at `lower`, the walk carries to the next axis: W, H, D,
    then N, which never wraps.

    The pixel box is lower <= position < upper = dimension + upper corner. Measured (H200): trace tma_im2col.

    >>> next_pixel(3, 2, -1, 6), next_pixel(5, 2, -1, 6)
    (5, -1)
    """
    return lower if position + element_stride >= upper else position + element_stride


def pack_im2col_offset(packed: int, offset: int, axis: int, bits: int) -> int:
    """The instruction's offset operand with one more axis in it, as ptxas builds it: 16 bits, of which an axis has 16,
    8 or 5, W lowest.

    An offset that is too large for its field is cut to 8 bits with two axes, and carries into the next field with
    three. Measured (H200) for code of ptxas 13.0: trace tma_mode_traps.

    >>> hex(pack_im2col_offset(3, 2, 1, 8)), hex(pack_im2col_offset(0, 0x102, 0, 8)), hex(pack_im2col_offset(0, 0x22, 0, 5))
    ('0x203', '0x2', '0x22')
    """
    if bits == 8:
        offset &= 0xFF
    return (packed + (offset << axis * bits)) & 0xFFFF


def im2col_offset(packed: int, axis: int, bits: int) -> int:
    """The im2col offset along one axis, taken out of the packed offset operand.

    >>> im2col_offset(0x203, 1, 8)
    2
    """
    return packed >> axis * bits & ((1 << bits) - 1)


def flip_8b(address: int) -> int:
    """The last step of the 8-byte-flip mode: on odd 128-byte lines the halves of each 16 bytes change places.

    Documented: PTX ISA 9.1 §5.5.7, 128B swizzle with 32B atomicity and 8B flip; Blackwell only.

    >>> flip_8b(128), flip_8b(256)
    (136, 256)
    """
    return address ^ (address >> 7 & 1) << 3
