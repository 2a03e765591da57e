"""What Nsight Compute's source page says of whole kernels, by machine instruction with its PTX line:
the suite `launch_counters`.

    python -m tools.capture.counter_launches --out golden/sm_90a [--kernels FOLDER ...] [NAME ...]

FOLDER has launch files (golden/sm_90a/launches/kernels where none is given). Each kernel is assembled by the toolkit's
ptxas with line information, runs once under `ncu --clock-control none`, and leaves a row for each machine instruction
that touches memory. `ncu` and its Python module have to be installed, and `nvdisasm`. `--build FOLDER` only assembles,
which needs no GPU; `--built FOLDER` takes what it wrote. `--assembler` names another ptxas; it gets the text as version
8.8 of PTX, which older ones read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from smemsim.evidence.format import load_suite, write_suite
from smemsim.evidence.launches import load_launch_file
from smemsim.testing.recorder import Gpu
from tools.capture.launch_suite import GUARD, assembler

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The array of the suite, and ncu's name of the metric, which has a value for each machine instruction.
METRICS = {
    "executed": "inst_executed", "threads": "thread_inst_executed", "wavefronts": "memory_l1_wavefronts_shared", "ideal_wavefronts": "memory_l1_wavefronts_shared_ideal",
    "sectors": "memory_l2_theoretical_sectors_global", "ideal_sectors": "memory_l2_theoretical_sectors_global_ideal",
}  # fmt: skip
TITLE = "Whole kernels: shared wavefronts and global sectors of every machine instruction, as Nsight Compute's source page has them"
_LINE = re.compile(r'//## File "\.nv_debug_ptx_txt(?:\.\d+)?", line (\d+)')
ASSEMBLED = "assembled-by.json"  # in the folder of machine code: the assembler and its version
_SASS = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")


def lines_of(disassembly: str, entry: str) -> dict[int, tuple[int, str]]:
    """The PTX line and the text of each machine instruction of an entry, by its offset."""
    out: dict[int, tuple[int, str]] = {}
    line, inside, is_first = 0, False, True
    for row in disassembly.splitlines():
        if ".section" in row and ".text." in row:
            inside = re.search(rf"\.text\.{re.escape(entry)}\b", row) is not None
            continue
        if not inside:
            continue
        if found := _LINE.search(row):
            line = int(found[1]) if is_first else line
            is_first = False
        elif found := _SASS.search(row):
            out[int(found[1], 16)] = (line, found[2])
            is_first = True
    return out


def assemble(folder: pathlib.Path, out: pathlib.Path, program: str) -> None:
    """Write the machine code of a launch file, and the PTX line and text of each instruction."""
    launch, name = load_launch_file(folder), folder.name
    source, cubin = out / f"{name}.ptx", out / f"{name}.cubin"
    source.write_text(launch.ptx if program == "ptxas" else re.sub(r"(?m)^\.version 9\.\d", ".version 8.8", launch.ptx))
    subprocess.run([program, "-arch=sm_90a", "-lineinfo", str(source), "-o", str(cubin)], check=True, capture_output=True)
    source.unlink()
    shown = subprocess.run(["nvdisasm", "-gp", "-c", str(cubin)], check=True, capture_output=True, text=True).stdout
    (out / f"{name}.json").write_text(json.dumps(list(lines_of(shown, launch.about["entry"]).items())))


def run(listed: pathlib.Path) -> None:
    """The process that ncu looks at: a launch of each launch file, in order."""
    gpu = Gpu()
    for folder, cubin in json.loads(listed.read_text()):
        launch = load_launch_file(pathlib.Path(folder))
        kernel = gpu.load(pathlib.Path(cubin).read_bytes()).kernel(launch.about["entry"])
        addresses = {}
        for name, x in launch.arrays().items():
            addresses[name] = gpu.allocate(x.nbytes + GUARD, 0xA5)
            gpu.put(addresses[name], x)
        code = gpu.execute(kernel, launch.config(launch.parameters(addresses, gpu.encode)))
        if code:
            raise SystemExit(f"{launch.name}: CUDA error {code}")
        for address in addresses.values():
            gpu.free(address)


def dumped(report: pathlib.Path, out: pathlib.Path) -> list[dict[str, Any]]:
    """Every launch of a report: its name, and each metric by address."""
    module = next(
        iter(sorted(pathlib.Path("/opt/nvidia").rglob("ncu_report.py")) or sorted(pathlib.Path("/usr/local").rglob("ncu_report.py"))), None
    )
    if module is None:
        raise RuntimeError("ncu_report.py: not found")
    code = (
        "import json, sys, ncu_report\n"
        f"names = {list(METRICS.values())!r}\n"
        "out = []\n"
        "for part in ncu_report.load_report(sys.argv[1]):\n"
        "    for action in part:\n"
        "        one = {'name': action.name(), 'metrics': {}, 'sass': {}}\n"
        "        for name in names:\n"
        "            metric = action.metric_by_name(name)\n"
        "            ids = metric.correlation_ids() if metric is not None and metric.has_correlation_ids() else None\n"
        "            if ids is not None:\n"
        "                one['metrics'][name] = {ids.as_uint64(k): metric.as_uint64(k) for k in range(metric.num_instances())}\n"
        "        for pc in one['metrics'].get('inst_executed', {}):\n"
        "            one['sass'][pc] = action.sass_by_pc(pc)\n"
        "        out.append(one)\n"
        "json.dump(out, open(sys.argv[2], 'w'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(report), str(out)], env={"PYTHONPATH": str(module.parent), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"ncu_report: {done.stderr[-800:]}")
    return list(json.loads(out.read_text()))


def profiled(work: pathlib.Path, items: list[tuple[str, str]], number: int) -> list[dict[str, Any]]:
    """Run launch files under ncu: what it says of each."""
    listed, report = work / f"list_{number}.json", work / f"report_{number}"
    listed.write_text(json.dumps(items))
    command = ["ncu", "--clock-control", "none", "-f", "-o", str(report), "--metrics", ",".join(METRICS.values())]
    done = subprocess.run([*command, sys.executable, "-m", "tools.capture.counter_launches", "--run", str(listed)], capture_output=True, text=True, check=False, timeout=200)  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"ncu: {' '.join((done.stdout + done.stderr).split())[-800:]}")
    return dumped(report.with_suffix(".ncu-rep"), work / f"dump_{number}.json")


def rows_of(said: dict[str, Any], lines: dict[int, tuple[int, str]]) -> list[list[Any]]:
    """[PTX line, offset, text, metrics ...] of every machine instruction that touches memory or
    that a metric has a value for.
    """
    metrics = [{int(pc): int(v) for pc, v in said["metrics"].get(name, {}).items()} for name in METRICS.values()]
    begin = min(metrics[0], default=0)
    out = []
    for pc in sorted(metrics[0]):
        values = [m.get(pc, 0) for m in metrics]
        line, text = lines.get(pc - begin, (0, str(said["sass"].get(str(pc), ""))))
        if any(values[2:]) or re.search(r"\b(LD|ST|ATOM|RED|UBLK|UTMA|HGMMA|QGMMA|IGMMA|BGMMA|LDSM|STSM|SYNCS|STAS)", text):
            out.append([line, pc - begin, text[:60], *values])
    return out


def _folders(asked: argparse.Namespace) -> list[pathlib.Path]:
    found = [
        f
        for base in asked.kernels or [ROOT / "golden/sm_90a/launches/kernels"]
        for f in sorted(base.iterdir())
        if (f / "launch.json").exists()
    ]
    ended = {}
    suite = ROOT / "golden/sm_90a/launches"
    if (suite / "manifest.json").exists():
        arrays = load_suite(suite).arrays
        ended = dict(zip(arrays["name"].tolist(), arrays["status"].tolist(), strict=True))
    return [f for f in found if not ended.get(f.name) and (not asked.names or f.name in asked.names)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--suite", default="launch_counters")
    parser.add_argument("--kernels", type=pathlib.Path, action="append")
    parser.add_argument("--assembler", default="ptxas", help="the ptxas to assemble with")
    parser.add_argument("--build", type=pathlib.Path, help="only assemble, into this folder")
    parser.add_argument("--built", type=pathlib.Path, help="what --build wrote")
    parser.add_argument("--run", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--chunk", type=int, default=20)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    if asked.run:
        run(asked.run)
        return 0
    if asked.build is None and (asked.out is None or shutil.which("ncu") is None):
        parser.error("--out is missing" if asked.out is None else "ncu has to be on the PATH")
    began, kept, failed = time.time(), [], 0
    with tempfile.TemporaryDirectory() as temporary:
        work, folders = pathlib.Path(temporary), _folders(asked)
        built = asked.build or asked.built or work
        built.mkdir(parents=True, exist_ok=True)
        for f in folders if asked.built is None else ():
            assemble(f, built, asked.assembler)
        if asked.built is None:
            (built / ASSEMBLED).write_text(json.dumps({"assembler": asked.assembler, "ptxas": assembler(asked.assembler)}))
        if asked.build:
            return 0
        waiting = [folders[k : k + asked.chunk] for k in range(0, len(folders), asked.chunk)]
        number = 0
        while waiting:
            part, number = waiting.pop(0), number + 1
            try:
                got = profiled(work, [(str(f.resolve()), str(built / f"{f.name}.cubin")) for f in part], number)
                if len(got) != len(part):
                    raise RuntimeError(f"{len(got)} launches of {len(part)}")
                kept += [
                    (f, rows_of(said, dict(json.loads((built / f"{f.name}.json").read_text())))) for f, said in zip(part, got, strict=True)
                ]
            except (RuntimeError, subprocess.TimeoutExpired) as e:
                print(f"{part[0].name} and {len(part) - 1} more: {str(e)[-600:]}", flush=True)
                failed += 1
                if len(part) > 1 and failed < 12:
                    waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
            print(f"{len(kept)} of {len(folders)} in {time.time() - began:.0f} s", flush=True)
        made_by = json.loads((built / ASSEMBLED).read_text())
    asked.out.mkdir(parents=True, exist_ok=True)
    _write(asked, kept, made_by)
    return 1 if failed else 0


def _write(asked: argparse.Namespace, kept: list[tuple[pathlib.Path, list[list[Any]]]], made_by: dict[str, str]) -> None:
    start = np.cumsum([0, *(len(rows) for _, rows in kept)]).astype(np.int64)
    flat = [row for _, rows in kept for row in rows]
    arrays = {
        "name": np.array([f.name for f, _ in kept]), "ptx_sha256": np.array([hashlib.sha256(load_launch_file(f).ptx.encode()).hexdigest() for f, _ in kept]),
        "line": np.array([r[0] for r in flat], np.int32), "line_start": start, "offset": np.array([r[1] for r in flat], np.int32), "sass": np.array([r[2] for r in flat] or [""]),
        **{name: np.array([r[3 + k] for r in flat], np.int64) for k, name in enumerate(METRICS)},
    }  # fmt: skip
    gpu = Gpu()
    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=False).stdout.strip().splitlines()[-1]
    files = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(HERE.glob("counter_*.py"))}
    kernels = "".join(f" --kernels {f}" for f in asked.kernels or ())
    source = {"command": f"python -m tools.capture.counter_launches --out golden/sm_90a --suite {asked.suite}{kernels} --assembler {made_by['assembler']}", **made_by, "ncu": version, "metrics": METRICS, "files": files}  # fmt: skip
    write_suite(asked.out / asked.suite, suite=asked.suite, kind="launch_counters", arch=gpu.arch, title=TITLE, device=gpu.describe(), source=source, cases=len(kept), arrays=arrays)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
