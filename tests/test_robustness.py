"""Whatever is passed for an argument, a call returns or says in one sentence what is wrong with it."""

import math
import re
import resource

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smemsim import (
    SharedMemory,
    SmemDescriptor,
    SmemsimError,
    TensorMap,
    operand_addresses,
    tma_load,
    tma_load_bytes,
    tma_store,
)
from smemsim.spec.tensor_map import TENSOR_MAP
from strategies import examples, words

WORD = 0x4000004000010040
MAP = {"data_type": "bf16", "global_address": 0x10000, "global_dim": (64, 16), "global_strides": (128,), "box_dim": (64, 8), "element_strides": (1, 1),
       "interleave": "none", "swizzle": "128B", "l2_promotion": "none", "oob_fill": "zeros", "arch": None}  # fmt: skip
TM = TensorMap.tiled(**MAP)

NUMBERS = [
    0,
    1,
    -1,
    8,
    16,
    64,
    256,
    1 << 16,
    1 << 18,
    1 << 31,
    1 << 32,
    1 << 63,
    (1 << 64) - 1,
    1 << 64,
    -(1 << 63),
    1 << 70,
    -(1 << 70),
    1 << 2000,
]
NAMES = [
    "K",
    "MN",
    "bf16",
    "e2m1",
    "f64",
    "sm_90a",
    "sm_100a",
    "sm_103a",
    "none",
    "128B",
    "128B_ATOM_32B",
    "nan",
    "packed",
    "padded",
    "",
    "16",
    "\n",
    "invalid",
]
SCALARS = [np.int8(-1), np.uint8(16), np.int64(64), np.uint64((1 << 64) - 1), np.float16(1.5), np.float32("nan"), np.float64(16), np.float32(np.inf),
           np.True_, np.str_("K"), np.bytes_(b"K"), np.complex64(1j), np.datetime64("2020-01-01"), np.timedelta64(16, "s"), np.void(b"ab")]  # fmt: skip
ARRAYS = [
    np.array(16),
    np.array(1.5),
    np.array([16]),
    np.array([1, 2]),
    np.zeros(0),
    np.array(["K", "MN"]),
    np.array([None, 1]),
    np.array(True),
]
KINDS = [
    np.uint8,
    np.dtype("float32"),
    np.float16,
    int,
    object,
    type,
    len,
    NotImplemented,
    ...,
    1j,
    {},
    {"K": 1},
    {1, 2},
    range(2),
    slice(2),
]

entries = st.sampled_from([*NUMBERS, *SCALARS, *NAMES[:3], None, 1.5]) | st.integers(-4, 300)
anything = (
    st.sampled_from(NUMBERS)
    | st.integers(-4, 300)
    | st.floats()
    | st.sampled_from(NAMES)
    | st.text(max_size=3)
    | st.sampled_from([None, True, False, b"", b"K", bytes(128), bytearray(16)])
    | st.sampled_from(SCALARS)
    | st.sampled_from(KINDS)
    | st.lists(entries, max_size=6)
    | st.lists(entries, max_size=6).map(tuple)
)
INTERNAL = re.compile(r"Traceback|object at 0x|numba|__\w+__|\bself\b|smemsim\.\w+\.\w+|unsupported operand|NoneType' ")


def returns_or_explains(call, **arguments):
    try:
        call(**arguments)
    except SmemsimError as error:
        sentence = str(error)
    else:
        return
    assert len(sentence) > 12, sentence
    assert "\n" not in sentence, sentence
    assert not INTERNAL.search(sentence), sentence


def read_operand(**arguments):
    return SharedMemory().read_operand(**arguments)


def descriptor_problems(**arguments):
    return SmemDescriptor.decode(WORD, arch="sm_90a").problems(**arguments)


def descriptor_advance(**arguments):
    return SmemDescriptor.decode(WORD, arch="sm_90a").advance(**arguments)


def sparse_bytes(**arguments):
    return tma_load_bytes(**{"shared": np.zeros(4096, np.uint8), "global_": np.zeros(2048, np.uint8)} | arguments)


OPERAND = {"descriptor": WORD, "arch": "sm_90a", "dtype": "bf16", "major": "K", "rows": 8, "k": 16, "packing": "packed"}
TRANSFER = {"tm": TM, "coordinates": (0, 0), "smem_address": 0x400}
CALLS = {
    operand_addresses: OPERAND | {"out": None},
    read_operand: OPERAND,
    SmemDescriptor: {
        "arch": "sm_100a",
        "start_address": 0,
        "leading_byte_offset": 0,
        "stride_byte_offset": 0,
        "base_offset": 0,
        "swizzle": "none",
        "lbo_mode": 0,
    },
    SmemDescriptor.decode: {"word": WORD, "arch": "sm_90a"},
    descriptor_advance: {"byte_offset": 16},
    descriptor_problems: {"dtype": "bf16", "major": "K", "rows": 8, "k": 16, "packing": "packed", "tile_bytes": None},
    TensorMap.tiled: MAP,
    TensorMap.from_bytes: {"raw": bytes(TM)},
    tma_load: TRANSFER | {"im2col_offsets": (), "shared_end": 0x39000},
    tma_store: TRANSFER | {"shared_end": 0x39000},
    sparse_bytes: TRANSFER | {"im2col_offsets": (), "shared": np.zeros(4096, np.uint8), "global_": np.zeros(2048, np.uint8)},
}
PLACES = [pytest.param(call, name, id=f"{call.__qualname__}-{name}") for call, good in CALLS.items() for name in good]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_the_undisturbed_call_returns(call):
    call(**CALLS[call])


@pytest.mark.parametrize(("call", "name"), PLACES)
@examples(90)
@given(value=anything)
def test_any_value_for_one_argument_is_taken_or_explained(call, name, value):
    returns_or_explains(call, **CALLS[call] | {name: value})


@pytest.mark.parametrize(("call", "name"), PLACES)
def test_a_small_array_for_one_argument_is_taken_or_explained(call, name):
    for value in ARRAYS:
        returns_or_explains(call, **CALLS[call] | {name: value})


@pytest.mark.parametrize("name", ["global_dim", "global_strides", "box_dim", "element_strides"])
@examples(80)
@given(value=st.lists(entries, max_size=7), other=st.lists(st.integers(-1, 9), max_size=7))
def test_entries_of_any_kind_and_number_are_taken_or_explained(name, value, other):
    returns_or_explains(TensorMap.tiled, **MAP | {name: value})
    returns_or_explains(TensorMap.tiled, **MAP | {"global_dim": other, name: value})


@examples(150)
@given(st.data())
def test_any_two_values_together_are_taken_or_explained(data):
    call = data.draw(st.sampled_from(list(CALLS)))
    good = CALLS[call]
    names = data.draw(st.lists(st.sampled_from(list(good)), min_size=min(2, len(good)), max_size=2))
    returns_or_explains(call, **good | {name: data.draw(anything) for name in names})


@examples(150)
@given(st.binary(max_size=160))
def test_any_bytes_hold_a_map_or_are_explained(raw):
    returns_or_explains(TensorMap.from_bytes, raw=raw)
    returns_or_explains(TensorMap.from_bytes, raw=(raw + bytes(128))[:128])


SMALL_BOXES = {f"box{i}": st.integers(0, 15) for i in range(5)} | {
    "im2col": st.just(0),
    "rank": st.integers(0, 4),
    "interleave": st.just(0),
}


@examples(200)
@given(word=words(TENSOR_MAP, raw=SMALL_BOXES), at=st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=5, max_size=5))
def test_maps_of_foreign_bytes_are_transferred_or_explained(word, at):
    raw = word.to_bytes(128, "little")
    for call in (tma_load, tma_store):
        returns_or_explains(
            lambda call=call: call(tm := TensorMap.from_bytes(raw), [8 * (c // 8) for c in at[: tm.rank]], smem_address=0x400)
        )


@pytest.fixture
def little_memory():
    """At most 8 GiB more address space than now: an allocation beyond all bounds fails at once, on any machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (8 << 30), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def foreign_map(box, swizzle=0):
    """The bytes of a map that no driver makes: the fields of a legal one with another box."""
    legal = TensorMap.tiled(
        data_type="u8", global_address=0x10000, global_dim=(256,) * 5, global_strides=(256,) * 4, box_dim=(16, 1, 1, 1, 1)
    )
    word = int.from_bytes(bytes(legal), "little")
    values = TENSOR_MAP.decode(word) | {f"box{i}": n for i, n in enumerate(box)} | {"swizzle_low": swizzle}
    return TensorMap.from_bytes(TENSOR_MAP.encode(**values).to_bytes(128, "little"))


def test_a_box_beyond_all_memory_is_explained(little_memory):
    with pytest.raises(SmemsimError):
        tma_load(foreign_map((256,) * 5), (0,) * 5, smem_address=0x400)


@pytest.mark.parametrize(("box", "swizzle"), [((8, 4, 1, 1, 1), 0), ((24, 4, 1, 1, 1), 0), ((48, 4, 1, 1, 1), 1), ((160, 4, 1, 1, 1), 3)])
def test_a_map_that_the_driver_refuses_is_not_transferred_as_if_it_were_another(box, swizzle):
    """Rows of 8 or 24 bytes, rows wider than the swizzle: the model either counts the whole box or says that nobody knows."""
    try:
        t = tma_load(foreign_map(box, swizzle), (0,) * 5, smem_address=0x400)
    except SmemsimError:
        return
    assert t.transaction_bytes == math.prod(box)
    assert len(np.unique(t.shared_address)) == math.prod(box)


@examples(60)
@given(
    st.lists(
        st.sampled_from(
            [
                WORD,
                0,
                -1,
                1 << 64,
                None,
                1.5,
                "0",
                True,
                SmemDescriptor.decode(WORD, arch="sm_90a"),
                [WORD],
                (),
                np.array([WORD, 0], np.uint64),
            ]
        ),
        max_size=3,
    )
)
def test_lists_of_descriptors_are_taken_or_explained(descriptor):
    returns_or_explains(operand_addresses, **OPERAND | {"descriptor": descriptor})


def test_a_list_of_arrays_is_not_cut_down_to_their_first_words():
    with pytest.raises(SmemsimError, match=r"nested|array"):
        operand_addresses([np.array([WORD, WORD + 2], np.uint64)], arch="sm_90a", dtype="bf16", major="K", rows=8, k=16)


@pytest.mark.parametrize("dtype", ["bool", "float64", "complex64", "object", "U4", "M8[s]", "V8"])
def test_arrays_of_other_types_are_no_descriptors(dtype):
    with pytest.raises(SmemsimError, match="descriptor: needs a 64-bit integer"):
        operand_addresses(np.zeros(2, dtype), arch="sm_90a", dtype="bf16", major="K", rows=8, k=16)
