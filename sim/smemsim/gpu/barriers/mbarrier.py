"""Mbarrier objects (PTX ISA 9.7.13.15): 64 bits of shared memory that count arrivals and bytes, phase after phase.

PTX leaves open what the 64 bits look like. Here: pending arrivals in 19:0, expected ones in 39:20, bytes still to come in 61:40 (two's complement),
the parity of the phase in 63; a phase token is that word as it was before the arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.gpu.barriers.suspicion import suspicion
from smemsim.gpu.launch import Touched
from smemsim.gpu.traps import misuse
from smemsim.gpu.wave import THREADS, WARP, Cta, Wait
from smemsim.ptx.module import Instruction
from smemsim.spec.barriers import MBARRIER_ARRIVALS, MBARRIER_BYTES, MBARRIER_SIZE

if TYPE_CHECKING:
    from smemsim.gpu.launch import Launch
    from smemsim.gpu.wave import Wave

__all__ = ["Mbarrier", "current", "initialise", "invalidate", "mbarrier_of", "mbarriers", "parity_of", "pending_of"]

KEPT = 6  # lines remembered for a report


class Mbarrier:
    """A barrier at `offset` (a `.shared` address without the rank) of a CTA.

    `phase` counts complete phases; `pending` arrivals and `tx` bytes are left of the current one, which is complete when both are 0.
    """

    def __init__(self, cta: Cta, offset: int, count: int, place: int) -> None:
        self.cta, self.offset, self.place = cta, offset, place
        self.phase, self.expected, self.pending, self.tx = 0, count, count, 0
        self.waits: list[tuple[Wait, int]] = []  # with the phase that each waits for
        self.all_expected, self.all_brought = 0, 0  # bytes, of all phases
        self.bringing: dict[int, int] = {}  # by line: bytes, the first time
        self.expecting: dict[int, tuple[Instruction, int]] = {}  # by line: who said so, and how much
        self.of_phase: set[tuple[int, int]] = set()  # of the current phase: line and bytes
        self.came: set[tuple[int, int]] = set()  # of phases that have ended: these came
        self.seen = 0  # phases that had ended when a wait last passed
        self.passed: dict[int, Instruction] = {}  # by line: waits that passed before the first phase had ended
        self.arrived_from: set[int] = set()  # warps of the wave
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

    def arrive(self, x: Wave, threads: np.ndarray, count: int = 1, *, i: Instruction | None = None, release: bool = True) -> np.ndarray:
        """Each of the threads arrives `count` times; a phase that is complete by that ends, and the next begins. Returns their tokens.

        `threads` are those of the wave that the watch is told of; the arrival of an asynchronous operation is one of the thread that issued it.
        """
        i = i or current(x)
        self._note("arrives", i)
        if len(threads):  # of warps that arrive together two are enough to tell
            self.arrived_from |= set((threads[[0, -1]] // WARP).tolist())
        if x.watch is not None:
            if x.watch.lifetimes.is_needed:
                x.watch.lifetimes.touch(i, self.cta.index, np.unique(threads // WARP))
            if release:
                x.watch.release(x, threads, self)
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
            self._settle(x)
        self._changed(x)
        return tokens

    def expect_tx(self, x: Wave, size: int, *, i: Instruction | None = None) -> None:
        """The current phase also waits for `size` bytes."""
        i = i or current(x)
        self._note("expects bytes", i)
        self.all_expected += size
        self.expecting.setdefault(i.line, (i, size))
        self.of_phase.add((i.line, size))
        self.tx += size
        self._check_tx(x, i)
        self._settle(x)
        self._changed(x)

    def complete_tx(self, x: Wave, size: int, *, i: Instruction | None = None) -> None:
        """`size` bytes have come."""
        i = i or current(x)
        self._note("brings bytes", i)
        self.bringing.setdefault(i.line, size)
        self.all_brought += size
        self.tx -= size
        self._check_tx(x, i)
        self._settle(x)
        self._changed(x)

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
        self.pending = self.expected
        if x.watch is not None:
            x.watch.complete(self)
        ready, self.waits = [w for w in self.waits if w[1] < self.phase], [w for w in self.waits if w[1] >= self.phase]
        for wait, _ in ready:
            x.wake(wait)

    def _changed(self, x: Wave) -> None:
        x.changes += 1
        x.shared.view(np.uint64)[self.place >> 3] = self.word

    def check_bytes(self, launch: Launch, *, hangs: bool = False) -> None:
        """T210 when in all other bytes were expected than came: of a barrier at its end, or of one that nothing reaches any more.

        Not where the launch hangs and what is missing came in full in an earlier phase: then something has held the loads up.
        """
        if self.all_expected == self.all_brought or not self.expecting or (hangs and self.is_late):
            return
        i, size = next(iter(self.expecting.values()))
        rounds = self.all_expected // size if size and self.all_expected % size == 0 else 0
        each = self.all_brought / rounds if rounds else 0.0
        right = "expect what the transfers bring"
        if each and each.is_integer():
            right = f"expect {int(each)} bytes, if the boxes are as large as they should be"
        bringing = ", ".join(f"{brought} by line {line}" for line, brought in list(self.bringing.items())[:KEPT]) or "nothing"
        launch.find(
            "T210", i, f"the mbarrier at {self.offset:#x} of CTA {self.cta.number} was told to expect {self.all_expected} bytes in all "
            f"({size} a time), {self.all_brought} came ({bringing})", right,
            because="PTX ISA 9.7.13.15.3", touched=self.touched,
        )  # fmt: skip

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
        wait = x.park(threads, x.at, i, lambda: self.describe(phase))
        wait.expired, wait.suspicion, wait.touched = expired, lambda: suspicion(self, i, x), self.touched
        self.waits.append((wait, phase))
        return wait

    def describe(self, phase: int) -> str:
        """What a phase waits for and who has ever taken part, for a report of a hang."""
        left = []
        if self.pending:
            left.append(f"{self.pending} of {self.expected} arrivals are missing")
        if self.tx > 0:
            left.append(f"{self.tx} bytes that were expected have not come")
        if self.tx < 0:
            left.append(f"{-self.tx} bytes have come that nobody expected")
        state = " and ".join(left) or "nothing is missing"
        known = [
            f"{what}: {', '.join(f'line {n} ({name})' for n, name in list(by.items())[:KEPT])}" for what, by in self.done.items() if by
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
        old.check_bytes(x.launch)
    barrier = mbarriers(cta)[offset] = Mbarrier(cta, offset, count, place)
    x.shared.view(np.uint64)[place >> 3] = barrier.word
    if not x.program.uses.isdisjoint(("wgmma", "tcgen05")):
        x.owners.touch(np.array([place >> 4]), THREADS)
    x.changes += 1
    return barrier


def invalidate(x: Wave, cta: Cta, offset: int, i: Instruction) -> None:
    """`mbarrier.inval`: the bytes are free again."""
    mbarrier_of(x, cta, offset, i).check_bytes(x.launch)
    del mbarriers(cta)[offset]


def mbarrier_of(x: Wave, cta: Cta, offset: int, i: Instruction | None = None) -> Mbarrier:
    """The mbarrier at `offset` (a `.shared` address without the rank) of a CTA.

    Ends the kernel with X010 where none was initialised, or where something else was written over it.
    """
    barrier = mbarriers(cta).get(offset)
    i = i or current(x)
    if barrier is None:
        inside = next((b for b in mbarriers(cta) if b < offset < b + 8), None)
        hint = f"; one lies at {inside:#x}" if inside is not None else ""
        misuse(
            x, i, f"there is no mbarrier at {offset:#x} of CTA {cta.number}{hint}",
            "mbarrier.init first, then fence.mbarrier_init (or fence.proxy.async) and a barrier before others use it",
        )  # fmt: skip
    if int(x.shared.view(np.uint64)[barrier.place >> 3]) != barrier.word:
        misuse(
            x, i, f"the mbarrier at {offset:#x} of CTA {cta.number} was overwritten by something that is no mbarrier operation",
            "keep its 8 bytes apart from all buffers, or mbarrier.inval it and initialise it anew",
        )  # fmt: skip
    return barrier


def parity_of(token: Any) -> Any:
    """The parity of the phase that a token was made in."""
    return token >> np.uint64(63)


def pending_of(token: Any) -> Any:
    """`mbarrier.pending_count`."""
    return token & np.uint64(MBARRIER_ARRIVALS)
