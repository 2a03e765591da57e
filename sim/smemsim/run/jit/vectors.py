"""Registers as vectors of LLVM: what every compiled form asks for its operands, and where it puts its result.

A value has an entry for each of the LANES threads of a group, of one of the types i1, i8 ... i64, float, double. A
register is loaded when it is first read and stored once, at the end. Text is made for one group; `segments.py` puts a
loop over the groups around it.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.core.ptx.module import Immediate, Operand, Register, Sink, Special
from smemsim.run.isa.registers import constant, dtype_of
from smemsim.run.isa.special_registers import is_fixed
from smemsim.run.tallies import GROUP

__all__ = ["LANES", "SINGLE_NAN", "Given", "Uncompiled", "Value", "Vectors", "llvm_type", "splat", "vector"]


LANES = GROUP  # threads of a vector
LINE = 64  # bytes of a line of the host's caches
AHEAD = 4  # groups: 3 to 6 are alike, 8 is less by half (a Xeon with 2 MB of second cache)
SINGLE_NAN = 0x7FFFFFFF  # every NaN that arithmetic of f32 gives (core/arithmetic/results.py)


class Uncompiled(Exception):
    """A form that the JIT compiler does not support: the interpreter runs its block."""


@dataclasses.dataclass(frozen=True)
class Value:
    """A vector by its name in the text. `raw`: the result of float arithmetic whose NaNs are still the host's."""

    name: str
    type: str
    raw: bool = False


def vector(kind: str) -> str:
    """The vector type of a scalar type."""
    return f"<{LANES} x {kind}>"


def llvm_type(kind: str) -> str:
    """The LLVM type that an instruction computes with for a PTX type."""
    if kind == "pred":
        return "i1"
    dtype = dtype_of(kind)
    if kind in ("f32", "f64"):
        return {"f32": "float", "f64": "double"}[kind]
    return f"i{8 * dtype.itemsize}"


def bits_of(kind: str) -> int:
    """The bits of an LLVM type."""
    return {"float": 32, "double": 64}.get(kind) or int(kind[1:])


def splat(kind: str, value: Any) -> str:
    """A constant vector, all of whose entries are `value`: an int, or for floats its bits."""
    if kind == "i1":
        text = "true" if value else "false"
    elif kind == "float":
        wide = struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", value))[0]))[0]
        text = f"0x{wide:016X}"
    elif kind == "double":
        text = f"0x{value:016X}"
    else:
        text = str(value)
    return f"<{', '.join([f'{kind} {text}'] * LANES)}>"


class Given:
    """An operand that is no register, and that is constant for a thread: it has slots after those of the registers.

    A key is ("special", name), ("parameter", its place in the bank) or ("variable", a `.shared` address); the numpy
    type is how it is read.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.keys: dict[tuple[str, Any, np.dtype[Any]], None] = {}

    def slot(self, key: tuple[str, Any, np.dtype[Any]]) -> int:
        """The slot of an array."""
        self.keys.setdefault(key)
        return self.first + list(self.keys).index(key)

    def is_one(self, slot: int) -> bool:
        """Is it a parameter, which is one number for all threads?"""
        return slot >= self.first and list(self.keys)[slot - self.first][0] == "parameter"

    def type_of(self, slot: int) -> np.dtype[Any]:
        """The type of the array of a slot."""
        return list(self.keys)[slot - self.first][2]


class Vectors:
    """The values of one group's registers while its instructions are made, and the text so far.

    The numpy types of all registers are `types`. The slots in the order of their first use are `used`. The functions of
    a module get a table of pointers. Its entry n is that of `used[n]`.
    """

    lanes = LANES

    def __init__(
        self, types: Sequence[np.dtype[Any]], wide: set[int], given: Given | None = None, used: dict[int, int] | None = None
    ) -> None:
        self.types, self.wide = types, wide
        self.given = Given(len(types)) if given is None else given
        self.lines: list[str] = []
        self.used: dict[int, int] = {} if used is None else used
        self._pointed: set[int] = set()
        self.current: dict[int, Value] = {}
        self.written: dict[int, None] = {}
        self.exposed: set[int] = set()  # read before anything was written there
        self.declared: set[str] = set()
        self.crossed: set[int] = set()  # read of the whole warp, so that nothing may be written there
        self.bases: dict[tuple[str, int], Any] = {}  # what is known of registers of addresses (`memory.py`)
        self.path: Value | None = None  # the lanes that are here, where branches have parted them (`joins.py`)
        self.parted: dict[int, Value] = {}  # those that have gone elsewhere, by the place of the branch
        self.counts: Any = None  # the entries that the text adds to, if observers count (`counted.Counts`)
        self._names = 0

    # ---- text

    def fresh(self) -> str:
        """A name that nothing has."""
        self._names += 1
        return f"%v{self._names}"

    def line(self, text: str) -> str:
        """A line that gives something; its name."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def emit(self, kind: str, text: str, *, raw: bool = False) -> Value:
        """A line that gives a vector of `kind`."""
        return Value(self.line(text), kind, raw)

    def alike(self, kind: str, name: str) -> Value:
        """A scalar in every lane."""
        one = self.line(f"insertelement {vector(kind)} poison, {kind} {name}, i64 0")
        return self.emit(kind, f"shufflevector {vector(kind)} {one}, {vector(kind)} poison, <{LANES} x i32> zeroinitializer")

    def by_half(self, lower: Value, upper: Value) -> Value:
        """One value in the lower group of a warp, another in the upper one."""
        if lower.name == upper.name:
            return lower
        is_upper = self.line(f"icmp ne i64 {self.line(f'and i64 %t, {LANES}')}, 0")
        kind = vector(lower.type)
        return self.emit(lower.type, f"select i1 {is_upper}, {kind} {upper.name}, {kind} {lower.name}")

    def binary(self, op: str, a: Value, b: Value, *, raw: bool = False) -> Value:
        """`op a, b` of one type."""
        return self.emit(a.type, f"{op} {vector(a.type)} {a.name}, {b.name}", raw=raw)

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """`icmp slt` and the like."""
        return self.emit("i1", f"{op} {vector(a.type)} {a.name}, {b.name}")

    def select(self, p: Value, a: Value, b: Value) -> Value:
        """a if p holds, else b. If one of them has NaNs of the host, and the other any bits, those of the host are made
        the hardware's first.
        """
        if a.raw != b.raw:
            a, b = self.canonical(a), self.canonical(b)
        return self.emit(
            a.type, f"select {vector('i1')} {p.name}, {vector(a.type)} {a.name}, {vector(a.type)} {b.name}", raw=a.raw or b.raw
        )

    def join(self, here: Value | None, others: Value) -> Value:
        """Lanes that are here, and others that come."""
        return others if here is None else self.binary("or", here, others)

    def cast(self, a: Value, kind: str, op: str) -> Value:
        """`op` (zext, trunc, bitcast ...) to another type."""
        return self.emit(kind, f"{op} {vector(a.type)} {a.name} to {vector(kind)}")

    def intrinsic(self, name: str, kind: str, operands: Sequence[Value], *rest: str, raw: bool = False) -> Value:
        """`llvm.name` of vectors; `rest` are arguments that are no vectors."""
        suffix = f"v{LANES}{kind.replace('float', 'f32').replace('double', 'f64')}"
        given = [f"{vector(x.type)} {x.name}" for x in operands] + list(rest)
        types = [vector(x.type) for x in operands] + [x.split()[0] for x in rest]
        full = f"@llvm.{name}.{suffix}"
        self.declared.add(f"declare {vector(kind)} {full}({', '.join(types)})")
        return self.emit(kind, f"call {vector(kind)} {full}({', '.join(given)})", raw=raw)

    def number(self, kind: str, value: Any) -> Value:
        """A constant."""
        return Value(splat(kind, value), kind)

    # ---- registers

    def slot(self, slot: int) -> Value:
        """The value of a register as it is stored; predicates as i1."""
        if slot in self.wide:
            raise Uncompiled("a register of 128 bits")
        if slot not in self.current:
            self.current[slot] = self._load(slot)
        return self.current[slot]

    def stored_type(self, slot: int) -> str:
        """The LLVM type of a register."""
        dtype = self.types[slot] if slot < len(self.types) else self.given.type_of(slot)
        return "i1" if dtype == np.bool_ else f"i{8 * dtype.itemsize}"

    def at(self, slot: int) -> str:
        """A pointer to the group's part of a register, or to a parameter.

        It is made at its first use. If all were made before the group's work, so many numbers would go to the stack
        and come back.
        """
        number = self.used.setdefault(slot, len(self.used))
        if slot not in self._pointed:
            self._pointed.add(slot)
            entry = self.line(f"getelementptr ptr, ptr %regs, i64 {number}")
            if self.given.is_one(slot):
                self.lines.append(f"  %at{number} = load ptr, ptr {entry}, align 8")
            else:
                begin, kind = self.line(f"load ptr, ptr {entry}, align 8"), self.stored_type(slot)
                self.lines.append(f"  %at{number} = getelementptr {'i8' if kind == 'i1' else kind}, ptr {begin}, i64 %t")
                self._prefetch(f"%at{number}", LANES * (1 if kind == "i1" else bits_of(kind) // 8))
        return f"%at{number}"

    def _prefetch(self, at: str, size: int) -> None:
        """Ask for the bytes of a group further on, of so many each: the processor itself sees ahead for some thirty
        arrays at most.
        """
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for line in range(0, size, LINE):
            ahead = self.line(f"getelementptr i8, ptr {at}, i64 {AHEAD * size + line}")
            self.lines.append(f"  call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 3, i32 1)")

    def _load(self, slot: int) -> Value:
        at, kind = self._read_at(slot), self.stored_type(slot)
        if self.given.is_one(slot):
            return self.alike(kind, self.line(f"load {kind}, ptr {at}, align {bits_of(kind) // 8}"))
        if kind == "i1":
            raw = self.emit("i8", f"load {vector('i8')}, ptr {at}, align 1")
            return self.compare("icmp ne", raw, self.number("i8", 0))
        return self.emit(kind, f"load {vector(kind)}, ptr {at}, align {bits_of(kind) // 8}")

    def both(self, slot: int, kind: str) -> tuple[Value, Value]:
        """A register in the lower and the upper group of the warp, as memory has it: nothing has been written there,
        and nothing will be.
        """
        stored = "i8" if kind == "i1" else kind
        begin = self._begin(slot, kind)
        places = begin, self.line(f"getelementptr {stored}, ptr {begin}, i64 {LANES}")
        values = [self.emit(stored, f"load {vector(stored)}, ptr {place}, align {bits_of(stored) // 8}") for place in places]
        lower, upper = (self.compare("icmp ne", one, self.number("i8", 0)) if kind == "i1" else one for one in values)
        return lower, upper

    def lane(self, slot: int, kind: str, lower: int, upper: int) -> Value:
        """The value of one lane of the warp in a register, in all lanes of the lower group; that of another lane for
        the upper group. From memory (`both`).

        One number is loaded. If one lane of a vector is needed, the code that LLVM 22 makes for it ends the process
        at times (level 0, in one of 80,000 random programs).
        """
        is_own = upper == lower + LANES  # no other group is read
        begin = self._read_at(slot) if is_own and slot not in self.written and self.stored_type(slot) == kind else self._begin(slot, kind)
        place = str(lower)
        if lower != upper and not is_own:
            is_upper = self.line(f"icmp ne i64 {self.line(f'and i64 %t, {LANES}')}, 0")
            place = self.line(f"select i1 {is_upper}, i64 {upper}, i64 {lower}")
        at = self.line(f"getelementptr {kind}, ptr {begin}, i64 {place}")
        return self.alike(kind, self.line(f"load {kind}, ptr {at}, align {bits_of(kind) // 8}"))

    def _read_at(self, slot: int) -> str:
        """The pointer to a register that is read as it is in memory."""
        self.exposed.add(slot)
        return self.at(slot)

    def _begin(self, slot: int, kind: str) -> str:
        """The begin of the warp's values of a register that other lanes read."""
        if slot in self.written or slot in self.wide or self.stored_type(slot) != kind:
            raise Uncompiled("a register of another group")
        at = self._read_at(slot)
        self.crossed.add(slot)
        back = self.line(f"sub i64 0, {self.line(f'and i64 %t, {LANES}')}")
        return self.line(f"getelementptr {'i8' if kind == 'i1' else kind}, ptr {at}, i64 {back}")

    def canonical(self, a: Value) -> Value:
        """With the NaN that the hardware gives, if it is the result of arithmetic."""
        if not a.raw:
            return a
        nan = self.compare("fcmp uno", a, a)
        return dataclasses.replace(self.select(nan, self.number("float", SINGLE_NAN), dataclasses.replace(a, raw=False)), raw=False)

    def read(self, operand: Operand, kind: str) -> Value:
        """An operand as a PTX type, as `registers.reader` gives it."""
        to = llvm_type(kind)
        if isinstance(operand, Immediate):
            return self.number(to, self._bits(operand, kind))
        if isinstance(operand, Special) and is_fixed(operand.name) and to in ("i32", "i64"):
            return self.slot(self.given.slot(("special", operand.name, np.dtype(f"u{bits_of(to) // 8}"))))
        if not isinstance(operand, Register) or operand.part:
            raise Uncompiled(f"operand {operand}")
        value = self.slot(operand.slot)
        if operand.negated:
            return self.binary("xor", value, self.number("i1", 1))
        return self.as_type(value, to)

    def as_type(self, value: Value, to: str) -> Value:
        """The bits of a value as another type, of a wider one the low bits."""
        if value.type == to:
            return value
        if "i1" in (value.type, to):
            raise Uncompiled(f"{value.type} as {to}")
        have, want = bits_of(value.type), bits_of(to)
        if have == want:
            return self.cast(self.canonical(value), to, "bitcast")
        if have < want:
            raise Uncompiled(f"{value.type} as {to}")
        if value.type in ("float", "double"):
            value = self.as_type(value, f"i{have}")
        low = self.cast(value, f"i{want}", "trunc")
        return low if low.type == to else self.cast(low, to, "bitcast")

    @staticmethod
    def _bits(operand: Immediate, kind: str) -> int:
        value = np.asarray(constant(operand, kind))
        if kind == "pred":
            return int(value)
        return int(value.reshape(1).view(f"u{value.dtype.itemsize}")[0])

    def write(self, operand: Operand, kind: str, value: Value, guard: Value | None) -> None:
        """Put a value of a PTX type into a register, as `registers.writer` does; with `guard` only where that holds."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register) or operand.slot in self.wide or operand.slot in self.crossed:
            raise Uncompiled(f"operand {operand}")
        own = self.stored_type(operand.slot)
        if value.type != own and not (value.type == "float" and own == "i32") and not (value.type == "double" and own == "i64"):
            value = self._widened(value, kind, own)
        if guard is not None:
            old = self.slot(operand.slot)
            value = self.select(guard, value, self.as_type(old, value.type))
        self.current[operand.slot] = value
        self.written[operand.slot] = None

    def _widened(self, value: Value, kind: str, own: str) -> Value:
        if "i1" in (value.type, own):
            raise Uncompiled(f"{value.type} into {own}")
        if value.type in ("float", "double"):
            value = self.as_type(value, f"i{bits_of(value.type)}")
        if bits_of(value.type) == bits_of(own):
            return value
        if bits_of(value.type) > bits_of(own) or kind[0] not in "iusb":
            raise Uncompiled(f"{value.type} into {own}")
        return self.cast(value, own, "sext" if kind[0] == "s" else "zext")

    def final(self, slot: int) -> Value:
        """The value of a register at the end, as it is stored in memory. Predicates are i8."""
        value = self.current[slot]
        own = self.stored_type(slot)
        if own == "i1":
            return self.cast(value, "i8", "zext")
        return self.as_type(self.canonical(value), own)
