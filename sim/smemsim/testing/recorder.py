"""The recorder: traces of kernels on a GPU.

    from smemsim.testing.recorder import MapOf, Step, record_loads

    tm = smemsim.TensorMap.tiled(
        data_type="bf16", global_address=0, global_dim=(64, 128), global_strides=(128,), box_dim=(64, 64), swizzle="128B"
    )
    record_loads("golden/a_tile", tensors={"A": a}, maps={"tmA": MapOf("A", tm)}, steps=[Step("tmA", (0, 64), 0x400)])

The function `record_loads` has its own kernel. The function `record` runs yours, which must make the same transfers and
copy its shared memory out. One CTA is launched. Needs cuda-bindings (smemsim[cuda]) and a GPU that smemsim models.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import datetime
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smemsim.base.arguments import shown, whole, wholes
from smemsim.base.errors import HardwareTrap, InputError, SmemsimError, TraceError
from smemsim.core.machine.tma import tma_load
from smemsim.core.spec.architectures import ARCHITECTURES, any_architecture, architecture
from smemsim.core.spec.traps import ILLEGAL_ADDRESS
from smemsim.core.words.instr import InstrDescriptor
from smemsim.core.words.smem import SmemDescriptor
from smemsim.core.words.tensor_map import TensorMap
from smemsim.core.words.tensor_map.bits import raw_bytes
from smemsim.core.words.tensor_map.replace import tensormap_replace
from smemsim.evidence.format import Suite, load_suite, write_suite
from smemsim.evidence.kinds.smem_dump import STEPS, TENSOR_FLAGS, WIDTH, SmemDump
from smemsim.run.engine.device import Card
from smemsim.run.engine.launch import LaunchConfig, LoadedKernel, check_shape

__all__ = [
    "BARRIER_BYTES",
    "DUMP",
    "FILL",
    "KERNEL_NAME",
    "MOST_STEPS",
    "CudaError",
    "Gpu",
    "Kernel",
    "Launch",
    "MapOf",
    "Recorded",
    "Recorder",
    "Step",
    "compile_cuda",
    "differences",
    "launch_of",
    "load_kernel",
    "load_launch",
    "record",
    "record_loads",
    "suite_arrays",
    "why_no_gpu",
    "write_recorded",
]


# ---- The GPU through cuda-bindings: one device, its memory, kernels and the driver's tensor-map encoder.
# Imported only where a GPU is used


MACHINE_CODE = (b"\x7fELF", b"\x50\xed\x55\xba")  # how cubins and fatbins begin
# driver errors that a kernel ends its context with: addresses, instructions, launch failure
TRAPS = (700, 715, 716, 717, 718, 719)


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
        return f"no CUDA driver answers here ({type(e).__name__} of cuda-bindings)"
    if not count:
        return "the CUDA driver sees no GPU here"
    try:
        Gpu()
    except SmemsimError as e:
        return str(e)
    return ""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CudaKernel(LoadedKernel):
    """A kernel that the driver has loaded; `handle` is its CUfunction."""

    handle: Any


class CudaModule:
    """A module that the driver has loaded."""

    def __init__(self, cu: Any, handle: Any) -> None:
        self.cu, self.handle = cu, handle

    def kernel(self, name: str | None = None) -> CudaKernel:
        """A kernel of the module by its name. InputError where there is no such kernel."""
        if name is None:
            raise InputError("name: which kernel of the image is not said")
        try:
            function = _ok(self.cu.cuModuleGetFunction(self.handle, name.encode()), "cuModuleGetFunction")
        except CudaError as e:
            raise InputError(
                f'name = {name!r}: the image has no such kernel (CUDA error {e.code}); C++ names are mangled without extern "C"'
            ) from None
        cluster = tuple(self._attribute(function, f"REQUIRED_CLUSTER_{axis}") for axis in ("WIDTH", "HEIGHT", "DEPTH"))
        return CudaKernel(
            name=name, parameter_sizes=self._parameter_sizes(function), static_shared_bytes=self._attribute(function, "SHARED_SIZE_BYTES"),
            local_bytes=self._attribute(function, "LOCAL_SIZE_BYTES"), directives={"reqnctapercluster": cluster} if all(cluster) else {},
            handle=function,
        )  # fmt: skip

    def variable(self, name: str) -> tuple[int, int]:
        """(address, bytes) of a variable in global or constant memory. InputError where there is none."""
        try:
            address, size = _ok(self.cu.cuModuleGetGlobal(self.handle, name.encode()), "cuModuleGetGlobal")
        except CudaError as e:
            raise InputError(f"variable {name!r}: the image has no such variable (CUDA error {e.code})") from None
        return int(address), int(size)

    def _attribute(self, function: Any, name: str) -> int:
        attribute = getattr(self.cu.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(_ok(self.cu.cuFuncGetAttribute(attribute, function), "cuFuncGetAttribute"))

    def _parameter_sizes(self, function: Any) -> tuple[int, ...] | None:
        ask = getattr(self.cu, "cuFuncGetParamInfo", None)
        if ask is None:
            return None
        sizes: list[int] = []
        while True:
            code, *sizes_found = ask(function, len(sizes))
            if int(code):
                return tuple(sizes)
            sizes.append(int(sizes_found[1]))


def _name(card: str) -> str:
    """The target that smemsim knows a card by."""
    for name in (f"{card}a", card):
        with contextlib.suppress(InputError):
            return any_architecture(name).name
    raise InputError(f"the GPU is {card}, which smemsim does not model; smemsim exec --list-cards prints those that it does")


class Gpu:
    """A real card: one device, its primary context current; InputError for a card that smemsim does not model."""

    # the error of a launch that trapped: after it no call of the process succeeds, in a new context neither (seen on an
    # H200, driver 580; no trace shows it)
    ended = 0

    def __init__(self, ordinal: int = 0) -> None:
        if Gpu.ended:
            raise InputError(f"a launch before trapped (CUDA error {Gpu.ended}), which ends CUDA for this process; use another process")
        self.cu = _driver()
        _ok(self.cu.cuInit(0), "cuInit")
        self.device = _ok(self.cu.cuDeviceGet(ordinal), "cuDeviceGet")
        major, minor = (self._attribute(f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
        self.capability, self.arch = f"{major}.{minor}", _name(f"sm_{major}{minor}")
        self._open()

    def _open(self) -> None:
        self.context = _ok(self.cu.cuDevicePrimaryCtxRetain(self.device), "cuDevicePrimaryCtxRetain")
        _ok(self.cu.cuCtxSetCurrent(self.context), "cuCtxSetCurrent")

    def _attribute(self, name: str) -> int:
        attribute = getattr(self.cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(_ok(self.cu.cuDeviceGetAttribute(attribute, self.device), "cuDeviceGetAttribute"))

    def describe(self) -> dict[str, str]:
        """The card and its software in a manifest."""
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

    def free(self, address: int) -> None:
        """Give back what `allocate` gave; nothing after a trap, which has ended the context with its memory."""
        if not Gpu.ended:
            _ok(self.cu.cuMemFree(address), f"cuMemFree of {address:#x}")

    def load(self, image: bytes | str) -> CudaModule:
        """Load a cubin, a fatbin or PTX text. InputError after a launch that trapped."""
        if Gpu.ended:
            raise InputError(
                f"a launch before trapped (CUDA error {Gpu.ended}), which ends CUDA for this process: record traps last, or each in a process"
            )
        held = image.encode() if isinstance(image, str) else image
        if held[:4] not in MACHINE_CODE:
            held = held.rstrip(b"\0") + b"\0"  # PTX text ends with 0
        loaded = _ok(self.cu.cuModuleLoadData(held), f"cuModuleLoadData of {len(image):,} B (a cubin, fatbin or PTX for {self.arch})")
        return CudaModule(self.cu, loaded)

    def execute(self, kernel: LoadedKernel, config: LaunchConfig) -> int:
        """Launch and wait: 0, or the CUDA error that ended the context. Arguments are the bytes of each parameter."""
        if not isinstance(kernel, CudaKernel):
            raise InputError(f"kernel = {shown(kernel)}: was loaded by another card; load its image into this one")
        config = config.of(kernel)
        check_shape(config, kernel, self.arch)
        self._allow(kernel, config)
        held = [ctypes.create_string_buffer(value, len(value)) for value in config.args]
        pointers = np.array([ctypes.addressof(argument) for argument in held] or [0], np.uint64)
        made = self.cu.cuLaunchKernelEx(self._launch_config(config), kernel.handle, pointers.ctypes.data, 0)
        _ok(made, f"cuLaunchKernelEx, grid {config.grid}, block {config.block}, {config.shared_bytes:,} B of shared memory")
        code = int(self.cu.cuCtxSynchronize()[0])
        if code and code not in TRAPS:
            raise CudaError(code, "cuCtxSynchronize")
        Gpu.ended = code
        return code

    def clusters_at_once(self, kernel: CudaKernel, config: LaunchConfig) -> int:
        """How many clusters of a launch the card has room for at once; 0 where it can have none."""
        config = config.of(kernel)
        self._allow(kernel, config)
        error, room = self.cu.cuOccupancyMaxActiveClusters(kernel.handle, self._launch_config(config, is_clustered=True))
        return 0 if int(error) else int(room)

    def _allow(self, kernel: CudaKernel, config: LaunchConfig) -> None:
        """The settings of the driver for a launch with much shared memory, or with large clusters."""
        for name, value in (("MAX_DYNAMIC_SHARED_SIZE_BYTES", config.shared_bytes), ("NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)):
            attribute = getattr(self.cu.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
            _ok(self.cu.cuFuncSetAttribute(kernel.handle, attribute, value), f"cuFuncSetAttribute of {name} = {value:,}")

    def _launch_config(self, config: LaunchConfig, *, is_clustered: bool = False) -> Any:
        """The driver's own words for a launch. `is_clustered` names a cluster of one CTA too: without one the driver
        counts none.
        """
        cu, attributes = self.cu, []
        if is_clustered or config.cluster is not None:
            cluster = cu.CUlaunchAttribute()
            cluster.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            cluster.value.clusterDim.x, cluster.value.clusterDim.y, cluster.value.clusterDim.z = config.cluster or (1, 1, 1)
            attributes.append(cluster)
        if config.cooperative:
            cooperative = cu.CUlaunchAttribute()
            cooperative.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            cooperative.value.cooperative = 1
            attributes.append(cooperative)
        told = cu.CUlaunchConfig()
        told.gridDimX, told.gridDimY, told.gridDimZ = config.grid
        told.blockDimX, told.blockDimY, told.blockDimZ = config.block
        told.sharedMemBytes = config.shared_bytes
        told.attrs, told.numAttrs = attributes, len(attributes)
        return told

    def encode(self, tm: TensorMap, global_address: int) -> bytes:
        """The bytes that the driver encodes for a map's arguments with another global address."""
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
    """(cubin, compiler) of CUDA C++, by NVRTC or, where its library is not there, by nvcc. InputError with the
    compiler's own words.
    """
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


# ---- A kernel that only moves tensors: PTX text, so that recording needs no compiler. It fills shared memory, loads,
# waits, stores, and dumps


FILL = 0xA5  # what shared memory holds before the first load
KERNEL_NAME = "smemsim_load_kernel"
BARRIER_BYTES = 16  # after the dump: the mbarrier, and the space around it
MOST_STEPS = 16  # the parameters of a kernel take 4 KiB
PATIENCE = 20_000_000  # cycles; a load takes some thousand

# the first that has the target: PTX ISA, release notes
PTX_VERSIONS = {"sm_90a": "8.0", "sm_100a": "8.6", "sm_103a": "8.8"}

HEAD = """.version {version}
.target {arch}
.address_size 64

.extern .shared .align 1024 .b8 window[];

.visible .entry {name}(
    .param .u64 dump, .param .u64 completed, .param .u32 begin, .param .u32 bytes, .param .u32 barrier, .param .u32 expect{parameters})
{{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b32 %c<5>;
    .reg .b16 %h<4>;
    .reg .b64 %d<12>;
    ld.param.u64 %d0, [dump];
    ld.param.u64 %d1, [completed];
    ld.param.u32 %r0, [begin];
    ld.param.u32 %r1, [bytes];
    ld.param.u32 %r2, [barrier];
    ld.param.u32 %r3, [expect];
    cvta.to.global.u64 %d0, %d0;
    cvta.to.global.u64 %d1, %d1;
    mov.u32 %r4, %tid.x;
    mov.u32 %r5, %ntid.x;
    shl.b32 %r6, %r4, 2;
    shl.b32 %r7, %r5, 2;
    mov.u32 %r8, {fill:#010x};
    mov.u32 %r9, %r6;
fill:
    setp.ge.u32 %p0, %r9, %r1;
    @%p0 bra filled;
    add.u32 %r10, %r0, %r9;
    st.shared.u32 [%r10], %r8;
    add.u32 %r9, %r9, %r7;
    bra fill;
filled:
    setp.ne.u32 %p1, %r4, 0;
    @%p1 bra ready;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
ready:
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p1 bra moved;
    mbarrier.arrive.expect_tx.shared::cta.b64 %d2, [%r2], %r3;
"""
WAIT = """    mov.u64 %d3, %clock64;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @%p2 bra arrived;
    mov.u64 %d4, %clock64;
    sub.u64 %d4, %d4, %d3;
    setp.lt.u64 %p3, %d4, {patience};
    @%p3 bra wait;
    bra moved;
arrived:
    mov.u32 %r11, 1;
    st.global.u32 [%d1], %r11;
"""
TAIL = """moved:
    bar.sync 0;
    mov.u32 %r9, %r6;
copy:
    setp.ge.u32 %p0, %r9, %r1;
    @%p0 bra copied;
    add.u32 %r10, %r0, %r9;
    ld.shared.u32 %r12, [%r10];
    cvt.u64.u32 %d5, %r9;
    add.u64 %d6, %d0, %d5;
    st.global.u32 [%d6], %r12;
    add.u32 %r9, %r9, %r7;
    bra copy;
copied:
    ret;
}
"""


def load_kernel(arch: str, maps: int, steps: Sequence[tuple[str, str, int, int]]) -> str:
    """The PTX text of a kernel with `maps` tensor maps and `steps`: ("load" or "store", mode, rank, number of the map).

    The first parameters are the dump, and a word that becomes 1 when the loads have arrived. Then come the first shared
    address of the dump and its bytes, and the address of the barrier and the expected bytes. Then come the maps by
    value. Then every step has its shared address, its coordinates, and the im2col offsets of loads, 32 bits each. All
    loads come before the first store.

    >>> [line.strip() for line in load_kernel("sm_90a", 1, [("load", "tile", 2, 0)]).splitlines() if "bulk" in line]
    ['cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r13], [%d7, {%c0, %c1}], [%r2];']
    """
    parameters = "".join(f",\n    .param .align 64 .b8 map{i}[128]" for i in range(maps))
    body, waited = "", False
    for number, (what, mode, rank, of) in enumerate(steps):
        offsets = rank - 2 if mode == "im2col" else 0
        names = [f"step{number}_{i}" for i in range(1 + rank + offsets)]
        parameters += "".join(f",\n    .param .u32 {name}" for name in names)
        registers = ["%r13", *(f"%c{i}" for i in range(rank))]
        if what == "store" and not waited:
            body, waited = body + WAIT.format(patience=PATIENCE), True
        body += "".join(f"    ld.param.u32 {register}, [{name}];\n" for register, name in zip(registers, names, strict=False))
        for i in range(offsets):
            body += f"    ld.param.u32 %r14, [{names[1 + rank + i]}];\n    cvt.u16.u32 %h{i}, %r14;\n"
        body += f"    mov.b64 %d7, map{of};\n    cvta.param.u64 %d7, %d7;\n"
        place = f"[%d7, {{{', '.join(registers[1:])}}}]"
        if what == "store":
            body += f"    cp.async.bulk.tensor.{rank}d.global.shared::cta.{mode}.bulk_group {place}, [%r13];\n"
            body += "    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\n"
        else:
            also = f", {{{', '.join(f'%h{i}' for i in range(offsets))}}}" if offsets else ""
            body += f"    cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [%r13], {place}, [%r2]{also};\n"
    if not waited:
        body += WAIT.format(patience=PATIENCE)
    head = HEAD.format(version=PTX_VERSIONS[arch], arch=arch, name=KERNEL_NAME, parameters=parameters, fill=FILL * 0x01010101)
    return head + body + TAIL


# ---- What is recorded of a kernel: the launch as the user describes it, and what came of it. Nothing here needs a GPU


DUMP = "<dump>"  # the argument that is the address of the buffer to which the kernel copies its shared memory
ARGUMENTS = {"map": 0, "tensor": 1, "dump": 2, "value": 3}  # column 0 of `arguments`
MOST_DUMP = max(machine.shared_end for machine in ARCHITECTURES.values())


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel: a cubin, fatbin or PTX text, the entry's name, and where it came from."""

    image: bytes = dataclasses.field(repr=False)
    name: str
    compiler: str = ""
    source: str = dataclasses.field(default="", repr=False)

    @classmethod
    def of_file(cls, path: str | pathlib.Path, name: str) -> Kernel:
        """A kernel of a file. InputError where it cannot be read."""
        try:
            return cls(pathlib.Path(path).read_bytes(), name)
        except OSError as e:
            raise InputError(f"{path}: {e.strerror or e}; needs a cubin, a fatbin or PTX") from None


@dataclasses.dataclass(frozen=True)
class MapOf:
    """A tensor map over a tensor: its arguments, or 128 bytes; the address in it is replaced by that of the tensor plus
    `offset` bytes.
    """

    tensor: str
    tensor_map: TensorMap | bytes
    offset: int = 0


@dataclasses.dataclass(frozen=True)
class Step:
    """A tensor transfer of the kernel: a load, or with `is_store` a store of loaded bytes.

    The coordinates are `at`, dimension 0 first. Offsets of an im2col load are `im2col_offsets`, W first.
    """

    map: str
    at: tuple[int, ...]
    smem_address: int
    is_store: bool = False
    im2col_offsets: tuple[int, ...] = ()

    def row(self, names: Sequence[str], is_im2col: bool) -> list[int]:
        """The step as a row of the trace's `steps`."""
        if self.map not in names:
            raise InputError(f"step: there is no map {shown(self.map)} ({', '.join(names) or 'none at all'})")
        at = wholes("at", self.at, wanted="the coordinates of a box, dimension 0 first")
        offsets = wholes("im2col_offsets", self.im2col_offsets, wanted="one offset for each of W, H, D")
        if not 1 <= len(at) <= 5 or len(offsets) > 3:
            raise InputError(f"at = {at}: needs 1 to 5 coordinates, and at most 3 im2col_offsets")
        mode = ("im2col_no_offs" if self.is_store else "im2col") if is_im2col else "tile"
        code = STEPS.index(("store" if self.is_store else "load", mode))
        address = whole("smem_address", self.smem_address, minimum=0, wanted="a .shared byte address")
        row = [code, list(names).index(self.map), address, len(at), *at, *[0] * (5 - len(at)), *offsets]
        return [*row, *[0] * (WIDTH - len(row))]


@dataclasses.dataclass(frozen=True)
class Launch:
    """One launch of a kernel by one CTA, and its tensor transfers.

    The arguments are the parameters in order. Each is the name of a map (its 128 bytes by value), the name of a tensor
    (its address), `DUMP`, a descriptor, an int (32 bits) or a numpy scalar. The kernel copies `dump_bytes` bytes of
    shared memory from `dump_address` to the buffer `DUMP`.

    The byte with which the kernel has filled shared memory before the first load is `fill`. Without it only bytes that
    loads write are compared. Tensors that the steps store to are `outputs`. They are compared after the kernel.
    """

    tensors: Mapping[str, np.ndarray]
    maps: Mapping[str, MapOf]
    steps: Sequence[Step]
    arguments: Sequence[Any]
    dump_address: int
    dump_bytes: int
    shared_bytes: int
    block: tuple[int, int, int] = (128, 1, 1)
    fill: int | None = None
    outputs: tuple[str, ...] = ()

    def checked(self) -> Launch:
        """The launch itself, if it can be one. Raises InputError."""
        for name, tensor in self.tensors.items():
            if not isinstance(tensor, np.ndarray) or tensor.dtype.hasobject or not tensor.size:
                raise InputError(f"tensors[{name!r}]: needs a numpy array of numbers, not {shown(tensor)}")
        if both := sorted(set(self.tensors) & set(self.maps)):
            raise InputError(f"{both[0]!r} is both a tensor and a map; arguments could not tell them apart")
        for name, one in self.maps.items():
            if not isinstance(one, MapOf) or one.tensor not in self.tensors:
                raise InputError(f"maps[{name!r}] = {shown(one)}: needs a MapOf one of the tensors ({', '.join(self.tensors)})")
        for name in self.outputs:
            if name not in self.tensors:
                raise InputError(f"outputs: there is no tensor {shown(name)} ({', '.join(self.tensors)})")
        for name, most in (("dump_address", MOST_DUMP), ("dump_bytes", MOST_DUMP), ("shared_bytes", MOST_DUMP)):
            if whole(name, getattr(self, name), minimum=0) > most:
                raise InputError(f"{name} = {getattr(self, name):#x}: shared memory ends at {MOST_DUMP:#x}")
        if self.fill is not None and not 0 <= whole("fill", self.fill) < 256:
            raise InputError(f"fill = {self.fill}: needs a byte")
        if len(self.block) != 3 or not 0 < self.block[0] * self.block[1] * self.block[2] <= 1024:
            raise InputError(f"block = {self.block}: needs three sizes, at most 1,024 threads in all")
        self.step_rows()
        self.argument_rows()
        return self

    def is_im2col(self, name: str) -> bool:
        """Is the map one of the im2col encode call?"""
        tensor_map = self.maps[name].tensor_map if name in self.maps else None
        if tensor_map is None:
            return False
        return (tensor_map if isinstance(tensor_map, TensorMap) else TensorMap.from_bytes(raw_bytes(tensor_map))).is_im2col

    def step_rows(self) -> list[list[int]]:
        """The steps as rows of the trace."""
        return [step.row(list(self.maps), self.is_im2col(step.map)) for step in self.steps]

    def argument_rows(self) -> list[tuple[int, int, int]]:
        """(code of `ARGUMENTS`, number or raw bits, bytes) of every parameter."""
        return [self._argument(i, value) for i, value in enumerate(self.arguments)]

    def _argument(self, i: int, value: Any) -> tuple[int, int, int]:
        if isinstance(value, str):
            if value == DUMP:
                return ARGUMENTS["dump"], 0, 8
            for kind, names, size in (("map", list(self.maps), 128), ("tensor", list(self.tensors), 8)):
                if value in names:
                    return ARGUMENTS[kind], names.index(value), size
            raise InputError(f"arguments[{i}] = {value!r}: needs a map, a tensor, DUMP, a descriptor or a number")
        if isinstance(value, (SmemDescriptor, InstrDescriptor)):
            return ARGUMENTS["value"], value.encode(), 8 if isinstance(value, SmemDescriptor) else 4
        if isinstance(value, np.generic) and value.dtype.kind in "iuf" and value.nbytes <= 8:
            return ARGUMENTS["value"], int.from_bytes(value.tobytes(), "little"), value.nbytes
        number = whole(f"arguments[{i}]", value, wanted="a map, a tensor, DUMP, a descriptor, a 32-bit int or a numpy scalar")
        if not -(1 << 31) <= number < 1 << 32:
            raise InputError(f"arguments[{i}] = {shown(value)}: does not fit 32 bits; give np.uint64 or np.int64 for 64")
        return ARGUMENTS["value"], number & 0xFFFFFFFF, 4


@dataclasses.dataclass(frozen=True, eq=False)
class Recorded:
    """The results of a launch. The `status` is 0 or the CUDA error. The bytes are `dump` and `after` (the outputs'
    bytes, one after the other). The inputs are also kept.
    """

    launch: Launch
    status: int
    window_end: int
    addresses: Mapping[str, int]  # of the tensors
    maps: tuple[bytes, ...]
    dump: np.ndarray
    after: np.ndarray

    @property
    def trapped(self) -> bool:
        """Did hardware stop the kernel?"""
        return self.status >= ILLEGAL_ADDRESS


def _ragged(name: str, parts: list[np.ndarray], shape: tuple[int, ...], dtype: Any) -> dict[str, np.ndarray]:
    start = np.cumsum([0, *(len(part) for part in parts)]).astype(np.int64)
    body = np.concatenate([np.asarray(part, dtype).reshape(-1, *shape) for part in parts]) if parts else np.zeros((0, *shape), dtype)
    return {name: body, f"{name}_start": start}


def suite_arrays(kernel: Kernel, recorded: Sequence[Recorded]) -> dict[str, np.ndarray]:
    """The arrays of a `smem_dump` suite."""
    launches = [one.launch for one in recorded]
    tensors = [
        [
            (r.addresses[name], array.nbytes, TENSOR_FLAGS["output" if name in r.launch.outputs else "input"])
            for name, array in r.launch.tensors.items()
        ]
        for r in recorded
    ]
    places = [[list(r.launch.tensors).index(one.tensor) for one in r.launch.maps.values()] for r in recorded]
    offsets = [[one.offset for one in launch.maps.values()] for launch in launches]
    contents = [np.concatenate([np.frombuffer(array.tobytes(), np.uint8) for array in launch.tensors.values()] or [np.zeros(0, np.uint8)]) for launch in launches]  # fmt: skip
    return {
        "status": np.array([r.status for r in recorded], np.uint16),
        "window_end": np.array([r.window_end for r in recorded], np.uint32),
        "dump_address": np.array([launch.dump_address for launch in launches], np.uint32),
        "fill": np.array([-1 if launch.fill is None else launch.fill for launch in launches], np.int16),
        "block": np.array([launch.block for launch in launches], np.uint32).reshape(-1, 3),
        "shared_bytes": np.array([launch.shared_bytes for launch in launches], np.uint32),
        "kernel_image": np.frombuffer(kernel.image, np.uint8),
        **_ragged("steps", [np.array(launch.step_rows(), np.int64) for launch in launches], (WIDTH,), np.int64),
        **_ragged("arguments", [np.array(launch.argument_rows(), np.uint64) for launch in launches], (3,), np.uint64),
        **_ragged("maps", [np.frombuffer(b"".join(r.maps), np.uint8).reshape(-1, 128) for r in recorded], (128,), np.uint8),
        **_ragged("map_tensor", [np.array(p) for p in places], (), np.uint32),
        **_ragged("map_offset", [np.array(p) for p in offsets], (), np.uint64),
        **_ragged("tensors", [np.array(rows, np.int64) for rows in tensors], (3,), np.int64),
        **_ragged("tensor_bytes", contents, (), np.uint8),
        **_ragged("dump", [r.dump for r in recorded], (), np.uint8),
        **_ragged("after", [r.after for r in recorded], (), np.uint8),
    }


def write_recorded(
    folder: str | pathlib.Path,
    *,
    title: str,
    kernel: Kernel,
    recorded: Sequence[Recorded],
    arch: str,
    device: dict[str, Any],
    source: dict[str, Any],
) -> None:
    """Write a trace folder of kind `smem_dump`; the kernel's image is in it, so that the launches can be run again."""
    path = pathlib.Path(folder)
    about = {"kernel": kernel.name, "compiler": kernel.compiler, **source, **({"cuda": kernel.source} if kernel.source else {})}
    write_suite(path, suite=path.name, kind="smem_dump", arch=arch, title=title, device=device, source=about, cases=len(recorded),
                arrays=suite_arrays(kernel, recorded))  # fmt: skip


# ---- Recording what a kernel does on the GPU at hand, as a golden trace that `smemsim replay` and the pytest
# plugin hold the model against


GUARD = 4096  # bytes around the tensors, so that a store past an end does not meet a neighbour
COMPLETED = "completed"


class Recorder:
    """A GPU on which launches are run and recorded. `arch` is its architecture.

    `gpu` is another card, such as a `smemsim.Gpu`: its results are no evidence, and are not written. Raises InputError
    without cuda-bindings or for a card that smemsim does not model, and `CudaError` for refusals of the driver.
    """

    def __init__(self, ordinal: int = 0, *, gpu: Card | None = None) -> None:
        self.gpu: Card = Gpu(ordinal) if gpu is None else gpu
        self.arch = self.gpu.arch
        self.device = self.gpu.describe() if isinstance(self.gpu, Gpu) else {}

    def compile(self, source: str, name: str, *, options: Sequence[str] = ()) -> Kernel:
        """A kernel of CUDA C++ text, by NVRTC or nvcc; `name` is that of an extern "C" entry. InputError with the
        compiler's words.
        """
        image, compiler = compile_cuda(source, self.arch, options)
        return Kernel(image, name, compiler, source)

    def run(self, kernel: Kernel, launch: Launch) -> Recorded:
        """Launch once, and copy back the dump and the outputs. A trap is an outcome too, and the last one: it ends CUDA
        for the whole process.

        Raises InputError after a trap; what follows one is recorded by another process.
        """
        gpu, launch = self.gpu, launch.checked()
        loaded = gpu.load(kernel.image).kernel(kernel.name)
        end = architecture(self.arch).shared_begin + loaded.static_shared_bytes + launch.shared_bytes
        rows = launch.argument_rows()
        given = tuple(row[2] for row in rows)
        if loaded.parameter_sizes not in (None, given):
            raise InputError(f"arguments: {kernel.name} takes parameters of {list(loaded.parameter_sizes)} B, given are {list(given)} B")
        held: list[int] = []
        try:
            addresses = {name: self._placed(array, held) for name, array in launch.tensors.items()}
            dump = self._allocated(launch.dump_bytes, held)
            maps = tuple(self._map(one, addresses) for one in launch.maps.values())
            args = [_bytes_of(row, maps, list(addresses.values()), dump) for row in rows]
            status = gpu.execute(loaded, LaunchConfig(block=launch.block, shared_bytes=launch.shared_bytes, args=args))
            if status:
                return Recorded(launch, status, end, addresses, maps, np.zeros(0, np.uint8), np.zeros(0, np.uint8))
            after = [gpu.get(addresses[name], launch.tensors[name].nbytes) for name in launch.tensors if name in launch.outputs]
            got = gpu.get(dump, launch.dump_bytes)
            self._completed(launch, addresses)
            return Recorded(launch, 0, end, addresses, maps, got, np.concatenate(after) if after else np.zeros(0, np.uint8))
        finally:
            for address in held:
                gpu.free(address)

    def _allocated(self, size: int, held: list[int]) -> int:
        held.append(self.gpu.allocate(size, 0))
        return held[-1]

    def _placed(self, array: np.ndarray, held: list[int]) -> int:
        address = self._allocated(array.nbytes + 2 * GUARD, held) + GUARD
        self.gpu.put(address, array)
        return address

    def _map(self, argument: MapOf, addresses: Mapping[str, int]) -> bytes:
        """The 128 bytes over the tensor: as the driver encodes them, or those given with another address."""
        address = addresses[argument.tensor] + argument.offset
        if isinstance(argument.tensor_map, TensorMap):
            return self.gpu.encode(argument.tensor_map, address)
        return tensormap_replace(argument.tensor_map, "global_address", address, arch=self.arch)

    def _completed(self, launch: Launch, addresses: Mapping[str, int]) -> None:
        """The built-in kernel says whether its barrier's phase completed."""
        if COMPLETED in launch.tensors and not self.gpu.get(addresses[COMPLETED], 4).any():
            raise SmemsimError(
                "the loads did not credit the bytes that smemsim computed: the barrier's phase did not complete; please report the map"
            )

    def rerun(self, suite: Suite, case: int) -> Recorded:
        """Run a recorded case again. Raises TraceError for a trace that has no kernel, InputError for one of another
        architecture.
        """
        if suite.kind != "smem_dump":
            raise TraceError(f"{suite.path}: only smem_dump traces hold their kernel; kind {suite.kind!r} was recorded by the capture kit")
        if suite.arch != self.arch:
            raise InputError(f"{suite.path} was recorded on {suite.arch}, the GPU here is {self.arch}")
        image = suite.arrays.get("kernel_image", np.zeros(0, np.uint8)).tobytes()
        if not image:
            raise TraceError(f"{suite.path}: the trace has no kernel image; record it again to run it")
        return self.run(Kernel(image, str(suite.manifest["source"].get("kernel", ""))), launch_of(suite, case))

    def write(self, folder: str | pathlib.Path, kernel: Kernel, recorded: Sequence[Recorded], *, title: str, command: str = "") -> Suite:
        """Write a trace folder and read it back, verified. InputError for what a simulated
        card did: it is no evidence.
        """
        if not self.device:
            raise InputError("nothing to record on: a simulated card shows what smemsim believes, and a trace is what hardware does")
        source = {"command": command or "smemsim.testing.recorder", "seed": 0, "files": {}}
        write_recorded(folder, title=title, kernel=kernel, recorded=recorded, arch=self.arch, device=self.device, source=source)
        return load_suite(pathlib.Path(folder))


def _bytes_of(row: tuple[int, int, int], maps: Sequence[bytes], tensors: Sequence[int], dump: int) -> bytes:
    kind, value, size = row
    if kind == ARGUMENTS["map"]:
        return maps[value]
    number = {ARGUMENTS["tensor"]: tensors[value] if kind == ARGUMENTS["tensor"] else 0, ARGUMENTS["dump"]: dump}.get(kind, value)
    return number.to_bytes(size, "little")


def launch_of(suite: Suite, case: int) -> Launch:
    """The launch of a recorded case: the maps are its 128 bytes, the arguments its raw bits."""
    a = suite.arrays
    if missing := sorted({"block", "shared_bytes", "arguments_start", "map_tensor_start", "map_offset_start"} - a.keys()):
        raise TraceError(f"{suite.path}: the trace lacks {', '.join(missing)}, without which its kernel cannot be run again")
    tensors, at, contents = {}, 0, suite.ragged("tensor_bytes", case)
    rows = suite.ragged("tensors", case).tolist()
    for i, (_, size, _) in enumerate(rows):
        tensors[f"tensor{i}"] = contents[at : at + size]
        at += size
    outputs = tuple(f"tensor{i}" for i, row in enumerate(rows) if row[2] == TENSOR_FLAGS["output"])
    places, offsets = suite.ragged("map_tensor", case).tolist(), suite.ragged("map_offset", case).tolist()
    raws = [raw.tobytes() for raw in suite.ragged("maps", case)]
    maps = {f"map{i}": MapOf(f"tensor{of}", raw, offset) for i, (of, raw, offset) in enumerate(zip(places, raws, offsets, strict=True))}
    steps = [
        Step(f"map{row[1]}", tuple(row[4 : 4 + row[3]]), row[2], STEPS[row[0]][0] == "store", tuple(row[9 : 9 + row[3] - 2]) if STEPS[row[0]][1] == "im2col" else ())
        for row in suite.ragged("steps", case).tolist()
    ]  # fmt: skip
    names = {ARGUMENTS["map"]: "map{}", ARGUMENTS["tensor"]: "tensor{}", ARGUMENTS["dump"]: DUMP}
    sizes = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
    arguments = [
        names[kind].format(value) if kind in names else sizes[size](value) for kind, value, size in suite.ragged("arguments", case).tolist()
    ]
    fill = int(a["fill"][case])
    return Launch(
        tensors=tensors, maps=maps, steps=steps, arguments=arguments, dump_address=int(a["dump_address"][case]),
        dump_bytes=len(suite.ragged("dump", case)) or 1, shared_bytes=int(a["shared_bytes"][case]), block=tuple(a["block"][case].tolist()),
        fill=None if fill < 0 else fill, outputs=outputs,
    )  # fmt: skip


def load_launch(
    arch: str, *, tensors: Mapping[str, np.ndarray], maps: Mapping[str, MapOf], steps: Sequence[Step], outputs: Sequence[str] = ()
) -> tuple[Kernel, Launch]:
    """(kernel, launch) that makes the steps, loads before stores, and dumps shared memory from its first byte to the
    last one of a box.

    The barrier expects what `smemsim.tma_load` says that the loads credit. Maps are `TensorMap`s. Raises InputError for
    more than 16 steps and boxes that leave no room for the barrier.

    >>> tm = TensorMap.tiled(data_type="u8", global_address=0, global_dim=(256,), global_strides=(), box_dim=(128,))
    >>> kernel, launch = load_launch("sm_90a", tensors={"A": np.arange(256, dtype=np.uint8)}, maps={"tmA": MapOf("A", tm)},
    ...                              steps=[Step("tmA", (64,), 0x480)])
    >>> hex(launch.dump_address), launch.dump_bytes, len(launch.arguments)
    ('0x400', 256, 9)
    """
    machine = architecture(arch)
    if not 0 < len(steps) <= MOST_STEPS:
        raise InputError(f"steps: {len(steps)} of them; the built-in kernel makes 1 to {MOST_STEPS}")
    if any(step.is_store for step in steps) != any(step.is_store for step in steps[-1:]):
        raise InputError("steps: the built-in kernel makes all loads before the first store")
    names, kinds, values, expect, end = list(maps), [], [], 0, machine.shared_begin
    for step in steps:
        tensor_map = maps[step.map].tensor_map if step.map in maps else None
        if not isinstance(tensor_map, TensorMap):
            raise InputError(f"step of map {step.map!r}: needs one of the maps ({', '.join(names)}), made of a TensorMap")
        row = step.row(names, tensor_map.is_im2col)
        kinds.append((*STEPS[row[0]], len(step.at), row[1]))
        values += [step.smem_address, *(int(c) & 0xFFFFFFFF for c in step.at), *(int(o) & 0xFFFFFFFF for o in step.im2col_offsets)]
        if not step.is_store:
            try:
                transfer = tma_load(tensor_map, step.at, smem_address=step.smem_address, im2col_offsets=step.im2col_offsets, arch=arch)
            except HardwareTrap:  # the hardware must decide
                end = max(end, step.smem_address + 128)
                continue
            expect, end = expect + transfer.transaction_bytes, max(end, transfer.shared_end)
    end = -(-end // 128) * 128
    if end + BARRIER_BYTES > machine.shared_end:
        raise InputError(f"steps: the boxes end at {end:#x}, which leaves no room for the barrier below {machine.shared_end:#x}")
    size = end - machine.shared_begin
    kernel = Kernel(load_kernel(machine.name, len(names), kinds).encode(), KERNEL_NAME, "the driver, from PTX")
    arguments = [DUMP, COMPLETED, machine.shared_begin, size, end, expect, *names, *values]
    held = {**tensors, COMPLETED: np.zeros(1, np.uint32)}
    return kernel, Launch(
        tensors=held, maps=maps, steps=steps, arguments=arguments, dump_address=machine.shared_begin, dump_bytes=size,
        shared_bytes=size + BARRIER_BYTES, fill=FILL, outputs=tuple(outputs),
    ).checked()  # fmt: skip


def record(folder: str | pathlib.Path, kernel: Kernel, launches: Sequence[Launch], *, title: str, command: str = "") -> Suite:
    """Run launches of one kernel on the GPU at hand and write them as a trace folder, one case each; the trace, read
    back.

    Raises InputError without a GPU, and for launches that do not fit the kernel.
    """
    if reason := why_no_gpu():
        raise InputError(f"nothing to record on: {reason}")
    recorder = Recorder()
    return recorder.write(folder, kernel, [recorder.run(kernel, one) for one in launches], title=title, command=command)


def record_loads(
    folder: str | pathlib.Path,
    *,
    tensors: Mapping[str, np.ndarray],
    maps: Mapping[str, MapOf],
    steps: Sequence[Step],
    outputs: Sequence[str] = (),
    title: str = "Tensor transfers, and the shared memory after them",
) -> Suite:
    """Record tensor transfers with the built-in kernel: which bytes your maps bring where. Arguments as of
    `load_launch`.
    """
    if reason := why_no_gpu():
        raise InputError(f"nothing to record on: {reason}")
    recorder = Recorder()
    kernel, launch = load_launch(recorder.arch, tensors=tensors, maps=maps, steps=steps, outputs=outputs)
    return recorder.write(folder, kernel, [recorder.run(kernel, launch)], title=title)


def differences(suite: Suite, case: int, again: Recorded) -> str:
    """How hardware's second answer differs from the recorded one, as a sentence; empty where it does not.

    Compared are what the trace compares with the model: with `fill` every byte of the dump, else those that its loads
    wrote, and the outputs.
    """
    a = suite.arrays
    if int(a["status"][case]) != again.status:
        return f"case {case}: recorded was CUDA error {int(a['status'][case])}, now {again.status} (0 is none)"
    if again.status:
        return ""
    begin = int(a["dump_address"][case])
    seen = SmemDump(suite).written(case)
    for what, old, new, mask, first in (
        ("shared", suite.ragged("dump", case), again.dump, seen, begin),
        ("outputs", suite.ragged("after", case), again.after, slice(None), 0),
    ):
        wrong = np.flatnonzero((old != new)[mask]) if len(old) == len(new) else np.zeros(1, np.int64)
        if wrong.size:
            at = int(np.flatnonzero(mask)[wrong[0]]) if isinstance(mask, np.ndarray) else int(wrong[0])
            return f"case {case}: {wrong.size:,} bytes of {what} differ, the first at {first + at:#x}: recorded {int(old[at]):#04x}, now {int(new[at]):#04x}"
    return ""
