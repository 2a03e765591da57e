"""The arguments of tensor transfers of every mode: im2col, interleaved, edited maps, reductions; drawn from a seed.

Nothing here knows what hardware does with them; the bounds keep the probes inside their buffers.
"""

from __future__ import annotations

import random
from typing import Any

from smemsim.capture import cases as plain
from smemsim.capture.cases import FLOAT_TYPES, PLAIN_TYPES, STORE_MARGIN, SWIZZLE_BYTES
from smemsim.capture.wgmma_kernels import WINDOW_BEGIN

Case = dict[str, Any]
WINDOW = 0x10000
BARRIER = WINDOW_BEGIN + WINDOW - 16
MOST_BOX = 0x6000  # bytes a box may take in shared memory
LOAD_ROOM, STORE_ROOM = 1 << 19, (1 << 16) - 2 * STORE_MARGIN
CORNER_BITS = {3: 16, 4: 8, 5: 5}
OFFSET_BITS = {3: 16, 4: 8, 5: 5}
OPERATIONS = ("store", "add", "min", "max", "inc", "dec", "and", "or", "xor")


def _shape(rng: random.Random, case: Case, dim: list[int], unit: int, room: int, *, ordered: bool) -> None:
    """Strides for these dimensions, of which the first has elements of `unit` bytes; shrinks dimensions that do not
    fit.
    """
    align = 32 if case["interleave"] == 2 else 16
    stride, pitch = [], -(-dim[0] * unit // align) * align
    for i in range(1, len(dim)):
        stride.append(pitch + align * rng.choice((0, 0, 0, 1, 3, rng.randrange(12))))
        dim[i] = min(dim[i], max(1, room // stride[-1]))
        pitch = stride[-1] * dim[i]
    if not ordered and len(dim) > 2 and rng.random() < 0.15:
        order = list(range(1, len(dim)))
        rng.shuffle(order)
        stride, dim[1:] = [stride[i - 1] for i in order], [dim[i] for i in order]
    case["global_dim"], case["global_strides"] = dim, stride


def _common(rng: random.Random, interleave: int, *, store: bool) -> Case:
    data_type = rng.choice(tuple(PLAIN_TYPES))
    return {
        "data_type": data_type,
        "interleave": interleave,
        "swizzle": rng.randrange(4),
        "l2_promotion": rng.randrange(4),
        "oob_fill": int(not store and data_type in FLOAT_TYPES and rng.random() < 0.4),
        "global_offset": STORE_MARGIN if store else 32 * rng.randrange(0, 32),
        "window_end": WINDOW_BEGIN + WINDOW,
    }


def _place(rng: random.Random, case: Case, size: int) -> bool:
    room = WINDOW - size - 512
    if room < 1024:
        return False
    case["smem_address"] = WINDOW_BEGIN + 128 * rng.randrange(0, room // 128)
    return True


def im2col(rng: random.Random, *, store: bool = False, interleave: int = 0, outside: float = 0.0) -> Case:
    """Arguments of cuTensorMapEncodeIm2col and of a transfer; `outside` is how often a start lies outside the pixel
    box.
    """
    while True:
        rank = rng.choice((3, 4, 5))
        axes = rank - 2
        case = _common(rng, interleave, store=store)
        itemsize = PLAIN_TYPES[case["data_type"]]
        width = SWIZZLE_BYTES[case["swizzle"]] if case["swizzle"] else 512
        inner = 16 * rng.randrange(1, min(width if not interleave else 256, 256 * itemsize) // 16 + 1)
        if rng.random() < 0.3 and not interleave:
            inner = min(width, 256 * itemsize)
        channels = inner // itemsize
        pitch = max(inner, 16 if not case["swizzle"] else width, 16 * interleave)
        pixels = rng.choice((1, rng.randrange(1, 17), rng.randrange(1, 129), rng.randrange(1, 1025)))
        pixels = min(pixels, MOST_BOX // pitch)
        spatial = [rng.randrange(1, 14) for _ in range(axes)]
        images = rng.randrange(1, 5)
        unit = 16 * interleave or itemsize
        if interleave:
            dim = [*spatial, rng.randrange(1, 5), images]
            first = 0
        else:
            dim = [max(1, channels + rng.randrange(-channels + 1, channels + 2)), *spatial, images]
            first = 1
        _shape(rng, case, dim, unit, STORE_ROOM if store else LOAD_ROOM, ordered=store)
        dim = case["global_dim"]
        wide = rng.random() < 0.2
        limit = min(1 << CORNER_BITS[rank] - 1, 40)
        low, high = (-limit, limit - 1) if wide else (-3, 3)
        lower = [rng.randrange(0 if store else low, high + 1) for _ in range(axes)]
        upper = [rng.randrange(low, (0 if store else high) + 1) for _ in range(axes)]
        spans = [(lo, dim[first + i] + up) for i, (lo, up) in enumerate(zip(lower, upper, strict=True))]
        if any(end <= begin for begin, end in spans):
            continue
        start = []
        for begin, end in spans:
            if rng.random() < outside:
                start.append(rng.choice((begin - 1, begin - 2, begin - rng.randrange(1, 9), end, end + 1, end + rng.randrange(0, 9))))
            else:
                start.append(rng.randrange(begin, end))
        image = rng.randrange(0, images) if store or rng.random() < 0.85 else rng.choice((-1, images, images + 1))
        if interleave:
            outer = rng.randrange(0, dim[-2]) if store or rng.random() < 0.85 else rng.choice((-1, dim[-2]))
            coordinates = [*start, outer, image]
        else:
            step = max(1, 16 // itemsize)
            c = rng.choice((0, 0, rng.randrange(0, dim[0]), rng.randrange(0 if store else -channels, dim[0] + 2))) // step * step
            coordinates = [c, *start, image]
        if store and min(coordinates) < 0:
            continue
        far = rng.random() < 0.15
        bits = OFFSET_BITS[rank]
        offsets = [rng.randrange(1 << bits) if far else rng.randrange(0, 4) for _ in range(axes)]
        steps = [rng.choice((1, 1, 1, 2, 3, rng.randrange(1, 9))) for _ in range(rank)]
        case |= {
            "mode": 1,
            "pixel_box_lower_corner": lower,
            "pixel_box_upper_corner": upper,
            "channels_per_pixel": channels,
            "pixels_per_column": pixels,
            "element_strides": steps,
            "coordinates": coordinates,
            "im2col_offsets": [0] * axes if store else offsets,
        }
        if _place(rng, case, pitch * pixels):
            return case


def interleaved(rng: random.Random, *, store: bool = False, steps_inside: bool = True) -> Case:
    """Arguments of cuTensorMapEncodeTiled with interleave: dimension 0 counts slices."""
    while True:
        rank = rng.choice((3, 3, 4, 5))
        case = _common(rng, rng.choice((1, 2)), store=store)
        itemsize, unit = PLAIN_TYPES[case["data_type"]], 16 * case["interleave"]
        step0 = max(1, 16 // itemsize)
        box, steps, rows = [step0 * rng.randrange(1, max(2, min(256, 96) // step0 + 1))], [1], 256
        for _ in range(1, rank):
            n = rng.randrange(1, max(2, min(rows, 12) + 1)) if rng.random() < 0.7 else rng.randrange(1, max(2, min(rows, 40) + 1))
            step = rng.choice((1, 1, 1, 2, 3, rng.randrange(1, 9)))
            box.append(min(256, max(1, n * step - rng.randrange(step))))
            steps.append(step)
            rows = max(1, rows // n)
        if steps_inside and rng.random() < 0.35:
            steps[0] = rng.randrange(1, 9)
        if rng.random() < 0.3:
            box[rank - 2] = rng.randrange(1, 9)
        dim = [max(1, box[0] + rng.randrange(-box[0] + 1, box[0] + 2))]
        dim += [max(1, n + rng.randrange(-n + 1, n // 2 + 3)) for n in box[1:]]
        _shape(rng, case, dim, unit, STORE_ROOM if store else LOAD_ROOM, ordered=store)
        dim = case["global_dim"]
        coordinates = []
        for i in range(rank):
            near = rng.random() < 0.6
            c = rng.randrange(0, dim[i]) if near else rng.randrange(0 if store else -box[i], dim[i] + 2)
            coordinates.append(c)
        size = unit
        for n in box:
            size *= n
        if size > 8 * MOST_BOX:
            continue
        tile = unit
        for n, step in zip(box, steps, strict=True):
            tile *= -(-n // step)
        case |= {"mode": 0, "box_dim": box, "element_strides": steps, "coordinates": coordinates}
        if tile <= MOST_BOX and _place(rng, case, tile):
            return case


def tiled_case(rng: random.Random, *, store: bool) -> Case:
    """A legal plain tiled transfer."""
    while True:
        case = {**plain.tiled(rng, store=store), "mode": 0}
        if store:
            case["oob_fill"] = 0
        _, pitch, rows = plain.pitch_and_rows(case)
        if pitch * rows <= MOST_BOX and plain.place(rng, case, WINDOW):
            return case


# ---------------------------------------------------------------------------------------------------------- edited maps


def word_edit(word: int, mask: int, bits: int) -> list[int]:
    """[word, and-mask, or-bits] of 32-bit words."""
    return [word, mask ^ 0xFFFFFFFF, bits & mask]


def random_edit(rng: random.Random, rank: int, *, is_store: bool) -> list[list[int]]:
    """Bits of the 128 bytes that no encoder would have set, or fields that repeat what others say."""
    change, bits = rng.randrange(20), rng.getrandbits(32)
    if change == 0:  # the derived words: box bytes and swizzle period
        return [word_edit(rng.choice((16, 18)), 0xFFFFFFFF, rng.choice((0, bits, 16, 0xFFFFFFFF)))]
    if change == 1:
        return [word_edit(16, 0xFFFFFFFF, 0), word_edit(18, 0xFFFFFFFF, 0)]
    if change == 2:
        return [word_edit(rng.choice((17, *range(19, 32))), 0xFFFFFFFF, bits)]
    if change == 3:  # version
        return [word_edit(2, 0b1110, rng.randrange(1, 8) << 1)]
    if change in (4, 5):  # one of the upper bits of word 2
        return [word_edit(2, 1 << (bit := rng.randrange(19, 32)), 1 << bit)]
    if change == 6:
        return [word_edit(7, 0xFFFF0000, bits)]
    if change == 7:
        return [word_edit(13, 0x00FF8000, bits)]
    if change == 8:  # the tf32 bit with any format
        return [word_edit(2, 1 << 16, 1 << 16)]
    if change == 9 and not is_store:  # any format code; a store of wider elements would leave its buffer
        return [word_edit(2, 0x780, rng.randrange(16) << 7)]
    if change == 10:
        return [word_edit(2, 0x1800, 3 << 11)]
    if change == 11:  # rank
        return [word_edit(2, 0x70, rng.randrange(8) << 4)]
    if change == 12:  # mode
        return [word_edit(2, 1, rng.randrange(2))]
    if change == 13 and rank < 5:  # dimensions past the rank
        i = rng.randrange(rank, 5)
        return [word_edit(8 + i, 0xFFFFFFFF, bits), word_edit(14, 0xFF << 8 * (i - 1), bits), word_edit(13, 7 << 3 * i, bits)]
    if change == 14:
        return [word_edit(15, 0xFFFFFFFF, bits)]
    if change == 15:  # a global address that is no multiple of 16
        return [word_edit(0, 0xF, rng.choice((1, 2, 4, 8, 12)))]
    if change == 16:  # addresses and strides that are odd multiples of 16, alone and together
        both = [word_edit(0, 0x10, 0x10), word_edit(rng.randrange(3, 2 + max(rank, 2)), 1, 1)]
        return rng.choice((both, both[:1], both[1:]))
    if change == 17:  # an address beyond what the driver takes
        return [word_edit(1, 0xFFFFFFFF, rng.choice((1 << 25, 1 << 31, 0xFFFF_FFFF, 1 << 24, 1 << 17)))]
    return [word_edit(2, 1 << 15, 1 << 15)]  # NaN fill, with any type


# ----------------------------------------------------------------------------------------------------------- reductions

ITEM_BITS = {**{code: 8 * size for code, size in PLAIN_TYPES.items()}, 11: 32, 12: 32}
# exponent and fraction bits
FLOATS = {6: (5, 10), 9: (8, 7), 7: (8, 23), 10: (8, 23), 11: (8, 23), 12: (8, 23), 8: (11, 52)}


def _integer(rng: random.Random, bits: int) -> int:
    top = 1 << bits
    return rng.choice((0, 1, top - 1, top // 2, top // 2 - 1, rng.getrandbits(bits), rng.getrandbits(bits), rng.getrandbits(4))) % top


def _float_pair(rng: random.Random, exponent_bits: int, fraction_bits: int) -> tuple[int, int]:
    """Two floating-point numbers that show how a sum is rounded, or what becomes of special ones."""
    bits = 1 + exponent_bits + fraction_bits
    top, one = (1 << exponent_bits) - 1, 1 << fraction_bits

    def number(exponent: int) -> int:
        return rng.getrandbits(1) << bits - 1 | max(0, min(top - 1, exponent)) << fraction_bits | rng.getrandbits(fraction_bits)

    def special() -> int:
        sign = rng.getrandbits(1) << bits - 1
        return sign | rng.choice((0, 0, 1, one - 1, one, top * one, top * one | 1, top * one | one // 2, top * one | rng.randrange(1, one),
                                  top * one - 1, (top // 2) * one))  # fmt: skip

    style = rng.randrange(8)
    if style == 0:
        return special(), special()
    if style == 1:
        return special(), number(rng.randrange(top))
    if style == 2:
        return rng.getrandbits(bits), rng.getrandbits(bits)
    if style == 3:  # ties: far apart, few fraction bits in the small one
        e = rng.randrange(fraction_bits + 2, top)
        small = number(e - fraction_bits - rng.choice((0, 1, 1, 2))) & ~((1 << max(fraction_bits - 2, 0)) - 1)
        return number(e), small
    if style == 4:  # cancellation
        x = number(rng.randrange(top))
        return x, (x ^ 1 << bits - 1) + rng.choice((-1, 0, 0, 1)) & (1 << bits) - 1
    if style == 5:  # denormals
        return number(0), number(rng.choice((0, 0, 1, 2)))
    if style == 6:  # overflow
        return number(top - 1), number(top - 1 - rng.choice((0, 1, fraction_bits)))
    e = rng.randrange(top)
    return number(e), number(e + rng.randrange(-fraction_bits, 3))


def value_rows(rng: random.Random, data_type: int, elements: int) -> tuple[bytes, bytes]:
    """(before, operand): rows of element pairs."""
    size = ITEM_BITS[data_type] // 8
    before, operand = b"", b""
    for _ in range(elements):
        if data_type in FLOATS:
            old, new = _float_pair(rng, *FLOATS[data_type])
        else:
            old, new = _integer(rng, 8 * size), _integer(rng, 8 * size)
            if rng.random() < 0.2:
                new = old + rng.choice((-1, 0, 1)) & (1 << 8 * size) - 1
        before, operand = before + old.to_bytes(size, "little"), operand + new.to_bytes(size, "little")
    return before, operand
