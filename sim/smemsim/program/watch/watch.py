"""The watch itself: ordinary accesses, asynchronous operations, lifetimes of CTAs.

Written against the PTX memory model (PTX ISA 8): a write is seen by a later access of another thread only when synchronisation lies between
them, by the asynchronous proxy (TMA, wgmma, tcgen05) only when a fence.proxy.async lies on that way too, and what an asynchronous operation
writes only when its completion was waited for. Threads of one warp count as ordered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.program.traps import warp_name
from smemsim.program.watch.clocks import GENERIC, Operation
from smemsim.program.watch.ordering import Ordering
from smemsim.program.watch.products import Overwritten, uses
from smemsim.program.watch.shadow import ATOMIC, GROUP, NOBODY, OPERATIONS, READERS, WORD
from smemsim.program.watch.tensor import TensorWatch
from smemsim.program.watch.unwritten import Unwritten, is_followed
from smemsim.program.wave import ALL, WARP
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.program.memory.spaces import Values
    from smemsim.program.watch.clocks import Order
    from smemsim.program.wave import Cta, Wave

__all__ = ["Lifetimes", "Watch"]


# ---- Shared memory lives as long as its CTA: who of a cluster touches another CTA's does so once that has begun, and before it may end
# (PTX ISA 5.1.6)


class Lifetimes:
    """The last time that each warp of a cluster touched each other CTA, its shared memory or an mbarrier there; asked when all have ended."""

    def __init__(self, watch: Watch) -> None:
        x = watch.x
        self.watch, self.per_cta = watch, x.stride // WARP
        self.is_needed = x.launch.cluster_size > 1
        shape = (len(x.ctas), x.total // WARP) if self.is_needed else (0, 0)
        self.when, self.line = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self._met: dict[int, np.ndarray] = {}
        self._has_waited = np.zeros(len(x.ctas), bool)  # at a barrier of the cluster: all its CTAs have begun

    def touch(self, i: Instruction, ctas: Any, warps: np.ndarray) -> None:
        """Warps touch CTAs (their index, one for all or one each)."""
        if not self.is_needed:
            return
        ctas = np.broadcast_to(ctas, warps.shape)
        other = ctas != warps // self.per_cta
        if other.any():
            at = ctas[other], warps[other]
            if not self._has_waited.all():
                self._has_begun(i, *at)
            self.when[at], self.line[at] = self.watch.order.clock[warps[other]], i.line

    def _has_begun(self, i: Instruction, ctas: np.ndarray, warps: np.ndarray) -> None:
        """X008 where warps touch CTAs that may not have begun: nothing that these did is known to them."""
        seen = self.watch.order.seen[warps].reshape(len(warps), -1, self.per_cta).max(axis=2)
        early = ~self._has_waited[warps // self.per_cta] & (seen[np.arange(len(warps)), ctas] == 0)
        if early.any():
            x, first = self.watch.x, int(np.argmax(early))
            x.launch.find(
                "X008", i, f"{i.name} of {warp_name(x, int(warps[first]))} touches CTA {x.ctas[int(ctas[first])].number} of its cluster, which may not "
                "have begun: nothing that it did is ordered before this",
                "barrier.cluster.arrive and barrier.cluster.wait by all CTAs behind mbarrier.init, before the first access", because="PTX ISA 5.1.6",
            )  # fmt: skip

    def met(self, first: int, count: int) -> None:
        """The warps of a cluster, `count` from `first` on, have arrived at its barrier: relaxed or not, what they did before is over for who waits there."""
        self._met[first] = self.watch.order.clock[first : first + count].copy()

    def waited(self, first: int, threads: np.ndarray) -> None:
        """Threads of the cluster whose first warp is `first` have waited at its barrier."""
        clocks = self._met.get(first)
        if clocks is None or not self.is_needed:
            return
        for cta in np.unique(threads // WARP // self.per_cta).tolist():
            self._has_waited[cta] = True
            row = self.when[cta, first : first + len(clocks)]
            row[row <= clocks] = 0

    def ended(self) -> None:
        """All CTAs have ended: X008 where one could have ended before another was done with it."""
        if not self.is_needed:
            return
        x = self.watch.x
        seen = self.watch.order.seen.reshape(len(x.ctas), self.per_cta, -1).max(1)
        for cta, warp in np.argwhere(self.when > seen).tolist():
            i = self.watch.lines.get(int(self.line[cta, warp]))
            if i is not None:
                x.launch.find(
                    "X008", i, f"{i.name} of {warp_name(x, warp)} touches CTA {x.ctas[cta].number} of "
                    "its cluster, which may have ended by then: nothing that CTA waits for comes after it",
                    "barrier.cluster.arrive and barrier.cluster.wait by all CTAs before the kernel ends", because="PTX ISA 5.1.6",
                )  # fmt: skip


# ---- The watch: who wrote and who reads each word of shared memory, what orders them, and what is still in flight


class Watch(Ordering):
    """What the operations of one wave tell. Every method is called for the threads that run (`x.threads`) unless it names others."""

    def __init__(self, x: Wave) -> None:
        super().__init__(x)
        self.tensor = TensorWatch(self)
        self.lifetimes = Lifetimes(self)
        self.unwritten = Unwritten(self)
        self.products = Overwritten()

    def abandoned(self) -> None:
        self.unwritten.doubts.abandon()
        self.products.ended()

    def ended(self) -> None:
        """All threads have exited."""
        self.lifetimes.ended()
        self.products.ended()
        self.unwritten.doubts.abandon(self._is_race)

    def _is_race(self, key: Any) -> bool:
        """Does a doubt say that a read comes too early? Nobody multiplies a whole operand for nothing; what nobody ever writes harms only who uses it."""
        late = {"shared": self.late, "tensor": self.tensor.late}.get(key[0])
        return late is None or key[1] in late

    # ---- ordinary accesses of shared memory

    def read(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> None:
        """The running threads read `size` bytes at places `flat` (n,) of `x.shared`."""
        at, warps = self._words(x, flat, size)
        self._reach(i, at, warps)
        who = self.who[at]
        if size < WORD:
            bits = self.parts.read(at, flat, size)
            self._seen(i, at, warps, np.where(self.parts.overlap(at, bits), who, NOBODY), "read")
        else:
            self.parts.read_whole(at)
            self._seen(i, at, warps, who, "read")
        nobody = who == NOBODY
        if nobody.any():
            self._too_early(i, at[nobody])
        if self.unwritten.shared is not None or nobody.any():
            self._doubtful(x, i, at, flat, size)
        self._elsewhere(who)
        self.read_when[warps % self.per_cluster, at] = self.order.clock[warps]
        self.read_line[at] = i.line

    def strong_read(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> None:
        """The same by relaxed, acquire or volatile loads: no race with such stores and atomics, but with plain stores and operations in flight."""
        at, warps = self._words(x, flat, size)
        self._reach(i, at, warps)
        who = self.who[at]
        of_threads = NOBODY if size < WORD else np.where(self.strong[at], NOBODY, who)
        self._seen(i, at, warps, np.where(who >= OPERATIONS, who, of_threads), "read")
        if size < WORD:
            return
        if self.polled_when is None:
            self.polled_when, self.polled_line = np.zeros_like(self.read_when), np.zeros_like(self.read_line)
        self.polled_when[warps % self.per_cluster, at] = self.order.clock[warps]
        self.polled_line[at] = i.line

    def write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int, values: Values | None = None) -> None:
        """The running threads have written `size` bytes at places `flat` (n,) of `x.shared`.

        Who writes what lies there already races with nobody; that is so where `values` are given.
        """
        at, warps = self._words(x, flat, size)
        self._reach(i, at, warps)
        if size < WORD:
            self._part(i, at, warps, flat, size, values)
            return
        if self.unwritten.shared is not None:
            self.unwritten.shared.clear(flat, size)
        self._seen(i, at, warps, self.who[at], "overwritten", values)
        self._readers_done(i, at, warps, values)
        self.parts.written_whole(at)
        self._written(i, at, warps)
        if (self.who[at] != warps).any():
            self._one_stays(i, at, at, warps, values)

    def _written(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        self.who[at], self.when[at], self.line[at], self.strong[at] = warps, self.order.clock[warps], i.line, False

    def _one_stays(self, i: Instruction, flat: np.ndarray, at: np.ndarray, warps: np.ndarray, values: Values | None) -> None:
        """Warps have written at the same places `flat` (of words `at`) with one instruction: wrong where their values differ."""
        lost = np.zeros(len(at), bool) if values is None else ~values.stay
        if not lost.any():
            return
        places, which = np.unique(flat, return_inverse=True)
        last = np.zeros(len(places), np.int64)
        last[which] = warps
        last = last[which]
        lost &= last != warps
        if lost.any():
            mine, other = (self._warp(w[lost][0]) for w in (warps, last))
            self._find(
                "X008", i, at[lost], f"{{i}} of warp {mine} and of warp {other} write different values to {{where}}: nothing orders the two",
                "let one warp write, or put a barrier between them (bar.sync, mbarrier)",
            )  # fmt: skip

    def _elsewhere(self, who: np.ndarray) -> None:
        """Others than matrix instructions read what these have written."""
        launch = self.x.launch
        if launch.judge is not None and not self.x.program.uses.isdisjoint(("wgmma", "tcgen05")) and (by := who[who >= OPERATIONS]).size:
            launch.elsewhere.update(self.operations[n].instruction.line for n in np.unique(by - OPERATIONS).tolist())

    def _doubtful(self, x: Wave, i: Instruction, at: np.ndarray, flat: np.ndarray, size: int) -> None:
        """The running threads read words of which some have a value that is in doubt, or none."""
        if i.op == "ld":
            marks = self.unwritten.of_words(i, at).reshape(len(x.threads), -1)
            if size < WORD and self.unwritten.shared is not None:
                marks = np.where(self.who[at][:, None] == NOBODY, marks, self.unwritten.shared.of(flat, size))
            if marks.any():
                self.unwritten.loads(x.threads, marks)
        elif i.op == "ldmatrix":
            self.unwritten.matrix_is_unwritten = True
        elif self.unwritten.shared is not None:
            self.unwritten.doubts.tell(i, self.unwritten.shared.marks[at])

    def nobody_wrote(self, at: np.ndarray) -> np.ndarray:
        """Has nobody written these words?"""
        nobody: np.ndarray = self.who[at] == NOBODY
        return nobody

    def _too_early(self, i: Instruction, at: np.ndarray) -> None:
        """Words are read before anybody has written them: wrong at once, but where the value is followed, which may be thrown away."""
        if not is_followed(i):
            self._find("R507", i, at, "{i} reads {where}, which nobody has written")
        words = self.early.setdefault(i.line, (i, np.zeros(len(self.who), bool)))[1]
        words[at] = True
        if i.line not in self.early_waits and (waited := self._last_wait(self._running(self.x), at)) is not None:
            self.early_waits[i.line] = waited

    def unwritten_is_used(self, line: int, user: Instruction | None) -> None:
        """An instruction uses a value that a line read before anybody had written it; nobody can any more, where there is no user."""
        if line in self.late:
            self.late.pop(line)()
        elif line in self.early:
            i, words = self.early[line]
            self._find(
                "R507", i, np.flatnonzero(words), f"{{i}} reads {{where}}, which nobody has written{uses(user)}", _UNWRITTEN.get(i.op, "")
            )

    def _reach(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        self.lifetimes.touch(i, at // (self.x.pitch // WORD), warps)

    def _part(self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int, values: Values | None) -> None:
        """Bytes of words are written: neighbours that other warps write or read are no race."""
        if self.unwritten.shared is not None:
            self.unwritten.shared.clear(flat, size)
        bits, who, when = self.parts.bits(flat, size), self.who[at], self.when[at]
        self._seen(i, at, warps, np.where(self.parts.overlap(at, bits), who, NOBODY), "overwritten", values)
        read = self.parts.were_read(at, bits)
        if read.any():
            self._readers_done(i, at[read], warps[read], None if values is None else values.of(read))
        self._written(i, at, warps)
        before = np.where(when == self.when[at], who, NOBODY)  # what a warp wrote before it last met others is known to them
        self.parts.write(at, bits, before, warps, self.who[at])
        if (self.who[at] != warps).any():
            self._one_stays(i, flat, at, warps, values)

    def strong_write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int, *, changed: bool = True) -> None:
        """The running threads write by atomic, relaxed, release or volatile operations, which make no race among themselves.

        Atomics that left everything as it was (`changed` False) have only looked.
        """
        at, warps = self._words(x, flat, size)
        self._reach(i, at, warps)
        if self.unwritten.shared is not None and i.op == "st":
            self.unwritten.shared.clear(flat, size)
        if size < WORD:
            self.parts.written_whole(at)
            self.who[at], self.line[at] = ATOMIC, i.line
            return
        self._seen(i, at, warps, np.where(self.strong[at], NOBODY, self.who[at]), "overwritten")
        self._threads_have_read(i, at, warps, self.read_when, self.read_line)
        self._operations_have_read(i, at, warps)
        if changed:
            self.parts.written_whole(at)
            self._written(i, at, warps)
            self.strong[at] = True

    def initialised(self, x: Wave, i: Instruction, flat: np.ndarray) -> None:
        """The running threads have made mbarrier objects at places `flat` of `x.shared`; what is done with these is no access of threads."""
        at, warps = self._words(x, flat, 2 * WORD)
        self._seen(i, at, warps, np.where(self.who[at] >= OPERATIONS, self.who[at], NOBODY), "overwritten")
        self.parts.written_whole(at)
        self.who[at], self.line[at] = ATOMIC, i.line

    def _seen(self, i: Instruction, at: np.ndarray, warps: np.ndarray, who: np.ndarray, done: str, values: Values | None = None) -> None:
        """Has every warp seen the writes of `who` that it now reads or overwrites?"""
        by_warp = (who >= 0) & (who < OPERATIONS) & (who != warps)
        if by_warp.any():
            mine, other, when = warps[by_warp], who[by_warp], self.when[at[by_warp]]
            unseen, formal = self.missing(lambda order: order.seen[mine, other] < when, values, by_warp)
            if unseen.any():
                places = at[by_warp][unseen]
                self._find(
                    "X008", i, places, f"{{i}} of warp {self._warp(mine[unseen][0])} touches {{where}}, which {self._writer(places[0])}: "
                    "nothing orders the two", "put a barrier between them (bar.sync, mbarrier)", formal=formal,
                )  # fmt: skip
        by_op = who >= OPERATIONS
        if by_op.any():
            unseen, formal = self.missing(lambda order: ~order.done[warps[by_op], who[by_op] - OPERATIONS])
            mine, places = warps[by_op][unseen], at[by_op][unseen]
            for kind, part in self._by_kind(self.who[places]):
                code = "X004" if done == "read" else "X005"
                late = places[part]
                warp, number = int(mine[part][0]), int(self.who[late[0]])
                why, repair = self._other_stage(self._last_wait(np.array([warp]), late), late, self.operations[number - OPERATIONS])
                self._find(
                    code, i, late, f"{{where}} is {done} by {{i}} of warp {self._warp(warp)}, which has not waited for "
                    f"{self._writer(late[0])}{why if code == 'X004' else ''}",
                    (repair if code == "X004" else "") or self._make_room(i, at, number, warp), formal=formal, cause=kind,
                )  # fmt: skip

    def _by_kind(self, who: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """The kinds of some operations, each with which of them are of that kind."""
        kinds = {number: self.operations[number - OPERATIONS].kind for number in np.unique(who).tolist()}
        for kind in dict.fromkeys(kinds.values()):
            yield kind, np.isin(who, [number for number, its in kinds.items() if its == kind])

    def _readers_done(self, i: Instruction, at: np.ndarray, warps: np.ndarray, values: Values | None = None) -> None:
        """May what lies at `at` be overwritten: has each warp that writes seen all its readers done?"""
        self._threads_have_read(i, at, warps, self.read_when, self.read_line, values)
        if self.polled_when is not None:
            self._threads_have_read(i, at, warps, self.polled_when, self.polled_line, values)
        self._operations_have_read(i, at, warps)

    def _threads_have_read(
        self, i: Instruction, at: np.ndarray, warps: np.ndarray, table: np.ndarray, lines: np.ndarray, values: Values | None = None
    ) -> None:
        """Of the readers that are threads, with their clocks in `table`."""
        read = np.flatnonzero(lines[at])
        if not read.size:
            return
        mine, when = warps[read], table[:, at[read]]
        readers = mine // self.per_cluster * self.per_cluster + np.arange(self.per_cluster)[:, None]
        others = readers != mine
        late, formal = self.missing(lambda order: (when > order.seen[mine, readers]) & others, values, read)
        if late.any():
            places = at[read[np.nonzero(late)[1]]]
            self._find(
                "X008", i, places, f"{{i}} overwrites {{where}}, which line {lines[places[0]]} may still read: nothing orders the two",
                "put a barrier between them (bar.sync, mbarrier)", formal=formal,
            )  # fmt: skip

    def _operations_have_read(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        """Of the readers that are asynchronous operations."""
        for by in self.read_by[:, at]:
            reads = by >= 0
            if not reads.any():
                continue
            late, formal = self.missing(lambda order, by=by, reads=reads: reads & ~order.read_done[warps, by])  # type: ignore[misc]
            for number in np.unique(by[late]).tolist() if late.any() else ():
                operation, mine = self.operations[number], late & (by == number)
                places, warp = at[mine], int(np.broadcast_to(warps, late.shape)[mine][0])
                why = "nobody has waited for it"
                if self._is_untold(operation):
                    why = f"warp {self._warp(operation.warps[0])} has waited for it, and nothing tells warp {self._warp(warp)}"
                tell = functools.partial(
                    self._find, "X005", i, places, f"{{i}} overwrites {{where}}, which {self._name(operation)} may still read: {why}",
                    self._wait_for(OPERATIONS + number, warp), formal=formal, cause=operation.kind,
                )  # fmt: skip
                if (
                    i.op != "cp" or "bulk" not in i.modifiers or not self.products.overwritten(operation, places, tell)
                ):  # by a transfer, which is whole
                    tell()

    def missing(
        self, test: Callable[[Order], np.ndarray], values: Values | None = None, which: np.ndarray | slice = ALL
    ) -> tuple[np.ndarray, bool]:
        """Where what is known fails a test, and whether it does so only because barriers of the cluster were arrived at relaxed.

        Not where `values`, or `which` of them, lay there before.
        """
        late = test(self.order)
        if not late.any():
            return late, False
        if values is not None:
            late &= ~values.lay_there[which]
        if self.order.might_be is None:
            return late, False
        wrong = late & test(self.order.might_be)
        return (wrong, False) if wrong.any() else (late, True)

    # ---- asynchronous operations

    def begin(self, x: Wave, i: Instruction, thread: int, kind: str) -> Operation:
        """An asynchronous operation that a thread issues: "tma_load" "tma_store" "tma_reduce" "bulk" "cp.async" "wgmma" "tcgen05.mma"
        "tcgen05.cp" "tcgen05.shift". Returns its handle."""
        first = thread // WARP
        if kind == "wgmma":
            first -= int(self.x.tid[thread]) // WARP % GROUP
        warps = np.arange(first, first + (GROUP if kind == "wgmma" else 1))
        if len(self.operations) == self.operations.room:
            self._forget()
        return self.operations.begin(kind, i, warps, x.steps, int(self.order.clock[first]))

    def _forget(self) -> None:
        """Forget the operations that no word, register, group or barrier refers to, but for those that this very instruction issues."""
        by, read = self.who - OPERATIONS, self.read_by
        kept = np.zeros(len(self.operations), bool)
        kept[by[by >= 0]] = True
        kept[read[read >= 0]] = True
        groups = [op for g in self._groups.values() for some in (g.open, *g.pending) for op in some]
        held = [op for ops in self._registers.values() for op in ops]
        now = [op for op in self.operations.operations if op.since == self.x.steps]
        kept[[op.number for op in (*groups, *held, *now, *self._copies.values(), *self.order.pending)]] = True
        kept[self.tensor.remembered()] = True
        numbers = np.flatnonzero(kept)
        new = self.operations.keep(numbers)
        self.order.keep(numbers, self.operations.room)
        self.who[by >= 0] = OPERATIONS + new[by[by >= 0]]
        read[read >= 0] = new[read[read >= 0]]
        self.tensor.renumber(numbers, new)

    def op_reads(self, op: Operation, cta: Cta, offsets: np.ndarray) -> None:
        """It reads these bytes of a CTA's window (offsets from the window's begin, one for every 4 bytes is enough)."""
        at = self._of_cta(cta, offsets)
        self.lifetimes.touch(op.instruction, cta.index, op.warps)
        who = self.who[at]
        by_op = (who >= OPERATIONS) & (who != OPERATIONS + op.number)
        if op.kind not in GENERIC and self.operations.generic[who[by_op] - OPERATIONS].any():
            numbers = who[by_op] - OPERATIONS
            allocs = [n for n in np.unique(numbers).tolist() if self.operations[n].kind == "tcgen05.alloc"]
            if allocs:  # an address of tensor memory is no operand: what was meant to lie there has not come
                who = np.where(np.isin(who, np.array(allocs) + OPERATIONS), NOBODY, who)
                by_op &= who != NOBODY
        by_warp = (who >= 0) & (who < OPERATIONS)
        if by_warp.any():
            self._op_reads_of_warps(op, at[by_warp], who[by_warp])
        if by_op.any():
            self._op_reads_of_others(op, at[by_op], who[by_op] - OPERATIONS)
        nobody = who == NOBODY
        if nobody.any():
            self._too_early(op.instruction, at[nobody])
        if op.products:
            op.products[-1].read(at, nobody)
        elif self.unwritten.shared is not None:
            self.unwritten.doubts.tell(op.instruction, self.unwritten.shared.marks[at])
        if op.kind not in ("wgmma", "tcgen05.mma"):
            self._elsewhere(who)
        self.read_by[int(op.warps[0]) % self.per_cta // GROUP % READERS, at] = op.number

    def _op_reads_of_warps(self, op: Operation, places: np.ndarray, other: np.ndarray) -> None:
        """An operation reads what warps have written."""
        w, when = op.warps, self.when[places]
        unseen, formal = self.missing(lambda order: (order.seen[w][:, other] < when).any(axis=0))
        if unseen.any():
            self._doubt(
                op, "X008", places[unseen], f"{{i}} reads {{where}}, which {self._writer(places[unseen][0])}: nothing orders "
                "the two", "put fence.proxy.async and a barrier between them", formal=formal,
            )  # fmt: skip
        if op.kind in GENERIC or (unseen.any() and not formal):
            return
        unfenced, formal = self.missing(lambda order: (order.fenced[w][:, other] < when).all(axis=0) & ~unseen)
        if unfenced.any():
            place = places[unfenced][0]
            self._doubt(
                op, "X003", places[unfenced], f"{{i}} reads {{where}} through the asynchronous proxy, which "
                f"{self._writer(place)}, without fence.proxy.async between",
                f"put fence.proxy.async.shared::cta behind line {self.line[place]}, before the barrier", formal=formal,
            )  # fmt: skip

    def _op_reads_of_others(self, op: Operation, places: np.ndarray, number: np.ndarray) -> None:
        """An operation reads what other operations write."""
        w = op.warps
        apart = ~self.operations.piped(op, number)
        unseen, formal = self.missing(lambda order: ~order.done[w][:, number].all(axis=0) & apart)
        if unseen.any():
            late, by = places[unseen], int(self.who[places[unseen][0]])
            why, repair = self._other_stage(self._last_wait(w, late), late[self.who[late] == by], self.operations[by - OPERATIONS])
            self._doubt(
                op, "X004", late, f"{{i}} reads {{where}} before it has waited for {self._writer(late[0])}{why}",
                repair or self._wait_for(by), formal=formal, cause=self.operations[by - OPERATIONS].kind,
            )  # fmt: skip
        if op.kind in GENERIC:
            return
        crosses = self.operations.generic[number] & ~unseen
        unfenced, formal = self.missing(lambda order: crosses & ~order.done_fenced[w][:, number].any(axis=0))
        if unfenced.any():
            place = places[unfenced][0]
            self._doubt(
                op, "X003", places[unfenced], f"{{i}} reads {{where}} through the asynchronous proxy, which "
                f"{self._writer(place)} writes, without fence.proxy.async between",
                "put fence.proxy.async.shared::cta behind the wait for it (cp.async.wait_group or its mbarrier), before the barrier", formal=formal,
            )  # fmt: skip

    def _doubt(
        self, op: Operation, code: str, places: np.ndarray, sentence: str, repair: str = "", *, formal: bool = False, cause: str = ""
    ) -> None:
        """Something is wrong with words that an operation reads: told at once, or, of a product, when the part of it that depends on them is used."""
        tell = functools.partial(self._find, code, op.instruction, places, sentence, repair, formal=formal, cause=cause)
        if op.products:
            op.products[-1].doubt(code, places, lambda user: tell())
        else:
            tell()

    def op_writes(self, op: Operation, cta: Cta, offsets: np.ndarray, lay_there: np.ndarray | None = None) -> None:
        """It writes these bytes of a CTA's window; `lay_there` says of which words that the same bytes lay there before."""
        at = self._of_cta(cta, offsets)
        self.lifetimes.touch(op.instruction, cta.index, op.warps)
        self._arrives_late(op, at)
        warps = np.full(len(at), op.warps[0])
        who = self.who[at]
        mine = who == OPERATIONS + op.number
        who = np.where(mine | self.operations.piped(op, np.maximum(who - OPERATIONS, 0)) & (who >= OPERATIONS), NOBODY, who)
        if lay_there is not None:
            who = np.where(lay_there & self._brought_so(op, who), NOBODY, who)
        self._seen(op.instruction, at, warps, who, "overwritten")
        held = self.who[at] != NOBODY  # who has read the others came too early, which is told
        self._readers_done(op.instruction, at[held], warps[held])
        by_warp = (who >= 0) & (who < OPERATIONS)
        if op.kind not in GENERIC and by_warp.any():
            self._op_overwrites(op, at[by_warp], who[by_warp])
        self.parts.written_whole(at)
        if self.unwritten.shared is not None:
            self.unwritten.shared.clear(at * WORD, WORD)
        self.who[at], self.line[at], self.strong[at] = OPERATIONS + op.number, op.instruction.line, False

    def _brought_so(self, op: Operation, who: np.ndarray) -> np.ndarray:
        """Which words have come by a copy like this one? Each warp of several may issue the copy, and the barrier count them all."""
        numbers = np.unique(who[who >= OPERATIONS]) - OPERATIONS
        alike = [n for n in numbers.tolist() if self.operations[n].instruction.name == op.instruction.name]
        return np.isin(who, np.array(alike, np.int64) + OPERATIONS)

    def _op_overwrites(self, op: Operation, places: np.ndarray, other: np.ndarray) -> None:
        """An operation of the asynchronous proxy overwrites what warps have written."""
        first, when = op.warps[0], self.when[places]
        unfenced, formal = self.missing(lambda order: (order.fenced[first, other] < when) & (order.seen[first, other] >= when))
        if unfenced.any():
            self._find(
                "X003", op.instruction, places[unfenced], f"{{i}} overwrites {{where}} through the asynchronous proxy, which "
                f"{self._writer(places[unfenced][0])}, without fence.proxy.async between",
                "put fence.proxy.async.shared::cta behind the ordinary stores, before the barrier", formal=formal,
            )  # fmt: skip

    def copy(self, x: Wave, i: Instruction, flat: np.ndarray, size: int, values: Values) -> None:
        """cp.async: as `op_writes` for the running threads; what a warp copies before it commits is one operation."""
        for thread in x.threads[np.unique(x.threads >> 5, return_index=True)[1]].tolist():
            if thread // WARP not in self._copies:
                operation = self.begin(x, i, thread, "cp.async")
                self.joins(operation, thread, "cp.async")
                self._copies[thread // WARP] = operation
        numbers = np.zeros(x.total // WARP, np.int32)
        numbers[list(self._copies)] = [operation.number for operation in self._copies.values()]
        at, warps = self._words(x, flat, size)
        self._reach(i, at, warps)
        own, who = OPERATIONS + numbers[warps], self.who[at]
        copies = (who >= OPERATIONS) & self.operations.copies[np.maximum(who - OPERATIONS, 0)]
        if copies.any():  # several warps may copy the same
            who = np.where((who == own) | (copies & values.lay_there), NOBODY, who)
        self._seen(i, at, warps, who, "overwritten", values)
        self._readers_done(i, at, warps, values)
        self.parts.written_whole(at)
        if self.unwritten.shared is not None:
            self.unwritten.shared.clear(flat, size)
        self.who[at], self.line[at], self.strong[at] = own, i.line, False
        if (self.who[at] != own).any():
            self._one_stays(i, at, at, warps, values)


_UNWRITTEN = dict.fromkeys(("wgmma", "tcgen05"), "check the descriptor, and that the load that fills the stage was issued")
