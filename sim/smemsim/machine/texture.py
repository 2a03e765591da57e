"""Textures and surfaces: arrays of texels, how a texture looks at them, and what it gives for coordinates."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from smemsim.arithmetic.filtering import Corner, blend_floats, blend_integers, fixed, in_texels, weights, whole
from smemsim.errors import Unmodelled
from smemsim.spec.srgb import SRGB
from smemsim.spec.textures import FILTERING, TextureFormat

__all__ = ["Image", "Sampler", "Surface", "Texture"]


CORNERS: tuple[Corner, ...] = tuple((i, j, k) for k, j, i in itertools.product((0, 1), repeat=3))
NANS = {16: np.uint32(0x7FFFE000), 32: np.uint32(0x7FFFFFFF)}


@dataclasses.dataclass(frozen=True, eq=False)
class Image:
    """An array or a piece of memory as texels: bytes (planes, rows, bytes of a row), where planes are slices, layers or faces, and the extents in texels.

    `dimensions` are 1, 2 or 3 without layers and faces; `layers` is 0 where there are none.
    """

    format: TextureFormat
    data: np.ndarray
    width: int
    dimensions: int
    layers: int = 0
    is_cube: bool = False
    is_memory: bool = False  # linear memory, whose texels are addressed by whole numbers

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Width, height and planes."""
        return self.width, self.data.shape[1], self.data.shape[0]

    @property
    def geometry(self) -> str:
        """The geometry by which instructions name it."""
        return "a" * bool(self.layers) + ("cube" if self.is_cube else f"{self.dimensions}d")

    def extents(self, *, is_surface: bool = False) -> dict[str, int]:
        """What txq and suq give as width, height and depth (seen on an H100)."""
        width, height, planes = self.sizes
        if self.is_memory:
            return {"width": width, "height": 0, "depth": 0}
        if self.dimensions == 1:
            return {"width": width, "height": self.layers or (0 if is_surface else 1), "depth": 0}
        return {"width": width, "height": height, "depth": planes if self.dimensions == 3 or (is_surface and self.is_cube) else self.layers}


@dataclasses.dataclass(frozen=True)
class Sampler:
    """How a texture is read: see cudaTextureDesc."""

    address: tuple[str, str, str] = ("clamp", "clamp", "clamp")
    is_linear: bool = False
    is_normalized: bool = False
    gives_floats: bool = False  # of integers: cudaReadModeNormalizedFloat
    is_srgb: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


class Texture:
    """A texture object. Results are (n, 4) words: the bits of f32, or integers extended to 32 bits; channels that the format lacks are 0."""

    def __init__(self, image: Image, sampler: Sampler) -> None:
        self.image, self.sampler = image, sampler
        form = image.format
        self.is_float = form.kind == "float" or sampler.gives_floats
        if sampler.is_linear and self.is_float and form.kind == "signed" and form.bits == 8:
            self.unknown = "linear filtering of signed 8-bit elements"
        elif sampler.is_linear and sampler.is_srgb:
            self.unknown = "linear filtering of sRGB elements"
        else:
            self.unknown = ""

    def modes(self) -> tuple[str, str, str]:
        """The address modes that count: coordinates in texels have no other than clamp and border."""
        if self.sampler.is_normalized:
            return self.sampler.address
        a, b, c = ("border" if mode == "border" else "clamp" for mode in self.sampler.address)
        return a, b, c

    def layer(self, number: np.ndarray) -> np.ndarray:
        """The layer that a number (n,) names, which counts as unsigned: beyond the last one that one."""
        return np.asarray(np.minimum(number, max(self.image.layers, 1) - 1))

    def asked(self, query: str, level: np.ndarray | None) -> np.ndarray | int:
        """`txq`: there is one level, and of others it gives 0."""
        found = self.image.extents()[query]
        return found if level is None else np.where(level == 0, found, 0)

    def _check(self, geometry: str) -> None:
        """Unmodelled for an instruction of another geometry than the texture's."""
        if "cube" in geometry or self.image.is_cube:
            raise Unmodelled("cubemaps")
        if geometry != self.image.geometry:
            raise Unmodelled(f"geometry .{geometry} of a texture of .{self.image.geometry}")

    def sample(self, geometry: str, coordinates: Sequence[np.ndarray], number: np.ndarray | None) -> np.ndarray:
        """`tex` with float coordinates (n,) of each dimension, in a layer. The only level is read, whatever level or derivatives are asked for."""
        self._check(geometry)
        if self.image.is_memory:
            return np.zeros((len(coordinates[0]), 4), np.uint32)
        plane = None if number is None else self.layer(number)
        places = self._in_texels(coordinates)
        if self.sampler.is_linear and self.is_float:
            return self._filtered(places, plane)
        return self._converted(self._texels([whole(x) for x in places], plane, self.modes()))

    def _in_texels(self, coordinates: Sequence[np.ndarray]) -> list[np.ndarray]:
        sizes = self.image.sizes[: self.image.dimensions]
        return [in_texels(x, size) if self.sampler.is_normalized else x for x, size in zip(coordinates, sizes, strict=True)]

    def load(self, places: Sequence[np.ndarray], plane: np.ndarray | None) -> np.ndarray:
        """The texels at whole coordinates (n,), which no filter concerns."""
        image = self.image
        if (image.dimensions == 1 and not image.layers) != image.is_memory:
            return np.zeros((len(places[0]), 4), np.uint32)
        inside = np.ones(len(places[0]), bool) if plane is None else plane < len(image.data)
        found = self._converted(
            self._texels(list(places), None if plane is None else np.where(inside, plane, 0), ("border",) * 3, is_black=True)
        )
        return np.where(inside[:, None], found, np.uint32(0))

    def four(self, geometry: str, coordinates: Sequence[np.ndarray], number: np.ndarray | None, component: int) -> np.ndarray:
        """`tld4`: one channel of the four texels that a linear filter would weigh, (0, 1), (1, 1), (1, 0), (0, 0)."""
        self._check(geometry)
        plane = None if number is None else self.layer(number)
        low: list[np.ndarray] = [fixed(x) >> FILTERING.weight for x in self._in_texels(coordinates)]
        found = [
            self._converted(self._texels([low[0] + i, low[1] + j], plane, self.modes()))[:, component]
            for i, j in ((0, 1), (1, 1), (1, 0), (0, 0))
        ]
        return np.stack(found, axis=1)

    def _clamped(self, x: np.ndarray, axis: int, size: int) -> np.ndarray:
        """Fixed-point coordinates; where outside is clamped there is nothing to weigh there."""
        return np.clip(x, 0, (size - 1) << FILTERING.weight) if self.modes()[axis] == "clamp" else x

    def _filtered(self, places: Sequence[np.ndarray], plane: np.ndarray | None) -> np.ndarray:
        if self.unknown:
            raise Unmodelled(f"texture: {self.unknown}: what a card makes of it is not known")
        along = [self._clamped(fixed(x), n, self.image.sizes[n]) for n, x in enumerate(places)]
        if len(along) == 1 and plane is None:  # a row is filtered as an image whose height is 1, at the coordinate 0
            along.append(self._clamped(fixed(np.zeros(len(along[0]))), 1, 1))
        fractions = [x & (1 << FILTERING.weight) - 1 for x in along]
        zero = np.zeros_like(fractions[0])
        shares = weights(*fractions, *[zero] * (3 - len(fractions)))
        shares = {corner: share for corner, share in shares.items() if share.any()}
        texels = {
            corner: self._texels([(x >> FILTERING.weight) + step for x, step in zip(along, corner, strict=False)], plane, self.modes())
            for corner in shares
        }
        found = np.zeros((len(zero), 4), np.uint32)
        for channel in range(self.image.format.channels):
            found[:, channel] = self._blended({corner: texel[:, channel] for corner, texel in texels.items()}, shares)
        return found

    def _blended(self, texels: Mapping[Corner, np.ndarray], shares: Mapping[Corner, np.ndarray]) -> np.ndarray:
        """The bits of f32 of one channel."""
        form = self.image.format
        if form.kind == "float":
            with np.errstate(invalid="ignore", over="ignore"):
                value = blend_floats({c: t.astype(np.float64) for c, t in texels.items()}, shares, form.bits).astype(np.float32)
            return np.where(np.isnan(value), NANS[form.bits], value.view(np.uint32))
        wide = {c: t.astype(np.int64) * 257 if form.bits == 8 else t for c, t in texels.items()}
        most = 0xFFFF if form.kind == "unsigned" else 0x7FFF
        return np.asarray((np.maximum(blend_integers(wide, shares), -most) / most).astype(np.float32).view(np.uint32))

    def _texels(self, places: list[np.ndarray], plane: np.ndarray | None, modes: Sequence[str], *, is_black: bool = False) -> np.ndarray:
        """The elements (n, channels) at whole coordinates of each dimension, by the address modes; a row may have a second coordinate."""
        form = self.image.format
        n, outside = len(places[0]), np.zeros(len(places[0]), bool)
        sizes, index = self.image.sizes, [np.zeros(n, np.int64)] * 3
        for axis, place in enumerate(places):
            index[axis], beyond = _ADDRESS[modes[axis]](place, sizes[axis])
            outside |= beyond
        if plane is not None:
            index[2] = plane
        data = self.image.data
        elements = data.reshape(*data.shape[:2], -1, form.size)[index[2], index[1], index[0]].view(form.name)
        if outside.any():
            elements = elements.copy()
            elements[outside] = 0 if is_black else self._border()
        return elements

    def _border(self) -> np.ndarray:
        """The element that lies outside."""
        form = self.image.format
        color = np.array(self.sampler.border[: form.channels], np.float32)
        if form.kind == "float":
            return color if form.bits == 32 else np.clip(color, -65504, 65504).astype(np.float16)
        if not self.is_float:  # the lower bits of the float
            return color.view(np.uint32).astype(f"u{form.bits // 8}").view(form.name)
        most = (1 << form.bits - (form.kind == "signed")) - 1
        return np.asarray(np.rint(np.clip(color, -1 if form.kind == "signed" else 0, 1).astype(np.float64) * most).astype(form.name))

    def _converted(self, elements: np.ndarray) -> np.ndarray:
        """Elements (n, channels) as the words that an instruction gives."""
        form, found = self.image.format, np.zeros((len(elements), 4), np.uint32)
        if form.kind == "float":
            with np.errstate(invalid="ignore"):
                words = np.ascontiguousarray(elements.astype(np.float32)).view(np.uint32)
        elif not self.is_float:
            words = elements.astype(np.int64).astype(np.uint32)
        else:
            most = (1 << form.bits - (form.kind == "signed")) - 1
            words = (np.maximum(elements.astype(np.float64), -most) / most).astype(np.float32).view(np.uint32)
            if self.sampler.is_srgb:
                words[:, :3] = SRGB[elements[:, :3]]
        found[:, : form.channels] = words
        return found


def _wrap(x: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    return x % size, np.zeros(len(x), bool)


def _clamp(x: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    return np.clip(x, 0, size - 1), np.zeros(len(x), bool)


def _mirror(x: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    folded = x % (2 * size)
    return np.minimum(folded, 2 * size - 1 - folded), np.zeros(len(x), bool)


def _outside(x: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    return np.clip(x, 0, size - 1), (x < 0) | (x >= size)


_ADDRESS: dict[str, Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]] = {
    "wrap": _wrap, "clamp": _clamp, "mirror": _mirror, "border": _outside,
}  # fmt: skip


class Surface:
    """A surface object: the bytes of an array, by coordinates of which x counts bytes."""

    def __init__(self, image: Image) -> None:
        self.image, self.bytes = image, image.data.reshape(-1)

    def places(
        self, geometry: str, at: Sequence[np.ndarray], layer: np.ndarray | None, size: int, clamp: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """(the first byte, is it inside?) of accesses of `size` bytes. Unmodelled for what nobody has measured."""
        if clamp == "clamp":
            raise Unmodelled("accesses that are clamped (cudaBoundaryModeClamp)")
        if geometry != self.image.geometry:
            raise Unmodelled(f"geometry .{geometry} of a surface of .{self.image.geometry}")
        if (at[0] % size).any():
            raise Unmodelled("an x that is no multiple of the size of the access")
        x, row = at[0], self.image.data.shape[2]
        y = at[1] if len(at) > 1 else np.zeros_like(x)
        z = at[2] if len(at) > 2 else layer if layer is not None else np.zeros_like(x)
        depth, height = self.image.data.shape[:2]
        inside = (x >= 0) & (x + size <= row) & (y >= 0) & (y < height) & (z >= 0) & (z < depth)
        return np.asarray((z * height + y) * row + x), inside

    def asked(self, query: str, level: np.ndarray | None) -> int:
        """`suq`."""
        return self.image.extents(is_surface=True)[query]
