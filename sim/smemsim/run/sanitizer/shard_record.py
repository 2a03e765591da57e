"""The accesses of CTAs in another process to global memory: the record of each piece of each array, with the written
bytes.

If no other process accessed a cell that these CTAs wrote, and they accessed no cell that others wrote, no order of the
CTAs changes a value or a race. Then the record `enters` the launch's history, and the result is the same as if the CTAs
had run here. There is one exception: if a warp reads a word at several lines, a later race may name other ones of them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from smemsim.run.sanitizer import global_loops as loops
from smemsim.run.sanitizer.across_waves import ACROSS_WAVES

if TYPE_CHECKING:
    from smemsim.core.machine.global_memory import Region
    from smemsim.core.machine.stored_taint import StoredTaint
    from smemsim.core.ptx.module import Instruction
    from smemsim.run.sanitizer.history import ArrayShadow, History

__all__ = ["NOTHING_BEFORE", "Record", "begin"]

NOTHING = np.zeros(0, np.int64)


class Begin(NamedTuple):
    """How far a history had come when something began."""

    warps: int
    copies: int
    waves: int
    told: int


NOTHING_BEFORE = Begin(0, 0, 0, 0)


def begin(history: History) -> Begin:
    """The CTAs of a record start here: from now on, conflicts with earlier ones are recorded (`History.meets`)."""
    history.others, history.has_met = history.warps, False
    return Begin(history.warps, history.numbers.copies, len(history.waves), len(history.told))


class Epochs(NamedTuple):
    """The recorded epochs of some cells, or lines of them, in the form of `loops.Cells`: 0 for none, and no array if
    there are none at all.
    """

    at: np.ndarray
    writers: np.ndarray
    earlier: np.ndarray
    readers: np.ndarray
    others: np.ndarray

    @property
    def is_written(self) -> np.ndarray:
        """Which of them were written?"""
        return self.writers != 0 if len(self.writers) else np.zeros(len(self.at), bool)

    def with_tables(self, make: Callable[[np.ndarray], np.ndarray]) -> Epochs:
        """The same with other arrays in place of those that there are."""
        return Epochs(make(self.at), *(make(table) if len(table) else table for table in self[1:]))

    def those(self, which: np.ndarray) -> Epochs:
        """Some of them, by a mask."""
        return self if which.all() else self.with_tables(lambda table: table[which])

    def spread(self, times: int) -> Epochs:
        """The same of `times` smaller cells in place of each."""
        if times == 1 or not len(self.at):
            return self
        at = (self.at[:, None] * times + np.arange(times)).reshape(-1)
        return self.with_tables(lambda table: np.repeat(table, times))._replace(at=at)

    def joined(self, other: Epochs) -> Epochs:
        """Both, none of which has a cell of the other's."""
        if not len(self.at) or not len(other.at):
            return self if len(self.at) else other
        own, more = ([table if len(table) else np.zeros(len(of.at), np.int64) for table in of] for of in (self, other))
        return Epochs(*(np.concatenate(both) for both in zip(own, more, strict=True)))

    def counted(self, warps: int, copies: int, numbers: np.ndarray, asynchronous: np.ndarray) -> Epochs:
        """The same with warps, and copies, counted from others on, and other numbers of instructions, of which some
        are copies.
        """
        are_same = (numbers == np.arange(len(numbers))).all()

        def moved(table: np.ndarray) -> np.ndarray:
            found = table + (warps << loops.WHO)
            if not are_same:
                index = table & loops.INDEX
                found += numbers[np.minimum(index, len(numbers) - 1)] - index
            if asynchronous.any():
                found += np.where(asynchronous[found & loops.INDEX], copies << loops.WHEN, 0)
            found[table == 0] = 0
            return found

        return Epochs(self.at, *(np.sign(table) * moved(np.abs(table)) if len(table) else table for table in self[1:]))


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """The same of one array, which begins at an address: of whole lines of `1 << line` bytes, and of cells of `1 <<
    shift`; and what has been written there.
    """

    address: int
    shift: int
    line: int
    lines: Epochs
    cells: Epochs
    line_bytes: np.ndarray
    cell_bytes: np.ndarray
    further: np.ndarray  # readers without a place in cells: rows of `loops.Cells.further`
    is_full: bool  # has it forgotten some?

    @classmethod
    def of(cls, shadow: ArrayShadow, since: Begin) -> Part | None:
        """The changes of an array since. None if there are none."""
        cells, limit = shadow.cells, since.warps + 1 << loops.WHO
        lines = _since((cells.line_writers, NOTHING, cells.line_readers, cells.line_others), limit)
        lines = lines.those(~cells.split[lines.at])
        fine = _since((cells.writers, cells.earlier, cells.readers, cells.others) if cells.split.any() else (NOTHING,) * 4, limit)
        fine = fine.those(cells.split[fine.at >> cells.line - cells.shift])
        rows = cells.further[1 : cells.further[0, loops.COUNT] + 1]
        rows = rows[rows[:, 2] >= limit].copy()
        if not len(lines.at) and not len(fine.at):
            return None
        memory = shadow.region.words
        line_bytes = _units(memory, cells.line)[lines.at[lines.is_written]]
        cell_bytes = _units(memory, cells.shift)[fine.at[fine.is_written]]
        is_full = bool(cells.further[0, loops.FULL])
        return cls(shadow.region.begin, cells.shift, cells.line, lines, fine, line_bytes, cell_bytes, rows, is_full)

    def fitted(self, shadow: ArrayShadow) -> tuple[Epochs, Epochs]:
        """(lines, cells) as an array's own cells are, which are made as small."""
        if len(shadow.cells.split):
            shadow.fit(1 << self.shift)
        own = shadow.cells
        cells = self.cells.spread(1 << self.shift - own.shift)
        if self.line == own.line:
            return self.lines, cells
        return self.lines.those(NOTHING), cells.joined(self.lines.spread(1 << self.line - own.shift))

    def write(self, region: Region) -> None:
        """Leave the bytes that were written."""
        if region.blank is not None:
            for epochs, shift in ((self.lines, self.line), (self.cells, self.shift)):
                region.blank.fill(epochs.at[epochs.is_written] << shift, 1 << shift)
        _units(region.words, self.line)[self.lines.at[self.lines.is_written]] = self.line_bytes
        _units(region.words, self.shift)[self.cells.at[self.cells.is_written]] = self.cell_bytes

    def clear(self, taint: StoredTaint, memory: np.ndarray) -> None:
        """Values that earlier launches have stored there are overwritten."""
        for epochs, shift in ((self.lines, self.line), (self.cells, self.shift)):
            taint.clear(memory, epochs.at[epochs.is_written] << shift, 1 << shift)


def _since(tables: tuple[np.ndarray, ...], limit: int) -> Epochs:
    """The notes in tables from an epoch on."""
    masks = [table >= limit for table in tables if len(table)]
    at = np.flatnonzero(functools.reduce(np.logical_or, masks)) if masks else NOTHING
    of = (table[at] if len(table) else NOTHING for table in tables)
    return Epochs(at, *(np.where(np.abs(epochs) >= limit, epochs, 0) for epochs in of))


def _at(table: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The entries of a table at places; 0 without a table."""
    found: np.ndarray = table[at] if len(table) else np.zeros(len(at), np.int64)
    return found


def _units(memory: np.ndarray, shift: int) -> np.ndarray:
    """The bytes of an array in rows of `1 << shift`, as far as they go."""
    raw = memory.view(np.uint8)
    return raw[: len(raw) >> shift << shift].reshape(-1, 1 << shift)


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """The actions of some CTAs since `begin`. Warps, and copies, are counted as in the history that it is of.
    Instructions are places in the program.
    """

    begin: Begin
    waves: tuple[tuple[int, int, tuple[int, ...]], ...]  # the first warp, warps of a CTA, the CTAs
    warps: int
    instructions: tuple[int, ...]
    waited: np.ndarray  # of copies
    tellers: tuple[tuple[tuple[int, int, bool], ...], ...]  # of each: `Numbers.tellers_of`
    used: dict[int, np.ndarray]  # of stores that use what a load has brought: which warps have executed them
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, history: History, since: Begin) -> Record:
        """The actions since."""
        places = {id(i): n for n, i in enumerate(history.launch.program.inlined.body)}
        waves = tuple(
            (first - since.warps, per_cta, tuple(ctas))
            for (first, _), (per_cta, ctas) in zip(history.waves[since.waves :], history.ctas[since.waves :], strict=True)
        )
        parts = (Part.of(shadow, since) for shadow in history.shadows())
        used = {places[store]: done[since.warps : history.warps] for store, done in history.unused.done.items()}
        return cls(
            since, waves, history.warps - since.warps, tuple(places[id(i)] for i in history.numbers.instructions),
            history.numbers.waited[since.copies + 1 : history.numbers.copies + 1].copy(),
            tuple(tuple(history.numbers.tellers_of(place)) for place in range(since.copies + 1, history.numbers.copies + 1)), used,
            tuple(part for part in parts if part is not None),
        )  # fmt: skip

    def _shadows(self, history: History) -> Iterator[tuple[Part, ArrayShadow]]:
        for part in self.parts:
            shadow = history.array(history.launch.memory.find(part.address).words, 1 << part.shift)
            if shadow is not None:
                yield part, shadow

    def meets(self, history: History) -> bool:
        """Has a cell that these CTAs have written been touched by those of a history, or the other way round? Or is
        there no room for them?
        """
        if history.numbers.copies + len(self.waited) >= loops.CLOCK or history.warps + self.warps >= 1 << 63 - loops.WHO - 1:
            return True
        return any(_meets(part, shadow) for part, shadow in self._shadows(history))

    def enter(self, history: History) -> None:
        """Have it in a history, of whose CTAs they meet none, and the bytes in memory."""
        body: list[Instruction] = history.launch.program.inlined.body
        warps, copies, (_, per_cta, _) = history.warps, history.numbers.copies, self.waves[0]
        numbers = np.array([history.numbers.index(body[place]) for place in self.instructions] or [0], np.int64)
        taint = history.launch.memory.taint
        for part, shadow in self._shadows(history):
            lines, cells = part.fitted(shadow)
            given = warps - self.begin.warps, copies - self.begin.copies, numbers, history.numbers.asynchronous
            rows = part.further.copy()
            rows[:, 2] = Epochs(rows[:, 0], NOTHING, NOTHING, rows[:, 2], NOTHING).counted(*given).readers
            _enter(history, shadow, lines.counted(*given), cells.counted(*given), rows, per_cta)
            shadow.cells.further[0, loops.FULL] |= part.is_full
            part.write(shadow.region)
            if taint:
                part.clear(taint, shadow.region.words)
        for when, tellers in zip(self.waited.tolist(), self.tellers, strict=True):
            place = history.numbers.issues()  # which may make room
            history.numbers.waited[place] = when
            for warp, clock, is_private in reversed(tellers):
                history.numbers.tells(place, warp + warps - self.begin.warps, clock, is_private=is_private)
        for first, per_cta, ctas in self.waves:
            history.has_run(first + warps, ACROSS_WAVES(history.launch).begins(), per_cta, list(ctas))
        history.warps += self.warps
        for place, done in self.used.items():
            history.unused.has_done(body[place], warps, done)


def _expanded(lines: Epochs, shadow: ArrayShadow) -> Epochs:
    """The cells of lines."""
    own = shadow.cells
    return lines.spread(1 << own.line - own.shift)


def _meets(part: Part, shadow: ArrayShadow) -> bool:
    lines, cells = part.fitted(shadow)
    own = shadow.cells
    is_split = own.split[lines.at]
    whole, parts = lines.those(~is_split), _expanded(lines.those(is_split), shadow)
    if _touch(whole, whole.at, own.line_writers, own.line_readers):
        return True
    of_cells = cells.at >> own.line - own.shift
    near = own.split[of_cells]
    far = cells.those(~near)
    return (
        _touch(far, of_cells[~near], own.line_writers, own.line_readers)
        or _touch(parts, parts.at, own.writers, own.readers)
        or _touch(those := cells.those(near), those.at, own.writers, own.readers)
    )


def _touch(epochs: Epochs, at: np.ndarray, writers: np.ndarray, readers: np.ndarray) -> bool:
    return bool(_at(writers, at).any() or _at(readers, at[epochs.is_written]).any())


def _enter(history: History, shadow: ArrayShadow, lines: Epochs, cells: Epochs, rows: np.ndarray, per_cta: int) -> None:
    if len(lines.writers) or len(cells.writers):
        shadow.for_writes(0)
    if len(lines.readers) or len(cells.readers):
        shadow.for_reads()
    is_split = shadow.cells.split[lines.at]
    cells = cells.joined(_expanded(lines.those(is_split), shadow))
    lines = lines.those(~is_split)
    shadow.split(cells.at >> shadow.cells.line - shadow.cells.shift)
    own, asynchronous = shadow.cells, history.numbers.asynchronous
    rows = np.concatenate([
        rows,
        _note(lines, own.line_writers, own.line_readers, own.line_others, own.line, per_cta, asynchronous),
        _note(cells, own.writers, own.readers, own.others, own.shift, per_cta, asynchronous),
    ])  # fmt: skip
    are_new = rows[:, 2] >> loops.WHO > history.warps
    _list(rows[np.argsort(are_new, kind="stable")], own.further, asynchronous)  # readers that were here come first


def _list(rows: np.ndarray, further: np.ndarray, asynchronous: np.ndarray) -> None:
    """List further readers by the rule of `loops.read`: for each warp and place its last read, and each copy by itself.
    A reader without room is forgotten, and the list counts as full.
    """
    count, known = int(further[0, loops.COUNT]), dict[tuple[int, int, int], int]()

    def key(begin: int, end: int, reader: int) -> tuple[int, int, int]:
        return begin, end, reader if asynchronous[reader & loops.INDEX] else -(reader >> loops.WHO)

    for n, row in enumerate(further[1 : count + 1].tolist(), 1):
        known[key(*row)] = n
    for row in rows.tolist():
        at = known.setdefault(key(*row), count + 1)
        if at == len(further):
            further[0, loops.FULL] = 1
            break
        further[at], count = row, max(count, at)
    further[0, loops.COUNT] = count


def _note(
    epochs: Epochs, writers: np.ndarray, readers: np.ndarray, others: np.ndarray, shift: int, per_cta: int, asynchronous: np.ndarray
) -> np.ndarray:
    """Merge the readers of cells of `1 << shift` bytes that are only read in both, in the form of `loops`: two readers
    of each. Returns the further ones.
    """
    left = np.zeros((0, 3), np.int64)
    if len(epochs.writers):
        written = epochs.is_written
        writers[epochs.at[written]] = epochs.writers[written]
    if len(epochs.readers):
        read = epochs.those(epochs.readers != 0)
        before = readers[read.at]
        own, other = (((np.abs(table) >> loops.WHO) - 1) // per_cta for table in (read.readers, read.others))
        is_alone = (read.others == 0) | (own == other)
        kept = np.where(is_alone & (before != 0), before, np.abs(read.others))
        candidates = np.stack([before, np.abs(others[read.at]), np.abs(read.others)])
        # a write after the last read of a warp is after its earlier reads, but not after its copies
        is_followed = (candidates >> loops.WHO == read.readers >> loops.WHO) & ~asynchronous[candidates & loops.INDEX]
        are_left = (candidates != 0) & (candidates != kept) & ~is_followed
        is_more = (read.others < 0) | (others[read.at] < 0) | are_left.any(axis=0)
        others[read.at] = kept * np.where(is_more, -1, 1)
        readers[read.at] = read.readers
        _, n = np.nonzero(are_left)
        begins = read.at[n] << shift
        left = np.stack([begins, begins + (1 << shift), candidates[are_left]], axis=-1)
    return left
