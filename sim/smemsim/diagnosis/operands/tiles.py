"""Is all of a tile read that TMA brings for a matrix instruction, as the type that its map has, and as the same operand
by all?
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from smemsim.core.finding import Finding, at_instruction
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.tcgen05 import kind_of, shapes_of
from smemsim.core.spec.wgmma import WGMMA_M, WGMMA_TYPES
from smemsim.core.words.instr import InstrDescriptor
from smemsim.core.words.smem import SmemDescriptor
from smemsim.diagnosis.operands.places import SURE
from smemsim.diagnosis.operands.read import Issued, OperandRead, Product
from smemsim.diagnosis.operands.recorded import NEAR, Reads
from smemsim.diagnosis.operands.types import other_type
from smemsim.run.engine.records import Mma

__all__ = ["interchanged", "turned", "unread"]


@dataclasses.dataclass(eq=False)
class _Tile:
    """A load that is an operand: its part inside the tensor (outer axis, contiguous axis), the part that was read, and
    the reading instructions.

    These instructions are in `turned`, by whether K runs along the contiguous axis. If `is_left` is set, one of them
    also reads elements outside the box.
    """

    load: Issued
    side: str
    read: OperandRead
    wanted: np.ndarray
    turned: dict[bool, list[Mma]] = dataclasses.field(default_factory=dict)
    is_left: bool = False

    @property
    def milder(self) -> Severity | None:
        """A remark if every operand lies within the box: a kernel need not read all that it has loaded."""
        return None if self.is_left else Severity.NOTE

    def mark(self, read: OperandRead, event: Mma, rows: int, k: int) -> None:
        along_k = read.along_k
        self.turned.setdefault(along_k, []).append(event)
        at = (read.at, (rows, k)) if along_k else (read.at[::-1], (k, rows))
        parts = list(_parts(at, self.load))
        self.is_left |= _count(parts if len(read.loads) == 1 else _parts_of_all(at, read)) < rows * k
        for part in parts:
            self.wanted[part] = False


def _parts(at: tuple[tuple[int, int], tuple[int, int]], load: Issued) -> Iterator[tuple[slice, slice]]:
    """The parts of a box that an operand reads, (first, extent) of which along the outer and the inner axis are `at`.

    An operand may go on past the end of a row: rows of 8 channels that touch are the taps of a convolution. An element
    that lies there is also one of the next row.
    """
    ((far, near), (high, wide)), tm = at, load.transfer.tensor_map
    (inner, outer), (width, height) = load.event.coordinates, tm.box_dim
    far, near, pitch = far - outer, near - inner, tm.global_strides[0] * 8 // tm.type_row.bits
    turns = range((near - width) // pitch + 1, (near + wide - 1) // pitch + 1) if pitch else range(1)
    for n in turns:
        rows = slice(max(far + n, 0), min(far + n + high, height))
        columns = slice(max(near - n * pitch, 0), min(near - n * pitch + wide, width))
        if rows.start < rows.stop and columns.start < columns.stop:
            yield rows, columns


def _parts_of_all(at: tuple[tuple[int, int], tuple[int, int]], read: OperandRead) -> list[tuple[slice, slice]]:
    """The parts of all boxes that an operand was read from; boxes of the same coordinates count once."""
    loads = {load.event.coordinates: load for load in read.loads}.values()
    return [part for load in loads for part in _parts(at, load)]


def _count(parts: Iterable[tuple[slice, slice]]) -> int:
    """How many elements lie in these parts."""
    return sum([(rows.stop - rows.start) * (columns.stop - columns.start) for rows, columns in parts])


def unread(reads: Reads, elsewhere: Collection[int] = (), *, is_missed: bool = True) -> list[Finding]:
    """Parts of tiles that no instruction reads, and operands of another type than their map (I603, R508). Unread rows
    are I603 for tcgen05's N and M, and R504 for wgmma. Other unread parts are R505 or R508.

    The lines of loads whose tiles threads or stores read, too, are `elsewhere`. Nothing of these is missing. A kernel
    need not multiply all that it has loaded. So rows that are left out are a remark, unless results depend on them
    (`is_missed`). Other parts are a remark unless the operand reads elements outside the box.
    """
    findings: dict[str, Finding] = {}
    tiles: dict[tuple[int, int, str], _Tile] = {}
    firsts = {(id(read.loads[0]), side) for p in reads.products for side in ("a", "b") for read in getattr(p, side) if read is not None}
    for p in reads.products:
        for side in ("a", "b"):
            rows = p.events[0].rows_of(side)
            for event, read in zip(p.events, getattr(p, side), strict=True):
                if read is None or not read.is_matrix:
                    continue
                sure = read.share >= SURE
                if sure and (other := other_type(event, side, read.loads[0])) is not None:
                    findings.setdefault(f"type {side}", other)
                for load in read.loads:
                    key = load.cta, load.number, side
                    tile = tiles.get(key) or tiles.setdefault(key, _Tile(load, side, read, _inside(load)))
                    if load.event.instruction.line in elsewhere:
                        tile.wanted[:] = False
                    if sure and not _are_frames(read, [load for load in read.loads[1:] if (id(load), side) in firsts]):
                        tile.mark(read, event, rows, event.k_of(side))
                    else:
                        tile.wanted[:] = False
    if reads.complete:
        found = _all_unread(tiles, is_missed=is_missed)
        if not found and (panel := _panel(reads, tiles, elsewhere, is_missed=is_missed)) is not None:
            found = [panel]
        return [*findings.values(), *found]
    return list(findings.values())


def _are_frames(read: OperandRead, begun: Sequence[Issued]) -> bool:
    """Are the rows of an operand the same rows of a tensor, in boxes that follow one another along k, as frames of a
    signal? No operand begins in the later boxes: those `begun` belong to the next K steps of a tile with fewer rows.
    """
    k, at = (0 if read.along_k else 1), sorted(load.event.coordinates for load in read.loads)
    box = read.loads[0].transfer.tensor_map.box_dim[k]
    hops = {(other[k] - one[k], other[1 - k] - one[1 - k]) for one, other in itertools.pairwise(at)}
    return not begun and hops == {(box, 0)}


def _all_unread(tiles: dict[tuple[int, int, str], _Tile], *, is_missed: bool) -> list[Finding]:
    """The first finding about a tile of which a part is not read; if there is none, the remarks, one for each load and
    side. So a CTA that runs alone has the same findings as in the whole grid.
    """
    remarks: dict[tuple[int, str], Finding] = {}
    for tile in tiles.values():
        if not tile.wanted.any():
            continue
        key = tile.load.event.instruction.line, tile.side
        if key in remarks and not (tile.is_left or is_missed or len(tile.turned) > 1):
            continue
        found = _of(tile, tiles.get((tile.load.cta, tile.load.number, "b" if tile.side == "a" else "a")), is_missed=is_missed)
        if found.severity is not Severity.NOTE:
            return [found]
        remarks.setdefault(key, found)
    return list(remarks.values())


def turned(reads: Reads) -> list[Finding]:
    """Instructions that add into one accumulator and read the same tiles. It is R505 if some read one K-major and
    others MN-major. It is R508 if a few read A's as B and B's as A. Other findings of these instructions follow from
    it.
    """
    last: dict[tuple[object, ...], Product] = {}
    for p in reads.products:
        before = last.get(p.accumulator)
        last[p.accumulator] = p
        if before is None or p.events[0].begins:
            continue
        odd, rest = (before, p) if len(before.events) < len(p.events) else (p, before)
        # sums of A B and B A, or of a symmetric matrix's halves, have as many of each
        are_few = len(odd.events) < len(rest.events)
        tensors = [[None if read is None else read.base for read in (q.a[0], q.b[0])] for q in (odd, rest)]
        if are_few and None not in tensors[0] and tensors[0] == tensors[1][::-1] != tensors[1]:
            return [_swapped(odd, rest)]
        for n, side in enumerate(("a", "b")):
            one, two = getattr(odd, side)[0], getattr(rest, side)[0]
            if one is None or two is None or one.along_k == two.along_k:
                continue
            if one.loads[0] is not two.loads[0] and not (are_few and tensors[0][n] == tensors[1][n]):
                continue
            has, wants = ("K", "MN") if one.along_k else ("MN", "K")
            return [
                at_instruction(
                    "R505",
                    odd.events[0].instruction,
                    f"{side.upper()} is read {has}-major here, and {wants}-major at {rest.events[0].instruction.at}",
                    _as_written(odd.events[0], side, wants),
                    why=f"both add into the same D; the tile was loaded at {two.loads[0].event.instruction.at}",
                )
            ]
    return []


def _as_written(event: Mma, side: str, major: str) -> str:
    """The other major-ness of an operand, as its instruction spells it."""
    bit = int(major == "MN")
    if event.idesc is None:
        return f"{side.upper()} {major}-major: imm-trans-{side} = {bit} at {event.instruction.at}"
    place = InstrDescriptor.decode(event.idesc, kind=event.kind).table.fields[f"transpose_{side}"].low
    return f"{side.upper()} {major}-major: bit {place} of the instruction descriptor (transpose {side.upper()}) = {bit}"


def _swapped(odd: Product, rest: Product) -> Finding:
    return at_instruction(
        "R508",
        odd.events[0].instruction,
        "the tile of A is read as B here, and the tile of B as A",
        "swap the descriptors of A and B",
        why=f"{rest.events[0].instruction.at}, which adds into the same D, reads them the other way",
    )


# ---- A's and B's tiles that are interchanged in all instructions


class _Place(NamedTuple):
    """The load whose tile an operand begins in, and the row of the tile with which it begins."""

    load: Issued
    row: int

    @property
    def rows(self) -> int:
        """The rows of the tile."""
        return int(self.load.transfer.tensor_map.box_dim[1])

    @property
    def bytes(self) -> int:
        return self.load.transfer.transaction_bytes


def interchanged(reads: Reads, arch: str) -> list[Finding]:
    """R508 if all matrix instructions read the tile of A as B, and that of B as A.

    It is certain if all of this holds for each product of K-major tiles. The tile that is read as B has as many rows
    as are read as A, and the other way round. M and N differ. One of the operands has more rows than its tile, and
    they do not continue in the next box of its tensor.
    """
    spans: dict[int, list[int]] = {}  # by the tile that is read as A: the first rows of its products
    found: list[tuple[Product, _Place, _Place]] = []
    for p in reads.products:
        event = p.events[0]
        if event.cta_group > 1 or all(read is not None and read.share == 1 for read in (p.a[0], p.b[0])):
            return []
        places = [_place(reads, p, word, major, arch) for word, major in ((event.a, event.a_major), (event.b, event.b_major))]
        if places[0] is None or places[1] is None:
            return []
        found.append((p, places[0], places[1]))
        spans.setdefault(id(places[0].load), []).append(places[0].row)
    for p, a, b in found:
        rows, n = max(spans[id(a.load)]) + p.events[0].m, p.events[0].n
        is_crossed = min(spans[id(a.load)]) == b.row == 0 and (a.rows, b.rows) == (n, rows) and n != rows
        if not is_crossed or not _strays(reads, p, *((b, a) if n > rows else (a, b))):
            return []
    if not found:
        return []
    p, a, b = found[0]
    event = p.events[0]
    return [
        at_instruction(
            "R508",
            event.instruction,
            "the tile of A is read as B, and the tile of B as A, by all instructions",
            "swap the descriptors of A and B",
            why=f"A has {b.rows} rows, and {a.load.event.instruction.at} loads {a.rows} for it; B has {event.n} rows (N), and {b.load.event.instruction.at} loads {b.rows}",
        )
    ]


def _place(reads: Reads, p: Product, word: int | None, major: str, arch: str) -> _Place | None:
    """Where the last load before a product, that brought the first bytes of a K-major operand, has them."""
    return None if word is None or major != "K" else _loaded(reads, p, SmemDescriptor.decode(word, arch=arch).start_address)


def _loaded(reads: Reads, p: Product, address: int) -> _Place | None:
    """The last load of a plain tile before a product that wrote to an address of shared memory, and the row there."""
    for load in reversed(reads.loads):
        tm = load.transfer.tensor_map
        if load.cta != p.cta or load.number > p.number or tm.rank != 2 or load.event.mode != "tile" or load.is_strided:
            continue
        place = _Place(load, 0)
        inside = address - load.transfer.smem_address
        if 0 <= inside < place.bytes:
            return place._replace(row=inside // (place.bytes // place.rows))
    return None


def _strays(reads: Reads, p: Product, longer: _Place, other: _Place) -> bool:
    """Do the rows of an operand go on behind its tile in nothing, in the other operand's tensor, or in another k?"""
    behind = _loaded(reads, p, longer.load.transfer.smem_address + longer.bytes)
    if behind is None or behind.load.key_of_map == other.load.key_of_map:
        return True
    return behind.load.key_of_map == longer.load.key_of_map and behind.load.event.coordinates[0] != longer.load.event.coordinates[0]


def _panel(reads: Reads, tiles: dict[tuple[int, int, str], _Tile], elsewhere: Collection[int], *, is_missed: bool) -> Finding | None:
    """A tile that nothing reads, next to one of the same map and the same k that an instruction reads: N or M is too
    small.
    """
    used = {(cta, number) for cta, number, _ in tiles}
    idle: dict[tuple[int, int, int, int], Issued] = {}
    for load in reads.loads:
        if (
            (load.cta, load.number) not in used
            and load.event.instruction.line not in elsewhere
            and load.event.mode == "tile"
            and load.transfer.tensor_map.rank == 2
            and _inside(load).any()
        ):
            for axis, at in enumerate(load.event.coordinates):
                idle.setdefault((load.cta, load.event.map_address, axis, at), load)
    for tile in tiles.values():
        along_k, events = max(tile.turned.items(), key=lambda one: len(one[1]), default=(True, []))
        axis = 0 if along_k else 1
        other = idle.get((tile.load.cta, tile.load.event.map_address, axis, tile.load.event.coordinates[axis]))
        if events and other is not None and 0 < abs(other.number - tile.load.number) < NEAR:
            event, name = events[0], "M" if tile.side == "a" else "N"
            return at_instruction(
                "I603" if event.idesc is not None else "R504",
                event.instruction,
                f"no instruction reads the tile that {other.event.instruction.at} loads at coordinates {list(other.event.coordinates)}",
                f"{name} larger than {event.m if tile.side == 'a' else event.n}, or one more instruction for that tile",
                why=f"the instruction reads {name} = {event.m if tile.side == 'a' else event.n} rows of {tile.side.upper()}: only the tile at {list(tile.load.event.coordinates)}",
                milder=None if is_missed else Severity.NOTE,
            )
    return None


def _inside(load: Issued) -> np.ndarray:
    """Which elements of a load's box lie inside the tensor, (rows, columns)."""
    tm = load.transfer.tensor_map
    columns, rows = (
        (np.arange(at, at + size) >= 0) & (np.arange(at, at + size) < extent)
        for at, size, extent in zip(load.event.coordinates, tm.box_dim, tm.global_dim, strict=True)
    )
    found: np.ndarray = rows[:, None] & columns
    return found


def _of(tile: _Tile, other: _Tile | None, *, is_missed: bool) -> Finding:
    """The part of a tile that nothing reads: whole rows, or because an instruction takes it for the other operand,
    transposed, or for another K.
    """
    along_k, events = max(tile.turned.items(), key=lambda one: len(one[1]))
    name, loader = tile.side.upper(), tile.load.event.instruction.at
    by_row = tile.wanted if along_k else tile.wanted.T
    missing = np.asarray(by_row.any(1))
    if (by_row.all(1) == missing).all():
        return _of_rows(tile, events[0], missing, is_missed=is_missed)
    rows, k = np.flatnonzero(missing), np.flatnonzero(by_row.any(0))
    part = f"no instruction reads rows {rows[0]} to {rows[-1]}, k {k[0]} to {k[-1]}, of the tile of {name} that {loader} loads"
    if other is not None and len(other.turned) == 1:
        mine, yours = (sum(map(len, one.turned.values())) for one in (tile, other))
        odd, as_what = (other, name) if mine >= yours else (tile, other.side.upper())
        event = next(iter(odd.turned.values()))[0]
        return at_instruction(
            "R508",
            event.instruction,
            f"{part} as {name}",
            "swap the descriptors of A and B",
            why=f"the tile is read as {odd.side.upper()} here, and as {as_what} by most instructions",
        )
    if len(tile.turned) > 1:
        odd_event = tile.turned[not along_k][0]
        wanted, has = ("K", "MN") if along_k else ("MN", "K")
        return at_instruction(
            "R505",
            odd_event.instruction,
            part,
            _as_written(odd_event, tile.side, wanted),
            why=f"{name} is read {has}-major here, and {wanted}-major by the other instructions",
        )
    return at_instruction(
        "R508", events[0].instruction, part, "issue the K steps that read this part, or load a smaller box", milder=tile.milder,
        why="the sum lacks this part, unless it is padding", kind=tile.side,
    )  # fmt: skip


def _of_rows(tile: _Tile, event: Mma, missing: np.ndarray, *, is_missed: bool) -> Finding:
    name, size = ("M", event.m) if tile.side == "a" else ("N", event.n)
    name_of, loader = tile.side.upper(), tile.load.event.instruction.at
    where = "the instruction descriptor" if event.idesc is not None else "the instruction"
    rows = np.flatnonzero(missing)
    first = int(rows[0])
    if first == 0 and rows[-1] + 1 == len(rows) < len(missing):
        return at_instruction(
            "R508",
            event.instruction,
            f"{name_of} begins at row {len(rows)} of the tile that {loader} loads",
            "a descriptor whose start address is that of the tile's first row",
            why=f"no instruction reads the {len(rows)} row{'s' * (len(rows) > 1)} before it",
            milder=tile.milder,
            kind=f"begin of {tile.side}",
        )
    unread = f"rows {first} to {int(rows[-1])}" if rows[-1] - first + 1 == len(rows) else f"{len(rows)} rows, the first is {first}"
    only_one = event.kind == "wgmma" and tile.side == "a"  # value of M
    return at_instruction(
        "I603" if event.idesc is not None else "R504",
        event.instruction,
        f"{where} has {name} = {size}, and {loader} loads {len(missing)} rows of {name_of} for it",
        _of_more_rows(event, tile.side, len(missing), first, unread),
        why=f"no instruction reads {unread}" + f", and wgmma has M = {WGMMA_M} only" * only_one,
        milder=None if is_missed else tile.milder,
        kind=f"{'next' if first == event.rows_of(tile.side) else 'other'} rows of {tile.side}",
    )


def _of_more_rows(event: Mma, side: str, rows: int, first: int, unread: str) -> str:
    """The fix of an instruction that reads the first rows of a tile alone: a larger M or N if it exists, or more
    instructions.
    """
    name, own = "M" if side == "a" else "N", event.rows_of(side)
    if first != own:
        return "read the other rows too, or load a smaller box"
    if rows * event.cta_group in _sizes(event, side):
        return f"{name} = {rows * event.cta_group}, or a smaller box"
    more = "a second" if rows <= 2 * own else "another"
    op = "wgmma" if event.kind == "wgmma" else "tcgen05.mma"
    return f"{more} {op} for {unread}; or a box of {own} rows"


def _sizes(event: Mma, side: str) -> set[int]:
    """The values of M or N that exist for an instruction."""
    if event.kind == "wgmma":
        return {WGMMA_M} if side == "a" else {n for row in WGMMA_TYPES if event.a_type in row.a for n in row.n}
    shapes = shapes_of(kind_of(event.kind), cta_group=event.cta_group, ws=None, sparse=event.is_sparse, wide_k=False)
    return {size for shape in shapes for size in (shape.m if side == "a" else shape.n)}
