"""The TMA loads that fill a tile: a loop of boxes of the lowest rank, and one box of all panels where there is one."""

from __future__ import annotations

import dataclasses
from typing import Any

from smemsim.base.errors import HardwareTrap
from smemsim.core.finding import TensorMapError
from smemsim.core.machine.tma import tma_load
from smemsim.core.spec.tensor_map import DATA_TYPES, LIMITS, DataType
from smemsim.core.words.tensor_map import TensorMap
from smemsim.planning.arrangement import Arrangement, IllegalPlan

__all__ = ["GLOBAL_ADDRESS", "Loads", "Matrix", "loads_of", "matrix_of"]


GLOBAL_ADDRESS = 1 << 40  # made up: a plan's matrix lies somewhere in global memory


@dataclasses.dataclass(frozen=True)
class Matrix:
    """The matrix in global memory that the tile is cut from: extents, bytes from line to line, the driver's type."""

    rows: int
    k: int
    pitch: int
    data_type: DataType

    def extents(self, major: str) -> tuple[int, int]:
        """(contiguous, lines)."""
        return (self.k, self.rows) if major == "K" else (self.rows, self.k)


@dataclasses.dataclass(frozen=True)
class Loads:
    """One way to fill a stage: the tensor map, and for every issue the offset in the stage and the coordinates of the
    box.

    The barrier counts `bytes` in all.
    """

    tensor_map: TensorMap
    issues: tuple[tuple[int, tuple[int, ...]], ...]
    bytes: int

    @property
    def rank(self) -> int:
        """Dimensions of the box."""
        return len(self.tensor_map.box_dim)

    def arguments(self) -> dict[str, Any]:
        """The arguments of cuTensorMapEncodeTiled in driver order, by their names here; enums by their driver names."""
        tm = self.tensor_map
        return {
            "data_type": _driver_name(tm.data_type.name),
            "global_address": tm.global_address,
            "global_dim": list(tm.global_dim),
            "global_strides": list(tm.global_strides),
            "box_dim": list(tm.box_dim),
            "element_strides": list(tm.element_strides),
            "interleave": tm.interleave.name,
            "swizzle": tm.swizzle.name,
            "l2_promotion": tm.l2_promotion.name,
            "oob_fill": tm.oob_fill.name,
        }


def _driver_name(name: str) -> str:
    return f"16{name}" if name.startswith("U") and "_ALIGN" in name else name


def matrix_of(tile: Arrangement) -> Matrix:
    """The matrix: as wished, else twice the tile along the rows and, along K, as many as
    there are stages and one more.
    """
    wish = tile.wish
    row = next((d for d in DATA_TYPES.values() if _is_of(tile, d)), None)
    if row is None:
        raise IllegalPlan(f"dtype = '{wish.fmt.name}': no tensor map has this type")
    rows, k = wish.matrix or (2 * wish.rows + wish.at[0], (wish.stages + 1) * wish.k + wish.at[1])
    contiguous = k if wish.major == "K" else rows
    unit = LIMITS.address_alignment_32b if row.swizzles else LIMITS.address_alignment
    line = -(-contiguous * wish.fmt.bits // 8)
    pitch = -(-line // unit) * unit if wish.pitch_bytes is None else wish.pitch_bytes
    if pitch < line or pitch % unit:
        raise IllegalPlan(f"pitch_bytes = {pitch}: a line of the matrix has {line} B, and the driver wants a multiple of {unit} B")
    for name, tile_size, first, whole in (("rows", wish.rows, wish.at[0], rows), ("k", wish.k, wish.at[1], k)):
        if first + tile_size > whole:
            raise IllegalPlan(f"at = {wish.at}: the tile's {name} {first} to {first + tile_size - 1} leave the matrix, which has {whole}")
    return Matrix(rows, k, pitch, row)


def _is_of(tile: Arrangement, row: DataType) -> bool:
    """Is it the driver's type for the tile's elements?"""
    fmt = tile.wish.fmt
    if fmt.name == "tf32":
        return row.to_tf32
    return ("16U4_ALIGN16B" if fmt.bits == 4 and tile.padded else fmt.name) in row.names


def _height(tile: Arrangement) -> int:
    """Lines of one box: all that stand without gaps, or the largest part of them that the driver takes and that ends on
    128 B.
    """
    lines = tile.lines if tile.panels else tile.atom_lines
    width = tile.wish.mode.width
    pieces = -(-lines // LIMITS.max_box)
    while lines % pieces or (lines // pieces * width) % LIMITS.smem_alignment:
        pieces += 1
    return lines // pieces


def loads_of(tile: Arrangement, matrix: Matrix) -> tuple[Loads, Loads | None, str]:
    """(the loop of two-dimensional boxes, the same in one box, why there is no such box)."""
    wish, height = tile.wish, _height(tile)
    contiguous, lines = matrix.extents(wish.major)
    c0, l0 = (wish.at[1], wish.at[0]) if wish.major == "K" else (wish.at[0], wish.at[1])
    stack = [
        (tile.linear(line, panel * wish.mode.chunks), (c0 + panel * tile.inner, l0 + line))
        for panel in range(tile.grid[1])
        for line in range(0, tile.lines, height)
    ]
    stack.sort()
    loop = _loads(tile, matrix, (contiguous, lines), (matrix.pitch,), (tile.inner, height), stack)
    if len(stack) == 1:
        return loop, loop, ""
    try:
        dims, strides, box, at = _one_box(tile, matrix, height, (contiguous, lines), (c0, l0))
        return loop, _loads(tile, matrix, dims, strides, box, [(0, at)]), ""
    except IllegalPlan as e:
        return loop, None, e.reason


def _one_box(tile: Arrangement, matrix: Matrix, height: int, extents: tuple[int, int], first: tuple[int, int]) -> tuple[Any, ...]:
    """(global_dim, global_strides, box_dim, coordinates): the same bytes as a tensor of panels, whose order is that of
    the stack. Raises IllegalPlan.
    """
    panel_bytes = tile.inner * tile.wish.fmt.bits // 8
    # Dimensions after the first, in the order of shared memory: (extent of the matrix, stride, box, coordinate).
    lines = [(extents[1], matrix.pitch, height, first[1])]
    panels = [(-(-extents[0] // tile.inner), panel_bytes, tile.grid[1], first[0] // tile.inner)] if tile.grid[1] > 1 else []
    if height < tile.lines:
        if extents[1] % height or first[1] % height:
            raise IllegalPlan(f"the matrix has {extents[1]} lines, the tile begins at line {first[1]}: one box needs multiples of {height}")
        groups = [(extents[1] // height, height * matrix.pitch, tile.lines // height, first[1] // height)]
        lines = [(height, matrix.pitch, height, 0)]
    else:
        groups = []
    if panels and (extents[0] % tile.inner or first[0] % tile.inner):
        raise IllegalPlan(
            f"the matrix is {extents[0]} wide, the tile begins at {first[0]}: a dimension of panels needs multiples of {tile.inner}"
        )
    outer = [*lines, *groups, *panels] if tile.panels else [*lines, *panels, *groups]
    if any(box > LIMITS.max_box for _, _, box, _ in outer):
        raise IllegalPlan(f"a box has at most {LIMITS.max_box} along a dimension")
    inner_dim, inner_at = (tile.inner, 0) if panels else (extents[0], first[0])
    dims, strides, box, at = (tuple(column) for column in zip(*outer, strict=True))
    return (inner_dim, *dims), strides, (tile.inner, *box), (inner_at, *at)


def _loads(tile: Arrangement, matrix: Matrix, dims: Any, strides: Any, box: Any, issues: Any) -> Loads:
    try:
        tm = TensorMap.tiled(data_type=matrix.data_type.code, global_address=GLOBAL_ADDRESS, global_dim=dims, global_strides=strides, box_dim=box,
                             swizzle=str(tile.wish.swizzle), arch=tile.wish.machine.name)  # fmt: skip
    except TensorMapError as e:
        raise IllegalPlan(f"the driver refuses the tensor map: {e.violations[0]}") from None
    try:
        transfer = tma_load(tm, issues[0][1], smem_address=tile.wish.base_address + issues[0][0], arch=tile.wish.machine.name)
    except HardwareTrap as e:
        raise IllegalPlan(f"at = {tile.wish.at}: {e.reason}") from None
    return Loads(tm, tuple(issues), transfer.transaction_bytes * len(issues))
