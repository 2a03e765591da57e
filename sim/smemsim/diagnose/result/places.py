"""The right numbers in other places of the whole array: transposed, displaced, whole rows or columns elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from smemsim.diagnose.lines import moved_told
from smemsim.diagnose.numbers import numbers_told
from smemsim.diagnose.result.arrays import Arrays, Explanation

__all__ = ["PLACES", "displaced", "lines", "may_be", "nearest", "repeats", "transposed"]

RUN = 8  # elements that are looked for together
TRIED, MOST_TRIED = 5, 20
DIRECTIONS = 16  # of random projections, by which lines are compared
MOST_LINES = 8192


def transposed(x: Arrays) -> Explanation | None:
    """Rows for columns; of an array that is not square, in memory."""
    told = "it is transposed: [m, n] has what belongs in [n, m]"
    if x.shape[0] != x.shape[1]:
        told = f"it is transposed: as {x.shape[1]}x{x.shape[0]} in memory, where {x.shape[0]}x{x.shape[1]} was expected"
    if min(x.shape) < 2 or not x.gives(x.wanted.T.reshape(x.shape)):
        return None
    return Explanation(told, "write it the other way round, or exchange A and B: B^T A^T is (A B)^T")


def displaced(x: Arrays) -> Explanation | None:
    """Everything some rows and columns, or some elements in memory, further on; what had no place left is lost."""
    columns = x.shape[1]
    flat = x.wanted.reshape(-1)
    votes: dict[int, int] = {}
    r, c = x.places
    tried = 0
    for n in np.random.default_rng(2).integers(0, len(r), MOST_TRIED).tolist():
        at = int(r[n]) * columns + min(int(c[n]), max(0, columns - RUN))
        run = x.found.reshape(-1)[at : at + RUN]
        if run.size < RUN or not run.any():
            continue
        tried += 1
        if max(votes.values(), default=0) > 1 or (tried > TRIED and not votes):
            break
        room = 2 * x.relative * (abs(float(run[0])) + x.scale)
        begins = np.flatnonzero(np.abs(flat[: flat.size - RUN + 1] - run[0]) <= room)
        for k in range(RUN):
            begins = begins[x.near(run[k], flat[begins + k])]
        if len(begins) == 1:
            votes[at - int(begins[0])] = votes.get(at - int(begins[0]), 0) + 1
    for d in sorted(votes, key=lambda d: -votes[d])[:2]:
        down = round(d / columns)
        right = d - down * columns
        other = 1 if right > 0 else -1
        for rule in (_along(x, d) if right else None, _shifted(x, down, right), _shifted(x, down + other, right - other * columns)):
            if rule is not None:
                return rule
    return None


def _shifted(x: Arrays, down: int, right: int) -> Explanation | None:
    rows, columns = x.shape
    if abs(down) >= rows or abs(right) >= columns or not (down or right):
        return None
    moved, free = np.zeros_like(x.wanted), np.ones(x.shape, bool)
    to, source = ((slice(max(0, a), rows + min(0, a)), slice(max(0, b), columns + min(0, b))) for a, b in ((down, right), (-down, -right)))
    moved[to], free[to] = x.wanted[source], False
    if not x.gives(moved, free):
        return None
    parts = [f"{abs(n)} {what}{'s' * (abs(n) != 1)} too far {way[n < 0]}"
             for n, what, way in ((down, "row", ("down", "up")), (right, "column", ("right", "left"))) if n]  # fmt: skip
    at = "[" + ", ".join(f"{axis} {'-' if n > 0 else '+'} {abs(n)}" if n else axis for axis, n in (("m", down), ("n", right))) + "]"
    return Explanation(f"all of it lies {' and '.join(parts)}: [m, n] has what belongs in {at}", "change the coordinates of the store")


def _along(x: Arrays, d: int) -> Explanation | None:
    size = x.wanted.size
    moved, free = np.zeros(size, x.wanted.dtype), np.ones(size, bool)
    if not d or abs(d) >= size:
        return None
    to, source = (slice(max(0, n), size + min(0, n)) for n in (d, -d))
    moved[to], free[to] = x.wanted.reshape(-1)[source], False
    if not x.gives(moved.reshape(x.shape), free.reshape(x.shape)):
        return None
    way = "further on" if d > 0 else "before its place"
    return Explanation(
        f"all of it lies {abs(d)} element{'s' * (abs(d) != 1)} ({abs(d) * x.itemsize} bytes) {way} in memory",
        "change the address that the store begins at",
    )


def nearest(x: Arrays, found: np.ndarray, wanted: np.ndarray, which: np.ndarray | None = None) -> np.ndarray | None:
    """Which line of `wanted` each line of `found`, or those in `which`, is most like; None where several are equally like it: nobody can say.

    Both are (lines, elements). Lines are compared by random projections; whether they are equal is for others to see.
    """
    if max(len(found), len(wanted)) > MOST_LINES:
        return None
    random = np.random.default_rng(1).standard_normal((found.shape[1], DIRECTIONS)).astype(found.dtype)
    a, b = (np.asarray(y @ random, np.float64) for y in (found, wanted))
    a = a if which is None else a[which]
    far = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * a @ b.T
    best = far.argmin(axis=1)
    if far.shape[1] > 1:
        first = far[np.arange(len(far)), best]
        far[np.arange(len(far)), best] = np.inf
        # sums of n rounded products differ by about sqrt(n) roundings: what is as near as that is the same
        room = DIRECTIONS * found.shape[1] * (4 * x.relative * x.scale) ** 2 + 1e-9 * float(np.median((a * a).sum(axis=1)))
        if (far.min(axis=1) <= np.maximum(first, 0) + room).mean() > 0.5:
            return None
    return np.asarray(best)


def repeats(x: Arrays) -> bool:
    """Are most rows, or most columns, of what was expected like another one? Then nobody can say what lies where."""
    for axis in (0, 1):
        one = np.moveaxis(x.wanted, axis, 0)
        random = np.random.default_rng(3).standard_normal((one.shape[1], 1)).astype(one.dtype)
        sums = np.sort((one @ random).ravel().astype(np.float64))
        if len(sums) > 1 and np.mean(np.diff(sums) <= 1e-6 * np.abs(sums).max()) > 0.5:
            return True
    return False


def lines(x: Arrays) -> Explanation | None:
    """Whole rows, or whole columns, in other places."""
    for axis, what, letter in ((0, "row", "m"), (1, "column", "n")):
        found, wanted = (np.moveaxis(y, axis, 0) for y in (x.found, x.wanted))
        if len(found) < 2 or found.shape[1] < 2:
            continue
        wrong, some = np.asarray(x.wrong.any(axis=1 - axis)), np.asarray(found.any(axis=1))
        if not may_be(x, found, wanted, np.flatnonzero(wrong & some)):
            continue
        empty = wrong & ~some
        moved = _lines_source(x, found, wanted, axis, empty)
        if moved is None:
            continue
        shape = (-1, 1) if axis == 0 else (1, -1)
        free = np.broadcast_to(empty.reshape(shape), x.shape) if empty.any() else None
        if x.gives(np.take(x.wanted, moved, axis=axis), free):
            lost = f", and {what}s {numbers_told(np.flatnonzero(empty).tolist(), len(empty))} are 0" if empty.any() else ""
            return Explanation(
                f"its {what}s lie in other places: {moved_told(moved, what, letter)}{lost}",
                f"look at how the store comes to its {what}: the coordinates, or which {what} a register of the accumulator belongs to",
            )
    return None


def may_be(x: Arrays, found: np.ndarray, wanted: np.ndarray, which: np.ndarray) -> bool:
    """Is there a line of `wanted` that each of some lines of `found` could be, judged by a few elements?"""
    at = np.linspace(0, found.shape[1] - 1, RUN).astype(int)
    theirs = wanted[:, at]
    return all(bool(x.near(found[n, at], theirs).all(axis=1).any()) for n in which[:: max(1, len(which) // TRIED)])


def _lines_source(x: Arrays, found: np.ndarray, wanted: np.ndarray, axis: int, empty: np.ndarray) -> np.ndarray | None:
    """Where each line comes from; those that are right, or empty, stay."""
    wrong = np.flatnonzero(x.wrong.any(axis=1 - axis) & ~empty)
    if not len(wrong):
        return None
    best = nearest(x, found, wanted, wrong)
    if best is None:
        return None
    source = np.arange(len(found))
    source[wrong] = best
    return source


PLACES: tuple[Callable[[Arrays], Explanation | None], ...] = (transposed, displaced, lines)
