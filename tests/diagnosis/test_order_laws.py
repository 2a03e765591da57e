"""Laws of orders: of addresses, of k, of tiles. Each rule is compared with its definition, counted out."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from smemsim.core.layout.swizzle import swizzle
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.diagnosis.operands.frames import Frames
from smemsim.diagnosis.operands.gaps import _between
from smemsim.diagnosis.operands.orders import exchanged, is_affine, is_in_order, is_in_runs, is_looked_up, is_regular
from smemsim.diagnosis.operands.sums import Sum, _At, _is_convolution, _other_k, _parting, _wrong_side
from smemsim.diagnosis.result.arrays import Tile
from smemsim.diagnosis.result.tiles import _law, _swizzle_told, _through

# ---- orders of addresses


def sequences(longest, values):
    for size in range(1, longest + 1):
        yield from itertools.product(range(values), repeat=size)


def sums_of_bits(seq):
    """Is each the first one and a number for each bit of its place?"""
    weights = {bit: seq[bit] - seq[0] for bit in (1, 2, 4) if bit < len(seq)}
    return all(seq[n] - seq[0] == sum(w for bit, w in weights.items() if n & bit) for n in range(len(seq)))


def test_addresses_are_affine_if_each_bit_of_a_place_adds_one_number():
    for seq in sequences(5, 4):
        assert is_affine(seq) == sums_of_bits(seq)
    for seq in ([0, 8, 32, 40], [0, 8, 32, 40, 1, 9, 33, 41], [5, 4, 3, 2], [0, 1, 4, 6]):
        assert is_affine(seq) == sums_of_bits(seq)


def test_addresses_are_in_order_if_they_grow_or_each_bit_adds_more():
    for seq in sequences(5, 4):
        grows = all(a < b for a, b in itertools.pairwise(seq))
        assert is_in_order(seq) == (grows or (sums_of_bits(seq) and all(seq[bit] > seq[0] for bit in (1, 2, 4) if bit < len(seq))))
    assert is_in_order([0, 32, 8, 40])
    assert not is_in_order([0, 32, 8, 41])


def test_values_come_regularly_if_their_first_order_repeats_or_each_comes_equally_often():
    for seq in sequences(6, 3):
        first = list(dict.fromkeys(seq))
        repeats = list(seq) == (list(seq[: len(first)]) * len(seq))[: len(seq)]
        assert is_regular(seq) == (repeats or len({seq.count(x) for x in seq}) == 1)


def test_neighbours_share_bytes_in_runs_of_one_length_but_the_ends():
    """The first and the last run may be shorter: there a tile begins or ends."""
    for seq in sequences(6, 3):
        runs = [(value, len([*own])) for value, own in itertools.groupby(seq)]
        lengths = [n for _, n in runs]
        inner = lengths[1:-1] if len(lengths) > 2 else lengths[:1]
        expected = len({value for value, _ in runs}) == len(runs) and len(set(inner)) == 1 and max(lengths) <= inner[0]
        assert is_in_runs(np.array(seq)) == expected, seq


def test_rows_are_looked_up_if_some_share_bytes_in_no_order():
    for seq in sequences(5, 3):
        expected = len(set(seq)) < len(seq) and not is_in_runs(np.array(seq)) and not sums_of_bits(seq)
        assert is_looked_up(np.array(seq)[:, None]) == expected
        column = np.array([*seq, -1, -1])  # bytes that are not known
        straight = np.arange(len(column))
        assert is_looked_up(np.stack([straight, column], axis=1)) == expected


@pytest.mark.parametrize("size", [2, 4, 6, 8])
@pytest.mark.parametrize("pitch", [1, 20])
def test_an_exchange_of_rows_is_said_as_it_is(size, pitch):
    for of in itertools.islice(itertools.permutations(range(size)), 0, None, 1 if size < 6 else 11 if size == 6 else 601):
        says, found, by = exchanged(100 + pitch * np.array(of))
        assert (found.tolist(), by) == (list(of), pitch)
        rows = range(size)
        if says == "in the opposite order":
            assert [*of] == [*rows][::-1]
        elif says:
            assert [*of] == [eval(says.removeprefix("so that row r gets those of row "), {"r": r}) for r in rows]
        else:
            orders = [
                [*rows][::-1],
                *([r ^ n for r in rows] for n in range(1, size)),
                *([(r + n) % size for r in rows] for n in range(1, size)),
            ]
            assert [*of] not in orders
    assert exchanged(np.array([0, 4, 4, 8])) is None
    assert exchanged(np.array([0, 4, 12, 16])) is None
    assert exchanged(np.array([7, 7, 7])) is None


# ---- k of sums


def entries_of(pairs, rows=None, **more):
    made = []
    for n, (a, b) in enumerate(pairs):
        own = (0, 0) if rows is None else rows[n]
        made.append(
            SimpleNamespace(
                place=lambda side, own=own, k=(a, b): (own[side], k[side]), at=lambda own=own: SimpleNamespace(rows=own), is_fill=False, product=SimpleNamespace(pairs_freely=False),
                reads=[SimpleNamespace(loads=[SimpleNamespace(number=n, key_of_map=("map", side))]) for side in (0, 1)], **more,
            )
        )  # fmt: skip
    return made


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("own", "other", "n"),
    [
        ((0, 16, 0, 48), (0, 16, 32, 48), 2), ((16, 16, 32, 48), (0, 16, 32, 48), 0), ((0, 16, 96, 48), (0, 16, 32, 48), 2), ((0, 16, 32, 96), (0, 16, 32, 48), 3),
        ((64, 16, 32, 48), (0, 16, 32, 48), 0), ((0, 8, 16, 24), (0, 16, 32, 48), 2),
    ],
)  # fmt: skip
def test_the_wrong_operand_has_its_k_twice_or_advances_less_evenly_or_less(own, other, n, side):
    pairs = [(a, b) if side == 0 else (b, a) for a, b in zip(own, other, strict=True)]
    assert _wrong_side(entries_of(pairs), n) == side


def test_of_two_that_advance_alike_the_one_that_advances_less_is_wrong():
    for n in (0, 1, 2):
        assert _wrong_side(entries_of([(0, 0), (8, 16), (16, 32)]), n) == 0
        assert _wrong_side(entries_of([(0, 0), (16, 8), (32, 16)]), n) == 1
        assert _wrong_side(entries_of([(0, 0), (16, 16), (32, 32)]), n) == 1


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("by", [-16, 8, 32])
def test_k_part_at_the_first_product_whose_steps_differ(at, by):
    pairs = [(16 * n, 16 * n + (by if n >= at else 0)) for n in range(5)]
    its = Sum(entries_of(pairs), None, set())
    ((entry, side),) = _parting(its)
    assert entry is its.entries[at]
    assert side == _wrong_side(its.entries, at)
    assert not [*_parting(Sum(its.entries, None, set(), is_split=True))]
    assert not [*_parting(Sum(entries_of([(k, k + 64) for k in range(0, 80, 16)]), None, set()))]
    other = entries_of(pairs, rows=[(64 * (n >= at), 0) for n in range(5)])  # of other rows k may be others
    assert not [*_parting(Sum(other, None, set()))]
    for fill in (at - 1, at):
        some = entries_of(pairs)
        some[fill].is_fill = True
        assert not [*_parting(Sum(some, None, set()))]


@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("step", [1, 16])
def test_k_of_a_circular_convolution_add_up_to_one_number(count, step):
    for begin, total in itertools.product((0, 32), range(count)):
        pairs = [(begin + step * n, begin + step * ((total - n) % count)) for n in range(count)]
        for order in (pairs, pairs[::-1]):
            assert _is_convolution(order) == (count >= 4)
        if count >= 4:
            assert not _is_convolution([(begin + step * n, begin + step * n) for n in range(count)])
            assert not _is_convolution([*pairs[:-1], (pairs[-1][0] + step * count, pairs[-1][1])])
            assert not _is_convolution([*pairs[:-1], pairs[0]])
            assert not _is_convolution([*pairs[:-1], (pairs[-1][0], pairs[-1][1] + step)])


def sum_with(pairs, *, freely=False, numbers=None, shared=False):
    entries = entries_of(pairs)
    for n, entry in enumerate(entries):
        entry.product.pairs_freely = freely
        for side in (0, 1):
            entry.reads[side].loads[0].number = n if numbers is None else numbers[n]
    uses = {id(entry.reads[side].loads[0]): 1 + shared for entry in entries for side in (0, 1)}
    return Sum(entries, uses, set())


def test_k_that_meet_other_k_on_purpose():
    """Of complex and split numbers, in whichever order of the loads; of a convolution, if its loads are issued for it. A
    stage that is wrong makes one k of one operand come twice.
    """
    crossed = [(0, 32), (16, 48), (32, 0), (48, 16)]
    complex_ = [(0, 0), (32, 32), (0, 32), (32, 0)]
    turned = [(0, 48), (16, 32), (32, 16), (48, 0)]
    circular = [(0, 16), (16, 0), (32, 48), (48, 32)]
    for pairs, in_order, is_meant in (
        (complex_, True, True), (complex_, False, True), (crossed, True, True), (crossed, False, False), (turned, True, True), (turned, False, False), (circular, True, True),
        ([(0, 0), (16, 48), (32, 32), (48, 16)], True, True), ([(0, 0), (16, 48), (32, 32), (48, 16)], False, False),
        ([(0, 0), (16, 16), (32, 16), (48, 48)], True, False), ([(0, 0), (16, 32), (32, 16), (48, 48)], True, False), ([(0, 16), (16, 32), (32, 48), (48, 64)], True, False),
        ([*complex_, (0, 0)], True, False),
    ):  # fmt: skip
        numbers = None if in_order else [*range(len(pairs))][::-1]
        assert sum_with(pairs, numbers=numbers).pairs_other_k == is_meant, pairs
    assert sum_with(crossed, numbers=[3, 2, 1, 0], shared=True).pairs_other_k
    assert sum_with([(0, 0), (16, 32), (32, 16), (48, 48)], freely=True).pairs_other_k
    assert not sum_with([(0, 0), (16, 32), (32, 48), (48, 64)], freely=True).pairs_other_k


def test_a_tile_is_shared_if_one_load_of_it_meets_several_tiles_of_the_other_operand():
    """Unless a tile of its tensor is never read: then that one was probably meant."""
    for side in (0, 1):
        pairs = [(0, 0), (16, 16), (32, 32)]
        its = Sum(entries_of(pairs), None, set())
        assert not its.has_shared_tile
        its.entries[2].reads[side].loads[0] = its.entries[0].reads[side].loads[0]
        assert its.has_shared_tile
        for map_ in (0, 1):
            assert not Sum(its.entries, None, {("map", map_)}).has_shared_tile
        assert Sum(its.entries, None, {("other", side)}).has_shared_tile
        again = entries_of([(0, 0), (16, 16), (0, 0)])
        again[2].reads[side].loads[0] = again[0].reads[side].loads[0]
        assert not Sum(again, None, set()).has_shared_tile  # the same tiles twice


def test_products_with_another_k_are_those_that_are_not_as_far_apart_as_most():
    """Of the operand whose rows are other ones, too; if both rows are others, it is another product."""

    def entry(rows, apart, *, is_fill=False):
        return SimpleNamespace(at=lambda: _At(rows, apart), is_fill=is_fill, place=lambda side: (rows[side], apart * (1 - side)))

    usual = [entry((0, 64), 0) for _ in range(4)]
    for odd, told in (
        (entry((0, 64), 0), None), (entry((0, 64), 16), "k"), (entry((32, 64), 16), 0), (entry((0, 32), 16), 1), (entry((32, 32), 16), None), (entry((32, 64), 0), None),
        (entry((0, 64), 16, is_fill=True), None),
    ):  # fmt: skip
        for n in range(5):
            its = Sum([*usual[:n], odd, *usual[n:]], None, set())
            found = [*_other_k(its, _At((0, 64), 0))]
            if told is None:
                assert not found
            else:
                assert found == [(odd, _wrong_side(its.entries, n) if told == "k" else told)]


def test_what_is_wanted_has_the_same_k_if_one_product_of_these_rows_has():
    def entry(apart, *, rows=(0, 64), is_fill=False):
        return SimpleNamespace(at=lambda: _At(rows, apart), is_fill=is_fill)

    most = [entry(32) for _ in range(4)]
    for more, apart in (([], 32), ([entry(0)], 0), ([entry(16)], 32), ([entry(0, is_fill=True)], 32), ([entry(0, rows=(0, 0))], 32)):
        for entries in ([*most, *more], [*more, *most]):
            assert Sum(entries, None, set()).wanted() == _At((0, 64), apart)
            assert Sum(entries, None, set(), is_split=True).wanted() == _At((0, 64), 32)
    assert Sum([entry(0), entry(16)], None, set()).wanted() is None


# ---- gaps and frames


def test_gaps_are_the_k_between_the_first_and_the_last_that_no_instruction_has():
    for count in range(1, 5):
        for ks in itertools.combinations(range(0, 96, 16), count):
            for size in (8, 16, 32):
                covered = {k + n for k in ks for n in range(size)}
                first, last = min(covered), max(covered) + 1
                left = [k for k in range(first, last) if k not in covered]
                runs = [[*own] for _, own in itertools.groupby(left, key=lambda k, left=left: k - left.index(k))]
                steps = {(k, size) for k in ks}
                assert _between(steps, SimpleNamespace(a_begin=first, a_end=last)) == [(run[0], run[-1] + 1) for run in runs]
                assert not _between(steps, SimpleNamespace(a_begin=first, a_end=last + 16))
                assert not _between(steps, SimpleNamespace(a_begin=first - 16, a_end=last))
    assert _between({(0, 64), (16, 16), (96, 16)}, SimpleNamespace(a_begin=0, a_end=112)) == [(64, 96)]


def noted(boxes, *, major="K", may_be=True, extent=32, box=16):
    k = 0 if major == "K" else 1
    tm = SimpleNamespace(
        global_address=0x1000, global_dim=(256, extent) if k == 0 else (extent, 256), box_dim=(32, box) if k == 0 else (box, 32)
    )
    return SimpleNamespace(loads=boxes(tm, k), major=major, told=SimpleNamespace(may_be_frames=may_be))


def traced(*steps, accumulator="d"):
    return SimpleNamespace(steps=[SimpleNamespace(a=a, b=b, event=None) for a, b in steps], accumulator=lambda event: accumulator)


def frame(row, k, *, reverse=False, **more):
    """An operand of two boxes of the same rows that follow one another along k."""

    def boxes(tm, axis):
        made = [
            SimpleNamespace(
                transfer=SimpleNamespace(tensor_map=tm),
                event=SimpleNamespace(coordinates=(k + 32 * n, row) if axis == 0 else (row, k + 32 * n)),
            )
            for n in (0, 1)
        ]
        return made[::-1] if reverse else made

    return noted(boxes, **more)


def are_frames(*traces, side="a"):
    found, merged = Frames(), Frames()
    for trace in traces:
        found.note(trace)
        one = Frames()
        one.note(trace)
        merged.merge(one)
    assert {key: (of.are_frames, of.reads, of.rows) for key, of in found._of.items()} == {
        key: (of.are_frames, of.reads, of.rows) for key, of in merged._of.items()
    }
    of = found._of.get((side, 0x1000))
    return of is not None and of.are_frames


@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("side", ["a", "b"])
def test_frames_keep_their_rows_while_k_goes_on_and_have_all_rows_of_the_tensor(major, side):
    def steps(*places, **more):
        made = [frame(row, k, major=major, **more) for row, k in places]
        return [(one, None) if side == "a" else (None, one) for one in made]

    whole = steps((0, 0), (0, 64), (16, 0), (16, 64))
    assert are_frames(traced(*whole), side=side)
    assert are_frames(traced(*whole[:2]), traced(*whole[2:]), side=side)  # of two CTAs
    assert are_frames(traced(*steps((-16, 0), (0, 0), (0, 64), (16, 0), (24, 0))), side=side)  # rows outside are none
    assert not are_frames(traced(*whole[:2]), side=side)  # rows 16 to 31 lack
    assert not are_frames(traced(*steps((0, 0), (16, 0))), side=side)  # k does not go on
    assert not are_frames(traced(*steps((0, 0), (16, 64))), side=side)
    assert not are_frames(traced(whole[0], whole[2], accumulator="d"), traced(whole[1], whole[3], accumulator="e"), side=side)
    assert not are_frames(traced(*whole, *steps((0, 128), may_be=False)), side=side)
    assert are_frames(traced(*whole, (None, None)), side=side)
    later = frame(0, 0, major=major)
    second = SimpleNamespace(loads=later.loads[1:], major=major, told=SimpleNamespace(may_be_frames=False))  # begins in the later box
    for one in ((later, None), (second, None)) if side == "a" else ((None, later), (None, second)):
        whole.append(one)
    assert not are_frames(traced(*whole), side=side)


def test_frames_are_no_operands_any_more():
    """Of all products of their tensor and side. How many are told once."""
    frames = Frames()
    frames.note(traced(*[(frame(row, k), frame(row, k)) for row, k in ((0, 0), (0, 64), (16, 0))]))
    frames.note(traced((frame(16, 64), None)))
    frames._of["b", 0x1000].has_other = True
    own, mixed, other = (
        SimpleNamespace(base=base, may_be_frames=may_be) for base, may_be in ((0x1000, True), (0x1000, False), (0x2000, True))
    )
    product = SimpleNamespace(a=[own, mixed, other, None], b=[own, other], first=(own, own))
    assert frames.take_out([product])[1] == {"a": 4}
    assert (product.a, product.b, product.first) == ([None, mixed, other, None], [own, other], (None, own))
    assert frames.take_out([product])[1] == {}
    frames._of["b", 0x1000].has_other = False
    assert frames.take_out([product])[1] == {"b": 3}
    assert (product.b, product.first) == ([None, other], (None, None))


# ---- words for chunks that are exchanged


@pytest.mark.parametrize("seed", range(4))
def test_the_xor_of_each_row_is_said_as_it_is(seed):
    rng, rows = np.random.default_rng(seed), np.arange(64)
    laws = [(rows // lines + first) % period for period in (1, 2, 4, 8) for lines in (1, 2, 4, 8) for first in range(period)]
    laws += [np.full(64, n) for n in range(4)] + [rng.permutation(8)[rows % period] for period in (2, 4, 8)]
    for moved in laws:
        law = compile(_law(moved), "law", "eval")
        assert [eval(law, {"r": int(r)}) for r in rows] == moved.tolist(), _law(moved)
    for period, lines in itertools.product((2, 4, 8), (1, 2, 4, 8)):
        for first in range(period):
            row = f"r // {lines}" if lines > 1 else "r"
            told = f"(({row} + {first}) % {period})" if first else f"({row} % {period})"
            assert _law((rows // lines + first) % period) == told
    for period in (2, 4, 8, 16, 32):
        table = [3, 0, 1, 7, *range(28)][:period]
        assert _law(np.array(table)[rows % period]) == f"{table}[r % {period}]"
    assert [_law(np.full(64, n)) for n in (0, 5)] == ["0", "5"]
    assert _law(rng.permutation(64)).endswith(", ...][r]")


@pytest.mark.parametrize("store", [Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128])
@pytest.mark.parametrize("written", [Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128])
def test_chunks_that_another_swizzle_has_moved_are_said_where_they_are(store, written):
    """A store takes its own swizzle away from what was written with another one."""
    one, two = MODES[store], MODES[written]
    for width, offset in itertools.product((32, 64, 128), (0, 256, 1024)):
        tile = Tile(16, width // 4, "tile", swizzle=store, offset=offset)
        source = _through(tile, 4, store, written)
        for at in range(0, 16 * width, 20):  # each chunk, at several of its elements
            taken = int(swizzle(at + offset, 0, one.mask, one.shift)) - offset
            assert source[at // 4] == int(swizzle(taken, 0, two.mask, two.shift)) // 4
        told = _swizzle_told(tile, 4, store, written).what
        _, found, law = told.partition("chunk c of row r is where ")
        if found and store != written:
            for r, c in itertools.product(range(16), range(width // 16)):
                to = eval(law.partition(" belongs")[0], {"r": r, "c": c})
                assert source[(r * width + 16 * c) // 4] == (r * width + 16 * to) // 4
        assert bool(found) == (
            Swizzle.NONE in (store, written) and max(one.width, two.width) == width and not offset % max(one.period, two.period)
        )
