"""Room for registers that a launch has left, for the next launch of the same program: to get fresh memory takes longer than many launches compute."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from smemsim.program.launch import Launch
    from smemsim.program.linking.program import Program

__all__ = ["leave_rooms", "room_left"]


MOST_BYTES = 1 << 26  # of all that is kept
_left: list[tuple[weakref.ref[Program], np.ndarray]] = []  # the last one left at the end
_lock = threading.Lock()


def room_left(program: Program, size: int) -> np.ndarray | None:
    """Room of a size in bytes that waves of a program have left, with what they have left there; None where there is none."""
    with _lock:
        for n, (of, room) in enumerate(_left):
            if of() is program and len(room) == size:
                return _left.pop(n)[1]
    return None


def leave_rooms(launch: Launch) -> None:
    """A launch is over: the next one may have what its waves have left."""
    with _lock:
        for key, rooms in launch.kept.items():
            if key[0] == "registers":
                _left.extend((weakref.ref(launch.program), room) for room in rooms)
                rooms.clear()
        while sum(len(room) for _, room in _left) > MOST_BYTES:
            _left.pop(0)
