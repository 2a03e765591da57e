"""Which findings of a launch follow from another one: by its bytes and lines, and by what a tried fix removes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from smemsim.core.finding import Finding, InLaunch, Touched
from smemsim.core.ptx.module import Address, Instruction
from smemsim.core.spec.findings import CONSEQUENCES, Severity
from smemsim.diagnosis.trials.outcome import Outcomes, key_of, keys_of
from smemsim.run.sanitizer.reporting import ANY_WAIT

__all__ = ["is_lost_update", "with_causes", "with_trials"]

GRAVE = (Severity.TRAP, Severity.WRONG)
RACES = ("X004", "X005", "X012")
IN_FLIGHT = ("X004", "X005")  # a missing proxy fence (X003) is not their cause: the fence waits for no operation
HANG, MISUSE = "X006", "X010"
UNINITIALISED, OTHER_TILE = "R507", "R508"
ISSUED_BY_MANY = "X016"  # each commit and each wait is for the operations of one thread
SCHEDULE, RACE = "X030", "X008"  # the result depends on the schedule; accesses without an order
OF_SCHEDULE = ("X003", "X004", "X005", RACE)  # races that a schedule may show
OF_MAP = ("T205", "T212", "T220")  # traps of copies by a wrong map
OF_WORD = ("D302", "D307")  # fields that do not fit each other
HALVES_OF_UPDATE = 3  # a load and the stores of both threads
BULK_SIZE = "A103"  # its bytes are cut off, so another number comes than is expected


def with_causes(
    findings: Sequence[Finding],
    touched_by: Callable[[Instruction], Sequence[Touched]] = lambda i: (),
    strays: Callable[[Finding, Finding], bool] = lambda cause, f: False,
) -> list[Finding]:
    """Findings, the most upstream first, each with the first one before it that it follows from.

    It is about the same instruction or the same bytes, an mbarrier's among them. If several waits never end, those
    follow from the first one that it holds up. Loads of one mbarrier with the same finding follow from the first, too.
    `touched_by` gives the bytes of a load and of the mbarriers on which it completes. `strays` says if a finding is
    about bytes that a wrong operand (the first argument) reads outside of its tile.
    """
    done: list[Finding] = []
    for f in sorted(findings, key=lambda f: any(_is_upstream(other, f, touched_by) for other in findings)):
        cause = next((other for other in done if _is_cause(other, f, touched_by) or (other.severity in GRAVE and strays(other, f))), None)
        done.append(f if cause is None else _following(f, cause))
    return done


def _is_cause(cause: Finding, f: Finding, touched_by: Callable[[Instruction], Sequence[Touched]]) -> bool:
    if _is_upstream(cause, f, touched_by):
        return True
    if cause.code == ISSUED_BY_MANY and f.code in RACES:
        return any(half.instruction is not None and half.instruction.line == cause.line for half in f.halves)
    if f.code == SCHEDULE:
        return cause.code in OF_SCHEDULE and cause.severity in GRAVE and not set(cause.arrays).isdisjoint(f.arrays)
    if cause.code == RACE and f.code in (RACE, MISUSE):
        return _is_of_update(cause, f) if f.code == RACE else _is_of_init(cause, f)
    if f.code not in CONSEQUENCES or cause.severity not in GRAVE or (cause.code == "X003" and f.code in IN_FLIGHT):
        return False
    if f.code == "T210":
        brings = f.numbers.get("brings")
        return cause.code == BULK_SIZE and isinstance(brings, list) and cause.line in brings
    if cause.code == f.code:
        return _is_held_up(cause, f) or _of_one_stage(cause, f)
    if f.code == HANG and cause.code == "X004" and any(half.instruction is None for half in cause.halves):
        # loads had not been issued: the reader is ahead of the thread that issues them, and frees stages that are not
        # full
        return True
    if cause.code == UNINITIALISED and f.code == OTHER_TILE and not _is_of_same_operand(cause, f):
        return False
    bytes_ = cause.touched
    is_there = cause.site == f.site
    if f.code == UNINITIALISED and cause.code in IN_FLIGHT and f.touched and bytes_:
        is_there = False  # bytes that a copy brings are not those that nothing writes
    if f.code == HANG and cause.code in IN_FLIGHT and (i := _load(cause)) is not None:
        bytes_ = (*bytes_, *touched_by(i))
    return is_there or any(mine.meets(other) for mine in f.touched for other in bytes_)


def _is_upstream(cause: Finding, f: Finding, touched_by: Callable[[Instruction], Sequence[Touched]]) -> bool:
    """Is a finding the cause of another one that may have been found before it?"""
    return _is_of_word(cause, f) or _is_of_no_wait(cause, f, touched_by) or _is_of_map(cause, f)


def _is_of_map(cause: Finding, f: Finding) -> bool:
    """Does a copy trap by its map, and has the kernel made a map of bytes that nothing has written?"""
    i = cause.at.instruction if isinstance(cause.at, InLaunch) else None
    return f.code in OF_MAP and cause.code == UNINITIALISED and cause.severity in GRAVE and i is not None and i.op == "tensormap"


def _is_of_word(cause: Finding, f: Finding) -> bool:
    """Is it about the fields of a descriptor, of which the cause says that threads have stored the tile for others?"""
    side = cause.numbers.get("side")
    return (
        side is not None
        and cause.severity in GRAVE
        and f.code in OF_WORD
        and f.site == cause.site
        and f.check is not None
        and f.check.path.side == side
    )


def _is_held_up(cause: Finding, f: Finding) -> bool:
    """Do both wait for one mbarrier, or could a thread that is stuck at the cause end this wait if it went on? Without
    an analysis of the hang all waits follow from the first.
    """
    if f.code != HANG or f.severity is not Severity.TRAP:
        return False
    by = f.numbers.get("held_by")
    return not isinstance(by, list) or cause.site in by or any(mine.meets(other) for mine in f.touched for other in cause.touched)


def _is_of_no_wait(cause: Finding, f: Finding, touched_by: Callable[[Instruction], Sequence[Touched]]) -> bool:
    """Is a copy read by a warp that has never waited, and is this another race of that copy, or its hang? A reader
    without a wait frees stages too early: phases of their mbarrier, or of that of the copy, end before a wait for them.
    """
    if cause.code != "X004" or cause.severity not in GRAVE or not isinstance(cause.at, InLaunch) or not cause.at.kind.startswith(ANY_WAIT):
        return False
    copies = {half.instruction for half in cause.halves if half.does == "write" and half.instruction is not None}
    if f.code == RACE:
        return any(half.does == "write" and half.instruction in copies for half in f.halves)
    arrivals = [half.instruction for half in f.halves if half.does == "arrive"]
    if f.code == HANG:
        own = [i for i in copies if i.op == "cp"]
        is_same = any(mine.meets(other) for i in own for mine in f.touched for other in touched_by(i))
        return bool(own) and "ahead" in f.numbers and (bool(f.numbers["ahead"]) or is_same)
    return f.code == "X005" and any(i is not None and i.op == "cp" for i in arrivals) and any(i.op == "cp" for i in copies)


def is_lost_update(f: Finding) -> bool:
    """Is it an update of global memory that may be lost?"""
    return f.code == RACE and len(f.halves) == HALVES_OF_UPDATE


def _is_of_update(cause: Finding, f: Finding) -> bool:
    """Is it a race between the load and the store of an update that may be lost, in the same array?"""
    update = {half.instruction for half in cause.halves}
    own = {half.instruction for half in f.halves}
    return (
        cause.severity in GRAVE
        and is_lost_update(cause)
        and cause.arrays == f.arrays
        and len(own) > 1
        and None not in own
        and own <= update
    )


def _is_of_init(cause: Finding, f: Finding) -> bool:
    """Does an mbarrier.init, which works by accident, race with a use of the mbarrier?"""
    its = {half.instruction.site for half in cause.halves if half.instruction is not None}
    return f.severity is Severity.LUCK and cause.severity in GRAVE and f.site in its


def _is_of_same_operand(cause: Finding, f: Finding) -> bool:
    """Do two findings say of one operand that its bytes are uninitialised, and that it is another tile than intended?

    The place of a tile's bytes does not depend on their content. So findings about another operand, and remarks about
    the layout, stay.
    """
    sides = [one.check.path.side if one.check is not None else "" for one in (cause, f)]
    return f.severity in GRAVE and sides[0] == sides[1] != ""


def _load(f: Finding) -> Instruction | None:
    """The instruction of a finding, if it is a copy that completes on an mbarrier."""
    i = f.at.instruction if isinstance(f.at, InLaunch) else None
    return i if i is not None and i.op == "cp" and any("complete_tx" in word for word in i.modifiers) else None


def _of_one_stage(cause: Finding, f: Finding) -> bool:
    """Are two findings of a code about copies that complete on the same mbarrier, and about the same
    kinds of accesses by others?
    """
    one, other = _load(cause), _load(f)
    if one is None or other is None or f.code not in IN_FLIGHT or _accesses(f, other) != _accesses(cause, one):
        return False
    barriers = [{x for x in i.operands[1:] if isinstance(x, Address) and x.coordinates is None} for i in (one, other)]
    return bool(barriers[0] & barriers[1])


def _accesses(f: Finding, load: Instruction) -> set[tuple[str, str]]:
    """The use that others make of a copy's bytes by a finding, and their instructions."""
    return {(half.does, "" if half.instruction is None else half.instruction.name) for half in f.halves if half.instruction is not load}


def _following(f: Finding, cause: Finding) -> Finding:
    """A finding that follows from another one, or from what that one follows from. Its own fix does not help."""
    root = cause if cause.cause is None else cause.cause
    return dataclasses.replace(f, cause=root, repair=f"fix {root.code} first")


def with_trials(findings: Sequence[Finding], outcomes: Outcomes) -> list[Finding]:
    """Findings with what the tried fixes of others removed: these follow from the finding whose fix it was.

    A finding is put after the one that it follows from.
    """
    causes: dict[int, Finding] = {}
    for f in findings:
        outcome = outcomes.get(key_of(f))
        if outcome is None or not outcome.works or id(f) in causes:
            continue
        for other in findings:
            is_free = other is not f and other.cause is None and id(other) not in causes and other.severity in GRAVE and not other.tried
            if is_free and keys_of(other) <= outcome.removes:
                causes[id(other)] = f
    if not causes:
        return list(findings)
    done: list[Finding] = []
    for f in findings:
        if id(f) in causes:
            continue
        own = [other for other in findings if causes.get(id(other)) is f]
        keys = frozenset().union(*(keys_of(other) for other in own))
        its = [other for other in findings if other.cause is not None and (other.cause.code, other.cause.line) in keys]
        causes |= {id(other): f for other in its}
        done = [other for other in done if id(other) not in causes]
        done += [f, *(_following(other, f) for other in (*own, *its))]
    return done
