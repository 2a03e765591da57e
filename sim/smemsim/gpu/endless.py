"""Loops that never end, as the state of a wave comes back."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from smemsim.gpu.wave import Wave

__all__ = ["Endless"]

FIRST = 1024  # turns before the first look
TURNS = 64  # turns a state has to come back in


@dataclasses.dataclass(eq=False)
class Endless:
    """Looks at the turns of loops in which nothing is stored and nobody arrives: between two changes of the wave's memory.

    A state is where all threads are and what their registers and local memory hold; a loop that comes back to one goes on for ever, until another
    wave changes something. A clock that is read is part of the state, so a loop that waits for a time to pass is none.
    """

    turns: int = 0
    at: int = -1
    state: list[np.ndarray] = dataclasses.field(default_factory=list)

    def forget(self) -> None:
        """Something has changed."""
        self.turns = 0
        self.state = []

    def turn(self, x: Wave, block: int) -> str:
        """One more turn, which goes back to a block. Why the loop never ends, in words; empty while that is not known."""
        self.turns += 1
        turns = self.turns
        if turns < FIRST:
            return ""
        if turns & (turns - 1) == 0:
            self.at, self.state = block, [part.copy() for part in _state(x)]
            return ""
        if self.state and block == self.at:
            if all(_same(a, b) for a, b in zip(self.state, _state(x), strict=True)):
                return "loops for ever: its registers are those of a turn before, and nothing it does changes memory"
            if turns - (1 << turns.bit_length() - 1) > TURNS:
                self.state = []
        return ""


def _state(x: Wave) -> list[Any]:
    return [x.key, *x.r, x.local]


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()
