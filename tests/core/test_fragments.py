"""Laws of wgmma's register fragments and sparsity metadata, the layouts CUTLASS gives for them, and what an H200 made
of them.
"""

import numba
import numpy as np
import pytest

import cute
from places import ROOT
from smemsim.core.layout import fragments
from smemsim.core.layout.fragments import (
    a_column,
    a_element,
    a_row,
    a_thread,
    d_column,
    d_element,
    d_row,
    d_thread,
    metadata_bit,
    metadata_group,
    metadata_row,
    metadata_thread,
    sparse_k,
)
from smemsim.core.spec.wgmma import A_REGISTERS, INVALID_METADATA_2_4, METADATA_1_2, OPERAND_ROW_BYTES, WGMMA_M, WGMMA_THREADS, WGMMA_TYPES
from smemsim.core.words.operand import operand_addresses
from smemsim.evidence import load_suite
from strategies import is_night

GOLDEN = ROOT / "golden" / "sm_90a"
THREADS = range(WGMMA_THREADS)
each_width = pytest.mark.parametrize("bits", [32, 16, 8, 1])
each_groups = pytest.mark.parametrize(("groups", "selector"), [(8, 0), (8, 1), (16, 0)])


def stored_columns(bits):
    return 8 * OPERAND_ROW_BYTES // bits


# ------------------------------------------------------------------------------------------------------------------------- bijections


@pytest.mark.parametrize("n", [8, 24, 256])
def test_every_element_of_d_has_one_register_and_back(n):
    held = {(t, i): (d_row(t, i), d_column(t, i)) for t in THREADS for i in range(n // 2)}
    assert sorted(held.values()) == [(row, column) for row in range(WGMMA_M) for column in range(n)]
    assert all((d_thread(*place), d_element(*place)) == register for register, place in held.items())


@each_width
def test_every_element_of_a_has_one_place_in_four_registers_and_back(bits):
    elements = 32 * A_REGISTERS // bits
    held = {(t, i): (a_row(t, i, bits), a_column(t, i, bits)) for t in THREADS for i in range(elements)}
    assert sorted(held.values()) == [(row, column) for row in range(WGMMA_M) for column in range(stored_columns(bits))]
    assert all((a_thread(*place, bits), a_element(*place, bits)) == register for register, place in held.items())


@pytest.mark.parametrize("bits", [16, 8, 4])
@each_groups
def test_every_group_has_four_metadata_bits_of_its_own_and_back(groups, selector, bits):
    held = {}
    for row in range(WGMMA_M):
        for group in range(groups):
            thread, bit = metadata_thread(row, group, groups, selector, bits), metadata_bit(row, group, groups, bits)
            assert (metadata_row(thread, bit, groups, bits), metadata_group(thread, bit, groups, bits)) == (row, group)
            held[thread, bit] = row, group
    taking_part = THREADS if groups == 16 else [t for t in THREADS if t % 4 // 2 == selector]
    assert sorted(held) == [(thread, bit) for thread in taking_part for bit in range(0, 32, 4)]


def test_a_warp_has_its_own_sixteen_rows_of_everything():
    for t in THREADS:
        rows = {d_row(t, i) for i in range(8)} | {a_row(t, i, 16) for i in range(8)} | {metadata_row(t, 4 * i, 8) for i in range(8)}
        assert {row // 16 for row in rows} == {t // 32}


# ------------------------------------------------------------------------------------------------------ how the fragments go together


def test_sixteen_columns_of_d_are_the_16_bit_a_of_the_next_instruction():
    """What attention kernels rely on: P = softmax(S) goes from accumulators to A by rounding pairs, without a shuffle."""
    for t in THREADS:
        for i in range(8):
            assert (d_row(t, i), d_column(t, i)) == (a_row(t, i, 16), a_column(t, i, 16))


@each_width
def test_a_register_has_four_neighbouring_bytes_of_one_row_whatever_the_type(bits):
    for t in THREADS:
        for register in range(A_REGISTERS):
            inside = range(register * 32 // bits, (register + 1) * 32 // bits)
            byte = a_column(t, register, 32) * 4
            assert [a_column(t, i, bits) * bits for i in inside] == [8 * byte + bits * i for i in range(32 // bits)]
            assert {a_row(t, i, bits) for i in inside} == {a_row(t, register, 32)}


# --------------------------------------------------------------------------------------------------------------------------- CUTLASS

# include/cute/atom/mma_traits_sm90_gmma.hpp: (thread, value) -> row + 64 * column. Of a sparse A the same file's
# layouts count logical K.
CUTLASS_A = {
    16: "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))",
    32: "((4,8,4),(2,2)):((64,1,16),(8,256))",
    8: "((4,8,4),(4,2,2)):((256,1,16),(64,8,1024))",
}
CUTLASS_D = "((4,8,4),(2,2,n)):((128,1,16),(64,8,512))"
# include/cute/atom/mma_traits_sm90_gmma_sparse.hpp, ELayout: metadata of a thread, one value for each K of its groups.
CUTLASS_METADATA = {
    (16, 1): "((2,2,8,4),(32)):((8,2048,1,16),(64))",
    (8, 1): "((2,2,8,4),(16,2)):((1024,0,1,16),(64,8))",
    (8, 2): "((2,2,8,4),(8,2)):((512,0,1,16),(64,8))",
}


@pytest.mark.parametrize("n", [8, 40, 256])
def test_d_is_the_layout_of_cutlass(n):
    place = cute.parse(CUTLASS_D, n=n // 8).offsets()
    assert all(place[t, i] == d_row(t, i) + 64 * d_column(t, i) for t in THREADS for i in range(n // 2))


@pytest.mark.parametrize("bits", list(CUTLASS_A))
def test_a_is_the_layout_of_cutlass(bits):
    place = cute.parse(CUTLASS_A[bits]).offsets()
    assert all(place[t, i] == a_row(t, i, bits) + 64 * a_column(t, i, bits) for t in THREADS for i in range(128 // bits))


@pytest.mark.parametrize(("groups", "bits_of_k"), list(CUTLASS_METADATA))
def test_metadata_is_the_layout_of_cutlass(groups, bits_of_k):
    """2:4 has one bit of metadata for each K, 1:2 two. In CUTLASS the threads of either selector stand for the same
    rows.
    """
    place = cute.parse(CUTLASS_METADATA[groups, bits_of_k]).offsets()
    for t in THREADS:
        for value in range(32 // bits_of_k):
            bit = value * bits_of_k
            k = (metadata_group(t, bit, groups) * 4 + bit % 4) // bits_of_k
            assert place[t, value] == metadata_row(t, bit, groups) + 64 * k


# --------------------------------------------------------------------------------------------------------------------------- metadata


@pytest.mark.parametrize("metadata", range(16))
def test_a_group_keeps_its_two_elements_inside_itself(metadata):
    both = [sparse_k(stored, metadata) for stored in (6, 7)]
    assert all(12 <= k < 16 for k in both)
    assert (len(set(both)) == 1) == (metadata in INVALID_METADATA_2_4)


def test_the_two_values_for_tf32_are_the_halves_of_one_element_in_order():
    whole = {m for m in range(16) if sparse_k(0, m) % 2 == 0 and sparse_k(1, m) == sparse_k(0, m) + 1}
    assert whole == METADATA_1_2


# ------------------------------------------------------------------------------------------------------------------------------ tables


def test_no_pair_of_types_stands_in_two_rows():
    triples = [(a, b, d) for row in WGMMA_TYPES for a in row.a for b in row.b for d in row.d]
    assert len(set(triples)) == len(triples)


@pytest.mark.parametrize("row", WGMMA_TYPES, ids=lambda row: row.a[0])
def test_a_row_of_the_table_fits_the_registers(row):
    assert row.k * row.bits == 8 * OPERAND_ROW_BYTES
    assert WGMMA_THREADS * A_REGISTERS * 4 == WGMMA_M * OPERAND_ROW_BYTES
    assert all(n % 8 == 0 and n <= 256 for n in row.n)
    assert bool(row.group) == bool(row.selectors)
    if row.group:
        groups = 2 * row.k // row.group
        # the bits of all threads that one selector names
        assert groups * 4 * WGMMA_M == 32 * WGMMA_THREADS // len(row.selectors)


def test_the_formulas_compile_and_give_the_same():
    calls = {
        "d_row": (77, 13),
        "d_column": (77, 13),
        "d_thread": (45, 203),
        "d_element": (45, 203),
        "a_row": (77, 13, 8),
        "a_column": (77, 13, 8),
        "a_thread": (45, 29, 8),
        "a_element": (45, 29, 8),
        "b_k": (77, 13, 8),
        "b_n": (77,),
        "metadata_thread": (45, 5, 8, 1, 8),
        "metadata_bit": (45, 13, 16, 16),
        "metadata_row": (77, 20, 8, 8),
        "metadata_group": (77, 20, 16, 16),
        "sparse_k": (13, 0b1001),
    }
    assert set(calls) == set(fragments.__all__)
    for name, arguments in list(calls.items())[:: 1 if is_night() else 3]:
        plain = getattr(fragments, name)
        assert numba.njit(plain)(*arguments) == plain(*arguments)


# ----------------------------------------------------------------------------------------------------------------------------- silicon
# Whole instructions on integers, D = A B^T + C, in plain numpy: the formulas alone have to explain every register.


def from_bits(bits, dtype):
    if dtype == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return bits.astype(np.uint8).view({"s8": np.int8, "u8": np.uint8}[dtype]).astype(np.float64)


def table(formula, rows, columns, *more):
    return np.array([[formula(row, column, *more) for column in range(columns)] for row in range(rows)])


def register_a(registers, bits, k):
    held = np.ascontiguousarray(registers).view(f"<u{bits // 8}").reshape(WGMMA_THREADS, -1)
    return held[table(a_thread, WGMMA_M, k, bits), table(a_element, WGMMA_M, k, bits)]


def spread(stored, metadata, groups, selector):
    """The sparse A as a full matrix."""
    out = np.zeros((WGMMA_M, 2 * stored.shape[1]))
    for row in range(WGMMA_M):
        for i in range(stored.shape[1]):
            group = i // 2
            nibble = int(metadata[metadata_thread(row, group, groups, selector)]) >> metadata_bit(row, group, groups) & 15
            out[row, sparse_k(i, nibble)] += stored[row, i]
    return out


@pytest.mark.parametrize(("name", "dtype", "most_n"), [("wgmma_f32", "bf16", 32), ("wgmma_s32", "u8", 24), ("wgmma_sparse", "bf16", 24)])
def test_the_fragments_explain_what_silicon_computed(name, dtype, most_n):
    suite = load_suite(GOLDEN / name)
    a = suite.arrays
    row = next(row for row in WGMMA_TYPES if dtype in row.a)
    without_c = (a["c_block"] == 0) | (a["scale_d"] == 0)
    chosen = (a["dtype_a"] == dtype) & (a["a_source"] == "registers") & (a["n"] <= most_n) & without_c
    assert np.count_nonzero(chosen) > 2
    for i in np.flatnonzero(chosen).tolist():
        n, k, sparse = int(a["n"][i]), int(a["k"][i]), bool(a["sparse"][i])
        matrix_a = from_bits(register_a(a["a_blocks"][a["a_block"][i]], row.bits, row.k), dtype)
        if sparse:
            metadata = a["metadata_blocks"][a["metadata_block"][i]]
            matrix_a = spread(matrix_a, metadata, k // row.group, int(a["selector"][i]))
        b_type, major = str(a["dtype_b"][i]), "MN" if a["trans_b"][i] else "K"
        address = operand_addresses(int(a["b_descriptor"][i]), arch="sm_90a", dtype=b_type, major=major, rows=n, k=k).astype(np.int64)
        window = a[f"image_{a['image'][i]}"]
        read = sum(window[address - 0x400 + byte].astype(np.uint32) << (8 * byte) for byte in range(row.bits // 8))
        product = int(a["scale_a"][i]) * int(a["scale_b"][i]) * matrix_a @ from_bits(read, b_type).T
        expected = product.astype(np.float32 if str(a["dtype_d"][i]) == "f32" else np.int32) + 0  # zero is +0
        d = a["d_values"][suite.ragged("d", i)].reshape(WGMMA_THREADS, n // 2)
        found = d[table(d_thread, WGMMA_M, n), table(d_element, WGMMA_M, n)]
        np.testing.assert_array_equal(found, expected.view(np.uint32))
