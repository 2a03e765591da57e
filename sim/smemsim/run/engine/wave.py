"""A wave: the registers and shared memory of all threads that run together, and loops in it that change nothing.

Thread t of the wave is thread t % stride of CTA t // stride; CTAs are padded to whole warps. `key` says where each thread is: the number of the
block it is in front of, plus one of the offsets below when it does not run.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from smemsim.base.budget import ask, hold
from smemsim.base.distinct import distinct
from smemsim.core.machine.memory import SharedMemory, ThreadWrite
from smemsim.core.machine.owners import Owners
from smemsim.core.machine.tmem.memory import TensorMemory
from smemsim.core.ptx.module import Instruction, Special
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.bulk import BULK_LIMITS
from smemsim.core.spec.launches import RESERVED_OFFSETS
from smemsim.core.spec.ptx import CLOCKS, WARP_SIZE
from smemsim.core.spec.tensor_memory import COLUMNS, LANES
from smemsim.core.spec.wgmma import WGMMA_THREADS
from smemsim.run.engine.register_pool import RegisterFile, new_room, room_left
from smemsim.run.events import Observers, interest_of, together
from smemsim.run.lower.cfg import read_first

if TYPE_CHECKING:
    from smemsim.core.finding import Touched
    from smemsim.run.engine.launch import Launch

__all__ = [
    "ALL",
    "COPIES",
    "EXITED",
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
    "ReadOnlyLoop",
    "StateCycle",
    "Wait",
    "Wave",
    "are_whole_warps",
]


# ---- Loops that never end, as the state of a wave comes back


FIRST = 1024  # turns before the first look
TURNS = 64  # turns a state has to come back in
MOST_BYTES = 1 << 24  # of memory, that are part of a state


@dataclasses.dataclass(eq=False)
class ReadOnlyLoop:
    """Finds endless loops among those in which nothing is stored and nobody arrives, between two changes of the wave's memory.

    A state is where all threads are and what their registers and local memory hold; a loop that comes back to one goes on for ever, until another
    wave changes something. A clock that is read is part of the state, so a loop that waits for a time to pass is none.
    """

    turns: int = 0
    at: int = -1
    state: list[np.ndarray] = dataclasses.field(default_factory=list)
    why: str = "loops for ever: its registers are the same as one iteration earlier, and it changes nothing in memory"

    def forget(self) -> None:
        """Forget the turns seen so far: the wave's memory has changed."""
        self.turns = 0
        self.state = []

    def turn(self, x: Wave, block: int) -> str:
        """One more turn, which goes back to a block. Why the loop never ends, in words; empty while that is not known."""
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
        return [x.key, *x.r, x.local]


@dataclasses.dataclass(eq=False)
class StateCycle(ReadOnlyLoop):
    """`ReadOnlyLoop` for loops that store or use atomics: their state includes the contents of shared and global memory.

    For one warp alone, where all others have exited or wait for it, and for several that are all at the same block, as Triton's are that meet at a barrier in
    the loop: of these, others than here may see on hardware what each stores in between, and so they run apart before that is told (`Apart`), once for each state.
    """

    why: str = "loops for ever: its registers and all memory are the same as one iteration earlier"
    apart: int = 0  # changes that were no stores
    known: set[bytes] = dataclasses.field(default_factory=set)  # states that were come back to

    def is_another(self) -> bool:
        """Is the state that was come back to none of those before? Then somebody has gone further in between."""
        before = len(self.known)
        self.known.add(hashlib.blake2b(b"".join(part.tobytes() for part in self.state)).digest())
        return len(self.known) > before

    def turn(self, x: Wave, block: int) -> str:
        if x.changes - x.stores != self.apart:
            self.apart = x.changes - x.stores
            self.forget()
        if self.turns + 1 < FIRST:
            self.turns += 1
            return ""
        return super().turn(x, block) if self._is_alone(x) else ""

    def _state(self, x: Wave) -> list[Any]:
        return [*super()._state(x), x.shared, *(region.data for region in x.launch.memory.table()[2])]

    def _is_alone(self, x: Wave) -> bool:
        """Can nothing come to help: no warp elsewhere, no wait that ends by itself, no clock; and is there not too much memory to look at?"""
        running = np.flatnonzero(x.key < GATHERING)
        warps, at = running // WARP, x.key[running]
        size = x.shared.nbytes + sum(region.data.nbytes for region in x.launch.memory.table()[2])
        return (
            bool((warps == warps[0]).all() or (x.late is None and (at == at[0]).all()))
            and size <= MOST_BYTES
            and all(wait.expired is None for wait in x.waiting)
            and not any(isinstance(operand, Special) and operand.name in CLOCKS for i in x.program.inlined.body for operand in i.operands)
        )


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


# ---- A wave: clusters of CTAs that run together, their threads side by side in every register's array


WARP, WARPGROUP = WARP_SIZE, WGMMA_THREADS
RANK_SHIFT = BULK_LIMITS.cta_rank_shift  # of a `.shared` address: the CTA's rank, above the offset in its window
OFFSET_MASK = (1 << RANK_SHIFT) - 1
YIELDED, GATHERING, PARKED, EXITED = 1 << 24, 1 << 25, 1 << 26, 1 << 28
ALL = slice(None)
FULL_MASK = np.uint32(0xFFFFFFFF)  # the member mask of a whole warp
CLOCKS_OF_A_BLOCK = 32
AWAKE = 1024  # blocks without a change behind which a clock that somebody waits for runs ahead
ALONE = 32 * AWAKE  # the same where threads look at memory too: so long nobody has changed it
COPIES = 2  # ... for those of bytes that are followed from global memory (`origins.py`)
THREADS = 1  # the writer that stands for ordinary stores, in the list of every shared memory
LEAST_SUSPICIOUS = 5  # of waits that never end: one for others that wait, most likely
PATIENCE = 64  # rounds in which waits expired and nothing changed, before that is a hang


@dataclasses.dataclass(eq=False)
class Cta:
    """One CTA: its place in the grid and its memories. `index` counts within the wave, `rank` within its cluster, `first` is its first thread.

    `make_shared` makes its window when something first asks for that: loads and stores of threads have the bytes of all windows at once.
    """

    number: int  # in the grid
    index: int
    ctaid: tuple[int, int, int]
    cluster: int  # number of the cluster within the wave
    rank: int
    first: int
    make_shared: Callable[[int], SharedMemory]
    tensor: TensorMemory | None
    state: dict[Any, Any] = dataclasses.field(default_factory=dict)  # of the operations: named barriers, mbarriers, ...

    @functools.cached_property
    def shared(self) -> SharedMemory:
        """Its shared window."""
        return self.make_shared(self.index)


class Ctas(Sequence[Cta]):
    """The CTAs of a wave by their index, each made when something first asks for it: most kernels ask for none."""

    def __init__(self, count: int, make: Callable[[int], Cta]) -> None:
        self._make = make
        self._known: list[Cta | None] = [None] * count

    def __len__(self) -> int:
        return len(self._known)

    @overload
    def __getitem__(self, index: int) -> Cta: ...

    @overload
    def __getitem__(self, index: slice) -> list[Cta]: ...

    def __getitem__(self, index: int | slice) -> Cta | list[Cta]:
        if isinstance(index, slice):
            known = self._known[index]
            return [self[n] for n in range(*index.indices(len(self)))] if None in known else cast("list[Cta]", known)
        cta = self._known[index]
        if cta is None:
            cta = self._known[index] = self._make(index % len(self))
        return cta

    def let_go(self) -> None:
        """Nothing asks for one any more."""
        self._make, self._known = _gone, []

    @property
    def made(self) -> list[Cta]:
        """Those that something has asked for."""
        return [cta for cta in self._known if cta is not None]


def _gone(index: int) -> Cta:
    raise IndexError(index)


@dataclasses.dataclass(eq=False)
class Wait:
    """Threads that wait at `instruction` until somebody wakes them. `what` says on what, for a report of a hang; `suspicion` how far from
    its cause that is, 0 the nearest, and what to change; `missing` who has not arrived (threads of the wave), where that is known; `fed` the lines that
    have arrived at an mbarrier, or brought it bytes.

    Those of `mbarrier.try_wait` have an `expired` callback: they also go on after a while, which comes when nobody else can.
    """

    threads: np.ndarray
    instruction: Instruction
    what: Callable[[], str]
    expired: Callable[[], None] | None = None
    suspicion: Callable[[], tuple[int, str]] = lambda: (LEAST_SUSPICIOUS, "")
    touched: tuple[Touched, ...] = ()  # the mbarrier that they wait at
    missing: Callable[[], np.ndarray] | None = None
    fed: Callable[[], set[int]] | None = None


class Wave:
    """The state of the threads that run together. `sel` selects those that execute now: everything, or sorted thread numbers."""

    observer: Any = None  # who hears what happens (`events.py`): an observer, or several as one
    sanitizer: Any = None
    is_stepwise = False  # has each instruction to be executed by itself, for an observer that wants to hear of it?
    has_parted = False  # have some lanes of a warp come to a barrier of the whole warp without others?

    def __init__(self, launch: Launch, clusters: Sequence[int]) -> None:
        self.launch, self.program = launch, launch.program
        self.stride = -(-launch.threads // WARP) * WARP
        count = len(clusters) * launch.cluster_size
        self.total = count * self.stride
        self.tid: np.ndarray = self.alike("tid", lambda: np.tile(np.arange(self.stride, dtype=np.int64), count))
        self.lane = self.alike("lane", lambda: self.tid % WARP)
        self.cta_of = self.alike("cta_of", lambda: np.repeat(np.arange(count), self.stride))
        self._reserve(count)
        self._words = self._make_memories(count)
        self._make_ctas(clusters)
        self.padded = launch.threads < self.stride
        self._together: int | None = None if self.padded else 0  # the key of all threads, where `_key` does not say it
        self._key = np.empty(self.total, np.int32)
        if self.padded:
            self._key[:] = np.where(self.tid < launch.threads, 0, EXITED)
        self.sel: Any = ALL
        self.at, self.step = 0, 0  # the block that runs, and the instruction within it
        self.waiting: set[Wait] = set()
        self.endless = ""  # why the threads that could run never end, in words
        self.gave_way = False  # to other waves, though they could go on
        self.paused = self.may_pause = False  # of a schedule: have others been let first, and can they?
        self.quiet = self.quiet_polls = 0  # `steps` and `polls` when something changed last
        self.waited, self.waited_at = (
            0,
            -1,
        )  # clocks that have passed while threads did nothing but look at the clock, and the step that counted them last
        self.rounds = ReadOnlyLoop()
        self.never_ends = False  # is there no way out for any of the threads that could run?
        self.changes = 0  # counts what others could wait for: stores, arrivals
        self.stores = 0  # of these the stores and atomics of threads
        self.polls = 0  # counts looks at what others could write: strong loads, atomics that change nothing
        self.polled: Any = None  # the last strong load: its instruction and the bytes
        self.steps = 0
        self._fixed: dict[Any, np.ndarray] = {}
        self._everybody: np.ndarray = self.alike("everybody", lambda: np.arange(self.total))
        self.state: dict[Any, Any] = {}  # of the operations
        self._patience = (-1, 0)
        self.held = 0  # registers (a bit set) whose values lie elsewhere
        self.keeper: Any = None  # who has them
        self.turns: Any = None  # of a schedule: who runs next
        self.late: Any = None  # and what is under way
        self.origins: Any = None  # where bytes come from that threads copy, if that is followed

    @functools.cached_property
    def members(self) -> np.ndarray:
        """The member masks of threads that gather."""
        return np.zeros(self.total, np.uint32)

    @functools.cached_property
    def met(self) -> np.ndarray:
        """Threads that others have met at a bar.warp.sync, and that have not gone on yet."""
        return np.zeros(self.total, bool)

    def _reserve(self, count: int) -> None:
        """Ask the process's memory budget for what `count` CTAs need, and hold it as long as the wave lives."""
        local_bytes = self.program.places.local_bytes
        size = count * (self.launch.window_bytes * 3 // 2) + self.total * (8 * len(self.program.registers) + local_bytes)
        ask(f"{count} CTAs of {self.program.name} at once, of {self.launch.threads} threads with {local_bytes} B of local memory", size)
        hold(self, size)

    def _make_memories(self, count: int) -> np.ndarray:
        """Make the registers and the local, shared and tensor memory of `count` CTAs; returns shared memory as 64-bit words."""
        machine = any_architecture(self.launch.arch)
        self.window_begin = machine.shared_begin
        self._reserved: np.ndarray | None = None
        self.window = self.launch.window_bytes
        # What a kernel that asks for it uses of the system's part, in front of the window: kept behind it.
        self.scratch = -(-(self.window + 16) // 16) * 16 if self.program.has_scratch else 0
        room = self.scratch + RESERVED_OFFSETS["end"] if self.scratch else self.window
        self.pitch = -(-(room + 16) // 128) * 128  # bytes from one CTA's window to the next in `shared`
        words = np.zeros(count * self.pitch // 8, np.uint64)
        self.shared = words.view(np.uint8)  # all windows; `flat` gives places in it
        self.owners = Owners(len(self.shared))  # of all windows
        self.has_owners = not self.program.uses.isdisjoint(("wgmma", "tcgen05"))  # does it matter which bytes threads have written?
        has_tensor = machine.instruction == "tcgen05" and "tcgen05" in self.program.uses
        self.tensor = np.zeros((count if has_tensor else 0, LANES, COLUMNS), np.uint32)  # tensor memory of all CTAs
        self.tensor_allocated = np.zeros((len(self.tensor), COLUMNS), bool)
        self._make_registers()
        self.local = np.zeros((self.total, self.program.places.local_bytes), np.uint8)
        return words

    def reserved(self) -> np.ndarray:
        """What the system keeps in front of the windows of all CTAs, bytes: made when somebody goes there."""
        if self._reserved is None:
            self._reserved = np.zeros(len(self.ctas) * self.window_begin, np.uint8)
        return self._reserved

    def _make_registers(self) -> None:
        """Make the registers, where a wave that is over has left its room, there."""
        left: list[RegisterFile] = self.launch.kept.setdefault(("registers", self.total), [])
        room = left.pop() if left else room_left(self.program, self.total)
        if room is not None:
            self._room = room
            for slot in read_first(self.program):
                room.registers[slot].fill(0)
        else:
            self._room = new_room(self.program, self.total)
        self.r = self._room.registers
        self.register_pointers = self._room.pointers

    @property
    def register_words(self) -> np.ndarray:
        """All registers as words of 32 bits (`first_word` says where one begins)."""
        return self._room.raw.view(np.uint32)

    def first_word(self, slot: int) -> int:
        """Where a register begins in `register_words`: that of thread 0, the other threads' behind it."""
        return int(self.register_pointers[slot] - self.register_pointers[0]) // 4

    def materialize(self, slots: int = -1) -> None:
        """Give registers their values, where one of these (a bit set; all) is among those whose values lie elsewhere."""
        if self.held & slots:
            self.held = self.keeper.materialize(slots)

    def leave(self) -> None:
        """The wave is over, and nobody looks at its registers any more: the next one may have them."""
        self.launch.kept["registers", self.total].append(self._room)
        self.r = []

    def is_observed_by(self, sanitizer: Any, others: Sequence[Any]) -> None:
        """The sanitizer, where there is one, and other observers hear what happens from now on."""
        self.sanitizer = sanitizer
        self.observer = together(([] if sanitizer is None else [sanitizer]) + list(others))
        self.is_stepwise = any(any(interest_of(other)) for other in others)

    def observed_by_another(self, before: Any, after: Any) -> None:
        """One sanitizer takes the place of another."""
        self.sanitizer = after
        members = self.observer.members if isinstance(self.observer, Observers) else (self.observer,)
        self.observer = together(after if member is before else member for member in members)

    def let_go(self) -> None:
        """The wave is over: what it holds is freed now, and not when the garbage collector comes by."""
        if self.observer is not None:
            self.observer.wave_freed(self)
            self.observer = self.sanitizer = None
        self.state.clear()
        self.waiting.clear()
        self.keeper = self.late = self.turns = None
        for cta in self.ctas.made:
            cta.state.clear()
        self.ctas.let_go()

    def _make_ctas(self, clusters: Sequence[int]) -> None:
        """Lay out the CTAs of these clusters: of each its number in the grid, its place there, and its rank."""
        size = self.launch.cluster_size
        index = self.alike("CTAs", lambda: np.arange(len(clusters) * size))
        self.ranks = self.alike("ranks", lambda: index % size)
        self.numbers, self.ctaids = self.launch.ctas_at(np.repeat(np.asarray(clusters, np.int64), size), self.ranks)
        self.ctas = Ctas(len(index), self._cta)
        self._index_of: dict[int, int] | None = None
        self.rank_bits = self.alike("rank bits", lambda: np.repeat(self.ranks << RANK_SHIFT, self.stride))
        self.cluster_first = self.alike("first of cluster", lambda: np.repeat(index - self.ranks, self.stride))

    def numbered(self, number: int) -> Cta:
        """The CTA that has a number in the grid."""
        if self._index_of is None:
            self._index_of = {n: index for index, n in enumerate(self.numbers.tolist())}
        return self.ctas[self._index_of[number]]

    def _cta(self, index: int) -> Cta:
        x, y, z = (int(along[index]) for along in self.ctaids)
        tensor = None
        if len(self.tensor):
            tensor = TensorMemory(self.launch.arch, room=self.tensor, at=index, allocated=self.tensor_allocated[index], owners=False)
        cluster, rank = divmod(index, self.launch.cluster_size)
        return Cta(int(self.numbers[index]), index, (x, y, z), cluster, rank, index * self.stride, self._window_of, tensor)

    def _window_of(self, index: int) -> SharedMemory:
        """The window of a CTA, with its part of shared memory."""
        at = index * self.pitch
        shared = SharedMemory(self.launch.arch, size=self.window, room=self._words, at=at, owners=self.owners.part(at, self.pitch))
        threads = ThreadWrite(shared.begin, self.window, "threads")
        shared.writers.extend((threads, threads))  # numbers THREADS and COPIES
        return shared

    # ---- who runs

    @property
    def key(self) -> np.ndarray:
        """Where each thread is."""
        if self._together is not None:
            self._key.fill(self._together)
            self._together = None
        return self._key

    @property
    def together(self) -> int | None:
        """Where all threads are, if they are known to be at one place."""
        return self._together

    def lowest(self) -> int:
        """The lowest place where a thread is."""
        return int(self._key.min()) if self._together is None else self._together

    def goes(self, key: int) -> None:
        """The threads that execute now go to one place."""
        if self.sel is ALL:
            self._together = key
        else:
            self.key[self.sel] = key

    @property
    def threads(self) -> np.ndarray:
        """The numbers of the threads that execute now, ascending."""
        return self._everybody if self.sel is ALL else self.sel

    @property
    def n(self) -> int:
        """How many threads execute now."""
        return self.total if self.sel is ALL else len(self.sel)

    @property
    def clusters_left(self) -> int:
        """Clusters of which some thread has not exited: the others have left their place on the card."""
        of_cluster = self.key.reshape(-1, self.stride * self.launch.cluster_size)
        return int((of_cluster < EXITED).any(axis=1).sum())

    def select(self, threads: Any) -> None:
        """Make these threads (ascending, or ALL) the ones that execute."""
        self.sel = threads

    def fixed(self, name: Any, make: Callable[[], np.ndarray]) -> np.ndarray:
        """An array of all threads that never changes, made when first asked for."""
        array = self._fixed.get(name)
        if array is None:
            array = self._fixed[name] = make()
        return array

    def alike(self, name: Any, make: Callable[[], Any]) -> Any:
        """What is the same for all waves of the launch that have as many CTAs, made when one of them first asks for it."""
        kept = self.launch.kept
        key = self.total, name
        if key not in kept:
            kept[key] = make()
        return kept[key]

    def clock(self) -> int:
        """The value of %clock: it grows by 32 for each block executed, of a schedule by as much as it says.

        Where threads do nothing but wait for it, and look at nothing else that could end their loops, it runs ahead: how long a block takes nobody says. So it
        does where they look at memory with a limit on the time, and nobody has changed anything for long.
        """
        schedule = self.launch.schedule
        if schedule is not None:
            return schedule.clock_begin + self.steps * schedule.clock_step
        idle = self.steps - self.quiet
        if idle > (AWAKE if self.polls == self.quiet_polls else ALONE) and self.steps != self.waited_at:
            self.waited += CLOCKS_OF_A_BLOCK * idle
            self.waited_at = self.steps
        return 1000 + self.steps * CLOCKS_OF_A_BLOCK + self.waited

    def park(self, threads: np.ndarray, block: int, instruction: Instruction, what: Callable[[], str]) -> Wait:
        """Make threads wait; woken, they go on at `block`."""
        wait = Wait(threads, instruction, what)
        self.key[threads] = block + PARKED
        self.waiting.add(wait)
        return wait

    def wake(self, wait: Wait) -> None:
        """Let the threads of a wait go on."""
        if wait in self.waiting:
            self.waiting.discard(wait)
            self.key[wait.threads] -= PARKED
            self.changes += 1

    def expire(self) -> bool:
        """Nobody can go on: the waits that end by themselves do. False when there are none, or when that has not helped before."""
        last, rounds = self._patience
        rounds = rounds + 1 if last == self.changes else 0
        self._patience = (self.changes, rounds)
        waits = [wait for wait in self.waiting if wait.expired is not None] if rounds < PATIENCE else []
        for wait in waits:
            self.waiting.discard(wait)
            self.key[wait.threads] -= PARKED
            if wait.expired is not None:
                wait.expired()
        return bool(waits)

    def gather(self, unit: int = WARP, members: Any = None, *, meeting: Sequence[int] = ()) -> bool:
        """Narrow the selection to threads whose whole unit (warp or warpgroup) is here; the others wait until it is.

        `members` (of the threads that run) are the 32-bit member masks of warps; without them everybody who has not exited belongs to it.
        Threads that wait in front of the `meeting` blocks count as well; met, they are on their way again (`met`). False when nobody goes on.
        """
        everybody = members is None or (np.asarray(members) == FULL_MASK).all()
        if self.sel is ALL and everybody and not self.padded and self.stride % unit == 0:
            if self.observer is not None:
                self.observer.lanes_met(self, self.program.blocks[self.at].instructions[0])
            return True
        threads = self.threads
        own = self.key == self.at + GATHERING
        own[threads] = True
        here = own
        for block in meeting:
            here = here | (self.key == block + GATHERING)
        missing = (self.key < EXITED) & ~here
        complete = here
        if members is not None:
            self.members[threads] = members
            absent = np.packbits(missing.reshape(-1, WARP), axis=1, bitorder="little").view(np.uint32)
            complete = here & (self.members.reshape(-1, WARP) & absent == 0).reshape(-1)
        elif missing.any():
            units = self.fixed(f"units of {unit}", lambda: self.cta_of * (-(-self.stride // unit)) + self.tid // unit)
            broken = np.zeros(int(units[-1]) + 1, bool)
            broken[units[missing]] = True
            complete = here & ~broken[units]
        self.key[own & ~complete] = self.at + GATHERING
        if here is not own:
            others = complete & ~own
            self.key[others] -= GATHERING
            self.met |= others
        go = np.flatnonzero(complete & own)
        self.key[go] = self.at
        self.select(ALL if len(go) == self.total else go)
        if self.observer is not None and len(go):
            for mask in (0,) if everybody else distinct(self.members[complete]).tolist():
                own = np.flatnonzero(complete if everybody else complete & (self.members == mask))
                self.observer.lanes_met(self, self.program.blocks[self.at].instructions[0], own)
        return len(go) > 0

    # ---- shared memory

    def own_shared(self, offset: int) -> Any:
        """The `.shared` address of a place in the own window, of the threads that run: with the CTA's rank in clusters."""
        offset &= 0xFFFFFFFF
        return np.uint32(offset) if self.launch.cluster_size == 1 else (self.rank_bits[self.sel] + offset).astype(np.uint32)

    def flat(self, address: Any, threads: np.ndarray | None = None) -> np.ndarray:
        """Places in `shared` of `.shared` addresses (int64, of the threads that run); -1 where the window ends or the cluster has no such CTA."""
        threads = self.threads if threads is None else threads
        at = np.broadcast_to(np.asarray(address, np.int64), threads.shape)
        rank, offset = at >> RANK_SHIFT, at & OFFSET_MASK
        if self.launch.cluster_size == 1:
            inside = (rank == 0) & (offset >= self.window_begin) & (offset < self.window_begin + self.window)
            place = self.cta_of[threads] * self.pitch + offset - self.window_begin
        else:
            inside = (
                (rank >= 0) & (rank < self.launch.cluster_size) & (offset >= self.window_begin) & (offset < self.window_begin + self.window)
            )
            place = (self.cluster_first[threads] + rank) * self.pitch + offset - self.window_begin
        return np.where(inside, place, -1)


def are_whole_warps(threads: np.ndarray) -> bool:
    """Are threads (ascending) all those of their warps?"""
    firsts = threads[::WARP]
    return len(threads) % WARP == 0 and not (firsts % WARP).any() and bool((threads[WARP - 1 :: WARP] - firsts == WARP - 1).all())
