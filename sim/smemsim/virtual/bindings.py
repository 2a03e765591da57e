"""`cuda.bindings` in a process that has the device: its driver and runtime functions are answered by `local.session()`.

The classes, enumerations and constants of cuda.bindings stay NVIDIA's. A function that is not answered here returns
error 801, and its name is printed.
"""

from __future__ import annotations

import ctypes
import importlib
import struct
from collections.abc import Callable
from typing import Any

from smemsim.core.spec.cuda_errors import CUDA_CODES
from smemsim.virtual import fatbin
from smemsim.virtual.errors import INVALID_DEVICE, NOT_SUPPORTED, CudaError
from smemsim.virtual.local import LocalSession, session

__all__ = ["install"]


CURRENT = 1  # the handle of the one context
DEFAULT_KIND = 4  # cudaMemcpyDefault


def _bytes(code: Any) -> bytes:
    """Code as a program hands it over: bytes, or an address."""
    if isinstance(code, (bytes, bytearray, memoryview)):
        return bytes(code)
    return fatbin.at_address(int(code))


class _Both:
    """The common part of driver and runtime. Methods return the results of a call, None for none."""

    prefix = ""

    def __init__(self, module: Any) -> None:
        self.module = module

    @property
    def session(self) -> LocalSession:
        return session()

    def made(self, kind: str, handle: int) -> Any:
        """A handle as an object of cuda.bindings."""
        return getattr(self.module, kind)(handle)

    def device_attribute(self, what: Any, *_: Any) -> int:
        return int(self.session.call("attribute", int(what)))

    def allocated(self, size: int, kind: str) -> int:
        return int(self.session.call("allocate", int(size), kind, ""))

    def copied(self, to: Any, source: Any, size: int, kind: int = DEFAULT_KIND, stream: Any = 0) -> None:
        self.session.call("copy", _address(to), _address(source), int(size), int(kind), int(stream))

    def filled(self, to: Any, value: int, width: int, count: int, stream: Any = 0) -> None:
        self.session.call("fill", _address(to), 0, int(value), width, int(count), 1, int(stream))

    def nodes(self, graph: Any, count: int) -> tuple[list[int], int]:
        found, raw = self.session.call("graph_nodes", int(graph), int(count))
        return [handle for (handle,) in struct.iter_unpack("<Q", raw)], found


def _address(place: Any) -> int:
    """An address as cuda.bindings takes it: a number, a handle, or what has a buffer."""
    if hasattr(place, "__int__"):
        return int(place)
    return ctypes.addressof(ctypes.c_char.from_buffer(place))


class _Driver(_Both):
    """The driver API."""

    def cuInit(self, flags: Any) -> None: ...
    def cuDriverGetVersion(self) -> int:
        return self.session.device.driver_version

    def cuDeviceGetCount(self) -> int:
        return 1

    def cuDeviceGet(self, ordinal: int) -> Any:
        if int(ordinal):
            raise CudaError(INVALID_DEVICE, f"device {ordinal}: there is one, device 0")
        return self.made("CUdevice", 0)

    def cuDeviceGetName(self, length: int, device: Any) -> bytes:
        return self.session.device.card.name.encode()[: length - 1].ljust(length, b"\0")

    def cuDeviceGetUuid(self, device: Any) -> Any:
        return self.session.device.uuid

    def cuDeviceTotalMem(self, device: Any) -> int:
        return self.session.device.memory_bytes

    def cuDeviceGetAttribute(self, what: Any, device: Any) -> int:
        return self.device_attribute(what)

    def cuDevicePrimaryCtxRetain(self, device: Any) -> Any:
        return self.made("CUcontext", CURRENT)

    def cuDevicePrimaryCtxRelease(self, device: Any) -> None: ...
    def cuDevicePrimaryCtxGetState(self, device: Any) -> tuple[int, int]:
        return 0, 1

    def cuCtxCreate(self, *_: Any) -> Any:
        return self.made("CUcontext", CURRENT)

    def cuCtxDestroy(self, context: Any) -> None: ...
    def cuCtxSetCurrent(self, context: Any) -> None: ...
    def cuCtxPushCurrent(self, context: Any) -> None: ...
    def cuCtxPopCurrent(self) -> Any:
        return self.made("CUcontext", CURRENT)

    def cuCtxGetCurrent(self) -> Any:
        return self.made("CUcontext", CURRENT)

    def cuCtxGetDevice(self, *_: Any) -> Any:
        return self.made("CUdevice", 0)

    def cuCtxSynchronize(self, *_: Any) -> None:
        self.session.call("synchronize", 0)

    def cuMemGetInfo(self) -> tuple[int, int]:
        free, total = self.session.call("memory_info")
        return free, total

    def cuMemAlloc(self, size: int) -> Any:
        return self.made("CUdeviceptr", self.allocated(size, "device"))

    def cuMemAllocAsync(self, size: int, stream: Any) -> Any:
        return self.cuMemAlloc(size)

    def cuMemAllocManaged(self, size: int, flags: Any) -> Any:
        return self.made("CUdeviceptr", self.allocated(size, "managed"))

    def cuMemAllocHost(self, size: int) -> int:
        return self.allocated(size, "pinned")

    def cuMemHostAlloc(self, size: int, flags: Any) -> int:
        return self.allocated(size, "pinned")

    def cuMemFree(self, address: Any) -> None:
        self.session.call("free", _address(address))

    def cuMemFreeAsync(self, address: Any, stream: Any) -> None:
        self.session.call("free_async", _address(address), int(stream))

    cuMemFreeHost = cuMemFree

    def cuMemcpy(self, to: Any, source: Any, size: int) -> None:
        self.copied(to, source, size)

    def cuMemcpyAsync(self, to: Any, source: Any, size: int, stream: Any) -> None:
        self.copied(to, source, size, stream=stream)

    cuMemcpyHtoD = cuMemcpyDtoH = cuMemcpyDtoD = cuMemcpy
    cuMemcpyHtoDAsync = cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = cuMemcpyAsync

    def cuMemsetD8(self, to: Any, value: int, count: int) -> None:
        self.filled(to, value, 1, count)

    def cuMemsetD16(self, to: Any, value: int, count: int) -> None:
        self.filled(to, value, 2, count)

    def cuMemsetD32(self, to: Any, value: int, count: int) -> None:
        self.filled(to, value, 4, count)

    def cuMemsetD8Async(self, to: Any, value: int, count: int, stream: Any) -> None:
        self.filled(to, value, 1, count, stream)

    def cuMemsetD16Async(self, to: Any, value: int, count: int, stream: Any) -> None:
        self.filled(to, value, 2, count, stream)

    def cuMemsetD32Async(self, to: Any, value: int, count: int, stream: Any) -> None:
        self.filled(to, value, 4, count, stream)

    def cuStreamCreate(self, flags: Any) -> Any:
        return self.made("CUstream", self.session.call("stream_create", int(flags), 0))

    def cuStreamCreateWithPriority(self, flags: Any, priority: int) -> Any:
        return self.made("CUstream", self.session.call("stream_create", int(flags), int(priority) & (1 << 64) - 1))

    def cuStreamDestroy(self, stream: Any) -> None:
        self.session.call("stream_destroy", int(stream))

    def cuStreamSynchronize(self, stream: Any) -> None:
        self.session.call("synchronize", int(stream))

    cuStreamQuery = cuStreamSynchronize

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: Any = 0) -> None:
        self.session.call("stream_wait", int(stream), int(event))

    def cuStreamGetCtx(self, stream: Any) -> Any:
        return self.made("CUcontext", CURRENT)

    def cuEventCreate(self, flags: Any) -> Any:
        return self.made("CUevent", self.session.call("event_create", int(flags)))

    def cuEventRecord(self, event: Any, stream: Any) -> None:
        self.session.call("event_record", int(event), int(stream))

    def cuEventSynchronize(self, event: Any) -> None:
        self.session.call("event_synchronize", int(event))

    cuEventQuery = cuEventSynchronize

    def cuEventElapsedTime(self, begin: Any, end: Any) -> float:
        return float(self.session.call("event_elapsed", int(begin), int(end))) / 1000

    def cuEventDestroy(self, event: Any) -> None:
        self.session.call("event_destroy", int(event))

    def cuModuleLoadData(self, image: Any) -> Any:
        return self.made("CUmodule", self.session.call("load", _bytes(image), "", 0))

    def cuModuleUnload(self, module: Any) -> None:
        self.session.call("unload", int(module))

    def cuModuleGetFunction(self, module: Any, name: bytes) -> Any:
        return self.made("CUfunction", self.session.call("function", int(module), name.decode()))

    def cuModuleGetGlobal(self, module: Any, name: bytes) -> tuple[Any, int]:
        address, size = self.session.call("variable", int(module), name.decode())
        return self.made("CUdeviceptr", address), size

    def cuLibraryLoadData(self, code: Any, *_: Any) -> Any:
        return self.made("CUlibrary", self.session.call("load", _bytes(code), "", 0))

    def cuLibraryUnload(self, library: Any) -> None:
        self.session.call("unload", int(library))

    def cuLibraryGetKernel(self, library: Any, name: bytes) -> Any:
        return self.made("CUkernel", self.session.call("function", int(library), name.decode()))

    def cuLibraryGetKernelCount(self, library: Any) -> int:
        return int(self.session.call("function_count", int(library)))

    def cuLibraryEnumerateKernels(self, count: int, library: Any) -> list[Any]:
        raw = self.session.call("functions", int(library), int(count))
        return [self.made("CUkernel", handle) for (handle,) in struct.iter_unpack("<Q", raw)]

    def cuLibraryGetGlobal(self, library: Any, name: bytes) -> tuple[Any, int]:
        return self.cuModuleGetGlobal(library, name)

    def cuKernelGetFunction(self, kernel: Any) -> Any:
        return self.made("CUfunction", int(kernel))

    def cuFuncGetAttribute(self, what: Any, function: Any) -> int:
        return int(self.session.call("function_attribute", int(function), int(what)))

    def cuKernelGetAttribute(self, what: Any, kernel: Any, device: Any) -> int:
        return self.cuFuncGetAttribute(what, kernel)

    def cuFuncSetAttribute(self, function: Any, what: Any, value: int) -> None:
        self.session.call("set_function_attribute", int(function), int(what), int(value) & (1 << 64) - 1)

    def cuKernelSetAttribute(self, what: Any, value: int, kernel: Any, device: Any) -> None:
        self.cuFuncSetAttribute(kernel, what, value)

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function: Any, threads: int, shared: int) -> int:
        return int(self.session.call("occupancy", int(function), int(threads), int(shared)))

    def cuOccupancyAvailableDynamicSMemPerBlock(self, function: Any, blocks: int, threads: int) -> int:
        return int(self.session.call("available_shared", int(function), int(blocks), int(threads)))

    def cuOccupancyMaxActiveClusters(self, function: Any, config: Any) -> int:
        cluster = (0, 0, 0)
        for attribute in list(config.attrs or [])[: config.numAttrs]:
            if int(attribute.id) == 4:
                dim = attribute.value.clusterDim
                cluster = (dim.x, dim.y, dim.z)
        threads = config.blockDimX * config.blockDimY * config.blockDimZ
        return int(self.session.call("clusters", int(function), threads, config.sharedMemBytes, *cluster))

    def cuLaunchKernel(self, function: Any, *given: Any) -> None:
        gx, gy, gz, bx, by, bz, shared, stream, arguments, *_ = given
        f = self.session.function_of(int(function))
        bank = _bank(f, arguments, int(function), self.session)
        self.session.call("launch", int(function), gx, gy, gz, bx, by, bz, 0, 0, 0, shared, int(stream or 0), 0, 0, bank)

    def cuGetErrorName(self, error: Any) -> bytes:
        known = CUDA_CODES.get(int(error))
        return (known.driver if known else "unknown error").encode()

    def cuGetErrorString(self, error: Any) -> bytes:
        known = CUDA_CODES.get(int(error))
        return (known.text if known else "unknown error").encode()


def _bank(function: Any, arguments: Any, handle: int, calls: LocalSession) -> bytes:
    """The parameter bank, from what cuda.bindings takes: an address, or (values, ctypes types)."""
    if not isinstance(arguments, tuple):
        return calls.bank(handle, int(arguments or 0))
    out = bytearray(max((p.offset + p.size for p in function.parameters), default=0))
    for p, value, kind in zip(function.parameters, *arguments, strict=True):
        raw = int(value).to_bytes(8, "little") if kind is None else bytes(kind(getattr(value, "value", value)))
        out[p.offset : p.offset + p.size] = raw[: p.size]
    return bytes(out)


class _Runtime(_Both):
    """The runtime API."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.last = 0

    def cudaRuntimeGetVersion(self) -> int:
        return self.session.device.driver_version

    cudaDriverGetVersion = cudaRuntimeGetVersion

    def cudaGetDevice(self) -> int:
        return 0

    def cudaGetDeviceCount(self) -> int:
        return 1

    def cudaSetDevice(self, ordinal: int) -> None:
        if int(ordinal):
            raise CudaError(INVALID_DEVICE, f"device {ordinal}: there is one, device 0")

    def cudaInitDevice(self, *_: Any) -> None: ...
    def cudaFuncSetAttribute(self, function: Any, what: Any, value: int) -> None:
        self.session.call("set_function_attribute", int(function), int(what), int(value) & (1 << 64) - 1)

    def cudaDeviceGetAttribute(self, what: Any, device: Any) -> int:
        return self.device_attribute(what)

    def cudaDeviceSynchronize(self) -> None:
        self.session.call("synchronize", 0)

    def cudaMemGetInfo(self) -> tuple[int, int]:
        free, total = self.session.call("memory_info")
        return free, total

    def cudaMalloc(self, size: int) -> int:
        return self.allocated(size, "device")

    def cudaMallocAsync(self, size: int, stream: Any) -> int:
        return self.allocated(size, "device")

    def cudaMallocManaged(self, size: int, flags: Any) -> int:
        return self.allocated(size, "managed")

    def cudaMallocHost(self, size: int) -> int:
        return self.allocated(size, "pinned")

    def cudaHostAlloc(self, size: int, flags: Any) -> int:
        return self.allocated(size, "pinned")

    def cudaFree(self, address: Any) -> None:
        self.session.call("free", _address(address))

    cudaFreeHost = cudaFree

    def cudaFreeAsync(self, address: Any, stream: Any) -> None:
        self.session.call("free_async", _address(address), int(stream))

    def cudaMemcpy(self, to: Any, source: Any, size: int, kind: Any) -> None:
        self.copied(to, source, size, kind)

    def cudaMemcpyAsync(self, to: Any, source: Any, size: int, kind: Any, stream: Any) -> None:
        self.copied(to, source, size, kind, stream)

    def cudaMemset(self, to: Any, value: int, count: int) -> None:
        self.filled(to, value, 1, count)

    def cudaMemsetAsync(self, to: Any, value: int, count: int, stream: Any) -> None:
        self.filled(to, value, 1, count, stream)

    def cudaStreamCreate(self) -> Any:
        return self.made("cudaStream_t", self.session.call("stream_create", 0, 0))

    def cudaStreamCreateWithFlags(self, flags: Any) -> Any:
        return self.made("cudaStream_t", self.session.call("stream_create", int(flags), 0))

    def cudaStreamCreateWithPriority(self, flags: Any, priority: int) -> Any:
        return self.made("cudaStream_t", self.session.call("stream_create", int(flags), int(priority) & (1 << 64) - 1))

    def cudaStreamDestroy(self, stream: Any) -> None:
        self.session.call("stream_destroy", int(stream))

    def cudaStreamSynchronize(self, stream: Any) -> None:
        self.session.call("synchronize", int(stream))

    def cudaStreamWaitEvent(self, stream: Any, event: Any, flags: Any = 0) -> None:
        self.session.call("stream_wait", int(stream), int(event))

    def cudaStreamBeginCapture(self, stream: Any, mode: Any) -> None:
        self.session.call("capture_begin", int(stream), int(mode))

    def cudaStreamEndCapture(self, stream: Any) -> Any:
        return self.made("cudaGraph_t", self.session.call("capture_end", int(stream)))

    def cudaGraphGetNodes(self, graph: Any, count: int = 0) -> tuple[list[Any], int]:
        nodes, found = self.nodes(graph, count)
        return [self.made("cudaGraphNode_t", node) for node in nodes], found

    def cudaGraphInstantiate(self, graph: Any, flags: Any = 0) -> Any:
        return self.made("cudaGraphExec_t", self.session.call("graph_instantiate", int(graph)))

    def cudaGraphLaunch(self, graph: Any, stream: Any) -> None:
        self.session.call("graph_launch", int(graph), int(stream))

    def cudaGraphDestroy(self, graph: Any) -> None:
        self.session.call("graph_destroy", int(graph))

    cudaGraphExecDestroy = cudaGraphDestroy

    def cudaEventCreate(self) -> Any:
        return self.made("cudaEvent_t", self.session.call("event_create", 0))

    def cudaEventCreateWithFlags(self, flags: Any) -> Any:
        return self.made("cudaEvent_t", self.session.call("event_create", int(flags)))

    def cudaEventRecord(self, event: Any, stream: Any) -> None:
        self.session.call("event_record", int(event), int(stream))

    def cudaEventSynchronize(self, event: Any) -> None:
        self.session.call("event_synchronize", int(event))

    cudaEventQuery = cudaEventSynchronize

    def cudaEventElapsedTime(self, begin: Any, end: Any) -> float:
        return float(self.session.call("event_elapsed", int(begin), int(end))) / 1000

    def cudaEventDestroy(self, event: Any) -> None:
        self.session.call("event_destroy", int(event))

    def cudaLibraryLoadData(self, code: Any, *_: Any) -> Any:
        return self.made("cudaLibrary_t", self.session.call("load", _bytes(code), "", 0))

    def cudaLibraryUnload(self, library: Any) -> None:
        self.session.call("unload", int(library))

    def cudaLibraryGetKernel(self, library: Any, name: bytes) -> Any:
        return self.made("cudaKernel_t", self.session.call("function", int(library), name.decode()))

    def cudaGetLastError(self) -> None:
        self.last, last = 0, self.last
        if self.session.device.error or last:
            raise CudaError(self.session.device.error or last)

    def cudaPeekAtLastError(self) -> None:
        if self.session.device.error or self.last:
            raise CudaError(self.session.device.error or self.last)

    def cudaGetErrorName(self, error: Any) -> bytes:
        known = CUDA_CODES.get(int(error))
        return ((known.runtime or known.driver) if known else "unknown error").encode()

    def cudaGetErrorString(self, error: Any) -> bytes:
        known = CUDA_CODES.get(int(error))
        return (known.text if known else "unknown error").encode()

    def cudaProfilerStart(self) -> None: ...
    def cudaProfilerStop(self) -> None: ...


def _answered(api: _Both, name: str, codes: Any) -> Callable[..., tuple[Any, ...]]:
    """A function as cuda.bindings has it: (code, results...)."""
    method = getattr(api, name, None)

    def answer(*arguments: Any, **named: Any) -> tuple[Any, ...]:
        if method is None:
            api.session.device.tell(f"cuda.bindings: the program calls {name}, which the virtual GPU does not answer")
            return (codes(NOT_SUPPORTED), *[None] * 2)
        try:
            found = method(*arguments, **named)
        except CudaError as e:
            if isinstance(api, _Runtime):
                api.last = e.code
            return (codes(e.code), None)
        return (codes(0), *(found if isinstance(found, tuple) else () if found is None else (found,)))

    answer.__name__ = name
    return answer


def install() -> None:
    """Replace `cuda.bindings.driver` and `cuda.bindings.runtime` in this process, if they are installed."""
    for name, api, codes, prefix in (("driver", _Driver, "CUresult", "cu"), ("runtime", _Runtime, "cudaError_t", "cuda")):
        try:
            module = importlib.import_module(f"cuda.bindings.{name}")
        except ImportError:
            continue
        made = api(module)
        for entry in dir(module):
            value = getattr(module, entry)
            if entry.startswith(prefix) and callable(value) and not isinstance(value, type):
                setattr(module, entry, _answered(made, entry, getattr(module, codes)))
