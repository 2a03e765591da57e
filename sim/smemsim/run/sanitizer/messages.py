"""Message passing by strong accesses alone (PTX ISA 9.1 §8.8 to 8.10).

A thread writes data and then a flag; another one reads the flag and then the data, all by relaxed or volatile accesses,
without a fence between data and flag. No access races, and nothing orders the data before the read: the reader may get
the old value (rule order.messages). If only the reader has no fence, nothing is reported. Its load of the data waits
for the branch on the flag.

The order in which relaxed accesses release and acquire is `VectorClocks.loose`. A message differs from other relaxed
traffic in three ways. A comparison uses the flag, an integer. The data is stored, not changed by an atomic, and loaded
by a load that no loop polls. The reader has not read it before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.lower.dataflow import message_flags, message_loads
from smemsim.run.sanitizer.across_waves import ACROSS_WAVES, StrongStore
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.races import Access, operation_with, unordered
from smemsim.run.sanitizer.reporting import WORD, Reporting

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["Messages"]


class Messages:
    """The strong stores of a wave, and of the launch's other waves in global memory, and whether loads of them are
    ordered after them.
    """

    def __init__(self, x: Wave, clocks: VectorClocks, reporting: Reporting) -> None:
        self.x, self.clocks, self.reporting = x, clocks, reporting
        self.loads, self.flags = message_loads(x.program), message_flags(x.program)
        self._shared: dict[Any, StrongStore] = {}

    def _of(self, what: Any) -> dict[Any, StrongStore]:
        return ACROSS_WAVES(self.x.launch).messages if what[0] == "global" else self._shared

    def stored(self, i: Instruction, accesses: Sequence[tuple[np.ndarray, Any]]) -> None:
        """Threads are about to write, each at an address of its own; an atomic operation leaves no data there."""
        for threads, what in accesses:
            if i.op == "st":
                warp = int(threads[-1]) >> 5
                self._of(what)[what] = StrongStore(i, self.clocks.grid.wave, warp, int(self.clocks.clock[warp]))
            else:
                self._of(what).pop(what, None)

    def decides(self, i: Instruction) -> bool:
        """Does a comparison use what a strong load or an atomic operation brings?"""
        return id(i) in self.flags

    def loaded(self, i: Instruction, accesses: Sequence[tuple[np.ndarray, Any]]) -> None:
        """Threads are about to read so."""
        for threads, what in accesses:
            stored = self._of(what).get(what)
            if stored is None:
                continue
            for warp in distinct(threads >> 5).tolist():
                own = self.clocks.grid.wave, warp
                if own == (stored.wave, stored.warp):
                    continue
                if id(i) in self.loads and not self._has_read(stored, warp) and self._is_message(warp, stored):
                    self._tell(i, what, stored, warp)
                stored.readers.setdefault(own, int(self.clocks.clock[warp]))

    def _has_read(self, stored: StrongStore, warp: int) -> bool:
        """Has a warp read it before, or seen that another one has?"""
        return any(
            self._has_seen(self.clocks, warp, wave, reader, clock) or (wave, reader) == (self.clocks.grid.wave, warp)
            for (wave, reader), clock in stored.readers.items()
        )

    def _is_message(self, warp: int, stored: StrongStore) -> bool:
        """Would a store happen before a warp's present action if relaxed accesses released and acquired, but neither
        now nor after a fence of the reader?
        """
        clocks, wave, other, clock = self.clocks, stored.wave, stored.warp, stored.clock
        if (
            clocks.orders.loose is None
            or not self._has_seen(clocks.orders.loose, warp, wave, other, clock)
            or self._has_seen(clocks, warp, wave, other, clock)
        ):
            return False
        if wave == clocks.grid.wave:
            return bool(clocks.seen_behind_fence(np.array([warp]), np.array([other]))[0] < clock)
        seen = clocks.foreign_behind_fence(warp, wave)
        return seen is None or bool(seen[other] < clock)

    @staticmethod
    def _has_seen(clocks: VectorClocks, warp: int, wave: int, other: int, clock: int) -> bool:
        if wave == clocks.grid.wave:
            return other // clocks.columns == warp // clocks.columns and bool(clocks.has_seen(warp, other) >= clock)
        seen = clocks.foreign(warp, wave)
        return seen is not None and bool(seen[other] >= clock)

    def _tell(self, i: Instruction, what: Any, stored: StrongStore, warp: int) -> None:
        space, _, at = what
        own, theirs = (
            self.reporting.access("read", warp, i.site),
            Access("write", "another warp, before it sets a flag", stored.instruction),
        )
        why = "the writer has no fence between the data and the flag: the reader may find the flag set and read old data"
        repair = (
            "fence.acq_rel (__threadfence) between the data and the flag, or .release for the flag; the reader needs the same, or .acquire"
        )
        if space == "shared":
            self.reporting.find(
                i,
                np.array([at // WORD]),
                unordered(own, theirs, why=why),
                repair,
                other=stored.instruction.site,
                milder=Severity.NOTE,
            )
            return
        where = "global memory" if space == "global" else "the system's part of shared memory"
        said = unordered(own, theirs, f"a word of {where}", why)
        self.x.launch.find(
            said.code, i, said.what, repair, why=said.why, halves=said.halves, because="PTX ISA 9.1 §8.8 to 8.10", milder=Severity.NOTE,
            operation=operation_with(where, stored.instruction), other=stored.instruction,
        )  # fmt: skip
