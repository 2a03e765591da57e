"""Arguments of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col: legal ones, and ones moved across every documented
limit.

A case is a dict of the driver's arguments (enums as codes); lists may be of any length a call can be given.
"""

from __future__ import annotations

import random
from typing import Any

Case = dict[str, Any]
ITEMSIZE = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 4, 11: 4, 12: 4, 13: 1, 14: 1, 15: 1}
WIDTH = {0: 512, 1: 32, 2: 64, 3: 128, 4: 128, 5: 128, 6: 128}


def _around(rng: random.Random, *limits: int) -> int:
    return rng.choice(limits) + rng.choice((-1, 0, 0, 1))


def _common(rng: random.Random, rank: int) -> Case:
    interleave = rng.choice((0, 0, 0, 1, 2)) if rank >= 3 else 0
    alignment = 32 if interleave == 2 else 16
    data_type = rng.randrange(13)
    dim = [rng.choice((1, rng.randrange(1, 2000), rng.randrange(1, 2**20), rng.randrange(1, 2**32 + 1))) for _ in range(rank)]
    strides = []
    for _ in range(rank - 1):
        strides.append(alignment * rng.choice((0, 1, 2, rng.randrange(1, 4096), rng.randrange(2**30), (2**40 - 1) // alignment)))
    return {
        "data_type": data_type,
        "global_address": alignment * rng.randrange(1, 2**40),
        "global_dim": dim,
        "global_strides": strides,
        "element_strides": [rng.choice((1, 1, 1, rng.randrange(1, 9))) for _ in range(rank)],
        "interleave": interleave,
        "swizzle": rng.randrange(4) if interleave != 2 or rng.random() < 0.3 else 1,
        "l2_promotion": rng.randrange(4),
        "oob_fill": int(data_type >= 6 and rng.random() < 0.3),
    }


def tiled(rng: random.Random) -> Case:
    """A legal tiled map."""
    rank = rng.choice((1, 2, 2, 3, 3, 4, 5))
    while True:
        case = _common(rng, rank)
        itemsize = ITEMSIZE[case["data_type"]]
        limit = 256 * itemsize if case["interleave"] else min(WIDTH[case["swizzle"]], 256 * itemsize)
        inner = 16 * rng.randrange(1, limit // 16 + 1)
        case["box_dim"] = [inner // itemsize] + [rng.choice((1, rng.randrange(1, 17), rng.randrange(1, 257), 256)) for _ in range(rank - 1)]
        size = itemsize
        for box, step in zip(case["box_dim"], case["element_strides"], strict=True):
            size *= box // step
        if size <= 233472 or rng.random() < 0.02:
            return case


def im2col(rng: random.Random) -> Case:
    """A legal im2col map."""
    rank = rng.choice((3, 4, 5))
    low = {3: -(2**15), 4: -(2**7), 5: -(2**4)}[rank]
    while True:
        case = _common(rng, rank)
        itemsize = ITEMSIZE[case["data_type"]]
        limit = 256 * itemsize if case["interleave"] else min(WIDTH[case["swizzle"]], 256 * itemsize)
        case["channels_per_pixel"] = 16 * rng.randrange(1, limit // 16 + 1) // itemsize
        case["pixels_per_column"] = rng.choice((1, rng.randrange(1, 65), rng.randrange(1, 1025), 1024))
        axes = rank - 2
        wide = rng.random() < 0.3
        case["pixel_box_lower_corner"] = [rng.randrange(low, -low) if wide else rng.randrange(-3, 4) for _ in range(axes)]
        case["pixel_box_upper_corner"] = [rng.randrange(low, -low) if wide else rng.randrange(-3, 4) for _ in range(axes)]
        first = 0 if case["interleave"] else 1
        spans = zip(case["global_dim"][first:], case["pixel_box_lower_corner"], case["pixel_box_upper_corner"], strict=False)
        room = itemsize * case["channels_per_pixel"] * case["pixels_per_column"] <= 233472
        if all(n + upper - lower > 0 for n, lower, upper in spans) and room:
            return case


def _mutate(rng: random.Random, case: Case) -> None:
    """Move one argument to or across a limit."""
    rank = len(case["global_dim"])
    axis = rng.randrange(rank)
    itemsize = ITEMSIZE.get(case["data_type"], 1)
    change = rng.randrange(16)
    if change == 0:
        case["data_type"] = rng.choice((13, 14, 15, 16, 255, rng.randrange(13)))
    elif change == 1:
        case["global_address"] = rng.choice(
            (
                0,
                case["global_address"] + rng.choice((1, 2, 4, 8, 16, 32, 64)),
                16,
                2**64 - 16,
                2 ** rng.randrange(40, 64) - rng.choice((0, 32)),
            )
        )
    elif change == 2:
        case["global_dim"][axis] = rng.choice((0, 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**33, 2**63))
    elif change == 3 and rank > 1:
        i = rng.randrange(rank - 1)
        case["global_strides"][i] = rng.choice((0, 8, 16, 24, 32, 48, case["global_strides"][i] + rng.choice((1, 8, 16)), _around(rng, 2**40), 2**40 - 16,
                                               2**40 - 32, 2**40, 2**63))  # fmt: skip
    elif change == 4 and "box_dim" in case:
        case["box_dim"][axis] = rng.choice((0, 1, 255, 256, 257, 512, 2**31, case["box_dim"][axis] + 1))
    elif change == 5:
        case["element_strides"][axis] = rng.choice((0, 1, 7, 8, 9, 16, 2**31))
    elif change == 6:
        case["interleave"] = rng.choice((0, 1, 2, 3, 4))
    elif change == 7:
        case["swizzle"] = rng.choice((0, 1, 2, 3, 4, 5, 6, 7))
    elif change == 8:
        case["l2_promotion"] = rng.choice((0, 1, 2, 3, 4, 5))
    elif change == 9:
        case["oob_fill"] = rng.choice((0, 1, 1, 2, 3))
    elif change == 10:  # the inner box against 16 bytes and against the swizzle
        width = WIDTH.get(case["swizzle"], 128)
        elements = rng.choice(
            (width // itemsize, width // itemsize + 16 // itemsize, _around(rng, width // itemsize), _around(rng, 16 // itemsize))
        )
        if "box_dim" in case:
            case["box_dim"][0] = max(0, elements)
        else:
            case["channels_per_pixel"] = max(0, elements)
    elif change == 11 and "box_dim" in case and rank > 1:  # the size of the box against shared memory
        other = 1
        for box, step in zip(case["box_dim"][:-1], case["element_strides"][:-1], strict=True):
            other *= max(box // max(step, 1), 1)
        case["box_dim"][-1] = min(256, max(1, 233472 // (other * itemsize) + rng.choice((-1, 0, 1))) * case["element_strides"][-1])
    elif change == 12 and "pixels_per_column" in case:
        case["pixels_per_column"] = rng.choice(
            (0, 1, 1023, 1024, 1025, 2**31, max(1, 233472 // (itemsize * max(1, case["channels_per_pixel"])) + 1))
        )
    elif change == 13 and "channels_per_pixel" in case:
        case["channels_per_pixel"] = rng.choice((0, 1, 255, 256, 257, case["channels_per_pixel"] + 1))
    elif change == 14 and "pixel_box_lower_corner" in case:
        limit = {3: 2**15, 4: 2**7, 5: 2**4}.get(rank, 16)
        corner = rng.choice(("pixel_box_lower_corner", "pixel_box_upper_corner"))
        i = rng.randrange(max(rank - 2, 1))
        if i < len(case[corner]):
            case[corner][i] = rng.choice((-limit - 1, -limit, limit - 1, limit, 0, 2**31 - 1))
    elif change == 15 and "pixel_box_lower_corner" in case and rank >= 3:  # the bounding box against nothing
        i = rng.randrange(rank - 2)
        limit = {3: 2**15, 4: 2**7, 5: 2**4}[rank]
        lower = rng.randrange(-limit, limit)
        case["pixel_box_lower_corner"][i] = lower
        n = rng.randrange(1, 2 * limit)
        case["global_dim"][rng.choice((i, i + 1))] = n
        case["pixel_box_upper_corner"][i] = min(limit - 1, max(-limit, lower - n + rng.choice((-1, 0, 1, 2))))


def cases(seed: int, count: int, kind: str) -> list[Case]:
    """A third legal, the rest mutated once to three times; some with another rank than their arrays suit."""
    rng, make, out = random.Random(seed), {"tiled": tiled, "im2col": im2col}[kind], []
    while len(out) < count:
        case = make(rng)
        for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 3))):
            _mutate(rng, case)
        case["global_address"] %= 2**64
        out.append(case)
    return out


def odd_ranks(kind: str) -> list[Case]:
    """Ranks 0 to 7, all else legal, with and without interleave."""
    out = []
    for rank in range(8):
        for interleave in (0, 1, 2):
            case = {
                "data_type": 9, "global_address": 1 << 20, "global_dim": [64] * rank, "global_strides": [128] * max(rank - 1, 0),
                "element_strides": [1] * rank, "interleave": interleave, "swizzle": 1 if interleave == 2 else 0, "l2_promotion": 0, "oob_fill": 0,
            }  # fmt: skip
            if kind == "tiled":
                case["box_dim"] = [16, *[2] * (rank - 1)][:rank]
            else:
                case |= {"pixel_box_lower_corner": [0] * max(rank - 2, 0), "pixel_box_upper_corner": [0] * max(rank - 2, 0)}
                case |= {"channels_per_pixel": 16, "pixels_per_column": 8}
            out.append(case)
    return out
