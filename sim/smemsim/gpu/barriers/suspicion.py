"""Of the waits at mbarriers that never end: which is likeliest the cause of the hang, and what to change there; and which copy is the one that
brought too much, or too little, to an mbarrier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from smemsim.gpu.wave import WARP, Cta
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.gpu.barriers.mbarrier import Delivery, Mbarrier
    from smemsim.gpu.wave import Wave

__all__ = ["before_loads", "is_wait", "lends", "missing_arrivals", "suspicion", "twice", "unexpected", "wrong_delivery"]

Cause = tuple[Instruction, str, str]  # where, why, and what to change


def suspicion(barrier: Mbarrier, i: Instruction, x: Wave) -> tuple[int, str]:
    """Of a wait at a barrier that never ends: how far it is from the cause of the hang (0 is nearest), and what to change."""
    if unseen := barrier.phase - barrier.seen:
        last = barrier.phase - 1
        if ignored := _ignored(barrier):
            names = ", ".join(f"{offset:#x}" for offset in ignored)
            return 0, f"wait for the mbarrier of the stage that is read: phases of {names} are over, and nobody has ever waited for one"
        if unseen == 1:
            return 0, f"phase {last} is over, and no wait has seen it: wait for parity {last & 1}, or one arrival fewer"
        return 0, (
            f"phases {barrier.seen} to {last} went by without a wait: more arrive in a round than the {barrier.expected} that mbarrier.init "
            "says; correct that count, or let fewer threads arrive"
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
    stuck = {int(warp) for wait in x.waiting for warp in np.unique(wait.threads // WARP)}
    return (1 if barrier.arrived_from and not barrier.arrived_from & stuck else 4), ""  # who arrived before goes on, or waits as well


def _ignored(barrier: Mbarrier) -> list[int]:
    """The other mbarriers of the CTA that copies complete on, as on this one, and that nobody has ever waited for."""
    others: dict[int, Mbarrier] = barrier.cta.state["mbarriers"] if barrier.sources else {}
    return [offset for offset, b in others.items() if b.sources and b.phase and not (b.seen or b.passed or b.waits)]


def before_loads(i: Instruction, x: Wave) -> bool:
    """Do loads that complete on an mbarrier come behind this wait, before the next: does a producer wait here for a free stage?"""
    body = x.program.inlined.body
    at = next((n for n, other in enumerate(body) if other is i), len(body))
    for other in body[at + 1 :]:
        if is_wait(other):
            return False
        if other.op == "cp" and "mbarrier::complete_tx::bytes" in other.modifiers:
            return True
    return False


def is_wait(i: Instruction) -> bool:
    """Is it a wait at an mbarrier?"""
    return i.op == "mbarrier" and i.modifiers[0] in ("try_wait", "test_wait")


# ---- arrivals of the other CTAs of a cluster


def _members(barrier: Mbarrier, x: Wave) -> list[Cta]:
    """The CTAs of its cluster, by their rank."""
    first = barrier.cta.index - barrier.cta.rank
    return x.ctas[first : first + x.launch.cluster_size]


def _siblings(barrier: Mbarrier, x: Wave) -> Iterator[Mbarrier]:
    """The mbarriers at the same offset in the other CTAs of its cluster."""
    for cta in _members(barrier, x):
        other = cta.state.get("mbarriers", {}).get(barrier.offset)
        if other is not None and other is not barrier:
            yield other


def _never_here(barrier: Mbarrier, x: Wave) -> list[Cta]:
    """The CTAs of its cluster that have never arrived, where another one has."""
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
    """Of a phase in which some have arrived: which CTAs of the cluster never have, where they arrive instead, and what to change."""
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
    return _left_out(barrier, x, missing) or _not_issued(barrier, x, missing) or _other_barrier(barrier)


def twice(barrier: Mbarrier) -> Cause | None:
    """Two copies that bring the same bytes for one expectation: where, why, and what to change."""
    return None if barrier.doubled is None else _twice(barrier, *barrier.doubled)


def lends(barrier: Mbarrier) -> bool:
    """Has it got too many bytes, as many as another mbarrier of the CTA lacks? That one tells."""
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


def _left_out(barrier: Mbarrier, x: Wave, missing: int) -> Cause | None:
    """Copies that went to other CTAs of the cluster, and would have brought what is missing here."""
    here = {d.begin for d in barrier.sources.values() if d.to is barrier.cta}
    found: dict[tuple[int, int], Delivery] = {}
    for other in _siblings(barrier, x):
        found.update(
            {key: d for key, d in other.sources.items() if key not in barrier.sources and d.to is other.cta and d.begin not in here}
        )
    if not found or sum(d.size for d in found.values()) != missing:
        return None
    d, rank = next(iter(found.values())), barrier.cta.rank
    because = f"its mask {d.mask:#x} leaves out bit {rank}" if d.is_multicast else "it has no .multicast::cluster"
    why = (
        f"what CTA {d.issuer.number} loads at line {d.instruction.line} ({d.size} bytes) does not reach CTA {barrier.cta.number}: {because}"
    )
    return (
        d.instruction,
        why,
        f"multicast with the mask {d.mask | 1 << rank:#x}, or do not expect these bytes in CTA {barrier.cta.number}",
    )


def _not_issued(barrier: Mbarrier, x: Wave, missing: int) -> Cause | None:
    """A multicast that some CTAs issue and others do not, whose part is missing."""
    issued = {key for other in (barrier, *_siblings(barrier, x)) for key in other.sources}
    for (line, _), d in barrier.sources.items():
        absent = [cta for cta in _members(barrier, x) if (line, cta.index) not in issued]
        if d.is_multicast and absent and d.size * len(absent) == missing:
            names = ", ".join(str(cta.number) for cta in absent)
            why = f"line {line} brings {d.size} bytes from CTA {d.issuer.number}, and has not been issued by CTA {names}"
            return d.instruction, why, f"let CTA {names} issue its part too, or expect {missing} bytes fewer"
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
