"""The door for PyTorch: CPU tensors stand for device tensors, and `torch.cuda` answers for the chosen card.

A tensor made with `device="cuda"`, moved there, or computed from one that is there, is a CPU tensor whose storage is marked: `tensor.device` says
cuda:0, `.cpu()` copies it to the host. The memory of a marked storage is the device's, without a copy, as long as the storage lives: a kernel's
access behind it is X001 and tells the tensor's type, shape and the line that made it. What torch would launch itself runs on the CPU.

Marks come from a mode for torch's functions of the thread that called `install`; what torch's C++ makes by itself, such as gradients on their way,
is taken for the device's while backward runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from smemsim.errors import InputError
from smemsim.virtual import process
from smemsim.virtual.device import CudaError, Event, GraphExec, Stream

__all__ = ["Tensors", "install", "tensors"]


MARK = "_smemsim_place"  # an attribute of a torch.UntypedStorage
CUDA, CPU, PINNED = "cuda", "cpu", "pinned"
CUDA_VERSION = "13.0"


class _Place:
    """Where a storage lies: on the device ("cuda"), the host ("cpu"), or in pinned memory of the host, with the bytes it had when marked."""

    __slots__ = ("__weakref__", "address", "is_bound", "name", "place", "size", "watch")

    def __init__(self, place: str, name: str) -> None:
        self.place, self.name, self.address, self.size, self.is_bound = place, name, 0, 0, False
        self.watch: Any = None  # the weak reference that tells when the storage dies


class Tensors:
    """The storages of this process's tensors that are the device's memory."""

    def __init__(self) -> None:
        self.live: dict[int, _Place] = {}  # by address
        self._new: dict[int, _Place] = {}  # not known to the device yet
        self.bytes = self.most_bytes = 0

    def mark(self, tensor: Any, place: str, made_by: str = "") -> None:
        """Say where a tensor's storage is; one that is marked keeps its mark, and is looked at again, since it may have been resized."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse, or a wrapper without memory
            return
        known: _Place | None = getattr(storage, MARK, None)
        if known is None:
            known = _Place(place, _described(tensor, made_by) if place != CPU else "")
            setattr(storage, MARK, known)
            if place != CPU:
                known.watch = weakref.ref(storage, functools.partial(self._forget, known))
        if known.place != CPU and tensor.device.type == "cpu":
            self._follow(known, storage)

    def place(self, tensor: Any) -> str:
        """ "cuda", "cpu" or "pinned". Unmarked ones are the host's, but for what autograd makes while backward runs."""
        import torch

        try:
            known: _Place | None = getattr(tensor.untyped_storage(), MARK, None)
        except (NotImplementedError, RuntimeError):
            return CPU
        if known is not None:
            return known.place
        return CUDA if torch._C._current_graph_task_id() != -1 else CPU

    def show(self) -> None:
        """Make the memory of all tensors known to the device: before a launch."""
        if not self._new:
            return
        device = process.device()
        for address, place in self._new.items():
            try:
                device.bind_address(address, place.size, name=place.name)
            except InputError:  # two storages share bytes, as torch.from_dlpack makes them: the device knows those already
                continue
            place.is_bound = True
        self._new.clear()

    def _follow(self, place: _Place, storage: Any) -> None:
        """Note where a storage is now."""
        address, size = storage.data_ptr(), storage.nbytes()
        if (address, size) == (place.address, place.size):
            return
        self._forget(place)
        if not size or not address:
            return
        if (other := self.live.get(address)) is not None:
            self._forget(other)
        place.address, place.size = address, size
        self.live[address] = self._new[address] = place
        self.bytes += size
        self.most_bytes = max(self.most_bytes, self.bytes)

    def _forget(self, place: _Place, _: Any = None) -> None:
        """A storage is gone, or has moved."""
        if self.live.get(place.address) is place:
            del self.live[place.address]
            self._new.pop(place.address, None)
            self.bytes -= place.size
        if place.is_bound:
            with contextlib.suppress(CudaError):
                process.device().unbind(place.address)
        place.address = place.size = 0
        place.is_bound = False


tensors = Tensors()


def _described(tensor: Any, made_by: str) -> str:
    """`file.py:12 (torch.empty, float32[128, 64])`: who made a tensor."""
    shape = ", ".join(map(str, tensor.shape))
    where = "a place unknown"
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if "/torch/" not in path and "/smemsim/virtual/" not in path:
            where = f"{path}:{frame.f_lineno}"
            break
        frame = frame.f_back  # type: ignore[assignment]
    return f"{where} ({made_by or 'a tensor'}, {str(tensor.dtype).removeprefix('torch.')}[{shape}])"


# ---- What torch's functions do with devices


def _is_cuda(device: Any) -> bool | None:
    """Does a `device` argument mean the card? None for devices of other kinds, such as "meta"."""
    import torch

    if isinstance(device, int) and not isinstance(device, bool):
        return True
    kind = torch.device(device).type
    return True if kind == "cuda" else False if kind == "cpu" else None


def _tensors_in(value: Any, depth: int = 3) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)) and depth:
        for member in value:
            yield from _tensors_in(member, depth - 1)
    elif isinstance(value, dict) and depth:
        yield from _tensors_in(tuple(value.values()), depth - 1)


def _call(func: Any, args: Any, kwargs: Any) -> Any:
    """Any function of torch: "cuda" becomes "cpu", and what it returns is marked."""
    place = None
    if kwargs:
        kwargs = dict(kwargs)
        if kwargs.get("device") is not None and (on_card := _is_cuda(kwargs["device"])) is not None:
            kwargs["device"], place = "cpu", CUDA if on_card else CPU
        if kwargs.pop("pin_memory", False) and place != CUDA:
            place = PINNED
    elif func in _CREATING and _default.device is not None:
        place = CUDA
    out = func(*args, **kwargs)
    _mark_all(out, place, func, args, kwargs)
    return out


def _mark_all(out: Any, place: str | None, func: Any, args: Any, kwargs: Any) -> None:
    for tensor in _tensors_in(out):
        if place is None:
            inputs = {tensors.place(given) for given in _tensors_in((args, kwargs))}
            place = CUDA if CUDA in inputs else PINNED if PINNED in inputs and _shares(tensor, args) else CPU
        tensors.mark(tensor, place, getattr(func, "__name__", "").replace("__get__", "a gradient"))


def _shares(tensor: Any, args: Any) -> bool:
    """Is it a view of an argument?"""
    mine = tensor.untyped_storage().data_ptr()
    return any(mine == given.untyped_storage().data_ptr() for given in _tensors_in(args))


def _moved(tensor: Any, place: str, func: Any, dtype: Any = None, **more: Any) -> Any:
    """A tensor in another place: itself where it is there, else a copy."""
    import torch

    if dtype is not None:
        more["dtype"] = dtype
    if tensors.place(tensor) == place:
        out = torch.Tensor.to(tensor, **more) if more else tensor
    else:
        out = torch.Tensor.to(tensor, **{"dtype": tensor.dtype, **more, "copy": True})
    tensors.mark(out, place, getattr(func, "__name__", ""))
    return out


def _to(func: Any, args: Any, kwargs: Any) -> Any:
    """`Tensor.to` in its three forms."""
    import torch

    tensor, *rest = args
    more = {key: value for key, value in kwargs.items() if key not in ("device", "other")}
    device = kwargs.get("device")
    other = kwargs.get("other")
    flags = []
    for n, value in enumerate(rest):
        if isinstance(value, torch.Tensor):
            other = value
        elif isinstance(value, torch.dtype):
            more["dtype"] = value
        elif isinstance(value, (str, torch.device)) or (n == 0 and isinstance(value, int) and not isinstance(value, bool)):
            device = value
        elif isinstance(value, bool):
            flags.append(value)
    more.update(zip(("non_blocking", "copy"), flags, strict=False))
    if other is not None:
        more.setdefault("dtype", other.dtype)
        device = CUDA if tensors.place(other) == CUDA else CPU
    if device is None or (on_card := _is_cuda(device)) is None:
        return _call(func, args, kwargs)
    return _moved(tensor, CUDA if on_card else CPU, func, **more)


def _type(func: Any, args: Any, kwargs: Any) -> Any:
    """`Tensor.type`: names of types say where a tensor is."""
    if len(args) == 1 and not kwargs:
        name = func(*args)
        return name.replace("torch.", "torch.cuda.", 1) if tensors.place(args[0]) == CUDA else name
    return _call(func, args, kwargs)


def _numpy(func: Any, args: Any, kwargs: Any) -> Any:
    if tensors.place(args[0]) == CUDA and not kwargs.get("force"):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.")
    return func(*args, **kwargs)


def _scaled_mm(func: Any, args: Any, kwargs: Any) -> Any:
    """`torch._scaled_mm`; of 4-bit floats with scales of blocks, which the CPU's lacks, in fp32."""
    import torch

    if args[0].dtype is not getattr(torch, "float4_e2m1fn_x2", None):
        return _call(func, args, kwargs)
    given = dict(zip(("a", "b", "scale_a", "scale_b", "bias", "scale_result", "out_dtype"), args, strict=False)) | kwargs
    a, b = (_scaled(_e2m1(x), scale) for x, scale in ((given["a"], given["scale_a"]), (given["b"].t(), given["scale_b"])))
    out = a @ b.t()
    if given.get("bias") is not None:
        out = out + given["bias"].float()
    out = out.to(given.get("out_dtype") or torch.bfloat16)
    tensors.mark(out, tensors.place(args[0]), "_scaled_mm")
    return out


def _e2m1(packed: Any) -> Any:
    """Values of 4-bit floats, two a byte, the lower bits first."""
    import torch

    raw = packed.contiguous().view(torch.uint8).long()
    positive = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    return torch.stack([torch.cat([positive, -positive])[raw >> shift & 15] for shift in (0, 4)], -1).flatten(-2)


def _scaled(values: Any, scales: Any) -> Any:
    """Values times the scales of their blocks of 16 (e4m3) or 32 (e8m0), which lie in tiles of 128 rows by 4, 32 rows of 4 by 4 (cuBLAS 13, 3.1.4.4)."""
    import torch

    size = 16 if scales.dtype is torch.float8_e4m3fn else 32
    rows, columns = values.shape[0], values.shape[1] // size
    tiles = scales.float().reshape(-(-rows // 128), -(-columns // 4), 32, 4, 4)
    whole = tiles.permute(0, 3, 2, 1, 4).reshape(tiles.shape[0] * 128, tiles.shape[1] * 4)
    return values * whole[:rows, :columns].repeat_interleave(size, 1)


def _device_of(func: Any, args: Any, kwargs: Any) -> Any:
    import torch

    real = func(*args)
    return torch.device("cuda", 0) if real.type == "cpu" and tensors.place(args[0]) == CUDA else real


def _cases() -> dict[Any, Callable[[Any, Any, Any], Any]]:
    """What is more than `_call`, by function."""
    import torch

    tensor: Any = torch.Tensor
    return {
        tensor.device.__get__: _device_of,
        tensor.is_cuda.__get__: lambda f, a, k: tensors.place(a[0]) == CUDA,
        tensor.is_cpu.__get__: lambda f, a, k: f(*a) and tensors.place(a[0]) != CUDA,
        tensor.get_device: lambda f, a, k: 0 if tensors.place(a[0]) == CUDA else -1,
        tensor.is_pinned: lambda f, a, k: tensors.place(a[0]) == PINNED,
        tensor.pin_memory: lambda f, a, k: _moved(a[0], PINNED, f),
        tensor.to: _to,
        torch._scaled_mm: _scaled_mm,
        tensor.cuda: lambda f, a, k: _moved(a[0], CUDA, f),
        tensor.cpu: lambda f, a, k: _moved(a[0], CPU, f),
        tensor.type: _type,
        tensor.numpy: _numpy,
        tensor.record_stream: lambda f, a, k: None,
        tensor.__dlpack_device__: lambda f, a, k: (2, 0) if tensors.place(a[0]) == CUDA else f(*a),
        torch.get_default_device: lambda f, a, k: _default.device or f(*a),
    }


class _Default(threading.local):
    """`torch.set_default_device`."""

    device: Any = None


_default = _Default()
_CREATING: set[Any] = set()


def _mode_class() -> Any:
    from torch.overrides import TorchFunctionMode

    cases = _cases()

    class DeviceMode(TorchFunctionMode):  # type: ignore[misc]
        """Lets "cuda" mean marked CPU tensors."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return cases.get(func, _call)(func, args, kwargs or {})

    return DeviceMode


# ---- torch.cuda


class _Streams:
    """The streams of `torch.cuda`, by their numbers; 0 is the default one."""

    def __init__(self) -> None:
        self.by_number: dict[int, Stream] = {0: Stream()}
        self.current = 0

    def new(self, priority: int) -> int:
        """The number of a new stream."""
        number = max(self.by_number) + 0x100
        self.by_number[number] = Stream(priority)
        return number

    def get(self, number: int) -> Stream:
        """A stream by its number; those from elsewhere are made when first met."""
        return self.by_number.setdefault(number, Stream())


streams = _Streams()


class CudaStream:
    """`torch.cuda.Stream`. All of a stream's work is over when it was issued."""

    def __init__(self, device: Any = None, priority: int = 0, *, stream_ptr: int | None = None, **_: Any) -> None:
        self.cuda_stream = streams.new(priority) if stream_ptr is None else int(stream_ptr)
        self.priority, self.device_index, self.device_type = priority, 0, 1
        self.stream_id = self.cuda_stream
        self._before: list[int] = []

    @property
    def device(self) -> Any:
        """cuda:0."""
        import torch

        return torch.device("cuda", 0)

    def query(self) -> bool:
        """Is its work over? Always."""
        return True

    def synchronize(self) -> None:
        """RuntimeError if a kernel trapped."""
        _synchronize()

    def wait_stream(self, stream: Any) -> None:
        """Work of this stream runs after that of another one."""
        self.wait_event(stream.record_event())

    def wait_event(self, event: Any) -> None:
        """Work of this stream runs after an event."""
        process.device().wait(streams.get(self.cuda_stream), event.event)

    def record_event(self, event: Any = None) -> Any:
        """Record an event here."""
        event = event or CudaEvent()
        event.record(self)
        return event

    def __enter__(self) -> CudaStream:
        self._before.append(streams.current)
        streams.current = self.cuda_stream
        return self

    def __exit__(self, *_: object) -> None:
        streams.current = self._before.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CudaStream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)


class CudaEvent:
    """`torch.cuda.Event`. Times are those of the simulation."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False) -> None:
        self.event = Event()

    @property
    def cuda_event(self) -> int:
        """Its number."""
        return id(self.event)

    def record(self, stream: Any = None) -> None:
        """Record it in a stream, the current one if none is given."""
        process.device().record(self.event, streams.get(streams.current if stream is None else stream.cuda_stream))

    def wait(self, stream: Any = None) -> None:
        """A stream waits for it."""
        process.device().wait(streams.get(streams.current if stream is None else stream.cuda_stream), self.event)

    def query(self) -> bool:
        """Has it come? Always."""
        return True

    def synchronize(self) -> None:
        """RuntimeError if a kernel trapped."""
        _synchronize()

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds of the simulation."""
        return process.device().elapsed(self.event, end.event)


class CudaGraph:
    """`torch.cuda.CUDAGraph`: kernels are captured and replayed; what torch runs itself runs at capture, and is not replayed."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph: GraphExec | None = None

    def capture_begin(self, *_: Any, **__: Any) -> None:
        """The current stream's kernels become the graph."""
        self._stream = streams.get(streams.current)
        process.device().begin_capture(self._stream)

    def capture_end(self) -> None:
        """The graph is complete."""
        self._graph = GraphExec(process.device().end_capture(self._stream, streams.by_number.values()))

    def instantiate(self) -> None:
        """Nothing is left to do."""

    def replay(self) -> None:
        """Run the graph's kernels."""
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        tensors.show()
        process.device().launch_graph(self._graph, streams.get(streams.current))

    def reset(self) -> None:
        """Forget the graph."""
        self._graph = None

    def pool(self) -> tuple[int, int]:
        """A name of a pool."""
        return (0, 0)


class _Capture:
    """`torch.cuda.graph`."""

    def __init__(self, cuda_graph: CudaGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global") -> None:
        self.graph, self.stream = cuda_graph, stream or CudaStream()

    def __enter__(self) -> CudaGraph:
        self.stream.__enter__()
        self.graph.capture_begin()
        return self.graph

    def __exit__(self, *_: object) -> None:
        try:
            self.graph.capture_end()
        finally:
            self.stream.__exit__()


class _DeviceContext:
    """`torch.cuda.device`."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _synchronize(device: Any = None) -> None:
    """RuntimeError if a kernel trapped."""
    try:
        process.device().synchronize(streams.get(streams.current))
    except CudaError as e:
        raise accelerator_error(e) from None


def accelerator_error(e: CudaError) -> Exception:
    """What torch raises for an error of CUDA."""
    import torch

    kind: Any = getattr(torch, "AcceleratorError", RuntimeError)
    try:
        return kind(f"CUDA error: {e}")  # type: ignore[no-any-return]
    except TypeError:
        return RuntimeError(f"CUDA error: {e}")


def _properties(device: Any = None) -> Any:
    card, made = process.card(), process.device()
    named = card.named
    return types.SimpleNamespace(
        name=card.name, major=named("compute_capability_major"), minor=named("compute_capability_minor"), total_memory=made.memory_bytes,
        multi_processor_count=made.multiprocessors, warp_size=named("warp_size"), L2_cache_size=named("l2_cache_size"),
        max_threads_per_block=named("max_threads_per_block"), max_threads_per_multi_processor=named("max_threads_per_multiprocessor"),
        regs_per_multiprocessor=named("max_registers_per_multiprocessor"), shared_memory_per_block=named("max_shared_memory_per_block"),
        shared_memory_per_block_optin=named("max_shared_memory_per_block_optin"), clock_rate=named("clock_rate"),
        shared_memory_per_multiprocessor=named("max_shared_memory_per_multiprocessor"), memory_clock_rate=named("memory_clock_rate"),
        memory_bus_width=named("global_memory_bus_width"), is_integrated=0, is_multi_gpu_board=0, gcnArchName="", uuid=made.uuid.hex(),
        pci_bus_id=named("pci_bus_id"), pci_device_id=named("pci_device_id"), pci_domain_id=named("pci_domain_id"),
    )  # fmt: skip


def _capability(device: Any = None) -> tuple[int, int]:
    named = process.card().named
    return named("compute_capability_major"), named("compute_capability_minor")


def _memory_info(device: Any = None) -> tuple[int, int]:
    free, total = process.device().memory_info()
    return free - tensors.bytes, total


def _reset_peak(device: Any = None) -> None:
    tensors.most_bytes = tensors.bytes


def _cuda_names() -> dict[str, Any]:
    """What `torch.cuda` has, for the card."""
    import torch

    numbers = torch.default_generator

    def nothing(*_: Any, **__: Any) -> None:
        return None

    def current(device: Any = None) -> CudaStream:
        return CudaStream(stream_ptr=streams.current)

    def set_stream(stream: Any) -> None:
        if stream is not None:
            streams.current = stream.cuda_stream

    return {
        "is_available": lambda: True, "is_initialized": lambda: True, "init": nothing, "_lazy_init": nothing, "device_count": lambda: 1,
        "current_device": lambda: 0, "set_device": nothing, "get_device_capability": _capability, "get_device_properties": _properties,
        "get_device_name": lambda device=None: process.card().name, "mem_get_info": _memory_info, "synchronize": _synchronize,
        "memory_allocated": lambda device=None: tensors.bytes, "max_memory_allocated": lambda device=None: tensors.most_bytes,
        "memory_reserved": lambda device=None: tensors.bytes, "max_memory_reserved": lambda device=None: tensors.most_bytes,
        "reset_peak_memory_stats": _reset_peak, "reset_max_memory_allocated": _reset_peak, "memory_stats": lambda device=None: {},
        "empty_cache": nothing, "ipc_collect": nothing, "Stream": CudaStream, "Event": CudaEvent, "CUDAGraph": CudaGraph, "graph": _Capture,
        "ExternalStream": lambda stream_ptr, device=None, **_: CudaStream(stream_ptr=stream_ptr), "device": _DeviceContext,
        "device_of": _DeviceContext, "current_stream": current, "default_stream": lambda device=None: CudaStream(stream_ptr=0),
        "stream": lambda stream: contextlib.nullcontext() if stream is None else stream, "set_stream": set_stream,
        "graph_pool_handle": lambda: (0, 0), "is_current_stream_capturing": lambda: streams.get(streams.current).graph is not None,
        "manual_seed": numbers.manual_seed, "manual_seed_all": numbers.manual_seed, "seed": numbers.seed, "seed_all": numbers.seed,
        "initial_seed": numbers.initial_seed, "get_rng_state": lambda device=None: numbers.get_state(),
        "set_rng_state": lambda state, device=None: numbers.set_state(state), "is_bf16_supported": lambda *_, **__: True,
        "is_tf32_supported": lambda: True, "get_arch_list": lambda: [process.choose().rstrip("af")],
        "can_device_access_peer": lambda *_: False, "default_generators": (numbers,),
    }  # fmt: skip


def _generator(real: Any) -> Any:
    """A `torch.Generator` for which the card's numbers are the CPU's."""
    import torch

    class Generator(real):  # type: ignore[misc]
        """Random numbers; those of the card are the CPU's."""

        def __new__(cls, device: Any = "cpu") -> Any:
            made = super().__new__(cls, "cpu" if _is_cuda(device) else device)
            made.place = torch.device("cuda", 0) if _is_cuda(device) else torch.device(device)
            return made

        @property
        def device(self) -> Any:
            """Where it was made for."""
            return self.place

    return Generator


# ---- DLPack


# Where device_type is, in DLManagedTensor and DLManagedTensorVersioned (dlpack.h 1.0).
_DEVICE_AT = {b"dltensor": 8, b"dltensor_versioned": 40}
KDL_CPU, KDL_CUDA = 1, 2


def _tell_dlpack() -> None:
    """Tensors of the card say in DLPack that they are device memory. TVM FFI asks torch's C++ otherwise: that way is closed."""
    import torch

    of_cpu, to_cpu = torch.Tensor.__dlpack__, torch.from_dlpack

    def dlpack(self: Any, *, stream: Any = None, **named: Any) -> Any:
        if tensors.place(self) != CUDA:
            return of_cpu(self, stream=stream, **named)
        return _on(KDL_CUDA, of_cpu(self.detach(), **{key: value for key, value in named.items() if key == "max_version"}))

    def from_dlpack(given: Any, **named: Any) -> Any:
        if hasattr(given, "__dlpack_device__") and given.__dlpack_device__()[0] != KDL_CUDA:
            return to_cpu(given, **named)
        capsule = given.__dlpack__() if hasattr(given, "__dlpack__") else given
        if _kind(capsule).value != KDL_CUDA:
            return to_cpu(given, **named)
        out = torch._C._from_dlpack(_on(KDL_CPU, capsule))
        tensors.mark(out, CUDA, "from_dlpack")
        return out

    torch.Tensor.__dlpack__ = dlpack
    torch.from_dlpack = torch.utils.dlpack.from_dlpack = from_dlpack
    torch.to_dlpack = torch.utils.dlpack.to_dlpack = dlpack
    for name in ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"):
        if hasattr(torch.Tensor, name):
            delattr(torch.Tensor, name)
    torch._C._cuda_getCurrentRawStream = lambda device: streams.current  # TVM FFI asks this


def _on(device: int, capsule: Any) -> Any:
    """A DLPack capsule that says its memory is on a device of this kind."""
    _kind(capsule).value = device
    return capsule


def _kind(capsule: Any) -> ctypes.c_int32:
    name = _capsule("Name", ctypes.c_char_p, capsule)
    return ctypes.c_int32.from_address(_capsule("Pointer", ctypes.c_void_p, capsule, name) + _DEVICE_AT[name])


def _capsule(what: str, gives: Any, capsule: Any, *more: Any) -> Any:
    """PyCapsule_GetName and PyCapsule_GetPointer."""
    get = ctypes.PYFUNCTYPE(gives, ctypes.py_object, *[ctypes.c_char_p] * len(more))((f"PyCapsule_Get{what}", ctypes.pythonapi))
    return get(capsule, *more)


@functools.cache
def install(arch: str | None = None) -> None:
    """Let "cuda" in torch mean the device of this process, the card of an architecture or the one chosen already. Not undone.

    Raises InputError where nothing says which card.
    """
    process.choose(arch)
    _open()


def _profile_the_cpu() -> None:
    """Let torch.profiler record what runs on the CPU where the card's work is asked for: of kernels, the summary of the device tells."""
    import torch.autograd.profiler as of_torch

    real = of_torch.profile.__init__

    @functools.wraps(real)
    def init(self: Any, *args: Any, **named: Any) -> None:
        if named.get("use_device") == CUDA:
            named |= {"use_device": None, "use_cpu": True}
        real(self, *args, **named)

    of_torch.profile.__init__ = init  # type: ignore[method-assign]


def _own(name: str, value: Any) -> Any:
    """A function of `torch.cuda` that no other name there has: torch._dynamo refuses to be imported where two names with different rules share one."""
    if isinstance(value, type) or not callable(value):
        return value

    def function(*args: Any, **kwargs: Any) -> Any:
        return value(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    return function


@functools.cache
def _open() -> None:
    """Change torch, once."""
    import torch
    import torch.utils._device as of_devices

    for name, value in _cuda_names().items():
        setattr(torch.cuda, name, _own(name, value))
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(torch.cuda.nvtx, name, lambda *_, **__: 0)
    torch.version.cuda = CUDA_VERSION
    torch.Generator = _generator(torch.Generator)
    _CREATING.update(of_devices._device_constructors())
    mode = _mode_class()()
    mode.__enter__()
    _keep_in_backward(mode)
    _profile_the_cpu()
    _tell_dlpack()
    real_default = torch.set_default_device

    def set_default_device(device: Any) -> None:
        on_card = device is not None and _is_cuda(device)
        _default.device = torch.device("cuda", 0) if on_card else None
        real_default(None if on_card else device)

    torch.set_default_device = set_default_device
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        accelerator.is_available, accelerator.device_count = (lambda: True), (lambda: 1)
        accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")
        accelerator.synchronize, accelerator.current_device_index = _synchronize, lambda: 0


def _keep_in_backward(mode: Any) -> None:
    """Functions that a program defines for backward see the card too: torch runs them without modes."""
    import torch

    engine = torch.autograd._engine_run_backward

    @functools.wraps(engine)
    def run(*args: Any, **kwargs: Any) -> Any:
        if any(one is mode for one in torch.overrides._get_current_function_mode_stack()):
            return engine(*args, **kwargs)
        with mode:
            return engine(*args, **kwargs)

    torch.autograd._engine_run_backward = run
