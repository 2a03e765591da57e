"""The cases of the texture probe: random coordinates and texels for every dimension, format, address mode and
filter. Each case is plain data."""

from __future__ import annotations

import dataclasses
import itertools
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.capture.texture_ops import OPS

__all__ = ["HEADER", "TextureCase", "all_cases", "written"]


SIGNED, UNSIGNED, FLOAT = 0, 1, 2
LINEAR_MEMORY, PITCHED, ARRAY, MIPMAPPED = range(4)
LAYERED, SURFACE, CUBE, GATHER = 1, 2, 4, 8
WRAP, CLAMP, MIRROR, BORDER = range(4)
HEADER = struct.Struct("<11i i 3i i i i i 4f i i f f f i i i i i i i 2i")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextureCase:
    """One resource, how it is read, one instruction, and the samples: (n, 16) uint32, see texture_ops.py."""

    suite: str
    op: str
    samples: np.ndarray
    data: np.ndarray  # bytes of all levels, one behind the other
    resource: int = ARRAY
    size: tuple[int, int, int] = (8, 0, 0)
    flags: int = 0
    levels: int = 1
    bits: tuple[int, ...] = (32, 0, 0, 0)
    kind: int = FLOAT
    address: tuple[int, int, int] = (CLAMP, CLAMP, CLAMP)
    filter: int = 0
    read: int = 0
    srgb: int = 0
    normalized: int = 0
    border: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    anisotropy: int = 0
    mip_filter: int = 0
    bias: float = 0.0
    least: float = 0.0
    most: float = 0.0
    no_trilinear: int = 0
    seamless: int = 0
    pitch: int = 0
    is_surface: int = 0
    no_object: int = 0

    def header(self, number: int) -> bytes:
        """The bytes that the probe reads before data and samples."""
        return HEADER.pack(
            number, self.resource, *self.size, self.flags, self.levels, *self.bits, self.kind, *self.address, self.filter, self.read, self.srgb,
            self.normalized, *self.border, self.anisotropy, self.mip_filter, self.bias, self.least, self.most, self.no_trilinear, self.seamless,
            list(OPS).index(self.op) if self.op else 0, len(self.samples), len(self.data), self.pitch, self.is_surface, self.no_object, 0,
        )  # fmt: skip


def written(cases: list[TextureCase]) -> bytes:
    """The file of cases that the probe reads."""
    out = bytearray()
    for number, case in enumerate(cases):
        out += case.header(number) + case.data.tobytes() + np.ascontiguousarray(case.samples).tobytes()
    return bytes(out)


# ---- Samples and texels


def samples_of(n: int, **columns: Any) -> np.ndarray:
    """Samples from columns by name: c0 to c3, lod, dx0 ..., dy0 ..., v0 ...; floats by their bits, integers as they
    are.
    """
    places = {"c0": 0, "c1": 1, "c2": 2, "c3": 3, "lod": 4, **{f"dx{k}": 5 + k for k in range(3)}, **{f"dy{k}": 8 + k for k in range(3)}}
    places |= {f"v{k}": 12 + k for k in range(4)}
    out = np.zeros((n, 16), np.uint32)
    for name, given in columns.items():
        values = np.asarray(given)
        out[:, places[name]] = (
            values.astype(np.float32).view(np.uint32) if values.dtype.kind == "f" else values.astype(np.int64).astype(np.uint32)
        )
    return out


def spread(rng: np.random.Generator, n: int, low: float, high: float) -> np.ndarray:
    """Coordinates: half anywhere, a quarter near multiples of 1/512 by some units in the last place, a quarter at such
    multiples.
    """
    any_ = rng.uniform(low, high, n).astype(np.float32)
    fine = (np.round(any_ * 512) / 512).astype(np.float32)
    steps = rng.integers(-3, 4, n)
    near = (fine.view(np.int32) + steps.astype(np.int32)).view(np.float32)
    which = rng.integers(0, 4, n)
    return np.where(which < 2, any_, np.where(which == 2, near, fine)).astype(np.float32)


def near_texels(rng: np.random.Generator, n: int, size: int, low: float, high: float) -> np.ndarray:
    """Normalised coordinates of a dimension of `size`: `spread` in texels, divided."""
    return (spread(rng, n, low * size, high * size) / np.float32(size)).astype(np.float32)


def bytes_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def floats(rng: np.random.Generator, *shape: int, spread_of: int = 0) -> np.ndarray:
    values = rng.normal(size=shape)
    return (values * 2.0 ** rng.integers(-spread_of, spread_of + 1, shape)).astype(np.float32)


def texels(rng: np.random.Generator, bits: tuple[int, ...], kind: int, *shape: int) -> np.ndarray:
    """Random bytes of a format; floats finite."""
    channels = sum(b > 0 for b in bits)
    if kind == FLOAT:
        return bytes_of(floats(rng, *shape, channels).astype(np.float16 if bits[0] == 16 else np.float32))
    return bytes_of(rng.integers(0, 256, (*shape, channels * bits[0] // 8), dtype=np.uint8))


def formats(*widths: int) -> Iterator[tuple[tuple[int, ...], int]]:
    for width in widths:
        for kind in (SIGNED, UNSIGNED) if width == 8 else (SIGNED, UNSIGNED, FLOAT):
            for channels in (1, 2, 4):
                yield (width,) * channels + (0,) * (4 - channels), kind


# ---- Suites


def filters(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Linear filtering of f32: where, by which weights, and how products are summed."""
    for w in (8, 37, 1000):
        ramp = bytes_of(np.arange(w, dtype=np.float32) * 256)
        yield TextureCase(
            suite="filters", op="tex.1d.f32", data=ramp, size=(w, 0, 0), filter=1, samples=samples_of(4096, c0=spread(rng, 4096, -2, w + 2))
        )
        for mode in (WRAP, CLAMP, MIRROR, BORDER):
            for filter_ in (0, 1):
                at = samples_of(2048, c0=near_texels(rng, 2048, w, -3, 4))
                yield TextureCase(
                    suite="filters",
                    op="tex.1d.f32",
                    data=ramp,
                    size=(w, 0, 0),
                    filter=filter_,
                    normalized=1,
                    address=(mode,) * 3,
                    samples=at,
                )
    for power in (0, 4, 30):
        data = bytes_of(floats(rng, 64, spread_of=power))
        yield TextureCase(
            suite="filters", op="tex.1d.f32", data=data, size=(64, 0, 0), filter=1, samples=samples_of(4096, c0=spread(rng, 4096, -1, 65))
        )
    odd = np.array([np.inf, 1, -np.inf, np.inf, np.nan, 2, 1e-45, 3e-39, -1e-38, 3e38, 3.3e38, -3.3e38, 0.0, -0.0, -0.0, 1], np.float32)
    yield TextureCase(
        suite="filters",
        op="tex.1d.f32",
        data=bytes_of(odd),
        size=(16, 0, 0),
        filter=1,
        samples=samples_of(2048, c0=spread(rng, 2048, -1, 17)),
    )
    far = np.concatenate(
        [10.0 ** rng.uniform(0, 12, 1000), 2.0 ** rng.integers(0, 60, 1000) + rng.uniform(-3, 3, 1000), [np.inf, np.nan]]
    ).astype(np.float32)
    far = np.concatenate([far, -far])
    for mode, filter_, normalized in itertools.product((WRAP, CLAMP, MIRROR, BORDER), (0, 1), (0, 1)):
        if normalized or mode in (CLAMP, BORDER):
            data = bytes_of(np.arange(1, 14, dtype=np.float32) * 256)
            at = samples_of(len(far), c0=far)
            yield TextureCase(
                suite="filters",
                op="tex.1d.f32",
                data=data,
                size=(13, 0, 0),
                filter=filter_,
                normalized=normalized,
                address=(mode,) * 3,
                samples=at,
            )
    for shape in ((8, 8), (16, 5)):
        h, w = shape[1], shape[0]
        lone = np.zeros((h, w), np.float32)
        lone[1::2, 1::2] = 65536
        at = samples_of(4096, c0=spread(rng, 4096, -1, w + 1), c1=spread(rng, 4096, -1, h + 1))
        yield TextureCase(suite="filters", op="tex.2d.f32", data=bytes_of(lone), size=(w, h, 0), filter=1, samples=at)
        for power in (0, 12):
            at = samples_of(8192, c0=spread(rng, 8192, -1, w + 1), c1=spread(rng, 8192, -1, h + 1))
            yield TextureCase(
                suite="filters", op="tex.2d.f32", data=bytes_of(floats(rng, h, w, spread_of=power)), size=(w, h, 0), filter=1, samples=at
            )
    lone = np.zeros((4, 4, 4), np.float32)
    lone[1::2, 1::2, 1::2] = 1 << 24
    three = lambda n: {f"c{k}": spread(rng, n, -1, 5) for k in range(3)}  # noqa: E731
    yield TextureCase(
        suite="filters", op="tex.3d.f32", data=bytes_of(lone), size=(4, 4, 4), filter=1, samples=samples_of(4096, **three(4096))
    )
    for power in (0, 12):
        data = bytes_of(floats(rng, 4, 4, 4, spread_of=power))
        yield TextureCase(suite="filters", op="tex.3d.f32", data=data, size=(4, 4, 4), filter=1, samples=samples_of(8192, **three(8192)))


def modes(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Address modes of each dimension, alone and mixed; a border that is not zero."""
    for number, (filter_, normalized) in enumerate(itertools.product((0, 1), (0, 1))):
        for a, b in itertools.product(range(4), range(4)):
            if not normalized and not {a, b} <= {CLAMP, BORDER} and a != b:
                continue
            at = samples_of(
                512,
                c0=near_texels(rng, 512, 7, -2.5, 3.5) * (1 if normalized else 7),
                c1=near_texels(rng, 512, 5, -2.5, 3.5) * (1 if normalized else 5),
            )
            yield TextureCase(
                suite="modes", op="tex.2d.f32", data=bytes_of(floats(rng, 5, 7)), size=(7, 5, 0), filter=filter_, normalized=normalized,
                address=(a, b, CLAMP), border=(3.0 * (number % 2), 0.0, 0.0, 0.0), samples=at,
            )  # fmt: skip
    for filter_ in (0, 1):
        for a, b, c in ((0, 1, 2), (3, 2, 1), (2, 3, 0), (1, 0, 3)):
            at = samples_of(512, **{f"c{k}": near_texels(rng, 512, n, -2.5, 3.5) for k, n in enumerate((6, 5, 3))})
            yield TextureCase(
                suite="modes", op="tex.3d.f32", data=bytes_of(floats(rng, 3, 5, 6)), size=(6, 5, 3), filter=filter_, normalized=1,
                address=(a, b, c), border=(1.5, 0.0, 0.0, 0.0), samples=at,
            )  # fmt: skip
    for bits, kind in formats(8, 16, 32):
        for read in (0, 1):
            if read and (kind == FLOAT or bits[0] == 32):
                continue
            at = samples_of(64, c0=spread(rng, 64, -2, 6))
            yield TextureCase(
                suite="modes", op="tex.1d.u32", data=texels(rng, bits, kind, 4), size=(4, 0, 0), bits=bits, kind=kind, read=read,
                address=(BORDER,) * 3, border=(0.25, -1.0, 3.7, 1e10), samples=at,
            )  # fmt: skip


def reads(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Formats: every value of 8 and 16 bits as a normalised float, integers, halves, sRGB; and linear filtering of
    them.
    """
    for width, kinds in ((8, (SIGNED, UNSIGNED)), (16, (SIGNED, UNSIGNED, FLOAT))):
        count = 1 << width
        for kind in kinds:
            data = np.arange(count, dtype=np.uint8 if width == 8 else np.uint16)
            at = samples_of(count, c0=np.arange(count) % 256 + 0.5, c1=np.arange(count) // 256 + 0.5)
            yield TextureCase(
                suite="reads", op="tex.2d.f32", data=bytes_of(data), size=(256, count // 256, 0), bits=(width, 0, 0, 0), kind=kind,
                read=int(kind != FLOAT), samples=at,
            )  # fmt: skip
    data = bytes_of(np.arange(1024, dtype=np.uint32).astype(np.uint8).reshape(256, 4).copy())
    data = bytes_of(np.repeat(np.arange(256, dtype=np.uint8), 4))
    at = samples_of(256, c0=np.arange(256) + 0.5)
    yield TextureCase(
        suite="reads", op="tex.1d.f32", data=data, size=(256, 0, 0), bits=(8, 8, 8, 8), kind=UNSIGNED, read=1, srgb=1, samples=at
    )
    for bits, kind in formats(8, 16, 32):
        at = samples_of(64, c0=spread(rng, 64, -1, 17))
        for op in ("tex.1d.u32", "tex.1d.f32"):
            yield TextureCase(suite="reads", op=op, data=texels(rng, bits, kind, 16), size=(16, 0, 0), bits=bits, kind=kind, samples=at)
        if bits[0] == 32 and kind != FLOAT:
            continue
        for op, size in (("tex.1d.f32", (16, 0, 0)), ("tex.2d.f32", (16, 5, 0)), ("tex.3d.f32", (8, 4, 4))):
            shape = tuple(n for n in reversed(size) if n)
            at = samples_of(2048, **{f"c{k}": spread(rng, 2048, -1, n + 1) for k, n in enumerate(size) if n})
            yield TextureCase(
                suite="reads",
                op=op,
                data=texels(rng, bits, kind, *shape),
                size=size,
                bits=bits,
                kind=kind,
                read=int(kind != FLOAT),
                filter=1,
                samples=at,
            )
    at = samples_of(4096, c0=spread(rng, 4096, -1, 17), c1=spread(rng, 4096, -1, 6))
    srgb = texels(rng, (8, 8, 8, 8), UNSIGNED, 5, 16)
    yield TextureCase(
        suite="reads", op="tex.2d.f32", data=srgb, size=(16, 5, 0), bits=(8, 8, 8, 8), kind=UNSIGNED, read=1, srgb=1, filter=1, samples=at
    )
    halves = np.array([np.inf, 1, -np.inf, np.inf, np.nan, 2, 6e-8, 3e-5, -1e-5, 65504, 65504, -65504, 0.0, -0.0, -0.0, 1], np.float16)
    at = samples_of(1024, c0=spread(rng, 1024, -1, 17))
    yield TextureCase(suite="reads", op="tex.1d.f32", data=bytes_of(halves), size=(16, 0, 0), bits=(16, 0, 0, 0), filter=1, samples=at)
    at = samples_of(1024, c0=spread(rng, 1024, -1, 17), c1=spread(rng, 1024, -1, 6))
    wide = bytes_of(floats(rng, 5, 16, spread_of=16))
    yield TextureCase(suite="reads", op="tex.2d.f16", data=wide, size=(16, 5, 0), filter=1, samples=at)
    yield TextureCase(
        suite="reads", op="tex.2d.f16", data=srgb, size=(16, 5, 0), bits=(8, 8, 8, 8), kind=UNSIGNED, read=1, filter=1, samples=at
    )


def layers(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Layered textures: layers outside, filters, integer coordinates."""
    for filter_, normalized in itertools.product((0, 1), (0, 1)):
        for op, size in (("tex.a1d.f32", (9, 0, 5)), ("tex.a2d.f32", (9, 6, 5))):
            scale = [1, 1] if normalized else [9, 6]
            at = samples_of(
                512,
                c0=rng.integers(-3, 9, 512),
                c1=near_texels(rng, 512, 9, -1, 2) * scale[0],
                c2=near_texels(rng, 512, 6, -1, 2) * scale[1],
            )
            data = bytes_of(floats(rng, 5, max(size[1], 1), 9))
            yield TextureCase(
                suite="layers", op=op, data=data, size=size, flags=LAYERED, filter=filter_, normalized=normalized,
                address=(WRAP, MIRROR, CLAMP) if normalized else (CLAMP, BORDER, CLAMP), samples=at,
            )  # fmt: skip
    for geometry, size, flags in (
        ("1d", (9, 0, 0), 0),
        ("2d", (9, 6, 0), 0),
        ("3d", (9, 6, 5), 0),
        ("a1d", (9, 0, 5), 1),
        ("a2d", (9, 6, 5), 1),
    ):
        for mode in (CLAMP, BORDER, WRAP):
            at = samples_of(256, c0=rng.integers(-4, 14, 256), c1=rng.integers(-4, 14, 256), c2=rng.integers(-4, 14, 256))
            data = bytes_of(floats(rng, max(size[2], 1), max(size[1], 1), 9))
            yield TextureCase(
                suite="layers", op=f"tex.{geometry}.f32.s32", data=data, size=size, flags=flags, address=(mode,) * 3, samples=at
            )


def directions(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Directions: random ones, axes, ties between faces, zeros."""
    v = rng.normal(size=(n, 3)).astype(np.float32)
    small = rng.integers(-2, 3, (n // 4, 3)).astype(np.float32)
    v[: n // 4] = small
    edge = np.sign(v[n // 4 : n // 2]) * np.abs(v[n // 4 : n // 2]).max(axis=1, keepdims=True)
    which = rng.integers(0, 3, n // 4)
    edge[np.arange(n // 4), which] = v[n // 4 : n // 4 * 2][np.arange(n // 4), which]
    v[n // 4 : n // 2] = edge
    return {"x": v[:, 0], "y": v[:, 1], "z": v[:, 2]}


def cubes(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Cubemaps: the face, the place on it, and the texels past its edges."""
    for w in (1, 8, 13):
        ramp = bytes_of(np.arange(6 * w * w, dtype=np.float32))
        for filter_, seamless, normalized in ((0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 0, 0)):
            d = directions(rng, 4096)
            at = samples_of(4096, c0=d["x"], c1=d["y"], c2=d["z"])
            yield TextureCase(
                suite="cubes",
                op="tex.cube.f32",
                data=ramp,
                size=(w, w, 6),
                flags=CUBE,
                filter=filter_,
                seamless=seamless,
                normalized=normalized,
                samples=at,
            )
    for face in range(6):  # a ramp along each axis of one face
        for axis in (0, 1):
            data = np.full((6, 64, 64), -1e6, np.float32)
            data[face] = np.arange(64, dtype=np.float32)[None, :] * 256 if axis == 0 else np.arange(64, dtype=np.float32)[:, None] * 256
            v = rng.uniform(-1, 1, (1024, 3)).astype(np.float32)
            v[:, face // 2] = (1 - 2 * (face % 2)) * rng.uniform(1, 4, 1024)
            at = samples_of(1024, c0=v[:, 0], c1=v[:, 1], c2=v[:, 2])
            yield TextureCase(
                suite="cubes", op="tex.cube.f32", data=bytes_of(data), size=(64, 64, 6), flags=CUBE, filter=1, normalized=1, samples=at
            )
    for filter_ in (0, 1):
        d = directions(rng, 1024)
        at = samples_of(1024, c0=rng.integers(-2, 6, 1024), c1=d["x"], c2=d["y"], c3=d["z"])
        data = bytes_of(floats(rng, 18, 8, 8))
        yield TextureCase(
            suite="cubes", op="tex.acube.f32", data=data, size=(8, 8, 18), flags=CUBE | LAYERED, filter=filter_, normalized=1, samples=at
        )
    for mode in range(4):
        d = directions(rng, 512)
        at = samples_of(512, c0=d["x"], c1=d["y"], c2=d["z"])
        yield TextureCase(
            suite="cubes", op="tex.cube.f32", data=bytes_of(floats(rng, 6, 8, 8)), size=(8, 8, 6), flags=CUBE, filter=1, normalized=1, address=(mode,) * 3,
            border=(5.0, 0, 0, 0), samples=at,
        )  # fmt: skip


def gathers(rng: np.random.Generator) -> Iterator[TextureCase]:
    """tld4: four texels, which and in which order."""
    for normalized, mode, filter_ in itertools.product((0, 1), range(4), (0, 1)):
        if not normalized and mode in (WRAP, MIRROR):
            continue
        scale = (1, 1) if normalized else (9, 6)
        at = samples_of(512, c0=near_texels(rng, 512, 9, -1, 2) * scale[0], c1=near_texels(rng, 512, 6, -1, 2) * scale[1])
        data = bytes_of(np.arange(54, dtype=np.float32))
        yield TextureCase(
            suite="gathers", op="tld4.r.2d.f32", data=data, size=(9, 6, 0), flags=GATHER, filter=filter_, normalized=normalized, address=(mode,) * 3,
            border=(-7.0, 0, 0, 0), samples=at,
        )  # fmt: skip
    at = samples_of(256, c0=spread(rng, 256, -1, 10), c1=spread(rng, 256, -1, 7))
    for component, bits in itertools.product("rgba", ((32, 32, 32, 32), (32, 32, 0, 0))):
        data = texels(rng, bits, FLOAT, 6, 9)
        yield TextureCase(suite="gathers", op=f"tld4.{component}.2d.f32", data=data, size=(9, 6, 0), flags=GATHER, bits=bits, samples=at)
    for kind, width in ((UNSIGNED, 8), (SIGNED, 16), (UNSIGNED, 32)):
        bits = (width,) * 4
        data = texels(rng, bits, kind, 6, 9)
        yield TextureCase(suite="gathers", op="tld4.b.2d.u32", data=data, size=(9, 6, 0), flags=GATHER, bits=bits, kind=kind, samples=at)
    data = texels(rng, (8, 8, 8, 8), UNSIGNED, 6, 9)
    yield TextureCase(
        suite="gathers", op="tld4.g.2d.f32", data=data, size=(9, 6, 0), flags=GATHER, bits=(8,) * 4, kind=UNSIGNED, read=1, samples=at
    )
    layered = samples_of(256, c0=rng.integers(-1, 5, 256), c1=spread(rng, 256, -1, 10), c2=spread(rng, 256, -1, 7))
    data = bytes_of(np.arange(54 * 4, dtype=np.float32))
    yield TextureCase(suite="gathers", op="tld4.r.a2d.f32", data=data, size=(9, 6, 4), flags=GATHER | LAYERED, samples=layered)
    d = directions(rng, 1024)
    at = samples_of(1024, c0=d["x"], c1=d["y"], c2=d["z"])
    data = bytes_of(np.arange(6 * 64, dtype=np.float32))
    for seamless in (0, 1):
        yield TextureCase(
            suite="gathers",
            op="tld4.r.cube.f32",
            data=data,
            size=(8, 8, 6),
            flags=GATHER | CUBE,
            normalized=1,
            seamless=seamless,
            samples=at,
        )
    yield TextureCase(
        suite="gathers",
        op="tld4.r.2d.f32",
        data=bytes_of(floats(rng, 6, 9)),
        size=(9, 6, 0),
        samples=samples_of(64, c0=spread(rng, 64, 0, 9), c1=spread(rng, 64, 0, 6)),
    )


def memories(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Textures over linear and pitched memory."""
    for bits, kind in formats(8, 16, 32):
        size = sum(bits) // 8
        for read in (0, 1):
            if read and (kind == FLOAT or bits[0] == 32):
                continue
            data = texels(rng, bits, kind, 20)[: 20 * size - (3 if size == 1 else 0)]
            at = samples_of(64, c0=rng.integers(-5, 30, 64))
            yield TextureCase(
                suite="memories",
                op="tex.1d.f32.s32",
                data=data,
                resource=LINEAR_MEMORY,
                size=(20, 0, 0),
                bits=bits,
                kind=kind,
                read=read,
                samples=at,
            )
    data = bytes_of(np.arange(20, dtype=np.float32))
    far = np.concatenate([rng.integers(-(2**31), 2**31, 60), [2**31 - 1, -(2**31), 2**27, 2**28 + 3]])
    yield TextureCase(
        suite="memories", op="tex.1d.f32.s32", data=data, resource=LINEAR_MEMORY, size=(20, 0, 0), samples=samples_of(64, c0=far)
    )
    for normalized, filter_ in ((0, 0), (0, 1), (1, 0)):
        at = samples_of(128, c0=spread(rng, 128, -2, 22) / (20 if normalized else 1))
        yield TextureCase(
            suite="memories",
            op="tex.1d.f32",
            data=data,
            resource=LINEAR_MEMORY,
            size=(20, 0, 0),
            normalized=normalized,
            filter=filter_,
            samples=at,
        )
    for normalized, mode, filter_ in itertools.product((0, 1), range(4), (0, 1)):
        scale = (1, 1) if normalized else (9, 6)
        at = samples_of(512, c0=near_texels(rng, 512, 9, -1, 2) * scale[0], c1=near_texels(rng, 512, 6, -1, 2) * scale[1])
        data = bytes_of(floats(rng, 6, 16))
        yield TextureCase(
            suite="memories", op="tex.2d.f32", data=data, resource=PITCHED, size=(9, 6, 0), pitch=64, filter=filter_, normalized=normalized,
            address=(mode,) * 3, border=(2.0, 0, 0, 0), samples=at,
        )  # fmt: skip


def pyramid(size: tuple[int, int, int], levels: int, of: Any, layers: int = 0) -> np.ndarray:
    """The texels of all levels: `of(level, shape)`."""
    out = []
    for n in range(levels):
        w, h, d = (max(1, s >> n) for s in size)
        out.append(bytes_of(of(n, (layers or d, h, w)).astype(np.float32)))
    return np.concatenate(out)


def mipmaps(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Levels of detail: given, by gradients, by bias and clamps."""
    by_level = pyramid((64, 64, 1), 7, lambda n, shape: np.full(shape, n * 256.0))
    flat = {
        "resource": MIPMAPPED,
        "size": (64, 64, 0),
        "levels": 7,
        "normalized": 1,
        "address": (WRAP, WRAP, WRAP),
        "data": by_level,
        "suite": "mipmaps",
    }
    for mip, (bias, least, most) in itertools.product(
        (0, 1), ((0.0, 0.0, 100.0), (0.3, 0.0, 6.0), (-1.26, 0.0, 6.0), (0.0, 1.37, 3.6), (0.0, 0.0, 0.0), (2.5, 2.0, 3.0))
    ):
        at = samples_of(2048, c0=rng.uniform(0, 1, 2048), c1=rng.uniform(0, 1, 2048), lod=spread(rng, 2048, -2, 9))
        yield TextureCase(op="tex.level.2d.f32", mip_filter=mip, filter=1, bias=bias, least=least, most=most, samples=at, **flat)
        yield TextureCase(op="tex.2d.f32", mip_filter=mip, filter=1, bias=bias, least=least, most=most, samples=at[:64], **flat)
    odd = samples_of(64, c0=rng.uniform(0, 1, 64), c1=rng.uniform(0, 1, 64), lod=np.array([np.inf, -np.inf, np.nan, 1e9] * 16))
    yield TextureCase(op="tex.level.2d.f32", mip_filter=1, filter=1, most=6.0, samples=odd, **flat)
    for filter_, mip in itertools.product((0, 1), (0, 1)):
        for op, size in (("1d", (37, 0, 0)), ("2d", (24, 17, 0)), ("3d", (12, 9, 5))):
            data = pyramid(tuple(max(1, s) for s in size), 4, lambda n, shape: floats(rng, *shape))
            at = samples_of(2048, lod=spread(rng, 2048, -1, 4), **{f"c{k}": rng.uniform(-1, 2, 2048) for k in range(3)})
            yield TextureCase(
                suite="mipmaps", op=f"tex.level.{op}.f32", resource=MIPMAPPED, size=size, levels=4, data=data, filter=filter_, mip_filter=mip, normalized=1,
                most=3.0, address=(WRAP, CLAMP, MIRROR), samples=at,
            )  # fmt: skip
    data = pyramid((16, 16, 1), 4, lambda n, shape: floats(rng, *shape), layers=3)
    at = samples_of(1024, c0=rng.integers(0, 3, 1024), c1=rng.uniform(0, 1, 1024), c2=rng.uniform(0, 1, 1024), lod=spread(rng, 1024, -1, 4))
    yield TextureCase(
        suite="mipmaps", op="tex.level.a2d.f32", resource=MIPMAPPED, size=(16, 16, 3), flags=LAYERED, levels=4, data=data, filter=1, mip_filter=1, normalized=1,
        most=3.0, samples=at,
    )  # fmt: skip
    data = pyramid((16, 16, 1), 4, lambda n, shape: floats(rng, *shape), layers=6)
    d = directions(rng, 1024)
    at = samples_of(1024, c0=d["x"], c1=d["y"], c2=d["z"], lod=spread(rng, 1024, -1, 4))
    yield TextureCase(
        suite="mipmaps", op="tex.level.cube.f32", resource=MIPMAPPED, size=(16, 16, 6), flags=CUBE, levels=4, data=data, filter=1, mip_filter=1, normalized=1,
        most=3.0, samples=at,
    )  # fmt: skip
    whole = samples_of(256, c0=rng.integers(-2, 30, 256), c1=rng.integers(-2, 30, 256), lod=rng.integers(-2, 7, 256))
    data = pyramid((24, 17, 1), 4, lambda n, shape: floats(rng, *shape))
    yield TextureCase(
        suite="mipmaps", op="tex.level.2d.f32.s32", resource=MIPMAPPED, size=(24, 17, 0), levels=4, data=data, most=3.0, samples=whole
    )
    yield TextureCase(
        suite="mipmaps", op="tex.level.2d.f32", resource=MIPMAPPED, size=(24, 17, 0), levels=4, data=data, most=3.0, filter=1, mip_filter=1,
        samples=samples_of(1024, c0=rng.uniform(-2, 26, 1024), c1=rng.uniform(-2, 20, 1024), lod=spread(rng, 1024, -1, 4)),
    )  # fmt: skip


def gradients(rng: np.random.Generator) -> Iterator[TextureCase]:
    """tex.grad: the level of detail that derivatives give, isotropic and anisotropic."""
    n = 4096

    def slopes(dims: int, kind: str) -> dict[str, np.ndarray]:
        size = 2.0 ** rng.uniform(-8, 0, (n, 1))
        both = {}
        for axis in "xy":
            v = rng.normal(size=(n, dims))
            v = v / np.linalg.norm(v, axis=1, keepdims=True) * size
            if kind == "one" and axis == "y":
                v = v * 0
            if kind == "axis":
                v[:, 1:] = 0
                v = v * (axis == "x")
            both |= {f"d{axis}{k}": v[:, k].astype(np.float32) for k in range(dims)}
        return both

    by_level = lambda k, shape: np.full(shape, k * 256.0)  # noqa: E731
    for op, size, dims in (("1d", (64, 0, 0), 1), ("2d", (64, 64, 0), 2), ("2d", (64, 16, 0), 2), ("3d", (32, 32, 32), 3)):
        levels = int(max(size)).bit_length()
        data = pyramid(tuple(max(1, s) for s in size), levels, by_level)
        for kind in ("axis", "one", "both"):
            at = samples_of(n, **{f"c{k}": rng.uniform(0, 1, n) for k in range(3)}, **slopes(dims, kind))
            yield TextureCase(
                suite="gradients", op=f"tex.grad.{op}.f32", resource=MIPMAPPED, size=size, levels=levels, data=data, filter=1, mip_filter=1, normalized=1,
                most=20.0, address=(WRAP,) * 3, samples=at,
            )  # fmt: skip
    data = pyramid((64, 64, 1), 7, by_level)
    for most in (1, 2, 4, 8, 16):
        at = samples_of(n, c0=rng.uniform(0, 1, n), c1=rng.uniform(0, 1, n), **slopes(2, "both"))
        yield TextureCase(
            suite="gradients", op="tex.grad.2d.f32", resource=MIPMAPPED, size=(64, 64, 0), levels=7, data=data, filter=1, mip_filter=1, normalized=1,
            anisotropy=most, most=20.0, address=(WRAP,) * 3, samples=at,
        )  # fmt: skip
    data = pyramid((32, 32, 1), 6, by_level, layers=6)
    d = directions(rng, n)
    at = samples_of(n, c0=d["x"], c1=d["y"], c2=d["z"], **slopes(3, "both"))
    yield TextureCase(
        suite="gradients", op="tex.grad.cube.f32", resource=MIPMAPPED, size=(32, 32, 6), flags=CUBE, levels=6, data=data, filter=1, mip_filter=1, normalized=1,
        most=20.0, samples=at,
    )  # fmt: skip
    at = samples_of(n, c0=rng.uniform(0, 1, n), c1=rng.uniform(0, 1, n), **slopes(2, "both"))
    data = bytes_of(floats(rng, 16, 16))
    yield TextureCase(suite="gradients", op="tex.grad.2d.f32", size=(16, 16, 0), data=data, filter=1, normalized=1, samples=at[:1024])


def apart(samples: np.ndarray, geometry: str, size: tuple[int, int, int], step: int, clamp: str) -> np.ndarray:
    """The stores of which no two go to one place: which of two stays, nothing says."""
    has_layer = int(geometry[0] == "a")
    at = samples[:, : int(geometry[-2]) + has_layer].view(np.int32).astype(np.int64)
    columns = [at[:, has_layer] // step, *at[:, has_layer + 1 :].T, *([at[:, 0]] if has_layer else [])]
    extents = [n for n in size if n]
    if clamp == "clamp":
        if has_layer:
            columns[-1] = np.where(columns[-1] < 0, extents[-1] - 1, columns[-1])
        columns = [np.clip(x, 0, n - 1) for x, n in zip(columns, extents, strict=True)]
    _, first = np.unique(np.stack(columns), axis=1, return_index=True)
    return np.ascontiguousarray(samples[np.sort(first)])


def surfaces(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Surfaces: bytes by coordinates, what lies outside, formatted stores, reductions."""
    shapes = {
        "1d": ((9, 0, 0), 2, 36),
        "2d": ((9, 6, 0), 2, 36),
        "3d": ((9, 6, 5), 2, 36),
        "a1d": ((9, 0, 5), 3, 36),
        "a2d": ((9, 6, 5), 3, 36),
    }
    own: dict[str, Any] = {"suite": "surfaces", "is_surface": 1, "flags": SURFACE, "kind": UNSIGNED}

    def places(n: int, geometry: str, step: int, texel: int, *, odd: bool) -> dict[str, np.ndarray]:
        x = rng.integers(-3, 13, n) * texel if not odd else rng.integers(-3 * texel, 12 * texel, n)
        rest = rng.integers(-2, 8, n), rng.integers(-2, 7, n)
        layer = rng.integers(-2, 7, n)
        if geometry in ("a1d", "a2d"):
            return {"c0": layer, "c1": x, "c2": rest[0]}
        return {"c0": x, "c1": rest[0], "c2": rest[1]}

    for geometry, (size, flags, _) in shapes.items():
        for clamp in ("zero", "clamp"):
            for op, bits in (("b32", (32, 0, 0, 0)), ("v4.b32", (32, 32, 32, 32))):
                data = rng.integers(0, 256, max(size[2], 1) * max(size[1], 1) * 9 * sum(bits) // 8, dtype=np.uint8)
                at = samples_of(256, **places(256, geometry, 1, sum(bits) // 8, odd=False))
                yield TextureCase(
                    op=f"suld.{geometry}.{op}.{clamp}", size=size, bits=bits, data=data, samples=at, **{**own, "flags": flags}
                )
            data = rng.integers(0, 256, max(size[2], 1) * max(size[1], 1) * 9 * 4, dtype=np.uint8)
            values = {f"v{k}": rng.integers(0, 2**32, 24) for k in range(4)}
            for op, step in ((f"sust.{geometry}.b32.{clamp}", 4), (f"sust.p.{geometry}.{clamp}", 1)):
                at = apart(samples_of(24, **values, **places(24, geometry, 1, step, odd=False)), geometry, size, step, clamp)
                yield TextureCase(op=op, size=size, data=data, samples=at, **{**own, "flags": flags})
    for clamp, (op, texel) in itertools.product(("zero", "clamp"), (("b8", 1), ("b16", 2), ("b32", 4), ("v2.b32", 8))):
        for width in (8, 16, 32):  # accesses wider and narrower than the texel
            data = rng.integers(0, 256, 6 * 16 * width // 8, dtype=np.uint8)
            at = samples_of(256, c0=rng.integers(-3, 20, 256) * texel, c1=rng.integers(-1, 7, 256))
            yield TextureCase(op=f"suld.2d.{op}.{clamp}", size=(16, 6, 0), bits=(width, 0, 0, 0), data=data, samples=at, **own)
    for bits, kind in formats(8, 16, 32):
        data = np.zeros(6 * 16 * sum(bits) // 8, np.uint8)
        numbers = {f"v{k}": rng.normal(size=64).astype(np.float32) * 2.0 ** rng.integers(-2, 12, 64).astype(np.float32) for k in range(4)}
        whole = {f"v{k}": rng.integers(-(2**31), 2**31, 64) >> rng.integers(0, 31, 64) for k in range(4)}
        at = rng.permutation(96)[:64]
        for values in (numbers, whole):
            samples = samples_of(64, c0=at % 16, c1=at // 16, **values)
            yield TextureCase(op="sust.p.2d.zero", size=(16, 6, 0), bits=bits, data=data, samples=samples, **{**own, "kind": kind})
    for clamp in ("zero", "clamp"):
        for op, bits in (
            ("b.add.2d.u32", 32),
            ("b.min.2d.s32", 32),
            ("b.max.2d.u32", 32),
            ("b.and.2d.b32", 32),
            ("b.or.2d.b32", 32),
            ("p.add.2d.b32", 32),
        ):
            for kind in (UNSIGNED, SIGNED):
                data = rng.integers(0, 256, 6 * 16 * bits // 8, dtype=np.uint8)
                step = 4 if op[0] == "b" else 1
                samples = samples_of(64, c0=rng.integers(-3, 20, 64) * step, c1=rng.integers(-1, 8, 64), v0=rng.integers(0, 2**32, 64))
                yield TextureCase(op=f"sured.{op}.{clamp}", size=(16, 6, 0), data=data, samples=samples, **{**own, "kind": kind})


def queries(rng: np.random.Generator) -> Iterator[TextureCase]:
    """txq and suq of every kind of resource."""
    one = samples_of(4, lod=np.array([0, 1, 2, 5]))
    zeros = lambda n: np.zeros(n, np.uint8)  # noqa: E731
    kinds: list[dict[str, Any]] = [
        {"size": (9, 0, 0), "data": zeros(36)}, {"size": (9, 6, 0), "data": zeros(36 * 6)}, {"size": (9, 6, 5), "data": zeros(36 * 30)},
        {"size": (9, 0, 5), "flags": LAYERED, "data": zeros(36 * 5)}, {"size": (9, 6, 5), "flags": LAYERED, "data": zeros(36 * 30)},
        {"size": (8, 8, 6), "flags": CUBE, "data": zeros(32 * 48)}, {"size": (8, 8, 12), "flags": CUBE | LAYERED, "data": zeros(32 * 96)},
        {"size": (20, 0, 0), "resource": LINEAR_MEMORY, "data": zeros(80)}, {"size": (9, 6, 0), "resource": PITCHED, "pitch": 64, "data": zeros(384)},
        {"size": (24, 17, 0), "resource": MIPMAPPED, "levels": 4, "most": 3.0, "data": zeros(4 * (24 * 17 + 12 * 8 + 6 * 4 + 3 * 2))},
        {"size": (9, 6, 0), "data": zeros(36 * 6), "normalized": 1, "address": (WRAP, MIRROR, BORDER), "filter": 1},
    ]  # fmt: skip
    for bits, kind in formats(8, 16, 32):
        kinds.append({"size": (9, 6, 0), "bits": bits, "kind": kind, "data": zeros(54 * sum(bits) // 8)})
    for about, op in itertools.product(kinds, (op for op in OPS if op.startswith("txq"))):
        yield TextureCase(suite="queries", op=op, samples=one, **about)
    for about, op in itertools.product(kinds, (op for op in OPS if op.startswith("suq"))):
        if about.get("resource", ARRAY) == ARRAY:
            yield TextureCase(suite="queries", op=op, samples=one, is_surface=1, **{**about, "flags": about.get("flags", 0) | SURFACE})


def refusals(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Arrays and textures that the runtime may refuse."""
    none, empty = samples_of(0), np.zeros(0, np.uint8)
    base: dict[str, Any] = {"suite": "refusals", "op": "", "samples": none, "data": empty}
    for bits in (
        (8, 8, 8, 0),
        (8, 0, 0, 0),
        (16, 8, 0, 0),
        (32, 32, 32, 32),
        (32, 32, 32, 0),
        (64, 0, 0, 0),
        (24, 0, 0, 0),
        (0, 0, 0, 0),
        (0, 8, 0, 0),
    ):
        for kind in range(5):
            yield TextureCase(bits=bits, kind=kind, size=(8, 8, 0), **base)
    for size, flags in itertools.product(
        (
            (0, 0, 0),
            (8, 0, 0),
            (8, 8, 0),
            (8, 8, 8),
            (8, 0, 8),
            (0, 8, 0),
            (8, 8, 6),
            (8, 4, 6),
            (8, 8, 12),
            (131072, 0, 0),
            (131073, 0, 0),
            (131072, 65536, 0),
            (65536, 131072, 0),
            (16384, 16384, 16384),
            (16385, 8, 8),
            (32768, 0, 2048),
            (32769, 0, 4),
            (8, 0, 2049),
            (8, 8, 2049),
        ),
        (0, 1, 4, 5, 8, 2),
    ):
        if size[0] * max(size[1], 1) * max(size[2], 1) < 1 << 24 or size[0] > 20000:
            yield TextureCase(size=size, flags=flags, bits=(8, 0, 0, 0), kind=UNSIGNED, **base)
    for kind, width, read, filter_, srgb, normalized in itertools.product((0, 1, 2), (8, 16, 32), (0, 1), (0, 1), (0, 1), (0, 1)):
        if not (kind == FLOAT and width == 8):
            yield TextureCase(
                size=(8, 8, 0),
                bits=(width, 0, 0, 0),
                kind=kind,
                read=read,
                filter=filter_,
                srgb=srgb,
                normalized=normalized,
                address=(WRAP,) * 3,
                **base,
            )
    for levels, size in itertools.product((0, 1, 4, 5, 20), ((8, 8, 0), (8, 0, 0), (8, 8, 8))):
        yield TextureCase(resource=MIPMAPPED, levels=levels, size=size, **base)
    for normalized, mip, bias, most, anisotropy in itertools.product((0, 1), (0, 1), (0.0, 20.0), (0.0, 100.0, -3.0), (0, 1, 16, 17)):
        yield TextureCase(
            resource=MIPMAPPED,
            levels=4,
            size=(8, 8, 0),
            normalized=normalized,
            mip_filter=mip,
            bias=bias,
            most=most,
            anisotropy=anisotropy,
            **base,
        )
    held = {**base, "data": np.zeros(1024, np.uint8)}
    for pitch, width in ((32, 8), (64, 8), (48, 8), (32, 9), (36, 9), (0, 8)):
        yield TextureCase(resource=PITCHED, size=(width, 6, 0), pitch=pitch, **held)
    for filter_, normalized, read in itertools.product((0, 1), (0, 1), (0, 1)):
        yield TextureCase(resource=LINEAR_MEMORY, size=(16, 0, 0), filter=filter_, normalized=normalized, read=read, **held)
    for flags, bits in itertools.product((0, 2), ((32, 0, 0, 0), (8, 8, 8, 8))):
        yield TextureCase(is_surface=1, flags=flags, size=(8, 8, 0), bits=bits, kind=UNSIGNED, **base)
    for address in ((4, 1, 1), (-1, 1, 1)):
        yield TextureCase(size=(8, 8, 0), address=address, **base)


def traps(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Accesses that may end a kernel: surfaces outside and off alignment, handles that are none."""
    own: dict[str, Any] = {
        "suite": "traps",
        "is_surface": 1,
        "flags": SURFACE,
        "kind": UNSIGNED,
        "size": (16, 6, 0),
        "data": np.arange(384, dtype=np.uint32).astype(np.uint8),
    }
    places = ((-4, 0), (64, 0), (0, -1), (0, 6), (60, 5), (2, 0), (1, 0), (62, 0), (66, 0))
    for x, y in places:
        for op in (
            "suld.2d.b32.trap",
            "suld.2d.b32.zero",
            "suld.2d.b32.clamp",
            "sust.2d.b32.trap",
            "sust.2d.b32.zero",
            "sust.2d.b32.clamp",
            "sured.b.add.2d.u32.trap",
            "sured.b.add.2d.u32.zero",
        ):
            yield TextureCase(op=op, samples=samples_of(1, c0=np.array([x]), c1=np.array([y]), v0=np.array([7])), **own)
    for x, y in ((-1, 0), (16, 0), (0, 6), (15, 5)):
        for op in ("sust.p.2d.trap", "sured.p.add.2d.b32.trap"):
            yield TextureCase(op=op, samples=samples_of(1, c0=np.array([x]), c1=np.array([y]), v0=np.array([7])), **own)
    for op in ("suld.2d.b16.trap", "suld.2d.v2.b32.trap", "suld.2d.v4.b32.trap" if "suld.2d.v4.b32.trap" in OPS else "suld.2d.b8.trap"):
        for x in (0, 2, 4, 8, 56, 60):
            yield TextureCase(op=op, samples=samples_of(1, c0=np.array([x]), c1=np.array([0])), **own)
    for op, step in (
        ("suld.2d.b32.zero", 2),
        ("suld.2d.b16.zero", 1),
        ("suld.2d.v2.b32.zero", 4),
        ("suld.2d.v4.b32.clamp", 8),
        ("sust.2d.b16.clamp", 1),
    ):
        yield TextureCase(op=op, samples=samples_of(1, c0=np.array([step]), c1=np.array([1])), **own)
    for op in ("suld.2d.b32.zero", "sust.2d.b32.zero", "sured.b.add.2d.u32.zero"):  # no surface flag, another format
        yield TextureCase(op=op, samples=samples_of(1, v0=np.array([7])), **{**own, "flags": 0})
        yield TextureCase(op=op, samples=samples_of(1, v0=np.array([7])), **{**own, "bits": (8, 0, 0, 0), "data": np.zeros(96, np.uint8)})
    for op in ("tex.2d.f32", "tex.1d.f32.s32", "tld4.r.2d.f32", "txq.width"):
        yield TextureCase(suite="traps", op=op, samples=samples_of(1), data=bytes_of(floats(rng, 6, 9)), size=(9, 6, 0), no_object=1)
    for op in ("suld.2d.b32.zero", "sust.2d.b32.zero", "suq.width"):
        yield TextureCase(op=op, samples=samples_of(1), no_object=1, **own)
    for op in ("tex.1d.f32", "tex.3d.f32", "tex.a2d.f32", "tex.cube.f32"):  # of a 2D array
        at = samples_of(16, **{f"c{k}": spread(rng, 16, -1, 7) for k in range(3)})
        yield TextureCase(suite="traps", op=op, samples=at, data=bytes_of(floats(rng, 6, 9)), size=(9, 6, 0))


def planes(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Three dimensions: how the sums of two planes are added, whose exponents lie near or far apart."""
    for width, powers in ((32, (0, 3, 8, 12, 40)), (16, (0, 6, 10))):
        for power in powers:
            values = floats(rng, 4, 4, 4, 4, spread_of=power)
            data = bytes_of(values if width == 32 else values.clip(-60000, 60000).astype(np.float16))
            at = samples_of(8192, **{f"c{k}": spread(rng, 8192, -1, 5) for k in range(3)})
            yield TextureCase(suite="planes", op="tex.3d.f32", bits=(width,) * 4, data=data, size=(4, 4, 4), filter=1, samples=at)


def narrow(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Linear filtering of signed bytes and of sRGB."""
    for srgb, kind in ((0, SIGNED), (1, UNSIGNED)):
        for op, size in (("tex.1d.f32", (512, 0, 0)), ("tex.2d.f32", (32, 16, 0)), ("tex.3d.f32", (8, 8, 8))):
            shape = tuple(n for n in reversed(size) if n)
            at = samples_of(8192, **{f"c{k}": spread(rng, 8192, -1, n + 1) for k, n in enumerate(size) if n})
            data = texels(rng, (8,) * 4, kind, *shape)
            yield TextureCase(
                suite="narrow", op=op, data=data, size=size, bits=(8,) * 4, kind=kind, read=1, srgb=srgb, filter=1, samples=at
            )


def between_levels(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Samples between two levels of detail, of every format that is filtered."""
    for bits, kind, read, srgb in (
        ((32,) * 4, FLOAT, 0, 0),
        ((16,) * 4, FLOAT, 0, 0),
        ((8,) * 4, UNSIGNED, 1, 0),
        ((8,) * 4, UNSIGNED, 1, 1),
        ((8,) * 4, SIGNED, 1, 0),
        ((16,) * 4, UNSIGNED, 1, 0),
        ((16,) * 4, SIGNED, 1, 0),
    ):
        for op, size in (("1d", (32, 0, 0)), ("2d", (16, 12, 0)), ("3d", (8, 6, 4))):
            levels = max(size).bit_length()
            data = np.concatenate([texels(rng, bits, kind, *[max(1, s >> k) for s in reversed(size)]) for k in range(levels)])
            at = samples_of(4096, **{f"c{k}": rng.uniform(-0.2, 1.2, 4096) for k in range(3)}, lod=spread(rng, 4096, -1, levels + 1))
            for filter_ in (0, 1):
                yield TextureCase(
                    suite="between_levels", op=f"tex.level.{op}.f32", resource=MIPMAPPED, levels=levels, data=data, size=size, bits=bits, kind=kind,
                    read=read, srgb=srgb, filter=filter_, mip_filter=1, normalized=1, address=(WRAP,) * 3, most=20.0, samples=at,
                )  # fmt: skip


def seams(rng: np.random.Generator) -> Iterator[TextureCase]:
    """Cubemaps filtered across their edges, and not."""
    for seamless, mode in ((0, CLAMP), (1, CLAMP), (1, WRAP), (1, BORDER)):
        d = directions(rng, 4096)
        at = samples_of(4096, c0=d["x"], c1=d["y"], c2=d["z"])
        data = bytes_of(floats(rng, 6, 8, 8, 4))
        yield TextureCase(
            suite="seams", op="tex.cube.f32", bits=(32,) * 4, size=(8, 8, 6), flags=CUBE, data=data, filter=1, normalized=1, seamless=seamless,
            address=(mode,) * 3, border=(2.0, 3.0, 4.0, 5.0), samples=at,
        )  # fmt: skip


SUITES = {
    f.__name__: f
    for f in (
        filters, modes, reads, layers, cubes, gathers, memories, mipmaps, gradients, surfaces, queries, refusals, traps, planes, narrow, between_levels,
        seams,
    )
}  # fmt: skip


def all_cases(seed: int = 20) -> list[TextureCase]:
    """All cases, the same for the same seed."""
    return [case for n, suite in enumerate(SUITES.values()) for case in suite(np.random.default_rng((seed, n)))]
