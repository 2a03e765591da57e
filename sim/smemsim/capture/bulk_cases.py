"""The cases of the bulk-copy and cluster suites, drawn from seeds. Nothing here knows what hardware does with them."""

from __future__ import annotations

import itertools
import random
from typing import Any

from smemsim.capture.cases import PLAIN_TYPES, SWIZZLE_BYTES, Case
from smemsim.capture.wgmma_kernels import WINDOW_BEGIN, WINDOW_END

SOURCE_BYTES = 1 << 20  # where copies begin in a global source, which is twice as long
MARGIN = 256  # bytes looked at on either side of a destination
SLOT = 512  # bytes a reduction has in every buffer
MOST_TX = (1 << 20) - 1  # of an mbarrier's phase

# --------------------------------------------------------------------------------------------------------------- copies


def copy_size(rng: random.Random) -> int:
    most = rng.choice((8, 8, 8, 64, 64, 64, 512, 512, 512, 3072))  # of 16 bytes
    return 16 * rng.randrange(1, most + 1)


def placed(rng: random.Random, what: str, size: int, window_bytes: int = 0x10000) -> Case:
    """A legal copy; `far` is the global offset, or for a copy between CTAs the source's shared address."""
    end = WINDOW_BEGIN + window_bytes
    room = (window_bytes - 2048) // (2 if what == "peer" else 1) - size
    case = {"what": what, "size": size, "window_end": end, "step": 16, "misplaced_mbar": 0}
    case["near"] = WINDOW_BEGIN + 1024 + 16 * rng.randrange(max(room, 0) // 16 + 1)
    if what == "peer":
        case["far"] = WINDOW_BEGIN + window_bytes // 2 + 512 + 16 * rng.randrange(max(room - 512, 0) // 16 + 1)
        n = rng.choice((2, 2, 4))
        case["cluster_size"] = n
        case["from_rank"], case["to_rank"] = rng.sample(range(n), 2)
        case["barrier_rank"] = case["to_rank"]
    else:
        case["far"] = 1024 + 16 * rng.randrange((SOURCE_BYTES - size - 4096) // 16) if what != "store" else 16 * rng.randrange(16)
    case["extra"] = 16 * rng.randrange(1, 33)
    return case


def copies(seed: int) -> list[Case]:
    rng = random.Random(seed)
    plan = ["load"] * 500 + ["load_cta"] * 300 + ["store"] * 800 + ["peer"] * 300
    out = []
    for what in plan:
        size = copy_size(rng)
        if what == "peer":
            size = min(size, 16384)
        out.append(placed(rng, what, size))
    for what, size in itertools.product(("load", "store"), (49152, 131072)):  # a large window, up to its end
        case = placed(rng, what, size, WINDOW_END - WINDOW_BEGIN)
        case["near"] = WINDOW_END - size
        out.append(case)
    return out


def trap_copies(seed: int) -> list[Case]:
    rng, out = random.Random(seed), []

    def fresh(what: str, **changes: Any) -> None:
        case = placed(rng, what, 16 * rng.randrange(1, 65)) | changes
        for name in ("near", "far"):
            case[name] += case.pop(f"{name}_off", 0)
        if case.pop("from_end", None) is not None:
            case["near"] = case["window_end"] - case["size"] + changes["from_end"]
        case["step"] = 1
        out.append(case)

    copying = ("load", "load_cta", "store", "peer")
    for what in copying:
        for off in (1, 2, 4, 8):
            fresh(what, near_off=off)
            fresh(what, far_off=off)
        for size in (0, 1, 4, 8, 16, 24, 40, 1 << 20):
            fresh(what, size=size)
        for from_end in (-16, 0, 16, 32, 112, 128, 144, 1024, 4096):
            fresh(what, from_end=from_end)
        for near in (0, 512, 0x3F0):  # the system's first KiB
            fresh(what, near=near, size=32)
        fresh(what, near_off=8, size=24)
        fresh(what, near_off=8, from_end=4104)  # two reasons at once
    for what in ("load", "load_cta"):
        for off in (1, 2, 4):
            fresh(what, misplaced_mbar=off)
    for off in (1, 8):
        fresh("prefetch", far_off=off)
    for size in (0, 8, 24, 16, 4096):
        fresh("prefetch", size=size)
    for i in range(4):
        fresh("peer", cluster_size=4, from_rank=i, to_rank=i, barrier_rank=i)  # to itself
        fresh("peer", cluster_size=4, from_rank=i, to_rank=(i + 1) % 4, barrier_rank=i)  # the barrier stays at home
        fresh("peer", cluster_size=4, from_rank=i, to_rank=(i + 1) % 4, barrier_rank=(i + 2) % 4)
    return out


def window_region(case: Case) -> tuple[int, int, int]:
    """(begin, size, barrier) of what is looked at around a shared destination."""
    end, near, size = case["window_end"], case["near"], case["size"]
    barrier = end - 64 if near + size + 1024 < end else WINDOW_BEGIN
    low, high = (WINDOW_BEGIN, barrier) if barrier > WINDOW_BEGIN else (WINDOW_BEGIN + 64, end)
    if case["what"] == "peer":
        low, high = (low, min(high, case["far"] // 16 * 16 - 16)) if case["far"] > near else (low, high)
    begin = min(max(low, (near - MARGIN) // 16 * 16), high - 16)
    return begin, max(min(high, (near + size + MARGIN + 15) // 16 * 16) - begin, 16), barrier


def armed(case: Case) -> int:
    return min((case["size"] + 15) // 16 * 16 + case["extra"], MOST_TX // 16 * 16)


# ----------------------------------------------------------------------------------------------------------- reductions

# The order is that of the codes in bulk_probes.cu.
GLOBAL_FORMS = (
    *(("add", t) for t in ("u32", "s32", "u64", "f32", "f64", "f16", "bf16")),
    *((op, t) for op in ("min", "max") for t in ("u32", "s32", "u64", "s64", "f16", "bf16")),
    *((op, "u32") for op in ("inc", "dec")),
    *((op, t) for op in ("and", "or", "xor") for t in ("b32", "b64")),
)
PEER_FORMS = (
    *(("add", t) for t in ("u32", "s32", "u64")),
    *((op, t) for op in ("min", "max") for t in ("u32", "s32")),
    *((op, "u32") for op in ("inc", "dec")),
    *((op, "b32") for op in ("and", "or", "xor")),
)
FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}  # exponent and fraction bits
RANDOM_ROWS = 48  # of every form


def special_elements(dtype: str) -> list[int]:
    if dtype not in FLOATS:
        bits = int(dtype[1:])
        top = 1 << (bits - 1)
        return [0, 1, 2, 3, top - 2, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1, (2 * top - 1) // 3, 0x12345678]
    e, f = FLOATS[dtype]
    one, inf, middle = 1 << f, ((1 << e) - 1) << f, ((1 << (e - 1)) - 1) << f
    found = [0, 1, one - 1, one, one + 1, middle, middle + 1, middle - 1, inf - one, inf - 1, inf, inf + 1, inf + one // 2, inf + one - 1]
    return [x | s << (e + f) for x in found for s in (0, 1)]


def float_pair(rng: random.Random, e: int, f: int) -> tuple[int, int]:
    """Two floats whose sum shows something: a tie, a cancellation, a subnormal, an overflow, or just any two."""
    bits, inf, sign = e + f + 1, ((1 << e) - 1) << f, 1 << (e + f)
    a, b = rng.getrandbits(bits), rng.getrandbits(bits)
    style = rng.randrange(6)
    if style == 0:  # exponents at most a fraction apart, so that bits are rounded off; half of them ties
        exponent = max((a & inf) >> f, 1)
        b = b & ~inf | max(exponent - rng.randrange(f + 3), 0) << f
        if rng.random() < 0.5:
            b = b & (sign | inf) | rng.choice((0, 1 << (f - 1), (1 << f) - 1, 1))
    elif style == 1:  # neighbours of opposite sign
        b = (a ^ sign) + rng.choice((-2, -1, 0, 1, 2))
    elif style == 2:  # around the smallest normal numbers
        a, b = (x & (sign | (2 << f) - 1) for x in (a, b))
    elif style == 3:  # around the largest
        a, b = (x & (sign | (1 << f) - 1) | inf - (rng.randrange(1, 3) << f) for x in (a, b))
        b = b & ~sign | a & sign
    elif style == 4:  # NaNs with payloads, infinities
        a, b = rng.sample((a | inf, b), 2)
    return a & (2 * sign - 1), b & (2 * sign - 1)


def integer_pair(rng: random.Random, bits: int) -> tuple[int, int]:
    a, b = rng.getrandbits(bits), rng.getrandbits(bits)
    style = rng.randrange(4)
    if style == 0:
        a, b = rng.randrange(6), rng.randrange(6)
    elif style == 1:
        b = a + rng.choice((-1, 0, 1))
    elif style == 2:
        b = a ^ 1 << (bits - 1)
    return a % (1 << bits), b % (1 << bits)


def element_pairs(rng: random.Random, dtype: str) -> list[tuple[int, int]]:
    """Every pair of special values, then random ones, as many as fill whole rows."""
    out = list(itertools.product(special_elements(dtype), repeat=2))
    itemsize = (sum(FLOATS[dtype]) + 1 if dtype in FLOATS else int(dtype[1:])) // 8
    target = len(out) + RANDOM_ROWS * 160 // itemsize
    while len(out) < target:
        out.append(float_pair(rng, *FLOATS[dtype]) if dtype in FLOATS else integer_pair(rng, 8 * itemsize))
    return out


def reductions(seed: int, forms: tuple[tuple[str, str], ...]) -> list[Case]:
    rng, out = random.Random(seed), []
    for form, (op, dtype) in enumerate(forms):
        pairs = element_pairs(rng, dtype)
        itemsize = (sum(FLOATS[dtype]) + 1 if dtype in FLOATS else int(dtype[1:])) // 8
        while pairs:
            size = min(16 * rng.randrange(4, 17), len(pairs) * itemsize // 16 * 16)
            if size < 64:
                break
            row, pairs = pairs[: size // itemsize], pairs[size // itemsize :]
            before, operand = (b"".join(p[side].to_bytes(itemsize, "little") for p in row) for side in (0, 1))
            case = {"form": form, "op": op, "dtype": dtype, "size": size, "before": before, "operand": operand}
            case["from"] = WINDOW_BEGIN + 64 + 16 * rng.randrange(16)
            case["to"] = 16 * rng.randrange(1, (SLOT - size) // 16)
            out.append(case)
    return out


# ------------------------------------------------------------------------------------------------------------ multicast

TILE_WINDOW, TENSOR_BYTES = 0x3000, 1 << 16


def tile(rng: random.Random) -> Case:
    """A 2D tiled map of u8 or u16, a box of at most 2 KiB, and where its load puts it."""
    data_type, swizzle = rng.choice((0, 1)), rng.randrange(4)
    itemsize = PLAIN_TYPES[data_type]
    inner = 16 * rng.randrange(1, (SWIZZLE_BYTES[swizzle] if swizzle else 128) // 16 + 1)
    rows = rng.randrange(1, 2048 // max(inner, SWIZZLE_BYTES[swizzle] if swizzle else 16) + 1)
    pitch, height = 16 * rng.randrange(16, 33), rng.randrange(1, 97)
    width = rng.randrange(16, pitch + 1) // itemsize
    case = {
        "data_type": data_type,
        "global_dim": [width, height],
        "global_strides": [pitch],
        "box_dim": [inner // itemsize, min(rows, 128)],
        "element_strides": [1, 1],
        "interleave": 0,
        "swizzle": swizzle,
        "l2_promotion": 0,
        "oob_fill": 0,
        "coordinates": [16 // itemsize * rng.randrange(-2, width * itemsize // 16 + 1), rng.randrange(-8, height)],
        "window_end": WINDOW_BEGIN + TILE_WINDOW,
    }
    case["pitch"] = SWIZZLE_BYTES[swizzle] if swizzle else inner
    case["size"] = inner * case["box_dim"][1]
    room = TILE_WINDOW - case["pitch"] * case["box_dim"][1] - 768
    case["smem_address"] = WINDOW_BEGIN + 256 + 128 * rng.randrange(1, room // 128)
    case["mbar"] = WINDOW_BEGIN + 8 * rng.randrange(0, 16)
    case["extra"] = 16 * rng.randrange(1, 33)
    return case


def multicasts(seed: int) -> list[Case]:
    rng, out = random.Random(seed), []
    for size, count in ((2, 140), (4, 180), (8, 160), (16, 80)):
        for _ in range(count):
            mask = rng.randrange(1, 1 << size) if rng.random() < 0.8 else 1 << rng.randrange(size)
            about = {"cluster_size": size, "issuer": rng.randrange(size), "multicast": 1, "cta_mask": mask, "to_rank": -1, "mbar_rank": -1}
            out.append(tile(rng) | about)
    return out


def trap_multicasts(seed: int) -> list[Case]:
    rng, out = random.Random(seed), []

    def fresh(**changes: Any) -> None:
        about = {"cluster_size": 4, "issuer": rng.randrange(4), "multicast": 1, "cta_mask": 0b0110, "to_rank": -1, "mbar_rank": -1}
        out.append(tile(rng) | about | changes)

    for mask in (0, 0, 0b10000, 0b10001, 0x8000, 0xFFFF, 0b110000):  # nobody, and CTAs that are not there
        fresh(cta_mask=mask)
        fresh(cta_mask=mask, cluster_size=2, issuer=rng.randrange(2))
    # one destination, named by mapa; the barrier there, here, elsewhere
    for issuer, target in itertools.product(range(4), range(4)):
        fresh(multicast=0, issuer=issuer, to_rank=target, mbar_rank=target)
        fresh(multicast=0, issuer=issuer, to_rank=target, mbar_rank=-1)
        fresh(multicast=0, issuer=issuer, to_rank=-1, mbar_rank=target)
    for target in range(4):  # several destinations, and a rank in the addresses
        fresh(cta_mask=0b1010, to_rank=target)
        fresh(cta_mask=0b1010, mbar_rank=target)
        fresh(cta_mask=0b1010, to_rank=target, mbar_rank=target)
        fresh(cta_mask=1 << target, to_rank=3 - target, mbar_rank=3 - target)
    for i in range(6):  # a misaligned destination or box in a multicast
        case = tile(rng)
        odd = {"smem_address": case["smem_address"] + 16 * (i + 1)} if i % 2 else {"coordinates": [case["coordinates"][0] + 1, 0]}
        out.append(case | {"cluster_size": 4, "issuer": 0, "multicast": 1, "cta_mask": 0b1111, "to_rank": -1, "mbar_rank": -1} | odd)
    return out
