"""The writer of each byte of shared memory, and the byte of the writer's data, and so of global memory.

TMA writes whole chunks of 16 bytes. One 64-bit entry a chunk has the writer in its upper half and the place of the
chunk's first byte in the writer's dense data in its lower half. Chunks with several writers, or that were written in
pieces, are kept byte by byte. If one load wrote a whole 128-byte line, the line has one entry for all its chunks. The
low three bits of the entry hold the swizzle's XOR. It overrides the entries of the chunks. Each writer knows the global
byte of a place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.machine import loops
from smemsim.core.machine.global_memory import FOREIGN, UNWRITTEN, Region
from smemsim.core.machine.tma import Boxes, Transfer, load_bytes
from smemsim.core.spec.shared_memory import CHUNK, LINE

__all__ = ["Owners", "ThreadWrite", "Writer"]


SPLIT = np.uint64(1 << 63)  # the entry's lower half counts the chunks kept byte by byte
WRITER, XOR = np.uint64(32), np.uint64(7)  # the first bit of the writer, and the bits of a line's XOR
INDEX = np.uint64(0xFFFFFFFF)


class Writer(Protocol):
    """Whoever has written bytes: `sources` (int64) are the global bytes that they were, or region.OUTSIDE or .FOREIGN,
    in the order of the writer's data.
    """

    @property
    def sources(self) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True)
class ThreadWrite:
    """Ordinary stores by threads, named by `label`."""

    address: int
    size: int
    label: str

    @property
    def sources(self) -> np.ndarray:
        """int64[size], all FOREIGN: the bytes that threads write come from no array in global memory."""
        return np.full(self.size, FOREIGN, np.int64)


class Owners:
    """The owners of `size` bytes, from offset 0. A writer is its number from 1 on (its place in `writers`); 0 is
    uninitialised.

    >>> owners = Owners(128)
    >>> owners.writers.append(ThreadWrite(32, 16, "threads"))
    >>> owners.set_run(32, 16, 1)
    >>> [x.tolist() for x in owners.of(np.array([31, 32, 47]))], owners.source(np.array([31, 32, 200])).tolist()
    ([[0, 1, 1], [0, 0, 15]], [-1, -3, -1])
    """

    def __init__(self, size: int, *, chunks: np.ndarray | None = None, lines: np.ndarray | None = None) -> None:
        self.size = size
        self.writers: list[Any] = []
        self._chunks = np.zeros(-(-size // LINE) * 8, np.uint64) if chunks is None else chunks
        self._lines = np.zeros(-(-size // LINE), np.uint64) if lines is None else lines
        self._bytes = np.zeros((8, CHUNK, 2), np.uint32)  # of split chunks: writer, place
        self._used = 0
        self._writes = [0]  # how often anything was written, here or in a part
        self._of: Owners | None = None  # whose part these are
        self._at = 0  # ... and from which offset on
        # see `_located`, after the writes by then
        self._sorted: tuple[int, np.ndarray, np.ndarray, np.ndarray] | None = None

    def part(self, at: int, size: int) -> Owners:
        """The owners of `size` bytes from offset `at` on, both multiples of 128, as a part of these: what one notes the
        other knows.

        Each has its own `writers`.
        """
        owners = Owners(size, chunks=self._chunks[at // CHUNK : (at + size) // CHUNK], lines=self._lines[at // LINE : (at + size) // LINE])
        owners._writes = self._writes
        owners._of, owners._at = self._all, self._at + at
        return owners

    @property
    def _all(self) -> Owners:
        """Whose part these are, or these themselves: not kept, since only the garbage collector frees what knows
        itself.
        """
        return self if self._of is None else self._of

    # ---- who writes

    def touch(self, chunks: np.ndarray, writer: int) -> None:
        """Whole chunks of 16 bytes, by their numbers, become the writer's, every chunk his bytes 0 to 15."""
        self._writes[0] += 1
        loops.touch_chunks(chunks, np.uint64(writer << 32), self._lines, self._chunks)

    def set_run(self, at: int, size: int, writer: int) -> None:
        """`size` bytes from offset `at` on are the writer's bytes 0, 1, 2 ..."""
        self._writes[0] += 1
        self._open(at, at + size)
        first, last = -(-at // CHUNK), (at + size) // CHUNK
        if first < last:
            places = np.arange(CHUNK * first - at, CHUNK * last - at, CHUNK).astype(np.uint64)
            self._chunks[first:last] = np.uint64(writer << 32) | places
            edges = np.r_[at : CHUNK * first, CHUNK * last : at + size]
        else:
            edges = np.arange(at, at + size)
        self._set_each(edges, writer, edges - at)

    def put(self, at: np.ndarray, writer: Writer) -> None:
        """The bytes at offsets `at` are those of a new writer, one after the other; of those at one offset the last
        counts.
        """
        self.writers.append(writer)
        self.set_bytes(at.reshape(-1), len(self.writers), np.arange(at.size))

    def set_bytes(self, at: np.ndarray, writer: int, places: np.ndarray) -> None:
        """The bytes at offsets `at` are the writer's bytes `places`, both of one shape (n,); of those at one offset the
        last counts.
        """
        if not at.size:
            return
        self._writes[0] += 1
        self._open(int(at.min()), int(at.max()) + 1)
        if at.size % CHUNK == 0:
            runs, own = at.reshape(-1, CHUNK), places.reshape(-1, CHUNK)
            inside = np.arange(CHUNK)
            if not (runs[:, 0] % CHUNK).any() and (runs == runs[:, :1] + inside).all() and (own == own[:, :1] + inside).all():
                self._chunks[runs[:, 0] // CHUNK] = np.uint64(writer << 32) | own[:, 0].astype(np.uint64)
                return
        self._set_each(at, writer, places)

    def _set_each(self, at: np.ndarray, writer: int, places: np.ndarray) -> None:
        """Set the owners of single bytes: of offsets `at` the writer's bytes `places`. Their chunks are kept byte by
        byte from now on.
        """
        if not at.size:
            return
        chunks = distinct(at >> 4)
        whole = chunks[self._chunks[chunks] < SPLIT]
        if self._used + len(whole) > len(self._bytes):
            self._make_room(len(whole))
        new = self._used + np.arange(len(whole))
        self._bytes[new] = np.stack(self.of(CHUNK * whole[:, None] + np.arange(CHUNK)), axis=-1)
        self._chunks[whole] = SPLIT | new.astype(np.uint64)
        self._used += len(whole)
        kept = (self._chunks[at >> 4] & INDEX).astype(np.int64)
        self._bytes[kept, at & 15, 0], self._bytes[kept, at & 15, 1] = writer, places

    def _open(self, at: int, end: int) -> None:
        """Give the chunks of the lines from offset `at` to `end` entries of their own."""
        lines = (at >> 7) + np.flatnonzero(self._lines[at >> 7 : (end + LINE - 1) >> 7])
        if lines.size:
            entry, chunk = self._lines[lines][:, None], np.arange(8, dtype=np.uint64)
            self._chunks.reshape(-1, 8)[lines] = (entry & ~XOR) + ((chunk ^ (entry & XOR)) << np.uint64(4))
            self._lines[lines] = 0

    def _make_room(self, count: int) -> None:
        """Drop what belongs to chunks that were written as a whole since, and double the room until `count` more take
        less than the half that is left.
        """
        split = np.flatnonzero((self._chunks >= SPLIT) & (np.repeat(self._lines, 8) == 0))
        kept = self._bytes[(self._chunks[split] & INDEX).astype(np.int64)]
        room = len(self._bytes)
        while 2 * len(split) + count > room:
            room *= 2
        self._bytes = np.zeros((room, CHUNK, 2), np.uint32)
        self._bytes[: len(split)] = kept
        self._chunks[split] = SPLIT | np.arange(len(split), dtype=np.uint64)
        self._used = len(split)

    @staticmethod
    def load(parts: Sequence[Owners], boxes: Boxes, words: np.ndarray, begins: np.ndarray, region: Region) -> None:
        """Move the bytes of loads into windows of their own. The loads become new writers of these bytes. All windows
        are in `words` (64 bits). For each window, `parts` has the owners. The shared address that the first word would
        have in it is in `begins`.
        """
        for part, transfer in zip(parts, boxes.transfers, strict=True):
            part.writers.append(transfer)
            part._writes[0] += 1
        g, of, at = boxes.form.geometry, parts[0]._all, boxes.form.tensor_map.global_address - region.words_begin
        if boxes.are_whole and g.is_whole_lines:
            place = (boxes.lines, boxes.inner, g.shape, g.layout, boxes.form.smem_address, words, begins, region.words, at)
            loops.load_boxes(*place, of._lines, np.array([len(part.writers) for part in parts], np.uint64) << WRITER)
            return
        for part, transfer, begin in zip(parts, boxes.transfers, begins.tolist(), strict=True):
            load_bytes(transfer, words.view(np.uint8), begin, region.data, region.begin)
            part._belongs_to_last(transfer, begin + part._at)

    def _belongs_to_last(self, transfer: Transfer, begin: int) -> None:
        """The last writer's load has written into the window that begins at shared address `begin`."""
        writer, at, g = len(self.writers), transfer.smem_address, transfer.geometry
        self._open(at - begin, transfer.shared_end - begin)
        if transfer.chunk_bytes == CHUNK and not g.has_flip:
            loops.own_chunks(len(transfer.lines), g.layout, at, begin, self._chunks, np.uint64(writer << 32))
        else:
            bytes_ = transfer.shared_address.astype(np.int64) - begin
            self.set_bytes(bytes_, writer, np.arange(len(bytes_)))

    # ---- whose it is

    def of_lines(self, lines: np.ndarray) -> np.ndarray:
        """The writers (uint64) of lines of 128 bytes, by their numbers; 0 for lines that no load wrote as a whole."""
        found: np.ndarray = self._lines[lines] >> WRITER
        return found

    def one_writers(self, begins: np.ndarray, lines: np.ndarray, ends: np.ndarray) -> list[int]:
        """For each part of some lines (part n ends at `ends[n]`), counted from the begin of each window: the one writer
        of its lines in all windows, or 0.
        """
        found = np.empty(len(ends), np.int64)
        loops.one_writers(self._lines, begins, lines, ends, found)
        return found.tolist()

    def owned(self, chunks: np.ndarray) -> bool:
        """Has each of these chunks of 16 bytes been written as a whole by one writer? False also where it takes a look
        at the bytes.
        """
        entry = self._chunks[chunks]
        return bool((((entry > 0) & (entry < SPLIT)) | (self._lines[chunks >> 3] > 0)).all())

    def has_several(self, chunks: np.ndarray) -> np.ndarray:
        """Which of these chunks of 16 bytes are kept byte by byte: several may have written them."""
        found: np.ndarray = (self._chunks[chunks] >= SPLIT) & (self._lines[chunks >> 3] == 0)
        return found

    @staticmethod
    def each_of_lines(parts: Sequence[Owners], lines: np.ndarray) -> np.ndarray:
        """`of_lines` of several parts of the same, a row for each."""
        begins = np.array([part._at // LINE for part in parts], np.int64)
        return parts[0]._all.of_lines(begins[:, None] + lines)

    @staticmethod
    def begins_of(parts: Sequence[Owners]) -> tuple[Owners, np.ndarray]:
        """For parts with one writer: that writer, and the chunk of its data at which each part starts."""
        return parts[0]._all, np.array([part._at // CHUNK for part in parts], np.int64)

    def gather(
        self, chunks: np.ndarray, first_chunks: np.ndarray, memory: np.ndarray, begins: np.ndarray, places: np.ndarray, out: np.ndarray
    ) -> bool:
        """`out` (parts, places): words of memory at places from each of `begins` on, if of each part, by its first
        chunk, these chunks are `owned`; else False.
        """
        found: bool = loops.gather_owned(chunks, first_chunks, self._lines, self._chunks, memory, begins, places, out)
        return found

    def of(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(writer, place) of the bytes at offsets `at`, both uint32 of its shape."""
        flat = np.ascontiguousarray(at, np.int64).reshape(-1)
        writer, place = np.empty(len(flat), np.uint32), np.empty(len(flat), np.uint32)
        loops.owners_of(flat, self._lines, self._chunks, self._bytes, writer, place)
        return writer.reshape(at.shape), place.reshape(at.shape)

    # ---- which byte of global memory it is

    def look(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(source, writer) of the bytes at offsets `at`, which may be outside: the global byte (int64), and the number
        of the writer, 0 for none.
        """
        inside = (at >= 0) & (at < self.size)
        if inside.all():
            writer, place = self.of(at)
        else:
            writer, place = self.of(np.where(inside, at, 0))
            writer = np.where(inside, writer, 0)
        counts = np.bincount(writer.reshape(-1), minlength=1)
        numbers = (np.flatnonzero(counts[1:]) + 1).tolist()
        if len(numbers) == 1 and not counts[0]:  # as of most operands
            return self.writers[numbers[0] - 1].sources[place].astype(np.int64, copy=False), writer
        source = np.full(writer.shape, UNWRITTEN, np.int64)
        for number in numbers:
            mine = writer == number
            source[mine] = self.writers[number - 1].sources[place[mine]]
        return source, writer

    def source(self, at: np.ndarray) -> np.ndarray:
        """int64, the global byte of each offset: UNWRITTEN if it is uninitialised or outside of the memory, else what
        its writer gives.
        """
        return self.look(at)[0]

    def locate(self, wanted: np.ndarray, among: Collection[int] | None = None) -> np.ndarray:
        """int64, the first offset at which each global byte lies, -1 where it lies nowhere; `among`: as these writers
        (numbers) brought it.
        """
        source, at, writer = self._located()
        if among is not None:
            of_these = np.isin(writer, list(among))
            source, at = source[of_these], at[of_these]
        if not len(at):
            return np.full(wanted.shape, -1, np.int64)
        first = np.minimum(np.searchsorted(source, wanted), len(at) - 1)
        return np.where(source[first] == wanted, at[first], -1)

    def repeated(self) -> np.ndarray:
        """The global bytes that lie at several offsets, ascending; some of them several times."""
        source = self._located()[0]
        found: np.ndarray = source[1:][source[1:] == source[:-1]]
        return found

    def _located(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(global bytes ascending, their places, their writers) of all present bytes; for equal bytes the lower offset
        first.
        """
        if self._sorted is None or self._sorted[0] != self._writes[0]:
            chunks = np.flatnonzero((self._chunks > 0) | (np.repeat(self._lines, LINE // CHUNK) > 0))
            at = (CHUNK * chunks[:, None] + np.arange(CHUNK)).reshape(-1)
            source, writer = self.look(at)
            known = np.flatnonzero(source >= 0)
            order = known[np.argsort(source[known], kind="stable")]
            self._sorted = self._writes[0], source[order], at[order], writer[order]
        return self._sorted[1:]
