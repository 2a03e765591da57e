"""The sanitizer's knowledge of a launch beyond one wave."""

from __future__ import annotations

import dataclasses
from typing import Any

from smemsim.core.ptx.module import Instruction
from smemsim.run.slots import Slot

__all__ = ["ACROSS_WAVES", "AcrossWaves", "StrongStore"]


@dataclasses.dataclass(eq=False)
class StrongStore:
    """A strong store at an address: the wave, the warp, its clock, and its readers, by wave and warp, with the clock of
    the first read.
    """

    instruction: Instruction
    wave: int
    warp: int
    clock: int
    readers: dict[tuple[int, int], int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class AcrossWaves:
    """`released` has, by address of global memory, what warps have released there, once for each `VectorClocks` of a
    wave; `messages` has strong stores to global memory by their addresses (`Messages`).
    """

    waves: int = 0  # that have begun under the sanitizer
    released: tuple[dict[Any, Any], ...] = dataclasses.field(default_factory=lambda: ({}, {}, {}, {}, {}))
    messages: dict[Any, StrongStore] = dataclasses.field(default_factory=dict)

    def begins(self) -> int:
        """One more wave begins; its number."""
        self.waves += 1
        return self.waves


ACROSS_WAVES: Slot[AcrossWaves] = Slot(lambda launch: AcrossWaves())
