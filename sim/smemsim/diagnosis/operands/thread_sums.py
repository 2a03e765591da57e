"""Sums of tiles of which threads have copied at least one operand: do their products multiply the same k of A and B?

The rules are those of `sums.py`, for tiles without a tensor map. A sum may go through A and B in different orders.
Examples: the imaginary part of a complex product whose halves are side by side along K, and products of high and low
parts. So nothing is reported before it is over.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from smemsim.core.finding import Finding, Half, at_instruction
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.diagnosis.operands.pairings import SPLIT, are_terms
from smemsim.diagnosis.operands.read import OperandRead
from smemsim.diagnosis.recognised import Recognised
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.records import Mma

__all__ = ["Odd", "Parted", "Pointers", "Step", "Sum", "Tile", "found_in", "written_at"]

POINTER = np.dtype("<u8")
Tile: TypeAlias = Recognised | OperandRead


class Pointers:
    """The addresses that a launch has as parameters."""

    def __init__(self, launch: Launch) -> None:
        given = launch.parameters
        words = given[: len(given) // POINTER.itemsize * POINTER.itemsize].view(POINTER)
        self._addresses = sorted(words.tolist())

    def are_in(self, begin: int, end: int) -> bool:
        """Is one of them from `begin` up to `end`?"""
        n = bisect.bisect_left(self._addresses, begin)
        return n < len(self._addresses) and self._addresses[n] < end

    def begin(self, address: int, begin: int) -> int:
        """The begin of an address's matrix: the last pointer or tensor map of the parameters before it, or else the
        begin of its array.
        """
        n = bisect.bisect_right(self._addresses, address) - 1
        return self._addresses[n] if n >= 0 and self._addresses[n] >= begin else begin


class Step(NamedTuple):
    """The operands of an instruction: A and B, as tensor loads brought them or as they were recognised."""

    event: Mma
    tiles: tuple[Tile, Tile]
    at: tuple[tuple[int, int], tuple[int, int]]  # (row, k) of both in their matrices

    @property
    def apart(self) -> int:
        """How much further A's k is than B's."""
        return self.at[0][1] - self.at[1][1]

    @property
    def rows(self) -> tuple[int, int]:
        """The first rows of A and B."""
        return self.at[0][0], self.at[1][0]


class Parted(NamedTuple):
    """The first step of a sum from which on the k of A and B differ. It has the operand, the rows and k by which this
    and the other operand go on there, and the store.
    """

    step: Step
    side: str
    moves: tuple[tuple[int, int], tuple[int, int]]
    writer: Instruction | None
    is_certain: bool
    meant: str = ""  # why it may be meant


class Odd(NamedTuple):
    """A step of a sum with another k of an operand than of the other one, while most steps have the same k of both."""

    step: Step
    side: str
    writer: Instruction | None


def place(tile: Tile, pointers: Pointers) -> tuple[Any, tuple[int, int]]:
    """The matrix that a tile belongs to, and its row and k there."""
    if isinstance(tile, OperandRead):
        return (tile.base, tile.matrix.address, tile.along_k), tile.at
    begin = pointers.begin(tile.begin + tile.at * tile.itemsize, tile.begin)
    wide, narrow = (tile.row, tile.step) if tile.is_along_k else (tile.step, tile.row)
    outer, inner = divmod(tile.at - (begin - tile.begin) // tile.itemsize, abs(wide))
    at = outer, inner // abs(narrow or 1)
    return (begin, tile.row, tile.step, tile.converted), at if tile.is_along_k else at[::-1]


@dataclasses.dataclass(eq=False)
class _Matrices:
    """The steps of a sum that multiply the same two matrices, and the places of their tiles, counted from the first
    one's.
    """

    steps: list[Step] = dataclasses.field(default_factory=list)
    writers: dict[int, Instruction | None] = dataclasses.field(default_factory=dict)  # by the number of the step
    parted: Parted | None = None
    has_left: bool = False  # nobody knows how it goes on
    at: tuple[list[tuple[int, int]], list[tuple[int, int]]] = dataclasses.field(default_factory=lambda: ([(0, 0)], [(0, 0)]))

    def goes_on(self, *moves: tuple[int, int] | None) -> None:
        """The next tiles of A and B, by how many rows and k they are further on."""
        for at, move in zip(self.at, moves, strict=True):
            if move is None:
                self.has_left = True
            else:
                at.append((at[-1][0] + move[0], at[-1][1] + move[1]))

    @property
    def has_all_of_both(self) -> bool:
        """Has it multiplied each k of A, and each k of B, that it has multiplied of the other one?"""
        a, b = ({(rows, k - min(k for _, k in at)) for rows, k in at} for at in self.at)
        return a == b

    @property
    def is_alike(self) -> bool:
        """Do all steps multiply the same rows, and the same k of A and B?"""
        first = self.steps[0]
        has_one_k = 0 < _extent(first.tiles[0]) == _extent(first.tiles[1])
        return has_one_k and not first.apart and not self.has_left and len({(step.rows, step.apart) for step in self.steps}) == 1

    def odd(self) -> Odd | None:
        """The first step with another k of A than of B, if that is no order that may be meant.

        The sum multiplies the same k of A and of B, each once and in the same rows, and most of its steps have the same
        k of both. Complex or split numbers have no such step, or have each k several times.
        """
        k = [[step.at[side][1] for step in self.steps] for side in (0, 1)]
        apart = [n for n, step in enumerate(self.steps) if step.apart]
        is_one = len({step.rows for step in self.steps}) == 1 and not self.has_left
        if not is_one or not apart or 2 * len(apart) >= len(self.steps) or len(set(k[0])) < len(k[0]) or sorted(k[0]) != sorted(k[1]):
            return None
        if _extent(self.steps[0].tiles[0]) != _extent(self.steps[0].tiles[1]):
            return None
        uneven = [len({new - old for old, new in itertools.pairwise(of)}) for of in k]
        n, side = apart[0], "a" if uneven[0] > uneven[1] else "b"
        sides = [name for name, tile in zip("ab", self.steps[n].tiles, strict=True) if isinstance(tile, Recognised)]
        return Odd(self.steps[n], side if side in sides else sides[0], self.writers.get(n))


@dataclasses.dataclass(eq=False)
class Sum:
    """One sum of an accumulator, by the matrices that its steps multiply. `is_whole`: does it begin here, and is it
    known of all of its steps what they multiply?
    """

    is_whole: bool
    of: dict[Any, _Matrices] = dataclasses.field(default_factory=dict)

    def add(self, event: Mma, tiles: tuple[Tile, Tile], pointers: Pointers) -> tuple[Step, str]:
        """One more step. Returns it, and the side of which the writer is wanted, "" for none: `note` takes it."""
        (of_a, at_a), (of_b, at_b) = (place(tile, pointers) for tile in tiles)
        own = self.of.setdefault((of_a, of_b), _Matrices())
        step = Step(event, tiles, (at_a, at_b))
        own.steps.append(step)
        if len(own.steps) == 1 or own.has_left:
            return step, ""
        before = own.steps[-2]
        moves = [_move(now, last) for now, last in zip(tiles, before.tiles, strict=True)]
        usual = [_last_move(at) for at in own.at]
        own.goes_on(*moves)
        found = None if own.parted is not None else _parted(before, step, moves)
        if found is not None and moves[0] == usual[0] and moves[1] != usual[1] and isinstance(tiles[1], Recognised):
            found = "b", found[1] if found[0] == "b" else found[1][::-1]
        if found is not None:
            own.parted = Parted(step, *found, None, is_certain=False)
            return step, found[0]
        by_threads = [side for side, tile in zip("ab", tiles, strict=True) if isinstance(tile, Recognised)]
        return step, by_threads[-1] if step.apart != own.steps[0].apart else ""

    def note(self, step: Step, writer: Instruction | None) -> None:
        """The writer of the last step's tile."""
        own = next(own for own in self.of.values() if own.steps[-1] is step)
        own.writers[len(own.steps) - 1] = writer
        if own.parted is not None and own.parted.step is step:
            own.parted = own.parted._replace(writer=writer)

    def fault(self) -> Parted | Odd | None:
        """Where A and B parted, unless the sum went through the same k of both, in another order; else the step whose
        k differ.
        """
        for own in self.of.values():
            is_whole = self.is_whole and not own.has_left
            if own.parted is not None and not (is_whole and own.has_all_of_both):
                may_be_meant = are_terms([(a, b) for (_, a), (_, b) in (step.at for step in own.steps)])
                return own.parted._replace(is_certain=is_whole and len(self.of) == 1 and not may_be_meant, meant=SPLIT * may_be_meant)
            odd = own.odd() if is_whole else None
            if odd is not None:
                return odd
        return None

    @property
    def is_decided(self) -> bool:
        """Is it known that all of its steps multiply the same k and rows of A and B?"""
        rows = {step.rows for own in self.of.values() for step in own.steps}
        return len(rows) <= 1 and all(own.is_alike for own in self.of.values())


def _extent(tile: Tile) -> int:
    """K of an operand's matrix; 0 where it is not known."""
    return tile.extent if isinstance(tile, Recognised) else tile.modes[1][0].extent if tile.is_matrix else 0


def _move(now: Tile, before: Tile) -> tuple[int, int] | None:
    """(rows, k) from one tile of an operand to the next."""
    if isinstance(now, Recognised):
        return now.move(before) if isinstance(before, Recognised) else None
    if isinstance(before, Recognised) or now.base != before.base or not now.is_matrix:
        return None
    return now.at[0] - before.at[0], now.at[1] - before.at[1]


def _last_move(at: list[tuple[int, int]]) -> tuple[int, int] | None:
    """By how many rows and k the last tile is further on than the one before."""
    return None if len(at) < 2 else (at[-1][0] - at[-2][0], at[-1][1] - at[-2][1])


def _parted(before: Step, now: Step, moves: list[tuple[int, int] | None]) -> tuple[str, tuple[tuple[int, int], tuple[int, int]]] | None:
    """The operand that threads wrote which does not go on by the k of the other one, and by how many rows and k each of
    the two goes on.

    Only where both matrices have the same K, and the rows of the other operand stay: then one sum goes through K, and
    its A and B together.
    """
    of_a, of_b = moves
    extent = _extent(now.tiles[0])
    if of_a is None or of_b is None or not extent or extent != _extent(now.tiles[1]):
        return None
    for side, own, mine, other in (("a", now.tiles[0], of_a, of_b), ("b", now.tiles[1], of_b, of_a)):
        if not isinstance(own, Recognised) or other[0] or mine == other:
            continue
        goes_along_rows = mine == (other[1], 0)
        if mine[0] == 0 or goes_along_rows:
            return side, (mine, other)
    return None


# ---- what is told


def found_in(fault: Parted | Odd, *, is_sample: bool = False) -> Finding:
    """R508 for a sum in which the k of A and B differ. It is a remark if a right program may look so. Only some k may
    differ, by a list of blocks or at the end of a ring buffer. The sum may be a sample. Or not all of its steps are
    known.
    """
    return _found_step(fault, is_certain=fault.is_certain and not is_sample) if isinstance(fault, Parted) else _found_odd(fault)


def _found_step(found: Parted, *, is_certain: bool) -> Finding:
    (rows, k), (_, of_other) = found.moves
    event = found.step.event
    name, other = ("A", "B") if found.side == "a" else ("B", "A")
    own = found.step.tiles["ab".index(found.side)]
    assert isinstance(own, Recognised)
    goes = f"by {rows} rows and no k" if rows else f"by {k} k"
    return at_instruction(
        "R508", found.writer or event.instruction, f"the product at {event.instruction.at} multiplies different k of A and B", halves=written_at(found.writer),
        why=f"since the product before, {name} (threads load it from the array at {own.begin:#x}) advanced {goes}, {other} by {of_other} k" + f"; {found.meant}" * bool(found.meant), repair=
        f"load {name} at the same k as {other}, or read both from the same stage",
        milder=None if is_certain else Severity.NOTE,
    )  # fmt: skip


def _found_odd(found: Odd) -> Finding:
    event, (of_a, of_b) = found.step.event, (k for _, k in found.step.at)
    name, k = ("A", of_b) if found.side == "a" else ("B", of_a)
    return at_instruction(
        "R508", found.writer or event.instruction, f"the product at {event.instruction.at} multiplies k = {of_a} of A with k = {of_b} of B",
        f"load {name} at k = {k}, or read it from the stage that holds that k", halves=written_at(found.writer),
        why="the other products of this sum multiply the same k of both; a list of blocks or a ring buffer may look the same", milder=Severity.NOTE,
    )  # fmt: skip


def written_at(writer: Instruction | None) -> tuple[Half, ...]:
    """The store that wrote the tile, if it is known."""
    return () if writer is None else (Half("write", writer.name, writer),)
