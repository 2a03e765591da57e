"""How much of a launch is followed from global memory (`origins.py`): all of it if it has scale factors or metadata,
else its first stores and its first mma.sync.

A launch of mma.sync alone is not followed if it does as an earlier one did. Its operands are then at the same places of
its arrays, unless it reads these places from memory.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.run.engine.launch import Launch
    from smemsim.run.lower.program import Program

__all__ = ["MOST_PRODUCTS", "follows", "is_again", "note", "was_right"]

# bytes that threads store in a launch without scale factors: enough for the first tiles of each CTA
MOST_BYTES = 1 << 20
MOST_PRODUCTS = 1 << 14  # mma.sync of warps in a launch without scale factors
MOST_KNOWN = 64  # launches of a program that are remembered


@dataclasses.dataclass(eq=False)
class _Followed:
    """How many bytes that threads stored, and how many mma.sync of warps, were followed."""

    is_again: bool
    bytes: int = 0
    products: int = 0


_FOLLOWED: Slot[_Followed] = Slot(
    lambda launch: _Followed(not launch.program.needs_owners and _key(launch) in _RIGHT.get(launch.program, ()))
)
# By the program: the launches that were followed, came to their end, and had no finding.
_RIGHT: weakref.WeakKeyDictionary[Program, set[Hashable]] = weakref.WeakKeyDictionary()


def _key(launch: Launch) -> Hashable:
    """The shape of a launch and its arguments. An address counts as its array's size and its place there."""
    given = launch.parameters
    words = given[: len(given) // 8 * 8].view(np.uint64).copy()
    arrays = []
    for n, word in enumerate(words.tolist()):
        if launch.memory.holds(word):
            region = launch.memory.find(word)
            arrays.append((n, word - region.begin, len(region.data)))
            words[n] = 0
    return launch.grid, launch.block, launch.cluster, launch.shared_bytes, words.tobytes(), given[len(words) * 8 :].tobytes(), tuple(arrays)


def follows(launch: Launch) -> bool:
    """Are the present stores and products of a launch followed?"""
    if launch.program.copied.has_factors:
        return True
    its = _FOLLOWED(launch)
    return not its.is_again and its.bytes <= MOST_BYTES and its.products <= MOST_PRODUCTS


def is_again(launch: Launch) -> bool:
    """Does a launch do as an earlier one did, whose mma.sync were followed?"""
    return _FOLLOWED(launch).is_again


def note(launch: Launch, *, stored: int = 0, products: int = 0) -> None:
    """Threads have stored so many bytes that are followed; so many warps have executed an mma.sync that is."""
    its = _FOLLOWED(launch)
    its.bytes += stored
    its.products += products


def was_right(launch: Launch) -> None:
    """A launch has come to its end, and those of its mma.sync that were followed have no finding."""
    if not launch.program.copied.has_factors and not is_again(launch):
        known = _RIGHT.setdefault(launch.program, set())
        if len(known) < MOST_KNOWN:
            known.add(_key(launch))
