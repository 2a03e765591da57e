"""A wave: clusters of CTAs that run together. `Wave` is what instructions see; its parts are the grid, memories,
registers, positions and progress.

Thread t of the wave is thread t % stride of CTA t // stride. CTAs are padded to whole warps. The position of each
thread is `pc`: the number of its next block. If the thread does not run, one of the offsets of `positions.py` is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.budget import ask, hold
from smemsim.base.distinct import distinct
from smemsim.base.masks import any_set
from smemsim.core.ptx.module import Instruction
from smemsim.run.cohort import Cohort
from smemsim.run.engine.livelock import FIRST, Progress, ReadOnlyLoop, StateCycle
from smemsim.run.engine.positions import EXITED, GATHERING, LEAST_SUSPICIOUS, PARKED, YIELDED, Positions, Wait
from smemsim.run.engine.wave_grid import ALL, OFFSET_MASK, RANK_SHIFT, WARP, WARPGROUP, Cta, Ctas, WaveGrid, are_whole_warps
from smemsim.run.engine.wave_memories import COPIES, THREADS, WaveMemories
from smemsim.run.engine.wave_registers import WaveRegisters
from smemsim.run.events import NO_EVENTS, Events, interest_of

if TYPE_CHECKING:
    from smemsim.run.checks import Taint
    from smemsim.run.engine.launch import Launch

__all__ = [
    "ALL",
    "COPIES",
    "EXITED",
    "FIRST",
    "FULL_MASK",
    "GATHERING",
    "LEAST_SUSPICIOUS",
    "OFFSET_MASK",
    "PARKED",
    "RANK_SHIFT",
    "THREADS",
    "WARP",
    "WARPGROUP",
    "YIELDED",
    "Cta",
    "Ctas",
    "ReadOnlyLoop",
    "StateCycle",
    "Wait",
    "Wave",
    "are_whole_warps",
]


FULL_MASK = np.uint32(0xFFFFFFFF)  # the member mask of a whole warp


class Wave:
    """The threads that run together, and their state. The threads that execute now are `sel`: ALL, or sorted thread
    numbers.

    The block that runs is `at`, the instruction in it is `step`. Every instruction needs `r` and `shared`, which are
    `registers.arrays` and `memories.shared`. With a schedule only, `warp_scheduler` knows which warps run next, and
    `in_flight` which operations are issued and not complete.
    """

    events: Any = NO_EVENTS  # who gets each event (`events.Events`)
    checks: Any = None  # `Checks`, or None: the sanitizer, as far as execution asks it something (`checks.py`)
    taint: Taint | None = None  # what follows values in doubt
    values_wanted: frozenset[str] = frozenset()  # the spaces of which observers ask what stores leave there
    is_stepwise = False  # has each instruction to be executed by itself, for an observer that wants to hear of it?
    is_counted = False  # does compiled code count for observers (`tallies.py`)?

    def __init__(self, launch: Launch, clusters: Sequence[int]) -> None:
        self.launch, self.program = launch, launch.program
        self.grid = WaveGrid(launch, clusters)
        self._reserve()
        self.memories = WaveMemories(launch, self.grid.count, self.grid.total)
        self.registers = WaveRegisters(launch, self.grid.total)
        self.positions = Positions(self.grid)
        self.progress = Progress()
        self.ctas = Ctas(self.grid.count, self._cta)
        self.r, self.shared = self.registers.arrays, self.memories.shared
        # what observers see too (`views.py`), and instructions ask often
        self.total, self.stride, self.cta_of = self.grid.total, self.grid.stride, self.grid.cta_of
        self.pitch, self.window_begin = self.memories.pitch, self.memories.window_begin
        self.sel: Any = ALL
        self.at, self.step = 0, 0
        self.cohort = Cohort.of(self)
        if self.memories.has_owners:  # operands are read from the windows
            self.ctas.make_windows()
        self.slots: dict[Any, Any] = {}  # the state of instruction families (`slots.Slot`)
        self.warp_scheduler: Any = None
        self.in_flight: Any = None
        self.origins: Any = None  # where bytes come from that threads copy, if that is followed

    def _reserve(self) -> None:
        """Ask the process's memory budget for what the CTAs need, and hold it as long as the wave lives."""
        launch, program, count = self.launch, self.program, self.grid.count
        local_bytes = program.places.local_bytes
        size = count * (launch.window_bytes * 3 // 2) + self.grid.total * (8 * len(program.registers) + local_bytes)
        ask(f"{count} CTAs of {program.name} at once, of {launch.threads} threads with {local_bytes} B of local memory", size)
        hold(self, size)

    def _cta(self, index: int) -> Cta:
        number, ctaid, cluster, rank = self.grid.of(index)
        return Cta(number, index, ctaid, cluster, rank, index * self.grid.stride, self.memories.window_of, self.memories.tensor_of(index))

    # ---- what observers see too (`views.py`)

    @property
    def tid(self) -> np.ndarray:
        """The number of each thread in its CTA."""
        return self.grid.tid

    @property
    def numbers(self) -> np.ndarray:
        """The number of each CTA in the grid."""
        return self.grid.numbers

    @property
    def scratch(self) -> int:
        """The offset in a CTA's part of `shared` of the system's bytes that some kernels use, 0 for none."""
        return self.memories.scratch

    @property
    def tensor(self) -> np.ndarray:
        """Tensor memory, (CTAs, lanes, columns)."""
        return self.memories.tensor

    @property
    def steps(self) -> int:
        """Blocks of instructions that have run."""
        return self.progress.steps

    def alike(self, name: Any, make: Callable[[], Any]) -> Any:
        """Data that all waves of the launch with as many threads share, made by the first that needs it."""
        return self.grid.alike(name, make)

    def numbered(self, number: int) -> Cta:
        """The CTA that has a number in the grid."""
        return self.ctas[self.grid.index_of(number)]

    # ---- the wave's life

    def is_observed_by(self, sanitizer: Any, others: Sequence[Any]) -> None:
        """From now on the sanitizer, if there is one, and other observers get the events."""
        self.checks = sanitizer
        self.taint = None if sanitizer is None else sanitizer.taint
        self.values_wanted = frozenset() if sanitizer is None else sanitizer.wants.values
        if sanitizer is not None or others:
            self.events = Events([*filter(None, (sanitizer,)), *others])
        self.is_stepwise = any(interest_of(other).is_stepwise for other in others)
        self.is_counted = not self.is_stepwise and any(interest_of(other).counts for other in others)

    def observed_by_another(self, before: Any, after: Any) -> None:
        """One sanitizer takes the place of another."""
        self.checks = after
        self.events = Events([after if member is before else member for member in self.events.members])

    def leave(self) -> None:
        """The wave is over and its registers are not needed: the next one may have them."""
        self.registers.leave()
        self.r = []

    def let_go(self) -> None:
        """The wave is over: free what it holds now, not when the garbage collector runs."""
        if self.events.wave_freed:
            self.events.wave_freed(self)
        self.events, self.checks, self.taint = NO_EVENTS, None, None
        self.slots.clear()
        self.positions.waiting.clear()
        self.registers.keeper = self.in_flight = self.warp_scheduler = None
        for cta in self.ctas.made:
            cta.slots.clear()
        self.ctas.let_go()

    # ---- who runs

    @property
    def pc(self) -> np.ndarray:
        """The position of each thread."""
        return self.positions.pc

    @property
    def threads(self) -> np.ndarray:
        """The numbers of the threads that execute now, ascending."""
        threads: np.ndarray = self.grid.everybody if self.sel is ALL else self.sel
        return threads

    @property
    def n(self) -> int:
        """How many threads execute now."""
        return self.grid.total if self.sel is ALL else len(self.sel)

    def select(self, threads: Any) -> None:
        """Make these threads (ascending, or ALL) the ones that execute."""
        self.sel = threads

    def jump(self, pc: int) -> None:
        """The threads that execute now go to one place."""
        if self.sel is ALL:
            self.positions.together = pc
        else:
            self.positions.pc[self.sel] = pc

    def park(self, threads: np.ndarray, block: int, instruction: Instruction, what: Callable[[], str]) -> Wait:
        """Make threads wait; woken, they go on at `block`."""
        wait = Wait(threads, instruction, what)
        self.pc[threads] = block + PARKED
        self.positions.waiting.add(wait)
        return wait

    def wake(self, wait: Wait) -> None:
        """Let the threads of a wait go on."""
        if wait in self.positions.waiting:
            self.positions.waiting.discard(wait)
            self.pc[wait.threads] -= PARKED
            self.progress.changes += 1

    def gather(self, unit: int = WARP, members: Any = None, *, meeting: Sequence[int] = ()) -> bool:
        """Narrow the selection to threads whose whole unit (warp or warpgroup) is here. The others wait until it is.

        The 32-bit member masks of warps are `members` (of the threads that run). Without them all threads that have not
        exited are members. Threads that wait before the `meeting` blocks count too; when their unit is complete, they
        run again (`met`). False if no thread goes on.
        """
        everybody = members is None or (np.asarray(members) == FULL_MASK).all()
        if self.sel is ALL and everybody and not self.grid.padded and self.grid.stride % unit == 0:
            if self.events.lanes_met:
                self.events.lanes_met(self, self.program.blocks[self.at].instructions[0])
            return True
        threads = self.threads
        own = self.pc == self.at + GATHERING
        own[threads] = True
        here = own
        for block in meeting:
            here = here | (self.pc == block + GATHERING)
        missing = (self.pc < EXITED) & ~here
        complete = here
        if members is not None:
            self.positions.members[threads] = members
            absent = np.packbits(missing.reshape(-1, WARP), axis=1, bitorder="little").view(np.uint32)
            complete = here & (self.positions.members.reshape(-1, WARP) & absent == 0).reshape(-1)
        elif any_set(missing):
            units = self.grid.units(unit)
            broken = np.zeros(int(units[-1]) + 1, bool)
            broken[units[missing]] = True
            complete = here & ~broken[units]
        self.pc[own & ~complete] = self.at + GATHERING
        if here is not own:
            others = complete & ~own
            self.pc[others] -= GATHERING
            self.positions.met |= others
        go = np.flatnonzero(complete & own)
        self.pc[go] = self.at
        self.select(ALL if len(go) == self.grid.total else go)
        if self.events.lanes_met and len(go):
            for mask in (0,) if everybody else distinct(self.positions.members[complete]).tolist():
                own = np.flatnonzero(complete if everybody else complete & (self.positions.members == mask))
                self.events.lanes_met(self, self.program.blocks[self.at].instructions[0], own)
        return len(go) > 0

    # ---- registers and memory

    def materialize(self, slots: int = -1) -> None:
        """Give registers their values, if one of these (a bit set; all) is among those whose values are stored
        elsewhere.
        """
        self.registers.materialize(slots)

    def own_shared(self, offset: int) -> Any:
        """The `.shared` address of a place in the own window, of the threads that run: with the CTA's
        rank in clusters.
        """
        offset &= 0xFFFFFFFF
        return np.uint32(offset) if self.launch.cluster_size == 1 else (self.grid.rank_bits[self.sel] + offset).astype(np.uint32)

    def flat(self, address: Any, threads: np.ndarray | None = None) -> np.ndarray:
        """Places in `shared` of `.shared` addresses (int64, of the threads that run); -1 where the window ends or the
        cluster has no such CTA.
        """
        threads = self.threads if threads is None else threads
        grid, memories = self.grid, self.memories
        at = np.broadcast_to(np.asarray(address, np.int64), threads.shape)
        rank, offset = at >> RANK_SHIFT, at & OFFSET_MASK
        size = self.launch.cluster_size
        inside = (rank >= 0) & (rank < size) & (offset >= memories.window_begin) & (offset < memories.window_begin + memories.window)
        cta = grid.cta_of[threads] if size == 1 else grid.cluster_first[threads] + rank
        return np.where(inside, cta * memories.pitch + offset - memories.window_begin, -1)
