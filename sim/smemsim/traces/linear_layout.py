"""Linear layouts: where a tensor lies as an XOR of bases, one for each bit of an address. Compilers describe their layouts so."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

__all__ = ["INPUTS", "NOWHERE", "LinearLayout"]

INPUTS = {"offset": 0, "lane": 1, "column": 2, "cta": 3}  # an offset in shared memory; or a lane and a column of tensor memory
NOWHERE = -1


class LinearLayout:
    """Coordinates (row of A, B or D; then K, or column of D) as the XOR of a basis for every bit of the inputs that is set.

    `rows`: (input, first coordinate, second) a bit, the lowest first; inputs are those of `INPUTS`, in units of the layout.

    >>> layout = LinearLayout(np.array([[0, 0, 1], [0, 0, 2], [0, 1, 2]]))    # two rows of four, the second one swizzled
    >>> layout.coordinates(0, offset=np.arange(8)).tolist()
    [[0, 0], [0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [1, 0], [1, 1]]
    >>> layout.offsets[0].tolist(), layout.contiguous
    ([[0, 1, 2, 3], [6, 7, 4, 5]], 1)
    """

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows.astype(np.int64)
        self.shape = tuple((1 + np.bitwise_or.reduce(self.rows[:, 1:], axis=0)).tolist())

    @functools.cached_property
    def tables(self) -> dict[str, np.ndarray]:
        """For each input the coordinates of all its values."""
        out = {}
        for name, number in INPUTS.items():
            table = np.zeros((1, 2), np.int64)
            for basis in self.rows[self.rows[:, 0] == number, 1:]:
                table = np.concatenate([table, table ^ basis])
            out[name] = table
        return out

    def coordinates(self, cta: Any, **inputs: Any) -> np.ndarray:
        """(..., 2): what lies at an offset, or at a lane and column, of a CTA; `NOWHERE` outside."""
        inside, out = np.ones((), bool), np.zeros(2, np.int64)
        for name, value in {"cta": cta, **inputs}.items():
            table, at = self.tables[name], np.asarray(value)
            fits = (at >= 0) & (at < len(table))
            inside, out = inside & fits, out ^ table[np.where(fits, at, 0)]
        return np.where(inside[..., None], out, NOWHERE)

    @functools.cached_property
    def offsets(self) -> np.ndarray:
        """int64 (CTAs, *shape): the lowest offset of each place in each CTA's memory, `NOWHERE` for what another CTA has."""
        units = len(self.tables["offset"])
        out = np.full((len(self.tables["cta"]), *self.shape), units, np.int64)
        for cta, shift in enumerate(self.tables["cta"]):
            row, k = (self.tables["offset"] ^ shift).T
            np.minimum.at(out[cta], (row, k), np.arange(units))  # padding has the coordinates of what it pads
        return np.where(out == units, NOWHERE, out)

    @functools.cached_property
    def contiguous(self) -> int:
        """The coordinate in which neighbours in memory differ: 0 is M or N, 1 is K; of tensor memory always K."""
        first = self.tables["offset"][1:2]
        return 1 if not len(first) else int(np.argmax(first[0] != 0))
