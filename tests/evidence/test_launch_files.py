"""Recorded launches: arrays from seeds are the same everywhere, and every committed launch fits its kernel."""

import json
import re
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from places import ROOT
from smemsim import Gpu, InputError, TraceError, launch_file
from smemsim.cli import main
from smemsim.evidence import (
    RecordedLaunches,
    array_of,
    load_launch_file,
    load_suite,
    random_bits,
    read_launch_file,
    sample_places,
    write_suite,
)
from strategies import examples

KERNELS = ROOT / "golden" / "sm_90a" / "launches" / "kernels"
FOLDERS = sorted(p.parent for p in KERNELS.glob("*/launch.json"))
FLOATS = ["f16", "bf16", "f32", "f64", "e4m3", "e5m2"]
INTEGERS = ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]
seeds = st.integers(0, 2**32 - 1)


def recipe(dtype, shape, distribution, seed=1):
    return {"name": "x", "dtype": dtype, "shape": shape, "seed": seed, "distribution": distribution}


@examples(30)
@given(seeds, st.integers(1, 300), st.integers(0, 300))
def test_a_longer_array_begins_like_a_shorter_one(seed, count, more):
    """Every element depends on the seed and its place alone."""
    assert (random_bits(seed, count + more)[:count] == random_bits(seed, count)).all()


@examples(30)
@given(seeds, seeds)
def test_other_seeds_give_other_words(seed, other):
    same = (random_bits(seed, 64) == random_bits(other, 64)).all()
    assert same == (seed == other)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "distribution",
    [{"fill": 1e308}, {"values": [1e308, 1.0]}, {"normal": [1e308, 1e308]}, {"iota": [0, 1e308]}, {"uniform": [-1e308, 1e308]}],
)
def test_numbers_beyond_a_type_are_infinities_without_a_warning(distribution):
    for dtype in ("f16", "f32"):
        made = array_of(recipe(dtype, [8], distribution))
        assert np.isinf(made[-1 if "iota" in distribution else 0]) or "uniform" in distribution
    assert np.isfinite(array_of(recipe("f64", [2], {"fill": 1e308}))).all()


def test_words_are_those_of_splitmix64():
    """The first outputs of the published generator for seed 1234567."""
    assert [int(x) for x in random_bits(1234567, 3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@examples(40)
@given(st.sampled_from(INTEGERS), st.integers(-100, 100), st.integers(0, 27), seeds)
def test_integers_stay_within_their_ends_and_reach_them(dtype, low, span, seed):
    low = abs(low) if dtype[0] == "u" else low
    x = array_of(recipe(dtype, [2000], {"integers": [low, low + span]}, seed))
    assert (x.min(), x.max()) == (low, low + span)
    assert x.dtype.itemsize * 8 == int(dtype[1:])


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_of_every_kind(dtype):
    """Zeros of both signs, subnormals, infinities and NaNs are among a few thousand, in formats that have them."""
    x = array_of(recipe(dtype, [4000], "floats"))
    exponent, fraction = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "e4m3": (4, 3), "e5m2": (5, 2)}[dtype]
    bits = x.view(f"u{x.dtype.itemsize}").astype(np.uint64)
    e, f = bits >> np.uint64(fraction) & np.uint64((1 << exponent) - 1), bits & np.uint64((1 << fraction) - 1)
    top = (1 << exponent) - 1
    for kind in ((e == 0) & (f == 0), (e == 0) & (f > 0), (e == top) & (f == 0), (e == top) & (f > 0), (e > 0) & (e < top)):
        assert kind.any()
    assert len(np.unique(bits >> np.uint64(exponent + fraction))) == 2


@examples(30)
@given(st.floats(-4, 4), st.floats(0.1, 4), seeds)
def test_normal_numbers_have_their_mean_and_deviation(mean, deviation, seed):
    x = array_of(recipe("f64", [4000], {"normal": [mean, deviation]}, seed))
    assert abs(x.mean() - mean) < 0.1 * deviation
    assert abs(x.std() - deviation) < 0.1 * deviation


@examples(20)
@given(st.integers(1, 40), st.integers(1, 9), seeds)
def test_a_permutation_has_every_number_once_a_row(width, rows, seed):
    x = array_of(recipe("u16", [rows, width], {"permutation": width}, seed))
    assert (np.sort(x, axis=1) == np.arange(width)).all()


def test_values_are_repeated_and_iota_steps():
    assert array_of(recipe("s32", [5], {"values": [3, -1]})).tolist() == [3, -1, 3, -1, 3]
    assert array_of(recipe("f32", [3], {"iota": [0.5, -2]})).tolist() == [0.5, -1.5, -3.5]
    assert array_of(recipe("bf16", [2], {"fill": 1.0})).tolist() == [0x3F80, 0x3F80]


@pytest.mark.parametrize(
    "wrong",
    [
        recipe("f12", [4], "zeros"),
        recipe("f32", ["x"], "zeros"),
        recipe("f32", [4], "gamma"),
        recipe("f32", [4], {}),
        recipe("f32", [4], {"integers": [1]}),
        recipe("s32", [4], {"integers": [2, 1]}),
        recipe("s32", [-4], "zeros"),
        recipe("s32", [1 << 40], "zeros"),
        {"dtype": "f32"},
    ],
    ids=lambda x: str(x)[:40],
)
def test_a_recipe_that_cannot_be_made_is_a_sentence(wrong):
    with pytest.raises(TraceError, match="cannot be made"):
        array_of(wrong)


@examples(30)
@given(st.integers(1, 10**6))
def test_samples_are_spread_over_the_whole_array(count):
    at = sample_places(count)
    assert at[0] == 0
    assert at[-1] == count - 1
    assert len(np.unique(at)) == min(count, 64)
    assert np.diff(at).max(initial=0) <= -(-count // 63)


@pytest.mark.parametrize("damage", ["missing", "json", "schema", "grid"])
def test_a_damaged_folder_is_a_sentence(tmp_path, damage):
    (tmp_path / "kernel.ptx").write_text(".version 9.0")
    if damage != "missing":
        about = json.loads((FOLDERS[0] / "launch.json").read_text()) | ({"schema": "other"} if damage == "schema" else {"grid": "4"})
        (tmp_path / "launch.json").write_text("{" if damage == "json" else json.dumps(about))
    with pytest.raises(TraceError):
        load_launch_file(tmp_path)


SIZES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8}


def entry_sizes(ptx, entry):
    """Bytes of every parameter of an entry, as its text declares them."""
    text = re.search(rf"\.entry {entry}\s*\((.*?)\)", ptx, flags=re.DOTALL)[1]
    sizes = []
    for declaration in text.split(","):
        kind = re.search(r"\.([bsuf]\d+)\b", re.sub(r"\.ptr|\.align \d+", "", declaration))[1]
        count = re.search(r"\[(\d+)\]", declaration)
        sizes.append(SIZES[kind] * int(count[1] if count else 1))
    return sizes


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_a_committed_launch_fits_its_kernel(folder):
    """As many parameters of the same sizes as the entry declares, the block that it asks for, outputs that exist, maps
    that the driver takes.
    """
    launch = load_launch_file(folder)
    about = launch.about
    recipes = {one["name"]: one for one in about["arrays"]}
    addresses = {name: 0x10000 * (i + 1) << 8 for i, name in enumerate(recipes)}
    assert [len(x) for x in launch.parameters(addresses)] == entry_sizes(launch.ptx, about["entry"])
    grid, block, cluster = (about[key] for key in ("grid", "block", "cluster"))
    asked = re.search(rf"\.entry {about['entry']}\b.*?\)(.*?)\{{", launch.ptx, flags=re.DOTALL)[1]
    if threads := re.search(r"\.reqntid (\d+)", asked):
        assert int(threads[1]) == block[0]
    if most := re.search(r"\.maxntid (\d+)", asked):
        assert np.prod(block) <= int(most[1])
    assert np.prod(block) <= 1024
    assert all(g % c == 0 for g, c in zip(grid, cluster, strict=True))
    assert set(about["outputs"]) <= set(recipes)
    assert about["outputs"]
    assert about["exact"] == (not about["why_not_exact"])


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_a_launch_is_exact_where_its_kernel_approximates_nothing(folder):
    launch = load_launch_file(folder)
    code = re.sub(r"//.*", "", launch.ptx)
    approximates = bool(re.search(r"\.approx\b|\bdiv\.full\b", code))
    chooses = "NaN" in launch.about["why_not_exact"]  # which of two, in f64: ptxas decides
    assert launch.about["exact"] != (approximates or chooses)


@pytest.fixture(scope="module")
def capture():
    """The capture tool as a module; it asks for a GPU only when it runs."""
    from tools.capture import launch_suite

    return launch_suite


@pytest.fixture(scope="module")
def made_up(capture, tmp_path_factory):
    """A suite whose outputs are drawn, not recorded: what its reader must find again."""
    folder = tmp_path_factory.mktemp("suite") / "launches"
    (folder / "kernels").mkdir(parents=True)
    launches = [load_launch_file(KERNELS / name) for name in ("alu_int32", "softmax", "trap_store_below", "histogram")]
    answers = []
    for launch in launches:
        shutil.copytree(KERNELS / launch.name, folder / "kernels" / launch.name)
        outputs = {f"out_{n}": random_bits(5, launch.arrays()[n].nbytes).astype(np.uint8) for n in launch.about["outputs"]}
        answers.append({"status": np.array(715)} if "trap" in launch.name else {"status": np.array(0), **outputs})
    arrays = capture.suite_arrays(launches, answers)
    about = {"suite": "launches", "kind": "launch", "arch": "sm_90a", "title": "made up", "device": {}, "source": {}}
    write_suite(folder, cases=len(launches), arrays=arrays, **about)
    return RecordedLaunches(load_suite(folder)), answers


def test_a_suite_gives_back_what_was_put_into_it(made_up):
    recorded, answers = made_up
    assert [recorded.status(i) for i in range(len(recorded))] == [0, 0, 715, 0]
    for case in (0, 1, 3):
        for name in recorded.launch(case).about["outputs"]:
            assert recorded.difference(case, name, answers[case][f"out_{name}"]) == ""


@examples(20)
@given(st.sampled_from([0, 1, 3]), st.integers(0, 10**6), st.integers(0, 7))
def test_one_wrong_bit_of_an_output_is_found(made_up, case, place, bit):
    """The sentence names the element, or its row where the output is too large to be stored."""
    recorded, answers = made_up
    launch = recorded.launch(case)
    name = launch.about["outputs"][0]
    data = answers[case][f"out_{name}"].copy()
    place %= len(data)
    data[place] ^= 1 << bit
    words = data.view(np.uint32)
    said = recorded.difference(case, name, words)
    if recorded.recorded_bytes(recorded.outputs(case)[name]) is None:
        row = place // (len(data) // launch.rows(name))
        assert f"1 of {launch.rows(name)} rows differ, the first is row {row}" in said
    else:
        assert said.startswith(f"{name}[{place // 4}] is ")
        assert "(1 of " in said


def test_another_kernel_than_the_recorded_one_is_refused(made_up):
    recorded, _ = made_up
    path = recorded.suite.path / "kernels" / "histogram" / "kernel.ptx"
    text = path.read_text()
    path.write_text(text + "\n")
    with pytest.raises(TraceError, match="not the text that was recorded"):
        recorded.launch(3)
    path.write_text(text)


@pytest.mark.parametrize("kernel", FOLDERS[::9], ids=lambda folder: folder.name)
def test_a_launch_file_to_begin_with_can_be_read_and_fits_its_kernel(kernel, tmp_path):
    ptx = kernel / "kernel.ptx"
    text = CliRunner().invoke(main, ["run", str(ptx), "--init"], catch_exceptions=False).output
    (tmp_path / "launch.toml").write_text(text)
    launch = read_launch_file(tmp_path / "launch.toml", ptx)
    arrays, args = launch.placed(Gpu("sm_90a"))
    sizes = Gpu("sm_90a").kernel(launch.ptx).parameter_sizes
    assert tuple(len(raw) for raw in args) == sizes
    assert {*arrays} == {one["name"] for one in launch.about["arrays"]}


# ---- Launch files from Python


RACE = """.version 8.0 .target sm_90a .address_size 64
.visible .entry k(.param .u64 x) { .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; st.global.u32 [%rd1], %r1; ret; }"""
ONE = 'block = 64\nargs = [{array = "x"}]\narrays = [{name = "x", dtype = "u32", shape = [1], distribution = "zeros"}]\n'


def test_a_launch_file_runs_from_python_as_by_the_command(tmp_path):
    (tmp_path / "kernel.ptx").write_text(RACE)
    for keys, options, codes in (
        ("", {}, ["X008"]),
        ("watch_global = false\n", {}, []),
        ("sanitize = false\n", {}, []),
        ("", {"sanitize": False}, []),
    ):
        (tmp_path / "launch.toml").write_text(keys + ONE)
        for path in (tmp_path, tmp_path / "launch.toml"):
            run, arrays = launch_file(path, progress=False, **options)
            assert [f.code for f in run.findings] == codes, run.text()
            assert list(arrays) == ["x"]
        if not options:
            told = json.loads(CliRunner().invoke(main, ["run", str(tmp_path), "--json"]).stdout)
            assert [f["code"] for f in told["findings"]] == codes


@pytest.mark.parametrize(
    ("options", "said"), [({"grid": 2}, "grid: there is no such option"), ({"ctas": [7]}, "ctas"), ({"ptx": "nowhere.ptx"}, "nowhere.ptx")]
)
def test_what_a_launch_file_cannot_be_given_is_a_sentence(tmp_path, options, said):
    (tmp_path / "kernel.ptx").write_text(RACE)
    (tmp_path / "launch.toml").write_text(ONE)
    with pytest.raises(InputError, match=said):
        launch_file(tmp_path, progress=False, **options)
