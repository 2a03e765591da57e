"""Arrays of texels, and the texture and surface objects over them.

An array is stored in the card's memory row after row, plane after plane, level after level. Copies to and from it are
copies of rows. A program cannot see how a card orders texels.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smemsim.core.machine.texture import Image, Sampler, Surface, Texture, level_extent
from smemsim.core.spec.textures import ADDRESS_MODES, CHANNEL_KINDS, CUBE, LAYERED, SURFACE, TextureFormat
from smemsim.virtual.errors import INVALID_VALUE, CudaError
from smemsim.virtual.memory import Allocation, DeviceMemory

if TYPE_CHECKING:
    from smemsim.virtual.machine import Machine

__all__ = ["RESOURCE_ARRAY", "RESOURCE_LINEAR", "RESOURCE_MIPMAPPED", "RESOURCE_PITCHED", "CudaArray", "Textures"]


FACES = 6
RESOURCE_ARRAY, RESOURCE_MIPMAPPED, RESOURCE_LINEAR, RESOURCE_PITCHED = range(4)  # cudaResourceType
INVALID_CHANNEL = 20  # cudaErrorInvalidChannelDescriptor
INVALID_FILTER, INVALID_NORM = 26, 27  # cudaErrorInvalidFilterSetting, cudaErrorInvalidNormSetting


@dataclasses.dataclass(eq=False)
class CudaArray:
    """An array of texels: width, height and depth as they were asked for, 0 where there is no such dimension."""

    channel: tuple[int, int, int, int, int]  # cudaChannelFormatDesc
    format: TextureFormat
    extent: tuple[int, int, int]
    flags: int
    allocation: Allocation
    offset: int = 0  # in the allocation, of a level of a mipmapped array
    levels: int = 0  # of a mipmapped array
    _parts: dict[int, CudaArray] = dataclasses.field(default_factory=dict)

    @property
    def address(self) -> int:
        """The address of its first byte."""
        return self.allocation.address + self.offset

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.extent[0] * self.format.size

    @property
    def rows(self) -> int:
        """Rows of a plane."""
        return max(1, self.extent[1])

    @property
    def planes(self) -> int:
        """Slices, layers or faces."""
        return max(1, self.extent[2])

    @property
    def size(self) -> int:
        """Bytes, of all levels."""
        return sum(level_bytes(self.format, self.extent, self.flags, n) for n in range(max(1, self.levels)))

    def level(self, number: int) -> CudaArray:
        """A level of a mipmapped array. CudaError 1 where there is none."""
        if not 0 <= number < self.levels:
            raise CudaError(INVALID_VALUE, f"level {number} of {self.levels}")
        if number not in self._parts:
            begin = sum(level_bytes(self.format, self.extent, self.flags, n) for n in range(number))
            extent = level_extent(self.extent, number, is_layered=bool(self.flags & (LAYERED | CUBE)))
            self._parts[number] = CudaArray(self.channel, self.format, extent, self.flags, self.allocation, begin)
        return self._parts[number]


def level_bytes(form: TextureFormat, extent: tuple[int, int, int], flags: int, level: int) -> int:
    """Bytes of a level of an array."""
    width, height, depth = level_extent(extent, level, is_layered=bool(flags & (LAYERED | CUBE)))
    return form.size * width * max(1, height) * max(1, depth)


class Device(Protocol):
    """The parts of the device that textures need."""

    memory: DeviceMemory

    @property
    def machine(self) -> Machine:
        """The machine that executes."""

    def reserve(self, size: int, kind: str, where: str = "") -> Allocation:
        """An allocation."""

    def release(self, allocation: Allocation) -> None:
        """Give it back."""


def format_of(channel: tuple[int, int, int, int, int]) -> TextureFormat:
    """The format of a cudaChannelFormatDesc: 1, 2 or 4 channels of the same width. CudaError 20 for others."""
    *bits, kind = channel
    used = [b for b in bits if b]
    if bits[: len(used)] != used or len(used) not in (1, 2, 4) or len(set(used)) != 1 or kind >= len(CHANNEL_KINDS):
        raise CudaError(INVALID_CHANNEL, f"channels of {bits} bits of kind {kind}")
    if used[0] not in ((16, 32) if CHANNEL_KINDS[kind] == "float" else (8, 16, 32)):
        raise CudaError(INVALID_CHANNEL, f"channels of {used[0]} bits")
    return TextureFormat(CHANNEL_KINDS[kind], used[0], len(used))


class Textures:
    """The arrays, textures and surfaces of a device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._lie_in: dict[int, Allocation | None] = {}  # objects by their handles, and what their texels lie in
        self._next = 0

    format_of = staticmethod(format_of)

    def array(
        self, channel: tuple[int, int, int, int, int], extent: tuple[int, int, int], flags: int, where: str, levels: int = 0
    ) -> CudaArray:
        """cudaMalloc3DArray, or with levels cudaMallocMipmappedArray. CudaError 1 for extents that no array has."""
        form, (width, height, depth) = format_of(channel), extent
        is_bad = (
            not width
            or (depth and not height and not flags & LAYERED)
            or (flags & CUBE and (width != height or not depth or depth % FACES))
        )
        most = max(width, height, 0 if flags & (LAYERED | CUBE) else depth).bit_length()
        if is_bad or (flags & CUBE and not flags & LAYERED and depth != FACES):
            raise CudaError(INVALID_VALUE, f"an array of {extent}, flags {flags:#x}")
        levels = min(levels, most)  # as cuda_runtime_api.h says of cudaMallocMipmappedArray
        size = sum(level_bytes(form, extent, flags, n) for n in range(max(1, levels)))
        return CudaArray(channel, form, extent, flags, self.device.reserve(size, "array", where), 0, levels)

    def free(self, array: CudaArray) -> None:
        """cudaFreeArray, cudaFreeMipmappedArray. CudaError 1 for a level."""
        if array.offset or array.allocation.size != array.size:
            raise CudaError(INVALID_VALUE, "a level of a mipmapped array, which is freed as a whole")
        self.device.release(array.allocation)

    def _images(self, array: CudaArray) -> list[Image]:
        """The levels of an array."""
        raw = self.device.memory.view(array.address, array.size)
        flags = {"is_layered": bool(array.flags & LAYERED), "is_cube": bool(array.flags & CUBE)}
        return Image.levels_of(array.format, raw, array.extent, max(1, array.levels), **flags)

    def _memory(self, kind: int, address: int, channel: tuple[int, int, int, int, int], sizes: tuple[int, int, int]) -> Image:
        """Linear memory of `sizes[0]` bytes; or pitched memory of a width, a height and a pitch."""
        form = format_of(channel)
        if kind == RESOURCE_LINEAR:
            width = sizes[0] // form.size
            data = self.device.memory.view(address, width * form.size).reshape(1, 1, -1)
            return Image(form, data, width, 1, is_memory=True)
        width, height, pitch = sizes
        raw = self.device.memory.view(address, pitch * (height - 1) + width * form.size)
        rows = [raw[n * pitch : n * pitch + width * form.size] for n in range(height)]
        if not rows or width * form.size > pitch:
            raise CudaError(INVALID_VALUE, f"{height} rows of {width} elements, {pitch} bytes apart")
        data = np.lib.stride_tricks.as_strided(raw, (1, height, width * form.size), (0, pitch, 1))
        return Image(form, data, width, 2)

    def texture(
        self,
        kind: int,
        array: CudaArray | None,
        address: int,
        channel: tuple[int, int, int, int, int],
        sizes: tuple[int, int, int],
        raw: bytes,
    ) -> int:
        """cudaCreateTextureObject, of a resource and the bytes of a cudaTextureDesc: the handle."""
        a, b, c, linear, floats, srgb, *border, normalized, _, between, bias, least, most, _, seamless = struct.unpack("<6i4fiIi3f2i", raw)
        if (kind == RESOURCE_MIPMAPPED) != (array is not None and array.levels > 0):
            raise CudaError(INVALID_VALUE, "a mipmapped array as an array, or an array as a mipmapped one")
        image, *coarser = self._images(array) if array is not None else [self._memory(kind, address, channel, sizes)]
        if any(mode not in range(len(ADDRESS_MODES)) for mode in (a, b, c)):
            raise CudaError(INVALID_VALUE, f"address modes {a}, {b}, {c}")
        if linear and image.format.kind != "float" and not floats:
            raise CudaError(INVALID_FILTER, "linear filtering of integers, which are read as they are")
        if floats and image.format.kind != "float" and image.format.bits == 32:
            raise CudaError(INVALID_NORM, "32-bit integers cannot be read as normalised floats")
        sampler = Sampler(
            address=(ADDRESS_MODES[a], ADDRESS_MODES[b], ADDRESS_MODES[c]), is_linear=bool(linear), is_normalized=bool(normalized),
            gives_floats=bool(floats) and image.format.kind != "float", is_srgb=bool(srgb), is_seamless=bool(seamless),
            is_linear_between_levels=bool(between), bias=bias, least_level=least, most_level=most, border=(border[0], border[1], border[2], border[3]),
        )  # fmt: skip
        return self._keep(Texture(image, sampler, coarser), self.device.memory.at(address) if array is None else array.allocation)

    def surface(self, array: CudaArray) -> int:
        """cudaCreateSurfaceObject: the handle."""
        if not array.flags & SURFACE or array.levels:
            raise CudaError(INVALID_VALUE, "the array was made without cudaArraySurfaceLoadStore")
        return self._keep(Surface(self._images(array)[0]), array.allocation)

    def _keep(self, made: Texture | Surface, lies_in: Allocation | None) -> int:
        self._next += 1
        self.device.machine.memory.objects[self._next] = made
        self._lie_in[self._next] = lies_in
        return self._next

    def forget(self, allocation: Allocation) -> None:
        """Memory is given back: kernels find no object there any more. The program may still destroy them."""
        for handle, lies_in in self._lie_in.items():
            if lies_in is allocation:
                self.device.machine.memory.objects.pop(handle, None)

    def destroy(self, handle: int) -> None:
        """An object is no more. CudaError 1 for none."""
        if handle not in self._lie_in:
            raise CudaError(INVALID_VALUE, f"{handle:#x} is no texture or surface object")
        del self._lie_in[handle]
        self.device.machine.memory.objects.pop(handle, None)
