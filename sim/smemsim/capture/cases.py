"""The arguments of every probe, drawn at random from a seed: legal, nearly legal, and those that should trap.

Nothing here knows what hardware does with them; the bounds are only wide enough to keep the probes inside their
buffers.
"""

from __future__ import annotations

import random
from typing import Any

from smemsim.capture.wgmma_kernels import IDENTITY, TYPES, WINDOW_BEGIN, WINDOW_END, Variant

# driver code, element bytes; every plain type (conversions and packed types have suites of their own)
PLAIN_TYPES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 4}
FLOAT_TYPES = (6, 7, 8, 9, 10)
SWIZZLE_BYTES = (16, 32, 64, 128)  # by the driver's swizzle code; 16 for none
TENSOR_BYTES = 1 << 20
STORE_BYTES = 1 << 16
STORE_MARGIN = 256

Case = dict[str, Any]


# ------------------------------------------------------------------------------------------------------- wgmma operands


def descriptor(rng: random.Random, v: Variant, reserved: int = 0) -> int:
    """A descriptor whose every conceivable read stays inside the window (and, for A, below the identity)."""
    end = IDENTITY if v.operand == "A" else WINDOW_END
    itemsize = TYPES[v.dtype].itemsize
    k_bytes = v.k * itemsize
    while True:
        code = rng.randrange(4)
        width = (16, 128, 64, 32)[code]
        if rng.random() < 0.3:  # what kernels do: an aligned tile and an advance inside it
            start = rng.randrange(1, 48) * 1024 + rng.randrange(0, max(width // 32, 1)) * 32
        else:
            start = rng.randrange(WINDOW_BEGIN // 16, 0x2400) * 16
        style = rng.random()
        if style < 0.25:
            lbo, sbo = rng.choice((0, 16, 128, 2048, 4096, 8192)), rng.choice((128, 256, 512, 1024, 2048, 8 * width))
        elif style < 0.8:
            lbo, sbo = 16 * rng.randrange(0, 1020), 16 * rng.randrange(0, 1020)
        else:
            lbo, sbo = 16 * (2 * rng.randrange(0, 400) + 1), 16 * (2 * rng.randrange(0, 400) + 1)
        row_groups, row_chunks = v.rows // 8 - 1, v.rows * itemsize // 16
        if v.major == "K":
            reach = row_groups * sbo + (k_bytes // 16) * lbo
        else:
            reach = max(row_chunks * sbo + (v.k // 8) * lbo, row_chunks * lbo + (v.k // 8) * sbo)
        if start + reach + 8 * 128 + k_bytes + 128 >= end:
            scale = max((end - start - 2048) / max(reach, 1), 0) * rng.random()
            lbo, sbo = int(lbo * scale) // 16 * 16, int(sbo * scale) // 16 * 16
            reach = int(reach * scale) + 1
        if start + reach + 8 * 128 + k_bytes + 256 >= end:
            continue
        base_offset = rng.randrange(8) if rng.random() < 0.5 else 0
        return start >> 4 | (lbo >> 4) << 16 | (sbo >> 4) << 32 | base_offset << 49 | code << 62 | reserved


RESERVED_BITS = (14, 15, 30, 31, 46, 47, 48, *range(52, 62))


def reserved_bits(rng: random.Random, v: Variant) -> list[int]:
    """Every reserved bit alone in every layout code, then random sets of them."""
    out = []
    for code in range(4):
        for bit in RESERVED_BITS:
            word = descriptor(rng, v) & ~(3 << 62)
            out.append(word | code << 62 | 1 << bit)
    for _ in range(40):
        out.append(descriptor(rng, v, sum(1 << bit for bit in RESERVED_BITS if rng.random() < 0.5)))
    return out


# ---------------------------------------------------------------------------------------------------------- tensor maps


def tiled(rng: random.Random, *, store: bool, big: bool = False) -> Case:
    """Arguments of cuTensorMapEncodeTiled, coordinates and a shared address; dimension 0 first."""
    data_type = rng.choice(tuple(PLAIN_TYPES))
    itemsize = PLAIN_TYPES[data_type]
    rank = rng.choice((1, 2, 2, 2, 3, 3, 4, 5))
    swizzle = rng.randrange(4)
    limit = min(SWIZZLE_BYTES[swizzle] if swizzle else 512, 256 * itemsize) // 16
    inner = 16 * (limit if rng.random() < 0.4 else rng.randrange(1, limit + 1))
    box, strides_in_elements = [inner // itemsize], [rng.choice((1, 1, 1, 2, 3, 8))]
    rows_left = rng.choice((256, 128)) if big else rng.choice((8, 24, 64))
    for _ in range(1, rank):
        tile = rng.randrange(1, max(2, min(rows_left, 64) + 1)) if rng.random() < 0.6 else rng.randrange(1, min(rows_left, 5) + 1)
        step = rng.choice((1, 1, 1, 2, 3, rng.randrange(1, 9)))
        size = min(256, tile * step - rng.randrange(step))
        box.append(size)
        strides_in_elements.append(step)
        rows_left = max(1, rows_left // (-(-size // step)))
    room = STORE_BYTES - 2 * STORE_MARGIN if store else TENSOR_BYTES // 2
    dim = [max(1, box[0] + rng.randrange(-box[0] + 1, 3 * box[0] // 2 + 2))]
    stride, pitch = [], -(-dim[0] * itemsize // 16) * 16
    for i in range(1, rank):
        padding = 16 * rng.choice((0, 0, 1, 3, rng.randrange(20)))
        stride.append(pitch + padding)
        most = max(1, room // stride[-1])
        dim.append(min(most, max(1, box[i] + rng.randrange(-box[i] + 1, box[i] // 2 + 3))))
        pitch = stride[-1] * dim[i]
    if not store and rank > 2 and rng.random() < 0.2:
        order = list(range(1, rank))
        rng.shuffle(order)  # the driver does not ask for ordered strides
        stride, outer = [stride[i - 1] for i in order], [dim[i] for i in order]
        dim[1:] = outer
    if not store and rank > 1 and rng.random() < 0.06:
        stride[rng.randrange(rank - 1)] = rng.choice((0, 16))  # broadcast, overlap
    unit = max(1, 16 // itemsize)
    coordinates = []
    for i in range(rank):
        low = 0 if store else -box[i]
        near = rng.random() < 0.5
        c = rng.randrange(0, max(1, dim[i] - box[i] // 2)) if near else rng.randrange(low, dim[i] + 3)
        coordinates.append(c // unit * unit if i == 0 else c)
    case = {
        "data_type": data_type,
        "global_dim": dim,
        "global_strides": stride,
        "box_dim": box,
        "element_strides": strides_in_elements,
        "interleave": 0,
        "swizzle": swizzle,
        "l2_promotion": rng.randrange(4),
        "oob_fill": int(data_type in FLOAT_TYPES and rng.random() < 0.4),
        "coordinates": coordinates,
        "global_offset": 16 * rng.randrange(0, 64) + (0 if not store else STORE_MARGIN),
    }
    if store:
        case["global_offset"] = STORE_MARGIN
    return case


def pitch_and_rows(case: Case) -> tuple[int, int, int]:
    """(bytes of an inner row, an upper bound of the row pitch, rows) of the box."""
    inner = case["box_dim"][0] * PLAIN_TYPES[case["data_type"]]
    rows = 1
    for size, step in zip(case["box_dim"][1:], case["element_strides"][1:], strict=True):
        rows *= -(-size // step)
    return inner, max(inner, SWIZZLE_BYTES[case["swizzle"]] if case["swizzle"] else inner), rows


def place(rng: random.Random, case: Case, window_bytes: int) -> bool:
    """Choose the shared address; False when the box does not fit."""
    _, pitch, rows = pitch_and_rows(case)
    room = window_bytes - pitch * rows - 256
    if room < 2048:
        return False
    case["smem_address"] = WINDOW_BEGIN + 128 * rng.randrange(0, room // 128)
    case["window_end"] = WINDOW_BEGIN + window_bytes
    return True


def loads(seed: int, count: int) -> list[Case]:
    """Tiled loads: most in a 64 KiB window, some large boxes in the largest."""
    rng, out = random.Random(seed), []
    while len(out) < count:
        big = rng.random() < 0.04
        case = tiled(rng, store=False, big=big)
        if big or rng.random() < 0.02:
            window = WINDOW_END - WINDOW_BEGIN
        else:
            window = 0x10000
        if place(rng, case, window):
            out.append(case)
    return out


def far_loads(seed: int, count: int) -> list[Case]:
    """Coordinates near +-2^31 and dimensions near 2^32; stride 0 keeps the addresses inside the buffer."""
    rng, out = random.Random(seed), []
    extremes = (-(2**31), -(2**31) + 1, 2**31 - 1, 2**31 - 2, 2**31 - 8, -1, 0, 2**30, -(2**30))
    while len(out) < count:
        case = tiled(rng, store=False)
        if len(case["global_dim"]) < 2:
            continue
        i = rng.randrange(1, len(case["global_dim"]))
        case["global_strides"][i - 1] = 0
        case["global_dim"][i] = rng.choice((2**31 - 1, 2**31 - 1, 2**31, 2**31, 2**31 + 1, 2**32, 7, 7))
        case["coordinates"][i] = rng.choice(extremes)
        if rng.random() < 0.15:
            unit = max(1, 16 // PLAIN_TYPES[case["data_type"]])
            case["coordinates"][0] = rng.choice((-(2**31), 2**31 - unit, -(2**30), 2**30))
        if place(rng, case, 0x10000):
            out.append(case)
    return out


def stores(seed: int, count: int) -> list[Case]:
    rng, out = random.Random(seed), []
    while len(out) < count:
        case = tiled(rng, store=True, big=rng.random() < 0.03)
        case["oob_fill"] = 0
        if place(rng, case, 0x10000):
            out.append(case)
    return out


# ---------------------------------------------------------------------------------------------------------------- traps


def trap_loads(seed: int) -> list[Case]:
    """Cases that may end the CUDA context; each runs in a process of its own, and what happens is the outcome."""
    rng, out = random.Random(seed), []

    def fresh(window: int = 0x10000, *, itemsize: int | None = None) -> Case:
        while True:
            case = tiled(rng, store=False)
            if itemsize and PLAIN_TYPES[case["data_type"]] > itemsize:
                continue
            if place(rng, case, window):
                return case

    for _ in range(40):  # dimension 0 starts off a 16-byte boundary
        case = fresh(itemsize=8)
        unit = 16 // PLAIN_TYPES[case["data_type"]]
        case["coordinates"][0] += rng.randrange(1, unit)
        out.append(case)
    for offset in (16, 32, 48, 64, 80, 96, 112, 8, 1):  # shared address off a 128-byte boundary, each swizzle
        for swizzle in range(4):
            case = fresh()
            while case["swizzle"] != swizzle:
                case = fresh()
            case["smem_address"] += offset
            out.append(case)
    for _ in range(40):  # around the end of the window
        case = fresh()
        _, pitch, rows = pitch_and_rows(case)
        end = case["window_end"]
        case["smem_address"] = (end - pitch * rows + 128 * rng.randrange(-2, 4)) // 128 * 128
        out.append(case)
    for address in (0, 128, 256, 512, 640, 768, 896):  # the system's first KiB
        case = fresh()
        case["smem_address"] = address
        out.append(case)
    for _ in range(16):  # a window whose size is no multiple of 128
        case = fresh(0x80F0)
        _, pitch, rows = pitch_and_rows(case)
        case["smem_address"] = max(WINDOW_BEGIN + 1024, (case["window_end"] - pitch * rows + 128 * rng.randrange(-1, 3)) // 128 * 128)
        out.append(case)
    for i in range(12):  # two reasons at once: which one is reported?
        case = fresh(itemsize=8)
        if i % 3 < 2:
            case["coordinates"][0] += 1
        if i % 3 > 0:
            case["smem_address"] += 64
        if i % 3 != 1:
            case["smem_address"] += case["window_end"] // 128 * 128
        out.append(case)
    for i in range(24):  # one dimension around 2^31, its stride 0
        case = fresh(itemsize=2)
        while len(case["global_dim"]) < 2:
            case = fresh(itemsize=2)
        dimension = i % 2 and rng.randrange(1, len(case["global_dim"]))
        case["global_dim"][dimension] = (1 << 31) + (-1, 0, 1, 2)[i // 2 % 4]
        if dimension:
            case["global_strides"][dimension - 1] = 0
        else:
            case["coordinates"][0] = 0
        out.append(case)
    return out


def trap_stores(seed: int) -> list[Case]:
    rng, out = random.Random(seed), []

    def fresh() -> Case:
        while True:
            case = tiled(rng, store=True)
            case["oob_fill"] = 0
            if place(rng, case, 0x10000):
                return case

    for _ in range(36):  # a negative start
        case = fresh()
        i = rng.randrange(len(case["coordinates"]))
        unit = max(1, 16 // PLAIN_TYPES[case["data_type"]]) if i == 0 else 1
        case["coordinates"][i] = -unit * rng.choice((1, 2, 3, 1000))
        out.append(case)
    for _ in range(24):  # dimension 0 starts off a 16-byte boundary
        case = fresh()
        while PLAIN_TYPES[case["data_type"]] == 16:
            case = fresh()
        case["coordinates"][0] += rng.randrange(1, 16 // PLAIN_TYPES[case["data_type"]])
        out.append(case)
    for offset in (16, 32, 64, 96, 112):
        for swizzle in range(4):
            case = fresh()
            while case["swizzle"] != swizzle:
                case = fresh()
            case["smem_address"] += offset
            out.append(case)
    for _ in range(24):  # around the end of the window
        case = fresh()
        _, pitch, rows = pitch_and_rows(case)
        case["smem_address"] = (case["window_end"] - pitch * rows + 128 * rng.randrange(-2, 4)) // 128 * 128
        out.append(case)
    for address in (0, 512, 896):
        case = fresh()
        case["smem_address"] = address
        out.append(case)
    for i in range(12):  # one dimension around 2^31; no two elements of the box may meet, so it is the last one
        case = fresh()
        while len(case["global_dim"]) < 2 or case["box_dim"][-1] > 16:
            case = fresh()
        case["global_dim"][-1] = (1 << 31) + (-1, 0, 1)[i % 3]
        case["coordinates"] = [0] * len(case["coordinates"])
        case["global_strides"][-1] = 2048
        case["box_dim"][-1] = case["element_strides"][-1] = 1
        out.append(case)
    return out


def trap_operands(seed: int) -> list[tuple[Variant, int, int]]:
    """(kernel, descriptor, end of the window): descriptors that leave the window, or begin just inside it."""
    rng, out = random.Random(seed), []
    for _ in range(40):
        v = Variant("B", "bf16", rng.choice((8, 64, 128)), rng.choice(("K", "MN")))
        word = descriptor(rng, v)
        style = rng.randrange(4)
        if style == 0:  # the start itself, beyond the window or near the end of the 18 bits
            start = rng.choice((WINDOW_END - 1024, WINDOW_END, 0x3FC00, 0x3FFF0))
            word = word & ~0x3FFF | start >> 4
        elif style == 1:  # strides meant as negative
            word = word & ~(0x3FFF << 32) | (0x4000 - rng.choice((8, 64, 128))) << 32
        elif style == 2:
            word = word & ~(0x3FFF << 16) | (0x4000 - rng.choice((8, 64, 512))) << 16
        else:
            word = word & ~(0x3FFF << 32) | rng.randrange(0x300, 0x3FFF) << 32
        out.append((v, word, WINDOW_END))
    # across the end, line by line
    for end, count in ((WINDOW_END, 80), (WINDOW_BEGIN + 0x8000, 24), (WINDOW_BEGIN + 0x80F0, 16)):
        for i in range(count):
            v = Variant("B", "bf16", rng.choice((8, 8, 16)), ("K", "MN")[i % 2])
            code = i // 2 % 4
            atom = 8 * (16, 128, 64, 32)[code]
            start = (end - 16 * rng.randrange(1, atom // 16 + 10)) // 16
            lbo, sbo = rng.choice((128, atom)), rng.choice((atom, 128))
            base_offset = rng.choice((0, 0, 0, 1, 5))
            out.append((v, start | (lbo >> 4) << 16 | (sbo >> 4) << 32 | base_offset << 49 | code << 62, end))
    for end in (WINDOW_END, WINDOW_BEGIN + 0x80F0):  # one group of 8 lines, 16 bytes further at a time
        for code in range(4):
            width = (16, 128, 64, 32)[code]
            for steps in range(1, 2 * width // 16 + 3):
                for major in ("K", "MN"):
                    v = Variant("B", "bf16", 8, major)
                    last = end - 16 * steps  # the line on which the last group begins
                    start, far = (last, 16) if major == "K" else (last - 4096, 4096)
                    lbo = far if code == 0 or major == "K" else 16
                    out.append((v, start >> 4 | (lbo >> 4) << 16 | (far >> 4) << 32 | code << 62, end))
    return out


# --------------------------------------------------------------------------------------------------------- TMA -> wgmma


def tiles(seed: int) -> list[Case]:
    """bf16 tiles of 64 rows on every 128-byte phase, read by m64n64k16 with and without
    base_offset, at every K step.
    """
    rng, out = random.Random(seed), []
    for swizzle in range(4):
        for major in ("K", "MN"):
            for phase in range(8):
                for base_offset in range(8):
                    for _ in range(3):
                        out.append(_tile(rng, swizzle, major, phase, base_offset if rng.random() < 0.8 else 0))
    return out


def _tile(rng: random.Random, swizzle: int, major: str, phase: int, base_offset: int) -> Case:
    width = SWIZZLE_BYTES[swizzle]  # bytes of an atom's contiguous extent
    w = width // 2
    tile_k = max(w, 16) if major == "K" else 32
    to = 1024 * rng.randrange(1, 24) + 128 * phase
    rows, k = 64 * 3, 64 * 2
    matrix_pitch = (k if major == "K" else rows) * 2 + 16 * rng.randrange(4)
    m0, k0 = rng.randrange(-8, rows - 32), rng.randrange(-8, k - 16)
    if major == "K":
        k0 = k0 // 8 * 8
        box, loads = [w, 64], [(to + x // w * 64 * width, (k0 + x, m0)) for x in range(0, tile_k, w)]
        sbo, lbo = 8 * width, 64 * width if swizzle == 0 else rng.choice((0, 16, 16 * rng.randrange(600)))
        step = rng.randrange(tile_k // 16)
        start = to + (step * 32 if swizzle else 0)
    else:
        m0 = m0 // 8 * 8
        box, loads = [w, tile_k], [(to + x // w * tile_k * width, (m0 + x, k0)) for x in range(0, 64, w)]
        atom, panel = 8 * width, tile_k * width
        lbo, sbo = (atom, panel) if swizzle == 0 else (panel, atom)
        step = rng.randrange(tile_k // 16)
        start = to + step * 2 * atom
    code = (0, 3, 2, 1)[swizzle]
    return {
        "data_type": 9,
        "global_dim": [k, rows] if major == "K" else [rows, k],
        "global_strides": [matrix_pitch],
        "box_dim": box,
        "element_strides": [1, 1],
        "interleave": 0,
        "swizzle": swizzle,
        "l2_promotion": 0,
        "oob_fill": 0,
        "global_offset": 0,
        "loads": loads,
        "major": major,
        "descriptor": start >> 4 | (lbo >> 4) << 16 | (sbo >> 4) << 32 | base_offset << 49 | code << 62,
    }


# --------------------------------------------------------------------------------------------------------------- values

VALUE_ROW = 256  # bytes
VALUE_TYPES = {6: 2, 7: 4, 8: 8, 9: 2, 10: 4, 11: 4, 12: 4}


def value_row(rng: random.Random) -> bytes:
    """A row of floats weighted to the hard cases: ties at every cut, denormals, the largest numbers, infinities, NaNs,
    both zeros.
    """
    out = []
    for _ in range(VALUE_ROW // 4):
        word = rng.getrandbits(32)
        style = rng.randrange(8)
        if style == 0:  # a tie or its neighbour, at tf32's cut
            word = word & ~0x1FFF | rng.choice((0xFFF, 0x1000, 0x1001, 0x0001, 0x1FFF))
        elif style == 1:  # denormals
            word &= 0x807FFFFF
        elif style == 2:  # the last ones before infinity, infinities and NaNs with payloads anywhere
            word = word & 0x80000000 | rng.choice(
                (0x7F7FF000, 0x7F7FEFFF, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7F801000, 0x7FFFFFFF)
            )
        elif style == 3:
            word &= 0x80000000
        out.append(word.to_bytes(4, "little"))
    return b"".join(out)


def values(seed: int, count: int) -> list[Case]:
    """Loads and stores of one row of every floating-point type, some with a ragged end and either fill."""
    rng, out = random.Random(seed), []
    for i in range(count):
        data_type = rng.choice((11, 11, 12, 12, 10, 7, 6, 8, 9))
        itemsize = VALUE_TYPES[data_type]
        n = VALUE_ROW // itemsize
        store = i % 4 == 3
        dim = n if store or rng.random() < 0.7 else rng.randrange(1, n)
        out.append(
            {
                "data_type": data_type,
                "global_dim": [dim],
                "global_strides": [],
                "box_dim": [n],
                "element_strides": [1],
                "interleave": 0,
                "swizzle": 0,
                "l2_promotion": 0,
                "oob_fill": int(not store and rng.random() < 0.5),
                "store": store,
                "input": value_row(rng),
            }
        )
    return out


# ----------------------------------------------------------------------------------------------------- reference kernel


def gemm_operand(swizzle: int, major: str) -> Case:
    """How a 64 x 64 bf16 stage of one operand is loaded and read: boxes (shared offset,
    row, k), box_dim, K-step words.
    """
    width = SWIZZLE_BYTES[swizzle]
    w, code = width // 2, (0, 3, 2, 1)[swizzle]
    panel = 64 * width  # one box: 64 rows (or 64 k) of `width` bytes
    if major == "K":
        boxes = [(x // w * panel, 0, x) for x in range(0, 64, w)]
        lbo, sbo = (panel if swizzle == 0 else 16), 8 * width
        starts = [s * 16 // w * panel + s * 32 % width if swizzle else s * 2 * panel for s in range(4)]
    else:
        boxes = [(x // w * panel, x, 0) for x in range(0, 64, w)]
        lbo, sbo = (8 * width, panel) if swizzle == 0 else (panel, 8 * width)
        starts = [s * 16 * width for s in range(4)]
    fields = (lbo >> 4) << 16 | (sbo >> 4) << 32 | code << 62
    return {"box_dim": [w, 64], "boxes": boxes, "words": [fields | start >> 4 for start in starts]}
