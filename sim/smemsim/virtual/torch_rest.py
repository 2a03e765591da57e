"""Parts of PyTorch that have to know the card and are no functions of tensors: storages, default device, types by name,
autocast, threads, files.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from smemsim.virtual.torch_cuda import CudaEvent, CudaStream, either, is_cuda, synchronize
from smemsim.virtual.torch_random import card_generator, generator_class
from smemsim.virtual.torch_tensors import CUDA, MARK, tensors

__all__ = ["CudaType", "cuda_types", "default", "open_rest"]


SOONER_THAN_CPU = 5  # of the tags that torch.save gives to storages, the CPU's is asked for as number 10


class _Default(threading.local):
    """`torch.set_default_device`."""

    device: Any = None


default = _Default()


def open_rest(mode: Any) -> None:
    """Change them, once. `mode` is what handles torch's functions."""
    import torch

    torch.Generator = generator_class(torch.Generator)
    _open_random(torch.cuda)
    torch.Tensor.record_stream = lambda self, stream: None
    torch.jit._state.disable()  # scripts run as the Python that they are, so that marks are seen
    torch.autograd.forward_ad._maybe_load_decompositions = _with_scripts(torch.autograd.forward_ad._maybe_load_decompositions)
    _open_threads(mode)
    _open_storages()
    _open_defaults()
    _open_autocast()
    _open_accelerator()
    torch.Stream, torch.Event = either(torch.Stream, CudaStream), either(torch.Event, CudaEvent)
    _profile_the_cpu()
    for name, dtype in cuda_types().items():
        setattr(torch.cuda, name, CudaType(name, (), {"dtype": dtype}))
    torch._C._nn._parse_to = _read_as_cuda(torch._C._nn._parse_to)
    torch.backends.cuda.is_built = lambda: True
    for name, stand_in in (
        ("_cuda_CUDAAllocator_AllocatorState", type("AllocatorState", (), {})),
        ("_set_cached_tensors_enabled", lambda enabled: None),
    ):
        # which torch built for CUDA has, and its own modules ask for (`torch._dynamo.reset`)
        if not hasattr(torch._C, name):
            setattr(torch._C, name, stand_in)


def _with_scripts(load: Callable[[], None]) -> Callable[[], None]:
    """Stands for what loads torch's own rules of forward derivatives: they have to become scripts."""
    import torch

    @functools.wraps(load)
    def loaded() -> None:
        torch.jit._state.enable()
        try:
            load()
        finally:
            torch.jit._state.disable()

    return loaded


def _open_random(cuda: Any) -> None:
    """What `torch.cuda` answers for its generator."""
    own = card_generator()
    cuda.default_generators = (own,)
    cuda.get_rng_state, cuda.get_rng_state_all = (lambda device=None: own.get_state()), lambda: [own.get_state()]
    cuda.set_rng_state = lambda state, device=None: own.set_state(state)
    cuda.set_rng_state_all = lambda states: own.set_state(states[0])
    for name in ("get_rng_state", "get_rng_state_all", "set_rng_state", "set_rng_state_all"):
        setattr(cuda.random, name, getattr(cuda, name))


def _read_as_cuda(parse: Callable[..., Any]) -> Callable[..., Any]:
    """Stands for what reads the arguments of `Module.to`: a number is the card's. A device by name becomes the first
    argument, since a mode is asked of it.
    """
    import torch

    @functools.wraps(parse)
    def read(*args: Any, **kwargs: Any) -> Any:
        given = (kwargs.pop("device"), *args) if "device" in kwargs else args
        return parse(*(torch.device("cuda", x) if type(x) is int else x for x in given), **kwargs)

    return read


def _is_on_card(storage: Any) -> bool:
    known = getattr(storage, MARK, None)
    return known is not None and bool(known.place == CUDA)


def _open_threads(mode: Any) -> None:
    """Modes are a thread's own: every thread begins with ours."""
    begin: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    @functools.wraps(begin)
    def run(thread: Any) -> None:
        with mode:
            begin(thread)

    threading.Thread._bootstrap_inner = run  # type: ignore[attr-defined]


def _open_storages() -> None:
    """Storages say where they are, in files too."""
    import torch

    storage: Any = torch.UntypedStorage
    device, on_card = storage.device, storage.is_cuda
    storage.device = property(lambda self: torch.device("cuda", 0) if _is_on_card(self) else device.__get__(self))
    storage.is_cuda = property(lambda self: _is_on_card(self) or (on_card.__get__(self) if hasattr(on_card, "__get__") else False))

    clone = storage.clone

    def cloned(self: Any) -> Any:
        return restored(torch.UntypedStorage(self.nbytes()).copy_(self), "cuda") if _is_on_card(self) else clone(self)

    def restored(of_file: Any, location: str) -> Any:
        if not location.startswith("cuda"):
            return None
        is_cuda(location)
        tensors.mark(torch.empty(0, dtype=torch.uint8).set_(of_file), CUDA, "load")
        return of_file

    storage.clone = cloned
    torch.serialization.register_package(SOONER_THAN_CPU, lambda given: "cuda:0" if _is_on_card(given) else None, restored)


def _open_defaults() -> None:
    import torch

    real_default, real_get, real_type = torch.set_default_device, torch.get_default_device, torch.set_default_tensor_type

    def set_default_device(device: Any) -> None:
        on_card = device is not None and is_cuda(device)
        default.device = torch.device("cuda", 0) if on_card else None
        real_default(None if on_card else device)

    def set_default_tensor_type(of_tensors: Any) -> None:
        dtype = of_tensors.dtype if isinstance(of_tensors, CudaType) else cuda_types().get(str(of_tensors).removeprefix("torch.cuda."))
        if not str(of_tensors).startswith("torch.cuda.") and not isinstance(of_tensors, CudaType):
            default.device = None
            real_type(of_tensors)
            return
        torch.set_default_dtype(dtype)
        default.device = torch.device("cuda", 0)

    torch.set_default_device, torch.set_default_tensor_type = set_default_device, set_default_tensor_type
    torch.get_default_device = lambda: default.device or real_get()


def _open_autocast() -> None:
    """Autocast of the card is that of the CPU, with the card's default of float16."""
    import torch
    from torch.amp.autocast_mode import autocast

    real: Any = autocast.__init__
    is_enabled, dtype_of = torch.is_autocast_enabled, torch.get_autocast_dtype

    @functools.wraps(real)
    def begin(self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or dtype_of("cuda")
        real(self, device_type, dtype, enabled, cache_enabled)

    autocast.__init__ = begin
    torch.is_autocast_enabled = lambda device="cuda": is_enabled("cpu" if device == "cuda" else device)
    torch.get_autocast_dtype = lambda device: dtype_of("cpu" if device == "cuda" and is_enabled("cpu") else device)


def _open_accelerator() -> None:
    import torch

    module_of = torch.get_device_module

    @functools.wraps(module_of)  # torch._dynamo looks for what it wraps
    def get_device_module(device: Any = None) -> Any:
        return torch.cuda if device is None else module_of(device)

    torch.get_device_module = get_device_module
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    accelerator.is_available, accelerator.device_count = (lambda: True), (lambda: 1)
    accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")
    accelerator.synchronize, accelerator.current_device_index = (lambda device=None: synchronize()), lambda: 0
    accelerator.set_device_index, accelerator.current_stream = is_cuda, lambda device=None: torch.cuda.current_stream()
    accelerator.set_stream, accelerator.device_index, accelerator.get_memory_info = (
        torch.cuda.set_stream,
        torch.cuda.device,
        torch.cuda.mem_get_info,
    )
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_stats", "empty_cache",
                 "reset_peak_memory_stats", "reset_accumulated_memory_stats"):  # fmt: skip
        if hasattr(accelerator, name):
            setattr(accelerator, name, getattr(torch.cuda, name))


def _profile_the_cpu() -> None:
    """Let torch.profiler record the CPU if the card's work is asked for. Kernels are in the summary of the device."""
    import torch.autograd.profiler as of_torch

    real = of_torch.profile.__init__

    @functools.wraps(real)
    def init(self: Any, *args: Any, **named: Any) -> None:
        if named.get("use_device") == CUDA:
            named |= {"use_device": None, "use_cpu": True}
        real(self, *args, **named)

    of_torch.profile.__init__ = init


# ---- Types by name


class CudaType(type):
    """`torch.cuda.FloatTensor` and its like: what makes tensors of a type on the card."""

    dtype: Any

    def __instancecheck__(cls, value: Any) -> bool:
        import torch

        return isinstance(value, torch.Tensor) and value.dtype is cls.dtype and tensors.place(value) == CUDA

    def __call__(cls, *given: Any, **_: Any) -> Any:
        import torch

        if given and not isinstance(given[0], int):
            return torch.tensor(given[0], dtype=cls.dtype, device="cuda")
        return torch.empty(given or (0,), dtype=cls.dtype, device="cuda")


@functools.cache
def cuda_types() -> dict[str, Any]:
    """The names of the card's types of tensors, with their dtypes."""
    import torch

    names = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Byte": "uint8", "Char": "int8", "Short": "int16",
             "Int": "int32", "Long": "int64", "Bool": "bool"}  # fmt: skip
    return {f"{name}Tensor": getattr(torch, dtype) for name, dtype in names.items()}
