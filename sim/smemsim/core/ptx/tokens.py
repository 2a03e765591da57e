"""The words of a PTX text: comments away, one statement cut into tokens, and the line that a complaint is about."""

from __future__ import annotations

import bisect
import re
from typing import NoReturn

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError

__all__ = ["NAME", "Source", "Tokens", "shorter"]


NAME = r"[A-Za-z_$%][\w$]*"
# of the C preprocessor; ptxas 13.0 takes it in no other form
_MARKER = r'#[ \t]*(?:line[ \t]*)?\d+[ \t]+"[^"\n]*"(?:[ \t]+\d+)*[ \t\r]*$'
_COMMENT = re.compile(rf'"[^"\n]*"|//[^\n]*|/\*.*?\*/|/\*|{_MARKER}', re.DOTALL | re.MULTILINE)
_ASSEMBLY = re.compile(r"// begin inline asm\b.*?// end inline asm\b", re.DOTALL)
_OWN_LINES = re.compile(r"(?m)^[ \t]*\.loc[ \t][^\n]*")
_LINE_END = re.compile("\n")
_TOKEN = re.compile(
    rf"""
    "[^"\n]*"
    | {NAME}(?:(?:\.|::)[\w$]+)*        # %r1, %tid.x, ld.global.v4.b32, shared::cta
    | \.\d+(?:[eE][+-]?\d+)?(?!\w)     # .5
    | \.[\w$]+(?:::[\w$]+)*             # a directive, or a modifier that stands apart
    | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]\d+
    | \d\w*
    | << | >> | <= | >= | == | != | && | \|\|
    | \S
    """,
    re.VERBOSE | re.ASCII,
)


class Source:
    """A PTX text without its comments and the preprocessor's line markers, every line where it was.

    Without the `.loc` of inline assembly as well: LLVM (Triton) counts the lines of the assembly text there, from the
    call on, as if they were the source's.
    """

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.text = text  # where `line` counts, until the comments are gone
        self._line_ends: list[int] | None = None
        self.text = _COMMENT.sub(self._blank, _ASSEMBLY.sub(lambda found: _OWN_LINES.sub("", found[0]), text))

    def _blank(self, match: re.Match[str]) -> str:
        comment = match[0]
        if comment == "/*":
            self.fail(match.start(), "a comment '/*' begins here and never ends; close it with '*/'")
        if comment[0] == '"':
            return comment
        return " " + "\n" * comment.count("\n") if comment[1] == "*" else ""

    def line(self, position: int) -> int:
        """The line of a position in the text, from 1."""
        if self._line_ends is None:
            self._line_ends = [m.start() for m in _LINE_END.finditer(self.text)]
        return bisect.bisect_left(self._line_ends, position) + 1

    def fail(self, position: int, message: str) -> NoReturn:
        """Refuse the text, with the line."""
        self.fail_line(self.line(position), message)

    def fail_line(self, line: int, message: str) -> NoReturn:
        """Refuse the text, with the line that is known already."""
        where = f"line {line}: {message}"
        raise InputError(where if self.name == "<ptx>" else f"{self.name}, {where}")

    def tokens(self, start: int, end: int) -> Tokens:
        """The words of one statement."""
        return Tokens(self, start, end)


class Tokens:
    """The words of one statement, read from the front."""

    __slots__ = ("end", "i", "source", "start", "words")

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source = source
        self.start = start
        self.end = end
        self.words: list[str] = _TOKEN.findall(source.text, start, end)
        self.words.append("")  # the end, so that looking ahead never falls off
        self.i = 0

    def peek(self) -> str:
        """The next word; the empty one at the end."""
        return self.words[self.i]

    def take(self) -> str:
        """The next word, which is then read."""
        word = self.words[self.i]
        if word:
            self.i += 1
        return word

    def accept(self, word: str) -> bool:
        """Read the word if it is next."""
        if self.words[self.i] == word:
            self.i += 1
            return True
        return False

    def expect(self, word: str, after: str) -> None:
        """Read the word, which must be next."""
        if self.words[self.i] != word:
            self.fail(f"{word!r} expected {after}, not {self.found()}")
        self.i += 1

    def finish(self, after: str) -> None:
        """Nothing more may stand in the statement."""
        if self.words[self.i]:
            self.fail(f"{self.found()} is too much after {after}; is a ',' or ';' missing before it?")

    def found(self) -> str:
        """The next word, for a message."""
        return shown(self.words[self.i]) if self.words[self.i] else "the end of the statement"

    @property
    def text(self) -> str:
        """The statement as written, blanks made single."""
        return " ".join(self.source.text[self.start : self.end].split())

    def position(self) -> int:
        """The place of the next word in the text."""
        for i, match in enumerate(_TOKEN.finditer(self.source.text, self.start, self.end)):
            if i == self.i:
                return match.start()
        return max(self.start, self.end - 1)

    def fail(self, message: str) -> NoReturn:
        """Refuse the statement: the line of the next word, the message, and the statement."""
        self.source.fail(self.position(), f"{message}: {shorter(self.text)}")


def shorter(text: str) -> str:
    """At most 100 characters of a text."""
    return text if len(text) <= 100 else text[:99] + "…"
