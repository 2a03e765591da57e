"""Laws of the accesses that another process hands over: a table of cells, each with its writer and its readers, is a dictionary."""

import random

import numpy as np
import pytest

from smemsim.run.sanitizer import global_loops as loops
from smemsim.run.sanitizer import shard_record as record

NOTHING = np.zeros(0, np.int64)
FIELDS = ("writers", "earlier", "readers", "others")


def epoch(warp: int, when: int, index: int) -> int:
    return (warp + 1) << loops.WHO | when << loops.WHEN | index


def decoded(value: int) -> tuple[int, int, int, int]:
    """(sign, warp, when, index)."""
    size = abs(value)
    return (1 if value > 0 else -1), (size >> loops.WHO) - 1, size >> loops.WHEN & loops.CLOCK, size & loops.INDEX


def drawn_epoch(drawn: random.Random) -> int:
    return epoch(drawn.randrange(8), drawn.randrange(1, 50), drawn.randrange(4))


def cells_of(drawn: random.Random, places, *, fields=FIELDS) -> dict[int, tuple[int, ...]]:
    """By place: writer, earlier, reader, other one (negative: there are more); 0 for none."""
    found = {}
    for place in places:
        row = [drawn_epoch(drawn) if name in fields and drawn.random() < 0.6 else 0 for name in FIELDS]
        row[3] *= drawn.choice((1, -1))
        found[place] = tuple(row)
    return found


def table_of(cells: dict[int, tuple[int, ...]]) -> record.Epochs:
    """The same as arrays: none for a field that no cell has."""
    at = np.array(sorted(cells), np.int64)
    rows = [np.array([cells[place][n] for place in at.tolist()], np.int64) for n in range(4)]
    return record.Epochs(at, *(row if row.any() else NOTHING for row in rows))


def dictionary(table: record.Epochs) -> dict[int, tuple[int, ...]]:
    rows = [row.tolist() if len(row) else [0] * len(table.at) for row in table[1:]]
    assert len(set(table.at.tolist())) == len(table.at)
    return dict(zip(table.at.tolist(), zip(*rows, strict=True), strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_cells_are_picked_split_and_put_together(seed):
    drawn = random.Random(seed)
    places = drawn.sample(range(40), drawn.randrange(8))
    cells = cells_of(drawn, places, fields=drawn.sample(FIELDS, drawn.randrange(1, 5)))
    table = table_of(cells)
    assert dictionary(table) == cells
    assert dict(zip(table.at.tolist(), table.is_written.tolist(), strict=True)) == {place: row[0] != 0 for place, row in cells.items()}
    some = {place for place in cells if drawn.random() < drawn.choice((0.5, 1))}
    assert dictionary(table.those(np.isin(table.at, list(some)))) == {place: cells[place] for place in some}
    for times in (1, 2, 4):
        assert dictionary(table.spread(times)) == {place * times + n: row for place, row in cells.items() for n in range(times)}
    others = cells_of(drawn, drawn.sample(range(50, 90), drawn.randrange(4)), fields=drawn.sample(FIELDS, 2))
    assert dictionary(table.joined(table_of(others))) == cells | others


@pytest.mark.parametrize("seed", range(12))
def test_epochs_are_counted_from_other_warps_copies_and_instructions_on(seed):
    drawn = random.Random(seed)
    cells = cells_of(drawn, range(6))
    numbers = np.array(drawn.choice(([0, 1, 2, 3], [0, 2, 5, 3], [1, 3, 2, 7])))
    asynchronous = np.zeros(8, bool)
    if seed % 3:
        asynchronous[drawn.sample(range(8), 3)] = True
    warps, copies = drawn.randrange(-3, 30), drawn.randrange(20)
    wanted = {}
    for place, row in cells.items():
        new = []
        for value in row:
            if value:
                sign, warp, when, index = decoded(value)
                index = int(numbers[index])
                new.append(sign * epoch(warp + warps, when + copies * bool(asynchronous[index]), index))
            else:
                new.append(0)
        wanted[place] = tuple(new)
    assert dictionary(table_of(cells).counted(warps, copies, numbers, asynchronous)) == wanted


@pytest.mark.parametrize("seed", range(12))
def test_what_was_noted_since_an_epoch_is_what_is_not_older(seed):
    drawn = random.Random(seed)
    limit = epoch(drawn.randrange(8), 0, 0)
    cells = {n: tuple(map(abs, row)) for n, row in cells_of(drawn, range(10)).items()}
    tables = [np.array([row[n] for row in cells.values()], np.int64) for n in range(4)]
    empty = drawn.randrange(5)
    given = tuple(NOTHING if n == empty else table for n, table in enumerate(tables))
    since = {place: tuple(value if value >= limit and n != empty else 0 for n, value in enumerate(row)) for place, row in cells.items()}
    assert dictionary(record._since(given, limit)) == {place: row for place, row in since.items() if any(row)}
    assert dictionary(record._since((NOTHING,) * 4, limit)) == {}


def test_bytes_in_rows_go_as_far_as_whole_rows():
    memory = np.arange(11, dtype=np.uint32)
    for shift in (2, 3, 4, 6):
        rows = record._units(memory, shift)
        assert rows.tobytes() == memory.tobytes()[: 44 >> shift << shift]
        assert rows.shape == (44 >> shift, 1 << shift)
        assert np.shares_memory(rows, memory) == bool(len(rows))


def listed(further: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(row) for row in further[1 : further[0, loops.COUNT] + 1].tolist()]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("room", [3, 20])
def test_of_each_warp_and_place_the_last_read_is_listed_and_each_copy(seed, room):
    drawn = random.Random(seed)
    asynchronous = np.array([False, True, False, True])
    rows = [(begin := 8 * drawn.randrange(2), begin + drawn.choice((4, 8)), drawn_epoch(drawn)) for _ in range(14)]
    further = np.zeros((room + 1, 3), np.int64)
    is_full = False
    for part in (rows[:5], rows[5:]):
        record._list(np.array(part, np.int64).reshape(-1, 3), further, asynchronous)
    kept: dict[tuple[int, ...], tuple[int, ...]] = {}
    for part in (rows[:5], rows[5:]):
        for row in part:
            _, warp, _, index = decoded(row[2])
            key = (*row[:2], row[2] if asynchronous[index] else -1 - warp)
            if key not in kept and len(kept) == room:
                is_full = True
                break
            kept[key] = row
    assert listed(further) == list(kept.values())
    assert bool(further[0, loops.FULL]) == is_full


@pytest.mark.parametrize("seed", range(20))
def test_no_reader_of_a_cell_is_lost_that_a_later_one_does_not_follow(seed):
    """Readers of CTAs that were here, and those of another process, with warps of their own: a write after the last read of
    a warp is after its earlier reads, but not after its copies.
    """
    drawn = random.Random(seed)
    asynchronous, per_cta, shift, count = np.array([False, False, True, False]), 2, 2, 8
    readers, others = np.zeros(count, np.int64), np.zeros(count, np.int64)
    before: dict[int, set[int]] = {place: set() for place in range(count)}
    new: dict[int, tuple[int, int]] = {}

    def two(warps: range) -> tuple[int, int]:
        first = epoch(drawn.choice(warps), drawn.randrange(1, 50), drawn.randrange(4))
        second = epoch(drawn.choice(warps), drawn.randrange(1, 50), drawn.randrange(4)) if drawn.random() < 0.6 else 0
        return first, second

    for place in range(count):
        if drawn.random() < 0.6:
            readers[place], others[place] = two(range(4))
            before[place] = {int(readers[place]), int(others[place])} - {0}
            others[place] *= drawn.choice((1, -1))
        if drawn.random() < 0.7:
            new[place] = two(range(4, 8))
    was_more = others < 0
    at = np.array(sorted(new), np.int64)
    signs = {place: drawn.choice((1, -1)) for place in new}
    given = record.Epochs(at, NOTHING, NOTHING, np.array([new[n][0] for n in at.tolist()], np.int64), np.array([signs[n] * new[n][1] for n in at.tolist()], np.int64))  # fmt: skip
    left = record._note(given, np.zeros(count, np.int64), readers, others, shift, per_cta, asynchronous).tolist()
    assert all(end == begin + (1 << shift) and begin % (1 << shift) == 0 for begin, end, _ in left)
    for place in range(count):
        more = {reader for begin, _, reader in left if begin >> shift == place}
        held = {int(readers[place]), abs(int(others[place]))} - {0} | more
        every = before[place] | set(new.get(place, (0, 0))) - {0}
        if place not in new:
            assert held == every
            assert not more
            continue
        last = new[place][0]
        followed = {one for one in every - {last} if decoded(one)[1] == decoded(last)[1] and not asynchronous[decoded(one)[3]]}
        assert readers[place] == last
        assert every - followed <= held <= every
        apart = {one for one in every if decoded(one)[1] // per_cta != decoded(last)[1] // per_cta}
        other = abs(int(others[place]))
        assert not apart or other in apart  # of another CTA, if there is one
        is_more = (signs[place] < 0 and new[place][1] != 0) or bool(was_more[place]) or bool(more)
        assert not other or (others[place] < 0) == is_more


def test_a_written_cell_has_the_last_writer():
    writers = np.array([5, 6, 7], np.int64)
    given = record.Epochs(np.array([0, 2]), np.array([0, 9], np.int64), NOTHING, NOTHING, NOTHING)
    assert len(record._note(given, writers, np.zeros(3, np.int64), np.zeros(3, np.int64), 2, 2, np.zeros(4, bool))) == 0
    assert writers.tolist() == [5, 6, 9]
