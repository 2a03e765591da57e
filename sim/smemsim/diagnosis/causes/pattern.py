"""A wrong operand in words: the blocks, steps and rows that are right, and what the others take instead."""

from __future__ import annotations

import numpy as np

from smemsim.core.spec.formats import element_format
from smemsim.core.spec.shared_memory import ATOM_ROWS
from smemsim.core.spec.smem_descriptor import REACH
from smemsim.diagnosis.numbers import numbers_told
from smemsim.diagnosis.scenario_machine import (
    FOREIGN,
    UNWRITTEN,
    Seen,
)
from smemsim.diagnosis.tensors import OUTSIDE

__all__ = ["pattern"]


PERIODS = (1, 2, 4, 8, 16, 32, 64, 128)


def pattern(seen: Seen) -> tuple[str, ...]:
    """Sentences about the wrong elements: their positions, and the data that are read instead."""
    nothing, instead = _nothing(seen), _instead(seen)
    where, told = _where(seen.wrong), [text for _, text in nothing]
    if where and len(nothing) == 1 and nothing[0][0] == seen.wrong.sum():
        where, told = [f"{where[0]}; {told[0]}"], []
    return (*where, *told, *(instead or _rest(seen, nothing)))


def _where(wrong: np.ndarray) -> list[str]:
    """The axes along which right and wrong elements differ, in one sentence: two that name what alone is right would
    contradict each other.
    """
    parts, count = [], 0
    for name, axis in (("block", 0), ("K step", 1), ("row", 2), ("k", 3)):
        others = tuple(a for a in range(4) if a != axis)
        right = np.nonzero(~wrong.any(axis=others))[0].tolist()
        if right:
            count += len(right)
            s = "" if len(right) == 1 or name == "k" else "s"
            parts.append(f"{name}{s} {numbers_told(right, wrong.shape[axis])} of {wrong.shape[axis]}")
    return [f"only {', and '.join(parts)} {'is' if count == 1 else 'are'} right"] if parts else []


def _rest(seen: Seen, nothing: list[tuple[int, str]]) -> list[str]:
    """The elements besides those for which no data of a tensor arrives, so that the numbers add up."""
    rest = int(seen.wrong.sum()) - sum(count for count, _ in nothing)
    return [f"the other {rest} read other elements than they should"] if nothing and rest > 0 else []


def _nothing(seen: Seen) -> list[tuple[int, str]]:
    """Elements for which no data of a tensor arrives: how many, and in words."""
    wrong, got = seen.wrong, seen.got
    past = seen.addresses >= REACH
    sentences = []
    for mask, what in (
        (past, "read past the end of the shared window"),
        ((got == UNWRITTEN) & ~past, "read uninitialised bytes"),
        (got == OUTSIDE, "read out-of-bounds fill"),
        (got == FOREIGN, "read bytes of no tensor of the scenario"),
    ):
        count = int((mask & wrong).sum())
        if count:
            sentences.append((count, f"{'all wrong elements' if count == wrong.sum() else f'{count} of the wrong elements'} {what}"))
    return sentences


def _instead(seen: Seen) -> list[str]:
    """Which elements come instead of those that were meant."""
    read, tensor = seen.read, seen.read.tensor
    taken = seen.wrong & (seen.got >= tensor.address) & (seen.got < tensor.end)
    if not taken.any() or taken.sum() * 2 < seen.wrong.sum():
        return []
    row_axis, k_axis = read.meaning.axes
    got, want = tensor.coordinates(seen.got), tensor.coordinates(read.meant)
    at = read.meaning.origin
    rows, columns, row, column = got[row_axis] - at[0], got[k_axis] - at[1], want[row_axis] - at[0], want[k_axis] - at[1]
    by_row, by_k = (rows - row)[taken], (columns - column)[taken]
    if (rows == column)[taken].all() and (columns == row)[taken].all():
        rows_of = {"a": "M", "b": "N"}.get(read.where.side, "MN")
        swapped = f"{read.where}.meant swaps the axes: the rows ({rows_of}) of the operand are axis k of {tensor.name}, and its K is axis {k_axis} of {tensor.name}"
        return [swapped if row_axis == "k" else "the tile is transposed"]
    if (by_row == by_row[0]).all() and (by_k == by_k[0]).all():
        return [f"reads {moved(int(by_row[0]), int(by_k[0]))}"]
    steps = _steps(seen)
    if steps:
        return [steps]
    if not by_row.any():
        per_chunk = element_format(read.dtype).elements_per_chunk(read.packing)
        whole = read.major == "K" and not (by_k % per_chunk).any()
        return ["16-byte chunks are permuted within their rows" if whole else "the rows are right, k is not"]
    aliased = _aliased(seen.got, 2)
    if aliased and not by_k.any():
        return [f"rows {aliased} apart read the same bytes"]
    if not by_k.any():
        return _groups(taken, rows - row, columns - column) or ["k is right, the rows are not"]
    if read.major == "MN" and _aliased(seen.got, 3):
        return [f"k {_aliased(seen.got, 3)} apart read the same bytes"]
    return [f"rows {aliased} apart read the same bytes"] if aliased else _groups(taken, rows - row, columns - column)


def moved(rows: int, k: int) -> str:
    """The elements that come, and those that were meant.

    >>> moved(-32, 0), moved(8, 16)
    ('row r - 32 in place of row r', 'row r + 8, k + 16 in place of row r, k')
    """
    axes = [(by, name) for by, name in ((rows, "row r"), (k, "k")) if by]
    taken = ", ".join(f"{name} {'+' if by > 0 else '-'} {abs(by)}" for by, name in axes)
    return f"{taken} in place of {', '.join(name for _, name in axes)}"


def _groups(taken: np.ndarray, by_row: np.ndarray, by_k: np.ndarray) -> list[str]:
    """The first wrong group of eight rows, if another group comes in its place."""
    first = int(np.nonzero(taken.any(axis=(0, 1, 3)))[0][0]) // ATOM_ROWS
    group = np.zeros_like(taken)
    group[:, :, ATOM_ROWS * first : ATOM_ROWS * (first + 1)] = True
    rows, ks = by_row[taken & group], by_k[taken & group]
    if (rows != rows[0]).any() or (ks != ks[0]).any():
        return []
    low = ATOM_ROWS * first
    also = f" at k {'+' if ks[0] > 0 else '-'} {abs(int(ks[0]))}" if ks[0] else ""
    return [f"rows {low} to {low + ATOM_ROWS - 1} read the data of rows {low + int(rows[0])} to {low + int(rows[0]) + ATOM_ROWS - 1}{also}"]


def _steps(seen: Seen) -> str:
    """K steps that read what another step was meant to read."""
    count = seen.got.shape[1]
    other = {}
    for step in range(count):
        if seen.wrong[:, step].all():
            same = [t for t in range(count) if t != step and (seen.got[:, step] == seen.read.meant[:, t]).all()]
            if same:
                other[step] = same[0]
    if not other or set(other) != set(np.nonzero(seen.wrong.any(axis=(0, 2, 3)))[0].tolist()):
        return ""
    listed = [f"{step} reads what {t} should read" for step, t in other.items()]
    return (
        ("K steps are exchanged: " if sorted(other) == sorted(other.values()) else "K steps read the data of others: ")
        + ", ".join(listed[:4])
        + (", ..." if len(listed) > 4 else "")
    )


def _aliased(got: np.ndarray, axis: int) -> int:
    """The smallest distance along an axis at which everything is read again; 0 if there is none."""
    size = got.shape[axis]
    for period in PERIODS:
        if period < size and (np.take(got, range(period, size), axis) == np.take(got, range(size - period), axis)).all():
            return period
    return 0
