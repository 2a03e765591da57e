"""Arrivals that land at the mbarrier of another CTA of the cluster, by a commit mask or a rank that is not relative
to the CTA's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from smemsim.run.views import mbarriers

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Cta, Wave

__all__ = ["members", "misdirected", "siblings"]


class _Barrier(Protocol):
    """The methods that are needed of an `Mbarrier`."""

    cta: Cta
    offset: int
    waits: list[Any]
    state: Any


B = TypeVar("B", bound=_Barrier)


def members(barrier: _Barrier, x: Wave) -> list[Cta]:
    """The CTAs of the mbarrier's cluster, in the order of their ranks."""
    first = barrier.cta.index - barrier.cta.rank
    return x.ctas[first : first + x.launch.cluster_size]


def siblings(barrier: B, x: Wave) -> Iterator[B]:
    """The mbarriers at the offset of `barrier` in the other CTAs of its cluster."""
    for cta in members(barrier, x):
        other = mbarriers(cta).get(barrier.offset)
        if other is not None and other is not barrier:
            yield other


def misdirected(barrier: _Barrier, x: Wave, *, unawaited: bool = False) -> tuple[str, str] | None:
    """Arrivals at the mbarrier of another CTA than the one that waits for them in vain: the mask or rank, the CTA that
    gets none, and what to change.

    The issuing CTA targets the same CTAs as another one does: their ranks have to be relative to its own rank.
    `unawaited`: arrivals without a wait count too.
    """
    if x.launch.cluster_size == 1:
        return None
    group = sorted([barrier, *siblings(barrier, x)], key=lambda b: b.cta.rank)
    starved = {b.cta.rank for b in group if (b.waits or unawaited) and not b.state.arrivals.by_site and not b.state.phase}
    reached: dict[tuple[int, int], set[int]] = {}
    for b in group if starved else ():
        for by in b.state.arrivals.by_site:
            reached.setdefault(by, set()).add(b.cta.rank)
    for (site, rank), targets in sorted(reached.items()):
        alike = [other for (at, other), same in reached.items() if at == site and other < rank and same == targets]
        if unawaited and not alike:
            continue
        wanted = {to + rank - min(alike) for to in targets} if alike else {rank}
        if wanted <= starved and barrier.cta.rank in starved | targets:
            return _told_misdirected(barrier, x, (site, rank), targets, wanted)
    return None


def _told_misdirected(barrier: _Barrier, x: Wave, by: tuple[int, int], targets: set[int], wanted: set[int]) -> tuple[str, str]:
    ctas = members(barrier, x)
    (site, rank), number = by, ctas[by[1]].number
    i = x.program.sites[site]
    mask, right = (sum(1 << to for to in ranks) for ranks in (targets, wanted))
    get, none = (_ctas(ctas[to].number for to in sorted(ranks)) for ranks in (targets, wanted))
    gets = f"{none} get{'s' * (len(wanted) == 1)} no arrival"
    if "multicast::cluster" in i.modifiers:
        shift = f" ({mask:#x} << {rank})" if mask << rank == right else ""
        return (
            f"the mask {mask:#x} of {i.name} at {i.at} sends the arrival of CTA {number} to {get}, so {gets}",
            f"in CTA {number} the mask {right:#x}{shift}: bit n of the mask is the CTA of rank n in the cluster",
        )
    to = ", ".join(map(str, sorted(wanted)))
    return (
        f"{i.name} at {i.at} of CTA {number} arrives at the mbarrier of {get}, so {gets}",
        f"in CTA {number}, mapa to rank {to} instead of {', '.join(map(str, sorted(targets)))}: a rank is the place of a CTA in its cluster",
    )


def _ctas(numbers: Iterable[int]) -> str:
    """CTAs in words."""
    named = list(map(str, numbers))
    return f"CTA{'s' * (len(named) > 1)} {', '.join(named)}"
