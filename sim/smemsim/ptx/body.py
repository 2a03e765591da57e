"""The body of a function: statements between braces, scopes made flat, labels given their instruction."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import NoReturn

from smemsim.arguments import suggestion
from smemsim.ptx.declarations import name_of, read_prototype, read_registers, read_variables
from smemsim.ptx.lexer import NAME, Source, Tokens, shorter
from smemsim.ptx.module import Instruction, Label, Location, Operand, Prototype, Register, Variable
from smemsim.ptx.names import Names, Scope
from smemsim.ptx.operands import JUMPS, read_operands
from smemsim.spec.ptx import SPACES

__all__ = ["Body", "location_at", "read_body"]

_DEEPEST = 200  # braces within braces
_HEAD = re.compile(rf"\s*(?:([{{}};])|(\.\w+)|({NAME})\s*:(?!:)|(?=[^\s]))", re.ASCII)
_MNEMONIC = re.compile(r"[a-z]\w*(?:(?:\.|::)\w+)*", re.ASCII)
_LOCATION = re.compile(
    rf"\s*(\d{{1,9}})\s+(\d{{1,9}})(?:[ \t]+(\d{{1,9}}))?"
    rf"(?:\s*,\s*function_name\s+{NAME}(?:\s*\+\s*\d+)?(?:\s*,\s*inlined_at\s+(\d+)\s+(\d+)(?:\s+(\d+))?)?)?",
    re.ASCII,
)
_PRAGMA = re.compile(r'\s*"[^"\n]*"(?:\s*,\s*"[^"\n]*")*\s*;')
_LISTS = (".branchtargets", ".calltargets")


@dataclasses.dataclass
class Body:
    """What a body gathers while it is read."""

    instructions: list[Instruction] = dataclasses.field(default_factory=list)
    variables: list[Variable] = dataclasses.field(default_factory=list)
    labels: dict[str, int] = dataclasses.field(default_factory=dict)
    targets: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    prototypes: dict[str, Prototype] = dataclasses.field(default_factory=dict)


def location_at(source: Source, at: int, files: Mapping[int, str], named: dict[tuple[int, ...], Location]) -> tuple[Location, int]:
    """The place that `.loc` names, and where the directive ends. `named` are those of the function before it, by file, line and column: calls too."""
    found = _LOCATION.match(source.text, at)
    if not found:
        source.fail(at, "'.loc' needs a file's number, a line and a column")
    place, call = (tuple(int(n or 0) for n in found.group(*range(first, first + 3))) for first in (1, 4))
    caller = named.get(call) or Location(files.get(call[0], f"file {call[0]}"), call[1]) if found[4] else None
    location = Location(files.get(place[0], f"file {place[0]}"), place[1], caller)
    if caller is None or len(caller.chain) < _DEEPEST:
        named[place] = location
    return location, found.end()


def skip_pragma(source: Source, at: int) -> int:
    """Where a `.pragma` ends: hints to ptxas, which change no result."""
    found = _PRAGMA.match(source.text, at)
    if not found:
        source.fail(at, "'.pragma' needs a text in quotes and a ';'")
    return found.end()


def read_body(source: Source, start: int, names: Names, files: Mapping[int, str]) -> tuple[Body, int]:
    """The statements from behind a function's '{' to its '}', and where that ends."""
    reader = _Reader(source, names, files)
    return reader.body, reader.read(start)


class _Reader:
    def __init__(self, source: Source, names: Names, files: Mapping[int, str]) -> None:
        self.source = source
        self.names = names
        self.files = files
        self.body = Body()
        self.location: Location | None = None
        self.named: dict[tuple[int, ...], Location] = {}
        self.split: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.opened: list[int] = []
        self.list_lines: dict[str, int] = {}

    def read(self, start: int) -> int:
        source, text, names = self.source, self.source.text, self.names
        at = start
        while True:
            head = _HEAD.match(text, at)
            if head is None:
                source.fail(self.opened[-1] if self.opened else start - 1, "the '{' here is never closed; is the file cut off?")
            brace, directive, label = head.groups()
            at = head.end()
            if brace == "{":
                if len(self.opened) >= _DEEPEST:
                    source.fail(at - 1, f"more than {_DEEPEST} braces within one another")
                self.opened.append(at - 1)
                names.scopes.append(Scope())
            elif brace == "}":
                self.close_scope()
                if not self.opened:
                    return at
                self.opened.pop()
            elif directive:
                at = self.directive(directive, head.start(2), at)
            elif label:
                at = self.label(label, head.start(3), at)
            elif not brace:
                at = self.instruction(at)

    def until_semicolon(self, start: int) -> int:
        end = self.source.text.find(";", start)
        if end < 0:
            line = self.source.text[start : start + 60].partition("\n")[0].strip()
            self.source.fail(start, f"no ';' after {line!r}; is the file cut off?")
        return end

    def instruction(self, start: int) -> int:
        end = self.until_semicolon(start)
        tokens = self.source.tokens(start, end)
        words = tokens.words
        guard = self.guard(tokens) if words[0] == "@" else None
        name = words[tokens.i]
        known = self.split.get(name)
        if known is None:
            if not _MNEMONIC.fullmatch(name):
                tokens.fail(f"an instruction expected, not {tokens.found()}")
            op, *modifiers = name.split(".")
            known = self.split[name] = op, tuple(modifiers)
        op, parts = known
        tokens.i += 1
        while words[tokens.i].startswith("."):  # written apart
            parts += (tokens.take()[1:],)
        operands = read_operands(tokens, self.names, op, name)
        if op in JUMPS:
            index = len(self.body.instructions)
            self.names.scope.open_uses += [(index, o.name) for o in operands if isinstance(o, Label)]
        self.body.instructions.append(Instruction(op, parts, operands, guard, self.source.line(start), self.location, tokens.text))
        return end + 1

    def guard(self, tokens: Tokens) -> Register:
        tokens.take()
        negated = tokens.accept("!")
        word = tokens.peek()
        operand = self.names.find(word)
        if not isinstance(operand, Register) or operand.type != "pred":
            what = "is no predicate register" if operand else "is not declared"
            tokens.fail(f"a guard needs a declared predicate after '@': {word or 'nothing'} {what}")
        tokens.take()
        return dataclasses.replace(operand, negated=True) if negated else operand

    def directive(self, directive: str, start: int, at: int) -> int:
        if directive == ".loc":
            self.location, end = location_at(self.source, at, self.files, self.named)
            return end
        if directive == ".pragma":
            return skip_pragma(self.source, at)
        end = self.until_semicolon(start)
        tokens = self.source.tokens(start, end)
        tokens.take()
        is_extern = False
        while tokens.peek() and directive[1:] in ("extern", "visible", "weak", "common"):
            is_extern |= directive == ".extern"
            directive = tokens.take()
        if directive == ".reg":
            read_registers(tokens, self.names)
        elif directive[1:] in SPACES:
            for variable in read_variables(tokens, directive[1:], is_extern=is_extern):
                if self.names.is_declared(variable.name):
                    tokens.fail(f"{variable.name} is declared twice in this scope")
                self.body.variables.append(dataclasses.replace(variable, name=self.names.declare_variable(variable.name)))
        elif directive in _LISTS or directive == ".callprototype":
            tokens.fail(f"{directive} needs a label before it")
        else:
            known = (".reg", ".loc", ".pragma", *_LISTS, ".callprototype", *(f".{s}" for s in SPACES))
            tokens.fail(f"directive {directive} is unknown inside a function{suggestion(directive, known)}")
        return end + 1

    def label(self, name: str, start: int, at: int) -> int:
        unique = self.names.declare_label(name)
        if unique is None:
            self.source.fail(start, f"label {name} stands twice in this scope")
        head = _HEAD.match(self.source.text, at)
        directive = head[2] if head else None
        if head is None or directive not in (*_LISTS, ".callprototype"):
            self.body.labels[unique] = len(self.body.instructions)
            return at
        end = self.until_semicolon(head.start(2))
        tokens = self.source.tokens(head.start(2), end)
        tokens.take()
        if directive == ".callprototype":
            self.body.prototypes[unique] = read_prototype(tokens)
        else:
            self.list_lines[unique] = self.source.line(start)
            self.body.targets[unique] = self.listed(tokens, unique, is_branch=directive == ".branchtargets")
        return end + 1

    def listed(self, tokens: Tokens, unique: str, *, is_branch: bool) -> list[str]:
        listed: list[str] = []
        while True:
            name = name_of(tokens, "a target")
            if is_branch:
                self.names.scope.open_lists.append((unique, len(listed)))
            elif name not in self.names.outside:
                tokens.fail(f"{name} is not declared: no function of this file")
            listed.append(name)
            if not tokens.accept(","):
                tokens.finish("the list of targets")
                return listed

    def close_scope(self) -> None:
        """Labels of this scope meet their uses; what is left over is for the scope around it."""
        scope = self.names.scopes.pop()
        outer = self.names.scopes[-1] if self.names.scopes else None
        body = self.body
        for index, name in scope.open_uses:
            unique = scope.labels.get(name)
            if unique is None:
                if outer is None:
                    self.undeclared(body.instructions[index].line, name, body.instructions[index].text)
                outer.open_uses.append((index, name))
            elif unique != name:
                instruction = body.instructions[index]
                operands: tuple[Operand, ...] = tuple(Label(unique) if o == Label(name) else o for o in instruction.operands)
                body.instructions[index] = dataclasses.replace(instruction, operands=operands)
        for key, entry in scope.open_lists:
            name = body.targets[key][entry]
            if name in scope.labels:
                body.targets[key][entry] = scope.labels[name]
            elif outer is None:
                self.undeclared(self.list_lines[key], name, f"{key}: .branchtargets ...")
            else:
                outer.open_lists.append((key, entry))

    def undeclared(self, line: int, name: str, text: str) -> NoReturn:
        near = suggestion(name, self.body.labels)
        self.source.fail_line(
            line, f"{name} is neither a label that can be reached from here nor a declared function{near}: {shorter(text)}"
        )
