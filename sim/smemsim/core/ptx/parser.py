"""PTX text read: operands, declarations, bodies, modules. Its words are read by `tokens.py`, numbers by `constants.py`,
and `names.py` knows what is declared.

A register is known by its slot, so two scopes may have one of the same name. A variable or a label is known by its
name; the second of a name in a function is called `name$2`.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import NoReturn

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError
from smemsim.base.floating_point import in_default_state
from smemsim.base.garbage import HARDLY, seldom_collected
from smemsim.base.time_limit import check_time, timed
from smemsim.core.ptx.constants import double, expression, number, single, starts_number, whole_number
from smemsim.core.ptx.module import (
    Address,
    Arguments,
    Function,
    Immediate,
    Instruction,
    Label,
    Location,
    Module,
    Operand,
    Pair,
    Parameter,
    Prototype,
    Register,
    Special,
    Symbol,
    Variable,
    Vector,
)
from smemsim.core.ptx.names import Names, Scope
from smemsim.core.ptx.tokens import NAME, Source, Tokens, shorter
from smemsim.core.spec.ptx import (
    FROM_ONE_ON,
    LINKAGE,
    NEEDED,
    NOT_TOGETHER,
    OF_FUNCTIONS,
    OPAQUE,
    PERFORMANCE,
    SPACES,
    SPECIAL_REGISTERS,
    TYPE_BYTES,
    VECTOR_BYTES,
)  # fmt: skip
from smemsim.core.spec.targets import TARGET_OPTIONS

__all__ = ["CHECKED", "read_module"]


# ---- The operands of one instruction (PTX ISA, chapter 6): registers, numbers, vectors, addresses,
# pairs and the lists of a call


_NAME = re.compile(NAME, re.ASCII)
JUMPS = ("bra", "brx", "call")  # whose operands may be labels that come later
_LOOKS = ("ld", "ldu", "st")  # whose operands may be elements of arrays, by a register (ptxas takes no such atom)
# whose operands may be parts of registers
_SELECT = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset")
_PARTS = (".b0", ".b1", ".b2", ".b3", ".h0", ".h1")
# Of SIMD video instructions: which bytes or halves of the result are written, or of both sources are taken (PTX ISA 9.1
# §9.7.19).
_SIMD = re.compile(r"v(?:add|sub|avrg|absdiff|min|max|set)[24]")
_SIMD_PARTS = {"2": re.compile(r"\.h(?:0|1|10|[0-3][0-3])"), "4": re.compile(r"\.b(?:(?!$)3?2?1?0?|[0-7]{4})")}
_DEEPEST_VECTOR = 4  # braces within braces; instructions have one


def is_name(word: str) -> bool:
    """Is the word an identifier, without the dots of a mnemonic?"""
    return _NAME.fullmatch(word) is not None


def read_operands(tokens: Tokens, names: Names, op: str, after: str) -> tuple[Operand, ...]:
    """All operands up to the end of the statement; labels among them become open uses of the scope's."""
    operands: list[Operand] = []
    words = tokens.words
    known = names.scope.known if op != "bra" else dict[str, Operand]()
    while words[tokens.i]:
        word = words[tokens.i]
        ready = number(word) if word[0].isdigit() else known.get(word)
        if ready is not None and words[tokens.i + 1] in (",", ""):  # by far the most
            tokens.i += 1
            operands.append(ready)
        else:
            operands.append(_operand(tokens, names, op))
        if words[tokens.i] == ",":
            tokens.i += 1
            if not words[tokens.i]:
                tokens.fail("an operand is missing after the last ','")
        elif words[tokens.i]:
            tokens.finish(f"an operand of {after}")
    return tuple(operands)


def _operand(tokens: Tokens, names: Names, op: str, depth: int = 0) -> Operand:
    word = tokens.peek()
    if depth > _DEEPEST_VECTOR:
        tokens.fail(f"more than {_DEEPEST_VECTOR} braces or parentheses within one another")
    if word == "{":
        vector = Vector(_list(tokens, names, "{", "}", depth))
        return Pair(vector, _named(tokens, names, op)) if tokens.accept("|") else vector
    if word == "[":
        return _address(tokens, names)
    if word == "(" and op == "call":
        return Arguments(_list(tokens, names, "(", ")", depth))
    if word == "!" and is_name(tokens.words[tokens.i + 1]):
        tokens.take()
        operand = _named(tokens, names, op)
        if not isinstance(operand, Register):
            tokens.fail("'!' negates a predicate register only")
        operand = dataclasses.replace(operand, negated=True)
    elif starts_number(word):
        return expression(tokens)
    else:
        operand = _named(tokens, names, op)
    if tokens.accept("|"):
        return Pair(operand, _named(tokens, names, op))
    if isinstance(operand, Symbol) and tokens.peek() in ("+", "-"):
        return dataclasses.replace(operand, offset=_offset(tokens))
    if isinstance(operand, Symbol) and tokens.accept("["):  # PTX ISA 9.1 §6.4.2: an index counts elements, as in C
        element = names.elements.get(operand.name, 1)
        if op in _LOOKS and isinstance(names.find(tokens.peek()), Register):
            return _indexed(tokens, names, operand, element)
        index = whole_number(tokens, "an index")
        tokens.expect("]", "behind an index")
        return dataclasses.replace(operand, offset=index * element)
    return operand


def _indexed(tokens: Tokens, names: Names, array: Symbol, element: int) -> Address:
    """`array[%r + 1]` of a load, a store or an atomic. Its address is computed before it, like ptxas does, in the width
    of the register.
    """
    register = _named(tokens, names, "")
    if not isinstance(register, Register) or register.type[1:] not in ("32", "64") or register.type[0] == "f":
        tokens.fail("an index is a number, or a register of 32 or 64 bits, and a number that is added to it")
    added = _offset(tokens) * element if tokens.peek() in ("+", "-") else 0
    tokens.expect("]", "behind an index")
    width = register.type[1:]
    short, address = names.temporary(f"b{width}"), names.temporary("b64")
    steps: list[tuple[str, tuple[str, ...], tuple[Operand, ...]]] = [("mul", ("lo", f"u{width}"), (short, register, Immediate(element)))]
    if added:
        steps.append(("add", (f"s{width}",), (short, short, Immediate(added))))
    wide = short
    if width == "32":
        wide = names.temporary("b64")
        steps.append(("cvt", ("u64", "u32"), (wide, short)))
    names.steps += [*steps, ("mov", ("u64",), (address, array)), ("add", ("s64",), (address, address, wide))]
    return Address(address)


def _list(tokens: Tokens, names: Names, left: str, right: str, depth: int) -> tuple[Operand, ...]:
    tokens.expect(left, "here")
    items: list[Operand] = []
    if not tokens.accept(right):
        while True:
            items.append(_operand(tokens, names, "", depth + 1))
            if tokens.accept(right):
                break
            tokens.expect(",", f"or {right!r} in a list of operands")
    return tuple(items)


def _named(tokens: Tokens, names: Names, op: str) -> Operand:
    word = tokens.peek()
    operand = None if op == "bra" and is_name(word) else names.find(word)
    if operand is None:
        if op not in JUMPS or not is_name(word):
            return _part(tokens, names, op)
        operand = Label(word)
    tokens.i += 1
    if _selects(op, tokens.peek()) and isinstance(operand, Register):  # it may stand apart
        return dataclasses.replace(operand, part=tokens.take()[1:])
    return operand


def _selects(op: str, word: str) -> bool:
    """Does a word select parts of a register, as an operand of this instruction?"""
    if _SIMD.fullmatch(op):
        return bool(_SIMD_PARTS[op[-1]].fullmatch(word))
    return op in _SELECT and word in _PARTS


def _part(tokens: Tokens, names: Names, op: str) -> Operand:
    """`%r1.b0` of a scalar video instruction; nothing else that is not declared is an operand."""
    word = tokens.peek()
    base, dot, part = word.partition(".")
    register = names.find(base) if _selects(op, dot + part) else None
    if not isinstance(register, Register):
        _undeclared(tokens, names, word)
    tokens.i += 1
    return dataclasses.replace(register, part=part)


def _undeclared(tokens: Tokens, names: Names, word: str) -> NoReturn:
    base, _, rest = word.partition(".")
    if not is_name(base) or "::" in rest:
        tokens.fail(f"an operand expected, not {tokens.found()}")
    if isinstance(names.find(base), Register):
        tokens.fail(
            f"{shorter(word)} selects a part of register {base}, which is no vector register; smemsim reads {' '.join(_PARTS)} of scalar video instructions"
        )
    hint = suggestion(word.removeprefix("%"), SPECIAL_REGISTERS) if word[0] == "%" else ""
    tokens.fail(f"{shorter(word)} is not declared: no register, variable or function of this scope, no special register{hint}")


def _offset(tokens: Tokens) -> int:
    """`+4`, `+-4`, `-4`: the sign is part of the expression."""
    return whole_number(tokens, "an offset")


def _address(tokens: Tokens, names: Names) -> Address:
    tokens.expect("[", "here")
    base: Operand = expression(tokens) if starts_number(tokens.peek()) else _named(tokens, names, "")
    offset = 0
    if isinstance(base, Immediate) and base.kind != "int":
        tokens.fail("a float is no address")
    if tokens.peek() in ("+", "-"):
        offset = _offset(tokens)
    if not isinstance(base, (Register, Symbol, Immediate)):
        what = f"special register %{base.name}" if isinstance(base, Special) else "this operand"
        tokens.fail(f"{what} is no address; move it into a register first")
    rest: list[Operand] = []
    while tokens.accept(","):
        rest.append(_operand(tokens, names, "", 1))
    tokens.expect("]", "at the end of an address")
    if not rest:
        return Address(base, offset)
    only = rest[0]
    return Address(base, offset, only.items if len(rest) == 1 and isinstance(only, Vector) else tuple(rest))


# ---- What a variable begins with (PTX ISA 9.1 §5.4.4): numbers in braces, floats, addresses, and bytes of addresses


_LARGEST_CONTENTS = 1 << 28  # bytes of contents
_ADDRESS_BYTES = 8


@dataclasses.dataclass(frozen=True)
class Contents:
    """Bytes, and the (offset, symbol, addend) of the addresses that take eight of them each."""

    data: bytes | None
    references: tuple[tuple[int, str, int], ...]


@dataclasses.dataclass(frozen=True)
class _Piece:
    """One byte of an address: `0xFF00(generic(symbol)+4)` is number 1."""

    index: int
    symbol: str
    addend: int


def read_contents(tokens: Tokens, name: str, kind: str, element: int, extents: tuple[int | None, ...], lanes: int = 1) -> Contents:
    """Read the text after `=` of variable `name` with elements of `element` bytes. The first extent is None if the
    contents decide it.

    The last extent is the elements of a vector, if it has `lanes`.
    """
    if not element or kind in ("f16", "f16x2"):
        tokens.fail(f"{name}: a .{kind} has no contents")
    row = math.prod(1 if e is None else e for e in extents[1:]) * element
    size = row if not extents else None if extents[0] is None else row * extents[0]
    if (size or row) > _LARGEST_CONTENTS:
        tokens.fail(f"{name} has {size or row} bytes with contents; smemsim takes {_LARGEST_CONTENTS} at most")
    filling = _Filling(tokens, name, kind, element, extents, lanes)
    rows = filling.fill(0)
    # ptxas (13.0, 13.4) lets the next row follow a short one at once and puts all zeros at the end.
    end = rows * row if size is None else size
    filling.data += bytes(max(0, end - len(filling.data)))
    return Contents(bytes(filling.data), tuple(sorted([*filling.references, *_joined(tokens, name, filling.pieces)])))


@dataclasses.dataclass
class _Filling:
    """The contents of one variable while they are read: a pair of braces for each array and vector, a constant for each
    element.
    """

    tokens: Tokens
    name: str
    kind: str
    element: int
    extents: tuple[int | None, ...]
    lanes: int
    data: bytearray = dataclasses.field(default_factory=bytearray)
    references: list[tuple[int, str, int]] = dataclasses.field(default_factory=list)
    pieces: list[tuple[int, _Piece]] = dataclasses.field(default_factory=list)

    def fill(self, level: int) -> int:
        """One element, or the braces of the extent `level` and what is between them: how many."""
        tokens = self.tokens
        if level == len(self.extents):
            if tokens.peek() == "{":
                tokens.fail(f"{self.name} has {level} extents, and more braces within one another than that")
            self.constant()
            return 1
        extent, count = self.extents[level], 0
        tokens.expect("{", f"before the elements of {self.name}, an array or a vector (each of its extents has braces)")
        while not tokens.accept("}"):
            if count:
                tokens.expect(",", f"or '}}' in the contents of {self.name}")
            self.fill(level + 1)
            count += 1
        if extent is not None and count > extent:
            tokens.fail(f"the contents of {self.name} are too long: {count} between braces, where {extent} fit")
        if extent is not None and count < extent and self.lanes > 1 and level == len(self.extents) - 1:
            tokens.fail(f"{self.name}: a vector has all of its {extent} elements, not {count}")
        return count

    def constant(self) -> None:
        """One element: a number, or an address that is known later."""
        offset = len(self.data)
        value = _value(self.tokens, self.name, self.kind, self.element)
        if isinstance(value, _Piece):
            self.pieces.append((offset, value))
        elif isinstance(value, tuple):
            self.references.append((offset, *value))
        self.data += value if isinstance(value, bytes) else bytes(self.element)


def _value(tokens: Tokens, name: str, kind: str, element: int) -> bytes | _Piece | tuple[str, int]:
    word = tokens.peek()
    if is_name(word) and word != "WARP_SZ":
        if element != _ADDRESS_BYTES:
            tokens.fail(f"{name}: an address has 8 bytes, an element of .{kind} has {element}")
        if kind != "u64":
            tokens.fail(f"{name}: ptxas takes an address in elements of .u64, not of .{kind}")
        return _symbol(tokens)
    if starts_number(word) and tokens.words[tokens.i + 1] == "(" and (mask := number(word)) is not None:
        index = max(0, mask.value.bit_length() - 1) // 8
        if element != 1 or mask.value != 0xFF << 8 * index:
            tokens.fail(f"{name}: {word}(...) must be one byte of an address, 0xFF(...), 0xFF00(...) ..., in an element of one byte")
        tokens.take()
        tokens.expect("(", "before an address")
        symbol, addend = _symbol(tokens)
        tokens.expect(")", "after an address")
        return _Piece(index, symbol, addend)
    value = expression(tokens)
    is_float = value.kind != "int"
    if kind[0] == "f" and not is_float:
        tokens.fail(f"{name}: a .{kind} begins with a float such as 1.0 or 0f3F800000, not with the integer {shown(value.value)}")
    if kind[0] in "us" and is_float:
        tokens.fail(f"{name}: a .{kind} begins with an integer, not with {shown(word)}")
    if value.kind == "f64" and element == TYPE_BYTES["f32"]:
        return single(double(value))
    # ptxas takes the bits of 0f3F800000 for an .f64 too (13.0).
    return (value.value % (1 << 8 * element)).to_bytes(element, "little")


def _symbol(tokens: Tokens) -> tuple[str, int]:
    """`x`, `x+4`, `generic(x)`, `generic(x)+4`: variables have generic addresses here."""
    symbol = tokens.take()
    if symbol == "generic":
        tokens.expect("(", "after 'generic'")
        symbol = tokens.take()
        if not is_name(symbol):
            tokens.fail(f"the name of a variable expected in 'generic(...)', not {shown(symbol)}")
        tokens.expect(")", "after 'generic(' and a name")
    return symbol, whole_number(tokens, "an offset") if tokens.peek() in ("+", "-") else 0


def _joined(tokens: Tokens, name: str, pieces: list[tuple[int, _Piece]]) -> list[tuple[int, str, int]]:
    """Addresses whose eight bytes are given one by one, as compilers do it in packed structures."""
    joined = []
    for first in range(0, len(pieces), _ADDRESS_BYTES):
        offset, piece = pieces[first]
        want = [(offset + i, dataclasses.replace(piece, index=i)) for i in range(_ADDRESS_BYTES)]
        if pieces[first : first + _ADDRESS_BYTES] != want:
            tokens.fail(f"{name}: the bytes of address {piece.symbol} at offset {offset} are not all eight, in order")
        joined.append((offset, piece.symbol, piece.addend))
    return joined


# ---- Declarations of PTX (PTX ISA, 5.4 and 11): variables with their first contents, parameters, registers


_LARGEST_VARIABLE = 1 << 48  # bytes; no GPU has that much memory
_MOST_VECTORS = 1 << 12
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
    """`.reg .b32 %r<9>, a, b;` or `.reg .v4 .b32 v;` with `.reg` read already. An alignment, which ptxas takes, says
    nothing of registers.
    """
    while tokens.accept(".align"):
        _alignment(tokens)
    vector = tokens.take() if tokens.peek() in _VECTORS else ""
    if vector == ".v8":
        tokens.fail(".v8 registers do not exist, .v2 and .v4 do (PTX ISA 9.1 §5.4.2); declare one register for each element")
    kind, lanes = _type(tokens, "registers"), _VECTORS.get(vector, 1)
    if vector and (kind == "pred" or TYPE_BYTES[kind] * lanes > VECTOR_BYTES):
        tokens.fail(f"{vector} .{kind} registers do not exist: {vector} is for numbers of up to {8 * VECTOR_BYTES // lanes} bits")
    while True:
        name = name_of(tokens, "a register")
        if not _declare(tokens, names, name, kind, lanes):
            tokens.fail(f"{name} is declared twice in this scope")
        if not tokens.accept(","):
            break
    tokens.finish("the names of the registers")


def _declare(tokens: Tokens, names: Names, name: str, kind: str, lanes: int) -> bool:
    """One register or vector, or a number of them where `<9>` follows; False if the scope has it already."""
    if not tokens.accept("<"):
        its = [name]
    else:
        count = tokens.take()
        if not count.isdecimal() or len(count) > 9:
            tokens.fail(f"{name}<{shown(count)}>: the number of registers must be a whole number")
        tokens.expect(">", f"after {name}<{count}")
        if lanes == 1:
            return names.declare_range(name, int(count), kind)
        if int(count) > _MOST_VECTORS:
            tokens.fail(f"{name}<{count}>: more than {_MOST_VECTORS} vectors of registers are not read")
        its = [f"{name}{n}" for n in range(int(count))]
    is_new = not any(names.is_declared(each) for each in its)
    for each in its:
        if lanes == 1:
            names.declare_register(each, kind)
        else:
            names.declare_vector(each, kind, lanes)
    return is_new


def _alignment(tokens: Tokens) -> int:
    """The number after `.align`."""
    value = whole_number(tokens, ".align")
    if value < 1 or value & (value - 1):
        tokens.fail(f".align {shown(value)}: needs a power of two, in bytes")
    return value


def read_variables(tokens: Tokens, space: str, *, is_extern: bool) -> Iterator[Variable]:
    """`.global .align 8 .b8 a[16] = {1, 2}, b;` with the state space read already."""
    source = tokens.source
    line = source.line(tokens.start)
    align, kind, lanes = _qualified(tokens, f".{space} variables")
    while True:
        declared = _declarator(tokens, f"a .{space} variable", align, kind, lanes)
        if lanes * TYPE_BYTES[kind] > VECTOR_BYTES:
            tokens.fail(f"{declared.name}: a vector of {lanes} {kind} has more than {8 * VECTOR_BYTES} bits")
        if kind in OPAQUE and space != "global":
            tokens.fail(f"{declared.name}: a .{kind} is a variable of .global")
        contents = Contents(None, ())
        size = declared.size
        if tokens.accept("="):
            if is_extern or space not in ("global", "const"):
                tokens.fail(f"{declared.name}: only variables of .global and .const that are no .extern have contents to begin with")
            contents = read_contents(tokens, declared.name, kind, declared.element, declared.extents, lanes)
            size = len(contents.data or b"")
        if not size and not is_extern and space != "param":
            tokens.fail(f"{declared.name}: a variable that is no .extern has a size")
        yield Variable(
            declared.name, space, declared.align, size, kind, contents.data, contents.references, is_extern, line, declared.element
        )
        if not tokens.accept(","):
            break
    tokens.finish(f"the .{space} variable")


def read_parameters(tokens: Tokens, names: Names, what: str) -> tuple[Parameter, ...]:
    """`(.param .u64 .ptr .global .align 16 p, .param .align 64 .b8 map[128], .reg .b32 a)`; unnamed ones `_` occur in
    prototypes.
    """
    tokens.expect("(", f"before the {what}")
    parameters: list[Parameter] = []
    if tokens.accept(")"):
        return ()
    while True:
        is_hidden = tokens.accept(".hidden")
        space = tokens.take()
        if space not in (".param", ".reg"):
            tokens.i -= bool(space)
            tokens.fail(f".param or .reg expected before one of the {what}, not {tokens.found()}")
        align, kind, lanes = _qualified(tokens, what)
        declared = _declarator(tokens, f"one of the {what}", align, kind, lanes)
        if space == ".param" and (lanes > 1 or kind == "pred" or len(declared.extents) > 1):
            tokens.fail(f"{declared.name}: a .param is one number or an array of one extent, no vector and no predicate")
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
        parameters.append(Parameter(name, kind, declared.align, declared.size, slot, is_hidden))
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
    """(alignment, type, elements of a vector) before the names. `.ptr` of a parameter describes its target, which is
    not needed here.
    """
    align: int | None = None
    kind: str | None = None
    lanes = 1
    while tokens.peek().startswith("."):
        word = tokens.peek()
        if word == ".align":
            tokens.take()
            value = _alignment(tokens)
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
        if extent < 0 or size > _LARGEST_VARIABLE or len(extents) > _MOST_EXTENTS:
            tokens.fail(
                f"{name}[{shown(extent)}]: extents must be from 0 on, {_MOST_EXTENTS} at most, and the array smaller than 2^48 bytes"
            )
        extents.append(extent)
    if lanes > 1:
        extents.append(lanes)
    return _Declared(name, kind, align or max(1, element * lanes), 0 if None in extents else size, element, tuple(extents))


# ---- The body of a function: statements between braces, scopes made flat, labels given their instruction


CHECKED = 1024  # instructions, after which it is looked at whether the time is over
_DEEPEST_BRACES = 200  # braces within braces
_HEAD = re.compile(rf"\s*(?:([{{}};])|(\.\w+)|({NAME})\s*:(?!:)|(?=[^\s]))", re.ASCII)
_MNEMONIC = re.compile(r"[a-z]\w*(?:(?:\.|::)\w+)*", re.ASCII)
_LOCATION = re.compile(
    rf"\s*(\d{{1,9}})\s+(\d{{1,9}})(?:\s+(\d{{1,9}}))?"
    rf"(?:\s*,\s*function_name\s+({NAME})(?:\s*\+\s*\d+)?(?:\s*,\s*inlined_at\s+(\d+)\s+(\d+)(?:\s+(\d+))?)?)?",
    re.ASCII,
)
_PRAGMA = re.compile(r'\s*"[^"\n]*"(?:\s*,\s*"[^"\n]*")*\s*;')
_LISTS = (".branchtargets", ".calltargets")


@dataclasses.dataclass
class Body:
    """The parts of a body, collected while it is read."""

    instructions: list[Instruction] = dataclasses.field(default_factory=list)
    variables: list[Variable] = dataclasses.field(default_factory=list)
    labels: dict[str, int] = dataclasses.field(default_factory=dict)
    targets: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    prototypes: dict[str, Prototype] = dataclasses.field(default_factory=dict)


def location_at(source: Source, at: int, files: Mapping[int, str], named: dict[tuple[int, ...], Location]) -> tuple[Location, int]:
    """The place that `.loc` names, and where the directive ends. `named` are those of the function before it, by file,
    line and column: calls too.
    """
    match = _LOCATION.match(source.text, at)
    if not match:
        source.fail(at, "'.loc' needs a file's number, a line and a column")
    file, line, column, function, *by = match.groups()
    place, caller = (int(file), int(line), int(column or 0)), None
    if by[0]:
        call = (int(by[0]), int(by[1]), int(by[2] or 0))
        caller = named.get(call) or Location(files.get(call[0], f"file {call[0]}"), call[1])
    before = named.get(place)
    if before is not None and before.caller is caller:
        return before, match.end()
    location = Location(files.get(place[0], f"file {place[0]}"), place[1], caller, function or "")
    if caller is None or len(caller.chain) < _DEEPEST_BRACES:
        named[place] = location
    return location, match.end()


def skip_pragma(source: Source, at: int) -> int:
    """The end of a `.pragma`: hints to ptxas that change no result."""
    match = _PRAGMA.match(source.text, at)
    if not match:
        source.fail(at, "'.pragma' needs a text in quotes and a ';'")
    return match.end()


def read_body(source: Source, start: int, names: Names, files: Mapping[int, str]) -> tuple[Body, int]:
    """The statements of a function from after '{' to '}', and their end."""
    reader = _BodyReader(source, names, files)
    return reader.body, reader.read(start)


class _BodyReader:
    def __init__(self, source: Source, names: Names, files: Mapping[int, str]) -> None:
        self.source = source
        self.names = names
        self.files = files
        self.body = Body()
        self.location: Location | None = None
        self.named: dict[tuple[int, ...], Location] = {}
        self.split: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.opened: list[int] = []
        self.list_lines: dict[str, int] = {}

    def read(self, start: int) -> int:
        source, text, names = self.source, self.source.text, self.names
        at = start
        while True:
            head = _HEAD.match(text, at)
            if head is None:
                source.fail(self.opened[-1] if self.opened else start - 1, "the '{' here is never closed; is the file cut off?")
            brace, directive, label = head.groups()
            at = head.end()
            if brace == "{":
                if len(self.opened) >= _DEEPEST_BRACES:
                    source.fail(at - 1, f"more than {_DEEPEST_BRACES} braces within one another")
                self.opened.append(at - 1)
                names.scopes.append(Scope())
            elif brace == "}":
                self.close_scope()
                if not self.opened:
                    return at
                self.opened.pop()
            elif directive:
                at = self.directive(directive, head.start(2), at)
            elif label:
                at = self.label(label, head.start(3), at)
            elif brace:
                source.fail(at - 1, "an instruction expected, not another ';': ptxas takes no empty statement")
            else:
                at = self.instruction(at)

    def until_semicolon(self, start: int) -> int:
        end = self.source.text.find(";", start)
        if end < 0:
            line = self.source.text[start : start + 60].partition("\n")[0].strip()
            self.source.fail(start, f"no ';' after {line!r}; is the file cut off?")
        return end

    def instruction(self, start: int) -> int:
        if len(self.body.instructions) % CHECKED == CHECKED - 1:
            check_time()
        end = self.until_semicolon(start)
        tokens = self.source.tokens(start, end)
        words = tokens.words
        guard = self.guard(tokens) if words[0] == "@" else None
        name = words[tokens.i]
        known = self.split.get(name)
        if known is None:
            if not _MNEMONIC.fullmatch(name):
                tokens.fail(f"an instruction expected, not {tokens.found()}")
            op, *modifiers = name.split(".")
            known = self.split[name] = op, tuple(modifiers)
        op, parts = known
        tokens.i += 1
        while words[tokens.i].startswith("."):  # written apart
            parts += (tokens.take()[1:],)
        operands = read_operands(tokens, self.names, op, name)
        if self.names.steps:
            for first in self.names.steps:
                self.append(*first, None, start, tokens.text)
            self.names.steps.clear()
        if op in JUMPS:
            index = len(self.body.instructions)
            self.names.scope.open_uses += [(index, o.name) for o in operands if isinstance(o, Label)]
        self.append(op, parts, operands, guard, start, tokens.text)
        return end + 1

    def append(
        self, op: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...], guard: Register | None, start: int, text: str
    ) -> None:
        line, body = self.source.line(start), self.body.instructions
        nth = body[-1].nth + 1 if body and body[-1].line == line else 0
        body.append(Instruction(op, modifiers, operands, guard, line, self.location, text, nth))

    def guard(self, tokens: Tokens) -> Register:
        tokens.take()
        negated = tokens.accept("!")
        word = tokens.peek()
        operand = self.names.find(word)
        if not isinstance(operand, Register) or operand.type != "pred":
            what = "is no predicate register" if operand else "is not declared"
            tokens.fail(f"a guard needs a declared predicate after '@': {word or 'nothing'} {what}")
        tokens.take()
        return dataclasses.replace(operand, negated=True) if negated else operand

    def directive(self, directive: str, start: int, at: int) -> int:
        if directive == ".loc":
            location, end = location_at(self.source, at, self.files, self.named)
            # line 0 stands for no line of the source: what the compiler has moved there
            if location.line or self.location is None:
                self.location = location
            return end
        if directive == ".pragma":
            return skip_pragma(self.source, at)
        end = self.until_semicolon(start)
        tokens = self.source.tokens(start, end)
        tokens.take()
        is_extern = False
        while tokens.peek() and directive[1:] in ("extern", "visible", "weak", "common"):
            is_extern |= directive == ".extern"
            directive = tokens.take()
        if directive == ".reg":
            read_registers(tokens, self.names)
        elif directive[1:] in SPACES:
            for variable in read_variables(tokens, directive[1:], is_extern=is_extern):
                if self.names.is_declared(variable.name):
                    tokens.fail(f"{variable.name} is declared twice in this scope")
                self.body.variables.append(dataclasses.replace(variable, name=self.names.declare_variable(variable.name, variable.element)))
        elif directive in _LISTS or directive == ".callprototype":
            tokens.fail(f"{directive} needs a label before it")
        else:
            known = (".reg", ".loc", ".pragma", *_LISTS, ".callprototype", *(f".{s}" for s in SPACES))
            tokens.fail(f"directive {directive} is unknown inside a function{suggestion(directive, known)}")
        return end + 1

    def label(self, name: str, start: int, at: int) -> int:
        unique = self.names.declare_label(name)
        if unique is None:
            self.source.fail(start, f"label {name} stands twice in this scope")
        head = _HEAD.match(self.source.text, at)
        directive = head[2] if head else None
        if head is None or directive not in (*_LISTS, ".callprototype"):
            self.body.labels[unique] = len(self.body.instructions)
            return at
        end = self.until_semicolon(head.start(2))
        tokens = self.source.tokens(head.start(2), end)
        tokens.take()
        if directive == ".callprototype":
            self.body.prototypes[unique] = read_prototype(tokens)
        else:
            self.list_lines[unique] = self.source.line(start)
            self.body.targets[unique] = self.listed(tokens, unique, is_branch=directive == ".branchtargets")
        return end + 1

    def listed(self, tokens: Tokens, unique: str, *, is_branch: bool) -> list[str]:
        listed: list[str] = []
        while True:
            name = name_of(tokens, "a target")
            if is_branch:
                self.names.scope.open_lists.append((unique, len(listed)))
            elif name not in self.names.outside:
                tokens.fail(f"{name} is not declared: no function of this file")
            listed.append(name)
            if not tokens.accept(","):
                tokens.finish("the list of targets")
                return listed

    def close_scope(self) -> None:
        """Labels of this scope meet their uses; what is left over is for the scope around it."""
        scope = self.names.scopes.pop()
        outer = self.names.scopes[-1] if self.names.scopes else None
        body = self.body
        for index, name in scope.open_uses:
            unique = scope.labels.get(name)
            if unique is None:
                if outer is None:
                    self.undeclared(body.instructions[index].line, name, body.instructions[index].text)
                outer.open_uses.append((index, name))
            elif unique != name:
                instruction = body.instructions[index]
                operands: tuple[Operand, ...] = tuple(Label(unique) if o == Label(name) else o for o in instruction.operands)
                body.instructions[index] = dataclasses.replace(instruction, operands=operands)
        for key, entry in scope.open_lists:
            name = body.targets[key][entry]
            if name in scope.labels:
                body.targets[key][entry] = scope.labels[name]
            elif outer is None:
                self.undeclared(self.list_lines[key], name, f"{key}: .branchtargets ...")
            else:
                outer.open_lists.append((key, entry))

    def undeclared(self, line: int, name: str, text: str) -> NoReturn:
        near = suggestion(name, self.body.labels)
        self.source.fail_line(
            line, f"{name} is neither a label that can be reached from here nor a declared function{near}: {shorter(text)}"
        )


# ---- Reading a PTX file: its head, its variables and its functions (PTX ISA 9.1, chapters 4, 5 and 11)


_FILE = re.compile(r'\.file\s+(\d{1,9})\s+"([^"\n]*)"(?:\s*,\s*\d+\s*,\s*\d+)?', re.ASCII)
_HEADS = {
    ".version": re.compile(r"\s*(\d+\.\d+)", re.ASCII),
    ".target": re.compile(r"\s*(\w+(?:\s*,\s*\w+)*)", re.ASCII),
    ".address_size": re.compile(r"\s*(32|64)\b", re.ASCII),
}
_OUTSIDE = (".entry", ".func", ".section", ".alias", *_HEADS, *(f".{word}" for word in (*LINKAGE, *SPACES)))
_DIRECTIVE = re.compile(r"\s*(?:(\.\w+)|(;)|(?=\S))", re.ASCII)
_HEADER_END = re.compile(r'[{;"]')
_BRACES = re.compile(r'[{}]|"[^"\n]*"|\.source_begin\b.*?\.source_end\b', re.DOTALL)
_SECTIONS = (".section", ".nv_intermediate_source_section")  # the second one with the tile IR that tileiras compiles


@timed("reading the PTX")
@seldom_collected(HARDLY)
@in_default_state
def read_module(text: str, *, name: str = "<ptx>") -> Module:
    """The module of the text of a PTX file. Messages call the file `name`. Raises InputError with the line.

    Everything that nvcc, Triton and CuTe DSL write is read; debug sections and pragmas are passed over.

    >>> module = read_module('''
    ... .version 8.8
    ... .target sm_90a
    ... .address_size 64
    ... .visible .entry copy(.param .u64 p) {
    ...     .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ...     ld.param.b64 %rd1, [p];
    ...     mov.u32 %r1, %tid.x;
    ...     st.global.b32 [%rd1+4], %r1;
    ...     ret;
    ... }''')
    >>> [i.name for i in module.functions["copy"].body]
    ['ld.param.b64', 'mov.u32', 'st.global.b32', 'ret']
    >>> module.functions["copy"].body[1].operands[1]
    Special(name='tid.x')
    """
    if not isinstance(text, str):
        raise InputError(f"{name}: needs the text of a PTX file, not {shown(text)}")
    if text.startswith("\x7fELF"):
        raise InputError(f"{name}: this is a compiled file (ELF), a cubin or an object; smemsim reads PTX, which `nvcc -ptx` writes")
    # a mark of UTF-8, the end of a C string
    module = _ModuleReader(Source(text.removeprefix("\ufeff").rstrip("\0"), name)).read()
    return dataclasses.replace(module, text=text)


def fit(tokens: Tokens, directives: Mapping[str, tuple[int, ...]], *, is_entry: bool) -> None:
    """Do the directives of a function fit it, and each other?"""
    wrong = next((word for word in directives if word != "language" and (word in OF_FUNCTIONS) == is_entry), None)
    if wrong is not None:
        tokens.fail(f".{wrong} is for {'functions that are no entries' if is_entry else 'entries'}")
    for both in NOT_TOGETHER:
        if directives.keys() >= set(both):
            tokens.fail(f".{both[0]} and .{both[1]} cannot stand together")
    for word, needed in NEEDED.items():
        if word in directives and not directives.keys() >= set(needed):
            tokens.fail(f".{word} needs .{' and .'.join(needed)} beside it")


class _ModuleReader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.heads: dict[str, str] = {}
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}
        self.names: set[str] = set()
        self.aliases: list[tuple[str, str, int]] = []
        self.files = {int(found[1]): found[2] for found in _FILE.finditer(source.text)}

    def read(self) -> Module:
        source = self.source
        at = 0
        while (head := _DIRECTIVE.match(source.text, at)) is not None:
            directive, semicolon = head.groups()
            at = head.end()
            if directive:
                at = self.directive(directive, head.start(1), at)
            elif not semicolon:
                self.no_directive(at)
        for needed in (".version", ".target"):
            if needed not in self.heads:
                source.fail(0, f"no {needed} in the file; a PTX file begins with .version and .target")
        self.finish()
        target = tuple(word.strip() for word in self.heads[".target"].split(","))
        size = int(self.heads.get(".address_size", "64"))  # ptxas assumes 64 bits if the text has no .address_size
        return Module(self.heads[".version"], target, size, self.functions, self.variables)

    def no_directive(self, at: int) -> None:
        if ".version" not in self.heads:  # the text of other statements is not shown
            self.source.fail(at, "this is not PTX, which begins with .version; nvcc -ptx writes it")
        line = self.source.text[at : at + 200].partition("\n")[0].strip()
        what = "a '}' too much" if line.startswith("}") else "a directive expected outside of functions"
        self.source.fail(at, f"{what}: {shown(line)}")

    def directive(self, directive: str, start: int, at: int) -> int:
        source = self.source
        if directive in _HEADS:
            return self.head(directive, start, at)
        if ".version" not in self.heads:
            what = directive if directive in _OUTSIDE else "another directive"
            source.fail(start, f"a PTX file begins with .version, not with {what}")
        if directive == ".file":
            match = _FILE.match(source.text, start)
            if not match:
                source.fail(start, "'.file' needs a number and a name in quotes")
            return match.end()
        if directive == ".loc":
            return location_at(source, at, self.files, {})[1]
        if directive == ".pragma":
            return skip_pragma(source, at)
        if directive in _SECTIONS:
            return self.skip_section(start)
        end = self.header_end(start)
        tokens = source.tokens(start, end)
        linkage = self.linkage(tokens)
        kind = tokens.take()
        if kind in (".entry", ".func"):
            return self.function(tokens, end, is_entry=kind == ".entry")
        if kind[1:] in SPACES and kind != ".param":
            return self.variable(tokens, kind[1:], start, is_extern=linkage == "extern")
        if kind != ".alias":
            source.fail(start, f"directive {kind or directive} is unknown outside of functions{suggestion(kind or directive, _OUTSIDE)}")
        self.alias(tokens)
        return end + 1

    def linkage(self, tokens: Tokens) -> str:
        """The one word of that kind before a declaration, or none."""
        linkage = tokens.take()[1:] if tokens.peek()[1:] in LINKAGE else ""
        kind = tokens.peek()
        if linkage and kind[1:] in LINKAGE:
            tokens.fail(f".{linkage} and {kind} cannot stand together")
        if linkage == "common" and kind != ".global":
            tokens.fail("variables of .global alone are .common")
        return linkage

    def head(self, directive: str, start: int, at: int) -> int:
        match = _HEADS[directive].match(self.source.text, at)
        if not match:
            line = self.source.text[start : start + 80].partition("\n")[0]
            said = f": {shown(line)}" if ".version" in self.heads else ""
            self.source.fail(start, f"{directive} has no value that smemsim knows{said}")
        if directive in self.heads:
            self.source.fail(start, f"{directive} stands twice; a file with several PTX texts must be split first")
        in_front = list(_HEADS)[: list(_HEADS).index(directive)]
        if "".join(in_front) != "".join(self.heads) or self.names:
            self.source.fail(start, f"a PTX file begins with {', '.join(_HEADS)} in this order; {directive} stands elsewhere")
        if directive == ".target":
            options = [word.strip() for word in match[1].split(",")][1:]
            unknown = next((w for w in options if not w.startswith(("sm_", "compute_")) and w not in TARGET_OPTIONS), None)
            if unknown is not None:
                self.source.fail(start, f".target: unknown word {shown(unknown)}{suggestion(unknown, TARGET_OPTIONS)}")
        self.heads[directive] = match[1]
        return match.end()

    def header_end(self, start: int) -> int:
        """The '{' or ';' that ends a declaration; quoted texts of pragmas bring a ';' of their own."""
        at = start
        while match := _HEADER_END.search(self.source.text, at):
            if match[0] != '"':
                return match.start()
            closing = self.source.text.find('"', match.end())
            after = self.source.text.find(";", closing)
            if closing < 0 or after < 0:
                break
            at = after + 1
        line = self.source.text[start : start + 80].partition("\n")[0]
        return self.source.fail(start, f"neither '{{' nor ';' after {line!r}; is the file cut off?")

    def skip_section(self, start: int) -> int:
        """Debug information between braces."""
        depth = 0
        for brace in _BRACES.finditer(self.source.text, start):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if not depth and brace[0] == "}":
                return brace.end()
            if depth < 0 or depth > 2:
                break
        return self.source.fail(start, "this .section has no '}' that ends it; is the file cut off?")

    def new_name(self, tokens: Tokens, name: str) -> None:
        if name in self.names:
            tokens.fail(f"{name} is declared twice in the file")
        self.names.add(name)

    def variable(self, tokens: Tokens, space: str, start: int, *, is_extern: bool) -> int:
        end = self.source.text.find(";", start)
        if end < 0:
            tokens.fail("no ';' after a variable; is the file cut off?")
        if space == "local":
            tokens.fail("a variable of .local is declared in a function: each thread has its own")
        whole = self.source.tokens(start, end)
        whole.i = tokens.i
        for variable in read_variables(whole, space, is_extern=is_extern):
            old = self.variables.get(variable.name)
            if old is not None and variable.is_extern:  # a declaration says nothing new
                continue
            if old is None or not old.is_extern:  # a definition may follow its .extern
                self.new_name(whole, variable.name)
            self.variables[variable.name] = variable
        return end + 1

    def function(self, tokens: Tokens, end: int, *, is_entry: bool) -> int:
        source = self.source
        what = "an entry" if is_entry else "a function"
        names = Names(self.names, {v.name: v.element for v in self.variables.values()})
        while tokens.accept(".attribute"):
            skip_attribute(tokens)
        results = read_parameters(tokens, names, "results") if tokens.peek() == "(" and not is_entry else ()
        name = name_of(tokens, what)
        parameters = read_parameters(tokens, names, "parameters") if tokens.peek() == "(" else ()
        if is_entry and (wrong := next((p for p in parameters if p.slot is not None or not p.size), None)):
            tokens.fail(f"{wrong.name}: a parameter of an entry is in .param space, and has a size")
        directives = self.performance(tokens, is_entry=is_entry)
        if results and "noreturn" in directives:
            tokens.fail(f"{name}: a function that is .noreturn has no results")
        tokens.finish(f"the head of {what}")
        old = self.functions.get(name)
        has_body = source.text[end] == "{"
        if old is None:
            self.new_name(tokens, name)
        elif has_body and old.body is not None:
            tokens.fail(f"{what} {name} has two bodies")
        elif len(old.parameters) != len(parameters) or old.is_entry != is_entry:
            tokens.fail(f"{name} was declared in line {old.line} with other parameters")
        line = source.line(tokens.start)
        if not has_body:
            if old is None:
                self.functions[name] = Function(name, is_entry, parameters, results, (), (), None, {}, {}, directives, line)
            return end + 1
        body, at = read_body(source, end + 1, names, self.files)
        registers = tuple(names.registers)
        targets = {key: tuple(listed) for key, listed in body.targets.items()}
        self.functions[name] = Function(
            name, is_entry, parameters, results, registers, tuple(body.variables), tuple(body.instructions),
            body.labels, targets, directives, line, body.prototypes,
        )  # fmt: skip
        return at

    def performance(self, tokens: Tokens, *, is_entry: bool) -> dict[str, tuple[int, ...]]:
        directives: dict[str, tuple[int, ...]] = {}
        while word := tokens.peek():
            if word == ".pragma":
                while tokens.peek() not in ("", ";"):
                    tokens.take()
                tokens.expect(";", "after a pragma")
                continue
            if word[1:] not in PERFORMANCE:
                tokens.fail(f"{tokens.found()} is unknown before a function's body{suggestion(word.lstrip('.'), PERFORMANCE)}")
            tokens.take()
            values: list[int] = []
            if starts_number(tokens.peek()):
                values.append(whole_number(tokens, word))
                while tokens.accept(","):
                    values.append(whole_number(tokens, word))
            least, most = PERFORMANCE[word[1:]]
            if not least <= len(values) <= most:
                tokens.fail(f"{word} has {len(values)} numbers; it needs {least}{f' to {most}' if most > least else ''}")
            if word[1:] in FROM_ONE_ON and min(values) < 1:
                tokens.fail(f"{word} {', '.join(map(str, values))}: each needs to be 1 or more")
            directives[word[1:]] = tuple(values)
        fit(tokens, directives, is_entry=is_entry)
        return directives

    def alias(self, tokens: Tokens) -> None:
        """`.alias f, g;`: f, declared without a body, is g."""
        alias = name_of(tokens, "the alias")
        tokens.expect(",", "after the name of the alias")
        target = name_of(tokens, "the function it stands for")
        tokens.finish("an alias")
        for name in (alias, target):
            if name not in self.functions:
                tokens.fail(f"{name} is no declared function")
        self.aliases.append((alias, target, self.source.line(tokens.start)))

    def finish(self) -> None:
        """Check what needs the whole module."""
        for alias, target, line in self.aliases:
            if self.functions[target].body is None:
                self.source.fail_line(line, f"alias {alias}: {target} has no body in this file")
            if len(self.functions[alias].parameters) != len(self.functions[target].parameters):
                self.source.fail_line(line, f"alias {alias}: {target} has other parameters")
            self.functions[alias] = dataclasses.replace(self.functions[target], name=alias)
        local = [(v, {x.name for x in f.variables}) for f in self.functions.values() for v in f.variables if v.references]
        for variable, around in [*local, *((v, set[str]()) for v in self.variables.values())]:
            for _, symbol, _ in variable.references:
                if symbol not in self.names and symbol not in around:
                    self.source.fail_line(variable.line, f"{variable.name} begins with the address of {symbol}, which nothing declares")
