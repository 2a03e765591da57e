"""The observer that records a launch's transfers and matrix instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smemsim.core.ptx.module import Instruction
from smemsim.run.engine.records import Bulk, Copy, Events, Load, Products, Store
from smemsim.run.events import Observer

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["Recorder"]


class Recorder(Observer):
    """Records the transfers and matrix instructions of a launch in its `events`."""

    OPERATIONS = frozenset({"cp", "wgmma", "tcgen05"})  # instructions of which there are such

    def __init__(self, events: Events) -> None:
        self.events = events

    def transferred(self, x: Wave, i: Instruction, transfers: Sequence[Load | Store | Bulk | Copy]) -> None:
        """They come after the others."""
        self.events += transfers

    def multiplied(self, x: Wave, i: Instruction, products: Products) -> None:
        """The same of products."""
        self.events.products(products)
