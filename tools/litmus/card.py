"""Litmus tests on a GPU: thousands of instances of a test in a launch, which begin together but for a few drawn cycles.

    python -m tools.litmus.card SPACE < TEST

prints as JSON what registers, locations and "hung" end with, and how often. A test has a process of its own, since a
trap ends the context.
"""

from __future__ import annotations

import collections
import json
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np

from smemsim.run import LaunchConfig
from smemsim.testing.recorder import CudaError, Gpu
from tools.litmus.kernel import STEP, kernel_of
from tools.litmus.parse import Litmus, parse

__all__ = ["GpuCard", "asked"]

INSTANCES = 4096
SKEWS = (0, 15, 127, 1023)  # the most turns of an empty loop that a thread waits
LAUNCHES = 6  # for each of them


class GpuCard:
    """The GPU at hand."""

    def __init__(self) -> None:
        self.gpu = Gpu()
        self.name = str(self.gpu.describe()["gpu"])

    def outcomes(self, test: Litmus, space: str) -> list[tuple[dict[str, int], int]]:
        """(what registers, locations and "hung" end with, how often)."""
        kernel = kernel_of(test, space, many=True)
        loaded = self.gpu.load(kernel.ptx).kernel("litmus")
        words, places = STEP // 4 * len(kernel.locations), len(kernel.results)
        first = np.zeros((INSTANCES, max(words, 1)), np.uint32)
        for n, name in enumerate(kernel.locations):
            first[:, STEP // 4 * n] = test.memory[name] & 0xFFFFFFFF
        memory, out = self.gpu.allocate(first.nbytes), self.gpu.allocate(4 * INSTANCES * places)
        found: collections.Counter[tuple[int, ...]] = collections.Counter()
        names = (*kernel.results, *(() if kernel.is_shared else kernel.locations))
        for launch in range(LAUNCHES):
            for skew in SKEWS:
                self.gpu.put(memory, first)
                self.gpu.put(out, np.zeros(INSTANCES * places, np.uint32))
                self._run(loaded, kernel, memory, out, launch * 977 + skew, skew)
                left = self.gpu.get(out, 4 * INSTANCES * places).view(np.int32).reshape(INSTANCES, places)
                if not kernel.is_shared:
                    cells = self.gpu.get(memory, first.nbytes).view(np.int32).reshape(INSTANCES, -1)
                    left = np.hstack([left, cells[:, : words : STEP // 4]])
                rows, counts = np.unique(left, axis=0, return_counts=True)
                found.update({tuple(map(int, row)): int(count) for row, count in zip(rows, counts, strict=True)})
        return [(dict(zip(names, row, strict=True)), count) for row, count in found.items()]

    def _run(self, loaded: Any, kernel: Any, memory: int, out: int, seed: int, skew: int) -> None:
        arguments = [memory.to_bytes(8, "little"), out.to_bytes(8, "little"), seed.to_bytes(4, "little"), skew.to_bytes(4, "little")]
        cluster = kernel.ctas if kernel.is_shared else None
        code = self.gpu.execute(loaded, LaunchConfig(grid=INSTANCES * kernel.ctas, block=kernel.threads, cluster=cluster, args=arguments))
        if code:
            raise CudaError(code, "cuCtxSynchronize")


def asked(text: str, space: str) -> dict[str, Any]:
    """What the GPU at hand makes of a test: its name, its outcomes with their counts, or the error."""
    root = pathlib.Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "tools.litmus.card", space]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, cwd=root)
    found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"name": "", "outcomes": [], "error": done.stderr[-200:]}
    return found


def main() -> int:
    """The command line."""
    test, space = parse(sys.stdin.read()), sys.argv[1]
    card = GpuCard()
    try:
        print(json.dumps({"name": card.name, "outcomes": card.outcomes(test, space)}))
    except CudaError as e:
        print(json.dumps({"name": card.name, "outcomes": [], "error": f"CUDA error {e.code}"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
