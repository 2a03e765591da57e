"""How PTX types lie in registers: the numpy type an instruction computes with, and how operands become functions of
the running threads.

A register is an array with an entry for every thread of a wave, unsigned and of the register's width (predicates are
bool, .b128 two 64-bit words). An operand of type f32 or s32 is the same memory looked at as float32 or int32; 16-bit
and smaller floats stay raw bits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np

from smemsim.base.errors import InputError
from smemsim.core.ptx.module import Immediate, Operand, Register, Sink, Special, Symbol
from smemsim.run.register_types import DTYPES, UNSIGNED, bits_of, dtype_of, storage

__all__ = ["DTYPES", "Names", "Read", "Wave", "Write", "bits_of", "dtype_of", "reader", "storage", "writer"]


# a `engine.wave.Wave`; it knows its launch and its program, so that no part of a program can name its type
Wave: TypeAlias = Any
# the values of the threads that run: an array of their number, or one number for all of them
Read: TypeAlias = Callable[[Wave], Any]
Write: TypeAlias = Callable[[Wave, Any], None]


class Names(Protocol):
    """The values of names: a program's linker."""

    def special(self, name: str) -> Read:
        """The values of a special register."""

    def address_of(self, symbol: Symbol) -> Read:
        """The address of a variable."""


def reader(operand: Operand, name: str, names: Names) -> Read:
    """A function that returns the operand's values, as the numpy type of the PTX type `name`, for the threads that run.

    The result may be the register itself: write no result before the last operand is used.
    """
    kind = storage(name) if name == "b128" else dtype_of(name)
    if isinstance(operand, Register):
        return _register(operand, kind)
    if isinstance(operand, Immediate):
        value = constant(operand, name)
        return lambda x: value
    if isinstance(operand, Special):
        special = names.special(operand.name)
        return lambda x: special(x).astype(kind, copy=False)
    if isinstance(operand, Symbol):
        address = names.address_of(operand)
        return lambda x: np.asarray(address(x)).astype(kind, copy=False)
    raise InputError(f"{_told(operand)}: needs a register, a number or a name, as .{name}")


def _told(operand: Operand) -> str:
    name = type(operand).__name__.lower()
    return f"{operand.value}" if isinstance(operand, Immediate) else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _register(operand: Register, kind: np.dtype[Any]) -> Read:
    slot, own = operand.slot, storage(operand.type)
    if operand.negated:
        return lambda x: ~x.r[slot][x.sel]
    if own == kind:
        return lambda x: x.r[slot][x.sel]
    if own.itemsize == kind.itemsize and np.bool_ not in (own, kind):
        return lambda x: x.r[slot][x.sel].view(kind)
    narrow = np.dtype(UNSIGNED[kind.itemsize])  # `OperandTypes` takes no register that is narrower
    return lambda x: x.r[slot][x.sel].astype(narrow).view(kind)


def constant(operand: Immediate, name: str) -> Any:
    """An immediate as a number of the PTX type."""
    kind = dtype_of(name)
    if kind == np.bool_:
        return np.bool_(operand.value != 0)
    value, size = operand.value, kind.itemsize
    if operand.kind == "f64" and name == "f32":
        return np.float32(struct.unpack("<d", value.to_bytes(8, "little"))[0])
    if operand.kind == "f32" and name == "f64":
        return np.float64(struct.unpack("<f", value.to_bytes(4, "little"))[0])
    raw = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return np.frombuffer(raw, kind)[0]


def writer(operand: Operand, name: str) -> Write:
    """A function that puts values of the PTX type `name` into the operand, for the threads that run.

    A register wider than the type is filled with zeros, or with the sign of signed types.
    """
    if isinstance(operand, Sink):
        return lambda x, values: None
    if not isinstance(operand, Register):
        raise InputError(f"a result needs a register, not {_told(operand)}")
    slot, own = operand.slot, storage(operand.type)
    kind = storage(name) if name == "b128" else dtype_of(name)
    if own == kind:

        def put(x: Wave, values: Any) -> None:
            x.r[slot][x.sel] = values

    elif own.itemsize == kind.itemsize and np.bool_ not in (own, kind):

        def put(x: Wave, values: Any) -> None:
            x.r[slot][x.sel] = np.asarray(values, kind).view(own)

    elif own.itemsize > kind.itemsize and kind.kind in "iuf":
        bits = kind if kind.kind != "f" else np.dtype(UNSIGNED[kind.itemsize])
        wide = np.dtype(f"{bits.kind}{own.itemsize}")

        def put(x: Wave, values: Any) -> None:
            x.r[slot][x.sel] = np.asarray(values, kind).view(bits).astype(wide).view(own)

    else:
        raise InputError(f"{operand.name} has type .{operand.type}: a result of type .{name} does not go there")
    return put
