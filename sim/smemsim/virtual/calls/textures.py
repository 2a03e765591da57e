"""Calls: arrays, texture and surface objects."""

from __future__ import annotations

import struct

from smemsim.virtual.calls.handles import Handles
from smemsim.virtual.textures import CudaArray

__all__ = ["TextureCalls"]


class TextureCalls(Handles):
    """Textures."""

    def array_create(self, channel: bytes, width: int, height: int, depth: int, flags: int, where: str) -> int:
        self.device.check()
        x, y, z, w, kind = struct.unpack("<5i", channel)
        return self._keep(self.device.textures.array((x, y, z, w, kind), (width, height, depth), flags, where))

    def array_free(self, array: int) -> None:
        self.host.settle()
        if array:
            self.device.textures.free(self._of(array, CudaArray))
            del self._objects[array]

    def array_about(self, array: int) -> tuple[int, int, int, int, int, int, int, int, bytes]:
        """Where it lies, bytes of an element and of a row, rows, its extents, its flags, its channels."""
        a = self._of(array, CudaArray)
        return (a.allocation.address, a.format.size, a.row_bytes, a.rows, *a.extent, a.flags, struct.pack("<5i", *a.channel))

    def texture_create(self, kind: int, array: int, address: int, channel: bytes, a: int, b: int, c: int, how: bytes) -> int:
        self.device.check()
        x, y, z, w, channels = struct.unpack("<5i", channel)
        found = self._of(array, CudaArray) if array else None
        return self.device.textures.texture(kind, found, address, (x, y, z, w, channels), (a, b, c), how)

    def surface_create(self, array: int) -> int:
        self.device.check()
        return self.device.textures.surface(self._of(array, CudaArray))

    def object_destroy(self, handle: int) -> None:
        self.host.settle()
        self.device.textures.destroy(handle)
