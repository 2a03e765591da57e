"""Cubemaps: the face and the place that a direction hits, and the texels past the edges of a face.

Source: `golden/sm_90a/textures`; CUDA C++ programming guide, table of cubemap faces.
"""

from __future__ import annotations

import numpy as np

__all__ = ["beside", "direction_at", "face_of", "without_corner"]


FACES = 6


def face_of(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(faces, normalised coordinates on them) of directions (n,): of components that are alike z comes before y, y
    before x.

    >>> [a.tolist() for a in face_of(*np.array([[1.0, -0.5, 0.25], [1.0, 1.0, -1.0]]).T)]
    [[0, 5], [0.375, 0.0], [0.75, 0.0]]
    """
    along_z = (abs(z) >= abs(x)) & (abs(z) >= abs(y))
    along_y = ~along_z & (abs(y) >= abs(x))
    face = np.where(along_z, 4 + (z < 0), np.where(along_y, 2 + (y < 0), 0 + (x < 0)))
    s = np.choose(face, [-z, z, x, x, x, -x])
    t = np.choose(face, [-y, -y, z, -z, -y, -y])
    major = np.where(along_z, z, np.where(along_y, y, x))
    with np.errstate(all="ignore"):
        share = np.float32(1) / abs(major).astype(np.float32)
        return face, _on_face(s, share), _on_face(t, share)


def _on_face(x: np.ndarray, share: np.ndarray) -> np.ndarray:
    """From -1 ... 1 to 0 ... 1; the middle where there is no direction. The reciprocal and the product are those of
    f32.
    """
    product = (x.astype(np.float32) * share).astype(np.float64)
    return np.asarray(np.where(np.isnan(product), 0.0, product) * 0.5 + 0.5)


def direction_at(face: np.ndarray, s: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The direction of a place on a face; -1 to 1 is inside the face."""
    one = np.ones_like(s)
    return (
        np.choose(face, [one, -one, s, s, s, -s]),
        np.choose(face, [-t, -t, one, -one, -t, -t]),
        np.choose(face, [-s, s, t, -t, one, -one]),
    )


def beside(face: np.ndarray, i: np.ndarray, j: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(face, column, row) of the texels of a seamless cubemap at columns and rows of a face, which may be one past its
    edge.

    >>> [int(a[0]) for a in beside(*(np.array([n]) for n in (4, -1, 2)), 8)]
    [1, 7, 2]
    """
    other, s, t = face_of(*direction_at(face, (2 * i + 1) / size - 1, (2 * j + 1) / size - 1))
    is_out = (i < 0) | (i >= size) | (j < 0) | (j >= size)
    column, row = (np.clip(np.floor(x * size).astype(np.int64), 0, size - 1) for x in (s, t))
    return np.where(is_out, other, face), np.where(is_out, column, np.clip(i, 0, size - 1)), np.where(is_out, row, np.clip(j, 0, size - 1))


def without_corner(share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The shares of the three texels at a corner of the cube, which has no fourth texel. Returns the share of each of
    the two texels past the edge, and of the face's own texel.

    >>> [int(part) for part in without_corner(np.array(64))]
    [21, 22]
    """
    part = (2 * share + 3) // 6
    return part, share - 2 * part
