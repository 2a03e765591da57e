"""The GPU through cuda-python: context, modules, memory, launches and the driver's tensor-map encoder."""

from __future__ import annotations

import ctypes
import datetime
import hashlib
import pathlib
import subprocess
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

HERE = pathlib.Path(__file__).resolve().parent


class CudaError(RuntimeError):
    def __init__(self, code: int, call: str) -> None:
        super().__init__(f"{call}: CUDA error {code}")
        self.code = code


def check(result: tuple[Any, ...], call: str = "") -> Any:
    if int(result[0]) != 0:
        raise CudaError(int(result[0]), call)
    return result[1] if len(result) == 2 else result[1:]


class Device:
    def __init__(self) -> None:
        check(cu.cuInit(0), "cuInit")
        self.device = check(cu.cuDeviceGet(0), "cuDeviceGet")
        self.context = check(cu.cuDevicePrimaryCtxRetain(self.device), "cuDevicePrimaryCtxRetain")
        check(cu.cuCtxSetCurrent(self.context), "cuCtxSetCurrent")

    def describe(self) -> dict[str, str]:
        """What a manifest says about the card and its software."""

        def attribute(name: str) -> int:
            return int(check(cu.cuDeviceGetAttribute(getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), self.device)))

        name = check(cu.cuDeviceGetName(128, self.device), "cuDeviceGetName")
        version = int(check(cu.cuDriverGetVersion()))
        smi = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=False
        )
        nvcc = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
        return {
            "gpu": name.split(b"\0")[0].decode().strip(),
            "compute_capability": f"{attribute('COMPUTE_CAPABILITY_MAJOR')}.{attribute('COMPUTE_CAPABILITY_MINOR')}",
            "driver": smi.stdout.strip(),
            "cuda_driver_api": f"{version // 1000}.{version % 1000 // 10}",
            "nvcc": next((line.split("V")[-1] for line in nvcc.splitlines() if "release" in line), "unknown"),
            "captured_utc": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def module(self, path: pathlib.Path) -> Any:
        return check(cu.cuModuleLoadData(path.read_bytes()), f"cuModuleLoadData {path.name}")

    def function(self, module: Any, name: str, shared_bytes: int) -> Any:
        function = check(cu.cuModuleGetFunction(module, name.encode()), name)
        attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check(cu.cuFuncSetAttribute(function, attribute, shared_bytes), name)
        return function

    def array(self, data: np.ndarray) -> Buffer:
        buffer = Buffer(data.nbytes)
        buffer.write(data)
        return buffer

    def launch(self, function: Any, grid: int | tuple[int, int], shared_bytes: int, *args: Any, threads: int = 128) -> None:
        """Launch and wait. Buffers pass their address, integers an unsigned 32-bit value."""
        values = tuple(a.address if isinstance(a, (Buffer, At)) else a for a in args)
        types = tuple(ctypes.c_void_p if isinstance(a, (Buffer, At)) else ctypes.c_uint for a in args)
        x, y = grid if isinstance(grid, tuple) else (grid, 1)
        check(cu.cuLaunchKernel(function, x, y, 1, threads, 1, 1, shared_bytes, 0, (values, types), 0), "cuLaunchKernel")
        check(cu.cuCtxSynchronize(), "cuCtxSynchronize")


class At:
    """A place inside a buffer, as an argument of a kernel."""

    def __init__(self, address: int) -> None:
        self.address = address


def copy_to(address: int, data: bytes) -> None:
    source = np.frombuffer(data, np.uint8)
    check(cu.cuMemcpyHtoD(address, source.ctypes.data, len(data)), "cuMemcpyHtoD")


class Buffer:
    """Device memory that lives as long as the object."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.address = int(check(cu.cuMemAlloc(max(size, 16)), "cuMemAlloc"))

    def __del__(self) -> None:
        cu.cuMemFree(self.address)

    def write(self, data: np.ndarray) -> None:
        data = np.ascontiguousarray(data)
        check(cu.cuMemcpyHtoD(self.address, data.ctypes.data, data.nbytes), "cuMemcpyHtoD")

    def fill(self, byte: int) -> None:
        check(cu.cuMemsetD8(self.address, byte, self.size), "cuMemsetD8")

    def read(self, dtype: Any = np.uint8) -> np.ndarray:
        out = np.empty(self.size // np.dtype(dtype).itemsize, dtype)
        check(cu.cuMemcpyDtoH(out.ctypes.data, self.address, out.nbytes), "cuMemcpyDtoH")
        return out


def encode_tiled(arguments: dict[str, Any], global_address: int) -> bytes:
    """cuTensorMapEncodeTiled: the 128 bytes, or CudaError."""
    a = arguments
    u32, u64 = cu.cuuint32_t, cu.cuuint64_t
    made = cu.cuTensorMapEncodeTiled(
        cu.CUtensorMapDataType(a["data_type"]),
        len(a["global_dim"]),
        global_address,
        [u64(x) for x in a["global_dim"]],
        [u64(x) for x in a["global_strides"]] or [u64(0)],
        [u32(x) for x in a["box_dim"]],
        [u32(x) for x in a["element_strides"]],
        cu.CUtensorMapInterleave(a.get("interleave", 0)),
        cu.CUtensorMapSwizzle(a["swizzle"]),
        cu.CUtensorMapL2promotion(a.get("l2_promotion", 0)),
        cu.CUtensorMapFloatOOBfill(a.get("oob_fill", 0)),
    )
    tensor_map = check(made, "cuTensorMapEncodeTiled")
    return ctypes.string_at(tensor_map.getPtr(), 128)


def encode_verdict(arguments: dict[str, Any]) -> tuple[int, bytes]:
    """(CUresult, 128 bytes) of either encode call on arguments that no binding would let through: codes and ranks out of range."""
    a, library = arguments, ctypes.CDLL("libcuda.so.1")
    rank = len(a["global_dim"])

    def array(kind: Any, values: list[int]) -> Any:
        return (kind * 8)(*[v & (1 << 8 * ctypes.sizeof(kind)) - 1 for v in values])

    head = (
        a["data_type"],
        rank,
        ctypes.c_void_p(a["global_address"]),
        array(ctypes.c_uint64, a["global_dim"]),
        array(ctypes.c_uint64, a["global_strides"]),
    )
    steps = array(ctypes.c_uint32, a["element_strides"])
    tail = (a["interleave"], a["swizzle"], a["l2_promotion"], a["oob_fill"])
    storage = ctypes.create_string_buffer(256)
    at = ctypes.addressof(storage) + -ctypes.addressof(storage) % 128
    if "box_dim" in a:
        code = library.cuTensorMapEncodeTiled(ctypes.c_void_p(at), *head, array(ctypes.c_uint32, a["box_dim"]), steps, *tail)
    else:
        corners = (array(ctypes.c_int32, a["pixel_box_lower_corner"]), array(ctypes.c_int32, a["pixel_box_upper_corner"]))
        sizes = (ctypes.c_uint32(a["channels_per_pixel"]), ctypes.c_uint32(a["pixels_per_column"]))
        code = library.cuTensorMapEncodeIm2col(ctypes.c_void_p(at), *head, *corners, *sizes, steps, *tail)
    return code, ctypes.string_at(at, 128) if code == 0 else bytes(128)


def encode(arguments: dict[str, Any], global_address: int) -> bytes:
    """The 128 bytes of either encode call, or CudaError."""
    code, raw = encode_verdict({**arguments, "global_address": global_address})
    if code:
        raise CudaError(code, f"cuTensorMapEncode of {arguments}")
    return raw


def build(name: str, text: str, arch: str) -> pathlib.Path:
    """Compile CUDA C++ to a cubin, once for each text and compiler."""
    folder = HERE / "build"
    folder.mkdir(exist_ok=True)
    headers = "".join(p.read_text() for p in sorted(HERE.glob("*.cuh")))
    digest = hashlib.sha256((arch + text + headers).encode()).hexdigest()
    cubin = folder / f"{name}-{digest[:16]}.cubin"
    if not cubin.exists():
        source = folder / f"{name}.cu"
        source.write_text(text)
        code = f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}"
        subprocess.run(["nvcc", "-cubin", code, "-I", str(HERE), "-o", str(cubin), str(source)], check=True)
    return cubin
