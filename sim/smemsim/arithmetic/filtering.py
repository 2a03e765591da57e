"""Linear filtering of textures, as one H100 showed it (spec/textures.py: no trace of it is kept yet): where a coordinate lies between texels, the weights, and what texels and weights make.

A coordinate in texels becomes a fixed-point number with 8 bits behind the point, rounded half up, and half a texel less. The weights of 2, 4 or 8 texels are whole 256ths
and add up to 256: the weight of each plane along z is shared out along x, and each of these along y, what rounding leaves to the lower texel.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from smemsim.spec.textures import FILTERING

__all__ = ["Corner", "blend_floats", "blend_integers", "fixed", "in_texels", "weights", "whole"]


Corner = tuple[int, int, int]  # of a texel among those that are weighed: 0 or 1 along x, y and z
ONE = 1 << FILTERING.weight
MOST = float(1 << 44)  # texels
FAR = float(1 << 28)  # where f32 has whole even numbers only: further away a coordinate is the same in every texture, or outside


def in_texels(x: np.ndarray, size: int) -> np.ndarray:
    """Normalised coordinates (n,) as texels of a dimension: what is below 2^-21 is cut off first, towards minus infinity.

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
    """Coordinates in texels (n,) as 256ths of texels behind the middle of texel 0, int64.

    >>> fixed(np.array([0.5, 1.0, 1.001953125])).tolist()
    [0, 128, 129]
    """
    found: np.ndarray = np.floor(np.where(np.isnan(x), 0.0, np.clip(x, -MOST, MOST)) * ONE + 0.5).astype(np.int64) - ONE // 2
    return found


def whole(x: np.ndarray) -> np.ndarray:
    """The texels in which coordinates (n,) lie, int64."""
    found: np.ndarray = np.floor(np.where(np.isnan(x), 0.0, np.clip(x, -MOST, MOST))).astype(np.int64)
    return found


def weights(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> dict[Corner, np.ndarray]:
    """The weights of 8 texels in 256ths, from the fractions (n,) along each axis in 256ths.

    >>> {corner: int(w[0]) for corner, w in weights(*(np.array([f]) for f in (156, 0, 224))).items() if w[0]}
    {(0, 0, 0): 12, (1, 0, 0): 20, (0, 0, 1): 87, (1, 0, 1): 137}
    """
    out: dict[Corner, np.ndarray] = {}
    half = ONE // 2
    for k, plane in ((0, ONE - z), (1, z)):
        right = (plane * x + half) >> FILTERING.weight
        for i, column, bias in ((0, plane - right, half - 1), (1, right, half)):
            upper = (column * y + bias) >> FILTERING.weight
            out[i, 0, k], out[i, 1, k] = column - upper, upper
    return out


def blend_integers(texels: Mapping[Corner, np.ndarray], shares: Mapping[Corner, np.ndarray]) -> np.ndarray:
    """The weighted sum of 16-bit numbers, rounded half up."""
    total = sum(texels[corner].astype(np.int64) * shares[corner] for corner in shares)
    return np.asarray((total + ONE // 2) >> FILTERING.weight)


def blend_floats(texels: Mapping[Corner, np.ndarray], shares: Mapping[Corner, np.ndarray], bits: int) -> np.ndarray:
    """The weighted sum of floats of 16 or 32 bits (n,), as float64: of each plane along z texels are cut to a multiple of what lies below the exponent
    of the largest one that counts; the sum is exact, and rounded half away from zero."""
    total = np.zeros(len(next(iter(texels.values()))))
    special, is_negative = np.zeros(len(total)), np.ones(len(total), bool)
    for plane in ([corner for corner in shares if corner[2] == k] for k in {corner[2] for corner in shares}):
        values = np.stack([np.where(shares[corner] == 0, 0.0, texels[corner]) for corner in plane])
        is_negative &= np.stack([(shares[corner] == 0) | np.signbit(texels[corner]) for corner in plane]).all(axis=0)
        special += np.where(np.isfinite(values), 0.0, values).sum(axis=0)
        values = np.where(np.isfinite(values), values, 0.0)
        unit = np.ldexp(1.0, np.frexp(np.abs(values).max(axis=0))[1] - FILTERING.texels[bits])
        total += (np.trunc(values / unit) * np.stack([shares[corner] for corner in plane])).sum(axis=0) * unit / ONE
    found = _rounded(total, bits)
    found = np.where((found == 0) & is_negative, -0.0, found)
    return np.where(special == 0, found, special)


def _rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """Half away from zero, to the significand of a float of 16 or 32 bits; below the smallest normal number to multiples of the smallest one."""
    significand, least = {16: (11, -13), 32: (24, -125)}[bits]
    exponent = np.maximum(np.frexp(x)[1], least)
    unit = np.ldexp(1.0, exponent - significand)
    found = np.copysign(np.floor(np.abs(x) / unit + 0.5) * unit, x)
    return np.asarray(np.where((bits == 32) & (np.abs(found) < 2.0 ** (least - 1)), 0.0, found))
