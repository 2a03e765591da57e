"""The virtual GPU: a device in Python that unmodified programs find instead of a card, and the doors through which they find it.

`VirtualDevice` is the only place with semantics; doors only translate calls. `Policy` says what happens with findings. `docs/virtual.md` explains both.
"""

from __future__ import annotations

from smemsim.virtual.device import CudaError, Function, Graph, Module, Stream, VirtualDevice
from smemsim.virtual.policy import FindingsError, HookedLaunch, Policy, hook

__all__ = ["CudaError", "FindingsError", "Function", "Graph", "HookedLaunch", "Module", "Policy", "Stream", "VirtualDevice", "hook"]
