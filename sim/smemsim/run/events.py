"""The events of a launch: one method of `Observer` for each kind, all with an empty body.

The sanitizer is an observer, and so is everything that counts, draws or records. Observers do not know each other,
and execution does not know them. It reports an event at the instruction that causes it, by `x.events` (`Events`): `if
x.events.EVENT: x.events.EVENT(x, i, ...)`. For an event that no observer overrides nothing is computed.

Every event has the wave `x` and the instruction `i`, with its PTX and its line. Events of a whole wave or barrier have
no instruction. Threads are numbers in the wave: thread t is thread `x.tid[t]` of CTA `x.ctas[x.cta_of[t]]`, of warp t
// 32 in the wave. An event without threads is of those that run: `x.threads`.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.accesses import Piece, Values
from smemsim.run.scopes import GPU
from smemsim.run.tallies import CompiledAccesses, Tally

if TYPE_CHECKING:
    from smemsim.run.async_ops import AsyncOp, GlobalWrite, TensorAccess
    from smemsim.run.engine.records import Bulk, Copy, Fragments, Load, Products, Store, WarpProducts
    from smemsim.run.views import Barrier, Cta, Mbarrier, Ordering, Wave

__all__ = [
    "EVENTS",
    "NO_EVENTS",
    "Access",
    "AtMbarriers",
    "Events",
    "GroupKind",
    "Interest",
    "MergeableObserver",
    "Observer",
    "barrier_key",
    "interest_of",
]


AtMbarriers: TypeAlias = "Sequence[tuple[np.ndarray, Mbarrier]]"  # threads, and the mbarrier at which they do something
GroupKind: TypeAlias = Literal["cp.async", "bulk", "wgmma"]


def barrier_key(cta: int, number: int) -> tuple[str, int, int]:
    """The key by which observers know a barrier of a CTA (its index in the wave)."""
    return "barrier", cta, number


class Access(NamedTuple):
    """Bytes that threads access by one instruction: `size` of them from each place of `piece` on.

    Strong accesses have `is_strong`: atomics, and .relaxed, .acquire, .release and .volatile accesses, within `scope`.
    Accesses of matrices, which a warp makes for all its lanes, have `is_joint`. An atomic without an effect has
    `has_changed` False. The values of a store are `values`, if an observer may ask for them.
    """

    wave: Wave
    instruction: Instruction
    kind: Literal["read", "write", "copy"]  # "copy": what cp.async writes
    piece: Piece
    size: int
    is_strong: bool = False
    scope: int = GPU
    is_joint: bool = False
    has_changed: bool = True
    values: Values | None = None

    @property
    def space(self) -> str:
        """ "global", "shared", "local" or "reserved" (of shared memory, below the kernel's own)."""
        return self.piece.space

    @property
    def threads(self) -> np.ndarray:
        """The threads that access, by their numbers in the wave."""
        running: np.ndarray = self.wave.threads
        return running if self.piece.part is None else running[self.piece.part]

    @property
    def ctas(self) -> np.ndarray:
        """The CTA's number in the grid of each."""
        of_threads: np.ndarray = self.wave.cta_of[self.threads]
        return np.asarray(self.wave.numbers[of_threads])

    @property
    def byte_count(self) -> int:
        """How many bytes they access together, a byte of two threads counted twice."""
        return len(self.piece.at) * self.size


class Interest(NamedTuple):
    """The accesses that an observer must see one by one. Everything else may be JIT-compiled, many instructions at once
    and without events.
    """

    accesses: bool = False  # each access of memory by a thread
    instructions: bool = False  # which instructions run
    operands: bool = False  # what matrix instructions multiply; then it is followed where their bytes come from
    counts: bool = False  # compiled code counts for it: it overrides `tallied` and `accessed_together`

    @property
    def is_stepwise(self) -> bool:
        """Has each instruction to be executed by itself?"""
        return (self.accesses or self.instructions) and not self.counts


class Observer:
    """Override the methods of the events that you need. An observer must not change anything of a launch, and returns
    nothing to it.
    """

    # ---- waves

    def wave_began(self, x: Wave) -> None:
        """CTAs begin, which run together: `x.numbers` are theirs in the grid."""

    def wave_ended(self, x: Wave) -> None:
        """All threads of a wave have exited."""

    def wave_stopped(self, x: Wave) -> None:
        """The kernel ends before a wave does: by a trap, or since nothing goes on."""

    def wave_hung(self, x: Wave) -> None:
        """Nothing goes on: threads of a wave wait for what does not come. `wave_stopped` is not reported too."""

    def wave_freed(self, x: Wave) -> None:
        """Nobody asks for a wave any more; what is known of it may go."""

    # ---- instructions

    def executes(self, x: Wave, instructions: Sequence[Instruction]) -> None:
        """The running threads execute these instructions, one after the other. It is the same sequence each time."""

    def guarded(self, x: Wave, i: Instruction, holds: np.ndarray) -> None:
        """The running threads come to an instruction with a predicate, which `holds` for these. Compiled code does not
        report it: an observer needs `executes` or `accessed`, or `tallied`, too.
        """

    def tallied(self, x: Wave, tally: Tally) -> None:
        """Compiled code counts in `tally` from now on: lanes that predicates leave out, and blocks that `executes` does
        not report. Reported once for each tally, whose numbers are read after the launch.

        An observer that overrides this event and `accessed_together` leaves blocks compiled, even if it overrides
        `executes`, `guarded` and `accessed`. It gets `guarded` and `accessed` from interpreted code alone, and
        `executes` for compiled blocks too.
        """

    def accessed_together(self, x: Wave, accesses: CompiledAccesses) -> None:
        """Compiled code has executed loads and stores, which `accessed` does not report."""

    def block_entered(self, x: Wave, block: Any) -> None:
        """The running threads begin a block of instructions, or go on in it; `block.slots` are the registers that it
        names, as a bit set. Chains of compiled blocks report their last one alone.
        """

    # ---- accesses of threads

    def accessed(self, x: Wave, access: Access) -> None:
        """Threads read, or have written."""

    def copied(self, x: Wave, access: Access) -> None:
        """cp.async has written shared memory. `accessed` reports it too; an observer of this event alone does not
        keep blocks from running as machine code.
        """

    def updates(self, x: Wave, access: Access) -> None:
        """Threads are about to read and change something by an atomic operation; `accessed` follows, when they have."""

    def reduced(self, x: Wave, access: Access) -> None:
        """red.async of threads will change something that `updates` has named; each is an operation of its own
        (`issued`).
        """

    def acquires_at(self, x: Wave, i: Instruction, piece: Piece, order: Ordering) -> None:
        """The threads of a piece have read there by an access that may be part of an acquire pattern."""

    def releases_at(self, x: Wave, i: Instruction, piece: Piece, order: Ordering, which: np.ndarray | None = None) -> None:
        """The threads of a piece, or `which` of them write, write there by an access that may be part of a release
        pattern.
        """

    def lanes_met(self, x: Wave, i: Instruction, threads: np.ndarray | None = None, times: int = 1, *, are_done: bool = False) -> None:
        """Lanes of each warp execute an instruction together, or have gone through blocks in which they do so many
        times; `are_done`: none goes on before all are done.
        """

    # ---- barriers of threads: bar, barrier, barrier.cluster. `barrier` has a `key`, a `title`, its `scope` and its
    # `count` of threads (None: all)

    def barrier_met(self, x: Wave, i: Instruction, number: int, ctas: np.ndarray, threads: np.ndarray, count: int | None) -> None:
        """Threads arrive at barrier `number` of their CTAs (indices in the wave), complete its phase and go on, all
        at once.
        """

    def barrier_arrived(
        self, x: Wave, i: Instruction, barrier: Barrier, threads: np.ndarray, *, waits: bool = True, is_relaxed: bool = False
    ) -> None:
        """Threads arrive, and wait or do not. Whole warps that wait at a barrier of all threads are reported when it
        is complete, mostly by `barrier_met`.
        """

    def barrier_completed(self, x: Wave, barrier: Barrier) -> None:
        """All have arrived, or exited: the phase is over."""

    def barrier_passed(self, x: Wave, i: Instruction, barrier: Barrier, threads: np.ndarray) -> None:
        """Threads that have waited go on."""

    # ---- mbarriers

    def mbarriers_initialised(self, x: Wave, i: Instruction, made: AtMbarriers, at: np.ndarray) -> None:
        """mbarrier.init: threads, of each mbarrier the last one counts, and where the objects lie in `x.shared`, of
        each running thread.
        """

    def mbarrier_ends(self, x: Wave, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> None:
        """Threads are about to invalidate an mbarrier, or to initialise it again."""

    def mbarrier_invalidated(self, x: Wave, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> None:
        """mbarrier.inval by threads."""

    def mbarriers_used(self, x: Wave, i: Instruction, uses: AtMbarriers) -> None:
        """Threads name mbarriers: they arrive or wait, or issue what arrives there."""

    def bytes_expected(self, x: Wave, i: Instruction, barriers: Sequence[Mbarrier], size: int) -> None:
        """The current phase of each of these mbarriers waits for `size` bytes more."""

    def bytes_counted(self, x: Wave, i: Instruction, barriers: Sequence[Mbarrier], size: int) -> None:
        """`size` bytes have come for each of these mbarriers."""

    def bytes_changed(self, x: Wave, i: Instruction, threads: AtMbarriers, *, scope: int) -> None:
        """Threads are about to execute mbarrier.expect_tx or .complete_tx."""

    def mbarriers_reached(
        self, x: Wave, i: Instruction, arrivals: AtMbarriers, count: int, *, is_async: bool, relaxed: bool, scope: int
    ) -> None:
        """Threads, or `is_async` operations that they have issued, are about to arrive, each `count` times."""

    def mbarriers_arrived(
        self, x: Wave, i: Instruction, arrivals: AtMbarriers, count: int, *, is_async: bool, relaxed: bool, scope: int
    ) -> None:
        """They have arrived in the current phases; those of one instruction that more phases count are reported once
        for each.
        """

    def mbarriers_completed(self, x: Wave, barriers: Sequence[Mbarrier]) -> None:
        """A phase of each of these is over, and the next has begun."""

    def mbarrier_blocked(self, x: Wave, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> None:
        """Threads begin to wait for the current phase (mbarrier.try_wait); `mbarriers_passed` follows, unless their
        time is over.
        """

    def mbarriers_passed(
        self, x: Wave, i: Instruction, waits: AtMbarriers, *, relaxed: bool, scope: int, by_parity: bool, is_seen: bool
    ) -> None:
        """Threads have found phases over (mbarrier.try_wait, .test_wait). `is_seen`: the kernel looks at the answer."""

    # ---- fences and dependences

    def fenced(self, x: Wave, i: Instruction, *, acquires: bool, releases: bool, scope: int) -> None:
        """fence and membar."""

    def proxy_fenced(self, x: Wave, i: Instruction, *, only_global: bool = False) -> None:
        """fence.proxy.async; `only_global`: fence.proxy.async.global."""

    def maps_fenced(self, x: Wave, i: Instruction, addresses: np.ndarray | None, scope: int) -> None:
        """fence.proxy.tensormap::generic: an acquire of the maps at these addresses, one for each running thread, or
        a release (None).
        """

    def initialisations_fenced(self, x: Wave, i: Instruction) -> None:
        """fence.mbarrier_init."""

    def tensor_fenced(self, x: Wave, i: Instruction, *, acquires: bool, releases: bool) -> None:
        """tcgen05.fence."""

    def dependency_waited(self, x: Wave, i: Instruction) -> None:
        """griddepcontrol.wait."""

    def dependents_launched(self, x: Wave, i: Instruction) -> None:
        """griddepcontrol.launch_dependents."""

    # ---- asynchronous operations

    def issued(self, x: Wave, op: AsyncOp) -> None:
        """An operation is issued. Its bytes in shared memory are written, and no mbarrier has counted them yet; its
        bytes in global memory are not written yet.
        """

    def completes_on(self, x: Wave, op: AsyncOp, barriers: Sequence[Mbarrier]) -> None:
        """The current phases of these mbarriers count an operation; `bytes_counted` follows when they do. If there are
        several issuers, each has one.
        """

    def stores(self, x: Wave, op: AsyncOp, n: int, write: GlobalWrite) -> None:
        """The part of an operation that its n-th issuer has issued is about to write to global memory."""

    def repeated(self, x: Wave, op: AsyncOp, n: int, thread: int) -> None:
        """Another lane of the warp issues what the n-th issuer has issued."""

    def map_used(self, x: Wave, i: Instruction, thread: int, address: int, size: int) -> None:
        """A thread issues a transfer with the tensor map of `size` bytes at an address that is no parameter's."""

    def group_committed(self, x: Wave, i: Instruction, kind: GroupKind) -> None:
        """The running threads commit their open group."""

    def group_waited(self, x: Wave, i: Instruction, kind: GroupKind, left: int, *, only_read: bool = False) -> None:
        """The running threads have waited until at most `left` of their groups were pending; `only_read`: had not
        read all that they read.
        """

    def copies_counted(self, x: Wave, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> None:
        """cp.async.mbarrier.arrive: the current phase counts an arrival when the copies of each thread are complete."""

    def committed(self, x: Wave, i: Instruction, commits: Sequence[tuple[int, Mbarrier]]) -> None:
        """tcgen05.commit: the current phase of each mbarrier counts an arrival when what the thread has issued is
        complete.
        """

    def transferred(self, x: Wave, i: Instruction, transfers: Sequence[Load | Store | Bulk | Copy]) -> None:
        """Transfers have been executed, and their mbarriers count them, or will. Several are those of one operation:
        loads, or stores, of boxes inside a tensor.
        """

    def multiplies(self, x: Wave, i: Instruction, products: Products) -> None:
        """Warpgroups or threads multiply, each by itself: wgmma.mma_async is about to, tcgen05.mma has done so or
        ends the kernel by that.
        """

    def multiplied(self, x: Wave, i: Instruction, products: Products) -> None:
        """Products have read their operands: of each it is known whether it has read uninitialised memory."""

    def fragments_multiplied(self, x: Wave, i: Instruction, fragments: Fragments) -> None:
        """Warps execute a block-scaled or sparse mma.sync; reported if an observer asks for `multiplies`."""

    def warps_multiplied(self, x: Wave, i: Instruction, products: WarpProducts) -> None:
        """Warps have executed an mma.sync or a wmma.mma whose elements have 8, 16 or 32 bits."""

    # ---- tensor memory

    def tensor_allocated(self, x: Wave, i: Instruction, warp: int, cta: Cta, column: int, group: int) -> None:
        """A warp (of its CTA) has got columns of tensor memory from one on, in each CTA of its `group` of 1 or 2."""

    def allocation_written(self, x: Wave, i: Instruction, piece: Piece) -> None:
        """tcgen05.alloc writes the addresses to shared memory."""

    def tensor_freed(self, x: Wave, i: Instruction, freed: Sequence[tuple[int, int, int, int]], group: int) -> None:
        """tcgen05.dealloc: of each the warp in the wave, the CTA's index, the first column and the end column."""

    def tensor_loaded(self, x: Wave, i: Instruction, access: TensorAccess) -> None:
        """tcgen05.ld of warps."""

    def tensor_stored(self, x: Wave, i: Instruction, access: TensorAccess) -> None:
        """tcgen05.st of warps."""

    def tensor_waited(self, x: Wave, i: Instruction, kind: Literal["ld", "st"]) -> None:
        """tcgen05.wait::ld or ::st of the running threads."""


EVENTS = tuple(name for name, _ in inspect.getmembers(Observer, inspect.isfunction))
_ACCESSES = ("accessed", "updates")
_COUNTS = {"tallied", "accessed_together"}


class MergeableObserver(Observer):
    """An observer of a launch in several processes. Each other process has a `fresh` one; at its end this one gets it
    by `merge`.
    """

    def fresh(self) -> Self:
        """An observer without events so far, for CTAs that another process executes."""
        raise NotImplementedError

    def finish(self) -> Self:
        """Itself, after its last event."""
        return self

    def merge(self, other: Any) -> None:
        """Add the record of a `fresh` observer, about CTAs that come after this one's."""
        raise NotImplementedError


_BODIES = {name: getattr(Observer, name) for name in EVENTS}


class Events:
    """The receivers of reports: one attribute for each event. It is None if no observer overrides the event. Then
    nothing is computed for it. Else it is a function that calls those observers, in their order. Example:

    >>> class Loud(Observer):
    ...     def wave_began(self, x):
    ...         print("a wave")
    >>> events = Events([Loud(), Observer()])
    >>> events.wave_began(None)
    a wave
    >>> events.wave_ended is None
    True
    """

    members: tuple[Any, ...] = ()

    def __init__(self, members: Sequence[Any]) -> None:
        self.members = tuple(members)
        self._which, unheard = _hearers(tuple(map(type, self.members)))
        self.__dict__.update(unheard)

    def __getattr__(self, name: str) -> Any:
        """The attribute of an event, made when execution first asks for it: most waves have few events."""
        which = self._which.get(name)
        if which is None:
            raise AttributeError(name)
        if len(which) == 1:
            found = getattr(self.members[which[0]], name)
        else:
            found = functools.partial(_tell, tuple([getattr(self.members[n], name) for n in which]))
        self.__dict__[name] = found
        return found


@functools.lru_cache(64)
def _hearers(kinds: tuple[type, ...]) -> tuple[dict[str, tuple[int, ...]], dict[str, None]]:
    """For each event that some of observers of these classes override: which; and the other events."""
    which = {name: tuple(n for n, kind in enumerate(kinds) if getattr(kind, name, body) is not body) for name, body in _BODIES.items()}
    return {name: heard for name, heard in which.items() if heard}, {name: None for name, heard in which.items() if not heard}


NO_EVENTS = Events(())


def _tell(hears: tuple[Callable[..., None], ...], *args: Any, **given: Any) -> None:
    for hear in hears:
        hear(*args, **given)


def interest_of(observer: Observer) -> Interest:
    """The accesses that an observer must see, by the events that it overrides."""
    kind = type(observer)
    if kind not in _INTERESTS:
        overrides = set(_hearers((kind,))[0])
        _INTERESTS[kind] = Interest(
            not overrides.isdisjoint(_ACCESSES), "executes" in overrides, "multiplies" in overrides, overrides >= _COUNTS
        )
    return _INTERESTS[kind]


_INTERESTS: weakref.WeakKeyDictionary[type, Interest] = weakref.WeakKeyDictionary()
