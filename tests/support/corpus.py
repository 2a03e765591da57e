"""The corpus: small launches and scenarios whose facts are kept (tests/run/test_corpus.py).

- Show a case: `python tests/support/corpus.py show ctas-3.1 /tmp/case`, then `smemsim run /tmp/case/launch.json` or
  `smemsim check /tmp/case/scenario.toml`.
- Add one: `python tests/support/corpus.py add NAME FOLDER`. The folder has kernel.ptx and launch.json (without .npy
  files), or scenario.toml. Then `pytest tests/run/test_corpus.py --snapshot-update`.

`programs.json.xz` has the kernels and scenarios, `cases.json` the changes of them: [case, program, {line: text},
{key of the launch file: value}]. "counts" also counts the cost of each line, "tiers" is SMEMSIM_TIERS.
"""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import pathlib
import re
import sys
from typing import Any, NamedTuple

import pytest

import smemsim
from facts import checked, facts, named
from places import TESTS

__all__ = ["Case", "cases", "programs", "told", "written"]

FOLDER = TESTS / "data" / "corpus"
LIMIT = 4_000  # blocks of instructions: a kernel that hangs ends soon
OPTIONS = ("counts", "tiers")  # keys of a case that are no keys of a launch file
# results that need not be the same on every machine
_INEXACT = re.compile(r"\.approx|\.full\b|\btanh\.")


class Case(NamedTuple):
    """One case: its name, the program (a kernel with its launch, or a scenario) that it changes, the changed lines by
    number, and the changed keys of the launch.
    """

    name: str
    of: str
    lines: dict[int, str]
    given: dict[str, Any]


@functools.cache
def programs() -> dict[str, tuple[str, dict[str, Any]]]:
    """(text, launch file) of each program, by name. The text is PTX; a scenario has no launch file."""
    packed = json.loads(lzma.decompress((FOLDER / "programs.json.xz").read_bytes()))
    return {name: (text, launch) for name, text, launch in packed}


@functools.cache
def cases() -> tuple[Case, ...]:
    """All cases, in the order of their file."""
    rows = json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))
    return tuple(Case(name, of, {int(n): text for n, text in lines.items()}, given) for name, of, lines, given in rows)


def written(case: Case, folder: pathlib.Path) -> bool:
    """Write the files of a case: kernel.ptx and launch.json, or scenario.toml. Is it a launch?"""
    text, launch = programs()[case.of]
    lines = text.split("\n")
    for n, line in case.lines.items():
        lines[n - 1] = line
    if launch:
        keys = {**launch, **{key: value for key, value in case.given.items() if key not in OPTIONS}}
        (folder / "launch.json").write_text(json.dumps({"limit": LIMIT, **keys}), encoding="utf-8")
    (folder / ("kernel.ptx" if launch else "scenario.toml")).write_text("\n".join(lines), encoding="utf-8")
    return bool(launch)


def told(case: Case, folder: pathlib.Path, patch: pytest.MonkeyPatch) -> str:
    """What a case finds. Of a launch also what was checked, and digests of its arrays and of its counters. Of a case
    that is refused, what the sentence names.
    """
    patch.setenv("SMEMSIM_TIERS", case.given.get("tiers", "closures"))
    patch.setenv("SMEMSIM_LLVM_LEVEL", "0")
    try:
        return _launched(folder, counts=case.given.get("counts", False)) if written(case, folder) else _judged(folder / "scenario.toml")
    except smemsim.SmemsimError as e:
        return f"{type(e).__name__}: {named(str(e))}"


def _launched(folder: pathlib.Path, *, counts: bool) -> str:
    run, arrays = smemsim.launch_file(folder, counters=counts, progress=False, workers=1)
    left = [f"status {run.launch.status}"]
    if not _INEXACT.search((folder / "kernel.ptx").read_text(encoding="utf-8")):
        left += [f"{name} {_digest(array.numpy().tobytes())}" for name, array in arrays.items()]
    if counts:
        left.append(f"counters {_digest(repr([run.counters[name].tolist() for name in run.counters.columns]).encode())}")
    return "\n".join(filter(None, (facts(run), checked(run), ", ".join(left))))


def _judged(path: pathlib.Path) -> str:
    report = smemsim.check(path)
    lines = [
        f"{f.code} {f.severity.name.lower()}: {named(str(f).strip().removeprefix(f.code))}" for f in (*report.findings, *report.remarks)
    ]
    return "\n".join(lines) or "no findings"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def _add(name: str, folder: pathlib.Path) -> None:
    """A new program, and a case of it without changes."""
    is_launch = (folder / "launch.json").exists()
    text = (folder / ("kernel.ptx" if is_launch else "scenario.toml")).read_text(encoding="utf-8")
    launch = json.loads((folder / "launch.json").read_text(encoding="utf-8")) if is_launch else {}
    every = sorted([*([n, *rest] for n, rest in programs().items() if n != name), [name, text, launch]])
    rows = sorted([*(case for case in cases() if case.of != name), Case(f"{name}.1", name, {}, {})])
    FOLDER.joinpath("programs.json.xz").write_bytes(lzma.compress(json.dumps(every).encode(), preset=9 | lzma.PRESET_EXTREME))
    FOLDER.joinpath("cases.json").write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    command, name, to = sys.argv[1:]
    if command == "add":
        _add(name, pathlib.Path(to))
    else:
        pathlib.Path(to).mkdir(parents=True, exist_ok=True)
        written(next(case for case in cases() if case.name == name), pathlib.Path(to))
