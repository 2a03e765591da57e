"""A scenario put together in Python is the file that it writes, and the file is the scenario."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smemsim import InputError, InstrDescriptor, Scenario, SmemDescriptor, TensorMap, check
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
    with pytest.raises(InputError, match=r".{20}"):
        wrong()
