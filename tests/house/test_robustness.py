"""Whatever is passed for an argument, a call returns or says in one sentence what is wrong with it."""

import inspect
import json
import math
import random
import tomllib
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import smemsim
from places import ROOT, TESTS
from smemsim import (
    HardwareTrap,
    SharedMemory,
    SmemDescriptor,
    SmemsimError,
    TensorMap,
    TraceError,
    check,
    explain_product,
    operand_addresses,
    tma_load,
    tma_load_bytes,
    tma_store,
)
from smemsim.cli import main
from smemsim.core.spec.tensor_map import TENSOR_MAP
from smemsim.evidence.kinds.common import side_by_side
from smemsim.evidence.replay import replay
from strategies import CHARACTERS, examples, words
from tools import robustness
from tools.doors.calls import RESULTS, good_calls
from tools.doors.damage import damaged_bytes, damaged_text, damaged_value
from tools.doors.guard import Bench, bad_sentence, bounded_memory, door

SCENARIOS = TESTS / "scenarios"


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
    | st.text(CHARACTERS, max_size=3)
    | st.sampled_from([None, True, False, b"", b"K", bytes(128), bytearray(16)])
    | st.sampled_from(SCALARS)
    | st.sampled_from(KINDS)
    | st.lists(entries, max_size=6)
    | st.lists(entries, max_size=6).map(tuple)
)


def returns_or_explains(call, **arguments):
    why = ""
    try:
        call(**arguments)
    except SmemsimError as error:
        why = bad_sentence(error) and f"{bad_sentence(error)}: {error}"
    assert not why


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
    assert call(**CALLS[call]) is not None


@pytest.mark.parametrize(("call", "name"), PLACES)
@examples(40)
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
    with bounded_memory(8 << 30):
        yield


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


@pytest.mark.parametrize(
    ("box", "swizzle", "why"),
    [
        ((8, 4, 1, 1, 1), 0, "a row of the box takes 8 B, which is not a multiple of 16 B"),
        ((24, 4, 1, 1, 1), 0, "a row of the box takes 24 B, which is not a multiple of 16 B"),
        ((48, 4, 1, 1, 1), 1, "takes 48 B of shared memory; SWIZZLE_32B allows at most 32 B"),
        ((160, 4, 1, 1, 1), 3, "takes 160 B of shared memory; SWIZZLE_128B allows at most 128 B"),
    ],
)
def test_a_map_that_the_driver_refuses_is_not_transferred_as_if_it_were_another(box, swizzle, why):
    with pytest.raises(HardwareTrap, match=why):
        tma_load(foreign_map(box, swizzle), (0,) * 5, smem_address=0x400)


@pytest.mark.parametrize(("box", "swizzle"), [((16, 4, 1, 1, 1), 0), ((48, 4, 1, 1, 1), 0), ((32, 4, 1, 1, 1), 1), ((128, 4, 1, 1, 1), 3)])
def test_a_foreign_map_that_no_rule_forbids_moves_its_whole_box(box, swizzle):
    t = tma_load(foreign_map(box, swizzle), (0,) * 5, smem_address=0x400)
    assert t.transaction_bytes == len(np.unique(t.shared_address)) == math.prod(box)


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


# ---- arbitrary and damaged input through the doors of tools/robustness.py


DOORS = [space for name, space in robustness.SPACES.items() if name != "processes"]


@pytest.mark.parametrize("space", DOORS, ids=lambda space: space.name)
def test_every_door_answers_or_says_a_sentence(space):
    found = space.run(2026, 0)
    assert found.troubles == ()
    assert found.cases >= space.chunk_cases
    assert any(not kind.startswith("!") for kind in found.classes)
    assert sum(found.classes.get(kind, 0) for kind in ("answer", "InputError", "TableError", "TraceError", "Unmodelled")) > 0


def test_a_chunk_gives_the_same_every_time():
    space = robustness.SPACES["layouts"]
    assert space.run(1, 3) == space.run(1, 3) != space.run(1, 4)


def hang():
    while True:
        pass


def fails(error):
    raise error


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: fails(KeyError("x")), "KeyError at "),
        (lambda: fails(MemoryError()), "MemoryError at "),
        (lambda: fails(SmemsimError("short")), "bad sentence SmemsimError at "),
        (lambda: fails(SmemsimError("two lines\nare no sentence")), "bad sentence SmemsimError at "),
        (lambda: fails(SmemsimError("the word <object at 0x7f00> is none")), "bad sentence SmemsimError at "),
        (lambda: fails(SmemsimError("a word " * 2000)), "bad sentence SmemsimError at "),
        (lambda: np.zeros(1) / np.zeros(1), "RuntimeWarning at "),
        (hang, "hang at "),
    ],
)
def test_the_doors_see_what_is_no_answer(call, kind, monkeypatch):
    monkeypatch.setattr("tools.doors.guard.SECONDS", 0.05)
    found = door("planted", "one defect", 1, lambda rng, cases, bench: bench.through(call, {"case": b"ab"})).run(0, 0)
    [trouble] = found.troubles
    assert trouble.what.startswith(kind)
    assert trouble.case == {"case": "6162"}
    assert [name for name in found.classes if name.startswith(f"! {kind}")]
    assert "--only planted --seed 0 --chunk 0" in trouble.reproduce


def test_answers_and_sentences_are_counted_apart():
    bench = Bench("again")
    assert bench.through(lambda: 7, {}) == 7
    assert bench.through(lambda: fails(SmemsimError("a sentence of some length")), {}) is None
    assert bench.result().classes == {"SmemsimError": 1, "answer": 1}
    assert bench.result().cases == 2


def test_damage_is_done_to_a_copy_and_is_new_most_times():
    rng, value, text = random.Random(1), {"a": [1, 2, {"b": "x"}], "c": {"d": 1.5}}, "layout (8,64):(64,1)"
    kept = json.dumps(value)
    assert len({json.dumps(damaged_value(rng, value)) for _ in range(200)}) > 80
    assert json.dumps(value) == kept
    assert len({damaged_text(rng, text) for _ in range(200)}) > 80
    assert len({damaged_bytes(rng, text.encode()) for _ in range(200)}) > 80


# ---- what the doors and the fuzzers found

DIGITS = "9" * 5000  # more than Python reads as a decimal number
CALL = "TensorMap.tiled(data_type='u8', global_address=0x100, global_dim=[64], global_strides=[], box_dim=%s)"


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".json", '{"arch": "sm_90a", "title": ' + DIGITS + "}"),
        (".toml", 'arch = "sm_90a"\ntitle = ' + DIGITS),
        (".json", json.dumps({"arch": "sm_90a", "x" * 5000: 1})),
        (".json", json.dumps({"arch": "sm_90a", "buffer": {"two\nlines": {"address": "z"}}})),
        (".json", json.dumps({"arch": "sm_90a", "step": [{"op": "tma_load", "map": "y" * 5000, "to": "s", "at": [0]}]})),
        (
            ".json",
            json.dumps({"arch": "sm_90a", "tensor": {"A": {"dtype": "bf16", "extent": {"z" * 5000: 8}, "stride": {"m": 2}}}, "step": []}),
        ),
    ],
    ids=["digits", "digits in TOML", "a long key", "a key of two lines", "a long name", "a long axis"],
)
def test_a_scenario_with_a_monstrous_number_or_name_is_explained_in_a_line(tmp_path, suffix, text):
    path = tmp_path / f"case{suffix}"
    path.write_text(text)
    with pytest.raises(SmemsimError) as raised:
        check(path)
    assert not bad_sentence(raised.value)
    assert len(str(raised.value)) < 800


def test_two_operands_that_are_wrong_and_leave_shared_memory_are_explained():
    """One that leaves it has no K order that the other could share."""
    raw = tomllib.loads((SCENARIOS / "bugs" / "B12-both-operands-off-phase.toml").read_text())
    del raw["expect"]
    raw["step"][2]["a"]["word"] = 0x06666CD329EFD800  # strides of 171,760 and 183,600 B
    codes = [f.code for f in check(raw).findings]
    assert codes.count("R508") == 2
    assert "H801" not in codes


@pytest.mark.parametrize("box", ["[64] * -99999999999999999999999", "[64] * 99999999999999999999999", "[] * 99999999999999999999999"])
def test_a_list_repeated_beyond_any_number_is_explained(box):
    returns_or_explains(TensorMap.parse, text=CALL % box)


@pytest.mark.parametrize(
    "words",
    [
        ["map", "0x04200490", "--kind", "f16", "--register", "1,4,3", "--ld", f"32x32b.x{DIGITS}"],
        ["map", "0x04200490", "--kind", "f16", "--register", "1,4,3", "--ld", "32x32b.x²"],
        ["map", "0x04200490", "--kind", "f16", "--element", DIGITS],
        ["map", "00" * 128, "--at", DIGITS],
        ["plan", f"128x{DIGITS}", "--arch", "sm_90a", "--dtype", "bf16", "--major", "K"],
        ["dot", "--a-type", "bf16", "-a", "x" * 9000, "-b", "1"],
    ],
    ids=" ".join,
)
def test_command_lines_that_were_tracebacks_or_pages_are_a_sentence(words):
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code in (1, 2)
    assert len(done.stderr) < 800


def test_a_file_name_with_a_zero_byte_is_explained():
    returns_or_explains(lambda: check("\0"))
    returns_or_explains(lambda: replay("\0"))


def test_a_damaged_trace_whose_addresses_are_far_apart_does_not_take_all_memory(little_memory):
    with pytest.raises(TraceError, match="more than any transfer"):
        side_by_side(1 << 55, np.zeros(4, np.int64), np.array([0]), np.array([0]))


def test_a_matrix_with_signalling_nans_gives_no_warning():
    d, operand = np.ones((64, 64), np.float32), np.ones((64, 16), np.float32)
    nan = np.uint32(0x7FA00000).view(np.float32)
    returns_or_explains(lambda: explain_product(np.full_like(d, nan), operand, operand, arch="sm_90a", a_type="bf16"))
    returns_or_explains(lambda: explain_product(d, np.full_like(operand, nan), operand, arch="sm_90a", a_type="bf16"))


@pytest.mark.parametrize(
    "entry", [None, 7, {}, {"dtype": "<i8", "shape": None, "sha256": ""}, {"dtype": "<i8", "shape": [2.0**70], "sha256": ""}, "x" * 9000]
)
def test_a_damaged_entry_of_a_manifest_is_explained_without_pythons_words(tmp_path, entry):
    golden = ROOT / "golden" / "sm_90a" / "encode_pointers"
    manifest = json.loads((golden / "manifest.json").read_text())
    manifest["arrays"] = dict.fromkeys(manifest["arrays"], entry) | {"y" * 9000: entry}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "data.npz").write_bytes((golden / "data.npz").read_bytes())
    with pytest.raises(TraceError) as raised:
        replay(tmp_path)
    assert not bad_sentence(raised.value)
    assert len(str(raised.value)) < 800


def test_an_array_whose_header_is_no_header_is_explained_without_addresses_of_objects(tmp_path):
    golden = SCENARIOS.parents[1] / "golden" / "sm_90a" / "encode_pointers"
    (tmp_path / "manifest.json").write_bytes((golden / "manifest.json").read_bytes())
    with zipfile.ZipFile(golden / "data.npz") as whole, zipfile.ZipFile(tmp_path / "data.npz", "w") as broken:
        for name in whole.namelist():
            broken.writestr(name, whole.read(name).replace(b"False", b"Falsy"))
    with pytest.raises(TraceError, match=r"cannot be unpacked \(malformed node or string on line 1: ast\.Name\)"):
        replay(tmp_path)


def test_every_public_function_has_a_right_call_and_goes_through_a_door():
    called = {name for name in smemsim.__all__ if callable(getattr(smemsim, name))}
    called -= {name for name in called if inspect.isclass(getattr(smemsim, name)) and issubclass(getattr(smemsim, name), Exception)}
    good = good_calls()
    assert called - RESULTS - {"sweep"} == good.keys()  # a sweep runs as long as it is told to: test_campaign
    for name, arguments in good.items():
        getattr(smemsim, name)(**arguments)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("dot_product", {"a": [[1, 2], [3]]}),
        ("dot_product", {"b": [[1, 2], [3]]}),
        ("dot_product", {"c": [[1, 2], [3]]}),
        ("dot_product", {"scale_a": [[1, 2], [3]]}),
        ("tile_svg", {"tile": "nan"}),
        ("tile_svg", {"tile": TM}),
        ("tile_svg", {"most": 1e308}),
        ("tile_svg", {"most": np.array(["K"])}),
        ("tile_svg", {"selected": "k"}),
        ("tile_svg", {"selected": (0, 7)}),
        ("tile_svg", {"selected": {"": 0}}),
        ("tile_svg", {"selected": np.zeros((0, 4))}),
        ("CuteLayout", {"shape": np.zeros((64, 64))}),
        ("CuteLayout", {"stride": (10**5000, 1.5)}),
    ],
)
def test_arguments_that_gave_tracebacks_are_explained(name, arguments):
    with pytest.raises(SmemsimError) as raised:
        getattr(smemsim, name)(**good_calls()[name] | arguments)
    assert not bad_sentence(raised.value)
