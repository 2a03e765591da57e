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
    tm = smemsim.TensorMap.tiled(
        data_type="bf16", global_address=1 << 40, global_dim=(4096, 512), global_strides=(8192,), box_dim=(64, 128), swizzle="128B"
    )
    world, shared = smemsim.GlobalMemory(), smemsim.SharedMemory()
    world.place(np.zeros((512, 4096), np.uint16), tm.global_address)
    block = np.zeros(16384, np.uint8)
    copies = [block.copy() for _ in range(64)]

    def copy() -> None:
        np.copyto(copies[0], block)

    def load() -> None:
        shared.writers.clear()
        shared.tma_load(tm, (64, 64), smem_address=1024, source=world)

    for call in (load, copy):
        call()
    loads = statistics.median(seconds(load) for _ in range(500))
    plain = statistics.median(seconds(copy) for _ in range(500))
    addresses = statistics.median(seconds(lambda: smemsim.tma_load(tm, (64, 64), smem_address=1024)) for _ in range(500))
    print(
        f"TMA box of 16 KiB: addresses {addresses * 1e6:.0f} us, load with owners {loads * 1e6:.0f} us, np.copyto of its bytes {plain * 1e6:.1f} us"
    )
    owners = sum(a.nbytes for a in vars(shared).values() if isinstance(a, np.ndarray))
    print(f"shared memory with owners: {owners / 2**20:.1f} MiB for {(shared.end - shared.begin) / 1024:.0f} KiB")


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
    commands()
