"""Weak loads and stores of global and shared memory in compiled segments.

A segment with accesses has two functions. The first computes the addresses of all its accesses, and where the bytes lie in the host's memory; it notes
for each group whether they are one place, or neighbours. It writes nothing else, so that nothing has happened where an address is wrong, or where the
watch wants a closer look: then closures execute the segment. The second one moves the bytes.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from smemsim.program.compiled.vectors import LANES, Uncompiled, Value, Vectors, llvm_type
from smemsim.program.registers import bits_of as ptx_bits
from smemsim.ptx.module import Address, Instruction, Operand, Register, Symbol, Vector
from smemsim.spec.architectures import architecture

if TYPE_CHECKING:
    from smemsim.program.linking.program import Program

__all__ = [
    "GENERAL",
    "NEIGHBOURS",
    "ONE_PLACE",
    "Access",
    "access_of",
    "emit_access",
    "emit_address",
    "emit_parameter",
    "emit_variable",
    "parameter_of",
    "variable_of",
]


GENERAL, ONE_PLACE, NEIGHBOURS = 0, 1, 2  # what the places of a group are
_VECTORS = {"v2": 2, "v4": 4}
_SPACES = {"global": "global", "shared": "shared", "shared::cta": "shared"}
_HINTS = {"nc", "ca", "cg", "cs", "lu", "wb", "wt", "weak"}


@dataclasses.dataclass(frozen=True)
class Access:
    """A load or store: which entry of the tables it has, its space, `count` elements of `kind` for each thread."""

    number: int
    instruction: Instruction
    space: str
    kind: str
    count: int
    within: int | None = None  # the place in the window, where the address is that of a variable

    @property
    def is_load(self) -> bool:
        """A load?"""
        return self.instruction.op == "ld"

    @property
    def size(self) -> int:
        """Bytes of a thread."""
        return self.count * ptx_bits(self.kind) // 8

    @property
    def slot(self) -> int | None:
        """The register that its address is in; None for that of a variable."""
        base = self._address.base
        return base.slot if isinstance(base, Register) else None

    @property
    def offset(self) -> int:
        """What is added to the register."""
        return self._address.offset

    @property
    def _address(self) -> Address:
        return _address_of(self.instruction)

    @property
    def needed(self) -> set[int]:
        """The registers that say whether and where it is."""
        guard = self.instruction.guard
        return {slot for slot in (self.slot, guard.slot if guard is not None else None) if slot is not None}

    @property
    def data(self) -> tuple[Operand, ...]:
        """The registers that it loads into, or stores."""
        operand = self.instruction.operands[0 if self.is_load else 1]
        items = operand.items if isinstance(operand, Vector) else (operand,)
        if len(items) != self.count:
            raise Uncompiled("vector")
        return items


def _address_of(i: Instruction) -> Address:
    operand = i.operands[1 if i.op == "ld" else 0]
    if not isinstance(operand, Address) or operand.coordinates is not None:
        raise Uncompiled(f"address {operand}")
    return operand


def _within(program: Program, i: Instruction, space: str) -> int | None:
    """Where in the window a variable's address lies; None where the address is in a register."""
    address = _address_of(i)
    if isinstance(address.base, Register):
        return None
    if not isinstance(address.base, Symbol) or space != "shared":
        raise Uncompiled(f"address {address}")
    place = program.places.of(address.base.name)
    if place.space != "shared" or place.frame is not None:
        raise Uncompiled(f"address {address}")
    return place.offset + address.base.offset + address.offset - architecture(program.arch).shared_begin


def access_of(program: Program, i: Instruction, number: int) -> Access:
    """What a load or store accesses; Uncompiled for what is not a weak one of global or shared memory."""
    rest = [m for m in i.modifiers if m not in _HINTS and not m.startswith(("L1::", "L2::"))]
    spaces = [m for m in rest if m in _SPACES]
    vectors = [m for m in rest if m in _VECTORS]
    kinds = [m for m in rest if m not in _SPACES and m not in _VECTORS]
    if len(spaces) != 1 or len(kinds) != 1 or len(vectors) > 1 or len(i.operands) != 2 or kinds[0] in ("b128", "pred"):
        raise Uncompiled(i.name)
    kind = kinds[0]
    space, count = _SPACES[spaces[0]], _VECTORS[vectors[0]] if vectors else 1
    found = Access(number, i, space, f"b{ptx_bits(kind)}" if kind[0] == "f" else kind, count, _within(program, i, space))
    if found.size > 16:
        raise Uncompiled(i.name)
    return found


def parameter_of(program: Program, i: Instruction) -> int | None:
    """Where in the bank of parameters a load reads; None where it reads other memory. Uncompiled where it reads what no parameter has."""
    if i.op != "ld" or not any(m in ("param", "param::entry", "param::func") for m in i.modifiers):
        return None
    address = _address_of(i)
    if not isinstance(address.base, Symbol):
        raise Uncompiled(f"address {address}")
    place = program.places.of(address.base.name)
    if place.space != "param" or place.frame is not None:
        raise Uncompiled(f"address {address}")
    return place.offset + address.base.offset + address.offset


def variable_of(program: Program, i: Instruction) -> int | None:
    """The offset of the shared variable whose address a `mov` gives; None where it gives something else."""
    source = i.operands[1] if i.op == "mov" and len(i.operands) == 2 else None
    if not isinstance(source, Symbol) or i.modifiers not in (("u32",), ("b32",), ("s32",)):
        return None
    place = program.places.of(source.name)
    if place.space != "shared" or place.frame is not None:
        raise Uncompiled(f"address of {source.name}")
    return place.offset + source.offset


def emit_variable(v: Vectors, i: Instruction, at: int, guard: Value | None) -> None:
    """The address of a shared variable, with the CTA's rank in clusters."""
    v.write(i.operands[0], "u32", v.slot(v.given.slot(("variable", at, np.dtype(np.uint32)))), guard)


def emit_parameter(v: Vectors, i: Instruction, at: int, guard: Value | None) -> None:
    """`ld.param` of one number, which is the same for all threads."""
    kinds = [m for m in i.modifiers if not m.startswith("param")]
    if len(kinds) != 1 or kinds[0] in ("pred", "b128") or isinstance(i.operands[0], Vector):
        raise Uncompiled(i.name)
    kind = f"b{ptx_bits(kinds[0])}" if kinds[0][0] == "f" else kinds[0]
    dtype = np.dtype(f"u{ptx_bits(kind) // 8}")
    v.write(i.operands[0], kind, v.slot(v.given.slot(("parameter", at, dtype))), guard)


# ---- where the bytes lie


def emit_address(v: Vectors, access: Access, active: Value | None) -> None:
    """The first function's text for an access: the host's addresses into table `places`, what they are into `shapes`; `%bad` counts lanes outside.

    Of a lane that is not active the address is that of bytes that nobody reads.
    """
    n, size = access.number, access.size
    if access.slot is None:
        wide = v.binary("add", _broadcast(v, "%window.begin"), v.number("i64", access.within))
    else:
        at = v.slot(access.slot)
        wide = at if at.type == "i64" else v.cast(at, "i64", "zext")
        if access.offset:
            wide = v.binary("add", wide, v.number("i64", access.offset))
    begin, room, host = (_table(v, access, k) for k in range(3))
    offset = v.binary("sub", wide, begin)
    bad = v.compare("icmp ugt", offset, room)
    if size > 1:
        low = v.binary("and", wide, v.number("i64", size - 1))
        bad = v.binary("or", bad, v.compare("icmp ne", low, v.number("i64", 0)))
    place = v.binary("add", offset, host)
    if active is not None:
        bad = v.binary("and", bad, active)
        place = v.select(active, place, _broadcast(v, "%nowhere"))
    _note_bad(v, access, bad)
    v.lines.append(f"  %p{n} = getelementptr i64, ptr %places, i64 %row{n}")
    v.lines.append(f"  %pt{n} = getelementptr i64, ptr %p{n}, i64 %t")
    v.lines.append(f"  store {_V64} {place.name}, ptr %pt{n}, align 8")
    _note_shape(v, n, place, size)


_V64 = f"<{LANES} x i64>"


def _table(v: Vectors, access: Access, k: int) -> Value:
    """Entry k of the row of the access's memory: begin, room, and where its begin lies in the host's memory. For shared memory a row for each CTA."""
    if access.space == "global":
        return _broadcast(v, f"%g{access.number}.{k}")
    if k == 1:
        return _broadcast(v, f"%room{access.size}")
    return _broadcast(v, "%window.begin" if k == 0 else "%window.host")


def _broadcast(v: Vectors, scalar: str) -> Value:
    first = v.emit("i64", f"insertelement {_V64} poison, i64 {scalar}, i32 0")
    return v.emit("i64", f"shufflevector {_V64} {first.name}, {_V64} poison, <{LANES} x i32> zeroinitializer")


def _note_bad(v: Vectors, access: Access, bad: Value) -> None:
    n = access.number
    v.lines += [
        f"  %b{n} = bitcast <{LANES} x i1> {bad.name} to i{LANES}",
        f"  %c{n} = icmp ne i{LANES} %b{n}, 0",
        f"  %d{n} = select i1 %c{n}, i64 {1 << (n & 63)}, i64 0",
        f"  %bad{n + 1} = or i64 %bad{n}, %d{n}",
    ]


def _note_shape(v: Vectors, n: int, place: Value, size: int) -> None:
    first = v.emit("i64", f"shufflevector {_V64} {place.name}, {_V64} poison, <{LANES} x i32> zeroinitializer")
    steps = v.binary("sub", place, first)
    ramp = Value(f"<{', '.join(f'i64 {k * size}' for k in range(LANES))}>", "i64")
    for name, differs in (("one", v.compare("icmp ne", steps, v.number("i64", 0))), ("next", v.compare("icmp ne", steps, ramp))):
        v.lines += [f"  %{name}{n} = bitcast <{LANES} x i1> {differs.name} to i{LANES}", f"  %is{name}{n} = icmp eq i{LANES} %{name}{n}, 0"]
    v.lines += [
        f"  %s{n} = select i1 %isnext{n}, i8 {NEIGHBOURS}, i8 {GENERAL}",
        f"  %shape{n} = select i1 %isone{n}, i8 {ONE_PLACE}, i8 %s{n}",
        f"  %sp{n} = getelementptr i8, ptr %shapes, i64 %srow{n}",
        f"  %spt{n} = getelementptr i8, ptr %sp{n}, i64 %group",
        f"  store i8 %shape{n}, ptr %spt{n}, align 1",
    ]


# ---- moving the bytes


def emit_access(v: Vectors, access: Access, guard: Value | None) -> None:
    """The second function's text for an access."""
    n = access.number
    v.lines += [
        f"  %q{n} = getelementptr i64, ptr %places, i64 %row{n}",
        f"  %qt{n} = getelementptr i64, ptr %q{n}, i64 %t",
        f"  %u{n} = getelementptr i8, ptr %shapes, i64 %srow{n}",
        f"  %ut{n} = getelementptr i8, ptr %u{n}, i64 %group",
        f"  %kind{n} = load i8, ptr %ut{n}, align 1",
        f"  %first{n} = load ptr, ptr %qt{n}, align 8",
    ]
    (_load if access.is_load else _store)(v, access, guard)


def _lane_pointers(v: Vectors, n: int) -> list[str]:
    names = []
    for lane in range(LANES):
        at, pointer = v.fresh(), v.fresh()
        v.lines += [f"  {at} = getelementptr i64, ptr %qt{n}, i64 {lane}", f"  {pointer} = load ptr, ptr {at}, align 8"]
        names.append(pointer)
    return names


def _load(v: Vectors, access: Access, guard: Value | None) -> None:
    n, count, kind = access.number, access.count, llvm_type(access.kind)
    results: list[list[tuple[Value, str]]] = [[] for _ in range(count)]
    v.lines.append(f"  switch i8 %kind{n}, label %general{n} [ i8 {ONE_PLACE}, label %one{n} i8 {NEIGHBOURS}, label %next{n} ]")
    for label, make in (("one", _load_one), ("next", _load_next), ("general", _load_general)):
        v.lines.append(f"{label}{n}:")
        for k, value in enumerate(make(v, n, kind, count)):
            results[k].append((value, label))
        v.lines.append(f"  br label %after{n}")
    v.lines.append(f"after{n}:")
    merged = []
    for arms in results:
        incoming = ", ".join(f"[ {value.name}, %{label}{n} ]" for value, label in arms)
        merged.append(v.emit(kind, f"phi <{LANES} x {kind}> {incoming}"))
    for item, value in zip(access.data, merged, strict=True):
        v.write(item, access.kind, value, guard)


def _load_one(v: Vectors, n: int, kind: str, count: int) -> list[Value]:
    values = []
    for k in range(count):
        at, scalar = v.fresh(), v.fresh()
        v.lines += [f"  {at} = getelementptr {kind}, ptr %first{n}, i64 {k}", f"  {scalar} = load {kind}, ptr {at}, align 1"]
        first = v.emit(kind, f"insertelement <{LANES} x {kind}> poison, {kind} {scalar}, i32 0")
        values.append(
            v.emit(kind, f"shufflevector <{LANES} x {kind}> {first.name}, <{LANES} x {kind}> poison, <{LANES} x i32> zeroinitializer")
        )
    return values


def _load_next(v: Vectors, n: int, kind: str, count: int) -> list[Value]:
    if count == 1:
        return [v.emit(kind, f"load <{LANES} x {kind}>, ptr %first{n}, align 1")]
    rows = []
    for lane in range(LANES):
        at = v.fresh()
        v.lines.append(f"  {at} = getelementptr {kind}, ptr %first{n}, i64 {lane * count}")
        rows.append(at)
    return _transposed(v, rows, kind, count)


def _load_general(v: Vectors, n: int, kind: str, count: int) -> list[Value]:
    pointers = _lane_pointers(v, n)
    if count > 1:
        return _transposed(v, pointers, kind, count)
    value = Value("poison", kind)
    for lane, pointer in enumerate(pointers):
        scalar = v.fresh()
        v.lines.append(f"  {scalar} = load {kind}, ptr {pointer}, align 1")
        value = v.emit(kind, f"insertelement <{LANES} x {kind}> {value.name}, {kind} {scalar}, i32 {lane}")
    return [value]


def _transposed(v: Vectors, rows: list[str], kind: str, count: int) -> list[Value]:
    """`count` neighbouring elements at each of the lanes' pointers, as a vector for each element."""
    parts: list[str] = []
    for row in rows:
        name = v.fresh()
        v.lines.append(f"  {name} = load <{count} x {kind}>, ptr {row}, align 1")
        parts.append(name)
    width = count
    while len(parts) > 1:
        joined = []
        mask = ", ".join(f"i32 {k}" for k in range(2 * width))
        for a, b in zip(parts[::2], parts[1::2], strict=True):
            name = v.fresh()
            v.lines.append(f"  {name} = shufflevector <{width} x {kind}> {a}, <{width} x {kind}> {b}, <{2 * width} x i32> <{mask}>")
            joined.append(name)
        parts, width = joined, 2 * width
    values = []
    for k in range(count):
        mask = ", ".join(f"i32 {lane * count + k}" for lane in range(LANES))
        values.append(v.emit(kind, f"shufflevector <{width} x {kind}> {parts[0]}, <{width} x {kind}> poison, <{LANES} x i32> <{mask}>"))
    return values


def _store(v: Vectors, access: Access, guard: Value | None) -> None:
    n, count, kind = access.number, access.count, llvm_type(access.kind)
    values = [v.read(item, access.kind) for item in access.data]
    whole = values[0]
    if count > 1:
        whole = _interleaved(v, values, kind, count)
    v.lines.append(f"  switch i8 %kind{n}, label %general{n} [ i8 {NEIGHBOURS}, label %next{n} ]")
    v.lines.append(f"next{n}:")
    v.lines.append(f"  store <{LANES * count} x {kind}> {whole.name}, ptr %first{n}, align 1")
    v.lines.append(f"  br label %after{n}")
    v.lines.append(f"general{n}:")
    for lane, pointer in enumerate(_lane_pointers(v, n)):
        part = v.fresh()
        if count == 1:
            v.lines += [
                f"  {part} = extractelement <{LANES} x {kind}> {whole.name}, i32 {lane}",
                f"  store {kind} {part}, ptr {pointer}, align 1",
            ]
        else:
            mask = ", ".join(f"i32 {lane * count + k}" for k in range(count))
            all_of = f"<{LANES * count} x {kind}>"
            v.lines += [
                f"  {part} = shufflevector {all_of} {whole.name}, {all_of} poison, <{count} x i32> <{mask}>",
                f"  store <{count} x {kind}> {part}, ptr {pointer}, align 1",
            ]
    v.lines.append(f"  br label %after{n}")
    v.lines.append(f"after{n}:")


def _interleaved(v: Vectors, values: list[Value], kind: str, count: int) -> Value:
    """The elements of lane 0, then those of lane 1, and so on."""
    parts, width = [value.name for value in values], LANES
    while len(parts) > 1:
        mask = ", ".join(f"i32 {k}" for k in range(2 * width))
        joined = []
        for a, b in zip(parts[::2], parts[1::2], strict=True):
            name = v.fresh()
            v.lines.append(f"  {name} = shufflevector <{width} x {kind}> {a}, <{width} x {kind}> {b}, <{2 * width} x i32> <{mask}>")
            joined.append(name)
        parts, width = joined, 2 * width
    order = ", ".join(f"i32 {k * LANES + lane}" for lane in range(LANES) for k in range(count))
    name = v.fresh()
    v.lines.append(f"  {name} = shufflevector <{width} x {kind}> {parts[0]}, <{width} x {kind}> poison, <{width} x i32> <{order}>")
    return Value(name, kind)
