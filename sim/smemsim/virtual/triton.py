"""The door for Triton and Gluon: a driver that Triton takes for NVIDIA's, and that launches on the device of this
process.

Triton's own launcher stays: it flattens arguments, makes scratch memory and descriptors, and calls hooks. What it calls
of the CUDA driver is here, as Triton 3.7 and later call it; `triton_compiled.py` has what 3.3 to 3.6 do otherwise. The
PTX is that of the compiled kernel, or what its cubin holds.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import itertools
import math
import operator
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from smemsim.core.spec.launches import DEFAULT_SHARED
from smemsim.core.spec.ptx import WARP_SIZE
from smemsim.diagnosis.triton import as_compiled, map_arguments, parameter_names
from smemsim.run.engine.arrays import HostMap
from smemsim.virtual import process
from smemsim.virtual.benchmarks import call_once
from smemsim.virtual.code import Function, Module
from smemsim.virtual.cublas import CublasLt
from smemsim.virtual.errors import CudaError
from smemsim.virtual.fatbin import registers_of
from smemsim.virtual.policy import FindingsError, Policy
from smemsim.virtual.triton_compiled import Argument, decomposed_flags, map_fillers, map_of, replace

__all__ = ["Utils", "install"]


DYNAMIC_SHARED, LARGE_CLUSTERS = 8, 14  # CUfunction_attribute
LARGE_CLUSTER = 16  # CTAs, for which Triton's driver sets LARGE_CLUSTERS
INTEGERS = {"i1": "<i", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q", "u1": "<I", "u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q"}


ARGUMENT_KINDS = {f"ARG_{name}": getattr(Argument, name) for name in ("CONSTEXPR", "KERNEL", "TUPLE")}


class _Loading(threading.local):
    """The kernel that a thread is loading."""

    ptx: str | None = None
    names: tuple[str, ...] = ()  # of its parameters


class Utils:
    """What Triton calls of the CUDA driver, by the names of its `CudaUtils`."""

    def __init__(self) -> None:
        self.modules: dict[int, Module] = {}
        self.functions: dict[int, Function] = {}
        self.loading = _Loading()
        self._numbers = itertools.count(1)  # of modules
        self.is_measuring = False  # launches are left out
        self.tells_threads = True  # `load_binary` tells how many threads a kernel can have, as from Triton 3.4 on

    # Properties

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Some properties."""
        named, made = process.card().named, process.device()
        return {
            "max_shared_mem": named("max_shared_memory_per_block_optin"), "max_num_regs": named("max_registers_per_block"),
            "multiprocessor_count": made.multiprocessors, "warpSize": named("warp_size"), "sm_clock_rate": named("clock_rate"),
            "mem_clock_rate": named("memory_clock_rate"), "mem_bus_width": named("global_memory_bus_width"),
        }  # fmt: skip

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """(10, 0) of an sm_100a."""
        named = process.card().named
        return named("compute_capability_major"), named("compute_capability_minor")

    def get_current_device(self) -> int:
        """There is one device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_default_stream(self, device: int = 0) -> int:
        """CUDA's default stream."""
        return 0

    def is_stream_capturing(self, stream: int) -> bool:
        """Is a stream captured into a graph?"""
        found = _stream(stream)
        return found is not None and found.graph is not None

    def set_printf_fifo_size(self, size: int) -> None:
        """Accepted and ignored: everything that kernels print is printed."""

    # Code

    def load_binary(self, name: str, cubin: bytes, shared: int, device: int) -> tuple[int, ...]:
        """Load a kernel: (module, function, registers, spilled registers, most threads). RuntimeError as Triton gives
        it.
        """
        with _errors():
            module = process.device().load(self.loading.ptx or cubin)
            function = module.function(name)
            function.parameter_names, function.counts_elements = self.loading.names, True
            if shared > DEFAULT_SHARED:
                most = process.card().named("max_shared_memory_per_block_optin") - function.static_shared
                function.set_attribute(DYNAMIC_SHARED, most)
        registers, local = registers_of(cubin, name)
        number = next(self._numbers)
        self.modules[number], self.functions[number] = module, function
        return (number, number, registers, local // 4, function.most_threads)[: 5 if self.tells_threads else 4]

    def unload_module(self, module: int) -> None:
        """A kernel is not needed any more."""
        found = self.modules.pop(module, None)
        self.functions.pop(module, None)
        if found is not None and not sys.is_finalizing():  # then the device's memory may be gone already
            process.device().unload(found)

    def cuOccupancyMaxActiveClusters(self, function: int, shared: int, x: int, y: int = 1, z: int = 1) -> int:  # noqa: N802
        """Clusters that the card holds at once. Up to Triton 3.5 they have three dimensions."""
        f = self.functions[function]
        with _errors():
            f.allows_large_clusters = True
            return process.device().occupancy.clusters_at_once(f, f.most_threads, shared, x * y * z)

    # Arguments

    def build_signature_metadata(self, signature: Sequence[str]) -> tuple[str, ...]:
        """The types of a kernel's parameters, for `launch`."""
        return tuple(signature)

    def fill_tma_descriptor_tiled(
        self, address: int, swizzle: int, element_bytes: int, data_type: int, block: Any, shape: Any, strides: Any, padding: int
    ) -> HostMap:
        """A tensor map in tiled mode. RuntimeError where the driver refuses it."""
        made = map_arguments(address, swizzle, element_bytes, data_type, block, shape, strides, padding)
        return _map(*made, shape, strides)

    def fill_tma_descriptor_im2col(
        self, address: int, swizzle: int, element_bytes: int, data_type: int, block: Any, shape: Any, strides: Any, padding: int,
        lower: Any, upper: Any, *more: Any,
    ) -> HostMap:  # fmt: skip
        """A tensor map in im2col mode. RuntimeError where the driver refuses it. Triton 3.7 gives channels and pixels
        before the elements' strides.
        """
        *sizes, element_strides = more
        block = sizes[::-1] or block
        made = map_arguments(address, swizzle, element_bytes, data_type, block, shape, strides, padding, lower, upper, element_strides)
        return _map(*made, shape, strides)

    # Launches

    def launch(
        self, x: int, y: int, z: int, stream: int, function: int, cooperative: bool, dependent: bool, sizes: tuple[int, ...],
        metadata: Any, enter: Callable[[Any], Any] | None, leave: Callable[[Any], Any] | None, scratch: Any, profile: Any,
        annotations: Sequence[Argument], signature: Sequence[str], arguments: Sequence[Any], *, cluster: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """Run a kernel. RuntimeError for what the driver refuses, FindingsError where the policy is to raise.

        `cluster` are its CTAs in three dimensions, else the second of `sizes` is their number.
        """
        if enter is not None:
            enter(metadata)
        flat = list(_flat(annotations, arguments))
        values = [*zip(signature, flat, strict=True), ("*i8", scratch), ("*i8", profile)]
        packed = [_packed(kind, value) for kind, value in values]
        if x * y * z > 0 and not self.is_measuring:
            ctas = cluster or (sizes[1], 1, 1)
            self._run(self.functions[function], (x, y, z), sizes, ctas, packed, stream, bool(cooperative), bool(dependent))
        if leave is not None:
            leave(metadata)

    def _run(
        self, f: Function, grid: tuple[int, int, int], sizes: tuple[int, ...], cluster: tuple[int, ...], packed: list[bytes], stream: int,
        cooperative: bool, dependent: bool,
    ) -> None:  # fmt: skip
        warps, ctas, shared = sizes[:3]  # Meta's Triton has a preferred cluster after them, which a card need not take
        if ctas == LARGE_CLUSTER:
            f.allows_large_clusters = True
        if "torch" in sys.modules:
            from smemsim.virtual.torch_tensors import tensors

            tensors.show()
        given = [raw if len(raw) == p.size else raw[: p.size].ljust(p.size, b"\0") for raw, p in zip(packed, f.parameters, strict=False)]
        given = [
            raw.called(name) if isinstance(raw, HostMap) else raw
            for raw, name in itertools.zip_longest(given, f.parameter_names[: len(given)])
        ]
        block = f.directives.get("reqntid") or (WARP_SIZE * warps, 1, 1)
        if ctas != 1:
            x, y, z = (n * of_cluster for n, of_cluster in zip(grid, cluster, strict=True))
            grid = x, y, z
        try:
            process.device().launch(
                f, grid, block, given, cluster=cluster if ctas != 1 else None, shared_bytes=shared,
                stream=_stream(stream), cooperative=cooperative, dependent=dependent,
            )  # fmt: skip
        except CudaError as e:
            raise RuntimeError(f"Triton Error [CUDA]: {e}") from None
        except (FindingsError, KeyboardInterrupt) as e:  # without the lines of the simulator
            raise e.with_traceback(None) from None


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Errors of CUDA as Triton raises them."""
    try:
        yield
    except CudaError as e:
        raise RuntimeError(f"Triton Error [CUDA]: {e}") from None


def _stream(number: int | None) -> Any:
    """A stream by its number: those are torch's."""
    if not number or "torch" not in sys.modules:
        return None
    from smemsim.virtual.torch_cuda import streams

    return streams.get(number)


def _map(call: str, arguments: dict[str, Any], shape: Any, strides: Any) -> HostMap:
    try:
        return HostMap.of(process.device().encode(call, **arguments), "", shape, strides)
    except CudaError as e:
        order = "; global_dim and box_dim have the descriptor's last dimension first, global_strides are bytes" if len(shape) > 1 else ""
        raise RuntimeError(f"Triton Error [CUDA]: Failed to create tensor map descriptor: {e.reason or e}{order}") from None


def _flat(annotations: Sequence[Argument], arguments: Sequence[Any]) -> Iterator[Any]:
    """The arguments without constexprs, members of tuples one after the other.

    As in Triton's launcher constexprs at the end may be missing, which `compiled[grid](...)` leaves to its caller, and
    more than there are change nothing. TypeError where an argument of the kernel is missing, which Triton's launcher
    reads from wherever.
    """
    given = list(arguments)
    for n, about in enumerate(annotations):
        if about.type == ARGUMENT_KINDS["ARG_CONSTEXPR"]:
            continue
        if n >= len(given):
            raise TypeError(f"kernel got {len(given)} arguments, and argument {n} of its signature is no constexpr: pass that too")
        if about.type == ARGUMENT_KINDS["ARG_TUPLE"]:
            yield from _flat(about.nested_tuple, given[n])
        else:
            yield given[n]


def _packed(kind: str, value: Any) -> bytes:
    """An argument's bytes. TypeError, ValueError and OverflowError as Triton's launcher gives them."""
    if kind.startswith("*"):
        return _pointer(value).to_bytes(8, "little")
    if kind == "nvTmaDesc":
        return map_of(value)
    if kind in INTEGERS:
        try:
            return struct.pack(INTEGERS[kind], value)
        except struct.error:
            return (operator.index(value) & (1 << 64) - 1).to_bytes(8, "little")
    if kind == "fp64":
        return struct.pack("<d", value)
    if kind == "fp16":
        return struct.pack("<e", value)
    single = bytes(ctypes.c_float(value))  # as a cast in C: what is too large is infinite
    return single[2:] if kind == "bf16" else single


def _pointer(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        return value & (1 << 64) - 1
    if not hasattr(value, "data_ptr"):
        raise TypeError("Pointer argument must be either uint64 or have data_ptr method")
    address = value.data_ptr()
    if not isinstance(address, int):
        raise TypeError("data_ptr method of Pointer object must return 64-bit int")
    if address and _is_on_host(value):
        raise ValueError("Pointer argument cannot be accessed from Triton (cpu tensor?)")
    return address


def _is_on_host(value: Any) -> bool:
    """Is it a tensor of the host, whose memory is not pinned?"""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    base = getattr(value, "base", value)
    if not isinstance(base, torch.Tensor):
        return False
    from smemsim.virtual.torch_tensors import CPU, tensors

    return tensors.place(base) == CPU


# ---- Memory for programs without torch, by the names of `triton._C.libtriton.nvidia`


def device_malloc(size: int) -> int:
    """The address of `size` bytes. RuntimeError where there is no room."""
    with _errors():
        return process.device().allocate(size)


def device_free(address: int) -> None:
    """Give back what `device_malloc` gave."""
    with _errors():
        process.device().free(address)


def copy_host_to_device(address: int, data: bytes) -> None:
    """Copy bytes to the device."""
    with _errors():
        device = process.device()
        device.memory.view(address, len(data))[:] = memoryview(data).cast("B")
        device.taint.wrote(address, len(data))


def copy_device_to_host(address: int, size: int) -> bytes:
    """Copy bytes from the device."""
    with _errors():
        return bytes(process.device().view(address, size))


def synchronize() -> None:
    """Wait for the device. RuntimeError with the error of a kernel that trapped."""
    with _errors():
        process.device().synchronize()


# ---- The driver, and what measures


def _driver_class(utils: Utils) -> Any:
    from triton.backends.nvidia import driver as nvidia

    class VirtualDriver(nvidia.CudaDriver):  # type: ignore[misc]
        """Triton's driver for NVIDIA's cards, on the device of this process."""

        def __init__(self) -> None:
            self.utils, self.launcher_cls = utils, nvidia.CudaLauncher
            self.get_device_capability = utils.get_device_capability
            self.get_current_device, self.set_current_device = utils.get_current_device, utils.set_current_device

        def get_current_stream(self, device: int = 0) -> int:
            """The number of torch's current stream."""
            if "torch" not in sys.modules:
                return 0
            from smemsim.virtual.torch_cuda import streams

            return streams.current

        @staticmethod
        def is_active() -> bool:
            """It is."""
            return True

        def get_benchmarker(self) -> Any:
            """The choice between configurations of the autotuner: the first one that compiles and fits."""
            return functools.partial(_measure, utils)

        def get_empty_cache_for_benchmark(self) -> Any:
            """There is no cache to be cleared."""
            import torch

            return torch.empty(1, dtype=torch.int, device="cuda")

    return VirtualDriver


def _measure(utils: Utils, call: Callable[[], Any], *, quantiles: Sequence[float] | None = None, **_: Any) -> Any:
    """Call a function without launching: every configuration takes a millisecond."""
    before, utils.is_measuring = utils.is_measuring, True
    try:
        call()
    finally:
        utils.is_measuring = before
    return [1.0] * len(quantiles) if quantiles is not None else 1.0


def _first_that_fits(prune: Callable[[Any, Any], list[Any]]) -> Callable[[Any, Any], list[Any]]:
    """Stands for `Autotuner.prune_configs`: one configuration is left, so that the others need not be compiled."""

    @functools.wraps(prune)
    def chosen(tuner: Any, given: dict[str, Any]) -> list[Any]:
        left = prune(tuner, given)
        measure = getattr(tuner, "_do_bench", None)
        # the program measures in its own way
        if measure is not None and getattr(measure, "__module__", None) != prune.__module__:
            return left
        tuner._do_bench = None  # what Triton makes of warmup, rep and use_cuda_graph
        for config in left[:-1]:
            times = tuner._bench(*tuner.nargs.values(), config=config, **given)
            if math.isfinite(times[0] if isinstance(times, list) else times):
                return [config]
        return left[-1:]

    return chosen


def _no_benchmark(mark: Any, *_: Any, return_df: bool = False, **__: Any) -> Any:
    """Stands for `run` of what `triton.testing.perf_report` makes: the speed of a simulation says nothing of a card."""
    marks = mark.benchmarks if isinstance(mark.benchmarks, (list, tuple)) else [mark.benchmarks]
    names = ", ".join(str(getattr(m, "plot_name", "")) for m in marks)
    process.device().tell(f"benchmark {names}: not run, the speed of a simulation says nothing of a card")
    return None


def install(arch: str | None = None, *, policy: Policy | None = None, multiprocessors: int | None = None) -> None:
    """Make Triton of this process launch on a virtual card: "sm_90a" is an H200, "sm_100a" a B200, "sm_103a" a B300. It
    cannot be undone.

    torch's "cuda" means that card from then on. `policy` has the options; default: the environment. `arch` may be in
    SMEMSIM_ARCH. `multiprocessors`: default: the card's own. Raises InputError if no card is given, or if Triton is
    not installed.
    """
    process.choose(arch, policy=policy, multiprocessors=multiprocessors)
    _open()


def _know_what_is_loaded(kernels: Any, utils: Utils, flags: int) -> None:
    """Tell `utils` of each kernel that Triton loads its PTX and the names of its parameters; `flags` are those of a
    descriptor without a map.
    """
    begin = kernels._init_handles
    utils.tells_threads = "n_max_threads" in begin.__code__.co_names

    @functools.wraps(begin)
    def load(kernel: Any) -> None:
        ptx = kernel.asm.get("ptx")
        utils.loading.ptx = as_compiled(ptx, kernel.src) if isinstance(ptx, str) else ptx
        utils.loading.names = parameter_names(
            getattr(kernel.src, "signature", {}), bool(getattr(kernel.metadata, "tensordesc_meta", None)), flags
        )
        try:
            begin(kernel)
        finally:
            utils.loading.ptx, utils.loading.names = None, ()

    kernels._init_handles = load


@functools.cache
def _open() -> None:
    """Change Triton, once."""
    utils = Utils()
    from triton import testing
    from triton._C import libtriton
    from triton.backends import backends
    from triton.backends.nvidia import driver as nvidia
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner

    _know_what_is_loaded(CompiledKernel, utils, decomposed_flags(nvidia))
    utils.__dict__ |= map_fillers(nvidia, utils.fill_tma_descriptor_tiled)
    replace(nvidia, utils.launch)
    for name, value in {"PyCUtensorMap": HostMap, "PyKernelArg": Argument, **ARGUMENT_KINDS}.items():
        if hasattr(nvidia, name):
            setattr(nvidia, name, value)
    nvidia.CudaDriver = _driver_class(utils)
    # for a driver that is made anew
    backends["nvidia"] = dataclasses.replace(backends["nvidia"], driver=nvidia.CudaDriver)
    made = nvidia.CudaDriver()
    setattr(driver, "_default" if hasattr(driver, "_default") else "default", made)
    driver.set_active(made)
    for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton"):
        if hasattr(testing, name):
            setattr(testing, name, call_once)
    testing.Mark.run = _no_benchmark
    Autotuner.prune_configs = _first_that_fits(Autotuner.prune_configs)
    of_compiler: Any = getattr(libtriton, "nvidia", None)
    if hasattr(of_compiler, "cublas"):
        of_compiler.cublas.CublasLt = CublasLt
    for help_without_torch in (device_malloc, device_free, copy_host_to_device, copy_device_to_host, synchronize):
        if hasattr(of_compiler, help_without_torch.__name__):
            setattr(of_compiler, help_without_torch.__name__, help_without_torch)
    torch = sys.modules.get("torch")
    if torch is not None and not getattr(
        torch.__spec__, "_initializing", False
    ):  # else torch is importing Triton, and its own door opens then
        from smemsim.virtual.torch import install as install_torch

        install_torch()
    elif torch is None:
        process.open_on_import({"torch": process.DOORS["torch"]})
