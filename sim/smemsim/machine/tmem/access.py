"""`TmemAccess`: which cell each register of each thread has in a tcgen05.ld or tcgen05.st.

>>> epilogue = TmemAccess("16x256b", repeat=4)
>>> epilogue.registers, epilogue.columns
(16, 32)
>>> epilogue.location(warp=2, thread=5, register=6), epilogue.register(73, 10)
((73, 10), (2, 5, 6))
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from smemsim.addressing import tensor_memory as formulas
from smemsim.arguments import choice, flag, whole
from smemsim.errors import InputError
from smemsim.machine.tmem.address import TmemAddress, check_columns, indices, plain, together
from smemsim.spec.evidence import Grade
from smemsim.spec.tensor_memory import COLUMNS, LANES, LOAD_STORE_SHAPES, WARP_LANES, LoadStoreShape

__all__ = ["TmemAccess"]

SPLIT = "16x32bx2"
HALF = WARP_LANES // 2  # threads of each of its two accesses
REPEATS = tuple(1 << i for i in range(8))
_CELLS: dict[str, Any] = {name: getattr(formulas, f"cell_of_{name}") for name in LOAD_STORE_SHAPES}
_REGISTERS: dict[str, Any] = {name: getattr(formulas, f"register_of_{name}") for name in LOAD_STORE_SHAPES}


@dataclasses.dataclass(frozen=True, repr=False)
class TmemAccess:
    """One tcgen05.ld or tcgen05.st: its `shape` ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"), .x`repeat` and address.

    `pack` is .pack::16b or .unpack::16b: a register holds the lower halves of two neighbouring columns. `half_split_offset` is the
    immHalfSplitoff of .16x32bx2, in columns. `taddr` is the address as a kernel has it before it adds the warp's lanes: lane 0, or 16 for
    the shapes of 16 lanes; `operand(warp)` is what warp `warp` gives. Raises InputError for forms that the instruction does not have and
    Unmodelled past the last column. Register counts are documented (PTX ISA 9.7.16.8.3), the maps compiled (CUTLASS copy_traits_sm100.hpp).
    """

    shape: str
    repeat: int = 1
    pack: bool = dataclasses.field(default=False, kw_only=True)
    half_split_offset: int | None = dataclasses.field(default=None, kw_only=True)
    taddr: int | TmemAddress = dataclasses.field(default=0, kw_only=True)

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
            raise InputError(f"repeat = {repeat}: .{row.name} has .x1 to .x{row.most}, powers of two (PTX ISA 9.7.16.8.3)")
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
                f"taddr = {address.encode():#x}: lane {address.lane}; .{row.name} begins at lane {only} of the warp's {WARP_LANES}, and what a "
                "warp adds for itself is not part of it (operand(warp) is the whole address)"
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
        """How sure the map is."""
        return self._row.grade

    @property
    def source(self) -> str:
        """Where it stands."""
        return self._row.source

    @property
    def registers(self) -> int:
        """32-bit registers of each thread."""
        return self._row.registers * self.repeat

    @property
    def lanes(self) -> int:
        """Lanes of the warp's window that it touches."""
        return self._row.lanes

    @property
    def width(self) -> int:
        """Columns from the first to the last of one access: of .16x32bx2 those of each half."""
        return self._row.columns * self.repeat * (2 if self.pack else 1)

    @property
    def columns(self) -> int:
        """Columns that it touches altogether."""
        if self.shape == SPLIT:
            return self.width + min(int(self.half_split_offset or 0), self.width)
        return self.width

    @property
    def overlaps(self) -> bool:
        """Do both halves of .16x32bx2 have cells in common? A load gives them to two threads."""
        return self.shape == SPLIT and int(self.half_split_offset or 0) < self.width

    def operand(self, warp: int) -> int:
        """The address that warp `warp` of the CTA gives: `taddr`, and its own 32 lanes. Documented: PTX ISA 9.7.16.8.1.

        >>> hex(TmemAccess("32x32b", taddr=64).operand(3))
        '0x600040'
        """
        at = self.address
        return TmemAddress(formulas.window_lane(whole("warp", warp, minimum=0), at.lane), at.column).encode()

    def location(self, warp: Any, thread: Any, register: Any, half: Any = 0) -> tuple[Any, Any]:
        """(lane, column) that register `register` of thread `thread` (0 to 31) of warp `warp` has; numbers, or arrays that broadcast.

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
        lane, column = _CELLS[self.shape](thread, register)
        if self.pack:
            column = 2 * column + half
        if self.shape == SPLIT:
            column = column + thread // HALF * self.half_split_offset
        base = self.address
        return formulas.window_lane(warp, base.lane) + lane, base.column + column

    def register(self, lane: Any, column: Any) -> tuple[Any, ...]:
        """(warp of the warpgroup, thread, register) of a cell, with `pack` and the half of the register. The other way of `location`.

        Where it touches no such cell: InputError for numbers, -1 in arrays. Cells that both halves of .16x32bx2 have are given to the first.
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
        found = tuple(held * (part + 1) - 1 for part in parts)
        if isinstance(found[0], np.ndarray):
            return found
        if found[0] < 0:
            raise InputError(f"lane {lane}, column {column}: .{self.shape}.x{self.repeat} at {self.taddr:#x} does not touch it")
        return tuple(int(part) for part in found)
