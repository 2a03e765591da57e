"""Metadata of a sparse A that the PTX ISA leaves undefined. For example, 0b0101 names element 1 of its four twice."""

from __future__ import annotations

import numpy as np

from smemsim.core.spec.formats import element_format
from smemsim.core.spec.wgmma import INVALID_METADATA_2_4, METADATA_1_2

__all__ = ["undefined_groups"]


def undefined_groups(nibbles: np.ndarray, a: np.ndarray, a_type: str, *, group: int, is_ordered: bool = False) -> np.ndarray:
    """Which groups of K have metadata, `nibbles` (..., M, groups), that PTX ISA 9.1 §9.7.15.6.1, 9.7.14.6 leaves
    undefined? The raw bits of A are (..., M, stored K). A group of zeros does not count.

    >>> undefined_groups(np.array([[4, 5, 5]]), np.array([[1, 2, 1, 2, 0, 0]]), "s8", group=4).tolist()
    [[False, True, False]]
    """
    odd = ~np.isin(nibbles, [*METADATA_1_2]) if group == 2 else np.isin(nibbles, [*INVALID_METADATA_2_4])
    if is_ordered and group != 2:
        odd |= nibbles >> 2 < nibbles & 3
    if not odd.any():
        return np.asarray(odd)
    sign = 0 if a_type[0] in "su" else 1 << element_format(a_type).bits - 1  # -0 is zero
    is_number = (a & ~a.dtype.type(sign)) != 0
    return np.asarray(odd & is_number.reshape(*nibbles.shape, -1).any(axis=-1))
