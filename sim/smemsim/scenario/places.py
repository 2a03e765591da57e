"""Where in a file a key stands, so that a complaint can point at its line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

__all__ = ["line_of"]

Path = Sequence[str | int]


def line_of(text: str, path: Path, *, toml: bool) -> int:
    """The line (from 1 on) of the deepest part of the path that stands in the text; 1 for none.

    >>> line_of('{"step": [\\n {"op": "mma"},\\n {"op": "bulk",\\n  "byts": 3}]}', ["step", 1, "byts"], toml=False)
    4
    >>> line_of('arch = "sm_90a"\\n[[step]]\\nop = "mma"\\n[[step]]\\nop = "bulk"\\nbyts = 3', ["step", 1, "byts"], toml=True)
    6
    """
    places = _toml_places(text) if toml else _json_places(text)
    for length in range(len(path), 0, -1):
        if tuple(path[:length]) in places:
            return places[tuple(path[:length])]
    return 1


_HEADER = re.compile(r"^\s*(\[{1,2})([^\]]+)\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\"'-]+)\s*=")
_INNER = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z0-9_]++)\s*+=")
_COLON = re.compile(r"\s*+:")


def _toml_places(text: str) -> dict[tuple[str | int, ...], int]:
    """Headers and keys at the beginning of lines; inline tables count as the line of their key."""
    places: dict[tuple[str | int, ...], int] = {}
    counts: dict[tuple[str | int, ...], int] = {}
    here: tuple[str | int, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            here = ()
            names = [name.strip().strip("\"'") for name in header[2].split(".")]
            for depth, name in enumerate(names):
                here = (*here, name)
                if header[1] == "[[" and depth == len(names) - 1:
                    counts[here] = counts.get(here, -1) + 1
                if here in counts:
                    here = (*here, counts[here])
            places.setdefault(here, number)
        elif key := _KEY.match(line):
            path = (*here, *(part.strip().strip("\"'") for part in key[1].split(".")))
            places.setdefault(path, number)
            for name in _INNER.findall(line, key.end()):
                places.setdefault((*path, name), number)
    return places


def _json_places(text: str) -> dict[tuple[str | int, ...], int]:
    """Every key and every entry of a list, by walking over the tokens."""
    places: dict[tuple[str | int, ...], int] = {}
    stack: list[list[str | int]] = []  # of every open bracket: the key or the index that is next
    line = 1
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n|[^\s{}\[\],:"]+', text):
        word = token[0]
        if word == "\n":
            line += 1
        elif word in "{[":
            if stack:
                places.setdefault(tuple(x[0] for x in stack), line)
            stack.append([0 if word == "[" else ""])
        elif word in "}]":
            stack.pop()
        elif word == "," and stack and isinstance(stack[-1][0], int):
            stack[-1][0] += 1
        elif word.startswith('"') and stack and isinstance(stack[-1][0], str) and _COLON.match(text, token.end()):
            stack[-1][0] = json.loads(word)
            places.setdefault(tuple(x[0] for x in stack), line)
        elif stack and isinstance(stack[-1][0], int):
            places.setdefault(tuple(x[0] for x in stack), line)
    return places
