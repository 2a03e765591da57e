"""The TMA formulas compiled, and the loops that run them over whole boxes.

The tensor coordinates at which each row of a box starts are `rows` (int64, n x 5). The bytes from the tensor's first
element to coordinate 0 of dimension 0 in that row are `lines` (int64, n), or OUTSIDE for rows out of bounds.

The array `shape` (int64, 4 x 5) has the dimensions, the byte strides, the tile of the box, and the element strides. The
byte stride of dimension 0 is that of the element or slice. Unused dimensions are 1, 0, 1, 1. The array `layout` has the
fields of `Layout`, in this order.
"""

from __future__ import annotations

import enum

from smemsim.base.compiling.loop import compiled
from smemsim.core.layout import tma as _tma
from smemsim.core.layout.loops import swizzle

__all__ = [
    "OUTSIDE",
    "Layout",
    "chunks_of_lines",
    "im2col_rows",
    "joined",
    "lines_of_rows",
    "reach",
    "tile_reach",
    "tile_reaches",
    "tiled_rows",
]


OUTSIDE = -(1 << 63)

bytes_in_bounds = compiled(_tma.bytes_in_bounds)
store_bytes_in_bounds = compiled(_tma.store_bytes_in_bounds)
next_pixel = compiled(_tma.next_pixel)
flip_8b = compiled(_tma.flip_8b)


class Layout(enum.IntEnum):
    """Places in the `layout` array."""

    CHUNKS = 0  # 16-byte chunks of shared memory in a row
    CHUNK_BYTES = 1  # of each, bytes of global memory: 16, less for types with gaps
    PITCH = 2
    MASK = 3
    SHIFT = 4
    FLIP = 5  # 8-byte flip?
    BITS = 6  # of an element, or of a slice
    SLICES = 7  # interleaved?
    IS_STORE = 8


_CHUNKS, _CHUNK_BYTES, _PITCH, _MASK, _SHIFT, _FLIP, _BITS, _SLICES, _IS_STORE = (int(i) for i in Layout)


@compiled
def tiled_rows(start, tile, step, rows):  # type: ignore[no-untyped-def]
    """Rows of a tile, dimension 1 fastest."""
    n = 0
    for j4 in range(tile[4]):
        for j3 in range(tile[3]):
            for j2 in range(tile[2]):
                for j1 in range(tile[1]):
                    rows[n, 0] = start[0]
                    rows[n, 1] = start[1] + j1 * step[1]
                    rows[n, 2] = start[2] + j2 * step[2]
                    rows[n, 3] = start[3] + j3 * step[3]
                    rows[n, 4] = start[4] + j4 * step[4]
                    n += 1


@compiled
def im2col_rows(start, offset, first, axes, lower, upper, step, image, rows):  # type: ignore[no-untyped-def]
    """Pixels of an im2col column; spatial axes are dimensions first ... first + axes - 1, dimension `image` counts
    images.
    """
    at = start.copy()
    for n in range(len(rows)):
        for i in range(5):
            rows[n, i] = at[i] + offset[i]
        for i in range(first, first + axes):
            moved = next_pixel(at[i], step[i], lower[i], upper[i])
            wrapped = moved != at[i] + step[i]
            at[i] = moved
            if not wrapped:
                break
            if i == first + axes - 1:
                at[image] += step[image]


@compiled
def tiled_lines(start, shape, lines):  # type: ignore[no-untyped-def]
    """The lines of a tile's rows: what `lines_of_rows` makes of `tiled_rows`, without the rows."""
    dim, stride, tile, step = shape[0], shape[1], shape[2], shape[3]
    n = 0
    for j4 in range(tile[4]):
        g4 = start[4] + j4 * step[4]
        for j3 in range(tile[3]):
            g3 = start[3] + j3 * step[3]
            for j2 in range(tile[2]):
                g2 = start[2] + j2 * step[2]
                inside = 0 <= g2 < dim[2] and 0 <= g3 < dim[3] and 0 <= g4 < dim[4]
                line = g2 * stride[2] + g3 * stride[3] + g4 * stride[4]
                for j1 in range(tile[1]):
                    g1 = start[1] + j1 * step[1]
                    lines[n] = line + g1 * stride[1] if inside and 0 <= g1 < dim[1] else OUTSIDE
                    n += 1


@compiled
def lines_of_rows(rows, first, shape, lines):  # type: ignore[no-untyped-def]
    """The lines of any rows. `first` is 1, or 0 where dimension 0 differs from row to row and belongs to the line."""
    for n in range(len(rows)):
        line, inside = 0, True
        for i in range(first, 5):
            line += rows[n, i] * shape[1, i]
            inside &= 0 <= rows[n, i] < shape[0, i]
        lines[n] = line if inside else OUTSIDE


@compiled
def chunk_place(c0, chunk, shape, layout):  # type: ignore[no-untyped-def]
    """(bytes from coordinate 0 of dimension 0, bytes in bounds) of a chunk of a row that is
    inside and begins at `c0`.
    """
    size, bits = layout[_CHUNK_BYTES], layout[_BITS]
    if layout[_SLICES]:
        unit = bits // 8
        index = c0 + chunk * size // unit * shape[3, 0]
        return index * unit + chunk * size % unit, size if 0 <= index < shape[0, 0] else 0
    first = c0 * bits // 8 + chunk * size
    if layout[_IS_STORE]:
        return first, store_bytes_in_bounds(first, shape[0, 0] * bits // 8, size)
    return first, bytes_in_bounds(first, shape[0, 0] * bits // 8, size)


@compiled
def shared_place(smem_address, n, chunk, layout):  # type: ignore[no-untyped-def]
    """Shared address of a chunk. Byte b of the chunk is at the address XOR b; except for the 8-byte flip that is the
    sum.
    """
    address = swizzle(smem_address + n * layout[_PITCH] + 16 * chunk, 0, layout[_MASK], layout[_SHIFT])
    return flip_8b(address) if layout[_FLIP] else address


@compiled
def inner_extent(c0, shape, layout):  # type: ignore[no-untyped-def]
    """(begin, end) of a row's bytes in bounds, counted from coordinate 0 of dimension 0, and whether these are all of
    its bytes.
    """
    begin, end, whole = 0, 0, True
    for chunk in range(layout[_CHUNKS]):
        at, valid = chunk_place(c0, chunk, shape, layout)
        whole &= valid == layout[_CHUNK_BYTES]
        if valid:
            begin = begin if end else at
            end = at + valid
    return begin, end, whole


@compiled
def shared_reach(lines, last, c0, shape, layout, smem_address):  # type: ignore[no-untyped-def]
    """End of the shared bytes of rows up to `last`, which the rows in the last 128-byte line decide. A store does not
    read what it clips.
    """
    is_store, end = layout[_IS_STORE] != 0, 0
    for n in range(max(last - 7, 0), last + 1):
        if is_store and lines[n] == OUTSIDE:
            continue
        for chunk in range(layout[_CHUNKS]):
            if not is_store or chunk_place(c0, chunk, shape, layout)[1]:
                end = max(end, (shared_place(smem_address, n, chunk, layout) | 15) + 1)
    return end


@compiled
def reach(lines, c0, shape, layout, smem_address):  # type: ignore[no-untyped-def]
    """(end of the shared bytes touched, begin and end of the tensor's bytes touched, is every byte in bounds?)."""
    begin, end, whole = inner_extent(c0, shape, layout)
    low, high, last = -(OUTSIDE + 1), OUTSIDE, -1
    for n in range(len(lines)):
        if lines[n] == OUTSIDE:
            whole = False
        else:
            low, high, last = min(low, lines[n]), max(high, lines[n]), n
    if end == 0 or last < 0:
        low, high, last = 0, 0, -1
    else:
        low, high = low + begin, high + end
    if not layout[_IS_STORE]:
        last = len(lines) - 1  # what is out of bounds is filled
    return shared_reach(lines, last, c0, shape, layout, smem_address), low, high, whole


@compiled
def tile_reach(start, shape, layout, smem_address, lines):  # type: ignore[no-untyped-def]
    """`tiled_lines` and `reach` in one call."""
    tiled_lines(start, shape, lines)
    begin, end, whole = inner_extent(start[0], shape, layout)
    for i in range(1, 5):
        whole &= start[i] >= 0 and start[i] + (shape[2, i] - 1) * shape[3, i] < shape[0, i]
    if not whole:
        return reach(lines, start[0], shape, layout, smem_address)
    last = len(lines) - 1  # strides are not negative: the last row is the last one in memory
    return shared_reach(lines, last, start[0], shape, layout, smem_address), lines[0] + begin, lines[last] + end, True


@compiled
def tile_reaches(starts, shape, layout, smem_address, lines, found):  # type: ignore[no-untyped-def]
    """`tile_reach` of several boxes, a row of `found` (boxes + 1, 4) for each; the last row is `joined`."""
    for n in range(len(starts)):
        start = (starts[n, 0], starts[n, 1], starts[n, 2], starts[n, 3], starts[n, 4])
        found[n, 0], found[n, 1], found[n, 2], found[n, 3] = tile_reach(start, shape, layout, smem_address, lines[n])
    joined(found)


@compiled
def joined(found):  # type: ignore[no-untyped-def]
    """The last row gets what all rows before it reach together."""
    last = len(found) - 1
    end, low, high, whole = found[0, 0], found[0, 1], found[0, 2], found[0, 3]
    for n in range(1, last):
        end, whole = max(end, found[n, 0]), min(whole, found[n, 3])
        if found[n, 2]:
            low, high = min(low, found[n, 1]) if high else found[n, 1], max(high, found[n, 2])
    found[last, 0], found[last, 1], found[last, 2], found[last, 3] = end, low, high, whole


@compiled
def chunks_of_lines(lines, c0, shape, layout, global_address, smem_address, shared, source, valid):  # type: ignore[no-untyped-def]
    """Every chunk of a box: its shared address, the global address it belongs to, and how many bytes are in bounds."""
    k = 0
    for n in range(len(lines)):
        for chunk in range(layout[_CHUNKS]):
            first, in_bounds = chunk_place(c0, chunk, shape, layout)
            shared[k] = shared_place(smem_address, n, chunk, layout)
            source[k] = global_address + lines[n] + first if lines[n] != OUTSIDE else 0
            valid[k] = in_bounds if lines[n] != OUTSIDE else 0
            k += 1
