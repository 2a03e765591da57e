"""Tiles that are found again in global memory: their array, place and strides, and how one tile follows another."""

import dataclasses
import itertools

import numpy as np
import pytest

from smemsim import GlobalMemory, from_float64, to_float64
from smemsim.diagnosis import recognised
from smemsim.diagnosis.recognised import Arrays, Recognised

TYPES = {"e4m3": np.uint8, "bf16": np.uint16, "tf32": np.uint32, "s8": np.uint8}


def placed(*arrays):
    memory = GlobalMemory()
    return memory, [memory.place(array) for array in arrays]


def numbers(dtype, size, seed=0):
    """Raw bits of which no run repeats."""
    if dtype == "s8":
        return np.random.default_rng(seed).integers(1, 256, size).astype(np.uint8)
    return from_float64(np.random.default_rng(seed).standard_normal(size), dtype).astype(TYPES[dtype])


def tile_of(elements, at, row, step, shape=(16, 16)):
    return elements[at + np.arange(shape[0])[:, None] * row + np.arange(shape[1]) * step]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("at", "row", "step"),
    [(5, 64, 1), (0, 16, 1), (1000, -40, 1), (5, 1, 64), (1000, 1, -40), (1279 - 15 * 65, 64, 1), (1279 - 15 * 65, 1, 64), (1264, -64, 1)],
)
def test_a_tile_is_found_where_it_lies(dtype, at, row, step):
    elements, others = numbers(dtype, 1280), numbers(dtype, 700, seed=1)
    memory, begins = placed(others, elements, others[:9], others[:5], others[:1])
    found = Arrays(memory).find(tile_of(elements, at, row, step), dtype)
    assert found == Recognised(begins[1], 1280, elements.itemsize, at, row, step)
    assert found.is_along_k == (step == 1)


@pytest.mark.parametrize("dtype", ["e4m3", "bf16", "tf32", "s8"])
def test_a_tile_of_numbers_that_were_converted_from_f32_is_found(dtype):
    values = np.random.default_rng(3).standard_normal(1001).astype(np.float32)
    values = np.rint(100 * values) % 100 if dtype == "s8" else values
    memory, (begin,) = placed(values)
    is_converted = dtype in ("e4m3", "bf16")  # numbers of 4 bytes are those of the array, and integers are no f32
    bits = from_float64(values, dtype).astype(TYPES[dtype]) if dtype != "s8" else values.astype(np.int8).view(np.uint8)
    found = Arrays(memory).find(tile_of(bits, 3, 50, 1), dtype)
    assert found == (Recognised(begin, 1001, TYPES[dtype]().itemsize, 3, 50, 1, "f32") if is_converted else None)


@pytest.mark.parametrize("zeros", [0.0, 0.25, 0.5, 0.75])
@pytest.mark.parametrize("turned", [False, True])
def test_half_of_a_tile_may_be_zeros_that_its_array_does_not_have(zeros, turned):
    elements = numbers("bf16", 2048)
    memory, _ = placed(elements)
    tile = tile_of(elements, 7, *((1, 100) if turned else (100, 1))).copy()
    lines = tile.T if turned else tile
    lines[16 - int(16 * zeros) :] = 0
    found = Arrays(memory).find(tile, "bf16")
    assert (found is not None) == (zeros <= 0.5)
    lines[1, 9] += 1  # another number, not zero
    assert Arrays(memory).find(tile, "bf16") is None


@pytest.mark.parametrize("turned", [False, True])
def test_what_says_too_little_is_not_found(turned):
    elements = numbers("bf16", 4096)
    elements[2048:2056] = 5
    elements[3000:3016] = elements[3100:3116] = elements[200:216]  # three alike
    elements[3300:3316] = elements[500:516]  # two alike
    memory, (begin,) = placed(elements)

    def found(at, row, shape=(16, 16)):
        tile = tile_of(elements, at, row, 1, shape)
        return Arrays(memory).find(tile.T if turned else tile, "bf16")

    where = Recognised(begin, 4096, 2, 0, 64, 1)
    where = dataclasses.replace(where, row=1, step=64) if turned else where
    assert found(0, 64) == where
    assert found(0, 64, (16, 8)) == where
    assert found(0, 64, (2, 8)) == where
    assert found(0, 64, (2, 7)) is None
    assert found(0, 64, (1, 16)) is None
    assert found(2048, 64) is None  # a run of one number
    assert found(2040, 64) is not None
    assert found(200, 64) is None
    assert found(136, 64) is None  # the second line of it
    assert found(500, 64).at == 500  # the second line tells which of two
    assert found(436, 64).at == 436
    assert found(3, 15) is None  # lines that overlap
    assert found(3, 16).at == 3
    last = tile_of(np.append(elements, np.zeros(1024, np.uint16)), 4096 - 8 * 64, 64, 1)  # half of it is past the end
    assert Arrays(memory).find(last.T if turned else last, "bf16").at == 4096 - 8 * 64
    assert Arrays(memory).find(np.zeros((16, 16), np.uint16), "bf16") is None


def test_a_tile_that_lies_at_two_places_is_none():
    """Both lines of it are there twice, at the same distance."""
    elements = numbers("bf16", 4096)
    elements[2000:2128] = elements[:128]
    memory, _ = placed(elements)
    assert Arrays(memory).find(tile_of(elements, 0, 64, 1, (2, 16)), "bf16") is None
    assert Arrays(memory).find(tile_of(elements, 0, 64, 1, (4, 16)), "bf16").at == 0


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [8, 64])
def test_a_move_is_the_one_between_the_places_of_two_tiles(turned, rows):
    """In a matrix of 512 rows and 96 k: along rows, along k, or neither where both change."""

    def at(row, k):
        return Recognised(0x1000, 512 * 96, 2, row + k * 512 if turned else row * 96 + k, *((1, 512) if turned else (96, 1)))

    places = [(row, k) for row in (0, rows, 256) for k in (0, 16, 80)]
    for before, now in itertools.product(places, repeat=2):
        row, k = (b - a for a, b in zip(before, now, strict=True))
        assert at(*now).move(at(*before)) == ((row, k) if not row * k else None)
    assert at(0, 0).extent == 96
    assert at(0, 0).is_along_k != turned
    one = at(0, 16)
    for change in ({"begin": 0x2000}, {"row": 128}, {"step": 2}, {"converted": "f32"}):
        assert one.move(dataclasses.replace(one, **change)) is None


@pytest.mark.parametrize(
    ("row", "step", "size", "extent"), [(96, 1, 1000, 96), (-96, 1, 1000, 96), (1, 50, 1000, 20), (1, 60, 1000, 0), (1, -50, 1000, 0)]
)
def test_k_of_an_array_follows_from_its_strides(row, step, size, extent):
    assert Recognised(0, size, 2, 0, row, step).extent == extent


@pytest.mark.parametrize("turned", [False, True])
def test_a_tile_goes_on_from_another_one_by_its_first_elements(turned):
    elements = numbers("bf16", 64 * 256)
    elements[5000:5016] = elements[164:180]  # as the third tile begins
    elements[6000:6016] = 5
    elements[7000:7016] = elements[:16]
    memory, _ = placed(elements, numbers("bf16", 500, seed=2))
    arrays = Arrays(memory)
    row, step = (1, 256) if turned else (256, 1)
    one = arrays.find(tile_of(elements, 100, row, step), "bf16")
    assert not arrays.has(tile_of(elements, 100, row, step), "bf16", one)  # nothing has gone on yet
    two = arrays.go_on(elements[132:148], "bf16", one)
    assert two == dataclasses.replace(one, at=132)
    assert arrays.has(tile_of(elements, 132, row, step), "bf16", two)
    assert not arrays.has(tile_of(elements, 133, row, step), "bf16", two)
    assert arrays.go_on(elements[164:180], "bf16", two).at == 164  # by the step that is known
    assert arrays.go_on(elements[164:180], "bf16", one) is None  # at two places
    assert arrays.go_on(np.full(16, 5, np.uint16), "bf16", one) is None
    assert arrays.go_on(numbers("bf16", 16, seed=9), "bf16", one) is None
    assert arrays.go_on(elements[-16:], "bf16", one).at == len(elements) - 16
    assert arrays.go_on(elements[:16], "bf16", dataclasses.replace(one, at=32)) is None
    assert arrays.go_on(elements[68:84], "bf16", one).at == 68  # back by 32
    assert arrays.go_on(elements[:16], "bf16", dataclasses.replace(one, at=32)).at == 0
    other = arrays.find(tile_of(numbers("bf16", 500, seed=2), 3, 30, 1), "bf16")
    assert arrays.go_on(elements[132:148], "bf16", other) is None  # of another array


def test_a_launch_searches_so_many_bytes(monkeypatch):
    elements, others = numbers("bf16", 1280), numbers("bf16", 700, seed=1)
    tile = tile_of(elements, 5, 64, 1)
    memory, _ = placed(elements)
    for most, is_found in ((2 * elements.nbytes, True), (2 * elements.nbytes - 1, False)):  # of two lines
        with monkeypatch.context() as m:
            m.setattr(recognised, "MOST_READ", most)
            assert (Arrays(memory).find(tile, "bf16") is not None) == is_found
    for arrays, most, is_found in (
        ([elements], elements.nbytes, True), ([elements], elements.nbytes - 1, False), ([others, elements], elements.nbytes, False),
        ([others, elements], elements.nbytes + others.nbytes, True),
    ):  # fmt: skip
        with monkeypatch.context() as m:
            m.setattr(recognised, "MOST_BYTES", most)
            assert (Arrays(placed(*arrays)[0]).find(tile, "bf16") is not None) == is_found
    values = to_float64(elements, "bf16").astype(np.float32)
    for most, is_found in ((1280, True), (1279, False)):
        with monkeypatch.context() as m:
            m.setattr(recognised, "MOST_CONVERTED", most)
            assert (Arrays(placed(values)[0]).find(tile, "bf16") is not None) == is_found


def test_bytes_after_the_last_element_are_no_element():
    elements = numbers("bf16", 300)
    for values, kind in ((elements, ""), (to_float64(elements, "bf16").astype(np.float32), "f32")):
        memory, (begin,) = placed(np.append(values.view(np.uint8), np.uint8(7)))
        assert Arrays(memory).find(tile_of(elements, 3, 17, 1), "bf16") == Recognised(begin, 300, 2, 3, 17, 1, kind)
