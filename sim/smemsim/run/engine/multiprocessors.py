"""On which multiprocessors CTAs run (rule order.same_multiprocessor), for programs that read %smid. Its value is not
specified; how many CTAs share a multiprocessor is known.

Programs keep workspaces by %smid if one CTA fits on a multiprocessor: the next CTA there begins when the previous one
has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.spec.cards import card_of
from smemsim.core.spec.launches import REGISTERS
from smemsim.core.spec.occupancy import cta_fit
from smemsim.run.engine.wave import WARP

if TYPE_CHECKING:
    from smemsim.run.engine.launch import Launch

__all__ = ["Multiprocessors", "fitting"]


def fitting(launch: Launch) -> int:
    """CTAs that a multiprocessor holds at once, as far as threads and shared memory say."""
    return max(1, cta_fit(card_of(launch.arch), launch.threads, launch.asked_bytes).most)


def _is_alone(launch: Launch) -> bool:
    """Is there no room for a second CTA on a multiprocessor? ptxas chooses the registers: two fit for certain if all
    threads of both may have the maximum.
    """
    if fitting(launch) == 1:
        return True
    directives = launch.kernel.directives
    if directives.get("minnctapersm", (1,))[0] > 1:
        return False
    most = directives.get("maxnreg", (REGISTERS.most + 1,))[0]
    return 2 * most * -(-launch.threads // WARP) * WARP > REGISTERS.multiprocessor


class Multiprocessors:
    """The multiprocessors of a launch's CTAs: each CTA gets the next one with room."""

    def __init__(self, launch: Launch) -> None:
        self.is_alone = _is_alone(launch)
        self.fits = 1 if self.is_alone else fitting(launch)
        self._held = np.zeros(launch.multiprocessors, np.int64)
        self._next = 0 if launch.schedule is None else launch.schedule.first_multiprocessor % launch.multiprocessors
        self._of: dict[int, int] = {}

    def begin(self, ctas: Iterable[int]) -> None:
        """CTAs begin, by their numbers in the grid."""
        for cta in ctas:
            order = (self._next + np.arange(len(self._held))) % len(self._held)
            free = order[self._held[order] < self.fits]
            at = int(free[0] if len(free) else order[0])
            self._held[at] += 1
            self._of[cta] = at
            self._next = (at + 1) % len(self._held)

    def end(self, ctas: Iterable[int]) -> None:
        """CTAs have ended."""
        for cta in ctas:
            self._held[self._of[cta]] -= 1

    def of(self, ctas: Iterable[int]) -> list[int]:
        """Where CTAs run."""
        return [self._of[cta] for cta in ctas]

    def follow(self, cta: int, other: int) -> bool:
        """Are these two CTAs of one multiprocessor that come one after the other?"""
        return self.is_alone and cta != other and self._of.get(cta, -1) == self._of.get(other, -2)
