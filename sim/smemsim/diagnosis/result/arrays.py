"""Two arrays, element by element: which are wrong, and does a rule give them? A rule that chance could satisfy does not
count.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from smemsim.diagnosis.numbers import EXACT, Tolerance, typical

__all__ = ["LEAST", "Arrays", "Explanation", "Tile"]


LEAST = 16  # wrong elements, fewer of which no rule is made of
SURE_BITS = 100.0  # of evidence: how unlikely it must be that elements fit by chance
MOST_ALIKE = 0.9  # share of pairs of elements that are equal by chance, above which nothing is reported
SAMPLE = 4096
EDGE = 0.25  # of the wrong elements may lie where a rule says nothing: at edges


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The fault of an array, and the change to make. If a finding reports the same, its code is `code`."""

    what: str
    change: str = ""
    code: str = ""

    def __str__(self) -> str:
        return f"{self.what}; {self.change}" if self.change else self.what


@dataclasses.dataclass(frozen=True)
class Tile:
    """Rows and columns in which an array is written, from element (0, 0) on.

    Its name in a sentence is `told`. The mode of the tensor map of the stores is `swizzle`, "" if unknown. The line of
    a store is `line`. The bytes past a multiple of 1,024 in shared memory are `offset`. The name of the instructions
    that write it there is `writers`. If it adds to the old content of the accumulators, `begins` is the first product
    of a tile.
    """

    rows: int
    columns: int
    told: str = ""
    swizzle: str = ""
    line: int = 0
    offset: int = 0
    writers: str = ""
    begins: str = ""

    @property
    def name(self) -> str:
        """The name of such a tile in sentences."""
        return self.told or f"{self.rows}x{self.columns} tile"


class Arrays:
    """Numbers after the launch (`found`), expected (`wanted`), and before it, all of one shape (rows, columns).

    Elements are equal if they differ by at most `relative` of the number and of a typical one, or by at most
    `tolerance`. Smaller differences are rounding, and are not explained. NaN and infinity count as large numbers.
    """

    def __init__(
        self,
        found: np.ndarray,
        wanted: np.ndarray,
        before: np.ndarray | None = None,
        *,
        relative: float,
        itemsize: int,
        tolerance: Tolerance = EXACT,
    ) -> None:
        top = max((float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in (found, wanted)), default=0.0) or 1.0
        small = top < 1e30 and found.dtype.itemsize <= 4 and found.dtype.kind == "f"
        kind = np.float32 if small else np.float64
        self.found, self.wanted = (_numbers(x, kind, top) for x in (found, wanted))
        self.before = None if before is None else _numbers(before, kind, top)
        self.relative, self.itemsize = relative, itemsize
        self.tolerance = tolerance
        self.scale = typical(self.wanted) if relative else 0.0
        self.wrong = ~self.near(self.found, self.wanted)
        self.count = int(np.count_nonzero(self.wrong))
        self._wrong_tiles: dict[tuple[int, int], np.ndarray] = {}

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return int(self.found.shape[0]), int(self.found.shape[1])

    def near(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Which elements of the two arrays count as equal."""
        if self.tolerance == EXACT:
            return np.asarray(np.abs(a - b) <= self.relative * (np.abs(b) + self.scale) if self.relative else a == b)
        size, allowed = np.abs(b), self.tolerance
        return np.asarray(np.abs(a - b) <= np.maximum(self.relative * (size + self.scale), allowed.atol + allowed.rtol * size))

    @functools.cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of some wrong elements, spread over all."""
        flat = np.flatnonzero(self.wrong)
        chosen = flat[np.unique(np.linspace(0, len(flat) - 1, SAMPLE).astype(np.int64))]
        return np.asarray(chosen // self.shape[1]), np.asarray(chosen % self.shape[1])

    def telling(self, found: np.ndarray, moved: np.ndarray, count: int) -> bool:
        """Could no chance make `count` elements equal? Judged by pairs of some that have
        nothing to do with each other.
        """
        a, b = found.reshape(-1), moved.reshape(-1)
        chosen = np.random.default_rng(0).integers(0, a.size, (2, SAMPLE))
        alike = float(self.near(a[chosen[0]], b[chosen[1]]).mean())
        bits = -np.log2(max(alike, 1 / SAMPLE))
        return count >= LEAST and alike < MOST_ALIKE and count * bits >= SURE_BITS

    @property
    def old(self) -> np.ndarray:
        """The content before the launch; zeros if it is unknown."""
        return np.zeros((1, 1), self.found.dtype) if self.before is None else self.before

    def gives(self, moved: np.ndarray, free: np.ndarray | None = None) -> bool:
        """Does the array of a rule have all elements of the kernel's array? Elements at `free` places do not count. Few
        of the wrong elements may be there, or more if nothing was written.
        """
        r, c = self.places
        known = np.ones(len(r), bool) if free is None else ~free[r, c]
        if not known.any() or not self.near(self.found[r, c], moved[r, c])[known].all():
            return False
        right = self.near(self.found, moved)
        counted = self.count
        if free is not None:
            right |= free
            counted -= int(np.count_nonzero(free & self.wrong))
        least = 1 - EDGE
        if free is not None and counted < least * self.count and self.near(self.found, self.old)[free].all():
            least = EDGE
        if not right.all() or counted < least * self.count:
            return False
        return self.telling(self.found[r, c][known], moved[r, c][known], counted)

    def split(self, matrix: np.ndarray, tile: Tile) -> np.ndarray:
        """(down, rows, across, columns): the whole tiles of an array."""
        down, across = self.shape[0] // tile.rows, self.shape[1] // tile.columns
        return matrix[: down * tile.rows, : across * tile.columns].reshape(down, tile.rows, across, tile.columns)

    def tiles(self, x: np.ndarray, tile: Tile, at: np.ndarray) -> np.ndarray:
        """(n, rows * columns): the tiles at some places (n, 2), counted in tiles."""
        return np.asarray(self.split(x, tile)[at[:, 0], :, at[:, 1], :]).reshape(len(at), -1)

    def wrong_tiles(self, tile: Tile) -> np.ndarray:
        """(n, 2): the places of tiles in which something is wrong, counted in tiles."""
        key = tile.rows, tile.columns
        if key not in self._wrong_tiles:
            self._wrong_tiles[key] = np.argwhere(np.asarray(self.split(self.wrong, tile).any(axis=3)).any(axis=1))
        return self._wrong_tiles[key]


def _numbers(x: np.ndarray, kind: type, top: float) -> np.ndarray:
    out: np.ndarray = x.astype(kind)
    return out if np.isfinite(out).all() else np.nan_to_num(out, nan=8 * top, posinf=4 * top, neginf=-4 * top)
