"""All operations: importing this module registers their builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from smemsim.gpu import control
from smemsim.gpu.alu import bits, compare, convert, either, moves, system, video

if TYPE_CHECKING:
    import numpy as np

    from smemsim.gpu.wave import Wave

__all__ = ["MODULES", "ON_EXIT"]

MODULES = (control, bits, compare, convert, either, moves, system, video)

# What must know when threads exit: barriers that wait for fewer from then on.
ON_EXIT: list[Callable[[Wave, np.ndarray], None]] = []
