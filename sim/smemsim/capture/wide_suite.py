"""The arguments that cuTensorMapEncodeIm2colWide accepts on this device, and the 128 bytes it writes."""

from __future__ import annotations

import ctypes
import pathlib
import random
from typing import Any

import numpy as np

from smemsim.capture.bench import Bench, Case, pad
from smemsim.capture.encode_cases import ITEMSIZE, WIDTH

WIDTHS = {**WIDTH, 4: 128, 5: 128, 6: 128}


def legal(rng: random.Random) -> Case:
    rank = rng.choice((3, 4, 5))
    data_type = rng.choice((*range(13), *range(13), 14, 15))
    size = ITEMSIZE.get(data_type, 1)
    swizzle = rng.choice((2, 3, 3, 3, 4))
    inner = 16 * rng.randrange(1, WIDTHS[swizzle] // 16 + 1)
    channels = 128 if data_type > 12 else max(1, min(256, inner // size))
    dim = [rng.choice((channels, 64, 128, 384, rng.randrange(1, 1 << rng.randrange(1, 20))))]
    dim += [rng.randrange(1, 1 << rng.randrange(1, 12)) for _ in range(rank - 1)]
    if data_type > 12:
        dim[0] = 128 * rng.randrange(1, 9)
    width = dim[1]
    lower = rng.choice((0, 0, -1, rng.randrange(-(2**15), 2**15)))
    upper = max(-(2**15), min(2**15 - 1, rng.choice((0, -1, rng.randrange(-8, 9), lower - width + rng.randrange(-1, 40)))))
    return {
        "data_type": data_type,
        "global_address": 32 * rng.randrange(1, 1 << rng.randrange(2, 51)),
        "global_dim": dim,
        "global_strides": [32 * rng.randrange(1, 1 << rng.randrange(1, 30)) for _ in range(rank - 1)],
        "pixel_box_lower_corner_width": lower,
        "pixel_box_upper_corner_width": upper,
        "channels_per_pixel": channels,
        "pixels_per_column": rng.choice((1, 64, 128, rng.randrange(1, 1025))),
        "element_strides": [rng.choice((1, 1, 2, rng.randrange(1, 9))) for _ in range(rank)],
        "interleave": 0,
        "mode": rng.randrange(2),
        "swizzle": swizzle,
        "l2_promotion": rng.randrange(4),
        "oob_fill": int(6 <= data_type <= 12 and rng.random() < 0.3),
    }


def mutate(rng: random.Random, case: Case) -> None:
    """Move one argument to or across a limit."""
    axis = rng.randrange(len(case["global_dim"]))
    change = rng.randrange(15)
    near = rng.choice((-(2**15) - 1, -(2**15), -1, 0, 1, 2**15 - 1, 2**15, 2**31 - 1, -(2**31)))
    if change == 0:
        case["data_type"] = rng.randrange(17)
    elif change == 1:
        case["global_address"] += rng.choice((1, 8, 16, 2**56, 2**57))
    elif change == 2:
        case["global_dim"][axis] = rng.choice((0, 1, 2**31, 2**32, 2**32 + 1, rng.randrange(1, 70000)))
    elif change == 3:
        i = rng.randrange(len(case["global_strides"]))
        case["global_strides"][i] = rng.choice((0, 8, 16, 48, 2**40 - 32, 2**40))
    elif change in (4, 5):
        case[rng.choice(("pixel_box_lower_corner_width", "pixel_box_upper_corner_width"))] = near
    elif change == 6:
        lower = case["pixel_box_lower_corner_width"] = rng.randrange(-(2**15), 2**15)
        width = case["global_dim"][1] = rng.randrange(1, 60000)
        case["pixel_box_upper_corner_width"] = max(-(2**15), min(2**15 - 1, lower - width + rng.choice((-1, 0, 1, 2))))
    elif change == 7:
        case["channels_per_pixel"] = rng.choice((0, 1, 8, 16, 64, 128, 255, 256, 257))
    elif change == 8:
        case["pixels_per_column"] = rng.choice((0, 1, 1023, 1024, 1025, 4096))
    elif change == 9:
        case["element_strides"][axis] = rng.choice((0, 1, 8, 9))
    elif change == 10:
        case["interleave"] = rng.choice((0, 1, 2, 3))
    elif change == 11:
        case["mode"] = rng.choice((0, 1, 2))
    elif change == 12:
        case["swizzle"] = rng.randrange(8)
    elif change == 13:
        case["l2_promotion"] = rng.choice((0, 3, 4))
    else:
        case["oob_fill"] = rng.choice((0, 1, 2))


def verdict(case: Case) -> tuple[int, bytes]:
    library = ctypes.CDLL("libcuda.so.1")
    storage = ctypes.create_string_buffer(512)
    at = ctypes.addressof(storage) + -ctypes.addressof(storage) % 128
    rank = len(case["global_dim"])

    def array(kind: Any, values: list[int]) -> Any:
        return (kind * 8)(*[v & (1 << 8 * ctypes.sizeof(kind)) - 1 for v in values])

    code = library.cuTensorMapEncodeIm2colWide(
        ctypes.c_void_p(at), case["data_type"], rank, ctypes.c_void_p(case["global_address"]), array(ctypes.c_uint64, case["global_dim"]),
        array(ctypes.c_uint64, case["global_strides"]), ctypes.c_int(case["pixel_box_lower_corner_width"]),
        ctypes.c_int(case["pixel_box_upper_corner_width"]), ctypes.c_uint32(case["channels_per_pixel"]),
        ctypes.c_uint32(case["pixels_per_column"]), array(ctypes.c_uint32, case["element_strides"]), case["interleave"], case["mode"],
        case["swizzle"], case["l2_promotion"], case["oob_fill"],
    )  # fmt: skip
    return code, ctypes.string_at(at, 128) if code == 0 else bytes(128)


def encode_im2col_wide(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9111, random.Random(9111)
    chosen = []
    for _ in range(9000):
        case = legal(rng)
        for _ in range(rng.choice((0, 0, 0, 1, 1, 1, 2))):
            mutate(rng, case)
        chosen.append(case)
    for rank in range(8):
        chosen.append({**legal(rng), "data_type": 9, "global_dim": [64] * rank, "global_strides": [128] * max(rank - 1, 0),
                       "element_strides": [1] * rank, "channels_per_pixel": 64, "pixels_per_column": 64, "swizzle": 3, "oob_fill": 0,
                       "pixel_box_lower_corner_width": 0, "pixel_box_upper_corner_width": 0})  # fmt: skip
    verdicts = [verdict(c) for c in chosen]
    scalars = ("data_type", "interleave", "mode", "swizzle", "l2_promotion", "oob_fill")
    bench.write(
        out,
        "encode_im2col_wide",
        "tensor_map_encode",
        "What cuTensorMapEncodeIm2colWide accepts on Hopper, which has no such loads, and the 128 bytes it writes",
        seed,
        len(chosen),
        {
            "result": np.array([code for code, _ in verdicts], np.uint16),
            "tensor_map": np.frombuffer(b"".join(raw for _, raw in verdicts), np.uint8).reshape(-1, 128),
            "rank": np.array([len(c["global_dim"]) for c in chosen], np.uint8),
            "global_address": np.array([c["global_address"] for c in chosen], np.uint64),
            "global_dim": pad([c["global_dim"] for c in chosen], 7, np.uint64),
            "global_strides": pad([c["global_strides"] for c in chosen], 6, np.uint64),
            "element_strides": pad([c["element_strides"] for c in chosen], 7, np.uint32),
            **{
                name: np.array([c[name] for c in chosen], np.int32)
                for name in ("pixel_box_lower_corner_width", "pixel_box_upper_corner_width")
            },
            **{name: np.array([c[name] for c in chosen], np.uint32) for name in ("channels_per_pixel", "pixels_per_column")},
            **{name: np.array([c[name] for c in chosen], np.uint8) for name in scalars},
        },
    )


SUITES = {"encode_im2col_wide": encode_im2col_wide}
