"""The rule of global memory: which earlier accesses of the same cells does nothing order before the present ones? It
lists suspects, from which `global_findings.py` makes findings (PTX ISA 8: data races, morally strong operations,
scopes, causality order).

For example: warp 0 of CTA 1 reads a cell that warp 2 of CTA 0 has written. The compiled check (`global_loops.py`) lists
it. If warp 0 has acquired nothing that warp 2 released later, `suspects` lists the write, which lacks "order". If it
would have acquired it after a fence of its own, it lacks only that "reader fence", which is a remark.

A row of suspects has four columns. The present access is in `loops.N`, by its place, the cell in `loops.CELL`. The
warp, clock and instruction of the earlier access are one number in `loops.EPOCH`. Whether that access is the writer or
a reader is in `loops.ROLE`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction
from smemsim.run.async_ops import is_bulk
from smemsim.run.lower.dataflow import accumulations, repeats, updates
from smemsim.run.sanitizer import global_loops as loops
from smemsim.run.sanitizer.global_table import GlobalTable
from smemsim.run.sanitizer.happens_before import Formal, VectorClocks
from smemsim.run.sanitizer.history import LINE, ArrayShadow, ProxyFence
from smemsim.run.sanitizer.operations import Operation, Operations
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.accesses import Values

__all__ = ["ArrayAccess", "GlobalRule", "Lacks", "Stays", "Suspects", "is_for_shared"]


Stays: TypeAlias = Callable[[np.ndarray], np.ndarray]
# What is between two accesses in a right kernel: a barrier or a release and an acquire; one atomic operation for the
# whole update; fence.proxy.async. Or what is only by the letter: a fence of the reader, an order that no multiprocessor
# gives.
Lacks: TypeAlias = Literal["order", "atomicity", "proxy fence", "reader fence", "multiprocessor"]


def is_for_shared(i: Instruction) -> bool:
    """Is this a fence of the asynchronous proxy that names shared memory, and so is none for global memory (PTX ISA
    9.1 §9.7.13.4)?
    """
    return i.op in ("fence", "membar") and "proxy" in i.modifiers and any("shared::" in m for m in i.modifiers)


class ArrayAccess(NamedTuple):
    """The present accesses of an array, at byte offsets `at` by `threads`."""

    i: Instruction
    array: ArrayShadow
    at: np.ndarray
    threads: np.ndarray
    does: Literal["read", "write"]


class Suspects(NamedTuple):
    """Earlier accesses that nothing orders before the present ones, and what they lack. The array `rows` comes from the
    compiled check (columns N, CELL, EPOCH, ROLE of `global_loops.py`). The array `warps` has the warps of the present
    accesses.
    """

    lacks: Lacks
    rows: np.ndarray
    warps: np.ndarray


class GlobalRule:
    """Lists the suspects of accesses of global memory."""

    def __init__(self, table: GlobalTable, operations: Operations) -> None:
        self.table, self.x, self.clocks, self.history, self.operations = table, table.x, table.clocks, table.history, operations
        program = self.x.launch.program
        self.updates, self.accumulations = updates(program), accumulations(program)
        # Proxy fences that are for global memory in particular, and what their warp had seen.
        self._fences: list[tuple[Operation, np.ndarray]] = []
        # Is there such a fence? Then `order.fenced` says nothing of global memory.
        self._has_narrow = program.has(is_for_shared)
        self._nothing = np.zeros_like(self.clocks.fenced) if self._has_narrow else self.clocks.fenced[:0]

    def remembered(self) -> list[int]:
        """The numbers of the operations that stand for fences."""
        return [op.number for op, _ in self._fences]

    # ---- suspects

    def suspects(self, a: ArrayAccess, found: int, values: Values | None = None, stays: Stays | None = None) -> Iterator[Suspects]:
        """Those that really are, of so many accesses that the compiled check has `found`. Writes of threads that leave
        the same `values`, and of operations where that `stays`, do not race.
        """
        i, array, at, threads, does = a
        rows = self.history.suspects[:found].copy()
        stored = self._of_stores(rows)
        kept = stored & (rows[:, loops.ROLE] == loops.READER)  # `loops.keep`
        rows[kept, loops.ROLE] = loops.WRITER
        warps = threads[rows[:, loops.N]] >> 5
        late = ~self._heard_of(warps, rows)
        late &= ~self._have_observed(array, warps, rows, late, does)
        self.history.meets(rows[late, loops.EPOCH])
        lost = late & self._are_lost(i, rows)
        if lost.any():  # two that leave the same value have both read before either wrote: one of them is lost
            yield from self._by_reason("atomicity", a, rows[lost], warps[lost])
        unseen = late.copy()
        if values is not None and late.any():
            late &= self._changes(self.history.numbers.index(i), array, at, threads, rows, values) | self._add(rows)
        if late.any():
            late &= self._change(array, rows, stays) | self._add(rows)
        if (over := kept & late).any():
            loops.drop(rows[over], array.cells)
        if (again := stored & ~kept & unseen & ~late).any():
            array.for_reads()
            loops.keep(rows[again], self.table.known, array.cells)
        yield from self._by_reason("order", a, rows[late], warps[late])

    def _by_reason(self, lacks: Lacks, a: ArrayAccess, rows: np.ndarray, warps: np.ndarray) -> Iterator[Suspects]:
        """Suspects that lack something, and those of them that lack it by the letter alone."""
        if len(rows) and (following := self._following(warps, rows)).any():
            yield Suspects("multiprocessor", rows[following], warps[following])
            rows, warps = rows[~following], warps[~following]
        if len(rows) and lacks == "order" and (alone := self._lack_fence_alone(a.i, a.array, rows, warps)).any():
            yield Suspects("reader fence", rows[alone], warps[alone])
            rows, warps = rows[~alone], warps[~alone]
        if len(rows):
            yield Suspects(lacks, rows, warps)

    def lost_updates(self, a: ArrayAccess, size: int) -> Iterator[Suspects]:
        """Threads store a value that they compute from a strong load of the same word: other threads that have done the
        same, unordered (rule order.update). Plain accesses race anyway.
        """
        i, array, at, threads, _ = a
        warps, index = threads >> 5, self.history.numbers.index(i)
        for warp in distinct(warps).tolist():
            own = at[warps == warp]
            found = loops.unfenced(own, size, warp, self.clocks.seen, self.table.known, array.cells, self.history.suspects)
            now = np.flatnonzero((warps < warp) & np.isin(at, own))  # by the same instruction
            epochs = self.table.first + warps[now] + 1 << loops.WHO | self.clocks.clock[warps[now]].astype(np.int64) << loops.WHEN | index
            same = np.stack((now, at[now] >> array.cells.shift, epochs, np.zeros(len(now), np.int64)), axis=1)
            rows = np.concatenate((self.history.suspects[:found], same))
            who = (rows[:, loops.EPOCH] >> loops.WHO) - 1
            late = (who != self.table.first + warp) & ~self._heard_of(np.full(len(who), warp), rows)
            late &= np.array(
                [id(self.history.numbers.instructions[n]) in self.updates for n in (rows[:, loops.EPOCH] & loops.INDEX).tolist()], bool
            )
            yield from self._by_reason("atomicity", a, rows[late], np.full(int(late.sum()), warp))

    def unfenced(self, op: Operation, array: ArrayShadow, at: np.ndarray, size: int) -> Suspects:
        """Writes of threads that an operation of the asynchronous proxy reads or overwrites without a proxy fence in
        between.
        """
        warp = int(op.warps[0])
        rows = self.history.suspects[: self._count_unfenced(array, at, size, warp, self.table.known)].copy()
        rows = rows[self._still_unfenced(array, warp, rows)] if len(rows) else rows
        return Suspects("proxy fence", rows, np.full(len(rows), warp))

    def that_change(self, array: ArrayShadow, unfenced: Suspects, stays: Stays | None) -> Suspects:
        """The unfenced writes that are plain, and whose bytes the operation changes. Reductions that follow atomics of
        threads are not reported.
        """
        rows = unfenced.rows[self.history.numbers.scope[unfenced.rows[:, loops.EPOCH] & loops.INDEX] == 0]
        rows = rows[self._change(array, rows, stays)]
        return unfenced._replace(rows=rows, warps=unfenced.warps[: len(rows)])

    def may_be_unfenced(self, array: ArrayShadow, at: np.ndarray, size: int, warp: int, known: loops.Known) -> bool:
        """May an operation that a warp issues overwrite what threads have written without a proxy fence?"""
        return self._count_unfenced(array, at, size, warp, known) > 0

    @property
    def _fenced(self) -> np.ndarray:
        """The writes to global memory that each warp has passed to the asynchronous proxy."""
        return self._nothing if self._has_narrow else self.clocks.fenced

    @staticmethod
    def _change(array: ArrayShadow, suspects: np.ndarray, stays: Stays | None) -> np.ndarray:
        """Which suspects are of cells that an asynchronous operation leaves other bytes in?"""
        if stays is None or not len(suspects):
            return np.ones(len(suspects), bool)
        shift = array.cells.shift
        return ~np.asarray(
            stays(array.region.words_begin + (suspects[:, loops.CELL] << shift)[:, None] + np.arange(1 << shift)).all(axis=1)
        )

    def _are_lost(self, i: Instruction, suspects: np.ndarray) -> np.ndarray:
        """Which suspicious accesses are, as this one, stores of what was added to a value loaded there?"""
        if id(i) not in self.accumulations:
            return np.zeros(len(suspects), bool)
        others = [id(self.history.numbers.instructions[n]) in self.accumulations for n in (suspects[:, loops.EPOCH] & loops.INDEX).tolist()]
        lost: np.ndarray = (suspects[:, loops.ROLE] == loops.WRITER) & np.array(others, bool)
        return lost

    def _changes(
        self, index: int, array: ArrayShadow, at: np.ndarray, threads: np.ndarray, suspects: np.ndarray, values: Values
    ) -> np.ndarray:  # fmt: skip
        """Which suspicious writes leave other bytes than lay there, or than another thread of the same instruction
        writes?
        """
        n, cells = suspects[:, loops.N], suspects[:, loops.CELL]
        unit = 1 << array.cells.shift
        within = (cells << array.cells.shift) - at[n]
        changed = values.bytes_of(n, within, unit)[0]
        count = values.size >> array.cells.shift
        every = ((at >> array.cells.shift)[:, None] + np.arange(count)).reshape(-1)
        other = (suspects[:, loops.EPOCH] >> loops.WHO) - 1 - self.table.first
        now = (suspects[:, loops.EPOCH] & loops.INDEX == index) & (other >= 0)
        now &= np.isin(cells << 24 | np.maximum(other, 0), every << 24 | np.repeat(threads >> 5, count))
        if now.any():
            there = np.flatnonzero(np.isin(every, cells[now]))
            stays = values.bytes_of(there // count, there % count * unit, unit)[1]
            changed = np.where(now, np.isin(cells, every[there[~stays]]), changed)
        return changed

    def _of_stores(self, suspects: np.ndarray) -> np.ndarray:
        """Which of the earlier accesses are plain stores?"""
        index, numbers = suspects[:, loops.EPOCH] & loops.INDEX, self.history.numbers
        kinds, which = np.unique(index, return_inverse=True)
        found = np.array([numbers.instructions[n].op == "st" and not numbers.scope[n] for n in kinds.tolist()], bool)
        return found[which]

    def _add(self, suspects: np.ndarray) -> np.ndarray:
        """Which suspects would change the present value if they came after it, although they have left the same one
        (`repeats`)?
        """
        kinds, which = np.unique(suspects[:, loops.EPOCH] & loops.INDEX, return_inverse=True)
        found = np.array([not repeats(self.x.launch.program, self.history.numbers.instructions[n]) for n in kinds.tolist()], bool)
        would_change: np.ndarray = found[which] & (suspects[:, loops.ROLE] == loops.WRITER)
        return would_change

    def _following(self, warps: np.ndarray, suspects: np.ndarray) -> np.ndarray:
        """Which suspicious accesses are of CTAs that one multiprocessor runs one after the other (rule
        order.same_multiprocessor)?
        """
        places, name = self.x.launch.places, self.history.place_of
        if places is None:
            return np.zeros(len(warps), bool)
        others = ((suspects[:, loops.EPOCH] >> loops.WHO) - 1).tolist()
        pairs = zip(warps.tolist(), others, strict=True)
        return np.array([places.follow(name(self.table.first + warp)[0], name(other)[0]) for warp, other in pairs], bool)

    def not_formal(self, warps: np.ndarray, epochs: np.ndarray) -> tuple[np.ndarray, Formal]:
        """Which accesses are unordered whatever relaxed arrivals at barriers of the cluster do? Where none is: all,
        formally.

        Waits and arrivals of .cta keep no other CTA's writes of global memory visible (rule order.narrow_wait).
        """
        who, when = (epochs >> loops.WHO) - 1 - self.table.first, epochs >> loops.WHEN & loops.CLOCK
        inside = (who >= 0) & (who < len(self.clocks.clock)) & ~self.history.numbers.asynchronous[epochs & loops.INDEX]
        test: Callable[[VectorClocks], np.ndarray] = lambda order: ~inside | (order.has_seen(warps, np.where(inside, who, 0)) < when)  # noqa: E731
        return self.clocks.confirmed(np.ones(len(warps), bool), test, but=("wait", "arrive"))

    # ---- what a warp has seen

    def _heard_of(self, warps: np.ndarray, suspects: np.ndarray) -> np.ndarray:
        """Which suspicious accesses, of other waves, have these warps seen?"""
        heard, epochs = np.zeros(len(warps), bool), suspects[:, loops.EPOCH]
        who, when, index = (epochs >> loops.WHO) - 1, epochs >> loops.WHEN & loops.CLOCK, epochs & loops.INDEX
        numbers, copied = self.history.numbers, self.history.numbers.asynchronous[index]
        places = np.where(copied, when, 0)
        when = np.where(copied, numbers.waited[places], when)
        outside = (who < self.table.first) | (who >= self.table.first + len(self.clocks.clock))
        for warp in distinct(warps[outside]).tolist():
            own = outside & (warps == warp)
            heard[own] = self._has_heard(warp, who[own], when[own])
        for n in np.flatnonzero(outside & copied & ~heard & (suspects[:, loops.ROLE] == loops.READER)).tolist():
            tellers = [(who, clock) for who, clock, is_private in numbers.tellers_of(int(places[n])) if not is_private]
            heard[n] = any(self._has_heard(int(warps[n]), np.array([who]), np.array([clock]))[0] for who, clock in tellers)
        return heard

    def _has_heard(self, warp: int, who: np.ndarray, when: np.ndarray) -> np.ndarray:
        """Which accesses of warps of other waves has a warp seen?"""
        heard = np.zeros(len(who), bool)
        wave = self.history.wave_of(who)
        for n in distinct(wave).tolist():
            first, number = self.history.waves[n]
            clocks = self.clocks.foreign(warp, number)
            if clocks is not None:
                own = wave == n
                heard[own] = clocks[who[own] - first] >= when[own]
        return heard

    def _has_seen(self, warp: int, epoch: int) -> bool:
        """Has a warp seen an access of a thread?"""
        who, when = (epoch >> loops.WHO) - 1, epoch >> loops.WHEN & loops.CLOCK
        other, columns = who - self.table.first, self.clocks.seen.shape[1]
        if 0 <= other < len(self.clocks.clock):
            return other // columns == warp // columns and bool(self.clocks.has_seen(warp, other) >= when)
        return bool(self._has_heard(warp, np.array([who]), np.array([when]))[0])

    def _have_observed(self, array: ArrayShadow, warps: np.ndarray, suspects: np.ndarray, late: np.ndarray, does: str) -> np.ndarray:
        """Which suspicious accesses are strong writes that a strong read has found, which these warps have done
        themselves or seen (rule order.observation)?
        """
        known = np.zeros(len(suspects), bool)
        strong = (suspects[:, loops.ROLE] == loops.WRITER) & (self.history.numbers.scope[suspects[:, loops.EPOCH] & loops.INDEX] != 0)
        for n in np.flatnonzero(late & strong).tolist():
            cell, warp, epoch = int(suspects[n, loops.CELL]), int(warps[n]), int(suspects[n, loops.EPOCH])
            last = int(array.cells.writers[cell])
            # an atomic of the warp itself, or one that it has seen, returned the value; a reduction or a store did not
            is_read = does == "read" and epoch != last and self.history.numbers.instructions[last & loops.INDEX].op == "atom"
            is_own = last >> loops.WHO == self.table.first + warp + 1
            known[n] = (is_read and (is_own or self._has_seen(warp, last))) or any(
                epoch in read.writes and (reader == self.table.first + warp or self._has_seen(warp, read.read))
                for reader, read in array.observed.get(cell, {}).items()
            )
        return known

    def _lack_fence_alone(self, i: Instruction, array: ArrayShadow, suspects: np.ndarray, warps: np.ndarray) -> np.ndarray:
        """Which suspicious plain loads and stores follow what their warp would have seen after a fence of its own?
        Loads count if the L1 has no older copy of the line (rule order.reader_fence).
        """
        if (
            i.op not in ("ld", "st")
            or not self.history.may_lack_fence
            or self.history.numbers.scope[self.history.numbers.index(i)]
            or "nc" in i.modifiers
        ):
            return np.zeros(len(warps), bool)
        epochs = suspects[:, loops.EPOCH]
        who, when = (epochs >> loops.WHO) - 1 - self.table.first, epochs >> loops.WHEN & loops.CLOCK
        inside = (who >= 0) & (who < len(self.clocks.clock))
        alone = inside & (self.clocks.seen_behind_fence(warps, np.where(inside, who, 0)) >= when)
        for n in np.flatnonzero(~inside).tolist():
            alone[n] = self._would_have_heard(int(warps[n]), int(who[n]) + self.table.first, int(when[n]))
        index = epochs & loops.INDEX
        alone &= ~self.history.numbers.asynchronous[index] & (self.history.numbers.scope[index] == 0)
        if i.op == "st":
            return alone
        alone &= suspects[:, loops.ROLE] == loops.WRITER
        lines, ctas = suspects[:, loops.CELL] >> LINE - array.cells.shift, self.table.cta_of(warps)
        known = np.array([array.unfenced.get(line, 0) for line in lines.tolist()])
        alone &= (array.loaded[lines] == 0) | ((array.loaded[lines] == ctas) & (known == ctas))
        array.unfenced.update(zip(lines[alone].tolist(), ctas[alone].tolist(), strict=True))
        return alone

    def _would_have_heard(self, warp: int, who: int, when: int) -> bool:
        """Would a warp have seen an access of a warp of another wave after a fence?"""
        first, number = self.history.waves[int(self.history.wave_of(np.array([who]))[0])]
        clocks = self.clocks.foreign_behind_fence(warp, number)
        return clocks is not None and bool(clocks[who - first] >= when)

    # ---- fences between the proxies

    def _count_unfenced(self, array: ArrayShadow, at: np.ndarray, size: int, warp: int, known: loops.Known) -> int:
        """How many writes lack a proxy fence of their warp before what a warp issues? The compiled check lists them."""
        if not len(array.cells.writers):
            return 0
        found: int = loops.unfenced(at, size, warp, self._fenced, known, array.cells, self.history.suspects)
        return found

    def _still_unfenced(self, array: ArrayShadow, warp: int, suspects: np.ndarray) -> np.ndarray:
        """For which of these writes is there no other proxy fence either, of another wave
        or for global memory alone?
        """
        who, when = (suspects[:, loops.EPOCH] >> loops.WHO) - 1, suspects[:, loops.EPOCH] >> loops.WHEN & loops.CLOCK
        local = who - self.table.first
        inside = (local >= 0) & (local < len(self.clocks.clock))
        late = inside.copy()
        if not inside.all():
            late[~inside] = self._has_heard(warp, who[~inside], when[~inside])
            late[late & ~inside] = self._lacks_fence(warp, who[late & ~inside], when[late & ~inside])
        for fence, seen in self._fences:
            if self.clocks.is_over(warp, fence):
                late &= ~inside | (seen[np.where(inside, local, 0)] < when)
        for n in np.flatnonzero(late).tolist():
            late[n] = not self._has_fenced(array, warp, int(suspects[n, loops.CELL]), int(suspects[n, loops.EPOCH]))
        return late

    def _has_fenced(self, array: ArrayShadow, warp: int, cell: int, epoch: int) -> bool:
        """Does a proxy fence lie between the strong read that has found a strong write, and what a warp does now
        (rule order.observation)?
        """
        fenced = self.clocks.fenced[warp]
        if self._has_narrow:
            fenced = np.max([self._nothing[warp], *(seen for fence, seen in self._fences if self.clocks.is_over(warp, fence))], axis=0)
        for reader, read in array.observed.get(cell, {}).items():
            other = reader - self.table.first
            is_near = 0 <= other < len(self.clocks.clock) and other // len(fenced) == warp // len(fenced)
            if is_near and epoch in read.writes and fenced[other % len(fenced)] >= read.read >> loops.WHEN & loops.CLOCK:
                return True
        return False

    def _lacks_fence(self, warp: int, who: np.ndarray, when: np.ndarray) -> np.ndarray:
        """Between which writes of other waves and what a warp does now lies no proxy fence for global memory, of any
        wave? None where too many fences are known.
        """
        if self.history.proxy_fences is None:
            return np.zeros(len(who), bool)
        lacks, wave = np.ones(len(who), bool), self.history.wave_of(who)
        for fence in filter(functools.partial(self._is_behind, warp), self.history.proxy_fences) if len(who) else ():
            for n in distinct(wave[lacks]).tolist():
                first, number = self.history.waves[n]
                own = lacks & (wave == n)
                lacks[own] = ~fence.covers(number, who[own] - first, when[own])
        return lacks

    def _is_behind(self, warp: int, fence: ProxyFence) -> bool:
        """Does what a warp does now come after a proxy fence?"""
        columns = self.clocks.columns
        if fence.number == self.clocks.grid.wave:
            return fence.warp // columns == warp // columns and bool(self.clocks.seen[warp, fence.warp % columns] > fence.when)
        clocks = self.clocks.foreign(warp, fence.number)
        return clocks is not None and bool(clocks[fence.warp] > fence.when)

    def fence_async(self, i: Instruction, warps: np.ndarray) -> None:
        """fence.proxy.async of warps, for all memory; `order.fence_proxy` follows."""
        self._note_fence(warps)
        if self._has_narrow:
            self._keep_fence(i, warps)

    def fence_global(self, i: Instruction, warps: np.ndarray) -> None:
        """fence.proxy.async.global of warps: what they have seen of global memory is visible to the
        asynchronous proxy.
        """
        self._note_fence(warps)
        self._keep_fence(i, warps)
        self.clocks.passes(warps)

    def _keep_fence(self, i: Instruction, warps: np.ndarray) -> None:
        for warp in warps.tolist():
            op = self.operations.begin(i, warp * WARP, "fence")
            self._fences.append((op, self.clocks.seen[warp].copy()))
            self.clocks.knows(np.array([warp]), [op])

    @functools.cached_property
    def _keeps_fences(self) -> bool:
        """May an asynchronous operation of the program read or write what threads of another wave have written to
        global memory?
        """
        body = self.x.program.inlined.body
        return any(map(is_bulk, body)) and any(i.op in ("st", "atom", "red") and "shared" not in i.modifiers for i in body)

    def _note_fence(self, warps: np.ndarray) -> None:
        """Warps are about to execute a proxy fence for global memory."""
        clocks = self.clocks
        for warp in warps.tolist() if self._keeps_fences else ():
            foreign = {number: clocks.copy() for number, clocks in clocks.others(warp).items()}
            first = warp // clocks.columns * clocks.columns
            self.history.fences(ProxyFence(clocks.grid.wave, warp, int(clocks.clock[warp]), first, clocks.seen[warp].copy(), foreign))
