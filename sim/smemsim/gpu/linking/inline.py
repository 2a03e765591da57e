"""Calls inlined: one list of instructions for an entry and all it calls, with registers, labels and variables of every call apart.

Functions that cannot be inlined (`routines`) stand in front of the entry, each once, so that threads that return meet those that wait for them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from smemsim.errors import InputError, Unmodelled
from smemsim.gpu.linking.routines import Frame, callee_of, routines
from smemsim.ptx.module import (
    Address,
    Arguments,
    Function,
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

__all__ = ["Inlined", "inline"]

_OF_A_CALL = ("local", "param")  # spaces of which every call has variables of its own


@dataclasses.dataclass(eq=False)
class Inlined:
    """`variables` are those of the functions (shared, local, and the .param of calls); module variables are the module's.

    `frames` are the functions that were not inlined; `signatures` the parameters and results of calls of them, by function or `.callprototype`.
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
    """What a function's own names are called in the whole."""

    first: int  # slot of its first register
    prefix: str
    symbols: dict[str, str]

    def operand(self, operand: Operand) -> Any:
        match operand:
            case Register():
                return dataclasses.replace(operand, slot=operand.slot + self.first)
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
    """The entry's instructions with those of the functions it calls in place of the calls, or in front where that cannot be."""
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
    """Puts functions into the whole, one after the other; `frame` is that of the function which is being put there, if it stays one."""

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
        """The instructions of a function; `bound` says which variables of the caller its parameters are."""
        whole = self.whole
        if f.body is None:
            raise Unmodelled(f"line {f.line}: {f.name} is declared and not in this PTX: functions of other files are not modelled")
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
            guard = names.operand(written.guard) if written.guard else None
            i = dataclasses.replace(written, operands=tuple(names.operand(o) for o in written.operands), guard=guard)
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
        """What the function's variables are called in the whole; they are put there."""
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
                raise Unmodelled(f"line {f.line}: {f.name}: predicates as parameters of a function that cannot be inlined: not modelled")
            cell, register = Address(names.operand(Symbol(p.name))), names.operand(Register(p.slot, p.name, p.type))
            operands = (register, cell) if op == "ld" else (cell, register)
            self.whole.body.append(Instruction(op, ("param", p.type), operands, None, f.line, None, f"{op} {p.name}"))

    def _call(self, caller: Function, i: Instruction, depth: int) -> None:
        whole, module = self.whole, self.module
        callee = callee_of(i)
        before = i.operands.index(callee) if callee is not None else 0
        lists = [[o.items for o in part if isinstance(o, Arguments)] for part in (i.operands[:before], i.operands[before:])]
        results, arguments = (part[0] if part else () for part in lists)
        if isinstance(callee, Register):
            label = next((o.name for o in i.operands[before + 1 :] if isinstance(o, Label)), "")
            listed = whole.targets.get(label, ())
            if listed:  # .calltargets: any of them says what is passed
                f = module.functions.get(listed[0].rpartition(".")[2] if listed[0] not in module.functions else listed[0])
                whole.signatures[label] = Prototype(f.parameters, f.results) if f else Prototype((), ())
            if label not in whole.signatures:
                raise Unmodelled(f"line {i.line}: {i.text}: a call through a pointer needs a .callprototype or a .calltargets list")
            self._enter(i, callee, label, results, arguments)
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
            return
        after = f"call#{self.count}.after"
        if i.guard:
            negated = dataclasses.replace(i.guard, negated=not i.guard.negated)
            whole.body.append(dataclasses.replace(i, op="bra", modifiers=(), operands=(Label(after),), guard=negated))
        first = len(whole.registers)
        bound: dict[str, str] = {}
        for formal, actual in (*zip(f.parameters, arguments, strict=True), *zip(f.results, results, strict=True)):
            if formal.slot is None:
                if not isinstance(actual, Symbol):
                    raise Unmodelled(f"line {i.line}: {i.text}: a .param argument needs a .param variable")
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
        """A call of a function that stays one: in, and when it has returned its results out of the frame that it leaves."""
        what = self.whole.signatures[signature]
        if len(arguments) != len(what.parameters) or len(results) != len(what.results):
            raise InputError(
                f"line {i.line}: {i.text}: {signature} takes {len(what.parameters)} arguments and gives {len(what.results)} results"
            )
        operands = (callee, Arguments(arguments), Label(signature))
        self.whole.body.append(dataclasses.replace(i, modifiers=("#enter",), operands=operands))
        if results:
            self.whole.body.append(dataclasses.replace(i, modifiers=("#results",), operands=(Arguments(results), Label(signature))))
