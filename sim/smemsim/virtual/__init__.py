"""The virtual GPU: a device in Python that unmodified programs find instead of a card, and the doors through which they find it.

`VirtualDevice` is the only place with semantics; doors only translate calls. `Policy` says what happens with findings. `docs/virtual.md` explains both.
Parts are imported when first used: `smemsim exec` starts the program before it loads the simulator.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smemsim.virtual.device import CudaError, Event, Function, Graph, GraphExec, Module, Node, Stream, VirtualDevice
    from smemsim.virtual.policy import FindingsError, HookedLaunch, Policy, hook

_HOMES = {
    **dict.fromkeys(("CudaError", "Event", "Function", "Graph", "GraphExec", "Module", "Node", "Stream", "VirtualDevice"), "device"),
    **dict.fromkeys(("FindingsError", "HookedLaunch", "Policy", "hook"), "policy"),
}
__all__ = [
    "CudaError",
    "Event",
    "FindingsError",
    "Function",
    "Graph",
    "GraphExec",
    "HookedLaunch",
    "Module",
    "Node",
    "Policy",
    "Stream",
    "VirtualDevice",
    "hook",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'smemsim.virtual' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"smemsim.virtual.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
