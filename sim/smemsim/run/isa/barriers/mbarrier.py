"""mbarriers: their state and their phases.

PTX does not specify the 64 bits. Here: pending arrivals in 19:0, expected ones in 39:20, bytes still to come in 61:40
(two's complement), the parity of the phase in 63. A phase token is that word before the arrival.

CTAs without a cluster mostly do the same at the mbarriers of one place of their windows. These share one `State`, in
which threads and CTAs are numbers within their cluster. Operations that all of them execute are applied to it once,
until one CTA deviates (`Mbarrier.alone`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.errors import HardwareTrap
from smemsim.base.masks import all_set
from smemsim.core.finding import Touched
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.barriers import MBARRIER_ARRIVALS, MBARRIER_BYTES, MBARRIER_SIZE
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.traps import LAUNCH_FAILURE
from smemsim.run.async_ops import Delivery
from smemsim.run.cohort import Unfolded
from smemsim.run.engine.traps import find_misuse, miscount, misuse
from smemsim.run.engine.wave import WARP, Cta, Wait
from smemsim.run.isa.barriers.byte_rounds import Round
from smemsim.run.isa.barriers.mbarrier_notes import Arrivals, Bytes, Deliveries, Passed
from smemsim.run.isa.barriers.misdirected import misdirected
from smemsim.run.scopes import GPU
from smemsim.run.views import current, mbarriers

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave

__all__ = [
    "ADDS_OWN",
    "Delivery",
    "Mbarrier",
    "State",
    "arrive",
    "bring",
    "current",
    "each_of",
    "mbarrier_of",
    "mbarriers",
    "overwritten_by",
    "parity_of",
    "pending_of",
    "state_of_all",
    "states_of",
    "with_threads",
]


ADDS_OWN = "adds an arrival and makes it"  # in `State.done`


class Mbarrier:
    """The barrier at `offset` (a `.shared` address without the rank) of a CTA.

    It is the 64 bits at `place` of shared memory. They count arrivals and bytes, phase after phase (PTX ISA 9.1
    §9.7.13.15). Its history is `state`, which it may share with others.
    """

    state: State

    def __init__(self, cta: Cta, offset: int, place: int, made: Instruction) -> None:
        self.cta, self.offset, self.place, self.made = cta, offset, place, made
        self.is_again = False  # was there an mbarrier at its place before?
        self.waits: list[tuple[Wait, int]] = []  # with the phase that each waits for
        # operations that complete on this phase or the one before, as the sanitizer knows them
        self.operations: list[Any] = []

    def __repr__(self) -> str:
        state = self.state
        return f"<Mbarrier {self.offset:#x} of CTA {self.cta.number}: phase {state.phase}, {state.pending} arrivals and {state.tx} bytes pending>"

    @property
    def touched(self) -> tuple[Touched, ...]:
        """The eight bytes of the mbarrier object in its CTA's window."""
        return (Touched(self.cta.number, self.offset, self.offset + MBARRIER_SIZE),)

    def alone(self) -> State:
        """Its state, which is that of no other one from now on."""
        if len(self.state.members) > 1:
            self.state.parts_with(self)
        return self.state


class State:
    """The history of an mbarrier, or of `members` in different CTAs with the same history.

    Complete phases are counted in `phase`. In the current one `pending` arrivals and `tx` bytes are left. It is
    complete when both are 0. Threads and warps are those of the cluster, from its first one on, and CTAs are ranks.
    """

    def __init__(self, members: Sequence[Mbarrier], count: int) -> None:
        self._belongs_to(members)
        self.phase, self.expected, self.pending, self.tx = 0, count, count, 0
        # for waits and findings
        self.arrivals, self.bytes, self.deliveries, self.passed = Arrivals(), Bytes(), Deliveries(), Passed()
        self.done: dict[str, dict[int, str]] = {
            "arrives": {},
            "expects bytes": {},
            "brings bytes": {},
            ADDS_OWN: {},
        }  # instructions by line

    def _belongs_to(self, members: Sequence[Mbarrier]) -> None:
        self.members = tuple(members)
        self.words = np.array([barrier.place >> 3 for barrier in members])
        firsts = np.array([barrier.cta.first for barrier in members])
        self.steps = (firsts - firsts[0])[:, None]  # from threads of the first member's CTA to those of each other one
        for barrier in members:
            barrier.state = self

    def parts_with(self, member: Mbarrier) -> None:
        """One of the members does something by itself."""
        own = copy.copy(self)
        own.done = {what: by.copy() for what, by in self.done.items()}
        own.arrivals, own.bytes, own.deliveries, own.passed = (
            self.arrivals.copy(),
            self.bytes.copy(),
            self.deliveries.copy(),
            self.passed.copy(),
        )
        self._belongs_to([other for other in self.members if other is not member])
        own._belongs_to([member])

    def store(self, x: Wave) -> None:
        """Its word is in shared memory, for others to look at."""
        x.shared.view(np.uint64)[self.words] = self.word
        x.progress.changes += len(self.members)

    @property
    def parity(self) -> int:
        """The parity of the current phase; 0 for the first phase."""
        return self.phase & 1

    @property
    def is_counting(self) -> bool:
        """May it count bytes: has it done so, or has no thread arrived yet?"""
        return bool(self.bytes.expecting or self.deliveries.sources) or not self.arrivals.by_site

    @property
    def has_added(self) -> bool:
        """Has an instruction added an arrival, and made it?"""
        return bool(self.done[ADDS_OWN])

    @property
    def is_late(self) -> bool:
        """Do bytes miss that came in an earlier phase, for the same expectation?"""
        return self.tx > 0 and self.bytes.of_phase <= self.bytes.came

    @property
    def is_even(self) -> bool:
        """Have come just the bytes that were expected, each once, as far as this one knows?"""
        bytes_, copies = self.bytes, self.deliveries
        return bytes_.expected == bytes_.brought and copies.doubled is None and bool(bytes_.expecting or not copies.sources)

    @property
    def word(self) -> int:
        """The 64 bits of the mbarrier object in shared memory."""
        return self.pending | self.expected << 20 | (self.tx & 0x3FFFFF) << 40 | self.parity << 63

    # ---- what happens to it

    def comes(self, x: Wave, threads: np.ndarray, count: int, i: Instruction) -> None:
        """Note the arriving threads."""
        self._note("arrives", i)
        if len(threads):
            self.arrivals.come(x, threads, i, count, self._cta.index - self._cta.rank)

    def fitting(self, x: Wave, threads: np.ndarray, step: int, i: Instruction) -> int:
        """How many of some threads arrive in the current phase, each `step` times."""
        if step > self.pending:
            self._too_many(x, int(threads[0]), step, i)
        return min(len(threads), self.pending // step)

    def _too_many(self, x: Wave, thread: int, step: int, i: Instruction) -> None:
        """X010: an arrival of a thread, and the phase has none left."""
        why, repair = (
            f"the current phase expects only {self.pending} more",
            self._fewer(self.expected - self.pending + step),
        )
        if not self.pending and self.tx > 0:
            why = f"the current phase has all its arrivals, and waits for {self.tx} bytes"
            repair = "wait for the phase (mbarrier.try_wait) before arriving in the next; or expect only bytes that arrive"
            together = int(np.count_nonzero(x.cta_of[x.threads] == x.cta_of[thread]))
            if together > self.expected:  # each thread's expect_tx counts
                why += f"; {together} threads execute it together, and a phase has {self.expected} arrival{'s' * (self.expected > 1)}"
                repair = f"let {self._most} execute it"
            early = next((wait for wait in self.passed.at_first.values() if "parity" in wait.modifiers), None)
            if early is not None and not self.phase and together <= self.expected:
                why += f"; the wait in {early.at} was for parity 1, which passes at once at a new mbarrier: it did not wait for them"
                repair = f"parity 0 in {early.at}, the first time it waits at each mbarrier; or expect only bytes that arrive"
        elsewhere = misdirected(self.members[0], x, unawaited=True)
        if elsewhere is not None:
            why, repair = (
                f"{why}; {elsewhere[0]}",
                f"{elsewhere[1]}; or, if the arrival belongs there, mbarrier.init with as many arrivals as come in a phase",
            )
        miscount(x, i, f"too many arrivals at the mbarrier at {self._named}: this instruction adds {step}, but {why}", repair)

    def expect_tx(self, x: Wave, size: int, *, i: Instruction | None = None) -> None:
        """The current phase also waits for `size` bytes."""
        self.deliveries.since_expected = {}
        i = i or current(x)
        self._note("expects bytes", i)
        self.bytes.expect(i, size)
        self.tx += size
        self._check_tx(x, i)
        if x.events.bytes_expected:
            x.events.bytes_expected(x, i, self.members, size)
        self._settles(x)

    def complete_tx(self, x: Wave, size: int, *, i: Instruction | None = None, by: Delivery | None = None) -> None:
        """`size` bytes have come; `by` says by which copy, and where they lie."""
        self.gets(x, size, i or current(x), by)
        self._settles(x)

    def _settles(self, x: Wave) -> None:
        _settle(x, [self])
        self.store(x)

    def gets(self, x: Wave, size: int, i: Instruction, by: Delivery | None) -> None:
        """The same, before the check for the end of the phase."""
        if by is not None:
            self.deliveries.bring(by, self.phase)
        self._note("brings bytes", i)
        self.bytes.come(i, size, by)
        self.tx -= size
        self._check_tx(x, i)
        if x.events.bytes_counted:
            x.events.bytes_counted(x, i, self.members, size)

    def adds(self, x: Wave, count: int) -> None:
        """The current phase waits for `count` more arrivals, which only the hardware makes; a negative count is of
        arrivals that have come.
        """
        self.pending += count
        self._settles(x)

    def completes_own(self, x: Wave, threads: np.ndarray, i: Instruction) -> None:
        """The arrivals that an instruction added for these threads have come. X010 if others took their place."""
        if len(threads) > self.pending:
            self._too_many(x, int(threads[0]), len(threads), i)
        self.adds(x, -len(threads))

    def adds_own(self, i: Instruction) -> None:
        """Note an instruction that adds an arrival to the phase, and makes it: the count is what it was."""
        self._note(ADDS_OWN, i)

    def sent(self, by: Delivery) -> None:
        """Remember the threads that store here by st.async or red.async."""
        self.deliveries.send(by)

    @property
    def byte_rounds(self) -> list[Round]:
        """The expected bytes and those that came, by phase."""
        return self.bytes.rounds(self.phase)

    @property
    def sites(self) -> set[int]:
        """The sites of the instructions that have arrived, or brought bytes."""
        return {site for by in self.done.values() for site in by}

    def drop(self, x: Wave, count: int, i: Instruction) -> None:
        """`count` arrivals fewer from the next phase on; the arrival itself comes next."""
        if count > self.expected:
            miscount(
                x,
                i,
                f"{count} of {self.expected} arrivals dropped at the mbarrier at {self.members[0].offset:#x}",
                "drop only what was expected",
            )
        self.expected -= count

    def _check_tx(self, x: Wave, i: Instruction) -> None:
        if self.tx == MBARRIER_BYTES + 1:  # measured on an H200: one more than is documented
            find_misuse(
                x, i, f"the mbarrier at {self._named} now counts {self.tx} bytes: it can count to {MBARRIER_BYTES}", self._tx_repair()
            )
        elif abs(self.tx) > MBARRIER_BYTES:
            miscount(
                x, i, f"the mbarrier at {self._named} now counts {self.tx} bytes: it can count from -{MBARRIER_BYTES} to "
                f"{MBARRIER_BYTES}", self._tx_repair(),
            )  # fmt: skip

    @property
    def _most(self) -> str:
        """The threads that a phase has arrivals for."""
        return f"{self.expected} threads" if self.expected > 1 else "one thread"

    def _fewer(self, come: int) -> str:
        """The fix of a phase that gets more arrivals, `come`, than it has."""
        count = self.expected
        return (
            f"mbarrier.init in {self.members[0].made.at}: a phase has {count} arrival{'s' * (count > 1)}, and {come} come: "
            f"init with {come}, if no more arrive in a phase, or let {self._most} arrive"
        )

    def _tx_repair(self) -> str:
        """The fix of a byte count beyond its limits. It is below them if no expect_tx counts bytes that come."""
        if self.tx < 0:
            return "execute expect_tx for these bytes before they arrive, and let one thread alone issue the copy"
        return "expect only the bytes of this phase, or split the transfer over several phases"

    def end_phase(self) -> None:
        """The phase is over, and the next one begins."""
        self.bytes.end_phase(self.phase)
        self.arrivals.end_phase()
        self.deliveries.end_phase()
        self.phase += 1
        self.pending = self.expected

    def _note(self, what: str, i: Instruction) -> None:
        self.done[what].setdefault(i.site, i.name)

    @property
    def _cta(self) -> Cta:
        return self.members[0].cta

    @property
    def _named(self) -> str:
        return f"{self.members[0].offset:#x} of CTA {self._cta.number}"


def each_of(states: Sequence[State]) -> list[Mbarrier]:
    """The mbarriers of states that have as many each, a CTA's together."""
    return [state.members[n] for n in range(len(states[0].members)) for state in states] if states else []


def _settle(x: Wave, states: Sequence[State]) -> None:
    """Phases for which nothing is left to come are over."""
    over = [state for state in states if not (state.pending or state.tx)]
    if not over:
        return
    for state in over:
        state.end_phase()
    barriers = each_of(over)
    if x.events.mbarriers_completed:
        x.events.mbarriers_completed(x, barriers)
    for barrier in barriers:
        if barrier.waits:
            _wake(x, barrier)


def _wake(x: Wave, barrier: Mbarrier) -> None:
    """Threads that wait for a phase that is over continue."""
    phase, waits = barrier.state.phase, barrier.waits
    barrier.waits = [wait for wait in waits if wait[1] >= phase]
    for wait, its in waits:
        if its < phase:
            x.wake(wait)


def _split(x: Wave, i: Instruction, state: State, come: int) -> None:
    """Lanes of one warp arrive at once, and at a phase and the next one: measured on an H200, the instruction ends
    the kernel. So many arrivals `come`, with those that the phase had before.
    """
    for barrier in state.members:
        _tell_split(x, i, barrier, come)
    if i.op == "mbarrier":
        raise HardwareTrap(f"{i.name}: lanes of a warp arrive more often than a phase has arrivals left", cuda_error=LAUNCH_FAILURE)


def _tell_split(x: Wave, i: Instruction, barrier: Mbarrier, come: int) -> None:
    """X010: some lanes of one arrive complete a phase, the other lanes count in the next one, and waiting threads go
    on without those.
    """
    state = barrier.state
    x.launch.find(
        "X010", i, f"the lanes of one warp arrive in two phases of the mbarrier at {barrier.offset:#x} of CTA {barrier.cta.number}",
        why=f"some lanes complete phase {state.phase - 1}, the others count in the next one; a wait for phase {state.phase - 1} does not wait for them", repair=
        state._fewer(come), because="PTX ISA 9.1 §9.7.13.15",
        milder=Severity.WRONG,
    )  # fmt: skip


def with_threads(each: Sequence[tuple[State, np.ndarray]]) -> Unfolded:
    """Threads of the first member of states, and those that do the same at the others, with their mbarriers; a CTA's
    together.
    """
    return Unfolded([(threads, state.members, state.steps) for state, threads in each])


def arrive(
    x: Wave, arrivals: Sequence[tuple[State, np.ndarray]], count: int = 1, *, i: Instruction | None = None, release: bool = True,
    relaxed: bool = False, scope: int = GPU,
) -> list[np.ndarray]:  # fmt: skip
    """Threads arrive `count` times each at mbarriers, none of which is named twice, and threads of other CTAs at those
    that share a state with them. If a phase is complete by that, the next begins. Returns their tokens.

    The threads are those of the wave that are reported to the sanitizer. The arrival of an asynchronous operation is
    one of the thread that issued it.
    """
    i = i or current(x)
    for state, threads in arrivals:
        state.comes(x, threads, count, i)
    given: dict[str, Any] = {"is_async": not release, "relaxed": relaxed, "scope": scope}
    if x.events.mbarriers_reached:
        x.events.mbarriers_reached(x, i, with_threads(arrivals), count, **given)
    tokens = [np.empty(len(threads), np.uint64) for _, threads in arrivals]
    left = [(state, threads, own) for (state, threads), own in zip(arrivals, tokens, strict=True) if len(threads)]
    while left:
        now = [state.fitting(x, threads, count, i) for state, threads, _ in left]
        for (state, _, own), steps in zip(left, now, strict=True):
            if steps == 1:
                own[0] = state.word
            else:
                own[:steps] = np.uint64(state.word) - np.arange(0, steps * count, count, dtype=np.uint64)
            state.pending -= steps * count
        if x.events.mbarriers_arrived:
            come = with_threads([(state, threads[:steps]) for (state, threads, _), steps in zip(left, now, strict=True)])
            x.events.mbarriers_arrived(x, i, come, count, **given)
        phases = [(state.phase, state.expected - state.pending - steps * count) for (state, _, _), steps in zip(left, now, strict=True)]
        _settle(x, [state for state, _, _ in left])
        for (state, threads, _), steps, (phase, before) in zip(left, now, phases, strict=True):
            if state.phase != phase and steps < len(threads) and threads[steps - 1] // WARP == threads[steps] // WARP:
                _split(x, i, state, before + count * len(threads))
        left = [
            (state, threads[steps:], own[steps:]) for (state, threads, own), steps in zip(left, now, strict=True) if steps < len(threads)
        ]
    for state, _ in arrivals:
        state.store(x)
    return tokens


def bring(x: Wave, states: Sequence[State], size: int, by: Delivery) -> None:
    """`complete_tx` of mbarriers of different CTAs, by copies that are the same in each."""
    i = current(x)
    for state in states:
        state.gets(x, size, i, by)
    _settle(x, states)
    for state in states:
        state.store(x)


def overwritten_by(x: Wave, barrier: Mbarrier) -> Instruction | None:
    """The instruction that wrote other bits over an mbarrier, as far as it is known."""
    if x.checks is None or int(x.shared.view(np.uint64)[barrier.place >> 3]) == barrier.state.word:
        return None
    words = (barrier.place >> 2, (barrier.place >> 2) + 1)
    found = (x.checks.last_writer(word) for word in words)
    return next((i for i in found if i is not None and i.op != "mbarrier"), None)


def mbarrier_of(x: Wave, cta: Cta, offset: int, i: Instruction | None = None, *, because: str = "") -> Mbarrier:
    """The mbarrier at `offset` (a `.shared` address without the rank) of a CTA; `because` is the relation of an
    instruction to that CTA, for the message.

    Ends the kernel with X010 if none was initialised, or if a write has overwritten it.
    """
    barrier: Mbarrier | None = mbarriers(cta).get(offset)
    i = i or current(x)
    if barrier is None:
        inside = next((b for b in mbarriers(cta) if b < offset < b + 8), None)
        hint = f"; one lies at {inside:#x}" if inside is not None else ""
        miscount(
            x, i, f"there is no mbarrier at {offset:#x} of CTA {cta.number}{because}{hint}",
            "mbarrier.init first, then fence.mbarrier_init (or fence.proxy.async) and a barrier before others use it",
        )  # fmt: skip
    if int(x.shared.view(np.uint64)[barrier.place >> 3]) != barrier.state.word:
        by = overwritten_by(x, barrier)
        what = f"{by.name} of {by.at}" if by is not None else "an instruction that is not an mbarrier operation"
        misuse(
            x, i, f"the mbarrier at {offset:#x} of CTA {cta.number} was overwritten by {what}",
            "keep its 8 bytes apart from all buffers, or mbarrier.inval it and initialise it anew",
        )  # fmt: skip
    return barrier


def state_of_all(x: Wave, offset: int) -> State | None:
    """The state of the mbarriers at one offset of all CTAs, if they share one; None if not, or if a write has
    overwritten one.
    """
    first = mbarriers(x.ctas[0]).get(offset)
    if first is None or len(first.state.members) < len(x.ctas):
        return None
    return first.state if all_set(x.shared.view(np.uint64)[first.state.words] == first.state.word) else None


def states_of(x: Wave, ctas: Sequence[Cta], offset: int, i: Instruction, *, because: str = "") -> list[State]:
    """Those of the mbarriers at one offset of CTAs, none of which comes twice."""
    of_all = state_of_all(x, offset) if len(ctas) == len(x.ctas) else None
    return [of_all] if of_all is not None else [mbarrier_of(x, cta, offset, i, because=because).alone() for cta in ctas]


def parity_of(token: Any) -> Any:
    """The parity of the phase that a token was made in."""
    return token >> np.uint64(63)


def pending_of(token: Any) -> Any:
    """`mbarrier.pending_count`."""
    return token & np.uint64(MBARRIER_ARRIVALS)
