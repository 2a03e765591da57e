"""What Nsight Compute counts of single memory accesses, recorded on the GPU at hand: the suites `access_shared`,
`access_async`, `access_global`, `access_copies`.

    python -m tools.capture.counter_suite --out golden/sm_90a [--seed 20261128] [--most 40]

A launch a case, one warp (four of wgmma), one access; `ncu` has to be on the PATH, and is asked to leave the clocks
alone. `--most` is the largest number of cases of one form.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from smemsim.core.words.tensor_map import TensorMap
from smemsim.evidence.format import write_suite
from smemsim.run.engine.launch import LaunchConfig
from smemsim.testing.recorder import Gpu
from tools.capture.counter_cases import case_rows
from tools.capture.counter_forms import FORMS, TABLE_BYTES, WINDOW, Form, text
from tools.capture.launch_suite import assembler, ptxas

HERE = pathlib.Path(__file__).resolve().parent
HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"
_W, _T = "l1tex__data_pipe_lsu_wavefronts_mem_shared", "l1tex__t_sectors_pipe_lsu_mem"
# The array of a suite, and ncu's name of the metric that it holds.
METRICS: dict[str, dict[str, str]] = {
    "access_shared": {"wavefronts": f"{_W}.sum", "wavefronts_ld": f"{_W}_op_ld.sum", "wavefronts_st": f"{_W}_op_st.sum", "wavefronts_atom": f"{_W}_op_atom.sum"},
    "access_global": {
        "sectors_ld": f"{_T}_global_op_ld.sum", "sectors_st": f"{_T}_global_op_st.sum", "sectors_atom": f"{_T}_global_op_atom.sum", "sectors_red": f"{_T}_global_op_red.sum",
        "sectors_local_ld": f"{_T}_local_op_ld.sum", "sectors_local_st": f"{_T}_local_op_st.sum",
    },
    "access_async": {"wavefronts": f"{_W}.sum", "conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum", "bank_writes": "l1tex__data_bank_writes.sum"},
    "access_copies": {
        "wavefronts": f"{_W}.sum", "bank_reads": "l1tex__data_bank_reads.sum", "bank_writes": "l1tex__data_bank_writes.sum",
        "dshared_read": "l1tex__m_xbar2l1tex_read_sectors_mem_dshared.sum", "dshared_write": "l1tex__m_l1tex2xbar_write_sectors_mem_dshared.sum",
    },
}  # fmt: skip
TITLES = {
    "access_shared": "What single accesses of shared memory cost: wavefronts and bank conflicts that Nsight Compute counts, a launch a case",
    "access_global": "What single accesses of global and local memory cost: sectors that Nsight Compute counts, a launch a case",
    "access_async": "What single cp.async cost in shared memory: wavefronts and bank conflicts that Nsight Compute counts, a launch a case",
    "access_copies": "What copies by TMA and accesses of another CTA's shared memory cost there: banks and wavefronts that Nsight Compute counts",
}
_BOXES = [(s, w, r) for s, widths in (("none", (16, 32, 64, 128, 256)), ("32B", (16, 32)), ("64B", (16, 32, 64)), ("128B", (16, 32, 64, 128))) for w in widths for r in (8, 32, 64)][:40]  # fmt: skip


def suite_of(form: Form) -> str:
    """The suite that a form belongs to."""
    if form.family in ("bulk", "tensor", "remote", "st.async"):
        return "access_copies"
    if form.family == "cp.async":
        return "access_async"
    return "access_global" if form.drawn in ("g", "l") else "access_shared"


def cases_of(form: Form, seed: int, most: int) -> list[dict[str, Any]]:
    """The cases of one form: addresses, mask and further words."""
    rng = np.random.default_rng([seed, 7, *form.name.encode()])
    out = []
    for n, (shared, world, mask) in enumerate(
        case_rows(form.name, form.size, form.drawn, form.cases if form.has_map else min(form.cases, most), WINDOW, seed)
    ):
        case = {
            "form": form.name,
            "shared": shared,
            "global": world,
            "mask": mask,
            "extra": 0,
            "a": 0,
            "b": 0,
            "swizzle": "none",
            "inner": 0,
            "rows": 0,
        }
        if form.family == "bulk":
            case["extra"] = 16 << min(n, 9) if n < 10 else int(rng.integers(1, 512)) * 16
            case["shared"] = shared + int(rng.integers(0, 64)) * 16 * (n % 2)
        if form.family == "tensor":
            case["swizzle"], case["inner"], case["rows"] = _BOXES[n]
            case["extra"] = case["inner"] * case["rows"]
        if form.family == "wgmma":
            columns = int(form.name.split("n")[1].split("k")[0])
            for name, groups in (("a", 8), ("b", columns // 8)):
                code, start = int(rng.integers(0, 4)), int(rng.integers(0, 64)) * (1 if n % 2 else 64) % 64
                stride = int(rng.choice([128, 256, 512])) // 16 if n % 3 else int(rng.integers(1, 32))
                stride = min(stride, (WINDOW - 4096) // groups // 16)
                case[name] = start | (int(rng.integers(1, 64)) if n % 2 else 8) << 16 | stride << 32 | code << 62
        out.append(case)
    return out


def drawn(suite: str, seed: int, most: int) -> list[tuple[int, Form, dict[str, Any]]]:
    """(number of the kernel, form, case) of a suite: the first case of every form, then the second, so that a
    part of them has every form.
    """
    found = [
        (k, n, form, case) for n, form in enumerate(FORMS) if suite_of(form) == suite for k, case in enumerate(cases_of(form, seed, most))
    ]
    return [(n, form, case) for _, n, form, case in sorted(found, key=lambda x: x[:2])]


def table_of(case: dict[str, Any]) -> bytes:
    """The words that a kernel reads of a case."""
    head = np.concatenate([case["shared"], case["global"]]).astype("<u4").tobytes()
    return (head + struct.pack("<II", case["mask"], case["extra"]) + struct.pack("<QQ", case["a"], case["b"])).ljust(TABLE_BYTES, b"\0")


def run(suite: str, seed: int, most: int, first: int, count: int) -> None:
    """The process that ncu looks at: launches of a part of a suite."""
    gpu = Gpu()
    module = gpu.load(pathlib.Path(tempfile.gettempdir(), "counter_forms.cubin").read_bytes())
    memory = gpu.allocate(1 << 20, 0)
    kernels: dict[int, Any] = {}
    for n, form, case in drawn(suite, seed, most)[first : first + count]:
        kernel = kernels.setdefault(n, None) or kernels.__setitem__(n, module.kernel(f"c_{n}")) or kernels[n]
        args = [table_of(case), struct.pack("<Q", memory)]
        if form.has_map:
            box = (case["inner"], case["rows"])
            tm = TensorMap.tiled(
                data_type="u8", global_address=0, global_dim=(256, 256), global_strides=(256,), box_dim=box, swizzle=case["swizzle"]
            )
            args.append(gpu.encode(tm, memory))
        code = gpu.execute(
            kernel, LaunchConfig(grid=form.ctas, block=form.threads, cluster=form.ctas if form.ctas > 1 else None, args=args)
        )
        if code:
            raise SystemExit(f"{form.name}: CUDA error {code}: {case}")


def _profiled(command: list[str], metrics: dict[str, str], log: pathlib.Path) -> list[dict[str, str]]:
    """The raw page of ncu, a row a launch."""
    ncu = ["ncu", "--csv", "--page", "raw", "--clock-control", "none", "--log-file", str(log), "--metrics", ",".join(metrics.values())]
    done = subprocess.run([*ncu, *command], capture_output=True, text=True, check=False)
    lines = log.read_text().splitlines() if log.exists() else []
    start = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), None)
    if done.returncode or start is None:
        raise RuntimeError(f"ncu: {' '.join((done.stdout + done.stderr + chr(10).join(lines[-8:])).split())[-1500:]}")
    csv.field_size_limit(1 << 30)
    rows = list(csv.DictReader(lines[start:]))
    return [row for row in rows if row["ID"]]


def _number(value: str) -> int:
    return int(float(value.replace(",", ""))) if value not in ("", "n/a") else -1


def record(suite: str, out: pathlib.Path, seed: int, most: int, chunk: int, limit: float) -> None:
    """Run the cases of a suite under ncu, as many as the time allows, and write them."""
    cases, rows, began = drawn(suite, seed, most), [], time.time()
    metrics = METRICS[suite]
    for first in range(0, len(cases), chunk):
        command = [
            sys.executable,
            "-m",
            "tools.capture.counter_suite",
            "--run",
            suite,
            "--seed",
            str(seed),
            "--most",
            str(most),
            "--first",
            str(first),
            "--count",
            str(chunk),
        ]
        got = _profiled(command, metrics, out / f"{suite}.csv")
        expected = [f"c_{n}" for n, _, _ in cases[first : first + chunk]]
        if [row["Kernel Name"] for row in got] != expected:
            raise RuntimeError(f"{suite}: ncu saw {len(got)} launches, {len(expected)} were made")
        rows += got
        print(f"{suite}: {len(rows)} of {len(cases)} in {time.time() - began:.0f} s", flush=True)
        if (time.time() - began) * (len(rows) + chunk) / len(rows) > limit:
            break
    cases = cases[: len(rows)]
    gpu = Gpu()
    arrays = {
        "form": np.array([c["form"] for _, _, c in cases]),
        "shared": np.array([c["shared"] for _, _, c in cases], np.int32), "global": np.array([c["global"] for _, _, c in cases], np.int32),
        "mask": np.array([c["mask"] for _, _, c in cases], np.uint32), "bytes": np.array([c["extra"] for _, _, c in cases], np.int32),
        "a_descriptor": np.array([c["a"] for _, _, c in cases], np.uint64), "b_descriptor": np.array([c["b"] for _, _, c in cases], np.uint64),
        "swizzle": np.array([c["swizzle"] for _, _, c in cases]), "inner": np.array([c["inner"] for _, _, c in cases], np.int32), "rows": np.array([c["rows"] for _, _, c in cases], np.int32),
        **{name: np.array([_number(row[metric]) for row in rows], np.int64) for name, metric in metrics.items()},
    }  # fmt: skip
    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=False).stdout.strip().splitlines()[-1]
    files = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(HERE.glob("counter_*.py"))}
    source = {"command": f"python -m tools.capture.counter_suite --out golden/sm_90a --seed {seed} --most {most} --chunk {chunk} --limit {limit:g} {suite}", "seed": seed, "ptxas": assembler(), "ncu": version, "metrics": metrics, "files": files}  # fmt: skip
    write_suite(out / suite, suite=suite, kind="access_counters", arch=gpu.arch, title=TITLES[suite], device=gpu.describe(), source=source, cases=len(cases), arrays=arrays)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=20261128)
    parser.add_argument("--most", type=int, default=96)
    parser.add_argument("--chunk", type=int, default=700, help="launches of one run of ncu")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one suite")
    parser.add_argument("--run", choices=METRICS, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("suites", nargs="*")
    asked = parser.parse_args()
    if asked.run:
        run(asked.run, asked.seed, asked.most, asked.first, asked.count)
        return 0
    if asked.out is None or shutil.which("ncu") is None:
        parser.error("--out is missing" if asked.out is None else "ncu is not on the PATH")
    asked.out.mkdir(parents=True, exist_ok=True)
    pathlib.Path(tempfile.gettempdir(), "counter_forms.cubin").write_bytes(ptxas(HEADER + "".join(text(n, f) for n, f in enumerate(FORMS))))
    failed = 0
    for suite in asked.suites or METRICS:
        try:
            record(suite, asked.out, asked.seed, asked.most, asked.chunk, asked.limit)
        except RuntimeError as e:
            failed += 1
            print(f"{suite}: {e}", flush=True)
    print(json.dumps({"failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
