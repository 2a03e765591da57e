"""Texts that people paste: encode calls in C and Python, and the 128 bytes as debuggers print them, all name the same map."""

import contextlib
import ctypes
import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from smemsim import InputError, SmemsimError, TensorMap, TensorMapError
from smemsim.cli import main
from strategies import examples, tiled_arguments

TM = TensorMap.tiled(
    data_type="bf16", global_address=0x7F0000000000, global_dim=(64, 128), global_strides=(128,), box_dim=(64, 64), swizzle="128B"
)
ENUMS = "CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE"
BF16 = "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16"
CALLS = {
    "C": f"cuTensorMapEncodeTiled(&tm, {BF16}, 2, (void*)0x7f0000000000, {{64, 128}}, {{128}}, {{64, 64}}, {{1, 1}}, {ENUMS});",
    "checked": f"CUDA_CHECK(cuTensorMapEncodeTiled(&maps[0], {BF16}, 2, (void *)0x7f0000000000, {{64, 128}}, {{128}}, {{64, 64}}, {{1, 1}}, {ENUMS}));",
    "codes": "cuTensorMapEncodeTiled(&tm, 9, 2, (void *)(uintptr_t)0x7f0000000000, {64, 128}, {128}, {64, 64}, {1, 1}, 0, 3, 0, 0)",
    "literals": f"""auto r = cuTensorMapEncodeTiled(
        &tm, {BF16}, 2u,                                  // the type and the rank
        reinterpret_cast<void*>(0x7f00'0000'0000ULL), (cuuint64_t[]){{64, 1 << 7}},
        (cuuint64_t[2]){{64*2 /* bytes, a row */, 77}}, (const cuuint32_t[]){{ 0x40, 128 / 2 }}, (cuuint32_t[]){{1, 1, 1, 1, 1}}, {ENUMS});""",
    "C++": f"cuTensorMapEncodeTiled(&tm, CUtensorMapDataType::{BF16}, 2, reinterpret_cast<void *>(0x7f0000000000), std::array<cuuint64_t, 2>{{64, 128}}.data(), "
           f"std::array<cuuint64_t, 1>{{static_cast<cuuint64_t>(128)}}.data(), std::array<uint32_t, 2>{{64, 64}}.data(), std::array<uint32_t, 2>{{1, 1}}.data(), {ENUMS})",
    "cuda.bindings": "err, tm = driver.cuTensorMapEncodeTiled(driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, 0x7f0000000000, "
                     "[driver.cuuint64_t(64), cuuint64_t(128)], [128], [64, 64], [1] * 2, driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE, "
                     "driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B, driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE, "
                     "driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)",
    "keywords": "cuTensorMapEncodeTiled(tensorDataType=9, tensorRank=2, globalAddress=0x7f0000000000, globalDim=[64, 128], globalStrides=[128], boxDim=[64, 64], "
                "elementStrides=[1, 1], interleave=0, swizzle=3, l2Promotion=0, oobFill=0)",
    "ours": "tm = smemsim.TensorMap.tiled(data_type='bf16', global_address=0x7f0000000000, global_dim=(64, 128), global_strides=(64 * 2,),  # a row\n"
            "   box_dim=[64, 64], swizzle=\"128B\",)",
    "repr": repr(TM),
}  # fmt: skip


@pytest.mark.parametrize("form", CALLS)
def test_every_form_of_the_call_is_the_same_map(form):
    assert TensorMap.parse(CALLS[form]) == TM


def test_im2col_calls_are_read_too():
    narrow = TensorMap.parse(
        f"cuTensorMapEncodeIm2col(&tm, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void*)0x10000, {{64, 8, 8, 2}}, {{128, 1024, 8192}}, {{-1, -1}}, {{-1, +0}}, 64, "
        f"32, {{1, 1, 1, 1}}, {ENUMS});"
    )
    assert (narrow.call, narrow.pixel_box_lower_corner, narrow.pixel_box_upper_corner) == ("im2col", (-1, -1), (-1, 0))
    wide = TensorMap.parse(
        "cuTensorMapEncodeIm2colWide(&tm, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void*)0x10000, {64, 8, 8, 2}, {128, 1024, 8192}, -1, 1, 64, 32, {1, 1, 1, 1}, "
        "CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, "
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)"
    )
    assert (wide.call, wide.wide_mode, wide.pixel_box_lower_corner_width, wide.pixel_box_upper_corner_width) == (
        "im2col_wide",
        "W128",
        -1,
        1,
    )
    for tm in (narrow, wide):
        assert TensorMap.parse(repr(tm)) == tm


UNREADABLE = {
    CALLS["C"].replace("{64, 128}", "{M, 128}"): r"global_dim\[0\] = .*M is a name; put its value there",
    CALLS["C"].replace("(void*)0x7f0000000000", "d_a"): "global_address = .*d_a is a name",
    CALLS["C"].replace("2, (void", "(void"): "has 11 arguments|tensorRank|global_address",
    CALLS["C"].replace("{128}", "{64 * sizeof(half)}"): "global_strides",
    CALLS["C"].replace("{128}", "{128 / 3}"): "no whole number",
    CALLS["C"].replace("{128}", "{1 << 4000}"): "no sensible number of bits",
    CALLS["C"].replace("{128}", "{64 % 0}"): "divides by zero",
    CALLS["C"].replace("{64, 128}, ", "{64}, "): "global_dim has 1 entries: tensorRank = 2 reads 2",
    CALLS["C"].replace(", {1, 1}", ""): "has 11 arguments here|cannot be read|needs 11|interleave|element_strides",
    CALLS["C"].split(", {1")[0]: "ends before its closing bracket",
    "TensorMap.tiled('bf16')": "has no name",
    "TensorMap.tiled(data_type='bf16')": "global_address, global_dim, global_strides, box_dim missing",
    "TensorMap.tiled(datatype='bf16')": "has no argument datatype",
    "TensorMap.tiled(data_type=__import__('os').system('true'), global_address=0, global_dim=(), global_strides=(), box_dim=())": r"data_type(\[0\])? = ",
    "TensorMap.tiled(data_type=[*range(9)], global_address=0, global_dim=(), global_strides=(), box_dim=())": r"data_type(\[0\])? = ",
    "0x1234": "neither a call",
    "": "neither a call",
}


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_cannot_be_read_names_the_argument(text):
    with pytest.raises(SmemsimError, match=UNREADABLE[text]):
        TensorMap.parse(text)


@examples(150)
@given(st.data())
def test_damaged_calls_are_read_or_explained(data):
    text = data.draw(st.sampled_from(list(CALLS.values())))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = (
            text[:at]
            + data.draw(
                st.sampled_from(["", "(", ")", "{", "}", ",", "'", '"', "*", "0x", "-", "=", "1e9", "[", "\n", "//", "<", "\0", "None"])
            )
            + text[at + data.draw(st.integers(0, 6)) :]
        )
    with contextlib.suppress(SmemsimError):
        assert isinstance(TensorMap.parse(text), TensorMap)


def words(raw, size):
    return [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]


def pasted(raw):
    """The ways in which debuggers and people print 128 bytes."""
    four, eight = words(raw, 4), words(raw, 8)
    return {
        "hex": raw.hex(),
        "bytes": raw.hex(" "),
        "pairs": raw.hex(" ", 2),
        "0x": "0x" + raw.hex(),
        "0x bytes": ", ".join(f"{b:#x}" for b in raw),
        "C string": '"' + "".join(f"\\x{b:02x}" for b in raw) + '"',
        "32-bit": " ".join(f"{w:#x}" for w in four),
        "32-bit padded": " ".join(f"{w:08x}" for w in four),
        "64-bit": "{" + ", ".join(f"{w:#x}" for w in eight) + "}",
        "64-bit padded": " ".join(f"{w:016x}" for w in eight),
        "gdb x/wx": "\n".join(
            f"0x7ffe{4 * i:04x} <tm+{4 * i}>:\t" + "\t".join(f"0x{w:08x}" for w in four[i : i + 4]) for i in range(0, 32, 4)
        ),
        "gdb x/gx": "\n".join(f"0x7ffe{8 * i:04x}:\t" + "\t".join(f"0x{w:016x}" for w in eight[i : i + 2]) for i in range(0, 16, 2)),
        "gdb print": "$1 = {opaque = {" + ", ".join(map(str, eight)) + "}}",
        "gdb print/x": "$2 = {opaque = {" + ", ".join(map(hex, eight[:10])) + ", 0x0 <repeats 6 times>}}",
        "xxd": "\n".join(f"{i:08x}: {raw[i : i + 16].hex(' ', 2)}  ..{'a' * 14}" for i in range(0, 128, 16)),
        "hexdump -C": "\n".join(
            f"{i:08x}  {raw[i : i + 8].hex(' ')}  {raw[i + 8 : i + 16].hex(' ')}  |{'.' * 16}|" for i in range(0, 128, 16)
        ),
    }


@pytest.mark.parametrize("form", pasted(bytes(TM)))
@examples(15)
@given(drawn=tiled_arguments())
def test_every_form_of_the_bytes_is_the_same_map(form, drawn):
    for tm in (TM, TensorMap.tiled(**drawn[0])):
        if not any(bytes(tm)[80:]):
            assert TensorMap.parse(pasted(bytes(tm))[form]) == tm


def test_objects_that_hold_128_bytes_are_read():
    raw = bytes(TM)
    holders = [bytearray(raw), (ctypes.c_uint64 * 16).from_buffer_copy(raw), (ctypes.c_ubyte * 128).from_buffer_copy(raw)]
    holders += [np.frombuffer(raw, dtype) for dtype in ("u1", "<u2", "<u4", "<i8", "<f4", "V128", "<c16")]
    for holder in holders:
        assert TensorMap.from_bytes(holder) == TM


@pytest.mark.parametrize("text", [None, 3, b"0" * 256, [CALLS["C"]]])
def test_only_text_is_parsed(text):
    with pytest.raises(InputError, match=r"^text = "):
        TensorMap.parse(text)


# ---- the command line ----------------------------------------------------------------------------------------------------------------


def decode(*arguments):
    return CliRunner().invoke(main, ["decode", *arguments], prog_name="smemsim")


def test_decode_explains_a_call_and_its_words():
    result = decode(CALLS["C"])
    assert result.exit_code == 0
    assert " ".join(f"0x{w:08x}" for w in words(bytes(TM), 4)[:8]) in result.stdout
    assert result.stdout == decode(bytes(TM).hex()).stdout


def test_decode_lists_every_violation_and_exits_with_1():
    bad = CALLS["C"].replace("{64, 64}", "{128, 300}").replace("0x7f0000000000", "0x7f0000000008")
    result = decode(bad)
    assert result.exit_code == 1
    with pytest.raises(TensorMapError) as refused:
        TensorMap.parse(bad)
    assert result.stdout.splitlines() == [f"refused: {v}" for v in refused.value.violations]
    assert len(refused.value.violations) == 3
    assert json.loads(decode(bad, "--json").stdout)["violations"] == refused.value.violations


@pytest.mark.parametrize("digits", [254, 255, 257, 512])
def test_decode_counts_the_digits_of_what_is_neither_a_word_nor_a_map(digits):
    for text in ("0" * digits, " ".join(["ab"] * (digits // 2)) + "c" * (digits % 2)):
        result = decode(text)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"{digits} hex digits: a tensor map has 256" in result.stderr


@pytest.mark.parametrize("null", ["nullptr", "NULL", "(cuuint64_t*)0", "None"])
def test_a_null_pointer_is_refused_as_by_the_driver(null):
    call = f"cuTensorMapEncodeTiled(&tm, 0, 1, (void*)0x10000, {{64}}, {null}, {{64}}, {{1}}, 0, 0, 0, 0)"
    with pytest.raises(TensorMapError, match="global_strides is a null pointer: the driver refuses it, also for rank 1"):
        TensorMap.parse(call)
    assert decode(call).exit_code == 1
    assert TensorMap.parse(call.replace(null, "{77}")).global_strides == ()


def test_decode_judges_a_map_for_the_architecture():
    atoms = CALLS["C"].replace("SWIZZLE_128B", "SWIZZLE_128B_ATOM_32B")
    assert decode(atoms, "--arch", "sm_100a").exit_code == 0
    assert decode(atoms, "--arch", "sm_90a").exit_code == 1
    raw = bytes(TensorMap.parse(atoms)).hex()
    assert decode(raw, "--arch", "sm_100a").exit_code == 0
    assert "needs sm_100 or later" in decode(raw, "--arch", "sm_90a").stdout
    assert decode(raw, "--arch", "sm_90a").exit_code == 1
    assert "documented" in decode(atoms).stdout
    assert "measured (driver 580 on an H200)" in decode(CALLS["C"]).stdout
    assert "measured (driver" not in decode(CALLS["C"], "--arch", "sm_100a").stdout
    assert decode(raw, "--arch", "sm_80").exit_code == 2


def test_decode_exits_with_1_when_a_legal_map_traps(tmp_path):
    path = tmp_path / "call.cu"
    path.write_text("// host\n" + CALLS["C"].replace("{64, 128}", "{64, 1ull << 32}"))
    result = decode(str(path))
    assert result.exit_code == 1
    assert "trap  T205  global_dim[1] = 4294967296" in result.stdout
    assert [f["code"] for f in json.loads(decode(str(path), "--json").stdout)["findings"]] == ["T205"]


@pytest.mark.parametrize("text", [t for t in UNREADABLE if "(" in t])
def test_decode_exits_with_2_where_the_text_cannot_be_read(text):
    result = decode(text)
    assert (result.exit_code, result.stdout) in ((2, ""), (1, result.stdout))
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "call",
    [
        "TensorMap.im2col_wide(data_type='bf16', global_address=16, global_dim=(64, 9, 7), global_strides=(128, 1152), pixel_box_lower_corner_width=0, "
        "pixel_box_upper_corner_width=0, channels_per_pixel=64, pixels_per_column=128)",
        "TensorMap.im2col(data_type='bf16', global_address=16, global_dim=(64, 9, 7), global_strides=(128, 1152), pixel_box_lower_corner=[0], "
        "pixel_box_upper_corner=[0], channels_per_pixel=64, pixels_per_column=128)",
        "TensorMap.tiled(data_type='bf16', global_address=16, global_dim=(64, 9, 7), global_strides=(1024, 9216), box_dim=(8, 1, 1), interleave='16B')",
        "TensorMap.tiled(data_type='16U6_ALIGN16B', global_address=32, global_dim=(128, 9), global_strides=(96,), box_dim=(128, 1))",
        "TensorMap.tiled(data_type='e2m1', global_address=32, global_dim=(128, 9), global_strides=(64,), box_dim=(32, 1))",
        "TensorMap.tiled(data_type='f64', global_address=32, global_dim=(128,), global_strides=(), box_dim=(2,))",
    ],
)
def test_every_kind_of_map_is_shown(call):
    result = decode(call)
    assert result.exit_code == 0, result.output
    tm = TensorMap.parse(call)
    described = json.loads(decode(call, "--json").stdout)
    assert described["mode"] == tm.call
    assert (described["bytes"] is None) == tm.is_im2col_wide
    assert set(described["arguments"]) == set(tm.arguments)
    assert repr(tm) in result.stdout
