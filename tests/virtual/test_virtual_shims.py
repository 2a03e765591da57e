"""Laws of the shims of other libraries, which are not needed here: stand-ins of their modules have what a shim changes."""

import ctypes
import os
import platform
import signal
import struct
import subprocess
import sys
import types

import numpy as np
import pytest

from driver_calls import PTX
from smemsim import Gpu, SmemsimError
from smemsim.evidence import read_launch_file
from smemsim.virtual import CudaError, FindingsError, Policy, VirtualDevice, alignment, jax, local, proton, record
from smemsim.virtual.benchmarks import call_once
from smemsim.virtual.benchmarks import install as install_benchmarks

# ---- JAX: the variables that XLA reads, and what its plugin loads


@pytest.fixture
def plugin(monkeypatch, tmp_path):
    """(a plugin of XLA whose library knows two of the flags, what was loaded)."""
    library, loaded = tmp_path / "xla.so", []
    library.write_bytes(b"\0xla_gpu_autotune_level\0xla_gpu_other\0xla_gpu_triton_gemm_any\0")
    made = types.ModuleType("jax_plugins.xla_cuda13")
    made._get_library_path = lambda: str(library)
    hardware = types.ModuleType("jax._src.hardware_utils")
    for module in (made, hardware):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(jax, "_kept", [])
    monkeypatch.setattr(jax, "ctypes", types.SimpleNamespace(CDLL=lambda path: loaded.append(os.path.basename(path)) or path))
    monkeypatch.setattr("smemsim.virtual.build.libraries", lambda: tmp_path)
    for name in ("XLA_FLAGS", *jax.VARIABLES):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("SMEMSIM_SOCKET", "somewhere")
    return made, loaded


def test_the_plugin_of_jax_gets_the_flags_that_it_knows_and_what_the_program_sets_stays(plugin, monkeypatch):
    made, loaded = plugin
    monkeypatch.setenv("XLA_PYTHON_CLIENT_ALLOCATOR", "own")
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=4")
    jax.install()
    assert os.environ["XLA_FLAGS"] == "--xla_gpu_autotune_level=0 --xla_gpu_triton_gemm_any=true --xla_gpu_autotune_level=4"
    assert (os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"], os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"]) == ("1", "own")
    assert sys.modules["jax._src.hardware_utils"].has_visible_nvidia_gpu() is True
    made._load_nvidia_libraries()
    assert loaded == ["libsmemsim-cudnn-13.so", "libcublas.so.13", "libcublasLt.so.13"]
    assert len(jax._kept) == 3


def test_jax_is_left_alone_without_the_card_and_a_plugin_without_a_library_gets_no_flag(plugin, monkeypatch):
    made, _ = plugin
    monkeypatch.delenv("SMEMSIM_SOCKET")
    jax.install()
    assert not hasattr(made, "_load_nvidia_libraries")
    assert "XLA_FLAGS" not in os.environ
    monkeypatch.setenv("SMEMSIM_SOCKET", "somewhere")
    made._get_library_path = lambda: ""
    monkeypatch.delitem(sys.modules, "jax._src.hardware_utils")
    jax.install()
    assert os.environ["XLA_FLAGS"] == ""
    assert callable(made._load_nvidia_libraries)


# ---- Profilers and benchmarks


def test_sessions_of_proton_measure_nothing_and_others_stay(monkeypatch):
    told, asked = [], []
    real = types.SimpleNamespace(start=lambda *given: asked.append(("start", *given)) or 5)
    for name in ("activate", "deactivate", "finalize"):
        setattr(real, name, lambda *given, name=name: asked.append((name, *given)) or "done")
    library = types.ModuleType("triton._C")
    library.libproton = types.SimpleNamespace(proton=real)
    monkeypatch.setitem(sys.modules, "triton", types.ModuleType("triton"))
    monkeypatch.setitem(sys.modules, "triton._C", library)
    monkeypatch.setattr(proton.process, "device", lambda: types.SimpleNamespace(tell=told.append))
    proton.install.__wrapped__()
    sessions = [real.start(name, "shadow", "tree", "cupti") for name in "abc"]
    assert sessions == [1 << 30, (1 << 30) + 1, (1 << 30) + 2]
    assert told == ["triton.profiler: session a measures nothing, and writes no file: the speed of a simulation says nothing of a card"]
    assert [act(sessions[1], "hatchet") for act in (real.activate, real.deactivate, real.finalize)] == [None] * 3
    assert asked == []
    assert real.start("d", "shadow", "tree", "instrumentation", "mode") == 5
    assert [real.finalize(5, "hatchet"), real.activate(5)] == ["done", "done"]
    assert asked == [("start", "d", "shadow", "tree", "instrumentation", "mode"), ("finalize", 5, "hatchet"), ("activate", 5)]


def test_a_benchmark_calls_once_and_has_the_form_that_is_asked_for(monkeypatch):
    called = []
    mean, every, parts = (
        call_once(lambda: called.append(1), 9, rep=9, **more) for more in ({}, {"return_mode": "all"}, {"quantiles": [0.5, 0.9]})
    )
    assert (isinstance(mean, float), len(every), len(parts), len(called)) == (True, 1, 2, 3)
    assert 0 <= mean < 1000
    bench = types.ModuleType("tilelang.profiler.bench")
    install_benchmarks()
    monkeypatch.setitem(sys.modules, bench.__name__, bench)
    install_benchmarks()
    assert bench.do_bench is call_once


# ---- The calls of this process


@pytest.fixture(scope="module")
def device():
    """One for all tests here: a process has room for few at a time."""
    return VirtualDevice("sm_90a", policy=Policy(quiet=True))


@pytest.fixture
def calls(monkeypatch, device):
    told = []
    device.tell = told.append
    monkeypatch.setattr(local.process, "device", lambda: device)
    monkeypatch.delitem(sys.modules, "smemsim.virtual.torch", raising=False)
    made = local.LocalSession()
    made.told = told
    return made


def test_a_launch_of_this_process_takes_its_arguments_from_their_addresses(calls):
    module = calls.call("load", PTX.encode(), "", 0)
    at = calls.call("allocate", 128, "device", "")
    values = (ctypes.c_uint64(at), ctypes.c_uint32(5))
    places = (ctypes.c_uint64 * 2)(*map(ctypes.addressof, values))
    fill, late, nothing = (calls.call("function", module, name) for name in ("fill", "late", "nothing"))
    assert calls.function_of(fill).name == "fill"
    bank = calls.bank(fill, ctypes.addressof(places))
    assert bank == struct.pack("<QI", at, 5)
    assert calls.bank(nothing, 0) == b""
    words = (ctypes.c_uint32(7), ctypes.c_uint64(9))
    assert calls.bank(late, ctypes.addressof((ctypes.c_uint64 * 2)(*map(ctypes.addressof, words)))) == struct.pack("<I4xQ", 7, 9)
    calls.call("launch", fill, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0, 0, 0, 0, bank)
    assert calls.device.memory.view(at, 128).tobytes() == struct.pack("<I", 5) * 32
    assert calls.pointer(at)[1] == at
    assert calls.host.waiting == ()
    assert calls.device.host is calls.host


@pytest.mark.parametrize(
    ("error", "code", "reason", "told"),
    [
        (lambda: CudaError(911, "why"), 911, "why", []),
        (lambda: FindingsError(types.SimpleNamespace(findings=("a finding",), remarks=())), 719, None, []),
        (lambda: SmemsimError("a sentence"), 1, "a sentence", ["a sentence"]),
    ],
)
def test_each_error_of_a_call_is_one_of_cuda(calls, error, code, reason, told):
    error = error()

    def fails():
        raise error

    calls.fails = fails
    with pytest.raises(CudaError) as caught:
        calls.call("fails")
    assert (caught.value.code, calls.told) == (code, told)
    assert calls.reason == (str(error) if reason is None else reason) or reason in calls.reason


def test_an_interrupt_reaches_the_program_when_compiled_code_has_returned(calls):
    def fails():
        raise KeyboardInterrupt

    calls.fails, heard = fails, []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with pytest.raises(CudaError, match="interrupted"):
            calls.call("fails")
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [1]


def test_a_callback_gets_its_stream_no_error_and_its_data(calls):
    seen = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(lambda *given: seen.append(given))
    calls.host.call_back(ctypes.cast(function, ctypes.c_void_p).value, 8, 200)
    assert seen == [(8, 0, 200)]


def test_attributes_of_a_launch_are_those_of_its_array():
    def of(*attributes):
        raw = b"".join(struct.pack("<I4x3I", kind, *numbers).ljust(72, b"\0") for kind, numbers in attributes)
        kept = ctypes.create_string_buffer(raw, max(len(raw), 1))
        found = local.attributes_of(ctypes.addressof(kept), len(attributes))
        return found.cluster, found.is_cooperative, found.is_dependent

    assert of() == ((0, 0, 0), False, False)
    assert of((4, (2, 1, 4))) == ((2, 1, 4), False, False)
    assert of((2, (1, 0, 0)), (6, (0, 7, 7))) == ((0, 0, 0), True, False)
    assert of((1, (9, 9, 9)), (6, (1, 0, 0)), (4, (1, 2, 3)), (5, (1, 1, 1))) == ((1, 2, 3), False, True)


# ---- Memory of PyTorch, by the C library's functions in its place: in a process of their own, as long as that lives

LAST = 3  # pages of a kernel whose launches are right
NOTED = """
import ctypes
import random

import numpy

from smemsim.virtual import alignment, linkage, notes

libc = ctypes.CDLL(None)
kept = dict(zip(("free", "posix_memalign"), (ctypes.cast(f, ctypes.c_void_p).value for f in (libc.free, libc.posix_memalign))))
library = next(line.split()[-1].rpartition("/")[2] for line in open("/proc/self/maps") if "_multiarray_umath" in line)
found = list(linkage.slots(library, "free"))
assert found and {ctypes.c_uint64.from_address(at).value for at in found} == {kept["free"]}
assert list(linkage.slots(library, "no_such_function")) == list(linkage.slots("no_such_library.so", "free")) == []

words = (ctypes.c_uint64 * 3)(*kept.values(), 77)
where = {name: [ctypes.addressof(words) + 8 * n] for n, name in enumerate(kept)}
alignment.slots = lambda library, name: where[name] if library == "libc10.so" else []
assert alignment.align()
now = notes.replacements()
assert list(words) == [now["free"], now["posix_memalign"], 77]
aligned = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t)(now["posix_memalign"])
freed = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(now["free"])


def allocate(alignment, size):
    at = ctypes.c_void_p()
    assert aligned(ctypes.byref(at), alignment, size) == 0
    return at.value


first, other = allocate(64, 1000), allocate(4096, 10)
assert (first % 512, other % 4096) == (0, 0)
assert [notes.size_at(x) for x in (first, other, first + 512)] == [1000, 10, 0]
assert [alignment.holding(x) for x in (first, first + 999, other + 9)] == [(first, 1000), (first, 1000), (other, 10)]
assert alignment.holding(first - 1) in (None, (other, 10)) and alignment.holding(other + 10) in (None, (first, 1000))
assert [alignment.is_claimed(x) for x in (first, other)] == [False, False]
alignment.claim(first)
assert [alignment.is_claimed(x) for x in (first, other)] == [True, False]
assert (notes.size_at(first), alignment.holding(first + 1)) == (1000, (first, 1000))
freed(first)
assert (notes.size_at(first), alignment.is_claimed(first), alignment.holding(first + 1)) == (0, False, None)
freed(None)
freed(other)
at = ctypes.c_void_p(5)
assert aligned(ctypes.byref(at), 512, 1 << 62) != 0 and at.value == 5
many = {allocate(64, size): size for size in range(1, 3000)}
assert [notes.size_at(x) for x in many] == list(many.values())
gone = random.Random(1).sample(sorted(many), 1500)
for x in gone:
    freed(x)
assert all(notes.size_at(x) == (0 if x in set(gone) else size) for x, size in list(many.items())[:300])
assert alignment.holding(gone[0]) is None or alignment.holding(gone[0])[0] != gone[0]
print("right")
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="tables of x86-64 Linux")
def test_memory_that_is_noted_is_found_until_it_is_freed():
    done = subprocess.run([sys.executable, "-c", NOTED], capture_output=True, text=True, check=False, env=dict(os.environ))
    assert (done.stdout, done.returncode) == ("right\n", 0), done.stderr


def test_a_library_that_is_not_there_changes_nothing(monkeypatch):
    monkeypatch.setattr(alignment, "LIBRARY", "no_such_library.so")
    assert alignment.align.__wrapped__() is False
    monkeypatch.setattr(alignment, "align", lambda: False)
    assert (alignment.is_claimed(4096), alignment.holding(4096), alignment.claim(4096)) == (False, None, None)


# ---- The record of a launch, and the pages of a program

SHARED = """.version 8.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 counter = 3;
.visible .entry add(.param .u64 to, .param .u64 from, .param .u32 by, .param .u64 inner, .param .u64 m1) {
  .reg .b32 %r<4>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from]; ld.param.u32 %r1, [by]; mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd3, %r2, 4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3; ld.global.u32 %r3, [%rd2];
  add.u32 %r3, %r3, %r1; st.global.u32 [%rd1], %r3; ret; }
"""


def word(value):
    return int(value).to_bytes(8, "little")


@pytest.mark.parametrize("ctas", [(), (0,)])
def test_a_record_names_arrays_after_the_parameters_that_point_to_them_and_runs_again(tmp_path, ctas):
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, record=tmp_path, **({"ctas": ctas} if ctas else {})), multiprocessors=4)
    to, source, idle = (device.allocate(128) for _ in range(3))
    device.view(source, 128)[:] = np.arange(128, dtype=np.uint8)
    device.view(to, 128)[:], device.view(idle, 128)[:] = 0, 1
    add = device.load(SHARED).function("add")
    add.parameter_names = ("to", "from", "by", "inner", "m1")
    device.launch(add, 2, 32, [word(to), word(source), (5).to_bytes(4, "little"), word(source + 16), word(idle)])
    (folder,) = tmp_path.iterdir()
    assert folder.name == "0001-add"
    file = read_launch_file(folder / "launch.toml")
    about = file.about
    assert [one["name"] for one in about["arrays"]] == ["to", "from", "m2", "v0"]
    assert about["arrays"][3]["variable"] == "counter"
    assert [{k: v for k, v in arg.items() if k != "comment"} for arg in about["args"]] == [
        {"array": "to"}, {"array": "from"}, {"value": 5, "type": "u32"}, {"array": "from", "offset": 16}, {"array": "m2"},
    ]  # fmt: skip
    assert (list(about["outputs"]), about["expected"]) == (["to"], {} if ctas else {"to": "to-after.npy"})
    assert (about["multiprocessors"], about.get("ctas")) == (4, list(ctas) or None)
    assert np.load(folder / "to.npy").tobytes() == bytes(128)
    assert np.load(folder / "m2.npy").tobytes() == b"\1" * 128
    gpu = Gpu("sm_90a")
    arrays, args = file.placed(gpu)
    assert args[3] == word(arrays["from"].address + 16)
    assert arrays["from"].numpy().tobytes() == bytes(range(128))
    if not ctas:
        wanted = (np.arange(128, dtype=np.uint8).view(np.uint32) + 5).tobytes()
        assert np.load(folder / "to-after.npy").tobytes() == wanted == device.view(to, 128).tobytes()


def test_an_earlier_programs_records_and_pages_are_removed_and_other_files_stay(tmp_path):
    records, pages = tmp_path / "records", tmp_path / "pages"
    for name in ("0001-fill/launch.toml", "0001-fill/kernel.ptx", "0001-fill/m0.npy", "12-0002-fill/launch.toml", "0003-own/launch.toml", "0003-own/notes.md",
                 "0004-fill/kernel.ptx", "fill/launch.toml", "001-fill/launch.toml"):  # fmt: skip
        (records / name).parent.mkdir(parents=True, exist_ok=True)
        (records / name).write_text("")
    for name in (
        "index.html",
        "launch-0001.html",
        "launch-12-0001.html",
        "launch-001.html",
        "own.html",
        "gw0/index.html",
        "other/index.html",
    ):
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / name).write_text("")
    record.clear(Policy(record=records, report=pages))
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == [
        "pages/launch-001.html", "pages/other/index.html", "pages/own.html",
        "records/0003-own/notes.md", "records/0004-fill/kernel.ptx", "records/001-fill/launch.toml", "records/fill/launch.toml",
    ]  # fmt: skip
    assert not (records / "0001-fill").exists()
    record.clear(Policy())


def test_a_page_of_each_launch_with_findings_and_of_the_first_ones_of_each_kernel(tmp_path):
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, report=tmp_path, on_finding="warn"))
    a = device.allocate(128)
    module = device.load(PTX)
    for n in range(5):
        device.launch(module.function("fill"), 1, 64 if n == 4 else 32, [word(a), n.to_bytes(4, "little")])
    pages = [x.page for x in device.launches]
    assert [bool(page) for page in pages] == [True] * LAST + [False] * (4 - LAST) + [True]
    assert {path.name for path in tmp_path.iterdir()} == {page for page in pages if page}
    assert "X001" in (tmp_path / pages[-1]).read_text()
    assert "X001" not in (tmp_path / pages[0]).read_text()
    record.write_index(tmp_path, "a program", device.launches)
    index = (tmp_path / "index.html").read_text()
    assert index.count(f'href="{pages[-1]}"') >= 1
    assert ("a program" in index, "X001" in index, "no findings" in index) == (True, True, True)
    assert "grid (1, 1, 1), block (64, 1, 1)" in index
