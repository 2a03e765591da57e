"""Do A and B step through the same K, and through all of it? The products that add up in one accumulator must multiply
the same k of both.
"""

from __future__ import annotations

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.core.finding import Finding, InLaunch, at_instruction
from smemsim.core.machine.global_memory import GlobalMemory
from smemsim.core.spec.findings import Severity
from smemsim.diagnosis.operands.read import OperandRead, Product, Reach
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.run.engine.records import Mma
from smemsim.run.lower.cfg import leads_by
from smemsim.run.lower.program import Program

__all__ = ["begun_anew", "is_discarded", "mismatches", "swapped", "unreached"]


def mismatches(reads: Reads) -> list[Finding]:
    """R508 for the first product in which the k of A and of B part, at the load that brought the wrong one."""
    before: dict[tuple[object, ...], Product] = {}
    for p in reads.products:
        a, b = p.a[0], p.b[0]
        if a is None or b is None or not (a.is_matrix and b.is_matrix):
            before.pop(p.accumulator, None)
            continue
        last = before.get(p.accumulator)
        before[p.accumulator] = p
        if last is None or p.events[0].begins:
            continue
        last_a, last_b = last.a[0], last.b[0]
        if last_a is None or last_b is None or (last_a.base, last_b.base) != (a.base, b.base):
            continue
        if (last_a.at[0], last_b.at[0]) != (a.at[0], b.at[0]):  # another tile of the result
            continue
        if a.modes[1][0].extent != b.modes[1][0].extent:  # one of them may be packed: blocks of a sparse matrix
            continue
        step_a, step_b = a.at[1] - last_a.at[1], b.at[1] - last_b.at[1]
        if step_a != step_b:
            return [_found(p, a, b, step_a, step_b)]
    return []


def _found(p: Product, a: OperandRead, b: OperandRead, step_a: int, step_b: int) -> Finding:
    """The operand that stays, or goes the shorter way, is the one that was loaded wrongly."""
    name, wrong, other = ("A", a, b) if abs(step_a) < abs(step_b) else ("B", b, a)
    line = p.events[0].instruction.line
    return at_instruction(
        "R508",
        wrong.loads[0].event.instruction,
        f"the product at line {line} multiplies k = {a.at[1]} of A with k = {b.at[1]} of B",
        f"load {name} at k = {other.at[1]}, or read it from the stage that holds that k",
        why=f"since the product before, A advanced by {step_a} and B by {step_b}; {name} was loaded at coordinates {list(wrong.loads[0].event.coordinates)}",
    )


def swapped(reads: Reads) -> list[Finding]:
    """R508 for loads whose coordinates of row and k are exchanged.

    It is certain if all of this holds. The products of one accumulator advance along the k of one operand. The tile
    of the other operand advances by as much along its rows, at the coordinates that its k should have, while its k
    stays. Both tensors have as many k. Within a tile the instructions step along k (with the wrong major-ness they do
    not).
    """
    sums: dict[tuple[object, ...], list[tuple[OperandRead, OperandRead]]] = {}
    for p in reads.products:
        a, b = p.first
        if a is None or b is None or not (a.is_matrix and b.is_matrix and _steps_along_k(p)):
            sums.pop(p.accumulator, None)
            continue
        held = sums.setdefault(p.accumulator, [])
        if p.events[0].begins or not held or (held[0][0].base, held[0][1].base) != (a.base, b.base):
            held.clear()
        held.append((a, b))
        for name, wrong, other in (("A", 0, 1), ("B", 1, 0)):
            if _goes_along_rows([(one[wrong], one[other]) for one in held[-2:]]):
                return [_found_swapped(name, held[-1][wrong], held[-1][other])]
    return []


def _steps_along_k(p: Product) -> bool:
    """Do the instructions of a product go on along the k of both tiles?"""
    steps = [(one, two, event.k) for side in (p.a, p.b) for one, two, event in zip(side, side[1:], p.events, strict=False)]
    return bool(steps) and all(
        one is None or two is None or (two.at[0] == one.at[0] and two.at[1] == one.at[1] + k) for one, two, k in steps
    )  # fmt: skip


def _goes_along_rows(held: list[tuple[OperandRead, OperandRead]]) -> bool:
    """Do rows of the first operand go where its k should, as the k of the second one does?"""
    if len(held) < 2:
        return False
    (now, other), (then, other_then) = held
    rows, k = [read.corner[0] for read in (now, then)], [read.corner[1] for read in (other, other_then)]
    stays = now.corner[1] == then.corner[1] and other.corner[0] == other_then.corner[0]
    return stays and rows == k and rows[0] != rows[1] and now.modes[1][0].extent == other.modes[1][0].extent


def _found_swapped(name: str, wrong: OperandRead, other: OperandRead) -> Finding:
    load, at = wrong.loads[0], wrong.loads[0].event.coordinates
    names = "{k, row}" if wrong.along_k else "{row, k}"
    return at_instruction(
        "R508",
        load.event.instruction,
        f"the coordinates {list(at)} of {name}'s tile are swapped: k = {wrong.corner[1]}, rows from {wrong.corner[0]} on",
        f"coordinates {names}, dimension 0 (the contiguous one) first: [{at[1]}, {at[0]}] here",
        why=f"the other operand has k = {other.corner[1]}; from product to product the rows of {name} advance, and its k stays",
    )


def unreached(reads: Reads, memory: GlobalMemory) -> list[Finding]:
    """A remark (R508) if no instruction multiplies the last (or the first) tile of K: perhaps a loop with one trip too
    few. A kernel may leave out a part of K.

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
        if not same or reach.a_end - reach.a_begin < 2 * tile or not _are_whole(reads, reach):
            continue
        for begin, end in ((reach.a_end, extent), (0, reach.a_begin)):
            if 0 < end - begin <= tile and _has_data(memory, reach.a, begin, end) and _has_data(memory, reach.b, begin, end):
                return [_found_unreached(reach, begin, end, extent)]
    return []


def _are_whole(reads: Reads, reach: Reach) -> bool:
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
    return all(sum(count for _, count in one) == wanted == max(k + count for k, count in one) - min(one)[0] for one in sums)


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
    trip = "the last" if begin else "the first"
    return at_instruction(
        "R508",
        reach.event.instruction,
        f"no instruction multiplies k = {begin} to {end - 1} of A and B",
        f"one more iteration of the loop over k, for {trip} tile",
        why=f"the maps have K = {extent}; the products of the launch add up k = {reach.a_begin} to {min(reach.a_end, extent) - 1}",
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
