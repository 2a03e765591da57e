"""The shadow of global memory in compiled loops: accesses are recorded, and unordered ones are listed.

An access is recorded as one number, its epoch: the warp (counted through the launch from 1 on), its clock, and the
instruction. A cell has four epochs. Two are of writers: the last one, and one earlier strong writer that the last one
does not follow. Two are of readers: the last one, and one more, from another CTA if there is one. The second reader is
negative if there are more that are not ordered before these two. `Cells.further` lists them, with the bytes that they
read. If the list is full, a reader is forgotten: a race may be missed, and none is invented. When such a cell is
overwritten, `BOUND` is set.

A plain store whose value another warp has stored again, unordered, is kept as a reader (`keep`). Who reads that value
need not follow it, and who overwrites the value must.

The epoch of a copy has a place in `Known.waited` instead of the clock, for what it writes and for what it reads. It
ends when a warp knows that the copy is complete.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.run.marks import CLOCK, INDEX, WHEN, WHO

__all__ = [
    "CELL",
    "CLOCK",
    "EPOCH",
    "INDEX",
    "READER",
    "ROLE",
    "WHEN",
    "WHO",
    "WRITER",
    "Cells",
    "Known",
    "N",
    "drop",
    "fill",
    "keep",
    "observed",
    "read",
    "unfenced",
    "write",
]


# The columns of a row of suspects: the place of the present access among those that are checked; the cell, the epoch
# and the role of the other access.
N, CELL, EPOCH, ROLE = 0, 1, 2, 3
WRITER, READER = 0, 1  # a role
CLUSTER, GPU = 2, 3  # scopes of strong accesses, 0 for weak ones
MOST_FURTHER = 4096  # further readers of the places of an array
# of the first row of `Cells.further`: how many rows follow; was the list full; was a place then overwritten
COUNT, FULL, BOUND = 0, 1, 2


class Cells(NamedTuple):
    """The epochs of an array's cells, of `1 << shift` bytes each, and of lines of `1 << line` bytes.

    Lines replace their cells while only whole lines are accessed, each by one warp; `split` marks the others. Tables
    that no access needs do not exist.
    """

    shift: int
    line: int
    split: np.ndarray
    writers: np.ndarray
    earlier: np.ndarray
    readers: np.ndarray
    others: np.ndarray
    line_writers: np.ndarray
    line_readers: np.ndarray
    line_others: np.ndarray
    further: np.ndarray  # rows of the first byte, the end, and the epoch of a reader; see also COUNT, FULL, BOUND


class Known(NamedTuple):
    """The knowledge of the warps of a wave, the first of which has number `first` in the launch.

    The arrays `clock` and `seen` have the clocks of the warps, and the clock of each other warp that they have seen.
    The arrays `scope` and `asynchronous` have the scope of each instruction, and whether it is a copy. The clock in the
    epoch of a copy is a place in `waited`, which has the clock of the issuing warp after its wait. Other warps may be
    the first to know that a copy is complete. By place, `told` has the last row of `tellers`, 0 for none.

    A row of `tellers` has four numbers:

    - the warp in the launch,
    - its clock when it learned of the completion,
    - the row before of the same place,
    - 1 if only this warp may rely on it.
    """

    first: int
    clock: np.ndarray
    seen: np.ndarray
    scope: np.ndarray
    asynchronous: np.ndarray
    waited: np.ndarray
    told: np.ndarray
    tellers: np.ndarray
    per_cta: int
    per_cluster: int


@compiled
def _is_ordered(epoch, warp, role, known):  # type: ignore[no-untyped-def]
    """Has a warp of the wave seen an access? Other waves are not known here."""
    who = (epoch >> WHO) - 1 - known.first
    when = (epoch >> WHEN) & CLOCK
    if known.asynchronous[epoch & INDEX]:
        if role == READER and _is_told(when, warp, known):
            return True
        when = known.waited[when]
    elif who == warp:
        return True
    return _has_seen(who, when, warp, known)


@compiled
def _has_seen(who, when, warp, known):  # type: ignore[no-untyped-def]
    """Has a warp of the wave seen another one, by its number in the wave, up to a clock?"""
    columns = known.seen.shape[1]
    if who <= warp - columns or who >= warp + columns:  # a division costs more than all else
        return False
    column = who - warp // columns * columns
    return 0 <= column < columns and known.seen[warp, column] >= when


@compiled
def _is_told(place, warp, known):  # type: ignore[no-untyped-def]
    """Does a warp of the wave know by another one than the issuer that a copy is complete?"""
    row = known.told[place]
    while row != 0:
        who = known.tellers[row, 0] - known.first
        if (who == warp or known.tellers[row, 3] == 0) and _has_seen(who, known.tellers[row, 1], warp, known):
            return True
        row = known.tellers[row, 2]
    return False


@compiled
def _is_strong(epoch, warp, scope, known):  # type: ignore[no-untyped-def]
    """Are two accesses morally strong (PTX ISA 9.1 §8.7.1): does the scope of each include the other's thread?"""
    scope = min(scope, known.scope[epoch & INDEX])
    if scope == 0 or scope >= GPU:
        return scope != 0
    own, who = known.first + warp, (epoch >> WHO) - 1
    size = known.per_cluster if scope == CLUSTER else known.per_cta
    return own // size == who // size


@compiled
def _split(line, cells):  # type: ignore[no-untyped-def]
    """Keep the cells of a line from now on."""
    cells.split[line] = True
    shift = cells.line - cells.shift
    first, behind = line << shift, (line + 1) << shift
    if len(cells.line_writers) and cells.line_writers[line]:
        cells.writers[first : min(behind, len(cells.writers))] = cells.line_writers[line]
    if len(cells.line_readers) and cells.line_readers[line]:
        cells.readers[first : min(behind, len(cells.readers))] = cells.line_readers[line]
        if cells.line_others[line]:
            cells.others[first : min(behind, len(cells.others))] = cells.line_others[line]


@compiled
def _is_line(at, n, count, size, threads):  # type: ignore[no-untyped-def]
    """Do `count` threads of one warp, from place n on, access neighbouring places?"""
    if count == 0 or n + count > len(at) or threads[n + count - 1] >> 5 != threads[n] >> 5:
        return False
    k = 1
    while k < count and at[n + k] == at[n] + k * size:
        k += 1
    return k == count


@compiled
def _note(suspects, found, n, cell, epoch, role):  # type: ignore[no-untyped-def]
    """One suspect more, where there is room."""
    if found < len(suspects):
        suspects[found, N], suspects[found, CELL], suspects[found, EPOCH], suspects[found, ROLE] = n, cell, epoch, role
        return found + 1
    return found


@compiled
def _second_reader(reader, other, own, warp, known):  # type: ignore[no-untyped-def]
    """The (other reader to keep, reader without a place) of the two that were kept, next to one that reads now. A
    reader of another CTA is kept rather than one of the own. The reader without a place is 0 if no write can race with
    it alone.
    """
    mine = ((own >> WHO) - 1) // known.per_cta
    is_mine = ((reader >> WHO) - 1) // known.per_cta == mine
    kept = reader if not is_mine or ((other >> WHO) - 1) // known.per_cta == mine else other
    left = reader + other - kept
    is_same = left >> WHO == own >> WHO or left >> WHO == kept >> WHO
    is_known = (is_same and not known.asynchronous[left & INDEX]) or _is_ordered(left, warp, READER, known)
    return kept, 0 if is_known else left


@compiled
def _list_reader(begin, end, reader, known, further):  # type: ignore[no-untyped-def]
    """List a further reader of some bytes, once for each warp: its last read, and each copy by itself."""
    count = further[0, COUNT]
    if further[0, FULL]:
        return
    for n in range(1, count + 1):
        if further[n, 0] == begin and further[n, 1] == end and further[n, 2] >> WHO == reader >> WHO:
            if further[n, 2] == reader:
                return
            if not known.asynchronous[further[n, 2] & INDEX]:
                further[n, 2] = reader
                return
    if count + 1 == len(further):
        further[0, FULL] = 1
        return
    further[0, COUNT] = count + 1
    further[count + 1, 0], further[count + 1, 1], further[count + 1, 2] = begin, end, reader


@compiled
def _is_followed(reader, own, warp, known):  # type: ignore[no-untyped-def]
    """Does a warp that knows the end of a read of a warp (`own`) also know the end of an earlier one of that warp?"""
    if reader >> WHO != own >> WHO:
        return False
    return not known.asynchronous[reader & INDEX] or _is_ordered(reader, warp, READER, known)


@compiled
def _note_reader(cell, shift, own, warp, known, readers, others, further):  # type: ignore[no-untyped-def]
    """A warp reads a cell of `1 << shift` bytes, or a line of so many."""
    reader = readers[cell]
    if reader != own:
        if reader != 0 and not _is_followed(reader, own, warp, known):
            if others[cell] == 0:
                others[cell] = reader
            else:
                kept, left = _second_reader(reader, abs(others[cell]), own, warp, known)
                if left != 0:
                    _list_reader(cell << shift, (cell + 1) << shift, left, known, further)
                others[cell] = -kept if left != 0 or others[cell] < 0 else kept
        readers[cell] = own


@compiled
def _may_go(epoch, warp, scope, known):  # type: ignore[no-untyped-def]
    """Is an access no race with what a warp does now?"""
    return epoch == 0 or (scope != 0 and _is_strong(epoch, warp, scope, known)) or _is_ordered(epoch, warp, WRITER, known)


@compiled
def _overwrites(cell, n, warp, scope, table, known, suspects, found):  # type: ignore[no-untyped-def]
    """A warp overwrites what the reader of a table may still read; one that it has seen is forgotten."""
    reader = table[cell]
    if reader != 0:
        if _is_ordered(reader, warp, READER, known):
            table[cell] = 0
        elif not _is_strong(reader, warp, scope, known):
            return _note(suspects, found, n, cell, reader, READER)
    return found


@compiled
def _overwrites_further(cell, n, warp, scope, cells, known, suspects, found):  # type: ignore[no-untyped-def]
    """`_overwrites` for the further readers of a cell. Returns the suspects, and whether
    the warp has seen all of them.
    """
    begin, all_seen, further = cell << cells.shift, True, cells.further
    for k in range(1, further[0, COUNT] + 1):
        if further[k, 0] <= begin < further[k, 1]:
            reader = further[k, 2]
            if not _is_ordered(reader, warp, READER, known):
                all_seen = False
                if not _is_strong(reader, warp, scope, known):
                    found = _note(suspects, found, n, cell, reader, READER)
    return found, all_seen


@compiled
def _overwrites_readers(cell, n, warp, scope, cells, known, suspects, found):  # type: ignore[no-untyped-def]
    """`_overwrites` for all readers of a cell."""
    found = _overwrites(cell, n, warp, scope, cells.readers, known, suspects, found)
    if cells.others[cell] < 0:
        if cells.further[0, FULL]:
            cells.further[0, BOUND], all_seen = 1, True
        else:
            found, all_seen = _overwrites_further(cell, n, warp, scope, cells, known, suspects, found)
        second = -cells.others[cell]
        if all_seen:
            cells.others[cell] = second
        elif not _is_ordered(second, warp, READER, known) and not _is_strong(second, warp, scope, known):
            found = _note(suspects, found, n, cell, second, READER)
    if cells.others[cell] > 0:
        found = _overwrites(cell, n, warp, scope, cells.others, known, suspects, found)
    return found


@compiled
def _note_strong(cell, writer, warp, scope, earlier, known):  # type: ignore[no-untyped-def]
    """A warp writes by a strong operation over a strong write of another warp, unordered: a reader must have seen both.
    A plain store ends that: the atomics of one address are ordered, and a thread that resets a word to which it has
    added overwrites them all.
    """
    if scope == 0:
        earlier[cell] = 0
    elif (
        writer != 0
        and (earlier[cell] == 0 or _is_ordered(earlier[cell], warp, WRITER, known))
        and not _is_ordered(writer, warp, WRITER, known)
    ):
        earlier[cell] = writer


@compiled
def _is_free(line, warp, own, scope, is_read, cells, known):  # type: ignore[no-untyped-def]
    """May a warp overwrite a line, all of whose readers it has seen?"""
    writer = cells.line_writers[line]
    if writer != own and not _may_go(writer, warp, scope, known):
        return False
    if is_read:
        for reader in (cells.line_readers[line], abs(cells.line_others[line])):
            if reader != 0 and not _is_ordered(reader, warp, READER, known):
                return False
        if cells.line_others[line] < 0 and not cells.further[0, FULL]:
            for k in range(1, cells.further[0, COUNT] + 1):
                if cells.further[k, 0] == line << cells.line and not _is_ordered(cells.further[k, 2], warp, READER, known):
                    return False
    return True


@compiled
def _forget_readers(line, cells):  # type: ignore[no-untyped-def]
    """A warp has overwritten a line, and has seen all readers that are kept."""
    if cells.line_others[line] < 0 and cells.further[0, FULL]:
        cells.further[0, BOUND] = 1
    cells.line_readers[line] = cells.line_others[line] = 0


@compiled
def read(at, size, threads, when, index, stops, known, cells, suspects):  # type: ignore[no-untyped-def]
    """Threads read `size` bytes each, at the byte offsets `at`. Returns the number of `suspects`, rows of (place of the
    thread, cell, epoch, role). The array `when` has the clock of each warp; for copies it has the place in
    `Known.waited`.

    If `stops` is set, the loop ends at the first suspect. Records until then may be repeated.
    """
    found, scope, first_warp = 0, known.scope[index], known.first
    split, shift, line_shift = cells.split, cells.shift, cells.line
    count, per_line = size >> shift, (1 << line_shift) // size
    is_written, mask = len(cells.line_writers) > 0, (1 << line_shift) - 1
    writers, earlier, readers, others = cells.writers, cells.earlier, cells.readers, cells.others
    line_writers, line_readers, line_others = cells.line_writers, cells.line_readers, cells.line_others
    previous, own, free = -1, np.int64(0), np.int64(0)  # `free`: an epoch that the warp has seen
    n = 0
    while n < len(at) and not (stops and found):
        place, warp = at[n], threads[n] >> 5
        if warp != previous:
            previous, free = warp, np.int64(0)
            own = (first_warp + warp + 1) << WHO | min(when[warp], CLOCK) << WHEN | index
        line = place >> line_shift
        if not split[line]:
            if place & mask == 0 and _is_line(at, n, per_line, size, threads):
                if is_written and not _may_go(line_writers[line], warp, scope, known):
                    found = _note(suspects, found, n, place >> shift, line_writers[line], WRITER)
                _note_reader(line, line_shift, own, warp, known, line_readers, line_others, cells.further)
                n += per_line
                continue
            _split(line, cells)
        for cell in range(place >> shift, (place >> shift) + count):
            if is_written and writers[cell] != free:
                if _may_go(writers[cell], warp, scope, known):
                    free = writers[cell]
                else:
                    found = _note(suspects, found, n, cell, writers[cell], WRITER)
            if len(earlier) and not _may_go(earlier[cell], warp, scope, known):
                found = _note(suspects, found, n, cell, earlier[cell], WRITER)
            _note_reader(cell, shift, own, warp, known, readers, others, cells.further)
        n += 1
    return found


@compiled
def write(at, size, threads, index, when, stops, known, cells, suspects):  # type: ignore[no-untyped-def]
    """Threads write so. `when` is what stands for the clock of an asynchronous write, -1 for others."""
    found, scope, first_warp = 0, known.scope[index], known.first
    known_clock, split, shift, line_shift = known.clock, cells.split, cells.shift, cells.line
    count, per_line = size >> shift, (1 << line_shift) // size
    is_read, mask = len(cells.line_readers) > 0, (1 << line_shift) - 1
    writers, earlier, readers, others = cells.writers, cells.earlier, cells.readers, cells.others
    previous, own, free = -1, np.int64(0), np.int64(0)
    n = 0
    while n < len(at):
        place, warp = at[n], threads[n] >> 5
        if warp != previous:
            previous, free = warp, np.int64(0)
            clock = min(known_clock[warp], CLOCK) if when < 0 else when
            own = (first_warp + warp + 1) << WHO | clock << WHEN | index
        line = place >> line_shift
        if not split[line]:
            if place & mask == 0 and _is_line(at, n, per_line, size, threads) and _is_free(line, warp, own, 0, is_read, cells, known):
                cells.line_writers[line] = own
                if is_read and cells.line_readers[line]:
                    _forget_readers(line, cells)
                n += per_line
                continue
            _split(line, cells)
        for cell in range(place >> shift, (place >> shift) + count):
            writer = writers[cell]
            if writer not in (own, free):
                if _may_go(writer, warp, scope, known):
                    free = writer if scope == 0 else free
                else:
                    found = _note(suspects, found, n, cell, writer, WRITER)
            if len(earlier):
                _note_strong(cell, writer, warp, scope, earlier, known)
            if is_read and (readers[cell] != 0 or others[cell] != 0):
                found = _overwrites_readers(cell, n, warp, scope, cells, known, suspects, found)
            if stops and found:
                return found
            writers[cell] = own
        n += 1
    return found


@compiled
def keep(suspects, known, cells):  # type: ignore[no-untyped-def]
    """Others have stored the same values again: the earlier stores, rows of suspects, count as readers from now on,
    where there is room.
    """
    for n in range(len(suspects)):
        cell, epoch = suspects[n, CELL], suspects[n, EPOCH]
        reader = cells.readers[cell]
        if reader == 0 or (reader >> WHO == epoch >> WHO and not known.asynchronous[reader & INDEX]):
            cells.readers[cell] = epoch
        elif cells.others[cell] == 0:
            cells.others[cell] = epoch


@compiled
def drop(suspects, cells):  # type: ignore[no-untyped-def]
    """The values of these stores (`keep`) are not there any more."""
    for n in range(len(suspects)):
        cell, epoch = suspects[n, CELL], suspects[n, EPOCH]
        if cells.readers[cell] == epoch:
            cells.readers[cell] = 0
        if cells.others[cell] == epoch:
            cells.others[cell] = 0


GROUP = 16  # threads that are looked at together


@compiled
def _has_lines(first, last, cells):  # type: ignore[no-untyped-def]
    """Has no thread written whole lines in a range of bytes? Then their cells are used; 2 if there were none before."""
    is_new = True
    for line in range(first >> cells.line, (last >> cells.line) + 1):
        if not cells.split[line]:
            if cells.line_writers[line] != 0:
                return 0
            cells.split[line] = True
        else:
            is_new = False
    return 2 if is_new else 1


@compiled
def _is_idle(n, places, rows, nowhere):  # type: ignore[no-untyped-def]
    """Does no thread of a group store?"""
    other = np.int64(0)
    for k in range(len(rows)):
        own = places[rows[k], n : n + GROUP]
        for lane in range(GROUP):
            other |= own[lane] ^ nowhere
    return other == 0


@compiled
def _is_filled(n, places, rows, apart, size):  # type: ignore[no-untyped-def]
    """Do the threads of a group, by all stores, fill the bytes after its first place?"""
    count, first, other = len(rows), places[rows[0], n] + apart[0], np.int64(0)
    for k in range(count):
        own, begin = places[rows[k], n : n + GROUP], first - apart[k] + k * size
        for lane in range(GROUP):
            other |= own[lane] ^ (begin + lane * (count * size))
    return other == 0


@compiled
def _fill_group(own, at, size, indices, cells):  # type: ignore[no-untyped-def]
    """Record a group with `_is_filled`, from a byte of the array on. False, and nothing is recorded, if a thread has
    accessed it.
    """
    count = len(indices)
    found = _has_lines(at, at + count * size - 1, cells)
    writers = cells.writers[at >> cells.shift : (at >> cells.shift) + count]
    if found == 1:
        kept = np.int64(0)
        for k in range(count):
            kept |= writers[k]
        found = 2 * (kept == 0)
    if found == 2:
        for k in range(count):
            writers[k] = own | indices[k]
    return found == 2


@compiled
def _fill_lanes(n, own, places, rows, apart, nowhere, host, size, indices, cells):  # type: ignore[no-untyped-def]
    """Record the threads of a group one by one. Returns the number of recorded cells before the first accessed one; if
    there is none, the number of all plus one.
    """
    done = 0
    for k in range(len(rows)):
        for lane in range(GROUP):
            place = places[rows[k], n + lane]
            if place != nowhere:
                at = place + apart[k] - host
                if not _has_lines(at, at, cells) or cells.writers[at >> cells.shift] != 0:
                    return done
                cells.writers[at >> cells.shift] = own | indices[k]
            done += 1
    return done + 1


@compiled
def _forget(n, most, places, rows, apart, nowhere, host, cells):  # type: ignore[no-untyped-def]
    """Take back what the first accesses of a group's threads have noted."""
    done = 0
    for k in range(len(rows)):
        for lane in range(GROUP):
            if done < most and places[rows[k], n + lane] != nowhere:
                cells.writers[places[rows[k], n + lane] + apart[k] - host >> cells.shift] = 0
            done += 1


@compiled
def fill(places, rows, apart, nowhere, host, first, last, size, indices, known, cells):  # type: ignore[no-untyped-def]
    """Threads write by several weak stores of one cell each, to cells without accesses. Each store continues after the
    previous one, and each thread after the previous one. False, and nothing is recorded, if that does not hold.

    A row of `places` has the place of each thread's store, minus `apart`, or `nowhere`. `indices` are the numbers of
    the stores, again for each thread of a group.
    """
    n, most = first, len(indices) + 1
    while n < last:
        if _is_idle(n, places, rows, nowhere):
            n += GROUP
            continue
        warp = n >> 5
        own = (known.first + warp + 1) << WHO | min(known.clock[warp], CLOCK) << WHEN
        if places[rows[0], n] != nowhere and _is_filled(n, places, rows, apart, size):
            done = most * _fill_group(own, places[rows[0], n] + apart[0] - host, size, indices, cells)
        else:
            done = _fill_lanes(n, own, places, rows, apart, nowhere, host, size, indices, cells)
        if done < most:
            _forget(n, done, places, rows, apart, nowhere, host, cells)
            while n > first:
                n -= GROUP
                _forget(n, most, places, rows, apart, nowhere, host, cells)
            return False
        n += GROUP
    return True


@compiled
def unfenced(at, size, warp, fenced, known, cells, suspects):  # type: ignore[no-untyped-def]
    """An asynchronous operation of a warp reads cells: list those that threads have written without a later proxy
    fence, as this wave knows.
    """
    found = 0
    for n in range(len(at)):
        first, is_split = at[n] >> cells.shift, cells.split[at[n] >> cells.line]
        for cell in range(first, first + (size >> cells.shift)):
            writer = cells.writers[cell] if is_split else cells.line_writers[at[n] >> cells.line]
            if writer == 0 or known.asynchronous[writer & INDEX]:
                continue
            who = (writer >> WHO) - 1 - known.first
            who -= warp // fenced.shape[1] * fenced.shape[1]
            if 0 <= who < fenced.shape[1] and fenced[warp, who] >= (writer >> WHEN) & CLOCK:
                continue
            if found < len(suspects):
                suspects[found, N], suspects[found, CELL], suspects[found, EPOCH], suspects[found, ROLE] = n, cell, writer, WRITER
                found += 1
    return found


@compiled
def observed(at, size, threads, index, known, cells, suspects):  # type: ignore[no-untyped-def]
    """Threads read by a strong operation: list the strong writes of others that they observe and that are not ordered
    before them. The last one of a cell is WRITER, the one that it does not follow READER.
    """
    found, scope = 0, known.scope[index]
    for n in range(len(at)):
        warp, first, line = threads[n] >> 5, at[n] >> cells.shift, at[n] >> cells.line
        if n > 0 and at[n] == at[n - 1] and warp == threads[n - 1] >> 5:  # lanes of a warp read one word
            continue
        for cell in range(first, first + (size >> cells.shift)):
            last = cells.writers[cell] if cells.split[line] else cells.line_writers[line]
            if last == 0 or known.asynchronous[last & INDEX] or not _is_strong(last, warp, scope, known):
                continue
            if not _is_ordered(last, warp, WRITER, known):
                found = _note(suspects, found, n, cell, last, WRITER)
            before = cells.earlier[cell]
            if before not in (0, last) and not _is_ordered(before, warp, WRITER, known) and _is_strong(before, warp, scope, known):
                found = _note(suspects, found, n, cell, before, READER)
    return found
