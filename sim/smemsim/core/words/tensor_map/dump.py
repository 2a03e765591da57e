"""The 128 bytes of a tensor map from text: what gdb, xxd, od and hexdump print, arrays of C and Python, hex in any
grouping.

A text can often be read in two byte orders, and says not which. All readings are made; that which is a legal map is
taken.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from itertools import pairwise

from smemsim.base.errors import InputError
from smemsim.core.finding import TensorMapError
from smemsim.core.spec.tensor_map import DERIVED_FIELDS, TENSOR_MAP
from smemsim.core.words.tensor_map.arguments import Arguments
from smemsim.core.words.tensor_map.bits import decode_parts, encode_parts
from smemsim.core.words.tensor_map.rules import target, violations

__all__ = ["Dump", "parse_bytes", "parse_dump", "without_prompts"]


SIZE = TENSOR_MAP.parts.size
_LONGEST_DUMP = 1 << 14  # characters of the longest dump of 128 bytes
_DERIVED = sum(TENSOR_MAP.fields[name].mask << TENSOR_MAP.fields[name].low for name in DERIVED_FIELDS)


@dataclasses.dataclass(frozen=True)
class Dump:
    """128 bytes, how the text was read, and a sentence where another reading would have been as natural."""

    raw: bytes
    reading: str
    note: str = ""


def parse_bytes(text: str) -> bytes | None:
    """The 128 bytes of a tensor map from text; None when the text is something else.

    >>> parse_bytes("00 " * 128) == bytes(128), parse_bytes("0x00000001, " + "0x00000000 " * 31)[:2], parse_bytes("0x4000404000010040")
    (True, b'\\x01\\x00', None)
    """
    dump = parse_dump(text)
    return dump.raw if dump else None


def parse_dump(text: str) -> Dump | None:
    """The 128 bytes of a tensor map from text, and how they were written there; None when the text is something else.

    >>> parse_dump("ab:" * 127 + "ab").reading
    'bytes in memory order'
    """
    if len(text) > _LONGEST_DUMP:
        return None
    text = _SYMBOLS.sub(lambda found: f"{int(found[1] or 0):#x}:", without_prompts(text))
    for reader in (_literals, _arrays, _lines, _plain):
        readings: dict[bytes, str] = {}
        for raw, reading in reader(text):
            readings.setdefault(raw, reading)
        if readings:
            return _best(readings)
    return None


# gdb's places of a dump, where their addresses were cut off
_SYMBOLS = re.compile(r"(?m)^[ \t]*<[\w:.$@()]+(?:\+(\d+))?>:")


def without_prompts(text: str) -> str:
    """Without the lines on which the command itself stands.

    >>> without_prompts("(cuda-gdb) x/2wx &tm\\n0x10: 1 2")
    '0x10: 1 2'
    """
    return re.sub(r"(?m)^[ \t]*(?:\((?:cuda-)?gdb\)|\(lldb\)|>>>|\$\s|%\s)[^\n]*\n", "", text)


def _best(readings: dict[bytes, str]) -> Dump:
    """The reading that is most of a map; the first where several are."""
    (raw, reading), *others = sorted(readings.items(), key=lambda item: -_plausible(item[0]))
    if not others or (raw == next(iter(readings)) and _plausible(raw) > _plausible(others[0][0])):
        return Dump(raw, reading)
    if _plausible(raw) > _plausible(others[0][0]):
        why = f"as {others[0][1]} they are no legal map"
    elif _plausible(raw) >= 2:
        why = f"as {others[0][1]} they would be a legal map too: choose with 0x… words or with single bytes"
    else:
        why = f"nor are they a legal map as {others[0][1]}"
    return Dump(raw, reading, f"the 128 bytes are read as {reading}; {why}")


def _plausible(raw: bytes) -> int:
    """0: no map at all, 1: a map that breaks rules, 2: a legal map with bits that no encoder writes, 3: a legal map.

    >>> _plausible(bytes([255] * 128)), _plausible(bytes(128))
    (0, 1)
    """
    try:
        arguments = Arguments(**decode_parts(TENSOR_MAP.parts.unpack(raw)))
    except TensorMapError:
        return 0
    if violations(arguments, "tiled" if arguments.box_dim else "im2col", target(None, encode=False)):
        return 1
    known = TENSOR_MAP.parts.pack(*encode_parts(arguments))
    return 2 if (int.from_bytes(raw, "little") ^ int.from_bytes(known, "little")) & ~_DERIVED else 3


# ---- numbers and their bytes -----------------------------------------------------------------------------------------

# Digits of one token where tools print leading zeros: base, bytes. od and hexdump print octal, hexdump -d decimal.
_WIDTHS = {2: (16, 1), 4: (16, 2), 8: (16, 4), 16: (16, 8), 3: (8, 1), 6: (8, 2), 11: (8, 4), 22: (8, 8), 5: (10, 2)}
_DIGITS = {2: "01", 8: "01234567", 10: "0123456789", 16: "0123456789abcdef"}


def _packed(numbers: list[int], size: int, *, memory_first: bool, both: bool) -> Iterator[tuple[bytes, str]]:
    """The bytes of words of `size` bytes, in one byte order or in both; nothing when a number does not fit."""
    if len(numbers) * size != SIZE or not all(-(1 << 8 * size - 1) <= n < 1 << 8 * size for n in numbers):
        return
    words = [n % (1 << 8 * size) for n in numbers]
    if size == 1:
        yield bytes(words), "bytes in memory order"
        return
    little = b"".join(word.to_bytes(size, "little") for word in words), f"{8 * size}-bit little-endian words"
    memory = b"".join(word.to_bytes(size, "big") for word in words), f"groups of {size} bytes in memory order"
    yield from [memory, little][: 1 + both] if memory_first else [little, memory][: 1 + both]


def _number(token: str, base: int) -> int | None:
    """
    >>> _number("0x1F", 10), _number("-3", 10), _number("7f00ull", 16), _number("size", 10)
    (31, -3, 32512, None)
    """
    digits = token.lower()
    if digits.startswith("0x"):
        digits, base = digits[2:], 16
    digits = re.sub(r"(?<=[0-9a-f])(?:u?l{0,2}|l{1,2}u|uz|z)$", "", digits).replace("_", "")
    sign = -1 if digits.startswith("-") and base == 10 else 1
    digits = digits.removeprefix("-") if base == 10 else digits
    if not digits or len(digits) > 64 or not set(digits) <= set(_DIGITS[base]):
        return None
    return sign * int(digits, base)


def _numbers(tokens: list[str]) -> Iterator[tuple[bytes, str]]:
    """One number a token: 16, 32, 64 or 128 of them, decimal as people write it, or as printf("%x") prints it."""
    if not tokens or SIZE % len(tokens) or (size := SIZE // len(tokens)) > 8:
        return
    plain = [t for t in tokens if not t.lower().startswith("0x")]
    padded = [t for t in plain if len(t) > 1 and t[0] == "0"]
    for base in (10, 16) if plain and not padded else () if plain else (16,):
        numbers = [_number(t, base) for t in tokens]
        if (plain and base == 16 and len(plain) < len(tokens)) or None in numbers:
            continue
        whole = [n for n in numbers if n is not None]
        yield from _packed(whole, size, memory_first=False, both=base == 16)


# ---- arrays ----------------------------------------------------------------------------------------------------------


def _literals(text: str) -> Iterator[tuple[bytes, str]]:
    """A Python bytes literal, as repr prints it.

    >>> [reading for _, reading in _literals("raw = b'" + "?" * 128 + "'")]
    ['a bytes literal']
    """
    pieces = re.findall(r"\bb(?:'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")", text)
    try:
        raw = b"".join(ast.literal_eval(piece) for piece in pieces)
    except (SyntaxError, ValueError):
        return
    if len(raw) == SIZE:
        yield raw, "a bytes literal"
    elif pieces:
        raise InputError(f"a bytes literal of {len(raw)} bytes: a tensor map has {SIZE}")


def _arrays(text: str) -> Iterator[tuple[bytes, str]]:
    """The innermost {…} or […] that hold 128 bytes: C arrays with or without suffixes and designators, gdb's print,
    numpy, xxd -i.

    >>> len(list(_arrays("uint64_t tm[16] = {" + "0x1ull, " * 16 + "};  // the map")))
    2
    """
    text = re.sub(r"/\*.*?\*/|//[^\n]*|#[^\n]*", " ", text, flags=re.DOTALL)
    text = re.sub(r"(?:\[\s*\d+\s*\]|\.\w+)\s*=", " ", text)
    arrays = []
    for opened, closed in ("{}", "[]"):
        for body in re.findall(rf"\{opened}([^\{opened}\{closed}]*)\{closed}", text):
            readings = list(_numbers(_tokens(body)))
            arrays += [readings] if readings else []
        if arrays:
            break
    if len(arrays) > 1:
        raise InputError(f"{len(arrays)} arrays that could be tensor maps: paste one of them")
    yield from arrays[0] if arrays else ()


def _tokens(text: str) -> list[str]:
    """Numbers between separators; gdb's repeats written out.

    >>> _tokens("0x1, 0x0 <repeats 2 times>, 3u")
    ['0x1', '0x0', '0x0', '3u']
    """
    text = re.sub(r"(?<!\w)(-?\w++)\s*+<repeats\s++(\d{1,3})\s+times>,?", lambda m: f"{m[1]} " * int(m[2]), text)
    return text.replace(",", " ").replace(";", " ").split()


# ---- dumps in lines --------------------------------------------------------------------------------------------------


def _lines(text: str) -> Iterator[tuple[bytes, str]]:
    """Lines with an address in front, as xxd, od, hexdump and debuggers print them; `*` stands for repeated lines.

    >>> [reading for _, reading in _lines("0000000 000001 000000\\n0000004 000000 000000\\n*\\n0000200")]
    ['16-bit little-endian words']
    """
    rows = [_row(line) for line in text.splitlines() if line.strip()]
    if len(rows) < 2 or not all(row for _, row in rows):
        return
    colons = all(colon for colon, row in rows if row != ["*"])
    for base in (16,) if colons else (16, 8, 10, 0):
        expanded = _expanded([row for _, row in rows], base)
        if expanded is not None:
            tokens, size, radix = expanded
            numbers = [n for n in (_number(t, radix) for t in tokens) if n is not None]
            prefixed = tokens[0].startswith("0x")
            if len(numbers) == len(tokens):
                yield from _packed(numbers, size, memory_first=colons and not prefixed, both=radix == 16)


def _row(line: str) -> tuple[bool, list[str]]:
    """Is there a colon after the address, and the tokens without the column of letters.

    >>> _row("00000010: 3f00 0000  ?..."), _row("0000020 3f 00  >?.<")
    ((True, ['00000010', '3f00', '0000']), (False, ['0000020', '3f', '00']))
    """
    head, colon, rest = line.partition(":")
    if colon and rest[:1].isspace() and re.fullmatch(r"\s*+(?:0x)?[0-9a-fA-F]++\s*+(?:<[^>]*>\s*+)?", head):
        return True, [head.split()[0].split("<")[0], *rest.strip().split("  ")[0].lower().split()]
    line = re.sub(r"\s(?:\|.*\|?|>.*<?)\s*$", "", line)
    return False, line.lower().split()


def _expanded(rows: list[list[str]], base: int) -> tuple[list[str], int, int] | None:
    """All tokens, their size in bytes and their radix, if the addresses (in `base`; 0:
    none) fit the data after them.
    """
    data = [row[bool(base) :] for row in rows if row != ["*"]]
    form = _form([token for row in data for token in row], rows, base)
    if form is None:
        return None
    size, radix = form
    tokens: list[str] = []
    last: list[str] = []
    begin, starred = None, False
    stars = rows.count(["*"])
    known = sum(map(len, data)) * size  # without addresses the one * stands for all that is missing
    for row in rows:
        address = _number(row[0], base) if base and row != ["*"] else None
        if base and row == ["*"]:
            starred = True
            continue
        if base and address is None:
            return None
        begin = address if begin is None else begin
        missing = (address or 0) - (begin or 0) - len(tokens) * size if base else (SIZE - known) * (row == ["*"])
        if not 0 <= missing <= SIZE * (starred or not base) or (
            missing and (not last or missing % (len(last) * size) or (not base and stars > 1))
        ):
            return None
        tokens += last * (missing // (len(last) * size)) if missing else []
        if row != ["*"]:
            starred, last = False, row[bool(base) :] or last
            tokens += row[bool(base) :]
    if starred and not "".join(last).strip("0"):  # the last line, the end address, was not copied
        tokens += last * ((SIZE - len(tokens) * size) // (len(last) * size))
    return (tokens, size, radix) if len(tokens) * size == SIZE else None


def _form(tokens: list[str], rows: list[list[str]], base: int) -> tuple[int, int] | None:
    """Size in bytes and radix of the tokens: by their width, or of bits and unpadded decimals by how far the addresses
    step.
    """
    widths = {len(t.removeprefix("0x")) for t in tokens}
    steps = [
        (_number(b[0], base) or 0) - (_number(a[0], base) or 0)
        for a, b in pairwise(rows)
        if base and "*" not in (a[0], b[0]) and len(a) > 1
    ]
    step = steps[0] / (len(rows[0]) - 1) if steps and len(rows[0]) > 1 else None
    if len(widths) == 1 and (width := widths.pop()) in _WIDTHS:
        radix, size = _WIDTHS[width]
        if width == 8 and step == 1:
            return 1, 2  # xxd -b
        if step in (None, size) and all(set(t.removeprefix("0x")) <= set(_DIGITS[radix]) for t in tokens):
            return size, radix
    if step in (1, 2, 4, 8) and all(t.removeprefix("-").isdigit() for t in tokens):
        return int(step), 10
    return None


# ---- hex without addresses -------------------------------------------------------------------------------------------


def _plain(text: str) -> Iterator[tuple[bytes, str]]:
    """Numbers, or 256 hex digits in any grouping.

    >>> sorted({reading for _, reading in _plain("00000000 " * 32)}), list(_plain("ab" * 127))
    (['32-bit little-endian words', 'groups of 4 bytes in memory order'], [])
    """
    text = re.sub(r"(?m)^[ \t]*+(?:0x)?[0-9a-fA-F]++\s*+(?:<[^>\n]*>\s*+)?:(?=\s)", " ", text)
    text = re.sub(r"\$\d+\s*=|\b[A-Za-z_]\w*\s*=(?=\s*[\[{(0-9])|(?:\b[A-Za-z_]\w*\s*)?\[\s*\d+\s*\]\s*=", " ", text)
    text = re.sub(r"[:|\[\](){}\"']", " ", text.lower().replace("\\x", " 0x"))
    tokens = _tokens(re.sub(r"(?<=[0-9a-f])-(?=[0-9a-f])", " ", text))
    digits = [t.removeprefix("0x").replace("_", "") for t in tokens]
    if sum(map(len, digits)) == 2 * SIZE and all(set(d) <= set(_DIGITS[16]) for d in digits):
        width = len(digits[0]) if len({*map(len, digits)}) == 1 else 0
        if width in (4, 8, 16):
            first = width == 4 and not tokens[0].startswith("0x")
            yield from _packed([int(d, 16) for d in digits], width // 2, memory_first=first, both=True)
            return
        raw = bytes.fromhex("".join(digits))
        yield raw, "bytes in memory order"
        if len(tokens) == 1 and tokens[0].startswith("0x"):
            yield raw[::-1], "one little-endian number"
    yield from _numbers(tokens)
