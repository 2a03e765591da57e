"""Speed, as ratios against a baseline timed in the same run: `python tools/bench.py`. Machines are noisy; medians of interleaved pairs."""

from __future__ import annotations

import json
import math
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import smemsim
import smemsim.campaign.spaces

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
    print("tcgen05.mma with owners, a tile of 128 x 256 x 64 (2 TMA loads, 4 MMAs, bit-exact sums)")
    print(f"  a tile: {one * 1e3:.0f} ms, {ratio(lambda: loop(1), lambda: a @ b.T, 9):.0f}x numpy's float64 product of it")
    print(f"  a K loop of 64 tiles takes {ratio(lambda: loop(64), lambda: loop(16), 3):.2f}x the time of one of 16 tiles")


class Instruction(NamedTuple):
    """One instruction, how many multiply-adds a second are asked of it, and mmasim's class and name for it."""

    name: str
    arch: str
    kind: str
    types: tuple[str, str]  # of A and B, and of D
    shape: tuple[int, int, int]  # M, N, K
    target: float = 0
    block: int = 0
    peer: tuple[str, str, str] | None = None

    def factor(self) -> str:
        return "ue4m3" if self.block == 16 else "ue8m0"


# fmt: off
INSTRUCTIONS = (
    Instruction("wgmma bf16 to f32", "sm_90a", "wgmma", ("bf16", "f32"), (64, 64, 16), 2e9, 0, ("WGMMA", "Hopper", "m64n64k16.f32.bf16.bf16")),
    Instruction("wgmma e4m3 to f32", "sm_90a", "wgmma", ("e4m3", "f32"), (64, 64, 32), 1e9, 0, ("WGMMA", "Hopper", "m64n64k32.f32.e4m3.e4m3")),
    Instruction("wgmma f16 to f16", "sm_90a", "wgmma", ("f16", "f16"), (64, 64, 16), 0, 0, ("WGMMA", "Hopper", "m64n64k16.f16.f16.f16")),
    Instruction("wgmma tf32", "sm_90a", "wgmma", ("tf32", "f32"), (64, 64, 8), 0, 0, ("WGMMA", "Hopper", "m64n64k8.f32.tf32.tf32")),
    Instruction("wgmma s8", "sm_90a", "wgmma", ("s8", "s32"), (64, 64, 32)),
    Instruction("f8f6f4 e4m3", "sm_100a", "f8f6f4", ("e4m3", "f32"), (128, 64, 32), 1e9, 0,
                ("TCGen05MMA", "Blackwell", "m128n64k32.kind::f8f6f4.f32.e4m3.e4m3")),
    Instruction("mxf8f6f4 e4m3", "sm_100a", "mxf8f6f4", ("e4m3", "f32"), (128, 64, 32), 1e9, 32,
                ("TCGen05MMABlockScale", "Blackwell", "m128n64k32.kind::mxf8f6f4.block32.f32.e4m3.e4m3.ue8m0")),
    Instruction("mxf4nvf4 block 16", "sm_100a", "mxf4nvf4", ("e2m1", "f32"), (128, 64, 64), 1e9, 16,
                ("TCGen05MMABlockScale", "Blackwell", "m128n64k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.ue4m3")),
    Instruction("i8 s8", "sm_100a", "i8", ("s8", "s32"), (128, 64, 32)),
)
# fmt: on


def drawn(one: Instruction, tiles: int, shape: tuple[int, int, int], any_bits: bool = False) -> dict[str, np.ndarray]:
    """Operands of `mma`: normally distributed numbers, scale factors near 1; or any bits at all."""
    rng, (m, n, k), (ab, d) = np.random.default_rng(1), shape, one.types
    arrays = {"a": ((m, k), ab), "b": ((n, k), ab), "c": ((m, n), d)}
    if one.block:
        arrays |= {"scale_a": ((m, k // one.block), one.factor()), "scale_b": ((n, k // one.block), one.factor())}
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
    ab, d = one.types
    block = one.block or None
    return smemsim.mma(**given, arch=one.arch, kind=one.kind, a_type=ab, b_type=ab, d_type=d, block=block)  # type: ignore[arg-type]


WORK = 1 << 27  # multiply-adds of a batch: 2,048 tiles of 64 x 64 x 16


def arithmetic() -> None:
    """Batches of instructions, against numpy's float64 product of the same tiles, against themselves doubled, and against mmasim."""
    print(
        f"mma, bit for bit, on batches of {WORK:,} multiply-adds of normally distributed numbers, {os.cpu_count()} cores: multiply-adds a second"
    )
    for one in INSTRUCTIONS:
        tiles = WORK // math.prod(one.shape)
        given = drawn(one, tiles, one.shape)
        a, b = (smemsim.to_float64(given[x], one.types[0]) for x in "ab")
        multiply(one, given)
        np.matmul(a, b.swapaxes(1, 2))
        times = [(seconds(lambda: multiply(one, given)), seconds(lambda: a @ b.swapaxes(1, 2))) for _ in range(9)]  # noqa: B023
        best, median = (WORK / pick(mine for mine, _ in times) for pick in (min, statistics.median))
        print(
            f"  {one.name:>17}, {tiles:,} tiles of {' x '.join(map(str, one.shape))}: {best:.2g}, median {median:.2g}"
            + (f" (target {one.target:.0e}{'' if best >= one.target else ', MISSED'})" if one.target else "")
            + f"; {statistics.median(mine / numpys for mine, numpys in times):.1f}x the time of numpy's float64 product"
        )
    doubled()
    peers()


def doubled() -> None:
    """A K loop is a chain of instructions, each of which takes the D of the one before as its C."""
    print("  twice as much takes (2.00x is linear):")
    for one in INSTRUCTIONS:
        if one.block or one.types in (("bf16", "f32"), ("e4m3", "f32"), ("s8", "s32")):
            (m, n, k), tiles = one.shape, WORK // math.prod(one.shape) // 2
            single = drawn(one, tiles, one.shape)
            few = {name: x[: tiles // 8] for name, x in single.items()}
            twice = (drawn(one, tiles, (2 * m, n, k)), drawn(one, tiles, (m, 2 * n, k)), drawn(one, 2 * tiles, one.shape))

            def chain(count: int, one: Instruction = one, few: dict[str, np.ndarray] = few) -> None:
                d = few["c"]
                for _ in range(count):
                    d = multiply(one, {**few, "c": d})

            of = [ratio(lambda x=x: multiply(one, x), lambda: multiply(one, single), 9) for x in twice]  # type: ignore[misc]  # noqa: B023
            of.append(ratio(lambda: chain(16), lambda: chain(8), 9))
            print(
                f"  {one.name:>17}: M {of[0]:.2f}x, N {of[1]:.2f}x, tiles {of[2]:.2f}x, K (16 chained instructions against 8) {of[3]:.2f}x"
            )


# A version of PyTorch without CUDA, 2.13.0+cpu, is taken where pip knows one. mmasim compiles a part of itself when it is imported.
PEER = ("mmasim==2.1.1", "torch==2.13.0", "numpy")
PLACE = pathlib.Path.home() / ".cache" / "smemsim-bench"
FASTER = 80  # than mmasim called as it is documented, tile by tile


def environment() -> tuple[str, dict[str, str]] | None:
    """The Python of a virtual environment that has mmasim, made when it is missing, and its variables; None if it cannot be made."""
    folder = PLACE / ("Scripts" if os.name == "nt" else "bin")
    python = str(folder / "python")
    variables = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}", "TORCH_EXTENSIONS_DIR": str(PLACE / "compiled")}
    variables["OMP_WAIT_POLICY"] = "passive"  # its threads would otherwise keep the cores busy while smemsim is timed

    def runs(*arguments: str) -> bool:
        try:
            return subprocess.run([python, "-I", *arguments], env=variables, check=False, capture_output=True).returncode == 0
        except OSError:
            return False

    test = ("-c", "import mmasim.nv_ptx, importlib.metadata as m; assert 'mmasim==' + m.version('mmasim') == " + repr(PEER[0]))
    if not runs(*test):
        try:
            venv.create(PLACE, clear=True, symlinks=os.name != "nt", with_pip=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        if not (runs("-m", "pip", "install", *PEER) and runs(*test)):
            return None
    return python, variables


def peers() -> None:
    """The same tiles by mmasim (MMA-Sim, arXiv 2511.10909), which runs beside and is timed in turn; `bench_peers.py` says how it is used."""
    made = environment()
    if made is None:
        print(f"  {PEER[0]} left out: its environment cannot be made here, which takes a package index and a C++ compiler")
        return
    python, variables = made
    print(f"  against {PEER[0]} on the same tiles, in turn with it (asked for: {FASTER}x as fast as its call, one tile at a time)")
    cases = {one: drawn(one, 512 * 65536 // math.prod(one.shape), one.shape) for one in INSTRUCTIONS if one.peer}
    odd = {one: drawn(one, 64, one.shape, any_bits=True) for one in cases}
    with tempfile.TemporaryDirectory() as folder:
        into, out = (str(pathlib.Path(folder) / name) for name in ("cases.npz", "results.npz"))
        arrays = {
            f"{one.name}/{how}/{x}": y
            for how, of in (("normal", cases), ("any", odd))
            for one, given in of.items()
            for x, y in given.items()
        }
        np.savez(into, operations=np.array(json.dumps({one.name: one.peer for one in cases})), **arrays)  # type: ignore[arg-type]
        script = str(pathlib.Path(__file__).with_name("bench_peers.py"))
        with subprocess.Popen(
            [python, "-I", script, into, out], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin
            assert process.stdout
            first = process.stdout.readline()
            if not first:
                print(f"  {PEER[0]} left out: it fails here, as said above")
                return
            fastest = json.loads(first)

            def theirs(one: Instruction, form: str) -> float:
                print(json.dumps([one.name, form]), file=process.stdin, flush=True)
                return float(process.stdout.readline())  # type: ignore[union-attr]

            with np.load(out) as results:
                for one, given in cases.items():
                    compare(one, given, odd[one], [results[f"{one.name}/{how}"] for how in ("normal", "any")])
                    of = [(form, *in_turn(one, given, lambda: theirs(one, form))) for form in (fastest[one.name], "call")]  # noqa: B023
                    what = ", ".join(
                        f"{times:.0f}x as fast as its {form} ({mine:.2g} against {other:.2g})" for form, times, mine, other in of
                    )
                    print(f"  {one.name:>17}: {what}{'' if of[-1][1] >= FASTER else ', MISSED'}")
            process.stdin.close()


def in_turn(one: Instruction, given: dict[str, np.ndarray], theirs: Callable[[], float]) -> tuple[float, float, float]:
    """How many times as fast as another one, and multiply-adds a second of both: medians."""
    rounds = []
    for _ in range(3):
        before, other, after = seconds(lambda: multiply(one, given)), theirs(), seconds(lambda: multiply(one, given))
        rounds.append(((before + after) / 2, other))
    work = given["c"].size * given["a"].shape[-1]
    mine, other = (work / statistics.median(of) for of in zip(*rounds, strict=True))
    return statistics.median(other / mine for mine, other in rounds), mine, other


def compare(one: Instruction, given: dict[str, np.ndarray], odd: dict[str, np.ndarray], theirs: list[np.ndarray]) -> None:
    for what, bits, other in zip(("normally distributed numbers", "any bits"), (given, odd), theirs, strict=True):
        mine = multiply(one, bits)
        differ = np.argwhere(mine != other)
        print(f"  {one.name:>17}: {len(differ):,} of {mine.size:,} results have other bits in mmasim, {what}")
        if len(differ):
            tile, m, n = differ[0]
            row = {name: bits[name][tile, n if name.endswith("b") else m] for name in bits if name != "c"}
            print(f"{'':>19}  e.g. D {mine[tile, m, n]:#x}, there {other[tile, m, n]:#x}: c {bits['c'][tile, m, n]:#x}", end="")
            print("".join(f", {name} {' '.join(f'{x:x}' for x in values)}" for name, values in row.items()))


def solver() -> None:
    """All descriptors of a 128 x 64 bf16 tile in steps of 16: from its addresses, and from a dump of the largest window."""
    operand: dict[str, Any] = {"arch": "sm_90a", "dtype": "bf16", "major": "K"}
    d = smemsim.SmemDescriptor(arch="sm_90a", start_address=2048, stride_byte_offset=1024, swizzle="128B")
    words = np.array([d.advance(32 * step).encode() for step in range(4)], np.uint64)

    def addresses() -> np.ndarray:
        return smemsim.operand_addresses(words, rows=128, k=16, **operand)

    places = addresses().astype(np.int64)
    codes = np.random.default_rng(1).integers(0, 1 << 16, places.shape).astype(np.uint16)
    dump = np.zeros(227 << 10, np.uint8)
    dump[places - 1024], dump[places - 1023] = codes & 255, codes >> 8
    for what, find in (
        ("addresses", lambda: smemsim.find_descriptors(places, **operand)),
        ("a dump of 227 KiB", lambda: smemsim.find_descriptors(dump=dump, base=1024, operand=codes, **operand)),
    ):
        assert len(find().descriptors) == 2
        once = statistics.median(seconds(find) for _ in range(9))
        print(f"find_descriptors, 128 x 64 bf16, from {what}: {ratio(find, addresses):,.0f} times operand_addresses, {once * 1e3:.1f} ms")


def campaigns() -> None:
    """Sweeps: the rate of whole spaces, and what a second worker adds. Rates have the start of the workers in them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chunk = smemsim.campaign.spaces.space("smem").chunk_cases
    smemsim.sweep(["smem"], cases=1, workers=1)  # compiles
    busy = time.process_time()
    one = smemsim.sweep(["smem"], cases=8 * chunk, workers=1)
    busy = time.process_time() - busy
    two = smemsim.sweep(["smem"], cases=8 * chunk, workers=2)
    print(f"campaign smem, {cores} processors, {os.getloadavg()[0]:.1f} processes want one: {60 * one.cases / one.elapsed:.2g} descriptors a minute "
          f"with one worker ({60 * one.cases / busy:.2g} in a minute of processor time), {60 * two.cases / two.elapsed:.2g} with two, {one.elapsed / two.elapsed:.2f}x")  # fmt: skip
    words = smemsim.sweep(["idesc-f16"], workers=2)
    print(f"campaign idesc-f16: all {words.cases:,} words in {words.elapsed:.0f} s with two workers")
    try:
        from distributed import LocalCluster
    except ImportError:
        print("campaign --dask left out: dask.distributed is not installed")
        return
    took = []
    for count in (1, 2):
        with LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
            smemsim.sweep(["smem"], cases=2 * chunk, seed=1, dask=cluster.scheduler_address)  # loads what is compiled
            took.append(smemsim.sweep(["smem"], cases=8 * chunk, dask=cluster.scheduler_address).elapsed)
    print(f"campaign smem --dask: two workers are {took[0] / took[1]:.2f}x as fast as one")


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
    arithmetic()
    solver()
    campaigns()
    commands()
