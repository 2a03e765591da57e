"""Sets of asynchronous operations: the unfinished readers of a word of shared memory, or of a cell of tensor memory, of
any number.

A table has one number for each word: 0 for no operation, the operation's number plus 1 for one, and a negative set
number for several. When an operation joins a set, other operations leave it. They are complete for every thread that
can learn of the new one: its warps know them to be complete, or they are earlier ones of the same chain
(`Operations.chain`). So no operation in a set orders another, and sets stay small.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from smemsim.base.compiling.loop import compiled

__all__ = [
    "DONE",
    "FULL",
    "LOOK",
    "Sets",
    "add",
    "add_runs",
    "are_over",
    "compacted",
    "entry_of",
    "is_over",
    "larger",
    "made",
    "mark",
    "members_of",
    "of_twins",
    "renumber",
]


LOOK, DONE, FULL = 0, 1, 2  # what a loop answers: look again by numpy, noted, there is no room for another set
_ROOM = 64  # members, and sets, to begin with


class Sets(NamedTuple):
    """The members of set n are `members[begins[n] : begins[n + 1]]`; `used` is how many sets there are (set 0 is
    none), and how many members.
    """

    used: np.ndarray
    begins: np.ndarray
    members: np.ndarray


def made() -> Sets:
    """No sets."""
    return Sets(np.array([1, 0], np.int64), np.zeros(_ROOM, np.int32), np.zeros(_ROOM, np.int32))


def larger(sets: Sets) -> Sets:
    """The same sets, with room for twice as many."""
    return Sets(sets.used, *(np.concatenate((table, np.zeros_like(table))) for table in sets[1:]))


def members_of(sets: Sets, entries: np.ndarray) -> list[int]:
    """The operations of some entries, ascending."""
    found = set[int]()
    for entry in entries.tolist():
        if entry > 0:
            found.add(entry - 1)
        elif entry:
            found.update(sets.members[sets.begins[-entry] : sets.begins[1 - entry]].tolist())
    return sorted(found)


def entry_of(sets: Sets, operations: Iterable[int]) -> tuple[Sets, int]:
    """The entry of some operations, and the sets with it."""
    some = np.array(sorted(operations), np.int32)
    if len(some) <= 1:
        return sets, int(some[0]) + 1 if len(some) else 0
    number, begin = sets.used.tolist()
    for n in range(1, number):
        if np.array_equal(sets.members[sets.begins[n] : sets.begins[n + 1]], some):
            return sets, -n
    while number + 1 >= len(sets.begins) or begin + len(some) > len(sets.members):
        sets = larger(sets)
    sets.members[begin : begin + len(some)] = some
    sets.begins[number], sets.begins[number + 1] = begin, begin + len(some)
    sets.used[:] = number + 1, begin + len(some)
    return sets, -number


def compacted(sets: Sets, is_used: np.ndarray, new: np.ndarray) -> tuple[Sets, np.ndarray]:
    """The sets that are used, of operations that have `new` numbers; and the new entry of each old set."""
    entries, known = np.zeros(len(is_used), np.int32), dict[tuple[int, ...], int]()
    for n in np.flatnonzero(is_used).tolist():
        entries[n] = -known.setdefault(tuple(new[sets.members[sets.begins[n] : sets.begins[n + 1]]].tolist()), len(known) + 1)
    ends = np.cumsum([0, *map(len, known)])
    room, size = max(_ROOM, 2 * len(ends)), max(_ROOM, 2 * int(ends[-1]))
    kept = Sets(np.array([len(ends), ends[-1]], np.int64), np.zeros(room, np.int32), np.zeros(size, np.int32))
    kept.begins[1 : len(ends) + 1], kept.members[: ends[-1]] = ends, [member for members in known for member in members]
    return kept, entries


def of_twins(sets: Sets, count: int, columns: int) -> Sets:
    """The sets of `count` CTAs, from those of the first one. The operations of each CTA have numbers `columns` after
    those of the previous one: set n of CTA k has number n + k * (sets).
    """
    number, end = sets.used.tolist()
    each = np.arange(count, dtype=np.int32)[:, None]
    begins = (each * end + sets.begins[1:number]).reshape(-1)
    members = (each * columns + sets.members[:end]).reshape(-1)
    room, size = max(_ROOM, 2 * len(begins) + 2), max(_ROOM, 2 * len(members))
    found = Sets(np.array([len(begins) + 1, len(members)], np.int64), np.zeros(room, np.int32), np.zeros(size, np.int32))
    found.begins[1 : len(begins) + 2], found.members[: len(members)] = [*begins.tolist(), len(members)], members
    return found


def entries_of_twins(of_first: np.ndarray, count: int, columns: int, of_sets: Sets) -> np.ndarray:
    """The entries of all CTAs, a row for each, from those of the first one, and its sets; see `of_twins`."""
    kinds = of_first.reshape(-1)[:1] if of_first.size and (of_first == of_first.flat[0]).all() else of_first
    sets = int(of_sets.used[0]) - 1
    found = np.zeros((count, *of_first.shape), np.int32)
    for n in range(count if kinds.any() else 0):
        found[n] = kinds + np.where(kinds > 0, n * columns, (kinds < 0) * -n * sets)
    return found


@compiled
def mark(entries, operations, is_used, sets):  # type: ignore[no-untyped-def]
    """Marks the operations that entries have, and the sets."""
    for word in range(len(entries)):
        entry = entries[word]
        if entry > 0:
            operations[entry - 1] = True
        elif entry < 0:
            is_used[-entry] = True
    for n in range(1, sets.used[0]):
        if is_used[n]:
            for k in range(sets.begins[n], sets.begins[n + 1]):
                operations[sets.members[k]] = True


@compiled
def renumber(entries, new, new_sets):  # type: ignore[no-untyped-def]
    """Operations, and sets of them, have new numbers."""
    for word in range(len(entries)):
        entry = entries[word]
        if entry > 0:
            entries[word] = new[entry - 1] + 1
        elif entry < 0:
            entries[word] = new_sets[-entry]


@compiled
def is_over(entry, over, sets):  # type: ignore[no-untyped-def]
    """Are all operations of an entry over, by a flag for each column (`VectorClocks.column`)?"""
    if entry >= 0:
        return entry == 0 or over[entry - 1 & len(over) - 1]
    late = False
    for k in range(sets.begins[-entry], sets.begins[1 - entry]):
        late |= not over[sets.members[k] & len(over) - 1]
    return not late


@compiled
def _are_one(entries, begin, count):  # type: ignore[no-untyped-def]
    """Do words that follow one another have the same entry? Without branches, by indices that have no sign."""
    first, differ = entries[begin], False
    for at in range(begin, begin + count):
        differ |= entries[np.uint64(at)] != first
    return not differ


@compiled
def are_over(entries, begin, count, over, sets):  # type: ignore[no-untyped-def]
    """Are all operations of words that follow one another over?"""
    before = entries[begin]
    if not is_over(before, over, sets):
        return False
    if _are_one(entries, begin, count):
        return True
    for word in range(begin, begin + count):
        entry = entries[word]
        if entry != before:
            if not is_over(entry, over, sets):
                return False
            before = entry
    return True


@compiled
def _leaves(member, own, first, warps, over, chain):  # type: ignore[no-untyped-def]
    """Is an operation over for all warps that can know that `own` of some warps is?"""
    if chain[own] != 0 and chain[member] == chain[own]:
        return True
    late = False
    for warp in range(first, first + warps):
        late |= not over[warp, member & over.shape[1] - 1]
    return not late


@compiled
def _same(begin, count, start, sets):  # type: ignore[no-untyped-def]
    """The set from `start` on with the members after the last set; 0 for none."""
    for n in range(start, sets.used[0]):
        if sets.begins[n + 1] - sets.begins[n] == count:
            k = 0
            while k < count and sets.members[sets.begins[n] + k] == sets.members[begin + k]:
                k += 1
            if k == count:
                return n
    return 0


@compiled
def _joined(entry, own, first, warps, start, over, chain, sets):  # type: ignore[no-untyped-def]
    """An entry with an operation more; 0 where there is no room for the set."""
    if entry == 0 or entry == own + 1:
        return own + 1
    begin, count = sets.used[1], 0
    if entry > 0:
        if _leaves(entry - 1, own, first, warps, over, chain):
            return own + 1
        if begin + 2 > len(sets.members):
            return 0
        sets.members[begin] = entry - 1
        count = 1
    else:
        for k in range(sets.begins[-entry], sets.begins[1 - entry]):
            member = sets.members[k]
            if member == own:
                return entry
            if not _leaves(member, own, first, warps, over, chain):
                if begin + count + 2 > len(sets.members):
                    return 0
                sets.members[begin + count] = member
                count += 1
    if count == 0:
        return own + 1
    sets.members[begin + count] = own
    count += 1
    same = _same(begin, count, start, sets)
    if same > 0:
        return -same
    number = sets.used[0]
    if number + 1 >= len(sets.begins):
        return 0
    sets.begins[number], sets.begins[number + 1] = begin, begin + count
    sets.used[0], sets.used[1] = number + 1, begin + count
    return -number


@compiled
def add_runs(entries, begins, count, own, first, warps, over, chain, sets):  # type: ignore[no-untyped-def]
    """Operation `own` of some warps joins the entries of words: `count` from each of `begins` on. False where there
    is no room for a set. `over` has a row for each warp.
    """
    start, before = sets.used[0], np.int32(0)
    joined = np.int32(own + 1)
    for n in range(len(begins)):
        end = begins[n] + count
        for at in range(begins[n], end):
            word = np.uint64(at)
            entry = entries[word]
            if entry not in (before, joined):
                before, joined = entry, np.int32(_joined(entry, own, first, warps, start, over, chain, sets))
                if joined == 0:
                    return False
            entries[word] = joined
    return True


@compiled
def add(entries, at, own, first, warps, over, chain, sets):  # type: ignore[no-untyped-def]
    """`add_runs` of words one by one."""
    start = sets.used[0]
    for n in range(len(at)):
        joined = _joined(entries[at[n]], own, first, warps, start, over, chain, sets)
        if joined == 0:
            return False
        entries[at[n]] = joined
    return True
