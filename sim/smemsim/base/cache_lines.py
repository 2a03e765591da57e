"""Arrays that begin a line of the processor's caches.

A load or store of 64 bytes that lies in two lines takes as long as two. numpy aligns memory to 16 bytes.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["LINE", "zeros_in_lines"]

LINE = 64  # bytes


def zeros_in_lines(shape: tuple[int, ...], kind: npt.DTypeLike) -> np.ndarray:
    """`np.zeros` whose first element begins a line.

    >>> zeros_in_lines((3, 5), np.int64).ctypes.data % LINE
    0
    """
    kind = np.dtype(kind)
    raw = np.zeros(math.prod(shape) * kind.itemsize + LINE, np.uint8)
    return np.ndarray(shape, kind, raw, -raw.ctypes.data % LINE)
