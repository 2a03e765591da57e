"""Correct kernels as scenarios, from the canonical layouts, and faults to plant in them."""

import copy
import random

from smemsim import SmemDescriptor, SmemsimError, check

BITS = {"bf16": 16, "f16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8}
NAMES = {"bf16": "BFLOAT16", "f16": "FLOAT16", "tf32": "FLOAT32", "e4m3": "UINT8", "e5m2": "UINT8", "s8": "UINT8"}
WIDTHS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}


def kernel(arch, dtype, major, swizzle, rows, k, *, base=0x400, stages=1, at=(0, 0), side="a"):
    """One operand of `rows` x `k`: TMA loads it panel by panel, a swizzle width wide, and one descriptor with its K
    steps reads it.
    """
    size, width = BITS[dtype] // 8, WIDTHS[swizzle]
    k_one, tile = 32 // size, rows * k * size
    along, lines = (k, rows) if major == "K" else (rows, k)
    panel, inner = lines * width, width // size
    panels = [p * panel for p in range(along * size // width)]
    extent = {"m": rows + at[0] + 3, "k": k + at[1] + 5}
    pitch = -(-(extent["k"] if major == "K" else extent["m"]) * size // 16) * 16
    stride = {"m": pitch, "k": size} if major == "K" else {"m": size, "k": pitch}
    dims = [extent["k"], extent["m"]] if major == "K" else [extent["m"], extent["k"]]
    origin = at[::-1] if major == "K" else at
    if major == "K":
        adds = [x // width * panel + x % width for x in range(0, k * size, k_one * size)]
        strides = (panel if k_one * size > width else 16, 8 * width)
    else:
        adds = [x * width for x in range(0, k, k_one)]
        strides = (panel, 8 * width) if swizzle != "none" else (8 * width, panel)
    start = (stages - 1) * tile
    word = SmemDescriptor(
        arch=arch, start_address=0, leading_byte_offset=strides[0], stride_byte_offset=strides[1], swizzle=swizzle
    ).encode()
    kinds = {"bf16": "f16", "f16": "f16", "tf32": "tf32", "s8": "i8"}
    m, n = (64, rows) if side == "b" and arch == "sm_90a" else (64, 64) if arch == "sm_90a" else (128, 128)
    load = {"op": "tma_load", "map": "tm", "to": "s", "stage": stages - 1, "offset": panels,
            "at": [[origin[0] + p * inner, origin[1]] for p in range(len(panels))], "expect_bytes": tile}  # fmt: skip
    tm = {"of": "X", "data_type": NAMES[dtype], "global_address": "X", "global_dim": dims, "global_strides": [pitch],
          "box_dim": [inner, lines], "swizzle": swizzle}  # fmt: skip
    operand = {"dtype": dtype, "major": major, "rows": rows, "word": word, "start": "s", "start_offset": start, "k_add": adds,
               "meant": {"tensor": "X", "axes": ["m", "k"], "at": list(at)}}  # fmt: skip
    return {
        "arch": arch,
        "tensor": {"X": {"dtype": dtype, "extent": extent, "stride": stride}},
        "buffer": {"s": {"address": base, "bytes": stages * tile, "stages": stages, "stage_bytes": tile}},
        "map": {"tm": tm},
        "step": [
            load,
            {"op": "mma", "kind": "wgmma" if arch == "sm_90a" else kinds.get(dtype, "f8f6f4"), "m": m, "n": n, "k": k_one, side: operand},
        ],
    }


def changed(scenario, path, value):
    """The scenario with another value at a path like `step.1.a.word`."""
    other = copy.deepcopy(scenario)
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place = other
    for part in way:
        place = place[part]
    place[last] = value(place[last]) if callable(value) else value
    return other


def word_with(arch, **fields):
    """A change of a word: other fields, in bytes."""

    def change(word):
        d = SmemDescriptor.decode(word, arch=arch)
        given = {
            name: getattr(d, name) for name in ("start_address", "leading_byte_offset", "stride_byte_offset", "swizzle", "base_offset")
        }
        return SmemDescriptor(arch=arch, **given | fields).encode()

    return change


STRANGE = [None, 0, -1, 3, 2**18, 2**40, 2**64, 1.5, "x", "", [], {}, [1], [[1]], True, [0, -32], [10**9], "128B"]


def paths(value, path=()):
    """Every place in a scenario but the whole."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def said_of_damaged(good, seed, *, tries, places):
    """(how many of `tries` scenarios, each with strange values at up to `places` places, are answered; the sentences
    about the others).
    """
    rng, answers, sentences = random.Random(seed), 0, []
    for _ in range(tries):
        scenario = copy.deepcopy(rng.choice(good))
        for _ in range(rng.randint(1, places)):
            *way, last = rng.choice(list(paths(scenario)))
            place = scenario
            for part in way:
                place = place[part]
            if rng.random() < 0.2:
                del place[last]
            elif type(place[last]) is int and rng.random() < 0.5:
                place[last] += rng.choice([-16, -4, -1, 1, 4, 16, 128, -place[last], place[last], 1 << 30])
            else:
                place[last] = copy.deepcopy(rng.choice(STRANGE))
        try:
            assert check(scenario).text()
            answers += 1
        except SmemsimError as e:
            sentences.append(str(e))
    return answers, sentences


# A correct kernel as people write it.
TOML = """arch = "sm_90a"
[tensor.A]
dtype = "bf16"
extent = { m = 64, k = 64 }
stride = { m = 128, k = 2 }
[buffer.sA]
address = 0x400
[map.tm]
of = "A"
data_type = "BFLOAT16"
global_dim = [64, 64]
global_strides = [128]
box_dim = [64, 64]
swizzle = "128B"
[[step]]
op = "tma_load"
map = "tm"
to = "sA"
at = [0, 0]
[[step]]
op = "mma"
kind = "wgmma"
m = 64
n = 64
k = 16
[step.a]
dtype = "bf16"
major = "K"
word = 0x4000004000010000
start = "sA"
k_add = [0, 32, 64, 96]
meant = { tensor = "A", axes = ["m", "k"], at = [0, 0] }
"""
