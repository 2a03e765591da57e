"""Memory for the registers of a wave. A launch leaves it to the next launch of the same program: fresh memory takes
longer than many launches compute.
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.cache_lines import LINE, zeros_in_lines
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.run.engine.launch import Launch
    from smemsim.run.lower.program import Program

__all__ = ["LEFT_BY_WAVES", "RegisterFile", "forget_rooms", "idle_rooms", "leave_rooms", "new_room", "room_left"]


MOST_BYTES = 1 << 26  # of all that is kept
# bytes between the registers of a room: else the same thread's values of all registers would share one set of the
# processor's caches
APART = 192
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True, eq=False)
class RegisterFile:
    """The registers of so many threads, one after the other in `raw`; `pointers` are the host addresses at which each
    begins.
    """

    threads: int
    raw: np.ndarray
    registers: list[np.ndarray]
    pointers: np.ndarray


LEFT_BY_WAVES: Slot[dict[int, list[RegisterFile]]] = Slot(
    lambda launch: {}
)  # of a launch: what waves that are over have left, by their threads
_left: list[tuple[weakref.ref[Program], RegisterFile]] = []  # the last one left at the end


def new_room(program: Program, threads: int) -> RegisterFile:
    """Registers that are all zero."""
    wide = program.wide
    sizes = [-(-threads * kind.itemsize * (1 + (n in wide)) // LINE) * LINE for n, kind in enumerate(program.registers)]
    ends = np.cumsum([0, *(size + APART for size in sizes)])
    raw = zeros_in_lines((int(ends[-1]),), np.uint8)
    registers = [
        np.ndarray((threads, 2) if n in wide else threads, kind, raw, begin)
        for n, (begin, size, kind) in enumerate(zip(ends.tolist(), sizes, program.registers, strict=False))
    ]
    return RegisterFile(threads, raw, registers, raw.ctypes.data + ends[:-1].astype(np.uint64))


def room_left(program: Program, threads: int) -> RegisterFile | None:
    """Registers that waves of a program have left, with what they have left there; None where there are none."""
    with _lock:
        for n, (of, room) in enumerate(_left):
            if of() is program and room.threads == threads:
                return _left.pop(n)[1]
    return None


def leave_rooms(launch: Launch) -> None:
    """A launch is over: the next one may have what its waves have left."""
    with _lock:
        _left.extend((weakref.ref(launch.program), room) for rooms in LEFT_BY_WAVES(launch).values() for room in rooms)
        launch.slots.clear()  # the frames in there know it
        while sum(len(room.raw) for _, room in _left) > MOST_BYTES:
            _left.pop(0)


def idle_rooms(launch: Launch) -> list[np.ndarray]:
    """The memory of register files that no wave of a launch uses; its contents are undefined."""
    with _lock:
        rooms = [room for _, room in _left]
    return [room.raw for room in (*rooms, *(room for those in LEFT_BY_WAVES(launch).values() for room in those))]


def forget_rooms(program: Program) -> None:
    """The next launch of a program finds no room, and nothing in it."""
    with _lock:
        _left[:] = [kept for kept in _left if kept[0]() is not program]
