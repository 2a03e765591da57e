"""`smemsim run` as a user meets it: launch files and options, what is printed where, what is written, and the exit
codes.
"""

import hashlib
import json
import pathlib
import re
import tempfile
import time
import tomllib
import urllib.parse

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import smemsim
from messages import is_one_sentence, one_line
from places import ROOT
from smemsim import InputError
from smemsim.cli import main
from smemsim.cli.run import _told, parse_shape
from smemsim.core.tables import Source
from smemsim.diagnosis import Output, Rounding, Tolerance, Wanted
from smemsim.diagnosis.numbers import numbers_told
from smemsim.diagnosis.outputs import Comparison, Error, out_names
from smemsim.evidence import array_of, read_launch_file
from smemsim.evidence.launches import checked
from smemsim.run import RunOptions
from smemsim.virtual import Policy
from strategies import CHARACTERS, examples

KERNELS = ROOT / "golden" / "sm_90a" / "launches" / "kernels"
SCALE = """.version 8.0
.target sm_90
.address_size 64
.visible .entry scale(.param .u64 x, .param .f32 s, .param .u32 n) .reqntid 32 {
  .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [x]; ld.param.f32 %f1, [s]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4; setp.ge.u32 %p, %r5, %r1; @%p ret;
  mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f2, [%rd3]; mul.f32 %f2, %f2, %f1;
  st.global.f32 [%rd3], %f2; ret; }
"""
GOOD = "run k.ptx --grid 4 --arg iota:f32:100 --arg f32:2 --arg u32:100"
RESULT = np.arange(100, dtype=np.float32) * 2
DIGEST = hashlib.sha256(RESULT.tobytes()).hexdigest()
LAUNCH = """
ptx = "k.ptx"
grid = 4
args = [{array = "x"}, {value = 2.0, type = "f32"}, {value = 100, type = "u32"}]
[[arrays]]
name = "x"
dtype = "f32"
shape = [100]
distribution = {iota = [0, 1]}
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ptx").write_text(SCALE)
    return lambda command: CliRunner().invoke(main, command.split(), prog_name="smemsim")


def test_what_is_printed_where(run):
    done = run(GOOD)
    lines = done.stdout.splitlines()
    assert done.exit_code == 0
    assert done.stderr == ""
    assert lines[0] == f"arg0: f32 100, 0 2 4 6 8 10 ..., sha256:{DIGEST}"
    assert lines[-1].startswith("scale: 4 CTAs in ")
    assert lines[-1].endswith(" s, no findings")


def test_a_launch_file_and_the_same_on_the_command_line(run):
    pathlib.Path("l.toml").write_text(LAUNCH)
    about = tomllib.loads(LAUNCH)
    pathlib.Path("l.json").write_text(json.dumps(about | {"schema": "smemsim.launch/1"}))
    pathlib.Path("kernel.ptx").write_text(SCALE)
    pathlib.Path("launch.toml").write_text(LAUNCH.replace('ptx = "k.ptx"', ""))
    first = run(GOOD).stdout.splitlines()[0]
    for command in (
        "run l.toml",
        "run l.json",
        "run k.ptx --launch l.toml",
        "run .",
        "run l.toml --grid 8",
        "run l.toml --entry scale --block 32",
    ):
        done = run(command)
        assert done.exit_code == 0, done.output
        assert done.stdout.splitlines()[0] == first.replace("arg0", "x")


def test_outputs_are_written_and_expected(run):
    assert run(f"{GOOD} --out out").exit_code == 0
    assert np.array_equal(np.load("out/arg0.npy"), RESULT)
    for expected in ("out/arg0.npy", f"sha256:{DIGEST}"):
        done = run(f"{GOOD} --expect arg0={expected}")
        assert done.exit_code == 0
        assert "(as expected)" in done.stdout
    wrong = RESULT.copy()
    wrong[7] = 1
    np.save("wrong.npy", wrong)
    done = run(f"{GOOD} --expect arg0=wrong.npy")
    assert done.exit_code == 1
    assert "different: arg0: 1 of 100 elements differ; arg0[7] is 14, expected 1" in done.stdout
    assert run(f"{GOOD} --expect arg0=sha256:{DIGEST[::-1]}").exit_code == 1
    part = run(f"{GOOD} --expect arg0=wrong.npy --ctas 0")
    assert part.exit_code == 0
    assert "not compared: 1 of 4 CTAs" in part.stderr


RECORD = """
ptx = "k.ptx"
grid = 4
args = [{array = "x"}, {value = 2.0, type = "f32"}, {value = 100, type = "u32"}]
arrays = [{name = "x", file = "x.npy", address = 0x7f0000000000}]
"""


def test_an_array_of_a_record_has_the_type_that_is_expected_or_asked_for(run):
    """A record of an allocation whose type is not known has its bytes."""
    pathlib.Path("record.toml").write_text(RECORD)
    np.save("x.npy", np.arange(100, dtype=np.float32).view(np.uint8))
    np.save("right.npy", RESULT.reshape(10, 10))
    np.save("wrong.npy", RESULT.reshape(10, 10) + (RESULT.reshape(10, 10) == 14))
    np.save("halves.npy", RESULT.view(np.float16))
    np.save("bytes.npy", RESULT.view(np.uint8))
    for expected in ("x=right.npy", "x:f32=right.npy", "x=halves.npy --exact", "x=bytes.npy", f"x=sha256:{DIGEST}"):
        assert run(f"run record.toml --expect {expected}").exit_code == 0, expected
    for expected in ("x=wrong.npy", "x:f32=wrong.npy"):
        done = run(f"run record.toml --expect {expected}")
        assert done.exit_code == 1
        assert "x: f32 10x10, " in done.stdout
        assert "x[0, 7] is 14, expected 15" in done.stdout
    for expected, why in (
        ("x:f33=right.npy", "no element type of whole bytes; did you mean 'f32'?"),
        ("x:bf16=right.npy", "shape (10, 10), x has (200,)"),
    ):
        done = run(f"run record.toml --expect {expected}")
        assert done.exit_code == 2
        assert why in one_line(done.stderr)


def test_a_name_that_leads_to_itself_is_refused_before_the_run(run):
    pathlib.Path("loop").symlink_to("loop")
    done = run(f"{GOOD} --trace loop")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--trace loop: cannot write there: Too many levels of symbolic links" in done.stderr


def test_files_that_were_written_are_named(run):
    done = run(f"{GOOD} --out out --report r.html --trace t.toml --pipeline p.txt --relax")
    assert done.exit_code == 0
    assert re.findall(r"smemsim: wrote (\S+) \(", done.stderr) == ["out", "p.txt", "r.html", "t.toml"]
    assert "relax: no wait was weakened: no ring of stages was filled often enough" in done.stdout


def test_expectations_of_a_launch_file(run):
    np.save("d.npy", RESULT.astype(np.float32) * np.float32(1 + 2**-12))
    text = LAUNCH.replace("grid = 4", 'grid = 4\nexact = false\ntolerance = {relative = 1e-3}\nexpected = {x = "d.npy"}')
    pathlib.Path("l.toml").write_text(text)
    assert run("run l.toml").exit_code == 0
    pathlib.Path("l.toml").write_text(text.replace("1e-3", "1e-5"))
    assert run("run l.toml").exit_code == 1
    for wrong in ("2 * x", "d.npz", "d.bin", "d", "SHA256:00"):
        pathlib.Path("l.toml").write_text(text.replace("d.npy", wrong))
        done = run("run l.toml")
        assert done.exit_code == 2
        assert f"expected.x = '{wrong}': needs the name of an .npy file" in done.stderr


SCRATCH = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 scratch) {
  .reg .b32 %r<4>; .reg .b64 %rd<5>; .shared .align 4 .b8 s[128];
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [scratch]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3; mov.u32 %r2, s; mad.lo.u32 %r2, %r1, 4, %r2;
  ld.shared.u32 %r3, [%r2]; st.global.u32 [%rd2], %r3; st.global.u32 [%rd1], %r1; ret; }
"""


def test_an_uninitialised_value_counts_in_the_arrays_that_are_expected(run):
    pathlib.Path("s.ptx").write_text(SCRATCH)
    np.save("right.npy", np.arange(32, dtype=np.uint32))
    call = "run s.ptx --block 32 --arg zeros:u32:32 --arg zeros:u32:32"
    done = {expect: run(f"{call} {expect}") for expect in ("", "--expect arg0=right.npy", "--expect arg1=right.npy")}
    assert [one.exit_code for one in done.values()] == [1, 0, 1]
    assert ["R507" in one.stdout for one in done.values()] == [True, True, True]  # a remark, too
    assert "nothing has used it" in done["--expect arg0=right.npy"].stdout


def test_an_expression_of_a_recorded_launch_is_not_compared_and_a_line_says_so(run):
    pathlib.Path("folder").mkdir()
    pathlib.Path("folder/kernel.ptx").write_text(SCALE)
    about = tomllib.loads(LAUNCH.replace('ptx = "k.ptx"', "")) | {"expected": {"x": "2 * x"}}
    pathlib.Path("folder/launch.json").write_text(json.dumps(about))
    done = run("run folder")
    assert done.exit_code == 0, done.stderr
    assert "x is not compared: expected.x is an expression" in done.stderr
    for digest, code in ((DIGEST, 0), (DIGEST[::-1], 1)):
        pathlib.Path("folder/launch.json").write_text(json.dumps(about | {"expected": {"x": f"sha256:{digest}"}}))
        done = run("run folder")
        assert (done.exit_code, "is not compared" in done.stderr) == (code, False)


def test_tolerances_are_numpys_and_the_options_go_before_the_file(run):
    """|found - expected| <= atol + rtol * |expected|, the words of the file and of the options alike."""
    wanted = RESULT.copy()
    wanted[50] *= 1 + 2.0**-7
    wanted[10] += 0.125
    np.save("w.npy", wanted)
    text = LAUNCH.replace("grid = 4", 'grid = 4\nexpected = {x = "w.npy"}')
    pathlib.Path("none.toml").write_text(text)
    for words, code in (("rtol = 0.01", 0), ("rtol = 0.006\natol = 0.25", 0), ("rtol = 0.001", 1), ("atol = 0.5", 1), ("atol = 1", 0)):
        pathlib.Path("l.toml").write_text(text.replace("grid = 4", f"grid = 4\n{words}"))
        assert np.allclose(RESULT, wanted, **{"rtol": 0, "atol": 0} | tomllib.loads(words)) == (code == 0)
        options = " ".join(f"--{line.replace(' = ', ' ')}" for line in words.splitlines())
        for command in ("run l.toml", f"run none.toml {options}", f"run l.toml {options}"):
            done = run(command)
            assert done.exit_code == code, (words, done.output)
    told = "different: x: 1 of 100 elements differ by more than rtol = 0, atol = 0.5; x[50] is 100, expected 100.78125 (1 other element differs within the tolerance); "
    done = run("run none.toml --atol 0.5").stdout
    assert f"{told}largest absolute error 0.781 at x[50] (100, expected 100.78125), largest relative error 0.00775 at x[50]\n" in done
    assert run("run l.toml --rtol 0.01 --atol 0").exit_code == 0 == run("run none.toml --rtol 0.01").exit_code
    assert (
        "as expected within rtol = 0.01, atol = 0: 2 of 100 elements differ, largest absolute error 0.781"
        in run("run none.toml --rtol 0.01").stdout
    )
    told = json.loads(run("run none.toml --rtol 0.001 --json").stdout)["outputs"][0]
    assert (told["differing"], told["beyond"], told["looks_like_rounding"]) == (2, 2, False)
    assert told["largest_absolute_error"] == {"size": 0.78125, "at": [50]}


def test_what_looks_like_rounding_is_no_difference_unless_every_bit_is_asked_for(run):
    rng = np.random.default_rng(0)
    np.save("near.npy", RESULT.astype(np.float64) * (1 + 2.0**-22 * rng.standard_normal(100)))
    np.save("same.npy", RESULT.astype(np.float64) * (1 + 2.0**-30))
    np.save("far.npy", RESULT * (1 + 2.0**-9 * rng.standard_normal(100)))
    done = run(f"{GOOD} --expect arg0=near.npy")
    assert done.exit_code == 0
    assert "(as expected except for rounding: " in done.stdout
    assert "largest relative error" in done.stdout
    assert "--exact demands every bit)" in done.stdout
    # a reference of a wider type counts once it is rounded
    assert "(as expected)" in run(f"{GOOD} --expect arg0=same.npy --exact").stdout
    for options in ("--exact", "--rtol 1e-9"):
        done = run(f"{GOOD} --expect arg0=near.npy {options}")
        assert done.exit_code == 1
        assert "; it looks like rounding: another order of summation" in done.stdout
    done = run(f"{GOOD} --expect arg0=far.npy")
    assert done.exit_code == 1
    assert "rounding" not in done.stdout
    np.save("near.npy", RESULT.astype(np.int64))
    assert run(f"{GOOD} --expect arg0=near.npy --exact").exit_code == 0
    pathlib.Path("l.toml").write_text(LAUNCH.replace("grid = 4", 'grid = 4\nexact = true\nexpected = {x = "far.npy"}'))
    assert run("run l.toml").exit_code == 1
    assert run("run l.toml --rtol 0.1").exit_code == 0


@pytest.mark.parametrize("dtype", ["f16", "bf16", "e4m3", "f32", "s32"])
def test_a_reference_of_a_wider_type_is_right_where_numpy_rounds_it_alike(dtype):
    exact = np.random.default_rng(1).standard_normal(500) * 50
    bits = smemsim.from_float64(exact, dtype)
    stored = array_of({"dtype": dtype, "shape": [500], "distribution": "zeros"})
    stored.view(bits.dtype)[:] = bits
    output = Output("d", stored, dtype)
    assert output.against(np.rint(exact) if dtype == "s32" else exact, "w", Wanted(exact=True)).verdict == "as expected"
    other = stored.copy()
    other.view(bits.dtype)[7] ^= 1
    for how in (Wanted(exact=True), Wanted()):
        assert Output("d", other, dtype).against(exact, "w", how).beyond >= 1
    fmt = smemsim.core.spec.formats.FORMATS[dtype]
    told = Output("d", other, dtype).against(exact, "w", Wanted(rounding=Rounding.of(fmt, 0.0)))
    assert (told.beyond == 0) == told.is_rounding == fmt.is_float  # of integers every bit counts


def test_infinities_and_nans_are_equal_to_themselves_alone():
    found = np.array([np.nan, np.inf, -np.inf, np.inf, 1.0, np.nan, 2.0], np.float32)
    wanted = np.array([np.nan, np.inf, -np.inf, -np.inf, np.inf, 1.0, 2.0])
    for how in (
        Wanted(exact=True),
        Wanted(Tolerance(rtol=0.5)),
        Wanted(rounding=Rounding.of(smemsim.core.spec.formats.FORMATS["f32"], 0.0)),
    ):
        told = Output("d", found, "f32").against(wanted, "w", how)
        assert (told.differing, told.beyond) == (3, 3)
        assert not told.is_rounding
        assert "d[3] is inf, expected -inf" in told.text


def errors_by_hand(found, wanted, same):
    """The largest absolute and relative error and its first place, one element after the other."""
    best = {}
    for at in np.ndindex(found.shape):
        a, b = float(found[at]), float(wanted[at])
        if same[at] or not (np.isfinite(a) and np.isfinite(b)):
            continue
        for name, size in (("absolute", abs(a - b)), ("relative", abs(a - b) / abs(b) if b else 0.0)):
            if size > best.get(name, (0.0,))[0]:
                best[name] = size, at
    return best


@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 3, 4)])
@pytest.mark.parametrize("tolerance", [None, Tolerance(atol=1.5), Tolerance(rtol=0.125)])
@pytest.mark.parametrize("far", [0, 1, 2])
def test_what_is_said_of_a_difference_is_what_a_count_by_hand_gives(shape, tolerance, far):
    rng = np.random.default_rng(far)
    wanted = np.asarray(rng.integers(-8, 9, shape), np.float32)
    found = wanted.copy()
    flat, off = found.reshape(-1), (0.5, -0.25, 1.0, 0.125)
    for n, by in zip(range(0, flat.size, 3), off, strict=False):
        flat[n] += by  # near
    for n in range(flat.size)[1 : 1 + far] if shape else [0] * far:
        flat[n] += 20 + n
    found = flat.reshape(shape)
    told = Output("d", found, "f32").against(wanted, "w", Wanted(tolerance, rounding=Rounding(least=0.75)))
    differs, apart = found != wanted, np.abs(found.astype(np.float64) - wanted)
    beyond = apart > (0.75 if tolerance is None else tolerance.atol + tolerance.rtol * np.abs(wanted.astype(np.float64)))
    assert (told.size, told.differing, told.beyond) == (found.size, differs.sum(), beyond.sum())
    by_hand = errors_by_hand(found, wanted, ~differs)
    assert {name: (error.size, error.at) for name, error in told.errors.items()} == by_hand
    named = {name: f"d[{', '.join(map(str, at))}]" if at else "d" for name, (_, at) in by_hand.items()}
    said = [f"largest {name} error {size:.3g} at {named[name]}" for name, (size, _) in by_hand.items()]
    at = by_hand["absolute"][1]
    said[0] += f" ({found[at]:g}, expected {wanted[at]:g})"
    assert told.largest == ", ".join(said)
    within = "except for rounding" if tolerance is None else f"within {tolerance}"
    if not beyond.any():
        assert told.text == ""
        assert (
            told.verdict
            == f"as expected {within}: {differs.sum()} of {found.size} elements differ, {told.largest}"
            + "; --exact demands every bit" * (tolerance is None)
        )
        return
    first = tuple(int(n) for n in np.argwhere(beyond)[0])
    limit = "too little to count" if tolerance is None else "within the tolerance"
    left = int(differs.sum() - beyond.sum())
    others = f" ({left} other element{'s differ' if left > 1 else ' differs'} {limit})" * (left > 0)
    name = f"d[{', '.join(map(str, first))}]" if shape else "d"
    assert told.verdict == ""
    assert told.text.startswith(f"d: {beyond.sum()} of {found.size} elements differ{f' by more than {tolerance}' if tolerance else ''}")
    more = "; it looks like rounding: another order of summation, or another type of accumulation, gives differences of this size"
    assert told.is_rounding == (apart.max() <= 0.75)
    assert told.text.endswith(f"; {name} is {found[first]:g}, expected {wanted[first]:g}{others}; {told.largest}{more * told.is_rounding}")
    if len(shape) == 2:
        rows, columns = (numbers_told(sorted({*x.tolist()}), of) for x, of in zip(np.nonzero(beyond), shape, strict=True))
        assert f", in rows {rows} and columns {columns}; " in told.text
    else:
        assert " in rows " not in told.text


def test_what_is_no_number_differs_bit_by_bit_and_has_no_largest_error():
    whole, half = (np.array([(n, 2.5) for n in rows], [("a", "<u4"), ("b", "<f4")]) for rows in ((1, 2, 3), (1, 7, 3)))
    told = Output("d", whole).against(half, "w", Wanted(rounding=Rounding.of(smemsim.core.spec.formats.FORMATS["f32"], 0.0)))
    assert (told.differing, told.beyond, told.is_rounding, told.errors) == (1, 1, False, {})
    assert told.text.startswith("d: 1 of 3 elements differ; d[1] is ")
    assert told.text.endswith("; none by a number")
    assert Output("d", whole).against(whole.copy(), "w", Wanted()).verdict == "as expected"


def test_another_digest_is_a_difference_of_which_nothing_more_is_known(tmp_path):
    output = Output("d", np.arange(3))
    told = output.compared(f"sha256:{DIGEST}", tmp_path, Wanted(Tolerance(rtol=9.0)))
    assert told.text == told.difference == f"d: sha256:{output.sha256}, expected sha256:{DIGEST}"
    assert (told.differing, told.beyond, told.errors) == (1, 0, {})
    assert output.compared(f"sha256:{output.sha256}", tmp_path).verdict == "as expected"


def test_the_file_of_an_array_says_its_name():
    names = ["d", "p/x", "...", ".a", "con", "Aux.b", "lpt9", "com1.", "com10", "cons", "a con", "é%", "a~b_c-d.e0Z"]
    for name, file in out_names(names).items():
        stem = file.removesuffix(".npy")
        assert urllib.parse.unquote(stem) == name
        assert not re.match(r"(?i)\.|(con|prn|aux|nul|com[1-9]|lpt[1-9])(\.|$)", stem)
        plain = re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", name) and name.partition(".")[0].lower() not in ("con", "aux", "lpt9", "com1")
        assert (stem == name) == bool(plain)
    assert [*out_names(["ab", "aB", "Ab", "x", "AB"]).values()] == ["ab.npy", "aB~2.npy", "Ab~3.npy", "x.npy", "AB~4.npy"]
    assert [len(file) for file in out_names([letter * 300 for letter in "ab"]).values()] == [104, 104]


ONES = {
    name: np.ones(3, dtype)
    for name, dtype in (("bf16", ml_dtypes.bfloat16), ("e4m3", ml_dtypes.float8_e4m3fn), ("f16", "f2"), ("f32", "f4"))
}


@pytest.mark.parametrize(
    ("held", "dtype", "wanted", "takes"),
    [
        # raw bits of a type that numpy lacks: bits of the same size are bits, all else is numbers
        (ONES["bf16"].view("u2"), "bf16", ONES["bf16"].view("u2"), "bits"), (ONES["bf16"].view("u2"), "bf16", ONES["bf16"].view("V2"), "bits"),
        (ONES["bf16"].view("u2"), "bf16", ONES["bf16"], "bits"), (ONES["bf16"], "bf16", ONES["bf16"].view("u2"), "bits"), (ONES["bf16"], "", ONES["bf16"], "bits"),
        (ONES["bf16"].view("u2"), "bf16", ONES["bf16"].view("i2"), "bits"), (ONES["bf16"].view("u2"), "bf16", np.ones(3, "u4"), "numbers"),
        (ONES["bf16"].view("u2"), "bf16", ONES["f32"], "numbers"), (ONES["bf16"].view("u2"), "bf16", ONES["f16"], "numbers"), (ONES["e4m3"].view("u1"), "e4m3", ONES["e4m3"], "bits"),
        (ONES["bf16"].view("u2"), "bf16", ONES["f32"].view("V4"), "none"), (ONES["bf16"].view("u2"), "bf16", np.zeros(3, [("x", "u2")]).view("V2"), "differ"),
        # a type that numpy has: unsigned numbers of its size may be bits or numbers
        (ONES["f16"], "f16", ONES["f16"], "bits"), (ONES["f16"], "f16", ONES["f32"], "numbers"), (ONES["f16"], "f16", np.ones(3, "i2"), "numbers"),
        (ONES["f16"], "f16", np.ones(3, "u2"), "unclear"), (ONES["f16"], "f16", ONES["f16"].view("V2"), "none"), (ONES["f32"], "f32", np.ones(3, "u2"), "numbers"),
        # integers of one size are equal bit by bit
        (-np.ones(3, "i4"), "", -np.ones(3, "i4"), "bits"), (-np.ones(3, "i4"), "", np.full(3, 2**32 - 1, "u4"), "bits"), (np.full(3, 2**32 - 1, "u4"), "", -np.ones(3, "i4"), "bits"),
        (-np.ones(3, "i4"), "", -np.ones(3, "i8"), "numbers"), (np.full(3, 2**32 - 1, "u4"), "", -np.ones(3, "i8"), "differ"), (-np.ones(3, "i4"), "", -ONES["f32"], "numbers"),
        (-np.ones(3, "i4"), "", np.ones(3, "V4"), "none"), (np.ones(3, "u4"), "", np.ones(3, "u4").view("V4"), "bits"), (np.ones(3, bool), "", np.ones(3, bool), "bits"),
        (np.ones(3, "u4"), "", np.ones(3, complex), "none"), (np.zeros(3, [("x", "u4")]), "", np.zeros(3, [("x", "u4")]), "bits"), (np.zeros(3, [("x", "u4")]), "", np.zeros(3, [("x", "u8")]), "none"),
    ],
)  # fmt: skip
def test_bits_are_compared_where_both_sides_have_bits_and_else_numbers(held, dtype, wanted, takes):
    output = Output("d", held, dtype)
    if takes in ("none", "unclear"):
        with pytest.raises(InputError, match="needs numbers" if takes == "none" else "bits or numbers"):
            output.against(wanted, "w", Wanted(exact=True))
        return
    for how in (Wanted(exact=True), Wanted(), Wanted(Tolerance(rtol=0.5))):
        assert output.against(wanted, "w", how).differing == (3 if takes == "differ" else 0)
    if takes == "bits":  # of which each counts
        other = np.ascontiguousarray(wanted).copy()
        other.view("u1").reshape(3, -1)[1, 0] ^= 1
        assert output.against(other, "w", Wanted(exact=True)).differing == 1
    elif takes == "numbers":
        assert output.against(wanted + wanted.dtype.type(1), "w", Wanted(exact=True)).differing == 3


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (RESULT.reshape(4, 25), "shape (4, 25), arg0 has (100,); needs the same shape"),
        (RESULT[:99], "shape (99,)"),
        (RESULT.view(np.uint32), ".view(numpy.float32) for bits"),
        (RESULT + 0j, "elements of complex64, arg0 is f32; needs numbers"),
    ],
)
def test_an_expected_array_that_is_none_is_refused_before_the_run(run, wanted, said):
    np.save("w.npy", wanted)
    for options in ("", " --rtol 0.1", " --exact"):
        done = run(f"{GOOD} --expect arg0=w.npy{options}")
        assert done.exit_code == 2
        assert said in one_line(done.stderr)
        assert is_one_sentence(done.stderr)


def test_a_finding_has_its_line(run):
    done = run(GOOD.replace("u32:100", "u32:128") + " --report r.html --trace t.toml")
    assert done.exit_code == 1
    line = next(n for n, text in enumerate(SCALE.splitlines(), 1) if "ld.global" in text)
    assert f"X001  k.ptx:{line}  4 bytes at global address" in done.stdout
    assert "access  thread (4, 0, 0) of CTA (3, 0, 0)" in done.stdout
    assert f"      {line} | ld.global.f32 %f2, [%rd3]" in done.stdout
    page = pathlib.Path("r.html").read_text()
    assert page.startswith("<!doctype html>")
    assert f"<span class=at>{line:6} |" in page
    assert tomllib.loads(pathlib.Path("t.toml").read_text())["arch"] == "sm_90a"


def test_json_has_everything(run):
    told = json.loads(run(f"{GOOD} --json --expect arg0=sha256:{'00' * 32}").stdout)
    assert told["ok"]
    assert told["ctas"] == 4
    assert told["outputs"] == [
        {
            "name": "arg0",
            "dtype": "f32",
            "shape": [100],
            "sha256": DIGEST,
            "difference": f"arg0: sha256:{DIGEST}, expected sha256:{'00' * 32}",
            "explanation": "",
        }
    ]


def test_the_list_of_instructions(run):
    done = run("run k.ptx --list")
    assert done.exit_code == 0
    assert "     3  ld.param.u64" not in done.stdout
    assert "     3  mov.u32" in done.stdout.splitlines()
    assert done.stdout.endswith("none not modelled on sm_90a\n")
    pathlib.Path("k.ptx").write_text(SCALE.replace("mul.f32", "mul.f33").replace("st.global.f32", "st.global.f34"))
    done = run("run k.ptx --list")
    assert done.exit_code in (2, 3)
    surface = "vmad.s32.s32.s32 %r1, %r2, %r2, %r2;\n  multimem.st.relaxed.sys.global.b32 [%rd1], %r1;\n  st.global.f32"
    pathlib.Path("k.ptx").write_text(SCALE.replace("st.global.f32", surface))
    done = run("run k.ptx --list")
    assert done.exit_code == 3
    assert "     1  vmad.s32.s32.s32  not modelled" in done.stdout.splitlines()
    assert "k.ptx:11: not modelled" in done.stdout
    assert "k.ptx:12: not modelled" in done.stdout
    told = json.loads(run("run k.ptx --list --json").stdout)
    assert sorted(told["unmodelled"]) == ["11", "12"]
    ran = run(GOOD)
    assert ran.exit_code == 3
    assert ran.stdout == ""
    assert ran.stderr.count("line 11") == ran.stderr.count("line 12") == 1


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("run nothing.ptx", "there is no such file"),
        ("run nothing.toml", "there is no such file"),
        ("run k.ptx --launch nothing.toml", "there is no such file"),
        ("run .", "no launch.json or launch.toml"),
        ("run k.ptx", "0 given, the kernel has 3 parameters (0: x (.u64); 1: s (.f32); 2: n (.u32))"),
        (f"{GOOD} --entry scal", "did you mean 'scale'"),
        (f"{GOOD} --block 64", ".reqntid"),
        (f"{GOOD} --grid 0", "--grid"),
        (f"{GOOD} --grid 4,a", "--grid"),
        (f"{GOOD} --shared 1000000", "shared_bytes"),
        (f"{GOOD} --arch sm_80a", "sm_80a"),
        (f"{GOOD} --ctas 4", "--ctas 4: the grid has 4 CTAs, needs 0 to 3"),
        (f"{GOOD} --ctas sample,2-9", "--ctas 9: the grid has 4 CTAs, needs 0 to 3"),
        (f"{GOOD} --pipeline p.txt --cta 99", "--cta 99: the grid has 4 CTAs, needs 0 to 3"),
        (f"{GOOD} --pipeline p.txt --cta 3 --ctas 0", "pipeline.cta = 3: this CTA is not among the ctas that run"),
        (f"{GOOD} --ctas 2-1", "--ctas"),
        (f"{GOOD} --ctas 0-99999999999", "--ctas"),
        (f"{GOOD} --expect y=a.npy", "arrays are arg0"),
        (f"{GOOD} --expect arg0=a.npy", "there is no such file"),
        (f"{GOOD} --expect arg0=k.ptx", ".npy"),
        *[
            (f"{GOOD} --expect arg0={digest}", "64 hexadecimal digits")
            for digest in (
                "sha256:",
                "sha256:ab",
                f"sha256:{DIGEST}0",
                f"sha256:{DIGEST[1:]}",
                f"sha256:{DIGEST[1:]}g",
                f"SHA256:{DIGEST}",
                f"md5:{DIGEST}",
                "sha256:a.npy",
            )
        ],
        (f"{GOOD} --expect arg0=sha256:{DIGEST} --expect arg0=sha256:{DIGEST}", "was given already"),
        (f"{GOOD} --expect arg0:f32=a.npy --expect arg0=sha256:{DIGEST}", "was given already"),
        (f"{GOOD} --rtol 1 --exact", "--exact and --rtol: needs one of the two"),
        (f"{GOOD} --atol -1", "atol = -1.0: needs a number, 0 or more"),
        (f"{GOOD} --out k.ptx", "--out k.ptx: cannot write"),
        (f"{GOOD} --out /proc/x", "--out /proc/x: cannot write there"),
        (f"{GOOD} --relax-at here", "relax at 'here': no wait of CTA 0 is there; give a line of the PTX, a source line"),
        (f"{GOOD} --out new/folder --block 64", ".reqntid"),
        (f"{GOOD} --trace /proc/x", "--trace /proc/x: cannot write there"),
        (f"{GOOD} --report no/r.html", "cannot write"),
        (f"{GOOD} --trace t.toml --no-sanitize", "only with the sanitizer"),
        ("run k.ptx --arg zero:f32:4", "did you mean 'zeros'"),
        ("run k.ptx --arg zeros:f23:4", "did you mean 'f32'"),
        ("run k.ptx --arg zeros:f32", "zeros:f32:128x64"),
        ("run k.ptx --arg zeros:f32:4xa", "zeros:f32:128x64"),
        ("run k.ptx --arg integers:f32:4", "LOWEST:HIGHEST"),
        ("run k.ptx --arg u32:4.5", "whole number"),
        ("run k.ptx --arg u32", "whole number"),
        ("run k.ptx --arg f32:a", "number"),
        ("run k.ptx --arg array:0", "earlier argument"),
        ("run k.ptx --arg file:k.ptx --arg f32:1 --arg u32:1", "not an .npy file"),
        ("run k.ptx --arg bytes:xy --arg f32:1 --arg u32:1", "args[0]"),
        ("run k.ptx --arg u32:-5000000000 --arg f32:1 --arg u32:1", "--arg 'u32:-5000000000'"),
    ],
)
def test_bad_input_is_one_sentence(run, command, said):
    done = run(command)
    assert done.exit_code == 2, done.output
    assert not pathlib.Path("new").exists()  # of a run that is refused
    assert said in one_line(done.stderr)
    assert is_one_sentence(done.stderr)
    assert done.stderr.startswith("smemsim: ")


CHANGES = {
    "schema = 5": "this smemsim reads",
    "grdi = 4": "l.toml:1: grdi: not a key here; did you mean 'grid'?",
    "block = 'a'": "block",
    "shared_bytes = 'a'": "shared_bytes",
    "entry = 5": "entry = 5: needs a text",
    "outputs = ['y']": "'y' is none of the arrays (x)",
    "outputs = 4": "outputs = 4",
    "expected = {y = 'a.npy'}": "'y' is none of the arrays",
    "expected = {x = 4}": "expected",
    "tolerance = {relative = 'a'}": "tolerance",
    "tolerance = {relativ = 1}": "did you mean 'relative'",
    "expected = {x = 'sha256:12'}": "64 hexadecimal digits",
    "exact = 'no'": "exact = 'no': needs true or false",
    "grid = ": "not TOML or JSON",
    "rtol = -1": "rtol = -1: needs a number, 0 or more",
    "atol = inf": "atol = inf: needs a number",
    "rtol = true": "rtol = True: needs a number",
    "rtol = 1e-3\nexact = true": "rtol and exact = True: needs one of the two",
    "atol = 1\ntolerance = {relative = 1}": "atol and tolerance = {'relative': 1}: needs one of the two",
}
REPLACED = {
    'array = "x"': ("array = 5", "args[0].array = 5"),
    '{array = "x"}': ("{}", "needs one of array, map"),
    'type = "f32"': ('type = "f33"', "args[1].type = 'f33'"),
    "value = 100": ("null = true, value = 100", "needs one of"),
    "value = 2.0": ("value = 'a'", "args[1]"),
    'value = 100, type = "u32"': ('value = 100, type = "f32"', "args[2]: type = f32, parameter"),
    "{value = 100,": ("{value = 1e10,", "needs 0 to 4294967295 for type u32"),
    "{value = 100, ": ("{value = -1, ", "l.toml:4: args[2].value = -1: needs 0 to 4294967295 for type u32; write s32"),
    "grid = 4": ("grid = 4\nctas = [-1]", "needs a list of numbers of CTAs"),
    "{value = 2.0,": ("{scratch = 99999999999999}, {value = 2.0,", "at most"),
    "{value = 100": ('{map = {global_address = "x"}}, {value = 100', "data_type, global_dim, global_strides, box_dim not given"),
    'dtype = "f32"': ('dtype = "f32"\nseed = -1', "l.toml: array x cannot be made: seed = -1"),
    "shape = [100]": ("shap = [100]", "did you mean 'shape'"),
    'name = "x"': ("", "needs a table with a name"),
    "{iota = [0, 1]}": ('"gamma"', "cannot be made"),
    "[[arrays]]": ("[arrays]\nx = 5\n[arrays.y]", "arrays = "),
}


@pytest.mark.parametrize("change", [*CHANGES, *REPLACED])
def test_what_is_wrong_in_a_launch_file_is_one_sentence(run, change):
    if change in CHANGES:
        text, said = f"{change}\n{LAUNCH}", CHANGES[change]
    else:
        text, said = LAUNCH.replace(change, REPLACED[change][0]), REPLACED[change][1]
    pathlib.Path("l.toml").write_text(text)
    done = run("run l.toml")
    assert done.exit_code == 2, done.output
    assert said in one_line(done.stderr)
    assert is_one_sentence(done.stderr)


SHAPES = {
    f"[{', '.join(['64'] * 300)}]": "arrays[0] (x): shape: has 300 extents; needs at most 32",
    "[4_000_000, 4_000_000, 0x7fff_ffff_ffff]": "arrays[0] (x): shape = [4000000, 4000000, 140737488355327]: needs 0 to 268,435,456 elements",
    "[0, 4_000_000_000_000]": "needs 0 to 268,435,456 elements",
    "[-1]": "shape = [-1]: needs a list of whole numbers, such as [128, 64]",
    "[true]": "shape = [True]: needs a list of whole numbers",
    f"[{'9' * 5000}]": "l.toml: holds a number of thousands of digits",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_that_no_array_has_is_refused_before_memory_is_asked_for(run, shape):
    pathlib.Path("l.toml").write_text(LAUNCH.replace("[100]", shape))
    done = run("run l.toml")
    assert done.exit_code == 2, done.output
    assert SHAPES[shape] in one_line(done.stderr)


@pytest.mark.parametrize("text", ['{"grid": 4, "grid": 4}', f"{'a.' * 65}b = 1"])
def test_a_launch_file_that_cannot_be_read_is_named(run, text):
    pathlib.Path("l.json" if text[0] == "{" else "l.toml").write_text(text)
    done = run(f"run k.ptx --launch l.{'json' if text[0] == '{' else 'toml'}")
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("smemsim: l.")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 1 << 70)
    | st.floats()
    | st.text(CHARACTERS, max_size=5)
    | st.sampled_from(["x", "f32", "zeros"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["array", "map", "name", "shape", "value", "type", "file"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@examples(200)
@given(st.sampled_from([*tomllib.loads(LAUNCH), "expected", "outputs", "tolerance", "shared_bytes", "cluster", "entry", "schema"]), JSON)
def test_anything_in_a_launch_file_is_taken_or_a_sentence(key, value):
    about = tomllib.loads(LAUNCH) | {key: value}
    try:
        checked(about, Source("l.toml"))
    except InputError as e:
        assert str(e).startswith("l.toml: ")  # noqa: PT017


def test_scratch_maps_and_structures_of_a_launch_file(tmp_path):
    """What a file says arrives as the parameter's bytes: maps by value and by address, zeroed memory, structures."""
    told = {"data_type": "u8", "global_address": "x", "global_dim": [64, 8], "global_strides": [64], "box_dim": [64, 8], "element_strides": [1, 1],
            "interleave": "none", "swizzle": "none", "l2_promotion": "none", "oob_fill": "zeros"}  # fmt: skip
    args = [{"map": told}, {"maps": [told, told]}, {"scratch": 32}, {"bytes": "0102"}, {"array": "x", "offset": 8}, {"null": True}]
    about = {"args": args, "arrays": {"x": {"dtype": "u8", "shape": [8, 64], "distribution": "zeros"}}}
    (tmp_path / "launch.json").write_text(json.dumps(about))
    (tmp_path / "kernel.ptx").write_text(SCALE)
    gpu = smemsim.Gpu()
    arrays, found = read_launch_file(tmp_path).placed(gpu)
    address = arrays["x"].address
    tm = bytes(smemsim.TensorMap.tiled(**told | {"global_address": address}))
    assert found[0] == tm
    assert gpu.memory.span(int.from_bytes(found[1], "little"), 256).tobytes() == tm + tm
    assert gpu.memory.span(int.from_bytes(found[2], "little"), 32).tobytes() == bytes(32)
    assert found[3:] == [b"\1\2", (address + 8).to_bytes(8, "little"), bytes(8)]


def test_the_documented_launch_file_is_one(tmp_path):
    """Its map is one that the driver takes, over the array that it names."""
    [text] = re.findall(
        r"```toml launch.toml\n(grid = .*?)```",
        (ROOT / "docs" / "reference" / "launch-files.md").read_text(),
        re.DOTALL,
    )
    (tmp_path / "launch.toml").write_text(text)
    (tmp_path / "kernel.ptx").write_text(SCALE)
    file = read_launch_file(tmp_path)
    arrays, args = file.placed(smemsim.Gpu())
    assert smemsim.TensorMap.from_bytes(args[0]).global_address == arrays["A"].address
    config = file.config(args)
    assert (len(config.args), config.grid, config.block, config.cluster) == (3, (2, 2, 1), (128, 1, 1), None)


@pytest.mark.parametrize(
    ("stored", "dtype", "read"),
    [
        (np.uint8, "bf16", np.uint16),
        (np.uint8, "f32", np.float32),
        (np.uint8, "e4m3", np.uint8),
        (np.float32, "f32", np.float32),
        (np.float32, "bf16", "has elements of float32, of 4 bytes; dtype = 'bf16' has 2"),
    ],
)
def test_a_file_of_bytes_gets_the_element_type_that_is_given(stored, dtype, read, tmp_path):
    """Recorded arrays are bytes. Every type reads the same bytes."""
    data = np.arange(2400, dtype=np.uint8).view(stored)
    np.save(tmp_path / "A.npy", data)
    (tmp_path / "kernel.ptx").write_text(SCALE)
    text = f'grid = 1\nblock = 1\nargs = []\n[arrays]\nA = {{file = "A.npy", dtype = "{dtype}"}}\n'
    (tmp_path / "launch.toml").write_text(text)
    file = read_launch_file(tmp_path)
    if isinstance(read, str):
        with pytest.raises(smemsim.InputError, match=re.escape(read)):
            file.arrays()
    else:
        assert file.arrays()["A"].dtype == read
        assert file.arrays()["A"].tobytes() == data.tobytes()


@pytest.mark.parametrize("name", ["alu_int32", "histogram", "gemm_bf16", "tma_tiles_64b"])
def test_a_recorded_launch_runs_from_its_folder(name, tmp_path, monkeypatch):
    """The outputs are those of the reader's arrays on a device of one's own; nothing is found in a kernel that ran on
    an H200.
    """
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["run", str(KERNELS / name), "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == 0
    assert told["findings"] == []
    file = read_launch_file(KERNELS / name)
    gpu = smemsim.Gpu("sm_90a")
    arrays, args = file.placed(gpu)
    gpu.run(file.ptx, file.config(args), RunOptions(sanitize=False))
    assert {x["name"]: x["sha256"] for x in told["outputs"]} == {
        n: hashlib.sha256(arrays[n].numpy().tobytes()).hexdigest() for n in file.about["outputs"]
    }


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=4))
def test_numbers_of_ctas(parts):
    text = ",".join(f"{a}-{a + n}" if n else str(a) for a, n in parts)
    assert Policy.of({"SMEMSIM_CTAS": text}).ctas == tuple(x for a, n in parts for x in range(a, a + n + 1))
    assert parse_shape("--grid", ",".join(str(a + 1) for a, _ in parts[:3])) == [a + 1 for a, _ in parts[:3]]


@examples(60)
@given(st.sampled_from(["f32", "bf16", "e4m3", "s32"]), st.integers(0, 5), st.integers(1, 7), st.integers(1, 7), st.data())
def test_a_difference_names_the_first_element_and_counts_all(dtype, seed, rows, columns, data):
    mine = array_of({"dtype": dtype, "shape": [rows, columns], "seed": seed, "distribution": "bits"})
    output = Output("d", mine, dtype)
    places = data.draw(st.sets(st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1))))
    wanted = mine.copy()
    bits = wanted.view(f"u{wanted.itemsize}")
    for at in places:
        bits[at] ^= 1
    assert output.sha256 == hashlib.sha256(mine.tobytes()).hexdigest()
    with tempfile.TemporaryDirectory() as folder:
        np.save(pathlib.Path(folder) / "d.npy", wanted)
        said = output.compared("d.npy", pathlib.Path(folder), Wanted(exact=True)).difference
    if not places:
        assert said == ""
    else:
        assert said.startswith(f"d: {len(places)} of {rows * columns} elements differ")
        assert f"d[{', '.join(map(str, min(places)))}] is " in said


STORES = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 o) { .reg .b64 %d; ld.param.u64 %d, [o]; st.global.u8 [%d], 7; ret; }
"""


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 8, 16])
def test_elements_without_a_type_are_raw_bits(size, run):
    pathlib.Path("k.ptx").write_text(STORES)
    np.save("given.npy", np.zeros(4, f"V{size}"))
    done = run("run k.ptx --arg file:given.npy")
    assert "internal error" not in done.stderr
    if size in (1, 2, 4, 8):
        assert (done.exit_code, done.stdout.splitlines()[0].partition(",")[0]) == (0, f"arg0: u{8 * size} 4")
    else:
        assert done.exit_code == 2
        assert f"an array of |V{size}; needs plain numbers" in done.stderr


def test_an_access_to_an_empty_array_is_a_finding_with_its_line(run):
    pathlib.Path("k.ptx").write_text(STORES)
    np.save("nothing.npy", np.zeros((0, 4), np.float32))
    done = run("run k.ptx --arg file:nothing.npy")
    assert done.exit_code == 1
    assert "X001  k.ptx:4  1 byte at global address" in done.stdout


def test_the_time_of_a_list_grows_with_the_entries_alone(run):
    head, entry = STORES.rsplit(".visible", 1)[0], STORES.splitlines()[3]
    seconds = []
    for count in (500, 2000):
        pathlib.Path("k.ptx").write_text(head + "\n".join(entry.replace(" k(", f" k{n}(") for n in range(count)))
        begin = time.process_time()
        assert run("run k.ptx --list").exit_code == 0
        seconds.append(time.process_time() - begin)
    assert seconds[1] < 8 * seconds[0]


@pytest.mark.parametrize("difference", ["", "x: 1 of 4 elements differ"])
@pytest.mark.parametrize("explanation", ["", "all of it is 2 of what was expected"])
def test_what_differs_is_told_if_it_is_too_large_or_has_an_explanation(difference, explanation):
    """A difference within rounding that a rule explains is told with the largest error, and the output is not called
    as expected.
    """
    same, other = (Output(name, np.arange(4, dtype=np.float32)) for name in "yx")
    found = Comparison("x", 4, 1, difference, int(bool(difference)), {"absolute": Error(0.5, (3,), "1", "1.5")}, is_rounding=not difference)
    lines = _told([same, other], {"x": found}, {"x": explanation})
    verdict = "" if difference or explanation else f" ({found.verdict})"
    assert [line for line, is_right in lines if is_right] == [same.text(), other.text() + verdict]
    told = [f"different: {found.text or f'x: {found.largest}'}"] * bool(difference or explanation) + [f"      x: {explanation}"] * bool(
        explanation
    )
    assert [line for line, is_right in lines if not is_right] == told
