"""Uninitialised values in global memory: the marks of bytes that no thread has written, and of values that a store has
left there; their use is R507.

The life of one byte: the program allocates an array, and no thread writes the byte. A load gets the mark of its line;
if the value is used, `_find` raises R507. If it is stored elsewhere, the mark goes with it (`stored`).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.core.machine.stored_taint import StoredTaint
from smemsim.core.machine.uninitialised import Garbage
from smemsim.core.ptx.module import Instruction
from smemsim.run.lower.dataflow import bit_fields, decides_itself
from smemsim.run.sanitizer.global_findings import GlobalFindings
from smemsim.run.sanitizer.global_rule import GlobalRule
from smemsim.run.sanitizer.global_table import GlobalTable
from smemsim.run.sanitizer.history import ArrayShadow
from smemsim.run.sanitizer.taint import Taint
from smemsim.run.sanitizer.uninitialised import uninitialised

if TYPE_CHECKING:
    from smemsim.run.accesses import Piece

__all__ = ["ATOMICS", "GlobalMarks"]


ATOMICS = ("atom", "red")


class GlobalMarks:
    """The values in doubt in global memory."""

    def __init__(self, table: GlobalTable, rule: GlobalRule, findings: GlobalFindings, taint: Taint) -> None:
        self.table, self.rule, self.findings, self.taint = table, rule, findings, taint
        self.x, self.history = table.x, table.history

    def loads_unwritten(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int) -> None:
        """The running threads load bytes some of which are uninitialised: R507 when such a value is used."""
        marks = self._marks(i, array, at, size)
        if marks is not None:
            self.taint.loads(self.x.threads, marks, size)

    def brought(self, i: Instruction, addresses: np.ndarray, size: int) -> np.ndarray | None:
        """The marks of what an asynchronous operation brings from these addresses of one array, `size` bytes of each:
        (n, bytes); None where there are none.
        """
        region = self.x.launch.memory.holding(int(addresses[0]), int(addresses[0]) + 1) if len(addresses) else None
        if region is None or self.history.is_unwritten(region.words) or (array := self.table.array(region.words, size)) is None:
            return None
        return self._all_marks(i, array, addresses - region.words_begin, size)

    @property
    def stored(self) -> StoredTaint:
        found: StoredTaint = self.x.launch.memory.taint
        return found

    def reads_stored(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int) -> None:
        """The running threads read values of which an earlier store has said that they are uninitialised."""
        marks = self.taint.stored_values.of(i, array.region.words, at, size)
        if marks is None:
            return
        if i.op in ("ld", "cp", "wmma"):
            self.taint.loads(self.x.threads, marks, size)
        elif i.op not in ATOMICS:  # which have reported them
            self.taint.origins.tell(i, marks)

    def _all_marks(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int) -> np.ndarray | None:
        """The marks of bytes that are read, whether nothing was written there or an uninitialised value."""
        marks = None if array.blank is None else self._marks(i, array, at, size)
        stored = self.taint.stored_values.of(i, array.region.words, at, size) if self.stored else None
        return marks if stored is None else stored if marks is None else self.taint.origins.join(marks, stored)

    def _marks(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int) -> np.ndarray | None:
        """The marks of the bytes that are read at byte offsets, (n, size); None where all have been written."""
        blank: Any = array.blank
        if not blank.words(at, size).any():
            return None
        found = blank.bytes(at, size)
        reads = int(np.argmax(found.any(axis=1)))
        first = int(at[reads]) + int(np.argmax(found[reads]))
        tell = functools.partial(self._find, i, array, first)
        is_untouched = array.is_untouched
        mark = self.taint.origins.of(
            ("global array" if is_untouched else "global", i.site),
            tell,
            computed=(lambda by: functools.partial(tell, by=by)) if isinstance(blank, Garbage) else None,
            only_results=not is_untouched,
            is_array=is_untouched,
        )
        return np.where(found, np.int32(mark), np.int32(0))

    def updates(self, i: Instruction, piece: Piece, size: int) -> None:
        """The running threads are about to change memory by an atomic operation."""
        array = self.table.array(piece.memory, size)
        if array is not None and id(i) not in bit_fields(self.x.launch.program):
            self.changes_unwritten(i, array, piece.at, size)

    def finds(self, i: Instruction, piece: Piece, size: int) -> np.ndarray | None:
        """The marks of what the running threads are about to find there: (n, bytes of each); None where none is in
        doubt.
        """
        array = self.table.array(piece.memory, size)
        return None if array is None else self._all_marks(i, array, piece.at, size)

    def changes_unwritten(self, i: Instruction, array: ArrayShadow, at: np.ndarray, size: int) -> None:
        if self.stored and (marks := self.taint.stored_values.of(i, array.region.words, at, size)) is not None:
            given = self.taint.given  # what is added to them has marks, too: sums of padding
            self.taint.origins.tell(i, marks if given is None else marks[~given[self.x.threads]])
        if array.blank is not None and (there := array.blank.words(at, size).any(axis=1)).any():
            self._find(i, array, int(at[np.argmax(there)]), None)

    def _find(self, i: Instruction, array: ArrayShadow, at: int, user: Instruction | None, by: Instruction | None = None) -> None:
        """R507. It is a remark for memory that a program has allocated, if the value only goes to another place of
        global memory (rule memory.allocated). What an instruction makes of several elements (`by`), or of a value
        that alone decides, is a result.
        """
        where = self.findings.named(i, array, at, 1)
        is_kept = self.taint.is_masked or (id(user) not in self.rule.accumulations and by is None)
        is_padding = isinstance(array.blank, Garbage)
        is_copied = is_padding and self.taint.is_stored and is_kept
        is_own = (
            is_padding
            and not (self.taint.is_stored or array.is_untouched)
            and user is not None
            and by is None
            and decides_itself(self.x.launch.program, user)
        )
        said, milder = uninitialised(where, i, user, by, is_copied=is_copied, is_voted=self.taint.is_voted, is_own=is_own)
        self.x.launch.find(
            said.code, i, said.what,
            "write it first, in this kernel or before it (Gpu.zeros, cudaMemset, torch.zeros)",
            because="CUDA Runtime API, cudaMalloc: the memory is not cleared", milder=milder,
            arrays=(array.region.begin,), why=said.why, halves=said.halves,
        )  # fmt: skip
