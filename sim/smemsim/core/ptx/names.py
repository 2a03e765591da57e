"""The names inside a function: registers, variables and labels, by scope, made one flat list each."""

from __future__ import annotations

import dataclasses
import string
import types
from collections.abc import Collection, Container, Iterator, Mapping

from smemsim.core.ptx.module import (
    Immediate,
    Operand,
    Register,
    RegisterType,
    Sink,
    Special,
    Symbol,
    Vector,
)
from smemsim.core.spec.ptx import SPECIAL_REGISTERS, WARP_SIZE

__all__ = ["Names", "Scope"]


_MOST_DIGITS = 9  # of the number of a register
_COMPONENTS = ("xr", "yg", "zb", "wa")  # of a vector: its elements have two names each (PTX ISA 9.1 §6.4.2)
_ALWAYS: dict[str, Operand] = {"_": Sink(), "WARP_SZ": Immediate(WARP_SIZE)}
_ALWAYS |= {f"%{name}": Special(name) for name in SPECIAL_REGISTERS}


@dataclasses.dataclass(slots=True)
class Scope:
    """The names that one pair of braces declares, and the uses of labels that are still open."""

    types: dict[str, str] = dataclasses.field(default_factory=dict)  # single registers
    vectors: dict[str, int] = dataclasses.field(default_factory=dict)  # .v2 and .v4 registers: how many elements
    ranges: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)  # %r<9>: nine of %r
    # of single registers such as a1: the smallest number after "a"
    numbered: dict[str, int] = dataclasses.field(default_factory=dict)
    variables: dict[str, str] = dataclasses.field(default_factory=dict)  # by their unique names
    labels: dict[str, str] = dataclasses.field(default_factory=dict)  # the same; lists of targets and prototypes, too
    known: dict[str, Operand] = dataclasses.field(default_factory=dict)  # what was looked up in here
    # Names by the prefixes of ranges that may declare them; filled if a range is declared after a use.
    known_as: dict[str, set[str]] | None = None
    open_uses: list[tuple[int, str]] = dataclasses.field(default_factory=list)  # (instruction, label)
    open_lists: list[tuple[str, int]] = dataclasses.field(default_factory=list)  # (list of targets, its entry)

    def know(self, name: str, operand: Operand) -> None:
        """The meaning of a name in here, once it was looked up."""
        if name not in self.known:
            self.known[name] = operand
            if self.known_as is not None:
                self._index(self.known_as, name)

    @property
    def declares(self) -> bool:
        """Is anything that an operand may name declared in here?"""
        return bool(self.types or self.ranges or self.variables or self.vectors)

    def could_be_of(self, prefix: str) -> Collection[str]:
        """The names that were looked up here and that a range with this prefix may declare."""
        if self.known_as is None:
            if not self.known:
                return ()
            self.known_as = {}
            for name in self.known:
                self._index(self.known_as, name)
        return self.known_as.get(prefix, ())

    @staticmethod
    def _index(known_as: dict[str, set[str]], name: str) -> None:
        for prefix, _ in _splits(name):
            known_as.setdefault(prefix, set()).add(name)


class Names:
    """The scopes of a function as they open and close.

    The names of the module, which a variable of the function may hide, are `outside`. The bytes of an element of its
    variables are `elements`.
    """

    def __init__(self, outside: Container[str], elements: Mapping[str, int] = types.MappingProxyType({})) -> None:
        self.outside = outside
        self.elements = dict(elements)  # of variables by their unique names
        self.registers: list[RegisterType] = []
        # what the statement that is read has to do first
        self.steps: list[tuple[str, tuple[str, ...], tuple[Operand, ...]]] = []
        self.scopes = [Scope()]
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    @property
    def scope(self) -> Scope:
        """The innermost scope."""
        return self.scopes[-1]

    def is_declared(self, name: str) -> bool:
        """Does the innermost scope have a register or a variable of this name?"""
        scope = self.scope
        return name in scope.types or name in scope.vectors or name in scope.variables or self._range(scope, name) is not None

    def declare_register(self, name: str, kind: str) -> None:
        """A single register; it gets its slot when it is first used."""
        scope = self.scope
        scope.types[name] = kind
        scope.known.pop(name, None)
        for prefix, index in _splits(name):
            scope.numbered[prefix] = min(index, scope.numbered.get(prefix, index))

    def declare_vector(self, name: str, kind: str, count: int) -> None:
        """A `.v2` or `.v4` register: `name.x`, `name.y` ... and `name` for all of them."""
        scope = self.scope
        scope.vectors[name] = count
        scope.known.pop(name, None)
        for letters in _COMPONENTS[:count]:
            self.declare_register(f"{name}.{letters[0]}", kind)
            scope.known.pop(f"{name}.{letters[1]}", None)

    def declare_range(self, prefix: str, count: int, kind: str) -> bool:
        """`prefix<count>`; False if the scope has it already. The slots are given as registers are used: compilers
        declare more than that.
        """
        scope = self.scope
        if prefix in scope.ranges or scope.numbered.get(prefix, count) < count:
            return False
        scope.ranges[prefix] = (count, kind)
        for name in scope.could_be_of(prefix):
            if int(name[len(prefix) :]) < count:  # those of scopes around this one
                scope.known.pop(name, None)
        return True

    def declare_variable(self, name: str, element: int = 1) -> str:
        """A variable or a parameter, of elements of so many bytes; its name in the whole function."""
        unique = self.scope.variables[name] = self.unique(name)
        self.elements[unique] = element
        self.scope.known.pop(name, None)
        return unique

    def declare_label(self, name: str) -> str | None:
        """A label or a list of targets; its name in the whole function, None if the scope has it already."""
        if name in self.scope.labels:
            return None
        unique = self.scope.labels[name] = self.unique(name)
        return unique

    def temporary(self, kind: str) -> Register:
        """A register that the text does not name."""
        name = f"%index{len(self.registers)}"
        self.registers.append(RegisterType(name, kind))
        return Register(len(self.registers) - 1, name, kind)

    def unique(self, name: str) -> str:
        """The name, or one with a number that neither the function nor the module has."""
        unique = name
        while unique in self._taken or unique in self.outside:
            self._next[name] = self._next.get(name, 1) + 1
            unique = f"{name}${self._next[name]}"
        self._taken.add(unique)
        return unique

    def find(self, name: str) -> Operand | None:
        """The meaning of a word among the operands. None if nothing declares it."""
        known = self.scopes[-1].known.get(name)
        if known is None:
            for scope in reversed(self.scopes):
                known = scope.known.get(name) or (self._in_scope(scope, name) if scope.declares else None)
                if known is not None:
                    break
            else:
                known = Symbol(name) if name in self.outside else _ALWAYS.get(name)
                if known is None:
                    return None
            self.scopes[-1].know(name, known)
        return known

    def _in_scope(self, scope: Scope, name: str) -> Operand | None:
        base, _, component = name.partition(".")
        if name in scope.variables:
            operand: Operand = Symbol(scope.variables[name])
        elif name in scope.vectors:
            elements = (self._in_scope(scope, f"{name}.{letters[0]}") for letters in _COMPONENTS[: scope.vectors[name]])
            operand = Vector(tuple(element for element in elements if element is not None))
        elif base in scope.vectors and (first := _first_name(component)) != component:
            return self._in_scope(scope, f"{base}.{first}")
        elif name in scope.known:
            return scope.known[name]
        else:
            kind = scope.types.get(name) or self._range(scope, name)
            if kind is None:
                return None
            operand = Register(len(self.registers), name, kind)
            self.registers.append(RegisterType(name, kind))
        scope.know(name, operand)
        return operand

    def _range(self, scope: Scope, name: str) -> str | None:
        if scope.ranges:
            for prefix, index in _splits(name):
                count, kind = scope.ranges.get(prefix, (0, ""))
                if index < count:
                    return kind
        return None


def _first_name(component: str) -> str:
    """The name .x .y .z .w of a vector component that is written .r .g .b .a."""
    return next((letters[0] for letters in _COMPONENTS if component and component in letters), component)


def _splits(name: str) -> Iterator[tuple[str, int]]:
    """Ways to split a register's name into prefix and index: %r12 is (%r, 12) or (%r1, 2). An index has no leading
    zero.
    """
    begin = len(name.rstrip(string.digits))
    for at in range(max(begin, len(name) - _MOST_DIGITS), len(name)):
        if name[at] != "0" or at == len(name) - 1:
            yield name[:at], int(name[at:])
