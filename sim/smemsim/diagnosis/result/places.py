"""The right numbers in other places of the whole array: transposed, displaced, whole rows or columns elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from smemsim.diagnosis.difference.moved import moved_told
from smemsim.diagnosis.numbers import numbers_told
from smemsim.diagnosis.result.arrays import Arrays, Explanation

__all__ = ["MOST_LINES", "PLACES", "RUN", "TRIED", "lines", "may_be", "nearest", "repeats"]


RUN = 8  # elements that are looked for together
TRIED, MOST_TRIED = 5, 20
DIRECTIONS = 16  # of random projections, by which lines are compared
MOST_LINES = 8192


def transposed(arrays: Arrays) -> Explanation | None:
    """Rows for columns; of an array that is not square, in memory."""
    told = "it is transposed: [m, n] has what belongs in [n, m]"
    if arrays.shape[0] != arrays.shape[1]:
        told = f"it is transposed: as {arrays.shape[1]}x{arrays.shape[0]} in memory, where {arrays.shape[0]}x{arrays.shape[1]} was expected"
    if min(arrays.shape) < 2 or not arrays.gives(arrays.wanted.T.reshape(arrays.shape)):
        return None
    return Explanation(told, "write it the other way round, or exchange A and B: B^T A^T is (A B)^T")


def displaced(arrays: Arrays) -> Explanation | None:
    """Everything some rows and columns, or some elements in memory, further on; what had no place left is lost."""
    columns = arrays.shape[1]
    flat = arrays.wanted.reshape(-1)
    votes: dict[int, int] = {}
    r, c = arrays.places
    tried = 0
    for n in np.random.default_rng(2).integers(0, len(r), MOST_TRIED).tolist():
        at = int(r[n]) * columns + min(int(c[n]), max(0, columns - RUN))
        run = arrays.found.reshape(-1)[at : at + RUN]
        if run.size < RUN or not run.any():
            continue
        tried += 1
        if max(votes.values(), default=0) > 1 or (tried > TRIED and not votes):
            break
        room = 2 * arrays.relative * (abs(float(run[0])) + arrays.scale)
        begins = np.flatnonzero(np.abs(flat[: flat.size - RUN + 1] - run[0]) <= room)
        for k in range(RUN):
            begins = begins[arrays.near(run[k], flat[begins + k])]
        if len(begins) == 1:
            votes[at - int(begins[0])] = votes.get(at - int(begins[0]), 0) + 1
    for d in sorted(votes, key=lambda d: -votes[d])[:2]:
        down = round(d / columns)
        right = d - down * columns
        other = 1 if right > 0 else -1
        for rule in (
            _along(arrays, d) if right else None,
            _shifted(arrays, down, right),
            _shifted(arrays, down + other, right - other * columns),
        ):
            if rule is not None:
                return rule
    return None


def _shifted(arrays: Arrays, down: int, right: int) -> Explanation | None:
    rows, columns = arrays.shape
    if abs(down) >= rows or abs(right) >= columns or not (down or right):
        return None
    moved, free = np.zeros_like(arrays.wanted), np.ones(arrays.shape, bool)
    to, source = ((slice(max(0, a), rows + min(0, a)), slice(max(0, b), columns + min(0, b))) for a, b in ((down, right), (-down, -right)))
    moved[to], free[to] = arrays.wanted[source], False
    if not arrays.gives(moved, free):
        return None
    parts = [f"{abs(n)} {what}{'s' * (abs(n) != 1)} too far {way[n < 0]}"
             for n, what, way in ((down, "row", ("down", "up")), (right, "column", ("right", "left"))) if n]  # fmt: skip
    at = "[" + ", ".join(f"{axis} {'-' if n > 0 else '+'} {abs(n)}" if n else axis for axis, n in (("m", down), ("n", right))) + "]"
    return Explanation(f"all of it lies {' and '.join(parts)}: [m, n] has what belongs in {at}", "change the coordinates of the store")


def _along(arrays: Arrays, d: int) -> Explanation | None:
    """Everything `d` elements further on in memory; `d` is less than the elements of the array, and not 0."""
    size = arrays.wanted.size
    moved, free = np.zeros(size, arrays.wanted.dtype), np.ones(size, bool)
    to, source = (slice(max(0, n), size + min(0, n)) for n in (d, -d))
    moved[to], free[to] = arrays.wanted.reshape(-1)[source], False
    if not arrays.gives(moved.reshape(arrays.shape), free.reshape(arrays.shape)):
        return None
    way = "further on" if d > 0 else "before its place"
    return Explanation(
        f"all of it lies {abs(d)} element{'s' * (abs(d) != 1)} ({abs(d) * arrays.itemsize} bytes) {way} in memory",
        "change the address that the store begins at",
    )


def nearest(arrays: Arrays, found: np.ndarray, wanted: np.ndarray, which: np.ndarray | None = None) -> np.ndarray | None:
    """The line of `wanted` that is most like each line of `found`, or those in `which`; None if several are equally
    like it.

    Both are (lines, elements). Lines are compared by random projections; the caller checks equality.
    """
    if max(len(found), len(wanted)) > MOST_LINES:
        return None
    random = np.random.default_rng(1).standard_normal((found.shape[1], DIRECTIONS)).astype(found.dtype)
    a, b = (np.asarray(y @ random, np.float64) for y in (found, wanted))
    a = a if which is None else a[which]
    far = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * a @ b.T
    best = far.argmin(axis=1)
    first = far[np.arange(len(far)), best]
    far[np.arange(len(far)), best] = np.inf
    # sums of n rounded products differ by about sqrt(n) roundings: what is as near as that is the same
    room = DIRECTIONS * found.shape[1] * (4 * arrays.relative * arrays.scale) ** 2 + 1e-9 * float(np.median((a * a).sum(axis=1)))
    return None if (far.min(axis=1) <= np.maximum(first, 0) + room).mean() > 0.5 else np.asarray(best)


def repeats(arrays: Arrays) -> bool:
    """Are most rows, or most columns, of the expected array equal to others? Then places cannot be distinguished."""
    for axis in (0, 1):
        one = np.moveaxis(arrays.wanted, axis, 0)
        random = np.random.default_rng(3).standard_normal((one.shape[1], 1)).astype(one.dtype)
        sums = np.sort((one @ random).ravel().astype(np.float64))
        if len(sums) > 1 and np.mean(np.diff(sums) <= 1e-6 * np.abs(sums).max()) > 0.5:
            return True
    return False


def lines(arrays: Arrays) -> Explanation | None:
    """Whole rows, or whole columns, in other places."""
    for axis, what, letter in ((0, "row", "m"), (1, "column", "n")):
        found, wanted = (np.moveaxis(y, axis, 0) for y in (arrays.found, arrays.wanted))
        if len(found) < 2 or found.shape[1] < 2:
            continue
        wrong, some = np.asarray(arrays.wrong.any(axis=1 - axis)), np.asarray(found.any(axis=1))
        if not may_be(arrays, found, wanted, np.flatnonzero(wrong & some)):
            continue
        empty = wrong & ~some
        moved = _lines_source(arrays, found, wanted, axis, empty)
        if moved is None:
            continue
        shape = (-1, 1) if axis == 0 else (1, -1)
        free = np.broadcast_to(empty.reshape(shape), arrays.shape) if empty.any() else None
        if arrays.gives(np.take(arrays.wanted, moved, axis=axis), free):
            lost = f", and {what}s {numbers_told(np.flatnonzero(empty).tolist(), len(empty))} are 0" if empty.any() else ""
            return Explanation(
                f"its {what}s lie in other places: {moved_told(moved, what, letter)}{lost}",
                f"look at how the store comes to its {what}: the coordinates, or which {what} a register of the accumulator belongs to",
            )
    return None


def may_be(arrays: Arrays, found: np.ndarray, wanted: np.ndarray, which: np.ndarray) -> bool:
    """Is there a line of `wanted` that each of some lines of `found` could be, by a few elements?"""
    at = np.linspace(0, found.shape[1] - 1, RUN).astype(int)
    theirs = wanted[:, at]
    return all(bool(arrays.near(found[n, at], theirs).all(axis=1).any()) for n in which[:: max(1, len(which) // TRIED)])


def _lines_source(arrays: Arrays, found: np.ndarray, wanted: np.ndarray, axis: int, empty: np.ndarray) -> np.ndarray | None:
    """The index of the line that each line comes from; lines that are right or empty stay."""
    wrong = np.flatnonzero(arrays.wrong.any(axis=1 - axis) & ~empty)
    if not len(wrong):
        return None
    best = nearest(arrays, found, wanted, wrong)
    if best is None:
        return None
    source = np.arange(len(found))
    source[wrong] = best
    return source


PLACES: tuple[Callable[[Arrays], Explanation | None], ...] = (transposed, displaced, lines)
