"""Copies of a tile from shared to global memory that leave its layout as it is: rows go there with their padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.run.accesses import Piece
    from smemsim.run.views import Wave

__all__ = ["FlatCopies"]


class FlatCopies:
    """The addresses from which the threads of a wave have loaded a value last, by the line of the load. A store leaves
    the layout as it is if its addresses are as far from those of the load for each thread of a CTA. So are they for
    later stores of the same tile: until the load begins again at a lower address.
    """

    def __init__(self, x: Wave) -> None:
        self.x = x
        self._from: dict[int, np.ndarray] = {}
        self._last: dict[tuple[int, int, int, int], tuple[int, int] | None] = {}  # place and distance; None: not flat

    def loads(self, i: Instruction, flat: np.ndarray) -> None:
        """The running threads load from these places of shared memory."""
        if len(flat) == len(self.x.threads):
            self._from.setdefault(i.site, np.full(self.x.total, -1, np.int64))[self.x.threads] = flat

    def are_flat(self, i: Instruction, n: int, site: int, piece: Piece) -> bool:
        """Does the n-th element of a store leave the layout as it was where the instruction of a site has loaded it?"""
        threads = self.x.threads if piece.part is None else self.x.threads[piece.part]
        if site not in self._from or len(piece.at) != len(threads):
            return False
        places, known = self._from[site][threads], True
        ctas, apart = places // self.x.pitch, piece.at - places
        for cta in distinct(ctas).tolist():
            own = ctas == cta
            key = id(i), n, site, cta
            first, distance = int(places[own].min()), int(apart[own][0])
            last = self._last.get(key, (first, distance))
            if last is None or (apart[own] != distance).any() or (first > last[0] and distance != last[1]):
                self._last[key], known = None, False
            else:
                self._last[key] = first, distance
        return known
