"""Mbarrier objects (PTX ISA 9.7.13.15): 64 bits of shared memory that count arrivals and bytes, phase after phase.

PTX leaves open what the 64 bits look like. Here: pending arrivals in 19:0, expected ones in 39:20, bytes still to come in 61:40 (two's complement),
the parity of the phase in 63; a phase token is that word as it was before the arrival.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.gpu.barriers.suspicion import lends, missing_arrivals, suspicion, twice, unexpected, wrong_delivery
from smemsim.gpu.launch import Touched
from smemsim.gpu.traps import misuse
from smemsim.gpu.wave import THREADS, WARP, Cta, Wait
from smemsim.ptx.module import Instruction
from smemsim.spec.barriers import MBARRIER_ARRIVALS, MBARRIER_BYTES, MBARRIER_SIZE
from smemsim.spec.findings import Severity

if TYPE_CHECKING:
    from smemsim.gpu.watching.handles import Operation
    from smemsim.gpu.wave import Wave

__all__ = [
    "Delivery",
    "Mbarrier",
    "check_reused",
    "current",
    "initialise",
    "invalidate",
    "mbarrier_of",
    "mbarriers",
    "parity_of",
    "pending_of",
]

KEPT = 6  # lines remembered for a report
LIVES = "PTX ISA 9.7.13.15.9, 9.7.13.15.10: its bytes are nothing else before mbarrier.inval"


@dataclasses.dataclass(frozen=True)
class Delivery:
    """What an asynchronous copy brings to one CTA: `size` bytes from `begin` on (a `.shared` address without the rank) in CTA `to`.

    `issuer` is the CTA whose thread issued it, `reached` the ranks of all CTAs of the cluster that it goes to. Of a pair (.cta_group::2) the bytes
    may lie in another CTA than the mbarrier that counts them.
    """

    instruction: Instruction
    issuer: Cta
    to: Cta
    begin: int
    size: int
    reached: tuple[int, ...]

    @property
    def key(self) -> tuple[int, int]:
        """Which copy it is: the line, and the CTA that issued it."""
        return self.instruction.line, self.issuer.index

    @property
    def mask(self) -> int:
        """`reached` as the operand of .multicast::cluster."""
        return sum(1 << rank for rank in self.reached)

    @property
    def is_multicast(self) -> bool:
        """Has it a mask?"""
        return any(m.startswith("multicast") for m in self.instruction.modifiers)


class Mbarrier:
    """A barrier at `offset` (a `.shared` address without the rank) of a CTA.

    `phase` counts complete phases; `pending` arrivals and `tx` bytes are left of the current one, which is complete when both are 0.
    """

    def __init__(self, cta: Cta, offset: int, count: int, place: int, made: Instruction) -> None:
        self.cta, self.offset, self.place, self.made = cta, offset, place, made
        self.phase, self.expected, self.pending, self.tx = 0, count, count, 0
        self.waits: list[tuple[Wait, int]] = []  # with the phase that each waits for
        self.all_expected, self.all_brought = 0, 0  # bytes, of all phases
        self.bringing: dict[int, int] = {}  # by line: bytes, the first time
        self.expecting: dict[int, tuple[Instruction, int]] = {}  # by line: who said so, and how much
        self.of_phase: set[tuple[int, int]] = set()  # of the current phase: line and bytes
        self.came: set[tuple[int, int]] = set()  # of phases that have ended: these came
        self.seen = 0  # phases that had ended when a wait last passed
        self.asked = -1  # the phase that a wait or test last found not to be over
        self.passed: dict[int, Instruction] = {}  # by line: waits that passed before the first phase had ended
        self.arrived_from: set[int] = set()  # warps of the wave
        self.arrivals: dict[tuple[int, int], int] = {}  # how many, by line and by the CTA (index) that arrives
        self.sources: dict[tuple[int, int], Delivery] = {}  # the first delivery of each copy, by its key
        self.deliveries: list[Delivery] = []  # of the current phase
        self.last: list[Delivery] = []  # of the phase before
        self.since_expected: dict[
            tuple[int, int], tuple[int, Delivery]
        ] = {}  # since bytes were last expected: by where they go, with the phase
        self.copies: list[Operation] = []  # that complete on this phase or the one before, as the watch knows them
        self.doubled: tuple[Delivery, Delivery] | None = (
            None  # two that bring the same bytes for one expectation in one phase, the first time
        )
        self.repeated: tuple[Delivery, Delivery] | None = None  # the same where a phase has ended between
        self.done: dict[str, dict[int, str]] = {"arrives": {}, "expects bytes": {}, "brings bytes": {}}  # instructions by line

    @property
    def parity(self) -> int:
        """Of the current phase, 0 of the first."""
        return self.phase & 1

    @property
    def is_late(self) -> bool:
        """Do bytes miss that came in an earlier phase, for the same expectation?"""
        return self.tx > 0 and self.of_phase <= self.came

    @property
    def word(self) -> int:
        """The 64 bits."""
        return self.pending | self.expected << 20 | (self.tx & 0x3FFFFF) << 40 | self.parity << 63

    def __repr__(self) -> str:
        return (
            f"<Mbarrier {self.offset:#x} of CTA {self.cta.number}: phase {self.phase}, {self.pending} arrivals and {self.tx} bytes pending>"
        )

    # ---- what happens to it

    def arrive(
        self, x: Wave, threads: np.ndarray, count: int = 1, *, i: Instruction | None = None, release: bool = True, relaxed: bool = False
    ) -> np.ndarray:
        """Each of the threads arrives `count` times; a phase that is complete by that ends, and the next begins. Returns their tokens.

        `threads` are those of the wave that the watch is told of; the arrival of an asynchronous operation is one of the thread that issued it.
        """
        i = i or current(x)
        self._note("arrives", i)
        if len(threads):  # of warps that arrive together two are enough to tell
            self.arrived_from |= set((threads[[0, -1]] // WARP).tolist())
            self._count_arrivals(x, threads, i, count)
        if x.watch is not None:
            if x.watch.lifetimes.is_needed:
                x.watch.lifetimes.touch(i, self.cta.index, np.unique(threads // WARP))
            if release:
                x.watch.release(x, threads, self, relaxed=relaxed)
        tokens = np.empty(len(threads), np.uint64)
        done, step = 0, count
        while done < len(threads):
            if step > self.pending:
                misuse(
                    x, i, f"{step} arrivals at the mbarrier at {self.offset:#x} of CTA {self.cta.number}, of whose phase only {self.pending} are "
                    "left", f"mbarrier.init says {self.expected} arrivals a phase: correct it, or let fewer threads arrive",
                )  # fmt: skip
            steps = min(len(threads) - done, self.pending // step)
            tokens[done : done + steps] = np.uint64(self.word) - np.arange(0, steps * step, step, dtype=np.uint64)
            self.pending -= steps * step
            done += steps
            phase = self.phase
            self._settle(x)
            if self.phase != phase and done < len(threads) and threads[done - 1] // WARP == threads[done] // WARP:
                self._is_split(x, i)
        self._changed(x)
        return tokens

    def _is_split(self, x: Wave, i: Instruction) -> None:
        """One instruction of a warp ends a phase with some of its lanes, and the others count in the next one: who waits goes on without these."""
        x.launch.find(
            "X010", i, f"{i.name}: the lanes of one warp arrive in two phases of the mbarrier at {self.offset:#x} of CTA {self.cta.number}: some are "
            f"the last of phase {self.phase - 1}, the others count in the next one, and who waits does not wait for them",
            f"mbarrier.init says {self.expected} arrivals a phase: correct it, or let fewer threads arrive", because="PTX ISA 9.7.13.15",
            milder=Severity.WRONG,
        )  # fmt: skip

    def _count_arrivals(self, x: Wave, threads: np.ndarray, i: Instruction, count: int) -> None:
        """Remember which CTAs arrive by which line."""
        first, last = int(x.cta_of[threads[0]]), int(x.cta_of[threads[-1]])
        ctas = [first] * len(threads) if first == last else x.cta_of[threads].tolist()
        for cta in set(ctas):
            self.arrivals[i.line, cta] = self.arrivals.get((i.line, cta), 0) + count * ctas.count(cta)

    def expect_tx(self, x: Wave, size: int, *, i: Instruction | None = None) -> None:
        """The current phase also waits for `size` bytes."""
        self.since_expected = {}
        i = i or current(x)
        self._note("expects bytes", i)
        self.all_expected += size
        self.expecting.setdefault(i.line, (i, size))
        self.of_phase.add((i.line, size))
        self.tx += size
        self._check_tx(x, i)
        self._settle(x)
        self._changed(x)

    def complete_tx(self, x: Wave, size: int, *, i: Instruction | None = None, by: Delivery | None = None) -> None:
        """`size` bytes have come; `by` says by which copy, and where they lie."""
        i = i or current(x)
        if by is not None:
            self._brought(by)
        self._note("brings bytes", i)
        self.bringing.setdefault(i.line, size)
        self.all_brought += size
        self.tx -= size
        self._check_tx(x, i)
        self._settle(x)
        self._changed(x)

    def _brought(self, by: Delivery) -> None:
        """Remember a delivery. One that brings bytes again that came for the same expectation is one too many, or early."""
        phase, again = self.since_expected.setdefault((by.to.index, by.begin), (self.phase, by))
        adds = "reduce" in by.instruction.modifiers  # into the same bytes, again and again
        if again is not by and phase == self.phase and not adds:
            self.doubled = self.doubled or (again, by)
        elif again is not by and not adds:
            self.repeated = self.repeated or (again, by)
        self.sources.setdefault(by.key, by)
        self.deliveries.append(by)

    def drop(self, x: Wave, count: int, i: Instruction) -> None:
        """`count` arrivals fewer from the next phase on; the arrival itself comes next."""
        if count > self.expected:
            misuse(x, i, f"{count} of {self.expected} arrivals dropped at the mbarrier at {self.offset:#x}", "drop only what was expected")
        self.expected -= count

    def _check_tx(self, x: Wave, i: Instruction) -> None:
        if abs(self.tx) > MBARRIER_BYTES:
            misuse(
                x, i, f"the mbarrier at {self.offset:#x} of CTA {self.cta.number} now counts {self.tx} bytes: it can count from -{MBARRIER_BYTES} to "
                f"{MBARRIER_BYTES}", "split the transfer over several phases or barriers",
            )  # fmt: skip

    def _settle(self, x: Wave) -> None:
        if self.pending or self.tx:
            return
        self.phase += 1
        self.came |= self.of_phase
        self.of_phase = set()
        self.last, self.deliveries = self.deliveries, []
        self.pending = self.expected
        if x.watch is not None:
            x.watch.complete(self)
        ready, self.waits = [w for w in self.waits if w[1] < self.phase], [w for w in self.waits if w[1] >= self.phase]
        for wait, _ in ready:
            x.wake(wait)

    def _changed(self, x: Wave) -> None:
        x.changes += 1
        x.shared.view(np.uint64)[self.place >> 3] = self.word

    def check_bytes(self, x: Wave, *, hangs: bool = False) -> None:
        """T210 when in all other bytes were expected than came: of a barrier at its end, or of one that nothing reaches any more.

        It stands at the copy that is one too many or goes elsewhere, where one can be named, else where the bytes are expected.
        Not where the launch hangs and what is missing came in full in an earlier phase: then something has held the loads up.
        A remark where bytes miss in a phase that nobody has ever asked for: pipelines arm a stage and bring nothing more (CuTe DSL's
        mixed_input_fmha_decode.py), and an mbarrier may end in any phase.
        """
        if (self.waits or self.seen) and (surprise := unexpected(self)) is not None:
            at, why, right = surprise
            x.launch.find("T210", at, why, right, because="PTX ISA 9.7.13.15.3")
        if (
            self.all_expected == self.all_brought
            and (again := twice(self)) is not None
            and any(f.code == "R507" for f in x.launch.findings.values())
        ):
            # As many bytes as expected, and others were never written: the second copy was to bring those.
            at, why, right = again
            x.launch.findings.pop(("X005", at.line), None)  # that the copy comes over another in flight, which this explains
            x.launch.find("X005", at, f"{why}, and bytes that are read come with no copy", right, because="PTX ISA 8 (memory consistency)")
        if self.all_expected == self.all_brought or not self.expecting or (hangs and self.is_late) or lends(self):
            return
        i, size = next(iter(self.expecting.values()))
        rounds = self.all_expected // size if size and self.all_expected % size == 0 else 0
        each = self.all_brought / rounds if rounds else 0.0
        right = "expect what the transfers bring"
        if each and each.is_integer():
            right = f"expect {int(each)} bytes, if the boxes are as large as they should be"
        bringing = ", ".join(f"{brought} by line {line}" for line, brought in list(self.bringing.items())[:KEPT]) or "nothing"
        message = (
            f"the mbarrier at {self.offset:#x} of CTA {self.cta.number} was told to expect {self.all_expected} bytes in all "
            f"({size} a time), {self.all_brought} came ({bringing})"
        )
        cause = wrong_delivery(self, x, size, rounds)
        if cause is not None:
            at, why, right = cause
            message, i = f"{why}: {message} at line {i.line}", at
        milder = None
        if cause is None and not hangs and self.tx > 0 and self.asked != self.phase:
            milder, message = Severity.NOTE, f"{message}; nobody waits for the phase that lacks them"
            right = "expect bytes in phases alone that somebody waits for"
        x.launch.find("T210", i, message, right, because="PTX ISA 9.7.13.15.3", milder=milder, touched=self.touched)

    @property
    def touched(self) -> tuple[Touched, ...]:
        """Its bytes."""
        return (Touched(self.cta.number, self.offset, self.offset + MBARRIER_SIZE),)

    def _note(self, what: str, i: Instruction) -> None:
        self.done[what].setdefault(i.line, i.name)

    # ---- waiting

    def passes(self, i: Instruction) -> None:
        """A wait finds that the phase before the current one is over; before the first phase that is so at once."""
        self.seen = self.phase
        if not self.phase:
            self.passed.setdefault(i.line, i)

    def park(self, x: Wave, threads: np.ndarray, i: Instruction, expired: Callable[[], None] | None = None) -> Wait:
        """Threads wait at the block that runs for the current phase."""
        phase = self.phase
        wait = x.park(threads, x.at, i, lambda: self.describe(x, phase))
        wait.expired, wait.suspicion, wait.touched = expired, lambda: suspicion(self, i, x), self.touched
        self.waits.append((wait, phase))
        return wait

    def describe(self, x: Wave, phase: int) -> str:
        """What a phase waits for and who has ever taken part, for a report of a hang."""
        left = []
        if self.pending:
            left.append(f"{self.pending} of {self.expected} arrivals are missing{missing_arrivals(self, x)[0]}")
        if self.tx > 0:
            left.append(f"{self.tx} bytes that were expected have not come")
        if self.tx < 0:
            left.append(f"{-self.tx} bytes have come that nobody expected")
        state = " and ".join(left) or "nothing is missing"
        known = [
            f"{what}: line{'s' * (len(by) > 1)} {', '.join(map(str, list(by)[:KEPT]))}{' ...' * (len(by) > KEPT)}"
            for what, by in self.done.items()
            if by
        ]
        history = "; so far " + "; ".join(known) if known else "; nobody has ever arrived or brought bytes"
        return f"phase {phase} (parity {phase & 1}) of the mbarrier at {self.offset:#x} of CTA {self.cta.number}: {state}{history}"


def current(x: Wave) -> Instruction:
    """The instruction that runs."""
    instructions = x.program.blocks[x.at].instructions
    return instructions[min(x.step, len(instructions) - 1)]


def mbarriers(cta: Cta) -> dict[int, Mbarrier]:
    """The mbarriers of a CTA that are initialised, by their offset."""
    found: dict[int, Mbarrier] = cta.state.setdefault("mbarriers", {})
    return found


def initialise(x: Wave, cta: Cta, offset: int, count: int, i: Instruction) -> Mbarrier:
    """`mbarrier.init`."""
    if not 1 <= count <= MBARRIER_ARRIVALS:
        misuse(x, i, f"a count of {count}: needs 1 to {MBARRIER_ARRIVALS}", "correct the count")
    place = cta.index * x.pitch + offset - x.window_begin
    old = mbarriers(cta).get(offset)
    if old is not None and old.waits:
        misuse(
            x,
            i,
            f"the mbarrier at {offset:#x} is initialised again while threads wait at it",
            "mbarrier.inval once nobody uses it any more",
        )
    if old is not None:
        old.check_bytes(x)
        if any(old.done.values()) or old.made.line != i.line:  # threads of one instruction that all do it do no harm
            x.launch.find(
                "X010", i, f"initialises the mbarrier at {offset:#x} of CTA {cta.number} again, which line {old.made.line} initialised and nobody has "
                "invalidated", "mbarrier.inval first, once nobody uses it any more", because=LIVES, milder=Severity.LUCK,
            )  # fmt: skip
    barrier = mbarriers(cta)[offset] = Mbarrier(cta, offset, count, place, i)
    x.shared.view(np.uint64)[place >> 3] = barrier.word
    if not x.program.uses.isdisjoint(("wgmma", "tcgen05")):
        x.owners.touch(np.array([place >> 4]), THREADS)
    x.changes += 1
    return barrier


def invalidate(x: Wave, cta: Cta, offset: int, i: Instruction, threads: np.ndarray) -> None:
    """`mbarrier.inval` by threads: the bytes are free again."""
    barrier = mbarrier_of(x, cta, offset, i)
    barrier.check_bytes(x)
    if barrier.waits:
        misuse(
            x,
            i,
            f"the mbarrier at {offset:#x} of CTA {cta.number} is invalidated while threads wait at it",
            "a barrier (bar.sync) in front of it",
        )
    pending = x.watch.not_waited_for(barrier.copies, threads) if x.watch is not None else None
    if pending is not None:
        x.launch.find(
            "X005", i, f"invalidates the mbarrier at {offset:#x} of CTA {cta.number}, on which {pending.instruction.name} of line {pending.instruction.line} "
            "may still complete: these threads have not waited for it", "wait for its phase (mbarrier.try_wait) and for all who do, then invalidate it",
            because=LIVES,
        )  # fmt: skip
    del mbarriers(cta)[offset]


def check_reused(x: Wave, barrier: Mbarrier) -> None:
    """X010 where something else was written over an mbarrier that nobody has invalidated; when all is over."""
    i = _overwritten_by(x, barrier)
    if i is not None:
        x.launch.find(
            "X010", i, f"{i.name} overwrites the mbarrier at {barrier.offset:#x} of CTA {barrier.cta.number}, which line {barrier.made.line} initialised and "
            "nobody has invalidated", "mbarrier.inval before its bytes are used for something else, or keep them apart from all buffers",
            because=LIVES, milder=Severity.LUCK,
        )  # fmt: skip


def _overwritten_by(x: Wave, barrier: Mbarrier) -> Instruction | None:
    """What wrote other bits over an mbarrier, as far as that is known."""
    if x.watch is None or int(x.shared.view(np.uint64)[barrier.place >> 3]) == barrier.word:
        return None
    words = (barrier.place >> 2, (barrier.place >> 2) + 1)
    found = (x.watch.lines.get(int(x.watch.line[word])) for word in words)
    return next((i for i in found if i is not None and i.op != "mbarrier"), None)


def mbarrier_of(x: Wave, cta: Cta, offset: int, i: Instruction | None = None, *, because: str = "") -> Mbarrier:
    """The mbarrier at `offset` (a `.shared` address without the rank) of a CTA; `because` says what an instruction has to do with that CTA.

    Ends the kernel with X010 where none was initialised, or where something else was written over it.
    """
    barrier = mbarriers(cta).get(offset)
    i = i or current(x)
    if barrier is None:
        inside = next((b for b in mbarriers(cta) if b < offset < b + 8), None)
        hint = f"; one lies at {inside:#x}" if inside is not None else ""
        misuse(
            x, i, f"there is no mbarrier at {offset:#x} of CTA {cta.number}{because}{hint}",
            "mbarrier.init first, then fence.mbarrier_init (or fence.proxy.async) and a barrier before others use it",
        )  # fmt: skip
    if int(x.shared.view(np.uint64)[barrier.place >> 3]) != barrier.word:
        by = _overwritten_by(x, barrier)
        what = f"{by.name} of line {by.line}" if by is not None else "something that is no mbarrier operation"
        misuse(
            x, i, f"the mbarrier at {offset:#x} of CTA {cta.number} was overwritten by {what}",
            "keep its 8 bytes apart from all buffers, or mbarrier.inval it and initialise it anew",
        )  # fmt: skip
    return barrier


def parity_of(token: Any) -> Any:
    """The parity of the phase that a token was made in."""
    return token >> np.uint64(63)


def pending_of(token: Any) -> Any:
    """`mbarrier.pending_count`."""
    return token & np.uint64(MBARRIER_ARRIVALS)
