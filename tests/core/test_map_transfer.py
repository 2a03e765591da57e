"""`smemsim map` of tensor maps: every byte of a transfer in the picture, in the table and in JSON; traps, refusals and
bad input.
"""

import csv
import io
import json
import re
import shlex
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from messages import one_line
from smemsim import HardwareTrap, TensorMap, tma_load, tma_store
from smemsim.cli import main
from smemsim.show import TransferMap
from strategies import examples, tiled_arguments

TILED = {
    "data_type": "bf16", "global_address": 0x7F0000000000, "global_dim": (64, 128), "global_strides": (128,), "box_dim": (64, 16), "swizzle": "128B",
}  # fmt: skip
NARROW = {
    "data_type": "u8",
    "global_address": 0x10000,
    "global_dim": (40, 30),
    "global_strides": (48,),
    "box_dim": (32, 12),
    "swizzle": "64B",
}
IM2COL = {
    "data_type": "f16", "global_address": 0x10000, "global_dim": (64, 8, 8, 2), "global_strides": (128, 1024, 8192), "pixel_box_lower_corner": (-1, -1),
    "pixel_box_upper_corner": (-1, -1), "channels_per_pixel": 32, "pixels_per_column": 12, "swizzle": "64B",
}  # fmt: skip
SLICES = {
    "data_type": "f16", "global_address": 0x10000, "global_dim": (4, 8, 8, 2), "global_strides": (128, 1024, 8192), "box_dim": (8, 4, 1, 2),
    "interleave": "32B", "swizzle": "32B",
}  # fmt: skip
CALL = (
    "cuTensorMapEncodeTiled(&tm, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void*)0x7f0000000000, {64, 128}, {128}, {64, 16}, {1, 1}, "
    "CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);"
)


def smemsim(*arguments):
    return CliRunner().invoke(main, ["map", *arguments], prog_name="smemsim")


def grid(text):
    """{line address: its eight cells} of a terminal picture."""
    rows = (re.fullmatch(r"\s*(0x[0-9a-f]+)\s+(.*?)\s*", line) for line in text.splitlines())
    return {int(row[1], 16): row[2].split() for row in rows if row and len(row[2].split()) == 8}


CASES = {
    "tiled": (TensorMap.tiled(**TILED), (0, 120), {}),
    "narrow": (TensorMap.tiled(**NARROW), (16, -3), {}),
    "store": (TensorMap.tiled(**NARROW), (16, 25), {"store": True}),
    "im2col": (TensorMap.im2col(**IM2COL), (0, -1, -1, 0), {"im2col_offsets": (1, 0)}),
    "slices": (TensorMap.tiled(**SLICES), (0, 0, 0, 0), {}),
}


def command(name):
    tm, at, more = CASES[name]
    offsets = ["--offsets", ",".join(map(str, more["im2col_offsets"]))] if "im2col_offsets" in more else []
    return [bytes(tm).hex(), "--at", ",".join(map(str, at)), *offsets, *(["--store"] if more.get("store") else [])]


@pytest.mark.parametrize("name", CASES)
def test_what_people_see_of_a_transfer(name, snapshot):
    result = smemsim(*command(name))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == snapshot


def test_the_picture_as_svg(snapshot):
    assert smemsim(*command("narrow"), "--svg").stdout == snapshot


def test_a_map_is_taken_in_every_form_that_decode_takes(tmp_path):
    raw = bytes(TensorMap.parse(CALL))
    (tmp_path / "map.bin").write_bytes(raw)
    (tmp_path / "call.cu").write_text(CALL)
    forms = [[raw.hex()], raw.hex(" ").split(), [CALL], [str(tmp_path / "map.bin")], [str(tmp_path / "call.cu")]]
    shown = {smemsim(*form, "--at", "0,-8", "--smem", "0x800").stdout for form in forms}
    assert len(shown) == 1
    assert "0x800" in shown.pop()


@pytest.mark.parametrize("name", CASES)
def test_table_json_and_picture_say_the_same_of_every_byte(name):
    tm, at, more = CASES[name]
    described = json.loads(smemsim(*command(name), "--json").stdout)
    rows = list(csv.DictReader(io.StringIO(smemsim(*command(name), "--csv").stdout)))
    pairs = list(zip(described["shared_address"], described["global_address"], strict=True))
    assert [(int(r["shared_address"]), int(r["global_address"])) for r in rows] == pairs
    assert all(int(r["line"]) + 16 * int(r["chunk"]) + int(r["byte"]) == int(r["shared_address"]) for r in rows)
    call = tma_store if more.get("store") else tma_load
    t = call(tm, at, smem_address=0x400, **{n: v for n, v in more.items() if n != "store"})
    assert sorted(pairs) == sorted(zip(t.shared_address.tolist(), t.global_address.tolist(), strict=True))
    assert described["transaction_bytes"] == t.transaction_bytes
    # Coordinates and strides give the global address of every byte inside the tensor: its first byte's, then on in the
    # row.
    unit = 16 * int(tm.interleave) or tm.type_row.itemsize
    strides = (unit, *tm.global_strides)
    for r in rows:
        place = [int(r[f"c{i}"]) for i in range(tm.rank)]
        if int(r["global_address"]) >= 0:
            first = tm.global_address + sum(c * s for c, s in zip(place, strides, strict=True))
            assert 0 <= int(r["global_address"]) - first < unit
        else:
            assert any(not 0 <= c < n for c, n in zip(place, tm.global_dim, strict=True))
    # The cell at a chunk's place names the coordinates of the byte with which the chunk begins.
    cells = grid(smemsim(*command(name), "--lines", "99").stdout)
    named = {(line, slot): text for line, slots in cells.items() for slot, text in enumerate(slots) if text[0] in "-0123456789"}
    begins = {}
    for r in rows:
        if int(r["byte"]) == 0 and int(r["global_address"]) >= 0:
            begins[int(r["line"]), int(r["chunk"])] = ",".join(r[f"c{i}"] for i in range(tm.rank))
    assert {place: re.sub(r"\+16|[*~]", "", text) for place, text in named.items()} == begins


@examples(40)
@given(drawn=tiled_arguments(), data=st.data())
def test_a_picture_has_a_cell_for_every_chunk_of_the_box(drawn, data):
    tm = TensorMap.tiled(**drawn[0])
    at = tuple(16 * data.draw(st.integers(-3, 9)) if i == 0 else data.draw(st.integers(-3, 40)) for i in range(tm.rank))
    try:
        picture = TransferMap.of(tm, at, smem_address=0x400)
    except HardwareTrap:
        return
    t = picture.transfer
    assert 16 * len(picture.cells) == t.transaction_bytes == len(t.shared_address)
    assert sum(c.inside for c in picture.cells) == picture.inside_bytes == int((t.global_address >= 0).sum())
    places = {128 * line + 16 * slot for line, cells in picture.lines.items() for slot, cell in enumerate(cells) if cell}
    assert places == {int(a) for a in np.unique(t.shared_address // 16) * 16}


def test_a_load_says_what_the_barrier_counts_and_which_memory_it_touches():
    text = smemsim(CALL, "--at", "0,120").stdout
    assert "2,048 transaction bytes" in text
    assert "reads 1,024 B in global 0x7f0000003c00 to 0x7f0000004000" in text
    assert "1,024 B fill (zeros)" in text
    assert "reads no global byte" in smemsim(CALL, "--at", "0,128").stdout
    nan = repr(TensorMap.tiled(**TILED, oob_fill="nan"))
    assert "fill (NaN)" in smemsim(nan, "--at", "0,120").stdout


def test_a_store_tells_of_the_bytes_behind_the_tensor():
    assert "5 chunks written as a whole, past the end of dimension 0" in smemsim(*command("store")).stdout
    assert "past the end" not in smemsim(CALL, "--store").stdout


def test_a_box_that_begins_inside_the_swizzle_pattern_is_told():
    assert "begins 128 B into the 1024 B swizzle pattern" in smemsim(CALL, "--smem", "0x480").stdout
    assert "swizzle pattern" not in smemsim(CALL, "--smem", "0x800").stdout


def test_a_wide_map_on_hopper_moves_what_the_plain_im2col_map_moves():
    same = {n: v for n, v in IM2COL.items() if not n.startswith("pixel_box")}
    corners = {"pixel_box_lower_corner_width": -1, "pixel_box_upper_corner_width": -1}
    wide = TensorMap.im2col_wide(**same, **corners, mode="W128", arch="sm_90a")
    plain = TensorMap.im2col(**same, pixel_box_lower_corner=(-1, 0), pixel_box_upper_corner=(-1, 0))
    shown = [smemsim(form, "--arch", "sm_90a", "--at", "0,-1,1,0").stdout for form in (repr(wide), repr(plain))]
    assert shown[0] == shown[1]
    assert "TMA load on sm_90a: im2col f16" in shown[0]
    assert "128 pixels of 32 channels" in smemsim(repr(wide).replace(", arch='sm_90a'", "")).stdout


def test_large_boxes_say_what_is_left_out():
    result = smemsim(CALL, "--lines", "3")
    assert len(grid(result.stdout)) == 3
    assert "13 more lines (--lines 16 shows all)" in result.stdout
    assert "14 more lines" in smemsim(CALL, "--lines", "2", "--svg").stdout


def test_a_narrow_terminal_leaves_out_the_dimensions_that_do_not_vary():
    tm = TensorMap.tiled(data_type="u8", global_address=0, global_dim=(128,) * 5, global_strides=(128, 1 << 14, 1 << 21, 1 << 28),
                         box_dim=(128, 4, 1, 1, 1), swizzle="128B")  # fmt: skip
    picture = TransferMap.of(tm, (0, 1, 99, 100, 101), smem_address=0x400)
    assert picture.dims() == [0, 1, 2, 3, 4]
    assert picture.dims(80) == [0, 1]
    assert picture.cell_text([0, 1]) == "c0,c1 of its first element (c2 = 99, c3 = 100, c4 = 101 everywhere)"


def test_every_cell_of_the_svg_has_its_address_and_coordinates():
    svg = ET.fromstring(smemsim(*command("narrow"), "--svg").stdout)
    titles = {t.text for t in svg.iter("{http://www.w3.org/2000/svg}title")}
    assert "0x4d0: (16, 0), row 3 of the box" in titles
    assert "0x4c0: (32, 0), row 3 of the box, 8 of 16 bytes inside the tensor" in titles
    assert "0x420: untouched" in titles


TRAPS = {
    "--at 4,0": "coordinates[0] = 4",
    "--at 0,0 --smem 0x440": "smem_address = 0x440: needs a multiple of 128 B",
    "--at 0,-1 --store": "a store cannot start below 0",
    "--at 0,0 --smem 0x38c00": "past the end of the CTA's shared window",
}


@pytest.mark.parametrize("options", TRAPS)
def test_a_trap_is_a_sentence_and_exit_code_1(options):
    result = smemsim(CALL, *shlex.split(options))
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.startswith("traps: ")
    assert TRAPS[options] in result.stdout
    described = json.loads(smemsim(CALL, *shlex.split(options), "--json").stdout)
    assert TRAPS[options] in described["trap"]
    assert described["cuda_error"] in (700, 715, 716)
    table = smemsim(CALL, *shlex.split(options), "--csv")
    assert (table.exit_code, table.stdout) == (1, "")
    assert TRAPS[options] in table.stderr


def test_a_call_that_the_driver_refuses_has_no_picture():
    refused = CALL.replace("{64, 16}", "{128, 16}")
    result = smemsim(refused)
    assert result.exit_code == 1
    assert result.stdout.startswith("refused: box_dim[0] = 128")
    assert json.loads(smemsim(refused, "--json").stdout)["rules"] == ["inner_width"]
    assert smemsim(refused, "--svg").stdout == ""


WORD = "0x4000004000010040"
BAD = [
    ([CALL, "--at", "0,x"], "--at '0,x': needs whole numbers: coordinates, dimension 0 first"),
    ([CALL, "--at", "1.5,0"], "needs whole numbers"),
    ([CALL, "--at", f"0,{1 << 40}"], "signed 32-bit"),
    ([CALL, "--at", "9" * 5000], "needs whole numbers"),
    ([CALL, "--smem", "here"], "--smem 'here'"),
    ([CALL, "--smem", "1,2"], "needs one address"),
    ([CALL, "--smem", "0x7f0000000000"], "a generic pointer, or"),
    ([CALL, "--offsets", "1"], "takes none"),
    ([CALL, "--offsets", "1", "--store"], "stores have none"),
    ([CALL, "--arch", "sm_90"], "did you mean 'sm_90a'?"),
    ([CALL, "--rows", "8"], "--rows: of a descriptor's operand"),
    ([CALL, "--lines", "0"], "needs at least 1"),
    ([CALL, "--csv", "--svg"], "exclude each other"),
    ([CALL, "--sotre"], "--sotre: no such option"),
    (["00" * 100], "200 hex digits: a tensor map has 256 of them"),
    ([WORD, "--at", "0,0"], "--at: of a tensor map's transfer"),
    ([WORD, "--arch", "sm_90a", "--dtype", "bf16"], "missing: --major, --rows, --k, as --arch sm_90a"),
    (["no/such.bin"], "'no/such.bin': no such file"),
    ([WORD], "missing: --arch, --dtype, --major, --rows, --k, as --arch sm_90a"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "sentence"), BAD)
def test_bad_input_is_a_sentence_and_exit_code_2(arguments, sentence):
    result = smemsim(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in one_line(result.stderr)
    assert "Traceback" not in result.stderr


def test_what_nobody_knows_is_exit_code_3():
    raw = bytearray(bytes(TensorMap.tiled(**TILED)))
    raw[11] = 0x80  # bit 31 of word 2: no known encoder sets it
    result = smemsim(raw.hex(), "--arch", "sm_100a")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "not modelled" in result.stderr


ANYTHING = st.text(st.sampled_from("0123456789-,. x()ab\n"), max_size=12)


@examples(60)
@given(ANYTHING, ANYTHING, ANYTHING)
def test_any_option_is_taken_or_explained_in_a_sentence(at, smem, offsets):
    for arguments in ([f"--at={at}"], [f"--smem={smem}"], [f"--at={at}", f"--smem={smem}", f"--offsets={offsets}"]):
        result = smemsim(bytes(CASES["im2col"][0]).hex(), *arguments)
        assert result.exit_code in (0, 1, 2)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert len(result.stderr.splitlines()) <= 1


def test_im2col_offsets_that_do_not_fit_are_named():
    hexadecimal = bytes(CASES["im2col"][0]).hex()
    cut = smemsim(hexadecimal, "--at", "0,-1,-1,0", "--offsets", "258,0")
    assert "offsets 258, 0 do not fit 8 bits each: 2, 0 arrive in the instruction" in cut.stdout
    assert "do not fit" not in smemsim(hexadecimal, "--at", "0,-1,-1,0", "--offsets", "2,0").stdout


def test_a_map_that_traps_is_a_finding_of_map_as_of_decode():
    call = CALL.replace("{64, 128}", "{64, 1ull << 32}")
    runner = CliRunner()
    assert runner.invoke(main, ["decode", call]).exit_code == smemsim(call).exit_code == 1


def test_refused_maps_name_the_call_and_the_arguments_in_json():
    described = json.loads(smemsim(CALL.replace("128B", "64B"), "--json").stdout)
    assert described["call"] == "cuTensorMapEncodeTiled"
    assert described["cuda_error"] == "CUDA_ERROR_INVALID_VALUE (1)"
    assert described["arguments"]["box_dim"] == [64, 16]
    assert described["arguments"]["swizzle"] == "SWIZZLE_64B"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_transfer_is_of_one_call(count):
    made = smemsim(CALL * count)
    assert made.exit_code == (2 if count > 1 else 0)
    told = " ".join(made.stderr.split())
    assert (f"smemsim: {count} encode calls (" in told) == (count > 1)
    assert ("paste the one whose transfer you mean" in told) == (count > 1)
