"""The shadow of shared memory compiled: accesses of which nothing is suspicious are noted here, of others nothing.

The rule is in `shared_rule.py`, which decides about all other accesses. A loop passes only what the
rule passes. It may ask for more: two lanes count as unordered here until all lanes of their warp have synchronised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.run.marks import LANE_BITS, MANY, PART_BITS, SEVERAL
from smemsim.run.sanitizer.operation_sets import DONE as _DONE
from smemsim.run.sanitizer.operation_sets import FULL as _FULL
from smemsim.run.sanitizer.operation_sets import LOOK as _LOOK
from smemsim.run.sanitizer.operation_sets import Sets, add_runs, are_over, is_over, mark
from smemsim.run.sanitizer.operations import MBARRIER as _MBARRIER
from smemsim.run.sanitizer.operations import NOBODY as _NOBODY
from smemsim.run.sanitizer.operations import OPERATIONS as _OPERATIONS

_LANE_BITS, _MANY, _SEVERAL = LANE_BITS, MANY, SEVERAL
_LONG = 64  # words
_LANES, _TIME = (1 << LANE_BITS) - 1, LANE_BITS + PART_BITS

__all__ = [
    "OF_OPERATIONS", "Known", "Tables", "copy", "is_shared_by_threads", "know_alike", "note_epoch", "operation_reads", "operation_writes", "operations_of", "operations_read", "operations_write",
    "read", "renumber", "write",
]  # fmt: skip


class Tables(NamedTuple):
    """The record of each word.

    - The last writer with clock and line, and whether it was a strong operation.
    - The clocks of reading threads, by their warp in the cluster, and the line of the last read.
    - The same clocks and lines for strong loads and strong writes, if `has_strong` is set.
    - The reading operations, as an entry of `sets` (`operation_sets.py`).
    - The marks (`lanes.py`) of the last write and the last reads.
    - The operations that write a word together with the last one without a race (`joint`, if `has_joint` is set). These
      are reductions, and copies of the same bytes.
    """

    who: np.ndarray
    when: np.ndarray
    line: np.ndarray
    strong: np.ndarray
    read_when: np.ndarray
    read_line: np.ndarray
    polled_when: np.ndarray
    polled_line: np.ndarray
    changed_when: np.ndarray
    changed_line: np.ndarray
    has_strong: bool
    read_by: np.ndarray
    mark: np.ndarray
    read_mark: np.ndarray
    joint: np.ndarray
    has_joint: bool
    sets: Sets


class Known(NamedTuple):
    """The knowledge of warps, the tables of `clocks.VectorClocks`. For operations: are they of the generic proxy,
    copies of threads (cp.async), their stream and chain, and whether others than matrix instructions read their
    bytes. Also the last synchronisation of the lanes of each warp.
    """

    clock: np.ndarray
    seen: np.ndarray
    fenced: np.ndarray
    done: np.ndarray
    read_done: np.ndarray
    done_fenced: np.ndarray
    generic: np.ndarray
    is_cp_async: np.ndarray
    stream: np.ndarray
    chain: np.ndarray
    noted: np.ndarray
    now: np.ndarray


@compiled
def _is_done(by, warp, done):  # type: ignore[no-untyped-def]
    """Does a warp know that an operation, as the writer of a word, is complete? Each unit has a power of two of
    columns.
    """
    return done[warp, by - _OPERATIONS & done.shape[1] - 1]


@compiled
def _readers_are_done(word, warp, seen, when, line):  # type: ignore[no-untyped-def]
    """Has a warp seen all reads of a word by threads? It has seen its own."""
    late = False
    if line[word]:
        count = when.shape[1]
        columns = seen.shape[1]
        column = warp // count * count - warp // columns * columns
        for reader in range(count):
            late |= when[word, reader] > seen[warp, column + reader]
    return not late


@compiled
def _are_unfenced(word, warp, fenced, when):  # type: ignore[no-untyped-def]
    """Have threads read a word, and lies no fence.proxy.async between that and what a warp issues now?"""
    unfenced = False
    count = when.shape[1]
    columns = fenced.shape[1]
    column = warp // count * count - warp // columns * columns
    for reader in range(count):
        unfenced |= when[word, reader] > fenced[warp, column + reader]
    return unfenced


@compiled
def _are_apart(mark, mine):  # type: ignore[no-untyped-def]
    """Have two lanes of one warp, by the marks of their accesses, not synchronised since the first?"""
    return (mark ^ mine) >> _TIME == 0 and (mark ^ mine) & _LANES != 0 and mark & _LANES != _MANY


@compiled
def _operations_are_done(word, warp, tables, known):  # type: ignore[no-untyped-def]
    """Does a warp know that the operations have read a word, and written it?"""
    if not is_over(tables.read_by[word], known.read_done[warp], tables.sets):
        return False
    return not tables.has_joint or is_over(tables.joint[word], known.done[warp], tables.sets)


@compiled
def _no_strong(word, warp, seen, tables):  # type: ignore[no-untyped-def]
    """Has a warp seen all that strong loads and strong writes did to a word?"""
    polled = _readers_are_done(word, warp, seen, tables.polled_when, tables.polled_line)
    return polled and _readers_are_done(word, warp, seen, tables.changed_when, tables.changed_line)


@compiled
def read(flat, count, threads, line, stops_at_operations, tables, known):  # type: ignore[no-untyped-def]
    """Threads read `count` words each, from the places `flat` (in bytes) on. False if a word is uninitialised or not
    seen, and if an operation wrote it that must be reported (`stops_at_operations`, not recorded yet).
    """
    columns = known.seen.shape[1]
    for n in range(len(flat)):
        warp, first = threads[n] >> 5, flat[n] >> 2
        mine = known.now[warp] << _LANE_BITS | (threads[n] & 31)
        for word in range(first, first + count):
            by = tables.who[word]
            if tables.has_strong and not _readers_are_done(word, warp, known.seen, tables.changed_when, tables.changed_line):
                return False
            if tables.has_joint and not is_over(tables.joint[word], known.done[warp], tables.sets):
                return False
            if by == warp:
                if _are_apart(tables.mark[word], mine):
                    return False
                continue
            if by >= _OPERATIONS:
                if (stops_at_operations and not known.noted[by - _OPERATIONS]) or not _is_done(by, warp, known.done):
                    return False
            elif by == _NOBODY or (by >= 0 and known.seen[warp, by - warp // columns * columns] < tables.when[word]):
                return False
    warps = tables.read_when.shape[1]
    for n in range(len(flat)):
        warp, first = threads[n] >> 5, flat[n] >> 2
        mine = known.now[warp] << _LANE_BITS | (threads[n] & 31)
        for word in range(first, first + count):
            tables.read_when[word, warp % warps] = known.clock[warp]
            tables.read_line[word] = line
            before = tables.read_mark[word] ^ mine
            tables.read_mark[word] = mine if before == 0 or before >> _LANE_BITS != 0 else mine & ~_LANES | _SEVERAL
    return True


@compiled
def write(flat, count, threads, line, tables, known):  # type: ignore[no-untyped-def]
    """Threads write so. 0 where something is suspicious; 2 where several threads have written one word, else 1."""
    who, when, seen = tables.who, tables.when, known.seen
    columns = seen.shape[1]
    read_when, read_line = tables.read_when, tables.read_line
    for n in range(len(flat)):
        warp, first = threads[n] >> 5, flat[n] >> 2
        mine = known.now[warp] << _LANE_BITS | (threads[n] & 31)
        for word in range(first, first + count):
            by = who[word]
            if by == _MBARRIER or (by == warp and _are_apart(tables.mark[word], mine)) or _are_apart(tables.read_mark[word], mine):
                return 0
            if by >= _OPERATIONS:
                if not _is_done(by, warp, known.done):
                    return 0
            elif by >= 0 and by != warp and seen[warp, by - warp // columns * columns] < when[word]:
                return 0
            if not _readers_are_done(word, warp, seen, read_when, read_line) or not _operations_are_done(word, warp, tables, known):
                return 0
            if tables.has_strong and not _no_strong(word, warp, seen, tables):
                return 0
    for n in range(len(flat)):
        warp, first = threads[n] >> 5, flat[n] >> 2
        mine = known.now[warp] << _LANE_BITS | (threads[n] & 31)
        for word in range(first, first + count):
            who[word], when[word], tables.line[word], tables.strong[word] = warp, known.clock[warp], line, False
            tables.mark[word] = mine
    done = 1
    for n in range(len(flat)):
        mine = known.now[threads[n] >> 5] << _LANE_BITS | (threads[n] & 31)
        for word in range(flat[n] >> 2, (flat[n] >> 2) + count):
            if tables.mark[word] != mine:
                tables.mark[word] |= _MANY
                done = 2
    return done


@compiled
def is_shared_by_threads(flat, count, threads, marks):  # type: ignore[no-untyped-def]
    """Do several threads write one word?"""
    for n in range(len(flat)):
        for word in range(flat[n] >> 2, (flat[n] >> 2) + count):
            marks[word] = threads[n]
    for n in range(len(flat)):
        for word in range(flat[n] >> 2, (flat[n] >> 2) + count):
            if marks[word] != threads[n]:
                return True
    return False


@compiled
def _are_by(begin, count, who, by):  # type: ignore[no-untyped-def]
    """Were words that follow one another all written by one? Without branches, by indices that have no sign."""
    others = False
    for at in range(begin, begin + count):
        others |= who[np.uint64(at)] != by
    return not others


@compiled
def _is_fenced(number, first, warps, known):  # type: ignore[no-untyped-def]
    """Does a proxy fence of one of the warps follow the end of a copy?"""
    fenced = False
    for warp in range(first, first + warps):
        fenced |= known.done_fenced[warp, number & known.done_fenced.shape[1] - 1]
    return fenced and known.is_cp_async[number]


@compiled
def copy(flat, count, threads, numbers, line, tables, known):  # type: ignore[no-untyped-def]
    """Threads copy `count` words each (cp.async) to the places `flat`, by the open operations of their warps. As
    `write`.
    """
    who, seen = tables.who, known.seen
    columns = seen.shape[1]
    for n in range(len(flat)):
        warp, first = threads[n] >> 5, flat[n] >> 2
        own = numbers[warp] + _OPERATIONS
        for word in range(first, first + count):
            by = who[word]
            if by == _MBARRIER:
                return 0
            if by >= _OPERATIONS:
                if by != own and not _is_done(by, warp, known.done):
                    return 0
            elif by >= 0 and by != warp and seen[warp, by - warp // columns * columns] < tables.when[word]:
                return 0
            if not _readers_are_done(word, warp, seen, tables.read_when, tables.read_line):
                return 0
            if not _operations_are_done(word, warp, tables, known):
                return 0
            if tables.has_strong and not _no_strong(word, warp, seen, tables):
                return 0
    for n in range(len(flat)):
        own = numbers[threads[n] >> 5] + _OPERATIONS
        for word in range(flat[n] >> 2, (flat[n] >> 2) + count):
            who[word], tables.line[word], tables.strong[word] = own, line, False
            tables.mark[word] = known.now[threads[n] >> 5] << _LANE_BITS | (threads[n] & 31)
    done = 1
    for n in range(len(flat)):
        own = numbers[threads[n] >> 5] + _OPERATIONS
        for word in range(flat[n] >> 2, (flat[n] >> 2) + count):
            if who[word] != own:
                done = 2
            if tables.mark[word] != known.now[threads[n] >> 5] << _LANE_BITS | (threads[n] & 31):
                tables.mark[word] |= _MANY
    return done


@compiled
def _may_read(begins, count, first, warps, mine, own, is_generic, stops_at_operations, tables, known):  # type: ignore[no-untyped-def]
    """May an operation read words: see `operation_reads`?"""
    stream, base, who = known.stream[own], first // known.seen.shape[1] * known.seen.shape[1], tables.who
    before = _NOBODY
    for n in range(len(begins)):
        # most words lie as one operation has brought them
        if before != _NOBODY and _are_by(begins[n], count, who, before):
            continue
        for word in range(begins[n], begins[n] + count):
            by = who[word]
            if by == _NOBODY:
                return False
            if by >= _OPERATIONS:
                number = by - _OPERATIONS
                if by == before or number == own:
                    continue
                if stops_at_operations and not known.noted[number]:
                    return False
                if known.generic[number] and not is_generic and not _is_fenced(number, first, warps, known):
                    return False
                if stream <= 0 or known.stream[number] != stream:
                    for warp in range(first, first + warps):
                        if not _is_done(by, warp, known.done):
                            return False
                before = by
            elif by >= 0:
                if by == first and _are_apart(tables.mark[word], mine):
                    return False
                is_fenced = is_generic
                for warp in range(first, first + warps):
                    if known.seen[warp, by - base] < tables.when[word]:
                        return False
                    is_fenced |= known.fenced[warp, by - base] >= tables.when[word]
                if not is_fenced:
                    return False
    return True


@compiled
def _others_have_written(begins, count, first, warps, tables, known):  # type: ignore[no-untyped-def]
    """Do warps know that the operations that write words together with the last one are over?"""
    for n in range(len(begins)):
        for warp in range(first, first + warps):
            if not are_over(tables.joint, begins[n], count, known.done[warp], tables.sets):
                return False
    return True


@compiled
def operation_reads(begins, count, first, warps, mine, own, is_generic, stops_at_operations, tables, known):  # type: ignore[no-untyped-def]
    """Operation `own` of `warps` warps from `first` on, by a lane whose mark is `mine`, reads `count` words from each
    of `begins` on. LOOK where one is unwritten, not seen, or not fenced, and as in `read`; else it joins their
    readers (FULL where there is no room for that).
    """
    if not _may_read(begins, count, first, warps, mine, own, is_generic, stops_at_operations, tables, known):
        return _LOOK
    if tables.has_joint and not _others_have_written(begins, count, first, warps, tables, known):
        return _LOOK
    has_room = add_runs(tables.read_by, begins, count, own, first, warps, known.read_done, known.chain, tables.sets)
    return _DONE if has_room else _FULL


@compiled
def operations_read(begins, count, windows, firsts, warps, marks, owns, is_generic, stops_at_operations, tables, known):  # type: ignore[no-untyped-def]
    """`operation_reads` of several operations, each of the same words of its window, which begins at an entry of
    `windows`. LOOK where one has to be looked at; some of the others are noted then.
    """
    for n in range(len(windows)):
        found = operation_reads(
            begins + windows[n], count, firsts[n], warps, marks[n], owns[n], is_generic, stops_at_operations, tables, known
        )
        if found != _DONE:
            return found
    return _DONE


@compiled
def _are_over(begin, count, mine, who, done, read_line, read_mark):  # type: ignore[no-untyped-def]
    """Have operations that are over written words that follow one another, and no threads read them? Without
    branches, by indices that have no sign.
    """
    late, mask = False, len(done) - 1
    for at in range(begin, begin + count):
        word = np.uint64(at)
        by = who[word]
        late |= by < _OPERATIONS or not done[np.uint64(by - _OPERATIONS & mask)]
        late |= (read_line[word] != 0) | ((read_mark[word] ^ mine) >> _TIME == 0)
    return not late


@compiled
def operation_writes(begins, count, warp, mine, own, is_generic, line, looks, tables, known):  # type: ignore[no-untyped-def]
    """Operation `own` of a warp, by a lane with mark `mine`, writes `count` words from each of `begins` on. Returns 0
    if something is suspicious, else 1.

    2 if it `looks` for words that threads have read without fence.proxy.async between, and finds one. The address
    that tcgen05.alloc has written does not count.
    """
    done_as, has_address = 1, False
    base = warp // known.seen.shape[1] * known.seen.shape[1]
    done, read_done, streams, sets = known.done[warp], known.read_done[warp], known.stream, tables.sets
    who, read_by, read_mark, read_line, has_strong = tables.who, tables.read_by, tables.read_mark, tables.read_line, tables.has_strong
    for n in range(len(begins)):
        if not are_over(read_by, begins[n], count, read_done, sets):
            return 0
        if tables.has_joint and not are_over(tables.joint, begins[n], count, done, sets):
            return 0
        if count >= _LONG and not has_strong and _are_over(begins[n], count, mine, who, done, read_line, read_mark):
            continue
        for word in range(begins[n], begins[n] + count):
            by = who[word]
            if by == _NOBODY:
                continue
            if by == _MBARRIER:
                return 0
            if by >= _OPERATIONS:
                if by - _OPERATIONS != own and not done[by - _OPERATIONS & len(done) - 1]:
                    return 0
            elif by >= 0:
                when = tables.when[word]
                if (by != warp and known.seen[warp, by - base] < when) or (by == warp and _are_apart(tables.mark[word], mine)):
                    return 0
                if not is_generic and known.fenced[warp, by - base] < when <= known.seen[warp, by - base]:
                    return 0
            if _are_apart(read_mark[word], mine):
                return 0
            if read_line[word] and not _readers_are_done(word, warp, known.seen, tables.read_when, read_line):
                return 0
            # of tcgen05.alloc
            is_address = by >= _OPERATIONS and known.generic[by - _OPERATIONS] and streams[by - _OPERATIONS] > 0
            has_address |= is_address
            if looks and read_line[word] and not is_address and _are_unfenced(word, warp, known.fenced, tables.read_when):
                done_as = 2
            if has_strong and not _no_strong(word, warp, known.seen, tables):
                return 0
    for n in range(len(begins) if has_address else 0):  # readers of the address are not checked again
        for word in range(begins[n], begins[n] + count):
            by = who[word]
            if by >= _OPERATIONS and known.generic[by - _OPERATIONS] and streams[by - _OPERATIONS] > 0:
                read_line[word], tables.read_when[word, :] = 0, 0
    for n in range(len(begins)):
        for word in range(begins[n], begins[n] + count):
            tables.who[np.uint64(word)] = own + _OPERATIONS
        for word in range(begins[n], begins[n] + count):
            tables.line[np.uint64(word)] = line
        for word in range(begins[n], begins[n] + count):
            tables.strong[np.uint64(word)] = False
    return done_as


@compiled
def operations_write(begins, count, windows, warps, marks, owns, is_generic, line, looks, tables, known):  # type: ignore[no-untyped-def]
    """`operation_writes` of several operations. Each writes the same words of its window, and `windows` has where each
    window starts. Returns 0 if one operation must be checked; some of the others are recorded then.
    """
    done_as = 1
    for n in range(len(windows)):
        done = operation_writes(begins + windows[n], count, warps[n], marks[n], owns[n], is_generic, line, looks, tables, known)
        if done == 0:
            return 0
        done_as = max(done_as, done)
    return done_as


OF_OPERATIONS = (operations_read, operations_write)  # of the accesses that CTAs' operations make together


@compiled
def know_alike(done, read_done, warps, columns, shift):  # type: ignore[no-untyped-def]
    """Do the warps of all CTAs, so many of each, have the same knowledge of their equal operations? Their columns are
    given for the first CTA; those of the others are `shift` after it.
    """
    for first in columns:
        for begin in range(warps, len(done), warps):
            column = first + begin // warps * shift
            for warp in range(warps):
                if done[begin + warp, column] != done[warp, first] or read_done[begin + warp, column] != read_done[warp, first]:
                    return False
    return True


@compiled
def operations_of(tables, found, is_used):  # type: ignore[no-untyped-def]
    """Marks the operations that words have, and the sets of them."""
    who = tables.who
    for word in range(len(who)):
        if who[word] >= _OPERATIONS:
            found[who[word] - _OPERATIONS] = True
    mark(tables.read_by, found, is_used, tables.sets)
    mark(tables.joint, found, is_used, tables.sets)


@compiled
def sets_of(tables, is_used):  # type: ignore[no-untyped-def]
    """Marks the sets of operations that words have."""
    for entries in (tables.read_by, tables.joint):
        for word in range(len(entries)):
            if entries[word] < 0:
                is_used[-entries[word]] = True


@compiled
def renumber(who, new):  # type: ignore[no-untyped-def]
    """The operations that words have get new numbers."""
    for word in range(len(who)):
        if who[word] >= _OPERATIONS:
            who[word] = _OPERATIONS + new[who[word] - _OPERATIONS]


@compiled
def note_epoch(flat, count, pitch, epoch, many, stamps, writes):  # type: ignore[no-untyped-def]
    """`count` words each, from the places `flat` (in bytes) on, get the stamp of their CTA's epoch and of `many`
    threads. Reads do so only if they have no later one.
    """
    for n in range(len(flat)):
        first = flat[n] >> 2
        now = epoch[first // pitch] | many
        for word in range(first, first + count):
            if writes or stamps[word] < now:
                stamps[word] = now
