"""Hypothesis strategies. Every field is drawn from its own width, so that a failing word shrinks to one that a reader can check."""

import math

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from smemsim.spec.architectures import ARCHITECTURES
from smemsim.spec.formats import FORMATS
from smemsim.spec.smem_descriptor import layout_codes
from smemsim.spec.swizzles import MODES, Swizzle

CLASSIC = (Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128)  # the modes of both generations
ITEMSIZES = {"UINT8": 1, "UINT16": 2, "FLOAT16": 2, "BFLOAT16": 2, "UINT32": 4, "FLOAT32": 4, "FLOAT32_FTZ": 4, "UINT64": 8, "FLOAT64": 8}
ROW_BYTES = {"SWIZZLE_NONE": 256, "SWIZZLE_32B": 32, "SWIZZLE_64B": 64, "SWIZZLE_128B": 128}


def examples(count):
    """Settings of a property: the same examples on every machine, no clock."""
    return settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def words(table, *, raw=None):
    """Words of a table, reserved fields included; `raw` pins or narrows the bits of some fields."""
    bits = {name: st.integers(0, field.mask) for name, field in table.fields.items()} | (raw or {})
    return st.fixed_dictionaries(bits).map(lambda drawn: sum(value << table.fields[name].low for name, value in drawn.items()))


def descriptors(*, arch, swizzles=None, raw=None):
    """Raw descriptor words of an architecture, of valid layout codes (or those of `swizzles`), in relative LBO mode."""
    table = ARCHITECTURES[arch].smem_descriptor
    codes = {mode: code for code, mode in layout_codes(table).items()}
    pinned = {"layout_type": st.sampled_from([codes[mode] for mode in swizzles or codes])}
    if "lbo_mode" in table.fields:
        pinned["lbo_mode"] = st.just(0)
    return words(table, raw=pinned | (raw or {}))


@st.composite
def operands(draw, *, swizzle, majors=("K", "MN"), dtypes=tuple(FORMATS), extent=40):
    """Arguments of `operand_addresses` that hardware's rule for `swizzle` covers; extents are multiples of nothing."""
    dtype, major = draw(st.sampled_from(dtypes)), draw(st.sampled_from(majors))
    packing = draw(st.sampled_from(("packed", "padded")))
    most = extent
    if major == "K" and MODES[swizzle].width >= 64:
        most = min(extent, MODES[swizzle].chunks * FORMATS[dtype].elements_per_chunk(packing))
    return {
        "dtype": dtype, "major": major, "rows": draw(st.integers(1, extent)), "k": draw(st.integers(1, most)), "packing": packing,
    }  # fmt: skip


@st.composite
def reads(draw, *, arch, swizzles=CLASSIC, raw=None, **options):
    """(word, operand): a descriptor and an operand that its rules cover."""
    swizzle = draw(st.sampled_from(swizzles))
    majors = ("MN",) if swizzle is Swizzle.B128_ATOM_32B else options.pop("majors", ("K", "MN"))
    return draw(descriptors(arch=arch, swizzles=[swizzle], raw=raw)), draw(operands(swizzle=swizzle, majors=majors, **options))


@st.composite
def tiled_arguments(draw, *, is_store=False, data_types=tuple(ITEMSIZES), swizzles=tuple(ROW_BYTES), most_chunks=512):
    """(arguments of cuTensorMapEncodeTiled, coordinates, smem_address): legal, rows apart, box and tensor small, box over an edge."""
    data_type, swizzle = draw(st.sampled_from(data_types)), draw(st.sampled_from(swizzles))
    itemsize, rank = ITEMSIZES[data_type], draw(st.integers(1, 5))
    chunk = 16 // itemsize
    box = [chunk * draw(st.integers(1, min(ROW_BYTES[swizzle] // 16, 256 // chunk)))]
    dim = [draw(st.integers(1, 2 * box[0] + 3))]
    strides, steps, left = [], [draw(st.integers(1, 8))], most_chunks // (box[0] // chunk)
    extent = dim[0] * itemsize
    for _ in range(rank - 1):
        step = draw(st.integers(1, 3))
        rows = draw(st.integers(1, max(1, min(left, 9))))
        left //= rows
        box.append(draw(st.integers((rows - 1) * step + 1, rows * step)))
        steps.append(step)
        strides.append(-(-extent // 16) * 16 + 16 * draw(st.integers(0, 2)))
        dim.append(draw(st.integers(1, 5)))
        extent = strides[-1] * dim[-1]
    low = [0] * rank if is_store else [-b for b in box]
    first = chunk * draw(st.integers(low[0] // chunk, dim[0] // chunk + 1))
    at = (first, *(draw(st.integers(low[i], dim[i] + 1)) for i in range(1, rank)))
    arguments = {
        "data_type": data_type,
        "global_address": 16 * draw(st.integers(1 << 12, 1 << 30)),
        "global_dim": tuple(dim),
        "global_strides": tuple(strides),
        "box_dim": tuple(box),
        "element_strides": tuple(steps),
        "swizzle": swizzle,
        "l2_promotion": draw(st.integers(0, 3)),
        "oob_fill": draw(st.sampled_from(("zeros", "nan"))) if "FLOAT" in data_type else "zeros",
    }
    return arguments, at, 128 * draw(st.integers(8, 64))


EDGES = {
    "global_address": (0, 8, 16, 24, 1 << 40),
    "global_dim": (0, 1, (1 << 31) + 1, 1 << 32, (1 << 32) + 1, -1),
    "global_strides": (0, 8, 16, (1 << 40) - 16, 1 << 40, -16),
    "box_dim": (0, 1, 2, 8, 31, 64, 128, 256, 257, -1),
    "element_strides": (0, 1, 8, 9, -1),
}


@st.composite
def mutated_arguments(draw):
    """Arguments of cuTensorMapEncodeTiled as integers (driver codes), one or two of them moved to an edge; about half stay legal."""
    arguments, _, _ = draw(tiled_arguments(most_chunks=4096))
    arguments |= {
        "data_type": draw(st.integers(-1, 16)),
        "interleave": draw(st.sampled_from((0, 0, 0, 0, 1, 2, 3))),
        "swizzle": draw(st.integers(0, 4)),
        "l2_promotion": draw(st.sampled_from((0, 1, 2, 3, 4))),
        "oob_fill": draw(st.sampled_from((0, 0, 0, 1, 2))),
    }
    for name in draw(st.lists(st.sampled_from(sorted(EDGES)), max_size=2)):
        value, entries = draw(st.sampled_from(EDGES[name])), arguments[name]
        if isinstance(entries, int):
            arguments[name] = value
        elif entries:
            i = draw(st.integers(0, len(entries) - 1))
            arguments[name] = (*entries[:i], value, *entries[i + 1 :])
    return arguments


def box_chunks(arguments):
    """16-byte chunks of the dense box."""
    outer = math.prod(-(-b // s) for b, s in zip(arguments["box_dim"][1:], arguments["element_strides"][1:], strict=True))
    return arguments["box_dim"][0] * ITEMSIZES[arguments["data_type"]] // 16 * outer
