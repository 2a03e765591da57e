"""Messages of calls; `clib/door.c` is the other side.

A call has three parts. The head is the name of a method of `Calls` and the kinds of its arguments. Then there is a word
for each argument (a number, or its number of bytes), and then these bytes. The answer has an error code, actions for
the program's process (copy its own memory, call its functions, print), and results.

>>> parsed(bytes([6]) + b"load\\0s" + (2).to_bytes(8, "little") + b"ab")
('load', ['ab'])
"""

from __future__ import annotations

import functools
import struct
from typing import Any

__all__ = ["LENGTH", "parsed", "replied"]


LENGTH = struct.Struct("<I")  # before a message
_REPLY = struct.Struct("<BiII")


@functools.lru_cache(maxsize=1024)
def _read(head: bytes) -> tuple[str, struct.Struct, tuple[tuple[int, bool], ...]]:
    """(method, the words of the arguments, which of them are counts of bytes and whether those are text) of a head."""
    name, _, kinds = head.decode().partition("\0")
    return name, struct.Struct(f"<{len(kinds)}Q"), tuple((n, kind == "s") for n, kind in enumerate(kinds) if kind != "i")


def parsed(message: bytes) -> tuple[str, list[Any]]:
    """(method, arguments) of a message."""
    at = 1 + message[0]
    name, words, lengths = _read(message[1:at])
    found: list[Any] = list(words.unpack_from(message, at))
    at += words.size
    for n, is_text in lengths:
        raw = message[at : at + found[n]]
        at += found[n]
        found[n] = raw.decode(errors="replace") if is_text else raw
    return name, found


def replied(is_last: bool, error: int, actions: list[bytes], results: tuple[Any, ...], *, is_settled: bool = False) -> bytes:
    """What `clib/door.c` reads as the answer to a call. `is_settled`: it need not ask before it says that the device is
    synchronised.
    """
    doing = b"".join(actions)
    out = b"".join(struct.pack("<Q", x & (1 << 64) - 1) if isinstance(x, int) else struct.pack("<I", len(x)) + x for x in results)
    return _REPLY.pack(is_last | is_settled << 1, error, len(actions), len(doing)) + doing + out
