"""DLPack of torch: tensors of the card are exported as device memory. This holds for capsules and for the C interface
that TVM FFI and others use (dlpack.h 1.3).

Functions of torch do the work, for CPU tensors. The device is inserted on export and removed on import.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from smemsim.virtual.alignment import align
from smemsim.virtual.torch_cuda import streams
from smemsim.virtual.torch_tensors import CUDA, tensors

__all__ = ["open_dlpack"]


KDL_CPU, KDL_CUDA = 1, 2
IN_TENSOR = 8  # where device_type is in a DLTensor, in which bytes
# in a DLManagedTensor, a DLManagedTensorVersioned
_DEVICE_AT = {b"dltensor": IN_TENSOR, b"dltensor_versioned": 32 + IN_TENSOR}


def open_dlpack() -> None:
    """Change torch, once."""
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

    def also_of_the_card(own: Callable[..., Any]) -> Callable[..., Any]:
        def give(tensor: Any, **named: Any) -> Any:
            return _on(KDL_CUDA, own(tensor, **named)) if tensors.place(tensor) == CUDA else own(tensor, **named)

        return give

    dlpack.__name__ = of_cpu.__name__  # torch calls it by this name, which reads nothing (`torch_taint.py`)
    for name in ("_to_dlpack", "_to_dlpack_versioned"):  # cuTile asks the first one
        if hasattr(torch._C, name):
            setattr(torch._C, name, also_of_the_card(getattr(torch._C, name)))
    torch.Tensor.__dlpack__ = dlpack
    torch.from_dlpack = torch.utils.dlpack.from_dlpack = from_dlpack
    torch.to_dlpack = torch.utils.dlpack.to_dlpack = dlpack
    torch._C._cuda_getCurrentRawStream = lambda device: streams.current  # TVM FFI asks this
    names = [name for name in ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__") if hasattr(torch.Tensor, name)]
    if names:
        exchange.open(getattr(torch.Tensor, names[0]))
    else:
        os.environ["TVM_FFI_DISABLE_TORCH_C_DLPACK"] = (
            "1"  # it would compile an interface to torch's C++, where tensors of the card are the CPU's
        )
    for name in names:
        setattr(torch.Tensor, name, exchange.capsule)


def _on(device: int, capsule: Any) -> Any:
    """A DLPack capsule that says its memory is on a device of this kind."""
    _kind(capsule).value = device
    return capsule


def _kind(capsule: Any) -> ctypes.c_int32:
    name = _capsule("Name", ctypes.c_char_p, capsule)
    return _device(_capsule("Pointer", ctypes.c_void_p, capsule, name), _DEVICE_AT[name])


def _device(address: int, at: int) -> ctypes.c_int32:
    """The place of the device kind in a structure of DLPack."""
    return ctypes.c_int32.from_address(address + at)


def _capsule(what: str, gives: Any, capsule: Any, *more: Any) -> Any:
    """PyCapsule_GetName and PyCapsule_GetPointer."""
    get = ctypes.PYFUNCTYPE(gives, ctypes.py_object, *[ctypes.c_char_p] * len(more))((f"PyCapsule_Get{what}", ctypes.pythonapi))
    return get(capsule, *more)


# ---- The C interface: a structure of functions, a class attribute of torch.Tensor


_VERSIONED = _DEVICE_AT[b"dltensor_versioned"]
_Pointer = ctypes.POINTER(ctypes.c_void_p)
_SetError = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
_FUNCTIONS = {  # of DLPackExchangeAPI, in their order: what they take
    "managed_tensor_allocator": (ctypes.c_void_p, _Pointer, ctypes.c_void_p, _SetError),
    "managed_tensor_from_py_object_no_sync": (ctypes.c_void_p, _Pointer),
    "managed_tensor_to_py_object_no_sync": (ctypes.c_void_p, _Pointer),
    "dltensor_from_py_object_no_sync": (ctypes.c_void_p, ctypes.c_void_p),
    "current_work_stream": (ctypes.c_int32, ctypes.c_int32, _Pointer),
}


class _ExchangeApi(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", ctypes.c_void_p), *((name, ctypes.c_void_p) for name in _FUNCTIONS),
    ]  # fmt: skip


class _Exchange:
    """The interface for others, and torch's own interface."""

    def open(self, of_torch: Any) -> None:
        """Put the card into torch's own interface, which a capsule has."""
        name = _capsule("Name", ctypes.c_char_p, of_torch)
        own = _ExchangeApi.from_address(_capsule("Pointer", ctypes.c_void_p, of_torch, name))
        functions = {n: takes for n, takes in _FUNCTIONS.items() if getattr(own, n)}
        self._torch: dict[str, Callable[..., int]] = {
            n: ctypes.PYFUNCTYPE(ctypes.c_int, *takes)(getattr(own, n)) for n, takes in functions.items()
        }
        mine: dict[str, Callable[..., int]] = {
            "managed_tensor_allocator": self.allocate, "managed_tensor_from_py_object_no_sync": self.give, "managed_tensor_to_py_object_no_sync": self.take,
            "dltensor_from_py_object_no_sync": self.show, "current_work_stream": self.stream,
        }  # fmt: skip
        self._functions = {n: ctypes.CFUNCTYPE(ctypes.c_int, *_FUNCTIONS[n])(mine[n]) for n in self._torch}
        addresses = {n: ctypes.cast(f, ctypes.c_void_p).value for n, f in self._functions.items()}
        self._api = _ExchangeApi(major=own.major, minor=own.minor, **addresses)
        self._name = ctypes.create_string_buffer(name)
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
        self.capsule = make(ctypes.addressof(self._api), ctypes.cast(self._name, ctypes.c_char_p), None)

    def allocate(self, prototype: int, out: Any, context: int, set_error: Any) -> int:
        """A tensor as the prototype is: its shape, type and device."""
        like = ctypes.create_string_buffer(ctypes.string_at(prototype, 48))  # sizeof(DLTensor)
        kind = _device(ctypes.addressof(like), IN_TENSOR)
        if kind.value != KDL_CUDA:
            return self._torch["managed_tensor_allocator"](prototype, out, context, set_error)
        kind.value = KDL_CPU
        align()
        made = ctypes.c_void_p()
        code = self._torch["managed_tensor_allocator"](ctypes.addressof(like), ctypes.byref(made), context, set_error)
        if code:
            return code
        _device(made.value or 0, _VERSIONED).value = KDL_CUDA
        held = ctypes.c_void_p()
        code = self.take(made.value or 0, ctypes.pointer(held))
        return code or self._released(held, self.give(held.value or 0, out))

    @staticmethod
    def _released(held: ctypes.c_void_p, code: int) -> int:
        ctypes.pythonapi.Py_DecRef(held)
        return code

    def give(self, tensor: int, out: Any) -> int:
        """A tensor of Python's as a DLManagedTensorVersioned."""
        code = self._torch["managed_tensor_from_py_object_no_sync"](tensor, out)
        if not code and _is_on_card(tensor):
            _device(out[0], _VERSIONED).value = KDL_CUDA
        return code

    def show(self, tensor: int, out: int) -> int:
        """A tensor of Python's as a DLTensor, as long as that lives."""
        code = self._torch["dltensor_from_py_object_no_sync"](tensor, out)
        if not code and _is_on_card(tensor):
            _device(out, IN_TENSOR).value = KDL_CUDA
        return code

    def take(self, given: int, out: Any) -> int:
        """A tensor of Python's that has the memory of a DLManagedTensorVersioned."""
        kind = _device(given, _VERSIONED)
        on_card = kind.value == KDL_CUDA
        if on_card:
            kind.value = KDL_CPU
        code = self._torch["managed_tensor_to_py_object_no_sync"](given, out)
        if not code and on_card:
            tensors.mark(ctypes.cast(out[0], ctypes.py_object).value, CUDA, "a tensor of DLPack")
        return code

    def stream(self, kind: int, number: int, out: Any) -> int:
        """The current stream of a device."""
        if kind != KDL_CUDA:
            return self._torch["current_work_stream"](kind, number, out)
        out[0] = streams.current
        return 0


def _is_on_card(tensor: int) -> bool:
    return tensors.place(ctypes.cast(tensor, ctypes.py_object).value) == CUDA


exchange = _Exchange()
