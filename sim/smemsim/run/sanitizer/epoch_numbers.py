"""What the numbers in epochs of global memory stand for (`global_loops.py`): instructions, and asynchronous writes."""

from __future__ import annotations

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.sanitizer import global_loops as loops

__all__ = ["NEVER", "SCOPES", "Numbers", "scope_of"]


NEVER = np.iinfo(np.int32).max  # the clock after a wait that is still to come
SCOPES = {"cta": 1, "cluster": 2, "gpu": 3, "sys": 4}
SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")


def scope_of(i: Instruction) -> int:
    """How far a strong access reaches, 0 for a weak one. Volatile ones are relaxed in all the system (PTX ISA 9.1
    §8.4).
    """
    words = set(i.modifiers)
    if words & {"volatile", "mmio"}:
        return SCOPES["sys"]
    if i.op == "cp":  # reductions are relaxed, each element for itself (PTX ISA 9.1 §9.7.9.25)
        return SCOPES["gpu"] if i.modifiers[0] == "reduce" else 0
    if i.op in ("atom", "red") or words.intersection(SEMANTICS):
        return next((SCOPES[m] for m in i.modifiers if m in SCOPES), SCOPES["gpu"])
    return 0


class Numbers:
    """The instructions of a launch that access global memory, each with its scope and whether it writes asynchronously,
    and the clocks after the waits for asynchronous writes. `bounds` gets a sentence where numbers end.
    """

    def __init__(self, bounds: set[str]) -> None:
        self.bounds = bounds
        self.instructions: list[Instruction] = []
        self.scope, self.asynchronous = np.zeros(64, np.int64), np.zeros(64, bool)
        self.waited = np.zeros(256, np.int32)
        self.writes = 0  # asynchronous ones
        self._index: dict[int, int] = {}

    def index(self, i: Instruction) -> int:
        """The number of an instruction."""
        n = self._index.get(id(i))
        if n is None:
            n = min(len(self.instructions), loops.INDEX)
            if n == loops.INDEX:
                self.bounds.add(f"races in global memory: instructions after the first {loops.INDEX:,} that access it count as one")
            self._index[id(i)] = n
            self.instructions[n:] = [i]
            if n == len(self.scope):
                self.scope, self.asynchronous = np.resize(self.scope, 2 * n), np.resize(self.asynchronous, 2 * n)
            self.scope[n], self.asynchronous[n] = scope_of(i), i.op == "cp"
        return n

    def issues(self) -> int:
        """An asynchronous write begins; returns its place in `waited`."""
        if self.writes == loops.CLOCK:
            self.bounds.add(f"races in global memory: asynchronous writes after the first {loops.CLOCK:,} are not followed")
            return 0
        self.writes += 1
        if self.writes == len(self.waited):
            self.waited = np.resize(self.waited, 2 * self.writes)
        self.waited[self.writes] = NEVER
        return self.writes
