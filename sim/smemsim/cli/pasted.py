"""What the commands are given: a word, or tensor maps as pasted text, in a file, or on standard input."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sys
from typing import TYPE_CHECKING, Any

from smemsim.errors import InputError, TensorMapError
from smemsim.files import read_bytes

if TYPE_CHECKING:
    from smemsim.descriptors.tensor_map import TensorMap
    from smemsim.descriptors.tensor_map.call import Pasted

__all__ = ["Given", "Read", "read_input"]

LONGEST_WORD = 100  # characters of a descriptor's word, in binary and with separators
LONGEST_FILE = 1 << 20
SIZE = 128


@dataclasses.dataclass(frozen=True)
class Given:
    """One tensor map of a text: the map, or why the driver refuses it, or why it cannot be read."""

    title: str
    tm: TensorMap | None = None
    violations: tuple[str, ...] = ()
    unreadable: str = ""
    call: str = ""
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    hints: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Read:
    """What a command is given: maps, or, where there are none, the text of a word; `note` says how an ambiguous dump was read."""

    maps: tuple[Given, ...]
    text: str
    note: str = ""


def read_input(words: tuple[str, ...], arch: str | None) -> Read:
    """Maps and words of an argument that is a text, a file's name, or `-` for standard input."""
    text = " ".join(words)
    name, data = ("standard input", _standard_input()) if words == ("-",) else (text, _file(text))
    if data is None and len(words) > 1 and (("(" in words[0] and ")" in words[0]) or _file(words[0]) is not None or _is_map(words[0])):
        raise InputError(
            f"{' '.join(words[1:])!r} is one argument too many: the first is a whole map (numbers of an option go in one piece: --at 0,64)"
        )
    # One short word without a separator is a descriptor: no map is that short.
    if data is None and len(text) <= LONGEST_WORD and not set(text.strip()) & set(" ({,:"):
        return Read((), text)
    if data is not None and len(data) == SIZE:
        return Read((_from_bytes(data),), "")
    return _read_text(text.encode("utf-8", "replace") if data is None else data, name if data is not None else "", arch)


def _read_text(data: bytes, name: str, arch: str | None) -> Read:
    from smemsim.descriptors.tensor_map.text import find_calls, parse_dump

    pasted = data.decode("utf-8", "replace")
    if calls := find_calls(pasted):
        return Read(tuple(_from_call(called, arch) for called in calls), "")
    if (dump := parse_dump(pasted)) is not None:
        return Read((_from_bytes(dump.raw),), "", dump.note)
    if len(pasted.strip()) <= LONGEST_WORD and re.fullmatch(r"-?(?:0[xXbB])?[0-9a-fA-F_']+[uUlL]*", pasted.strip()):
        return Read((), pasted.strip())
    _explain(pasted, name, len(data))
    return Read((), pasted)


def _is_map(word: str) -> bool:
    return len(word) >= 2 * SIZE and bool(re.fullmatch(r"(?:0x)?[0-9a-fA-F]{256}", word))


def _from_bytes(data: bytes) -> Given:
    from smemsim.descriptors.tensor_map import TensorMap

    try:
        return Given("128 bytes", TensorMap.from_bytes(data))
    except TensorMapError as e:
        return Given("128 bytes", violations=tuple(e.violations))


def _from_call(called: Pasted, arch: str | None) -> Given:
    from smemsim.descriptors.tensor_map import TensorMap

    title, arguments = f"line {called.line}: {called.name}", {}
    try:
        arguments = called.arguments()
        made = getattr(TensorMap, called.call)(**arguments | ({"arch": arch} if arch else {}))
    except TensorMapError as e:
        return Given(title, violations=tuple(e.violations), call=called.call, arguments=arguments, hints=tuple(called.hints()))
    except InputError as e:
        hints = called.hints()
        return Given(title, unreadable="; ".join([str(e), *hints]))
    return Given(title, made, call=called.call, hints=tuple(called.hints()))


def _explain(text: str, name: str, size: int) -> None:
    """Says what a text looks like that holds no map; nothing for what may be meant as a word."""
    tokens = re.findall(r"[^\s,;:|\[\](){}\"']+", text.lower())
    digits = [re.sub(r"^0x|_", "", t) for t in tokens]
    hexadecimal = bool(tokens) and all(d and set(d) <= set("0123456789abcdef") for d in digits)
    count = sum(map(len, digits))
    what = f"{name}: " if name else ""
    if not text.strip():
        raise InputError(f"{what or 'the text: '}holds nothing: a tensor map is {SIZE} bytes, a dump of them, or an encode call")
    if hexadecimal and count > LONGEST_WORD and count != 2 * SIZE:
        raise InputError(
            f"{what}{count} hex digits: a tensor map has {2 * SIZE} of them, a descriptor 16 (a dump with addresses is taken as xxd, "
            "od -t x1, hexdump -C or a debugger prints it)"
        )
    if re.search(r"cuTensorMapEncode|TensorMap\.", text):
        raise InputError(f"{what}no encode call to read: the name stands in a comment, a string or a declaration only")
    if name:
        raise InputError(
            f"{name}: holds {size} bytes, a tensor map is {SIZE} bytes, a dump of them (xxd, od -t x1, hexdump -C), or an encode call"
        )
    numbers = sum(bool(re.fullmatch(r"-?(?:0x)?[0-9a-f]+u?l{0,2}", t)) for t in tokens)
    if numbers > 8 and numbers > len(tokens) // 2:
        raise InputError(
            f"{numbers} numbers that are no dump of {SIZE} bytes: 16 64-bit, 32 32-bit or 128 8-bit numbers make one, xxd, od -t x1 and "
            "hexdump -C print one"
        )


def _standard_input() -> bytes:
    stream = getattr(sys.stdin, "buffer", None)
    data: bytes = stream.read(LONGEST_FILE + 1) if stream else sys.stdin.read(LONGEST_FILE + 1).encode()
    return _limited("standard input", data)


def _limited(name: str, data: bytes) -> bytes:
    if len(data) > LONGEST_FILE:
        raise InputError(f"{name}: more than {LONGEST_FILE >> 20} MiB; a tensor map is {SIZE} bytes, or paste the encode call")
    return data


def _file(text: str) -> bytes | None:
    """What a file holds; None when there is no such file."""
    path = pathlib.Path(text)
    try:
        if path.is_dir() and not re.fullmatch(r"\w+", text):
            raise InputError(f"{text}: is a folder; name a file in it")
        if not path.exists() or path.is_dir():
            return None
        return read_bytes(path, LONGEST_FILE)
    except InputError:
        raise
    except (OSError, ValueError):
        return None
