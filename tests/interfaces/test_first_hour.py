"""What people paste, leave out and mix up in their first hour: it is understood, or a sentence says what to write."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import click.testing
import numpy as np
import pytest

import smemsim
from launches import refused
from messages import one_line
from places import ROOT
from smemsim.cli import main
from smemsim.core.layout.cute import CuteLayout

WORD = "0x4000002000010040"
SCENARIO = 'arch = "sm_90a"\n[tensor.A]\ndtype = "bf16"\nextent = { m = 64, k = 64 }\nstride = { m = 128, k = 2 }\n'
KERNEL = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 to, .param .u32 n) .reqntid 32, 1, 1 { ret; }\n"


def called(*words, text=None):
    done = click.testing.CliRunner().invoke(main, [str(word) for word in words], input=text)
    return done.exit_code, done.output


@pytest.mark.parametrize("pasted", [f"word = {WORD}", f"address = 0x400\nword = {WORD}\n", f"desc: {WORD}ull;"])
def test_decode_takes_the_lines_that_a_kernel_prints(pasted):
    assert called("decode", "-", "--arch", "sm_90a", text=pasted) == called("decode", WORD, "--arch", "sm_90a")


def test_decode_takes_a_printed_map_and_says_what_is_short_in_another():
    tm = smemsim.TensorMap.tiled(
        data_type="bf16", global_address=0x10000, global_dim=(64, 64), global_strides=(128,), box_dim=(64, 64), swizzle="128B"
    )
    assert called("decode", f'raw = "{bytes(tm).hex()}"')[1] == called("decode", bytes(tm).hex())[1]
    assert "2 hex digits; a tensor map is 128 bytes, 256 digits" in called("decode", 'raw = "00"')[1]


def test_a_legal_word_is_no_clean_bill():
    code, said = called("decode", WORD, "--arch", "sm_90a")
    assert code == 0
    assert "whether it reads your tile needs --tile ROWSxK, smemsim check or smemsim plan" in said


@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_swapped_strides_are_named_when_rows_k_and_tile_are_given(swizzle):
    p = smemsim.plan(128, 64, dtype="bf16", major="MN", swizzle=swizzle, arch="sm_90a", side="b", n=128, stack="K")
    right = smemsim.SmemDescriptor.decode(int(p.words[0, 0]), arch="sm_90a")
    about = {"dtype": "bf16", "major": "MN", "rows": 128, "k": 16, "tile_bytes": 128 * 64 * 2}
    swapped = smemsim.SmemDescriptor(
        arch="sm_90a", start_address=right.start_address, swizzle=right.swizzle,
        leading_byte_offset=right.stride_byte_offset, stride_byte_offset=right.leading_byte_offset,
    )  # fmt: skip
    assert not right.problems(**about)
    (found,) = (f for f in swapped.problems(**about) if f.code == "D309")
    assert f"{right.word:#018x}" in found.repair


@pytest.mark.parametrize(
    ("words", "held", "said"),
    [
        (("check", "kernel.toml"), KERNEL, "is PTX, not a scenario: smemsim run"),
        (("check", "kernel.toml"), "grid = [1, 1, 1]\n", "is a launch file, not a scenario: smemsim run"),
        (("run", "kernel.toml"), SCENARIO, "is a scenario, not a launch file: smemsim check"),
        (("run", "kernel.toml"), "", "holds nothing; write grid, block, args and arrays"),
        (("run", "kernel.toml"), "args = []\n", '{value = 0, type = "u64"},  # to; or {array = "NAME"}, if it is a pointer'),
        (("run", "kernel.toml"), "args = []\n", '\n    {value = 0, type = "u32"},  # n'),
    ],
)
def test_the_command_that_is_meant_and_the_line_to_write_are_said(words, held, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.toml").write_text(held)
    (tmp_path / "kernel.ptx").write_text(KERNEL)
    code, told = called(*words)
    assert code == 2
    assert said in told


def test_a_tensor_takes_the_keys_of_the_file_and_refuses_what_is_no_size():
    given = smemsim.Scenario("sm_90a").tensor("A", "bf16", extent={"m": 64, "k": 64}, stride={"m": 128, "k": 2})
    assert given.as_dict() == smemsim.Scenario("sm_90a").tensor("A", "bf16", m=64, k=64).as_dict()
    for wrong in ({"extent": 3, "k": "x"}, {"m": 64, "strides": 5}):
        with pytest.raises(smemsim.InputError, match=r"needs (the elements of an axis|bytes for each axis)"):
            smemsim.Scenario("sm_90a").tensor("A", "bf16", **wrong)


def test_a_layout_that_is_not_one_to_one_is_told():
    # Figure 167, as printed: 256 elements on 136 places
    figure = CuteLayout.parse("Swizzle<1,4,3> o ((8,2),(4,4)):((8,64),(1,4))")
    places = np.array([[figure.address(1024, 32, row, k) for k in range(16)] for row in range(16)])
    answer = smemsim.find_descriptors(places, arch="sm_90a", dtype="tf32", major="K", k=8)
    assert answer.descriptors
    assert "120 of 256 elements have the address of another element" in answer.shared
    assert "have the address of another element" in str(answer)
    assert not smemsim.find_descriptors(places[:, :8], arch="sm_90a", dtype="tf32", major="K").shared


def test_divided_layouts_have_no_swizzle_in_front_in_text_and_in_json():
    p = smemsim.plan(128, 64, dtype="bf16", major="K", arch="sm_90a")
    printed = p.as_dict()["cute"]
    assert [name for name, layout in printed.items() if "Swizzle" in layout] == ["tile"]
    assert all(layout in p.text() for layout in printed.values())


def test_strides_in_elements_are_more_than_a_note_where_two_of_them_are():
    dense = {"data_type": "bf16", "global_address": 0x10000, "box_dim": (64, 8, 1)}
    in_elements = smemsim.TensorMap.tiled(**dense, global_dim=(64, 32, 4), global_strides=(64, 64 * 32))
    assert {f.severity for f in in_elements.problems("sm_90a") if f.code == "T214"} == {smemsim.Severity.LUCK}
    windows = smemsim.TensorMap.tiled(**dense | {"box_dim": (64, 8)}, global_dim=(64, 32), global_strides=(64,))
    assert {f.severity for f in windows.problems("sm_90a") if f.code == "T214"} == {smemsim.Severity.NOTE}


def test_a_tile_is_planned_as_people_say_it():
    code, said = called("plan", "128x256x64", "--dtype", "fp8", "--cta-group", "2")
    assert code == 0
    for sentence in (
        "assumed --dtype e4m3 for fp8 (or e5m2), --arch sm_100a, --major K",
        "D (128 x 256) = A (128 x 64) Bᵀ (256 x 64) on sm_100a",
        "allocate 128 columns",
        "CTA 1: lane 0, column 0 is element (m 64, n 0) of the first instruction; this CTA loads A from row 64 and B from row 128 of the tile",
        "mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%full], 24576;",  # (128 + 256) rows of 64 bytes
        "tcgen05.commit.cta_group::2",
    ):
        assert sentence in said


def test_the_two_plans_of_a_product_share_no_byte_and_one_instruction():
    code, said = called("plan", "256x128x64", "--dtype", "bf16", "--arch", "sm_90a", "--stages", "3", "--json")
    made = json.loads(said[said.index("{") :])
    assert code == 0
    assert made["a"]["instruction"]["name"] == made["b"]["instruction"]["name"]
    of_a, of_b = (smemsim.SmemDescriptor.decode(int(made[side]["words"][0][0], 16), arch="sm_90a") for side in "ab")
    assert of_a.start_address + 3 * 256 * 64 * 2 <= of_b.start_address
    assert made["d"] == {"columns": 0, "allocate": 0, "layout": None}
    assert len([line for line in made["ptx"] if not line.startswith("//")]) == 3 + 64 // 16


@pytest.mark.parametrize(("words", "said"), [(["128x64"], "--arch is missing: needs one of sm_90a"), (["128x64x64", "--side", "b"], "--side: of one operand"),
                                             *(([f"{m}x64x64", "--cta-group", "2"], f"M = {m}: the two CTAs of a pair have half of M each; write {legal}\n") for m, legal in ((127, 128), (129, 256), (513, 640)))])  # fmt: skip
def test_what_a_plan_lacks_is_said(words, said):
    code, told = called("plan", *words, "--dtype", "bf16", *(["--arch", "sm_100a"] if len(words) > 1 else []))
    assert code == 2
    assert said in told


def test_an_encode_call_in_a_function_is_read_with_the_values_of_its_parameters():
    body = (
        "cuuint64_t dims[2] = {cols, rows}; cuuint64_t strides[1] = {cols * sizeof(__nv_bfloat16)}; cuuint32_t box[2] = {64, 64}, es[2] = {1, 1};"
        "cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, ptr, dims, strides, box, es, CU_TENSOR_MAP_INTERLEAVE_NONE,"
        "CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE); return map;"
    )
    listing = f"CUtensorMap make(void* ptr, uint64_t rows, uint64_t cols) {{ CUtensorMap map; {body} }}"
    code, said = called("decode", "-", text=listing)
    assert code == 2
    assert "give it: smemsim decode -D ptr=VALUE" in said
    code, said = called("decode", "-", "-D", "ptr=0x10000", "-D", "rows=256", "-D", "cols=512", "--json", text=listing)
    assert code == 0, said
    tm = smemsim.TensorMap.tiled(
        data_type="bf16", global_address=0x10000, global_dim=(512, 256), global_strides=(1024,), box_dim=(64, 64), swizzle="128B"
    )
    assert bytes(tm).hex() in said.replace(" ", "")
    assert called("decode", "-", "-D", "512", text=listing)[1].startswith("smemsim: -D '512': needs a name and its value")


def test_a_cute_layout_is_solved_as_its_addresses_are():
    common = {"arch": "sm_90a", "dtype": "bf16", "major": "K", "rows": 64, "k": 16}
    words = [x for name, value in common.items() for x in (f"--{name}", value)]
    code, said = called("solve", "--layout", "Sw<3,4,3> o (64,64):(64,1)", "--base", "0x400", *words, "--json")
    assert code == 0
    rows = 1024 + 128 * np.arange(64)[:, None] + 2 * np.arange(64)
    answer = smemsim.find_descriptors(rows ^ (rows >> 7 & 7) << 4, **common)
    assert json.loads(said) == answer.as_dict()
    assert called("solve", "--layout", "64:1", "--base", "0x400", *words)[0] == 2


def test_check_reads_the_scenario_of_a_plan_from_standard_input():
    code, scenario = called("plan", "128x64", "--arch", "sm_90a", "--dtype", "bf16", "--major", "K", "--scenario")
    assert code == 0
    assert called("check", "-", text=scenario)[0] == 0
    for text in ("", "arch = ", "{"):
        assert called("check", "-", text=text)[0] == 2


def test_what_a_notebook_prints_is_one_short_line():
    made = smemsim.plan(128, 64, dtype="bf16", major="K", arch="sm_90a")
    for one in (made, smemsim.Gpu("sm_90a"), smemsim.Scenario("sm_90a").tensor("A", "bf16", m=64, k=64)):
        assert len(repr(one)) < 120
        assert "\n" not in repr(one)
        assert " object at 0x" not in repr(one)


RACE = """.version 8.7
.target sm_90a
.address_size 64
.shared .align 16 .b8 tile[256];
.visible .entry k(.param .u64 x) .reqntid 64, 1, 1
{
  .reg .b32 %r<9>; .reg .b64 %d<9>;
  mov.u32 %r1, %tid.x; ld.param.u64 %d1, [x]; mov.u32 %r2, tile; shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r2;
  st.shared.u32 [%r4], %r1;
  xor.b32 %r6, %r4, 128;
  ld.shared.u32 %r5, [%r6];
  mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d1, %d2;
  st.global.u32 [%d2], %r5;
  ret;
}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("ld.shared.u32", "ld.shared.u3", "line 11: ld.shared.u3: PTX has no instruction with .u3; did you mean .u32?"),
        ("add.s64", "adde.s64", "adde.s64: PTX has no instruction adde; did you mean add?"),
        ("st.shared.u32", "st.shred.u32", "no instruction with .shred; did you mean .shared?"),
    ],
)
def test_a_slip_of_the_pen_in_ptx_is_told_as_one(right, wrong, said, tmp_path):
    (tmp_path / "kernel.ptx").write_text(RACE.replace(right, wrong))
    code, told = called("run", tmp_path / "kernel.ptx", "--arg", "zeros:u32:64")
    assert code == 2
    assert said in one_line(told)


@pytest.mark.parametrize(
    "real",
    [
        "txq.width.b32 %r1, [%d1]", "vadd.u32.u32.u32.sat %r1, %r1, %r1", "cvt.rs.relu.satfinite.e2m1x4.f32 %h1, {%f1, %f1, %f1, %f1}, %r1",
        "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%r1, %r2, %r3, %r4}, [%d1]", "add.rn.s32 %r1, %r1, %r1", "foo.bar %r1",
    ],
)  # fmt: skip
def test_what_is_not_modelled_is_no_slip_of_the_pen(real):
    assert "did you mean" not in "".join(refused([f"{real};"]).values())


SLIPS = {
    "and.sync.b32 %r1, %r1, %r1": "PTX has no .sync for and",
    "ld.shared.approx.u32 %r1, [%r1]": "no .approx for ld",
    "shl.b8 %r1, %r1, 2": "shl has no .b8",
    "selp.v2 %r1, %r1, %r1, %p1": "selp has no .v2; it has",
    "add.ftz.u32 %r1, %r1, %r1": "has .ftz for floating-point types alone",
    "shfl.sync.bfly.b64 %d1, %d1, 1, 31, -1": "shfl has no .b64; it has .b32",
    "setp.wrap.u32 %p1, %r1, %r1": "no .wrap for setp",
    "st.shared.nc.u32 [%r1], %r1": "no .nc for st",
}  # fmt: skip
RIGHT = (
    "add.rn.ftz.sat.f32 %f1, %f1, %f1", "cvt.rni.ftz.f32.f32 %f1, %f1", "ld.global.nc.L1::no_allocate.L2::128B.u32 %r1, [%d1]", "mad.lo.cc.u32 %r1, %r1, %r1, %r1",
    "setp.eq.and.ftz.f32 %p1|%p2, %f1, %f1, %p1", "atom.global.add.noftz.f16x2 %r1, [%d1], %r1", "redux.sync.min.abs.NaN.f32 %f1, %f1, -1", "mul.wide.u16 %r1, %h1, %h1",
    "st.global.cs.u32 [%d1], %r1", "vadd2.u32.u32.u32.sat %r1, %r1, %r1, %r1", "bfind.shiftamt.u32 %r1, %r1", "div.full.ftz.f32 %f1, %f1, %f1", "lop3.or.b32 %r1|%p1, %r1, %r1, %r1, 3, %p1",
)  # fmt: skip


def test_words_and_types_that_an_instruction_does_not_have_are_errors():
    told = refused([f"{line};" for line in SLIPS])
    assert sorted(told) == list(range(len(SLIPS)))
    assert [why for n, why in sorted(told.items()) if list(SLIPS.values())[n] not in why] == []
    assert "PTX has" not in "".join(refused([f"{line};" for line in RIGHT]).values())


def test_words_of_newer_ptx_are_not_modelled():
    for line in ("and.sync.b32 %r1, %r1, %r1;", "shl.b8 %r1, %r1, 2;", "add.b16 %h1, %h1, %h1;"):
        text = f".version 9.4 .target sm_90a .address_size 64 .visible .entry k() {{ .reg .b32 %r<4>; .reg .b16 %h<4>; {line} ret; }}"
        with pytest.raises(smemsim.Unmodelled, match="is newer"):
            smemsim.Gpu("sm_90a").launch(text, block=1)
        with pytest.raises(smemsim.InputError):
            smemsim.Gpu("sm_90a").launch(text.replace("9.4", "9.0"), block=1)


def test_a_word_that_is_no_type_is_named_where_one_is_missing():
    told = "".join(refused(["mov.q32 %r1, %r1;"]).values())
    assert re.search(r"no instruction with \.q32; did you mean \.[bsuf]32\?", told), told


def test_a_cache_that_keeps_nothing_is_told_before_anything_is_compiled(monkeypatch):
    monkeypatch.setenv("SMEMSIM_CACHE_BYTES", "0")
    code, told = called("cache", "fill")
    assert code == 2
    assert "MB cannot be kept in" in told


def test_schedules_that_differ_are_a_line_each_and_all_takes_its_number_behind_a_space(tmp_path):
    (tmp_path / "kernel.ptx").write_text(RACE)
    given = ("run", tmp_path / "kernel.ptx", "--arg", "zeros:u32:64", "--schedule")
    code, told = called(*given, "all", "1")
    assert (code, told.partition(" in ")[0]) == (code, called(*given, "all:1")[1].partition(" in ")[0])
    head, *lines = told.splitlines()[-5:-2]
    assert head == "3 schedules tried: 3 differ from the default schedule"
    assert lines == [
        "      --schedule earliest, latest and 0: the array of arg0 (x) differs (63 of 256 bytes);",
        "        R507 at line 11",
    ]


def test_a_page_shows_the_source_of_both_halves_of_a_race_and_what_was_checked(tmp_path):
    kernel, page = tmp_path / "kernel.ptx", tmp_path / "page.html"
    kernel.write_text(RACE)
    called("run", kernel, "--arg", "zeros:u32:64", "--report", page)
    sides = re.findall(r"<figcaption><div><b>(\w+)</b>.*?kernel\.ptx:(\d+).*?class=at>\s*(\d+) \|", page.read_text(), re.DOTALL)
    assert sides == [("read", "11", "11"), ("write", "9", "9")]
    assert "What was checked" in page.read_text()
    assert len(re.findall(r"\b9 \|\s*st\.shared", page.read_text())) == 2  # drawn in both halves, and nowhere else
    assert "bar.sync 0 (__syncthreads) before line 11: the finding is gone" in page.read_text()
    code, said = called("run", kernel, "--arg", "zeros:u32:64", "--report", kernel)
    assert (code, kernel.read_text()) == (2, RACE)
    assert "is the file of the kernel too" in one_line(said)


def test_no_file_that_a_command_reads_is_overwritten(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(4, dtype=np.uint32))
    (tmp_path / "costs.toml").write_text("mma = 100\n")
    (tmp_path / "kernel.ptx").write_text(RACE)
    (tmp_path / "launch.toml").write_text('args = [{array = "a"}]\narrays = [{name = "a", file = "a.npy"}]\n')
    scenario = next((ROOT / "tests" / "scenarios" / "bugs").glob("B24*.toml")).read_text()
    (tmp_path / "scenario.toml").write_text(scenario)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    launch, costs = tmp_path / "launch.toml", tmp_path / "costs.toml"
    for words, what in (
        (("run", launch, "--trace", launch), f"--trace {launch}: is the file of the launch too"),
        (("run", tmp_path, "--report", launch), "is the file of the launch too"),
        (("run", tmp_path, "--trace", tmp_path / "kernel.ptx"), "is the file of the kernel too"),
        (("run", launch, "--report", tmp_path / "a.npy"), "is the file of array a: file too"),
        (("run", launch, "--trace", tmp_path / "x.html", "--report", tmp_path / "x.html"), "is the file of --trace too"),
        (("run", launch, "--expect", f"a={tmp_path / 'a.npy'}", "--report", tmp_path / "a.npy"), "too; needs a file of its own"),
        (("run", launch, "--pipeline", tmp_path / "p.svg", "--costs", costs, "--trace", costs), "is the file of --costs too"),
        (("run", launch, "--out", tmp_path), f"would overwrite {tmp_path / 'a.npy'} (array a: file), which this run reads"),
        (("show", tmp_path / "scenario.toml", "--html", tmp_path / "scenario.toml"), "is the file of the scenario too"),
        (("exec", "--arch", "sm_90a", "--json", launch, "--", "cat", launch), "is a file of the program too"),
    ):
        code, said = called(*words)
        assert (code, what in one_line(said)) == (2, True), said
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_records_of_an_earlier_program_stay_if_the_next_one_cannot_be_started(tmp_path):
    kept = tmp_path / "0001-gemm"
    kept.mkdir()
    (kept / "launch.toml").write_text("grid = 1\n")
    (tmp_path / "index.html").write_text("launches")
    for option in ("--record", "--report"):
        code, said = called("exec", "--arch", "sm_90a", option, tmp_path, "--", tmp_path / "missing")
        assert (code, "cannot be started" in " ".join(said.split())) == (2, True), said
    assert (kept / "launch.toml").exists()
    assert (tmp_path / "index.html").exists()


@pytest.mark.parametrize(
    ("words", "missing"),
    [(("run",), "KERNEL is missing; for example: smemsim run"), (("plan", "128x64"), "--dtype is missing; for example")],
)
def test_what_is_missing_is_named_with_an_example(words, missing):
    code, said = called(*words)
    assert code == 2
    assert missing in one_line(said)


@pytest.mark.parametrize("held", ['arch = "sm_90a"\n', SCENARIO, 'arch = "sm_90a"\n[buffer.s]\naddress = 0x400\nbytes = 128\n'])
def test_a_scenario_with_nothing_to_check_is_not_fine(held, tmp_path):
    (tmp_path / "empty.toml").write_text(held)
    code, told = called("check", tmp_path / "empty.toml")
    assert code == 2
    assert told.startswith("nothing to check: the scenario has no [[step]], no [map.NAME] and no layout")
    assert smemsim.check(tmp_path / "empty.toml").is_empty


@pytest.mark.parametrize("tile", ["128x", "x64", "12ax64", "128"])
def test_what_is_no_tile_is_told_before_what_is_missing(tile):
    code, told = called("plan", tile, "--dtype", "bf16")
    assert code == 2
    assert one_line(told) == (
        f"smemsim: the tile '{tile}': needs ROWSxK, as 128x64, or MxNxK, as 128x256x64, each a whole number of up to 9 digits"
    )


@pytest.mark.parametrize(
    ("language", "names"), [("cpp", ("encode_a(", "encode_b(")), ("cute", ("SmemLayoutA", "SmemLayoutB")), ("triton", ("tile_a", "tile_b"))]
)
def test_the_plan_of_a_pair_has_code_for_both_operands_and_its_cluster(language, names):
    given = ("plan", "256x256x64", "--dtype", "bf16", "--cta-group", "2")
    code, told = called(*given, "--code", language)
    assert code == 0
    assert all(name in told for name in names)
    assert told.count("constexpr uint32_t IDESC") == (language == "cpp")
    for said in (told, called(*given)[1]):
        assert "needs a launch in clusters of 2 CTAs: __cluster_dims__(2, 1, 1)" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("exec", "--arch", "sm_90a", "--json", "/nowhere/at/all.json", "--", "false"),
            "--json /nowhere/at/all.json: cannot write there: there is no such folder",
        ),
        (("exec", "--arch", "sm_90a", "--report", __file__, "--", "false"), "cannot write there: a file of this name is there"),
        (("exec", "--arch", "sm_90a", "--quiett", "--", "false"), "--quiett: no such option; did you mean '--quiet'?"),
        (("exec", "-arch", "sm_90a", "--", "false"), "-arch: no such option; did you mean '--arch'?"),
        (("chek", "kernel.toml"), "chek: no such command; did you mean 'check'?"),
    ],
)
def test_what_cannot_be_is_told_before_the_program_runs(words, said):
    code, told = called(*words)
    assert code == 2  # false ends with 1
    assert said in one_line(told)


@pytest.mark.parametrize("digits", [8, 16])
def test_a_dump_of_gdb_is_read_without_its_addresses_too(digits, tmp_path):
    raw = bytes(
        smemsim.TensorMap.tiled(
            data_type="bf16", global_address=0x10000, global_dim=(64, 64), global_strides=(128,), box_dim=(64, 64), swizzle="128B"
        )
    )
    words = [int.from_bytes(raw[at : at + digits // 2], "little") for at in range(0, 128, digits // 2)]
    per_line = 32 // digits
    lines = [
        f"<map_a{f'+{16 * n}' if n else ''}>:\t" + "\t".join(f"{w:#0{digits + 2}x}" for w in words[n * per_line : (n + 1) * per_line])
        for n in range(8)
    ]
    (tmp_path / "dump.txt").write_text("\n".join(lines))
    assert called("decode", tmp_path / "dump.txt") == called("decode", raw.hex())


def test_the_other_major_is_named_where_only_that_is_read():
    words = (
        "--base",
        "0x400",
        "--arch",
        "sm_90a",
        "--dtype",
        "bf16",
        "--rows",
        "64",
        "--k",
        "16",
        "--layout",
        "Sw<3,4,3> o (64,64):(64,1)",
    )
    code, told = called("solve", *words, "--major", "MN")
    assert code == 1
    assert "2 descriptors read it as K-major: --major K" in told
    assert "--major" not in called("solve", *words, "--major", "K")[1]


KILLED = """
import ctypes, os, signal, threading, time
cuda, module, function, context, flag = ctypes.CDLL("libcuda.so.1"), *(ctypes.c_void_p() for _ in range(4))
ptx = b'''.version 8.0 .target sm_90a .address_size 64 .visible .entry endless(.param .u64 flag) {
.reg .b64 %d; ld.param.u64 %d, [flag]; st.global.u32 [%d], 1; $L: bra $L; }'''
calls = [cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0), cuda.cuModuleLoadData(ctypes.byref(module), ptx)]
calls += [cuda.cuModuleGetFunction(ctypes.byref(function), module, b"endless"), cuda.cuMemAllocManaged(ctypes.byref(flag), 4, 1)]
assert not any(calls), calls
said = ctypes.c_uint32.from_address(flag.value)
said.value = 0

def watch():
    while not said.value:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=watch).start()
cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, (ctypes.c_void_p * 1)(ctypes.addressof(flag)), None)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not any(map(shutil.which, ("cc", "gcc", "clang"))),
    reason="the virtual GPU needs Linux, and a C compiler once",
)
def test_a_launch_in_which_the_program_ends_is_named(tmp_path):
    (tmp_path / "program.py").write_text(KILLED)
    words = ["exec", "--arch", "sm_90a", "--limit", str(10**9), "--", sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run([sys.executable, "-m", "smemsim", *words], capture_output=True, text=True, timeout=60, check=False)
    assert "no launch was over, ended during launch 1 endless, which was not checked; the program: ended by signal 9" in " ".join(
        done.stderr.split()
    )
    assert done.returncode == 137


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("explain", "race"), "'race' is not a finding code; R507, X008, X030 mention it"),
        (("decode", "kernel.ptx"), "kernel.ptx: is PTX, and decode reads one descriptor word"),
        (("run", "kernel.ptx", "--arg", "x.npy"), "a file is file:x.npy"),
        (("run", "kernel.cu"), "this is not PTX, which begins with .version; nvcc -ptx writes it"),
        (("show", "empty.toml"), "nothing to check"),
    ],
)
def test_what_was_meant_is_said(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.ptx").write_text(RACE)
    (tmp_path / "kernel.cu").write_text("__global__ void k() {}\n")
    (tmp_path / "empty.toml").write_text('arch = "sm_90a"\n')
    code, told = called(*words)
    assert code == 2
    assert said in one_line(told)


def test_a_major_is_taken_in_small_letters():
    given = ("map", WORD, "--arch", "sm_90a", "--dtype", "bf16", "--rows", "64", "--k", "16", "--major")
    assert called(*given, "k") == called(*given, "K")


def test_a_current_folder_that_was_removed_is_said(tmp_path):
    (tmp_path / "kernel.ptx").write_text(RACE)
    command = f"mkdir gone; cd gone; rmdir ../gone; {shlex.quote(sys.executable)} -m smemsim run {tmp_path}/kernel.ptx --arg zeros:u32:64"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the current folder was removed; change to another one" in one_line(done.stderr)
