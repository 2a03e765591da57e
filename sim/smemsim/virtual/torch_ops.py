"""Operators that a program defines for torch (`torch.library`, `torch.library.custom_op`). Their CUDA kernels run for
tensors of the card.

Kernels are chosen by dispatch keys, and a tensor of the card has the CPU's. So the CPU kernel of such an operator is a
switch: CUDA's kernel for a tensor of the card, else the program's CPU kernel. In all of them "cuda" means the card.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from smemsim.virtual.torch_replaced import PLACES, replace
from smemsim.virtual.torch_tensors import CUDA, tensors, tensors_in

__all__ = ["is_of_program", "open_operators", "with_mode"]


STANDS_FOR = {"CUDA": "CPU", "AutogradCUDA": "AutogradCPU"}  # dispatch keys (c10/core/DispatchKey.h)
# "": the last but one, as torch.library.Library.impl has it
FOR_ALL = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "")
KEYS = (*STANDS_FOR, *STANDS_FOR.values(), *FOR_ALL)
OF_TORCH = ("aten", "prims", "prim", "quantized")


@dataclasses.dataclass
class _Operator:
    """The kernels of one operator, by dispatch key; `libraries` that have put a choice
    among them into torch, by key.
    """

    name: str
    kernels: dict[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    libraries: dict[str, Any] = dataclasses.field(default_factory=dict)

    def choice(self, of_card: str, of_host: str) -> Callable[..., Any]:
        """The kernel that torch calls for the host's dispatch key, and so for the card's."""

        def run(*args: Any, **kwargs: Any) -> Any:
            given = [tensors.place(x) for x in tensors_in((args, kwargs))]
            on_card = CUDA in given or not given
            for key in (of_card, *FOR_ALL, of_host) if on_card else (of_host, *FOR_ALL):
                if key in self.kernels:
                    return self.kernels[key](*args, **kwargs)
            raise NotImplementedError(
                f"Could not run {self.name!r} with arguments from the 'CPU' backend: it has a kernel for {', '.join(self.kernels)} alone."
            )

        return run


_operators: dict[str, _Operator] = {}


def open_operators(mode: Any) -> None:
    """Change torch, once. `mode` is what handles torch's functions."""
    import torch

    library = torch.library.Library
    register = library.impl

    @functools.wraps(register)
    def impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **named: Any) -> None:
        key = dispatch_key or self.dispatch_key
        if self.ns in OF_TORCH and key in PLACES and fn is not torch.library.fallthrough_kernel and not named.get("with_keyset"):
            replace(self, register, op_name, with_mode(mode, fn), key, **named)
            return
        if self.ns in OF_TORCH or fn is torch.library.fallthrough_kernel or key not in KEYS:
            register(self, op_name, fn, dispatch_key, **named)
            return
        name = f"{self.ns}::{_name_of(op_name).split('::')[-1]}"
        operator = _operators.setdefault(name, _Operator(name))
        fn = operator.kernels[key] = with_mode(mode, fn)
        for of_card, of_host in STANDS_FOR.items():
            if key in (of_card, of_host) and operator.libraries.get(of_host) is not self:
                operator.libraries[of_host] = self
                register(self, op_name, operator.choice(of_card, of_host), of_host, **named)
        if key not in STANDS_FOR.values():
            register(self, op_name, fn, dispatch_key, **named)

    library.impl = impl


def with_mode(mode: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that sees the card: torch calls those of operators without modes."""
    import torch

    @functools.wraps(kernel)
    def run(*args: Any, **kwargs: Any) -> Any:
        if any(one is mode for one in torch.overrides._get_current_function_mode_stack()):
            return kernel(*args, **kwargs)
        with mode:
            return kernel(*args, **kwargs)

    return run


def is_of_program(func: Any) -> bool:
    """Is a function of torch an operator whose kernels see the card themselves?"""
    name = getattr(func, "_qualified_op_name", None) or getattr(
        func, "_name", None
    )  # of a torch._ops.OpOverloadPacket, a torch._ops.OpOverload
    return isinstance(name, str) and name in _operators


def _name_of(operator: Any) -> str:
    """The name of an operator for `torch.library.Library.impl`: its name, or an overload (torch's own function for this
    has another name in each release).
    """
    if isinstance(operator, str):
        return operator
    return ".".join(filter(None, (operator._schema.name, operator._schema.overload_name)))
