"""The shim for PyTorch: CPU tensors represent device tensors, and `torch.cuda` answers for the chosen card.

A tensor that is made with `device="cuda"`, moved there, or computed from such a tensor, is a CPU tensor with a marked
storage. Its `device` is cuda:0, and `.cpu()` copies it to the host. The memory of a marked storage is the device's,
without a copy, while the storage lives. A kernel's access past it is X001 with the tensor's type, shape and the line
that made it. Operators of torch run on the CPU.

A mode for torch's functions sets the marks, in every Python thread. Tensors that torch's C++ makes alone, such as
gradients, are taken for the device's while backward runs.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from smemsim.base.floating_point import default_state, is_default
from smemsim.virtual import callers, process
from smemsim.virtual.alignment import align
from smemsim.virtual.cublas import MX_BLOCK, NVFP4_BLOCK, block_scaled
from smemsim.virtual.torch_classes import is_of_class, open_classes
from smemsim.virtual.torch_compile import open_compile
from smemsim.virtual.torch_cuda import is_cuda, names, streams
from smemsim.virtual.torch_dlpack import open_dlpack
from smemsim.virtual.torch_fake import faked, is_fake, open_fakes, seeing
from smemsim.virtual.torch_graphs import WITHOUT_WORK, Capture, CudaGraph, captured, is_capturing
from smemsim.virtual.torch_ops import is_of_program, open_operators
from smemsim.virtual.torch_replaced import making, moving
from smemsim.virtual.torch_rest import CudaType, cuda_types, default, open_rest
from smemsim.virtual.torch_taint import in_backward, looks
from smemsim.virtual.torch_tensors import CPU, CUDA, PINNED, address_of, out_of_memory, tensors, tensors_in

__all__ = ["install", "streams", "tensors"]


CUDA_VERSION = "13.0"


# ---- What torch's functions do with devices


def _call(func: Any, args: Any, kwargs: Any) -> Any:
    """Any function of torch: "cuda" becomes "cpu", and what it returns is marked."""
    place = None
    if kwargs:
        kwargs = dict(kwargs)
        if kwargs.get("device") is not None and (on_card := is_cuda(kwargs["device"])) is not None:
            kwargs["device"], place = "cpu", CUDA if on_card else CPU
        if kwargs.get("generator") is not None:
            kwargs["generator"] = getattr(kwargs["generator"], "stands_for", None) or kwargs["generator"]
        if kwargs.pop("pin_memory", False) and place != CUDA:
            place = PINNED
    if default.device is not None and place is None and func in _CREATING and kwargs.get("device") is None:
        place = CUDA
    out = func(*args, **kwargs) if place != CUDA else _made(func, args, kwargs)
    _mark_all(out, place, func, args, kwargs)
    return out


def _made(func: Any, args: Any, kwargs: Any) -> Any:
    """The tensors that a function makes in the card's memory."""
    align()
    try:
        with making():
            return func(*args, **kwargs)
    except RuntimeError as e:
        if "DefaultCPUAllocator" in str(e):
            raise out_of_memory(f"This machine has not the memory that stands for the card's: {e}") from None
        raise


_NUMBERS = ("alpha", "beta", "value")  # arguments of which torch takes a number, of whatever tensor


def _mark_all(out: Any, place: str | None, func: Any, args: Any, kwargs: Any) -> None:
    for tensor in tensors_in(out):
        if place is None:
            inputs = {
                tensors.place(given) for given in tensors_in((args, {key: x for key, x in (kwargs or {}).items() if key not in _NUMBERS}))
            }
            place = CUDA if CUDA in inputs else PINNED if PINNED in inputs and _shares(tensor, args) else CPU
        tensors.mark(tensor, place, getattr(func, "__name__", "").replace("__get__", "a gradient"))


def _shares(tensor: Any, args: Any) -> bool:
    """Is it a view of an argument?"""
    mine = address_of(tensor.untyped_storage())
    return any(mine == address_of(given.untyped_storage()) for given in tensors_in(args))


def _moved(tensor: Any, place: str, func: Any, dtype: Any = None, **more: Any) -> Any:
    """A tensor in another place: itself where it is there, else a copy."""
    import torch

    if dtype is not None:
        more["dtype"] = dtype
    if place == CUDA:
        align()
    if tensors.place(tensor) == place:
        out = torch.Tensor.to(tensor, **more) if more else tensor
    else:
        with moving():
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
    if device is None or (on_card := is_cuda(device)) is None:
        return _call(func, args, kwargs)
    return _moved(tensor, CUDA if on_card else CPU, func, **more)


def _type(func: Any, args: Any, kwargs: Any) -> Any:
    """`Tensor.type`: names of types say where a tensor is."""
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    if isinstance(wanted, str) and wanted.startswith("torch.cuda."):
        return _moved(args[0], CUDA, func, cuda_types()[wanted.removeprefix("torch.cuda.")])
    if isinstance(wanted, CudaType):
        return _moved(args[0], CUDA, func, wanted.dtype)
    if len(args) == 1 and not kwargs:
        name = func(*args)
        return name.replace("torch.", "torch.cuda.", 1) if tensors.place(args[0]) == CUDA else name
    return _call(func, args, kwargs)


def _numpy(func: Any, args: Any, kwargs: Any) -> Any:
    if tensors.place(args[0]) == CUDA and not kwargs.get("force"):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.")
    return func(*args, **kwargs)


def _interface(func: Any, args: Any, kwargs: Any) -> Any:
    """`__cuda_array_interface__`, version 3."""
    x = args[0]
    if tensors.place(x) != CUDA:
        return func(*args)
    strides = None if x.is_contiguous() else tuple(n * x.element_size() for n in x.stride())
    kind = x.detach().cpu().resolve_conj().numpy().dtype.str if x.numel() else "<f4"
    return {
        "shape": tuple(x.shape),
        "typestr": kind,
        "strides": strides,
        "data": (x.data_ptr(), False),
        "version": 3,
        "stream": streams.current or None,
    }


def _in_wider(func: Any, args: Any, kwargs: Any, *, fp32_too: bool = False) -> Any:
    """Operators that add 16-bit numbers in fp32, like on the card. The CPU adds them in 16 bits (the sum of a loss, the
    backward of norms). The CPU's fp32 norm has an error of an ulp of the mean.
    """
    import torch

    x: Any = next((given for given in tensors_in((args, kwargs)) if given.is_floating_point()), None)
    of_16 = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
    wider = (of_16 | {torch.float32: torch.float64} if fp32_too else of_16).get(getattr(x, "dtype", None))
    if wider is None or tensors.place(x) != CUDA:
        return _call(func, args, kwargs)

    def wide(value: Any) -> Any:
        return value.to(wider) if isinstance(value, torch.Tensor) and value.dtype is x.dtype else value

    out = func(*map(wide, args), **{key: wide(value) for key, value in kwargs.items()}).to(x.dtype)
    tensors.mark(out, CUDA, getattr(func, "__name__", ""))
    return out


def _embedding(func: Any, args: Any, kwargs: Any) -> Any:
    """Its gradient adds; what scales the rows that are asked for, in place, stays as it is."""
    import torch

    scales = len(args) > 3 or kwargs.get("max_norm") is not None
    return (_in_wider if torch.is_grad_enabled() and not scales else _call)(func, args, kwargs)


def _with_out_dtype(func: Any, args: Any, kwargs: Any) -> Any:
    """Products with `out_dtype`, which the CPU's lack: of operands in that type, as cuBLAS
    adds in fp32 and gives that.
    """
    import torch

    dtype = kwargs.get("out_dtype") or next((x for x in args if isinstance(x, torch.dtype)), None)
    if dtype is None:
        return _call(func, args, kwargs)

    def wide(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, torch.Tensor) else value

    rest = {key: value if key == "out" else wide(value) for key, value in kwargs.items() if key != "out_dtype"}
    return _call(func, tuple(wide(x) for x in args if x is not dtype), rest)


def _histc(func: Any, args: Any, kwargs: Any) -> Any:
    """`histc` of integers, which the CPU's lacks, in fp64."""
    x = args[0] if args else kwargs["input"]
    if x.is_floating_point() or tensors.place(x) != CUDA:
        return _call(func, args, kwargs)
    wide = kwargs if args else {**kwargs, "input": x.double()}
    out = func(*(x.double(), *args[1:])[: len(args)], **wide).to(x.dtype)
    tensors.mark(out, CUDA, "histc")
    return out


def _scaled_mm(func: Any, args: Any, kwargs: Any) -> Any:
    """`torch._scaled_mm`; with scales of blocks, which the CPU's lacks, in fp32."""
    import torch

    given = dict(zip(("a", "b", "scale_a", "scale_b", "bias", "scale_result", "out_dtype"), args, strict=False)) | kwargs
    of_blocks = given["scale_a"].dtype is getattr(torch, "float8_e8m0fnu", None)
    if args[0].dtype is not getattr(torch, "float4_e2m1fn_x2", None) and not of_blocks:
        return _call(func, args, kwargs)
    block = NVFP4_BLOCK if given["scale_a"].dtype is torch.float8_e4m3fn else MX_BLOCK
    out = block_scaled(given["a"], given["b"].t(), given["scale_a"], given["scale_b"], block)
    if given.get("bias") is not None:
        out = out + given["bias"].float()
    out = out.to(given.get("out_dtype") or torch.bfloat16)
    tensors.mark(out, tensors.place(args[0]), "_scaled_mm")
    return out


def _packed_copy(func: Any, args: Any, kwargs: Any) -> Any:
    """A copy of a tensor of the card. torch's CPU cannot transpose packed 4-bit elements, its CUDA can: bytes move."""
    import torch

    packed = getattr(torch, "float4_e2m1fn_x2", None)
    given = list(tensors_in((args, kwargs)))
    if any(t.dtype is not packed for t in given) or tensors.place(given[0]) != CUDA:
        return _call(func, args, kwargs)
    as_bytes = tuple(x.view(torch.uint8) if isinstance(x, torch.Tensor) else x for x in args)
    out = _call(func, as_bytes, {key: x.view(torch.uint8) if isinstance(x, torch.Tensor) else x for key, x in kwargs.items()})
    return args[0] if func is torch.Tensor.copy_ else out.view(packed)


def _device_of(func: Any, args: Any, kwargs: Any) -> Any:
    import torch

    real = func(*args)
    return torch.device("cuda", 0) if real.type == "cpu" and tensors.place(args[0]) == CUDA else real


def _cases() -> dict[Any, Callable[[Any, Any, Any], Any]]:
    """The functions that need more than `_call`, by function."""
    import torch

    tensor: Any = torch.Tensor
    functional = torch.nn.functional
    return {
        tensor.device.__get__: _device_of,
        tensor.is_cuda.__get__: lambda f, a, k: tensors.place(a[0]) == CUDA,
        tensor.is_cpu.__get__: lambda f, a, k: f(*a) and tensors.place(a[0]) != CUDA,
        tensor.get_device: lambda f, a, k: 0 if tensors.place(a[0]) == CUDA else -1,
        tensor.is_pinned: lambda f, a, k: tensors.place(a[0]) == PINNED,
        tensor.pin_memory: lambda f, a, k: _moved(a[0], PINNED, f),
        tensor.to: _to,
        # a number is the card's
        torch.device: lambda f, a, k: f("cuda", a[0]) if a and type(a[0]) is int else f(*a, **k),
        torch._scaled_mm: _scaled_mm,
        **dict.fromkeys(
            (tensor.contiguous, tensor.clone, torch.clone, tensor.copy_, tensor.reshape, torch.reshape, tensor.flatten), _packed_copy
        ),
        **dict.fromkeys((torch.histc, tensor.histc), _histc),
        **dict.fromkeys((torch.mm, torch.bmm, torch.addmm, torch.baddbmm), _with_out_dtype),
        tensor.cuda: lambda f, a, k: _moved(a[0], CUDA, f),
        tensor.cpu: lambda f, a, k: _moved(a[0], CPU, f),
        tensor.type: _type,
        tensor.numpy: _numpy,
        tensor.__array__: _numpy,
        tensor.__cuda_array_interface__.__get__: _interface,
        **dict.fromkeys((functional.layer_norm, functional.group_norm, functional.rms_norm), functools.partial(_in_wider, fp32_too=True)),
        **dict.fromkeys((functional.cross_entropy, functional.nll_loss), _in_wider),
        functional.embedding: _embedding,
        tensor.__dlpack_device__: lambda f, a, k: (2, 0) if tensors.place(a[0]) == CUDA else f(*a),
    }


_CREATING: set[Any] = set()


def _is_of_card(func: Any, args: Any, kwargs: Any) -> bool:
    """Does the card compute this: from its tensors, or into a new one?"""
    device = kwargs.get("device")
    if (device is not None and is_cuda(device)) or (device is None and default.device is not None and func in _CREATING):
        return True
    return any(tensors.place(tensor) == CUDA for tensor in tensors_in((args, kwargs)))


def _looking(handler: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """A handler that also reports uses of uninitialised values which kernels have stored."""

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        looked = looks(func, args, kwargs) if process.has_taint() else None
        out = handler(func, args, kwargs)
        if looked is not None:
            looked(out)
        return out

    return run


def _mode_class() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    cases, tensor = _cases(), torch.Tensor
    looking = {tensor.device.__get__, tensor.is_cuda.__get__, tensor.is_cpu.__get__, tensor.get_device, tensor.is_pinned}

    class DeviceMode(TorchFunctionMode):  # type: ignore[misc]
        """Lets "cuda" mean marked CPU tensors."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = func, args, kwargs or {}
            if is_fake(args, given[2], only_looks=func in looking):
                return faked(*given, default.device if func in _CREATING else None)
            handler = cases.get(func, _call)
            if getattr(func, "__name__", "") not in WITHOUT_WORK:
                process.worked()
            is_one = is_capturing() and not is_of_program(func) and not any(map(is_of_class, args))
            own = contextlib.nullcontext() if is_default() or not _is_of_card(*given) else default_state()
            with own:
                return captured(_looking(handler), *given) if is_one else _looking(handler)(*given)

    return DeviceMode


@functools.cache
def install(arch: str | None = None) -> None:
    """Let "cuda" in torch mean the device of this process: the card of an architecture, or the chosen one. It cannot be
    undone.

    Raises InputError if no card is given.
    """
    process.choose(arch)
    _open()
    callers.answer()


@functools.cache
def _open() -> None:
    """Change torch, once."""
    import torch
    import torch.utils._device as of_devices

    for name, value in {**names(), "CUDAGraph": CudaGraph, "graph": Capture}.items():
        setattr(torch.cuda, name, value)
        for module in (torch.cuda.memory, torch.cuda.graphs, torch.cuda.streams):
            if hasattr(module, name):
                setattr(module, name, value)
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(torch.cuda.nvtx, name, _no_range())
    torch.version.cuda = CUDA_VERSION
    _CREATING.update(of_devices._device_constructors())
    mode = _mode_class()()
    open_rest(mode)
    open_operators(mode)
    open_classes(mode)
    mode.__enter__()
    _keep_in_backward(mode)
    open_dlpack()
    open_fakes(mode)
    open_compile(mode)
    torch._tensor_str._str = seeing(mode, torch._tensor_str._str)  # which tells the device


def _no_range() -> Callable[..., int]:
    return lambda *_, **__: 0


def _keep_in_backward(mode: Any) -> None:
    """Functions that a program defines for backward see the card too: torch runs them without modes."""
    import torch

    engine = torch.autograd._engine_run_backward

    @functools.wraps(engine)
    def run(*args: Any, **kwargs: Any) -> Any:
        if process.has_taint():
            in_backward()
        if any(one is mode for one in torch.overrides._get_current_function_mode_stack()):
            return engine(*args, **kwargs)
        with mode:
            return engine(*args, **kwargs)

    torch.autograd._engine_run_backward = run
