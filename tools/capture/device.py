"""The GPU of `smemsim.testing` as probe kernels use it: buffers, launches with 32-bit numbers; every answer of the driver's tensor-map encoder; nvcc."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import pathlib
import subprocess
from typing import Any

import numpy as np

from smemsim.program.launch import LaunchConfig
from smemsim.testing.recorder import CudaError, CudaKernel, CudaModule, Gpu

__all__ = ["At", "Buffer", "CudaError", "Device", "build", "card", "copy_to", "encode", "encode_tiled", "encode_verdict"]

HERE = pathlib.Path(__file__).resolve().parent


@functools.cache
def card() -> Gpu:
    """The card of this process."""
    return Gpu()


class Device:
    """The card of this process; a trap is a CudaError."""

    def __init__(self) -> None:
        self.gpu = card()

    def describe(self) -> dict[str, str]:
        """What a manifest says about the card and its software."""
        nvcc = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
        return self.gpu.describe() | {"nvcc": next((line.split("V")[-1] for line in nvcc.splitlines() if "release" in line), "unknown")}

    def module(self, path: pathlib.Path) -> CudaModule:
        return self.gpu.load(path.read_bytes())

    def array(self, data: np.ndarray) -> Buffer:
        buffer = Buffer(data.nbytes)
        buffer.write(data)
        return buffer

    def launch(
        self,
        function: CudaKernel,
        grid: int | tuple[int, int],
        shared_bytes: int,
        *args: Any,
        threads: int = 128,
        cluster: int | None = None,
    ) -> None:
        """Launch and wait. Buffers pass their address, integers an unsigned 32-bit value."""
        passed = tuple(
            a.address.to_bytes(8, "little") if isinstance(a, (Buffer, At)) else (int(a) & 0xFFFFFFFF).to_bytes(4, "little") for a in args
        )
        code = self.gpu.execute(function, LaunchConfig(grid=grid, block=threads, cluster=cluster, shared_bytes=shared_bytes, args=passed))
        if code:
            raise CudaError(code, function.name)


class At:
    """A place inside a buffer, as an argument of a kernel."""

    def __init__(self, address: int) -> None:
        self.address = address


def copy_to(address: int, data: bytes) -> None:
    card().put(address, np.frombuffer(data, np.uint8))


class Buffer:
    """Device memory that lives as long as the object."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.address = card().allocate(max(size, 16))

    def __del__(self) -> None:
        card().free(self.address)

    def write(self, data: np.ndarray) -> None:
        card().put(self.address, data)

    def fill(self, byte: int) -> None:
        card().put(self.address, np.full(self.size, byte, np.uint8))

    def read(self, dtype: Any = np.uint8) -> np.ndarray:
        itemsize = np.dtype(dtype).itemsize
        return card().get(self.address, self.size // itemsize * itemsize).view(dtype)


def encode_tiled(arguments: dict[str, Any], global_address: int) -> bytes:
    """cuTensorMapEncodeTiled: the 128 bytes, or CudaError. What is left out is 0."""
    return encode({"interleave": 0, "l2_promotion": 0, "oob_fill": 0} | arguments, global_address)


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
