"""Kernels that use registers or operands of a wgmma before it is known to be complete: does smemsim find those that
compute wrong on the card?
"""

from __future__ import annotations

import numpy as np

from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.findings import Severity
from smemsim.evidence.kinds.common import Comparer
from smemsim.evidence.outcome import Case, Outcome, differ
from smemsim.run.engine.device import Device
from smemsim.run.engine.grid import execute
from smemsim.run.engine.launch import LaunchConfig, RunOptions

__all__ = ["EarlyUse"]

THREADS = 256  # of the CTA


class EarlyUse(Comparer):
    """Is there a finding in the kernels with wrong words, and none in those that ptxas compiles without a warning and
    that are right? In smemsim each leaves the words of its twin, which waits.
    """

    columns = {  # noqa: RUF012
        "name": 1, "ptx": 1, "twin_ptx": 1, "told": 1, "wrong": 1, "words": 1, "launches_wrong": 1, "operands": 2, "threads": 2, "twin_start": 1, "left_start": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Run the kernel and compare."""
        a, rule, twin = self.suite.arrays, RULES["wgmma.in_flight"], self.suite.ragged("twin", index)
        codes, left = self._run(index, len(twin))

        def title() -> str:
            return str(a["name"][index])

        if bool(a["wrong"][index]) > bool(codes) or (codes and not a["wrong"][index] and not a["told"][index]):
            said = f"{a['wrong'][index]} of {a['words'][index]} words are wrong"
            return Case(title, Outcome(1, 1, f"hardware: {said} | model: {', '.join(codes) or 'nothing is found'}", (), rule, "outcome"))
        return Case(title, differ(twin, left, rule, "words", lambda at: f"word {at[0]}: {twin[at]:#x} | model {left[at]:#x}"))

    def _run(self, index: int, words: int) -> tuple[list[str], np.ndarray]:
        """The codes of the findings, and the words that some threads leave."""
        a, device = self.suite.arrays, Device(self.suite.arch)
        threads = a["threads"][index]
        registers = words // len(threads)
        given, wanted, left = (device.array(x) for x in (a["operands"][index], *np.zeros((2, THREADS * registers), np.uint32)))
        config = LaunchConfig(grid=1, block=THREADS, args=[given, wanted, left, device.zeros((1,), np.uint64), 1])
        launch = device.prepare(bytes(a["ptx"][index]).decode(), config, RunOptions())
        execute(launch)
        codes = sorted({f.code for f in launch.result.findings.values() if f.severity != Severity.NOTE})
        return codes, left.numpy().reshape(registers, THREADS)[:, threads].reshape(-1)
