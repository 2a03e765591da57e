"""Processes that may trap or hang, arrays through JSON, and the writer of this kit's traces."""

from __future__ import annotations

import base64
import collections
import concurrent.futures
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import zlib
from typing import Any

import numpy as np

from smemsim.evidence.format import write_suite
from tools.capture import bench as base
from tools.capture.bench import WORKERS, Bench, settings

HERE = pathlib.Path(__file__).resolve().parent
LAUNCH_TIMEOUT = 702  # CUDA_ERROR_LAUNCH_TIMEOUT: here, that a process had to be ended because its kernel did not
PATIENCE = 120  # seconds that a process may take for one case


def compressed(array: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 1)).decode()


def expanded(text: str, dtype: Any) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype)


def in_processes(what: str, chosen: list[Any]) -> list[dict[str, Any]]:
    """`bench.in_processes` for cases that may also hang: a process that says nothing for PATIENCE seconds is ended, and its case has status 702."""

    def shard(members: list[int]) -> list[tuple[int, dict[str, Any]]]:
        done: list[tuple[int, dict[str, Any]]] = []
        while len(done) < len(members):
            rest = members[len(done) :]
            with tempfile.TemporaryDirectory() as folder:
                file, errors = pathlib.Path(folder) / "cases.json", pathlib.Path(folder) / "errors"
                file.write_text(json.dumps([chosen[i] for i in rest]))
                command = [sys.executable, "-m", "tools.capture.capture", "--arch", settings.arch, "--risky", what, str(file)]
                with (
                    errors.open("w") as stderr,
                    subprocess.Popen(command, cwd=base.ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
                ):
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


def write(bench: Bench, out: pathlib.Path, suite: str, kind: str, title: str, seed: int, cases: int, arrays: dict[str, np.ndarray],
          delta: tuple[str, ...] = ()) -> None:  # fmt: skip
    """Write one suite; the manifest names this folder's files too."""
    files = sorted(p for folder in (base.HERE, HERE) for pattern in ("*.py", "*.cu", "*.cuh") for p in folder.glob(pattern))
    source = {
        "command": f"python tools/capture/capture.py --arch {settings.arch} --out golden/{settings.arch} {suite}",
        "seed": seed,
        "files": {p.relative_to(base.HERE).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files},
    }
    about = {"suite": suite, "kind": kind, "arch": settings.arch, "title": title, "device": bench.device.describe(), "source": source}
    write_suite(out / suite, cases=cases, arrays=arrays, delta=delta, **about)


def report(suite: str, answers: list[dict[str, Any]]) -> None:
    late = sum(1 for a in answers if not a["status"] and not a.get("completed", 1))
    print(suite, dict(collections.Counter(a["status"] for a in answers)), f"{late} timed out" if late else "", file=sys.stderr, flush=True)
