"""Who owns each byte of shared memory, against one dictionary entry a byte, under random sequences of loads and writes
by threads.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxes import BASE, BITS, boxes, tiled
from smemsim import GlobalMemory, SharedMemory, SmemDescriptor
from smemsim.core.machine import FOREIGN, OUTSIDE, UNWRITTEN
from strategies import examples

BEGIN, SIZE = 0x400, 16384
KINDS = ("tile", "tile", "interleaved", "im2col", "im2col interleaved", "gather")


class Bytewise:
    """The window as a dictionary: address -> (value, number of the writer, the byte's place in the writer's data)."""

    def __init__(self):
        self.held, self.places, self.sources = {}, [], {}

    def write(self, address, data):
        self.held |= {address + i: (value, len(self.places), i) for i, value in enumerate(data)}
        self.sources |= {address + i: FOREIGN for i in range(len(data))}
        self.places.append([(i,) for i in range(len(data))])

    def load(self, box, smem_address, tensor):
        for i, (at, source) in enumerate(box.model(smem_address)):
            self.held[at] = (int(tensor[source - BASE]) if source >= 0 else 0, len(self.places), i)
            self.sources[at] = source if source >= 0 else OUTSIDE
        inner = [q * 8 // box.bits * box.step for q in range(box.row_bytes)]
        self.places.append([(row[0] + c, *row[1:]) for row in box.rows for c in inner])

    def columns(self):
        """(value, writer, place) of every byte; writer -1 and place 0 where nobody wrote."""
        return np.array([self.held.get(BEGIN + i, (0, -1, 0)) for i in range(SIZE)]).T


def reads_everything(shared, dtype, columns):
    """Every byte of the window, 16 to a row, through one descriptor without swizzle."""
    word = SmemDescriptor(arch=shared.arch, start_address=BEGIN, leading_byte_offset=0, stride_byte_offset=128, swizzle="none")
    return shared.read_operand(word, dtype=dtype, major="K", rows=SIZE // 16, k=columns)


@st.composite
def histories(draw):
    """Writes by threads of any alignment and length, some of them right behind or over the one before, and loads of any
    shape.
    """
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            size = draw(st.sampled_from((0, 1, 2, 4, 8, 15, 16, 17, 33, 300)))
            steps.append(("write", BEGIN + draw(st.integers(0, 2048)), size))
        else:
            steps.append(("load", BEGIN + 128 * draw(st.integers(0, 10)), draw(boxes(KINDS, data_types=tuple(BITS)))))
    return steps


def play(steps, seed):
    """Both memories after a history."""
    rng, shared, naive = np.random.default_rng(seed), SharedMemory("sm_103a", size=SIZE), Bytewise()
    for kind, address, what in steps:
        if kind == "write":
            data = rng.integers(0, 256, what, np.uint8)
            shared.write(address, data)
            naive.write(address, data.tolist())
            continue
        tm, world = what.tm, GlobalMemory()
        span = 16 + tm.global_dim[0] * what.bits // 8 + sum((d - 1) * s for d, s in zip(tm.global_dim[1:], tm.global_strides, strict=True))
        tensor = rng.integers(0, 256, span, np.uint8)
        world.place(tensor, BASE)
        shared.tma_load(tm, what.at, smem_address=address, source=world, **what.options)
        naive.load(what, address, tensor)
    return shared, naive


@examples(80)
@given(steps=histories(), seed=st.integers(0, 99))
def test_every_byte_is_the_global_byte_of_its_last_write_and_is_found_by_it(steps, seed):
    shared, naive = play(steps, seed)
    source = np.array([naive.sources.get(BEGIN + i, UNWRITTEN) for i in range(SIZE)])
    owners = shared._owners
    assert np.array_equal(owners.source(np.arange(-1, SIZE + 1)), np.pad(source, 1, constant_values=UNWRITTEN))
    wanted = np.unique(np.concatenate([source, source + 1, [FOREIGN]]))
    first = [next(iter(np.flatnonzero(source == byte)), -1) if byte >= 0 else -1 for byte in wanted]
    assert owners.locate(wanted).tolist() == first
    assert set(owners.repeated().tolist()) == {byte for byte in source.tolist() if byte >= 0 and (source == byte).sum() > 1}


@examples(80)
@given(steps=histories(), seed=st.integers(0, 99))
def test_every_byte_has_the_value_the_writer_and_the_place_of_the_last_write(steps, seed):
    shared, naive = play(steps, seed)
    value, writer, place = naive.columns()
    assert np.array_equal(shared.bytes, value)
    operand = reads_everything(shared, "u8", 16)
    assert np.array_equal(operand.bits.ravel(), value)
    assert np.array_equal(operand.writer.ravel(), writer)
    assert np.array_equal(operand.position.ravel(), place)
    assert not operand.torn.any()


@examples(40)
@given(steps=histories(), seed=st.integers(0, 99), data=st.data())
def test_the_owner_of_a_byte_is_its_writer_and_the_element_it_belongs_to(steps, seed, data):
    shared, naive = play(steps, seed)
    # where runs of owned bytes begin and end
    edges = [a for a in naive.held if (a + 1 in naive.held) + (a - 1 in naive.held) < 2]
    looked = {*edges[:40], *(a + 1 for a in edges[:20]), *naive.held} if len(naive.held) < 200 else {*edges[:40]}
    looked |= set(data.draw(st.lists(st.integers(BEGIN, BEGIN + SIZE - 1) | st.sampled_from(sorted(naive.held) or [BEGIN]), max_size=60)))
    for address in looked:
        if address >= shared.end:
            continue
        held = naive.held.get(address)
        if held is None:
            assert shared.owner(address) is None
            continue
        _, writer, place = held
        assert shared.owner(address) == (shared.writers[writer], naive.places[writer][place])


@pytest.mark.parametrize(("dtype", "size"), [("bf16", 2), ("f32", 4)])
@examples(30)
@given(steps=histories(), seed=st.integers(0, 99))
def test_an_element_is_torn_unless_its_bytes_are_neighbours_in_one_write(dtype, size, steps, seed):
    shared, naive = play(steps, seed)
    value, writer, place = (column.reshape(-1, size) for column in naive.columns())
    operand = reads_everything(shared, dtype, 16 // size)
    one = (writer == writer[:, :1]).all(-1)
    neighbours = (np.diff(place, axis=-1) == 1).all(-1) | (writer[:, 0] < 0)
    assert np.array_equal(operand.torn.ravel(), ~(one & neighbours))
    assert np.array_equal(operand.writer.ravel(), writer[:, 0])
    assert np.array_equal(operand.position.ravel(), place[:, 0])
    assert np.array_equal(operand.bits.ravel(), (value << 8 * np.arange(size)).sum(-1))


@examples(30)
@given(steps=histories(), seed=st.integers(0, 99))
def test_coordinates_of_an_operand_are_those_of_its_owners(steps, seed):
    shared, naive = play(steps, seed)
    operand = reads_everything(shared, "u8", 16)
    found = operand.coordinates().reshape(SIZE, 5)
    _, writer, place = naive.columns()
    loads = [i for i, (kind, _, _) in enumerate(steps) if kind == "load"]
    for w in range(len(steps)):
        mine = writer == w
        if w not in loads:
            assert (found[mine] == np.iinfo(np.int64).min).all()
        elif mine.any():
            wanted = np.array([naive.places[w][p] for p in place[mine]])
            assert np.array_equal(found[mine][:, : wanted.shape[1]], wanted)
            assert not found[mine][:, wanted.shape[1] :].any()
    assert (found[writer < 0] == np.iinfo(np.int64).min).all()


def test_the_halves_that_change_places_keep_their_owners():
    """8-byte flip, line 1: the element at 0x488 is the first of its chunk."""
    tensor, world, shared = np.arange(256, dtype=np.uint8), GlobalMemory(), SharedMemory("sm_100a")
    world.place(tensor, BASE)
    t = shared.tma_load(tiled("128B_ATOM_32B_FLIP_8B", global_dim=(128, 2), box_dim=(128, 2)), (0, 0), smem_address=0x400, source=world)
    assert [shared.owner(a) for a in (0x480, 0x488, 0x4A8)] == [(t, (40, 1)), (t, (32, 1)), (t, (0, 1))]
    word = SmemDescriptor(arch="sm_100a", start_address=0x480, swizzle="none", stride_byte_offset=128, leading_byte_offset=16)
    assert shared.read_operand(word, dtype="u8", major="K", rows=1, k=32).position[0].tolist() == [
        128 + c for c in (*range(40, 48), *range(32, 40), *range(56, 64), *range(48, 56))
    ]


def test_bookkeeping_does_not_grow_with_the_number_of_writes():
    """A kernel's main loop writes the same bytes again and again, in pieces and whole."""
    shared, world = SharedMemory("sm_100a", size=2048), GlobalMemory()
    world.place(np.zeros(1024, np.uint8), BASE)
    tm = tiled(global_dim=(128, 8), box_dim=(128, 8))

    def held():
        return sum(array.nbytes for array in vars(shared._owners).values() if isinstance(array, np.ndarray))

    sizes = []
    for _ in range(64):
        shared.tma_load(tm, (0, 0), smem_address=0x400, source=world)
        for at in range(0x403, 0x800, 16):
            shared.write(at, b"\1\2")
        sizes.append(held())
    assert sizes[-1] == sizes[1]
