"""What the shims of PyTorch ask of `torch`, over numpy: enough to state their laws where PyTorch is not installed.

Names and meanings are those of PyTorch's documentation. Tests of programs with PyTorch itself are in
`test_virtual_triton.py`.
"""

import contextlib
import types

import numpy as np

__all__ = ["Storage", "Tensor", "stand_in"]


class Device:
    """`torch.device`: of a name such as "cuda:0", or of a type and an index."""

    def __init__(self, of, index=None):
        if isinstance(of, Device):
            of, index = of.type, of.index
        kind, _, number = str(of).partition(":")
        self.type, self.index = kind, int(number) if number else index

    def __eq__(self, other):
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))


class DType:
    """`torch.dtype`."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"


class Storage:
    """`torch.UntypedStorage`: `data` are its bytes. It may be resized, and dies as any object."""

    def __init__(self, data):
        self.data = data

    def data_ptr(self):
        return self.data.ctypes.data if self.data.size else 0

    def nbytes(self):
        return self.data.size


class Tensor:
    """`torch.Tensor` on the CPU: elements of numpy over a storage."""

    is_sparse = False

    def __init__(self, elements, dtype, storage=None):
        self.elements, self.dtype = elements, dtype
        self.storage = Storage(elements.reshape(-1).view(np.uint8)) if storage is None else storage
        self.device = Device("cpu")

    def untyped_storage(self):
        return self.storage

    @property
    def shape(self):
        return self.elements.shape

    def data_ptr(self):
        return self.elements.ctypes.data

    def numel(self):
        return self.elements.size

    def element_size(self):
        return self.elements.itemsize

    def stride(self):
        return tuple(n // self.elements.itemsize for n in self.elements.strides)

    def is_contiguous(self):
        return self.elements.flags.c_contiguous

    def contiguous(self):
        return self

    def view(self, dtype):
        return Tensor(self.elements.view(dtype.name), dtype, self.storage)

    def tolist(self):
        return self.elements.tolist()

    def detach(self):
        return Tensor(self.elements, self.dtype, self.storage)

    def copy_(self, other):
        self.elements[...] = other.elements
        return self

    def t(self):
        return Tensor(self.elements.T, self.dtype, self.storage)


class WithoutMemory:
    """A tensor without a storage, as a sparse one."""

    is_sparse, device = True, Device("cpu")

    def untyped_storage(self):
        raise NotImplementedError("Cannot access storage")


class OutOfMemoryError(RuntimeError):
    """`torch.OutOfMemoryError`."""


class AcceleratorError(RuntimeError):
    """`torch.AcceleratorError`."""


def stand_in():
    """A module `torch`."""
    torch = types.ModuleType("torch")
    for name in ("float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"):
        setattr(torch, name, DType(name))
    torch.device, torch.dtype, torch.Tensor, torch.WithoutMemory = Device, DType, Tensor, WithoutMemory
    torch.OutOfMemoryError, torch.AcceleratorError = OutOfMemoryError, AcceleratorError
    functorch = types.SimpleNamespace(
        is_functorch_wrapped_tensor=lambda tensor: hasattr(tensor, "wraps"), get_unwrapped=lambda tensor: tensor.wraps
    )
    torch._C = types.SimpleNamespace(_current_graph_task_id=lambda: -1, _functorch=functorch)
    torch.no_grad = contextlib.nullcontext

    def empty(*shape, dtype=torch.float32):
        kind = {"bfloat16": "uint16"}.get(dtype.name, dtype.name)
        return Tensor(np.zeros(shape, kind), dtype)

    def tensor(values, dtype):
        return Tensor(np.array(values, dtype.name), dtype)

    torch.empty, torch.tensor = empty, tensor
    torch.equal = lambda one, other: np.array_equal(one.elements, other.elements)
    return torch
