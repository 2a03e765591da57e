"""The progress of a wave as counters (`Progress`), and its loops that change nothing (`ReadOnlyLoop`, `StateCycle`)."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.core.ptx.module import Special
from smemsim.core.spec.ptx import CLOCKS
from smemsim.run.engine.positions import GATHERING
from smemsim.run.engine.wave_grid import WARP
from smemsim.run.isa.registers import Wave

if TYPE_CHECKING:
    from smemsim.run.engine.schedule import Schedule

__all__ = ["FIRST", "Progress", "ReadOnlyLoop", "StateCycle"]


FIRST = 1024  # turns before the first look
TURNS = 64  # turns a state has to come back in
MOST_BYTES = 1 << 24  # of memory, that are part of a state
CLOCKS_OF_A_BLOCK = 32
AWAKE = 1024  # blocks without a change after which a clock that threads wait for runs ahead
ALONE = 32 * AWAKE  # the same if threads also read memory that no thread has changed for so long


@dataclasses.dataclass(eq=False)
class ReadOnlyLoop:
    """Finds endless loops without stores and arrivals, between two changes of the wave's memory.

    A state is the position of all threads and the contents of their registers and local memory. A loop that returns
    to a state never ends, unless another wave changes memory. A clock that is read is part of the state, so a loop
    that waits for a time is not endless.
    """

    turns: int = 0
    at: int = -1
    state: list[np.ndarray] = dataclasses.field(default_factory=list)
    why: str = "the registers are the same as one iteration earlier, and the loop changes nothing in memory"

    def forget(self) -> None:
        """Forget the turns seen so far: the wave's memory has changed."""
        self.turns = 0
        self.state = []

    def turn(self, x: Wave, block: int) -> str:
        """One more turn, which goes back to a block. Why the loop never ends, in words; empty while
        that is not known.
        """
        self.turns += 1
        turns = self.turns
        if turns < FIRST:
            return ""
        if turns & (turns - 1) == 0:
            self.at, self.state = block, [part.copy() for part in self._state(x)]
            return ""
        if self.state and block == self.at:
            if all(_same(a, b) for a, b in zip(self.state, self._state(x), strict=True)):
                return self.why
            if turns - (1 << turns.bit_length() - 1) > TURNS:
                self.state = []
        return ""

    def _state(self, x: Wave) -> list[Any]:
        x.materialize()
        return [x.pc, *x.r, x.memories.local]


@dataclasses.dataclass(eq=False)
class StateCycle(ReadOnlyLoop):
    """`ReadOnlyLoop` for loops that store or use atomics: their state includes the contents of shared and global
    memory.

    It is for one warp alone, if all others have exited or wait for it. It is also for several warps at the same block,
    such as Triton's at a barrier in a loop. On hardware other threads may see what each of these stores in between. So
    they run apart (`Apart`), once for each state, before the loop is reported.
    """

    why: str = "the registers and all memory are the same as one iteration earlier, so the loop never ends by itself"
    apart: int = 0  # changes that were no stores
    known: set[bytes] = dataclasses.field(default_factory=set)  # states that were come back to

    def is_another(self) -> bool:
        """Is the repeated state equal to none before? Then some thread has made progress in between."""
        before = len(self.known)
        self.known.add(hashlib.blake2b(b"".join(part.tobytes() for part in self.state)).digest())
        return len(self.known) > before

    def turn(self, x: Wave, block: int) -> str:
        if x.progress.changes - x.progress.stores != self.apart:
            self.apart = x.progress.changes - x.progress.stores
            self.forget()
        if self.turns + 1 < FIRST:
            self.turns += 1
            return ""
        return super().turn(x, block) if self._is_alone(x) else ""

    def _state(self, x: Wave) -> list[Any]:
        return [*super()._state(x), x.shared, *(region.data for region in x.launch.memory.table()[2])]

    def _is_alone(self, x: Wave) -> bool:
        """Can nothing come to help: no warp elsewhere, no wait that ends by itself, no clock; and is there not too
        much memory to look at?
        """
        running = np.flatnonzero(x.pc < GATHERING)
        warps, at = running // WARP, x.pc[running]
        size = x.shared.nbytes + sum(region.data.nbytes for region in x.launch.memory.table()[2])
        return (
            bool((warps == warps[0]).all() or (x.in_flight is None and (at == at[0]).all()))
            and size <= MOST_BYTES
            and all(wait.expired is None for wait in x.positions.waiting)
            and not any(isinstance(operand, Special) and operand.name in CLOCKS for i in x.program.inlined.body for operand in i.operands)
        )


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


class Progress:
    """Counters of a wave: what it has executed, what it has changed, and how its last run ended.

    Executed blocks of instructions are `steps`. Actions that others could wait for are counted in `changes`: stores,
    arrivals. The stores and atomics of threads among them are `stores`. Reads of values that others could write are
    `polls`: strong loads, atomics that change nothing. The last such load is `polled`, its instruction and the bytes.
    """

    def __init__(self) -> None:
        self.steps = self.changes = self.stores = self.polls = 0
        self.polled: Any = None
        self.quiet = self.quiet_polls = 0  # `steps` and `polls` when something changed last
        self.rounds = ReadOnlyLoop()
        self.endless = ""  # why the threads that could run never end, in words
        self.way_out = ""  # what to change if a limit was reached, and nothing shows that they never end
        self.never_ends = False  # is there no way out for any of the threads that could run?
        self.gave_way = False  # to other waves, though they could go on
        self.paused = self.may_pause = False  # of a schedule: have others been let first, and can they?
        # Clocks that have passed while threads did nothing but look at the clock, and the step that counted them last.
        self._waited, self._waited_at = 0, -1

    def changed(self) -> None:
        """Something has changed since the last look."""
        self.quiet, self.quiet_polls = self.steps, self.polls

    def clock(self, schedule: Schedule | None) -> int:
        """The value of %clock: it grows by 32 for each block, with a schedule by the amount that it draws.

        If threads only wait for the clock, and read nothing else that could end their loops, it runs ahead: the time
        of a block is not specified. It also does if they read memory with a limit on the time, and no thread has
        changed anything for long.
        """
        if schedule is not None:
            return schedule.clock_begin + self.steps * schedule.clock_step
        idle = self.steps - self.quiet
        if idle > (AWAKE if self.polls == self.quiet_polls else ALONE) and self.steps != self._waited_at:
            self._waited += CLOCKS_OF_A_BLOCK * idle
            self._waited_at = self.steps
        return 1000 + self.steps * CLOCKS_OF_A_BLOCK + self._waited
