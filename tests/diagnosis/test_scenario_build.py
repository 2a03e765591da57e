"""A scenario put together in Python is the file that it writes, and the file is the scenario."""

import json
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import TESTS
from smemsim import InputError, InstrDescriptor, Scenario, SmemDescriptor, TensorMap, check
from smemsim.core.finding import Path
from smemsim.diagnosis import read_scenario
from strategies import examples

DESC = SmemDescriptor(arch="sm_90a", leading_byte_offset=16, stride_byte_offset=1024, swizzle="128B")


def built(**mma):
    tm = TensorMap.tiled(
        data_type="bf16", global_address=1 << 40, global_dim=(128, 256), global_strides=(256,), box_dim=(64, 64), swizzle="128B"
    )
    a = {
        "dtype": "bf16",
        "major": "K",
        "word": DESC,
        "start": "sA",
        "k_add": (0, 32, 64, 96),
        "meant": {"tensor": "A", "axes": ("m", "k"), "at": (64, 0)},
    }
    return (
        Scenario("sm_90a", title="built, with \"quotes\" and a \\")
        .tensor("A", "bf16", m=256, k=128, address=1 << 40)
        .buffer("sA", address=0x400, bytes=8192)
        .map("tmA", tm, of="A")
        .step("tma_load", map="tmA", to="sA", at=(0, 64), expect_bytes=8192)
        .step("mma", kind="wgmma", m=64, n=64, k=16, a=a | mma)
    )  # fmt: skip


def test_the_object_the_dict_and_both_files_are_one_scenario(tmp_path):
    scenario = built()
    assert check(scenario).findings == ()
    (tmp_path / "a.toml").write_text(scenario.toml())
    (tmp_path / "a.json").write_text(scenario.json())
    assert tomllib.loads(scenario.toml()) == json.loads(scenario.json()) == scenario.as_dict()
    wrong = built(word=SmemDescriptor(arch="sm_90a", leading_byte_offset=16, stride_byte_offset=512, swizzle="128B"))
    (tmp_path / "b.toml").write_text(wrong.toml())
    assert check(wrong).findings == check(wrong.as_dict()).findings == check(tmp_path / "b.toml").findings
    assert check(wrong).findings[0].code == "D308"
    assert "word = 0x4000002000010000" in wrong.toml()


def test_a_map_of_a_tensor_needs_its_box_only():
    short = built()
    short.map("tmA", of="A", box_dim=(64, 64), swizzle="128B")
    assert short.as_dict()["map"]["tmA"]["global_strides"] == [256]
    assert check(short).findings == ()


@examples(60)
@given(st.lists(st.integers(1, 64), min_size=1, max_size=4), st.sampled_from(["f32", "bf16", "e4m3"]))
def test_a_dense_tensor_has_its_last_axis_contiguous_and_no_gaps(extent, dtype):
    axes = dict(zip("abcd", extent, strict=False))
    table = Scenario("sm_90a").tensor("X", dtype, **axes).as_dict()["tensor"]["X"]
    strides = [table["stride"][axis] for axis in axes]
    size = {"f32": 4, "bf16": 2, "e4m3": 1}[dtype]
    assert strides[-1] == size
    assert all(outer == inner * n for outer, inner, n in zip(strides, strides[1:], extent[1:], strict=False))


def test_descriptors_are_words():
    idesc = InstrDescriptor(kind="f16", m=128, n=128, a_type="bf16", b_type="bf16", d_type="f32")
    raw = Scenario("sm_100a").step("mma", kind="f16", m=128, n=128, k=16, idesc=idesc).as_dict()
    assert raw["step"][0]["idesc"] == idesc.encode()


@pytest.mark.parametrize("wrong", [
    lambda: Scenario("sm_90a").tensor("A", "bf17", m=1), lambda: Scenario("sm_90a").tensor("A", "bf16"),
    lambda: check(Scenario("sm_80")), lambda: Scenario("sm_90a").step("nothing").as_dict(), lambda: Scenario("sm_90a").buffer("a b"),
    lambda: Scenario("sm_90a").buffer("s", adress=1).toml(), lambda: check(Scenario("sm_90a").map("t", box_dim=(1,))),
])  # fmt: skip
def test_what_does_not_fit_is_a_sentence(wrong):
    """What cannot be put together, or is no scenario then."""
    with pytest.raises(InputError, match=r".{20}"):
        wrong()


def test_rows_of_half_bytes_need_strides_and_codes_that_are_expected_stand_in_the_file():
    with pytest.raises(InputError, match=r"^tensor A: 12 bits a row are no whole bytes; give strides in bytes$"):
        Scenario("sm_100a").tensor("A", "e2m1", m=8, k=3)
    assert Scenario("sm_100a").tensor("A", "e2m1", m=8, k=4).tables["tensor"]["A"]["stride"] == {"m": 2, "k": 1}
    assert Scenario("sm_100a").tensor("A", "e2m1", k=3).tables["tensor"]["A"]["stride"] == {"k": 1}
    made = built().expect("D308", "X001")
    assert made.as_dict()["expect"] == {"findings": ["D308", "X001"]}
    assert tomllib.loads(made.toml())["expect"] == made.as_dict()["expect"]
    assert "expect" not in tomllib.loads(built().toml())
    back = built(start_offset=-16, k_add=(0, -32, 64, 96))
    assert tomllib.loads(back.toml()) == back.as_dict()
    assert "start_offset = -16" in back.toml()
    below = Scenario("sm_90a").buffer("s", address=-16, bytes=64)
    assert tomllib.loads(below.toml())["buffer"]["s"]["address"] == -16
    assert f"word = {DESC.encode():#x}" in back.toml()
    assert built(k_add=np.array([0, 32])).as_dict() == built(k_add=[0, 32]).as_dict()


# ---- What cannot be read is a sentence, wherever it stands


IM2COL = {"pixel_box_lower_corner": [0, 0], "pixel_box_upper_corner": [0, 0], "channels_per_pixel": 8, "pixels_per_column": 8}


@pytest.mark.parametrize(("change", "says"), [
    ({"channels_per_pixel": 8}, r"map\.t\.channels_per_pixel: only an im2col map has, with pixel_box_lower_corner"),
    ({"pixel_box_lower_corner": [0, 0]}, r"map\.t: pixel_box_upper_corner and channels_per_pixel and pixels_per_column missing"),
    (IM2COL, r"map\.t\.box_dim: only a tiled map has"),
])  # fmt: skip
def test_a_map_has_the_arguments_of_one_call(change, says):
    table = {"data_type": "bf16", "global_address": 0, "global_dim": [64, 64], "global_strides": [128], "box_dim": [64, 64]}
    with pytest.raises(InputError, match=says):
        check({"arch": "sm_90a", "map": {"t": table | change}})


def test_a_structure_without_end_and_keys_that_are_no_texts_are_sentences():
    endless: dict = {"arch": "sm_90a"}
    endless["tensor"] = endless
    with pytest.raises(InputError, match="nested too deeply"):
        check(endless)
    with pytest.raises(InputError, match="needs texts as keys"):
        check({"arch": "sm_90a", 1: 2})
    with pytest.raises(InputError, match="needs numbers, texts, lists and tables"):
        check({"arch": "sm_90a", "title": object()})
    with pytest.raises(InputError, match="'0x_'"):
        check({"arch": "sm_90a", "buffer": {"s": {"address": "0x_"}}})


# What is found only while the steps run has the line of its key too.
LATE = {
    "a swizzle": ('{ mn = [[64, 128]], k = [[128, 1]], swizzle = "12B" }', 3, r"buffer\.s\.layout\.swizzle = '12B': needs one of"),
    "a CuTe text": ('"Sw<3,4,3> o (64,64)"', 3, r"buffer\.s\.layout: "),
    "a kind": (None, 5, r"step\[0\]: kind = 'f17': needs wgmma"),
}


@pytest.mark.parametrize("what", LATE)
def test_what_the_judge_refuses_is_told_with_file_and_line(what, tmp_path):
    layout, line, says = LATE[what]
    file = tmp_path / "a.toml"
    keys = "layout" if layout else "bytes"
    mma = '[[step]]\nop = "mma"\nkind = "f17"\nm = 64\nn = 64\nk = 16\n'
    file.write_text(f'arch = "sm_90a"\n[buffer.s]\n{keys} = {layout or 64}\n\n{mma if layout is None else ""}')
    with pytest.raises(InputError, match=rf"a\.toml:{line}: {says}"):
        check(file)


# ---- A scenario is a value: a change makes another one


def test_a_change_is_another_scenario_and_shares_the_rest():
    scenario = read_scenario(built().as_dict())
    changed = scenario.with_change(Path.of("step", 1, "a", "word"), "0x4000002000010000")
    assert check(changed).findings[0].code == "D308"
    assert check(scenario).findings == ()
    assert changed.tensors is scenario.tensors
    assert changed.steps[0] is scenario.steps[0]
    assert changed.value_at(Path.of("step", 1, "a", "word")) == 0x4000002000010000
    assert scenario.value_at(Path.of("step", 1, "a", "k_add")) == [0, 32, 64, 96]
    assert scenario.value_at(Path.of("step", 1, "b", "word")) is None


@pytest.mark.parametrize(("path", "value"), [
    ("step[1].a.word", "many"), ("step[1].a.wort", 1), ("step[7].at", [0, 0]), ("buffer.sB.address", 1024), ("map.tmA.box_dim", [])
])  # fmt: skip
def test_a_change_to_what_cannot_stand_there_is_a_sentence(path, value):
    with pytest.raises(InputError, match=r".{15}"):
        read_scenario(built().as_dict()).with_change(Path.parse(path), value)


@pytest.mark.parametrize("file", sorted((TESTS / "scenarios").glob("*/*.toml")), ids=lambda file: file.stem)
def test_what_is_read_is_what_is_written(file):
    scenario = read_scenario(file)
    assert read_scenario(tomllib.loads(file.read_text())) == scenario
    assert read_scenario(scenario.as_dict()) == scenario
    assert hash(scenario.steps) == hash(read_scenario(file).steps)
