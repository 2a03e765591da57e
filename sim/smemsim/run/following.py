"""Asynchronous instructions whose results are followed, for values that may be wrong: how these go from what an
instruction reads to what it writes.

Execution says it of each instruction (`AsyncOp.follow`), the sanitizer asks (`run/sanitizer/taint.py`).
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction

__all__ = ["WHOLE", "Follows", "Product", "Tell"]


WORD = 4
WHOLE = 0b1111  # all bytes of a word, as bits
Tell: TypeAlias = Callable[[Instruction | None], None]  # of the reader of a value; None if the kernel ends first


class Follows(abc.ABC):
    """An asynchronous instruction whose result is followed: it gets the words of shared memory that it reads, and their
    marks.
    """

    def __init__(self, taint: Any, i: Instruction) -> None:
        self.taint, self.i = taint, i

    @abc.abstractmethod
    def doubt(self, code: str, places: np.ndarray, tell: Tell) -> None:
        """Something is wrong with words that the instruction reads, by their places."""

    @abc.abstractmethod
    def read(self, at: np.ndarray, nobody: np.ndarray) -> None:
        """The instruction reads words of shared memory; `nobody` marks the uninitialised ones."""

    def overwritten(self, operation: Any, places: np.ndarray, tell: Tell) -> bool:
        """Words that the operation may still read are overwritten: can a use of its result be reported?"""
        return False


class Product(Follows):
    """A matrix product: D (m, n) of A (m, k) and B (n, k). Marks are collected while its operands are read; `finish`
    puts them into D's marks.
    """

    m: int
    n: int

    def __init__(self, taint: Any, i: Instruction) -> None:
        super().__init__(taint, i)
        self.found: list[tuple[int, np.ndarray, np.ndarray]] = []  # mark, rows, columns
        # the elements of D (m, n) that come of a row or a column in which nothing has a certain value
        self.is_pure: np.ndarray = np.array(False)

    @abc.abstractmethod
    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """The places of the words that each row of A and of B reads, (m, some) and (n, some); (m, 0) where A is
        elsewhere.
        """

    @abc.abstractmethod
    def bytes(self) -> tuple[np.ndarray, np.ndarray]:
        """Which bytes of `words` each row reads, as bits."""

    @abc.abstractmethod
    def marks(self) -> np.ndarray:
        """The marks of D (m, n) as it is."""

    @abc.abstractmethod
    def is_unread(self, operation: Any) -> bool:
        """Has no instruction read the result of the operation?"""

    @abc.abstractmethod
    def put(self, marks: np.ndarray) -> None:
        """Give D's registers or cells these marks."""

    def doubt(self, code: str, places: np.ndarray, tell: Tell) -> None:
        rows, columns = self.depends(places)
        self._note((code, self.i.line, rows.tobytes(), columns.tobytes()), tell, rows, columns)

    def read(self, at: np.ndarray, nobody: np.ndarray) -> None:
        for probe in self.taint.overwrites.probes_of(self.i):
            self._note(*probe)
        if nobody.any():
            rows, columns = self.depends(at[nobody], self.taint.blank(at[nobody]))
            mark = self.taint.nobody(self.i, is_whole=bool(rows.all() or columns.all()))
            self.found.append((mark, rows, columns))
        if self.taint.shared is not None and (marks := self.taint.shared.marks[at]).any():
            for mark in distinct(marks[marks != 0]).tolist():
                bits = np.packbits(marks == mark, axis=-1, bitorder="little")[..., 0]
                self.found.append((mark, *self.depends(at, bits)))
        if self.found:
            self._note_pure(at)

    def _note_pure(self, at: np.ndarray) -> None:
        """Which rows of the words that were read have no certain value at all, except for 0?"""
        bits = self.taint.blank(at)
        if self.taint.shared is not None:
            bits = bits | np.packbits(self.taint.shared.marks[at] != 0, axis=-1, bitorder="little")[..., 0]
        there, zeros = (np.zeros(self.taint.words + 1, np.uint8) for _ in range(2))
        there[at] = bits
        held = self.taint.x.shared.reshape(-1, WORD)[at]
        zeros[at] = np.packbits(held == 0, axis=-1, bitorder="little")[..., 0]
        pure = []
        for words, own in zip(self.words(), self.bytes(), strict=True):
            is_marked, is_idle = there[words] & own, (there[words] | zeros[words]) & own == own
            pure.append((is_marked != 0).any(1) & is_idle.all(1))
        self.is_pure = self.is_pure | pure[0][:, None] | pure[1]

    def overwritten(self, operation: Any, places: np.ndarray, tell: Tell) -> bool:
        rows, columns = self.depends(places)
        if rows.all() or columns.all():
            return False
        key = ("overwritten", self.i.line, rows.tobytes(), columns.tobytes())
        if self.is_unread(operation):
            self.found.clear()
            self._note(key, tell, rows, columns)
            self.finish(None, None, goes_on=True)
        else:
            self.taint.overwrites.probe(self.i, (key, tell, rows, columns))
        return True

    def depends(self, places: np.ndarray, bits: np.ndarray | int = WHOLE) -> tuple[np.ndarray, np.ndarray]:
        """The rows of A and of B that have words at these places, or some of these bytes of them."""
        there = np.zeros(self.taint.words + 1, np.uint8)
        there[places] = bits
        a, b = self.words()
        of_a, of_b = (WHOLE, WHOLE) if np.all((bits == WHOLE) | (bits == 0)) else self.bytes()
        read = there[a] & of_a != 0, there[b] & of_b != 0
        if any(these.any() for these in read):
            read = tuple(these if idle is None else these & ~idle for these, idle in zip(read, self.idle(), strict=True))
        return read[0].any(1), read[1].any(1)

    def idle(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The elements of A (m, k) and of B (n, k) that cannot change D: all factors are zero, and their type has no
        infinities and NaNs. None: no such element is known.
        """
        return None, None

    def is_known(self, at: np.ndarray, bits: np.ndarray) -> np.ndarray:
        """Have these bytes of words in shared memory certain values?"""
        at = np.minimum(at, self.taint.words - 1)
        unknown = self.taint.blank(at.reshape(-1)).reshape(at.shape)
        if self.taint.shared is not None:
            unknown = unknown | np.packbits(self.taint.shared.marks[at] != 0, axis=-1, bitorder="little")[..., 0]
        found: np.ndarray = unknown & bits == 0
        return found

    def finish(self, rows: np.ndarray | None, columns: np.ndarray | None, *, goes_on: bool) -> None:
        """D is there: it has the marks of what was found, those of rows and columns that came from elsewhere, and its
        own where the sum goes on.
        """
        origins, made = self.taint.origins, functools.partial(self.taint.origins.computed, self.i, is_result=True)
        pure = functools.partial(self.taint.origins.pure, self.i)
        marks = self.marks() if goes_on else np.zeros((self.m, self.n), np.int32)
        marks = np.where(self.is_pure, pure(marks), made(marks))
        for mark, of_rows, of_columns in self.found:
            one = np.array(mark, np.int32)
            own = np.where(self.is_pure, pure(one), made(one))
            marks = origins.join(marks, np.where(of_rows[:, None] | of_columns, own, np.int32(0)))
        if rows is not None:
            marks = origins.join(marks, np.broadcast_to(made(rows)[:, None], marks.shape))
        if columns is not None:
            marks = origins.join(marks, np.broadcast_to(made(columns), marks.shape))
        self.put(marks)

    def _note(self, key: tuple[object, ...], tell: Tell, rows: np.ndarray, columns: np.ndarray) -> None:
        self.found.append((self.taint.origins.of(key, tell, is_whole=bool(rows.all() or columns.all())), rows, columns))
