"""The common parts of all suites: the opened device and its kernels, processes for cases that may trap or hang, and the
writer of trace files.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.capture import device as device_api
from smemsim.capture import kernels
from smemsim.evidence.format import write_suite
from smemsim.testing.recorder import CudaError

HERE = pathlib.Path(__file__).resolve().parent

UNTOUCHED = -2
FILLED = -256  # a filled byte of a transfer is FILLED minus the byte
WORKERS = 14  # processes at a time for cases that may trap
LAUNCH_TIMEOUT = 702  # CUDA_ERROR_LAUNCH_TIMEOUT: here, that a process had to be ended because its kernel did not
PATIENCE = 120  # seconds that a process may take for one case
Case = dict[str, Any]


@dataclasses.dataclass
class Settings:
    """The card that the kernels are for."""

    arch: str = "sm_90a"
    more: int = 1  # encode calls: this many times as many, for fitting; the committed suites are made with 1


settings = Settings()
KERNELS: dict[str, Callable[[], str]] = {}  # module name -> CUDA C++
RUNNERS: dict[str, Callable[[Bench, Any], dict[str, Any]]] = {}  # what a process of its own can run: one case -> JSON


def kernel_files(*names: str) -> None:
    """Register NAME.cu in the folder of this file."""
    for name in names:
        KERNELS[name] = (HERE / f"{name}.cu").read_text


def build_all() -> None:
    """Machine code of every registered kernel."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: kernels.machine_code(name, KERNELS[name](), settings.arch), KERNELS))


class Bench:
    """The device; kernels are compiled and loaded when first used."""

    def __init__(self) -> None:
        self.api = device_api
        self.device = device_api.Device()
        self.modules: dict[str, Any] = {}

    def function(self, module: str, name: str) -> Any:
        if module not in self.modules:
            self.modules[module] = self.device.load(kernels.machine_code(module, KERNELS[module](), settings.arch))
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
        write(self, out, suite, kind, title, seed, cases, arrays, delta)


def write(bench: Any, out: pathlib.Path, suite: str, kind: str, title: str, seed: int, cases: int, arrays: dict[str, np.ndarray],
          delta: tuple[str, ...] = ()) -> None:  # fmt: skip
    """Write one suite that a card, or a stand-in for one, has answered."""
    about = {"suite": suite, "kind": kind, "arch": settings.arch, "title": title, "device": bench.device.describe(), "source": source(suite, seed)}  # fmt: skip
    write_suite(out / suite, cases=cases, arrays=arrays, delta=delta, **about)


def source(suite: str, seed: int) -> dict[str, Any]:
    """The tool in a manifest: the command, the seed, and the digest of every file of the kit."""
    return {"command": f"smemsim capture {suite}", "seed": seed, "files": digests()}


@functools.cache
def digests() -> dict[str, str]:
    """The digest of every file of the kit, by its path."""
    files = sorted(f for pattern in ("*.py", "*.cu", "*.cuh", "*.csv") for f in HERE.rglob(pattern))
    return {f.relative_to(HERE).as_posix(): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def ragged(name: str, parts: list[np.ndarray], dtype: Any) -> dict[str, np.ndarray]:
    """Arrays of different lengths, one after the other, and where each begins."""
    start = np.cumsum([0, *(p.size for p in parts)]).astype(np.int64)
    body = np.concatenate([p.ravel() for p in parts]) if parts else np.zeros(0)
    return {name: body.astype(dtype), f"{name}_start": start}


def pad(rows: list[list[int]], width: int, dtype: Any) -> np.ndarray:
    """Rows filled with 0 to one width."""
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
    """Run cases that may trap or hang: a trap ends the CUDA context, is the outcome, and the next process goes on with
    the next case.

    An answer has `status`, 0 or the CUDA error, and for 0 what the runner gives. A process that says nothing for
    PATIENCE seconds is ended, and its case has status 702.
    """

    def shard(members: list[int]) -> list[tuple[int, dict[str, Any]]]:
        done: list[tuple[int, dict[str, Any]]] = []
        while len(done) < len(members):
            rest = members[len(done) :]
            with tempfile.TemporaryDirectory() as folder:
                file, errors = pathlib.Path(folder) / "cases.json", pathlib.Path(folder) / "errors"
                file.write_text(json.dumps([chosen[i] for i in rest]))
                command = [sys.executable, "-P", "-m", "smemsim.capture.one_suite", "--arch", settings.arch, "--risky", what, str(file)]
                with errors.open("w") as stderr, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
                    lines, hung = read_lines(process)
                if not lines and not hung:
                    raise RuntimeError(f"{what} {chosen[rest[0]]}: {errors.read_text()[-2000:]}")
            answers = [json.loads(line) for line in lines]
            if hung and len(answers) < len(rest):
                answers.append({"status": LAUNCH_TIMEOUT})
            done += list(zip(rest, answers, strict=False))
        return done

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        shards = [list(range(len(chosen)))[i::WORKERS] for i in range(WORKERS)]
        answers = dict(pair for part in pool.map(shard, shards) for pair in part)
    return [answers[i] for i in range(len(chosen))]


def read_lines(process: subprocess.Popen[str]) -> tuple[list[str], bool]:
    """(the JSON lines of a process, whether it had to be ended)."""
    lines: list[str] = []
    stdout = process.stdout
    assert stdout is not None
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        while True:
            waiting = pool.submit(stdout.readline)
            try:
                line = waiting.result(PATIENCE)
            except concurrent.futures.TimeoutError:
                process.kill()
                waiting.result()
                return lines, True
            if not line:
                return lines, False
            if line.startswith("{"):
                lines.append(line)


def run_risky(what: str, file: str) -> None:
    """One process of `in_processes`: a JSON line a case, the last one being that of the first trap."""
    bench = Bench()
    for case in json.loads(pathlib.Path(file).read_text()):
        try:
            answer = {"status": 0, **RUNNERS[what](bench, case)}
        except CudaError as e:
            answer = {"status": e.code}
        print(json.dumps(answer), flush=True)
        if answer["status"]:
            return
