"""Is one flag of an array set, or every flag? `ndarray.any` and `all` take five times as long for the few hundred
flags of a wave.
"""

from __future__ import annotations

import numpy as np

__all__ = ["all_set", "any_set"]


def any_set(flags: np.ndarray) -> bool:
    """Is one flag set? Numbers count as set if they are not 0.

    >>> any_set(np.array([False, True])), any_set(np.zeros(3)), any_set(np.zeros(0, bool))
    (True, False, False)
    """
    return bool(np.count_nonzero(flags))


def all_set(flags: np.ndarray) -> bool:
    """Are all flags set?

    >>> all_set(np.array([True, True])), all_set(np.array([[False, True]])), all_set(np.zeros(0, bool))
    (True, False, True)
    """
    return bool(np.count_nonzero(flags) == flags.size)
