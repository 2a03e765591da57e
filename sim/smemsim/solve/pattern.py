"""Where a D is wrong, in words: how much of it, and which rows, columns, or pairs of both are right."""

from __future__ import annotations

import numpy as np

from smemsim.diagnose.numbers import PERIODS, numbers_told

__all__ = ["pattern"]

NEARLY = 0.9  # what is right by chance does not count


def pattern(wrong: np.ndarray) -> str:
    """The shortest rule that says it all, if there is one.

    >>> row = np.arange(16)
    >>> pattern(np.repeat((row % 8 > 0)[:, None], 8, axis=1))
    '87.5 % of D is wrong (112 of 128): rows 0 mod 8 are right, all others wrong'
    """
    share = f"{wrong.mean() * 100:.4g} % of D is wrong ({int(wrong.sum())} of {wrong.size})"
    if not wrong.any():
        return "all of D is right"
    if wrong.all():
        return share
    found = []
    for axis, what in ((1, "row"), (0, "column")):
        right = np.asarray(~wrong.any(axis=axis))
        said = _lines(right, what)
        if said:
            rest = "all others wrong" if wrong.mean(axis=axis)[~right].min() > NEARLY else "the others are wrong in part"
            found.append(f"{said}, {rest}")
    if not found:
        pair = _pairs(wrong)
        found = [pair or _box(wrong)]
    return ": ".join(filter(None, (share, " and ".join(found))))


def _lines(right: np.ndarray, what: str) -> str:
    """Which lines are right, or which are not where that is shorter."""
    own, lost = (np.nonzero(x)[0].tolist() for x in (right, ~right))
    if not own or not lost:
        return ""
    told, others = numbers_told(own, len(right)), numbers_told(lost, len(right))
    if others.count(",") < told.count(","):
        return (
            f"{what}s {others} are not, all other {what}s are right"
            if len(lost) > 1
            else f"{what} {others} is not, all other {what}s are right"
        )
    if told.endswith("..."):
        return f"{len(own)} of {len(right)} {what}s are right, the first is {own[0]}"
    return f"{what}s {told} are right" if len(own) > 1 else f"{what} {told} is right"


def _pairs(wrong: np.ndarray) -> str:
    """Elements that are right because row and column agree modulo something."""
    row, column = np.arange(wrong.shape[0])[:, None], np.arange(wrong.shape[1])[None]
    for period in PERIODS:
        same = row % period == column % period
        if not wrong[same].any() and wrong[~same].mean() > NEARLY:
            return f"elements with row mod {period} == column mod {period} are right, all others wrong"
    return ""


def _box(wrong: np.ndarray) -> str:
    rows, columns = (np.nonzero(wrong.any(axis=axis))[0] for axis in (1, 0))
    if (len(rows), len(columns)) == wrong.shape:
        return ""
    return f"the wrong ones are in rows {rows[0]} to {rows[-1]}, columns {columns[0]} to {columns[-1]}"
