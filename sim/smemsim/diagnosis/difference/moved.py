"""Whole rows or columns, or single elements, in other places: of D, of an operand, or of C."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from smemsim.diagnosis.difference.compared import Compared
from smemsim.diagnosis.numbers import numbers_told

__all__ = ["moved_elements", "moved_lines", "moved_told"]


ODD = 2.0**1000  # stands for what is no number


def moved_lines(c: Compared) -> list[str]:
    """Sentences about D, A, B or C with transposed or exchanged rows or columns, if that gives hardware's D."""
    p, sentences = c.product, []
    if c.model.shape[0] == c.model.shape[1] and c.agrees(c.model.T, c.room.T).all():
        sentences.append("D were transposed")
    with np.errstate(all="ignore"):
        hardware, model, start, terms = c.values(c.hardware), c.values(c.model), p.start(), p.terms("A") @ p.terms("B").T
        changes = _numbers(hardware), hardware - start, hardware - terms
    for axis, what, letter, name in ((0, "row", "m", "A"), (1, "column", "n", "B")):
        for owner, x, y in zip(("D", name, "C"), changes, (_numbers(x) for x in (model, terms, start)), strict=True):
            source = _sources(np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0), np.asarray(c.differs.any(axis=1 - axis)))
            if source is None:
                continue
            if owner == "D":
                right = bool(c.agrees(*(np.take(z, source, axis=axis) for z in (c.model, c.room))).all())
            elif owner == "C":
                right = c.explained(dataclasses.replace(p, c=np.take(p.c, source, axis=axis)))
            else:
                right = c.explained(p.having(name, np.ascontiguousarray(p.side(name).bits[:, source])))
            if right:
                sentences.append(f"{owner}'s {what}s were in other places: {moved_told(source, what, letter)}")
    return sentences


def _numbers(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.nan_to_num(values, nan=ODD, posinf=2 * ODD, neginf=-2 * ODD))


def _sources(found: np.ndarray, wanted: np.ndarray, differs: np.ndarray) -> np.ndarray | None:
    """Whose line each line that `differs` is nearest to; None where that says nothing, as of lines that are all the
    same, or zeros.
    """
    source = np.arange(len(found))
    for i in np.nonzero(differs)[0]:
        known = np.isfinite(found[i])
        here, there = (found[i], wanted) if known.all() else (found[i, known], wanted[:, known])
        source[i] = np.argmin(np.abs(there - here).max(axis=1, initial=0))
    lines, which, counts = np.unique(wanted, axis=0, return_inverse=True, return_counts=True)
    telling = (counts == 1) & (lines != lines[:, :1]).any(axis=1)
    moved = source[source != np.arange(len(found))]
    return source if telling[which.ravel()[moved]].any() else None


def moved_told(source: np.ndarray, what: str, letter: str) -> str:
    """From where each line comes, as a formula if there is one."""
    i, size = np.arange(len(source)), len(source)
    for text, rule in _rules(letter, i, size):
        if (rule == source).all():
            return f"{what} {letter} has what belongs in {text}"
    moved = np.nonzero(source != i)[0]
    steps = np.unique(source[moved] - moved)
    if len(steps) == 1:
        told = f"{letter} {'-' if steps[0] < 0 else '+'} {abs(int(steps[0]))}"
        return f"{what} {letter} of {numbers_told(moved.tolist(), size)} has what belongs in {told}"
    some = ", ".join(f"{what} {x} has that of {source[x]}" for x in moved[:4])
    return f"{some}{', …' if len(moved) > 4 else ''} ({len(moved)} of {size})"


def _rules(letter: str, i: np.ndarray, size: int) -> Iterator[tuple[str, np.ndarray]]:
    for x in range(1, size):
        yield f"{letter} ^ {x}", i ^ x
    for d in range(1, size):
        yield f"({letter} - {d}) % {size}", (i - d) % size
    for d in (*range(-16, 0), *range(1, 17)):
        yield f"{letter} {'-' if d > 0 else '+'} {abs(d)} * ({letter} // 8)", i - d * (i // 8)
    for x in (2, 4, 8, 16, 32, 64):
        yield f"{letter} % {x}", i % x
        yield f"{letter} - {letter} % {x}", i - i % x
    yield f"{size - 1} - {letter}", size - 1 - i


def moved_elements(c: Compared) -> list[str]:
    """Has D the right elements in other places?"""
    wanted, found = c.model[c.wrong], c.hardware[c.wrong]
    if not c.exact or not np.array_equal(np.sort(wanted), np.sort(found)):
        return []
    places = [tuple(at) for at in np.argwhere(c.wrong).tolist()]
    values, first, counts = np.unique(wanted, return_index=True, return_counts=True)
    alone = {int(v): places[i] for v, i, n in zip(values, first, counts, strict=True) if n == 1}
    moved = [at for at in places if int(c.hardware[at]) in alone]
    if len(moved) < 2:
        return []
    some = ", ".join("[{}, {}] has that of [{}, {}]".format(*at, *alone[int(c.hardware[at])]) for at in moved[:3])
    return [f"D's elements were in other places: {some}{', …' if len(places) > 3 else ''}"]
