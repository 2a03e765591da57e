"""Messages of calls: a length, the name of a method of `Calls`, and its arguments. The answer has an error code, what the program's process is to do
itself (copy its own memory, call its functions, print), and results. `clib/door.c` has the other side."""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["parsed", "replied"]


def parsed(message: bytes) -> tuple[str, list[Any]]:
    """(method, arguments) of a message."""
    length = struct.unpack_from("<I", message)[0]
    name, at = message[4 : 4 + length].decode(), 4 + length
    count = struct.unpack_from("<I", message, at)[0]
    at += 4
    found: list[Any] = []
    for _ in range(count):
        kind, at = message[at : at + 1], at + 1
        if kind == b"i":
            found.append(struct.unpack_from("<Q", message, at)[0])
            at += 8
        else:
            size, at = struct.unpack_from("<I", message, at)[0], at + 4
            raw, at = message[at : at + size], at + size
            found.append(raw.decode(errors="replace") if kind == b"s" else raw)
    return name, found


def replied(is_last: bool, error: int, actions: list[bytes], results: tuple[Any, ...]) -> bytes:
    """What `clib/door.c` reads as the answer to a call."""
    doing = b"".join(actions)
    out = b"".join(struct.pack("<Q", x & (1 << 64) - 1) if isinstance(x, int) else struct.pack("<I", len(x)) + x for x in results)
    return struct.pack("<BiII", is_last, error, len(actions), len(doing)) + doing + out
