"""Launches of small programs: control flow, functions, atomics, warps, blocks, whole algorithms."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tools.capture.launch_kernels.arrays import bf16
from tools.capture.launch_kernels.spec import array, cuda, launch, value, zeros

N = 256
Arrays = Mapping[str, np.ndarray]


def words(name: str, shape: Any = N, dtype: str = "u32") -> dict[str, Any]:
    return array(name, dtype, shape, "bits")


cuda("diverge_loops", "Nested loops with break and continue, loops as long as the data say, returns inside a warp",
     [array("x", "u32", N, {"integers": [0, 0xFFFFFF]}), zeros("out", "u32", (5, N))], "out", grid=2)  # fmt: skip
cuda("diverge_switch", "A dense switch in a loop, a sparse one", [words("x"), zeros("out", "u32", (2, N))], "out", grid=2)
cuda("function_pointers", "Calls through a table of pointers to functions", [words("x"), zeros("out", "u32", N)], "out", grid=2)
launch("branches", "brx.idx, negated guards, register parameters, local and shared variables of a function, addresses in initialisers", "ptx/branches.ptx",
       [words("x", 128), zeros("out", "u32", 128), value(117)], "out", grid=2, block=64)  # fmt: skip
cuda("functions", "Functions that are not inlined: structures, pointers to locals",
     [words("x"), array("coefficients", "f32", 8, {"integers": [-9, 9]}), zeros("out", "u32", (8, N)), zeros("wide", "u64", N)], "out wide", grid=2)  # fmt: skip


def recursive(a: Arrays) -> dict[str, Any]:
    fibonacci = np.array([0, 1, 1, 2, 3, 5, 8, 13, 21])
    m, n = a["x"] % 3, a["x"].astype(int) >> 8 & 3
    return {"out": np.stack([fibonacci[a["x"] % 9], np.choose(m, [n + 1, n + 2, 2 * n + 3])])}


cuda("recursion", "Functions that call themselves", [words("x"), zeros("out", "u32", (2, N))], "out", grid=2, expect=recursive)
cuda("local_arrays", "Local memory with indices known at run time", [words("x"), zeros("out", "u32", (4, N))], "out", grid=2)
cuda("constants", "Constant memory and initialised variables", [words("x", 128), zeros("out", "u32", 3 * 128 + 16)], "out", grid=1)
cuda("generic_addresses", "Generic addresses of every space, special registers", [words("x"), zeros("out", "u32", (18, N))], "out", grid=2,
     shared_bytes=512)  # fmt: skip

FIRST = [5, 77, 0xFFFFFFFF, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0, 0x12345678, 50, 60, 0, 9, 8, 0x80000000, 0]
cuda("atomics_global", "Atomics and reductions on global memory, whose results no order changes",
     [words("x"), array("words", "u32", 32, {"values": FIRST + [0] * 16}), array("longs", "u64", 8, {"values": [1, 1 << 60, 1 << 63, (1 << 64) - 1, 7, 0, 0, 0]}),
      array("floats", "f32", 16, {"integers": [-4, 4]}), array("doubles", "f64", 4, {"integers": [-4, 4]}), zeros("halves", "u32", 12),
      zeros("unique", "u32", 2 * N)], "words longs floats doubles halves unique", grid=2)  # fmt: skip
cuda("atomics_shared", "Atomics on shared memory, and all of it afterwards", [words("x"), zeros("out", "u32", (2, 96)), zeros("returned", "u32", N)],
     "out returned", grid=2)  # fmt: skip
cuda("warp_ops", "Shuffles, votes, matches, elections, reductions of warps", [words("x"), zeros("out", "u32", (44, N))], "out", grid=2)
cuda("partial_warps", "Shuffles that ask lanes which take no part; who is together behind loops and switches",
     [words("x"), zeros("out", "u32", (7, N))], "out", grid=2)  # fmt: skip
NANS = [0x7FF8000000000001, 0xFFF8000000000002, 0x7FF0000000000003, 0xFFF0000000000004, 0x3FF0000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0]  # fmt: skip
cuda("nan_atomics", "Sums of doubles in global and shared memory with NaN operands",
     [array("x", "u64", N, {"values": [n + (n & 7 > 0) * 0x100 for n in NANS]}), array("sums", "u64", N, {"values": [n + (n & 7 > 0) * 0x200 for n in NANS for _ in range(8)]}),
      array("shared_sums", "u64", N, {"values": [n + (n & 7 > 0) * 0x300 for n in NANS for _ in range(8)]}), zeros("before", "u64", N)],
     "sums shared_sums before", grid=2)  # fmt: skip
cuda("block_barriers", "Barriers that reduce, named barriers, arrivals, a reduction tree",
     [array("x", "u32", N, {"integers": [0, 99999]}), zeros("out", "u32", 9 * N + 2 * 192)], "out", grid=2, shared_bytes=768)  # fmt: skip


def simt_product(a: Arrays) -> dict[str, Any]:
    return {"C": (a["A"].astype(np.float64) @ a["B"].astype(np.float64)).astype(np.float32)}


cuda("matmul_simt", "A matrix product in f32 without tensor cores, edges cut",
     [array("A", "f32", (60, 72), {"integers": [-8, 8]}), array("B", "f32", (72, 50), {"integers": [-8, 8]}), zeros("C", "f32", (60, 50)), value(60, "s32"),
      value(50, "s32"), value(72, "s32")], "C", grid=(2, 2), block=(32, 8), expect=simt_product)  # fmt: skip
cuda("transpose", "Transposes: through shared memory, of bits by votes, of words by shuffles",
     [words("x", (64, 64)), zeros("out", "u32", (64, 64)), zeros("bits", "u32", 128), zeros("by_shuffles", "u32", 512)], "out bits by_shuffles",
     grid=(2, 2), block=(32, 4), expect=lambda a: {"out": a["x"].T})  # fmt: skip
cuda("scan", "A prefix sum over the grid in one pass: each block waits for the one before it",
     [words("x", 2048), zeros("out", "u32", 2048), zeros("sums", "u32", 8), zeros("ready", "u32", 8)], "out sums ready", grid=8, block=256,
     expect=lambda a: {"out": np.cumsum(a["x"], dtype=np.uint32)})  # fmt: skip
cuda("histogram", "A histogram in shared, then in global memory", [words("x", 8192, "u8"), value(8192), zeros("bins", "u32", 256)], "bins", grid=4, block=128,
     expect=lambda a: {"bins": np.bincount(a["x"], minlength=256)})  # fmt: skip
cuda("bitonic_sort", "A bitonic sort of keys with values", [array("keys", "u32", 512, {"integers": [0, 300]}), array("values", "u32", 512, {"iota": [0, 1]})],
     "keys values", grid=2, block=256, expect=lambda a: {"keys": np.sort(a["keys"].reshape(2, 256), axis=1).ravel()})  # fmt: skip


def softmax(a: Arrays) -> dict[str, Any]:
    x = np.exp(a["x"].astype(np.float64))
    return {"out": x / x.sum(1, keepdims=True)}


cuda("softmax", "A softmax of rows, a warp a row", [array("x", "f32", (16, 200), {"normal": [0, 2]}), zeros("out", "f32", (16, 200)), value(200, "s32")], "out",
     grid=4, why_not_exact="ex2.approx and div.approx", tolerance={"relative": 1e-5}, expect=softmax)  # fmt: skip


def layernorm(a: Arrays) -> dict[str, Any]:
    x, w = (bf16(a[name]).astype(np.float64) for name in ("x", "weight"))
    return {"out": (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w}


cuda("layernorm", "A layer normalisation in bf16, a block a row", [array("x", "bf16", (6, 256), {"normal": [0.5, 1]}), array("weight", "bf16", 256, {"uniform": [0.5, 2]}),
     zeros("out", "bf16", (6, 256)), value(1e-5, "f32")], "out", grid=6, tolerance={"relative": 0.01, "absolute": 0.01}, expect=layernorm)  # fmt: skip
cuda("persistent_tiles", "Blocks take tiles from an atomic counter", [array("x", "f32", 11 * 128, {"integers": [-99, 99]}), zeros("out", "f32", 11 * 128),
     zeros("counter", "u32", 1), zeros("ended", "u32", 1), value(11)], "out ended", grid=4)  # fmt: skip


def stencil(a: Arrays) -> dict[str, Any]:
    at, other = a["even"].copy(), a["odd"]
    for _ in range(4):
        at, other = np.roll(at, 1) + 3 * at + np.roll(at, -1), at
    return {"even": at, "odd": other}


cuda("grid_barrier", "A barrier over the whole grid, rounds of a stencil", [words("even", 512), zeros("odd", "u32", 512), zeros("counter", "u32", 1), value(4)],
     "even odd counter", grid=4, entry="grid_barrier_stencil", cooperative=True, expect=stencil)  # fmt: skip
cuda("mandelbrot", "Escape times: threads leave a loop at different times", [zeros("out", "u32", (32, 64)), value(64), value(-2.1, "f32"), value(-1.2, "f32"),
     value(0.05, "f32")], "out", grid=(4, 4), block=(16, 8))  # fmt: skip


def crc(a: Arrays) -> dict[str, Any]:
    return {"out": [(slice(0, 256), np.array([zlib.crc32(row.tobytes()) for row in a["x"]], np.uint32))]}


cuda("crc_philox", "CRC-32 with a table in shared memory, Philox, rounds of SHA-256", [words("x", (256, 24), "u8"), value(24), zeros("out", "u32", (7, 256))],
     "out", grid=2, expect=crc)  # fmt: skip
STARTS = [0, 5, 5, 70, 71, 140, 200, 201, 256]


def rows(a: Arrays) -> dict[str, Any]:
    terms = a["values"].astype(np.float64) * a["x"][a["columns"]]
    return {"y": np.array([terms[b:e].sum() for b, e in itertools.pairwise(STARTS)])}


cuda("sparse_rows", "A sparse matrix times a vector, f64 sums", [array("starts", "u32", 9, {"values": STARTS}), array("columns", "u32", 256, {"integers": [0, 63]}),
     array("values", "f32", 256, {"integers": [-50, 50]}), array("x", "f32", 64, {"integers": [-50, 50]}), zeros("y", "f64", 8), value(8)], "y", grid=3,
     expect=rows)  # fmt: skip
