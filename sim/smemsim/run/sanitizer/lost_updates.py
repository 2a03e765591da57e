"""Lost updates of lanes of one warp. The lanes load a word by one instruction, compute, and store there by another one.
By PTX ISA 9.1 §8.1 lanes are threads. By §8.10 only an atomic operation keeps others out between a read and a write.
Rule order.lane_updates.

Between warps such stores race, or lose updates by `order.update`. Lanes that store by one instruction have no order
that a program could ask for.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.lower.dataflow import accumulations, bounds, updates
from smemsim.run.lower.lane_private import is_spread
from smemsim.run.lower.program import Program
from smemsim.run.sanitizer.lost_update_loops import meet
from smemsim.run.sanitizer.races import ATOMIC_IN_WARP, LOST_IN_WARP, UPDATE, Access, lost_in_warp
from smemsim.run.sanitizer.reporting import WORD, Reporting
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.accesses import Piece, Values
    from smemsim.run.views import Wave

__all__ = ["LostUpdates"]


_stores: weakref.WeakKeyDictionary[Program, dict[bool, dict[int, bool]]] = weakref.WeakKeyDictionary()


class LostUpdates:
    """The state for the stores of one wave. `name` gives the name of a place of global memory."""

    def __init__(self, x: Wave, reporting: Reporting, name: Callable[[Instruction, np.ndarray, int], str]) -> None:
        self.x, self.reporting, self.name = x, reporting, name

    @functools.cached_property
    def stores(self) -> dict[int, bool]:
        """The stores (their `id`) that may go to one place from several lanes; whether lanes that store the same
        value lose anything: a count and no maximum does.
        """
        program, in_rows = self.x.program, self.x.launch.config.block[0] % WARP == 0
        known = _stores.setdefault(program, {})
        if in_rows not in known:
            counts = accumulations(program)
            every = counts | bounds(program)
            known[in_rows] = {
                id(i): id(i) in counts for i in program.inlined.body if id(i) in every and not is_spread(program, i, in_rows=in_rows)
            }
        return known[in_rows]

    def may_lose(self, threads: Any, at: np.ndarray) -> bool:
        """Has one of `stores`, by these threads of the wave, to be looked at before it happens?"""
        return bool(meet(at, self._everybody[threads]))

    @functools.cached_property
    def _everybody(self) -> np.ndarray:
        return np.arange(self.x.total)

    def look(self, i: Instruction, piece: Piece, size: int, values: Values | None) -> None:
        """The running threads have stored: report two lanes of a warp at one place. If every place has as many lanes,
        which store the same value, they may be meant as one: a remark.
        """
        at, threads = piece.at, self.x.threads
        if not meet(at, threads):
            return
        stays = np.ones(len(at), bool) if values is None else np.asarray(values.stay.reshape(len(at), -1).all(axis=1))
        begins = np.flatnonzero(np.diff(threads >> 5, prepend=-1))
        alike = np.zeros(0, np.int64)
        for first, behind in zip(begins.tolist(), [*begins[1:].tolist(), len(at)], strict=True):
            own = np.arange(first, behind)
            _, which, counts = np.unique(at[own], return_inverse=True, return_counts=True)
            meets = counts[which] > 1
            if not self.stores[id(i)]:
                meets &= np.isin(which, which[~stays[own]])
            if meets.any():
                lanes = own[which == which[np.argmax(meets)]]
                if (counts != counts[0]).any() or not stays[own].all():
                    self._say(i, piece, size, lanes)
                    return
                # a whole warp may keep one number in shared memory
                alike = alike if len(alike) or (piece.space == "shared" and len(counts) == 1) else lanes
        if len(alike):
            self._say(i, piece, size, alike, are_alike=True)

    def _say(self, i: Instruction, piece: Piece, size: int, which: np.ndarray, *, are_alike: bool = False) -> None:
        """Threads of one warp, by their place among those that run, have stored at one place."""
        one, another = (self.x.threads[which[:2]] % WARP).tolist()
        load, place = updates(self.x.program)[id(i)], int(piece.at[which[0]])
        mine = Access("write", f"lanes {one} and {another} of warp {self.reporting.warp(self.x.threads[which[0]] >> 5)}", i)
        why = LOST_IN_WARP + ("; every address has as many lanes, which leave the same value" if are_alike else "")
        milder = Severity.NOTE if are_alike else None
        if piece.space == "shared":
            words = np.arange(place // WORD, (place + size - 1) // WORD + 1)
            said = lost_in_warp(mine, load, why=why)
            self.reporting.find(i, words, said, ATOMIC_IN_WARP, cause=UPDATE, other=load.site, within_warp=True, milder=milder)
            return
        said = lost_in_warp(mine, load, self.name(i, piece.memory, place), why)
        self.x.launch.find(
            said.code, i, said.what, ATOMIC_IN_WARP, why=said.why, halves=said.halves, because="PTX ISA 9.1 §8.1, 8.10", other=load, within_warp=True,
            milder=milder, operation=UPDATE,
        )  # fmt: skip
