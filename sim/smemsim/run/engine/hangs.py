"""A launch that will never end: which warps wait, at which line, for what, and where those are that they wait for;
the likeliest cause first.
"""

from __future__ import annotations

import functools
from collections.abc import Collection

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import Unmodelled
from smemsim.core.finding import Half, Value, of_ctas, ranges
from smemsim.core.ptx.module import Address, Immediate, Instruction, Register, place_of
from smemsim.run.engine.held_up import Holders, brings_bytes, could_come, holders, reached
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.wave import EXITED, GATHERING, LEAST_SUSPICIOUS, PARKED, WARP, WARPGROUP, YIELDED, Wait, Wave
from smemsim.run.isa.barriers.cta import tell_parted
from smemsim.run.isa.barriers.hang_causes import check_bytes, is_wait
from smemsim.run.isa.barriers.mbarrier import Mbarrier, mbarriers
from smemsim.run.isa.barriers.mbarrier_lifetime import check_reused
from smemsim.run.isa.barriers.skipped_barriers import keeps_lanes
from smemsim.run.lower.cfg import loop_around

__all__ = ["count_bytes", "refuse_host", "report_hang"]


MOST_PLACES = 4  # groups of threads that a message lists
MOST_READS = 2  # instructions of an endless loop that are named
FULL = 0xFFFFFFFF
OTHER_SPACES = ("shared", "local", "param", "const")  # than global memory
MASKED = ("shfl", "vote", "match", "redux", "elect", "bar", "barrier")  # for the lanes that a mask names


def count_bytes(launch: Launch, wave: Wave, *, hangs: bool = False) -> None:
    """T210 for mbarriers whose expected bytes differ from the bytes that came, X010 for those whose memory was used for
    something else, X011 for warps that are a barrier apart.

    Called when all CTAs have finished, or when no wave can go on.
    """
    for cta in wave.ctas.made:
        for barrier in mbarriers(cta).values():
            check_bytes(barrier, wave, hangs=hangs, is_to_come=functools.partial(_is_to_come, wave, barrier))
            check_reused(wave, barrier)
    tell_parted(wave)


def _is_to_come(x: Wave, barrier: Mbarrier, ranks: Collection[int]) -> bool:
    """Do threads of an mbarrier's cluster, or of these CTAs of it, wait elsewhere, before copies that may complete on
    it? Then their wait is the cause.
    """
    waiting = [wait.threads for wait in x.positions.waiting if all(wait is not own for own, _ in barrier.waits)]
    if not waiting:
        return False
    threads = np.concatenate(waiting)
    clusters, own = np.divmod(x.cta_of[threads], x.launch.cluster_size)
    near = threads[(clusters == barrier.cta.index // x.launch.cluster_size) & (np.isin(own, [*ranks]) if ranks else True)]
    return bool(could_come(x, near, (i.site for i in x.program.inlined.body if brings_bytes(i))).size)


def refuse_host(launch: Launch, wave: Wave) -> None:
    """Unmodelled where threads poll memory that the host could write: a launch runs to its end before
    the host goes on.
    """
    if wave.progress.polled is None or not ((wave.pc >= YIELDED) & (wave.pc < GATHERING)).any():
        return
    i, pieces = wave.progress.polled
    for piece in pieces:
        if piece.space == "global" and launch.memory.is_hosts_too(piece.memory, int(piece.at[0])):
            raise Unmodelled(
                f"{i.name} waits for a value in memory that the host can write: a launch runs to its end before the host goes on",
                line=i.line,
            )


def report_hang(launch: Launch, outside: int = 0) -> None:
    """Note a finding for every instruction at which warps wait for ever; `outside` CTAs have not begun, as the card
    is full.
    """
    for wave in launch.waves:
        refuse_host(launch, wave)
    alive = sum(wave.positions.clusters_left for wave in launch.waves) * launch.cluster_size
    full = f"; {outside} of {launch.ctas} CTAs have not begun, because the {alive} waiting CTAs fill the card" if outside else ""
    repair = "launch no more CTAs than are on the card at once (cudaOccupancyMaxActiveBlocksPerMultiprocessor)" if outside else ""
    for wave in launch.waves:
        before = len(launch.result.findings)
        count_bytes(launch, wave, hangs=True)
        if wave.events.wave_hung:
            wave.events.wave_hung(wave)
        held = holders(wave)
        kept = _report_kept(launch, wave, held)
        _report_parted_warps(launch, wave)
        waits = _by_suspicion(wave, held)
        tell = [
            functools.partial(_report_waits, launch, wave, waits, held, kept, repair, full),
            functools.partial(_report_loops, launch, wave, repair, full),
        ]
        for act in reversed(tell) if waits and _is_held_by_loop(wave, waits[0][1]) else tell:
            act()
        if len(launch.result.findings) == before:
            _report_kept(launch, wave, held, anyway=True)


def _is_held_by_loop(x: Wave, wait: Wait) -> bool:
    """Are all threads that a barrier of threads waits for in an endless loop? Then that is the cause."""
    missing = _missing(wait)
    return missing is not None and missing.size > 0 and bool((x.pc[missing] < GATHERING).all())


def _report_waits(
    launch: Launch, wave: Wave, waits: list[tuple[str, Wait]], held: Holders, kept: np.ndarray, repair: str, full: str
) -> None:
    for mend, wait in waits:
        missing = _missing(wait)
        if missing is None and held.threads is not None:
            missing = held.threads[id(wait)]
        if missing is not None and missing.size and np.isin(missing, kept).all():
            continue  # for lanes that another barrier keeps: that is the cause, and told
        who = _who(wave, wait.threads)
        does = "waits" if _is_single(wave, wait.threads) else "wait"
        halves: tuple[Half, ...] = (Half("wait", f"{who} ({wait.instruction.name})", wait.instruction),)
        halves += _arrivals(wave, wait)
        launch.find(
            "X006", wait.instruction, f"{who} {does} for ever", repair or mend, touched=wait.touched, halves=halves, why=f"{wait.what()}{full}",
            numbers=wait.numbers() | _held_by(wave, wait, held),
        )  # fmt: skip


def _held_by(x: Wave, wait: Wait, held: Holders) -> dict[str, Value]:
    """The sites at which those threads wait or loop that hold up a wait; nothing if that is not known."""
    if held.threads is None:
        return {}
    threads = held.threads[id(wait)]
    sites = {other.instruction.site for other in x.positions.waiting if np.isin(other.threads, threads).any()}
    sites |= {_at(x, at).site for at in distinct(x.pc[threads]).tolist() if at < PARKED}
    return {"held_by": sorted(sites)}


def _report_loops(launch: Launch, wave: Wave, repair: str, full: str) -> None:
    for first, last, what in (
        (YIELDED, GATHERING, wave.progress.endless or "it polls a value that never changes"),
        (0, YIELDED, "no other thread can observe what the loop does"),
    ):
        threads = np.flatnonzero((wave.pc >= first) & (wave.pc < last))
        for at in distinct(wave.pc[threads]).tolist():
            own = threads[wave.pc[threads] == at]
            who, is_single = _who(wave, own), _is_single(wave, own)
            i = _instruction(wave, at - first, polls=first == YIELDED)
            reads, arrays, missed = _polled(wave, at - first, int(own[0])) if first == YIELDED else ("", (), "")
            launch.find(
                "X006", i, f"{who} {_does(wave, is_single=is_single)}",
                repair or wave.progress.way_out or f"{missed}{_end_of_loop(wave, at - first)}",
                why=f"{what}{reads}{full}", halves=(Half("loop", f"{who} ({i.name})", i),), arrays=arrays,
            )  # fmt: skip


def _polled(x: Wave, block: int, thread: int) -> tuple[str, tuple[int, ...], str]:
    """What a thread reads of global memory again and again in a loop, and with what it compares that; the array; the
    fix if the value that it waits for may have come and gone.
    """
    body = [i for n in sorted(loop_around(x.program, block) or {block}) for i in x.program.blocks[n].instructions]
    loads = {i.site: i for i in body if i.op in ("ld", "atom") and not any(word.startswith(OTHER_SPACES) for word in i.modifiers)}
    if len(loads) != 1:
        return "", (), ""
    (load,) = loads.values()
    gives, address = load.operands[0], load.operands[1]
    if not isinstance(gives, Register) or not isinstance(address, Address) or not isinstance(address.base, Register):
        return "", (), ""
    others = {slot for i in body if i is not load for slot in i.given}
    if not others.isdisjoint((gives.slot, address.base.slot)) or not {"f16", "bf16", "f32", "f64"}.isdisjoint(load.modifiers):
        return "", (), ""
    x.materialize()
    at = int(x.r[address.base.slot][thread]) + address.offset
    region = x.launch.memory.find(at) if x.launch.memory.holds(at) else None
    if region is None:
        return "", (), ""
    name = x.launch.array_name(region.begin, region.begin + len(region.data)) or region.name
    where = f"byte {at - region.begin} of {name}" if name else f"{at:#x}"
    told = f": {_who(x, np.array([thread]))} reads {x.r[gives.slot][thread]} at {where}"
    compares = [(i, value) for i in body if i.op == "setp" and (value := _compared(x, i, gives.slot, thread)) is not None]
    if not compares:
        return told, (region.begin,), ""
    i, awaited = compares[0]
    has_passed = i.modifiers[0] in ("eq", "ne") and int(x.r[gives.slot][thread]) > awaited >= 0 and load.op == "ld"
    missed = f"if it was {awaited} before: let the thread that writes it wait for an answer before it writes again; or " * has_passed
    return f"{told}, and compares it with {awaited} ({i.name})", (region.begin,), missed


def _compared(x: Wave, i: Instruction, slot: int, thread: int) -> int | None:
    """With what a thread compares the value of a register, if that is known."""
    sides = i.operands[1:3]
    other = [one for one in sides if not (isinstance(one, Register) and one.slot == slot)]
    if len(other) != 1:
        return None
    if isinstance(other[0], Register):
        return int(x.r[other[0].slot][thread])
    return other[0].value if isinstance(other[0], Immediate) else None


def _end_of_loop(x: Wave, block: int) -> str:
    """The fix for an endless loop: what it reads has to change, or its condition."""
    blocks = x.program.blocks
    body = [i for n in sorted(loop_around(x.program, block) or {block}) for i in blocks[n].instructions]
    named = [*dict.fromkeys(f"{i.at} ({i.name})" for i in body if i.op in ("ld", "atom") or is_wait(i))][:MOST_READS]
    if named:
        return f"let another thread change what {' and '.join(named)} read{'s' * (len(named) == 1)}; or end the loop after some iterations"
    ends = [i for i in body if i.guard is not None and i.op in ("bra", "exit", "ret")]
    if ends:
        return f"let the loop change the condition of {ends[-1].at} ({ends[-1].text})"
    return "a branch that leads out of the loop"


# ---- who waits for whom


def _missing(wait: Wait) -> np.ndarray | None:
    """The threads that a wait needs, by their number in the wave; None if that is not known."""
    return None if wait.missing is None else wait.missing()


def _arrivals(x: Wave, wait: Wait) -> tuple[Half, ...]:
    """Rows of a message: the warps that have arrived at an mbarrier in this phase, and where those threads are that
    have not.
    """
    missing = _missing(wait)
    came = np.zeros(0, np.int64)
    if missing is None and wait.participants is not None:
        came, missing = wait.participants()
    rows = [Half("arrived", f"{_who(x, came)}")] if came.size else []
    # else they are those that wait
    if missing is not None and missing.size and not np.isin(missing, wait.threads).all():
        warps = missing // WARP
        gone = missing[~np.isin(warps, warps[x.pc[missing] < EXITED])]  # of warps that have exited as a whole
        ended = [f"{_who(x, gone)} {'has' if gone.size <= WARP else 'have'} exited"] if gone.size else []
        rows.append(Half("missing", "; ".join(filter(None, (_whereabouts(x, missing), *ended)))))
    return tuple(rows)


def _by_suspicion(x: Wave, held: Holders) -> list[tuple[str, Wait]]:
    """The waits, the likeliest cause first, each with what to change there."""
    told = []
    for wait in x.positions.waiting:
        suspicion, mend = _suspicion(x, wait)
        is_held = suspicion > 0 and id(wait) not in held.roots
        told.append((is_held, suspicion, place_of(wait.instruction.site), int(wait.threads[0]), mend, wait))
    return [(mend, wait) for *_, mend, wait in sorted(told, key=lambda t: (min(t[1], 1), *t[:4]))]


def _suspicion(x: Wave, wait: Wait) -> tuple[int, str]:
    """How far a wait is from the cause of the hang (0 is the nearest), and what to change there.

    A barrier of threads is the cause if no thread is left that could arrive, or if all missing threads wait at other
    barriers of threads. Otherwise the waits of the missing threads are.
    """
    missing, own = _missing(wait), wait.suspicion()
    if missing is None or own[1]:
        return own
    if not missing.size:
        return 1, "correct the thread count, or let the missing threads arrive before they end: no thread is left that could arrive"
    at = {id(other): other for other in x.positions.waiting if np.isin(other.threads, missing).any()}
    held = np.isin(missing, np.concatenate([other.threads for other in at.values()])) if at else np.zeros(len(missing), bool)
    if held.all() and all(other.missing is not None for other in at.values()):
        return 1, "let all threads come to the same barrier: the same number, outside branches that only some threads take"
    parted = np.intersect1d(wait.threads // WARP, missing // WARP)
    if parted.size:
        lanes = np.flatnonzero(np.isin(np.arange(len(x.pc)) // WARP, parted) & (x.pc < EXITED))
        return (
            LEAST_SUSPICIOUS,
            f"let all lanes of a warp come to {wait.instruction.at} together: a branch has split {_who(x, lanes)}",
        )
    return LEAST_SUSPICIOUS, "let the missing threads come to this barrier: look at what holds them up"


def _report_parted_warps(launch: Launch, x: Wave) -> None:
    """X011 if some lanes wait at an instruction for other lanes of their warp (or warpgroup) that never reach it: the
    first cause of a hang.

    Lanes that still wait for something before the instruction, and reach it later, are no cause: their own wait is.
    """
    gathering = np.flatnonzero((x.pc >= GATHERING) & (x.pc < PARKED))
    for at in distinct(x.pc[gathering]).tolist():
        block = at - GATHERING
        here = gathering[x.pc[gathering] == at]
        i = _instruction(x, block)
        if keeps_lanes(i):
            continue  # `_report_kept`
        size = WARPGROUP if i.op == "wgmma" else WARP
        units = x.cta_of * x.stride + x.tid // size  # of a CTA
        for unit in distinct(units[here]).tolist():
            own = here[units[here] == unit]
            missing = _absent(x, i, own, np.flatnonzero(units == unit))
            if missing.size and _is_first_cause(x, block, own, missing):
                by_mask = i.operands and i.op in MASKED
                mask = f", whose member mask is {_mask(x, i, own):#010x}" if by_mask else ""
                launch.find(
                    "X011", i, f"{_who(x, own)} wait{'s' * (len(own) == 1)} for ever at {i.name}{mask}",
                    "take it out of the branch, or name in its mask only the lanes that execute it" if by_mask else
                    "take it out of the branch: all threads of the warp (or warpgroup) must execute it together",
                    why=f"the instruction waits for {'lanes' if by_mask else 'threads'} that never execute it",
                    halves=(Half("wait", i.name, i), Half("missing", _whereabouts(x, missing))),
                    numbers={"lanes": sum(1 << int(lane) for lane in x.grid.lane[own])} if by_mask else {},
                )  # fmt: skip


def _report_kept(launch: Launch, x: Wave, held: Holders, *, anyway: bool = False) -> np.ndarray:
    """X011 if a barrier keeps lanes that have come there without the others of their warp, which wait for them, or
    `anyway`. The lanes that are told so.
    """
    kept = [(at - GATHERING, x.pc == at) for at in distinct(x.pc[(x.pc >= GATHERING) & (x.pc < PARKED)]).tolist()]
    told: list[int] = []
    for block, i, here in ((block, _instruction(x, block), np.flatnonzero(here)) for block, here in kept):
        for warp in distinct(here // WARP).tolist() if keeps_lanes(i) else ():
            own = here[here // WARP == warp]
            lanes = np.arange(warp * WARP, warp * WARP + WARP)
            missing = lanes[(x.pc[lanes] < EXITED) & ~np.isin(lanes, own)]
            if np.isin(missing, told).any() or not (anyway or _wait_for(x, missing, own, block, held)):
                continue
            told += own.tolist()
            who, why = (
                _who(x, own),
                "it keeps lanes until all others of their warp exit or come to the same barrier; an H200 hangs, or ends with error 715",
            )
            what, fix = f"comes to {i.name} alone, which keeps it for ever", "move the barrier out of the branch"
            halves = [Half("arrive", f"{who} ({i.name})", i), Half("missing", _whereabouts(x, missing))]
            if len(own) > 1:
                what = f"come to {i.name} alone, which keeps them for ever"
            if not missing.size:
                what, fix = (
                    f"executes {i.name} with several barrier numbers or thread counts, which keeps it for ever",
                    "one number and one count for each warp",
                )
                why, halves = "an H200 ends with error 715", halves[:1]
            launch.find(
                "X011", i, f"{who} {what}", fix, why=why, because="measured on an H200, trace lanes_at_barriers", halves=tuple(halves)
            )
    return np.array(told, np.int64)


def _wait_for(x: Wave, missing: np.ndarray, own: np.ndarray, block: int, held: Holders) -> bool:
    """Do lanes of a warp wait for others, which a barrier at the begin of a block keeps, where these would come later?
    If they wait for something else, or where these have passed, that is the cause.
    """
    at = x.pc[missing]
    if not missing.size or (at < GATHERING).any():
        return True
    for one in distinct(at[at < PARKED]).tolist():
        there = one - GATHERING
        i, is_later = _instruction(x, there), there in reached(x, block)
        if (is_later or block not in reached(x, there)) if keeps_lanes(i) else is_later and _absent(x, i, missing[at == one], own).size:
            return True
    for wait in x.positions.waiting:
        if np.isin(wait.threads, missing).any():
            needed, site = _missing(wait), wait.instruction.site
            if needed is None:
                needed = own if held.threads is None else held.threads[id(wait)]
            elif not could_come(x, own, [site]).size:
                continue
            if np.isin(own, needed).any():
                return True
    return False


def _mask(x: Wave, i: Instruction, own: np.ndarray) -> int:
    operand = i.operands[-1]
    return operand.value & FULL if isinstance(operand, Immediate) else int(x.positions.members[own[0]])


def _absent(x: Wave, i: Instruction, own: np.ndarray, threads: np.ndarray) -> np.ndarray:
    """The `threads` of a warp or warpgroup that have not exited, that an instruction is for, and that are not there."""
    absent = (x.pc[threads] < EXITED) & ~np.isin(threads, own)
    if i.op in MASKED:
        absent &= (_mask(x, i, own) >> x.grid.lane[threads] & 1).astype(bool)
    found: np.ndarray = threads[absent]
    return found


def _is_first_cause(x: Wave, block: int, own: np.ndarray, missing: np.ndarray) -> bool:
    """Have missing lanes gone elsewhere: past the instruction, or to a barrier (or another such instruction) that
    waits for those that are here?
    """
    for at in distinct(x.pc[missing]).tolist():
        where = at - (PARKED if at >= PARKED else GATHERING if at >= GATHERING else YIELDED if at >= YIELDED else 0)
        waits = GATHERING <= at < PARKED and not keeps_lanes(_instruction(x, where))
        if waits or block not in reached(x, where):
            return True
    for wait in x.positions.waiting:
        if np.isin(wait.threads, missing).any():
            waits_for = _missing(wait)
            if waits_for is not None and np.isin(own, waits_for).any():
                return True
    return False


# ---- in words


def _instruction(wave: Wave, block: int, *, polls: bool = False) -> Instruction:
    """The instruction at which threads are that are about to execute a block. `polls`: a test_wait found that its phase
    is not complete, and they have yielded.
    """
    blocks = wave.program.blocks
    if polls and block and blocks[block - 1].instructions and is_wait(blocks[block - 1].instructions[-1]):
        return blocks[block - 1].instructions[-1]
    while not blocks[block].instructions:
        block += 1
    return blocks[block].instructions[0]


def _at(x: Wave, at: int) -> Instruction:
    """The instruction at which threads are that do not wait at a barrier, by their place in the program."""
    polls = YIELDED <= at < GATHERING
    return _instruction(x, at - (GATHERING if at >= GATHERING else YIELDED if polls else 0), polls=polls)


def _who(wave: Wave, threads: np.ndarray) -> str:
    """Warps by CTA, as a kernel author counts them; lanes where only some of one warp are meant."""
    parts: dict[tuple[str, tuple[int, ...]], list[object]] = {}  # the CTAs with the same lanes and warps
    for cta in distinct(wave.cta_of[threads]).tolist():
        own = threads[wave.cta_of[threads] == cta]
        warps = distinct(wave.tid[own] // WARP).tolist()
        lanes = _lanes(wave, own) if len(warps) == 1 else "some lanes" * _are_parts(wave, own)
        parts.setdefault((lanes, tuple(warps)), []).append(wave.ctas[cta].ctaid)
    said = []
    for (lanes, its), ctas in parts.items():
        said.append(f"{f'{lanes} of ' if lanes else ''}warp{'s' * (len(its) > 1)} {ranges(its)} {of_ctas(ctas)}")
    return "; ".join(said[:MOST_PLACES]) + " ..." * (len(said) > MOST_PLACES)


def _are_parts(x: Wave, own: np.ndarray) -> bool:
    """Do warps of these threads have other threads, too, that have not exited?"""
    of_warps = np.isin(np.arange(len(x.pc)) // WARP, own // WARP)
    return int((of_warps & (x.pc < EXITED)).sum()) > len(own)


def _does(x: Wave, *, is_single: bool) -> str:
    """The actions of threads that never end, as far as they are known. A launch that reached its limit may end
    later.
    """
    if x.progress.way_out:
        return f"still {'runs' if is_single else 'run'} at the limit of the launch"
    return f"{'loops' if is_single else 'loop'} for ever"


def _is_single(x: Wave, threads: np.ndarray) -> bool:
    """Are they one warp as a whole (the same one in each CTA), or one thread?"""
    if len(distinct(x.tid[threads] // WARP)) > 1:
        return False
    return threads.size == 1 or not any(_lanes(x, threads[x.cta_of[threads] == cta]) for cta in distinct(x.cta_of[threads]).tolist())


def _lanes(x: Wave, own: np.ndarray) -> str:
    """The lanes of one warp, "" for all of them that have not exited."""
    warp = np.arange(own[0] // WARP * WARP, own[0] // WARP * WARP + WARP)
    if (x.pc[warp] < EXITED).sum() <= len(own):
        return ""
    lanes = x.grid.lane[own]
    ends = np.flatnonzero(np.diff(lanes) != 1)
    begins, ends = lanes[np.concatenate([[0], ends + 1])].tolist(), lanes[np.concatenate([ends, [len(lanes) - 1]])].tolist()
    runs = [str(lo) if lo == hi else f"{lo} to {hi}" for lo, hi in zip(begins, ends, strict=True)]
    return f"lane{'s' * (len(own) > 1)} {', '.join(runs[:8])}{' ...' * (len(runs) > 8)}"


def _whereabouts(x: Wave, threads: np.ndarray) -> str:
    """The places of threads that others wait for: 'lanes 16 to 31 of warp 0 of CTA (0, 0, 0) wait at line 14
    (bar.sync)'.
    """
    places: dict[tuple[str, int, str], list[np.ndarray]] = {}
    for at in distinct(x.pc[threads]).tolist():
        there = threads[x.pc[threads] == at]
        if PARKED <= at < EXITED:
            for wait in x.positions.waiting:
                if (mine := there[np.isin(there, wait.threads)]).size:
                    places.setdefault(("wait", wait.instruction.site, wait.instruction.name), []).append(mine)
        elif at < EXITED:
            i = _at(x, at)
            places.setdefault(("wait" if at >= GATHERING else "loop", i.site, i.name), []).append(there)
    sentences = []
    for (does, site, name), parts in sorted(places.items(), key=lambda item: place_of(item[0][1])):
        all_of_them = distinct(np.concatenate(parts))
        sentences.append(f"{_who(x, all_of_them)} {does}{'s' * _is_single(x, all_of_them)} at {x.program.at(site)} ({name})")
    return "; ".join(sentences[:MOST_PLACES]) + " ..." * (len(sentences) > MOST_PLACES)
