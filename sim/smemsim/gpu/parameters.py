"""A launch's arguments as the bytes of the parameter bank."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.arguments import shown
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import InputError
from smemsim.gpu.arrays import DeviceArray
from smemsim.gpu.linking.places import Places
from smemsim.gpu.registers import dtype_of
from smemsim.machine.region import GlobalMemory
from smemsim.ptx.module import Parameter

__all__ = ["number_bytes", "pack"]

ADDRESS_BYTES, MAP_BYTES = 8, 128
WANTED = "needs a number, an array of gpu.array, a TensorMap, bytes or None"


def pack(places: Places, args: Sequence[Any], memory: GlobalMemory | None = None) -> np.ndarray:
    """The parameter bytes: arrays as their address, tensor maps as their 128 bytes, None as zero, numbers converted to the parameter's type.

    A structure of 8 bytes also takes an array or a whole number. `memory` is that of the GPU which will run: an array of another one is refused.
    """
    wanted = places.parameters
    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise InputError(f"args = {shown(args)}: needs a list, one entry for each parameter")
    if len(args) != len(wanted):
        names = "; ".join(f"{n}: {p.name} ({_type(p)})" for n, p in enumerate(wanted))
        raise InputError(f"args: {len(args)} were given, the entry has {len(wanted)} parameters{f' ({names})' if names else ''}")
    out = np.zeros(max(places.parameter_bytes, 1), np.uint8)
    for n, (parameter, value) in enumerate(zip(wanted, args, strict=True)):
        raw = _raw(f"args[{n}] ({parameter.name}, {_type(parameter)})", parameter, value, memory)
        at = places.of(parameter.name).offset
        out[at : at + len(raw)] = np.frombuffer(raw, np.uint8)
    return out


def _type(parameter: Parameter) -> str:
    count = parameter.size // dtype_of(parameter.type).itemsize
    return f".{parameter.type}" + (f" [{count}]" if count != 1 else "")


def _raw(name: str, parameter: Parameter, value: Any, memory: GlobalMemory | None) -> bytes:
    size = parameter.size
    if value is None:
        return bytes(size)
    if isinstance(value, np.generic) and value.dtype.names is None:
        value = value.item() if value.dtype.kind in "biuf" else float(value) if value.dtype.kind == "V" else value  # V: of ml_dtypes
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
        raise InputError(f"{name} = {shown(value)}: {WANTED}") from None
    if len(raw) != size:
        hint = "; the address of a tensor map? that is `maps` in a launch file" if (size, len(raw)) == (ADDRESS_BYTES, MAP_BYTES) else ""
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
    if kind in ("b8", "u8", "s8") and size == ADDRESS_BYTES:  # a structure of one pointer, as CuTe DSL passes its tensors
        kind = "u64"
    if dtype_of(kind).itemsize != size:
        raise InputError(f"{name} = {shown(value)}: a structure or a tensor map of {size} bytes; pass a TensorMap or its bytes")
    return number_bytes(name, kind, size, value)


def number_bytes(name: str, kind: str, size: int, value: float) -> bytes:
    """A number as the bytes of a parameter of a PTX type; InputError where it does not fit.

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
        raise InputError(f"{name} = {shown(number)}: does not fit into {8 * size} bits")
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
