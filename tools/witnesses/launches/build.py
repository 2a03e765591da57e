"""Compile every case in a process of its own (compilers abort) and write its folder.

    python tools/witnesses/launches/build.py OUT [--only PATTERN] [--module MODULE] [--raw]

Needs triton 3.9.0, nvcc 13.0 on the path, and for the kit's kernel cuda-bindings; no GPU. `--raw` also writes
kernel.raw.ptx, the text as the compiler gave it, with debug sections and the paths of this machine.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import multiprocessing
import pathlib
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
MODULES = ("triton_matmuls", "triton_kernels", "gluon_mma", "gluon_clusters", "gluon_pipelines", "gluon_moves", "gluon_tma", "cuda_kernels")


def cases(module: str) -> dict[str, Any]:
    return {c.name: c for c in importlib.import_module(f"tools.witnesses.launches.{module}").CASES}


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
        from tools.witnesses.launches.cuda_kernels import compiled
    else:
        from tools.witnesses.launches.compiling import compiled
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
    options = parser.parse_args()
    failed = 0
    for module in [options.module] if options.module else MODULES:
        if not (HERE / f"{module}.py").exists():
            continue
        importlib.import_module(
            f"tools.witnesses.launches.{'cuda_kernels' if module == 'cuda_kernels' else 'compiling'}"
        )  # once, before the processes part
        for name in cases(module):
            if not fnmatch.fnmatch(name, options.only):
                continue
            child = multiprocessing.get_context("fork").Process(target=one, args=(module, name, options.out, options.raw))
            child.start()
            child.join()
            failed += child.exitcode != 0
            print(f"FAILED {name}: exit code {child.exitcode}" if child.exitcode else name, flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
