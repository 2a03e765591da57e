"""Questions of execution to the sanitizer, in addition to the events that it reports (`events.py`). There are two
interfaces, which `run/sanitizer` implements.

Values that may be wrong are followed by `Taint`, through the instructions that move them. Questions during execution
are answered by `Checks`: which registers matter, and which write to a word was the last (for a message). It also
answers whether accesses of a compiled block are in order; these are then recorded at once, without events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from smemsim.core.ptx.module import Instruction, Operand
from smemsim.run.accesses import Piece

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["Cells", "Checks", "GlobalChecks", "LanesApart", "LostUpdates", "NotedTables", "Releases", "SharedChecks", "Taint", "Wanted"]


class Taint(Protocol):
    """Marks of values that may be wrong: of registers, by thread, and of bytes in memory. `slots` are the registers
    that have some, as a bit set.
    """

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
        """The marks that the last read has brought, (threads of the wave, bytes); None where there are none. They are
        not brought again.
        """

    def stack_grew(self) -> None:
        """Local memory has more bytes."""

    def shuffled(self, i: Instruction, threads: np.ndarray, sources: np.ndarray, undefined: np.ndarray | None = None) -> None:
        """shfl: each thread gets the value of its source; the `undefined` ones get an undefined value."""

    def answered(self, i: Instruction, threads: np.ndarray, declined: np.ndarray) -> None:
        """clusterlaunchcontrol.query_cancel: each thread decodes a response; the ctaid of a `declined` request is
        undefined.
        """

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
        """Set the marks of values that were stored to shared memory."""

    def stored(self, i: Instruction, piece: Piece, size: int, marks: np.ndarray) -> None:
        """Set the marks of values that threads have stored."""


class NotedTables(NamedTuple):
    """Tables over the words of a wave's shared memory, or of the first CTA's for a cohort (`folding`). Compiled blocks
    record in them accesses that an epoch of their CTA orders (`marks.py` has the format).

    They are stamps of the last write and the reads of each word; `epoch` by CTA; `clock` and `now` (times) by warp. For
    each word they also hold its last writer, the time and line of the write, and its readers.
    """

    folding: Any
    epoch_written: np.ndarray
    epoch_read: np.ndarray
    epoch: np.ndarray
    clock: np.ndarray
    now: np.ndarray
    read_when: np.ndarray
    read_line: np.ndarray
    read_mark: np.ndarray
    who: np.ndarray
    when: np.ndarray
    line: np.ndarray
    strong: np.ndarray
    mark: np.ndarray


class SharedChecks(Protocol):
    """Races in shared memory, as far as compiled blocks find none."""

    by_epochs: (
        Callable[[int, int, np.ndarray], bool] | None
    )  # what compiled blocks give: are reads of all threads in order? Then it has noted them

    @property
    def folding(self) -> Any:
        """Something while the first CTA stands for all, else None. The tables are others when it is another one."""

    @property
    def noted(self) -> NotedTables:
        """The tables as they are now."""

    def has_epochs(self) -> bool:
        """Do epochs order all accesses?"""

    def are_in_step(self) -> bool:
        """Do all CTAs have the clocks, times and epochs of the first one?"""

    def reads_of_one(self) -> tuple[np.ndarray, ...]:
        """The notes about reads of the first CTA."""

    def unfold_where_others_read(self, cta: int, before: tuple[np.ndarray, ...]) -> None:
        """The first CTA stands for all no more; of CTAs from one on, the last reads are those of `before`."""


class SharedMemory(Protocol):
    """Shared memory; `table` is its record."""

    @property
    def table(self) -> SharedChecks: ...


class Cells(Protocol):
    """Tables over the cells of an array in global memory, `1 << shift` bytes each, and over lines of `1 << line` bytes:
    the epochs (`marks.py`) of writers and readers.

    An empty table has no access. `split` marks the lines that are recorded by their cells.
    """

    @property
    def shift(self) -> int: ...
    @property
    def line(self) -> int: ...
    @property
    def split(self) -> np.ndarray: ...
    @property
    def writers(self) -> np.ndarray: ...
    @property
    def earlier(self) -> np.ndarray: ...
    @property
    def readers(self) -> np.ndarray: ...
    @property
    def others(self) -> np.ndarray: ...
    @property
    def line_writers(self) -> np.ndarray: ...
    @property
    def line_readers(self) -> np.ndarray: ...
    @property
    def line_others(self) -> np.ndarray: ...


class _Unwritten(Protocol):
    def is_unwritten(self, memory: np.ndarray) -> bool:
        """Has no thread of the launch written to an array?"""


class GlobalChecks(Protocol):
    """Races in global memory, as far as compiled blocks find none."""

    first: int  # the number of the wave's first warp in the launch

    @property
    def history(self) -> _Unwritten:
        """The accesses of waves to each array."""

    @property
    def clock(self) -> np.ndarray:
        """The clock of each warp of the wave."""

    def cells_of_store(
        self, i: Instruction, memory: np.ndarray, size: int, threads: int, *, fills_words: Callable[[], bool] = ...
    ) -> tuple[int, Cells] | None:
        """The number of a weak store, and the cells in which it is noted; None if there is more to it."""

    def fills(
        self, stores: Sequence[Instruction], memory: np.ndarray, size: int, table: np.ndarray, rows: np.ndarray, apart: np.ndarray,
        nowhere: int, begin: int, end: int,
    ) -> bool:  # fmt: skip
        """Do threads fill, by stores that follow each other, what no thread has accessed? Then it is noted."""

    def passes_read(self, i: Instruction, piece: Piece, size: int) -> bool:
        """Is nothing suspicious about a read? Then it is noted."""

    def passes_write(self, i: Instruction, piece: Piece, size: int) -> bool:
        """The same of a write."""


class LostUpdates(Protocol):
    """Updates that lanes of one warp may lose."""

    @property
    def stores(self) -> Any:
        """The stores (`id` of the instruction) that may go to one place from several lanes."""

    def may_lose(self, threads: np.ndarray, places: np.ndarray) -> bool:
        """Has one of `stores` to be looked at before it happens?"""


class Releases(Protocol):
    """Releases by some lanes of a warp."""

    def concerns(self, code: Any) -> bool:
        """Has each access of compiled code to be reported?"""


class LanesApart(Protocol):
    """Actions of some lanes of a warp without the others."""

    @property
    def missing_writes(self) -> Releases:
        """Releases by some lanes of a warp, of which the writes of the others are no part."""


class Wanted(NamedTuple):
    """The accesses that the sanitizer of a wave needs.

    If `shared` is set, the wave has shared memory. If `declared` is set, the launch has variables in global memory that
    begin without a value. The spaces of which the sanitizer asks what stores leave there are `values`. If `operands` is
    set, it must note reads of other than matrix instructions, for the operand check. If `registers` is set, operations
    may hold registers until a wait.
    """

    shared: bool
    declared: bool
    values: frozenset[str]
    operands: bool = False
    registers: bool = False

    @classmethod
    def by(cls, x: Wave, follows_global: bool, *, operands: bool, registers: bool) -> Wanted:
        """The accesses that the sanitizer of a wave needs, with or without global memory (`follows_global`)."""
        launch = x.launch
        values = frozenset({"shared", "global"} if follows_global else {"shared"})
        return cls(launch.window_bytes > 0, follows_global and launch.memory.has_declared, values, operands, registers)


class Checks(Protocol):
    """The sanitizer of a wave."""

    taint: Taint
    wants: Wanted
    # Parts that compiled blocks ask: races in global memory, stores whose updates lanes may lose, releases by some
    # lanes.
    globals: GlobalChecks | None
    lost: LostUpdates
    apart: LanesApart
    shared: SharedMemory

    @property
    def held_slots(self) -> int:
        """Registers (a bit set) that a compiled block must not name unseen: in flight, or with a sum that no
        instruction has read.
        """

    def may_wait_in(self, block: Any) -> bool:
        """Does a block name registers of operations in flight, after what they must be in order with? ptxas inserts
        its wait where the register is named. The block is then executed one instruction after the other.
        """

    def waits_at(self, x: Wave, i: Instruction) -> None:
        """The running threads are about to execute an instruction of such a block."""

    @property
    def is_of_first(self) -> bool:
        """Does the first CTA stand for all?"""

    def last_writer(self, word: int) -> Instruction | None:
        """The last writer of a word of the wave's shared memory."""

    def are_unwritten(self, cells: np.ndarray) -> np.ndarray:
        """Which cells of tensor memory, by their place among all, has no instruction written, or hold uninitialised
        bytes?
        """

    def follows_values(self) -> bool:
        """Has each access of shared memory to be reported?"""

    def passes_read(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> bool:
        """Is nothing suspicious about a read of shared memory? Then it is noted."""

    def passes_write(self, x: Wave, i: Instruction, flat: np.ndarray, size: int) -> bool:
        """The same of a write."""
