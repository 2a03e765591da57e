"""Worked examples of three texts: the SBO/LBO blog, the MMAv5 operand layout note, the descriptor blog.

Tiles are loaded by TMA into memory that remembers which tensor element each byte is, and read through the texts'
descriptors.
"""

import numpy as np
import pytest

from cute import logical_divide, parse, recast, tile_to_shape, zipped_divide
from hand import FUNCTORS, WIDTHS, word
from smemsim import GlobalMemory, SharedMemory, SmemDescriptor, TensorMap, operand_addresses

ARCH, BF16 = "sm_100a", 2


def load_slabs(shape, corner, slab, height, slabs, swizzle, base, *, cube):
    """A bf16 tile of `slabs` slabs, each `height` rows of `slab` elements: one box a slab, or one three-dimensional box
    of all.

    `shape` and `corner` are (row, contiguous element) of the matrix and of the tile's first element.
    """
    rows, pitch = shape[0], shape[1] * BF16
    world, shared = GlobalMemory(), SharedMemory(ARCH)
    address = world.place((np.arange(shape[0] * shape[1]) % 65521).astype(np.uint16))
    given = {"data_type": "bf16", "global_address": address, "swizzle": swizzle, "arch": ARCH}
    if cube:
        dims = {"global_dim": (slab, rows, shape[1] // slab), "global_strides": (pitch, slab * BF16), "box_dim": (slab, height, slabs)}
        shared.tma_load(TensorMap.tiled(**given, **dims), (0, corner[0], corner[1] // slab), smem_address=base, source=world)
    else:
        tm = TensorMap.tiled(**given, global_dim=(shape[1], rows), global_strides=(pitch,), box_dim=(slab, height))
        for i in range(slabs):
            at = base + i * height * slab * BF16
            shared.tma_load(tm, (corner[1] + i * slab, corner[0]), smem_address=at, source=world)
    return shared


def check_operand(operand, major, shape, corner, slab, first, *, cube):
    """Every element of the operand, whose first one is tile element `first` (mn, k), is the meant element of the
    matrix.
    """
    mn, k = np.indices(operand.bits.shape)
    mn, k = mn + first[0], k + first[1]
    row, column = (mn + corner[0], k + corner[1]) if major == "K" else (k + corner[0], mn + corner[1])
    wanted = (column % slab, row, column // slab) if cube else (column, row)
    for i, index in enumerate(wanted):
        np.testing.assert_array_equal(operand.coordinates()[..., i], index)
    np.testing.assert_array_equal(operand.bits, (row * shape[1] + column) % 65521)
    assert not operand.torn.any()


def formulas(major, swizzle, block_mn, block_k):
    """The SBO/LBO blog: (elements of a slab, height of a slab, slabs, LBO, SBO) and the start's advance for step s of
    16 K.
    """
    slab = (16 if swizzle == "none" else 128) // BF16
    if major == "K":
        height, slabs = block_mn, block_k // slab
        if swizzle == "none":
            sbo = 8 * (128 // 8)
            lbo = height // 8 * sbo
            return slab, height, slabs, lbo, sbo, lambda s: 2 * s * lbo
        return slab, height, slabs, 16, 8 * (1024 // 8), lambda s: s % 4 * 32 + s // 4 * height * 128
    height, slabs = block_k, block_mn // slab
    near = slab * 8 * BF16
    far = height // 8 * near
    lbo, sbo = (near, far) if swizzle == "none" else (far, near)
    return slab, height, slabs, lbo, sbo, lambda s: 2 * s * near


@pytest.mark.parametrize("cube", [False, True], ids=["loop_of_2d_boxes", "one_3d_box"])
@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize("major", ["K", "MN"])
def test_the_sbo_lbo_formulas_read_what_the_boxes_wrote(major, swizzle, cube):
    for block_mn, block_k in [(64, 64), (128, 64), (64, 128), (128, 128), (256, 64)]:
        slab, height, slabs, lbo, sbo, advance = formulas(major, swizzle, block_mn, block_k)
        corner = (block_mn, block_k) if major == "K" else (block_k, block_mn)
        shape = (2 * corner[0] + 24, 2 * corner[1] + 64)
        for base in (1024, 1024 + 384):  # the second is no multiple of the pattern: TMA and MMA shift it alike
            shared = load_slabs(shape, corner, slab, height, slabs, swizzle, base, cube=cube)
            for s in range(block_k // 16):
                d = word(ARCH, swizzle, start=base + advance(s), lbo=lbo, sbo=sbo)
                operand = shared.read_operand(d, arch=ARCH, dtype="bf16", major=major, rows=block_mn, k=16)
                check_operand(operand, major, shape, corner, slab, (0, 16 * s), cube=cube)


# Swizzle atoms: in units of 128-bit elements, and as the blog stretches them for bf16.
# fmt: off
ATOMS = {
    ("MN", "128B"): ((8, 8), (64, 8)), ("K", "128B"): ((8, 8), (8, 64)),
    ("MN", "64B"):  ((4, 8), (32, 8)), ("K", "64B"):  ((8, 4), (8, 32)),
    ("MN", "32B"):  ((2, 8), (16, 8)), ("K", "32B"):  ((8, 2), (8, 16)),
    ("MN", "none"): ((1, 8), (8, 8)),  ("K", "none"): ((8, 1), (8, 8)),
}
# fmt: on


@pytest.mark.parametrize(("dtype", "t"), [("tf32", 4), ("bf16", 8), ("e4m3", 16)])
@pytest.mark.parametrize(("major", "swizzle"), ATOMS)
def test_a_swizzle_atom_is_all_that_needs_neither_lbo_nor_sbo(major, swizzle, dtype, t):
    units, stretched = ATOMS[major, swizzle]
    rows, k = (units[0], units[1] * t) if major == "K" else (units[0] * t, units[1])
    if t == 8:
        assert (rows, k) == stretched
    assert (k if major == "K" else rows) * 16 // t == WIDTHS[swizzle]
    d, itemsize, far = word(ARCH, swizzle, start=1024, lbo=1 << 16, sbo=1 << 17), 16 // t, 1 << 16
    inside = operand_addresses(d, arch=ARCH, dtype=dtype, major=major, rows=rows, k=k)
    np.testing.assert_array_equal(np.sort(inside, axis=None), 1024 + itemsize * np.arange(rows * k))
    more_rows = operand_addresses(d, arch=ARCH, dtype=dtype, major=major, rows=2 * rows, k=k)
    assert (more_rows[:rows] < 1024 + far).all()
    assert (more_rows[rows:] >= far).all()
    if major == "MN" or swizzle == "none":
        more_k = operand_addresses(d, arch=ARCH, dtype=dtype, major=major, rows=rows, k=2 * k)
        assert (more_k[:, k:] >= far).all()


# --- the MMAv5 operand layout note ---

# of offset bits 1, 2, 4 … 256
CORE_MATRIX_BASES = [(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (0, 32), (1, 8), (2, 16), (4, 32)]


def test_the_linear_layout_of_a_core_matrix_is_the_inverse_of_the_descriptor_walk():
    got = operand_addresses(word(ARCH, "128B", start=2048, sbo=1024), arch=ARCH, dtype="bf16", major="K", rows=8, k=64)
    for offset in range(512):
        row, column = 0, 0
        for bit, base in enumerate(CORE_MATRIX_BASES):
            if offset >> bit & 1:
                row, column = row ^ base[0], column ^ base[1]
        assert got[row, column] == 2048 + BF16 * offset


def test_the_first_mma_finds_its_units_in_the_notes_table():
    """Units 2r and 2r + 1 are the two chunks of row r; a line of the table is 128 bytes, its cells 16."""
    got = operand_addresses(word(ARCH, "128B", sbo=1024), arch=ARCH, dtype="bf16", major="K", rows=8, k=16)[:, ::8]
    order, slots = [], []
    for row, addresses in enumerate(got.tolist()):
        assert {a // 128 for a in addresses} == {row}
        slots.append(tuple(a % 128 // 16 for a in addresses))
        order.append([2 * row + unit for _, unit in sorted((a, unit) for unit, a in enumerate(addresses))])
    assert order == [[0, 1], [3, 2], [4, 5], [7, 6], [8, 9], [11, 10], [12, 13], [15, 14]]
    assert slots == [(0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4), (6, 7), (7, 6)]


# --- the descriptor blog: a 128x128 bf16 tile, one MMA reading M=64, K=16 ---

MMA = (64, 16)
# fmt: off
EXAMPLES = {
    "K-major 128B": {
        "major": "K", "swizzle": "128B", "code": 2, "sbo": 64, "lbo": 1,  # SBO and LBO in 16-byte units
        "atom": "(8,64):(64,1)", "order": (0, 1), "unit": (8, 1),
        "tile": "((8,16),(64,2)):((64,512),(1,8192))",
        "partitioned": "((64,16),(2,(4,2))):((64,1),(4096,(16,8192)))",
        "recast": "((64,2),(2,(4,2))):((8,1),(512,(2,1024)))",
        "canonical": "((8,8),(1,2)):((8,64),(0,1))",
        "descriptors": "(2,(4,2)):(512,(2,1024))",
        "advance": [[0, 32, 64, 96, 16384, 16416, 16448, 16480], [8192, 8224, 8256, 8288, 24576, 24608, 24640, 24672]],
        "stride_of": {"lbo": (1, 1), "sbo": (0, 1)},  # where the canonical layout has them
    },
    "MN-major 64B": {
        "major": "MN", "swizzle": "64B", "code": 4, "sbo": 32, "lbo": 512,
        "atom": "(32,8):(1,32)", "order": (1, 0), "unit": (4, 8),
        "tile": "((32,4),(8,16)):((1,4096),(32,256))",
        "partitioned": "(((32,2),16),(2,8)):(((1,4096),32),(8192,512))",
        "recast": "(((4,2),16),(2,8)):(((1,512),4),(1024,64))",
        "canonical": "((4,2),(8,2)):((1,512),(4,32))",
        "descriptors": "(2,8):(1024,64)",
        "advance": [[0, 1024, 2048, 3072, 4096, 5120, 6144, 7168], [16384, 17408, 18432, 19456, 20480, 21504, 22528, 23552]],
        "stride_of": {"lbo": (0, 1), "sbo": (1, 1)},
    },
}
# fmt: on
EXAMPLE = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)


@EXAMPLE
def test_layout_algebra_derives_the_descriptor_as_the_blog_prints_it(example):
    tile = tile_to_shape(parse(example["atom"]), (128, 128), example["order"])
    partitioned = zipped_divide(tile, MMA)
    units = recast(partitioned, 8)
    canonical = logical_divide(type(units)(units.shape[0], units.stride[0]), example["unit"])
    descriptors = type(units)(units.shape[1], units.stride[1])
    got = {"tile": tile, "partitioned": partitioned, "recast": units, "canonical": canonical, "descriptors": descriptors}
    assert {name: str(layout) for name, layout in got.items()} == {name: example[name] for name in got}
    for field, (mode, place) in example["stride_of"].items():
        assert canonical.stride[mode][place] == example[field]
    np.testing.assert_array_equal(descriptors.offsets() * 16, example["advance"])


@EXAMPLE
def test_the_blogs_fields_make_its_descriptor(example):
    d = SmemDescriptor(
        arch=ARCH, leading_byte_offset=16 * example["lbo"], stride_byte_offset=16 * example["sbo"], swizzle=example["swizzle"]
    )
    assert d.encode() == example["lbo"] << 16 | example["sbo"] << 32 | 1 << 46 | example["code"] << 61
    assert (d.layout_code, str(d.swizzle)) == (example["code"], example["swizzle"])


@EXAMPLE
@pytest.mark.parametrize("base", [1024, 4096 + 640])
def test_the_tile_layout_is_where_the_mma_subtiles_read(example, base):
    """The first descriptor advanced by the table gives functor(base + tile layout) for all 16 subtiles."""
    tile = parse(example["tile"]).offsets()
    first = SmemDescriptor.decode(word(ARCH, example["swizzle"], start=base, lbo=16 * example["lbo"], sbo=16 * example["sbo"]), arch=ARCH)
    for m, k in np.ndindex(2, 8):
        d = first.advance(example["advance"][m][k])
        assert d.encode() == first.encode() + (example["advance"][m][k] >> 4)
        got = operand_addresses(d, arch=ARCH, dtype="bf16", major=example["major"], rows=64, k=16)
        wanted = FUNCTORS[example["swizzle"]](base + BF16 * tile[64 * m : 64 * m + 64, 16 * k : 16 * k + 16])
        np.testing.assert_array_equal(got, wanted)


@EXAMPLE
@pytest.mark.parametrize("base", [1024, 4096 + 640])
def test_the_advance_table_reads_what_the_blogs_tma_boxes_wrote(example, base):
    major, slab = example["major"], WIDTHS[example["swizzle"]] // BF16
    shape, corner = (296, 384), (128, 128)  # 2 boxes of (M=128, K=64), or 4 of (M=32, K=128)
    shared = load_slabs(shape, corner, slab, 128, 128 // slab, example["swizzle"], base, cube=False)
    assert len(shared.writers) == {"K": 2, "MN": 4}[major]
    first = SmemDescriptor(
        arch=ARCH,
        start_address=base,
        leading_byte_offset=16 * example["lbo"],
        stride_byte_offset=16 * example["sbo"],
        swizzle=example["swizzle"],
    )
    for m, k in np.ndindex(2, 8):
        d = first.advance(example["advance"][m][k])
        operand = shared.read_operand(d, arch=ARCH, dtype="bf16", major=major, rows=64, k=16)
        check_operand(operand, major, shape, corner, slab, (64 * m, 16 * k), cube=False)
