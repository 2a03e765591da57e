"""Launches of Triton and Gluon kernels. Block, shared memory, maps and scratch are completed when they are compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tools.capture.launch_kernels.arrays import bf16, fp8, product
from tools.capture.launch_kernels.spec import array, descriptor, triton, value, zeros

Arrays = Mapping[str, np.ndarray]
NORMAL: Any = {"normal": [0, 1]}
NUMBERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"bf16": bf16, "e4m3": lambda x: fp8(x, 4), "e5m2": lambda x: fp8(x, 5)}


def s32(n: int) -> dict[str, Any]:
    return value(n, "s32")


def numbers(dtype: str, x: np.ndarray) -> np.ndarray:
    return np.asarray(NUMBERS.get(dtype, np.asarray)(x), np.float64)


for dtype in ("f32", "f16", "bf16", "s32", "s8", "f64"):
    drawn = "bits" if dtype[0] == "s" else NORMAL
    triton(f"add_{dtype}", f"x + y of {dtype}", "rows.add", [array("x", dtype, 3000, drawn), array("y", dtype, 3000, drawn), zeros("out", dtype, 3000), s32(3000)], "out",
           {"BLOCK": 1024}, grid=3)  # fmt: skip
triton("gelu", "GELU of bf16 by the error function", "rows.gelu", [array("x", "bf16", 2000, {"normal": [0, 2]}), zeros("out", "bf16", 2000), s32(2000)], "out", {"BLOCK": 512}, grid=4,
       why_not_exact="libdevice's erf uses ex2.approx")  # fmt: skip
triton("mixed", "Integers, halves and doubles in one expression", "rows.mixed", [array("x", "s32", 1500, {"integers": [-5000, 5000]}), array("y", "f16", 1500, NORMAL),
       array("z", "f32", 1500, NORMAL), zeros("out", "f64", 1500), s32(1500)], "out", {"BLOCK": 256}, grid=6)  # fmt: skip
triton("casts", "Conversions to fp8, bf16, integers", "rows.casts", [array("x", "f32", 1024, {"normal": [0, 5]}), zeros("f8", "e4m3", 1024), zeros("brain", "bf16", 1024),
       zeros("integer", "s8", 1024), zeros("half", "f16", 1024), s32(1000)], "f8 brain integer half", {"BLOCK": 512}, grid=2)  # fmt: skip


def softmax(a: Arrays) -> dict[str, Any]:
    x = np.exp(a["x"].astype(np.float64))
    x[:, 700:] = 0
    return {"out": x / x.sum(1, keepdims=True)}


triton("softmax", "A softmax of rows", "rows.softmax", [array("x", "f32", (8, 704), {"normal": [0, 2]}), zeros("out", "f32", (8, 704)), s32(700), s32(704)], "out", {"BLOCK": 1024},
       grid=8, why_not_exact="ex2.approx, div.full", tolerance={"relative": 1e-5}, expect=softmax)  # fmt: skip


def layernorm(a: Arrays) -> dict[str, Any]:
    x = a["x"].astype(np.float64)
    return {"out": (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * a["weight"] + a["bias"]}


triton("layernorm", "A layer normalisation of f16", "rows.layernorm", [array("x", "f16", (6, 600), NORMAL), array("weight", "f32", 600, NORMAL), array("bias", "f32", 600, NORMAL),
       zeros("out", "f16", (6, 600)), s32(600), value(1e-5, "f32")], "out", {"BLOCK": 1024}, grid=6, why_not_exact="sqrt.approx, div.full",
       tolerance={"relative": 0.002, "absolute": 0.003}, expect=layernorm)  # fmt: skip


def reductions(a: Arrays) -> dict[str, Any]:
    x = a["x"]
    return {"sums": np.concatenate([x.sum(2), x.sum(1)], 1), "most": x.max(2), "places": np.concatenate([x.argmax(2), x.argmin(1)], 1)}


triton("reductions", "Sums, extremes and their places along both axes", "rows.reductions", [array("x", "f32", (2, 32, 64), {"integers": [-40, 40]}), zeros("sums", "f32", (2, 96)),
       zeros("most", "f32", (2, 32)), zeros("places", "s32", (2, 96))], "sums most places", {"M": 32, "N": 64}, grid=2, expect=reductions)  # fmt: skip
triton("scans", "A cumulative sum and a recurrence by associative_scan", "rows.scans", [array("x", "s32", (32, 64), {"integers": [-9, 9]}), array("y", "f32", (32, 64), {"values": [0.5, 1, -1, 2]}),
       zeros("sums", "s32", (32, 64)), zeros("recurrence", "f32", (32, 64))], "sums recurrence", {"M": 32, "N": 64}, expect=lambda a: {"sums": a["x"].cumsum(1)})  # fmt: skip
triton("sort", "A sort of rows", "rows.sort", [array("x", "s32", (8, 128), {"integers": [-500, 500]}), zeros("out", "s32", (8, 128))], "out", {"M": 8, "N": 128},
       expect=lambda a: {"out": np.sort(a["x"], axis=1)})  # fmt: skip
triton("gather_scatter", "Rows by index, counts by atomics", "rows.gather_scatter", [array("x", "f16", (50, 32), NORMAL), array("index", "s32", 200, {"integers": [0, 49]}),
       zeros("out", "f16", (200, 32)), zeros("histogram", "s32", 50), s32(200)], "out histogram", {"ROW": 32, "BLOCK": 64}, grid=4,
       expect=lambda a: {"out": a["x"][a["index"]], "histogram": np.bincount(a["index"], minlength=50)})  # fmt: skip
triton("dropout", "Dropout with tl.rand (Philox)", "rows.dropout", [array("x", "f32", 2000, NORMAL), zeros("out", "f32", 2000), s32(2000), value(0.3, "f32"), s32(1234)], "out",
       {"BLOCK": 512}, grid=4, why_not_exact="div.full")  # fmt: skip
triton("atomics", "Atomics, whose results no order changes", "rows.atomics", [array("x", "s32", 1000, {"integers": [0, 999]}), zeros("total", "f32", 1), zeros("most", "s32", 4),
       zeros("bits", "s32", 8), zeros("exchanged", "s32", 1), s32(1000)], "total most bits exchanged", {"BLOCK": 256}, grid=4)  # fmt: skip
triton("histogram", "tl.histogram", "rows.histogram", [array("x", "s32", 2048, {"integers": [0, 63]}), zeros("out", "s32", 64)], "out", {"BLOCK": 1024, "BINS": 64}, grid=2,
       expect=lambda a: {"out": np.bincount(a["x"], minlength=64)})  # fmt: skip
triton("transpose", "A transpose, a split and a join", "rows.transpose", [array("x", "f16", (32, 64), NORMAL), zeros("out", "f16", (64, 32))], "out", {"M": 32, "N": 64},
       expect=lambda a: {"out": a["x"].T.reshape(64, 16, 2)[..., ::-1].reshape(64, 32)})  # fmt: skip
triton(
    "while_loop",
    "A loop as long as the data say",
    "rows.while_loop",
    [array("x", "s32", 512, {"integers": [1, 300]}), zeros("out", "s32", 512), s32(500)],
    "out",
    {"BLOCK": 128},
    grid=4,
)


def matmul(dtype: str) -> Callable[[Arrays], dict[str, Any]]:
    return lambda a: {"c": numbers(dtype, a["a"]) @ numbers(dtype, a["b"])}


LOOSE = {"relative": 0.02, "absolute": 0.2}
for dtype, (m, n, k), block, warps, stages in (("f16", (128, 128, 256), (64, 128, 64), 4, 3), ("bf16", (128, 128, 256), (128, 128, 64), 8, 2), ("f32", (64, 128, 96), (64, 64, 32), 4, 3),
                                               ("s8", (128, 64, 128), (64, 64, 64), 4, 2), ("e4m3", (64, 128, 256), (64, 64, 128), 4, 3), ("f16", (100, 90, 80), (32, 32, 16), 2, 2)):  # fmt: skip
    drawn, out = (
        ({"integers": [-9, 9]}, "s32") if dtype == "s8" else (NORMAL, "f32" if dtype == "f32" else "f16" if dtype != "bf16" else "bf16")
    )
    name = f"matmul_{dtype}" + ("_edges" if m == 100 else "")
    triton(name, f"A matrix product of {dtype} by pointers, {m} x {n} x {k}", "products.matmul", [array("a", dtype, (m, k), drawn), array("b", dtype, (k, n), drawn), zeros("c", out, (m, n)),
           s32(m), s32(n), s32(k), s32(k), s32(1), s32(n), s32(1), s32(n)], "c", {"BM": block[0], "BN": block[1], "BK": block[2], "WHOLE": dtype == "s8"},
           grid=(-(-m // block[0]), -(-n // block[1])), options={"num_warps": warps, "num_stages": stages}, expect=matmul(dtype), tolerance={} if dtype == "s8" else LOOSE)  # fmt: skip


def transposed(a: Arrays) -> dict[str, Any]:
    return {"c": product(bf16(a["a"]), bf16(a["b"]))}


def host(
    name: str,
    title: str,
    kernel: str,
    size: tuple[int, int, int],
    block: tuple[int, int, int],
    extra: list[dict[str, Any]],
    constants: dict[str, Any],
    grid: Any,
    **more: Any,
) -> None:
    (m, n, k), (bm, bn, bk) = size, block
    triton(name, title, kernel, [descriptor("a", (m, k), (bm, bk)), descriptor("b", (n, k), (bn, bk)), descriptor("c", (m, n), (bm, bn)), *extra], "c",
           {"BM": bm, "BN": bn, "BK": bk} | constants, grid=grid, hidden=[array("a", "bf16", (m, k), NORMAL), array("b", "bf16", (n, k), NORMAL), zeros("c", "bf16", (m, n))],
           expect=transposed, tolerance=LOOSE, **more)  # fmt: skip


host(
    "matmul_host",
    "Host tensor descriptors, 128 x 128 x 256",
    "products.matmul_host",
    (128, 128, 256),
    (128, 64, 64),
    [s32(256)],
    {},
    (1, 2),
    options={"num_stages": 3},
)
host(
    "matmul_512",
    "Host tensor descriptors, 512 x 512 x 512",
    "products.matmul_host",
    (512, 512, 512),
    (128, 128, 64),
    [s32(512)],
    {},
    (4, 4),
    options={"num_warps": 8, "num_stages": 3},
)
host(
    "matmul_k1024",
    "One tile of 128 x 128, K = 1024",
    "products.matmul_host",
    (128, 128, 1024),
    (128, 128, 64),
    [s32(1024)],
    {},
    1,
    options={"num_warps": 8, "num_stages": 4},
)
host("matmul_cluster", "Clusters of two CTAs (num_ctas), host tensor descriptors", "products.matmul_host", (256, 128, 128), (128, 128, 64), [s32(128)], {}, (2, 1),
     options={"num_ctas": 2, "num_stages": 3})  # fmt: skip
host("matmul_persistent", "A persistent product", "products.matmul_persistent", (256, 256, 128), (128, 128, 64), [s32(256), s32(256), s32(128)], {}, 2,
     options={"num_warps": 4, "num_stages": 3})  # fmt: skip
host("matmul_ws", "warp_specialize by the compiler", "products.matmul_specialized", (128, 128, 256), (64, 128, 64), [s32(256)], {}, 2,
     options={"num_warps": 4, "num_stages": 3})  # fmt: skip
triton("matmul_device", "Tensor descriptors made on the device", "products.matmul_device", [array("a", "f16", (128, 192), NORMAL), array("b", "f16", (192, 128), NORMAL), zeros("c", "f16", (128, 128)),
       s32(128), s32(128), s32(192)], "c", {"BM": 64, "BN": 128, "BK": 64}, grid=(2, 1), options={"num_stages": 3}, expect=matmul("f16"), tolerance=LOOSE)  # fmt: skip
triton("matmul_split", "Split along K, parts added by atomics", "products.matmul_split", [array("a", "f16", (64, 256), {"integers": [-4, 4]}), array("b", "f16", (256, 64), {"integers": [-4, 4]}),
       zeros("c", "f32", (64, 64)), s32(64), s32(64), s32(256)], "c", {"BM": 64, "BN": 64, "BK": 32, "SPLIT": 2}, grid=(1, 1, 2), expect=matmul("f16"))  # fmt: skip


def attention(causal: bool) -> Callable[[Arrays], dict[str, Any]]:
    def expect(a: Arrays) -> dict[str, Any]:
        q, k, v = (a[name].astype(np.float64).reshape(2, 128, 64) for name in "qkv")
        s = q @ k.transpose(0, 2, 1) * 0.125
        s = np.where(np.tril(np.ones((128, 128))) > 0, s, -np.inf) if causal else s
        p = np.exp(s - s.max(2, keepdims=True))
        return {"out": (p / p.sum(2, keepdims=True) @ v).reshape(256, 64)}

    return expect


for name, causal in (("attention", False), ("attention_causal", True)):
    triton(name, "Flash attention, forward" + ", causal" * causal, "products.attention", [descriptor(of, (256, 64), (64, 64)) for of in ("q", "k", "v", "out")], "out",
           {"SCALE": 0.125, "ROWS": 128, "D": 64, "BM": 64, "BN": 64, "CAUSAL": causal}, grid=(2, 2), hidden=[*(array(x, "f16", (256, 64), NORMAL) for x in "qkv"),
           zeros("out", "f16", (256, 64))], why_not_exact="ex2.approx, div.full", tolerance={"relative": 0.02, "absolute": 0.01}, expect=attention(causal))  # fmt: skip

triton("gluon_copy", "Gluon: between layouts through swizzled shared memory", "gluon_kernels.copy_2d", [array("x", "f16", (64, 64), {"integers": [-99, 99]}), zeros("out", "f16", (64, 64))], "out",
       {"ROWS": 64, "COLUMNS": 64}, expect=lambda a: {"out": a["x"].T * 2})  # fmt: skip
host(
    "gluon_tile",
    "Gluon: TMA, a barrier, wgmma, a TMA store",
    "gluon_kernels.tile_product",
    (128, 128, 256),
    (64, 128, 64),
    [s32(256)],
    {},
    (2, 1),
)
host(
    "gluon_specialized",
    "Gluon: warp_specialize, a warp that loads, four that multiply",
    "gluon_kernels.specialized",
    (128, 128, 256),
    (64, 64, 64),
    [s32(256)],
    {"STAGES": 3},
    (2, 2),
)
