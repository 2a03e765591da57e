"""Tests of others in processes of pytest, whose outcomes are kept as they come: what ends a process costs one test.

kept/sm_90a.jsonl       a line of JSON when a test begins, and one when it is over (`limit.py` writes them); the last one of a test counts
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

__all__ = ["Outcome", "pytest_of", "run"]


OURS = re.compile(r"\b[XRTHDW]\d{3}\b")  # codes of findings
# times the limit: what a test and processes of its own may take of processor time, in compiled code too
WITH_CHILDREN = 3
BEGIN = 300.0  # seconds of processor time to the first test
STILL = 3600.0  # seconds in which nothing came of a test, however busy the machine is


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a test: "passed", "failed", "skipped", "over limit" or "not run"; `why` in a line; `seconds` of
    processor time.
    """

    test: str
    outcome: str
    why: str = ""
    seconds: float = 0.0

    @property
    def codes(self) -> list[str]:
        """The codes of findings that failed it."""
        return sorted(set(OURS.findall(self.why)))


def pytest_of(arch: str, *arguments: str) -> list[str]:
    """The command that runs pytest on a card."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--smemsim-gpu", arch, *arguments]


def _lines(kept: pathlib.Path) -> Iterator[Outcome]:
    """What is in a file of outcomes, but for lines that a process was killed in."""
    if kept.exists():
        for line in kept.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                yield Outcome(**json.loads(line))


def _tell(kept: pathlib.Path, outcome: Outcome) -> None:
    with kept.open("a", encoding="utf-8") as out:
        out.write(json.dumps(dataclasses.asdict(outcome)) + "\n")


def run(
    checkout: pathlib.Path, arch: str, tests: Sequence[str], kept: pathlib.Path, *, limit: float = 60, again: Sequence[str] = ()
) -> list[Outcome]:
    """What became of `tests`, by their ids in `checkout`. What has an outcome in `kept` is not run again, but for the
    outcomes `again`.

    `limit` is seconds of processor time a test. A test that ends its process, or holds it for longer, is told so, and
    the others go on in a next one.
    """
    had = {x.test: x for x in _lines(kept)}
    left = [test for test in tests if test not in had or had[test].outcome in ("began", *again)]
    while left:
        before = sum(1 for _ in _lines(kept))
        told = _process(checkout, arch, left, kept, limit)
        new = list(_lines(kept))[before:]
        begun = new[-1] if new and new[-1].outcome == "began" else None
        if begun is not None:
            end = (
                ("over limit", f"over {WITH_CHILDREN * limit:g} s with its processes")
                if told is None
                else ("failed", f"the process ended: {told}")
            )
            _tell(kept, Outcome(begun.test, *end))
        over = {x.test for x in new}
        left = [test for test in left if test not in over]
        if begun is None:
            for test in left:
                _tell(kept, Outcome(test, "not run", f"not there on this card, or with its file: {told}"))
            break
    done = {x.test: x for x in _lines(kept)}
    return [done[test] for test in tests]


def _process(checkout: pathlib.Path, arch: str, tests: Sequence[str], kept: pathlib.Path, limit: float) -> str | None:
    """Run them; the end of what pytest printed, None where it was ended."""
    here = str(pathlib.Path(__file__).parents[2])
    with tempfile.TemporaryDirectory() as name, open(pathlib.Path(name) / "told", "w+", encoding="utf-8", errors="replace") as told:
        chosen = pathlib.Path(name) / "tests"
        chosen.write_text("\n".join(tests), encoding="utf-8")
        environment = {
            "SMEMSIM_FIELD_SECONDS": str(limit), "SMEMSIM_FIELD_FILE": str(kept.resolve()), "SMEMSIM_FIELD_TESTS": str(chosen),
            "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH")))),
        }  # fmt: skip
        files = sorted({test.partition("::")[0] for test in tests})
        with subprocess.Popen(
            pytest_of(arch, "-p", "tools.field.limit", "--tb=short", "--continue-on-collection-errors", *files),
            cwd=checkout, env={**os.environ, **environment}, stdout=told, stderr=subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            in_time = False
            try:
                in_time = _wait(process, kept, limit)
            finally:
                if not in_time:  # Ctrl-C too
                    os.killpg(process.pid, signal.SIGKILL)
        told.seek(0)
        return " ".join(told.read()[-600:].split()) if in_time else None


def _wait(process: subprocess.Popen[bytes], kept: pathlib.Path, limit: float) -> bool:
    """Whether it came to its end by itself: as long as lines come in time, it may go on."""
    size, since, had, most = -1, time.monotonic(), 0.0, BEGIN + WITH_CHILDREN * limit
    while True:
        try:
            process.wait(timeout=1)
            return True
        except subprocess.TimeoutExpired:
            now, spent = kept.stat().st_size if kept.exists() else 0, _spent(process.pid)
            if now != size:
                most = WITH_CHILDREN * limit if size >= 0 else most
                size, since, had = now, time.monotonic(), spent
            elif spent - had > most or time.monotonic() - since > STILL:
                return False


def _spent(group: int) -> float:
    """Processor time of a process group, its ended processes included (proc_pid_stat(5))."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
