"""The text that a kernel's printf writes to stdout, as an H200 and its driver make it (golden:
tests/data/h200_printf.json.gz).

Two programs read a format. The card looks for conversions to find the arguments to send: each takes a slot of eight
bytes. The driver cuts the format after each conversion that it knows, and passes every piece with its slots to the
printf of the C library (glibc). The text after the last conversion is copied, and `%%` is `%`. So a format without a
conversion that both know is printed unchanged.
"""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Callable

from smemsim.core.spec.float_types import FLOAT_TYPES

__all__ = ["LONGEST", "formatted"]

LONGEST = 1 << 16  # bytes of a string, and characters of what one printf writes
_FIELDS = rb"%([-+ #0]*)(\*|\d*)(?:\.\d*)?"
_KNOWN = b"diouxXeEfFgGaAcspS"
_SENT = re.compile(_FIELDS + rb"(h|ll|l)?([diouxXeEfFgGaAcspS])|%%", re.DOTALL)  # the card's
_CUT = re.compile(_FIELDS + rb"(hh|h|ll|l)?(.)", re.DOTALL)  # the driver's: hh takes a slot that the card does not send
_LIBRARY = re.compile(rb"%([-+ #0'I]*)(\*|\d*)(?:\.(\*|-?\d*))?(hh|h|ll|l|q|L|j|z|Z|t)?([^\0])", re.DOTALL)
_FRACTION = FLOAT_TYPES["f64"].fraction_bits
_MOST = (1 << _FRACTION) - 1  # the largest fraction
_ERROR = b"No such file or directory"  # what errno was in the driver's thread: %m
_SIZES = {b"hh": 1, b"h": 2, b"l": 8, b"ll": 8, b"q": 8, b"L": 8, b"j": 8, b"z": 8, b"Z": 8, b"t": 8}


def formatted(template: bytes, raw: bytes, string_at: Callable[[int], bytes]) -> tuple[bytes, int]:
    """The text for a format and its packed arguments, and how many arguments the card takes.

    >>> formatted(b"%d %5.2f %%", struct.pack("<ixxxxd", -3, 1.5), None)
    (b'-3  1.50 %', 2)
    >>> formatted(b"%zu of %#o", struct.pack("<i", 8), None), formatted(b"%zu", b"", None)
    ((b'8 of 0', 1), (b'%zu', 0))
    """
    sent = _sent(template, raw, string_at)
    printed, begin, size, taken = [], 0, 0, 0
    for found in _CUT.finditer(template):
        if found[4] in _KNOWN:
            count = 1 + (found[2] == b"*")
            slots = [sent[n] if n < len(sent) else _of_format(template, found.end(), n - len(sent)) for n in range(taken, taken + count)]
            piece = _library(template[begin : found.end()], slots, LONGEST - size)
            printed.append(piece)
            begin, size, taken = found.end(), size + len(piece), taken + count
    printed.append(_CUT.sub(lambda found: b"%" if found[0] == b"%%" else found[0], template[begin:]))
    return b"".join(printed), len(sent)


def _of_format(template: bytes, end: int, number: int) -> bytes:
    """A slot that the card has not sent: after its slots comes the format, with an end that the driver has put after
    the piece.
    """
    cut = template[:end] + b"\0" + template[end + 1 :] + bytes(8)
    return cut[8 * number : 8 * number + 8].ljust(8, b"\0")


def _sent(template: bytes, raw: bytes, string_at: Callable[[int], bytes]) -> list[bytes]:
    """The slots that the card fills: each argument is aligned to its size. Behind the last one are zeros. A string is
    its text.
    """
    slots: list[bytes] = []
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        begin = -(-at // size) * size
        at = begin + size
        return raw[begin:at].ljust(8, b"\0")

    for found in _SENT.finditer(template):
        if found[0] == b"%%":
            continue
        if found[2] == b"*":
            slots.append(take(4))
        kind = found[4]
        wide = kind in b"eEfFgGaAspS" or (found[3] in (b"l", b"ll") and kind in b"diouxX")
        slot = take(8 if wide else 4)
        slots.append(string_at(int.from_bytes(slot, "little")) if kind in b"sS" else slot)
    return slots


def _library(piece: bytes, slots: list[bytes], most: int) -> bytes:
    """The text that glibc's printf makes of a piece. For missing arguments it uses the contents of a register: here
    0.
    """
    is_float = piece[-1:] in b"eEfFgGaA"
    # they are passed in registers of their own
    integers, floats = (slots[:-1], slots[-1:]) if is_float else (list(slots), [])
    written = 0

    def take(*, of: list[bytes] = integers) -> bytes:
        return of.pop(0) if of else bytes(8)

    def conversion(found: re.Match[bytes]) -> bytes:
        nonlocal written
        if written >= most:
            return b""
        flags, width, precision = found[1], _number(found[2], take), _number(found[3], take)
        if width is not None and width < 0:  # of an argument: a flag and a width
            flags, width = flags + b"-", -width
        shape = _Shape(flags, min(width or 0, LONGEST), None if precision is None or precision < 0 else min(precision, LONGEST))
        text = _converted(shape, found[4], found[5], functools.partial(take, of=floats) if found[5] in b"eEfFgGaA" else take)
        written += len(text)
        return text

    return _LIBRARY.sub(conversion, piece)


def _number(given: bytes | None, take: Callable[[], bytes]) -> int | None:
    """A width or a precision: that of an argument, or no more than one printf may write."""
    if given is None:
        return None
    if given == b"*":
        return int.from_bytes(take()[:4], "little", signed=True)
    if given == b"-":
        return 0
    return int(given) if given and len(given) < 6 else LONGEST if given else 0


class _Shape:
    """Flags, width and precision of a conversion."""

    def __init__(self, flags: bytes, width: int, precision: int | None) -> None:
        self.width, self.precision = width, precision
        self.is_left, self.alternate, self.zeros = b"-" in flags, b"#" in flags, b"0" in flags and b"-" not in flags
        self.sign = b"+" if b"+" in flags else b" " if b" " in flags else b""
        self.flags = flags

    def padded(self, text: bytes) -> bytes:
        """Padded to the width with spaces."""
        return text.ljust(self.width) if self.is_left else text.rjust(self.width)

    def signed(self, sign: bytes, digits: bytes, *, zeros: bool) -> bytes:
        """A sign or a prefix, and digits: zeros stand between them."""
        if zeros and self.zeros:
            digits = digits.rjust(self.width - len(sign), b"0")
        return self.padded(sign + digits)

    def unknown(self, kind: bytes) -> bytes:
        """A conversion that glibc does not know, put together again: without its length, its flags in an order of
        their own.
        """
        told = (b"#" if self.alternate else b"") + (b"'" if b"'" in self.flags else b"") + self.sign
        told += b"-" if self.is_left else b"0" if self.zeros else b""
        told += (b"I" if b"I" in self.flags else b"") + (b"%d" % self.width if self.width else b"")
        return b"%" + told + (b".%d" % self.precision if self.precision is not None else b"") + kind


def _converted(shape: _Shape, length: bytes | None, kind: bytes, take: Callable[[], bytes]) -> bytes:
    """The text of one conversion."""
    if kind == b"%":
        return b"%"
    if kind in b"diuoxXbB":
        return _integer(shape, length, kind, take())
    if kind in b"eEfFgGaA":
        return _float(shape, kind, float("nan") if length in (b"ll", b"L", b"q") else struct.unpack("<d", take())[0])
    if kind in b"sS":
        return shape.padded(take()[: shape.precision])
    if kind in b"cC":
        return shape.padded(take()[:1])
    if kind == b"p":
        return _pointer(shape, int.from_bytes(take()[:8], "little"))
    if kind == b"m":
        return shape.padded(_ERROR[: shape.precision])
    return b"" if kind == b"n" else shape.unknown(kind)


def _integer(shape: _Shape, length: bytes | None, kind: bytes, slot: bytes) -> bytes:
    size = _SIZES.get(length or b"", 4)
    value = int.from_bytes(slot[:size], "little", signed=kind in b"di")
    base = {b"o": "o", b"x": "x", b"X": "X", b"b": "b", b"B": "b"}.get(kind, "d")
    digits = format(abs(value), base).encode()
    if shape.precision is not None:
        digits = digits.rjust(shape.precision, b"0") if value or shape.precision else b""
    prefix = (b"-" if value < 0 else shape.sign) if kind in b"di" else b""
    if shape.alternate and kind == b"o" and not digits.startswith(b"0"):
        digits = b"0" + digits
    elif shape.alternate and kind in b"xXbB" and value:
        prefix = b"0" + kind
    return shape.signed(prefix, digits, zeros=shape.precision is None)


def _pointer(shape: _Shape, value: int) -> bytes:
    if not value:
        return shape.padded(b"(nil)")
    digits = b"%x" % value
    return shape.signed(shape.sign + b"0x", digits.rjust(shape.precision or 0, b"0"), zeros=shape.precision is None)


def _float(shape: _Shape, kind: bytes, value: float) -> bytes:
    is_negative = struct.pack(">d", value)[0] >= 128
    sign = b"-" if is_negative else shape.sign
    if not math.isfinite(value):
        word = b"nan" if math.isnan(value) else b"inf"
        return shape.padded(sign + (word.upper() if kind.isupper() else word))
    if kind in b"aA":
        prefix, digits = b"0x", _hexadecimal(abs(value), shape.precision, alternate=shape.alternate)
        if kind == b"A":
            prefix, digits = prefix.upper(), digits.upper()
        return shape.signed(sign + prefix, digits, zeros=True)
    if shape.alternate and kind in b"gG" and (told := _rounded_up(abs(value), shape.precision)):
        return shape.signed(sign, told if kind == b"g" else told.upper(), zeros=True)
    how = f"%{'#' if shape.alternate else ''}.{6 if shape.precision is None else shape.precision}{kind.decode()}"
    return shape.signed(sign, (how % abs(value)).encode(), zeros=True)


def _rounded_up(value: float, precision: int | None) -> bytes:
    """`%#g` of a number that rounding makes a power of ten which no longer fits: glibc writes no zeros then. Empty
    for all others.
    """
    digits = 6 if precision is None else max(precision, 1)
    if digits > 300 or not 10.0 ** (digits - 1) <= value < 10.0**digits:
        return b""
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"1.e+{exponent:02}".encode() if exponent == digits else b""


def _hexadecimal(value: float, precision: int | None, *, alternate: bool) -> bytes:
    """The digits of `%a` after the prefix: a subnormal number begins with 0, and halves are rounded to even."""
    bits = int.from_bytes(struct.pack("<d", value), "little")
    exponent, fraction = bits >> _FRACTION, bits & _MOST
    whole = fraction + (_MOST + 1 if exponent else 0)
    power = 0 if not bits else max(exponent, 1) - 1023
    if precision is None:
        digits = f"{whole & _MOST:013x}".rstrip("0")
    else:
        kept = min(precision, 13)
        drop = _FRACTION - 4 * kept
        whole, lost = whole >> drop, whole & ((1 << drop) - 1)
        whole += 2 * lost > 1 << drop or (2 * lost == 1 << drop and whole & 1)
        whole <<= drop
        digits = f"{whole & _MOST:013x}"[:kept].ljust(precision, "0")
    point = "." if digits or alternate else ""
    return f"{whole >> _FRACTION}{point}{digits}p{power:+d}".encode()
