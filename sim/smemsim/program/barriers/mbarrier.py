"""mbarriers: their state, their phases, and what is suspicious about a wait.

PTX leaves open what the 64 bits look like. Here: pending arrivals in 19:0, expected ones in 39:20, bytes still to come in 61:40 (two's complement),
the parity of the phase in 63; a phase token is that word as it was before the arrival.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.distinct import distinct
from smemsim.finding import Touched
from smemsim.program.barriers import loops
from smemsim.program.linking.flow import following
from smemsim.program.scopes import CLUSTER, GPU
from smemsim.program.traps import misuse
from smemsim.program.wave import THREADS, WARP, Cta, Wait
from smemsim.ptx.module import Instruction
from smemsim.spec.barriers import MBARRIER_ARRIVALS, MBARRIER_BYTES, MBARRIER_SIZE
from smemsim.spec.findings import Severity

if TYPE_CHECKING:
    from smemsim.program.watch.clocks import Operation
    from smemsim.program.wave import Wave

__all__ = [
    "Delivery",
    "Mbarrier",
    "arrive",
    "before_loads",
    "bring",
    "check_reused",
    "current",
    "initialise",
    "invalidate",
    "is_wait",
    "lends",
    "mbarrier_of",
    "mbarriers",
    "missing_arrivals",
    "parity_of",
    "pending_of",
    "suspicion",
    "twice",
    "unexpected",
    "wrong_delivery",
]


# ---- Of the waits at mbarriers that never end: which is likeliest the cause of the hang, and what to change there; and which copy is the
# one that brought too much, or too little, to an mbarrier


Cause = tuple[Instruction, str, str]  # where, why, and what to change


def suspicion(barrier: Mbarrier, i: Instruction, x: Wave) -> tuple[int, str]:
    """For a wait that never ends: how far it is from the cause of the hang (0 is nearest), and what to change."""
    if unseen := barrier.phase - barrier.seen:
        last = barrier.phase - 1
        if ignored := _ignored(barrier):
            names = ", ".join(f"{offset:#x}" for offset in ignored)
            return 0, f"wait for the mbarrier of the stage that is read: phases of {names} are over, and nobody has ever waited for one"
        if unseen == 1:
            return 0, f"phase {last} is over, and no wait has seen it: wait for parity {last & 1}, or one arrival fewer"
        by = f"phases {barrier.seen} to {last} went by without a wait"
        if barrier.runs_ahead:
            return 0, (
                f"{by}, and the same threads arrived in each: before they arrive again, let them wait for who waits here (another mbarrier, at which "
                "that one arrives); or is one of their arrivals meant for another mbarrier?"
            )
        return (
            0,
            f"{by}: more arrive in a round than the {barrier.expected} that mbarrier.init says; correct that count, or let fewer threads arrive",
        )
    if barrier.pending != barrier.expected and barrier.pending:
        absent = _never_here(barrier, x)
        if absent:  # who has arrived nowhere and waits for something else is held up by that
            goes_on = any(_arrives_elsewhere(barrier, x, cta) or not _is_stuck(x, barrier, cta) for cta in absent)
            return 0 if goes_on else 3, missing_arrivals(barrier, x)[1]
        return 1, f"mbarrier.init says {barrier.expected} arrivals a phase: correct it, or let the others arrive too"
    if barrier.tx < 0 and not barrier.expecting:
        return 1, f"mbarrier.arrive.expect_tx of {-barrier.tx} bytes by the thread that issues the copies"
    if barrier.tx or barrier.pending != barrier.expected:
        return 4 if barrier.is_late else 1, ""
    if not any(barrier.done.values()):
        if not before_loads(i, x):
            return 3, ""
        if barrier.passed:
            return 2, "whoever reads a stage must arrive here when it has (mbarrier.arrive, tcgen05.commit)"
        return 2, "a stage is free in the first round: wait for parity 1 there, which passes at once at a new mbarrier"
    stuck = {int(warp) for wait in x.waiting for warp in distinct(wait.threads // WARP)}
    return (1 if barrier.arrived_from and not barrier.arrived_from & stuck else 4), ""  # who arrived before goes on, or waits as well


def _ignored(barrier: Mbarrier) -> list[int]:
    """The other mbarriers of the CTA that copies complete on, as on this one, and that nobody has ever waited for."""
    others: dict[int, Mbarrier] = barrier.cta.state["mbarriers"] if barrier.sources else {}
    return [offset for offset, b in others.items() if b.sources and b.phase and not (b.seen or b.passed or b.waits)]


def before_loads(i: Instruction, x: Wave) -> bool:
    """Do loads that complete on an mbarrier, or stores, follow this wait before the next wait and the next read? It is then a producer's wait for a free stage."""
    blocks = x.program.blocks
    begin = next(((n, k + 1) for n, block in enumerate(blocks) for k, other in enumerate(block.instructions) if other is i), None)
    ways, been = [begin] if begin is not None else [], set[int]()
    while ways:
        n, first = ways.pop()
        for other in blocks[n].instructions[first:] if n < len(blocks) else ():
            if is_wait(other) or other.op in ("wgmma", "ldmatrix", "tcgen05") or (other.op == "ld" and "shared" in other.modifiers):
                break
            if (other.op == "cp" and "mbarrier::complete_tx::bytes" in other.modifiers) or (
                other.op == "st" and "shared" in other.modifiers
            ):
                return True
        else:
            after = [to for to in following(x.program, n) or () if to not in been] if n < len(blocks) else []
            been.update(after)
            ways += [(to, 0) for to in after]
    return False


def is_wait(i: Instruction) -> bool:
    """Is the instruction a wait at an mbarrier?"""
    return i.op == "mbarrier" and i.modifiers[0] in ("try_wait", "test_wait")


# ---- arrivals of the other CTAs of a cluster


def _members(barrier: Mbarrier, x: Wave) -> list[Cta]:
    """The CTAs of the mbarrier's cluster, in the order of their ranks."""
    first = barrier.cta.index - barrier.cta.rank
    return x.ctas[first : first + x.launch.cluster_size]


def _siblings(barrier: Mbarrier, x: Wave) -> Iterator[Mbarrier]:
    """The mbarriers at the offset of `barrier` in the other CTAs of its cluster."""
    for cta in _members(barrier, x):
        other = cta.state.get("mbarriers", {}).get(barrier.offset)
        if other is not None and other is not barrier:
            yield other


def _never_here(barrier: Mbarrier, x: Wave) -> list[Cta]:
    """The CTAs of the cluster that have never arrived at an mbarrier that another CTA has arrived at."""
    came = {cta for _, cta in barrier.arrivals}
    return [cta for cta in _members(barrier, x) if cta.index not in came] if came else []


def _is_stuck(x: Wave, barrier: Mbarrier, cta: Cta) -> bool:
    """Do threads of a CTA wait at another mbarrier?"""
    others = (wait for wait in x.waiting if wait.expired is not None and all(wait is not own for own, _ in barrier.waits))
    return any((x.cta_of[wait.threads] == cta.index).any() for wait in others)


def _arrives_elsewhere(barrier: Mbarrier, x: Wave, cta: Cta) -> bool:
    """Has a CTA arrived at the same mbarrier of another CTA?"""
    return any(by == cta.index for other in _siblings(barrier, x) for _, by in other.arrivals)


def missing_arrivals(barrier: Mbarrier, x: Wave) -> tuple[str, str]:
    """For an incomplete phase with some arrivals: which CTAs of the cluster never arrived, where they arrive instead, and what to change."""
    text, repair = "", ""
    for cta in _never_here(barrier, x) if 0 < barrier.pending < barrier.expected else ():
        instead = [(line, other) for other in _siblings(barrier, x) for line, by in other.arrivals if by == cta.index]
        if instead:
            line, other = instead[0]
            text += f"; CTA {cta.number} has arrived at that of CTA {other.cta.number} (line {line}), never at this one"
        else:
            text += f"; none is of CTA {cta.number}"
        repair = repair or (
            f"let CTA {cta.number} arrive here too: mapa of the address to rank {barrier.cta.rank}, and mbarrier.arrive.release.cluster."
            f"shared::cluster there; or correct the {barrier.expected} that mbarrier.init says"
        )
    return text, repair


# ---- bytes that came twice, or elsewhere


def wrong_delivery(barrier: Mbarrier, x: Wave, size: int, rounds: int) -> Cause | None:
    """Which copy is one too many, or goes elsewhere, where the bytes that came say so: its instruction, why, and what to change.

    `size` bytes are expected a time, in `rounds` rounds so far.
    """
    if barrier.doubled is not None:
        return _twice(barrier, *barrier.doubled)
    short = barrier.all_expected - barrier.all_brought
    if barrier.repeated is not None and short < 0 and short % barrier.repeated[1].size == 0:
        return _twice(barrier, *barrier.repeated)
    if short <= 0:
        return None
    missing = barrier.tx if barrier.tx > 0 else short // max(rounds, 1)
    return _left_out(barrier, x, missing) or _at_a_sibling(barrier, x, short) or _not_issued(barrier, x, missing) or _other_barrier(barrier)


def twice(barrier: Mbarrier) -> Cause | None:
    """Two copies that bring the same bytes for one expectation: where, why, and what to change."""
    return None if barrier.doubled is None else _twice(barrier, *barrier.doubled)


def lends(barrier: Mbarrier) -> bool:
    """Did this mbarrier get too many bytes, as many as another mbarrier of the CTA lacks? The finding is then about the other one."""
    return barrier.doubled is None and barrier.all_brought > barrier.all_expected and _counterpart(barrier) is not None


def unexpected(barrier: Mbarrier) -> Cause | None:
    """A multicast of another CTA whose mask reaches a CTA that expects no bytes at its mbarrier, and waits there."""
    far = [d for d in barrier.sources.values() if d.issuer is not barrier.cta and d.is_multicast]
    if barrier.expecting or not far or len(far) < len(barrier.sources):
        return None
    d, rank, number = far[0], barrier.cta.rank, barrier.cta.number
    why = (
        f"the mask {d.mask:#x} of CTA {d.issuer.number} reaches CTA {number} (bit {rank}), which expects no bytes: {barrier.all_brought} came to "
        f"its mbarrier at {barrier.offset:#x}, and a phase does not end while they are not expected"
    )
    return d.instruction, why, f"the mask {d.mask & ~(1 << rank):#x}, or mbarrier.arrive.expect_tx of {d.size} bytes in CTA {number}"


def _twice(barrier: Mbarrier, first: Delivery, second: Delivery) -> Cause:
    i, cta = second.instruction, second.to
    place = f"shared {second.begin:#x} to {second.begin + second.size - 1:#x} of CTA {cta.number}"
    if first.issuer is not second.issuer:
        both = " and ".join(
            f"CTA {d.issuer.number} (mask {d.mask:#x})" if d.is_multicast else f"CTA {d.issuer.number}" for d in (first, second)
        )
        why = f"line {i.line} brings {place} twice for one expectation, from {both}"
        return i, why, f"leave bit {cta.rank}, of CTA {cta.number}, out of the mask of one of them, or let each load another part"
    if first.instruction is i:
        return (
            i,
            f"line {i.line} is executed twice for one expectation and brings {place} each time",
            "let one thread issue it, once a phase",
        )
    return (
        i,
        f"line {i.line} brings {place}, which line {first.instruction.line} has brought for the same expectation",
        "load it once a phase",
    )


def _sent_elsewhere(barrier: Mbarrier, x: Wave) -> dict[int, list[Delivery]]:
    """Copies that went to other CTAs of the cluster, where their bytes lie at places that nothing came to here; by these places."""
    here = {d.begin for d in barrier.sources.values() if d.to is barrier.cta}
    found: dict[int, list[Delivery]] = {}
    for other in _siblings(barrier, x):
        for key, d in other.sources.items():
            if (
                key not in barrier.sources
                and d.to is other.cta
                and d.begin not in here
                and all(d.key != one.key for one in found.get(d.begin, []))
            ):
                found.setdefault(d.begin, []).append(d)
    return found


def _left_out(barrier: Mbarrier, x: Wave, missing: int) -> Cause | None:
    """Copies that went to other CTAs of the cluster, and would have brought what is missing here: the CTA's own first, else all that would."""
    elsewhere = _sent_elsewhere(barrier, x)
    if not elsewhere or sum(found[0].size for found in elsewhere.values()) != missing:
        return None
    candidates = sorted(next(iter(elsewhere.values())), key=lambda d: (d.issuer is not barrier.cta, d.issuer.index))
    d, rank, number = candidates[0], barrier.cta.rank, barrier.cta.number
    does = f"at line {d.instruction.line} ({d.size} bytes) does not reach CTA {number}"
    if d.is_multicast and len(candidates) > 1 and d.issuer is not barrier.cta:
        who = " or ".join(f"CTA {one.issuer.number} (mask {one.mask:#x})" for one in candidates)
        return (
            d.instruction,
            f"what {who} loads {does}: bit {rank} is in neither mask",
            f"set bit {rank} in the mask of the one whose part CTA {number} needs",
        )
    if d.instruction.op == "cp":
        because = f"its mask {d.mask:#x} leaves out bit {rank}" if d.is_multicast else "it has no .multicast::cluster"
        right = f"multicast with the mask {d.mask | 1 << rank:#x}, or do not expect these bytes in CTA {number}"
        return d.instruction, f"what CTA {d.issuer.number} loads {does}: {because}", right
    why = f"what CTA {d.issuer.number} stores {does}: it goes to CTA {', '.join(str(one.to.number) for one in candidates)} alone"
    return d.instruction, why, f"store it to CTA {number} too, or do not expect these bytes there"


def _at_a_sibling(barrier: Mbarrier, x: Wave, short: int) -> Cause | None:
    """Copies of another CTA that complete on its own mbarrier at the same offset, which nobody told to expect as much."""
    for other in _siblings(barrier, x):
        own = [d for d in other.sources.values() if d.issuer is other.cta and not d.is_multicast]
        if not own or other.all_brought - other.all_expected != short:
            continue
        here, there, of_pair = barrier.cta, other.cta, "cta_group::2" in own[0].instruction.modifiers
        why = (
            f"line {own[0].instruction.line} of CTA {there.number} brings its bytes to its own mbarrier at {barrier.offset:#x}, {short} more in all than "
            f"that expects, and the one at {barrier.offset:#x} of CTA {here.number} lacks as many"
        )
        repair = f"give it the address of CTA {here.number}'s mbarrier" + (
            "" if of_pair else ", with .cta_group::2: without it a load completes in the CTA that it loads into"
        )
        return own[0].instruction, why, f"{repair}; or expect the bytes in CTA {there.number}"
    return None


def _not_issued(barrier: Mbarrier, x: Wave, missing: int) -> Cause | None:
    """A multicast that some CTAs issue and others do not, whose part is missing."""
    issued = {key for other in (barrier, *_siblings(barrier, x)) for key in other.sources}
    for (line, _), d in barrier.sources.items():
        absent = [cta for cta in _members(barrier, x) if (line, cta.index) not in issued]
        if d.is_multicast and absent and missing % d.size == 0 and missing // d.size <= len(absent):
            names = ", ".join(str(cta.number) for cta in absent)
            why = f"line {line} brings {d.size} bytes from CTA {d.issuer.number}, and has not been issued by CTA {names}"
            part = "its part" if len(absent) == 1 else "their parts"
            return d.instruction, why, f"let CTA {names} issue {part} too, or expect {missing} bytes fewer"
    return None


def _counterpart(barrier: Mbarrier) -> Mbarrier | None:
    """An mbarrier of the CTA that lacks as many bytes as this one has too many, or the reverse."""
    short = barrier.all_expected - barrier.all_brought
    found: dict[int, Mbarrier] = barrier.cta.state["mbarriers"]
    return next((b for b in found.values() if b.all_brought - b.all_expected == short and (b if short > 0 else barrier).sources), None)


def _other_barrier(barrier: Mbarrier) -> Cause | None:
    """Copies that complete on another mbarrier of the CTA, which got as much too much."""
    other = _counterpart(barrier)
    if other is None:
        return None
    d, (expects, _) = next(iter(other.sources.values())), next(iter(barrier.expecting.values()))
    too_many = other.all_brought - other.all_expected
    why = (
        f"line {d.instruction.line} brings its bytes to the mbarrier at {other.offset:#x}, {too_many} more in all than it expects, and line "
        f"{expects.line} expects them at another"
    )
    return d.instruction, why, f"give both lines the same mbarrier: {other.offset:#x} is another stage's than {barrier.offset:#x}"


# ---- bytes that were counted wrongly


FACTORS = {2: "twice", 4: "four times", 8: "eight times"}


def miscounted(barrier: Mbarrier, x: Wave, size: int, each: int) -> str:
    """Where a round expects `size` bytes and `each` come: which bytes were forgotten, or counted too often, as far as the numbers say so; "" else."""
    parts = list({d.begin: d for d in barrier.sources.values() if d.to is barrier.cta}.values())
    if size == sum(d.size for d in parts if d.issuer is barrier.cta) < each:
        return f"they are those that CTA {barrier.cta.number} issues itself, and what other CTAs of the cluster multicast to it counts too"
    if size > each and x.launch.cluster_size * each == size:
        return (
            f"they are those of all {x.launch.cluster_size} CTAs of the cluster, and each CTA's mbarrier counts only what comes to that CTA"
        )
    if sum(d.size for d in parts) == each and (left := _uncounted(parts, each - size)):
        return f"what line{'s' * (len(left) > 1)} {' and '.join(map(str, left))} bring{'s' * (len(left) == 1)} was not counted"
    width = "look at the size of an element (1 byte of fp8, 2 of bf16, 4 of fp32)"
    if size % each == 0 and size // each in FACTORS:
        return f"they are {FACTORS[size // each]} as many as come: {width}, and at the box"
    if each % size == 0 and each // size in FACTORS:
        return f"{FACTORS[each // size]} as many come: {width}, and at how many boxes are loaded"
    return ""


def _uncounted(parts: list[Delivery], missing: int) -> list[int]:
    """The lines of the fewest copies that bring just the missing bytes."""
    for count in range(1, min(len(parts), KEPT)):
        for left in itertools.combinations(parts, count):
            if sum(d.size for d in left) == missing:
                return sorted({d.instruction.line for d in left})
    return []


# ---- Mbarrier objects (PTX ISA 9.1 §9.7.13.15): 64 bits of shared memory that count arrivals and bytes, phase after phase


KEPT = 6  # lines remembered for a report
LIVES = "PTX ISA 9.1 §9.7.13.15.9, 9.7.13.15.10: its bytes are nothing else before mbarrier.inval"


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
        """What identifies the copy: its line, and the CTA that issued it."""
        return self.instruction.line, self.issuer.index

    @property
    def mask(self) -> int:
        """`reached` as the operand of .multicast::cluster."""
        return sum(1 << rank for rank in self.reached)

    @property
    def is_multicast(self) -> bool:
        """Does the copy have a CTA mask (.multicast::cluster)?"""
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
        self.passed_by = np.zeros(0, np.int32)  # by thread of the CTA: its next phase, if it leaves none out
        self.missed: np.ndarray | None = None  # threads that have missed the phase that they wait for
        self.asked = -1  # the phase that a wait or test last found not to be over
        self.passed: dict[int, Instruction] = {}  # by line: waits that passed before the first phase had ended
        self.arrived_from: set[int] = set()  # warps of the wave
        self.arrived: set[int] = set()  # threads of the wave (of those that arrive together the first and the last), in the current phase
        self.rounds: list[set[int]] = []  # the same of the last phases that have ended
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
        """The parity of the current phase; 0 for the first phase."""
        return self.phase & 1

    @property
    def is_counting(self) -> bool:
        """May it count bytes: has it done so, or has nobody arrived yet?"""
        return bool(self.expecting or self.sources) or not self.arrivals

    @property
    def runs_ahead(self) -> bool:
        """Did the same threads arrive in the last two phases?"""
        return len(self.rounds) > 1 and self.rounds[0] == self.rounds[1] != set()

    @property
    def is_late(self) -> bool:
        """Do bytes miss that came in an earlier phase, for the same expectation?"""
        return self.tx > 0 and self.of_phase <= self.came

    @property
    def word(self) -> int:
        """The 64 bits of the mbarrier object in shared memory."""
        return self.pending | self.expected << 20 | (self.tx & 0x3FFFFF) << 40 | self.parity << 63

    def __repr__(self) -> str:
        return (
            f"<Mbarrier {self.offset:#x} of CTA {self.cta.number}: phase {self.phase}, {self.pending} arrivals and {self.tx} bytes pending>"
        )

    # ---- what happens to it

    def arrive(self, x: Wave, threads: np.ndarray, count: int = 1, *, i: Instruction | None = None, release: bool = True) -> np.ndarray:
        """`arrive` of all at this one."""
        (tokens,) = arrive(x, [(self, threads)], count, i=i, release=release)
        return tokens

    def _comes(self, x: Wave, threads: np.ndarray, count: int, i: Instruction, *, is_commit: bool, releases: bool) -> None:
        """Note who arrives."""
        self._note("arrives", i)
        if len(threads):  # of warps that arrive together two are enough to tell
            for end in (int(threads[0]), int(threads[-1])):
                self.arrived_from.add(end // WARP)
                self.arrived.add(end)
            self._count_arrivals(x, threads, i, count)
        if x.watch is not None and x.watch.lifetimes.is_needed:
            x.watch.lifetimes.arrives(i, self, self.cta.index, distinct(threads // WARP), is_commit=is_commit, releases=releases)

    def _fitting(self, x: Wave, threads: int, step: int, i: Instruction) -> int:
        """How many of some threads arrive in the current phase, each `step` times."""
        if step > self.pending and not self.pending and self.tx > 0:
            misuse(
                x, i, f"{step} arrivals at the mbarrier at {self.offset:#x} of CTA {self.cta.number}, of whose phase all have come: it waits for {self.tx} bytes", "wait for the phase (mbarrier.try_wait) before arriving in the next; expect only bytes that come",
            )  # fmt: skip
        if step > self.pending:
            misuse(
                x, i, f"{step} arrivals at the mbarrier at {self.offset:#x} of CTA {self.cta.number}, of whose phase only {self.pending} are "
                "left", f"mbarrier.init says {self.expected} arrivals a phase: correct it, or let fewer threads arrive",
            )  # fmt: skip
        return min(threads, self.pending // step)

    def _tell_split(self, x: Wave, i: Instruction) -> None:
        """X010: some lanes of one arrive complete a phase, the other lanes count in the next one, and waiting threads go on without those."""
        x.launch.find(
            "X010", i, f"{i.name}: the lanes of one warp arrive in two phases of the mbarrier at {self.offset:#x} of CTA {self.cta.number}: some are "
            f"the last of phase {self.phase - 1}, the others count in the next one, and who waits does not wait for them",
            f"mbarrier.init says {self.expected} arrivals a phase: correct it, or let fewer threads arrive", because="PTX ISA 9.1 §9.7.13.15",
            milder=Severity.WRONG,
        )  # fmt: skip

    def _count_arrivals(self, x: Wave, threads: np.ndarray, i: Instruction, count: int) -> None:
        """Remember which CTAs arrive by which line."""
        first, last = int(x.cta_of[threads[0]]), int(x.cta_of[threads[-1]])
        of_ctas = {first: len(threads)} if first == last else collections.Counter(x.cta_of[threads].tolist())
        for cta, its in of_ctas.items():
            self.arrivals[i.line, cta] = self.arrivals.get((i.line, cta), 0) + count * its

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
        _settle(x, [self])
        _changed(x, [self])

    def complete_tx(self, x: Wave, size: int, *, i: Instruction | None = None, by: Delivery | None = None) -> None:
        """`size` bytes have come; `by` says by which copy, and where they lie."""
        self._gets(x, size, i or current(x), by)
        _settle(x, [self])
        _changed(x, [self])

    def _gets(self, x: Wave, size: int, i: Instruction, by: Delivery | None) -> None:
        if by is not None:
            self._brought(by)
        self._note("brings bytes", i)
        self.bringing.setdefault(i.line, size)
        self.all_brought += size
        self.tx -= size
        self._check_tx(x, i)

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

    def adds(self, x: Wave, count: int) -> None:
        """The current phase waits for `count` arrivals more, which nobody but the hardware makes; for fewer, where they have come (negative)."""
        self.pending += count
        _settle(x, [self])
        _changed(x, [self])

    def sent(self, by: Delivery) -> None:
        """Remember who stores here by st.async or red.async."""
        self.sources.setdefault(by.key, by)

    @property
    def lines(self) -> set[int]:
        """The lines of the instructions that have arrived, or brought bytes."""
        return {line for by in self.done.values() for line in by}

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

    def _end_phase(self) -> None:
        self.phase += 1
        self.rounds, self.arrived = [*self.rounds[-1:], self.arrived], set()
        self.came |= self.of_phase
        self.of_phase = set()
        self.last, self.deliveries = self.deliveries, []
        self.pending = self.expected

    def _wake(self, x: Wave) -> None:
        """Those who wait for a phase that is over go on."""
        ready, self.waits = [w for w in self.waits if w[1] < self.phase], [w for w in self.waits if w[1] >= self.phase]
        for wait, _ in ready:
            x.wake(wait)

    def check_bytes(self, x: Wave, *, hangs: bool = False, is_to_come: Callable[[], bool] = lambda: False) -> None:
        """T210 when in all other bytes were expected than came: of a barrier at its end, or of one that nothing reaches any more.

        It stands at the copy that is one too many or goes elsewhere, where one can be named, else where the bytes are expected.
        Not where the launch hangs and what is missing came in full in an earlier phase, or nothing has come yet and is still `is_to_come`: then something
        has held the loads up.
        A remark where bytes miss in a phase that nobody has ever asked for: pipelines arm a stage and bring nothing more (CuTe DSL's
        mixed_input_fmha_decode.py), and an mbarrier may end in any phase.
        """
        if (self.waits or self.seen) and (surprise := unexpected(self)) is not None:
            at, why, right = surprise
            x.launch.find("T210", at, why, right, because="PTX ISA 9.1 §9.7.13.15.3")
        if (
            self.all_expected == self.all_brought
            and (again := twice(self)) is not None
            and any(f.code == "R507" for f in x.launch.findings.values())
        ):
            # As many bytes as expected, and others were never written: the second copy was to bring those.
            at, why, right = again
            x.launch.findings.pop(("X005", at.line), None)  # that the copy comes over another in flight, which this explains
            x.launch.find(
                "X005", at, f"{why}, and bytes that are read come with no copy", right, because="PTX ISA 9.1 §8 (memory consistency)"
            )
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
        if cause is None and hangs and not self.all_brought and is_to_come():
            return
        if cause is not None:
            at, why, right = cause
            message, i = f"{why}: {message} at line {i.line}", at
        elif each and each.is_integer() and (why := miscounted(self, x, size, int(each))):
            message, right = f"{message}; of the {size} expected bytes: {why}", f"expect {int(each)} bytes"
        milder, because = None, "PTX ISA 9.1 §9.7.13.15.3"
        if cause is None and not hangs and self.tx > 0 and self.asked != self.phase:
            milder, message = Severity.NOTE, f"{message}; nobody waits for the phase that lacks them"
            right, because = "expect bytes in phases alone that somebody waits for", ""  # no rule is broken: it may end in any phase
        x.launch.find("T210", i, message, right, because=because, milder=milder, touched=self.touched)

    @property
    def touched(self) -> tuple[Touched, ...]:
        """The eight bytes of the mbarrier object in its CTA's window."""
        return (Touched(self.cta.number, self.offset, self.offset + MBARRIER_SIZE),)

    def _note(self, what: str, i: Instruction) -> None:
        self.done[what].setdefault(i.line, i.name)

    # ---- waiting

    def passes(self, i: Instruction, tid: np.ndarray, parity: np.ndarray, done: np.ndarray) -> int:
        """A wait of threads of the CTA for the end of phases of these parities: for which is it over (`done`)? Before the first phase those of parity 1 are so at
        once. Returns how many there are."""
        if self.missed is not None:
            done[:] = self.takes_missed(tid)
        if len(self.passed_by) <= (most := int(tid.max())):
            self.passed_by = np.pad(self.passed_by, (0, (most // WARP + 1) * WARP - len(self.passed_by)))
        count: int = loops.pass_phase(tid, parity, self.parity, self.phase, self.passed_by, done)
        if count:
            self.seen = self.phase
            if not self.phase:
                self.passed.setdefault(i.line, i)
        return count

    def misses(self, tid: np.ndarray) -> np.ndarray:
        """Nobody can go on, and threads wait for the current phase: which of them do so because other lanes of their warp, who had passed that of the same parity
        before, were ahead? They have missed it, as no lane does that hardware runs beside them (Mosaic GPU: one lane multiplies, all of them wait)."""
        if int(tid[-1]) >= len(self.passed_by):
            return np.zeros(len(tid), bool)
        of_warp = self.passed_by.reshape(-1, WARP).max(axis=1)[tid // WARP]
        own = self.passed_by[tid]
        first = own + ((own ^ self.phase) & 1)  # the phase that a thread waits for, if none is left out
        late: np.ndarray = (first < of_warp) & (first < self.phase)
        if late.any():
            self.missed = tid[late] if self.missed is None else np.union1d(self.missed, tid[late])
        return late

    def takes_missed(self, tid: np.ndarray) -> np.ndarray:
        """Which threads have missed a phase; they are told once."""
        missed = tid[:0] if self.missed is None else self.missed
        left = np.setdiff1d(missed, tid)
        self.missed = left if len(left) else None
        return np.isin(tid, missed)

    def park(self, x: Wave, threads: np.ndarray, i: Instruction, expired: Callable[[], None] | None = None) -> Wait:
        """Make threads wait for the current phase; woken, they go on at the block that runs now."""
        phase = self.phase
        wait = x.park(threads, x.at, i, lambda: self.describe(x, phase))
        wait.expired, wait.suspicion, wait.touched = expired, lambda: suspicion(self, i, x), self.touched
        wait.fed = lambda: self.lines
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


def _settle(x: Wave, barriers: Sequence[Mbarrier]) -> None:
    """Phases for which nothing is left to come are over."""
    over = [barrier for barrier in barriers if not (barrier.pending or barrier.tx)]
    if not over:
        return
    for barrier in over:
        barrier._end_phase()
    if x.watch is not None:
        x.watch.complete(over)
    for barrier in over:
        barrier._wake(x)


def _changed(x: Wave, barriers: Sequence[Mbarrier]) -> None:
    x.changes += len(barriers)
    words = x.shared.view(np.uint64)
    for barrier in barriers:
        words[barrier.place >> 3] = barrier.word


def arrive(
    x: Wave, arrivals: Sequence[tuple[Mbarrier, np.ndarray]], count: int = 1, *, i: Instruction | None = None, release: bool = True,
    relaxed: bool = False, scope: int = GPU,
) -> list[np.ndarray]:  # fmt: skip
    """Threads arrive `count` times each at mbarriers, of which none is named twice; a phase that is complete by that ends, and the next begins. Returns their tokens.

    The threads are those of the wave that the watch is told of; the arrival of an asynchronous operation is one of the thread that issued it.
    """
    i = i or current(x)
    for barrier, threads in arrivals:
        barrier._comes(x, threads, count, i, is_commit=not release, releases=release and not relaxed and scope >= CLUSTER)
    if x.watch is not None and release and i.op == "mbarrier":
        x.watch.arrive(i, [(distinct(threads // WARP), barrier) for barrier, threads in arrivals if barrier.phase])
    tokens = [np.empty(len(threads), np.uint64) for _, threads in arrivals]
    left = [(barrier, threads, own) for (barrier, threads), own in zip(arrivals, tokens, strict=True) if len(threads)]
    while left:
        now = [barrier._fitting(x, len(threads), count, i) for barrier, threads, _ in left]
        for (barrier, _, own), steps in zip(left, now, strict=True):
            if steps == 1:
                own[0] = barrier.word
            else:
                own[:steps] = np.uint64(barrier.word) - np.arange(0, steps * count, count, dtype=np.uint64)
            barrier.pending -= steps * count
        if x.watch is not None and release:
            come = [(threads[:steps], barrier) for (barrier, threads, _), steps in zip(left, now, strict=True)]
            x.watch.release_at(x, come, relaxed=relaxed, scope=scope)
        phases = [barrier.phase for barrier, _, _ in left]
        _settle(x, [barrier for barrier, _, _ in left])
        for (barrier, threads, _), steps, phase in zip(left, now, phases, strict=True):
            if barrier.phase != phase and steps < len(threads) and threads[steps - 1] // WARP == threads[steps] // WARP:
                barrier._tell_split(x, i)
        left = [
            (barrier, threads[steps:], own[steps:])
            for (barrier, threads, own), steps in zip(left, now, strict=True)
            if steps < len(threads)
        ]
    _changed(x, [barrier for barrier, _ in arrivals])
    return tokens


def bring(x: Wave, barriers: Sequence[Mbarrier], size: int, by: Sequence[Delivery]) -> None:
    """`complete_tx` of mbarriers of different CTAs."""
    i = current(x)
    for barrier, delivery in zip(barriers, by, strict=True):
        barrier._gets(x, size, i, delivery)
    _settle(x, barriers)
    _changed(x, barriers)


def current(x: Wave) -> Instruction:
    """The instruction that the wave executes now."""
    instructions = x.program.blocks[x.at].instructions
    return instructions[min(x.step, len(instructions) - 1)]


def mbarriers(cta: Cta) -> dict[int, Mbarrier]:
    """The mbarriers of a CTA that are initialised, by their offset."""
    found: dict[int, Mbarrier] = cta.state.setdefault("mbarriers", {})
    return found


def initialise(x: Wave, cta: Cta, offset: int, count: int, i: Instruction, threads: np.ndarray) -> Mbarrier:
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
        _check_pending(x, old, i, threads, "initialises")
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
    """`mbarrier.inval` by threads: the bytes are free again. Silicon does nothing: an H100 left the word as it was, with and without an mbarrier there."""
    if offset not in mbarriers(cta):
        x.launch.find(
            "X010", i, f"there is no mbarrier at {offset:#x} of CTA {cta.number}: none was initialised, or it was invalidated before",
            "one mbarrier.inval for each mbarrier.init", because=LIVES, milder=Severity.LUCK,
        )  # fmt: skip
        return
    barrier = mbarrier_of(x, cta, offset, i)
    barrier.check_bytes(x)
    if barrier.waits:
        misuse(
            x,
            i,
            f"the mbarrier at {offset:#x} of CTA {cta.number} is invalidated while threads wait at it",
            "a barrier (bar.sync) in front of it",
        )
    _check_pending(x, barrier, i, threads, "invalidates")
    del mbarriers(cta)[offset]


def _check_pending(x: Wave, barrier: Mbarrier, i: Instruction, threads: np.ndarray, does: str) -> None:
    """X005 where threads end an mbarrier on which a copy may still complete."""
    pending = x.watch.not_waited_for(barrier, threads) if x.watch is not None else None
    if pending is not None:
        x.launch.find(
            "X005", i, f"{does} the mbarrier at {barrier.offset:#x} of CTA {barrier.cta.number}, on which {pending.instruction.name} of line "
            f"{pending.instruction.line} may still complete: these threads have not waited for it",
            "wait for its phase (mbarrier.try_wait) and for all who do, then mbarrier.inval", because=LIVES,
        )  # fmt: skip


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
    found = (x.watch.last_writer(word) for word in words)
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
