"""The table of global memory, as one wave sees it: the arrays with their cells, and until when copies read and write.
The cells of all waves of a launch are in `history.py`.

The life of one cell: warp 2 of the first wave stores. Then `cells.writers[cell]` is its epoch: the number of the warp
in the launch, its clock, and the number of the instruction (`epoch_numbers.py`). A warp of a later wave reads, and has
not acquired that clock. The compiled check (`global_loops.py`) lists the cell as suspicious.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.sanitizer import global_loops as loops
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.history import ArrayShadow, History
from smemsim.run.sanitizer.operations import Operation
from smemsim.run.warps import WARP, warps_of

if TYPE_CHECKING:
    from smemsim.run.views import Mbarrier, Wave

__all__ = ["GlobalTable"]


MOST_WARPS = (1 << 63 - loops.WHO) - 2  # of a launch


class GlobalTable:
    """The record of one wave, whose first warp has the number `first` in the launch."""

    def __init__(self, x: Wave, clocks: VectorClocks, history: History, first: int) -> None:
        self.x, self.clocks, self.history, self.first = x, clocks, history, first
        self.per_cta = x.stride // WARP
        self.per_cluster = self.per_cta * x.launch.cluster_size
        self._open: dict[Operation, int] = {}  # asynchronous ones without a wait
        # by mbarrier: the phases in which it counts copies, each with the copy's place in `Numbers.waited`
        self._counted: dict[Mbarrier, list[tuple[int, int]]] = {}
        self._told: dict[tuple[Mbarrier, int], int] = {}  # how many of these a warp has been told
        self._begun = np.zeros(len(clocks.clock), np.int32)  # by warp: the place of its copy that reads now

    @property
    def known(self) -> loops.Known:
        """The knowledge of warps, for the compiled checks."""
        n = self.history.numbers
        return loops.Known(
            self.first, self.clocks.clock, self.clocks.seen, n.scope, n.asynchronous, n.waited, n.told, n.tellers, self.per_cta,
            self.per_cluster,
        )  # fmt: skip

    def array(self, memory: np.ndarray, size: int) -> ArrayShadow | None:
        """The record of the array with these words; None if there is none."""
        if self.history.warps > MOST_WARPS:
            self.x.launch.result.bounds.add(f"races in global memory are not looked for: the launch has more than {MOST_WARPS:,} warps")
            return None
        return self.history.array(memory, size)

    def read_array(self, i: Instruction, memory: np.ndarray, size: int) -> ArrayShadow | None:
        """The record of an array that is read; None if no thread writes it."""
        if i.modifiers[0] == "const" or self.history.is_unwritten(memory):
            return None
        return self.array(memory, size)

    def places(self, addresses: np.ndarray, size: int, *, is_read: bool = False) -> Iterator[tuple[ArrayShadow, np.ndarray]]:
        """The arrays in which addresses lie, with the byte offsets in each."""
        while len(addresses):
            region = self.x.launch.memory.holding(int(addresses[0]), int(addresses[0]) + 1)
            if region is None:
                return
            inside = (addresses >= region.begin) & (addresses < region.end)
            is_watched = not (is_read and self.history.is_unwritten(region.words))
            if is_watched and (array := self.array(region.words, size)) is not None:
                yield array, np.ascontiguousarray(addresses[inside] - region.words_begin, np.int64)
            addresses = addresses[~inside]

    def cta_of(self, warps: np.ndarray) -> np.ndarray:
        """The CTAs of warps, counted through the launch from 1 on."""
        return (self.first + warps) // self.per_cta + 1

    def begins(self, array: ArrayShadow, ops: Iterable[tuple[int, Operation]]) -> np.ndarray:
        """Operations of warps read an array until they are complete. Returns their places in `Numbers.waited`, by
        warp.
        """
        array.is_copied = True
        for warp, op in ops:
            op.source = op.source or self.history.numbers.issues()
            self._begun[warp] = op.source
        return self._begun

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

    def writes_since(self, op: Operation) -> int:
        """The place among asynchronous writes of an operation that writes, which it gets with its first one."""
        if op not in self._open:
            self._open[op] = self.history.numbers.issues()
        return self._open[op]
