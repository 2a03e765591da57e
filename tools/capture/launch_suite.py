"""Runs every launch of golden/sm_90a/SUITE/kernels on the GPU at hand and writes the suite: `launches`,
`reserved_shared` or `heap`.

    python tools/capture/launch_suite.py --out OUT [--suite SUITE] [--kernels FOLDER] [NAME ...]

Each launch runs in a process of its own, three times over fresh memory: a trap ends only that process, a hang is
stopped after a minute, and outputs that differ from run to run are said. Outputs are also held against numpy where
`launch_kernels` has an expectation. OUT gets `SUITE/` (manifest.json, data.npz; put beside `kernels/`),
`SUITE_full.npz` (every output in full, for whoever looks for a difference) and `SUITE.txt`, what was said.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import io
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from smemsim.evidence.format import write_suite
from smemsim.evidence.launches import LaunchFile, load_launch_file, row_digest, sample_places
from smemsim.testing.recorder import Gpu
from tools.capture.launch_kernels import all_launches  # noqa: F401 - registers them
from tools.capture.launch_kernels.judge import GUARD, judge
from tools.capture.launch_kernels.spec import LAUNCHES

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

TITLES = {
    "launches": "Whole kernels of nvcc, Triton and by hand: what they leave in memory",
    "reserved_shared": "Kernels that use the first KiB of shared memory, which the system keeps: without clusters and in them",
    "heap": "Kernels that call malloc and free: how many allocations there is room for, and what free makes of other pointers",
}
RUNS, PATIENCE, WORKERS = 3, 60, 6
FULL_BYTES = 16384  # outputs up to this size, and those of approximations, are stored in full


def ptxas(ptx: str) -> bytes:
    """The cubin of a PTX text, by the toolkit's own ptxas; the text itself, which the driver compiles, where
    there is none on the PATH.
    """
    if shutil.which("ptxas") is None:
        return ptx.encode()
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = pathlib.Path(folder) / "kernel.ptx", pathlib.Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        done = subprocess.run(["ptxas", "-arch=sm_90a", str(source), "-o", str(cubin)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"ptxas: {done.stderr[-500:]}")
        return cubin.read_bytes()


def assembler(program: str = "ptxas") -> str:
    """The version of an assembler."""
    if shutil.which(program) is None:
        return "none: the driver compiled the text"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return next((line.split(" V")[-1] for line in said.splitlines() if "release" in line), "unknown")


def run_once(gpu: Gpu, image: bytes, launch: LaunchFile, before: dict[str, np.ndarray]) -> tuple[int, dict[str, np.ndarray]]:
    """(status, the bytes of every array with its guard). The module is loaded anew, so that its
    variables begin as written.
    """
    kernel = gpu.load(image).kernel(launch.about["entry"])
    addresses = {}
    for name, x in before.items():
        addresses[name] = gpu.allocate(x.nbytes + GUARD, 0xA5)
        gpu.put(addresses[name], x)
    code = gpu.execute(kernel, launch.config(launch.parameters(addresses, gpu.encode)))
    after = {} if code else {name: gpu.get(addresses[name], x.nbytes + GUARD) for name, x in before.items()}
    for address in addresses.values():
        gpu.free(address)
    return code, after


def one(folder: pathlib.Path, answer: pathlib.Path) -> None:
    """The process of one launch: what was odd, and the outputs."""
    launch = load_launch_file(folder)
    image, before, gpu = ptxas(launch.ptx), launch.arrays(), Gpu()
    codes, runs = [], []
    for _ in range(RUNS):
        code, after = run_once(gpu, image, launch, before)
        codes.append(code)
        if code:
            break
        runs.append(after)
    spec = LAUNCHES.get(launch.name)
    said, stored = [], {"status": np.array(codes[-1])}
    if codes[-1] != (spec.status if spec else 0):
        said.append(f"ends with CUDA error {codes[-1]}, {spec.status if spec else 0} was expected")
    if runs and not codes[-1]:
        said += judge(launch, spec, before, runs[0])
        for name in launch.about["outputs"]:
            size = before[name].nbytes
            stored[f"out_{name}"] = runs[0][name][:size]
            if any((run[name][:size] != runs[0][name][:size]).any() for run in runs):
                said.append(f"{name} differs from run to run")
                stored[f"unstable_{name}"] = np.array(1)
    np.savez(answer, said=np.array(said, str), **stored)


def in_process(folder: pathlib.Path) -> tuple[list[str], dict[str, np.ndarray]]:
    """(what was said, arrays) of one launch; the process may not come back."""
    with tempfile.TemporaryDirectory() as temporary:
        answer = pathlib.Path(temporary) / "answer.npz"
        command = [sys.executable, "-m", "tools.capture.launch_suite", "--one", str(folder.resolve()), "--answer", str(answer)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            return [f"hangs: stopped after {PATIENCE} s"], {}
        if not answer.exists():
            return [f"no answer: {' '.join(done.stderr.split())[-400:]}"], {}
        with np.load(answer, allow_pickle=False) as bundle:
            arrays = {name: bundle[name] for name in bundle.files}
        return [str(x) for x in arrays.pop("said")], arrays


def digest(data: np.ndarray | bytes) -> str:
    return hashlib.sha256(bytes(data)).hexdigest()


def ragged(name: str, parts: list[np.ndarray], dtype: Any) -> dict[str, np.ndarray]:
    start_at = np.cumsum([0, *(len(p) for p in parts)]).astype(np.int64)
    return {name: np.concatenate([np.asarray(p, dtype) for p in parts] or [np.zeros(0, dtype)]), f"{name}_start": start_at}


def suite_arrays(launches: list[LaunchFile], answers: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """A case a launch; ragged by case: its outputs (name, SHA-256); ragged by output: samples, row digests, and bytes
    of small or approximate ones.
    """
    names, digests, stable, samples, rows, full = [], [], [], [], [], []
    for launch, answer in zip(launches, answers, strict=True):
        for name in launch.about["outputs"]:
            data = answer.get(f"out_{name}", np.zeros(0, np.uint8))
            before = launch.arrays()[name]
            words = data.view(f"u{before.dtype.itemsize}").astype(np.uint64)
            names.append(name)
            digests.append(digest(data))
            stable.append(f"unstable_{name}" not in answer)
            samples.append(words[sample_places(len(words))] if len(words) else words)
            rows.append([row_digest(part) for part in (np.split(data, launch.rows(name)) if len(data) else [])])
            full.append(data if data.nbytes <= FULL_BYTES or not launch.about["exact"] else data[:0])
    per_case = np.cumsum([0, *(len(x.about["outputs"]) for x in launches)]).astype(np.int64)
    return {
        "name": np.array([x.name for x in launches]),
        "status": np.array([int(a.get("status", 0)) for a in answers], np.uint16),
        "ptx_sha256": np.array([digest(x.ptx.encode()) for x in launches]),
        "output": np.array(names), "output_start": per_case, "output_sha256": np.array(digests), "output_is_stable": np.array(stable, np.uint8),
        **ragged("sample", samples, np.uint64), **ragged("row_sha256", [np.array(r, np.uint64) for r in rows], np.uint64), **ragged("bytes", full, np.uint8),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--suite", choices=TITLES, default="launches")
    parser.add_argument("--kernels", type=pathlib.Path, help="golden/sm_90a/SUITE/kernels where it is not given")
    parser.add_argument("--one", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    if asked.one:
        one(asked.one, asked.answer)
        return 0
    if asked.out is None:
        parser.error("--out is missing")
    asked.out.mkdir(parents=True, exist_ok=True)
    folders = [
        f
        for f in sorted((asked.kernels or ROOT / "golden" / "sm_90a" / asked.suite / "kernels").iterdir())
        if (f / "launch.json").exists() and (not asked.names or f.name in asked.names)
    ]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        results = list(pool.map(in_process, folders))
    log = io.StringIO()
    for folder, (said, _) in zip(folders, results, strict=True):
        print(f"{folder.name}: {'; '.join(said) or 'as expected'}", file=log)
    odd = sum(bool(said) for said, _ in results)
    print(f"{len(folders)} launches, {odd} with something to say", file=log)
    (asked.out / f"{asked.suite}.txt").write_text(log.getvalue())
    print(log.getvalue(), end="")
    kept = [(load_launch_file(f), arrays) for f, (_, arrays) in zip(folders, results, strict=True) if "status" in arrays]
    np.savez_compressed(asked.out / f"{asked.suite}_full.npz", allow_pickle=False, **{f"{x.name}.{n[4:]}": v for x, a in kept for n, v in a.items() if n.startswith("out_")})  # fmt: skip
    gpu = Gpu()
    source = {
        "command": f"python tools/capture/launch_suite.py --out golden/sm_90a --suite {asked.suite}",
        "ptxas": assembler(),
        "files": {f.name: digest(f.read_bytes()) for f in sorted([*HERE.glob("launch_suite.py"), *HERE.glob("launch_kernels/*.py")])},
    }
    write_suite(asked.out / asked.suite, suite=asked.suite, kind="launch", arch=gpu.arch, title=TITLES[asked.suite],
                device=gpu.describe(), source=source, cases=len(kept), arrays=suite_arrays([x for x, _ in kept], [a for _, a in kept]))  # fmt: skip
    return 1 if odd else 0


if __name__ == "__main__":
    sys.exit(main())
