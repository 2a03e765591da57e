"""The meaning of the numbers in epochs of global memory (`global_loops.py`): instructions, and copies."""

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
    """The instructions of a launch that access global memory, and the first warp that knows of each copy's completion
    (`global_loops.Known`). Each instruction has its scope and whether it is a copy. If the numbers are used up,
    `bounds` gets a sentence.
    """

    def __init__(self, bounds: set[str]) -> None:
        self.bounds = bounds
        self.instructions: list[Instruction] = []
        self.scope, self.asynchronous = np.zeros(64, np.int64), np.zeros(64, bool)
        self.waited, self.told = np.zeros(256, np.int32), np.zeros(256, np.int32)
        self.copies = 0  # that have a place in `waited`
        self.tellers, self._tellers = np.zeros((16, 4), np.int32), 1  # how many rows are in use; row 0 is none
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
        """A copy begins; returns its place in `waited`."""
        if self.copies == loops.CLOCK:
            self.bounds.add(f"races in global memory: copies after the first {loops.CLOCK:,} are not followed")
            return 0
        self.copies += 1
        if self.copies == len(self.waited):
            self.waited, self.told = np.resize(self.waited, 2 * self.copies), np.resize(self.told, 2 * self.copies)
        self.waited[self.copies], self.told[self.copies] = NEVER, 0
        return self.copies

    def tells(self, place: int, warp: int, clock: int, *, is_private: bool = False) -> None:
        """A warp of the launch, with this clock, knows that the copy with a place in `waited` is complete. If
        `is_private` is set, that is true for some lanes alone. It counts for no other warp.
        """
        if self._tellers == len(self.tellers):
            self.tellers = np.resize(self.tellers, (2 * self._tellers, 4))
        self.tellers[self._tellers] = warp, clock, self.told[place], is_private
        self.told[place] = self._tellers
        self._tellers += 1

    def tellers_of(self, place: int) -> list[tuple[int, int, bool]]:
        """The warps that know that the copy with a place is complete. Each has its clock, and whether the knowledge
        counts for that warp alone.
        """
        found, row = [], int(self.told[place])
        while row:
            warp, clock, row, is_private = self.tellers[row].tolist()
            found.append((warp, clock, bool(is_private)))
        return found

    def is_complete(self, place: int) -> bool:
        """Does any warp know that the copy with a place is complete?"""
        return bool(self.waited[place] != NEVER or self.told[place])
