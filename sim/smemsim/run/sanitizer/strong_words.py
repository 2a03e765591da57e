"""Strong accesses (atomic, relaxed, acquire, release, volatile) of whole words of shared memory.

They make no race among themselves within a scope. A strong read that finds a strong write happens after it (rule
order.observation).

The life of one word: warp 0 stores a flag by st.relaxed, so `changed_when[word, 0]` is its clock. Warp 1 polls the flag
by ld.relaxed: `polled_when[word, 1]` is its clock, and it has observed the clock of warp 0. A later plain store of warp
1 to the flag makes no race.
"""

from __future__ import annotations

import functools

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.sanitizer.happens_before import VectorClocks
from smemsim.run.sanitizer.operations import are_warps
from smemsim.run.sanitizer.shared_table import SharedTable
from smemsim.run.scopes import CTA

__all__ = ["StrongWords"]


class StrongWords:
    """The warps that have accessed words by strong operations, and what these have observed."""

    def __init__(self, table: SharedTable, clocks: VectorClocks) -> None:
        self.table, self.clocks = table, clocks
        # by word and warp: the clock of a strong read, those of the strong writes it has found
        self._observed: dict[int, dict[int, tuple[int, np.ndarray]]] = {}
        # clocks of strong reads and writes of scope .cta, if a cluster has several CTAs
        self._narrow: tuple[np.ndarray, np.ndarray] | None = None

    def note(self, i: Instruction, at: np.ndarray, warps: np.ndarray, *, changed: bool) -> None:
        """Warps access words."""
        table = self.table
        if changed and i.op != "atom" and table.tables.has_strong and self._lines["atom"]:
            self._keep_observed(at, warps)
        if not table.tables.has_strong:  # only then there are tables of their own
            polled, seen_at, written, changed_at = (np.zeros_like(t) for t in (table.read_when, table.read_line) * 2)
            table.kept = table.kept._replace(
                polled_when=polled, polled_line=seen_at, changed_when=written, changed_line=changed_at, has_strong=True
            )
        tables = table.tables
        when, line = (tables.changed_when, tables.changed_line) if changed else (tables.polled_when, tables.polled_line)
        when[at, warps % table.per_cluster] = self.clocks.clock[warps]
        line[at] = i.site

    def _keep_observed(self, at: np.ndarray, warps: np.ndarray) -> None:
        """Warps are about to write over their own atomics. The results of these have shown earlier writes, which is
        recorded now.
        """
        table = self.table
        mine = (table.who[at] == warps) & table.strong[at] & np.isin(table.line[at], list(self._lines["atom"]))
        for place, warp in dict.fromkeys(zip(at[mine].tolist(), warps[mine].tolist(), strict=True)):
            of_word, clocks = self._observed.setdefault(place, {}), table.tables.changed_when[place]
            before = of_word[warp][1] if warp in of_word else 0
            of_word[warp] = int(table.when[place]), np.maximum(clocks, before)

    def observe(self, at: np.ndarray, warps: np.ndarray) -> None:
        """Warps read words. The strong writes that they observe (for an atomic with those before it) happen
        before their later actions.
        """
        table = self.table
        who, when = table.who[at], table.when[at]
        found = table.strong[at] & are_warps(who) & (who != warps)
        found[found] = self.clocks.has_seen(warps[found], who[found]) < when[found]
        for place, warp, other in zip(at[found].tolist(), warps[found].tolist(), who[found].tolist(), strict=True):
            clocks = table.tables.changed_when[place] * any(table.line[place] in lines for lines in self._lines.values())
            clocks[other % table.per_cluster] = table.when[place]
            of_word = self._observed.setdefault(place, {})
            # a warp that observes the same writes again has observed them before
            if warp not in of_word or (clocks > of_word[warp][1]).any():
                of_word[warp] = int(self.clocks.clock[warp]), clocks

    @functools.cached_property
    def _lines(self) -> dict[str, set[int]]:
        """The sites of atomic operations."""
        return {op: {i.site for i in self.table.x.launch.program.inlined.body if i.op == op} for op in ("atom", "red")}

    def have_observed(self, at: np.ndarray, warps: np.ndarray, others: np.ndarray, when: np.ndarray) -> np.ndarray:
        """Which clocks of others' strong writes to words happen before the present actions of warps, because a strong
        read, or an atomic of their own, has observed them?
        """
        known, table = np.zeros(len(at), bool), self.table
        for n, (place, warp, other, clock) in enumerate(zip(at.tolist(), warps.tolist(), others.tolist(), when.tolist(), strict=True)):
            # an atomic of the warp itself, or one that it has seen, returned the value; a reduction or a store did not
            last, is_read = table.who[place], table.strong[place] and table.line[place] in self._lines["atom"]
            is_seen = last == warp or (is_read and last != other and self.clocks.has_seen(warp, last) >= table.when[place])
            known[n] = (is_read and is_seen) or any(
                clocks[other % table.per_cluster] >= clock and (reader == warp or self.clocks.has_seen(warp, reader) >= since)
                for reader, (since, clocks) in self._observed.get(place, {}).items()
            )
        return known

    def of_other_scope(
        self, at: np.ndarray, warps: np.ndarray, scope: int, *, writes: bool, is_part: bool
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Warps access words, or a part of them, in a cluster. The result has the clocks of strong reads and strong
        writes for which the scope of this access or their own is only .cta. It is None if there are none.
        """
        table = self.table
        if scope == CTA and not is_part:
            if self._narrow is None:
                self._narrow = np.zeros_like(table.read_when), np.zeros_like(table.read_when)
            self._narrow[writes][at, warps % table.per_cluster] = self.clocks.clock[warps]
        tables = table.tables
        if not tables.has_strong:
            return None
        return (tables.polled_when, tables.changed_when) if scope == CTA else self._narrow
