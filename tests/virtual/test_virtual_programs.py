"""Programs that nvcc and a C++ compiler build, unchanged under `smemsim exec`: what they print, what they end with, and
what is found in them.
"""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib

import pytest
from click.testing import CliRunner

from forked import forked
from messages import one_line
from places import TESTS
from smemsim.cli import main
from smemsim.core.ptx import read_module
from smemsim.virtual import entry_points, images

PROGRAMS = TESTS / "programs"
NVCC = shutil.which("nvcc")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="needs Linux and a C compiler"
)


def exec_command(*options, arch="sm_90a"):
    return [sys.executable, "-c", "from smemsim.cli import main; main()", *exec_words(*options, arch=arch)]


def exec_words(*options, arch):
    return ["exec", "--arch", arch, *map(str, options), "--"]


def run(command, *options, arch="sm_90a", env=None):
    """What starts of itself in other tests (`exec_command`) is forked here."""
    done = forked([*exec_words(*options, arch=arch), *command], env={**os.environ, **(env or {})})
    assert "internal error" not in done.stderr, done.stderr
    return done


def built(once, name, source, *flags, archs=("90a",)):
    if NVCC is None:
        pytest.skip("needs nvcc")
    codes = [f"-gencode=arch=compute_{arch},code=compute_{arch}" for arch in archs]
    command = [NVCC, *codes, *flags, str(source), "-o"]
    return once(name, lambda program: subprocess.run([*command, str(program)], check=True, timeout=300))


@pytest.fixture(scope="session")
def compiled(once):
    """The object file of which both programs are linked: with the shared runtime, and with NVIDIA's own."""
    return built(once, "runtime.o", PROGRAMS / "runtime.cu", "-c", "-lineinfo")


@pytest.fixture(scope="session")
def runtime(compiled, once):
    return built(once, "runtime", compiled, "-cudart", "shared")


@pytest.fixture(scope="session")
def gemm(once):
    return built(once, "gemm", PROGRAMS / "gemm.cu", "-cudart", "shared", archs=("90a", "100a"))


SCENARIOS = (
    "compute",
    "errors",
    "memory",
    "mapped",
    "graph",
    "conditional",
    "nodes",
    "threads",
    "resets",
    "printf",
    "assert",
    "fork",
    "beforehand",
    "touch",
)


@pytest.fixture(scope="session")
def scenarios(runtime, once):
    """Every scenario of the program, one after the other under one `exec`: (lines of output, exit code, stderr) by
    name, and what smemsim told.
    """

    def ran(path):
        folder = path.with_name("told")
        folder.mkdir()
        script = "; ".join(
            f"{runtime} {name} > {folder}/{name} 2> {folder}/{name}.stderr; echo $? > {folder}/{name}.code" for name in SCENARIOS
        )
        done = run(["sh", "-c", script])
        read = {name: [(folder / f"{name}{of}").read_text() for of in ("", ".code", ".stderr")] for name in SCENARIOS}
        told = {name: (lines.splitlines(), int(code), stderr) for name, (lines, code, stderr) in read.items()}
        path.write_text(json.dumps([told, done.stderr, done.returncode]))

    return json.loads(once("scenarios.json", ran).read_text())


def test_symbols_structures_and_managed_variables_are_those_of_the_program(scenarios):
    lines, code, _ = scenarios[0]["compute"]
    assert lines[:3] == ["cudaDeviceSynchronize(): cudaSuccess", "0 wrong, 1 launch", "managed 0"]
    assert code == 0


def test_clusters_at_once_are_those_of_the_card_and_refused_as_a_launch_refuses_them(scenarios):
    assert scenarios[0]["compute"][0][3] == "912 -1, 0 264, 0 62, 912 -1, 0 264"


def test_kernels_say_how_often_a_graph_of_a_graph_runs_and_which_one(scenarios):
    lines, code, _ = scenarios[0]["conditional"]
    assert [line.rpartition(": ")[2] for line in lines] == ["cudaSuccess", "cudaSuccess", "5 12"]
    assert code == 0


def test_errors_come_when_and_as_cuda_gives_them(scenarios):
    """As an H200 answered (driver 580): not sticky ones at once, that of a trap at the synchronising call, and at every
    later one.
    """
    lines, code, _ = scenarios[0]["errors"]
    assert [line.partition(": ")[2] for line in lines] == [
        "cudaErrorInvalidValue", "cudaSuccess", "cudaErrorInvalidValue", "cudaSuccess", "cudaSuccess", "cudaErrorInvalidValue",
        "cudaErrorInvalidValue", "cudaErrorMemoryAllocation", "cudaSuccess", "cudaErrorIllegalAddress", "cudaErrorIllegalAddress", "cudaSuccess",
        "cudaErrorIllegalAddress",
    ]  # fmt: skip
    assert code == 0


def test_an_access_behind_an_array_names_its_line_and_the_allocation(scenarios):
    told = scenarios[1]
    assert "X001" in told
    assert "/runtime.cu:" in told  # the line of the source
    assert "1000 bytes of memory" in told


def test_host_memory_of_all_kinds_is_the_kernels(scenarios):
    assert scenarios[0]["memory"][0] == ["31 31 31", "3 1 1 2 0 | 3 7 | 1"]


def test_physical_memory_is_mapped_into_ranges_of_addresses(scenarios):
    assert scenarios[0]["mapped"][0] == [
        "0 1 0 0 0 0 0 0 2097152 0 31", "0 0 0 16 31 2", "0 1 0 0 0 0 0 0", "cudaDeviceSynchronize(): cudaErrorIllegalAddress",
    ]  # fmt: skip


def test_a_captured_graph_runs_when_it_is_launched(scenarios):
    assert scenarios[0]["graph"][0] == ["captured 0", "host function sees 31", "cudaStreamSynchronize(s): cudaSuccess", "launched 31"]


def test_graphs_of_explicit_nodes_are_changed_cloned_and_refused(scenarios):
    lines = [line.removesuffix(": cudaSuccess").partition(": ") for line in scenarios[0]["nodes"][0]]
    assert [last or first for first, _, last in lines if last or "(" not in first] == [
        "1 1 3 1 1", "0 15 9", "16 1", "16 31", "9 0", "9", "15", "cudaErrorGraphExecUpdateFailure", "1", "cudaErrorInvalidValue",
    ]  # fmt: skip


def test_threads_of_the_host_have_streams_and_errors_of_their_own(scenarios):
    assert scenarios[0]["threads"][0] == ["1489 3 1489 3 1489 3 1489 3 1 cudaSuccess"]


def test_a_reset_ends_memory_and_code_and_does_not_mend_what_trapped(scenarios):
    said = [line.rpartition(" ")[2] for line in scenarios[0]["resets"][0]]
    ok, invalid = "cudaSuccess", "cudaErrorInvalidValue"
    assert said[:5] == [ok, invalid, invalid, "cudaErrorContextIsDestroyed", ok]
    assert scenarios[0]["resets"][0][5] == "31 3 4"
    assert said[6:] == ["cudaErrorIllegalAddress", ok, "cudaErrorDevicesUnavailable"]


def test_printf_stands_between_what_the_program_prints(scenarios):
    assert scenarios[0]["printf"][0] == ["before", "kernel 7.0", "kernel 7.1", "after"]


def test_a_failed_assertion_is_an_error_of_the_synchronising_call(scenarios):
    lines, _, stderr = scenarios[0]["assert"]
    assert lines == ["cudaGetLastError(): cudaSuccess", "cudaDeviceSynchronize(): cudaErrorAssert"]
    line = next(n for n, text in enumerate((PROGRAMS / "runtime.cu").read_text().splitlines(), 1) if "assert(p[0] == 0)" in text)
    threads = [
        f"{PROGRAMS}/runtime.cu:{line}: void claim(const int *): block: [{b},0,0], thread: [{t},1,0] Assertion `p[0] == 0` failed."
        for b in (0, 1)
        for t in (0, 1)
    ]
    assert sorted(stderr.splitlines()) == threads
    assert "X013" in scenarios[1]


def test_a_context_does_not_outlive_a_fork(scenarios):
    assert scenarios[0]["fork"][0] == [
        "cudaMalloc(&q, 4): cudaErrorInitializationError", "cudaMemcpy(h, p, 128, cudaMemcpyDeviceToHost): cudaSuccess", "31",
    ]  # fmt: skip


def test_a_fork_before_the_first_call_makes_two_programs(scenarios):
    assert scenarios[0]["beforehand"][0] == ["31", "31"]


def test_the_host_cannot_touch_device_memory(scenarios):
    assert scenarios[0]["touch"][1] == 128 + signal.SIGSEGV


def test_findings_of_any_of_its_processes_are_the_programs(scenarios):
    assert "findings in 4 (behind, numbers, claim)" in scenarios[1]
    assert scenarios[2] == 1


@pytest.mark.parametrize(("policy", "answer"), [("raise", "cudaErrorLaunchFailure"), ("collect", "cudaSuccess")])
def test_what_is_found_is_told_or_fails_the_launch_as_the_policy_says(runtime, policy, answer):
    done = run([runtime, "race"], env={"SMEMSIM_ON_FINDING": policy})
    assert answer in done.stdout
    assert "X008" in done.stderr
    assert done.returncode == 1
    assert "findings have no source lines" not in done.stderr


CARELESS = r"""
import ctypes
cu, at, code = ctypes.CDLL("libcuda.so.1"), [ctypes.c_void_p() for _ in range(3)], rb'''.version 8.0
.target sm_90a
.address_size 64
.visible .entry spin() { .reg .u64 %c; L: mov.u64 %c, %clock64; st.global.u64 [word], %c; bra L; }'''.replace(b".vis", b".global .u64 word; .vis")
cu.cuInit(0)
cu.cuCtxCreate_v2(ctypes.byref(at[0]), 0, 0)
cu.cuModuleLoadData(ctypes.byref(at[1]), code)
cu.cuModuleGetFunction(ctypes.byref(at[2]), at[1], b"spin")
print(cu.cuLaunchKernel(at[2], *[1] * 6, 0, None, None, None))
"""


TEXTURES = r"""
import ctypes, struct
cu, h, ptx = ctypes.CDLL("libcuda.so.1"), [ctypes.c_uint64() for _ in range(8)], rb'''.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 t, .param .u64 to) { .reg .b64 %d<3>; .reg .f32 %f<5>; ld.param.u64 %d0, [t]; ld.param.u64 %d1, [to];
mov.f32 %f4, 0f3FC00000; tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d0, {%f4, %f4}]; st.global.f32 [%d1], %f0; ret; }'''
context, module, function, array, texture, to, link, size = h
cu.cuInit(0)
cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
cu.cuModuleLoadData(ctypes.byref(module), ptx)
cu.cuModuleGetFunction(ctypes.byref(function), module, b"k")
print(cu.cuArrayCreate_v2(ctypes.byref(array), struct.pack("<2QiI", 2, 2, 0x20, 1)))
host = (ctypes.c_float * 4)(1, 2, 3, 4)
copy = struct.pack("<2QI4x4Q 2QI4x4Q 2Q", 0, 0, 1, ctypes.addressof(host), 0, 0, 8, 0, 0, 3, 0, 0, array.value, 0, 8, 2)
print(cu.cuMemcpy2D_v2(copy))
told = ctypes.create_string_buffer(40)
print(cu.cuArray3DGetDescriptor_v2(told, array), struct.unpack("<3QiII", told.raw[:36]))
resource, how = struct.pack("<i4xQ128x", 0, array.value), struct.pack("<4iIIi3f4f48x", 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
print(cu.cuTexObjectCreate(ctypes.byref(texture), resource, how, None), cu.cuSurfObjectCreate(ctypes.byref(size), resource))
cu.cuMemAlloc_v2(ctypes.byref(to), 4)
arguments = (ctypes.c_void_p * 2)(ctypes.addressof(texture), ctypes.addressof(to))
print(cu.cuLaunchKernel(function, *[ctypes.c_uint(1)] * 6, 0, None, arguments, None))
out = ctypes.c_float()
cu.cuMemcpyDtoH_v2(ctypes.byref(out), to, ctypes.c_size_t(4))
print(out.value, cu.cuTexObjectDestroy(texture))
border, told = struct.pack("<4iIIi3f4f48x", 3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9, 10), ctypes.create_string_buffer(b"+" * 112, 112)
cu.cuTexObjectCreate(ctypes.byref(texture), resource, border, None)
print(cu.cuTexObjectGetTextureDesc(told, texture), told.raw == border + b"+" * 8)
cu.cuModuleLoadData(ctypes.byref(module), ptx.replace(b"0f3FC00000", b"0f41200000"))
cu.cuModuleGetFunction(ctypes.byref(function), module, b"k")
cu.cuLaunchKernel(function, *[ctypes.c_uint(1)] * 6, 0, None, arguments, None)
cu.cuMemcpyDtoH_v2(ctypes.byref(out), to, ctypes.c_size_t(4))
below = struct.pack("<4QI4x6Q 4QI4x6Q 3Q", 0, 0, 0, 0, 1, ctypes.addressof(host), 0, 0, 0, 8, 1, 0, 0, 1, 0, 3, 0, 0, array.value, 0, 0, 0, 8, 1, 1)
print(out.value, cu.cuMemcpy3D_v2(below), cu.cuMemcpy2D_v2(None), cu.cuArrayDestroy(array))
print([cu.cuDeviceGetByPCIBusId(ctypes.byref(link), place) for place in (b"0000:00:06.0", b"00:06", b"0000:06:00.0", b"?")])
log, info = ctypes.create_string_buffer(256), ctypes.create_string_buffer(b"?", 8)
options, values = (ctypes.c_int * 4)(5, 6, 3, 4), (ctypes.c_void_p * 4)(ctypes.addressof(log), 256, ctypes.addressof(info), 8)
bad = ptx.replace(b"0f3FC00000", b"%d0")
print(cu.cuModuleLoadDataEx(ctypes.byref(module), bad, 4, options, values), log.value.decode()[:23], values[1] == len(log.value), info.value)
values[1] = 256
cu.cuLinkCreate_v2(2, options, values, ctypes.byref(link))
cu.cuLinkAddData_v2(link, 1, bad, ctypes.c_size_t(len(bad) + 1), b"bad.ptx", 0, None, None)
print(cu.cuLinkComplete(link, ctypes.byref(to), ctypes.byref(size)), log.value.decode()[:23])
"""


def test_the_drivers_arrays_and_textures_and_what_it_does_not_load(asked):
    """A texture over an array of 2 x 2, and its border; a copy behind the array, none, and places on the bus; a move of
    64 bits as 32, which ptxas refuses, is refused at the load, with a log.
    """
    assert asked["textures"].splitlines() == [
        "0",
        "0",
        "0 (2, 2, 0, 32, 1, 0)",
        "0 1",
        "0",
        "4.0 0",
        "0 True",
        "7.0 1 1 0",
        "[0, 0, 101, 101]",
        "218 ptxas fatal   : line 5: True b''",
        "218 ptxas fatal   : line 5:",
    ]


GRAPHICS = """
import ctypes
driver, runtime = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcudart.so.13")
for name in ("cuGraphicsGLRegisterBuffer", "cuGraphicsGLRegisterImage", "cuGLGetDevices_v2", "cuGraphicsEGLRegisterImage", "cuVDPAUGetDevice"):
    print(getattr(driver, name)(0, 0, 0))
print(runtime.cudaGraphicsGLRegisterBuffer(0, 0, 0), runtime.cudaGLGetDevices(0, 0, 0, 0))
"""


def test_what_is_for_graphics_is_there_and_not_supported(asked):
    """Dr.Jit, among others, takes a driver without these names for none."""
    assert asked["graphics"].split() == ["801"] * 7


TRIMS = """
import ctypes, struct
rt, value = ctypes.CDLL("libcudart.so.13"), ctypes.c_uint64()
def has():
    return [rt.cudaDeviceGetGraphMemAttribute(0, n, ctypes.byref(value)) or value.value >> 20 for n in (0, 2, 3)]  # used, reserved, the most reserved
def graph(is_over):
    graph, node, made = (ctypes.c_void_p() for _ in range(3))
    asks = ctypes.create_string_buffer(struct.pack("<4i72xQQQQ", 1, 0, 1, 0, 0, 0, 4 << 20, 0))  # 4 MiB of the device
    rt.cudaGraphCreate(ctypes.byref(graph), 0)
    rt.cudaGraphAddMemAllocNode(ctypes.byref(node), graph, None, ctypes.c_size_t(0), asks)
    address = ctypes.c_void_p(*struct.unpack_from("<Q", asks, 112))
    if is_over:
        rt.cudaGraphAddMemFreeNode(ctypes.byref(node), graph, ctypes.byref(node), ctypes.c_size_t(1), address)
    rt.cudaGraphInstantiate(ctypes.byref(made), graph, ctypes.c_uint64(0))
    return made, address
def launched(made):
    rt.cudaGraphLaunch(made, None), rt.cudaDeviceSynchronize()
    return has()
(a, _), (b, _), (c, kept) = graph(True), graph(True), graph(False)
print([has(), launched(a), launched(a), launched(b), launched(c)])
print([rt.cudaDeviceGraphMemTrim(0), has(), rt.cudaFree(kept), has(), rt.cudaDeviceGraphMemTrim(0), has()])
print([launched(c), rt.cudaMemset(kept, 1, ctypes.c_size_t(64)), rt.cudaFree(kept), has()])
stream, captured, d = (ctypes.c_void_p() for _ in range(3))
rt.cudaStreamCreate(ctypes.byref(stream)), rt.cudaStreamBeginCapture(stream, 0)
rt.cudaMallocAsync(ctypes.byref(kept), ctypes.c_size_t(4 << 20), stream)
rt.cudaMemsetAsync(kept, 1, ctypes.c_size_t(64), stream)
rt.cudaStreamEndCapture(stream, ctypes.byref(captured)), rt.cudaGraphInstantiate(ctypes.byref(d), captured, ctypes.c_uint64(0))
print([launched(d), rt.cudaFree(kept), has(), rt.cudaGraphLaunch(d, None), has(), rt.cudaFreeAsync(kept, None), has()])
"""


def test_graphs_have_memory_when_they_are_launched_and_keep_it_until_it_is_trimmed(asked):
    """As NVIDIA's sample graphMemoryFootprint says of a card."""
    made, given_back, again, captured = (json.loads(line) for line in asked["trims"].splitlines())
    assert made == [[0, 0, 0], [0, 4, 4], [0, 4, 4], [0, 4, 4], [4, 4, 4]]
    assert given_back == [0, [4, 4, 4], 0, [0, 4, 4], 0, [0, 0, 4]]
    assert again == [[4, 4, 4], 0, 0, [0, 4, 4]]  # what the program has given back is there at the next launch
    assert captured == [[4, 4, 4], 0, [0, 4, 4], 0, [4, 4, 4], 0, [0, 4, 4]]  # of cudaMallocAsync under capture too


PHYSICAL = """
import ctypes
cu, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0)
def got(compression):
    asks, told = (ctypes.c_uint8 * 32)(1, 0, 0, 0, 0, 0, 0, 0, 1), (ctypes.c_uint8 * 32)()
    asks[24] = compression
    error = cu.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(2 << 20), asks, ctypes.c_uint64(0))
    return error, cu.cuMemGetAllocationPropertiesFromHandle(told, handle), told[24], bytes(told) == bytes(asks), cu.cuMemRelease(handle)
print(got(0), got(1), cu.cuMemGetAllocationPropertiesFromHandle((ctypes.c_uint8 * 32)(), handle) != 0)
"""


def test_physical_memory_says_what_it_was_asked_for_with(asked):
    """A card that says that it has compressible memory gives it: the sample cudaCompressibleMemory goes on only then,
    as it does on an H200.
    """
    assert asked["physical"].split("\n")[0] == "(0, 0, 0, True, 0) (0, 0, 1, True, 0) True"


WITHOUT_CONTEXT = """
import ctypes
cu, at = ctypes.CDLL("libcuda.so.1"), [ctypes.c_void_p() for _ in range(3)]
cu.cuInit(0)
cu.cuCtxCreate_v2(ctypes.byref(at[0]), 0, 0)
cu.cuStreamCreate(ctypes.byref(at[1]), 0), cu.cuEventCreate(ctypes.byref(at[2]), 0)
cu.cuCtxPopCurrent_v2(None)
print(cu.cuEventRecord(at[2], at[1]), cu.cuEventRecord(at[2], None), cu.cuEventCreate(ctypes.byref(at[2]), 0))
"""
ATTRIBUTES = """
import ctypes
cu, rt, at, value = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcudart.so.13"), [ctypes.c_void_p() for _ in range(2)], (ctypes.c_uint32 * 16)()
for stream in at: rt.cudaStreamCreate(ctypes.byref(stream))
def policy(call, stream):
    call(stream, 3, value)
    return value[0]
print(policy(rt.cudaStreamGetAttribute, at[0]), policy(cu.cuStreamGetAttribute, None), cu.cuStreamGetAttribute(at[0], 2, value))  # as an H100
value[0] = 4
print(rt.cudaStreamSetAttribute(at[0], 3, value), policy(cu.cuStreamGetAttribute, at[0]), policy(cu.cuStreamGetAttribute, at[1]))
print(cu.cuStreamCopyAttributes(at[1], at[0]), policy(rt.cudaStreamGetAttribute, at[1]), rt.cudaStreamGetAttribute(at[1], 3, None))
value[0] = 5
print(cu.cuStreamSetAttribute(at[0], 3, value), rt.cudaStreamSetAttribute(at[0], 2, value))
"""
MANAGED = """
import ctypes
cu, rt, at, got, size = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcudart.so.13"), ctypes.c_uint64(), (ctypes.c_int * 3)(), ctypes.c_size_t(4096)
def said(*attributes):
    return [(cu.cuMemRangeGetAttribute(got, ctypes.c_size_t(4), n, at, size), got[0])[-1] for n in attributes]
def to(kind, number): return ctypes.c_uint64(kind | (number & 0xffffffff) << 32)
print(rt.cudaFree(None), cu.cuMemAllocManaged(ctypes.byref(at), ctypes.c_size_t(8192), 1), said(1, 2, 4, 5, 6, 7, 8))
print([cu.cuMemAdvise(at, size, advice, device) for advice, device in ((1, 0), (3, 0), (5, 0), (5, -1))], said(1, 2, 5, 6))
print(cu.cuMemRangeGetAttribute(got, ctypes.c_size_t(12), 3, at, size), list(got), cu.cuMemRangeGetAttribute(got, ctypes.c_size_t(4), 9, at, size))
print(cu.cuMemPrefetchAsync(at, size, 0, None), said(4, 7, 8), cu.cuMemPrefetchAsync_v2(at, size, to(2, -1), 0, None), said(4, 7, 8))
print([cu.cuMemAdvise(at, size, advice, -1) for advice in (2, 3, 6)], said(1, 2, 3, 5), cu.cuMemAdvise(at, size, 7, 0), cu.cuMemAdvise_v2(at, size, 3, to(5, 0)))
"""
CONTEXTLESS = """
import ctypes
cu, rt = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcudart.so.13")
at, number = [ctypes.c_void_p() for _ in range(3)], ctypes.c_int()
rt.cudaStreamCreate(ctypes.byref(at[0]))
rt.cudaDeviceGetCacheConfig(ctypes.byref(number))
print(number.value, cu.cuCtxSetCacheConfig(2), rt.cudaDeviceGetCacheConfig(ctypes.byref(number)), number.value, cu.cuCtxSetCacheConfig(4))
while not cu.cuCtxPopCurrent_v2(None): pass
properties = (ctypes.c_int32 * 22)(1, 0, 1)  # pinned memory of the card, as CU_MEM_ALLOCATION_TYPE_PINNED and CU_MEM_LOCATION_TYPE_DEVICE say
print(cu.cuMemPoolCreate(ctypes.byref(at[1]), properties), cu.cuMemAllocFromPoolAsync(ctypes.byref(at[2]), ctypes.c_size_t(64), at[1], at[0]))
side = [0, 0, 0, 0, 2, 0, at[2].value, 0, 0, 0, 0]
box = (ctypes.c_uint64 * 25)(*side, *side[:6], at[2].value + 32, *side[7:], 32, 1, 1)
print(cu.cuMemcpy3DPeerAsync(box, at[0]), cu.cuMemcpy3DPeerAsync(box, None), cu.cuMemFreeAsync(at[2], at[0]), cu.cuMemFreeAsync(at[2], None))
print(cu.cuStreamSynchronize(at[0]), cu.cuStreamSynchronize(None), cu.cuStreamDestroy_v2(at[0]))
"""
VERSIONS = """
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
for name, version, symbol in (("cuStreamGetCtx", 9020, "cuStreamGetCtx"), ("cuStreamGetCtx", 12050, "cuStreamGetCtx_v2"),
                              ("cuGraphGetEdges", 12020, "cuGraphGetEdges"), ("cuGraphGetEdges", 12030, "cuGraphGetEdges_v2"),
                              ("cuMemAlloc", 9000, "cuMemAlloc_v2"), ("cuCtxSynchronize", 12080, "cuCtxSynchronize")):
    at = ctypes.c_void_p()
    assert cu.cuGetProcAddress_v2(name.encode(), ctypes.byref(at), version, ctypes.c_uint64(0), None) == 0
    print(at.value == ctypes.cast(getattr(cu, symbol), ctypes.c_void_p).value)
"""


POINTERS = """
import ctypes
cu, rt = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcudart.so.13")
first, second, told = (ctypes.c_void_p() for _ in range(3))
at, number = [ctypes.c_void_p() for _ in range(3)], ctypes.c_int()
def asked(address, attribute, value):
    return cu.cuPointerGetAttribute(ctypes.byref(value), attribute, address), value.value
cu.cuInit(0)
cu.cuDevicePrimaryCtxRetain(ctypes.byref(first), 0)
cu.cuCtxSetCurrent(first)
cu.cuMemAlloc_v2(ctypes.byref(at[0]), ctypes.c_size_t(64))
cu.cuCtxCreate_v2(ctypes.byref(second), 0, 0)
cu.cuMemAllocHost_v2(ctypes.byref(at[1]), ctypes.c_size_t(64)), rt.cudaMalloc(ctypes.byref(at[2]), ctypes.c_size_t(64))
contexts = [asked(address, 1, told) for address in at]
cu.cuCtxSetCurrent(first)
print(contexts == [(0, first.value), (0, second.value), (0, second.value)], [asked(address, 1, told) for address in at] == contexts)
print(asked(at[0], 6, number), cu.cuPointerSetAttribute(ctypes.byref(ctypes.c_uint(1)), 6, at[0]), asked(at[0], 6, number), asked(at[1], 6, number))
print(cu.cuPointerSetAttribute(ctypes.byref(number), 8, at[0]), cu.cuFuncGetName(ctypes.byref(told), None))
host = ctypes.create_string_buffer(64)
begin = ctypes.addressof(host)
print(*[rt.cudaHostRegister(ctypes.c_void_p(begin), ctypes.c_size_t(64), 0), rt.cudaHostUnregister(ctypes.c_void_p(begin + 8)),
        rt.cudaHostUnregister(ctypes.c_void_p(begin)), rt.cudaHostUnregister(ctypes.c_void_p(begin))])
short, many = (ctypes.c_int * 4)(), 0x7FFFFFF0
print(cu.cuModuleLoadDataEx(ctypes.byref(told), b".version 8.0", many, short, short), cu.cuLinkCreate_v2(many, short, short, ctypes.byref(told)),
      cu.cuPointerGetAttributes(many, short, short, at[0]), cu.cuGraphAddEmptyNode(ctypes.byref(told), first, short, ctypes.c_size_t(many // 8)))
def exchanged(mode):
    number.value = mode
    return cu.cuThreadExchangeStreamCaptureMode(ctypes.byref(number)), number.value
print(exchanged(2), exchanged(1), exchanged(3))
"""


def test_memory_keeps_its_context_and_what_was_set_of_it(asked):
    """And counts far beyond their arrays are errors."""
    assert asked["pointers"].splitlines() == [
        "True True", "(0, 0) 0 (0, 1) (0, 0)", "1 1", "0 1 0 713", "1 1 1 1", "(0, 0) (0, 2) (1, 3)",
    ]  # fmt: skip


OLD_LAUNCHES = r"""
import ctypes
cu, ptx = ctypes.CDLL("libcuda.so.1"), rb'''.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 to, .param .f32 by, .param .u32 x) { .reg .b64 %d<3>; .reg .b32 %r<4>; .reg .f32 %f<3>; ld.param.u64 %d0, [to];
ld.param.f32 %f0, [by]; ld.param.u32 %r0, [x]; mov.u32 %r1, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r2, %r3, 2, %r1; mad.lo.u32 %r1, %r1, 1, %r0;
cvt.rn.f32.u32 %f1, %r1; mul.f32 %f1, %f1, %f0; mul.wide.u32 %d1, %r2, 4; add.u64 %d1, %d1, %d0; st.global.f32 [%d1], %f1; ret; }'''
context, module, function, to, link, code, size = (ctypes.c_void_p() for _ in range(7))
cu.cuInit(0), cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
cu.cuModuleLoadData(ctypes.byref(module), ptx), cu.cuModuleGetFunction(ctypes.byref(function), module, b"k")
cu.cuMemAlloc_v2(ctypes.byref(to), ctypes.c_size_t(16))
out = (ctypes.c_float * 4)()
def launched():
    answer = cu.cuLaunchGrid(function, 2, 1)
    cu.cuMemcpyDtoH_v2(out, to, ctypes.c_size_t(16))
    return answer, list(out)
print(cu.cuFuncSetBlockShape(function, 2, 1, 1), cu.cuFuncSetSharedSize(function, 16), cu.cuParamSetSize(function, 16),
      cu.cuParamSetv(function, 0, ctypes.byref(to), 8), cu.cuParamSetf(function, 8, ctypes.c_float(0.5)), cu.cuParamSeti(function, 12, 7))
print(*launched())
cu.cuParamSeti(function, 12, 8)  # what was set stays
print(*launched())
print(cu.cuFuncSetBlockShape(function, 0, 1, 1), cu.cuParamSeti(function, -4, 1), cu.cuParamSetSize(function, 1 << 20), cu.cuLaunchGrid(function, 0, 1), cu.cuLaunch(to))
other, told = ctypes.c_void_p(), ctypes.c_void_p()
ends = [cu.cuCtxCreate_v2(ctypes.byref(other), 0, 0) or cu.cuCtxDetach(other) for _ in range(100)]
print(any(ends), cu.cuCtxAttach(ctypes.byref(told), 0), cu.cuCtxDetach(told), told.value == context.value, cu.cuCtxGetCurrent(ctypes.byref(other)), other.value == told.value)
cu.cuLinkCreate_v2(0, None, None, ctypes.byref(link))
print(cu.cuLinkAddData_v2(link, 1, ptx, ctypes.c_size_t(len(ptx) + 1), b"k.ptx", 0, None, None),
      cu.cuLinkAddData_v2(link, 4, b"!<arch>\n", ctypes.c_size_t(8), b"libcudadevrt.a", 0, None, None), cu.cuLinkComplete(link, ctypes.byref(code), ctypes.byref(size)))
"""


def test_launches_of_before_cuda_4_keep_block_and_parameters(asked):
    """And contexts end where they are detached; an archive of machine code, of which nothing is called, does no harm to
    what is linked.
    """
    assert asked["old launches"].splitlines() == [
        "0 0 0 0 0 0", "0 [3.5, 4.0, 3.5, 4.0]", "0 [4.0, 4.5, 4.0, 4.5]", "1 1 1 1 400",
        "False 0 0 True 0 True", "0 0 0",
    ]  # fmt: skip


RUNTIME_TEXTURES = """
import ctypes, struct
rt, (array, other, texture, surface) = ctypes.CDLL("libcudart.so.13"), [ctypes.c_uint64() for _ in range(4)]
for made in (array, other):
    rt.cudaMallocArray(ctypes.byref(made), struct.pack("<5i", 8, 0, 0, 0, 1), ctypes.c_size_t(64), ctypes.c_size_t(0), 2)
host, back, size, zero = ctypes.create_string_buffer(bytes(range(64)), 64), ctypes.create_string_buffer(64), ctypes.c_size_t(64), ctypes.c_size_t(0)
print(rt.cudaMemcpyToArray(array, zero, zero, host, size, 1), rt.cudaMemcpyArrayToArray(other, zero, zero, array, zero, zero, size, 3))
print(rt.cudaMemcpyFromArray(back, other, zero, zero, size, 2), back.raw == host.raw,
      rt.cudaMemcpyArrayToArray(other, zero, zero, array, ctypes.c_size_t(8), zero, size, 3))
resource, how = struct.pack("<i4xQ128x", 0, array.value), struct.pack("<6i4fiI i3f2i", 3, 3, 3, 0, 0, 0, 7, 8, 9, 10, 0, 0, 0, 0, 0, 0, 0, 0)
print(rt.cudaCreateTextureObject(ctypes.byref(texture), resource, how, None), rt.cudaCreateSurfaceObject(ctypes.byref(surface), resource))
for call, object, wanted in ((rt.cudaGetTextureObjectResourceDesc, texture, resource), (rt.cudaGetTextureObjectTextureDesc, texture, how),
                             (rt.cudaGetSurfaceObjectResourceDesc, surface, resource)):
    told = ctypes.create_string_buffer(b"+" * 160, 160)
    print(call(told, object), told.raw == wanted + b"+" * (160 - len(wanted)))
"""


def test_the_runtimes_arrays_and_what_textures_and_surfaces_were_made_of(asked):
    assert asked["runtime textures"].split() == ["0", "0", "0", "True", "1", "0", "0", *["0", "True"] * 3]


def test_an_event_is_recorded_on_a_stream_whatever_context_is_current(asked):
    assert asked["without context"].split() == ["0", "201", "201"]


def test_a_stream_keeps_the_attributes_that_it_is_given(asked):
    assert asked["attributes"].split() == ["4294967295", "4294967295", "1", "0", "4", "4294967295", "0", "4", "1", "1", "1"]


def test_what_names_a_stream_or_a_device_asks_for_no_current_context(asked):
    """As on an H100 (driver of CUDA 13)."""
    assert asked["contextless"].split() == ["0", "0", "0", "2", "1", "0", "0", "0", "201", "0", "201", "0", "201", "0"]


def test_a_program_gets_the_function_of_the_cuda_that_it_was_built_with(asked):
    """cuGetProcAddress gives a function of the version that is asked for; later ones take other arguments."""
    assert asked["versions"].split() == ["True"] * 6


LATE = """
import atexit, ctypes
cu, at = ctypes.CDLL("libcuda.so.1"), [ctypes.c_void_p() for _ in range(4)]
def end():  # of the first that is registered, so that it is the last: as destructors of compiled code
    print(cu.cuMemFree_v2(at[1]), cu.cuStreamSynchronize(at[2]), cu.cuStreamDestroy_v2(at[2]), cu.cuModuleUnload(at[3]))
    print(cu.cuMemAlloc_v2(ctypes.byref(at[1]), ctypes.c_size_t(64)), flush=True)
atexit.register(end)
import torch
torch.zeros(1, device="cuda")
cu.cuInit(0)
cu.cuDevicePrimaryCtxRetain(ctypes.byref(at[0]), 0)
cu.cuCtxSetCurrent(at[0])
print(cu.cuMemAlloc_v2(ctypes.byref(at[1]), ctypes.c_size_t(64)), cu.cuStreamCreate(ctypes.byref(at[2]), 0))
print(cu.cuModuleLoadData(ctypes.byref(at[3]), b".version 8.0\\n.target sm_90a\\n.address_size 64\\n.visible .entry k() { ret; }"))
"""


FOREIGN = """
import ctypes, torch
torch.zeros(1, device="cuda")
cu, libc, version, thread = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None), ctypes.c_int(), ctypes.c_ulong()
cu.cuInit(0)
for _ in range(20):
    version.value = 0
    libc.pthread_create(ctypes.byref(thread), None, ctypes.cast(cu.cuDriverGetVersion, ctypes.c_void_p), ctypes.byref(version))
    libc.pthread_join(thread, None)
    assert version.value >= 12000, version.value
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_threads_that_python_did_not_start_are_answered():
    """What such a thread keeps in Python is gone when a call of it into Python has returned, and so must not hold the
    answer.
    """
    assert run([sys.executable, "-c", FOREIGN]).returncode == 0


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_what_compiled_code_gives_back_when_python_has_ended_is_taken():
    done = run([sys.executable, "-c", LATE])
    assert (done.stdout, done.returncode) == ("0 0\n0\n0 0 0 0\n4\n", 0), done.stderr


UNWRITTEN = """
import ctypes, torch
torch.zeros(1, device="cuda")
cu, module, kernel = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
cu.cuModuleLoadData(ctypes.byref(module), b'''.version 8.0
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 from, .param .u64 to) {
  .reg .b64 %a, %b; .reg .f64 %f;
  ld.param.u64 %a, [from]; ld.param.u64 %b, [to]; ld.global.f64 %f, [%a+8]; st.global.f64 [%b+8], %f; ret;
}''')
cu.cuModuleGetFunction(ctypes.byref(kernel), module, b"copy")
x, y = torch.empty(4, dtype=torch.float64, device="cuda"), torch.zeros(4, dtype=torch.float64, device="cuda")
x[:1] = 1
given = [ctypes.c_uint64(each.data_ptr()) for each in (x, y)]
pointers = (ctypes.c_void_p * 2)(*map(ctypes.addressof, given))
assert cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, pointers, None) == 0
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_results_that_are_complex_or_sparse_may_depend_on_uninitialised_values():
    uses = "torch.fft.fft(y), torch.complex(y, y).conj(), y.to_sparse(), y.view(2, 2).to_sparse_csr()"
    done = run([sys.executable, "-c", f"{UNWRITTEN}{uses}\n"])
    assert done.returncode == 0, done.stderr
    assert "R507" in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize(("use", "is_used"), [("y.__dlpack__()", False), ("torch.from_dlpack(y)", False), ("y.tolist()", True)])
def test_a_tensor_that_is_handed_to_another_library_is_not_read(use, is_used):
    """The array of which the kernel computes has no value at all."""
    program = UNWRITTEN.replace("x[:1] = 1\n", "").replace("st.global", "add.f64 %f, %f, 0d3FF0000000000000; st.global")
    done = run([sys.executable, "-c", f"{program}{use}\n"])
    assert done.returncode == is_used, done.stderr


def test_a_launch_that_a_limit_ends_is_no_clean_bill_of_a_program_that_asks_for_no_errors():
    done = run([sys.executable, "-c", CARELESS], "--limit-seconds", 0.2)
    assert (done.stdout, done.returncode) == ("0\n", 1)
    assert "1 stopped before its end; the program: exit code 0; smemsim exec: exit code 1" in one_line(done.stderr)


def test_findings_without_source_lines_say_how_to_get_them():
    """PTX text has none; a program of nvcc -lineinfo has them, as `race` above."""
    loop = "L: mov.u64 %c, %clock64; st.global.u64 [word], %c; bra L;"
    assert loop in CARELESS
    done = run([sys.executable, "-c", CARELESS.replace(loop, "mov.u64 %c, 0; st.global.u64 [word+4096], %c; ret;")])
    assert "X001" in done.stderr
    assert "findings have no source lines: build the program with nvcc -lineinfo" in done.stderr


def test_the_programs_own_end_is_that_of_exec(runtime):
    """Of an exit with a number, and of SIGKILL, other programs here show the same."""
    assert run([runtime, "abort"]).returncode == 128 + signal.SIGABRT


def children(process):
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout.split()[2:]
    return [int(pid) for pid, parent in zip(listed[::2], listed[1::2], strict=True) if int(parent) == process]


def runs(pid):
    """Not if it has ended and nobody has asked how: the first process of a container does so now and then."""
    try:
        return "\nState:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("way", ["Ctrl-C", "the program is killed", "exec is killed"])
def test_nothing_is_left_behind(runtime, way):
    command = [*exec_command(), str(runtime), "busy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True) as process:
        leave(process, runtime, way)


def leave(process, runtime, way):
    assert process.stdout.readline() == "started\n"
    limit = time.monotonic() + 20
    # the program, and the process that has its device
    while len(children(process.pid)) < 2 and time.monotonic() < limit:
        time.sleep(0.05)
    own = children(process.pid)
    program = next(pid for pid in own if os.readlink(f"/proc/{pid}/exe") == str(runtime))
    if way == "Ctrl-C":
        os.killpg(process.pid, signal.SIGINT)
    else:
        os.kill(program if way == "the program is killed" else process.pid, signal.SIGKILL)
    assert process.wait(timeout=20) == {"Ctrl-C": 130, "the program is killed": 137, "exec is killed": -9}[way]
    while any(map(runs, own)) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not [pid for pid in own if runs(pid)]


@pytest.fixture(scope="session", params=["sm_90a", "sm_100a"])
def products(gemm, once, request):
    """The folder with what one `exec` tells of the right product and of the wrong one behind it, and its (output,
    stderr, exit code).
    """

    def ran(path):
        path.mkdir()
        options = ["--report", path / "report", "--json", path / "found.json", "--record", path / "kept"]
        done = run(["sh", "-c", f"{gemm}; {gemm} wrong"], *options, arch=request.param)
        (path / "told.json").write_text(json.dumps([done.stdout, done.stderr, done.returncode]))

    path = once(f"products-{request.param}", ran)
    return path, *json.loads((path / "told.json").read_text())


def test_a_matrix_product_with_maps_in_a_structure_is_right_and_judged(products):
    """TMA with wgmma, and with tcgen05: the maps are `__grid_constant__` members of a structure that is passed by
    value.
    """
    path, output, stderr, _ = products
    assert output.startswith("0 wrong\n")
    assert stderr.count("checked: operand layouts: A and B in all 8 matrix instructions") == 1
    arrays = tomllib.loads((path / "kept" / "0001-gemm" / "launch.toml").read_text())["arrays"]
    assert [one.get("dtype") for one in arrays[:2]] == ["bf16", "bf16"]  # as the maps say
    assert json.loads((path / "found.json").read_text())["launches"][0]["run"]["findings"] == []


def test_the_same_product_with_another_swizzle_in_a_map_is_found(products):
    path, output, stderr, code = products
    assert output.splitlines()[1:] != ["0 wrong"]
    assert code == 1
    assert "swizzle = 128B" in stderr
    assert "allocation1: 8192 bytes of memory" in stderr  # the array that the map is over
    found = json.loads((path / "found.json").read_text())["launches"][1]
    assert [f["code"] for f in found["run"]["findings"]] == ["R501"]
    assert "R501" in (path / "report" / "index.html").read_text()
    assert (path / "report" / found["page"]).exists()
    again = CliRunner().invoke(main, ["run", str(path / "kept" / "2-0001-gemm")])
    assert again.exit_code == 1
    assert "R501" in again.output
    assert "(as expected)" in again.output  # the record has what the launch left


def test_processes_of_one_program_have_pages_and_records_of_their_own(products):
    path, *_ = products
    assert sorted(page.name for page in (path / "report").iterdir()) == ["index.html", "launch-0001.html", "launch-2-0001.html"]
    assert "R501" in (path / "report" / "launch-2-0001.html").read_text()
    assert sorted(kept.name for kept in (path / "kept").iterdir()) == ["0001-gemm", "2-0001-gemm"]


def test_a_program_with_nvidias_own_runtime_is_told_how_to_link(compiled, once):
    program = built(once, "own_runtime", compiled)
    done = run(["sh", "-c", f"{program} printf; true"])
    assert done.stdout == "no device\n"
    assert done.stderr.count("link it with nvcc -cudart shared") == 1
    assert "no kernel was launched" in done.stderr
    assert done.returncode == 2  # nothing of it was simulated, whatever the program says


LAUNCHES = """#include <cstdio>
__global__ void k() {}
int main() { k<<<1, 1>>>(); puts(cudaGetErrorName(cudaGetLastError())); }
"""


def test_code_without_ptx_is_told_which_option_keeps_it(once, tmp_path):
    (tmp_path / "machine.cu").write_text(LAUNCHES)
    program = built(once, "machine", tmp_path / "machine.cu", "-gencode=arch=compute_90a,code=sm_90a", "-cudart", "shared", archs=())
    done = run([program])
    assert done.stdout == "cudaErrorNoKernelImageForDevice\n"
    assert "machine code for sm_90" in done.stderr
    assert "code=compute_90a" in done.stderr
    assert "was not simulated" in one_line(done.stderr)
    assert done.returncode == 2


def test_ptx_for_another_card_is_no_code(runtime):
    done = run([runtime, "assert"], arch="sm_100a")
    assert "cudaErrorNoKernelImageForDevice" in done.stdout
    assert "no code for sm_100a: there is PTX for sm_90a" in done.stderr
    assert done.returncode == 2


def test_a_program_that_launches_nothing_is_told_and_fails_where_launches_are_required(tmp_path):
    done = run(["true"])
    assert done.returncode == 0
    assert "no kernel was launched, and nothing was checked: no process of the program used the GPU" in one_line(done.stderr)
    done = run(["true"], "--require-launches", 1, "--json", tmp_path / "found.json")
    assert done.returncode == 2
    assert "--require-launches asks for 1" in done.stderr
    assert json.loads((tmp_path / "found.json").read_text())["exit_code"] == 2
    assert run(["false"], env={"SMEMSIM_REQUIRE_LAUNCHES": "1"}).returncode == 1
    done = run([sys.executable, "-c", "from smemsim.virtual import process; process.device().allocate(64)"])
    assert "and nothing was checked; the program: exit code 0" in done.stderr


BUILDS_ITSELF = """__global__ void fill(int *to) { *to = 41 + threadIdx.x; }
int main() { int *to, is = 0; cudaMalloc(&to, 4); fill<<<1, 2048>>>(to); fill<<<1, 1>>>(to); cudaMemcpy(&is, to, 4, cudaMemcpyDeviceToHost); return is; }
"""


def test_what_a_program_compiles_with_nvcc_has_its_ptx_and_the_shared_runtime(tmp_path):
    """As Makefiles do, DeepGEMM's compiler, and PyTorch's for extensions: no option is theirs to give."""
    if NVCC is None:
        pytest.skip("needs nvcc")
    (tmp_path / "own.cu").write_text(BUILDS_ITSELF)
    build = f"{NVCC} -gencode arch=compute_90a,code=sm_90a -cudart static {tmp_path / 'own.cu'} -o {tmp_path / 'own'} && {tmp_path / 'own'}"
    done = run(["sh", "-c", build])
    assert done.returncode == 41, done.stderr
    assert "1 launch of 1 kernel" in done.stderr
    assert "no finding explains exit code 41" in done.stderr
    assert done.stderr.count("launch refused: block = (2048, 1, 1): at most (1024, 1024, 64)") == 1


def test_a_kernel_of_nvrtc_has_its_ptx_and_the_array_behind_which_it_reads_is_named(tmp_path_factory):
    wheel = importlib.util.find_spec("nvidia")
    homes = [pathlib.Path(home) for home in (wheel.submodule_search_locations if wheel else ())]
    library = next((found for home in homes for found in home.glob("*/lib/libnvrtc.so.*") if "builtins" not in found.name), None)
    if library is None or NVCC is None:
        pytest.skip("needs NVRTC (pip install nvidia-cuda-nvrtc) and nvcc")
    from smemsim.virtual import libraries

    program = tmp_path_factory.mktemp("programs") / "nvrtc"
    found = [
        f"-I{library.parents[1] / 'include'}",
        "-Xlinker",
        f"-rpath={library.parent}",
        "-Xlinker",
        str(libraries() / "libcuda.so.1"),
        "-Xlinker",
        str(library),
    ]
    subprocess.run([NVCC, "-cudart", "none", str(PROGRAMS / "nvrtc.cpp"), *found, "-o", str(program)], check=True, timeout=300)
    done = run([program], arch="sm_100a")
    assert done.stdout.splitlines() == ["NVIDIA B200 10.0", "sum 250750"]
    assert "1 launch of 1 kernel" in done.stderr
    done = run([program, "over"], arch="sm_103a")
    assert "cuCtxSynchronize(): CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout
    assert "right after the array allocation2" in done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bindings", "8192 right\n"),
        ("bindings_runtime", "True NVIDIA H200\n4096 [0, -2] CUDA_ERROR_INVALID_VALUE\n[] [5]\nTrue\n"),
        ("cuda_core", "1000 right\n"),
        ("numba_kernel", "1000 right\n"),
        ("tinygrad_program", "True True True True\n"),
        ("pallas", "NVIDIA H200\nTrue True True True\n"),
    ],
)
def test_python_programs_on_the_driver_api_run_as_they_are(name, said, tmp_path):
    """cuda.bindings with NVRTC and with the runtime, cuda.core, a kernel of numba, tinygrad (`CUDA=1 PTX=1`, which is
    DEV=CUDA:PTX now), JAX with Pallas.
    """
    done = run([sys.executable, PROGRAMS / f"{name}.py"], env={"DEV": "CUDA:PTX", "CACHEDB": str(tmp_path / "cache.db")})
    missing = [what for what in ("No module named", "libnvrtc", "libnvvm") if done.returncode and what in done.stderr]
    if done.returncode == 77 or missing:
        pytest.skip(done.stdout or f"needs {done.stderr.splitlines()[-2]}")
    assert done.stdout == said, done.stderr
    launches = "no kernel was launched, and nothing was checked" if name == "bindings_runtime" else "no findings"
    assert f"{launches}; the program: exit code 0" in done.stderr


COMPILES = """
import sys
from smemsim.virtual import process
sys.argv[1:] and process.open_on_import()
from cuda.bindings import nvrtc
_, program = nvrtc.nvrtcCreateProgram(b"", b"k.cu", 0, [], [])
for options in ([b"-G"], [b"--fmad=false", b"-lineinfo"], [b"--fmad=false"], []):
    assert nvrtc.nvrtcCompileProgram(program, len(options), options)[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS
"""
STAND_IN = """#include <stdio.h>
int nvrtcCreateProgram(void **program, const char *s, const char *n, int c, const char **h, const char **i) { *program = program; return 0; }
int nvrtcCompileProgram(void *program, int count, const char **options) {
    for (int n = 0; n < count; n++) printf("%s ", options[n]);
    return puts(".") < 0 || fflush(stdout);
}
"""


def test_nvrtc_of_cuda_bindings_is_asked_for_lines_once_the_card_is_there(tmp_path):
    """In a process that `exec` did not start. What the program asks for itself stays."""
    compiler = shutil.which("cc")
    if importlib.util.find_spec("cuda") is None or compiler is None:
        pytest.skip("needs cuda-bindings and a C compiler")
    (tmp_path / "nvrtc.c").write_text(STAND_IN)
    for version in (12, 13):
        subprocess.run([compiler, "-shared", "-fPIC", "nvrtc.c", "-o", f"libnvrtc.so.{version}"], cwd=tmp_path, check=True)
    env = os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    for opened, added in (((), ""), (("open",), "-lineinfo ")):
        command = [sys.executable, "-c", COMPILES, *opened]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.stdout.splitlines() == ["-G .", "--fmad=false -lineinfo .", f"--fmad=false {added}.", f"{added}."], done.stderr


def test_two_programs_at_once_have_devices_of_their_own(runtime):
    both = [
        subprocess.Popen(  # each of them waited for below
            [*exec_command("--quiet"), str(runtime), "compute"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for _ in "ab"
    ]
    assert [one.communicate(timeout=60)[0].splitlines()[1] for one in both] == ["0 wrong, 1 launch"] * 2


OF_CHILDREN = """
import subprocess, pytest

@pytest.mark.parametrize("command", [["compute"], ["errors"], ["busy"]])
def test_it(command):
    program = subprocess.Popen([{runtime!r}, *command], stdout=subprocess.PIPE, text=True)
    if command == ["busy"]:
        assert program.stdout.readline() == "started\\n"
        program.kill()
    program.communicate()

def test_a_script_that_starts_it():
    done = subprocess.run("({runtime} compute; {runtime} errors) & wait", shell=True, capture_output=True, text=True)
    assert "0 wrong, 1 launch" in done.stdout

@pytest.fixture
def at_the_end():
    yield
    subprocess.run([{runtime!r}, "errors"], check=True, capture_output=True)

def test_with_an_end(at_the_end):
    pass
"""


WILD = """
import ctypes, struct
cu, context, module = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cu.cuCtxSetCurrent(context)
elf = lambda at, entry, count: b"\\x7fELF\\2\\1\\1\\x41" + bytes(32) + struct.pack("<Q", at) + bytes(10) + struct.pack("<HH", entry, count) + bytes(2)
far = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 1 << 45, 1 << 45, 0, 0, 1, 0)
codes = [elf(1 << 44, 64, 1), elf(2**64 - 64, 64, 9), elf(0, 65535, 65535), elf(64, 64, 1) + far, struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 40)]
print([cu.cuModuleLoadData(ctypes.byref(module), code + bytes(64)) for code in codes])
open("wild.cubin", "wb").write(codes[0] + bytes(64))
print(cu.cuModuleLoad(ctypes.byref(module), b"wild.cubin"))

libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_long] * 5]
def at_the_end(data):  # of the memory that there is
    page = libc.mmap(None, 8192, 3, 0x22, -1, 0)
    libc.munmap(ctypes.c_void_p(page + 4096), ctypes.c_size_t(4096))
    ctypes.memmove(page + 4096 - len(data), data, len(data))
    return page + 4096 - len(data)
wrapper = lambda version, data, others: at_the_end(struct.pack("<IIQQ", 0x466243B1, version, data, others))
fat = at_the_end(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0))
places = [
    0x1000, 1 << 62, at_the_end(b"a"), at_the_end(b"abcd"), at_the_end(b"\x7fELF"), at_the_end(struct.pack("<I", 0xBA55ED50)), at_the_end(struct.pack("<I", 0x466243B1)),
    wrapper(1, 0x1000, 0), wrapper(2, fat, 0x1000), wrapper(2, fat, at_the_end(struct.pack("<Q", 0x1000))), wrapper(2, fat, at_the_end(struct.pack("<Q", fat))),
]
print({cu.cuModuleLoadData(ctypes.byref(module), ctypes.c_void_p(at)) for at in places})
print({cu.cuLibraryLoadData(ctypes.byref(module), ctypes.c_void_p(at), None, None, 0, None, None, 0) for at in places})

damaged = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 76) + struct.pack("<HHIQIIHHIQQQQ", 1, 0, 64, 12, 12, 0, 0, 0, 90, 0, 0x2000, 0, 100) + b"no such lz4."
linker = ctypes.c_void_p()
cu.cuLinkCreate_v2(0, None, None, ctypes.byref(linker))
print(
    cu.cuModuleLoadData(ctypes.byref(module), damaged), cu.cuModuleLoadData(ctypes.byref(module), ctypes.c_void_p(wrapper(1, at_the_end(damaged), 0))),
    cu.cuLinkAddData_v2(linker, 1, damaged, ctypes.c_size_t(len(damaged)), b"", 0, None, None), cu.cuModuleLoadData(ctypes.byref(module), ctypes.c_void_p(wrapper(1, 0, 0))),
)

class Config(ctypes.Structure):
    _fields_ = [("shape", ctypes.c_uint * 7), ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint)]
kernel = ctypes.c_void_p()
assert cu.cuModuleLoadData(ctypes.byref(module), b".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { ret; }") == 0
assert cu.cuModuleGetFunction(ctypes.byref(kernel), module, b"k") == 0
one = at_the_end(bytes(72))
launches = [Config((ctypes.c_uint * 7)(1, 1, 1, 1, 1, 1, 0), None, at, count) for at, count in ((None, 1), (None, 1 << 31), (one, 65), (one, (1 << 32) - 1), (None, 0), (one, 1))]
print([cu.cuLaunchKernelEx(ctypes.byref(launch), kernel, None, None) for launch in launches])

import os
os.mkfifo("pipe"), os.mkdir("folder"), os.symlink("/dev/zero", "endless"), open("large", "wb").truncate(1 << 40), open("wrapper", "wb").write(struct.pack("<IIQQ", 0x466243B1, 2, 0x1000, 0x1000))
for name in (b"pipe", b"folder", b"endless", b"nowhere", b"large", b"wrapper"):
    print(cu.cuModuleLoad(ctypes.byref(module), name), cu.cuLibraryLoadFromFile(ctypes.byref(module), name, None, None, 0, None, None, 0), cu.cuLinkAddFile_v2(linker, 1, name, 0, None, None))
"""


def test_code_and_attributes_that_are_not_where_a_program_says_are_invalid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = run([sys.executable, "-c", WILD]).stdout.splitlines()
    assert told[:2] == ["[200, 200, 200, 200, 200]", "200"]
    assert told[2:4] == ["{200}", "{200}"]
    assert told[4:6] == ["200 200 200 209", "[1, 1, 1, 1, 0, 0]"]
    assert told[6:10] == ["301 301 301"] * 4
    assert told[10].split()[:2] == ["200", "200"]
    assert all(code not in ("0", "999") for line in told[10:] for code in line.split())
    assert len(told) == 12


OF_ITSELF = '''
import ctypes, pytest

PTX = b""".version 8.0 .target sm_90a .address_size 64
.visible .entry numbers(.param .u64 to) { .reg .b32 %r<2>; .reg .b64 %d<3>; ld.param.u64 %d1, [to]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4;
add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r1; ret; }"""

@pytest.mark.parametrize("room", [32, 16, 48])
def test_it(room):
    driver, context, module, kernel, at = ctypes.CDLL("libcuda.so.1"), *[ctypes.c_void_p() for _ in range(4)]
    assert driver.cuInit(0) == driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == driver.cuCtxSetCurrent(context) == 0
    assert driver.cuModuleLoadData(ctypes.byref(module), PTX) == driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"numbers") == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4 * room)) == 0
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(at))
    assert driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, arguments, None) == 0

def test_nvml():
    assert ctypes.CDLL("libnvidia-ml.so.1").nvmlInit_v2() == 0

def test_numba():
    from numba import cuda
    assert cuda.is_available()

def test_nvrtc():
    from cuda.bindings import nvrtc
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError:
        pytest.skip("needs NVRTC")
    _, program = nvrtc.nvrtcCreateProgram(b'extern "C" __global__ void k() {}', b"k.cu", 0, [], [])
    assert int(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90"])[0]) == 0
    code = bytes(nvrtc.nvrtcGetCUBINSize(program)[1])
    nvrtc.nvrtcGetCUBIN(program, code)
    driver, context, module = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuInit(0) == driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == driver.cuCtxSetCurrent(context) == 0
    assert driver.cuModuleLoadData(ctypes.byref(module), code) == 0
'''


def test_tests_on_the_driver_api_find_a_device_that_works_whatever_trapped_before(tmp_path):
    (tmp_path / "test_itself.py").write_text(OF_ITSELF)
    (tmp_path / "early.py").write_text("import numba.cuda.cudadrv.driver")  # as pytest itself does for `filterwarnings`
    options = [
        "-p",
        "early",
        "-p",
        "smemsim.testing.plugin",
        "-p",
        "no:cacheprovider",
        "-q",
        "-rA",
        "--smemsim-gpu",
        "sm_90a",
        "test_itself.py",
    ]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False, env={**own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"},
    )  # fmt: skip
    ended = {name: how for how, name in re.findall(r"^(PASSED|FAILED|ERROR) test_itself\.py::(\S+)", done.stdout, re.MULTILINE)}
    assert ended.pop("test_nvrtc", "PASSED") == "PASSED", done.stdout  # or skipped
    assert ended == {
        "test_it[32]": "PASSED",
        "test_it[16]": "FAILED",
        "test_it[48]": "PASSED",
        "test_nvml": "PASSED",
        "test_numba": "PASSED",
    }, done.stdout + done.stderr
    assert "X001" in done.stdout


@pytest.mark.parametrize("workers", [0, 2])
def test_findings_of_programs_that_tests_start_fail_them(runtime, tmp_path, workers):
    pytest.importorskip("xdist", reason="needs pytest-xdist")
    (tmp_path / "test_children.py").write_text(OF_CHILDREN.replace("{runtime!r}", repr(str(runtime))).replace("{runtime}", str(runtime)))
    plugin = ["-p", "smemsim.testing.plugin", "-p", "xdist", "-p", "no:cacheprovider"]
    options = ["-q", "-n", str(workers), "--smemsim-gpu", "sm_90a", "--smemsim-report", "report", "-rA"]
    options += [] if workers else ["-k", "command1 or with_an_end"]  # the others end alike
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *options, "test_children.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False, env={**own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    ended = {name: how for how, name in re.findall(r"^(PASSED|FAILED|ERROR) test_children\.py::(\S+)", done.stdout, re.MULTILINE)}
    wanted = {
        "test_it[command0]": "PASSED",
        "test_it[command1]": "FAILED",
        "test_it[command2]": "PASSED",
        "test_a_script_that_starts_it": "FAILED",
        "test_with_an_end": "ERROR",
    }
    assert ended == (
        wanted if workers else {name: how for name, how in wanted.items() if name in ("test_it[command1]", "test_with_an_end")}
    )
    assert re.search(r"FAILED .*command1\] - .*X001 runtime\.cu:\d+ in behind: ", done.stdout)
    kernels, found = (3, 3) if workers else (2, 2)
    assert re.search(rf"^sm_90a: \d+ launches of {kernels} kernels .* findings in {found} \(behind\)", done.stdout, re.MULTILINE)
    linked = re.findall(r'<a href="([^"#][^"]*)"', (tmp_path / "report" / "index.html").read_text(encoding="utf-8"))
    assert linked
    assert all((tmp_path / "report" / name).is_file() for name in linked)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("there-is-none", None, "no folder of PATH has it"),
        ("./there-is-none", None, "there is no such file"),
        ("./text", "#!/bin/sh\n", "it is not executable: chmod +x"),
        ("text", "#!/bin/sh\n", "no folder of PATH has it; is it ./text?"),
        ("./text", "#!/no/such/shell -e\n", "its first line asks for /no/such/shell, which is not there"),
        ("./text", "echo\n", "it is neither a program nor a script with a first line like #!/bin/sh"),
        ("../", None, "it is a folder"),
        ("", None, "its name is empty"),
    ],
)
def test_a_program_that_cannot_be_started_is_told_why(tmp_path, monkeypatch, name, text, said):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "text").write_text(text)
        (tmp_path / "text").chmod(0o644 if "chmod" in said else 0o755)
    result = CliRunner().invoke(main, ["exec", "--arch", "sm_90a", "--", name])
    assert result.exit_code == 2
    assert f"cannot be started: {said}" in one_line(result.output)


ASKING = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **given) {
    for (unsigned long at = 0x20000000f000; getenv("TAKEN") && at < 0x400000000000; at += 0x100000000000)
        mmap((void *)at, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (count > 2) return unsetenv("LD_LIBRARY_PATH"), execv(given[0], (char *[]){given[0], given[1], 0});
    void *driver = dlopen(given[1], RTLD_NOW);
    int cards = 0;
    if (!driver) return puts(dlerror()), 1;
    ((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
    ((int (*)(int *))dlsym(driver, "cuDeviceGetCount"))(&cards);
    return printf("%d\\n", cards), 0;
}
"""


@pytest.fixture(scope="session")
def asking(tmp_path_factory):
    """A program in C that opens a driver by its argument, and prints how many cards there are; with a second argument
    it clears LD_LIBRARY_PATH first.
    """
    source = tmp_path_factory.mktemp("asking") / "asking.c"
    source.write_text(ASKING)
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler")
    subprocess.run([compiler, "-w", str(source), "-o", str(source.with_suffix("")), "-ldl"], check=True)
    return source.with_suffix("")


@pytest.mark.parametrize("env", [{}, {"GLIBC_TUNABLES": "glibc.malloc.check=0"}])
def test_a_program_whose_libraries_keep_much_for_each_thread_starts(tmp_path, env):
    """rustc's library wants 24 KB of the threads' static block, which is laid out before libraries are known where an
    auditor is loaded.
    """
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))))
    (tmp_path / "own.c").write_text('__thread char own[24000] __attribute__((tls_model("initial-exec"))); char *mine(void) { return own; }')
    (tmp_path / "main.c").write_text("char *mine(void); int main(void) { return mine()[23999]; }")
    subprocess.run([compiler, "-shared", "-fPIC", "own.c", "-o", "libown.so"], check=True, cwd=tmp_path)
    subprocess.run([compiler, "main.c", "-o", "main", "-L.", "-lown", f"-Wl,-rpath,{tmp_path}"], check=True, cwd=tmp_path)
    done = run([tmp_path / "main"], env=env)
    assert (done.returncode, "static TLS" in done.stderr) == (0, False), done.stderr


def test_the_driver_is_found_by_any_name_and_without_the_path(asking):
    ways = "libcuda.so.1", "libcuda.so", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "libcuda.so.1 cleared"
    done = run(["sh", "-e", "-c", "; ".join(f"{asking} {way}" for way in ways)])
    assert (done.stdout, done.returncode) == ("1\n" * len(ways), 0)


def test_a_program_without_its_card_is_told_by_which_variable(asking):
    done = run([asking, "libcuda.so.1"], env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.stdout == "0\n"
    assert "CUDA_VISIBLE_DEVICES= takes the card away from the program" in done.stderr


def test_a_program_that_takes_the_card_away_from_itself_has_none_for_torch():
    pytest.importorskip("torch")
    asks = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = {!r}; import torch; print(torch.cuda.is_available())"
    assert [run([sys.executable, "-c", asks.format(cards)]).stdout for cards in ("", "-1", "0")] == ["False\n", "False\n", "True\n"]


def test_a_program_may_have_memory_of_its_own_where_the_devices_is_else(asking):
    done = run([asking, "libcuda.so.1"], env={"TAKEN": "1"})
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


NULLS = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
own, nothing = ctypes.c_uint64(), [ctypes.c_uint64()] * 14
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(own), 0)
cuda.cuCtxSetCurrent(own)
for name in sys.argv[2:]:
    print(name, flush=True)
    getattr(ctypes.CDLL(sys.argv[1]), name)(*nothing)
    cuda.cuCtxSetCurrent(own)
"""


@pytest.mark.parametrize(("which", "library"), [("driver", "libcuda.so.1"), ("runtime", "libcudart.so.13")])
def test_no_function_is_hurt_by_nothing_in_all_its_arguments(which, library):
    names = sorted(
        name for name in entry_points(which)[0] if not name.startswith(("__", "cudaCreateChannelDesc"))
    )  # which gives a structure
    done = run([sys.executable, "-c", NULLS, library, *names], "--quiet")
    assert done.stdout.split() == names, done.stderr
    assert "the program: exit code 0" in done.stderr


def test_what_cannot_be_had_is_told_by_its_limit(asking):
    limited = ["sh", "-c", 'ulimit -f 1000; exec "$@"', "sh", *exec_command(), str(asking), "libcuda.so.1"]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60, check=False)
    assert "is there a limit on files (ulimit -f)?" in done.stderr


def test_a_program_that_is_told_to_end_has_its_launches_told(runtime, tmp_path):
    command = [*exec_command("--json", tmp_path / "x.json"), "sh", "-c", f"{runtime} compute; echo ready; exec sleep 100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.stdout.readline() not in ("ready\n", ""):
            pass
        process.terminate()
        _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert "2 launches of 2 kernels" in said
    assert len(json.loads((tmp_path / "x.json").read_text())["launches"]) == 2


ABSENT = (
    "import ctypes; r = ctypes.CDLL('libcudart.so.13'); print([r.cudaImportExternalMemory(0), r.cudaGetLastError(), r.cudaGetLastError()])"
)


def test_a_function_that_is_not_there_is_named_and_its_error_is_the_last_one(asked):
    assert asked["absent"] == "[801, 801, 0]\n"
    assert "cudaImportExternalMemory is not there in the virtual GPU; it answers 801 (not supported)" in asked["told"]


NVML_ASKING = """
import ctypes
ml, cu, card, text, numbers = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.create_string_buffer(96), (ctypes.c_int * 4)()
ml.nvmlInit_v2(), cu.cuDeviceGetPCIBusId(text, 96, 0)
for n, attribute in enumerate((50, 33, 34)):  # domain, bus, device
    cu.cuDeviceGetAttribute(ctypes.byref(numbers, 4 * n), attribute, 0)
print(text.value.decode() == "%04x:%02x:%02x.0" % tuple(numbers[:3]), ml.nvmlDeviceGetHandleByPciBusId_v2(text, ctypes.byref(card)), ml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(card)))
ml.nvmlDeviceGetCudaComputeCapability(card, ctypes.byref(numbers), ctypes.byref(numbers, 4))
print(list(numbers[:2]), ml.nvmlDeviceGetName(card, text, 4), ml.nvmlDeviceGetName(card, None, 96), ml.nvmlDeviceGetName(card, text, 96), text.value.decode())
"""


def test_nvml_says_of_the_card_what_the_driver_says(asked):
    assert asked["nvml"] == "True 0 2\n[9, 0] 7 2 0 NVIDIA H200\n"


def test_advice_and_prefetches_of_managed_memory_are_its_attributes(asked):
    """Read mostly, preferred location, accessed by, last prefetch; types and numbers of places. Nowhere is -2, the host
    -1.
    """
    assert asked["managed"].splitlines() == [
        "0 0 [0, -2, -2, 0, -2, 0, -2]",
        "[0, 0, 0, 0] [1, 0, 1, 0]",
        "0 [0, -1, -2] 1",
        "0 [0, 1, 0] 0 [-1, 2, -1]",
        "[0, 0, 0] [0, -1, 0, 2] 1 1",
    ]


@pytest.fixture(scope="session")
def asked(once):
    """What each of these prints, one after the other in one program, and what smemsim told."""
    asks = {"without context": WITHOUT_CONTEXT, "versions": VERSIONS, "graphics": GRAPHICS, "trims": TRIMS, "physical": PHYSICAL, "absent": ABSENT, "nvml": NVML_ASKING,
            "textures": TEXTURES, "attributes": ATTRIBUTES, "managed": MANAGED, "contextless": CONTEXTLESS, "pointers": POINTERS,
            "runtime textures": RUNTIME_TEXTURES, "old launches": OLD_LAUNCHES}  # fmt: skip

    def ran(path):
        done = run([sys.executable, "-c", f"for name, text in {asks!r}.items(): print('=', name), exec(text, {{}})"])
        parts = re.split(r"^= (.*)\n", done.stdout, flags=re.MULTILINE)[1:]
        assert parts[::2] == [*asks], done.stderr
        path.write_text(json.dumps(dict(zip(parts[::2], parts[1::2], strict=True)) | {"told": done.stderr}))

    return json.loads(once("asked.json", ran).read_text())


PLUGIN = """
import pathlib
def _load_nvidia_libraries(): raise AssertionError("NVIDIA's libraries are not to be loaded")
def _get_library_path(): return str(pathlib.Path(__file__).with_name("plugin.so"))
"""
XLA_ASKING = """
import ctypes, os, types, sys
hardware = sys.modules["jax._src.hardware_utils"] = types.ModuleType("jax._src.hardware_utils")
hardware.has_visible_nvidia_gpu = lambda: False
from jax_plugins import xla_cuda13
xla_cuda13._load_nvidia_libraries()
print(hardware.has_visible_nvidia_gpu(), os.environ["XLA_FLAGS"], os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"])
dnn, blas = ctypes.CDLL("libcudnn.so.9"), ctypes.CDLL("libcublas.so.13")
print(dnn.cudnnGetVersion() // 10000, dnn.cudnnCreate(ctypes.byref(ctypes.c_void_p())), hasattr(dnn, "cudnnConvolutionForward"), hasattr(blas, "cublasGemmEx"))
"""


def test_xla_finds_the_card_and_handles_of_libraries_that_cannot_run_here(tmp_path):
    """Only flags that the plugin knows are given, what the program sets itself counts, and nobody but XLA finds cuDNN's
    stand-in.
    """
    (tmp_path / "jax_plugins/xla_cuda13").mkdir(parents=True)
    (tmp_path / "jax_plugins/xla_cuda13/__init__.py").write_text(PLUGIN)
    (tmp_path / "jax_plugins/xla_cuda13/plugin.so").write_bytes(b"\0xla_gpu_autotune_level\0xla_gpu_generate_line_info\0")
    own = {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "XLA_FLAGS": "--xla_gpu_autotune_level=1",
        "XLA_PYTHON_CLIENT_ALLOCATOR": "bfc",
    }
    done = run([sys.executable, "-c", XLA_ASKING], env=own)
    flags = "--xla_gpu_generate_line_info=true --xla_gpu_autotune_level=0 --xla_gpu_autotune_level=1"
    assert done.stdout == f"True {flags} bfc\n9 0 False True\n", done.stderr
    done = run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcudnn.so.9')"])
    assert "cannot open shared object file" in done.stderr


KILLED = r"""
import ctypes, os, pathlib, signal, sys
cu, memory, context, module, function = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), *(ctypes.c_void_p() for _ in range(3))
cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cu.cuCtxSetCurrent(context), cu.cuMemAlloc_v2(ctypes.byref(memory), 64)
ptx = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 o) { .reg .b64 %d; ld.param.u64 %d, [o]; st.global.u32 [%d], 7; ret; }"
cu.cuModuleLoadData(ctypes.byref(module), ptx), cu.cuModuleGetFunction(ctypes.byref(function), module, b"k")
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
def launched():
    return cu.cuLaunchKernel(function, *[ctypes.c_uint(1)] * 6, 0, None, arguments, None), cu.cuCtxSynchronize()
print(launched())
own = {int(n) for task in pathlib.Path(f"/proc/{os.getppid()}/task").iterdir() for n in (task / "children").read_text().split()}
for process in own - {os.getpid()}:
    os.kill(process, int(sys.argv[1]))
if sys.argv[1] == "0":
    os.closerange(3, 1000)
print(launched(), flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_program_whose_device_dies_is_not_said_to_be_fine(number, tmp_path):
    """Whatever the program makes of the errors: it ends with 0 here."""
    path = tmp_path / "launches.json"
    done = run([sys.executable, "-c", KILLED, int(number)], "--json", path)
    assert done.stdout == "(0, 0)\n(999, 999)\n"
    assert done.returncode == 2
    assert f"the process of the device was killed by signal {int(number)}" in done.stderr
    told = json.loads(path.read_text())
    assert [len(told["launches"]), told["exit_code"]] == [1, 2]
    assert any("the process of the device was killed" in why for why in told["not_simulated"])


def test_a_program_that_closes_its_connection_is_not_said_to_be_fine(tmp_path):
    """As daemons do, which close all files that they have not opened themselves."""
    path = tmp_path / "launches.json"
    done = run([sys.executable, "-c", KILLED, 0], "--json", path)
    assert done.stdout == "(0, 0)\n(999, 999)\n"
    assert done.returncode == 2
    told = json.loads(path.read_text())
    assert [len(told["launches"]), told["exit_code"]] == [1, 2]
    assert ["has lost its connection to the device" in why for why in told["not_simulated"]] == [True]


@pytest.mark.skipif(NVCC is None, reason="needs nvcc")
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_ptx_in_a_cubin_has_the_lines_of_its_source(arch, tmp_path):
    """ptxas blanks `.loc` and `.file`; the cubin's line tables give them back, with the calls that were inlined."""
    flags = ["-std=c++17", "-gencode", f"arch=compute_{arch[3:]},code={arch}", "-lineinfo", "--keep", "--keep-dir", str(tmp_path)]
    command = [NVCC, "-cubin", *flags, str(PROGRAMS / "gemm.cu"), "-o", str(tmp_path / "gemm.cubin")]
    subprocess.run(command, check=True, capture_output=True)
    texts = {name: (tmp_path / f"gemm.{name}").read_bytes() for name in ("cubin", "ptx")}
    (image,) = (one for one in images(texts["cubin"]) if one.ptx)
    mine, theirs = read_module(image.ptx), read_module(texts["ptx"].decode())
    (name,) = (name for name, function in theirs.functions.items() if function.body and function.is_entry)
    pairs = list(zip(mine.functions[name].body, theirs.functions[name].body, strict=True))
    assert all(a.line == b.line for a, b in pairs)
    placed = [(a.location, b.location) for a, b in pairs if b.location is not None]
    same = [a is not None and (a.file, a.line, len(a.chain)) == (b.file, b.line, len(b.chain)) for a, b in placed]
    assert sum(same) > 0.8 * len(placed) > 20
    # tables that are cut off or damaged: the text without lines, or with others
    for n in (0, 12, len(texts["cubin"]) // 2):
        broken = texts["cubin"].replace(b"\xfb\x0e\x0a", bytes((n % 256, 0, 0)))
        assert [one.target for one in images(broken) if one.ptx] == [arch]


IN_PART = """
import ctypes, sys
PTX = b'''.version 8.0 .target sm_90a .address_size 64
.visible .entry fill(.param .u64 to) { .reg .b64 %d<3>; .reg .b32 %r<2>; ld.param.u64 %d1, [to]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d2, %r1, 4;
  add.s64 %d1, %d1, %d2; st.global.u32 [%d1], 1; ret; }
.visible .entry waits(.param .u64 to) { .reg .b64 %d<3>; .reg .b32 %r<5>; .reg .pred %p<3>; ld.param.u64 %d1, [to]; mov.u32 %r1, %ctaid.x;
  ld.global.u32 %r3, [%d1 + 8]; add.u32 %r4, %r1, %r3; setp.eq.u32 %p1, %r4, 5; @%p1 st.release.gpu.global.u32 [%d1], 1; @%p1 ret;
L: ld.acquire.gpu.global.u32 %r2, [%d1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra L; ret; }'''
def filled(name):
    cu, c, m, f, to = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    assert cu.cuInit(0) == cu.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0) == cu.cuCtxSetCurrent(c) == 0
    assert cu.cuModuleLoadData(ctypes.byref(m), PTX) == cu.cuModuleGetFunction(ctypes.byref(f), m, name) == 0
    assert cu.cuMemAlloc_v2(ctypes.byref(to), ctypes.c_size_t(256)) == cu.cuMemsetD8_v2(to, 0, ctypes.c_size_t(256)) == 0
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(to))
    assert cu.cuLaunchKernel(f, 64, 1, 1, 32, 1, 1, 0, None, arguments, None) == 0
    out = (ctypes.c_uint32 * 64)()
    assert cu.cuMemcpyDtoH_v2(out, to, ctypes.c_size_t(256)) == 0
    return sum(out)
def test_fill():
    assert filled(b"fill") == 64
def test_waits():
    assert filled(b"waits") == 1
if __name__ == "__main__":
    sys.exit(4 * ([filled(b"fill"), filled(b"waits")] != [3, 0]))
"""


def test_a_sample_of_ctas_is_no_clean_bill(tmp_path):
    """Not of the program's own comparison, not with --quiet, and not of a kernel whose CTAs wait for others."""
    path = tmp_path / "test_part.py"
    path.write_text(IN_PART)
    done = run([sys.executable, path], "--ctas", "sample", "--quiet")
    assert done.returncode == 2, done.stderr
    assert (
        "2 of 2 launches ran in part (--ctas): outputs are partial. The program's own comparisons mean nothing: its exit code says"
        in one_line(done.stderr)
    )
    assert "1 of these could not go on (waits)" in one_line(done.stderr)
    assert "X006" not in done.stderr
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    options = [
        "-p",
        "smemsim.testing.plugin",
        "-p",
        "no:cacheprovider",
        "-q",
        "-rs",
        "--smemsim-gpu",
        "sm_90a",
        "--smemsim-ctas",
        "sample",
        ".",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False, env={**own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "300"},
    )  # fmt: skip
    assert "2 skipped" in done.stdout, done.stdout + done.stderr
    assert "so that outputs are partial; no findings" in done.stdout
    assert "waits cannot be run in part" in done.stdout


OF_CUBLAS = """
import ctypes, sys
import numpy as np
rt, blas, lt = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libcublas.so.13"), ctypes.CDLL("libcublasLt.so.13")
Q, rng = ctypes.c_void_p, np.random.default_rng(1)
def card(array):
    at = Q()
    assert rt.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(array.nbytes)) == rt.cudaMemcpy(at, Q(array.ctypes.data), ctypes.c_size_t(array.nbytes), 1) == 0
    return at
def host(at, like):
    out = np.empty_like(like)
    assert rt.cudaMemcpy(Q(out.ctypes.data), at, ctypes.c_size_t(out.nbytes), 2) == 0
    return out
def number(value, kind=np.float32):
    kept.append(np.array([value], kind))
    return Q(kept[-1].ctypes.data)
kept, h, stream = [], Q(), Q()
assert blas.cublasCreate_v2(ctypes.byref(h)) == rt.cudaStreamCreate(ctypes.byref(stream)) == blas.cublasSetStream_v2(h, stream) == 0
m, n, k = 6, 5, 4
a, b, c = (np.asfortranarray(rng.integers(-8, 8, shape) / 4, np.float32) for shape in ((m, k), (k, n), (m, n)))
A, B, C = map(card, (a, b, c))
assert blas.cublasSgemm_v2(h, 0, 0, m, n, k, number(2), A, m, B, k, number(0.5), C, m) == 0
assert np.array_equal(host(C, c), 2 * (a @ b) + 0.5 * c)
assert blas.cublasSetPointerMode_v2(h, 1) == 0 == blas.cublasSgemm_v2(h, 1, 1, n, m, k, card(np.float32([1])), B, k, A, m, card(np.float32([0])), C, n)
assert np.array_equal(host(C, np.empty((n, m), np.float32, "F")), (a @ b).T) and blas.cublasSetPointerMode_v2(h, 0) == 0
half, brain = a.astype(np.float16), (b.view(np.uint32) >> 16).astype(np.uint16)
assert blas.cublasHgemm(h, 1, 0, k, k, m, number(1, np.float16), card(half), m, card(half), m, number(0, np.float16), C, k) == 0
assert np.array_equal(host(C, np.empty((k, k), np.float16, "F")), (a.T @ a).astype(np.float16))
wide, narrow = card(np.zeros(2 * n * n, np.float32)), card(brain)
many = (narrow, 14, k, ctypes.c_longlong(0))
assert blas.cublasGemmStridedBatchedEx(h, 1, 0, n, n, k, number(1), *many, *many, number(0), wide, 0, n, ctypes.c_longlong(n * n), 2, 68, -1) == 0
assert np.array_equal(host(wide, np.zeros(2 * n * n, np.float32)).reshape(2, n, n), np.stack([b.T @ b] * 2))
graph, made = Q(), Q()  # of a captured stream it is a node
assert rt.cudaStreamBeginCapture(stream, 0) == 0 == blas.cublasSgemm_v2(h, 0, 0, m, n, k, number(1), A, m, B, k, number(0), C, m)
assert rt.cudaStreamEndCapture(stream, ctypes.byref(graph)) == rt.cudaGraphInstantiate(ctypes.byref(made), graph, ctypes.c_uint64(0)) == 0
assert not np.array_equal(host(C, c), a @ b) and rt.cudaGraphLaunch(made, stream) == 0 and np.array_equal(host(C, c), a @ b)
L, what, *places = (Q() for _ in range(5))
assert lt.cublasLtCreate(ctypes.byref(L)) == lt.cublasLtMatmulDescCreate(ctypes.byref(what), 68, 0) == 0
for place, rows, columns in zip(places, (m, k, m), (k, n, n)):
    assert lt.cublasLtMatrixLayoutCreate(ctypes.byref(place), 0, ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)) == 0
bias, found, result = card(np.arange(m, dtype=np.float32)), ctypes.c_int(), (ctypes.c_char * 96)()
def asked(epilogue):
    assert lt.cublasLtMatmulDescSetAttribute(what, 7, ctypes.byref(ctypes.c_int(epilogue)), ctypes.c_size_t(4)) == 0
    return lt.cublasLtMatmulAlgoGetHeuristic(L, what, *places, places[-1], None, 1, result, ctypes.byref(found))
assert lt.cublasLtMatmulDescSetAttribute(what, 8, ctypes.byref(bias), ctypes.c_size_t(8)) == asked(4) == 0 and found.value == 1
assert lt.cublasLtMatmul(L, what, number(1), A, places[0], B, places[1], number(0), C, places[2], C, places[2], result, None, ctypes.c_size_t(0), stream) == 0
assert np.array_equal(host(C, c), a @ b + np.arange(m, dtype=np.float32)[:, None])
print(asked(32), blas.cublasStrsm_v2(h), blas.cublasSgemm_v2(h, 0, 0, m, n, 999 * k, number(1), A, m, B, 999 * k, number(0), C, m), blas.cublasDestroy_v2(h))
"""


def test_products_of_cublas_are_references(tmp_path):
    """They are computed in the documented precision, and the log says that nothing of them was simulated."""
    (tmp_path / "blas.py").write_text(OF_CUBLAS)
    done = run([sys.executable, tmp_path / "blas.py"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "15 15 7 0\n"
    assert "cublasHgemm: 4 x 4 x 6 (A f16, B f16, D f16): a reference by numpy, not simulated" in done.stderr
    assert "cublasStrsm_v2 is not there in the virtual GPU; it answers 15 (CUBLAS_STATUS_NOT_SUPPORTED)" in done.stderr
    assert "a matrix of 6 x 3996 f32 with a leading dimension of 6" in done.stderr
    assert "nothing was checked" in done.stderr
