"""tcgen05.mma on the memories of a CTA or a pair: D is A times B, term by term, for every kind, layout and source."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import smemsim
from mma import AT, encode, lay_out, memories, numbers, one_or_pair, read_d
from smemsim import (
    AccumulatorLayout,
    ATmemLayout,
    GlobalMemory,
    Grade,
    HardwareTrap,
    InputError,
    InstrDescriptor,
    MetadataLayout,
    ScaleLayout,
    TensorMap,
    TmemAccess,
    TmemAddress,
    Unmodelled,
    element_value,
    tcgen05_cp,
    tcgen05_mma,
)
from smemsim.core.layout.tcgen05 import is_zero_column
from smemsim.core.machine import Tcgen05Mma
from smemsim.core.machine.tcgen05 import prepare
from smemsim.core.spec.tcgen05 import KINDS

B_AT = AT + 0x10000


def run(i, rng, *, cta_group=1, ws=False, swizzles=("128B", "128B"), a_tensor=False, lane=0, values=None, **options):
    """Lay out random A and B, multiply, and return everything: (result, D that was read, A, B, tensor memories)."""
    shared, tensor = memories(cta_group)
    stored = i.k // 2 if i.sparsity else i.k
    a, b = values or (numbers(rng, (i.m, stored), i.a_type), numbers(rng, (i.n, i.k), i.b_type))
    half_m, half_n = i.m // cta_group, i.n // cta_group
    packing = KINDS[i.kind].packing
    for cta, memory in enumerate(shared):
        word_a = lay_out(memory, a[cta * half_m : (cta + 1) * half_m], i.a_type, i.a_major, swizzles[0], AT, packing=packing)
        word_b = lay_out(memory, b[cta * half_n : (cta + 1) * half_n], i.b_type, i.b_major, swizzles[1], B_AT, packing=packing)
    source = word_a
    if a_tensor:
        source = TmemAddress(lane, 384)
        store_a(i, a, tensor, cta_group, ws, lane)
    memory_options = {"shared": one_or_pair(shared)}
    d = TmemAddress(lane, 0)
    prepared = {name: value(tensor) if callable(value) else value for name, value in options.items()}
    result = tcgen05_mma(
        one_or_pair(tensor), d, source, word_b, i, cta_group=cta_group, ws=ws, **{"enable_input_d": False}, **memory_options, **prepared
    )
    layout = AccumulatorLayout(i.m, i.n, cta_group, ws=ws, sparse=i.sparsity, lane=lane)
    return result, read_d(layout, tensor, i.d_type), a, b, tensor


def store_a(i, a, tensor, cta_group, ws, lane):
    """A into tensor memory through its layout, every copy of it."""
    layout = ATmemLayout(i.m, i.kind, cta_group, ws=ws, sparse=i.sparsity, lane=lane, column=384)
    middle = {"e2m1": 2} if layout.bits == 8 else {}
    raw = encode(a, i.a_type).astype(np.uint32) << middle.get(i.a_type, 0)
    m, k = np.meshgrid(np.arange(i.m), np.arange(layout.k), indexing="ij")
    for copy in range(layout.copies):
        cta, where, column, bit = layout.location(m, k, copy)
        for number, memory in enumerate(tensor):
            cells = memory.cells.copy()
            mine = cta == number
            np.bitwise_or.at(cells, (where[mine], column[mine]), raw[mine] << bit[mine].astype(np.uint32))
            memory.write_cells(np.arange(128)[:, None], np.arange(384, 392), cells[:, 384:392], "threads")


# fmt: off
KINDS_AND_TYPES = [
    ("f16", "f16", "f16", "f32"), ("f16", "f16", "f16", "f16"), ("f16", "bf16", "bf16", "f32"), ("tf32", "tf32", "tf32", "f32"),
    ("f8f6f4", "e4m3", "e5m2", "f32"), ("f8f6f4", "e2m1", "e4m3", "f16"), ("f8f6f4", "e3m2", "e2m3", "f32"),
    ("i8", "s8", "u8", "s32"), ("i8", "u8", "u8", "s32"),
]
FORMS = [  # cta_group, ws, M, N
    (1, False, 128, 64), (1, False, 64, 24), (2, False, 256, 32), (2, False, 128, 64), (1, True, 128, 64), (1, True, 64, 64), (1, True, 32, 128),
]
# fmt: on


@pytest.mark.parametrize(("cta_group", "ws", "m", "n"), FORMS)
@pytest.mark.parametrize(("kind", "a_type", "b_type", "d_type"), KINDS_AND_TYPES)
def test_d_is_a_times_b_for_every_kind_and_layout(kind, a_type, b_type, d_type, cta_group, ws, m, n):
    rng = np.random.default_rng(m * n + cta_group)
    i = InstrDescriptor(kind=kind, m=m, n=n, a_type=a_type, b_type=b_type, d_type=d_type)
    result, d, a, b, _ = run(i, rng, cta_group=cta_group, ws=ws)
    assert (d == a @ b.T).all()
    assert result.certain.all()
    assert result.grade is not Grade.MEASURED


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B", "128B_ATOM_32B"])
@pytest.mark.parametrize("majors", list(itertools.product(["K", "MN"], repeat=2)))
@pytest.mark.parametrize(("kind", "dtype"), [("f16", "bf16"), ("tf32", "tf32"), ("f8f6f4", "e4m3"), ("i8", "s8")])
def test_both_majors_and_every_swizzle_give_the_same_d(kind, dtype, majors, swizzle):
    i = InstrDescriptor(kind=kind, m=64, n=32, a_type=dtype, b_type=dtype, a_major=majors[0], b_major=majors[1])
    legal = [(swizzle == "128B_ATOM_32B") == (major == "MN" and dtype == "tf32") for major in majors]
    if not all(legal):
        if swizzle == "128B_ATOM_32B" or "MN" in majors:
            with pytest.raises(InputError, match="I602"):
                run(i, np.random.default_rng(1), swizzles=(swizzle, swizzle))
        return
    _, d, a, b, _ = run(i, np.random.default_rng(1), swizzles=(swizzle, swizzle))
    assert (d == a @ b.T).all()


@pytest.mark.parametrize(("cta_group", "ws", "m", "n"), FORMS)
@pytest.mark.parametrize(("kind", "dtype"), [("f16", "f16"), ("tf32", "tf32"), ("f8f6f4", "e2m1"), ("f8f6f4", "e3m2"), ("i8", "s8")])
def test_a_in_tensor_memory_is_read_from_the_lanes_of_d(kind, dtype, cta_group, ws, m, n):
    i = InstrDescriptor(kind=kind, m=m, n=n, a_type=dtype, b_type=dtype)
    result, d, a, b, _ = run(i, np.random.default_rng(2), cta_group=cta_group, ws=ws, a_tensor=True)
    assert (d == a @ b.T).all()
    assert result.a[0].space == "tensor"
    element = result.a[-1].element(m - 1, 3)
    assert (element.writer, element.coordinate) == ("threads", None)
    assert element.place.removeprefix("CTA 1 ").startswith("tensor lane")


def test_half_of_the_lanes_can_be_the_other_half():
    i = InstrDescriptor(kind="f16", m=64, n=16, a_type="f16", b_type="f16")
    _, d, a, b, tensor = run(i, np.random.default_rng(3), lane=16)
    assert (d == a @ b.T).all()
    assert tensor[0].owner(15, 0) is None
    assert tensor[0].owner(16, 0).where[:2] == (0, 0)


def test_every_band_reads_its_own_copy_of_a():
    """.ws with M = 64: the lower lanes multiply with the lower half of N; another A in the upper lanes changes the
    upper half alone.
    """
    i = InstrDescriptor(kind="f16", m=64, n=64, a_type="f16", b_type="f16")
    shared, tensor = memories(1)
    rng = np.random.default_rng(4)
    a, other, b = (numbers(rng, shape, "f16") for shape in ((64, 16), (64, 16), (64, 16)))
    word = lay_out(shared[0], b, "f16", "K", "32B", B_AT)
    store_a(i, a, tensor, 1, True, 0)
    upper = tensor[0].cells[:, 384:392].copy()
    tensor[0].cells[:] = 0
    store_a(i, other, tensor, 1, True, 0)
    tensor[0].write_cells(np.arange(64)[:, None], np.arange(384, 392), upper[:64], "threads")
    result = tcgen05_mma(tensor[0], 0, TmemAddress(0, 384), word, i, shared=shared[0], ws=True, enable_input_d=False)
    d = result.d.view(np.float32)
    assert (d[:, :32] == a @ b[:32].T).all()
    assert (d[:, 32:] == other @ b[32:].T).all()
    for n, mine in ((5, a), (40, other)):
        assert [t.a.value for t in result.terms(7, n)] == mine[7].tolist()


def sparse_matrix(rng, i):
    """(stored A, nibbles (M, groups), the dense matrix they stand for)."""
    chunk = {"tf32": 2, "f16": 4, "f8f6f4": 4, "i8": 4, "mxf8f6f4": 4, "mxf4": 8, "mxf4nvf4": 8}[i.kind]
    legal = [0b0100, 0b1110] if chunk == 2 else [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110]
    stored = numbers(rng, (i.m, i.k // 2), i.a_type)
    nibbles = rng.choice(legal, (i.m, i.k // chunk))
    dense = np.zeros((i.m, i.k), np.int64)
    for m, g in np.ndindex(*nibbles.shape):
        first, second = nibbles[m, g] & 3, nibbles[m, g] >> 2
        half = chunk // 2
        kept = stored[m, g * half : (g + 1) * half]
        if chunk == 2:
            dense[m, 2 * g + second // 2] = kept[0]
        elif chunk == 4:
            dense[m, 4 * g + first], dense[m, 4 * g + second] = kept
        else:
            dense[m, 8 * g + 2 * first : 8 * g + 2 * first + 2] = kept[:2]
            dense[m, 8 * g + 2 * second : 8 * g + 2 * second + 2] = kept[2:]
    return stored, nibbles, dense, chunk


def put_metadata(i, nibbles, chunk, tensor, *, ws=False):
    """The metadata into tensor memory at column 448, every copy of it."""
    layout = MetadataLayout(i.m, i.kind, len(tensor), ws=ws, selector=i.sparsity_selector, column=448)
    m, k = np.meshgrid(np.arange(i.m), np.arange(0, i.k, chunk), indexing="ij")
    for copy in range(layout.copies):
        cta, lane, column, bit = layout.location(m, k, copy)
        for number, memory in enumerate(tensor):
            cells, mine = memory.cells[:, 448:452].copy(), cta == number
            np.bitwise_or.at(cells, (lane[mine], column[mine] - 448), nibbles[mine].astype(np.uint32) << bit[mine].astype(np.uint32))
            memory.write_cells(np.arange(128)[:, None], np.arange(448, 452), cells, "metadata")
    return TmemAddress(0, 448)


SPARSE = [("f16", "f16", 0), ("f16", "bf16", 1), ("tf32", "tf32", 0), ("tf32", "tf32", 1), ("f8f6f4", "e5m2", 0), ("i8", "s8", 0)]


@pytest.mark.parametrize(("cta_group", "ws", "m", "n"), [(1, False, 128, 32), (2, False, 256, 32), (1, True, 64, 64), (1, True, 32, 64)])
@pytest.mark.parametrize(("kind", "dtype", "selector"), SPARSE)
def test_sparse_a_meets_the_elements_of_b_that_its_metadata_names(kind, dtype, selector, cta_group, ws, m, n):
    i = InstrDescriptor(kind=kind, m=m, n=n, a_type=dtype, b_type=dtype, sparsity=True, sparsity_selector=selector)
    rng = np.random.default_rng(5)
    stored, nibbles, dense, chunk = sparse_matrix(rng, i)
    b = numbers(rng, (n, i.k), dtype)
    result, d, _, _, _ = run(
        i, rng, cta_group=cta_group, ws=ws, values=(stored, b), metadata=lambda t: put_metadata(i, nibbles, chunk, t, ws=ws)
    )
    assert (d == dense @ b.T).all()
    terms = result.terms(m - 1, 2)
    assert len(terms) == i.k // 2
    assert sum(t.product for t in terms) == (dense @ b.T)[m - 1, 2]
    assert all(t.b.k == t.k for t in terms)


@pytest.mark.parametrize(("kind", "dtype", "zero"), [("f16", "f16", 0.0), ("f16", "bf16", -0.0), ("f8f6f4", "e4m3", 0.0), ("i8", "s8", 0)])
def test_metadata_0_stands_for_a_group_of_zeros_and_for_no_other(kind, dtype, zero):
    i = InstrDescriptor(kind=kind, m=128, n=32, a_type=dtype, b_type=dtype, sparsity=True)
    rng = np.random.default_rng(6)
    stored, nibbles, dense, chunk = sparse_matrix(rng, i)
    stored, b = stored.astype(type(zero)), numbers(rng, (32, i.k), dtype)
    stored[9, 2:4], nibbles[9, 1], dense[9, 4:8] = zero, 0, 0

    def put(tensor):
        return put_metadata(i, nibbles, chunk, tensor)

    assert (run(i, rng, values=(stored, b), metadata=put)[1] == dense @ b.T).all()
    stored[9, 3] = 1
    with pytest.raises(Unmodelled, match=r"metadata of row 9, K 4 on, .* stands for a group of zeros"):
        run(i, rng, values=(stored, b), metadata=put)


def test_metadata_that_no_document_lists_is_not_guessed():
    i = InstrDescriptor(kind="f16", sparsity=True, m=128, n=16)
    with pytest.raises(Unmodelled, match="0b0000"):
        run(i, np.random.default_rng(0), metadata=TmemAddress(0, 448))


SCALED = [
    ("mxf8f6f4", "e4m3", "e2m1", "ue8m0", "1X"), ("mxf8f6f4", "e5m2", "e3m2", "ue8m0", None), ("mxf4", "e2m1", "e2m1", "ue8m0", "2X"),
    ("mxf4nvf4", "e2m1", "e2m1", "ue8m0", "block32"), ("mxf4nvf4", "e2m1", "e2m1", "ue4m3", "4X"), ("mxf4nvf4", "e2m1", "e2m1", "ue8m0", "block16"),
]  # fmt: skip


def put_scales(i, bits, operand, vector, tensor, column):
    """Scale factors (rows, scales) into tensor memory, every copy of them."""
    scale_id = i.a_sf_id if operand == "A" else i.b_sf_id
    layout = ScaleLayout(operand, m=i.m, n=i.n, kind=i.kind, scale_vec=vector, cta_group=len(tensor), scale_id=scale_id, column=column)
    row, index = np.meshgrid(np.arange(len(bits)), np.arange(layout.scales), indexing="ij")
    for copy in range(layout.copies):
        cta, lane, at, byte = layout.location(row, index, copy)
        for number, memory in enumerate(tensor):
            cells, mine = memory.cells[:, column : column + 16].copy(), cta == number
            np.bitwise_or.at(cells, (lane[mine], at[mine] - column), bits[mine].astype(np.uint32) << (8 * byte[mine]).astype(np.uint32))
            memory.write_cells(np.arange(128)[:, None], np.arange(column, column + 16), cells, "scales")
    return TmemAddress(0, column)


@pytest.mark.parametrize(("cta_group", "m", "n"), [(1, 128, 40), (2, 256, 64), (2, 128, 64)])
@pytest.mark.parametrize(("kind", "a_type", "b_type", "scale_type", "vector"), SCALED)
def test_block_scaled_sums_multiply_every_block_by_both_factors(kind, a_type, b_type, scale_type, vector, cta_group, m, n):
    ids = {"1X": (3, 1), "2X": (2, 0), "4X": (0, 0)}
    named = vector if vector in ids else {"block16": "4X", None: "4X" if scale_type == "ue4m3" else "1X"}.get(vector, "2X")
    i = InstrDescriptor(
        kind=kind, m=m, n=n, a_type=a_type, b_type=b_type, scale_type=scale_type, a_sf_id=ids[named][0], b_sf_id=ids[named][1]
    )
    rng = np.random.default_rng(6)
    scales = {"1X": 1, "2X": 2, "4X": 4}[named]
    choices = np.array([0x7E, 0x7F, 0x80] if scale_type == "ue8m0" else [0x30, 0x38, 0x3C, 0x40])
    sa, sb = (rng.choice(choices, (rows, scales)) for rows in (m, n))
    result, d, a, b, _ = run(
        i, rng, cta_group=cta_group, scale_a=lambda t: put_scales(i, sa, "A", named, t, 400),
        scale_b=lambda t: put_scales(i, sb, "B", named, t, 420), scale_vec=vector,
    )  # fmt: skip
    worth = [np.vectorize(lambda x: float(element_value(int(x), scale_type)))(s).repeat(i.k // scales, axis=1) for s in (sa, sb)]
    assert (d == (a * worth[0]) @ (b * worth[1]).T).all()
    assert result.certain.all()
    assert Fraction(float(d[3, 5])) == sum(t.product for t in result.terms(3, 5))


def test_copies_of_a_scale_that_differ_are_not_guessed():
    i = InstrDescriptor(kind="mxf4")
    _, tensor = memories(1)
    put_scales(i, np.full((128, 2), 0x7F), "A", "2X", tensor, 400)
    put_scales(i, np.full((128, 2), 0x7F), "B", "2X", tensor, 420)
    tensor[0].write_cells(37, 400, 0x80, "a slip")

    with pytest.raises(Unmodelled, match=r"scale 0 of row 5 of A is 0x7f at CTA 0 lane 5 .* lane 37"):
        run(i, np.random.default_rng(0), scale_a=lambda t: copy_of(tensor, t, 400), scale_b=lambda t: copy_of(tensor, t, 420))
    # D overwrites these columns: that is X012, and the first copy counts
    run(i, np.random.default_rng(0), scale_a=lambda t: copy_of(tensor, t, 400, to=i.n - 16), scale_b=lambda t: copy_of(tensor, t, 420))


def copy_of(source, tensor, column, to=None):
    to = column if to is None else to
    tensor[0].write_cells(np.arange(128)[:, None], np.arange(to, to + 16), source[0].cells[:, column : column + 16], "scales")
    return TmemAddress(0, to)


def test_scales_reach_tensor_memory_through_tcgen05_cp():
    """The whole path of a block-scaled kernel: 512-byte blocks in shared memory, tcgen05.cp.32x128b.warpx4,
    tcgen05.mma.
    """
    i = InstrDescriptor(kind="mxf8f6f4", m=128, n=128, a_type="e4m3", b_type="e4m3", a_sf_id=1, b_sf_id=1)
    shared, tensor = memories(1)
    rng = np.random.default_rng(7)
    a, b = (numbers(rng, (128, 32), "e4m3") for _ in range(2))
    words = [lay_out(shared[0], x, "e4m3", "K", "32B", at) for x, at in ((a, AT), (b, B_AT))]
    scales = rng.integers(0x7C, 0x83, (2, 128, 4)).astype(np.uint8)
    for number, at in enumerate((0x30400, 0x30600)):
        block = np.zeros(512, np.uint8)
        m, k = np.meshgrid(np.arange(128), np.arange(4), indexing="ij")
        block[m % 32 * 16 + m // 32 * 4 + k] = scales[number]
        shared[0].write(at, block, label="scales")
        word = smemsim.SmemDescriptor(arch="sm_100a", start_address=at, stride_byte_offset=128)
        tcgen05_cp(tensor[0], 400 + 8 * number, word, shape="32x128b", multicast="warpx4", shared=shared[0])
    result = tcgen05_mma(
        tensor[0], 0, words[0], words[1], i, shared=shared[0], enable_input_d=False, scale_a=400, scale_b=408, scale_vec="1X"
    )
    factor = np.exp2(scales[..., 1].astype(float) - 127)
    assert (result.d.view(np.float32) == (a @ b.T) * factor[0][:, None] * factor[1][None, :]).all()


def test_d_is_added_scaled_kept_and_negated_as_the_instruction_says():
    i = InstrDescriptor(kind="f16", m=128, n=32, a_type="f16", b_type="f16", negate_a=True)
    shared, tensor = memories(1)
    rng = np.random.default_rng(8)
    a, b = numbers(rng, (128, 16), "f16"), numbers(rng, (32, 16), "f16")
    words = [lay_out(shared[0], x, "f16", "K", "32B", at) for x, at in ((a, AT), (b, B_AT))]
    tensor[0].cells[:] = np.float32(8).view(np.uint32)
    off = (0x80000001, 0, 0, 0x10)
    result = tcgen05_mma(tensor[0], 0, *words, i, shared=shared[0], scale_input_d=2, disable_output_lane=off)
    d = tensor[0].cells[:, :32].view(np.float32)
    disabled = [0, 31, 100]
    on = np.setdiff1d(np.arange(128), disabled)
    assert (d[disabled] == 8).all()
    assert (d[on] == (2 - a @ b.T)[on]).all()
    assert tensor[0].owner(31, 4) is None
    assert tensor[0].owner(33, 4).where[:2] == (33, 4)
    assert float(result.terms(3, 3)[5].product) == -a[3, 5] * b[3, 5]
    assert (~result.written).sum() == 3 * 32
    with pytest.raises(InputError, match="f16 and tf32 without"):
        run(InstrDescriptor(kind="i8", m=64), rng, scale_input_d=1)


@pytest.mark.parametrize(("m", "bands"), [(128, 1), (64, 2), (32, 4)])
def test_the_zero_column_mask_takes_columns_of_b_as_zero(m, bands):
    i = InstrDescriptor(kind="f16", m=m, n=64, a_type="f16", b_type="f16")
    skip, use, starts, firsts = 2, 4, (1, 0, 4, 2), (1, 0, 0, 1)
    word = 1 << 39 | skip << 40 | use << 48
    for band in range(4):
        word |= starts[band] << 8 * band | firsts[band] << 32 + band
    width, zero = 64 // bands, []
    for n in range(64):
        band, column = divmod(n, width)
        pattern = [1] * 3 + [0] * 5 if firsts[band] else [0] * 5 + [1] * 3
        zero.append(bool((pattern * 20)[starts[band] + column]))
    result, d, a, b, _ = run(i, np.random.default_rng(9), ws=True, zero_column_mask=word)
    assert (d == np.where(zero, 0, a @ b.T)).all()
    assert {bool(z) for z in zero} == {True, False}
    assert all(t.product == 0 for t in result.terms(0, zero.index(True)))
    _, d, a, b, _ = run(i, np.random.default_rng(9), ws=True, zero_column_mask=word & ~(1 << 39))
    assert (d == a @ b.T).all()


def test_terms_name_the_byte_and_the_tensor_element_in_both_ctas():
    """A pair loads its halves of A and B with TMA; each term's coordinate is the one that the product needs."""
    shared, tensor = memories(2)
    world = GlobalMemory()
    rng = np.random.default_rng(10)
    tensors = {}
    for side, rows, address in (("a", 256, 1 << 40), ("b", 64, 1 << 41)):
        values = numbers(rng, (rows, 64), "bf16")
        world.place(encode(values, "bf16"), address)
        tm = TensorMap.tiled(
            data_type="bf16", global_address=address, global_dim=(64, rows), global_strides=(128,), box_dim=(64, rows // 2), swizzle="128B"
        )
        tensors[side] = values, tm
    for cta, memory in enumerate(shared):
        memory.tma_load(tensors["a"][1], (0, 128 * cta), smem_address=AT, source=world)
        memory.tma_load(tensors["b"][1], (0, 32 * cta), smem_address=AT + 0x4000, source=world)
    i = InstrDescriptor(kind="f16", m=256, n=64, a_type="bf16", b_type="bf16")
    for step in range(4):
        words = [
            smemsim.SmemDescriptor(arch="sm_100a", start_address=at + 32 * step, stride_byte_offset=1024, swizzle="128B")
            for at in (AT, AT + 0x4000)
        ]
        result = tcgen05_mma(tuple(tensor), 0, *words, i, shared=tuple(shared), cta_group=2, enable_input_d=step > 0)
        for m, n in ((0, 0), (127, 31), (128, 32), (255, 63), (200, 5)):
            for term in result.terms(m, n):
                assert (term.a.coordinate, term.b.coordinate) == ((16 * step + term.k, m), (16 * step + term.k, n))
                assert (term.a.cta, term.b.cta) == (m // 128, n // 32)
                assert (term.a.value, term.b.value) == (tensors["a"][0][m, 16 * step + term.k], tensors["b"][0][n, 16 * step + term.k])
    product = tensors["a"][0] @ tensors["b"][0].T
    for cta in (0, 1):
        loaded = tensor[cta].ld(TmemAccess("32x32b", repeat=64))
        assert (loaded.reshape(128, 64).view(np.float32) == product[128 * cta : 128 * cta + 128]).all()
        owner = tensor[cta].owner(77, 9)
        assert owner.where[:2] == (128 * cta + 77, 9)
        assert owner.writer.cta == cta


def test_a_register_of_a_thread_leads_to_its_element_of_d_and_back():
    """(warp, thread, register) -> (lane, column) -> (m, n), over a whole accumulator and every shape of tcgen05.ld."""
    layout = AccumulatorLayout(128, 256)
    for shape, repeat in (("32x32b", 128), ("16x64b", 128), ("16x128b", 64), ("16x256b", 32)):
        seen = set()
        for lane, column in itertools.product((0, 16) if shape != "32x32b" else (0,), range(0, 256, TmemAccess(shape, repeat).columns)):
            access = TmemAccess(shape, repeat, taddr=TmemAddress(lane, column))
            w, t, r = np.meshgrid(np.arange(4), np.arange(32), np.arange(access.registers), indexing="ij")
            m, n = layout.element(0, *access.location(w, t, r))
            seen |= set(zip(m.ravel().tolist(), n.ravel().tolist(), strict=True))
            warp, thread, register = access.register(*layout.location(m, n)[1:])
            assert (warp == w).all()
            assert (thread == t).all()
            assert (register == r).all()
        assert seen == set(itertools.product(range(128), range(256)))


F16 = InstrDescriptor(kind="f16", m=128, n=16)


def test_a_start_count_behind_the_first_run_leaves_one_column_of_it():
    """As TIRx-harness 0.1.2.post2 has it of an SM100 (zero_column_mask_shift_contract of its engine)."""
    found = [is_zero_column(255, 1, 2, 3, column) for column in range(8)]
    assert found == [True, False, False, False, False, True, True, True]
    assert [is_zero_column(start, 1, 2, 3, 0) for start in range(5)] == [True] * 5
    assert [is_zero_column(start, 0, 2, 3, 0) for start in range(5)] == [False] * 5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"idesc": 0x08040490}, "kind: needs the .kind"),
        ({"idesc": F16, "kind": "tf32"}, "one of kind f16"),
        ({"idesc": InstrDescriptor(kind="f16", m=192)}, "M = 192"),
        ({"cta_group": 2}, "needs a pair of TensorMemory"),
        ({"idesc": InstrDescriptor(kind="f16", m=256, n=16)}, "M = 256 with .cta_group::1"),
        ({"cta_group": 3}, "cta_group = 3"),
        ({"shared": ()}, "needs a SharedMemory"),
        ({"metadata": 0}, "is dense"),
        ({"idesc": InstrDescriptor(kind="f16", sparsity=True, n=16)}, "metadata: the descriptor says sparse"),
        ({"scale_a": 0}, "has no scale factors"),
        ({"idesc": InstrDescriptor(kind="mxf4", n=16)}, "scale_a: kind mxf4 needs"),
        ({"zero_column_mask": 1 << 39}, "only tcgen05.mma.ws"),
        ({"disable_output_lane": (1, 2)}, "4 words"),
        ({"disable_output_lane": 5}, "4 words"),
        ({"scale_input_d": 16}, "2\\^0 to 2\\^15"),
        ({"d": 512}, "columns 0 to 511"),
        ({"d": 16 << 16}, "lane = 16: layout D"),
        ({"a": TmemAddress(3, 0)}, "A and D must begin at the same lane"),
        ({"idesc": InstrDescriptor(kind="f16", m=64, n=16), "a": TmemAddress(16, 0)}, "the same lane"),
        ({"b": TmemAddress(0, 0)}, "B comes from shared memory only"),
        ({"a": None}, "a = None: needs the 64-bit word"),
        ({"enable_input_d": "no"}, "enable_input_d = 'no'"),
        ({"enable_input_d": np.zeros(3)}, "enable_input_d"),
        ({"disable_output_lane": itertools.count()}, "4 words"),
        ({"disable_output_lane": np.array(3)}, "4 words"),
        ({"ws": True, "idesc": InstrDescriptor(kind="f16", n=64), "disable_output_lane": (0,) * 4}, ".ws has none"),
        ({"ws": True, "idesc": InstrDescriptor(kind="f16", n=64), "scale_input_d": 1}, ".ws has not"),
        ({"idesc": InstrDescriptor(kind="mxf4nvf4", n=16), "scale_a": 0, "scale_b": 0}, "2X and 4X; choose one"),
        ({"idesc": InstrDescriptor(kind="mxf4", n=16), "scale_a": "5", "scale_b": 0}, "scale_a = '5'"),
        ({"b": "x"}, "b = 'x'"),
        ({"tensor": 5}, "needs a TensorMemory"),
    ],
)
def test_what_is_no_instruction_is_a_sentence(options, says):
    shared, tensor = memories(1)
    given = {"tensor": tensor[0], "d": 0, "a": 0x0000400800800040, "b": 0x0000400800800040, "idesc": F16, "shared": shared[0]} | options
    positional = [given.pop(name) for name in ("tensor", "d", "a", "b", "idesc")]
    with pytest.raises(InputError, match=says):
        tcgen05_mma(*positional, **given)


def test_operands_past_the_window_trap():
    shared, tensor = memories(1)
    word = 0x0000400800800040
    with pytest.raises(HardwareTrap):
        tcgen05_mma(tensor[0], 0, word + 0x3840, word, F16, shared=shared[0])


def test_nothing_about_an_mma_of_blackwell_says_measured():
    i = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16")
    result, *_ = run(i, np.random.default_rng(0))
    assert repr(result).endswith("arithmetic inferred, no element depends on it>")
    assert "measured" not in result.rounding
    assert "measured" not in repr(result)
    assert result.grade in (Grade.DOCUMENTED, Grade.COMPILED, Grade.INFERRED)


def test_k_of_96_continues_in_the_next_buffer():
    """sm_103a: a K tile of 768 fp4 is three buffers of 128-byte rows; eight MMAs of K = 96 walk it, bit 52 naming the
    buffer that follows.

    The walk is CUTLASS's (sm103_blockscaled_mma_warpspecialized.hpp): (first 16-byte chunk, buffer it is in, buffer
    that LBO names). Its scale factors lie in tensor memory as copies of 128 rows x 4 bring them: step i begins at scale
    3 i, in bits 31:30 of whose address is its byte.
    """
    walk = [(0, 0, 0), (3, 0, 0), (6, 0, 1), (1, 1, 1), (4, 1, 1), (7, 1, 2), (2, 2, 2), (5, 2, 2)]
    shared, tensor = memories(1, "sm_103a")
    rng = np.random.default_rng(12)
    a, b = numbers(rng, (128, 768), "e2m1"), numbers(rng, (32, 768), "e2m1")
    bases = {"a": [0x2000 * (i + 1) * 2 for i in range(3)], "b": [0x10000 + 0x1000 * i for i in range(3)]}
    for values, at in ((a, bases["a"]), (b, bases["b"])):
        for i, base in enumerate(at):
            lay_out(shared[0], values[:, 256 * i : 256 * (i + 1)], "e2m1", "K", "128B", base, arch="sm_103a")
    scales = [rng.integers(0x7E, 0x81, (rows, 24)) for rows in (128, 32)]
    for bits, column in zip(scales, (400, 424), strict=True):
        cells = np.zeros((128, 24), np.uint32)
        for (row, k), value in np.ndenumerate(bits):
            cells[row % 32 :: 32, k // 4 * 4 + row // 32] |= np.uint32(int(value) << 8 * (k % 4))
        tensor[0].write_cells(np.arange(128)[:, None], np.arange(column, column + 24), cells, "scales")
    for step, (chunk, first, following) in enumerate(walk):
        words = [
            smemsim.SmemDescriptor(
                arch="sm_103a", start_address=at[first] + 16 * chunk, leading_byte_offset=at[following], stride_byte_offset=1024,
                swizzle="128B", lbo_mode=1,
            )
            for at in (bases["a"], bases["b"])
        ]  # fmt: skip
        cell, number = divmod(3 * step, 4)
        i = InstrDescriptor(kind="mxf4", m=128, n=32, k=96, a_sf_id=number, b_sf_id=number)
        at_a, at_b = (number << 30 | column + 4 * cell for column in (400, 424))
        result = tcgen05_mma(
            tensor[0], 0, *words, i, shared=shared[0], enable_input_d=step > 0, scale_a=at_a, scale_b=at_b, scale_vec="block32"
        )
        assert [t.a.value for t in result.terms(77, 5)] == a[77, 96 * step : 96 * step + 96].tolist()
        assert [t.b.value for t in result.terms(77, 5)] == b[5, 96 * step : 96 * step + 96].tolist()
    worth = [np.ldexp(1.0, bits - 0x7F).repeat(32, axis=1) for bits in scales]
    assert (result.d.view(np.float32) == (a * worth[0]) @ (b * worth[1]).T).all()
    assert result.grade is Grade.INFERRED


def test_the_scale_id_is_that_of_the_instruction_descriptor():
    """Bits 31:30 of the address do nothing: with the descriptor's id there, with none, and with another the result is
    the same one.
    """
    i = InstrDescriptor(kind="mxf8f6f4", m=128, n=64, a_type="e4m3", b_type="e4m3", a_sf_id=2, b_sf_id=1)
    rng = np.random.default_rng(5)
    sa, sb = (rng.integers(0x7D, 0x82, (rows, 1)) for rows in (128, 64))
    found = []
    for bits_a, bits_b in ((0, 0), (2, 1), (3, 3)):
        _, d, a, b, _ = run(
            i, np.random.default_rng(6), scale_a=lambda t: put_scales(i, sa, "A", "1X", t, 400).encode() | bits_a << 30,  # noqa: B023
            scale_b=lambda t: put_scales(i, sb, "B", "1X", t, 420).encode() | bits_b << 30, scale_vec="1X",  # noqa: B023
        )  # fmt: skip
        assert (d == (a * np.ldexp(1.0, sa - 0x7F)) @ (b * np.ldexp(1.0, sb - 0x7F)).T).all()
        found.append(d)
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_a_pair_needs_two_memories_of_one_group():
    shared, tensor = memories(2)
    i = InstrDescriptor(kind="f16", m=256, n=32)
    for broken, says in (
        ({"tensor": (tensor[0], tensor[0])}, "the same one"), ({"shared": (shared[0], shared[0])}, "the same one"),
        ({"tensor": tuple(memories(1)[1] + memories(1)[1])}, "must have the same"),
    ):  # fmt: skip
        given = {"tensor": tuple(tensor), "shared": tuple(shared)} | broken
        with pytest.raises(InputError, match=says):
            tcgen05_mma(given["tensor"], 0, 0x40, 0x40, i, shared=given["shared"], cta_group=2, enable_input_d=False)


def test_nothing_is_written_where_half_of_a_pair_cannot_be():
    shared, _ = memories(1)
    lonely = smemsim.TensorMemory()
    lonely.check_group(2)
    pair = (smemsim.TensorMemory(), lonely)
    pair[0].alloc(64, cta_group=2)
    before = pair[0].cells.copy()
    i = InstrDescriptor(kind="f16", m=256, n=32)
    with pytest.raises(InputError, match="not allocated"):
        tcgen05_mma(pair, 0, 0x40, 0x40, i, shared=(shared[0], memories(1)[0][0]), cta_group=2, enable_input_d=False)
    assert (pair[0].cells == before).all()
    assert not pair[0].writers


def test_what_nobody_wrote_is_counted_and_makes_d_uncertain():
    shared, tensor = memories(1)
    i = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16")
    ones = np.ones((128, 16), np.int64)
    word_a = lay_out(shared[0], ones, "f16", "K", "32B", AT)
    word_b = lay_out(shared[0], ones[:8], "f16", "K", "32B", B_AT)  # half of B
    result = tcgen05_mma(tensor[0], 0, word_a, word_b, i, shared=shared[0])
    assert result.unwritten == {"B": 8 * 16, "D": 128 * 16}
    assert "128 elements of B are uninitialised; 2048 elements of D are uninitialised" in repr(result)
    assert not result.certain.any()
    again = tcgen05_mma(tensor[0], 0, word_a, word_b, i, shared=shared[0], enable_input_d=False)
    assert again.unwritten == {"B": 8 * 16}
    assert again.certain[:, :8].all()
    assert not again.certain[:, 8:].any()


def test_an_infinity_goes_into_its_row_and_is_not_certain():
    shared, tensor = memories(1)
    world = GlobalMemory()
    values = np.full((128, 16), 0x3C00, np.uint16)
    values[70, 9] = 0xFC00
    world.place(values, 1 << 40)
    tm = TensorMap.tiled(
        data_type="f16", global_address=1 << 40, global_dim=(16, 128), global_strides=(32,), box_dim=(16, 128), swizzle="32B"
    )
    shared[0].tma_load(tm, (0, 0), smem_address=AT, source=world)
    word = smemsim.SmemDescriptor(arch="sm_100a", start_address=AT, stride_byte_offset=256, swizzle="32B")
    i = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16")
    result = tcgen05_mma(tensor[0], 0, word, word, i, shared=shared[0], enable_input_d=False)
    assert (result.d[70] == 0xFF800000).all()
    assert (np.delete(result.d.view(np.float32), 70, axis=0) == 16).all()
    assert np.flatnonzero(~result.certain.all(axis=1)).tolist() == [70]
    assert "arithmetic inferred, 16 of 2048 elements of D are not certain" in repr(result)
    assert result.arithmetic.source in result.rounding
    term = result.terms(70, 3)[9]
    assert (term.a.bits, term.a.coordinate) == (0xFC00, (9, 70))
    minus = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16", negate_a=True)
    # -Inf in D, + Inf
    assert (tcgen05_mma(tensor[0], 0, word, word, minus, shared=shared[0]).d[70] == 0x7FFFFFFF).all()


@pytest.mark.parametrize(("kind", "dtype", "scale_type", "vector"), [
    ("mxf8f6f4", "e4m3", "ue8m0", "1X"), ("mxf8f6f4", "e2m1", "ue8m0", "block32"), ("mxf4", "e2m1", "ue8m0", "2X"),
    ("mxf4nvf4", "e2m1", "ue4m3", "4X"),
])  # fmt: skip
@pytest.mark.parametrize(("cta_group", "m", "n"), [(1, 128, 64), (2, 256, 32)])
def test_sparse_and_block_scaled_go_together(kind, dtype, scale_type, vector, cta_group, m, n):
    """K doubles, the factors do not: each stands for twice as many logical elements."""
    i = InstrDescriptor(kind=kind, m=m, n=n, a_type=dtype, b_type=dtype, sparsity=True, scale_type=scale_type)
    rng = np.random.default_rng(13)
    stored, nibbles, dense, chunk = sparse_matrix(rng, i)
    b = numbers(rng, (n, i.k), dtype)
    scales = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}[kind]
    choices = np.array([0x7E, 0x7F, 0x80] if scale_type == "ue8m0" else [0x30, 0x38, 0x3C, 0x40])
    sa, sb = (rng.choice(choices, (rows, scales)) for rows in (m, n))
    named = vector if vector != "block32" else "1X"
    result, d, *_ = run(
        i, rng, cta_group=cta_group, values=(stored, b), metadata=lambda t: put_metadata(i, nibbles, chunk, t), scale_vec=vector,
        scale_a=lambda t: put_scales(i, sa, "A", named, t, 400), scale_b=lambda t: put_scales(i, sb, "B", named, t, 420),
    )  # fmt: skip
    worth = [np.vectorize(lambda x: float(element_value(int(x), scale_type)))(s).repeat(i.k // scales, axis=1) for s in (sa, sb)]
    assert (d == (dense * worth[0]) @ (b * worth[1]).T).all()
    assert Fraction(float(d[m - 1, 3])) == sum(t.product for t in result.terms(m - 1, 3))


def test_copies_of_metadata_that_differ_are_not_guessed():
    i = InstrDescriptor(kind="f16", m=64, n=64, sparsity=True)

    def differing(tensor):
        put_metadata(i, np.full((64, 8), 0b0100), 4, tensor, ws=True)
        tensor[0].write_cells(np.arange(64, 128), np.int64(448), np.full(64, 0xEEEEEEEE, np.uint32), "another band")
        return TmemAddress(0, 448)

    with pytest.raises(Unmodelled, match="differ between bands"):
        run(i, np.random.default_rng(0), ws=True, metadata=differing)


@pytest.mark.parametrize("name", ["metadata", "scale_a"])
def test_addresses_of_scales_and_metadata_in_other_lanes_are_not_guessed(name):
    i = InstrDescriptor(kind="f16", sparsity=True, n=16) if name == "metadata" else InstrDescriptor(kind="mxf4", n=16)
    options = {name: TmemAddress(32, 400)} | ({"scale_b": 420} if name == "scale_a" else {})
    with pytest.raises(Unmodelled, match=f"{name} = 0x200190 "):
        run(i, np.random.default_rng(0), **options)


# What a result rests on: the instruction, how it is run, the grade, the disputes it names.
GRADES = [
    ({"kind": "f16"}, {}, "compiled", ()),
    ({"kind": "f16", "m": 64}, {"ws": True}, "compiled", ("layout E",)),
    ({"kind": "f16", "m": 32}, {"ws": True, "a_tensor": True}, "inferred", ("A of .ws",)),
    ({"kind": "f8f6f4", "a_type": "e2m1"}, {"a_tensor": True}, "compiled", ("decompression",)),
    ({"kind": "f8f6f4", "n": 256}, {"ws": True}, "compiled", ("N = 256 of .ws",)),
    ({"kind": "f8f6f4", "n": 256}, {}, "compiled", ()),
    ({"kind": "f16", "m": 256}, {"cta_group": 2}, "compiled", ()),
    ({"kind": "f16"}, {"ws": True, "zero_column_mask": 1 << 39}, "inferred", ("zero-column mask",)),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "how", "grade", "disputes"), GRADES)
def test_a_result_carries_the_weakest_grade_and_its_disputes(fields, how, grade, disputes):
    i = InstrDescriptor(**{"m": 128, "n": 64, "a_type": None} | fields)
    result, *_ = run(i, np.random.default_rng(0), **how)
    assert (str(result.grade), result.disputes) == (grade, disputes)
    assert set(result.disputes) <= set(smemsim.DISPUTES)
    assert "measured" not in repr(result)


def test_odd_bits_of_descriptors_and_of_the_instruction_do_nothing_and_weaken_the_grade():
    shared, tensor = memories(1)
    i = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16")
    word = lay_out(shared[0], np.ones((128, 16), np.int64), "f16", "K", "32B", AT)
    grades = [
        tcgen05_mma(tensor[0], 0, w, word, i, shared=shared[0], enable_input_d=False).grade
        for w in (word, word & ~(1 << 46), word | 1 << 53)
    ]
    assert [str(g) for g in grades] == ["compiled", "inferred", "inferred"]
    plain, odd = (
        tcgen05_mma(tensor[0], 0, word, word, i.word | bit, kind="f16", shared=shared[0], enable_input_d=False) for bit in (0, 1 << 29)
    )
    assert (odd.d == plain.d).all()
    assert (str(odd.grade), odd.disputes) == ("inferred", ("reserved bits of instruction descriptors",))
    assert "reserved bits of instruction descriptors" not in plain.disputes


def test_accumulators_do_not_keep_every_instruction_alive():
    shared, tensor = memories(1)
    i = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16")
    word = lay_out(shared[0], np.ones((128, 16), np.int64), "f16", "K", "32B", AT)
    for _ in range(200):
        tcgen05_mma(tensor[0], 0, word, word, i, shared=shared[0])
    assert sum(writer is not None for writer in tensor[0].writers) < 70
    assert tensor[0].owner(5, 3).where[:2] == (5, 3)


def test_a_that_tcgen05_cp_brought_is_known_by_its_tensor_coordinate():
    """TMA, tcgen05.cp.128x256b, tcgen05.mma with A in tensor memory: the chain of owners leads back to the tensor."""
    shared, tensor = memories(1)
    world, rng = GlobalMemory(), np.random.default_rng(14)
    a, b = numbers(rng, (128, 16), "f16"), numbers(rng, (16, 16), "f16")
    world.place(encode(a, "f16"), 1 << 40)
    tm = TensorMap.tiled(
        data_type="f16", global_address=1 << 40, global_dim=(16, 128), global_strides=(32,), box_dim=(16, 128), swizzle="32B"
    )
    shared[0].tma_load(tm, (0, 0), smem_address=AT, source=world)
    source = smemsim.SmemDescriptor(arch="sm_100a", start_address=AT, stride_byte_offset=256, swizzle="32B")
    tcgen05_cp(tensor[0], 384, source, shape="128x256b", shared=shared[0])
    i = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16")
    result = tcgen05_mma(
        tensor[0], 0, TmemAddress(0, 384), lay_out(shared[0], b, "f16", "K", "32B", B_AT), i, shared=shared[0], enable_input_d=False
    )
    assert (result.d.view(np.float32) == a @ b.T).all()
    for term in result.terms(77, 3):
        assert term.a.coordinate == (term.k, 77)
        assert term.a.place == f"tensor lane 77 column {384 + term.k // 2}" + (" bit 16" if term.k % 2 else "")


def test_doubt_is_handed_on_along_k():
    """An element that was rounded once stays uncertain, however exact the sums that follow."""
    shared, tensor = memories(1)
    i = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16")
    fine = np.zeros((128, 16), np.float32)
    fine[5, :2] = (2048, 2**-13)  # 25 bits in one sum
    raw = fine.astype(np.float16).view(np.uint16)
    image = np.zeros((16, 2, 8, 8), np.uint16)
    image[:] = raw.reshape(16, 8, 2, 8).transpose(0, 2, 1, 3)
    shared[0].write(AT, image)
    a = smemsim.SmemDescriptor(arch="sm_100a", start_address=AT, leading_byte_offset=128, stride_byte_offset=256)
    b = lay_out(shared[0], np.ones((16, 16), np.int64), "f16", "K", "32B", B_AT)
    first = tcgen05_mma(tensor[0], 0, a, b, i, shared=shared[0], enable_input_d=False)
    assert (~first.certain).nonzero()[0].tolist() == [5] * 16
    shared[0].write(AT, np.zeros(4096, np.uint8))
    second = tcgen05_mma(tensor[0], 0, a, b, i, shared=shared[0])
    assert (second.certain == first.certain).all()
    third = tcgen05_mma(tensor[0], 0, a, b, i, shared=shared[0], enable_input_d=False)
    assert third.certain.all()


def test_copies_of_what_nobody_wrote_are_what_nobody_wrote():
    """tcgen05.cp of an empty block: the scale factors exist, and are still nobody's."""
    i = InstrDescriptor(kind="mxf8f6f4", m=128, n=64, a_type="e4m3", b_type="e4m3")
    shared, tensor = memories(1)
    rng = np.random.default_rng(15)
    words = [lay_out(shared[0], numbers(rng, (rows, 32), "e4m3"), "e4m3", "K", "32B", at) for rows, at in ((128, AT), (64, B_AT))]
    empty = smemsim.SmemDescriptor(arch="sm_100a", start_address=0x30400, stride_byte_offset=128)
    tcgen05_cp(tensor[0], 400, empty, shape="32x128b", multicast="warpx4", shared=shared[0])
    result = tcgen05_mma(tensor[0], 0, *words, i, shared=shared[0], enable_input_d=False, scale_a=400, scale_b=400)
    assert result.unwritten == {"the scale factors": 128 + 64}
    assert not result.certain.any()


def test_scale_factors_put_into_another_byte_are_nobodys():
    i = InstrDescriptor(kind="mxf8f6f4", m=128, n=64, a_type="e4m3", b_type="e4m3", a_sf_id=1)
    shared, tensor = memories(1)
    word = lay_out(shared[0], np.ones((128, 32), np.int64), "e4m3", "K", "32B", AT)
    for operand, column in (("A", 400), ("B", 410)):
        layout = ScaleLayout(operand, m=128, n=64, kind="mxf8f6f4", scale_vec="1X", column=column)
        smemsim.tmem_put(tensor[0], layout, np.full((128 if operand == "A" else 64, 1), 0x7F))
    result = tcgen05_mma(tensor[0], 0, word, word, i, shared=shared[0], enable_input_d=False, scale_a=400, scale_b=410)
    assert result.unwritten == {"the scale factors": 128}


def test_every_byte_of_an_element_counts():
    """An f32 D of which only the lower halves were stored, and an f16 operand with one byte written."""
    shared, tensor = memories(1)
    i = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16")
    word = lay_out(shared[0], np.ones((128, 16), np.int64), "f16", "K", "32B", AT)
    tensor[0].st(TmemAccess("32x32b", 8, pack=True), np.zeros((4, 32, 8), np.uint32))
    assert tcgen05_mma(tensor[0], 0, word, word, i, shared=shared[0]).unwritten == {"D": 128 * 16}
    half = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16", d_type="f16")
    tensor[0].st(TmemAccess("32x32b", 8, pack=True, taddr=64), np.zeros((4, 32, 8), np.uint32))
    assert tcgen05_mma(tensor[0], 64, word, word, half, shared=shared[0]).unwritten == {}
    for at in range(0, 16 * 32, 2):
        shared[0].write(B_AT + at, b"\x00", label="low bytes only")
    operand = smemsim.SmemDescriptor(arch="sm_100a", start_address=B_AT, stride_byte_offset=256, swizzle="32B")
    assert tcgen05_mma(tensor[0], 0, word, operand, i, shared=shared[0], enable_input_d=False).unwritten == {"B": 256}


def test_doubt_reaches_operands_in_tensor_memory():
    """An uncertain f32 D that is the tf32 A of the next instruction."""
    shared, tensor = memories(1)
    first = InstrDescriptor(kind="f16", m=128, n=8, a_type="f16", b_type="f16")
    fine = np.zeros((16, 2, 8, 8), np.uint16)
    fine[0, 0, 5, :2] = np.array([2048, 2**-13], np.float16).view(np.uint16)  # row 5: a sum of 25 bits
    shared[0].write(AT, fine)
    a = smemsim.SmemDescriptor(arch="sm_100a", start_address=AT, leading_byte_offset=128, stride_byte_offset=256)
    ones = lay_out(shared[0], np.ones((8, 16), np.int64), "f16", "K", "32B", B_AT)
    assert not tcgen05_mma(tensor[0], 256, a, ones, first, shared=shared[0], enable_input_d=False).certain[5].any()
    then = InstrDescriptor(kind="tf32", m=128, n=8)
    ones = lay_out(shared[0], np.ones((8, 8), np.int64), "tf32", "K", "32B", B_AT)
    result = tcgen05_mma(tensor[0], 0, TmemAddress(0, 256), ones, then, shared=shared[0], enable_input_d=False)
    assert np.flatnonzero(~result.certain.all(axis=1)).tolist() == [5]


def test_the_sign_of_nothing_but_negative_zeros_is_not_certain():
    shared, tensor = memories(1)
    i = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16", negate_a=True)
    zeros = lay_out(shared[0], np.zeros((128, 16), np.int64), "f16", "K", "32B", AT)
    ones = lay_out(shared[0], np.ones((16, 16), np.int64), "f16", "K", "32B", B_AT)
    assert not tcgen05_mma(tensor[0], 0, zeros, ones, i, shared=shared[0], enable_input_d=False).certain.any()
    tensor[0].write_cells(np.arange(128)[:, None], np.arange(16), np.zeros((128, 16), np.uint32), "threads")
    assert tcgen05_mma(tensor[0], 0, zeros, ones, i, shared=shared[0]).certain.all()  # + 0 is + 0


def test_disputes_about_shape_and_types_are_named():
    i = InstrDescriptor(kind="f16", m=128, n=24, a_type="f16", b_type="bf16")
    result, *_ = run(i, np.random.default_rng(0))
    assert set(result.disputes) == {"N of M = 128", "mixed f16 and bf16"}


def test_reads_at_the_edge_of_the_window_are_inferred_on_blackwell():
    shared, tensor = memories(1)
    i = InstrDescriptor(kind="f16", m=64, n=8, a_type="f16", b_type="f16")
    last = smemsim.SmemDescriptor(arch="sm_100a", start_address=0x39000 - 0x400, leading_byte_offset=16, stride_byte_offset=128)
    result = tcgen05_mma(tensor[0], 0, last, 0x0000400800800040, i, shared=shared[0], enable_input_d=False)
    assert result.grade is Grade.INFERRED
    with pytest.raises(HardwareTrap, match="measured on Hopper, expected here"):
        tcgen05_mma(tensor[0], 0, last.advance(0x3E0), 0x0000400800800040, i, shared=shared[0], enable_input_d=False)


def test_an_operand_that_reads_past_the_end_of_the_window_is_graded_so_before_and_after_it_is_read():
    """The first of 8 lines is the window's last: the other lines read as zero, as measured on Hopper, which is inferred
    here.
    """
    grades = []
    for past in (False, True):
        shared, tensor = smemsim.SharedMemory("sm_100a", size=4096), smemsim.TensorMemory("sm_100a")
        shared.write(shared.begin, np.full(2048, 0x3F80, np.uint16))
        start = shared.end - (16 if past else 128)
        word = smemsim.SmemDescriptor(arch="sm_100a", start_address=start, leading_byte_offset=0, stride_byte_offset=0).encode()
        i = InstrDescriptor(kind="f16", m=128, n=16, a_type="bf16", b_type="bf16")
        d = tensor.alloc(32)
        result = tcgen05_mma(tensor, d, word, word, i, shared=shared, enable_input_d=False)
        told = prepare(Tcgen05Mma(i, "sm_100a", d, word, word, enable_input_d=False)).grade((shared,))
        assert told is result.grade
        assert bool(result.unwritten) is past
        grades.append(told)
    assert grades[1] is Grade.INFERRED is not grades[0]
