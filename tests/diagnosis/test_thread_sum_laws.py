"""Laws of sums whose tiles threads have copied: where tiles lie in their matrices, how they go on, and which sums part."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from smemsim import TensorMap
from smemsim.core.ptx import read_module
from smemsim.diagnosis.operands.boxes import _coordinates, _in_boxes
from smemsim.diagnosis.operands.read import Issued, Matrix, Mode, OperandRead
from smemsim.diagnosis.operands.thread_sums import Odd, Parted, Pointers, Sum, found_in, place
from smemsim.diagnosis.recognised import Recognised
from smemsim.run import Load, Mma

TEXT = (
    ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k() { .reg .b32 %r<9>;\n"
    + "".join(f"mov.u32 %r{n}, {n};\n" for n in range(8))
    + "ret; }"
)
LINES = read_module(TEXT).functions["k"].body[:8]
K, BEGIN = 64, 0x10000  # of each matrix


def event(n=0):
    return Mma(0, 0, LINES[n], "wgmma", 64, 64, 16, None, 0, "f16", "f16", "f32", d=0)


def pointers(*addresses, rest=b""):
    return Pointers(SimpleNamespace(parameters=np.frombuffer(np.array(addresses, np.uint64).tobytes() + rest, np.uint8)))


def tile(row, k, *, begin=BEGIN, is_along_k=True, rows=256):
    """The tile at (row, k) of a matrix of `rows` x 64 halves."""
    at = row * K + k if is_along_k else k * rows + row
    return Recognised(begin, rows * K, 2, at, K if is_along_k else 1, 1 if is_along_k else rows)


# ---- places


def test_a_matrix_begins_at_the_last_pointer_before_it_in_its_array():
    known = (0x100, 0x200, 0x240, 0x900)
    for order in itertools.permutations(known):
        its = pointers(*order, rest=b"\0\0\0")
        for begin, address in itertools.product((0x80, 0x150, 0x210), range(0x80, 0x280, 0x10)):
            inside = [x for x in known if begin <= x <= address]
            assert its.begin(address, begin) == max(inside, default=begin)
        for begin, end in itertools.product(range(0x80, 0xA00, 0x40), (0x101, 0x200, 0x201, 0x901)):
            assert its.are_in(begin, end) == any(begin <= x < end for x in known)
    assert pointers().begin(5, 3) == 3
    assert not pointers().are_in(0, 1 << 60)


@pytest.mark.parametrize("is_along_k", [True, False])
@pytest.mark.parametrize("matrix", [0, 32, 7])
def test_a_tile_lies_at_its_row_and_k_of_the_matrix_that_a_pointer_begins(is_along_k, matrix):
    """Which may be the second one of its array."""
    begins = BEGIN + matrix * 256 * K * 2
    for row, k in itertools.product((0, 1, 16, 200), (0, 16, 48)):
        one = tile(row, k, is_along_k=is_along_k)
        moved = Recognised(one.begin, 64 * one.size, 2, one.at + matrix * 256 * K, one.row, one.step)
        assert place(moved, pointers(BEGIN, begins)) == ((begins, one.row, one.step, ""), (row, k))
        if matrix == 32:  # without a pointer of its own, it is a part of the whole array
            whole = divmod(one.at + matrix * 256 * K, K) if is_along_k else divmod(one.at + matrix * 256 * K, 256)[::-1]
            assert place(moved, pointers(BEGIN)) == ((BEGIN, one.row, one.step, ""), whole)


# ---- sums


def added(places, *, is_whole=True, writers=None, along=(True, True)):
    """The sum of products at these (row, k) of A and of B, and the sides whose writers it has asked for."""
    its, asked, begins = Sum(is_whole), [], pointers(BEGIN, 2 * BEGIN)
    for n, (a, b) in enumerate(places):
        step, side = its.add(event(n), (tile(*a, is_along_k=along[0]), tile(*b, begin=2 * BEGIN, is_along_k=along[1])), begins)
        asked.append(side)
        if side:
            its.note(step, None if writers is None else writers[n])
    return its, asked


STRAIGHT = [((0, k), (0, k)) for k in (0, 16, 32, 48)]


@pytest.mark.parametrize("along", [(True, True), (False, True), (True, False), (False, False)])
def test_sums_of_the_same_k_are_right_in_any_order(along):
    for order in itertools.permutations(STRAIGHT):
        its, asked = added(order, along=along)
        assert (its.fault(), its.is_decided, set(asked)) == (None, True, {""})


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("wrong", [0, 16, 32, 48])
def test_a_sum_parts_where_one_operand_goes_on_by_another_k(side, at, wrong):
    """The operand that leaves its steps is named, with the store that wrote it; certain if the whole sum is known."""
    if wrong == 16 * at:
        return
    places = [tuple((0, wrong) if own == side and n == at else (0, k) for own in (0, 1)) for n, k in enumerate((0, 16, 32, 48))]
    its, asked = added(places, writers=LINES)
    found = its.fault()
    assert isinstance(found, Parted)
    assert found.step.event.instruction is LINES[at]
    moves = [places[at][own][1] - places[at - 1][own][1] for own in (0, 1)]
    assert {move for _, move in found.moves} == {*moves}
    assert found.writer is LINES[at]
    assert asked[at] == found.side
    if at > 1:  # the steps before say which one has left them
        assert found.side == "ab"[side]
    assert found.is_certain
    assert not its.is_decided
    part, _ = added(places, is_whole=False)
    assert not part.fault().is_certain
    told = found_in(found)
    assert told.severity.name != "NOTE"
    assert found_in(found, is_sample=True).severity.name == "NOTE"
    name, other = ("A", "B") if found.side == "a" else ("B", "A")
    mine = found.moves[0][1]
    assert (
        f"{name} (threads load it from the array at {BEGIN * (1 + (name == 'B')):#x}) advanced by {mine} k, {other} by {found.moves[1][1]} k"
        in told.why
    )
    assert f"load {name} at the same k as {other}" in told.repair


def test_every_second_element_of_a_row_is_a_k():
    """As where the real and the imaginary parts of numbers alternate; a tile of one row has no pitch."""
    for k in (0, 8, 24):
        one = Recognised(BEGIN, 64 * 64, 2, 3 * 64 + 2 * k, 64, 2)
        assert place(one, pointers(BEGIN))[0] == (BEGIN, 64, 2, "")
    assert place(Recognised(BEGIN, 4096, 2, 37, 0, 64), pointers(BEGIN))[1] == (37, 0)


def test_an_operand_may_go_along_its_rows_in_place_of_its_k():
    its, _ = added([((16 * n, 0), (0, 16 * n)) for n in range(4)])
    found = its.fault()
    assert (found.side, found.moves) == ("a", ((16, 0), (0, 16)))
    assert "advanced by 16 rows and no k, B by 16 k" in found_in(found).why


def test_rows_that_change_with_k_or_operands_of_other_extents_are_not_judged():
    for places in ([((0, 0), (0, 0)), ((64, 16), (0, 32))], [((0, 0), (0, 0)), ((0, 16), (64, 32))]):
        assert added(places)[0].fault() is None
    its, begins = Sum(True), pointers(BEGIN, 2 * BEGIN)
    for n in range(3):
        wide = Recognised(2 * BEGIN, 256 * 128, 2, 32 * n, 128, 1)
        its.add(event(n), (tile(0, 16 * n), wide), begins)
    assert its.fault() is None
    assert not its.is_decided


@pytest.mark.parametrize("side", [0, 1])
def test_two_k_that_are_exchanged_in_one_operand_are_odd_if_most_are_alike(side):
    """All k of both are there. Fewer than half of the steps differ; else it may be an order that is meant."""
    for count in (6, 8):
        ks = [*range(0, 16 * count, 16)]
        for one, two in ((1, 2), (0, count - 1), (2, 4)):
            other = ks.copy()
            other[one], other[two] = ks[two], ks[one]
            steps = [tuple(((0, other[n]) if own == side else (0, ks[n])) for own in (0, 1)) for n in range(count)]
            its, begins = Sum(True), pointers(BEGIN, 2 * BEGIN)
            for n, (a, b) in enumerate(steps):
                pair = tuple(Recognised(base, 256 * 256, 2, row * 256 + k, 256, 1) for base, (row, k) in ((BEGIN, a), (2 * BEGIN, b)))
                step, asked = its.add(event(n), pair, begins)
                if asked:
                    its.note(step, LINES[n])
            found = its.fault()
            assert isinstance(found, Odd)
            assert found.step.event.instruction is LINES[one]
            assert found.side == "ab"[side]
            told = found_in(found)
            of_a, of_b = (ks[two], ks[one]) if side == 0 else (ks[one], ks[two])
            assert f"multiplies k = {of_a} of A with k = {of_b} of B" in told.message
            assert f"load {'AB'[side]} at k = {ks[one]}" in told.repair
            assert told.severity.name == "NOTE"


def loaded(row, k, *, base=BEGIN, rank=2, extent=K):
    """The tile at (row, k) of a matrix that a tensor load has brought."""
    dims, strides = ((extent, 256), (2 * extent,)) if rank == 2 else ((extent, 256, 2), (2 * extent, 512 * extent))
    tm = TensorMap.tiled(data_type="f16", global_address=base, global_dim=dims, global_strides=strides, box_dim=(16, 64, 1)[:rank])
    load = Issued(0, 0, Load(0, 0, LINES[0], 0, tm, "tile", (k, row, 0)[:rank], (), ()), SimpleNamespace(tensor_map=tm), "map")
    matrix = Matrix(base, (Mode(0, 16, 2, 0, extent),), (Mode(1, 64, 2 * extent, 0, 256),))
    return OperandRead(0, (load,), matrix, True, (row, k), 1.0)


def sum_of(pairs):
    its, begins, sides = Sum(True), pointers(BEGIN, 2 * BEGIN), []
    for n, pair in enumerate(pairs):
        step, side = its.add(event(n), pair, begins)
        sides.append(side)
        if side:
            its.note(step, LINES[n])
    return its, sides


@pytest.mark.parametrize("side", [0, 1])
def test_beside_tiles_of_tensor_loads_those_of_threads_are_named(side):
    def pair(of_threads, of_loads):
        own = tile(*of_threads, begin=2 * BEGIN if side else BEGIN)
        other = loaded(*of_loads, base=BEGIN if side else 2 * BEGIN)
        return (own, other) if side == 0 else (other, own)

    for order in itertools.permutations((0, 16, 32, 48)):
        its, sides = sum_of([pair((0, k), (64, k)) for k in order])
        assert (its.fault(), its.is_decided, {*sides}) == (None, True, {""})
    for at, wrong in itertools.product((1, 2, 3), (0, 8)):
        its, sides = sum_of([pair((0, wrong if n == at else 16 * n), (64, 16 * n)) for n in range(4)])
        found = its.fault()
        assert (found.side, found.writer, found.step.event.instruction) == ("ab"[side], LINES[at], LINES[at])
        assert found.moves == ((0, wrong - 16 * (at - 1)), (0, 16))
        assert (sides[at], not its.is_decided) == ("ab"[side], True)
    its, _ = sum_of([pair((64 * n, 0), (0, 16 * n)) for n in range(3)])  # 64 rows and no k
    assert its.fault() is None
    its, _ = sum_of([pair((0, 16 * n), (64 * n, 16 * n)) for n in range(3)])  # rows of the other one change
    assert (its.fault(), its.is_decided) == (None, False)


def test_of_tiles_that_have_no_matrix_or_another_k_nothing_is_said():
    for other in ({"rank": 3}, {"extent": 128}):
        its, _ = sum_of([(loaded(0, 16 * n, **other), tile(0, 32 - 16 * n, begin=2 * BEGIN)) for n in range(3)])
        assert (its.fault(), its.is_decided) == (None, False)
    its, _ = sum_of([(loaded(0, 0), tile(0, 0, begin=2 * BEGIN)), (tile(0, 16), tile(0, 32, begin=2 * BEGIN))])
    assert its.fault() is None  # each of another matrix


def test_after_a_tile_of_another_kind_nobody_knows_how_a_sum_goes_on():
    """A matrix that is loaded at one step and copied at another one is of two matrices."""
    pairs = [
        (tile(0, 0), tile(0, 0, begin=2 * BEGIN)),
        (tile(0, 80 * 64 + 16), tile(0, 16, begin=2 * BEGIN)),
        (tile(0, 32), tile(0, 48, begin=2 * BEGIN)),
    ]
    its, _ = sum_of(pairs)
    assert (its.fault(), its.is_decided) == (None, False)


def test_findings_without_a_known_store_are_at_the_product():
    parted, _ = added([((0, 0), (0, 0)), ((0, 16), (0, 16)), ((0, 16), (0, 32))])
    found = found_in(parted.fault())
    assert (found.line, found.halves) == (LINES[2].line, ())
    again, _ = added([((0, 0), (0, 0)), ((0, 16), (0, 16)), ((0, 16), (0, 32))], writers=LINES[5:])
    found = found_in(again.fault())
    assert (found.line, [half.instruction for half in found.halves]) == (LINES[7].line, [LINES[7]])


def odd_of(ks, *, rows=None, extents=(256, 256)):
    rows = [(0, 0)] * len(ks) if rows is None else rows
    its, _ = sum_of([
        tuple(Recognised(base, 256 * extent, 2, row * extent + k, extent, 1) for base, row, k, extent in zip((BEGIN, 2 * BEGIN), row, k, extents, strict=True))
        for row, k in zip(rows, ks, strict=True)
    ])  # fmt: skip
    return next(iter(its.of.values())).odd()


def test_steps_are_odd_where_each_k_of_both_is_multiplied_once_in_the_same_rows():
    ks = [(0, 0), (16, 32), (32, 16), (48, 48), (64, 64)]
    found = odd_of(ks)
    assert (found.step.event.instruction, found.side) == (LINES[1], "b")
    assert odd_of([pair[::-1] for pair in ks]).side == "a"
    for other in (
        ks[:4], ks[:3], [*ks[:4], (64, 48)], [*ks[:4], (48, 64)], [*ks[:4], (80, 64)], [(k, k) for k, _ in ks], [(0, 16), (16, 0), (32, 48), (48, 32), (64, 64)],
    ):  # fmt: skip
        assert odd_of(other) is None, other
    for n, (row, side) in itertools.product(range(1, 5), ((64, 0), (64, 1))):
        assert odd_of(ks, rows=[(row * (m == n and side == 0), row * (m == n and side == 1)) for m in range(5)]) is None
    assert odd_of(ks, extents=(256, 512)) is None


# ---- boxes as matrices


@pytest.mark.parametrize("corner", [(0, 0, 0), (32, 4, 3), (64, 6, 0)])
@pytest.mark.parametrize("k", [(0,), (0, 1), (1,), (2,), (0, 2), (1, 2)])
@pytest.mark.parametrize("along_k", [True, False])
def test_an_element_lies_at_one_address_whatever_dimensions_are_k(corner, k, along_k):
    """And its coordinates are those of the first element again."""
    tm = TensorMap.tiled(data_type="f16", global_address=BEGIN, global_dim=(128, 8, 16), global_strides=(256, 4096), box_dim=(32, 2, 4))
    strides = (2, 256, 4096)
    load = Issued(0, 0, Load(0, 0, LINES[0], 0, tm, "tile", corner, (), ()), SimpleNamespace(tensor_map=tm, smem_address=0x400), "map")
    rest = [n for n in range(3) if n not in k]

    def axis(dimensions):
        if not dimensions:
            return ()
        return tuple(
            Mode(
                n,
                tm.box_dim[n],
                strides[n],
                corner[n] if len(dimensions) > 1 else 0,
                tm.global_dim[n] - (corner[n] if len(dimensions) > 1 else 0),
            )
            for n in dimensions
        )

    if not rest:
        return
    rows, depth = axis(rest), axis([*k])
    begin = BEGIN + sum(mode.first * mode.stride for mode in (*rows, *depth))
    inner, outer = (depth, rows) if along_k else (rows, depth)
    matrix = Matrix(begin, inner, outer)
    for element in ((0, 0, 0), (5, 1, 2), (31, 0, 3), (16, 1, 0)):
        where = tuple(c + e for c, e in zip(corner, element, strict=True))
        of_outer, of_inner = matrix.place(where)
        index = matrix.index(np.array([where]))
        assert (int(index[0][0]), int(index[1][0]), bool(index[2][0])) == (of_outer, of_inner, True)
        at = (of_outer, of_inner) if along_k else (of_inner, of_outer)
        read = OperandRead(0, (load,), matrix, along_k, at, 1.0)
        assert tuple(_coordinates(read)) == where
        for other in ((0,), (1,), (2,), (0, 1), (1, 2)):
            again = _in_boxes(read, other)
            assert tuple(_coordinates(again)) == where
            address = again.matrix.address
            for modes, number in zip(again.modes, again.at, strict=True):
                left = number
                for n, mode in enumerate(modes):
                    step = left if n == len(modes) - 1 else left % mode.size
                    address, left = address + step * mode.stride, left // mode.size
            assert address == BEGIN + sum(c * s for c, s in zip(where, strides, strict=True))
