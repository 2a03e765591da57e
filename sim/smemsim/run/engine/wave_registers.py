"""The registers of a wave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.run.engine.register_pool import LEFT_BY_WAVES, new_room, room_left
from smemsim.run.lower.cfg import read_first

if TYPE_CHECKING:
    from smemsim.run.engine.launch import Launch

__all__ = ["WaveRegisters"]


class WaveRegisters:
    """The registers of all threads: `arrays` by slot, each with one value for every thread; `pointers` are the host's
    addresses of these arrays.

    The values of some registers may lie elsewhere, with a `keeper` (accumulators of matrix instructions): `held` is
    the bit set of their slots.
    """

    def __init__(self, launch: Launch, total: int) -> None:
        """New registers, which are all zero. If a wave that is over has left its own, these, of which only those are
        zero that a kernel reads first.
        """
        self.launch = launch
        left = LEFT_BY_WAVES(launch).setdefault(total, [])
        file = left.pop() if left else room_left(launch.program, total)
        if file is not None:
            for slot in read_first(launch.program):
                file.registers[slot].fill(0)
        else:
            file = new_room(launch.program, total)
        self._file = file
        self.arrays, self.pointers = file.registers, file.pointers
        self.held = 0
        self.keeper: Any = None

    @property
    def words(self) -> np.ndarray:
        """All registers as words of 32 bits (`first_word` says where one begins)."""
        return self._file.raw.view(np.uint32)

    def first_word(self, slot: int) -> int:
        """The index in `words` at which a register of thread 0 begins; the other threads' follow."""
        return int(self.pointers[slot] - self.pointers[0]) // 4

    def materialize(self, slots: int = -1) -> None:
        """Give registers their values, if one of these (a bit set; all) is among those whose values are stored
        elsewhere.
        """
        if self.held & slots:
            self.held = self.keeper.materialize(slots)

    def leave(self) -> None:
        """The wave is over and its registers are not needed: the next one may have them."""
        LEFT_BY_WAVES(self.launch).setdefault(self._file.threads, []).append(self._file)
        self.arrays = []
