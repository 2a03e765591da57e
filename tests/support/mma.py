"""Operands for matrix instructions in tests: small whole numbers in any type, laid out by hand, and what their product
must be.
"""

import ml_dtypes
import numpy as np

import hand
from smemsim import SharedMemory, SmemDescriptor, TensorMemory

AT = 0x400
FLOATS = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn, "e2m1": ml_dtypes.float4_e2m1fn, "f32": np.float32,
}  # fmt: skip
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4, "s8": 8, "u8": 8}
STORED = {4: np.uint8, 6: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32}


def encode(values, dtype):
    """Raw bits of whole numbers, one entry an element, by ml_dtypes."""
    if dtype in ("s8", "u8"):
        return values.astype(np.int64).astype(np.uint8)
    bits = STORED[BITS[dtype]]
    return values.astype(np.float32).astype(FLOATS[dtype]).view(bits)


def numbers(rng, shape, dtype):
    """Whole numbers that every type has: 0 to 3 for u8, else -2 to 2."""
    return rng.integers(0, 4, shape) if dtype == "u8" else rng.integers(-2, 3, shape)


def chunk_bits(dtype, packing):
    """(elements in a 16-byte chunk, bits from one to the next)."""
    bits = BITS[dtype]
    return (16, bits) if bits == 6 or (bits == 4 and packing == "padded") else (128 // bits, bits)


def lay_out(memory, values, dtype, major, swizzle, start, *, packing="packed", arch="sm_100a"):
    """Write a matrix (rows, k) densely in the canonical layout, by CuTe's functor; the word that reads it.

    K-major: atoms of 8 rows, one below the other, columns of atoms side by side; MN-major: atoms of 8 rows of K, one
    after the other along K, then along M or N. The LBO of what needs none is 0.
    """
    rows, k = values.shape
    width, functor = hand.WIDTHS[swizzle], hand.FUNCTORS[swizzle]
    per_chunk, bits = chunk_bits(dtype, packing)
    groups = 4 if swizzle == "128B_ATOM_32B" else 8
    lines, along = (rows, k) if major == "K" else (k, rows)
    wide = -(-along * 16 // (per_chunk * width))  # atoms along the contiguous axis
    deep = -(-lines // groups)
    next_lines, next_width = (groups * width, deep * groups * width)
    image = np.zeros(next_width * wide * 8, np.uint8)  # a byte a bit
    raw = encode(values, dtype).astype(np.uint64)
    line, i = np.indices((lines, along))
    byte = i // per_chunk * 16
    at = line % groups * width + line // groups * next_lines + byte % width + byte // width * next_width
    bit = 8 * (functor(start + at) - start) + i % per_chunk * bits
    for b in range(bits):
        image[bit + b] = (raw if major == "K" else raw.T) >> np.uint64(b) & np.uint64(1)
    memory.write(start, np.packbits(image, bitorder="little"), label=f"{dtype} {major}-major")
    lbo, sbo = (next_width, next_lines) if swizzle != "none" or major == "K" else (next_lines, next_width)
    used = wide > 1
    return hand.word(arch, swizzle, start=start, lbo=lbo if used or swizzle == "none" else 0, sbo=sbo)


def memories(ctas, arch="sm_100a"):
    """(shared memories, tensor memories) of a CTA or a pair; all columns allocated."""
    shared, tensor = [SharedMemory(arch) for _ in range(ctas)], [TensorMemory(arch) for _ in range(ctas)]
    for memory in tensor:
        memory.alloc(512, cta_group=ctas)
    return shared, tensor


def one_or_pair(found):
    """A memory alone, or the pair, as the calls take them."""
    return tuple(found) if len(found) > 1 else found[0]


def read_d(layout, tensor, d_type="f32"):
    """D as whole numbers, read cell by cell."""
    m, n = np.meshgrid(np.arange(layout.m), np.arange(layout.n), indexing="ij")
    cta, lane, column = layout.location(m, n)
    cells = np.stack([memory.cells for memory in tensor])[cta, lane, column]
    if d_type == "s32":
        return cells.view(np.int32)
    return cells.view(np.float32) if d_type == "f32" else cells.astype(np.uint16).view(np.float16)


def descriptor(word, arch="sm_100a"):
    return SmemDescriptor.decode(word, arch=arch)
