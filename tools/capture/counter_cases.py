"""Addresses of single accesses, drawn from a seed: strides, broadcasts, neighbours, tiles with and without swizzle,
random ones; every mask of lanes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["addresses", "case_rows"]

EVERY = 0xFFFFFFFF


def _swizzled(at: np.ndarray, bits: int, base: int, shift: int) -> np.ndarray:
    """CuTe's Swizzle<bits, base, shift> of byte offsets."""
    mask = ((1 << bits) - 1) << (base + shift)
    out: np.ndarray = at ^ ((at & mask) >> shift)
    return out


def _structured(lane: np.ndarray, size: int, span: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    yield lane * size
    for stride in (2, 3, 5, 8, 16, 32, 33):
        yield lane * stride * size % span
    yield np.full(32, 3 * size)
    yield lane // 2 * size
    yield lane // 4 * size * 8 % span
    yield (lane ^ 1) * size
    yield lane % 2 * size + lane // 4 * 128 % span  # neighbours two apart have one address
    yield lane % 4 * size + lane // 8 * 128
    yield lane // 2 * 128 % span
    for pitch in (128, 128 + size, 256, 144):
        yield (lane * pitch) % (span - 16) // size * size
    yield lane % 16 * 128 + lane // 16 * size  # a column of a tile, two wide
    yield _swizzled(lane % 8 * 128 + lane // 8 * 16, 3, 4, 3) // size * size
    yield _swizzled(lane * 64 % span + 16, 2, 4, 3) // size * size
    yield rng.permutation(32) * size
    yield (lane // 8 * 1024 + rng.permutation(32) * size) % span


def _random(lane: np.ndarray, size: int, span: int, rng: np.random.Generator) -> np.ndarray:
    kind = int(rng.integers(0, 6))
    top = span // size
    if kind == 0:
        return rng.integers(0, top, 32) * size
    if kind == 1:
        return rng.integers(0, max(512 // size, 1), 32) * size
    if kind == 2:  # a tile of random pitch, by a random assignment of lanes to rows and columns
        pitch, bits = int(rng.integers(1, 65)) * 16, int(rng.integers(0, 6))
        row, column = lane >> bits, lane & ((1 << bits) - 1)
        return (row * pitch + column * max(size, 4)) % (span - 16) // size * size
    if kind == 3:  # the same through a swizzle
        at = (lane >> int(rng.integers(0, 4))) * int(rng.choice([32, 64, 128, 256])) + (lane & 7) * 16 * int(rng.integers(0, 2))
        return _swizzled(at % span, int(rng.integers(1, 4)), 4, 3) // size * size
    if kind == 4:  # few words of few banks
        return (rng.integers(0, 4, 32) * 128 + rng.integers(0, 3, 32) * max(size, 4)) // size * size % span
    pairs = rng.integers(0, top, 32) * size  # lanes with the address of a neighbour, some of them broken
    partner = lane ^ int(rng.choice([1, 2, 4]))
    out = np.where(lane < partner, pairs, pairs[partner])
    out[rng.integers(0, 32, int(rng.integers(0, 3)))] = 0
    return out


def _mask(n: int, rng: np.random.Generator) -> int:
    ragged = (0x0000FFFF, 0x00000400, 0xAAAAAAAA, 0xFF00FF00, 0x80000001, 0x0F0F0F0F)
    if n % 3:
        return EVERY
    return int(ragged[n // 3 % len(ragged)]) if n % 2 else int(rng.integers(1, 1 << 32))


def addresses(count: int, size: int, span: int, rng: np.random.Generator, *, always: bool = False) -> list[tuple[np.ndarray, int]]:
    """(32 byte offsets, mask of active lanes) of `count` cases: the structured ones that fit, then random ones.
    `always`: all lanes are active.
    """
    lane = np.arange(32)
    size = max(size, 1)
    known = [x % span // size * size for x in _structured(lane, size, span, rng)]
    if count < len(known):
        known = known[: count // 2]
    out = [(x, EVERY) for x in known]
    while len(out) < count:
        n = len(out) - len(known)
        at = known[int(rng.integers(0, len(known)))] if n % 5 == 4 else _random(lane, size, span, rng)
        out.append((np.asarray(at, np.int64) % span // size * size, EVERY if always else _mask(n, rng)))
    return out


def case_rows(name: str, size: int, drawn: str, count: int, span: int, seed: int) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """(shared offsets, global offsets, mask) of the cases of one form."""
    rng = np.random.default_rng([seed, *name.encode()])
    lane, line = np.arange(32), np.arange(32) * max(size, 1)
    if drawn in ("", "d"):
        return [(lane * 0, lane * 0, EVERY)] * count
    always = name.startswith(("ldmatrix", "stmatrix"))
    if drawn == "l":
        return [(at, line, mask) for at, mask in addresses(count, size, 1024, rng)]
    drawn_at = addresses(count, size, span, rng, always=always)
    if drawn == "g":
        return [(line, at, mask) for at, mask in drawn_at]
    if drawn == "s":
        return [(at, line, mask) for at, mask in drawn_at]
    out = []
    for n, (at, mask) in enumerate(drawn_at):  # both: global rows in order, permuted, by tiles, random
        how = n % 4
        world = (
            line
            if how == 0
            else rng.permutation(32) * size
            if how == 1
            else addresses(1 + n % 7 + 24, size, span, rng)[-1][0]
            if how == 2
            else at
        )
        out.append((at, np.asarray(world), mask))
    return out
