"""What execution asks the sanitizer, beside the events that it reports (`events.py`): two interfaces, which `run/sanitizer` has.

`Taint` follows values that may be wrong through the instructions that move them. `Checks` answers what cannot wait: which registers matter, what wrote a word last (for a
message), and whether accesses of a compiled block are in order, which are then noted at once instead of being reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from smemsim.core.ptx.module import Instruction, Operand
from smemsim.run.accesses import Piece

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["Checks", "Taint"]


class Taint(Protocol):
    """Marks of values that may be wrong: of registers, by thread, and of bytes in memory. `slots` are the registers that have some, as a bit set."""

    slots: int
    origins: Any  # what the marks stand for: `join`, `all`, `computed`

    def concerns(self, slots: int) -> bool:
        """Has one of these registers a mark, or may a load give it one?"""

    def concerns_matrices(self) -> bool:
        """May what a matrix instruction of the warp reads have a mark?"""

    def run(self, x: Any, i: Instruction, step: Callable[[Any], Any]) -> Any:
        """Execute an instruction by `step`; its results have the marks of what it reads."""

    def came(self, i: Instruction) -> None:
        """An instruction has been executed without `run`: what its loads have brought goes to its registers."""

    def taken(self) -> np.ndarray | None:
        """The marks that the last read has brought, (threads of the wave, bytes); None where there are none. They are not brought again."""

    def stack_grew(self) -> None:
        """Local memory has more bytes."""

    def shuffled(self, i: Instruction, threads: np.ndarray, sources: np.ndarray, undefined: np.ndarray | None = None) -> None:
        """shfl: each thread gets what the source has; of the `undefined` ones nobody knows what."""

    def of_registers(self, operands: Sequence[Operand], threads: np.ndarray) -> np.ndarray | None:
        """The marks of operands, (operands, threads); None where there are none."""

    def put_registers(self, operands: Sequence[Operand], threads: np.ndarray, marks: Any) -> None:
        """Operands have these marks."""

    def parts_of_registers(self, operands: Sequence[Operand], threads: np.ndarray, count: int = 4) -> np.ndarray | None:
        """The marks of the bytes of operands, (operands, threads, `count`)."""

    def put_parts_of_registers(self, operands: Sequence[Operand], threads: np.ndarray, marks: np.ndarray) -> None:
        """Bytes of operands have these marks."""

    def of_warps(self, marks: list[np.ndarray], threads: np.ndarray) -> np.ndarray:
        """The marks that a thread of each warp has, for all of its threads."""

    def of_access(self, i: Instruction, flat: np.ndarray, size: int) -> np.ndarray:
        """The marks of bytes of shared memory, by their places."""

    def put_bytes(self, places: np.ndarray, marks: np.ndarray) -> None:
        """Bytes of shared memory have these marks."""

    def put_stored(self, flat: np.ndarray, size: int, marks: np.ndarray) -> None:
        """What was stored to shared memory has these marks."""

    def stored(self, i: Instruction, piece: Piece, size: int, marks: np.ndarray) -> None:
        """What threads have stored has these marks."""


class Checks(Protocol):
    """The sanitizer of a wave."""

    taint: Taint
    has_shared: bool  # has the wave shared memory?
    has_declared: bool  # has the launch variables in global memory that begin without a value?
    values_wanted: frozenset[str]
    # Parts that compiled blocks ask: races in global memory, stores whose updates lanes may lose, releases by some lanes.
    globals: Any
    lost: Any
    unreleased: Any
    shared: Any

    @property
    def held_slots(self) -> int:
        """Registers (a bit set) that a block must not name unseen: in flight, or with a sum that nobody has read."""

    @property
    def is_of_first(self) -> bool:
        """Does the first CTA stand for all?"""

    def last_writer(self, word: int) -> Instruction | None:
        """What wrote a word of the wave's shared memory last."""

    def follows_values(self) -> bool:
        """Has each access of shared memory to be reported?"""

    def passes_read(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> bool:
        """Is nothing suspicious about a read of shared memory? Then it is noted."""

    def passes_write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> bool:
        """The same of a write."""
