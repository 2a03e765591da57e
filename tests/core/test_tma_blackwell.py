"""What only Blackwell has: sub-byte types as strings of bits, restrictions of its modes, and that Hopper refuses all of
it.
"""

import itertools

import numpy as np
import pytest

from boxes import BASE, BITS, CELLS, DATA_BYTES, WIDTH, image, place, tiled, wide
from smemsim import (
    GlobalMemory,
    HardwareTrap,
    InputError,
    SharedMemory,
    SmemsimError,
    TensorMap,
    Unmodelled,
    tensormap_replace,
    tma_load,
    tma_load_bytes,
    tma_prefetch,
    tma_reduce,
    tma_store,
    tma_store_bytes,
)
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.tensor_map import TENSOR_MAP

# ---- sub-byte types, as strings of bits --------------------------------------------------------------------------------------------


def sub_byte(data_type, swizzle="none", *, dim=256, rows=4, box=128):
    stride = -(-dim * BITS[data_type] // 256) * 32
    return tiled(swizzle, data_type=data_type, global_dim=(dim, rows), global_strides=(stride,), box_dim=(box, 2)), stride


def bits(raw, first, count):
    """`count` bits of a byte string, lowest first."""
    return int.from_bytes(raw.tobytes(), "little") >> first & (1 << count) - 1


@pytest.mark.parametrize("swizzle", ["none", "128B", "128B_ATOM_32B"])
@pytest.mark.parametrize(("data_type", "packed"), [("16U4_ALIGN16B", 64), ("16U6_ALIGN16B", 96)])
def test_16_elements_load_as_packed_bits_into_16_bytes_whose_gap_is_left_alone(data_type, packed, swizzle):
    tm, stride = sub_byte(data_type, swizzle)
    rng = np.random.default_rng(5)
    tensor, before = rng.integers(0, 256, 4 * stride, np.uint8), rng.integers(0, 256, 2048, np.uint8)
    after = tma_load_bytes(tm, (128, 1), smem_address=1024, shared=before, global_=tensor, arch="sm_100a")
    t, width = tma_load(tm, (128, 1), smem_address=1024), BITS[data_type]
    assert t.transaction_bytes == 2 * packed == len(t.shared_address)
    for row, group in itertools.product(range(2), range(8)):
        at, data = place(1024 + 128 * row + 16 * group, swizzle), 2 * width
        assert bits(after[at : at + data], 0, 16 * width) == bits(tensor[(1 + row) * stride :], (128 + 16 * group) * width, 16 * width)
        assert np.array_equal(after[at + data : at + 16], before[at + data : at + 16])
        assert [image(t).get(at + b, "gap") for b in range(16)] == [
            (1 + row) * stride + (8 + group) * data + b if b < data else "gap" for b in range(16)
        ]


@pytest.mark.parametrize("swizzle", ["none", "64B", "128B", "128B_ATOM_64B"])
def test_packed_4_bit_types_are_bytes_to_tma(swizzle):
    box = 128 if WIDTH[swizzle] == 64 else 256
    tm, stride = sub_byte("16U4_ALIGN8B", swizzle, dim=320, rows=4, box=box)
    bytes_ = tiled(swizzle, global_dim=(160, 4), global_strides=(stride,), box_dim=(box // 2, 2))
    for at in ((0, 0), (32, 1), (-64, 2), (256, 3)):
        mine, theirs = (tma_load(m, c, smem_address=1152) for m, c in ((tm, at), (bytes_, (at[0] // 2, at[1]))))
        assert image(mine) == image(theirs)
        assert mine.transaction_bytes == box
    assert image(tma_store(tm, (256, 2), smem_address=1024)) == image(tma_store(bytes_, (128, 2), smem_address=1024))


def packed_six(raw):
    """The lower six bits of every byte, one after the other."""
    number = sum(int(byte & 63) << 6 * i for i, byte in enumerate(raw))
    return list(number.to_bytes(len(raw) * 6 // 8, "little"))


@pytest.mark.parametrize("swizzle", ["none", "128B", "128B_ATOM_32B", "128B_ATOM_64B"])
def test_a_6_bit_store_packs_the_lower_six_bits_of_every_byte(swizzle):
    tm, stride = sub_byte("16U6_ALIGN16B", swizzle)
    rng = np.random.default_rng(6)
    shared, tensor = rng.integers(0, 256, 2048, np.uint8), rng.integers(0, 256, 4 * stride, np.uint8)
    wanted = tensor.copy()
    for row, group in itertools.product(range(2), range(8)):
        at, to = place(1024 + 128 * row + 16 * group, swizzle), (1 + row) * stride + 96 + 12 * group
        wanted[to : to + 12] = packed_six(shared[at : at + 16])
    after = tma_store_bytes(tm, (128, 1), smem_address=1024, shared=shared, global_=tensor, arch="sm_100a")
    assert np.array_equal(after, wanted)


def relaxed(box, swizzle_mode):
    """A map of 6-bit elements for the stores of sm_103a: 192 x 4, rows 192 bytes apart, its box changed by
    tensormap.replace.
    """
    raw = bytes(sub_byte("16U6_ALIGN16B")[0])
    for field, value, ordinal in (("box_dim", box, 0), ("global_dim", 192, 0), ("swizzle_mode", swizzle_mode, None)):
        raw = tensormap_replace(raw, field, value, ordinal=ordinal, arch="sm_103a")
    return TensorMap.from_bytes(raw)


@pytest.mark.parametrize(("box", "swizzle"), [(64, "none"), (64, "64B"), (128, "none"), (128, "128B")])
def test_6_bit_stores_of_sm_103a_may_begin_at_every_64th_element(box, swizzle):
    """PTX ISA 9.1 §5.5.1.1: boxes of 48 or 96 bytes, tensor of 48-byte multiples, coordinates multiples of 64."""
    tm = relaxed(box, {"none": 0, "64B": 2, "128B": 3}[swizzle])
    shared, before = np.random.default_rng(7).integers(0, 256, (2, 2048), np.uint8)
    wanted = before[:768].copy()
    for row, group in itertools.product(range(2), range(box // 16)):
        at, to = place(1024 + box * row + 16 * group, swizzle), (1 + row) * 192 + 48 + 12 * group
        wanted[to : to + 12] = packed_six(shared[at : at + 16])
    after = tma_store_bytes(tm, (64, 1), smem_address=1024, shared=shared, global_=before[:768], arch="sm_103a")
    assert np.array_equal(after, wanted)
    for call, arch in ((tma_store, "sm_100a"), (tma_load, "sm_100a"), (tma_load, "sm_103a")):
        with pytest.raises(SmemsimError):
            call(tm, (64, 1), smem_address=1024, arch=arch)


@pytest.mark.parametrize(
    ("call", "data_type", "swizzle", "at"),
    [
        (tma_load, "16U6_ALIGN16B", "none", (64, 0)),
        (tma_load, "16U4_ALIGN16B", "none", (64, 0)),
        (tma_load, "16U4_ALIGN8B", "none", (16, 0)),
        (tma_load, "16U6_ALIGN16B", "128B_ATOM_64B", (0, 0)),
        (tma_store, "16U4_ALIGN16B", "none", (0, 0)),
        (tma_store, "16U6_ALIGN16B", "none", (-128, 0)),
    ],
)
def test_what_sub_byte_types_do_not_have_traps(call, data_type, swizzle, at):
    tm, _ = sub_byte(data_type, swizzle)
    with pytest.raises(HardwareTrap):
        call(tm, at, smem_address=1024, arch="sm_100a")


def test_reductions_and_flipped_stores_that_no_document_has_are_not_made_up():
    memory = {"shared": np.zeros(4096, np.uint8), "global_": np.zeros(8192, np.uint8)}
    for data_type in DATA_BYTES | {"16U4_ALIGN8B": 16}:
        with pytest.raises((Unmodelled, HardwareTrap)):
            tma_reduce("add", sub_byte(data_type)[0], (0, 0), smem_address=1024, **memory)
    with pytest.raises((Unmodelled, HardwareTrap)):
        tma_store(tiled("128B_ATOM_32B_FLIP_8B"), (0, 0), smem_address=1024)
    u32 = tiled(data_type="u32", global_dim=(32, 8), global_strides=(128,), box_dim=(32, 1))
    # the PTX ISA has .tile and .im2col_no_offs for reductions; ptxas takes tile::scatter4 too
    with pytest.raises(SmemsimError):
        tma_reduce("add", u32, (0, 1, 2, 3, 4), smem_address=1024, mode="tile::scatter4", **memory)


# ---- what Hopper does not have -----------------------------------------------------------------------------------------------------

HERE = {"smem_address": 1024, "arch": "sm_90a"}


@pytest.mark.parametrize("data_type", ["16U4_ALIGN8B", "16U4_ALIGN16B", "16U6_ALIGN16B"])
def test_sm_90a_has_no_sub_byte_types(data_type):
    for call in (tma_load, tma_store):
        with pytest.raises(HardwareTrap, match="sm_90a"):
            call(sub_byte(data_type)[0], (0, 0), **HERE)


def test_sm_90a_has_no_gather_no_scatter_and_no_wide_im2col():
    tm = tiled(box_dim=(128, 1))
    with pytest.raises(SmemsimError, match="sm_90a has no such instruction"):
        tma_load(tm, (0, 0, 1, 2, 3), mode="tile::gather4", **HERE)
    with pytest.raises(SmemsimError, match="sm_90a has no such instruction"):
        tma_store(tm, (0, 0, 1, 2, 3), mode="tile::scatter4", **HERE)
    with pytest.raises(SmemsimError, match="sm_90a has no such instruction"):
        tma_prefetch(tm, (0, 0, 1, 2, 3), mode="tile::gather4", arch="sm_90a")
    for mode in ("W", "W128"):
        with pytest.raises(SmemsimError, match="sm_90a has no such instruction"):
            tma_load(wide((64, 9, 7, 4), lower=0, upper=0, mode=mode), (0, 0, 0, 0), **HERE)


@pytest.mark.parametrize(("swizzle", "seen"), [("96B", "none"), *[(s, "128B") for s in CELLS if "ATOM" in s]])
def test_sm_90a_reads_two_bits_of_a_swizzle_that_it_does_not_have_and_its_memory_refuses_the_map(swizzle, seen):
    inner = WIDTH[swizzle]
    tm, same = (tiled(s, global_dim=(inner, 16)) for s in (swizzle, seen))
    assert image(tma_load(tm, (0, 0), **HERE)) == image(tma_load(same, (0, 0), **HERE))  # trace tma_edited
    world, shared = GlobalMemory(), SharedMemory("sm_90a")
    world.place(np.zeros(16 * inner, np.uint8), BASE)
    with pytest.raises(InputError, match="sm_90a has no such tensor map"):
        shared.tma_load(tm, (0, 0), smem_address=1024, source=world)
    with pytest.raises(InputError, match="sm_90a has no such tensor map"):
        shared.tma_store(tm, (0, 0), smem_address=1024, to=world)
    words = tiled(swizzle, data_type="u32", global_dim=(inner // 4, 16), global_strides=(inner,))
    with pytest.raises(InputError, match="sm_90a has no such tensor map"):
        shared.tma_reduce("add", words, (0, 0), smem_address=1024, to=world)


def test_only_sm_103a_has_96b():
    tm = tiled("96B", global_dim=(96, 16))
    assert tma_load(tm, (0, 0), smem_address=1024, arch="sm_103a").transaction_bytes == 8 * 96
    for call in (tma_load, tma_store):
        with pytest.raises(SmemsimError, match="sm_103a"):
            call(tm, (0, 0), smem_address=1024, arch="sm_100a")


def replaced(tm, **fields):
    """A map changed by tensormap.replace on sm_103a, into what no encode call makes."""
    raw = bytes(tm)
    for field, value in fields.items():
        raw = tensormap_replace(raw, field, value, arch="sm_103a")
    return TensorMap.from_bytes(raw)


SLICES = TensorMap.tiled(
    data_type="u64", global_address=BASE, global_dim=(8, 4, 2), global_strides=(128, 512), box_dim=(4, 1, 1), interleave="16B"
)


@pytest.mark.parametrize(
    ("tm", "at"),
    [
        (replaced(SLICES, swizzle_mode=4), (0, 0, 0)),
        (replaced(tiled(global_dim=(128, 16)), swizzle_mode=4), (0, 0)),
        (replaced(sub_byte("16U6_ALIGN16B")[0], swizzle_mode=4), (0, 0)),
        (replaced(sub_byte("16U4_ALIGN16B")[0], swizzle_mode=4), (0, 0)),
        (replaced(tiled(global_dim=(96, 16), box_dim=(96, 8)), swizzle_mode=4, swizzle_atomicity=1), (0, 0)),
        (replaced(tiled(global_dim=(64, 16), box_dim=(64, 8)), swizzle_mode=2, swizzle_atomicity=1), (0, 0)),
        (replaced(sub_byte("16U6_ALIGN16B")[0], swizzle_mode=3, swizzle_atomicity=2), (0, 0)),
    ],
    ids=[
        "96B of slices",
        "96B of 128 bytes",
        "96B of 6 bits",
        "96B of 4 bits",
        "96B of 32-byte atoms",
        "64B of 32-byte atoms",
        "flip of 6 bits",
    ],
)
def test_what_the_ptx_isa_restricts_is_not_transferred_as_if_it_were_allowed(tm, at):
    """9.7.9.27.1.1 and table 14 of 5.5.7; a map may hold such a combination, and no document says what then happens."""
    with pytest.raises(SmemsimError):
        tma_load(tm, at, smem_address=1024, arch="sm_103a")


def test_tf32_is_rounded_in_the_halves_that_change_places_too():
    """8-byte flip: the words of odd lines lie elsewhere, their values are those of a load without the flip."""
    words = np.random.default_rng(5).integers(0, 1 << 32, 16 * 32, dtype=np.uint32)
    maps = [
        TensorMap.tiled(
            data_type="tf32",
            global_address=BASE,
            global_dim=(32, 16),
            global_strides=(128,),
            box_dim=(32, 16),
            swizzle=swizzle,
            arch="sm_100a",
        )
        for swizzle in ("128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B")
    ]
    plain, flipped = (
        tma_load_bytes(tm, (0, 0), smem_address=1024, shared=np.zeros(4096, np.uint8), global_=words.view(np.uint8))[1024:3072]
        for tm in maps
    )
    halves = plain.reshape(16, 16, 8)
    assert (flipped.reshape(16, 16, 8)[::2] == halves[::2]).all()
    assert (flipped.reshape(16, 16, 8)[1::2] == halves[1::2].reshape(8, 8, 2, 8)[:, :, ::-1].reshape(8, 16, 8)).all()


def test_memory_does_not_reduce_through_scatter4_either():
    world, shared = GlobalMemory(), SharedMemory("sm_100a")
    world.place(np.zeros(1024, np.uint8), BASE)
    tm = TensorMap.tiled(data_type="u32", global_address=BASE, global_dim=(32, 8), global_strides=(128,), box_dim=(32, 1))
    with pytest.raises(Unmodelled, match="scatter4"):
        shared.tma_reduce("add", tm, (0, 1, 2, 3, 4), smem_address=1024, to=world, mode="tile::scatter4")


# ---- maps that host code encodes itself ---------------------------------------------------------------------------------------------


def edited(tm, **fields):
    """The map with other raw bits in some fields of its 128 bytes."""
    word = int.from_bytes(bytes(tm), "little")
    for name, raw in fields.items():
        field = TENSOR_MAP.fields[name]
        word = word & ~(field.mask << field.low) | raw << field.low
    return TensorMap.from_bytes(word.to_bytes(128, "little"))


UPPER_HALF = [name for name, field in TENSOR_MAP.fields.items() if field.low >= 512]


@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
def test_transfers_look_at_no_word_of_a_map_from_16_on_and_take_version_1(arch):
    tm = tiled("128B")
    rng = np.random.default_rng(16)
    for fields in ({"version": 1}, {"backing_hint": 1}, {name: int(rng.integers(1 << 32)) for name in UPPER_HALF}):
        other = edited(tm, **fields)
        assert other.unknown_fields == tuple(fields)
        for call in (tma_load, tma_store):
            assert image(call(other, (0, 0), smem_address=1024, arch=arch)) == image(call(tm, (0, 0), smem_address=1024, arch=arch))
        assert other.problems(arch) == tm.problems(arch)
        assert set(other.unread_fields("sm_90a").values()) == {Grade.MEASURED}
        if "backing_hint" not in fields:
            assert set(other.unread_fields(arch).values()) == {Grade.COMPILED}


@pytest.mark.parametrize("fields", [{"version": 2}, {"version": 7}, {"_r2_23": 1}, {"_r7_16": 1}, {"_r13_15": 1}, {"_r15_10": 1}])
def test_reserved_bits_below_word_16_do_nothing_on_hopper_and_nobody_knows_what_on_blackwell(fields):
    other = edited(tiled(), **fields)
    assert image(tma_load(other, (0, 0), smem_address=1024, arch="sm_90a")) == image(tma_load(tiled(), (0, 0), smem_address=1024))
    with pytest.raises(Unmodelled, match=next(iter(fields)).lstrip("_")):
        tma_load(other, (0, 0), smem_address=1024, arch="sm_100a")


def test_fields_of_dimensions_that_a_map_has_not_are_taken_as_ignored_with_a_remark():
    other = edited(tiled(), dim3=77, stride2_low=5, element_stride4=3)
    assert image(tma_load(other, (0, 0), smem_address=1024, arch="sm_100a")) == image(tma_load(tiled(), (0, 0), smem_address=1024))
    (told,) = [f for f in other.problems("sm_100a") if "rank" in f.message]
    assert (told.code, told.severity) == ("T215", "luck")
    assert "dim3" in told.message
    assert "stride2_low" in told.message
    assert other.problems("sm_90a") == tiled().problems("sm_90a")


def test_words_of_the_lower_half_still_count_in_a_map_with_garbage_behind_them():
    garbage = {"version": 1} | dict.fromkeys(UPPER_HALF, 0x7FCC1234)
    half = edited(tiled("128B"), box1=3, **garbage)  # box1 holds rows - 1
    assert image(tma_load(half, (0, 0), smem_address=1024, arch="sm_100a")) == image(
        tma_load(tiled("128B", box_dim=(128, 4)), (0, 0), smem_address=1024)
    )
