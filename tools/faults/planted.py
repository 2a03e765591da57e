"""The kernels of `sources/` and the faults that their first lines list: what is wrong, which findings name it, and at
which lines.

A kernel is a file `sources/NAME.cu` (Hopper) or `sources/NAME.ptx.py` with an entry NAME. Its lines `//! n | kind |
what is wrong | codes | places` are its faults: compiled with -DFAULT=n one place of it changes. A place is a word
behind `// @` at the end of a line; the first finding is right where its code is one of the codes and its line one of
these places.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import subprocess
import tempfile

import numpy as np

from smemsim.core.tables import Source
from smemsim.evidence.launches import LaunchFile, checked
from tools.faults.shapes import SHAPES, Shape

__all__ = ["SOURCES", "Fault", "Planted", "all_planted", "arrays_of", "compiled", "planted"]

SOURCES = pathlib.Path(__file__).parent / "sources"
_FAULT = re.compile(r"^//! (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|\n]+)$", re.M)
_PLACE = re.compile(r"// @(\w+)")


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault: its number, its kind, what is wrong, the codes that name it and the lines of the source where it may
    be told.
    """

    kernel: str
    number: int
    kind: str
    says: str
    codes: tuple[str, ...]
    lines: frozenset[int]

    @property
    def name(self) -> str:
        """The kernel and the number."""
        return f"{self.kernel}/{self.number}"


@dataclasses.dataclass(frozen=True)
class Planted:
    """A kernel, with how it is launched, and its faults; the clean kernel is fault 0."""

    name: str
    source: pathlib.Path
    shape: Shape
    faults: tuple[Fault, ...]

    @property
    def says(self) -> str:
        """What the kernel does: the first lines of its source."""
        head = self.source.read_text().split("//!")[0]
        return " ".join(line.removeprefix("//").strip() for line in head.splitlines())

    def launch(self, ptx: str) -> LaunchFile:
        """The launch of a variant's PTX."""
        about = checked({"entry": self.name, "arch": self.shape.arch, **self.shape.about}, Source.of_text(self.source, ""))
        return LaunchFile(self.name, ptx, about, path=str(self.source.name))


@functools.cache
def planted(name: str) -> Planted:
    """A kernel by its name."""
    source = SOURCES / f"{name}.cu"
    text = source.read_text()
    places: dict[str, set[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for place in _PLACE.findall(line):
            places.setdefault(place, set()).add(number)
    faults = tuple(
        Fault(name, int(n), kind.strip(), says.strip(), tuple(codes.split()), frozenset().union(*(places[p] for p in at.split())))
        for n, kind, says, codes, at in _FAULT.findall(text)
    )
    return Planted(name, source, SHAPES[name], faults)


def all_planted() -> list[Planted]:
    """Every kernel."""
    return [planted(name) for name in SHAPES]


def compiled(kernel: Planted, fault: int) -> str:
    """The PTX of a kernel with one of its faults, 0 for none, with the lines of its source. RuntimeError with nvcc's
    words.
    """
    with tempfile.TemporaryDirectory() as folder:
        to = pathlib.Path(folder) / "kernel.ptx"
        command = [
            "nvcc",
            "-ptx",
            f"-arch={kernel.shape.arch}",
            "-lineinfo",
            "-std=c++17",
            "-w",
            f"-DFAULT={fault}",
            str(kernel.source),
            "-o",
            str(to),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{kernel.name}, fault {fault}: {done.stderr[-800:]}")
        return to.read_text()


def arrays_of(launch: LaunchFile, shape: Shape) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(the arrays before the launch, what must stand in the outputs after it, raw bits
    where numpy has no such type).
    """
    before = launch.arrays()
    return before, shape.expect(before)
