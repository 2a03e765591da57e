"""Suites of values: reductions into tensors, and loads that convert."""

from __future__ import annotations

import collections
import pathlib
import random
import struct
import sys
from collections.abc import Callable

import numpy as np

from smemsim.capture import transfer_cases as draw
from smemsim.capture.bench import Bench, Case, in_processes, ragged
from smemsim.capture.cases import PLAIN_TYPES
from smemsim.capture.transfer_cases import tiled_case
from smemsim.capture.transfer_runs import columns
from smemsim.capture.wgmma_kernels import WINDOW_BEGIN

FLOAT_OPERATIONS = {6: ("add", "min", "max"), 9: ("add", "min", "max"), **dict.fromkeys((7, 8, 10, 11, 12), ("add",))}
LEGAL = {  # by tma_reduce_traps
    2: ("add", "min", "max", "inc", "dec", "and", "or", "xor"),
    3: ("add", "min", "max", "and", "or", "xor"),
    4: ("add", "min", "max", "and", "or", "xor"),
    5: ("min", "max"),
    **FLOAT_OPERATIONS,
}


def row_reduction(rng: random.Random, data_type: int, operation: str) -> Case:
    """A rank-1 box of values, one dimension, no swizzle: element i meets element i."""
    size = draw.ITEM_BITS[data_type] // 8
    elements = 16 // size * rng.choice((8, 12, 16))
    before, operand = draw.value_rows(rng, data_type, elements)
    return {
        "mode": 0, "data_type": data_type, "interleave": 0, "swizzle": 0, "l2_promotion": 0, "oob_fill": 0, "global_offset": 0,
        "global_dim": [elements], "global_strides": [], "box_dim": [elements], "element_strides": [1], "coordinates": [0],
        "smem_address": WINDOW_BEGIN + 128 * rng.randrange(64), "window_end": WINDOW_BEGIN + draw.WINDOW,
        "operation": operation, "before": before.hex(), "operand": operand.hex(),
    }  # fmt: skip


def small(make: Callable[[], Case]) -> Case:
    """A case whose box and tensor are small enough to be recorded as bytes."""
    while True:
        case = make()
        if case["data_type"] not in LEGAL:
            continue
        tensor = extent(case)
        if tensor <= 1536 and span(case) <= 1024:
            return case


def extent(case: Case) -> int:
    """Bytes from the tensor's first element to its last."""
    inner = case["global_dim"][0] * max(PLAIN_TYPES.get(case["data_type"], 4), 16 * case["interleave"])
    return int(inner + sum((n - 1) * stride for n, stride in zip(case["global_dim"][1:], case["global_strides"], strict=True)))


def span(case: Case) -> int:
    """An upper bound of the shared bytes a box takes, pitch included."""
    size, width = PLAIN_TYPES.get(case["data_type"], 4), draw.SWIZZLE_BYTES[case["swizzle"]]
    width = width if case["swizzle"] else 16
    if case["mode"]:
        return max(case["channels_per_pixel"] * size, width, 16 * case["interleave"]) * case["pixels_per_column"]
    rows = 1
    for n, step in zip(case["box_dim"][1:], case["element_strides"][1:], strict=True):
        rows *= -(-n // step)
    if case["interleave"]:
        return case["box_dim"][0] * 16 * case["interleave"] * rows
    return max(case["box_dim"][0] * size, width) * rows


def boxed_reduction(rng: random.Random, make: Callable[[], Case]) -> Case:
    """A box of any shape over a small tensor, random bytes."""
    case = small(make)
    case["operation"] = rng.choice(LEGAL[case["data_type"]])
    case["global_offset"] = 64
    case["before"] = rng.randbytes(64 + 1536 + 256).hex()
    case["operand"] = rng.randbytes(min(span(case), draw.BARRIER - case["smem_address"])).hex()
    return case


def write_reductions(bench: Bench, out: pathlib.Path, suite: str, title: str, seed: int, chosen: list[Case]) -> None:
    answers = in_processes("reduce", chosen)
    print(suite, collections.Counter((a["status"]) for a in answers), file=sys.stderr)

    def bytes_of(text: str) -> np.ndarray:
        return np.frombuffer(bytes.fromhex(text), np.uint8)

    bench.write(
        out,
        suite,
        "tma_reduce",
        title,
        seed,
        len(chosen),
        {
            **columns(bench, chosen, answers),
            "operation": np.array([c["operation"] for c in chosen]),
            "region": np.array([-c["global_offset"] for c in chosen], np.int64),
            **ragged("operand", [bytes_of(c["operand"]) for c in chosen], np.uint8),
            **ragged("before", [bytes_of(c["before"]) for c in chosen], np.uint8),
            **ragged("after", [bytes_of(a.get("after", "")) for a in answers], np.uint8),
        },
    )


def tma_reductions(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9108, random.Random(9108)
    chosen = []
    for data_type, operations in LEGAL.items():
        for operation in operations:
            chosen += [row_reduction(rng, data_type, operation) for _ in range(90 if data_type in FLOAT_OPERATIONS else 40)]
    makers: list[Callable[[], Case]] = [
        lambda: tiled_case(rng, store=True),
        lambda: tiled_case(rng, store=True),
        lambda: draw.im2col(rng, store=True),
        lambda: draw.interleaved(rng, store=True),
    ]
    chosen += [boxed_reduction(rng, makers[i % 4]) for i in range(400)]
    title = "cp.reduce.async.bulk.tensor: operand bytes in shared memory, the tensor before and after; rows of special values, boxes of any mode"
    write_reductions(bench, out, "tma_reductions", title, seed, chosen)


def tma_reduce_traps(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9109, random.Random(9109)
    chosen = [row_reduction(rng, data_type, operation) for data_type in range(13) for operation in draw.OPERATIONS for _ in range(2)]
    title = "Every operation on every tensor-map data type, plain stores included; the outcome is the CUDA error or the bytes"
    write_reductions(bench, out, "tma_reduce_traps", title, seed, chosen)


def tma_conversions(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9110, random.Random(9110)
    chosen: list[Case] = []
    while len(chosen) < 700:
        kind = rng.randrange(3)
        if kind == 0:
            case = tiled_case(rng, store=False)
        elif kind == 1:
            case = draw.im2col(rng, interleave=rng.choice((0, 0, 0, 1, 2)))
        else:
            case = draw.interleaved(rng)
        if PLAIN_TYPES[case["data_type"]] != 4 or (len(case["global_dim"]) > 4 and kind == 0):
            continue
        case["data_type"] = rng.choice((7, 10, 11, 11, 12))
        case["oob_fill"] = rng.randrange(2)
        size = extent(case)
        if size > 2048 or span(case) > 2048:
            continue
        case["global_offset"] = 0
        words = [draw._float_pair(rng, 8, 23)[rng.randrange(2)] for _ in range(-(-size // 4))]
        case |= {
            "tensor": struct.pack(f"<{len(words)}I", *words).hex(),
            "image_bytes": span(case) + 128,
            "instruction": "load",
            "credited": 0x10000,
        }
        chosen.append(case)
    counted = in_processes("transfer", chosen)  # how many bytes does each of them credit?
    for case, answer in zip(chosen, counted, strict=True):
        case["credited"] = answer["credited"]
    answers = in_processes("values", chosen)
    print("tma_conversions", collections.Counter(a["status"] for a in answers), file=sys.stderr)
    bench.write(
        out,
        "tma_conversions",
        "tma_load_bytes",
        "FLOAT32, FLOAT32_FTZ, TFLOAT32 and TFLOAT32_FTZ through boxes of every mode: special values, both fills, the bytes that arrive",
        seed,
        len(chosen),
        {
            **columns(bench, chosen, answers),
            **ragged("tensor", [np.frombuffer(bytes.fromhex(c["tensor"]), np.uint8) for c in chosen], np.uint8),
            **ragged("image", [np.frombuffer(bytes.fromhex(a["image"]), np.uint8) for a in answers], np.uint8),
        },
    )


SUITES = {f.__name__: f for f in (tma_reductions, tma_reduce_traps, tma_conversions)}
