"""Tensor classes of a program (`_make_wrapper_subclass`, torchao's quantized ones). In their `__torch_dispatch__`
"cuda" means the card.

That method is called by torch without modes. So tensors that are made or passed to kernels there would be the host's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from smemsim.virtual.torch_ops import with_mode
from smemsim.virtual.torch_tensors import CUDA, tensors

__all__ = ["is_of_class", "open_classes"]


DISPATCH = "__torch_dispatch__"
# fake and functional tensors, which have a way of their own (`smemsim.virtual.torch_fake`)
OF_TORCH = "torch._subclasses"
_seen: set[type] = set()
_changed: set[type] = set()


def open_classes(mode: Any) -> None:
    """Change torch, once. `mode` is what handles torch's functions."""
    import torch

    for name in ("_make_wrapper_subclass", "_make_subclass"):
        setattr(torch.Tensor, name, staticmethod(_seeing(getattr(torch.Tensor, name), mode)))


def is_of_class(value: Any) -> bool:
    """Is it a tensor whose functions of torch see the card themselves?"""
    return bool(_changed) and not _changed.isdisjoint(type(value).__mro__)


def _seeing(make: Callable[..., Any], mode: Any) -> Callable[..., Any]:
    import torch

    @functools.wraps(make)
    def made(cls: type, *args: Any, **kwargs: Any) -> Any:
        if cls not in _seen:
            _seen.add(cls)
            _see(cls, mode)
        device = kwargs.get("device")
        if device is None or torch.device(device).type != CUDA or _changed.isdisjoint(cls.__mro__):
            return make(cls, *args, **kwargs)
        # One of the CPU with a mark: autograd ends the process at a device that torch was not built for.
        out = make(cls, *args, **{**kwargs, "device": "cpu"})
        tensors.mark(out, CUDA)
        return out

    return made


def _see(cls: type, mode: Any) -> None:
    """Let the class that says how functions of torch work on these tensors see the card."""
    owner = next((one for one in cls.__mro__ if DISPATCH in one.__dict__), None)
    own = owner.__dict__[DISPATCH] if owner is not None else None
    if owner is None or owner in _changed or owner.__module__.startswith(OF_TORCH) or not isinstance(own, (classmethod, staticmethod)):
        return
    _changed.add(owner)
    setattr(owner, DISPATCH, type(own)(with_mode(mode, own.__func__)))
