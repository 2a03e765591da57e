"""What a program asks of `cuda.bindings`, or host code of CuTe DSL of its runtime library, is one call of the device,
with its numbers in their places. A module of the same names stands for NVIDIA's; a session that notes its calls stands
for the device.
"""

import ctypes
import functools
import struct
import sys
import types

import pytest

from smemsim.virtual import CudaError, bindings, cutedsl

CARD = types.SimpleNamespace(name="NVIDIA H200")
PARAMETERS = [types.SimpleNamespace(offset=offset, size=size) for offset, size in ((0, 8), (8, 4), (16, 8))]
BIG = (1 << 64) - 2  # what -2 is as an unsigned number


@functools.cache
def of(kind):
    return type(kind, (int,), {})


def handle(value, kind="CUdeviceptr"):
    return of(kind)(value)


class Session:
    def __init__(self):
        self.calls, self.answers, self.told = [], {}, []
        self.device = types.SimpleNamespace(
            driver_version=13000, uuid="uuid", memory_bytes=1 << 37, card=CARD, error=0, tell=self.told.append
        )

    def call(self, *call):
        self.calls.append(call)
        answer = self.answers.get(call[0], 7)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def function_of(self, handle):
        assert handle == 5
        return types.SimpleNamespace(parameters=PARAMETERS)

    def bank(self, handle, address):
        return b"bank %d at %d" % (handle, address)


KINDS = ("CUdevice", "CUcontext", "CUdeviceptr", "CUstream", "CUevent", "CUmodule", "CUfunction", "CUlibrary", "CUkernel")
RUNTIME_KINDS = ("cudaStream_t", "cudaGraph_t", "cudaGraphNode_t", "cudaGraphExec_t", "cudaEvent_t", "cudaLibrary_t", "cudaKernel_t")
RAW = struct.pack("<QQ", 11, 12)
CONFIG = types.SimpleNamespace(
    blockDimX=4, blockDimY=3, blockDimZ=2, sharedMemBytes=64, numAttrs=2,
    attrs=[
        types.SimpleNamespace(id=1, value=None),
        types.SimpleNamespace(id=4, value=types.SimpleNamespace(clusterDim=types.SimpleNamespace(x=2, y=1, z=8))),
        types.SimpleNamespace(id=4, value=types.SimpleNamespace(clusterDim=types.SimpleNamespace(x=9, y=9, z=9))),
    ],
)  # fmt: skip
GIVEN = ((0x123456789A, -1, 2.5), (None, ctypes.c_int32, ctypes.c_double))
BANK = struct.pack("<Qiid", 0x123456789A, -1, 0, 2.5)
# (function, arguments, the call of the device, what it answers there, (code, results...) that the program gets)
DRIVER = [
    ("cuInit", (0,), None, 7, (0,)),
    ("cuDriverGetVersion", (), None, 7, (0, 13000)),
    ("cuDeviceGetCount", (), None, 7, (0, 1)),
    ("cuDeviceGet", (0,), None, 7, (0, handle(0, "CUdevice"))),
    ("cuDeviceGet", (1,), None, 7, (101, None)),
    ("cuDeviceGetName", (16, 0), None, 7, (0, b"NVIDIA H200".ljust(16, b"\0"))),
    ("cuDeviceGetName", (7, 0), None, 7, (0, b"NVIDIA\0")),
    ("cuDeviceGetUuid", (0,), None, 7, (0, "uuid")),
    ("cuDeviceTotalMem", (0,), None, 7, (0, 1 << 37)),
    ("cuDeviceGetAttribute", (75, 0), ("attribute", 75), 9, (0, 9)),
    ("cuDevicePrimaryCtxRetain", (0,), None, 7, (0, handle(1, "CUcontext"))),
    ("cuDevicePrimaryCtxRelease", (0,), None, 7, (0,)),
    ("cuDevicePrimaryCtxGetState", (0,), None, 7, (0, 0, 1)),
    ("cuCtxCreate", (None, 0, 0), None, 7, (0, handle(1, "CUcontext"))),
    ("cuCtxPushCurrent", (1,), None, 7, (0,)),
    ("cuCtxPopCurrent", (), None, 7, (0, handle(1, "CUcontext"))),
    ("cuCtxGetCurrent", (), None, 7, (0, handle(1, "CUcontext"))),
    ("cuCtxGetDevice", (), None, 7, (0, handle(0, "CUdevice"))),
    ("cuCtxSynchronize", (), ("synchronize", 0), 7, (0,)),
    ("cuMemGetInfo", (), ("memory_info",), (3, 4), (0, 3, 4)),
    ("cuMemAlloc", (64,), ("allocate", 64, "device", ""), 4096, (0, handle(4096, "CUdeviceptr"))),
    ("cuMemAllocAsync", (64, 3), ("allocate", 64, "device", ""), 4096, (0, handle(4096, "CUdeviceptr"))),
    ("cuMemAllocManaged", (64, 1), ("allocate", 64, "managed", ""), 4096, (0, handle(4096, "CUdeviceptr"))),
    ("cuMemAllocHost", (64,), ("allocate", 64, "pinned", ""), 4096, (0, 4096)),
    ("cuMemHostAlloc", (64, 0), ("allocate", 64, "pinned", ""), 4096, (0, 4096)),
    ("cuMemFree", (handle(4096),), ("free", 4096), 7, (0,)),
    ("cuMemFreeAsync", (4096, handle(3)), ("free_async", 4096, 3), 7, (0,)),
    ("cuMemcpy", (1, 2, 3), ("copy", 1, 2, 3, 4, 0), 7, (0,)),
    ("cuMemcpyDtoH", (1, 2, 3), ("copy", 1, 2, 3, 4, 0), 7, (0,)),
    ("cuMemcpyHtoD", (1, 2, 3), ("copy", 1, 2, 3, 4, 0), 7, (0,)),
    ("cuMemcpyDtoD", (1, 2, 3), ("copy", 1, 2, 3, 4, 0), 7, (0,)),
    ("cuMemFreeHost", (4096,), ("free", 4096), 7, (0,)),
    ("cuCtxDestroy", (1,), None, 7, (0,)),
    ("cuCtxSetCurrent", (1,), None, 7, (0,)),
    ("cuMemcpyDtoDAsync", (1, 2, 3, 5), ("copy", 1, 2, 3, 4, 5), 7, (0,)),
    ("cuMemcpyAsync", (1, 2, 3, handle(4)), ("copy", 1, 2, 3, 4, 4), 7, (0,)),
    ("cuMemcpyHtoDAsync", (1, 2, 3, 5), ("copy", 1, 2, 3, 4, 5), 7, (0,)),
    ("cuMemcpyDtoHAsync", (1, 2, 3, 5), ("copy", 1, 2, 3, 4, 5), 7, (0,)),
    ("cuMemsetD8", (1, 2, 3), ("fill", 1, 0, 2, 1, 3, 1, 0), 7, (0,)),
    ("cuMemsetD16", (1, 2, 3), ("fill", 1, 0, 2, 2, 3, 1, 0), 7, (0,)),
    ("cuMemsetD32", (1, 2, 3), ("fill", 1, 0, 2, 4, 3, 1, 0), 7, (0,)),
    ("cuMemsetD8Async", (1, 2, 3, 5), ("fill", 1, 0, 2, 1, 3, 1, 5), 7, (0,)),
    ("cuMemsetD16Async", (1, 2, 3, 5), ("fill", 1, 0, 2, 2, 3, 1, 5), 7, (0,)),
    ("cuMemsetD32Async", (1, 2, 3, 5), ("fill", 1, 0, 2, 4, 3, 1, 5), 7, (0,)),
    ("cuStreamCreate", (1,), ("stream_create", 1, 0), 8, (0, handle(8, "CUstream"))),
    ("cuStreamCreateWithPriority", (1, -2), ("stream_create", 1, BIG), 8, (0, handle(8, "CUstream"))),
    ("cuStreamDestroy", (handle(8),), ("stream_destroy", 8), 7, (0,)),
    ("cuStreamSynchronize", (handle(8),), ("synchronize", 8), 7, (0,)),
    ("cuStreamQuery", (handle(8),), ("synchronize", 8), 7, (0,)),
    ("cuStreamWaitEvent", (8, 9), ("stream_wait", 8, 9), 7, (0,)),
    ("cuStreamWaitEvent", (8, 9, 1), ("stream_wait", 8, 9), 7, (0,)),
    ("cuStreamGetCtx", (8,), None, 7, (0, handle(1, "CUcontext"))),
    ("cuEventCreate", (2,), ("event_create", 2), 9, (0, handle(9, "CUevent"))),
    ("cuEventRecord", (9, 8), ("event_record", 9, 8), 7, (0,)),
    ("cuEventSynchronize", (9,), ("event_synchronize", 9), 7, (0,)),
    ("cuEventQuery", (9,), ("event_synchronize", 9), 7, (0,)),
    ("cuEventElapsedTime", (9, 10), ("event_elapsed", 9, 10), 1500, (0, 1.5)),
    ("cuEventDestroy", (9,), ("event_destroy", 9), 7, (0,)),
    ("cuModuleLoadData", (b"ptx",), ("load", b"ptx", "", 0), 20, (0, handle(20, "CUmodule"))),
    ("cuModuleLoadData", (bytearray(b"ptx"),), ("load", b"ptx", "", 0), 20, (0, handle(20, "CUmodule"))),
    ("cuModuleUnload", (20,), ("unload", 20), 7, (0,)),
    ("cuModuleGetFunction", (20, b"k"), ("function", 20, "k"), 5, (0, handle(5, "CUfunction"))),
    ("cuModuleGetGlobal", (20, b"v"), ("variable", 20, "v"), (4096, 16), (0, handle(4096, "CUdeviceptr"), 16)),
    ("cuLibraryLoadData", (b"ptx", [], [], 0), ("load", b"ptx", "", 0), 20, (0, handle(20, "CUlibrary"))),
    ("cuLibraryUnload", (20,), ("unload", 20), 7, (0,)),
    ("cuLibraryGetKernel", (20, b"k"), ("function", 20, "k"), 5, (0, handle(5, "CUkernel"))),
    ("cuLibraryGetKernelCount", (20,), ("function_count", 20), 2, (0, 2)),
    ("cuLibraryEnumerateKernels", (2, 20), ("functions", 20, 2), RAW, (0, [11, 12])),
    ("cuLibraryGetGlobal", (20, b"v"), ("variable", 20, "v"), (4096, 16), (0, handle(4096, "CUdeviceptr"), 16)),
    ("cuKernelGetFunction", (5,), None, 7, (0, handle(5, "CUfunction"))),
    ("cuFuncGetAttribute", (1, 5), ("function_attribute", 5, 1), 48, (0, 48)),
    ("cuKernelGetAttribute", (1, 5, 0), ("function_attribute", 5, 1), 48, (0, 48)),
    ("cuFuncSetAttribute", (5, 8, 65536), ("set_function_attribute", 5, 8, 65536), 7, (0,)),
    ("cuFuncSetAttribute", (5, 9, -2), ("set_function_attribute", 5, 9, BIG), 7, (0,)),
    ("cuKernelSetAttribute", (8, 65536, 5, 0), ("set_function_attribute", 5, 8, 65536), 7, (0,)),
    ("cuOccupancyMaxActiveBlocksPerMultiprocessor", (5, 128, 64), ("occupancy", 5, 128, 64), 3, (0, 3)),
    ("cuOccupancyAvailableDynamicSMemPerBlock", (5, 2, 128), ("available_shared", 5, 2, 128), 3, (0, 3)),
    ("cuOccupancyMaxActiveClusters", (5, CONFIG), ("clusters", 5, 24, 64, 2, 1, 8), 3, (0, 3)),
    ("cuLaunchKernel", (5, 1, 2, 3, 4, 5, 6, 64, 8, GIVEN, 0), ("launch", 5, 1, 2, 3, 4, 5, 6, 0, 0, 0, 64, 8, 0, 0, BANK), 7, (0,)),
    ("cuLaunchKernel", (5, 1, 2, 3, 4, 5, 6, 64, None, 4096, 0), ("launch", 5, 1, 2, 3, 4, 5, 6, 0, 0, 0, 64, 0, 0, 0, b"bank 5 at 4096"), 7, (0,)),
    ("cuLaunchKernel", (5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0), ("launch", 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, b"bank 5 at 0"), CudaError(719), (719, None)),
    ("cuGetErrorName", (719,), None, 7, (0, b"CUDA_ERROR_LAUNCH_FAILED")),
    ("cuGetErrorName", (54321,), None, 7, (0, b"unknown error")),
    ("cuGetErrorString", (719,), None, 7, (0, b"unspecified launch failure")),
    ("cuGetErrorString", (54321,), None, 7, (0, b"unknown error")),
    ("cuNothing", (1, 2), None, 7, (801, None, None)),
]  # fmt: skip
RUNTIME = [
    ("cudaRuntimeGetVersion", (), None, 7, (0, 13000)),
    ("cudaDriverGetVersion", (), None, 7, (0, 13000)),
    ("cudaGetDevice", (), None, 7, (0, 0)),
    ("cudaGetDeviceCount", (), None, 7, (0, 1)),
    ("cudaSetDevice", (0,), None, 7, (0,)),
    ("cudaSetDevice", (1,), None, 7, (101, None)),
    ("cudaInitDevice", (0, 0, 0), None, 7, (0,)),
    ("cudaFuncSetAttribute", (5, 9, -2), ("set_function_attribute", 5, 9, BIG), 7, (0,)),
    ("cudaDeviceGetAttribute", (75, 0), ("attribute", 75), 9, (0, 9)),
    ("cudaDeviceSynchronize", (), ("synchronize", 0), 7, (0,)),
    ("cudaMemGetInfo", (), ("memory_info",), (3, 4), (0, 3, 4)),
    ("cudaMalloc", (64,), ("allocate", 64, "device", ""), 4096, (0, 4096)),
    ("cudaMallocAsync", (64, 3), ("allocate", 64, "device", ""), 4096, (0, 4096)),
    ("cudaMallocManaged", (64, 1), ("allocate", 64, "managed", ""), 4096, (0, 4096)),
    ("cudaMallocHost", (64,), ("allocate", 64, "pinned", ""), 4096, (0, 4096)),
    ("cudaHostAlloc", (64, 0), ("allocate", 64, "pinned", ""), 4096, (0, 4096)),
    ("cudaFree", (4096,), ("free", 4096), 7, (0,)),
    ("cudaFreeHost", (4096,), ("free", 4096), 7, (0,)),
    ("cudaFreeAsync", (4096, 3), ("free_async", 4096, 3), 7, (0,)),
    ("cudaMemcpy", (1, 2, 3, 2), ("copy", 1, 2, 3, 2, 0), 7, (0,)),
    ("cudaMemcpyAsync", (1, 2, 3, 1, 5), ("copy", 1, 2, 3, 1, 5), 7, (0,)),
    ("cudaMemset", (1, 2, 3), ("fill", 1, 0, 2, 1, 3, 1, 0), 7, (0,)),
    ("cudaMemsetAsync", (1, 2, 3, 5), ("fill", 1, 0, 2, 1, 3, 1, 5), 7, (0,)),
    ("cudaStreamCreate", (), ("stream_create", 0, 0), 8, (0, handle(8, "cudaStream_t"))),
    ("cudaStreamCreateWithFlags", (1,), ("stream_create", 1, 0), 8, (0, handle(8, "cudaStream_t"))),
    ("cudaStreamCreateWithPriority", (1, -2), ("stream_create", 1, BIG), 8, (0, handle(8, "cudaStream_t"))),
    ("cudaStreamDestroy", (8,), ("stream_destroy", 8), 7, (0,)),
    ("cudaStreamSynchronize", (8,), ("synchronize", 8), 7, (0,)),
    ("cudaStreamWaitEvent", (8, 9), ("stream_wait", 8, 9), 7, (0,)),
    ("cudaStreamBeginCapture", (8, 1), ("capture_begin", 8, 1), 7, (0,)),
    ("cudaStreamEndCapture", (8,), ("capture_end", 8), 30, (0, handle(30, "cudaGraph_t"))),
    ("cudaGraphGetNodes", (30,), ("graph_nodes", 30, 0), (2, b""), (0, [], 2)),
    ("cudaGraphGetNodes", (30, 2), ("graph_nodes", 30, 2), (2, RAW), (0, [11, 12], 2)),
    ("cudaGraphInstantiate", (30, 0), ("graph_instantiate", 30), 31, (0, handle(31, "cudaGraphExec_t"))),
    ("cudaGraphLaunch", (31, 8), ("graph_launch", 31, 8), 7, (0,)),
    ("cudaGraphDestroy", (30,), ("graph_destroy", 30), 7, (0,)),
    ("cudaGraphExecDestroy", (31,), ("graph_destroy", 31), 7, (0,)),
    ("cudaEventCreate", (), ("event_create", 0), 9, (0, handle(9, "cudaEvent_t"))),
    ("cudaEventCreateWithFlags", (2,), ("event_create", 2), 9, (0, handle(9, "cudaEvent_t"))),
    ("cudaEventRecord", (9, 8), ("event_record", 9, 8), 7, (0,)),
    ("cudaEventSynchronize", (9,), ("event_synchronize", 9), 7, (0,)),
    ("cudaEventQuery", (9,), ("event_synchronize", 9), 7, (0,)),
    ("cudaEventElapsedTime", (9, 10), ("event_elapsed", 9, 10), 1500, (0, 1.5)),
    ("cudaEventDestroy", (9,), ("event_destroy", 9), 7, (0,)),
    ("cudaLibraryLoadData", (b"ptx", 0), ("load", b"ptx", "", 0), 20, (0, handle(20, "cudaLibrary_t"))),
    ("cudaLibraryUnload", (20,), ("unload", 20), 7, (0,)),
    ("cudaLibraryGetKernel", (20, b"k"), ("function", 20, "k"), 5, (0, handle(5, "cudaKernel_t"))),
    ("cudaGetErrorName", (719,), None, 7, (0, b"cudaErrorLaunchFailure")),
    ("cudaGetErrorName", (54321,), None, 7, (0, b"unknown error")),
    ("cudaGetErrorString", (719,), None, 7, (0, b"unspecified launch failure")),
    ("cudaGetErrorString", (54321,), None, 7, (0, b"unknown error")),
    ("cudaProfilerStart", (), None, 7, (0,)),
    ("cudaProfilerStop", (), None, 7, (0,)),
    ("cudaNothing", (1, 2), None, 7, (801, None, None)),
]  # fmt: skip


@pytest.fixture
def installed(monkeypatch):
    """(the two modules, the session)."""
    calls = Session()
    for name, rows, kinds, codes in (("driver", DRIVER, KINDS, "CUresult"), ("runtime", RUNTIME, RUNTIME_KINDS, "cudaError_t")):
        module = types.ModuleType(f"cuda.bindings.{name}")
        more = ("cudaGetLastError", "cudaPeekAtLastError") if name == "runtime" else ()
        for entry in {row[0] for row in rows} | {*more}:
            setattr(module, entry, lambda *_: pytest.fail("a card was asked"))
        for kind in kinds:
            setattr(module, kind, of(kind))
        setattr(module, codes, of(codes))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", types.ModuleType("cuda.bindings"))
    monkeypatch.setattr(bindings, "session", lambda: calls)
    bindings.install()
    return sys.modules["cuda.bindings.driver"], sys.modules["cuda.bindings.runtime"], calls


@pytest.mark.parametrize(
    ("name", "arguments", "call", "answer", "found"), DRIVER + RUNTIME, ids=[f"{row[0]} {n}" for n, row in enumerate(DRIVER + RUNTIME)]
)
def test_a_function_is_one_call_with_its_numbers_in_their_places(installed, name, arguments, call, answer, found):
    *modules, calls = installed
    if call:
        calls.answers[call[0]] = answer
    module = modules[name.startswith("cuda")]
    got = getattr(module, name)(*arguments)
    assert got == found
    assert [type(one) for one in got[1:]] == [type(one) for one in found[1:]]
    assert calls.calls == ([call] if call else [])
    assert calls.told == (
        [f"cuda.bindings: the program calls {name}, which the virtual GPU does not answer"] if name.endswith("Nothing") else []
    )
    assert isinstance(got[0], getattr(module, "cudaError_t" if name.startswith("cuda") else "CUresult"))


def test_every_function_that_is_answered_is_in_the_tables(installed):
    named = {row[0] for row in DRIVER + RUNTIME} | {"cudaGetLastError", "cudaPeekAtLastError"}
    answered = {n for api in (bindings._Driver, bindings._Runtime) for n in dir(api) if n.startswith("cu")}
    assert answered <= named


def test_the_last_error_of_the_runtime_is_told_once_and_that_of_the_device_for_ever(installed):
    _, runtime, calls = installed
    assert (runtime.cudaPeekAtLastError(), runtime.cudaGetLastError()) == ((0,), (0,))
    assert runtime.cudaSetDevice(1) == (101, None)
    assert [f() for f in (runtime.cudaPeekAtLastError, runtime.cudaPeekAtLastError)] == [(101, None)] * 2
    assert [runtime.cudaGetLastError()[0]] == [101]
    calls.device.error = 719
    assert [f()[0] for f in (runtime.cudaPeekAtLastError, runtime.cudaGetLastError, runtime.cudaGetLastError)] == [719] * 3


def test_memory_of_the_host_is_taken_from_what_has_a_buffer(installed):
    driver, _, calls = installed
    host = bytearray(16)
    driver.cuMemcpyDtoH(host, 4096, 16)
    [(_, to, source, *_)] = calls.calls
    assert source == 4096
    ctypes.memmove(to, b"written", 7)
    assert host[:7] == b"written"


# ---- The runtime library of CuTe DSL: the same calls, with results in memory

OUT, SIZE, NAME, RAISED = "out", "size", "name", "raised"  # places in memory, and a function of the caller
NOW = {
    OUT: ctypes.create_string_buffer(128), SIZE: (ctypes.c_uint64 * 1)(77), NAME: ctypes.create_string_buffer(b"kernel"),
    "dim": (ctypes.c_uint64 * 2)(64, 32), "strides": (ctypes.c_uint64 * 1)(128), "box": (ctypes.c_uint32 * 2)(8, 4), "steps": (ctypes.c_uint32 * 2)(1, 2),
}  # fmt: skip


def launch_config(grid, block, shared, stream, attributes=()):
    """(cudaLaunchConfig_t, its attributes: (kind, numbers))."""
    raw = b"".join(struct.pack("<I4x3I", kind, *numbers).ljust(72, b"\0") for kind, numbers in attributes)
    kept = ctypes.create_string_buffer(raw, max(len(raw), 1))
    config = struct.pack("<6IQQQI", *grid, *block, shared, stream, ctypes.addressof(kept), len(attributes))
    return ctypes.create_string_buffer(config, len(config)), kept


LAUNCHES = {
    "plain": launch_config((2, 3, 4), (32, 2, 1), 64, 8),
    "zeros": launch_config((2, 0, 0), (32, 0, 0), 0, 0),
    "others": launch_config((1, 1, 1), (32, 1, 1), 0, 0, [(4, (2, 1, 4)), (2, (1, 0, 0)), (1, (9, 9, 9)), (6, (1, 0, 0))]),
    "none": launch_config((1, 1, 1), (32, 1, 1), 0, 0, [(2, (0, 0, 0)), (6, (0, 0, 0))]),
}
MAP = bytes(range(128))
# (function, arguments, calls, what the first of them answers, what lies at OUT then)
ENTRIES = [
    ("_cuLibraryUnload", (20,), [("unload", 20)], 7, b""),
    ("_cudaLibraryGetKernel", (OUT, 20, NAME), [("function", 20, "kernel"), ("name_parameters", 5, ("a", "b"))], 5, struct.pack("<Q", 5)),
    ("_cuLibraryGetUnifiedFunction", (OUT, 20, NAME), [("function", 20, "kernel"), ("name_parameters", 5, ("a", "b"))], 5, struct.pack("<Q", 5)),
    ("_cuLibraryGetKernelCount", (OUT, 20), [("function_count", 20)], 3, struct.pack("<I", 3)),
    ("_cudaLibraryGetGlobal", (OUT, SIZE, 20, NAME), [("variable", 20, "kernel")], (4096, 16), struct.pack("<Q", 4096)),
    ("_cudaLibraryGetGlobal", (OUT, 0, 20, NAME), [("variable", 20, "kernel")], (4096, 16), struct.pack("<Q", 4096)),
    ("_cuKernelGetAttribute", (OUT, 1, 5, 0), [("function_attribute", 5, 1)], 48, struct.pack("<i", 48)),
    ("_cudaFuncSetAttribute", (5, 9, -2), [("set_function_attribute", 5, 9, BIG)], 7, b""),
    ("_cudaKernelSetAttributeForDevice", (5, 8, 65536, 0), [("set_function_attribute", 5, 8, 65536)], 7, b""),
    ("_cudaLaunchKernelEx", ("plain", 5, 4096), [("launch", 5, 2, 3, 4, 32, 2, 1, 0, 0, 0, 64, 8, False, False, b"bank 5 at 4096")], 7, b""),
    ("_cudaLaunchKernelEx", ("zeros", 5, 1), [("launch", 5, 2, 1, 1, 32, 1, 1, 0, 0, 0, 0, 0, False, False, b"bank 5 at 1")], 7, b""),
    ("_cudaLaunchKernelEx", ("others", 5, 1), [("launch", 5, 1, 1, 1, 32, 1, 1, 2, 1, 4, 0, 0, True, True, b"bank 5 at 1")], 7, b""),
    ("_cudaLaunchKernelEx", ("none", 5, 1), [("launch", 5, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0, 0, False, False, b"bank 5 at 1")], 7, b""),
    ("_cudaOccupancyMaxActiveBlocksPerMultiprocessor", (OUT, 5, 128, 64), [("occupancy", 5, 128, 64)], 3, struct.pack("<i", 3)),
    ("_cuTensorMapEncodeTiled", (OUT, 1, 2, 4096, "dim", "strides", "box", "steps", 3, 4, 5, 6),
     [("encode_tiled", 1, 2, 4096, struct.pack("<2Q", 64, 32), struct.pack("<Q", 128), struct.pack("<2I", 8, 4), struct.pack("<2I", 1, 2), 3, 4, 5, 6)], MAP, MAP),
    ("_cuTensorMapEncodeTiled", (OUT, 1, 1, 4096, "dim", 0, "box", "steps", 3, 4, 5, 6),
     [("encode_tiled", 1, 1, 4096, struct.pack("<Q", 64), b"", struct.pack("<I", 8), struct.pack("<I", 1), 3, 4, 5, 6)], MAP, MAP),
    ("_cudaGetDevice", (OUT,), [], 7, bytes(4)),
    ("_cuDeviceGet", (OUT, 0), [], 7, bytes(4)),
    ("_cudaGetDeviceCount", (OUT,), [], 7, struct.pack("<i", 1)),
    ("_cudaSetDevice", (0,), [], 7, b""),
    ("_cudaDeviceGetAttribute", (OUT, 75, 0), [("attribute", 75)], 9, struct.pack("<i", 9)),
    ("_cudaDeviceSynchronize", (), [("synchronize", 0)], 7, b""),
    ("_cudaMalloc", (OUT, 64), [("allocate", 64, "device", "")], 4096, struct.pack("<Q", 4096)),
    ("_cudaMallocAsync", (OUT, 64, 8), [("allocate_async", 64, "", 8)], 4096, struct.pack("<Q", 4096)),
    ("_cudaMallocHost", (OUT, 64), [("allocate", 64, "pinned", "")], 4096, struct.pack("<Q", 4096)),
    ("_cudaMallocManaged", (OUT, 64, 1), [("allocate", 64, "managed", "")], 4096, struct.pack("<Q", 4096)),
    ("_cudaFree", (4096,), [("free", 4096)], 7, b""),
    ("_cudaFreeHost", (4096,), [("free", 4096)], 7, b""),
    ("_cudaFreeAsync", (4096, 8), [("free_async", 4096, 8)], 7, b""),
    ("_cudaMemcpy", (1, 2, 3, 2), [("copy", 1, 2, 3, 2, 0)], 7, b""),
    ("_cudaMemcpyAsync", (1, 2, 3, 1, 8), [("copy", 1, 2, 3, 1, 8)], 7, b""),
    ("_cudaMemset", (1, 2, 3), [("fill", 1, 0, 2, 1, 3, 1, 0)], 7, b""),
    ("_cudaMemsetAsync", (1, 2, 3, 8), [("fill", 1, 0, 2, 1, 3, 1, 8)], 7, b""),
    ("_cudaStreamCreate", (OUT,), [("stream_create", 0, 0)], 8, struct.pack("<Q", 8)),
    ("_cudaStreamDestroy", (8,), [("stream_destroy", 8)], 7, b""),
    ("_cudaStreamSynchronize", (8,), [("synchronize", 8)], 7, b""),
    ("_cudaStreamWaitEvent", (8, 9, 0), [("stream_wait", 8, 9)], 7, b""),
    ("_cudaStreamAddCallback", (8, 100, 200, 0), [("call_back", 8, 100, 200)], 7, b""),
    ("_cudaStreamBeginCapture", (8, 1), [("capture_begin", 8, 1)], 7, b""),
    ("_cudaStreamEndCapture", (8, OUT), [("capture_end", 8)], 30, struct.pack("<Q", 30)),
    ("_cudaGraphInstantiate", (OUT, 30, 0), [("graph_instantiate", 30)], 31, struct.pack("<Q", 31)),
    ("_cudaGraphLaunch", (31, 8), [("graph_launch", 31, 8)], 7, b""),
    ("_cudaGraphDestroy", (30,), [("graph_destroy", 30)], 7, b""),
    ("_cudaGraphExecDestroy", (31,), [("graph_destroy", 31)], 7, b""),
    ("_cudaEventCreate", (OUT,), [("event_create", 0)], 9, struct.pack("<Q", 9)),
    ("_cudaEventDestroy", (9,), [("event_destroy", 9)], 7, b""),
    ("_cudaEventRecord", (9, 8), [("event_record", 9, 8)], 7, b""),
    ("_cudaEventElapsedTime", (OUT, 9, 10), [("event_elapsed", 9, 10)], 1500, struct.pack("<f", 1.5)),
    ("_cudaProfilerStart", (), [], 7, b""),
    ("cuda_dialect_assert_success", (1, 2), [], 7, b""),
]  # fmt: skip


@pytest.fixture
def library(monkeypatch):
    """(the functions of the runtime library as compiled code calls them, the session)."""
    calls, slots = Session(), {}

    class Slot:
        def __init__(self, name):
            self.name = name

        def __setattr__(self, key, value):
            if key == "value":
                slots[self.name] = value
            object.__setattr__(self, key, value)

    class Pointer(ctypes.c_void_p):
        @classmethod
        def in_dll(cls, _, name):
            return Slot(name.removeprefix("slot_"))

    own = types.SimpleNamespace(**vars(ctypes) | {"CDLL": lambda path: None})
    cast = ctypes.cast
    own.cast = lambda made, _: types.SimpleNamespace(value=cast(made, ctypes.c_void_p).value)
    own.c_void_p = Pointer
    monkeypatch.setattr(cutedsl, "ctypes", own)
    monkeypatch.setattr(cutedsl, "_kept", [])
    monkeypatch.setattr(cutedsl, "_names", {"kernel": ("a", "b")})
    monkeypatch.setattr(cutedsl, "session", lambda: calls)
    cutedsl._fill("library")
    kept = cutedsl._kept
    return {name: kind(at) for (name, at), kind in zip(slots.items(), map(type, kept), strict=True)}, calls


@pytest.mark.parametrize(
    ("name", "arguments", "expected", "answer", "left"), ENTRIES, ids=[f"{row[0]} {n}" for n, row in enumerate(ENTRIES)]
)
def test_compiled_host_code_gets_its_results_where_it_says(library, name, arguments, expected, answer, left):
    entries, calls = library
    if expected:
        calls.answers[expected[0][0]] = answer
    NOW[OUT].raw, NOW[SIZE][0] = b"\xee" * 128, 77
    places = {key: ctypes.addressof(at) for key, at in NOW.items()} | {
        key: ctypes.addressof(config) for key, (config, _) in LAUNCHES.items()
    }
    assert entries[name](*(places.get(one, one) for one in arguments)) == 0
    assert calls.calls == expected
    assert NOW[OUT].raw == left + b"\xee" * (128 - len(left))
    assert NOW[SIZE][0] == (16 if SIZE in arguments else 77)


def test_an_error_is_a_code_and_a_text_in_compiled_host_code(library):
    entries, calls = library
    calls.reason = ""
    assert entries["_cudaSetDevice"](1) == 101
    calls.answers["free"] = CudaError(1)
    assert entries["_cudaFree"](4096) == 1
    calls.answers["synchronize"] = ZeroDivisionError("no")
    assert entries["_cudaDeviceSynchronize"]() == 999
    assert calls.reason == "internal error in _cudaDeviceSynchronize"
    assert calls.told.pop().startswith(f"{calls.reason}, please report it:\nTraceback")
    name = [ctypes.string_at(entries["cuda_dialect_get_error_name"](code)) for code in (0, 719, 54321)]
    assert name == [b"cudaSuccess", b"cudaErrorLaunchFailure", b"cudaErrorUnknown"]
    entries["cuda_dialect_print_on_error"](0)
    assert calls.told == []
    entries["cuda_dialect_print_on_error"](719)
    calls.reason = ""
    entries["cuda_dialect_print_on_error"](719)
    entries["cuda_dialect_print_on_error"](54321)
    assert calls.told == [
        "CUDA error 719: internal error in _cudaDeviceSynchronize", "CUDA error 719: unspecified launch failure", "CUDA error 54321: unknown",
    ]  # fmt: skip


@pytest.mark.parametrize("reason", ["", "why"])
def test_an_exception_gets_the_kind_and_the_text_of_an_error(library, reason):
    entries, calls = library
    calls.reason, raised = reason, []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_int32)
    function = kind(lambda what, parts, count: raised.append((what, [parts[n] for n in range(count)])))
    for name in ("CuteDSLRT_TVMFFISetRaisedCudaError", "CuteDSLRT_TVMFFISetRaisedCudaLaunchError"):
        for code, said in ((719, "cudaErrorLaunchFailure: unspecified launch failure"), (54321, "CUDA error 54321: ")):
            entries[name](ctypes.cast(function, ctypes.c_void_p).value, code)
            what = f"{said.partition(':')[0]}: {reason}" if reason else said
            assert raised.pop() == (b"RuntimeError", [what.encode()])


@pytest.mark.parametrize(("load_code", "device_code", "code"), [(0, 0, 0), (0, 719, -1), (2, 0, -1)])
@pytest.mark.parametrize("tells", [True, False])
def test_a_library_is_loaded_once_and_brought_to_the_device(library, load_code, device_code, code, tells):
    entries, calls = library
    calls.reason, seen = "", []

    def load(at):
        ctypes.c_uint64.from_address(at).value = 20
        seen.append("load")
        return load_code

    load_kind, device_kind = (
        ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64),
        ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.c_int32),
    )
    functions = [
        load_kind(load),
        device_kind(lambda at, device: seen.append((ctypes.c_uint64.from_address(at).value, device)) or device_code),
        ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(lambda kind, text: seen.append((kind, text))),
    ]
    storage = ctypes.c_uint64()
    given = [
        ctypes.addressof(storage),
        *(ctypes.cast(f, ctypes.c_void_p).value for f in functions[: 3 if tells else 2]),
        *([] if tells else [0]),
    ]
    wanted = code if tells else load_code or device_code
    assert entries["cuda_dialect_init_library_once"](*given) == wanted
    steps = ["load", *([(20, 0)] if not load_code else [])]
    assert seen[: len(steps)] == steps
    assert [kind for kind, _ in seen[len(steps) :]] == [b"RuntimeError"] * bool(tells and code)
    assert storage.value == (0 if wanted else 20)
    if not wanted:
        assert entries["cuda_dialect_init_library_once"](*given) == 0
        assert seen == steps
        without = [given[0], given[1], 0, 0]
        storage.value = 0
        assert (entries["cuda_dialect_init_library_once"](*without), seen[len(steps) :]) == (0, ["load"])


PTX = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry kernel() { ret; }\n"


@pytest.mark.parametrize(
    ("written", "is_taken"),
    [
        (
            '.version 8.0\n.target sm_90a\n.file 1 "k.py"\n.address_size 64\n  .loc 1 3 0\n// a comment\n.visible  .entry kernel() { ret; }\n\n',
            True,
        ),
        (PTX.replace("ret;", "exit;"), False),
        (PTX.replace(" kernel", " other"), False),
    ],
)
def test_code_is_the_ptx_with_lines_that_has_its_instructions(library, written, is_taken, tmp_path, monkeypatch):
    entries, calls = library
    for prefix in cutedsl.PREFIXES:
        monkeypatch.setenv(f"{prefix}_DUMP_DIR", str(tmp_path))
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "k.ptx").write_text(written)
    code = ctypes.create_string_buffer(PTX.encode())
    calls.answers["load"] = 20
    assert entries["_cudaLibraryLoadData"](ctypes.addressof(NOW[OUT]), ctypes.addressof(code)) == 0
    [(_, text, *more)] = calls.calls
    assert (text.decode(), more) == (written if is_taken else PTX, ["", 0])
    assert struct.unpack_from("<Q", NOW[OUT].raw) == (20,)


def test_a_benchmark_runs_a_kernel_once(monkeypatch):
    testing = types.ModuleType("cutlass.testing")
    testing.benchmark = lambda *a, **named: (a, named)
    monkeypatch.setitem(sys.modules, "cutlass.testing", testing)
    monkeypatch.delitem(sys.modules, "cutlass.base_dsl.dsl", raising=False)
    cutedsl._after_import()
    once = testing.benchmark
    assert once("f", iterations=9, warmup_iterations=9, workspace_count=5) == (
        ("f",),
        {"iterations": 1, "warmup_iterations": 0, "workspace_count": 1},
    )
    assert once("f", workspace_generator=len, workspace_count=5)[1]["workspace_count"] == 2
    assert once("f", workspace_generator=len)[1]["workspace_count"] == 1
    cutedsl._after_import()
    assert testing.benchmark is once


def test_parameters_have_the_names_of_the_arguments_that_are_passed(monkeypatch):
    dsl = types.ModuleType("cutlass.base_dsl.dsl")
    dsl.extract_mlir_values = lambda value: [types.SimpleNamespace(type=kind) for kind in value]

    class BaseDSL:
        def generate_kernel_operands_and_types(self, function, name, signature, arguments, named, *more):
            return ("made", *more)

    dsl.BaseDSL = BaseDSL
    monkeypatch.setitem(sys.modules, "cutlass.base_dsl.dsl", dsl)
    monkeypatch.setattr(cutedsl, "_names", {})
    cutedsl._after_import()
    kinds = {"x": "Tensor", "n": "Int32", "flag": "cutlass.Constexpr", "pair": "tuple", "layout": "Layout", "scale": "Float32"}
    signature = types.SimpleNamespace(parameters={name: types.SimpleNamespace(annotation=kind) for name, kind in kinds.items()})
    arguments = [["!cute.memref<f16>"], 3, ["i32"], ["f32", "!cute.layout<1>", "!cute.ptr<f16>"], ["!cute.layout<1>"]]
    assert BaseDSL().generate_kernel_operands_and_types(None, "kernel", signature, arguments, {"scale": 1.5}, 7) == ("made", 7)
    assert cutedsl._names == {"kernel": ("x", "n", "pair[0]", "pair[2]", "scale")}
    assert BaseDSL().generate_kernel_operands_and_types(None, "odd", None, [], {}) == ("made",)
    assert list(cutedsl._names) == ["kernel"]
