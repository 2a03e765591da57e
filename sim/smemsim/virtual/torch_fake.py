"""Fake tensors of PyTorch: they have shapes and a device, and no memory. "cuda" is for them what it is for torch
without this package.

A program that traces itself (Helion, torch.export, `register_fake`) works out devices with them. A fake of a tensor
that is the device's is on "cuda".
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
import sys
from typing import Any

from smemsim.virtual.torch_tensors import CUDA

__all__ = ["faked", "install", "is_fake", "open_fakes", "seeing"]


_TYPE_CUDA = 1  # c10::DeviceType::CUDA
_modes: list[Any] = []  # the one that sees where tensors are, until fakes are imported


def is_fake(args: Any, kwargs: Any, *, only_looks: bool) -> bool:
    """Is a call of torch's one of fake tensors: because they are among its arguments, or because a mode makes them now?

    A function that `only_looks` at where a tensor is makes none.
    """
    module = sys.modules.get("torch._subclasses.fake_tensor")
    if module is None:
        return False
    import torch

    if not only_looks and torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:
        return True
    kind = module.FakeTensor
    return any(isinstance(value, kind) for value in args) or any(isinstance(value, kind) for value in kwargs.values())


def faked(func: Any, args: Any, kwargs: Any, device: Any) -> Any:
    """Call a function of torch's as it is; `device` is where tensors are made if nothing says where, None for torch's
    own default.
    """
    import torch

    if func is torch.Tensor.cuda:
        return torch.empty_like(args[0], device=CUDA)  # a copy asks for a build with CUDA
    if device is not None and kwargs.get("device") is None:
        kwargs = {**kwargs, "device": CUDA}
    return func(*args, **kwargs)


def open_fakes(mode: Any) -> None:
    """Let fakes of marked tensors be on "cuda", as soon as PyTorch has fakes."""
    _modes.append(mode)
    if "torch._subclasses.fake_tensor" in sys.modules:
        install()


def install() -> None:
    """PyTorch's fake tensors were imported: it has no CUDA of its own for them, and their
    device is where a mark says.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch._subclasses.meta_utils import MetaTensorDescriber

    if not _modes:
        return
    mode = _modes.pop()
    _guard()
    FakeTensorMode.avoid_device_init = property(lambda self: True)
    MetaTensorDescriber.describe_tensor = seeing(mode, MetaTensorDescriber.describe_tensor)
    torch._prims_common.compare_tensor_meta = seeing(
        mode, torch._prims_common.compare_tensor_meta
    )  # with which opcheck compares fakes and tensors


def _guard() -> None:
    """Let torch's C++ choose "cuda" for a fake tensor, although PyTorch's build for the CPU is not linked with it.

    PyTorch has a guard without effect for a build with CUDA on a machine without a card
    (`c10::impl::ensureCUDADeviceGuardSet`). It replaces a guard that knows no device, for that call.
    """
    import torch

    try:
        c10 = ctypes.CDLL(str(next(pathlib.Path(torch.__file__).parent.glob("lib/libc10.*"))))
        guards = (ctypes.c_void_p * 2).in_dll(c10, "_ZN3c104impl26device_guard_impl_registryE")
        ensure = c10._ZN3c104impl24ensureCUDADeviceGuardSetEv
    except (StopIteration, OSError, ValueError, AttributeError):  # another PyTorch: fakes do what they can without
        return
    if guards[_TYPE_CUDA]:
        return
    none = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)
    methods = (ctypes.c_void_p * 64)(*[ctypes.cast(none, ctypes.c_void_p).value] * 64)
    without = ctypes.pointer(ctypes.c_void_p(ctypes.addressof(methods)))
    guards[_TYPE_CUDA] = ctypes.cast(without, ctypes.c_void_p).value
    try:
        ensure()
    finally:
        if guards[_TYPE_CUDA] == ctypes.addressof(without.contents):
            guards[_TYPE_CUDA] = None


def seeing(mode: Any, function: Any) -> Any:
    """A function of torch's, with the mode that sees where a tensor is."""
    import torch

    @functools.wraps(function)
    def seen(*args: Any, **kwargs: Any) -> Any:
        if any(one is mode for one in torch.overrides._get_current_function_mode_stack()):
            return function(*args, **kwargs)
        with mode:
            return function(*args, **kwargs)

    return seen
