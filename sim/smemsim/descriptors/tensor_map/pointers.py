"""Null pointers in an encode call: they break a rule of their own, because no list is there to be judged."""

from __future__ import annotations

from collections.abc import Iterable

from smemsim.descriptors.tensor_map.rule import Violation
from smemsim.spec.tensor_map import POINTERS

__all__ = ["refused_nulls"]

_CORNERS = ("pixel_box_lower_corner", "pixel_box_upper_corner")  # of cuTensorMapEncodeIm2col: inferred


def refused_nulls(names: Iterable[str]) -> list[Violation]:
    """A sentence for every argument, by our name, that an encode call may not be given as a null pointer.

    No document says so. Measured for cuTensorMapEncodeTiled (driver 580 on an H200): trace encode_pointers; for the im2col calls, and on
    Blackwell, inferred from that.

    >>> [str(sentence) for sentence in refused_nulls(["box_dim", "global_address"])]
    ['box_dim is a null pointer: the driver refuses it']
    """
    also = {"global_strides": ", also for rank 1, which has no stride"}
    nulls = [name for name in names if name in POINTERS or name in _CORNERS]
    return [Violation(f"{name} is a null pointer: the driver refuses it{also.get(name, '')}", "null_pointer") for name in nulls]
