"""The GPU through cuda-python: context, modules, memory, launches and the driver's tensor-map encoder."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from smemsim.capture import kernels
from smemsim.run.engine.launch import LaunchConfig
from smemsim.testing.recorder import CudaError, CudaKernel, Gpu


def check(result: tuple[Any, ...], call: str = "") -> Any:
    """The result of a call of the driver. CudaError if it refuses."""
    if int(result[0]) != 0:
        raise CudaError(int(result[0]), call)
    return result[1] if len(result) == 2 else result[1:]


class Device(Gpu):
    """The card of `smemsim.testing.recorder`, launched with buffers and numbers; a trap is an error."""

    def describe(self) -> dict[str, str]:
        """The card in a manifest, with its software and the compiler of the kernels."""
        return {**super().describe(), "nvcc": kernels.compiler(self.arch)}

    def array(self, data: np.ndarray) -> Buffer:
        buffer = Buffer(data.nbytes)
        buffer.write(data)
        return buffer

    def launch(
        self, kernel: CudaKernel, grid: int | tuple[int, int], shared_bytes: int, *args: Any, threads: int = 128, cluster: int = 1
    ) -> None:
        """Launch and wait. Buffers pass their address, integers an unsigned 32-bit value."""
        held = [
            a.address.to_bytes(8, "little") if isinstance(a, (Buffer, At)) else (int(a) & 0xFFFFFFFF).to_bytes(4, "little") for a in args
        ]
        code = self.execute(
            kernel, LaunchConfig(grid=grid, block=threads, cluster=None if cluster == 1 else cluster, shared_bytes=shared_bytes, args=held)
        )
        if code:
            raise CudaError(code, "cuCtxSynchronize")


class At:
    """A place inside a buffer, as an argument of a kernel."""

    def __init__(self, address: int) -> None:
        self.address = address


def copy_to(address: int, data: bytes) -> None:
    """Copy bytes to an address of global memory."""
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


def encode_verdict(arguments: dict[str, Any]) -> tuple[int, bytes]:
    """(CUresult, 128 bytes) of either encode call on arguments that no binding would let through: codes and ranks out
    of range.
    """
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
    """The 128 bytes of either encode call, or CudaError; what is not said of interleave, promotion and fill is 0."""
    code, raw = encode_verdict({"interleave": 0, "l2_promotion": 0, "oob_fill": 0, **arguments, "global_address": global_address})
    if code:
        raise CudaError(code, f"cuTensorMapEncode of {arguments}")
    return raw
