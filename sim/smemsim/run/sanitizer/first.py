"""The sanitizer of a wave whose CTAs form a cohort: the state of the first CTA stands for all.

CTAs that multiply matrices mostly do the same, each in its own window: the same instructions by the same threads, at
the same places, in one order. Then their sanitizer states are equal. So the parts of the sanitizer are those of a
wave of one CTA (`FirstCta`), and get the events of that CTA. Every event is first compared across the CTAs. If a CTA
deviates, if a finding is possible, or if a question cannot be answered here, the state is expanded to all CTAs
(`twins.py`), and the event is replayed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.checks import Wanted
from smemsim.run.cohort import Cohort, Unfolded, are_repeated, own_of, repeats
from smemsim.run.lower.cfg import blank_registers
from smemsim.run.sanitizer.across_waves import ACROSS_WAVES
from smemsim.run.sanitizer.dispatch import Events
from smemsim.run.sanitizer.global_memory import GlobalShadow, GlobalsOfFirst
from smemsim.run.sanitizer.global_rule import is_for_shared
from smemsim.run.sanitizer.history import History
from smemsim.run.sanitizer.operations import MATRIX, Operation, columns_of
from smemsim.run.sanitizer.orders import has_excuses, has_fenced_tensor, has_messages
from smemsim.run.sanitizer.release_missing_writes import unmet_loads, unmet_stores
from smemsim.run.sanitizer.sanitizer import AtEnd, Begin, LanesApart, Sanitizer
from smemsim.run.sanitizer.taint import Taint
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.scopes import GPU
from smemsim.run.slots import same_for_waves
from smemsim.run.views import Mbarrier, mbarriers
from smemsim.run.warps import ALL, EXITED, WARP, Ctas, are_whole_warps
from smemsim.run.word_ranges import WORD, WordRanges

if TYPE_CHECKING:
    from smemsim.core.machine.tmem.layout import AccumulatorLayout, Box
    from smemsim.run.accesses import Piece, Values
    from smemsim.run.lower.program import Block
    from smemsim.run.sanitizer.lost_updates import LostUpdates
    from smemsim.run.views import Cta, Wave

__all__ = ["SanitizerOfFirst", "sanitizer_of"]


class FirstCta:
    """The first CTA of a wave as a wave of its own, for the parts of the sanitizer."""

    def __init__(self, x: Wave) -> None:
        self.wave, self.launch, self.program, self.cohort = x, x.launch, x.program, None
        self.stride = self.total = x.stride
        self.pitch, self.window_begin, self.scratch = x.pitch, x.window_begin, x.scratch
        self.ctas = Ctas(1, lambda index: x.ctas[index])
        self.shared, self.tensor = x.shared[: x.pitch], x.tensor[:1]
        self.tid, self.cta_of = x.tid[: x.stride], x.cta_of[: x.stride]
        self._everybody = np.arange(x.stride)

    @property
    def pc(self) -> np.ndarray:
        """The position of each of its threads."""
        return self.wave.pc[: self.stride]

    @property
    def sel(self) -> Any:
        """Those of its threads that execute now."""
        sel = self.wave.sel
        return sel if sel is ALL else sel[: len(sel) // len(self.wave.ctas)]

    @property
    def threads(self) -> np.ndarray:
        """Their numbers."""
        sel = self.sel
        return self._everybody if sel is ALL else cast(np.ndarray, sel)

    @property
    def steps(self) -> int:
        """How many blocks the wave has executed."""
        return self.wave.steps

    @property
    def at(self) -> int:
        """The block that runs."""
        return self.wave.at

    @property
    def step(self) -> int:
        """The instruction within it."""
        return self.wave.step

    def alike(self, name: Any, make: Callable[[], Any]) -> Any:
        return same_for_waves(self.launch, self.total, name, make)


M = TypeVar("M", bound=Callable[..., Any])
_FIRST = np.zeros(1, np.int64)  # the index of the first CTA
OF_ALL = object()  # returned by a method that needs all CTAs and has done nothing


def _or_of_all(method: M) -> M:
    """Decorator: run a method for the first CTA of the cohort. If it returns OF_ALL, expand the state to all CTAs and
    call it there.
    """
    name = method.__name__

    @functools.wraps(method)
    def act(self: SanitizerOfFirst, *args: Any, **given: Any) -> Any:
        found = OF_ALL if self.of_all is not None else method(self, *args, **given)
        return getattr(self.spread(), name)(*args, **given) if found is OF_ALL else found

    return cast(M, act)


class _Lanes:
    """The lanes of the first CTA's warps, for events of all threads."""

    def __init__(self, sanitizer: SanitizerOfFirst) -> None:
        self.sanitizer = sanitizer

    def meet(self, threads: np.ndarray | None = None, *, times: int = 1, at: Instruction | None = None) -> None:
        sanitizer = self.sanitizer
        own = None if threads is None else sanitizer.own(threads)
        if sanitizer.of_all is None and (own is not None if threads is not None else sanitizer.is_alike) and sanitizer.are_alive_alike:
            sanitizer.first.lanes.meet(own, times=times)
        else:
            sanitizer.spread().lanes.meet(threads, times=times, at=at)


class _Globals:
    """Global memory for events of a cohort. Arrays that no thread writes may be read without a record while the first
    CTA stands for all.
    """

    def __init__(self, sanitizer: SanitizerOfFirst, history: History) -> None:
        self.sanitizer, self.history = sanitizer, history

    def __getattr__(self, name: str) -> Any:
        """Everything else is an attribute of the sanitizer of all CTAs."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._of_all, name)

    @property
    def _of_all(self) -> Any:
        return self.sanitizer.spread().globals

    def read(self, i: Instruction, piece: Piece, size: int) -> None:
        if not self._is_nothing(i, piece):
            self._of_all.read(i, piece, size)

    def passes_read(self, i: Instruction, piece: Piece, size: int) -> bool:
        return self._is_nothing(i, piece) or bool(self._of_all.passes_read(i, piece, size))

    def _is_nothing(self, i: Instruction, piece: Piece) -> bool:
        return not self.history.before and (i.modifiers[0] == "const" or self.history.is_unwritten(piece.memory))


class _Tensor:
    """Tensor memory of the first CTA, for events of a cohort. Its methods are those of `TensorShadow`."""

    def __init__(self, sanitizer: SanitizerOfFirst) -> None:
        self.sanitizer = sanitizer

    def __getattr__(self, name: str) -> Any:
        """Everything else is an attribute of the sanitizer of all CTAs."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.sanitizer.spread().tensor, name)

    def begin_together(self, i: Instruction, threads: Sequence[int], kind: str, *what: Sequence[Any]) -> list[Operation]:
        """Operations that threads of CTAs issue alike: those of the first one."""
        sanitizer, count = self.sanitizer, self.sanitizer.own_count(threads, what)
        if not count or sanitizer.of_all is not None:
            return sanitizer.spread().tensor.begin_together(i, threads, kind, *what)
        return sanitizer.first.tensor.begin_together(i, threads[:count], kind)

    def each(self, ops: Sequence[Operation]) -> list[Operation]:
        return self.sanitizer.spread().tensor.each(ops)

    def adds_again(self, op: Operation, members: Sequence[Cta], d: AccumulatorLayout) -> bool:
        return (self.sanitizer.of_all or self.sanitizer.first).tensor.adds_again(op, members, d)

    def added(self, op: Operation, members: Sequence[Cta], d: AccumulatorLayout) -> None:
        (self.sanitizer.of_all or self.sanitizer.first).tensor.added(op, members, d)

    def passes_op(self, op: Operation, members: Sequence[Cta], reads: Sequence[Box], writes: Sequence[Box]) -> bool:
        return (self.sanitizer.of_all or self.sanitizer.first).tensor.passes_op(op, members, reads, writes)

    def commit(self, commits: Sequence[tuple[int, Mbarrier]]) -> None:
        sanitizer, count = self.sanitizer, self.sanitizer.own_count([thread for thread, _ in commits], ())
        if sanitizer.of_all is None and count and sanitizer.own_barriers([barrier for _, barrier in commits]) == count:
            sanitizer.first.tensor.commit(commits[:count])
        else:
            sanitizer.spread().tensor.commit(commits)

    def write(self, i: Instruction, boxes: Sequence[tuple[int, int, int, int, int]], lanes: int, *, are_alike: bool) -> None:
        """Store to cells that no operation has accessed; otherwise the state is expanded."""
        sanitizer, own = self.sanitizer, self._own(boxes)
        if own and not sanitizer.first.tensor.are_touched(own, lanes):
            sanitizer.first.tensor.write(i, own, lanes, are_alike=are_alike)
        else:
            sanitizer.spread().tensor.write(i, boxes, lanes, are_alike=are_alike)

    def read(self, i: Instruction, boxes: Sequence[tuple[int, int, int, int, int]], lanes: int) -> bool:
        """Load cells that are complete for the readers; otherwise the state is expanded."""
        sanitizer, own = self.sanitizer, self._own(boxes)
        if own and sanitizer.first.tensor.passes_read(own, lanes):
            return sanitizer.first.tensor.read(i, own, lanes)
        return sanitizer.spread().tensor.read(i, boxes, lanes)

    def free(self, i: Instruction, given: Sequence[tuple[int, int, int, int]]) -> None:
        """Free cells that are complete for the freeing warps; otherwise the state is expanded."""
        sanitizer, own = self.sanitizer, self._own(given)
        if own and sanitizer.first.tensor.rule.passes_free(own):
            sanitizer.first.tensor.free(i, own)
        else:
            sanitizer.spread().tensor.free(i, given)

    def _own(self, accesses: Sequence[Any]) -> list[Any]:
        """Those of the first CTA among accesses (warp, CTA, ...), where each has the same; none where one has not."""
        sanitizer = self.sanitizer
        return [] if sanitizer.of_all is not None else sanitizer.cohort.own_accesses(accesses) or []

    def waited(self, what: str) -> None:
        sanitizer = self.sanitizer
        if sanitizer.of_all is None and sanitizer.is_alike:
            sanitizer.first.tensor.waited(what)
        else:
            sanitizer.spread().tensor.waited(what)

    @property
    def marks(self) -> np.ndarray | None:
        """No marks while the first CTA stands for all."""
        return (self.sanitizer.of_all or self.sanitizer.first).tensor.marks


class SanitizerOfFirst(Events):
    """The sanitizer of a cohort. `first` is that of the first CTA; `of_all` that of all CTAs, after a split."""

    def __init__(self, x: Wave, history: History | None) -> None:
        self.x, self.history, self.count = x, history, len(x.ctas)
        number = ACROSS_WAVES(x.launch).begins()
        self.of_all: Sanitizer | None = None
        self.taint = Taint(x, self._blank_bytes, self._is_used)
        entered = 0 if history is None else history.enters(x, number)
        self.begin_of_all = Begin(number, entered, self.taint)
        room = columns_of(x.total // WARP, self.count, is_alone=False)
        self.view = cast("Wave", FirstCta(x))
        self.first = Sanitizer(self.view, None, Begin(number, 0, self.taint, room, x.total // WARP))
        self.wants = Wanted.by(x, history is not None, operands=False, registers=True)
        # For each warp of the first CTA: the content of the last phase that it waited for, for each CTA.
        self.brought: dict[int, list[Any]] = {}
        assert x.cohort is not None
        self.cohort: Cohort = x.cohort
        self._alike: tuple[Any, bool] = (None, False)  # a selection, and whether it has the same threads of each CTA
        self._pairs: tuple[Any, Sequence[tuple[np.ndarray, Any]]] = (None, ())  # what was looked at last
        # what asynchronous operations write to global memory, as soon as one does
        self.written: GlobalsOfFirst | None = None
        self.made: dict[Mbarrier, tuple[Mbarrier, ...]] = {}  # of each mbarrier of the first CTA those of all
        # The mbarriers that the first CTA used last and left last, with the threads.
        self._freed = self._ended = 0, np.zeros(0, np.int64)

    @staticmethod
    def is_possible(x: Wave) -> bool:
        """May the first CTA stand for all: are there several that leave each other alone, with asynchronous
        operations, and none of what is rare?
        """
        launch, program = x.launch, x.program
        if x.cohort is None or not x.cohort.is_apart or x.scratch or launch.schedule is not None or not launch.window_bytes:
            return False
        if program.uses.isdisjoint(MATRIX) or blank_registers(program) or has_excuses(x) or has_fenced_tensor(x) or has_messages(x):
            return False
        return not (unmet_stores(program) or unmet_loads(program))

    def spread(self) -> Sanitizer:
        """Split the cohort: the sanitizer of all CTAs, each with the state of the first one."""
        if self.of_all is None:
            self.first.operations.forget()
            room = self.first.clocks.ops.own
            x, of_all = self.x, Sanitizer(self.x, self.history, dataclasses.replace(self.begin_of_all, room=room))
            self.taint.blank, self.taint.is_used = of_all.shared.table.blank_bytes, of_all.early.is_used
            used = {
                of_first
                for of_first, of_all_ctas in self.made.items()
                if any(mbarriers(own.cta).get(own.offset) is own for own in of_all_ctas)
            }
            twins = Twins(x.ctas, x.stride // WARP, room, of_all.clocks.done.shape[1], self.made, used)
            of_all.spread(self.first, twins, self.brought)
            if of_all.globals is not None and self.written is not None:
                self.written.spread(of_all.globals)
            self.of_all = of_all
            x.observed_by_another(self, of_all)
            self.first.wave_freed(x)
        return self.of_all

    def _blank_bytes(self, at: np.ndarray) -> np.ndarray:
        return self.spread().shared.table.blank_bytes(at)

    def _is_used(self, site: int, user: Instruction | None, *, is_copied: bool = False, is_voted: bool = False) -> None:
        self.spread().early.is_used(site, user, is_copied=is_copied, is_voted=is_voted)

    def __getattr__(self, name: str) -> Any:
        """Everything else is an attribute of the sanitizer of all CTAs."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.spread(), name)

    # ---- parts that others ask

    @property
    def is_of_first(self) -> bool:
        """Does the first CTA stand for all still?"""
        return self.of_all is None

    @property
    def lanes(self) -> Any:
        """The receiver of events about lanes that synchronise."""
        return _Lanes(self) if self.of_all is None else self.of_all.lanes

    @property
    def globals(self) -> Any:
        """The receiver of events about global memory."""
        if self.of_all is not None or self.history is None:
            return None if self.of_all is None else self.of_all.globals
        return _Globals(self, self.history)

    @property
    def tensor(self) -> Any:
        """The receiver of events about tensor memory."""
        return _Tensor(self) if self.of_all is None else self.of_all.tensor

    @property
    def at_end(self) -> AtEnd:
        """Asked for clusters alone."""
        return (self.of_all or self.first).at_end

    @property
    def apart(self) -> LanesApart:
        """That of a program in which lanes store and load with their warp."""
        return (self.of_all or self.first).apart

    @property
    def lost(self) -> LostUpdates:
        """That of a program without such stores; of others that of all."""
        return self.spread().lost if self.of_all is not None or self.first.lost.stores else self.first.lost

    @property
    def held_slots(self) -> int:
        return (self.of_all or self.first).held_slots

    # ---- whether all do the same

    @property
    def is_alike(self) -> bool:
        """Do the same threads of each CTA run?"""
        sel = self.x.sel
        if sel is ALL:
            return True
        if self._alike[0] is not sel:
            self._alike = sel, self.own(sel) is not None
        return self._alike[1]

    @property
    def are_alive_alike(self) -> bool:
        """Have the same threads of each CTA exited?"""
        if self.x.positions.together is not None:
            return True
        return self.cohort.are_same(self.x.pc >= EXITED)

    def own(self, threads: np.ndarray) -> np.ndarray | None:
        """Those of the first CTA among threads, where each CTA has the same ones, in its order."""
        return self.cohort.own_threads(threads)

    def own_count(self, threads: Sequence[int], what: Sequence[Sequence[Any]]) -> int:
        return self.cohort.own_count(threads, *what)

    def _own_places(self, flat: np.ndarray) -> np.ndarray | None:
        """The places (bytes) of an access of the running threads in the first window."""
        own = self.cohort.own_places(flat) if self.is_alike else None
        return None if own is None else np.ascontiguousarray(own, np.int64)

    def _own_pairs(self, pairs: Sequence[tuple[np.ndarray, Any]]) -> Sequence[tuple[np.ndarray, Any]]:
        """The pairs (threads, mbarrier) of the first CTA, if each CTA has the same; else none."""
        if self._pairs[0] is not pairs:
            self._pairs = pairs, self._find_own(pairs)
        return self._pairs[1]

    def _find_own(self, pairs: Sequence[tuple[np.ndarray, Any]]) -> Sequence[tuple[np.ndarray, Any]]:
        if isinstance(pairs, Unfolded):
            return pairs.own if all(self.made.get(barriers[0]) == barriers for _, barriers, _ in pairs.each) else ()
        threads, barriers = zip(*pairs, strict=True) if pairs else ((), ())
        count = self.own_barriers(barriers)
        if not are_repeated([*map(len, threads)], count):
            return ()
        return () if own_of(np.concatenate(threads), self.count, self.cohort.threads) is None else pairs[:count]

    def own_barriers(self, barriers: Sequence[Any]) -> int:
        """How many of mbarriers are those of the first CTA, where each has the same."""
        count, rest = divmod(len(barriers), self.count)
        if rest or not count:
            return 0
        return count if all(self.made.get(barriers[n]) == tuple(barriers[n::count]) for n in range(count)) else 0

    # ---- accesses of shared memory

    @_or_of_all
    def read(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> Any:
        return None if self.passes_read(x, i, flat, size) else OF_ALL

    @_or_of_all
    def write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int, values: Values | None = None) -> Any:
        own = self._own_places(flat)
        if own is None or size < WORD or self.first.follows_values():
            return OF_ALL
        shared = self.first.shared
        is_one = not shared.share_words(own, size) or _all_stay(values)
        return None if is_one and shared.passes_write(i, own, size, None) else OF_ALL

    @_or_of_all
    def copy(self, x: Wave, i: Instruction, flat: np.ndarray, size: int, values: Values) -> Any:
        own = self._own_places(flat)
        if own is None or (self.first.shared.share_words(own, size) and not _all_stay(values)):
            return OF_ALL
        if not self.first.passes_copy(self.view, i, own, size):
            return OF_ALL
        self.taint.copied(x.threads, flat)
        return None

    @_or_of_all
    def follows_values(self) -> Any:
        return self.first.follows_values() if self.is_alike else OF_ALL

    def passes_read(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> bool:
        if self.of_all is not None:
            return self.of_all.passes_read(x, i, flat, size)
        own = self._own_places(flat)
        return own is not None and size >= WORD and self.first.passes_read(self.view, i, own, size)

    def passes_write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> bool:
        if self.of_all is not None:
            return self.of_all.passes_write(x, i, flat, size)
        own = self._own_places(flat)
        return own is not None and size >= WORD and self.first.passes_write(self.view, i, own, size)

    @_or_of_all
    def initialised(self, x: Wave, i: Instruction, flat: np.ndarray) -> Any:
        own = self._own_places(flat)
        shared = self.first.shared.table
        if own is None or shared.are_touched(shared.places_of(own, 2 * WORD)):
            return OF_ALL
        return self.first.initialised(self.view, i, own)

    @_or_of_all
    def allocated(self, x: Wave, i: Instruction, flat: np.ndarray) -> Any:
        """tcgen05.alloc by one warp of each CTA, into words that no thread has accessed; otherwise the state is
        expanded.
        """
        own, shared = self._own_places(flat), self.first.shared.table
        if own is None or self.view.threads[0] >> 5 != self.view.threads[-1] >> 5 or shared.are_touched(shared.places_of(own, WORD)):
            return OF_ALL
        return self.first.allocated(self.view, i, own)

    # ---- asynchronous operations

    @_or_of_all
    def begin_together(self, i: Instruction, threads: Sequence[int], kind: str, *what: Sequence[Any]) -> Any:
        """The operations of the first CTA, which stand for those of all."""
        count = self.own_count(threads, what)
        return self.first.begin_together(i, threads[:count], kind) if count else OF_ALL

    @_or_of_all
    def begin_alike(self, i: Instruction, threads: Sequence[int], kind: str, own: int) -> Any:
        """The operations of the first CTA, which stand for those of all."""
        return self.first.begin_together(i, threads[:own], kind) if own else OF_ALL

    def of_all_ctas(self, ops: Sequence[Operation]) -> Sequence[Operation]:
        """The operations of all CTAs for those of `begin_together`. From now on each is handled alone."""
        return self.spread().of_all_ctas(ops)

    def of_issuer(self, ops: Sequence[Operation], n: int) -> Operation:
        return ops[n % len(ops)] if self.of_all is None else self.of_all.of_issuer(ops, n)

    @_or_of_all
    def joins(self, ops: Sequence[Operation], group: str, lanes: int = 0) -> Any:
        """Operations that stand for those of all CTAs."""
        return self.first.joins(ops, group, lanes)

    def op_writes_global(self, op: Operation, cta: Cta, addresses: np.ndarray, size: int, stays: Any = None) -> None:
        """An operation of the first CTA that stands for that of each CTA."""
        if self.of_all is None and self.history is not None and self._writes(op, cta, addresses, size):
            return
        of_all = self.spread()
        of_all.op_writes_global(op.of(cta.index), cta, addresses, size, stays)

    def _writes(self, op: Operation, cta: Cta, addresses: np.ndarray, size: int) -> bool:
        """Is nothing suspicious about such a write, and all of it noted?"""
        assert self.history is not None
        if self.history.before:
            return False
        if self.written is None:
            first, entered = self.first, self.begin_of_all.entered
            shadow = GlobalShadow(self.view, first.clocks, first.operations, first.reporting, self.history, self.taint, entered)
            self.written = first.writes = GlobalsOfFirst(shadow)
        return self.written.op_writes(op, cta.index, addresses, size)

    def ops_read(self, ops: Sequence[Operation], ctas: Sequence[Cta], runs: WordRanges) -> bool:
        """If this is False, `of_all_ctas` has the operations that must be reported."""
        return (self.of_all or self.first).ops_read(ops, ctas[: len(ops)], runs)

    def ops_write(self, ops: Sequence[Operation], ctas: Sequence[Cta], runs: WordRanges) -> None:
        """Operations that stand for those of all these CTAs."""
        if self.of_all is None and self.first.passes_ops_write(ops, ctas[: len(ops)], runs):
            return
        self.spread().ops_write(self.of_all_ctas(ops), ctas, runs)

    def accumulate(self, ops: Sequence[Operation], slots: frozenset[int], sums: frozenset[int], goes_on: Sequence[bool]) -> None:
        (self.of_all or self.first).accumulate(ops, slots, sums, goes_on[: len(ops)])

    def adds_to_nothing(self, op: Operation, sums: frozenset[int]) -> bool:
        return (self.of_all or self.first).adds_to_nothing(op, sums)

    def complete_on(self, ops: Sequence[Operation], barriers: Sequence[Mbarrier]) -> None:
        """Operations that stand for those of all CTAs."""
        own = barriers[: len(ops)]
        is_alike = self.of_all is None and self.own_barriers(barriers) == len(ops)
        if is_alike and not any(self._is_new(op.warps, barrier) for op, barrier in zip(ops, own, strict=True)):
            self.first.complete_on(ops, own)
        else:
            self.spread().complete_on(self.of_all_ctas(ops), barriers)

    def reads_what_changes(self, address: int) -> bool:
        return self.history is not None and self.history.changes(address)

    @_or_of_all
    def names(self, x: Wave, block: Block) -> Any:
        registers = self.first.registers
        if not block.slots & self.first.held_slots:
            return None
        return self.first.names(self.view, block) if self.is_alike and not registers.touches(block) else OF_ALL

    def may_wait_in(self, block: Block) -> bool:
        return (self.of_all or self.first).may_wait_in(block)

    @_or_of_all
    def waits_at(self, x: Wave, i: Instruction) -> Any:
        if not i.slot_bits & self.first.held_slots:
            return None
        return self.first.waits_at(self.view, i) if self.is_alike and not i.slot_bits & self.first.registers.in_flight else OF_ALL

    @_or_of_all
    def commit(self, x: Wave, i: Instruction, group: str) -> Any:
        return self.first.commit(self.view, i, group) if self.is_alike else OF_ALL

    @_or_of_all
    def wait(self, x: Wave, i: Instruction, group: str, left: int, *, only_read: bool = False) -> Any:
        is_alike = self.is_alike and (
            group != "cp.async" or are_whole_warps(self.view.threads)
        )  # lanes by themselves have a part of a copy
        return self.first.wait(self.view, i, group, left, only_read=only_read) if is_alike else OF_ALL

    # ---- mbarriers

    @_or_of_all
    def makes(self, i: Instruction, made: Sequence[tuple[Mbarrier, int]]) -> Any:
        own, barriers = self.own(np.array([thread for _, thread in made])), [barrier for barrier, _ in made]
        count = 0 if own is None else len(own)
        if own is None or any((b.cta.index, b.offset) != (n // count, barriers[n % count].offset) for n, b in enumerate(barriers)):
            return OF_ALL
        self._freed = self._ended = 0, own[:0]
        self.made.update((barrier, tuple(barriers[n::count])) for n, barrier in enumerate(barriers[:count]))
        return self.first.makes(i, made[:count])

    @_or_of_all
    def not_waited_for(self, barrier: Mbarrier, threads: np.ndarray) -> Any:
        """An operation that is complete for the first CTA is complete for the others."""
        index = barrier.cta.index
        if index:
            offset, own = self._freed
            return None if offset == barrier.offset and repeats(threads, own, index * self.cohort.threads) else OF_ALL
        self._freed = barrier.offset, threads
        return None if self.first.not_waited_for(barrier, threads) is None else OF_ALL

    @_or_of_all
    def ends(self, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> Any:
        """If the first CTA may end it, the others may end it, too."""
        index = barrier.cta.index
        if index:
            offset, own = self._ended
            return None if offset == barrier.offset and repeats(threads, own, index * self.cohort.threads) else OF_ALL
        self._ended = barrier.offset, threads
        return self.first.ends(i, barrier, threads) if self.first.mbarriers.objects.is_over(barrier, threads) else OF_ALL

    @_or_of_all
    def publish(self, x: Wave) -> Any:
        return self.first.publish(self.view) if self.is_alike else OF_ALL

    @_or_of_all
    def uses(self, i: Instruction, uses: Sequence[tuple[np.ndarray, Mbarrier]]) -> Any:
        """If the first CTA may use it by these threads, the others may use it, too."""
        own = self._own_pairs(uses)
        if not own or any(self._is_new(threads >> 5, barrier) for threads, barrier in own):
            return OF_ALL
        return self.first.uses(i, own)

    def _is_new(self, warps: np.ndarray, barrier: Mbarrier) -> bool:
        """Has one of the warps not seen that an mbarrier was initialised?"""
        return next(self.first.mbarriers.initialised.unseen(barrier, warps), None) is not None

    @_or_of_all
    def waited(self, i: Instruction, waits: Sequence[tuple[np.ndarray, Mbarrier]]) -> Any:
        own = self._own_pairs(waits)
        if not own:
            return OF_ALL
        for threads, barrier in own:
            lasts = [one.state.deliveries.last for one in self.made[barrier]]
            self.brought.update(dict.fromkeys((threads >> 5).tolist(), lasts))
        return self.first.waited(i, own)

    @_or_of_all
    def acquire_at(
        self, i: Instruction, waits: Sequence[tuple[np.ndarray, Mbarrier]], *, relaxed: bool, scope: int, by_parity: bool
    ) -> Any:
        own = self._own_pairs(waits)
        if not own or not self.are_alive_alike:
            return OF_ALL
        return self.first.acquire_at(i, own, relaxed=relaxed, scope=scope, by_parity=by_parity)

    @_or_of_all
    def arrive(self, i: Instruction, arrivals: Sequence[tuple[np.ndarray, Mbarrier]]) -> Any:
        if not arrivals:
            return None
        own = self._own_pairs(arrivals)
        return self.first.arrive(i, own) if own else OF_ALL

    @_or_of_all
    def release_at(self, x: Wave, arrivals: Sequence[tuple[np.ndarray, Mbarrier]], *, relaxed: bool, scope: int) -> Any:
        own = self._own_pairs(arrivals)
        return self.first.release_at(self.view, own, relaxed=relaxed, scope=scope) if own else OF_ALL

    @_or_of_all
    def complete(self, whats: Sequence[Any]) -> Any:
        count = self.own_barriers(whats)
        return self.first.complete(whats[:count]) if count else OF_ALL

    # ---- order

    @_or_of_all
    def meet(self, x: Wave, ctas: np.ndarray, threads: np.ndarray, *, is_for_all: bool) -> Any:
        if len(threads) == x.total and x.sel is ALL:
            return self.first.meet(self.view, _FIRST, self.view.threads, is_for_all=is_for_all)
        if len(ctas) < self.count or (np.diff(ctas) != 1).any() or not self.are_alive_alike:
            return OF_ALL
        own = self.own(threads)
        return OF_ALL if own is None else self.first.meet(self.view, _FIRST, own, is_for_all=is_for_all)

    @_or_of_all
    def fence(self, x: Wave, *, acquires: bool, releases: bool, scope: int = GPU) -> Any:
        return self.first.fence(self.view, acquires=acquires, releases=releases, scope=scope) if self.is_alike else OF_ALL

    def fence_tensor(self, x: Wave, *, acquires: bool, releases: bool) -> None:
        """tcgen05.fence in a program in which it makes no difference."""

    @_or_of_all
    def fence_async(self, x: Wave, i: Instruction) -> Any:
        # beside fences that do not cover global memory, the others must be recorded
        if not self.is_alike or (self.history is not None and self.x.program.has(is_for_shared) and not is_for_shared(i)):
            return OF_ALL
        return self.first.fence_async(self.view, i)

    @_or_of_all
    def waited_for_launch(self, x: Wave, i: Instruction) -> Any:
        return OF_ALL if self.history is not None and self.history.before else None

    @_or_of_all
    def lets_next_begin(self, x: Wave) -> Any:
        """The fences of the first CTA are those of each CTA."""
        if self.history is None:
            return None
        if self.history.before or not self.is_alike:
            return OF_ALL
        warps, entered = self.cohort.threads // WARP, self.begin_of_all.entered
        for known in self.first.clocks.known_at_fence(np.unique(self.view.threads >> 5)):
            for n in range(self.count):
                self.history.triggers(entered // warps + n, entered + n * warps, known)
        return None

    def map_used(self, x: Wave, i: Instruction, thread: int, address: int, size: int) -> None:
        self.spread().map_used(x, i, thread, address, size)

    # ---- the begin and the end

    def wave_ended(self, x: Wave) -> None:
        if self.of_all is not None or not self.first.ends_in_order(self.x.ctas[0]):
            self.spread().wave_ended(x)

    def wave_hung(self, x: Wave) -> None:
        """No thread can go on."""
        self.spread().wave_hung(x)

    def wave_stopped(self, x: Wave) -> None:
        """A trap has ended the kernel."""
        self.spread().wave_stopped(x)

    def wave_freed(self, x: Wave) -> None:
        (self.of_all or self.first).wave_freed(x)
        vars(self).clear()


def _all_stay(values: Values | None) -> bool:
    """Does each thread find its own value, although others have written there?"""
    return values is None or bool(values.stay.all())


def sanitizer_of(x: Wave, history: History | None) -> Sanitizer | SanitizerOfFirst:
    """The sanitizer of a wave that starts."""
    return SanitizerOfFirst(x, history) if SanitizerOfFirst.is_possible(x) else Sanitizer(x, history)
