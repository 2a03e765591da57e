"""Compile every case in a process of its own (compilers abort) and write its folder.

    python build.py OUT [--only PATTERN] [--raw]
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import pathlib
import subprocess
import sys
import traceback
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
MODULES = ("triton_matmuls", "triton_kernels", "gluon_mma", "gluon_moves", "cuda_kernels")


def cases(module: str) -> dict[str, Any]:
    return {c.name: c for c in importlib.import_module(module).CASES}


def tidy(launch: dict[str, Any]) -> str:
    """JSON with one argument, array and result a line."""

    def lines(value: Any, depth: int) -> str:
        if isinstance(value, dict) and value and depth < 2:
            inner = ",\n".join(f"{'  ' * (depth + 1)}{json.dumps(k)}: {lines(v, depth + 1)}" for k, v in value.items())
            return "{\n" + inner + "\n" + "  " * depth + "}"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join("  " * (depth + 1) + json.dumps(v) for v in value) + "\n" + "  " * depth + "]"
        return json.dumps(value)

    return lines(launch, 0) + "\n"


def one(module: str, name: str, out: pathlib.Path, raw: bool) -> None:
    case = cases(module)[name]
    if module == "cuda_kernels":
        from cuda_kernels import compiled
    else:
        from compiling import compiled
    text, ptx, launch = compiled(case)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.ptx").write_text(ptx)
    (folder / "launch.json").write_text(tidy({"name": name} | launch))
    if raw:
        (folder / "kernel.raw.ptx").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="*")
    parser.add_argument("--module", default="")
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--one", default="", help="this case of --module, in this process")
    options = parser.parse_args()
    if options.one:
        one(options.module, options.one, options.out, options.raw)
        return
    failed = 0
    for module in [options.module] if options.module else MODULES:
        if not (HERE / f"{module}.py").exists():
            continue
        for name in cases(module):
            if not fnmatch.fnmatch(name, options.only):
                continue
            command = [sys.executable, str(HERE / "build.py"), str(options.out), "--module", module, "--one", name]
            made = subprocess.run(command + ["--raw"] * options.raw, capture_output=True, text=True, check=False)
            last = [x for x in made.stderr.strip().splitlines() if x.strip()][-1:] or [""]
            failed += made.returncode != 0
            print("ok  " if made.returncode == 0 else "FAIL", name, "" if made.returncode == 0 else f"({made.returncode}) {last[0][:300]}", flush=True)
            if made.returncode:
                (pathlib.Path("/tmp") / f"fail_{name}.txt").write_text(made.stdout + made.stderr)
    sys.exit(bool(failed))


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
