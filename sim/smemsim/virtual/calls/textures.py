"""Calls: arrays, texture and surface objects."""

from __future__ import annotations

import struct

from smemsim.core.spec.textures import ADDRESS_MODES, ARRAY_FORMATS, CHANNEL_KINDS
from smemsim.virtual.calls.handles import Handles
from smemsim.virtual.errors import INVALID_VALUE, CudaError
from smemsim.virtual.textures import RESOURCE_ARRAY, RESOURCE_LINEAR, RESOURCE_MIPMAPPED, RESOURCE_PITCHED, CudaArray

__all__ = ["TextureCalls"]


AS_INTEGERS, NORMALIZED, SRGB, SEAMLESS = 1, 2, 0x10, 0x40  # CU_TRSF_...
Channel = tuple[int, int, int, int, int]  # cudaChannelFormatDesc
SAMPLER = struct.Struct("<6i4fiI i3f2i")  # cudaTextureDesc


class TextureCalls(Handles):
    """Textures."""

    def array_create(self, channel: bytes, width: int, height: int, depth: int, flags: int, levels: int, where: str) -> int:
        self.device.check()
        x, y, z, w, kind = struct.unpack("<5i", channel)
        return self._keep(self.device.textures.array((x, y, z, w, kind), (width, height, depth), flags, where, levels))

    def array_create_of(self, width: int, height: int, depth: int, format_: int, channels: int, flags: int, levels: int, where: str) -> int:
        """The driver's: a format and how many channels."""
        self.device.check()
        return self._keep(self.device.textures.array(_channel(format_, channels), (width, height, depth), flags, where, levels))

    def array_level(self, array: int, level: int) -> int:
        """A level of a mipmapped array: the same handle whenever it is asked for."""
        return self._handle_of(self._of(array, CudaArray).level(level))

    def array_free(self, array: int) -> None:
        self.host.materialize()
        if array:
            self.device.textures.free(self._of(array, CudaArray))
            del self._objects[array]

    def array_about(self, array: int) -> tuple[int, int, int, int, int, int, int, int, bytes]:
        """The place of an array, bytes of an element and of a row, rows, extents, flags, channels."""
        a = self._of(array, CudaArray)
        return (a.address, a.format.size, a.row_bytes, a.rows, *a.extent, a.flags, struct.pack("<5i", *a.channel))

    def array_format(self, array: int) -> tuple[int, int]:
        """CUarray_format, and how many channels."""
        form = self._of(array, CudaArray).format
        return next(code for code, about in ARRAY_FORMATS.items() if about == (form.kind, form.bits)), form.channels

    def texture_create(self, kind: int, array: int, address: int, channel: bytes, a: int, b: int, c: int, how: bytes) -> int:
        self.device.check()
        x, y, z, w, channels = struct.unpack("<5i", channel)
        found = self._of(array, CudaArray) if array else None
        return self.device.textures.texture(kind, found, address, (x, y, z, w, channels), (a, b, c), how)

    def texture_create_of(self, resource: bytes, how: bytes) -> int:
        """The driver's, of CUDA_RESOURCE_DESC and CUDA_TEXTURE_DESC."""
        self.device.check()
        kind, array, address, channel, sizes = self._resource(resource)
        form = array.format if array is not None else self.device.textures.format_of(channel)
        made = self.device.textures.texture(kind, array, address, channel, sizes, _sampler(how, is_narrow=form.bits < 32))
        self._described[made] = resource, how
        return made

    def surface_create(self, array: int) -> int:
        self.device.check()
        return self.device.textures.surface(self._of(array, CudaArray))

    def surface_create_of(self, resource: bytes) -> int:
        self.device.check()
        kind, array, *_ = self._resource(resource)
        if kind != RESOURCE_ARRAY:
            raise CudaError(INVALID_VALUE, "a surface of something that is no array")
        assert array is not None
        made = self.device.textures.surface(array)
        self._described[made] = resource, b""
        return made

    def describe(self, handle: int, resource: bytes, how: bytes) -> None:
        """Keep what an object was made of, as its maker's interface has it."""
        self._described[handle] = resource, how

    def object_destroy(self, handle: int) -> None:
        self.host.materialize()
        self.device.textures.destroy(handle)
        self._described.pop(handle, None)

    def object_resource(self, handle: int) -> bytes:
        """The description of a resource that an object was made of: the driver's, or the runtime's."""
        return self._about(handle)[0]

    def object_sampler(self, handle: int) -> bytes:
        """That of a sampler."""
        return self._about(handle)[1]

    def _about(self, handle: int) -> tuple[bytes, bytes]:
        if handle not in self._described:
            raise CudaError(INVALID_VALUE, f"{handle:#x} is no texture or surface object")
        return self._described[handle]

    @property
    def _described(self) -> dict[int, tuple[bytes, bytes]]:
        found: dict[int, tuple[bytes, bytes]] = self.__dict__.setdefault("_descriptions", {})
        return found

    def _resource(self, raw: bytes) -> tuple[int, CudaArray | None, int, Channel, tuple[int, int, int]]:
        """(kind, array, address, channels, sizes) of a CUDA_RESOURCE_DESC, as `Textures.texture` takes them."""
        kind, handle, format_, channels, a, b, c = struct.unpack_from("<i4xQiI3Q", raw)
        none: Channel = (0, 0, 0, 0, 0)
        if kind in (RESOURCE_ARRAY, RESOURCE_MIPMAPPED):
            return kind, self._of(handle, CudaArray), 0, none, (0, 0, 0)
        if kind in (RESOURCE_LINEAR, RESOURCE_PITCHED):
            return kind, None, handle, _channel(format_, channels), (a, b, c)
        raise CudaError(INVALID_VALUE, f"a resource of kind {kind}")


def _channel(format_: int, channels: int) -> Channel:
    """The channels of a CUarray_format."""
    if format_ not in ARRAY_FORMATS or channels not in (1, 2, 4):
        raise CudaError(INVALID_VALUE, f"{channels} channels of the format {format_:#x}")
    kind, bits = ARRAY_FORMATS[format_]
    x, y, z, w = ([bits] * channels + [0] * 4)[:4]
    return x, y, z, w, CHANNEL_KINDS.index(kind)


def _sampler(how: bytes, *, is_narrow: bool) -> bytes:
    """A CUDA_TEXTURE_DESC as cudaTextureDesc: integers of 8 and 16 bits are floats unless it says otherwise."""
    *address, linear, flags, anisotropy, between, bias, least, most = struct.unpack_from("<4iIIi3f", how)
    border = struct.unpack_from("<4f", how, 40)
    if any(mode not in range(len(ADDRESS_MODES)) for mode in address):
        raise CudaError(INVALID_VALUE, f"address modes {address}")
    return SAMPLER.pack(
        *address, linear, int(is_narrow and not flags & AS_INTEGERS), bool(flags & SRGB), *border, bool(flags & NORMALIZED), anisotropy, between, bias,
        least, most, 0, bool(flags & SEAMLESS),
    )  # fmt: skip
