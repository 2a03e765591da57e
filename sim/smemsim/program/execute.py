"""Execution: clusters in waves, the block that runs next, and what never ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.distinct import distinct
from smemsim.errors import HardwareTrap, SmemsimError, Unmodelled
from smemsim.program.barriers.cta import tell_parted
from smemsim.program.barriers.mbarrier import check_reused, mbarriers
from smemsim.program.compiled.constants import is_joint
from smemsim.program.compiled.tier import Segment, Together, tier_of
from smemsim.program.late import Late
from smemsim.program.launch import CANCEL, Launch, Queue
from smemsim.program.linking.flow import computes, following
from smemsim.program.threads.control import check_registers
from smemsim.program.turns import Apart, Turns
from smemsim.program.watch.dependence import releases_dependents
from smemsim.program.watch.history import History
from smemsim.program.watch.watch import Watch
from smemsim.program.wave import ALL, EXITED, GATHERING, LEAST_SUSPICIOUS, PARKED, WARP, WARPGROUP, YIELDED, Circle, Endless, Wait, Wave
from smemsim.ptx.module import Immediate, Instruction
from smemsim.spec.launches import RESIDENCY
from smemsim.spec.traps import TIMEOUT

if TYPE_CHECKING:
    from smemsim.program.linking.program import Block, Program
    from smemsim.program.registry import Plain
    from smemsim.program.watch.doubts import Unwritten

__all__ = [
    "OutOfTime",
    "Stuck",
    "at_once",
    "count_bytes",
    "depends",
    "execute",
    "report_hang",
    "requests",
    "resident",
    "run_wave",
    "takes_over",
]


# ---- A launch that will never end: which warps wait, at which line, for what, and where those are that they wait for; the likeliest cause
# first


MOST_PLACES = 4  # groups of threads that a message lists
FULL = 0xFFFFFFFF
MASKED = ("shfl", "vote", "match", "redux", "elect", "bar", "barrier")  # for the lanes that a mask names


def count_bytes(launch: Launch, wave: Wave, *, hangs: bool = False) -> None:
    """T210 for mbarriers that were told to expect other numbers of bytes than came, X010 for those whose bytes were used for something else, X011 for
    warps that are a barrier apart.

    When all is over, or nothing goes on.
    """
    for cta in wave.ctas.made:
        for barrier in mbarriers(cta).values():
            barrier.check_bytes(wave, hangs=hangs)
            check_reused(wave, barrier)
    tell_parted(wave)


def _refuse_host(launch: Launch, wave: Wave) -> None:
    """Unmodelled where threads poll memory that the host could write: a launch runs to its end before the host goes on."""
    if wave.polled is None or not ((wave.key >= YIELDED) & (wave.key < GATHERING)).any():
        return
    i, pieces = wave.polled
    for piece in pieces:
        if piece.space == "global" and launch.memory.is_hosts_too(piece.memory, int(piece.at[0])):
            raise Unmodelled(
                f"line {i.line}: {i.name} waits for a value in memory that the host can write: a launch runs to its end before the host goes on"
            )


def report_hang(launch: Launch, outside: int = 0) -> None:
    """Note a finding for every instruction at which warps wait for ever; `outside` CTAs have not begun, as the card is full."""
    for wave in launch.waves:
        _refuse_host(launch, wave)
    alive = sum(wave.clusters_left for wave in launch.waves) * launch.cluster_size
    full = f"; {outside} of {launch.ctas} CTAs have not begun, because the {alive} that wait fill the card" if outside else ""
    repair = "launch no more CTAs than are on the card at once (cudaOccupancyMaxActiveBlocksPerMultiprocessor)" if outside else ""
    for wave in launch.waves:
        count_bytes(launch, wave, hangs=True)
        if wave.watch is not None:
            wave.watch.nothing_came()
        _report_parted_warps(launch, wave)
        told = [(*_suspicion(wave, wait), wait) for wait in wave.waiting]
        for _, mend, wait in sorted(told, key=lambda t: (t[0], t[2].instruction.line, int(t[2].threads[0]))):
            who = _who(wave, wait.threads)
            waits = "wait" if "warps" in who or "lanes" in who or ";" in who else "waits"
            missing = _missing(wait)
            where = f"; {_whereabouts(wave, missing)}" if missing is not None and missing.size else ""
            launch.find(
                "X006", wait.instruction, f"{who} {waits} for ever: {wait.what()}{where}{full}", repair or mend, touched=wait.touched
            )
        for first, last, what in (
            (YIELDED, GATHERING, (wave.endless or "polls something that never changes") + full),
            (0, YIELDED, f"loops for ever, and nothing it does is seen by others{full}"),
        ):
            threads = np.flatnonzero((wave.key >= first) & (wave.key < last))
            for at in distinct(wave.key[threads]).tolist():
                who = _who(wave, threads[wave.key[threads] == at])
                launch.find("X006", _instruction(wave, at - first), f"{who}: {what}", repair)


# ---- who waits for whom


def _missing(wait: Wait) -> np.ndarray | None:
    """The threads that a wait is for, by their number in the wave; None where nobody knows who could arrive."""
    return None if wait.missing is None else wait.missing()


def _suspicion(x: Wave, wait: Wait) -> tuple[int, str]:
    """How far a wait is from the cause of the hang, 0 the nearest, and what to change there.

    A barrier of threads is the cause where nobody is left who could arrive, or where all that are missing wait at other barriers of threads;
    else what holds those up is.
    """
    missing = _missing(wait)
    if missing is None:
        return wait.suspicion()
    if not missing.size:
        return 1, "correct the thread count, or let as many arrive: nobody is left who could"
    at = {id(other): other for other in x.waiting if np.isin(other.threads, missing).any()}
    held = np.isin(missing, np.concatenate([other.threads for other in at.values()])) if at else np.zeros(len(missing), bool)
    if held.all() and all(other.missing is not None for other in at.values()):
        return 1, "let all of them come to the same barrier: the same number, and none of them in a branch that others do not take"
    return LEAST_SUSPICIOUS, ""


def _report_parted_warps(launch: Launch, x: Wave) -> None:
    """X011 where some lanes wait at an instruction for others of their warp (or warpgroup) that never come to it, the first cause of a hang.

    Lanes that wait for something else in front of it, and then come, are no such cause: what they wait for is.
    """
    gathering = np.flatnonzero((x.key >= GATHERING) & (x.key < PARKED))
    for at in distinct(x.key[gathering]).tolist():
        block = at - GATHERING
        here = gathering[x.key[gathering] == at]
        i = _instruction(x, block)
        size = WARPGROUP if i.op == "wgmma" else WARP
        units = x.cta_of * x.stride + x.tid // size  # of a CTA
        for unit in distinct(units[here]).tolist():
            own = here[units[here] == unit]
            missing = _absent(x, i, own, np.flatnonzero(units == unit))
            if missing.size and _is_first_cause(x, block, own, missing):
                by_mask = i.operands and i.op in MASKED
                mask = f", whose member mask is {_mask(x, i, own):#010x}" if by_mask else ""
                launch.find(
                    "X011", i, f"{_who(x, own)} wait{'s' * (len(own) == 1)} for ever at {i.name}{mask}, for {'lanes' if by_mask else 'threads'} that never come to it: "
                    f"{_whereabouts(x, missing)}",
                    "take it out of the branch, or name in its mask only the lanes that come to it" if by_mask else
                    "take it out of the branch: all threads of the warp (or warpgroup) must execute it together",
                )  # fmt: skip


def _mask(x: Wave, i: Instruction, own: np.ndarray) -> int:
    operand = i.operands[-1]
    return operand.value & FULL if isinstance(operand, Immediate) else int(x.members[own[0]])


def _absent(x: Wave, i: Instruction, own: np.ndarray, threads: np.ndarray) -> np.ndarray:
    """The `threads` of a warp or warpgroup that have not exited, that an instruction is for, and that are not there."""
    absent = (x.key[threads] < EXITED) & ~np.isin(threads, own)
    if i.op in MASKED:
        absent &= (_mask(x, i, own) >> x.lane[threads] & 1).astype(bool)
    found: np.ndarray = threads[absent]
    return found


def _is_first_cause(x: Wave, block: int, own: np.ndarray, missing: np.ndarray) -> bool:
    """Have missing lanes gone elsewhere: past the instruction, or to a barrier (or another such instruction) that waits for those that are here?"""
    for at in distinct(x.key[missing]).tolist():
        where = at - (PARKED if at >= PARKED else GATHERING if at >= GATHERING else YIELDED if at >= YIELDED else 0)
        if GATHERING <= at < PARKED or block not in _reached(x, where):
            return True
    for wait in x.waiting:
        if np.isin(wait.threads, missing).any():
            waits_for = _missing(wait)
            if waits_for is not None and np.isin(own, waits_for).any():
                return True
    return False


def _reached(x: Wave, block: int) -> set[int]:
    """The blocks that threads can come to from the begin of a block on; all of them where a jump goes nobody knows where."""
    seen: set[int] = set()
    open_ = [block]
    while open_:
        n = open_.pop()
        if n in seen or n >= len(x.program.blocks):
            continue
        seen.add(n)
        after = following(x.program, n)
        if after is None:
            return set(range(len(x.program.blocks)))
        open_ += after
    return seen


# ---- in words


def _instruction(wave: Wave, block: int) -> Instruction:
    blocks = wave.program.blocks
    while not blocks[block].instructions:
        block += 1
    return blocks[block].instructions[0]


def _who(wave: Wave, threads: np.ndarray) -> str:
    """Warps by CTA, as a kernel author counts them; lanes where only some of one warp are meant."""
    parts = []
    for cta in distinct(wave.cta_of[threads]).tolist():
        own = threads[wave.cta_of[threads] == cta]
        warps = distinct(wave.tid[own] // WARP).tolist()
        text = f"warp {warps[0]}" if len(warps) == 1 else f"warps {', '.join(map(str, warps))}"
        if len(warps) == 1 and (lanes := _lanes(wave, own)):
            text = f"{lanes} of {text}"
        parts.append(f"{text} of CTA {wave.ctas[cta].ctaid}")
    return "; ".join(parts[:MOST_PLACES]) + (f" and {len(parts) - MOST_PLACES} more CTAs" if len(parts) > MOST_PLACES else "")


def _lanes(x: Wave, own: np.ndarray) -> str:
    """The lanes of one warp, "" for all of them that have not exited."""
    warp = np.arange(own[0] // WARP * WARP, own[0] // WARP * WARP + WARP)
    if (x.key[warp] < EXITED).sum() <= len(own):
        return ""
    lanes = x.lane[own]
    ends = np.flatnonzero(np.diff(lanes) != 1)
    begins, ends = lanes[np.concatenate([[0], ends + 1])].tolist(), lanes[np.concatenate([ends, [len(lanes) - 1]])].tolist()
    runs = [str(lo) if lo == hi else f"{lo} to {hi}" for lo, hi in zip(begins, ends, strict=True)]
    return f"lane{'s' * (len(own) > 1)} {', '.join(runs[:8])}{' ...' * (len(runs) > 8)}"


def _whereabouts(x: Wave, threads: np.ndarray) -> str:
    """Where threads are that others wait for: 'lanes 16 to 31 of warp 0 of CTA (0, 0, 0) wait at line 14 (bar.sync)'."""
    places: dict[tuple[str, int, str], list[np.ndarray]] = {}
    for at in distinct(x.key[threads]).tolist():
        there = threads[x.key[threads] == at]
        if PARKED <= at < EXITED:
            for wait in x.waiting:
                if (mine := there[np.isin(there, wait.threads)]).size:
                    places.setdefault(("wait", wait.instruction.line, wait.instruction.name), []).append(mine)
        elif at < EXITED:
            i = _instruction(x, at - (GATHERING if at >= GATHERING else YIELDED if at >= YIELDED else 0))
            places.setdefault(("wait" if at >= GATHERING else "loop", i.line, i.name), []).append(there)
    sentences = []
    for (does, line, name), parts in sorted(places.items(), key=lambda item: item[0][1]):
        who = _who(x, distinct(np.concatenate(parts)))
        is_single = not ("warps" in who or "lanes" in who or ";" in who)
        sentences.append(f"{who} {does}{'s' * is_single} at line {line} ({name})")
    return "; ".join(sentences[:MOST_PLACES]) + " ..." * (len(sentences) > MOST_PLACES)


# ---- Which threads run next: those at the lowest block, of all warps together, so that warps that part meet again behind the branch


PATIENCE = 256  # blocks one group may execute in loops while others could run
GLANCES = 8  # the same of a group that polls: nothing it does brings it further
TURNS = 64  # turns of everybody, after which a wave that stored nothing gives way though nobody is seen to poll
TRIPS = 1024  # turns of loops from one look for a way out to the next
ENDS = ("exit", "ret", "trap")
QUIET = 20  # one in so many blocks of a launch's limit may be executed in loops without a store or an arrival
LEAST_QUIET = 1_000_000  # blocks that it may in any case
LOOK = 64  # blocks from one look at the clock to the next


class Stuck(Exception):
    """A wave that has executed as many blocks as its launch allows."""


class OutOfTime(Exception):
    """A launch that has run for as many seconds as it may."""


def run_wave(wave: Wave, *, gives_way: bool = False) -> bool:
    """Run a wave until all its threads have exited (True), or until it can only wait for another wave, or gives way to it (False).

    `gives_way` says that other waves could bring what this one polls. `wave.gave_way` is that it could go on, `wave.endless` why it cannot.
    Errors of the hardware's rules (`SmemsimError`) get the wave's position: `wave.at` is the block, `wave.step` the instruction within it.
    """
    blocks, key = wave.program.blocks, wave.key
    end = len(blocks)
    turns = loops = trips = look = 0
    seen = since = wave.changes
    looked = polls = asked = wave.polls  # in the last turn, since the last change, since a group last gave way
    works = False  # does somebody do more than poll in this turn?
    endless, circle, limit = Endless(), Circle(), wave.launch.limit
    apart: Apart | None = None
    parts_at = limit // 2
    wave.endless, wave.gave_way, wave.paused = "", False, False
    while True:
        at = int(key.min())
        if at >= YIELDED and not (at < GATHERING and apart is not None and apart.left):
            if at >= EXITED:
                if wave.late is not None and wave.late.land(wave):
                    continue
                return True
            if wave.late is not None and wave.late.land(wave) and not ((key >= YIELDED) & (key < GATHERING)).any():
                continue  # who waits may go on, or something else lands
            yielded = (key >= YIELDED) & (key < GATHERING)
            if not yielded.any():
                if wave.expire():
                    continue
                return False  # everybody waits
            key[yielded] -= YIELDED
            turns += 1
            idle = wave.polls != looked and not works
            looked, works = wave.polls, False
            wave.endless = _no_way_out(wave)
            if wave.changes != seen:
                seen, wave.quiet, wave.quiet_polls = wave.changes, wave.steps, wave.polls
                wave.rounds.forget()
            else:
                wave.endless = wave.endless or wave.rounds.turn(wave, 0) or _quiet(wave)
                wave.gave_way = not wave.endless and gives_way and (idle or turns % TURNS == 0)
            if wave.endless or wave.gave_way:
                key[key < YIELDED] += YIELDED
                return False
            continue
        here = key == at
        is_apart = apart is not None and apart.left > 0
        if apart is not None and is_apart:
            at, here = apart.pick(wave)
        elif wave.turns is not None:
            at, here = wave.turns.pick(wave)
        if at >= end:
            threads = np.flatnonzero(here)
            key[threads] = EXITED
            wave.launch.exited(wave, threads)
            continue
        wave.sel = ALL if here.all() else np.flatnonzero(here)
        wave.at = at
        if wave.late is not None:
            wave.late.begins(wave, blocks[at])
        _run_block(wave, blocks[at])
        wave.steps += 1
        if wave.steps >= look:
            look = wave.steps + LOOK
            if wave.launch.is_over:
                raise OutOfTime
        if wave.steps > limit:
            wave.endless = (
                f"still runs after {limit:,} blocks of instructions, the limit of this launch: it is endless, or needs a higher limit"
            )
            key[key < YIELDED] += YIELDED
            raise Stuck
        if is_apart:
            if wave.late is not None and apart is not None and apart.left % GLANCES == 0:
                wave.late.land(wave)
            continue
        # A loop that others could be needed to end gives way to them now and then.
        after = int(key.min()) if wave.turns is None else int(key[here].min())
        if wave.turns is not None and _lets_others(wave):
            return False
        if after <= at:
            loops += 1
            if wave.changes != since:
                since = seen = wave.changes
                loops, polls = min(loops, PATIENCE), wave.polls
                wave.quiet, wave.quiet_polls = wave.steps, wave.polls
                endless.forget()
                wave.rounds.forget()
            trips += 1
            if loops % GLANCES == 0 and wave.late is not None and wave.late.land(wave):
                continue  # it may be what the loop looks for
            reason = endless.turn(wave, after) or ("" if gives_way else circle.turn(wave, after)) or _quiet(wave)
            if trips % TRIPS == 0:
                reason = reason or _no_way_out(wave)
            polled = wave.polls != polls
            is_long = wave.turns is not None and trips >= TRIPS and trips & (trips - 1) == 0 and wave.program.looks
            if (reason == circle.why or is_long or wave.steps > parts_at) and Apart.can_help(wave, apart if reason else None):
                apart, reason = Apart(wave), ""
                parts_at += (limit - parts_at) // 2 * (wave.steps > parts_at)
                circle.forget()
            if loops % (GLANCES if polled else PATIENCE) == 0 or reason:
                group = key == after
                needs_no_one = wave.polls == asked and loops < TURNS * PATIENCE and not reason
                giving = _warps_of(group) if needs_no_one else group
                if ((key < GATHERING) & ~giving).any():
                    key[giving & (key < YIELDED)] += YIELDED
                    works |= not polled
                    loops, polls, asked = 0, wave.polls, wave.polls
                elif reason or (gives_way and (polled or loops >= TURNS * PATIENCE)):
                    wave.endless, wave.gave_way = reason, not reason
                    key[group] += YIELDED
                    return False


def _lets_others(wave: Wave) -> bool:
    """Of a schedule: does something land now, and do other waves go on first?"""
    schedule = wave.turns.schedule
    if wave.late is not None and schedule.chance(schedule.lands):
        wave.late.land(wave)
    wave.paused = wave.may_pause and wave.turns.pauses()
    if wave.paused:
        wave.gave_way = True
        wave.key[wave.key < YIELDED] += YIELDED
    return bool(wave.paused)


def _no_way_out(wave: Wave) -> str:
    """Why the threads that could run never end, in words, where no branch leads out of the loops that they are in; empty where one does."""
    leading = wave.state.get("blocks that lead out")
    if leading is None:
        leading = wave.state["blocks that lead out"] = _leading_out(wave)
    at = distinct(wave.key[wave.key < GATHERING])
    wave.never_ends = not leading.intersection((at - np.where(at >= YIELDED, YIELDED, 0)).tolist())
    return "loops for ever: no branch leads out of its loop" if wave.never_ends else ""


def _leading_out(x: Wave) -> set[int]:
    """The blocks from which threads can come to an end of the kernel, or to where nobody knows."""
    before: dict[int, list[int]] = {}
    open_ = []
    for n, block in enumerate(x.program.blocks):
        targets = following(x.program, n)
        if targets is None or any(i.op in ENDS for i in block.instructions):
            open_.append(n)
        for after in targets or ():
            before.setdefault(after, []).append(n)
    open_ += before.get(len(x.program.blocks), [])
    reached: set[int] = set()
    while open_:
        n = open_.pop()
        if n not in reached:
            reached.add(n)
            open_ += before.get(n, [])
    return reached


def _warps_of(threads: np.ndarray) -> np.ndarray:
    """All threads of the warps that any of `threads` is of: those behind a loop that looks at nothing wait there for those that are in it."""
    return np.repeat(threads.reshape(-1, WARP).any(axis=1), WARP)


def _only_computes(wave: Wave) -> bool:
    """Are all threads that could run in loops that look at nothing? These go on until the launch's limit: a long computation is no hang."""
    known: dict[int, bool] = wave.state.setdefault("blocks that compute", {})
    at = np.unique(wave.key[wave.key < GATHERING])
    for n in (at - np.where(at >= YIELDED, YIELDED, 0)).tolist():
        if n not in known:
            known[n] = computes(wave.program, n)
        if not known[n]:
            return False
    return True


def _quiet(wave: Wave) -> str:
    most = max(LEAST_QUIET, wave.launch.limit // QUIET)
    if wave.steps - wave.quiet <= most or (wave.polls == wave.quiet_polls and _only_computes(wave)):
        return ""
    return (
        f"has executed {most:,} blocks of instructions in loops without a store or an arrival of anybody: it is endless, or needs a higher "
        f"limit (a loop without a store is ended after limit / {QUIET}, at the least {LEAST_QUIET:,}; limit = {2 * QUIET * most} allows twice as many)"
    )


def _run_block(wave: Wave, block: Block) -> None:
    wave.step = 0
    chain = None if block.gate is None or wave.sel is not ALL else _chain(wave, block)
    if chain is not None:
        chain(wave)
        block = chain.last
    at = block.index
    watch = wave.watch
    marks = (
        watch.unwritten
        if watch is not None and (watch.has_declared or (watch.has_shared and block.has_loads) or watch.unwritten.concerns(block.slots))
        else None
    )
    try:
        if block.gate is not None and chain is None:
            if wave.held & block.slots & ~block.gate.keeps:
                wave.settle(block.slots & ~block.gate.keeps)
            if not block.gate.opens(wave):
                return
            if marks is None:
                block.gate.run(wave)
            else:
                marks.run(wave, block.instructions[0], block.gate.run)
            wave.step = 1
        if wave.held & block.behind:
            wave.settle(block.behind)
        if watch is not None:
            watch.names(wave, block)
        if _run_steps(wave, block, marks, None if chain is None else chain.steps):
            return
        if block.end is None:
            wave.key[wave.sel] = at + 1
        else:
            end = block.end
            marks = _near(wave, block, marks)
            if marks is None:
                end.run(wave, at + 1)
            else:
                marks.run(wave, block.instructions[-1], lambda x: end.run(x, at + 1))
    except SmemsimError as problem:
        problem.instruction = block.instructions[min(wave.step, len(block.instructions) - 1)]  # type: ignore[attr-defined]
        raise


def _chain(wave: Wave, block: Block) -> Together | None:
    """The chain of blocks that begins here, if all threads of the wave run it as machine code."""
    tier = block.tier or tier_of(wave.program, block)
    if not tier.is_done and is_joint(wave.program, block.instructions[0]):
        tier.pays(wave.n, is_watched=wave.watch is not None)
    chain = tier.chain
    return chain if chain is not None and chain.chain.may_run(wave) else None


def _run_steps(wave: Wave, block: Block, marks: Unwritten | None, left: Sequence[Any] | None) -> bool:
    """Run the plain steps of a block, or those that are `left`: those that are machine code so, where no value in doubt is near. Is the block's end done too,
    as that of a loop is?"""
    steps: Sequence[Any] = block.steps if left is None else left
    is_doubtful = marks is not None and marks.concerns(block.slots)
    if left is None and steps and not is_doubtful and wave.late is None:
        tier = block.tier or tier_of(wave.program, block)
        if not tier.is_done:
            tier.pays(wave.n, is_watched=wave.watch is not None)
        if tier.loop is not None:
            tier.loop(wave)
            return True
        steps = tier.steps or steps
    for step in steps:
        if not isinstance(step, Segment):
            _run_step(wave, block, step, marks)
            continue
        left = wave.sel if is_doubtful else step.run(wave)
        if left is not None:
            _run_closures(wave, block, step.steps, marks, left)
            is_doubtful = wave.watch is not None and wave.watch.unwritten.concerns(block.slots)
    return False


def _run_closures(wave: Wave, block: Block, steps: Sequence[Plain], marks: Unwritten | None, threads: Any) -> None:
    """Run plain steps for some of the running threads; the others have run them."""
    kept = wave.sel
    if threads is not kept:
        wave.select(threads)
    try:
        for closure in steps:
            _run_step(wave, block, closure, marks)
    finally:
        if threads is not kept:
            wave.select(kept)


def _near(wave: Wave, block: Block, marks: Unwritten | None) -> Unwritten | None:
    """What follows values in doubt through a block: from its begin on, or since a load of its own has brought what nobody has written."""
    if marks is None and wave.watch is not None and wave.watch.unwritten.concerns(block.slots):
        marks = wave.watch.unwritten
    return marks


def _run_step(wave: Wave, block: Block, step: Plain, marks: Unwritten | None) -> None:
    marks = _near(wave, block, marks)
    if marks is None:
        step(wave)
        if wave.watch is not None:
            wave.watch.unwritten.came(block.instructions[wave.step])
    else:
        marks.run(wave, block.instructions[wave.step], step)
    wave.step += 1


# ---- Running a launch: its clusters in waves, several waves where CTAs wait for each other, and shards of a grid for other processes


WAVE_THREADS = 4096  # threads that are executed together, where registers do not take too much room
WIDE_WAVE_THREADS = 32768  # the same of CTAs that wait for no other, and of which each knows of its own warps alone
WAVE_BYTES = 1 << 28
MATRICES = ("mma", "wmma", "wgmma", "tcgen05")  # what is recorded of these may still name registers when a wave is over


def at_once(launch: Launch, *, watch: bool = True) -> int:
    """Clusters of one wave."""
    threads = launch.cluster_size * (-(-launch.threads // WARP) * WARP)
    own = 8 * max(1, len(launch.program.registers)) + launch.program.places.local_bytes  # bytes of a thread
    room = WAVE_BYTES // (own * threads + launch.cluster_size * launch.window_bytes * 16)
    is_narrow = launch.schedule is not None or depends(launch) or takes_over(launch)
    is_narrow = is_narrow or (watch and not launch.is_apart)  # of the others steps cost the watch as much as the wave has warps
    return max(1, min((WAVE_THREADS if is_narrow else WIDE_WAVE_THREADS) // threads, room))


def resident(launch: Launch) -> int:
    """Clusters that are on the card at once."""
    warps = -(-launch.threads // WARP) * WARP
    fits = min(RESIDENCY.threads // warps, RESIDENCY.ctas, RESIDENCY.shared_bytes // (launch.window_bytes + RESIDENCY.reserved_bytes))
    return max(1, launch.multiprocessors * max(1, fits) // launch.cluster_size)


def in_front(launch: Launch) -> History | None:
    """What a launch that is over has done to memory, for the next one with programmatic stream serialization; None where that cannot begin before its end."""
    history: History | None = launch.history
    if history is None or not releases_dependents(launch):
        return None
    history.before = None  # one is kept, not all
    return history


def depends(launch: Launch) -> bool:
    """May a CTA of the launch wait for, or add to, what another one writes to global memory?"""
    return launch.program.needs_others


def requests(program: Program) -> list[Instruction]:
    """The instructions with which a CTA asks for the work of others."""
    return program.requests


def takes_over(launch: Launch) -> bool:
    """May a CTA of the launch take over the work of others, which then do not begin?"""
    return launch.config.cancel != "never" and bool(requests(launch.program))


def _queue(launch: Launch, clusters: Sequence[int] | None) -> Queue:
    """The clusters that are to run, and how many of them begin whatever others ask for."""
    waiting: Sequence[int] = range(launch.ctas // launch.cluster_size) if clusters is None else clusters
    if launch.schedule is not None:
        waiting = launch.schedule.begins(waiting)
    return Queue(waiting, len(waiting) if not takes_over(launch) else resident(launch) if launch.config.cancel == "resident" else 0)


def execute(
    launch: Launch, clusters: Sequence[int] | None = None, *, watch: bool = True, done: Callable[[int], None] = lambda ctas: None
) -> bool:
    """Run clusters of a launch (all of them without `clusters`); what goes wrong is noted in `launch.findings`.

    `done` is told how many CTAs have finished. A trap ends the launch, and so does a hang: nothing runs after it, as on hardware, and the
    result is False; so it is at the end of the launch's time, and nothing is noted then. CTAs that wait for others are joined by further waves,
    as long as all of them fit on the card at once. Whether requests for others' work were granted is told in `launch.evidence`, the CUDA error
    of a trap or a hang in `launch.status`.
    """
    launch.queue = queue = _queue(launch, clusters)
    try:
        return _execute(launch, queue, watch=watch, done=done)
    finally:
        if queue.asked:
            granted = f"{queue.taken} of {queue.asked} requests were granted" if takes_over(launch) else "no request was granted"
            launch.evidence.add(
                f"clusterlaunchcontrol.try_cancel: {granted} (cancel = {launch.config.cancel!r}: {CANCEL[launch.config.cancel]})"
            )


def _execute(launch: Launch, queue: Queue, *, watch: bool, done: Callable[[int], None]) -> bool:
    most, together = resident(launch), at_once(launch, watch=watch)
    if takes_over(launch) and launch.config.cancel != "resident":
        together = 1  # so that there are others to take over
    if launch.schedule is not None:
        together = launch.schedule.together(together, len(queue))
    launch.waves.clear()
    others_help = depends(launch)
    if watch and launch.options.watch_global and launch.history is None:
        launch.history = History(launch, launch.options.after)
    elif launch.history is None:
        launch.memory.wrote_all()
    history = launch.history if watch else None
    stuck: dict[Wave, int] = {}  # waves that only polled, waited or looped: how much had changed by then
    past = 0  # changes of waves that are over
    counted = 0  # clusters that others took over, of those that `done` was told
    with np.errstate(all="ignore"):
        while queue or launch.waves:
            changes = past + sum(w.changes for w in launch.waves)
            room = most - sum(w.clusters_left for w in launch.waves)
            ready = [w for w in launch.waves if (stuck.get(w) != changes and not w.never_ends) or (w.late is not None and w.late.pending)]
            wave: Any = ready[0] if ready else None
            if launch.schedule is not None:
                wave = launch.schedule.wave(ready, can_begin=bool(queue) and room > 0)
            is_last_try = False
            if wave is None and queue and room > 0:
                wave = _begun(launch, queue.begin(min(together, room)), watch=watch, history=history)
            elif wave is None:
                is_last_try = True
                wave = next((w for w in launch.waves if w.gave_way), None)
            if wave is None:
                launch.status = TIMEOUT
                report_hang(launch, len(queue) * launch.cluster_size)
                return False
            wave.may_pause = len(launch.waves) > 1 or bool(queue)
            try:
                finished = run_wave(wave, gives_way=others_help and not is_last_try and (len(launch.waves) > 1 or bool(queue)))
            except Stuck:
                launch.status = TIMEOUT
                report_hang(launch)
                return False
            except OutOfTime:
                launch.out_of_time = True
                return False
            except HardwareTrap as trap:
                _trapped(launch, trap)
                return False
            if finished:
                count_bytes(launch, wave)
                check_registers(wave)
                if wave.watch is not None:
                    wave.watch.ended()
                launch.waves.remove(wave)
                stuck.pop(wave, None)
                if launch.schedule is None and launch.program.uses.isdisjoint(MATRICES):
                    wave.leave()
                past += wave.changes
                done(len(wave.ctas) + (queue.taken - counted) * launch.cluster_size)
                counted = queue.taken
            elif not wave.paused:
                launch.waves.append(launch.waves.pop(launch.waves.index(wave)))  # the others first
                stuck[wave] = past + sum(w.changes for w in launch.waves)
    return True


def _begun(launch: Launch, clusters: Sequence[int], *, watch: bool, history: History | None) -> Wave:
    """A wave of these clusters, which begins now."""
    wave = Wave(launch, clusters)
    if watch and (launch.window_bytes or history is not None):
        wave.watch = Watch(wave, history)
    if launch.schedule is not None:
        wave.turns = Turns.of(launch.schedule, wave)
        wave.late = Late(launch.schedule, wave, delays=depends(launch))
    launch.waves.append(wave)
    return wave


def _trapped(launch: Launch, trap: HardwareTrap) -> None:
    """Hardware has stopped the kernel: a finding, unless there is one at that line."""
    launch.status = trap.cuda_error
    instruction = getattr(trap, "instruction", None)
    if instruction is not None and not any(f.line == instruction.line for f in launch.findings.values()):
        code = "X013" if instruction.op == "trap" else _CODES.get(trap.cuda_error, "X015")
        launch.find(code, instruction, str(trap))
    for wave in launch.waves:
        if wave.watch is not None:
            wave.watch.abandoned()


_CODES = {700: "X001", 716: "X002", 719: "X001"}
