"""Texts that people paste: encode calls in C and Python, and the 128 bytes as debuggers print them, all name the same
map.
"""

import contextlib
import ctypes
import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from smemsim import InputError, SmemsimError, TensorMap, TensorMapError, tma_load
from smemsim.cli import main
from smemsim.core.words.tensor_map.dump import parse_bytes, parse_dump
from smemsim.core.words.tensor_map.text import Definition, definitions, find_calls, value
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


VALUES = {"{64, 128}": "{K, M}", "{128}": "{K * sizeof(T)}", "{64, 64}": "box"}


def with_names(text=CALLS["C"], **values):
    for literal, name in (VALUES | values).items():
        text = text.replace(literal, name)
    return text


SOURCES = {
    "constants": "#define M 128\nconstexpr int K = M / 2, N = 8;\nusing T = __nv_bfloat16;\nuint32_t box[] = {64, K};\n" + with_names(),
    "typedef": "typedef cutlass::half_t T; const cuuint64_t K{64}; enum { A }; uint64_t M = 2 * K; cuuint32_t box[2]{K, K};" + with_names(),
    "macros": "#define K (32 + 32)\n#define M (K*2)\n#define T half\nstd::array<uint32_t, 2> box = {{K, K}};\n" + with_names().replace(" box", " box.data()"),
    "twice": "int K = 64; int M = 128; int box[2] = {K, 64}; { int K = 64; using T = uint16_t; " + with_names() + " }",
    "strides": "uint64_t strides[2] = {sizeof(half), 64 * sizeof(half)}; " + CALLS["C"].replace("{128}", "strides + 1"),
    "pointer": CALLS["C"].replace("cuTensorMapEncodeTiled", "encode_fn"),
    "member pointer": CALLS["C"].replace("cuTensorMapEncodeTiled", "(*api->encode)"),
    "versioned": CALLS["C"].replace("cuTensorMapEncodeTiled", "p_cuTensorMapEncodeTiled_v12000"),
    "swizzle": "constexpr auto mode = CU_TENSOR_MAP_SWIZZLE_128B; " + CALLS["C"].replace("CU_TENSOR_MAP_SWIZZLE_128B", "mode"),
    "short": CALLS["C"].replace("CU_TENSOR_MAP_SWIZZLE_128B", "128B").replace(BF16, "bf16"),
    "Python": "import x\nK = 64  # columns\nM = 256 // 2\nbox = [K, K]\n" + CALLS["keywords"].replace("[64, 128]", "[K, M]").replace("[64, 64]", "box"),
    "after a comment": "// " + CALLS["C"].replace("64", "32") + "\n/* " + CALLS["C"].replace("64", "16") + " */\n" + CALLS["C"],
    "after dead code": "#if 0\n" + CALLS["C"].replace("64", "32") + "\n#endif\n" + CALLS["C"],
    "nested dead code": "#if 0\n#if 1\n" + CALLS["C"].replace("64", "32") + "\n#else\n" + CALLS["C"].replace("64", "8") + "\n#endif\n" + CALLS["C"].replace("64", "16") + "\n#endif\n" + CALLS["C"],
    "behind an else": "#if 0\n" + CALLS["C"].replace("64", "32") + "\n#else\n" + CALLS["C"] + "\n#endif\n",
    "continued": "constexpr int M = 64\n  * 2, K = 64; " + CALLS["C"].replace("{64, 128}", "{K, M}"),
    "shifted": CALLS["C"].replace("{64, 128}", "{64 << 0, 256 >> 1}"),
    "quoted": f"'{CALLS['C']}'",
    "after a prototype": "CUresult cuTensorMapEncodeTiled(CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank);\n" + CALLS["C"],
    "with its message": CALLS["C"] + ' fprintf(stderr, "cuTensorMapEncodeTiled(%d) failed\\n", r);',
    "after other wrappers": "encode(&a, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3); " + CALLS["C"],
}  # fmt: skip


@pytest.mark.parametrize("form", SOURCES)
def test_names_that_the_text_defines_are_read_and_comments_are_not(form):
    assert TensorMap.parse(SOURCES[form]) == TM


def test_every_call_of_a_text_is_decoded_in_its_order(tmp_path):
    path = tmp_path / "calls.cu"
    path.write_text(CALLS["C"] + "\n" + CALLS["C"].replace("128B", "64B") + "\n\n" + CALLS["C"].replace("{64, 64}", "{64, 32}"))
    result = decode(str(path))
    assert result.exit_code == 1  # the second: 128 B are too wide for 64B
    titles = [line for line in result.stdout.splitlines() if line.startswith("[")]
    assert titles == [f"[{i}] line {line}: cuTensorMapEncodeTiled" for i, line in ((1, 1), (2, 2), (3, 4))]
    described = json.loads(decode(str(path), "--json").stdout)
    assert [d["arguments"]["box_dim"] for d in described] == [[64, 64], [64, 64], [64, 32]]
    assert CliRunner().invoke(main, ["map", str(path)]).exit_code == 2
    path.write_text(CALLS["C"] + CALLS["C"].replace("{64, 64}", "{N, 32}"))
    result = decode(str(path))
    assert (result.exit_code, "N is a name" in result.stderr, "[1] line 1" in result.stdout) == (2, True, True)


def test_a_stride_for_dimension_0_is_recognised():
    result = decode(CALLS["C"].replace("{128}", "{2, 128}"))
    assert result.exit_code == 1
    assert "hint: globalStrides = {2, 128}: begins with the step of dimension 1" in result.stdout
    assert "hint" not in decode(CALLS["C"].replace("{128}", "{128, 8192}")).stdout


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


IM2COL = (
    "cuTensorMapEncodeIm2col(&tm, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, (void*)0x10000, {64, 8, 8, 2}, {64, 512, 4096}, {%s}, {%s}, 16, 8, "
    "{1, 1, 1, 1}, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)"
)


def test_of_an_array_that_is_longer_the_driver_reads_what_the_rank_says():
    assert TensorMap.parse(IM2COL % ("0, 0, 7", "0, 0, 7")) == TensorMap.parse(IM2COL % ("0, 0", "0, 0"))


UNREADABLE = {
    CALLS["C"].replace("{64, 128}", "{M, 128}"): r"global_dim\[0\] = .*M is a name; put its value there",
    CALLS["C"].replace("(void*)0x7f0000000000", "d_a"): "global_address = .*d_a is a name",
    CALLS["C"].replace("2, (void", "(void"): "has 10 of 11 .* missing: tensorRank$",
    CALLS["C"].replace("{128}", "{64 * sizeof(Element)}"): r"global_strides: sizeof\(Element\): no type whose size is known",
    CALLS["C"].replace("{128}", "{64 * sizeof(2)}"): r"sizeof\(2\): no type",
    CALLS["C"].replace("{128}", "{64 * sizeof(long)}"): "8 B on Linux and 4 B on Windows",
    CALLS["C"].replace("{128}", "{round_up(100)}"): "only whole numbers",
    CALLS["C"].replace("{64, 128}", "{p.M, 128}") + " int M = 64;": "M is a name; put its value there",
    "int M = 64; M *= 2; " + CALLS["C"].replace("{64, 128}", "{M, 128}"): "M is changed in the text",
    "int M = 64; if (x) M = 32; " + CALLS["C"].replace("{64, 128}", "{M, 128}"): "M has more than one value in the text",
    "int M = 64; scanf(s, &M); " + CALLS["C"].replace("{64, 128}", "{M, 128}"): "M is changed in the text",
    "int M = rows(); " + CALLS["C"].replace("{64, 128}", "{M, 128}"): r"M is rows\(\) in the text, which cannot be read",
    "int M = M + 1; " + CALLS["C"].replace("{64, 128}", "{M, 128}"): "M is",
    "#define M 60+4\n" + CALLS["C"].replace("{64, 128}", "{M*1, 128}"): "M is a macro without brackets",
    "const int M = 32; void make(int M) { " + CALLS["C"].replace("{64, 128}", "{M, 128}"): "M is a parameter too",
    "M, N = 128, 64\n" + CALLS["keywords"].replace("[64, 128]", "[N, 128]"): "N has no value",
    "uint64_t d[2]; d[0] = 64; d[1] = 128; " + CALLS["C"].replace("{64, 128}", "d"): "d (has no value|is changed)",
    CALLS["C"] + CALLS["C"]: "2 encode calls, in lines 1, 1: pass the text of one",
    "// " + CALLS["C"]: "neither a call",
    "#if 0\n" + CALLS["C"] + "\n#endif": "neither a call",
    "encode(&tm, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3);": "encode has 3 arguments: cuTensorMapEncodeTiled has 12",
    CALLS["C"].replace("{128}", "{128 / 3}"): "no whole number",
    CALLS["C"].replace("{128}", "{1 << 4000}"): "no sensible number of bits",
    CALLS["C"].replace("{128}", "{64 % 0}"): "divides by zero",
    CALLS["C"].replace("{128}", "{-256 / 3}"): "divide negative numbers differently",
    CALLS["C"].replace("{128}", "{256 / -2}"): "divide negative numbers differently",
    CALLS["C"].replace("{128}", f"{{{' * '.join(['(1 << 60)'] * 9)}}}"): "far beyond anything the hardware has",
    CALLS["C"].replace("{1, 1}", "tensorDataType=9"): "the argument tensorDataType is not one of its own, or is there twice",
    CALLS["C"].replace("{64, 128}, ", "{64}, "): "global_dim has 1 entries: tensorRank = 2 reads 2",
    CALLS["C"].replace(", {1, 1}", ""): "has 10 of 11 .* missing: elementStrides$",
    CALLS["C"].split(", {1")[0]: "ends before its closing bracket",
    IM2COL % ("0, 0", "0, 0, 0, 0"): "pixel_box_upper_corner has 4 entries: tensorRank = 4 reads 2, and no rank reads more than 3",
    IM2COL % ("0, 0, 0, 0, 0", "0, 0"): "pixel_box_lower_corner has 5 entries: tensorRank = 4 reads 2, and no rank reads more than 3",
    CALLS["C"].replace("{1, 1}", "boxes={1, 1}"): "the argument boxes is not one of its own, or is there twice; it has tensorDataType",
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


@pytest.mark.parametrize("of_map", ["&tm, ", "tm, ", ""])
def test_a_call_that_ends_early_says_which_arguments_are_missing(of_map):
    call = f"cuTensorMapEncodeTiled({of_map}CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, p, {{8192, 8192}}, {{16384}}, {{64, 128}}, {{1, 1}})"
    (found,) = find_calls(call)
    assert found.hints() == []
    with pytest.raises(
        InputError, match=r"7 of 11 .* missing: interleave, swizzle, l2Promotion, oobFill; without a value in the text: p \("
    ):
        found.arguments()


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


@examples(100)
@given(st.binary(max_size=400))
def test_a_file_of_anything_is_a_map_or_a_sentence(data):
    result = CliRunner().invoke(main, ["decode", "-"], input=data)
    assert result.exit_code in (0, 1, 2, 3)
    assert result.exit_code in (0, 1) or result.stderr.startswith("smemsim: ")


def words(raw, size):
    return [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]


def dump(raw, size, *, radix="x", order="little", address="{:07x}", colon="", letters="", squeeze=True, per_line=16):
    """The lines of xxd, od and hexdump: words of `size` bytes in lines with an address, repeated lines as one `*`."""
    digits = {"x": 2 * size, "o": {1: 3, 2: 6, 4: 11, 8: 22}[size], "d": 5}[radix]
    lines, last = [], None
    for i in range(0, 128, per_line):
        row = raw[i : i + per_line]
        if squeeze and row == last:
            lines += ["*"] if lines[-1] != "*" else []
        else:
            numbers = [f"{int.from_bytes(row[j : j + size], order):0{digits}{radix}}" for j in range(0, len(row), size)]
            text = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
            lines.append((address.format(i) + colon + " " + " ".join(numbers) + letters.format(text)).strip())
        last = row
    return "\n".join([*lines, *([] if colon or not address else [address.format(128)])])


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
        "colons": raw.hex(":"),
        "%x": " ".join(f"{w:x}" for w in four),
        "suffixes": "const uint32_t tm[32] = {\n" + ",\n".join(f"  0x{w:x}u" for w in four) + "\n};  // the map",
        "ull": "uint64_t tm[] = { " + ", ".join(f"{w:#x}ULL" for w in eight) + " };",
        "designators": "{" + ", ".join(f"[{i}] = 0x{w:08x}" for i, w in enumerate(four)) + "}",
        "entries": "\n".join(f"tm[{i}] = 0x{w:08x};" for i, w in enumerate(four)),
        "Python bytes": f"raw = {raw!r}",
        "bytearray": repr(bytearray(raw)),
        "uint64 array": repr(np.frombuffer(raw, "<u8")),
        "int64 array": repr(np.frombuffer(raw, "<i8")),
        "uint8 array": repr(np.frombuffer(raw, "u1")),
        "torch": f"tensor({list(raw)}, dtype=torch.uint8)",
        "xxd -i": "unsigned char tm_bin[] = {\n  " + ", ".join(f"0x{b:02x}" for b in raw) + "\n};\nunsigned int tm_bin_len = 128;",
        "xxd -g1": dump(raw, 1, address="{:08x}", colon=":", letters="  {}", squeeze=False),
        "xxd -g4": dump(raw, 4, order="big", address="{:08x}", colon=":", letters="  {}", squeeze=False),
        "xxd -g8": dump(raw, 8, order="big", address="{:08x}", colon=":", letters="  {}", squeeze=False),
        "xxd -e": dump(raw, 4, address="{:08x}", colon=":", letters="  {}", squeeze=False),
        "xxd -e -g2": dump(raw, 2, address="{:08x}", colon=":", letters="  {}", squeeze=False),
        "xxd -c 32": dump(raw, 2, order="big", address="{:08x}", colon=":", letters="  {}", squeeze=False, per_line=32),
        "od": dump(raw, 2, radix="o", address="{:07o}"),
        "od -b": dump(raw, 1, radix="o", address="{:07o}"),
        "od -x": dump(raw, 2, address="{:07o}"),
        "od -x -v": dump(raw, 2, address="{:07o}", squeeze=False),
        "od -tx1": dump(raw, 1, address="{:07o}"),
        "hexdump -x, cut": dump(raw, 2).rpartition("\n")[0],
        "od -tx1z": dump(raw, 1, address="{:07o}", letters="  >{}<"),
        "od -tx4 -v": dump(raw, 4, address="{:07o}", squeeze=False),
        "od -Ax -tx1 -v": dump(raw, 1, address="{:06x}", squeeze=False),
        "od -Ad -tx8": dump(raw, 8, address="{:07d}"),
        "od -An -v -tx4": dump(raw, 4, address="", squeeze=False),
        "hexdump": dump(raw, 2),
        "hexdump -d": dump(raw, 2, radix="d"),
        "hexdump -Cv": "$ hexdump -Cv tm.bin\n" + dump(raw, 1, address="{:08x} ", letters="  |{}|", squeeze=False),
        "hexdump -C *": dump(raw, 1, address="{:08x} ", letters="  |{}|"),
        "hexdump -C": "\n".join(
            f"{i:08x}  {raw[i : i + 8].hex(' ')}  {raw[i + 8 : i + 16].hex(' ')}  |{'.' * 16}|" for i in range(0, 128, 16)
        ),
    }


@pytest.mark.parametrize("form", pasted(bytes(TM)))
def test_every_form_of_the_bytes_is_the_same_map(form):
    assert TensorMap.parse(pasted(bytes(TM))[form]) == TM


@examples(15)
@given(drawn=tiled_arguments())
def test_every_form_of_any_maps_bytes_is_that_map(drawn):
    tm = TensorMap.tiled(**drawn[0])
    if not any(bytes(tm)[80:]):
        for form, text in pasted(bytes(tm)).items():
            assert TensorMap.parse(text) == tm, form


def test_the_byte_order_that_is_a_map_is_taken_and_said():
    raw = bytes(TM)
    groups = pasted(raw)["xxd -e"]
    assert "read as 32-bit little-endian words; as groups of 4 bytes in memory order they are no legal map" in decode(groups).stderr
    assert decode(pasted(raw)["xxd -g4"]).stderr == ""
    # no reading is a map: memory order where xxd wrote it, words elsewhere
    for form in ("xxd -g8", "xxd -e", "64-bit padded"):
        broken = bytes(range(8)) + b"\xff" * 8 + raw[16:]  # rank 16 in every order
        found = parse_dump(pasted(broken)[form])
        assert (found.raw == broken) == (form != "xxd -e")
        assert "nor are they a legal map" in found.note


@pytest.mark.parametrize("size", [127, 129, 256])
@pytest.mark.parametrize("form", ["od", "od -tx1", "hexdump -Cv", "xxd -g1", "hexdump"])
def test_dumps_of_another_size_are_no_map(form, size):
    short = pasted(bytes(TM))[form].splitlines()
    text = "\n".join(short[:3] if size < 128 else short + short[1:])
    assert parse_bytes(text) is None
    assert decode(text).exit_code == 2


def test_one_star_without_addresses_is_filled_and_two_are_not_guessed():
    text = dump(bytes(TM), 4, address="")
    assert text.count("*") == 1
    assert TensorMap.parse(text) == TM
    lines = dump(bytes(TM), 1, address="", per_line=4).splitlines()
    assert lines.count("*") > 1
    assert parse_bytes("\n".join(lines)) is None


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
    first, *lines = result.stdout.splitlines()
    assert first.startswith("cuTensorMapEncodeTiled: refused on sm_90a (driver 580, measured)")
    assert first.endswith(": CUDA_ERROR_INVALID_VALUE (1)")
    assert [line for line in lines if line.startswith("refused")] == [f"refused: {v}" for v in refused.value.violations]
    assert "box_dim          (128, 300)" in lines
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
    first = decode(atoms).stdout.splitlines()[0]
    assert "accepted on sm_100a and sm_103a (documented or inferred, not measured); refused on sm_90a (driver 580, measured)" in first
    assert decode(CALLS["C"], "--arch", "sm_90a").stdout.startswith("cuTensorMapEncodeTiled: accepted on sm_90a (driver 580, measured)\n")
    assert "measured (driver 580 on an H200)" in decode(CALLS["C"]).stdout
    assert "measured (driver" not in decode(CALLS["C"], "--arch", "sm_100a").stdout
    assert decode(raw, "--arch", "sm_80").exit_code == 2


def test_decode_exits_with_1_when_a_legal_map_traps(tmp_path):
    path = tmp_path / "call.cu"
    path.write_text("// host\n" + CALLS["C"].replace("{64, 128}", "{64, 1ull << 32}"))
    result = decode(str(path))
    assert result.exit_code == 1
    assert "global_dim[1] = 4294967296" in result.stdout
    assert "trap" in [f["severity"] for f in json.loads(decode(str(path), "--json").stdout)["findings"]]


@pytest.mark.parametrize("text", [t for t in UNREADABLE if "(" in t and t != 2 * CALLS["C"]])
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


@examples(60)
@given(drawn=tiled_arguments())
def test_what_decode_says_of_the_barrier_is_what_a_load_credits(drawn):
    tm = TensorMap.tiled(**drawn[0])
    try:
        t = tma_load(tm, (0,) * tm.rank, smem_address=0x400)
    except SmemsimError:
        return
    assert f"{t.transaction_bytes} B on the barrier" in decode(repr(tm)).stdout


@pytest.mark.parametrize("interleave", ["16B", "32B"])
@pytest.mark.parametrize("box", [(8, 3, 5), (16, 4, 6, 3), (8, 2, 4, 6, 3)])
def test_what_decode_says_of_interleaved_boxes_is_what_a_load_moves(interleave, box):
    rank = len(box)
    strides = [1024 * 16**i for i in range(rank - 1)]
    for step in (1, 2):
        tm = TensorMap.tiled(
            data_type="bf16", global_address=4096, global_dim=(16,) * rank, global_strides=strides, box_dim=box, element_strides=(step,) * rank,
            interleave=interleave, swizzle="32B" if interleave == "32B" else "none",
        )  # fmt: skip
        t = tma_load(tm, (0,) * rank, smem_address=0x400)
        assert f"{t.transaction_bytes} B on the barrier" in decode(repr(tm)).stdout


MOST = (1 << 128) - 1
VALUES = {
    "None": None, "[] * 2147483647": [], "[1] * 5": [1] * 5, "[1] * 10": [1] * 10, "{1, 2} + 1": [2], "{1, 2} + 2": [], "{{1, 2}}": [1, 2], "{{1, 2}, {3}}": [[1, 2], [3]], "0 / 3": 0, "0 % 3": 0, "7 // 2": 3, "6 / 2": 3,
    "1 << 127": 1 << 127, "1 >> 128": 0, str(MOST): MOST, f"{MOST - 1} + 1": MOST, "~5": -6, "+7": 7, "-7": -7, "-7 + 9": 2, "uint64_t(3)": 3, "cuuint32_t(3)": 3, "c_uint64(3)": 3, "a.data()": [1], "dims.begin()": [4, 5], "K": 12,
    "sizeof(T)": 2, "sizeof float": 4, "sizeof(const float)": 4, "sizeof(float*)": 8, "sizeof(unsigned long long)": 8, "sizeof( U )": 2, "'x'": "x", '""': "",
}  # fmt: skip
REFUSED = {
    "True": "only whole numbers", "[] * 2147483648": "of whole numbers only", "[1] * 11": "of whole numbers only", "[1] * -1": "of whole numbers only", "2 * [1]": "of whole numbers only", "{1, 2} + 3": "of whole numbers only",
    "[1] + [2]": "of whole numbers only", "4 / -2": "divide negative numbers", "-4 // 2": "divide negative numbers", "0 % -1": "divide negative numbers", "7 / 2": "is no whole number", "7 / 0": "divides by zero", "0 % 0": "divides by zero",
    "1 << 128": "far beyond", "1 << 129": "no sensible number of bits", "1 >> 129": "no sensible number of bits", "1 >> -1": "no sensible number of bits", f"{MOST} + 1": "far beyond", "-[1]": "only whole numbers", "f(3)": "only whole numbers",
    "1.5": "only whole numbers", "(1": "cannot be read", "M": "M is a name", "x.y": "y is a name", "sizeof(long)": "8 B on Linux", "sizeof(V)": "no type whose size", "loop": "is defined by itself", "bad": "is changed in the text",
    "1" * 2001: "2001 characters", "long_": "cannot be read",
}  # fmt: skip


def test_values_are_whole_numbers_of_at_most_128_bits_lists_and_sizes():
    """In a text that defines some names; what is refused has its reason."""
    defined = {"T": "__half", "U": "T", "a": "{1}", "dims": "{4, 5}", "K": "2 * H", "H": "6", "loop": "loop", "long_": "(1"}
    names = {name: Definition(source) for name, source in defined.items()} | {"bad": Definition("1", "is changed in the text")}
    names["V"] = Definition("float", "is changed in the text")
    assert {source: value("global_dim", source, names) for source in VALUES} == VALUES
    for source, why in REFUSED.items():
        with pytest.raises(InputError, match=why):
            value("global_dim", source, names)
    assert value("global_dim", "1".ljust(2000)) == 1
    assert [value(name, word) for name, word in (("swizzle", "128B"), ("swizzle", "A::B"), ("arch", "sm_90a"))] == ["128B", "B", "sm_90a"]


DEFINED = {
    "int M = 64; M = 64;": ("64", ""), "int  M =  64;\nM = 64 ;": ("64", ""), "int M{64};": ("64", ""), "M = 2 * (3 + 1)\n": ("2 * (3 + 1)", ""), "int L = 1, M = 2;": ("2", ""), "int M[2] = {1, 2};": ("{1, 2}", ""),
    "std::vector<int> M {1, 2};": ("{1,2}", ""), "#define M (1 + 2)\n": ("(1 + 2)", ""), "#define M -1\n": ("-1", ""), "typedef __half M;": ("__half", ""),
    "int M = 64; M = 32;": (None, "has more than one value"), "cin >> M; int M = 4;": (None, "is changed"), "for M in range(4): pass\nM = 4": (None, "is changed"), "scanf(s, &M); M = 4;": (None, "is changed"), "int M = 3; M++;": (None, "is changed"),
    "int M = 3; ++M;": (None, "is changed"), "M[0] = 1;": (None, "has no value"), "M, N = 64, 128\n": None, "N, M = 64, 128\n": (None, "has no value"), "#define M (1) + (2)\n": (None, "without brackets"), "#define M (1 + 2\n": (None, "without brackets"),
    "void f(int M) {} int M = 4;": (None, "is a parameter"), "def f(M): pass\nM = 4": (None, "is a parameter"), "int M = 64; M = 32; M = 64;": (None, "has more than one value"),
    "struct M { int x; };": None, "return M {64};": None, "enum M {1, 2};": None, "namespace M {64}": None, "f(M=5)": None, "else {64}": None, "#define B M = 3\n": None,
}  # fmt: skip


def test_a_name_has_a_value_if_the_text_gives_it_one_alone():
    for text, wanted in DEFINED.items():
        found = definitions(text).get("M")
        if wanted is None:
            assert found is None, text
        else:
            assert wanted[1] in found.why_not if wanted[1] else not found.why_not, text
            assert wanted[0] is None or "".join(found.split()) == "".join(wanted[0].split()), (text, found)
