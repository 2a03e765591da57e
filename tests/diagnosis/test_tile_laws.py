"""Laws of tiles: which boxes cover a tensor, which parts of it nothing brings, which k of two operands belong together.
Each is compared with its elements counted one by one, or with the pairs of a multiplication written out.
"""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from smemsim import Delivery, Gpu, TensorMap
from smemsim.core.machine import FOREIGN
from smemsim.core.ptx import read_module
from smemsim.core.spec.swizzles import MODES
from smemsim.diagnosis.check import _order
from smemsim.diagnosis.epilogue import _part
from smemsim.diagnosis.explained_output import MOST_LINES, listed
from smemsim.diagnosis.fills import exchanged_boxes
from smemsim.diagnosis.operands.factors import _merge, bytes_at
from smemsim.diagnosis.operands.never_loaded import _past_the_end, _Unread
from smemsim.diagnosis.operands.pairings import _are_all_parts, _are_exchanged, _has_long_runs, _Use, are_exchanged, are_terms
from smemsim.diagnosis.operands.places import _walked
from smemsim.diagnosis.operands.read import Issued
from smemsim.diagnosis.operands.steps import _has_data
from smemsim.diagnosis.operands.tiles import _are_frames, _of_more_rows
from smemsim.diagnosis.reads import holds_scales, packing_of
from smemsim.diagnosis.thread_tiles import _law
from smemsim.run import Bulk, Load, Mma, Store

TEXT = ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k() { .reg .b32 %r<9>;\nmov.u32 %r0, 0;\nret; }"
INSTRUCTION = read_module(TEXT).functions["k"].body[0]


def tensor_map(dims, box, *, address=0x10000, strides=None, bits="f32"):
    size = {"f32": 4, "f16": 2}[bits]
    if strides is None:
        strides = [-(-size * math.prod(dims[: n + 1]) // 16) * 16 for n in range(len(dims) - 1)]
    return TensorMap.tiled(data_type=bits, global_address=address, global_dim=dims, global_strides=strides, box_dim=box)


def load(tm, at, *, cta=0, mode="tile"):
    return Load(cta, 0, INSTRUCTION, 0x20000, tm, mode, tuple(at), (), (Delivery(0, 0x400, 0, 0),))


def store(tm, at, *, cta=0):
    return Store(cta, 0, INSTRUCTION, 0x20000, tm, "tile", tuple(at), 0x400)


# ---- boxes of a launch that lie outside of their tensor


def launch_of(*events, memory=None, **more):
    return SimpleNamespace(result=SimpleNamespace(events=SimpleNamespace(transfers=lambda: iter(events))), memory=memory, **more)


def elements_of(at, tm):
    return {*itertools.product(*(range(c, c + box) for c, box in zip(at, tm.box_dim, strict=True)))}


def is_exactly(boxes, tm):
    """Are these boxes the whole tensor, each element once, from no negative coordinate on, with none outside?"""
    tensor = {*itertools.product(*map(range, tm.global_dim))}
    found = [element for at in boxes for element in elements_of(at, tm)]
    inside = [element for element in found if element in tensor]
    return (
        set(inside) == tensor
        and len(inside) == len(tensor)
        and min(map(min, boxes)) >= 0
        and all(elements_of(at, tm) & tensor for at in boxes)
    )


def swapped(at, pair):
    turned = list(at)
    turned[pair[0]], turned[pair[1]] = at[pair[1]], at[pair[0]]
    return tuple(turned)


GRIDS = [((8, 4), (4, 2)), ((12, 20), (4, 4)), ((10, 4), (4, 2)), ((16, 16), (4, 4)), ((4, 6, 3), (4, 2, 1)), ((8, 4, 5), (4, 4, 2))]


@pytest.mark.parametrize("make", [load, store])
@pytest.mark.parametrize("lack", ["none", "one", "first along", "last along", "shifted", "negative", "behind", "before", "one inside"])
def test_boxes_outside_are_exchanged_if_that_is_exactly_the_tensor(lack, make):
    """Else a remark says so if all of them lie outside; of some outside, nothing is said."""
    for grid in GRIDS:
        tm = tensor_map(*grid)
        own = [*itertools.product(*(range(0, extent, box) for extent, box in zip(tm.global_dim, tm.box_dim, strict=True)))]
        step = tm.box_dim[-1]
        kept = {
            "none": own, "one": own[:-2] + own[-1:], "first along": [at for at in own if at[-1]], "last along": [at for at in own if at[-1] + step < tm.global_dim[-1]],
            "shifted": [(*at[:-1], at[-1] + 1) for at in own], "negative": [*own, (-tm.box_dim[0], *own[0][1:])],
            "behind": [(at[0] + tm.global_dim[0], *at[1:]) for at in own], "before": [(*at[:-1], -step) for at in own], "one inside": [(*at[:-1], at[-1] - tm.global_dim[-1]) for at in own] + own[:1],
        }[lack]  # fmt: skip
        for pair in itertools.combinations(range(tm.rank), 2):
            boxes = [swapped(at, pair) for at in kept]
            events = [make(tm, at, cta=len(boxes) - n) for n, at in enumerate(boxes)]
            tensor = {*itertools.product(*map(range, tm.global_dim))}
            outside = [e for e in events if not elements_of(e.coordinates, tm) & tensor]
            pairs = [two for two in itertools.combinations(range(tm.rank), 2) if is_exactly([swapped(at, two) for at in boxes], tm)]
            found = exchanged_boxes(launch_of(*events, *events[:1]))
            assert all(f.code == ("T209" if make is load else "R508") for f in found)
            first = min(outside, key=lambda e: e.cta, default=None)
            if outside and pairs:
                (f,) = found
                assert f.severity.name != "NOTE"
                assert f"{len(outside)} of the {len(boxes)} boxes" in f.what
                assert f"first the box at {list(first.coordinates)}" in f.what
                one, two = pairs[0]
                assert f"exchange coordinates {one} and {two}: {list(swapped(first.coordinates, pairs[0]))} here" in f.repair
                assert f.why.startswith("these loads read fill only" if make is load else "these stores write nothing")
            elif outside and len(outside) == len(boxes):
                (f,) = found
                assert f.severity.name == "NOTE"
                assert f"first the box at {list(first.coordinates)}" in f.what
                assert f"all boxes that {'loads' if make is load else 'stores'} of this map name are outside" in f.what
                assert ("the tiles hold fill only" if make is load else "none of them writes anything") in f.why
            else:
                assert not found


def test_only_boxes_of_whole_elements_in_several_dimensions_are_looked_at():
    outside = (40, 40, 40)
    plain = tensor_map((8, 8, 8), (4, 4, 4))
    gaps = TensorMap.tiled(
        data_type="f32",
        global_address=0x10000,
        global_dim=(8, 8, 8),
        global_strides=(32, 256),
        box_dim=(4, 4, 4),
        element_strides=(1, 2, 1),
    )
    blocks = TensorMap.tiled(
        data_type="f32", global_address=0x10000, global_dim=(8, 8, 8), global_strides=(32, 256), box_dim=(4, 4, 4), interleave="16B"
    )
    pixels = TensorMap.im2col(
        data_type="f32", global_address=0x10000, global_dim=(8, 8, 8), global_strides=(32, 256), pixel_box_lower_corner=(0,), pixel_box_upper_corner=(0,), channels_per_pixel=4, pixels_per_column=4,
    )  # fmt: skip
    line = tensor_map((64,), (4,))
    assert len(exchanged_boxes(launch_of(load(plain, outside)))) == 1
    assert not exchanged_boxes(launch_of(load(gaps, outside), load(blocks, outside), load(pixels, outside), load(line, (80,))))
    assert not exchanged_boxes(launch_of(load(plain, outside, mode="tile::gather4"), SimpleNamespace(mode="tile")))


# ---- parts of a tensor that nothing brings


BOXES = {
    "one": [(0, 0)], "a gap": [(0, 0), (0, 6)], "from the middle": [(4, 5)], "ragged": [(0, 0), (0, 9)], "outside": [(0, 11), (40, 2)], "before": [(-2, -1)],
    "overlap": [(0, 0), (4, 2), (8, 1)], "all": [(0, 0), (8, 3), (0, 6), (4, 9)], "negative": [(0, -3), (0, 4)],
    "just before": [(-4, 0), (0, -3), (0, 2)], "just behind": [(16, 0), (0, 11), (4, 5)],
}  # fmt: skip


@pytest.mark.parametrize("boxes", BOXES)
@pytest.mark.parametrize("pitch", [64, 96])
def test_a_part_that_nothing_brings_is_each_run_of_indices_without_an_element(boxes, pitch):
    """Unless all of the part is zero."""
    dims, gpu = (16, 11), Gpu("sm_90a")
    for zeros in [(), (3,), (6, 7, 8), (0, 1, 2, 3, 4, 5), range(10), range(11)]:
        numbers = np.full((11, pitch // 4), 5, np.uint32)
        numbers[:, 16:] = 9  # behind each row, no part of the tensor
        numbers[list(zeros), :16] = 0
        tm = tensor_map(dims, (4, 3), address=gpu.array(numbers).address, strides=[pitch])
        unread = _Unread(launch_of(*(load(tm, at) for at in BOXES[boxes]), memory=gpu.memory))
        read = {
            element for at in BOXES[boxes] for element in elements_of(at, tm) if all(0 <= i < d for i, d in zip(element, dims, strict=True))
        }
        for n in (0, 1):
            left = [i for i in range(dims[n]) if i not in {element[n] for element in read}]
            runs = [[*run] for _, run in itertools.groupby(left, key=lambda i, left=left: i - left.index(i))]
            told = [(run[0], run[-1] + 1) for run in runs if np.take(numbers[:, :16], run, axis=1 - n).any()]
            assert unread.along(tm, n) == told


def test_of_a_tensor_that_reaches_past_its_array_or_of_half_bytes_nothing_is_known():
    gpu = Gpu("sm_90a")
    array = gpu.array(np.ones((16, 16), np.float32))
    long = tensor_map((16, 17), (4, 4), address=array.address)
    halves = TensorMap.tiled(
        data_type="16U4_ALIGN8B", global_address=array.address, global_dim=(128, 16), global_strides=(64,), box_dim=(64, 4)
    )
    for tm in (long, halves):
        assert not _Unread(launch_of(load(tm, (0, 0)), memory=gpu.memory)).along(tm, 1)
    for at in (array.address, array.address + 1008):
        copy = Bulk(0, 0, INSTRUCTION, (SimpleNamespace(src_space="global", src=at),))
        store_ = Bulk(0, 0, INSTRUCTION, (SimpleNamespace(src_space="shared::cta", src=at),))
        tm = tensor_map((16, 16), (4, 4), address=array.address)
        assert not _Unread(launch_of(load(tm, (0, 0)), copy, memory=gpu.memory)).along(tm, 1)
        assert _Unread(launch_of(load(tm, (0, 0)), store_, memory=gpu.memory)).along(tm, 1) == [(4, 16)]


def test_of_an_array_that_two_tensors_or_other_copies_read_no_part_is_unread():
    gpu = Gpu("sm_90a")
    array = gpu.array(np.ones((16, 16), np.float32))
    tm, other = (tensor_map((16, 16), box, address=array.address) for box in ((4, 4), (8, 4)))
    half = tensor_map((16, 8), (4, 4), address=array.address)
    plane = tensor_map((16, 4), (4, 4), address=array.address + 64 * 4)
    for events, is_known in (
        ([load(tm, (0, 0))], True), ([load(tm, (0, 0)), load(other, (0, 0))], True), ([load(tm, (0, 0)), load(half, (0, 0))], False),
        ([load(tm, (0, 0)), load(plane, (0, 0))], False), ([load(tm, (0, 0)), load(tm, (0, 0), mode="tile::gather4")], False),
    ):  # fmt: skip
        assert _Unread(launch_of(*events, memory=gpu.memory)).along(tm, 1) == [(4, 16)] * is_known


def issued(tm, at, *, is_looked_up=False):
    return Issued(0, 0, load(tm, at), SimpleNamespace(tensor_map=tm, smem_address=0x400), "map", is_looked_up)


def read_of(loads, *, along_k=True):
    k, rows = ((SimpleNamespace(dimension=n),) for n in ((0, 1) if along_k else (1, 0)))
    return SimpleNamespace(is_plain=True, loads=tuple(loads), modes=(rows, k))


@pytest.mark.parametrize("along_k", [True, False])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("at", "looked_up", "brought", "is_told"),
    [
        ([(0, 16)], False, [(0, 0), (0, 4)], True), ([(0, 16), (4, 16)], False, [(0, 0), (0, 4)], True), ([(0, 16), (4, 4)], False, [(0, 0), (0, 4)], False),
        ([(0, 16)], True, [(0, 0), (0, 4)], False), ([(0, 16), (0, 20)], False, [(0, 0), (0, 4), (0, 8), (0, 12)], False),
        ([(0, 16)], False, [(0, 0), (0, 4), (0, 11)], False), ([(0, -4)], False, [(0, 0)], False), ([(0, 12)], False, [(0, 0)], False), ([(16, 0)], False, [(0, 0)], True),
    ],
)  # fmt: skip
def test_a_tile_past_the_end_is_told_if_all_of_it_is_and_a_tile_inside_is_never_loaded(at, looked_up, brought, is_told, side, along_k):
    gpu = Gpu("sm_90a")
    tm = tensor_map((16, 16), (4, 4), address=gpu.array(np.ones((16, 16), np.float32)).address)
    loads = [issued(tm, one, is_looked_up=looked_up) for one in at]
    launch = launch_of(*(load(tm, one) for one in brought), *(one.event for one in loads), memory=gpu.memory)
    read = read_of(loads, along_k=along_k)
    inside = read_of([issued(tm, (0, 0))])
    for other in (None, inside):
        first = (read, other) if side == 0 else (other, read)
        found = _past_the_end(SimpleNamespace(first=first, events=[SimpleNamespace(instruction=INSTRUCTION)]), _Unread(launch))
        assert (found is not None) == is_told
        if found is not None:
            n = at[0].index(16)
            assert f"the tile of {'AB'[side]} at coordinates {list(at[0])}" in found.what
            assert f"coordinate 16 of dimension {n} is outside the extent 16" in found.why
            assert f"no tensor load brings {'rows' if (n == 1) == along_k else 'k'} " in found.why
            assert f"of {'AB'[side]}" in found.why


# ---- k of A with other k of B


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("terms", [1, 2, 3, 4])
@pytest.mark.parametrize("side", [0, 1])
def test_split_numbers_multiply_one_part_with_each_part_of_the_others_once(count, terms, side):
    """A_high * (B_high + B_middle + B_low): k of A has partners one part of B apart. In any order; from any k; a product
    that is lacking, doubled or moved makes another thing of it.
    """
    rng = np.random.default_rng(count * 10 + terms)
    for step, begin in ((16, (0, 0)), (8, (48, 16)), (32, (0, 64)), (1, (0, 3))):
        pairs = [(begin[0] + step * n, begin[1] + step * (n + count * term)) for n in range(count) for term in range(terms)]
        pairs = [pair if side == 0 else pair[::-1] for pair in rng.permutation(pairs).tolist()]
        pairs = [tuple(pair) for pair in pairs]
        assert are_terms(pairs) == (count >= 2 and terms in (2, 3))
        assert are_terms(pairs, fewest=1) == (terms in (2, 3))
        if count >= 2 and terms in (2, 3):
            assert not are_terms(pairs, fewest=count + 1)
            for n in range(len(pairs)):
                (a, b), rest = pairs[n], pairs[:n] + pairs[n + 1 :]
                assert not are_terms(rest)
                for other in ((a, b + step * count * terms), (a + step * count, b), rest[0], (a + 1, b)):
                    assert not are_terms([*rest, other])


def test_products_of_one_k_alone_are_no_split_numbers():
    assert not are_terms([(0, 0), (0, 0)], fewest=1)
    assert not are_terms([(0, 16)] * 4)


@pytest.mark.parametrize("step", [1, 8, 16])
def test_k_are_exchanged_if_each_has_that_of_its_neighbour(step):
    pairs = [(0, step), (step, 0), (4 * step, 3 * step), (3 * step, 4 * step)]
    assert are_exchanged(pairs, step)
    assert not are_exchanged(pairs, 2 * step)
    assert not are_exchanged([], step)
    assert not are_exchanged([(0, 0)], 0)
    for n in range(4):
        assert not are_exchanged(pairs[:n] + pairs[n + 1 :], step)
        assert not are_exchanged([*pairs[:n], (9 * step, 9 * step), *pairs[n:]], step)


def uses_of(pairs, rows=(0, 0), k=16):
    """Instructions with these first k of A and B; None where no tensor load brought the operand."""
    event = SimpleNamespace(k_of=lambda side: k, is_sparse=False)
    reads = [tuple(None if at is None else SimpleNamespace(at=(row, at)) for at, row in zip(pair, rows, strict=True)) for pair in pairs]
    return [_Use(SimpleNamespace(event=event), two) for two in reads]


@pytest.mark.parametrize(
    ("pairs", "is_long"),
    [
        ([(0, 0), (16, 16)], True), ([(0, 0), (16, 16), (0, 32)], False), ([(0, 0), (16, 16), (0, 32), (16, 48)], True), ([(0, 0), (16, 32), (32, 16), (48, 48)], False),
        ([(0, 0)], False), ([(None, 0), (None, 16)], True), ([(None, 0), (0, 16)], True), ([(0, None), (32, None)], False), ([(0, 0), (16, 16), (32, 32), (0, 48)], True),
    ],
)  # fmt: skip
def test_runs_are_long_if_they_have_two_instructions_on_average(pairs, is_long):
    assert _has_long_runs(uses_of(pairs)) == is_long
    assert _has_long_runs(uses_of(pairs, k=8)) == (False if len(pairs) > 1 else is_long)
    mixed = [one if n % 2 else other for n, (one, other) in enumerate(zip(uses_of(pairs, rows=(64, 0)), uses_of(pairs), strict=True))]
    assert not _has_long_runs(mixed) or pairs[0][0] is None or len(pairs) == 4


@pytest.mark.parametrize("side", [0, 1])
def test_parts_that_take_turns_follow_one_another_once_they_are_exchanged_in_pairs(side):
    straight = [(16 * n, 16 * n) for n in range(6)]
    turned = [tuple(straight[n ^ (axis == side)][axis] for axis in (0, 1)) for n in range(6)]
    for own in (0, 1):
        assert _are_exchanged(uses_of(turned), own) == (own == side)
        assert not _are_exchanged(uses_of(straight), own)
        assert not _are_exchanged(uses_of(turned[:5]), own)
        assert not _are_exchanged(uses_of([*turned[:4], (80, 112) if side else (112, 80), turned[5]]), own)


def test_all_parts_of_complex_numbers_meet():
    """A_re B_re and A_im B_im in one accumulator, A_re B_im and A_im B_re in another; or the two crossed ones alone."""
    straight, crossed = [(0, 0), (64, 64)], [(0, 64), (64, 0)]

    def long(pairs):
        return [(a + k, b + k) for a, b in pairs for k in (0, 16)]

    for sums, are_all in (
        ([long(straight), long(crossed)], True), ([straight, crossed], False), ([long(straight + crossed)], True), ([straight + crossed], False),
        ([crossed], False), ([crossed[:1], crossed[1:]], True), ([long(crossed)], False), ([straight, crossed[:1]], False), ([straight, straight], False),
        ([[(0, 32)], [(64, 0)]], False), ([[(0, 0)], [(64, 64)]], False), ([[(0, 0)], [(64, 0)]], False),
    ):  # fmt: skip
        assert _are_all_parts([uses_of(pairs) for pairs in sums]) == are_all, sums


# ---- words and matrices


@pytest.mark.parametrize("swizzle", MODES)
def test_the_law_that_a_message_gives_is_where_the_swizzle_puts_each_chunk(swizzle):
    """In rows as wide as the swizzle. What moves more or less than 16 bytes has no such law."""
    mode, text = MODES[swizzle], _law(swizzle)
    if not mode.mask or mode.shift != 4:
        assert not text
        return
    expression = text.removeprefix(": chunk c of row r to ")
    for r, c in itertools.product(range(32), range(mode.chunks)):
        address = r * mode.width + 16 * c
        moved = address ^ (address >> 7 & mode.mask) << 4
        if 128 % mode.width == 0:
            assert eval(expression, {"r": r, "c": c}) == moved % mode.width // 16
            assert moved // mode.width == r


def test_what_lies_outside_of_a_matrix_is_zero():
    matrix, rows, k = np.arange(1.0, 49).reshape(6, 8), 4, 5
    padded = np.zeros((40, 40))
    padded[16:22, 16:24] = matrix
    for row, column in itertools.product((-5, -2, 0, 3, 6, 9), (-9, -4, 0, 3, 5, 8)):
        given = matrix[max(row, 0) : max(row + rows, 0)]  # the rows that lie inside
        part = _part(given, SimpleNamespace(at=(row, column)), rows, k)
        assert (part == padded[16 + row : 16 + row + rows, 16 + column : 16 + column + k]).all()


@pytest.mark.parametrize("count", range(1, 8))
def test_a_list_of_lines_ends_in_dots_if_some_are_left_out(count):
    text = listed([*range(10, 10 + count)])
    told = [int(n) for n in text.removesuffix(" ...").replace(" and", ",").split(", ")]
    assert told == [*range(10, 10 + min(count, MOST_LINES))]
    assert text.endswith(" ...") == (count > MOST_LINES)
    assert (" and " in text) == (1 < count <= MOST_LINES)


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("kind", ["wgmma", "f16"])
def test_an_instruction_of_more_rows_is_the_fix_where_there_is_one(side, group, kind):
    """M of wgmma is 64, of tcgen05 64 or 128 in each CTA; N has a multiple of 8 (16 of a pair) up to 256."""
    if kind == "wgmma" and group == 2:
        return
    m, n = (64 if kind == "wgmma" else 128 * group), 64
    event = Mma(0, 0, INSTRUCTION, kind, m, n, 16, None, 0, "f16", "f16", "f32", cta_group=group, d=0)
    own = event.rows_of(side)
    for rows in (own + 8, 2 * own, 3 * own, 8 * own):
        text = _of_more_rows(event, side, rows, own, "rows X")
        whole = rows * group
        exists = whole <= 256 and whole % (8 * group) == 0 if side == "b" else whole == 64 and kind == "wgmma"
        if exists:
            assert text == f"{'M' if side == 'a' else 'N'} = {whole}, or a smaller box"
        else:
            assert (
                text
                == f"{'a second' if rows <= 2 * own else 'another'} {'wgmma' if kind == 'wgmma' else 'tcgen05.mma'} for rows X; or a box of {own} rows"
            )
        assert _of_more_rows(event, side, rows, own - 8, "rows X") == "read the other rows too, or load a smaller box"


@pytest.mark.parametrize("along_k", [True, False])
@pytest.mark.parametrize("pitch", [64, 96])
def test_there_are_data_between_two_k_if_an_element_there_is_not_zero(along_k, pitch):
    gpu = Gpu("sm_90a")
    for row, column in ((0, 0), (3, 7), (10, 15), (5, 4), (10, 18)):
        numbers = np.zeros((11, pitch // 4), np.float32)
        if column < pitch // 4:
            numbers[row, column] = 1
        tm = tensor_map((16, 11), (4, 4), address=gpu.array(numbers).address, strides=[pitch])
        read = SimpleNamespace(loads=[issued(tm, (0, 0))], along_k=along_k)
        for begin, end in ((0, 4), (4, 8), (3, 11), (7, 8), (10, 11), (5, 6)):
            inside = numbers[:, :16][:, begin:end] if along_k else numbers[begin:end, :16]
            assert _has_data(gpu.memory, read, begin, end) == inside.any()
    past = tensor_map((16, 4000), (4, 4), address=tm.global_address)
    assert not _has_data(gpu.memory, SimpleNamespace(loads=[issued(past, (0, 0))], along_k=along_k), 0, 16)


@pytest.mark.parametrize(("boxes", "hop", "is_one"), [(1, 0, False), (2, 4, True), (3, 4, True), (2, 8, False), (3, 3, False)])
@pytest.mark.parametrize("along_k", [True, False])
def test_frames_are_the_same_rows_in_boxes_that_follow_one_another_along_k(boxes, hop, is_one, along_k):
    tm = tensor_map((64, 64), (4, 4))
    k = 0 if along_k else 1
    at = [tuple(8 + hop * n if axis == k else 12 for axis in (0, 1)) for n in range(boxes)]
    for order in itertools.permutations(at):
        read = SimpleNamespace(along_k=along_k, loads=[issued(tm, one) for one in order])
        assert _are_frames(read, []) == is_one
        assert not _are_frames(read, [read.loads[0]])
    if boxes > 1:
        moved = [*at[:-1], tuple(c + (axis != k) * 4 for axis, c in enumerate(at[-1]))]
        assert not _are_frames(SimpleNamespace(along_k=along_k, loads=[issued(tm, one) for one in moved]), [])


@pytest.mark.parametrize(("at", "walked"), [
    ([(0, 0, 0, 0)], (2,)), ([(0, 0, 0, 0), (0, 0, 16, 0)], (2,)), ([(0, 0, 0, 0), (0, 0, 0, 1)], (2, 3)), ([(0, 0, 0, 2), (0, 1, 0, 2)], (1, 2)),
    ([(0, 0, 0, 0), (64, 0, 0, 0)], (2,)),
])  # fmt: skip
@pytest.mark.parametrize("heads", [1, 8])
@pytest.mark.parametrize("is_within", [True, False])
def test_an_operand_runs_along_what_its_boxes_have_several_of_and_what_lies_within(at, walked, heads, is_within):
    """Rows of 64 channels of some heads: heads that lie within a row are walked by it, those in planes of their own are not."""
    strides = [128, 128 * heads, 1 << 20] if is_within else [1 << 16, 128, 1 << 20]
    tm = TensorMap.tiled(
        data_type="f16", global_address=0x10000, global_dim=(128, heads, 256, 4), global_strides=strides, box_dim=(64, 1, 16, 1)
    )
    loads = [issued(tm, one) for one in at]
    expected = {*walked, *([1] if is_within and heads > 1 else [])}
    assert _walked(loads[0], loads) == tuple(sorted(expected))


def test_orders_of_k_are_told_by_the_first_k_that_another_one_replaces():
    for size in (4, 8):
        for order in itertools.islice(itertools.permutations(range(size)), 0, 5000, 7):
            moved = [n for n in range(size) if order[n] != n]
            told = f" (k {order[moved[0]]} in place of k {moved[0]})" if moved else ""
            assert _order(np.array(order).reshape(2, -1)) == told
    assert not _order(None)


@pytest.mark.parametrize("kind", ["f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4", "f16", "i8"])
def test_elements_of_four_and_six_bits_have_gaps_where_types_of_eight_are_taken_too(kind):
    for dtype in ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2"):
        assert packing_of(kind, dtype) == ("padded" if "f8f6f4" in kind and dtype in ("e2m1", "e2m3", "e3m2") else "packed")


@pytest.mark.parametrize("blocks", [None, ("m", "k")])
def test_an_operand_holds_scales_if_the_scenario_says_so_or_else_the_tensor(blocks):
    tensor = SimpleNamespace(scale_blocks=blocks)
    assert [holds_scales(SimpleNamespace(scale_block=said), tensor) for said in (None, True, False)] == [blocks is not None, True, False]


def test_bytes_at_addresses_are_those_of_the_arrays_that_hold_them():
    """-1 for uninitialised ones, for addresses of no array, and for none."""
    gpu, drawn = Gpu("sm_90a"), np.random.default_rng(3)
    held = [drawn.integers(0, 256, size, dtype=np.uint8) for size in (64, 37)]
    arrays, empty = [gpu.array(one) for one in held], gpu.empty(16)
    wanted = {array.address + n: int(byte) for array, one in zip(arrays, held, strict=True) for n, byte in enumerate(one)}
    ends = [array.address + n for array, one in zip(arrays, held, strict=True) for n in (-1, 0, len(one) - 1, len(one) + 300)]
    at = np.array([*ends, 0, -1, -5, FOREIGN, *(empty.address + n for n in range(16)), *drawn.choice([*wanted], 40), 1 << 60])
    for part in (at, at.reshape(3, -1)[:, ::-1], at[:0]):
        found = bytes_at(gpu.memory, part)
        assert found.tolist() == np.vectorize(lambda n: wanted.get(int(n), -1), otypes=[np.int64])(part).tolist()


@pytest.mark.parametrize("seed", range(8))
def test_uses_of_several_processes_are_those_of_one_each_once(seed):
    """A use is known by its k and the places of its factors; both processes may have numbered theirs alike."""
    drawn = np.random.default_rng(seed)
    uses = [SimpleNamespace(k=int(k), base=int(base), offsets=np.array([n])) for k, base, n in drawn.integers(0, 3, (12, 3))]
    parts = []
    for of in (uses[:7], uses[5:]):
        held = {}
        for use in of:
            rows = f"rows {use.k % 2}"
            of_rows = held.setdefault(rows, {})
            if not any((use.k, use.base, use.offsets[0]) == (other.k, other.base, other.offsets[0]) for other in of_rows.values()):
                of_rows[use.k, use.base, len(of_rows)] = use
        parts.append(held)
    mine, others = parts
    before = {rows: [*of_rows.values()] for rows, of_rows in mine.items()}
    _merge(mine, others)
    for rows in {*mine, *others}:
        found = [(use.k, use.base, int(use.offsets[0])) for use in mine[rows].values()]
        assert sorted(found) == sorted({(use.k, use.base, int(use.offsets[0])) for use in uses if f"rows {use.k % 2}" == rows})
        assert [*mine[rows].values()][: len(before.get(rows, []))] == before.get(rows, [])
    again = {rows: [*of_rows] for rows, of_rows in mine.items()}
    _merge(mine, others)
    assert {rows: [*of_rows] for rows, of_rows in mine.items()} == again
