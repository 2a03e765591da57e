"""Which phase of an mbarrier expects another number of bytes than come for it.

A phase is over as soon as the count of bytes is 0. If too few bytes are expected, it is over too early, and the copies
that are left are counted in the next one. So the phase in which a copy was counted is not always the one that it was
issued for. Three ways to assign copies to phases are compared; the one with the fewest differences is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from smemsim.core.ptx.module import Instruction

__all__ = ["Event", "Phase", "Round", "noted", "rounds_of"]

MOST_PHASES = 256  # different ones that are remembered, the last of them
MOST_ROUNDS = 4096  # that are compared


class Event(NamedTuple):
    """Bytes that an instruction expects, or that it brought to a place (`key`); the key of an expectation is None."""

    instruction: Instruction
    size: int
    key: tuple[int, int] | None


class Phase(NamedTuple):
    """Equal phases that follow each other: the number of the first one, how many they are, and their events."""

    first: int
    times: int
    events: tuple[Event, ...]


class Round(NamedTuple):
    """The bytes of one phase: what was expected in it, and what was brought for it."""

    phase: int
    expects: tuple[Event, ...]
    brings: tuple[Event, ...]

    @property
    def expected(self) -> int:
        """How many bytes are expected."""
        return sum(e.size for e in self.expects)

    @property
    def brought(self) -> int:
        """How many bytes come."""
        return sum(e.size for e in self.brings)

    @property
    def shape(self) -> tuple[object, ...]:
        """Rounds with the same shape have the same sizes. The lines do not matter: compilers unroll loops."""
        return tuple(e.size for e in self.expects), tuple(sorted(e.size for e in self.brings))


def noted(phases: list[Phase], phase: int, events: Sequence[Event]) -> None:
    """Add a phase that is over to those before."""
    same = tuple(events)
    if phases and phases[-1].events == same:
        phases[-1] = phases[-1]._replace(times=phases[-1].times + 1)
        return
    phases.append(Phase(phase, 1, same))
    if len(phases) > MOST_PHASES:
        del phases[0]


def rounds_of(phases: Iterable[Phase], phase: int, events: Sequence[Event]) -> list[Round]:
    """The rounds of an mbarrier in which bytes were expected or came, with the events of the current `phase`."""
    each = [(p.first + n, p.events) for p in phases for n in range(min(p.times, MOST_ROUNDS))][-MOST_ROUNDS:]
    each.append((phase, tuple(events)))
    ways = [_rounds(each, way) for way in (_by_issue, _by_place, _as_counted)]
    return min(ways, key=_differences)


_Each: TypeAlias = list[tuple[int, tuple[Event, ...]]]


def _rounds(each: _Each, way: Callable[[_Each], list[tuple[int, Event]]]) -> list[Round]:
    """Rounds, by a function that gives the phase of each copy."""
    expects: dict[int, list[Event]] = {}
    brings: dict[int, list[Event]] = {}
    for phase, events in each:
        for e in events:
            if e.key is None:
                expects.setdefault(phase, []).append(e)
    for phase, e in way(each):
        brings.setdefault(phase, []).append(e)
    return [Round(phase, tuple(expects.get(phase, ())), tuple(brings.get(phase, ()))) for phase in sorted({*expects, *brings})]


def _differences(rounds: list[Round]) -> tuple[bool, int]:
    """How unlikely an assignment is: does a phase bring bytes and expect none; how many kinds of phases differ."""
    wrong = [r for r in rounds if r.expected != r.brought]
    return any(not r.expects for r in wrong), len({r.shape for r in wrong})


def _by_issue(each: _Each) -> list[tuple[int, Event]]:
    """A copy belongs to the expectation before it: one thread expects bytes, and issues the copies."""
    found: list[tuple[int, Event]] = []
    last = next((phase for phase, events in each if any(e.key is None for e in events)), each[-1][0])
    for phase, events in each:
        for e in events:
            if e.key is None:
                last = phase
            else:
                found.append((last, e))
    return found


def _by_place(each: _Each) -> list[tuple[int, Event]]:
    """The n-th copy to a place belongs to the n-th phase that expects bytes: multicasts of several CTAs."""
    expecting = [phase for phase, events in each if any(e.key is None for e in events)] or [each[-1][0]]
    came: dict[tuple[int, int], int] = {}
    found: list[tuple[int, Event]] = []
    for _, events in each:
        for e in events:
            if e.key is not None:
                n = came[e.key] = came.get(e.key, -1) + 1
                found.append((expecting[min(n, len(expecting) - 1)], e))
    return found


def _as_counted(each: _Each) -> list[tuple[int, Event]]:
    """A copy belongs to the phase that counted it."""
    return [(phase, e) for phase, events in each for e in events if e.key is not None]
