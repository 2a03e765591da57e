"""The heap of `malloc` in kernels. It belongs to the memory of a card, and outlives launches.

Its allocations are in arrays of global memory, with a gap after each. No address is used again while a launch runs. So
an access past an allocation, or after its `free`, is outside of all allocations.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable

import numpy as np

from smemsim.core.machine.uninitialised import SECTOR, Garbage, litter
from smemsim.core.spec.cards import DEVICE_LIMITS, HEAP_LIMIT
from smemsim.core.spec.heap import HEAP

__all__ = ["Chunk", "Chunks", "FreshChunks", "Heap"]


GAP = 64  # bytes between allocations at least
ROOM = 1 << 26  # bytes of an array of the heap, unless an allocation needs more


@dataclasses.dataclass(eq=False)
class Chunk:
    """An allocation: its place, its bytes, and the PTX lines that allocated and freed it (`freed` is 0 while it is
    live).
    """

    begin: int
    size: int
    number: int
    line: int
    kernel: str
    freed: int = 0
    freed_by: str = ""

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.begin + self.size

    def __str__(self) -> str:
        return f"allocation {self.number} of the kernels' heap: {self.size} bytes at {self.begin:#x}, malloc at line {self.line} of {self.kernel}"


class Chunks:
    """The allocations in one array, by ascending address.

    >>> chunks = Chunks(0x1000, 4096)
    >>> chunk = chunks.place(24, 1, 7, "k")
    >>> hex(chunk.begin), chunks.outside(np.array([0x1030, 0x1044, 0x1048], np.uint64), 4).tolist()
    ('0x1030', [False, False, True])
    >>> chunks.close(chunk)
    >>> chunks.outside(np.array([0x1030], np.uint64), 4).tolist()
    [True]
    """

    def __init__(self, begin: int, size: int) -> None:
        self.begin, self.end = begin, begin + size
        self.live = 0
        self.clear()

    def clear(self) -> None:
        """Nothing was ever allocated here."""
        self.next = self.begin + SECTOR + HEAP.align
        self.all: list[Chunk] = []
        self._begins, self._ends = np.zeros(64, np.uint64), np.zeros(64, np.uint64)

    def place(self, size: int, number: int, line: int, kernel: str) -> Chunk | None:
        """Place an allocation after all others; None if there is no room."""
        step = (-(-size // HEAP.align) + GAP // HEAP.align + 1) * HEAP.align
        if self.next + step > self.end:
            return None
        made = Chunk(self.next, size, number, line, kernel)
        self.next += step
        n = len(self.all)
        if n == len(self._begins):
            self._begins, self._ends = (np.concatenate((table, np.zeros_like(table))) for table in (self._begins, self._ends))
        self._begins[n], self._ends[n] = made.begin, made.end
        self.all.append(made)
        self.live += 1
        return made

    def close(self, chunk: Chunk) -> None:
        """An allocation is no more."""
        self._ends[self._place(chunk.begin)] = 0
        self.live -= 1

    def _place(self, address: int) -> int:
        return bisect.bisect_right(self.all, address, key=lambda chunk: chunk.begin) - 1

    def outside(self, address: np.ndarray, size: int) -> np.ndarray:
        """Which accesses of `size` bytes at addresses (uint64) are not within one allocation that is there?"""
        which = np.searchsorted(self._begins[: len(self.all)], address, "right") - 1
        found: np.ndarray = (which < 0) | (address + np.uint64(size) > self._ends[which])
        return found

    def holds(self, begin: int, end: int) -> bool:
        """Do these bytes lie within one allocation that is there?"""
        n = self._place(begin)
        return n >= 0 and not self.all[n].freed and end <= self.all[n].end

    def at(self, address: int) -> Chunk | None:
        """The last allocation that starts at or before an address, live or freed."""
        n = self._place(address)
        return self.all[n] if n >= 0 else None


class FreshChunks(Garbage):
    """The bytes of an array of the heap that are uninitialised: what is there of the
    garbage that each allocation got.
    """

    def __init__(self, data: np.ndarray, chunks: Chunks, begin: int) -> None:
        super().__init__(data, chunks.begin, begin)
        self.chunks = chunks

    def remains(self) -> bool:
        """Is any byte still uninitialised?"""
        return not self.is_gone and self.chunks.live > 0


class Heap:
    """The allocations of kernels. `limit` is the number of bytes that the program has asked for.

    `is_littered`: allocations are filled with garbage, and count as uninitialised. Else they are zero.
    """

    def __init__(self) -> None:
        self.limit = DEVICE_LIMITS[HEAP_LIMIT]
        self.is_littered = True
        self.is_used = False  # has a kernel that allocates been launched?
        self.used = 0  # units
        self.count = 0
        self._arrays: list[tuple[Chunks, np.ndarray]] = []
        self._live: dict[int, tuple[Chunks, Chunk]] = {}

    def begin(self) -> None:
        """A launch that may allocate begins: addresses of arrays in which nothing is left are given again."""
        self.is_used = True
        for chunks, data in self._arrays:
            if not chunks.live and chunks.all:
                data[: chunks.next - chunks.begin] = 0
                chunks.clear()

    def allocate(self, size: int, line: int, kernel: str, array: Callable[[int], tuple[Chunks, np.ndarray]]) -> int:
        """`malloc`: the address, a multiple of 16; 0 where the heap has no room. `array` makes an array of global
        memory for allocations.
        """
        size = 0 if size + HEAP.align > 1 << 64 else size  # a card rounds up in 64 bits
        units = HEAP.units(size)
        if self.used + units > HEAP.capacity(max(self.limit, HEAP.least_bytes)):
            return 0
        self.count += 1
        for place in self._arrays:
            if (made := place[0].place(size, self.count, line, kernel)) is not None:
                break
        else:
            place = array(ROOM + size)
            self._arrays.append(place)
            made = place[0].place(size, self.count, line, kernel)
            assert made is not None
        chunks, data = place
        self.used += units
        self._live[made.begin] = chunks, made
        if self.is_littered:
            # its sectors, which end in the gaps around it
            first, last = made.begin // SECTOR * SECTOR, -(-made.end // SECTOR) * SECTOR
            litter(data[max(first - chunks.begin, 0) : last - chunks.begin], max(first, chunks.begin))
        return made.begin

    def free(self, address: int, line: int, kernel: str) -> bool:
        """`free`: is this the address of an allocation? It is no more."""
        chunks, chunk = self._live.pop(address, (None, None))
        if chunks is None or chunk is None:
            return False
        chunk.freed, chunk.freed_by = line, kernel
        chunks.close(chunk)
        self.used -= HEAP.units(chunk.size)
        return True

    def near(self, address: int) -> Chunk | None:
        """The allocation that contains an address of the heap, or the last one before it, live or freed; None outside
        the heap.
        """
        return next((chunks.at(address) for chunks, _ in self._arrays if chunks.begin <= address < chunks.end), None)
