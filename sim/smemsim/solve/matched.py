"""Faults against a D: what each one makes of the operands, and is the product then that D?"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from smemsim.diagnose.compared import Compared
from smemsim.diagnose.product import Product, Side
from smemsim.solve.atoms import Shape
from smemsim.solve.faults import Fault, faults_of
from smemsim.solve.recover import moved_chunks
from smemsim.solve.tile import NOBODY, Tile
from smemsim.spec.swizzles import SwizzleMode

__all__ = ["ProductFault", "candidates_of", "in_part", "solved_for", "those"]

SEEN = 12  # rows and columns of D that are looked at before anything else
MOST = 24  # faults that are multiplied


@dataclasses.dataclass(frozen=True)
class ProductFault:
    """One fault that gives D: of operand "A", "B" or "A and B", in which field, in words.

    `explained` of `of` elements of D are what it gives; the others come from memory outside the tile, of which nobody knows what is there.
    """

    operand: str
    field: str
    text: str
    explained: int
    of: int

    @property
    def certain(self) -> bool:
        """Does it give all of D?"""
        return self.explained == self.of

    def __str__(self) -> str:
        rest = "" if self.certain else f" ({self.explained} of {self.of} elements; the others come from outside the tile)"
        return f"{self.operand} were {self.text}{rest}"


class Candidate(NamedTuple):
    """A fault of one operand, or the same one of both."""

    operand: str
    field: str
    text: str
    sources: tuple[np.ndarray | None, np.ndarray | None]  # of A, of B; None where it is as it should be


def candidates_of(tiles: list[Tile]) -> Iterator[Candidate]:
    """The faults of A, those of B, and those of both that are the same."""
    own = [_different(tile.shape, tile.mode) for tile in tiles]
    for name, faults in zip("AB", own, strict=True):
        for one in faults:
            yield Candidate(name, one.field, one.text, (one.source, None) if name == "A" else (None, one.source))
    other = {one.text: one for one in own[1]}
    for one in own[0]:
        if one.text in other:
            yield Candidate("A and B", one.field, one.text, (one.source, other[one.text].source))


@functools.lru_cache(maxsize=4)
def _different(shape: Shape, mode: SwizzleMode) -> list[Fault]:
    """The faults of a tile that change what is read, without those that do what an earlier one of the same field does."""
    faults = list(faults_of(Tile(shape, mode)))
    right = np.arange(faults[0].source.size).reshape(faults[0].source.shape)
    some = {(one.field, one.source.tobytes()): one for one in reversed(faults) if (one.source != right).any()}
    return list(some.values())[::-1]


def _read(side: Side, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(lines, K) bits that are read instead, and which lines are known."""
    flat = side.flat()
    bits = np.where(source >= 0, flat.ravel()[np.maximum(source, 0)], 0).astype(flat.dtype)
    return bits, np.asarray((source != NOBODY).all(axis=1))


def _changed(product: Product, one: Candidate) -> tuple[Product, np.ndarray]:
    """The product with the fault, and which elements of D it knows."""
    known = np.ones(product.c.shape, bool)
    for name, source, axis in zip("AB", one.sources, (0, 1), strict=True):
        if source is not None:
            side = product.side(name)
            bits, lines = _read(side, source)
            product = product.having(name, side.steps(bits))
            known &= lines[:, None] if axis == 0 else lines[None]
    return product, known


def _near(c: Compared, candidates: list[Candidate], *, zeros: bool = False) -> Iterator[tuple[Candidate, bool]]:
    """Those whose sums, in float64, may be D in a few rows and columns; and, is everything of these known, if only because outside are `zeros`?"""
    p = c.product
    rows, columns = (_sample(np.asarray(c.differs.any(axis=axis))) for axis in (1, 0))
    part = c.part(rows, columns)
    with np.errstate(all="ignore"):
        terms, start = [p.terms(name) for name in "AB"], p.start()[rows][:, columns]
        here = terms[0][rows] @ terms[1][columns].T
        for one in candidates:
            given, known = [], np.ones(here.shape, bool)
            for x, source, lines, axis in zip(terms, one.sources, (rows, columns), (0, 1), strict=True):
                if source is None:
                    given.append(x[lines])
                    continue
                own = source[lines]
                given.append(np.where(own >= 0, x.ravel()[np.maximum(own, 0)], 0.0))
                good = (own != NOBODY).all(axis=1) | zeros
                known &= good[:, None] if axis == 0 else good[None]
            change = given[0] @ given[1].T - here + 0 * start
            if (part.near(change) | ~known).all():
                yield one, bool(known.all())


def _sample(differs: np.ndarray) -> np.ndarray:
    """Some lines, of those that differ and of those that do not, over all of them."""
    found = []
    for lines in (np.nonzero(differs)[0], np.nonzero(~differs)[0]):
        if len(lines):
            found.append(lines[np.unique(np.linspace(0, len(lines) - 1, SEEN).astype(int))])
    return np.unique(np.concatenate(found))


def those(c: Compared, candidates: list[Candidate]) -> list[ProductFault]:
    """The faults that give all of D, of one operand if there are such; if none does, those that do when 0 lies outside the tile."""
    for zeros in (False, True):
        found: list[ProductFault] = []
        tried = 0
        for one, known in _near(c, candidates, zeros=zeros):
            if not known or tried == MOST or (found and one.operand == "A and B" != found[0].operand):
                continue
            other, all_known = _changed(c.product, one)
            if bool(all_known.all()) != zeros:
                tried += 1
                if c.fits(other).all():
                    text = f"{one.text}{', with 0 where that is outside the tile' if zeros else ''}"
                    found.append(ProductFault(one.operand, one.field, text, c.wrong.size, c.wrong.size))
        if found:
            return found
    return []


def solved_for(c: Compared, tiles: list[Tile], solved: Callable[[int], np.ndarray | None]) -> list[ProductFault]:
    """Other layouts of one operand, which D says by itself where it has as many columns (or rows) as K."""
    found = []
    for i, (name, tile) in enumerate(zip("AB", tiles, strict=True)):
        source = solved(i)
        if source is None or (source == np.arange(source.size).reshape(source.shape)).all():
            continue
        side = c.product.side(name)
        if c.fits(c.product.having(name, side.steps(_read(side, source)[0]))).all():
            found.append(ProductFault(name, *moved_chunks(tile, source), c.wrong.size, c.wrong.size))
    return found


def in_part(c: Compared, candidates: list[Candidate]) -> list[ProductFault]:
    """Faults that give all of D that they can tell of, something wrong among it, the most telling first."""
    c = dataclasses.replace(c, exact=not c.beyond.any())
    found: list[ProductFault] = []
    for one, _ in _near(c, candidates):
        other, known = _changed(c.product, one)
        if len(found) < MOST and not known.all() and (c.differs & known).any() and (c.fits(other) | ~known).all():
            found.append(ProductFault(one.operand, one.field, one.text, int(known.sum()), known.size))
    return sorted(found, key=lambda one: -one.explained)
