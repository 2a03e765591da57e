"""tcgen05.ld and tcgen05.st: every thread's registers against every cell, for all shapes and repeats; CUTLASS's layouts
beside them.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cute import parse
from smemsim import AccumulatorLayout, InputError, TensorMemory, TmemAccess, TmemAddress, Unmodelled
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.tensor_memory import LANES, LOAD_STORE_SHAPES
from strategies import examples


def forms():
    """(shape, repeat, pack) of every form, as arguments; the halves of .16x32bx2 lie side by side."""
    for shape, pack in itertools.product(LOAD_STORE_SHAPES.values(), (False, True)):
        repeat = 1
        while repeat <= shape.most:
            width = shape.columns * repeat * (1 + pack)
            if width * (2 if shape.name == "16x32bx2" else 1) <= 512:
                split = {"half_split_offset": width} if shape.name == "16x32bx2" else {}
                yield pytest.param(shape.name, {"repeat": repeat, "pack": pack} | split, id=f"{shape.name}.x{repeat}{'.pack' * pack}")
            repeat *= 2


FORMS = list(forms())


def everything(access):
    """(warp, thread, register, half), to be broadcast."""
    shape = (4, 32, access.registers, 2 if access.pack else 1)
    return tuple(axis.reshape(axis.shape) for axis in np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"))


@pytest.mark.parametrize(("shape", "arguments"), FORMS)
def test_registers_and_cells_are_a_bijection_over_a_rectangle(shape, arguments):
    for lane in range(0, 32, LOAD_STORE_SHAPES[shape].lanes):
        access = TmemAccess(shape, **arguments, taddr=TmemAddress(lane, 0))
        warp, thread, register, half = everything(access)
        lanes, columns = access.location(warp, thread, register, half)
        assert len(np.unique(lanes * 512 + columns)) == lanes.size == 4 * access.lanes * access.columns
        assert np.unique(columns).tolist() == list(range(access.columns))
        window = np.arange(lane, lane + access.lanes)
        assert np.unique(lanes).tolist() == np.concatenate([32 * w + window for w in range(4)]).tolist()
        assert (lanes // 32 == warp).all()  # no warp leaves its window
        back = access.register(lanes, columns)
        assert len(back) == 3 + access.pack
        assert all((a == b).all() for a, b in zip(back, (warp, thread, register, half), strict=False))
        everywhere = np.meshgrid(np.arange(LANES), np.arange(512), indexing="ij")
        assert (access.register(*everywhere)[0] >= 0).sum() == lanes.size


# CUTLASS include/cute/atom/copy_traits_sm100.hpp, DstLayout of SM100_TMEM_LOAD_*: (thread, bit of its registers) to bit
# of the rectangle, whose rows have R bits; N is the repeat, E eight rows.
ATOMS = {
    "32x32b": (32, "(32,B):(R,1)"),
    "16x64b": (64, "((2,2,8),(32,N)):((E,32,D),(1,64))"),
    "16x128b": (128, "((4,8),(32,2,N)):((32,R),(1,E,128))"),
    "16x256b": (256, "((4,8),(64,2,N)):((64,R),(1,E,256))"),
    "16x32bx2": (64, "((16,2),B):((R,B),1)"),
}


@pytest.mark.parametrize(("shape", "arguments"), FORMS)
def test_registers_lie_where_cutlass_has_them(shape, arguments):
    access = TmemAccess(shape, **arguments)
    row_bits, text = ATOMS[shape]
    n = access.repeat
    bits = parse(text, N=n, R=row_bits * n, D=row_bits * n, E=8 * row_bits * n, B=32 * n).offsets().reshape(32, access.registers, 32)
    step = 16 if access.pack else 32  # bits of each column that are moved
    lane, column = access.location(0, np.arange(32)[:, None, None], np.arange(access.registers)[:, None], np.arange(32 // step))
    assert (bits[:, :, ::step] == lane * row_bits * n + column * step).all()


def test_the_first_registers_of_the_shapes():
    """Figures 183 to 187 of PTX ISA 9.1 §9.7.16.2.3, thread 5."""
    split = TmemAccess("16x32bx2", half_split_offset=64)
    assert TmemAccess("32x32b", 2).location(0, 5, 1) == (5, 1)
    assert TmemAccess("16x64b", 2).location(0, 5, 1) == (9, 2)
    assert [TmemAccess("16x128b").location(0, 5, r) for r in (0, 1)] == [(1, 1), (9, 1)]
    assert [TmemAccess("16x256b").location(0, 5, r) for r in range(4)] == [(1, 2), (1, 3), (9, 2), (9, 3)]
    assert [split.location(0, t, 0) for t in (5, 21)] == [(5, 0), (5, 64)]


@pytest.mark.parametrize("shape", LOAD_STORE_SHAPES)
def test_register_counts_are_those_of_the_tables(shape):
    """PTX ISA 9.1 §9.7.16.8.3, Table 49: NA where a thread would need more than 128 registers."""
    for exponent in range(8):
        repeat, count = 1 << exponent, {"16x128b": 2, "16x256b": 4}.get(shape, 1) << exponent
        split = {"half_split_offset": 256} if shape == "16x32bx2" else {}
        if count > 128:
            with pytest.raises(InputError, match=r"powers of two"):
                TmemAccess(shape, repeat, **split)
        else:
            assert TmemAccess(shape, repeat, **split).registers == count


@examples(60)
@given(st.sampled_from(["16x64b", "16x128b", "16x256b"]), st.sampled_from([1, 2, 4, 8]), st.booleans(), st.integers(0, 400))
def test_the_address_moves_every_cell_alike(shape, repeat, upper, column):
    plain, moved = TmemAccess(shape, repeat), TmemAccess(shape, repeat, taddr=TmemAddress(16 * upper, column))
    where = everything(plain)
    lane, at = plain.location(*where)
    there = moved.location(*where)
    assert (there[0] == lane + 16 * upper).all()
    assert (there[1] == at + column).all()
    assert moved.operand(6) == (64 + 16 * upper << 16) + column  # warp 6 is warp 2 of its warpgroup


@examples(60)
@given(st.integers(0, 96), st.sampled_from([1, 4, 16, 64]), st.booleans())
def test_the_halves_of_16x32bx2_are_two_accesses(offset, repeat, pack):
    access = TmemAccess("16x32bx2", repeat, pack=pack, half_split_offset=offset)
    first, second = (
        access.location(0, np.arange(16)[:, None], np.arange(repeat)),
        access.location(0, np.arange(16, 32)[:, None], np.arange(repeat)),
    )
    assert (first[0] == second[0]).all()
    assert (second[1] - first[1] == offset).all()
    assert access.overlaps == (offset < access.width)
    cells = set(zip(*(x.ravel().tolist() for x in access.location(*everything(access))), strict=True))
    assert len(cells) == 4 * 16 * access.columns
    warp, thread, register, *half = access.register(*np.array(sorted(cells)).T)
    again = access.location(warp, thread, register, half[0] if half else 0)
    assert set(zip(*(x.tolist() for x in again), strict=True)) == cells


def test_registers_to_elements_of_d_and_back():
    """The other public way: (warp, thread, register) to a cell to (m, n), for the epilogue of an M = 64 tile."""
    d = AccumulatorLayout(64, 64, column=64)
    access = TmemAccess("16x256b", 8, taddr=64)
    warp, thread, register, _ = everything(access)
    m, n = d.element(0, *access.location(warp, thread, register))
    # wgmma's fragment, with warp w on rows 16 w to 16 w + 15 (PTX ISA 9.1 §9.7.15.5.1.1)
    assert (m == 16 * warp + thread // 4 + 8 * (register // 2 % 2)).all()
    assert (n == 8 * (register // 4) + 2 * (thread % 4) + register % 2).all()


@pytest.mark.parametrize(
    ("shape", "arguments", "says"),
    [
        ("32x64b", {}, r"shape = '32x64b': needs 32x32b or"),
        ("32x32b", {"repeat": 3}, r"repeat = 3: .*powers of two"),
        ("16x256b", {"repeat": 64}, r"\.x1 to \.x32"),
        ("16x32bx2", {}, r"half_split_offset: \.16x32bx2 needs"),
        ("32x32b", {"half_split_offset": 8}, r"only \.16x32bx2"),
        ("32x32b", {"taddr": 16 << 16}, r"lane 16; \.32x32b begins at lane 0 of the 32 lanes of a warp"),
        ("16x64b", {"taddr": 8 << 16}, r"begins at lane 0 or 16"),
        ("16x64b", {"taddr": 32 << 16}, r"lane 32.*operand\(warp\)"),
        ("16x64b", {"pack": 2}, r"pack = 2"),
        ("16x64b", {"taddr": 600}, r"taddr = 600"),
    ],
)
def test_forms_that_there_are_not_are_refused(shape, arguments, says):
    with pytest.raises(InputError, match=says):
        TmemAccess(shape, **arguments)


def test_past_the_last_column_is_not_known():
    TmemAccess("32x32b", 128, taddr=384)
    for shape, arguments in (("32x32b", {"repeat": 128, "taddr": 385}), ("16x32bx2", {"repeat": 128, "half_split_offset": 400})):
        with pytest.raises(Unmodelled, match="pass column 511"):
            TmemAccess(shape, **arguments)


@pytest.mark.parametrize(
    "call",
    [lambda a: a.location(0, 32, 0), lambda a: a.location(0, 0, 4), lambda a: a.location(-1, 0, 0), lambda a: a.location(0, 0, 0, 1)],
)
def test_registers_that_there_are_not_are_refused(call):
    with pytest.raises(InputError, match="0 to"):
        call(TmemAccess("32x32b", 4))


def test_cells_that_an_access_does_not_touch():
    access = TmemAccess("16x64b", 4)
    with pytest.raises(InputError, match="does not touch it"):
        access.register(16, 0)
    assert access.register(np.array([0, 16]), 8)[0].tolist() == [-1, -1]


def test_grades_say_what_is_documented():
    assert {name: TmemAccess(name, **({"half_split_offset": 1} if name == "16x32bx2" else {})).grade for name in LOAD_STORE_SHAPES} == {
        "32x32b": Grade.DOCUMENTED,
        "16x64b": Grade.COMPILED,
        "16x128b": Grade.COMPILED,
        "16x256b": Grade.COMPILED,
        "16x32bx2": Grade.COMPILED,
    }


@pytest.mark.parametrize("repeat", [2, 4, 8])
@pytest.mark.parametrize("warp", [0, 3, None])
def test_halves_of_a_store_that_overlap_must_write_the_same_to_each_common_cell(repeat, warp):
    """Cells of different lanes of one column, and of one lane, may differ."""
    for offset in range(repeat + 1):
        access, tensor = TmemAccess("16x32bx2", repeat, half_split_offset=offset), TensorMemory()
        tensor.alloc(64)
        warps = np.arange(4) if warp is None else np.array([warp])
        lane, column = access.location(
            *(x[..., None] if n < 2 else x for n, x in enumerate(np.meshgrid(warps, np.arange(32), indexing="ij"))), np.arange(repeat)
        )
        values = (1000 * lane + column).astype(np.uint32)
        tensor.st(access, values if warp is None else values[0], warp=warp)
        assert (tensor.cells[lane, column] == values).all()
        assert access.overlaps == (offset < repeat)
        other = values.copy()
        other[-1, 31, 0] += 1  # of the second half
        if access.overlaps:
            with pytest.raises(Unmodelled, match="which thread's value stays"):
                tensor.st(access, other if warp is None else other[0], warp=warp)
        else:
            tensor.st(access, other if warp is None else other[0], warp=warp)
