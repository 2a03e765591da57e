"""State that a family of instructions keeps at a wave, a CTA or a launch: one typed slot for each family, made when
it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["HasSlots", "Slot", "same_for_waves"]


State = TypeVar("State")


class HasSlots(Protocol):
    """An object at which state can be kept. `slots` is for `Slot` only."""

    slots: dict[Any, Any]


class Slot(Generic[State]):
    """The place of one family's state. A family makes its slot once, as a constant of its module, and calls it with
    the wave, the CTA or the launch.

    >>> from types import SimpleNamespace
    >>> visits: Slot[list[int]] = Slot(lambda wave: [])
    >>> wave = SimpleNamespace(slots={})
    >>> visits.peek(wave), visits(wave), visits(wave) is visits(wave)
    (None, [], True)
    """

    def __init__(self, make: Callable[[Any], State]) -> None:
        self._make = make

    def __call__(self, owner: HasSlots) -> State:
        """The state at `owner`, made if there is none yet."""
        try:
            found: State = owner.slots[self]
        except KeyError:
            found = owner.slots[self] = self._make(owner)
        return found

    def put(self, owner: HasSlots, state: State) -> State:
        """Keep another state at `owner`; returns it."""
        owner.slots[self] = state
        return state

    def peek(self, owner: HasSlots) -> State | None:
        """The state at `owner`; None if nothing has asked for it yet."""
        found: State | None = owner.slots.get(self)
        return found


_SAME: Slot[dict[tuple[int, Hashable], Any]] = Slot(lambda launch: {})


def same_for_waves(launch: HasSlots, threads: int, name: Hashable, make: Callable[[], State]) -> State:
    """Data that all waves of a launch with so many threads share, made by the first that needs it."""
    kept, key = _SAME(launch), (threads, name)
    if key not in kept:
        kept[key] = make()
    found: State = kept[key]
    return found
