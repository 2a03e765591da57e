"""Differential oracles: other people's answers to the same questions, each a space of cases. Their packages are imported when a chunk runs."""

from __future__ import annotations

import json
from collections.abc import Callable

from smemsim.campaign.oracles import cute_descriptors as _descriptors
from smemsim.campaign.oracles import cute_layouts as _layouts
from smemsim.campaign.oracles import mmasim as _mmasim
from smemsim.campaign.oracles import numpy_formulas as _numpy
from smemsim.campaign.oracles import triton_layouts as _triton
from smemsim.campaign.oracles.differential import Case, Verdict
from smemsim.campaign.space import Space
from smemsim.errors import InputError

__all__ = ["ORACLES", "again"]

ORACLES: dict[str, Callable[[], Space]] = {
    "numpy": _numpy.numpy_formulas,
    "triton-layouts": _triton.triton_layouts,
    "cute-layouts": _layouts.cute_layouts,
    "cute-descriptors": _descriptors.cute_descriptors,
    "mmasim": _mmasim.mmasim,
}
_COMPARE: dict[str, Callable[[Case], Verdict]] = {
    "numpy": _numpy.compare,
    "triton-layouts": _triton.compare,
    "cute-layouts": _layouts.compare,
    "cute-descriptors": _descriptors.compare,
    "mmasim": _mmasim.compare,
}


def again(name: str, case: str) -> str:
    """What differs in one case, given as JSON: the sentence of a `Trouble`, "" where both sides agree. InputError for an unknown oracle.

    >>> again("numpy", '{"of": "product", "row": 0, "seed": 1, "m": 2, "n": 2}')
    ''
    """
    if name not in _COMPARE:
        raise InputError(f"oracle {name!r}: needs one of {', '.join(ORACLES)}")
    return _COMPARE[name](json.loads(case))[1]
