"""Compiles every launch to PTX and writes NAME/kernel.ptx and NAME/launch.json into a folder.

    python tools/capture/launch_kernels/build.py --out golden/sm_90a/launches/kernels [--suite SUITE] [NAME ...]

CUDA C++ needs nvcc 13.0, Triton kernels triton 3.9 (no GPU); what cannot be compiled is said, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

from tools.capture.launch_kernels import all_launches  # noqa: F401 - registers them
from tools.capture.launch_kernels.spec import LAUNCHES, Launch

HERE = pathlib.Path(__file__).resolve().parent


def nvcc(launch: Launch) -> str:
    """PTX of a CUDA C++ file; the comments in which nvcc names its build are cut."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "kernel.ptx"
        code = "-gencode=arch=compute_90a,code=compute_90a"
        defines = [f"-D{d}" for d in launch.defines]
        command = ["nvcc", "-ptx", code, "-std=c++17", "-O3", "-I", str(HERE / "cuda"), "-I", str(HERE.parent), *defines]
        done = subprocess.run([*command, "-o", str(out), str(HERE / launch.source)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-400:])
        return only(str(launch.config.entry), re.sub(r"\A//.*?(?=\.version)", "", out.read_text(), flags=re.DOTALL))


def only(entry: str, ptx: str) -> str:
    """The text without the other kernels of a source file."""
    parts = re.split(r"(?=^\.visible \.entry )", ptx, flags=re.MULTILINE)
    return "".join(part for part in parts if not part.startswith(".visible .entry") or f".entry {entry}(" in part)


def parameters(entry: str, ptx: str) -> int:
    """How many parameters an entry declares."""
    found = re.search(rf"\.entry {entry}\s*\((.*?)\)", ptx, flags=re.DOTALL)
    return found[1].count(".param") if found else 0


def assembles(ptx: str) -> str:
    """What ptxas has against it, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        done = subprocess.run(
            ["ptxas", "-arch=sm_90a", str(path), "-o", str(path.with_suffix(".cubin"))], capture_output=True, text=True, check=False
        )
        return done.stderr[-400:] if done.returncode else ""


def build(launch: Launch, out: pathlib.Path) -> str:
    try:
        if launch.source.startswith("triton:"):
            from tools.capture.launch_kernels import triton_build

            ptx, launch = triton_build.compiled(launch)
        elif launch.source.endswith(".ptx"):
            ptx = (HERE / launch.source).read_text()
        else:
            ptx = nvcc(launch)
    except Exception as e:  # the compilers' own errors, of every kind
        return f"{launch.name}: {e}"
    given, declared = len(launch.args), parameters(str(launch.config.entry), ptx)
    wrong = assembles(ptx) or (f"{given} arguments for {declared} parameters" if given != declared else "")
    if wrong:
        return f"{launch.name}: {wrong}"
    folder = out / launch.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.ptx").write_text(ptx)
    (folder / "launch.json").write_text(launch.json())
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--suite", default="launches")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    chosen = [x for x in LAUNCHES.values() if x.suite == asked.suite and (not asked.names or x.name in asked.names)]
    if importlib.util.find_spec("triton") is None:
        print("no Triton here: its kernels are left as they are", file=sys.stderr)
        chosen = [x for x in chosen if not x.source.startswith("triton:")]
    plain = [x for x in chosen if not x.source.startswith("triton:")]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = list(pool.map(lambda x: build(x, asked.out), plain))
    wrong += [build(x, asked.out) for x in chosen if x not in plain]
    for line in filter(None, wrong):
        print(line, file=sys.stderr)
    print(f"{len(chosen) - sum(map(bool, wrong))} of {len(chosen)} launches written to {asked.out}")
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
