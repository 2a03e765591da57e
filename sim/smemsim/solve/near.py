"""The descriptor that reads most of an operand right, for layouts that no descriptor reads."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from smemsim.solve.answer import Nearest, described, read_addresses
from smemsim.solve.atoms import Kind, Shape
from smemsim.spec.shared_memory import CHUNK
from smemsim.spec.smem_descriptor import REACH

__all__ = ["nearest"]

VOTES = 3  # values of a stride that are tried
TRIED = 6  # descriptors whose elements are counted

Score = Callable[[np.ndarray], np.ndarray]  # addresses (blocks, steps, rows, k) that are read -> which are right


def nearest(shape: Shape, places: np.ndarray, right: Score) -> Nearest | None:
    """The best of those that most chunks vote for; `places` (blocks, steps, lines, chunks) is where chunks lie, -1 if that is not known."""
    known = places >= 0
    if not known.any():
        return None
    whole = np.where(known, places - places % CHUNK, -1)
    voted = [(int(votes), kind, lbo, sbo, starts) for kind in shape.kinds for votes, lbo, sbo, starts in _candidates(kind, whole, known)]
    voted.sort(key=lambda one: -one[0])
    best = None
    for _, kind, lbo, sbo, starts in voted[:TRIED]:
        found = described(shape, kind, lbo, sbo, starts)
        reads = read_addresses(shape, found.words)
        good = right(reads)
        if best is None or good.sum() > best[0].sum():
            best = good, found, reads
    if best is None or not best[0].any() or best[0].all():
        return None
    good, found, reads = best
    block, step, row, k = (int(x) for x in np.argwhere(~good)[0])
    line, along = (row, k) if shape.major == "K" else (k, row)
    lies = int(places[block, step, line, along // shape.per_chunk])
    lies = lies + int(shape.inside[along]) if lies >= 0 else -1
    return Nearest(found, int(good.sum()), good.size, (block, step, row, k), reads, ~good, lies)


def _candidates(kind: Kind, places: np.ndarray, known: np.ndarray) -> list[tuple[int, int | None, int | None, np.ndarray]]:
    """(chunks that it has right, LBO, SBO, starts) of the strides that most neighbouring atoms have."""
    rest = kind.before(np.where(known, places, 0)) - kind.fixed
    strides = [_votes(of, rest, known) for of in (kind.of_lbo, kind.of_sbo)]
    found = []
    for lbo, sbo in itertools.product(*strides):
        starts = rest - kind.of_lbo * (lbo or 0) - kind.of_sbo * (sbo or 0)
        good = known & (starts >= 0) & (starts < REACH) & (starts % CHUNK == 0)
        own = np.zeros(places.shape[:2], np.int64)
        votes = 0
        for at in np.ndindex(*own.shape):
            values, counts = np.unique(starts[at][good[at]], return_counts=True)
            if len(values):
                own[at], votes = values[np.argmax(counts)], votes + int(counts.max())
        found.append((votes, lbo, sbo, own))
    return found


def _votes(of: np.ndarray, rest: np.ndarray, known: np.ndarray) -> list[int | None]:
    """The values of a stride by which most neighbours lie apart; None if it is not used."""
    if not of.any():
        return [None]
    axis = 0 if of[:, 0].any() else 1
    by = int(np.argmax(np.moveaxis(of, axis, 0)[:, 0] > 0))
    lower, upper = ([slice(None)] * 4 for _ in range(2))
    lower[2 + axis], upper[2 + axis] = slice(None, -by), slice(by, None)
    apart = rest[tuple(upper)] - rest[tuple(lower)]
    steps = np.moveaxis(of, axis, 0)[by:, 0] - np.moveaxis(of, axis, 0)[:-by, 0]
    apart = apart // np.expand_dims(steps, 1 - axis) if (steps > 0).all() else apart
    values, counts = np.unique(
        apart[known[tuple(upper)] & known[tuple(lower)] & (apart >= 0) & (apart < REACH) & (apart % CHUNK == 0)], return_counts=True
    )
    return [int(x) for x in values[np.argsort(-counts)][:VOTES]] or [0]
