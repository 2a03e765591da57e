"""Running programs of others: one row of JSON for each program or test, kept at once, so that a second call goes on
where the first one stopped.
"""

from __future__ import annotations

import ast
import collections
import concurrent.futures
import datetime
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import smemsim
from smemsim.core.spec.calibration import calibration, every_alternative
from smemsim.core.spec.evidence import kill_matrix
from tools.evidence.branches import REFUTES, outcome_of_launches
from tools.evidence.corpus import Program
from tools.evidence.records import of_launches

__all__ = ["Runner", "point_digest", "point_digests", "rows_of", "run_name", "versions"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("fbtriton", "nvidia-cutlass-dsl", "torch", "triton")
# by the point: most comparisons allow for rounding, and one that does not see it once will not see it twice
TRIES = {"arithmetic.": 1}
MOST_TRIES = 5
# exit codes of a shell: 128 and the signal that ended the program; 255 is what a program makes of -1
SIGNALS = range(129, 193)
# a package is not there: with it the program is run again
LACKS = re.compile("ModuleNotFoundError|not installed|pip install")
COLOURS = re.compile("\x1b\\[[0-9;]*m")
PLUGIN, HOOKS = "tools.evidence.inside", ROOT / "tools" / "evidence" / "hooks.py"


def versions() -> dict[str, str]:
    """Of smemsim and of what compiles programs."""
    found = {"smemsim": smemsim.__version__}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    if "fbtriton" in found:  # a module triton of its own, whatever triton lies behind it
        found.pop("triton", None)
    return found


def point_digests(arch: str) -> dict[str, str]:
    """The digest of every point of the architecture's alternatives, of the sources as they are now: of what they do,
    and not of what they say of it.
    """
    sources = [
        text
        for file in sorted((ROOT / "sim" / "smemsim").rglob("*.py"))
        if file.parent.name != "spec" and "assumed(" in (text := file.read_text(encoding="utf-8"))
    ]
    found = {}
    for point in {a.point for a in every_alternative(arch).values()}:
        asking = [done_at(text, point) for text in sources if f'assumed("{point}"' in text]
        found[point] = hashlib.sha256("\n".join(asking).encode()).hexdigest()[:12]
    return found


@functools.cache
def done_at(source: str, point: str) -> str:
    """Of a file the functions that ask at a point, and what of the file they use, one by the other, without what
    changes no result: comments, docstrings, types.

    >>> file = "import numpy\\ndef f(x):\\n    'Twice.'\\n    return assumed(\\"p\\", g(x))\\ndef g(x): return 2 * x\\ndef other(): pass"
    >>> done_at(file, "p") == done_at(file.replace("import numpy", "").replace("Twice", "So").replace("pass", "f"), "p")
    True
    >>> done_at(file, "p") == done_at(file.replace("2 * x", "3 * x"), "p")
    False
    """
    parts = _parts(source)
    chosen = {name for name, node in parts.items() if any(_asks(x, point) for x in ast.walk(node))}
    while more := {used for name in chosen for used in _used(parts[name], name.partition(".")[0]) if used in parts} - chosen:
        chosen |= more
    return "\n".join(f"{name} {_dumped(parts[name])}" for name in sorted(chosen))


def _dumped(node: ast.AST) -> str:
    """A definition as Python 3.11 writes it, whichever Python this is: what is kept of a run holds for all."""
    shown: dict[str, Any] = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    return ast.dump(node, **shown).replace(", type_params=[]", "")


@functools.cache
def _parts(source: str) -> dict[str, ast.AST]:
    """What a file defines, by name: functions, values, classes without their methods, and methods as "Class.method"."""
    tree = _WithoutTypes().visit(ast.parse(source))
    found: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = [x for x in node.body if isinstance(x, ast.FunctionDef)]
            found |= {f"{node.name}.{x.name}": _said_nothing(x) for x in methods}
            node.body = [x for x in node.body if x not in methods] or [ast.Pass()]
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found[node.name] = _said_nothing(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {x.id: node for target in targets for x in ast.walk(target) if isinstance(x, ast.Name)}
    return found


class _WithoutTypes(ast.NodeTransformer):
    """Takes away the types of functions, and which arrays a compiled one only reads; those of a class's fields stay,
    since a dataclass reads them.
    """

    def __init__(self) -> None:
        self.is_field = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        before, self.is_field = self.is_field, False
        self.generic_visit(node)
        self.is_field = before
        node.returns = None
        node.decorator_list = [_plain_loop(x) for x in node.decorator_list]
        node.body = node.body or [ast.Pass()]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        before, self.is_field = self.is_field, True
        self.generic_visit(node)
        self.is_field = before
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        if self.is_field:
            return node
        return None if node.value is None else ast.copy_location(ast.Assign([node.target], node.value), node)


def _plain_loop(decorator: ast.expr) -> ast.expr:
    """`@compiled(reads=...)` as `@compiled`: it could not be compiled if that were not so,
    and does the same without.
    """
    is_loop = isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "compiled"
    return decorator.func if isinstance(decorator, ast.Call) and is_loop and not decorator.args else decorator


def _said_nothing(node: ast.AST) -> ast.AST:
    """A definition without the strings that stand alone: its docstrings."""
    for part in ast.walk(node):
        body = getattr(part, "body", None)
        if isinstance(body, list):
            kept = [
                x for x in body if not (isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant) and isinstance(x.value.value, str))
            ]
            part.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return node


def _asks(node: ast.AST, point: str) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "assumed" and node.args):
        return False
    return isinstance(node.args[0], ast.Constant) and node.args[0].value == point


def _used(node: ast.AST, owner: str) -> set[str]:
    """Names that a definition uses; of its own class the fields, and what it takes from `self` or `cls`."""
    found = {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}
    own = (x for x in ast.walk(node) if isinstance(x, ast.Attribute) and isinstance(x.value, ast.Name) and x.value.id in ("self", "cls"))
    return found | {owner} | {f"{owner}.{x.attr}" for x in own}


@functools.cache
def point_digest(point: str) -> str:
    """Of the sources that ask at a point of an alternative: what is kept of it holds as long as they are the same."""
    return next(found[point] for arch in ("sm_100a", "sm_90a") if point in (found := point_digests(arch)))


def rows_of(path: pathlib.Path) -> list[dict[str, Any]]:
    """Of a file of rows; of a row that was written twice the last one."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return list({(row["program"], row.get("test", "")): row for row in map(json.loads, lines)}.values())


def executables_of(program: Program) -> list[str]:
    """The names that the program's command takes from the folder of `--built`."""
    return re.findall(r"\{built\}/?([^\s;:'\"]*)", program.command)


def _wanted(program: Program) -> str:
    """The checkout and packages that a program was run with."""
    project = program.project
    return f"{project.name} at {project.commit[:12]}" + f", with {project.versions}" * bool(project.versions)


def run_name(row: Mapping[str, Any]) -> str:
    """The name of a run in the matrix: the program's, of a suite with the test's."""
    return f"{row['program']}::{row['test'].rpartition('::')[2]}" if row.get("test") else str(row["program"])


def _with_earlier(row: dict[str, Any], old: dict[str, Any], alternatives: Mapping[str, Any]) -> None:
    """Give a row what an earlier one says of alternatives that were not tried again, where its sources are those of
    this one.
    """
    for a, told in old.get("kills", {}).items():
        point = alternatives[a].point if a in alternatives else ""
        if row["outcome"] == "passed" and point in row["digests"] and old["digests"].get(point) == row["digests"][point]:
            row.setdefault("kills", {}).setdefault(a, told)


class Runner:
    """Runs programs and keeps what came of them in a folder; with `kill` under alternatives too."""

    def __init__(
        self, out: pathlib.Path, built: pathlib.Path | None, *, again: bool = False, kill: bool = False, wanted: int = 1, tests: str = "",
        alternatives: str = "", tries: int | None = None,
    ) -> None:  # fmt: skip
        self.out, self.built, self.again, self.kill, self.wanted, self.tests = out, built, again, kill, wanted, tests
        self.alternatives, self.tries = alternatives, tries
        self.end = float("inf")
        self.path = out / ("kills.jsonl" if kill else "results.jsonl")
        self.lock = threading.Lock()
        out.mkdir(parents=True, exist_ok=True)

    def run(self, programs: Iterable[tuple[Program, pathlib.Path]], jobs: int, end: float) -> int:
        """Run them, cheapest first as far as that is known; 1 where one failed."""
        self.end = end
        seconds = {row["program"]: row["seconds"] for row in rows_of(self.out / "results.jsonl") if not row.get("test")}
        rows = [] if self.again else rows_of(self.path)
        done = {row["program"] for row in rows if not row.get("test")} - {row["program"] for row in rows if self._is_stale(row)}
        done -= {row["program"] for row in rows if not row.get("test") and LACKS.search(row.get("why", ""))}
        chosen = list(programs)
        todo = sorted((x for x in chosen if x[0].name not in done), key=lambda x: seconds.get(x[0].name, 1e9))
        if left := len(chosen) - len(todo):
            print(f"{left} of {len(chosen)} were run before, of which `page` tells (--again runs them too)", file=sys.stderr)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            failed = list(pool.map(lambda x: self._one(*x) if time.monotonic() < end else False, todo))
        return int(any(failed))

    def _is_stale(self, row: dict[str, Any]) -> bool:
        return any(digest != point_digest(point) for point, digest in row.get("digests", {}).items())

    def _one(self, program: Program, checkout: pathlib.Path) -> bool:
        """Run a program; did it fail?"""
        missing = [name for name in executables_of(program) if self.built is None or not (self.built / name).exists()]
        if missing:
            self._say(
                program, f"needs {', '.join(missing)}, built from {checkout / program.folder}, in the folder of --built", program.note
            )
            return False
        before = point_digests(program.arch)
        with tempfile.TemporaryDirectory() as name:
            place, is_whole = pathlib.Path(name), True
            if program.files:
                rows, is_whole = self._suite(program, checkout, place)
            else:
                rows = [self._script(program, checkout, place)]
        if program.files and not rows and not self._done(program):
            why = f"it needs {_wanted(program)}" if is_whole or self.tests else "time was up before one had ended"
            self._say(program, f"none of its tests was run{' (--tests)' * bool(self.tests)}", why)
            return True
        self._keep(program, checkout, rows, before, is_whole)
        failed = [row for row in rows if row["outcome"] not in ("passed", "skipped")]
        counts = ", ".join(f"{n} {x}" for x, n in collections.Counter(row["outcome"] for row in rows).items())
        lacking = f"it needs {_wanted(program)}" * any(LACKS.search(row.get("why", "")) for row in failed)
        self._say(program, counts or "no tests", *(f"{row.get('test', '')} {row.get('why', '')}" for row in failed[:3]), lacking)
        return bool(failed)

    def _say(self, program: Program, *words: str) -> None:
        print(f"{program.name}: {'; '.join(w for w in words if w)}", file=sys.stderr, flush=True)

    def _keep(self, program: Program, checkout: pathlib.Path, rows: list[dict[str, Any]], before: dict[str, str], is_whole: bool) -> None:
        """Append rows, with the digests of the sources from before the run; of what was changed meanwhile there is
        none, so that it does not count.
        """
        after = point_digests(program.arch)
        old = {row.get("test", ""): row for row in rows_of(self.path) if row["program"] == program.name} if self.kill else {}
        about = {
            "program": program.name, "project": program.project.name, "commit": _commit(checkout) or program.project.commit, "arch": program.arch,
            "versions": versions(), "date": datetime.date.today().isoformat(),
        }  # fmt: skip
        with self.lock, self.path.open("a", encoding="utf-8") as out:
            for row in rows:
                if self.kill:
                    points = {every_alternative(program.arch)[a].point for a in row.get("touched", ())}
                    row["digests"] = {point: after[point] for point in sorted(points) if before[point] == after[point]}
                    _with_earlier(row, old.get(row.get("test", ""), {}), every_alternative(program.arch))
                out.write(json.dumps({**about, **row}) + "\n")
            if program.files and is_whole:  # a row for the suite: it was run
                out.write(json.dumps({**about, "outcome": "suite", "seconds": sum(row.get("seconds", 0) for row in rows)}) + "\n")

    def _left(self, arch: str) -> dict[str, Any]:
        """How many refutations and tries each alternative still wants: those that the matrix has of others' programs
        count.
        """
        alternatives = every_alternative(arch)
        left = {name: self.wanted if re.search(self.alternatives, name) else 0 for name in alternatives}
        matrix = calibration() if arch == "sm_90a" else kill_matrix()
        rows = rows_of(self.out / "kills.jsonl")
        again = {(run_name(row), a) for row in rows for a in row.get("kills", ())}
        for name, a in alternatives.items():
            for p in matrix["alternatives"].get(name, {"refuted_by": ()})["refuted_by"]:
                about = matrix["programs"][p]
                left[name] -= about["witness"] and (p, name) not in again and name in about["tried"].get(point_digest(a.point), ())
        tries = {name: self.tries or TRIES.get(a.point[:11], MOST_TRIES) for name, a in alternatives.items()}
        for row in rows:
            if (row["arch"] == "sm_90a") == (arch == "sm_90a") and not self._is_stale(row):
                for name, told in row.get("kills", {}).items():
                    if name not in left:  # an alternative that there is no more
                        continue
                    left[name] -= told in REFUTES
                    tries[name] -= told not in REFUTES
        return {"left": left, "tries": tries, "seconds": 20.0, "of_program": 240.0}

    def _environment(self, program: Program, plan: dict[str, Any] | None, place: pathlib.Path) -> dict[str, str]:
        # One thread: children of a process do not have its others.
        threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        path = os.pathsep.join(filter(None, (str(ROOT / "sim"), str(ROOT), os.environ.get("PYTHONPATH"))))
        if plan is None:
            return {**os.environ, **program.environment, "PYTHONPATH": path}
        (place / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        return {**os.environ, **threads, **program.environment, "PYTHONPATH": path, "SMEMSIM_EVIDENCE": str(place / "plan.json")}

    def _suite(self, program: Program, checkout: pathlib.Path, place: pathlib.Path) -> tuple[list[dict[str, Any]], bool]:
        """Rows of its tests, and whether those are all that was to be run: a suite is stopped when time is up, and what
        it has said by then is kept.
        """
        rows = place / "rows.jsonl"
        plan = {
            "out": str(rows),
            "seconds": program.limit,
            "functions": program.functions,
            "chosen": self.tests,
            "done": [] if self.again else sorted(self._done(program)),
            "each": program.each,
            "stand_ins": program.stand_ins,
        }
        if self.kill:
            plan["kill"] = self._left(program.arch)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            PLUGIN,
            "-q",
            "--smemsim-gpu",
            program.arch,
            "--smemsim-on-finding",
            "collect",
        ]
        left = None if self.end == float("inf") else max(1.0, self.end - time.monotonic())
        told, is_over = _run([*command, *program.files], checkout / program.folder, self._environment(program, plan, place), left)
        found = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()] if rows.exists() else []
        if not found:
            print(told[-1500:], file=sys.stderr)
        return found, not (is_over or self.tests)

    def _done(self, program: Program) -> set[str]:
        """Tests of a suite that are known, with the sources as they are."""
        return {row["test"] for row in rows_of(self.path) if row["program"] == program.name and row.get("test") and not self._is_stale(row)}

    def _script(self, program: Program, checkout: pathlib.Path, place: pathlib.Path) -> dict[str, Any]:
        begin = time.perf_counter()
        out = place / "out.json"
        plan = {"out": str(out), "arch": program.arch, "seconds": program.limit, "kill": self._left(program.arch)} if self.kill else None
        code, told, found = self._once(program, checkout, place, plan, program.limit * (1 if plan is None else 5))
        seconds = time.perf_counter() - begin
        about = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
        if plan is None or about.pop("served", False):
            about |= of_launches(found)
        outcome = "over limit" if code is None else "failed" if code else "passed" if about.get("launches") else "nothing launched"
        why = " ".join(COLOURS.sub("", told).split())[-400:] if outcome != "passed" else ""
        if plan is not None and outcome == "passed" and "kills" not in about:
            about["kills"] = self._served(program, checkout, place, plan, sorted(about.get("touched", ())), seconds)
        return {**about, "outcome": outcome, "exit": code, "seconds": round(seconds, 1), "why": why}

    def _served(
        self, program: Program, checkout: pathlib.Path, place: pathlib.Path, plan: dict[str, Any], touched: list[str], seconds: float
    ) -> dict[str, str]:
        """What came of a program whose device is in another process under each alternative that wants it: it is started
        again for each.
        """
        kills, left = {}, plan["kill"]
        for name in sorted(
            touched, key=lambda a: (a.startswith("arithmetic."), -left["left"].get(a, 0), a)
        ):  # comparisons allow for rounding
            if left["left"].get(name, 0) <= 0 or left["tries"].get(name, 0) <= 0 or time.monotonic() > self.end:
                continue
            limit = max(left["seconds"], 6 * seconds)
            code, _, found = self._once(program, checkout, place, {**plan, "assume": name}, limit, "--no-sanitize")
            kills[name] = "over limit" if code is None else "right" if code == 0 else _why(code, found)
        return kills

    def _once(
        self, program: Program, checkout: pathlib.Path, place: pathlib.Path, plan: dict[str, Any] | None, limit: float, *options: str
    ) -> tuple[int | None, str, list[Any]]:
        """The program's own exit code (None: over the limit), what it printed, its launches."""
        command = program.command.replace("{built}", str(self.built and self.built.resolve()))
        if command.startswith("python "):
            command = f"{shlex.quote(sys.executable)} {command.removeprefix('python ')}"
        note, launches = place / "exit", place / "launches.json"
        for old in (note, launches):
            old.unlink(missing_ok=True)
        environment = self._environment(program, plan, place) | ({"SMEMSIM_HOOKS": str(HOOKS)} if plan else {})
        shell = f"{command}; code=$?; echo $code > {shlex.quote(str(note))}; exit $code"
        told, is_over = _run(
            [sys.executable, "-m", "smemsim", "exec", "--arch", program.arch, "--quiet", *options, "--json", str(launches), "--", "sh", "-c", shell],
            checkout / program.folder, environment, limit,
        )  # fmt: skip
        code = int(note.read_text()) if note.exists() and not is_over else None
        about = json.loads(launches.read_text(encoding="utf-8")) if launches.exists() else {}
        return code, told, [SimpleNamespace(**x) for x in about.get("launches", ())]


def _why(code: int, launches: list[Any]) -> str:
    """Why a program ended with another code than 0: its launches, or its own comparison, unless a signal ended it."""
    return outcome_of_launches(launches) or ("ended" if code in SIGNALS else "wrong")


def _run(command: list[str], folder: pathlib.Path, environment: dict[str, str], seconds: float | None) -> tuple[str, bool]:
    """What a process and its children printed, and whether it took too long."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=seconds)[0], False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.communicate()[0], True


def _commit(checkout: pathlib.Path) -> str:
    """The commit of a checkout, "" where it is none of git's."""
    if not (checkout / ".git").exists():
        return ""
    done = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()
