"""The tile and matrix that an operand of a matrix instruction is, and its tensor loads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.base.lazily import cached_property
from smemsim.core.machine.tma import Transfer
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.run.engine.records import Load, Mma

__all__ = ["PATTERN", "Issued", "Matrix", "Mode", "OperandRead", "Piece", "Product", "Reach", "is_outside"]


PATTERN = MODES[Swizzle.B128].period  # bytes after which every swizzle repeats


@dataclasses.dataclass(frozen=True, eq=False)
class Issued:
    """A load that brought a tile into a CTA's shared memory: its number in the CTA's order of execution, the CTA, and
    where the tile went.
    """

    number: int
    cta: int
    event: Load
    transfer: Transfer
    map_key: str  # the content of its map without the address
    is_looked_up: bool = False  # have its coordinates been loaded from memory?

    @cached_property
    def alone(self) -> tuple[Any, ...]:
        """The content and the place of the load. The known facts of operands of this load alone depend on them."""
        return self.map_key, self.event.mode, self.transfer.smem_address

    @cached_property
    def clipped(self) -> tuple[tuple[int, int], ...]:
        """How much of its box lies outside of its tensor, at both ends of each dimension."""
        tm = self.transfer.tensor_map
        if self.event.mode != "tile" or tm.call != "tiled":
            return ()
        return tuple(
            (min(max(-at, 0), size), min(max(at + size - extent, 0), size))
            for at, size, extent in zip(self.event.coordinates, tm.box_dim, tm.global_dim, strict=True)
        )

    @cached_property
    def is_strided(self) -> bool:
        """Does its box leave out elements? TMA ignores the stride of dimension 0, and a box of one step has none."""
        tm = self.transfer.tensor_map
        return tm.call == "tiled" and any(1 < step < box for step, box in zip(tm.element_strides[1:], tm.box_dim[1:], strict=True))

    @property
    def key_of_map(self) -> tuple[str, int]:
        """Which tensor, and which boxes of it."""
        return self.map_key, self.transfer.tensor_map.global_address

    @cached_property
    def is_outside(self) -> bool:
        """Does all of its box lie outside of its tensor?"""
        return any(is_outside(self, axis) for axis in range(self.transfer.tensor_map.rank))


@dataclasses.dataclass(frozen=True)
class Mode:
    """A dimension of a tensor map as a part of a matrix's axis. Index 0 is coordinate `first`. After `size` indices the
    next mode advances by one.

    The bytes from one coordinate to the next are `stride`. The number of coordinates from `first` on is `extent`.
    """

    dimension: int
    size: int
    stride: int
    first: int
    extent: int


@dataclasses.dataclass(frozen=True)
class Matrix:
    """The matrix of an operand's tile: a tensor map's boxes are its rows, in the order of the boxes.

    The axis of the contiguous elements is `inner`, the other one is `outer`. The fastest mode of each axis comes first.
    Element (0, 0) is at `address`. A box of 2 x 32 rows of 64 elements has 64 rows: the outer axis has two modes.
    Dimensions that are constant for an operand only move the address.
    """

    address: int
    inner: tuple[Mode, ...]
    outer: tuple[Mode, ...]

    def index(self, coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(outer index, inner index, is it one at all?) of tensor coordinates (..., rank),
        outside of the tensor too.
        """
        is_one = np.ones(coordinates.shape[:-1], bool)
        indices = []
        for modes in (self.outer, self.inner):
            index, weight = np.zeros(coordinates.shape[:-1], np.int64), 1
            for n, mode in enumerate(modes):
                at = coordinates[..., mode.dimension] - mode.first
                index = index + at * weight
                if n < len(modes) - 1:
                    is_one &= (at >= 0) & (at < mode.size)
                weight *= mode.size
            indices.append(index)
        return indices[0], indices[1], is_one

    def place(self, coordinates: tuple[int, ...]) -> tuple[int, int]:
        """(outer, inner) index of one element."""
        places = []
        for modes in (self.outer, self.inner):
            index, weight = 0, 1
            for mode in modes:
                index += (coordinates[mode.dimension] - mode.first) * weight
                weight *= mode.size
            places.append(index)
        return places[0], places[1]


@dataclasses.dataclass(frozen=True, eq=False)
class OperandRead:
    """An operand that TMA loaded. The first element is (row, k) `at` in `matrix`. Most elements decide it, so it holds
    also if a wrong descriptor mixes them up.

    A `share` of the elements agrees. The loads of the elements are `loads`, the one of the first element first. If
    `along_k` is set, K is the contiguous axis.
    """

    word: int
    loads: tuple[Issued, ...]
    matrix: Matrix
    along_k: bool
    at: tuple[int, int]
    share: float
    moves: tuple[tuple[int, ...], tuple[int, ...]] = (
        (),
        (),
    )  # the dimensions along which its rows go on, and its k, if there are more than two
    may_be_frames: bool = False  # see `frames`

    @property
    def is_fill(self) -> bool:
        """Did it all come from a box that lies outside of its tensor? Then nothing says
        where in the tensor it begins.
        """
        return self.loads[0].is_outside

    @cached_property
    def modes(self) -> tuple[tuple[Mode, ...], tuple[Mode, ...]]:
        """(dimensions of memory that the rows run through, those that k runs through)."""
        return (self.matrix.outer, self.matrix.inner) if self.along_k else (self.matrix.inner, self.matrix.outer)

    @property
    def row_stride(self) -> int:
        """Bytes from one row to the next."""
        return self.modes[0][0].stride

    @property
    def k_stride(self) -> int:
        """Bytes from one k to the next."""
        return self.modes[1][0].stride

    @cached_property
    def base(self) -> int:
        """The global address at which the tensor begins."""
        return self.loads[0].transfer.tensor_map.global_address

    @property
    def is_matrix(self) -> bool:
        """Has the tensor map two dimensions?"""
        return self.loads[0].transfer.tensor_map.rank == 2

    @property
    def is_plain(self) -> bool:
        """Is each axis one dimension of the tensor map? Further dimensions, such as a batch, do not move within the
        tile.
        """
        rows, k = self.modes
        return len(rows) == len(k) == 1

    @property
    def corner(self) -> tuple[int, int]:
        """(row, k) at which the tile begins that the first element lies in."""
        return self.corner_of(self.loads[0])

    def corner_of(self, load: Issued) -> tuple[int, int]:
        """(row, k) at which the tile of one of its loads begins."""
        outer, inner = self.matrix.place(load.event.coordinates)
        return (outer, inner) if self.along_k else (inner, outer)

    @property
    def k_of_box(self) -> int:
        """The extent of a box along k, in elements."""
        return int(self.loads[0].transfer.tensor_map.box_dim[self.modes[1][0].dimension])

    def is_past(self, k: int, count: int) -> bool:
        """Do `count` elements from a k on all lie outside of the tensor?"""
        extent = (self.matrix.inner if self.along_k else self.matrix.outer)[0].extent
        return k >= extent or k + count <= 0


@dataclasses.dataclass(eq=False)
class Product:
    """Matrix instructions that add up one tile's worth of K: they follow one another on one accumulator, and read the
    same tiles.
    """

    number: int
    cta: int
    accumulator: tuple[Any, ...]
    events: list[Mma]
    a: list[OperandRead | None]
    b: list[OperandRead | None]
    first: tuple[OperandRead | None, OperandRead | None]  # of the first instruction, nothing but fill counted too
    missed: int = 0  # instructions with an operand in shared memory that is not checked, each listed
    pairs_freely: bool = False  # its sum multiplies k of A with other k of B on purpose, see `pairings`

    @property
    def reads(self) -> Iterator[OperandRead]:
        """The operands, A before B, that TMA has loaded."""
        return (read for side in (self.a, self.b) for read in side if read is not None)


@dataclasses.dataclass(frozen=True, eq=False)
class Reach:
    """The first k and the end of those that instructions multiply of two matrices, `event`
    is one that goes furthest.
    """

    event: Mma
    a: OperandRead
    b: OperandRead
    a_begin: int
    a_end: int
    b_begin: int
    b_end: int

    def joined(self, other: Reach) -> Reach:
        """The reach of this and another one together."""
        far = other if other.a_end > self.a_end else self
        return Reach(
            far.event, far.a, far.b, min(self.a_begin, other.a_begin), max(self.a_end, other.a_end), min(self.b_begin, other.b_begin),
            max(self.b_end, other.b_end),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class Piece:
    """Loads and products of a CTA that share no tile and no sum with others. `key` identifies what they do, without the
    places of their tiles.
    """

    cta: int
    key: bytes
    loads: tuple[Issued, ...]
    products: tuple[Product, ...]


def is_outside(load: Issued, axis: int) -> bool:
    """Does all of a box lie outside of its tensor along a dimension? Maps of im2col have no box."""
    tm, at = load.transfer.tensor_map, load.event.coordinates[axis]
    return tm.call == "tiled" and (at >= tm.global_dim[axis] or at + tm.box_dim[axis] <= 0)
