"""Virtual memory management (CUDA driver API 6.14): physical memory, ranges of addresses, and what of the one is mapped
into the other.

Physical memory may be mapped at one place at a time: its bytes go with it. Mappings side by side that the device may
use are one array to kernels, as they are on a card.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.spec.cards import MAPPING_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from smemsim.virtual.memory import Allocation, DeviceMemory

__all__ = ["Mappings", "NotMapped", "Physical"]


class NotMapped(ValueError):
    """A request does not fit the present mappings; the message says why."""


@dataclasses.dataclass(eq=False)
class Physical:
    """Memory without an address: its content while it is not mapped, and the number of handles.

    The properties of the request are `properties` (CUmemAllocationProp). A program that wants compressible memory reads
    there whether it got any.
    """

    size: int
    where: str = ""
    properties: bytes = b""
    content: np.ndarray | None = None
    is_mapped: bool = False
    handles: int = 1


@dataclasses.dataclass(eq=False)
class _Mapping:
    address: int
    size: int
    physical: Physical
    access: int = 0  # CUmemAccess_flags: 0 none, 1 read, 3 read and write

    @property
    def end(self) -> int:
        return self.address + self.size


class Mappings:
    """The ranges of a device. `bind` and `unbind` make arrays known to kernels, and take them away."""

    def __init__(self, memory: DeviceMemory, bind: Callable[[Allocation], None], unbind: Callable[[Allocation], None]) -> None:
        self.memory, self.bind, self.unbind = memory, bind, unbind
        self._mappings: list[_Mapping] = []
        self._arrays: list[Allocation] = []

    def create(self, size: int, where: str = "", properties: bytes = b"") -> Physical:
        """`size` bytes, a multiple of the granularity."""
        if not size or size % MAPPING_BYTES:
            raise NotMapped(f"{size} bytes: physical memory comes in multiples of {MAPPING_BYTES} bytes (cuMemGetAllocationGranularity)")
        self.memory.used += size
        return Physical(size, where, properties)

    def release(self, physical: Physical) -> None:
        """A handle is given back; with the last one the memory is too, once it is mapped nowhere."""
        physical.handles -= 1
        self._forget(physical)

    def _forget(self, physical: Physical) -> None:
        if not physical.handles and not physical.is_mapped:
            self.memory.used -= physical.size
            physical.content = None

    def free(self, address: int, size: int) -> None:
        """Give a range of addresses back, in which nothing is mapped any more."""
        if any(m.address < address + size and address < m.end for m in self._mappings):
            raise NotMapped(f"{address:#x}: something is mapped there; cuMemUnmap comes first")
        if not self.memory.give_back(address, size):
            raise NotMapped(f"{address:#x}: no range of {size} bytes was reserved there")

    def map(self, address: int, size: int, offset: int, physical: Physical) -> None:
        """Map physical memory; nothing may use it before `set_access`."""
        if offset or size != physical.size or address % MAPPING_BYTES:
            raise NotMapped(
                f"{size} bytes from {offset} on at {address:#x}: needs all {physical.size} bytes, at a multiple of {MAPPING_BYTES}"
            )
        if not self.memory.is_reserved(address, size):
            raise NotMapped(f"{address:#x}: cuMemAddressReserve has not given these {size} bytes")
        if any(m.address < address + size and address < m.end for m in self._mappings):
            raise NotMapped(f"{address:#x}: something is mapped there already")
        if physical.content is not None:
            self.memory.raw(address, size)[:] = physical.content
        physical.content, physical.is_mapped = None, True
        self._mappings.append(_Mapping(address, size, physical))

    def unmap(self, address: int, size: int) -> None:
        """Take whole mappings away; what they held stays with their physical memory."""
        gone = list(self._within(address, size))
        for m in gone:
            self._mappings.remove(m)
        self._arrange(address, size)
        for m in gone:
            if m.physical.handles:
                m.physical.content = self.memory.raw(m.address, m.size).copy()
            self.memory.discard(m.address, m.size)
            m.physical.is_mapped = False
            self._forget(m.physical)

    def set_access(self, address: int, size: int, access: int) -> None:
        """The device's access rights for whole mappings."""
        for m in list(self._within(address, size)):
            m.access = access
        self._arrange(address, size)

    def at(self, address: int) -> tuple[Physical, int]:
        """The memory that is mapped at an address, and the access to it."""
        for m in self._mappings:
            if m.address <= address < m.end:
                return m.physical, m.access
        raise NotMapped(f"{address:#x}: nothing is mapped there")

    def _within(self, address: int, size: int) -> Iterator[_Mapping]:
        found = sorted((m for m in self._mappings if m.address < address + size and address < m.end), key=lambda m: m.address)
        if sum(m.size for m in found) != size or not found or found[0].address != address:
            raise NotMapped(f"{address:#x}: these {size} bytes are not whole mappings")
        yield from found

    def _arrange(self, address: int, size: int) -> None:
        """Make arrays of the mappings around a place that lie side by side."""
        for array in [a for a in self._arrays if a.address <= address + size and address <= a.end]:
            self._arrays.remove(array)
            self.unbind(array)
            self.memory.take(array)
        known = {a.address for a in self._arrays}
        for first, last, where in _runs(m for m in self._mappings if m.access):
            if first not in known:
                array = self.memory.put(first, last - first, "mapped", where)
                self._arrays.append(array)
                self.bind(array)


def _runs(mappings: Iterable[_Mapping]) -> list[tuple[int, int, str]]:
    """(begin, end, maker of the first) of adjacent mappings."""
    found: list[tuple[int, int, str]] = []
    for m in sorted(mappings, key=lambda m: m.address):
        if found and found[-1][1] == m.address:
            found[-1] = (found[-1][0], m.end, found[-1][2])
        else:
            found.append((m.address, m.end, m.physical.where))
    return found
