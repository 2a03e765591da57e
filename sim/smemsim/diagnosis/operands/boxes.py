"""Boxes that run through several dimensions: which of them are an operand's K, in the order of its boxes, and which its
rows.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Literal, NamedTuple

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.core.finding import Finding, at_instruction
from smemsim.core.machine.global_memory import GlobalMemory
from smemsim.core.ptx.module import lines_of
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.tensor_map import OobFill
from smemsim.diagnosis.operands.places import Stray, signed
from smemsim.diagnosis.operands.read import Matrix, Mode, OperandRead, Product
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.run.engine.records import Mma

__all__ = ["cut_off", "in_boxes", "loaded_twice", "nan_fills", "stray_boxes"]


SIDES: tuple[Literal["a", "b"], ...] = ("a", "b")


def in_boxes(p: Product) -> Product:
    """A product whose rows and k continue from one dimension to the next like its boxes, if its instructions follow
    them; else the product unchanged.

    CUTLASS's GETT with two modes of K, 32 x 2, has boxes of 8 x 8 of them. After k = 7 comes the element that a tensor
    with one K has at 32, in both operands. Strides do not distinguish the dimensions: one of K may be wider than a
    row's. The way of the instructions through the boxes does, and the common K of both operands.
    """
    a, b = p.a[0], p.b[0]
    if a is None or b is None or (a.is_matrix and b.is_matrix) or p.events[0].is_sparse or _goes_on_as_it_is(p):
        return p
    of_a, of_b = min(itertools.product(_ways(p.a), _ways(p.b)), key=lambda pair: _against(*pair))
    if not _are_alike(of_a, of_b) or not (of_a.changed or of_b.changed or _is_parted(a) or _is_parted(b)):
        return p
    return dataclasses.replace(p, a=_all_in_boxes(p.a, of_a.k), b=_all_in_boxes(p.b, of_b.k))


def _goes_on_as_it_is(p: Product) -> bool:
    """Do the k of both operands go on from instruction to instruction, the same of A and of B?"""
    begin = None if p.a[0] is None else p.a[0].at[1]
    return begin is not None and all(
        read is None or (read.share == 1 and read.at[1] == begin + n * event.k)
        for reads in (p.a, p.b)
        for n, (read, event) in enumerate(zip(reads, p.events, strict=True))
    )


class _Way(NamedTuple):
    """Some dimensions of an operand's boxes as its K. For each dimension, `parts` has the elements, the first loaded
    one and the number of loaded ones. The number of dimensions that differ from what their strides suggest is
    `against`. The first k of each instruction is in `begins`.
    """

    k: tuple[int, ...]
    parts: tuple[tuple[int, int, int], ...]
    against: int
    begins: list[int]
    changed: int


def _ways(reads: list[OperandRead | None]) -> list[_Way]:
    """What K may be: the contiguous dimension or that of the box's lines, and any of the others of which a box has
    several elements.
    """
    held = [read for read in reads if read is not None]
    first = held[0]
    tm, at = first.loads[0].transfer.tensor_map, first.loads[0].event.coordinates
    plain = tuple(sorted(mode.dimension for mode in first.modes[1]))
    others = sorted(mode.dimension for axis in first.modes for mode in axis[1:] if tm.box_dim[mode.dimension] > 1)
    places = [_coordinates(read) for read in held]
    along_rows = {n for read in held for n in read.moves[0]}
    along_k = {n for read in held for n in read.moves[1]} | {n for n in others if len({place[n] for place in places}) > 1}
    if first.along_k:  # parts of a row, unless rows go along them
        along_k |= {*plain} - {0} - along_rows
    found = []
    for some in itertools.chain.from_iterable(itertools.combinations(others, count) for count in range(len(others) + 1)):
        k = tuple(sorted((*({*plain} - {*others}), *some)))
        against = sum(n in (along_rows if n in k else along_k) for n in others)
        begins = [(read if k == plain else _in_boxes(read, k)).at[1] for read in held]
        found.append(_Way(k, tuple((tm.global_dim[n], at[n], tm.box_dim[n]) for n in k), against, begins, len({*k} ^ {*plain})))
    return found


def _against(a: _Way, b: _Way) -> tuple[int, bool, int]:
    """The objections to two operands' K. First, instructions go through boxes in another way. Then they begin at
    another k of A than of B. Then come strides.
    """
    return a.against + b.against + (not _are_alike(a, b)), a.begins != b.begins, a.changed + b.changed


def _are_alike(a: _Way, b: _Way) -> bool:
    """Have both operands the same K?"""
    return a.parts == b.parts or (len(a.k) == len(b.k) == 1 and a.parts[0][0] == b.parts[0][0])


def _is_parted(read: OperandRead) -> bool:
    """Has a box several parts of a line, and not all that a line has in each?"""
    box = read.loads[0].transfer.tensor_map.box_dim
    return any(box[modes[-1].dimension] > 1 and any(box[mode.dimension] < mode.size for mode in modes[:-1]) for modes in read.modes)


def _coordinates(read: OperandRead) -> list[int]:
    """Those of an operand's first element."""
    found = list(read.loads[0].event.coordinates)
    for modes, index in zip(read.modes, read.at, strict=True):
        left = index
        for mode in modes[:-1]:
            found[mode.dimension] = mode.first + left % mode.size
            left //= mode.size
        found[modes[-1].dimension] = modes[-1].first + left
    return found


def _all_in_boxes(reads: list[OperandRead | None], k: tuple[int, ...]) -> list[OperandRead | None]:
    return [None if read is None else _in_boxes(read, k) for read in reads]


def _in_boxes(read: OperandRead, k: tuple[int, ...]) -> OperandRead:
    """An operand with these dimensions as its K; an axis of one dimension is that of the tensor, others begin where the
    box does.
    """
    load, places = read.loads[0], _coordinates(read)
    tm, corner = load.transfer.tensor_map, load.event.coordinates
    used = {mode.dimension for modes in read.modes for mode in modes}
    strides = (tm.type_row.bits // 8, *tm.global_strides)
    address, axes, at = tm.global_address + sum(corner[n] * strides[n] for n in range(tm.rank) if n not in used), [], []
    for dimensions in (sorted(used - {*k}), k):
        modes, index, weight = [], 0, 1
        for n in dimensions:
            begin = corner[n] if len(dimensions) > 1 else 0
            modes.append(Mode(n, tm.box_dim[n], strides[n], begin, tm.global_dim[n] - begin))
            index, weight = index + (places[n] - begin) * weight, weight * tm.box_dim[n]
            address += begin * strides[n]
        axes.append(tuple(modes))
        at.append(index)
    outer, inner = axes if read.along_k else axes[::-1]
    return dataclasses.replace(read, matrix=Matrix(signed(address), inner, outer), at=(at[0], at[1]))


def cut_off(reads: Reads, memory: GlobalMemory) -> list[Finding]:
    """T209 as a remark for a dimension of such a K that ends inside a box, in both maps alike, if both arrays hold data
    after it.

    Maps of a part of larger tensors look like this, and so do maps with too small a K.
    """
    products = {(p.a[0].base, p.b[0].base): p for p in reads.products if p.a[0] is not None and p.b[0] is not None}
    for p in products.values():
        boxed = in_boxes(p)
        a, b = boxed.a[0], boxed.b[0]
        if boxed is p or a is None or b is None or len(a.modes[1]) == 1:
            continue
        for of_a, of_b in zip(a.modes[1], b.modes[1], strict=True):
            tm, n = a.loads[0].transfer.tensor_map, of_a.dimension
            if tm.global_dim[n] % tm.box_dim[n] and _goes_on(memory, a, of_a) and _goes_on(memory, b, of_b):
                return [_found(a, n)]
    return []


def _goes_on(memory: GlobalMemory, read: OperandRead, mode: Mode) -> bool:
    """Is there anything but zero between the end of a dimension and what the next wider stride leads to, or the end of
    the array?
    """
    tm = read.loads[0].transfer.tensor_map
    end = tm.global_dim[mode.dimension] * mode.stride
    wider = [stride for n, stride in enumerate(tm.global_strides, 1) if tm.global_dim[n] > 1 and stride > mode.stride]
    try:
        begin, held = memory.region(tm.global_address)
        size = min([*wider, begin + len(held) - tm.global_address]) - end
        return size > 0 and bool(memory.span(tm.global_address + end, min(size, mode.stride)).any())
    except SmemsimError:
        return False


def _found(a: OperandRead, dimension: int) -> Finding:
    load = a.loads[0].event
    extent, box = load.tensor_map.global_dim[dimension], load.tensor_map.box_dim[dimension]
    return at_instruction(
        "T209",
        load.instruction,
        f"the maps of A and B end at {extent} along dimension {dimension}, a part of K, inside a box of {box}",
        f"a larger global_dim[{dimension}] in both maps, unless a part of larger tensors is meant",
        why="both arrays hold data after that end; there both operands are fill, which adds nothing to D",
        arrays=(load.tensor_map.global_address,),
        milder=Severity.NOTE,
    )


def nan_fills(reads: Reads) -> list[Finding]:
    """T209 as a remark for the first instruction that multiplies fill of NaN.

    NaN times zero is NaN. Along K it spoils all elements of D. Along the rows it spoils those rows or columns, which
    the program may not store.
    """
    for p in reads.products:
        for side, held in zip(SIDES, (p.a, p.b), strict=True):
            for event, read in zip(p.events, held, strict=False):
                if read is not None and (found := _nan(event, read, side)) is not None:
                    return [found]
    return []


def _nan(event: Mma, read: OperandRead, side: Literal["a", "b"]) -> Finding | None:
    load = read.loads[0].event
    if load.tensor_map.oob_fill is not OobFill.NAN_REQUEST_ZERO_FMA:
        return None
    some = "these rows of D" if side == "a" else "these columns of D"
    sizes = (event.rows_of(side), event.k_of(side))
    for modes, at, size, what in zip(read.modes, read.at, sizes, (some, "all elements of D"), strict=True):
        dimension = _ends_in(modes, at, size)
        if dimension is not None:
            return at_instruction(
                "T209",
                event.instruction,
                f"{side.upper()} has elements outside of its tensor (dimension {dimension}), and they are NaN",
                "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE in the map: the fill is zero then",
                why=f"the map of the load at {load.instruction.at} fills with NaN, so {what} become NaN",
                arrays=(load.tensor_map.global_address,),
                milder=Severity.NOTE,
            )
    return None


def _ends_in(modes: tuple[Mode, ...], at: int, size: int) -> int | None:
    """The dimension along which some of `size` indices of an axis, from `at` on, lie outside of the tensor."""
    left = np.arange(at, at + size)
    for n, mode in enumerate(modes):
        here = left if n == len(modes) - 1 else left % mode.size
        if ((here + mode.first < 0) | (here >= mode.extent)).any():
            return mode.dimension
        left = left // mode.size
    return None


def stray_boxes(reads: Reads) -> list[Finding]:
    """R508 as a remark for a box of a tile whose coordinate does not follow from those of its other boxes. Such a tile
    is not checked, as its rows may be meant to come from several places.
    """
    return [_stray(side, stray, event) for side, stray, event in reads.strays.values()]


def _stray(side: str, stray: Stray, event: Mma) -> Finding:
    load, n = stray.load.event, stray.dimension
    at, size = load.coordinates[n], load.tensor_map.box_dim[n]
    what = (
        f"a box of the tile of {side.upper()} begins at {at} in dimension {n}, and the {stray.others} other boxes need {stray.wanted} there"
    )
    if stray.others == 1:
        what = f"the two boxes of the tile of {side.upper()} overlap: they begin at {stray.wanted - size} and {at} in dimension {n}, and have {size} there"
    return at_instruction(
        "R508",
        load.instruction,
        what,
        f"coordinate {stray.wanted}, if the boxes are one tile of the tensor",
        why=f"{event.instruction.name} at {event.instruction.at} reads these boxes as one tile; its rows may also be meant to come from several places",
        other=event.instruction,
        milder=Severity.NOTE,
    )


def loaded_twice(reads: Reads, event: Mma, side: str) -> tuple[str, str]:
    """Why an operand is wrong, and the fix, if two loads bring the same box to two places of it; else ("", "")."""
    for p in reads.products:
        for own, read in zip(p.events, p.a if side == "a" else p.b, strict=False):
            if own is not event or read is None:
                continue
            for one, other in itertools.combinations(read.loads, 2):
                at = one.event.coordinates
                if (
                    one.key_of_map == other.key_of_map
                    and at == other.event.coordinates
                    and one.transfer.smem_address != other.transfer.smem_address
                    and not (one.is_looked_up or other.is_looked_up)
                ):
                    lines = lines_of((one.event.instruction, other.event.instruction))
                    why = f"two loads bring the same box of the tensor, at coordinates {list(at)}, to two places of the tile ({lines})"
                    return why, "other coordinates in one of the two loads"
    return "", ""
