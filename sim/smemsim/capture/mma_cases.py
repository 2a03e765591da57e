"""Whole wgmma instructions and what they are given, drawn from a seed: types, shapes, sources, signs, descriptors,
registers.

Nothing here knows what hardware does with them. Which instructions there are is read from `smemsim.core.spec.wgmma`.
Values are small, so that no sum rounds in any accumulator. The images are dense, so that D shows an element that is
read from a wrong place or multiplied with a wrong partner.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from typing import Any

import numpy as np

from smemsim.capture.cases import RESERVED_BITS
from smemsim.capture.mma_kernels import THREADS, Instruction
from smemsim.capture.wgmma_kernels import WINDOW_BEGIN
from smemsim.core.spec.wgmma import ASCENDING_METADATA_2_4, INVALID_METADATA_2_4, METADATA_1_2, WGMMA_M, WGMMA_TYPES, WgmmaTypes

WINDOW_END = 0x10000  # of the suites here
# one image serves both types of a mixed instruction
IMAGE_OF = {"e4m3": "fp8", "e5m2": "fp8", "s8": "int8", "u8": "int8"}

# fmt: off
# (element bits, bytes, {bit pattern: weight})
IMAGES: dict[str, tuple[int, dict[int, int]]] = {
    "f16":  (2, {0: 10, 0x3C00: 4, 0xBC00: 4, 0x4000: 1, 0xC000: 1}),
    "bf16": (2, {0: 10, 0x3F80: 4, 0xBF80: 4, 0x4000: 1, 0xC000: 1}),
    # The low 13 bits are no part of a tf32; some have them set.
    "tf32": (4, {0: 10, 0x3F800000: 3, 0x3F801FFF: 1, 0xBF800000: 3, 0xBF800ABC: 1, 0x40000000: 1, 0xC0000000: 1}),
    "fp8":  (1, {0: 12, 0x38: 2, 0xB8: 2, 0x3C: 2, 0xBC: 2}),  # e4m3 1 and 1.5, e5m2 0.5 and 1
    "int8": (1, {0: 24, 1: 8, 2: 2, 0xFF: 1, 0xFE: 1}),
    "b1":   (1, {0: 3, 0x01: 1, 0x10: 1, 0x42: 1, 0x88: 1}),
}
# fmt: on
# Undefined metadata of tf32 takes elements apart: here every half of one is 2, 3, -2 or -3 as
# the upper half of another.
HALVES = (0x4000, 0x4040, 0xC000, 0xC040)
IMAGES["tf32_halves"] = (4, {high << 16 | low: 1 for high in HALVES for low in HALVES})


@dataclasses.dataclass(frozen=True)
class MmaCase:
    """One wgmma; blocks are rows of the tables below."""

    instruction: Instruction
    image: str
    a_descriptor: int
    b_descriptor: int
    a_block: int
    metadata_block: int
    c_block: int
    scale_d: int


def window(image: str) -> np.ndarray:
    """The bytes of the window, the same for every seed."""
    itemsize, weights = IMAGES[image]
    rng = np.random.default_rng([ord(c) for c in image])
    return _draw(rng, itemsize, weights, (WINDOW_END - WINDOW_BEGIN) // itemsize).view(np.uint8)


def _draw(rng: np.random.Generator, itemsize: int, weights: dict[int, int], shape: Any) -> np.ndarray:
    p = np.array(list(weights.values()), np.float64)
    return rng.choice(np.array(list(weights), f"<u{itemsize}"), shape, p=p / p.sum())


@functools.cache
def a_blocks() -> tuple[np.ndarray, dict[str, list[int]]]:
    """uint32[block, thread, register], and which blocks hold elements of each image's type."""
    tables, of = [], {}
    for name, (itemsize, weights) in IMAGES.items():
        rng = np.random.default_rng([1, *(ord(c) for c in name)])
        drawn = [_draw(rng, itemsize, weights, (THREADS, 16 // itemsize)).view("<u4") for _ in range(4)]
        of[name] = list(range(len(tables), len(tables) + len(drawn)))
        tables += drawn
    return np.stack(tables), of


DISTINCT = tuple(sorted(set(range(16)) - INVALID_METADATA_2_4))


@functools.cache
def metadata_blocks() -> tuple[np.ndarray, dict[int, list[int]]]:
    """uint32[block, thread] of eight random nibbles each, and which blocks suit groups of 2 and of 4."""
    rng = np.random.default_rng(9100)
    pools = [(4, ASCENDING_METADATA_2_4)] * 5 + [(4, DISTINCT)] * 3 + [(2, tuple(METADATA_1_2))] * 5
    tables, of = [], {2: [], 4: []}
    for group, pool in pools:
        of[group].append(len(tables))
        tables.append(_nibbles(rng.choice(pool, (THREADS, 8))))
    return np.stack(tables), of


def _nibbles(nibbles: np.ndarray) -> np.ndarray:
    return (nibbles.astype(np.uint32) << (4 * np.arange(8, dtype=np.uint32))).sum(-1, dtype=np.uint32)


@functools.cache
def c_blocks() -> tuple[np.ndarray, dict[str, dict[str, list[int]]]]:
    """uint32[block, thread, element of C], and which blocks are zero, small, garbage or extreme for each accumulator.

    An f16 has an entry of its own, in the lower half. Garbage has NaNs and infinities, for instructions that must not
    look at it.
    """
    rng = np.random.default_rng(9101)
    shape = (THREADS, 128)
    small = np.tile(rng.integers(-8, 9, (16, 16)), (8, 8))
    noise = rng.integers(0, 1 << 32, (8, 8), dtype=np.uint64).astype(np.uint32)
    noise[0, :4] = 0x7FC00000, 0xFF800000, 0x7F800001, 0x7C00FC00
    noise = np.tile(noise, (16, 16))
    near = 2**31 - 1 - rng.integers(0, 9, (16, 16))
    extreme = np.tile(np.where(rng.random((16, 16)) < 0.5, near, -near - 1), (8, 8))
    f16 = small.astype(np.float16).view(np.uint16).astype(np.uint32)
    table = [
        np.zeros(shape, np.uint32),
        small.astype(np.float32).view(np.uint32),
        noise,
        f16,
        np.where(noise & 1, noise & 0xFFFF | 0x7C00, noise & 0xFFFF),
        small.astype(np.int32).view(np.uint32),
        extreme.astype(np.int32).view(np.uint32),
    ]
    of = {
        "f32": {"zero": [0], "small": [1], "garbage": [2]},
        "f16": {"zero": [0], "small": [3], "garbage": [4]},
        "s32": {"zero": [0], "small": [5], "garbage": [2], "extreme": [6]},
    }
    return np.stack([t.astype(np.uint32) for t in table]), of


# ---------------------------------------------------------------------------------------------------------- descriptors


def descriptor(rng: random.Random, rows: int, k: int, bits: int, major: str) -> int:
    """A descriptor of any mode whose every conceivable read stays inside the window; rows x k elements are read."""
    chunks_k, chunks_rows = k * bits // 128, rows * bits // 128
    while True:
        code = rng.randrange(4)
        width = (16, 128, 64, 32)[code]
        if rng.random() < 0.3:  # what kernels do: an aligned tile and an advance inside it
            start = rng.randrange(1, 48) * 1024 + rng.randrange(0, max(width // 32, 1)) * 32
        else:
            start = rng.randrange(WINDOW_BEGIN // 16, WINDOW_END // 16 * 3 // 4) * 16
        style = rng.random()
        if style < 0.3:
            lbo, sbo = rng.choice((0, 16, 128, 1024, 2048)), rng.choice((128, 256, 512, 1024, 8 * width))
        else:
            lbo, sbo = 16 * rng.randrange(0, 300), 16 * rng.randrange(0, 300)
        if major == "K":
            reach = (rows // 8 - 1) * sbo + chunks_k * lbo
        else:
            reach = max(chunks_rows * sbo + (k // 8) * lbo, chunks_rows * lbo + (k // 8) * sbo)
        room = WINDOW_END - start - 2048
        if room <= 0:
            continue
        if reach > room:
            scale = room / reach * rng.random()
            lbo, sbo = int(lbo * scale) // 16 * 16, int(sbo * scale) // 16 * 16
        base_offset = rng.randrange(8) if rng.random() < 0.4 else 0
        reserved = sum(1 << bit for bit in RESERVED_BITS if rng.random() < 0.5) if rng.random() < 0.05 else 0
        return start >> 4 | (lbo >> 4) << 16 | (sbo >> 4) << 32 | base_offset << 49 | code << 62 | reserved


# --------------------------------------------------------------------------------------------------------- instructions


def combinations(d: str) -> list[tuple[WgmmaTypes, str, str]]:
    """(row of the table, type of A, type of B) with accumulator `d`."""
    return [(row, a, b) for row in WGMMA_TYPES if d in row.d for a in row.a for b in row.b]


def _instruction(
    rng: random.Random, row: WgmmaTypes, types: tuple[str, str, str], n: int, source: str, selector: int | None
) -> Instruction:
    a, b, d = types
    return Instruction(
        a,
        b,
        d,
        n,
        row.k * (1 if selector is None else 2),
        source,
        sparse=selector is not None,
        selector=selector or 0,
        trans_a=rng.randrange(2) if row.transposes and source == "shared" else 0,
        trans_b=rng.randrange(2) if row.transposes else 0,
        scale_a=rng.choice((1, -1)) if row.signs else 1,
        scale_b=rng.choice((1, -1)) if row.signs else 1,
        satfinite=row.satfinite and rng.random() < 0.5,
    )


def _some_n(rng: random.Random, row: WgmmaTypes, count: int) -> list[int]:
    """Different legal N, most of them small: D grows with N and the instruction's work is the same."""
    chosen: list[int] = []
    while len(chosen) < count:
        n = rng.choices(row.n, [n**-1.4 for n in row.n])[0]
        if n not in chosen:
            chosen.append(n)
    return chosen


def draw(seed: int, d: str, *, sparse: bool, every_n: tuple[tuple[str, str], ...], shapes: int, each: int) -> list[MmaCase]:
    """Every combination of types with accumulator `d`, both sources, every selector: `shapes` N each, `each` cases of
    them.

    Then every N there is for the pairs of types in `every_n`, one case each.
    """
    rng = random.Random(seed)
    drawn: dict[Instruction, int] = {}
    for row, a, b in combinations(d):
        if sparse and not row.group:
            continue
        selectors: tuple[int | None, ...] = row.selectors if sparse else (None,)
        for source in ("shared", "registers"):
            for selector in selectors:
                for n in _some_n(rng, row, shapes):
                    drawn[_instruction(rng, row, (a, b, d), n, source, selector)] = each
        if (a, b) in every_n:
            for n in row.n:
                i = _instruction(rng, row, (a, b, d), n, "shared", rng.choice(selectors))
                drawn[i] = drawn.get(i, 0) + 1
    return [given(rng, i) for i, count in drawn.items() for _ in range(count)]


def given(rng: random.Random, i: Instruction, odd_metadata: int | None = None) -> MmaCase:
    """The inputs of one instruction. Its metadata is that block of `odd_metadata_blocks`, or any suitable one."""
    row = next(row for row in WGMMA_TYPES if i.a in row.a)
    c_of = c_blocks()[1][i.d]
    metadata_block = -1
    if i.sparse:
        metadata_block = rng.choice(metadata_blocks()[1][row.group]) if odd_metadata is None else odd_metadata
    scale_d = int(rng.random() < 0.75)
    style = rng.choice(("zero", "small", "small", *(("extreme",) if "extreme" in c_of else ()))) if scale_d else "garbage"
    image = IMAGE_OF.get(i.a, i.a)
    return MmaCase(
        i,
        "tf32_halves" if image == "tf32" and odd_metadata is not None else image,
        descriptor(rng, WGMMA_M, row.k, row.bits, "MN" if i.trans_a else "K") if i.source == "shared" else 0,
        descriptor(rng, i.n, i.k, row.bits, "MN" if i.trans_b else "K"),
        rng.choice(a_blocks()[1][image]) if i.source == "registers" else -1,
        metadata_block,
        rng.choice(c_of[style]),
        scale_d,
    )


# ------------------------------------------------------------------------------------------------------- every metadata


def odd_metadata_blocks() -> np.ndarray:
    """uint32[block, thread]: block v below 16 has the four bits v everywhere, the others any."""
    rng = np.random.default_rng(9102)
    same = [np.full((THREADS, 8), v) for v in range(16)]
    return np.stack([_nibbles(x) for x in (*same, *(rng.integers(0, 16, (THREADS, 8)) for _ in range(8)))])


def odd_metadata(seed: int) -> list[MmaCase]:
    """Metadata of every pattern, also those that the PTX ISA leaves undefined, on small shapes of every type."""
    rng, out = random.Random(seed), []
    for row in WGMMA_TYPES:
        for a, d in [(a, d) for a in row.a for d in row.d if row.group]:
            for source in ("shared", "registers"):
                i = _instruction(rng, row, (a, a, d), 8, source, rng.choice(row.selectors))
                out += [given(rng, i, block) for block in range(len(odd_metadata_blocks()))]
    return out
