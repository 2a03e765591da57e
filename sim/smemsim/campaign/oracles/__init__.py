"""Differential oracles: other people's answers to the same questions, each a space of cases. Their packages are
imported when a chunk runs.
"""

from __future__ import annotations

import json

from smemsim.base.arguments import choice
from smemsim.campaign.oracles import cute_descriptors, cute_layouts, mmasim, mmasim_sync, numpy_formulas, triton_layouts
from smemsim.campaign.oracles.differential import Oracle

__all__ = ["ORACLES", "again", "oracle"]


ORACLES: dict[str, Oracle] = {
    module.ORACLE.name: module.ORACLE for module in (numpy_formulas, triton_layouts, cute_layouts, cute_descriptors, mmasim, mmasim_sync)
}


def oracle(name: str) -> Oracle:
    """The oracle of a name; InputError for a name that is none.

    >>> oracle("mmasim").needs
    ('mmasim', 'torch')
    """
    return ORACLES[choice("oracle", name, tuple(ORACLES), f"one of {', '.join(ORACLES)}")]


def again(name: str, case: str) -> str:
    """The difference in one case, given as JSON: the sentence of a `Trouble`, "" where both sides agree. InputError for
    an unknown oracle.

    >>> again("numpy", '{"of": "product", "row": 0, "seed": 1, "m": 2, "n": 2}')
    ''
    """
    return oracle(name).compare(json.loads(case))[1]
