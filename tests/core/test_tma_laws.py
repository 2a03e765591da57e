"""Laws of tiled TMA, against a model written with numpy slices: which byte goes where, what is counted, what traps."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from smemsim import GlobalMemory, HardwareTrap, InputError, SharedMemory, TensorMap, tma_load, tma_load_bytes, tma_store
from smemsim.core.layout.tma_loops import joined
from strategies import ITEMSIZES, box_chunks, examples, tiled_arguments

XOR = {"SWIZZLE_NONE": 0, "SWIZZLE_32B": 0x10, "SWIZZLE_64B": 0x30, "SWIZZLE_128B": 0x70}
WIDTH = {"SWIZZLE_32B": 32, "SWIZZLE_64B": 64, "SWIZZLE_128B": 128}
PERIOD = {"SWIZZLE_NONE": 128, "SWIZZLE_32B": 256, "SWIZZLE_64B": 512, "SWIZZLE_128B": 1024}
BEGIN, END = 0x400, 0x39000


class Scene:
    """A tensor of random bytes at its map's strides, and what the box holds of it."""

    def __init__(self, drawn, seed):
        self.arguments, self.at, self.smem_address = drawn
        a = self.arguments
        self.itemsize = ITEMSIZES[a["data_type"]]
        self.base = a["global_address"]
        # with the padding that a store may overwrite
        self.row_bytes = -(-a["global_dim"][0] * self.itemsize // 16) * 16
        outer = a["global_dim"][1:]
        self.size = self.row_bytes + sum((d - 1) * s for d, s in zip(outer, a["global_strides"], strict=True))
        self.rng = np.random.default_rng(seed)
        self.memory = self.rng.integers(0, 256, self.size, np.uint8)
        self.steps = (1, *a["element_strides"][1:])
        self.tile = (a["box_dim"][0], *(-(-b // s) for b, s in zip(a["box_dim"][1:], self.steps[1:], strict=True)))
        self.tm = TensorMap.tiled(**a)

    def rows(self, memory):
        """The tensor as (dimension r-1, …, dimension 1, bytes of a row): a view of the memory."""
        a = self.arguments
        return as_strided(memory, (*a["global_dim"][:0:-1], self.row_bytes), (*a["global_strides"][::-1], 1))

    def slices(self, clip_bytes):
        """(slices of the tensor, slices of the box) that correspond, dimension 0 last and in bytes, clipped at
        `clip_bytes` of a row.
        """
        tensor, box = [], []
        for c, step, count, dim in zip(self.at[1:], self.steps[1:], self.tile[1:], self.arguments["global_dim"][1:], strict=True):
            low, high = max(0, -(c // step)), max(0, min(count, -(-(dim - c) // step)))
            tensor.insert(0, slice(c + low * step, max(c + high * step, 0), step))
            box.insert(0, slice(low, high))
        first, inner = self.at[0] * self.itemsize, self.tile[0] * self.itemsize
        low, high = max(first, 0), max(min(first + inner, clip_bytes), 0)
        tensor.append(slice(low, max(low, high)))
        box.append(slice(low - first, max(low, high) - first))
        return tuple(tensor), tuple(box)

    def box(self, fill):
        """The dense box after a load, as (…, rows, bytes)."""
        shape = (*self.tile[:0:-1], self.tile[0] * self.itemsize)
        dense = np.resize(np.frombuffer(fill, np.uint8), shape)
        tensor, box = self.slices(self.arguments["global_dim"][0] * self.itemsize)
        dense[box] = self.rows(self.memory)[tensor]
        return dense

    def places(self, smem_address=None):
        """The shared address of every byte of the dense box."""
        inner = self.tile[0] * self.itemsize
        pitch = WIDTH.get(self.arguments["swizzle"], inner)
        start = self.smem_address if smem_address is None else smem_address
        linear = start + pitch * np.arange(math.prod(self.tile[1:]))[:, None] + np.arange(inner)
        return linear ^ (linear >> 3 & XOR[self.arguments["swizzle"]])

    def world(self, memory=None):
        world = GlobalMemory()
        world.place(self.memory if memory is None else memory, self.base)
        return world

    @property
    def fill(self):
        return b"\xf7\x7f" if self.arguments["oob_fill"] == "nan" else b"\0\0"


scenes = st.builds(Scene, tiled_arguments(), st.integers(0, 1000))
store_scenes = st.builds(Scene, tiled_arguments(is_store=True), st.integers(0, 1000))


@examples(250)
@given(scenes)
def test_a_load_puts_the_clipped_box_at_swizzled_addresses_and_leaves_the_gaps(scene):
    before = scene.rng.integers(0, 256, END, np.uint8)
    wanted = before.copy()
    wanted[scene.places()] = scene.box(scene.fill).reshape(scene.places().shape)
    arguments = {"smem_address": scene.smem_address, "shared": before, "global_": scene.memory}
    after = tma_load_bytes(scene.tm, scene.at, **arguments)
    assert np.array_equal(after, wanted)
    assert not np.shares_memory(after, before)
    shared = SharedMemory()
    shared.bytes[:] = before[BEGIN:]
    shared.tma_load(scene.tm, scene.at, smem_address=scene.smem_address, source=scene.world())
    assert np.array_equal(shared.bytes, wanted[BEGIN:])


@examples(250)
@given(scenes)
def test_a_load_writes_each_byte_once_and_names_the_global_byte_or_fill(scene):
    t = tma_load(scene.tm, scene.at, smem_address=scene.smem_address)
    assert t.transaction_bytes == scene.itemsize * math.prod(scene.tile) == 16 * box_chunks(scene.arguments) == len(t.shared_address)
    assert t.shared_address.dtype == np.uint32
    assert t.global_address.dtype == np.int64
    assert np.array_equal(np.sort(t.shared_address), np.sort(scene.places().ravel()))
    assert len(np.unique(t.shared_address)) == len(t.shared_address)
    image = dict(zip(scene.places().ravel().tolist(), scene.box(scene.fill).ravel().tolist(), strict=True))
    inside = t.global_address != -1
    tensor, _ = scene.slices(scene.arguments["global_dim"][0] * scene.itemsize)
    assert inside.sum() == scene.rows(scene.memory)[tensor].size
    source = scene.memory[np.where(inside, t.global_address - scene.base, 0)]
    for address, known, value in zip(t.shared_address.tolist(), inside.tolist(), source.tolist(), strict=True):
        assert image[address] == (value if known else scene.fill[address % 2])


@examples(200)
@given(scenes, st.integers(0, 7))
def test_the_swizzle_is_phase_absolute(scene, lines):
    """Whole periods translate the image; any other multiple of 128 lands where the XOR of the absolute address says."""
    period = PERIOD[scene.arguments["swizzle"]]
    first = tma_load(scene.tm, scene.at, smem_address=scene.smem_address)
    moved = tma_load(scene.tm, scene.at, smem_address=scene.smem_address + period)
    assert np.array_equal(moved.shared_address, first.shared_address + period)
    assert np.array_equal(moved.global_address, first.global_address)
    other = tma_load(scene.tm, scene.at, smem_address=scene.smem_address + 128 * lines)
    assert set(other.shared_address.tolist()) == set(scene.places(scene.smem_address + 128 * lines).ravel().tolist())
    order = np.argsort(first.shared_address ^ (first.shared_address >> 3 & XOR[scene.arguments["swizzle"]]))
    after = np.argsort(other.shared_address ^ (other.shared_address >> 3 & XOR[scene.arguments["swizzle"]]))
    assert np.array_equal(first.global_address[order], other.global_address[after])


@examples(200)
@given(store_scenes)
def test_a_store_writes_what_its_shared_bytes_hold_with_dimension_0_clipped_at_16_byte_chunks(scene):
    shared = SharedMemory()
    shared.bytes[:] = scene.rng.integers(0, 256, len(shared.bytes), np.uint8)
    wanted = scene.memory.copy()
    held = shared.bytes[scene.places() - BEGIN].reshape(*scene.tile[:0:-1], -1)
    tensor, box = scene.slices(scene.row_bytes)
    if scene.at[0] >= scene.arguments["global_dim"][0]:
        box, tensor = (*box[:-1], slice(0, 0)), (*tensor[:-1], slice(0, 0))
    scene.rows(wanted)[tensor] = held[box]
    world = scene.world()
    t = shared.tma_store(scene.tm, scene.at, smem_address=scene.smem_address, to=world)
    assert np.array_equal(world.region(scene.base)[1], wanted)
    assert len(t.global_address) == len(t.shared_address) == held[box].size
    assert len(np.unique(t.global_address)) == len(t.global_address)
    assert set(t.shared_address.tolist()) <= set(scene.places().ravel().tolist())
    assert t.transaction_bytes == scene.itemsize * math.prod(scene.tile)


@examples(150)
@given(store_scenes)
def test_a_store_after_a_load_gives_the_box_back(scene):
    """Elements return as they were; bytes of a ragged last chunk behind the tensor's row become the load's fill."""
    elsewhere = scene.rng.integers(0, 256, scene.size, np.uint8)
    wanted = elsewhere.copy()
    exact, _ = scene.slices(scene.arguments["global_dim"][0] * scene.itemsize)
    clipped, _ = scene.slices(scene.row_bytes)
    if scene.at[0] < scene.arguments["global_dim"][0]:
        first = clipped[-1].start
        pattern = np.resize(np.frombuffer(scene.fill, np.uint8), scene.row_bytes)[first : clipped[-1].stop]
        scene.rows(wanted)[clipped] = pattern
        scene.rows(wanted)[exact] = scene.rows(scene.memory)[exact]
    shared, world = SharedMemory(), scene.world(elsewhere)
    shared.tma_load(scene.tm, scene.at, smem_address=scene.smem_address, source=scene.world())
    shared.tma_store(scene.tm, scene.at, smem_address=scene.smem_address, to=world)
    assert np.array_equal(world.region(scene.base)[1], wanted)


@examples(50)
@given(scenes, st.data())
def test_the_owner_of_a_byte_is_the_element_it_belongs_to(scene, data):
    shared = SharedMemory()
    t = shared.tma_load(scene.tm, scene.at, smem_address=scene.smem_address, source=scene.world())
    places = scene.places().reshape(*scene.tile[:0:-1], scene.tile[0], scene.itemsize)
    for _ in range(8):
        index = tuple(data.draw(st.integers(0, n - 1)) for n in scene.tile)
        byte = data.draw(st.integers(0, scene.itemsize - 1))
        owner = shared.owner(int(places[(*index[::-1], byte)]))
        assert owner == (t, tuple(c + j * s for c, j, s in zip(scene.at, index, scene.steps, strict=True)))
    touched = set(places.ravel().tolist())
    around = range(max(BEGIN, min(touched) - 16), min(END, max(touched) + 17))
    assert all(shared.owner(a) is None for a in around if a not in touched)


def plain(**changes):
    base = {
        "data_type": "bf16",
        "global_address": 0x100000,
        "global_dim": (64, 64),
        "global_strides": (128,),
        "box_dim": (64, 8),
        "swizzle": "128B",
    }
    return TensorMap.tiled(**base | changes)


FAR = {"global_dim": (64, (1 << 31) + 1)}
TRAPS = [  # map, coordinates, shared address, loads' error, stores' error: an earlier rule of the hardware hides a later one
    ("clean", {}, (0, 0), 0x800, 0, 0),
    ("ends with the window", {}, (0, 0), END - 1024, 0, 0),
    ("dimension 0 off 16 bytes", {}, (4, 0), 0x800, 715, 715),
    ("dimension 0 one element before", {}, (-1, 0), 0x800, 715, 715),
    ("dimension 0 negative by a chunk", {}, (-8, 0), 0x800, 0, 715),
    ("outer dimension negative", {}, (0, -1), 0x800, 0, 715),
    ("dimension above 2^31", FAR, (0, 0), 0x800, 715, 715),
    ("dimension of 2^31", {"global_dim": (64, 1 << 31)}, (0, 0), 0x800, 0, 0),
    ("dimension 0 above 2^31", {"data_type": "u8", "global_dim": ((1 << 31) + 1,), "global_strides": (), "box_dim": (64,)}, (0,), 0x800, 715, 715),
    ("shared address off 128", {}, (0, 0), 0x840, 716, 716),
    ("shared address off 128 without swizzle", {"swizzle": "none"}, (0, 0), 0x810, 716, 716),
    ("past the window", {}, (0, 0), END - 896, 700, 700),
    ("past the window by fill only", {}, (0, 60), END - 512, 700, 0),
    ("past and off 128", {}, (0, 0), END - 64, 700, 700),
    ("past and off 16 bytes", {}, (4, 0), END - 896, 715, 715),
    ("off 128 and off 16 bytes", {}, (4, 0), 0x840, 715, 715),
    ("dimension above 2^31 and past", FAR, (0, 0), END, 715, 715),
    ("entirely outside", {}, (64, 64), 0x800, 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "at", "address", "load", "store"), [t[1:] for t in TRAPS], ids=[t[0] for t in TRAPS])
def test_traps_and_the_order_in_which_hardware_finds_them(changes, at, address, load, store):
    tm = plain(**changes)
    for call, error in ((tma_load, load), (tma_store, store)):
        if not error:
            assert call(tm, at, smem_address=address).transaction_bytes
            continue
        with pytest.raises(HardwareTrap) as trap:
            call(tm, at, smem_address=address)
        assert trap.value.cuda_error == error
        assert trap.value.reason
        assert str(trap.value) == f"{trap.value.reason} (CUDA error {error})"


def test_a_window_ends_on_a_multiple_of_128_bytes_whatever_was_asked_for():
    tm = plain(swizzle="none")
    assert tma_load(tm, (0, 0), smem_address=0x400, shared_end=0x400 + 1023).transaction_bytes == 1024
    with pytest.raises(HardwareTrap, match="CUDA error 700"):
        tma_load(tm, (0, 0), smem_address=0x400, shared_end=0x400 + 896)


NAN_TYPES = {"f16": 1, "bf16": 1, "f32": 2, "FLOAT32_FTZ": 2, "f64": 4}


@pytest.mark.parametrize("data_type", NAN_TYPES)
def test_nan_fill_is_7ff7_in_every_16_bits(data_type):
    itemsize = 2 * NAN_TYPES[data_type]
    tensor = np.arange(16 * 64, dtype=np.uint8)
    tm = plain(
        data_type=data_type,
        global_dim=(16 // itemsize, 4),
        global_strides=(64,),
        box_dim=(32 // itemsize, 4),
        oob_fill="nan",
        swizzle="none",
    )
    after = tma_load_bytes(tm, (0, 2), smem_address=0, shared=np.zeros(128, np.uint8), global_=tensor).reshape(4, 32)
    assert np.array_equal(after[:2, :16], tensor[:256].reshape(4, 64)[2:, :16])
    assert (after[:2, 16:].view("<u2") == 0x7FF7).all()
    assert (after[2:].view("<u2") == 0x7FF7).all()


@pytest.mark.parametrize("data_type", ["TFLOAT32", "TFLOAT32_FTZ"])
def test_tf32_loads_round_to_the_nearest_even_multiple_of_a_1024th(data_type):
    """Against rounding in float64: numpy's `round` takes ties to even; denormals have the quantum of the smallest
    normal number.
    """
    bits = np.random.default_rng(11).integers(0, 1 << 32, 32 * 8, dtype=np.uint64).astype(np.uint32)
    # ties, denormal ties, the largest number, -inf
    bits[:6] = 0x3F801000, 0x3F803000, 0x00001000, 0x80003000, 0x7F7FFFFF, 0xFF800000
    tm = plain(data_type=data_type, global_dim=(32, 8), box_dim=(32, 8), swizzle="none")
    after = tma_load_bytes(tm, (0, 0), smem_address=0x400, shared=np.zeros(4096, np.uint8), global_=bits.view(np.uint8))
    loaded = after[0x400 : 0x400 + 1024].view(np.uint32)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        value = bits.view(np.float32).astype(np.float64)
    nan, infinite = np.isnan(value), np.isinf(value)
    quantum = np.exp2(np.maximum(np.frexp(np.where(infinite | nan, 1, value))[1] - 1, -126) - 10.0)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = (np.round(value / quantum) * quantum).astype(np.float32)
    wanted = np.where(nan, np.uint32(0x7FFFE000), np.where(infinite, bits, rounded.view(np.uint32)))
    assert (loaded == wanted).all()


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda tm: tma_load(tm, (), smem_address=0x400), "coordinates = \\(\\): needs 2"),
        (lambda tm: tma_load(tm, (0, 1 << 31), smem_address=0x400), "signed 32-bit"),
        (lambda tm: tma_load(tm, (0, 0.0), smem_address=0x400), "coordinates"),
        (lambda tm: tma_load(tm, (0, 0), smem_address=0x7F00_0000_0400), "smem_address = .*a generic pointer"),
        (lambda tm: tma_load(tm, (0, 0), smem_address=-128), "smem_address"),
        (lambda tm: tma_load(bytes(tm), (0, 0), smem_address=0x400), "tm: needs a TensorMap, not bytes"),
        (lambda tm: tma_load(tm, (0, 0), smem_address=0x400, im2col_offsets=(1,)), "im2col_offsets = \\(1,\\): tile takes none"),
        (lambda tm: load_bytes(tm, shared=np.zeros(1024, np.uint8)), "shared has 1024 bytes: the box reaches shared address 0x7ff"),
        (lambda tm: load_bytes(tm, shared=np.zeros(4096, np.int8)), "shared: needs a one-dimensional uint8"),
        (lambda tm: load_bytes(tm, shared=b"\0" * 4096), "shared: needs a one-dimensional uint8"),
        (
            lambda tm: load_bytes(tm, global_=np.zeros(1023, np.uint8)),
            "global_ covers global 0x100000 to 0x1003ff: the box needs 0x100000 to 0x100400",
        ),
    ],
)
def test_arguments_no_transfer_has_are_refused_with_their_name(call, complaint):
    with pytest.raises(InputError, match=complaint):
        call(plain())


def load_bytes(tm, **changes):
    arguments = {"shared": np.zeros(4096, np.uint8), "global_": np.zeros(8192, np.uint8)} | changes
    return tma_load_bytes(tm, (0, 0), smem_address=0x400, **arguments)


@pytest.mark.parametrize("at", [(0, (1 << 31) - 1), (0, 1 << 24), (0, 1 << 17), (0, (1 << 17) - 1)])
def test_global_addresses_are_exact_sums_or_fault(at):
    """A stride just below 2^40 and a far coordinate leave the 57 bits that a GPU can map: never a wrapped, negative or
    small address.
    """
    stride = (1 << 40) - 16
    tm = plain(global_dim=(64, 1 << 31), global_strides=(stride,), box_dim=(64, 1))
    wanted = 0x100000 + at[1] * stride
    if wanted + 128 <= 1 << 57:
        assert tma_load(tm, at, smem_address=0x400).global_address.tolist() == list(range(wanted, wanted + 128))
    else:
        with pytest.raises(HardwareTrap, match="no GPU maps"):
            tma_load(tm, at, smem_address=0x400)


@pytest.mark.parametrize("at", [(0,), (0, 0, 0)])
def test_an_instruction_of_another_rank_than_its_map_traps(at):
    with pytest.raises(HardwareTrap, match="map of rank 2") as trap:
        tma_load(plain(), at, smem_address=0x400)
    assert trap.value.cuda_error == 715


def ragged(rows, base=0x100000):
    """A map whose first two dimensions move it to any row of a (rows, 32) f32 array and take it back to the array by
    way of 2^64.
    """
    pitch = 128
    return TensorMap.tiled(
        data_type="f32", global_address=base, global_dim=(32, 1 << 30, (1 << 31) - (1 << 16), (1 << 31) - (1 << 16)),
        global_strides=(pitch, pitch, (1 << 36) - pitch), box_dim=(32, 4, 1, 1),
    )  # fmt: skip


def test_sums_that_pass_64_bits_wrap_around():
    """Rows of an array that end before the eighth, from the fourth on: the last coordinate brings 2^66, the first ones
    bring the row back.
    """
    size, behind = 5, 8
    loaded = tma_load(ragged(64), (0, (1 << 30) - size + 1, behind, 1 << 30), smem_address=0x400)
    row = 0x100000 + 4 * 128
    assert loaded.global_address.tolist() == list(range(row, row + 4 * 128))
    last = tma_load(ragged(64), (0, (1 << 30) - 2, behind, 1 << 30), smem_address=0x400).global_address
    assert ((last >= 0) == (np.arange(512) < 256)).all()


@pytest.mark.parametrize("first", [0, -1, -3])
def test_one_row_in_bounds_whose_address_has_the_highest_bit_faults(first):
    """The box ends with row 0, or begins with it; a box whose rows are all out of bounds is fill."""
    far = (8, (1 << 27) + 1)
    with pytest.raises(HardwareTrap, match="no GPU maps"):
        tma_load(ragged(64), (0, first, *far), smem_address=0x400)
    assert (tma_load(ragged(64), (0, -4, *far), smem_address=0x400).global_address < 0).all()


@pytest.mark.parametrize("turn", [(1 << 30) - 1, 1 << 27, (1 << 30) - (1 << 20)])
def test_sums_that_do_not_come_back_to_the_array_still_fault(turn):
    with pytest.raises(HardwareTrap, match="no GPU maps"):
        tma_load(ragged(64), (0, (1 << 30) - 4, 8, turn), smem_address=0x400)


@pytest.mark.parametrize("seed", range(4))
def test_a_line_in_bounds_past_57_bits_traps(seed):
    """Strides and coordinates may be so large that 64 bits do not hold where a line lies: whole numbers of Python do.
    The outermost line of most boxes here ends at the last byte that there is, or 16 bytes behind it.
    """
    rng, outcomes = random.Random(seed), {True: 0, False: 0}
    for _ in range(150):
        rank = rng.randint(2, 5)
        dims = [rng.choice((16, 24, 32, 40)), *(rng.choice((1, 2, 7, 1 << 13, 1 << 17, (1 << 31) - 1)) for _ in range(rank - 1))]
        box, steps = [16, *(rng.randint(1, 4) for _ in dims[1:])], [1, *(rng.randint(1, 3) for _ in dims[1:])]
        at = [rng.choice((0, 0, 0, 16, 32, -16))]
        at += [rng.choice((0, dim // 2, dim - 1, dim - 2, dim - 3) if rng.random() < 0.8 else (-1, -3, dim)) for dim in dims[1:]]
        at = [min(c, (1 << 31) - 1) for c in at]
        strides = [rng.choice((64, 1 << 30, 1 << 38, (1 << 40) - 16, 1 << 33)) for _ in dims[1:]]
        offsets = [0]
        for c, count, step, dim, stride in zip(at[1:], box[1:], steps[1:], dims[1:], strides, strict=True):
            offsets = [one + x * stride for one in offsets for x in range(c, c + count, step) if 0 <= x < dim]
        low, high = max(at[0], 0), min(at[0] + 16, dims[0])
        offsets = offsets if low < high else []
        base = (1 << 57) - max(offsets, default=0) - (high + 15) // 16 * 16 + rng.choice((0, 16))
        if not 0 <= base < 1 << 57 or rng.random() < 0.1:
            base = rng.choice((0, 1 << 40))
        try:
            tm = TensorMap.tiled(
                data_type="u8", global_address=base, global_dim=dims, global_strides=strides, box_dim=box, element_strides=steps
            )
        except InputError:
            continue
        is_beyond = any((base + offset) % (1 << 64) + high > 1 << 57 for offset in offsets)
        outcomes[is_beyond] += 1
        if is_beyond:
            with pytest.raises(HardwareTrap, match="no GPU maps"):
                tma_load(tm, at, smem_address=1024)
            continue
        got = tma_load(tm, at, smem_address=1024).global_address
        lines = {(base + offset) % (1 << 64) + x for offset in offsets for x in range(low, high)}
        assert {int(x) for x in got[got >= 0].ravel().tolist()} == lines
    assert min(outcomes.values()) > 15, outcomes


@pytest.mark.parametrize("boxes", range(1, 6))
@pytest.mark.parametrize("seed", range(4))
def test_boxes_reach_together_from_the_first_to_the_last_byte_of_any(boxes, seed):
    """Boxes without a byte inside (high 0) have no lowest one. All are whole only if each is."""
    rng = np.random.default_rng([boxes, seed])
    found = rng.integers(1, 1 << 40, (boxes + 1, 4))
    found[:, 3] = rng.random(boxes + 1) < 0.7
    found[rng.random(boxes + 1) < 0.4, 1:3] = 0
    each, inside = found[:boxes].copy(), found[:boxes][found[:boxes, 2] > 0]
    joined(found)
    low, high = (int(inside[:, 1].min()), int(inside[:, 2].max())) if len(inside) else (0, 0)
    assert found[boxes].tolist() == [each[:, 0].max(), low, high, each[:, 3].min()]
    assert (found[:boxes] == each).all()
