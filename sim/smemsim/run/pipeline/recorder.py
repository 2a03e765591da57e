"""Records the loads of one cluster's stages, and what the issuing thread knew at each of them.

A *filling* is what one phase of an mbarrier brings to shared memory: the loads of A and B into one stage. A group of
cp.async is one too, and so are the products of one accumulator in tensor memory until an epilogue reads it. Knowledge
moves through threads and barriers like happens-before. After a wait for the phase of a filling's mbarrier, a thread
knows that the filling is complete. After `wgmma.wait_group`, or a phase that `tcgen05.commit` completes, it knows
that the matrix instructions which read a filling are complete. Knowledge is kept by thread, as a bit set of fillings.

Times are only for the picture. They follow from `Costs` and the same dependences, and no finding uses them.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.async_ops import facts_of
from smemsim.run.events import Access, GroupKind
from smemsim.run.pipeline.barriers import BarrierObserver
from smemsim.run.pipeline.knowledge import MOST, READERS, WARP, Costs, Filling, Known, Origin, bits_of
from smemsim.run.pipeline.lanes import Span

if TYPE_CHECKING:
    from smemsim.run.async_ops import AsyncOp, TensorAccess
    from smemsim.run.views import Mbarrier, Wave

__all__ = ["PipelineRecorder"]

WARPGROUP = 128
COLUMNS = 0xFFFF  # of an address in tensor memory


class PipelineRecorder(BarrierObserver):
    """Records the first cluster of a launch, or that of CTA `cta`."""

    def __init__(self, cta: int | None = None, costs: Costs | None = None) -> None:
        super().__init__(cta, costs)
        self.fillings: list[Filling] = []
        self.is_cut = False
        self._current: dict[int, list[tuple[int, int, Filling]]] = collections.defaultdict(list)
        # by thread: what it has issued and not committed
        self._multiplied: dict[int, int] = collections.defaultdict(int)
        self._ends: dict[int, float] = collections.defaultdict(float)
        self._groups: dict[int, list[tuple[int, float]]] = collections.defaultdict(list)
        self._readers: dict[int, int] = {}
        self._engine = self._stored = 0.0
        self._copied: dict[int, Filling] = {}  # by CTA: the open group of cp.async
        self._copies: dict[int, list[Filling | None]] = collections.defaultdict(list)  # by CTA: its groups
        self._copier: dict[int, int] = {}  # by CTA: the thread whose groups are followed
        self._copying: set[tuple[int, int]] = set()  # fillings, and warps that are drawn with them
        self._sums: dict[tuple[int, int], Filling] = {}  # by CTA and column: the accumulator in tensor memory
        # by thread: the accumulators that it has issued products of
        self._summed: dict[int, int] = collections.defaultdict(int)
        # by warp: what it has loaded from tensor memory and not waited for
        self._taken: dict[int, int] = collections.defaultdict(int)

    def _new(self, kind: str, i: Instruction, thread: int, stage: tuple[int, int], barrier: tuple[int, int], phase: int) -> Filling | None:
        """A filling that begins, with what its thread knows."""
        if len(self.fillings) >= MOST:
            self.is_cut = True
            return None
        k = self._known[thread]
        filling = Filling(
            len(self.fillings), i, thread, barrier, phase, stage, k.issued, k.loads, k.reads, dict(k.origins), dict(k.load_origins), kind, at=k.time,
            waits=tuple(self._waited.pop(thread, ())), warp=thread % self._stride // WARP,
        )  # fmt: skip
        self.fillings.append(filling)
        k.issued |= 1 << filling.number
        return filling

    # ---- loads

    def issued(self, x: Wave, op: AsyncOp) -> None:
        if x is not self._wave:
            return
        if facts_of(op.kind).is_load:
            one_each = len(op.issuers) > 1
            for n, (cta, thread) in enumerate(op.issuers):
                if self._is_own(x, cta.index):
                    for write in [op.writes[n]] if one_each else op.writes:
                        if write.barrier is not None:
                            self._loads(x, op, n, thread, write)
        elif op.kind in ("wgmma", "tcgen05.mma"):
            for n, (cta, thread) in enumerate(op.issuers):
                if self._is_own(x, cta.index):
                    self._multiplies(x, op, n, cta.index, thread)

    def _loads(self, x: Wave, op: AsyncOp, n: int, thread: int, write: Any) -> None:
        of, offset = write.barrier
        barrier = of.index, offset
        key = *barrier, self._phase[barrier]
        words = write.words
        first, end = int(words.begins.min()), int(words.begins.max()) + words.count
        known = self._known[thread]
        filling = self._filled.get(key)
        if filling is None:
            kind = "answer" if op.instruction.op == "clusterlaunchcontrol" else "load"
            filling = self._new(kind, op.instruction, thread, (write.cta.index, first), barrier, key[2])
            if filling is None:
                return
            self._filled[key] = filling
            filling.variable = self._variable(x, offset)
        elif filling.thread // x.stride != of.index == thread // x.stride:
            # another CTA's multicast came first: the CTA's own thread decides when its stage is filled
            own = 1 << filling.number
            filling.thread, filling.at, filling.warp = thread, known.time, thread % self._stride // WARP
            filling.issued, filling.loads, filling.reads = known.issued & ~own, known.loads, known.reads
            filling.origins, filling.load_origins = dict(known.origins), dict(known.load_origins)
            filling.waits = tuple(self._waited.pop(thread, ()))
        filling.sizes += ((_source(x, op, n), write.size),)
        self._engine = max(self._engine + self.costs.interval, known.time + self.costs.load)
        filling.full = max(filling.full, self._engine)
        known.issued |= 1 << filling.number
        self._lies(filling, write.cta.index, first, end)
        for warp, _ in self._drawn(x, [thread]):
            self.lanes.warp_does(warp, "load", known.time, known.time, str(filling.number), op.instruction)

    def _lies(self, filling: Filling, cta: int, first: int, end: int) -> None:
        """A filling brings words of a window, in place of what was there."""
        filling.places.append((cta, first, end))
        current = self._current[cta]
        current[:] = [entry for entry in current if entry[1] <= first or entry[0] >= end]
        current.append((first, end, filling))

    # ---- groups of cp.async

    def copied(self, x: Wave, access: Access) -> None:
        if x is not self._wave:
            return
        threads, at = access.threads, access.piece.at
        for cta in {t // x.stride for t in self._own(threads)}:
            inside = threads // x.stride == cta
            copier = self._copier.setdefault(cta, int(threads[inside][0]))
            filling = self._copied.get(cta)
            if filling is None:
                if not (threads[inside] == copier).any():
                    continue
                begin = int(at[threads == copier][0]) - cta * x.pitch
                filling = self._new("cp.async", access.instruction, copier, (cta, begin >> 2), (cta, -1), len(self._copies[cta]))
                if filling is None:
                    continue
                self._copied[cta] = filling
                self._engine = max(self._engine + self.costs.interval, self._known[copier].time + self.costs.load)
                filling.full = self._engine
            self._draw_load(x, filling, threads[inside])
            own = at[inside] - cta * x.pitch
            filling.sizes = ((None, sum(size for _, size in filling.sizes) + len(own) * access.size),)
            self._lies(filling, cta, int(own.min()) >> 2, int(own.max()) + access.size >> 2)

    def _draw_load(self, x: Wave, filling: Filling, threads: np.ndarray) -> None:
        """Each warp that copies is drawn once in a group."""
        for warp, thread in self._drawn(x, threads.tolist()):
            if (filling.number, warp) not in self._copying:
                self._copying.add((filling.number, warp))
                time = self._known[thread].time
                self.lanes.warp_does(warp, "load", time, time, str(filling.number), filling.instruction)

    def _copies_committed(self, x: Wave) -> None:
        threads = x.threads
        for cta, copier in self._copier.items():
            if (threads == copier).any():
                self._copies[cta].append(self._copied.pop(cta, None))

    def _copies_waited(self, x: Wave, i: Instruction, left: int) -> None:
        own_threads = self._own(x.threads)
        for cta, copier in self._copier.items():
            own = [t for t in own_threads if t // x.stride == cta]
            if copier not in own:
                continue
            groups = self._copies[cta]
            over = [g for g in (groups[: len(groups) - left] if left else groups) if g is not None]
            made = Known(loads=sum(1 << g.number for g in over), time=max((g.full for g in over), default=0.0))
            self._waits(x, own, "wait", made, f"cp.async, {left} groups left", i)
            for thread in own:
                self._known[thread].learn(made, i)

    def copies_counted(self, x: Wave, i: Instruction, barrier: Mbarrier, threads: np.ndarray) -> None:
        """cp.async.mbarrier.arrive: the open copies of a thread are counted by a phase of an mbarrier."""
        if x is not self._wave:
            return
        for cta, copier in self._copier.items():
            filling = self._copied.get(cta)
            if filling is not None and (threads == copier).any():
                key = barrier.cta.index, barrier.offset
                filling.barrier, filling.phase = key, self._phase[key]
                self._filled[(*key, self._phase[key])] = filling
                self._copies[cta].append(self._copied.pop(cta))

    # ---- matrix instructions

    def _multiplies(self, x: Wave, op: Any, n: int, cta: int, thread: int) -> None:
        reader = self._readers.setdefault(thread, len(self._readers))
        known, i = self._known[thread], op.instruction
        start = max(known.time, self._ends[thread])
        end = self._ends[thread] = start + self.costs.mma
        begins = op.reads[n].begins if n < len(op.reads) else np.zeros(0, np.int64)
        newest = -1
        # of a pair
        windows = [cta, *(other.index for other in op.members[n] if other.index != cta)] if op.kind == "tcgen05.mma" else [cta]
        for first, behind, filling in [entry for window in windows for entry in self._current[window]]:
            if reader < READERS and bool(((begins >= first) & (begins < behind)).any()):
                bit = filling.number * READERS + reader
                filling.readers |= 1 << reader
                self._multiplied[thread] |= 1 << bit
                filling.read = start if filling.read < 0 else min(filling.read, start)
                filling.free = max(filling.free, end)
                newest = max(newest, filling.number)
        if op.kind == "tcgen05.mma":
            self._accumulates(op, n, cta, thread, end)
        label = "" if newest < 0 else str(newest)
        for warp, _ in self._drawn(x, [thread]):
            self.lanes.engine_does("tensor core", reader, Span("mma", start, end, label, i))
            warps = range(warp, warp + (WARPGROUP // WARP if op.kind == "wgmma" else 1))
            self.lanes.readers[reader] = tuple(warps)
            for one in warps:
                self.lanes.warp_does(one, "mma", known.time, known.time, label, i)

    def group_committed(self, x: Wave, i: Instruction, kind: GroupKind) -> None:
        if x is not self._wave:
            return
        if kind == "wgmma":
            for thread in self._own(x.threads[::WARPGROUP]):
                self._groups[thread].append((self._multiplied.pop(thread, 0), self._ends[thread]))
        elif kind == "cp.async":
            self._copies_committed(x)

    def group_waited(self, x: Wave, i: Instruction, kind: GroupKind, left: int, *, only_read: bool = False) -> None:
        if x is not self._wave:
            return
        if kind == "cp.async":
            self._copies_waited(x, i, left)
        if kind != "wgmma":
            return
        for thread in self._own(x.threads[::WARPGROUP]):
            groups = self._groups[thread]
            over, groups[:] = groups[: len(groups) - left], groups[len(groups) - left :] if left else []
            for reads, end in over:
                made = Known(reads=reads, time=end)
                self._waits(x, range(thread, thread + WARPGROUP), "own MMAs", made, f"MMAs, {left} groups left", i)
                for lane in range(thread, thread + WARPGROUP):
                    self._known[lane].learn(made, i)

    def committed(self, x: Wave, i: Instruction, commits: Sequence[tuple[int, Mbarrier]]) -> None:
        if x is not self._wave:
            return
        for thread, barrier in commits:
            if self._begin <= thread < self._end:
                known, reads = self._known[thread], self._multiplied[thread]
                made = Known(known.issued, known.loads, reads, {bit: Origin(i, i) for bit in bits_of(reads)}, time=self._ends[thread])
                made.loads |= self._summed[thread]
                made.learn(known)  # what has been issued began after what its thread knew
                made.time = self._ends[thread]
                phase = self._open[barrier.cta.index, barrier.offset]
                phase.learn(made)
                phase.brought[thread] = phase.brought.get(thread, 0) | known.reads

    # ---- accumulators in tensor memory

    def _accumulates(self, op: Any, n: int, cta: int, thread: int, end: float) -> None:
        """A product is added to an accumulator; it is another filling of its columns if what was there
        has been read.
        """
        of = op.mmas[n].of
        column = int(of.d) & COLUMNS
        filling = self._sums.get((cta, column))
        if filling is None or filling.readers:
            filling = self._new("accumulator", op.instruction, thread, (cta, column), (cta, -1), 0)
            if filling is None:
                return
            self._sums[cta, column] = filling
            filling.sizes = ((None, int(op.mmas[n].i.n)),)
        filling.full = max(filling.full, end)
        self._summed[thread] |= 1 << filling.number

    def tensor_loaded(self, x: Wave, i: Instruction, access: TensorAccess) -> None:
        if x is not self._wave or not self._sums:
            return
        for warp, cta, _, begin, end in access.boxes:
            thread = warp * WARP
            if not self._begin <= thread < self._end:
                continue
            known = self._known[thread]
            for (of, column), filling in self._sums.items():
                reader = warp % READERS
                if of == cta and begin < column + filling.sizes[0][1] and column < end:
                    filling.readers |= 1 << reader
                    self._taken[warp] |= 1 << (filling.number * READERS + reader)
                    filling.read = known.time if filling.read < 0 else min(filling.read, known.time)
                    filling.free = max(filling.free, known.time + self.costs.epilogue)
                    for own, _ in self._drawn(x, [thread]):
                        self.lanes.warp_does(own, "tensor memory", known.time, known.time + self.costs.epilogue, str(filling.number), i)

    def tensor_waited(self, x: Wave, i: Instruction, kind: Literal["ld", "st"]) -> None:
        if x is not self._wave or kind != "ld":
            return
        for warp in {t // WARP for t in self._own(x.threads)}:
            if taken := self._taken.pop(warp, 0):
                end = max(self.fillings[bit // READERS].free for bit in bits_of(taken))
                made = Known(reads=taken, time=end)
                for thread in range(warp * WARP, (warp + 1) * WARP):
                    self._known[thread].learn(made, i)

    # ---- stores

    def stores(self, x: Wave, op: AsyncOp, n: int, write: Any) -> None:
        if x is not self._wave:
            return
        _, thread = op.issuers[n]
        for warp, _ in self._drawn(x, [thread]):
            begin = self._known[thread].time
            self._stored = max(self._stored, begin) + self.costs.store
            self.lanes.engine_does("stores", 0, Span("store", self._stored - self.costs.store, self._stored, "", op.instruction))
            self.lanes.warp_does(warp, "store", begin, begin, "", op.instruction)


def _source(x: Wave, op: AsyncOp, n: int) -> Any:
    """The source of a load: its tensor map or, for a bulk copy, its array. None if it is not known."""
    record = op.records[n] if n < len(op.records) else None
    tensor_map = getattr(record, "tensor_map", None)
    if tensor_map is not None:
        return tensor_map.global_address
    for transfer in getattr(record, "transfers", ())[:1]:
        if transfer.src_space == "global":
            region = x.launch.memory.holding(transfer.src, transfer.src + transfer.size)
            return None if region is None else region.begin
    return None
