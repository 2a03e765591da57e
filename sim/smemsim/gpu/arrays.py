"""Arrays of other libraries as numpy's, and arrays in simulated global memory."""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
from typing import Any

import numpy as np

from smemsim.arguments import shown, whole
from smemsim.arithmetic.values import from_float64
from smemsim.errors import InputError
from smemsim.machine.region import GlobalMemory
from smemsim.spec.formats import FORMATS

__all__ = ["MOST_BYTES", "DeviceArray", "as_numpy", "converted", "shape_of", "storage"]

# torch's types that numpy has not: the element type, and torch's own integer of the same width, through which its bits leave it.
TORCH = {
    "torch.bfloat16": ("bf16", "int16"),
    "torch.float8_e4m3fn": ("e4m3", "uint8"),
    "torch.float8_e5m2": ("e5m2", "uint8"),
    "torch.float8_e8m0fnu": ("ue8m0", "uint8"),
    "torch.float4_e2m1fn_x2": ("u8", "uint8"),
}
SUB_BYTE = {name for f in FORMATS.values() if 1 < f.bits < 8 for name in f.numpy_names} | {"int4", "uint4", "int2", "uint2"}
PACKED = "pack them as memory has them (two 4-bit elements to a byte, the first in the lower half) and pass uint8"
MOST_AXES = 64  # of a numpy array
MOST_BYTES = 1 << 34  # of an array in simulated memory
WANTED = "needs an array of plain numbers: of numpy, ml_dtypes, PyTorch, CuPy, or of any library that numpy or DLPack reads"


def storage(dtype: Any) -> np.dtype[Any]:
    """The numpy type in which elements of a type lie in memory: ml_dtypes' where that is installed, else unsigned words with the raw bits.

    `dtype` is an element type by its PTX name ("f16" is half precision) or anything numpy takes for a type.

    >>> storage("f32"), storage("f16"), storage("tf32"), storage(np.int8)
    (dtype('float32'), dtype('float16'), dtype('float32'), dtype('int8'))
    """
    fmt = FORMATS.get(dtype) if isinstance(dtype, str) else None
    if fmt is None:
        try:
            found: np.dtype[Any] = np.dtype(dtype)
        except Exception:  # numpy raises nearly anything for what is no type
            raise InputError(f"dtype = {shown(dtype)}: needs a type of numpy or an element type: {' '.join(FORMATS)}") from None
        if found.kind not in "biufcV" or found.hasobject or dtype is None:
            raise InputError(f"dtype = {shown(dtype)}: needs a type of plain numbers")
        return found
    if fmt.bits < 8:
        raise InputError(f"dtype = {dtype!r}: elements of {fmt.bits} bits; {PACKED}")
    if fmt.name == "tf32":
        return np.dtype(np.float32)  # a whole word, of which the tensor core ignores the last 13 bits
    for name in fmt.numpy_names:
        if hasattr(np, name):
            return np.dtype(str(name))
        with contextlib.suppress(ImportError, AttributeError):
            small: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
            return small
    return np.dtype(f"u{max(1, fmt.bits // 8)}")


def as_numpy(name: str, value: Any) -> np.ndarray:
    """Any library's array as a numpy array, copied from a GPU where it lies on one; `name` is how messages call it."""
    if isinstance(value, np.ndarray):
        return _plain(name, value, value)
    if value is None or isinstance(value, (str, dict, set)):
        raise InputError(f"{name} = {shown(value)}: {WANTED}")
    try:
        if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
            return _of_torch(value)
        if hasattr(value, "__cuda_array_interface__") and hasattr(value, "get"):
            return _plain(name, np.asarray(value.get()), value)  # CuPy
        if not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
            return _plain(name, np.from_dlpack(value), value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return np.frombuffer(value, np.uint8)
        return _plain(name, np.asarray(value), value)
    except InputError:
        raise
    except Exception as e:  # whatever another library raises
        raise InputError(f"{name} = {shown(value)}: cannot be read as an array ({e}); {WANTED}") from None


def _plain(name: str, array: np.ndarray, given: Any) -> np.ndarray:
    if array.dtype.kind not in "biufcV" or array.dtype.hasobject:
        raise InputError(f"{name} = {shown(given)}: an array of {array.dtype}; {WANTED}")
    if array.dtype.name in SUB_BYTE:
        raise InputError(f"{name}: an array of {array.dtype}, of which numpy keeps one in a byte; {PACKED}")
    return array


def converted(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The array's numbers as elements of a type, rounded as numpy or ml_dtypes rounds; raw bits where neither has the type."""
    kind = storage(dtype)
    fmt = FORMATS.get(dtype) if isinstance(dtype, str) else None
    if fmt is not None and fmt.is_float and kind.kind == "u":
        return from_float64(array.astype(np.float64), fmt.name).astype(kind)
    with np.errstate(all="ignore"):
        return array.astype(kind)


def _of_torch(tensor: Any) -> np.ndarray:
    """A tensor's elements; those of types that numpy has not leave torch as integers."""
    host = tensor.detach().cpu().contiguous()
    name = str(host.dtype)
    if name not in TORCH:
        return np.asarray(host.numpy())
    kind, integer = TORCH[name]
    torch = sys.modules["torch"]
    raw: np.ndarray = host.view(getattr(torch, integer)).numpy()
    return raw.view(storage(kind))


class DeviceArray:
    """An array in simulated global memory.

    `address` is its first byte, `numpy()` its contents now, in the type and the shape it was made with; `update` overwrites them. Elements of
    a type that numpy lacks (bf16, fp8) come as ml_dtypes' where that is installed, else as raw bits; `smemsim.to_float64` reads both.
    """

    def __init__(self, memory: GlobalMemory, array: np.ndarray, name: str = "") -> None:
        self.memory, self.dtype, self.shape = memory, array.dtype, array.shape
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8) if array.nbytes else np.zeros(0, np.uint8)
        self.address = memory.place(data, name=name)
        self._bytes = memory.span(self.address, data.size) if data.size else data

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self._bytes.size)

    def data_ptr(self) -> int:
        """`address`, by the name that PyTorch and Triton have for it."""
        return self.address

    def stride(self) -> tuple[int, ...]:
        """Elements from one index to the next of each axis, by PyTorch's name: it lies in memory contiguously."""
        return tuple(math.prod(self.shape[n + 1 :]) for n in range(len(self.shape)))

    def numpy(self) -> np.ndarray:
        """A copy of the array as it is now."""
        return self._bytes.copy().view(self.dtype).reshape(self.shape)

    def update(self, array: Any) -> None:
        """Put other contents there: an array of the same type and shape. InputError for another one."""
        new = as_numpy("array", array)
        if new.dtype != self.dtype or new.shape != self.shape:
            raise InputError(f"array: {new.dtype} {new.shape}; this one is {self.dtype} {self.shape}")
        self._bytes[:] = np.ascontiguousarray(new).reshape(-1).view(np.uint8)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype} {self.shape} at {self.address:#x}>"


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array to make: a number, or several."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(values) > MOST_AXES:
        raise InputError(f"shape = {shown(value)}: at most {MOST_AXES} axes")
    out = tuple(whole("shape", n, minimum=0) for n in values)
    if math.prod(out) > MOST_BYTES:
        raise InputError(f"shape = {shown(value)}: {math.prod(out):,} elements; an array has at most {MOST_BYTES:,} bytes")
    return out
