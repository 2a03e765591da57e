"""Whole kernels: their PTX is executed, and every byte of the outputs is compared with the GPU's.

Outputs of approximate instructions are compared within the launch's `rtol` and `atol` (2^-10 and 2^-20 if it has none).
For f64 instructions with two NaN operands ptxas decides which one is passed on. Such launches are marked, and any NaN
is accepted there. A launch file with a table `counters` fails, too, if the launch exceeds a bound.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from smemsim.core.arithmetic.values import to_float64
from smemsim.core.ptx.sources import Sources
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.findings import Severity
from smemsim.diagnosis.costs import limit_findings
from smemsim.diagnosis.counted import counters_of
from smemsim.diagnosis.numbers import Tolerance
from smemsim.evidence.format import Suite
from smemsim.evidence.kinds.common import Comparer
from smemsim.evidence.launches import LaunchFile, RecordedLaunches
from smemsim.evidence.outcome import Case, Outcome, differ
from smemsim.run.counters import Counting
from smemsim.run.counters.limits import limits_of
from smemsim.run.engine.arrays import DeviceArray
from smemsim.run.engine.device import Device
from smemsim.run.engine.grid import execute
from smemsim.run.engine.launch import Launch, RunOptions
from smemsim.run.events import Observer

__all__ = ["LaunchOutputs"]


APPROXIMATE = Tolerance(rtol=2.0**-10, atol=2.0**-20)  # of launches that name none
UNITS = 2  # in the last place, of packed 16-bit results of approximations


class LaunchOutputs(Comparer):
    """The outputs of a launch, or the error that ended it."""

    columns = {"status": 1}  # noqa: RUF012

    def __init__(self, suite: Suite) -> None:
        super().__init__(suite)
        self.recorded = RecordedLaunches(suite)

    def case(self, index: int) -> Case:
        """Run the launch and compare; the first output that differs is the outcome."""
        file, wanted = self.recorded.launch(index), self.recorded.status(index)
        bounds = limits_of(file.about["counters"]) if isinstance(file.about.get("counters"), Mapping) else ()
        counting = Counting() if bounds else None
        launch, arrays = run_file(file, self.suite.arch, observers=() if counting is None else (counting,))
        traps = [f for f in launch.result.findings.values() if f.severity == Severity.TRAP]
        if bool(launch.status) != bool(wanted):
            said = f"{traps[0].code}: {traps[0].message}" if traps else "it ends"
            outcome = f"hardware ends with CUDA error {wanted}" if wanted else "hardware runs it to its end"
            return Case(lambda: file.name, Outcome(1, 1, f"{outcome} | model: {said}", (), RULES["gpu.execution"], "launches"))
        if wanted:
            return Case(lambda: file.name, Outcome(1))
        compared = 0
        for name, output in self.recorded.outputs(index).items():
            difference = self._compare(file, index, name, output, arrays[name].numpy())
            if difference.differing:
                return Case(lambda: file.name, difference)
            compared += difference.compared
        if counting is not None:
            body = launch.program.inlined.body
            table = counters_of(launch, counting, lambda: Sources(body).place)
            exceeded = [f"{at.location or f'PTX line {at.line}'}: {at.message}" for at in limit_findings(table, bounds, body)]
            if exceeded:
                return Case(lambda: file.name, Outcome(len(bounds), len(exceeded), exceeded[0], what="bounds of counters"))
        return Case(lambda: file.name, Outcome(compared))

    def _compare(self, file: LaunchFile, index: int, name: str, output: int, model: np.ndarray) -> Outcome:
        raw = np.ascontiguousarray(model).reshape(-1).view(np.uint8)
        rule = RULES["gpu.execution"]
        if hashlib.sha256(raw.tobytes()).hexdigest() == self.suite.arrays["output_sha256"][output]:
            return Outcome(len(raw))
        stored = self.recorded.recorded_bytes(output)
        if stored is None or len(stored) != len(raw):
            return Outcome(len(raw), 1, self.recorded.difference(index, name, model), (), rule, "outputs")
        flat = model.reshape(-1)
        hardware = stored.view(flat.dtype)
        if file.about["exact"]:
            bits = f"u{flat.dtype.itemsize}"
            return differ(hardware.view(bits), flat.view(bits), rule, "elements", lambda at: f"{name}[{at[0]}]", 16)
        dtype = next(one["dtype"] for one in file.about["arrays"] if one["name"] == name)
        wrong = ~_close(hardware, flat, dtype, file.tolerance or APPROXIMATE)
        return differ(
            wrong, np.zeros_like(wrong), rule, "elements", lambda at: f"{name}[{at[0]}]: {hardware[at]} on hardware | model {flat[at]}", 16
        )


def _close(hardware: np.ndarray, model: np.ndarray, dtype: str, tolerance: Tolerance) -> np.ndarray:
    """Which elements of two approximations agree; packed halves are compared in units in the last place."""
    if dtype == "u32":
        pairs = [x.view(np.int16).astype(np.int32) for x in (hardware, model)]
        near: np.ndarray = (np.abs(pairs[0] - pairs[1]) <= UNITS).reshape(-1, 2).all(axis=1)
        return near
    a, b = (np.asarray(to_float64(x, dtype) if dtype in ("bf16", "e4m3", "e5m2") else x, np.float64) for x in (hardware, model))
    return tolerance.near(b, a)


def run_file(
    file: LaunchFile, arch: str, *, sanitizer: bool = False, observers: Sequence[Observer] = ()
) -> tuple[Launch, dict[str, DeviceArray]]:
    """Execute a recorded launch; the launch and its arrays afterwards."""
    device = Device(arch)
    arrays, args = file.placed(device)
    launch = device.prepare(file.ptx, file.config(args), RunOptions(observers=observers) if observers else None)
    execute(launch, sanitizer=sanitizer)
    return launch, arrays
