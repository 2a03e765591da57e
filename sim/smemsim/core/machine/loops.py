"""The compiled loops that move bytes."""

from __future__ import annotations

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.core.arithmetic import convert as _convert
from smemsim.core.layout.loops import swizzle
from smemsim.core.layout.tma_loops import OUTSIDE, Layout, chunk_place, shared_place

__all__ = [
    "gather_owned",
    "gather_rows",
    "line_key",
    "load",
    "load_boxes",
    "one_of_each",
    "one_writers",
    "own_chunks",
    "own_places",
    "owners_of",
    "put",
    "scatter_rows",
    "store_boxes",
    "store_chunks",
    "take",
    "touch_chunks",
]


_CHUNKS, _CHUNK_BYTES, _MASK, _SHIFT = (int(i) for i in (Layout.CHUNKS, Layout.CHUNK_BYTES, Layout.MASK, Layout.SHIFT))

f32_to_tf32 = compiled(_convert.f32_to_tf32)


@compiled
def line_key(address, layout):  # type: ignore[no-untyped-def]
    """The XOR of the swizzle for the number of every chunk of a 128-byte line."""
    return (swizzle(address, 0, layout[_MASK], layout[_SHIFT]) ^ address) >> 4


@compiled(reads="lines inner")
def load_boxes(lines, inner, shape, layout, smem_address, out, out_begins, tensor, tensor_begin, owner, writers):  # type: ignore[no-untyped-def]
    """Loads whose rows are whole 128-byte lines of 16-byte chunks in bounds, each into a window of its own. The arrays
    `out` and `tensor` are 64-bit words.

    Box n begins at `inner[n]` in dimension 0. Its window begins at `out_begins[n]`, as `out` counts. The tensor's first
    element is at `tensor_begin`, in bytes from the first word. The array `owner` has an entry for each line of `out`.
    It becomes `writers[n]` with the row's place in the dense box; the free low bits hold the XOR of its chunks.
    """
    for n in range(len(lines)):
        first, _ = chunk_place(inner[n], 0, shape, layout)
        for row in range(lines.shape[1]):
            address = smem_address + 128 * row
            key = line_key(address, layout)
            line, at = np.uintp(address - out_begins[n]) >> np.uintp(3), np.uintp(lines[n, row] + first + tensor_begin) >> np.uintp(3)
            for chunk in range(8):
                word = line + np.uintp(2 * (chunk ^ key))
                out[word] = tensor[at + np.uintp(2 * chunk)]
                out[word + np.uintp(1)] = tensor[at + np.uintp(2 * chunk + 1)]
            owner[line >> np.uintp(4)] = writers[n] + np.uint64(128 * row + key)


@compiled(reads="lines inner memory")
def store_boxes(lines, inner, shape, layout, smem_address, memory, begins, tensor, tensor_begin):  # type: ignore[no-untyped-def]
    """Stores of boxes whose rows are such lines, in bounds, each from a window of its own: the reverse of `load_boxes`,
    without owners.
    """
    for n in range(len(lines)):
        first, _ = chunk_place(inner[n], 0, shape, layout)
        for row in range(lines.shape[1]):
            address = smem_address + 128 * row
            key = line_key(address, layout)
            line, at = np.uintp(address - begins[n]) >> np.uintp(3), np.uintp(lines[n, row] + first + tensor_begin) >> np.uintp(3)
            for chunk in range(8):
                word = line + np.uintp(2 * (chunk ^ key))
                tensor[at + np.uintp(2 * chunk)] = memory[word]
                tensor[at + np.uintp(2 * chunk + 1)] = memory[word + np.uintp(1)]


@compiled(reads="memory")
def store_chunks(chunk_shared, memory_begin, memory, chunk_global, tensor_begin, tensor):  # type: ignore[no-untyped-def]
    """A store of chunks of 16 bytes that are moved unchanged: from these shared addresses to these global ones."""
    for n in range(len(chunk_shared)):
        at, to = np.int64(chunk_shared[n]) - memory_begin, chunk_global[n] - tensor_begin
        for b in range(16):
            tensor[to + b] = memory[at + b]


@compiled
def own_chunks(count, layout, smem_address, out_begin, owner, writer):  # type: ignore[no-untyped-def]
    """The owners alone, of a load of `count` rows whose chunks are 16 bytes."""
    position = writer
    for n in range(count):
        for chunk in range(layout[_CHUNKS]):
            owner[(shared_place(smem_address, n, chunk, layout) - out_begin) >> 4] = position
            position += np.uint64(16)


@compiled(reads="fill tensor")
def load(lines, c0, shape, layout, smem_address, fill, to_tf32, out, out_begin, tensor, tensor_begin):  # type: ignore[no-untyped-def]
    """Any load, byte by byte. Bytes out of bounds become `fill` (one element, repeated), which is not converted with
    `to_tf32`.

    `tensor_begin` is the tensor's first element, in bytes from the first byte of `tensor`.
    """
    size = layout[_CHUNK_BYTES]
    for n in range(len(lines)):
        for chunk in range(layout[_CHUNKS]):
            to = shared_place(smem_address, n, chunk, layout)
            first, valid = chunk_place(c0, chunk, shape, layout)
            if lines[n] == OUTSIDE:
                valid = 0
            for b in range(valid):
                out[(to ^ b) - out_begin] = tensor[tensor_begin + lines[n] + first + b]
            for b in range(valid, size):
                out[(to ^ b) - out_begin] = fill[b % fill.shape[0]]
            if to_tf32:
                for b in range(0, valid // 4 * 4, 4):
                    w = (to ^ b) - out_begin
                    bits = np.int64(out[w]) | np.int64(out[w + 1]) << 8 | np.int64(out[w + 2]) << 16 | np.int64(out[w + 3]) << 24
                    rounded = f32_to_tf32(int(bits))
                    for i in range(4):
                        out[w + i] = (rounded >> (8 * i)) & 0xFF


# Entries of `owners.Owners`: the writer from this bit on; an entry with the highest bit set counts chunks that are kept
# byte by byte.
_WRITER, _SPLIT, _PLACE, _XOR = np.uint64(32), np.uint64(1 << 63), np.uint64(0xFFFFFFFF), np.uint64(7)


@compiled
def touch_chunks(chunks, entry, lines, owner):  # type: ignore[no-untyped-def]
    """Whole chunks, by their numbers, get one entry; lines that have one for all their chunks give it up."""
    for n in range(len(chunks)):
        chunk = chunks[n]
        of_line = lines[chunk >> 3]
        if of_line:
            begin = chunk & ~7
            for other in range(8):
                owner[begin + other] = (of_line & ~_XOR) + ((np.uint64(other) ^ (of_line & _XOR)) << np.uint64(4))
            lines[chunk >> 3] = 0
        owner[chunk] = entry


@compiled
def gather_owned(chunks, first_chunks, lines, owner, memory, begins, places, out):  # type: ignore[no-untyped-def]
    """Words of memory at places (flat), from each begin on, as `out` (begins, places). Stops and returns False if a
    chunk does not have one entry.
    """
    for n in range(len(begins)):
        is_owned = True
        for i in range(len(chunks)):
            chunk = first_chunks[n] + chunks[i]
            if lines[chunk >> 3] == 0:
                is_owned &= 0 < owner[chunk] < _SPLIT
        if not is_owned:
            return False
        for i in range(len(places)):
            out[n, i] = memory[begins[n] + places[i]]
    return True


@compiled
def one_of_each(values, out):  # type: ignore[no-untyped-def]
    """The value that neighbours have, as many of them for each of `out`; False where they have not all the same."""
    size, is_one = len(values) // len(out), True
    for n in range(len(out)):
        out[n] = values[n * size]
        for i in range(n * size, n * size + size):
            is_one &= values[i] == out[n]
    return is_one


@compiled
def one_writers(table, begins, lines, ends, out):  # type: ignore[no-untyped-def]
    """For each part of some lines, counted from the begin of each window: the writer of all its lines in all windows,
    or 0 if they differ. Part n ends at `ends[n]`.
    """
    begin = 0
    for part in range(len(ends)):
        writer, others = table[begins[0] + lines[begin]] >> _WRITER, np.uint64(0)
        for n in range(len(begins)):
            for i in range(begin, ends[part]):
                others |= (table[begins[n] + lines[i]] >> _WRITER) ^ writer
        out[part] = 0 if others else writer
        begin = ends[part]


@compiled
def owners_of(at, lines, owner, pieces, writer, place):  # type: ignore[no-untyped-def]
    """The writer of the bytes at offsets `at`, and the index of each byte in the writer's data. `pieces` (some, 16, 2)
    has both for chunks kept byte by byte.
    """
    for n in range(len(at)):
        chunk = at[n] >> 4
        entry = lines[chunk >> 3]
        if entry:
            entry = (entry & ~_XOR) + ((np.uint64(chunk & 7) ^ (entry & _XOR)) << np.uint64(4))
        else:
            entry = owner[chunk]
        if entry >= _SPLIT:
            kept = np.int64(entry & _PLACE)
            writer[n], place[n] = pieces[kept, at[n] & 15, 0], pieces[kept, at[n] & 15, 1]
        elif entry:
            writer[n], place[n] = np.uint32(entry >> _WRITER), np.uint32((entry & _PLACE) + np.uint64(at[n] & 15))
        else:
            writer[n], place[n] = 0, 0


@compiled
def own_places(at, threads, windows, begin, most, low, out):  # type: ignore[no-untyped-def]
    """The places in all windows of `.shared` addresses of threads; `windows` is the begin of each thread's. False if
    one is misaligned for `low`, or is not within `most` bytes from `begin`.
    """
    for n in range(len(at)):
        offset = at[n] - begin
        if offset < 0 or offset > most or at[n] & low:
            return False
        out[n] = offset + windows[threads[n]]
    return True


@compiled
def take(words, begins, places, out):  # type: ignore[no-untyped-def]
    """Words at places (two-dimensional) from each begin on."""
    for n in range(len(begins)):
        for i in range(places.shape[0]):
            for k in range(places.shape[1]):
                out[n, i, k] = words[begins[n] + places[i, k]]


@compiled
def put(words, begins, places, values, which):  # type: ignore[no-untyped-def]
    """The reverse of `take`, of some of the values."""
    for n in range(len(begins)):
        for i in range(places.shape[0]):
            for k in range(places.shape[1]):
                words[begins[n] + places[i, k]] = values[which[n], i, k]


@compiled
def scatter_rows(words, rows, values):  # type: ignore[no-untyped-def]
    """The reverse of `gather_rows`: where rows meet, the last matrix counts, and of it the last warp."""
    count = len(values)
    for matrix in range(count):
        for warp in range(values.shape[1] >> 5):
            for row in range(8):
                begin, lane = rows[8 * (count * warp + matrix) + row] >> 2, 32 * warp + 4 * row
                for k in range(4):
                    words[begin + k] = values[matrix, lane + k]


@compiled
def gather_rows(words, rows, out):  # type: ignore[no-untyped-def]
    """The registers of each lane of a warp for 8 x 8 matrices of 16 bits.

    The places (in bytes) of the rows are `rows`, those of a warp one after the other. The result `out` has a row of
    32-bit words for each matrix.
    """
    count = len(out)
    for warp in range(out.shape[1] >> 5):
        for matrix in range(count):
            for row in range(8):
                begin, lane = rows[8 * (count * warp + matrix) + row] >> 2, 32 * warp + 4 * row
                for k in range(4):
                    out[matrix, lane + k] = words[begin + k]
