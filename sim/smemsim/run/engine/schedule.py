"""Schedules: the choices that the PTX memory model and the hardware leave open, drawn from a seed.

A schedule chooses which warps run next, how far, and which CTAs begin together. It chooses when asynchronous
operations and stores complete (`in_flight.py`), when `mbarrier.try_wait` gives up, how requests for clusters to take
over are answered, and which clocks and SMs a kernel sees. A seed makes the same choices on every machine.

`warp_scheduler.py` chooses which threads of a wave run next.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError

__all__ = ["EARLIEST", "EXTREMES", "LATEST", "SEEDS", "Schedule", "checked_schedule", "seeds_of"]


EARLIEST, LATEST, ALL = "earliest", "latest", "all"
EXTREMES = (EARLIEST, LATEST)
SEEDS = 16  # that "all" tries, unless it says how many
MOST_SEEDS = 1 << 16
PAUSES = (0.0, 1 / 512, 1 / 32)  # how often a wave lets others go first
COMPLETES = (0.0, 1 / 64, 1 / 8, 1 / 2)  # how often something that is in flight completes though no thread needs it
CHANGES = (1, 2, 4, 16, 64, 256)  # blocks of instructions from one change of ranks to the next, on average
WAVES = 4  # that go on at once, before others begin
PIECES = 16  # waves that a grid is cut into, at most
_ALL = re.compile(rf"{ALL}(?:[ :=]*(\d+))?")

Chosen = TypeVar("Chosen")


def checked_schedule(value: Any) -> int | str | None:
    """A schedule as a launch names it: None the usual order, a seed from 0 on, "earliest", "latest", or "all:N".
    InputError for anything else.

    >>> checked_schedule("7"), checked_schedule("all 4"), checked_schedule("latest")
    (7, 'all:4', 'latest')
    """
    if value is None or (isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= value < 1 << 63):
        return None if value is None else int(value)
    if isinstance(value, str):
        if value in EXTREMES:
            return value
        if value.isascii() and value.isdigit() and len(value) < 19:
            return int(value)
        found = _ALL.fullmatch(value)
        if found and len(found[1] or "") < 6 and 1 <= int(found[1] or SEEDS) <= MOST_SEEDS:
            return f"{ALL}:{int(found[1] or SEEDS)}"
    known = EXTREMES if isinstance(value, str) and value.startswith(ALL) else (*EXTREMES, ALL)
    raise InputError(
        f"schedule = {shown(value)}: needs a seed from 0 on, {EARLIEST}, {LATEST}, or {ALL}:N for N seeds, at most {MOST_SEEDS}"
        f"{suggestion(value, known) if isinstance(value, str) and not value.startswith(ALL) else ''}"
    )


def seeds_of(schedule: int | str | None) -> int | None:
    """How many seeds a checked schedule asks for; None where it is a single one.

    >>> seeds_of("all:4"), seeds_of(4)
    (4, None)
    """
    return int(schedule.partition(":")[2]) if isinstance(schedule, str) and schedule.startswith(ALL) else None


class Schedule:
    """The choices of one launch. `seed` is a number, "earliest" or "latest": warps one after the other, the first or
    the last one first.
    """

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        # .random() is the same in every version of Python
        self._random = random.Random(seed if isinstance(seed, int) else 0)
        self.is_drawn = isinstance(seed, int)
        self.pauses = self.draw(PAUSES) if self.is_drawn else 0.0
        self.completes = self.draw(COMPLETES) if self.is_drawn else 0.0
        self.change = self.draw(CHANGES)
        self.parts_lanes = self.is_drawn and self.chance(0.25)
        self.gives_up = self.draw((0.0, 0.0, 0.1, 0.5)) if self.is_drawn else 0.0
        self.declines = self.draw((0.0, 0.0, 0.5, 1.0)) if self.is_drawn else 0.0
        self.first_multiprocessor = int(self.uniform() * 1024) if self.is_drawn else 0
        self.clock_begin, self.clock_step = (int(self.uniform() * (1 << 33)), 1 + int(self.uniform() * 64)) if self.is_drawn else (1000, 32)
        self.late_odds = self.draw((0.0, 0.5, 0.9, 1.0)) if self.is_drawn else float(seed == LATEST)
        self.look_odds = self.draw((0.0, 0.25, 0.5, 0.9)) if self.is_drawn else float(seed == LATEST)
        self.changes_soon = self.draw((0.0, 0.25, 0.5, 1.0)) if self.is_drawn else 0.0

    def uniform(self) -> float:
        """A number from 0 to 1."""
        return self._random.random()

    def chance(self, odds: float) -> bool:
        """Does something happen that does so with these odds?"""
        return odds > 0 and (odds >= 1 or self._random.random() < odds)

    def draw(self, among: Sequence[Chosen]) -> Chosen:
        """One of several."""
        return among[min(int(self._random.random() * len(among)), len(among) - 1)]

    def shuffled(self, things: Sequence[int]) -> list[int]:
        """All of several, in another order."""
        order = list(things)
        for n in range(len(order) - 1, 0, -1):
            other = min(int(self._random.random() * (n + 1)), n)
            order[n], order[other] = order[other], order[n]
        return order

    # ---- clusters and waves

    def begins(self, clusters: Sequence[int]) -> Sequence[int]:
        """The order in which clusters begin."""
        if not self.is_drawn:
            return clusters if self.seed == EARLIEST else clusters[::-1]
        return self.shuffled(clusters) if len(clusters) <= MOST_SEEDS and self.chance(0.75) else clusters

    def together(self, most: int, clusters: int) -> int:
        """How many of the clusters begin together, of `most` that can."""
        if not self.is_drawn:
            return most
        return min(most, max(-(-clusters // PIECES), self.draw((1, 2, most))))

    def wave(self, ready: Sequence[Chosen], *, can_begin: bool) -> Chosen | None:
        """Which of the waves that are `ready` goes on; None: the next one begins, where there is one."""
        if not ready or (self.is_drawn and can_begin and len(ready) < WAVES and self.chance(0.5)):
            return None
        return self.draw(ready) if self.is_drawn else ready[0]

    def is_late(self) -> bool:
        """Does what is issued now complete later?"""
        return self.chance(self.late_odds)

    def looks_late(self) -> bool:
        """Does a load that is issued now look at memory later?"""
        return self.chance(self.look_odds)
