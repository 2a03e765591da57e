"""Launches of tensor-core kernels: mma.sync, wmma, wgmma of every type, whole GEMMs, the reference kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.capture.cases import gemm_operand
from tools.capture.launch_kernels.arrays import bf16, fp8, nearest_bf16, product, spread_d
from tools.capture.launch_kernels.spec import array, cuda, tiled, value, zeros

KINDS = {
    "f16": (16, 14, "f16", 2),
    "bf16": (17, 8, "bf16", 2),
    "tf32": (19, 8, "f32", 1),
    "fp8": (8, 12, "e4m3", 4),
    "int": (0, 24, "u8", 4),
}
for kind, (code, slots, dtype, lanes) in KINDS.items():
    for what, drawn in (("", "bits"), ("integers", {"integers": [-8, 8]}), ("normal", {"normal": [0, 2]})):
        if (kind == "int") != (what == ""):
            continue
        sums: Any = ("s32", {"integers": [-1000, 2**31 - 9000]}) if kind == "int" else ("f16", drawn) if kind == "f16" else ("f32", drawn)
        cuda(f"mma_{kind}" + (f"_{what}" if what else ""), f"mma.sync of {kind}, {what or 'any bits'}", [array("A", dtype, (64, 4 * lanes), drawn), array("B", dtype, (64, 2 * lanes), drawn),
             array("C", sums[0], (64, 8 if kind == "f16" else 4), sums[1]), zeros("out", "u32", (slots, 64))], "out", grid=2, block=32, source="mma_shapes.cu", entry="mma_shapes",
             defines=(f"KIND={code}",))  # fmt: skip
cuda("mma_f64", "mma.sync in double precision", [array("A", "f64", (64, 8), {"normal": [0, 1]}), array("B", "f64", (64, 4), {"normal": [0, 1]}),
     array("C", "f64", (64, 4), {"normal": [0, 1]}), zeros("out", "f64", (14, 64))], "out", grid=2, block=32)  # fmt: skip
PATTERNS = [4, 8, 12, 9, 13, 14]  # two of four: 0-1, 0-2, 0-3, 1-2, 1-3, 2-3
METADATA = [sum(PATTERNS[(i * 7 + 5 * n + i * n // 3) % 6] << 4 * n for n in range(8)) for i in range(64)]
cuda("mma_sparse", "mma.sp with metadata, both selectors", [array("A", "f16", (64, 8), {"integers": [-8, 8]}), array("B", "f16", (64, 8), {"integers": [-8, 8]}),
     array("C", "f32", (64, 4), {"integers": [-99, 99]}), array("metadata", "u32", 64, {"values": METADATA}), zeros("out", "u32", (16, 64))], "out", grid=2,
     block=32)  # fmt: skip

# Kernels that draw their numbers themselves (cuda/mma_hard.cuh); out: results, then threads.
cuda(
    "mma_hard",
    "mma.sync and mma.sp of floats, on numbers that are hard to sum",
    [zeros("out", "u32", (272, 4096))],
    "out",
    grid=32,
    block=128,
)
for kind, code, slots in (("s8", 8, 176), ("s4", 4, 196)):
    cuda(f"mma_hard_{kind}", f"mma.sync and mma.sp of {kind}{' and b1' * (kind == 's4')}, near the ends of s32", [zeros("out", "u32", (slots, 1024))], "out", grid=8, block=128,
         source="mma_hard_int.cu", entry="mma_hard_int", defines=(f"KIND={code}",))  # fmt: skip
cuda(
    "mma_hard_f64",
    "mma.sync in double precision in every rounding, on numbers that are hard to sum",
    [zeros("out", "f64", (56, 2048))],
    "out",
    grid=16,
    block=128,
)
cuda("wmma_packed", "CUDA's wmma fragments of 4 bits and of one bit", [array("A", "u32", (8, 16), "bits"), array("B", "u32", (8, 16), "bits"),
     array("C", "s32", (8, 32), {"integers": [2**31 - 3000, 2**31 - 1]}), zeros("out", "s32", (6, 256))], "out", grid=4, block=32)  # fmt: skip
cuda("wmma_mixed", "CUDA's wmma fragments, with C and D of two types, and in other shapes", [array("A", "f16", (4, 512), {"normal": [0, 2]}), array("B", "f16", (4, 512), {"normal": [0, 2]}),
     array("half_C", "f16", (4, 512), {"normal": [0, 8]}), array("C", "f32", (4, 512), {"normal": [0, 8]}), array("int_C", "s32", (4, 512), {"integers": [2**31 - 40000, 2**31 - 1]}),
     zeros("out", "f32", (3, 4, 512)), zeros("half_out", "f16", (2, 4, 512)), zeros("int_out", "s32", (2, 4, 512))], "out half_out int_out", grid=4, block=32)  # fmt: skip


def wmma(a: dict[str, np.ndarray]) -> dict[str, Any]:
    d = product(a["A"], a["B"])
    return {"C": d, "D": (d + 1).T}


cuda("wmma_tiles", "CUDA's wmma fragments", [array("A", "f16", (32, 48), {"integers": [-3, 3]}), array("B", "f16", (32, 48), {"integers": [-3, 3]}), zeros("C", "f32", (32, 32)),
     zeros("D", "f16", (32, 32)), value(48, "s32")], "C D", grid=(2, 2), block=32, expect=wmma)  # fmt: skip

cuda("wmma_tf32", "CUDA's wmma fragments of tf32", [array("A", "f32", (4, 256), {"normal": [0, 1]}), array("B", "f32", (4, 256), {"normal": [0, 1]}),
     array("C", "f32", (4, 256), {"normal": [0, 1]}), zeros("D", "f32", (4, 256))], "D", grid=4, block=32)  # fmt: skip

# (name, shape, types a and b, what follows the shape, macro, C type of D's registers, how many, distribution)
TRANSPOSES, SCALES = ", 1, 1, 0, 0", ", 1, 1"
SMALL: Any = {"integers": [-4, 4]}
NORMAL: Any = {"normal": [0, 1]}
TYPES = [
    ("bf16", "m64n64k16.f32.bf16.bf16", "bf16", "bf16", TRANSPOSES, "WGMMA_32F", "float", 32, NORMAL),
    ("f16", "m64n64k16.f32.f16.f16", "f16", "f16", TRANSPOSES, "WGMMA_32F", "float", 32, NORMAL),
    ("f16_f16", "m64n64k16.f16.f16.f16", "f16", "f16", TRANSPOSES, "WGMMA_16R", "u32", 16, NORMAL),
    ("tf32", "m64n64k8.f32.tf32.tf32", "f32", "f32", SCALES, "WGMMA_32F", "float", 32, NORMAL),
    ("e4m3", "m64n64k32.f32.e4m3.e4m3", "e4m3", "e4m3", SCALES, "WGMMA_32F", "float", 32, NORMAL),
    ("e5m2_e4m3", "m64n64k32.f32.e5m2.e4m3", "e5m2", "e4m3", SCALES, "WGMMA_32F", "float", 32, SMALL),
    ("s8", "m64n64k32.s32.s8.s8", "s8", "s8", "", "WGMMA_32R", "u32", 32, "bits"),
    ("u8_satfinite", "m64n64k32.s32.u8.u8.satfinite", "u8", "u8", "", "WGMMA_32R", "u32", 32, "bits"),
]
SIZES = {"bf16": 2, "f16": 2, "f32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
NUMBERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"bf16": bf16, "e4m3": lambda x: fp8(x, 4), "e5m2": lambda x: fp8(x, 5)}


def gemm(type_a: str, type_b: str, registers: int, relative: bool) -> Callable[[dict[str, np.ndarray]], dict[str, Any]]:
    def expect(a: dict[str, np.ndarray]) -> dict[str, Any]:
        d = product(*(NUMBERS.get(t, np.asarray)(a[n]) for n, t in (("A", type_a), ("B", type_b))))
        blocks = [spread_d(d[64 * x : 64 * x + 64, 64 * y : 64 * y + 64], 32) for y in range(2) for x in range(2)]
        if registers == 16:
            return {"D": np.stack([b.reshape(16, 2, 128).transpose(0, 2, 1) for b in blocks])}
        return {"D": np.stack(blocks)}

    return expect


for name, shape, type_a, type_b, tail, macro, c_type, registers, drawn in TYPES:
    size = SIZES[type_a]
    per_row, tiles = 128 // size, 3
    extent = per_row * tiles
    kinds = {"f32": "f32", "s8": "u8", "u8": "u8", "e4m3": "u8", "e5m2": "u8"}
    maps = [
        tiled(of, kinds.get(t, t), (extent, 128), (extent * size,), (per_row, 64), swizzle="128B")
        for of, t in (("A", type_a), ("B", type_b))
    ]
    d_type = "f16" if registers == 16 else "s32" if c_type == "u32" else "f32"
    d_shape = (4, registers, 128, 2) if registers == 16 else (4, registers, 128)
    cuda(f"gemm_{name}", f"TMA and wgmma {shape}, two stages, 128 x 128 x {extent}", [*maps, zeros("D", d_type, d_shape), zeros("image", "u32", 8192), value(tiles, "s32"),
         value(per_row, "s32")], "D image", grid=(2, 2), shared_bytes=32768, hidden=[array("A", type_a, (128, extent), drawn), array("B", type_b, (128, extent), drawn)],
         source="gemm_tile.cu", entry="gemm_tile", expect=gemm(type_a, type_b, registers, True),
         tolerance={} if c_type == "u32" and registers == 32 else {"relative": 0.02, "absolute": 0.2},
         defines=(f"WGMMA={macro}", f'SHAPE="{shape}"', f'TAIL="{tail}"', f"TYPE={c_type}", f"REGISTERS={registers}"))  # fmt: skip


def from_registers(a: dict[str, np.ndarray]) -> dict[str, Any]:
    left, right = bf16(a["A"]).astype(np.float64), bf16(a["B"]).astype(np.float64)
    left[:, 1::2] *= -1
    start = np.zeros((64, 128))
    for i in range(32):
        t = np.arange(128)
        for block in range(2):
            start[16 * (t // 32) + t % 32 // 4 + 8 * (i >> 1 & 1), 64 * block + 2 * (t % 4) + (i & 1) + 8 * (i >> 2)] = i
    return {"D": left @ right + start}


cuda("wgmma_registers", "wgmma with A from registers by ldmatrix, B MN-major", [tiled("A", "bf16", (192, 64), (384,), (64, 64), swizzle="128B"),
     tiled("B", "bf16", (128, 192), (256,), (64, 64), swizzle="128B"), zeros("D", "f32", (64, 128)), value(3, "s32")], "D", grid=2, shared_bytes=16384,
     hidden=[array("A", "bf16", (64, 192), NORMAL), array("B", "bf16", (192, 128), NORMAL)], expect=from_registers, tolerance={"relative": 0.01, "absolute": 0.05})  # fmt: skip
SPARSE = [sum(PATTERNS[(i * 11 + 3 * n + i * n // 2) % 6] << 4 * n for n in range(8)) for i in range(512)]
cuda("wgmma_sparse", "wgmma.sp from shared memory without swizzle, both selectors' worth of metadata", [array("A", "f16", (2, 1024), SMALL), array("B", "f16", (2, 2048), SMALL),
     array("metadata", "u32", 512, {"values": SPARSE}), zeros("D", "f32", (4, 8, 128))], "D", grid=2)  # fmt: skip


def rounded(a: dict[str, np.ndarray]) -> dict[str, Any]:
    return {"C": bf16(nearest_bf16(product(bf16(a["A"]), bf16(a["B"])).astype(np.float32)))}


for name, (m, n, k), ctas, stages in (("gemm_specialized", (256, 256, 256), 3, 3), ("gemm_specialized_k1024", (128, 128, 1024), 1, 4)):
    cuda(name, f"A warp-specialised persistent GEMM with setmaxnreg, {m} x {n} x {k}, {stages} stages",
         [tiled("A", "bf16", (k, m), (2 * k,), (64, 128), swizzle="128B", l2_promotion="128B"), tiled("B", "bf16", (k, n), (2 * k,), (64, 128), swizzle="128B", l2_promotion="128B"),
          tiled("C", "bf16", (n, m), (2 * n,), (64, 64), swizzle="128B"), value(m // 128, "s32"), value(n // 128, "s32"), value(k // 64, "s32")], "C", grid=ctas, block=384,
         shared_bytes=stages * 32768 + 32768, hidden=[array("A", "bf16", (m, k), NORMAL), array("B", "bf16", (n, k), NORMAL), zeros("C", "bf16", (m, n))], expect=rounded,
         source="gemm_specialized.cu", entry="gemm_specialized", tolerance={"relative": 0.02, "absolute": 0.1}, defines=(f"STAGES={stages}",))  # fmt: skip


def reference(major_a: str, major_b: str, swizzle_a: int, swizzle_b: int) -> None:
    k, sides, maps, hidden = 192, [], [], []
    for of, major, swizzle in (("A", major_a, swizzle_a), ("B", major_b, swizzle_b)):
        operand = gemm_operand(swizzle, major)
        shape = (128, k) if major == "K" else (k, 128)
        sides.append(operand)
        maps.append(
            tiled(
                of,
                "bf16",
                (shape[1], shape[0]),
                (2 * shape[1],),
                operand["box_dim"],
                swizzle=("none", "32B", "64B", "128B")[swizzle],
                l2_promotion="128B",
            )
        )
        hidden.append(array(of, "bf16", shape, NORMAL))
    columns = [[([box[i] for box in side["boxes"]] + [0] * 8)[:8] for i in range(3)] for side in sides]
    (offset_a, row_a, k_a), (offset_b, row_b, k_b) = columns
    plan = (
        [len(side["boxes"]) for side in sides]
        + offset_a
        + offset_b
        + row_a
        + k_a
        + row_b
        + k_b
        + [int(major_a == "MN"), int(major_b == "MN")]
    )
    plan += [half for side in sides for word in side["words"] for half in (word & 0xFFFFFFFF, word >> 32)]

    def expect(a: dict[str, np.ndarray]) -> dict[str, Any]:
        left, right = (bf16(a[of]) if major == "K" else bf16(a[of]).T for of, major in (("A", major_a), ("B", major_b)))
        return {"D": product(left, right)}

    names = ("none", "32b", "64b", "128b")
    cuda(f"reference_{major_a[0]}{major_b[0]}_{names[swizzle_a]}_{names[swizzle_b]}".lower(), f"The reference GEMM: A {major_a}-major, B {major_b}-major, 128 x 128 x {k}",
         [*maps, array("plan", "u32", len(plan), {"values": plan}), value(k, "s32"), zeros("D", "f32", (128, 128)), zeros("image", "u8", 16384), zeros("descriptors", "u64", (12, 2))],
         "D image descriptors", grid=(2, 2), shared_bytes=2 * 16384 + 64, hidden=hidden, source="reference_tile.cu", entry="reference", expect=expect,
         tolerance={"relative": 0.01, "absolute": 0.05}, defines=(f"MAJOR_A={int(major_a == 'MN')}", f"MAJOR_B={int(major_b == 'MN')}"))  # fmt: skip


for arguments in (
    ("K", "K", 3, 3),
    ("K", "MN", 3, 3),
    ("MN", "K", 2, 2),
    ("MN", "MN", 3, 1),
    ("K", "K", 0, 0),
    ("K", "MN", 1, 2),
    ("MN", "MN", 0, 3),
    ("MN", "K", 1, 0),
):
    reference(*arguments)
