"""What Nsight Compute's source page says of single memory accesses, many to a launch: the suite `access_lines`.

    python -m tools.capture.counter_lines --build FOLDER      # anywhere: the kernels, their machine code and its lines
    python -m tools.capture.counter_lines --out golden/sm_90a --built FOLDER

One kernel for each form of an access; its accesses stand one after the other, each on a line of its own, and take their
addresses from a table in global memory.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from smemsim.evidence.format import write_suite
from smemsim.run.engine.launch import LaunchConfig
from smemsim.testing.recorder import Gpu
from tools.capture.counter_forms import FORMS, Form, unrolled
from tools.capture.counter_launches import METRICS, dumped, lines_of
from tools.capture.counter_suite import HEADER, cases_of, table_of
from tools.capture.launch_suite import assembler

HERE = pathlib.Path(__file__).resolve().parent
TITLE = "Single memory accesses: shared wavefronts and global sectors, as Nsight Compute's source page has them, a line an access"
FAMILIES = ("ld", "st", "ldmatrix", "stmatrix", "atom", "red", "cp.async", "remote", "own", "st.async")
_MEMORY = re.compile(r"\b(LDS|STS|LDSM|STSM|ATOMS|LDG|STG|ATOMG|REDG|RED|ATOM|LDGSTS|LD|ST|STAS|HGMMA|QGMMA|IGMMA)\b")


def forms() -> list[tuple[int, Form]]:
    """The forms that can stand in a row."""
    return [(n, f) for n, f in enumerate(FORMS) if f.family in FAMILIES]


def build(folder: pathlib.Path, seed: int, most: int) -> None:
    """Write the text, the machine code and the lines of every kernel."""
    folder.mkdir(parents=True, exist_ok=True)
    text = HEADER + "".join(unrolled(n, f, len(cases_of(f, seed, most))) for n, f in forms())
    (folder / "lines.ptx").write_text(text)
    subprocess.run(["ptxas", "-arch=sm_90a", "-lineinfo", str(folder / "lines.ptx"), "-o", str(folder / "lines.cubin")], check=True)
    shown = subprocess.run(["nvdisasm", "-gp", "-c", str(folder / "lines.cubin")], check=True, capture_output=True, text=True).stdout
    at = {f"u_{n}": lines_of(shown, f"u_{n}") for n, _ in forms()}
    (folder / "lines.json").write_text(json.dumps({"seed": seed, "most": most, "lines": at}))


def run(folder: pathlib.Path) -> None:
    """The process that ncu looks at: one launch of every kernel."""
    about = json.loads((folder / "lines.json").read_text())
    gpu = Gpu()
    module, memory = gpu.load((folder / "lines.cubin").read_bytes()), gpu.allocate(1 << 20, 0)
    for n, form in forms():
        data = b"".join(table_of(case) for case in cases_of(form, about["seed"], about["most"]))
        tables = gpu.allocate(len(data))
        gpu.put(tables, np.frombuffer(data, np.uint8))
        args = [struct.pack("<Q", tables), struct.pack("<Q", memory)]
        code = gpu.execute(
            module.kernel(f"u_{n}"),
            LaunchConfig(grid=form.ctas, block=form.threads, cluster=form.ctas if form.ctas > 1 else None, args=args),
        )
        if code:
            raise SystemExit(f"{form.name}: CUDA error {code}")


def rows(folder: pathlib.Path, said: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """The cases, and of each [text of the machine instruction, metrics ...]."""
    about = json.loads((folder / "lines.json").read_text())
    text = (folder / "lines.ptx").read_text().splitlines()
    cases, out = [], []
    for (n, form), one in zip(forms(), said, strict=True):
        by_pc = [{int(pc): int(v) for pc, v in one["metrics"].get(name, {}).items()} for name in METRICS.values()]
        begin = min(by_pc[0])
        found: dict[int, list[Any]] = {}
        for offset, (line, sass) in about["lines"][f"u_{n}"].items():
            case = re.search(r"// case (\d+)$", text[line - 1])
            if case is None or not _MEMORY.search(sass):
                continue
            values = [m.get(begin + int(offset), 0) for m in by_pc]
            kept = found.get(int(case[1]))
            found[int(case[1])] = (
                [f"{kept[0]}; {sass[:40]}", *(a + b for a, b in zip(kept[1:], values, strict=True))] if kept else [sass[:40], *values]
            )
        for k, case in enumerate(cases_of(form, about["seed"], about["most"])):
            if k in found:
                cases.append(case)
                out.append(found[k])
    return cases, out


def record(folder: pathlib.Path, out: pathlib.Path) -> None:
    """Run the kernels under ncu and write the suite."""
    with tempfile.TemporaryDirectory() as temporary:
        report = pathlib.Path(temporary) / "lines"
        command = ["ncu", "--clock-control", "none", "-f", "-o", str(report), "--metrics", ",".join(METRICS.values())]
        done = subprocess.run(
            [*command, sys.executable, "-m", "tools.capture.counter_lines", "--run", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"ncu: {' '.join((done.stdout + done.stderr).split())[-800:]}")
        cases, found = rows(folder, dumped(report.with_suffix(".ncu-rep"), pathlib.Path(temporary) / "lines_dump.json"))
    gpu, about = Gpu(), json.loads((folder / "lines.json").read_text())
    arrays = {
        "form": np.array([c["form"] for c in cases]), "shared": np.array([c["shared"] for c in cases], np.int32), "global": np.array([c["global"] for c in cases], np.int32),
        "mask": np.array([c["mask"] for c in cases], np.uint32), "sass": np.array([r[0] for r in found]),
        **{name: np.array([r[1 + k] for r in found], np.int64) for k, name in enumerate(METRICS)},
    }  # fmt: skip
    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=False).stdout.strip().splitlines()[-1]
    files = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(HERE.glob("counter_*.py"))}
    source = {"command": f"python -m tools.capture.counter_lines --out golden/sm_90a --built FOLDER, built with --seed {about['seed']} --most {about['most']}", "seed": about["seed"], "ptxas": assembler(), "ncu": version, "metrics": METRICS, "files": files}  # fmt: skip
    write_suite(out / "access_lines", suite="access_lines", kind="access_counters", arch=gpu.arch, title=TITLE, device=gpu.describe(), source=source, cases=len(cases), arrays=arrays)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--built", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=4511)
    parser.add_argument("--most", type=int, default=96)
    parser.add_argument("--run", type=pathlib.Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run:
        run(asked.run)
    elif asked.build:
        build(asked.build, asked.seed, asked.most)
    elif asked.out and asked.built and shutil.which("ncu"):
        record(asked.built, asked.out)
    else:
        parser.error("needs --build FOLDER, or --out and --built, and ncu on the PATH")
    return 0


if __name__ == "__main__":
    sys.exit(main())
