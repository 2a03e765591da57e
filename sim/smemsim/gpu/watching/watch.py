"""The watch: who wrote and who reads each word of shared memory, what orders them, and what is still in flight.

Written against the PTX memory model (PTX ISA 8): a write is seen by a later access of another thread only when synchronisation lies between
them, by the asynchronous proxy (TMA, wgmma, tcgen05) only when a fence.proxy.async lies on that way too, and what an asynchronous operation
writes only when its completion was waited for. Threads of one warp count as ordered.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.gpu.watching.handles import GENERIC, Operation
from smemsim.gpu.watching.lifetimes import Lifetimes
from smemsim.gpu.watching.ordering import Ordering
from smemsim.gpu.watching.products import Overwritten, uses
from smemsim.gpu.watching.shadow import ATOMIC, NOBODY, OPERATIONS, READERS, WORD
from smemsim.gpu.watching.tensor import TensorWatch
from smemsim.gpu.watching.unwritten import Unwritten, is_followed
from smemsim.gpu.wave import WARP
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.gpu.wave import Cta, Wave

__all__ = ["Watch"]


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

    def write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> None:
        """The running threads write `size` bytes at places `flat` (n,) of `x.shared`."""
        at, warps = self._words(x, flat, size)
        self._reach(i, at, warps)
        if size < WORD:
            self._part(i, at, warps, flat, size)
            return
        if self.unwritten.shared is not None:
            self.unwritten.shared.clear(flat, size)
        self._seen(i, at, warps, self.who[at], "overwritten")
        self._readers_done(i, at, warps)
        self.parts.written_whole(at)
        self.who[at], self.when[at], self.line[at] = warps, self.order.clock[warps], i.line

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

    def _part(self, i: Instruction, at: np.ndarray, warps: np.ndarray, flat: np.ndarray, size: int) -> None:
        """Bytes of words are written: neighbours that other warps write or read are no race."""
        if self.unwritten.shared is not None:
            self.unwritten.shared.clear(flat, size)
        bits, who, when = self.parts.bits(flat, size), self.who[at], self.when[at]
        self._seen(i, at, warps, np.where(self.parts.overlap(at, bits), who, NOBODY), "overwritten")
        read = self.parts.were_read(at, bits)
        if read.any():
            self._readers_done(i, at[read], warps[read])
        self.who[at], self.when[at], self.line[at] = warps, self.order.clock[warps], i.line
        before = np.where(when == self.when[at], who, NOBODY)  # what a warp wrote before it last met others is known to them
        self.parts.write(at, bits, before, warps, self.who[at])

    def strong_write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> None:
        """The running threads write by atomic, relaxed, release or volatile operations, which make no race among themselves."""
        at, warps = self._words(x, flat, size)
        self._reach(i, at, warps)
        self.parts.written_whole(at)
        if self.unwritten.shared is not None and i.op == "st":
            self.unwritten.shared.clear(flat, size)
        self.who[at], self.line[at] = ATOMIC, i.line

    def _seen(self, i: Instruction, at: np.ndarray, warps: np.ndarray, who: np.ndarray, done: str) -> None:
        """Has every warp seen the writes it now reads or overwrites?"""
        order = self.order
        if done != "read":  # several warps that write at the same line, the same value most often, are not a race worth a finding
            who = np.where(self.line[at] == i.line, NOBODY, who)
        by_warp = (who >= 0) & (who < OPERATIONS) & (who != warps)
        if by_warp.any():
            mine, other = warps[by_warp], who[by_warp]
            unseen = order.seen[mine, other] < self.when[at[by_warp]]
            if unseen.any():
                places = at[by_warp][unseen]
                self._find(
                    "X008", i, places, f"{{i}} of warp {self._warp(mine[unseen][0])} touches {{where}}, which {self._writer(places[0])}: "
                    "nothing orders the two", "put a barrier between them (bar.sync, mbarrier)",
                )  # fmt: skip
        by_op = who >= OPERATIONS
        if by_op.any():
            unseen = ~order.done[warps[by_op], who[by_op] - OPERATIONS]
            if unseen.any():
                places = at[by_op][unseen]
                code = "X004" if done == "read" else "X005"
                self._find(
                    code, i, places, f"{{where}} is {done} by {{i}} of warp {self._warp(warps[by_op][unseen][0])}, which has not waited for "
                    f"{self._writer(places[0])}", self._make_room(i, at, int(self.who[places[0]])),
                )  # fmt: skip

    def _readers_done(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        """May what lies at `at` be overwritten: has each warp that writes seen all its readers done?"""
        order = self.order
        read = np.flatnonzero(self.read_line[at])
        if read.size:
            mine = warps[read]
            readers = mine // self.per_cluster * self.per_cluster + np.arange(self.per_cluster)[:, None]
            late = (self.read_when[:, at[read]] > order.seen[mine, readers]) & (readers != mine)
        if read.size and late.any():
            places = at[read[np.nonzero(late)[1]]]
            place = places[0]
            self._find(
                "X008", i, places, f"{{i}} overwrites {{where}}, which line {self.read_line[place]} may still read: nothing orders the two",
                "put a barrier between them (bar.sync, mbarrier)",
            )  # fmt: skip
        for by in self.read_by[:, at]:
            reads = by >= 0
            late = reads & ~order.read_done[warps, by]
            for number in np.unique(by[late]).tolist() if late.any() else ():
                operation, places = self.operations[number], at[late & (by == number)]
                tell = functools.partial(
                    self._find, "X005", i, places, f"{{i}} overwrites {{where}}, which {self._name(operation)} may still read: nobody has waited for it",
                    self._wait_for(OPERATIONS + operation.number),
                )  # fmt: skip
                if (
                    i.op != "cp" or "bulk" not in i.modifiers or not self.products.overwritten(operation, places, tell)
                ):  # by a transfer, which is whole
                    tell()

    # ---- asynchronous operations

    def begin(self, x: Wave, i: Instruction, thread: int, kind: str) -> Operation:
        """An asynchronous operation that a thread issues: "tma_load" "tma_store" "tma_reduce" "bulk" "cp.async" "wgmma" "tcgen05.mma"
        "tcgen05.cp" "tcgen05.shift". Returns its handle."""
        first = thread // WARP
        warps = np.arange(first // 4 * 4, first // 4 * 4 + 4) if kind == "wgmma" else np.array([first])
        if len(self.operations) == self.operations.room:
            self._forget()
        return self.operations.begin(kind, i, warps, x.steps)

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
        who, order, w = self.who[at], self.order, op.warps
        by_warp = (who >= 0) & (who < OPERATIONS)
        if by_warp.any():
            places, other = at[by_warp], who[by_warp]
            when = self.when[places]
            unseen = (order.seen[w][:, other] < when).any(axis=0)
            unfenced = (order.fenced[w][:, other] < when).all(axis=0) & ~unseen
            if op.kind in GENERIC:
                unfenced[:] = False
            if unseen.any():
                self._doubt(
                    op, "X008", places[unseen], f"{{i}} reads {{where}}, which {self._writer(places[unseen][0])}: nothing orders "
                    "the two", "put fence.proxy.async and a barrier between them",
                )  # fmt: skip
            elif unfenced.any():
                place = places[unfenced][0]
                self._doubt(
                    op, "X003", places[unfenced], f"{{i}} reads {{where}} through the asynchronous proxy, which "
                    f"{self._writer(place)}, without fence.proxy.async between",
                    f"put fence.proxy.async.shared::cta behind line {self.line[place]}, before the barrier",
                )  # fmt: skip
        by_op = (who >= OPERATIONS) & (who != OPERATIONS + op.number)
        if op.kind not in GENERIC and self.operations.generic[who[by_op] - OPERATIONS].any():
            numbers = who[by_op] - OPERATIONS
            allocs = [n for n in np.unique(numbers).tolist() if self.operations[n].kind == "tcgen05.alloc"]
            if allocs:  # an address of tensor memory is no operand: what was meant to lie there has not come
                who = np.where(np.isin(who, np.array(allocs) + OPERATIONS), NOBODY, who)
                by_op &= who != NOBODY
        if by_op.any():
            places, number = at[by_op], who[by_op] - OPERATIONS
            unseen = ~order.done[w][:, number].all(axis=0) & ~self.operations.piped(op, number)
            if unseen.any():
                self._doubt(
                    op, "X004", places[unseen], f"{{i}} reads {{where}} before it has waited for {self._writer(places[unseen][0])}",
                    self._wait_for(int(self.who[places[unseen][0]])),
                )  # fmt: skip
            unfenced = self.operations.generic[number] & ~order.done_fenced[w][:, number].any(axis=0) & ~unseen
            if unfenced.any() and op.kind not in GENERIC:
                place = places[unfenced][0]
                self._doubt(
                    op, "X003", places[unfenced], f"{{i}} reads {{where}} through the asynchronous proxy, which "
                    f"{self._writer(place)}, without fence.proxy.async between",
                    "put fence.proxy.async.shared::cta behind cp.async.wait_group, before the barrier",
                )  # fmt: skip
        nobody = who == NOBODY
        if nobody.any():
            self._too_early(op.instruction, at[nobody])
        if op.products:
            op.products[-1].read(at, nobody)
        elif self.unwritten.shared is not None:
            self.unwritten.doubts.tell(op.instruction, self.unwritten.shared.marks[at])
        if op.kind not in ("wgmma", "tcgen05.mma"):
            self._elsewhere(who)
        self.read_by[int(w[0]) // 4 % READERS, at] = op.number

    def _doubt(self, op: Operation, code: str, places: np.ndarray, sentence: str, repair: str = "") -> None:
        """Something is wrong with words that an operation reads: told at once, or, of a product, when the part of it that depends on them is used."""
        tell = functools.partial(self._find, code, op.instruction, places, sentence, repair)
        if op.products:
            op.products[-1].doubt(code, places, lambda user: tell())
        else:
            tell()

    def op_writes(self, op: Operation, cta: Cta, offsets: np.ndarray) -> None:
        """It writes these bytes of a CTA's window."""
        at = self._of_cta(cta, offsets)
        self.lifetimes.touch(op.instruction, cta.index, op.warps)
        self._arrives_late(op, at)
        warps = np.full(len(at), op.warps[0])
        who = self.who[at]
        mine = who == OPERATIONS + op.number
        who = np.where(mine | self.operations.piped(op, np.maximum(who - OPERATIONS, 0)) & (who >= OPERATIONS), NOBODY, who)
        self._seen(op.instruction, at, warps, who, "overwritten")
        self._readers_done(op.instruction, at, warps)
        if op.kind not in GENERIC:
            by_warp = (who >= 0) & (who < OPERATIONS)
            if by_warp.any():
                places, other = at[by_warp], who[by_warp]
                unfenced = (self.order.fenced[op.warps[0], other] < self.when[places]) & (
                    self.order.seen[op.warps[0], other] >= self.when[places]
                )
                if unfenced.any():
                    self._find(
                        "X003", op.instruction, places[unfenced], f"{{i}} overwrites {{where}} through the asynchronous proxy, which "
                        f"{self._writer(places[unfenced][0])}, without fence.proxy.async between",
                        "put fence.proxy.async.shared::cta behind the ordinary stores, before the barrier",
                    )  # fmt: skip
        self.parts.written_whole(at)
        if self.unwritten.shared is not None:
            self.unwritten.shared.clear(at * WORD, WORD)
        self.who[at], self.line[at] = OPERATIONS + op.number, op.instruction.line

    def copy(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> None:
        """cp.async: as `op_writes` for the running threads; what a warp copies before it commits is one operation."""
        for thread in x.threads[np.unique(x.threads >> 5, return_index=True)[1]].tolist():
            if thread // WARP not in self._copies:
                operation = self.begin(x, i, thread, "cp.async")
                self.joins(operation, thread, "cp.async")
                self._copies[thread // WARP] = operation
        numbers = np.zeros(x.total // WARP, np.int32)
        numbers[list(self._copies)] = [operation.number for operation in self._copies.values()]
        at, warps = self._words(x, flat, size)
        own = OPERATIONS + numbers[warps]
        self._seen(i, at, warps, np.where(self.who[at] == own, NOBODY, self.who[at]), "overwritten")
        self._readers_done(i, at, warps)
        self.parts.written_whole(at)
        if self.unwritten.shared is not None:
            self.unwritten.shared.clear(flat, size)
        self.who[at], self.line[at] = own, i.line


_UNWRITTEN = dict.fromkeys(("wgmma", "tcgen05"), "check the descriptor, and that the load that fills the stage was issued")
