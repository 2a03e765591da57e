"""python -m tools.faults: `run` judges the faults here, `compile` and `card` run them on a GPU under compute-sanitizer,
`table` writes docs/faults.md.

python -m tools.faults run [NAME ...]              # into tests/data/faults.json
python -m tools.faults compile FOLDER              # PTX of every variant, where nvcc is
python -m tools.faults card OUT FOLDER [NAME ...]  # where the GPU is
python -m tools.faults merge OUT                   # its results into tests/data/faults.json
python -m tools.faults table
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import sys
from typing import Any

from tools.faults.planted import all_planted, compiled
from tools.faults.table import DATA, NOISE, PAGE, page, results


def _write(told: dict[str, Any]) -> None:
    rows = [f" {json.dumps(key)}: {json.dumps(told[key], sort_keys=True)}" for key in ("device",)]
    for part in ("card", "here"):
        body = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row, sort_keys=True)}" for name, row in sorted(told[part].items()))
        rows.append(f' "{part}": {{\n{body}\n }}')
    DATA.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def run(names: list[str], folder: pathlib.Path | None = None) -> None:
    """Judge every variant of the kernels named, all without a name."""
    from tools.faults.here import judged

    told = results() if DATA.exists() else {"device": {}, "card": {}, "here": {}}
    for kernel in all_planted():
        if names and kernel.name not in names:
            continue
        told["here"] = {name: row for name, row in told["here"].items() if name.split("/")[0] != kernel.name}
        for fault in (None, *kernel.faults):
            number = fault.number if fault else 0
            kept = folder / f"{kernel.name}_{number}.ptx" if folder else None
            verdict = judged(kernel, fault, kept.read_text() if kept is not None and kept.exists() else "")
            first = verdict.told[0] if verdict.found else ("", 0, "")
            told["here"][f"{kernel.name}/{number}"] = {
                "found": verdict.found, "right": verdict.right, "code": first[0], "line": first[1], "equal": verdict.is_equal,
            }  # fmt: skip
        _write(told)


def _kept(said: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a tool's run: how it ended, its lines and its first reports of the kernel."""
    reports = [text[:90] for text in said.get("reports", []) if not any(word in text for word in NOISE)]
    kept = {"ends": said["ends"], "lines": said.get("lines", []), "reports": reports[:2]}
    return {key: value for key, value in kept.items() if value}


def merge(out: pathlib.Path) -> None:
    """The results of a card into the data: lines and the first reports, and how each run ended."""
    new, told = json.loads(out.read_text()), results() if DATA.exists() else {"device": {}, "card": {}, "here": {}}
    told["device"] = new.pop("device")
    for name, row in new.items():
        told["card"][name] = {tool: _kept(said) for tool, said in row.items()}
    known = {f"{kernel.name}/{n}" for kernel in all_planted() for n in (0, *(fault.number for fault in kernel.faults))}
    told["card"] = {name: row for name, row in told["card"].items() if name in known}
    _write(told)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "compile", "card", "once", "merge", "table"))
    parser.add_argument("args", nargs="*")
    parser.add_argument("--tools", default="plain,memcheck,racecheck,synccheck,initcheck")
    parser.add_argument("--ptx", type=pathlib.Path, help="a folder with PTX that `compile` made")
    given = parser.parse_args()
    if given.what in ("run", "compile") and given.ptx is None and shutil.which("nvcc") is None:
        sys.exit("nvcc is not on the PATH: it compiles the kernels")
    match given.what:
        case "once":
            from tools.faults.card import main_once

            main_once(*given.args)
        case "card":
            from tools.faults.card import on_card

            out, folder, *names = given.args
            on_card(pathlib.Path(out), pathlib.Path(folder), names, given.tools.split(","))
        case "run":
            run(given.args, given.ptx)
        case "merge":
            merge(pathlib.Path(given.args[0]))
        case "compile":
            for kernel in all_planted():
                for n in (0, *(fault.number for fault in kernel.faults)):
                    (pathlib.Path(given.args[0]) / f"{kernel.name}_{n}.ptx").write_text(compiled(kernel, n))
        case "table":
            PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
