"""Linear filtering of textures: the position of a coordinate between texels, the weights, and the filtered value.

Source: `golden/sm_90a/textures`. A coordinate in texels becomes a fixed-point number with 8 fraction bits, rounded half
up, minus half a texel. The weights of texels are whole 256ths with the sum 256. The share of each level of detail is
divided along z, that of each plane along x, and each of these along y. The remainder of a rounding goes to the lower
texel.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from smemsim.core.spec.srgb import SRGB, SRGB_EXPONENTS
from smemsim.core.spec.textures import FILTERING

__all__ = [
    "Corner",
    "blend_floats",
    "blend_integers",
    "blend_signed_bytes",
    "blend_srgb",
    "fixed",
    "in_texels",
    "level_of",
    "weights",
    "whole",
]


Corner = tuple[
    int, int, int, int
]  # of a texel among those that are weighed: 0 or 1 along x, y and z, and in the finer or the coarser level of detail
ONE = 1 << FILTERING.weight
MOST = float(1 << 44)  # texels
NOTHING = -600  # an exponent
# where f32 has whole even numbers only: further away a coordinate is the same in every texture, or outside
FAR = float(1 << 28)


def in_texels(x: np.ndarray, size: int) -> np.ndarray:
    """Normalised coordinates (n,) as texels of a dimension: what is below 2^-21 is cut off first, towards minus
    infinity.

    >>> in_texels(np.array([0.25]), 1000).tolist(), bool(in_texels(np.array([1.562]), 1000)[0] < 1562)
    ([250.0], True)
    """
    scale = float(1 << FILTERING.coordinate)
    found: np.ndarray = np.floor(_near(x) * scale) / scale * size
    return found


def _near(x: np.ndarray) -> np.ndarray:
    """Coordinates that fixed point can hold: a NaN is 0, what is far away becomes a multiple of 2 that is."""
    known = np.where(np.isnan(x), 0.0, np.clip(x, -(2.0**126), 2.0**126))
    return np.where(np.abs(known) > FAR, np.copysign(FAR, known), known)


def fixed(x: np.ndarray) -> np.ndarray:
    """Coordinates in texels (n,) as 256ths of texels from the middle of texel 0, int64.

    >>> fixed(np.array([0.5, 1.0, 1.001953125])).tolist()
    [0, 128, 129]
    """
    found: np.ndarray = np.floor(np.where(np.isnan(x), 0.0, np.clip(x, -MOST, MOST)) * ONE + 0.5).astype(np.int64) - ONE // 2
    return found


def whole(x: np.ndarray) -> np.ndarray:
    """The texels in which coordinates (n,) lie, int64."""
    found: np.ndarray = np.floor(np.where(np.isnan(x), 0.0, np.clip(x, -MOST, MOST))).astype(np.int64)
    return found


def level_of(lod: np.ndarray) -> np.ndarray:
    """Levels of detail (n,) in 256ths, cut towards 0, int64; a NaN is 0.

    >>> level_of(np.array([1.37, -0.01, np.nan])).tolist()
    [350, -2, 0]
    """
    found: np.ndarray = np.trunc(np.where(np.isnan(lod), 0.0, np.clip(lod, -MOST, MOST)) * ONE).astype(np.int64)
    return found


def weights(x: np.ndarray, y: np.ndarray, z: np.ndarray, share: np.ndarray | int = ONE, side: int = 0) -> dict[Corner, np.ndarray]:
    """The weights of 8 texels in 256ths, from the fractions (n,) along each axis in 256ths. Their sum is the `share` of
    their level of detail.

    >>> {corner[:3]: int(w[0]) for corner, w in weights(*(np.array([f]) for f in (156, 0, 224))).items() if w[0]}
    {(0, 0, 0): 12, (1, 0, 0): 20, (0, 0, 1): 87, (1, 0, 1): 137}
    """
    out: dict[Corner, np.ndarray] = {}
    half = ONE // 2
    far = (share * z + half - 1) >> FILTERING.weight
    for k, plane in ((0, share - far), (1, far)):
        right = (plane * x + half) >> FILTERING.weight
        for i, column, bias in ((0, plane - right, half - 1), (1, right, half)):
            upper = (column * y + bias) >> FILTERING.weight
            out[i, 0, k, side], out[i, 1, k, side] = column - upper, upper
    return out


def blend_integers(texels: Mapping[Corner, np.ndarray], shares: Mapping[Corner, np.ndarray]) -> np.ndarray:
    """The weighted sum of 16-bit numbers, rounded half up."""
    total = sum(texels[corner].astype(np.int64) * shares[corner] for corner in shares)
    return np.asarray((total + ONE // 2) >> FILTERING.weight)


def blend_signed_bytes(texels: Mapping[Corner, np.ndarray], shares: Mapping[Corner, np.ndarray]) -> np.ndarray:
    """The weighted sum of signed bytes, of which 127 is 1, as 32767ths.

    >>> [int(blend_signed_bytes({c: np.array([v])}, {c: np.array([256])})[0]) for c in [(0, 0, 0, 0)] for v in (1, 64, 127, -1, -128)]
    [258, 16513, 32767, -258, -32767]
    """
    total = sum(texels[corner].astype(np.int64) * shares[corner] for corner in shares)
    return np.asarray(np.maximum(total + (((total >> 4) + (total >> 12) + 4) >> 3), -0x7FFF))


def blend_srgb(texels: Mapping[Corner, np.ndarray], shares: Mapping[Corner, np.ndarray]) -> np.ndarray:
    """The weighted sum of bytes in sRGB, as float64 that f16 holds: what each of them is, is cut and added as floats
    are.
    """
    values = {corner: SRGB[texel].astype(np.float64) for corner, texel in texels.items()}
    exponents = {corner: np.where(shares[corner] == 0, NOTHING, SRGB_EXPONENTS[texel]) for corner, texel in texels.items()}
    return _rounded(_sum(values, shares, exponents, FILTERING.srgb), 16)


def blend_floats(texels: Mapping[Corner, np.ndarray], shares: Mapping[Corner, np.ndarray], bits: int) -> np.ndarray:
    """The weighted sum of floats of 16 or 32 bits (n,), as float64, rounded half away from zero."""
    counted = {corner: np.where(shares[corner] == 0, 0.0, texel) for corner, texel in texels.items()}
    is_negative = np.stack([(shares[corner] == 0) | np.signbit(texel) for corner, texel in texels.items()]).all(axis=0)
    special = np.stack([np.where(np.isfinite(texel), 0.0, texel) for texel in counted.values()]).sum(axis=0)
    values = {corner: np.where(np.isfinite(texel), texel, 0.0) for corner, texel in counted.items()}
    exponents = {corner: np.where(value == 0, NOTHING, np.frexp(value)[1]) for corner, value in values.items()}
    found = _rounded(_sum(values, shares, exponents, FILTERING.texels[bits]), bits)
    found = np.where((found == 0) & is_negative, -0.0, found)
    return np.where(special == 0, found, special)


def _sum(
    values: Mapping[Corner, np.ndarray], shares: Mapping[Corner, np.ndarray], exponents: Mapping[Corner, np.ndarray], kept: int
) -> np.ndarray:
    """The weighted sum of numbers with these exponents, before it is rounded.

    Texels of one plane of one level are cut, toward zero, to multiples of 2^(largest exponent - `kept`), and summed
    exactly. Sums of several planes are cut, toward minus infinity, below the largest exponent of all, which counts in
    steps of 4 there.
    """
    planes: list[tuple[np.ndarray, np.ndarray]] = []
    for plane in sorted({corner[2:] for corner in shares}):
        corners = [corner for corner in shares if corner[2:] == plane]
        largest = np.stack([exponents[corner] for corner in corners]).max(axis=0)
        unit = np.ldexp(1.0, largest - kept)
        total = (np.trunc(np.stack([values[c] for c in corners]) / unit) * np.stack([shares[c] for c in corners])).sum(axis=0)
        planes.append((total * unit / ONE, largest))
    if len(planes) == 1:
        return planes[0][0]
    largest = np.stack([exponent for _, exponent in planes]).max(axis=0)
    unit = np.ldexp(1.0, largest - (largest - FILTERING.phase) % FILTERING.step - kept - FILTERING.weight)
    return np.asarray(sum(np.floor(total / unit) * unit for total, _ in planes))


def _rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """Half away from zero, to the significand of a float of 16 or 32 bits; below the smallest normal number to
    multiples of the smallest one.
    """
    significand, least = {16: (11, -13), 32: (24, -125)}[bits]
    exponent = np.maximum(np.frexp(x)[1], least)
    unit = np.ldexp(1.0, exponent - significand)
    found = np.copysign(np.floor(np.abs(x) / unit + 0.5) * unit, x)
    return np.asarray(np.where((bits == 32) & (np.abs(found) < 2.0 ** (least - 1)), 0.0, found))
