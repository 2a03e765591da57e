"""Laws that hold in every mode of tensor transfers, against a model that walks byte by byte; and every argument taken
or explained.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxes import BASE, KINDS, boxes, tiled
from smemsim import GlobalMemory, SharedMemory, TensorMap, tma_load, tma_load_bytes, tma_prefetch, tma_reduce, tma_store, tma_store_bytes
from strategies import examples

STORES = ("tile", "interleaved", "im2col", "im2col interleaved", "gather")
addresses = st.integers(8, 40).map(lambda n: 128 * n)
END = 0x39000


def tensor_of(box, seed=1, minimum=0):
    """Random bytes for the whole tensor, the padding that a store may overwrite included."""
    tm = box.tm
    inner = tm.global_dim[0] * box.bits // 8
    size = -(-inner // 16) * 16 + sum((d - 1) * s for d, s in zip(tm.global_dim[1:], tm.global_strides, strict=True))
    return np.random.default_rng(seed).integers(minimum, 256, size, np.uint8)


# ---- the model ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@examples(40)
@given(data=st.data(), smem_address=addresses)
def test_a_load_puts_every_byte_where_the_model_does_and_counts_it_once(kind, data, smem_address):
    box = data.draw(boxes((kind,)))
    t = tma_load(box.tm, box.at, smem_address=smem_address, **box.options)
    wanted = box.model(smem_address)
    assert sorted(zip(t.shared_address.tolist(), t.global_address.tolist(), strict=True)) == sorted(wanted)
    assert t.transaction_bytes == len(box.rows) * box.row_bytes == len(wanted)
    assert len(np.unique(t.shared_address)) == len(wanted)
    assert smem_address <= t.shared_address.min()
    assert t.shared_address.max() < smem_address + -(-len(box.rows) * box.pitch // 128) * 128


@pytest.mark.parametrize("kind", KINDS)
@examples(25)
@given(data=st.data(), smem_address=addresses)
def test_the_coordinates_of_every_byte_lead_to_its_global_address(kind, data, smem_address):
    box = data.draw(boxes((kind,)))
    t = tma_load(box.tm, box.at, smem_address=smem_address, **box.options)
    at = t.tensor_coordinates(np.arange(len(t.shared_address)))
    dims, strides = np.array(box.tm.global_dim), np.array(box.tm.global_strides, np.int64)
    inside = ((at >= 0) & (at < dims)).all(-1)
    assert np.array_equal(inside, t.global_address >= 0)
    byte = t.global_address - BASE - (at[:, 1:] * strides).sum(-1)  # from the first of the row
    low = at[:, 0] * box.bits
    assert ((low <= 8 * byte + 7) & (8 * byte < low + box.bits))[inside].all()
    if box.bits == 6:  # the element that holds the byte's lowest bit
        assert np.array_equal(8 * byte[inside] // 6, at[inside, 0])


@pytest.mark.parametrize("kind", STORES)
@examples(40)
@given(data=st.data(), smem_address=addresses)
def test_a_store_takes_every_byte_from_where_the_model_does(kind, data, smem_address):
    box = data.draw(boxes((kind,), is_store=True, data_types=("u8", "u16", "u32", "u64", "bf16", "f32", "16U4_ALIGN8B")))
    t = tma_store(box.tm, box.at, smem_address=smem_address, **box.options)
    wanted = box.model(smem_address, is_store=True)
    assert sorted(zip(t.shared_address.tolist(), t.global_address.tolist(), strict=True)) == sorted(wanted)
    assert t.transaction_bytes == len(box.rows) * box.row_bytes


@pytest.mark.parametrize("kind", KINDS)
@examples(25)
@given(data=st.data(), smem_address=addresses)
def test_loaded_bytes_are_those_of_the_tensor_or_fill_and_all_others_stay(kind, data, smem_address):
    box = data.draw(boxes((kind,)))
    tensor, before = tensor_of(box, minimum=1), np.random.default_rng(2).integers(0, 256, END, np.uint8)
    wanted = before.copy()
    for shared, source in box.model(smem_address):
        wanted[shared] = tensor[source - BASE] if source >= 0 else 0
    kept = before.copy(), tensor.copy()
    for array in (before, tensor):
        array.flags.writeable = False
    after = tma_load_bytes(box.tm, box.at, smem_address=smem_address, shared=before, global_=tensor, **box.options)
    assert np.array_equal(after, wanted)
    assert np.array_equal(before, kept[0])
    assert np.array_equal(tensor, kept[1])


@pytest.mark.parametrize("kind", KINDS)
@examples(25)
@given(data=st.data(), smem_address=addresses)
def test_shared_memory_holds_the_same_bytes_after_a_load(kind, data, smem_address):
    box = data.draw(boxes((kind,)))
    tensor, world, shared = tensor_of(box), GlobalMemory(), SharedMemory("sm_103a")
    world.place(tensor, BASE)
    shared.bytes[:] = 0xAA
    shared.tma_load(box.tm, box.at, smem_address=smem_address, source=world, **box.options)
    wanted = np.full(len(shared.bytes), 0xAA, np.uint8)
    for at, source in box.model(smem_address):
        wanted[at - shared.begin] = tensor[source - BASE] if source >= 0 else 0
    assert np.array_equal(shared.bytes, wanted)


@pytest.mark.parametrize("kind", KINDS)
@examples(15)
@given(data=st.data())
def test_a_prefetch_asks_for_the_bytes_that_a_load_would_take(kind, data):
    box = data.draw(boxes((kind,)))
    asked = tma_prefetch(box.tm, box.at, **box.options)
    assert sorted(asked.tolist()) == sorted(g for _, g in box.model(0) if g >= 0)


# ---- transfers and back ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STORES)
@examples(25)
@given(data=st.data(), smem_address=addresses)
def test_a_store_after_a_load_gives_the_tensor_back(kind, data, smem_address):
    """All bytes of elements are as they were; of a ragged last chunk of 16 bytes the rest is the load's fill."""
    box = data.draw(boxes((kind,), is_store=True, data_types=("u8", "u16", "u64", "f32", "16U4_ALIGN8B")))
    tensor, elsewhere = tensor_of(box), tensor_of(box, seed=3)
    load_options = {k: "tile::gather4" if v == "tile::scatter4" else v for k, v in box.options.items()}
    shared = tma_load_bytes(box.tm, box.at, smem_address=smem_address, shared=np.zeros(END, np.uint8), global_=tensor, **load_options)
    after = tma_store_bytes(box.tm, box.at, smem_address=smem_address, shared=shared, global_=elsewhere, **box.options)
    wanted = elsewhere.copy()
    for _, at in box.model(smem_address, is_store=True):
        wanted[at - BASE] = 0
    for _, at in box.model(smem_address):
        if at >= 0:
            wanted[at - BASE] = tensor[at - BASE]
    assert np.array_equal(after, wanted)


@pytest.mark.parametrize("kind", STORES[:4])
@examples(25)
@given(data=st.data(), smem_address=addresses)
def test_reductions_of_integers_follow_their_algebra(kind, data, smem_address):
    box = data.draw(boxes((kind,), is_store=True, data_types=("u32", "u64")))
    dtype = np.dtype("<u8" if "interleaved" in kind else f"<u{box.bits // 8}")
    tensor, shared = tensor_of(box), np.random.default_rng(4).integers(0, 256, END, np.uint8)

    def reduce(op, memory):
        return tma_reduce(op, box.tm, box.at, smem_address=smem_address, shared=shared, global_=memory, **box.options)

    moved = tma_store_bytes(box.tm, box.at, smem_address=smem_address, shared=shared, global_=np.zeros_like(tensor), **box.options).view(
        dtype
    )
    old = tensor.view(dtype)
    assert np.array_equal(reduce("add", reduce("add", tensor)).view(dtype), old + moved + moved)
    assert np.array_equal(reduce("xor", tensor).view(dtype), old ^ moved)
    assert np.array_equal(reduce("xor", reduce("xor", tensor)), tensor)
    touched = np.isin(np.arange(len(tensor)), [g - BASE for _, g in box.model(smem_address, is_store=True)])
    assert np.array_equal(reduce("or", tensor)[touched], (tensor | moved.view(np.uint8))[touched])
    assert np.array_equal(reduce("and", tensor)[~touched], tensor[~touched])
    assert np.array_equal(
        reduce("min", tensor).view(dtype)[touched.view(bool)[:: dtype.itemsize]], np.minimum(old, moved)[touched[:: dtype.itemsize]]
    )


# ---- the same box in two ways ------------------------------------------------------------------------------------------------------

SIZES = st.tuples(st.integers(1, 7), st.integers(1, 7), st.integers(1, 3))


@examples(40)
@given(sizes=SIZES, steps=st.tuples(st.integers(1, 3), st.integers(1, 3)), channels=st.sampled_from((16, 32)), n=st.integers(0, 3),
       swizzle=st.sampled_from(("none", "32B", "64B", "128B", "128B_ATOM_32B_FLIP_8B")), smem_address=addresses)  # fmt: skip
def test_a_tile_of_whole_images_is_an_im2col_column_of_all_pixels(sizes, steps, channels, n, swizzle, smem_address):
    w, h, _ = sizes
    dims, strides, all_steps = (40, *sizes), (48, 48 * w, 48 * w * h), (1, *steps, 1)
    tile = tiled(swizzle, global_dim=dims, global_strides=strides, box_dim=(channels, w, h, 1), element_strides=all_steps)
    pixels = math.prod(-(-d // s) for d, s in zip((w, h), steps, strict=True))
    columns = TensorMap.im2col(data_type="u8", global_address=BASE, global_dim=dims, global_strides=strides, pixel_box_lower_corner=(0, 0),
                               pixel_box_upper_corner=(0, 0), channels_per_pixel=channels, pixels_per_column=pixels,
                               element_strides=all_steps, swizzle=swizzle)  # fmt: skip
    one, other = (tma_load(tm, (16, 0, 0, n), smem_address=smem_address) for tm in (tile, columns))
    assert np.array_equal(one.shared_address, other.shared_address)
    assert np.array_equal(one.global_address, other.global_address)


@examples(40)
@given(dims=st.tuples(*[st.integers(1, 6)] * 4), steps=st.tuples(*[st.integers(1, 2)] * 4), size=st.sampled_from((16, 32)),
       at=st.tuples(*[st.integers(-2, 6)] * 4), swizzled=st.booleans(), smem_address=addresses)  # fmt: skip
def test_slices_are_an_inner_dimension_of_bytes(dims, steps, size, at, swizzled, smem_address):
    """Rows of slices are dense, so that with a swizzle this holds where a slice is as wide as the swizzle."""
    swizzle = "32B" if swizzled and size == 32 else "none"
    strides = [size * math.prod(dims[:i]) for i in range(5)]
    box = (4, 3, 2, 2)
    slices = TensorMap.tiled(data_type="u64", global_address=BASE, global_dim=dims, global_strides=strides[1:4], box_dim=box,
                             element_strides=steps, interleave=f"{size}B", swizzle=swizzle)  # fmt: skip
    plain = TensorMap.tiled(data_type="u8", global_address=BASE, global_dim=(size, *dims), global_strides=strides[:4],
                            box_dim=(size, *box[:2], 1, box[3]), element_strides=(1, *steps), swizzle=swizzle)  # fmt: skip
    one, other = tma_load(slices, at, smem_address=smem_address), tma_load(plain, (0, *at), smem_address=smem_address)
    assert np.array_equal(one.shared_address, other.shared_address)
    assert np.array_equal(one.global_address, other.global_address)


@pytest.mark.parametrize(("size", "step"), [(16, 2), (16, 3), (32, 2), (32, 8)])
def test_slices_an_element_stride_apart_fill_whole_lines(size, step):
    count = 128 // size
    tm = TensorMap.tiled(data_type="u64", global_address=BASE, global_dim=(32, 2, 2), global_strides=(32 * size, 64 * size),
                         box_dim=(count * step, 2, 1), element_strides=(step, 1, 1), interleave=f"{size}B")  # fmt: skip
    tensor, world, shared = np.random.default_rng(8).integers(0, 256, (4, 32, size), np.uint8), GlobalMemory(), SharedMemory()
    world.place(tensor, BASE)
    shared.tma_load(tm, (0, 0, 0), smem_address=0x400, source=world)
    assert np.array_equal(shared.bytes[:128], tensor[0, : count * step : step].ravel())
