"""Functions that stay functions: those that call themselves, are called through pointers, or take room on the stack as they run.

Every other function is inlined where it is called. A function's value, in a register or a table, is a made-up address that names it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from smemsim.ptx.module import Arguments, Function, Instruction, Module, Operand, Parameter, Register, Symbol, Variable

__all__ = ["FRAME_ALIGN", "Frame", "callee_of", "function_addresses", "interface", "routines"]

FUNCTIONS = 0x7C00_0000_0000  # made up: where functions lie, a step for each function of the file
STEP = 128
DEEPEST = 64  # calls inlined within one another
LARGEST = 200_000  # instructions of an entry with its calls inlined
FRAME_ALIGN = 16  # bytes; more where a variable needs more


@dataclasses.dataclass(eq=False)
class Frame:
    """A function that stays one: what a call of it puts on the stack of a thread.

    Results and parameters lie first, in the order and at the offsets of `interface`, so that a caller need not know whom it calls. `first` and
    `count` are the slots of its registers, which a call keeps when the function may already be running in the thread (`recursive`); `slot`
    is the register that holds where the frame of the running call begins.
    """

    function: Function
    recursive: bool
    slot: int = 0
    first: int = 0
    count: int = 0
    variables: list[Variable] = dataclasses.field(default_factory=list)

    @property
    def label(self) -> str:
        """Where its instructions begin."""
        return f"{self.function.name}#begin"


def function_addresses(module: Module) -> dict[str, int]:
    """The made-up addresses of the functions of the file."""
    return {name: FUNCTIONS + STEP * n for n, name in enumerate(module.functions)}


def interface(results: tuple[Parameter, ...], parameters: tuple[Parameter, ...]) -> tuple[list[int], list[int], int]:
    """Where results and parameters lie in a frame, in bytes, and how many they take.

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
    """Whom a call calls: the operand between its two lists."""
    return next((operand for operand in i.operands if not isinstance(operand, Arguments)), None)


def routines(module: Module, entry: Function) -> dict[str, Frame]:
    """The functions that an entry reaches and that stay functions, by name; all that it reaches when it would be too large without them."""
    reached, pointed, indirect = _reached(module, entry)
    calls = {f.name: set(_called(module, f)) | (pointed if f.name in indirect else set()) for f in reached.values()}
    recursive = _in_cycles(calls)
    stay = recursive | (pointed if indirect else set())
    if _too_large(module, entry, stay):
        stay = set(reached)
    stay |= {f.name for f in reached.values() if any(i.op in ("alloca", "stackrestore") for i in f.body or ())}
    return {f.name: Frame(f, f.name in recursive) for f in reached.values() if f.name in stay and f.body is not None and not f.is_entry}


def _too_large(module: Module, entry: Function, stay: set[str]) -> bool:
    """Would an entry and those of `stay` have too many instructions with all calls inlined but those of `stay`, or too many calls within one another?"""
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
    """Those that reach themselves: every component of several (Tarjan), and who calls itself."""
    found = {name for name, called in calls.items() if name in called}
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
            to = next((x for x in rest if x in calls), None)
            if to is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[name])
                if low[name] == order[name]:
                    component: list[str] = []
                    while not component or component[-1] != name:
                        component.append(open_.popitem()[0])
                    if len(component) > 1:
                        found.update(component)
            elif to not in order:
                order[to] = low[to] = len(order)
                open_[to] = None
                path.append((to, iter(calls[to])))
            elif to in open_:
                low[name] = min(low[name], order[to])
    return found
