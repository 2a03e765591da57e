"""What documents print about the TMA swizzle: the CUDA guide's swizzle section, the PTX ISA's line tables, published
chunk orders.

Box rows are 32, 64 or 128 bytes wide; a *line* is 128 bytes of shared memory. A cell is a 16-byte chunk.
"""

import itertools

import numpy as np
import pytest

from hand import FUNCTORS, WIDTHS
from smemsim import GlobalMemory, HardwareTrap, SharedMemory, Swizzle, TensorMap, TensorMapError, tma_load
from smemsim.core.layout.swizzle import guide_chunk, swizzle
from smemsim.core.spec.swizzles import MODES
from smemsim.core.spec.tensor_map import LIMITS

MODULUS = {"128B": 8, "64B": 4, "32B": 2}  # of the guide's Table 11
# fmt: off
# The guide's Table 12: swizzle width (also the largest inner box), repeats after, alignment in shared memory.
TABLE_12 = {"128B": (128, 1024, 128), "64B": (64, 512, 128), "32B": (32, 256, 128)}
# The PTX ISA's tables: cell x of line l holds logical chunk LINES[mode][l][x] of that line.
LINES = {
    "32B":  ["01234567", "10325476"],
    "64B":  ["01234567", "10325476", "23016745", "32107654"],
    "128B": ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"],
    "128B_ATOM_32B": ["01234567", "23016745", "45670123", "67452301"],
}
# Where the first byte of rows 0 … 15 of a box at address 0 goes.
ROW_STARTS = {
    "32B":  [0, 32, 64, 96, 144, 176, 208, 240, 256, 288, 320, 352, 400, 432, 464, 496],
    "64B":  [0, 64, 144, 208, 288, 352, 432, 496, 512, 576, 656, 720, 800, 864, 944, 1008],
    "128B": [0, 144, 288, 432, 576, 720, 864, 1008, 1024, 1168, 1312, 1456, 1600, 1744, 1888, 2032],
}
# fmt: on


def swizzled(mode, address):
    row = MODES[Swizzle(mode)]
    return swizzle(address, 0, row.mask, row.shift)


def byte_map(mode, rows, *, inner=None, **more):
    """A map of bytes whose box is `rows` rows of the swizzle's width, or of `inner` bytes."""
    inner = inner or WIDTHS[mode]
    dims = {"global_dim": (256, 256), "global_strides": (256,), "box_dim": (inner, rows)}
    return TensorMap.tiled(**{"data_type": "u8", "global_address": 0x10000, "swizzle": mode} | dims | more)


def box_chunks(mode, rows, smem_address, **more):
    """Shared addresses of a box's chunks as TMA writes them, (rows, chunks in a row)."""
    return tma_load(byte_map(mode, rows, **more), (0, 0), smem_address=smem_address).chunk_shared.reshape(rows, -1).astype(np.int64)


@pytest.mark.parametrize("mode", MODULUS)
def test_the_guides_index_relation_is_the_xor_when_y_counts_128_byte_lines(mode):
    for pointer in range(0, 0x39000, 128):
        for y, x in itertools.product(range(9), range(8)):
            assert swizzled(mode, pointer + 128 * y + 16 * x) == pointer + 128 * y + 16 * guide_chunk(y, x, pointer, MODULUS[mode])


@pytest.mark.parametrize("pointer", range(0, 1024, 128))
@pytest.mark.parametrize("mode", MODULUS)
def test_tma_writes_where_the_guides_relation_says_when_y_counts_lines(mode, pointer):
    cells = (box_chunks(mode, 64, 0x2000 + pointer) - 0x2000 - pointer).ravel() // 16
    for n, cell in enumerate(cells.tolist()):
        assert divmod(cell, 8) == (n // 8, guide_chunk(n // 8, n % 8, pointer, MODULUS[mode]))


@pytest.mark.parametrize(("mode", "wrong", "cells"), [("128B", 0, 256), ("64B", 96, 128), ("32B", 32, 64)])
def test_with_y_as_the_box_row_the_guides_relation_is_wrong_for_narrow_swizzles(mode, wrong, cells):
    width, modulus, rows = WIDTHS[mode], MODULUS[mode], 32
    inside_row = (box_chunks(mode, rows, 0x2000) - 0x2000 - width * np.arange(rows)[:, None]) // 16
    y, x = np.indices((rows, width // 16))
    assert inside_row.size == cells
    assert np.count_nonzero(inside_row != (y % modulus) ^ x) == wrong
    # The row's key is that of its line: 1, 2 or 4 rows share one.
    np.testing.assert_array_equal(inside_row, (y * width // 128 % modulus) ^ x)


@pytest.mark.parametrize("mode", FUNCTORS)
def test_every_swizzle_is_cutes_functor_on_the_byte_address(mode):
    functor = FUNCTORS[mode]
    assert MODES[Swizzle(mode)].cute == f"Swizzle<{functor.bits},{functor.base},{functor.shift}>"
    for address in range(0, 4096, 8):
        assert swizzled(mode, address) == functor(address)
        assert swizzled(mode, swizzled(mode, address)) == address


@pytest.mark.parametrize("mode", TABLE_12)
def test_table_12_gives_the_width_and_the_period(mode):
    width, repeats, alignment = TABLE_12[mode]
    row = MODES[Swizzle(mode)]
    assert (row.width, row.period) == (width, repeats)
    assert LIMITS.smem_alignment == alignment
    moves = [swizzled(mode, a) - a for a in range(0, 4096, 16)]
    periods = [p for p in range(16, 2048, 16) if moves[p // 16 :] == moves[: -p // 16]]
    assert periods[0] == repeats


@pytest.mark.parametrize("mode", TABLE_12)
def test_an_inner_box_wider_than_the_swizzle_is_refused(mode):
    width = TABLE_12[mode][0]
    byte_map(mode, 8, inner=width)
    with pytest.raises(TensorMapError, match=f"at most {width} B"):
        byte_map(mode, 8, inner=width + 16)


@pytest.mark.parametrize("mode", [*TABLE_12, "none"])
def test_the_shared_address_needs_128_bytes_in_every_mode(mode):
    tm = byte_map(mode, 8, inner=32)
    for aligned in (1024, 1152, 1280):
        tma_load(tm, (0, 0), smem_address=aligned)
    for offset in (16, 32, 64):
        with pytest.raises(HardwareTrap) as trap:
            tma_load(tm, (0, 0), smem_address=1024 + offset)
        assert trap.value.cuda_error == 716


@pytest.mark.parametrize("mode", TABLE_12)
def test_16_byte_global_alignment_is_enough_although_table_12_asks_for_128(mode):
    """Measured: the driver accepts and the transfers are exact; the guide's 128 B is advice."""
    tm = byte_map(mode, 8, global_address=0x10010, global_strides=(272,))
    transfer = tma_load(tm, (16, 1), smem_address=1024)
    assert int(transfer.chunk_global[0]) == 0x10010 + 272 + 16
    with pytest.raises(TensorMapError, match="global_address"):
        byte_map(mode, 8, global_address=0x10008)


@pytest.mark.parametrize("mode", LINES)
def test_the_line_tables_of_the_ptx_isa_hold_for_the_xor(mode):
    for line, cells in enumerate(LINES[mode] * 2):
        for x, chunk in enumerate(cells):
            assert swizzled(mode, 0x4000 + 128 * line + 16 * int(chunk)) == 0x4000 + 128 * line + 16 * x


@pytest.mark.parametrize("mode", LINES)
def test_tma_fills_the_lines_as_the_tables_of_the_ptx_isa_show(mode):
    table = LINES[mode] * 2
    chunks = box_chunks(mode, 128 * len(table) // WIDTHS[mode], 0x2000).ravel()
    held = np.empty(8 * len(table), int)
    held[(chunks - 0x2000) // 16] = np.arange(len(chunks))
    assert held.tolist() == [8 * line + int(chunk) for line, cells in enumerate(table) for chunk in cells]


@pytest.mark.parametrize("inner", [16, None], ids=["one_chunk", "full_width"])
@pytest.mark.parametrize("mode", ROW_STARTS)
def test_box_rows_lie_the_swizzle_width_apart_however_narrow_the_box(mode, inner):
    starts = box_chunks(mode, 16, 0x2000, inner=inner)[:, 0] - 0x2000
    assert starts.tolist() == ROW_STARTS[mode]
    assert [swizzled(mode, WIDTHS[mode] * row) for row in range(16)] == ROW_STARTS[mode]
    # Rows packed at the box's own 16 bytes would begin so; a load of an H200 never did.
    assert starts.tolist() != [0, 16, 32, 48, 64, 80, 96, 112, 144, 128, 176, 160, 208, 192, 240, 224]


def test_row_1_chunk_1_of_a_128_byte_row_is_where_row_1_begins_unswizzled():
    assert swizzled("128B", 128 + 16) == 128
    assert box_chunks("128B", 2, 0x2000)[1, 1] == 0x2000 + 128


def test_without_swizzle_box_rows_are_packed():
    assert (box_chunks("none", 4, 0x2000, inner=48) - 0x2000).tolist() == [[48 * row + 16 * x for x in range(3)] for row in range(4)]


def test_chunks_of_a_128x64_f16_tile_stand_in_shared_memory_as_compiled_kernels_read_them():
    tm = TensorMap.tiled(
        data_type="f16", global_address=0x10000, global_dim=(64, 128), global_strides=(128,), box_dim=(64, 128), swizzle="128B"
    )
    chunks = tma_load(tm, (0, 0), smem_address=1024).chunk_shared
    held = np.argsort(chunks).reshape(128, 8)
    assert held[1].tolist() == [9, 8, 11, 10, 13, 12, 15, 14]
    assert held[2].tolist() == [18, 19, 16, 17, 22, 23, 20, 21]
    assert held[3].tolist() == [27, 26, 25, 24, 31, 30, 29, 28]


def test_the_guides_transpose_example_finds_element_i_j_at_i_mod_8_xor_j():
    values = np.arange(8 * 32, dtype=np.int32).reshape(8, 32)
    world, shared = GlobalMemory(), SharedMemory()
    source, back = world.place(values), world.place(np.zeros_like(values))
    load, store = (
        TensorMap.tiled(
            data_type="s32", global_address=a, global_dim=(32, 8), global_strides=(128,), box_dim=(32, 8), swizzle="128B", arch="sm_90a"
        )
        for a in (source, back)
    )
    assert shared.tma_load(load, (0, 0), smem_address=1024, source=world).transaction_bytes == 8 * 8 * 16
    smem = shared.bytes[1024 - shared.begin :][:1024].view(np.int32).reshape(8, 8, 4)
    for i, j in itertools.product(range(8), range(8)):
        assert smem[i, i % 8 ^ j].tolist() == values[i, 4 * j : 4 * j + 4].tolist()
    shared.tma_store(store, (0, 0), smem_address=1024, to=world)  # undoes the swizzle
    assert world.region(back)[1].tobytes() == values.tobytes()
