"""Triton, Gluon and torch on the virtual GPU: an unmodified file of tests, run as its author would, on both
architectures.
"""

import functools
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET

import pytest

import smemsim
import smemsim.triton
from places import TESTS

MISSING = [name for name in ("triton", "torch") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the virtual GPU needs Linux"),
    pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed"),
]

PLUGIN = ("-p", "smemsim.testing.plugin")  # by its name: installed or not, it is registered once (`run` loads no plugin by itself)
SUITE = TESTS / "programs" / "gpu_suite.py"
FAULTS = {
    **{f"test_columns_that_nothing_has_written_are_scratch[{use}]": "R507" for use in ("element", "copy", "row", "one column more", "summed", "chosen", "chosen by value", "decides", "transform of rows")},
    "test_past_the_end": "X001", **{f"test_past_what_compiled_code_takes_of_torch[{where}]": "X001" for where in ("behind", "freed", "host")},
    "test_copy_through_shared_memory[False]": "X004", "test_counting_in_memory_of_the_card[False]": "R507", "test_strides_of_a_descriptor": "T207", "test_descriptors_of_a_kernel[64-32-0]": "T207", "test_descriptors_of_a_kernel[128-64-64]": "X001",
}  # fmt: skip
NAMES = [
    *(f"test_columns_that_nothing_has_written_are_scratch[{use}]" for use in ("columns", "questions", "valid", "zeros", "clone", "unread", "moved", "computed", "overwritten", "cpu", "rows", "list", "converted", "no numbers", "transform of columns")),
    "test_vector_addition", "test_softmax", "test_product_with_descriptors", "test_copy_through_shared_memory[True]", "test_after_a_finding",
    "test_pointers_in_memory", "test_memory_that_compiled_code_takes_of_torch", "test_where_a_pointer_may_point[cpu]", "test_where_a_pointer_may_point[pinned]",
    "test_where_a_pointer_may_point[cuda]", "test_too_much_shared_memory", "test_backward", "test_graph", "test_autotuner_and_benchmark",
    "test_hooks", "test_places_of_tensors", "test_copies_are_copies", "test_default_device_and_modules", "test_random_numbers",
    "test_alignment_of_memory", "test_graph_with_functions_of_torch", "test_autocast", "test_threads_see_the_card", "test_training_and_files", "test_sums_of_16_bit_norms_are_exact_enough", "test_losses_and_gradients_of_16_bit_numbers_are_summed_as_on_a_card", "test_transforms_and_compilers", "test_kernels_of_inductor_are_launched", "test_tensors_of_a_class_of_the_program", "test_other_libraries_are_told_of_the_memory", "test_what_a_card_refuses", "test_statistics_and_types_by_name", "test_histogram_of_integers", "test_packed_elements_are_copied_in_another_order", "test_products_of_cublas",
    "test_products_of_8_bit_floats_with_a_power_of_two_to_32", "test_operators_of_a_program", "test_the_c_interface_of_dlpack",
    "test_products_with_another_type_of_the_result",
    "test_a_driver_that_is_made_anew", "test_the_card", "test_what_torch_looks_at_itself", "test_memory_is_counted_once_and_given_back", "test_streams_and_events",
    "test_operators_of_torch_library", "test_operators_of_torch_that_are_replaced_on_the_card", "test_a_compiled_kernel_is_launched_without_its_constexprs",
    "test_python_collects_garbage_when_it_likes_on_a_card", "test_a_profiler_that_knows_real_cards_alone", "test_counting_in_memory_of_the_card[True]", "test_fake_tensors_are_where_a_card_has_them", "test_an_operator_is_compared_with_its_fake", "test_compiled_code_finds_the_card_that_has_the_tensors",
]  # fmt: skip

ARCHITECTURES = {
    "sm_90a": NAMES,
    "sm_100a": [name for name in NAMES if "descriptors" in name or "True" in name or "card" in name or "much" in name or "scratch" in name],
}
CHOSEN = {"sm_90a": (), "sm_100a": ("-k", "descriptor or shared or past or card or scratch")}  # the rest is the same on both


def run(*command, folder, **environment):
    """A program's (exit code, stdout, stderr), with a cache of its own for compiled kernels.

    The program finds the modules that this process finds, and smemsim from the same folder.
    """
    sources = [str(pathlib.Path(smemsim.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {
        "PYTHONPATH": os.pathsep.join(sources),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "TRITON_DEFAULT_FP_FUSION": "1",
        "COLUMNS": "240",
    }
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("SMEMSIM_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, *map(str, command)], env={**clean, **own, **environment}, cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@functools.cache
def outcomes(arch):
    """What became of each test of the suite: its failure's text, "" where it passed; and what pytest said at the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        options = ("-p", "no:cacheprovider", "-q", "-W", "ignore", "--smemsim-gpu", arch, "--smemsim-report", folder / "report")
        _, out, err = run("-m", "pytest", *PLUGIN, *options, *CHOSEN[arch], "--junitxml", folder / "x.xml", SUITE, folder=folder)
        assert (folder / "x.xml").exists(), out + err
        cases = ET.parse(folder / "x.xml").getroot().iter("testcase")
        page = (folder / "report" / "index.html").read_text(encoding="utf-8")
        return {case.get("name"): "".join(f.get("message", "") + (f.text or "") for f in case) for case in cases}, out, page


@pytest.mark.parametrize(("arch", "name"), [(arch, name) for arch, names in ARCHITECTURES.items() for name in names])
def test_what_a_gpu_passes_passes(arch, name):
    assert outcomes(arch)[0][name] == ""


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_fails_the_test_that_has_it_alone(name, arch):
    found, _, _ = outcomes(arch)
    assert FAULTS[name] in found[name]
    assert {other for other, text in found.items() if text} == set(FAULTS)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_an_access_past_a_tensor_names_the_tensor_and_the_line_that_made_it(arch):
    text = outcomes(arch)[0]["test_past_the_end"]
    line = next(n for n, source in enumerate(SUITE.read_text(encoding="utf-8").splitlines(), 1) if "empty(250" in source)
    assert "right after" in text
    assert re.search(rf"gpu_suite\.py:{line} \(empty, float32\[250\]\)", text)
    assert "1000 bytes" in text


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_a_stride_of_a_descriptor_is_told_in_elements_with_its_tensor_and_in_the_file_that_was_run(arch):
    text = outcomes(arch)[0]["test_strides_of_a_descriptor"]
    assert "copied.py:7" in text
    assert "original.py" not in text
    assert "strides[0] of the descriptor Source is 32 elements" in text
    assert "strides[0] = 64 (elements, not bytes)" in text


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_shape_and_strides_of_a_descriptor_that_the_kernel_makes_are_told_in_elements_with_its_tensor(arch):
    narrow, tall = (outcomes(arch)[0][f"test_descriptors_of_a_kernel[{case}]"] for case in ("64-32-0", "128-64-64"))
    assert "strides[0] of the descriptor is 32 elements" in narrow
    assert "strides[0] = 64 (elements, not bytes)" in narrow
    assert "the descriptor has shape [128, 64] and strides [64, 1] (elements), up to element 8191, and the block at [64, 0]" in tall
    for text in (narrow, tall):
        assert "of arg0 (source)" in text
        assert re.search(r"gpu_suite\.py:\d+ \(rand, float32\[64, 64\]\)", text)
    assert re.search(r"gpu_suite\.py:\d+ \(rand, float32\[64, 64\]\)", text)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_the_session_ends_with_a_summary_and_a_page(arch):
    _, out, page = outcomes(arch)
    found = f"{len(FAULTS)} (copied, rows_of, made_here, add, counted, copied_from, product_of_tiles)"
    assert re.search(rf"{arch}: \d+ launches of \d+ kernels .* findings in {re.escape(found)}", out)
    assert re.search(r"FAILED .*test_past_the_end - .*X001 gpu_suite\.py:\d+ in add: ", out)
    assert "X001" in page
    assert "product" in page


PROGRAM = """
import importlib.util
assert importlib.util.find_spec("torch") and importlib.util.find_spec("triton")  # as programs ask what there is
import torch, triton, triton.language as tl

@triton.jit
def twice(x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(x + at, tl.load(x + at) * 2)

x = torch.ones(120, device="cuda")
twice[(1,)](x[:64], n=64)
assert (x[:64] == 2).all() and (x[64:] == 1).all()
twice[(1,)](x, n=128)
print("ended")
"""


FEATURES = TESTS / "programs" / "triton_features.py"


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_what_a_launcher_of_the_installed_triton_does(arch, tmp_path):
    told = ("--arch", arch, "--quiet", "--json", tmp_path / "found.json")
    code, out, err = run("-m", "smemsim", "exec", *told, "--", sys.executable, FEATURES, folder=tmp_path)
    assert "FAILED" not in out, err
    assert out.count("passed ") >= 15
    launches = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["launches"]
    version = tuple(map(int, importlib.metadata.version("triton").split(".")[:2]))
    expected = {"X003"} if version < (3, 7) else set()  # fences that Triton puts in since
    assert {finding["code"] for launch in launches for finding in (launch.get("run") or {}).get("findings", ())} <= expected
    assert code == 0 or expected


COMPILED = """
import ctypes  # as compiled code of this process would: it meets the same device
driver, device, context, stream = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(-1), ctypes.c_void_p(), torch.cuda.Stream()
assert driver.cuCtxGetDevice(ctypes.byref(device)) == 0 == device.value and driver.cuStreamGetCtx(stream, ctypes.byref(context)) == 0 and context.value
import threading  # a thread has a context once it has made a tensor of its own
of_threads = []
for made in ("cpu", "cuda"):
    work = lambda: (torch.zeros(1, device=made), of_threads.append(driver.cuCtxGetDevice(ctypes.byref(device))))
    thread = threading.Thread(target=work); thread.start(); thread.join()
assert of_threads == [201, 0]
runtime, y, told = ctypes.CDLL("libcudart.so.13"), torch.zeros(120, device="cuda"), (ctypes.c_int * 32)()
pointer = lambda tensor: ctypes.c_void_p(tensor.data_ptr())
assert runtime.cudaMemcpy(pointer(y), pointer(x), 480, 3) == 0 and (y == x).all()
assert runtime.cudaPointerGetAttributes(told, pointer(y)) == 0 and told[0] == 2
"""


def test_exec_runs_a_program_as_it_is(tmp_path):
    last = "twice[(1,)](x, n=128)"
    killed = PROGRAM.replace(last, COMPILED + last) + "import os, signal, sys\nsys.stdout.flush()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    (tmp_path / "program.py").write_text(killed, encoding="utf-8")
    for stale in ("kept/0007-old", "pages"):
        (tmp_path / stale).mkdir(parents=True)
    for stale in ("kept/0007-old/launch.toml", "pages/launch-0007.html", "pages/mine.txt"):
        (tmp_path / stale).write_text("", encoding="utf-8")
    told = (
        "--arch",
        "sm_100a",
        "--on-finding",
        "collect",
        "--json",
        tmp_path / "found.json",
        "--no-watch-global",
        "--record",
        "kept",
        "--report",
        "pages",
    )
    code, out, err = run("-m", "smemsim", "exec", *told, "--", sys.executable, "program.py", folder=tmp_path)
    assert (code, out) == (137, "ended\n"), err  # a program that is killed loses none of its launches
    launches = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["launches"]
    assert [x["is_fine"] for x in launches] == [True, False]
    assert launches[1]["run"]["findings"][0]["code"] == "X001"
    assert "2 launches of 1 kernel" in err
    # and nothing of an earlier program
    assert sorted(p.name for p in (tmp_path / "kept").iterdir()) == ["0001-twice", "0002-twice"]
    assert sorted(p.name for p in (tmp_path / "pages").iterdir()) == ["index.html", "launch-0001.html", "launch-0002.html", "mine.txt"]
    index, page = ((tmp_path / "pages" / f"{name}.html").read_text(encoding="utf-8") for name in ("index", "launch-0002"))
    assert re.search(r"<title>python[\d.]* program\.py on sm_100a</title>", index)
    assert "id=theme" in index
    assert 'href="index.html"' in page
    assert re.search(r"<li>allocation\d+: 480 bytes of memory at 0x[0-9a-f]+, made at .*program\.py:\d+ \(ones, float32\[120\]\)", page)
    kept = tomllib.loads((tmp_path / "kept" / "0002-twice" / "launch.toml").read_text(encoding="utf-8"))
    assert kept["watch_global"] is False
    assert "x" in [array["name"] for array in kept["arrays"]]
    assert {array["dtype"] for array in kept["arrays"]} == {"f32"}
    code, out, err = run("-m", "smemsim", "run", "kept/0002-twice", folder=tmp_path)
    assert code == 1, err
    assert "X001" in out


def test_the_driver_alone_raises_where_the_policy_says_so(tmp_path):
    install = (
        "import smemsim.triton\nfrom smemsim.virtual import Policy\nsmemsim.triton.install('sm_90a', policy=Policy(on_finding='raise'))\n"
    )
    (tmp_path / "program.py").write_text(install + PROGRAM, encoding="utf-8")
    code, out, err = run("program.py", folder=tmp_path)
    assert (code, out) == (1, "")
    assert "FindingsError: X001" in err
    assert err.count("X001") == 2  # told once, with its lines, and in the exception
    assert err.count("/smemsim/virtual/") <= 4
    assert err.count("twice: 0 of 1 CTAs") == 1


def test_workers_of_xdist_tell_what_they_launched(tmp_path):
    pytest.importorskip("xdist", reason="needs pytest-xdist")
    tests = PROGRAM.split("\nx = ", maxsplit=1)[0] + (
        "\nimport pytest\n@pytest.mark.parametrize('n', [64, 128, 256])\ndef test_it(n):\n"
        "    x = torch.ones(128, device='cuda')\n    twice[(1,)](x, n=n)\n"
    )
    (tmp_path / "test_it.py").write_text(tests, encoding="utf-8")
    options = (
        "-p",
        "xdist",
        "-p",
        "no:cacheprovider",
        "-n",
        "2",
        "-q",
        "--smemsim-gpu",
        "sm_90a",
        "--smemsim-on-finding",
        "collect",
    )
    code, out, err = run("-m", "pytest", *PLUGIN, *options, "--smemsim-report", "report", "test_it.py", folder=tmp_path)
    assert code == 0, out + err
    assert "3 passed" in out
    assert "PytestAssertRewriteWarning" not in out
    assert re.search(r"X001  test_it\.py:\d+  ", out)
    assert "sm_90a: 3 launches of 1 kernel" in out
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    linked = re.findall(r'<a href="([^"#][^"]*)"', page)
    assert linked
    assert all((tmp_path / "report" / name).is_file() for name in linked)


def test_a_report_that_cannot_be_written_is_told_before_the_tests(tmp_path):
    (tmp_path / "report").write_text("a file")
    code, out, err = run("-m", "pytest", *PLUGIN, "--smemsim-gpu", "sm_90a", "--smemsim-report", "report", folder=tmp_path)
    assert code == pytest.ExitCode.USAGE_ERROR, out + err
    assert "--smemsim-report" in err
    assert "cannot write there: a file of this name is there" in err
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    ("function", "code", "told"),
    [("x @ x", 2, "the compiled code launched no kernel"), ("(x @ x[:, :10]).relu().sum(1)", 0, "launches of 1 kernel")],
)
def test_compiled_code_that_launches_nothing_is_no_success(function, code, told, tmp_path):
    """Inductor leaves a product to cuBLAS, which is not simulated. It pads no columns, since it would measure whether that pays."""
    (tmp_path / "program.py").write_text(
        f"import torch\ncalled = torch.compile(lambda x: {function}, mode='reduce-overhead')\n"
        "x = torch.ones(64, 64, device='cuda')\nprint(bool((called(x) > 0).all() and (called(x) > 0).all()))\n", encoding="utf-8"
    )  # fmt: skip
    ended, out, err = run("-m", "smemsim", "exec", "--arch", "sm_90a", "--", sys.executable, "program.py", folder=tmp_path)
    assert (ended, out) == (code, "True\n"), err
    assert told in err
    assert "no graph is captured" in err


def test_an_unknown_card_is_told_in_a_sentence(tmp_path):
    code, out, err = run("-m", "pytest", *PLUGIN, "--smemsim-gpu", "sm_12", folder=tmp_path)
    assert code == 4
    assert "--smemsim-gpu" in out + err
    assert "Traceback" not in out + err


def test_a_card_is_chosen_once(monkeypatch):
    monkeypatch.delenv("SMEMSIM_ARCH", raising=False)
    with pytest.raises(smemsim.InputError, match="no architecture is given"):
        smemsim.triton.install()
    with pytest.raises(smemsim.InputError, match="sm_12"):
        smemsim.triton.install("sm_12")
