"""A launch's arguments as the bytes of the parameter bank."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.arguments import shown
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import InputError
from smemsim.gpu.places import Places
from smemsim.gpu.registers import dtype_of
from smemsim.ptx.module import Parameter

__all__ = ["pack"]


def pack(places: Places, args: Sequence[Any]) -> np.ndarray:
    """The parameter bytes: arrays as their address, tensor maps as their 128 bytes, None as zero, numbers converted to the parameter's type.

    A structure of 8 bytes also takes an array or a whole number.
    """
    wanted = places.parameters
    if len(args) != len(wanted):
        raise InputError(f"args: the entry has {len(wanted)} parameters ({', '.join(p.type for p in wanted)}), {len(args)} were given")
    out = np.zeros(max(places.parameter_bytes, 1), np.uint8)
    for n, (parameter, value) in enumerate(zip(wanted, args, strict=True)):
        raw = _raw(n, parameter, value)
        at = places.of(parameter.name).offset
        out[at : at + len(raw)] = np.frombuffer(raw, np.uint8)
    return out


def _raw(n: int, parameter: Parameter, value: Any) -> bytes:
    size, name = parameter.size, f"args[{n}] ({parameter.name}, .{parameter.type})"
    if value is None:
        return bytes(size)
    if isinstance(value, TensorMap):
        value = bytes(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        if len(raw) != size:
            raise InputError(f"{name}: has {size} bytes, {len(raw)} were given")
        return raw
    if hasattr(value, "address"):
        value = value.address
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputError(f"{name} = {shown(value)}: needs a number, an array of gpu.array, a TensorMap, bytes or None")
    return _number(name, parameter, value)


def _number(name: str, parameter: Parameter, value: Any) -> bytes:
    size, kind = parameter.size, parameter.type
    if kind == "f16":
        return struct.pack("<e", float(value))
    if kind in ("f32", "f64"):
        return struct.pack("<f" if kind == "f32" else "<d", float(value))
    dtype = dtype_of(kind)
    if dtype.itemsize == 1 and size == 8:  # a structure of one pointer, as CuTe DSL passes its tensors
        dtype = dtype_of("u64")
    if dtype.itemsize != size:
        raise InputError(f"{name}: {size} bytes of a structure; give them as bytes")
    if isinstance(value, (float, np.floating)):
        if kind == "b32":
            return struct.pack("<f", float(value))
        if kind == "b64":
            return struct.pack("<d", float(value))
        if not float(value).is_integer():
            raise InputError(f"{name} = {value}: needs a whole number")
    number = int(value)
    if not -(1 << 8 * size - 1) <= number < 1 << 8 * size:
        raise InputError(f"{name} = {number}: does not fit into {8 * size} bits")
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
