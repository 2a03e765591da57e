"""What matrix instructions make of doubtful operands: a row of D has the doubts of its row of A, a column those of its row of B.

DeepGEMM's wgmma of 64 rows read tiles of 16 and 32 rows, and with them the stages behind, of which nobody has waited for anything; their epilogue
leaves those rows of D alone (sm90_bf16_gemm.cuh, `BLOCK_M < WGMMA::M`). So an operand's words are traced back to its rows.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.program.watch.clocks import Operation
    from smemsim.program.watch.doubts import Tell
    from smemsim.program.watch.unwritten import Unwritten

__all__ = ["Follows", "Overwritten", "Product", "uses"]


Probe: TypeAlias = tuple[
    tuple[object, ...], "Tell", np.ndarray, np.ndarray
]  # a doubt's key and how it is told, rows and columns of D that have it


def uses(user: Instruction | None) -> str:
    """The end of a sentence about a value: who uses it."""
    return f"; {user.name} of line {user.line} uses the value" if user is not None else ""


class Follows(abc.ABC):
    """An asynchronous instruction whose result is followed: told of the words of shared memory that it reads, and of what is wrong with them."""

    def __init__(self, unwritten: Unwritten, i: Instruction) -> None:
        self.unwritten, self.i = unwritten, i

    @abc.abstractmethod
    def doubt(self, code: str, places: np.ndarray, tell: Tell) -> None:
        """Something is wrong with words that it reads, by their places."""

    @abc.abstractmethod
    def read(self, at: np.ndarray, nobody: np.ndarray) -> None:
        """It reads these words, of which `nobody` has written some."""

    def overwritten(self, operation: Operation, places: np.ndarray, tell: Tell) -> bool:
        """Words that the operation may still read are overwritten: can that be told when its result is used?"""
        return False


class Product(Follows):
    """A matrix product: D (m, n) of A (m, k) and B (n, k). What is wrong is noted while its operands are read, and goes into D's marks by `finish`."""

    m: int
    n: int

    def __init__(self, unwritten: Unwritten, i: Instruction) -> None:
        super().__init__(unwritten, i)
        self.found: list[tuple[int, np.ndarray, np.ndarray]] = []  # mark, rows, columns

    @abc.abstractmethod
    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """The places of the words that each row of A and of B reads, (m, some) and (n, some); (m, 0) where A is elsewhere."""

    @abc.abstractmethod
    def marks(self) -> np.ndarray:
        """The marks of D (m, n) as it is."""

    @abc.abstractmethod
    def is_unread(self, operation: Operation) -> bool:
        """Has nobody read the result of the operation?"""

    @abc.abstractmethod
    def put(self, marks: np.ndarray) -> None:
        """D has got these marks."""

    def doubt(self, code: str, places: np.ndarray, tell: Tell) -> None:
        rows, columns = self.depends(places)
        self._note((code, self.i.line, rows.tobytes(), columns.tobytes()), tell, rows, columns)

    def read(self, at: np.ndarray, nobody: np.ndarray) -> None:
        for probe in self.unwritten.watch.products.probes_of(self.i):
            self._note(*probe)
        if nobody.any():
            rows, columns = self.depends(at[nobody])
            mark = self.unwritten.nobody(self.i, is_whole=bool(rows.all() or columns.all()))
            self.found.append((mark, rows, columns))
        if self.unwritten.shared is not None and (marks := self.unwritten.shared.marks[at]).any():
            for mark in np.unique(marks[marks != 0]).tolist():
                self.found.append((mark, *self.depends(at[marks == mark])))

    def overwritten(self, operation: Operation, places: np.ndarray, tell: Tell) -> bool:
        rows, columns = self.depends(places)
        if rows.all() or columns.all():
            return False
        key = ("overwritten", self.i.line, rows.tobytes(), columns.tobytes())
        if self.is_unread(operation):
            self.found.clear()
            self._note(key, tell, rows, columns)
            self.finish(None, None, goes_on=True)
        else:
            self.unwritten.watch.products.probe(self.i, (key, tell, rows, columns))
        return True

    def depends(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of A and of B that have words at these places."""
        is_there = np.zeros(len(self.unwritten.watch.who) + 1, bool)
        is_there[places] = True
        a, b = self.words()
        return is_there[a].any(1), is_there[b].any(1)

    def finish(self, rows: np.ndarray | None, columns: np.ndarray | None, *, goes_on: bool) -> None:
        """D is there: it has the marks of what was found, those of rows and columns that came from elsewhere, and its own where the sum goes on."""
        doubts = self.unwritten.doubts
        marks = self.marks() if goes_on else np.zeros((self.m, self.n), np.int32)
        for mark, of_rows, of_columns in self.found:
            marks = doubts.join(marks, np.where(of_rows[:, None] | of_columns, np.int32(mark), np.int32(0)))
        if rows is not None:
            marks = doubts.join(marks, np.broadcast_to(rows[:, None], marks.shape))
        if columns is not None:
            marks = doubts.join(marks, np.broadcast_to(columns, marks.shape))
        self.put(marks)

    def _note(self, key: tuple[object, ...], tell: Tell, rows: np.ndarray, columns: np.ndarray) -> None:
        self.found.append((self.unwritten.doubts.of(key, tell, is_whole=bool(rows.all() or columns.all())), rows, columns))


class Overwritten:
    """Overwrites of words that some rows of a product may still read, when nobody knows any more who used those rows.

    The next time that its line runs, they get a doubt: the kernel uses them then as it did before. Where it does not run again, the overwrite is told.
    """

    def __init__(self) -> None:
        self._probes: dict[int, dict[tuple[object, ...], Probe]] = {}  # by line and key
        self._open: dict[tuple[object, ...], Tell] = {}

    def overwritten(self, operation: Operation, places: np.ndarray, tell: Callable[[], None]) -> bool:
        """Words are overwritten that an operation may still read: is that told when a result is used?"""
        followed = [product.overwritten(operation, places, lambda user: tell()) for product in operation.products]
        return bool(followed) and all(followed)

    def probe(self, i: Instruction, probe: Probe) -> None:
        """The rows and columns of a product are in doubt from now on."""
        key, tell, _, _ = probe
        known = self._probes.setdefault(i.line, {})
        if key not in known:
            known[key] = probe
            self._open[key] = tell

    def probes_of(self, i: Instruction) -> list[Probe]:
        """The doubts of the product of a line that runs again."""
        found = list(self._probes.get(i.line, {}).values())
        for key, _, _, _ in found:
            self._open.pop(key, None)
        return found

    def ended(self) -> None:
        """The wave is over."""
        for tell in self._open.values():
            tell(None)
        self._open.clear()
