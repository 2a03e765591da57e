"""Textures and surfaces: arrays of texels, how a texture looks at them, and what it gives for coordinates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import Unmodelled
from smemsim.core.arithmetic.cubemaps import FACES, beside, face_of, without_corner
from smemsim.core.arithmetic.filtering import (
    ONE,
    Corner,
    blend_floats,
    blend_integers,
    blend_signed_bytes,
    blend_srgb,
    fixed,
    in_texels,
    level_of,
    weights,
    whole,
)
from smemsim.core.spec.srgb import SRGB
from smemsim.core.spec.textures import FILTERING, TextureFormat

__all__ = ["Image", "Sampler", "Surface", "Texture", "level_extent"]


NANS = {16: np.uint32(0x7FFFE000), 32: np.uint32(0x7FFFFFFF)}


@dataclasses.dataclass(frozen=True, eq=False)
class Image:
    """An array or a piece of memory as texels: bytes (planes, rows, bytes of a row), with the extents in texels. Planes
    are slices, layers or faces.

    `dimensions` are 1, 2 or 3, without layers and faces. `layers` is 0 if there are none.
    """

    format: TextureFormat
    data: np.ndarray
    width: int
    dimensions: int
    layers: int = 0
    is_cube: bool = False
    is_memory: bool = False  # linear memory, whose texels are addressed by whole numbers

    @classmethod
    def of_array(
        cls, form: TextureFormat, raw: np.ndarray, extent: tuple[int, int, int], *, is_layered: bool = False, is_cube: bool = False
    ) -> Image:
        """An array or one level of it. A missing dimension has extent 0. The bytes are rows, planes one after the
        other.

        >>> Image.of_array(TextureFormat("float", 32, 1), np.zeros(96, np.uint8), (4, 0, 6), is_layered=True).geometry
        'a1d'
        """
        width, height, depth = extent
        dimensions = 2 if is_cube else 1 if not height else 2 if is_layered or not depth else 3
        layers = depth // (FACES if is_cube else 1) if is_layered else 0
        return cls(form, raw.reshape(max(1, depth), max(1, height), -1), width, dimensions, layers, is_cube)

    @classmethod
    def levels_of(
        cls,
        form: TextureFormat,
        raw: np.ndarray,
        extent: tuple[int, int, int],
        count: int,
        *,
        is_layered: bool = False,
        is_cube: bool = False,
    ) -> list[Image]:
        """The levels of detail of a mipmapped array, one after the other, each of half the extent.

        >>> [level.sizes for level in Image.levels_of(TextureFormat("unsigned", 8, 1), np.zeros(21, np.uint8), (5, 3, 0), 3)]
        [(5, 3, 1), (2, 1, 1), (1, 1, 1)]
        """
        out, begin = [], 0
        for n in range(count):
            level = level_extent(extent, n, is_layered=is_layered or is_cube)
            size = form.size * np.prod([max(1, x) for x in level]).item()
            out.append(cls.of_array(form, raw[begin : begin + size], level, is_layered=is_layered, is_cube=is_cube))
            begin += size
        return out

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Width, height and planes."""
        return self.width, self.data.shape[1], self.data.shape[0]

    @property
    def geometry(self) -> str:
        """The geometry by which instructions name it."""
        return "a" * bool(self.layers) + ("cube" if self.is_cube else f"{self.dimensions}d")

    def extents(self, *, is_surface: bool = False) -> dict[str, int]:
        """The width, height and depth that txq and suq return (seen on an H100)."""
        width, height, planes = self.sizes
        if self.is_memory:
            return {"width": width, "height": 0, "depth": 0}
        if self.dimensions == 1:
            return {"width": width, "height": self.layers or (0 if is_surface else 1), "depth": 0}
        return {"width": width, "height": height, "depth": planes if self.dimensions == 3 or (is_surface and self.is_cube) else self.layers}


def level_extent(extent: tuple[int, int, int], level: int, *, is_layered: bool) -> tuple[int, int, int]:
    """Width, height and depth of a level of detail: layers and faces stay, a dimension that there is not stays 0.

    >>> level_extent((9, 0, 4), 2, is_layered=True)
    (2, 0, 4)
    """
    width, height, depth = (max(1, x >> level) if x else 0 for x in extent)
    return width, height, extent[2] if is_layered else depth


@dataclasses.dataclass(frozen=True)
class Sampler:
    """How a texture is read: see cudaTextureDesc."""

    address: tuple[str, str, str] = ("clamp", "clamp", "clamp")
    is_linear: bool = False
    is_normalized: bool = False
    gives_floats: bool = False  # of integers: cudaReadModeNormalizedFloat
    is_srgb: bool = False
    is_seamless: bool = False  # cubemaps
    is_linear_between_levels: bool = False
    bias: float = 0.0
    least_level: float = 0.0
    most_level: float = 0.0
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


class Texture:
    """A texture object. Results are (n, 4) words: the bits of f32, or integers extended to 32 bits; channels that the
    format lacks are 0.
    """

    def __init__(self, image: Image, sampler: Sampler, coarser: Sequence[Image] = ()) -> None:
        self.image, self.sampler, self.levels = image, sampler, (image, *coarser)
        self.is_float = image.format.kind == "float" or sampler.gives_floats

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
        """`txq`: of levels that there are not, it gives 0."""
        if level is None:
            return self.image.extents()[query]
        each = np.array([*(image.extents()[query] for image in self.levels), 0])
        return np.asarray(each[np.where((level >= 0) & (level < len(self.levels)), level, -1)])

    def _check(self, geometry: str) -> None:
        """Unmodelled for an instruction of another geometry than the texture's."""
        if geometry != self.image.geometry:
            raise Unmodelled(f"geometry .{geometry} of a texture of .{self.image.geometry}")

    def sample(
        self, geometry: str, coordinates: Sequence[np.ndarray], number: np.ndarray | None, lod: np.ndarray | None = None
    ) -> np.ndarray:
        """`tex` with float coordinates (n,) of each dimension, in a layer, at a level of detail (without one the finest
        that the sampler allows).
        """
        self._check(geometry)
        if self.image.is_memory:
            return np.zeros((len(coordinates[0]), 4), np.uint32)
        plane = None if number is None else self.layer(number)
        if self.image.is_cube:
            face, *coordinates = face_of(*coordinates)
            plane = face if plane is None else plane * FACES + face
        level = self._level(lod, len(coordinates[0]))
        is_blended = self.sampler.is_linear_between_levels and len(self.levels) > 1
        if self.is_float and (self.sampler.is_linear or is_blended):
            return self._filtered(coordinates, plane, level)
        return self._nearest(coordinates, plane, level)

    def grad(self, geometry: str, coordinates: Sequence[np.ndarray], number: np.ndarray | None) -> np.ndarray:
        """`tex.grad`: which level derivatives ask for is not known where there is a choice."""
        if len(self.levels) > 1 and self.sampler.least_level < min(self.sampler.most_level, len(self.levels) - 1):
            raise Unmodelled("levels of detail by derivatives")
        return self.sample(geometry, coordinates, number)

    def _level(self, lod: np.ndarray | None, n: int) -> np.ndarray:
        """Which level (n,) of detail, in 256ths."""
        last, sampler = len(self.levels) - 1, self.sampler
        if not last:
            return np.zeros(n, np.int64)
        least, most, bias = level_of(np.array([sampler.least_level, sampler.most_level, sampler.bias])).tolist()
        found = np.full(n, least) if lod is None else np.clip(level_of(lod) + bias, least, most)
        found = np.clip(found, 0, last * ONE)
        return np.asarray(found if sampler.is_linear_between_levels else (found + ONE // 2) // ONE * ONE)

    def _in_texels(self, coordinates: Sequence[np.ndarray], image: Image) -> list[np.ndarray]:
        is_normalized = self.sampler.is_normalized or image.is_cube or len(self.levels) > 1  # whatever the sampler says
        return [in_texels(x, size) if is_normalized else x for x, size in zip(coordinates, image.sizes, strict=False)]

    def _nearest(self, coordinates: Sequence[np.ndarray], plane: np.ndarray | None, level: np.ndarray) -> np.ndarray:
        out = np.zeros((len(level), 4), np.uint32)
        number = (level + ONE // 2) >> FILTERING.weight
        for n in distinct(number).tolist():
            part = np.flatnonzero(number == n)
            places = [whole(x[part]) for x in self._in_texels(coordinates, self.levels[n])]
            out[part] = self._converted(self._texels(self.levels[n], places, None if plane is None else plane[part], self.modes()))
        return out

    def load(self, places: Sequence[np.ndarray], plane: np.ndarray | None, level: np.ndarray | None = None) -> np.ndarray:
        """The texels at whole coordinates (n,), which no filter concerns; outside they are 0, but in a level of detail
        clamped.
        """
        image = self.image
        if len(self.levels) > 1:
            return self._load_level(places, level)
        if (image.dimensions == 1 and not image.layers) != image.is_memory:
            return np.zeros((len(places[0]), 4), np.uint32)
        inside = np.ones(len(places[0]), bool) if plane is None else plane < len(image.data)
        found = self._converted(
            self._texels(image, list(places), None if plane is None else np.where(inside, plane, 0), ("border",) * 3, is_black=True)
        )
        return np.where(inside[:, None], found, np.uint32(0))

    def _load_level(self, places: Sequence[np.ndarray], level: np.ndarray | None) -> np.ndarray:
        if level is None or self.image.geometry != "2d" or set(self.sampler.address[:2]) != {"clamp"}:
            raise Unmodelled("whole coordinates in a mipmapped array, but .level.2d that is clamped")
        out = np.zeros((len(level), 4), np.uint32)
        for n, image in enumerate(self.levels):
            part = np.flatnonzero(level == n)
            out[part] = self._converted(self._texels(image, [x[part] for x in places], None, ("clamp",) * 3))
        return out

    def four(self, geometry: str, coordinates: Sequence[np.ndarray], number: np.ndarray | None, component: int) -> np.ndarray:
        """`tld4`: one channel of the four texels that a linear filter would weigh, (0, 1), (1, 1), (1, 0), (0, 0)."""
        self._check(geometry)
        if len(self.levels) > 1:
            raise Unmodelled("levels of detail")
        plane = None if number is None else self.layer(number)
        low: list[np.ndarray] = [fixed(x) >> FILTERING.weight for x in self._in_texels(coordinates, self.image)]
        found = [
            self._converted(self._texels(self.image, [low[0] + i, low[1] + j], plane, self.modes()))[:, component]
            for i, j in ((0, 1), (1, 1), (1, 0), (0, 0))
        ]
        return np.stack(found, axis=1)

    def _clamped(self, x: np.ndarray, axis: int, size: int) -> np.ndarray:
        """Fixed-point coordinates; where outside is clamped there is nothing to weigh there."""
        return np.clip(x, 0, (size - 1) << FILTERING.weight) if self.modes()[axis] == "clamp" else x

    def _filtered(self, coordinates: Sequence[np.ndarray], plane: np.ndarray | None, level: np.ndarray) -> np.ndarray:
        n, channels = len(level), self.image.format.channels
        finer, part = level >> FILTERING.weight, level & ONE - 1
        shares: dict[Corner, np.ndarray] = {}
        texels: dict[Corner, np.ndarray] = {}
        for side, share in ((0, ONE - part), (1, part)):
            number = np.where(share == 0, -1, finer + side)
            for which in distinct(number[share != 0]).tolist():
                own = np.flatnonzero(number == which)
                found = self._weighed(
                    [x[own] for x in coordinates], None if plane is None else plane[own], self.levels[which], share[own], side
                )
                for corner, (weight, texel) in found.items():
                    shares.setdefault(corner, np.zeros(n, np.int64))[own] = weight
                    texels.setdefault(corner, np.zeros((n, channels), texel.dtype))[own] = texel
        out = np.zeros((n, 4), np.uint32)
        for channel in range(channels if n else 0):
            out[:, channel] = self._blended({corner: texel[:, channel] for corner, texel in texels.items()}, shares, channel)
        return out

    def _weighed(
        self, coordinates: Sequence[np.ndarray], plane: np.ndarray | None, image: Image, share: np.ndarray, side: int
    ) -> dict[Corner, tuple[np.ndarray, np.ndarray]]:
        """The texels of one level that a sample weighs, and their weights, which add up to its share."""
        places = self._in_texels(coordinates, image)
        if not self.sampler.is_linear:
            return {(0, 0, 0, side): (share, self._texels(image, [whole(x) for x in places], plane, self.modes()))}
        is_seamless = image.is_cube and self.sampler.is_seamless
        along = [fixed(x) if is_seamless else self._clamped(fixed(x), n, image.sizes[n]) for n, x in enumerate(places)]
        if len(along) == 1 and plane is None:  # a row is filtered as an image whose height is 1, at the coordinate 0
            along.append(self._clamped(fixed(np.zeros(len(along[0]))), 1, 1))
        fractions = [x & ONE - 1 for x in along]
        low = [x >> FILTERING.weight for x in along]
        fractions += [np.zeros_like(share)] * (3 - len(fractions))
        shares = weights(fractions[0], fractions[1], fractions[2], share, side)
        shares = {corner: weight for corner, weight in shares.items() if weight.any()}
        if not is_seamless or plane is None:
            return {
                corner: (weight, self._texels(image, [x + step for x, step in zip(low, corner, strict=False)], plane, self.modes()))
                for corner, weight in shares.items()
            }
        return self._across(image, low, plane, shares)

    def _across(
        self, image: Image, low: list[np.ndarray], plane: np.ndarray, shares: dict[Corner, np.ndarray]
    ) -> dict[Corner, tuple[np.ndarray, np.ndarray]]:
        """Texels of a seamless cubemap, some of them past the edge of their face."""
        size, places = image.width, {corner: (low[0] + corner[0], low[1] + corner[1]) for corner in shares}
        for (i, j, k, side), weight in list(shares.items()):
            x, y = places[i, j, k, side]
            lost = np.where(((x < 0) | (x >= size)) & ((y < 0) | (y >= size)), weight, 0)
            if lost.any():
                part, own = without_corner(lost)
                for column, row, more in ((i, j, -lost), (1 - i, j, part), (i, 1 - j, part), (1 - i, 1 - j, own)):
                    shares[column, row, k, side] = shares[column, row, k, side] + more
        out = {}
        for corner, weight in shares.items():
            face, columns, rows = beside(plane % FACES, *places[corner], size)
            out[corner] = weight, self._texels(image, [columns, rows], plane // FACES * FACES + face, ("clamp",) * 3)
        return out

    def _blended(self, texels: Mapping[Corner, np.ndarray], shares: Mapping[Corner, np.ndarray], channel: int) -> np.ndarray:
        """The bits of f32 of one channel."""
        form = self.image.format
        if form.kind == "float":
            with np.errstate(invalid="ignore", over="ignore"):
                value = blend_floats({c: t.astype(np.float64) for c, t in texels.items()}, shares, form.bits).astype(np.float32)
            return np.where(np.isnan(value), NANS[form.bits], value.view(np.uint32))
        if self.sampler.is_srgb and channel < 3:
            return blend_srgb(texels, shares).astype(np.float32).view(np.uint32)
        if form.kind == "signed":
            found = blend_signed_bytes(texels, shares) if form.bits == 8 else np.maximum(blend_integers(texels, shares), -0x7FFF)
            return np.asarray((found / 0x7FFF).astype(np.float32).view(np.uint32))
        wide = {c: t.astype(np.int64) * 257 if form.bits == 8 else t for c, t in texels.items()}
        return np.asarray((blend_integers(wide, shares) / 0xFFFF).astype(np.float32).view(np.uint32))

    def _texels(
        self, image: Image, places: list[np.ndarray], plane: np.ndarray | None, modes: Sequence[str], *, is_black: bool = False
    ) -> np.ndarray:
        """The elements (n, channels) at whole coordinates of each dimension, by the address modes; a row may have a
        second coordinate.
        """
        form = image.format
        n, outside = len(places[0]), np.zeros(len(places[0]), bool)
        sizes, index = image.sizes, [np.zeros(n, np.int64)] * 3
        for axis, place in enumerate(places):
            index[axis], beyond = _ADDRESS[modes[axis]](place, sizes[axis])
            outside |= beyond
        if plane is not None:
            index[2] = plane
        data = image.data
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
                words[:, :3] = SRGB[elements[:, :3]].view(np.uint32)
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
    """A surface object: the bytes of an array, by coordinates of which x counts bytes; formatted accesses count
    elements.
    """

    def __init__(self, image: Image) -> None:
        self.image, self.bytes = image, image.data.reshape(-1)

    def places(
        self, geometry: str, at: Sequence[np.ndarray], layer: np.ndarray | None, size: int, clamp: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """(the first byte, is it inside?) of accesses of `size` bytes, of which x is taken to be a multiple."""
        if geometry != self.image.geometry:
            raise Unmodelled(f"geometry .{geometry} of a surface of .{self.image.geometry}")
        x, row = at[0] // size * size, self.image.data.shape[2]
        y = at[1] if len(at) > 1 else np.zeros_like(x)
        z = at[2] if len(at) > 2 else layer if layer is not None else np.zeros_like(x)
        depth, height = self.image.data.shape[:2]
        if clamp == "clamp" and size <= row:
            beyond = np.where(z < 0, depth - 1, z) if layer is not None else z  # a layer counts as unsigned
            x, y, z = np.clip(x, 0, row - size), np.clip(y, 0, height - 1), np.clip(beyond, 0, depth - 1)
        inside = (x >= 0) & (x + size <= row) & (y >= 0) & (y < height) & (z >= 0) & (z < depth)
        return np.asarray((z * height + y) * row + x), inside

    def elements(self, words: np.ndarray) -> np.ndarray:
        """The bytes (n, size) that a formatted store makes of words (n, 4): integers are limited to what the format
        has, floats are cut.

        >>> small = Surface(Image.of_array(TextureFormat("unsigned", 8, 1), np.zeros(4, np.uint8), (4, 0, 0)))
        >>> small.elements(np.array([[7, 0, 0, 0], [300, 0, 0, 0]], np.uint32)).tolist()
        [[7], [255]]
        """
        form = self.image.format
        used = np.ascontiguousarray(words[:, : form.channels])
        if form.bits == 32:
            return used.view(np.uint8)
        if form.kind == "float":
            return np.ascontiguousarray(_cut_to_half(used.view(np.float32))).view(np.uint8)
        most = 1 << form.bits - (form.kind == "signed")
        numbers = used.view(np.int32) if form.kind == "signed" else used
        return np.clip(numbers.astype(np.int64), -most if form.kind == "signed" else 0, most - 1).astype(form.name).view(np.uint8)

    def asked(self, query: str, level: np.ndarray | None) -> int:
        """`suq`."""
        return self.image.extents(is_surface=True)[query]


def _cut_to_half(x: np.ndarray) -> np.ndarray:
    """f16 towards zero, its bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = x.astype(np.float16)
    bits = near.view(np.uint16)
    return np.where(np.abs(near.astype(np.float32)) > np.abs(x), bits - 1, bits).astype(np.uint16)
