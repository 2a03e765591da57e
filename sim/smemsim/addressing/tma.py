"""Where a tiled TMA transfer finds and puts each 16-byte chunk of its box. Dimension 0 is the contiguous one."""

from __future__ import annotations

__all__ = ["bytes_in_bounds", "row_pitch", "store_bytes_in_bounds", "tile_size"]


def tile_size(box: int, element_stride: int) -> int:
    """Elements a box of `box` takes along one of the outer dimensions: every `element_stride`-th, the first always.

    In dimension 0 the stride is ignored (without interleave). Measured (H200): trace tma_loads.

    >>> tile_size(5, 2)
    3
    """
    return (box + element_stride - 1) // element_stride


def row_pitch(inner_bytes: int, swizzle_width: int) -> int:
    """Bytes from one row of the box to the next in shared memory: the full swizzle width even where the box is narrower.

    The bytes in between are not written and not counted. Measured (H200): trace tma_loads.

    >>> row_pitch(48, 128), row_pitch(48, 16)
    (128, 48)
    """
    return swizzle_width if swizzle_width > 16 else inner_bytes


def bytes_in_bounds(first_byte: int, dim_bytes: int) -> int:
    """How many of a chunk's 16 bytes a load takes from the tensor when the chunk begins `first_byte` bytes into the row.

    Loads clip per element, so that a chunk may be part data, part fill. A chunk left of the tensor is fill as a whole, because
    dimension 0 must start on a multiple of 16 bytes. Measured (H200): trace tma_loads.

    >>> bytes_in_bounds(16, 20), bytes_in_bounds(32, 20), bytes_in_bounds(-16, 20)
    (4, 0, 0)
    """
    if first_byte < 0:
        return 0
    return min(max(dim_bytes - first_byte, 0), 16)


def store_bytes_in_bounds(first_byte: int, dim_bytes: int) -> int:
    """The same for a store, which clips dimension 0 at whole chunks: the chunk with the tensor's last byte is written as a whole.

    Measured (H200): trace tma_stores; the PTX ISA says that stores clip per element.

    >>> store_bytes_in_bounds(16, 20), store_bytes_in_bounds(32, 20)
    (16, 0)
    """
    return 16 if 0 <= first_byte < dim_bytes else 0
