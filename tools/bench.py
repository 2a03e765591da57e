"""Speed, as ratios against a baseline timed in the same run: `python tools/bench.py`. Machines are noisy; medians of interleaved pairs."""

from __future__ import annotations

import pathlib
import random
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import smemsim

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def ratio(call: Callable[[], object], baseline: Callable[[], object], repeats: int = 25) -> float:
    """Median of time(call) / time(baseline), the two in turn."""
    call()
    baseline()
    return statistics.median(seconds(call) / seconds(baseline) for _ in range(repeats))


def operands() -> None:
    rng = np.random.default_rng(1)
    words = rng.integers(0, 1 << 63, 20000, dtype=np.uint64) * np.uint64(2)
    out, source = np.empty((20000, 64, 16), np.uint32), np.ones((20000, 64, 16), np.uint32)
    print("operand_addresses, 20,000 random descriptors x 64 x 16 bf16, against np.copyto of an array of that size")
    for major in ("K", "MN"):

        def run(out: np.ndarray | None = None, words: np.ndarray = words, major: str = major) -> np.ndarray:
            return smemsim.operand_addresses(words, arch="sm_90a", dtype="bf16", major=major, rows=64, k=16, out=out)

        into = ratio(lambda run=run: run(out), lambda: np.copyto(out, source))
        fresh = ratio(run, lambda: np.copyto(out, source))
        double = ratio(lambda run=run: run(words=words), lambda run=run: run(words=words[:10000]))
        print(
            f"  {major:>2}-major: into out= {1 / into:.2f}x as fast; freshly allocated {fresh:.2f} copies; twice the descriptors {double:.2f}x"
        )


def boxes() -> None:
    """Loads of a 128 x 64 bf16 box with its address arrays, and of the largest box into memory with owners."""
    tm = smemsim.TensorMap.tiled(
        data_type="bf16", global_address=1 << 40, global_dim=(4096, 512), global_strides=(8192,), box_dim=(64, 128), swizzle="128B"
    )

    def addresses() -> None:
        transfer = smemsim.tma_load(tm, (64, 64), smem_address=1024)
        assert len(transfer.shared_address) == len(transfer.global_address) == transfer.transaction_bytes

    block = np.zeros(16384, np.int64)
    spread = ratio(addresses, lambda: np.copyto(block, block[::-1]), 500)
    once = statistics.median(seconds(addresses) for _ in range(2000))
    print(f"tma_load with its address arrays, 128 x 64 bf16, 128B: {1 / once:,.0f} boxes/s, {spread:.1f} copies of 16,384 addresses")

    for width, what in ((64, "rows that follow one another"), (4096, "rows 8 KiB apart")):
        shape = (8, 512, width)
        large = smemsim.TensorMap.tiled(
            data_type="bf16",
            global_address=1 << 40,
            global_dim=shape[::-1],
            global_strides=(2 * width, 1024 * width),
            box_dim=(64, 256, 7),
            swizzle="128B",
        )
        world, shared = smemsim.GlobalMemory(), smemsim.SharedMemory()
        world.place(np.zeros(shape, np.uint16), large.global_address)
        tensor = world.region(large.global_address)[1].reshape(8, 512, 2 * width)
        dense, source = np.empty((7, 256, 128), np.uint8), tensor[:7, 64:320, :128]
        flat, other = np.zeros((2, dense.size), np.uint8)

        def load(world: smemsim.GlobalMemory = world, shared: smemsim.SharedMemory = shared, large: smemsim.TensorMap = large) -> None:
            shared.writers.clear()
            shared.tma_load(large, (0, 64, 0), smem_address=1024, source=world)

        same = ratio(load, lambda dense=dense, source=source: np.copyto(dense, source), 500)
        plain = ratio(load, lambda flat=flat, other=other: np.copyto(flat, other), 500)
        print(
            f"  plain load of {dense.size // 1024} KiB with owners, {what}: {1 / same:.2f}x the speed of a copy of the same bytes, "
            f"{1 / plain:.2f}x of one from cache to cache"
        )


def maps() -> None:
    """Thousands of different maps, each made once: there is nothing to remember."""
    rng = random.Random(1)
    arguments = []
    for _ in range(4000):
        rank = rng.randint(2, 5)
        arguments.append(
            {
                "data_type": rng.choice(["bf16", "FLOAT16", 9]),
                "global_address": 16 * rng.randint(1, 1 << 40),
                "global_dim": tuple(rng.randint(64, 1 << 20) for _ in range(rank)),
                "global_strides": tuple(16 * rng.randint(1, 1 << 30) for _ in range(rank - 1)),
                "box_dim": (64, *(rng.randint(1, 5) for _ in range(rank - 1))),
                "element_strides": (1,) * rank,
                "swizzle": "128B",
                "arch": rng.choice(["sm_90a", "sm_100a", None]),
            }
        )
    raw = [bytes(smemsim.TensorMap.tiled(**a)) for a in arguments]
    words, pack = list(range(32)), struct.Struct("<32I").pack

    def each(call: Callable[[Any], object], values: list[Any]) -> Callable[[], None]:
        def run() -> None:
            for value in values:
                call(value)

        return run

    baseline = each(lambda _: pack(*words), raw)
    encode = each(lambda a: bytes(smemsim.TensorMap.tiled(**a)), arguments)
    decode = each(smemsim.TensorMap.from_bytes, raw)
    print("tensor maps, 4,000 different ones, against struct.pack of 32 words")
    for name, run in (("judge and encode", encode), ("from_bytes", decode)):
        each_us = statistics.median(seconds(run) for _ in range(9)) / len(raw) * 1e6
        print(f"  {name:>16}: {each_us:.1f} us, {ratio(run, baseline, 9):.0f}x")


def bf16(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    bits: np.ndarray = (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return bits


def tiles() -> None:
    """A K loop of tcgen05 tiles, 128 x 256 x 64: two TMA loads and four MMAs a tile, all memories with owners."""
    rng, world = np.random.default_rng(1), smemsim.GlobalMemory()
    maps = []
    for rows, address in ((128, 1 << 40), (256, 1 << 41)):
        world.place(bf16(rng, (rows, 4096)), address)
        maps.append(
            smemsim.TensorMap.tiled(
                data_type="bf16",
                global_address=address,
                global_dim=(4096, rows),
                global_strides=(8192,),
                box_dim=(64, rows),
                swizzle="128B",
            )
        )

    def loop(count: int) -> None:
        shared, tensor = smemsim.SharedMemory("sm_100a"), smemsim.TensorMemory("sm_100a")
        d = tensor.alloc(256)
        for tile in range(count):
            stage = 0x400 + tile % 4 * 0xC000
            for tm, at in zip(maps, (stage, stage + 0x4000), strict=True):
                shared.tma_load(tm, (64 * tile, 0), smem_address=at, source=world)
            for step in range(4):
                a, b = (0x4000404000010000 | at + 32 * step >> 4 for at in (stage, stage + 0x4000))
                smemsim.tcgen05_mma(tensor, d, a, b, 0x08400490, kind="f16", shared=shared, enable_input_d=tile + step > 0)

    a, b = (rng.standard_normal((rows, 64)) for rows in (128, 256))
    one = statistics.median(seconds(lambda: loop(1)) for _ in range(9))
    print("tcgen05.mma with owners, a tile of 128 x 256 x 64 (2 TMA loads, 4 MMAs, exact sums)")
    print(f"  a tile: {one * 1e3:.0f} ms, {ratio(lambda: loop(1), lambda: a @ b.T, 9):.0f}x numpy's float64 product of it")
    print(f"  a K loop of 64 tiles takes {ratio(lambda: loop(64), lambda: loop(16), 3):.2f}x the time of one of 16 tiles")


def commands() -> None:
    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=False, capture_output=True)

    decode = ("-m", "smemsim", "decode", "0x4000404000010040", "--arch", "sm_100a")
    bare = statistics.median(seconds(lambda: run("-c", "pass")) for _ in range(9))
    decoding = statistics.median(seconds(lambda: run(*decode)) for _ in range(9))
    print(f"smemsim decode: {decoding * 1e3:.0f} ms, {decoding / bare:.1f}x an empty Python ({bare * 1e3:.0f} ms)")
    print(f"smemsim replay golden/: {seconds(lambda: run('-m', 'smemsim', 'replay', str(GOLDEN))):.1f} s")


if __name__ == "__main__":
    operands()
    boxes()
    maps()
    tiles()
    commands()
