"""Declarations of PTX (PTX ISA, 5.4 and 11): variables with their first contents, parameters, registers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from smemsim.arguments import shown, suggestion
from smemsim.ptx.constants import whole_number
from smemsim.ptx.contents import Contents, read_contents
from smemsim.ptx.lexer import Tokens
from smemsim.ptx.module import Parameter, Prototype, Variable
from smemsim.ptx.names import Names
from smemsim.ptx.operands import is_name
from smemsim.spec.ptx import TYPE_BYTES

__all__ = ["name_of", "read_parameters", "read_prototype", "read_registers", "read_variables", "skip_attribute"]

_LARGEST = 1 << 48  # bytes; no GPU has that much memory
_MOST_EXTENTS = 8
_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}


@dataclasses.dataclass(frozen=True)
class _Declared:
    name: str
    kind: str
    align: int
    size: int
    element: int  # bytes of one number of the contents
    extents: tuple[int | None, ...]  # None for x[], whose size the contents or the launch decide


def name_of(tokens: Tokens, what: str) -> str:
    """An identifier."""
    word = tokens.peek()
    if not is_name(word):
        tokens.fail(f"the name of {what} expected, not {tokens.found()}")
    return tokens.take()


def read_registers(tokens: Tokens, names: Names) -> None:
    """`.reg .b32 %r<9>, a, b;` or `.reg .v4 .b32 v;` with `.reg` read already."""
    vector = tokens.take() if tokens.peek() in _VECTORS else ""
    if vector == ".v8":
        tokens.fail(".v8 registers do not exist, .v2 and .v4 do (PTX ISA 5.4.2); declare one register for each element")
    kind = _type(tokens, "registers")
    while True:
        name = name_of(tokens, "a register")
        if vector and tokens.peek() == "<":
            tokens.fail(f"{name}<...: a number of {vector} registers is not read; declare each by its name")
        if tokens.accept("<"):
            count = tokens.take()
            if not count.isdecimal() or len(count) > 9:
                tokens.fail(f"{name}<{shown(count)}>: the number of registers must be a whole number")
            tokens.expect(">", f"after {name}<{count}")
            is_new = names.declare_range(name, int(count), kind)
        else:
            is_new = not names.is_declared(name)
            if vector:
                names.declare_vector(name, kind, _VECTORS[vector])
            else:
                names.declare_register(name, kind)
        if not is_new:
            tokens.fail(f"{name} is declared twice in this scope")
        if not tokens.accept(","):
            break
    tokens.finish("the names of the registers")


def read_variables(tokens: Tokens, space: str, *, is_extern: bool) -> Iterator[Variable]:
    """`.global .align 8 .b8 a[16] = {1, 2}, b;` with the state space read already."""
    source = tokens.source
    line = source.line(tokens.start)
    align, kind, lanes = _qualified(tokens, f".{space} variables")
    while True:
        declared = _declarator(tokens, f"a .{space} variable", align, kind, lanes)
        contents = Contents(None, ())
        size = declared.size
        if tokens.accept("="):
            contents = read_contents(tokens, declared.name, kind, declared.element, declared.extents)
            size = len(contents.data or b"")
        yield Variable(declared.name, space, declared.align, size, kind, contents.data, contents.references, is_extern, line)
        if not tokens.accept(","):
            break
    tokens.finish(f"the .{space} variable")


def read_parameters(tokens: Tokens, names: Names, what: str) -> tuple[Parameter, ...]:
    """`(.param .u64 .ptr .global .align 16 p, .param .align 64 .b8 map[128], .reg .b32 a)`; unnamed ones `_` occur in prototypes."""
    tokens.expect("(", f"before the {what}")
    parameters: list[Parameter] = []
    if tokens.accept(")"):
        return ()
    while True:
        space = tokens.take()
        if space not in (".param", ".reg"):
            tokens.i -= bool(space)
            tokens.fail(f".param or .reg expected before one of the {what}, not {tokens.found()}")
        align, kind, lanes = _qualified(tokens, what)
        declared = _declarator(tokens, f"one of the {what}", align, kind, lanes)
        name, slot = declared.name, None
        if name != "_":
            if names.is_declared(name):
                tokens.fail(f"{name} is declared twice among the parameters")
            if space == ".reg":
                slot = len(names.registers)
                names.declare_register(name, kind)
                names.find(name)  # takes the slot
            else:
                name = names.declare_variable(name)
        parameters.append(Parameter(name, kind, declared.align, declared.size, slot))
        if not tokens.accept(","):
            break
    tokens.expect(")", f"after the {what}")
    return tuple(parameters)


def read_prototype(tokens: Tokens) -> Prototype:
    """`(.param .b32 _) _ (.param .b32 _, .param .b64 _)`, with `.callprototype` read already."""
    results = read_parameters(tokens, Names(()), "results of the prototype") if tokens.peek() == "(" else ()
    name_of(tokens, "a prototype, usually '_',")
    parameters = read_parameters(tokens, Names(()), "parameters of the prototype") if tokens.peek() == "(" else ()
    while tokens.peek().startswith("."):  # .noreturn, .abi_preserve 4
        tokens.take()
        if tokens.peek().isdecimal():
            tokens.take()
    tokens.finish("a prototype")
    return Prototype(parameters, results)


def _type(tokens: Tokens, what: str) -> str:
    word = tokens.peek()
    if word[:1] != "." or word[1:] not in TYPE_BYTES:
        tokens.fail(f"{tokens.found()} is no type for {what}; .b32, .u64, .f32, .pred ... are{suggestion(word.lstrip('.'), TYPE_BYTES)}")
    return tokens.take()[1:]


def _qualified(tokens: Tokens, what: str) -> tuple[int | None, str, int]:
    """(alignment, type, elements of a vector) before the names; `.ptr` of a parameter says what it points to, which nothing here needs."""
    align: int | None = None
    kind: str | None = None
    lanes = 1
    while tokens.peek().startswith("."):
        word = tokens.peek()
        if word == ".align":
            tokens.take()
            value = whole_number(tokens, ".align")
            if value < 1 or value & (value - 1):
                tokens.fail(f".align {shown(value)}: needs a power of two, in bytes")
            align = align or value
        elif word == ".ptr":
            if kind is None:
                tokens.fail(".ptr stands after the type of a parameter")
            align = align or TYPE_BYTES[kind]  # the alignment after .ptr is that of the memory pointed to
            tokens.take()
        elif word == ".attribute":
            tokens.take()
            skip_attribute(tokens)
        elif word in _VECTORS:
            lanes = _VECTORS[tokens.take()]
        elif kind is not None and word[1:] in ("global", "shared", "const", "local", "generic", "param"):
            tokens.take()  # after .ptr
        elif kind is None:
            kind = _type(tokens, what)
        else:
            tokens.fail(f"{shown(word)} is unknown in the declaration of {what}")
    if kind is None:
        tokens.fail(f"a type is missing for {what}: .b8, .u64 ... expected, not {tokens.found()}")
    return align, kind, lanes


def skip_attribute(tokens: Tokens) -> None:
    """`(.managed)`, with `.attribute` read already."""
    tokens.expect("(", "after .attribute")
    depth = 1
    while depth:
        word = tokens.take()
        if not word:
            tokens.fail("a ')' is missing after .attribute(")
        depth += (word == "(") - (word == ")")


def _declarator(tokens: Tokens, what: str, align: int | None, kind: str, lanes: int) -> _Declared:
    name = name_of(tokens, what)
    element = TYPE_BYTES[kind]
    size = element * lanes
    extents: list[int | None] = []
    while tokens.accept("["):
        if tokens.accept("]"):
            if extents:
                tokens.fail(f"{name}: only the first extent of an array may be left out")
            extents.append(None)
            continue
        extent = whole_number(tokens, f"the extent of {name}")
        tokens.expect("]", f"after the extent of {name}")
        size *= extent
        if extent < 0 or size > _LARGEST or len(extents) > _MOST_EXTENTS:
            tokens.fail(
                f"{name}[{shown(extent)}]: extents must be from 0 on, {_MOST_EXTENTS} at most, and the array smaller than 2^48 bytes"
            )
        extents.append(extent)
    if lanes > 1:
        extents.append(lanes)
    return _Declared(name, kind, align or max(1, element * lanes), 0 if None in extents else size, element, tuple(extents))
