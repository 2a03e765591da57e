"""Calls inlined or kept as routines, straight-line segments.

Every other function is inlined at its calls. A function's value, in a register or a table, is an invented address
that names it.

Functions that cannot be inlined (`routines`) are placed before the entry, each once, so that threads that return meet
those that wait for them.

A stretch ends if a branch ends or begins. It also ends at instructions that ptxas compiles to a branch or a call. These
are guarded instructions that write memory or arrive at a barrier, fences, and exact divisions and roots. Found from the
machine code of ptxas 13.0 for each of these instructions between a product and its sum: *compiled*. A label without a
jump ends nothing, nor does a barrier. Loops whose end an integer comparison decides are unrolled by ptxas, completely
if that is with a constant. Then there are fewer stretches than in the text.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.ptx.module import (
    Address,
    Arguments,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Operand,
    Pair,
    Parameter,
    Prototype,
    Register,
    RegisterType,
    Symbol,
    Variable,
    Vector,
)

__all__ = [
    "FRAME_ALIGN",
    "Frame",
    "FunctionAddresses",
    "Inlined",
    "Segments",
    "callee_of",
    "inline",
    "interface",
    "routines",
]


# ---- Functions that stay functions: those that call themselves, are called through pointers, or take
# room on the stack as they run


FUNCTIONS = 0x7C00_0000_0000  # made up: where functions lie, a step for each function of the file
STEP = 128
DEEPEST = 64  # calls inlined within one another
LARGEST = 200_000  # instructions of an entry with its calls inlined
FRAME_ALIGN = 16  # bytes; more where a variable needs more


@dataclasses.dataclass(eq=False)
class Frame:
    """A function that stays one: what a call of it puts on the stack of a thread.

    Results and parameters come first, in the order and at the offsets of `interface`, so that a caller need not know
    the callee. The slots of its registers are `first` and `count`. A call saves them if the function may already be
    running in the thread (`recursive`). The register with the begin of the running call's frame is `slot`.
    """

    function: Function
    recursive: bool
    slot: int = 0
    first: int = 0
    count: int = 0
    variables: list[Variable] = dataclasses.field(default_factory=list)

    @property
    def label(self) -> str:
        """The label at which the routine's instructions begin."""
        return f"{self.function.name}#begin"


class FunctionAddresses(Mapping[str, int]):
    """The made-up addresses of the functions of the file."""

    def __init__(self, module: Module) -> None:
        self._numbers = module.numbered

    def __getitem__(self, name: str) -> int:
        return FUNCTIONS + STEP * self._numbers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def interface(results: tuple[Parameter, ...], parameters: tuple[Parameter, ...]) -> tuple[list[int], list[int], int]:
    """The places of results and parameters in a frame, in bytes, and their size.

    >>> interface((Parameter("_", "b32", 4, 4),), (Parameter("_", "b64", 8, 8), Parameter("_", "b8", 1, 1)))
    ([0], [8, 16], 17)
    """
    offsets, end = [], 0
    for p in (*results, *parameters):
        end = -(-end // max(p.align, 1)) * max(p.align, 1)
        offsets.append(end)
        end += p.size
    return offsets[: len(results)], offsets[len(results) :], end


def callee_of(i: Instruction) -> Operand | None:
    """The function operand of a call, between the lists of results and parameters."""
    return next((operand for operand in i.operands if not isinstance(operand, Arguments)), None)


def routines(module: Module, entry: Function) -> dict[str, Frame]:
    """The functions that an entry reaches and that stay functions, by name; all that it reaches when it would be too
    large without them.
    """
    reached, pointed, indirect = _reached(module, entry)
    calls = {f.name: set(_called(module, f)) | (pointed if f.name in indirect else set()) for f in reached.values()}
    recursive = _in_cycles(calls)
    stay = recursive | (pointed if indirect else set())
    if _too_large(module, entry, stay):
        stay = set(reached)
    stay |= {f.name for f in reached.values() if any(i.op in ("alloca", "stackrestore") for i in f.body or ())}
    return {f.name: Frame(f, f.name in recursive) for f in reached.values() if f.name in stay and f.body is not None and not f.is_entry}


def _too_large(module: Module, entry: Function, stay: set[str]) -> bool:
    """Would an entry and those of `stay` have too many instructions with all calls inlined but those of `stay`, or
    too many calls within one another?
    """
    sizes: dict[str, tuple[int, int]] = {}

    def size(f: Function, depth: int) -> tuple[int, int]:  # instructions, calls within one another
        if f.name not in sizes and depth <= DEEPEST:
            inner = [size(module.functions[name], depth + 1) for name in _called(module, f) if name not in stay]
            sizes[f.name] = (len(f.body or ()) + sum(s for s, _ in inner), 1 + max((d for _, d in inner), default=0))
        return sizes.get(f.name, (0, DEEPEST + 1))

    found = [size(f, 0) for f in (entry, *(module.functions[name] for name in stay))]
    return sum(count for count, _ in found) > LARGEST or max(depth for _, depth in found) > DEEPEST


def _called(module: Module, f: Function) -> Iterator[str]:
    for i in f.body or ():
        if i.op == "call":
            callee = callee_of(i)
            if isinstance(callee, Symbol) and callee.name in module.functions:
                yield callee.name


def _values(module: Module, f: Function) -> Iterator[str]:
    """Functions that are used as numbers."""
    for i in f.body or ():
        callee = callee_of(i) if i.op == "call" else None
        for operand in i.operands:
            if isinstance(operand, Symbol) and operand is not callee and operand.name in module.functions:
                yield operand.name
    for listed in f.targets.values():
        yield from (name for name in listed if name in module.functions)


def _reached(module: Module, entry: Function) -> tuple[dict[str, Function], set[str], set[str]]:
    """(functions that may run, those among them whose value is taken, those that call through pointers)."""
    in_tables = {name for v in module.variables.values() for _, name, _ in v.references if name in module.functions}
    reached: dict[str, Function] = {}
    pointed: set[str] = set()
    indirect: set[str] = set()
    pending = [entry.name]
    while pending:
        f = module.functions[pending.pop()]
        if f.name in reached:
            continue
        reached[f.name] = f
        pending += _called(module, f)
        pointed |= set(_values(module, f))
        if any(i.op == "call" and isinstance(callee_of(i), Register) for i in f.body or ()):
            indirect.add(f.name)
            pointed |= in_tables
        if indirect:
            pending += pointed
    return reached, {name for name in pointed if module.functions[name].body is not None}, indirect


def _in_cycles(calls: dict[str, set[str]]) -> set[str]:
    """The functions that are recursive: members of a strongly connected component of several (Tarjan), and functions
    that call themselves.
    """
    recursive = {name for name, called in calls.items() if name in called}
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: dict[str, None] = {}  # in the order of their numbers
    for first, called in calls.items():
        if first in order:
            continue
        order[first] = low[first] = len(order)
        open_[first] = None
        path = [(first, iter(called))]
        while path:
            name, rest = path[-1]
            to = next((callee for callee in rest if callee in calls), None)
            if to is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[name])
                if low[name] == order[name]:
                    component: list[str] = []
                    while not component or component[-1] != name:
                        component.append(open_.popitem()[0])
                    if len(component) > 1:
                        recursive.update(component)
            elif to not in order:
                order[to] = low[to] = len(order)
                open_[to] = None
                path.append((to, iter(calls[to])))
            elif to in open_:
                low[name] = min(low[name], order[to])
    return recursive


# ---- Calls inlined: one list of instructions for an entry and all it calls, with registers, labels and
# variables of every call apart


_OF_A_CALL = ("local", "param")  # spaces of which every call has variables of its own


@dataclasses.dataclass(eq=False)
class Inlined:
    """The functions after inlining. Their variables are `variables` (shared, local, and the .param of calls). Module
    variables are the module's.

    The functions that were not inlined are `frames`. The parameters and results of calls of them are `signatures`, by
    function or `.callprototype`.
    """

    body: list[Instruction]
    registers: list[RegisterType]
    labels: dict[str, int]
    targets: dict[str, tuple[str, ...]]
    variables: list[Variable]
    frames: dict[str, Frame] = dataclasses.field(default_factory=dict)
    signatures: dict[str, Prototype] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Names:
    """The names of a function's own symbols in the whole program."""

    first: int  # slot of its first register
    prefix: str
    symbols: dict[str, str]

    @functools.cached_property
    def are_those_written(self) -> bool:
        """Are they called in the whole what the function calls them?"""
        return self.first == 0 and not self.prefix and all(name == own for own, name in self.symbols.items())

    def instruction(self, i: Instruction) -> Instruction:
        """An instruction of the function, as it stands in the whole."""
        if self.are_those_written:
            return i
        guard = self.operand(i.guard) if i.guard else None
        return Instruction(i.op, i.modifiers, tuple(self.operand(o) for o in i.operands), guard, i.line, i.location, i.text, i.nth)

    def operand(self, operand: Operand) -> Any:
        match operand:
            case Register():
                return Register(operand.slot + self.first, operand.name, operand.type, operand.negated, operand.part)
            case Symbol():
                return Symbol(self.symbols.get(operand.name, operand.name), operand.offset)
            case Label():
                return Label(self.prefix + operand.name)
            case Address():
                at = operand.coordinates
                return Address(self.operand(operand.base), operand.offset, None if at is None else tuple(self.operand(o) for o in at))
            case Vector() | Arguments():
                return type(operand)(tuple(self.operand(o) for o in operand.items))
            case Pair():
                return Pair(self.operand(operand.first), self.operand(operand.second))
        return operand


def inline(module: Module, entry: Function) -> Inlined:
    """The entry's instructions with those of the functions it calls in place of the calls, or in front where that
    cannot be.
    """
    frames = routines(module, entry)
    whole = Inlined([], [], {}, {}, [], frames)
    whole.signatures.update({name: Prototype(frame.function.parameters, frame.function.results) for name, frame in frames.items()})
    expansion = _Expansion(module, whole)
    if frames:
        start = Instruction("bra", ("uni",), (Label("#entry"),), None, entry.line, None, "")
        whole.body.append(start)
        for frame in frames.values():
            expansion.routine(frame)
    whole.labels["#entry"] = len(whole.body)
    expansion.expand(entry, {}, 0)
    whole.labels = {name: min(at, len(whole.body)) for name, at in whole.labels.items()}
    return whole


class _Expansion:
    """Puts functions into the whole, one after the other; `frame` is that of the function which is being put there,
    if it stays one.
    """

    def __init__(self, module: Module, whole: Inlined) -> None:
        self.module, self.whole = module, whole
        self.count = 0
        self.placed: set[str] = set()  # variables that are in the whole
        self.frame: Frame | None = None

    def routine(self, frame: Frame) -> None:
        """A function with an end of its own."""
        f, whole = frame.function, self.whole
        whole.labels[frame.label] = len(whole.body)
        self.frame, frame.first = frame, len(whole.registers)
        frame.slot = frame.first
        whole.registers.append(RegisterType(f"the frame of {f.name}", "b64"))
        self.expand(f, {}, 1)
        frame.count = len(whole.registers) - frame.first
        self.frame = None

    def expand(self, f: Function, bound: dict[str, str], depth: int) -> None:
        """The instructions of a function; `bound` has the variables of the caller for its parameters."""
        whole = self.whole
        if f.body is None:
            raise Unmodelled(f"{f.name} is declared and not in this PTX: functions of other files are not modelled", line=f.line)
        number, self.count = self.count, self.count + 1
        prefix = f"{f.name}#{number}." if depth else ""
        own = self.frame if self.frame is not None and self.frame.function is f else None
        names = _Names(len(whole.registers), prefix, self._variables(f, prefix, bound, own))
        whole.registers += f.registers
        whole.targets.update({prefix + name: tuple(prefix + t for t in to) for name, to in f.targets.items()})
        whole.signatures.update({prefix + name: p for name, p in f.prototypes.items()})
        starts: dict[int, list[str]] = {}
        for label, at in f.labels.items():
            starts.setdefault(at, []).append(label)
        end = f"{prefix}return"
        if own:
            self._formals("ld", f, f.parameters, names)
        for n, written in enumerate(f.body):
            for label in starts.get(n, ()):
                whole.labels[prefix + label] = len(whole.body)
            i = names.instruction(written)
            if i.op == "call":
                self._call(f, i, depth)
            elif i.op == "ret" and depth:
                whole.body.append(dataclasses.replace(i, op="bra", modifiers=("uni",) if not i.guard else (), operands=(Label(end),)))
            else:
                whole.body.append(i)
        for label in starts.get(len(f.body), ()):
            whole.labels[prefix + label] = len(whole.body)
        if depth:
            whole.labels[end] = len(whole.body)
        if own:
            self._formals("st", f, f.results, names)
            whole.body.append(Instruction("ret", ("#frame",), (Symbol(f.name),), None, f.line, None, f"ret of {f.name}"))

    def _variables(self, f: Function, prefix: str, bound: dict[str, str], own: Frame | None) -> dict[str, str]:
        """The names of the function's variables in the whole program, to which they are added."""
        whole = self.whole
        formals = [Variable(p.name, "param", p.align, p.size, p.type) for p in (*f.results, *f.parameters)] if own else []
        variables = (*formals, *f.variables)
        of_all = f"{f.name}." if prefix else ""  # calls have one of these variables in common
        symbols = bound | {v.name: f"{prefix if v.space in _OF_A_CALL else of_all}{v.name}" for v in variables}
        for v in variables:
            references = tuple((at, symbols.get(symbol, symbol), addend) for at, symbol, addend in v.references)
            placed = dataclasses.replace(v, name=symbols[v.name], references=references)
            if v.space in _OF_A_CALL and self.frame is not None:
                self.frame.variables.append(placed)
            elif v.space in _OF_A_CALL or placed.name not in self.placed:
                self.placed.add(placed.name)
                whole.variables.append(placed)
        return symbols

    def _formals(self, op: str, f: Function, formals: tuple[Parameter, ...], names: _Names) -> None:
        """`.reg` parameters and results of a function that stays one travel through its frame as well."""
        for p in formals:
            if p.slot is None:
                continue
            if p.type == "pred":
                raise Unmodelled(f"{f.name}: predicates as parameters of a function that cannot be inlined: not modelled", line=f.line)
            cell, register = Address(names.operand(Symbol(p.name))), names.operand(Register(p.slot, p.name, p.type))
            operands = (register, cell) if op == "ld" else (cell, register)
            self.whole.body.append(Instruction(op, ("param", p.type), operands, None, f.line, None, f"{op} {p.name}"))

    def _call(self, caller: Function, i: Instruction, depth: int) -> None:
        whole, module = self.whole, self.module
        if set(i.modifiers) - {"uni"}:
            raise InputError(f"line {i.line}: {i.text}: call has no word but .uni: ptxas refuses others")
        callee = callee_of(i)
        before = i.operands.index(callee) if callee is not None else 0
        lists = [[o.items for o in part if isinstance(o, Arguments)] for part in (i.operands[:before], i.operands[before:])]
        results, arguments = (part[0] if part else () for part in lists)
        if isinstance(callee, Register):
            self._enter(i, callee, self._signature_of_pointer(i, i.operands[before + 1 :]), results, arguments)
            return
        if not isinstance(callee, Symbol) or callee.name not in module.functions:
            raise InputError(
                f"line {i.line}: {i.text}: what is called is neither a function of this PTX nor a register that holds its address"
            )
        f = module.functions[callee.name]
        if f.body is None:
            whole.body.append(i)  # a function of the system, which has a builder, or none
            return
        if f.is_entry:
            raise InputError(f"line {i.line}: {i.text}: {f.name} is a kernel; a call needs a .func")
        if len(arguments) != len(f.parameters) or len(results) != len(f.results):
            raise InputError(f"line {i.line}: {i.text}: {f.name} takes {len(f.parameters)} arguments and gives {len(f.results)} results")
        if f.name in whole.frames:
            self._enter(i, callee, f.name, results, arguments)
        else:
            self._expand_call(i, f, results, arguments, depth)

    def _signature_of_pointer(self, i: Instruction, behind: tuple[Operand, ...]) -> str:
        """The label of the .callprototype or .calltargets that a call through a pointer names, one of the operands
        `behind` the pointer.
        """
        whole, module = self.whole, self.module
        label = next((o.name for o in behind if isinstance(o, Label)), "")
        listed = whole.targets.get(label, ())
        if listed:  # .calltargets: any of them has the types of the arguments
            f = module.functions.get(listed[0].rpartition(".")[2] if listed[0] not in module.functions else listed[0])
            whole.signatures[label] = Prototype(f.parameters, f.results) if f else Prototype((), ())
        if label not in whole.signatures:
            raise Unmodelled(f"{i.text}: a call through a pointer needs a .callprototype or a .calltargets list", line=i.line)
        return label

    def _expand_call(self, i: Instruction, f: Function, results: tuple[Operand, ...], arguments: tuple[Operand, ...], depth: int) -> None:
        """Put the instructions of `f` in place of a call of it: arguments moved in, results moved out, jumped over
        where its guard does not hold.
        """
        whole = self.whole
        after = f"call#{self.count}.after"
        if i.guard:
            negated = dataclasses.replace(i.guard, negated=not i.guard.negated)
            whole.body.append(dataclasses.replace(i, op="bra", modifiers=(), operands=(Label(after),), guard=negated))
        first = len(whole.registers)
        bound: dict[str, str] = {}
        for formal, actual in (*zip(f.parameters, arguments, strict=True), *zip(f.results, results, strict=True)):
            if formal.slot is None:
                if not isinstance(actual, Symbol):
                    raise Unmodelled(f"{i.text}: a .param argument needs a .param variable", line=i.line)
                bound[formal.name] = actual.name

        def move(to: Operand, source: Operand, kind: str) -> None:
            whole.body.append(dataclasses.replace(i, op="mov", modifiers=(kind,), operands=(to, source), guard=None))

        for formal, actual in zip(f.parameters, arguments, strict=True):
            if formal.slot is not None:
                move(Register(first + formal.slot, formal.name, formal.type), actual, formal.type)
        self.expand(f, bound, depth + 1)
        for formal, actual in zip(f.results, results, strict=True):
            if formal.slot is not None:
                move(actual, Register(first + formal.slot, formal.name, formal.type), formal.type)
        if i.guard:
            whole.labels[after] = len(whole.body)

    def _enter(self, i: Instruction, callee: Operand, signature: str, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> None:
        """A call of a function that stays one: in, and when it has returned its results out of the frame that it
        leaves.
        """
        what = self.whole.signatures[signature]
        if len(arguments) != len(what.parameters) or len(results) != len(what.results):
            raise InputError(
                f"line {i.line}: {i.text}: {signature} takes {len(what.parameters)} arguments and gives {len(what.results)} results"
            )
        operands = (callee, Arguments(arguments), Label(signature))
        self.whole.body.append(dataclasses.replace(i, modifiers=("#enter",), operands=operands))
        if results:
            self.whole.body.append(dataclasses.replace(i, modifiers=("#results",), operands=(Arguments(results), Label(signature))))


# ---- The stretches of a body within which ptxas takes products into sums, and its loops


_LEAVE = {"bra", "brx", "call", "ret", "exit", "trap"}
_ENDS = {"brkpt", "fence", "griddepcontrol.launch_dependents", "membar", "pmevent", "setmaxnreg"} | {
    f"tcgen05.{what}" for what in ("alloc", "dealloc", "relinquish_alloc_permit")
}
_NOT_OF_FENCE = ("proxy", "mbarrier_init")  # fence.proxy.* and fence.mbarrier_init end nothing
_WRITES = {
    "atom", "bar", "barrier", "cp", "discard", "fence", "mbarrier", "multimem", "prefetch", "red", "st", "stmatrix", "tcgen05", "tensormap",
}  # fmt: skip
_CALLED = {"div", "rcp", "sqrt"}
_INTEGERS = {"s32", "u32", "b32", "s64", "u64", "b64", "s16", "u16", "b16"}
_WIDE = {"s16", "u16", "s64", "u64"}


def _ends(i: Instruction) -> bool:
    """Does ptxas make more than one basic block of this instruction?"""
    words = set(i.modifiers)
    if i.op == "fence" and any(w.startswith(_NOT_OF_FENCE) for w in i.modifiers):
        return i.guard is not None
    if {i.op, ".".join((i.op, *i.modifiers[:1]))} & _ENDS or (i.guard is not None and i.op in _WRITES):
        return True
    if i.op == "rsqrt":
        return "f64" in words and "ftz" not in words
    if i.op in ("div", "rem") and words & _WIDE:
        return True
    return i.op in _CALLED and not words & {"approx", "full"} and bool(words & {"f32", "f64"})


class Segments:
    """The stretches of a body by their first instructions, and the loops that ptxas may unroll as (first, last)
    instruction.
    """

    def __init__(self, inlined: Inlined) -> None:
        body = inlined.body
        self.size = len(body)
        self.next: dict[int, list[int]] = {}  # of instructions that leave: their targets
        loops: set[tuple[int, int]] = set()
        starts = {0, *(at for name, at in inlined.labels.items() if "#" in name)}  # of functions, inlined or not
        for n, i in enumerate(body):
            if i.op in _LEAVE:
                to = [inlined.labels[name] for name in _targets(i, inlined)]
                stays = i.guard is not None or i.op == "call"
                if i.op == "bra" and to == [n + 1]:
                    continue
                self.next[n] = [*to, *([n + 1] if stays else [])]
                starts |= {n + 1, *to}
                loops |= {(t, n) for t in to if t <= n and _comparison(body, t, n) != "other"}
            elif _ends(i):
                starts.add(n + 1)
        self.starts = sorted(s for s in starts if s < self.size)
        self.loops = sorted(loops)
        self.whole = [loop for loop in self.loops if _comparison(body, *loop) == "constant"]

    def of(self, at: int) -> int:
        """The first instruction of the stretch."""
        return self.starts[bisect.bisect_right(self.starts, at) - 1]

    def end(self, at: int) -> int:
        """The first instruction after the stretch."""
        k = bisect.bisect_right(self.starts, at)
        return self.starts[k] if k < len(self.starts) else self.size

    def after(self, at: int) -> list[int]:
        """The stretches that may follow the one of `at`."""
        end = self.end(at)
        return [n for n in self.next.get(end - 1, [end]) if n < self.size]

    def unrolled(self, at: int, use: int) -> bool:
        """May the way from a value to its use be in one stretch once loops are unrolled?"""
        if use <= at:
            return any(first <= use and at <= last for first, last in self.loops)
        return any(at < first <= use or at <= last < use for first, last in self.whole)


def _comparison(body: list[Instruction], first: int, last: int) -> str:
    """The test that decides whether a loop goes on: an integer comparison with a "constant" or a "count", or something
    "other". An unknown one counts as a constant.
    """
    guard = body[last].guard
    if guard is None:
        return "constant"
    for i in reversed(body[first:last]):
        if i.operands and isinstance(i.operands[0], Register) and i.operands[0].slot == guard.slot:
            if i.op != "setp" or not _INTEGERS & set(i.modifiers):
                return "other"
            return "constant" if any(isinstance(x, Immediate) for x in i.operands) else "count"
    return "constant"


def _targets(i: Instruction, inlined: Inlined) -> list[str]:
    named = [x.name for x in i.operands if isinstance(x, Label)]
    found = [name for one in named for name in inlined.targets.get(one, (one,))]
    return [name for name in found if name in inlined.labels]
