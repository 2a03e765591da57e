"""Who wrote each byte of shared memory, and which byte of the writer's data it is.

TMA writes whole chunks of 16 bytes: one 64-bit entry a chunk has the writer in its upper half and, in its lower half, the place of the
chunk's first byte in the writer's dense data. Chunks that several have written, or in pieces, are kept byte by byte beside it. Lines of
128 bytes that a load wrote as a whole have one entry for all their chunks, with the swizzle's XOR of the chunks in its low three bits;
it counts before those of the chunks.
"""

from __future__ import annotations

import numpy as np

from smemsim.machine import loops
from smemsim.machine.region import Region
from smemsim.machine.transfer import Transfer
from smemsim.machine.values import load_bytes

__all__ = ["Owners"]


SPLIT = np.uint64(1 << 63)  # the entry's lower half counts the chunks kept byte by byte
WRITER, XOR = np.uint64(32), np.uint64(7)  # where the writer begins, and the bits of a line's XOR


class Owners:
    """The owners of `size` bytes, from offset 0; a writer is its number from 1 on, 0 is nobody."""

    def __init__(self, size: int, *, chunks: np.ndarray | None = None, lines: np.ndarray | None = None) -> None:
        self._chunks = np.zeros(-(-size // 128) * 8, np.uint64) if chunks is None else chunks
        self._lines = np.zeros(-(-size // 128), np.uint64) if lines is None else lines
        self._bytes = np.zeros((8, 16, 2), np.uint32)  # of split chunks: writer, place
        self._used = 0

    def part(self, at: int, size: int) -> Owners:
        """The owners of `size` bytes from offset `at` on, both multiples of 128, as a part of these: what one notes the other knows."""
        return Owners(size, chunks=self._chunks[at // 16 : (at + size) // 16], lines=self._lines[at // 128 : (at + size) // 128])

    def touch(self, chunks: np.ndarray, writer: int) -> None:
        """Whole chunks of 16 bytes, by their numbers, become the writer's, every chunk his bytes 0 to 15."""
        entry, lines = np.uint64(writer << 32), chunks >> 3
        written = self._lines[lines] > 0
        if written.any():
            for line in np.unique(lines[written]).tolist():
                self._open(128 * line, 128 * line + 128)
        elif (self._chunks[chunks] == entry).all():
            return
        self._chunks[chunks] = entry

    def of_lines(self, lines: np.ndarray) -> np.ndarray:
        """The writers (uint64) of lines of 128 bytes, by their numbers; 0 for lines that no load wrote as a whole."""
        found: np.ndarray = self._lines[lines] >> WRITER
        return found

    def owned(self, chunks: np.ndarray) -> bool:
        """Has each of these chunks of 16 bytes been written as a whole by one writer? False also where it takes a look at the bytes."""
        entry = self._chunks[chunks]
        return bool((((entry > 0) & (entry < SPLIT)) | (self._lines[chunks >> 3] > 0)).all())

    def of(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(writer, place) of the bytes at offsets `at`, both uint32 of its shape."""
        line = self._lines[at >> 7]
        whole = (line & ~XOR) + ((((at >> 4) & 7).astype(np.uint64) ^ (line & XOR)) << np.uint64(4))
        entry = np.where(line > 0, whole, self._chunks[at >> 4])
        writer = (entry >> WRITER).astype(np.uint32)
        place = (entry.astype(np.uint32) + (at & 15).astype(np.uint32)) * (writer > 0)
        split = entry >= SPLIT
        if split.any():
            kept = self._bytes[(entry[split] & np.uint64(0xFFFFFFFF)).astype(np.int64), at[split] & 15]
            writer[split], place[split] = kept[:, 0], kept[:, 1]
        return writer, place.astype(np.uint32)

    def _open(self, at: int, end: int) -> None:
        """Give the chunks of the lines from offset `at` to `end` entries of their own."""
        lines = (at >> 7) + np.flatnonzero(self._lines[at >> 7 : (end + 127) >> 7])
        if lines.size:
            entry, chunk = self._lines[lines][:, None], np.arange(8, dtype=np.uint64)
            self._chunks.reshape(-1, 8)[lines] = (entry & ~XOR) + ((chunk ^ (entry & XOR)) << np.uint64(4))
            self._lines[lines] = 0

    def set_run(self, at: int, size: int, writer: int) -> None:
        """`size` bytes from offset `at` on are the writer's bytes 0, 1, 2 ..."""
        self._open(at, at + size)
        first, last = -(-at // 16), (at + size) // 16
        if first < last:
            places = np.arange(16 * first - at, 16 * last - at, 16).astype(np.uint64)
            self._chunks[first:last] = np.uint64(writer << 32) | places
            edges = np.r_[at : 16 * first, 16 * last : at + size]
        else:
            edges = np.arange(at, at + size)
        if edges.size:
            self.set_bytes(edges, writer, edges - at)

    def set_bytes(self, at: np.ndarray, writer: int, places: np.ndarray) -> None:
        """The bytes at offsets `at` are the writer's bytes `places`."""
        if at.size:
            self._open(int(at.min()), int(at.max()) + 1)
        for chunk in np.unique(at >> 4).tolist():
            entry = self._chunks[chunk]
            if entry < SPLIT:
                if self._used == len(self._bytes):
                    self._make_room()
                owner = np.stack(self.of(16 * chunk + np.arange(16)), axis=-1)
                self._bytes[self._used] = owner
                self._chunks[chunk] = entry = SPLIT | np.uint64(self._used)
                self._used += 1
            mine = at >> 4 == chunk
            kept = self._bytes[int(entry & np.uint64(0xFFFFFFFF))]
            kept[at[mine] & 15, 0], kept[at[mine] & 15, 1] = writer, places[mine]

    def _make_room(self) -> None:
        """Drop what belongs to chunks that were written as a whole since, and double the room when that is less than half of it."""
        split = np.flatnonzero((self._chunks >= SPLIT) & (np.repeat(self._lines, 8) == 0))
        kept = self._bytes[(self._chunks[split] & np.uint64(0xFFFFFFFF)).astype(np.int64)]
        self._bytes = np.zeros((len(self._bytes) * (2 if 2 * len(split) > len(self._bytes) else 1), 16, 2), np.uint32)
        self._bytes[: len(split)] = kept
        self._chunks[split] = SPLIT | np.arange(len(split), dtype=np.uint64)
        self._used = len(split)

    def load(self, transfer: Transfer, words: np.ndarray, begin: int, region: Region, writer: int) -> None:
        """Move a load's bytes into `words` (shared memory from address `begin` on) and note who they belong to."""
        g, tm, number = transfer.geometry, transfer.tensor_map, np.uint64(writer << 32)
        lines, c0, at = transfer.lines, transfer.c0, transfer.smem_address
        place = (lines, c0, g.shape, g.layout, at, words, begin, region.words, tm.global_address - region.words_begin)
        if transfer.whole and g.is_whole_lines:
            loops.load_lines(*place, self._lines, number)
            return
        self._open(at - begin, transfer.shared_end - begin)
        if transfer.whole and g.is_plain:
            loops.load_words(*place, self._chunks, number)
            return
        load_bytes(transfer, words.view(np.uint8), begin, region.data, region.begin)
        if transfer.chunk_bytes == 16 and not g.has_flip:
            loops.own_chunks(len(lines), g.layout, at, begin, self._chunks, number)
        else:
            bytes_ = transfer.shared_address.astype(np.int64) - begin
            self.set_bytes(bytes_, writer, np.arange(len(bytes_)))
