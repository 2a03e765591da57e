"""Launches that move data: cp.async, bulk copies, TMA of every mode, mbarriers, clusters, ldmatrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.capture.launch_kernels.spec import array, cuda, tiled, value, zeros


def words(name: str, shape: Any, dtype: str = "u32") -> dict[str, Any]:
    return array(name, dtype, shape, "bits")


cuda("cp_async", "cp.async in groups and with an mbarrier: every size, short sources, a predicate that ignores the source",
     [words("x", 2 * 4096), zeros("out", "u32", 256), zeros("image", "u32", 2048)], "out image", grid=2)  # fmt: skip
cuda("bulk_1d", "Bulk copies and reductions without a tensor map", [words("x", 2048), zeros("out", "u32", 2048), words("sums", 256), zeros("floats", "f32", 128),
     zeros("halves", "u16", 256), zeros("image", "u32", 1024)], "out sums floats halves image", grid=2)  # fmt: skip
cuda("mbarrier_forms", "What mbarriers count: arrivals, drops, transactions, states, parities", [zeros("out", "u32", 64)], "out", grid=2)

TILES = [  # (name, data type, array type, swizzle in, swizzle out, box width)
    ("tma_tiles_128b", "bf16", "u16", "128B", "128B", 64),
    ("tma_tiles_64b", "u16", "u16", "64B", "none", 32),
    ("tma_tiles_32b", "u8", "u8", "32B", "32B", 32),
    ("tma_tiles_f32", "f32", "f32", "none", "128B", 32),
]


def through(width: int) -> Any:
    def expect(a: dict[str, np.ndarray]) -> dict[str, Any]:
        columns, y = np.arange(144), np.zeros_like(a["x"])
        y[5:, 16:] = a["x"][:65, :128]
        return {"y": np.where((columns < 138) & (columns % 64 < width) & (columns < 128), y, 0)}

    return expect


for name, data_type, dtype, load, store, width in TILES:
    size = {"u16": 2, "u8": 1, "f32": 4}[dtype]
    shape, pitch = (70, 144), 144 * size
    x = array("x", dtype, shape, {"integers": [0, 250]})
    maps = [
        tiled(of, data_type, (138, 70), (pitch,), (width, 32), swizzle=swizzle, l2_promotion="128B")
        for of, swizzle in (("x", load), ("y", store))
    ]
    size *= width * 32
    cuda(name, f"TMA tiles of {data_type}, in with swizzle {load}, out with {store}, the first from outside the tensor",
         [*maps, zeros("image", "u32", (6, size // 4)), value(-16, "s32"), value(-5, "s32"), value(size)], "y image", grid=(2, 3), shared_bytes=size,
         hidden=[x, zeros("y", dtype, shape)], expect=through(width) if load == store else None, source="tma_tiles.cu", entry="tma_tiles")  # fmt: skip

SIDES = {
    1: ((300,), (256,), 8),
    3: ((40, 6, 9), (32, 4, 4), 4),
    4: ((48, 4, 5, 6), (64, 2, 2, 2), 4),
    5: ((40, 3, 4, 3, 2), (16, 4, 4, 1, 2), 4),
}


def ranks(side: str) -> list[dict[str, Any]]:
    out = []
    for rank, (dims, box, size) in SIDES.items():
        strides = [int(np.prod(dims[: i + 1])) * size for i in range(rank - 1)]
        out.append(tiled(f"{side}{rank}", {4: "s32", 8: "u64"}[size], dims, strides, box))
    return out


cuda("tma_ranks", "TMA loads and stores of one, three, four and five dimensions", [*ranks("x"), *ranks("y"), zeros("image", "u32", (2, 4, 512))],
     "y1 y3 y4 y5 image", grid=2,
     hidden=[*(array(f"x{r}", {4: "s32", 8: "u64"}[s[2]], tuple(reversed(s[0])), "bits") for r, s in SIDES.items()),
             *(zeros(f"y{r}", {4: "s32", 8: "u64"}[s[2]], tuple(reversed(s[0]))) for r, s in SIDES.items())])  # fmt: skip


def reduced(a: dict[str, np.ndarray]) -> dict[str, Any]:
    words, floats = a["words"].copy(), a["floats"].copy()
    for block in range(2):
        x, inside = a["x"][256 * block : 256 * block + 256].reshape(8, 32), slice(32 * block, min(56, 32 * block + 32))
        x = x[:, : inside.stop - inside.start]
        old = [words[8 * i : 8 * i + 8, inside] for i in range(8)]
        new = [old[0] + x, np.minimum(old[1], x), np.maximum(old[2], x), np.where(old[3] >= x, 0, old[3] + 1), np.where((old[4] == 0) | (old[4] > x), x, old[4] - 1),
               old[5] & x, old[6] | x, old[7] ^ x]  # fmt: skip
        words[:, inside] = np.concatenate(new)
        floats[:, 16 * block : 16 * block + 32] += a["x"][256 * block : 256 * block + 256].reshape(8, 32) >> 20
    return {"words": words, "floats": floats}


REDUCED = [("words", "u32", 4, 32, 64), ("floats", "f32", 4, 32, 8), ("halves", "f16", 2, 64, 16), ("brains", "bf16", 2, 64, 16)]
cuda("tma_reduce", "Reductions of tiles into tensors: every operation of u32, sums of f32, extremes of f16 and bf16",
     [*(tiled(n, t, (56, rows), (64 * size,), (width, 8)) for n, t, size, width, rows in REDUCED), words("x", 512)], "words floats halves brains", grid=2,
     hidden=[array("words", "u32", (64, 64), "bits"), array("floats", "f32", (8, 64), {"integers": [-9, 9]}), array("halves", "f16", (16, 64), {"normal": [0, 2]}),
             array("brains", "bf16", (16, 64), {"normal": [0, 2]})], expect=reduced)  # fmt: skip

IM2COL = {"map": {"data_type": "bf16", "global_address": "x", "global_dim": [16, 8, 8, 2], "global_strides": [32, 256, 2048], "pixel_box_lower_corner": [-1, -1],
          "pixel_box_upper_corner": [-1, -1], "channels_per_pixel": 16, "pixels_per_column": 64, "element_strides": [1, 1, 1, 1], "interleave": "none",
          "swizzle": "32B", "l2_promotion": "none", "oob_fill": "zeros"}}  # fmt: skip
cuda("tma_im2col", "An im2col load of NHWC for a 3 x 3 filter: nine offsets", [IM2COL, zeros("image", "u32", (2, 9, 512))], "image", grid=2, shared_bytes=9 * 2048,
     hidden=[array("x", "bf16", (2, 8, 8, 16), "bits")])  # fmt: skip
cuda("tensormap_edit", "A tensor map made on the device by tensormap.replace, then used",
     [tiled("x", "bf16", (64, 40), (128,), (64, 1)), words("x", (2, 40, 72), "u16"), zeros("maps", "u8", (2, 128)), zeros("image", "u32", (2, 512)), value(72), value(40)],
     "image", grid=2)  # fmt: skip
cuda("matrices_ldst", "ldmatrix and stmatrix of every count, transposed or not; movmatrix", [words("x", 1024), zeros("out", "u32", (15, 64)), zeros("image", "u32", 2048)],
     "out image", grid=2, block=32)  # fmt: skip

cuda("cluster_dsmem", "Distributed shared memory: reads, writes, atomics, cluster barriers", [words("x", 512), zeros("out", "u32", 512), zeros("image", "u32", 1024)],
     "out image", grid=4, cluster=4)  # fmt: skip


def spread_bins(a: dict[str, np.ndarray]) -> dict[str, Any]:
    return {"bins": np.bincount(a["x"] // 2, minlength=128)}


cuda("cluster_groups", "cooperative groups: a histogram spread over the cluster, reductions of tiles", [words("x", 4000, "u8"), value(2000), zeros("bins", "u32", 128),
     zeros("sums", "u32", 512)], "bins sums", grid=4, cluster=2, expect=spread_bins)  # fmt: skip
cuda("cluster_barriers", "Arrivals on another CTA's mbarrier, st.async, red.async, bulk copies from shared to shared memory", [words("x", 512), zeros("image", "u32", 2048)],
     "image", grid=4, cluster=2)  # fmt: skip
for ctas in (2, 4):
    cuda(f"cluster_multicast_{ctas}", f"Multicast TMA tiles to {ctas} CTAs, stages freed across the cluster",
         [tiled("x", "u16", (256, 32), (512,), (64, 32 // ctas), swizzle="128B"), zeros("image", "u32", (ctas, 2, 1024)), zeros("sums", "u32", ctas * 128), value(4)],
         "image sums", grid=ctas, cluster=ctas, hidden=[words("x", (32, 256), "u16")], source="cluster_multicast.cu", entry="cluster_multicast")  # fmt: skip

TRAPS = [
    ("store_below", 0, -8, 715),
    ("misaligned_vector", 1, 1, 716),
    ("trap", 2, 0, 719),
    ("past_the_window", 3, 0, 700),
    ("prefetch_param", 4, 0, 716),
]
for name, kind, x, error in TRAPS:
    cuda(f"trap_{name}", f"A kernel that traps: {name.replace('_', ' ')}", [tiled("y", "u32", (64, 8), (256,), (16, 8)), words("x", 512), zeros("out", "u32", 128), value(x, "s32")], "out",
         hidden=[words("y", (8, 64))], source="traps.cu", entry="traps", defines=(f"KIND={kind}",), status=error)  # fmt: skip
