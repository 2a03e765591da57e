"""wgmma operands: which byte was read for every element."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.descriptors.layout import rules_in_force, window_reach
from smemsim.descriptors.operand import operand_addresses
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import HardwareTrap
from smemsim.spec.architectures import architecture
from smemsim.spec.formats import element_format
from smemsim.spec.traps import ILLEGAL_ADDRESS
from smemsim.traces.format import Suite
from smemsim.traces.kinds.common import trapped
from smemsim.traces.outcome import Case, differ

__all__ = ["WgmmaOperand"]


class WgmmaOperand:
    """Which byte wgmma read for every element of an operand."""

    columns = {  # noqa: RUF012
        "descriptor": 1, "dtype": 1, "major": 1, "operand": 1, "sparse": 1, "rows": 1, "k": 1, "status": 1, "window_end": 1,
        "address_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Compare the addresses, or the trap."""
        a, machine = self.suite.arrays, architecture(self.suite.arch)
        word, rows, k = int(a["descriptor"][index]), int(a["rows"][index]), int(a["k"][index])
        dtype, major = str(a["dtype"][index]), str(a["major"][index])
        d = SmemDescriptor.decode(word, arch=machine.name)
        arguments: dict[str, Any] = {"arch": self.suite.arch, "dtype": dtype, "major": major, "rows": rows, "k": k}
        sparse = ", sparse" if a["sparse"][index] else ""

        def title() -> str:
            return f"descriptor {word:#018x}, operand {a['operand'][index]}, {dtype} {major}-major, {rows} x {k}{sparse}"

        end = int(a["window_end"][index])

        def model() -> np.ndarray:
            address = operand_addresses(word, **arguments)
            along, lines = (k, rows) if major == "K" else (rows, k)
            chunks = -(-along // element_format(dtype).elements_per_chunk())
            granted = -(-end // machine.shared_granularity) * machine.shared_granularity
            if window_reach(d, major, lines, chunks) > granted:
                raise HardwareTrap("past the window", cuda_error=ILLEGAL_ADDRESS)
            return np.where(address < end, address, 0)  # past the end no byte is coded, and zero is read

        address, outcome = trapped(int(a["status"][index]), "operand.window", model)
        if outcome:
            return Case(title, outcome)
        hardware = self.suite.ragged("address", index).reshape(rows, k)
        # What lies below the first user byte belongs to the system: hardware reads it without a fault, its contents are not ours.

        def describe(at: tuple[int, ...]) -> str:
            return f"row {at[0]}, k {at[1]}: hardware {int(hardware[at]):#x} | model {int(address[at]):#x}"

        fmt = element_format(dtype)
        rules = rules_in_force(d, machine, major=major, k_bytes=k * fmt.bits // 8, bits=fmt.bits)
        return Case(title, differ(hardware, address, rules[0], "addresses", describe, max(1, 16 // max(1, hardware.shape[1] // 8))))
