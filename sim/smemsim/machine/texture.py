"""Textures and surfaces: arrays of texels, how a texture looks at them, and what it gives for coordinates."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from smemsim.arithmetic.filtering import Corner, blend_floats, blend_integers, fixed, in_texels, weights, whole
from smemsim.errors import Unmodelled
from smemsim.spec.srgb import SRGB
from smemsim.spec.textures import TextureFormat

__all__ = ["Image", "Level", "Sampler", "Surface", "Texture"]


CORNERS: tuple[Corner, ...] = tuple((i, j, k) for k, j, i in itertools.product((0, 1), repeat=3))
NANS = {16: np.uint32(0x7FFFE000), 32: np.uint32(0x7FFFFFFF)}


@dataclasses.dataclass(frozen=True, eq=False)
class Level:
    """The texels of a level: bytes (planes, rows, bytes of a row), and the extents in texels; planes are slices, layers or faces."""

    data: np.ndarray
    width: int
    height: int
    depth: int


@dataclasses.dataclass(frozen=True, eq=False)
class Image:
    """An array or a piece of memory as texels. `dimensions` are 1, 2 or 3 without layers and faces; `layers` is 0 where there are none."""

    format: TextureFormat
    levels: tuple[Level, ...]
    dimensions: int
    layers: int = 0
    is_cube: bool = False
    is_memory: bool = False  # linear memory, whose texels are addressed by whole numbers


@dataclasses.dataclass(frozen=True)
class Sampler:
    """How a texture is read: see cudaTextureDesc."""

    address: tuple[str, str, str] = ("clamp", "clamp", "clamp")
    is_linear: bool = False
    is_normalized: bool = False
    gives_floats: bool = False  # of integers: cudaReadModeNormalizedFloat
    is_srgb: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    mips_are_linear: bool = False
    bias: float = 0.0
    least: float = 0.0
    most: float = 0.0
    anisotropy: int = 0
    is_seamless: bool = False


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
        """`txq`: of levels that are not there 0."""
        if level is None:
            return extents(self.image)[query]
        known = np.array([extents(self.image, n)[query] for n in range(len(self.image.levels))] + [0])
        return np.asarray(known[np.minimum(level, len(known) - 1)])

    def sample(
        self, geometry: str, coordinates: Sequence[np.ndarray], number: np.ndarray | None, lod: np.ndarray | None,
        gradients: Sequence[Sequence[np.ndarray]],
    ) -> np.ndarray:  # fmt: skip
        """`tex` with float coordinates. Unmodelled for what nobody has measured."""
        if "cube" in geometry or self.image.is_cube:
            raise Unmodelled("cubemaps")
        if geometry != ("a" * bool(self.image.layers)) + f"{self.image.dimensions}d":
            raise Unmodelled(f"geometry .{geometry} of a texture of {self.image.dimensions} dimensions and {self.image.layers} layers")
        plane = None if number is None else self.layer(number)
        if len(self.image.levels) == 1:
            return self.look(coordinates, plane)
        return self._of_levels(coordinates, plane, lod, is_sloped=bool(gradients))

    def _of_levels(
        self, coordinates: Sequence[np.ndarray], plane: np.ndarray | None, lod: np.ndarray | None, *, is_sloped: bool
    ) -> np.ndarray:
        """The level of detail in 256ths, cut towards zero, with the bias and within the clamps; one level, or two weighed."""
        s = self.sampler
        if is_sloped or (s.mips_are_linear and s.is_linear) or (s.mips_are_linear and self.image.format.kind != "float"):
            raise Unmodelled("levels of detail by derivatives" if is_sloped else "linear filtering within and between levels")
        last = len(self.image.levels) - 1
        at = np.zeros(len(coordinates[0]))
        if lod is not None:  # without one it is 0, and the bias does not count
            at = np.trunc(np.where(np.isnan(lod), 0.0, np.clip(lod, -64, 64)) * 256) + np.trunc(s.bias * 256)
        cut: np.ndarray = np.clip(at, int(s.least * 256), int(min(s.most, last) * 256)).astype(np.int64)
        low = cut >> 8 if s.mips_are_linear else (cut + 128) >> 8
        found, above = np.zeros((2, len(at), 4), np.uint32)
        for n in range(last + 1):
            for out, level in ((found, low), (above, np.minimum(low + 1, last))):
                if len(part := np.flatnonzero(level == n)):
                    out[part] = self.look([x[part] for x in coordinates], None if plane is None else plane[part], n)
        if s.mips_are_linear:
            shares = {(0, 0, 0): 256 - (cut & 255), (0, 0, 1): cut & 255}
            for channel in range(self.image.format.channels):
                pair = {(0, 0, 0): found[:, channel], (0, 0, 1): above[:, channel]}
                floats = {corner: words.copy().view(np.float32).astype(np.float64) for corner, words in pair.items()}
                found[:, channel] = blend_floats(floats, shares, self.image.format.bits).astype(np.float32).view(np.uint32)
        return found

    def look(self, coordinates: Sequence[np.ndarray], plane: np.ndarray | None, level: int = 0) -> np.ndarray:
        """What a level gives at coordinates (n,) of each dimension, in a layer or face."""
        at = self.image.levels[level]
        if self.image.is_memory:
            return np.zeros((len(coordinates[0]), 4), np.uint32)
        sizes = (at.width, at.height, at.depth)[: self.image.dimensions]
        places = [in_texels(x, size) if self.sampler.is_normalized else x for x, size in zip(coordinates, sizes, strict=True)]
        if self.sampler.is_linear and self.is_float:
            return self._filtered(at, places, plane)
        return self._converted(self._texels(at, [whole(x) for x in places], plane, self.modes()))

    def load(self, places: Sequence[np.ndarray], plane: np.ndarray | None, levels: np.ndarray | None = None) -> np.ndarray:
        """The texels at whole coordinates (n,), which no filter concerns."""
        if levels is not None or len(self.image.levels) > 1:
            raise Unmodelled("whole coordinates in levels of detail")
        at = self.image.levels[0]
        if (self.image.dimensions == 1 and not self.image.layers) != self.image.is_memory:
            return np.zeros((len(places[0]), 4), np.uint32)
        inside = np.ones(len(places[0]), bool) if plane is None else plane < len(at.data)
        found = self._converted(
            self._texels(at, list(places), np.where(inside, plane, 0) if plane is not None else None, ("border",) * 3, is_black=True)
        )
        return np.where(inside[:, None], found, np.uint32(0))

    def four(self, coordinates: Sequence[np.ndarray], plane: np.ndarray | None, component: int) -> np.ndarray:
        """`tld4`: one channel of the four texels that a linear filter would weigh, (0, 1), (1, 1), (1, 0), (0, 0)."""
        at = self.image.levels[0]
        places = [
            in_texels(x, size) if self.sampler.is_normalized else x for x, size in zip(coordinates, (at.width, at.height), strict=True)
        ]
        low: list[np.ndarray] = [fixed(x) >> 8 for x in places]
        found = [
            self._converted(self._texels(at, [low[0] + i, low[1] + j], plane, self.modes()))[:, component]
            for i, j in ((0, 1), (1, 1), (1, 0), (0, 0))
        ]
        return np.stack(found, axis=1)

    def _clamped(self, x: np.ndarray, axis: int, size: int) -> np.ndarray:
        """Fixed-point coordinates; where outside is clamped there is nothing to weigh there."""
        return np.clip(x, 0, (size - 1) << 8) if self.modes()[axis] == "clamp" else x

    def _filtered(self, at: Level, places: Sequence[np.ndarray], plane: np.ndarray | None) -> np.ndarray:
        if self.unknown:
            raise Unmodelled(f"texture: {self.unknown}: what a card makes of it is not known")
        sizes = (at.width, at.height, at.depth)
        along = [self._clamped(fixed(x), n, sizes[n]) for n, x in enumerate(places)]
        if len(along) == 1 and plane is None:  # a row is filtered as an image whose height is 1, at the coordinate 0
            along.append(self._clamped(fixed(np.zeros(len(along[0]))), 1, 1))
        fractions = [x & 0xFF for x in along]
        zero = np.zeros_like(fractions[0])
        shares = weights(*fractions, *[zero] * (3 - len(fractions)))
        shares = {corner: share for corner, share in shares.items() if share.any()}
        texels = {
            corner: self._texels(at, [(x >> 8) + step for x, step in zip(along, corner, strict=False)], plane, self.modes())
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

    def _texels(
        self, at: Level, places: list[np.ndarray], plane: np.ndarray | None, modes: Sequence[str], *, is_black: bool = False
    ) -> np.ndarray:
        """The elements (n, channels) at whole coordinates of each dimension, by the address modes; a row may have a second coordinate."""
        form = self.image.format
        n, outside = len(places[0]), np.zeros(len(places[0]), bool)
        sizes, index = (at.width, at.height, at.depth), [np.zeros(n, np.int64)] * 3
        for axis, place in enumerate(places):
            index[axis], beyond = _ADDRESS[modes[axis]](place, sizes[axis])
            outside |= beyond
        if plane is not None:
            index[2] = plane
        elements = at.data.reshape(at.data.shape[0], at.data.shape[1], -1, form.size)[index[2], index[1], index[0]].view(form.name)
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
    """A surface object: the bytes of an array, by coordinates of which x counts bytes, or elements where a store is formatted."""

    def __init__(self, image: Image) -> None:
        self.image, self.level = image, image.levels[0]
        self.bytes = self.level.data.reshape(-1)

    def places(self, at: Sequence[np.ndarray], layer: np.ndarray | None, size: int, clamp: str) -> tuple[np.ndarray, np.ndarray]:
        """(the first byte, is it inside?) of accesses of `size` bytes, of an element where that is 0. Unmodelled for what nobody has measured."""
        if clamp == "clamp":
            raise Unmodelled("accesses that are clamped (cudaBoundaryModeClamp)")
        element = self.image.format.size
        x = at[0] * element if not size else at[0]
        width = size or element
        if (x % width).any():
            raise Unmodelled("an x that is no multiple of the size of the access")
        row = self.level.width * element
        y = at[1] if len(at) > 1 else np.zeros_like(x)
        z = at[2] if len(at) > 2 else layer if layer is not None else np.zeros_like(x)
        depth, height = self.level.data.shape[:2]
        inside = (x >= 0) & (x + width <= row) & (y >= 0) & (y < height) & (z >= 0) & (z < depth)
        return np.asarray((z * height + y) * row + x), inside

    def elements(self, values: np.ndarray) -> np.ndarray:
        """The bytes of the elements that a formatted store makes of 32-bit values (n, channels)."""
        raise Unmodelled("formatted stores")

    def asked(self, query: str, level: np.ndarray | None) -> int:
        """`suq`."""
        return extents(self.image, is_surface=True)[query]


def extents(image: Image, level: int = 0, *, is_surface: bool = False) -> dict[str, int]:
    """What txq and suq give as width, height and depth of a level (seen on an H100)."""
    at = image.levels[level]
    if image.is_memory:
        return {"width": at.width, "height": 0, "depth": 0}
    if image.dimensions == 1:
        return {"width": at.width, "height": image.layers or (0 if is_surface else 1), "depth": 0}
    depth = len(at.data) if image.dimensions == 3 or (is_surface and image.is_cube) else image.layers
    return {"width": at.width, "height": at.height, "depth": depth}
