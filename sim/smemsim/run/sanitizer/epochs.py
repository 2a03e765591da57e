"""Epochs of a CTA: accesses before a barrier of all its threads are ordered for each of them, and one number shows that
(PTX ISA 9.7.13.1, barriers; 8, causality order).

The epoch of a CTA ends when all its remaining threads synchronise at a barrier. Accesses of earlier epochs happen
before everything that threads of the CTA do now. So most accesses need no other check. The tables of
`shared_table.py` have the rest, and record every access. An epoch table is a summary of them, and can be dropped and
made again at any time.
"""

from __future__ import annotations

import numpy as np

from smemsim.run.marks import MANY_THREADS, THREAD_BITS
from smemsim.run.sanitizer import shared_loops
from smemsim.run.sanitizer.operations import are_warps

__all__ = ["UNKNOWN", "Epochs"]


UNKNOWN = 0xFFFFFFFF  # the stamp of a word of which the epoch does not say enough: operations, atomics
STEP = 1 << THREAD_BITS  # from the stamp of one epoch to that of the next
LAST = (1 << 32) - 2 * STEP  # the stamp of the last epoch
MOST_TIMES = 64  # that the summary is made again, before it is left


class Epochs:
    """For each word of a wave's shared memory the epoch and the thread of its last write, and of its reads. A word
    without an access has 0.

    The array `epoch` has the stamp with which each CTA's epoch starts (uint32, stored as int32).
    """

    def __init__(self, tables: shared_loops.Tables, ctas: int, pitch: int) -> None:
        self.pitch = pitch  # words from one CTA's to the next
        self.times = 0
        self.is_made = True  # of tables that are empty
        self.epoch = np.full(ctas, 1 << THREAD_BITS, np.uint32)
        self.written = np.zeros(len(tables.who), np.uint32)
        self.read = np.zeros(len(tables.who), np.uint32)

    def spread(self, first: Epochs) -> None:
        """Those of all CTAs, of which the first one stands for all in the tables still."""
        self.epoch[:], self.written, self.read = first.epoch[0], first.written, first.read
        self.is_made, self.times = first.is_made, first.times

    def forget(self) -> None:
        """Accesses of another kind have been noted in the tables."""
        self.is_made = False

    def make(self, tables: shared_loops.Tables) -> bool:
        """Make the summary from the tables, if it is missing. False if that has been done too often."""
        if self.is_made:
            return True
        if self.times >= MOST_TIMES or int(self.epoch.max()) >= LAST:
            return False
        self.times += 1
        now = np.repeat(self.epoch | np.uint32(MANY_THREADS), self.pitch)[: len(self.written)]  # of one CTA of a cohort
        unknown, nothing = np.uint32(UNKNOWN), np.uint32(0)
        by_thread = are_warps(tables.who)
        self.written[:] = np.where(by_thread, now, np.where(tables.who == -1, nothing, unknown))
        was_read = tables.read_line != 0
        if tables.has_strong:
            was_read |= (tables.polled_line != 0) | (tables.changed_line != 0)
        self.read[:] = np.where(tables.read_by != 0, unknown, np.where(was_read, now, nothing))
        self.is_made = True
        return True

    def ends(self, ctas: np.ndarray) -> None:
        """All threads of these CTAs that are left have synchronised."""
        if int(self.epoch.max()) >= LAST:
            self.forget()
            return
        self.epoch[ctas] += np.uint32(STEP)

    def note(self, places: np.ndarray, count: int, *, writes: bool) -> None:
        """Threads have accessed `count` words each, from these places on (int64, bytes)."""
        if self.is_made:
            shared_loops.note_epoch(places, count, self.pitch, self.epoch, MANY_THREADS, self.written if writes else self.read, writes)
