"""The simplest rule that gives an array as a kernel left it from the one that was expected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.diagnosis.numbers import EXACT, Tolerance
from smemsim.diagnosis.result.arrays import LEAST, Arrays, Explanation, Tile
from smemsim.diagnosis.result.places import PLACES, repeats
from smemsim.diagnosis.result.tiles import BOXES, SWIZZLES
from smemsim.diagnosis.result.values import VALUES, narrower

__all__ = ["explain_arrays"]


MOST_TILES = 6


def explain_arrays(
    found: np.ndarray, wanted: np.ndarray, *, before: np.ndarray | None = None, dtype: str = "", tiles: Sequence[Tile] = (), relative: float = 0.0,
    itemsize: int | None = None, tolerance: Tolerance = EXACT,
) -> Explanation | None:  # fmt: skip
    """The one rule that turns `wanted` into `found`, numbers of one shape (rows, columns). None if no rule is certain.

    The old content is `before`. The PTX name of the element type is `dtype`, its bytes in memory are `itemsize`. The
    ways in which the kernel may write the array are `tiles`. Elements that differ by less than `relative`, or within
    `tolerance`, are equal.

    A rule must give all wrong elements except those at edges. Chance, or a few distinct values, must not satisfy it.

    >>> wanted = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    >>> str(explain_arrays(wanted.T, wanted)).partition(";")[0]
    'it is transposed: [m, n] has what belongs in [n, m]'
    >>> explain_arrays(np.random.default_rng(1).standard_normal((64, 64)), wanted), explain_arrays(wanted * 0 + 1, wanted * 0)
    (None, None)
    """
    arrays = Arrays(found, wanted, before, relative=relative, itemsize=itemsize or found.dtype.itemsize, tolerance=tolerance)
    if arrays.count < LEAST:
        return None if arrays.count else narrower(found, wanted, dtype)
    of_stores = (one(arrays, tile) for tile in tiles if tile.swizzle for one in SWIZZLES)
    if (explanation := next((explanation for explanation in of_stores if explanation is not None), None)) is not None and not repeats(
        arrays
    ):
        return explanation
    simple = [next((explanation for rule in rules if (explanation := rule(arrays)) is not None), None) for rules in (VALUES, PLACES)]
    given = [explanation for explanation in simple if explanation is not None]
    if len(given) > 1:  # of numbers that count up, the next one is one more
        return Explanation(f"{given[0].what}; or {given[1].what}", "these numbers do not tell which")
    if given:
        return given[0]
    tried = () if repeats(arrays) else (*tiles, *usual_tiles(arrays, tiles)[:MOST_TILES])
    for rules in BOXES:
        for tile in tried:
            for one in rules:
                if (explanation := one(arrays, tile)) is not None:
                    return explanation
    return narrower(found, wanted, dtype)


def usual_tiles(arrays: Arrays, known: Sequence[Tile]) -> list[Tile]:
    """Tiles that kernels often write, if none is known: those a swizzle wide, the matrices of stmatrix, and tiles of
    CTAs.
    """
    rows, columns = arrays.shape
    inner = [] if known else [MODES[mode].width // arrays.itemsize for mode in (Swizzle.B128, Swizzle.B64, Swizzle.B32)]
    shapes = [(64, n) for n in inner] + [(8, 8), (128, 128), (64, 64), (128, 64), (64, 128), (64, 256), (128, 256)]
    shapes = [s for s in dict.fromkeys(shapes) if s[0] <= rows and s[1] <= columns and rows % s[0] == 0 and columns % s[1] == 0]
    return [Tile(*s) for s in shapes if s not in {(t.rows, t.columns) for t in known}]
