"""Suspicious facts about mbarriers. If waits never end, the likeliest cause is named. If bytes were counted wrongly,
the copy is named. Both have the change to make.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.finding import Half, Touched, Value, expect_words, of_ctas, ranges
from smemsim.core.ptx.module import Instruction, Register
from smemsim.core.ptx.origins import number_of, origin
from smemsim.core.spec.barriers import MBARRIER_ARRIVALS
from smemsim.core.spec.findings import Severity
from smemsim.run.engine.held_up import could_come, feeders
from smemsim.run.engine.wave import EXITED, WARP, Cta, Wait
from smemsim.run.isa.barriers.byte_rounds import Event
from smemsim.run.isa.barriers.mbarrier import ADDS_OWN, Delivery, Mbarrier
from smemsim.run.isa.barriers.misdirected import members, misdirected, siblings
from smemsim.run.lower.waits import before_loads, is_wait
from smemsim.run.views import mbarriers

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave

__all__ = ["before_loads", "check_bytes", "is_wait", "park", "suspicion"]


KEPT = 6  # lines remembered for a report
SHOWN_WAYS = 3  # copies that a report names as possibly forgotten
DONE = {  # in words, by the keys of `State.done`
    "arrives": "arrivals by",
    "expects bytes": "bytes expected by",
    "brings bytes": "bytes brought by",
    ADDS_OWN: "arrivals that the instruction itself adds by",
}


# ---- The waits at mbarriers that never end: the likeliest cause of the hang, and what to change there; and the copy
# that brought too many, or too few, bytes to an mbarrier


Cause = tuple[Instruction, str, str]  # where, why, and what to change


def _seen(barrier: Mbarrier, x: Wave) -> int:
    """The phases that had ended when a wait last passed. A thread that arrives may wait for its own phases, too. Then
    it is how many phases the other threads have passed that wait here: they may have missed what the first one saw.
    """
    passed, state = barrier.state.passed, barrier.state
    begin = barrier.cta.rank * x.stride // WARP
    waiting = {n for wait, _ in barrier.waits for n in (x.tid[wait.threads] // WARP).tolist()}
    by_warp = [*enumerate(passed.by_thread.reshape(-1, WARP).max(axis=1, initial=0).tolist())]
    arrivers = [most for n, most in by_warp if begin + n in state.arrivals.warps]
    others = [most for n, most in by_warp if (most or n in waiting) and begin + n not in state.arrivals.warps]
    return max(others) if others and max(arrivers, default=0) >= passed.seen > max(others) else passed.seen


def suspicion(barrier: Mbarrier, i: Instruction, x: Wave) -> tuple[int, str]:
    """For a wait that never ends: how far it is from the cause of the hang (0 is nearest), and what to change."""
    state = barrier.state
    if (elsewhere := misdirected(barrier, x)) is not None:
        return 0, elsewhere[1]
    if state.phase > _seen(barrier, x):
        return 0, _unseen(barrier, i, x)
    if state.pending and (lines := state.done.get(ADDS_OWN)):
        return (
            1,
            f"cp.async.mbarrier.arrive.noinc in {x.program.at(min(lines))}: without .noinc the instruction adds the arrival that it makes; none of the {state.expected} of mbarrier.init arrive",
        )
    if state.pending != state.expected and state.pending:
        absent = _never_here(barrier, x)
        if absent:  # a thread that has arrived nowhere and waits for something else is held up by that
            goes_on = any(_arrives_elsewhere(barrier, x, cta) or not _is_stuck(x, barrier, cta) for cta in absent)
            return 0 if goes_on else 3, missing_arrivals(barrier, x)[1]
        if (left := _left(barrier, x)) is not None:
            return 1, left
        return (
            1,
            f"let the missing threads arrive too, or correct the count of mbarrier.init in {barrier.made.at} (now {state.expected})",
        )
    if state.tx < 0 and not state.bytes.expecting:
        issuers = {d.issuer for d in state.deliveries.sources.values()}
        is_own = issuers == {barrier.cta.rank} or x.launch.cluster_size == 1
        who = "the thread that issues the copies" if is_own else f"a thread of CTA {barrier.cta.number}"
        return 1, f"mbarrier.arrive.expect_tx of {-state.tx} bytes by {who}"
    if state.tx:
        return (4, "") if state.is_late else _missing_bytes(barrier, x)
    if not any(state.done.values()):
        return _nothing_came(barrier, i, x)
    if not state.expected:
        drops = [site for site in state.done["arrives"] if "arrive_drop" in x.program.sites[site].modifiers]
        return 1, f"mbarrier.arrive instead of mbarrier.arrive_drop in {x.program.at(*drops)}, or remove the wait in {i.at}"
    own = {id(wait) for wait, _ in barrier.waits}
    first = (barrier.cta.index - barrier.cta.rank) * x.stride // WARP  # warps that arrive are numbered in their cluster
    stuck = {(int(warp) - first, id(wait) in own) for wait in x.positions.waiting for warp in distinct(wait.threads // WARP)}
    # threads that arrived before go on, or wait too
    is_held = state.arrivals.warps & {warp for warp, _ in stuck}
    before = x.program.at(*state.done["arrives"])
    if not before or state.arrivals.warps & {warp for warp, is_here in stuck if not is_here}:
        repair = ""
    else:
        repair = f"let {before} arrive once more, for phase {state.phase}, or remove the wait in {i.at}"
    return (1 if state.arrivals.warps and not is_held else 4), repair


def _left(barrier: Mbarrier, x: Wave) -> str | None:
    """The change if all warps whose arrivals are missing arrived in earlier phases, and have exited since."""
    overdue = _participants(barrier, x)[1]
    if not overdue.size or (x.pc[overdue] < EXITED).any():
        return None
    return (
        "mbarrier.arrive_drop in these warps before they exit, so that later phases expect fewer arrivals; or let them arrive in each phase"
    )


def _nothing_came(barrier: Mbarrier, i: Instruction, x: Wave) -> tuple[int, str]:
    """`suspicion` if no thread has arrived, and no bytes have come."""
    state = barrier.state
    if (commit := _commit_elsewhere(barrier, x)) is not None:
        return 0, commit[1]
    name = x.launch.program.places.mbarrier_named(barrier.offset)
    if not before_loads(i, x):
        return (
            3,
            f"let a thread arrive at {name} (mbarrier.arrive; with copies mbarrier.arrive.expect_tx); or wait for another mbarrier in {i.at}",
        )
    readers = f"let the readers of {'a' if state.passed.at_first else 'the'} stage arrive at {name} after their reads (mbarrier.arrive, tcgen05.commit)"
    if state.passed.at_first:
        return 2, readers
    return (
        2,
        f"wait for parity 1 in {i.at}, if no load has filled the stage yet: at a new mbarrier that wait passes at once; or {readers}",
    )


def _missing_bytes(barrier: Mbarrier, x: Wave) -> tuple[int, str]:
    """`suspicion` if all arrivals of a phase have come, and copies have brought too few bytes."""
    state = barrier.state
    if state.tx < 0 or not state.bytes.brought or not state.bytes.expecting:
        return 1, ""
    cause = wrong_delivery(barrier, x, state.tx)
    if cause is not None:
        return 1, cause[2]
    count = _Count(barrier, x)
    bring = f"let copies bring the {state.tx} missing bytes"
    is_held = count.is_held_up or any(_is_stuck(x, barrier, members(barrier, x)[rank]) for rank in _idle(barrier, x))
    return (4, bring) if is_held else (1, f"expect {state.tx} bytes fewer in {count.at.at}, or {bring}")


def _unseen(barrier: Mbarrier, i: Instruction, x: Wave) -> str:
    """The change if phases are complete that no wait has seen."""
    state, last = barrier.state, barrier.state.phase - 1
    count = f"correct the count of mbarrier.init in {barrier.made.at} (now {state.expected}), or let fewer threads arrive"
    if ignored := _ignored(barrier):
        names = ", ".join(f"{offset:#x}" for offset in ignored)
        other = f"wait for the mbarrier at {names} if this line reads its stage: its phases completed, and no thread has waited for them"
        return f"{count}; or {other}" if len(state.done["arrives"]) > state.expected and not state.arrivals.run_ahead else other
    if last == _seen(barrier, x):
        lines = x.program.at(*state.done["arrives"])
        if "parity" not in i.modifiers:
            return f"wait in {i.at} with the state that the thread's last arrival returned{f' ({lines})' if lines else ''}"
        early = f"; if parity {state.phase & 1} is right, {lines} must arrive once less before this wait" if lines else ""
        return f"wait for parity {last & 1} in {i.at}{early}"
    if state.arrivals.run_ahead:
        return (
            "before they arrive again, let the arriving threads wait until this thread has gone on (a second mbarrier), "
            "or let one of them arrive at another mbarrier"
        )
    if (both := _commits_of_both(barrier, x)) is not None:
        return f"let one CTA of the pair alone execute {both.at}: it arrives in both, if the mask names both"
    return count


def _why_unseen(barrier: Mbarrier, i: Instruction, x: Wave, phase: int) -> str:
    """Why a wait is for a phase that does not end, if phases before it are complete that no wait has seen."""
    state, seen, last = barrier.state, _seen(barrier, x), barrier.state.phase - 1
    is_partial = seen < state.passed.seen
    lines = x.program.at(*state.done["arrives"])
    waits = f"the wait is for phase {phase} (parity {phase & 1}) of {_named(barrier, x)}"
    if "parity" not in i.modifiers:
        waits = f"the state of {i.name} is of phase {phase}, or of an earlier phase of the same parity, of {_named(barrier, x)}"
    if last == seen:
        return f"{waits}, but {'only ' * (not seen)}phase {last} is complete{f' (by arrivals of {lines})' if lines else ''}, and {'these threads have not' if is_partial else 'no thread'} waited for that phase"
    before = f"phases {ranges(range(seen, last + 1))} completed without a wait{' of these threads' * is_partial}"
    if state.arrivals.run_ahead:
        return f"{waits}, because {before}: the same threads arrived in each{f', in {lines}' if lines else ''}"
    came = (last - seen + 2) * state.expected - state.pending
    return f"{waits}, because {before}: {came} arrivals came{f' by {lines}' if lines else ''}, and {state.expected} complete{'s' * (state.expected == 1)} a phase"


def _named(barrier: Mbarrier, x: Wave) -> str:
    return f"{_placed(barrier, x)} of CTA {barrier.cta.number}"


def _placed(barrier: Mbarrier, x: Wave) -> str:
    """An mbarrier by its name and address, without its CTA."""
    name = x.launch.program.places.mbarrier_at(barrier.offset)
    return f"the mbarrier {f'{name} ({barrier.offset:#x})' if name else f'at {barrier.offset:#x}'}"


def _ignored(barrier: Mbarrier) -> list[int]:
    """The other mbarriers of the CTA on which copies complete, as on this one, and on which no thread
    has ever waited.
    """
    others: dict[int, Mbarrier] = mbarriers(barrier.cta) if barrier.state.deliveries.sources else {}
    return [
        offset
        for offset, b in others.items()
        if b.state.deliveries.sources and b.state.phase and not (b.state.passed.seen or b.state.passed.at_first or b.waits)
    ]


# ---- arrivals of the other CTAs of a cluster


def _never_here(barrier: Mbarrier, x: Wave) -> list[Cta]:
    """The CTAs of the cluster that have never arrived at an mbarrier that another CTA has arrived at."""
    came = {rank for _, rank in barrier.state.arrivals.by_site}
    return [cta for cta in members(barrier, x) if cta.rank not in came] if came else []


def _is_stuck(x: Wave, barrier: Mbarrier, cta: Cta) -> bool:
    """Do threads of a CTA wait at another mbarrier?"""
    others = (wait for wait in x.positions.waiting if wait.expired is not None and all(wait is not own for own, _ in barrier.waits))
    return any((x.cta_of[wait.threads] == cta.index).any() for wait in others)


def _arrives_elsewhere(barrier: Mbarrier, x: Wave, cta: Cta) -> bool:
    """Has a CTA arrived at the same mbarrier of another CTA?"""
    return any(by == cta.rank for other in siblings(barrier, x) for _, by in other.state.arrivals.by_site)


def missing_arrivals(barrier: Mbarrier, x: Wave) -> tuple[str, str]:
    """For an incomplete phase with some arrivals: the CTAs of the cluster that never arrived, the barriers that they
    arrive at, and what to change.
    """
    text, repair = "", ""
    if 0 < barrier.state.pending < barrier.state.expected and (commit := _commit_elsewhere(barrier, x)) is not None:
        return f"; {commit[0]}", commit[1]
    for cta in _never_here(barrier, x) if 0 < barrier.state.pending < barrier.state.expected else ():
        instead = [(site, other) for other in siblings(barrier, x) for site, by in other.state.arrivals.by_site if by == cta.rank]
        if instead:
            site, other = instead[0]
            text += f"; CTA {cta.number} has arrived at the mbarrier of CTA {other.cta.number} ({x.program.at(site)}), never at this one"
        else:
            text += f"; CTA {cta.number} has never arrived"
        repair = repair or (
            f"let CTA {cta.number} arrive here too: mapa of the address to rank {barrier.cta.rank}, and mbarrier.arrive.release.cluster."
            f"shared::cluster there; or correct the count of mbarrier.init in {barrier.made.at} (now {barrier.state.expected})"
        )
    return text, repair


def _commit_elsewhere(barrier: Mbarrier, x: Wave) -> tuple[str, str] | None:
    """A tcgen05.commit that arrives at this mbarrier's place in other CTAs of the cluster, and not here: what it lacks,
    and the change. A CTA that could still come to a commit may only be late.
    """
    group, rank = [barrier, *siblings(barrier, x)], barrier.cta.rank
    by = next(
        (
            by
            for other in group[1:]
            for by in sorted(other.state.arrivals.by_site)
            if by not in barrier.state.arrivals.by_site and _is_commit(x, by)
        ),
        None,
    )
    if by is None:
        return None
    site, issuer = by
    own = np.arange(barrier.cta.index * x.stride, (barrier.cta.index + 1) * x.stride)
    commits = (i.site for i in x.program.inlined.body if i.op == "tcgen05" and i.modifiers[0] == "commit")
    i, ctas = x.program.sites[site], members(barrier, x)
    # one thread of a pair of CTAs commits for both
    is_of_peer = "cta_group::2" in i.modifiers and issuer == rank ^ 1
    if not barrier.state.arrivals.by_site and not is_of_peer and could_come(x, own, commits).size:
        return None
    reached = [b.cta for b in group if by in b.state.arrivals.by_site]
    mask = sum(1 << cta.rank for cta in reached)
    if "multicast::cluster" in i.modifiers:
        lacks = f"the mask {mask:#x} of {i.at} in CTA {ctas[issuer].number} leaves out bit {rank}: it does not arrive in CTA {barrier.cta.number}"
    else:
        lacks = f"{i.at} in CTA {ctas[issuer].number} has no .multicast::cluster: it arrives in CTA {', '.join(str(cta.number) for cta in reached)} only"
    return lacks, f"tcgen05.commit with .multicast::cluster and the mask {mask | 1 << rank:#x} in {i.at}"


def _commits_of_both(barrier: Mbarrier, x: Wave) -> Instruction | None:
    """A tcgen05.commit of a pair that both of its CTAs have executed, for one mbarrier."""
    came = barrier.state.arrivals.by_site
    both = next((site for site, rank in sorted(came) if (site, rank ^ 1) in came and _is_commit(x, (site, rank))), None)
    i = None if both is None else x.program.sites[both]
    return i if i is not None and "cta_group::2" in i.modifiers else None


def _is_commit(x: Wave, by: tuple[int, int]) -> bool:
    """Is an arrival, by its site and its CTA, that of a tcgen05.commit?"""
    return x.program.sites[by[0]].op == "tcgen05"


# ---- bytes that came twice, or elsewhere


def wrong_delivery(barrier: Mbarrier, x: Wave, missing: int) -> Cause | None:
    """The copy that is one too many, or that has a wrong destination, if the bytes show it. Returns its instruction,
    the reason, and the change to make. In a phase `missing` bytes are missing.
    """
    if barrier.state.deliveries.doubled is not None:
        return _twice(barrier, x, *barrier.state.deliveries.doubled)
    short = barrier.state.bytes.expected - barrier.state.bytes.brought
    if barrier.state.deliveries.repeated is not None and short < 0 and short % barrier.state.deliveries.repeated[1].size == 0:
        return _twice(barrier, x, *barrier.state.deliveries.repeated)
    if short <= 0:
        return None
    return (
        _left_out(barrier, x, missing) or _at_a_sibling(barrier, x, short) or _not_issued(barrier, x, missing) or _other_barrier(barrier, x)
    )


def twice(barrier: Mbarrier, x: Wave) -> Cause | None:
    """Two copies that bring the same bytes for one expectation: where, why, and what to change."""
    return None if barrier.state.deliveries.doubled is None else _twice(barrier, x, *barrier.state.deliveries.doubled)


def lends(barrier: Mbarrier) -> bool:
    """Did this mbarrier get too many bytes, as many as another mbarrier of the CTA lacks? The finding is then about
    the other one.
    """
    return (
        barrier.state.deliveries.doubled is None
        and barrier.state.bytes.brought > barrier.state.bytes.expected
        and _counterpart(barrier) is not None
    )


def unexpected(barrier: Mbarrier, x: Wave) -> Cause | None:
    """A multicast of another CTA whose mask reaches a CTA that expects no bytes at its mbarrier, and waits there."""
    far = [d for d in barrier.state.deliveries.sources.values() if d.issuer != barrier.cta.rank and d.is_multicast]
    if barrier.state.bytes.expecting or not far or len(far) < len(barrier.state.deliveries.sources):
        return None
    d, rank, number = far[0], barrier.cta.rank, barrier.cta.number
    why = (
        f"the mask {d.mask:#x} of CTA {members(barrier, x)[d.issuer].number} sends {barrier.state.bytes.brought} bytes to the mbarrier at {barrier.offset:#x} of CTA {number} "
        f"(bit {rank}), which expects none"
    )
    return d.instruction, why, f"the mask {d.mask & ~(1 << rank):#x}, or mbarrier.arrive.expect_tx of {d.size} bytes in CTA {number}"


def _twice(barrier: Mbarrier, x: Wave, first: Delivery, second: Delivery) -> Cause:
    ctas = members(barrier, x)
    i, cta = second.instruction, ctas[second.to]
    place = f"{x.launch.program.places.shared_named(second.begin, second.begin + second.size - 1)} of CTA {cta.number}"
    if first.issuer != second.issuer:
        both = " and ".join(f"CTA {ctas[d.issuer].number}" + (f" (mask {d.mask:#x})" if d.is_multicast else "") for d in (first, second))
        why = f"{place} is loaded at {i.at} twice for one expect_tx, from {both}"
        return i, why, f"leave bit {cta.rank}, of CTA {cta.number}, out of the mask of one of them, or let each load another part"
    if first.instruction is i:
        return (
            i,
            f"{place} is loaded twice for one expect_tx: {i.at} is executed twice",
            "let one thread issue it, once a phase",
        )
    return (
        i,
        f"{place} is loaded twice for one expect_tx: {i.at} loads it again after {first.instruction.at}",
        "load it once a phase",
    )


def _sent_elsewhere(barrier: Mbarrier, x: Wave) -> dict[int, list[Delivery]]:
    """Copies that went to other CTAs of the cluster, where their bytes lie at places that nothing came to here; by
    these places.
    """
    here = {d.begin for d in barrier.state.deliveries.sources.values() if d.to == barrier.cta.rank}
    found: dict[int, list[Delivery]] = {}
    for other in siblings(barrier, x):
        for key, d in other.state.deliveries.sources.items():
            if (
                key not in barrier.state.deliveries.sources
                and d.to == other.cta.rank
                and d.begin not in here
                and all(d.key != one.key for one in found.get(d.begin, []))
            ):
                found.setdefault(d.begin, []).append(d)
    return found


def _left_out(barrier: Mbarrier, x: Wave, missing: int) -> Cause | None:
    """Copies that went to other CTAs of the cluster, and would have brought what is missing here: the CTA's own
    first, else all that would.
    """
    elsewhere = _sent_elsewhere(barrier, x)
    if not elsewhere or sum(found[0].size for found in elsewhere.values()) != missing:
        return None
    candidates = sorted(next(iter(elsewhere.values())), key=lambda d: (d.issuer != barrier.cta.rank, d.issuer))
    d, rank, number, ctas = candidates[0], barrier.cta.rank, barrier.cta.number, members(barrier, x)
    does = f"at {d.instruction.at} ({d.size} bytes) does not reach CTA {number}"
    if d.is_multicast and len(candidates) > 1 and d.issuer != rank:
        who = " or ".join(f"CTA {ctas[one.issuer].number} (mask {one.mask:#x})" for one in candidates)
        return (
            d.instruction,
            f"the load of {who} {does}: bit {rank} is in neither mask",
            f"set bit {rank} in the mask of the one whose part CTA {number} needs",
        )
    if d.instruction.op == "cp":
        because = f"its mask {d.mask:#x} leaves out bit {rank}" if d.is_multicast else "it has no .multicast::cluster"
        right = f"multicast with the mask {d.mask | 1 << rank:#x}, or do not expect these bytes in CTA {number}"
        return d.instruction, f"the load of CTA {ctas[d.issuer].number} {does}: {because}", right
    why = (
        f"the store of CTA {ctas[d.issuer].number} {does}: it goes to CTA {', '.join(str(ctas[one.to].number) for one in candidates)} only"
    )
    return d.instruction, why, f"store it to CTA {number} too, or do not expect these bytes there"


def _at_a_sibling(barrier: Mbarrier, x: Wave, short: int) -> Cause | None:
    """Copies of another CTA that complete on its own mbarrier at the same offset, without as many
    expected bytes there.
    """
    for other in siblings(barrier, x):
        own = [d for d in other.state.deliveries.sources.values() if d.issuer == other.cta.rank and not d.is_multicast]
        if not own or other.state.bytes.brought - other.state.bytes.expected != short:
            continue
        here, there, of_pair = barrier.cta, other.cta, "cta_group::2" in own[0].instruction.modifiers
        why = (
            f"{own[0].instruction.at} of CTA {there.number} completes on its own mbarrier at {barrier.offset:#x}, {short} bytes more than that expects; "
            f"the mbarrier of CTA {here.number} lacks as many"
        )
        repair = f"give it the address of CTA {here.number}'s mbarrier" + (
            "" if of_pair else ", with .cta_group::2: without it a load completes in the CTA that it loads into"
        )
        return own[0].instruction, why, f"{repair}; or expect the bytes in CTA {there.number}"
    return None


def _not_issued(barrier: Mbarrier, x: Wave, missing: int) -> Cause | None:
    """A multicast that some CTAs issue and others do not, whose part is missing. If a phase was complete without them,
    none is missing.
    """
    if any(r.brought and r.expected == r.brought for r in barrier.state.byte_rounds):
        return None
    issued = {key for other in (barrier, *siblings(barrier, x)) for key in other.state.deliveries.sources}
    for (line, _), d in barrier.state.deliveries.sources.items():
        absent = [cta for cta in members(barrier, x) if (line, cta.rank) not in issued]
        if d.is_multicast and absent and missing % d.size == 0 and missing // d.size <= len(absent):
            names = ", ".join(str(cta.number) for cta in absent)
            why = f"{d.instruction.at} loads {d.size} bytes in CTA {members(barrier, x)[d.issuer].number}; CTA {names} has not issued it"
            part = "its part" if len(absent) == 1 else "their parts"
            return d.instruction, why, f"let CTA {names} issue {part} too, or expect {missing} bytes fewer"
    return None


def _idle(barrier: Mbarrier, x: Wave) -> list[int]:
    """The ranks of the CTAs of a cluster that have issued no copy to an mbarrier at this place, if others have."""
    came = {d.issuer for other in (barrier, *siblings(barrier, x)) for d in other.state.deliveries.sources.values()}
    return [cta.rank for cta in members(barrier, x) if cta.rank not in came] if came else []


def _counterpart(barrier: Mbarrier) -> Mbarrier | None:
    """An mbarrier of the CTA that lacks as many bytes as this one has too many, or the reverse."""
    short = barrier.state.bytes.expected - barrier.state.bytes.brought
    found: dict[int, Mbarrier] = mbarriers(barrier.cta)
    return next(
        (
            b
            for b in found.values()
            if b.state.bytes.brought - b.state.bytes.expected == short and (b if short > 0 else barrier).state.deliveries.sources
        ),
        None,
    )


def _other_barrier(barrier: Mbarrier, x: Wave) -> Cause | None:
    """Copies that complete on another mbarrier of the CTA, which got as much too much. It is one of just so many bytes,
    if there is one, in a phase that got too many.
    """
    other = _counterpart(barrier)
    if other is None:
        return None
    known = [i for i, _ in barrier.state.bytes.expecting.values()], [*other.state.deliveries.sources.values()]
    expects = [e.instruction for r in barrier.state.byte_rounds if r.brought < r.expected for e in r.expects] or known[0]
    too_many = other.state.bytes.brought - other.state.bytes.expected
    wrong = {e.instruction.line for r in other.state.byte_rounds if r.expected != r.brought for e in r.brings}
    every = [d for d in known[1] if d.instruction.line in wrong] or known[1]
    found = list(dict.fromkeys(d.instruction for d in [d for d in every if d.size == too_many] or every))
    one = found[0].at if len(found) == 1 else f"one of {x.program.at(*(i.line for i in found))}"
    why = (
        f"{one} completes on the mbarrier at {other.offset:#x}, {too_many} bytes more than it expects; {expects[0].at} expects them "
        "at another mbarrier"
    )
    return found[0], why, f"give both lines the same mbarrier: {other.offset:#x} and {barrier.offset:#x} belong to different stages"


# ---- bytes that were counted wrongly


FACTORS = {2: "twice", 4: "four times", 8: "eight times"}
PARTS = {2: "half", 4: "a quarter", 8: "an eighth"}


def miscounted(barrier: Mbarrier, x: Wave, size: int, each: int, lines: Collection[int]) -> str:
    """A round expects `size` bytes and gets `each`, by copies of some lines: the bytes that were forgotten, or counted
    too often, if the numbers show it; else "".
    """
    parts = list(
        {d.begin: d for d in barrier.state.deliveries.sources.values() if d.to == barrier.cta.rank and d.instruction.line in lines}.values()
    )
    others = [d for d in barrier.state.deliveries.sources.values() if d.issuer != barrier.cta.rank]
    if others and size == sum(d.size for d in parts if d.issuer == barrier.cta.rank) < each:
        if any(d.is_multicast for d in others):
            return f"count the loads of CTA {barrier.cta.number} only; the multicasts of other CTAs to it count too"
        ctas = [members(barrier, x)[rank].number for rank in sorted({d.issuer for d in others})]
        return f"count the loads of CTA {barrier.cta.number} only; those {of_ctas(ctas)} complete on this mbarrier too"
    if x.launch.cluster_size * each == size:
        return f"count the bytes of all {x.launch.cluster_size} CTAs of the cluster; an mbarrier counts only the bytes that arrive in its own CTA"
    if sum(d.size for d in parts) == each and (left := _uncounted(parts, each - size)):
        ways = " or ".join(x.program.at(*lines) for lines in left[:SHOWN_WAYS])
        return f"leave out the bytes of {ways}{' or of another copy' * (len(left) > SHOWN_WAYS)}"
    width = "check the size of an element (fp8 1 byte, bf16 2, fp32 4)"
    if size % each == 0 and size // each in FACTORS:
        return f"are {FACTORS[size // each]} the bytes that arrive: {width} and the box"
    if each % size == 0 and each // size in FACTORS:
        return f"are {PARTS[each // size]} of the bytes that arrive: {width} and the number of boxes"
    return ""


def _uncounted(parts: list[Delivery], missing: int) -> list[tuple[int, ...]]:
    """The lines of the fewest copies that bring just the missing bytes: each choice of copies that does."""
    for count in range(1, min(len(parts), KEPT)):
        ways = {
            tuple(sorted({d.instruction.line for d in left})): None
            for left in itertools.combinations(parts, count)
            if sum(d.size for d in left) == missing
        }
        if ways:
            return list(ways)
    return []


def check_bytes(
    barrier: Mbarrier, x: Wave, *, hangs: bool = False, is_to_come: Callable[[Collection[int]], bool] = lambda _: False
) -> None:
    """T210 if the expected bytes of all phases differ from the bytes that came: of a barrier at its end, or of one that
    no operation can reach any more.

    It is at the copy that is one too many or has a wrong destination, if one can be named, else at the instruction
    that expects the bytes. It is not reported in two cases of a hang. All missing bytes came in an earlier phase. Or a
    copy is still `is_to_come`, and the phase `is_held_up` or the copy is one of a CTA that has issued none: then
    another wait delays the loads. It is a remark if bytes are missing in a phase on which no thread has ever waited.
    Pipelines arm a stage without a copy (CuTe DSL's mixed_input_fmha_decode.py), and an mbarrier may end in any phase.
    """
    state = barrier.state
    if state.is_even:
        return
    _check_cluster(barrier, x)
    if state.bytes.expected == state.bytes.brought or not state.bytes.expecting or (hangs and state.is_late) or lends(barrier):
        return
    count = _Count(barrier, x)
    cause = wrong_delivery(barrier, x, count.missing)
    if cause is None and hangs and ((count.is_held_up and is_to_come(())) or ((idle := _idle(barrier, x)) and is_to_come(idle))):
        return
    at, why, right = count.at, "", count.fix
    halves, milder, because = count.halves, None, "PTX ISA 9.1 §9.7.13.15.3"
    numbers = _of_cluster(x)
    if cause is not None:
        at, why, right = cause
        halves = (halves[0], Half("copy", at.name, at), *halves[1:])
    else:
        why = count.why()
        numbers |= count.numbers
        if not hangs and state.bytes.brought > state.bytes.expected:
            why = "; ".join(filter(None, (why, "an H200 hung if expect_tx was too small, smemsim completes the phase")))
        if not hangs and state.tx > 0 and state.passed.asked != state.phase:
            milder, why = Severity.NOTE, "; ".join(filter(None, (why, "no thread waits for the phase that lacks them")))
            # no rule is broken: it may end in any phase
            right, because, numbers = "expect bytes only in phases that a thread waits for", "", {}
    x.launch.find(
        "T210", at, count.what, right, because=because, milder=milder, touched=count.touched, why=why, halves=halves, numbers=numbers
    )


def _check_cluster(barrier: Mbarrier, x: Wave) -> None:
    """Multicasts that reach a CTA which expects no bytes, and copies that bring the same bytes twice."""
    state = barrier.state
    if (barrier.waits or state.passed.seen) and (surprise := unexpected(barrier, x)) is not None:
        at, why, right = surprise
        x.launch.find(
            "T210", at, why, right, because="PTX ISA 9.1 §9.7.13.15.3", why="the surplus bytes take the mbarrier's byte count below 0"
        )
    if (
        state.bytes.expected == state.bytes.brought
        and (again := twice(barrier, x)) is not None
        and any(f.code == "R507" for f in x.launch.result.findings.values())
    ):
        # As many bytes as expected, and others were never written: the second copy should have written those.
        at, why, right = again
        # that the copy comes over another in flight, which this explains
        x.launch.result.findings.take_back("X005", at)
        x.launch.find("X005", at, f"{why}; no copy writes other bytes that are read", right, because="PTX ISA 9.1 §8 (memory consistency)")


class _Count:
    """The phases of an mbarrier that expect another number of bytes than come, and which number is wrong.

    A phase may have several expectations. One of them is wrong if another number at its line makes all phases right.
    """

    def __init__(self, barrier: Mbarrier, x: Wave) -> None:
        self.barrier, self.x = barrier, x
        self.rounds = barrier.state.byte_rounds
        self.wrong = [r for r in self.rounds if r.expected != r.brought]
        self.first = next((r for r in self.wrong if r.expects), self.wrong[0])
        expects = self.first.expects or tuple(Event(i, size, None) for i, size in list(barrier.state.bytes.expecting.values())[:1])
        self.changes = self._changes()
        lines = self.changes[0] if self.changes else ()
        self.event = next((e for e in expects if any(e.instruction.line == line for line, _ in lines)), expects[0])
        self.expects = expects
        self.at = self.event.instruction

    @property
    def is_held_up(self) -> bool:
        """Does only the last phase lack bytes, all of them or of a number that came in an earlier phase? Then the
        number is not wrong.
        """
        first, last = self.first, self.rounds[-1]
        came = not first.brought or any(r.expected == r.brought == first.expected for r in self.rounds)
        return self.wrong == [first] and first is last and first.brought < first.expected and came

    @property
    def missing(self) -> int:
        """How many bytes a phase lacks; negative for bytes that it has too many."""
        tx = self.barrier.state.tx
        return tx if tx > 0 else self.first.expected - self.first.brought

    @property
    def what(self) -> str:
        """The first phase that is wrong, and what it expects."""
        first, alike = self.first, [r.phase for r in self.wrong if (r.expected, r.brought) == (self.first.expected, self.first.brought)]
        ctas, many = self._ctas(), len(alike) > 1
        named = of_ctas(ctas)
        of = f"of {_placed(self.barrier, self.x)} {named}"
        comes = f"{first.brought:,} arrive" if first.brought else "none arrive"
        told = (
            f"phases {ranges(alike)} {of} expect {first.expected:,} bytes each, and {comes} each time"
            if many
            else f"phase {first.phase} (parity {first.phase & 1}) {of} expects {first.expected:,} bytes, and {comes}"
        )
        more = len(self.wrong) - len(alike)
        return told + (f"; {more} other phase{'s differ' if more > 1 else ' differs'} too" if more else "")

    @property
    def touched(self) -> tuple[Touched, ...]:
        """The mbarrier, and the bytes of the copies in the phases that are wrong."""
        ctas = members(self.barrier, self.x)
        places = {d.begin: d for d in self.barrier.state.deliveries.sources.values()}
        found = []
        for to, begin, size in {(*e.key, e.size) for r in self.wrong for e in r.brings if e.key is not None and e.key[1] in places}:
            if to < len(ctas):
                found.append(Touched(ctas[to].number, begin, begin + size))
        return (*self.barrier.touched, *sorted(found))

    def _ctas(self) -> list[int]:
        """The CTAs in which the mbarrier at this place has the same history."""
        state, found = self.barrier.state, mbarriers
        own = {b.cta.number for b in state.members}
        for cta in self.x.ctas.made:
            other = found(cta).get(self.barrier.offset)
            if other is not None and not other.state.is_even and other.state.tx == state.tx and other.state.phase == state.phase:
                own.add(cta.number)
        return [self.barrier.cta.number, *sorted(own - {self.barrier.cta.number})]

    @property
    def halves(self) -> tuple[Half, ...]:
        """Rows of the message: what the phase expects, which register has the number, and what comes."""
        rows = [Half("expect", f"{e.size:,} bytes ({e.instruction.name})", e.instruction) for e in self.expects[:KEPT]]
        if (made := self._made) is not None:
            rows.append(Half("number", f"{self.at.operands[-1].name} = {self.event.size:,} ({made.name})", made))  # type: ignore[union-attr]
        came: dict[int, list[Event]] = {}
        for e in self.first.brings:
            came.setdefault(e.instruction.line, []).append(e)
        rows += [
            Half("arrive", f"{_times([e.size for e in own])} ({own[0].instruction.name})", own[0].instruction)
            for own in list(came.values())[:KEPT]
        ]
        if others := list(came.values())[KEPT:]:
            size = sum(e.size for own in others for e in own)
            rows.append(Half("arrive", f"{size:,} bytes by {len(others)} more instruction{'s' * (len(others) > 1)}"))
        return (*rows, *([] if came else [Half("arrive", "nothing")]))

    @functools.cached_property
    def _made(self) -> Instruction | None:
        """The instruction that computes the number of bytes, if it is in a register."""
        operand, inlined = self.at.operands[-1], self.x.program.inlined
        return origin(inlined.body, inlined.labels, self.at, operand) if isinstance(operand, Register) else None

    def _changes(self) -> list[tuple[tuple[int, int], ...]]:
        """Other numbers that make all phases right, the likeliest first: lines, and the
        number that each should have.
        """
        found = []
        if len(self.first.expects) > 1:
            right = {(e.instruction.line, e.size) for r in self.rounds if r.expected == r.brought for e in r.expects}
            for e in sorted(self.first.expects, key=lambda e: (e.instruction.line, e.size) in right):
                found.append(self._numbers({e.instruction.line}))
        else:
            found.append(self._numbers({e.instruction.line for r in self.wrong for e in r.expects}))
        return [change for change in found if change]

    def _numbers(self, lines: set[int]) -> tuple[tuple[int, int], ...]:
        """The number that each of these lines should have in all phases; () if there is none."""
        numbers: dict[int, int] = {}
        for r in self.rounds:
            own = [e for e in r.expects if e.instruction.line in lines]
            if not own:
                if r.expected != r.brought and r.expects:
                    return ()
                continue
            size = r.brought - sum(e.size for e in r.expects if e.instruction.line not in lines)
            if size <= 0 or size % len(own) or len({e.instruction.line for e in own}) > 1:
                return ()
            if numbers.setdefault(own[0].instruction.line, size // len(own)) != size // len(own):
                return ()
        return tuple(sorted(numbers.items()))

    @property
    def numbers(self) -> dict[str, Value]:
        """The numbers of the finding: what is expected and what comes; what fixes try at which lines."""
        given: dict[str, Value] = {
            "phase": self.first.phase,
            "was": self.event.size,
            "expected": self.first.expected,
            "arrive": self.first.brought,
        }
        given["brings"] = sorted({e.instruction.line for r in self.wrong for e in r.brings})
        return given | ({"expect": self.changes} if self.changes else {})

    @property
    def fix(self) -> str:
        """The number to expect, and its line."""
        if self.changes:
            return f"{expect_words(self.changes[0], number_of(self.x.program.inlined.body, [line for line, _ in self.changes[0]]), self.x.program.at)}, if the copies have the intended size"
        if self.first.brought <= 0:
            return "expect the bytes that the transfers bring"
        return f"expect in {self.at.at} what the transfers of the phase bring: {self.first.brought} bytes in phase {self.first.phase}"

    def why(self) -> str:
        """Which bytes were forgotten or counted too often, if the numbers show it."""
        size = self.first.expected
        if not size or not self.first.brought:
            return ""
        said = miscounted(self.barrier, self.x, size, self.first.brought, {e.instruction.line for e in self.first.brings})
        return f"the {size:,} expected bytes {said}" if said else ""


def _times(sizes: list[int]) -> str:
    """Bytes that one line brings, with how often."""
    if len(sizes) > 1 and len(set(sizes)) == 1:
        return f"{len(sizes)} times {sizes[0]:,} bytes"
    return " + ".join(f"{size:,}" for size in sizes[:KEPT]) + " bytes"


# ---- waiting


def park(barrier: Mbarrier, x: Wave, threads: np.ndarray, i: Instruction, expired: Callable[[], None] | None = None) -> Wait:
    """Make threads wait for the current phase; woken, they go on at the block that runs now."""
    phase = barrier.state.phase
    wait = x.park(threads, x.at, i, lambda: _describe(barrier, i, x, phase))
    wait.expired, wait.suspicion, wait.touched = expired, lambda: suspicion(barrier, i, x), barrier.touched
    wait.fed = lambda: barrier.state.sites
    wait.numbers = lambda: _counts(barrier) | _of_cluster(x) | _of_wait(barrier, i, x) | _ahead(barrier, x)
    wait.participants = lambda: _participants(barrier, x)
    barrier.waits.append((wait, phase))
    return wait


def _participants(barrier: Mbarrier, x: Wave) -> tuple[np.ndarray, np.ndarray]:
    """The warps whose threads have arrived in the current phase, and those that did in an earlier one, here or at the
    mbarriers of other stages, and have not yet.

    Threads of the wave, whole warps; both are empty if no arrival is missing.
    """
    state, begin = barrier.state, x.stride * (barrier.cta.index - barrier.cta.rank)
    none = np.zeros(0, np.int64)
    if not state.pending or state.phase > _seen(barrier, x):  # a wait that came too late lacks no arrival
        return none, none
    usual = set().union(*state.arrivals.rounds)
    if not usual:
        sites = {site for site, _ in state.arrivals.by_site}
        stages = (other.state for other in mbarriers(barrier.cta).values() if other is not barrier)
        usual = set().union(
            *(
                s
                for other in stages
                if sites & {site for site, _ in other.arrivals.by_site}
                for s in (*other.arrivals.rounds, other.arrivals.now)
            )
        )
    came = {t // WARP for t in state.arrivals.now}
    overdue = {t // WARP for t in usual - state.arrivals.now} - came

    def threads(warps: set[int]) -> np.ndarray:
        own = [np.arange(w * WARP, (w + 1) * WARP) for w in sorted(warps)]
        return np.concatenate(own) + begin if own else none

    return threads(came), threads(overdue)


def _of_cluster(x: Wave) -> dict[str, Value]:
    """The mask of all CTAs of a cluster, to be tried in multicasts; nothing without clusters."""
    size = x.launch.cluster_size
    return {"all_ctas": (1 << size) - 1} if size > 1 else {}


def _of_wait(barrier: Mbarrier, i: Instruction, x: Wave) -> dict[str, Value]:
    """The changes that fixes of a wait that never ends may try: the other parity; other ranks, with the size of the
    cluster."""
    state = barrier.state
    if misdirected(barrier, x) is not None:
        return {"elsewhere": x.launch.cluster_size}
    is_unseen = "parity" in i.modifiers and state.phase - 1 == _seen(barrier, x) and not _ignored(barrier)
    is_first = not (state.phase or any(state.done.values()) or state.passed.at_first) and before_loads(i, x) and _has_arrivals_to_come(x)
    return {"parity": True} if is_unseen or is_first else {}


def _ahead(barrier: Mbarrier, x: Wave) -> dict[str, Value]:
    """If phases are complete that no wait has seen: are arrivals by a warp that has passed no wait at an mbarrier?"""
    state, per_cta = barrier.state, x.stride // WARP
    if state.phase <= _seen(barrier, x):
        return {}
    waited = {
        cta.rank * per_cta + int(thread) // WARP
        for cta in members(barrier, x)
        for other in mbarriers(cta).values()
        for thread in np.flatnonzero(other.state.passed.by_thread)
    }
    return {"ahead": not state.arrivals.warps <= waited}


def _has_arrivals_to_come(x: Wave) -> bool:
    """Are there arrivals, other than those that expect bytes, that no thread has executed yet?"""
    done = {site for cta in x.ctas.made for barrier in mbarriers(cta).values() for site in barrier.state.done["arrives"]}
    arrivals = (
        i for i in x.program.inlined.body if i.name.startswith(("mbarrier.arrive", "tcgen05.commit")) and "expect_tx" not in i.modifiers
    )
    return any(i.site not in done for i in arrivals)


def _counts(barrier: Mbarrier) -> dict[str, Value]:
    """The line of mbarrier.init, and other counts of arrivals with which phases end as often as threads
    wait for them.
    """
    state = barrier.state
    here = state.expected - state.pending
    all_came = state.phase * state.expected + here
    rounds = max(state.passed.seen, 1)
    counts: tuple[int, ...] = (here, all_came // rounds, all_came) if state.phase > state.passed.seen else (here, all_came)
    if state.arrivals.run_ahead and len(state.arrivals.by_site) == 1:
        counts = ()  # each arrival is of another round, whose data is lost if one phase has several
    return {
        "init": barrier.made.line,
        "counts": tuple(dict.fromkeys(n for n in counts if 0 < n <= MBARRIER_ARRIVALS and n != state.expected)),
    }


def _describe(barrier: Mbarrier, i: Instruction, x: Wave, phase: int) -> str:
    """The arrivals and bytes that a phase lacks, and the threads that have ever taken part, for a report of a hang."""
    state, elsewhere = barrier.state, misdirected(barrier, x)
    if elsewhere is not None and (short := _as_misdirected(barrier, x, phase)):
        return f"{elsewhere[0]}; {short}"
    said = (
        _why_unseen(barrier, i, x, phase)
        if state.phase > _seen(barrier, x)
        else f"phase {phase} (parity {phase & 1}) of {_named(barrier, x)}"
    )
    lacks = _lacks(barrier, x)
    has_begun = state.pending != state.expected or state.tx != 0
    if state.phase <= _seen(barrier, x):
        kinds = [what for what, by in state.done.items() if by and (state.tx or "bytes" not in what)]
        when = "so far" if not state.phase else "in all phases so far" if has_begun else "in earlier phases"
        known = ", ".join(f"{DONE[what]} {x.program.at(*state.done[what])}" for what in kinds)
        none = "" if any(state.done.values()) else "; no thread and no bytes have arrived"
        if none and (commit := _commit_elsewhere(barrier, x)) is not None:
            none = f"; {commit[0]}"
        elif none and not feeders(x, barrier.offset):
            none += ", and no instruction of the kernel can arrive at it"
        said += f": {lacks}{f'; {when}: {known}' if known else none}"
    elif has_begun:
        said += f"; of phase {state.phase}, {lacks}"
    return f"{elsewhere[0]}; {said}" if elsewhere is not None else said


def _as_misdirected(barrier: Mbarrier, x: Wave, phase: int) -> str:
    """The effect of an arrival at the wrong CTA on this mbarrier: none comes, or one too many. "" for another
    effect.
    """
    state, waits = barrier.state, f"the wait is for phase {phase} (parity {phase & 1})"
    if not state.phase and not state.arrivals.by_site and not state.tx:
        return f"{waits} of {_named(barrier, x)}"
    seen, over = state.passed.seen, state.phase
    if over <= seen:
        return ""
    complete = f"phase{'s' * (over - seen > 1)} {ranges(range(seen, over))} completed without a wait"
    return f"{_named(barrier, x)} gets this arrival too, so {complete}, and {waits}"


def _lacks(barrier: Mbarrier, x: Wave) -> str:
    """The arrivals and bytes that the current phase lacks."""
    state, left = barrier.state, []
    if state.pending:
        of = f"{state.pending} of {state.expected} arrivals {'is' if state.pending == 1 else 'are'} missing"
        if state.pending == state.expected:
            of = f"all {state.expected} arrivals are missing" if state.expected > 1 else "its one arrival is missing"
        left.append(f"{of}{missing_arrivals(barrier, x)[0]}")
    if state.tx > 0:
        last = state.byte_rounds[-1]
        counted = last.phase == state.phase and last.expected - last.brought == state.tx
        of = f"of the {last.expected:,} expected bytes" if counted else "expected bytes"
        left.append(f"{'all' if counted and not last.brought else f'{state.tx:,}'} {of} are missing")
    if state.tx < 0:
        left.append(f"{-state.tx} bytes arrived that no phase expected")
    return " and ".join(left) or "no arrival is expected any more: each has been taken away by mbarrier.arrive_drop"
