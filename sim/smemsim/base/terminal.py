"""Text of files that other people made, on a terminal: it cannot move the cursor, name the window or hide text.

>>> visible("\\x1b[2Jgone\\x07"), visible("\\x1b[1mbold\\x1b[0m")
('\\\\x1b[2Jgone\\\\x07', '\\x1b[1mbold\\x1b[0m')
"""

from __future__ import annotations

import re
import textwrap

__all__ = ["COLUMNS", "PREFIXED", "in_columns", "prefixed", "visible"]


COLUMNS = 100  # of a sentence and of a message
PREFIXED = "smemsim: "  # before each message

# Characters that a terminal obeys or that reorder text, and the sequences that smemsim itself writes: colours, and the
# moves of a progress bar.
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_COLOUR = r"\x1b\[(?:[0-79]|[1349][0-7]|38;5;\d+|[;])*m"  # 8 would hide text
_TEXT = re.compile(f"({_COLOUR})|{_CONTROL}")
_MOVES = re.compile(rf"({_COLOUR}|\r|\x1b\[\??\d*[KhlAG])|{_CONTROL}")


def visible(text: str, *, moves: bool = False) -> str:
    """The text with control characters as Python's escapes. Colours stay, and with `moves`
    the moves of a progress bar.
    """
    return (_MOVES if moves else _TEXT).sub(_escaped, text)


def prefixed(text: str) -> str:
    """The text with the name of smemsim before each message. Indented lines have no name.

    >>> print(prefixed("X001  a.cu:7  out of bounds\\n      fix     a guard\\n1 finding"))
    smemsim: X001  a.cu:7  out of bounds
          fix     a guard
    smemsim: 1 finding
    """
    lines = (f"{PREFIXED}{line}" if re.sub(_COLOUR, "", line)[:1].strip() else line for line in text.splitlines())
    return "\n".join(map(in_columns, lines))


# a row of a table, code, data, or styled
_QUOTED = re.compile(r"\S {2,}\S|^\s*(?:\S+:)?\d+ \| |//|^arg\d+: |\x1b|^\s*[\w.]+\(\w+=")


_COMMAND = ": smemsim "


def in_columns(text: str, before: int = 0) -> str:
    """Lines of a text, the sentences among them in at most `COLUMNS` columns. Code, rows of tables and data stay.

    A prefix of each line that is not indented has `before` columns. Example:

    >>> [len(line) for line in in_columns("a clause " * 9 + "ends here; another one follows").split("\\n")]
    [91, 21]

    A word that is wider than the columns stays whole:

    >>> in_columns("kernel" * 16 + ": 1 CTA", before=9).split("\\n") == ["kernel" * 16 + ":", "  1 CTA"]
    True
    """
    return "\n".join(_in_columns(line, 0 if line.startswith(" ") else before) for line in text.split("\n"))


def _in_columns(line: str, before: int) -> str:
    if len(line) + before <= COLUMNS or _QUOTED.search(line):
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    head, found, command = line.partition(_COMMAND)
    # to be copied
    if found and len(indent) + 2 + len(_COMMAND) + len(command) <= COLUMNS and before + len(head) < COLUMNS:
        return f"{head}:\n{indent}  {_COMMAND[2:]}{command}"
    at = line.find("; ", max(len(line) + len(indent) - COLUMNS, len(line) // 3))  # a clause is not parted, if it fits
    if 0 < at < COLUMNS - before:
        return f"{line[: at + 1]}\n{indent}  {line[at + 2 :]}"
    first, further = " " * before + indent, indent + "  "
    filled = textwrap.fill(
        line.lstrip(), COLUMNS, initial_indent=first, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )
    return filled[before:]


def _escaped(found: re.Match[str]) -> str:
    return found[1] or found[0].encode("unicode_escape").decode()
