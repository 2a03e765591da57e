"""The parts of textures and surfaces, and the fixed-point numbers of filtering."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ADDRESS_MODES", "ARRAY_FORMATS", "CHANNEL_KINDS", "CUBE", "FILTERING", "LAYERED", "QUERIES", "SURFACE", "SURFACE_QUERIES", "Filtering", "TextureFormat",
]  # fmt: skip


CHANNEL_KINDS = ("signed", "unsigned", "float")  # cudaChannelFormatKind
LAYERED, SURFACE, CUBE = 1, 2, 4  # of an array: cudaArrayLayered ..., CUDA_ARRAY3D_LAYERED ...
ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")  # cudaTextureAddressMode, CUaddress_mode


class TextureFormat(NamedTuple):
    """The elements of an array: `channels` of `bits` each, "signed", "unsigned" or "float"."""

    kind: str
    bits: int
    channels: int

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.bits // 8 * self.channels

    @property
    def name(self) -> str:
        """The type of a channel as numpy has it."""
        return f"{self.kind[0] if self.kind != 'signed' else 'i'}{self.bits // 8}"


# CUarray_format: the kind and the bits of a channel (cuda.h; block-compressed and planar formats are not here).
ARRAY_FORMATS = {
    0x01: ("unsigned", 8), 0x02: ("unsigned", 16), 0x03: ("unsigned", 32), 0x08: ("signed", 8), 0x09: ("signed", 16), 0x0A: ("signed", 32),
    0x10: ("float", 16), 0x20: ("float", 32),
}  # fmt: skip


class Filtering(NamedTuple):
    """Bits of fixed-point numbers: a normalised coordinate has `coordinate` fraction bits, a weight has `weight`.

    Texels of one sum are cut `texels` bits (by bits of the element; `srgb` bits for sRGB) below the largest exponent.
    Planes are aligned to exponents (of significands below 1) that are `phase` plus multiples of `step`.
    """

    coordinate: int
    weight: int
    texels: dict[int, int]
    srgb: int
    step: int
    phase: int
    source: str


QUERIES = SURFACE_QUERIES = ("width", "height", "depth")  # of txq and suq; the driver of an H100 loads no other


FILTERING = Filtering(21, 8, {32: 28, 16: 15}, 8, 4, 2, "golden/sm_90a/textures")
