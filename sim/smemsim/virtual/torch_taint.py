"""Functions of torch that get uninitialised values which a kernel has stored. They run on the CPU, which follows no
values. So `torch_influence.py` runs them again with other values instead: what changes in the result is uninitialised,
too. What leaves the card, and what cannot be run again, uses everything that it reads: R507.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from smemsim.virtual import process
from smemsim.virtual.torch_cuda import is_cuda
from smemsim.virtual.torch_graphs import WITHOUT_WORK
from smemsim.virtual.torch_influence import influenced, marks_of
from smemsim.virtual.torch_tensors import CUDA, tensors, tensors_in

__all__ = ["in_backward", "looks"]


# functions that write their first argument, and do not read it
WRITING = frozenset(
    ("__setitem__", "bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "geometric_", "index_fill_", "log_normal_", "normal_", "random_",
     "uniform_", "zero_")
)  # fmt: skip
FILLING = WRITING - {"__setitem__", "index_fill_"}  # that write all of it, and return it
# functions that take a tensor for its shape
SHAPED = frozenset(
    ("empty_like", "full_like", "new_full", "new_ones", "new_zeros", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")
)  # fmt: skip
MAYBE_VIEWS = frozenset(("contiguous", "flatten", "reshape"))  # of a tensor that is contiguous; else they copy
VIEWS = frozenset(
    ("adjoint", "broadcast_tensors", "broadcast_to", "chunk", "conj", "diagonal", "dsplit", "expand_as", "hsplit", "imag", "moveaxis", "movedim", "real", "select", "split",
     "split_with_sizes", "swapaxes", "swapdims", "tensor_split", "unbind", "unfold", "view_as_complex", "view_as_real", "vsplit")
)  # fmt: skip
# functions that say what a tensor is, or that torch calls for what it becomes
QUESTIONS = frozenset(
    ("__dlpack__", "__dlpack_device__", "__hash__", "_to_dlpack", "can_cast", "get_device", "has_names", "is_coalesced", "is_complex", "is_conj",
     "is_floating_point", "is_inference", "is_neg", "is_pinned", "is_same_size", "is_set_to", "is_shared", "is_signed", "is_storage", "is_tensor",
     "nelement", "promote_types", "record_stream", "register_hook", "register_post_accumulate_grad_hook", "result_type", "storage", "storage_type")
)  # fmt: skip
STAYING = frozenset(("cuda", "to", "type_as"))  # that return the tensor itself where it is there already


def looks(func: Any, args: Any, kwargs: Any) -> Callable[[Any], None] | None:
    """A function is about to run. Returns what is to be called with its result; None if that is nothing."""
    name = getattr(func, "__name__", "")
    if name in WITHOUT_WORK - MAYBE_VIEWS or name in SHAPED | VIEWS | QUESTIONS or _is_view(name, args):
        return None
    if (name == "type" and len(args) == 1 and not kwargs) or (name in STAYING and _stays(*args, **kwargs)):
        return None
    given = [*args[name in WRITING :], *(value for key, value in kwargs.items() if key != "out")]
    if (moved := _moves(name, args or (kwargs.get("input"),))) is not None:
        return moved
    if name in FILLING and not any(map(_marks_of, _of_card(given))):
        return _wrote
    if any(map(_marks_of, _of_card((*args, *kwargs.values())))):
        return influenced(func, args, kwargs, lambda: _use_all(given, name))
    return None


def _marks_of(tensor: Any) -> bool:
    """Has an element of a tensor of the card an uninitialised value?"""
    return bool(marks_of(tensor)[1].any())


def _use_all(given: Any, name: str) -> None:
    for tensor in _of_card(given):
        _use(tensor, f"{name} of torch")


def in_backward() -> None:
    """torch computes gradients, by functions that are not seen."""
    from smemsim.core.finding import Half

    if (memory := process.device().taint.memory) is not None:
        memory.taint.use_all(Half("use", "backward of torch, whose reads are not followed"))
        process.device().launcher.report_again()


def _is_view(name: str, args: Any) -> bool:
    if name in MAYBE_VIEWS:
        return bool(args) and args[0].is_contiguous()
    if name != "__getitem__":
        return False
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    return all(part is None or part is Ellipsis or type(part) in (int, slice) for part in index)


def _stays(tensor: Any, *given: Any, non_blocking: bool = False, **named: Any) -> bool:
    """Does a conversion change nothing: to the type and the place that the tensor has?"""
    import torch

    def is_same(value: Any) -> bool:
        if isinstance(value, torch.dtype):
            return bool(value == tensor.dtype)
        if isinstance(value, torch.Tensor):
            return bool(value.dtype == tensor.dtype) and tensors.place(value) == CUDA
        return value in (None, False) or (isinstance(value, (str, int, torch.device)) and value is not True and bool(is_cuda(value)))

    return tensors.place(tensor) == CUDA and all(map(is_same, (*given, *named.values())))


def _moves(name: str, args: Any) -> Callable[[Any], None] | None:
    """The function that marks the result of a copy between whole tensors of the card like its source."""
    if name == "clone":
        source, target = args[0], None
    elif name == "copy_" and len(args) > 1 and hasattr(args[1], "dtype"):
        source, target = args[1], args[0]
    else:
        return None
    of_card = tensors.place(source) == CUDA and source.is_contiguous()
    if not of_card or (
        target is not None
        and not (tensors.place(target) == CUDA and target.is_contiguous() and target.dtype == source.dtype and target.shape == source.shape)
    ):
        return None

    def moved(out: Any) -> None:
        tensors.show()  # makes a new tensor known to the device
        process.device().taint.moved(out.data_ptr(), source.data_ptr(), source.numel() * source.element_size())

    return moved


def _wrote(out: Any) -> None:
    if out.is_contiguous() and tensors.place(out) == CUDA:
        process.device().taint.wrote(out.data_ptr(), out.numel() * out.element_size())


def _of_card(given: Any) -> Iterator[Any]:
    return (tensor for tensor in tensors_in(given) if tensors.place(tensor) == CUDA)


def _use(tensor: Any, by: str) -> None:
    try:
        address, size = tensor.data_ptr(), tensor.element_size()
    except RuntimeError:  # it has no memory
        return
    if address:
        process.device().taint.gives(address, tuple(tensor.shape), tuple(n * size for n in tensor.stride()), size, by)
