"""Boxes that have a few of each of several dimensions of K: a contraction's K is what both operands have together, in the order of their boxes."""

from __future__ import annotations

import dataclasses

from smemsim.judge.operands.read import Mode, OperandRead, Product

__all__ = ["in_boxes"]


def in_boxes(p: Product) -> Product:
    """A product whose k goes on from one part of a row to the next where its boxes do, if those of A and B do so alike; else the product as it is.

    CUTLASS's GETT of two modes of K, 32 x 2, has boxes of 8 x 8 of them: behind k = 7 comes what a tensor of one K has at 32, in both operands.
    """
    parts = [None if read is None else _parts(read) for read in (p.a[0], p.b[0])]
    if not parts[0] or parts[0] != parts[1]:
        return p
    return dataclasses.replace(p, **{side: [None if read is None else _in_boxes(read) for read in getattr(p, side)] for side in ("a", "b")})


def _parts(read: OperandRead) -> tuple[tuple[int, int, int, int], ...]:
    """Of each dimension of K how many elements there are, how many a row has of them, which the first is that is loaded, and how many; nothing where boxes have
    all that a row has of each but the last."""
    box, at, modes = read.loads[0].transfer.tensor_map.box_dim, read.loads[0].event.coordinates, read.modes[1]
    if not read.along_k or all(box[mode.dimension] >= mode.size for mode in modes[:-1]) or box[modes[-1].dimension] == 1:
        return ()
    return tuple((mode.extent, mode.size if mode is not modes[-1] else 0, at[mode.dimension], box[mode.dimension]) for mode in modes)


def _in_boxes(read: OperandRead) -> OperandRead:
    box, at = read.loads[0].transfer.tensor_map.box_dim, read.loads[0].event.coordinates
    modes, address, k, weight, left = [], read.matrix.address, 0, 1, read.at[1]
    for mode in read.modes[1]:
        n, begin = mode.dimension, at[mode.dimension]
        left, index = divmod(left, mode.size) if mode is not read.modes[1][-1] else (0, left)
        k, weight = k + (index - begin) * weight, weight * box[n]
        modes.append(Mode(n, box[n], mode.stride, begin, mode.extent - begin))
        address += begin * mode.stride
    return dataclasses.replace(read, matrix=dataclasses.replace(read.matrix, address=address, inner=tuple(modes)), at=(read.at[0], k))
