"""Notes about an mbarrier's history for waits and findings: arrivals, expected bytes, bytes that came and their copies,
and threads that have passed. The hardware keeps none of it.
"""

from __future__ import annotations

import collections
import copy
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction
from smemsim.run.async_ops import Delivery
from smemsim.run.isa.barriers import loops
from smemsim.run.isa.barriers.byte_rounds import Event, Phase, Round, noted, rounds_of
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave

__all__ = ["Arrivals", "Bytes", "Deliveries", "Passed"]


N = TypeVar("N", bound="_Notes")


class _Notes:
    """Part of a history, which CTAs share until one of them deviates."""

    def copy(self: N) -> N:
        """The same for a CTA that deviates."""
        own = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (dict, list, set, np.ndarray)):
                setattr(own, name, value.copy())
        return own


class Arrivals(_Notes):
    """The arrivals at an mbarrier. Threads and warps are those of the cluster, CTAs are ranks."""

    def __init__(self) -> None:
        self.warps: set[int] = set()
        # threads (of those that arrive together the first of each warp, and the last), in the current phase
        self.now: set[int] = set()
        self.rounds: list[set[int]] = []  # the same of the last phases that have ended
        self.by_site: dict[tuple[int, int], int] = {}  # how many, by site and by the CTA that arrives

    def come(self, x: Wave, threads: np.ndarray, i: Instruction, count: int, first: int) -> None:
        """Threads arrive `count` times each; `first` is the index of the cluster's first CTA."""
        begin = x.stride * first
        ends = {int(threads[0]) - begin, int(threads[-1]) - begin}
        if threads[-1] // WARP - threads[0] // WARP > 1:  # the warps between, too: a report of a hang names them
            ends.update((distinct(threads[1:-1] // WARP) * WARP - begin).tolist())
        self.warps.update(end // WARP for end in ends)
        self.now |= ends
        of_first, of_last = int(x.cta_of[threads[0]]), int(x.cta_of[threads[-1]])
        of_ctas = {of_first: len(threads)} if of_first == of_last else collections.Counter(x.cta_of[threads].tolist())
        for index, its in of_ctas.items():
            by = i.site, index - first
            self.by_site[by] = self.by_site.get(by, 0) + count * its

    def end_phase(self) -> None:
        """A phase is over."""
        self.rounds, self.now = [*self.rounds[-1:], self.now], set()

    @property
    def run_ahead(self) -> bool:
        """Did the same threads arrive in the last two phases?"""
        return len(self.rounds) > 1 and self.rounds[0] == self.rounds[1] != set()


class Bytes(_Notes):
    """The expected bytes, and those that came."""

    def __init__(self) -> None:
        self.expected, self.brought = 0, 0  # bytes, of all phases
        self.expecting: dict[int, tuple[Instruction, int]] = {}  # by site: the first expectation, and how much
        self.events: list[Event] = []  # of the current phase: what was expected, and what came
        self.phases: list[Phase] = []  # the same of the phases that are over
        self.of_phase: set[tuple[int, int]] = set()  # expected in the current phase: site and bytes
        self.came: set[tuple[int, int]] = set()  # of phases that have ended: these came

    def expect(self, i: Instruction, size: int) -> None:
        """An instruction expects bytes."""
        self.expected += size
        self.expecting.setdefault(i.site, (i, size))
        self.events.append(Event(i, size, None))
        self.of_phase.add((i.site, size))

    def come(self, i: Instruction, size: int, by: Delivery | None) -> None:
        """An instruction, or its copy, brings bytes."""
        self.events.append(Event(i, size, (i.line, 0) if by is None else (by.to, by.begin)))
        self.brought += size

    def end_phase(self, phase: int) -> None:
        """A phase is over."""
        if self.expecting or self.events:
            noted(self.phases, phase, self.events)
            self.events = []
        self.came |= self.of_phase
        self.of_phase = set()

    def rounds(self, phase: int) -> list[Round]:
        """The expected bytes and those that came, by phase, up to the current one."""
        return rounds_of(self.phases, phase, self.events)


class Deliveries(_Notes):
    """The copies that have brought bytes."""

    def __init__(self) -> None:
        self.sources: dict[tuple[int, int], Delivery] = {}  # the first delivery of each copy, by its key
        self.now: list[Delivery] = []  # of the current phase
        self.last: list[Delivery] = []  # of the phase before
        # Since bytes were last expected: by where they go, with the phase.
        self.since_expected: dict[tuple[int, int], tuple[int, Delivery]] = {}
        # Two that bring the same bytes for one expectation in one phase, the first time; the same where a phase has
        # ended between.
        self.doubled: tuple[Delivery, Delivery] | None = None
        self.repeated: tuple[Delivery, Delivery] | None = None

    def bring(self, by: Delivery, phase: int) -> None:
        """Remember a delivery. One that brings bytes again that came for the same expectation is one too many, or
        early.
        """
        before, again = self.since_expected.setdefault((by.to, by.begin), (phase, by))
        adds = "reduce" in by.instruction.modifiers  # into the same bytes, again and again
        if again is not by and before == phase and not adds:
            self.doubled = self.doubled or (again, by)
        elif again is not by and not adds:
            self.repeated = self.repeated or (again, by)
        self.send(by)
        self.now.append(by)

    def send(self, by: Delivery) -> None:
        """Remember which copy it is."""
        self.sources.setdefault(by.key, by)

    def end_phase(self) -> None:
        """A phase is over."""
        self.last, self.now = self.now, []


class Passed(_Notes):
    """The waits that have passed, and the threads that wait for a phase which they have missed."""

    def __init__(self) -> None:
        self.seen = 0  # phases that had ended when a wait last passed
        self.asked = -1  # the phase that a wait or test last found not to be over
        self.at_first: dict[int, Instruction] = {}  # by site: waits that passed before the first phase had ended
        self.by_thread = np.zeros(0, np.int32)  # of the CTA: its next phase, if it leaves none out
        self.missed: np.ndarray | None = None  # threads that have missed the phase that they wait for

    def passes(self, i: Instruction, phase: int, tid: np.ndarray, parity: np.ndarray, done: np.ndarray) -> int:
        """A wait of threads of the CTA for the end of phases of these parities, while `phase` runs: for which is it
        over (`done`)? Before the first phase those of parity 1 are so at once. Returns how many there are.
        """
        if self.missed is not None:
            done[:] = self.takes_missed(tid)
        if len(self.by_thread) <= (most := int(tid.max())):
            self.by_thread = np.pad(self.by_thread, (0, (most // WARP + 1) * WARP - len(self.by_thread)))
        count: int = loops.pass_phase(tid, parity, phase & 1, phase, self.by_thread, done)
        if count:
            self.seen = phase
            if not phase:
                self.at_first.setdefault(i.site, i)
        return count

    def misses(self, phase: int, tid: np.ndarray) -> np.ndarray:
        """No thread can go on, and threads wait for `phase`, which runs. Which of them wait because other lanes of
        their warp, which had passed the phase of the same parity before, were ahead? They have missed a phase. Lanes
        that hardware runs side by side do not (Mosaic GPU: one lane multiplies, all of them wait).
        """
        if int(tid[-1]) >= len(self.by_thread):
            return np.zeros(len(tid), bool)
        of_warp = self.by_thread.reshape(-1, WARP).max(axis=1)[tid // WARP]
        own = self.by_thread[tid]
        first = own + ((own ^ phase) & 1)  # the phase that a thread waits for, if none is left out
        late: np.ndarray = (first < of_warp) & (first < phase)
        if late.any():
            self.missed = tid[late] if self.missed is None else np.union1d(self.missed, tid[late])
        return late

    def takes_missed(self, tid: np.ndarray) -> np.ndarray:
        """Which threads have missed a phase; each is returned once."""
        missed = tid[:0] if self.missed is None else self.missed
        left = np.setdiff1d(missed, tid)
        self.missed = left if len(left) else None
        return np.isin(tid, missed)
