"""Several PTX files made one, as nvcc's linker does with `-rdc=true` and `cuLinkComplete` with what it is given.

Names that others see (`.visible`, `.weak`, `.common`) are one name in all files: of weak ones the first definition
counts, and `.extern` variables are those that another file defines. Names that one file sees alone get a name of their
own where another file has the same (nvcc calls the texts of printf `$str` in each).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

from smemsim.base.errors import InputError
from smemsim.core.spec.targets import target_number

__all__ = ["linked"]


_HEAD = re.compile(r"^\s*\.(version|target|address_size)\s+([^\n]*)\n", re.MULTILINE)
_FILES = re.compile(r"(\.file[ \t]+|\.loc[ \t]+|inlined_at[ \t]+)(\d+)")
_FILES_OF_ONE = 100_000  # numbers of `.file` that a text has
_MARKS = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|[{};]', re.DOTALL)
_BLANKS = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|\.(?:file|loc)\b[^\n]*)*", re.DOTALL)
_FUNCTION = re.compile(r"\.(?:func|entry)\b\s*(?:\.attribute\([^)]*\)\s*)*(?:\([^)]*\)\s*)?([A-Za-z_$%][\w$]*)")
_VARIABLE = re.compile(r"([A-Za-z_$%][\w$]*)\s*(?:\[[^\]]*\]\s*)*(?:=|;)")
_NAME = re.compile(r"(?<![\w$.%])[A-Za-z_$%][\w$]*")
_LINKAGE = re.compile(r"(?:\s*\.(visible|weak|extern|common)\b)*")
_WITH_BODY = re.compile(r"\s*\.(?:func|entry|section|nv_intermediate_source_section)\b")
_SPACE = re.compile(r"\s*\.(global|const|shared|func|entry)\b")


@dataclasses.dataclass(frozen=True)
class _Statement:
    """A declaration of a file, or what stands between two: `name` is "" where it declares nothing that others could see
    or hide.
    """

    text: str
    name: str = ""
    linkage: str = ""  # "visible", "weak", "extern", "common"; "" for what one file sees alone
    kind: str = ""  # "global", "const", "shared", "func", "entry"

    @property
    def is_variable(self) -> bool:
        """In memory, where others may see it?"""
        return self.kind in ("global", "const")

    @property
    def defines(self) -> bool:
        """Is it more than a declaration of what is elsewhere?"""
        return bool(self.name) and self.linkage != "extern" and (self.kind not in ("func", "entry") or self.text.endswith("}"))


def linked(texts: Sequence[str]) -> str:
    """The PTX of several files. Raises InputError if two define the same name for all."""
    if len(texts) == 1:
        return texts[0]
    if not texts:
        raise InputError("there is nothing to link: no PTX was given")
    files = [list(_statements(_with_files(_HEAD.sub("", text), n))) for n, text in enumerate(texts)]
    files = _with_own_names(files)
    defined: set[str] = set()
    weak = {s.name for file in files for s in file if s.defines and s.linkage == "weak"}
    strong = {s.name for file in files for s in file if s.defines and s.linkage != "weak"}
    variables: list[str] = []
    others: list[str] = []
    for statement in (s for file in files for s in file):
        name = statement.name
        if statement.defines and name in weak and (name in defined or (statement.linkage == "weak" and name in strong)):
            continue
        if statement.is_variable and statement.linkage == "extern" and name in strong | weak:
            continue
        if statement.defines:
            defined.add(name)
        (variables if statement.is_variable and statement.linkage in ("visible", "weak", "common") else others).append(statement.text)
    return "\n".join((_head(texts), *variables, *others))


def _head(texts: Sequence[str]) -> str:
    """The newest version and target of all files."""
    found = [{name: value.strip() for name, value in _HEAD.findall(text)} for text in texts]
    version = max((head.get("version", "0") for head in found), key=lambda v: [int(part) for part in re.findall(r"\d+", v)])
    target = max((head.get("target", "") for head in found), key=lambda t: (target_number(t), t.split(",")[0].strip()[-1:] in ("a", "f")))
    return f".version {version}\n.target {target}\n.address_size 64\n"


def _with_files(text: str, n: int) -> str:
    """The lines of the sources have the files of their own text."""
    return _FILES.sub(lambda found: f"{found[1]}{int(found[2]) + n * _FILES_OF_ONE}", text)


def _with_own_names(files: list[list[_Statement]]) -> list[list[_Statement]]:
    """Rename symbols that one file sees alone if another file has the same name. Entries keep their names, which the
    host knows.
    """
    taken: set[str] = set()
    renamed = []
    for n, file in enumerate(files):
        own = {s.name for s in file if s.name}
        hidden = {s.name for s in file if s.name and not s.linkage and s.kind != "entry"}
        names = {name: f"{name}$of{n}" for name in hidden & taken}
        taken |= own | set(names.values())
        if not names:
            renamed.append(file)
            continue
        renamed.append([_Statement(_renamed(s.text, names), names.get(s.name, s.name), s.linkage, s.kind) for s in file])
    return renamed


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return _NAME.sub(lambda found: names.get(found[0], found[0]), text)


def _statements(text: str) -> Iterator[_Statement]:
    """The declarations of a file without its head, each with the blanks before it."""
    begin = depth = 0
    has_body = False
    for mark in _MARKS.finditer(text):
        if mark[0] == "{":
            if not depth:
                has_body = _is_body(text, begin)
            depth += 1
        elif mark[0] == "}":
            depth -= 1
        elif mark[0] != ";":
            continue
        if not depth and (mark[0] == ";" or (mark[0] == "}" and has_body)):
            yield _statement(text[begin : mark.end()])
            begin = mark.end()
    yield _Statement(text[begin:])


def _is_body(text: str, begin: int) -> bool:
    """Does a brace end this declaration, without a semicolon after it?"""
    blanks = _BLANKS.match(text, begin)
    at = _LINKAGE.match(text, blanks.end() if blanks else begin)
    return _WITH_BODY.match(text, at.end() if at else begin) is not None


def _statement(text: str) -> _Statement:
    blanks = _BLANKS.match(text)
    start = blanks.end() if blanks else 0
    linkage = _LINKAGE.match(text, start)
    at = linkage.end() if linkage else start
    kind = _SPACE.match(text, at)
    if kind is None:
        return _Statement(text)
    name = (_FUNCTION if kind[1] in ("func", "entry") else _VARIABLE).search(text, kind.start(1) - 1)
    return _Statement(text, name[1] if name else "", (linkage[1] if linkage else "") or "", kind[1])
