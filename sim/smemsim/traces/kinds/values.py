"""What TMA does to floating-point values while loading and storing."""

from __future__ import annotations

import numpy as np

from smemsim.machine.memory import GlobalMemory, SharedMemory
from smemsim.spec.evidence import RULES
from smemsim.traces.format import Suite
from smemsim.traces.kinds.tensor_map import MAP_COLUMNS, recorded_map
from smemsim.traces.outcome import Case, differ

__all__ = ["TmaValues"]


class TmaValues:
    """One row loaded into, or stored from, the first user bytes of shared memory."""

    columns = {**MAP_COLUMNS, "store": 1, "input": 2, "output": 2}  # noqa: RUF012

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Move the row and compare every byte of it."""
        a = self.suite.arrays
        tm, wrong_map = recorded_map(self.suite, index)
        row, is_store = a["input"][index], bool(a["store"][index])

        def title() -> str:
            return f"{'store' if is_store else 'load'} of {tm!r}"

        if wrong_map:
            return Case(title, wrong_map)
        world, shared = GlobalMemory(), SharedMemory(self.suite.arch, size=4096)
        if is_store:
            world.place(np.full(len(row), 0xA5, np.uint8), tm.global_address)
            shared.write(shared.begin, row)
            shared.tma_store(tm, (0,), smem_address=shared.begin, to=world)
            model = world.region(tm.global_address)[1]
        else:
            world.place(row, tm.global_address)
            shared.tma_load(tm, (0,), smem_address=shared.begin, source=world)
            model = shared.bytes[: len(row)]
        hardware = a["output"][index]

        def describe(at: tuple[int, ...]) -> str:
            i = at[0] // tm.type_row.itemsize * tm.type_row.itemsize
            element = slice(i, i + tm.type_row.itemsize)
            words = [bytes(x[element])[::-1].hex() for x in (row, hardware, model)]
            return f"byte {at[0]}: of 0x{words[0]} hardware made 0x{words[1]} | model 0x{words[2]}"

        return Case(title, differ(hardware, model, RULES["tma.values"], "bytes", describe, 4))
