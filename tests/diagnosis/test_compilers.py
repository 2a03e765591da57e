"""Descriptors that compilers and kernels emit, and published address vectors, against the formulas.

CuTe DSL 4.8.1 and Triton 3.9.0 kernels were compiled for sm_100a and their PTX constant-folded: these tables are what
they write, not traces of silicon. Everything is in bytes unless it says otherwise.
"""

import numpy as np
import pytest

from hand import FUNCTORS, WIDTHS, word
from smemsim import Severity, SmemDescriptor, operand_addresses

# fmt: off
# Published words: arch, word, start, LBO, SBO, swizzle, and whether the fixed and reserved bits are as documented.
WORDS = [
    ("sm_100a", 0x4000404000000000,     0,     0, 1024, "128B", True),   # Triton's lit tests; also 4611756662049472512
    ("sm_100a", 0x4000404002000000,     0,  8192, 1024, "128B", True),   # Triton's lit tests; also 4611756662083026944
    ("sm_100a", 0x4000404000000040,  1024,     0, 1024, "128B", True),   # a unit test
    ("sm_100a", 0x4000004004000000,     0, 16384, 1024, "128B", False),  # early Triton, bit 46 left out
    ("sm_100a", 0x4000004002000000,     0,  8192, 1024, "128B", False),
    ("sm_90a",  0x4000004000000000,     0,     0, 1024, "128B", True),   # Triton's wgmma and its K steps
    ("sm_90a",  0x4000004000000002,    32,     0, 1024, "128B", True),
    ("sm_90a",  0x4000004000000004,    64,     0, 1024, "128B", True),
    ("sm_90a",  0x4000004000000006,    96,     0, 1024, "128B", True),
    ("sm_100a", 0x0000400800800000,     0,  2048,  128, "none", True),   # a 128-row tile
    ("sm_100a", 0x0000400800400010,   256,  1024,  128, "none", True),   # a 64-row tile
    ("sm_100a", 0x0000400800800003,    48,  2048,  128, "none", True),
    ("sm_90a",  1 << 62 | 64 << 32 | 1024 << 16 | 0x2400 >> 4, 0x2400, 16384, 1024, "128B", True),  # MLIR, a 128x64 f16 buffer
]

# CuTe DSL, an A operand of 128 rows: major, swizzle, bytes (K-major) or elements (MN-major) of the tile along K, word
# at address 0,
# LBO, SBO, the start's advance at each K step. The words are those of all types of a width.
K_MAJOR = [  # the same for every type
    ("none", 128, 0x0000400800800000, 2048,  128, [0, 4096, 8192, 12288]),
    ("32B",   32, 0xC000401000010000,   16,  256, [0]),
    ("64B",   64, 0x8000402000010000,   16,  512, [0, 32]),
    ("128B", 128, 0x4000404000010000,   16, 1024, [0, 32, 64, 96]),
]
MN_STEPS = [0, 4096, 8192, 12288]
MN_MAJOR = {
    16: [
        ("none", 0x0000400800800000, 2048,  128),
        ("32B",  0xC000408000100000,  256, 2048),
        ("64B",  0x8000408000200000,  512, 2048),
        ("128B", 0x4000408000400000, 1024, 2048),
    ],
    32: [  # only the last is legal: 32-bit types need 32-byte atoms
        ("none", 0x0000400800000000,    0,  128),
        ("32B",  0xC000400000100000,  256,    0),
        ("64B",  0x8000400000200000,  512,    0),
        ("128B", 0x4000400000400000, 1024,    0),
        ("128B_ATOM_32B", 0x2000402000400000, 1024, 512),
    ],
    8: [  # the last is illegal: 32-byte atoms are for 32-bit types
        ("none", 0x0000400800400000, 1024,  128),
        ("32B",  0xC000404000100000,  256, 1024),
        ("64B",  0x8000404000200000,  512, 1024),
        ("128B", 0x4000404000000000,    0, 1024),
        ("128B_ATOM_32B", 0x2000402000000000, 0, 512),
    ],
}

# Triton, bf16: M or N of the tile, K of the tile, swizzle, major, LBO, SBO, advances. Operands A and B follow the same
# rows.
TRITON = [
    ( 64,  64,  "32B", "K",      0,  256, [0, 2048, 4096, 6144]),
    ( 64,  64,  "32B", "MN",  2048,  256, [0, 512, 1024, 1536]),
    ( 64,  64,  "64B", "K",      0,  512, [0, 32, 4096, 4128]),
    ( 64,  64,  "64B", "MN",  4096,  512, [0, 1024, 2048, 3072]),
    ( 64,  64, "128B", "K",      0, 1024, [0, 32, 64, 96]),
    ( 64,  64, "128B", "MN",     0, 1024, [0, 2048, 4096, 6144]),
    ( 64, 128,  "32B", "K",      0,  256, [0, 2048, 4096, 6144, 8192, 10240, 12288, 14336]),
    ( 64, 128,  "32B", "MN",  4096,  256, [0, 512, 1024, 1536, 2048, 2560, 3072, 3584]),
    ( 64, 128,  "64B", "K",      0,  512, [0, 32, 4096, 4128, 8192, 8224, 12288, 12320]),
    ( 64, 128,  "64B", "MN",  8192,  512, [0, 1024, 2048, 3072, 4096, 5120, 6144, 7168]),
    ( 64, 128, "128B", "K",      0, 1024, [0, 32, 64, 96, 8192, 8224, 8256, 8288]),
    ( 64, 128, "128B", "MN",     0, 1024, [0, 2048, 4096, 6144, 8192, 10240, 12288, 14336]),
    (128,  64,  "32B", "K",      0,  256, [0, 4096, 8192, 12288]),
    (128,  64,  "32B", "MN",  2048,  256, [0, 512, 1024, 1536]),
    (128,  64,  "64B", "K",      0,  512, [0, 32, 8192, 8224]),
    (128,  64,  "64B", "MN",  4096,  512, [0, 1024, 2048, 3072]),
    (128,  64, "128B", "K",      0, 1024, [0, 32, 64, 96]),
    (128,  64, "128B", "MN",  8192, 1024, [0, 2048, 4096, 6144]),
    (128, 128,  "32B", "K",      0,  256, [0, 4096, 8192, 12288, 16384, 20480, 24576, 28672]),
    (128, 128,  "32B", "MN",  4096,  256, [0, 512, 1024, 1536, 2048, 2560, 3072, 3584]),
    (128, 128,  "64B", "K",      0,  512, [0, 32, 8192, 8224, 16384, 16416, 24576, 24608]),
    (128, 128,  "64B", "MN",  8192,  512, [0, 1024, 2048, 3072, 4096, 5120, 6144, 7168]),
    (128, 128, "128B", "K",      0, 1024, [0, 32, 64, 96, 16384, 16416, 16448, 16480]),
    (128, 128, "128B", "MN", 16384, 1024, [0, 2048, 4096, 6144, 8192, 10240, 12288, 14336]),
    (256,  64,  "32B", "K",      0,  256, [0, 8192, 16384, 24576]),
    (256,  64,  "32B", "MN",  2048,  256, [0, 512, 1024, 1536]),
    (256,  64,  "64B", "K",      0,  512, [0, 32, 16384, 16416]),
    (256,  64,  "64B", "MN",  4096,  512, [0, 1024, 2048, 3072]),
    (256,  64, "128B", "K",      0, 1024, [0, 32, 64, 96]),
    (256,  64, "128B", "MN",  8192, 1024, [0, 2048, 4096, 6144]),
]

# Offsets from a base that is a multiple of 1024. K-major: (row, byte along K) -> offset; MN-major: (row, k) -> offset.
VECTORS = {
    "K 128B": ("K", "128B", "u8", 0, 1024, {(1, 0): 144, (1, 16): 128, (7, 0): 1008, (8, 0): 1024, (3, 96): 464}),
    "K none": ("K", "none", "u8", 2048, 128, {(1, 0): 16, (7, 0): 112, (8, 0): 128, (0, 16): 2048, (3, 21): 2101}),
    "K 64B": ("K", "64B", "u8", 0, 512, {(1, 48): 112, (2, 0): 144, (2, 32): 176, (3, 0): 208, (4, 0): 288, (7, 48): 448, (8, 0): 512}),
    "K 32B": ("K", "32B", "u8", 0, 256, {(1, 0): 32, (1, 16): 48, (2, 0): 64, (3, 16): 112, (4, 0): 144, (4, 16): 128, (8, 0): 256}),
    "MN 128B bf16": ("MN", "128B", "bf16", 8192, 1024, {(8, 0): 16, (0, 1): 144, (8, 1): 128, (63, 7): 910, (64, 0): 8192, (0, 8): 1024,
                                                       (9, 15): 2018}),
    "MN 32-byte atoms tf32": ("MN", "128B_ATOM_32B", "tf32", 4096, 512, {(4, 0): 16, (8, 0): 32, (0, 1): 160, (4, 1): 176, (8, 1): 128,
                                                                        (0, 3): 480, (31, 3): 412, (0, 4): 512, (32, 0): 4096}),
    "K 128B tf32": ("K", "128B", "tf32", 0, 1024, {(1, 4): 128, (3, 24): 464}),
    "K 128B bf16": ("K", "128B", "bf16", 0, 1024, {(r, 8 * r): 128 * r for r in range(8)}),
}
# Published elsewhere, and wrong: the XOR of the row's number instead of the address's 128-byte line.
REFUTED = [
    ("32B", {(1, 0): 48, (1, 16): 32, (3, 16): 96}),
    ("64B", {(3, 0): 240, (4, 0): 256, (1, 48): 96}),
]
# fmt: on
ITEMSIZE = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "s8": 1}


def cute_dsl_rows():
    """(type, major, swizzle, K of the tile, word, LBO, SBO, advances) of all 35 rows."""
    for dtype in ("f16", "tf32", "e4m3", "s8"):
        size = ITEMSIZE[dtype]
        yield from ((dtype, "K", mode, k_bytes // size, *rest) for mode, k_bytes, *rest in K_MAJOR)
        yield from ((dtype, "MN", mode, 128 // size, *rest, MN_STEPS) for mode, *rest in MN_MAJOR[8 * size])


DSL = list(cute_dsl_rows())
ILLEGAL = [row for row in DSL if row[:2] == ("tf32", "MN") and row[2] != "128B_ATOM_32B"]
ILLEGAL += [row for row in DSL if row[0] != "tf32" and row[2] == "128B_ATOM_32B"]
LEGAL = [row for row in DSL if row not in ILLEGAL]


def check_covered(first, advances, dtype, major, rows, k, base=4096):
    """Over all K steps the operand reads every byte of a dense tile once."""
    size = ITEMSIZE[dtype]
    steps = [
        operand_addresses(first.advance(base + a), arch=first.arch, dtype=dtype, major=major, rows=rows, k=k // len(advances))
        for a in advances
    ]
    read = np.sort(np.concatenate(steps, axis=1), axis=None)
    np.testing.assert_array_equal(read, base + size * np.arange(rows * k))
    return steps


@pytest.mark.parametrize(("arch", "published", "start", "lbo", "sbo", "swizzle", "clean"), WORDS)
def test_published_words_hold_the_published_fields(arch, published, start, lbo, sbo, swizzle, clean):
    d = SmemDescriptor.decode(published, arch=arch)
    assert (d.start_address, d.leading_byte_offset, d.stride_byte_offset, str(d.swizzle)) == (start, lbo, sbo, swizzle)
    assert (d.base_offset, d.lbo_mode) == (0, 0)
    assert d.encode() == published
    again = SmemDescriptor(arch=arch, start_address=start, leading_byte_offset=lbo, stride_byte_offset=sbo, swizzle=swizzle).encode()
    assert again == word(arch, swizzle, start=start, lbo=lbo, sbo=sbo)
    assert again ^ published == (0 if clean else 1 << 46)
    assert [f.code for f in d.problems()].count("D305") == (0 if clean else 1)


def test_words_printed_in_decimal_are_the_same_words():
    assert [w for _, w, *_ in WORDS[:2]] == [4611756662049472512, 4611756662083026944]


def test_the_tables_have_all_compiled_rows():
    assert (len(DSL), len(LEGAL), len(ILLEGAL), len(TRITON)) == (35, 29, 6, 30)


@pytest.mark.parametrize(("dtype", "major", "mode", "k", "published", "lbo", "sbo", "advances"), DSL)
def test_cute_dsl_words_hold_the_listed_fields(dtype, major, mode, k, published, lbo, sbo, advances):
    d = SmemDescriptor.decode(published, arch="sm_100a")
    assert (d.start_address, d.leading_byte_offset, d.stride_byte_offset, str(d.swizzle)) == (0, lbo, sbo, mode)
    assert word("sm_100a", mode, lbo=lbo, sbo=sbo) == published
    assert k * ITEMSIZE[dtype] == 32 * len(advances)  # an MMA reads 32 bytes of K


@pytest.mark.parametrize(("dtype", "major", "mode", "k", "published", "lbo", "sbo", "advances"), LEGAL)
def test_cute_dsl_descriptors_read_every_byte_of_the_tile_once(dtype, major, mode, k, published, lbo, sbo, advances):
    d = SmemDescriptor.decode(published, arch="sm_100a")
    check_covered(d, advances, dtype, major, 128, k)
    found = d.advance(4096).problems(dtype=dtype, major=major, rows=128, k=k // len(advances))
    assert not [f for f in found if f.severity in (Severity.TRAP, Severity.WRONG)]


@pytest.mark.parametrize(("dtype", "major", "mode", "k", "published", "lbo", "sbo", "advances"), ILLEGAL)
def test_what_compiles_is_not_always_legal(dtype, major, mode, k, published, lbo, sbo, advances):
    found = SmemDescriptor.decode(published, arch="sm_100a").advance(4096).problems(dtype=dtype, major=major, rows=128, k=8)
    assert ("I602", Severity.TRAP) in [(f.code, f.severity) for f in found]


@pytest.mark.parametrize(("rows", "k", "mode", "major", "lbo", "sbo", "advances"), TRITON)
def test_triton_descriptors_read_every_byte_of_the_tile_once(rows, k, mode, major, lbo, sbo, advances):
    d = SmemDescriptor.decode(word("sm_100a", mode, lbo=lbo, sbo=sbo), arch="sm_100a")
    assert (d.leading_byte_offset, d.stride_byte_offset) == (lbo, sbo)
    steps = check_covered(d, advances, "bf16", major, rows, k)
    # Triton stacks atoms along the strided dimension first: slabs of the swizzle width, each as long as the tile.
    width = WIDTHS[mode]
    mn, kk = np.indices((rows, k))
    line, byte, lines = (mn, 2 * kk, rows) if major == "K" else (kk, 2 * mn, k)
    slabs = 4096 + byte // width * lines * width + line * width + byte % width
    np.testing.assert_array_equal(np.concatenate(steps, axis=1), FUNCTORS[mode](slabs))


@pytest.mark.parametrize(
    ("arch", "name"),
    [(arch, name) for arch in ("sm_90a", "sm_100a") for name in VECTORS if (arch, VECTORS[name][1]) != ("sm_90a", "128B_ATOM_32B")],
)
def test_published_address_vectors_are_the_descriptor_walk(arch, name):
    major, mode, dtype, lbo, sbo, vectors = VECTORS[name]
    rows, k = (1 + np.max(list(vectors), axis=0)).tolist()
    for base in (1024, 8192):
        d = word(arch, mode, start=base, lbo=lbo, sbo=sbo)
        at = operand_addresses(d, arch=arch, dtype=dtype, major=major, rows=rows, k=k)
        assert {index: int(at[index]) - base for index in vectors} == vectors


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(("mode", "vectors"), REFUTED)
def test_the_key_is_the_128_byte_line_and_not_the_row(mode, vectors, arch):
    d = word(arch, mode, start=1024, sbo=8 * WIDTHS[mode])
    at = operand_addresses(d, arch=arch, dtype="u8", major="K", rows=8, k=WIDTHS[mode])
    for (row, byte), wrong in vectors.items():
        assert wrong == WIDTHS[mode] * row + (byte ^ row % (WIDTHS[mode] // 16) << 4)  # how it was made
        assert at[row, byte] != 1024 + wrong
