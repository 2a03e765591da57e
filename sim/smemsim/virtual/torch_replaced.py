"""Operators of torch (`aten`) that a program replaces on the card, like FlagGems. Tensors on the host keep the CPU
kernel.

torch dispatches by the tensor, and tensors of the card are CPU tensors. So a CUDA registration replaces the CPU's. A
switch before it looks at the device of the arguments or the results.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from smemsim.virtual.torch_tensors import CPU, CUDA, tensors, tensors_in

__all__ = ["PLACES", "making", "moving", "replace"]


JUST_MADE = "aten::lift_fresh"  # its argument is what `torch.tensor` makes
PLACES = {"CUDA": CUDA, "CPU": CPU}  # by dispatch key


class _Now(threading.local):
    """The shim's own work at this moment: it makes tensors of the card from arguments that are not there, or it
    moves one."""

    is_making = is_moving = False


_now = _Now()


@contextlib.contextmanager
def making() -> Iterator[None]:
    """Context manager: results are made on the card, whatever the arguments."""
    before, _now.is_making = _now.is_making, True
    try:
        yield
    finally:
        _now.is_making = before


@contextlib.contextmanager
def moving() -> Iterator[None]:
    """Context manager: a copy between host and card, without a replaced kernel."""
    before, _now.is_moving = _now.is_moving, True
    try:
        yield
    finally:
        _now.is_moving = before


class _Router:
    """The kernel of one operator at the CPU's place: the program's own by where the arguments are, else what was
    there `before`.
    """

    def __init__(self, name: str, before: Any) -> None:
        self.name, self.before = name, before
        self.kernels: dict[str, Callable[..., Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        with torch._C.DisableTorchFunction():
            on_card = not _now.is_moving and (_now.is_making or any(tensors.place(x) == CUDA for x in tensors_in((args, kwargs))))
        kernel = self.kernels.get(CUDA if on_card else CPU)
        if kernel is None:
            if self.before is None:
                where = "CUDA" if on_card else "CPU"
                raise NotImplementedError(f"Could not run '{self.name}' with arguments from the '{where}' backend.")
            return self.before.call_boxed(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), *self._with_tensors(args), **kwargs)
        if on_card and _now.is_making:
            if "device" in kwargs:
                kwargs["device"] = torch.device("cuda", 0)
            if self.name.startswith(JUST_MADE):
                for made in tensors_in(args):
                    tensors.mark(made, CUDA, "tensor")
        before, _now.is_making = _now.is_making, False
        try:
            return kernel(*args, **kwargs)
        finally:
            _now.is_making = before

    @functools.cached_property
    def _takes_tensors(self) -> list[bool]:
        """Which arguments of the operator, by place, are tensors?"""
        import torch

        base, _, overload = self.name.partition(".")
        return [str(x.type) in ("Tensor", "Optional[Tensor]") for x in torch._C._get_schema(base, overload).arguments]

    def _with_tensors(self, args: tuple[Any, ...]) -> list[Any]:
        """The arguments with tensors where the dispatcher has made numbers of them, as it does for Python."""
        return [
            _as_tensor(x, args) if is_tensor and isinstance(x, (bool, int, float, complex)) else x
            for x, is_tensor in zip(args, self._takes_tensors, strict=False)
        ]


def _as_tensor(number: Any, args: tuple[Any, ...]) -> Any:
    """A number as a tensor that promotes types as the number does: a tensor without dimensions gives way to others of
    its category.
    """
    import torch

    natural = torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else None)
    beside = next(tensors_in(args), None)
    if beside is None:
        return natural
    wanted = torch.result_type(beside, number)
    gives_way = beside.dim() and torch.result_type(beside, natural) == wanted
    return natural if gives_way else natural.to(wanted)


def _kernel_before(name: str) -> Any:
    """The kernel that computes an operator on the CPU so far. None if there is none."""
    import torch

    try:
        return torch.library.get_kernel(name, "CPU")
    except (AttributeError, RuntimeError):  # AttributeError: a PyTorch before 2.9
        return None


def replace(library: Any, register: Callable[..., Any], op_name: Any, kernel: Callable[..., Any], key: str, **named: Any) -> None:
    """The effect of `register` for a library (`torch.library.Library.impl`), for a kernel of `key`: CUDA or CPU."""
    name = library._resolve_op_name(op_name, "impl")
    name = name if "::" in name else f"{library.ns}::{name}"
    routers = library.__dict__.setdefault("_smemsim_routers", {})  # they end with their library
    if name not in routers:
        routers[name] = _Router(name, _kernel_before(name))
        register(library, op_name, functools.partial(routers[name]), "CPU", **named)
    routers[name].kernels[PLACES[key]] = kernel
