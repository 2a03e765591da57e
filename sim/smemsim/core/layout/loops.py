"""The operand formulas compiled, and the loops that run them over whole operands."""

from __future__ import annotations

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.core.layout import operand as _operand
from smemsim.core.layout import swizzle as _swizzle

__all__ = ["operand_addresses", "swizzle"]


swizzle = compiled(_swizzle.swizzle)
k_major_chunk = compiled(_operand.k_major_chunk)
mn_major_chunk = compiled(_operand.mn_major_chunk)
absolute_chunk = compiled(_operand.absolute_chunk)


# These loops fill memory as fast as it can be written: unsigned indices (numba checks signed ones), a constant number
# of elements a step (one vector store), and the XOR over whole columns of lines.


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
    """`count` rows of an MN-major operand: row j is the chunk addresses along K, moved by element j's place in the
    chunk.
    """
    columns = np.uintp(len(addresses))
    for j in range(count):
        inside = np.uint32(j * bits // 8)
        for k in range(columns):
            flat[at + k] = np.uint32(addresses[k] + inside)
        at += columns


@compiled
def operand_addresses(words, fields, modes, k_major, bits, per_chunk, out):  # type: ignore[no-untyped-def]
    """The addresses of descriptors `words` (int64), into out[descriptor, row, k].

    The table `fields` has (lowest bit, mask, shift) of start, LBO, SBO, base_offset, layout code and absolute mode. For
    each layout code, `modes` has width, mask, shift and rows of K in an atom. An element has `bits` bits. A 16-byte
    chunk has `per_chunk` elements.

    A linear address is the sum of a term of its line (row, or row of K) and one of its chunk. So the formula runs once
    a line and once a chunk; the XOR runs for each of both.
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
