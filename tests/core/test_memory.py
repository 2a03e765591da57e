"""Memory with owners: what each shared byte is, what an operand read, and where reading faults."""

import itertools
import mmap
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smemsim import GlobalMemory, HardwareTrap, InputError, SharedMemory, SmemDescriptor, TensorMap, Unmodelled, operand_addresses
from smemsim.core.machine import ThreadWrite
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.launches import LOCAL_WINDOW, SHARED_WINDOW
from smemsim.core.spec.swizzles import MODES, Swizzle
from strategies import CLASSIC, descriptors, examples

BEGIN, END = 0x400, 0x39000
TILE = {"arch": "sm_90a", "dtype": "bf16", "major": "K", "rows": 64, "k": 16}


def matrix_map(base, rows, columns, **changes):
    arguments = {
        "data_type": "u16",
        "global_address": base,
        "global_dim": (columns, rows),
        "global_strides": (2 * columns,),
        "box_dim": (64, 64),
        "swizzle": "128B",
    }
    return TensorMap.tiled(**arguments | changes)


@pytest.fixture
def loaded():
    """64 x 64 16-bit elements from row 8, column 64 of a 128 x 256 matrix of their own indices, at 0x800 under 128B
    swizzle.
    """
    world, shared = GlobalMemory(), SharedMemory()
    base = world.place(np.arange(128 * 256, dtype=np.uint16).reshape(128, 256))
    transfer = shared.tma_load(matrix_map(base, 128, 256), (64, 8), smem_address=0x800, source=world)
    return shared, transfer


# ---- global memory -----------------------------------------------------------------------------------------------------------------


def test_arrays_lie_apart_at_256_byte_boundaries_and_are_copies():
    world = GlobalMemory()
    array = np.arange(1000, dtype=np.uint8)
    addresses = [world.place(array) for _ in range(5)]
    assert all(address % 256 == 0 for address in addresses)
    assert all(b - a >= 1000 for a, b in itertools.pairwise(addresses))
    array[:] = 0
    begin, data = world.region(addresses[2] + 999)
    assert begin == addresses[2]
    assert data[:256].tolist() == list(range(256))


@pytest.mark.parametrize(
    ("at", "size", "fits"),
    [(0xF0, 16, True), (0xF0, 17, False), (0x100, 1, False), (0x13F, 1, False), (0x140, 16, True), (0x80, 0x200, False)],
)
def test_arrays_never_overlap(at, size, fits):
    world = GlobalMemory()
    world.place(np.zeros(64, np.uint8), 0x100)
    if fits:
        assert world.place(np.zeros(size, np.uint8), at) == at
    else:
        with pytest.raises(InputError, match=f"global address {at:#x}: {size} bytes there would overlap the array at 0x100"):
            world.place(np.zeros(size, np.uint8), at)


def test_bytes_of_any_array_are_placed_in_c_order():
    world = GlobalMemory()
    at = world.place(np.arange(6, dtype="<u2").reshape(2, 3).T)
    assert world.region(at)[1].view("<u2").tolist() == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize("address", [0xFF, 0x140])
def test_between_the_arrays_is_nothing(address):
    world = GlobalMemory()
    world.place(np.zeros(64, np.uint8), 0x100)
    with pytest.raises(InputError, match=f"global address {address:#x}: nothing was placed there"):
        world.region(address)


def test_an_address_where_nothing_lies_names_the_array_that_is_nearest():
    world = GlobalMemory()
    with pytest.raises(InputError, match="nothing was placed there; this memory holds no array"):
        world.region(0x100)
    world.place(np.zeros(64, np.uint8), 0x1000, name="A")
    world.place(np.zeros(64, np.uint8), 0x2000)
    for address, said in (
        (0xFF0, "16 bytes before array A at 0x1000 (64 B)"),
        (0x1048, "it is 8 bytes past the end of array A at 0x1000 (64 B)"),
        (0x1FFF, "1 bytes before the array at 0x2000 (64 B)"),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            world.region(address)
    with pytest.raises(InputError, match=re.escape("0x1004: no array begins there; it is 4 bytes inside array A at 0x1000 (64 B)")):
        world.free(0x1004)


@pytest.mark.parametrize(
    "make", [bytearray, lambda n: mmap.mmap(-1, n), lambda n: np.zeros(n // 8, np.float64), lambda n: np.zeros((n // 16, 16), np.uint8)]
)
def test_memory_of_the_host_is_bound_without_a_copy(make):
    """Writes on either side are seen on the other, and after `free` nothing lies there."""
    world, held = GlobalMemory(), make(4096)
    at = world.bind(held, name="A")
    host = np.frombuffer(held, np.uint8)
    world.span(at + 7, 3)[:] = 5
    assert np.flatnonzero(host).tolist() == [7, 8, 9]
    host[4000] = 9
    assert world.region(at)[1][4000] == 9
    assert world.find(at).words.view(np.uint8)[at + 4000 - world.find(at).words_begin] == 9
    world.free(at)
    assert not world.holds(at)


@given(st.integers(0, 40), st.integers(1, 60))
def test_a_part_of_an_array_is_bound_where_its_alignment_allows(offset, size):
    world, held = GlobalMemory(), np.zeros(128, np.uint8)
    part = held[offset : offset + size]
    shift = part.ctypes.data % 16
    assert world.bind(part, 0x10000 + shift) == 0x10000 + shift
    assert world.bind(part) % 16 == shift
    region = world.find(0x10000 + shift)
    region.words.view(np.uint8)[region.begin - region.words_begin :][:size] = 3
    assert (held == 3).sum() == size == (part == 3).sum()
    with pytest.raises(InputError, match=f"the array begins {shift} bytes after a multiple of 16"):
        world.bind(part, 0x20000 + shift + 1)


def test_what_cannot_be_bound_is_a_sentence():
    for wrong, said in (
        (b"abc", "read-only"), (np.zeros((4, 4))[:, ::2], "needs a contiguous array"), ("abc", "needs a contiguous array"), (None, "needs a contiguous array"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            GlobalMemory().bind(wrong)


def test_freed_addresses_are_taken_again_only_when_no_others_are_left(monkeypatch):
    monkeypatch.setattr("smemsim.core.machine.global_memory.LAST_ADDRESS", 0x7F00_0000_0000 + 4 * (1 << 20))
    world, array = GlobalMemory(), np.zeros(256, np.uint8)
    addresses = [world.place(array) for _ in range(3)]
    world.free(addresses[1])
    later = world.place(array)
    assert later > addresses[2]
    assert world.place(array) == addresses[1], "there is no room behind the last one"
    with pytest.raises(InputError, match="no addresses left"):
        world.place(array)
    assert sorted(r.begin for r in world.table()[2]) == [addresses[0], addresses[1], addresses[2], later]


@pytest.mark.parametrize("space", ["shared", "local"])
def test_nothing_lies_in_the_windows_of_other_spaces(space):
    begin = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}[space]
    for at in (begin - 1, begin + 64, begin + (1 << 32) - 1):
        with pytest.raises(InputError, match=f"in the window of .{space} memory"):
            GlobalMemory().place(np.zeros(2, np.uint8), at)
    assert GlobalMemory().place(np.zeros(2, np.uint8), begin - 2) == begin - 2
    assert GlobalMemory().place(np.zeros(2, np.uint8), begin + (1 << 32)) == begin + (1 << 32)


def test_a_transfer_whose_tensor_is_not_there_says_what_it_needs():
    world, shared = GlobalMemory(), SharedMemory()
    base = world.place(np.zeros(128 * 64, np.uint16))
    with pytest.raises(InputError, match=r"covers global .* the box needs .*; check global_address and strides"):
        shared.tma_load(matrix_map(base, 128, 128), (0, 32), smem_address=0x800, source=world)
    with pytest.raises(InputError, match="nothing was placed there"):
        shared.tma_load(matrix_map(0x1000, 128, 128), (0, 64), smem_address=0x800, source=world)
    assert not shared.writers
    assert shared.owner(0x800) is None


# ---- owners ------------------------------------------------------------------------------------------------------------------------


def test_untouched_bytes_have_no_owner(loaded):
    shared, _ = loaded
    assert shared.owner(0x7FF) is None
    assert shared.owner(0x800 + 64 * 128) is None


def test_threads_take_over_the_bytes_they_write_and_only_those(loaded):
    shared, transfer = loaded
    shared.write(0x803, b"\xaa\xbb\xcc", "epilogue")
    write = shared.writers[-1]
    assert write == ThreadWrite(0x803, 3, "epilogue")
    assert [shared.owner(a) for a in (0x803, 0x804, 0x805)] == [(write, (0,)), (write, (1,)), (write, (2,))]
    assert shared.owner(0x802) == (transfer, (65, 8))
    assert shared.owner(0x806) == (transfer, (67, 8))
    assert shared.bytes[0x803 - BEGIN : 0x806 - BEGIN].tobytes() == b"\xaa\xbb\xcc"


def test_the_last_load_owns_the_byte(loaded):
    shared, first = loaded
    world = GlobalMemory()
    base = world.place(np.zeros((64, 64), np.uint16))
    second = shared.tma_load(matrix_map(base, 64, 64, box_dim=(64, 8)), (0, 0), smem_address=0x800, source=world)
    assert shared.owner(0x800) == (second, (0, 0))
    assert shared.owner(0x800 + 1024) == (first, (64, 16))


def test_a_load_that_fails_changes_nothing(loaded):
    shared, _ = loaded
    before = shared.bytes.copy()
    with pytest.raises(HardwareTrap):
        shared.tma_load(matrix_map(0x100000, 64, 64), (1, 0), smem_address=0x800, source=GlobalMemory())
    assert np.array_equal(shared.bytes, before)
    assert len(shared.writers) == 1


@pytest.mark.parametrize(("address", "size"), [(END, 1), (END - 1, 2), (BEGIN, 1 << 20)])
def test_threads_fault_past_the_window(address, size):
    with pytest.raises(HardwareTrap, match="not inside the window 0x400 to 0x39000") as trap:
        SharedMemory().write(address, bytes(size))
    assert trap.value.cuda_error == 700


@pytest.mark.parametrize("address", [0, BEGIN - 1])
def test_nobody_knows_what_the_system_keeps_below_the_window(address):
    shared = SharedMemory()
    for call in (lambda: shared.write(address, b"1"), lambda: shared.peek(address, 1)):
        with pytest.raises(Unmodelled, match="below 0x400"):
            call()
    with pytest.raises(InputError, match="not in the window"):
        shared.owner(address)


@pytest.mark.parametrize(("size", "end"), [(0, 0x400), (1, 0x480), (128, 0x480), (129, 0x500), (END - BEGIN, END)])
def test_a_window_ends_on_a_multiple_of_128_bytes(size, end):
    shared = SharedMemory(size=size)
    assert (shared.begin, shared.end, len(shared.bytes)) == (BEGIN, end, end - BEGIN)


@pytest.mark.parametrize("size", [-1, -129, END - BEGIN + 1, 1 << 40])
def test_a_window_larger_than_the_machines_is_refused(size):
    with pytest.raises(InputError, match=f"size = {size} B"):
        SharedMemory(size=size)


def test_the_largest_window_costs_less_than_1_mb():
    tracemalloc.start()
    shared = SharedMemory()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert shared.end - shared.begin > 200_000
    assert used < 1_000_000


# ---- operands ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(4))
def test_a_k_step_reads_the_elements_it_is_meant_to(loaded, step):
    shared, transfer = loaded
    word = SmemDescriptor(arch="sm_90a", start_address=0x800 + 32 * step, stride_byte_offset=1024, swizzle="128B")
    operand = shared.read_operand(word, **TILE)
    row, k = np.arange(64)[:, None], np.arange(16)[None, :]
    assert operand.bits.dtype == np.uint16
    assert np.array_equal(operand.bits, (8 + row) * 256 + 64 + 16 * step + k)
    places = operand.coordinates()
    assert np.array_equal(places[..., 0], np.broadcast_to(64 + 16 * step + k, (64, 16)))
    assert np.array_equal(places[..., 1], np.broadcast_to(8 + row, (64, 16)))
    assert operand.coordinate(5, 3) == (64 + 16 * step + 3, 13)
    assert (operand.writer == 0).all()
    assert operand.writers == (transfer,)
    assert not operand.torn.any()
    assert np.array_equal(operand.address, operand_addresses(word, **TILE))


def test_mn_major_reads_the_transposed_matrix(loaded):
    shared, _ = loaded
    word = SmemDescriptor(arch="sm_90a", start_address=0x800, stride_byte_offset=1024, swizzle="128B").word
    operand = shared.read_operand(word, **TILE | {"major": "MN", "k": 16})
    assert np.array_equal(operand.bits, (8 + np.arange(16)[None, :]) * 256 + 64 + np.arange(64)[:, None])
    assert operand.coordinate(7, 2) == (71, 10)


def test_fill_has_coordinates_outside_the_tensor():
    world, shared = GlobalMemory(), SharedMemory()
    base = world.place(np.ones((16, 64), np.uint16))
    shared.tma_load(matrix_map(base, 16, 64), (0, 8), smem_address=0x800, source=world)
    operand = shared.read_operand(0x4000004000000080, **TILE)
    assert operand.bits[7, 0] == 1
    assert operand.coordinate(8, 0) == (0, 16)
    assert not operand.bits[8:].any()


def test_unwritten_and_thread_written_elements_have_no_coordinate(loaded):
    shared, _ = loaded
    word = SmemDescriptor(arch="sm_90a", start_address=0x800 - 1024, stride_byte_offset=1024, swizzle="128B").word
    shared.write(0x400, b"\x01\x02")
    operand = shared.read_operand(word, **TILE)
    assert operand.bits[0, 0] == 0x0201
    assert operand.writer[0, :2].tolist() == [1, -1]
    assert operand.coordinate(0, 0) is None
    assert operand.coordinate(0, 1) is None
    assert (operand.coordinates()[:8] == np.iinfo(np.int64).min).all()
    assert operand.coordinate(8, 0) == (64, 8)
    assert not operand.bits[1:8].any()


def test_elements_whose_bytes_come_from_two_places_are_torn(loaded):
    shared, _ = loaded
    shared.write(0x801, b"\xff")  # the high byte of element (0, 0)
    operand = shared.read_operand(0x4000004000000080, **TILE)
    assert operand.torn[0, 0]
    assert operand.torn.sum() == 1
    wide = shared.read_operand(0x4000004000000080, **TILE | {"dtype": "f32", "k": 8})
    assert wide.torn[0, 0]
    assert wide.torn.sum() == 1
    half = SharedMemory()
    half.write(0x800, b"\1")  # a second byte that nobody wrote
    assert half.read_operand(0x4000004000000080, **TILE | {"rows": 8, "k": 8}).torn[0].tolist() == [True] + [False] * 7


@pytest.mark.parametrize("major", ["K", "MN"])
def test_a_six_bit_element_is_torn_where_it_has_bits_of_two_bytes(major):
    """Four of them lie in three bytes, of which each has another writer."""
    shared = SharedMemory("sm_100a")
    for at in range(1024, 1024 + 4096):
        shared.write(at, b"\1", f"writer of {at}")
    word = SmemDescriptor(arch="sm_100a", start_address=1024, leading_byte_offset=1024, stride_byte_offset=256)
    torn = shared.read_operand(word, dtype="e3m2", major=major, rows=16, k=32).torn
    along = torn if major == "K" else torn.T
    assert (along == np.isin(np.arange(along.shape[1]) % 4, (1, 2))).all()


def test_neighbouring_bytes_of_different_writes_are_torn_too():
    shared = SharedMemory()
    row = {"arch": "sm_90a", "major": "K", "rows": 1, "packing": "packed"}
    shared.write(0x900, b"\1\2")
    shared.write(0x900, b"\3")  # byte 0 of one write before byte 1 of another
    assert shared.read_operand(0x90, dtype="f16", k=1, **row).torn.all()
    shared.write(0x800, b"\1\2")
    shared.write(0x802, b"\3\4")
    assert not shared.read_operand(0x80, dtype="f16", k=2, **row).torn.any()
    assert shared.read_operand(0x80, dtype="f32", k=1, **row).torn.all()
    assert shared.read_operand(0x80, dtype="f32", k=1, **row).bits.tolist() == [[0x04030201]]


@pytest.mark.parametrize("dtype", [name for name in FORMATS if name != "b1"])
@pytest.mark.parametrize("packing", ["packed", "padded"])
@pytest.mark.parametrize("major", ["K", "MN"])
def test_bits_are_cut_out_of_the_chunk_lowest_first(dtype, packing, major):
    """Element j of a chunk is bits j * width … of the 128-bit little-endian number that the chunk is."""
    fmt, shared = FORMATS[dtype], SharedMemory("sm_100a")
    rng = np.random.default_rng(1)
    shared.write(0x400, rng.integers(0, 256, 4096, np.uint8))
    d = SmemDescriptor(arch="sm_100a", start_address=0x400, leading_byte_offset=1024, stride_byte_offset=128, swizzle="none")
    per_chunk = fmt.elements_per_chunk(packing)
    operand = shared.read_operand(d, arch="sm_100a", dtype=dtype, major=major, rows=8, k=8, packing=packing)
    row, k = (3, 5) if major == "K" else (5, 3)
    for j in range(8):
        at = (row, j) if major == "K" else (j, row)
        chunk, inside = divmod(j, per_chunk)
        begin = 0x400 + 16 * row + (1024 if major == "K" else 128) * chunk
        number = int.from_bytes(shared.bytes[begin - BEGIN : begin - BEGIN + 16].tobytes(), "little")
        assert int(operand.bits[at]) == number >> inside * fmt.bits & ((1 << fmt.bits) - 1)
    assert operand.bits[row, k] < 1 << fmt.bits


def test_single_bits_have_addresses_of_their_bytes():
    shared = SharedMemory()
    shared.write(0x400, b"\x05\x80")
    operand = shared.read_operand(0x40, arch="sm_90a", dtype="b1", major="K", rows=1, k=16)
    assert operand.bits[0].tolist() == [1, 0, 1] + [0] * 12 + [1]


# ---- the edge of the window --------------------------------------------------------------------------------------------------------


@examples(150)
@given(st.data())
def test_a_read_faults_when_a_groups_first_line_does_not_fit_with_a_swizzle_width(data):
    mode = data.draw(st.sampled_from(CLASSIC))
    near = st.integers((END >> 4) - 80, (END >> 4) + 4)
    raw = {"start_address": near, "stride_byte_offset": st.integers(0, 80), "leading_byte_offset": st.integers(0, 80)}
    d = SmemDescriptor.decode(data.draw(descriptors(arch="sm_90a", swizzles=[mode], raw=raw)), arch="sm_90a")
    rows = data.draw(st.integers(1, 40))
    shared = SharedMemory()
    shared.bytes[:] = 0xFF
    second = d.leading_byte_offset if mode is Swizzle.NONE else 16
    reach = d.start_address + (rows - 1) // 8 * d.stride_byte_offset + max(second, 0) + MODES[mode].width
    if reach > END:
        with pytest.raises(HardwareTrap) as trap:
            shared.read_operand(d, **TILE | {"rows": rows})
        assert trap.value.cuda_error == 700
    else:
        operand = shared.read_operand(d, **TILE | {"rows": rows})
        past = operand.address >= END
        assert not operand.bits[past].any()
        assert (operand.writer[past] == -1).all()
        assert (operand.bits[~past] == 0xFFFF).all()


def test_lines_past_the_end_read_zero_when_their_group_begins_inside():
    shared = SharedMemory()
    shared.write(END - 256, b"\xff" * 256)
    word = SmemDescriptor(arch="sm_90a", start_address=END - 256, stride_byte_offset=0, swizzle="128B").word
    operand = shared.read_operand(word, **TILE | {"rows": 8})
    assert (operand.bits[:2] == 0xFFFF).all()
    assert not operand.bits[2:].any()
    assert operand.coordinate(2, 0) is None


def test_a_smaller_window_ends_earlier():
    shared = SharedMemory(size=8192)
    last = 0x2400 - 7 * 1024 - 16 - 128  # 8 groups of rows, the second chunk, a swizzle width
    assert shared.read_operand(0x4000004000000000 | last >> 4, **TILE).bits.shape == (64, 16)
    with pytest.raises(HardwareTrap, match="past the end of the CTA's shared window \\(0x2400\\)"):
        shared.read_operand(0x4000004000000000 | (last + 16) >> 4, **TILE)
    with pytest.raises(HardwareTrap, match=r"start 0x2400 \(past the end by itself\), LBO"):
        shared.read_operand(0x4000004000000000 | 0x2400 >> 4, **TILE)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int64])
def test_extents_of_any_integer_type_are_the_same_numbers(kind):
    word = SmemDescriptor(arch="sm_90a", start_address=0x400, leading_byte_offset=128, stride_byte_offset=256, swizzle="none").word
    plain = SharedMemory().read_operand(word, **TILE)
    same = SharedMemory().read_operand(word, **TILE | {"rows": kind(64), "k": kind(16)})
    assert np.array_equal(same.address, plain.address)


@pytest.mark.parametrize("start", [0, 0x10, 0x3F0])
def test_what_the_system_keeps_below_the_window_is_unknown(start):
    with pytest.raises(Unmodelled, match="below 0x400"):
        SharedMemory().read_operand(0x4000004000000000 | start >> 4, **TILE)


def test_one_descriptor_is_one_operand():
    with pytest.raises(InputError, match="one descriptor at a time"):
        SharedMemory().read_operand(np.zeros(2, np.uint64), **TILE)
    with pytest.raises(InputError, match="one descriptor at a time"):
        SharedMemory().read_operand([0x4000004000000080], **TILE)


def test_tma_does_not_write_the_systems_shared_memory():
    world = GlobalMemory()
    base = world.place(np.zeros((64, 64), np.uint16))
    with pytest.raises(Unmodelled, match="below 0x400"):
        SharedMemory().tma_load(matrix_map(base, 64, 64), (0, 0), smem_address=0x380, source=world)


def test_tma_does_not_store_what_it_cannot_know():
    """A store from below the first user byte: nobody knows those bytes, and the model must not make them up."""
    world = GlobalMemory()
    base = world.place(np.zeros((64, 64), np.uint16))
    with pytest.raises(Unmodelled, match="below 0x400"):
        SharedMemory().tma_store(matrix_map(base, 64, 64), (0, 0), smem_address=0x380, to=world)


@pytest.mark.parametrize("offset", [-1, END - BEGIN + 4096, 1 << 40])
def test_bytes_outside_of_the_window_have_no_owner(loaded, offset):
    shared, _ = loaded
    assert [part.tolist() for part in shared.owned(np.array([0, END - BEGIN - 1]))] == [[0, 0], [0, 0]]
    with pytest.raises(IndexError, match=str(offset)):
        shared.owned(np.array([0, offset]))
