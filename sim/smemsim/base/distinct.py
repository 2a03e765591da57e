"""The distinct values of arrays of whole numbers. `np.unique` imports numpy.ma when it is first called, and takes
several times as long for few values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["distinct"]


def distinct(values: Any) -> np.ndarray:
    """The values of an array of whole numbers, each once, ascending; flat.

    >>> distinct(np.array([[3, 1], [1, 3]])).tolist(), distinct(np.zeros(0, np.int64)).tolist()
    ([1, 3], [])
    """
    ascending: np.ndarray = np.array(values).reshape(-1)
    ascending.sort()
    if len(ascending) == 1:
        return ascending
    is_first = np.empty(len(ascending), bool)
    is_first[:1] = True
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return ascending[is_first]
