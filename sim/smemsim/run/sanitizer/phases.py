"""Knowledge that warps have released at barriers and at addresses, phase by phase (`happens_before.py`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from smemsim.run.sanitizer.operations import Operation
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.scopes import GPU

__all__ = [
    "EVERYWHERE",
    "Alike",
    "Foreign",
    "Phase",
    "Phases",
    "Released",
    "Rows",
    "count_of",
    "each_once",
    "joined_rows",
    "merge",
    "row_of",
]


EVERYWHERE = -1  # instead of the CTA of a release: visible to every reader
Rows: TypeAlias = tuple[np.ndarray, ...]  # one of each of the five matrices
Foreign: TypeAlias = dict[int, np.ndarray]  # by the number of another wave: the clocks of its warps
_NOBODY = np.zeros(0, np.int64)


@dataclasses.dataclass(eq=False)
class Released:
    """Released knowledge: by wave number, from each of its CTAs and for each scope, the knowledge of the releasing
    warps.

    Everything for the whole card is in two more tables. The table `near` has what the wave's own warps learn, `far` the
    clocks of warps of other waves.
    """

    known: dict[int, dict[tuple[int, int], Rows]] = dataclasses.field(default_factory=dict)
    foreign: dict[tuple[int, int, int], Foreign] = dataclasses.field(default_factory=dict)
    near: dict[int, Rows] = dataclasses.field(default_factory=dict)
    far: Foreign = dataclasses.field(default_factory=dict)

    def add(self, key: tuple[int, int, int], known: Rows, foreign: Foreign | None = None) -> None:
        """Something more is released."""
        wave, cta, scope = key
        own = self.known.setdefault(wave, {})
        before = own.get((cta, scope))
        joined = own[cta, scope] = joined_rows(before, known)
        if foreign:
            merge(self.foreign.setdefault(key, {}), foreign)
        if scope >= GPU:
            near, far = self.near.get(wave), self.far.get(wave)
            # most often it comes from one place
            self.near[wave] = joined if near is before else joined_rows(near, known)
            if far is None or (near is not None and far is near[0]):
                self.far[wave] = self.near[wave][0]
            else:
                merge(self.far, {wave: known[0]})
            merge(self.far, foreign or {})

    def update(self, other: Released) -> None:
        """All that was released there is released here too."""
        for wave, rows in other.known.items():
            for (cta, scope), known in rows.items():
                self.add((wave, cta, scope), known, other.foreign.get((wave, cta, scope)))

    def copy(self) -> Released:
        """Another one that holds the same."""
        known = {wave: dict(rows) for wave, rows in self.known.items()}
        return Released(known, {key: dict(clocks) for key, clocks in self.foreign.items()}, dict(self.near), dict(self.far))

    def of_twin(self, n: int) -> Released:
        """The part of the `n`th of several equal barriers, which are independent of other waves."""
        known = {wave: {key: tuple(m[n] for m in rows) for key, rows in own.items()} for wave, own in self.known.items()}
        near = {wave: tuple(m[n] for m in rows) for wave, rows in self.near.items()}
        return Released(known, {}, near, {wave: clocks[n] for wave, clocks in self.far.items()})

    def spread(self, known: dict[int, Any], twins: Twins) -> Released:
        """One row for each of several equal barriers, from that of the first CTA. `known` has, by identity, the result
        for shared parts.
        """

        def rows(of_one: Rows) -> Rows:
            if id(of_one) not in known:
                known[id(of_one)] = all_ = twins.rows(of_one)
                known.update(zip(map(id, of_one), all_, strict=True))
            found: Rows = known[id(of_one)]
            return found

        def clocks(of_one: np.ndarray) -> np.ndarray:
            found: np.ndarray = known[id(of_one)] if id(of_one) in known else twins.clocks(of_one)
            return found

        of_all = {wave: {key: rows(m) for key, m in own.items()} for wave, own in self.known.items()}
        near = {wave: rows(m) for wave, m in self.near.items()}
        return Released(of_all, {}, near, {wave: clocks(m) for wave, m in self.far.items()})

    def moved(self, wave: int, move: Callable[[Rows], Rows]) -> None:
        """The operations of a wave have new numbers."""
        if wave in self.known:
            self.known[wave] = {key: move(rows) for key, rows in self.known[wave].items()}
        if wave in self.near:
            self.near[wave] = move(self.near[wave])


def each_once(*tables: dict[Any, Phase]) -> list[Phase]:
    """The phases of tables in which some share one."""
    return list({id(phase): phase for table in tables for phase in table.values()}.values())


def row_of(rows: Rows, n: int | None) -> Rows:
    """The row of the `n`th of several equal barriers; all rows for None."""
    return rows if n is None else tuple(m[n] for m in rows)


def joined_rows(before: Rows | None, more: Rows) -> Rows:
    """The knowledge that both have. None has nothing."""
    return more if before is None else tuple(map(np.maximum, before, more))


def merge(into: Foreign, more: Foreign) -> None:
    """Add clocks of other waves to others."""
    for wave, clocks in more.items():
        into[wave] = np.maximum(into[wave], clocks) if wave in into else clocks.copy()


@dataclasses.dataclass(frozen=True, eq=False)
class Alike:
    """Barriers of CTAs without contact to others, one of each CTA in order, at which these do the same at once. The
    warps are (barriers, warps of each), ascending.
    """

    each: tuple[Any, ...]


def count_of(what: Any) -> int:
    """How many barriers these are."""
    return len(what.each) if isinstance(what, Alike) else 1


class Phase:
    """The knowledge that was released into a barrier, or at an address: `open` since its last phase, `closed` with all
    phases before.

    Addresses with the same history share one phase, `count` of them. Equal barriers share one, too (`twins`), until
    one of them differs: a release there has a row for each. An entry of `operations` has one operation for each, or
    that of the first CTA, which stands for all.

    For an address, `carrier` is the origin of the present write (wave, CTA, its scope), and `writer` is its warp.
    Everything that each warp has released there by itself is `own`. Later writes of the warp at this address pass that
    on.
    """

    def __init__(self, count: int = 1, twins: tuple[Any, ...] = ()) -> None:
        self.count, self.twins = count, twins
        self.open = Released()
        self.operations: list[Sequence[Operation]] = []
        self.closed: Released | None = None
        self.told: dict[
            tuple[int, int, bool], set[int]
        ] = {}  # by wave, scope, relaxed: the warps that know what is closed, or will know it after a fence
        self.carrier: tuple[int, int, int] | None = None
        self.own: dict[tuple[int, int], Released] = {}
        self.over = 0  # phases that are complete
        self.history: list[Released] = []  # what was closed after each of the last three
        self.waited = _NOBODY  # by warp: how many it has waited for or been past, 0 for none; made when one first waits
        self.handed: dict[
            tuple[bool, int], tuple[Rows, Foreign]
        ] = {}  # what `VectorClocks.hands_on` keeps: since the last phase, and of that
        self.handed_on: dict[tuple[bool, int], tuple[Rows, Foreign]] = {}

    def copy(self, count: int) -> Phase:
        """That of some addresses, at which something of their own is done from now on."""
        self.count -= count
        other = Phase(count)
        other.open, other.operations, other.carrier, other.over = self.open.copy(), list(self.operations), self.carrier, self.over
        other.closed = None if self.closed is None else self.closed.copy()
        other.told = {key: set(warps) for key, warps in self.told.items()}
        other.own = {key: released.copy() for key, released in self.own.items()}
        other.history, other.waited = [released.copy() for released in self.history], self.waited.copy()
        return other

    def of_twin(self, n: int) -> Phase:
        """That of the `n`th of the twins."""
        other = Phase()
        other.open, other.closed = self.open.of_twin(n), None if self.closed is None else self.closed.of_twin(n)
        other.operations, other.over = [ops[n : n + 1] if len(ops) > 1 else [ops[0].of(n)] for ops in self.operations], self.over
        other.told = {key: set(warps) for key, warps in self.told.items()}
        other.history, other.waited = [released.of_twin(n) for released in self.history], self.waited.copy()
        return other

    def spread(self, barriers: tuple[Any, ...], twins: Twins) -> Phase:
        """That of barriers that are alike, from that of the first CTA's."""
        other, known = Phase(twins=barriers), dict[int, Any]()

        def of(released: Released) -> Released:
            if id(released) not in known:
                known[id(released)] = released.spread(known, twins)
            found: Released = known[id(released)]
            return found

        other.open, other.closed = of(self.open), None if self.closed is None else of(self.closed)
        other.history, other.over = [of(released) for released in self.history], self.over
        other.operations = list(self.operations)
        other.told = {key: twins.warps_of(warps) for key, warps in self.told.items()}
        other.waited = np.tile(self.waited, twins.count)
        return other

    @property
    def releases(self) -> list[Released]:
        """All that is kept of what was released here, each once."""
        kept = (self.open, self.closed, *self.history, *self.own.values())
        return list({id(released): released for released in kept if released is not None}.values())


class Phases:
    """The phases of a wave's barriers, and what lies at addresses of shared memory (`barriers`); what lies at addresses
    of global memory (`places`), which all waves of a launch share.
    """

    def __init__(self, places: dict[Any, Phase] | None) -> None:
        self.barriers: dict[Any, Phase] = {}
        self.places: dict[Any, Phase] = {} if places is None else places

    def at(self, what: Any) -> Phase:
        """The phase of a barrier, or what lies at an address."""
        phase = self.found(what)
        if phase is not None:
            return phase
        if isinstance(what, Alike):
            phase = Phase(twins=what.each)
            self.barriers.update(dict.fromkeys(what.each, phase))
            return phase
        phase = self.table(what)[what] = Phase()
        return phase

    def table(self, what: Any) -> dict[Any, Phase]:
        """The phases among which is that of a barrier or an address."""
        return self.places if isinstance(what, tuple) and what[0] == "global" else self.barriers

    def found(self, what: Any) -> Phase | None:
        """`at`; None where nothing has been done there. A barrier with which something is done by itself has a phase
        of its own from now on.
        """
        if isinstance(what, Alike):
            return self.barriers.get(what.each[0])
        phases = self.table(what)
        phase = phases.get(what)
        if phase is None or not phase.twins:
            return phase
        phases.update({twin: phase.of_twin(n) for n, twin in enumerate(phase.twins)})
        return phases[what]

    def looked_at(self, what: Any) -> tuple[Phase | None, int | None]:
        """The result `found` for a reader, and which of the equal barriers it is. They stay equal. None if it is all of
        them, or there are no others.
        """
        if isinstance(what, Alike):
            return self.barriers.get(what.each[0]), None
        phase = self.table(what).get(what)
        return phase, phase.twins.index(what) if phase is not None and phase.twins else None

    def of_addresses(self, whats: Sequence[Any]) -> list[Phase]:
        """The phases at addresses of one space, apart from those of others."""
        table = self.table(whats[0])
        alike: dict[int, list[Any]] = {}
        for what in whats:
            alike.setdefault(id(table.get(what)), []).append(what)
        found = []
        for some in alike.values():
            phase = table.get(some[0])
            if phase is None or phase.count > len(some):
                phase = Phase(len(some)) if phase is None else phase.copy(len(some))
                table.update(dict.fromkeys(some, phase))
            found.append(phase)
        return found
