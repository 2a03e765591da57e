"""Calls inlined: one list of instructions for an entry and all it calls, with registers, labels and variables of every call apart."""

from __future__ import annotations

import dataclasses
from typing import Any

from smemsim.errors import InputError, Unmodelled
from smemsim.ptx.module import (
    Address,
    Arguments,
    Function,
    Instruction,
    Label,
    Module,
    Operand,
    Pair,
    Register,
    RegisterType,
    Symbol,
    Variable,
    Vector,
)

__all__ = ["Inlined", "inline"]

DEEPEST = 64  # calls inside calls; a function that calls itself never ends here
LARGEST = 2_000_000  # instructions


@dataclasses.dataclass(eq=False)
class Inlined:
    """`variables` are those of the functions (shared, local, and the .param of calls); module variables are the module's."""

    body: list[Instruction]
    registers: list[RegisterType]
    labels: dict[str, int]
    targets: dict[str, tuple[str, ...]]
    variables: list[Variable]


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
    """The entry's instructions with those of the functions it calls in place of the calls."""
    whole = Inlined([], [], {}, {}, [])
    _expand(module, entry, whole, {}, 0, [0])
    whole.labels = {name: min(at, len(whole.body)) for name, at in whole.labels.items()}
    return whole


def _expand(module: Module, f: Function, whole: Inlined, bound: dict[str, str], depth: int, count: list[int]) -> _Names:
    if f.body is None:
        raise Unmodelled(f"line {f.line}: {f.name} is declared and not in this PTX: functions of other files are not modelled")
    if depth > DEEPEST:
        raise Unmodelled(f"line {f.line}: {f.name} calls itself, or calls are nested deeper than {DEEPEST}: not modelled")
    number, count[0] = count[0], count[0] + 1
    prefix = f"{f.name}#{number}." if depth else ""
    symbols = dict(bound)
    for v in f.variables:
        name = f"{prefix}{v.name}" if v.space in ("local", "param") else v.name
        symbols[v.name] = name
        if not any(v.space == "shared" and other.name == name for other in whole.variables):
            whole.variables.append(dataclasses.replace(v, name=name))
    names = _Names(len(whole.registers), prefix, symbols)
    whole.registers += f.registers
    whole.targets.update({prefix + name: tuple(prefix + t for t in to) for name, to in f.targets.items()})
    starts: dict[int, list[str]] = {}
    for label, at in f.labels.items():
        starts.setdefault(at, []).append(label)
    end = f"{prefix}return"
    for n, written in enumerate(f.body):
        for label in starts.get(n, ()):
            whole.labels[prefix + label] = len(whole.body)
        guard = names.operand(written.guard) if written.guard else None
        i = dataclasses.replace(written, operands=tuple(names.operand(o) for o in written.operands), guard=guard)
        if i.op == "call":
            _call(module, f, i, whole, depth, count)
        elif i.op == "ret" and depth:
            whole.body.append(dataclasses.replace(i, op="bra", modifiers=("uni",) if not i.guard else (), operands=(Label(end),)))
        else:
            whole.body.append(i)
        if len(whole.body) > LARGEST:
            raise Unmodelled(f"{f.name}: more than {LARGEST} instructions once its calls are inlined")
    for label in starts.get(len(f.body), ()):
        whole.labels[prefix + label] = len(whole.body)
    if depth:
        whole.labels[end] = len(whole.body)
    return names


def _call(module: Module, caller: Function, i: Instruction, whole: Inlined, depth: int, count: list[int]) -> None:
    results: tuple[Operand, ...] = ()
    arguments: tuple[Operand, ...] = ()
    callee: Operand | None = None
    for operand in i.operands:
        if isinstance(operand, Arguments):
            if callee is None:
                results = operand.items
            else:
                arguments = operand.items
        elif callee is None:
            callee = operand
    if not isinstance(callee, Symbol) or callee.name not in module.functions:
        raise Unmodelled(f"line {i.line}: {i.text}: calls through pointers are not modelled")
    f = module.functions[callee.name]
    if f.body is None:
        whole.body.append(i)  # a function of the system, which has a builder, or none
        return
    if len(arguments) != len(f.parameters) or len(results) != len(f.results):
        raise InputError(f"line {i.line}: {i.text}: {f.name} takes {len(f.parameters)} arguments and gives {len(f.results)} results")
    after = f"call#{count[0]}.after"
    if i.guard:
        skip = dataclasses.replace(
            i, op="bra", modifiers=(), operands=(Label(after),), guard=dataclasses.replace(i.guard, negated=not i.guard.negated)
        )
        whole.body.append(skip)
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
    _expand(module, f, whole, bound, depth + 1, count)
    for formal, actual in zip(f.results, results, strict=True):
        if formal.slot is not None:
            move(actual, Register(first + formal.slot, formal.name, formal.type), formal.type)
    if i.guard:
        whole.labels[after] = len(whole.body)
