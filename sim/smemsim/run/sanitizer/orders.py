"""The orders that are kept for a wave: the one of the PTX ISA, and those that might be, as far as its
program has what they differ in.

For example: a kernel arrives at a cluster barrier by barrier.cluster.arrive.relaxed, which releases nothing. Beside the
order of the PTX ISA there is one in which it releases (`Assumed`). A race that exists only in the first is a remark.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING

from smemsim.run.lower.dataflow import passes_messages
from smemsim.run.sanitizer.across_waves import ACROSS_WAVES
from smemsim.run.sanitizer.happens_before import EXCUSES, Assumed, Formal, Orders, VectorClocks
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.lower.program import Program
    from smemsim.run.views import Wave

__all__ = ["clocks_of", "has_excuses", "has_fenced_tensor", "has_messages"]


def clocks_of(x: Wave, number: int, room: int) -> VectorClocks:
    """The order of a wave, by its number in the launch, with room for so many operations of each unit. It includes the
    orders that might be.
    """
    launch, (places, *released) = x.launch, ACROSS_WAVES(x.launch).released
    order = functools.partial(
        VectorClocks, x.total // WARP, per_cta=x.stride // WARP, cluster_size=launch.cluster_size, is_alone=launch.is_apart,
        has_cohorts=launch.has_cohorts, wave=number, units=max(1, len(x.ctas) // launch.cluster_size),
        are_shared=x.program.needs_others or not launch.has_cohorts, room=room,
    )  # fmt: skip
    formal = functools.partial(order, places=places)
    excuses = _excuses(x)
    widened = [Assumed(tuple(excuses[: n + 1])) for n in range(len(excuses))]
    of_tensor = None
    if has_fenced_tensor(x):
        of_tensor = formal(orders=Orders(tuple(order(places=own, assumes=w) for own, w in zip(released, widened, strict=False))))
    might_be = tuple(order(places=own, assumes=w) for own, w in zip(released, widened, strict=False)) if widened else ()
    loose = order(places=released[-1], assumes=Assumed(is_loose=True)) if has_messages(x) else None
    return formal(orders=Orders(might_be, of_tensor, loose))


def has_messages(x: Wave) -> bool:
    """May strong accesses alone pass data on?"""
    program = x.program
    found = _messages.get(program)
    if found is None:
        found = _messages[program] = passes_messages(program.inlined.body)
    return found


def _excuses(x: Wave) -> list[Formal]:
    """Those of EXCUSES that may matter to a wave."""
    return [e for e in EXCUSES if e in x.program.excuses and (e == "relaxed" or x.launch.cluster_size > 1)]


def has_excuses(x: Wave) -> bool:
    """May any of EXCUSES matter to a wave?"""
    return bool(_excuses(x))


def has_fenced_tensor(x: Wave) -> bool:
    """Does the program have tcgen05.fence, and accesses that order nothing without a fence?"""
    program = x.program
    if "tcgen05" not in program.uses:
        return False
    if program not in _fenced:
        body = program.inlined.body
        has_fence = any(i.op == "tcgen05" and i.modifiers[0].startswith("fence::") for i in body)
        _fenced[program] = has_fence and any(i.op in ("atom", "red") or not {"relaxed", "volatile"}.isdisjoint(i.modifiers) for i in body)
    return _fenced[program]


_fenced: weakref.WeakKeyDictionary[Program, bool] = weakref.WeakKeyDictionary()
_messages: weakref.WeakKeyDictionary[Program, bool] = weakref.WeakKeyDictionary()
