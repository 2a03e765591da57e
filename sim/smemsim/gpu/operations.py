"""All operations: importing this module registers their builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from smemsim.gpu import addresses, atomics, control, fences, load_store

if TYPE_CHECKING:
    import numpy as np

    from smemsim.gpu.wave import Wave

__all__ = ["MODULES", "ON_EXIT"]

MODULES = (
    control,
    addresses,
    load_store,
    atomics,
    fences,
)

# What must know when threads exit: barriers that wait for fewer from then on.
ON_EXIT: list[Callable[[Wave, np.ndarray], None]] = []
