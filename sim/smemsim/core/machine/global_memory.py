"""Global memory: arrays at addresses."""

from __future__ import annotations

import bisect
import ctypes
import dataclasses
from typing import Any, ClassVar

import numpy as np

from smemsim.base.arguments import shown, whole
from smemsim.base.budget import ask, hold
from smemsim.base.errors import InputError, OutsideError
from smemsim.base.members import OwnMembers
from smemsim.core.machine.heap import Chunks, FreshChunks, Heap
from smemsim.core.machine.stored_taint import StoredTaint
from smemsim.core.machine.uninitialised import Blank, Declared, Garbage
from smemsim.core.spec.launches import LOCAL_WINDOW, SHARED_WINDOW

__all__ = ["FOREIGN", "LINE", "OUTSIDE", "UNWRITTEN", "GlobalMemory", "Region"]


# Markers instead of a global byte: uninitialised; out-of-bounds fill; from no array.
UNWRITTEN, OUTSIDE, FOREIGN = -1, -2, -3
# arrays without a given address are placed in between, like CUDA's
FIRST_ADDRESS, LAST_ADDRESS = 0x7F00_0000_0000, 0x7FFF_0000_0000
GAP = 1 << 20
ALIGN = 256
WINDOW_BYTES = 1 << 32
WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}
LINE = 16  # bytes: the widest access


@dataclasses.dataclass(frozen=True, eq=False)
class Region:
    """One array in global memory: its bytes, and the 64-bit words that contain them. The first word is at
    `words_begin`, a multiple of 16.

    Its name in messages is `name`, "" if it has none. The uninitialised bytes of `words` are `blank`. If that is None,
    all count as written. The allocations in an array of the kernels' heap are `chunks`. Bytes between them are outside.
    """

    begin: int
    data: np.ndarray
    words: np.ndarray
    words_begin: int
    name: str = ""
    blank: Blank | None = None
    chunks: Chunks | None = None

    @classmethod
    def zeros(cls, begin: int, size: int, name: str = "") -> Region:
        """Bytes that are 0."""
        words_begin = begin - begin % LINE
        words = np.zeros((begin - words_begin + size + 2 * LINE - 1) // LINE * 2, np.uint64)
        hold(words, words.nbytes)
        return cls(begin, words.view(np.uint8)[begin - words_begin : begin - words_begin + size], words, words_begin, name)

    @classmethod
    def of(cls, begin: int, raw: bytes | np.ndarray, name: str = "") -> Region:
        """A copy of these bytes."""
        made = cls.zeros(begin, len(raw), name)
        made.data[:] = np.frombuffer(raw, np.uint8) if isinstance(raw, bytes) else raw
        return made

    @classmethod
    def over(cls, begin: int, data: np.ndarray, name: str = "") -> Region:
        """The bytes of `data` themselves, whose address in the host's memory is as far from a multiple of 16 as `begin`
        is.
        """
        count = -(-(begin % LINE + len(data)) // LINE) * LINE
        words = np.ctypeslib.as_array((ctypes.c_uint64 * (count // 8)).from_address(data.ctypes.data - begin % LINE))
        return cls(begin, data, words, begin - begin % LINE, name)

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.begin + len(self.data)

    def __str__(self) -> str:
        return f"{f'array {self.name}' if self.name else 'the array'} at {self.begin:#x} ({len(self.data)} B)"


class GlobalMemory(metaclass=OwnMembers):
    """Global memory: arrays at addresses, nothing between them.

    >>> from smemsim import GlobalMemory
    >>> import numpy as np
    >>> memory, held = GlobalMemory(), np.zeros(4, np.uint8)
    >>> address = memory.bind(held, name="A")
    >>> memory.span(address + 1, 2)[:] = 7
    >>> held.tolist()
    [0, 7, 7, 0]
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "behind", "declare_blank", "declare_garbage", "filled", "forget_garbage", "has_declared", "heap_array",
        "are_outputs", "holding", "is_hosts_too", "moved", "moved_garbage", "place_heap", "place_parameters", "release", "table", "taint", "wrote",
        "wrote_all",
    )  # fmt: skip

    def __init__(self) -> None:
        self._begins: list[int] = []  # of `_regions`, which are sorted by them
        self._regions: list[Region] = []
        self._released: list[int] = []
        self._next = FIRST_ADDRESS
        self.heap = Heap()
        self.objects: dict[int, Any] = {}  # textures and surfaces by their handles
        self.taint = StoredTaint()  # of uninitialised values that kernels have stored
        self._table: tuple[np.ndarray, np.ndarray, list[Region]] | None = None
        self._behind: dict[int, Region] = {}

    def __repr__(self) -> str:
        return f"<GlobalMemory: {', '.join(f'{len(r.data)} B at {r.begin:#x}' for r in self._regions) or 'empty'}>"

    def place(self, array: np.ndarray, address: int | None = None, *, name: str = "") -> int:
        """Copy an array to `address`, or to a free address that is a multiple of 256. Returns the address. `name` is
        its name in messages.
        """
        try:
            dtype = np.asarray(array).dtype
            plain = dtype.kind in "biufV" and not dtype.hasobject  # V: structured, and the small floats of ml_dtypes
        except (TypeError, ValueError):
            plain = False
        if not plain:
            raise InputError(f"array: needs a numpy array of plain numbers, not {type(array).__name__}")
        ask(f"array {name or 'in global memory'}", np.asarray(array).nbytes)
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8) if np.asarray(array).nbytes else np.zeros(0, np.uint8)
        return self._add(Region.of(self._room(address, len(raw)), raw, name))

    def place_parameters(self, bank: np.ndarray) -> int:
        """Put a launch's parameters somewhere, until `free`. Returns the address."""
        return self.place(bank)

    def bind(self, array: Any, address: int | None = None, *, name: str = "") -> int:
        """Use an array of the host as global memory, without a copy. Kernels read and write the array itself. It is
        kept until `free`. Returns the address.

        The array is a contiguous numpy array, or another object with a writable buffer (`bytearray`, `mmap`). The
        address must be as far from a multiple of 16 as the array's own. Default: a free address. Raises InputError for
        memory that cannot be bound there.
        """
        try:
            data = np.frombuffer(array, np.uint8) if not isinstance(array, np.ndarray) or array.nbytes else np.zeros(0, np.uint8)
        except (TypeError, ValueError, BufferError, AttributeError):
            raise InputError(f"array = {shown(array)}: needs a contiguous array, or another object with a buffer") from None
        if not data.flags.writeable and data.size:
            raise InputError("array: is read-only, and kernels write to global memory; bind a copy")
        shift = data.ctypes.data % LINE if data.size else 0
        begin = self._room(address, len(data), shift)
        if data.size and begin % LINE != shift:
            raise InputError(f"address = {begin:#x}: the array begins {shift} bytes after a multiple of {LINE}; needs such an address too")
        return self._add(Region.over(begin, data, name) if data.size else Region.of(begin, data, name))

    def is_hosts_too(self, words: np.ndarray, at: int) -> bool:
        """May the host write the byte `at` of an array's words while a kernel runs? Here never; a card with a host
        overrides it.
        """
        return False

    def are_outputs(self, region: Region) -> bool:
        """Does the caller of a launch get the values of an array, without a further call? Here always; a card with a
        host overrides it.
        """
        return True

    def declare_blank(self, address: int) -> None:
        """The array at `address` counts as uninitialised, like memory that was allocated and not set."""
        region = self.find(address)
        n = self._regions.index(region)
        blank = Declared(region.words.nbytes, region.begin - region.words_begin, len(region.data))
        self._regions[n] = dataclasses.replace(region, blank=blank)
        self._table = None

    def heap_array(self, size: int) -> tuple[Chunks, np.ndarray]:
        """An array for allocations of kernels."""
        address = self.place_heap(size)
        region = self.find(address)
        n, chunks = self._regions.index(region), Chunks(address, size)
        blank = FreshChunks(region.data, chunks, region.begin - region.words_begin) if self.heap.is_littered else None
        self._regions[n] = dataclasses.replace(region, blank=blank, chunks=chunks)
        self._table = None
        return chunks, region.data

    def place_heap(self, size: int) -> int:
        """Place an array of zeros for the kernels' heap. There is no copy, and kernels use little of it. Returns the
        address.
        """
        name = "the kernels' heap"
        ask(f"array {name}", size)
        return self._add(Region.zeros(self._room(None, size), size, name))

    def declare_garbage(self, address: int) -> None:
        """The array at `address` was filled with garbage (`litter`). Bytes that still hold it are uninitialised."""
        region = self.find(address)
        n = self._regions.index(region)
        self._regions[n] = dataclasses.replace(region, blank=Garbage(region.data, region.begin, region.begin - region.words_begin))
        self._table = None

    def wrote(self, begin: int, end: int) -> None:
        """The host has written the bytes from `begin` up to `end`."""
        region = self._at(begin)
        if region is not None and region.blank is not None:
            region.blank.wrote(begin - region.words_begin, end - region.words_begin)
        if self.taint:
            self.taint.wrote(begin, end)

    def moved(self, to: int, source: int, size: int) -> None:
        """The host has copied bytes from one address to another."""
        if self.taint:
            self.taint.move(self._at(to), to, source, size)

    def moved_garbage(self, to: int, source: int, size: int) -> None:
        """The host has copied bytes from one array to another, and they may be uninitialised."""
        here, there = self._at(to), self._at(source)
        if here is None or there is None or not (isinstance(here.blank, Garbage) and isinstance(there.blank, Garbage)):
            return
        here.blank.takes(there.blank, to - here.words_begin, source - there.words_begin, size)

    def wrote_all(self) -> None:
        """From now on all uninitialised memory counts as written. It is called after code ran whose writes are not
        known.
        """
        for region in self._regions:
            if region.blank is not None:
                region.blank.wrote(0, region.words.nbytes)

    def forget_garbage(self) -> None:
        """Memory that was filled with garbage counts as written, since something has not run that would have written
        there.
        """
        for region in self._regions:
            if isinstance(region.blank, Garbage):
                region.blank.is_gone = True

    @property
    def has_declared(self) -> bool:
        """Is there an array that was declared unwritten, with bytes that still are?"""
        return any(isinstance(region.blank, Declared) and region.blank.remains() for region in self._regions)

    def free(self, address: int) -> None:
        """Remove the array that begins at `address`. InputError, with the nearest array, if none does."""
        address = whole("address", address)
        n = bisect.bisect_left(self._begins, address)
        if n == len(self._begins) or self._begins[n] != address:
            raise InputError(f"global address {address:#x}: no array begins there{self._nearby(address)}")
        self._behind.pop(self._regions[n].end, None)
        self.taint.forget(self._regions[n].words)
        del self._begins[n], self._regions[n]
        self._table = None

    def release(self, address: int) -> None:
        """Have `free` take an array away before the next one comes. May be called at any time, by a finalizer too."""
        self._released.append(address)

    def _add(self, region: Region) -> int:
        n = bisect.bisect_right(self._begins, region.begin)
        self._begins.insert(n, region.begin)
        self._regions.insert(n, region)
        self._table = None
        return region.begin

    def _room(self, address: int | None, size: int, shift: int = 0) -> int:
        """The place of `size` bytes: at `address`, if they fit there, or `shift` bytes after a free multiple of 256."""
        while self._released:
            self.free(self._released.pop())
        if address is None:
            return self._free_place(size + shift) + shift
        address = whole("address", address, minimum=0)
        if address + size > 1 << 64:
            raise InputError(f"address = {address:#x}: {size} bytes there reach past 64 bits")
        n = bisect.bisect_left(self._begins, address + size)
        for other in self._regions[max(0, n - 2) : n]:
            if address < other.end and other.begin < address + size:
                raise InputError(f"global address {address:#x}: {size} bytes there would overlap {other}")
        for space, begin in WINDOWS.items():
            if address < begin + WINDOW_BYTES and begin < address + size:
                raise InputError(
                    f"global address {address:#x}: {size} bytes there would lie in the window of .{space} memory ({begin:#x} to "
                    f"{begin + WINDOW_BYTES:#x}); needs another address"
                )
        if FIRST_ADDRESS <= address < LAST_ADDRESS:
            self._next = max(self._next, (address + size + GAP) // ALIGN * ALIGN)
        return address

    def _free_place(self, size: int) -> int:
        """A multiple of 256 with room for `size` bytes: after all arrays so far, or at the end of the address space in
        the first hole.
        """
        begin = self._next
        if begin + size > LAST_ADDRESS:
            begin = FIRST_ADDRESS
            for other in self._regions[bisect.bisect_left(self._begins, begin) :]:
                if begin + size + GAP <= other.begin:
                    break
                begin = max(begin, (other.end + GAP) // ALIGN * ALIGN)
            if begin + size > LAST_ADDRESS:
                raise InputError(f"{size} bytes: there are no addresses left for them; free other arrays")
        else:
            self._next = (begin + size + GAP) // ALIGN * ALIGN
        return begin

    def behind(self, region: Region, size: int) -> Region:
        """`size` bytes after an array, zero at first, that belong to no array: for accesses that continue there. No
        address finds them.
        """
        known = self._behind.get(region.end)
        if known is None or len(known.data) < size:
            known = self._behind[region.end] = Region.of(region.end, np.zeros(size, np.uint8))
        return known

    def table(self) -> tuple[np.ndarray, np.ndarray, list[Region]]:
        """(first address, end address, array) of all arrays by ascending address. Addresses are uint64."""
        if self._table is None:
            begins = np.array(self._begins, np.uint64)
            self._table = begins, begins + np.array([len(r.data) for r in self._regions], np.uint64), list(self._regions)
        return self._table

    def filled(self) -> list[Region]:
        """The arrays that have bytes, by ascending address, without those that were released."""
        while self._released:
            self.free(self._released.pop())
        return [region for region in self.table()[2] if len(region.data)]

    def region(self, address: int) -> tuple[int, np.ndarray]:
        """(address, bytes) of the array that holds `address`; the bytes are the memory itself."""
        found = self.find(whole("address", address))
        return found.begin, found.data

    def span(self, address: int, size: int) -> np.ndarray:
        """`size` bytes from `address` on, the memory itself. InputError unless one array holds them all."""
        address, size = whole("address", address), whole("size", size, minimum=0)
        region = self.find(address)
        if address + size > region.end:
            raise OutsideError(f"global {address:#x} to {address + size:#x} reaches past {region}, which ends at {region.end:#x}")
        if region.chunks is not None and not region.chunks.holds(address, address + size):
            raise OutsideError(f"global {address:#x} to {address + size:#x} lies in no allocation of the kernels' heap")
        return region.data[address - region.begin : address - region.begin + size]

    def holds(self, address: int) -> bool:
        """True if an array holds `address`."""
        return self._at(whole("address", address)) is not None

    def holding(self, begin: int, end: int) -> Region | None:
        """The array that holds all bytes from `begin` up to `end`; None where there is none."""
        found = self._at(begin)
        if found is None or end > found.end or (found.chunks is not None and not found.chunks.holds(begin, end)):
            return None
        return found

    def find(self, address: int) -> Region:
        """The array that holds `address`. InputError, with the nearest array, if none does."""
        address = whole("address", address)
        region = self._at(address)
        if region is None:
            raise OutsideError(f"global address {address:#x}: nothing was placed there{self._nearby(address)}")
        return region

    def nearest(self, address: int) -> Region | None:
        """The array that holds `address`, or else the array that begins or ends nearest to it. None if there is no
        array.
        """
        address = whole("address", address)
        n = bisect.bisect_right(self._begins, address)
        near = self._regions[max(0, n - 1) : n + 1]
        return min(near, key=lambda r: max(r.begin - address, address - r.end, -1), default=None)

    def _at(self, address: int) -> Region | None:
        n = bisect.bisect_right(self._begins, address)
        while n:  # an empty array may begin where another one does
            n -= 1
            if address < self._regions[n].end:
                return self._regions[n]
            if self._regions[n].data.size:
                return None
        return None

    def _nearby(self, address: int) -> str:
        near = self.nearest(address)
        if near is None:
            return "; this memory holds no array"
        if address < near.begin:
            return f"; {near.begin - address} bytes before {near}"
        where = f"{address - near.end} bytes past the end of" if address >= near.end else f"{address - near.begin} bytes inside"
        return f"; it is {where} {near}"
