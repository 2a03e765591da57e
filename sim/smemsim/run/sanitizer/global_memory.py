"""Global memory: the last writer and readers of each piece of each array, and the findings of the next access (PTX ISA
8: data races, morally strong operations, scopes, causality order).

CTAs that run one after the other here run together on a card, or in another order. So the accesses of a launch's
waves are recorded until the launch ends (`History`). A later wave knows only what it has acquired at an address in
global memory (`VectorClocks.foreign`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.machine.stored_taint import StoredTaint
from smemsim.core.machine.uninitialised import WORD, Declared, Garbage
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.async_ops import is_bulk
from smemsim.run.lower.dataflow import accumulations, bit_fields, looks_again, may_follow, updates
from smemsim.run.sanitizer import global_loops as loops
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.epoch_numbers import scope_of
from smemsim.run.sanitizer.happens_before import Formal, VectorClocks
from smemsim.run.sanitizer.history import LINE, ArrayShadow, History, ProxyFence, Written
from smemsim.run.sanitizer.operations import Operation, Operations, Renumbering
from smemsim.run.sanitizer.programmatic_launch import Prerequisite
from smemsim.run.sanitizer.races import Access, Clauses
from smemsim.run.sanitizer.reporting import BARRIER, LOOKS_AGAIN, Reporting, maybe_flag, relaxed_flag
from smemsim.run.sanitizer.taint import Taint, is_result
from smemsim.run.sanitizer.uninitialised import uninitialised
from smemsim.run.sanitizer.unused_reads import Pending
from smemsim.run.scopes import GPU
from smemsim.run.warps import WARP, warps_of

if TYPE_CHECKING:
    from smemsim.run.accesses import Piece, Values
    from smemsim.run.views import Mbarrier, Wave

__all__ = ["GlobalShadow", "GlobalsOfFirst", "is_for_shared"]


MOST_WARPS = (1 << 63 - loops.WHO) - 2  # of a launch
BLANK_WORD = 4  # bytes of a register
FOLLOWS, UNFENCED, CROSSES = (
    "follows",
    "unfenced",
    "crosses",
)  # kinds of races: of CTAs of one multiprocessor; rule order.reader_fence; of two proxies
BECAUSE = "PTX ISA 9.1 §8.7.1 (data races)"
ATOMICS = ("atom", "red")
PAST_L1 = frozenset(("cg", "cv", "wt"))  # cache operators


Stays = Callable[[np.ndarray], np.ndarray]


def is_for_shared(i: Instruction) -> bool:
    """Is this a fence of the asynchronous proxy that names shared memory, and so is none for global memory (PTX ISA
    9.1 §9.7.13.4)?
    """
    return i.op in ("fence", "membar") and "proxy" in i.modifiers and any("shared::" in m for m in i.modifiers)


def _is_past_l1(i: Instruction) -> bool:
    """Does a load or store of one word pass the L1 cache?"""
    return i.op in ("ld", "st") and not PAST_L1.isdisjoint(i.modifiers) and not any(m in ("v2", "v4", "v8") for m in i.modifiers)


class Said(NamedTuple):
    """The finding for two accesses: what is wrong, and the fix. `is_note`: it has worked."""

    clauses: Clauses
    repair: str
    is_note: bool = False


class GlobalShadow:
    """Compare the accesses of one wave to global memory with the recorded ones, and record them."""

    def __init__(
        self,
        x: Wave,
        clocks: VectorClocks,
        operations: Operations,
        reporting: Reporting,
        history: History,
        taint: Taint,
        first: int,
        copies: Callable[[Instruction], dict[int, Operation]] | None = None,
    ) -> None:
        """`first` is the number of the wave's first warp in the history. `copies` returns the open operation of each
        warp to which a cp.async of the running threads belongs.
        """
        self.copies = copies
        self.x, self.clocks, self.operations, self.reporting, self.history, self.taint = x, clocks, operations, reporting, history, taint
        self.first = first
        self.per_cta = x.stride // WARP
        self.per_cluster = self.per_cta * x.launch.cluster_size
        # Proxy fences that are for global memory in particular, and what their warp had seen.
        self._fences: list[tuple[Operation, np.ndarray]] = []
        # Is there such a fence? Then `order.fenced` says nothing of global memory.
        self._has_narrow = x.alike(is_for_shared, lambda: any(map(is_for_shared, x.launch.program.inlined.body)))
        self._nothing = np.zeros_like(clocks.fenced) if self._has_narrow else clocks.fenced[:0]
        self._updates, self._accumulations = updates(x.launch.program), accumulations(x.launch.program)
        self._open: dict[Operation, int] = {}  # asynchronous ones without a wait
        # by mbarrier: the phases in which it counts copies, each with the copy's place in `Numbers.waited`
        self._counted: dict[Mbarrier, list[tuple[int, int]]] = {}
        self._told: dict[tuple[Mbarrier, int], int] = {}  # how many of these a warp has been told
        self._begun = np.zeros(len(clocks.clock), np.int32)  # by warp: the place of its copy that reads now
        self.before = Prerequisite(x, clocks, operations, history, self._where) if history.before else None

    def remembered(self) -> list[int]:
        """The numbers of the operations that stand for fences and waits."""
        return [*(op.number for op, _ in self._fences), *(self.before.remembered() if self.before is not None else ())]

    def renumber(self, to: Renumbering) -> None:
        """Does nothing: this part holds operations, which know their new numbers."""

    @property
    def _known(self) -> loops.Known:
        n = self.history.numbers
        return loops.Known(
            self.first, self.clocks.clock, self.clocks.seen, n.scope, n.asynchronous, n.waited, n.told, n.tellers, self.per_cta,
            self.per_cluster,
        )  # fmt: skip

    def _array(self, memory: np.ndarray, size: int) -> ArrayShadow | None:
        if self.history.warps > MOST_WARPS:
            self.x.launch.result.bounds.add(f"races in global memory are not looked for: the launch has more than {MOST_WARPS:,} warps")
            return None
        return self.history.array(memory, size)

    def lets_next_begin(self, warps: np.ndarray) -> None:
        """Warps execute griddepcontrol.launch_dependents."""
        per_cta = self.per_cta
        for warp, known in zip(warps.tolist(), self.clocks.known_at_fence(warps), strict=True):
            cta, begin = warp // per_cta, warp // per_cta * per_cta % self.clocks.columns
            self.history.triggers(self.first // per_cta + cta, self.first + cta * per_cta, known[begin : begin + per_cta])
        if self.before is not None:
            self.before.releases(warps)

    # ---- accesses of threads

    def name(self, i: Instruction, memory: np.ndarray, at: int) -> str:
        """A place of an array as findings call it."""
        array = self._array(memory, 1)
        return "global memory" if array is None else self._where(i, array, at >> array.cells.shift)

    def read(self, i: Instruction, piece: Piece, size: int) -> None:
        """The running threads read `size` bytes each."""
        if self.before is not None:
            self.before.look(i, piece.memory, piece.at, size, self.x.threads >> 5, writes=False)
        array = self._read(i, piece.memory, size)
        if array is None:
            return
        if array.blank is not None:
            if i.op in ("ld", "cp", "wmma"):
                self._follows_blank(i, array, piece.at, size)
            elif i.op in ATOMICS:  # that have left uninitialised content
                array.blank.fill(piece.at, size)
        if self._taint:
            self._reads_stored(i, array, piece.at, size)
        if "nc" in i.modifiers:
            self._is_constant(i, array, piece.at)
        if found := self._reads(i, array, piece.at, size, stops=False):
            self._look(i, array, piece.at, self.x.threads, found, "reads")
        self._note_lines(i, array, piece.at)

    def passes_read(self, i: Instruction, piece: Piece, size: int) -> bool:
        """Is a read unsuspicious, and completely recorded? Else `read` must be called."""
        if self.before is not None and not self.before.are_behind(self.x.threads >> 5):
            return False
        array = self._read(i, piece.memory, size)
        if array is None:
            return True
        if "nc" in i.modifiers or (array.blank is not None and array.blank.words(piece.at, size).any()):
            return False
        if self._taint and self._taint.of(piece.memory, piece.at, size) is not None:
            return False
        if self._reads(i, array, piece.at, size, stops=True):
            return False
        self._note_lines(i, array, piece.at)
        return True

    def _note_lines(self, i: Instruction, array: ArrayShadow, at: np.ndarray) -> None:
        """The running threads load by way of the L1."""
        if self.history.may_lack_fence and not scope_of(i) and not _is_past_l1(i):
            array.loads(at, self._cta(self.x.threads >> 5))

    def _cta(self, warps: np.ndarray) -> np.ndarray:
        """The CTAs of warps, counted through the launch from 1 on."""
        return (self.first + warps) // self.per_cta + 1

    def _read(self, i: Instruction, memory: np.ndarray, size: int) -> ArrayShadow | None:
        """The record of an array that is read; None if no thread writes it."""
        if i.modifiers[0] == "const" or self.history.is_unwritten(memory):
            return None
        return self._array(memory, size)

    def _reads(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int, *, stops: bool) -> int:
        array.fit(size)
        array.for_reads()
        index = self.history.numbers.index(i)
        self.history.unused.follows(i)
        if self.history.numbers.scope[index] and len(array.cells.earlier):
            self._observe(i, index, array, at, size)
        when = self.clocks.clock
        if i.op == "cp" and self.copies is not None:
            when = self._begins(array, self.copies(i).items())
        found: int = loops.read(at, size, self.x.threads, when, index, stops, self._known, array.cells, self.history.suspects)
        return found

    def _begins(self, array: ArrayShadow, ops: Iterable[tuple[int, Operation]]) -> np.ndarray:
        """Operations of warps read an array until they are complete. Returns their places in `Numbers.waited`, by
        warp.
        """
        array.is_copied = True
        for warp, op in ops:
            op.source = op.source or self.history.numbers.issues()
            self._begun[warp] = op.source
        return self._begun

    def _observe(self, i: Instruction, index: int, array: ArrayShadow, at: np.ndarray, size: int) -> None:
        """The running threads read by a strong operation. The strong writes that they observe (for an atomic with the
        one before it) happen before their later accesses (rule order.observation).
        """
        threads, instructions = self.x.threads, self.history.numbers.instructions
        found = loops.observed(at, size, threads, index, self._known, array.cells, self.history.suspects)
        writes: dict[tuple[int, int], tuple[int, ...]] = {}
        for n, cell, epoch, role in self.history.suspects[:found].tolist():
            key = cell, int(threads[n]) >> 5
            if role == loops.WRITER:
                writes[key] = (epoch,)
            elif instructions[int(array.cells.writers[cell]) & loops.INDEX].op in ATOMICS:
                writes[key] = (*writes.get(key, ()), epoch)
        for (cell, warp), epochs in writes.items():
            own = self.first + warp + 1 << loops.WHO | int(self.clocks.clock[warp]) << loops.WHEN | index
            array.observes(cell, self.first + warp, own, epochs)

    def _is_constant(self, i: Instruction, array: ArrayShadow, at: np.ndarray) -> None:
        """The running threads load by .nc: has no thread written there in this launch (rule order.non_coherent)?"""
        if not len(array.cells.writers):
            return
        cells = array.cells
        writers = np.where(cells.split[at >> cells.line], cells.writers[at >> cells.shift], cells.line_writers[at >> cells.line])
        if not writers.any():
            return
        first = int(np.argmax(writers != 0))
        other = self.history.numbers.instructions[int(writers[first]) & loops.INDEX]
        said = races.non_coherent(i, other, self._where(i, array, int(at[first]) >> cells.shift))
        self.x.launch.find(
            said.code, i, said.what, "ld.global without .nc (no const __restrict__, no __ldg, for what the kernel writes)",
            because="PTX ISA 9.1 §9.7.9.9 (ld.global.nc): the memory is read-only as long as the kernel runs", milder=Severity.NOTE,
            operation=f"global memory, line {other.line}", other=other, arrays=(array.region.begin,),
        )  # fmt: skip

    def write(self, i: Instruction, piece: Piece, size: int, values: Values | None = None) -> None:
        """The running threads have written `size` bytes each. With `values`, threads that do not change the bytes do
        not race.
        """
        if self.before is not None:
            self.before.look(i, piece.memory, piece.at, size, self.x.threads >> 5, writes=True)
        if (array := self._array(piece.memory, size)) is None:
            return
        found = self._writes(i, array, piece, size, stops=False, values=values)
        if found:
            self._look(i, array, piece.at, self.x.threads, found, "writes", values)
        self._tell_bound(i, array)

    def passes_write(self, i: Instruction, piece: Piece, size: int) -> bool:
        """The same of a write, before it happens."""
        if self.before is not None and not self.before.are_behind(self.x.threads >> 5):
            return False
        array = self._array(piece.memory, size)
        if array is None:
            return True
        if self._writes(i, array, piece, size, stops=True):
            return False
        self._tell_bound(i, array)
        return True

    @property
    def clock(self) -> np.ndarray:
        """The clock of each warp of the wave."""
        return self.clocks.clock

    def cells_of_store(
        self, i: Instruction, memory: np.ndarray, size: int, threads: int, *, fills_words: Callable[[], bool] = lambda: False
    ) -> tuple[int, loops.Cells] | None:
        """The number of a weak store of so many threads, and its cells; None if there are none, or in other cases.
        `fills_words`: for a store of less than a word, do neighbouring threads write all bytes of each word?
        """
        if self.before is not None or (array := self._array(memory, size)) is None or isinstance(array.region.blank, Declared):
            return None
        if self._taint.has(memory):
            return None
        # which bytes it writes is noted
        if size < WORD and array.blank is not None and (array.blank.is_tracked or not fills_words()):
            return None
        if array.is_copied or self.history.unused.is_followed(i) or (self.clocks.carries_global and threads <= WARP):
            return None
        array.fit(size)
        index = self.history.numbers.index(i)
        array.for_writes(0)
        return index, array.cells

    def fills(
        self,
        stores: Sequence[Instruction],
        memory: np.ndarray,
        size: int,
        table: np.ndarray,
        rows: np.ndarray,
        apart: np.ndarray,
        nowhere: int,
        begin: int,
        end: int,
    ) -> bool:
        """Do consecutive stores of threads fill bytes without accesses (`global_loops.fill`)? Then they
        are recorded.
        """
        found = [self.cells_of_store(i, memory, size, end - begin) for i in stores]
        indices = np.array([one[0] for one in found if one is not None], np.int64)
        if len(indices) < len(stores) or found[0] is None:
            return False
        cells = found[0][1]
        if size != 1 << cells.shift or len(cells.readers) or len(cells.line_readers) or len(cells.earlier):
            return False
        return bool(
            loops.fill(table, rows, apart, nowhere, memory.ctypes.data, begin, end, size, np.tile(indices, loops.GROUP), self._known, cells)
        )

    def _writes(self, i: Instruction, array: ArrayShadow, piece: Piece, size: int, *, stops: bool, values: Values | None = None) -> int:
        array.fit(size)
        index = self.history.numbers.index(i)
        array.for_writes(int(self.history.numbers.scope[index]))
        if self._taint:
            self._taint.clear(piece.memory, piece.at, size)
        if array.region.blank is not None:
            array.region.blank.fill(piece.at, size, None if values is None or size >= WORD else values.before())
            if self.x.in_flight is not None:
                array.region.blank.fill_late(piece.at, size)
        self.history.unused.executes(i, self.first + (self.x.threads >> 5), self.history.warps)
        if self.history.numbers.scope[index] and id(i) in self._updates:
            if stops:
                return 1
            self._is_update(i, array, piece.at, size)
        if not self.history.numbers.scope[index] and self.clocks.carries_global and len(piece.at) <= WARP:
            self._weakly_stored(piece)
        found: int = loops.write(piece.at, size, self.x.threads, index, -1, stops, self._known, array.cells, self.history.suspects)
        return found

    def _tell_bound(self, i: Instruction, array: ArrayShadow) -> None:
        """Report an instruction that has overwritten a place with a forgotten reader, if its line has no other report."""
        if not array.cells.further[0, loops.BOUND]:
            return
        array.cells.further[0, loops.BOUND] = 0
        if all(f.line != i.line for f in self.x.launch.result.findings.values()):
            self.x.launch.result.bounds.add(
                f"races of line {i.line} with reads of {array.region} may be missed: smemsim keeps two reading warps of each place, and "
                f"{loops.MOST_FURTHER:,} more of the array, and has forgotten others; "
                f"check that all these reads are ordered before line {i.line}, or run fewer CTAs (--ctas)"
            )

    # ---- uninitialised bytes

    def _follows_blank(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int) -> None:
        """The running threads load bytes some of which are uninitialised: R507 when such a value is used."""
        marks = self._marks(i, array, at, size)
        if marks is not None:
            self.taint.loads(self.x.threads, marks, size)

    def brought(self, i: Instruction, addresses: np.ndarray, size: int) -> np.ndarray | None:
        """The marks of what an asynchronous operation brings from these addresses of one array, `size` bytes of each:
        (n, bytes); None where there are none.
        """
        region = self.x.launch.memory.holding(int(addresses[0]), int(addresses[0]) + 1) if len(addresses) else None
        if region is None or self.history.is_unwritten(region.words) or (array := self._array(region.words, size)) is None:
            return None
        return self._all_marks(i, array, addresses - region.words_begin, size)

    @property
    def _taint(self) -> StoredTaint:
        found: StoredTaint = self.x.launch.memory.taint
        return found

    def _reads_stored(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int) -> None:
        """The running threads read values of which an earlier store has said that they are uninitialised."""
        marks = self.taint.stored_values.of(i, array.region.words, at, size)
        if marks is None:
            return
        if i.op in ("ld", "cp", "wmma"):
            self.taint.loads(self.x.threads, marks, size)
        elif i.op not in ATOMICS:  # which have reported them
            self.taint.origins.tell(i, marks)

    def _all_marks(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int) -> np.ndarray | None:
        """The marks of bytes that are read, whether nothing was written there or an uninitialised value."""
        marks = None if array.blank is None else self._marks(i, array, at, size)
        stored = self.taint.stored_values.of(i, array.region.words, at, size) if self._taint else None
        return marks if stored is None else stored if marks is None else self.taint.origins.join(marks, stored)

    def _marks(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int) -> np.ndarray | None:
        """The marks of the bytes that are read at byte offsets, (n, size); None where all have been written."""
        blank: Any = array.blank
        if not blank.words(at, size).any():
            return None
        found = blank.bytes(at, size)
        reads = int(np.argmax(found.any(axis=1)))
        first = int(at[reads]) + int(np.argmax(found[reads]))
        tell = functools.partial(self._say_blank, i, array, first)
        mark = self.taint.origins.of(
            ("global", i.line),
            tell,
            computed=(lambda by: functools.partial(tell, by=by)) if isinstance(blank, Garbage) else None,
            only_results=True,
        )
        return np.where(found, np.int32(mark), np.int32(0))

    def updates(self, i: Instruction, piece: Piece, size: int) -> None:
        """The running threads are about to change memory by an atomic operation."""
        array = self._array(piece.memory, size)
        if array is not None and id(i) not in bit_fields(self.x.launch.program):
            self._makes_of_blank(i, array, piece.at, size)

    def finds(self, i: Instruction, piece: Piece, size: int) -> np.ndarray | None:
        """The marks of what the running threads are about to find there: (n, bytes of each); None where none is in
        doubt.
        """
        array = self._array(piece.memory, size)
        return None if array is None else self._all_marks(i, array, piece.at, size)

    def _makes_of_blank(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int) -> None:
        if self._taint and (marks := self.taint.stored_values.of(i, array.region.words, at, size)) is not None:
            self.taint.origins.tell(i, marks)
        if array.blank is not None and (there := array.blank.words(at, size).any(axis=1)).any():
            self._say_blank(i, array, int(at[np.argmax(there)]), None)

    def _say_blank(self, i: Instruction, array: ArrayShadow, at: int, user: Instruction | None, by: Instruction | None = None) -> None:
        """R507. It is a remark for memory that a program has allocated, if the value only goes to another place of
        global memory (rule memory.allocated). The result of a matrix product (`by`), and what the value alone
        decides, are results.
        """
        where = self._named(i, array, at, 1)
        is_copied = isinstance(array.blank, Garbage) and self.taint.is_stored and id(user) not in self._accumulations and not is_result(by)
        said, milder = uninitialised(where, i, user, by, is_copied=is_copied, is_voted=self.taint.is_voted)
        self.x.launch.find(
            said.code, i, said.what,
            "write it first, in this kernel or before it (Gpu.zeros, cudaMemset, torch.zeros)",
            because="CUDA Runtime API, cudaMalloc: the memory is not cleared", milder=milder,
            arrays=(array.region.begin,), why=said.why, halves=said.halves,
        )  # fmt: skip

    def _is_update(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int) -> None:
        """The running threads store a value that they compute from a strong load of the same word: has another thread
        done the same, unordered (rule order.update)? Plain accesses race anyway.
        """
        warps, index = self.x.threads >> 5, self.history.numbers.index(i)
        for warp in distinct(warps).tolist():
            own = at[warps == warp]
            found = loops.unfenced(own, size, warp, self.clocks.seen, self._known, array.cells, self.history.suspects)
            now = np.flatnonzero((warps < warp) & np.isin(at, own))  # by the same instruction
            epochs = self.first + warps[now] + 1 << loops.WHO | self.clocks.clock[warps[now]].astype(np.int64) << loops.WHEN | index
            same = np.stack((now, at[now] >> array.cells.shift, epochs, np.zeros(len(now), np.int64)), axis=1)
            suspects = np.concatenate((self.history.suspects[:found], same))
            who = (suspects[:, 2] >> loops.WHO) - 1
            late = (who != self.first + warp) & ~self._heard_of(np.full(len(who), warp), suspects)
            late &= np.array(
                [id(self.history.numbers.instructions[n]) in self._updates for n in (suspects[:, 2] & loops.INDEX).tolist()], bool
            )
            if late.any():
                self._tell(i, array, suspects[late], np.full(int(late.sum()), warp), "updates")

    def _weakly_stored(self, piece: Piece) -> None:
        """Plain stores end what was released at their addresses."""
        memory = piece.memory.__array_interface__["data"][0]
        for at in distinct(piece.at).tolist():
            if self.clocks.is_carrier(what := (piece.space, memory, at)):
                self.clocks.weakly_stored(what)

    # ---- tensor maps, which one instruction of a thread reads whole

    def object_read(self, i: Instruction, thread: int, address: int, size: int) -> bool:
        """A thread reads an object of `size` bytes; returns whether that races."""
        for array, at in self._places(np.array([address]), size, is_read=True):
            threads = np.array([thread])
            if self.before is not None:
                self.before.look(i, array.region.words, at, size, threads >> 5, writes=False)
            array.fit(size)
            array.for_reads()
            index, when = self.history.numbers.index(i), self.clocks.clock
            found = loops.read(at, size, threads, when, index, False, self._known, array.cells, self.history.suspects)
            return bool(found) and self._look(i, array, at, threads, found, "reads")
        return False

    def written(self, address: int, size: int, warp: int) -> list[Written]:
        """The writes of threads of this wave, those of the own CTA where CTAs are apart, that lie in `size` bytes,
        each once.
        """
        found = {}
        for array, at in self._places(np.array([address]), size, is_read=True):
            if not len(array.cells.writers):
                continue
            nothing = np.zeros_like(self.clocks.seen)
            count = loops.unfenced(at, size, warp, nothing, self._known, array.cells, self.history.suspects)
            for epoch in distinct(self.history.suspects[:count, 2]).tolist():
                who = (epoch >> loops.WHO) - 1 - self.first
                if 0 <= who < len(self.clocks.clock):
                    instruction = self.history.numbers.instructions[epoch & loops.INDEX]
                    found[epoch] = Written(who, epoch >> loops.WHEN & loops.CLOCK, instruction)
        return list(found.values())

    # ---- asynchronous operations

    def op_reads(self, op: Operation, addresses: np.ndarray, size: int) -> None:
        """An asynchronous operation reads `size` bytes at each of these addresses, through the asynchronous proxy,
        until it is complete.
        """
        for array, at in self._places(addresses, size, is_read=True):
            threads = np.full(len(at), op.warps[0] * WARP)
            if self.before is not None:
                self.before.look(op.instruction, array.region.words, at, size, threads >> 5, writes=False)
            array.fit(size)
            index = self.history.numbers.index(op.instruction)
            array.for_reads()
            when = self._begins(array, [(int(op.warps[0]), op)])
            found = loops.read(at, size, threads, when, index, False, self._known, array.cells, self.history.suspects)
            if found and self._look(op.instruction, array, at, threads, found, "reads"):
                continue
            self._say_unfenced(op, array, self._unfenced(op, array, at, size), "reads")

    def op_writes(self, op: Operation, addresses: np.ndarray, size: int, stays: Stays | None = None) -> None:
        """An asynchronous operation is about to write. `stays`: which addresses hold the same bytes already; writes
        there do not race.
        """
        if op not in self._open:
            self._open[op] = self.history.numbers.issues()
        when = self._open[op]
        for array, at in self._places(addresses, size):
            threads = np.full(len(at), op.warps[0] * WARP)
            if self.before is not None:
                self.before.look(op.instruction, array.region.words, at, size, threads >> 5, writes=True)
            if "reduce" in op.instruction.modifiers:
                self._makes_of_blank(op.instruction, array, at, size)
            if self._taint:
                self._taint.clear(array.region.words, at, size)
            if array.region.blank is not None:
                array.region.blank.fill(at, size)
            array.fit(size)
            index = self.history.numbers.index(op.instruction)
            array.for_writes(int(self.history.numbers.scope[index]))
            unfenced = self._unfenced(op, array, at, size)
            found = loops.write(at, size, threads, index, when, False, self._known, array.cells, self.history.suspects)
            if found and self._look(op.instruction, array, at, threads, found, "writes", stays=stays):
                continue
            self._tell_bound(op.instruction, array)
            # reductions beside atomics of threads are left alone
            plain = self.history.numbers.scope[unfenced[:, 2] & loops.INDEX] == 0
            unfenced = unfenced[plain]
            self._say_unfenced(op, array, unfenced[self._change(array, unfenced, stays)], "writes")

    def passes_op_write(self, op: Operation, addresses: np.ndarray, size: int, *, when: int, behind: int) -> bool:
        """Is such a write unsuspicious? It has this place among asynchronous writes; its warp is so many after the
        operation's, and has the same knowledge of its CTA. Then it is recorded; else the write must be handled for
        that warp, and may be recorded in part.
        """
        places = list(self._places(addresses, size))
        if self.before is not None or len(places) != 1:
            return False
        ((array, at),) = places
        if self._taint.has(array.region.words):
            return False
        if array.region.blank is not None:
            if "reduce" in op.instruction.modifiers:
                return False
            array.region.blank.fill(at, size)
        array.fit(size)
        index, warp, suspects = self.history.numbers.index(op.instruction), int(op.warps[0]), self.history.suspects
        array.for_writes(int(self.history.numbers.scope[index]))
        known, fenced = self._known._replace(first=self.first + behind), self._nothing if self._has_narrow else self.clocks.fenced
        if len(array.cells.writers) and loops.unfenced(at, size, warp, fenced, known, array.cells, suspects):
            return False
        found = loops.write(at, size, np.full(len(at), warp * WARP), index, when, True, known, array.cells, suspects)
        if not found:
            self._tell_bound(op.instruction, array)
        return not found

    def begun(self, writes: dict[Operation, int]) -> None:
        """Operations have begun to write, each with its place among asynchronous writes."""
        self._open |= writes

    def waited(self, op: Operation) -> None:
        """The issuing warp has waited for a copy: a thread that sees the warp's later actions knows it to be
        complete.
        """
        when = self._open.pop(op, op.source)
        if when:
            self.history.numbers.waited[when] = self.clocks.clock[op.warps[0]]

    def waited_in_part(self, op: Operation) -> None:
        """Some lanes of the issuing warp have waited for their part of a copy (cp.async): this counts for the warp."""
        warp = int(op.warps[0])
        if op.source:
            self.history.numbers.tells(op.source, self.first + warp, int(self.clocks.clock[warp]), is_private=True)

    def counts(self, op: Operation, barrier: Mbarrier) -> None:
        """The current phase of an mbarrier counts a copy."""
        if op.source:
            phase, _ = self.clocks.phases.looked_at(barrier)
            self._counted.setdefault(barrier, []).append((0 if phase is None else phase.over, op.source))

    def hears(self, waits: Sequence[tuple[np.ndarray, Mbarrier]]) -> None:
        """Threads have waited for phases of mbarriers: their warps know the copies that were counted to be complete."""
        for threads, barrier in waits if self._counted else ():
            counted, (phase, _) = self._counted.get(barrier), self.clocks.phases.looked_at(barrier)
            if counted is None or phase is None:
                continue
            for warp in warps_of(threads).tolist():
                # a wait on a parity may be two phases late (rule order.parity)
                over = max(phase.over - 2, int(phase.waited[warp]) if len(phase.waited) else 0)
                for number, place in counted[self._told.get((barrier, warp), 0) :]:
                    if number >= over:
                        break
                    self.history.numbers.tells(place, self.first + warp, int(self.clocks.clock[warp]))
                    self._told[barrier, warp] = self._told.get((barrier, warp), 0) + 1

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

    def _places(self, addresses: np.ndarray, size: int, *, is_read: bool = False) -> Iterator[tuple[ArrayShadow, np.ndarray]]:
        """The arrays in which addresses lie, with the byte offsets in each."""
        while len(addresses):
            region = self.x.launch.memory.holding(int(addresses[0]), int(addresses[0]) + 1)
            if region is None:
                return
            inside = (addresses >= region.begin) & (addresses < region.end)
            is_watched = not (is_read and self.history.is_unwritten(region.words))
            if is_watched and (array := self._array(region.words, size)) is not None:
                yield array, np.ascontiguousarray(addresses[inside] - region.words_begin, np.int64)
            addresses = addresses[~inside]

    def _unfenced(self, op: Operation, array: ArrayShadow, at: np.ndarray, size: int) -> np.ndarray:
        """Writes of threads that an operation of the asynchronous proxy reads or overwrites without a proxy fence in
        between: rows of suspects.
        """
        warp, suspects = int(op.warps[0]), self.history.suspects
        found = (
            loops.unfenced(at, size, warp, self._nothing if self._has_narrow else self.clocks.fenced, self._known, array.cells, suspects)
            if len(array.cells.writers)
            else 0
        )
        suspects = suspects[:found].copy()
        if not found:
            return suspects
        who, when = (suspects[:, 2] >> loops.WHO) - 1, suspects[:, 2] >> loops.WHEN & loops.CLOCK
        local = who - self.first
        inside = (local >= 0) & (local < len(self.clocks.clock))
        late = inside.copy()
        if not inside.all():
            late[~inside] = self._has_heard(warp, who[~inside], when[~inside])
            late[late & ~inside] = self._lacks_fence(warp, who[late & ~inside], when[late & ~inside])
        for fence, seen in self._fences:
            if self.clocks.is_over(warp, fence):
                late &= ~inside | (seen[np.where(inside, local, 0)] < when)
        for n in np.flatnonzero(late).tolist():
            late[n] = not self._has_fenced(array, warp, int(suspects[n, 1]), int(suspects[n, 2]))
        return suspects[late]

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

    def _say_unfenced(self, op: Operation, array: ArrayShadow, suspects: np.ndarray, does: str) -> None:
        self._tell(op.instruction, array, suspects, np.full(len(suspects), int(op.warps[0])), does, which=CROSSES)

    @staticmethod
    def _change(array: ArrayShadow, suspects: np.ndarray, stays: Stays | None) -> np.ndarray:
        """Which suspects are of cells that an asynchronous operation leaves other bytes in?"""
        if stays is None or not len(suspects):
            return np.ones(len(suspects), bool)
        shift = array.cells.shift
        return ~np.asarray(stays(array.region.words_begin + (suspects[:, 1] << shift)[:, None] + np.arange(1 << shift)).all(axis=1))

    def _has_fenced(self, array: ArrayShadow, warp: int, cell: int, epoch: int) -> bool:
        """Does a proxy fence lie between the strong read that has found a strong write, and what a warp does now
        (rule order.observation)?
        """
        fenced = self.clocks.fenced[warp]
        if self._has_narrow:
            fenced = np.max([self._nothing[warp], *(seen for fence, seen in self._fences if self.clocks.is_over(warp, fence))], axis=0)
        for reader, read in array.observed.get(cell, {}).items():
            other = reader - self.first
            is_near = 0 <= other < len(self.clocks.clock) and other // len(fenced) == warp // len(fenced)
            if is_near and epoch in read.writes and fenced[other % len(fenced)] >= read.read >> loops.WHEN & loops.CLOCK:
                return True
        return False

    # ---- what other waves have done

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

    # ---- a closer look

    def _look(
        self, i: Instruction, array: ArrayShadow, at: np.ndarray, threads: np.ndarray, found: int, does: str, values: Values | None = None,
        stays: Stays | None = None,
    ) -> bool:  # fmt: skip
        """Tell what is wrong with suspicious accesses of threads at byte offsets `at`; is there anything?"""
        suspects = self.history.suspects[:found].copy()
        warps = threads[suspects[:, 0]] >> 5
        late = ~self._heard_of(warps, suspects)
        late &= ~self._have_observed(array, warps, suspects, late, does)
        self.history.meets(suspects[late, 2])
        lost = late & self._are_lost(i, suspects)
        if lost.any():  # two that leave the same value have both read before either wrote: one of them is lost
            self._tell(i, array, suspects[lost], warps[lost], "updates")
        if values is not None and late.any():
            late &= self._changes(self.history.numbers.index(i), array, at, threads, suspects, values)
        if late.any():
            late &= self._change(array, suspects, stays)
        suspects, warps = suspects[late], warps[late]
        if len(suspects):
            self._tell(i, array, suspects, warps, does)
        return bool(len(suspects))

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
        epochs = suspects[:, 2]
        who, when = (epochs >> loops.WHO) - 1 - self.first, epochs >> loops.WHEN & loops.CLOCK
        inside = (who >= 0) & (who < len(self.clocks.clock))
        alone = inside & (self.clocks.seen_behind_fence(warps, np.where(inside, who, 0)) >= when)
        for n in np.flatnonzero(~inside).tolist():
            alone[n] = self._would_have_heard(int(warps[n]), int(who[n]) + self.first, int(when[n]))
        index = epochs & loops.INDEX
        alone &= ~self.history.numbers.asynchronous[index] & (self.history.numbers.scope[index] == 0)
        if i.op == "st":
            return alone
        alone &= suspects[:, 3] == loops.WRITER
        lines, ctas = suspects[:, 1] >> LINE - array.cells.shift, self._cta(warps)
        known = np.array([array.unfenced.get(line, 0) for line in lines.tolist()])
        alone &= (array.loaded[lines] == 0) | ((array.loaded[lines] == ctas) & (known == ctas))
        array.unfenced.update(zip(lines[alone].tolist(), ctas[alone].tolist(), strict=True))
        return alone

    def _would_have_heard(self, warp: int, who: int, when: int) -> bool:
        """Would a warp have seen an access of a warp of another wave after a fence?"""
        first, number = self.history.waves[int(self.history.wave_of(np.array([who]))[0])]
        clocks = self.clocks.foreign_behind_fence(warp, number)
        return clocks is not None and bool(clocks[who - first] >= when)

    def _are_lost(self, i: Instruction, suspects: np.ndarray) -> np.ndarray:
        """Which suspicious accesses are, as this one, stores of what was added to a value loaded there?"""
        if id(i) not in self._accumulations:
            return np.zeros(len(suspects), bool)
        others = [id(self.history.numbers.instructions[n]) in self._accumulations for n in (suspects[:, 2] & loops.INDEX).tolist()]
        lost: np.ndarray = (suspects[:, 3] == loops.WRITER) & np.array(others, bool)
        return lost

    def _heard_of(self, warps: np.ndarray, suspects: np.ndarray) -> np.ndarray:
        """Which suspicious accesses, of other waves, have these warps seen?"""
        heard, epochs = np.zeros(len(warps), bool), suspects[:, 2]
        who, when, index = (epochs >> loops.WHO) - 1, epochs >> loops.WHEN & loops.CLOCK, epochs & loops.INDEX
        numbers, copied = self.history.numbers, self.history.numbers.asynchronous[index]
        places = np.where(copied, when, 0)
        when = np.where(copied, numbers.waited[places], when)
        outside = (who < self.first) | (who >= self.first + len(self.clocks.clock))
        for warp in distinct(warps[outside]).tolist():
            own = outside & (warps == warp)
            heard[own] = self._has_heard(warp, who[own], when[own])
        for n in np.flatnonzero(outside & copied & ~heard & (suspects[:, 3] == loops.READER)).tolist():
            tellers = [(who, clock) for who, clock, is_private in numbers.tellers_of(int(places[n])) if not is_private]
            heard[n] = any(self._has_heard(int(warps[n]), np.array([who]), np.array([clock]))[0] for who, clock in tellers)
        return heard

    def _have_observed(self, array: ArrayShadow, warps: np.ndarray, suspects: np.ndarray, late: np.ndarray, does: str) -> np.ndarray:
        """Which suspicious accesses are strong writes that a strong read has found, which these warps have done
        themselves or seen (rule order.observation)?
        """
        known = np.zeros(len(suspects), bool)
        strong = (suspects[:, 3] == loops.WRITER) & (self.history.numbers.scope[suspects[:, 2] & loops.INDEX] != 0)
        for n in np.flatnonzero(late & strong).tolist():
            cell, warp, epoch = int(suspects[n, 1]), int(warps[n]), int(suspects[n, 2])
            last = int(array.cells.writers[cell])
            if does == "reads" and last >> loops.WHO == self.first + warp + 1:
                # the old value of a reduction is not returned
                known[n] = self.history.numbers.instructions[last & loops.INDEX].op == "atom"
                continue
            known[n] = any(
                epoch in read.writes and (reader == self.first + warp or self._has_seen(warp, read.read))
                for reader, read in array.observed.get(cell, {}).items()
            )
        return known

    def _has_seen(self, warp: int, epoch: int) -> bool:
        """Has a warp seen an access of a thread?"""
        who, when = (epoch >> loops.WHO) - 1, epoch >> loops.WHEN & loops.CLOCK
        other, columns = who - self.first, self.clocks.seen.shape[1]
        if 0 <= other < len(self.clocks.clock):
            return other // columns == warp // columns and bool(self.clocks.has_seen(warp, other) >= when)
        return bool(self._has_heard(warp, np.array([who]), np.array([when]))[0])

    def _changes(
        self, index: int, array: ArrayShadow, at: np.ndarray, threads: np.ndarray, suspects: np.ndarray, values: Values
    ) -> np.ndarray:  # fmt: skip
        """Which suspicious writes leave other bytes than lay there, or than another thread of the same instruction
        writes?
        """
        n, cells = suspects[:, 0], suspects[:, 1]
        unit = 1 << array.cells.shift
        within = (cells << array.cells.shift) - at[n]
        changed = values.bytes_of(n, within, unit)[0]
        count = values.size >> array.cells.shift
        every = ((at >> array.cells.shift)[:, None] + np.arange(count)).reshape(-1)
        other = (suspects[:, 2] >> loops.WHO) - 1 - self.first
        now = (suspects[:, 2] & loops.INDEX == index) & (other >= 0)
        now &= np.isin(cells << 24 | np.maximum(other, 0), every << 24 | np.repeat(threads >> 5, count))
        if now.any():
            there = np.flatnonzero(np.isin(every, cells[now]))
            stays = values.bytes_of(there // count, there % count * unit, unit)[1]
            changed = np.where(now, np.isin(cells, every[there[~stays]]), changed)
        return changed

    def _tell(self, i: Instruction, array: ArrayShadow, suspects: np.ndarray, warps: np.ndarray, does: str, which: str = "") -> None:
        """A finding for each instruction with which there is a race, of its first place."""
        if not len(suspects):
            return
        if not which and (following := self._following(warps, suspects)).any():
            self._tell(i, array, suspects[following], warps[following], does, FOLLOWS)
            suspects, warps = suspects[~following], warps[~following]
        if not which and does != "updates" and (unfenced := self._lack_fence_alone(i, array, suspects, warps)).any():
            self._tell(i, array, suspects[unfenced], warps[unfenced], does, UNFENCED)
            suspects, warps = suspects[~unfenced], warps[~unfenced]
        kinds = (suspects[:, 2] & loops.INDEX) << 1 | suspects[:, 3]
        for kind in distinct(kinds).tolist():
            rows = kinds == kind
            other = self.history.numbers.instructions[kind >> 1]
            key = (which, *sorted((i.line, other.line)))
            if key in self.history.told:
                continue
            some = np.flatnonzero(rows)
            certain, formal = self._not_formal(warps[some], suspects[some, 2])
            some = some[certain]
            flag = self._flag(i, other, int(warps[some[0]]), int(suspects[some[0], 2])) if len(some) else ("", "")
            tell = functools.partial(self._say_one, i, other, array, suspects[some], warps[some], does, which, formal=formal, flag=flag)
            load, readers = (i, self.first + warps[some]) if does == "reads" else (other, (suspects[some, 2] >> loops.WHO) - 1)
            stores = None if which or does == "updates" or not (does == "reads" or kind & 1) else self.history.unused.follows(load)
            if stores is not None:
                self.history.unused.holds_back(Pending(stores, readers, key, tell))
                continue
            self.history.told.add(key)
            tell(0)

    def _following(self, warps: np.ndarray, suspects: np.ndarray) -> np.ndarray:
        """Which suspicious accesses are of CTAs that one multiprocessor runs one after the other (rule
        order.same_multiprocessor)?
        """
        places, name = self.x.launch.places, self.history.place_of
        if places is None:
            return np.zeros(len(warps), bool)
        others = ((suspects[:, 2] >> loops.WHO) - 1).tolist()
        pairs = zip(warps.tolist(), others, strict=True)
        return np.array([places.follow(name(self.first + warp)[0], name(other)[0]) for warp, other in pairs], bool)

    def _say_one(
        self, i: Instruction, other: Instruction, array: ArrayShadow, suspects: np.ndarray, warps: np.ndarray, does: str, which: str, n: int, *,
        formal: Formal, flag: tuple[str, str],
    ) -> None:  # fmt: skip
        self._say(i, other, array, suspects[n], int(warps[n]), does, which, formal=formal, flag=flag)

    def _not_formal(self, warps: np.ndarray, epochs: np.ndarray) -> tuple[np.ndarray, Formal]:
        """Which accesses are unordered whatever relaxed arrivals at barriers of the cluster do? Where none is: all,
        formally.

        Waits and arrivals of .cta keep no other CTA's writes of global memory visible (rule order.narrow_wait).
        """
        who, when = (epochs >> loops.WHO) - 1 - self.first, epochs >> loops.WHEN & loops.CLOCK
        inside = (who >= 0) & (who < len(self.clocks.clock)) & ~self.history.numbers.asynchronous[epochs & loops.INDEX]
        test: Callable[[VectorClocks], np.ndarray] = lambda order: ~inside | (order.has_seen(warps, np.where(inside, who, 0)) < when)  # noqa: E731
        return self.clocks.confirmed(np.ones(len(warps), bool), test, but=("wait", "arrive"))

    # ---- in words

    def _say(
        self,
        i: Instruction,
        other: Instruction,
        array: ArrayShadow,
        suspect: np.ndarray,
        warp: int,
        does: str,
        which: str,
        *,
        formal: Formal,
        flag: tuple[str, str],
    ) -> None:
        who = (int(suspect[2]) >> loops.WHO) - 1
        me, they = self._name(self.first + warp), self._name(who)
        is_near = self.history.place_of(who)[0] == self.history.place_of(self.first + warp)[0]
        is_read = bool(suspect[3] == loops.READER)
        where = self._where(i, array, int(suspect[1]))
        mine, theirs = Access("read" if does == "reads" else "write", me, i), Access("read" if is_read else "write", they, other)
        said = self._said(i, other, int(suspect[2]), does, which, (mine, theirs, where), is_near=is_near, flag=flag)
        operation, arrays = f"global memory, line {other.line}", (array.region.begin,)
        if said.is_note:
            self.x.launch.find(
                said.clauses.code,
                i,
                said.clauses.what,
                said.repair,
                because=BECAUSE,
                milder=Severity.NOTE,
                operation=operation,
                other=other,
                arrays=arrays,
                why=said.clauses.why,
                halves=said.clauses.halves,
            )
        else:
            excuse: Formal = "" if which == CROSSES else formal
            self.reporting.tell(i, said.clauses, said.repair, BECAUSE, formal=excuse, cause=operation, other=other, arrays=arrays)

    def _said(
        self, i: Instruction, other: Instruction, epoch: int, does: str, which: str, words: tuple[Access, Access, str], *, is_near: bool,
        flag: tuple[str, str],
    ) -> Said:  # fmt: skip
        """What is wrong with an access and one before it; `words` are the two, and where they meet; `flag` is what a
        flag between them lacks, and the fix.
        """
        mine, theirs, where = words
        is_read = theirs.does == "read"
        if which == FOLLOWS:
            return Said(
                races.unordered(mine, theirs, where, "only the multiprocessor orders the two, because it runs their CTAs one after the other (rule order.same_multiprocessor)"),
                "a workspace for each CTA (by %ctaid), or one that a CTA takes and returns by an atomic", True,
            )  # fmt: skip
        if which == UNFENCED:
            return Said(
                races.unordered(
                    mine, theirs, where,
                    f"{flag[0]}; no failure is known{' (the L1 has no older copy of this line)' if i.op == 'ld' else ''} (rule order.reader_fence)",
                ),
                flag[1], True,
            )  # fmt: skip
        if which == CROSSES:
            return Said(
                races.unfenced(mine, theirs, where),
                f"fence.proxy.async (or fence.proxy.async.global) after line {other.line}, before what orders the two",
            )  # fmt: skip
        if does == "updates":
            return Said(
                races.lost_update(mine, theirs, self._updates[id(i)], where),
                "one atomic operation (atom or red) in place of the load and the store, or a lock with acquire and release around both",
            )  # fmt: skip
        if self.history.numbers.asynchronous[epoch & loops.INDEX] and not is_read:
            worded = races.read_before_arrival if does == "reads" else races.unordered
            return Said(
                worded(mine, theirs, where, "no thread has waited for the write, or nothing orders the two"),
                f"{self._waits_for(other)} (without .read) in the thread that issues it, then "
                f"{self._order(is_near)}",
            )  # fmt: skip
        if self.history.numbers.asynchronous[epoch & loops.INDEX]:
            is_waited_for = self.history.numbers.is_complete(epoch >> loops.WHEN & loops.CLOCK)
            why = "nothing orders the write after a wait for the copy" if is_waited_for else "no thread has waited for the copy"
            return Said(
                races.unordered(mine, theirs, where, f"{why}: a copy reads its source until it is complete"),
                self._completion(other, i, is_near),
            )  # fmt: skip
        scopes = self.history.numbers.scope[self.history.numbers.index(i)], self.history.numbers.scope[epoch & loops.INDEX]
        why, repair = flag if flag[0] else self._missing(i, other, scopes, does, is_near, is_read=is_read)
        held = self._has_held(i, other, scopes, is_near)
        return Said(races.unordered(mine, theirs, where, f"{why}{f'; {held}' if held else ''}"), repair, bool(held))

    def _flag(self, i: Instruction, other: Instruction, warp: int, epoch: int) -> tuple[str, str]:
        """What a flag lacks that is set after an earlier access (of an `epoch`, by `other`) and read before this one (of
        a warp, by `i`), and the fix: "" without such a flag.
        """
        index, when = epoch & loops.INDEX, epoch >> loops.WHEN & loops.CLOCK
        if self.history.numbers.asynchronous[index]:
            return "", ""
        who = (epoch >> loops.WHO) - 1
        first, wave = self.history.waves[int(self.history.wave_of(np.array([who]))[0])]
        return relaxed_flag(self.x.program, other, i, self.clocks.flag_lacks(warp, wave, who - first, when))

    def _waits_for(self, copy: Instruction) -> str:
        """How the thread that issues a bulk copy waits for it: a commit is proposed if none is there."""
        commit, wait = "cp.async.bulk.commit_group", "cp.async.bulk.wait_group 0"
        return wait if self.reporting.following(copy, commit) is not None else f"{commit} and {wait}"

    def _completion(self, copy: Instruction, write: Instruction, near: bool) -> str:
        """How threads wait until a copy has read its source."""
        wait = (
            f"wait for the mbarrier of line {copy.line} (mbarrier.try_wait)"
            if is_bulk(copy)
            else f"cp.async.wait_all or cp.async.wait_group in the threads that execute line {copy.line}"
        )
        if not near:
            return f"{wait}, then {self._order(near)}"
        return f"{wait} before line {write.line}; if other threads write: {BARRIER} between"

    def _has_held(self, i: Instruction, other: Instruction, scopes: tuple[int, int], near: bool) -> str:
        """Why a race is one by the letter alone: rules order.looks_again, order.replaced_alike and order.past_l1; ""
        where it is not.
        """
        ways = ((i, scopes[0], other), (other, scopes[1], i))
        program = self.x.launch.program
        if any(not scope and looks_again(program, weak, atom) and may_follow(program, weak, atom) for weak, scope, atom in ways):
            return LOOKS_AGAIN
        if near and all(one.op == "tensormap" and "replace" in one.modifiers for one in (i, other)):
            return "warps that replace the same fields by the same values leave the same map"
        past = [_is_past_l1(i), _is_past_l1(other)]
        if any(past) and all(is_past or scope > GPU or (scope and near) for is_past, scope in zip(past, scopes, strict=True)):
            return "both go past the L1 cache, and such a word is whole"
        return ""

    def _missing(
        self, i: Instruction, other: Instruction, scopes: tuple[int, int], does: str, near: bool, *, is_read: bool
    ) -> tuple[str, str]:  # fmt: skip
        """What is missing between two accesses, and what to write."""
        if scopes[0] and scopes[1]:
            narrow = i if scopes[0] <= scopes[1] else other
            word = {1: ".cta", 2: ".cluster"}.get(int(min(scopes)), "")
            return f"the scope {word} of line {narrow.line} does not reach the other", f".gpu instead of {word} in line {narrow.line}"
        if scopes[0] or scopes[1]:
            weak = other if scopes[0] else i
            return (
                f"line {weak.line} is neither atomic nor .relaxed, and nothing orders the two",
                f"make line {weak.line} .relaxed.gpu or .volatile (where it polls, .acquire.gpu), or {self._order(near)}",
            )
        if near:
            lock = "; if a lock or a flag orders them: __threadfence() (fence.acq_rel) after the atomic that takes it and before the one that releases it"
            return "nothing orders the two", f"put {BARRIER} between them{lock if self.clocks.carries_global else ''}"
        both_write = does == "writes" and not is_read
        change = "let one thread write it, or add with atom or red" if both_write else "if threads add to it, use atom or red"
        return "nothing orders the two", f"{maybe_flag(self.x.launch.program, other, i)}{change}; otherwise {self._order(near)}"

    @staticmethod
    def _order(near: bool) -> str:
        if near:
            return f"{BARRIER} before the other"
        return (
            "set a flag after the first access (st.release.gpu, or __threadfence and an atomic) and read it before the second "
            "(ld.acquire.gpu, or an atomic and __threadfence)"
        )

    def _name(self, warp: int) -> str:
        cta, own = self.history.place_of(warp)
        return f"warp {own}" if self.x.launch.ctas == 1 else f"warp {own} of CTA {cta}"

    def _where(self, i: Instruction, array: ArrayShadow, cell: int) -> str:
        """The bytes of a cell as an element of an array."""
        return self._named(i, array, cell << array.cells.shift, 1 << array.cells.shift)

    def _named(self, i: Instruction, array: ArrayShadow, at: int, size: int) -> str:
        """Bytes at an offset of an array's words as an element of it, or a part of one."""
        region, address = array.region, array.region.words_begin + at
        offset = address - region.begin
        name = f"array {region.name}"
        if region.chunks is not None and (chunk := region.chunks.at(address)) is not None:
            name, offset = str(chunk), address - chunk.begin
        elif not region.name:
            parameter = self.x.launch.parameter_of(region.begin, region.end)
            name = (
                f"the array of parameter {self.x.launch.kernel.parameter_name(parameter[0])}"
                if parameter
                else f"the array at {region.begin:#x}"
            )
        kind = (
            next((m for m in reversed(i.modifiers) if m[1:].isdigit() and m[0] in "busf" and int(m[1:]) >= 8), "") if i.op != "cp" else ""
        )
        if kind and (size == 1 or offset % (int(kind[1:]) // 8) == 0):
            element, byte = divmod(offset, int(kind[1:]) // 8)
            return f"byte {byte} of " * (byte > 0) + f"element {element} (.{kind}) of {name} (global {address:#x})"
        return (f"byte {offset}" if size == 1 else f"bytes {offset} to {offset + size - 1}") + f" of {name} (global {address:#x})"


class GlobalsOfFirst:
    """Global memory for a cohort (`first.py`): the knowledge of the first CTA is that of each CTA about its own warps.
    `shadow` is that of the first CTA. Only asynchronous operations are recorded.
    """

    def __init__(self, shadow: GlobalShadow) -> None:
        self.shadow = shadow
        self._open: dict[Operation, dict[int, int]] = {}  # without a wait: by CTA the place among asynchronous writes

    def op_writes(self, op: Operation, cta: int, addresses: np.ndarray, size: int) -> bool:
        """A write of the twin of the first CTA's operation. False if the cohort must split."""
        when = self._open.setdefault(op, {})[cta] = self.shadow.history.numbers.issues()
        return self.shadow.passes_op_write(op, addresses, size, when=when, behind=cta * self.shadow.per_cta)

    def waited(self, op: Operation) -> None:
        """All CTAs have waited."""
        for when in self._open.pop(op, {}).values():
            self.shadow.history.numbers.waited[when] = self.shadow.clocks.clock[op.warps[0]]

    def spread(self, of_all: GlobalShadow) -> None:
        """The cohort splits: from now on the sanitizer of all CTAs gets the events."""
        of_all.begun({op.of(cta): when for op, begun in self._open.items() for cta, when in begun.items()})
