"""The virtual device in the process of the test: memory, code, launches, streams, graphs, limits, hooks. No compiler is
needed.
"""

import contextlib
import ctypes
import functools
import gzip
import importlib
import itertools
import json
import math
import mmap
import os
import pathlib
import pickle
import random
import struct
import subprocess
import sys
import threading
import time
import tracemalloc

import lz4.block
import numpy as np
import pytest

from places import TESTS
from smemsim import Gpu, InputError, Unmodelled, virtual
from smemsim.core.ptx import read_module
from smemsim.core.spec.cards import CARDS
from smemsim.core.spec.launches import LOCAL_WINDOW, SHARED_WINDOW
from smemsim.evidence.launches import read_launch_file
from smemsim.virtual import (
    CudaError,
    Event,
    FindingsError,
    Graph,
    GraphExec,
    Node,
    Policy,
    Pool,
    Stream,
    UserObject,
    VirtualDevice,
    at_address,
    checked_of,
    chosen,
    images,
    linked,
    of_parts,
)

PTX = """.version 8.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 counter = 3;
.visible .const .align 4 .b8 table[16];
.visible .entry fill(.param .u64 to, .param .u32 value) {
  .reg .b32 %r<6>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to]; ld.param.u32 %r2, [value]; mov.u32 %r1, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
  mad.lo.u32 %r5, %r3, %r4, %r1; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r2; ret; }
.visible .entry count(.param .align 8 .b8 pair[16]) {
  .reg .b32 %r<3>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [pair]; ld.param.u32 %r1, [pair+8]; atom.global.add.u32 %r2, [counter], %r1; st.global.u32 [%rd1], %r2; ret; }
.visible .entry race(.param .u64 to) {
  .reg .b32 %r<6>; .reg .b64 %rd<4>; .shared .align 4 .b8 word[256];
  ld.param.u64 %rd1, [to]; mov.u32 %r1, %tid.x; mov.u32 %r2, word; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1;
  sub.u32 %r4, 63, %r1; mad.lo.u32 %r3, %r4, 4, %r2; ld.shared.u32 %r5, [%r3]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r5; ret; }
.visible .entry pairs() .reqnctapercluster 2, 1, 1 { ret; }
.visible .entry small() .maxntid 64, 1, 1 { ret; }
"""


SHARED = """.version 8.4
.target sm_90a
.address_size 64
.shared .align 128 .b8 big[32768];
.shared .align 4 .b8 little[64];
%s.func helper() { .reg .b32 %%r<2>; mov.u32 %%r1, 1; st.shared.u32 [little], %%r1; ret; }
.visible .entry names_it() { .reg .b64 %%rd<2>; mov.u64 %%rd1, big; ret; }
.visible .entry names_none() { .reg .b32 %%r<2>; mov.u32 %%r1, 1024; st.shared.u32 [%%r1], %%r1; ret; }
.visible .entry calls() { .shared .align 4 .b8 own[16]; .reg .b32 %%r<2>; st.shared.u32 [own], %%r1; call helper; ret; }
.visible .entry never_uses_its_own() { .shared .align 4 .b8 own[256]; ret; }
"""


def word(value, size=8):
    return int(value).to_bytes(size, "little")


@pytest.fixture
def device():
    return VirtualDevice("sm_90a", policy=Policy(quiet=True))


@pytest.fixture
def module(device):
    return device.load(PTX)


def code_of(call, *given, **options):
    with pytest.raises(CudaError) as error:
        call(*given, **options)
    return error.value.code


@pytest.mark.parametrize(
    ("array", "sizes"),  # as ptxas 13.0.88 reports them
    [("", [32768, 0, 80, 256]), (".extern .shared .align 128 .b8 tail[];\n", [32768, 0, 128, 256])],
)
def test_a_kernel_has_the_shared_variables_that_it_names(device, array, sizes):
    module = device.load(SHARED % array)
    assert [module.function(name).static_shared for name in ("names_it", "names_none", "calls", "never_uses_its_own")] == sizes


PRODUCT = """
.visible .entry product() {
  .reg .b32 %r<9>; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8}, {%r5,%r6}, {%r1,%r2,%r3,%r4}; ret; }
"""


def test_a_kernel_is_told_by_its_own_code_whatever_else_its_module_has(device, module):
    """Not by its debugging information, and its instructions are not those of its neighbours."""
    other = device.load(PTX + PRODUCT)
    told = {name: module.function(name).digest for name in module.names}
    assert len(set(told.values())) == len(told)
    assert {name: other.function(name).digest for name in told} == told
    commented = PTX.replace("  ld.param.u64 %rd1, [to]; ld.param.u32", "  .loc 1 1 1\n  ld.param.u64 %rd1, [to]; ld.param.u32")
    assert device.load(commented).function("fill").digest == told["fill"]
    assert device.load(PTX.replace("%rd2, %r5, 4", "%rd2, %r5, 8")).function("fill").digest != told["fill"]
    assert (other.function("product").families, other.function("fill").families) == (("mma.sync",), ())


SPIN = """.version 8.0 .target sm_90a .address_size 64
.visible .entry spin(.param .u64 flag) { .reg .b64 %d; .reg .b32 %r; .reg .pred %p; ld.param.u64 %d, [flag];
L: ld.volatile.global.u32 %r, [%d]; setp.eq.u32 %p, %r, 0; @%p bra L; ret; }"""


def test_a_wait_for_the_host_that_gives_up_in_a_minute_is_not_run_either(device):
    text = SPIN.replace("L: ld", "mov.u64 %s, %clock64; L: nanosleep.u32 100000; mov.u64 %t, %clock64; sub.u64 %t, %t, %s; ld").replace(
        ".reg .b64 %d;", ".reg .b64 %d, %s, %t; .reg .pred %q;"
    )
    text = text.replace("setp.eq.u32 %p, %r, 0;", "setp.lt.u64 %q, %t, 120000000000; setp.eq.and.u32 %p, %r, 0, %q;")
    flag = device.allocate(8, "pinned")
    assert code_of(device.launch, device.load(text).function("spin"), 1, 1, [word(flag)]) == 801


@pytest.mark.parametrize(("kind", "is_hosts"), [("managed", True), ("pinned", True), ("device", False)])
def test_a_kernel_that_waits_for_the_host_is_not_run_and_one_that_waits_for_nobody_hangs(device, kind, is_hosts):
    function, flag = device.load(SPIN).function("spin"), device.allocate(8, kind)
    device.fill(flag, 0, 8)
    if is_hosts:
        assert code_of(device.launch, function, 1, 1, [word(flag)]) == 801
    else:
        assert [f.code for f in device.launch(function, 1, 1, [word(flag)]).findings] == ["X006"]
    if is_hosts:
        device.view(flag, 8)[0] = 1
        assert device.launch(function, 1, 1, [word(flag)]).ok


def test_while_one_thread_launches_the_calls_of_others_wait(device, module):
    a, fill, seen = device.allocate(512), module.function("fill"), []

    def launch(to, value):
        device.launch(fill, 1, 64, [to.to_bytes(8, "little"), value.to_bytes(4, "little")])

    def begins(about):
        if about.number == 1:
            other.start()
            other.join(0.1)
            seen.append(len(device.launches))

    other = threading.Thread(target=launch, args=(a + 256, 2))
    launch(a, 0)  # what is compiled once is
    device.launches.clear()
    device.listeners.begins = begins
    launch(a, 1)
    other.join()
    assert seen == [1]
    assert device.view(a, 512).view(np.uint32).tolist() == [1] * 64 + [2] * 64


def test_launches_that_are_alike_are_kept_once_and_told_each_for_itself(device, module):
    a = device.allocate(256)
    for _ in range(3):
        device.launch(module.function("fill"), 1, 64, [a.to_bytes(8, "little"), bytes(4)])
    *_, one, two = device.launches
    assert one.run is two.run
    assert (one.told[:14], two.told[:14]) == ("launch 2, fill", "launch 3, fill")
    assert two.as_dict()["run"]["seconds"] == round(two.seconds, 3)


def test_what_cannot_be_kept_of_a_launch_is_told_once_and_changes_nothing_else(tmp_path, capsys):
    (tmp_path / "record").write_text("a file, where a folder is wanted")
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, record=tmp_path / "record"))
    a, fill = device.allocate(256), device.load(PTX).function("fill")
    for n in range(3):
        device.launch(fill, 1, 64, [a.to_bytes(8, "little"), n.to_bytes(4, "little")])
    assert device.view(a, 256).view(np.uint32).tolist() == [2] * 64
    assert [x.error for x in device.launches] == [0, 0, 0]
    assert capsys.readouterr().err.count("cannot be") == 1
    assert [x.has_no_files for x in device.launches] == [True] * 3


def test_no_half_of_a_recorded_launch_is_left(tmp_path):
    (tmp_path / "0001-fill" / "launch.toml").mkdir(parents=True)  # the last file cannot be written
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, record=tmp_path))
    device.launch(device.load(PTX).function("fill"), 1, 64, [device.allocate(256).to_bytes(8, "little"), bytes(4)])
    assert device.launches[0].has_no_files
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_numbers_among_the_arguments_of_a_recorded_launch_are_numbers_and_keep_every_bit(tmp_path):
    """A float is written as its number. What no number of the file is (NaN, infinity) stays in hexadecimal digits."""
    values = {
        "f32": [0x3DCCCCCD, 0x80000000, 0x00000001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC12345, 0xFFA00001],
        "f64": [0x3FB999999999999A, 0x8000000000000000, 0x0000000000000001, 0x7FF0000000000000, 0x7FF4000000000001],
        "s32": [0xFFFFFFFB], "u64": [0xFFFFFFFFFFFFFFFF], "f16": [0x3C01, 0x7E01],
    }  # fmt: skip
    taken = [(kind, int(kind[1:]), bits) for kind, numbers in values.items() for bits in numbers]
    parameters = "".join(f", .param .{kind} p{n}" for n, (kind, *_) in enumerate(taken))
    body = "".join(f"ld.param.b{size} %{size}, [p{n}]; st.global.b{size} [%to+{8 * n}], %{size};\n" for n, (_, size, _) in enumerate(taken))
    ptx = f""".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry keeps(.param .u64 to{parameters}) {{
    .reg .b64 %to, %64; .reg .b32 %32; .reg .b16 %16; ld.param.u64 %to, [to];\n{body}ret; }}"""
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, record=tmp_path))
    a, raw = device.allocate(8 * len(taken)), [bits.to_bytes(size // 8, "little") for _, size, bits in taken]
    device.launch(device.load(ptx).function("keeps"), 1, 1, [a.to_bytes(8, "little"), *raw])
    (folder,) = tmp_path.iterdir()
    file = read_launch_file(folder / "launch.toml")
    numbers = [
        struct.unpack({"f32": "<f", "f64": "<d"}.get(kind, "<b"), own)[0]
        for (kind, *_), own in zip(taken, raw, strict=True)
        if kind[0] == "f" and kind != "f16"
    ]
    assert ["value" in arg for arg in file.about["args"][1:14]] == [math.isfinite(x) for x in numbers]
    gpu = Gpu("sm_90a")
    _, args = file.placed(gpu)
    assert [bytes(arg) for arg in args[1:]] == raw


def test_a_python_that_cannot_import_smemsim_says_so_and_goes_on(tmp_path):
    """Its own `smemsim` lacks a part, or the part lacks a library: the program's import fails for its own reason, or
    works.
    """
    site = pathlib.Path(virtual.__file__).parent / "site"
    (tmp_path / "smemsim").mkdir()
    (tmp_path / "smemsim" / "__init__.py").touch()
    (tmp_path / "cupy.py").write_text("print('here')")
    own = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{site}", "SMEMSIM_ARCH": "sm_90a", "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", "import cupy"], env=own, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "here\n")
    assert "cannot import smemsim (No module named 'smemsim.virtual')" in done.stderr
    assert done.stderr.count("\n") == 1


def test_small_allocations_that_come_and_go_leave_no_memory_behind(device):
    kept = []
    for n in range(64):
        a = device.allocate(1000)
        device.fill(a, 7, 1000)
        if n % 8:
            device.free(a)
        else:
            kept.append(a)
    # of 512 bytes: an allocation lies on two pages at most
    assert os.fstat(device.memory.descriptor).st_blocks <= 8 * 2 * len(kept)
    assert all((device.view(a, 1000) == 7).all() for a in kept)


def test_a_function_of_the_host_may_wait_for_a_thread_that_uses_the_device(device):
    is_allocated = threading.Event()
    wait = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: is_allocated.wait(20) or device.fail(1))
    other = threading.Thread(target=lambda: (device.allocate(64), is_allocated.set()))
    stream = Stream()
    device.begin_capture(stream)
    device.call_host(ctypes.cast(wait, ctypes.c_void_p).value, 0, stream)
    graph = GraphExec(device.end_capture(stream))
    threading.Timer(0.05, other.start).start()
    device.launch_graph(graph)
    other.join()
    assert not device.error


def test_the_windows_of_generic_addresses_lie_where_no_memory_of_a_process_is():
    mapped = [int(line.split("-")[0], 16) for line in pathlib.Path("/proc/self/maps").read_text(encoding="ascii").splitlines()]
    # Linux maps memory from 2^47 downwards, programs below 2^47 * 2 / 3
    lowest = min(address for address in mapped if address > 1 << 46)
    assert max(SHARED_WINDOW, LOCAL_WINDOW) + (1 << 32) < lowest - (1 << 45)


def test_registered_memory_stays_as_it_is_when_it_is_the_hosts_alone_again(device):
    held = np.ones(20_000, np.uint8)
    device.register(held.ctypes.data, held.nbytes)
    device.unbind(held.ctypes.data)
    assert held.all()


def test_an_allocation_is_aligned_and_holds_what_is_copied(device):
    data = np.arange(100, dtype=np.uint8)
    a, back = device.allocate(100), np.zeros(100, np.uint8)
    device.copy(a, data.ctypes.data, 100, kind=1)
    device.copy(back.ctypes.data, a, 100, kind=2)
    assert a % 512 == 0
    assert (back == data).all()
    assert ctypes.string_at(a, 100) == data.tobytes()  # the address is one of this process


@pytest.mark.parametrize(("size", "align"), [((1 << 20) - 1, 512), (1 << 20, 1 << 21), ((1 << 22) + 1, 1 << 21)])
def test_what_takes_a_megabyte_begins_a_page_of_the_card(device, size, align):
    """A program may count on it: Taichi puts its tables, which it aligns to 4096 bytes, into one allocation of their
    sum.
    """
    taken = []
    for _ in range(3):
        device.allocate(100)
        taken.append(device.allocate(size))
    assert not any(at % align for at in taken)
    assert all(b - a >= size + 4096 for a, b in itertools.pairwise(taken))


def test_rows_of_a_copy_lie_a_pitch_apart(device):
    a = device.allocate(64)
    device.view(a, 64)[:] = np.arange(64)
    out = np.zeros((3, 4), np.uint8)
    device.copy_2d(out.ctypes.data, 4, a + 2, 16, 4, 3)
    assert out.tolist() == [[2, 3, 4, 5], [18, 19, 20, 21], [34, 35, 36, 37]]
    device.fill_2d(a, 16, 0x1234, 2, 2, 2)
    assert device.view(a, 20).view(np.uint16)[[0, 1, 2, 8, 9]].tolist() == [0x1234, 0x1234, 0x0504, 0x1234, 0x1234]


def test_copies_and_fills_of_nothing_change_nothing_wherever_they_go():
    """No row, or rows of no bytes; one byte of the same is error 1."""
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True))
    a = device.allocate(64)
    device.fill(a, 7, 64)
    for width, height in ((0, 3), (3, 0), (0, 0)):
        device.copy_2d(a, 16, a + 4096, 16, width, height)
        device.copy_2d(a + 4096, 16, a, 16, width, height)
        device.fill_2d(a + 4096, 16, 1, 1, width, height)
    assert (device.view(a, 64) == 7).all()
    for call in (lambda: device.copy_2d(a, 16, a + 4096, 16, 1, 1), lambda: device.fill_2d(a + 4096, 16, 1, 1, 1, 1)):
        with pytest.raises(CudaError) as error:
            call()
        assert error.value.code == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda d, a, h: d.copy(a, h, 101, kind=1),  # past the end
        lambda d, a, h: d.copy(h, h, 8, kind=2),  # from what is no device memory
        lambda d, a, h: d.fill(h, 0, 4),
        lambda d, a, h: d.free(a + 8),
        lambda d, a, h: d.free(h),
        lambda d, a, h: d.allocate(0),
        lambda d, a, h: (d.free(a), d.free(a)),
        lambda d, a, h: (d.free(a), d.fill(a, 0, 4)),
    ],
)
def test_what_no_allocation_holds_is_error_1(device, wrong):
    host = np.zeros(200, np.uint8)
    assert code_of(wrong, device, device.allocate(100), host.ctypes.data) == 1
    assert device.error == 0  # not a sticky one


def test_a_copy_in_no_direction_is_error_21(device):
    assert code_of(device.copy, device.allocate(100), device.allocate(100), 8, kind=5) == 21


def test_more_than_the_card_has_is_error_2(device):
    assert code_of(device.allocate, 1 << 60) == 2
    small = VirtualDevice("sm_90a", policy=Policy(quiet=True), memory_bytes=1 << 20)
    small.allocate(1 << 19)
    assert code_of(small.allocate, (1 << 19) + 1) == 2
    assert small.memory_info() == (1 << 19, 1 << 20)


def test_memory_that_is_given_back_is_zero_and_counted_no_more(device):
    a = device.allocate(10000)
    device.fill(a, 7, 10000)
    device.free(a)
    assert device.memory_info()[0] == device.memory_bytes
    assert not ctypes.string_at(a, 10000).strip(b"\0")


def test_the_hosts_memory_is_the_kernels_without_a_copy(device, module):
    held = np.zeros(65, np.uint32)[1:]  # not at a multiple of 16
    device.launch(module.function("fill"), 2, 32, [word(device.bind(held)), word(9, 4)])
    assert (held == 9).all()
    device.unbind(held.ctypes.data)
    device.launch(module.function("fill"), 2, 32, [word(held.ctypes.data), word(8, 4)])
    assert device.error == 700


def test_variables_keep_their_contents_and_modules_have_their_own(device, module):
    out = device.allocate(4)
    other = device.load(PTX)
    given = [struct.pack("<QII", out, 5, 0)]
    for loaded, before in ((module, 3), (module, 8), (other, 3)):
        device.launch(loaded.function("count"), 1, 1, given)
        assert device.view(out, 4).view(np.uint32)[0] == before
    address, size = module.variable("counter")
    assert (size, device.view(address, 4).view(np.uint32)[0]) == (4, 13)
    device.unload(other)
    assert code_of(module.variable, "nothing") == 500
    assert code_of(module.function, "nothing") == 500


def test_parameters_are_known_before_a_launch(module):
    assert [[(p.offset, p.size) for p in module.function(name).parameters] for name in ("fill", "count", "pairs")] == [
        [(0, 8), (8, 4)], [(0, 16)], [],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "code"),
    [
        ("pairs", {"grid": 0, "block": 1}, 1),
        ("pairs", {"grid": 2, "block": 1025}, 1),
        ("pairs", {"grid": 2, "block": 0}, 1),
        ("pairs", {"grid": (2, 65536), "block": 1}, 1),
        ("pairs", {"grid": 2, "block": (1, 1, 65)}, 1),
        ("pairs", {"grid": 2, "block": 1, "cluster": (2, 0, 1)}, 912),
        ("small", {"grid": 2, "block": 1, "cluster": (1, 0, 1)}, 912),
        ("small", {"grid": 0, "block": 1, "cluster": (1, 0, 1)}, 912),  # before the grid
        ("small", {"grid": 1, "block": 65, "cluster": (1, 0, 1)}, 1),  # after the block
        ("pairs", {"grid": 3, "block": 1}, 912),
        ("pairs", {"grid": 4, "block": 1, "cluster": 4}, 912),
        ("small", {"grid": 16, "block": 1, "cluster": 16}, 912),
        ("small", {"grid": 1, "block": 65}, 1),
        ("small", {"grid": 1, "block": 1, "shared_bytes": 49153}, 1),
        ("small", {"grid": 1 << 20, "block": 64, "cooperative": True}, 720),
    ],
)
def test_a_launch_that_the_driver_refuses_has_its_code(device, module, name, given, code):
    assert code_of(device.launch, module.function(name), arguments=[], **given) == code
    assert device.error == 0


@pytest.mark.parametrize(
    ("version", "target", "ptx"),
    [("6.0", "sm_52", 52), ("6.3", "sm_75", 75), ("6.3", "compute_75", 75), ("7.8", "sm_90", 90), ("8.0", "sm_90a", 90)],
)
def test_a_function_says_what_it_was_compiled_for_and_what_it_runs_on(version, target, ptx):
    """As an H200 answered (driver 13.0): CUB takes the sizes of its tiles by the former, and launches nothing where it
    is none of those in the program.
    """
    device = VirtualDevice("sm_90a")
    function = device.load(f".version {version}\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n").function("k")
    assert (function.attribute(5), function.attribute(6)) == (ptx, 90)


def test_what_a_kernel_is_allowed_it_may_be_launched_with(device, module):
    f = module.function("small")
    f.set_attribute(8, 232448)
    f.set_attribute(14, 1)
    assert device.launch(f, 16, 1, [], cluster=16, shared_bytes=200000).ok
    assert code_of(f.set_attribute, 8, 232449) == 1
    assert device.launch(module.function("pairs"), 2, 1, []).launch.cluster == (2, 1, 1)


@pytest.mark.parametrize("positive", [subset for n in range(4) for subset in itertools.combinations((11, 12, 13), n)])
def test_the_dimensions_of_a_required_cluster_are_all_zero_or_all_positive(device, positive):
    """As the driver's documentation has it; attributes that the compiler has set are its own."""
    module = device.load(PTX)
    f, required = module.function("small"), module.function("pairs")
    assert device.launch(f, 4, 1, []).launch.cluster == (1, 1, 1)
    for number in positive:
        f.set_attribute(number, 2 if number == 11 else 1)
    if len(positive) in (0, 3):
        assert device.launch(f, 4, 1, []).launch.cluster == ((2, 1, 1) if positive else (1, 1, 1))
    else:
        assert code_of(device.launch, f, 4, 1, []) == 912
        for number in positive:
            f.set_attribute(number, 0)
        assert device.launch(f, 4, 1, []).launch.cluster == (1, 1, 1)
    assert code_of(required.set_attribute, 11, 2) == 800
    assert device.launch(required, 2, 1, []).launch.cluster == (2, 1, 1)


def test_a_trap_is_told_at_the_synchronising_call_and_ever_after(device, module):
    run = device.launch(module.function("fill"), 1, 32, [word(8), word(1, 4)])
    assert [f.code for f in run.findings] == ["X001"]
    for call in (device.synchronize, lambda: device.allocate(8), device.memory_info, lambda: device.load(PTX)):
        assert code_of(call) == 700


@pytest.mark.parametrize("name", ["warn", "collect", "raise"])
def test_the_policy_says_what_a_finding_does(name, capsys):
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, on_finding=name))
    f, a = device.load(PTX).function("race"), device.allocate(256)
    if name == "raise":
        with pytest.raises(FindingsError, match="X008"):
            device.launch(f, 1, 64, [word(a)])
        assert device.error == 719
    else:
        assert [f.code for f in device.launch(f, 1, 64, [word(a)]).findings] == ["X008"]
    assert ("X008" in capsys.readouterr().err) == (name != "collect")
    assert "findings in 1 (race)" in device.summary()


def test_kernels_that_are_not_under_test_run_without_the_watch_or_as_python(tmp_path):
    hooks = tmp_path / "hooks.py"
    hooks.write_text(
        "from smemsim.virtual import hook\n@hook('^fill$')\ndef fill(launch):\n    launch.array(0, 'u4', 8)[:] = launch.value(1, 'u4') + 1\n"
    )
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, hooks=hooks, unwatched="race"))
    module, a = device.load(PTX), device.allocate(256)
    assert device.launch(module.function("fill"), 1, 8, [word(a), word(4, 4)]) is None
    assert device.view(a, 32).view(np.uint32).tolist() == [5] * 8
    assert device.launch(module.function("race"), 1, 64, [word(a)]).ok


@pytest.mark.parametrize("limit", [{"limit_launches": 1}, {"total_seconds": 1e-9}])
def test_behind_a_limit_nothing_runs_and_the_program_is_told_so(limit, capsys):
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, **limit))
    f, a = device.load(PTX).function("fill"), device.allocate(128)
    for _ in range(2):
        if not device.error:
            device.launch(f, 1, 4, [word(a), word(1, 4)])
    assert device.error == 702
    assert "limit" in capsys.readouterr().err
    assert "1 not run" in device.summary()
    for _ in range(2):
        with pytest.raises(CudaError):
            device.launch(f, 1, 4, [word(a), word(1, 4)])
    assert [one.number for one in device.launches] == [n + 1 for n in range(len(device.launches))]
    assert len(device.launches) > 2


def test_many_schedules_of_launches_behind_one_another_change_nothing():
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, schedule="all:1"))
    f, a = device.load(PTX).function("fill"), device.allocate(128)
    for value in (3, 4, 5):
        run = device.launch(f, 1, 4, [word(a), word(value, 4)])
        assert run.ok
        assert not run.schedules.differing
        assert device.view(a, 16).view(np.uint32).tolist() == [value] * 4


def test_some_ctas_of_every_grid_run(module):
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, ctas=(1,)))
    f, a = device.load(PTX).function("fill"), device.allocate(128)
    device.launch(f, 3, 4, [word(a), word(7, 4)])
    assert device.view(a, 48).view(np.uint32).tolist() == [0] * 4 + [7] * 4 + [0] * 4


@pytest.mark.parametrize("quiet", ["0", "1"])
def test_ctas_that_stand_for_a_grid_are_told_once_for_each_kernel_and_grid(quiet):
    device, lines = VirtualDevice("sm_90a", policy=Policy.of({"SMEMSIM_CTAS": "sample", "SMEMSIM_QUIET": quiet})), []
    device.tell = lines.append
    made, a = device.load(PTX), device.allocate(16 * 80)
    for grid in (40, 40, 80, 40, 2, 80):
        device.launch(made.function("fill"), grid, 4, [word(a), word(7, 4)])
    samples = [line for line in lines if "sample: CTA (0, 0, 0) first" in line]
    assert len(samples) == (2 if quiet == "0" else 0)
    assert all(f"CTA ({grid - 1}, 0, 0) last" in line for grid, line in zip((40, 80), samples, strict=False))
    assert len(lines) == (6 + 2 if quiet == "0" else 0)
    assert all(lines)


def _event(device, first, then):
    event = Event()
    device.record(event, first)
    device.wait(then, event)


ORDERS = {  # what stands between launches of two streams that do not block, and whether it orders them
    "nothing": (lambda *_: None, False),
    "an event": (_event, True),
    "an event of the later stream": (lambda device, first, then: _event(device, then, first), False),
    "an event before the launch": (lambda device, first, then: device.wait(then, first.before), False),
    "an event through a third stream": (lambda device, first, then: (_event(device, first, third := Stream(0, 1)), _event(device, third, then)), True),
    "the host": (lambda device, first, then: device.synchronize(first), True),
    "the host, for the other stream": (lambda device, first, then: device.synchronize(then), False),
    "the host, for the device": (lambda device, *_: device.synchronize(), True),
    "the host, for an event": (lambda device, first, _: (device.record(event := Event(), first), device.wait_for(event)), True),
    "cudaFree": (lambda device, *_: device.free(device.allocate(16)), True),
    "the default stream": (lambda device, *_: device.fill(device.allocate(16), 0, 16), False),
}  # fmt: skip


@pytest.mark.parametrize("between", ORDERS)
@pytest.mark.parametrize("blocking", [False, True])
def test_launches_of_two_streams_that_nothing_orders_are_not_checked_together(between, blocking, device, module):
    does, is_ordered = ORDERS[between]
    first, then = (Stream(0, 0 if blocking else 1) for _ in range(2))
    a = device.allocate(16)
    device.record(before := Event(), first)
    first.before = before
    for _ in range(2):
        device.launch(module.function("fill"), 1, 4, [word(a), word(5, 4)], stream=first)
    does(device, first, then)
    device.launch(module.function("fill"), 1, 4, [word(a), word(6, 4)], stream=then)
    is_ordered |= blocking and between == "the default stream"  # which waits for blocking streams, and they for it
    assert [x.is_beside for x in device.launches] == [False, False, not is_ordered]
    told = [line for line in checked_of(device.launches, "sm_90a") if "between streams" in line]
    assert len(told) == (not is_ordered)
    assert all("(1 launch may run beside" in line for line in told)


def test_a_stream_that_waits_for_a_captured_one_is_captured_with_it(device, module):
    first, second, event, back = Stream(), Stream(), Event(), Event()
    a = device.allocate(16)
    device.fill(a, 0, 16)
    device.begin_capture(first)
    device.launch(module.function("fill"), 1, 4, [word(a), word(5, 4)], stream=first)
    device.record(event, first)
    device.wait(second, event)
    device.fill(a, 6, 4, 1, second)
    device.record(back, second)
    device.wait(first, back)
    graph = device.end_capture(first, (first, second))
    assert [node.kind for node in graph.nodes] == ["kernel", "memset"]
    assert not device.view(a, 16).any()
    device.launch_graph(GraphExec(graph))
    assert device.view(a, 16).view(np.uint32).tolist() == [0x06060606, 5, 5, 5]


def test_a_capture_that_is_not_joined_or_is_synchronised_fails(device):
    first, second, event = Stream(), Stream(), Event()
    device.begin_capture(first)
    device.record(event, first)
    device.wait(second, event)
    device.submit(second, Node("empty", lambda: None))
    assert code_of(device.end_capture, first, (first, second)) == 904
    device.begin_capture(first)
    assert code_of(device.synchronize, first) == 900
    assert code_of(device.end_capture, first, (first,)) == 901


def test_bytes_that_nobody_wrote_are_told_when_they_go_to_the_host(capsys):
    device = VirtualDevice("sm_90a", policy=Policy())
    a, host = device.allocate(256), np.zeros(256, np.uint8)
    device.fill(a, 0, 64)
    for size in (64, 256, 256):
        device.copy(host.ctypes.data, a, size)
    line = " ".join(capsys.readouterr().err.split())
    assert line.count("smemsim: ") == 1
    assert "192 of 256 bytes that are copied to the host are uninitialised" in line
    assert "allocation1: 256 bytes" in line


def test_events_without_timing_have_no_time_between_them(device):
    timed, untimed = Event(), Event(2)
    for event in (timed, untimed):
        device.record(event)
    assert device.elapsed(timed, timed) > 0
    assert code_of(device.elapsed, timed, untimed) == 400


def test_a_user_object_ends_with_the_last_graph_that_holds_it():
    ended = []
    held, child, graph = UserObject(lambda: ended.append(1), 2), Graph(), Graph()
    child.hold(held, is_moved=True)
    node = graph.add_graph(child)
    executable, clone = GraphExec(graph), graph.clone()
    assert clone.copies[node] is clone.nodes[0]
    for holder in (child, graph, executable):
        holder.close()
    held.release()
    assert not ended
    clone.close()
    assert ended == [1]
    with pytest.raises(CudaError):
        held.release()


def test_a_child_graph_is_as_it_was_when_it_was_added():
    done, child, graph = [], Graph(), Graph()
    child.add(Node("empty", lambda: done.append("first")))
    graph.add_graph(child)
    child.add(Node("empty", lambda: done.append("later")))
    GraphExec(graph).run()
    assert done == ["first"]


def test_a_pool_says_what_memory_it_gives_and_how_much(device):
    pool = Pool("pinned", 3000)
    address = device.allocate_async(2000, pool=pool)
    assert (device.allocation(address).kind, pool.used) == ("pinned", 2000)
    assert code_of(device.allocate_async, 2000, None, pool=pool) == 2
    device.free_async(address)
    assert (pool.used, pool.most_used) == (0, 2000)


def test_nodes_run_behind_those_that_they_depend_on():
    graph, done = Graph(), []
    late = graph.add(Node("empty", lambda: done.append("late")))
    early = graph.add(Node("empty", lambda: done.append("early")))
    late.after.append(early)
    VirtualDevice("sm_90a", policy=Policy(quiet=True)).launch_graph(GraphExec(graph))
    assert done == ["early", "late"]
    early.after.append(late)
    with pytest.raises(CudaError):
        GraphExec(graph)


def test_events_that_were_not_recorded_have_no_time(device):
    begin, end = Event(), Event()
    assert code_of(device.elapsed, begin, end) == 400
    device.record(begin)
    device.record(end)
    assert device.elapsed(begin, end) > 0


@pytest.mark.parametrize("arch", CARDS)
def test_a_card_says_what_it_is(arch):
    device = VirtualDevice(arch, policy=Policy(quiet=True), multiprocessors=7)
    number = int(arch[3:].rstrip("a"))
    assert (device.attribute(75), device.attribute(76), device.attribute(16)) == (number // 10, number % 10, 7)
    for version, place in ((12, 388), (13, 384)):
        raw = device.properties(version)
        assert raw.startswith(device.card.name.encode())
        assert struct.unpack_from("<i", raw, place)[0] == 7
        assert struct.unpack_from("<ii", raw, 360) == (number // 10, number % 10)
    assert code_of(device.attribute, 999) == 1
    held = np.zeros((20, 2), np.uint32)
    device.launch(device.load(WHERE.replace("sm_90a", arch)).function("where"), 20, 1, [word(device.bind(held))])
    assert held.tolist() == [[cta % 7, 7] for cta in range(20)]  # programs index workspaces by %smid


# Each CTA leaves %smid and %nsmid.
WHERE = """.version 9.0 .target sm_90a .address_size 64
.visible .entry where(.param .u64 to) { .reg .b32 %r<4>; .reg .b64 %rd<3>; ld.param.u64 %rd1, [to]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 8;
  add.s64 %rd1, %rd1, %rd2; mov.u32 %r2, %smid; mov.u32 %r3, %nsmid; st.global.v2.u32 [%rd1], {%r2, %r3}; ret; }"""


@pytest.mark.parametrize("lets", ["griddepcontrol.launch_dependents;", ""])
def test_a_dependent_launch_is_held_against_the_one_in_front_of_it_in_its_stream(lets):
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, on_finding="collect"))
    module = device.load(PTX.replace("st.global.u32 [%rd3], %r2;", f"{lets} st.global.u32 [%rd3], %r2;"))
    to, other = word(device.allocate(256)), Stream()
    fill = functools.partial(device.launch, module.function("fill"), 2, 32, dependent=True)
    between = {"nothing": lambda: None, "a copy": lambda: device.fill(device.allocate(4), 0, 4), "a wait": device.synchronize}
    found = {}
    for name, act in between.items():
        for stream in (None, other):
            fill([to, word(1, 4)])
            act()
            found[name, stream is None] = [f.code for f in fill([to, word(2, 4)], stream=stream).findings]
            device.synchronize()
    assert found == {(name, same): ["X008"] * (name == "nothing" and same) for name in between for same in (True, False)}


@pytest.mark.parametrize(("has_fill", "count"), [(False, 1), (True, 0)])
def test_a_dependent_launch_in_a_graph_begins_when_a_node_before_it_is_over(has_fill, count):
    """A captured pair of launches, with a fill of other memory between them or without."""
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, on_finding="collect"))
    fill, to, other = device.load(PTX).function("fill"), word(device.allocate(256)), device.allocate(4)
    stream = Stream()
    device.begin_capture(stream)
    device.launch(fill, 2, 32, [to, word(1, 4)], stream=stream)
    if has_fill:
        device.fill(other, 0, 4, stream=stream)
    device.launch(fill, 2, 32, [to, word(2, 4)], stream=stream, dependent=True)
    graph = GraphExec(device.end_capture(stream))
    before = len(device.launches)
    graph.run()
    assert sum(bool(launch.run["findings"]) for launch in device.launches[before:]) == count


def test_a_map_is_encoded_by_the_rules_and_refused_by_them(device, capsys):
    given = {"data_type": 9, "global_address": 0x1000, "global_dim": (64, 8), "global_strides": (128,), "box_dim": (64, 8), "swizzle": 3}
    assert len(device.encode("tiled", **given)) == 128
    assert code_of(device.encode, "tiled", **given | {"box_dim": (257, 8)}) == 1
    assert "box_dim" in capsys.readouterr().err


def fat(*entries):
    out = b""
    for kind, arch, data, flags, unpacked in entries:
        padded = data + bytes(-len(data) % 8)
        packed = len(data) if flags else 0
        out += struct.pack("<HHIQIIHHIQQQQ", kind, 0x101, 64, len(padded), packed, 0, 0, 0, arch, 0, flags, 0, unpacked) + padded
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(out)) + out


def ptx_for(target):
    return f".version 8.0\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n".encode()


def test_the_right_code_of_a_fat_binary_is_chosen_and_the_reason_told(device):
    twice = ptx_for("sm_90a") * 4
    both = fat(
        (1, 80, ptx_for("sm_80"), 0, 0),
        (1, 90, lz4.block.compress(twice, store_size=False), 0x2011, len(twice)),
        (1, 100, ptx_for("sm_100a"), 0, 0),
    )
    found = images(both)
    assert [image.target for image in found] == ["sm_80", "sm_90a", "sm_100a"]
    assert found[1].ptx.encode() == twice
    image, why = chosen(found, "sm_90a")
    assert (image.target, why) == ("sm_90a", "PTX for sm_90a, of sm_80, sm_90a, sm_100a")
    assert chosen(found, "sm_103a")[0].target == "sm_80"  # sm_100a is for sm_100 alone
    assert chosen(images(ptx_for("sm_100f")), "sm_103a")[0].target == "sm_100f"


@pytest.mark.parametrize(
    ("newer", "arch", "is_told"),
    [
        ((2, 90, b"cubin"), "sm_90a", True),
        ((2, 90, b"cubin"), "sm_100a", False),  # a card of another family does not run it
        ((2, 80, b"cubin"), "sm_90a", False),  # neither does this card; it compiles the PTX
        ((1, 90, ptx_for("sm_90a")), "sm_90a", False),  # smemsim runs the PTX for the card
    ],
)
def test_machine_code_that_a_card_prefers_to_the_ptx_is_named_once(newer, arch, is_told):
    device, told = VirtualDevice(arch, policy=Policy(quiet=True)), []
    device.tell = told.append
    kind, number, code = newer
    code = cubin() if kind == 2 else code
    for _ in range(2):
        device.load(fat((1, 80, ptx_for("sm_80"), 0, 0), (kind, number, code, 0, 0)))
    assert len(told) == is_told
    if is_told:
        assert "machine code for sm_90, which a card runs, and smemsim runs its PTX for sm_80" in told[0]
        assert "code=compute_90a" in told[0]


@pytest.mark.parametrize(
    ("ptx", "machine", "arch", "is_told"),
    [
        ("sm_90", "sm_90a", "sm_90a", True),  # wgmma is in the machine code only
        ("sm_90", "sm_90", "sm_90a", False),
        ("sm_90a", "sm_90a", "sm_90a", False),
        ("sm_80", "sm_100a", "sm_103a", False),  # code with `a` runs on its own card only
        ("sm_80", "sm_100f", "sm_103a", True),
    ],
)
def test_machine_code_with_features_that_the_ptx_lacks_is_named(ptx, machine, arch, is_told):
    flags = {"a": 0x100011, "f": 0x200011}.get(machine[-1], 0x11)
    device, told = VirtualDevice(arch, policy=Policy(quiet=True)), []
    device.tell = told.append
    device.load(fat((1, 80, ptx_for(ptx), 0, 0), (2, int(machine.strip("sm_af")), cubin(), flags, 0)))
    assert [f"machine code for {machine}, which a card runs" in text for text in told] == [True] * is_told


def packed(by, text):
    if by == "lz4":
        return lz4.block.compress(text, store_size=False), 0x2011
    try:
        from compression import zstd
    except ImportError:
        zstd = importlib.import_module("backports.zstd")
    return zstd.compress(text), 0x8011


def test_lines_of_a_device_in_the_programs_own_process_cannot_command_the_terminal(device, capfd):
    """Names of kernels and files come from code that the program loads."""
    device.tell("k\x1b[2J.cu:7 \x1b[1mbold\x1b[0m")
    assert capfd.readouterr().err == "smemsim: k\\x1b[2J.cu:7 \x1b[1mbold\x1b[0m\n"


@pytest.mark.parametrize("by", ["lz4", "zstd"])
def test_compressed_code_is_read_and_damaged_code_is_refused(by):
    text = ptx_for("sm_90a") * 4
    data, flags = packed(by, text)
    assert images(fat((1, 90, data, flags, len(text))))[0].ptx.encode() == text
    for damaged, size in (
        (data[: len(data) // 2], len(text)),
        (data, len(text) + 1000),
        (data, 1 << 28),
        (data, len(text) - 1),
        (data[:-1], len(text)),
        (b"", len(text)),
        (data[::-1], len(text)),
    ):
        with pytest.raises(InputError, match=f"{by} entry is damaged"):
            images(fat((1, 90, damaged, flags, size)))


@pytest.mark.parametrize("by", ["lz4", "zstd"])
def test_compressed_code_becomes_no_larger_than_its_header_says(by):
    data, flags = packed(by, bytes(1 << 26))
    with pytest.raises(InputError, match="at most"):
        images(fat((1, 90, data, flags, 1 << 40)))
    tracemalloc.start()
    try:
        with contextlib.suppress(InputError):
            images(fat((1, 90, data, flags, 1000)))
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("by", ["lz4", "zstd"])
def test_the_entries_of_a_fat_binary_have_a_bound_together(by, monkeypatch):
    data, flags = packed(by, bytes(1000))
    monkeypatch.setattr("smemsim.virtual.fatbin.MOST_BYTES", 2999)
    assert len(images(fat(*[(1, 90, data, flags, 1000)] * 2))) == 2
    with pytest.raises(InputError, match="and 2999 of all together"):
        images(fat(*[(1, 90, data, flags, 1000)] * 3))


@pytest.mark.parametrize("size", range(4, 64, 7))
def test_code_that_ends_in_its_header_is_refused(size):
    for whole in (fat((1, 90, ptx_for("sm_90a"), 0, 0)), cubin((".nv_debug_ptx_txt", ptx_for("sm_90a")))):
        with contextlib.suppress(InputError):
            assert not any(image.ptx for image in images(whole[:size]))


@pytest.mark.parametrize("more", [1, 64, 1 << 40, 1 << 63, (1 << 64) - 1024])
def test_a_fat_binary_that_is_cut_is_refused(more):
    """Of cut text the kernel would be another one, and of cut entries the code another target's."""
    code = bytearray(fat((1, 80, ptx_for("sm_80"), 0, 0), (1, 90, ptx_for("sm_90a"), 0, 0)))
    with pytest.raises(InputError, match="it is damaged"):
        images(bytes(code[: -(more % 200) - 1]))
    length = len(ptx_for("sm_90a"))
    struct.pack_into("<Q", code, len(code) - length - 64 + 8, length + more)
    with pytest.raises(InputError, match="goes beyond its end: it is damaged"):
        images(bytes(code))


def test_entries_without_a_whole_header_are_refused():
    entry = struct.pack("<HHIQ", 1, 0, 1, 0)
    with pytest.raises(InputError, match="a header of 1 bytes"):
        images(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 64 + len(entry)) + entry + bytes(64))


def test_sections_of_a_cubin_that_lie_over_one_another_are_refused():
    """A file of four megabytes could become 250 gigabytes."""
    count, name = 1000, b"\0.nv_debug_ptx_txt\0"
    at = 64 + 64 * count
    rows = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, at, len(name), 0, 0, 1, 0) + struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 0, at, 0, 0, 1, 0) * (
        count - 1
    )
    with pytest.raises(InputError, match="lie over one another"):
        images(wild_elf(64, 64, count) + rows + name)


@pytest.mark.timeout(20)
def test_a_text_of_white_space_alone_takes_no_long_time():
    for text in (b"\n" * 200_000, b"\t\n " * 100_000, b".target\n" * 50_000, b".target " * 50_000):
        assert not images(text)[0].target


def test_line_tables_have_a_bound(monkeypatch):
    """A byte of a line program can be a row."""
    monkeypatch.setattr("smemsim.virtual.line_tables.MOST_ROWS", 100)
    table = struct.pack("<IHIBBbBB", 1 << 20, 2, 7, 1, 1, 1, 1, 1) + b"\0\0" + b"\1" * 200_000
    whole = cubin((".nv_debug_ptx_txt", ptx_for("sm_90a").replace(b"\n", b"\0")), (".nv_debug_line_sass", table), (".debug_line", table))
    tracemalloc.start()
    try:
        (image,) = images(whole)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()
    assert image.ptx.encode().rstrip() == ptx_for("sm_90a").rstrip()


def test_code_at_an_address_ends_where_its_header_says():
    """What lies behind it is not part of it."""
    behind = b"\x7fELF and more"
    for code in (fat((1, 90, ptx_for("sm_90a"), 0, 0)), fat(), cubin((".nv_debug_ptx_txt", ptx_for("sm_90a"))), cubin(), ptx_for("sm_80")):
        held = ctypes.create_string_buffer(code + (b"\0" if code.startswith(b".") else b"") + behind)
        assert at_address(ctypes.addressof(held)) == code


@pytest.mark.parametrize("abi", [7, 8])
def test_the_target_of_machine_code_is_in_its_flags(abi):
    """In the second byte from ABI 8 on, in the first one before."""
    code = bytearray(cubin())
    code[8] = abi
    code[48:52] = struct.pack("<I", 0x5A04 if abi == 8 else 0x2150)
    assert [(image.target, image.ptx, image.origin, image.cubin) for image in images(bytes(code))] == [
        (f"sm_{10 + abi * 10}", "", "machine code", b"")
    ]
    (image,) = images(fat((2, 89, bytes(code), 0, 0)))
    assert image.target == "sm_89"
    (image,) = images(cubin((".nv.host", b"x")))
    assert image.cubin == cubin((".nv.host", b"x"))


def test_of_several_codes_the_cards_own_its_familys_and_the_newest_older_one_are_taken_in_this_order():
    texts = {target: images(ptx_for(target))[0] for target in ("sm_80", "sm_90", "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_103a")}
    in_cubin = images(cubin((".nv_debug_ptx_txt", ptx_for("sm_103a"))))[0]
    order = ["sm_103a", "sm_100f", "sm_103", "sm_100", "sm_90", "sm_80"]
    for n, best in enumerate(order):
        for left in (order[n:], order[: n - 1 : -1] if n else order[::-1]):
            image, why = chosen([texts[target] for target in [*left, "sm_100a"]], "sm_103a")
            assert image is texts[best], (left, why)
            assert ("older" in why, "family" in why) == (best not in ("sm_103a", "sm_100f"), best == "sm_100f")
    for some in ([in_cubin, texts["sm_103a"]], [texts["sm_103a"], in_cubin]):
        assert chosen(some, "sm_103a")[0].origin == "PTX", "the text of a cubin lacks the lines of the source"
    for none, says in (([texts["sm_100a"]], r"there is PTX for sm_100a, which sm_103a does not run; choose sm_100a \(--arch\), or compile"), ([], "there is no code and no PTX"),
                       (images(cubin()), "there is machine code for sm_90 and no PTX")):  # fmt: skip
        with pytest.raises(InputError, match=says):
            chosen(none, "sm_103a")


def leb(number, *, signed=False):
    """A number as DWARF writes it, by the definition (DWARF 2, 7.6)."""
    out = b""
    while True:
        low, number = number & 0x7F, number >> 7
        if (not number and not (signed and low & 0x40)) or (signed and number == -1 and low & 0x40):
            return out + bytes([low])
        out += bytes([low | 0x80])


LINE_FORMS = ((1, -5, 14, 10), (4, -3, 8, 10), (16, -1, 10, 13), (2, 1, 4, 10))  # step, base, range, first opcode that is special


def line_program(rng, rows, files=((0, "a.cu"),), folders=(), form=LINE_FORMS[0]):
    """(section, its relocations) of rows (symbol, address, file, line, caller), each in one of the ways that there are."""
    step, base, range_, first = form
    head = b"".join(folder.encode() + b"\0" for folder in folders) + b"\0"
    head += b"".join(name.encode() + b"\0" + leb(folder) + leb(200) + leb(9) for folder, name in files) + b"\0"
    body, symbols = b"", []
    for of, held in itertools.groupby(rows, key=lambda row: row[0]):
        body += b"\0" + leb(9) + b"\2"
        symbols.append((len(body), of))
        body += bytes(8)
        at, in_file, line, outer = 0, 1, 1, 0
        for _, address, file, number, caller in held:
            if caller != outer:
                body += b"\0" + leb(1 + len(leb(caller)) + 2) + b"\x90" + leb(caller) + b"\1\1"
            body += b"\4" + leb(file) if file != in_file else b""
            body += rng.choice((b"", b"", b"\5" + leb(300), b"\6", b"\7", b"\0" + leb(3) + b"\x85\1\1", b"\0" + leb(1) + b"\x86"))
            while address - at >= (255 - first) // range_ * step and rng.random() < 0.5:
                at += (255 - first) // range_ * step
                body += b"\x08"
            if address > at and rng.random() < 0.5:
                by = rng.randrange(1, (address - at) // step + 1)
                at += by * step
                body += b"\2" + leb(by) if rng.random() < 0.6 else b"\x09" + struct.pack("<H", by * step)
            special = first + (address - at) // step * range_ + number - line - base
            if 0 <= number - line - base < range_ and special < 256 and rng.random() < 0.7:
                body += bytes([special])
            else:
                body += b"\2" + leb((address - at) // step) + b"\3" + leb(number - line, signed=True) + b"\1"
            at, in_file, line, outer = address, file, number, caller
        body += b"\0\1\1"
    lengths = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1][: first - 1])
    header = struct.pack("<BBbBB", step, 1, base, range_, first) + lengths + head
    whole = struct.pack("<IHI", 6 + len(header) + len(body), 2, len(header)) + header + body
    begin = len(whole) - len(body)
    return whole, b"".join(struct.pack("<QQq", begin + at, of << 32 | 2, 0) for at, of in symbols)


def located(ptx, sass, source):
    """The PTX of a cubin with these line tables."""
    names = (".nv_debug_line_sass", ".rela.nv_debug_line_sass", ".debug_line", ".rela.debug_line")
    (image,) = images(cubin((".nv_debug_ptx_txt", ptx.replace("\n", "\0").encode()), *zip(names, (*sass, *source), strict=True)))
    return image.ptx


@pytest.mark.parametrize("seed", range(40))
def test_lines_of_the_source_come_back_from_the_line_tables_of_a_cubin(seed):
    """Each blank line of a function gets the row of the source of the next PTX line that has a machine instruction."""
    rng = random.Random(seed)
    folders = ("/src", "lib")[: rng.randrange(3)]
    files = [(rng.randrange(4), rng.choice(("a.cu", "/b/b.h", "c.cuh"))) for _ in range(3)]
    named = [name if name[0] == "/" or not 0 < n <= len(folders) else f"{folders[n - 1]}/{name}" for n, name in files]
    text, sass, rows = [".version 9.0", ".target sm_90a", ""], [], []
    for of in (3, 5, 9)[: rng.randrange(1, 4)]:
        text += ["", f".visible .entry k{of}()", "{"]
        at = 16 * rng.randrange(3)
        for _ in range(rng.randrange(1, 12)):
            text += [""] * rng.choice((0, 1, 1, 2)) + ["add.u32 %r1, %r1, 1;"]
            for _ in range(rng.choice((0, 1, 1, 2))):
                sass.append((of, at, 1, len(text), 0))
                at += 16 * rng.randrange(1, 30)
        text.append("}")
        places = sorted(16 * n for n in rng.sample(range(at // 16 + 3), min(at // 16 + 2, 8)))
        for place in places:
            rows.append(
                (of, place, rng.choice((0, 1, 1, 2, 3, 4)), rng.randrange(1, 400), rng.choice((0, 0, 1, len(rows), len(rows) + 90)))
            )
    shuffled = sass if seed % 2 else [row for of in (9, 5, 3) for row in sass if row[0] == of]
    form = rng.choice(LINE_FORMS)
    found = located(
        "\n".join(text), line_program(rng, shuffled, form=rng.choice(LINE_FORMS)), line_program(rng, rows, files, folders, form)
    )

    of_line = {}
    for of, at, _, line, _ in sorted(sass, key=lambda row: row[1]):
        mine = [row for row in rows if row[0] == of]
        if mine:
            of_line.setdefault(line, [row for row in mine if row[1] <= at][-1] if mine[0][1] <= at else mine[0])
    used, last, depth, wanted = set(), "", 0, list(text)
    for n, line in enumerate(text):
        depth += (line == "{") - (line == "}")
        after = [of_line[at] for at in range(n + 2, n + 2 + 64) if at in of_line]
        if line or not depth or not text[n + 1] or not after:
            continue
        _, _, file, number, caller = after[0]
        location = ""
        if 1 <= file <= 3:
            location = f".loc {file} {number} 0"
            used.add(file)
            if 1 <= caller <= len(rows) and 1 <= rows[caller - 1][2] <= 3:
                _, _, outer, number, _ = rows[caller - 1]
                used.add(outer)
                location += f", function_name inlined, inlined_at {outer} {number} 0"
        if location and location != last:
            wanted[n] = last = location
    assert found.split("\n") == wanted + [f'.file {n} "{named[n - 1]}"' for n in sorted(used)]


BLANK = ".target sm_90a\n.entry k()\n{\n\nret;\n}"
PLAIN = ((3, 0, 1, 5, 0),)


@pytest.mark.parametrize("away", [0, 63, 64])
def test_a_machine_instruction_may_be_some_lines_further_on(away):
    ptx = BLANK.replace("ret;", "nop;\n" * away + "ret;")
    rng = random.Random(1)
    found = located(ptx, line_program(rng, ((3, 0, 1, 5 + away, 0),)), line_program(rng, PLAIN))
    assert (".loc 1 5 0" in found) == (away < 64)


@pytest.mark.parametrize(
    "change",
    {
        "another version": lambda table: table[:4] + b"\4" + table[5:],
        "a range of nothing": lambda table: table[:13] + b"\0" + table[14:],
        "no opcodes": lambda table: table[:14] + b"\0" + table[15:],
        "two programs": lambda table: table + table,
        "cut in its files": lambda table: table[:28],
        "cut in its rows": lambda table: table[:-8],
        "a number that does not end": lambda table: struct.pack("<I", len(table) + 10) + table[4:] + b"\2" + b"\xff" * 12 + b"\1",
        "nothing": lambda table: b"",
    }.values(),
)
@pytest.mark.parametrize("which", [0, 1])
def test_line_tables_of_unknown_form_leave_the_text_as_it_is(change, which):
    rng = random.Random(2)
    tables = [line_program(rng, PLAIN), line_program(rng, PLAIN)]
    assert located(BLANK, *tables) == BLANK.replace("\n\n", "\n.loc 1 5 0\n") + '\n.file 1 "a.cu"'
    tables[which] = (change(tables[which][0]), tables[which][1])
    assert located(BLANK, *tables) == BLANK


def wild_elf(sections, entry=64, count=1):
    return b"\x7fELF\2\1\1\x41" + bytes(32) + struct.pack("<Q", sections) + bytes(10) + struct.pack("<HH", entry, count) + bytes(2)


@pytest.mark.parametrize(
    "code",
    [wild_elf(1 << 44), wild_elf(2**64 - 64), wild_elf(0, 0xFFFF, 0xFFFF), struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 40) + bytes(64)],
)
def test_code_whose_header_claims_bytes_that_are_not_there_is_refused(code):
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        page[-len(code) - 1 : -1] = code
        here = ctypes.addressof(ctypes.c_char.from_buffer(page))
        with pytest.raises(InputError, match="not there"):
            at_address(here + mmap.PAGESIZE - len(code) - 1)


def cubin(*texts: tuple[str, bytes], machine: int = 190) -> bytes:
    """An ELF file for sm_90a, or for the host, with these sections."""
    names, data, sections = b"\0", b"", b""
    for name, text in texts:
        sections += struct.pack("<IIQQQQIIQQ", len(names), 1, 0, 0, 64 + len(data), len(text), 0, 0, 1, 0)
        names, data = names + name.encode() + b"\0", data + text
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64 + len(data), len(names), 0, 0, 1, 0)
    shape = (2, machine, 1, 0, 0, 64 + len(data) + len(names), 0x5A04, 64, 0, 0, 64, len(texts) + 1, len(texts))
    return b"\x7fELF\2\1\1\x41\x08" + bytes(7) + struct.pack("<HHIQQQIHHHHHH", *shape) + data + names + sections


@pytest.mark.parametrize("size", [64, 65, 100])
def test_the_head_of_a_cubin_says_for_which_card_it_is(size):
    """Its sections may lie beyond the end of a file that was cut: then it is machine code."""
    [image] = images(cubin((".text.k", b"\0" * 64))[:size])
    assert (image.target, image.ptx, image.origin) == ("sm_90", "", "machine code")


def test_a_library_that_a_linker_put_beside_a_program_may_be_machine_code():
    """As CUDA's device runtime is, which nvcc 13.0 links to all that is compiled with -rdc=true: machine code, and PTX
    for a newer card.
    """
    newer = (1, 121, ptx_for("sm_121"), 0, 0)
    own, library = images(fat((1, 90, ptx_for("sm_90a"), 0, 0))), images(fat((2, 90, cubin(), 0, 0), newer))
    assert of_parts([own, library], "sm_90a") == own[0].ptx
    whole = images(cubin((".nv_debug_ptx_txt", ptx_for("sm_90a")), (".nv_debug_ptx_txt.1", ptx_for("sm_90a").replace(b" k(", b" other("))))
    text = of_parts([whole, own, images(ptx_for("sm_90a").replace(b" k(", b" other(")), library], "sm_90a")
    assert list(read_module(text).functions) == ["k", "other"]  # what is linked already has all files
    for parts in ([library], [own, images(fat(newer))]):
        with pytest.raises(InputError, match="there is PTX for sm_121, which sm_90a does not run"):
            of_parts(parts, "sm_90a")


def test_the_text_that_ptxas_leaves_in_a_cubin_is_its_ptx(device):
    text = ptx_for("sm_90a").rstrip(b"\n").replace(b"\n", b"\0") + b"\0"
    module = device.load(cubin((".nv_debug_ptx_txt", text)))
    assert (module.names, module.why) == (["k"], "PTX in a cubin for sm_90a")
    odd = text.replace(
        b"ret;", b".reg .b32 r; .reg .b64 d; mov.b32 r, d; ret;"
    )  # a cubin has been through ptxas: what nothing here reads waits for a launch
    assert device.load(cubin((".nv_debug_ptx_txt", odd))).names == ["k"]


def test_a_cubin_that_was_linked_has_the_text_of_each_input(device):
    """nvJitLink numbers the sections."""
    one = ptx_for("sm_90a").rstrip(b"\n").replace(b"\n", b"\0") + b"\0"
    module = device.load(cubin((".nv_debug_ptx_txt.1379580968", one), (".nv_debug_ptx_txt.5", one.replace(b"entry k(", b"entry other("))))
    assert (sorted(module.names), module.why) == (["k", "other"], "PTX in a cubin for sm_90a")


TILES = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 to, .hidden .param .align 64 .b8 made[128])
.reqntid 64
.reqnctapercluster 2
.blocksareclusters
.language 7
{
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [to]; ld.param.u32 %r1, [made+8]; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
  mad.lo.u32 %r1, %r2, %r3, %r1; mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2; mov.u32 %r2, %tid.x; setp.ne.u32 p, %r2, 0; @!p st.global.u32 [%d1], %r1;
  ret;
}
.nv_intermediate_source_section {
.code_block {
.source_begin
for %i in (%a to %b) : tile<i32> { "
.source_end
}
}
""".replace("{\n  .reg", "{\n  .reg .pred p; .reg")
# mov rax, [rcx]; add rax, 5; mov [rcx + 0x38], rax; xor eax, eax; ret: hidden parameters lie at 0x240 of constant
# memory, where the bank begins at 0x210
MAKES = bytes.fromhex("488b01 4883c005 48894138 31c0 c3")


def host_part(names=(b"k",), relocated=b"", behind=0):
    """Code for the host as tileiras puts it into a cubin (compiled: tileiras 13.4)."""
    symbols, strings = bytes(24), b"\0"
    for n, name in enumerate(names):
        for title, section, at, length in (
            (f"FUNC_NAME_{n}", 1, 2 * n, len(name) + 1),
            (f"FUNC_ON_ARGUMENTS_CHANGE_{n}", 0, 0, len(MAKES) + behind),
        ):
            symbols += struct.pack("<IBBHQQ", len(strings), 0, 0, section, at, length)
            strings += f"__CUDA_TILEIR_{title}".encode() + b"\0"
    parts = [
        (".ltext", MAKES),
        (".lrodata", b"\0".join(names) + b"\0"),
        (".symtab", symbols),
        (".strtab", strings),
        (".rela.ltext", relocated),
    ]
    return cubin(*parts, machine=62)


@pytest.mark.parametrize(
    "line",
    [
        "tex.2d.v4.f32.f32 {f0, f1, f2, f3}|p, [to, {f0, f1}];",
        "tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [to, to, {f0, f1}];",
    ],
    ids=["residency", "sampler"],
)
def test_what_ptxas_takes_and_nobody_models_waits_for_a_launch(device, line):
    entry = b"k(.param .u64 of) { .reg .f32 f<4>; .reg .b64 to; .reg .pred p; ld.param.u64 to, [of]; " + line.encode()
    module = device.load(ptx_for("sm_90a").replace(b"k() {", entry))
    with pytest.raises(Unmodelled):
        device.launch(module.function("k"), 1, 1, [word(0)])


def test_what_ptxas_refuses_is_refused_when_it_is_loaded(device):
    wrong = ptx_for("sm_90a").replace(b"k() {", b"k(.param .u64 of) { .reg .f32 f; ld.param.b32 f, [of + 8];")
    assert code_of(device.load, wrong) == 218


def tile_kernel(device, host):
    text = (".nv_debug_ptx_txt", TILES.replace("\n", "\0").encode())
    begin = (".nv.info.k", bytes((4, 0x0A, 8, 0)) + struct.pack("<IHH", 9, 0x210, 0xB0))
    return device.load(cubin(text, begin, (".nv.host", host))).function("k")


def test_a_kernel_of_tiles_is_launched_by_tiles_and_its_hidden_parameters_are_made(device):
    kernel = tile_kernel(device, host_part((b"j", b"k")))
    out = device.allocate(16)
    assert [p.size for p in kernel.parameters] == [8]
    run = device.launch(kernel, (2, 1, 1), (1, 1, 1), [word(out)])
    assert run.ok
    assert device.view(out, 16).view(np.uint32).tolist() == [(out + 5 & 0xFFFFFFFF) + 64 * n for n in range(4)]
    loaded = memory_that_holds_code()
    device.launch(kernel, (2, 1, 1), (1, 1, 1), [word(out)])
    assert memory_that_holds_code() == loaded


def memory_that_holds_code():
    return pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").count(" rwxp ")


def test_code_for_the_host_is_not_run_where_the_policy_is_so(device):
    kernel = tile_kernel(device, host_part())
    device.policy = Policy(quiet=True, host_code=False)
    before = memory_that_holds_code()
    with pytest.raises(CudaError, match="--no-host-code"):
        device.launch(kernel, (2, 1, 1), (1, 1, 1), [word(device.allocate(16))])
    assert memory_that_holds_code() == before


@pytest.mark.parametrize(
    "host",
    [
        b"",
        host_part((b"other",)),
        host_part(relocated=struct.pack("<QQq", 3, 0, 0)),
        host_part()[:100],
        host_part(relocated=b"?"),
        host_part(behind=1),
    ],
    ids=["none", "of another kernel", "that calls", "cut off", "damaged", "longer than its section"],
)
def test_hidden_parameters_that_nobody_makes_are_a_sentence(device, host, capsys):
    with pytest.raises(CudaError, match="hidden parameters"):
        device.launch(tile_kernel(device, host), (2, 1, 1), (1, 1, 1), [word(device.allocate(16))])


@pytest.mark.parametrize(
    ("code", "number", "told"),
    [
        (ptx_for("sm_100a"), 218, "which sm_90a does not run"),
        (fat((1, 100, ptx_for("sm_100a"), 0, 0)), 209, "which sm_90a does not run"),
        (fat((2, 90, b"\x7fELF" + bytes(60), 0, 0)), 209, "machine code for sm_90"),
        (b".version 8.0\n.target sm_90\n bad", 218, "line 3"),
        (b"\xff\xfe\xfd\xfc" * 16, 209, "no PTX"),
    ],
)
def test_code_that_does_not_run_here_has_a_code_and_a_sentence(device, capsys, code, number, told):
    assert code_of(device.load, code) == number
    assert told in capsys.readouterr().err


def test_several_texts_become_one(device):
    head = ".version 8.0\n.target sm_90a\n.address_size 64\n"
    caller = (
        head + ".extern .global .align 4 .b8 table[16];\n.extern .func (.param .b32 r) twice(.param .b32 x);\n"
        ".visible .entry k(.param .u64 to) { .reg .b32 %a<3>; .reg .b64 %r<2>; ld.param.u64 %r1, [to]; ld.global.u32 %a1, [table+4];\n"
        "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %a1; call (y), twice, (x); ld.param.b32 %a2, [y]; }\n st.global.u32 [%r1], %a2; ret; }\n"
    )
    callee = (
        head + ".visible .global .align 4 .b8 table[16] = {1, 0, 0, 0, 21};\n.visible .func (.param .b32 r) twice(.param .b32 x)\n"
        "{ .reg .b32 %a<3>; ld.param.b32 %a1, [x]; add.u32 %a2, %a1, %a1; st.param.b32 [r], %a2; ret; }\n"
    )
    a = device.allocate(4)
    device.launch(device.load(linked([caller, callee])).function("k"), 1, 1, [word(a)])
    assert device.view(a, 4).view(np.uint32)[0] == 42


def a_file(n, more="", head="8.0"):
    """One of several that have a weak function, a hidden one and a hidden variable of the same names, as files of nvcc
    -rdc=true have.
    """
    return f""".version {head}
.target sm_90a
.address_size 64
.global .align 4 .b8 $str[4] = {{{n}, 0, 0, 0}};   // "}};
.weak .global .align 4 .u32 shared_by_all = 7;
.weak .func (.param .b32 r) weak() {{ .reg .b32 %a<2>; ld.global.u32 %a1, [shared_by_all]; st.param.b32 [r], %a1; ret; }}
.func (.param .b32 r) hidden() {{ .reg .b32 %a<2>; ld.global.u32 %a1, [$str]; st.param.b32 [r], %a1; ret; }}
{more}
.visible .entry k{n}(.param .u64 to) {{
 .reg .b32 %a<4>; .reg .b64 %r<2>; .param .b32 x; .param .b32 y;
 .loc 1 {n} 1
 ld.param.u64 %r1, [to]; call (x), weak, (); ld.param.b32 %a1, [x]; call (y), hidden, (); ld.param.b32 %a2, [y];
 mad.lo.u32 %a3, %a1, 100, %a2; st.global.u32 [%r1+{4 * n}], %a3; ret; }}
.file 1 "{n}.cu"
"""


def test_names_of_one_file_are_its_own_among_several_and_weak_ones_are_one(device):
    text = linked([a_file(1), a_file(2, ".visible .const .align 4 .u32 other = 1;", head="8.7"), a_file(0)])
    module, to = device.load(text), device.allocate(12)
    for n in range(3):
        run = device.launch(module.function(f"k{n}"), 1, 1, [word(to)])
        assert run.findings == []
    assert device.view(to, 12).view(np.uint32).tolist() == [700, 701, 702]
    assert text.startswith(".version 8.7\n.target sm_90a\n")
    bodies = read_module(text).functions
    assert [{i.location.file for i in bodies[f"k{n}"].body if i.location} for n in range(3)] == [{"0.cu"}, {"1.cu"}, {"2.cu"}]


@pytest.mark.parametrize("more", [".visible .global .u32 one = 1;", ".visible .func one() { ret; }"])
def test_two_files_that_define_one_name_for_all_are_not_linked(device, more):
    assert code_of(device.load, linked([a_file(1, more), a_file(2, more)])) == 218


def test_the_environment_says_the_policy_and_a_mistake_names_the_variable():
    said = Policy(strict=True, ctas=(0, 2), limit_seconds=1.5, on_finding="raise").environment()
    assert said == {"SMEMSIM_STRICT": "1", "SMEMSIM_CTAS": "0,2", "SMEMSIM_LIMIT_SECONDS": "1.5", "SMEMSIM_ON_FINDING": "raise"}
    assert Policy.of(said) == Policy(strict=True, ctas=(0, 2), limit_seconds=1.5, on_finding="raise")
    for name, text, wanted in (
        ("SMEMSIM_LIMIT_SECONDS", "soon", "a number above 0"),
        ("SMEMSIM_LIMIT", "0.5", "a whole number above 0"),
        ("SMEMSIM_STRICT", "maybe", "1 or 0"),
        ("SMEMSIM_CTAS", "3-1", "numbers of CTAs, as 0-3 or 0,5, or sample"),
    ):
        with pytest.raises(InputError, match=f"{name} .*needs {wanted}"):
            Policy.of({name: text})


# ---- what is found, and how it is told


def test_findings_can_be_sent_to_another_process():
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, on_finding="raise"))
    with pytest.raises(FindingsError, match="X001") as told:
        device.launch(device.load(PTX).function("fill"), 1, 1, [word(64), word(1, 4)])
    assert told.value.run.findings
    sent = pickle.loads(pickle.dumps(told.value))
    assert (str(sent), sent.run) == (str(told.value), None)


@pytest.mark.parametrize(("away", "place"), [(1000, "1000 bytes past the end"), (1 << 33, "no array is near")])
def test_an_allocation_is_named_that_an_address_may_be_meant_for(device, away, place):
    a = device.allocate(4096)
    run = device.launch(device.load(PTX).function("fill"), 1, 1, [word(a + 4096 + away), word(1, 4)])
    (found,) = run.findings
    assert place in found.message
    assert bool(found.arrays) == (away == 1000)


ASSERTION = """.version 8.0
.target sm_90a
.address_size 64
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 text[3] = {110, 111, 0};
.visible .entry fails() { .reg .b64 %rd<2>; mov.u64 %rd1, text; cvta.global.u64 %rd1, %rd1;
  { .param .b64 a0; st.param.b64 [a0], %rd1; .param .b64 a1; st.param.b64 [a1], %rd1; .param .b32 a2; st.param.b32 [a2], 7;
    .param .b64 a3; st.param.b64 [a3], %rd1; .param .b64 a4; st.param.b64 [a4], 1; call.uni __assertfail, (a0, a1, a2, a3, a4); }
  ret; }
"""


GRID_SYNC = """.version 9.0 .target sm_90a .address_size 64
.visible .entry meets() { .reg .b32 %r<2>; .reg .pred %p<2>; mov.u32 %r0, %envreg1; mov.u32 %r1, %envreg2; or.b32 %r1, %r0, %r1;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra on; trap; on: ret; }
"""


def test_a_cooperative_launch_alone_has_a_barrier_of_the_grid():
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True))
    function = device.load(GRID_SYNC).function("meets")
    runs = [device.launch(function, 2, 32, [], cooperative=cooperative) for cooperative in (True, True, False)]
    assert [[f.code for f in run.findings] for run in runs] == [[], [], ["X013"]]
    assert code_of(device.synchronize) == 719


def test_an_assertion_is_told_as_a_card_tells_it_whatever_the_policy():
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, on_finding="raise"))
    run = device.launch(device.load(ASSERTION).function("fails"), 1, 1, [])
    assert [f.code for f in run.findings] == ["X013"]
    with pytest.raises(CudaError, match="assert") as told:
        device.synchronize()
    assert told.value.code == 710


def test_each_launch_is_told_when_it_is_over_and_how_many_seconds_are_left():
    device = VirtualDevice("sm_90a", policy=Policy(total_seconds=3600.0))
    ended, lines = [], []
    device.listeners.ended, device.tell = ended.append, lines.append
    a = device.allocate(4)
    device.launch(device.load(PTX).function("fill"), 1, 1, [word(a), word(1, 4)])
    time.sleep(0.002)  # it counts from the first launch on, and a quick machine is ready sooner
    device.policy = Policy(total_seconds=0.001)
    device.launch(device.load(PTX).function("fill"), 1, 1, [word(a), word(1, 4)])
    assert [(x.number, bool(x.refused)) for x in ended] == [(1, False), (2, True)]  # the second one is refused
    assert "s left of 3600" in lines[0]
    assert "the limit of 0.001 s is reached" in lines[1]


# ---- what an H200's driver said (tools/capture/card.py)


CARD = np.load(TESTS / "data" / "h200_card.npz")


def test_the_attributes_are_those_of_an_h200(device):
    said = CARD["attributes"].tolist()
    assert len(said) > 140
    assert [[number, device.attribute(number)] for number, _ in said] == said


def test_occupancy_is_that_of_an_h200(device):
    rows = CARD["occupancy"]
    assert len(rows) > 15_000
    for registers, static in np.unique(rows[:, :2], axis=0).tolist():
        shared = f".shared .align 1 .b8 buffer[{static}];" if static else ""
        ptx = f".version 8.0 .target sm_90a .address_size 64 .visible .entry k() .maxnreg {registers} {{ {shared} ret; }}"
        kernel = device.load(ptx).function("k")
        kernel.set_attribute(8, 232448 - static)  # as it was measured
        asked = rows[(rows[:, 0] == registers) & (rows[:, 1] == static)]
        found = [device.occupancy.blocks_per_multiprocessor(kernel, threads, dynamic) for threads, dynamic in asked[:, 2:4].tolist()]
        assert found == asked[:, 4].tolist(), (registers, static)


def test_what_a_program_asks_before_it_has_code_does_not_wait_for_the_simulator():
    """A copy of uninitialised bytes within the card's memory does: the simulator keeps where they are."""
    asked = (
        "import ctypes, sys; from smemsim.virtual import VirtualDevice; from smemsim.virtual.server import Session; d = VirtualDevice('sm_90a'); "
        "h = ctypes.create_string_buffer(64); a = d.allocate(64); d.copy(a + 32, ctypes.addressof(h), 32); d.properties(13); d.free(a); print({'numba', 'smemsim.diagnosis.run', 'rich'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_memory_of_before_the_first_code_is_the_kernels():
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True))
    gone, kept = device.allocate(64), device.allocate(64)
    device.free(gone)
    assert device.launch(device.load(PTX).function("fill"), 1, 16, [word(kept), word(5, 4)]).findings == []
    assert device.view(kept, 64).view(np.uint32).tolist() == [5] * 16


def test_an_access_behind_an_array_names_the_allocation_whatever_the_message_says(device, capfd):
    kernel = device.load(PTX).function("fill")
    device.allocate(64, where="a.py:1"), device.launch(kernel, 1, 32, [word(device.allocate(64, where="b.py:2")), word(5, 4)])
    assert [line.rpartition("made at ")[2] for line in device.launches[-1].named] == ["b.py:2"]


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("import math\n\nmath.sqrt(-1)\n", 3, "ValueError: "),
        ("def f():\n    raise KeyError(5)\nf()\n", 2, "KeyError: 5"),
        ("x = 1\ny = (\n", 2, "SyntaxError: "),
    ],
)
def test_a_file_of_hooks_that_fails_is_named_with_the_line_that_does(text, at, why, tmp_path):
    hooks = tmp_path / "hooks.py"
    hooks.write_text(text)
    with pytest.raises(InputError) as refused:
        VirtualDevice("sm_90a", policy=Policy(quiet=True, hooks=hooks))
    assert f"fails at {hooks}:{at}: {why}" in str(refused.value)


@pytest.mark.parametrize("wrong", [{"cancel": "foo"}, {"hooks": pathlib.Path("nope.py")}])
def test_a_policy_that_cannot_be_is_refused_before_anything_is_launched(wrong):
    with pytest.raises(InputError, match=r"cancel = 'foo': needs|nope\.py: there is no such file"):
        Policy(**wrong)


# The kernels that an H200 was asked to launch, by number: directives, and a static array.
_CLUSTERED = ".explicitcluster .reqnctapercluster"
LAUNCHED = {
    **dict.fromkeys((0, 11, 24, 26), ("", 0)), 1: (".maxntid 128", 0), 2: (".maxntid 128 .minnctapersm 4", 0), 3: (".maxntid 1024 .minnctapersm 2", 0), 4: ("", 16384),
    5: (f"{_CLUSTERED} 4", 0), 6: (f"{_CLUSTERED} 2, 2", 0), 7: (f"{_CLUSTERED} 16", 0), 8: (".maxntid 256 .minnctapersm 1 .maxclusterrank 4", 0),
    9: (".blocksareclusters .reqntid 64 .reqnctapercluster 1", 0), 10: (".blocksareclusters .reqntid 64 .reqnctapercluster 2", 0), 12: (f"{_CLUSTERED} 1", 0),
    13: (f".maxntid 96 {_CLUSTERED} 3", 0), 14: (".reqntid 64", 0), 15: (".reqntid 16, 4", 0), 16: (".maxntid 16, 8", 0), 17: (".maxntid 64 .minnctapersm 8", 0),
    18: (".reqnctapercluster 2", 0), 19: (".explicitcluster", 0), 20: (".maxclusterrank 4", 0), 21: (".explicitcluster .maxclusterrank 2", 0), 25: ("", 40000),
}  # fmt: skip


def test_launches_are_taken_and_refused_as_an_h200_does():
    rows = json.loads(gzip.decompress((TESTS / "data" / "h200_launch_limits.json.gz").read_bytes()))["rows"]
    assert len(rows) > 1000
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True, watch_global=False, ctas=[0]))
    device.begin_capture(stream := Stream())  # nothing runs
    kernels = {}
    for number, (directives, static) in LAUNCHED.items():
        body = f".shared .b8 s[{static}]; .reg .b32 %r; mov.u32 %r, s;" if static else ""
        kernels[number] = device.load(
            f".version 8.8 .target sm_90a .address_size 64 .visible .entry k() {directives} {{ {body} ret; }}"
        ).function("k")
    for number, grid, block, shared, cluster, cooperative, large, dynamic, code, occupancy, available in rows:
        f = kernels[number]
        f.most_dynamic, f.allows_large_clusters = None, bool(large)
        if dynamic != -9:
            with contextlib.suppress(CudaError):
                f.set_attribute(8, dynamic)
        shape = {"cluster": cluster and tuple(cluster), "shared_bytes": shared, "cooperative": bool(cooperative)}
        about = (number, grid, block, shape, dynamic)
        try:
            device.launch(f, tuple(grid), tuple(block), [], stream=stream, **shape)
            found = 0
        except CudaError as e:
            found = e.code
        assert found == code, about
        threads = math.prod(block)
        if occupancy >= 0:
            assert device.occupancy.blocks_per_multiprocessor(f, threads, shared) == occupancy, about
        if available >= 0:
            assert device.occupancy.shared_available(f, grid[0], threads) == available, about
        else:
            assert code_of(device.occupancy.shared_available, f, grid[0], threads) == -available, about
        if cluster is not None:
            try:
                at_once = 0, device.occupancy.active_clusters(f, threads, shared, tuple(cluster))
            except CudaError as e:
                at_once = e.code, 0
            assert _agrees(at_once, f, grid, threads, cluster, code, cooperative), (about, code, at_once)


def _agrees(at_once, f, grid, threads, cluster, code, cooperative):
    """Does the number of clusters at once, or its error, go with how the launch ended? Clusters that a launch refuses
    are refused here too, except those above 16.
    """
    error, count = at_once
    size = math.prod(cluster) or math.prod(f.cluster) or 1
    if not threads:
        return error == 1
    if code == 0:  # what was launched fits; all of it at once if it is cooperative
        return count * size >= (math.prod(grid) if cooperative else size)
    if code == 720:
        return count * size < math.prod(grid)
    is_multiple = all(g % (c or 1) == 0 for g, c in zip(grid, cluster, strict=True))
    return code != 912 or not is_multiple or error == 912 or (f.allows_large_clusters and size > 16 and count == 0)
