"""Padding of rows, and columns that a kernel forgot: the rule of `core/machine/padding.py`."""

import itertools

import numpy as np
import pytest

from smemsim.core.machine.padding import pad_columns, pitches, widths

ROWS = 8
NOTHING = np.zeros(0, np.int64)


def blank(pitch, data, size=4, rows=ROWS):
    """Which bytes of a tile are unwritten: those of each row behind `data` elements of `size` bytes."""
    found = np.zeros((rows, pitch * size), bool)
    found[:, data * size :] = True
    return found


def pads(tile, known=(), before=16, behind=500):
    """Which bytes of a tile are taken for padding, if `before` bytes in front of it are written, and the `behind` ones
    are not?
    """
    window = np.concatenate([np.zeros(before, bool), tile.reshape(-1), np.ones(behind, bool)])
    offsets = np.flatnonzero(window)
    found = np.zeros(len(window), bool)
    found[offsets[pad_columns(offsets, np.array(known, np.int64))]] = True
    assert not found[before + tile.size :].any() or tile.reshape(-1)[-1] == 0
    return found[before : before + tile.size].reshape(tile.shape)


@pytest.mark.parametrize(
    ("data", "pitch", "size"),
    [
        *((data, data + more, 4) for data in (32, 64, 128) for more in (1, 2, 4, 8, 16)),
        *((data, data + more, 4) for data in (16, 48) for more in (1, 2, 4, 8)),
        *((data, data + 8, 2) for data in (32, 40, 64, 72, 128)), (64, 80, 1), (128, 144, 1), (100, 104, 4), (20, 24, 4), (3, 4, 4), (7, 8, 4), (5, 8, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("behind", [0, 500])
def test_the_gap_of_a_row_with_such_a_pitch_is_padding(data, pitch, size, behind):
    tile = blank(pitch, data, size)
    assert (pads(tile, behind=behind) == tile).all()
    assert (pads(tile[:, ::-1], behind=0) == tile[:, ::-1]).all()  # in front of the data


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("pitch", [32, 64, 96, 128])
@pytest.mark.parametrize(
    "forgets",
    [
        lambda r, c, n: c == n - 1, lambda r, c, n: c == 0, lambda r, c, n: c == n // 2 - 3, lambda r, c, n: c >= n // 2, lambda r, c, n: c % 2 == 1,
        lambda r, c, n: c >= 8, lambda r, c, n: c >= n - 8, lambda r, c, n: (c == 5) | (c == 9), lambda r, c, n: r == 3, lambda r, c, n: r == ROWS - 1,
        lambda r, c, n: r % 2 == 1, lambda r, c, n: (r == 3) & (c == 7), lambda r, c, n: (r == 3) & (c == 7) | (r == 5) & (c == 21),
    ],
    ids=[
        "the last", "the first", "a middle one", "half", "every second", "all but eight", "eight", "two", "a row", "the last row", "every second row", "an element",
        "two elements",
    ],
)  # fmt: skip
def test_what_a_kernel_forgets_in_a_tile_is_no_padding(forgets, pitch, size):
    rows, columns = np.indices((ROWS, pitch))
    tile = np.repeat(forgets(rows, columns, pitch), size, axis=1)
    assert not pads(tile).any()


@pytest.mark.parametrize(("data", "pitch"), [(32, 33), (64, 68), (32, 40)])
def test_a_hole_in_a_tile_with_padding_is_no_padding(data, pitch):
    padded, hole = blank(pitch, data), np.zeros((ROWS, pitch * 4), bool)
    hole[5, 28 : 28 + 4 * (pitch - data)] = True
    assert (pads(padded | hole) == padded).all()
    hole[:, 28:32] = True  # a column, too: which of the two is the padding?
    assert not pads(padded | hole, known=[64]).any()


@pytest.mark.parametrize("behind", [0, 500])
@pytest.mark.parametrize(("data", "pitch"), [(32, 33), (64, 68), (32, 40)])
@pytest.mark.parametrize("where", ["before the gap", "after the gap", "both", "before two gaps"])
def test_what_is_forgotten_beside_the_padding_of_a_row_is_no_padding(where, data, pitch, behind):
    """The gap of that row is longer. In the middle of a tile, its other bytes stay padding, and so does that of all other rows."""
    padded = blank(pitch, data)
    for row in range(ROWS):
        for count in (1, 3):
            forgotten, rows = np.zeros_like(padded), slice(row, row + 1 + (where == "before two gaps"))
            if where != "after the gap":
                forgotten[rows, 4 * (data - count) : 4 * data] = True
            if where in ("after the gap", "both"):
                forgotten[rows, : 4 * count] = True
            found = pads(padded | forgotten, behind=behind)
            assert not (found & ~padded).any()
            if 3 <= row < ROWS - 2 and where != "before two gaps":
                assert (found == padded).all()


@pytest.mark.parametrize(("data", "pitch"), [(31, 32), (60, 64), (32, 64)])
def test_a_longer_gap_among_columns_that_are_forgotten_is_no_padding(data, pitch):
    for row, count, is_before in itertools.product(range(ROWS), (1, 3), (True, False)):
        forgotten = blank(pitch, data)
        forgotten[row, 4 * (data - count) if is_before else 0 : 4 * data if is_before else 4 * count] = True
        assert not pads(forgotten, behind=0).any()


@pytest.mark.parametrize(
    ("data", "pitch", "given", "is_padding"),
    [
        (31, 32, 31, True), (31, 32, 32, False), (96, 128, 96, True), (8, 128, 8, True), (8, 128, 136, True), (50, 80, 130, True), (50, 80, 131, False),
        (4, 16, 4, True), (4, 16, 20, False), (31, 66, 97, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [2, 4])
def test_an_argument_of_the_kernel_says_how_many_columns_there_are(data, pitch, given, is_padding, size):
    tile = blank(pitch, data, size)
    assert pads(tile, known=[7777, given], behind=0).any() == is_padding


@pytest.mark.parametrize(("data", "pitch", "size"), [(50, 64, 8), (25, 32, 16)], ids=["double", "float4"])
def test_an_argument_counts_elements_of_any_size(data, pitch, size):
    tile = blank(pitch, data, size)
    assert (pads(tile, known=[data]).any(), pads(tile, known=[data - 1]).any()) == (True, False)


def test_two_rows_are_a_tile_if_an_argument_says_how_long_they_are():
    tile = blank(33, 32, rows=2)
    assert (pads(tile).any(), (pads(tile, known=[32]) == tile).all()) == (False, True)


def test_the_words_of_a_structure_may_be_numbers_of_columns_and_the_halves_of_a_pointer_are_none():
    at = 0x7F00_0000_0060
    bank = np.concatenate([np.array([at], np.uint64).view(np.uint32), np.array([5, 0, 1 << 21, 9, 77], np.uint32)]).view(np.uint8)
    assert widths(bank, lambda value: value == at).tolist() == [5, 9, 77]
    assert widths(NOTHING.astype(np.uint8), lambda value: False).size == 0


def of_bytes(unwritten):
    """The pitch of each byte, by where the unwritten ones are."""
    offsets, found = np.flatnonzero(unwritten), np.zeros(len(unwritten), np.int64)
    found[offsets] = pitches(offsets)
    return found


def tiled(pitch, gaps, rows=12):
    """Where rows have gaps, each by its begin and its length."""
    found = np.zeros((rows, pitch), bool)
    for begin, length in gaps:
        found[:, begin : begin + length] = True
    return found.reshape(-1)


@pytest.mark.parametrize("begin", [0, 5, 13, 17])
@pytest.mark.parametrize("rows", [2, 3, 7])
def test_a_longer_first_or_last_gap_has_the_part_that_the_others_have(rows, begin):
    """As many bytes next to the first row, and next to the last one, as are in the gaps between rows."""
    for before, behind in itertools.product((0, 1, 2, 30), repeat=2):
        gaps = np.concatenate([np.zeros(40, bool), tiled(20, [(begin, 3)], rows), np.zeros(40, bool)])
        first, last = 40 + begin, 40 + begin + 20 * rows - 17
        longer = gaps.copy()
        longer[first - before : first] = longer[last : last + behind] = True
        if rows > 2 or not before or not behind:
            assert (of_bytes(longer) == 20 * gaps).all()


@pytest.mark.parametrize("second", [3, 4, 7, 9, 10, 12])
def test_two_gaps_of_a_row_have_its_pitch(second):
    """Those of one length: a row ends at the gap after the next, unless they are all equally far apart."""
    gaps = tiled(20, [(0, 2), (second, 2)])
    assert (of_bytes(gaps) == gaps * (10 if second == 10 else 20)).all()


@pytest.mark.parametrize("row", [3, 4, 8])
@pytest.mark.parametrize("holes", range(1, 9))
def test_holes_of_one_row_are_in_no_row_of_their_own(holes, row):
    """Also if they are as long as the gaps of rows, and equally far apart."""
    for length, gap in ((1, 3), (2, 2)):
        gaps = tiled(40, [(0, gap)])
        more = gaps.copy()
        for n in range(holes):
            more[40 * row + 6 + 4 * n :][:length] = True
        assert (of_bytes(more) == 40 * gaps).all()


@pytest.mark.parametrize(("before", "behind"), [(0, 0), (3, 0), (16, 0), (0, 3), (0, 500)])
@pytest.mark.parametrize(("data", "pitch"), [(32, 33), (32, 40), (100, 104)])
def test_three_rows_are_a_tile_and_two_only_if_an_argument_is_their_length(data, pitch, behind, before):
    """Some bytes in front of the first gap are not written, or some behind the last one."""
    two, three = (np.concatenate([np.zeros(16, bool), blank(pitch, data, rows=rows).reshape(-1)]) for rows in (2, 3))
    for tile, known, are_padding in ((three, (), True), (two, (), False), (two, (data,), True), (two, (data + 1,), False)):
        row = tile.copy()
        row[16 + 4 * data - before : 16 + 4 * data] = True
        assert (pads(row, known, behind=behind) == (tile & are_padding)).all()
