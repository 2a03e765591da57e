"""Element types, and the words that a tcgen05 instruction takes: matrix descriptors and instruction descriptors (PTX
ISA 9.1 §9.7.16.4).

The capture tool writes its words itself, so that a mistake in smemsim's encoders cannot hide in a trace that smemsim
then replays.
"""

from __future__ import annotations

import dataclasses
import functools
from fractions import Fraction

import numpy as np


@dataclasses.dataclass(frozen=True)
class Element:
    """One element type: `code` in the instruction descriptor, `per_chunk` elements in 16 bytes of shared memory."""

    name: str
    code: int
    bits: int
    per_chunk: int
    tag_bits: int  # 0 … 2^tag_bits - 1 are exact in the format
    exponent_bits: int = 0
    fraction_bits: int = 0
    bias: int = 0
    signed: bool = True

    @property
    def integer(self) -> bool:
        return self.exponent_bits == 0

    @functools.cache  # noqa: B019 (a few types, a few thousand values)
    def encode(self, value: Fraction | float | int) -> int:
        """The bits of a value that the format holds exactly; ValueError for any other."""
        value = Fraction(value)
        if self.integer:
            low = -(1 << self.bits - 1) if self.signed else 0
            if value.denominator != 1 or not low <= value < low + (1 << self.bits):
                raise ValueError(f"{value} is no {self.name}")
            return int(value) & (1 << self.bits) - 1
        sign, size = int(value < 0), abs(value)
        if not size:
            return 0
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        if Fraction(2) ** exponent > size:
            exponent -= 1
        exponent = max(exponent, 1 - self.bias)
        steps = size / Fraction(2) ** (exponent - self.fraction_bits)
        if steps.denominator != 1:
            raise ValueError(f"{value} has more bits than {self.name}")
        field = exponent + self.bias if steps >= 1 << self.fraction_bits else 0
        code = (field << self.fraction_bits) + int(steps) % (1 << self.fraction_bits)
        if field >= 1 << self.exponent_bits:
            raise ValueError(f"{value} is beyond {self.name}")
        return sign << self.exponent_bits + self.fraction_bits | code


# fmt: off
ELEMENTS = {
    #                        code bits  T  tag  exp frac bias
    "f16":   Element("f16",     0, 16,  8,  8,   5, 10,  15),
    "bf16":  Element("bf16",    1, 16,  8,  8,   8,  7, 127),
    "tf32":  Element("tf32",    2, 32,  4,  8,   8, 23, 127),  # a 32-bit word
    "e4m3":  Element("e4m3",    0,  8, 16,  4,   4,  3,   7),
    "e5m2":  Element("e5m2",    1,  8, 16,  3,   5,  2,  15),
    "e2m3":  Element("e2m3",    3,  6, 16,  3,   2,  3,   1),  # 16 in 12 bytes, then 4 that nobody reads
    "e3m2":  Element("e3m2",    4,  6, 16,  3,   3,  2,   3),
    "e2m1":  Element("e2m1",    5,  4, 16,  2,   2,  1,   1),  # 16 in 8 bytes, then 8 that nobody reads
    "e2m1x2": Element("e2m1x2", 1,  4, 32,  2,   2,  1,   1),  # packed: mxf4, mxf4nvf4
    "u8":    Element("u8",      0,  8, 16,  8, signed=False),
    "s8":    Element("s8",      1,  8, 16,  6),
}
# Elements of K in one dense instruction, and the types of A and B.
KINDS: dict[str, tuple[int, tuple[str, ...]]] = {
    "f16":      (16, ("f16", "bf16")),
    "tf32":     (8,  ("tf32",)),
    "f8f6f4":   (32, ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")),
    "i8":       (32, ("u8", "s8")),
    "mxf8f6f4": (32, ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")),
    "mxf4":     (64, ("e2m1x2",)),
    "mxf4nvf4": (64, ("e2m1x2",)),
}
# fmt: on
BLOCK_SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")
ACCUMULATORS = {"f16": 0, "f32": 1, "s32": 2}
LAYOUT_CODES = {"none": 0, "128B_ATOM_32B": 1, "128B": 2, "64B": 4, "32B": 6}  # bits 61:63
WIDTHS = {0: 16, 1: 128, 2: 128, 4: 64, 6: 32, 3: 128, 5: 128, 7: 128}  # 3, 5 and 7 mean nothing that anybody documents
VERSION = 1  # bits 46:48 as the PTX ISA wants them


def matrix_descriptor(start: int, lbo: int, sbo: int, code: int, *, base_offset: int = 0, version: int = VERSION, extra: int = 0) -> int:
    """Bytes to the 64-bit word of Table 40; `extra` is OR-ed into it."""
    for name, value in (("start", start), ("leading byte offset", lbo), ("stride byte offset", sbo)):
        if value % 16 or not 0 <= value < 1 << 18:
            raise ValueError(f"{name} = {value} B is not a multiple of 16 below 262144")
    return start >> 4 | (lbo >> 4) << 16 | (sbo >> 4) << 32 | version << 46 | base_offset << 49 | code << 61 | extra


def instruction_descriptor(
    kind: str,
    a: str,
    b: str,
    *,
    m: int,
    n: int,
    d: str = "f32",
    sparse: bool = False,
    selector: int = 0,
    saturate: bool = False,
    negate_a: bool = False,
    negate_b: bool = False,
    mn_major_a: bool = False,
    mn_major_b: bool = False,
    max_shift: int = 0,
    ue8m0: bool = True,
    scale_a_id: int = 0,
    scale_b_id: int = 0,
    extra: int = 0,
) -> int:
    """The 32-bit word of Tables 42 (f16, tf32, f8f6f4, i8), 43 (mxf8f6f4) and 44 (mxf4, mxf4nvf4); `extra` is OR-ed
    into it.
    """
    word = extra | int(sparse) << 2 | ELEMENTS[a].code << 7 | ELEMENTS[b].code << 10 | (n >> 3) << 17 | (m >> 4) << 24
    word |= int(negate_a) << 13 | int(negate_b) << 14 | int(mn_major_a) << 15 | int(mn_major_b) << 16
    if kind in BLOCK_SCALED:
        return word | scale_b_id << 4 | int(ue8m0) << 23 | scale_a_id << 29
    return word | selector | int(saturate) << 3 | ACCUMULATORS[d] << 4 | max_shift << 30


def pack(element: Element, codes: np.ndarray) -> np.ndarray:
    """Bytes (…, 16) of chunks of codes (…, per_chunk); the bytes that pad sub-byte types are 0xFF."""
    if element.bits in (8, 16, 32):
        plain = codes.astype({8: "<u1", 16: "<u2", 32: "<u4"}[element.bits])
        return np.ascontiguousarray(plain).view(np.uint8).reshape(*codes.shape[:-1], 16)
    one = codes.astype(np.uint8)[..., None] >> np.arange(element.bits, dtype=np.uint8) & np.uint8(1)
    data = np.packbits(one.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")
    return np.concatenate([data, np.full((*codes.shape[:-1], 16 - data.shape[-1]), 0xFF, np.uint8)], axis=-1)


@functools.cache
def small_codes(element: Element) -> np.ndarray:
    """Codes of 0 … 2^tag_bits - 1."""
    codes = np.array([element.encode(i) for i in range(1 << element.tag_bits)], np.uint32)
    codes.setflags(write=False)
    return codes


def passes(element: Element, index_bits: int) -> int:
    return -(-index_bits // element.tag_bits)


def index_bits(element: Element) -> int:
    """Bits of an element's place in the 2^18 bytes that a descriptor reaches: chunk times per_chunk plus the position
    in it.
    """
    return 14 + (element.per_chunk - 1).bit_length()
