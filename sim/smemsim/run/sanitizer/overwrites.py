"""Overwrites of operands that a product may still read: are the rows and columns of D in doubt that come from them?

DeepGEMM's wgmma of 64 rows read tiles of 16 and 32 rows, and with them the next stages. Their epilogue ignores those
rows of D (sm90_bf16_gemm.cuh, `BLOCK_M < WGMMA::M`). So an overwrite is reported when a row is used that it may spoil.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.following import Tell

__all__ = ["Overwrites", "Probe"]


Probe: TypeAlias = tuple[
    tuple[object, ...], Tell, np.ndarray, np.ndarray
]  # the key and the report of a taint, and the rows and columns of D that have it


class Overwrites:
    """Overwrites of words that some rows of a product may still read, after the users of those rows are forgotten.

    The next time that its line runs, those rows are tainted: the kernel uses them then as before. If it does not run
    again, the overwrite is reported.
    """

    def __init__(self) -> None:
        self._probes: dict[int, dict[tuple[object, ...], Probe]] = {}  # by the id of the instruction, and key
        self._open: dict[tuple[object, ...], Tell] = {}

    def probe(self, i: Instruction, probe: Probe) -> None:
        """The rows and columns of a product are in doubt from now on."""
        key, tell, _, _ = probe
        known = self._probes.setdefault(id(i), {})
        if key not in known:
            known[key] = probe
            self._open[key] = tell

    def probes_of(self, i: Instruction) -> list[Probe]:
        """The doubts of a product that runs again."""
        probes = list(self._probes.get(id(i), {}).values())
        for key, _, _, _ in probes:
            self._open.pop(key, None)
        return probes

    @property
    def is_open(self) -> bool:
        """Is there one that would be reported now?"""
        return bool(self._open)

    def ended(self) -> None:
        """The wave is over."""
        for tell in self._open.values():
            tell(None)
        self._open.clear()
