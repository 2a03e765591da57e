"""Laws of operand addresses: what each descriptor field can and cannot do, on random descriptors and extents."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smemsim import InputError, SmemDescriptor, Unmodelled, operand_addresses
from smemsim.core.layout.operand import absolute_chunk, k_major_chunk, mn_major_chunk
from smemsim.core.layout.swizzle import guide_chunk, swizzle
from smemsim.core.spec.formats import FORMATS, element_format
from smemsim.core.spec.smem_descriptor import SM100_SMEM_DESC
from smemsim.core.spec.swizzles import MODES, Swizzle
from strategies import CLASSIC, descriptors, examples, operands, reads

ARCHS = ("sm_90a", "sm_100a", "sm_103a")
each_arch = pytest.mark.parametrize("arch", ARCHS)
SWIZZLED = tuple(mode for mode in CLASSIC if mode is not Swizzle.NONE)
masks = st.sampled_from(sorted({(m.mask, m.shift) for m in MODES.values()}))
addresses = st.integers(0, (1 << 18) - 1)


def fields_of(word, arch):
    return SmemDescriptor.decode(word, arch=arch)


def rewritten(word, arch, **raw):
    """The word with the raw bits of some fields replaced."""
    table = fields_of(word, arch).table
    for name, bits in raw.items():
        field = table.fields[name]
        word = word & ~(field.mask << field.low) | bits << field.low
    return word


def linear_m1(d, dtype, major, rows, k):
    """The measured formulas, element by element, for types of whole bytes, before the XOR (worked in bytes, not in
    chunks).
    """
    e, lbo, sbo = FORMATS[dtype].bits // 8, d.leading_byte_offset, d.stride_byte_offset
    r, c = np.arange(rows, dtype=np.int64)[:, None], np.arange(k, dtype=np.int64)[None, :]
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[d.swizzle]
    if major == "K":
        return d.start_address + r % 8 * width + r // 8 * sbo + c * e % width + c * e // width * lbo
    if width == 16:
        return d.start_address + c % 8 * 16 + c // 8 * lbo + r // (16 // e) * sbo + r % (16 // e) * e
    return d.start_address + c % 8 * width + c // 8 * sbo + r // (width // e) * lbo + r % (width // e) * e


@each_arch
@examples(60)
@given(data=st.data())
def test_addresses_are_the_measured_sums_and_then_one_xor(arch, data):
    whole = [name for name, f in FORMATS.items() if f.bits >= 8]
    word, operand = data.draw(reads(arch=arch, dtypes=whole))
    d = fields_of(word, arch)
    line = linear_m1(d, operand["dtype"], operand["major"], operand["rows"], operand["k"])
    mask = {"none": 0, "32B": 1, "64B": 3, "128B": 7}[d.swizzle]
    wanted = line ^ (((line - 128 * d.base_offset) >> 7) & mask) << 4
    assert np.array_equal(operand_addresses(word, arch=arch, **operand), wanted)


def scalar_addresses(word, arch, operand):
    """The same formulas as Python functions over integers, one element at a time."""
    d, fmt = fields_of(word, arch), FORMATS[operand["dtype"]]
    mode, per_chunk = MODES[d.swizzle], fmt.elements_per_chunk(operand["packing"])
    out = np.empty((operand["rows"], operand["k"]), np.uint32)
    for row, k in np.ndindex(out.shape):
        start, lbo, sbo = d.start_address, d.leading_byte_offset, d.stride_byte_offset
        chunk, inside = divmod(k if operand["major"] == "K" else row, per_chunk)
        if d.lbo_mode:
            line = absolute_chunk(start, lbo, sbo, row, chunk)
        elif operand["major"] == "K":
            line = k_major_chunk(start, lbo, sbo, mode.width, row, chunk)
        else:
            line = mn_major_chunk(start, lbo, sbo, mode.width, mode.k_rows, chunk, k)
        out[row, k] = swizzle(line, d.base_offset, mode.mask, mode.shift) + inside * fmt.bits // 8
    return out


@pytest.mark.parametrize("dtype", FORMATS)
@examples(12)
@given(data=st.data())
def test_the_compiled_loop_is_the_scalar_formulas(dtype, data):
    arch = data.draw(st.sampled_from(ARCHS))
    swizzles = CLASSIC if arch == "sm_90a" else (*CLASSIC, Swizzle.B128_ATOM_32B)
    word, operand = data.draw(reads(arch=arch, swizzles=swizzles, dtypes=(dtype,)))
    assert np.array_equal(operand_addresses(word, arch=arch, **operand), scalar_addresses(word, arch, operand))


@examples(25)
@given(st.data())
def test_the_compiled_absolute_mode_is_the_scalar_formula(data):
    raw = {"lbo_mode": st.just(1), "base_offset": st.just(0)}
    word = data.draw(descriptors(arch="sm_103a", swizzles=[Swizzle.B128], raw=raw))
    operand = data.draw(operands(swizzle=Swizzle.NONE, majors=("K",)))
    operand["k"] = min(operand["k"], 48 * 8 // element_format(operand["dtype"]).bits)
    assume(-(-operand["k"] // element_format(operand["dtype"]).elements_per_chunk(operand["packing"])) <= 3)
    assert np.array_equal(operand_addresses(word, arch="sm_103a", **operand), scalar_addresses(word, "sm_103a", operand))


@examples(60)
@given(masks, addresses, addresses)
def test_swizzle_without_base_offset_is_linear_over_gf2_and_an_involution(mask, a, b):
    assert swizzle(a ^ b, 0, *mask) == swizzle(a, 0, *mask) ^ swizzle(b, 0, *mask)
    assert swizzle(swizzle(a, 0, *mask), 0, *mask) == a


@examples(60)
@given(masks, addresses, st.integers(0, 7))
def test_swizzle_permutes_whole_atoms_inside_a_128_byte_line(mask, address, base_offset):
    moved = swizzle(address, base_offset, *mask)
    assert moved >> 7 == address >> 7
    assert moved % (1 << mask[1]) == address % (1 << mask[1])
    line = address >> 7 << 7
    assert sorted(swizzle(line + i, base_offset, *mask) for i in range(128)) == list(range(line, line + 128))


@examples(40)
@given(st.sampled_from([7, 3, 1]), st.integers(0, 1 << 11), st.integers(0, 63), st.integers(0, 7))
def test_the_guides_table_is_the_same_xor_when_y_counts_128_byte_lines(mask, line, y, x):
    pointer = 128 * line
    inside = guide_chunk(y, x % (mask + 1), pointer, mask + 1) + x // (mask + 1) * (mask + 1)
    assert swizzle(pointer + 128 * y + 16 * x, 0, mask, 4) == pointer + 128 * y + 16 * inside


@each_arch
@examples(30)
@given(data=st.data())
def test_base_offset_counts_modulo_the_mask_plus_one_and_not_at_all_without_swizzle(arch, data):
    word, operand = data.draw(reads(arch=arch))
    mask = MODES[fields_of(word, arch).swizzle].mask
    results = [operand_addresses(rewritten(word, arch, base_offset=b), arch=arch, **operand) for b in range(8)]
    for b in range(8):
        assert np.array_equal(results[b], results[b & mask])
    distinct = {result.tobytes() for result in results}
    assert len(distinct) == mask + 1


@each_arch
@examples(30)
@given(data=st.data())
def test_base_offset_b_is_the_pattern_moved_by_b_lines(arch, data):
    """Moving the start and the origin of the pattern by the same lines moves every address by them."""
    word, operand = data.draw(reads(arch=arch, raw={"start_address": st.integers(0, (1 << 14) - 65)}))
    raw, b, by = word & 0x3FFF, fields_of(word, arch).base_offset, data.draw(st.integers(0, 7))
    moved = rewritten(word, arch, start_address=raw + 8 * by, base_offset=(b + by) % 8)
    assert np.array_equal(operand_addresses(moved, arch=arch, **operand), operand_addresses(word, arch=arch, **operand) + 128 * by)


@each_arch
@examples(30)
@given(data=st.data())
def test_moving_the_start_by_whole_periods_moves_every_address(arch, data):
    swizzles = (*CLASSIC, *([Swizzle.B128_ATOM_32B] if arch != "sm_90a" else []))
    word, operand = data.draw(reads(arch=arch, swizzles=swizzles, raw={"start_address": st.integers(0, (1 << 14) - 513)}))
    by = data.draw(st.integers(1, 512 * 16 // MODES[fields_of(word, arch).swizzle].period))
    by *= MODES[fields_of(word, arch).swizzle].period
    moved = fields_of(word, arch).advance(by)
    assert np.array_equal(operand_addresses(moved, arch=arch, **operand), operand_addresses(word, arch=arch, **operand) + by)


@each_arch
@examples(30)
@given(data=st.data())
def test_a_stride_that_the_extent_never_reaches_is_never_used(arch, data):
    word, operand = data.draw(reads(arch=arch))
    d, fmt = fields_of(word, arch), FORMATS[operand["dtype"]]
    width, major = MODES[d.swizzle].width, operand["major"]
    atom = MODES[d.swizzle].chunks * fmt.elements_per_chunk(operand["packing"])
    along, across = ("k", "rows") if major == "K" else ("rows", "k")
    one_group = operand | {across: min(operand[across], 8)}
    one_atom = operand | {along: min(operand[along], atom)}
    group_stride, atom_stride = "stride_byte_offset", "leading_byte_offset"
    if major == "MN" and width == 16:
        group_stride, atom_stride = atom_stride, group_stride
    for limited, stride in ((one_group, group_stride), (one_atom, atom_stride)):
        other = rewritten(word, arch, **{stride: data.draw(st.integers(0, 0x3FFF))})
        assert np.array_equal(operand_addresses(other, arch=arch, **limited), operand_addresses(word, arch=arch, **limited))


@pytest.mark.parametrize("swizzle_name", [Swizzle.B32, Swizzle.B64, Swizzle.B128])
@pytest.mark.parametrize(("dtype", "k"), [("bf16", 16), ("tf32", 8), ("s8", 32), ("e4m3", 32)])
def test_dense_wgmma_never_uses_lbo_in_swizzled_k_major(swizzle_name, dtype, k):
    words = [
        SmemDescriptor(arch="sm_90a", start_address=1040, leading_byte_offset=lbo, stride_byte_offset=784, swizzle=swizzle_name).word
        for lbo in (0, 16, 4096, 0x3FFF0)
    ]
    results = operand_addresses(np.array(words, np.uint64), arch="sm_90a", dtype=dtype, major="K", rows=64, k=k)
    assert (results == results[0]).all()


@each_arch
@examples(30)
@given(data=st.data())
def test_mn_major_is_the_transposed_k_major_operand(arch, data):
    """In a swizzled mode with the same strides, without swizzle with LBO and SBO exchanged."""
    mode = data.draw(st.sampled_from(CLASSIC))
    word = data.draw(descriptors(arch=arch, swizzles=[mode]))
    operand = data.draw(operands(swizzle=mode, majors=("K",)))
    transposed = operand | {"major": "MN", "rows": operand["k"], "k": operand["rows"]}
    d = fields_of(word, arch)
    if mode is Swizzle.NONE:
        exchanged = {"leading_byte_offset": d.stride_byte_offset >> 4, "stride_byte_offset": d.leading_byte_offset >> 4}
    else:
        exchanged = {}
    other = rewritten(word, arch, **exchanged)
    assert np.array_equal(operand_addresses(other, arch=arch, **transposed), operand_addresses(word, arch=arch, **operand).T)


RESERVED = {"sm_90a": [14, 15, 30, 31, 46, 47, 48, *range(52, 62)], "sm_100a": [14, 15, 30, 31, 46, 47, 48, *range(53, 61)]}
RESERVED["sm_103a"] = RESERVED["sm_100a"]


@each_arch
@examples(30)
@given(data=st.data())
def test_reserved_and_constant_bits_never_matter(arch, data):
    word, operand = data.draw(reads(arch=arch))
    flips = sum(1 << bit for bit in data.draw(st.sets(st.sampled_from(RESERVED[arch]), min_size=1)))
    assert np.array_equal(operand_addresses(word ^ flips, arch=arch, **operand), operand_addresses(word, arch=arch, **operand))


@examples(40)
@given(data=st.data())
def test_a_word_whose_layout_code_both_generations_share_reads_the_same_bytes(data):
    """Codes of wgmma stand in bits 63:62, those of tcgen05 in 63:61: with bits 61 and 52 clear the three words mean the
    same.
    """
    word, operand = data.draw(reads(arch="sm_90a"))
    word &= ~(1 << 61 | 1 << 52)
    first, *others = (operand_addresses(word, arch=arch, **operand) for arch in ARCHS)
    assert all(np.array_equal(first, other) for other in others)


@examples(40)
@given(data=st.data())
def test_sparse_operands_use_lbo_only_in_32b_and_none(data):
    """64 bytes of K a row: in 32B the second half lies LBO further, counted from the descriptor's start; wider modes
    ignore LBO.
    """
    mode = data.draw(st.sampled_from(CLASSIC))
    word = data.draw(descriptors(arch="sm_90a", swizzles=[mode], raw={"base_offset": st.just(0)}))
    d = fields_of(word, "sm_90a")
    result = operand_addresses(word, arch="sm_90a", dtype="bf16", major="K", rows=24, k=32)
    chunks = result[:, ::8].astype(np.int64)
    assert (np.diff(result.reshape(24, 4, 8).astype(np.int64), axis=-1) == 2).all()
    linear = np.array([[swizzle(int(a), 0, MODES[mode].mask, 4) for a in row] for row in chunks])
    steps = {"none": [d.leading_byte_offset] * 3, "32B": [16, d.leading_byte_offset - 16, 16]}.get(str(mode), [16, 16, 16])
    assert (np.diff(linear, axis=1) == steps).all()


@pytest.mark.parametrize("major", ["K", "MN"])
def test_packed_4_bit_neighbours_share_a_byte(major):
    word = SmemDescriptor(arch="sm_100a", start_address=1024, stride_byte_offset=1024, swizzle="128B").word
    result = operand_addresses(word, arch="sm_100a", dtype="e2m1", major=major, rows=64, k=64)
    along = result if major == "K" else result.T
    assert (along[:, ::2] == along[:, 1::2]).all()
    assert len(np.unique(along)) == along.size // 2
    assert (along.reshape(64, 2, 32)[..., ::2] - along.reshape(64, 2, 32)[..., :1] == np.arange(16)).all()


@pytest.mark.parametrize(
    ("dtype", "packing", "inside"),
    [
        ("e2m1", "padded", [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]),
        ("e3m2", "padded", [0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11]),
        ("e2m3", "packed", [0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11]),  # 6-bit types are always padded
    ],
)
@pytest.mark.parametrize("major", ["K", "MN"])
def test_padded_sub_byte_chunks_hold_16_elements_and_then_a_gap(dtype, packing, inside, major):
    word = SmemDescriptor(arch="sm_100a", start_address=2048, leading_byte_offset=8192, stride_byte_offset=1024, swizzle="128B").word
    result = operand_addresses(word, arch="sm_100a", dtype=dtype, major=major, rows=96, k=96, packing=packing)
    along = result if major == "K" else result.T
    chunks = along.reshape(96, 6, 16)
    assert (chunks - chunks[..., :1] == inside).all()
    assert (chunks[..., 0] % 16 == 0).all()
    bytes_type = operand_addresses(word, arch="sm_100a", dtype="e4m3", major=major, rows=96, k=96)
    assert (chunks[..., 0] == (bytes_type if major == "K" else bytes_type.T)[:, ::16]).all()


@pytest.mark.parametrize("k", [1, 31, 33, 96])
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize(
    ("dtype", "packing"), [("e2m1", "packed"), ("e2m1", "padded"), ("e3m2", "padded"), ("b1", "packed"), ("f64", "packed")]
)
def test_a_smaller_operand_is_the_corner_of_a_larger_one(dtype, packing, major, k):
    word = SmemDescriptor(arch="sm_100a", start_address=1040, leading_byte_offset=4112, stride_byte_offset=784, swizzle="none").word
    arguments = {"arch": "sm_100a", "dtype": dtype, "major": major, "packing": packing}
    whole = operand_addresses(word, **arguments, rows=100, k=100)
    assert np.array_equal(operand_addresses(word, **arguments, rows=7, k=k), whole[:7, :k])
    assert np.array_equal(operand_addresses(word, **arguments, rows=k, k=9), whole[:k, :9])


def test_32_byte_atoms_step_sbo_every_4_rows_of_k():
    """tf32 MN-major: pairs of 16-byte chunks move together, keyed by the line modulo 4."""
    word = SmemDescriptor(
        arch="sm_100a", start_address=1024, leading_byte_offset=8192, stride_byte_offset=512, swizzle="128B_ATOM_32B"
    ).word
    result = operand_addresses(word, arch="sm_100a", dtype="tf32", major="MN", rows=64, k=8)
    row, k = np.arange(64)[:, None], np.arange(8)[None, :]
    linear = 1024 + k % 4 * 128 + k // 4 * 512 + row % 32 * 4 + row // 32 * 8192
    assert np.array_equal(result, linear ^ (linear >> 2 & 0x60))


# CUTLASS walks the 384 bytes of a K tile of packed 4-bit data, kept in three 128-byte-wide buffers, in eight steps of
# 96 elements.
# start chunk, buffer, next buffer
STEPS_103 = [(0, 0, 0), (3, 0, 0), (6, 0, 1), (1, 1, 1), (4, 1, 1), (7, 1, 2), (2, 2, 2), (5, 2, 2)]


@pytest.mark.parametrize("buffers", [(0x400, 0x4400, 0x8400), (0x8000, 0x400, 0x10000)])
def test_absolute_lbo_walks_three_buffers_in_steps_of_48_bytes(buffers):
    rows = 128
    seen = []
    for step, (chunk, at, after) in enumerate(STEPS_103):
        word = SmemDescriptor(
            arch="sm_103a", start_address=buffers[at] + 16 * chunk, leading_byte_offset=buffers[after], stride_byte_offset=1024,
            swizzle="128B", lbo_mode=1,
        ).word  # fmt: skip
        result = operand_addresses(word, arch="sm_103a", dtype="e2m1", major="K", rows=rows, k=96)
        row = np.arange(rows)
        for i in range(3):
            tile_chunk = 3 * step + i
            line = buffers[tile_chunk // 8] + 128 * row + 16 * (tile_chunk % 8)
            assert np.array_equal(result[:, 32 * i], line ^ (line >> 3 & 0x70))
            seen += result[:, 32 * i].tolist()
    assert sorted(seen) == sorted(b + 16 * i for b in buffers for i in range(8 * rows))


def test_absolute_and_relative_lbo_agree_inside_one_line():
    for chunk in range(6):
        fields = {"start_address": 0x800 + 16 * chunk, "stride_byte_offset": 1024, "swizzle": "128B"}
        absolute = SmemDescriptor(arch="sm_103a", leading_byte_offset=0x8000, lbo_mode=1, **fields).word
        relative = SmemDescriptor(arch="sm_103a", **fields).word
        operand = {"arch": "sm_103a", "dtype": "e2m1", "major": "K", "rows": 40, "k": 96}
        assert np.array_equal(operand_addresses(absolute, **operand), operand_addresses(relative, **operand))


OPERAND = {"dtype": "bf16", "major": "K", "rows": 8, "k": 16}


def sm100(code, **fields):
    return SM100_SMEM_DESC.encode(start_address=1024, stride_byte_offset=1024, layout_type=code, **fields)


@pytest.mark.parametrize(
    ("arch", "word", "operand", "why"),
    [
        *[("sm_100a", sm100(code), {}, f"layout code {code} \\(0b{code:03b}\\) is invalid") for code in (3, 5, 7)],
        ("sm_103a", sm100(7), {"major": "MN"}, "layout code 7 .* is invalid on sm_103a"),
        ("sm_100a", sm100(2, lbo_mode=1), {}, "bit 52 .* sm_103a only"),
        ("sm_100a", sm100(2, lbo_mode=1), {"major": "MN"}, "bit 52 .* sm_103a only"),
        ("sm_103a", sm100(4, lbo_mode=1), {}, "K-major 128B swizzle with base_offset 0"),
        ("sm_103a", sm100(2, lbo_mode=1), {"major": "MN"}, "K-major 128B swizzle with base_offset 0"),
        ("sm_103a", sm100(2, lbo_mode=1, base_offset=1), {}, "K-major 128B swizzle with base_offset 0"),
        ("sm_100a", sm100(1), {}, "128B_ATOM_32B has no K-major layout"),
        ("sm_100a", sm100(2), {"k": 65}, "a row of 144 bytes of K is wider than the 128-byte swizzle"),
        ("sm_90a", 2 << 62, {"k": 33}, "a row of 80 bytes of K is wider than the 64-byte swizzle"),
        ("sm_90a", 1 << 62, {"k": 33, "dtype": "u32"}, "a row of 144 bytes of K"),
    ],
)
def test_what_nobody_knows_is_unmodelled(arch, word, operand, why):
    with pytest.raises(Unmodelled, match=f"descriptor {word:#018x}: .*{why}"):
        operand_addresses(word, arch=arch, **OPERAND | operand)
    several = np.array([0, 0, word], np.uint64)  # one such descriptor among many is enough
    with pytest.raises(Unmodelled, match=why):
        operand_addresses(several, arch=arch, **OPERAND | operand)


@pytest.mark.parametrize(
    ("arch", "word", "operand"),
    [
        ("sm_100a", sm100(2), {"k": 64}),
        ("sm_90a", 2 << 62, {"k": 32}),
        ("sm_90a", 3 << 62, {"k": 256}),
        ("sm_90a", 0, {"k": 256}),
        ("sm_90a", 1 << 62, {"k": 256, "major": "MN"}),
        ("sm_90a", 1 << 62 | 1 << 52 | 1 << 61, {}),
        ("sm_100a", sm100(1), {"major": "MN", "dtype": "tf32"}),
        ("sm_103a", sm100(2, lbo_mode=1), {}),
    ],
)
def test_neighbours_of_the_unknown_are_known(arch, word, operand):
    assert operand_addresses(word, arch=arch, **OPERAND | operand).size


@examples(20)
@given(st.data())
def test_a_number_an_array_a_list_and_a_descriptor_give_the_same(data):
    arch = data.draw(st.sampled_from(ARCHS))
    mode = data.draw(st.sampled_from(CLASSIC))
    drawn = data.draw(st.lists(descriptors(arch=arch, swizzles=[mode]), min_size=6, max_size=6))
    operand = data.draw(operands(swizzle=mode)) | {"arch": arch}
    single = np.stack([operand_addresses(word, **operand) for word in drawn])
    flat = np.array(drawn, np.uint64)
    assert single.shape == (6, operand["rows"], operand["k"])
    assert single.dtype == np.uint32
    for given_as in (flat, flat.view(np.int64), drawn, tuple(drawn), [fields_of(w, arch) for w in drawn], flat[::-1].copy()[::-1]):
        assert np.array_equal(operand_addresses(given_as, **operand), single)
    square = operand_addresses(flat.reshape(2, 3), **operand)
    assert np.array_equal(square, single.reshape(2, 3, *single.shape[1:]))
    assert np.array_equal(operand_addresses(flat[:1].reshape(()), **operand), single[0])
    assert np.array_equal(operand_addresses(drawn[0] - (1 << 64 if drawn[0] >> 63 else 0), **operand), single[0])


def test_out_is_filled_and_returned():
    words, expected = [0x4000004000010040, 0x4000004000010042], (2, 8, 16)
    out = np.full(expected, 0xFFFFFFFF, np.uint32)
    result = operand_addresses(words, arch="sm_90a", **OPERAND, out=out)
    assert result is out
    assert np.array_equal(out, operand_addresses(words, arch="sm_90a", **OPERAND))
    window = np.zeros((4, 8, 16), np.uint32)
    operand_addresses(words, arch="sm_90a", **OPERAND, out=window[1:3])
    assert np.array_equal(window[1:3], out)
    assert not window[[0, 3]].any()


READ_ONLY = np.zeros((8, 16), np.uint32)
READ_ONLY.setflags(write=False)


@pytest.mark.parametrize(
    ("out", "complaint"),
    [
        (np.zeros((8, 15), np.uint32), "shape \\(8, 16\\), not uint32 \\(8, 15\\)"),
        (np.zeros((1, 8, 16), np.uint32), "not uint32 \\(1, 8, 16\\)"),
        (np.zeros((8, 16), np.int64), "not int64"),
        (np.zeros((16, 8), np.uint32).T, "C-contiguous"),
        (np.zeros((8, 32), np.uint32)[:, ::2], "C-contiguous"),
        ([[0] * 16] * 8, "not list"),
        (READ_ONLY, "read-only"),
    ],
)
def test_an_unfit_out_is_refused(out, complaint):
    with pytest.raises(InputError, match=f"out: .*{complaint}"):
        operand_addresses(0x4000004000010040, arch="sm_90a", **OPERAND, out=out)


@pytest.mark.parametrize("rows", [0, 8])
@pytest.mark.parametrize("k", [0, 16])
@pytest.mark.parametrize("count", [0, 1])
def test_nothing_asked_is_nothing_answered(rows, k, count):
    words = np.full(count, 0x4000004000010040, np.uint64)
    assert operand_addresses(words, arch="sm_90a", dtype="bf16", major="K", rows=rows, k=k).shape == (count, rows, k)


def test_blocks_that_threads_share_are_seamless():
    """More elements than one block holds: every descriptor gets its own result."""
    words = (0x4000004000000040 + np.arange(3000, dtype=np.uint64)).astype(np.uint64)
    result = operand_addresses(words, arch="sm_90a", dtype="bf16", major="K", rows=64, k=16)
    step = operand_addresses(words[:64], arch="sm_90a", dtype="bf16", major="K", rows=64, k=16)
    starts = 1024 + 16 * np.arange(3000)
    assert (result[:, 0, 0] == starts ^ (starts >> 3 & 0x70)).all()
    for begin in range(0, 2944, 64):  # 64 steps of 16 bytes are one 1,024-byte period
        assert np.array_equal(result[begin : begin + 64], step + 16 * begin)


def test_addresses_are_plain_sums_past_the_end_of_the_window():
    """No wrap at 2^18: silicon faults there, which is a finding and not an address."""
    top = operand_addresses(0x3FFF3FFF3FFF3FFF, arch="sm_90a", dtype="bf16", major="K", rows=256, k=32)
    assert int(top.max()) == 0x3FFF0 + 7 * 16 + 31 * 0x3FFF0 + 3 * 0x3FFF0 + 14


@pytest.mark.parametrize(("rows", "k"), [(1 << 20, 8), (8, 1 << 20), (1 << 40, 1), (1, 1 << 40)])
def test_extents_whose_addresses_would_not_fit_are_refused(rows, k):
    with pytest.raises(InputError, match="too many for one operand"):
        operand_addresses(0, arch="sm_90a", dtype="bf16", major="K", rows=rows, k=k)


def test_what_goes_wrong_in_any_thread_reaches_the_caller(monkeypatch):
    """Addresses of many words are computed by several threads."""
    from smemsim.core.layout import loops
    from smemsim.core.words import operand

    word = SmemDescriptor(arch="sm_90a", start_address=0x400, leading_byte_offset=16, stride_byte_offset=1024, swizzle="none").word
    form = {"arch": "sm_90a", "dtype": "bf16", "major": "K", "rows": 8, "k": 16}
    monkeypatch.setattr(operand, "BLOCK_ELEMENTS", 8 * 16)
    monkeypatch.setattr(operand, "processors", lambda: 3)
    right = operand_addresses([word + n for n in range(12)], **form)
    assert (right - right[:1] == 16 * np.arange(12)[:, None, None]).all()
    whole, calls = loops.operand_addresses, []
    for fails in range(12):
        calls.clear()

        def one(words, *rest, fails=fails):
            calls.append(int(words[0]))
            if calls[-1] == word + fails:
                raise MemoryError(fails)
            whole(words, *rest)

        monkeypatch.setattr(loops, "operand_addresses", one)
        with pytest.raises(MemoryError, match=str(fails)):
            operand_addresses([word + n for n in range(12)], **form)
