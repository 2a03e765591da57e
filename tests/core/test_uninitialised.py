"""Which bytes of an array nothing has written: against a set of bytes, after any stores and copies."""

import itertools
import random
from types import SimpleNamespace

import numpy as np
import pytest

from smemsim.core.machine.stored_taint import StoredTaint
from smemsim.core.machine.uninitialised import Declared, Garbage, litter

SIZE = 96  # bytes of an array
PERIOD = 1 << 20  # of the garbage


class Array:
    """An array that was filled with garbage, and the set of its bytes that nothing has written. Its first and last bytes
    may belong to words that lie outside in part: these hold no garbage.
    """

    def __init__(self, address: int, begin: int = 0, size: int = SIZE) -> None:
        self.address, self.begin = address, begin
        self.data = np.zeros(size, np.uint8)
        litter(self.data, address)
        self.blank = Garbage(self.data, address, begin)
        self.open = {n for n in range(size) if address <= (address + n) // 4 * 4 and (address + n) // 4 * 4 + 4 <= address + size}

    def store(self, drawn: random.Random, *, knows_before: bool) -> None:
        size = drawn.choice((1, 2, 4, 8, 16))
        count = drawn.randrange(1, 4)
        places = [n for n in range(len(self.data) - size + 1) if (self.address + n) % size == 0]
        at = np.array(drawn.sample(places, count)) if len(places) >= count else np.array(places[:1])
        before = self.data[at[:, None] + np.arange(size)].copy()
        if not knows_before:
            self.blank.fill(at + self.begin, size)
        for n in at.tolist():
            self.data[n : n + size] = np.frombuffer(drawn.randbytes(size), np.uint8)
            self.open -= {*range(n, n + size)}
        if knows_before:
            self.blank.fill(at + self.begin, size, before)

    def agrees(self) -> None:
        for size in (1, 2, 4, 8, 5, 6, 11):  # the last ones: of a cp.async that copies so many bytes of 16
            unit = size if size & size - 1 == 0 else 4
            at = np.array([n for n in range(len(self.data) - size + 1) if (self.address + n) % unit == 0])
            wanted = [[n + k in self.open for k in range(size)] for n in at.tolist()]
            assert self.blank.bytes(at + self.begin, size).tolist() == wanted, size
            words = [[any(row[k : k + 4]) for k in range(0, size, 4)] for row in wanted]
            assert self.blank.words(at + self.begin, size).tolist() == words, size
        assert self.blank.remains() == bool(self.open)


@pytest.mark.parametrize("address", [0x1000, 0x1000 - 8, 0x1001, 0x1003, PERIOD - 36, 3 * PERIOD - 2])
@pytest.mark.parametrize("knows_before", [False, True])
def test_what_no_store_has_written_is_uninitialised(address, knows_before):
    for seed in range(3):
        drawn, array = random.Random(seed), Array(address, begin=8 * (seed % 2))
        assert array.blank.is_untouched()
        array.agrees()
        for _ in range(8):
            array.store(drawn, knows_before=knows_before)
            array.agrees()
        assert not array.blank.is_untouched()
        array.data[:] = 0  # the host writes all: what it writes is seen there
        array.blank.wrote(array.begin, array.begin + SIZE)
        assert not array.blank.words(array.begin + np.arange(-address % 4, SIZE - 3, 4), 4).any()
        assert not array.blank.remains() or array.blank.is_tracked


def test_parts_of_a_line_that_the_host_has_written_are_no_garbage():
    array = Array(0x1000)
    array.blank.fill(np.array([8, 41]), 1)
    array.data[[8, 41]] = 0
    array.open -= {8, 41}
    array.agrees()
    assert array.blank.is_tracked
    array.data[42] = array.data[42] ^ 1
    assert not array.blank.bytes(np.array([8, 40]), 4).any()  # the same line of 32 words
    array.data[42] = array.data[42] ^ 1
    array.agrees()


@pytest.mark.parametrize("apart", [0, 4, 64, PERIOD, 2, PERIOD - 12])
def test_garbage_that_is_copied_is_uninitialised_there_too(apart):
    for seed in range(6):
        drawn = random.Random(seed)
        arrays = [Array(0x2000 + n * (0x1000 + apart), begin=4 * n) for n in range(3)]
        for _ in range(2):
            arrays[0].store(drawn, knows_before=False)
        for source, to in itertools.pairwise(arrays):
            size, begin, place = (drawn.randrange(limit) for limit in (SIZE - 16, 16, 16))
            words = {n: {n + k in source.open for k in range(4)} == {True} for n in range(-source.address % 4, SIZE - 3, 4)}
            before = to.data.copy()
            to.data[place : place + size] = source.data[begin : begin + size]
            to.blank.takes(source.blank, place + to.begin, begin + source.begin, size)
            moved = {n - begin + place for n in words if words[n] and begin <= n and n + 4 <= begin + size}
            changed = {n for n in range(-to.address % 4, SIZE - 3, 4) if (before[n : n + 4] != to.data[n : n + 4]).any()}
            to.open -= {n + k for n in changed for k in range(4)}  # a word whose bytes stay the same holds its garbage still
            to.open |= {n + k for n in moved if (to.address + n) % 4 == 0 for k in range(4)}
            to.agrees()
            assert to.blank.is_untouched() == (not changed)
        arrays[2].store(drawn, knows_before=True)
        arrays[2].agrees()


@pytest.mark.parametrize("apart", [0, PERIOD - 16, 1])
def test_garbage_is_followed_through_any_copies(apart):
    """Copies between three arrays, to and fro, with stores of whole words in between. A word is uninitialised if its bytes
    came, as a whole word, from one that is.
    """
    for seed in range(5):
        drawn = random.Random(seed)
        arrays = [Array(0x8000 + n * (0x1000 + apart), begin=4 * n, size=160) for n in range(3)]
        for _ in range(14):
            source, to = drawn.sample(arrays, 2)
            size = 4 * drawn.choice((1, 2, 3, 9, 16, 35))
            begin, place = (-array.address % 4 + 4 * drawn.randrange(40 - size // 4) for array in (source, to))
            to.data[place : place + size] = source.data[begin : begin + size]
            to.blank.takes(source.blank, place + to.begin, begin + source.begin, size)
            to.open = {n for n in to.open if not place <= n < place + size} | {
                n - begin + place for n in source.open if begin <= n < begin + size
            }
            if drawn.random() < 0.3:
                n = drawn.randrange(-to.address % 4, 157, 4)
                to.data[n : n + 4] = np.frombuffer(drawn.randbytes(4), np.uint8)
                to.open -= {*range(n, n + 4)}
            for array in arrays:
                array.agrees()


def test_what_is_copied_over_is_forgotten_and_the_rest_is_not():
    """An array remembers 64 copies. The same place a hundred times is one of them."""
    source, to = Array(0x1000), Array(0x9000)
    for begin, place, size, times in ((0, 16, 32, 1), (32, 64, 16, 100), (48, 64, 16, 1), (48, 48, 12, 100)):
        for _ in range(times):
            to.data[place : place + size] = source.data[begin : begin + size]
            to.blank.takes(source.blank, place, begin, size)
    to.agrees()
    to.data[16:48] = 0
    to.open -= {*range(16, 48)}
    to.agrees()


def test_a_huge_array_has_garbage_at_both_ends(monkeypatch):
    monkeypatch.setattr("smemsim.core.machine.uninitialised.MOST_GARBAGE", 64)
    for size, inner in ((128, range(0)), (132, range(64, 68)), (320, range(64, 256))):
        array = Array(0x1000, size=size)
        array.open -= {*inner}
        array.agrees()
        assert array.blank.is_untouched()
        array.data[size - 4 :] = 0
        assert not array.blank.is_untouched()
        array.data[:-4] = 0
        assert not array.blank.remains()


def test_bytes_that_arrive_late_count_as_written_whatever_they_are():
    for size in (1, 2, 4, 8):
        array = Array(0x1000, begin=4)
        at = np.array([8, 24])
        array.blank.fill_late(at + 4, size)
        array.open -= {n + k for n in at.tolist() for k in range(size)}
        assert not array.blank.is_untouched()
        array.agrees()


def test_a_declared_array_is_uninitialised_until_it_is_written():
    drawn, open_, blank = random.Random(1), {*range(8, 40)}, Declared(64, 8, 32)
    while open_:
        size = drawn.choice((1, 2, 4, 8))
        at = np.array([drawn.randrange(64 // size) * size, drawn.randrange(64 // size) * size])
        for width in (1, 2, 4, 8):
            places = np.arange(0, 64, width)
            wanted = [[n + k in open_ for k in range(width)] for n in places.tolist()]
            assert blank.bytes(places, width).tolist() == wanted
            assert blank.words(places, width).tolist() == [[any(row[k : k + 4]) for k in range(0, width, 4)] for row in wanted]
        assert blank.remains()
        assert blank.is_tracked
        blank.fill(at, size)
        open_ -= {n + k for n in at.tolist() for k in range(size)}
        if drawn.random() < 0.2:
            blank.wrote(int(at[0]), int(at[0]) + 3)
            open_ -= {*range(int(at[0]), int(at[0]) + 3)}
    assert not blank.remains()


@pytest.mark.parametrize("seed", range(6))
def test_marks_of_an_access_of_any_size_are_those_of_its_bytes(seed):
    """cp.async reads 1 to 16 bytes, from the begin of a word on if they are more than one word."""
    drawn = np.random.default_rng(seed)
    words, taint, marks = drawn.integers(0, 99, 16).astype(np.uint32), StoredTaint(), {}
    region = SimpleNamespace(begin=0, end=64, words=words, words_begin=0)
    for _ in range(4):
        size, number = int(drawn.choice([1, 2, 4, 8, 16])), taint.number_of([SimpleNamespace()])
        at = drawn.choice(64 // size, 2, replace=False) * size
        numbers = np.repeat(drawn.integers(0, 2, (2, max(1, size // 4))), min(size, 4), axis=1).astype(np.int32) * number
        taint.put(region, at, size, numbers)
        if numbers.any():
            marks |= {int(first) + n: bool(mark) for first, row in zip(at, numbers, strict=True) for n, mark in enumerate(row)}
    at = np.array([0, 16, 32, 48])

    def of(first, size):
        found = taint.of(words, first, size)
        return np.zeros((len(first), size), np.int32) if found is None else found

    for size in range(1, 17):
        assert of(at, size).tolist() == np.concatenate([of(at + n, 1) for n in range(size)], axis=1).tolist()
    assert set(np.flatnonzero(of(np.arange(64), 1)).tolist()) == {n for n, is_marked in marks.items() if is_marked}
