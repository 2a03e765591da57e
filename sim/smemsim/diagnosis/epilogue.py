"""Exchanged coordinates of loads, and tiles of D that tensor stores write, compared with the products of the kernel:
are their 16-byte chunks and coordinates right?

A box in global memory whose rows have the numbers of a product in another order was written with another swizzle than
its store removes. Or the 8x8 matrices of its fragments are in another order. If an epilogue changes the numbers,
nothing is reported.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
import operator
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.core.arithmetic.values import to_float64
from smemsim.core.finding import Finding, at_instruction
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.swizzles import Swizzle
from smemsim.core.spec.tensor_map import SWIZZLES
from smemsim.diagnosis.explained_output import PATTERN, listed, operand_matrix, rounding_of, writers_of
from smemsim.diagnosis.numbers import Rounding
from smemsim.diagnosis.operands.read import OperandRead, Product
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.diagnosis.operands.types import READ_AS
from smemsim.diagnosis.result.arrays import Arrays, Tile
from smemsim.diagnosis.result.places import repeats
from smemsim.diagnosis.result.tiles import chunked, slid, swizzled
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.records import Store

__all__ = ["stored_tiles"]


MOST_CHAINS = 32  # accumulators of which the product is made again
MOST_TERMS = 1 << 32  # of all of them together
# Multiplications; for more of them OpenBLAS started threads here, which wait for each other longer than such a
# product takes.
MOST_AT_ONCE = 1 << 18
MOST_TRIED = 2  # stores at a line
MOST_STORES = 16  # of a kind
_Matrices: TypeAlias = dict[
    tuple[int, str, int, int, int], np.ndarray | None
]  # rows of operands, by where their matrix lies, its type and pitch, and which they are
# The element types of a map for numbers of D. Integer types may hold any bytes.
STORED_AS = {**READ_AS, "UINT8": ("e4m3", "e5m2", "s8", "u8"), "UINT16": ("f16", "bf16"), "UINT32": ("f32", "s32"), "INT32": ("s32",)}
KINDS = {"wgmma", "f16", "tf32", "f8f6f4", "i8"}  # whose operands are numbers by themselves


@dataclasses.dataclass(frozen=True, eq=False)
class _Tile:
    """The sum of the products on one accumulator: `sums` (m, n), of rows of A from `row` and rows of B from `column`
    on.
    """

    sums: np.ndarray
    row: int
    column: int
    extent: tuple[int, int]  # rows of A and of B in all


@dataclasses.dataclass(frozen=True, eq=False)
class _Box:
    """The numbers that a store left in global memory (rows, columns), and the places in D that they may come from."""

    event: Store
    dtype: str
    found: np.ndarray
    wanted: np.ndarray
    places: set[tuple[int, int]]
    extent: tuple[int, int]


def stored_tiles(reads: Reads, launch: Launch) -> list[Finding]:
    """R501 and A105 for boxes with their chunks elsewhere, R508 for coordinates that are exchanged and fragments in
    another order; one for each kind of store.
    """
    stores: dict[tuple[int, ...], list[Store]] = {}
    for e in launch.result.events.transfers():
        if isinstance(e, Store) and e.cta in reads.ctas and _is_plain(e):
            stores.setdefault((e.map_address, *e.tensor_map.box_dim, e.smem_address % PATTERN), []).append(e)
    if not stores:
        return []
    tiles = _tiles(reads, launch)
    stored = []
    for of_a_kind in stores.values():
        some = [e for e in _some(of_a_kind) if not _is_right(e, tiles, launch)]
        boxes = _boxes(some, tiles, launch)
        told = next((f for box in boxes if (f := _swizzled(box, of_a_kind, launch) or _exchanged(box, launch))), None)
        told = told or _slid(some, of_a_kind, tiles, launch) or _of_turned(some, of_a_kind, tiles, launch)
        told = told or _fragmented(some, of_a_kind, tiles, launch)
        stored += [told] if told is not None else []
    return stored


def _some(stores: list[Store]) -> list[Store]:
    """A few stores of each line: the first ones of the first CTAs, in whichever order the CTAs have executed."""
    counts = collections.Counter[tuple[int, int]]()
    lines: dict[int, list[tuple[int, int, Store]]] = {}
    for e in stores:
        line = e.instruction.line
        lines.setdefault(line, []).append((counts[line, e.cta], e.cta, e))
        counts[line, e.cta] += 1
    some = (heapq.nsmallest(MOST_TRIED, lines[line], key=operator.itemgetter(0, 1)) for line in sorted(lines))
    return [e for of_line in some for *_, e in of_line][:MOST_STORES]


def _is_plain(e: Store) -> bool:
    """Does it store a box of a matrix?"""
    tm = e.tensor_map
    return not e.operation and e.mode == "tile" and tm.call == "tiled" and tm.rank == 2 and SWIZZLES[tm.swizzle] != Swizzle.INVALID


# ---- products


def _tiles(reads: Reads, launch: Launch) -> list[_Tile]:
    """The tiles of some accumulators, made again from what the tensors hold."""
    matrices: _Matrices = {}
    tiles: list[_Tile] = []
    terms = 0
    for chain in _chains(reads):
        e = chain[0].events[0]
        terms += e.m * e.n * e.k * sum(len(p.events) for p in chain)
        if len(tiles) >= MOST_CHAINS or terms > MOST_TERMS:
            break
        tile = _tile(chain, launch, matrices)
        if tile is not None:
            tiles.append(tile)
    return tiles


def _chains(reads: Reads) -> Iterator[list[Product]]:
    """Products that add up on one accumulator."""
    chains: dict[tuple[object, ...], list[Product]] = {}
    for p in reads.products:
        chain = chains.get(p.accumulator)
        if chain and not p.events[0].begins and _place(chain[0]) == _place(p):
            chain.append(p)
            continue
        if chain:
            yield chain
        chains[p.accumulator] = [p]
    yield from chains.values()


def _place(p: Product) -> tuple[int, int] | None:
    a, b = p.a[0], p.b[0]
    return None if a is None or b is None else (a.at[0], b.at[0])


def _tile(chain: list[Product], launch: Launch, matrices: _Matrices) -> _Tile | None:
    place, first = _place(chain[0]), chain[0].events[0]
    if place is None or first.kind not in KINDS or first.cta_group != 1:
        return None
    sums = np.zeros((first.m, first.n))
    extent = 0, 0
    with np.errstate(invalid="ignore"):  # infinities and NaNs
        for event, a, b in (one for p in chain for one in zip(p.events, p.a, p.b, strict=True)):
            if a is None or b is None or min(a.share, b.share) < 1 or event.is_sparse or any(event.negate) or (a.at[0], b.at[0]) != place:
                return None
            left, right = _rows(launch, a, event.m, event.a_type, matrices), _rows(launch, b, event.n, event.b_type, matrices)
            if left is None or right is None:
                return None
            extent = _row_count(a), _row_count(b)
            rows, columns = _part(left, a, event.m, event.k), _part(right, b, event.n, event.k)
            height = max(1, MOST_AT_ONCE // columns.size)
            for row in range(0, len(rows), height):
                sums[row : row + height] += rows[row : row + height] @ columns.T
    return _Tile(sums, *place, extent)


def _rows(launch: Launch, read: OperandRead, rows: int, dtype: str, matrices: _Matrices) -> np.ndarray | None:
    """(some of the rows, K): those from where an operand begins, as far as there are any."""
    row = read.at[0]
    key = read.base, dtype, read.row_stride, row, rows
    if key not in matrices:
        matrices[key] = operand_matrix(launch.memory, read, dtype, rows_read=slice(max(row, 0), max(row + rows, 0)))
    return matrices[key]


def _row_count(read: OperandRead) -> int:
    """The rows of an operand's matrix."""
    columns, rows = read.loads[0].transfer.tensor_map.global_dim
    return rows if read.k_stride < read.row_stride else columns


def _part(matrix: np.ndarray, read: OperandRead, rows: int, k: int) -> np.ndarray:
    """(rows, k) of an operand, whose rows inside are those of `matrix`; what lies outside is 0."""
    above, before = (max(-at, 0) for at in read.at)
    inside = matrix[:, max(read.at[1], 0) : max(read.at[1] + k, 0)]
    part = np.zeros((rows, k))
    part[above : above + inside.shape[0], before : before + inside.shape[1]] = inside
    return part


# ---- boxes


def _boxes(stores: list[Store], tiles: list[_Tile], launch: Launch) -> Iterator[_Box]:
    """The stores whose rows have the numbers of a product, in any order."""
    for event in stores:
        for dtype in STORED_AS.get(event.tensor_map.data_type.name, ()):
            box = _box(event, dtype, tiles, launch)
            if box is not None:
                yield box
                break


def _is_right(event: Store, tiles: list[_Tile], launch: Launch) -> bool:
    """Has a store left the numbers of a product where these belong?"""
    (columns, rows), (x, y) = event.tensor_map.box_dim, event.coordinates
    height = min(len(tiles[0].sums), rows) if tiles else rows
    parts = [next((p for tile in tiles if (p := _at(tile, y + row, x, min(height, rows - row), columns)) is not None), None)
             for row in range(0, rows, height)]  # fmt: skip
    if any(part is None for part in parts):
        return False
    wanted = np.concatenate([part for part in parts if part is not None])
    for dtype in STORED_AS.get(event.tensor_map.data_type.name, ()):
        found = _stored(event, dtype, launch)
        if found is not None and rounding_of(launch, dtype).near(found, wanted).all():
            return True
    return False


def _box(event: Store, dtype: str, tiles: list[_Tile], launch: Launch) -> _Box | None:
    box = _stored(event, dtype, launch)
    if box is None or not tiles:
        return None
    near = rounding_of(launch, dtype)
    height = min(len(tiles[0].sums), len(box))
    parts = []
    for row in range(0, len(box), height):
        alike = _alike(box[row : row + height], tiles, near)
        if not alike:
            return None
        parts.append(alike)
    places = {(tile.row + m, tile.column + n) for tile, m, n, _ in parts[0]}
    return _Box(event, dtype, box, np.concatenate([alike[0][3] for alike in parts]), places, tiles[0].extent)


def _alike(found: np.ndarray, tiles: list[_Tile], near: Rounding) -> list[tuple[_Tile, int, int, np.ndarray]]:
    """The parts of products, by their tiles and places there, that have the same numbers in each row."""
    rows, columns = found.shape
    mine = np.sort(found, axis=1)
    alike = []
    for tile in tiles:
        for m in range(0, len(tile.sums) - rows + 1, rows):
            for n in range(0, tile.sums.shape[1] - columns + 1, columns):
                part = tile.sums[m : m + rows, n : n + columns]
                if near.may_be_near(mine[0], np.sort(part[0]), part) and near.near(mine, np.sort(part, axis=1)).all():
                    alike.append((tile, m, n, part))
    return alike


def _stored(event: Store, dtype: str, launch: Launch) -> np.ndarray | None:
    """(rows, columns): the numbers in global memory that a store wrote, None where some of it lies outside."""
    tm, fmt = event.tensor_map, FORMATS[dtype]
    (columns, rows), (x, y) = tm.box_dim, event.coordinates
    if fmt.bits != tm.type_row.bits or min(x, y) < 0 or x + columns > tm.global_dim[0] or y + rows > tm.global_dim[1]:
        return None
    size, pitch = fmt.bits // 8, tm.global_strides[0]
    try:
        raw = launch.memory.span(tm.global_address + y * pitch + x * size, (rows - 1) * pitch + columns * size)
    except SmemsimError:
        return None
    lines = np.ascontiguousarray(np.lib.stride_tricks.as_strided(raw, (rows, columns * size), (pitch, 1)))
    bits = lines.view(f"{'u' if fmt.is_float or not fmt.signed else 'i'}{size}")
    return to_float64(bits, fmt.name) if fmt.is_float else bits.astype(np.float64)


# ---- findings


def _swizzled(box: _Box, alike: list[Store], launch: Launch) -> Finding | None:
    event, near = box.event, rounding_of(launch, box.dtype)
    tm = event.tensor_map
    arrays = Arrays(box.found, box.wanted, relative=near.relative, itemsize=tm.type_row.bits // 8)
    if not arrays.count:
        return None
    tile = _tile_of(event, alike, launch)
    explanation = next((e for rule in (swizzled, chunked) if (e := rule(arrays, tile)) is not None), None)
    if explanation is None:
        return None
    return at_instruction(
        explanation.code, event.instruction, f"{explanation.what}; so the product of A and B lies in global memory", explanation.change
    )


def _slid(some: list[Store], alike: list[Store], tiles: list[_Tile], launch: Launch) -> Finding | None:
    """R508 for one of some boxes, at its place in D, which has the rows of its product some rows further on."""
    for event, values in _in_place(some, tiles, launch):
        if (told := slid(values, _tile_of(event, alike, launch))) is not None:
            return at_instruction(told.code, event.instruction, told.what, told.change)
    return None


def _fragmented(some: list[Store], alike: list[Store], tiles: list[_Tile], launch: Launch) -> Finding | None:
    """R508 for one of some boxes, at its place in D, whose 8x8 matrices, or pairs of columns, are written in another
    order.
    """
    for event, values in _in_place(some, tiles, launch):
        for other, what, change in _orders(values.wanted):
            if values.near(values.found, other).all():
                name = _tile_of(event, alike, launch).name
                return at_instruction("R508", event.instruction, what.format(f"each {name}"), change)
    return None


def _orders(d: np.ndarray) -> Iterator[tuple[np.ndarray, str, str]]:
    """A part of D as wrong fragments leave it: the numbers, what is wrong, and the change."""
    rows, columns = d.shape
    if rows % 16 or columns % 16:
        return
    blocks = d.reshape(rows // 16, 2, 8, columns // 16, 2, 8)
    yield (
        blocks.transpose(0, 4, 2, 3, 1, 5).reshape(d.shape),
        "in each 16x16 block of {}, the 8x8 matrices at the upper right and at the lower left are exchanged",
        "exchange the addresses of lanes 8 to 15 and 16 to 23 of stmatrix.x4, or its second and third register",
    )
    yield (
        blocks.transpose(0, 1, 5, 3, 4, 2).reshape(d.shape),
        "each 8x8 matrix of {} is transposed",
        "stmatrix without .trans, or with it if it has none",
    )
    yield (
        d.reshape(rows, -1, 2)[..., ::-1].reshape(d.shape),
        "the columns of each pair are exchanged in {}",
        "exchange the halves of each register before the store (the first operand of cvt.rn.bf16x2 or .f16x2 becomes the upper half)",
    )


def _in_place(some: list[Store], tiles: list[_Tile], launch: Launch) -> Iterator[tuple[Store, Arrays]]:
    """Boxes, and what belongs at their place in D, if their rows and columns can be told apart."""
    for event in some:
        tm = event.tensor_map
        (columns, rows), (x, y) = tm.box_dim, event.coordinates
        for dtype in STORED_AS.get(tm.data_type.name, ()):
            box = _stored(event, dtype, launch)
            part = next(
                (p for t in tiles if tuple(tm.global_dim) == t.extent[::-1] and (p := _at(t, y, x, rows, columns)) is not None), None
            )
            if box is None or part is None:
                continue
            values = Arrays(box, part, relative=rounding_of(launch, dtype).relative, itemsize=tm.type_row.bits // 8)
            if values.count and not repeats(values):
                yield event, values


def _of_turned(some: list[Store], alike: list[Store], tiles: list[_Tile], launch: Launch) -> Finding | None:
    """The finding about the chunks of a box, if the kernel stores D transposed."""
    turned = [dataclasses.replace(t, sums=t.sums.T, row=t.column, column=t.row, extent=t.extent[::-1]) for t in tiles]
    boxes = _boxes([e for e in some if not _is_right(e, turned, launch)], turned, launch)
    return next((f for box in boxes if (f := _swizzled(box, alike, launch)) is not None), None)


def _at(tile: _Tile, row: int, column: int, rows: int, columns: int) -> np.ndarray | None:
    """The part of a product that belongs into a box of D."""
    m, n = row - tile.row, column - tile.column
    is_inside = 0 <= m <= len(tile.sums) - rows and 0 <= n <= tile.sums.shape[1] - columns
    return tile.sums[m : m + rows, n : n + columns] if is_inside else None


def _tile_of(event: Store, alike: list[Store], launch: Launch) -> Tile:
    tm, lines = event.tensor_map, sorted({e.instruction.line for e in alike})
    told = f"{tm.box_dim[1]}x{tm.box_dim[0]} box of the store{'s' * (len(lines) > 1)} at line{'s' * (len(lines) > 1)} {listed(lines)}"
    swizzle, offset = str(SWIZZLES[tm.swizzle]), event.smem_address % PATTERN
    return Tile(tm.box_dim[1], tm.box_dim[0], told, swizzle, lines[0], offset, writers_of(launch))


def _exchanged(box: _Box, launch: Launch) -> Finding | None:
    """R508 for a box of D, as many rows and columns as A and B have rows, at the coordinates {row, column}."""
    if len(box.places) != 1:  # tiles with the same numbers cannot be distinguished
        return None
    event, ((row, column),) = box.event, box.places
    tm = event.tensor_map
    if row == column or tuple(event.coordinates) != (row, column) or tuple(tm.global_dim) != box.extent[::-1]:
        return None
    if not rounding_of(launch, box.dtype).near(box.found, box.wanted).all():
        return None
    return at_instruction(
        "R508",
        event.instruction,
        f"the box stored at coordinates {list(event.coordinates)} belongs in row {row}, column {column} of D",
        f"coordinates {{{column}, {row}}}: dimension 0, the contiguous one (columns), comes first",
        why=f"it has the product of the rows of A from {row} on and of the rows of B from {column} on",
    )
