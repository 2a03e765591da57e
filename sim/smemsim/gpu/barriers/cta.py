"""bar and barrier: threads of a CTA that wait for each other at one of its sixteen barriers (PTX ISA 9.7.13.1).

Without a thread count a barrier is for all threads of the CTA that have not exited. With one it counts whole warps, 32 each, a warp once all of
its threads that have not exited have arrived. A warp that has arrived by `.arrive` and comes to wait in the same phase counts once more
(`smemsim.RULES["barrier.arrive_sync"]`): of several warps that fill a tile all arrive, and one of them waits for them and stores it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from smemsim.errors import InputError
from smemsim.gpu.barriers.cluster import build_cluster
from smemsim.gpu.barriers.parted import check_aligned, check_parted, note_parted
from smemsim.gpu.registers import Read, Write
from smemsim.gpu.registry import ON_EXIT, End, Step, implements, unmodelled
from smemsim.gpu.traps import misuse, thread_name
from smemsim.gpu.warps import bar_warp
from smemsim.gpu.wave import EXITED, WARP, Cta, Wait
from smemsim.ptx.module import Instruction
from smemsim.spec.barriers import CTA_BARRIERS

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Wave

__all__ = ["NamedBarrier"]


class NamedBarrier:
    """One of a CTA's barriers in a phase that somebody has arrived in and that is not complete."""

    def __init__(self, x: Wave, cta: Cta, number: int, count: int | None) -> None:
        self.cta, self.number, self.count = cta, number, count
        self.own = slice(cta.first, cta.first + x.stride)
        self.arrived = np.zeros(x.stride, bool)
        self.before = np.zeros(x.stride, np.int32)  # how often each thread has arrived before that in this phase
        self.line = np.zeros(x.stride, np.int32)  # of the instruction that each thread arrived with
        self.aligned = np.zeros(x.stride, bool)  # did it arrive by an instruction of its whole warp?
        self.holds, self.voted = 0, 0  # threads of .red, and those whose predicate holds
        self.waits: list[tuple[Wait, _Form]] = []

    @property
    def key(self) -> tuple[str, int, int]:
        """What the watch knows it by."""
        return "barrier", self.cta.index, self.number

    @property
    def title(self) -> str:
        """What a kernel author knows it by."""
        return f"barrier {self.number} of CTA {self.cta.number}"

    def arrive(self, x: Wave, i: Instruction, threads: np.ndarray, count: int | None, *, waits: bool) -> None:
        """Threads arrive, and wait or do not."""
        own = threads - self.cta.first
        again = self.arrived[own]
        if waits:
            self.before[own[again]] += 1
        elif again.any():
            thread = int(threads[int(np.flatnonzero(again)[0])])
            misuse(
                x, i, f"{thread_name(x, thread)} arrives at barrier {self.number} twice in one phase, first at line "
                f"{int(self.line[thread - self.cta.first])}", "let it wait for the phase (bar.sync) before it arrives again",
            )  # fmt: skip
        if self.count != count:
            misuse(
                x, i, f"barrier {self.number} is for {count or 'all'} threads here, and for {self.count or 'all'} where others have arrived in "
                f"this phase (line {int(self.line[self.arrived][0])})", "give every bar of the barrier the same thread count",
            )  # fmt: skip
        self.arrived[own], self.line[own], self.aligned[own] = True, i.line, i.op == "bar" or "aligned" in i.modifiers

    def missing(self, x: Wave) -> np.ndarray:
        """Threads of the CTA that have not arrived, by their number in it."""
        return np.flatnonzero(~self.arrived & (x.key[self.own] < EXITED))

    def is_complete(self, x: Wave, i: Instruction) -> bool:
        """Have all arrived, or as many as the count says?"""
        done = self.arrived | (x.key[self.own] >= EXITED)
        if self.count is None:
            return bool(done.all())
        came = self._counted(x)
        if came > self.count:
            misuse(
                x,
                i,
                f"{came} threads have arrived at barrier {self.number}, which is for {self.count} ({self._lines()})",
                "correct the thread count",
            )
        return came == self.count

    def describe(self, x: Wave) -> str:
        """Who has come and who has not, for a report of a hang."""
        came = np.unique(np.flatnonzero(self.arrived) // WARP).tolist()
        text = f"{self.title}: {int(self.arrived.sum())} threads have arrived (warps {_list(came)}, {self._lines()})"
        if self.count is not None:
            return f"{text}; it is for {self.count}, so {self.count - self._counted(x)} more must come"
        return f"{text}, {len(self.missing(x))} have not"

    def _lines(self) -> str:
        """The lines of the instructions by which threads have arrived."""
        lines = np.unique(self.line[self.arrived]).tolist()
        return f"line{'s' * (len(lines) > 1)} {_list(lines)}"

    def _counted(self, x: Wave) -> int:
        """Threads of whole warps that have arrived, those of a warp as often as it has."""
        times = np.where(self.arrived, self.before + 1, 0).reshape(-1, WARP)
        gone = (~self.arrived & (x.key[self.own] >= EXITED)).reshape(-1, WARP)
        whole = np.where(gone, times.max(axis=1, keepdims=True), times).min(axis=1)
        return int(whole.sum()) * WARP


@dataclasses.dataclass(frozen=True)
class _Form:
    """What an instruction does besides arriving: `red` with its operation, where the result goes."""

    waits: bool
    red: str = ""
    holds: Read | None = None
    write: Write | None = None


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:12])) + (" ..." if len(numbers) > 12 else "") if numbers else "none"


def _open(x: Wave) -> dict[tuple[int, int], NamedBarrier]:
    """The barriers of the wave that somebody has arrived at, by CTA and number."""
    found: dict[tuple[int, int], NamedBarrier] = x.state.setdefault("barriers", {})
    return found


@implements("bar", "barrier")
def build_barrier(i: Instruction, c: Linker) -> Step:
    """All forms; `bar` is `barrier.aligned`."""
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
    return End(_run(i, c.read(operands[0], "u32"), c.read(operands[1], "u32") if len(operands) == 2 else None, form))


def _run(i: Instruction, number: Read, count: Read | None, form: _Form) -> Callable[[Wave, int], None]:
    def run(x: Wave, following: int) -> None:
        ids = np.asarray(number(x))
        counts = None if count is None else np.asarray(count(x))
        x.key[x.sel] = following
        if ids.ndim == 0:
            check_parted(x, i, lambda key: key[0] == "barrier" and key[2] == int(ids))
        if form.waits and not form.red and ids.ndim == 0 and (counts is None or counts.ndim == 0):
            late = _latecomers(x, int(ids), None if counts is None else int(counts))
            if late is None:
                return
        else:
            late = np.arange(x.n)
        threads = x.threads[late]
        ids = np.broadcast_to(ids, (x.n,))[late]
        counts = None if counts is None else np.broadcast_to(counts, (x.n,))[late]
        holds = None if form.holds is None else np.broadcast_to(form.holds(x), (x.n,))[late]
        where = x.cta_of[threads] * 0x10000 + np.minimum(ids, 0xFFFF).astype(np.int64)
        for place in np.unique(where).tolist():
            mine = where == place
            cta, id_ = x.ctas[place >> 16], place & 0xFFFF
            expected = None if counts is None else int(counts[mine][0])
            if id_ >= CTA_BARRIERS or (expected is not None and (expected % WARP or not expected)):
                which = f"barrier {id_}: a CTA has barriers 0 to {CTA_BARRIERS - 1}"
                misuse(x, i, which if id_ >= CTA_BARRIERS else f"{expected} threads: needs a multiple of {WARP}", "correct the operand")
            barrier = _open(x).get((cta.index, id_))
            if barrier is None:
                barrier = _open(x)[cta.index, id_] = NamedBarrier(x, cta, id_, expected)
            barrier.arrive(x, i, threads[mine], expected, waits=form.waits)
            if holds is not None:
                barrier.holds += int(holds[mine].sum())
                barrier.voted += int(mine.sum())
            if x.watch is not None:
                x.watch.release(x, threads[mine], barrier.key)
            if form.waits:
                wait = x.park(threads[mine], following, i, lambda b=barrier: b.describe(x))  # type: ignore[misc]
                wait.missing = lambda b=barrier: b.cta.first + b.missing(x)
                barrier.waits.append((wait, form))
            _settle(x, barrier, i)

    return run


def _latecomers(x: Wave, number: int, count: int | None) -> np.ndarray | None:
    """The running threads, by their place among them, whose barrier is not complete with just those that run; None: all are.

    The watch is told of those that are.
    """
    if number >= CTA_BARRIERS or count == 0:
        return np.arange(x.n)
    opened = [cta for cta, id_ in _open(x) if id_ == number]
    if not opened and x.n == x.total and count in (None, x.stride):
        complete = np.ones(len(x.ctas), bool)
    else:
        here = np.bincount(x.cta_of[x.sel], minlength=len(x.ctas))
        alive = (x.key < EXITED).reshape(len(x.ctas), -1).sum(axis=1)
        complete = (here > 0) & (here == (alive if count is None else count))
        if count is not None:  # in whole warps
            warps = np.bincount(x.threads >> 5, minlength=x.total >> 5)
            complete &= ((warps == 0) | (warps == WARP)).reshape(len(x.ctas), -1).all(axis=1)
        complete[opened] = False
    if x.watch is not None and complete.any():
        x.watch.meet(x, np.flatnonzero(complete), is_for_all=count is None)
    late = ~complete[x.cta_of[x.sel]]
    return np.flatnonzero(late) if late.any() else None


def _settle(x: Wave, barrier: NamedBarrier, i: Instruction) -> None:
    """If the phase is complete let everybody go."""
    if not barrier.is_complete(x, i):
        return
    del _open(x)[barrier.cta.index, barrier.number]
    lines = np.where(barrier.arrived, barrier.line, 0)
    check_aligned(x, i, barrier.title, barrier.cta.first, lines, barrier.aligned)
    if barrier.count is None:
        note_parted(x, barrier.key, barrier.title, barrier.cta.first, lines)
    if x.watch is not None:
        if barrier.count is None:
            x.watch.left(x, barrier.own, barrier.key)
        x.watch.complete(barrier.key)
    kept = x.sel
    for wait, form in barrier.waits:
        if x.watch is not None:
            x.watch.acquire(x, wait.threads, barrier.key, meets=True)
        if form.write is not None:
            result = {"popc": np.uint32(barrier.holds), "and": barrier.holds == barrier.voted, "or": barrier.holds > 0}[form.red]
            x.select(wait.threads)
            form.write(x, result)
            x.select(kept)
        x.wake(wait)


def _exited(x: Wave, threads: np.ndarray) -> None:
    """Barriers for all threads do not wait for those that are gone."""
    if not _open(x):
        return
    ctas = set(np.unique(x.cta_of[threads]).tolist())
    for barrier in [b for b in _open(x).values() if b.cta.index in ctas]:
        _settle(x, barrier, x.program.blocks[x.at].instructions[-1])


ON_EXIT.append(_exited)
