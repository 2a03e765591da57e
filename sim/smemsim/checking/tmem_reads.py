"""What an instruction reads from tensor memory, and in which columns it would find what was meant."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from smemsim.arguments import shown
from smemsim.checking.report import CheckFinding
from smemsim.checking.simulate import TMEM, UNWRITTEN, Machine
from smemsim.errors import InputError
from smemsim.machine.tmem.address import TmemAddress
from smemsim.spec.findings import Severity

__all__ = ["Cells", "as_given", "blamed_copy", "grid", "steps_of", "tmem_at", "told_of"]


@dataclasses.dataclass(frozen=True, eq=False)
class Cells:
    """Where the entries of one instruction's operand lie, counted from its first column: three arrays (copies, rows, entries of a row).

    Tensor memory has a CTA's lanes and columns; `byte` is that of the cell with the entry's lowest bit.
    """

    lane: np.ndarray
    column: np.ndarray
    byte: np.ndarray

    @property
    def columns(self) -> int:
        """Columns that it takes."""
        return int(self.column.max()) + 1

    def read(self, of: np.ndarray, column: int, byte: int = 0) -> np.ndarray:
        """`Machine.tmem` or `.tmem_writer` at the cells, UNWRITTEN past the last column or byte."""
        columns, bytes_ = self.column + column, self.byte + byte
        inside = (columns < TMEM[1]) & (bytes_ < TMEM[2])
        found: np.ndarray = np.where(inside, of[self.lane, np.where(inside, columns, 0), np.where(inside, bytes_, 0)], UNWRITTEN)
        return found

    def wrong(self, machine: Machine, meant: np.ndarray, column: int, byte: int = 0) -> np.ndarray:
        """Which entries (copies, rows, entries) are others than meant; whatever is meant outside the tensor is right."""
        bad: np.ndarray = (self.read(machine.tmem, column, byte) != meant) & (meant >= 0)
        return bad

    def places(self, machine: Machine, meant: np.ndarray, bytes_: tuple[int, ...] = (0,)) -> list[tuple[int, int]]:
        """Every (first column, byte) from which all entries are what was meant."""
        known = np.argwhere(meant >= 0)
        if not len(known):
            return []
        row, entry = known[0]
        lane, column, byte = (int(x[0, row, entry]) for x in (self.lane, self.column, self.byte))
        found = []
        for add in bytes_:
            if byte + add < TMEM[2]:
                first = np.nonzero(machine.tmem[lane, :, byte + add] == meant[row, entry])[0] - column
                found += [
                    (int(c), add) for c in first if 0 <= c <= TMEM[1] - self.columns and not self.wrong(machine, meant, int(c), add).any()
                ]
        return found


def grid(where: str, value: Any, shape: tuple[int, int]) -> np.ndarray:
    """A key's numbers as (blocks, K steps): one number, one a step, or a list of them for each block.

    >>> grid("step[1].scale_a.tmem", [0, 4], (2, 2)).tolist()
    [[0, 4], [0, 4]]
    """
    nested = value if isinstance(value, list) and isinstance(value[0], list) else [value if isinstance(value, list) else [value]]
    if any(len(row) != len(nested[0]) for row in nested):
        raise InputError(f"{where}: needs as many entries in every block")
    try:
        return np.broadcast_to(np.array(nested, np.int64), shape)
    except ValueError:
        raise InputError(
            f"{where} = {shown(value)}: {len(nested)} x {len(nested[0])} entries; the step has {shape[0]} blocks of {shape[1]} K steps"
        ) from None


def steps_of(step: dict[str, Any], side: str) -> tuple[int, int]:
    """(blocks of the operand's rows, K steps) of a step: the most that any of its keys has."""
    blocks = steps = 1
    for name in ("a", "b", "scale_a", "scale_b"):
        for key in ("words", "tmem", "id"):
            value = step.get(name, {}).get(key)
            if isinstance(value, list) and value:
                inner = value[0] if isinstance(value[0], list) else value
                steps = max(steps, len(inner))
                blocks = max(blocks, len(value)) if isinstance(value[0], list) and name[-1] == side else blocks
        for key in ("k_add", "mn_add"):
            value = step.get(name, {}).get(key)
            count = len(value) if isinstance(value, list) else 1
            steps = max(steps, count) if key == "k_add" else steps
            blocks = max(blocks, count) if key == "mn_add" and name[-1] == side else blocks
    return blocks, steps


def tmem_at(where: str, value: int) -> TmemAddress:
    """The address; the error begins with the path."""
    try:
        return TmemAddress.decode(value)
    except InputError as e:
        raise InputError(f"{where}: {str(e).removeprefix('taddr = ')}") from None


def as_given(values: np.ndarray, given: Any) -> Any:
    """A table (blocks, K steps) as a key has it: a number where all are one, a list where blocks are alike.

    >>> as_given(np.array([[0, 4], [0, 4]]), [0, 0])
    [0, 4]
    """
    if not isinstance(given, list) and (values == values[0, 0]).all():
        return int(values[0, 0])
    nested = isinstance(given, list) and isinstance(given[0], list)
    return values[0].tolist() if (values == values[:1]).all() and not nested else values.tolist()


def told_of(machine: Machine, number: int) -> list[CheckFinding]:
    """What was found of a copy step that makes its data wrong."""
    title = f"step {number + 1} (copy)"
    return [f for f in machine.findings if f.severity in (Severity.WRONG, Severity.TRAP) and f.title in (title, f"{title} a")]


def blamed_copy(machine: Machine, raw: dict[str, Any], number: int, writers: set[int]) -> CheckFinding | None:
    """An earlier finding about a copy that explains wrong cells, which these issues wrote (-1: nobody, and any copy may have failed to)."""
    steps = {machine.issues[w].step for w in writers if w >= 0}
    copies = [i for i, step in enumerate(raw["step"][:number]) if step["op"] == "copy" and (i in steps or -1 in writers)]
    return next((f for i in copies for f in told_of(machine, i)), None)
