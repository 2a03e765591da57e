"""What a variable begins with (PTX ISA, 5.4.4): numbers in braces, floats, addresses, and bytes of addresses."""

from __future__ import annotations

import dataclasses
import math
import struct

from smemsim.arguments import shown
from smemsim.ptx.constants import expression, number, starts_number, whole_number
from smemsim.ptx.lexer import Tokens
from smemsim.ptx.operands import is_name

__all__ = ["Contents", "read_contents"]

_LARGEST = 1 << 28  # bytes of contents
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


def read_contents(tokens: Tokens, name: str, kind: str, element: int, extents: tuple[int | None, ...]) -> Contents:
    """What follows the `=` of variable `name` of elements of `element` bytes; the first extent is None where the contents decide it."""
    if not element:
        tokens.fail(f"{name}: a .{kind} has no contents")
    inner = [
        math.prod(1 if e is None else e for e in extents[i:]) * element for i in range(len(extents) + 1)
    ]  # bytes that one pair of braces fills
    size = None if extents and extents[0] is None else inner[0]
    if inner[0] > _LARGEST:
        tokens.fail(f"{name} has {inner[0]} bytes with contents; smemsim takes {_LARGEST} at most")
    data = bytearray()
    references: list[tuple[int, str, int]] = []
    pieces: list[tuple[int, _Piece]] = []
    begun: list[int] = []  # where the open braces began
    rows = 0
    while True:
        if tokens.accept("{"):
            begun.append(len(data))
            if len(begun) > max(1, len(extents)):
                tokens.fail(f"{name} has {len(extents)} extents, and more braces within one another than that")
            if tokens.peek() != "}":
                continue
        else:
            offset = len(data)
            value = _value(tokens, name, kind, element)
            if isinstance(value, _Piece):
                pieces.append((offset, value))
            elif isinstance(value, tuple):
                references.append((offset, *value))
            data += value if isinstance(value, bytes) else bytes(element)
        while begun and tokens.accept("}"):
            taken = len(data) - begun.pop()
            rows += len(begun) == 1
            if (begun or size is not None) and taken > inner[len(begun)]:
                tokens.fail(f"the contents of {name} are {taken - inner[len(begun)]} bytes too long")
        if not begun:
            break
        tokens.expect(",", f"or '}}' in the contents of {name}")
    # ptxas (13.0, 13.4) lets the next row follow a short one at once and puts all zeros at the end.
    end = rows * inner[1] if size is None else size
    data += bytes(max(0, end - len(data)))
    return Contents(bytes(data), tuple(sorted([*references, *_joined(tokens, name, pieces)])))


def _value(tokens: Tokens, name: str, kind: str, element: int) -> bytes | _Piece | tuple[str, int]:
    word = tokens.peek()
    if is_name(word) and word != "WARP_SZ":
        if element != _ADDRESS_BYTES:
            tokens.fail(f"{name}: an address has 8 bytes, an element of .{kind} has {element}")
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
    if kind in ("f32", "f64", "f16") and value.kind != kind:
        if kind == "f16" or value.kind == "f32":
            tokens.fail(f"{name}: contents of .{kind} are not read as {shown(word)}")
        number_ = float(value.value) if value.kind == "int" else struct.unpack("<d", value.value.to_bytes(8, "little"))[0]
        if kind == "f64":
            return struct.pack("<d", number_)
        try:
            return struct.pack("<f", number_)
        except OverflowError:
            tokens.fail(f"{name}: {shown(word)} is too large for .f32")
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
