"""Happens-before: what every warp has seen of other warps and of asynchronous operations. PTX ISA 8 (memory consistency
model) calls it causality order.

- The clock of a warp counts its releases and fences, and the operations that it issues.
- Row w of `seen` has a clock for every other warp. Writes up to this clock happen before the next action of w.
- Row w of `fenced` has the same for asynchronous operations that w issues after fence.proxy.async.
- Columns of `done`, `read_done` and `done_fenced` are the asynchronous operations of w's unit (`operations.py`). They
  say that w knows the whole operation to be complete, or its reads, or that a fence follows that knowledge.

Relaxed accesses order by the fences around them (PTX ISA 9.1 §8.8, release and acquire patterns). A relaxed arrival or
store passes on what its warp knew at its last fence. The knowledge of a relaxed wait or load counts from the warp's
next fence on. Both sides of a pattern, and the write and the read that carry it, must include each other in their
scopes (8.4, morally strong). So releases are recorded with their CTA and scope. The rules by name are in
docs/memory-model.md.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, cast

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.masks import all_set, any_set
from smemsim.run.sanitizer.clock_loops import all_know, all_meet
from smemsim.run.sanitizer.operations import Operation, Renumbering, columns_of, width_of
from smemsim.run.sanitizer.phases import EVERYWHERE, Alike, Foreign, Phase, Phases, Released, Rows, each_once, joined_rows, merge, row_of
from smemsim.run.sanitizer.twins import Twins
from smemsim.run.scopes import CLUSTER, CTA, GPU, UNWRITTEN

__all__ = ["EXCUSES", "Assumed", "Formal", "Orders", "VectorClocks"]


Formal: TypeAlias = str  # the only obstacle to order (a key of EXCUSES); "": none, so the finding would be wrong
EXCUSES = ("relaxed", "wait", "arrive")  # rules order.relaxed_cluster_arrive, order.narrow_wait, order.narrow_arrival
P = ParamSpec("P")


@dataclasses.dataclass(eq=False)
class AtFence:
    """The knowledge of warps at a fence of a scope (its level) or a wider one: of the own wave, and by warp of
    `others`.
    """

    rows: dict[int, Rows] = dataclasses.field(default_factory=dict)
    others: dict[int, dict[int, Foreign]] = dataclasses.field(default_factory=dict)


class Assumed(NamedTuple):
    """Promises of an order beyond the PTX ISA. The set `widens` has names of EXCUSES: relaxed arrivals at cluster
    barriers release, and waits and arrivals of .cta at mbarriers are of .cluster. If `is_loose` is set, relaxed
    accesses release and acquire.
    """

    widens: tuple[str, ...] = ()
    is_loose: bool = False


class Orders(NamedTuple):
    """The orders that are kept in addition to that of the PTX ISA, if they may differ from it.

    The orders `might_be` hold if some operations promise more than the PTX ISA says. The fewest promises come first.
    The order `tensor` is that of tcgen05 instructions, in which tcgen05.fence counts, too. The order `loose` holds if
    relaxed accesses release and acquire.
    """

    might_be: tuple[VectorClocks, ...] = ()
    tensor: VectorClocks | None = None
    loose: VectorClocks | None = None

    @property
    def same_fences(self) -> tuple[VectorClocks, ...]:
        """Those to which tcgen05.fence means nothing."""
        return self.might_be if self.loose is None else (*self.might_be, self.loose)

    @property
    def all(self) -> tuple[VectorClocks, ...]:
        """Each of them."""
        return self.same_fences if self.tensor is None else (*self.same_fences, self.tensor)


class Grid(NamedTuple):
    """The place of each warp of a wave: the number of the wave, each warp's CTA, and the CTAs of a cluster. If
    `has_cohorts` is set, CTAs may be executed and checked as one.
    """

    wave: int
    cta_of: np.ndarray
    cluster_size: int
    has_cohorts: bool


@dataclasses.dataclass(eq=False)
class OperationColumns:
    """The columns of asynchronous operations. Each of the `units` has `own` columns. If `are_shared` is set, units may
    learn of each other's operations.

    The column after the last operation that a warp knows to be complete is `known`. The flag `have_news` says that a
    warp has learned of a completion since all warps of each CTA last synchronised.
    """

    units: int
    own: int
    are_shared: bool
    known: int = 0
    have_news: bool = False


def _both(method: Callable[Concatenate[VectorClocks, P], None]) -> Callable[Concatenate[VectorClocks, P], None]:
    """An event takes place in the orders that might be as well."""

    @functools.wraps(method)
    def act(self: VectorClocks, *args: P.args, **given: P.kwargs) -> None:
        self.changes += 1
        method(self, *args, **given)
        for order in self.orders.might_be:
            method(order, *args, **given)
        if self.orders.tensor is not None:
            act(self.orders.tensor, *args, **given)
        if self.orders.loose is not None:
            method(self.orders.loose, *args, **given)

    return cast(Callable[Concatenate["VectorClocks", P], None], act)


class VectorClocks:
    """Happens-before of the warps of a wave.

    - Other orders are in `orders`. Promises beyond the PTX ISA are in `assumes`.
    - A CTA has `per_cta` warps, a cluster `cluster_size` CTAs.
    - If `is_alone` is set, CTAs learn nothing of others. Then `seen` and `fenced` have a column for each warp of the
      own CTA, else for each warp of the wave. Column n of warp w is warp w // columns * columns + n.
    - Releases at addresses of global memory are in `places`, which all waves of a launch share.
    - If `explicit` is kept, it has the clocks of warps that each CTA has learned from other CTAs. Arrivals without a
      scope do not count for it.
    - Operations are counted in `units`, each with `room` operations at first. If `are_shared` is set, units may learn
      of each other's operations.
    """

    def __init__(
        self, warps: int, *, per_cta: int = 0, cluster_size: int = 1, is_alone: bool = False, has_cohorts: bool = True, wave: int = 0, places: dict[Any, Phase] | None = None,
        orders: Orders | None = None, assumes: Assumed | None = None, units: int = 1, are_shared: bool = False, room: int = 0,
    ) -> None:  # fmt: skip
        self.grid, self.orders, self.assumes = (
            Grid(wave, np.arange(warps) // (per_cta or warps), cluster_size, has_cohorts),
            orders or Orders(),
            assumes or Assumed(),
        )
        self.clock = np.ones(warps, np.int32)
        self.columns = per_cta if is_alone and per_cta else warps
        self.seen = np.zeros((warps, self.columns), np.int32)
        self.fenced = np.zeros((warps, self.columns), np.int32)
        self.ops = OperationColumns(units, room or columns_of(warps, units, is_alone=is_alone), are_shared)
        width = width_of(units, self.ops.own, are_shared=are_shared)
        self.done, self.read_done, self.done_fenced = (np.zeros((warps, width), bool) for _ in range(3))
        self._others: dict[int, Foreign] = {}  # by warp: what it has seen of other waves
        # what they knew at their last fence; will know after their next one
        self._last_fence, self._next_fence = AtFence(), AtFence()
        self.has_fenced = False  # has any warp executed fence.proxy.async?
        self.changes = 0  # of what is known, so far
        self._own_blocks: tuple[np.ndarray, ...] | None = None
        self.phases = Phases(places)
        self.explicit: np.ndarray | None = None
        # by warp: the offset of the mbarrier whose phase it waited for may be two ago
        self.too_early: dict[int, int] = {}
        every = np.arange(warps)
        self.seen[every, every % self.columns] = self.clock

    @property
    def rows(self) -> tuple[np.ndarray, ...]:
        """All that a warp knows, a row each."""
        return self.seen, self.fenced, self.done, self.read_done, self.done_fenced

    def column(self, numbers: Any) -> Any:
        """The columns of operations, by their numbers, for warps that may know of them."""
        return numbers & self.done.shape[1] - 1

    def is_over(self, warps: Any, operation: Operation, *, only_read: bool = False) -> Any:
        """Which warps, of whatever unit, know an operation, or (`only_read`) what it reads, to be over?"""
        found = (self.read_done if only_read else self.done)[warps, self.column(operation.number)]
        if self.ops.are_shared:
            return found
        own = len(self.clock) // self.ops.units
        return found & (warps // own == operation.warps[0] // own)

    def remembered(self) -> list[int]:
        """The operations that open phases wait for, by their numbers."""
        return [number for phase in each_once(self.phases.barriers) for ops in phase.operations for number in self._numbers(ops, phase)]

    def _numbers(self, ops: Sequence[Operation], phase: Phase) -> list[int]:
        """The numbers of what a phase waits for, of barriers that are alike one for each."""
        if len(ops) == len(phase.twins) or not phase.twins:
            return [op.number for op in ops]
        return [ops[0].number + n * self.ops.own for n in range(len(phase.twins))]

    @_both
    def renumber(self, to: Renumbering) -> None:
        """Operations have new numbers."""

        def all_moved(rows: Rows) -> Rows:
            return (*rows[:2], *map(to.flags, rows[2:]))

        self.ops.known, self.ops.own = int(to.to.max(initial=-1)) + 1, to.columns
        self.done, self.read_done, self.done_fenced = map(to.flags, self.rows[2:])
        for held in (self._last_fence.rows, self._next_fence.rows):
            held.update({scope: all_moved(rows) for scope, rows in held.items()})
        for phase in each_once(self.phases.barriers, self.phases.places):
            for released in phase.releases:
                released.moved(self.grid.wave, all_moved)
            for handed in (phase.handed, phase.handed_on):
                handed.update({key: (all_moved(rows), foreign) for key, (rows, foreign) in handed.items()})

    def spread(self, first: VectorClocks, twins: Twins) -> None:
        """The knowledge of warps of all CTAs, from that of the first CTA's warps, which have learned from no others."""

        def rows(of_one: Rows) -> Rows:
            return tuple(m.reshape(len(self.clock), -1) for m in twins.rows(of_one))

        self.clock[:] = np.tile(first.clock, twins.count)
        self.seen[...], self.fenced[...], self.done, self.read_done, self.done_fenced = rows(first.rows)
        self._last_fence.rows = {scope: rows(held) for scope, held in first._last_fence.rows.items()}
        self._next_fence.rows = {scope: rows(held) for scope, held in first._next_fence.rows.items()}
        self.has_fenced, self.ops.have_news, self.ops.known = first.has_fenced, True, self.done.shape[1]
        self.too_early = twins.by_warp(first.too_early, lambda offset, n: offset)
        for what, phase in ((what, phase) for what, phase in first.phases.barriers.items() if what in twins.used):
            barriers = twins.made[what]
            self.phases.barriers.update(dict.fromkeys(barriers, phase.spread(barriers, twins)))
        self.changes += 1

    def missing(self, test: Callable[[VectorClocks], np.ndarray], *, but: tuple[str, ...] = ()) -> tuple[np.ndarray, Formal]:
        """The entries whose knowledge fails a test, and the one of EXCUSES that alone makes it fail. Those in `but` do
        not count.
        """
        late = test(self)
        return self.confirmed(late, test, but=but) if any_set(late) else (late, "")

    def confirmed(
        self, late: np.ndarray, test: Callable[[VectorClocks], np.ndarray], *, but: tuple[str, ...] = ()
    ) -> tuple[np.ndarray, Formal]:
        """Which of the places `late`, for which a test failed, are wrong, and which of EXCUSES alone makes the test
        fail.
        """
        wrong = late
        for order in self.orders.might_be:
            if not set(but).isdisjoint(order.assumes.widens):
                break
            wrong = late & test(order)
            if not wrong.any():
                return late, order.assumes.widens[-1]
        return wrong, ""

    def hears_afar(self, warps: np.ndarray, what: Any) -> bool:
        """Have threads of CTAs other than that of these warps released something into the last complete phase of a
        barrier?
        """
        phase, _ = self.phases.looked_at(what)
        if phase is None or phase.closed is None:
            return False
        own = set(self.grid.cta_of[warps].tolist())
        return any(cta != EVERYWHERE and not own.issuperset((cta,)) for cta, _ in phase.closed.known.get(self.grid.wave, {}))

    def closed(self, what: Any) -> list[Rows]:
        """The knowledge that was released into the complete phases of a barrier. A warp that has waited for the last
        one has it.
        """
        phase, n = self.phases.looked_at(what)
        return (
            []
            if phase is None or phase.closed is None
            else [row_of(rows, n) for rows in phase.closed.known.get(self.grid.wave, {}).values()]
        )

    def told(self, what: Any, *, relaxed: bool, scope: int) -> set[int] | None:
        """The warps that know, by reads of a scope, what was released at an address; None if nothing was."""
        phase, _ = self.phases.looked_at(what)
        return None if phase is None or phase.closed is None else phase.told.get((self.grid.wave, scope, relaxed), set())

    def has_seen(self, warps: Any, others: Any) -> Any:
        """The clocks up to which warps have seen others from which they may have learned."""
        return self.seen[warps, others % self.columns]

    # ---- scopes

    def need(self, warps: np.ndarray, cta: int, wave: int | None = None) -> np.ndarray:
        """The narrowest scope (its level) in which warps and a thread of a CTA, of this wave or another, include each
        other.
        """
        if wave not in (None, self.grid.wave):
            return np.full(len(warps), GPU)
        own = self.grid.cta_of[warps]
        near = np.where(own // self.grid.cluster_size == cta // self.grid.cluster_size, CLUSTER, GPU)
        return np.where((own == cta) | (cta == EVERYWHERE), CTA, near)

    def foreign(self, warp: int, wave: int) -> np.ndarray | None:
        """The clocks of the warps of another wave up to which a warp has seen what these did; None: nothing."""
        return self._others.get(warp, {}).get(wave)

    def others(self, warp: int) -> Foreign:
        """The same of all other waves, by their numbers."""
        return self._others.get(warp, {})

    def _from(self, warps: np.ndarray, what: Any) -> list[tuple[int, np.ndarray]]:
        """Warps by the CTA of their releases: all of one place if no thread outside of their CTA can be there."""
        if not self._is_far(what):
            return [(EVERYWHERE, warps)]
        ctas = self.grid.cta_of[warps]
        first = int(ctas[0])
        return [(first, warps)] if (ctas == first).all() else [(cta, warps[ctas == cta]) for cta in distinct(ctas).tolist()]

    def _is_far(self, what: Any) -> bool:
        return self.grid.cluster_size > 1 or (isinstance(what, tuple) and what[0] == "global")

    def together(self, warps: Sequence[np.ndarray], barriers: Sequence[Any]) -> list[tuple[np.ndarray, Any]]:
        """Warps and the mbarriers at which they do something: all at once where CTAs do the same at one of theirs
        each, else one after the other.
        """
        if len(barriers) > 1 and len({len(own) for own in warps}) == 1 and self.are_alike(each := tuple(barriers)):
            return [(np.stack(warps), Alike(each))]
        return list(zip(warps, barriers, strict=True))

    def are_alike(self, barriers: tuple[Any, ...]) -> bool:
        """Have the CTAs of mbarriers, one of each in their order, done the same at them until now, and do they keep
        to themselves?
        """
        if not self.grid.has_cohorts or self.grid.cluster_size > 1 or self._others or self._last_fence.others or self._next_fence.others:
            return False
        phase = self.phases.barriers.get(barriers[0])
        if phase is not None:
            are_alike = phase.twins == barriers
        else:
            ctas = [barrier.cta.index for barrier in barriers]
            are_alike = ctas == sorted(set(ctas)) and self.phases.barriers.keys().isdisjoint(barriers)
        return are_alike and all(order.are_alike(barriers) for order in self.orders.all)

    # ---- fences

    def _tick(self, warps: np.ndarray) -> None:
        """Advance the clocks: later actions of these warps are not yet seen by any other warp."""
        if len(warps) == 1:
            warp = int(warps[0])
            self.clock[warp] += 1
            self.seen[warp, warp % self.columns] = self.clock[warp]
            return
        self.clock[warps] += 1
        self.seen[warps, warps % self.columns] = self.clock[warps]

    @_both
    def passes(self, warps: np.ndarray) -> None:
        """These warps pass a fence that counts as an operation: their later actions come after it."""
        self._tick(warps)

    @_both
    def fence_proxy(self, warps: np.ndarray) -> None:
        """fence.proxy.async: what these warps have seen is visible to the async proxy."""
        self.fenced[warps] = np.maximum(self.fenced[warps], self.seen[warps])
        self.has_fenced = True
        self.done_fenced[warps] |= self.done[warps]
        self.ops.have_news = True
        self._tick(warps)

    @_both
    def fence(self, warps: np.ndarray, *, acquires: bool, releases: bool, scope: int = GPU) -> None:
        """A memory fence: earlier relaxed accesses have acquired, and later ones release, if its scope
        is wide enough.
        """
        if acquires:
            for need, heard in self._next_fence.rows.items():
                if need <= scope:
                    self._learn(warps, tuple(m[warps] for m in heard))
            for need, others in self._next_fence.others.items():
                if need <= scope:
                    self._learn_foreign({warp: others[warp] for warp in warps.tolist() if warp in others})
        if releases:
            for wide in range(scope + 1):
                held = self._last_fence.rows.get(wide)
                if held is None:
                    held = self._last_fence.rows[wide] = tuple(np.zeros_like(m) for m in self.rows)
                for matrix, now in zip(held, self.rows, strict=True):
                    matrix[warps] = now[warps]
                for warp in warps.tolist() if self._others else ():
                    self._last_fence.others.setdefault(wide, {})[warp] = dict(self._others.get(warp, {}))
            self._tick(warps)

    def known_at_fence(self, warps: np.ndarray) -> np.ndarray:
        """The clocks that warps had seen at their last fence that releases to the device, 0 where there was none."""
        held = self._last_fence.rows.get(GPU)
        return np.zeros_like(self.seen[warps]) if held is None else held[0][warps]

    def at_fence(self, warp: int) -> int:
        """The clock of a warp at its last fence that releases, whatever its scope; 0 where there was none."""
        return max((int(held[0][warp, warp % self.columns]) for held in self._last_fence.rows.values()), default=0)

    def seen_behind_fence(self, warps: np.ndarray, others: np.ndarray) -> np.ndarray:
        """The clocks of others of this wave that warps will have seen after their next fence of any scope: from relaxed
        reads without a later fence.
        """
        seen = np.zeros(len(warps), np.int64)
        for held in self._next_fence.rows.values():
            seen = np.maximum(seen, held[0][warps, others % self.columns])
        return seen

    def foreign_behind_fence(self, warp: int, wave: int) -> np.ndarray | None:
        """The same of the warps of another wave; None: nothing."""
        known = [others[warp][wave] for others in self._next_fence.others.values() if wave in others.get(warp, {})]
        return np.max(known, axis=0) if known else None

    def flag_lacks(self, warp: int, wave: int, other: int, when: int) -> str:
        """Why a flag does not order what a warp of a wave did at a clock before the present action of a warp.

        The result is "acquire" if the reader of the flag has no fence after a relaxed read. It is "release" if the
        writer has none before a relaxed store, and "" if no such flag is known.
        """
        is_own = wave == self.grid.wave
        if is_own:
            if other // self.columns != warp // self.columns:
                return ""
            if self.seen_behind_fence(np.array([warp]), np.array([other]))[0] >= when:
                return "acquire"
            loose = self.orders.loose
            return "release" if loose is not None and loose.has_seen(np.array([warp]), np.array([other]))[0] >= when else ""
        heard = self.foreign_behind_fence(warp, wave)
        if heard is not None and heard[other] >= when:
            return "acquire"
        loosely = None if self.orders.loose is None else self.orders.loose.foreign(warp, wave)
        return "release" if loosely is not None and loosely[other] >= when else ""

    def fence_tensor(self, warps: np.ndarray, *, acquires: bool, releases: bool) -> None:
        """tcgen05.fence: a fence between tcgen05 instructions, and for nothing else (PTX ISA 9.1 §9.7.16.6.3)."""
        if self.orders.tensor is None:
            return
        self.changes += 1
        self.orders.tensor.fence(warps, acquires=acquires, releases=releases, scope=CLUSTER)
        for order in (self, *self.orders.same_fences) if releases else ():
            order._tick(warps)  # clocks are the same in all orders

    def _learn(self, warps: np.ndarray, known: Rows) -> None:
        if not len(warps):
            return
        self.ops.have_news = True
        if warps.ndim > 1:  # of barriers that are alike
            for matrix, more in zip(self.rows, known, strict=True):
                if warps.size == len(matrix):
                    mine = matrix.reshape(*warps.shape, -1)
                    np.maximum(mine, more[:, None], out=mine)
                else:
                    matrix[warps] = np.maximum(matrix[warps], more[:, None])
            return
        if len(warps) == warps[-1] - warps[0] + 1:  # they follow one another
            each = slice(int(warps[0]), int(warps[-1]) + 1)
            for matrix, more in zip(self.rows, known, strict=True):
                mine = matrix[each]
                np.maximum(mine, more, out=mine)
            return
        for matrix, more in zip(self.rows, known, strict=True):
            matrix[warps] = np.maximum(matrix[warps], more)

    def _learn_foreign(self, others: dict[int, Foreign]) -> None:
        for warp, foreign in others.items():
            merge(self._others.setdefault(warp, {}), foreign)

    # ---- releases

    def _joined(self, warps: np.ndarray, held: Rows | None = None, others: dict[int, Foreign] | None = None) -> tuple[Rows, Foreign]:
        """The knowledge of some of the warps, or `held` when they fenced."""
        others = self._others if held is None else others or {}
        foreign: Foreign = {}
        for warp in warps.tolist() if others else ():
            merge(foreign, others.get(warp, {}))
        if warps.shape[-1] == 1:
            return tuple(m[warps[..., 0]].copy() for m in held or self.rows), foreign
        return tuple(m[warps].max(axis=-2) for m in held or self.rows), foreign

    @_both
    def release(self, warps: np.ndarray, what: Any, *, relaxed: bool = False, scope: int = GPU) -> None:
        """The knowledge of warps is released into the open phase of `what`. With `relaxed` it is that of their last
        fence.
        """
        if scope == CTA and not relaxed and "arrive" in self.assumes.widens:
            scope = CLUSTER
        self._release(warps, self.phases.at(what).open, what, scope, relaxed=relaxed)
        self._tick(warps)

    @property
    def _at_fences(self) -> tuple[tuple[bool, dict[int, Rows], dict[int, dict[int, Foreign]]], ...]:
        """The knowledge that counts from fences on, by whether these are the last ones or the next."""
        return (False, self._last_fence.rows, self._last_fence.others), (True, self._next_fence.rows, self._next_fence.others)

    @_both
    def hands_on(self, warps: np.ndarray, what: Any) -> None:
        """Warps arrive at a barrier of threads. Warps that wait there pass on what these have fenced, too, as in `meet`
        (rule order.fenced_by_others).
        """
        for is_next, held, others in self._at_fences:
            for scope, rows in held.items():
                handed = self.phases.at(what).handed
                known, foreign = self._joined(warps, rows, others.get(scope, {}))
                before = handed.get((is_next, scope))
                merge(foreign, before[1] if before is not None else {})
                handed[is_next, scope] = joined_rows(before and before[0], known), foreign

    @_both
    def takes_over(self, warps: np.ndarray, what: Any) -> None:
        """Warps have waited at a barrier of threads for warps that pass knowledge on."""
        for is_next, held, others in self._at_fences:
            for scope in range(GPU + 1):
                rows, foreign = self.phases.at(what).handed_on.get((is_next, scope), (None, {}))
                if rows is None:
                    continue
                mine = held.setdefault(scope, tuple(np.zeros_like(m) for m in self.rows))
                for matrix, more in zip(mine, rows, strict=True):
                    matrix[warps] = np.maximum(matrix[warps], more)
                for warp in warps.tolist() if foreign else ():
                    merge(others.setdefault(scope, {}).setdefault(warp, {}), foreign)

    def release_if(self, warps: np.ndarray, what: Any) -> None:
        """A relaxed arrival at a barrier of the cluster: a release in the order that might be."""
        self.changes += 1
        for order in (self, *self.orders.same_fences):
            order._release(warps, order.phases.at(what).open, what, CLUSTER, relaxed="relaxed" not in order.assumes.widens)
            order._tick(warps)
        if self.orders.tensor is not None:
            self.orders.tensor.release_if(warps, what)

    def _release(self, warps: np.ndarray, into: Released, what: Any, scope: int, *, relaxed: bool) -> None:
        for cta, own in self._from(warps, what):
            if not relaxed or self.assumes.is_loose:
                into.add((self.grid.wave, cta, scope), *self._joined(own))
                continue
            for wide, held in self._last_fence.rows.items():
                if wide <= scope:
                    into.add((self.grid.wave, cta, wide), *self._joined(own, held, self._last_fence.others.get(wide)))

    @_both
    def left(self, warps: np.ndarray, what: Any) -> None:
        """Warps have exited, which counts as an arrival (rule order.exit)."""
        self.phases.at(what).open.add((self.grid.wave, EVERYWHERE, GPU), *self._joined(warps))

    @_both
    def stored(self, warps: np.ndarray, whats: Sequence[Any], *, relaxed: bool, replaces: bool, scope: int = GPU) -> None:
        """Warps write at addresses by operations that release, or, if relaxed, with their knowledge at their last
        fence.

        A reader observes the last store. Earlier releases at the address continue through an atomic that includes the
        previous write and is included by it. Through a store (`replaces`) only those of the same thread continue.
        """
        for phase in self.phases.of_addresses(whats):
            for cta, some in self._from(warps, whats[0]):
                for warp in some.tolist():
                    self._stored(phase, warp, whats[0], relaxed=relaxed, replaces=replaces, scope=scope)
                    phase.carrier = self.grid.wave, cta, scope
            phase.told.clear()
        self._tick(warps)

    def _stored(self, phase: Phase, warp: int, what: Any, *, relaxed: bool, replaces: bool, scope: int) -> None:
        own = np.array([warp])
        if replaces or (phase.carrier is not None and not self._includes(own, phase, scope)[0]):
            mine = phase.own.get((self.grid.wave, warp))
            phase.closed = None
            if mine is not None:
                phase.closed = Released()
                phase.closed.update(mine)
        if phase.closed is None:
            phase.closed = Released()
        self._release(own, phase.closed, what, scope, relaxed=relaxed)
        if not relaxed or self.assumes.is_loose:
            self._release(own, phase.own.setdefault((self.grid.wave, warp), Released()), what, scope, relaxed=False)

    @_both
    def weakly_stored(self, what: Any) -> None:
        """The value at an address comes from a plain store: a reader synchronises with nothing."""
        (phase,) = self.phases.of_addresses([what])
        phase.closed, phase.carrier = None, None

    def hands_on_at(self, warps: np.ndarray, space: str, memory: int, at: np.ndarray) -> bool:
        """Can a relaxed atomic of warps pass on their knowledge at a fence, or an earlier release at its addresses?"""
        places = self.phases.table((space, memory))
        if self.orders.loose is not None or any(held[0][warps].any() for held in self._last_fence.rows.values()):
            return True
        if places and any((space, memory, place) in places for place in distinct(at).tolist()):
            return True
        others = self.orders.might_be if self.orders.tensor is None else (*self.orders.might_be, self.orders.tensor)
        return any(order.hands_on_at(warps, space, memory, at) for order in others)

    def is_carrier(self, what: Any) -> bool:
        """Has any warp released anything at an address?"""
        return what in self.phases.table(what)

    @property
    def carries_global(self) -> bool:
        """Has any warp released anything in global memory?"""
        return bool(self.phases.places)

    def _includes(self, warps: np.ndarray, phase: Phase, scope: int) -> np.ndarray:
        """Do warps that access an address, and its writer, include each other in their scopes?"""
        if phase.carrier is None:
            return np.ones(len(warps), bool)
        wave, cta, wide = phase.carrier
        return self.need(warps, cta, wave) <= min(wide, scope)

    @_both
    def meet(self, warps: np.ndarray, here: np.ndarray, gone: np.ndarray) -> None:
        """Groups of warps (a row each). Those that are `here` release to and acquire from each other, all groups at
        once.

        Warps that are `gone` have exited, and count as arrived. The others also pass on what a warp has fenced. A
        relaxed read of a warp counts for each of them from its next fence on (rule order.fenced_by_others).
        """
        if self._is_among_themselves(warps, here):
            self._all_meet(warps)
            return
        everybody = here | gone
        known, self.ops.have_news = self._met(warps, here, everybody, self.rows), True
        self._tick(warps[here])
        for matrix, rows in zip(self.rows, known, strict=True):
            matrix[warps] = np.maximum(matrix[warps], rows)
        for held in (*self._last_fence.rows.values(), *self._next_fence.rows.values()):
            for matrix, rows in zip(held, self._met(warps, here, everybody, held), strict=True):
                matrix[warps] = rows
        for others in (self._others, *self._last_fence.others.values(), *self._next_fence.others.values()):
            self._meet_foreign(warps, here, others)

    @property
    def _is_within_ctas(self) -> bool:
        """Does each CTA know only its own warps, without fenced relaxed knowledge?"""
        return not (
            self.grid.cluster_size > 1
            or self.phases.places
            or self._others
            or self._last_fence.rows
            or self._next_fence.rows
            or self._next_fence.others
        )

    def _is_among_themselves(self, warps: np.ndarray, here: np.ndarray) -> bool:
        """Do whole CTAs meet, within which all is known?"""
        return self._is_within_ctas and all_set(here) and len(warps) * warps.shape[1] == len(self.clock)

    @property
    def is_plain(self) -> bool:
        """Is nothing known but the clocks of the own CTA, in this order alone?"""
        return self._is_within_ctas and not self.ops.have_news and not self.orders.all

    def _all_meet(self, warps: np.ndarray) -> None:
        """`meet` of all CTAs of the wave, where `seen` and `fenced` have numbers in the columns of each warp's own
        CTA alone: what that costs grows as they do.
        """
        size = warps.shape[1]
        all_meet(self.clock, self.seen, self.fenced, size, self.has_fenced)
        if self.ops.have_news:
            self.ops.have_news = False
            for flags in self.rows[2:]:
                all_know(flags, size, self.ops.known)

    def own_blocks(self, size: int) -> tuple[np.ndarray, ...]:
        """For `seen` and `fenced`: what the warps of each CTA, `size` of them, know of each other: (CTAs, warps,
        warps).
        """
        if self._own_blocks is None:
            row, column = self.seen.strides
            apart = size * row + (size * column if self.columns > size else 0)
            shape, strides = (len(self.seen) // size, size, size), (apart, row, column)
            self._own_blocks = tuple(np.lib.stride_tricks.as_strided(matrix, shape, strides) for matrix in self.rows[:2])
        return self._own_blocks

    @staticmethod
    def _met(warps: np.ndarray, here: np.ndarray, everybody: np.ndarray, rows: Rows) -> list[np.ndarray]:
        """The knowledge of each warp of each group after the synchronisation: those that are `here`
        know what all know.
        """
        found, are_all = [], all_set(here)
        for matrix in rows:
            mine = matrix[warps]
            if not mine.any():
                found.append(mine)
            elif are_all:  # no warp knows more than all together
                found.append(np.broadcast_to(mine.max(axis=1)[:, None, :], mine.shape))
            else:
                joined = mine.max(axis=1, where=everybody[:, :, None], initial=0)
                found.append(np.where(here[:, :, None], np.maximum(mine, joined[:, None, :]), mine))
        return found

    @staticmethod
    def _meet_foreign(warps: np.ndarray, here: np.ndarray, others: dict[int, Foreign]) -> None:
        for row, is_here in zip(warps, here, strict=True) if others else ():
            foreign: Foreign = {}
            for warp in row.tolist():
                merge(foreign, others.get(warp, {}))
            for warp in row[is_here].tolist():
                merge(others.setdefault(warp, {}), foreign)

    @_both
    def brings(self, operations: Sequence[Operation], warps: np.ndarray, what: Any) -> None:
        """The open phase of `what` waits for an operation of these warps, or of equal barriers for one each. A warp
        that sees the phase complete knows what they knew, and nothing of their later actions.
        """
        phase = self.phases.at(what)
        phase.operations.append(operations)
        phase.open.add((self.grid.wave, EVERYWHERE, GPU), *self._joined(warps))
        self._tick(warps)

    @_both
    def brings_all(self, operations: np.ndarray, warps: np.ndarray, what: Any) -> None:
        """The open phase of `what` waits for all these operations (a flag for each column) of a warp; of barriers
        that are alike each for a row of them.
        """
        flagged = np.flatnonzero(operations.reshape(-1, operations.shape[-1]).any(axis=0))
        self.ops.known = max(self.ops.known, int(flagged.max(initial=-1)) + 1)
        (seen, fenced, done, read_done, done_fenced), foreign = self._joined(warps)
        known = seen, fenced, done | operations, read_done | operations, done_fenced
        self.phases.at(what).open.add((self.grid.wave, EVERYWHERE, GPU), known, foreign)
        self._tick(warps)

    @_both
    def complete(self, what: Any) -> None:
        """The open phase is complete."""
        phase = self.phases.at(what)
        if phase.operations:
            numbers = self.column(np.array([self._numbers(ops, phase) for ops in phase.operations]))
            self.ops.known = max(self.ops.known, int(numbers.max()) + 1)
            rows = tuple(m.copy() for m in phase.open.known[self.grid.wave][EVERYWHERE, GPU])
            for row in rows[2:4]:
                row.reshape(numbers.shape[1], -1)[np.arange(numbers.shape[1]), numbers] = True
            phase.open.add((self.grid.wave, EVERYWHERE, GPU), rows)
        if phase.closed is not None:
            phase.open.update(phase.closed)
        phase.open, phase.operations, phase.closed = Released(), [], phase.open
        phase.over, phase.history = phase.over + 1, [*phase.history[-2:], phase.closed]
        phase.handed, phase.handed_on = {}, phase.handed
        phase.told.clear()

    # ---- acquires

    @_both
    def acquire(self, warps: np.ndarray, what: Any, *, relaxed: bool = False, scope: int = GPU, by_parity: bool = False) -> None:
        """Warps learn what the complete phases of `what` hold; `relaxed`: after their next fence.

        A wait on a parity may have been satisfied two phases ago, unless the warp knows that the phase before the
        last is complete (rule order.parity).
        """
        phase = self.phases.found(what)
        if phase is None or phase.closed is None:
            return
        if scope == CTA and not relaxed and "wait" in self.assumes.widens and not isinstance(what, tuple):
            scope = CLUSTER
        sure = self._is_past(warps, phase) if by_parity else np.ones(warps.shape, bool)
        if all_set(sure) and not self.too_early:
            self._has_waited(phase)[warps] = phase.over
            self._acquire(warps, phase, relaxed=relaxed, scope=scope)
            return
        for own, one, are_sure in zip(warps, what.each, sure, strict=True) if isinstance(what, Alike) else [(warps, what, sure)]:
            self._acquire_early(own, one, are_sure, by_parity=by_parity, relaxed=relaxed, scope=scope)

    def _acquire_early(self, warps: np.ndarray, what: Any, sure: np.ndarray, *, by_parity: bool, relaxed: bool, scope: int) -> None:
        """`acquire` where some warps have waited too early: not all are `sure` that the phase before the last was
        over, or were so before.
        """
        phase = self.phases.at(what)
        if by_parity:
            self.too_early.update(dict.fromkeys(warps[~sure].tolist(), what.offset))
            for warp in warps[sure].tolist():
                self.too_early.pop(warp, None)
            if not sure.all() and len(phase.history) > 2:
                self._take(warps[~sure], phase, phase.history[0], relaxed=relaxed, scope=scope)
        self._has_waited(phase)[warps[sure]] = phase.over
        self._acquire(warps[sure], phase, relaxed=relaxed, scope=scope)

    @_both
    def loaded(self, warps: np.ndarray, whats: Sequence[Any], *, relaxed: bool, scope: int, decides: bool = True) -> None:
        """Warps have read at addresses of one space: they know what was released there. In the loose order only if
        what they have read `decides` something.
        """
        if relaxed and self.assumes.is_loose and not decides:
            return
        table = self.phases.table(whats[0])
        phases = {id(phase): phase for phase in map(table.get, whats) if phase is not None}
        for phase in phases.values():
            self._acquire(warps, phase, relaxed=relaxed, scope=scope)

    def _acquire(self, warps: np.ndarray, phase: Phase, *, relaxed: bool, scope: int) -> None:
        """Warps know what is closed."""
        if phase.closed is None:
            return
        new, told = set(warps.ravel().tolist()), phase.told.setdefault((self.grid.wave, scope, relaxed), set())
        if new <= told:  # a polling warp asks again and again
            return
        told |= new
        self._take(warps, phase, phase.closed, relaxed=relaxed, scope=scope)

    def _has_waited(self, phase: Phase) -> np.ndarray:
        """By warp: how many phases of a barrier it has waited for."""
        if not len(phase.waited):
            phase.waited = np.zeros(len(self.clock), np.int64)
        return phase.waited

    def has_waited(self, warp: int, what: Any) -> bool:
        """Has a warp waited for a phase of an mbarrier?"""
        phase, _ = self.phases.looked_at(what)
        return phase is not None and warp < len(phase.waited) and bool(phase.waited[warp])

    def why_early(self, warp: int) -> str:
        """The end of a sentence: why a warp that has waited has not waited long enough; empty where it is not that."""
        offset = self.too_early.get(warp)
        if offset is None:
            return ""
        return f": its wait at the mbarrier at {offset:#x} may have passed two phases ago, because the parity was the same"

    def _is_past(self, warps: np.ndarray, phase: Phase) -> np.ndarray:
        """Which warps know that the phase before the last complete one is over?"""
        return self._know(warps, phase, 1)

    def know_last(self, warps: np.ndarray, what: Any) -> np.ndarray:
        """Which warps know that the last complete phase of an mbarrier is over, where there is one? What
        tcgen05.fence orders counts too.
        """
        phase, n = self.phases.looked_at(what)
        if phase is None or not phase.over:
            return np.ones(warps.shape, bool)
        known = self._know(warps, phase, 0, n)
        return known if self.orders.tensor is None else known | self.orders.tensor.know_last(warps, what)

    def know_phase(self, warps: np.ndarray, what: Any, number: int) -> np.ndarray:
        """Which warps know that a phase of an mbarrier is complete, by their own wait or by what was released into it?
        For forgotten phases all do.
        """
        phase, n = self.phases.looked_at(what)
        if phase is None or phase.over <= number:
            return np.zeros(warps.shape, bool)
        back = phase.over - 1 - number
        if back >= len(phase.history):
            return np.ones(warps.shape, bool)
        released = phase.history[-1 - back].known.get(self.grid.wave, {}).values()
        if not any(row_of(rows, n)[0].any() for rows in released):
            return np.isin(warps, self.waited_for(what, number))
        known = self._know(warps, phase, back, n)
        return known if self.orders.tensor is None else known | self.orders.tensor.know_phase(warps, what, number)

    def waited_for(self, what: Any, number: int) -> list[int]:
        """The warps that have waited for a phase of an mbarrier, or for a later one."""
        phase, _ = self.phases.looked_at(what)
        return [] if phase is None else np.flatnonzero(phase.waited > max(number, 0)).tolist()

    def _know(self, warps: np.ndarray, phase: Phase, back: int, n: int | None = None) -> np.ndarray:
        """The warps that know that the phase so many before the last complete one is complete, for the `n`th of equal
        barriers. They have waited for it, or seen everything that was released into it.
        """
        past: np.ndarray = self._has_waited(phase)[warps] >= phase.over - back
        if all_set(past):
            return past
        heard = np.ones(warps.shape, bool)
        for rows in phase.history[-1 - back].known.get(self.grid.wave, {}).values():
            known = row_of(rows, n)
            seen, done = known[0][..., None, :], known[2][..., None, :]
            heard &= (self.seen[warps] >= seen).all(axis=-1) & (self.done[warps] >= done).all(axis=-1)
        return past | heard

    def _take(self, warps: np.ndarray, phase: Phase, released: Released, *, relaxed: bool, scope: int) -> None:
        """Warps acquire what was released."""
        relaxed = relaxed and not self.assumes.is_loose
        if phase.carrier is not None:
            warps = warps[self._includes(warps, phase, scope)]
        own = set((self.grid.cta_of[warps] // self.grid.cluster_size).ravel().tolist())
        if self.explicit is not None:
            self._note_explicit(warps, released)
        if scope >= GPU:
            self._hear(warps, released.near.get(self.grid.wave), released.far, GPU if relaxed else None)
        for (cta, wide), known in released.known.get(self.grid.wave, {}).items():
            if scope >= GPU and wide >= GPU and (not relaxed or (cta != EVERYWHERE and cta // self.grid.cluster_size not in own)):
                continue  # heard already
            if cta == EVERYWHERE and len(warps):
                self._hear(warps, known, released.foreign.get((self.grid.wave, cta, wide), {}), CTA if relaxed else None)
                continue
            need = self.need(warps, cta)
            for narrowest in distinct(need[need <= min(CLUSTER if wide == UNWRITTEN else wide, scope)]).tolist():
                foreign = released.foreign.get((self.grid.wave, cta, wide), {})
                self._hear(warps[need == narrowest], known, foreign, narrowest if relaxed else None)

    def _note_explicit(self, warps: np.ndarray, released: Released) -> None:
        """Warps acquire what was released; other scopes than those of the releases are left out of account."""
        assert self.explicit is not None
        for own in distinct(self.grid.cta_of[warps].ravel()).tolist():
            for (cta, wide), known in released.known.get(self.grid.wave, {}).items():
                if cta != own and wide != UNWRITTEN:
                    np.maximum(self.explicit[own], known[0], out=self.explicit[own])

    def _hear(self, warps: np.ndarray, known: Rows | None, foreign: Foreign, fence: int | None) -> None:
        """Warps learn what was released, at once or after their next fence of that scope."""
        if self.grid.wave in foreign:  # what another wave has seen of this one stands in `seen`
            own = foreign[self.grid.wave]
            first, *rest = known or tuple(np.zeros(m.shape[1:], m.dtype) for m in self.rows)
            known = np.maximum(first, own), *rest
            foreign = {wave: clocks for wave, clocks in foreign.items() if wave != self.grid.wave}
        others = dict.fromkeys(warps.ravel().tolist(), foreign) if foreign else {}
        if fence is None:
            if known is not None:
                self._learn(warps, known)
            self._learn_foreign(others)
            return
        heard = self._next_fence.rows.get(fence)
        if heard is None:
            heard = self._next_fence.rows[fence] = tuple(np.zeros_like(m) for m in self.rows)
        for matrix, row in zip(heard, known or (), strict=False):
            matrix[warps] = np.maximum(matrix[warps], row[..., None, :])
        for warp, more in others.items():
            merge(self._next_fence.others.setdefault(fence, {}).setdefault(warp, {}), more)

    @_both
    def know(self, waited: Sequence[tuple[int, list[Operation]]], *, ctas: int = 1, only_read: bool = False) -> None:
        """Warps have each waited for operations; of several `ctas` those of the first one, and of each other one the
        same for theirs.
        """
        warps = np.repeat([warp for warp, _ in waited], [len(over) for _, over in waited])
        numbers, each = np.array([operation.number for _, over in waited for operation in over]), np.arange(ctas)[:, None]
        warps, columns = warps + each * (len(self.clock) // ctas), self.column(numbers + each * self.ops.own)
        self.ops.known, self.ops.have_news = max(self.ops.known, int(columns.max()) + 1), True
        self.read_done[warps, columns] = True
        if not only_read:
            self.done[warps, columns] = True

    @_both
    def knows(self, warps: np.ndarray, operations: list[Operation], *, only_read: bool = False) -> None:
        """Warps have waited for operations."""
        columns = self.column(np.array([operation.number for operation in operations], np.int64))
        self.ops.known, self.ops.have_news = max(self.ops.known, int(columns.max(initial=-1)) + 1), True
        self.read_done[np.ix_(warps, columns)] = True
        if not only_read:
            self.done[np.ix_(warps, columns)] = True
