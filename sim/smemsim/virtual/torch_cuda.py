"""What `torch.cuda` answers for the card of this process: streams, events, graphs, memory, properties."""

from __future__ import annotations

import contextlib
import ctypes
import types
import uuid
from typing import Any

from smemsim.virtual import callers, process
from smemsim.virtual.errors import CudaError
from smemsim.virtual.streams import Event, Stream
from smemsim.virtual.torch_tensors import tensors

__all__ = ["CudaEvent", "CudaStream", "accelerator_error", "either", "is_cuda", "names", "streams", "synchronize"]


INVALID_DEVICE = 101  # CUDA_ERROR_INVALID_DEVICE


def is_cuda(device: Any) -> bool | None:
    """Does a `device` argument mean the card? None for devices of other kinds, such as "meta". RuntimeError for a
    second card.
    """
    import torch

    # a number means the accelerator's
    meant = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if meant.type == "cuda" and meant.index:
        raise accelerator_error(CudaError(INVALID_DEVICE, f"cuda:{meant.index}; there is one card, cuda:0"))
    return {"cuda": True, "cpu": False}.get(meant.type)


class _Streams:
    """The streams of `torch.cuda`, by their numbers; 0 is the default one."""

    def __init__(self) -> None:
        self.by_number: dict[int, Stream] = {0: Stream(is_default=True)}
        self.current = 0

    def new(self, priority: int) -> int:
        """The number of a new stream."""
        number = max(self.by_number) + 0x100
        self.by_number[number] = Stream(priority)
        return number

    def get(self, number: int) -> Stream:
        """A stream by its number. Streams from elsewhere are made at the first use."""
        return self.by_number.setdefault(number, Stream())


streams = _Streams()


class CudaStream:
    """`torch.cuda.Stream`. All of a stream's work is over when it was issued."""

    def __init__(
        self, device: Any = None, priority: int = 0, *, stream_ptr: int | None = None, stream_id: int | None = None, **_: Any
    ) -> None:
        known = stream_id if stream_ptr is None else stream_ptr
        self.cuda_stream = streams.new(priority) if known is None else int(known)
        self.priority, self.device_index, self.device_type = priority, 0, 1
        self.stream_id = self.cuda_stream
        self._before: list[int] = []

    @property
    def device(self) -> Any:
        """cuda:0."""
        import torch

        return torch.device("cuda", 0)

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """The handle, for a function of ctypes."""
        return ctypes.c_void_p(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        """(version, handle) of the protocol by which other libraries take streams (cuda.core, interoperability)."""
        return 0, self.cuda_stream

    def query(self) -> bool:
        """Is its work over? Always."""
        return True

    def is_capturing(self) -> bool:
        """Is it captured into a graph?"""
        return streams.get(self.cuda_stream).graph is not None

    def synchronize(self) -> None:
        """RuntimeError if a kernel trapped."""
        synchronize()

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
        synchronize()

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds of the simulation."""
        return process.device().elapsed(self.event, end.event)


def either(kind: Any, of_card: Any) -> Any:
    """Replaces `torch.Stream` and `torch.Event`, which are for any device: those of the card, if no device or the card
    is named.
    """

    class Either(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, (kind, of_card))

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, (kind, of_card))

        def __call__(cls, device: Any = None, **named: Any) -> Any:
            return of_card(**named) if device is None or is_cuda(device) else kind(device, **named)

    return Either(kind.__name__, (), {"__module__": kind.__module__, "__doc__": kind.__doc__})


class _DeviceContext:
    """`torch.cuda.device`."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def synchronize(device: Any = None) -> None:
    """RuntimeError if a kernel trapped."""
    try:
        process.device().synchronize(streams.get(streams.current))
    except CudaError as e:
        raise accelerator_error(e) from None


def accelerator_error(e: CudaError) -> Exception:
    """The exception that torch raises for an error of CUDA."""
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
        memory_bus_width=named("global_memory_bus_width"), is_integrated=named("integrated"), is_multi_gpu_board=0, gcnArchName="", uuid=uuid.UUID(bytes=made.uuid),
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


def _memory_stats(device: Any = None) -> dict[str, int]:
    """By the names of PyTorch's statistics; what its caching allocator would do is not there."""
    now = {"allocated_bytes": tensors.bytes, "active_bytes": tensors.bytes, "reserved_bytes": tensors.bytes, "requested_bytes": tensors.bytes,
           "allocation": len(tensors.live), "active": len(tensors.live), "segment": len(tensors.live), "inactive_split": 0,
           "inactive_split_bytes": 0}  # fmt: skip
    most = {key: tensors.most_bytes if key.endswith("_bytes") and key != "inactive_split_bytes" else value for key, value in now.items()}
    stats = {
        f"{key}.{pool}.{when}": 0
        for key in now
        for pool in ("all", "small_pool", "large_pool")
        for when in ("current", "peak", "allocated", "freed")
    }
    stats |= {f"{key}.all.current": value for key, value in now.items()} | {f"{key}.all.peak": value for key, value in most.items()}
    stats |= {f"oversize_{kind}.{when}": 0 for kind in ("allocations", "segments") for when in ("current", "peak", "allocated", "freed")}
    return {
        **stats,
        "num_alloc_retries": 0,
        "num_ooms": 0,
        "num_sync_all_streams": 0,
        "num_device_alloc": 0,
        "num_device_free": 0,
        "max_split_size": -1,
    }


def _allocate(size: int, device: Any = None, stream: Any = None) -> int:
    return process.device().allocate(size, where="torch.cuda.caching_allocator_alloc")


def _own(function: Any) -> Any:
    """A function that is no other name's: torch._dynamo keeps rules by function."""
    if isinstance(function, type):
        return function

    def own(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return own


def names() -> dict[str, Any]:
    """The names of `torch.cuda` for the card."""
    import torch

    numbers = torch.default_generator
    made: dict[str, Any] = {name: _own(value) for name, value in {**_of_card(), **_of_memory(), **_of_streams()}.items()}
    made |= {
        "manual_seed": _own(numbers.manual_seed), "manual_seed_all": _own(numbers.manual_seed), "seed": _own(numbers.seed),
        "seed_all": _own(numbers.seed), "initial_seed": _own(numbers.initial_seed),
    }  # fmt: skip
    return made


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _of_card() -> dict[str, Any]:
    profiler = types.SimpleNamespace(
        cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0, cudaMemGetInfo=lambda device=0: _memory_info(),
        cudaHostRegister=lambda *_: 0, cudaHostUnregister=lambda *_: 0, cudaGetErrorString=str,
    )  # fmt: skip
    return {
        "is_available": lambda: True, "is_initialized": lambda: True, "init": callers.make_current, "_lazy_init": callers.make_current, "device_count": lambda: 1,
        "current_device": lambda: 0, "set_device": is_cuda, "get_device_capability": _capability, "get_device_properties": _properties,
        "get_device_name": lambda device=None: process.card().name, "device": _DeviceContext, "device_of": _DeviceContext,
        # of torch.cuda._DeviceGuard, which Inductor writes
        "_exchange_device": lambda device: 0, "_maybe_exchange_device": lambda device: 0,
        "is_bf16_supported": lambda *_, **__: True, "is_tf32_supported": lambda: True,
        "get_arch_list": lambda: [process.choose().rstrip("af")], "can_device_access_peer": lambda *_: False, "cudart": lambda: profiler,
        "set_sync_debug_mode": _nothing, "get_sync_debug_mode": lambda: 0, "_sleep": _nothing, "_check_capability": _nothing,
    }  # fmt: skip


def _of_memory() -> dict[str, Any]:
    def now(device: Any = None) -> int:
        return tensors.bytes

    def most(device: Any = None) -> int:
        return tensors.most_bytes

    return {
        "mem_get_info": _memory_info, "memory_allocated": now, "max_memory_allocated": most, "memory_reserved": now, "max_memory_reserved": most,
        "memory_cached": now, "max_memory_cached": most, "reset_peak_memory_stats": _reset_peak, "reset_max_memory_allocated": _reset_peak,
        "reset_max_memory_cached": _reset_peak, "reset_accumulated_memory_stats": _nothing, "memory_stats": _memory_stats,
        "memory_snapshot": lambda *_, **__: [], "empty_cache": _nothing, "ipc_collect": _nothing, "get_allocator_backend": lambda: "native",
        "set_per_process_memory_fraction": _nothing, "get_per_process_memory_fraction": lambda device=None: 1.0,
        "caching_allocator_alloc": _allocate, "caching_allocator_delete": lambda address: process.device().free(address),
        "caching_allocator_enable": _nothing,
    }  # fmt: skip


def _of_streams() -> dict[str, Any]:
    def set_stream(stream: Any) -> None:
        if stream is not None:
            streams.current = stream.cuda_stream

    def current_stream(device: Any = None) -> Any:
        callers.make_current()
        return CudaStream(stream_ptr=streams.current)

    return {
        "synchronize": synchronize, "Stream": CudaStream, "Event": CudaEvent,
        "ExternalStream": lambda stream_ptr, device=None, **_: CudaStream(stream_ptr=stream_ptr),
        "get_stream_from_external": lambda data_ptr, device=None: CudaStream(stream_ptr=data_ptr),
        "current_stream": current_stream, "default_stream": lambda device=None: CudaStream(stream_ptr=0),
        "stream": lambda stream: contextlib.nullcontext() if stream is None else stream, "set_stream": set_stream,
        "graph_pool_handle": lambda: (0, 0), "is_current_stream_capturing": lambda: streams.get(streams.current).graph is not None,
        "make_graphed_callables": lambda callables, *_, **__: callables,
    }  # fmt: skip
