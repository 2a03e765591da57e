"""A fixed sample of Triton's own tests, and its tutorials, on the virtual GPU: one table of what passes.

    python -m tools.field.triton ~/triton --keep DIR             # the sample, on both architectures: hours; a next run goes on
    python -m tools.field.triton ~/triton --arch sm_90a --only language/test_core
    python -m tools.field.triton ~/triton --tutorials            # 01 to 11, as scripts
    python -m tools.field.triton ~/triton --draw > tools/field/triton_sample.txt

The sample is `triton_sample.txt`: from all files in turn a function that was not drawn yet, and one set of its
parameters, until there are 300. Each folder is a process of pytest; outcomes are kept as they come (`suites.py`). A
test fails where it fails by itself and where a kernel of it has findings, as `pytest --smemsim-gpu` has it.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence

from tools.field.suites import Outcome, pytest_of, run

__all__ = ["draw"]


SAMPLE = pathlib.Path(__file__).with_name("triton_sample.txt")
SUITES = (
    "python/test/unit/language",
    "python/test/unit/runtime",
    "python/test/unit/cuda",
    "python/test/gluon",
    "python/triton_kernels/tests",
)
LEFT_OUT = re.compile(
    r"_(compile_errors|compile_only|frontend|decorator|cdna\d|gfx\d+|format_view|opt_flags\w*)\.py$"
)  # of files: they launch nothing
COUNT = 300


def draw(tests: Iterable[str], count: int = COUNT) -> list[str]:
    """Tests by their ids: of each file in turn a function not drawn yet, and one of its ids. The same ones for the same
    tests.

    >>> draw(["a.py::f[0]", "a.py::f[1]", "b.py::g", "a.py::h"], 2)
    ['a.py::h', 'b.py::g']
    """
    functions: dict[str, dict[str, list[str]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for test in sorted(set(tests)):
        functions[test.partition("::")[0]][test.partition("[")[0]].append(test)
    queues = []
    for file, of_file in sorted(functions.items()):
        dice = random.Random(f"smemsim {file}")
        queues.append([dice.choice(of_file[name]) for name in dice.sample(sorted(of_file), len(of_file))])
    turns = [queue[n] for n in range(max(map(len, queues), default=0)) for queue in queues if n < len(queue)]
    return sorted(turns[:count])


def _collected(checkout: pathlib.Path) -> list[str]:
    """The ids of all tests that can be imported."""
    found = []
    for suite in SUITES:
        told = subprocess.run(
            pytest_of("sm_100a", "--collect-only", "--continue-on-collection-errors", suite),
            cwd=checkout, capture_output=True, text=True, errors="replace", check=False,
        ).stdout  # fmt: skip
        ids = [line.strip() for line in told.splitlines() if "::" in line and line.startswith("python/")]
        found += [test for test in ids if not LEFT_OUT.search(test.partition("::")[0])]
        for line in told.splitlines():
            if line.startswith("ERROR "):
                print(f"left out: {line.removeprefix('ERROR ')}", file=sys.stderr)
    return found


def _counts(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(f"{n} {name}" for name, n in collections.Counter(x.outcome for x in outcomes).most_common())


def _table(by_arch: dict[str, list[Outcome]]) -> str:
    """A row for each file and architecture, then each test that did not pass."""
    names = ("passed", "failed", "over limit", "not run", "skipped")
    rows = [("file", "arch", *names, "seconds")]
    for arch, outcomes in by_arch.items():
        files = collections.defaultdict(list)
        for x in outcomes:
            files[x.test.partition("::")[0].removeprefix("python/")].append(x)
        for file, of_file in [*files.items(), ("all", outcomes)]:
            counts = collections.Counter(x.outcome for x in of_file)
            rows.append((file, arch, *(str(counts[name] or "") for name in names), f"{sum(x.seconds for x in of_file):.0f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for arch, outcomes in by_arch.items():
        lines += ["", *(f"{arch} {x.test}: {x.outcome}, {x.why[:200]}" for x in outcomes if x.outcome not in ("passed", "skipped"))]
    return "\n".join(lines)


def _tutorials(checkout: pathlib.Path, arch: str, limit: float, only: str) -> list[Outcome]:
    """Triton's tutorials as scripts under `smemsim exec`."""
    outcomes = []
    for script in sorted((checkout / "python" / "tutorials").glob("[0-9]*.py")):
        if only not in script.name:
            continue
        begin = time.perf_counter()
        command = [sys.executable, "-m", "smemsim", "exec", "--arch", arch, "--", sys.executable, script.name]
        try:
            done = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, timeout=limit, check=False)
            last = (done.stderr.strip().splitlines() or [""])[-1]
            outcome = Outcome(f"tutorials/{script.name}", "failed" if done.returncode else "passed", last, time.perf_counter() - begin)
        except subprocess.TimeoutExpired:
            outcome = Outcome(f"tutorials/{script.name}", "over limit", f"{limit:g} s", time.perf_counter() - begin)
        outcomes.append(outcome)
        print(f"{arch} {outcome.test}: {outcome.outcome} in {outcome.seconds:.0f} s, {outcome.why}", file=sys.stderr, flush=True)
    return outcomes


def _outcomes(checkout: pathlib.Path, arch: str, kept: pathlib.Path, given: argparse.Namespace) -> list[Outcome]:
    """Of tutorials or tests, on one card."""
    if given.tutorials:
        return _tutorials(checkout, arch, given.limit or 600, given.only)
    tests = [test for test in SAMPLE.read_text(encoding="utf-8").splitlines() if given.only in test]
    outcomes = []
    for suite in SUITES:
        if chosen := [test for test in tests if test.startswith(suite)]:
            begin = time.perf_counter()
            outcomes += run(checkout, arch, chosen, kept, limit=given.limit or 60, again=given.again)
            of_suite = outcomes[-len(chosen) :]
            print(f"{arch} {suite}: {_counts(of_suite)} in {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("checkout", type=pathlib.Path, help="a checkout of Triton, of the version that is installed")
    parser.add_argument("--arch", nargs="+", default=["sm_90a", "sm_100a"])
    parser.add_argument("--only", default="", metavar="TEXT", help="tests, or tutorials, with this in their id")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="of processor time for a test (60), of time for a tutorial (600)")
    parser.add_argument(
        "--keep", type=pathlib.Path, metavar="DIR", help="outcomes of tests as they come; what has one there is not run again"
    )
    parser.add_argument("--again", nargs="*", default=[], metavar="OUTCOME", help="... but for these: failed, 'over limit', 'not run'")
    parser.add_argument("--tutorials", action="store_true", help="the tutorials in place of the sample")
    parser.add_argument("--draw", action="store_true", help="print a sample of the checkout's tests")
    parser.add_argument("--json", type=pathlib.Path, help="write all outcomes to this file")
    given = parser.parse_args()
    checkout = given.checkout.resolve()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # processes of pytest end with this one
    if not (checkout / "python" / "tutorials").is_dir():
        sys.exit(f"{given.checkout}: no checkout of Triton: python/tutorials is not there")
    if given.draw:
        print("\n".join(draw(_collected(checkout))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        kept = given.keep or pathlib.Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        by_arch = {arch: _outcomes(checkout, arch, kept / f"{arch}.jsonl", given) for arch in given.arch}
    if given.json:
        given.json.write_text(json.dumps({arch: [vars(x) for x in xs] for arch, xs in by_arch.items()}, indent=1), encoding="utf-8")
    print(_table(by_arch))
    return 1 if any(x.outcome == "failed" for xs in by_arch.values() for x in xs) else 0


if __name__ == "__main__":
    sys.exit(main())
