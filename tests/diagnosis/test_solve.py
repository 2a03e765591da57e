"""The solver: every descriptor that it finds reads the operand, none is missing, and where it finds none the proof
holds.
"""

import functools
import itertools
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import assume, given
from hypothesis import strategies as st

from kernels import kernel
from smemsim import InputError, SmemDescriptor, SmemsimError, TensorMap, check, find_descriptors, operand_addresses, tma_load
from smemsim.cli import main
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.diagnosis.check import wanted_of
from smemsim.diagnosis.descriptors.find import of_memory
from strategies import CLASSIC, examples, reads

ALL = (*CLASSIC, Swizzle.B128_ATOM_32B)


def address(word, arch, operand):
    return operand_addresses(word, arch=arch, **operand).astype(np.int64)


def solved(places, arch, how, **more):
    given = {name: how[name] for name in ("dtype", "major", "packing")}
    return find_descriptors(places, arch=arch, **given, **more)


def stands_for(found, d):
    """Is a descriptor one of those that a found one tells of?"""
    strides = ((found.leading, d.leading_byte_offset), (found.stride, d.stride_byte_offset))
    own = found.swizzle is d.swizzle and d.base_offset in found.base_offsets and found.absolute == bool(d.lbo_mode)
    return own and d.start_address in found.alternatives[0][0] and all(is_ in (None, value) for is_, value in strides)


# ---- what is found


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_103a"])
def test_a_descriptor_is_found_again_and_all_that_are_found_read_the_same(arch):
    @examples(40)
    @given(read=reads(arch=arch, swizzles=CLASSIC if arch == "sm_90a" else ALL), seed=st.integers(0, 1 << 32))
    def check(read, seed):
        word, operand = read
        places = address(word, arch, operand)
        answer = solved(places, arch, operand)
        assert sum(stands_for(one, SmemDescriptor.decode(word, arch=arch)) for one in answer.descriptors) == 1
        assert answer.nearest is None
        assert answer.complete
        rng = np.random.default_rng(seed)
        for one in answer.descriptors:
            assert (address(one.words, arch, operand) == places).all()
            given = {"leading_byte_offset": one.leading, "stride_byte_offset": one.stride}
            drawn = {name: int(rng.integers(1 << 14)) * 16 if value is None else value for name, value in given.items()}
            other = SmemDescriptor(arch=arch, start_address=int(one.starts[0, 0]), base_offset=int(rng.choice(one.base_offsets)),
                                   swizzle=one.swizzle, lbo_mode=int(one.absolute), **drawn)  # fmt: skip
            assert (address(other, arch, operand) == places).all()

    check()


def space(*, starts=range(1024, 1280, 16), strides=(0, 16, 32, 48, 64, 128, 256, 512), modes=CLASSIC, bases=range(8)):
    """The fields (mode, base offset, start, LBO, SBO) of a small part of all descriptors."""
    return list(itertools.product(modes, bases, starts, strides, strides))


def words_of(arch, some):
    """Their words."""
    bare = {mode: SmemDescriptor(arch=arch, swizzle=mode).encode() for mode in {one[0] for one in some}}
    fields = SmemDescriptor(arch=arch).table.fields
    low = [fields[name].low for name in ("base_offset", "start_address", "leading_byte_offset", "stride_byte_offset")]
    return np.array(
        [bare[m] | b << low[0] | at >> 4 << low[1] | lbo >> 4 << low[2] | sbo >> 4 << low[3] for m, b, at, lbo, sbo in some], np.uint64
    )


def meant(answer, some):
    """The descriptors of the space that an answer tells of."""
    kept = [sorted({one[i] for one in some}) for i in range(5)]
    told = set()
    for one in answer.descriptors:
        strides = [kept[3 + i] if x is None else [x] for i, x in enumerate((one.leading, one.stride))]
        told |= set(itertools.product([one.swizzle], one.base_offsets, one.alternatives[0][0], *strides))
    return told & set(some)


@pytest.mark.parametrize(
    ("arch", "major", "dtype", "rows", "k"),
    [("sm_90a", "K", "bf16", 2, 8), ("sm_90a", "K", "bf16", 9, 16), ("sm_90a", "MN", "f16", 16, 9), ("sm_100a", "K", "e2m1", 3, 64),
     ("sm_100a", "MN", "tf32", 8, 5)],
)  # fmt: skip
def test_no_descriptor_is_missing(arch, major, dtype, rows, k):
    """All words of a part of the space, grouped by what they read: the solver finds exactly the group."""
    operand = {"dtype": dtype, "major": major, "rows": rows, "k": k, "packing": "packed"}
    modes = (Swizzle.B128_ATOM_32B, *CLASSIC) if (arch, major) == ("sm_100a", "MN") else CLASSIC
    some = space(modes=modes, starts=range(1024, 1152, 16), strides=(0, 16, 128, 256))
    read = address(words_of(arch, some), arch, operand).reshape(len(some), -1)
    _, which, counts = np.unique(read, axis=0, return_inverse=True, return_counts=True)
    for group in np.argsort(-counts)[:: max(len(counts) // 12, 1)]:
        mine = np.nonzero(which.ravel() == group)[0]
        answer = solved(read[mine[0]].reshape(rows, k), arch, operand)
        assert meant(answer, some) == {some[i] for i in mine}


@pytest.mark.parametrize(("values", "dtype", "major"), [(2, "e4m3", "K"), (3, "bf16", "K"), (2, "bf16", "MN"), (5, "tf32", "K")])
@pytest.mark.parametrize("seed", range(3))
def test_no_descriptor_is_missing_where_contents_repeat(values, dtype, major, seed):
    rng = np.random.default_rng(seed)
    per_chunk = FORMATS[dtype].elements_per_chunk()
    size = FORMATS[dtype].bits // 8
    rows, k = (10, 2 * per_chunk) if major == "K" else (2 * per_chunk, 10)
    memory = np.repeat(rng.integers(0, values, 1024 // 16).astype(np.uint8), 16).reshape(-1, size)
    memory[:, 1:] = 0
    memory = memory.ravel()
    operand = {"dtype": dtype, "major": major, "rows": rows, "k": k, "packing": "packed"}
    some = space(starts=range(1024, 2048, 16), strides=(0, 16, 128, 256, 512), bases=(0, 1, 2))
    at = address(words_of("sm_90a", some), "sm_90a", operand) - 1024
    inside = (at + size <= len(memory)).all(axis=(1, 2))
    read = np.where(inside[:, None, None], memory[np.minimum(at, len(memory) - 1)], 255)
    wanted = read[np.nonzero(inside)[0][rng.integers(inside.sum())]]
    right = {some[i] for i in np.nonzero(inside & (read == wanted).all(axis=(1, 2)))[0]}
    answer = solved(None, "sm_90a", operand, dump=memory, base=1024, operand=wanted)
    assert answer.complete
    assert meant(answer, some) == right


@examples(25)
@given(data=st.data(), dtype=st.sampled_from(sorted(FORMATS)), packing=st.sampled_from(["packed", "padded"]))
def test_a_dump_of_any_type_gives_its_descriptor(data, dtype, packing):
    """Elements are put bit by bit where the descriptor reads them, into memory full of other things."""
    word, operand = data.draw(reads(arch="sm_100a", swizzles=ALL, dtypes=(dtype,), extent=32, raw={"start_address": st.integers(64, 128)}))
    d = SmemDescriptor.decode(word, arch="sm_100a")
    d = SmemDescriptor(arch="sm_100a", start_address=d.start_address, leading_byte_offset=d.leading_byte_offset % 4096 + 2048,
                       stride_byte_offset=d.stride_byte_offset % 1024 + 1024, base_offset=d.base_offset, swizzle=d.swizzle)  # fmt: skip
    operand["packing"] = packing
    if operand["major"] == "K" and MODES[d.swizzle].width >= 64:
        operand["k"] = min(operand["k"], MODES[d.swizzle].chunks * FORMATS[dtype].elements_per_chunk(packing))
    fmt, places = FORMATS[dtype], address(d, "sm_100a", operand)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    memory = rng.integers(0, 256, 1 << 16).astype(np.uint8)
    assume(places.max() + 8 < len(memory))
    codes = np.zeros(places.shape, np.uint64)
    along = np.arange(operand["k"])[None] if operand["major"] == "K" else np.arange(operand["rows"])[:, None]
    first = np.broadcast_to(along % fmt.elements_per_chunk(packing) * fmt.bits % 8, places.shape)
    for bit in range(fmt.bits):
        at = places + (first + bit) // 8
        codes |= (memory[at] >> ((first + bit) % 8).astype(np.uint8) & 1).astype(np.uint64) << np.uint64(bit)
    answer = solved(None, "sm_100a", operand, dump=memory, base=0, operand=codes)
    assert any(stands_for(one, d) for one in answer.descriptors) or answer.ambiguous
    assert all(one.grade != "measured" for one in answer.descriptors)


def test_steps_and_blocks_have_starts_of_their_own():
    d = SmemDescriptor(arch="sm_90a", start_address=2048, stride_byte_offset=1024, swizzle="128B")
    operand = {"dtype": "bf16", "major": "K", "rows": 64, "k": 16, "packing": "packed"}
    words = [[d.advance(8192 * block + 32 * step).encode() for step in range(4)] for block in range(2)]
    tile = address(np.array(words, np.uint64), "sm_90a", operand)
    for places, sizes in ((tile, {}), (tile.transpose(0, 2, 1, 3).reshape(128, 64), {"rows": 64, "k": 16})):
        one = solved(places, "sm_90a", operand, **sizes).descriptors[0]
        assert one.words.tolist() == words
        assert one.advance.tolist() == [[0, 32, 64, 96], [8192, 8224, 8256, 8288]]
        assert one.unused == ("leading_byte_offset",)
        assert one.grade == "measured"


@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
def test_absolute_lbo_is_found_where_it_is_modelled(arch):
    operand = {"dtype": "e2m1", "major": "K", "rows": 16, "k": 96, "packing": "packed"}
    given = {"stride_byte_offset": 1024, "swizzle": "128B", "leading_byte_offset": 0x4000, "lbo_mode": 1}
    words = [SmemDescriptor(arch="sm_103a", start_address=start, **given) for start in (1024, 1072, 1120)]
    places = address(words, "sm_103a", operand)
    answer = solved(places, arch, operand)
    found = [one for one in answer.descriptors if one.absolute]
    assert [one.words.tolist() for one in found] == ([[[word.encode() for word in words]]] if arch == "sm_103a" else [])
    wrong = places.copy()
    wrong[2, :, 64:] += 1024
    assert bool(solved(wrong, arch, operand).descriptors) is (arch == "sm_103a")  # another next buffer
    wrong[2, 3, 64:] += 1024
    assert not solved(wrong, arch, operand).descriptors


# ---- what is not found


def before(address, witness):
    """The start that puts the first element there, by the functor's XOR undone."""
    return undone(address, witness.swizzle, witness.base_offset)


def undone(address, mode, base_offset):
    """The sum before the XOR."""
    return address ^ ((((address - 128 * base_offset) >> 7) & MODES[mode].mask) << 4)


@pytest.mark.parametrize("seed", range(8))
def test_the_proof_holds(seed):
    """No start, LBO and SBO of the layout put the witness's elements where they are: tried, all that could."""
    rng = np.random.default_rng(seed)
    major, mode = ("K", "MN")[seed % 2], CLASSIC[seed % 4]
    operand = {"dtype": "bf16", "major": major, "rows": 24, "k": 16, "packing": "packed"}
    d = SmemDescriptor(arch="sm_90a", start_address=1024, leading_byte_offset=512, stride_byte_offset=256, swizzle=mode)
    places = address(d, "sm_90a", operand)
    lined = places if major == "K" else places.T
    line, chunk = int(rng.integers(lined.shape[0])), int(rng.integers(lined.shape[1] // 8))
    lined[line, 8 * chunk : 8 * chunk + 8] += int(rng.choice([-16, 16, 128, 256]))
    answer = solved(places, "sm_90a", operand)
    assert not answer.descriptors
    assert len(answer.witnesses) == sum(MODES[one].mask + 1 for one in CLASSIC)
    strides = range(0, 1024, 16)
    for witness in answer.witnesses:
        assert 1 <= len(witness.elements) <= 5
        ats = tuple(np.array([at[2:] for at, _ in witness.elements]).T)
        where = np.array([at for _, at in witness.elements])
        assert (places[ats] == where).all()
        starts = range(768, 1536, 16) if (ats[0][0], ats[1][0]) != (0, 0) else [before(int(where[0]), witness)]
        some = space(
            modes=[witness.swizzle], bases=[witness.base_offset], starts=starts, strides=strides[::4] if len(starts) > 1 else strides
        )
        read = address(words_of("sm_90a", some), "sm_90a", operand)[:, ats[0], ats[1]]
        assert not (read == where).all(axis=1).any()
    near = answer.nearest
    assert near.right == (address(near.found.words, "sm_90a", operand) == places).sum() >= places.size - 8 * 8
    assert near.moves.sum() == near.of - near.right
    assert near.moves[near.first]


@functools.cache
def coefficients(mode, base_offset, major):
    """What is in the sum before the XOR for each element beside the start: (of LBO and of SBO, fixed bytes)."""
    layout = {"arch": "sm_90a", "swizzle": mode, "base_offset": base_offset, "start_address": 0x8000}
    fields = ({}, {"leading_byte_offset": 1024}, {"stride_byte_offset": 1024})
    fixed, *of = (undone(address(SmemDescriptor(**layout, **some), "sm_90a", SHAPES[major]), mode, base_offset) - 0x8000 for some in fields)
    return [(one - fixed) // 1024 for one in of], fixed


SHAPES = {
    major: {"dtype": "bf16", "major": major, "packing": "packed"} | sizes
    for major, sizes in (("K", {"rows": 24, "k": 16}), ("MN", {"rows": 128, "k": 16}))
}


def solution(witness, major, elements):
    """(LBO, SBO, starts by instruction) that put elements where they are in the layout of a witness; None if nothing
    does, and nan for what they do not settle.
    """
    of, fixed = coefficients(witness.swizzle, witness.base_offset, major)
    parts = sorted({at[:2] for at, _ in elements})
    rows = [[of[0][at[2:]], of[1][at[2:]], *(at[:2] == part for part in parts)] for at, _ in elements]
    sides = [before(where, witness) - fixed[at[2:]] for at, where in elements]
    matrix, right = np.array(rows, float), np.array(sides, float)
    found = np.linalg.lstsq(matrix, right, rcond=None)[0]
    if np.abs(matrix @ found - right).max() > 0.5:
        return None
    _, sizes, axes = np.linalg.svd(matrix, full_matrices=True)
    free = axes[(sizes > 1e-9).sum() :]
    found = np.where((np.abs(free) > 1e-9).any(axis=0), np.nan, np.rint(found))
    return found[0], found[1], dict(zip(parts, found[2:].tolist(), strict=True)), of, fixed


def holds(value):
    """May a field of 14 bits have this number of bytes, 16 for each?"""
    return bool(np.isnan(value)) or (0 <= value < 1 << 18 and value % 16 == 0)


def moves(change, line, along):
    """The bytes by which the elements (blocks, steps, lines, along) of a right operand are moved."""
    atom, by = line // 8 + along // 8, np.zeros((2, 2, line.size, along.size), np.int64)
    some, bytes_ = {
        "none": (np.s_[:], 0),
        "a chunk": (np.s_[1, 1, 13, 8:16], 48),
        "an element": (np.s_[0, 1, 5, 11], 2),
        "a start": (np.s_[1, 0], 8),
        "odd": (np.s_[:], 8 * atom),
        "high": (np.s_[:], 0x40000),
        "backwards": (np.s_[:], -3072 * atom),
        "far": (np.s_[:], (1 << 19) * atom),
        "a block": (np.s_[1], 128 * (line // 8)),
        "the last lines": (np.s_[:, :, -8:], 16),
    }[change]
    by[some] += bytes_
    return by


@pytest.mark.parametrize("mode", CLASSIC)
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize(
    "change", ["none", "a chunk", "an element", "a start", "odd", "high", "backwards", "far", "a block", "the last lines"]
)
def test_each_number_of_a_proof_is_that_of_its_elements(mode, major, change):
    """The elements of a witness are equations for start, LBO and SBO: they have no solution that the fields can hold."""
    operand = SHAPES[major]
    d = SmemDescriptor(arch="sm_90a", start_address=0xC000, swizzle=mode, leading_byte_offset=2048, stride_byte_offset=1024)
    words = [[d.advance(8192 * block + 32 * step).encode() for step in range(2)] for block in range(2)]
    places = address(np.array(words, np.uint64), "sm_90a", operand)
    lined = places if major == "K" else np.swapaxes(places, -1, -2)  # a view
    lined += moves(change, np.arange(lined.shape[2])[:, None], np.arange(lined.shape[3]))
    answer = solved(places, "sm_90a", operand)
    assert all((address(one.words, "sm_90a", operand) == places).all() for one in answer.descriptors)
    assert change != "none" or mode in [one.swizzle for one in answer.descriptors]
    layouts = sum(MODES[one].mask + 1 for one in CLASSIC)
    assert len(answer.witnesses) + len(answer.descriptors) == (1 if change in ("an element", "a start", "odd") else layouts)
    for witness in answer.witnesses:
        where = [at for _, at in witness.elements]
        assert [places[at] for at, _ in witness.elements] == where
        said = re.sub(r"\(row[^()]*(\([^()]*\))?\)|multiples? of 16.*| B as in.*", "", witness.text)
        numbers = [int(n, 0) for n in re.findall(r"-?0x[0-9a-f]+|-?\d+", said)]
        if witness.swizzle is None:
            assert numbers == ([where[1] - where[0], 6] if change == "an element" else [where[0]])
            assert change == "an element" or where[0] % 16
        else:
            the_sentence_is_true(witness, major, numbers)


def the_sentence_is_true(witness, major, numbers):
    text, whole = witness.text, solution(witness, major, witness.elements)
    assert whole is None or not all(holds(value) for value in (whole[0], whole[1], *whole[2].values())), text
    if "apart" in text:
        (one, a), (two, b) = witness.elements
        _, _, _, of, fixed = solution(witness, major, witness.elements[:1])
        assert one[:2] == two[:2]
        assert all(part[one[2:]] == part[two[2:]] for part in of)
        assert numbers == [before(b, witness) - before(a, witness), fixed[two[2:]] - fixed[one[2:]]]
        assert (" before the XOR" in text) == (MODES[witness.swizzle].mask > 0)
    elif "would put" in text:
        *others, (last, at) = witness.elements
        lbo, sbo, starts, of, fixed = solution(witness, major, others)
        values = {"LBO": (lbo, of[0]), "SBO": (sbo, of[1])}
        told = {name: float(value) for name, value in re.findall(r"(LBO|SBO) (-?\d+) B \(from", text)}
        assert told == {name: value for name, (value, part) in values.items() if part[last[2:]]}
        put = starts[last[:2]] + sum(told[name] * values[name][1][last[2:]] for name in told) + fixed[last[2:]]
        assert numbers[-2:] == [put, before(at, witness)]
    else:
        lbo, sbo, starts, _, _ = whole
        field = re.search(r"need (LBO|SBO|a start)", text)[1]
        wanted = {"LBO": lbo, "SBO": sbo, "a start": starts[witness.elements[0][0][:2]]}[field]
        assert numbers[0] == wanted
        assert not holds(wanted)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p + 8, "no multiple of 16"),
        (lambda p: np.where(np.arange(16) == 3, p + 2, p), "B apart, not 6 B as in 16 bytes of bf16"),
        (lambda p: p[::-1], "before the XOR, not"),
    ],
)
def test_the_proof_is_a_sentence(change, said):
    d = SmemDescriptor(arch="sm_90a", start_address=1024, stride_byte_offset=1024, swizzle="128B")
    operand = {"dtype": "bf16", "major": "K", "rows": 64, "k": 16, "packing": "packed"}
    answer = solved(change(address(d, "sm_90a", operand)), "sm_90a", operand)
    assert not answer.descriptors
    assert said in answer.why


def test_a_transposed_operand_is_told():
    d = SmemDescriptor(arch="sm_90a", start_address=1024, leading_byte_offset=2048, stride_byte_offset=1024, swizzle="128B")
    places = address(d, "sm_90a", {"dtype": "bf16", "major": "MN", "rows": 64, "k": 16, "packing": "packed"})
    answer = find_descriptors(places, arch="sm_90a", dtype="bf16", major="K")
    assert not answer.descriptors
    assert answer.why.endswith("but MN-major 0x4000004000000040 reads it: the operand lies transposed")


def test_contents_that_say_nothing_are_called_ambiguous():
    answer = find_descriptors(dump=bytes(65536), base=0, operand=np.zeros((64, 16), np.uint8), arch="sm_90a", dtype="bf16", major="K")
    assert not answer.complete
    assert "repeat too often" in answer.ambiguous


def test_a_damaged_dump_names_what_is_missing():
    d = SmemDescriptor(arch="sm_90a", start_address=1024, stride_byte_offset=1024, swizzle="128B")
    operand = {"dtype": "e4m3", "major": "K", "rows": 64, "k": 32, "packing": "packed"}
    codes = np.random.default_rng(1).integers(0, 256, (64, 32)).astype(np.uint8)
    memory = np.zeros(16384, np.uint8)
    memory[address(d, "sm_90a", operand)] = codes
    memory[address(d, "sm_90a", operand)[7, 20]] ^= 1
    answer = solved(None, "sm_90a", operand, dump=memory, base=0, operand=codes)
    assert "1 of 128 16-byte chunks" in answer.why
    assert (answer.nearest.right, answer.nearest.of, answer.nearest.first) == (2047, 2048, (0, 0, 7, 20))
    assert answer.nearest.found.descriptor == d


# ---- what TMA wrote


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_transfers_are_read_with_their_own_swizzle(swizzle):
    width = MODES[Swizzle(swizzle)].width // 2
    tm = TensorMap.tiled(
        data_type="bf16", global_address=0x10000, global_dim=(256, 256), global_strides=(512,), box_dim=(width, 64), swizzle=swizzle
    )
    loads = [tma_load(tm, (width * i, 0), smem_address=1024 + 128 * width * i) for i in range(2)]
    row, k = np.arange(64)[:, None], np.arange(16)
    answer = find_descriptors(arch="sm_90a", dtype="bf16", major="K", transfers=loads, wanted=0x10000 + 512 * row + 2 * k)
    assert any(one.swizzle.value == swizzle and one.stride == 16 * width for one in answer.descriptors)
    across = find_descriptors(
        arch="sm_90a", dtype="bf16", major="MN", transfers=loads, wanted=0x10000 + 512 * k[None] + 2 * np.arange(2 * width)[:, None]
    )
    assert {one.leading for one in across.descriptors if one.swizzle.value == swizzle} == {128 * width}
    beyond = find_descriptors(arch="sm_90a", dtype="bf16", major="K", transfers=loads, wanted=0x10000 + 512 * (row + 1) + 2 * k)
    assert not beyond.descriptors
    assert "16 of 1024 elements are not in shared memory" in beyond.why


def test_what_lies_twice_may_be_read_from_either_place():
    tm = TensorMap.tiled(
        data_type="bf16", global_address=0x10000, global_dim=(64, 64), global_strides=(128,), box_dim=(64, 64), swizzle="128B"
    )
    loads = [tma_load(tm, (0, 0), smem_address=at) for at in (0x2000, 0x8000)]
    wanted = 0x10000 + 128 * np.arange(64)[:, None] + 2 * np.arange(16)
    answer = find_descriptors(arch="sm_90a", dtype="bf16", major="K", transfers=loads, wanted=wanted)
    one = next(one for one in answer.descriptors if one.base_offsets == (0,) and one.stride == 1024)
    assert one.alternatives == (((0x2000, 0x8000),),)
    assert not one.sure


@pytest.mark.parametrize("steps", range(1, 5))
def test_steps_of_a_tile_that_a_dump_has_twice_are_those_of_one_of_the_two(steps):
    d = SmemDescriptor(arch="sm_90a", start_address=0x400, stride_byte_offset=1024, swizzle="128B")
    operand = {"dtype": "bf16", "major": "K", "rows": 64, "k": 16, "packing": "packed"}
    places = address(np.array([d.advance(32 * step).encode() for step in range(steps)], np.uint64)[None], "sm_90a", operand)[0] - 0x400
    codes = np.random.default_rng(8).integers(0, 1 << 16, places.shape).astype(np.uint16)
    memory = np.zeros(0x6000, np.uint8)
    for at in (0, 0x4000):
        memory[places + at], memory[places + at + 1] = codes & 255, codes >> 8
    answer = find_descriptors(arch="sm_90a", dtype="bf16", major="K", operand=codes, dump=memory, base=0x400)
    one = next(one for one in answer.descriptors if one.base_offsets == (0,) and one.stride == 1024)
    assert one.starts.tolist() == [[0x400 + 32 * step for step in range(steps)]]
    assert one.alternatives == (tuple((0x400 + 32 * step, 0x4400 + 32 * step) for step in range(steps)),)


# ---- bad input and the command line


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs one of"), ({"places": [[1.5]]}, "whole numbers"), ({"places": np.zeros((0, 4), int)}, "needs whole numbers"),
        ({"places": -np.ones((8, 8), int)}, "needs an address"), ({"places": np.zeros((8, 8), int), "k": 3}, "does not divide"),
        ({"places": np.zeros((8, 8), int), "major": "N"}, "'MN'"), ({"places": np.zeros((8, 8), int), "wanted": [[1]]}, "needs one of"),
        ({"operand": np.zeros((8, 8), int)}, "goes with"), ({"operand": np.zeros((8, 8), int), "dump": b"", "base": 0}, "0 bytes"),
        ({"operand": np.zeros((8, 8), int), "dump": np.zeros(4), "base": 0}, "uint8"), ({"wanted": np.zeros((8, 8), int), "transfers": [1]}, "tma_load"),
        ({"operand": np.full((8, 8), 1 << 20), "dump": b"12", "base": 0}, "16 bits"), ({"places": "abc"}, "whole numbers"),
        ({"places": np.zeros((8, 8), int), "arch": "sm_80"}, "arch"), ({"places": np.zeros((1, 8, 8), int), "k": 4}, "already"),
    ],
)  # fmt: skip
def test_bad_input_is_a_sentence(given, said):
    with pytest.raises(InputError, match=said):
        find_descriptors(**{"arch": "sm_90a", "dtype": "bf16", "major": "K", **given})


def test_an_answer_tells_how_many_there_are_or_why_there_is_none():
    rows = 1024 + 128 * np.arange(64)[:, None] + 2 * np.arange(16)
    none = find_descriptors(rows, arch="sm_90a", dtype="bf16", major="K")
    one = find_descriptors(1024 + 16 * np.arange(64)[:, None] + 2 * np.arange(8), arch="sm_90a", dtype="bf16", major="K")
    many = find_descriptors(operand=np.zeros((64, 16), np.uint16), dump=bytes(4096), base=1024, arch="sm_90a", dtype="bf16", major="K")
    assert [repr(x) for x in (none, one)] == ["<Answer on sm_90a: 0 descriptors>", "<Answer on sm_90a: 1 descriptor>"]
    assert repr(many) == f"<Answer on sm_90a: {len(many.descriptors)} descriptors, of more>"
    assert str(none) == none.why
    assert str(one) == f"1 layout reads it; the first is {one.descriptors[0].descriptor!r}"
    near = none.as_dict()["nearest"]
    assert (near["right"], near["of"], near["first"]) == (128, 1024, [0, 0, *near["first"][2:]])
    assert (near["lies"], near["reads"]) == (int(rows[tuple(near["first"][2:])]), int(none.nearest.reads[none.nearest.first]))


@pytest.mark.parametrize(
    ("places", "says"),
    [
        ([[1, 2], [3]], "places = [[1, 2], [3]]: needs an array"),
        (np.zeros((4, 4)), "places: an array of float64 (4, 4); needs whole numbers"),
        (np.zeros((0, 4), int), "places: an array of int64 (0, 4); needs whole numbers"),
        (np.broadcast_to(np.int64(0), (1 << 10, 1025)), "places has 1,049,600 elements; a tile has at most 1,048,576"),
    ],
)
def test_what_are_no_addresses_is_a_sentence(places, says):
    with pytest.raises(InputError) as caught:
        find_descriptors(places, arch="sm_90a", dtype="bf16", major="K")
    assert says in str(caught.value)


def test_layouts_that_nobody_knows_are_named():
    places = 1024 + 256 * np.arange(8)[:, None] + 2 * np.arange(128)
    answer = find_descriptors(places, arch="sm_90a", dtype="bf16", major="K")
    assert len(answer.unmodelled) == 2  # 64B and 128B rows end before
    assert "not considered" in answer.why


SCENARIO = {
    "arch": "sm_90a",
    "tensor": {"A": {"dtype": "bf16", "extent": {"m": 128, "k": 64}, "stride": {"m": 128, "k": 2}}},
    "buffer": {"sA": {"address": 1024}},
    "map": {"tm": {"of": "A", "data_type": "BFLOAT16", "global_dim": [64, 128], "global_strides": [128], "box_dim": [64, 128], "swizzle": "128B"}},
    "step": [
        {"op": "tma_load", "map": "tm", "to": "sA", "at": [0, 0]},
        {"op": "mma", "kind": "wgmma", "m": 64, "n": 64, "k": 16, "a": {"dtype": "bf16", "major": "K", "meant": {"tensor": "A", "axes": ["m", "k"]}}},
    ],
}  # fmt: skip


def run(*arguments):
    done = CliRunner().invoke(main, ["solve", *map(str, arguments)])
    assert done.exception is None or isinstance(done.exception, (SystemExit, SmemsimError))
    return done


def test_the_rows_of_an_operand_are_those_of_one_cta_of_the_pair():
    """Without `rows` an operand has M, or half of a pair's, and `check` and the solver agree."""
    scenario = kernel("sm_100a", "bf16", "K", "128B", 128, 64)
    step = scenario["step"][1]
    del step["a"]["rows"]
    for group, step["m"] in ((1, 128), (2, 256)):
        assert check(scenario | {"cta_group": group}).codes == ()
        shape, memory, wanted = wanted_of(scenario | {"cta_group": group}, "step[1].a")
        assert shape.rows == 128
        found = [(one.swizzle, one.stride, one.starts.tolist()) for one in of_memory(shape, memory, wanted).descriptors]
        assert (Swizzle.B128, 1024, [[0x400 + by for by in step["a"]["k_add"]]]) in found


def test_the_command_finds_a_scenarios_operand(tmp_path):
    path = tmp_path / "kernel.json"
    path.write_text(json.dumps(SCENARIO))
    done = run(path, "--operand", "step[1].a", "--json")
    assert done.exit_code == 0
    first = json.loads(done.stdout)["descriptors"][0]
    assert first["words"][0][:2] == ["0x4000004000000040", "0x4000004000000042"]
    assert np.array(first["advance"]).shape == (2, 4)
    assert "+8224" in run(path, "--operand", "step[1].a").stdout
    path.write_text(json.dumps(SCENARIO).replace('"128B"', '"none"'))
    done = run(path, "--operand", "step[1].a")
    assert done.exit_code == 1
    assert "nearest" in done.stdout
    assert run(path, "--operand", "step[0].a").exit_code == 2
    assert run(path).exit_code == 2
    assert run().exit_code == 2


def test_the_command_finds_an_operand_in_a_dump(tmp_path):
    operand = {"dtype": "bf16", "major": "K", "rows": 64, "k": 16, "packing": "packed"}
    places = address(SmemDescriptor(arch="sm_90a", start_address=1024, stride_byte_offset=1024, swizzle="128B"), "sm_90a", operand)
    codes = np.random.default_rng(2).integers(0, 1 << 16, (64, 16)).astype(np.uint16)
    memory = np.zeros(1 << 14, np.uint8)
    memory[places], memory[places + 1] = codes & 255, codes >> 8
    (tmp_path / "smem.bin").write_bytes(memory.tobytes())
    np.save(tmp_path / "smem.npy", memory)
    np.save(tmp_path / "a.npy", codes)
    given = ["--base", "0", "--arch", "sm_90a", "--dtype", "bf16", "--major", "K"]
    for dump in ("smem.bin", "smem.npy"):
        done = run(tmp_path / dump, tmp_path / "a.npy", *given)
        assert done.exit_code == 0
        assert "0x4000004000000040" in done.stdout
    assert run(tmp_path / "smem.bin", tmp_path / "smem.bin", *given).exit_code == 2
    assert run(tmp_path / "none.bin", tmp_path / "a.npy", *given).exit_code == 2
    assert run(tmp_path / "smem.bin", tmp_path / "a.npy").exit_code == 2
    np.save(tmp_path / "a.npy", codes + 1)
    assert run(tmp_path / "smem.bin", tmp_path / "a.npy", *given).exit_code == 1
