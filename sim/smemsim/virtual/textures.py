"""Arrays of texels, and the texture and surface objects over them.

An array lies in the card's memory as rows one behind the other, planes one behind the other, level after level: copies to and from it are copies of
rows. How a card orders texels no program sees.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smemsim.machine.texture import Image, Sampler, Surface, Texture
from smemsim.spec.textures import ADDRESS_MODES, TextureFormat
from smemsim.virtual.errors import INVALID_VALUE, CudaError
from smemsim.virtual.memory import Allocation, DeviceMemory

if TYPE_CHECKING:
    from smemsim.virtual.machine import Machine

__all__ = ["LAYERED", "CudaArray", "Textures"]


LAYERED, SURFACE, CUBE = 1, 2, 4  # cudaArrayLayered ...
FACES = 6
KINDS = ("signed", "unsigned", "float")  # cudaChannelFormatKind
RESOURCE_ARRAY, RESOURCE_LINEAR, RESOURCE_PITCHED = 0, 2, 3  # cudaResourceType
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

    @property
    def row_bytes(self) -> int:
        """Of a row."""
        return self.extent[0] * self.format.size

    @property
    def rows(self) -> int:
        """Of a plane."""
        return max(1, self.extent[1])

    @property
    def planes(self) -> int:
        """Slices, layers or faces."""
        return max(1, self.extent[2])


class Device(Protocol):
    """What textures need of the device."""

    memory: DeviceMemory

    @property
    def machine(self) -> Machine:
        """What executes."""

    def reserve(self, size: int, kind: str, where: str = "") -> Allocation:
        """An allocation."""

    def release(self, allocation: Allocation) -> None:
        """Give it back."""


def format_of(channel: tuple[int, int, int, int, int]) -> TextureFormat:
    """Of a cudaChannelFormatDesc: 1, 2 or 4 channels of the same width. CudaError 20 for others."""
    *bits, kind = channel
    used = [b for b in bits if b]
    if bits[: len(used)] != used or len(used) not in (1, 2, 4) or len(set(used)) != 1 or kind >= len(KINDS):
        raise CudaError(INVALID_CHANNEL, f"channels of {bits} bits of kind {kind}")
    if used[0] not in ((16, 32) if KINDS[kind] == "float" else (8, 16, 32)):
        raise CudaError(INVALID_CHANNEL, f"channels of {used[0]} bits")
    return TextureFormat(KINDS[kind], used[0], len(used))


class Textures:
    """The arrays, textures and surfaces of a device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._lie_in: dict[int, Allocation | None] = {}  # objects by their handles, and what their texels lie in
        self._next = 0

    def array(self, channel: tuple[int, int, int, int, int], extent: tuple[int, int, int], flags: int, where: str) -> CudaArray:
        """cudaMalloc3DArray. CudaError 1 for extents that no array has."""
        form, (width, height, depth) = format_of(channel), extent
        is_bad = (
            not width
            or (depth and not height and not flags & LAYERED)
            or (flags & CUBE and (width != height or not depth or depth % FACES))
        )
        if is_bad or (flags & CUBE and not flags & LAYERED and depth != FACES):
            raise CudaError(INVALID_VALUE, f"an array of {extent}, flags {flags:#x}")
        size = form.size * width * max(1, height) * max(1, depth)
        return CudaArray(channel, form, extent, flags, self.device.reserve(size, "array", where))

    def free(self, array: CudaArray) -> None:
        """cudaFreeArray."""
        self.device.release(array.allocation)

    def _image(self, array: CudaArray) -> Image:
        width, height, depth = array.extent
        data = self.device.memory.view(array.allocation.address, array.allocation.size).reshape(array.planes, array.rows, array.row_bytes)
        is_layered, is_cube = bool(array.flags & LAYERED), bool(array.flags & CUBE)
        dimensions = 2 if is_cube else 1 if not height else 2 if is_layered or not depth else 3
        layers = depth // (FACES if is_cube else 1) if is_layered else 0
        return Image(array.format, data, width, dimensions, layers, is_cube)

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
        a, b, c, linear, floats, srgb, *border, normalized = struct.unpack_from("<6i4fi", raw)  # what follows is of levels of detail
        image = self._image(array) if array is not None else self._memory(kind, address, channel, sizes)
        if any(mode not in range(len(ADDRESS_MODES)) for mode in (a, b, c)):
            raise CudaError(INVALID_VALUE, f"address modes {a}, {b}, {c}")
        if linear and image.format.kind != "float" and not floats:
            raise CudaError(INVALID_FILTER, "linear filtering of integers, which are read as they are")
        if floats and image.format.kind != "float" and image.format.bits == 32:
            raise CudaError(INVALID_NORM, "32-bit integers cannot be read as normalised floats")
        sampler = Sampler(
            (ADDRESS_MODES[a], ADDRESS_MODES[b], ADDRESS_MODES[c]), bool(linear), bool(normalized), bool(floats) and image.format.kind != "float",
            bool(srgb), (border[0], border[1], border[2], border[3]),
        )  # fmt: skip
        return self._keep(Texture(image, sampler), self.device.memory.at(address) if array is None else array.allocation)

    def surface(self, array: CudaArray) -> int:
        """cudaCreateSurfaceObject: the handle."""
        if not array.flags & SURFACE:
            raise CudaError(INVALID_VALUE, "the array was made without cudaArraySurfaceLoadStore")
        return self._keep(Surface(self._image(array)), array.allocation)

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
