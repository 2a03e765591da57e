"""Mutants: does a test fail if one place of the code is changed?

`python -m tools.mutants PACKAGE ...` draws changes of one place from the files of each package (`run/sanitizer`,
`diagnosis`), by a fixed seed. It works on a copy of the checkout. First all tests run once on the unchanged code, with
a probe at each drawn place: this shows which tests reach it. Then each mutant gets the tests that reach its place, and
the files of tests that name most of its module. With `--all` it gets all other tests, too. A mutant is killed if a test
fails. The survivors are printed with their change: for each, either a law is missing from the tests, or the change
makes no difference to any behaviour, which a person decides.
"""

from __future__ import annotations

import argparse
import ast
import copy
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator

__all__ = ["Mutant", "draw", "main", "mutants_of", "probed", "witnesses_of"]

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = ROOT / "sim" / "smemsim"
COPIED = (
    "sim",
    "tests",
    "tools",
    "golden",
    "docs",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "pyproject.toml",
    ".ci",
    ".github",
    "noxfile.py",
)
FAILED = 1  # pytest's exit code
# Files whose tests look at the sources themselves: a changed line may fail there for its form.
NO_WITNESS = frozenset({"test_house.py", "test_docs.py", "test_bench.py"})
# A probe writes which test runs when its place is reached. Programs that tests start inherit the names of the test and
# of the folder.
PROBE = "smemsim_probe"
PROBE_TEXT = """import os
SEEN = set()
def hit(place):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    folder = os.environ.get("SMEMSIM_PROBES")
    if folder and (place, test) not in SEEN:
        SEEN.add((place, test))
        with open(os.path.join(folder, f"{os.getpid()}"), "a") as file:
            file.write(f"{place} {test}\\n")
"""
AT_ONCE = 40  # more tests than this are run by two workers
COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A file with one place changed: `before` became `after` at a line; `text` is the whole file, `begin` and `end` are
    the place in bytes.
    """

    path: pathlib.Path
    line: int
    before: str
    after: str
    text: str = dataclasses.field(repr=False)
    begin: int = dataclasses.field(repr=False)
    end: int = dataclasses.field(repr=False)
    is_statement: bool = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.before!r} -> {self.after!r}"


def _changed(node: ast.AST) -> Iterator[ast.AST]:
    """The node with one thing about it changed, in every way that there is."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and (other := COMPARED.get(type(node.ops[0]))):
        yield ast.Compare(node.left, [other()], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        yield node.values[0]
    elif isinstance(node, ast.BinOp) and (another := COMPUTED.get(type(node.op))) and not _is_text(node):
        yield ast.BinOp(node.left, another(), node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(x, ast.JoinedStr) or (isinstance(x, ast.Constant) and isinstance(x.value, str)) for x in ast.walk(node))


def _places(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes of all functions, without messages: what is in an f-string, and what a `raise` says."""
    left: list[tuple[ast.AST, bool]] = [(tree, False)]
    while left:
        node, inside = left.pop()
        if isinstance(node, (ast.JoinedStr, ast.Raise)):
            continue
        inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if inside:
            yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):  # types and decorators are no behaviour
            left += [(child, True) for child in (*node.args.defaults, *node.args.kw_defaults, *node.body) if child is not None]
        elif isinstance(node, ast.AnnAssign):
            left += [(node.value, inside)] if node.value is not None else []
        else:
            left += [(child, inside) for child in ast.iter_child_nodes(node)]


def mutants_of(path: pathlib.Path) -> list[Mutant]:
    """Every mutant of a file, in a fixed order.

    >>> found = mutants_of(SOURCES / "core" / "layout" / "swizzle.py")
    >>> all(ast.dump(ast.parse(m.text)) != ast.dump(ast.parse(m.path.read_text())) for m in found)
    True
    """
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    data, found = text.encode(), []
    for node in _places(ast.parse(text)):
        if not hasattr(node, "end_col_offset"):
            continue
        begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        for other in _changed(node):
            written = ast.unparse(ast.fix_missing_locations(copy.deepcopy(other)))
            after = written if isinstance(other, (ast.stmt, ast.Constant)) else f"({written})"
            whole = (data[:begin] + after.encode() + data[end:]).decode()
            found.append(
                Mutant(
                    path,
                    node.lineno,
                    " ".join(data[begin:end].decode().split()),
                    " ".join(after.split()),
                    whole,
                    begin,
                    end,
                    isinstance(node, ast.stmt),
                )
            )
    return sorted(found, key=lambda m: (m.line, m.before, m.after))


def draw(package: str, count: int, seed: int) -> list[Mutant]:
    """Mutants of the files of a package, drawn by a seed: the same for the same sources."""
    folder = SOURCES / package
    files = [folder.with_suffix(".py")] if folder.with_suffix(".py").exists() else sorted(folder.rglob("*.py"))
    every = [m for path in files for m in mutants_of(path)]
    return random.Random(f"{package} {seed}").sample(every, min(count, len(every)))


def witnesses_of(path: pathlib.Path) -> list[str]:
    """The files of tests, those first that name most of what a module defines, or its instructions."""
    text = path.read_text(encoding="utf-8")
    names = (
        set(re.findall(r"^(?:def|class) (\w{4,})", text, re.MULTILINE)) | set(re.findall(r'@implements\("([\w.:]+)"', text)) | {path.stem}
    )
    scores = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        if file.name not in NO_WITNESS:
            own = file.read_text(encoding="utf-8")
            scores[str(file.relative_to(ROOT / "tests"))] = sum(min(own.count(name), 20) for name in names)
    return sorted(scores, key=lambda name: (-scores[name], name))


def _is_machine_code(text: str, line: int) -> bool:
    """Is the line in a function that is compiled? Such a function cannot hold a probe."""
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    return any(f.lineno <= line <= (f.end_lineno or 0) and any("compiled" in ast.unparse(d) for d in f.decorator_list) for f in functions)


def probed(mutants: Iterable[tuple[int, Mutant]], path: pathlib.Path) -> str:
    """The text of a file with a probe at the place of each of these mutants, by number; places that can have none are
    left out.

    >>> path = SOURCES / "core" / "layout" / "swizzle.py"
    >>> probed([(7, mutants_of(path)[0])], path).count("hit(7)")
    1
    """
    text = path.read_text(encoding="utf-8")
    parts: list[tuple[int, int, int, str]] = []  # where, ends before beginnings, the outer one outside, what
    for number, m in mutants:
        call = f'__import__("{PROBE}").hit({number})'
        own = [(m.begin, 1, -m.end, f"{call}; " if m.is_statement else f"({call}, ")]
        own += [] if m.is_statement else [(m.end, 0, -m.begin, ")[1]")]
        try:
            ast.parse(_with(text, own))
        except SyntaxError:  # a number of a pattern
            continue
        parts += [] if _is_machine_code(text, m.line) else own
    return _with(text, parts)


def _with(text: str, parts: Iterable[tuple[int, int, int, str]]) -> str:
    data = text.encode()
    for at, *_, what in sorted(parts, reverse=True):
        data = data[:at] + what.encode() + data[at:]
    return data.decode()


def _reached(mutants: list[Mutant], copy_of: pathlib.Path) -> list[set[str]]:
    """For each mutant the tests that reach its place; "" is among them if a module that is
    being imported reaches it.
    """
    paths = {m.path for m in mutants}
    for path in paths:
        (copy_of / path.relative_to(ROOT)).write_text(
            probed([(n, m) for n, m in enumerate(mutants) if m.path == path], path), encoding="utf-8"
        )
    (copy_of / f"{PROBE}.py").write_text(PROBE_TEXT, encoding="utf-8")
    hits = copy_of.with_name("hits")
    hits.mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--no-header"]
    subprocess.run(command, cwd=copy_of, capture_output=True, check=False, env=_environment(copy_of) | {"SMEMSIM_PROBES": str(hits)})
    found: list[set[str]] = [set() for _ in mutants]
    for file in hits.iterdir():
        for line in file.read_text(encoding="utf-8").splitlines():
            number, _, test = line.partition(" ")
            found[int(number)].add(test)
    for path in paths:
        shutil.copyfile(path, copy_of / path.relative_to(ROOT))
    return found


def _environment(copy_of: pathlib.Path) -> dict[str, str]:
    """For programs that tests start, too. Bytecode is kept beside the copy: to compile all files again is most
    of the time of a few tests.
    """
    paths = os.pathsep.join((str(copy_of / "sim"), str(copy_of)))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": paths, "PYTHONPYCACHEPREFIX": str(copy_of.with_name("bytecode"))}


def _fails(copy_of: pathlib.Path, tests: Iterable[str], seconds: float, workers: int = 2) -> str:
    """The first of these tests that fails; "" if all pass. A mutant that does not come to its end is killed too."""
    listed = copy_of.with_name("tests.txt")
    listed.write_text("".join(f"{name}\n" for name in tests), encoding="utf-8")
    if not listed.stat().st_size:
        return ""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", f"{workers}", "--no-header", f"@{listed}"]
    try:
        done = subprocess.run(command, cwd=copy_of, capture_output=True, text=True, timeout=seconds, check=False, env=_environment(copy_of))
    except subprocess.TimeoutExpired:
        return f"no end within {seconds:.0f} s"
    if done.returncode == 0:
        return ""
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[0] if failed else f"pytest ended with {done.returncode}"


def _killed(mutant: Mutant, reached: set[str], copy_of: pathlib.Path, first: int, seconds: float, *, every: bool) -> str:
    """Which test kills it, "" if none does."""
    place = copy_of / mutant.path.relative_to(ROOT)
    files = [f"tests/{name}" for name in witnesses_of(mutant.path)]
    order = {name: n for n, name in enumerate(files)}
    tests = sorted(
        (t for t in reached if t and t.partition("::")[0].rpartition("/")[2] not in NO_WITNESS),
        key=lambda t: (order.get(t.partition("::")[0], len(order)), t),
    )
    place.write_text(mutant.text, encoding="utf-8")
    try:
        return (
            _fails(copy_of, tests[:AT_ONCE], seconds, 0)
            or _fails(copy_of, tests[AT_ONCE:], seconds)
            or _fails(copy_of, files[:first], seconds)
            or (_fails(copy_of, files[first:], seconds) if every else "")
        )
    finally:
        shutil.copyfile(mutant.path, place)


def main(argv: list[str] | None = None) -> int:
    """The command line; 1 if a mutant survived."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("packages", nargs="+", metavar="PACKAGE", help="folders or modules of sim/smemsim")
    parser.add_argument("--count", type=int, default=6, metavar="N", help="mutants of each package (6)")
    parser.add_argument("--seed", type=int, default=1, help="other mutants (1)")
    parser.add_argument(
        "--first", type=int, default=6, metavar="N", help="how many files of tests that name most of the module are run (6)"
    )
    parser.add_argument("--all", action="store_true", help="run all tests on each mutant that these do not kill")
    parser.add_argument("--seconds", type=float, default=900.0, help="a mutant whose tests take longer counts as killed (900)")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="append a line for each mutant")
    given = parser.parse_args(argv)
    if given.count < 1:
        parser.error(f"--count {given.count}: needs a whole number from 1 on")
    drawn = [m for package in given.packages for m in draw(package, given.count, given.seed)]
    if given.list or not drawn:
        print("\n".join(map(str, drawn)) or "no such package, or nothing to change in it")
        return 0 if drawn else 2
    survivors = []
    with tempfile.TemporaryDirectory() as name:
        copy_of = pathlib.Path(name) / "checkout"
        copy_of.mkdir()
        for part in COPIED:
            source = ROOT / part
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, copy_of / part)
        for mutant, reached in zip(drawn, _reached(drawn, copy_of), strict=True):
            begun = time.monotonic()
            by = _killed(mutant, reached, copy_of, given.first, given.seconds, every=given.all)
            print(f"{'killed by ' + by if by else 'SURVIVED'}  {mutant}  ({time.monotonic() - begun:.0f} s)", flush=True)
            survivors += [mutant] if not by else []
            if given.json is not None:
                row = {
                    "path": str(mutant.path.relative_to(ROOT)),
                    "line": mutant.line,
                    "before": mutant.before,
                    "after": mutant.after,
                    "killed_by": by,
                }
                with given.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    print(f"{len(drawn) - len(survivors)} of {len(drawn)} killed")
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
