"""The spaces that a campaign can sweep, by name; each is imported when it is first used."""

from __future__ import annotations

import functools
import importlib

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError
from smemsim.campaign.space import Space
from smemsim.core.spec.tcgen05 import KINDS

__all__ = ["NAMES", "ORACLE_NAMES", "space"]


_MODULES = {
    "smem": "smem",
    "keys": "keys",
    "maps": "boxes",
    "paths": "paths",
    "arithmetic": "arithmetic",
    "plans": "plans",
    "check": "faults",
    "ptx": "ptx",
    "cohorts": "cohorts",
    "concurrent": "concurrent",
    "chains": "concurrent_chains",
}
NAMES = (*_MODULES, *(f"idesc-{kind}" for kind in KINDS))
ORACLE_NAMES = (
    "numpy",
    "triton-layouts",
    "cute-layouts",
    "cute-descriptors",
    "mmasim",
    "mmasim-sync",
)  # other people's answers; swept when they are named


@functools.cache
def space(name: str) -> Space:
    """The space of a name; InputError for a name that is none.

    >>> space("keys").chunks
    64
    """
    every = (*NAMES, *ORACLE_NAMES)
    if name not in every:
        raise InputError(f"space = {shown(name)}: not a space; there are {', '.join(every)}{suggestion(name, every)}")
    if name in ORACLE_NAMES:
        from smemsim.campaign.oracles import ORACLES

        if ORACLES[name].lacks:
            raise InputError(f"space = {name}: {ORACLES[name].lacks}")
        return ORACLES[name].space()
    if name in _MODULES:
        found: Space = importlib.import_module(f"smemsim.campaign.spaces.{_MODULES[name]}").SPACE
        return found
    from smemsim.campaign.spaces import idesc

    return idesc.space(name.partition("-")[2])
