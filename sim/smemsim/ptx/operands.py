"""The operands of one instruction (PTX ISA, chapter 6): registers, numbers, vectors, addresses, pairs and the lists of a call."""

from __future__ import annotations

import dataclasses
import re
from typing import NoReturn

from smemsim.arguments import suggestion
from smemsim.ptx.constants import expression, number, starts_number, whole_number
from smemsim.ptx.lexer import NAME, Tokens, shorter
from smemsim.ptx.module import Address, Arguments, Immediate, Label, Operand, Pair, Register, Special, Symbol, Vector
from smemsim.ptx.names import Names
from smemsim.spec.ptx import SPECIAL_REGISTERS

__all__ = ["JUMPS", "is_name", "read_operands"]

_NAME = re.compile(NAME, re.ASCII)
JUMPS = ("bra", "brx", "call")  # whose operands may be labels that come later
_DEEPEST = 4  # braces within braces; instructions have one


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
    if depth > _DEEPEST:
        tokens.fail(f"more than {_DEEPEST} braces or parentheses within one another")
    if word == "{":
        return Vector(_list(tokens, names, "{", "}", depth))
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
    return operand


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
    found = None if op == "bra" and is_name(word) else names.find(word)
    if found is None:
        if op not in JUMPS or not is_name(word):
            _undeclared(tokens, names, word)
        found = Label(word)
    tokens.i += 1
    return found


def _undeclared(tokens: Tokens, names: Names, word: str) -> NoReturn:
    base, _, rest = word.partition(".")
    if not is_name(base) or "::" in rest:
        tokens.fail(f"an operand expected, not {tokens.found()}")
    if isinstance(names.find(base), Register):
        tokens.fail(
            f"{shorter(word)} selects a part of register {base}, which smemsim does not read (it is no vector register; video instructions)"
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
