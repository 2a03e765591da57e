"""Reading a PTX file: its head, its variables and its functions (PTX ISA 9.0, chapters 4, 5 and 11)."""

from __future__ import annotations

import dataclasses
import re

from smemsim.arguments import shown, suggestion
from smemsim.errors import InputError
from smemsim.ptx.body import location_at, read_body, skip_pragma
from smemsim.ptx.constants import whole_number
from smemsim.ptx.declarations import name_of, read_parameters, read_variables, skip_attribute
from smemsim.ptx.lexer import Source, Tokens
from smemsim.ptx.module import Function, Module, Variable
from smemsim.ptx.names import Names
from smemsim.spec.ptx import LINKAGE, PERFORMANCE, SPACES

__all__ = ["read_module"]

_FILE = re.compile(r'\.file[ \t]+(\d{1,9})[ \t]+"([^"\n]*)"(?:[ \t]*,[ \t]*\d+[ \t]*,[ \t]*\d+)?', re.ASCII)
_HEADS = {
    ".version": re.compile(r"\s*(\d+\.\d+)", re.ASCII),
    ".target": re.compile(r"\s*([\w ]+(?:,\s*[\w ]+)*)", re.ASCII),
    ".address_size": re.compile(r"\s*(32|64)\b", re.ASCII),
}
_OUTSIDE = (".entry", ".func", ".section", ".alias", *_HEADS, *(f".{word}" for word in (*LINKAGE, *SPACES)))
_DIRECTIVE = re.compile(r"\s*(?:(\.\w+)|(;)|(?=\S))", re.ASCII)
_HEADER_END = re.compile(r'[{;"]')
_BRACES = re.compile(r'[{}]|"[^"\n]*"')


def read_module(text: str, *, name: str = "<ptx>") -> Module:
    """What the text of a PTX file says; `name` is how messages call the file. Raises InputError with the line.

    Everything that nvcc, Triton and CuTe DSL write is read; debug sections and pragmas are passed over.

    >>> module = read_module('''
    ... .version 8.8
    ... .target sm_90a
    ... .address_size 64
    ... .visible .entry copy(.param .u64 p) {
    ...     .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ...     ld.param.b64 %rd1, [p];
    ...     mov.u32 %r1, %tid.x;
    ...     st.global.b32 [%rd1+4], %r1;
    ...     ret;
    ... }''')
    >>> [i.name for i in module.functions["copy"].body]
    ['ld.param.b64', 'mov.u32', 'st.global.b32', 'ret']
    >>> module.functions["copy"].body[1].operands[1]
    Special(name='tid.x')
    """
    if not isinstance(text, str):
        raise InputError(f"{name}: needs the text of a PTX file, not {shown(text)}")
    if text.startswith("\x7fELF"):
        raise InputError(f"{name}: this is a compiled file (ELF), a cubin or an object; smemsim reads PTX, which `nvcc -ptx` writes")
    return _Reader(Source(text.removeprefix("\ufeff").rstrip("\0"), name)).read()  # a mark of UTF-8, the end of a C string


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.heads: dict[str, str] = {}
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}
        self.names: set[str] = set()
        self.aliases: list[tuple[str, str, int]] = []
        self.files = {int(found[1]): found[2] for found in _FILE.finditer(source.text)}

    def read(self) -> Module:
        source = self.source
        at = 0
        while (head := _DIRECTIVE.match(source.text, at)) is not None:
            directive, semicolon = head.groups()
            at = head.end()
            if directive:
                at = self.directive(directive, head.start(1), at)
            elif not semicolon:
                self.no_directive(at)
        for needed in (".version", ".target"):
            if needed not in self.heads:
                source.fail(0, f"no {needed} in the file; a PTX file begins with .version and .target")
        self.finish()
        target = tuple(word.strip() for word in self.heads[".target"].split(","))
        return Module(self.heads[".version"], target, int(self.heads.get(".address_size", "32")), self.functions, self.variables)

    def no_directive(self, at: int) -> None:
        if ".version" not in self.heads:  # what else it may be is nobody's business: its text is not shown
            self.source.fail(at, "this is no PTX, which begins with .version")
        line = self.source.text[at : at + 200].partition("\n")[0].strip()
        what = "a '}' too much" if line.startswith("}") else "a directive expected outside of functions"
        self.source.fail(at, f"{what}: {shown(line)}")

    def directive(self, directive: str, start: int, at: int) -> int:
        source = self.source
        if directive in _HEADS:
            return self.head(directive, start, at)
        if ".version" not in self.heads:
            what = directive if directive in _OUTSIDE else "another directive"
            source.fail(start, f"a PTX file begins with .version, not with {what}")
        if directive == ".file":
            found = _FILE.match(source.text, start)
            if not found:
                source.fail(start, "'.file' needs a number and a name in quotes")
            return found.end()
        if directive == ".loc":
            return location_at(source, at, self.files, {})[1]
        if directive == ".pragma":
            return skip_pragma(source, at)
        if directive == ".section":
            return self.skip_section(start)
        end = self.header_end(start)
        tokens = source.tokens(start, end)
        linkage = set()
        while tokens.peek()[1:] in LINKAGE:
            linkage.add(tokens.take()[1:])
        kind = tokens.take()
        if kind in (".entry", ".func"):
            return self.function(tokens, end, is_entry=kind == ".entry")
        if kind[1:] in SPACES and kind != ".param":
            return self.variable(tokens, kind[1:], start, is_extern="extern" in linkage)
        if kind != ".alias":
            source.fail(start, f"directive {kind or directive} is unknown outside of functions{suggestion(kind or directive, _OUTSIDE)}")
        self.alias(tokens)
        return end + 1

    def head(self, directive: str, start: int, at: int) -> int:
        found = _HEADS[directive].match(self.source.text, at)
        if not found:
            line = self.source.text[start : start + 80].partition("\n")[0]
            said = f": {shown(line)}" if ".version" in self.heads else ""
            self.source.fail(start, f"{directive} has no value that smemsim knows{said}")
        if directive in self.heads:
            self.source.fail(start, f"{directive} stands twice; a file with several PTX texts must be split first")
        self.heads[directive] = found[1]
        return found.end()

    def header_end(self, start: int) -> int:
        """The '{' or ';' that ends a declaration; quoted texts of pragmas bring a ';' of their own."""
        at = start
        while found := _HEADER_END.search(self.source.text, at):
            if found[0] != '"':
                return found.start()
            closing = self.source.text.find('"', found.end())
            after = self.source.text.find(";", closing)
            if closing < 0 or after < 0:
                break
            at = after + 1
        line = self.source.text[start : start + 80].partition("\n")[0]
        return self.source.fail(start, f"neither '{{' nor ';' after {line!r}; is the file cut off?")

    def skip_section(self, start: int) -> int:
        """Debug information between braces."""
        depth = 0
        for found in _BRACES.finditer(self.source.text, start):
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if not depth and found[0] == "}":
                return found.end()
            if depth < 0 or depth > 2:
                break
        return self.source.fail(start, "this .section has no '}' that ends it; is the file cut off?")

    def new_name(self, tokens: Tokens, name: str) -> None:
        if name in self.names:
            tokens.fail(f"{name} is declared twice in the file")
        self.names.add(name)

    def variable(self, tokens: Tokens, space: str, start: int, *, is_extern: bool) -> int:
        end = self.source.text.find(";", start)
        if end < 0:
            tokens.fail("no ';' after a variable; is the file cut off?")
        whole = self.source.tokens(start, end)
        whole.i = tokens.i
        for variable in read_variables(whole, space, is_extern=is_extern):
            old = self.variables.get(variable.name)
            if old is None or not old.is_extern:  # a definition may follow its .extern
                self.new_name(whole, variable.name)
            self.variables[variable.name] = variable
        return end + 1

    def function(self, tokens: Tokens, end: int, *, is_entry: bool) -> int:
        source = self.source
        what = "an entry" if is_entry else "a function"
        names = Names(self.names)
        while tokens.accept(".attribute"):
            skip_attribute(tokens)
        results = read_parameters(tokens, names, "results") if tokens.peek() == "(" and not is_entry else ()
        name = name_of(tokens, what)
        parameters = read_parameters(tokens, names, "parameters") if tokens.peek() == "(" else ()
        directives = self.performance(tokens)
        tokens.finish(f"the head of {what}")
        old = self.functions.get(name)
        has_body = source.text[end] == "{"
        if old is None:
            self.new_name(tokens, name)
        elif has_body and old.body is not None:
            tokens.fail(f"{what} {name} has two bodies")
        elif len(old.parameters) != len(parameters) or old.is_entry != is_entry:
            tokens.fail(f"{name} was declared in line {old.line} with other parameters")
        line = source.line(tokens.start)
        if not has_body:
            if old is None:
                self.functions[name] = Function(name, is_entry, parameters, results, (), (), None, {}, {}, directives, line)
            return end + 1
        body, at = read_body(source, end + 1, names, self.files)
        registers = tuple(names.registers)
        targets = {key: tuple(listed) for key, listed in body.targets.items()}
        self.functions[name] = Function(
            name, is_entry, parameters, results, registers, tuple(body.variables), tuple(body.instructions),
            body.labels, targets, directives, line, body.prototypes,
        )  # fmt: skip
        return at

    def performance(self, tokens: Tokens) -> dict[str, tuple[int, ...]]:
        directives: dict[str, tuple[int, ...]] = {}
        while word := tokens.peek():
            if word == ".pragma":
                while tokens.peek() not in ("", ";"):
                    tokens.take()
                tokens.expect(";", "after a pragma")
                continue
            if word[1:] not in PERFORMANCE:
                tokens.fail(f"{tokens.found()} is unknown before a function's body{suggestion(word.lstrip('.'), PERFORMANCE)}")
            tokens.take()
            values: list[int] = []
            while tokens.peek()[:1].isdigit():
                values.append(whole_number(tokens, word))
                if not tokens.accept(","):
                    break
            directives[word[1:]] = tuple(values)
        return directives

    def alias(self, tokens: Tokens) -> None:
        """`.alias f, g;`: f, declared without a body, is g."""
        alias = name_of(tokens, "the alias")
        tokens.expect(",", "after the name of the alias")
        target = name_of(tokens, "the function it stands for")
        tokens.finish("an alias")
        for name in (alias, target):
            if name not in self.functions:
                tokens.fail(f"{name} is no declared function")
        self.aliases.append((alias, target, self.source.line(tokens.start)))

    def finish(self) -> None:
        """What can be judged only when everything has been read."""
        for alias, target, line in self.aliases:
            if self.functions[target].body is None:
                self.source.fail_line(line, f"alias {alias}: {target} has no body in this file")
            self.functions[alias] = dataclasses.replace(self.functions[target], name=alias)
        local = [(v, {x.name for x in f.variables}) for f in self.functions.values() for v in f.variables if v.references]
        for variable, around in [*local, *((v, set[str]()) for v in self.variables.values())]:
            for _, symbol, _ in variable.references:
                if symbol not in self.names and symbol not in around:
                    self.source.fail_line(variable.line, f"{variable.name} begins with the address of {symbol}, which nothing declares")
