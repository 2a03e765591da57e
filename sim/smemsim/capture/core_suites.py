"""The first suites: the driver's encoder, operands of wgmma, tiled loads and stores, values, a tile from TMA to wgmma,
and a whole kernel.
"""

from __future__ import annotations

import collections
import pathlib
import random
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.capture import cases as cases_module
from smemsim.capture import (
    encode_cases,
    wgmma_kernels,
)
from smemsim.capture.bench import (
    FILLED,
    KERNELS,
    RUNNERS,
    UNTOUCHED,
    Bench,
    Case,
    in_processes,
    kernel_files,
    pad,
    ragged,
    settings,
    trim,
)
from smemsim.capture.wgmma_kernels import TYPES, WINDOW_BEGIN, WINDOW_END, Variant

FILL = -1  # of elements

kernel_files("tma_probes", "value_probe", "tile_probe", "reference_gemm")
KERNELS |= {
    f"wgmma_{dtype}": lambda dtype=dtype: wgmma_kernels.source([v for v in wgmma_kernels.variants() if v.dtype == dtype])
    for dtype in {v.dtype for v in wgmma_kernels.variants()}
}


def map_columns(chosen: list[Case], maps: list[bytes], base: list[int]) -> dict[str, np.ndarray]:
    """The arguments of the encode calls, one column each, and what the driver made of them."""
    scalars = ("data_type", "interleave", "swizzle", "l2_promotion", "oob_fill")
    return {
        "tensor_map": np.frombuffer(b"".join(maps), np.uint8).reshape(-1, 128),
        "rank": np.array([len(c["global_dim"]) for c in chosen], np.uint8),
        "global_address": np.array(base, np.uint64),
        "global_dim": pad([c["global_dim"] for c in chosen], 5, np.uint64),
        "global_strides": pad([c["global_strides"] for c in chosen], 4, np.uint64),
        "box_dim": pad([c["box_dim"] for c in chosen], 5, np.uint32),
        "element_strides": pad([c["element_strides"] for c in chosen], 5, np.uint32),
        **{name: np.array([c[name] for c in chosen], np.uint8) for name in scalars},
    }


# ------------------------------------------------------------------------------------------------- the driver's encoder


def write_encodes(bench: Bench, out: pathlib.Path, suite: str, title: str, seed: int, kind: str, count: int) -> None:
    chosen = encode_cases.odd_ranks(kind) + encode_cases.cases(seed, count * settings.more, kind)
    verdicts = [bench.api.encode_verdict(c) for c in chosen]
    scalars = ("data_type", "interleave", "swizzle", "l2_promotion", "oob_fill")
    arrays = {
        "result": np.array([code for code, _ in verdicts], np.uint16),
        "tensor_map": np.frombuffer(b"".join(raw for _, raw in verdicts), np.uint8).reshape(-1, 128),
        "rank": np.array([len(c["global_dim"]) for c in chosen], np.uint8),
        "global_address": np.array([c["global_address"] for c in chosen], np.uint64),
        "global_dim": pad([c["global_dim"] for c in chosen], 7, np.uint64),
        "global_strides": pad([c["global_strides"] for c in chosen], 6, np.uint64),
        "element_strides": pad([c["element_strides"] for c in chosen], 7, np.uint32),
        **{name: np.array([c[name] for c in chosen], np.uint8) for name in scalars},
    }
    if kind == "tiled":
        arrays["box_dim"] = pad([c["box_dim"] for c in chosen], 7, np.uint32)
    else:
        for name in ("pixel_box_lower_corner", "pixel_box_upper_corner"):
            arrays[name] = pad([c[name] for c in chosen], 5, np.int32)
        for name in ("channels_per_pixel", "pixels_per_column"):
            arrays[name] = np.array([c[name] for c in chosen], np.uint32)
    bench.write(
        out,
        suite,
        kind="tensor_map_encode",
        title=title,
        seed=seed,
        cases=len(chosen),
        arrays=arrays,
    )


def encode_tiled(bench: Bench, out: pathlib.Path) -> None:
    title = "What cuTensorMapEncodeTiled accepts, and the 128 bytes it writes: legal arguments and ones moved across every limit"
    write_encodes(bench, out, "encode_tiled", title, 9011, "tiled", 12000)


def encode_im2col(bench: Bench, out: pathlib.Path) -> None:
    title = "The same for cuTensorMapEncodeIm2col"
    write_encodes(bench, out, "encode_im2col", title, 9012, "im2col", 8000)


# ------------------------------------------------------------------------------------------------------- wgmma operands


def run_operands(bench: Bench, v: Variant, words: list[int], window_end: int = WINDOW_END) -> np.ndarray:
    """Addresses (case, row, k) of the operand's elements."""
    shared = window_end - WINDOW_BEGIN
    function = bench.function(f"wgmma_{v.dtype}", v.name)
    descriptors = bench.device.array(np.array(words, np.uint64))
    out = bench.device.array(np.zeros(len(words) * v.rows * v.k, np.uint32))
    bench.device.launch(function, len(words), shared, descriptors, window_end, out)
    return out.read(np.uint32).reshape(len(words), v.rows, v.k) * np.uint32(TYPES[v.dtype].itemsize)


def write_operands(bench: Bench, out: pathlib.Path, suite: str, title: str, seed: int, chosen: list[tuple[Variant, int]]) -> None:
    by_variant: dict[Variant, list[int]] = collections.defaultdict(list)
    for v, word in chosen:
        by_variant[v].append(word)
    ordered = [(v, word) for v, words in by_variant.items() for word in words]
    addresses = [block for v, words in by_variant.items() for block in run_operands(bench, v, words)]
    bench.write(
        out,
        suite,
        kind="wgmma_operand",
        title=title,
        seed=seed,
        cases=len(ordered),
        arrays={
            **operand_columns(ordered),
            "status": np.zeros(len(ordered), np.uint16),
            **ragged("address", addresses, np.uint32),
        },
        delta=("address",),
    )


def operand_columns(ordered: list[tuple[Variant, int]], window_end: list[int] | None = None) -> dict[str, np.ndarray]:
    return {
        "descriptor": np.array([word for _, word in ordered], np.uint64),
        "operand": np.array([v.operand for v, _ in ordered]),
        "dtype": np.array([v.dtype for v, _ in ordered]),
        "major": np.array([v.major for v, _ in ordered]),
        "sparse": np.array([v.sparse for v, _ in ordered], np.uint8),
        "rows": np.array([v.rows for v, _ in ordered], np.uint16),
        "k": np.array([v.k for v, _ in ordered], np.uint16),
        "window_end": np.array(window_end or [WINDOW_END] * len(ordered), np.uint32),
    }


def wgmma_operands(bench: Bench, out: pathlib.Path) -> None:
    seed = 9001
    rng = random.Random(seed)
    chosen = []
    for v in wgmma_kernels.variants():
        count = 120 if v.operand == "A" else max(10, 30 - v.n // 10)
        if v.operand == "B" and v.n <= 64:
            count = 60
        chosen += [(v, cases_module.descriptor(rng, v)) for _ in range(count)]
    title = "Which byte wgmma reads for every element of an operand: random descriptors"
    write_operands(bench, out, "wgmma_operands", title, seed, chosen)


def wgmma_reserved_bits(bench: Bench, out: pathlib.Path) -> None:
    seed = 9002
    rng = random.Random(seed)
    chosen = []
    for major in ("K", "MN"):
        v = Variant("B", "bf16", 32, major)
        chosen += [(v, word) for word in cases_module.reserved_bits(rng, v)]
    v = Variant("A", "bf16", 16, "K")
    chosen += [(v, word) for word in cases_module.reserved_bits(rng, v)]
    title = "The same with every reserved descriptor bit set, alone and in random sets"
    write_operands(bench, out, "wgmma_reserved_bits", title, seed, chosen)


# ------------------------------------------------------------------------------------------------------------ TMA loads


def run_loads(bench: Bench, chosen: list[Case]) -> tuple[list[bytes], list[int], list[np.ndarray], np.ndarray]:
    """(maps, global addresses, images over each case's region, transaction bytes)."""
    size = cases_module.TENSOR_BYTES
    index = np.arange(size, dtype=np.uint32)
    tensors = [bench.device.array((index >> (8 * p)).astype(np.uint8)) for p in range(3)]
    tensors.append(bench.device.array(np.full(size, 0x5A, np.uint8)))
    images: list[np.ndarray] = [np.zeros(0, np.int32)] * len(chosen)
    maps, bases = [b""] * len(chosen), [0] * len(chosen)
    counts = np.zeros(len(chosen), np.uint32)
    by_window = collections.defaultdict(list)
    for i, c in enumerate(chosen):
        by_window[c["window_end"]].append(i)
    for window_end, members in by_window.items():
        for at in range(0, len(members), 1000):
            _load_batch(bench, chosen, members[at : at + 1000], window_end, tensors, maps, bases, images, counts)
    return maps, bases, images, counts


def _load_batch(
    bench: Bench,
    chosen: list[Case],
    members: list[int],
    window_end: int,
    tensors: list[Any],
    maps: list[bytes],
    bases: list[int],
    images: list[np.ndarray],
    counts: np.ndarray,
) -> None:
    packed, regions, out_bytes, all_maps = b"", [], 0, b""
    for i in members:
        c = chosen[i]
        inner, pitch, rows = cases_module.pitch_and_rows(c)
        to, expect = c["smem_address"], inner * rows
        begin = max(WINDOW_BEGIN, (to - 256) // 128 * 128)
        end = min(window_end, (to + pitch * rows + 256 + 127) // 128 * 128)
        barrier = window_end - 16 if to + pitch * rows + 1024 < window_end else WINDOW_BEGIN
        if barrier == WINDOW_BEGIN:
            begin = max(begin, WINDOW_BEGIN + 128)
        else:
            end = min(end, barrier)
        end = max(end, begin + 128)
        regions.append((begin, end - begin))
        coordinates = [*c["coordinates"], 0, 0, 0, 0][:5]
        packed += struct.pack("<i5iIIIIIxxxxQ", len(c["global_dim"]), *coordinates, to, barrier, expect, begin, end - begin, out_bytes)
        out_bytes += 4 * (end - begin)
        encoded = [bench.api.encode(c, t.address + c["global_offset"]) for t in tensors]
        maps[i], bases[i] = encoded[0], tensors[0].address + c["global_offset"]
        all_maps += b"".join(encoded)
        counts[i] = expect
    window = window_end - WINDOW_BEGIN
    results = bench.device.array(np.zeros(2 * len(members), np.uint32))
    raw = bench.api.Buffer(out_bytes)
    bench.device.launch(
        bench.function("tma_probes", "probe_load"),
        len(members),
        window,
        bench.device.array(np.frombuffer(packed, np.uint8)),
        bench.device.array(np.frombuffer(all_maps, np.uint8)),
        window,
        raw,
        results,
    )
    answer, seen, at = results.read(np.uint32).reshape(-1, 2), raw.read(), 0
    for (begin, size), i, (completed, stray) in zip(regions, members, answer.tolist(), strict=True):
        if completed != 0b01111 or stray:
            print(f"load {i}: completed {completed:05b}, {stray} stray bytes: {chosen[i]}", file=sys.stderr)
            counts[i] = 0  # the count is not what was armed: the model must say so
        passes = seen[at : at + 4 * size].reshape(4, size).astype(np.int32)
        at += 4 * size
        image = passes[0] | passes[1] << 8 | passes[2] << 16
        image -= chosen[i]["global_offset"]
        image = np.where(passes[3] == 0x5A, image, np.where(passes[3] == 0xA5, UNTOUCHED, FILLED - passes[3])).astype(np.int32)
        images[i] = np.concatenate([[begin], image])


def write_transfers(
    bench: Bench, out: pathlib.Path, suite: str, kind: str, title: str, seed: int, chosen: list[Case], answer: Any, status: Any
) -> None:
    maps, bases, images, counts = answer
    trimmed = [trim(int(image[0]), image[1:]) if image.size else (0, image) for image in images]
    bench.write(
        out,
        suite,
        kind=kind,
        title=title,
        seed=seed,
        cases=len(chosen),
        arrays={
            **map_columns(chosen, maps, bases),
            "coordinates": pad([c["coordinates"] for c in chosen], 5, np.int32),
            "smem_address": np.array([c["smem_address"] for c in chosen], np.uint32),
            "window_end": np.array([c["window_end"] for c in chosen], np.uint32),
            "status": np.array(status, np.uint16),
            "transaction_bytes": counts,
            "first": np.array([first for first, _ in trimmed], np.int64),
            **ragged("source", [image for _, image in trimmed], np.int32),
        },
        delta=("source",),
    )


def tma_loads(bench: Bench, out: pathlib.Path) -> None:
    seed = 9003
    chosen = cases_module.loads(seed, 6200)
    answer = run_loads(bench, chosen)
    title = "Which global byte a tiled TMA load puts at every shared byte, and the bytes it credits to the mbarrier"
    write_transfers(bench, out, "tma_loads", "tma_load", title, seed, chosen, answer, [0] * len(chosen))


# ----------------------------------------------------------------------------------------------------------- TMA stores


def run_stores(bench: Bench, chosen: list[Case]) -> tuple[list[bytes], list[int], list[np.ndarray], np.ndarray]:
    """(maps, global addresses, images of the whole tensor region, bytes read from shared memory)."""
    size, margin = cases_module.STORE_BYTES, cases_module.STORE_MARGIN
    maps, bases, images = [], [], []
    by_window = {c["window_end"] for c in chosen}
    assert len(by_window) == 1, "stores are probed in one window"
    window = by_window.pop() - WINDOW_BEGIN
    for at in range(0, len(chosen), 500):
        batch = chosen[at : at + 500]
        target = bench.api.Buffer(len(batch) * 4 * size)
        target.fill(0xA5)
        packed, all_maps = b"", b""
        for i, c in enumerate(batch):
            coordinates = [*c["coordinates"], 0, 0, 0, 0][:5]
            packed += struct.pack("<i5iI", len(c["global_dim"]), *coordinates, c["smem_address"])
            encoded = [bench.api.encode(c, target.address + (4 * i + p) * size + c["global_offset"]) for p in range(4)]
            all_maps += b"".join(encoded)
            maps.append(encoded[0])
            bases.append(target.address + 4 * i * size + c["global_offset"])
        bench.device.launch(
            bench.function("tma_probes", "probe_store"),
            len(batch),
            window,
            bench.device.array(np.frombuffer(packed, np.uint8)),
            bench.device.array(np.frombuffer(all_maps, np.uint8)),
            window,
        )
        seen = target.read().reshape(len(batch), 4, size).astype(np.int32)
        for passes in seen:
            image = passes[0] | passes[1] << 8 | passes[2] << 16
            image = np.where(passes[3] == 0x5A, image, UNTOUCHED).astype(np.int32)
            images.append(np.concatenate([[-margin], image]))
    counts = np.zeros(len(chosen), np.uint32)  # a store credits no barrier
    return maps, bases, images, counts


def tma_stores(bench: Bench, out: pathlib.Path) -> None:
    seed = 9004
    chosen = cases_module.stores(seed, 4200)
    answer = run_stores(bench, chosen)
    title = "Which shared byte a tiled TMA store puts at every global byte of the tensor's surroundings"
    write_transfers(bench, out, "tma_stores", "tma_store", title, seed, chosen, answer, [0] * len(chosen))


# ---------------------------------------------------------------------------------------------------------- risky cases


def risky_operand(bench: Bench, case: Any) -> dict[str, Any]:
    v = Variant(**case["variant"])
    return {"address": run_operands(bench, v, [case["descriptor"]], case["window_end"]).ravel().tolist()}


def risky_transfer(run: Any) -> Callable[[Bench, Any], dict[str, Any]]:
    def one(bench: Bench, case: Any) -> dict[str, Any]:
        maps, bases, images, counts = run(bench, [case])
        return {"map": maps[0].hex(), "base": bases[0], "image": images[0].tolist(), "count": int(counts[0])}

    return one


RUNNERS |= {"operand": risky_operand, "load": risky_transfer(run_loads), "store": risky_transfer(run_stores)}


def write_traps(bench: Bench, out: pathlib.Path, suite: str, what: str, title: str, seed: int, chosen: list[Case]) -> None:
    answers = in_processes(what, chosen)
    base = 0x10000  # a trapped case has no buffer left: its map is encoded once more over a made-up address
    maps = [bytes.fromhex(a["map"]) if "map" in a else bench.api.encode(c, base) for a, c in zip(answers, chosen, strict=True)]
    images = [np.array(a.get("image", []), np.int32) for a in answers]
    counts = np.array([a.get("count", 0) for a in answers], np.uint32)
    bases = [a.get("base", base) for a in answers]
    status = [a["status"] for a in answers]
    print(suite, collections.Counter(status), file=sys.stderr)
    write_transfers(bench, out, suite, f"tma_{what}", title, seed, chosen, (maps, bases, images, counts), status)


def tma_load_traps(bench: Bench, out: pathlib.Path) -> None:
    title = "Loads that may trap, each in a process of its own; the outcome is the CUDA error, or the bytes where none came"
    write_traps(bench, out, "tma_load_traps", "load", title, 9005, cases_module.trap_loads(9005))


def tma_loads_far(bench: Bench, out: pathlib.Path) -> None:
    title = "Loads with coordinates near +-2^31 and dimensions near 2^32 (stride 0), each in a process of its own"
    write_traps(bench, out, "tma_loads_far", "load", title, 9010, cases_module.far_loads(9010, 160))


def tma_store_traps(bench: Bench, out: pathlib.Path) -> None:
    title = "Stores that may trap, each in a process of its own; the outcome is the CUDA error, or the bytes where none came"
    write_traps(bench, out, "tma_store_traps", "store", title, 9006, cases_module.trap_stores(9006))


def wgmma_window(bench: Bench, out: pathlib.Path) -> None:
    seed, suite = 9007, "wgmma_window"
    chosen = cases_module.trap_operands(seed)
    ordered, ends = [(v, word) for v, word, _ in chosen], [end for _, _, end in chosen]
    answers = in_processes("operand", [{"variant": vars(v), "descriptor": word, "window_end": end} for v, word, end in chosen])
    status = [a["status"] for a in answers]
    print(suite, collections.Counter(status), file=sys.stderr)
    bench.write(
        out,
        suite,
        kind="wgmma_operand",
        title="Operands that leave the shared window, each in a process of its own",
        seed=seed,
        cases=len(chosen),
        arrays={
            **operand_columns(ordered, ends),
            "status": np.array(status, np.uint16),
            **ragged("address", [np.array(a.get("address", []), np.uint32) for a in answers], np.uint32),
        },
        delta=("address",),
    )


# --------------------------------------------------------------------------------------------------------------- values


def tma_values(bench: Bench, out: pathlib.Path) -> None:
    seed, suite = 9013, "tma_values"
    chosen = cases_module.values(seed, 2400)
    row = cases_module.VALUE_ROW
    inputs = np.frombuffer(b"".join(c["input"] for c in chosen), np.uint8).reshape(-1, row)
    source = bench.device.array(inputs)
    target = bench.device.array(np.full(inputs.size, 0xA5, np.uint8))  # stores write here, loads are read back into it
    bases = [(target if c["store"] else source).address + i * row for i, c in enumerate(chosen)]
    maps = [bench.api.encode(c, base) for c, base in zip(chosen, bases, strict=True)]
    bench.device.launch(
        bench.function("value_probe", "probe_values"),
        len(chosen),
        4096,
        bench.device.array(np.frombuffer(b"".join(maps), np.uint8)),
        bench.device.array(np.array([c["store"] for c in chosen], np.uint32)),
        source,
        target,
        threads=row,
    )
    bench.write(
        out,
        suite,
        kind="tma_values",
        title="What TMA does to floating-point values while loading and storing: ties, denormals, infinities, NaNs, fill",
        seed=seed,
        cases=len(chosen),
        arrays={
            **map_columns(chosen, maps, bases),
            "store": np.array([c["store"] for c in chosen], np.uint8),
            "input": inputs,
            "output": target.read().reshape(-1, row),
        },
    )


# --------------------------------------------------------------------------------------------------------- TMA -> wgmma


def tma_wgmma(bench: Bench, out: pathlib.Path) -> None:
    seed, suite = 9008, "tma_wgmma"
    chosen = cases_module.tiles(seed)
    window = 0x10000
    elements = 1 << 16

    def bf16(values: np.ndarray) -> np.ndarray:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)

    index = np.arange(elements)
    tensors = [bench.device.array(bf16(x)) for x in (index & 255, index >> 8, np.ones(elements))]
    maps, outcome = [b""] * len(chosen), np.zeros((len(chosen), 64, 16), np.int32)
    for major, name in (("K", "probe_tile_k"), ("MN", "probe_tile_mn")):
        members = [i for i, c in enumerate(chosen) if c["major"] == major]
        packed, all_maps = b"", b""
        for i in members:
            c = chosen[i]
            inner, _, rows = cases_module.pitch_and_rows(c)
            loads = c["loads"] + [(0, (0, 0))] * (8 - len(c["loads"]))
            packed += struct.pack("<ii", 2, len(c["loads"]))
            packed += b"".join(struct.pack("<5i", *at, 0, 0, 0) for _, at in loads)
            packed += b"".join(struct.pack("<I", to) for to, _ in loads)
            packed += struct.pack("<IxxxxQ", inner * rows * len(c["loads"]), c["descriptor"])
            encoded = [bench.api.encode(c, t.address) for t in tensors]
            maps[i] = encoded[0]
            all_maps += b"".join(encoded)
        answer = bench.api.Buffer(len(members) * 3 * 1024 * 4)
        bench.device.launch(
            bench.function("tile_probe", name),
            len(members),
            window,
            bench.device.array(np.frombuffer(packed, np.uint8)),
            bench.device.array(np.frombuffer(all_maps, np.uint8)),
            window,
            answer,
        )
        low, high, constant = np.moveaxis(answer.read(np.int32).reshape(-1, 3, 64, 16), 1, 0)
        outcome[members] = np.where(constant == 512, UNTOUCHED, np.where(constant == 1, low | high << 8, FILL))
    bench.write(
        out,
        suite,
        kind="tma_wgmma",
        title="bf16 tiles loaded by TMA on every 128-byte phase, then read by wgmma m64n64k16 as operand B: the element each lane got",
        seed=seed,
        cases=len(chosen),
        arrays={
            **map_columns(chosen, maps, [tensors[0].address] * len(chosen)),
            "loads": np.array([len(c["loads"]) for c in chosen], np.uint8),
            "load_address": pad([[to for to, _ in c["loads"]] for c in chosen], 8, np.uint32),
            "load_coordinates": np.array([[at for _, at in c["loads"]] + [(0, 0)] * (8 - len(c["loads"])) for c in chosen], np.int32),
            "descriptor": np.array([c["descriptor"] for c in chosen], np.uint64),
            "major": np.array([c["major"] for c in chosen]),
            "element": outcome,
        },
        delta=("element",),
    )


# ----------------------------------------------------------------------------------------------------- reference kernel


def reference_gemm(bench: Bench, out: pathlib.Path) -> None:
    seed, suite, k_extent = 9009, "reference_gemm", 192
    rng = np.random.default_rng(seed)
    data = {
        "integers": rng.integers(-8, 9, (2, 128, k_extent)).astype(np.float32),
        "normal": rng.standard_normal((2, 128, k_extent)).astype(np.float32),
    }
    bits = {name: (x.view(np.uint32) >> 16).astype(np.uint16) for name, x in data.items()}
    shared = 2 * 16384 + 64
    columns = collections.defaultdict(list)
    for name, ab in bits.items():
        for major_a in ("K", "MN"):
            for major_b in ("K", "MN"):
                for swizzle_a, swizzle_b in ((3, 3), (2, 2), (1, 1), (0, 0), (3, 1), (0, 3)):
                    sides = [
                        (ab[0], major_a, cases_module.gemm_operand(swizzle_a, major_a), swizzle_a),
                        (ab[1], major_b, cases_module.gemm_operand(swizzle_b, major_b), swizzle_b),
                    ]
                    maps, buffers = [], []
                    for matrix, major, operand, swizzle in sides:
                        stored = np.ascontiguousarray(matrix if major == "K" else matrix.T)
                        buffers.append(bench.device.array(stored))
                        arguments = {
                            "data_type": 9,
                            "global_dim": [stored.shape[1], stored.shape[0]],
                            "global_strides": [stored.shape[1] * 2],
                            "box_dim": operand["box_dim"],
                            "element_strides": [1, 1],
                            "swizzle": swizzle,
                            "l2_promotion": 2,
                        }
                        maps.append(bench.api.encode(arguments, buffers[-1].address))
                    boxes = [operand["boxes"] for _, _, operand, _ in sides]
                    flat = [len(side) for side in boxes]
                    columns_of = [[([box[i] for box in side] + [0] * 8)[:8] for i in range(3)] for side in boxes]
                    (offset_a, row_a, k_a), (offset_b, row_b, k_b) = columns_of
                    flat += offset_a + offset_b + row_a + k_a + row_b + k_b
                    flat += [int(major_a == "MN"), int(major_b == "MN")]
                    plan = struct.pack("<52i", *flat) + struct.pack("<8Q", *(w for _, _, o, _ in sides for w in o["words"]))
                    d = bench.api.Buffer(128 * 128 * 4)
                    image = bench.api.Buffer(16384)
                    steps = k_extent // 16
                    words = bench.api.Buffer(steps * 2 * 8)
                    name_of = f"reference_{major_a[0].lower()}{major_b[0].lower()}"
                    bench.device.launch(
                        bench.function("reference_gemm", name_of),
                        (2, 2),
                        shared,
                        bench.device.array(np.frombuffer(b"".join(maps), np.uint8)),
                        bench.device.array(np.frombuffer(plan, np.uint8)),
                        k_extent,
                        d,
                        image,
                        words,
                    )
                    columns["data"].append(name)
                    columns["major_a"].append(major_a)
                    columns["major_b"].append(major_b)
                    columns["map_a"].append(np.frombuffer(maps[0], np.uint8))
                    columns["map_b"].append(np.frombuffer(maps[1], np.uint8))
                    for side, letter in zip(boxes, "ab", strict=True):
                        columns[f"boxes_{letter}"].append(np.array([*side, *[(-1, 0, 0)] * (8 - len(side))], np.int32))
                    columns["descriptors"].append(words.read(np.uint64).reshape(steps, 2))
                    columns["image"].append(image.read())
                    columns["d"].append(d.read(np.uint32).reshape(128, 128))
    bench.write(
        out,
        suite,
        kind="reference_gemm",
        title="A complete TMA + mbarrier + wgmma tile loop, D[128, 128] = A B^T in bf16: maps, descriptors, shared memory, D",
        seed=seed,
        cases=len(columns["data"]),
        arrays={
            **{f"a_{name}": ab[0] for name, ab in bits.items()},
            **{f"b_{name}": ab[1] for name, ab in bits.items()},
            **{name: np.array(values) for name, values in columns.items()},
            "stage_address": np.full(len(columns["data"]), WINDOW_BEGIN, np.uint32),
        },
    )


SUITES: dict[str, Callable[[Bench, pathlib.Path], None]] = {
    f.__name__: f
    for f in (
        encode_tiled,
        encode_im2col,
        wgmma_operands,
        wgmma_reserved_bits,
        wgmma_window,
        tma_loads,
        tma_loads_far,
        tma_load_traps,
        tma_stores,
        tma_store_traps,
        tma_values,
        tma_wgmma,
        reference_gemm,
    )
}
