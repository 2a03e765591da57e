"""One CTA that stands for all: what the watch keeps of shared memory, while the CTAs of a wave do the same, each in its own window.

CTAs of one kernel that keep to themselves mostly access the same words of their windows by the same threads between the same barriers. Then of each word
of one window the same is known as of that word in every other: the tables of `shared.py` have the words of the first CTA alone, and an access is looked
at there. That all do the same is looked at first, for every access: the threads that run, their places, the clocks and the meetings of their warps. Where
one of these differs, or an access is not in order, the tables become those of all CTAs (`unfolded`), as if they had always been, and it is looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.program.watch.clocks import OPERATIONS, Order
from smemsim.program.watch.epochs import Epochs
from smemsim.program.watch.lanes import LANE_BITS, PART_BITS, Lanes
from smemsim.program.watch.loops import Tables
from smemsim.program.wave import ALL

if TYPE_CHECKING:
    from smemsim.program.wave import Wave

__all__ = ["Folding"]


class Folding:
    """Whether the CTAs of a wave do the same, and how tables of one become those of all."""

    def __init__(self, x: Wave, order: Order, lanes: Lanes) -> None:
        self.x, self.order, self.lanes = x, order, lanes
        self.count, self.warps = len(x.ctas), len(order.clock) // len(x.ctas)
        numbers = np.arange(self.count, dtype=np.int64)[:, None]
        self._threads, self._bytes = numbers * x.stride, numbers * x.pitch
        self._times = numbers * self.warps << PART_BITS

    @staticmethod
    def is_possible(x: Wave) -> bool:
        """Do the CTAs of a wave keep to themselves, and nothing is asynchronous?"""
        return x.launch.is_apart and len(x.ctas) > 1 and not x.scratch

    def are_in_step(self, epochs: Epochs) -> bool:
        """Do the warps of all CTAs have the same clocks, meetings and epochs?"""
        clock, now = self.order.clock.reshape(self.count, -1), self.lanes.now.reshape(self.count, -1)
        return bool((clock == clock[0]).all() and (epochs.epoch == epochs.epoch[0]).all() and (now - self._times == now[0]).all())

    def of_one(self, places: np.ndarray, epochs: Epochs) -> tuple[np.ndarray, np.ndarray] | None:
        """The places (bytes) of an access of the running threads in the first CTA's window, and its threads; None where other CTAs do something else, or know
        something else of each other."""
        if len(places) % self.count or not self.are_in_step(epochs):
            return None
        seen = self.order.seen.reshape(self.count, -1)
        threads, at = (of.reshape(self.count, -1) for of in (self.x.threads, places))
        if not (seen == seen[0]).all() or not (at - self._bytes == at[0]).all():
            return None
        if self.x.sel is not ALL and not (threads - self._threads == threads[0]).all():
            return None
        return at[0], threads[0]

    def unfolded(self, tables: Tables, epochs: Epochs) -> Tables:
        """The tables of all CTAs, from those of one; the summary of `epochs` becomes one of all, too."""
        epochs.written, epochs.read = (np.tile(stamps, self.count) for stamps in (epochs.written, epochs.read))
        who = np.tile(tables.who, (self.count, 1))
        who += ((who >= 0) & (who < OPERATIONS)) * (np.arange(self.count, dtype=np.int32) * self.warps)[:, None].astype(np.int32)
        read_when = np.tile(tables.read_when, (self.count, 1))
        read_line = np.tile(tables.read_line, self.count)
        return tables._replace(
            who=who.reshape(-1), when=np.tile(tables.when, self.count), line=np.tile(tables.line, self.count),
            strong=np.tile(tables.strong, self.count), read_when=read_when, read_line=read_line, polled_when=read_when, polled_line=read_line,
            changed_when=read_when, changed_line=read_line, read_by=np.tile(tables.read_by, self.count),
            mark=self._marks(tables.mark), read_mark=self._marks(tables.read_mark),
        )  # fmt: skip

    def all_reads(self, of_one: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Of all CTAs what one of them has: stamps of reads, their lines, clocks and marks."""
        stamps, lines, clocks, marks = of_one
        return np.tile(stamps, self.count), np.tile(lines, self.count), np.tile(clocks, (self.count, 1)), self._marks(marks)

    def _marks(self, of_one: np.ndarray) -> np.ndarray:
        """Marks of all CTAs: the time of a warp is that of the first CTA's, and its number."""
        marks = np.tile(of_one, (self.count, 1))
        marks += (marks != 0) * (self._times << LANE_BITS)
        return marks.reshape(-1)
