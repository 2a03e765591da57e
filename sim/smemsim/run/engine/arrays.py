"""The inputs of a launch: arrays in global memory, and arguments packed as the parameters of the entry."""

from __future__ import annotations

import contextlib
import importlib
import math
import struct
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.base.arguments import shown, whole
from smemsim.base.errors import InputError
from smemsim.base.members import OwnMembers
from smemsim.core.arithmetic.values import from_float64
from smemsim.core.finding import Half
from smemsim.core.machine.global_memory import GlobalMemory
from smemsim.core.machine.stored_taint import strided
from smemsim.core.ptx.module import Parameter
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.tensor_map import MAP_BYTES
from smemsim.core.words.tensor_map import TensorMap
from smemsim.run.isa.registers import dtype_of
from smemsim.run.lower.program import Places

__all__ = [
    "MOST_BYTES",
    "DeviceArray",
    "HostMap",
    "as_numpy",
    "converted",
    "element_strides",
    "miscounted",
    "number_bytes",
    "pack",
    "shape_of",
    "storage",
]


# ---- Arrays of other libraries as numpy's, and arrays in simulated global memory


# torch's types that numpy has not: the element type, and torch's own integer of the same width, through which its
# bits leave it.
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
WANTED_ARRAY = "needs an array of plain numbers: of numpy, ml_dtypes, PyTorch, CuPy, or of any library that numpy or DLPack reads"


def storage(dtype: Any) -> np.dtype[Any]:
    """The numpy type in which elements of a type are stored. It is the type of ml_dtypes if that is installed, else
    unsigned words with the raw bits.

    Pass an element type by its PTX name ("f16" is half precision), or anything that numpy takes for a type. Returns a
    numpy type.

    >>> storage("f32"), storage("f16"), storage("tf32"), storage(np.int8)
    (dtype('float32'), dtype('float16'), dtype('float32'), dtype('int8'))
    """
    fmt = FORMATS.get(dtype) if isinstance(dtype, str) else None
    if fmt is None:
        try:
            converted_dtype: np.dtype[Any] = np.dtype(dtype)
        except Exception:  # numpy raises nearly anything for what is no type
            raise InputError(f"dtype = {shown(dtype)}: needs a type of numpy or an element type: {' '.join(FORMATS)}") from None
        if converted_dtype.kind not in "biufcV" or converted_dtype.hasobject or dtype is None:
            raise InputError(f"dtype = {shown(dtype)}: needs a type of plain numbers")
        return converted_dtype
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
    """Any library's array as a numpy array with its strides and this machine's byte order, copied from a GPU where it
    lies on one.

    `name` is how messages call it. The numpy array shares the memory of what was given where it can.
    """
    if isinstance(value, np.ndarray):
        return _plain(name, value, value)
    if value is None or isinstance(value, (str, dict, set)):
        raise InputError(f"{name} = {shown(value)}: {WANTED_ARRAY}")
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
        raise InputError(f"{name} = {shown(value)}: cannot be read as an array ({e}); {WANTED_ARRAY}") from None


def _plain(name: str, array: np.ndarray, given: Any) -> np.ndarray:
    if array.dtype.kind not in "biufcV" or array.dtype.hasobject:
        raise InputError(f"{name} = {shown(given)}: an array of {array.dtype}; {WANTED_ARRAY}")
    if array.dtype.name in SUB_BYTE:
        raise InputError(f"{name}: an array of {array.dtype}, of which numpy keeps one in a byte; {PACKED}")
    # GPUs have the bytes of a number lowest first
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def converted(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The array's numbers as elements of a type, rounded as numpy or ml_dtypes rounds; raw bits where neither has the
    type.
    """
    kind = storage(dtype)
    fmt = FORMATS.get(dtype) if isinstance(dtype, str) else None
    if fmt is not None and fmt.is_float and kind.kind == "u":
        return from_float64(array.astype(np.float64), fmt.name).astype(kind)
    with np.errstate(all="ignore"):
        return array.astype(kind)


def _of_torch(tensor: Any) -> np.ndarray:
    """A tensor's elements; those of types that numpy has not leave torch as integers."""
    host = tensor.detach().cpu()
    name = str(host.dtype)
    if name not in TORCH:
        return np.asarray(host.numpy())
    kind, integer = TORCH[name]
    torch = sys.modules["torch"]
    raw: np.ndarray = host.view(getattr(torch, integer)).numpy()
    return raw.view(storage(kind))


def element_strides(name: str, array: np.ndarray) -> tuple[int, ...]:
    """Elements from one index to the next of each axis; InputError where that is no whole number of them.

    >>> element_strides("a", np.zeros((4, 6), np.float32)[:, ::2].T)
    (2, 6)
    """
    size = array.dtype.itemsize
    if not size:
        raise InputError(f"{name}: an array of {array.dtype}, whose elements have no bytes; needs plain numbers")
    if any(s % size for s in array.strides):
        raise InputError(
            f"{name}: strides of {array.strides} bytes, elements of {size}: pass a copy, such as numpy.ascontiguousarray of it"
        )
    return tuple(s // size for s in array.strides)


class DeviceArray(metaclass=OwnMembers):
    """An array in simulated global memory. It keeps the strides of the array that was copied, as PyTorch and CuPy do.

    The address of its first element is `address`, its strides are `stride()`. Its contents are returned by `numpy()`,
    in the type and shape that it was made with, and overwritten by `update`. Elements of types that numpy lacks (bf16,
    fp8) are returned as ml_dtypes' types if that is installed, else as raw bits. `smemsim.to_float64` reads both.

    >>> from smemsim import DeviceArray, GlobalMemory
    >>> import numpy as np
    >>> a = DeviceArray(GlobalMemory(), np.arange(6, dtype=np.int16).reshape(2, 3).T)
    >>> a.shape, a.stride(), a.numpy()[2].tolist()
    ((3, 2), (1, 3), [2, 5])
    """

    def __init__(
        self, memory: GlobalMemory, array: np.ndarray, name: str = "", *, steps: tuple[int, ...] | None = None, address: int | None = None
    ) -> None:
        """`steps` are strides in elements, those of the array without them; bytes between its elements are zeros. Its
        first byte lies at `address`.
        """
        if not isinstance(memory, GlobalMemory):
            raise InputError(f"memory = {shown(memory)}: needs a GlobalMemory, such as Gpu.memory")
        if not isinstance(array, np.ndarray):
            raise InputError(f"array = {shown(array)}: needs a numpy array; Gpu.array takes those of other libraries")
        self.memory, self.dtype, self.shape = memory, array.dtype, array.shape
        self._steps = element_strides(name or "array", array) if steps is None else steps
        reach = [step * (n - 1) * self.dtype.itemsize for step, n in zip(self._steps, self.shape, strict=True)] if array.size else []
        self._first: int = -sum(min(x, 0) for x in reach)  # bytes before the first element: axes with negative strides
        size = self._first + sum(max(x, 0) for x in reach) + self.dtype.itemsize if array.size else 0
        if size > MOST_BYTES:
            raise InputError(
                f"{name or 'array'}: its strides span {size} bytes, smemsim takes {MOST_BYTES} at most: pass a copy without gaps"
            )
        data = np.zeros(size, np.uint8)
        self._view(data)[...] = array
        begin = memory.place(data, address, name=name)
        self.address: int = begin + self._first
        self._bytes = memory.span(begin, size) if size else data

    def _view(self, data: np.ndarray) -> np.ndarray:
        """The array in its bytes."""
        strides = tuple(step * self.dtype.itemsize for step in self._steps)
        if not data.size:
            return np.zeros(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, data.data, self._first, strides)

    @property
    def nbytes(self) -> int:
        """The bytes from the first element to the last one."""
        return int(self._bytes.size)

    @property
    def is_contiguous(self) -> bool:
        """True if the array lies in memory row by row, without gaps."""
        wanted = [math.prod(self.shape[n + 1 :]) for n in range(len(self.shape))]
        return all(have == want or n == 1 for have, want, n in zip(self._steps, wanted, self.shape, strict=True))

    def data_ptr(self) -> int:
        """The same as `address`: the name that PyTorch and Triton use."""
        return self.address

    def stride(self) -> tuple[int, ...]:
        """The elements from one index to the next, for each axis: the name that PyTorch uses."""
        return self._steps

    def numpy(self) -> np.ndarray:
        """A copy of the array as it is now, with its strides."""
        if self.memory.taint:
            strides = [step * self.dtype.itemsize for step in self._steps]
            begin = self.address - self._first  # of the first byte; the first element may lie after it
            inside = strided(self.shape, strides, self.dtype.itemsize) if min(strides, default=0) >= 0 else None
            self.memory.taint.use(begin, begin + self.nbytes, Half("use", "DeviceArray.numpy"), inside)
        return self._view(self._bytes.copy())

    def update(self, array: Any) -> None:
        """Replace the contents in global memory by an array of the same type and shape. Its strides may differ.
        InputError for another array.
        """
        new = as_numpy("array", array)
        if new.dtype != self.dtype or new.shape != self.shape:
            raise InputError(f"array: {new.dtype} {new.shape}; this one is {self.dtype} {self.shape}")
        self._view(self._bytes)[...] = new
        self.memory.wrote(self.address - self._first, self.address - self._first + self.nbytes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __repr__(self) -> str:
        layout = "" if self.is_contiguous else f", strides {self._steps}"
        return f"<DeviceArray {self.dtype} {self.shape}{layout} at {self.address:#x}>"


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array to make: a number, or several."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(values) > MOST_AXES:
        raise InputError(f"shape = {shown(value)}: at most {MOST_AXES} axes")
    out = tuple(whole("shape", n, minimum=0) for n in values)
    if math.prod(out) > MOST_BYTES:
        raise InputError(f"shape = {shown(value)}: {math.prod(out):,} elements; an array has at most {MOST_BYTES:,} bytes")
    return out


# ---- A launch's arguments as the bytes of the parameter bank


ADDRESS_BYTES = 8


class HostMap(bytes):
    """The 128 bytes of a tensor map and the descriptor from which the host's library made it.

    `name` is the descriptor's name. Shape and strides are in elements; the last dimension is contiguous, as in
    Triton's TensorDescriptor.
    """

    name = ""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    @classmethod
    def of(cls, raw: bytes, name: str, shape: Sequence[int], strides: Sequence[int]) -> HostMap:
        """A map's bytes as an argument of a launch."""
        made = cls(raw)
        made.name, made.shape, made.strides = name, tuple(map(int, shape)), tuple(map(int, strides))
        return made

    def called(self, name: str | None) -> HostMap:
        """The same map, whose descriptor the kernel's source calls so."""
        return HostMap.of(self, name or self.name, self.shape, self.strides)


WANTED_ARGUMENT = "needs a number, an array of gpu.array, a TensorMap, bytes or None"


def pack(places: Places, args: Sequence[Any], memory: GlobalMemory | None = None) -> np.ndarray:
    """The parameter bytes: arrays as their address, tensor maps as their 128 bytes, None as zero, numbers converted
    to the parameter's type.

    A structure of 8 bytes also takes an array or a whole number. `memory` is that of the GPU which will run: an array
    of another one is refused.
    """
    wanted = places.parameters
    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise InputError(f"args = {shown(args)}: needs a list, one entry for each parameter")
    if told := miscounted(wanted, len(args)):
        raise InputError(told)
    out = np.zeros(max(places.parameter_bytes, 1), np.uint8)
    for n, (parameter, value) in enumerate(zip(wanted, args, strict=True)):
        raw = _raw(f"args[{n}] ({parameter.name}, {_type(parameter)})", parameter, value, memory)
        at = places.of(parameter.name).offset
        out[at : at + len(raw)] = np.frombuffer(raw, np.uint8)
    return out


def miscounted(wanted: Sequence[Parameter], given: int) -> str:
    """The message for a number of arguments that is not the number of parameters; "" if it is."""
    if given == len(wanted):
        return ""
    names = "; ".join(f"{n}: {p.name} ({_type(p)})" for n, p in enumerate(wanted))
    return f"args: {given} given, the kernel has {len(wanted)} parameter{'s' * (len(wanted) != 1)}{f' ({names})' if names else ''}"


def _type(parameter: Parameter) -> str:
    count = parameter.size // dtype_of(parameter.type).itemsize
    return f".{parameter.type}" + (f" [{count}]" if count != 1 else "")


def _raw(name: str, parameter: Parameter, value: Any, memory: GlobalMemory | None) -> bytes:
    size = parameter.size
    if value is None:
        return bytes(size)
    if isinstance(value, np.generic) and value.dtype.names is None:
        # V: of ml_dtypes
        value = value.item() if value.dtype.kind in "biuf" else float(value) if value.dtype.kind == "V" else value
    if isinstance(value, (bool, int, float)):
        return _number(name, parameter, value)
    if isinstance(value, TensorMap):
        return _map(name, size, value)
    if isinstance(value, DeviceArray):
        return _address(name, size, value, memory)
    if (hasattr(value, "__array__") and not isinstance(value, np.generic)) or hasattr(value, "__dlpack__"):
        if getattr(value, "shape", None) == ():
            raise InputError(
                f"{name} = {shown(value)}: a 0-dimensional array; pass value.item() for a number, or gpu.array(value) for its address"
            )
        raise InputError(f"{name}: a {type(value).__module__}.{type(value).__name__} lies in the host's memory; pass gpu.array(value)")
    try:
        raw = bytes(memoryview(value))  # bytes, and structures of ctypes and numpy
    except TypeError:
        raise InputError(f"{name} = {shown(value)}: {WANTED_ARGUMENT}") from None
    if len(raw) != size:
        hint = "; the address of a tensor map? that is `maps` in a launch file" if (size, len(raw)) == (ADDRESS_BYTES, MAP_BYTES) else ""
        hint = hint or "; a tensor map? write {map = {...}} in a launch file, or pass a TensorMap" * (size == MAP_BYTES)
        if not hint and size == ADDRESS_BYTES and len(raw) < size:
            hint = "; for an address pass an array, for a number one of 8 bytes (u64)"
        if not hint and size < ADDRESS_BYTES == len(raw):
            hint = "; an array's address and u64 have 8; are the arguments in order?"
        raise InputError(f"{name}: has {size} bytes, {len(raw)} were given{hint}")
    return raw


def _map(name: str, size: int, tm: TensorMap) -> bytes:
    raw = bytes(tm)
    if size == ADDRESS_BYTES:
        raise InputError(
            f"{name}: takes the address of a tensor map, not its {len(raw)} bytes; pass gpu.array(np.frombuffer(bytes(tm), np.uint8)), or declare the "
            "parameter as const __grid_constant__ CUtensorMap"
        )
    if len(raw) != size:
        raise InputError(f"{name}: has {size} bytes, a tensor map has {len(raw)}")
    return raw


def _address(name: str, size: int, array: DeviceArray, memory: GlobalMemory | None) -> bytes:
    if size != ADDRESS_BYTES:
        raise InputError(f"{name}: has {size} bytes, which hold no address of an array ({ADDRESS_BYTES} bytes); {_hint(size)}")
    if memory is not None and array.memory is not memory:
        raise InputError(f"{name}: the array lies in the memory of another Gpu; put it into this one's with gpu.array")
    return struct.pack("<Q", array.address)


def _hint(size: int) -> str:
    return "is the order of the arguments that of the parameters?" if size < ADDRESS_BYTES else "give a structure as bytes"


def _number(name: str, parameter: Parameter, value: float) -> bytes:
    size, kind = parameter.size, parameter.type
    # a structure of one pointer, as CuTe DSL passes its tensors
    if kind in ("b8", "u8", "s8") and size == ADDRESS_BYTES:
        kind = "u64"
    if dtype_of(kind).itemsize != size:
        raise InputError(f"{name} = {shown(value)}: a structure or a tensor map of {size} bytes; pass a TensorMap or its bytes")
    return number_bytes(name, kind, size, value)


def number_bytes(name: str, kind: str, size: int, value: float, *, is_shown: bool = False) -> bytes:
    """A number as the bytes of a parameter of a PTX type; InputError where it does not fit. `is_shown`: its name in
    the error shows the number, too.

    >>> number_bytes("n", "u32", 4, -1), number_bytes("x", "b16", 2, 1.0)
    (b'\\xff\\xff\\xff\\xff', b'\\x00<')
    """
    if kind in ("f16", "f32", "f64"):
        try:
            return struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[kind], float(value))
        except OverflowError:
            raise InputError(f"{name} = {shown(value)}: beyond the largest {kind}; pass float('inf') for an infinity") from None
    if isinstance(value, float):
        packed = {"b16": "<e", "b32": "<f", "b64": "<d"}.get(kind)
        if packed is not None:
            return struct.pack(packed, float(value))
        if not value.is_integer():
            hint = f"; for a float's bits declare the parameter .b{8 * size} or .f{8 * size}" if size > 1 else ""
            raise InputError(f"{name} = {value}: needs a whole number{hint}")
    number = int(value)
    if not -(1 << 8 * size - 1) <= number < 1 << 8 * size:
        raise InputError(
            f"{name}{'' if is_shown else f' = {shown(number)}'}: does not fit into {8 * size} bits (at most {(1 << 8 * size) - 1})"
        )
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
