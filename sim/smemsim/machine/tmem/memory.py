"""`TensorMemory`: the 128 lanes x 512 columns of one CTA, who wrote each byte of them, and who may use them.

>>> tmem = TensorMemory("sm_100a")
>>> d = tmem.alloc(64)
>>> tmem.st(TmemAccess("32x32b", repeat=2, taddr=d), np.arange(128 * 2, dtype=np.uint32).reshape(4, 32, 2), label="softmax")
>>> tmem.ld(TmemAccess("16x64b", taddr=d), warp=1)[:4, 0].tolist()
[64, 80, 65, 81]
>>> tmem.owner(40, 1).where
(1, 8, 1, 0)
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from smemsim.addressing.tensor_memory import window_lane
from smemsim.arguments import flag, shown, whole
from smemsim.errors import InputError, Unmodelled
from smemsim.machine.tmem.access import TmemAccess
from smemsim.machine.tmem.address import TmemAddress, indices, together
from smemsim.machine.tmem.allocation import AllocationError, Columns
from smemsim.machine.tmem.writers import Owner, TmemStore, owner_of
from smemsim.spec.architectures import architecture
from smemsim.spec.tensor_memory import ALLOCATION, CELL_BITS, COLUMNS, LANES, TENSOR_MEMORY_ARCHITECTURES, WARP_LANES

__all__ = ["TensorMemory"]

CELL_BYTES = CELL_BITS // 8
FORGET_EVERY = 64  # writers, after which those are dropped of whom no byte is left
WARPS = LANES // WARP_LANES


class TensorMemory(Columns):
    """Tensor memory of one CTA: `cells` (uint32, 128 lanes x 512 columns), `writers` (None: all its bytes are overwritten), allocations.

    With `strict` (the default) touching columns that are not allocated is an InputError; otherwise it is noted in `problems` and done.
    Cells that nobody wrote read as 0 here and have no owner; hardware has whatever was there. Nothing here has been measured; the rules of
    allocation are documented (PTX ISA 9.7.16.7.1), which columns one gets is inferred: the first that fit. `cells` and `allocated` (bool, 512)
    are where these are to lie, for memories side by side; `owners` False keeps no account of who wrote what.
    """

    def __init__(
        self,
        arch: str = "sm_100a",
        *,
        strict: bool = True,
        cells: np.ndarray | None = None,
        allocated: np.ndarray | None = None,
        owners: bool = True,
    ) -> None:
        super().__init__(allocated)
        self.arch = architecture(arch).name
        if self.arch not in TENSOR_MEMORY_ARCHITECTURES:
            raise InputError(f"arch = {self.arch}: only {' and '.join(TENSOR_MEMORY_ARCHITECTURES)} have tensor memory")
        self.strict = flag("strict", strict)
        self.cells = np.zeros((LANES, COLUMNS), np.uint32) if cells is None else cells
        self.writers: list[Any] = []
        self.problems: list[str] = []
        self._owned = owners
        count = LANES * COLUMNS if owners else 0
        self._writer = np.full((count, CELL_BYTES), -1, np.int32)
        self._place = np.zeros((count, CELL_BYTES), np.int32)

    def __repr__(self) -> str:
        held = ", ".join(f"{n} columns at {c}" for c, n in sorted(self.allocations.items())) or "nothing allocated"
        return f"<TensorMemory {self.arch}: {held}; {len(self.writers)} writers>"

    def exit_problems(self) -> list[str]:
        """What is wrong when the kernel exits now: a sentence for every allocation that was not given back, and what `problems` has."""
        left = [
            f"{n} columns at {TmemAddress(0, c).encode():#x} were not deallocated before the kernel exits ({ALLOCATION.source}); later CTAs "
            "on this SM can wait for them for ever"
            for c, n in sorted(self.allocations.items())
        ]
        lost = (
            [f"{self.lost} columns were left over by a deallocation of less than an allocation; nobody can give them back"]
            if self.lost
            else []
        )
        return [*self.problems, *left, *lost]

    # ---- cells

    def read(self, lane: Any, column: Any) -> Any:
        """The 32 bits of cells: an int, or uint32 of the shape that `lane` and `column` broadcast to."""
        lane, column = self._cells("read", lane, column)
        found = self.cells[lane, column]
        return found if isinstance(found, np.ndarray) else int(found)

    def write_cells(self, lane: Any, column: Any, values: Any, writer: Any) -> None:
        """Write whole cells, as tcgen05.mma does: `values` (32-bit) broadcast with `lane` and `column`; `writer` is any object.

        Element i of them, in the order of the broadcast arrays, is bytes 4 i to 4 i + 3 of the writer's data. A writer that has a method
        `where(place)` says with it what byte `place` is.
        """
        lane, column = self._cells("written", lane, column)
        lane, column, values = together(np.asarray(lane), np.asarray(column), self._values(values))
        self._put(lane, column, values, writer, np.arange(values.size).reshape(values.shape) * CELL_BYTES)

    def write_placed(self, lane: np.ndarray, column: np.ndarray, values: np.ndarray, writer: Any, place: np.ndarray) -> None:
        """The same with arrays of one shape, where `place` says which bytes of the writer's data each cell has, the first of four."""
        lane, column = together(*self._cells("written", lane, column))
        self._put(lane, column, self._values(values), writer, place)

    def check_allocated(self, lane: Any, column: Any) -> None:
        """InputError, with `strict`, where some of the cells are not allocated: before an instruction writes the first of several memories."""
        if self.strict:
            self._cells("written", lane, column)

    def owner(self, lane: int, column: int, byte: int = 0) -> Owner | None:
        """Who wrote a byte of a cell; None: nobody."""
        at = indices("lane", whole("lane", lane), LANES, "tensor memory has lanes") * COLUMNS
        at += indices("column", whole("column", column), COLUMNS, "tensor memory has columns")
        byte = indices("byte", whole("byte", byte), CELL_BYTES, "a cell has bytes")
        number = int(self._writer[at, byte])
        return None if number < 0 else owner_of(self.writers[number], int(self._place[at, byte]))

    def owners(self, lane: Any, column: Any) -> tuple[np.ndarray, np.ndarray]:
        """(writer, place) of the four bytes of cells, int32 (..., 4): an index into `writers` (-1: nobody) and the byte of its data."""
        lane, column = together(
            indices("lane", lane, LANES, "tensor memory has lanes"), indices("column", column, COLUMNS, "tensor memory has columns")
        )
        at = np.asarray(lane * COLUMNS + column)
        return self._writer[at], self._place[at]

    def doubts(self, lane: Any, column: Any) -> tuple[np.ndarray, np.ndarray]:
        """Of the four bytes of cells, bool (..., 4): did nobody write them (also not what was copied there), was their writer not sure of them?

        A writer says so with methods `unwritten(places)` and `unsure(places)`, if it has them.
        """
        writer, place = self.owners(lane, column)
        unwritten, unsure = writer < 0, np.zeros(writer.shape, bool)
        for number in np.unique(writer[~unwritten]):
            who = self.writers[number]
            for name, found in (("unwritten", unwritten), ("unsure", unsure)):
                if asked := getattr(who, name, None):
                    mine = writer == number
                    found[mine] = asked(place[mine])
        return unwritten, unsure

    def write_bytes(
        self, lane: np.ndarray, column: np.ndarray, values: np.ndarray, mine: np.ndarray, writer: Any, place: np.ndarray
    ) -> None:
        """Write cells of which only the bytes where `mine` (…, 4) is set are the writer's; `place` (…, 4) says which byte of its data each is."""
        lane, column = self._cells("written", lane, column)
        at = lane * COLUMNS + column
        self.cells.reshape(-1)[at] = self._values(values)
        if not self._owned:
            return
        self._add(writer)
        self._writer[at] = np.where(mine, len(self.writers) - 1, self._writer[at])
        self._place[at] = np.where(mine, place, self._place[at])

    def move(self, lane: Any, column: Any, from_lane: Any) -> None:
        """Give cells the contents and the owners of the same columns of other lanes, all at once."""
        self._cells("moved", lane, column)
        to, source = lane * COLUMNS + column, from_lane * COLUMNS + column
        flat = self.cells.reshape(-1)
        flat[to] = flat[source]
        if self._owned:
            self._writer[to], self._place[to] = self._writer[source], self._place[source]

    # ---- threads

    def ld(self, access: TmemAccess, *, warp: int | None = None, taddr: int | None = None) -> np.ndarray:
        """`tcgen05.ld`: uint32 (32 threads, registers) of one warp, or (4, 32, registers) of a warpgroup's four when `warp` is None.

        `taddr`, for one warp, is the address it gives if that is not `access.operand(warp)`: of its lane only bits 4:0 count, the warp has
        32 lanes of its own (`smemsim.RULES["tcgen05.warp_window"]`).
        """
        warps, access = self._warps(access, warp, taddr)
        lane, column = access.location(*_registers(warps, access))
        found = self.read(lane, column)
        if access.pack:
            _, upper = access.location(*_registers(warps, access), half=1)
            found = found & np.uint32(0xFFFF) | self.read(lane, upper) << np.uint32(16)
        result: np.ndarray = found if warp is None else found[0]
        return result

    def st(self, access: TmemAccess, values: Any, *, warp: int | None = None, taddr: int | None = None, label: str = "threads") -> None:
        """`tcgen05.st`: the other way; `values` 32-bit, (32, registers) for one warp or (4, 32, registers). `label` names the writer.

        With `pack` (.unpack::16b) the upper halves of the cells keep what they had (inferred).
        """
        warps, access = self._warps(access, warp, taddr)
        if access.overlaps:
            raise Unmodelled("both halves of .16x32bx2 write the same cells; which thread's value stays is not known")
        values, shape = self._values(values), (WARP_LANES, access.registers)
        if values.shape != (shape if warp is not None else (WARPS, *shape)):
            wanted = shape if warp is not None else (WARPS, *shape)
            raise InputError(
                f"values of shape {values.shape}: .{access.shape}.x{access.repeat} takes {wanted} registers, threads before registers"
            )
        values = values.reshape(len(warps), *shape)
        place = np.arange(values.size).reshape(values.shape) * CELL_BYTES
        writer = TmemStore(str(label), access, warps[0])
        if not access.pack:
            self._put(*self._cells("written", *access.location(*_registers(warps, access))), values, writer, place)
            return
        for half in (0, 1):
            self.check_allocated(*access.location(*_registers(warps, access), half=half))
        for half in (0, 1):
            lane, column = self._cells("written", *access.location(*_registers(warps, access), half=half))
            part = values >> np.uint32(16 * half) & np.uint32(0xFFFF)
            kept = self.cells[lane, column] & np.uint32(0xFFFF0000)
            self._put(lane, column, kept | part, writer, place + 2 * half, CELL_BYTES // 2, new=half == 0)

    def _warps(self, access: Any, warp: Any, taddr: Any) -> tuple[list[int], TmemAccess]:
        if not isinstance(access, TmemAccess):
            raise InputError(f"access = {shown(access)}: needs a TmemAccess, the instruction's shape and address")
        if warp is None:
            if taddr is not None:
                raise InputError("taddr: each warp gives its own; name the warp")
            return list(range(WARPS)), access
        one = whole("warp", warp, minimum=0)
        if taddr is None:
            return [one], access
        given = TmemAddress.decode(taddr)
        inside = window_lane(0, given.lane)  # TmemAccess adds the warp's window
        return [one], dataclasses.replace(access, taddr=TmemAddress(inside, given.column))

    # ---- inside

    def _cells(self, done: str, lane: Any, column: Any) -> tuple[Any, Any]:
        """The cells, after a look at who may touch them."""
        lane = indices("lane", lane, LANES, "tensor memory has lanes")
        column = indices("column", column, COLUMNS, "tensor memory has columns")
        if not np.all(self._allocated[column]):
            missing = np.flatnonzero(np.isin(np.arange(COLUMNS), column) & ~self._allocated)
            sentence = f"column {missing[0]} is {done}, and is not allocated" + (
                f" ({len(missing)} such columns)" if len(missing) > 1 else ""
            )
            if self.strict:
                raise AllocationError(f"{sentence}; tcgen05.alloc comes first (PTX ISA 9.7.16.1.2)")
            self.problems.append(sentence)
        return lane, column

    @staticmethod
    def _values(values: Any) -> np.ndarray:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf" or (array.dtype.itemsize != CELL_BYTES and array.dtype != np.int64):
            raise InputError(f"values: needs 32-bit numbers, a cell each, not {array.dtype}")
        if array.dtype == np.int64:  # what plain Python numbers become
            if array.size and not 0 <= int(array.min()) <= int(array.max()) < 1 << CELL_BITS:
                raise InputError("values: a cell has 32 bits")
            return array.astype(np.uint32)
        return np.ascontiguousarray(array).view(np.uint32).reshape(array.shape)

    def _put(
        self, lane: Any, column: Any, values: np.ndarray, writer: Any, place: np.ndarray, size: int = CELL_BYTES, *, new: bool = True
    ) -> None:
        """Write cells and note that bytes 0 to `size` - 1 of each are the writer's bytes from `place` on."""
        at = lane * COLUMNS + column
        self.cells.reshape(-1)[at] = values
        if not self._owned:
            return
        if new:
            self._add(writer)
        if size == CELL_BYTES:
            self._writer[at] = len(self.writers) - 1
            self._place[at] = place[..., None] + np.arange(CELL_BYTES, dtype=np.int32)
            return
        for byte in range(size):
            self._writer[at, byte] = len(self.writers) - 1
            self._place[at, byte] = place + byte

    def _add(self, writer: Any) -> None:
        self.writers.append(writer)
        if len(self.writers) % FORGET_EVERY == 0:
            self._forget()

    def _forget(self) -> None:
        """Drop the writers of whom no byte is left: an accumulator's holds its instruction's operands."""
        live = set(np.unique(self._writer).tolist())
        for number in range(len(self.writers) - 1):
            if number not in live:
                self.writers[number] = None


def _registers(warps: list[int], access: TmemAccess) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(warp, thread, register), to be broadcast."""
    return np.array(warps)[:, None, None], np.arange(WARP_LANES)[:, None], np.arange(access.registers)
