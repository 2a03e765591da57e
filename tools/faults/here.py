"""What smemsim says of a kernel with a fault: its findings with the lines of the source, and whether the outputs are
right.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from typing import Any

import numpy as np

from smemsim import Gpu, Unmodelled
from smemsim.core.spec.findings import Severity
from tools.faults.planted import Fault, Planted, compiled

__all__ = ["LIMIT", "Verdict", "judged"]

LIMIT = 100_000  # blocks of instructions: the longest of the clean kernels needs 5,000


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`found`: there is a finding, or a remark of a fault that libraries have too. `right`: the first of them is the
    fault's. `told` are (code, line of the source, message). `fails`: there is a finding, which changes the exit code.
    """

    found: bool
    right: bool
    told: tuple[tuple[str, int, str], ...]
    is_equal: bool
    fails: bool


def run_of(kernel: Planted, ptx: str) -> tuple[Any, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(the run of a variant's PTX, its outputs, what they must be)."""
    launch = kernel.launch(ptx)
    gpu = Gpu(kernel.shape.arch)
    arrays, args = launch.placed(gpu)
    for name in kernel.shape.unwritten:
        gpu.memory.declare_blank(arrays[name].address)
    expected = kernel.shape.expect(launch.arrays())
    run = gpu.run(ptx, launch.config(args), dataclasses.replace(_options(), name=kernel.name))
    return run, {name: arrays[name].numpy() for name in expected}, expected


def _options() -> Any:
    from smemsim.run.engine.launch import RunOptions

    return RunOptions(progress=False, limit=LIMIT, workers=1, watch_global=True)


def _source_line(ptx: str, line: int) -> int:
    """The line of the source that a line of the PTX comes from."""
    said = [text.split()[2] for text in ptx.splitlines()[:line] if text.strip().startswith(".loc")]
    return int(said[-1]) if said else 0


def is_equal(found: np.ndarray, expected: np.ndarray, rtol: float) -> bool:
    """Are these the numbers that numpy computes, bit for bit where no tolerance is given?"""
    a, b = found.reshape(-1), expected.reshape(-1)
    if rtol:
        return bool(np.allclose(a, b, rtol=rtol, atol=0))
    return bool((a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")).all())


def judged(kernel: Planted, fault: Fault | None, ptx: str = "") -> Verdict:
    """What smemsim says of a kernel with a fault, None for the clean one."""
    text = ptx or compiled(kernel, fault.number if fault else 0)
    try:
        run, outputs, expected = run_of(kernel, text)
    except Unmodelled as e:  # undefined by the PTX ISA, and refused: it names the line
        line = _source_line(text, int(number[1])) if (number := re.search(r"line (\d+)", str(e))) else 0
        return Verdict(True, fault is not None and line in fault.lines, (("Unmodelled", line, str(e)),), False, True)
    told = []
    for one in (*run.findings, *run.remarks):
        place = one.place
        line = place.line if place is not None and pathlib.PurePath(place.file).name == kernel.source.name else 0
        told.append((one.code, line, one.message, one.severity is not Severity.NOTE or one.is_milder))
    wrong = [one for one in told if one[3]]
    first = wrong[0] if wrong else None
    right = fault is not None and first is not None and first[0] in fault.codes and first[1] in fault.lines
    equal = all(is_equal(outputs[name], expected[name], kernel.shape.rtol) for name in expected)
    return Verdict(bool(wrong), right, tuple(one[:3] for one in told), equal, bool(run.findings))
