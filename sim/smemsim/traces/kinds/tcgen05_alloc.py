"""tcgen05.alloc: the addresses that a sequence of allocations gives."""

from __future__ import annotations

import numpy as np

from smemsim.errors import Unmodelled
from smemsim.machine.tmem.address import TmemAddress
from smemsim.machine.tmem.memory import TensorMemory
from smemsim.spec.evidence import RULES
from smemsim.traces.format import Suite
from smemsim.traces.kinds.blackwell import judged
from smemsim.traces.outcome import Case, differ

__all__ = ["Tcgen05Alloc", "Tcgen05Contention"]

ALLOC, DEALLOC, RELINQUISH = range(3)
NO_ADDRESS = 0xFFFFFFFF


class Tcgen05Alloc:
    """Sequences of alloc, dealloc and relinquish by a CTA, or by both of a pair."""

    columns = {"what": 1, "group": 1, "ops": 3, "status": 1, "address": 3, "cycles": 3}  # noqa: RUF012

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Compare the addresses; a sequence that breaks a rule, or waits for ever, must not end well."""
        a = self.suite.arrays
        group, ops = int(a["group"][index]), a["ops"][index].tolist()
        hardware = a["address"][index][:group].astype(np.int64)

        def named(op: list[int]) -> str:
            what, columns, number = op
            return {ALLOC: f"alloc {columns}", DEALLOC: f"dealloc {columns} of {number}", RELINQUISH: "relinquish"}.get(what, "")

        def title() -> str:
            return f"cta_group::{group}: {', '.join(filter(None, map(named, ops)))} ({a['what'][index]})"

        def model() -> np.ndarray:
            memory, found = TensorMemory(self.suite.arch), np.full(len(ops), NO_ADDRESS, np.int64)
            for at, (what, columns, number) in enumerate(ops):
                if what == ALLOC:
                    found[at] = TmemAddress.decode(memory.alloc(columns, cta_group=group)).encode()
                elif what == DEALLOC:
                    memory.dealloc(int(found[number]), columns, cta_group=group)
                elif what == RELINQUISH:
                    memory.relinquish_alloc_permit(cta_group=group)
            return np.broadcast_to(found, hardware.shape)

        found, outcome = judged(int(a["status"][index]), 1, RULES["tcgen05.alloc"], model)
        if outcome:
            return Case(title, outcome)

        def describe(at: tuple[int, ...]) -> str:
            what = f"CTA {at[0]}, operation {at[1]} ({named(ops[at[1]]) or 'none'})"
            said = ["no address" if x[at] == NO_ADDRESS else f"{int(x[at]):#x}" for x in (hardware, found)]
            return f"{what}: hardware gives {said[0]} | model {said[1]}"

        return Case(title, differ(hardware, found, RULES["tcgen05.alloc"], "addresses", describe, 1))


class Tcgen05Contention:
    """CTAs that wait for one another's columns: recorded, not compared."""

    columns = {"sizes": 2, "ctas": 1, "status": 1, "held_start": 1}  # noqa: RUF012

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Nothing to compare: the model has one CTA on an SM and no time."""
        a = self.suite.arrays
        sizes = [int(n) for n in a["sizes"][index] if n]
        raise Unmodelled(
            f"{int(a['ctas'][index])} CTAs that ask for {sizes} columns: recorded, not compared; who waits for whom, and who then gets which "
            "columns, is a matter of time, which is not modelled"
        )
