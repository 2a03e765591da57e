"""CuTe DSL's programs, unchanged, on the virtual GPU: what they print, what is found in them, and how they end. Skipped
without the package.
"""

import ctypes
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest

from places import TESTS
from smemsim.virtual import Policy, VirtualDevice

PROGRAMS = TESTS / "programs"
needs_dsl = pytest.mark.skipif(
    sys.platform != "linux"
    or any(importlib.util.find_spec(name) is None for name in ("cutlass", "torch", "cuda"))
    or not any(map(shutil.which, ("cc", "gcc", "clang"))),
    reason="needs Linux, nvidia-cutlass-dsl, torch, cuda-python and a C compiler",
)


def run(arch, program, *options, folder=None):
    exec_command = [sys.executable, "-c", "from smemsim.cli import main; main()", "exec", "--arch", arch, *map(str, options), "--"]
    done = subprocess.run(
        [*exec_command, sys.executable, str(program)], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, **({"TMPDIR": str(folder)} if folder else {})},
    )  # fmt: skip
    assert "internal error" not in done.stderr, done.stderr
    return done


@needs_dsl
def test_programs_for_hopper_run_until_a_launch_is_refused(tmp_path):
    told = tmp_path / "launches.json"
    done = run(
        "sm_90a", PROGRAMS / "cutedsl_hopper.py", "--multiprocessors", 2, "--json", told, "--record", tmp_path / "kept", folder=tmp_path
    )
    # Two benchmarks ask for 50 launches and get one: the sum is that of the launch itself and two more.
    assert done.stdout.splitlines() == [
        "n is 100",
        "n is 100",
        "n is 100",
        "addition PASS, True, sum 3.0",
        "product PASS with 2 clusters at once",
    ]
    launches = json.loads(told.read_text())["launches"]
    assert [x["grid"] for x in launches] == [[2, 1, 1]] * 4
    assert not any(x["run"]["findings"] for x in launches)
    for number, parameters in (
        (1, ["a", "b", "n"]),
        (4, ["mma", "load_a", "load_b", "c", "count"]),
    ):  # what the source calls them, but for what is static
        (kept,) = (tmp_path / "kept").glob(f"{number:04}-*/launch.toml")
        assert [line.rpartition("# ")[2] for line in kept.read_text().split("args = [")[1].split("]")[0].strip().splitlines()] == parameters
    assert done.returncode == 1, done.stderr
    assert "launch refused: grid = (3, 1, 1): is no multiple of the cluster (2, 1, 1)" in done.stderr
    assert not list(tmp_path.glob("smemsim-cutedsl-*"))  # the DSL's PTX is gone


@needs_dsl
def test_a_product_on_blackwell_is_silent_and_its_missing_wait_is_found_at_its_line_of_python():
    program = PROGRAMS / "cutedsl_blackwell.py"
    done = run("sm_100a", program, "--multiprocessors", 2, "--on-finding", "raise")
    line = next(n for n, text in enumerate(program.read_text().splitlines(), 1) if "cute.gemm(" in text)
    assert done.stdout == "PASS with 2 clusters at once\n", done.stderr
    assert "checked: operand layouts: A and B in all 64 matrix instructions" in done.stderr  # of both launches
    assert f"cutedsl_blackwell.py:{line}  " in next(text for text in done.stderr.splitlines() if "X004" in text)
    assert done.returncode == 1


def test_directives_do_not_limit_what_occupancy_says():
    """Measured on an H200: a kernel of .reqntid 1 has the occupancy of any other one."""
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True))
    text = ".version 8.0 .target sm_90a .address_size 64 .visible .entry k() DIRECTIVE { ret; }"
    for directive in (".reqntid 1", ".maxntid 64", ""):
        kernel = device.load(text.replace("DIRECTIVE", directive)).function("k")
        assert [device.occupancy.blocks_per_multiprocessor(kernel, threads, 0) for threads in (1, 64, 128)] == [32, 32, 16]


HOST = """
import ctypes, os
import smemsim.cutedsl
smemsim.cutedsl.install("sm_100a")
library = ctypes.CDLL(os.environ["CUTE_DSL_LIBS"])
code, storage = (ctypes.c_char * 8)(), ctypes.c_uint64()
load = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda at: FAILS)
raises = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(lambda kind, text: print(kind.decode(), text.decode()))
print(library.cuda_dialect_init_library_once(ctypes.byref(storage), load, None, raises))
"""


@needs_dsl
@pytest.mark.parametrize(("fails", "told"), [(0, ["0"]), (209, ["RuntimeError cudaErrorNoKernelImageForDevice", "-1"])])
def test_host_code_whose_kernels_cannot_be_loaded_gets_an_exception_to_raise(fails: int, told: list[str]):
    """A TVM FFI function looks for an exception where it gets a code: without one its process ended (QuACK's cache
    keeps one object for all cards).
    """
    done = subprocess.run([sys.executable, "-c", HOST.replace("FAILS", str(fails))], capture_output=True, text=True, timeout=60, check=True)
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == told


@pytest.mark.parametrize("wants_size", [True, False])
def test_a_variable_of_a_library_has_an_address_and_a_size_if_it_is_asked_for(wants_size, monkeypatch):
    cutedsl = importlib.import_module("smemsim.virtual.cutedsl")

    device = VirtualDevice("sm_90a")
    module = device.load(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .global .align 4 .b8 table[48];\n.visible .entry k() { ret; }"
    )

    class Session:
        def call(self, what, *given):
            assert (what, given) == ("variable", (7, "table"))
            return module.variable("table")

    monkeypatch.setattr(cutedsl, "session", Session)
    out, size, name = ctypes.c_uint64(), ctypes.c_uint64(99), ctypes.create_string_buffer(b"table")
    function, _ = cutedsl._TABLE["_cudaLibraryGetGlobal"]
    function(ctypes.addressof(out), ctypes.addressof(size) if wants_size else 0, 7, ctypes.addressof(name))
    assert (out.value, size.value) == (module.variable("table")[0], 48 if wants_size else 99)
