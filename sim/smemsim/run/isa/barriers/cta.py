"""Barriers of CTAs and of clusters.

Without a thread count a barrier is for all threads of the CTA that have not exited. With one it counts whole warps,
32 each, when all threads of the warp that have not exited have arrived. A warp that has arrived by `.arrive` and
waits in the same phase counts once more (`smemsim.RULES["barrier.arrive_sync"]`). Example: several warps fill a tile
and all arrive. One of them waits for the others and stores the tile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import HardwareTrap, InputError
from smemsim.base.masks import any_set
from smemsim.core.finding import Half, ranges
from smemsim.core.ptx.module import Immediate, Instruction, Operand, place_of
from smemsim.core.spec.barriers import CTA_BARRIERS
from smemsim.core.spec.traps import ILLEGAL_INSTRUCTION
from smemsim.run.engine.traps import find_misuse, misuse, thread_name
from smemsim.run.engine.wave import EXITED, WARP, Cta, Wait, are_whole_warps
from smemsim.run.events import barrier_key
from smemsim.run.isa.barriers.skipped_barriers import (
    check_missing,
    check_skipped,
    come,
    come_whole,
    have_parted,
    keeps_lanes,
    note_exits,
    were_kept,
)
from smemsim.run.isa.registers import Read, Write
from smemsim.run.isa.registry import BEFORE_EXIT, ON_EXIT, End, Gate, Step, implements, unmodelled
from smemsim.run.isa.threads.warps import bar_warp
from smemsim.run.lower.cfg import leads_past
from smemsim.run.scopes import CLUSTER, CTA
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = [
    "ClusterBarrier",
    "NamedBarrier",
    "build_cluster",
    "check_aligned",
    "check_parted",
    "have_parted_at",
    "note_parted",
    "tell_parted",
]


# ---- Barriers in branches: lanes of a warp, or warps, that arrive at one phase of a barrier by different instructions
# (PTX ISA 9.1 §9.7.13.1, 9.7.13.4)


HARMED = ("X003", "X004", "X005", "X008", "R507")  # accesses that nothing orders
MOST = 12  # warps that are listed


@dataclasses.dataclass(eq=False)
class _Parted:
    """A phase of a barrier in which warps arrived by different instructions. The sites of these, from warp `first` on,
    are `sites`, 0 for warps that did not arrive.

    Warps that come after this barrier to `at`, the site of some of the others, are `late`.
    """

    title: str
    first: int
    sites: np.ndarray
    late: list[int] = dataclasses.field(default_factory=list)
    at: int = 0


def check_aligned(x: Wave, i: Instruction, title: str, first: int, arrived: np.ndarray, aligned: np.ndarray) -> None:
    """X011 if lanes of a warp have arrived by different instructions at an aligned barrier. One instruction must be for
    all of them.

    The sites by which threads have arrived, from thread `first` of the wave on, are `arrived`, 0 for those that have
    not. For each site, `aligned` says whether it is aligned. Later barriers of lanes that have not joined since are not
    reported.
    """
    concerned = np.repeat(aligned.reshape(-1, WARP).any(axis=1), WARP)
    sites = np.where(concerned, arrived, 0).reshape(-1, WARP)
    lowest = np.where(sites > 0, sites, np.iinfo(np.int32).max).min(axis=1)
    parted = np.flatnonzero((sites.max(axis=1) > 0) & (sites.max(axis=1) != lowest))
    if not parted.size:
        return
    warp = int(parted[0])
    there = sorted(distinct(sites[warp][sites[warp] > 0]).tolist(), key=place_of)
    if _follows_from_branch(x, there):
        return
    which = ", ".join(f"{_lanes(np.flatnonzero(sites[warp] == site).tolist())} at {x.program.at(site)}" for site in there)
    i = _at(x, there[0]) or i
    x.launch.find(
        "X011", i, f"lanes of {_warps(x, [first // WARP + warp])} arrive at {title} by different instructions", "put one barrier after the paths have joined",
        why=f"{which}; the result is undefined for {i.name}, which the whole warp must execute together",
        because="PTX ISA 9.1 §9.7.13.1",
    )  # fmt: skip


_APART: Slot[list[set[int]]] = Slot(lambda x: [])  # the sites by which lanes of a warp have arrived at one barrier


def _follows_from_branch(x: Wave, sites: list[int]) -> bool:
    """Do lanes arrive by different instructions because of a branch after which they have done so before? Then each
    earlier instruction leads to one of these.
    """
    known = _APART(x)
    if {*sites} in known:
        return True
    own = [_at(x, site) for site in sites]
    for before in known:
        leads = [[i is not None and leads_past(x.program, x.program.sites[site], i, []) for i in own] for site in before]
        if all(sum(to) == 1 for to in leads) and all(any(to) for to in zip(*leads, strict=True)):
            return True
    known.append({*sites})
    return False


# by barrier, the first phase in which warps have arrived by different instructions
_PARTED: Slot[dict[Any, _Parted]] = Slot(lambda x: {})


def note_parted(x: Wave, key: Any, title: str, first: int, arrived: np.ndarray) -> None:
    """Remember the first phase of a barrier of all threads in which warps have arrived by different instructions; as
    for `check_aligned`.
    """
    by_warp = arrived.reshape(-1, WARP).max(axis=1)
    known = _PARTED(x)
    if key not in known and len(distinct(by_warp[by_warp > 0])) > 1:
        known[key] = _Parted(title, first // WARP, by_warp)


def have_parted_at(x: Wave, site: int) -> bool:
    """Have warps arrived in a phase by an instruction, and others by another one?"""
    return any((parted.sites == site).any() for parted in _PARTED(x).values())


def check_parted(x: Wave, i: Instruction, concerns: Callable[[Any], bool]) -> None:
    """The running threads arrive at a barrier, whose keys are those that it `concerns`: only now by an instruction
    by which others did in a parted phase?
    """
    for key, parted in _PARTED(x).items():
        if parted.late or not concerns(key):
            continue
        warps = distinct(x.threads >> 5) - parted.first
        own = warps[(warps >= 0) & (warps < len(parted.sites))].tolist()
        late = [warp for warp in own if parted.sites[warp] not in (0, i.site)]
        if (parted.sites == i.site).any():
            parted.late, parted.at = late, i.site


def tell_parted(x: Wave) -> None:
    """X011 at a barrier of all threads that some warps execute and others skip, if accesses without an order show that
    it matters.

    The barriers that follow separate the same warps: in each phase some are one barrier late. Without such an access
    it does no harm and is not reported.
    """
    if not any(f.code in HARMED for f in x.launch.result.findings.values()):
        return
    for parted in _PARTED(x).values():
        i = _at(x, int(parted.sites[parted.late[0]])) if parted.late else None
        if i is None:
            continue
        mine, others = (
            _warps(x, [parted.first + warp for warp in w]) for w in (parted.late, np.flatnonzero(parted.sites == parted.at).tolist())
        )
        x.launch.find(
            "X011", i, f"{parted.title}: some warps skip this barrier, and from then on the warps are one barrier apart",
            "move it out of the branch, so that all threads execute it; or use another barrier number for those that do",
            halves=(Half("arrive", f"{mine}, here ({i.name})", i), Half("arrive", f"{others}, in the same phase", _at(x, parted.at))),
            because="CUDA: __syncthreads() in a branch needs all threads to take it the same way",
        )  # fmt: skip


def _at(x: Wave, site: int, *words: str) -> Instruction | None:
    """The barrier of threads at a site, if it has these words."""
    i = x.program.sites.get(site)
    return i if i is not None and i.op in ("bar", "barrier") and {*words} <= {*i.modifiers} else None


def _warps(x: Wave, warps: list[int]) -> str:
    """Warps, by their number in the wave, as a kernel author knows them."""
    parts = []
    per_cta = x.stride // WARP
    for cta in dict.fromkeys(warp // per_cta for warp in warps):
        own = [str(warp % per_cta) for warp in warps if warp // per_cta == cta]
        of = f" of CTA {x.ctas[cta].number}" if x.launch.ctas > 1 else ""
        parts.append(f"warp{'s' * (len(own) > 1)} {', '.join(own[:MOST])}{' ...' * (len(own) > MOST)}{of}")
    return " and ".join(parts[:MOST])


def _lanes(lanes: list[int]) -> str:
    whole = lanes == list(range(lanes[0], lanes[-1] + 1))
    return f"lane {lanes[0]}" if len(lanes) == 1 else f"lanes {lanes[0]} to {lanes[-1]}" if whole else f"lanes {', '.join(map(str, lanes))}"


# ---- barrier.cluster: all threads of a cluster that have not exited (PTX ISA 9.1 §9.7.13.4)


class ClusterBarrier:
    """A cluster's barrier. A thread that has arrived in the current phase has `arrived` set. Threads that have not
    arrived since they waited are `idle`.

    Threads in `told` have not waited, but have synchronised with one that has, at a barrier of their CTA. So that phase
    is complete, and they may arrive in the next one. The warps of Triton's kernels that wait for work do so (TLX's
    test_explicit_cluster_sync_ws, which its project runs on H100 and B200).
    """

    def __init__(self, x: Wave, cluster: int) -> None:
        self.cluster = cluster
        size = x.launch.cluster_size * x.stride
        self.first = cluster * size
        self.own = slice(self.first, self.first + size)
        self.arrived, self.idle, self.told = np.zeros(size, bool), np.ones(size, bool), np.zeros(size, bool)
        self.site = np.zeros(size, np.int32)  # of the instruction that each thread arrived with
        self.aligned = np.zeros(size, bool)  # did it arrive by an instruction of its whole warp?
        self.waits: list[Wait] = []
        self.ends: list[Wait] = []  # of threads that have come to their end

    scope, count = CLUSTER, None

    @property
    def key(self) -> tuple[str, int]:
        """The key by which observers know it."""
        return "barrier.cluster", self.cluster

    @property
    def title(self) -> str:
        """Its name in findings."""
        return "barrier.cluster"

    def materialize(self, x: Wave) -> None:
        """If all have arrived, the next phase begins."""
        if not self.arrived.any() or not (self.arrived | (x.pc[self.own] >= EXITED)).all():
            return
        sites = np.where(self.arrived, self.site, 0)
        check_aligned(x, x.program.blocks[x.at].instructions[-1], "barrier.cluster", self.first, sites, self.aligned)
        note_parted(x, self.key, "barrier.cluster", self.first, sites)
        self.arrived[:] = False
        x.progress.changes += 1
        if x.events.barrier_completed:
            x.events.barrier_completed(x, self)
        waits, self.waits = self.waits, []
        for wait in waits:
            self.idle[wait.threads - self.first] = True
            if x.events.barrier_passed:
                x.events.barrier_passed(x, wait.instruction, self, wait.threads)
            x.wake(wait)
        ends, self.ends = self.ends, []
        for wait in ends:
            x.wake(wait)

    def describe(self, x: Wave) -> str:
        """How many threads have arrived and how many have not, for a report of a hang."""
        return f"barrier.cluster: {int(self.arrived.sum())} threads have arrived, {len(self.missing(x))} have not"

    def missing(self, x: Wave) -> np.ndarray:
        """Threads of the wave that have not arrived."""
        return self.first + np.flatnonzero(~self.arrived & (x.pc[self.own] < EXITED))


_BARRIERS: Slot[list[ClusterBarrier]] = Slot(lambda x: [ClusterBarrier(x, n) for n in range(len(x.ctas) // x.launch.cluster_size)])


def _barriers(x: Wave) -> list[ClusterBarrier]:
    return _BARRIERS(x)


def _by_cluster(x: Wave) -> list[tuple[ClusterBarrier, np.ndarray]]:
    """The clusters of the running threads, with their threads' numbers within."""
    threads, barriers = x.threads, _barriers(x)
    size = x.launch.cluster_size * x.stride
    cuts = np.searchsorted(threads, np.arange(len(barriers) + 1) * size)
    return [(b, threads[lo:hi] - b.first) for b, lo, hi in zip(barriers, cuts, cuts[1:], strict=False) if lo < hi]


def build_cluster(i: Instruction, c: Linker) -> Step:
    """`barrier.cluster.arrive` and `.wait`, .aligned or not."""
    rest = [m for m in i.modifiers[1:] if m != "aligned"]
    if rest[:1] == ["arrive"] and rest[1:] in ([], ["release"], ["relaxed"]):
        return Gate(lambda x: come_whole(x, i), lambda x: _arrive(x, i, relaxed="relaxed" in rest))
    if rest[:1] == ["wait"] and rest[1:] in ([], ["acquire"]):
        return End(lambda x, following: _wait(x, i, following), again=True)
    raise unmodelled(i)


def _arrive(x: Wave, i: Instruction, *, relaxed: bool) -> None:
    check_parted(x, i, lambda key: key[0] == "barrier.cluster")
    for barrier, own in _by_cluster(x):
        over = barrier.idle[own] | barrier.told[own]
        if not over.all():
            busy = own[~over]
            thread = int(busy[0]) + barrier.first
            misuse(x, i, f"{thread_name(x, thread)} arrives twice without barrier.cluster.wait between", "wait before arriving again")
        barrier.arrived[own], barrier.idle[own], barrier.told[own] = True, False, False
        barrier.site[own], barrier.aligned[own] = i.site, "aligned" in i.modifiers
        if x.events.barrier_arrived:
            x.events.barrier_arrived(x, i, barrier, own + barrier.first, is_relaxed=relaxed)
        x.progress.changes += 1
        barrier.materialize(x)


def _wait(x: Wave, i: Instruction, following: int) -> None:
    if not come_whole(x, i):
        return
    x.pc[x.sel] = following
    for barrier, own in _by_cluster(x):
        if barrier.idle[own].any():
            thread = int(own[int(np.flatnonzero(barrier.idle[own])[0])]) + barrier.first
            misuse(x, i, f"{thread_name(x, thread)} waits without having arrived", "barrier.cluster.arrive first")
        late = barrier.arrived[own]
        done = own[~late]
        barrier.idle[done] = True
        if done.size and x.events.barrier_passed:
            x.events.barrier_passed(x, i, barrier, done + barrier.first)
        if late.any():
            wait = x.park(own[late] + barrier.first, following, i, lambda b=barrier: b.describe(x))  # type: ignore[misc]
            wait.missing = lambda b=barrier: b.missing(x)
            barrier.waits.append(wait)


def _tell(x: Wave, came: np.ndarray, waiting: np.ndarray) -> None:
    """Threads came to a barrier of their CTA. Those that wait there learn from the others that a phase of the cluster's
    barrier is over.
    """
    for barrier in _BARRIERS.peek(x) or ():
        own = waiting[(waiting >= barrier.first) & (waiting < barrier.own.stop)] - barrier.first
        others = came[(came >= barrier.first) & (came < barrier.own.stop)] - barrier.first
        for cta in distinct(own // x.stride).tolist():
            if barrier.idle[others[others // x.stride == cta]].any():
                mine = own[own // x.stride == cta]
                barrier.told[mine] |= ~barrier.idle[mine] & ~barrier.arrived[mine]


def _kept_by_cluster(x: Wave, threads: np.ndarray) -> np.ndarray:
    """Threads come to their end. Those that have arrived in a phase that is not complete stay there (rule
    barrier.exit). The others exit.
    """
    if _BARRIERS.peek(x) is None:
        return threads
    for barrier in _barriers(x):
        if barrier.arrived.any():
            own = threads[(threads >= barrier.first) & (threads < barrier.own.stop)]
            arrived = own[barrier.arrived[own - barrier.first]]
            if arrived.size and barrier.missing(x).size:
                _keep(x, barrier, arrived)
    exits: np.ndarray = threads[x.pc[threads] >= EXITED]
    return exits


def _keep(x: Wave, barrier: ClusterBarrier, threads: np.ndarray) -> None:
    """Threads wait at their end."""
    i = x.program.blocks[x.at].instructions[-1]
    wait = x.park(threads, len(x.program.blocks), i, lambda: f"{barrier.describe(x)}. So these do not exit")
    wait.missing = lambda: barrier.missing(x)
    site = x.program.at(int(barrier.site[barrier.arrived][0]))
    mend = f"barrier.cluster.arrive in all threads of the cluster that have not exited; or without barrier.cluster.arrive of {site}"
    wait.suspicion = lambda: (0, mend)
    barrier.ends.append(wait)


BEFORE_EXIT.append(_kept_by_cluster)


def _arrived_of_cluster(x: Wave, own: slice) -> np.ndarray | None:
    """Which warps of a CTA have arrived in the current phase of the cluster's barrier; None if none has."""
    if _BARRIERS.peek(x) is None:
        return None
    barrier = _barriers(x)[own.start // (x.launch.cluster_size * x.stride)]
    arrived = barrier.arrived[own.start - barrier.first : own.stop - barrier.first]
    return arrived.reshape(-1, WARP).any(axis=1) if arrived.any() else None


def _exited_from_cluster(x: Wave, threads: np.ndarray) -> None:
    if _BARRIERS.peek(x) is not None:
        for barrier in _barriers(x):
            barrier.materialize(x)


ON_EXIT.append(_exited_from_cluster)


# ---- bar and barrier: threads of a CTA that wait for each other at one of its sixteen barriers (PTX ISA 9.1 §9.7.13.1)


class NamedBarrier:
    """One of a CTA's barriers in a phase with arrivals that is not complete."""

    def __init__(self, x: Wave, cta: Cta, number: int, count: int | None) -> None:
        self.cta, self.number, self.count = cta, number, count
        self.own = slice(cta.first, cta.first + x.stride)
        self.arrived = np.zeros(x.stride, bool)
        self.before = np.zeros(x.stride, np.int32)  # how often each thread has arrived before that in this phase
        self.site = np.zeros(x.stride, np.int32)  # of the instruction that each thread arrived with
        self.aligned = np.zeros(x.stride, bool)  # did it arrive by an instruction of its whole warp?
        self.late = np.zeros(x.stride, bool)  # had lanes of its warp exited before it came?
        self.holds, self.voted = 0, 0  # threads of .red, and those whose predicate holds
        self.waits: list[tuple[Wait, _Form]] = []
        self.untold: list[np.ndarray] = []  # threads that wait, and that are not reported to the sanitizer yet

    scope = CTA

    @property
    def key(self) -> tuple[str, int, int]:
        """The key by which observers know it."""
        return barrier_key(self.cta.index, self.number)

    @property
    def title(self) -> str:
        """The barrier as findings call it, by its number and its CTA."""
        return f"barrier {self.number} of CTA {self.cta.number}"

    def arrive(self, x: Wave, i: Instruction, threads: np.ndarray, count: int | None, *, waits: bool) -> None:
        """Threads arrive, and wait or do not."""
        own = threads - self.cta.first
        again = self.arrived[own]
        if waits:
            if again.any():
                self._check_first(x, own, again)
            self.before[own[again]] += 1
        elif again.any():
            thread = int(threads[int(np.flatnonzero(again)[0])])
            misuse(
                x, i, f"{thread_name(x, thread)} arrives at barrier {self.number} twice in one phase, first at "
                f"{x.program.at(int(self.site[thread - self.cta.first]))}", "let it wait for the phase (bar.sync) before it arrives again",
            )  # fmt: skip
        if self.count != count:
            misuse(
                x, i, f"barrier {self.number} is for {count or 'all'} threads here, and for {self.count or 'all'} where others have arrived in "
                f"this phase ({x.program.at(int(self.site[self.arrived][0]))})", "give every bar of the barrier the same thread count",
            )  # fmt: skip
        self.arrived[own], self.site[own], self.aligned[own] = True, i.site, i.op == "bar" or "aligned" in i.modifiers
        if have_parted(x):
            gone = np.asarray((x.pc[self.own] >= EXITED).reshape(-1, WARP).any(axis=1))
            self.late[own] = gone[own // WARP] & ~were_kept(x, threads)

    def _check_first(self, x: Wave, own: np.ndarray, again: np.ndarray) -> None:
        """X011 if only some lanes of a warp have arrived in this phase before, by an instruction of their whole warp.
        An H200 then counts the warp twice.
        """
        parted = np.intersect1d(own[again] // WARP, own[~again] // WARP)
        for warp in parted[np.isin(parted, own[again & self.aligned[own]] // WARP)].tolist():
            came, missing = (own[some & (own // WARP == warp)] for some in (again, ~again))
            first = _at(x, int(self.site[came[0]]))
            if first is not None:
                check_missing(x, first, self.cta.first + came, self.cta.first + missing)

    def room(self, x: Wave, i: Instruction, threads: np.ndarray, count: int | None, *, waits: bool) -> int:
        """How many of the threads, which arrive now, belong to this phase; if more whole warps come than it counts,
        they fill phases one after the other.

        X010 if the partners then depend on chance: if the others wait, or if some thread waits already. An H200 goes
        on then.
        """
        own = threads - self.cta.first
        warps, in_warps = np.unique(own >> 5, return_counts=True)
        if count is None or count != self.count or (in_warps != WARP).any() or (not waits and self.arrived[own].any()):
            return len(threads)
        came, left = self._counted(x), (count - self._counted(x)) // WARP
        if len(warps) <= left:
            return len(threads)
        if waits or self.waits:
            before = f" ({self._lines(x)})" if came else ""
            find_misuse(
                x, i, f"{came + len(threads)} threads have arrived at barrier {self.number}, which is for {count}{before}: which of them it releases together is undefined",
                "a barrier number for each group of warps, or another thread count",
            )  # fmt: skip
        return left * WARP

    def missing(self, x: Wave) -> np.ndarray:
        """Threads of the CTA that have not arrived, by their number in it."""
        return np.flatnonzero(~self.arrived & (x.pc[self.own] < EXITED))

    def is_complete(self, x: Wave, i: Instruction) -> bool:
        """Have all arrived, or as many as the count says?"""
        if self._holding(x).size:
            return False
        done = self.arrived | (x.pc[self.own] >= EXITED)
        if self.count is None:
            return bool(done.all())
        came = self._counted(x)
        if came > self.count:
            misuse(
                x,
                i,
                f"{came} threads have arrived at barrier {self.number}, which is for {self.count} ({self._lines(x)})",
                "correct the thread count",
            )
        return came == self.count

    def describe(self, x: Wave) -> str:
        """Which warps have arrived and which have not, for a report of a hang."""
        came = distinct(np.flatnonzero(self.arrived) // WARP).tolist()
        count = int(self.arrived.sum())
        text = f"{self.title}: {count} thread{'s have' if count != 1 else ' has'} arrived (warp{'s' * (len(came) > 1)} {_list(came)}, {self._lines(x)})"
        holding = self._holding(x).tolist()
        if holding:
            return f"{text}; lanes of warp {holding[0]} have exited before it arrives at barrier.cluster, where another warp has arrived"
        if self.count is not None:
            runs = distinct(np.flatnonzero(x.pc[self.own] < EXITED) // WARP).tolist()  # one lane may go on alone
            gone = distinct(np.flatnonzero(~self.arrived & (x.pc[self.own] >= EXITED)) // WARP).tolist()
            over = [warp for warp in gone if warp not in came and warp not in runs]
            ended = f"; warp{'s' * (len(over) > 1)} {_list(over)} ended without arriving" if over else ""
            return f"{text}; it is for {self.count}, so {self.count - self._counted(x)} more must come{ended}"
        return f"{text}, {len(self.missing(x))} have not"

    def _holding(self, x: Wave) -> np.ndarray:
        """The warps for which a barrier of several warps never completes (rule barrier.exit): some lanes had exited
        when the others came. The warp has not arrived at barrier.cluster, but another one has.
        """
        there = _arrived_of_cluster(x, self.own) if self.late.any() else None
        if there is None:
            return np.zeros(0, np.int64)
        come, late = (some.reshape(-1, WARP).any(axis=1) for some in (self.arrived, self.late))
        return np.flatnonzero(late & ~there) if (come & there).any() else np.zeros(0, np.int64)

    def _lines(self, x: Wave) -> str:
        """The lines of the instructions by which threads have arrived."""
        return x.program.at(*sorted(distinct(self.site[self.arrived]).tolist(), key=place_of))

    def came(self, x: Wave) -> int:
        """How many threads have arrived in this phase, as the barrier counts them."""
        return self._counted(x)

    def _counted(self, x: Wave) -> int:
        """Threads of whole warps that have arrived, those of a warp as often as it has."""
        times = np.where(self.arrived, self.before + 1, 0).reshape(-1, WARP)
        gone = (~self.arrived & (x.pc[self.own] >= EXITED)).reshape(-1, WARP)
        whole = np.where(gone, times.max(axis=1, keepdims=True), times).min(axis=1)
        return int(whole.sum()) * WARP


@dataclasses.dataclass(frozen=True)
class _Form:
    """The effect of an instruction besides its arrival: `red` with its operation, and the destination of the result."""

    waits: bool
    red: str = ""
    holds: Read | None = None
    write: Write | None = None


def _list(numbers: list[int]) -> str:
    return ranges(numbers) if numbers else "none"


def _open(x: Wave) -> dict[tuple[int, int], NamedBarrier]:
    """The barriers of the wave with arrivals in their current phase, by CTA and number."""
    return _OPEN(x)


_OPEN: Slot[dict[tuple[int, int], NamedBarrier]] = Slot(lambda x: {})


@implements("bar", "barrier")
def build_barrier(i: Instruction, c: Linker) -> Step:
    """All forms of `barrier` and of `bar`, which is `barrier.aligned`."""
    rest = [m for m in i.modifiers if m not in ("cta", "aligned")]
    if rest[:1] == ["warp"] and rest[1:] == ["sync"]:
        return bar_warp(i, c)
    if rest[:1] == ["cluster"]:
        return build_cluster(i, c)
    operands = list(i.operands)
    if rest == ["sync"]:
        form = _Form(True)
    elif rest == ["arrive"]:
        form = _Form(False)
    elif rest in (["red", "popc", "u32"], ["red", "and", "pred"], ["red", "or", "pred"]):
        form = _Form(True, rest[1], c.read(operands.pop(), "pred"), c.write(operands.pop(0), rest[2]))
    else:
        raise unmodelled(i)
    if not 1 + (rest == ["arrive"]) <= len(operands) <= 2:
        raise InputError("takes a barrier" + (" and a thread count" if rest == ["arrive"] else " and maybe a thread count"))
    _check_numbers(operands, is_arrive=rest == ["arrive"])
    run = _run(i, c.read(operands[0], "u32"), c.read(operands[1], "u32") if len(operands) == 2 else None, form)
    return End(run, again=keeps_lanes(i))


def _check_numbers(operands: list[Operand], *, is_arrive: bool) -> None:
    """InputError for a barrier or a count of threads that is written as a number, and is none that there is; ptxas
    13.0.88 refuses these.
    """
    number, count = (x.value % (1 << 32) if isinstance(x, Immediate) else None for x in (*operands, None)[:2])
    if number is not None and number >= CTA_BARRIERS:
        raise InputError(f"barrier {number}: a CTA has barriers 0 to {CTA_BARRIERS - 1}: ptxas refuses it")
    if count is not None and (count % WARP or (is_arrive and not count)):
        raise InputError(f"{count} threads: needs a multiple of {WARP}{' other than 0' * is_arrive}: ptxas refuses it")


def _numbers(x: Wave, i: Instruction, ids: np.ndarray) -> np.ndarray:
    """The barriers that registers name. For a number from 16 on an H200 makes no error; that its low bits count is
    inferred.
    """
    if any_set(ids >= CTA_BARRIERS):
        find_misuse(x, i, f"barrier {int(ids.max())}: a CTA has barriers 0 to {CTA_BARRIERS - 1}", "correct the operand")
        return ids % CTA_BARRIERS
    return ids


def _expected(x: Wave, i: Instruction, count: int) -> int | None:
    """The number of threads in a register. For 0 an H200 makes no error; that all threads count is inferred."""
    if count % WARP:
        misuse(x, i, f"{count} threads: needs a multiple of {WARP}", "correct the operand")
    if not count:
        find_misuse(x, i, f"0 threads: needs a multiple of {WARP}", "correct the operand")
    return count or None


def _run(i: Instruction, number: Read, count: Read | None, form: _Form) -> Callable[[Wave, int], None]:
    is_aligned, keeps = i.op == "bar" or "aligned" in i.modifiers, keeps_lanes(i)

    def run(x: Wave, following: int) -> None:
        if is_aligned:
            come(x, i)
        elif keeps and count is not None and not come_whole(x, i, number(x), count(x)):
            return
        ids = _numbers(x, i, np.asarray(number(x)))
        counts = None if count is None else np.asarray(count(x))
        x.jump(following)
        if ids.ndim == 0:
            check_parted(x, i, lambda key: key[0] == "barrier" and key[2] == int(ids))
        if form.waits and not form.red and ids.ndim == 0 and (counts is None or counts.ndim == 0):
            late = _latecomers(x, i, int(ids), None if counts is None else int(counts))
            if late is None:
                return
        else:
            late = np.arange(x.n)
        threads = x.threads[late]
        ids = np.broadcast_to(ids, (x.n,))[late]
        counts = None if counts is None else np.broadcast_to(counts, (x.n,))[late]
        holds = None if form.holds is None else np.broadcast_to(form.holds(x), (x.n,))[late]
        where = x.cta_of[threads] * 0x10000 + np.minimum(ids, 0xFFFF).astype(np.int64)
        of_all = []
        for place in distinct(where).tolist():
            mine = where == place
            cta, id_ = x.ctas[place >> 16], place & 0xFFFF
            expected = None if counts is None else _expected(x, i, int(counts[mine][0]))
            if not form.waits:
                _arrive_at(x, i, cta, id_, threads[mine], expected)
                continue
            for part in _as_they_come(x, i, threads, np.flatnonzero(mine), (cta, id_, expected)):
                barrier = _barrier(x, cta, id_, expected)
                if holds is not None:
                    barrier.holds += int(holds[part].sum())
                    barrier.voted += len(part)
                _wait_at(x, i, barrier, threads[part], expected, form, following)
                if expected is None:
                    of_all.append(barrier)
                else:
                    _settle(x, [barrier], i)
        _settle(x, of_all, i)

    return run


def _wait_at(
    x: Wave, i: Instruction, barrier: NamedBarrier, threads: np.ndarray, expected: int | None, form: _Form, following: int
) -> None:
    """Threads arrive and wait, for so many."""
    barrier.arrive(x, i, threads, expected, waits=True)
    _release(x, i, barrier, threads, waits=True)
    wait = x.park(threads, following, i, lambda: barrier.describe(x))
    wait.missing = lambda: barrier.cta.first + barrier.missing(x)
    wait.numbers = lambda: {"came": barrier.came(x)}
    barrier.waits.append((wait, form))


def _as_they_come(x: Wave, i: Instruction, threads: np.ndarray, some: np.ndarray, of: tuple[Cta, int, int | None]) -> Iterator[np.ndarray]:
    """The threads that arrive at a barrier at once and wait, by their numbers, phase by phase. A barrier of one warp is
    complete with each of them, in any order.
    """
    cta, number, count = of
    if count == WARP:
        yield from np.split(some, np.flatnonzero(np.diff(threads[some] // WARP)) + 1)
        return
    while len(some):
        now = _barrier(x, cta, number, count).room(x, i, threads[some], count, waits=True)
        yield some[:now]
        some = some[now:]


def _barrier(x: Wave, cta: Cta, number: int, count: int | None) -> NamedBarrier:
    """A barrier in its current phase."""
    barrier = _open(x).get((cta.index, number))
    if barrier is None:
        barrier = _open(x)[cta.index, number] = NamedBarrier(x, cta, number, count)
    return barrier


def _arrive_at(x: Wave, i: Instruction, cta: Cta, number: int, threads: np.ndarray, count: int | None) -> None:
    """Threads arrive and go on. Warps arrive one after the other: the barrier begins anew when it is complete, and
    those that come then count for the next phase.
    """
    while len(threads):
        barrier = _barrier(x, cta, number, count)
        now = threads[: barrier.room(x, i, threads, count, waits=False)]
        barrier.arrive(x, i, now, count, waits=False)
        _release(x, i, barrier, now, waits=False)
        _settle(x, [barrier], i)
        threads = threads[len(now) :]


def _release(x: Wave, i: Instruction, barrier: NamedBarrier, threads: np.ndarray, *, waits: bool) -> None:
    """Report the arrivals of threads to the sanitizer; of whole warps at a barrier of all threads when it is complete,
    since they do nothing before.
    """
    if barrier.count is None and are_whole_warps(threads):
        barrier.untold.append(threads)
        return
    if x.events.barrier_arrived:
        x.events.barrier_arrived(x, i, barrier, threads, waits=waits)


def _latecomers(x: Wave, i: Instruction, number: int, count: int | None) -> np.ndarray | None:
    """The running threads, by their place among them, whose barrier is not complete with the running threads alone;
    None: all are complete.

    The threads of complete barriers are reported to the sanitizer.
    """
    if number >= CTA_BARRIERS or count == 0:
        return np.arange(x.n)
    opened = [cta for cta, id_ in _open(x) if id_ == number]
    if not opened and x.n == x.total and count in (None, x.stride):
        if x.events.barrier_met:
            x.events.barrier_met(x, i, number, np.arange(len(x.ctas)), x.threads, count)
        _tell(x, x.threads, x.threads)
        return None
    here = np.bincount(x.cta_of[x.sel], minlength=len(x.ctas))
    alive = (x.pc < EXITED).reshape(len(x.ctas), -1).sum(axis=1)
    complete = (here > 0) & (here == (alive if count is None else count))
    if count is not None:  # in whole warps
        warps = np.bincount(x.threads >> 5, minlength=x.total >> 5)
        complete &= ((warps == 0) | (warps == WARP)).reshape(len(x.ctas), -1).all(axis=1)
    complete[opened] = False
    if have_parted(x) and _BARRIERS.peek(x) is not None:  # lanes that have exited may hold it up
        complete &= alive == x.stride
    if x.events.barrier_met and complete.any():
        x.events.barrier_met(x, i, number, np.flatnonzero(complete), x.threads[complete[x.cta_of[x.sel]]], count)
    late = ~complete[x.cta_of[x.sel]]
    _tell(x, x.threads[~late], x.threads[~late])
    return np.flatnonzero(late) if late.any() else None


def _settle(x: Wave, barriers: list[NamedBarrier], i: Instruction) -> None:
    """Wake all threads that wait at barriers whose phase is complete."""
    over = [barrier for barrier in barriers if barrier.is_complete(x, i)]
    for barrier in over:
        del _open(x)[barrier.cta.index, barrier.number]
        sites = np.where(barrier.arrived, barrier.site, 0)
        check_aligned(x, i, barrier.title, barrier.cta.first, sites, barrier.aligned)
        if barrier.count is not None:  # a barrier without a count waits for every thread
            _check_whole(x, i, barrier)
        if any(form.red for _, form in barrier.waits):
            _check_reduction(x, barrier, sites)
        if barrier.count is None:
            note_parted(x, barrier.key, barrier.title, barrier.cta.first, sites)
        if barrier.waits:
            _tell(x, barrier.cta.first + np.flatnonzero(barrier.arrived), np.concatenate([wait.threads for wait, _ in barrier.waits]))
    _meet(x, over)
    kept = x.sel
    for barrier in over:
        for wait, form in barrier.waits:
            if form.write is not None:
                result = {"popc": np.uint32(barrier.holds), "and": barrier.holds == barrier.voted, "or": barrier.holds > 0}[form.red]
                x.select(wait.threads)
                form.write(x, result)
                x.select(kept)
            x.wake(wait)


def _check_whole(x: Wave, i: Instruction, barrier: NamedBarrier) -> None:
    """X011 if only some lanes of a warp are in the phase, which is complete without it, by an aligned instruction."""
    by_warp = (barrier.arrived & barrier.aligned).reshape(-1, WARP)
    gone = (x.pc[barrier.own] >= EXITED).reshape(-1, WARP)
    missing = ~(barrier.arrived.reshape(-1, WARP) | gone)
    for warp in np.flatnonzero(by_warp.any(axis=1) & missing.any(axis=1)).tolist():
        first = barrier.cta.first + warp * WARP
        came = np.flatnonzero(by_warp[warp])
        own = _at(x, int(barrier.site[warp * WARP + came[0]])) or i
        check_missing(x, own, first + came, first + np.flatnonzero(missing[warp]))


def _check_reduction(x: Wave, barrier: NamedBarrier, sites: np.ndarray) -> None:
    """X010 if threads arrive in one phase by `barrier.red`, and others by `barrier.sync`, `barrier.arrive` or another
    reduction: that is unpredictable (PTX ISA 9.1 §9.7.13.1). The kernel ends, as on an H200.
    """
    came = [(wait.instruction, wait.threads - barrier.cta.first) for wait, _ in barrier.waits]
    left = sites.copy()  # of threads that arrive and do not wait
    left[np.concatenate([threads for _, threads in came])] = 0
    came += [(i, np.flatnonzero(left == i.site)) for site in distinct(left[left > 0]).tolist() if (i := _at(x, site, "arrive")) is not None]
    red = next(i for i, _ in came if "red" in i.modifiers)
    other = next((i for i, _ in came if _reduces(i) != _reduces(red)), None)
    if other is None:
        return
    halves = [(i, np.concatenate([threads for one, threads in came if one is i])) for i in (red, other)]
    what = f"{barrier.title}: threads execute {red.name}, and others {other.name}, in one phase of the barrier"
    x.launch.find(
        "X010", red, what, f"let all threads of the barrier execute {red.at}, or use another barrier number there",
        halves=tuple(Half("arrive", _warps(x, distinct((barrier.cta.first + threads) // WARP).tolist()), i) for i, threads in halves),
        why="the PTX ISA calls this unpredictable; a test program on an H200 ended with error 715", because="PTX ISA 9.1 §9.7.13.1",
    )  # fmt: skip
    raise HardwareTrap(what, cuda_error=ILLEGAL_INSTRUCTION, is_told=True)


def _reduces(i: Instruction) -> str:
    """The type of the result of `barrier.red`; "" for another barrier instruction."""
    return i.modifiers[-1] if "red" in i.modifiers else ""


def _meet(x: Wave, barriers: list[NamedBarrier]) -> None:
    """Report to the sanitizer that phases are complete: warps that were not reported yet meet."""
    whole = [barrier for barrier in barriers if barrier.untold and len(barrier.untold) == len(barrier.waits)]
    if whole and x.events.barrier_met:
        threads = np.concatenate([threads for barrier in whole for threads in barrier.untold])
        i = whole[0].waits[0][0].instruction
        x.events.barrier_met(x, i, whole[0].number, np.array([barrier.cta.index for barrier in whole]), threads, None)
    for barrier in barriers:
        if barrier in whole:
            continue
        for threads in barrier.untold if x.events.barrier_arrived else ():
            x.events.barrier_arrived(x, barrier.waits[0][0].instruction, barrier, threads)
        if x.events.barrier_completed:
            x.events.barrier_completed(x, barrier)
        for wait, _ in barrier.waits if x.events.barrier_passed else ():
            x.events.barrier_passed(x, wait.instruction, barrier, wait.threads)


def _are_left(x: Wave, barrier: NamedBarrier) -> None:
    """Threads of the CTA have exited: do others of their warps wait at an aligned barrier that these have branched
    around?
    """
    waiting = np.flatnonzero(barrier.arrived & barrier.aligned)
    for site in distinct(barrier.site[waiting]).tolist():
        ends = ((n, i) for n, block in enumerate(x.program.blocks) for i in block.instructions[-1:])
        # of a function each of its copies
        there = [(n, i) for n, i in ends if i.site == site and i.op in ("bar", "barrier")]
        if there:
            check_skipped(x, there[0][1], [n for n, _ in there], barrier.cta.first + waiting[barrier.site[waiting] == site])


def _exited_from_cta(x: Wave, threads: np.ndarray) -> None:
    """Threads have exited: barriers for all threads of the CTA no longer wait for them."""
    note_exits(x, threads, is_awaited=bool(_open(x)))
    if not _open(x):
        return
    ctas = set(distinct(x.cta_of[threads]).tolist())
    for barrier in [b for b in _open(x).values() if b.cta.index in ctas]:
        if have_parted(x):
            _are_left(x, barrier)
        _settle(x, [barrier], x.program.blocks[x.at].instructions[-1])


ON_EXIT.append(_exited_from_cta)
