"""The content of shared and tensor memory before a probe: recipes, which are JSON, and the bytes that they stand for.

A matrix lies K-major without swizzle. Chunk c (16 bytes) of row r is at `at` + r // 8 * SBO + r % 8 * 16 + c * 128. SBO
is 128 bytes times the chunks of a row. Its descriptor is `matrix_word`. All sources agree on that layout. The probe
asks about the other operand.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from smemsim.capture.blackwell.words import ELEMENTS, Element, matrix_descriptor, pack, small_codes

WINDOW_BEGIN = 0x400  # the first byte of dynamic shared memory
WINDOW_END = 0x39000  # 227 KiB of it
CONTROL = 0x38F00  # barriers and the address that alloc writes
OTHER = 0x33000  # the operand that is not probed lies here; below it everything is tags
LANES, COLUMNS = 128, 512
SENTINEL = 0x7FE5A5A5  # in tensor memory where nothing has been written: a NaN that no instruction makes
Recipe = list[Any]


def matrix_word(at: int, k_bytes: int) -> int:
    return matrix_descriptor(at, 128, 128 * max(k_bytes // 16, 1), 0)


def k_bytes(element: Element, k: int) -> int:
    return k // element.per_chunk * 16


def stored_column(dtype: str, k: int) -> int:
    """The place of logical element k in a sparse row, if the row's metadata keeps the half of the group that has k."""
    if dtype == "tf32":  # 1 of 2
        return k // 2
    if dtype == "e2m1x2":  # 4 of 8, in pairs
        return k // 8 * 4 + k % 4
    return k // 4 * 2 + k % 2  # 2 of 4


def kept_half(dtype: str, k: int) -> int:
    """0 where metadata 0x4 keeps element k, 1 where 0xE does."""
    return k % 2 if dtype == "tf32" else k % 8 // 4 if dtype == "e2m1x2" else k % 4 // 2


@functools.cache
def digits(dtype: str, tag: int, k: int) -> tuple[int, ...]:
    """Codes of a row whose product with `weights` is `tag` (below 256): one element, or base-4 digits repeated to make
    their weight.
    """
    element, row = ELEMENTS[dtype], [0] * k
    if element.tag_bits == 8:
        row[0] = element.encode(tag)
        return tuple(row)
    at = 0
    for i, repeat in enumerate((1, 1, 4, 16)):  # weights 1, 4, 4 times 4, 16 times 4
        for _ in range(repeat):
            if at < k:
                row[at] = element.encode(tag >> 2 * i & 3)
            at += 1
    return tuple(row)


def weights(dtype: str, k: int) -> list[int]:
    element = ELEMENTS[dtype]
    if element.tag_bits == 8:
        return [element.encode(1)] + [0] * (k - 1)
    return [element.encode(1 if i == 0 else 4) if i < 22 else 0 for i in range(k)]


def matrix(dtype: str, what: str, rows: int, k: int, *more: Any) -> np.ndarray:
    """Codes (rows, k) of a named matrix."""
    element = ELEMENTS[dtype]
    one, out = element.encode(1), np.zeros((rows, k), np.uint32)
    if what == "identity":  # row r has its 1 at k = r + more[0]
        for r in range(rows):
            if 0 <= r + more[0] < k:
                out[r, r + more[0]] = one
    elif what == "sparse identity":  # row r stands for logical k = r, where metadata more[0] (0: 0x4, 1: 0xE) keeps it
        for r in range(min(rows, 2 * k)):
            if kept_half(dtype, r) == more[0]:
                out[r, stored_column(dtype, r)] = one
    elif what == "row tags":  # row r: tag more[0] + r
        out[:] = [digits(dtype, (more[0] + r) % 256, k) for r in range(rows)]
    elif what == "weights":
        out[:] = weights(dtype, k)
    elif what == "ones":  # in columns more[0] … more[1] - 1
        out[:, more[0] : more[1]] = one
    elif what == "value":
        out[:] = element.encode(more[0])
    elif what == "spread":  # rows of k / 2 elements at the places where metadata 0x4 puts them; zeros between
        inner = matrix(dtype, more[0], rows, k // 2, *more[1:])
        for column in range(k):
            if kept_half(dtype, column) == 0:
                out[:, column] = inner[:, stored_column(dtype, column)]
    elif what == "codes":  # as they are
        out[:] = np.array(more[0], np.uint32).reshape(rows, k)
    else:
        raise ValueError(f"no matrix called {what}")
    return out


def put_matrix(image: np.ndarray, dtype: str, at: int, codes: np.ndarray) -> None:
    """Write codes (rows, k) into the image of a window that begins at WINDOW_BEGIN."""
    element = ELEMENTS[dtype]
    rows, k = codes.shape
    chunks = pack(element, codes.reshape(rows, k // element.per_chunk, element.per_chunk))
    r, c = np.arange(rows)[:, None], np.arange(chunks.shape[1])[None, :]
    first = at - WINDOW_BEGIN + r // 8 * 128 * chunks.shape[1] + r % 8 * 16 + c * 128
    image[first[..., None] + np.arange(16)] = chunks


@functools.lru_cache(128)  # every case of a type asks for the same ones; all types together have fewer
def tags(element: Element, first_chunk: int, chunks: int, step: int) -> np.ndarray:
    """Chunks whose elements hold `tag_bits` bits of their place, chunk * per_chunk + position: the `step`-th lowest
    ones.
    """
    place = (first_chunk + np.arange(chunks, dtype=np.uint32))[:, None] * np.uint32(element.per_chunk)
    place = place + np.arange(element.per_chunk, dtype=np.uint32)
    digit = place >> np.uint32(step * element.tag_bits) & np.uint32((1 << element.tag_bits) - 1)
    packed = pack(element, small_codes(element)[digit])
    packed.setflags(write=False)
    return packed


def shared_image(recipe: Recipe) -> np.ndarray:
    """The window's bytes: [background, [dtype, address, matrix …], …]."""
    background, *placed = recipe
    size = WINDOW_END - WINDOW_BEGIN
    image = np.zeros(size, np.uint8)
    if background[0] == "tags":
        image[:] = tags(ELEMENTS[background[1]], WINDOW_BEGIN // 16, size // 16, background[2]).ravel()
    elif background[0] == "value":
        element = ELEMENTS[background[1]]
        image[:] = np.tile(pack(element, np.full((1, element.per_chunk), element.encode(background[2]), np.uint32)).ravel(), size // 16)
    elif background[0] == "words":  # every 32-bit word holds its address / 4, and more[1] in its upper byte
        word = np.arange(WINDOW_BEGIN // 4, WINDOW_END // 4, dtype=np.uint32) | np.uint32(background[1] << 24)
        image[:] = word.view(np.uint8)
    elif background[0] == "bits":  # 4- or 6-bit elements packed from each chunk's first byte hold bits of their place
        bits, step = background[1], background[2]
        element = Element("bits", 0, bits, 16, bits)
        place = np.arange(WINDOW_BEGIN, WINDOW_END, dtype=np.uint32).reshape(-1, 16)
        image[:] = pack(element, place >> np.uint32(step * bits) & np.uint32((1 << bits) - 1)).ravel()
    elif background[0] != "zeros":
        raise ValueError(f"no background called {background[0]}")
    for dtype, at, what, rows, k, *more in placed:
        put_matrix(image, dtype, at, matrix(dtype, what, rows, k, *more))
    return image


NIBBLES = (0x4, 0x8, 0xC, 0x9, 0xD, 0x6, 0xE)  # the sparsity metadata that means something, 2:4
NIBBLES_TF32 = (0x4, 0xE)


def scale_tag(ue8m0: bool, tag: np.ndarray) -> np.ndarray:
    """Scale bytes that say a tag: 2^tag for UE8M0 (5 bits of tag), the integer itself for UE4M3 (4 bits)."""
    if ue8m0:
        return (112 + tag).astype(np.uint8)
    table = np.array([ELEMENTS["e4m3"].encode(i) for i in range(16)], np.uint8)
    return table[tag]


def tensor_image(recipe: Recipe) -> np.ndarray:
    """Words (128, 512) of tensor memory: [[first column, columns, what …], …] over sentinels."""
    image = np.full((LANES, COLUMNS), SENTINEL, np.uint32)
    for first, count, what, *more in recipe:
        lane, column = np.arange(LANES, dtype=np.uint32)[:, None], np.arange(count, dtype=np.uint32)[None, :]
        if what == "word":
            words = np.full((LANES, count), more[0], np.uint32)
        elif what == "index":
            # lane and column, told apart from each other by pass: 16 bits each, the upper ones with bit 15 set
            low = (lane + 0 * column, column + np.uint32(first) + 0 * lane)[more[0]]
            words = low | (low | np.uint32(0x8000)) << np.uint32(16)
        elif what == "tags":  # as in shared memory, byte lane * 2048 + column * 4
            element, step = ELEMENTS[more[0]], more[1]
            whole = tags(element, 0, LANES * COLUMNS // 4, step).reshape(LANES, COLUMNS * 4).view(np.uint32)
            words = whole[:, first : first + count]
        elif what == "nibbles":
            allowed = np.array(NIBBLES_TF32 if more[0] == "tf32" else NIBBLES, np.uint32)
            drawn = np.random.default_rng(more[1]).choice(allowed, (LANES, count, 8))
            words = np.bitwise_or.reduce(drawn << np.arange(0, 32, 4, dtype=np.uint32), axis=2)
        elif what == "scale tags":  # byte (lane * count + column) * 4 + byte of the region, a few bits a pass
            ue8m0, step = more
            bits = 5 if ue8m0 else 4
            place = np.arange(LANES * count * 4, dtype=np.uint32)
            words = scale_tag(ue8m0, place >> np.uint32(bits * step) & np.uint32((1 << bits) - 1)).reshape(LANES, count * 4).view(np.uint32)
        elif what == "words":  # as they are: one list for each lane
            words = np.array(more[0], np.uint32).reshape(LANES, count)
        elif what == "random":
            words = np.random.default_rng(more[0]).integers(0, 1 << 32, (LANES, count), np.uint64).astype(np.uint32)
        elif what == "lane bytes":  # four times the byte lane + 128 * step
            words = (lane + np.uint32(128 * more[0])) * np.uint32(0x01010101) + 0 * column
        elif what == "f32":  # lane + 128 * column, a float
            words = (lane + np.uint32(128) * column).astype(np.float32).view(np.uint32)
        else:
            raise ValueError(f"no tensor memory called {what}")
        image[:, first : first + count] = words
    return image
