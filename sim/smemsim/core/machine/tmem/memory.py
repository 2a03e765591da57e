"""Tensor memory with its owners: allocated, written, read by lanes and columns or as a whole, also for a pair of CTAs.

Refused accesses are those that the code of ptxas checks (`RULES["tcgen05.alloc"]`). The allocator has two bits for
every 32 columns: "taken", and "an allocation starts".

>>> epilogue = TmemAccess("16x256b", repeat=4)
>>> epilogue.registers, epilogue.columns
(16, 32)
>>> epilogue.location(warp=2, thread=5, register=6), epilogue.register(73, 10)
((73, 10), (2, 5, 6))

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
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from smemsim.base.arguments import choice, flag, shown, whole
from smemsim.base.distinct import distinct
from smemsim.base.errors import InputError, Unmodelled
from smemsim.base.members import OwnMembers
from smemsim.core.layout import tensor_memory as formulas
from smemsim.core.layout.tensor_memory import window_lane
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.tma import Transfer
from smemsim.core.machine.tmem.address import TmemAddress, check_columns, indices, plain, together
from smemsim.core.machine.tmem.layout import AccumulatorLayout, ATmemLayout, MetadataLayout, ScaleLayout
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.assumptions import assumed
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.tensor_memory import (
    ALLOCATION,
    CELL_BITS,
    COLUMNS,
    LANES,
    LOAD_STORE_SHAPES,
    METADATA,
    TENSOR_MEMORY_ARCHITECTURES,
    WARP_LANES,
    CopyShape,
    LoadStoreShape,
)

__all__ = [
    "AllocationError",
    "Columns",
    "Owner",
    "TensorMemory",
    "TmemAccess",
    "TmemCopy",
    "TmemMatrix",
    "TmemStore",
    "check_together",
    "memories_of",
    "owner_of",
    "tmem_put",
    "tmem_take",
]


# ---- Who has which columns of a CTA's tensor memory: allocations and their rules (PTX ISA 9.1 §9.7.16.7.1)


class AllocationError(InputError):
    """Tensor memory is allocated, used or deallocated against its rules (PTX ISA 9.1 §9.7.16.7.1).

    >>> from smemsim import TensorMemory
    >>> TensorMemory().alloc(33)
    Traceback (most recent call last):
    smemsim.core.machine.tmem.memory.AllocationError: columns = 33: needs a power of two from 32 to 512 (PTX ISA 9.1 §9.7.16.7.1)

    `repair` is a sentence for the fix, or "".
    """

    repair = ""


class Columns:
    """The 512 columns: `allocations` by their first one, and how many are `lost`. `allocated` (bool, 512) is where they
    are to be marked.
    """

    def __init__(self, allocated: np.ndarray | None = None) -> None:
        self.allocations: dict[int, int] = {}  # first column: columns
        self._allocated = np.zeros(COLUMNS, bool) if allocated is None else allocated
        self._largest: int = ALLOCATION.most
        self._cta_group: int | None = None
        self._relinquished = False
        self.lost = 0  # columns that were cut off from their allocation

    def alloc(self, columns: int, *, cta_group: int = 1) -> TmemAddress:
        """`tcgen05.alloc`: allocate `columns` columns, a power of two from 32 to 512. Returns the address (lane 0).

        The PTX ISA wants no allocation to be larger than the one before (`grows`); nothing checks it, and it gets its
        columns like any other. With `cta_group` 2 the peer's warp takes part and gets the same columns: call it for
        both memories. Raises InputError where the instruction would be illegal, or would block for ever.

        >>> tmem = Columns()
        >>> tmem.alloc(256), tmem.alloc(32) + 8
        (TmemAddress(lane=0, column=0), TmemAddress(lane=0, column=264))
        """
        count, group = self.check_allocation(columns, cta_group=cta_group)
        first = self.free(count)
        if first is None:
            free = int((~self._allocated).sum())
            raise AllocationError(
                f"columns = {count}: {free} of {COLUMNS} are free, no {count} in a row; tcgen05.alloc blocks until another warp or CTA "
                "deallocates some"
            )
        self._cta_group, self._largest = group, count
        self.allocations[first] = count
        self._allocated[first : first + count] = True
        return TmemAddress(0, first)

    def check_allocation(self, columns: int, *, cta_group: int = 1) -> tuple[int, int]:
        """(columns, cta_group) of a legal tcgen05.alloc, whether or not it has to wait."""
        count, group = self._count(columns), self.check_group(cta_group)
        if self._relinquished:
            refused = AllocationError(
                f"alloc of {count} columns: this CTA has executed tcgen05.relinquish_alloc_permit before ({ALLOCATION.source})"
            )
            refused.repair = "execute tcgen05.relinquish_alloc_permit after the last tcgen05.alloc of the CTA"
            raise refused
        return count, group

    def grows(self, columns: int) -> int:
        """The columns of the allocation before, if so many are more; else 0."""
        return self._largest if columns > self._largest else 0

    def has(self, columns: range) -> bool:
        """Is one of these columns taken?"""
        return bool(self._allocated[columns.start : columns.stop].any())

    def free(self, columns: int) -> int | None:
        """The first column that the next allocation of this size would get. None if it would have to wait."""
        columns = self._count(columns)
        begins = range(0, COLUMNS - columns + 1, columns)
        first = next((n for n in begins if not self._allocated[n : n + columns].any()), None)
        column: int | None = assumed("alloc.column", first, columns, self._allocated)
        return column

    def dealloc(self, taddr: int | TmemAddress, columns: int, *, cta_group: int = 1) -> int:
        """`tcgen05.dealloc`: free the columns of an allocation, and of the allocations after it. The lane in the
        address has no effect.

        Returns how many columns lost their allocation, so that they can never be freed: 0 for a correct kernel.

        >>> tmem = Columns()
        >>> first, second, third = tmem.alloc(128), tmem.alloc(64), tmem.alloc(64)
        >>> tmem.dealloc(first, 128), tmem.dealloc(second, 32), tmem.allocations
        (0, 32, {192: 64})
        """
        address, count = TmemAddress.decode(taddr), whole("columns", columns)
        if not ALLOCATION.unit <= count <= COLUMNS or count % ALLOCATION.unit:
            raise AllocationError(f"columns = {count}: needs a multiple of {ALLOCATION.unit} up to {COLUMNS} ({ALLOCATION.source})")
        self.check_group(cta_group)
        first = address.column // ALLOCATION.unit * ALLOCATION.unit
        end = first + count
        if not self._allocated[first:end].all():
            raise AllocationError(
                f"dealloc of {count} columns at {address.encode():#x}: not all of them are allocated ({ALLOCATION.source})"
            )
        if first not in self.allocations:
            raise AllocationError(f"dealloc of {count} columns at {address.encode():#x}: no allocation begins there ({ALLOCATION.source})")
        last = max(begin for begin in self.allocations if begin < end)
        cut = max(0, last + self.allocations[last] - end)
        for begin in [begin for begin in self.allocations if first <= begin < end]:
            del self.allocations[begin]
        self._allocated[first:end] = False
        self.lost += cut
        return cut

    def relinquish_alloc_permit(self, *, cta_group: int = 1) -> None:
        """`tcgen05.relinquish_alloc_permit`: after it this CTA cannot allocate."""
        self.check_group(cta_group)
        self._relinquished = True

    def _count(self, columns: Any) -> int:
        count = whole("columns", columns)
        if not ALLOCATION.least <= count <= ALLOCATION.most or count & (count - 1):
            refused = AllocationError(
                f"columns = {count}: needs a power of two from {ALLOCATION.least} to {ALLOCATION.most} ({ALLOCATION.source})"
            )
            enough = max(ALLOCATION.least, 1 << max(0, count - 1).bit_length())
            refused.repair = f"allocate {enough} columns" if count > 0 and enough <= ALLOCATION.most else ""
            raise refused
        return count

    def check_group(self, cta_group: Any) -> int:
        """The `cta_group` of an instruction; InputError unless it is that of all others on this memory."""
        group = whole("cta_group", cta_group)
        if group not in (1, 2):
            raise InputError(f"cta_group = {group}: there are .cta_group::1 and .cta_group::2")
        if self._cta_group not in (None, group):
            raise AllocationError(
                f"cta_group = {group}: this kernel has used {self._cta_group}; all its tcgen05 instructions must have the same"
            )
        return group


# ---- Writers of tensor memory: stores of threads, copies from shared memory, named writers; and the chain back to
# the origin of the data


@dataclasses.dataclass(frozen=True)
class Owner:
    """The writer of a byte, and the part of the writer's data (`where`). The owner of the bytes that a copy took is
    `source`.

    A tcgen05.st has (warp, thread, register, byte) as `where`. A tcgen05.cp has (row, byte of the row). A TMA transfer
    has the tensor coordinate. For `write_cells` it is (element, byte), or the result of the writer's own
    `where(place)`.
    """

    writer: Any
    where: tuple[int, ...]
    source: Owner | None = None

    @property
    def origin(self) -> Owner:
        """The last owner of the chain: for a copy the writer of shared memory, if there is one."""
        return self if self.source is None else self.source.origin


@dataclasses.dataclass(frozen=True)
class TmemStore:
    """A tcgen05.st: `label` says whose, `first_warp` is the first of its warps."""

    label: str
    access: TmemAccess
    first_warp: int

    def where(self, place: int) -> tuple[int, ...]:
        """(warp, thread, register, byte) of the store's byte `place`."""
        register, byte = divmod(place, 4)
        thread, register = divmod(register, self.access.registers)
        warp, thread = divmod(thread, WARP_LANES)
        return self.first_warp + warp, thread, register, byte


@dataclasses.dataclass(frozen=True)
class TmemMatrix:
    """A whole matrix that tmem_put wrote: its byte `place` belongs to entry `place` of the matrix, row by row."""

    label: str
    columns: int

    def where(self, place: int) -> tuple[int, ...]:
        """(row, column) of the entry; of several in one byte the lowest."""
        return divmod(place, self.columns)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TmemCopy:
    """The bytes that one CTA's part of a tcgen05.cp moved.

    `writer` and `position` are int64, rows x bytes. For every written byte, `writer` is the writer of its shared byte
    (an index into `writers`, -1 if uninitialised). `position` is the index of the byte in that writer's data.
    """

    shape: CopyShape
    src_fmt: str
    taddr: int
    descriptor: int
    cta: int
    grade: Grade
    writer: np.ndarray
    position: np.ndarray
    writers: Sequence[Any]

    def __repr__(self) -> str:
        form = ".".join(filter(None, (self.shape.name, self.shape.multicast, self.src_fmt)))
        return f"<tcgen05.cp.{form} to {self.taddr:#x} through {self.descriptor:#018x}, CTA {self.cta} [{self.grade}]>"

    def where(self, place: int) -> tuple[int, ...]:
        """(row, byte of the row) of the copy's byte `place`."""
        return divmod(place, self.shape.row_bytes)

    def unwritten(self, places: np.ndarray) -> np.ndarray:
        """Which of the copy's bytes `places` came from uninitialised shared bytes."""
        row, byte = np.divmod(places, self.shape.row_bytes)
        nobody: np.ndarray = self.writer[row, byte] < 0
        return nobody

    def source(self, place: int) -> Owner | None:
        """The owner of the shared byte that the copy's byte `place` came from."""
        row, byte = divmod(place, self.shape.row_bytes)
        number, position = int(self.writer[row, byte]), int(self.position[row, byte])
        if number < 0:
            return None
        writer = self.writers[number]
        if isinstance(writer, Transfer):
            return Owner(writer, tuple(writer.tensor_coordinates(np.array(position)).tolist()))
        return Owner(writer, (position,))


def owner_of(writer: Any, place: int) -> Owner:
    """The owner of byte `place` of the writer's data."""
    where = getattr(writer, "where", None)
    source = writer.source(place) if isinstance(writer, TmemCopy) else None
    return Owner(writer, tuple(where(place)) if callable(where) else divmod(place, 4), source)


# ---- `TmemAccess`: which cell each register of each thread has in a tcgen05.ld or tcgen05.st


def first_lane(warp: Any, lane: Any) -> Any:
    """The lane at which an access of a warp begins whose address has `lane`: `window_lane`."""
    return assumed("ld_st.window", window_lane(warp, lane), warp, lane)


SPLIT = "16x32bx2"
HALF = WARP_LANES // 2  # threads of each of its two accesses
REPEATS = tuple(1 << i for i in range(8))
_CELLS: dict[str, Any] = {name: getattr(formulas, f"cell_of_{name}") for name in LOAD_STORE_SHAPES}
_REGISTERS: dict[str, Any] = {name: getattr(formulas, f"register_of_{name}") for name in LOAD_STORE_SHAPES}


@dataclasses.dataclass(frozen=True, repr=False)
class TmemAccess(metaclass=OwnMembers):
    """One tcgen05.ld or tcgen05.st: its `shape` ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"), .x`repeat` and
    address.

    - Packing: with `pack` it has .pack::16b or .unpack::16b. A register holds the lower halves of two neighbouring
      columns.
    - Offset: `half_split_offset`, the immHalfSplitoff of .16x32bx2, in columns.
    - Address: `taddr`, before the kernel adds the warp's lanes. Its lane is 0, or 16 for the shapes of 16 lanes. The
      operand of warp `warp` is `operand(warp)`.
    - Lanes: `window`, the first of the 32 lanes that are accessed, if a whole address names them. None means those of
      the warp.

    Register counts are documented (PTX ISA 9.1 §9.7.16.8.3), the maps compiled (CUTLASS copy_traits_sm100.hpp).

    Raises InputError for forms that the instruction does not have, and Unmodelled past the last column.

    >>> import smemsim
    >>> access = smemsim.TmemAccess("32x32b", repeat=4)
    >>> access.registers, access.columns
    (4, 4)
    """

    shape: str
    repeat: int = 1
    pack: bool = dataclasses.field(default=False, kw_only=True)
    half_split_offset: int | None = dataclasses.field(default=None, kw_only=True)
    taddr: int | TmemAddress = dataclasses.field(default=0, kw_only=True)
    window: int | None = dataclasses.field(default=None, kw_only=True, compare=False)

    def __repr__(self) -> str:
        given = [repr(self.shape), str(self.repeat)]
        given += ["pack=True"] if self.pack else []
        given += [f"half_split_offset={self.half_split_offset}"] if self.half_split_offset is not None else []
        given += [f"taddr={self.taddr:#x}"] if self.taddr else []
        return f"TmemAccess({', '.join(given)})  # {self.grade}"

    def __post_init__(self) -> None:
        if isinstance(self.shape, str):
            object.__setattr__(self, "shape", self.shape.removeprefix("."))
        plain(self, "repeat", "half_split_offset")
        row = LOAD_STORE_SHAPES[choice("shape", self.shape, tuple(LOAD_STORE_SHAPES), " or ".join(LOAD_STORE_SHAPES))]
        repeat = whole("repeat", self.repeat)
        if repeat not in REPEATS or repeat > row.most:
            raise InputError(f"repeat = {repeat}: .{row.name} has .x1 to .x{row.most}, powers of two (PTX ISA 9.1 §9.7.16.8.3)")
        flag("pack", self.pack)
        if self.shape == SPLIT and self.half_split_offset is None:
            raise InputError("half_split_offset: .16x32bx2 needs the immediate that is added to the address of its second access")
        if self.shape != SPLIT and self.half_split_offset is not None:
            raise InputError(f"half_split_offset = {self.half_split_offset}: only .16x32bx2 has a second access")
        address = TmemAddress.decode(self.taddr)
        allowed = tuple(range(0, WARP_LANES, row.lanes))
        if address.lane not in allowed:
            only = " or ".join(map(str, allowed))
            raise InputError(
                f"taddr = {address.encode():#x}: lane {address.lane}; .{row.name} begins at lane {only} of the {WARP_LANES} lanes of a warp; the "
                "first lane of the warp is not part of it (operand(warp) is the whole address)"
            )
        object.__setattr__(self, "taddr", address.encode())
        check_columns(f".{row.name}.x{repeat}", address.column, self.width)
        if self.shape == SPLIT:
            offset = whole("half_split_offset", self.half_split_offset, minimum=0)
            check_columns("the second access of .16x32bx2", address.column + offset, self.width)

    @property
    def _row(self) -> LoadStoreShape:
        return LOAD_STORE_SHAPES[self.shape]

    @property
    def address(self) -> TmemAddress:
        """`taddr` as lane and column."""
        return TmemAddress.decode(self.taddr)

    @property
    def grade(self) -> Grade:
        """The evidence for the map from registers to cells."""
        return self._row.grade

    @property
    def source(self) -> str:
        """The section of the PTX ISA that gives the shape's map."""
        return self._row.source

    @property
    def registers(self) -> int:
        """32-bit registers of each thread."""
        return self._row.registers * self.repeat

    @property
    def lanes(self) -> int:
        """The lanes of the warp's 32 lanes that are accessed."""
        return self._row.lanes

    @property
    def width(self) -> int:
        """The number of columns from the first to the last one of an access. For .16x32bx2: of each half."""
        return self._row.columns * self.repeat * (2 if self.pack else 1)

    @property
    def columns(self) -> int:
        """The number of columns that are accessed."""
        if self.shape == SPLIT:
            return self.width + min(int(self.half_split_offset or 0), self.width)
        return self.width

    @property
    def overlaps(self) -> bool:
        """True if the two halves of .16x32bx2 have cells in common. Then a load gives these cells to two threads."""
        return self.shape == SPLIT and int(self.half_split_offset or 0) < self.width

    def operand(self, warp: int) -> int:
        """The address that warp `warp` of the CTA gives: `taddr` with the first lane of the warp. Documented: PTX ISA
        9.1 §9.7.16.8.1.

        >>> hex(TmemAccess("32x32b", taddr=64).operand(3))
        '0x600040'
        """
        at = self.address
        return TmemAddress(formulas.window_lane(whole("warp", warp, minimum=0), at.lane), at.column).encode()

    def location(self, warp: Any, thread: Any, register: Any, half: Any = 0) -> tuple[Any, Any]:
        """(lane, column) of register `register` of thread `thread` (0 to 31) of warp `warp`. The arguments are numbers,
        or arrays that broadcast.

        With `pack` the register's bits 15:0 (`half` 0) and 31:16 (`half` 1) have the lower halves of two cells.

        >>> access = TmemAccess("32x32b", repeat=2, pack=True)
        >>> access.location(0, 7, 1), access.location(0, 7, 1, half=1)
        ((7, 2), (7, 3))
        """
        warp = indices("warp", warp, 1 << 10, "a CTA has warps")
        thread = indices("thread", thread, WARP_LANES, "a warp has threads")
        register = indices("register", register, self.registers, f".{self.shape}.x{self.repeat} has registers")
        half = indices("half", half, 2 if self.pack else 1, "the register has halves" if self.pack else "without pack there is half")
        warp, thread, register, half = together(warp, thread, register, half)
        lane, column = assumed("ld_st.cell", _CELLS[self.shape](thread, register), self.shape, thread, register)
        if self.pack:
            column = 2 * column + half
        if self.shape == SPLIT:
            column = column + thread // HALF * self.half_split_offset
        base = self.address
        first = first_lane(warp, base.lane) if self.window is None else self.window + base.lane
        return first + lane, base.column + column

    def register(self, lane: Any, column: Any) -> tuple[Any, ...]:
        """(warp of the warpgroup, thread, register) of a cell. With `pack` also the half of the register. The inverse
        of `location`.

        For a cell that is not accessed: InputError for numbers, -1 in arrays. A cell of both halves of .16x32bx2
        belongs to the first.
        """
        lane = indices("lane", lane, LANES, "tensor memory has lanes")
        column = indices("column", column, COLUMNS, "tensor memory has columns")
        lane, column = together(lane, column)
        base = self.address
        inside, at = lane % WARP_LANES - base.lane, column - base.column
        second = np.zeros(np.shape(at), bool) if isinstance(at, np.ndarray) else False
        if self.shape == SPLIT:
            second = (at < 0) | (at >= self.width)
            at = at - second * int(self.half_split_offset or 0)
        held = (inside >= 0) & (inside < self.lanes) & (at >= 0) & (at < self.width)
        half = at % 2 if self.pack else 0 * at
        thread, register = _REGISTERS[self.shape](inside, at // 2 if self.pack else at)
        parts = [lane // WARP_LANES, thread + HALF * second, register, half][: 4 if self.pack else 3]
        location = tuple(held * (part + 1) - 1 for part in parts)
        if isinstance(location[0], np.ndarray):
            return location
        if location[0] < 0:
            raise InputError(f"lane {lane}, column {column}: .{self.shape}.x{self.repeat} at {self.taddr:#x} does not touch it")
        return tuple(int(part) for part in location)


WHOSE_VALUE = "both halves of .16x32bx2 write the same cells, and other values; which thread's value stays is not known"


def same_in_same_cells(cells: np.ndarray, values: np.ndarray) -> bool:
    """Is what is written to a cell the same wherever the cell is named? Triton stores one column so, with both halves
    of a warp.

    >>> cells = np.array([7, 8, 7])
    >>> same_in_same_cells(cells, np.array([1, 2, 1])), same_in_same_cells(cells, np.array([1, 2, 3]))
    (True, False)
    """
    order = np.argsort(cells, axis=None, kind="stable")
    named, written = cells.ravel()[order], values.ravel()[order]
    return not ((named[1:] == named[:-1]) & (written[1:] != written[:-1])).any()


# ---- `TensorMemory`: the 128 lanes x 512 columns of one CTA, the writer of each byte, and the allocations


CELL_BYTES = CELL_BITS // 8
FORGET_EVERY = 64  # writers, after which those are dropped of whom no byte is left
WARPS = LANES // WARP_LANES


class TensorMemory(Columns, metaclass=OwnMembers):
    """Tensor memory of one CTA: `cells` (uint32, 128 lanes x 512 columns), their `writers`, and allocations.

    With `strict` (the default) an access to columns that are not allocated raises InputError. Without it the access
    happens and is noted in `problems`. Cells that nothing has written read as 0 and have no owner. On hardware they
    hold anything.

    For memories side by side, `room` (memories, 128, 512) holds the cells of all, this one's `at` its number, and
    `allocated` (bool, 512) its columns. `owners` False keeps no writers.

    Nothing here is measured. The rules of allocation are documented (PTX ISA 9.1 §9.7.16.7.1). Which columns an
    allocation gets is inferred: the first that fit.

    >>> import smemsim
    >>> import numpy as np
    >>> tmem = smemsim.TensorMemory("sm_100a")
    >>> d = tmem.alloc(32)
    >>> tmem.st(smemsim.TmemAccess("32x32b", taddr=d), np.arange(128, dtype=np.uint32).reshape(4, 32, 1), label="D")
    >>> int(tmem.cells[40, 0]), tmem.owner(40, 0).where
    (40, (1, 8, 0, 0))
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "check_allocated", "check_allocation", "check_columns", "check_group", "doubts", "grows", "has", "move",
        "owners", "write_bytes", "write_cells", "write_placed",
    )  # fmt: skip

    def __init__(
        self,
        arch: str = "sm_100a",
        *,
        strict: bool = True,
        room: np.ndarray | None = None,
        at: int = 0,
        allocated: np.ndarray | None = None,
        owners: bool = True,
    ) -> None:
        super().__init__(allocated)
        self.arch = architecture(arch).name
        if self.arch not in TENSOR_MEMORY_ARCHITECTURES:
            raise InputError(f"arch = {self.arch}: only {' and '.join(TENSOR_MEMORY_ARCHITECTURES)} have tensor memory")
        self.strict = flag("strict", strict)
        self.room, self.at = np.zeros((1, LANES, COLUMNS), np.uint32) if room is None else room, at
        self.cells: np.ndarray = self.room[at]
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
        """The problems if the kernel ends now: a sentence for each allocation that was not freed, and the sentences of
        `problems`.
        """
        left = [
            f"{n} columns at {TmemAddress(0, c).encode():#x} were not deallocated before the kernel exits ({ALLOCATION.source}); later CTAs "
            "on this SM can wait for them for ever"
            for c, n in sorted(self.allocations.items())
        ]
        lost = (
            [f"{self.lost} columns are left of an allocation that was deallocated in part; no instruction can deallocate them"]
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
        """Write whole cells, as tcgen05.mma does: `values` (32-bit) broadcast with `lane` and `column`; `writer` is any
        object.

        Element i of them, in the order of the broadcast arrays, is bytes 4 i to 4 i + 3 of the writer's data. A writer
        that has a method `where(place)` says with it what byte `place` is.
        """
        lane, column = self._cells("written", lane, column)
        lane, column, values = together(np.asarray(lane), np.asarray(column), self._values(values))
        self._put(lane, column, values, writer, np.arange(values.size).reshape(values.shape) * CELL_BYTES)

    def write_placed(self, lane: np.ndarray, column: np.ndarray, values: np.ndarray, writer: Any, place: np.ndarray) -> None:
        """Write whole cells; `values` are bytes `place` to `place` + 3 of the writer's
        data. All arrays have one shape.
        """
        lane, column = together(*self._cells("written", lane, column))
        self._put(lane, column, self._values(values), writer, place)

    def check_allocated(self, lane: Any, column: Any) -> None:
        """InputError, with `strict`, where some of the cells are not allocated: before an instruction writes the first
        of several memories.
        """
        if self.strict:
            self._cells("written", lane, column)

    def check_columns(self, first: int, end: int) -> None:
        """`check_allocated` of all lanes of columns `first` to `end` - 1."""
        if 0 in self._allocated[first:end].tobytes():  # False is the byte 0
            self.check_allocated(0, np.arange(first, end))

    def owner(self, lane: int, column: int, byte: int = 0) -> Owner | None:
        """The writer of a byte of a cell. None if the byte is uninitialised."""
        at = indices("lane", whole("lane", lane), LANES, "tensor memory has lanes") * COLUMNS
        at += indices("column", whole("column", column), COLUMNS, "tensor memory has columns")
        byte = indices("byte", whole("byte", byte), CELL_BYTES, "a cell has bytes")
        number = int(self._writer[at, byte])
        return None if number < 0 else owner_of(self.writers[number], int(self._place[at, byte]))

    def owners(self, lane: Any, column: Any) -> tuple[np.ndarray, np.ndarray]:
        """(writer, place) of the four bytes of cells, int32 (..., 4): an index into `writers` (-1: uninitialised) and
        the index of the byte in its data.
        """
        lane, column = together(
            indices("lane", lane, LANES, "tensor memory has lanes"), indices("column", column, COLUMNS, "tensor memory has columns")
        )
        at = np.asarray(lane * COLUMNS + column)
        return self._writer[at], self._place[at]

    def doubts(self, lane: Any, column: Any) -> tuple[np.ndarray, np.ndarray]:
        """Two bool arrays (..., 4) for the four bytes of cells: the byte (or its source) is uninitialised; its writer
        was not certain of it.

        A writer may have methods `unwritten(places)` and `unsure(places)` for this.
        """
        writer, place = self.owners(lane, column)
        unwritten, unsure = writer < 0, np.zeros(writer.shape, bool)
        for number in distinct(writer[~unwritten]):
            who = self.writers[number]
            for name, flags in (("unwritten", unwritten), ("unsure", unsure)):
                if asked := getattr(who, name, None):
                    mine = writer == number
                    flags[mine] = asked(place[mine])
        return unwritten, unsure

    def write_bytes(
        self, lane: np.ndarray, column: np.ndarray, values: np.ndarray, mine: np.ndarray, writer: Any, place: np.ndarray
    ) -> None:
        """Write cells of which only the bytes with `mine` (…, 4) set are the writer's. `place` (…, 4) is the index of
        each byte in its data.
        """
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
        """`tcgen05.ld`: the registers of one warp, uint32 (32 threads, registers). If `warp` is None: those of the four
        warps of a warpgroup, (4, 32, registers).

        `taddr`, for one warp, is the address if it differs from `access.operand(warp)`. Only bits 4:0 of its lane
        count, because a warp has its own 32 lanes (`smemsim.RULES["tcgen05.warp_window"]`).
        """
        warps, access = self._warps(access, warp, taddr)
        lane, column = access.location(*_registers(warps, access))
        loaded = self.read(lane, column)
        if access.pack:
            _, upper = access.location(*_registers(warps, access), half=1)
            loaded = loaded & np.uint32(0xFFFF) | self.read(lane, upper) << np.uint32(16)
        result: np.ndarray = loaded if warp is None else loaded[0]
        return result

    def st(self, access: TmemAccess, values: Any, *, warp: int | None = None, taddr: int | None = None, label: str = "threads") -> None:
        """`tcgen05.st`: store the registers of one warp, 32-bit (32, registers), or of four warps, (4, 32, registers).
        `label` is the name of the writer.

        With `pack` (.unpack::16b) the upper halves of the cells keep what they had (inferred).
        """
        warps, access = self._warps(access, warp, taddr)
        values, shape = self._values(values), (WARP_LANES, access.registers)
        if values.shape != (shape if warp is not None else (WARPS, *shape)):
            wanted = shape if warp is not None else (WARPS, *shape)
            raise InputError(
                f"values of shape {values.shape}: .{access.shape}.x{access.repeat} takes {wanted} registers, threads before registers"
            )
        values = values.reshape(len(warps), *shape)
        if access.overlaps:
            lane, column = access.location(*_registers(warps, access))
            if access.pack or not same_in_same_cells(lane * COLUMNS + column, values):
                raise Unmodelled(WHOSE_VALUE)
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
        number = whole("warp", warp, minimum=0)
        if taddr is None:
            return [number], access
        given = TmemAddress.decode(taddr)
        window, inside = divmod(int(first_lane(number, given.lane)), WARP_LANES)
        return [number], dataclasses.replace(access, taddr=TmemAddress(inside, given.column), window=window * WARP_LANES)

    # ---- inside

    def _cells(self, done: str, lane: Any, column: Any) -> tuple[Any, Any]:
        """The cells, after a check that this access is allowed to touch them."""
        lane = indices("lane", lane, LANES, "tensor memory has lanes")
        column = indices("column", column, COLUMNS, "tensor memory has columns")
        if not np.all(self._allocated[column]):
            missing = np.flatnonzero(np.isin(np.arange(COLUMNS), column) & ~self._allocated)
            sentence = f"column {missing[0]} is {done}, and is not allocated" + (
                f" ({len(missing)} such columns)" if len(missing) > 1 else ""
            )
            if self.strict:
                own = np.flatnonzero(self._allocated)
                has = f"allocated are {own.size} columns, up to column {own[-1]}" if own.size else "tcgen05.alloc comes first"
                raise AllocationError(f"{sentence}; {has} (PTX ISA 9.1 §9.7.16.1.2)")
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
        live = set(distinct(self._writer).tolist())
        for number in range(len(self.writers) - 1):
            if number not in live:
                self.writers[number] = None


def _registers(warps: list[int], access: TmemAccess) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(warp, thread, register), to be broadcast."""
    return np.array(warps)[:, None, None], np.arange(WARP_LANES)[:, None], np.arange(access.registers)


# ---- The memories that an instruction works on: those of one CTA, or of the even CTA of a pair and of its peer


def memories_of(name: str, given: Any, kind: type, cta_group: Any) -> tuple[Any, ...]:
    """One memory for each CTA of the group; InputError for anything else."""
    group = whole("cta_group", cta_group)
    if group not in (1, 2):
        raise InputError(f"cta_group = {group}: there are .cta_group::1 and .cta_group::2")
    memories = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if len(memories) != group or not all(isinstance(memory, kind) for memory in memories):
        wanted = f"a {kind.__name__}" if group == 1 else f"a pair of {kind.__name__}, of the even CTA and of its peer"
        raise InputError(f"{name} = {shown(given)}: .cta_group::{group} needs {wanted}")
    if len({id(memory) for memory in memories}) < group:
        raise InputError(f"{name}: the two CTAs of a pair have a {kind.__name__} each, and both are the same one here")
    return memories


def check_together(tensor: tuple[TensorMemory, ...], shared: tuple[SharedMemory, ...], cta_group: int) -> None:
    """InputError unless all memories are of one architecture and their instructions of one cta_group."""
    archs = {*[memory.arch for memory in tensor], *[memory.arch for memory in shared]}
    if len(archs) > 1:
        raise InputError(f"the memories are those of {', '.join(sorted(archs))}: an instruction has one architecture")
    for memory in tensor:
        memory.check_group(cta_group)


# ---- `tmem_put` and `tmem_take`: a whole matrix of D, A, scale factors or metadata into tensor memory by its layout,
# every copy of it, and back


Layout = AccumulatorLayout | ATmemLayout | ScaleLayout | MetadataLayout
Memories = TensorMemory | tuple[TensorMemory, TensorMemory]


def _fields(layout: Any) -> tuple[tuple[int, int], int, list[tuple[np.ndarray, ...]]]:
    """(shape of the matrix, bits of an entry, (CTA, lane, column, lowest bit) of every entry for each copy)."""
    if isinstance(layout, AccumulatorLayout):
        shape, bits, step, copies = (layout.m, layout.n), CELL_BITS, 1, 1
    elif isinstance(layout, ATmemLayout):
        shape, bits, step, copies = (layout.m, layout.k), layout.bits, 1, layout.copies
    elif isinstance(layout, ScaleLayout):
        shape, bits, step, copies = (layout.m if layout.operand == "A" else layout.n, layout.scales), 8, 1, layout.copies
    elif isinstance(layout, MetadataLayout):
        step = METADATA[layout.kind].chunk
        shape, bits, copies = (layout.m, layout.k // step), 4, layout.copies
    else:
        raise InputError(f"layout = {shown(layout)}: needs an AccumulatorLayout, ATmemLayout, ScaleLayout or MetadataLayout")
    row, column = np.meshgrid(np.arange(shape[0]), np.arange(0, shape[1] * step, step), indexing="ij")
    if isinstance(layout, AccumulatorLayout):
        return shape, bits, [(*layout.location(row, column), np.zeros(shape, np.int64))]
    places = [layout.location(row, column, copy) for copy in range(copies)]
    unit = 8 if isinstance(layout, ScaleLayout) else 1  # scales are named by their byte, the others by their bit
    return shape, bits, [(cta, lane, where, at * unit) for cta, lane, where, at in places]


def tmem_put(tensor_memory: Memories, layout: Layout, values: np.ndarray, *, label: str = "threads") -> None:
    """Write a matrix into the tensor memory of a CTA or of a pair, in its layout, with every copy.

    The values are raw bits, one entry for each element. For D: (M, N) cells. For A: (M, stored K) containers. For scale
    factors: (rows, scales) bytes. For metadata: (M, groups) sets of four bits. Neighbouring bits stay. The writer's
    name is `label`. Raises InputError for anything else, and for columns that are not allocated.

    >>> from smemsim import ScaleLayout, TensorMemory, tmem_put, tmem_take
    >>> import numpy as np
    >>> tmem = TensorMemory()
    >>> layout = ScaleLayout("A", m=128, n=64, kind="mxf8f6f4", scale_vec="1X", column=tmem.alloc(32).column)
    >>> tmem_put(tmem, layout, np.full((128, 1), 0x7F))
    >>> hex(tmem.read(69, 1)), tmem_take(tmem, layout).shape
    ('0x7f', (128, 1))
    """
    shape, bits, copies = _fields(layout)
    memories = memories_of("tensor_memory", tensor_memory, TensorMemory, getattr(layout, "cta_group", 1))
    if not isinstance(values, np.ndarray) or values.shape != shape or values.dtype.kind not in "iu":
        got = f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
        raise InputError(f"values: needs whole numbers of shape {shape}, {bits} bits each, not {got}")
    if values.size and not 0 <= int(values.min()) <= int(values.max()) < 1 << bits:
        raise InputError(f"values from {values.min()} to {values.max()}: an entry has {bits} bits")
    writer, entry = TmemMatrix(label, shape[1]), np.arange(values.size).reshape(shape)
    for number, memory in enumerate(memories):
        memory.check_allocated(*(np.concatenate([copy[i][copy[0] == number] for copy in copies]) for i in (1, 2)))
    for number, memory in enumerate(memories):
        mask, new = np.zeros((2, LANES, COLUMNS), np.uint32)
        place = np.full((LANES, COLUMNS, CELL_BYTES), -1)
        for cta, lane, column, bit in copies:
            mine = cta == number
            at = (lane[mine], column[mine])
            np.bitwise_or.at(mask, at, ((1 << bits) - 1 << bit[mine]).astype(np.uint32))
            np.bitwise_or.at(new, at, (values[mine].astype(np.int64) << bit[mine]).astype(np.uint32))
            backwards = slice(None, None, -1)  # so that of several entries in one byte the lowest stays
            for byte in range(max(1, bits // 8)):
                place[at[0][backwards], at[1][backwards], bit[mine][backwards] // 8 + byte] = entry[mine][backwards]
        lane, column = np.nonzero(mask)
        cells = memory.cells[lane, column] & ~mask[lane, column] | new[lane, column]
        places = place[lane, column]
        memory.write_bytes(lane, column, cells, places >= 0, writer, places)


def tmem_take(tensor_memory: Memories, layout: Layout, *, copy: int = 0) -> np.ndarray:
    """Read a matrix out of tensor memory, from one copy of it: raw bits, uint32, what `tmem_put` writes.

    Raises InputError for a copy that there is not, and for a layout that is none.

    >>> from smemsim import AccumulatorLayout, TensorMemory, tmem_put, tmem_take
    >>> import numpy as np
    >>> tmem = TensorMemory()
    >>> d = AccumulatorLayout(64, 32, column=tmem.alloc(32).column)
    >>> tmem_put(tmem, d, np.arange(64 * 32).reshape(64, 32))
    >>> int(tmem_take(tmem, d)[20, 3]) == 20 * 32 + 3
    True
    """
    _, bits, copies = _fields(layout)
    memories = memories_of("tensor_memory", tensor_memory, TensorMemory, getattr(layout, "cta_group", 1))
    number = whole("copy", copy, minimum=0)
    if number >= len(copies):
        raise InputError(f"copy = {number}: the matrix lies there {len(copies)} times")
    cta, lane, column, bit = copies[number]
    words = np.stack([memory.cells for memory in memories])[cta, lane, column]
    found: np.ndarray = words >> bit.astype(np.uint32) & np.uint32((1 << bits) - 1)
    return found
