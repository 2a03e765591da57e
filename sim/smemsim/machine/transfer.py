"""`Transfer`: one tensor transfer as 16-byte chunks, as bytes, and as tensor coordinates."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from smemsim.layout import tma_loops
from smemsim.machine.geometry import Geometry
from smemsim.machine.region import OUTSIDE
from smemsim.spec.transfers import STORED_BITS
from smemsim.words.tensor_map import TensorMap

__all__ = ["Transfer"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Transfer:
    """One TMA transfer of any mode.

    The box is rows of chunks. `lines` (int64) are the bytes from the tensor's first element to coordinate 0 of dimension 0 of each row,
    `tma_loops.OUTSIDE` for rows out of bounds; `rows` (int64, n x 5) the tensor coordinates each row begins at. `chunk_shared` (uint32) says where
    each chunk lies in shared memory, byte b of it at that address XOR b; `chunk_global` (int64) which global address it belongs to; of
    its `chunk_bytes` bytes the first `chunk_valid` are inside the tensor. A chunk is 16 bytes on both sides, but for the sub-byte types
    with gaps, of which it holds 8 or 12 bytes of global memory.
    """

    tensor_map: TensorMap
    coordinates: tuple[int, ...]
    smem_address: int
    is_store: bool
    geometry: Geometry
    lines: np.ndarray
    c0: int  # coordinate of dimension 0 at which every row begins, where the lines do not have it
    walked: np.ndarray | None  # the rows of an im2col walk or a gather; those of a tile are made when asked for
    shared_end: int  # of the shared bytes that are touched
    global_span: tuple[int, int]  # begin and end of the global bytes that are touched; (0, 0) for none
    whole: bool  # is every byte of the box in bounds?
    operation: str = ""  # of a reduction: add, min, ...

    def __repr__(self) -> str:
        direction = f"{self.operation} reduction" if self.operation else "store" if self.is_store else "load"
        what = f"{self.geometry.mode} {direction}"
        return f"<{what} of {self.tensor_map.data_type.name} {self.tile_shape} at {self.coordinates}, shared {self.smem_address:#x}>"

    @functools.cached_property
    def rows(self) -> np.ndarray:
        """int64[rows, 5]: the tensor coordinates each row of the box begins at."""
        if self.walked is not None:
            return self.walked
        g, start = self.geometry, np.zeros(5, np.int64)
        start[: len(self.coordinates)] = self.coordinates
        rows = np.empty((g.rows, 5), np.int64)
        tma_loops.tiled_rows(start, g.shape[2], g.shape[3], rows)
        return rows

    @property
    def transaction_bytes(self) -> int:
        """What a load credits to its mbarrier: the dense box, fill included, gaps not. For a store the bytes of the dense box."""
        return len(self.lines) * self.geometry.row_bytes

    @property
    def chunk_bytes(self) -> int:
        """Bytes of global memory in a chunk."""
        return self.geometry.chunk_bytes

    @property
    def stored_bits(self) -> int:
        """Bits that a store takes of each shared byte: 8, or 6 where it packs."""
        return STORED_BITS.get(self.tensor_map.data_type, 8)

    @functools.cached_property
    def _chunks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n, g = len(self.lines) * self.geometry.chunks, self.geometry
        shared, source, valid = np.empty(n, np.uint32), np.empty(n, np.int64), np.empty(n, np.uint8)
        base = self.tensor_map.global_address if self.global_span[1] else 0  # it may have 64 bits where nothing is touched
        tma_loops.chunks_of_lines(self.lines, self.c0, g.shape, g.layout, base, self.smem_address, shared, source, valid)
        return shared, source, valid

    @property
    def chunk_shared(self) -> np.ndarray:
        """uint32[chunks]."""
        return self._chunks[0]

    @property
    def chunk_global(self) -> np.ndarray:
        """int64[chunks]."""
        return self._chunks[1]

    @property
    def chunk_valid(self) -> np.ndarray:
        """uint8[chunks]."""
        return self._chunks[2]

    @functools.cached_property
    def _bytes(self) -> tuple[np.ndarray, np.ndarray]:
        byte = np.arange(self.chunk_bytes)
        chunk_shared, chunk_global, chunk_valid = self._chunks
        begins = byte * 8 // self.stored_bits if self.is_store else byte  # of packed stores the shared byte that a global byte begins in
        shared = (chunk_shared[:, None] ^ begins.astype(np.uint32)).ravel()
        source = (chunk_global[:, None] + byte).ravel()
        if self.whole:
            return shared, source
        valid = (byte < chunk_valid[:, None]).ravel()
        return (shared[valid], source[valid]) if self.is_store else (shared, np.where(valid, source, -1))

    @property
    def shared_address(self) -> np.ndarray:
        """uint32[n]: for a load every shared byte written, for a store the shared byte behind each global byte written.

        Stores of 16U6_ALIGN16B pack six bits of each shared byte: there it is the byte that holds the global byte's lowest bit.
        """
        return self._bytes[0]

    @property
    def global_address(self) -> np.ndarray:
        """int64[n]: the global byte each of them came from or went to; -1 for out-of-bounds fill."""
        return self._bytes[1]

    @property
    def sources(self) -> np.ndarray:
        """int64[n]: of a load, as a writer of shared memory: the global byte of each byte that it wrote, or region.OUTSIDE."""
        return np.where(self.global_address < 0, OUTSIDE, self.global_address)

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """The dense box along each dimension, dimension 0 first: elements, or slices with interleave; (channels, pixels) for im2col."""
        tm, g = self.tensor_map, self.geometry
        if tm.call == "tiled" and len(self.lines) == g.rows and g.mode == "tile":
            return tuple(int(n) for n in g.shape[2, : tm.rank])
        return g.row_bytes * 8 // g.unit_bits, len(self.lines)

    def tensor_coordinates(self, position: np.ndarray) -> np.ndarray:
        """Tensor coordinates (..., rank), dimension 0 first, of bytes of the dense box; outside the tensor where that is what they are."""
        g, rank = self.geometry, self.tensor_map.rank
        at = np.asarray(position, np.int64)
        row, inside = at // g.row_bytes, at % g.row_bytes
        out = self.rows[np.minimum(row, len(self.rows) - 1)][..., :rank].copy()
        out[..., 0] += inside * 8 // g.unit_bits * int(g.shape[3, 0])
        return out
