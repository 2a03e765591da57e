"""Words of shared memory that copies bring and that nothing reads, in launches with `mma.sync`.

A warp that forgets its offset reads the rows of another warp. Its own rows are copied in vain. Only the whole launch
shows this, since CTAs at an edge may leave out rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.run.async_ops import facts_of
from smemsim.run.copied_words import CopiedWords
from smemsim.run.sanitizer.operations import OPERATIONS, Operations

if TYPE_CHECKING:
    from smemsim.run.sanitizer.shared_table import SharedTable
    from smemsim.run.views import Wave

__all__ = ["has_copies", "words_of_copies"]


WORD = 4  # bytes
CHUNK = 4  # words that one thread copies at most
_WARP_PRODUCTS = ("mma", "wmma")  # of a warp, whose operands are loaded by threads


def has_copies(x: Wave) -> bool:
    """May a wave copy operands of mma.sync to shared memory?"""
    return "cp" in x.program.uses and not x.program.uses.isdisjoint(_WARP_PRODUCTS)


def words_of_copies(x: Wave, table: SharedTable, operations: Operations) -> CopiedWords:
    """What the CTAs of a wave that ends have copied and read; the first one of a cohort stands for all.

    A tensor load or bulk copy counts if some of its bytes are read and others are not. One that is not read at all may
    be a load ahead of the last tile.
    """
    kept, words = table.kept, x.pitch // WORD
    who = kept.who
    has_data = np.repeat(x.shared.view(np.uint32)[: len(who)].reshape(-1, CHUNK).any(axis=1), CHUNK)
    copied = (who >= OPERATIONS) & operations.is_cp_async[np.maximum(who - OPERATIONS, 0)] & has_data
    read = (kept.read_line != 0) | (kept.read_by != 0)
    if kept.has_strong:
        read |= (kept.polled_line != 0) | (kept.changed_line != 0)
    sites = np.where(copied, kept.line, 0)
    for number in distinct(who[(who >= OPERATIONS) & ~copied & has_data & ~read] - OPERATIONS).tolist():
        op, mine = operations[number], who == OPERATIONS + number
        if facts_of(op.kind).is_load and read[mine].any():
            sites[mine & has_data] = op.instruction.site
    return CopiedWords(x.window_begin, sites.reshape(-1, words).max(axis=0), read.reshape(-1, words).any(axis=0), len(x.ctas))
