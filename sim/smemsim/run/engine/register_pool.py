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


class _Pool:
    """What is left, by the program; the program that left something last is at the end. What programs that are gone
    have left stays until it is too much: to look for them at every launch takes longer than a small launch.
    """

    def __init__(self) -> None:
        self.left: dict[int, tuple[weakref.ref[Program], list[RegisterFile]]] = {}  # by id(program)
        self.bytes = 0

    def taken(self, program: Program) -> list[RegisterFile]:
        """All that a program has left; it is not here any more."""
        of, rooms = self.left.pop(id(program), (None, []))
        self.bytes -= sum(len(room.raw) for room in rooms)
        return rooms if of is not None and of() is program else []

    def leave(self, program: Program, rooms: list[RegisterFile]) -> None:
        kept = [*self.taken(program), *rooms]
        if kept:
            self.left[id(program)] = weakref.ref(program), kept
            self.bytes += sum(len(room.raw) for room in kept)
        while self.bytes > MOST_BYTES:
            first = next(iter(self.left))
            _, oldest = self.left[first]
            self.bytes -= len(oldest.pop(0).raw)
            if not oldest:
                del self.left[first]


_pool = _Pool()


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
        rooms = _pool.taken(program)
        found = next((room for room in rooms if room.threads == threads), None)
        _pool.leave(program, [room for room in rooms if room is not found])
    return found


def leave_rooms(launch: Launch) -> None:
    """A launch is over: the next one may have what its waves have left."""
    with _lock:
        _pool.leave(launch.program, [room for rooms in LEFT_BY_WAVES(launch).values() for room in rooms])
        launch.slots.clear()  # the frames in there know it


def idle_rooms(launch: Launch) -> list[np.ndarray]:
    """The memory of register files that no wave of a launch uses; its contents are undefined."""
    with _lock:
        rooms = [room for _, those in _pool.left.values() for room in those]
    return [room.raw for room in (*rooms, *(room for those in LEFT_BY_WAVES(launch).values() for room in those))]


def forget_rooms(program: Program) -> None:
    """The next launch of a program finds no room, and nothing in it."""
    with _lock:
        _pool.taken(program)
