"""Global memory: arrays at addresses."""

from __future__ import annotations

import dataclasses

import numpy as np

from smemsim.arguments import whole
from smemsim.budget import ask, hold
from smemsim.errors import InputError, OutsideError

__all__ = ["FOREIGN", "OUTSIDE", "UNWRITTEN", "GlobalMemory", "Region"]


# Instead of the global byte that lies somewhere: nobody wrote there; out-of-bounds fill; what comes from no array.
UNWRITTEN, OUTSIDE, FOREIGN = -1, -2, -3
FIRST_ADDRESS = 0x7F0000000000  # where allocations begin when nobody asks for an address
GAP = 1 << 20


@dataclasses.dataclass(frozen=True, eq=False)
class Region:
    """One array in global memory: its bytes, and the 64-bit words they lie in, the first at `words_begin`, a multiple of 16.

    `name` is how messages call it, "" where nobody has named it.
    """

    begin: int
    data: np.ndarray
    words: np.ndarray
    words_begin: int
    name: str = ""

    @classmethod
    def of(cls, begin: int, raw: bytes | np.ndarray, name: str = "") -> Region:
        words_begin = begin - begin % 16
        words = np.zeros((begin - words_begin + len(raw) + 31) // 16 * 2, np.uint64)
        hold(words, words.nbytes)
        data = words.view(np.uint8)[begin - words_begin : begin - words_begin + len(raw)]
        data[:] = np.frombuffer(raw, np.uint8) if isinstance(raw, bytes) else raw
        return cls(begin, data, words, words_begin, name)


class GlobalMemory:
    """Global memory: arrays at addresses, nothing between them."""

    def __init__(self) -> None:
        self._regions: list[Region] = []
        self._next = FIRST_ADDRESS
        self._table: tuple[np.ndarray, np.ndarray, list[Region]] | None = None

    def __repr__(self) -> str:
        return f"<GlobalMemory: {', '.join(f'{len(r.data)} B at {r.begin:#x}' for r in self._regions) or 'empty'}>"

    def place(self, array: np.ndarray, address: int | None = None, *, name: str = "") -> int:
        """Put a copy of the array's bytes at `address`, or at a free one aligned to 256 B. Returns the address; `name` is how messages call it."""
        try:
            dtype = np.asarray(array).dtype
            plain = dtype.kind in "biufV" and not dtype.hasobject  # V: structured, and the small floats of ml_dtypes
        except (TypeError, ValueError):
            plain = False
        if not plain:
            raise InputError(f"array: needs a numpy array of plain numbers, not {type(array).__name__}")
        ask(f"array {name or 'in global memory'}", np.asarray(array).nbytes)
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8) if np.asarray(array).nbytes else np.zeros(0, np.uint8)
        address = self._next if address is None else whole("address", address, minimum=0)
        if address + len(raw) > 1 << 64:
            raise InputError(f"address = {address:#x}: {len(raw)} bytes there reach past 64 bits")
        for other in self._regions:
            if address < other.begin + len(other.data) and other.begin < address + len(raw):
                raise InputError(f"global address {address:#x}: {len(raw)} bytes there would overlap the array at {other.begin:#x}")
        self._regions.append(Region.of(address, raw, name))
        self._table = None
        self._next = max(self._next, (address + len(raw) + GAP) // 256 * 256)
        return address

    def table(self) -> tuple[np.ndarray, np.ndarray, list[Region]]:
        """(first address, address behind the last byte, array) of all arrays by ascending address, the addresses uint64."""
        if self._table is None:
            regions = sorted(self._regions, key=lambda r: r.begin)
            begins = np.array([r.begin for r in regions], np.uint64)
            self._table = begins, begins + np.array([len(r.data) for r in regions], np.uint64), regions
        return self._table

    def region(self, address: int) -> tuple[int, np.ndarray]:
        """(address, bytes) of the array that holds `address`; the bytes are the memory itself."""
        found = self.find(whole("address", address))
        return found.begin, found.data

    def span(self, address: int, size: int) -> np.ndarray:
        """`size` bytes from `address` on, the memory itself; InputError unless one array holds them all."""
        found, size = self.find(address), whole("size", size, minimum=0)
        if address + size > found.begin + len(found.data):
            raise OutsideError(
                f"global {address:#x} to {address + size:#x} reaches past the array at {found.begin:#x}, which ends at "
                f"{found.begin + len(found.data):#x}"
            )
        return found.data[address - found.begin : address - found.begin + size]

    def holds(self, address: int) -> bool:
        """Does an array hold `address`?"""
        return any(r.begin <= address < r.begin + len(r.data) for r in self._regions)

    def find(self, address: int) -> Region:
        """The array that holds `address`."""
        address = whole("address", address)
        for region in self._regions:
            if region.begin <= address < region.begin + len(region.data):
                return region
        raise OutsideError(f"global address {address:#x}: nothing was placed there")
