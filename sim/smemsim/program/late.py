"""What is under way in a wave: asynchronous operations that have been issued and not landed, and stores that others do not see yet.

Without a schedule everything lands when it is issued. Under one it lands then, at a moment that is drawn, or when nobody can go on without it. What a wait
names lands before threads pass it; operations of one stream (`wgmma` of a wave, `tcgen05` of a CTA or pair, `tcgen05.ld` and `.st` of a warp) land in their
order, others in any. What a `tcgen05.ld` brings is there before its warp names the registers, with or without a wait: ptxas waits for registers.

A plain or relaxed store to global memory may be seen late too, until its warp executes what could order it: everything but arithmetic, branches, accesses
that do not release and relaxed atomics does. The warp's own accesses to the same bytes come behind it (PTX ISA 9.1 §8.9: coherence, and program order of one location).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.distinct import distinct
from smemsim.errors import SmemsimError
from smemsim.program.linking.inline import slots_of
from smemsim.program.schedule import Schedule
from smemsim.program.wave import WARP
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.program.linking.program import Block
    from smemsim.program.memory.spaces import Piece
    from smemsim.program.wave import Cta, Wave

__all__ = ["Hidden", "Late", "comes_behind", "lands"]


STORE = "store"
MOST_STORES = 64  # that a wave's warps have under way together
_FREE = frozenset(("ld", "ldu", "st", "atom", "red"))  # that order nothing, unless they say so
_ORDERED = frozenset(
    ("fence", "membar", "bar", "barrier", "mbarrier", "cp", "wgmma", "tcgen05", "call", "trap", "griddepcontrol", "tensormap",
     "clusterlaunchcontrol", "multimem", "stmatrix", "ldmatrix", "setmaxnreg", "prefetch", "discard", "applypriority")
)  # fmt: skip


@dataclasses.dataclass(eq=False)
class Landing:
    """Something that has been issued by the threads `sel` at an instruction: `act` lands it. `groups` are those that it belongs to, of each of `threads`."""

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
    memory: Any = None  # of a store: where, from the first to behind the last byte
    first: int = 0
    end: int = 0


class Late:
    """What is under way in a wave. `delays` says that stores to global memory may be seen late: CTAs look at what others write there."""

    def __init__(self, schedule: Schedule, x: Wave, *, delays: bool) -> None:
        self.schedule = schedule
        self.pending: list[Landing] = []
        self.delays = delays and schedule.late_odds > 0
        self._committed: dict[str, np.ndarray] = {}
        self._orders: dict[int, bool] = {}
        self._named: dict[tuple[int, int], frozenset[int]] = {}
        self._total = x.total
        self._meets_exits = not x.program.uses.isdisjoint(
            ("bar", "barrier")
        )  # at barriers, threads that have exited count (rule order.exit)

    # ---- issuing and landing

    def add(
        self, x: Wave, act: Callable[[], object], *, stream: Hashable = None, kind: str = "", threads: np.ndarray | None = None,
        words: np.ndarray | None = None, slots: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        """Land something now, or have it land later. What brings registers that its own block goes on to name lands now."""
        blocked = stream is not None and any(one.stream == stream for one in self.pending)
        if slots and slots & self._names(x.program.blocks[x.at], x.step + 1):
            self._land_all(x, [one for one in self.pending if one.stream == stream])
            act()
            return
        if not blocked and not self.schedule.is_late():
            act()
            return
        groups = None if threads is None else self._groups(kind)[threads].copy()
        self.pending.append(Landing(act, x.threads.copy(), x.at, x.step, _current(x), stream, kind, threads, groups, words, slots))

    def clears(self, x: Wave, words: np.ndarray) -> None:
        """What writes any of these words of shared memory lands: the watch is to see whether what comes next writes the same bytes."""
        self._land_all(x, [one for one in self.pending if one.words is not None and np.isin(words, one.words).any()])

    def land(self, x: Wave) -> bool:
        """Something that may lands; False where nothing is under way."""
        if not self.pending:
            return False
        seen: set[Hashable] = set()
        first = [one for one in self.pending if one.stream is None or not (one.stream in seen or seen.add(one.stream))]  # type: ignore[func-returns-value]
        needed = next((one for one in first if not one.slots), first[0])  # nobody else can wait for what brings registers
        self._land(x, self.schedule.draw(first) if self.schedule.is_drawn else needed)
        return True

    def _land(self, x: Wave, one: Landing) -> None:
        """Land something, behind what is in front of it in its stream."""
        ahead = self.pending[: self.pending.index(one)]
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
            x.changes += 1

    def _land_all(self, x: Wave, which: Sequence[Landing]) -> None:
        for one in which:
            if one in self.pending:
                self._land(x, one)

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
        self._land_all(
            x, [one for one in self.pending if one.kind == kind and one.threads is not None and (done[one.threads] > one.groups).any()]
        )

    # ---- stores

    def store(self, x: Wave, memory: np.ndarray, at: np.ndarray, size: int, act: Callable[[], object]) -> None:
        """A store to global memory that orders nothing."""
        self.meets(x, memory, at, size)
        if not self.delays or not self.schedule.is_late():
            act()
            return
        stores = [one for one in self.pending if one.kind == STORE]
        if len(stores) >= MOST_STORES:
            self._land(x, stores[0])
        one = Landing(
            act, x.threads.copy(), x.at, x.step, _current(x), kind=STORE, memory=memory, first=int(at.min()), end=int(at.max()) + size
        )
        self.pending.append(one)

    def meets(self, x: Wave, memory: np.ndarray, at: np.ndarray, size: int) -> None:
        """The running threads access bytes of global memory: what their warps have stored there is there."""
        if self.pending and len(at):
            first, end = int(at.min()), int(at.max()) + size
            self._land_all(x, [one for one in self._stores(x) if one.memory is memory and one.first < end and first < one.end])

    def _stores(self, x: Wave) -> list[Landing]:
        """The stores under way of the warps that run."""
        stores = [one for one in self.pending if one.kind == STORE]
        if not stores:
            return []
        warps = distinct(x.threads // WARP)
        return [one for one in stores if np.isin(one.sel // WARP, warps).any()]

    def begins(self, x: Wave, block: Block) -> None:
        """The running threads begin a block: what they have stored is seen before anything that could order it, and registers that it names have come."""
        if not self.pending:
            return
        if self._has_order(block):
            self._land_all(x, self._stores(x))
        brought = [one for one in self.pending if one.slots & self._names(block, 0)]
        self._land_all(x, [one for one in brought if one.threads is not None and np.isin(one.threads, x.threads).any()])

    def _names(self, block: Block, first: int) -> frozenset[int]:
        """The registers that a block names from its instruction `first` on."""
        key = block.index, first
        if key not in self._named:
            self._named[key] = frozenset(slot for i in block.instructions[first:] for slot in slots_of(i))
        return self._named[key]

    def _has_order(self, block: Block) -> bool:
        found = self._orders.get(block.index)
        if found is None:
            found = any(
                i.op in _ORDERED
                or (i.op in ("exit", "ret") and self._meets_exits)
                or (i.op in _FREE and not {"release", "acq_rel", "sc", "async"}.isdisjoint(i.modifiers))
                for i in block.instructions
            )
            self._orders[block.index] = found
        return found


def _current(x: Wave) -> Instruction | None:
    instructions = x.program.blocks[x.at].instructions
    return instructions[min(x.step, len(instructions) - 1)] if instructions else None


def lands(
    x: Wave,
    act: Callable[[], object],
    *,
    stream: Hashable = None,
    kind: str = "",
    threads: np.ndarray | None = None,
    words: np.ndarray | None = None,
    slots: frozenset[int] = frozenset(),
) -> None:
    """An asynchronous operation lands: now, unless a schedule says later. It does so in the order of its stream, before waits for its group (`kind`), and
    before its threads name the registers that it brings (`slots`)."""
    if x.late is None:
        act()
    else:
        x.late.add(x, act, stream=stream, kind=kind, threads=threads, words=words, slots=slots)


def comes_behind(x: Wave, pieces: Sequence[Piece], size: int) -> None:
    """The running threads read bytes: what their warps have stored there is there."""
    for piece in pieces if x.late is not None else ():
        if piece.space == "global":
            x.late.meets(x, piece.memory, piece.at, size)


class Hidden:
    """Bytes of shared memory that a copy has brought and that are not there yet: made before the copy, for the CTA that issues it."""

    def __init__(self, x: Wave, cta: Cta) -> None:
        self.x = x
        first = cta.index - cta.rank
        self.begin = first * x.pitch // 4
        self.before = x.shared[first * x.pitch : (first + x.launch.cluster_size) * x.pitch].view(np.uint32).copy()

    def take_back(self, places: np.ndarray) -> Callable[[], object]:
        """Put back what lay at these places of `x.shared`, all or a part of them; the function brings the new bytes."""
        words = distinct(places >> 2)
        late = self.x.late.schedule
        words = words[late.draw((0, 0, len(words) // 2)) :]
        view = self.x.shared.view(np.uint32)
        new = view[words].copy()
        view[words] = self.before[words - self.begin]

        def bring() -> None:
            view[words] = new

        return bring
