"""Calls: virtual memory management."""

from __future__ import annotations

from smemsim.base.errors import Unmodelled
from smemsim.core.spec.cards import MAPPING_BYTES
from smemsim.virtual.calls.handles import Handles
from smemsim.virtual.errors import INVALID_VALUE, CudaError
from smemsim.virtual.mapping import Physical

__all__ = ["MappingCalls"]


class MappingCalls(Handles):
    """Physical memory, and ranges of addresses."""

    def physical_create(self, size: int, properties: bytes, where: str) -> int:
        return self._keep(self.device.map("create", size, where, properties))

    def physical_properties(self, handle: int) -> bytes:
        return self._of(handle, Physical).properties

    def physical_release(self, handle: int) -> None:
        self.device.map("release", self._of(handle, Physical))
        del self._objects[handle]

    def physical_at(self, address: int) -> int:
        found: Physical = self.device.map("at", address)[0]
        found.handles += 1
        return self._keep(found)

    def range_reserve(self, size: int, align: int) -> int:
        if not size or size % MAPPING_BYTES or align & (align - 1):
            raise CudaError(INVALID_VALUE, f"{size} bytes of addresses: needs a multiple of {MAPPING_BYTES}")
        return int(self.device.map("reserve", size, max(align, MAPPING_BYTES)))

    def range_free(self, address: int, size: int) -> None:
        self.device.map("free", address, size)

    def range_map(self, address: int, size: int, offset: int, handle: int) -> None:
        physical = self._of(handle, Physical)
        if physical.is_mapped:
            raise Unmodelled("physical memory that is mapped at two places at once")
        self.device.map("map", address, size, offset, physical)

    def range_unmap(self, address: int, size: int) -> None:
        self.device.map("unmap", address, size)

    def range_access(self, address: int, size: int, access: int) -> None:
        self.device.map("set_access", address, size, access)

    def range_access_at(self, address: int) -> int:
        return int(self.device.map("at", address)[1])
