"""Transfers of every mode with wrong arguments and foreign maps: a call returns, or says in one sentence which argument
is wrong.
"""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxes import BASE, im2col, tiled, wide
from smemsim import (
    GlobalMemory,
    SharedMemory,
    SmemsimError,
    TensorMap,
    tma_load,
    tma_load_bytes,
    tma_prefetch,
    tma_reduce,
    tma_store,
    tma_store_bytes,
)
from smemsim.core.spec.tensor_map import TENSOR_MAP
from strategies import examples, words

END = 0x39000


def sentence(call, *arguments, **named):
    """What a call says is wrong; "" when it returns."""
    try:
        call(*arguments, **named)
    except SmemsimError as error:
        return str(error)
    return ""


U32 = tiled(data_type="u32", global_dim=(32, 16), global_strides=(128,), box_dim=(32, 4))
SHARED, GLOBAL = np.zeros(1 << 14, np.uint8), np.zeros(1 << 14, np.uint8)
WORLD = GlobalMemory()
WORLD.place(GLOBAL, BASE)


def in_memory(name):
    def call(**arguments):
        return getattr(SharedMemory("sm_103a"), name)(**arguments)

    call.__name__ = call.__qualname__ = f"SharedMemory.{name}"
    return call


PLACE = {"tm": U32, "coordinates": (0, 0), "smem_address": 1024, "mode": None}
BYTES = {"shared": SHARED, "global_": GLOBAL, "arch": None}
CALLS = {
    tma_load: PLACE | {"im2col_offsets": (), "arch": None, "shared_end": END},
    tma_store: PLACE | {"arch": None, "shared_end": END},
    tma_prefetch: {"tm": U32, "coordinates": (0, 0), "im2col_offsets": (), "mode": None, "arch": None},
    tma_load_bytes: PLACE | BYTES | {"im2col_offsets": ()},
    tma_store_bytes: PLACE | BYTES,
    tma_reduce: PLACE | BYTES | {"op": "add"},
    in_memory("tma_load"): PLACE | {"source": WORLD, "im2col_offsets": ()},
    in_memory("tma_store"): PLACE | {"to": WORLD},
    in_memory("tma_reduce"): PLACE | {"to": WORLD, "op": "add"},
}
NAMES = {"source": "memory", "to": "memory", "im2col_offsets": "im2col_offsets|takes none", "shared": "^shared", "global_": "^global_"}


class Unspeakable:
    """An object that cannot be printed."""

    def __repr__(self):
        raise RuntimeError("no")


WRONG = {  # no argument of any call may be one of these
    "float": 1.5, "nan": math.nan, "infinity": math.inf, "text": "x", "bytes": b"x", "object": object(), "unspeakable": Unspeakable(), "type": int,
    "set": {1}, "dict": {"a": 1}, "list of lists": [[0], [0]], "list of floats": [0.0, 0.0], "list of None": [None, None],
    "list of nan": [math.nan, 0], "list of text": ["0", "0"], "list of bools": [True, False], "float array": np.zeros(2),
    "text array": np.array(["a", "b"]), "object array": np.array([None, 1]), "0-d array": np.array(1.5), "2-d array": np.zeros((2, 2), np.uint8),
    "words": np.zeros(64, np.uint32), "huge": 1 << 200, "huge list": [1 << 200, 0], "huge negative": -(1 << 200), "negative list": [-(1 << 40), 0],
    "ten numbers": range(10), "signed bytes": np.zeros(1 << 14, np.int8), "complex": 1j, "slice": slice(2), "date": np.datetime64("2020-01-01"),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_the_undisturbed_call_returns(call):
    assert call(**CALLS[call]) is not None


@pytest.mark.parametrize(("call", "name"), [pytest.param(c, n, id=f"{c.__qualname__}-{n}") for c, good in CALLS.items() for n in good])
def test_a_wrong_value_is_explained_in_one_line_by_the_name_of_its_argument(call, name):
    failed = {}
    for value, wrong in WRONG.items():
        try:
            said = sentence(call, **CALLS[call] | {name: wrong})
        except Exception as error:
            said = f"{type(error).__name__}\n{error}"
        if not re.search(NAMES.get(name, name), said) or not 12 < len(said) < 400 or "\n" in said:
            failed[value] = said
    assert not failed


@pytest.mark.parametrize("name", ["shared", "global_"])
@pytest.mark.parametrize("call", [tma_load_bytes, tma_store_bytes, tma_reduce])
def test_memory_of_any_layout_holds_the_same_bytes_and_too_little_is_explained(call, name):
    data = np.random.default_rng(9).integers(0, 256, 1 << 14, np.uint8)
    wanted = call(**CALLS[call] | {name: data})
    frozen = data.copy()
    frozen.flags.writeable = False
    for same in (np.repeat(data, 2)[::2], data[::-1].copy()[::-1], frozen):
        assert np.array_equal(call(**CALLS[call] | {name: same}), wanted)
    for size in (0, 1, 127, 500):
        with pytest.raises(SmemsimError, match=name):
            call(**CALLS[call] | {name: data[:size]})


OF_MODE = {
    "tile": (U32, (0, 0), ()),
    "tile::gather4": (tiled(box_dim=(128, 1)), (0, 0, 1, 2, 3), ()),
    "im2col": (im2col((16, 4, 3, 2), lower=(0, 0), upper=(0, 0), channels=16, count=8), (0, 0, 0, 0), (1, 1)),
    "im2col::w": (wide((64, 4, 3, 2), lower=0, upper=0, count=8), (0, 0, 0, 0), (1, 1)),
    "im2col::w::128": (wide((64, 4, 3, 2), lower=0, upper=0, mode="W128"), (0, 0, 0, 0), (1, 1)),
}


WIDE = ("im2col::w", "im2col::w::128")


@pytest.mark.parametrize("mode", OF_MODE)
@pytest.mark.parametrize("other", OF_MODE)
@pytest.mark.parametrize("arch", [None, "sm_90a", "sm_100a"])
def test_an_instruction_through_the_map_of_another_mode_is_refused(mode, other, arch):
    """W and W128 differ in nothing but the driver's verdict: either instruction takes the map of the other."""
    tm, at, offsets = OF_MODE[mode]

    def loaded():
        return tma_load(tm, at, smem_address=1024, im2col_offsets=offsets, mode=other, arch=arch)

    is_known = arch != "sm_90a" or other in ("tile", "im2col")
    if is_known and (mode == other or (mode in WIDE and other in WIDE)):
        assert loaded().transaction_bytes
    else:
        with pytest.raises(SmemsimError):
            loaded()


@pytest.mark.parametrize("mode", OF_MODE)
@examples(40)
@given(
    at=st.lists(st.integers(-(1 << 32), 1 << 32) | st.integers(-9, 9), max_size=7), offsets=st.lists(st.integers(-1, 1 << 17), max_size=4)
)
def test_any_coordinates_and_offsets_are_taken_or_explained(mode, at, offsets):
    tm = OF_MODE[mode][0]
    for call in (tma_load, tma_prefetch):
        extra = {"smem_address": 1024} if call is tma_load else {}
        said = sentence(call, tm, at, mode=mode, im2col_offsets=offsets, **extra)
        assert not said or "coordinates" in said or "im2col_offsets" in said


# Any bits; and bits that miss being a map of some encoder by a few fields: boxes of whole chunks, small tensors,
# strides that may overlap.
FEW = {f"dim{i}": st.integers(0, 40) for i in range(5)} | {f"stride{i}_low": st.integers(0, 40) for i in range(4)}
NONE = [*(f for f in TENSOR_MAP.fields if f.startswith("_")), *(f"stride{i}_high" for i in range(4)), "version", "to_tf32", "nan_fill"]
NEAR = FEW | dict.fromkeys(NONE, st.just(0)) | {
    "global_address": st.integers(1, 1 << 10).map(lambda n: 32 * n), "rank": st.integers(0, 4), "format": st.sampled_from((*range(10), *range(11, 14))),
    "interleave": st.sampled_from((0, 0, 0, 1, 2)), "box0": st.sampled_from((15, 31, 63, 127)), "pixels": st.integers(0, 40),
    **{f"box{i}": st.sampled_from((0, 1, 2, 7)) for i in range(1, 5)}, "swizzle_low": st.sampled_from((0, 0, 3)), "swizzle_high": st.just(0),
    "atomicity": st.sampled_from((0, 0, 1, 2, 3)),
}  # fmt: skip
ANY = {"rank": st.integers(0, 4), "format": st.integers(0, 13), "interleave": st.integers(0, 2)}
FOREIGN = words(TENSOR_MAP, raw=ANY) | words(TENSOR_MAP, raw=ANY | FEW) | words(TENSOR_MAP, raw=NEAR) | words(TENSOR_MAP, raw=NEAR)


@pytest.mark.parametrize("arch", [None, "sm_90a", "sm_103a"])
@examples(120)
@given(
    word=FOREIGN, at=st.lists(st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-2, 40), min_size=5, max_size=5), c0=st.integers(-4, 4)
)
def test_maps_of_random_bytes_are_transferred_or_explained_and_never_fill_the_machine(arch, word, at, c0):
    made = []
    sentence(lambda: made.append(TensorMap.from_bytes(word.to_bytes(128, "little"))))
    modes = [(tma_load, m) for m in (None, "tile::gather4", "im2col::w")] + [(tma_store, m) for m in (None, "tile::scatter4")]
    for tm in made:
        for call, mode in modes:
            where = [128 * c0, *at, 0][: 5 if mode and "4" in mode else tm.rank]
            said = sentence(moved_at_most, call, tm, where, smem_address=1024, mode=mode, arch=arch)
            assert not said or len(said) > 12
        for call in (tma_load_bytes, tma_store_bytes, tma_reduce):
            op = {"op": "xor"} if call is tma_reduce else {}
            sentence(call, tm=tm, coordinates=[128 * c0, *at][: tm.rank], smem_address=1024, arch=arch, shared=SHARED, global_=GLOBAL, **op)


def moved_at_most(call, tm, where, **arguments):
    """The call, and that what it returns is no larger than a shared window needs."""
    t = call(tm, where, **arguments)
    assert len(t.lines) <= 1 << 20
    assert len(t.shared_address) == len(t.global_address) <= t.transaction_bytes
