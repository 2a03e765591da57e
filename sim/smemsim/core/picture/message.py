"""Findings as text: a head with the code, the place and what is wrong, then labelled lines: the halves of a race, why,
fix.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable
from typing import NamedTuple, TextIO

from smemsim.base.terminal import COLUMNS
from smemsim.core.picture.table import Line

__all__ = ["COLUMNS", "INDENT", "Labelled", "coloured", "message_lines", "plain", "wants_colour"]


INDENT = " " * 6
# of a terminal
CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}
LABEL = 8  # columns of a label, with the space after it


class Labelled(NamedTuple):
    """A labelled line of a message. `right` is what stands at the right edge: the line of the source and the PTX, or
    the section of a document.
    """

    label: str
    text: str
    right: str = ""
    style: str = ""


def message_lines(head: Line, what: str, rows: Iterable[Labelled], width: int = COLUMNS, before: int = 0) -> list[Line]:
    """A message, wrapped to `width` columns. `before`: columns that something else takes in its first line.

    >>> rows = [Labelled("why", "nothing orders the two", "PTX ISA 9.1 §8"), Labelled("fix", "a barrier")]
    >>> print(plain(message_lines(Line([("X008  a.cu:7  ", "")]), "two warps touch the same bytes", rows, 60)))
    X008  a.cu:7  two warps touch the same bytes
          why     nothing orders the two          PTX ISA 9.1 §8
          fix     a barrier
    """
    start = "".join(text for text, _ in head)
    first, *others = _wrap(what, width, " " * before + start, INDENT)
    first = first[before:]
    lines = [Line([*head, (first.removeprefix(start), "bold")]), *(Line([(line, "bold")]) for line in others)]
    for row in rows:
        lines += _row(row, width)
    return lines


def _row(row: Labelled, width: int) -> list[Line]:
    label = f"{INDENT}{row.label:<{LABEL}}"
    texts = _wrap(row.text, width, label, " " * len(label)) if row.text else [label.rstrip()]
    lines = [
        Line([(texts[0][: len(label)], "dim"), (texts[0][len(label) :], row.style)]),
        *(Line([(text, row.style)]) for text in texts[1:]),
    ]
    if row.right and len(texts[-1]) + 2 + len(row.right) <= width:
        lines[-1].append((row.right.rjust(width - len(texts[-1])), "dim"))
    elif row.right and len(label) + len(row.right) <= width:
        lines.append(Line([(row.right.rjust(width), "dim")]))
    elif row.right:  # the sources of a rule, longer than a line
        lines += [Line([(text, "dim")]) for text in _wrap(row.right, width, " " * len(label), " " * len(label))]
    return lines


def _wrap(text: str, width: int, first: str, later: str) -> list[str]:
    """Lines of a text, long words whole."""
    wrapped = textwrap.wrap(text, width, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False)
    return wrapped or [first.rstrip()]


def wants_colour(stream: TextIO) -> bool:
    """Are colours shown there: on a terminal, unless NO_COLOR is set or the terminal is a dumb one?

    >>> import io
    >>> wants_colour(io.StringIO())
    False
    """
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(lines: Iterable[Line]) -> str:
    """Lines with the escape codes of a terminal."""
    return "\n".join(
        "".join(f"\x1b[{CODES[style]}m{text}\x1b[0m" if style and text.strip() else text for text, style in line) for line in lines
    )


def plain(lines: Iterable[Line]) -> str:
    """Lines without their styles."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)
