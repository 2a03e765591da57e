"""Numbers and constant expressions of PTX (PTX ISA, 4.5): integers of 64 bits, and the bit patterns of floats."""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Callable

from smemsim.base.arguments import shown
from smemsim.core.ptx.module import Immediate
from smemsim.core.ptx.tokens import Tokens
from smemsim.core.spec.ptx import WARP_SIZE

__all__ = ["double", "expression", "number", "single", "starts_number", "whole_number"]


_INTEGER = re.compile(r"0[xX]([0-9a-fA-F]+)U?|0[bB]([01]+)U?|(0[0-7]*)U?|([1-9]\d*)U?", re.ASCII)
_FLOAT = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})", re.ASCII)
_DECIMAL = re.compile(r"\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+", re.ASCII)
_SIGN = {"f32": 1 << 31, "f64": 1 << 63}
_ZEROS = (Immediate(0, "f64"), Immediate(1 << 63, "f64"))
_DEEPEST_PARENTHESES = 50  # parentheses within parentheses


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # toward zero, as in C


# Operators, loosest first, as in C (4.5.4).
_LEVELS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a or b))},
    {"&&": lambda a, b: int(bool(a and b))},
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {"<": lambda a, b: int(a < b), "<=": lambda a, b: int(a <= b), ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b)},
    {"<<": lambda a, b: a << b, ">>": lambda a, b: a >> b},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": _quotient, "%": lambda a, b: a - _quotient(a, b) * b},
)
_OF_FLOATS: dict[str, Callable[[float, float], float]] = {  # of .f64 alone; the comparisons give integers
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
}  # fmt: skip
_BINARY = {sign: (level, operation) for level, row in enumerate(_LEVELS) for sign, operation in row.items()}
_UNARY: dict[str, Callable[[int], int]] = {"-": lambda a: -a, "+": lambda a: a, "~": lambda a: ~a, "!": lambda a: int(not a)}


def starts_number(word: str) -> bool:
    """Can a constant begin with this word?"""
    return word[:1].isdigit() or (word[:1] == "." and word[1:2].isdigit()) or word in ("-", "+", "~", "!", "(", "WARP_SZ")


@functools.lru_cache(maxsize=4096)
def number(word: str) -> Immediate | None:
    """One number as an operand, or None: 12, 0x1F, 017, 0b101, 0f3F800000, 0d3FF0000000000000, 1.5.

    >>> number("0x1F"), number("017U"), number("0f3F800000")
    (Immediate(value=31, kind='int'), Immediate(value=15, kind='int'), Immediate(value=1065353216, kind='f32'))
    """
    if match := _INTEGER.fullmatch(word):
        digits, base = next((text, base) for text, base in zip(match.groups(), (16, 2, 8, 10), strict=True) if text is not None)
        if len(digits) > 64 + 2:
            return None
        value = int(digits, base)
        return Immediate(value) if value < 1 << 64 else None
    if match := _FLOAT.fullmatch(word):
        return Immediate(int(match[1], 16), "f32") if match[1] else Immediate(int(match[2], 16), "f64")
    if _DECIMAL.fullmatch(word) and math.isfinite(float(word)):
        return Immediate(int.from_bytes(struct.pack("<d", float(word)), "little"), "f64")
    return Immediate(WARP_SIZE) if word == "WARP_SZ" else None


def expression(tokens: Tokens) -> Immediate:
    """A constant expression, its value within 64 bits."""
    value = _binary(tokens, 0, 0)
    if value.kind == "int" and not -(1 << 63) <= value.value < 1 << 64:
        value = Immediate((value.value + (1 << 63)) % (1 << 64) - (1 << 63))
    return value


def whole_number(tokens: Tokens, what: str) -> int:
    """A constant expression that must be an integer."""
    value = expression(tokens)
    if value.kind != "int":
        tokens.fail(f"{what} must be a whole number")
    return value.value


def _binary(tokens: Tokens, loosest: int, depth: int) -> Immediate:
    left = _unary(tokens, depth)
    while tokens.peek() in _BINARY and (row := _BINARY[tokens.peek()])[0] >= loosest:
        level, operation = row
        sign = tokens.take()
        right = _binary(tokens, level + 1, depth)
        if sign in ("/", "%") and right in (Immediate(0), *_ZEROS):
            tokens.fail("a constant expression divides by zero")
        if left.kind != "int" or right.kind != "int":
            left = _of_floats(tokens, sign, left, right)
            continue
        if sign in ("<<", ">>") and not 0 <= right.value < 64:
            tokens.fail(f"a constant expression shifts by {shown(right.value)} bits; 0 to 63 are possible")
        left = Immediate(operation(left.value, right.value))
        if left.value.bit_length() > 256:  # 64 bits are the hardware's; this only keeps products of products small
            left = Immediate(left.value % (1 << 64))
    if loosest == 0 and tokens.accept("?"):
        if left.kind != "int":
            tokens.fail("'?' asks an integer, not a float")
        if_true = _binary(tokens, 0, _deeper(tokens, depth))
        tokens.expect(":", "after the first choice of '?'")
        if_false = _binary(tokens, 0, _deeper(tokens, depth))
        if if_true.kind != "int" or if_false.kind != "int":
            tokens.fail("'?' chooses between integers, not floats; write the result as one number")
        return if_true if left.value else if_false
    return left


def _of_floats(tokens: Tokens, sign: str, left: Immediate, right: Immediate) -> Immediate:
    if sign not in _OF_FLOATS or left.kind != "f64" or right.kind != "f64":
        tokens.fail(f"{sign!r} of these is no constant: both must be integers, or both floats of 64 bits (then + - * / or a comparison)")
    value = _OF_FLOATS[sign](double(left), double(right))
    return Immediate(int(value)) if isinstance(value, bool) else Immediate(int.from_bytes(struct.pack("<d", value), "little"), "f64")


def single(value: float) -> bytes:
    """The bits of a number as an f32."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def double(value: Immediate) -> float:
    """The number that bits of an f64 stand for."""
    return float(struct.unpack("<d", value.value.to_bytes(8, "little"))[0])


def _unary(tokens: Tokens, depth: int) -> Immediate:
    word = tokens.take()
    if word in _UNARY:
        value = _unary(tokens, _deeper(tokens, depth))
        if value.kind == "int":
            return Immediate(_UNARY[word](value.value))
        if word in "+-":
            return Immediate(value.value ^ _SIGN[value.kind] if word == "-" else value.value, value.kind)
        tokens.fail(f"{word!r} of a float is no constant")
    if word == "(":
        if tokens.peek() in (".s64", ".u64"):  # a cast
            kind = tokens.take()
            tokens.expect(")", f"after '({kind}'")
            value = _unary(tokens, _deeper(tokens, depth))
            if value.kind != "int":
                tokens.fail(f"({kind}) of a float is no constant")
            low = value.value % (1 << 64)
            return Immediate(low - (low >> 63 << 64) if kind == ".s64" else low)
        value = _binary(tokens, 0, _deeper(tokens, depth))
        tokens.expect(")", "after a constant expression")
        return value
    value_or_none = number(word)
    if value_or_none is None:
        tokens.i -= bool(word)
        tokens.fail(f"{shown(word)} is no number of 64 bits" if word[:1].isdigit() else f"a number expected, not {tokens.found()}")
    return value_or_none


def _deeper(tokens: Tokens, depth: int) -> int:
    if depth >= _DEEPEST_PARENTHESES:
        tokens.fail(f"more than {_DEEPEST_PARENTHESES} parentheses or signs within one another")
    return depth + 1
