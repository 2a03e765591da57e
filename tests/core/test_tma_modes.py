"""Modes of tensor transfers against tables, worked examples and figures of the documents: placement, im2col, gather,
far rows.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxes import BASE, CELLS, WIDTH, im2col, image, place, tiled, wide
from smemsim import GlobalMemory, HardwareTrap, InputError, SharedMemory, Unmodelled, tma_load, tma_load_bytes, tma_store, tma_store_bytes
from strategies import examples

# ---- placement, by the tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swizzle", CELLS)
def test_every_16_bytes_lie_in_the_cell_that_the_ptx_isa_draws(swizzle):
    row = WIDTH[swizzle] or 128
    t = tma_load(tiled(swizzle, global_dim=(row, 64), box_dim=(row, 64)), (0, 0), smem_address=2048)
    found = image(t)
    flips = swizzle.endswith("FLIP_8B")
    for line in range(64 * row // 128):
        cells = CELLS[swizzle][line % len(CELLS[swizzle])]
        for x, cell in enumerate(cells):
            at = 2048 + 128 * line + 16 * x
            halves = [found[at], found[at + 8]]
            chunk = 128 * line + 16 * int(cell)
            assert halves == ([chunk + 8, chunk] if flips and line % 2 else [chunk, chunk + 8])
            assert [found[at + b] for b in range(8)] == list(range(halves[0], halves[0] + 8))


@pytest.mark.parametrize(
    ("swizzle", "row", "byte", "at"),
    [
        ("32B", 4, 0, 144),
        ("96B", 1, 0, 96),
        ("96B", 1, 32, 144),
        ("96B", 1, 48, 128),
        ("128B", 1, 16, 128),
        ("128B_ATOM_32B_FLIP_8B", 1, 0, 168),
        ("128B_ATOM_32B", 1, 0, 160),
        ("128B_ATOM_64B", 1, 0, 192),
        *[("64B", r, 0, at) for r, at in enumerate((0, 64, 144, 208, 288, 352, 432, 496, 512, 576, 656, 720, 800, 864, 944, 1008))],
        *[("32B", r, 0, at) for r, at in enumerate((0, 32, 64, 96, 144, 176, 208, 240, 256, 288, 320, 352, 400, 432, 464, 496))],
    ],
)
def test_single_bytes_lie_where_the_formulas_say(swizzle, row, byte, at):
    width = WIDTH[swizzle]
    t = tma_load(tiled(swizzle, global_dim=(width, 16), box_dim=(width, 16)), (0, 0), smem_address=2048)
    assert image(t)[2048 + at] == row * width + byte


def test_rows_of_16_bytes_lie_a_swizzle_width_apart():
    for swizzle, shift, group in (("32B", 2, 2), ("64B", 1, 4), ("128B", 0, 8)):
        t = tma_load(tiled(swizzle, global_dim=(16, 32), box_dim=(16, 32)), (0, 0), smem_address=1024)
        wanted = {1024 + r * WIDTH[swizzle] + 16 * ((r >> shift) % group): 16 * r for r in range(32)}
        assert {a: g for a, g in image(t).items() if a % 16 == 0} == wanted


def test_a_128_x_64_f16_tile_lies_as_llvms_sm_90_test_prints_it():
    tm = tiled("128B", data_type="f16", global_dim=(64, 128), global_strides=(128,), box_dim=(64, 128))
    found = image(tma_load(tm, (0, 0), smem_address=1024))
    chunks = [[found[1024 + 128 * r + 16 * x] // 16 for x in range(8)] for r in (1, 2, 3)]
    assert chunks == [[9, 8, 11, 10, 13, 12, 15, 14], [18, 19, 16, 17, 22, 23, 20, 21], [27, 26, 25, 24, 31, 30, 29, 28]]


def test_the_cuda_guides_transpose_of_int4_finds_element_i_j_at_chunk_i_mod_8_xor_j():
    tm = tiled("128B", data_type="INT32", global_dim=(32, 8), global_strides=(128,), box_dim=(32, 8))
    data = np.random.default_rng(4).integers(0, 256, 1024, np.uint8)
    after = tma_load_bytes(tm, (0, 0), smem_address=1024, shared=np.zeros(2048, np.uint8), global_=data)
    i, j = np.indices((8, 8))
    assert np.array_equal(after[1024:].reshape(8, 8, 16)[i, i % 8 ^ j], data.reshape(8, 8, 16))
    back = tma_store_bytes(tm, (0, 0), smem_address=1024, shared=after, global_=np.zeros(1024, np.uint8))
    assert np.array_equal(back, data)
    assert tma_load(tm, (0, 0), smem_address=1024).transaction_bytes == 1024


@pytest.mark.parametrize(("data_type", "size"), [("u8", 1), ("f16", 2), ("f32", 4)])
@pytest.mark.parametrize(("swizzle", "bits"), [("32B", 1), ("64B", 2), ("128B", 3)])
def test_rows_of_a_swizzle_width_are_swizzled_as_the_tvm_tests_on_hopper_found_them(data_type, size, swizzle, bits):
    inner = WIDTH[swizzle] // size
    tm = tiled(swizzle, data_type=data_type, global_dim=(inner, 64), global_strides=(WIDTH[swizzle],), box_dim=(inner, 64))
    found = image(tma_load(tm, (0, 0), smem_address=1024))
    linear = np.arange(64 * WIDTH[swizzle])
    assert found == dict(zip((1024 + (linear ^ (linear >> 7 & (1 << bits) - 1) << 4)).tolist(), linear.tolist(), strict=True))


def test_element_strides_shrink_the_tile_but_not_along_dimension_0():
    tm = tiled(data_type="u8", global_dim=(16, 9), box_dim=(16, 5), element_strides=(7, 2))
    t = tma_load(tm, (0, 0), smem_address=1024)
    assert (t.tile_shape, t.transaction_bytes) == ((16, 3), 48)
    assert [image(t)[1024 + 16 * r] for r in range(3)] == [0, 32, 64]


# ---- im2col, by the documents' examples --------------------------------------------------------------------------------------------


def pixels(transfer):
    """(W, H, …, N) of every pixel, in the order of its row in shared memory."""
    at = transfer.tensor_coordinates(np.arange(len(transfer.lines)) * transfer.geometry.row_bytes)
    return [tuple(row[1:]) for row in at.tolist()]


def test_im2col_takes_the_filters_pixels_of_a_4_x_3_image_row_by_row():
    tm = im2col((16, 4, 3, 2), lower=(0, 0), upper=(-1, -1), channels=16, count=8)
    t = tma_load(tm, (0, 0, 0, 0), smem_address=1024, im2col_offsets=(1, 1))
    assert pixels(t) == [(1, 1, 0), (2, 1, 0), (3, 1, 0), (1, 2, 0), (2, 2, 0), (3, 2, 0), (1, 1, 1), (2, 1, 1)]
    assert [image(t)[1024 + 16 * p] for p in range(8)] == [16 * (w + 4 * h + 12 * n) for w, h, n in pixels(t)]
    with pytest.raises(HardwareTrap, match="coordinates\\[1\\] = 3"):
        tma_load(tm, (0, 3, 0, 0), smem_address=1024)


def test_the_ptx_isas_first_im2col_example_is_one_pixel_and_seven_rows_of_nine():
    tm = im2col((64, 9, 14, 64), lower=(-1, -1), upper=(-1, -1), channels=16, count=64)
    wanted = [(7, 4, 0), *[(w, h, 0) for h in range(5, 12) for w in range(-1, 8)]]
    t = tma_load(tm, (0, 7, 4, 0), smem_address=1024)
    assert pixels(t) == wanted
    assert [p for p, (w, *_) in enumerate(wanted) if w < 0] == [p for p in range(64) if image(t)[1024 + 16 * p] == -1]


@pytest.mark.parametrize(
    ("dims", "lower", "upper", "steps", "at"),
    [
        ((64, 9, 14, 64), (0, 0), (-2, -2), None, (0, 7, 4, 0)),
        ((64, 8, 14, 64), (-1, -1), (-1, -1), (1, 2, 2, 1), (0, 7, 5, 0)),
    ],
)
def test_the_ptx_isas_examples_that_start_outside_their_pixel_box_trap(dims, lower, upper, steps, at):
    tm = im2col(dims, lower=lower, upper=upper, channels=16, count=32, steps=steps)
    with pytest.raises(HardwareTrap, match=r"coordinates\[1\] = 7.* inside the pixel box"):
        tma_load(tm, at, smem_address=1024)


def test_im2col_w_goes_on_from_w_to_the_next_image_and_its_halo_follows_the_last_pixel():
    """PTX ISA 9.1 §5.5.5.1, sizes 128 x 9 x 7 x 64, wHalo 2: H stays where it is."""
    t = tma_load(wide((128, 9, 7, 64), lower=0, upper=0), (0, 2, 3, 0), smem_address=1024, im2col_offsets=(2, 0))
    walk = [(w, 3, n) for n in range(16) for w in range(9)][2:]
    assert pixels(t) == walk[:130]
    assert t.transaction_bytes == 130 * 128


@pytest.mark.parametrize(("halo", "moved"), [(1, 0), (0, 1), (0, 2)])
def test_w_offset_moves_the_pixel_box_and_the_start(halo, moved):
    """PTX ISA 9.1 §5.5.5.1, sizes 128 x 9 x 67 x 64, element stride 2, corners -1 and 0, H = -1 outside the tensor."""
    tm = wide((128, 9, 67, 64), lower=-1, upper=0, steps=(1, 2, 2, 1), count=16)
    t = tma_load(tm, (0, -1, -1, 0), smem_address=1024, im2col_offsets=(halo, moved))
    assert pixels(t) == [(w + moved, -1, n) for n in range(8) for w in range(-1, 9, 2)][: 16 + halo]
    assert set(image(t).values()) == {-1}


def test_im2col_w_128_takes_its_halo_after_every_32_pixels():
    """PTX ISA 9.1 §5.5.5.2: the halo does not use up the walk, pixels_per_column does not count."""
    tm = wide((64, 11, 3, 40), lower=0, upper=-1, mode="W128", count=7)
    walk = [(w, 1, n) for n in range(40) for w in range(10)][4:]
    wanted = [p for i in range(0, 128, 32) for p in walk[i : i + 32 + 3]]
    t = tma_load(tm, (0, 4, 1, 0), smem_address=1024, im2col_offsets=(3, 0))
    assert pixels(t) == wanted
    assert t.transaction_bytes == len(wanted) * 128
    assert pixels(tma_load(tm, (0, 4, 1, 0), smem_address=1024)) == walk[:128]


@pytest.mark.parametrize(
    ("mode", "offsets"), [("im2col::w", (512, 0)), ("im2col::w", (0, 32)), ("im2col::w::128", (32, 0)), ("im2col::w", (1,))]
)
def test_halo_and_offset_have_the_ranges_of_the_instruction(mode, offsets):
    tm = wide((64, 11, 3, 40), lower=0, upper=0, mode="W128" if mode.endswith("128") else "W", count=8)
    with pytest.raises(InputError, match="im2col_offsets"):
        tma_load(tm, (0, 0, 0, 0), smem_address=1024, im2col_offsets=offsets)


# ---- gather and scatter ------------------------------------------------------------------------------------------------------------

ROWS = st.lists(st.integers(-3, 18), min_size=4, max_size=4)


@examples(40)
@given(rows=ROWS, column=st.sampled_from((-128, -64, 0, 64, 128)), swizzle=st.sampled_from([s for s in CELLS if WIDTH[s] in (0, 128)]))
def test_gather4_stacks_four_rows_that_the_instruction_names(rows, column, swizzle):
    tm = tiled(swizzle, global_dim=(128, 16), box_dim=(128, 1))
    t = tma_load(tm, (column, *rows), smem_address=1152, mode="tile::gather4", arch="sm_100a")
    inside = [[0 <= r < 16 and 0 <= column + b < 128 for b in range(128)] for r in rows]
    wanted = {
        place(1152 + 128 * i + b, swizzle): 128 * r + column + b if inside[i][b] else -1 for i, r in enumerate(rows) for b in range(128)
    }
    assert image(t) == wanted
    assert t.transaction_bytes == 4 * 128
    if min(column, *rows) >= 0 and "FLIP" not in swizzle:
        s = tma_store(tm, (column, *rows), smem_address=1152, mode="tile::scatter4", arch="sm_100a")
        assert image(s) == {a: g for a, g in wanted.items() if g >= 0}


def test_gather4_wants_a_plain_two_dimensional_map_with_boxes_of_one_row():
    for tm in (tiled(box_dim=(128, 4)), tiled(global_dim=(128, 16, 2), global_strides=(128, 2048), box_dim=(128, 1, 1))):
        with pytest.raises(HardwareTrap, match=r"gather4 needs|needs 1"):
            tma_load(tm, (0, 0, 1, 2, 3), smem_address=1024, mode="tile::gather4")


@pytest.mark.parametrize("at", [(0,), (0, 0), (0, 1, 2, 3), (0, 1, 2, 3, 4, 5)])
def test_gather4_of_another_number_of_coordinates_is_no_instruction(at):
    with pytest.raises(InputError, match="the column and four rows"):
        tma_load(tiled(box_dim=(128, 1)), at, smem_address=1024, mode="tile::gather4")


# ---- the edges of global memory ----------------------------------------------------------------------------------------------------


def test_a_box_beyond_the_tensor_is_fill_however_far_its_strides_reach():
    """Strides are below 2^40 and dimensions up to 2^31: only bytes in bounds have addresses."""
    tm = tiled(global_dim=(128, 1 << 30), global_strides=((1 << 40) - 16,))
    for row in (1 << 30, (1 << 31) - 8, -8, -(1 << 31)):
        t = tma_load(tm, (0, row), smem_address=1024)
        assert (t.global_address == -1).all()
        assert t.transaction_bytes == 8 * 128
    with pytest.raises(HardwareTrap) as trap:
        tma_load(tm, (0, (1 << 30) - 1), smem_address=1024)
    assert trap.value.cuda_error == 700


@pytest.mark.parametrize(("mode", "rows"), [("tile::gather4", (0, 1, 1 << 30, -1)), ("tile::scatter4", (0, 1, 1 << 30, (1 << 31) - 1))])
def test_rows_beyond_the_tensor_have_no_address_in_a_gather_either(mode, rows):
    tm = tiled(global_dim=(128, 1 << 30), global_strides=((1 << 40) - 16,), box_dim=(128, 1))
    t = (tma_load if mode.endswith("gather4") else tma_store)(tm, (0, *rows), smem_address=1024, mode=mode)
    inside = [a for a in t.global_address.tolist() if a >= 0]
    assert inside == [*range(BASE, BASE + 128), *range(BASE + (1 << 40) - 16, BASE + (1 << 40) + 112)]


@pytest.mark.parametrize(
    ("tm", "at", "mode"),
    [
        (tiled(global_dim=(128, 16), box_dim=(128, 1)), (0, 3, 5, 3, 7), "tile::scatter4"),
        (tiled(global_dim=(128, 16), global_strides=(0,), box_dim=(128, 2)), (0, 0), "tile"),
        (tiled(global_dim=(128, 16), global_strides=(64,), box_dim=(128, 2)), (0, 0), "tile"),
    ],
    ids=["a row named twice", "stride 0", "stride below the row"],
)
def test_no_document_says_which_of_two_stored_bytes_stays(tm, at, mode):
    shared = np.random.default_rng(10).integers(0, 256, 2048, np.uint8)
    with pytest.raises(Unmodelled, match=r"overlap|order|twice"):
        tma_store_bytes(tm, at, smem_address=1024, mode=mode, shared=shared, global_=np.zeros(4096, np.uint8))
    window, world = SharedMemory("sm_100a"), GlobalMemory()
    window.bytes[:2048] = shared
    world.place(np.zeros(4096, np.uint8), BASE)
    with pytest.raises(Unmodelled, match=r"overlap|order|twice"):
        window.tma_store(tm, at, smem_address=1024, mode=mode, to=world)


def test_a_column_beyond_the_tensor_has_no_address_either():
    tm = tiled(global_dim=(128, 1 << 30), global_strides=((1 << 40) - 16,))
    assert (tma_load(tm, (128, 1 << 29), smem_address=1024).global_address == -1).all()
