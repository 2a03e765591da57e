"""The inputs of the dot-product suites for wgmma: numbers drawn to be hard, from a seed. Nothing here knows the results
of hardware.

A case is one instruction on a whole tile, 64 x N dot products. Every pair of types has three groups of tiles. The first
has each of the styles below, with both operands in shared memory. The second is a tile with one probe in each element
of its diagonal. The third varies the instruction: N, A in registers, signs, scale-d 0, two instructions in a row, .sp,
.satfinite.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np

from smemsim.capture.blackwell import builder, directed
from smemsim.capture.mma_kernels import Instruction
from smemsim.core.spec.formats import ElementFormat, element_format
from smemsim.core.spec.wgmma import INVALID_METADATA_2_4, METADATA_1_2, WGMMA_M, WGMMA_TYPES, WgmmaTypes

PROBES = pathlib.Path(__file__).resolve().parent / "arithmetic_probes.csv"
POOL = 64  # different C in a tile

# The choice of exponents and signs of a tile. Each is drawn once and again: 15 tiles of 64 x 64 make 61,440 dot
# products.
STYLES = ("raw", "near_one", "spread", "cancel", "cancel_low", "floor", "floor_zeros", "subnormal", "overflow", "zeros", "specials",
          "near_one", "cancel", "spread", "floor")  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class DotCase:
    """One wgmma, or two in a row that share C's registers: raw elements of A (tiles, 64, stored K) and B (tiles, N, K),
    C (64, N).
    """

    instruction: Instruction
    style: str
    a: np.ndarray
    b: np.ndarray
    pool: np.ndarray  # of C
    place: np.ndarray  # (64, N) in it
    nibble: int = 0
    scale_d: int = 1


def types_of(d: str) -> list[tuple[WgmmaTypes, str, str]]:
    """The pairs of types that have this accumulator."""
    return [(row, a, b) for row in WGMMA_TYPES if d in row.d for a in row.a for b in row.b]


def elements(rng: np.random.Generator, fmt: ElementFormat, style: str, shape: tuple[int, ...]) -> np.ndarray:
    """Raw elements of one operand."""
    raw = rng.integers(0, 1 << fmt.bits, shape, np.uint64).astype(np.uint32)
    if not fmt.is_float:
        return np.where(rng.random(shape) < 0.1, 0, raw).astype(np.uint32) if style == "zeros" else raw
    field, bias = (1 << fmt.exponent_bits) - 1, (1 << fmt.exponent_bits - 1) - 1
    most = field - 1 if fmt.specials == "ieee" else field
    low, high = {
        "raw": (0, most),
        "near_one": (bias - 4, bias + 3),
        "spread": (max(0, bias - 40), min(most, bias + 40)),
        "cancel": (bias - 3, bias + 3),
        "cancel_low": (0, min(most, 3 + fmt.exponent_bits)),
        # Products of two such bf16 or tf32 lie around 2^-133; of the narrower types there are none so small.
        "floor": (bias - 76, bias - 64) if bias > 100 else (0, 2),
        "floor_zeros": (bias - 75, bias - 66) if bias > 100 else (0, 1),
        "subnormal": (0, 1),
        "overflow": (most - 3, most) if bias < 100 else (bias + 58, bias + 66),
        "zeros": (0, bias),
        "specials": (bias - 3, most),
    }[style]
    exponent = rng.integers(max(0, low), min(most, high) + 1, shape).astype(np.uint32)
    shift = fmt.fraction_bits + fmt.dropped_bits
    words = raw & np.uint32(~(field << shift) & 0xFFFFFFFF) | exponent << np.uint32(shift)
    words = _thinned(rng, fmt, words) if style != "specials" else _sprinkled(rng, fmt, words)
    zero = rng.random(shape) < {"zeros": 0.8, "floor_zeros": 0.5, "raw": 0.02}.get(style, 0.08)
    return np.where(zero, words & np.uint32(1 << fmt.bits - 1), words).astype(np.uint32)


def _thinned(rng: np.random.Generator, fmt: ElementFormat, words: np.ndarray) -> np.ndarray:
    """e4m3 has its NaN among the largest exponents: another number in its place."""
    nan = (words & np.uint32(fmt.magnitude)) == fmt.magnitude if fmt.specials == "nan" else np.zeros(words.shape, bool)
    return np.where(nan, words & np.uint32(~1 & 0xFFFFFFFF), words)


def _sprinkled(rng: np.random.Generator, fmt: ElementFormat, words: np.ndarray) -> np.ndarray:
    """Infinities and NaNs of every payload in one element of eighty, so that most dot products have one and some do
    not.
    """
    special = np.uint32(fmt.magnitude << fmt.dropped_bits)
    infinity = special if fmt.specials == "nan" else np.uint32(fmt.largest + 1 << fmt.dropped_bits)
    payload = (words | infinity) if fmt.specials == "ieee" else words | special
    draw = rng.random(words.shape)
    sign = words & np.uint32(1 << fmt.bits - 1)
    found = np.where(draw < 0.006, payload, np.where(draw < 0.012, sign | infinity, _thinned(rng, fmt, words)))
    return np.asarray(found, np.uint32)


def operands(
    rng: np.random.Generator, row: WgmmaTypes, a: str, b: str, style: str, n: int, *, sparse: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Raw elements of A (64, stored K) and B (N, K)."""
    formats = element_format(a), element_format(b)
    rows, columns = elements(rng, formats[0], style, (WGMMA_M, row.k)), elements(rng, formats[1], style, (n, row.k * (1 + sparse)))
    if style.startswith("cancel"):  # pairs of products that cancel, beside others that are up to 2^-40 as large
        half = row.k // 2
        rows[:, :half] = rows[:, half:] ^ np.uint32(1 << formats[0].bits - 1)
        columns[:, :half] = columns[:, half : 2 * half]
        small = elements(rng, formats[0], "cancel_low" if style == "cancel_low" else "spread", rows.shape)
        rows = np.where(rng.random(rows.shape) < 0.25, small, rows)
    return rows, columns


# Two elements whose product is half-way between two f16: between subnormals, or just above 1 next to a product of 1.
TIES = {"f16": ((0x0400, 0x1000),), "e5m2": ((0x04, 0x10),), "e4m3": ((0x08, 0x10), (0x38, 0x38))}


def ties(rng: np.random.Generator, row: WgmmaTypes, a: str, b: str, *, n: int, sparse: bool) -> tuple[np.ndarray, np.ndarray]:
    """A product that an f16 rounds to even, and others that are far smaller."""
    rows, columns = operands(rng, row, a, b, style="subnormal", n=n, sparse=sparse)
    rows, columns = (np.where(rng.random(x.shape) < 0.7, 0, x).astype(np.uint32) for x in (rows, columns))
    for k, codes in enumerate(TIES[a] if a == b else ()):
        rows[:, k], columns[:, k] = codes
    return rows, columns


def accumulators(rng: np.random.Generator, d: str, style: str) -> np.ndarray:
    """The different C of a tile."""
    if d == "s32":
        ends = rng.choice(np.array([0x7FFFFFFF, 0x80000000, 0x7FFF0000, 0x80010000], np.uint32), POOL)
        return np.where(rng.random(POOL) < 0.3, ends, rng.integers(0, 1 << 32, POOL, np.uint64)).astype(np.uint32)
    fmt = element_format(d)
    like = {"floor": "subnormal", "floor_zeros": "subnormal", "ties": "subnormal", "raw": "spread"}.get(style, style)
    if d == "f32" and style == "overflow":
        like = "raw"
    drawn = elements(rng, fmt, like, (POOL,))
    some = elements(rng, fmt, "raw", (POOL,))
    pool = np.where(rng.random(POOL) < 0.25, some, drawn)
    few = {"floor": 0.8, "floor_zeros": 0.9, "ties": 0.9, "zeros": 0.6, "subnormal": 0.4}.get(style, 0.15)
    zeros = rng.choice(np.array([0, 1 << fmt.bits - 1], np.uint32), POOL)
    return np.where(rng.random(POOL) < few, zeros, pool).astype(np.uint32)


def tile(rng: np.random.Generator, i: Instruction, row: WgmmaTypes, style: str, *, scale_d: int = 1, poison: bool = False) -> DotCase:
    """One case of a style."""
    made = ties if style == "ties" else functools.partial(operands, style=style)
    tiles = [made(rng, row, i.a, i.b, n=i.n, sparse=i.sparse) for _ in range(1 + i.chained)]
    pool = accumulators(rng, i.d, style)
    if poison:  # in a D that must not count
        pool[:] = rng.choice(np.array([0x7FC00000, 0x7F800000, 0xFF800000], np.uint32), POOL) if i.d == "f32" else pool | 0x7C00
    nibbles = sorted(METADATA_1_2) if row.group == 2 else sorted(set(range(16)) - INVALID_METADATA_2_4)
    a, b = (np.stack(x) for x in zip(*tiles, strict=True))
    m, n = np.indices((WGMMA_M, i.n))
    # every C meets every row and every column, and the pattern takes no room
    place = ((3 * m + 5 * n) % POOL).astype(np.uint8)
    return DotCase(i, style, a, b, pool, place, int(rng.choice(nibbles)) if i.sparse else 0, scale_d)


def probes(i: Instruction) -> list[tuple[str, list[int], list[int], int]]:
    """Directed probes of one instruction: name, elements of A, of B, C. Those of the table of published predictions,
    and those made for tcgen05.
    """
    found = []
    mnemonic = f"wgmma.m64n8k{i.k}.{i.d}.{i.a}.{i.b}"
    with PROBES.open() as file:
        for line in csv.DictReader(file):
            if line["instruction"] == mnemonic:
                found.append((line["id"], *([int(x, 16) for x in line[name].split()] for name in "ab"), int(line["c"], 16)))
    kind = {"tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4", "s8": "i8", "u8": "i8"}.get(i.a, "f16")
    if i.a != "b1":
        for probe in directed.directed(builder.Instruction(kind, i.a, i.b, i.d)):
            if probe.enable:
                found.append((probe.name, [x for x, _ in probe.codes], [x for _, x in probe.codes], probe.c))
    return found  # type: ignore[return-value]


@functools.cache
def probe_tiles(i: Instruction) -> list[DotCase]:
    """The probes on diagonals, each with its own C in its column."""
    out, all_probes = [], probes(i)
    for first in range(0, len(all_probes), WGMMA_M):
        some = all_probes[first : first + WGMMA_M]
        a, b = np.zeros((1, WGMMA_M, i.k), np.uint32), np.zeros((1, i.n, i.k), np.uint32)
        pool = np.zeros(POOL, np.uint32)
        for p, (_, row, column, c) in enumerate(some):
            a[0, p], b[0, p], pool[p] = row, column, c
        place = np.broadcast_to(np.arange(i.n, dtype=np.uint8), (WGMMA_M, i.n))
        out.append(DotCase(i, "probes: " + " ".join(name.replace(" ", "_") for name, *_ in some), a, b, pool, place))
    return out


def draw(d: str, seed: int, *, first: bool) -> list[DotCase]:
    """Every case with accumulator `d`; the probes are drawn with the first seed only."""
    out = []
    for row, a, b in types_of(d):
        rng = np.random.default_rng([seed, *f"{a} {b} {d}".encode()])
        plain = Instruction(a, b, d, 64, row.k, "shared")
        styles = STYLES[:10] if d == "s32" else STYLES  # integers have two styles only
        out += [tile(rng, plain, row, style) for style in (*styles, *(("ties", "ties") if d == "f16" and a == b else ()))]
        if first:
            out += probe_tiles(plain)
        out += [tile(rng, dataclasses.replace(plain, **form), row, style) for style in HARD for form in forms(row)]
        out.append(tile(rng, dataclasses.replace(plain, n=256), row, "cancel"))
        out.append(tile(rng, dataclasses.replace(plain, n=8), row, "spread", scale_d=0, poison=True))
        if row.satfinite:
            out += [tile(rng, dataclasses.replace(plain, satfinite=True), row, style) for style in ("raw", "raw", "zeros")]
            out.append(tile(rng, dataclasses.replace(plain, satfinite=True, chained=True, n=16), row, "raw"))
    return out


HARD = ("cancel", "spread", "floor", "specials", "near_one")


def forms(row: WgmmaTypes) -> list[dict[str, Any]]:
    """Other parts of the instruction that may change the arithmetic."""
    found: list[dict[str, Any]] = [{"source": "registers", "n": 16}, {"chained": True, "n": 16}]
    found += [{"scale_a": -1, "n": 8}, {"scale_b": -1, "n": 8}] if row.signs else []
    found += [{"sparse": True, "k": 2 * row.k, "n": 16}] if row.group else []
    return found
