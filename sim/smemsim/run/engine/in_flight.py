"""Operations in flight in a wave: asynchronous operations that are not complete, and stores that other threads do not
see yet.

Without a schedule every operation completes when it is issued. With one it completes then, at a moment that is drawn,
or when no thread can go on without it. Operations that a wait names complete before threads pass the wait. Operations
of one stream (`wgmma` of a wave, `tcgen05` of a CTA or pair, `tcgen05.ld` and `.st` of a warp) complete in their order,
others in any. A `tcgen05.ld` or a `wgmma` completes before its warps name the registers that it writes, with or without
a wait: ptxas waits for registers (`IN_FLIGHT` of `core/spec/wgmma.py`). A `wgmma` that names them is no such use.

A plain or relaxed store to global or shared memory may become visible late. A plain or relaxed load may read late. Both
end when the warp executes an instruction that could order the access. Everything could but arithmetic, branches, other
plain and relaxed accesses and relaxed atomics. A load has read before its warp names its register. The warp's own
accesses to the same bytes follow it (PTX ISA 9.1 §8.9: coherence, and program order of one location). After
`fence.acq_rel`, stores and atomics become visible after those before the fence; these may still become visible after
later loads (store buffering). After `fence.sc` all are visible. An instruction that orders in the scope of a CTA alone
orders nothing if a CTA is one warp.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import SmemsimError
from smemsim.core.ptx.module import Instruction
from smemsim.run.engine.schedule import Schedule
from smemsim.run.engine.wave import WARP

if TYPE_CHECKING:
    from smemsim.run.accesses import Piece
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Block
    from smemsim.run.views import Cta

__all__ = ["SEEN", "Bytes", "InFlight", "Undo", "comes_behind", "defer"]


SEEN = ("global", "shared")  # memory that others see
STORE, LOAD, MMA = "store", "load", "wgmma"  # kinds of effects
MOST_ACCESSES = 64  # that a wave's warps have under way together
# instructions that order: earlier loads, and earlier against later stores; or everything
NOTHING, FENCES, EVERYTHING = range(3)
# instructions that order nothing, unless they have such a modifier
_FREE = frozenset(("ld", "ldu", "st", "atom", "red"))
_RELEASES = frozenset(("release", "acq_rel", "sc", "async", "bulk"))
_PROXIES = frozenset(("proxy", "mbarrier_init"))
_ORDERED = frozenset(
    ("fence", "membar", "bar", "barrier", "mbarrier", "cp", "wgmma", "wmma", "tcgen05", "call", "trap", "griddepcontrol", "tensormap",
     "clusterlaunchcontrol", "multimem", "stmatrix", "ldmatrix", "setmaxnreg", "prefetch", "discard", "applypriority")
)  # fmt: skip


@dataclasses.dataclass(eq=False)
class Effect:
    """Something that has been issued by the threads `sel` at an instruction: `act` completes it. `groups` are those
    that it belongs to, of each of `threads`.
    """

    act: Callable[[], object]
    sel: Any
    at: int
    step: int
    instruction: Instruction | None
    stream: Hashable = None
    kind: str = ""
    threads: np.ndarray | None = None
    groups: np.ndarray | None = None
    words: np.ndarray | None = None  # of shared memory that it writes, by their place in the wave's
    slots: frozenset[int] = frozenset()  # of registers that it brings
    where: Bytes | None = None  # of a store or a load
    fenced: np.ndarray | None = None  # of these: how many fences each warp had executed, -1 for warps without an access


@dataclasses.dataclass(eq=False)
class Bytes:
    """`size` bytes at each of some places of a memory."""

    memory: np.ndarray
    at: np.ndarray
    size: int

    def __post_init__(self) -> None:
        self.first, self.end = int(self.at.min()), int(self.at.max()) + self.size

    def meets(self, other: Bytes) -> bool:
        """Is a word of one a word of the other?"""
        if self.memory is not other.memory or self.first >= other.end or other.first >= self.end:
            return False
        return bool(np.isin(self._words(), other._words()).any())

    def _words(self) -> np.ndarray:
        words: np.ndarray = (self.at[:, None] >> 2) + np.arange(max(1, self.size >> 2))
        return words


class InFlight:
    """The operations in flight in a wave."""

    def __init__(self, schedule: Schedule, x: Wave) -> None:
        self.schedule = schedule
        self.pending: list[Effect] = []
        self._fences = np.zeros(x.total // WARP, np.int64)  # that each warp has executed
        self._is_one_warp = x.stride == WARP  # a CTA
        self._committed: dict[str, np.ndarray] = {}
        self._orders: dict[tuple[int, int], int] = {}
        self._named: dict[tuple[int, int, bool], frozenset[int]] = {}
        self._total = x.total
        self._meets_exits = not x.program.uses.isdisjoint(
            ("bar", "barrier")
        )  # at barriers, threads that have exited count (rule order.exit)

    # ---- issuing and landing

    def add(
        self, x: Wave, act: Callable[[], object], *, stream: Hashable = None, kind: str = "", threads: np.ndarray | None = None,
        words: np.ndarray | None = None, slots: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        """Complete something now, or later. What brings registers that its own block goes on to name completes now."""
        blocked = stream is not None and any(one.stream == stream for one in self.pending)
        if slots and slots & self._names(x.program.blocks[x.at], x.step + 1, by_mma=kind != MMA):
            self._complete_all(x, [one for one in self.pending if one.stream == stream])
            act()
            return
        if not blocked and not self.schedule.is_late():
            act()
            return
        groups = None if threads is None else self._groups(kind)[threads].copy()
        self.pending.append(Effect(act, x.threads.copy(), x.at, x.step, _current(x), stream, kind, threads, groups, words, slots))

    def clears(self, x: Wave, words: np.ndarray) -> None:
        """Complete the operations that write any of these words of shared memory. Then the race detector sees if the
        next write stores the same bytes.
        """
        self._complete_all(x, [one for one in self.pending if one.words is not None and np.isin(words, one.words).any()])

    def complete_one(self, x: Wave) -> bool:
        """Something that may complete does so; False if nothing is in flight."""
        if not self.pending:
            return False
        seen: set[Hashable] = set()
        first = [one for one in self.pending if one.stream is None or not (one.stream in seen or seen.add(one.stream))]  # type: ignore[func-returns-value]
        # no other warp can wait for operations that write registers
        needed = next((one for one in first if not one.slots), first[0])
        self._complete(x, self.schedule.draw(first) if self.schedule.is_drawn else needed)
        return True

    def _complete(self, x: Wave, one: Effect) -> None:
        """Complete something, after what was issued before it in its stream."""
        ahead = self.pending[: self.pending.index(one)]
        self._complete_all(x, [other for other in ahead if one.kind == STORE and _comes_first(other, one)])
        for other in [other for other in ahead if one.stream is not None and other.stream == one.stream] + [one]:
            self.pending.remove(other)
            kept = x.sel, x.at, x.step
            x.sel, x.at, x.step = other.sel, other.at, other.step
            try:
                other.act()
            except SmemsimError as problem:
                problem.instruction = other.instruction  # type: ignore[attr-defined]
                raise
            finally:
                x.sel, x.at, x.step = kept
            x.progress.changes += other.kind != LOAD

    def _complete_all(self, x: Wave, which: Sequence[Effect]) -> None:
        for one in which:
            if one in self.pending:
                self._complete(x, one)

    # ---- groups

    def _groups(self, kind: str) -> np.ndarray:
        return self._committed.setdefault(kind, np.zeros(self._total, np.int64))

    def commit(self, x: Wave, kind: str) -> None:
        """The running threads commit their open group."""
        self._groups(kind)[x.sel] += 1

    def wait_all(self, x: Wave, kind: str) -> None:
        """The running threads wait for everything of a kind that they have issued."""
        self.commit(x, kind)
        self.wait(x, kind, 0)

    def wait(self, x: Wave, kind: str, left: int) -> None:
        """The running threads wait until at most `left` of their groups are under way."""
        done = np.zeros(self._total, np.int64)
        done[x.sel] = self._groups(kind)[x.sel] - left
        self._complete_all(
            x, [one for one in self.pending if one.kind == kind and one.threads is not None and (done[one.threads] > one.groups).any()]
        )

    # ---- stores and loads

    def keeps(self, x: Wave, where: Bytes) -> bool:
        """Is a store that orders nothing to be seen later?"""
        if self._order(x.program.blocks[x.at], x.step + 1) != NOTHING:
            self.meets(x, where)
            return False
        one = self._access(x, STORE, where, _nothing)
        return any(_comes_first(other, one) for other in self.pending) or self.schedule.is_late()

    def store(self, x: Wave, where: Bytes, act: Callable[[], object]) -> None:
        """A store of which nothing is seen yet."""
        self._make_room(x)
        self.pending.append(self._access(x, STORE, where, act))
        x.warp_scheduler.change_soon()

    def load(self, x: Wave, where: Bytes, slots: frozenset[int], act: Callable[[], object]) -> None:
        """A load that orders nothing. What its block goes on to name it brings now."""
        self.meets(x, where)
        block = x.program.blocks[x.at]
        if self._order(block, x.step + 1) != NOTHING or slots & self._names(block, x.step + 1) or not self.schedule.looks_late():
            act()
            return
        self._make_room(x)
        one = self._access(x, LOAD, where, act)
        one.slots, one.threads = slots, one.sel
        self.pending.append(one)
        x.warp_scheduler.change_soon()

    def _access(self, x: Wave, kind: str, where: Bytes, act: Callable[[], object]) -> Effect:
        fenced = np.full(self._fences.shape, -1)
        warps = distinct(x.threads // WARP)
        fenced[warps] = self._fences[warps]
        return Effect(act, x.threads.copy(), x.at, x.step, _current(x), kind=kind, where=where, fenced=fenced)

    def _make_room(self, x: Wave) -> None:
        accesses = [one for one in self.pending if one.where is not None]
        if len(accesses) >= MOST_ACCESSES:
            self._complete(x, accesses[0])

    def meets(self, x: Wave, where: Bytes, *, is_atomic: bool = False) -> None:
        """The running threads access bytes: what their warps have stored or were to load there is done; for an atomic
        what they have fenced.
        """
        own = self._accesses(x)
        if is_atomic:
            now = self._fences[distinct(x.threads // WARP)].max() if own else 0
            self._complete_all(x, [one for one in own if one.kind == STORE and one.fenced is not None and _any_before(one.fenced, now)])
        self._complete_all(x, [one for one in own if one.where is not None and one.where.meets(where)])

    def settles(self, x: Wave, piece: Piece, size: int) -> None:
        """All stores to these bytes become visible. Then the sanitizer can compare the next write with the bytes."""
        stores = [one for one in self.pending if one.kind == STORE and one.where is not None and one.where.memory is piece.memory]
        if stores and len(piece.at):
            where = Bytes(piece.memory, piece.at, size)
            self._complete_all(x, [one for one in stores if one.where is not None and one.where.meets(where)])

    def _accesses(self, x: Wave) -> list[Effect]:
        """The stores and loads under way of the warps that run."""
        accesses = [one for one in self.pending if one.fenced is not None]
        if not accesses:
            return []
        warps = distinct(x.threads // WARP)
        return [one for one in accesses if one.fenced is not None and (one.fenced[warps] >= 0).any()]

    def begins(self, x: Wave, block: Block) -> None:
        """The running threads begin a block: what they have stored is seen before anything that could order it, and
        registers that it names have come.
        """
        if self.pending:
            brought = [one for one in self.pending if one.slots & self._names(block, 0, by_mma=one.kind != MMA)]
            self._complete_all(x, [one for one in brought if one.threads is not None and np.isin(one.threads, x.threads).any()])
        orders = self._order(block)
        if orders == NOTHING:
            return
        if self.pending:
            self._complete_all(x, [one for one in self._accesses(x) if orders == EVERYTHING or one.kind == LOAD])
        if orders == FENCES:
            self._fences[distinct(x.threads // WARP)] += 1

    def _names(self, block: Block, first: int, *, by_mma: bool = True) -> frozenset[int]:
        """The registers that a block names from its instruction `first` on, in wgmma only where `by_mma`."""
        key = block.index, first, by_mma
        if key not in self._named:
            self._named[key] = frozenset(slot for i in block.instructions[first:] if by_mma or i.op != MMA for slot in i.slots)
        return self._named[key]

    def _order(self, block: Block, first: int = 0) -> int:
        """The order that the instructions of a block from `first` on make."""
        key = block.index, first
        if key not in self._orders:
            self._orders[key] = max((self._order_of(i) for i in block.instructions[first:]), default=NOTHING)
        return self._orders[key]

    def _order_of(self, i: Instruction) -> int:
        words = set(i.modifiers)
        if i.op in ("exit", "ret"):
            return EVERYTHING if self._meets_exits else NOTHING
        if i.op in _FREE:
            return self._order_of_access(i.op, words)
        if i.op not in _ORDERED:
            return NOTHING
        is_fence = i.op in ("fence", "membar") and not words & _PROXIES
        if self._is_one_warp and (i.op == "bar" or (i.op == "barrier" and "cluster" not in words) or (is_fence and "cta" in words)):
            return NOTHING
        return FENCES if is_fence and i.op == "fence" and "sc" not in words else EVERYTHING

    def _order_of_access(self, op: str, words: set[str]) -> int:
        if "mmio" in words:
            return EVERYTHING
        if words.isdisjoint(_RELEASES) or (self._is_one_warp and "cta" in words):
            return NOTHING
        return FENCES if op == "st" and "release" in words else EVERYTHING


def _comes_first(one: Effect, other: Effect) -> bool:
    """Is a store, or a load, of a warp to complete before its store `other`: is there a fence between them, or are
    some of their bytes the same?
    """
    if one.fenced is None or other.fenced is None or one.where is None or other.where is None:
        return False
    both = (one.fenced >= 0) & (other.fenced >= 0)
    return bool(both.any()) and (bool((both & (one.fenced < other.fenced)).any()) or one.where.meets(other.where))


def _nothing() -> None:
    pass


def _any_before(fenced: np.ndarray, now: int) -> bool:
    return bool(((fenced >= 0) & (fenced < now)).any())


def _current(x: Wave) -> Instruction | None:
    instructions = x.program.blocks[x.at].instructions
    return instructions[min(x.step, len(instructions) - 1)] if instructions else None


def defer(
    x: Wave,
    act: Callable[[], object],
    *,
    stream: Hashable = None,
    kind: str = "",
    threads: np.ndarray | None = None,
    words: np.ndarray | None = None,
    slots: frozenset[int] = frozenset(),
) -> None:
    """An asynchronous operation takes effect: now, unless a schedule says later. It does so in the order of its
    stream, before waits for its group (`kind`), and before its threads name the registers that it brings (`slots`).
    """
    if x.in_flight is None:
        act()
    else:
        x.in_flight.add(x, act, stream=stream, kind=kind, threads=threads, words=words, slots=slots)


def comes_behind(x: Wave, pieces: Sequence[Piece], size: int, *, is_atomic: bool = False) -> None:
    """The running threads access bytes: what their warps have stored there, or were to load, is done."""
    for piece in pieces if x.in_flight is not None and x.in_flight.pending else ():
        if piece.space in SEEN and len(piece.at):
            x.in_flight.meets(x, Bytes(piece.memory, piece.at, size), is_atomic=is_atomic)


class Undo:
    """Bytes of shared memory that a copy has brought and that are not there yet: made before the copy, for the CTA
    that issues it.
    """

    def __init__(self, x: Wave, cta: Cta) -> None:
        self.x = x
        first = cta.index - cta.rank
        self.begin = first * x.pitch // 4
        self.before = x.shared[first * x.pitch : (first + x.launch.cluster_size) * x.pitch].view(np.uint32).copy()

    def take_back(self, places: np.ndarray) -> Callable[[], object]:
        """Put back what lay at these places of `x.shared`, all or a part of them; the function brings the new bytes."""
        words = distinct(places >> 2)
        late = self.x.in_flight.schedule
        words = words[late.draw((0, 0, len(words) // 2)) :]
        view = self.x.shared.view(np.uint32)
        new = view[words].copy()
        view[words] = self.before[words - self.begin]

        def bring() -> None:
            view[words] = new

        return bring
