"""Boxes that have a few of each of several dimensions of K: a contraction's K is what both operands have together, in the order of their boxes."""

from __future__ import annotations

import dataclasses

from smemsim.errors import SmemsimError
from smemsim.finding import Finding, at_instruction
from smemsim.judge.operands.read import Mode, OperandRead, Product
from smemsim.judge.operands.recorded import Reads
from smemsim.machine.region import GlobalMemory
from smemsim.spec.findings import Severity

__all__ = ["cut_off", "in_boxes"]


def in_boxes(p: Product) -> Product:
    """A product whose k goes on from one part of a row to the next where its boxes do, if those of A and B do so alike; else the product as it is.

    CUTLASS's GETT of two modes of K, 32 x 2, has boxes of 8 x 8 of them: behind k = 7 comes what a tensor of one K has at 32, in both operands. Their strides
    are each operand's own.
    """
    a, b = p.a[0], p.b[0]
    if a is None or b is None or not (_is_parted(a) or _is_parted(b)) or _parts(a) != _parts(b):
        return p
    return dataclasses.replace(p, a=_all_in_boxes(p.a), b=_all_in_boxes(p.b))


def _is_parted(read: OperandRead) -> bool:
    """Has a box several parts of a row, and not all that a row has in each?"""
    box, modes = read.loads[0].transfer.tensor_map.box_dim, read.modes[1]
    return read.along_k and box[modes[-1].dimension] > 1 and any(box[mode.dimension] < mode.size for mode in modes[:-1])


def _parts(read: OperandRead) -> tuple[tuple[int, int, int], ...]:
    """Of each dimension of K, in the order in which boxes have them, how many elements there are, which the first is that is loaded, and how many."""
    tm, at = read.loads[0].transfer.tensor_map, read.loads[0].event.coordinates
    return tuple((tm.global_dim[n], at[n], tm.box_dim[n]) for n in sorted(mode.dimension for mode in read.modes[1]))


def _all_in_boxes(reads: list[OperandRead | None]) -> list[OperandRead | None]:
    return [None if read is None else _in_boxes(read) for read in reads]


def _in_boxes(read: OperandRead) -> OperandRead:
    if not read.along_k:  # rows of several dimensions are counted in their box already
        return read
    box, at = read.loads[0].transfer.tensor_map.box_dim, read.loads[0].event.coordinates
    index, left = {}, read.at[1]
    for mode in read.modes[1][:-1]:
        left, index[mode] = divmod(left, mode.size)
    index[read.modes[1][-1]] = left
    modes, address, k, weight = [], read.matrix.address, 0, 1
    for mode in sorted(index, key=lambda mode: mode.dimension):  # a stride may be wider than that of the next dimension
        n, begin = mode.dimension, at[mode.dimension]
        k, weight = k + (index[mode] - begin) * weight, weight * box[n]
        modes.append(Mode(n, box[n], mode.stride, begin, mode.extent - begin))
        address += begin * mode.stride
    return dataclasses.replace(read, matrix=dataclasses.replace(read.matrix, address=address, inner=tuple(modes)), at=(read.at[0], k))


def cut_off(reads: Reads, memory: GlobalMemory) -> list[Finding]:
    """T209 as a remark for a dimension of such a K that ends inside of a box, in both maps alike, where both arrays hold data behind it.

    Maps of a part of larger tensors are so, and maps with too small a K: nothing tells one from the other.
    """
    pairs = {
        (a.base, b.base): (p, a, b)
        for p in reads.products
        for a, b in zip(p.a[:1], p.b[:1], strict=True)
        if a is not None and b is not None
    }
    for p, a, b in pairs.values():
        if in_boxes(p) is p:
            continue
        for of_a, of_b in zip(*(sorted(read.modes[1], key=lambda mode: mode.dimension) for read in (a, b)), strict=True):
            tm, n = a.loads[0].transfer.tensor_map, of_a.dimension
            if tm.global_dim[n] % tm.box_dim[n] and _goes_on(memory, a, of_a) and _goes_on(memory, b, of_b):
                return [_found(a, n)]
    return []


def _goes_on(memory: GlobalMemory, read: OperandRead, mode: Mode) -> bool:
    """Is there anything but zero between the end of a dimension and what the next wider stride leads to, or the end of the array?"""
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
        f"the maps of A and B end at {extent} along dimension {dimension}, inside of a box of {box}; it is one of several dimensions of K, and behind its end both "
        "arrays hold data: what is fill in both operands adds nothing",
        f"nothing, where a part of larger tensors is meant; else global_dim[{dimension}] is too small in both maps",
        arrays=(load.tensor_map.global_address,),
        milder=Severity.NOTE,
    )
