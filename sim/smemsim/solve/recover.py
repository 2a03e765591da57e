"""What an operand must have been, solved for from D, chunk by chunk: where each chunk came from, and the descriptor that reads it so.

D is linear in A: with as many columns as K has elements, or more, it says what every element of A was (and likewise of B). Where that is the
tile's own chunks in other places, these places are a layout, for which descriptors are found like for any other.
"""

from __future__ import annotations

import numpy as np

from smemsim.diagnose.compared import Compared
from smemsim.solve.answer import FoundDescriptor
from smemsim.solve.inverse import inverted
from smemsim.solve.tile import ZERO, Tile

__all__ = ["moved_chunks", "recovered"]

SINGULAR = 1e6  # of a matrix whose equations say too little
AT_ONCE = 512  # chunks that are compared with all others


def recovered(c: Compared, tile: Tile, name: str) -> np.ndarray | None:
    """(rows, k): the element of the tile (row * K + k, or ZERO) that each one was; None where D does not say so."""
    p = c.product
    matrix = p.terms("BA"["AB".index(name)])
    with np.errstate(all="ignore"):
        given = c.values(c.hardware) - p.start()
    given = given if name == "A" else given.T
    if len(matrix) < matrix.shape[1] or not (np.isfinite(matrix).all() and np.isfinite(given).all()):
        return None
    s = tile.shape
    own = s.lined(p.terms(name))
    orthogonal, triangle = np.linalg.qr(matrix)
    scale = np.abs(np.diagonal(triangle))
    if scale.max() >= SINGULAR * scale.min() or not np.isfinite(own).all():
        return None
    solved = np.linalg.solve(triangle, orthogonal.T @ given.T)
    room = (c.loose if name == "A" else c.loose.T).T
    if (np.abs(matrix @ solved - given.T) > room).any():
        return None
    was = s.lined(solved.T)
    vectors, wanted = _chunks(own, s.per_chunk), _chunks(was, s.per_chunk)
    known = np.concatenate([vectors, np.zeros_like(vectors[:1])])
    squares = (known**2).sum(axis=1)
    nearest = np.empty(len(wanted), np.int64)
    for first in range(0, len(wanted), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        nearest[part] = np.argmin(squares - 2 * wanted[part] @ known.T, axis=1)
    stay = (np.arange(len(wanted)), nearest)
    same = (known[stay[0]] == known[stay[1]]).all(axis=1)
    nearest = np.where(same, stay[0], nearest)
    count = tile.offsets.shape[1]
    chunk = np.repeat(nearest.reshape(-1, count), s.per_chunk, axis=1)[:, : own.shape[1]]
    along = chunk % count * s.per_chunk + np.arange(own.shape[1]) % s.per_chunk
    row, k = (chunk // count, along) if s.major == "K" else (along, chunk // count)
    rows, columns = tile.extent
    inside = (row < rows) & (k < columns) & (chunk < len(vectors))
    return np.asarray(s.lined(np.where(inside, row * columns + k, ZERO)))


def _chunks(lined: np.ndarray, per_chunk: int) -> np.ndarray:
    """(chunks, elements) of (lines, along)."""
    padded = np.pad(lined, ((0, 0), (0, -lined.shape[1] % per_chunk)))
    return padded.reshape(-1, per_chunk)


def moved_chunks(tile: Tile, source: np.ndarray) -> tuple[str, str]:
    """(fields, what were otherwise) for elements that come from elsewhere in the tile."""
    lies = tile.joined(tile.places).ravel()
    found = [] if (source < 0).any() else inverted(tile.shape, tile.cut(lies[source]))[0]
    if found:
        return min((_changes(tile, one) for one in found), key=lambda one: one[0].count(",") + 5 * ("absolute" in one[1]))
    rule = _xor(tile, source)
    if rule:
        return "swizzle", rule
    columns = tile.extent[1]
    moved = np.argwhere(source != np.arange(source.size).reshape(source.shape))
    row, k = (int(x) for x in moved[0])
    from_ = int(source[row, k])
    what = "0" if from_ < 0 else f"what belongs in ({from_ // columns}, {from_ % columns})"
    text = "made of its own 16-byte chunks in other places, as no descriptor reads them"
    return "layout", f"{text}: ({row}, {k}) has {what} ({len(moved)} of {source.size} elements)"


def _xor(tile: Tile, source: np.ndarray) -> str:
    """Chunks that stay in their line, with an XOR that the line alone gives, as of swizzles that nobody has; "" if it is not that."""
    s = tile.shape
    lined, right = s.lined(source), s.lined(np.arange(source.size).reshape(source.shape))
    count = lined.shape[1] // s.per_chunk
    first = lined[:, :: s.per_chunk][:, :count]
    lines = right[:, :: s.per_chunk][:, :count]
    chunk_of = {int(x): i for line in lines for i, x in enumerate(line)}
    moved = np.array([[chunk_of.get(int(x), -1) for x in line] for line in first])
    keys = moved ^ np.arange(count)
    same_line = np.isin(first, lines) & (np.sort(first, axis=1) == np.sort(lines, axis=1))
    if (moved < 0).any() or not same_line.all() or (keys != keys[:, :1]).any() or len(keys) < 8:
        return ""
    key = keys[:, 0]
    if (key != key[np.arange(len(key)) % 8]).any():
        return ""
    line = "row" if s.major == "K" else "k"
    return f"read with chunk c of each {line} taken for c ^ {key[:8].tolist()}[{line} % 8], which no descriptor does here: is the swizzle meant another?"


def _changes(tile: Tile, one: FoundDescriptor) -> tuple[str, str]:
    """In which fields a descriptor is not the right one."""
    right = tile.right
    fields = (
        ("layout_type", "swizzle", right.swizzle, one.swizzle),
        ("base_offset", "base offset", 0, 0 if 0 in one.base_offsets else one.base_offsets[0]),
        ("leading_byte_offset", "LBO", right.leading, one.leading),
        ("stride_byte_offset", "SBO", right.stride, one.stride),
    )
    changed = [
        (field, f"{name} {new}{'' if old is None else f' instead of {old}'}") for field, name, old, new in fields if new not in (None, old)
    ]
    if one.absolute:
        changed.append(("lbo_mode", "absolute LBO"))
    by = one.starts - right.starts
    if by.any():
        by_all = (by == by[0, 0]).all()
        off = [
            f"step {step}{f' of block {block}' if len(by) > 1 else ''} {int(by[block, step]):+} B"
            for block, step in np.argwhere(by).tolist()
        ]
        told = (
            f"starts {int(by[0, 0]):+} B"
            if by_all
            else f"other starts: {', '.join(off[:4])}{f', … ({len(off)} of {by.size})' if len(off) > 4 else ''}"
        )
        changed.append(("start_address", told))
    return ", ".join(field for field, _ in changed), f"read with {' and '.join(text for _, text in changed)}"
