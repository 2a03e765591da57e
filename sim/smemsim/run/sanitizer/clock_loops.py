"""The knowledge of whole CTAs when all their threads have synchronised, compiled. There are many barriers, and a wave
has few numbers of warps.
"""

from __future__ import annotations

from smemsim.base.compiling.loop import compiled

__all__ = ["all_know", "all_meet", "all_threads_meet"]


@compiled
def all_meet(clock, seen, fenced, size, has_fenced):  # type: ignore[no-untyped-def]
    """The warps of each CTA, `size` of them, release to and acquire from each other, if they know only numbers of their
    own CTA. No other warp has seen more of a warp than its clock.
    """
    columns = seen.shape[1]
    for first in range(0, len(clock), size):
        begin = first if columns > size else 0
        for warp in range(first, first + size):
            for other in range(size):
                seen[warp, begin + other] = clock[first + other]
        for other in range(size):
            clock[first + other] += 1
            seen[first + other, begin + other] = clock[first + other]
            if has_fenced:
                most = fenced[first, begin + other]
                for warp in range(first + 1, first + size):
                    most = max(most, fenced[warp, begin + other])
                for warp in range(first, first + size):
                    fenced[warp, begin + other] = most


@compiled
def all_know(flags, size, count):  # type: ignore[no-untyped-def]
    """The first `count` flags (warps, flags) that a warp of a CTA has, each of its `size` warps has."""
    for first in range(0, len(flags), size):
        for warp in range(first + 1, first + size):
            for n in range(count):
                flags[first, n] |= flags[warp, n]
        for warp in range(first + 1, first + size):
            for n in range(count):
                flags[warp, n] = flags[first, n]


@compiled
def all_threads_meet(clock, seen, fenced, size, has_fenced, now, meetings, part, epoch, step, last):  # type: ignore[no-untyped-def]
    """The same, with the effects of `Lanes.meet` and `Epochs.ends`. A time of lanes has `part` parts; an epoch starts
    `step` after the previous one. False: some epoch is the `last` one, and none starts.
    """
    all_meet(clock, seen, fenced, size, has_fenced)
    for warp in range(len(now)):
        now[warp] = (now[warp] // part + len(now)) * part
        meetings[warp] += 1
    for cta in range(len(epoch)):
        if epoch[cta] >= last:
            return False
    for cta in range(len(epoch)):
        epoch[cta] += step
    return True
