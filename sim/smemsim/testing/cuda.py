"""The GPU through cuda-bindings: one device, its memory, kernels and the driver's tensor-map encoder. Imported only where a GPU is used."""

from __future__ import annotations

import ctypes
import datetime
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import InputError, SmemsimError
from smemsim.spec.architectures import ARCHITECTURES

__all__ = ["CudaError", "Gpu", "compile_cuda", "why_no_gpu"]

TRAPS = (700, 715, 716, 717, 718, 719)  # driver errors that a kernel ends its context with: addresses, instructions, launch failure


class CudaError(SmemsimError):
    """The driver refused a call; `code` is its error."""

    def __init__(self, code: int, call: str) -> None:
        super().__init__(f"{call}: CUDA error {code}; compare the arguments with the CUDA driver API's page of that call")
        self.code = code


def _driver() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError:
        raise InputError("recording needs cuda-bindings: install smemsim[cuda]") from None
    return driver


def _ok(result: tuple[Any, ...], call: str) -> Any:
    if int(result[0]):
        raise CudaError(int(result[0]), call)
    return result[1] if len(result) == 2 else result[1:]


def why_no_gpu() -> str:
    """Why nothing can be recorded here; empty where a GPU that smemsim models is present.

    >>> isinstance(why_no_gpu(), str)
    True
    """
    try:
        cu = _driver()
        _ok(cu.cuInit(0), "cuInit")
        count = int(_ok(cu.cuDeviceGetCount(), "cuDeviceGetCount"))
    except InputError as e:
        return str(e)
    except Exception as e:  # no libcuda, no driver, no permission: whatever the bindings make of it
        return f"no CUDA driver answers here ({' '.join(str(e).split())[:120]})"
    if not count:
        return "the CUDA driver sees no GPU here"
    try:
        Gpu()
    except SmemsimError as e:
        return str(e)
    return ""


class Gpu:
    """One device, its primary context current; InputError for a card that smemsim does not model."""

    ended = 0  # the error of a launch that trapped: after it no call of the process succeeds, in a new context neither (seen on an H200, driver 580; no trace shows it)

    def __init__(self, ordinal: int = 0) -> None:
        if Gpu.ended:
            raise InputError(f"a launch before trapped (CUDA error {Gpu.ended}), which ends CUDA for this process; use another process")
        self.cu = _driver()
        _ok(self.cu.cuInit(0), "cuInit")
        self.device = _ok(self.cu.cuDeviceGet(ordinal), "cuDeviceGet")
        major, minor = (self._attribute(f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
        self.capability, self.arch = f"{major}.{minor}", f"sm_{major}{minor}a"
        if self.arch not in ARCHITECTURES:
            raise InputError(f"the GPU is {self.arch.rstrip('a')}: smemsim models {', '.join(ARCHITECTURES)}")
        self._open()

    def _open(self) -> None:
        self.context = _ok(self.cu.cuDevicePrimaryCtxRetain(self.device), "cuDevicePrimaryCtxRetain")
        _ok(self.cu.cuCtxSetCurrent(self.context), "cuCtxSetCurrent")
        self._memory: list[int] = []

    def _attribute(self, name: str) -> int:
        attribute = getattr(self.cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(_ok(self.cu.cuDeviceGetAttribute(attribute, self.device), "cuDeviceGetAttribute"))

    def describe(self) -> dict[str, str]:
        """What a manifest says about the card and its software."""
        name = _ok(self.cu.cuDeviceGetName(128, self.device), "cuDeviceGetName")
        version = int(_ok(self.cu.cuDriverGetVersion(), "cuDriverGetVersion"))
        return {
            "gpu": name.split(b"\0")[0].decode().strip(),
            "compute_capability": self.capability,
            "driver": _driver_version(),
            "cuda_driver_api": f"{version // 1000}.{version % 1000 // 10}",
            "captured_utc": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def allocate(self, size: int, fill: int | None = None) -> int:
        """The address of `size` bytes of global memory, a multiple of 256."""
        address = int(_ok(self.cu.cuMemAlloc(max(size, 1)), f"cuMemAlloc of {size:,} B"))
        self._memory.append(address)
        if fill is not None and size:
            _ok(self.cu.cuMemsetD8(address, fill, size), "cuMemsetD8")
        return address

    def put(self, address: int, data: np.ndarray) -> None:
        """Copy an array's bytes to the device."""
        if data.nbytes:
            held = np.ascontiguousarray(data)
            _ok(self.cu.cuMemcpyHtoD(address, held.ctypes.data, held.nbytes), "cuMemcpyHtoD")

    def get(self, address: int, size: int) -> np.ndarray:
        """Copy bytes from the device."""
        out = np.zeros(size, np.uint8)
        if size:
            _ok(self.cu.cuMemcpyDtoH(out.ctypes.data, address, size), "cuMemcpyDtoH")
        return out

    def free(self) -> None:
        """Give back all memory of `allocate`."""
        for address in self._memory:
            self.cu.cuMemFree(address)
        self._memory = []

    def function(self, image: bytes, name: str, shared_bytes: int) -> Any:
        """A kernel of a cubin, a fatbin or PTX text, allowed `shared_bytes` of dynamic shared memory."""
        held = image if image[:4] in (b"\x7fELF", b"\x50\xed\x55\xba") else image.rstrip(b"\0") + b"\0"  # PTX text ends with 0
        module = _ok(self.cu.cuModuleLoadData(held), f"cuModuleLoadData of {len(image):,} B (a cubin, fatbin or PTX for {self.arch})")
        try:
            function = _ok(self.cu.cuModuleGetFunction(module, name.encode()), "cuModuleGetFunction")
        except CudaError as e:
            raise InputError(
                f'name = {name!r}: the image has no such kernel (CUDA error {e.code}); C++ names are mangled without extern "C"'
            ) from None
        most = self.cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _ok(self.cu.cuFuncSetAttribute(function, most, shared_bytes), f"{shared_bytes:,} B of dynamic shared memory")
        return function

    def static_shared_bytes(self, function: Any) -> int:
        """Shared memory that the kernel declares itself."""
        attribute = self.cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
        return int(_ok(self.cu.cuFuncGetAttribute(attribute, function), "cuFuncGetAttribute"))

    def launch(self, function: Any, grid: Sequence[int], block: Sequence[int], shared_bytes: int, arguments: Sequence[bytes]) -> int:
        """Launch and wait: 0, or the CUDA error that ended the context. Arguments are the bytes of each parameter."""
        held = [ctypes.create_string_buffer(value, len(value)) for value in arguments]
        pointers = np.array([ctypes.addressof(one) for one in held] or [0], np.uint64)
        made = self.cu.cuLaunchKernel(function, *grid, *block, shared_bytes, 0, pointers.ctypes.data, 0)
        _ok(made, f"cuLaunchKernel, grid {tuple(grid)}, block {tuple(block)}, {shared_bytes:,} B of shared memory")
        code = int(self.cu.cuCtxSynchronize()[0])
        if code and code not in TRAPS:
            raise CudaError(code, "cuCtxSynchronize")
        return code

    def parameters(self, function: Any) -> list[int] | None:
        """Sizes of the kernel's parameters in bytes; None where the driver cannot say."""
        ask = getattr(self.cu, "cuFuncGetParamInfo", None)
        if ask is None:
            return None
        sizes: list[int] = []
        while True:
            code, *found = ask(function, len(sizes))
            if int(code):
                return sizes
            sizes.append(int(found[1]))

    def encode(self, tm: TensorMap, global_address: int) -> bytes:
        """What the driver encodes for a map's arguments over another global address."""
        cu, a = self.cu, tm.arguments
        kinds = {
            "data_type": cu.CUtensorMapDataType, "interleave": cu.CUtensorMapInterleave, "swizzle": cu.CUtensorMapSwizzle,
            "l2_promotion": cu.CUtensorMapL2promotion, "oob_fill": cu.CUtensorMapFloatOOBfill,
        }  # fmt: skip
        code = {name: kind(int(a[name])) for name, kind in kinds.items()}
        dims = [cu.cuuint64_t(n) for n in a["global_dim"]]
        strides = [cu.cuuint64_t(n) for n in a["global_strides"]] or [cu.cuuint64_t(0)]
        steps = [cu.cuuint32_t(n) for n in a["element_strides"]]
        head = (code["data_type"], len(dims), global_address, dims, strides)
        tail = (steps, code["interleave"], code["swizzle"], code["l2_promotion"], code["oob_fill"])
        if tm.call == "tiled":
            made = cu.cuTensorMapEncodeTiled(*head, [cu.cuuint32_t(n) for n in a["box_dim"]], *tail)
        elif tm.call == "im2col":
            corners = (list(a["pixel_box_lower_corner"]), list(a["pixel_box_upper_corner"]))
            made = cu.cuTensorMapEncodeIm2col(*head, *corners, a["channels_per_pixel"], a["pixels_per_column"], *tail)
        else:
            raise InputError(f"{tm!r}: the recorder encodes tiled and im2col maps; give the 128 bytes of others")
        return ctypes.string_at(_ok(made, f"cuTensorMapEncode of {tm!r}").getPtr(), 128)


def _driver_version() -> str:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return "unknown"
    asked = [smi, "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip().partition("\n")[0] or "unknown"


def compile_cuda(source: str, arch: str, options: Sequence[str] = ()) -> tuple[bytes, str]:
    """(cubin, compiler) of CUDA C++, by NVRTC or, where its library is not there, by nvcc. InputError with the compiler's own words."""
    try:
        return _by_nvrtc(source, arch, options)
    except (ImportError, RuntimeError, OSError) as e:  # no bindings, no libnvrtc
        nvcc = shutil.which("nvcc")
        if nvcc is None:
            raise InputError(
                f"no compiler for CUDA C++: NVRTC answers {' '.join(str(e).split())[:120]!r}, and nvcc is not on the PATH"
            ) from None
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = pathlib.Path(folder) / "kernel.cu", pathlib.Path(folder) / "kernel.cubin"
        text.write_text(source)
        code = f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}"
        done = subprocess.run([nvcc, "-cubin", code, *options, "-o", str(cubin), str(text)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise InputError(f"the kernel does not compile:\n{done.stderr.strip()}")
        return cubin.read_bytes(), "nvcc"


def _by_nvrtc(source: str, arch: str, options: Sequence[str]) -> tuple[bytes, str]:
    from cuda.bindings import nvrtc

    def ok(result: tuple[Any, ...]) -> Any:
        if int(result[0]):
            raise RuntimeError(f"NVRTC error {int(result[0])}")
        return result[1] if len(result) == 2 else result[1:]

    program = ok(nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], []))
    flags = [f"--gpu-architecture={arch}".encode(), *(option.encode() for option in options)]
    if int(nvrtc.nvrtcCompileProgram(program, len(flags), flags)[0]):
        log = b" " * ok(nvrtc.nvrtcGetProgramLogSize(program))
        ok(nvrtc.nvrtcGetProgramLog(program, log))
        raise InputError(f"the kernel does not compile:\n{log.rstrip(bytes(1)).decode(errors='replace').strip()}")
    cubin = b" " * ok(nvrtc.nvrtcGetCUBINSize(program))
    ok(nvrtc.nvrtcGetCUBIN(program, cubin))
    major, minor = ok(nvrtc.nvrtcVersion())
    return cubin, f"NVRTC {major}.{minor}"
