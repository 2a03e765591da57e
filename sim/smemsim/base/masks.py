"""Is one flag of an array set, or every flag? `ndarray.any` and `all` take five times as long for the few hundred
flags of a wave, and the search for another library's arrays in `np.count_nonzero` as long as the count.
"""

from __future__ import annotations

import inspect

import numpy as np

__all__ = ["all_set", "any_set"]


_count = inspect.unwrap(np.count_nonzero)


def any_set(flags: np.ndarray) -> bool:
    """Is one flag set? Numbers count as set if they are not 0.

    >>> any_set(np.array([False, True])), any_set(np.zeros(3)), any_set(np.zeros(0, bool))
    (True, False, False)
    """
    return bool(_count(flags))


def all_set(flags: np.ndarray) -> bool:
    """Are all flags set?

    >>> all_set(np.array([True, True])), all_set(np.array([[False, True]])), all_set(np.zeros(0, bool))
    (True, False, True)
    """
    return bool(_count(flags) == flags.size)
