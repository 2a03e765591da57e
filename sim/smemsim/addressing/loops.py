"""The formulas compiled, and the loops that run them over whole operands and boxes. Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from smemsim.addressing import operand as _operand
from smemsim.addressing import swizzle as _swizzle
from smemsim.addressing import tma as _tma

__all__ = ["operand_addresses", "tile_chunks"]

compiled = njit(cache=True, nogil=True, error_model="numpy")

swizzle = compiled(_swizzle.swizzle)
k_major_chunk = compiled(_operand.k_major_chunk)
mn_major_chunk = compiled(_operand.mn_major_chunk)
absolute_chunk = compiled(_operand.absolute_chunk)
tile_size = compiled(_tma.tile_size)
bytes_in_bounds = compiled(_tma.bytes_in_bounds)
store_bytes_in_bounds = compiled(_tma.store_bytes_in_bounds)


# What follows fills memory as fast as it can be written: unsigned indices (numba checks signed ones for being negative), a constant
# number of elements a step (which becomes one vector store), and the XOR over whole columns of lines at a time.


@compiled
def fill_run(flat, at, address, step, count):  # type: ignore[no-untyped-def]
    """`count` elements `step` bytes apart, from `address` on."""
    for j in range(count):
        flat[at + j] = np.uint32(address + step * np.uint32(j))


@compiled
def fill_chunk(flat, at, address, bits, count):  # type: ignore[no-untyped-def]
    """The first `count` elements of the 16-byte chunk at `address`."""
    if bits == 16 and count == 8:
        fill_run(flat, at, address, np.uint32(2), np.uintp(8))
    elif bits == 8 and count == 16:
        fill_run(flat, at, address, np.uint32(1), np.uintp(16))
    elif bits == 32 and count == 4:
        fill_run(flat, at, address, np.uint32(4), np.uintp(4))
    else:
        for j in range(count):
            flat[at + np.uintp(j)] = np.uint32(address + np.uint32(j * bits // 8))


@compiled
def fill_rows(flat, at, addresses, bits, count):  # type: ignore[no-untyped-def]
    """`count` rows of an MN-major operand: row j is the chunk addresses along K, moved by element j's place in the chunk."""
    columns = np.uintp(len(addresses))
    for j in range(count):
        inside = np.uint32(j * bits // 8)
        for k in range(columns):
            flat[at + k] = np.uint32(addresses[k] + inside)
        at += columns


@compiled
def operand_addresses(words, fields, modes, k_major, bits, per_chunk, out):  # type: ignore[no-untyped-def]
    """The addresses of descriptors `words` (int64) into out[descriptor, row, k].

    `fields` has (lowest bit, mask, shift) of start, LBO, SBO, base_offset, layout code and absolute mode; `modes` has width, mask,
    shift and rows of K in an atom for each layout code. Elements have `bits` bits, `per_chunk` of them to a 16-byte chunk.
    A linear address is a sum of what its line (row, or row of K) and what its chunk adds, so that the formula runs once a line and
    once a chunk; the XOR runs for each of both.
    """
    rows, columns = out.shape[1], out.shape[2]
    lines, along = (rows, columns) if k_major else (columns, rows)
    of_line, addresses, field = np.empty(lines, np.int64), np.empty(lines, np.uint32), np.empty(6, np.int64)
    flat = out.reshape(out.size)
    for i in range(len(words)):
        for f in range(6):
            field[f] = ((words[i] >> fields[f, 0]) & fields[f, 1]) << fields[f, 2]
        start, lbo, sbo, base_offset, absolute = field[0], field[1], field[2], field[3], field[5] != 0
        width, mask, shift, k_rows = modes[field[4], 0], modes[field[4], 1], modes[field[4], 2], modes[field[4], 3]
        for line in range(lines):
            if not k_major and k_rows == 8:  # a constant divisor makes this loop twice as fast
                of_line[line] = mn_major_chunk(start, lbo, sbo, width, 8, 0, line)
            elif not k_major:
                of_line[line] = mn_major_chunk(start, lbo, sbo, width, k_rows, 0, line)
            elif absolute:
                of_line[line] = absolute_chunk(start, lbo, sbo, line, 0)
            else:
                of_line[line] = k_major_chunk(start, lbo, sbo, width, line, 0)
        corner = np.uintp(i) * np.uintp(rows * columns)
        for begin in range(0, along, per_chunk):
            chunk = begin // per_chunk
            if not k_major:
                of_chunk = mn_major_chunk(start, lbo, sbo, width, k_rows, chunk, 0) - start
            elif absolute:
                of_chunk = absolute_chunk(start, lbo, sbo, 0, chunk) - start
            else:
                of_chunk = k_major_chunk(start, lbo, sbo, width, 0, chunk) - start
            for line in range(lines):
                addresses[line] = np.uint32(swizzle(of_line[line] + of_chunk, base_offset, mask, shift))
            count = min(per_chunk, along - begin)
            if k_major:
                for row in range(rows):
                    fill_chunk(flat, corner + np.uintp(row * columns + begin), addresses[row], bits, count)
            else:
                fill_rows(flat, corner + np.uintp(begin * columns), addresses, bits, count)


@compiled
def tile_chunks(  # type: ignore[no-untyped-def]
    coordinates, dim, stride, box, step, itemsize, global_address, smem_address, pitch, mask, shift, is_store, shared, source, valid
):
    """Every 16-byte chunk of a box: its shared address, the global address it belongs to, and how many bytes are in bounds.

    All arrays have five entries, those past the rank being 1 (box, step, dim) or 0; `stride[i]` is the byte stride of dimension i.
    Returns the end of the shared bytes that are touched (a store does not read what it clips, a load writes its fill), and begin and
    end of the global bytes.
    """
    shared_end, low, high = 0, 0, 0
    inner = box[0] * itemsize // 16
    first_byte = coordinates[0] * itemsize
    n, row = 0, 0
    for j4 in range(tile_size(box[4], step[4])):
        g4 = coordinates[4] + j4 * step[4]
        for j3 in range(tile_size(box[3], step[3])):
            g3 = coordinates[3] + j3 * step[3]
            for j2 in range(tile_size(box[2], step[2])):
                g2 = coordinates[2] + j2 * step[2]
                for j1 in range(tile_size(box[1], step[1])):
                    g1 = coordinates[1] + j1 * step[1]
                    inside = 0 <= g1 < dim[1] and 0 <= g2 < dim[2] and 0 <= g3 < dim[3] and 0 <= g4 < dim[4]
                    line = global_address + first_byte + g1 * stride[1] + g2 * stride[2] + g3 * stride[3] + g4 * stride[4]
                    for chunk in range(inner):
                        shared[n] = swizzle(smem_address + row * pitch + 16 * chunk, 0, mask, shift)
                        source[n] = line + 16 * chunk
                        if not inside:
                            valid[n] = 0
                        elif is_store:
                            valid[n] = store_bytes_in_bounds(first_byte + 16 * chunk, dim[0] * itemsize)
                        else:
                            valid[n] = bytes_in_bounds(first_byte + 16 * chunk, dim[0] * itemsize)
                        if valid[n] > 0:
                            if high == 0 or source[n] < low:
                                low = source[n]
                            high = max(high, source[n] + valid[n])
                        if valid[n] > 0 or not is_store:
                            shared_end = max(shared_end, np.int64(shared[n]) + 16)  # type: ignore[assignment]
                        n += 1
                    row += 1
    return shared_end, low, high
