"""The rules of the encode calls as rows: graded honestly, each one breakable, and complete where a call breaks several."""

import copy
import dataclasses
import itertools
import json
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import ROOT
from smemsim import InputError, SmemsimError, TensorMap, TensorMapError, Unmodelled
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.findings import CODES
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.tensor_map import DATA_TYPES, SWIZZLE_BITS, TENSOR_MAP, TensorMapSwizzle
from smemsim.core.words.tensor_map.rules import TENSOR_MAP_RULES
from strategies import examples

GOLDEN = ROOT / "golden" / "sm_90a"
TILED = {
    "data_type": "bf16", "global_address": 0x10000, "global_dim": (64, 32, 4), "global_strides": (128, 4096), "box_dim": (64, 8, 2),
    "element_strides": (1, 1, 1), "interleave": "none", "swizzle": "128B", "l2_promotion": "none", "oob_fill": "zeros",
}  # fmt: skip
SHARED = {name: value for name, value in TILED.items() if name != "box_dim"}
IM2COL = SHARED | {"pixel_box_lower_corner": (0,), "pixel_box_upper_corner": (0,), "channels_per_pixel": 64, "pixels_per_column": 32}
WIDE = SHARED | {
    "pixel_box_lower_corner_width": 0, "pixel_box_upper_corner_width": 0, "channels_per_pixel": 64, "pixels_per_column": 32, "mode": "W",
}  # fmt: skip
U6 = {"data_type": "16U6_ALIGN16B", "global_dim": (128, 32, 4), "global_strides": (96, 3072), "box_dim": (128, 8, 2)}
U4 = U6 | {"data_type": "16U4_ALIGN16B", "global_strides": (64, 2048)}

# One call a rule that breaks it alone: (constructor, changed arguments).
BROKEN = {
    "enum_code": (TensorMap.tiled, TILED | {"l2_promotion": 4}),
    "rank": (TensorMap.tiled, TILED | {"global_strides": (128,)}),
    "global_address": (TensorMap.tiled, TILED | {"global_address": 0x10008}),
    "address_range": (TensorMap.tiled, TILED | {"global_address": 1 << 57}),
    "global_dim": (TensorMap.tiled, TILED | {"global_dim": (64, 0, 4)}),
    "global_strides": (TensorMap.tiled, TILED | {"global_strides": (128, 1 << 40)}),
    "box_dim": (TensorMap.tiled, TILED | {"box_dim": (64, 0, 2)}),
    "element_strides": (TensorMap.tiled, TILED | {"element_strides": (1, 9, 1)}),
    "inner_alignment": (TensorMap.tiled, TILED | {"box_dim": (12, 8, 2)}),
    "interleaved_inner_alignment": (TensorMap.tiled, TILED | {"box_dim": (12, 8, 2), "interleave": "16B"}),
    "inner_width": (TensorMap.tiled, TILED | {"swizzle": "64B"}),
    "fill": (TensorMap.tiled, TILED | {"data_type": "u16", "oob_fill": "nan"}),
    "total_bytes": (TensorMap.tiled, TILED | {"box_dim": (64, 256, 8)}),
    "sub_byte_extents": (TensorMap.tiled, TILED | U6 | {"global_dim": (192, 32, 4)}),
    "padded_types": (TensorMap.tiled, TILED | U6 | {"swizzle": "64B"}),
    "sub_byte_types": (TensorMap.tiled, TILED | U6 | {"arch": "sm_90a"}),
    "swizzle_atoms": (TensorMap.tiled, TILED | {"swizzle": "128B_ATOM_32B", "arch": "sm_90a"}),
    "swizzle_96b": (TensorMap.tiled, TILED | {"swizzle": "96B", "box_dim": (48, 8, 2)}),
    "im2col_rank": (TensorMap.im2col, IM2COL | {"global_strides": (128,)}),
    "corner_entries": (TensorMap.im2col, IM2COL | {"pixel_box_lower_corner": (0, 0)}),
    "column": (TensorMap.im2col, IM2COL | {"pixels_per_column": 1025}),
    "corners": (TensorMap.im2col, IM2COL | {"pixel_box_lower_corner": (-32769,)}),
    "bounding_box": (TensorMap.im2col, IM2COL | {"pixel_box_upper_corner": (-32,)}),
    "wide_swizzle": (TensorMap.im2col_wide, WIDE | {"swizzle": "none", "arch": "sm_100a"}),
    "wide_corners": (TensorMap.im2col_wide, WIDE | {"pixel_box_upper_corner_width": -32}),
}


def test_the_undisturbed_calls_are_legal():
    tiled = [TensorMap.tiled(**TILED | more) for more in ({}, U6, U4)]
    assert [TensorMap.from_bytes(bytes(found)) == found for found in (*tiled, TensorMap.im2col(**IM2COL))] == [True] * 4
    assert TensorMap.im2col_wide(**WIDE).mode is not None


@pytest.mark.parametrize("n", range(7))
@pytest.mark.parametrize("call", ["tiled", "im2col"])
def test_every_array_has_as_many_entries_as_the_rank_asks(call, n):
    least, what, own = (1, "", {"box_dim": n}) if call == "tiled" else (3, "im2col ", dict.fromkeys(("lower", "upper"), max(n - 2, 0)))
    wants = {"global_strides": max(n - 1, 0), "element_strides": n} | {
        name if call == "tiled" else f"pixel_box_{name}_corner": count for name, count in own.items()
    }
    base = TILED if call == "tiled" else IM2COL
    filled = {"global_strides": 128, "element_strides": 1, "box_dim": 8}
    for wrong in (None, *wants):
        counts = {name: count + (name == wrong) for name, count in wants.items()}
        arrays = {name: (filled.get(name, 0),) * count for name, count in counts.items()}
        said = [f"rank = {n} (entries of global_dim): {what}needs {least} to 5"] if not least <= n <= 5 else []
        said += [f"{name} has {count} entries: needs {wants[name]} for rank {n}" for name, count in counts.items() if name == wrong]
        try:
            getattr(TensorMap, call)(**base | {"swizzle": "none", "global_dim": (64,) * n} | arrays)
            found = []
        except TensorMapError as refused:
            found = [one for one in refused.violations if "rank" in one]
        assert found == said, wrong


def test_every_rule_has_a_call_that_breaks_it():
    """All but one, which is about maps that no encode call makes: it is broken below by a map that an instruction
    changed.
    """
    assert TENSOR_MAP_RULES.keys() - BROKEN.keys() == {"swizzle_96b_use"}
    assert BROKEN.keys() <= TENSOR_MAP_RULES.keys()


@pytest.mark.parametrize("name", BROKEN)
def test_every_rule_can_be_broken_alone(name):
    make, arguments = BROKEN[name]
    with pytest.raises(TensorMapError) as refused:
        make(**arguments)
    assert [f.rule for f in refused.value.findings] == [name]
    assert refused.value.findings[0].code == TENSOR_MAP_RULES[name].code


@pytest.mark.parametrize("name", TENSOR_MAP_RULES)
def test_a_rule_is_graded_for_known_architectures_and_says_where_it_is_written(name):
    row = TENSOR_MAP_RULES[name]
    assert row.grades.keys() <= ARCHITECTURES.keys()
    # nothing of Blackwell is measured
    assert {row.grades["sm_100a"], row.grades["sm_103a"]} <= {Grade.DOCUMENTED, Grade.INFERRED}
    assert row.code in CODES
    assert str(row).startswith(f"{name}: {row.text} (")
    if row.grades.get("sm_90a") is Grade.MEASURED:
        traces = [word for word in ("encode_tiled", "encode_im2col") if word in row.source]
        assert traces
        assert all(json.loads((GOLDEN / t / "manifest.json").read_text())["arch"] == "sm_90a" for t in traces)
    else:
        assert "trace" not in row.source
    if "in no document" in row.source:
        assert row.grades["sm_100a"] is Grade.INFERRED


@pytest.mark.parametrize(
    ("first", "second"),
    list(itertools.combinations(["global_address", "global_dim", "box_dim", "element_strides", "fill", "enum_code"], 2)),
)
def test_of_two_broken_rules_both_are_listed(first, second):
    changes = [{n: v for n, v in BROKEN[name][1].items() if TILED.get(n) != v} for name in (first, second)]
    with pytest.raises(TensorMapError) as refused:
        TensorMap.tiled(**TILED | changes[0] | changes[1])
    assert {f.rule for f in refused.value.findings} == {first, second}


# ---- what Blackwell has and Hopper has not -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"])
@pytest.mark.parametrize("kind", [U4, U6], ids=["U4", "U6"])
def test_types_with_gaps_take_the_swizzles_that_the_header_lists(kind, swizzle):
    listed = {"none", "128B", "128B_ATOM_32B"} | ({"128B_ATOM_64B"} if kind is U6 else set())
    arguments = TILED | kind | {"swizzle": swizzle, "arch": "sm_100a"}
    if swizzle in listed:
        assert TensorMap.tiled(**arguments).broken_on("sm_103a") == ()
    else:
        with pytest.raises(TensorMapError, match=f"swizzle = SWIZZLE_{swizzle.upper()}: needs SWIZZLE_NONE, SWIZZLE_128B"):
            TensorMap.tiled(**arguments)


def test_packed_four_bit_elements_take_any_swizzle_and_pairs_of_elements():
    packed = TILED | {"data_type": "16U4_ALIGN8B", "global_dim": (66, 32, 4), "global_strides": (48, 1536), "box_dim": (64, 8, 2)}
    for swizzle in ("none", "32B", "64B", "128B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"):
        TensorMap.tiled(**packed | {"swizzle": swizzle, "arch": "sm_100a"})
    with pytest.raises(TensorMapError, match=r"global_dim\[0\] = 65: needs a multiple of 2 for U4_ALIGN8B"):
        TensorMap.tiled(**packed | {"global_dim": (65, 32, 4)})
    with pytest.raises(TensorMapError, match="box_dim\\[0\\] = 16 x 4 bit = 8 B: needs a multiple of 16 B"):
        TensorMap.tiled(**packed | {"box_dim": (16, 8, 2)})


@pytest.mark.parametrize(
    "change", [{"global_address": 0x10010}, {"global_strides": (112, 3072)}, {"box_dim": (64, 8, 2)}, {"interleave": "16B"}]
)
def test_six_bit_elements_need_32_byte_alignment_a_box_of_128_and_no_interleave(change):
    with pytest.raises(TensorMapError):
        TensorMap.tiled(**TILED | U6 | change | {"arch": "sm_103a"})


def replaced(tm, **fields):
    """A map whose fields an instruction has changed, as tensormap.replace does."""
    word = TENSOR_MAP.decode(int.from_bytes(bytes(tm), "little")) | fields
    return TensorMap.from_bytes(TENSOR_MAP.encode(**word).to_bytes(128, "little"))


def test_sm_103a_stores_of_six_bit_elements_need_less():
    """Half the inner box, 16-byte alignment, 64B swizzle: no encode call makes them, an instruction can."""
    tm = replaced(TensorMap.tiled(**TILED | U6), box0=64, dim0=64, swizzle_low=2, global_address=0x10010)
    assert tm.broken_on("sm_103a") == ()
    assert tm.broken_on(None) == ()
    assert {f.rule for f in tm.violations("sm_100a")} == {"global_address", "sub_byte_extents", "padded_types"}
    assert any("not loaded" in f.message for f in tm.problems("sm_103a"))


def test_the_96b_swizzle_comes_from_an_instruction_only_and_lives_on_sm_103a():
    plain = TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(96, 16), global_strides=(96,), box_dim=(96, 8))
    tm = replaced(plain, swizzle_high=1)
    assert tm.swizzle is TensorMapSwizzle.SWIZZLE_96B
    assert (tm.swizzle_mode.width, tm.swizzle_mode.mask, tm.swizzle_mode.shift, tm.swizzle_mode.period) == (96, 1, 4, 256)
    assert bytes(TensorMap.from_bytes(bytes(tm))) == bytes(tm)
    assert tm.broken_on("sm_103a") == tm.broken_on(None) == ()
    for arch in ("sm_90a", "sm_100a"):
        assert tm.broken_on(arch) == ("swizzle = SWIZZLE_96B: needs sm_103a",)
        assert [f.rule for f in tm.violations(arch)] == ["swizzle_96b_use"]
    assert "needs at most 96 B" in replaced(tm, box0=112).broken_on("sm_103a")[0]
    interleaved = replaced(TensorMap.tiled(**TILED | {"interleave": "16B", "swizzle": "none"}), swizzle_high=1)
    assert "needs INTERLEAVE_NONE with SWIZZLE_96B" in interleaved.broken_on("sm_103a")[0]
    assert "atomicity" in replaced(tm, atomicity=2).unknown_fields  # 96B has 16-byte atoms only
    assert eval(repr(tm), {"TensorMap": TensorMap}) == tm
    assert int(TensorMapSwizzle.SWIZZLE_96B) not in range(7)


@pytest.mark.parametrize("low", range(4))
@pytest.mark.parametrize("atomicity", range(4))
@pytest.mark.parametrize("high", range(2))
def test_every_combination_of_swizzle_bits_is_a_mode_or_has_unknown_bits(low, atomicity, high):
    tm = replaced(TensorMap.tiled(**TILED), swizzle_low=low, atomicity=atomicity, swizzle_high=high)
    foreign = {"swizzle_low", "atomicity", "swizzle_high"} & set(tm.unknown_fields)
    assert bool(foreign) == ((low, atomicity, high) not in SWIZZLE_BITS.values())
    assert "swizzle_low" not in foreign


def test_a_tf32_bit_that_an_instruction_left_behind_is_an_unknown_bit():
    tm = replaced(TensorMap.tiled(**TILED), to_tf32=1)
    assert tm.data_type.name == "BFLOAT16"
    assert tm.unknown_fields == ("to_tf32",)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"rank": 6}, "rank 6 where maps have 1 to 5"), ({"rank": 8}, "rank 8"), ({"im2col": 1, "rank": 2}, "im2col rank 2 where"),
        ({"format": 14}, "format code 14 where"), ({"interleave": 3}, "interleave 3 where"),
    ],
)  # fmt: skip
def test_bytes_that_hold_no_map_say_why(fields, sentence):
    with pytest.raises(TensorMapError, match=f"hold no tensor map: {sentence}"):
        replaced(TensorMap.tiled(**TILED), **fields)


# ---- im2col::w -----------------------------------------------------------------------------------------------------------------------


def test_wide_maps_of_blackwell_have_their_arguments_and_no_published_bytes():
    tm = TensorMap.im2col_wide(**WIDE | {"mode": "W128", "pixels_per_column": 0})
    assert (tm.is_im2col, tm.is_im2col_wide, tm.wide_mode, tm.call) == (True, True, "W128", "im2col_wide")
    assert tm == eval(repr(tm), {"TensorMap": TensorMap})
    assert {tm: 1}[tm] == 1
    assert tm.broken_on("sm_100a") == ()
    # Hopper's driver does not look at the mode
    assert tm.broken_on("sm_90a") == ("pixels_per_column = 0: needs 1 to 1024",)
    for arch in (None, "sm_100a", "sm_103a"):
        with pytest.raises(Unmodelled, match=r"are not published; .* arch='sm_90a'"):
            bytes(TensorMap.im2col_wide(**WIDE | {"arch": arch}))
    tiled = TensorMap.tiled(**TILED)
    assert (tiled.is_im2col, tiled.is_im2col_wide, tiled.wide_mode) == (False, False, "")


@pytest.mark.parametrize("mode", ["W", "W128", 0, 1, "CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128"])
def test_w128_ignores_the_pixels_and_w_does_not(mode):
    arguments = WIDE | {"mode": mode, "pixels_per_column": 2000}
    if mode in ("W", 0):
        with pytest.raises(TensorMapError, match="pixels_per_column = 2000: needs 1 to 1024"):
            TensorMap.im2col_wide(**arguments)
    else:
        assert TensorMap.im2col_wide(**arguments).wide_mode == "W128"


@pytest.mark.parametrize("swizzle", list(TensorMapSwizzle))
def test_wide_maps_take_three_swizzles(swizzle):
    arguments = WIDE | {"swizzle": swizzle, "channels_per_pixel": 16, "arch": "sm_103a"}
    if swizzle.name in ("SWIZZLE_64B", "SWIZZLE_128B", "SWIZZLE_128B_ATOM_32B"):
        TensorMap.im2col_wide(**arguments)
    else:
        with pytest.raises(TensorMapError):
            TensorMap.im2col_wide(**arguments)


@pytest.mark.parametrize("data_type", [row.code for row in DATA_TYPES.values()])
def test_wide_corners_have_16_bits_whatever_the_rank(data_type):
    row = DATA_TYPES[data_type]
    n = 128 if row.bits < 8 else 128 // row.bits
    for rank in (3, 4, 5):
        made = TensorMap.im2col_wide(
            data_type=data_type, global_address=0x10000, global_dim=(128,) + (1 << 16,) * (rank - 1), global_strides=(1024,) * (rank - 1),
            pixel_box_lower_corner_width=-32768, pixel_box_upper_corner_width=32767, channels_per_pixel=n, pixels_per_column=1,
        )  # fmt: skip
        assert (made.pixel_box_lower_corner_width, made.pixel_box_upper_corner_width) == (-32768, 32767)


@examples(150)
@given(data=st.data())
def test_hoppers_driver_takes_a_wide_map_for_an_im2col_map_without_corners_along_h_and_d(data):
    """The verdict and the 128 bytes of cuTensorMapEncodeIm2col; the mode changes neither (trace encode_im2col_wide)."""
    rank = data.draw(st.integers(3, 5))
    corner = st.one_of(st.sampled_from([-32769, -32768, -129, -128, -17, -16, 15, 16, 127, 128, 32767, 32768]), st.integers(-40, 40))
    lower, upper, mode = data.draw(corner), data.draw(corner), data.draw(st.sampled_from(["W", "W128"]))
    same = {
        "data_type": "bf16", "global_address": 0x10000, "global_dim": (64, *data.draw(st.tuples(*[st.integers(1, 300)] * (rank - 1)))),
        "global_strides": (128,) * (rank - 1), "channels_per_pixel": data.draw(st.sampled_from([8, 64, 72])),
        "pixels_per_column": data.draw(st.sampled_from([1, 128, 1024, 1025])), "interleave": data.draw(st.integers(0, 2)),
        "swizzle": data.draw(st.integers(0, 6)), "arch": "sm_90a",
    }  # fmt: skip
    zeros = (0,) * (rank - 3)

    def judged(call, **more):
        try:
            return call(**same, **more), None
        except TensorMapError as e:
            return None, {f.rule for f in e.findings}

    plain, why = judged(TensorMap.im2col, pixel_box_lower_corner=(lower, *zeros), pixel_box_upper_corner=(upper, *zeros))
    wide, wide_why = judged(TensorMap.im2col_wide, pixel_box_lower_corner_width=lower, pixel_box_upper_corner_width=upper, mode=mode)
    assert wide_why == why
    if wide is not None:
        assert bytes(wide) == bytes(plain)
        assert TensorMap.from_bytes(bytes(wide)) == plain
        assert wide.unknown_fields == ()
        assert bytes(eval(repr(wide), {"TensorMap": TensorMap})) == bytes(plain)


def test_a_wide_map_is_legal_where_one_architecture_takes_it():
    for hopper_only in ({"swizzle": "32B", "channels_per_pixel": 16}, {"interleave": "16B"}):
        assert TensorMap.im2col_wide(**WIDE | hopper_only).broken_on("sm_100a")
    for blackwell_only in ({"swizzle": "128B_ATOM_32B"}, {"mode": "W128", "pixels_per_column": 0}):
        assert TensorMap.im2col_wide(**WIDE | blackwell_only).broken_on("sm_90a")
    # each breaks the rules of one: both are broken
    with pytest.raises(TensorMapError, match="needs SWIZZLE_64B, SWIZZLE_128B"):
        TensorMap.im2col_wide(**WIDE | {"swizzle": "none", "mode": "W128", "pixels_per_column": 0})


def test_a_wide_map_on_hopper_is_told_to_be_a_plain_one():
    found = TensorMap.im2col_wide(**WIDE, arch="sm_90a").problems("sm_90a")
    assert [(f.where, str(f.severity)) for f in found] == [("mode", "luck")]
    assert TensorMap.im2col_wide(**WIDE).problems("sm_100a") == []


# ---- null pointers -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("null", ["global_dim", "global_strides", "box_dim", "element_strides"])
def test_a_null_pointer_is_refused_whatever_the_rank(null):
    arguments = {"global_dim": "{64}", "global_strides": "{}", "box_dim": "{64}", "element_strides": "{1}"} | {null: "nullptr"}
    lists = ", ".join(arguments[name] for name in ("global_dim", "global_strides", "box_dim", "element_strides"))
    with pytest.raises(TensorMapError, match=f"^{null} is a null pointer") as refused:
        TensorMap.parse(f"cuTensorMapEncodeTiled(&tm, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 1, (void*)0x10000, {lists}, 0, 3, 0, 0);")
    assert [f.rule for f in refused.value.findings] == ["null_pointer"]


def encode_pointers():
    from smemsim.evidence import load_suite

    return load_suite(GOLDEN / "encode_pointers")


def test_the_driver_writes_a_map_to_any_address_and_refuses_null_arrays():
    from smemsim.evidence import replay_suite

    suite = encode_pointers()
    assert {int(at) % 16 for at in suite.arrays["alignment"]} > {1, 2, 4, 8}
    report = replay_suite(suite)
    assert (report.same, report.compared) == (True, 51)


@pytest.mark.parametrize(
    ("case", "result", "says"), [(0, 1, "the driver refuses | model accepts"), (40, 0, "the driver accepts | model refuses: ")]
)
def test_another_verdict_on_a_pointer_is_a_difference(case, result, says):
    from smemsim.evidence import replay_suite

    suite = encode_pointers()
    arrays = suite.arrays | {"result": suite.arrays["result"].copy()}
    arrays["result"][case] = result
    report = replay_suite(dataclasses.replace(suite, arrays=arrays))
    assert [d.case for d in report.differences] == [case]
    assert says in report.differences[0].outcome.first


# ---- wrong input ---------------------------------------------------------------------------------------------------------------------

ANYTHING = st.one_of(
    st.sampled_from([None, True, 1.5, float("nan"), float("inf"), -1, 0, 1 << 40, 1 << 64, 1 << 5000, -(1 << 5000), "", "W", "64", b"64", {}, object(), np.int64(8),
                     np.float32(8), np.array(3), np.array([1, 2]), [[1]], range(3), "sm_90"]),
    st.integers(-9, 300),
    st.lists(st.one_of(st.integers(-9, 300), st.sampled_from([None, 1.5, "1", True, 1 << 5000])), max_size=7),
)  # fmt: skip
CALLS = {"tiled": (TensorMap.tiled, TILED), "im2col": (TensorMap.im2col, IM2COL), "im2col_wide": (TensorMap.im2col_wide, WIDE)}


@pytest.mark.parametrize("call", CALLS)
@examples(200)
@given(data=st.data())
def test_any_argument_is_taken_or_explained_in_a_sentence(call, data):
    make, good = CALLS[call]
    names = data.draw(st.lists(st.sampled_from([*good, "arch"]), min_size=1, max_size=2, unique=True))
    try:
        tm = make(**good | {name: data.draw(ANYTHING) for name in names})
    except SmemsimError as e:
        text = str(e)
    else:
        text = "; ".join(f.message for f in tm.problems()) + repr(tm)
    assert "\n" not in text
    assert "Traceback" not in text


@examples(200)
@given(st.binary(min_size=128, max_size=128))
def test_any_128_bytes_are_a_map_that_can_be_judged_or_none(raw):
    try:
        tm = TensorMap.from_bytes(raw)
    except TensorMapError:
        with pytest.raises(TensorMapError, match="hold no tensor map: "):
            TensorMap.from_bytes(raw)
        return
    assert bytes(tm) == raw
    assert TensorMap.from_bytes(bytes(tm)) == tm
    for arch in (None, *ARCHITECTURES):
        assert all(isinstance(v, str) for v in tm.broken_on(arch))
        assert all(f.code in CODES for f in tm.problems(arch))


@pytest.mark.parametrize("raw", [np.zeros(16, object), np.zeros(127, np.uint8), 5, None, [0] * 128])
def test_what_holds_no_128_bytes_is_said(raw):
    with pytest.raises(InputError, match="a tensor map is 128 bytes"):
        TensorMap.from_bytes(raw)


@pytest.mark.parametrize(
    "change", [{"box_dim": (64,)}, {"box_dim": (64.0, 8, 2)}, {"data_type": 9}, {"global_strides": ()}, {"global_dim": "ab"}]
)
def test_a_map_changed_into_no_map_is_refused(change):
    with pytest.raises(InputError):
        dataclasses.replace(TensorMap.tiled(**TILED), **change)


def test_maps_can_be_copied_pickled_and_replaced():
    tm = TensorMap.tiled(**TILED)
    foreign = replaced(tm, _r17=3)
    for m in (tm, foreign, TensorMap.im2col(**IM2COL), TensorMap.im2col_wide(**WIDE)):
        for again in (copy.deepcopy(m), pickle.loads(pickle.dumps(m)), dataclasses.replace(m)):
            assert again == m
            assert hash(again) == hash(m)
    assert foreign != tm


FORMAT = 14  # the first one of no type
REASONS = {"rank": r"(?<!im2col )rank (\d) where maps have 1 to 5", "im2col": r"im2col rank (\d) where im2col maps have 3 to 5",
           "format": r"format code (\d+) where element types have 0 to 13", "interleave": r"interleave 3 where it is 0 to 2"}  # fmt: skip


@pytest.mark.parametrize("im2col", [0, 1])
@pytest.mark.parametrize("rank", range(1, 9))
@pytest.mark.parametrize(("form", "interleave"), [(0, 0), (10, 1), (FORMAT, 0), (0, 3), (FORMAT, 3)])
def test_bytes_that_are_no_map_say_each_reason_and_no_other(im2col, rank, form, interleave):
    raw = TENSOR_MAP.encode(im2col=im2col, rank=rank, format=form, interleave=interleave).to_bytes(128, "little")
    wanted = {"rank": rank > 5, "im2col": im2col and rank < 3, "format": form == FORMAT, "interleave": interleave == 3}
    wanted = {name for name, is_wrong in wanted.items() if is_wrong}
    try:
        TensorMap.from_bytes(raw)
        told = ""
    except TensorMapError as refused:
        told = str(refused)
    found = {name: re.search(pattern, told) for name, pattern in REASONS.items()}
    assert {name for name, m in found.items() if m} == wanted
    assert told.count("hold no tensor map") == len(wanted)
    assert all(int(found[name][1]) == rank for name in wanted & {"rank", "im2col"})
