"""The state of all CTAs of a wave, from that of the first one (`first.py`): numbers of warps and operations, clocks,
flags and mbarriers of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from smemsim.run.views import Cta

__all__ = ["Twins"]


V = TypeVar("V")


class Twins:
    """CTAs of `warps` warps each, the first of which stood for all. Each has `columns` for operations, and rows of
    flags have `width` of them. For each mbarrier of the first CTA, `made` has those of all. Those of the first CTA that
    are not all invalidated are `used`.
    """

    def __init__(self, ctas: Sequence[Cta], warps: int, columns: int, width: int, made: dict[Any, tuple[Any, ...]], used: Set[Any]) -> None:
        self.ctas, self.count, self.warps, self.columns, self.width, self.made, self.used = (
            ctas,
            len(ctas),
            warps,
            columns,
            width,
            made,
            used,
        )

    def by_warp(self, table: dict[int, V], make: Callable[[V, int], V]) -> dict[int, V]:
        """A table by warp, of all CTAs: what `make` makes of an entry for the n-th."""
        return {warp + n * self.warps: make(value, n) for warp, value in table.items() for n in range(self.count)}

    def warps_of(self, warps: set[int]) -> set[int]:
        """The same warps of all CTAs."""
        return {warp + n * self.warps for warp in warps for n in range(self.count)}

    def clocks(self, of_one: np.ndarray) -> np.ndarray:
        """Up to which clocks others were seen, the last axis those others: (CTAs, ..., warps of all)."""
        every = np.arange(self.count)
        found = np.zeros((self.count, *of_one.shape[:-1], self.count, self.warps), of_one.dtype)
        found[every, ..., every, :] = of_one
        return found.reshape(self.count, *of_one.shape[:-1], -1)

    def flags(self, of_one: np.ndarray) -> np.ndarray:
        """The flags of operations, which are the last axis: (CTAs, ..., width)."""
        if self.width == self.columns:
            return np.repeat(of_one[None], self.count, axis=0)
        found = np.zeros((self.count, *of_one.shape[:-1], self.width), bool)
        for n, own in enumerate(found):
            own[..., n * self.columns : (n + 1) * self.columns] = of_one
        return found

    def rows(self, of_one: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The rows of `VectorClocks.rows` for warps, or of a release: (CTAs, ...)."""
        return *map(self.clocks, of_one[:2]), *map(self.flags, of_one[2:])
