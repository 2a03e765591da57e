"""The corpus: small launches and scenarios whose facts are kept (tests/run/test_corpus.py).

- Show a case: `python tests/support/corpus.py show ctas-3.1 /tmp/case`, then `smemsim run /tmp/case/launch.json` or
  `smemsim check /tmp/case/scenario.toml`.
- Add one: `python tests/support/corpus.py add NAME FOLDER`. The folder has kernel.ptx and launch.json (without .npy
  files), or scenario.toml. Then `pytest tests/run/test_corpus.py --snapshot-update`.

`programs.json.xz` has the kernels and scenarios, `cases.json` the changes of them: [case, program, {line: text},
{key of the launch file: value}]. Further keys: "counts" also counts the cost of each line, "tiers" is SMEMSIM_TIERS,
"command" is a command line to run beside the files, "against" compares with what the unchanged kernel leaves.
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

import numpy as np
import pytest
from click.testing import CliRunner

import smemsim
from facts import assert_whole, checked, claims, facts, named
from places import TESTS
from smemsim.cli import main as smemsim_command

__all__ = ["Case", "cases", "programs", "told", "written"]

FOLDER = TESTS / "data" / "corpus"
LIMIT = 4_000  # blocks of instructions: a kernel that hangs ends soon
OPTIONS = ("against", "command", "counts", "tiers")  # keys of a case that are no keys of a launch file
# results that need not be the same on every machine
_VARIES = re.compile(r"\b(in )?\d+\.\d+ s\b|(?<=sha256:)[0-9a-f]+")
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
    """Write the files of a case: kernel.ptx and launch.json, or scenario.toml, or none. Is it a launch?

    "against" names arrays: what the unchanged kernel leaves there is what is expected.
    """
    text, launch = programs()[case.of] if case.of else ("", {})
    if wanted := case.given.get("against"):
        _write(text, launch, folder)
        _, arrays = smemsim.launch_file(folder, progress=False, workers=1, sanitize=False)
        for name in wanted:
            np.save(folder / f"{name}.npy", arrays[name].numpy())
    lines = text.split("\n")
    for n, line in case.lines.items():
        lines[n - 1] = line
    _write(
        "\n".join(lines), {**launch, **{key: value for key, value in case.given.items() if key not in OPTIONS}} if launch else {}, folder
    )
    return bool(launch)


def _write(text: str, launch: dict[str, Any], folder: pathlib.Path) -> None:
    if launch:
        (folder / "launch.json").write_text(json.dumps({"limit": LIMIT, **launch}), encoding="utf-8")
    if text:
        (folder / ("kernel.ptx" if launch else "scenario.toml")).write_text(text, encoding="utf-8")


def told(case: Case, folder: pathlib.Path, patch: pytest.MonkeyPatch) -> tuple[str, str]:
    """What a case finds, and what the findings claim of it. Of a launch also what was checked, and digests of its
    arrays and of its counters. Of a case that is refused, what the sentence names. Of a command, what it prints and
    writes.
    """
    patch.setenv("SMEMSIM_TIERS", case.given.get("tiers", "closures"))
    patch.setenv("SMEMSIM_LLVM_LEVEL", "0")
    try:
        is_launch = written(case, folder)
        if "command" in case.given:
            patch.chdir(folder)
            for limit in ("trials.trial.MOST_SECONDS", "gpu.LONGEST", "gpu.LONGEST_LATER"):  # a busy machine tries the same
                patch.setattr(f"smemsim.diagnosis.{limit}", 1000.0)
            command = [*case.given["command"], *(f"--expect={name}={name}.npy" for name in case.given.get("against", ()))]
            return _said(command, folder), ""
        return _launched(folder, counts=case.given.get("counts", False)) if is_launch else _judged(folder / "scenario.toml")
    except smemsim.SmemsimError as e:
        return f"{type(e).__name__}: {named(str(e))}", ""


def _said(command: list[str], folder: pathlib.Path) -> str:
    """What a command line names, and a digest of each file that it writes."""
    before = {*folder.iterdir()}
    done = CliRunner().invoke(smemsim_command, command, prog_name="smemsim")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    files = [f"{path.name} {_digest(named(path.read_text(encoding='utf-8')).encode())}" for path in sorted({*folder.iterdir()} - before)]
    lines = [named(_VARIES.sub("", line)) for line in done.output.splitlines() if not line.startswith("smemsim explain")]
    return "\n".join([f"exit {done.exit_code}", *filter(None, lines), *files])


def _launched(folder: pathlib.Path, *, counts: bool) -> tuple[str, str]:
    run, arrays = smemsim.launch_file(folder, counters=counts, progress=False, workers=1)
    left = [f"status {run.launch.status}"]
    if not _INEXACT.search((folder / "kernel.ptx").read_text(encoding="utf-8")):
        left += [f"{name} {_digest(array.numpy().tobytes())}" for name, array in arrays.items()]
    if counts:
        left.append(f"counters {_digest(repr([run.counters[name].tolist() for name in run.counters.columns]).encode())}")
    return "\n".join(filter(None, (facts(run), checked(run), ", ".join(left)))), claims((*run.findings, *run.remarks))


def _judged(path: pathlib.Path) -> tuple[str, str]:
    report = smemsim.check(path)
    for f in (*report.findings, *report.remarks):
        assert_whole(f)
    lines = [
        f"{f.code} {f.severity.name.lower()}: {named(str(f).strip().removeprefix(f.code))}" for f in (*report.findings, *report.remarks)
    ]
    return "\n".join(lines) or "no findings", claims((*report.findings, *report.remarks))


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
