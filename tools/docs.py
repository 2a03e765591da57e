"""Runs the documentation: `python -m tools.docs [--check] [--tables] [--slow] [PAGE ...]`.

Pages are README.md, golden/README.md, docs/**/*.md and the explanations of findings. What they show is not typed by
hand:

- between `<!-- name argument -->` and `<!-- /name -->` stands what the function of that name in `TABLES` makes of the
  code;
- a block whose first line is "```toml kernel.toml" is a file of that name, in a folder that the page has for itself;
- "```diff good.toml from bad.toml" is the file that the change makes of another one;
- "```console" has commands behind `$ `, which are run there, and what they print. `smemsim` is this one; the rest is
  done by bash. The word `slow` leaves a block out unless --slow is given, `needs=nvcc` where there is no such program
  (or Python module), `fails` expects exit code 2 or 3;
- "```python" is run, all blocks of a page one behind the other (`alone`: without the names of those before); a comment
  that begins with a value is held against the expression before it, and "```text output" behind a block is what it
  printed;
- "```console picture=NAME.svg" keeps the picture that its last command writes to NAME.svg, in docs/pictures.

Without --check what is stale is written again. --tables makes the tables alone.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import importlib.util
import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator

from click.testing import CliRunner

from smemsim.base import store
from smemsim.cli import main as cli
from tools.docs_tables import DRAWN, TABLES

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
EXPLANATIONS = ROOT / "sim" / "smemsim" / "explanations"
PICTURES = DOCS / "pictures"
WIDTH = 120  # columns of what commands print
BLOCK = re.compile(r"^```(\w+)([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"<!-- (\w+)((?: [\w.-]+)*) -->\n(?:.*?<!-- /\1 -->\n)?", re.DOTALL)
# What differs from run to run: times, speeds, commits, addresses of the host.
VARIES = (
    (re.compile(r" in \d+\.\d+ s\b"), ""),
    (re.compile(r"\b(?:about )?\d+\.\d+ s\b"), "0.1 s"),
    (re.compile(r"\b[\d,]+( cases a second)"), r"…\1"),
    (re.compile(r"\b(\d+\.\d+\.\d+)\+[0-9a-f]{7,}"), r"\1"),
    (re.compile(r"\b(made at [\w.]+)\+0x[0-9a-f]+"), r"\1+0x...."),
    (re.compile(r"\b0x7[ef](?!0000000)[0-9a-f]{10}\b"), "0x7f.........."),
)


class Stale(Exception):
    """A page that says other than what is so, where nothing can be written for it."""


def pages() -> list[pathlib.Path]:
    """Every page, the README first."""
    made = DOCS / "_build"
    copies = {DOCS / "findings" / page.name for page in EXPLANATIONS.glob("*.md")}  # which the site makes for itself
    found = [page for page in sorted(DOCS.rglob("*.md")) if made not in page.parents and page not in copies]
    return [ROOT / "README.md", ROOT / "golden" / "README.md", *found, *sorted(EXPLANATIONS.glob("*.md"))]


# ---- tables


def with_tables(text: str, page: pathlib.Path) -> str:
    """The page with every table made again."""

    def made(found: re.Match[str]) -> str:
        name, arguments = found[1], found[2].split()
        if name not in TABLES:
            raise Stale(f"{page.name}: no table is called {name!r}; there are {', '.join(sorted(TABLES))}")
        return f"<!-- {name}{found[2]} -->\n\n{TABLES[name](page, *arguments)}\n\n<!-- /{name} -->\n"

    return MARKER.sub(made, text)


# ---- examples


@dataclasses.dataclass
class Session:
    """The folder of one page, the names that its Python has made, and what the last block printed."""

    page: pathlib.Path
    folder: pathlib.Path
    slow: bool = False
    names: dict[str, object] = dataclasses.field(default_factory=dict)
    printed: str = ""
    codes: list[int] = dataclasses.field(default_factory=list)

    def block(self, language: str, info: str, body: str) -> str:
        """What the block should say."""
        words = info.split()
        if language == "console":
            return self.console(words, body)
        if language == "python" and "file" not in words and not any("." in word for word in words):
            if "alone" in words:
                self.names.clear()
            if self.has(words):
                self.python(body)
        elif language == "diff" and "from" in words:
            self.changed(words[0], words[2], body)
        elif words == ["output"]:
            return self.printed
        elif words and "." in words[0]:
            (self.folder / words[0]).write_text(body)
        return body

    def changed(self, name: str, old: str, change: str) -> None:
        """A file in which some lines of another one are exchanged: `-` lines for the `+` lines behind them; ` ` lines
        say where.
        """
        text = (self.folder / old).read_text()
        for hunk in re.split(r"^@@.*\n", change, flags=re.MULTILINE):
            lines = hunk.splitlines()
            before, after = ("".join(f"{line[1:]}\n" for line in lines if line[:1] in kinds) for kinds in ("- ", "+ "))
            if text.count(before) != 1:
                raise Stale(f"{self.page.name}: the change of {old} fits {text.count(before)} places:\n{before}")
            text = text.replace(before, after)
        (self.folder / name).write_text(text)

    def has(self, words: list[str]) -> bool:
        """Whether the programs and modules are there that a block needs."""
        needs = [word.removeprefix("needs=") for word in words if word.startswith("needs=")]
        return all(shutil.which(need) or importlib.util.find_spec(need) for need in needs)

    def console(self, words: list[str], body: str) -> str:
        if ("slow" in words and not self.slow) or not self.has(words):
            return body
        made = []
        for command in commands(body):
            made.append(f"$ {command}")
            code, said = self.command(command.replace("\\\n", " "))
            self.codes.append(code)
            if (code > 1) != ("fails" in words):
                raise Stale(f"{self.page.name}: {command}\nends with exit code {code}\n{said}")
            made += [line for long in said.rstrip().splitlines() for line in wrapped(long.rstrip())]
        if pictures := [word.removeprefix("picture=") for word in words if word.startswith("picture=")]:
            MADE.update({PICTURES / name: (self.folder / name).read_text() for name in pictures})
        return "\n".join(made) + "\n"

    def command(self, command: str) -> tuple[int, str]:
        """(exit code, what it printed) of one command in the page's folder; `smemsim` runs here, also in front of a
        filter or with its output in a file.
        """
        first, _, filters = command.partition(" | ")
        first, file = re.fullmatch(r"(.*?)(?: > ([\w.]+))?", first, re.DOTALL).groups()
        if first.startswith("smemsim ") and not first.startswith("smemsim exec") and is_plain(first):
            with contextlib.chdir(self.folder), warnings.catch_warnings():
                # the user's stays as it is
                own = {store.FOLDER: str(self.folder / "cache")} if first.startswith("smemsim cache") else {}
                done = CliRunner(env={"COLUMNS": str(WIDTH), **own}).invoke(
                    cli, shlex.split(first)[1:], catch_exceptions=False, prog_name="smemsim"
                )
            if file:
                (self.folder / file).write_text(done.stdout)
                return done.exit_code, self.same(done.stderr)
            if not filters:
                return done.exit_code, self.same(done.output)
            code, said = self.bash(filters, done.stdout)
            return code, self.same(done.stderr + said)
        code, said = self.bash(command)
        return code, self.same(said)

    def bash(self, command: str, given: str = "") -> tuple[int, str]:
        """The same of bash, with a text on standard input."""
        path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        sources = os.pathsep.join([str(ROOT / "sim"), str(ROOT)])
        environment = os.environ | {"PATH": path, "PYTHONPATH": sources, "COLUMNS": str(WIDTH), "PYTHONWARNINGS": "ignore"}
        ran = subprocess.run(["bash", "-c", command], cwd=self.folder, env=environment, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        return ran.returncode, ran.stdout

    def same(self, said: str) -> str:
        """What is the same in every run."""
        said = said.replace(f"{self.folder}/", "").replace(str(self.folder), ".")
        for pattern, instead in VARIES:
            said = pattern.sub(instead, said)
        return said

    def python(self, body: str) -> None:
        """Run a block; a comment `# value` or `# value: why` is held against the expression before it."""
        lines, printed = body.splitlines(), io.StringIO()
        for statement in ast.parse(body).body:
            # Padded, so that the lines of an error are those of the block; linecache lets Triton read a kernel's
            # source.
            source = ast.get_source_segment(body, statement) or ""
            if isinstance(statement, ast.FunctionDef | ast.ClassDef) and statement.decorator_list:
                source = "\n".join(lines[statement.decorator_list[0].lineno - 1 : statement.end_lineno])
            with contextlib.chdir(self.folder), contextlib.redirect_stdout(printed), warnings.catch_warnings():
                if not isinstance(statement, ast.Expr):
                    exec(source, self.names)
                    continue
                value = eval(source, self.names)
            said = lines[(statement.end_lineno or 1) - 1].partition("  # ")[2].partition(": ")[0]
            try:
                wanted = ast.literal_eval(said)
            except (SyntaxError, ValueError):
                continue  # prose
            if value != wanted:
                raise Stale(f"{self.page.name}: {source} is {value!r}, the comment says {said}")
        self.printed = self.same(printed.getvalue())


MADE: dict[pathlib.Path, str] = {}  # pictures that pages have made


def commands(body: str) -> Iterator[str]:
    """The commands of a console block, each with the lines that a backslash or an open quote carries on."""
    lines = iter(body.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\") or command.count("'") % 2:
                command += "\n" + next(lines)
            yield command


def is_plain(command: str) -> bool:
    """No redirection, no second command."""
    return not re.search(r"[|;&<>`]|\$\(", re.sub(r"'[^']*'", "", command))


def wrapped(line: str) -> list[str]:
    """A line as a page shows it: sentences are broken, tables and code only where they are very long."""
    if len(line) <= WIDTH or re.match(r" *(\S+ \| |\{|\w+ = |\w+ \[)", line):
        return [line]
    indent = re.match(r" *(?:[A-Z]\d{3}  )?", line)
    return textwrap.wrap(
        line, WIDTH, subsequent_indent=" " * min(len(indent[0]) if indent else 0, 8), drop_whitespace=True, break_on_hyphens=False
    )


def with_examples(text: str, page: pathlib.Path, *, slow: bool = False, codes: list[int] | None = None) -> str:
    """The page with every block run, and what they printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        for link in ("golden", "tests", "docs"):
            (folder / link).symlink_to(ROOT / link)
        session = Session(page, folder, slow)

        def run(found: re.Match[str]) -> str:
            try:
                return f"```{found[1]}{found[2]}\n{session.block(found[1], found[2], found[3])}```"
            except Stale:
                raise
            except Exception as e:
                raise Stale(f"{page.name}: {type(e).__name__}: {e}, in\n{found[3]}") from e

        made = BLOCK.sub(run, text)
        if codes is not None:
            codes += session.codes
    return made


def wanted(page: pathlib.Path, *, examples: bool = True, slow: bool = False) -> str:
    """What the page should be."""
    text = with_tables(page.read_text(), page)
    return with_examples(text, page, slow=slow) if examples else text


def main(arguments: list[str]) -> int:
    """Write or check the pages that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", type=pathlib.Path, help="pages; all of them when none is named")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a page is stale")
    parser.add_argument("--tables", action="store_true", help="the tables alone, no examples (seconds)")
    parser.add_argument("--slow", action="store_true", help="the examples that take long, too")
    o = parser.parse_args(arguments)
    problems = 0
    for page in [page.resolve() for page in o.pages] or pages():
        try:
            made = wanted(page, examples=not o.tables, slow=o.slow)
        except Stale as e:
            problems += 1
            print(e, file=sys.stderr)
            continue
        if made != page.read_text():
            MADE[page] = made
    MADE.update({PICTURES / name: svg for name, svg in DRAWN.items()})
    stale = [path for path, text in MADE.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{'stale' if o.check else 'written'}: {path.relative_to(ROOT)}", file=sys.stderr)
        if not o.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(MADE[path])
    return 1 if problems or (o.check and stale) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
