"""What every suite needs: the opened device and its kernels, processes for cases that may trap, and the writer of trace files."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.evidence.format import write_suite
from tools.capture import device as device_api

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

UNTOUCHED = -2
FILLED = -256  # a filled byte of a transfer is FILLED minus the byte
WORKERS = 14  # processes at a time for cases that may trap
Case = dict[str, Any]


@dataclasses.dataclass
class Settings:
    arch: str = "sm_90a"
    more: int = 1  # encode calls: this many times as many, for fitting; the committed suites are made with 1


settings = Settings()
KERNELS: dict[str, Callable[[], str]] = {}  # module name -> CUDA C++
RUNNERS: dict[str, Callable[[Bench, Any], dict[str, Any]]] = {}  # what a process of its own can run: one case -> JSON


def kernel_files(*names: str) -> None:
    """Register NAME.cu beside this file."""
    for name in names:
        KERNELS[name] = (HERE / f"{name}.cu").read_text


def build_all() -> dict[str, pathlib.Path]:
    with concurrent.futures.ThreadPoolExecutor() as pool:
        built = pool.map(lambda name: device_api.build(name, KERNELS[name](), settings.arch), KERNELS)
        return dict(zip(KERNELS, built, strict=True))


class Bench:
    """The device; kernels are compiled and loaded when first used."""

    def __init__(self) -> None:
        self.api = device_api
        self.device = device_api.Device()
        self.modules: dict[str, Any] = {}

    def function(self, module: str, name: str) -> Any:
        if module not in self.modules:
            path = device_api.build(module, KERNELS[module](), settings.arch)
            self.modules[module] = self.device.load(path.read_bytes())
        return self.modules[module].kernel(name)

    def write(
        self,
        out: pathlib.Path,
        suite: str,
        kind: str,
        title: str,
        seed: int,
        cases: int,
        arrays: dict[str, np.ndarray],
        delta: tuple[str, ...] = (),
    ) -> None:
        """Write one suite with what the manifest says about the device and the tool."""
        source = {
            "command": f"python tools/capture/capture.py --out golden/{settings.arch} {suite}",
            "seed": seed,
            "files": {
                f.name: hashlib.sha256(f.read_bytes()).hexdigest()
                for f in sorted([*HERE.glob("*.py"), *HERE.glob("*.cu"), *HERE.glob("*.cuh")])
            },
        }
        about = {"suite": suite, "kind": kind, "arch": settings.arch, "title": title, "device": self.device.describe(), "source": source}
        write_suite(out / suite, cases=cases, arrays=arrays, delta=delta, **about)


def ragged(name: str, parts: list[np.ndarray], dtype: Any) -> dict[str, np.ndarray]:
    start = np.cumsum([0, *(p.size for p in parts)]).astype(np.int64)
    body = np.concatenate([p.ravel() for p in parts]) if parts else np.zeros(0)
    return {name: body.astype(dtype), f"{name}_start": start}


def pad(rows: list[list[int]], width: int, dtype: Any) -> np.ndarray:
    out = np.zeros((len(rows), width), dtype)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


def trim(first: int, image: np.ndarray) -> tuple[int, np.ndarray]:
    """(first touched address, sources up to the last touched one) of an image that begins at `first`."""
    touched = np.flatnonzero(image != UNTOUCHED)
    if not touched.size:
        return first, np.zeros(0, np.int32)
    return int(first + touched[0]), image[touched[0] : touched[-1] + 1]


def in_processes(what: str, chosen: list[Any]) -> list[dict[str, Any]]:
    """Run cases that may trap: a trap ends the CUDA context, is the outcome, and the next process goes on with the next case.

    An answer has `status`, 0 or the CUDA error, and for 0 what the runner gives.
    """

    def shard(members: list[int]) -> list[tuple[int, dict[str, Any]]]:
        done: list[tuple[int, dict[str, Any]]] = []
        while len(done) < len(members):
            rest = members[len(done) :]
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "cases.json"
                file.write_text(json.dumps([chosen[i] for i in rest]))
                command = [sys.executable, "-m", "tools.capture.capture", "--arch", settings.arch, "--risky", what, str(file)]
                ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
            lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
            if not lines:
                raise RuntimeError(f"{what} {chosen[rest[0]]}: {ended.stderr[-2000:]}")
            done += [(i, json.loads(line)) for i, line in zip(rest, lines, strict=False)]
        return done

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        answers = dict(pair for part in pool.map(shard, [list(range(len(chosen)))[i::WORKERS] for i in range(WORKERS)]) for pair in part)
    return [answers[i] for i in range(len(chosen))]


def run_risky(what: str, file: str) -> None:
    """One process of `in_processes`: a JSON line a case, the last one being that of the first trap."""
    bench = Bench()
    for case in json.loads(pathlib.Path(file).read_text()):
        try:
            answer = {"status": 0, **RUNNERS[what](bench, case)}
        except device_api.CudaError as e:
            answer = {"status": e.code}
        print(json.dumps(answer), flush=True)
        if answer["status"]:
            return
