"""The steps of a block that are compiled together, and the text of their functions.

A segment is a run of instructions that all have a compiled form. Its loads come before its stores to the same space.
No address or guard of an access depends on a load of the segment itself. So all its addresses are known before
anything has happened (`memory.py`). A block that is one segment without accesses and jumps back to itself is a loop:
each group repeats it until its threads have left.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.core.ptx.module import Instruction, Label, Register
from smemsim.run.jit.constants import in_numbers
from smemsim.run.jit.counted import Counts
from smemsim.run.jit.direct import NOTED, ROOM, emit_direct
from smemsim.run.jit.forms import form_of
from smemsim.run.jit.joins import NO_JOINS, Joins
from smemsim.run.jit.memory import (
    BUFFER,
    HEAD,
    ROW,
    Access,
    access_of,
    emit_access,
    emit_address,
    emit_parameter,
    emit_variable,
    in_rows,
    parameter_of,
    variable_of,
)
from smemsim.run.jit.vectors import LANES, Given, Uncompiled, Value, Vectors, llvm_type, vector
from smemsim.run.tallies import Placed

if TYPE_CHECKING:
    from smemsim.run.lower.program import Block, Program

__all__ = ["LEAST", "MOST", "Code", "Run", "code_of", "code_of_loop", "direct_code_of", "gives_text", "is_access", "loop_of", "pieces"]


LEAST = 3  # instructions that are worth a call, where none of them is a load or a store
# operations of which one is
_DEAR = frozenset(("cvt", "div", "ex2", "fma", "fused", "lg2", "max", "min", "rcp", "rsqrt", "sqrt"))
MOST = 768  # of one function: machine code takes milliseconds an instruction
MOST_ACCESSES = 48


@dataclasses.dataclass(frozen=True)
class Run:
    """Instructions from `first` up to, not including, `last` of a block's plain steps, and the accesses among them.

    A chain has `joins`, and `blocks` by the place of their first instruction.
    """

    first: int
    last: int
    instructions: tuple[Instruction, ...]
    accesses: tuple[Access, ...]
    joins: Joins = NO_JOINS
    blocks: tuple[tuple[int, Block], ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Code:
    """The text of a module with functions `prepare` (where there are accesses) and `run`, and the registers that they
    are given pointers to. `counts`: what it counts, if observers count.
    """

    text: str
    slots: tuple[int, ...]
    accesses: tuple[Access, ...]
    given: tuple[tuple[str, Any, np.dtype[Any]], ...] = ()  # slots after the registers (`vectors.Given`)
    counts: Counts | None = None
    # the accesses with the rows in which `prepare` notes their places, if addresses stay in registers
    noted: tuple[Access, ...] = ()

    @functools.cached_property
    def slot_array(self) -> np.ndarray:
        """`slots`, to index with."""
        return np.array(self.slots, np.int64)

    @property
    def numbers(self) -> int:
        """Entries that it counts in."""
        return 0 if self.counts is None else self.counts.size

    @functools.cached_property
    def are_shared(self) -> np.ndarray:
        """Which accesses are to shared memory?"""
        return np.array([access.space == "shared" for access in self.accesses])

    @functools.cached_property
    def numbers_of_accesses(self) -> np.ndarray:
        """Their numbers, to index with."""
        return np.array([access.number for access in self.accesses], np.int64)

    @functools.cached_property
    def placed(self) -> tuple[Placed, ...]:
        """The accesses as observers that count get them."""
        return tuple(Placed(x.instruction, x.space, x.size, x.row.number, x.apart) for x in self.noted or self.accesses)

    @functools.cached_property
    def rows(self) -> int:
        """Entries of the tables of places that the accesses have together."""
        return len({access.row.number for access in self.noted or self.accesses})

    @functools.cached_property
    def of_global(self) -> tuple[Access, ...]:
        """The accesses of global memory."""
        return tuple(access for access in self.accesses if access.space == "global")

    @functools.cached_property
    def of_shared(self) -> tuple[Access, ...]:
        """The accesses of shared memory."""
        return tuple(access for access in self.accesses if access.space == "shared")

    @functools.cached_property
    def stores(self) -> tuple[Access, ...]:
        """The stores."""
        return tuple(access for access in self.accesses if not access.is_load)

    @functools.cached_property
    def filling(self) -> dict[int, tuple[Access, ...]]:
        """Stores to global memory that follow each other by one register, each at the end of the bytes of the one
        before: by the number of the first one.
        """
        found: list[list[Access]] = []
        for access in self.of_global:
            last = found[-1][-1] if found else None
            if access.is_load or access.count > 1:
                continue
            if last is not None and last.slot == access.slot and last.size == access.size and last.offset + last.size == access.offset:
                found[-1].append(access)
            else:
                found.append([access])
        return {stores[0].number: tuple(stores) for stores in found if len(stores) > 1}

    @functools.cached_property
    def stores_shared(self) -> bool:
        """Is one of them to shared memory?"""
        return any(not access.is_load for access in self.of_shared)


# ---- what goes together


def pieces(program: Program, block: Block, begin: int = 0) -> list[Run]:
    """The segments of a block from one of its plain steps on, in order."""
    plain = _plain(block)[begin:]
    found: list[Run] = []
    open_: list[Instruction] = []
    first = 0
    state = _State(program)
    for at, i in enumerate([*plain, None], begin):
        if i is not None and _compiles(program, i) and len(open_) < MOST and state.takes(i):
            if not open_:
                first = at
            open_.append(i)
            continue
        if len(open_) >= LEAST or state.accesses or any(one.op in _DEAR for one in open_):
            found.append(Run(first, first + len(open_), tuple(open_), tuple(state.accesses)))
        open_, state = [], _State(program)
        if i is not None and _compiles(program, i) and state.takes(i):
            first, open_ = at, [i]
    return found


def _plain(block: Block) -> list[Instruction]:
    """The instructions of the block's plain steps."""
    first = block.gate is not None
    return block.instructions[first : first + len(block.steps)]


def is_access(i: Instruction) -> bool:
    """A load or store of memory, not of a parameter?"""
    return i.op in ("ld", "st") and not any(m.startswith("param") for m in i.modifiers)


class _State:
    """The contents of a growing segment: its accesses, and the registers that depend on its loads."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.accesses: list[Access] = []
        self.tainted: set[int] = set()
        self.seen: dict[str, set[str]] = {"ld": set(), "st": set()}

    def takes(self, i: Instruction) -> bool:
        """Can the segment go on with the instruction? Then it does."""
        given = i.given
        asked = i.used
        if is_access(i):
            try:
                access = access_of(self.program, i, len(self.accesses))
            except Uncompiled:
                return False
            if access.needed & self.tainted or len(self.accesses) >= MOST_ACCESSES:
                return False
            if access.space in self.seen["st" if i.op == "ld" else "ld"]:
                return False
            self.seen[i.op].add(access.space)
            self.accesses.append(access)
            if i.op == "ld":
                self.tainted |= given
            return True
        if asked & self.tainted:
            self.tainted |= given
        elif i.guard is None:
            self.tainted -= given
        return True


def gives_text(program: Program, v: Vectors, i: Instruction) -> None:
    """Add the text of an instruction without an access; Uncompiled, or what its form raises, where there is none."""
    _emit(program, v, i, None, emit_access)


_CHECKED: dict[int, tuple[Instruction, bool]] = {}


def _compiles(program: Program, i: Instruction) -> bool:
    if program.copied.has_factors and id(i) in program.copied.instructions:
        return False
    known = _CHECKED.get(id(i))
    if known is not None and known[0] is i:
        return known[1]
    v = Vectors(program.registers, program.wide)
    try:
        if is_access(i):
            _try_access(v, access_of(program, i, 0))
        _emit(program, v, i, None, lambda v, access, guard: None)
        found = True
    except (Uncompiled, SmemsimError):
        found = False
    if len(_CHECKED) > 1 << 16:
        _CHECKED.clear()
    _CHECKED[id(i)] = i, found
    return found


def _try_access(v: Vectors, access: Access) -> None:
    """Uncompiled where the registers are none for the access."""
    kind = llvm_type(access.kind)
    for item in access.data:
        if access.is_load:
            v.write(item, access.kind, Value("poison", kind), None)
        else:
            v.read(item, access.kind)


def _emit(
    program: Program, v: Vectors, i: Instruction, access: Access | None, emit: Callable[[Vectors, Access, Value | None], None]
) -> None:
    """The text of one instruction, of an access by `emit`."""
    guard = _guard(v, i)
    if is_access(i):
        if access is not None:
            emit(v, access, guard)
        return
    parameter = parameter_of(program, i)
    if parameter is not None:
        emit_parameter(v, i, parameter, guard)
        return
    variable = variable_of(program, i)
    if variable is not None:
        emit_variable(v, i, variable, guard)
        return
    form = form_of(i)
    if form is None:
        raise Uncompiled(i.op)
    form(v, in_numbers(program, i), guard)


def _guard(v: Vectors, i: Instruction) -> Value | None:
    """The lanes that execute the instruction: by its guard, and without lanes that a branch has taken elsewhere; None:
    all.
    """
    if i.guard is None:
        return v.path
    own = v.read(i.guard, "pred")
    if v.counts is not None:
        v.counts.leaves_out(v, i, own)
    return own if v.path is None else v.binary("and", own, v.path)


# ---- the text of functions


def code_of(program: Program, piece: Run, *, masked: bool, counted: bool = False) -> Code:
    """The functions of a segment; `masked`: for some of the threads, `counted`: observers count."""
    in_order = piece.accesses if masked else in_rows(piece.instructions, piece.accesses)
    accesses = {id(access.instruction): access for access in in_order}
    given = Given(len(program.registers))
    run = Vectors(program.registers, program.wide, given)
    active = Value("%active", "i1") if masked else None
    run.counts = counts = Counts(active) if counted else None
    blocks = dict(piece.blocks) if counted else {}
    for n, i in enumerate(piece.instructions):
        if counts is not None and n in blocks:
            piece.joins.arrive(run, n)
            if run.path is not None:
                counts.enters(run, blocks[n])
        if not piece.joins.follow(run, n, i):
            _emit(program, run, i, accesses.get(id(i)), emit_access)
    stores = _stores_text(run, _kept(program, piece.instructions, run), masked=masked)
    parts, declared = [], set(run.declared)
    if piece.accesses:
        prepare = Vectors(program.registers, program.wide, given, run.used)
        for i in _slice(piece):
            access = accesses.get(id(i))
            if access is None:
                _emit(program, prepare, i, None, emit_address)
            else:
                guard = _guard(prepare, i)
                both = guard if active is None else active if guard is None else prepare.binary("and", guard, active)
                emit_address(prepare, access, both)
        declared |= prepare.declared
        parts.append(_prepare_text(prepare, in_order, masked=masked))
    parts.append(_run_text(run, in_order, stores, masked=masked))
    return Code("\n".join((*sorted(declared), *parts)), tuple(run.used), in_order, tuple(given.keys), counts)


def direct_code_of(program: Program, piece: Run, *, masked: bool, counted: bool = False) -> Code:
    """The function of a segment whose addresses stay in registers (`direct.py`): `run`, or, if it stores or observers
    count, `whole`: `prepare`, and then `run` unless it stopped.

    It returns the first thread of the group before which it stopped.
    """
    accesses = {id(access.instruction): access for access in piece.accesses}
    given = Given(len(program.registers))
    has_two = counted or any(not access.is_load for access in piece.accesses)
    active = Value("%active", "i1") if masked else None
    counts = Counts(active) if counted else None
    noted = in_rows(piece.instructions, piece.accesses, with_guards=True) if counted else ()
    rows = {access.number: access.row for access in noted}
    parts, declared, used = [], set[str](), dict[int, int]()
    for name in ("prepare", "run") if has_two else ("run",):
        moves, looks = name == "run", name == "prepare" or not has_two

        def emit(v: Vectors, access: Access, guard: Value | None, *, moves: bool = moves, looks: bool = looks) -> None:
            emit_direct(v, access, guard, active, looks=looks, moves=moves, row=rows.get(access.number) if looks else None)

        v = Vectors(program.registers, program.wide, given, used)
        v.counts = counts if moves else None
        for i in piece.instructions if moves else _slice(piece):
            _emit(program, v, i, accesses.get(id(i)), emit)
        own = _stores_text(v, _kept(program, piece.instructions, v), masked=masked) if moves else []
        declared |= v.declared
        parts.append(_direct_text(name, v, piece.accesses, own, masked=masked, noted=noted if looks else ()))
    if has_two:
        parts.append(_WHOLE)
    return Code("\n".join((*sorted(declared), *parts)), tuple(used), piece.accesses, tuple(given.keys), counts, noted)


def _direct_text(
    name: str, v: Vectors, accesses: Sequence[Access], stores: Sequence[str], *, masked: bool, noted: Sequence[Access] = ()
) -> str:
    """A function that goes through the groups from %first to %last, and stops before one with an address outside."""
    lines = [f"define i64 @{name}({_HEAD}) {{", "entry:", BUFFER, *ROOM, "  store i8 0, ptr %bad.p, align 1", *_counts_text(v, accesses)]
    if noted:
        lines += [*NOTED, *_rows_text(noted)]
    lines += ["  br label %loop", "loop:"]
    lines += ["  %t = phi i64 [ %first, %entry ], [ %t.next, %skip ]", *_active_text(masked), *_memory_text(accesses)]
    if any(access.space == "shared" for access in accesses):
        lines += _window_text()
    lines += [
        *v.lines,
        "  %bad = load i8, ptr %bad.p, align 1",
        "  %is.bad = icmp ne i8 %bad, 0",
        "  br i1 %is.bad, label %stop, label %good",
        "good:",
    ]
    lines += [*stores, "  br label %skip", "skip:", f"  %t.next = add i64 %t, {LANES}", "  %more = icmp slt i64 %t.next, %last"]
    lines += ["  br i1 %more, label %loop, label %done", "done:", "  ret i64 %last", "stop:", "  ret i64 %t", "}"]
    return "\n".join(lines)


def _slice(piece: Run) -> list[Instruction]:
    """The accesses, and the instructions that their addresses and guards depend on."""
    needed: set[int] = set()
    kept: list[Instruction] = []
    for i in reversed(piece.instructions):
        if is_access(i):
            needed |= next(access.needed for access in piece.accesses if access.instruction is i)
            kept.append(i)
            continue
        given = i.given
        if given & needed:
            if i.guard is None:
                needed -= given
            needed |= i.used
            kept.append(i)
    return kept[::-1]


_WHOLE = """define i64 @whole(ptr %regs, ptr %mask, i64 %first, i64 %last, ptr %places, ptr %shapes, i64 %total, ptr %memory) {
  %reached = call i64 @prepare(ptr %regs, ptr %mask, i64 %first, i64 %last, ptr %places, ptr %shapes, i64 %total, ptr %memory)
  %is.all = icmp eq i64 %reached, %last
  br i1 %is.all, label %all, label %end
all:
  %ran = call i64 @run(ptr %regs, ptr %mask, i64 %first, i64 %last, ptr %places, ptr %shapes, i64 %total, ptr %memory)
  br label %end
end:
  ret i64 %reached
}"""
_HEAD = "ptr %regs, ptr %mask, i64 %first, i64 %last, ptr %places, ptr %shapes, i64 %total, ptr %memory"


def _active_text(masked: bool) -> Iterator[str]:
    """The group's threads that run; a group without any is passed over."""
    yield "  %group = lshr i64 %t, 4"
    if masked:
        yield "  %mp = getelementptr i8, ptr %mask, i64 %t"
        yield f"  %mv = load {vector('i8')}, ptr %mp, align 1"
        yield f"  %active = icmp ne {vector('i8')} %mv, zeroinitializer"
        yield f"  %mi = bitcast <{LANES} x i1> %active to i{LANES}"
        yield f"  %none = icmp eq i{LANES} %mi, 0"
        yield "  br i1 %none, label %skip, label %work"
    else:
        yield "  br label %work"
    yield "work:"


def _rows_text(accesses: Sequence[Access]) -> Iterator[str]:
    yield "  %groups = lshr i64 %total, 4"
    for n in sorted({access.row.number for access in accesses}):
        yield f"  %row{n} = mul i64 %total, {n}"
        yield f"  %srow{n} = mul i64 %groups, {n}"


def _prepare_text(v: Vectors, accesses: Sequence[Access], *, masked: bool) -> str:
    """`prepare`: 0, or a bit for each access (modulo 64) with an address outside."""
    count = len(accesses)
    lines = [
        f"define i64 @prepare({_HEAD}) {{",
        "entry:",
        "  br label %loop",
        "loop:",
    ]
    lines += ["  %t = phi i64 [ %first, %entry ], [ %t.next, %skip ]", "  %bad0 = phi i64 [ 0, %entry ], [ %bad.next, %skip ]"]
    lines += [*_active_text(masked), *_rows_text(accesses), *_memory_text(accesses)]
    if any(access.space == "shared" for access in accesses):
        lines += _window_text()
    lines += [*v.lines, "  br label %looked", "looked:", "  br label %skip", "skip:"]
    arms = "[ %bad0, %loop ], " if masked else ""
    lines += [
        f"  %bad.next = phi i64 {arms}[ %bad{count}, %looked ]",
        f"  %t.next = add i64 %t, {LANES}",
        "  %more = icmp slt i64 %t.next, %last",
    ]
    lines += ["  br i1 %more, label %loop, label %done", "done:", "  ret i64 %bad.next", "}"]
    return "\n".join(lines)


def _memory_text(accesses: Sequence[Access]) -> Iterator[str]:
    """The head of the table `memory`: where threads' CTAs are, the windows' table, where accesses of windows may
    begin by size.
    """
    yield "  %nowhere.p = getelementptr i64, ptr %memory, i64 0"
    yield "  %nowhere = load i64, ptr %nowhere.p, align 8"
    yield "  %cta.p = getelementptr i64, ptr %memory, i64 1"
    yield "  %cta.of = load ptr, ptr %cta.p, align 8"
    yield "  %windows.p = getelementptr i64, ptr %memory, i64 2"
    yield "  %windows = load ptr, ptr %windows.p, align 8"
    yield "  %window.p = getelementptr i64, ptr %memory, i64 3"
    yield "  %window = load i64, ptr %window.p, align 8"
    for size in sorted({access.size for access in accesses if access.space == "shared"}):
        yield f"  %limit.whole{size} = sub i64 %window, {size - 1}"
        yield f"  %none{size} = icmp slt i64 %limit.whole{size}, 0"
        yield f"  %limit{size} = select i1 %none{size}, i64 0, i64 %limit.whole{size}"


def _window_text() -> list[str]:
    """The begin of the window of the group's CTA as an address, and in the host's memory."""
    return [
        "  %ctap = getelementptr i64, ptr %cta.of, i64 %t",
        "  %cta = load i64, ptr %ctap, align 8",
        "  %cta2 = shl i64 %cta, 1",
        "  %wp = getelementptr i64, ptr %windows, i64 %cta2",
        "  %window.begin = load i64, ptr %wp, align 8",
        "  %wq = getelementptr i64, ptr %wp, i64 1",
        "  %window.host = load i64, ptr %wq, align 8",
    ]


def _run_text(v: Vectors, accesses: Sequence[Access], stores: Sequence[str], *, masked: bool) -> str:
    """`run`: the instructions, for groups from %first to %last."""
    room = [*([BUFFER] if accesses else []), *_counts_text(v, accesses)]
    lines = [f"define void @run({_HEAD}) {{", "entry:", *room, "  br label %loop", "loop:"]
    lines += ["  %t = phi i64 [ %first, %entry ], [ %t.next, %skip ]", *_active_text(masked), *_rows_text(accesses)]
    lines += [*v.lines, *stores, "  br label %skip", "skip:", f"  %t.next = add i64 %t, {LANES}", "  %more = icmp slt i64 %t.next, %last"]
    lines += ["  br i1 %more, label %loop, label %done", "done:", "  ret void", "}"]
    return "\n".join(lines)


def _counts_text(v: Vectors, accesses: Sequence[Access]) -> Iterator[str]:
    """The text that finds the entries for counting, if the segment counts."""
    if v.counts is not None and v.counts.size:
        yield f"  %counts = getelementptr i64, ptr %memory, i64 {HEAD + ROW * len(accesses)}"


def _kept(program: Program, instructions: Sequence[Instruction], v: Vectors) -> list[int]:
    """The registers whose new values a later instruction may read, or these instructions when they run again."""
    if program.inlined.frames:  # calls keep the registers of the functions that they leave
        return list(v.written)
    own = {id(i) for i in instructions}
    asked = _readers(program)
    return [slot for slot in v.written if slot in v.exposed or not asked.get(slot, _NOBODY) <= own]


_NOBODY: frozenset[int] = frozenset()


def _readers(program: Program) -> dict[int, set[int]]:
    """For each register the instructions (by identity) that may read it: wgmma reads D too, so of what is not
    compiled every register counts.
    """
    if program.readers is None:
        readers: dict[int, set[int]] = {}
        for i in program.inlined.body:
            is_plain = i.op in ("ld", "st") or form_of(i) is not None
            for slot, gives in i.mentions:
                if not (gives and is_plain):
                    readers.setdefault(slot, set()).add(id(i))
        program.readers = readers
    return program.readers


def _stores_text(v: Vectors, kept: Sequence[int], *, masked: bool) -> list[str]:
    """The registers that are kept, each stored once."""
    before = len(v.lines)
    for slot in kept:
        value, at = v.final(slot), v.at(slot)
        if masked:
            old = v.emit(value.type, f"load {vector(value.type)}, ptr {at}, align 1")
            value = v.emit(value.type, f"select {vector('i1')} %active, {vector(value.type)} {value.name}, {vector(value.type)} {old.name}")
        v.lines.append(f"  store {vector(value.type)} {value.name}, ptr {at}, align 1")
    lines = v.lines[before:]
    del v.lines[before:]
    return lines


# ---- loops


_COUNTED = ", ptr %counts, ptr %trips"


def loop_of(program: Program, block: Block) -> tuple[Instruction, ...] | None:
    """The instructions of a block that jumps back to itself, its guarded `bra` last; None where it is none, or where
    some have no compiled form.
    """
    plain = _plain(block)
    last = block.instructions[-1] if block.instructions else None
    if block.gate is not None or block.end is None or last is None or last.op != "bra" or last.guard is None or not plain:
        return None
    target = last.operands[0]
    if not isinstance(target, Label) or program.inlined.body[program.inlined.labels[target.name]] is not block.instructions[0]:
        return None
    if len(plain) > MOST or any(is_access(i) or id(i) in program.copied.instructions or not _compiles(program, i) for i in plain):
        return None
    return (*plain, last)


def code_of_loop(program: Program, instructions: Sequence[Instruction], counted: Block | None = None) -> Code:
    """`run` of a loop: each group goes round until none of its threads goes on, or for %most trips; the mask is left
    with those that would go on.

    It returns the most trips of any group. If observers count the block, `%trips` gets those of each group.
    """
    bra = instructions[-1]
    given = Given(len(program.registers))
    outside = Vectors(program.registers, program.wide, given)
    trial = Vectors(program.registers, program.wide, given)
    for i in instructions[:-1]:
        _emit(program, trial, i, None, emit_access)
    stored = _kept(program, instructions, trial)
    trial.read(cast(Register, bra.guard), "pred")
    # Registers that are read before they are written, or kept, are loaded before the loop.
    slots = {slot: outside.slot(slot) for slot in sorted({*trial.exposed, *stored})}
    inside = Vectors(program.registers, program.wide, given)
    inside._names = outside._names
    inside.used = outside.used
    phis = {slot: Value(f"%phi{outside.used[slot]}", value.type) for slot, value in slots.items()}
    inside.current = dict(phis)
    active = Value("%active.now", "i1")
    inside.counts = counts = None if counted is None else Counts(active)
    if counts is not None and counted is not None:
        counts.runs(inside, counted)
    for i in instructions[:-1]:
        _emit(program, inside, i, None, emit_access)
    p = inside.read(cast(Register, bra.guard), "pred")
    if counts is not None:
        counts.leaves_out(inside, bra, p)
    carried = {slot: inside.as_type(inside.canonical(inside.current[slot]), phis[slot].type) for slot in stored}
    kept = {slot: inside.select(active, value, phis[slot]) for slot, value in carried.items()}
    goes_on = inside.binary("and", p, active)
    lines = [
        f"define i64 @run(ptr %regs, ptr %mask, i64 %first, i64 %last, i64 %most{_COUNTED * (counts is not None)}) {{", "entry:", "  br label %loop", "loop:",
        "  %t = phi i64 [ %first, %entry ], [ %t.next, %skip ]", "  %longest = phi i64 [ 0, %entry ], [ %longest.next, %skip ]",
        *_active_text(True), *outside.lines, "  br label %turn", "turn:",
        "  %trip = phi i64 [ 0, %work ], [ %trip.next, %turn ]",
        f"  %active.now = phi {vector('i1')} [ %active, %work ], [ {goes_on.name}, %turn ]",
    ]  # fmt: skip
    for slot, value in phis.items():
        after = kept.get(slot, value).name
        lines.append(f"  {value.name} = phi {vector(value.type)} [ {slots[slot].name}, %work ], [ {after}, %turn ]")
    lines += [
        *inside.lines, "  %trip.next = add i64 %trip, 1", f"  %left = bitcast {vector('i1')} {goes_on.name} to i{LANES}",
        f"  %some = icmp ne i{LANES} %left, 0", "  %may = icmp slt i64 %trip.next, %most", "  %again = and i1 %some, %may",
        "  br i1 %again, label %turn, label %leave", "leave:",
    ]  # fmt: skip
    ends = Vectors(program.registers, program.wide)
    ends._names = inside._names
    if counts is not None:
        ends.lines.append(f"  store i64 %trip.next, ptr {ends.line('getelementptr i64, ptr %trips, i64 %group')}, align 8")
    for slot, value in kept.items():
        whole = ends.cast(value, "i8", "zext") if value.type == "i1" else value
        ends.lines.append(f"  store {vector(whole.type)} {whole.name}, ptr {outside.at(slot)}, align 1")
    lines += [
        *ends.lines, f"  %mask.new = zext {vector('i1')} {goes_on.name} to {vector('i8')}", f"  store {vector('i8')} %mask.new, ptr %mp, align 1",
        "  %longer = icmp sgt i64 %trip.next, %longest", "  %longest.own = select i1 %longer, i64 %trip.next, i64 %longest", "  br label %skip", "skip:",
        "  %longest.next = phi i64 [ %longest, %loop ], [ %longest.own, %leave ]", f"  %t.next = add i64 %t, {LANES}",
        "  %more = icmp slt i64 %t.next, %last", "  br i1 %more, label %loop, label %done", "done:", "  ret i64 %longest.next", "}",
    ]  # fmt: skip
    return Code("\n".join((*sorted(inside.declared | outside.declared), *lines)), tuple(outside.used), (), tuple(given.keys), counts)
