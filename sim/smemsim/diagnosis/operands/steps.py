"""Do sums go through all of K, and does a new sum go on with the one before?"""

from __future__ import annotations

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.core.finding import Finding, InLaunch, at_instruction
from smemsim.core.machine.global_memory import GlobalMemory
from smemsim.core.spec.findings import Severity
from smemsim.diagnosis.operands.gaps import gaps
from smemsim.diagnosis.operands.read import OperandRead, Reach
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.run.engine.records import Mma
from smemsim.run.lower.cfg import leads_by
from smemsim.run.lower.program import Program

__all__ = ["are_whole", "begun_anew", "has_gaps", "is_discarded", "unreached"]


def unreached(reads: Reads, memory: GlobalMemory) -> list[Finding]:
    """A remark (R508) if no instruction multiplies the last tile of K, the first one, or one between others: perhaps a
    loop with one trip too few. A kernel may leave out a part of K.

    It is reported only under these conditions. All instructions of all CTAs are known. Both maps have the same K, and
    both operands end at the same k. Every sum has all the k that others have. There are at least two tiles, and one
    tile is left. Neither operand is zero there, like padding. The caller knows that the whole grid ran.
    """
    if not reads.complete or reads.missed_instructions:
        return []
    for reach in reads.reaches.values():
        extent = reach.a.modes[1][0].extent
        tile = max(reach.a.k_of_box, reach.b.k_of_box)
        same = (reach.a_begin, reach.a_end) == (reach.b_begin, reach.b_end) and extent == reach.b.modes[1][0].extent
        if not same or reach.a_end - reach.a_begin < 2 * tile or not are_whole(reads, reach):
            continue
        for begin, end in ((reach.a_end, extent), (0, reach.a_begin)):
            if 0 < end - begin <= tile and _is_data(memory, reach, begin, end):
                return [_found_unreached(reach, begin, end, extent)]
    for gap in gaps(reads):
        same = gap.reach.a.modes[1][0].extent == gap.reach.b.modes[1][0].extent
        tile = max(gap.reach.a.k_of_box, gap.reach.b.k_of_box)
        if same and gap.is_everywhere and gap.end - gap.begin <= tile and _is_data(memory, gap.reach, gap.begin, gap.end):
            return [_found_unreached(gap.reach, gap.begin, gap.end, gap.reach.a.modes[1][0].extent)]
    return []


def has_gaps(reads: Reads, memory: GlobalMemory) -> bool:
    """Does a sum leave out k between others, where both operands have data? Sparse and masked products do that."""
    return any(_is_data(memory, gap.reach, gap.begin, gap.end) for gap in gaps(reads))


def _is_data(memory: GlobalMemory, reach: Reach, begin: int, end: int) -> bool:
    return _has_data(memory, reach.a, begin, end) and _has_data(memory, reach.b, begin, end)


def are_whole(reads: Reads, reach: Reach) -> bool:
    """Has every sum all the k that any sum multiplies, each once?"""
    sums: list[list[tuple[int, int]]] = []
    last: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for p in reads.products:
        steps = [(read.at[1], event.k) for read, event in zip(p.a, p.events, strict=True) if read is not None and read.base == reach.a.base]
        if not steps:
            continue
        before = last.get(p.accumulator)
        if before is None or p.events[0].begins or steps[0][0] <= before[-1][0]:
            before = last[p.accumulator] = []
            sums.append(before)
        before += steps
    wanted = reach.a_end - reach.a_begin
    return all(
        sum(count for _, count in one) == wanted == max(k + count for k, count in one) - min(one)[0]
        and len({k for k, _ in one}) == len(one)
        for one in sums
    )


def _has_data(memory: GlobalMemory, read: OperandRead, begin: int, end: int) -> bool:
    """Is anything but zero there, between two k of an operand's matrix?"""
    tm = read.loads[0].transfer.tensor_map
    size, pitch, (columns, rows) = tm.type_row.bits // 8, tm.global_strides[0], tm.global_dim
    first, last, high, low = (begin, end, 0, rows) if read.along_k else (0, columns, begin, end)
    try:
        raw = memory.span(tm.global_address + high * pitch, (low - high - 1) * pitch + columns * size)
    except SmemsimError:
        return False
    lines = np.lib.stride_tricks.as_strided(raw, (low - high, columns * size), (pitch, 1))
    return bool(lines[:, first * size : last * size].any())


def _found_unreached(reach: Reach, begin: int, end: int, extent: int) -> Finding:
    is_inside = reach.a_begin < begin < reach.a_end
    trip = "this" if is_inside else "the last" if begin else "the first"
    return at_instruction(
        "R508",
        reach.event.instruction,
        f"no instruction multiplies k = {begin} to {end - 1} of A and B",
        f"one more iteration of the loop over k, for {trip} tile",
        why=f"the maps have K = {extent}; the products of the launch add up k = {reach.a_begin} to {min(reach.a_end, extent) - 1}{' without these' * is_inside}",
        milder=Severity.NOTE,
    )


def begun_anew(reads: Reads) -> dict[tuple[int, int], bool]:
    """For the lines of two matrix instructions. The second one starts a new sum in the accumulator of the first. Does
    it continue with the same rows of both operands and another k, like one sum? Without an entry it is not known.
    """
    found: dict[tuple[int, int], bool] = {}
    last: dict[tuple[object, ...], tuple[Mma, OperandRead | None, OperandRead | None]] = {}
    for p in reads.products:
        for now in zip(p.events, p.a, p.b, strict=True):
            before = last.get(p.accumulator)
            last[p.accumulator] = now
            event, a, b = now
            if before is None or event.scale_d or a is None or b is None or before[1] is None or before[2] is None:
                continue
            key = before[0].instruction.line, event.instruction.line
            found[key] = found.get(key, False) or _is_one_sum((before[1], before[2]), (a, b))
    return found


def is_discarded(program: Program, lost: Finding, sums: dict[tuple[int, int], bool]) -> bool:
    """Did the program discard the product of X017 on purpose, as `begun_anew` says? For operands without tensor loads:
    is there a path to the overwriting instruction with a reader?
    """
    by, now = (lost.at.other, lost.at.instruction) if isinstance(lost.at, InLaunch) else (None, None)
    if by is None or now is None:
        return False
    if (by.line, now.line) in sums:
        return not sums[by.line, now.line]
    body = program.inlined.body
    if now.op == "tcgen05":
        readers = [i for i in body if i.op == "tcgen05" and i.modifiers[0] == "ld"]
    else:
        own = {slot for slot, gives in by.mentions if gives}
        readers = [i for i in body if i.op != "wgmma" and not own.isdisjoint(i.used)]
    return leads_by(program, by, now, readers)


def _is_one_sum(before: tuple[OperandRead, OperandRead], now: tuple[OperandRead, OperandRead]) -> bool:
    """Do two instructions multiply the same rows of both operands, and another k?"""
    rows = all((one.base, one.at[0]) == (two.base, two.at[0]) for one, two in zip(before, now, strict=True))
    return rows and all(one.at[1] != two.at[1] for one, two in zip(before, now, strict=True))
