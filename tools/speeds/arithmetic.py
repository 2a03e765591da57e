"""Races of `mma`: batches of instructions, bit for bit, against numpy's product of the same tiles and against
themselves, doubled.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import smemsim
from tools.speeds.race import Race, Row, timed

WORK = 1 << 26  # multiply-adds of a batch


class Instruction(NamedTuple):
    """One instruction, how many multiply-adds a second are asked of it, and mmasim's class and name for it."""

    name: str
    arch: str
    kind: str
    types: tuple[str, str]  # of A and B, and of D
    shape: tuple[int, int, int]  # M, N, K
    asked: float | None = None
    block: int = 0
    peer: tuple[str, str, str] | None = None

    @property
    def factor(self) -> str:
        """The type of its scale factors."""
        return "ue4m3" if self.block == 16 else "ue8m0"


# fmt: off
INSTRUCTIONS = (
    Instruction("wgmma bf16 to f32", "sm_90a", "wgmma", ("bf16", "f32"), (64, 64, 16), 2e9, 0, ("WGMMA", "Hopper", "m64n64k16.f32.bf16.bf16")),
    Instruction("wgmma e4m3 to f32", "sm_90a", "wgmma", ("e4m3", "f32"), (64, 64, 32), 1e9, 0, ("WGMMA", "Hopper", "m64n64k32.f32.e4m3.e4m3")),
    Instruction("wgmma f16 to f16", "sm_90a", "wgmma", ("f16", "f16"), (64, 64, 16), None, 0, ("WGMMA", "Hopper", "m64n64k16.f16.f16.f16")),
    Instruction("wgmma tf32", "sm_90a", "wgmma", ("tf32", "f32"), (64, 64, 8), None, 0, ("WGMMA", "Hopper", "m64n64k8.f32.tf32.tf32")),
    Instruction("wgmma s8", "sm_90a", "wgmma", ("s8", "s32"), (64, 64, 32)),
    Instruction("tcgen05 f16 bf16 to f32", "sm_100a", "f16", ("bf16", "f32"), (128, 64, 16), None, 0,
                ("TCGen05MMA", "Blackwell", "m128n64k16.kind::f16.f32.bf16.bf16")),
    Instruction("tcgen05 f8f6f4 e4m3", "sm_100a", "f8f6f4", ("e4m3", "f32"), (128, 64, 32), 1e9, 0,
                ("TCGen05MMA", "Blackwell", "m128n64k32.kind::f8f6f4.f32.e4m3.e4m3")),
    Instruction("tcgen05 mxf8f6f4 e4m3", "sm_100a", "mxf8f6f4", ("e4m3", "f32"), (128, 64, 32), 1e9, 32,
                ("TCGen05MMABlockScale", "Blackwell", "m128n64k32.kind::mxf8f6f4.block32.f32.e4m3.e4m3.ue8m0")),
    Instruction("tcgen05 mxf4nvf4 block 16", "sm_100a", "mxf4nvf4", ("e2m1", "f32"), (128, 64, 64), 1e9, 16,
                ("TCGen05MMABlockScale", "Blackwell", "m128n64k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.ue4m3")),
    Instruction("tcgen05 i8 s8", "sm_100a", "i8", ("s8", "s32"), (128, 64, 32)),
)
# fmt: on


def drawn(one: Instruction, tiles: int, shape: tuple[int, int, int], any_bits: bool = False) -> dict[str, np.ndarray]:
    """Operands of `mma`: normally distributed numbers, scale factors near 1; or any bits at all."""
    rng, (m, n, k), (ab, d) = np.random.default_rng(1), shape, one.types
    arrays = {"a": ((m, k), ab), "b": ((n, k), ab), "c": ((m, n), d)}
    if one.block:
        arrays |= {"scale_a": ((m, k // one.block), one.factor), "scale_b": ((n, k // one.block), one.factor)}
    bits = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "e2m1": 4}
    found = {}
    for name, (size, dtype) in arrays.items():
        values = rng.standard_normal((tiles, *size))
        if any_bits:
            width = bits.get(dtype, 8)
            found[name] = rng.integers(0, 1 << width, values.shape).astype(f"u{max(8, width) // 8}")
        else:
            spread = {"s8": 40, "s32": 1e4}.get(dtype, 1)
            found[name] = smemsim.from_float64(2.0**values if name.startswith("scale") else values * spread, dtype)
    return found


def multiply(one: Instruction, given: dict[str, np.ndarray]) -> np.ndarray:
    """D of a batch, raw bits."""
    ab, d = one.types
    block = one.block or None
    return smemsim.mma(**given, arch=one.arch, kind=one.kind, a_type=ab, b_type=ab, d_type=d, block=block)  # type: ignore[arg-type]


def _numpy(one: Instruction) -> Race:
    given = drawn(one, WORK // math.prod(one.shape), one.shape)
    a, b = (smemsim.to_float64(given[x], one.types[0]).astype(np.float32) for x in "ab")
    return Race(timed(lambda: multiply(one, given)), timed(lambda: a @ b.swapaxes(1, 2)))


def _twice(one: Instruction, what: str) -> Race:
    """A K loop is a chain of instructions, each of which takes the D of the one before as its C."""
    (m, n, k), tiles = one.shape, WORK // math.prod(one.shape) // 4
    single = drawn(one, tiles, one.shape)
    if what == "K":

        def chain(count: int) -> None:
            d = single["c"]
            for _ in range(count):
                d = multiply(one, {**single, "c": d})

        return Race(timed(lambda: chain(4)), timed(lambda: chain(2)), "2.0x the time is linear")
    of = {"M": (tiles, (2 * m, n, k)), "N": (tiles, (m, 2 * n, k)), "tiles": (2 * tiles, one.shape)}[what]
    twice = drawn(one, *of)
    return Race(timed(lambda: multiply(one, twice)), timed(lambda: multiply(one, single)), "2.0x the time is linear")


def _start(make: Callable[..., Race], *arguments: object) -> Callable[[], Race]:
    return functools.partial(make, *arguments)


ROWS_OF_ARITHMETIC = (
    *(Row("MMA", f"mma {one.name}, batch of {' x '.join(map(str, one.shape))}", "numpy's float32 product of the same tiles", WORK, "MAC",
          _start(_numpy, one), asked_rate=one.asked) for one in INSTRUCTIONS),
    *(Row("MMA", f"mma {one.name}, twice the {'K (4 chained against 2)' if what == 'K' else what}", "half of it", WORK // 2, "MAC",
          _start(_twice, one, what)) for one in (INSTRUCTIONS[0], INSTRUCTIONS[7]) for what in ("M", "N", "tiles", "K")),
)  # fmt: skip
