"""An operand of a whole tile in the plain layout of its swizzle, and which elements other descriptors would read of it."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from smemsim.descriptors.operand import swizzled
from smemsim.errors import InputError, Unmodelled
from smemsim.solve.answer import FoundDescriptor, read_addresses
from smemsim.solve.atoms import Shape
from smemsim.solve.inverse import solutions
from smemsim.spec.shared_memory import CHUNK
from smemsim.spec.smem_descriptor import REACH
from smemsim.spec.swizzles import SwizzleMode

__all__ = ["NOBODY", "ZERO", "Tile"]

NOBODY, ZERO = -1, -2  # instead of an element: what lies outside the tile, and what nobody wrote, which is 0
BASE = 1 << 14  # a multiple of every swizzle's period, with room before it


@dataclasses.dataclass(frozen=True, eq=False)
class Tile:
    """Panels as wide as the swizzle, one behind the other; in each the lines (rows of a K-major operand, of K else) follow one another.

    That is what boxes of TMA leave whose inner dimension is the swizzle's width. `shape` cuts it into the blocks and steps of instructions.
    """

    shape: Shape
    mode: SwizzleMode

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and K of the whole tile."""
        return self.shape.blocks * self.shape.rows, self.shape.steps * self.shape.k

    @functools.cached_property
    def offsets(self) -> np.ndarray:
        """(lines, chunks) of the whole tile: bytes from its begin, before the XOR."""
        s = self.shape
        rows, k = self.extent
        lines, along = (rows, k) if s.major == "K" else (k, rows)
        line, byte = np.arange(lines)[:, None], np.arange(-(-along // s.per_chunk))[None] * CHUNK
        width = self.mode.width
        return np.asarray(byte // width * (lines * width) + line * width + byte % width)

    def addresses(self, offsets: np.ndarray, mode: SwizzleMode | None = None, base: int = BASE) -> np.ndarray:
        """Where chunks of these offsets are written, also with another swizzle."""
        return swizzled(base + offsets, mode or self.mode)

    def cut(self, elements: np.ndarray) -> np.ndarray:
        """(rows, k) of the tile as (blocks, steps, rows, k) of its instructions."""
        s = self.shape
        return elements.reshape(s.blocks, s.rows, s.steps, s.k).swapaxes(1, 2)

    def joined(self, elements: np.ndarray) -> np.ndarray:
        """The inverse of `cut`."""
        return elements.swapaxes(1, 2).reshape(self.extent)

    @functools.cached_property
    def places(self) -> np.ndarray:
        """(blocks, steps, rows, k): where every element lies."""
        s = self.shape
        chunks = self.addresses(self.offsets)
        rows, k = self.extent
        along = np.arange(k if s.major == "K" else rows)
        lined = chunks[:, along // s.per_chunk] + along % s.per_chunk * s.fmt.bits // 8
        return self.cut(s.lined(lined))

    @functools.cached_property
    def right(self) -> FoundDescriptor:
        """The words that read it. Raises InputError for a tile that no descriptor of its swizzle reads."""
        for one in solutions(self.shape, self.places):
            if one.swizzle is self.mode.swizzle:
                return one
        s = self.shape
        raise InputError(
            f"swizzle {self.mode.swizzle}: no descriptor reads a {s.major}-major tile of {s.fmt.name} in instructions of {s.rows} x {s.k} with it, below {REACH - BASE} B"
        )

    def owners(self, addresses: np.ndarray, written: np.ndarray | None = None) -> np.ndarray:
        """The chunk of the tile (its number) at every 16 B of shared memory, NOBODY's elsewhere; ZERO for those that were not `written`."""
        found = np.full(2 * REACH // CHUNK, NOBODY, np.int64)
        number = np.arange(addresses.size)
        found[addresses.ravel() // CHUNK] = number if written is None else np.where(written.ravel(), number, ZERO)
        return found

    def read(self, words: np.ndarray, owners: np.ndarray, major: str | None = None) -> np.ndarray | None:
        """(rows, k): the element of the tile, row * K + k, that is read in place of each one; None where nobody knows what words read."""
        s = self.shape if major is None else dataclasses.replace(self.shape, major=major)
        try:
            lined = s.lined(read_addresses(s, words))
        except (Unmodelled, InputError):
            return None
        inside = lined >= 0
        chunk = owners[np.where(inside & (lined < 2 * REACH), lined, 0) // CHUNK]
        own = np.broadcast_to(np.arange(s.along) % s.per_chunk, lined.shape)
        count = self.offsets.shape[1]
        line, along = chunk // count, chunk % count * s.per_chunk + own
        rows, k = self.extent
        row, column = (line, along) if self.shape.major == "K" else (along, line)
        found = np.where((chunk >= 0) & (row < rows) & (column < k), row * k + column, np.minimum(chunk, NOBODY))
        return self.joined(s.lined(found)).astype(np.int32)
