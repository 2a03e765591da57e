"""Tensor memory with owners: who may touch it, what threads and copies leave in it, and the way back to the tensor TMA
loaded.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hand
from smemsim import (
    AccumulatorLayout,
    AllocationError,
    ATmemLayout,
    GlobalMemory,
    HardwareTrap,
    InputError,
    MetadataLayout,
    ScaleLayout,
    SharedMemory,
    SmemDescriptor,
    TensorMap,
    TensorMemory,
    TmemAccess,
    TmemAddress,
    Transfer,
    Unmodelled,
    tcgen05_cp,
    tcgen05_shift,
    tmem_put,
    tmem_take,
)
from smemsim.core.machine import decompress
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.tensor_memory import COPY_SHAPES, DECOMPRESSIONS, LANES, METADATA
from strategies import examples

AT = 0x400
SHAPES = [pytest.param(*key, id=".".join(filter(None, key))) for key in COPY_SHAPES]
ALL = TmemAccess("32x32b", repeat=8)


def random_cells(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << 32, shape, dtype=np.uint32)


@pytest.fixture
def tmem():
    memory = TensorMemory("sm_100a")
    memory.alloc(512)
    return memory


def filled(seed=0, size=8192):
    """Shared memory with random bytes at AT, a writer for each 256 of them."""
    shared = SharedMemory("sm_100a")
    data = np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)
    for at in range(0, size, 256):
        shared.write(AT + at, data[at : at + 256], label=f"bytes from {at} on")
    return shared, data


def descriptor(start=AT, swizzle="none", lbo=16, sbo=256):
    return SmemDescriptor(arch="sm_100a", start_address=start, leading_byte_offset=lbo, stride_byte_offset=sbo, swizzle=swizzle)


def lanes_by_hand(shape, multicast, row):
    """Destination lanes of a source row, as PTX ISA 9.1 §9.7.16.9.2 words them."""
    warp, inside = divmod(row, 32)
    return {
        "": [row] if shape != "4x256b" else [32 * row],
        "warpx2::02_13": [32 * w + inside for w in ((0, 2), (1, 3))[warp % 2]],
        "warpx2::01_23": [32 * w + inside for w in ((0, 1), (2, 3))[warp % 2]],
        "warpx4": [32 * w + inside for w in range(4)],
    }[multicast]


# ---- allocation --------------------------------------------------------------------------------------------------------------------


@examples(150)
@given(st.lists(st.tuples(st.integers(5, 9), st.integers(0, 3)), max_size=12))
def test_allocations_never_overlap_and_come_back(steps):
    memory, held, last = TensorMemory(), {}, 512
    for exponent, victim in steps:
        columns = 1 << exponent
        if held and victim < 2:
            taddr = sorted(held)[victim % len(held)]
            memory.dealloc(taddr, held.pop(taddr))
            continue
        taken = np.zeros(512, bool)
        for taddr, n in held.items():
            taken[taddr : taddr + n] = True
        room = [c for c in range(0, 513 - columns, columns) if not taken[c : c + columns].any()]
        if not room:
            with pytest.raises(InputError, match=r"tcgen05\.alloc blocks until"):
                memory.alloc(columns)
            continue
        assert memory.grows(columns) == (last if columns > last else 0)
        taddr, last = memory.alloc(columns).encode(), columns
        assert taddr == room[0]  # inferred: first fit
        held[taddr] = columns
    assert memory.allocations == held
    assert len(memory.exit_problems()) == len(held)


@pytest.mark.parametrize("columns", [0, 16, 48, 511, 1024, -32, 32.0, "32", True])
def test_only_powers_of_two_from_32_to_512_can_be_allocated(columns):
    with pytest.raises(InputError, match="columns"):
        TensorMemory().alloc(columns)


def test_after_relinquishing_a_cta_allocates_no_more():
    memory = TensorMemory()
    taddr = memory.alloc(64, cta_group=2)
    memory.relinquish_alloc_permit(cta_group=2)
    with pytest.raises(InputError, match=r"relinquish_alloc_permit"):
        memory.alloc(32, cta_group=2)
    memory.dealloc(taddr, 64, cta_group=2)
    assert memory.exit_problems() == []


def test_allocation_rules_that_kernels_break():
    memory = TensorMemory()
    taddr = memory.alloc(64)
    for wrong, says in (
        ((taddr + 32, 32), "no allocation begins there"),
        ((taddr + 32, 64), "not all of them are allocated"),
        ((taddr, 128), "not all of them are allocated"),
        ((taddr, 16), "multiple of 32"),
        ((taddr, 0), "multiple of 32"),
    ):
        with pytest.raises(InputError, match=says):
            memory.dealloc(*wrong)
    for count, fix in ((1, 32), (33, 64), (100, 128), (384, 512), (513, None), (0, None)):
        with pytest.raises(AllocationError, match="needs a power of two") as refused:
            memory.alloc(count)
        assert refused.value.repair == (f"allocate {fix} columns" if fix else "")
    with pytest.raises(InputError, match="this kernel has used 1"):
        memory.alloc(32, cta_group=2)
    with pytest.raises(InputError, match="cta_group = 4"):
        memory.alloc(32, cta_group=4)
    assert "64 columns at 0x0 were not deallocated" in memory.exit_problems()[0]
    memory.dealloc(taddr, 64)
    with pytest.raises(InputError, match="not all of them are allocated"):
        memory.dealloc(taddr, 64)


def test_a_deallocation_is_what_the_allocator_of_ptxas_checks():
    """It begins where an allocation does, with any lane; it may take the next one along; what it leaves of one is lost."""
    memory = TensorMemory()
    first, _ = memory.alloc(128), memory.alloc(128)
    assert memory.dealloc(first + (5 << 16), 256) == 0
    assert (memory.allocations, memory.exit_problems()) == ({}, [])
    memory.alloc(128)
    assert memory.dealloc(0, 32) == 96
    assert memory.alloc(32).column == 0
    assert "96 columns are left of an allocation" in memory.exit_problems()[-1]
    with pytest.raises(InputError, match="no allocation begins there"):
        memory.dealloc(32, 96)


def test_columns_that_are_not_allocated_are_an_error_or_a_problem():
    strict, lax = TensorMemory(), TensorMemory(strict=False)
    with pytest.raises(InputError, match=r"not allocated.*tcgen05\.alloc comes first"):
        strict.read(0, 64)
    for memory in (strict, lax):
        memory.alloc(64)
    for touch in (
        lambda memory: memory.read(0, 64),
        lambda memory: memory.write_cells(0, [63, 64, 65], 1, "mma"),
        lambda memory: memory.ld(TmemAccess("32x32b", 2, taddr=63)),
        lambda memory: memory.st(TmemAccess("32x32b", 2, taddr=63), np.zeros((4, 32, 2), np.uint32)),
        lambda memory: tcgen05_shift(memory, 60),
    ):
        with pytest.raises(InputError, match=r"column 64 is \w+, and is not allocated.*allocated are 64 columns, up to column 63"):
            touch(strict)
        before = len(lax.problems)
        touch(lax)
        assert "column 64" in lax.problems[before]
    assert strict.problems == []
    assert not strict.writers  # nothing was done
    assert lax.exit_problems()[: len(lax.problems)] == lax.problems


def test_only_blackwell_has_tensor_memory():
    assert TensorMemory("sm_103a").cells.shape == (128, 512)
    with pytest.raises(InputError, match="only sm_100a and sm_103a"):
        TensorMemory("sm_90a")
    with pytest.raises(InputError, match="strict = 'yes'"):
        TensorMemory(strict="yes")


# ---- cells, ld and st --------------------------------------------------------------------------------------------------------------


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 127), st.integers(0, 511), st.integers(0, (1 << 32) - 1)), min_size=1, max_size=30))
def test_a_cell_holds_what_was_written_last_and_knows_by_whom(writes):
    memory, expected = TensorMemory(), {}
    memory.alloc(512)
    for i, (lane, column, value) in enumerate(writes):
        memory.write_cells(lane, column, value, f"writer {i}")
        expected[lane, column] = value, f"writer {i}"
    for (lane, column), (value, writer) in expected.items():
        assert memory.read(lane, column) == value
        owner = memory.owner(lane, column, 3)
        assert (owner.writer, owner.where, owner.source, owner.origin) == (writer, (0, 3), None, owner)
    at = np.array(list(expected))
    assert memory.read(at[:, 0], at[:, 1]).tolist() == [value for value, _ in expected.values()]
    writer, place = memory.owners(at[:, 0], at[:, 1])
    assert [memory.writers[w] for w in writer[:, 0]] == [name for _, name in expected.values()]
    assert (place == np.arange(4)).all()


def test_what_nobody_wrote_has_no_owner(tmem):
    assert tmem.owner(5, 5) is None
    assert (tmem.owners(np.arange(128), 5)[0] == -1).all()
    assert tmem.read(5, 5) == 0


class Product:
    """What a multiplication would register as the writer of D."""

    def __init__(self, layout):
        self.layout = layout

    def where(self, place):
        return divmod(place // 4, self.layout.n)


@pytest.mark.parametrize(("m", "n", "ws"), [(128, 256, False), (64, 256, False), (64, 256, True), (32, 256, True)])
def test_a_tile_of_d_written_whole_is_read_by_the_epilogue_with_its_elements(tmem, m, n, ws):
    layout = AccumulatorLayout(m, n, ws=ws)
    values = random_cells(m, n)
    _, lane, column = layout.location(np.arange(m)[:, None], np.arange(n))
    tmem.write_cells(lane, column, values, Product(layout))
    assert (tmem.read(lane, column) == values).all()
    assert tmem.owner(*layout.location(m - 1, 7)[1:]).where == (m - 1, 7)
    access = TmemAccess("16x128b", 4, taddr=16)
    where = np.arange(4)[:, None, None], np.arange(32)[:, None], np.arange(access.registers)
    rows, columns = layout.element(0, *access.location(*where))
    held = rows >= 0
    assert (tmem.ld(access)[held] == values[rows[held], columns[held]]).all()


@pytest.mark.parametrize("shape", ["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"])
@pytest.mark.parametrize("pack", [False, True])
def test_what_a_store_leaves_a_load_of_the_same_form_finds(tmem, shape, pack):
    split = {"half_split_offset": 40} if shape == "16x32bx2" else {}
    access = TmemAccess(shape, 8, pack=pack, taddr=3, **split)
    values = random_cells(4, 32, access.registers)
    tmem.st(access, values, label="rescaled O")
    assert (tmem.ld(access) == values).all()
    for warp in range(4):
        assert (tmem.ld(access, warp=warp) == values[warp]).all()
        # another warpgroup's warp
        assert (tmem.ld(access, warp=warp + 8, taddr=access.operand(warp)) == values[warp]).all()
    for warp, thread, register, half in [(0, 0, 0, 0), (2, 19, 5, int(pack))]:
        lane, column = access.location(warp, thread, register, half)
        owner = tmem.owner(lane, column)
        assert (owner.writer.label, owner.where) == ("rescaled O", (warp, thread, register, 2 * half))
        word = int(values[warp, thread, register]) >> 16 * half & (0xFFFF if pack else 0xFFFFFFFF)
        assert tmem.read(lane, column) == word
    touched = np.unique(access.location(np.arange(4)[:, None, None], np.arange(32)[:, None], np.arange(access.registers))[1])
    assert (tmem.cells[:, touched.max() + 2 :] == 0).all()


def test_packing_takes_the_lower_halves_and_unpacking_keeps_the_upper_ones(tmem):
    wide, packed = TmemAccess("32x32b", 4), TmemAccess("32x32b", 2, pack=True)
    values = random_cells(4, 32, 4)
    tmem.st(wide, values, label="f32")
    pairs = tmem.ld(packed)
    assert (pairs == (values[..., 0::2] & 0xFFFF | values[..., 1::2] << 16)).all()
    tmem.st(packed, ~pairs, label="f16")
    assert (tmem.ld(wide) == (values & np.uint32(0xFFFF0000) | ~values & np.uint32(0xFFFF))).all()
    assert [tmem.owner(9, 1, byte).writer.label for byte in range(4)] == ["f16", "f16", "f32", "f32"]
    assert [tmem.owner(9, 1, byte).where for byte in range(4)] == [(0, 9, 0, 2), (0, 9, 0, 3), (0, 9, 1, 2), (0, 9, 1, 3)]


def test_one_warps_store_stays_in_its_window(tmem):
    tmem.st(ALL, np.ones((32, 8), np.uint32), warp=6, label="warp 6")
    assert tmem.cells[:, :8].any(1).nonzero()[0].tolist() == list(range(64, 96))
    assert tmem.owner(70, 3).where == (6, 6, 3, 0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda t: t.ld(ALL, warp=1, taddr=16 << 16), r"lane 16; \.32x32b begins at lane 0"),
        (lambda t: t.ld(ALL, taddr=0), "name the warp"),
        (lambda t: t.ld("32x32b"), "needs a TmemAccess"),
        (lambda t: t.ld(ALL, warp=-1), "warp = -1"),
        (lambda t: t.st(ALL, np.zeros((32, 8), np.uint32)), r"takes \(4, 32, 8\) registers"),
        (lambda t: t.st(ALL, np.zeros((4, 32, 8), np.uint32), warp=0), r"takes \(32, 8\) registers"),
        (lambda t: t.st(ALL, np.zeros((4, 32, 8), np.uint16)), "32-bit numbers, a cell each, not uint16"),
        (lambda t: t.write_cells(0, 0, 1 << 32, "x"), "a cell has 32 bits"),
        (lambda t: t.write_cells(128, 0, 1, "x"), "lanes 0 to 127"),
        (lambda t: t.read(0, 512), "columns 0 to 511"),
        (lambda t: t.owner(0, 0, 4), "bytes 0 to 3"),
    ],
)
def test_wrong_accesses_are_refused_with_a_sentence(tmem, call, says):
    with pytest.raises(InputError, match=says):
        call(tmem)


def test_floats_are_stored_as_their_bits(tmem):
    tmem.st(TmemAccess("32x32b"), np.full((4, 32, 1), 1.5, np.float32))
    assert tmem.read(77, 0) == 0x3FC00000


@pytest.mark.parametrize("repeat", [1, 2, 4])
def test_halves_overlap_where_two_threads_have_one_cell(repeat):
    for offset in range(3 * repeat):
        access = TmemAccess("16x32bx2", repeat, half_split_offset=offset)
        thread, register = np.meshgrid(np.arange(32), np.arange(access.registers))
        cells = list(zip(*(np.asarray(x).ravel().tolist() for x in access.location(0, thread, register)), strict=True))
        assert access.overlaps == (len(set(cells)) < len(cells))
        assert access.columns == len({column for _, column in cells})


def test_overlapping_halves_can_be_loaded_and_stored_where_they_agree(tmem):
    access = TmemAccess("16x32bx2", 4, half_split_offset=2)
    tmem.write_cells(3, np.arange(6), np.arange(6), "six")
    loaded = tmem.ld(access, warp=0)
    assert loaded[3].tolist() == [0, 1, 2, 3]
    assert loaded[19].tolist() == [2, 3, 4, 5]
    with pytest.raises(Unmodelled, match="which thread's value stays"):
        tmem.st(access, np.broadcast_to(np.arange(32, dtype=np.uint32)[:, None], (4, 32, 4)))
    tmem.st(access, np.full((4, 32, 4), 9, np.uint32))
    assert tmem.read(3, np.arange(7)).tolist() == [9] * 6 + [0]


# ---- tcgen05.cp --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "multicast"), SHAPES)
@pytest.mark.parametrize("swizzle", ["none", "32B", "128B"])
def test_every_row_goes_to_its_lanes_with_its_bytes_and_owners(tmem, shape, multicast, swizzle):
    shared, data = filled(size=1 << 15)
    width, sbo = {"none": (16, 512), "32B": (32, 256), "128B": (128, 1024)}[swizzle]
    lbo = 128
    (copy,) = tcgen05_cp(tmem, 20, descriptor(swizzle=swizzle, lbo=lbo, sbo=sbo), shape=shape, multicast=multicast, shared=shared)
    row = COPY_SHAPES[shape, multicast]
    assert (copy.where(5), copy.cta, row.columns, row.bytes) == ((0, 5), 0, row.row_bytes // 4, row.rows * row.row_bytes)
    written = np.zeros((LANES, 512), bool)
    for r in range(row.rows):
        linear = [AT + r // 8 * sbo + r % 8 * width + (b if width > 16 else b % 16 + b // 16 * lbo) for b in range(row.row_bytes)]
        source = [hand.FUNCTORS[swizzle](a) for a in linear]
        wanted = data[np.array(source) - AT].view("<u4")
        for lane in lanes_by_hand(shape, multicast, r):
            written[lane, 20 : 20 + row.columns] = True
            assert (tmem.read(lane, 20 + np.arange(row.columns)) == wanted).all()
            for column, byte in ((0, 0), (row.columns - 1, 3)):
                owner = tmem.owner(lane, 20 + column, byte)
                at = source[4 * column + byte] - AT
                assert (owner.writer, owner.where) == (copy, (r, 4 * column + byte))
                assert (owner.source.writer.label, owner.source.where) == (f"bytes from {at // 256 * 256} on", (at % 256,))
    assert ((tmem.owners(*np.indices((LANES, 512)))[0][..., 0] >= 0) == written).all()


def test_a_public_readback_of_128x256b_without_swizzle(tmem):
    """Word i holds 0xc0000000 | i; with LBO 16 B and SBO 128 B lane r begins with word 4 r (on a B200,
    github.com/cicuvc/nvidia-sass-document).
    """
    shared = SharedMemory("sm_100a")
    shared.write(AT, np.arange(1024, dtype=np.uint32) | np.uint32(0xC0000000))
    tcgen05_cp(tmem, 0, descriptor(lbo=16, sbo=128), shape="128x256b", shared=shared)
    found = tmem.ld(ALL).reshape(LANES, 8)
    assert (found == (0xC0000000 | 4 * np.arange(LANES)[:, None] + np.arange(8))).all()


@pytest.mark.parametrize("step", range(4))
def test_what_tma_loads_arrives_in_the_registers_with_its_coordinates(tmem, step):
    """128 x 32 words under 128B swizzle, copied 32 bytes of K at a time, as in tilus's test of tcgen05.cp."""
    world, shared = GlobalMemory(), SharedMemory("sm_100a")
    matrix = random_cells(256, 64, seed=step)
    base = world.place(matrix)
    tm = TensorMap.tiled(
        data_type="u32", global_address=base, global_dim=(64, 256), global_strides=(256,), box_dim=(32, 128), swizzle="128B"
    )
    transfer = shared.tma_load(tm, (32, 100), smem_address=0x800, source=world)
    word = 0x4000404000010000 | (0x800 + 32 * step) >> 4
    tcgen05_cp(tmem, 64, word, shape="128x256b", shared=shared)
    registers = tmem.ld(TmemAccess("32x32b", repeat=8, taddr=64)).reshape(LANES, 8)
    assert (registers == matrix[100:228, 32 + 8 * step : 40 + 8 * step]).all()
    for lane, column in [(0, 0), (77, 5), (127, 7)]:
        origin = tmem.owner(lane, 64 + column, 2).origin
        assert origin.writer is transfer
        assert origin.where == (32 + 8 * step + column, 100 + lane)


def test_scales_arrive_where_the_multiplication_looks_for_them(tmem):
    """Blocks of 128 x 4 scales in shared memory, two of them for 256 rows of B: 32x128b.warpx4 four columns apart."""
    scales = np.random.default_rng(3).integers(0, 256, (256, 4)).astype(np.uint8)
    layout = ScaleLayout("B", m=128, n=256, kind="mxf4nvf4", scale_vec="4X", column=32)
    offset = layout.smem_offset(np.arange(256)[:, None], np.arange(4))
    block = np.zeros(1024, np.uint8)
    block[offset] = scales
    shared = SharedMemory("sm_100a")
    shared.write(AT, block, label="scales")
    for i in range(2):
        tcgen05_cp(tmem, 32 + 4 * i, descriptor(AT + 512 * i, lbo=0, sbo=128), shape="32x128b", multicast="warpx4", shared=shared)
    for copy in range(layout.copies):
        _, lane, column, byte = layout.location(np.arange(256)[:, None], np.arange(4), copy)
        assert (tmem.read(lane, column) >> (8 * byte).astype(np.uint32) & 0xFF == scales).all()
    lane, column, byte = layout.location(200, 3, 2)[1:]
    assert tmem.owner(lane, column, byte).origin.where == (int(offset[200, 3]),)


def test_narrow_elements_stand_in_their_byte_as_tirx_reads_them_on_a_b200():
    """TIRx-harness 0.1.2.post2, test_tcgen05_transfer.py: codes of 4 bits moved up by 2, of 6 bits as they are."""
    four = decompress(np.array([[0x5F] + [0] * 15], np.uint8), "b4x16_p64")
    assert four[0, :3].tolist() == [0b00111100, 0b00010100, 0]
    six = decompress(np.array([[0xFF, 0xF0] + [0] * 14], np.uint8), "b6x16_p32")
    assert six[0, :4].tolist() == [0b00111111, 0b00000011, 0b00001111, 0]


def test_e2m1_in_its_byte_is_the_same_number_as_e2m3():
    """One decoder is enough for both: E2M1's sign, exponent and fraction begin where those of E2M3 do."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    codes = np.arange(16, dtype=np.uint8)
    packed = np.zeros((1, 16), np.uint8)
    packed[0, :8] = codes[::2] | codes[1::2] << 4
    byte = decompress(packed, "b4x16_p64")[0]
    assert (byte.view(ml_dtypes.float6_e2m3fn).astype(np.float32) == codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32)).all()


@pytest.mark.parametrize("name", DECOMPRESSIONS)
@examples(30)
@given(st.data())
def test_decompressed_elements_stand_in_bytes_of_their_own(name, data):
    fmt = DECOMPRESSIONS[name]
    codes = np.array(data.draw(st.lists(st.integers(0, (1 << fmt.bits) - 1), min_size=32, max_size=32)), np.uint64)
    chunks = np.full(32, 0xA5, np.uint8)  # the gaps hold anything
    for chunk in range(2):
        packed = sum(int(code) << fmt.bits * i for i, code in enumerate(codes[16 * chunk : 16 * chunk + 16]))
        chunks[16 * chunk : 16 * chunk + 2 * fmt.bits] = np.frombuffer(packed.to_bytes(2 * fmt.bits, "little"), np.uint8)
    found = decompress(chunks.reshape(1, 32), name)[0]
    assert (found == codes << np.uint64(fmt.shift)).all()


@pytest.mark.parametrize("name", DECOMPRESSIONS)
@pytest.mark.parametrize(("shape", "multicast"), SHAPES)
def test_a_decompressing_copy_moves_elements_and_knows_their_bytes(tmem, shape, multicast, name):
    shared, data = filled()
    fmt, row = DECOMPRESSIONS[name], COPY_SHAPES[shape, multicast]
    (copy,) = tcgen05_cp(tmem, 0, descriptor(lbo=128, sbo=256), shape=shape, multicast=multicast, src_fmt=f".{name}", shared=shared)
    assert copy.grade is (Grade.INFERRED if shape == "4x256b" else Grade.COMPILED)
    for r in range(0, row.rows, 3):
        for element in range(0, row.row_bytes, 5):
            chunk, i = divmod(element, 16)
            at = r // 8 * 256 + r % 8 * 16 + chunk * 128
            bits = int.from_bytes(data[at : at + 16].tobytes(), "little") >> fmt.bits * i & (1 << fmt.bits) - 1
            for lane in lanes_by_hand(shape, multicast, r):
                cell = tmem.read(lane, element // 4)
                assert cell >> 8 * (element % 4) & 0xFF == bits << fmt.shift
                source = tmem.owner(lane, element // 4, element % 4).source
                assert source.where == ((at + fmt.bits * i // 8) % 256,)


def test_fp4_that_tma_leaves_with_gaps_keeps_its_coordinates(tmem):
    """16U4_ALIGN16B: 8 bytes of elements, 8 of gap, in every chunk; .b4x16_p64 closes the gap."""
    world, shared = GlobalMemory(), SharedMemory("sm_100a")
    packed = np.random.default_rng(1).integers(0, 256, (128, 64)).astype(np.uint8)  # 128 elements a row
    base = world.place(packed)
    tm = TensorMap.tiled(
        data_type="16U4_ALIGN16B", global_address=base, global_dim=(128, 128), global_strides=(64,), box_dim=(128, 128), swizzle="128B"
    )
    transfer = shared.tma_load(tm, (0, 0), smem_address=0x800, source=world)
    tcgen05_cp(tmem, 0, 0x4000404000010000 | (0x800 + 32) >> 4, shape="128x256b", src_fmt="b4x16_p64", shared=shared)
    for row, element in [(0, 0), (1, 1), (90, 17), (127, 31)]:
        code = int(packed[row, (32 + element) // 2]) >> 4 * (element % 2) & 0xF
        assert tmem.read(row, element // 4) >> 8 * (element % 4) & 0xFF == code << 2
        origin = tmem.owner(row, element // 4, element % 4).origin
        assert origin.writer is transfer
        assert isinstance(origin.writer, Transfer)
        assert origin.where == (32 + element - element % 2, row)  # the byte's first element


def test_a_pair_copies_each_from_its_own_shared_memory():
    memories, sources = (TensorMemory(), TensorMemory()), (filled(1), filled(2))
    for memory in memories:
        memory.alloc(32, cta_group=2)
    copies = tcgen05_cp(
        memories, 4, descriptor(sbo=128), shape="32x128b", multicast="warpx4", shared=tuple(s for s, _ in sources), cta_group=2
    )
    assert [copy.cta for copy in copies] == [0, 1]
    assert {copy.grade for copy in copies} == {Grade.INFERRED}
    for memory, (_, data) in zip(memories, sources, strict=True):
        assert (memory.read(np.arange(64, 96)[:, None], np.arange(4, 8)) == data[:512].view("<u4").reshape(32, 4)).all()
    assert "32x128b.warpx4" in repr(copies[1])
    assert "inferred" in repr(copies[1])


def test_shared_bytes_nobody_wrote_end_the_chain(tmem):
    tcgen05_cp(tmem, 0, descriptor(0x2000), shape="4x256b", shared=SharedMemory("sm_100a"))
    owner = tmem.owner(32, 1)
    assert (owner.where, owner.source, owner.origin) == ((1, 4), None, owner)


def test_4x256b_counts_its_lanes_from_the_address(tmem):
    shared, _ = filled()
    tcgen05_cp(tmem, TmemAddress(31, 0), descriptor(lbo=128, sbo=128), shape="4x256b", shared=shared)
    assert tmem.cells.any(1).nonzero()[0].tolist() == [31, 63, 95, 127]


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"shape": "64x256b"}, InputError, r"tcgen05\.cp has 128x256b, .*did you mean"),
        ({"shape": "64x128b"}, InputError, r"\.64x128b takes 'warpx2::02_13' or 'warpx2::01_23'"),
        ({"shape": "32x128b", "multicast": "warpx2::02_13"}, InputError, r"takes 'warpx4'"),
        ({"multicast": "warpx4"}, InputError, r"\.128x128b takes none"),
        ({"src_fmt": "b5x16"}, InputError, r"b4x16_p64 and b6x16_p32"),
        ({"taddr": 1 << 16}, InputError, r"lane 1; \.128x128b fills the lanes from lane 0 on"),
        ({"shape": "4x256b", "taddr": 32 << 16}, InputError, "lanes 0 to 31"),
        ({"taddr": 509}, Unmodelled, "pass column 511"),
        ({"cta_group": 2}, InputError, r"cta_group::2 needs a pair of TensorMemory"),
        ({"cta_group": 3}, InputError, "cta_group = 3"),
        ({"shared": None}, InputError, "needs a SharedMemory"),
        ({"descriptor": 3 << 61}, Unmodelled, "layout code 3"),
        ({"descriptor": descriptor(0x38F00)}, HardwareTrap, "past the end of the CTA's shared window"),
    ],
)
def test_copies_that_there_are_not_are_refused(tmem, changes, error, says):
    shared, _ = filled()
    good = {"taddr": 0, "descriptor": descriptor(), "shape": "128x128b", "shared": shared}
    tcgen05_cp(tmem, **good)
    with pytest.raises(error, match=says):
        tcgen05_cp(tmem, **good | changes)
    assert len(tmem.writers) == 1  # and nothing was written


# ---- tcgen05.shift -----------------------------------------------------------------------------------------------------------------


def test_a_shift_moves_32_bytes_of_every_lane_but_the_last_of_32():
    """A readback on a B200 by github.com/cicuvc/nvidia-sass-document: rows 0 to 127 become 1..31,31 | 33..63,63 |
    65..95,95 | 97..127,127.
    """
    memory = TensorMemory()
    memory.alloc(32)
    memory.write_cells(np.arange(LANES)[:, None], np.arange(32), np.arange(LANES)[:, None] * np.ones(32, np.int64), "rows")
    tcgen05_shift(memory, 8)
    shifted = [*range(1, 32), 31, *range(33, 64), 63, *range(65, 96), 95, *range(97, 128), 127]
    lanes = np.arange(LANES)
    for column in range(32):
        assert memory.read(lanes, column).tolist() == (shifted if 8 <= column < 16 else lanes.tolist())
        assert [memory.owner(lane, column).where[0] // 32 for lane in (0, 31, 32, 90)] == [
            (shifted if 8 <= column < 16 else lanes)[lane] for lane in (0, 31, 32, 90)
        ]


@examples(20)
@given(st.integers(1, 40))
def test_shifts_add_up_until_every_lane_holds_the_last_one(times):
    memory = TensorMemory()
    memory.alloc(32)
    memory.write_cells(np.arange(LANES), 3, np.arange(LANES), "rows")
    for _ in range(times):
        tcgen05_shift(memory, 0)
    lanes = np.arange(LANES)
    assert (memory.read(lanes, 3) == np.minimum(lanes + times, lanes // 32 * 32 + 31)).all()


def test_shifts_that_are_not_or_not_known(tmem):
    with pytest.raises(InputError, match=r"lane 16; tcgen05\.shift needs a multiple of 32"):
        tcgen05_shift(tmem, 16 << 16)
    with pytest.raises(Unmodelled, match="which lanes a shift at lane 32 moves is not known"):
        tcgen05_shift(tmem, 32 << 16)
    with pytest.raises(Unmodelled, match="pass column 511"):
        tcgen05_shift(tmem, 505)
    pair = (TensorMemory(), TensorMemory())
    for memory in pair:
        memory.alloc(32, cta_group=2)
        memory.write_cells(np.arange(LANES), 0, np.arange(LANES), "rows")
    tcgen05_shift(pair, 0, cta_group=2)
    assert [memory.read(0, 0) for memory in pair] == [1, 1]


# ---- how fast ----------------------------------------------------------------------------------------------------------------------


def test_the_largest_tile_is_written_at_once(tmem):
    """One call for 128 x 256 cells and their owners, whatever the shape of the index arrays."""
    layout, values = AccumulatorLayout(128, 256), random_cells(128, 256)
    m, n = np.indices((128, 256))
    _, lane, column = layout.location(m.ravel(), n.ravel())
    tmem.write_cells(lane, column, values.ravel(), Product(layout))
    assert len(tmem.writers) == 1
    assert (tmem.cells[:, :256] == values).all()
    assert tmem.owner(127, 255, 1).where == (127, 255)


# ---- whole matrices ----------------------------------------------------------------------------------------------------------------

WHOLE = [
    (1, AccumulatorLayout(128, 64, column=32), 32), (2, AccumulatorLayout(128, 64, 2), 32), (1, AccumulatorLayout(32, 64, ws=True), 32),
    (1, ATmemLayout(64, "f16", ws=True, column=100), 16), (2, ATmemLayout(128, "f8f6f4", 2), 8), (1, ATmemLayout(128, "mxf4"), 4),
    (1, ScaleLayout("A", m=128, n=64, kind="mxf4", scale_vec="2X", scale_id=2), 8),
    (2, ScaleLayout("B", m=256, n=256, kind="mxf4nvf4", scale_vec="4X", cta_group=2, column=9), 8),
    (1, ScaleLayout("B", m=128, n=64, kind="mxf4", scale_vec="2X", scale_id=2), 8), (1, ScaleLayout("A", m=128, n=256, kind="mxf8f6f4", scale_vec="1X"), 8),
    (1, MetadataLayout(128, "f16", selector=1, column=4), 4), (1, MetadataLayout(64, "tf32", ws=True), 4), (2, MetadataLayout(256, "mxf4", 2), 4),
]  # fmt: skip


@pytest.mark.parametrize(("ctas", "layout", "bits"), WHOLE, ids=lambda x: type(x).__name__ if hasattr(x, "grade") else str(x))
def test_whole_matrices_go_into_every_copy_and_come_back(ctas, layout, bits):
    memories = [TensorMemory() for _ in range(ctas)]
    for memory in memories:
        memory.alloc(512, cta_group=ctas)
        memory.write_cells(np.arange(LANES)[:, None], np.arange(512), random_cells(LANES, 512, seed=3), "before")
    given = tuple(memories) if ctas > 1 else memories[0]
    shape = tmem_take(given, layout).shape
    assert shape[0] == (layout.n if getattr(layout, "operand", "") == "B" else layout.m)
    values = np.random.default_rng(1).integers(0, 1 << bits, shape)
    before = np.stack([memory.cells.copy() for memory in memories])
    tmem_put(given, layout, values, label="mine")
    for copy in range(getattr(layout, "copies", 1)):
        assert (tmem_take(given, layout, copy=copy) == values).all()
    changed = before ^ np.stack([memory.cells for memory in memories])
    assert not (changed & ~covered(layout, before.shape)).any()
    for number, memory in enumerate(memories):
        for lane, column in list(zip(*np.nonzero(changed[number]), strict=True))[::37]:
            for byte in range(4):
                if int(changed[number][lane, column]) >> 8 * byte & 0xFF:
                    owner = memory.owner(lane, column, byte)
                    assert owner.writer.label == "mine"
                    assert owner.where == first_entry(layout, number, lane, column, byte)
    inside = covered(layout, before.shape)[0]
    lane, column = (int(x[0]) for x in np.nonzero(inside == 0))
    assert memories[0].owner(lane, column).writer == "before"


def first_entry(layout, cta, lane, column, byte):
    """(row, column) of the entry of the matrix that the byte's lowest bit belongs to, by the layout's own element()."""
    if isinstance(layout, AccumulatorLayout):
        return layout.element(cta, lane, column)
    if isinstance(layout, ScaleLayout):
        return layout.element(cta, lane, column, byte)
    m, k = layout.element(cta, lane, column, 8 * byte)
    return m, k // METADATA[layout.kind].chunk if isinstance(layout, MetadataLayout) else k


def covered(layout, shape):
    """The bits that the layout has, by its own element(): every cell and unit is asked what it holds."""
    mask = np.zeros(shape, np.uint32)
    cta, lane, column = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    if isinstance(layout, AccumulatorLayout):
        mask[layout.element(cta, lane, column)[0] >= 0] = 0xFFFFFFFF
        return mask
    units, bits = (4, 8) if isinstance(layout, ScaleLayout) else (32, 1)
    for unit in range(units):
        held = layout.element(cta, lane, column, np.full_like(cta, unit))[0] >= 0
        mask[held] |= np.uint32((1 << bits) - 1 << unit * bits)
    return mask


def test_what_does_not_fit_a_layout_is_a_sentence():
    memory, layout = TensorMemory(), ATmemLayout(128, "f16")
    memory.alloc(32)
    for call, says in (
        (lambda: tmem_put(memory, layout, np.zeros((128, 8), int)), r"shape \(128, 16\)"),
        (lambda: tmem_put(memory, layout, np.full((128, 16), 1 << 16)), "16 bits"),
        (lambda: tmem_put(memory, layout, [[1]]), "not list"),
        (lambda: tmem_put(memory, "D", np.zeros((1, 1), int)), "AccumulatorLayout"),
        (lambda: tmem_take((memory, memory), layout), "needs a TensorMemory"),
        (lambda: tmem_take(memory, layout, copy=1), "1 times"),
    ):
        with pytest.raises(InputError, match=says):
            call()


def test_numpys_numbers_do_not_wrap_in_layouts():
    assert ATmemLayout(128, "f16", column=np.uint8(250)).location(0, 15)[2] == 257
    assert ScaleLayout("A", m=128, n=64, kind="mxf4", scale_vec="2X", column=np.uint8(254)).location(127, 0)[2] == 257
    assert TmemAccess("16x256b", repeat=np.uint8(32), pack=True).width == 512
    assert hash(ATmemLayout(128, "f16", column=np.array(3))) == hash(ATmemLayout(128, "f16", column=3))


def test_an_address_is_computed_as_kernels_do_it():
    at = TensorMemory().alloc(64)
    assert (at + 5, at | 16 << 16) == (TmemAddress(0, 5), TmemAddress(16, 0))
    assert str(at + 5) == "0x5 (lane 0, column 5)"
    for layout in (layout for _, layout, _ in WHOLE):
        assert repr(layout).endswith(str(layout.grade))
    assert repr(TmemAccess("32x32b", 4, taddr=TmemAddress(0, 16))) == "TmemAccess('32x32b', 4, taddr=0x10)  # documented"


def test_memories_of_two_architectures_do_not_go_together():
    shared, tensor = SharedMemory("sm_103a"), TensorMemory("sm_100a")
    tensor.alloc(32)
    with pytest.raises(InputError, match="sm_100a, sm_103a"):
        tcgen05_cp(tensor, 0, 0x40, shape="128x128b", shared=shared)
    for shape, multicast, src_fmt in ((["x"], "", ""), ("32x128b", ["x"], ""), ("128x128b", "", ["x"])):
        with pytest.raises(InputError):
            tcgen05_cp(tensor, 0, 0x40, shape=shape, multicast=multicast, src_fmt=src_fmt, shared=SharedMemory("sm_100a"))


def test_a_shift_of_a_pair_needs_the_columns_of_a_pair():
    tmem = TensorMemory()
    tmem.alloc(32)
    with pytest.raises(InputError, match="cta_group"):
        tcgen05_shift((tmem, TensorMemory()), 0, cta_group=2)
    with pytest.raises(InputError, match="an instruction has one architecture"):
        tcgen05_shift((TensorMemory(), TensorMemory("sm_103a")), 0, cta_group=2)


def test_nothing_moves_where_a_part_of_it_cannot():
    """A pair of which one CTA has no columns: tcgen05.shift and tmem_put leave both alone; so does a store whose upper
    half is not allocated.
    """
    memories = TensorMemory(), TensorMemory()
    memories[0].alloc(32, cta_group=2)
    memories[1].check_group(2)
    memories[0].write_cells(np.arange(LANES)[:, None], np.arange(32), random_cells(LANES, 32), "before")
    before = memories[0].cells.copy()
    for call in (
        lambda: tcgen05_shift(memories, 0, cta_group=2),
        lambda: tmem_put(memories, AccumulatorLayout(256, 16, 2), np.ones((256, 16), int)),
        lambda: memories[0].st(TmemAccess("32x32b", 1, pack=True, taddr=31), np.ones((4, 32, 1), np.uint32)),
    ):
        with pytest.raises(InputError, match="not allocated"):
            call()
        assert (memories[0].cells == before).all()
