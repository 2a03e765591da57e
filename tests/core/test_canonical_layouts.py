"""The canonical layouts of the PTX ISA against the descriptor walk.

The layouts are evaluated as CuTe layouts by `cute.py`. The K-major rows are printed with a factor k in `(T,2k)`;
CUTLASS leaves it out, and where the two differ CUTLASS is right.
"""

import numpy as np
import pytest

from cute import parse
from hand import WIDTHS, word
from smemsim import SmemDescriptor, operand_addresses

# fmt: off
TABLE = {
    ("MN", "none"): "Swizzle<0,4,3> o ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))",
    ("MN", "32B"):  "Swizzle<1,4,3> o ((T,2,m),(8,k)):((1,T,LBO),(2T,SBO))",
    ("MN", "64B"):  "Swizzle<2,4,3> o ((T,4,m),(8,k)):((1,T,LBO),(4T,SBO))",
    ("MN", "128B"): "Swizzle<3,4,3> o ((T,8,m),(8,k)):((1,T,LBO),(8T,SBO))",
    ("K", "none"):  "Swizzle<0,4,3> o ((8,m),(T,2k)):((1T,SBO),(1,LBO))",
    ("K", "32B"):   "Swizzle<1,4,3> o ((8,m),(T,2k)):((2T,SBO),(1,T))",
    ("K", "64B"):   "Swizzle<2,4,3> o ((8,m),(T,2k)):((4T,SBO),(1,T))",
    ("K", "128B"):  "Swizzle<3,4,3> o ((8,m),(T,2k)):((8T,SBO),(1,T))",
}
# The printed table leaves this row out; it is CUTLASS's, with 4 rows of K in an atom.
ATOM_32B = "Swizzle<2,5,2> o ((T,8,m),(4,k)):((1,T,LBO),(8T,SBO))"

# major, mode, type, T, m, k, LBO and SBO in elements, the exact layout, LBO and SBO as encoded (None: the document
# assumes 1)
EXAMPLES = {
    "K none tf32": ("K", "none", "tf32", 4, 2, 2, 64, 32, "Swizzle<0,4,3> o ((8,2),(4,4)):((4,32),(1,64))", 16, 8),
    "K 32B tf32":  ("K", "32B", "tf32", 4, 2, 2, None, 64, "Swizzle<1,4,3> o ((8,2),(4,4)):((8,64),(1,4))", 1, 16),
    "MN none bf16": ("MN", "none", "bf16", 8, 2, 2, 128, 64, "Swizzle<0,4,3> o ((8,1,2),(8,2)):((1,8,64),(8,128))", 16, 8),
    "MN 32B bf16": ("MN", "32B", "bf16", 8, 2, 2, 128, 256, "Swizzle<1,4,3> o ((8,2,2),(8,2)):((1,8,128),(16,256))", 16, 32),
    "MN 64B bf16": ("MN", "64B", "bf16", 8, 2, 2, 256, 512, "Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))", 32, 64),
}
# fmt: on
TYPES = {4: "tf32", 8: "bf16", 16: "e4m3", 32: "e2m1"}
ARCHS = ("sm_90a", "sm_100a")
# packed 4-bit types are K-major only
CASES = [(major, mode, t) for major, mode in TABLE for t in TYPES if major == "K" or t < 32]


def walk(words, arch, t, major, layout):
    rows, k = layout.offsets().shape
    return operand_addresses(words, arch=arch, dtype=TYPES[t], major=major, rows=rows, k=k)


def check_row(template, arch, major, mode, t, repeats):
    """Any multiples of 16 B as start, LBO and SBO: address = functor(start + layout)."""
    rng, bits = np.random.default_rng(128 + t), 128 // t
    for m, k in repeats:
        fields = [tuple(16 * int(x) for x in rng.integers(0, 1 << 14, 3)) for _ in range(6)]
        layouts = [parse(template, T=t, m=m, k=k, LBO=lbo * 8 // bits, SBO=sbo * 8 // bits) for _, lbo, sbo in fields]
        words = np.array([word(arch, mode, start=start, lbo=lbo, sbo=sbo) for start, lbo, sbo in fields], np.uint64)
        expected = [layout.addresses(start, bits) for layout, (start, _, _) in zip(layouts, fields, strict=True)]
        np.testing.assert_array_equal(walk(words, arch, t, major, layouts[0]), expected)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("major", "mode", "t"), CASES)
def test_canonical_layout_equals_the_descriptor_walk(arch, major, mode, t):
    repeats = [(1, 1), (2, 1), (8, 2), (3, 4)] if major == "MN" else [(1, 1), (8, 1), (32, 1)]
    check_row(TABLE[major, mode].replace("2k", "2"), arch, major, mode, t, repeats)


def test_the_32_byte_atom_mode_steps_4_rows_of_k():
    check_row(ATOM_32B, "sm_100a", "MN", "128B_ATOM_32B", 4, [(1, 1), (1, 2), (4, 2), (2, 8)])


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("mode", "k"), [("none", 2), ("none", 4), ("32B", 1), ("64B", 2), ("128B", 2), ("128B", 4)])
def test_the_factor_k_of_k_major_layouts_holds_inside_the_swizzle_width(arch, mode, k):
    check_row(TABLE["K", mode], arch, "K", mode, 8, [(1, k), (4, k)])


@pytest.mark.parametrize("arch", ARCHS)
def test_past_the_swizzle_width_lbo_replaces_the_factor_k(arch):
    start, lbo, sbo = 2048, 512, 256
    got = operand_addresses(word(arch, "32B", start=start, lbo=lbo, sbo=sbo), arch=arch, dtype="bf16", major="K", rows=16, k=32)
    hopper = parse("Swizzle<1,4,3> o ((8,2),(8,2,2)):((16,SBO),(1,8,LBO))", SBO=sbo // 2, LBO=lbo // 2)
    printed = parse(TABLE["K", "32B"], T=8, m=2, k=2, SBO=sbo // 2)
    np.testing.assert_array_equal(got, hopper.addresses(start, 16))
    assert (got[:, 16:] != printed.addresses(start, 16)[:, 16:]).any()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_exact_layout_of_an_example_is_its_canonical_layout(name):
    major, mode, _, t, m, k, lbo, sbo, exact, _, _ = EXAMPLES[name]
    assert parse(TABLE[major, mode], T=t, m=m, k=k, LBO=lbo or 0, SBO=sbo) == parse(exact)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_encode_and_walk_as_printed(arch, name):
    major, mode, dtype, t, _, _, lbo, sbo, exact, lbo_code, sbo_code = EXAMPLES[name]
    itemsize, start, layout = 16 // t, 1024, parse(exact)
    lbo_bytes = 16 if lbo is None else lbo * itemsize
    d = SmemDescriptor(
        arch=arch, start_address=start, leading_byte_offset=lbo_bytes, stride_byte_offset=sbo * itemsize, swizzle=mode
    ).encode()
    assert (d >> 16 & 0x3FFF, d >> 32 & 0x3FFF) == (lbo_code, sbo_code)
    assert d == word(arch, mode, start=start, lbo=lbo_bytes, sbo=sbo * itemsize)
    rows, k = layout.offsets().shape
    if name == "K 32B tf32":
        k = 8  # beyond it the example contradicts itself: next test
    got = operand_addresses(d, arch=arch, dtype=dtype, major=major, rows=rows, k=k)
    np.testing.assert_array_equal(got, layout.addresses(start, 8 * itemsize)[:, :k])


@pytest.mark.parametrize("arch", ARCHS)
def test_the_k_major_32B_tf32_example_overlaps_itself_from_the_third_chunk_on(arch):
    offsets = parse(EXAMPLES["K 32B tf32"][8]).offsets()
    assert offsets.shape == (16, 16)
    assert len(np.unique(offsets)) == 136  # 34 chunks of 4, where 64 are needed
    # chunks 2 and 3 of a row are chunks 0 and 1 of the next
    np.testing.assert_array_equal(offsets[:-1, 8:], offsets[1:, :8])
    assert len(np.unique(offsets[:, :8])) == 128  # what one dense instruction reads is sound
    # Hardware takes chunks 2 and 3 from LBO, so that a kernel can keep them apart.
    got = operand_addresses(word(arch, "32B", start=1024, lbo=512, sbo=256), arch=arch, dtype="tf32", major="K", rows=16, k=16)
    assert len(np.unique(got)) == 256


@pytest.mark.parametrize(("major", "mode"), TABLE)
def test_eight_lines_of_a_packed_canonical_layout_are_one_dense_atom(major, mode):
    width = WIDTHS[mode]
    k_chunks = 1 if (major, mode) == ("K", "none") else width // 16
    rows, k = (8, 8 * k_chunks) if major == "K" else (width // 2, 8)
    got = operand_addresses(word("sm_90a", mode, start=1024), arch="sm_90a", dtype="bf16", major=major, rows=rows, k=k)
    np.testing.assert_array_equal(np.sort(got, axis=None), 1024 + 2 * np.arange(4 * width))
