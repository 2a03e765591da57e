"""The watch: who wrote and who reads each word of shared memory, what orders them, and what is still in flight.

Written against the PTX memory model (PTX ISA 8): a write is seen by a later access of another thread only when synchronisation lies between
them, by the asynchronous proxy (TMA, wgmma, tcgen05) only when a fence.proxy.async lies on that way too, and what an asynchronous operation
writes only when its completion was waited for. Threads of one warp count as ordered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.gpu.handles import GENERIC, Groups, Handles, Operation
from smemsim.gpu.order import Order
from smemsim.gpu.watch_tensor import TensorWatch
from smemsim.gpu.wave import WARP
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.gpu.program import Block
    from smemsim.gpu.wave import Cta, Wave

__all__ = ["Watch"]

WORD = 4
NOBODY, OPERATIONS = -1, 1 << 20  # in `who`: warps have their number, asynchronous operations theirs from here on
ATOMIC = -2  # atomic and other strong operations of anybody
READERS = 4  # asynchronous readers of a word that are remembered, by their warpgroup


class Watch:
    """What the operations of one wave tell. Every method is called for the threads that run (`x.threads`) unless it names others."""

    def __init__(self, x: Wave) -> None:
        self.x = x
        words = len(x.shared) // WORD
        self.order = Order(x.total // WARP)
        self.per_cluster = x.stride // WARP * x.launch.cluster_size
        self.who = np.full(words, NOBODY, np.int32)
        self.when = np.zeros(words, np.int32)
        self.line = np.zeros(words, np.int32)
        self.read_when = np.zeros((self.per_cluster, words), np.int32)
        self.read_line = np.zeros(words, np.int32)
        self.read_by = np.full((READERS, words), NOBODY, np.int32)
        self._told: set[Operation] = set()  # operations whose registers were used too early, and that have a finding
        self.early: dict[int, tuple[Instruction, np.ndarray]] = {}  # by line: words that were read before anybody had written them
        self.operations = Handles()
        self.in_flight = 0
        self._copies: dict[int, Operation] = {}  # of a warp: its open cp.async operation
        self._registers: dict[int, dict[Operation, None]] = {}  # of a slot
        self._groups: dict[tuple[int, str], Groups] = {}
        self._made: dict[
            Any, tuple[int, int, Instruction, set[int]]
        ] = {}  # mbarriers: warp, its clock, mbarrier.init, warps that have seen it
        self._published: set[Any] = set()  # of them, those with a fence.mbarrier_init behind
        self.lines = {i.line: i for i in x.program.inlined.body}
        self.tensor = TensorWatch(self)

    # ---- ordinary accesses of shared memory

    def read(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> None:
        """The running threads read `size` bytes at places `flat` (n,) of `x.shared`."""
        at, warps = self._words(x, flat, size)
        who = self.who[at]
        self._seen(i, at, warps, who, "read")
        if (who == NOBODY).any():
            self._too_early(i, at[who == NOBODY])
        self.read_when[warps % self.per_cluster, at] = self.order.clock[warps]
        self.read_line[at] = i.line

    def write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> None:
        """The running threads write `size` bytes at places `flat` (n,) of `x.shared`."""
        at, warps = self._words(x, flat, size)
        self._seen(i, at, warps, self.who[at], "overwritten")
        self._readers_done(i, at, warps)
        self.who[at], self.when[at], self.line[at] = warps, self.order.clock[warps], i.line

    def strong_write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> None:
        """The running threads write by atomic, relaxed, release or volatile operations, which make no race among themselves."""
        at, _ = self._words(x, flat, size)
        self.who[at], self.line[at] = ATOMIC, i.line

    def _words(self, x: Wave, flat: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        at, warps = flat >> 2, x.threads >> 5
        if size > WORD:
            count = size // WORD
            at, warps = (at[:, None] + np.arange(count)).reshape(-1), np.repeat(warps, count)
        return at, warps

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
                    f"{self._writer(places[0])}", self._wait_for(int(self.who[places[0]])),
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
            if late.any():
                operation = self.operations[int(by[late][0])]
                self._find(
                    "X005", i, at[late], f"{{i}} overwrites {{where}}, which {self._name(operation)} may still read: nobody has waited for it",
                    self._wait_for(OPERATIONS + operation.number),
                )  # fmt: skip

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
                self._find(
                    "X008", op.instruction, places[unseen], f"{{i}} reads {{where}}, which {self._writer(places[unseen][0])}: nothing orders "
                    "the two", "put fence.proxy.async and a barrier between them",
                )  # fmt: skip
            elif unfenced.any():
                place = places[unfenced][0]
                self._find(
                    "X003", op.instruction, places[unfenced], f"{{i}} reads {{where}} through the asynchronous proxy, which "
                    f"{self._writer(place)}, without fence.proxy.async between",
                    f"put fence.proxy.async.shared::cta behind line {self.line[place]}, before the barrier",
                )  # fmt: skip
        by_op = (who >= OPERATIONS) & (who != OPERATIONS + op.number)
        if by_op.any():
            places, number = at[by_op], who[by_op] - OPERATIONS
            unseen = ~order.done[w][:, number].all(axis=0) & ~self.operations.piped(op, number)
            if unseen.any():
                self._find(
                    "X004", op.instruction, places[unseen], f"{{i}} reads {{where}} before it has waited for {self._writer(places[unseen][0])}",
                    self._wait_for(int(self.who[places[unseen][0]])),
                )  # fmt: skip
            unfenced = self.operations.generic[number] & ~order.done_fenced[w][:, number].any(axis=0) & ~unseen
            if unfenced.any() and op.kind not in GENERIC:
                place = places[unfenced][0]
                self._find(
                    "X003", op.instruction, places[unfenced], f"{{i}} reads {{where}} through the asynchronous proxy, which "
                    f"{self._writer(place)}, without fence.proxy.async between",
                    "put fence.proxy.async.shared::cta behind cp.async.wait_group, before the barrier",
                )  # fmt: skip
        if (who == NOBODY).any():
            self._too_early(op.instruction, at[who == NOBODY])
        self.read_by[int(w[0]) // 4 % READERS, at] = op.number

    def op_writes(self, op: Operation, cta: Cta, offsets: np.ndarray) -> None:
        """It writes these bytes of a CTA's window."""
        at = self._of_cta(cta, offsets)
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
        self.who[at], self.line[at] = OPERATIONS + op.number, op.instruction.line

    def _too_early(self, i: Instruction, at: np.ndarray) -> None:
        self._find("R507", i, at, "{i} reads {where}, which nobody has written")
        words = self.early.setdefault(i.line, (i, np.zeros(len(self.who), bool)))[1]
        words[at] = True

    def _arrives_late(self, op: Operation, at: np.ndarray) -> None:
        """Bytes come that somebody has read already, when nobody had written them: the reader did not wait."""
        for line, (i, words) in list(self.early.items()):
            if words[at].any():
                del self.early[line]
                self.x.launch.findings.pop(("R507", line), None)
                self._find(
                    "X004", i, at[words[at]], f"{{i}} reads {{where}} before {self._name(op)} has brought it: nothing makes the reader wait",
                    "wait for the phase of its mbarrier (mbarrier.try_wait.parity) first",
                )  # fmt: skip

    def nothing_came(self) -> None:
        """Nothing goes on: what was read before anybody had written it was to be brought by loads that are still to come."""
        loads = [i for i in self.lines.values() if i.op == "cp" and "mbarrier::complete_tx::bytes" in i.modifiers]
        for line, (i, words) in list(self.early.items()):
            if loads and self.x.launch.findings.pop(("R507", line), None) is not None:
                self._find(
                    "X004", i, np.flatnonzero(words), f"{{i}} reads {{where}} before anybody has brought it (line {', '.join(str(n.line) for n in loads[:6])} "
                    "may, and never came to it): nothing made the reader wait",
                    "wait for the phase of its mbarrier (mbarrier.try_wait.parity), with the parity of this round",
                )  # fmt: skip

    def makes(self, i: Instruction, barrier: Any, thread: int) -> None:
        """A thread executes mbarrier.init."""
        warp = thread // WARP
        self._made[barrier] = (warp, int(self.order.clock[warp]), i, {warp})

    def publish(self, x: Wave) -> None:
        """fence.mbarrier_init of the running threads: who meets them at a barrier of the cluster, relaxed or not, has seen their mbarrier.init."""
        warps = set(self._running(x).tolist())
        self._published |= {barrier for barrier, made in self._made.items() if made[0] in warps}

    def met(self, first: int, count: int) -> None:
        """The warps of a cluster, `count` from `first` on, have met at its barrier."""
        warps = set(range(first, first + count))
        for barrier in [b for b in self._published if self._made[b][0] in warps]:
            self._made[barrier][3].update(warps)
            self._published.discard(barrier)

    def uses(self, i: Instruction, barrier: Any, threads: np.ndarray) -> None:
        """Threads arrive or wait at an mbarrier: has each seen mbarrier.init?"""
        if barrier not in self._made:
            return
        maker, when, made, known = self._made[barrier]
        warps = set(np.unique(threads >> 5).tolist()) - known
        for warp in sorted(warps):
            if self.order.seen[warp, maker] >= when:
                known.add(warp)
            else:
                self.x.launch.find(
                    "X008", i, f"{i.name} of warp {self._warp(warp)} uses the mbarrier at {barrier.offset:#x}, which warp {self._warp(maker)} "
                    f"initialises at line {made.line}: nothing orders the two",
                    "after mbarrier.init: fence.mbarrier_init, then bar.sync (barrier.cluster in clusters), before others use it",
                    because="PTX ISA 9.7.13.15.9",
                )  # fmt: skip

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
        self.who[at], self.line[at] = own, i.line

    def op_registers(self, op: Operation, slots: set[int]) -> None:
        """It reads or writes these registers of its warpgroup until it is waited for."""
        op.slots |= slots
        for slot in slots:
            self._registers.setdefault(slot, {})[op] = None
            self.in_flight |= 1 << slot

    def completes_on(self, op: Operation, barrier: Any) -> None:
        """Its completion is counted by the current phase of an mbarrier (the Mbarrier object)."""
        self.order.brings(op, op.warps, barrier)

    def joins(self, op: Operation, thread: int, group: str) -> None:
        """It belongs to the next group its thread commits: "bulk" "cp.async" "wgmma" "tcgen05"."""
        for warp in op.warps.tolist():
            self._groups.setdefault((warp, group), Groups()).open.append(op)

    def commit(self, x: Wave, i: Instruction, group: str, barrier: Any = None) -> None:
        """The running threads commit their open group; tcgen05.commit and cp.async.mbarrier.arrive name the mbarrier that counts it."""
        for warp in self._running(x).tolist():
            if group == "cp.async":
                self._copies.pop(warp, None)
            groups = self._groups.setdefault((warp, group), Groups())
            if barrier is not None:
                for operation in groups.open:
                    self.order.brings(operation, np.array([warp]), barrier)
            else:
                groups.pending.append(groups.open)
            groups.open = []

    def wait(self, x: Wave, i: Instruction, group: str, left: int, *, only_read: bool = False) -> None:
        """The running threads wait until at most `left` of their groups are pending; `only_read`: for what they read (`.read`)."""
        for warp in self._running(x).tolist():
            groups = self._groups.setdefault((warp, group), Groups())
            count = max(0, len(groups.pending) - left)
            over = [op for done in groups.pending[:count] for op in done]
            if over:
                self.order.knows(np.array([warp]), over, only_read=only_read)
            if not only_read:
                del groups.pending[:count]
            if group == "wgmma" and over:
                self._registers_free(warp, over)

    def _registers_free(self, warp: int, operations: list[Operation]) -> None:
        """The registers of operations that the first warp of their warpgroup has waited for are free."""
        done = [op for op in operations if op.warps[0] == warp]
        for slot in set().union(*(op.slots for op in done)):
            held = self._registers.get(slot, {})
            for operation in done:
                held.pop(operation, None)
            if not held:
                self._registers.pop(slot, None)
                self.in_flight &= ~(1 << slot)

    # ---- order

    def release(self, x: Wave, threads: np.ndarray, what: Any) -> None:
        """Threads arrive at something (a barrier object): what they have seen goes into its current phase."""
        self.order.release(np.unique(threads >> 5), what)

    def complete(self, what: Any) -> None:
        """A phase is complete: those who acquire from now on see what was released into it."""
        self.order.complete(what)

    def acquire(self, x: Wave, threads: np.ndarray, what: Any) -> None:
        """Threads have seen the last complete phase."""
        self.order.acquire(np.unique(threads >> 5), what)

    def meet(self, x: Wave, ctas: np.ndarray) -> None:
        """The running threads of these CTAs (by their index) meet at a barrier: release, complete and acquire in one."""
        per_cta = x.stride // WARP
        here = np.zeros(x.total // WARP, bool)
        here[x.threads >> 5] = True
        warps = ctas[:, None] * per_cta + np.arange(per_cta)
        self.order.meet(warps, here[warps])

    def fence_async(self, x: Wave, i: Instruction) -> None:
        """fence.proxy.async: what the running threads have seen is visible to asynchronous operations ordered behind it."""
        self.order.fence(self._running(x))

    def check_registers(self, x: Wave, block: Block) -> None:
        """A block names registers that are in flight: wrong, unless it moves them or is the next wgmma on the same accumulators."""
        from smemsim.gpu.program import slots_of

        warps = set((x.threads >> 5).tolist())
        for i in block.instructions:
            if i.op == "wgmma":
                continue
            for slot in slots_of(i):
                held = [op for op in self._registers.get(slot, {}) if warps & set(op.warps.tolist())]
                if not held or held[0] in self._told:
                    continue
                if i.op == "mov":  # a compiler's copy in front of the wait: its result is in flight as well
                    self.op_registers(held[0], slots_of(i))
                    continue
                self._told.add(held[0])
                name = next((r.name for n, r in enumerate(x.program.inlined.registers) if n == slot), "a register")
                x.launch.find(
                    "X007", i, f"{i.name} uses {name} while {self._name(held[0])} is in flight: its registers are not to be touched before "
                    "wgmma.wait_group", f"wgmma.commit_group and wgmma.wait_group between line {held[0].instruction.line} and this one",
                    because="PTX ISA 9.7.15.7",
                )  # fmt: skip

    # ---- inside

    def _running(self, x: Wave) -> np.ndarray:
        return np.unique(x.threads >> 5)

    def _of_cta(self, cta: Cta, offsets: np.ndarray) -> np.ndarray:
        words: np.ndarray = (np.asarray(offsets, np.int64) >> 2) + cta.index * (self.x.pitch // WORD)
        return words

    def _warp(self, warp: Any) -> str:
        cta, own = divmod(int(warp), self.x.stride // WARP)
        return str(own) if len(self.x.ctas) == 1 else f"{own} (CTA {self.x.ctas[cta].number})"

    def _name(self, op: Operation) -> str:
        return f"{op.instruction.name} of line {op.instruction.line}"

    def _writer(self, place: Any) -> str:
        who = int(self.who[place])
        if who >= OPERATIONS:
            return self._name(self.operations[who - OPERATIONS])
        line = int(self.line[place])
        return f"warp {self._warp(who)} wrote at line {line}{f' ({self.lines[line].name})' if line in self.lines else ''}"

    def _wait_for(self, who: int) -> str:
        if who < OPERATIONS:
            return ""
        return {
            "tma_load": "wait for the phase of its mbarrier (mbarrier.try_wait.parity) first",
            "tcgen05.mma": "tcgen05.commit behind it, and wait for the phase of its mbarrier (mbarrier.try_wait) first",
            "tcgen05.cp": "tcgen05.commit behind it, and wait for the phase of its mbarrier (mbarrier.try_wait) first",
            "tcgen05.alloc": "put a barrier (bar.sync) between them",
            "wgmma": "wgmma.commit_group and wgmma.wait_group first",
            "cp.async": "cp.async.commit_group, cp.async.wait_group and a barrier first",
            "tma_store": "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read first",
            "tma_reduce": "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read first",
        }.get(self.operations[who - OPERATIONS].kind, "wait for the mbarrier, or the group, that counts it first")

    def _find(self, code: str, i: Instruction, places: np.ndarray, sentence: str, repair: str = "") -> None:
        """A finding about words of shared memory."""
        if (code, i.line) in self.x.launch.findings:
            return
        per_cta = self.x.pitch // WORD
        cta = self.x.ctas[int(places[0]) // per_cta]
        offsets = np.unique(places[places // per_cta == cta.index]) % per_cta * WORD + self.x.window_begin
        where = f"shared {int(offsets[0]):#x}" + (f" to {int(offsets[-1]) + WORD - 1:#x}" if len(offsets) > 1 else "")
        where += f" of CTA {cta.number}" if self.x.launch.ctas > 1 else ""
        message = sentence.replace("{i}", i.name).replace("{where}", where)
        self.x.launch.find(code, i, message, repair, because="PTX ISA 8 (memory consistency), 9.7.13")
