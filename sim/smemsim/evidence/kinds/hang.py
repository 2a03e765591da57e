"""Small kernels that end on the card or hang: what smemsim finds in them, and what they leave in memory."""

from __future__ import annotations

import numpy as np

from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.findings import Severity
from smemsim.evidence.kinds.common import Comparer
from smemsim.evidence.outcome import Case, Outcome, differ
from smemsim.run.engine.device import Device
from smemsim.run.engine.grid import execute
from smemsim.run.engine.launch import Launch, LaunchConfig, RunOptions

__all__ = ["Hang"]

ARRAY = 4096  # bytes of the array that a kernel gets
TOLD = 1024  # of these, in which each thread writes that it has ended; what follows may depend on undefined values
LIMIT = 20_000  # blocks


class Hang(Comparer):
    """Does smemsim find something in the kernels that hang or trap, and do those that end not hang in smemsim?"""

    columns = {"name": 1, "ptx": 1, "warps": 1, "cluster": 1, "hangs": 1, "status": 1, "is_stable": 1, "bytes_start": 1}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Run the kernel and compare."""
        a, rule = self.suite.arrays, next(rule for rule in RULES.values() if self.suite.name in rule.traces)
        launch, left = self._run(index)
        found = [f for f in launch.result.findings.values() if f.severity != Severity.NOTE]
        hangs = any(f.code == "X006" or "for ever" in f.what for f in found)
        error = f"CUDA error {a['status'][index]}" if a["status"][index] else "hangs" if a["hangs"][index] else ""

        def title() -> str:
            return str(a["name"][index])

        if (error and not found) or (hangs and not error):
            said = f"{found[0].code}: {found[0].message}" if found else "it ends, and nothing is found"
            return Case(title, Outcome(1, 1, f"hardware: {error or 'it ends'} | model: {said}", (), rule, "outcome"))
        if found:
            return Case(title, Outcome(1))
        hardware = self.suite.ragged("bytes", index)[:TOLD]
        return Case(
            title, differ(hardware, left[: len(hardware)], rule, "bytes", lambda at: f"byte {at[0]}: {hardware[at]} | model {left[at]}")
        )

    def _run(self, index: int) -> tuple[Launch, np.ndarray]:
        """The launch, and the bytes that it left."""
        a, device = self.suite.arrays, Device(self.suite.arch)
        array = device.zeros((ARRAY,), np.uint8)
        ctas = int(a["cluster"][index])
        config = LaunchConfig(grid=ctas, block=32 * int(a["warps"][index]), cluster=ctas, args=[array])
        launch = device.prepare(str(a["ptx"][index]), config, RunOptions(limit=LIMIT))
        execute(launch, sanitizer=False)
        return launch, array.numpy()
