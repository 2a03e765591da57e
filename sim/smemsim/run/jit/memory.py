"""Weak loads and stores of global and shared memory in compiled segments.

A segment with accesses has two functions. The first computes the addresses of all its accesses, and their places in
the host's memory. It records for each group whether they are one place, or neighbours. It writes nothing else, so
nothing has happened if an address is wrong, or if the sanitizer needs single accesses: then the interpreter executes
the segment. The second one moves the bytes.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.core.ptx.module import Address, Instruction, Operand, Register, Symbol, Vector
from smemsim.core.spec.architectures import any_architecture
from smemsim.run.isa.registers import bits_of as ptx_bits
from smemsim.run.jit.vectors import LANES, Uncompiled, Value, Vectors, llvm_type, vector
from smemsim.run.tallies import STEPS

if TYPE_CHECKING:
    from smemsim.run.lower.program import Program

__all__ = [
    "ALL_LANES",
    "BUFFER",
    "GENERAL",
    "HEAD",
    "NEIGHBOURS",
    "ONE_PLACE",
    "ROW",
    "V64",
    "Access",
    "Moving",
    "access_of",
    "emit_access",
    "emit_address",
    "emit_parameter",
    "emit_variable",
    "extension",
    "in_rows",
    "move",
    "note_running",
    "parameter_of",
    "shape_of",
    "stored",
    "table_of",
    "variable_of",
    "widened",
]


GENERAL, ONE_PLACE, NEIGHBOURS = 0, 1, 2  # what the places of a group are
# every second, every fourth element of neighbours
STRIDED = {shape: steps for shape, steps in STEPS.items() if steps > 1}
HEAD, ROW = 7, 4  # of the table `memory`: numbers before those of the accesses, and of each access
_VECTORS = {"v2": 2, "v4": 4}
_SPACES = {"global": "global", "shared": "shared", "shared::cta": "shared"}
_HINTS = {"nc", "ca", "cg", "cs", "lu", "wb", "wt", "weak"}


@dataclasses.dataclass(frozen=True)
class Row:
    """The places of accesses with one base. The entry `number` of the tables has the places of the offset `begin`;
    `lead`, the first access, records them. The others are up to `reach` bytes further.
    """

    number: int
    lead: int
    begin: int
    reach: int


@dataclasses.dataclass(frozen=True)
class Access:
    """A load or store: its number among those of a segment, its space, `count` elements of `kind` for each thread."""

    number: int
    instruction: Instruction
    space: str
    kind: str
    count: int
    within: int | None = None  # the place in the window, if the address is that of a variable
    shared_row: Row | None = None  # None: it has an entry of its own

    @property
    def row(self) -> Row:
        """The entry of the tables with its places."""
        return self.shared_row or Row(self.number, self.number, self.offset, 0)

    @property
    def apart(self) -> int:
        """The distance in bytes from those places."""
        return self.offset - self.row.begin

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
        """The number that is added to the register."""
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
    """The place in the window of a variable's address. None if the address is in a register."""
    address = _address_of(i)
    if isinstance(address.base, Register):
        return None
    if not isinstance(address.base, Symbol) or space != "shared":
        raise Uncompiled(f"address {address}")
    place = program.places.of(address.base.name)
    if place.space != "shared" or place.frame is not None:
        raise Uncompiled(f"address {address}")
    return place.offset + address.base.offset + address.offset - any_architecture(program.arch).shared_begin


def access_of(program: Program, i: Instruction, number: int) -> Access:
    """The access of a load or store. Uncompiled if it is not a weak one of global or shared memory."""
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


def in_rows(instructions: Sequence[Instruction], accesses: Sequence[Access], *, with_guards: bool = False) -> tuple[Access, ...]:
    """The accesses, for all threads. Those of one size by one value of a register are in one entry of the tables. With
    `with_guards` those with one value of a predicate are also included. Else only those without a predicate are.
    """
    by_base: dict[tuple[Any, ...], list[Access]] = {}
    given: collections.Counter[int] = collections.Counter()
    of = {id(access.instruction): access for access in accesses}
    for i in instructions:
        access = of.get(id(i))
        if access is not None:
            slot, guard = access.slot, i.guard
            base: tuple[Any, ...] = (access.number,)
            if slot is not None and (guard is None or with_guards) and access.offset % access.size == 0:
                base = (slot, given[slot], access.size, access.space)
                if guard is not None:
                    base += (guard.slot, given[guard.slot], guard.negated)
            by_base.setdefault(base, []).append(access)
        given.update(i.given)
    found: dict[int, Access] = {}
    for number, alike in enumerate(by_base.values()):
        offsets = [access.offset for access in alike]
        row = Row(number, alike[0].number, min(offsets), max(offsets) - min(offsets))
        found |= {access.number: dataclasses.replace(access, shared_row=row) for access in alike}
    return tuple(found[access.number] for access in accesses)


def parameter_of(program: Program, i: Instruction) -> int | None:
    """The place in the bank of parameters that a load reads. None if it reads other memory. Uncompiled if it reads
    bytes that no parameter has.
    """
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
    """The first function's text for an access: the host's addresses into table `places`, their form into `shapes`;
    `%bad` counts lanes outside.

    The address of an inactive lane is that of bytes that no instruction reads.
    """
    slot, size = access.slot, access.size
    if access.row.lead != access.number:
        v.lines.append(f"  %bad{access.number + 1} = or i64 %bad{access.number}, 0")
        return
    if slot is not None and active is None and access.row.begin % size == 0:
        _emit_from_base(v, access, slot)
        return
    if slot is None:
        wide = v.binary("add", _broadcast(v, "%window.begin"), v.number("i64", access.within))
    else:
        wide = widened(v, v.slot(slot))
        if access.offset:
            wide = v.binary("add", wide, v.number("i64", access.offset))
    begin, limit, host = (_broadcast(v, name) for name in table_of(v, access))
    offset = v.binary("sub", wide, begin)
    bad = v.compare("icmp uge", offset, limit)
    if size > 1:
        low = v.binary("and", wide, v.number("i64", size - 1))
        bad = v.binary("or", bad, v.compare("icmp ne", low, v.number("i64", 0)))
    place = v.binary("add", offset, host)
    if active is not None:
        bad = v.binary("and", bad, active)
        place = v.select(active, place, _broadcast(v, "%nowhere"))
        if access.instruction.guard is not None and not access.is_load:
            note_running(v, access.number, active)
    bits = v.line(f"bitcast <{LANES} x i1> {bad.name} to i{LANES}")
    _note_bad(v, access, v.line(f"icmp ne i{LANES} {bits}, 0"))
    _note_places(v, access, place, shape_of(v, place, size)[1])


def _emit_from_base(v: Vectors, access: Access, slot: int) -> None:
    """The same, where all lanes run: what is the same for all accesses with the register in their address is looked
    at once, so that few scalars are left.
    """
    base = _base(v, slot, access.size)
    begin, limit, host = table_of(v, access)
    row = access.row
    first = v.line(f"add i64 {base.least}, {row.begin}") if row.begin else base.least
    span = v.line(f"add i64 {base.span}, {row.reach}") if row.reach else base.span
    offset = v.line(f"sub i64 {first}, {begin}")
    is_before = v.line(f"icmp uge i64 {offset}, {limit}")
    is_behind = v.line(f"icmp uge i64 {span}, {v.line(f'sub i64 {limit}, {offset}')}")
    is_outside = v.line(f"or i1 {is_before}, {is_behind}")
    _note_bad(v, access, v.line(f"or i1 {is_outside}, {base.is_odd}"))
    apart = v.line(f"sub i64 {host}, {begin}")
    if row.begin:
        apart = v.line(f"add i64 {apart}, {row.begin}")
    _note_places(v, access, v.binary("add", base.wide, _broadcast(v, apart)), base.shape)


@dataclasses.dataclass(frozen=True)
class _Base:
    """A register of addresses: its lanes, the least of them, the distance of the last one from it, whether one is no
    multiple of a size, and their form.
    """

    wide: Value
    least: str
    span: str
    is_odd: str
    shape: str


def _base(v: Vectors, slot: int, size: int) -> _Base:
    at = v.slot(slot)
    known: _Base | None = v.bases.get((at.name, size))
    if known is not None:
        return known
    n, wide = len(v.bases), widened(v, at)
    first = v.line(f"extractelement {V64} {wide.name}, i64 0")
    step, shape = shape_of(v, at, size)
    span = v.line(f"mul i64 {step}, {LANES - 1}")
    v.lines += [f"  %simple{n} = icmp ne i8 {shape}, {GENERAL}", f"  br i1 %simple{n}, label %near{n}, label %far{n}", f"far{n}:"]
    sign = "s" if extension(at.type) == "sext" else "u"
    every = [_reduced(v, name, wide) for name in (f"{sign}min", f"{sign}max", "or")]
    far = v.line(f"sub i64 {every[1]}, {every[0]}")
    v.lines += [f"  br label %near{n}", f"near{n}:"]
    # The block before this one is that of the base before.
    before = f"near{n - 1}" if n else "work"
    least, span, bits = (
        v.line(f"phi i64 [ {near}, %{before} ], [ {other}, %far{n} ]")
        for near, other in ((first, every[0]), (span, far), (first, every[2]))
    )
    is_odd = v.line(f"icmp ne i64 {v.line(f'and i64 {bits}, {size - 1}')}, 0")
    found = v.bases[at.name, size] = _Base(wide, least, span, is_odd, shape)
    return found


def extension(kind: str) -> str:
    """How a register of addresses becomes 64 bits wide.

    A sum with a 32-bit register wraps at 2^32. The register counts as signed here: its sum with a number is then the
    wrapped one, if that lies in a window.
    """
    return "sext" if kind == "i32" else "zext"


def widened(v: Vectors, at: Value) -> Value:
    """A register of addresses as 64 bits."""
    return at if at.type == "i64" else v.cast(at, "i64", extension(at.type))


def _reduced(v: Vectors, name: str, wide: Value) -> str:
    v.declared.add(f"declare i64 @llvm.vector.reduce.{name}.v{LANES}i64({V64})")
    return v.line(f"call i64 @llvm.vector.reduce.{name}.v{LANES}i64({V64} {wide.name})")


V64 = f"<{LANES} x i64>"


def table_of(v: Vectors, access: Access) -> tuple[str, str, str]:
    """The row of the access's memory: begin, how many bytes from there it may begin, and where that lies in the
    host's memory. For shared memory a row for each CTA.
    """
    if access.space == "global":
        begin, limit, host = (v.line(f"load i64, ptr {_entry(v, access.number, k)}, align 8") for k in range(3))
        return begin, limit, host
    return "%window.begin", f"%limit{access.size}", "%window.host"


def _entry(v: Vectors, n: int, k: int) -> str:
    """A pointer to a number of an access's row of the table `memory`."""
    return v.line(f"getelementptr i64, ptr %memory, i64 {HEAD + ROW * n + k}")


def _broadcast(v: Vectors, scalar: str) -> Value:
    return v.alike("i64", scalar)


def _note_bad(v: Vectors, access: Access, is_bad: str) -> None:
    n = access.number
    bit = v.line(f"select i1 {is_bad}, i64 {1 << (n & 63)}, i64 0")
    v.lines.append(f"  %bad{n + 1} = or i64 %bad{n}, {bit}")


def note_running(v: Vectors, n: int, active: Value) -> None:
    """That a thread does it, in the row of the table `memory`."""
    bits = v.line(f"bitcast <{LANES} x i1> {active.name} to i{LANES}")
    at = _entry(v, n, 3)
    before = v.line(f"load i64, ptr {at}, align 8")
    some = v.line(f"zext i{LANES} {bits} to i64")
    after = v.line(f"or i64 {before}, {some}")
    v.lines.append(f"  store i64 {after}, ptr {at}, align 8")


def shape_of(v: Vectors, at: Value, size: int) -> tuple[str, str]:
    """How far the second lane is from the first one, and what the lanes are in one number."""
    kind = at.type
    first = v.emit(kind, f"shufflevector {vector(kind)} {at.name}, {vector(kind)} poison, <{LANES} x i32> zeroinitializer")
    steps = v.binary("sub", at, first)
    step = v.line(f"extractelement {vector(kind)} {steps.name}, i64 1")
    ramp = Value(f"<{', '.join(f'{kind} {k}' for k in range(LANES))}>", kind)
    differs = v.compare("icmp ne", steps, v.binary("mul", v.alike(kind, step), ramp))
    is_even = v.line(f"icmp eq i{LANES} {v.line(f'bitcast <{LANES} x i1> {differs.name} to i{LANES}')}, 0")
    shape = str(GENERAL)
    for number, times in STEPS.items():
        shape = v.line(f"select i1 {v.line(f'icmp eq {kind} {step}, {times * size}')}, i8 {number}, i8 {shape}")
    wide = step if kind == "i64" else v.line(f"zext {kind} {step} to i64")
    return wide, v.line(f"select i1 {is_even}, i8 {shape}, i8 {GENERAL}")


def _note_places(v: Vectors, access: Access, place: Value, shape: str) -> None:
    n, row = access.number, access.row.number
    v.lines += [
        f"  %p{n} = getelementptr i64, ptr %places, i64 %row{row}",
        f"  %pt{n} = getelementptr i64, ptr %p{n}, i64 %t",
        f"  store {V64} {place.name}, ptr %pt{n}, align 8",
        f"  %sp{n} = getelementptr i8, ptr %shapes, i64 %srow{row}",
        f"  %spt{n} = getelementptr i8, ptr %sp{n}, i64 %group",
        f"  store i8 {shape}, ptr %spt{n}, align 1",
    ]


# ---- moving the bytes


@dataclasses.dataclass(frozen=True)
class Moving:
    """The places of a group's access, in the text.

    Block `head` ends with a switch by `shape`. If the shape is simple, `first` points at the first lane's bytes. Else
    control goes to block `otherwise`. The method `vector` adds the text from there to block `generalN` (N is the
    access's number), with all lanes' places in one vector. The pointer `lanes` has the same in memory, with a harmless
    place for inactive lanes. The active lanes are `mask`. Blocks `off` follow it all.
    """

    head: str
    shape: str
    first: str
    otherwise: str
    lanes: str
    vector: Callable[[], str]
    mask: str
    off: tuple[str, ...] = ()


def emit_access(v: Vectors, access: Access, guard: Value | None) -> None:
    """The second function's text for an access, whose places are in the tables."""
    n, row, whole = access.number, access.row.number, stored(v, access)
    v.lines += [
        f"  br label %access{n}",
        f"access{n}:",
        f"  %q{n} = getelementptr i64, ptr %places, i64 %row{row}",
        f"  %qt{n} = getelementptr i64, ptr %q{n}, i64 %t",
        f"  %u{n} = getelementptr i8, ptr %shapes, i64 %srow{row}",
        f"  %ut{n} = getelementptr i8, ptr %u{n}, i64 %group",
        f"  %kind{n} = load i8, ptr %ut{n}, align 1",
        f"  %begin{n} = load ptr, ptr %qt{n}, align 8",
        f"  %first{n} = getelementptr i8, ptr %begin{n}, i64 {access.apart}",
    ]

    def places() -> str:
        v.lines.append(f"general{n}:")
        begins = v.line(f"load <{LANES} x ptr>, ptr %qt{n}, align 8")
        return v.line(f"getelementptr i8, <{LANES} x ptr> {begins}, i64 {access.apart}") if access.apart else begins

    move(v, access, Moving(f"access{n}", f"%kind{n}", f"%first{n}", f"general{n}", f"%qt{n}", places, ALL_LANES), guard, whole)


def move(v: Vectors, access: Access, at: Moving, guard: Value | None, whole: Value | None) -> None:
    """The text that moves an access's bytes: from memory where the guard holds, or those of `stored` to it."""
    if whole is None:
        _load(v, access, at, guard)
    else:
        _store(v, access, at, whole)


# If a group's places have no simple form, single elements use gathers and scatters (scalar code if the processor has
# none), all else goes lane by lane over a buffer. Written out for every lane, such accesses would be most of the text
# that LLVM has to compile.


BUFFER = "  %buffer = alloca [256 x i8], align 64"  # in the entry of `run`: the bytes of a group, lane after lane
ALL_LANES = f"<{LANES} x i1> <{', '.join(['i1 1'] * LANES)}>"
_GATHERED = {"i32", "i64", "float", "double"}
_SINGLE = {"i8", "i16", "i32", "float"}  # of which loads of several elements and shuffles are quicker than a gather


def _lane_by_lane(v: Vectors, access: Access, at: Moving, part: str) -> None:
    """The text of a loop that moves what lanes have at their places into the buffer, or from there."""
    n = access.number
    source, target = (f"%lp{n}", f"%lb{n}") if access.is_load else (f"%lb{n}", f"%lp{n}")
    v.lines += [
        f"  br label %lane{n}", f"lane{n}:", f"  %lk{n} = phi i64 [ 0, %general{n} ], [ %kn{n}, %lane{n} ]",
        f"  %la{n} = getelementptr i64, ptr {at.lanes}, i64 %lk{n}", f"  %lq{n} = load ptr, ptr %la{n}, align 8",
        f"  %lp{n} = getelementptr i8, ptr %lq{n}, i64 {access.apart}",
        f"  %lb{n} = getelementptr {part}, ptr %buffer, i64 %lk{n}", f"  %lv{n} = load {part}, ptr {source}, align 1",
        f"  store {part} %lv{n}, ptr {target}, align 1", f"  %kn{n} = add i64 %lk{n}, 1", f"  %km{n} = icmp ult i64 %kn{n}, {LANES}",
    ]  # fmt: skip


def _load(v: Vectors, access: Access, at: Moving, guard: Value | None) -> None:
    n, count, kind = access.number, access.count, llvm_type(access.kind)
    strided = {f"every{times}.": (number, times) for number, times in STRIDED.items()} if count == 1 and kind in _SINGLE else {}
    cases = "".join(f" i8 {number}, label %{label}{n}" for label, (number, _) in strided.items())
    v.lines.append(
        f"  switch i8 {at.shape}, label %{at.otherwise} [ i8 {ONE_PLACE}, label %one{n} i8 {NEIGHBOURS}, label %next{n}{cases} ]"
    )
    v.lines.append(f"one{n}:")
    arms = [(f"one{n}", _load_one(v, at.first, kind, count))]
    for label, (_, times) in strided.items():
        v.lines += [f"  br label %after{n}", f"{label}{n}:"]
        arms.append((f"{label}{n}", [_load_strided(v, at.first, kind, times)]))
    v.lines.append(f"  br label %after{n}")
    whole = f"<{LANES * count} x {kind}>"
    pointers = at.vector()
    if count == 1:
        arms.append(
            (f"general{n}", [_gathered(v, kind, pointers, at.mask) if kind in _GATHERED else _gathered_part(v, kind, pointers, at.mask)])
        )
        v.lines += [f"  br label %after{n}", f"next{n}:"]
        arms.append((f"next{n}", [v.emit(kind, f"load {whole}, ptr {at.first}, align 1")]))
    else:
        _lane_by_lane(v, access, at, f"<{count} x {kind}>")
        v.lines += [f"  br i1 %km{n}, label %lane{n}, label %next{n}", f"next{n}:"]
        v.lines.append(f"  %from{n} = phi ptr [ {at.first}, %{at.head} ], [ %buffer, %lane{n} ]")
        found = v.line(f"load {whole}, ptr %from{n}, align 1")
        arms.append((f"next{n}", _parts(v, found, kind, count)))
    v.lines += [f"  br label %after{n}", f"after{n}:"]
    merged, nothing = [], "".join(f", [ zeroinitializer, %{label} ]" for label in at.off)
    for k in range(count):
        incoming = ", ".join(f"[ {values[k].name}, %{label} ]" for label, values in arms)
        merged.append(v.emit(kind, f"phi <{LANES} x {kind}> {incoming}{nothing}"))
    for item, value in zip(access.data, merged, strict=True):
        v.write(item, access.kind, value, guard)


def _gathered(v: Vectors, kind: str, pointers: str, mask: str) -> Value:
    whole, name = f"<{LANES} x {kind}>", f"@llvm.masked.gather.{_mangled(kind)}.v{LANES}p0"
    v.declared.add(f"declare {whole} {name}(<{LANES} x ptr>, i32, <{LANES} x i1>, {whole})")
    return v.emit(kind, f"call {whole} {name}(<{LANES} x ptr> {pointers}, i32 1, {mask}, {whole} zeroinitializer)")


def _gathered_part(v: Vectors, kind: str, pointers: str, mask: str) -> Value:
    """Elements of less than a word: no page ends within an aligned word, so that it may be read where one of its
    elements may.
    """
    at = v.emit("i64", f"ptrtoint <{LANES} x ptr> {pointers} to {V64}")
    begins = v.line(f"inttoptr {V64} {v.binary('and', at, v.number('i64', -4)).name} to <{LANES} x ptr>")
    bits = v.cast(v.binary("shl", v.binary("and", at, v.number("i64", 3)), v.number("i64", 3)), "i32", "trunc")
    return v.cast(v.binary("lshr", _gathered(v, "i32", begins, mask), bits), kind, "trunc")


def _mangled(kind: str) -> str:
    return f"v{LANES}" + {"float": "f32", "double": "f64"}.get(kind, kind)


def _load_one(v: Vectors, first: str, kind: str, count: int) -> list[Value]:
    values = []
    for k in range(count):
        at, scalar = v.fresh(), v.fresh()
        v.lines += [f"  {at} = getelementptr {kind}, ptr {first}, i64 {k}", f"  {scalar} = load {kind}, ptr {at}, align 1"]
        one = v.emit(kind, f"insertelement <{LANES} x {kind}> poison, {kind} {scalar}, i32 0")
        values.append(
            v.emit(kind, f"shufflevector <{LANES} x {kind}> {one.name}, <{LANES} x {kind}> poison, <{LANES} x i32> zeroinitializer")
        )
    return values


def _load_strided(v: Vectors, first: str, kind: str, times: int) -> Value:
    """Every second or fourth element, from loads that end with the last lane's."""
    begins = [LANES * k for k in range(times - 1)] + [(LANES - 1) * (times - 1)]
    parts, whole = [], vector(kind)
    for begin in begins:
        at = v.line(f"getelementptr {kind}, ptr {first}, i64 {begin}")
        parts.append(v.line(f"load {whole}, ptr {at}, align 1"))
    own = LANES // times  # lanes whose elements one load has
    lanes = [[own * k + lane for lane in range(own)] for k in range(times)]
    places = [[lane * times - begins[k] for lane in lanes[k]] for k in range(times)]
    while len(parts) > 1:  # of two loads the elements next to each other
        joined = []
        for a, b, left, right in zip(parts[::2], parts[1::2], places[::2], places[1::2], strict=True):
            mask = [f"i32 {place}" for place in (*left, *(LANES + place for place in right))]
            mask += ["i32 poison"] * (LANES - len(mask))
            joined.append(v.line(f"shufflevector {whole} {a}, {whole} {b}, <{LANES} x i32> <{', '.join(mask)}>"))
        parts, places = joined, [list(range(2 * len(one))) for one in places[::2]]
    return Value(parts[0], kind)


def _parts(v: Vectors, whole: str, kind: str, count: int) -> list[Value]:
    """The elements of lane 0, then those of lane 1, and so on, as a vector for each element of a lane."""
    if count == 1:
        return [Value(whole, kind)]
    all_of, values = f"<{LANES * count} x {kind}>", []
    for k in range(count):
        mask = ", ".join(f"i32 {lane * count + k}" for lane in range(LANES))
        values.append(v.emit(kind, f"shufflevector {all_of} {whole}, {all_of} poison, <{LANES} x i32> <{mask}>"))
    return values


def stored(v: Vectors, access: Access) -> Value | None:
    """The values that a store writes: the elements of lane 0, then those of lane 1, and so on. None for a load."""
    if access.is_load:
        return None
    values = [v.read(item, access.kind) for item in access.data]
    return values[0] if access.count == 1 else _interleaved(v, values, llvm_type(access.kind), access.count)


def _store(v: Vectors, access: Access, at: Moving, whole: Value) -> None:
    n, count, kind = access.number, access.count, llvm_type(access.kind)
    all_of = f"<{LANES * count} x {kind}>"
    v.lines.append(f"  switch i8 {at.shape}, label %{at.otherwise} [ i8 {NEIGHBOURS}, label %next{n} ]")
    v.lines += [f"next{n}:", f"  store {all_of} {whole.name}, ptr {at.first}, align 1", f"  br label %after{n}"]
    pointers = at.vector()
    if count == 1 and kind in _GATHERED:
        name = f"@llvm.masked.scatter.{_mangled(kind)}.v{LANES}p0"
        v.declared.add(f"declare void {name}({all_of}, <{LANES} x ptr>, i32, <{LANES} x i1>)")
        v.lines += [f"  call void {name}({all_of} {whole.name}, <{LANES} x ptr> {pointers}, i32 1, {at.mask})", f"  br label %after{n}"]
    else:
        v.lines.append(f"  store {all_of} {whole.name}, ptr %buffer, align 1")
        _lane_by_lane(v, access, at, kind if count == 1 else f"<{count} x {kind}>")
        v.lines.append(f"  br i1 %km{n}, label %lane{n}, label %after{n}")
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
