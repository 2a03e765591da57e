"""Recorded launches: the folder with `kernel.ptx` and `launch.json` (see `launch_file`), and what a GPU made of it.

A suite of kind "launch" has a folder `kernels` with those of its cases, and in its arrays the SHA-256 of every output, of every row of it, some elements,
and the bytes of small ones and of those that approximate instructions made.
"""

from __future__ import annotations

import hashlib
import pathlib

import numpy as np

from smemsim.arguments import shown
from smemsim.errors import InputError, TraceError
from smemsim.files import named_inside
from smemsim.traces.format import Suite
from smemsim.traces.launch_checks import SCHEMA
from smemsim.traces.launch_file import KERNEL, LaunchFile, read_launch_file

__all__ = ["SCHEMA", "LaunchFile", "RecordedLaunches", "load_launch_file", "row_digest", "sample_places"]

DESCRIPTION = "launch.json"
SAMPLES = 64


def load_launch_file(folder: str | pathlib.Path) -> LaunchFile:
    """Read a recorded launch's folder. TraceError says what is wrong with it."""
    path = pathlib.Path(folder)
    try:
        return read_launch_file(path / DESCRIPTION, path / KERNEL)
    except InputError as e:
        raise TraceError(f"{e}; a recorded launch is a folder with {KERNEL} and {DESCRIPTION}: restore it from version control") from None


def sample_places(count: int) -> np.ndarray:
    """The places of an array's samples: at most 64 of `count`, spread evenly, the first and the last among them.

    >>> sample_places(5).tolist(), sample_places(1000)[[0, 1, -1]].tolist()
    ([0, 1, 2, 3, 4], [0, 15, 999])
    """
    if count <= SAMPLES:
        return np.arange(count)
    return np.arange(SAMPLES) * (count - 1) // (SAMPLES - 1)


def row_digest(row: np.ndarray) -> int:
    """The first 64 bits of the SHA-256 of a row's bytes."""
    return int.from_bytes(hashlib.sha256(np.ascontiguousarray(row).tobytes()).digest()[:8], "big")


class RecordedLaunches:
    """The cases of a suite of kind "launch": what was launched, and what the GPU left in memory."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def __len__(self) -> int:
        return len(self.suite)

    def launch(self, case: int) -> LaunchFile:
        """What was launched. TraceError where the folder's kernel is not the one that ran."""
        name = str(self.suite.arrays["name"][case])
        folder = named_inside(self.suite.path / "kernels", name)
        if folder is None:
            raise TraceError(f"{self.suite.path}: case {case} is called {shown(name)}, which is no folder of its kernels")
        file = load_launch_file(folder)
        if hashlib.sha256(file.ptx.encode()).hexdigest() != self.suite.arrays["ptx_sha256"][case]:
            raise TraceError(f"{file.name}: {KERNEL} is not the text that was recorded; restore it from version control")
        return file

    def status(self, case: int) -> int:
        """0, or the CUDA error that ended the launch."""
        return int(self.suite.arrays["status"][case])

    def outputs(self, case: int) -> dict[str, int]:
        """The numbers of a case's outputs in the suite's arrays, by name."""
        first, end = (int(x) for x in self.suite.arrays["output_start"][case : case + 2])
        return {str(self.suite.arrays["output"][i]): i for i in range(first, end)}

    def recorded_bytes(self, output: int) -> np.ndarray | None:
        """All bytes of an output, where they were stored."""
        stored = self.suite.ragged("bytes", output)
        return stored if len(stored) else None

    def difference(self, case: int, name: str, found: np.ndarray) -> str:
        """Where an output differs from what the GPU left, in a sentence; empty where every byte is the same."""
        output, launch = self.outputs(case)[name], self.launch(case)
        data = np.ascontiguousarray(found).reshape(-1)
        raw = data.view(np.uint8)
        if hashlib.sha256(raw.tobytes()).hexdigest() == self.suite.arrays["output_sha256"][output]:
            return ""
        recorded = self.recorded_bytes(output)
        bits = data.view(f"u{data.itemsize}")
        if recorded is not None:
            if len(recorded) != len(raw):
                return f"{name}: {len(raw)} bytes, the GPU left {len(recorded)}"
            wanted = recorded.view(bits.dtype)
            wrong = np.flatnonzero(wanted != bits)
            return f"{name}[{wrong[0]}] is {int(bits[wrong[0]]):#x}, the GPU left {int(wanted[wrong[0]]):#x} ({len(wrong)} of {len(bits)} elements differ)"
        digests = self.suite.ragged("row_sha256", output)
        rows = [i for i, row in enumerate(np.split(raw, launch.rows(name))) if row_digest(row) != int(digests[i])]
        samples, places = self.suite.ragged("sample", output), sample_places(len(bits))
        wrong = np.flatnonzero(samples != bits[places].astype(np.uint64))
        seen = f"; [{places[wrong[0]]}] is {int(bits[places[wrong[0]]]):#x}, the GPU left {int(samples[wrong[0]]):#x}" if len(wrong) else ""
        return f"{name}: {len(rows)} of {len(digests)} rows differ, the first is row {rows[0]}{seen}"
