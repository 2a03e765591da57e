"""Calls: allocations, what lies where, copies."""

from __future__ import annotations

from smemsim.virtual.calls.handles import Handles
from smemsim.virtual.errors import INVALID_VALUE, NOT_FOUND, CudaError
from smemsim.virtual.memory import Allocation

__all__ = ["MemoryCalls"]


KINDS = {
    "device": 2,
    "mapped": 2,
    "managed": 3,
    "pinned": 1,
    "registered": 1,
    "own": 2,
    "managed variable": 3,
    "heap": 0,
    "array": 0,
}  # cudaMemoryType


class MemoryCalls(Handles):
    """Memory."""

    def allocate(self, size: int, kind: str, where: str) -> int:
        return self.device.allocate(size, kind, where=where)

    def allocate_async(self, size: int, where: str, stream: int) -> int:
        return self.device.allocate_async(size, self._stream(stream), where=where)

    def free(self, address: int) -> None:
        self.host.materialize()
        self.device.free(address)

    def free_async(self, address: int, stream: int) -> None:
        self.device.free_async(address, self._stream(stream))

    def check_host(self, address: int) -> None:
        found = self.device.allocation(address)
        if found is None or not found.is_on_host:
            raise CudaError(INVALID_VALUE, f"{address:#x} is no pinned memory")

    def register(self, address: int, size: int, where: str) -> None:
        self.device.register(address, size, where=where)

    def unregister(self, address: int) -> None:
        self.device.check()
        self.device.unbind(address)

    def memory_info(self) -> tuple[int, int]:
        return self.device.memory_info()

    def range(self, address: int) -> tuple[int, int]:
        found = self.device.allocation(address)
        if found is None:
            raise CudaError(NOT_FOUND, f"{address:#x} lies in no allocation")
        return found.address, found.size

    def pointer(self, address: int) -> tuple[int, int, int, int]:
        found = self._at(address)
        return KINDS[found.kind], found.address, found.size, found.number

    def keep_of_pointer(self, address: int, attribute: int, value: int) -> None:
        """Keep an attribute of the allocation at this address."""
        found = self._at(address)
        found.kept = {**(found.kept or {}), attribute: value}

    def kept_of_pointer(self, address: int, attribute: int) -> int:
        """An attribute that was kept, 0 where none was."""
        return (self._at(address).kept or {}).get(attribute, 0)

    def _at(self, address: int) -> Allocation:
        found = self.device.allocation(address)
        if found is None or not KINDS[found.kind]:
            raise CudaError(INVALID_VALUE, f"{address:#x} lies in no allocation")
        return found

    def copy(self, to: int, source: int, size: int, kind: int, stream: int) -> None:
        self.device.copy(to, source, size, self._stream(stream), kind=kind)

    def copy_2d(self, to: int, to_pitch: int, source: int, source_pitch: int, width: int, height: int, kind: int, stream: int) -> None:
        self.device.copy_2d(to, to_pitch, source, source_pitch, width, height, self._stream(stream), kind=kind)

    def fill(self, to: int, pitch: int, value: int, width: int, count: int, height: int, stream: int) -> None:
        self.device.fill_2d(to, pitch, value, width, count, height, self._stream(stream))
