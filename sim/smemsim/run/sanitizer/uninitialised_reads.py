"""Reads of uninitialised shared memory whose writer may still come: then the reader did not wait (PTX ISA 8, a read
that races).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.ptx.module import Address, Instruction, lines_of
from smemsim.core.ptx.origins import symbols_behind
from smemsim.run.following import WHOLE
from smemsim.run.sanitizer.operations import Operation
from smemsim.run.sanitizer.races import Access, read_before_arrival, read_before_issue
from smemsim.run.sanitizer.reporting import WORD, Reporting, Waited
from smemsim.run.sanitizer.taint import is_followed
from smemsim.run.sanitizer.uninitialised import uninitialised
from smemsim.run.views import mbarriers
from smemsim.run.word_ranges import WordRanges

if TYPE_CHECKING:
    from smemsim.run.sanitizer.shared_table import SharedTable
    from smemsim.run.views import Wave

__all__ = ["UNWRITTEN", "UninitialisedReads"]


LOADED = 4  # words of the smallest load
UNWRITTEN = dict.fromkeys(
    ("wgmma", "tcgen05"),
    "issue the load that fills these bytes, and wait for it before this instruction; or if the operand should read other bytes: correct the "
    "start, LBO or SBO of its descriptor",
)
MOST_RUNS = 3  # runs of bytes that are named


def _runs(at: np.ndarray) -> str:
    """The first runs of these addresses, which rise.

    >>> _runs(np.array([0x400, 0x401, 0x410, 0x420, 0x430]))
    '0x400 to 0x401, 0x410, 0x420 ...'
    """
    runs = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
    named = [f"{int(run[0]):#x}" + f" to {int(run[-1]):#x}" * (len(run) > 1) for run in runs[:MOST_RUNS]]
    return ", ".join(named) + " ..." * (len(runs) > MOST_RUNS)


class UninitialisedReads:
    """By site: the instruction, the uninitialised words that it read, and the last wait of the reader."""

    def __init__(self, x: Wave, reporting: Reporting, table: SharedTable) -> None:
        self.to_change: np.ndarray = np.zeros(0, np.int64)  # words that red.async is about to change
        self.x, self.reporting, self.table = x, reporting, table
        self._reads: dict[int, tuple[Instruction, np.ndarray]] = {}
        self._waits: dict[int, Waited] = {}
        # words that arrived later: how to report that when the value is used
        self.late: dict[int, Callable[[], None]] = {}

    def note(
        self, i: Instruction, at: np.ndarray, warps: np.ndarray, bits: np.ndarray | int = WHOLE, padding: np.ndarray | int = 0
    ) -> None:
        """Warps read words, of which these bytes have no value: wrong at once, unless the value is followed, which
        may be thrown away.
        """
        words = self._reads.setdefault(i.site, (i, np.zeros(self.table.words, np.uint8)))[1]
        if not is_followed(i):
            own = np.zeros(self.table.words, np.uint8)
            np.bitwise_or.at(own, at, bits & ~np.uint8(padding))
            is_copied = not own.any()
            if is_copied:
                np.bitwise_or.at(own, at, bits)
            self._say(i, own, is_copied=is_copied)
        np.bitwise_or.at(words, at, np.asarray(bits, np.uint8))
        if i.site not in self._waits and (waited := self.reporting.last_wait(warps, at)) is not None:
            self._waits[i.site] = waited

    @property
    def has_read(self) -> bool:
        """Was uninitialised memory read?"""
        return bool(self._reads)

    def comes(self, op: Operation, runs: WordRanges, is_unordered: Callable[[int, np.ndarray], bool]) -> None:
        """An operation brings words. `is_unordered` says, for a site and words, whether it is not ordered after their
        readers.
        """
        for site, (i, words) in list(self._reads.items()):
            late = runs.words[words[runs.words] != 0]
            if late.size and is_unordered(site, late):
                del self._reads[site]
                waited = self._waits.get(site)
                why, repair = self.reporting.passed_early(waited, op)
                if not why:
                    why, repair = self.reporting.other_stage(waited, late, op)
                said = read_before_arrival(
                    Access("read", _reader(i), i),
                    self.reporting.by(op, "write"),
                    why=why.removeprefix(": ") or "nothing makes the reader wait",
                )
                repair = repair or f"before {self.x.program.named(i)}: {self.reporting.mbarrier_of(op)}"
                tell = functools.partial(self.reporting.find, i, late, said, repair)
                self.reporting.came_late(i, tell, self.late)

    def is_used(self, site: int, user: Instruction | None, *, is_copied: bool = False, is_voted: bool = False) -> None:
        """An instruction uses a value that one read so. No user: it cannot be used any more. `is_copied`,
        `is_voted`: `end_of`.
        """
        if site in self.late:
            self.late.pop(site)()
        elif site in self._reads:
            self._say(*self._reads[site], user, is_copied=is_copied, is_voted=is_voted)

    def _say(
        self, i: Instruction, words: np.ndarray, user: Instruction | None = None, *, is_copied: bool = False, is_voted: bool = False
    ) -> None:
        """R507 of bytes, of each word as bits."""
        places = np.flatnonzero(words)
        where, several = self._where(places, words[places])
        said, milder = uninitialised(where, i, user, is_copied=is_copied, is_voted=is_voted, several=several)
        repair = self._repair(i, int(places[0]), int(words[places[0]]))
        why, wait = self._passed_early(i.site)
        if wait:
            said, repair = said if milder is not None else dataclasses.replace(said, why=why), f"{wait}; or {repair}"
        self.reporting.find(i, places, said, repair, milder=milder)

    def _passed_early(self, site: int) -> tuple[str, str]:
        """Why the last wait before an uninitialised read did not wait for the first phase of copies, and the fix."""
        waited = self._waits.get(site)
        if waited is None or waited[2] or not (waited[0].state.bytes.expecting or waited[0].state.deliveries.sources):
            return "", ""
        return self.reporting.passed_early(waited)

    def _where(self, places: np.ndarray, bits: np.ndarray) -> tuple[str, str]:
        """The bytes in the first CTA that has some, as findings call them; their addresses if initialised bytes are
        between them, else "".
        """
        per_cta = self.x.pitch // WORD
        cta = self.x.ctas[int(places[0]) // per_cta]
        own = places // per_cta == cta.index
        which = np.unpackbits(bits[own, None], axis=1, count=WORD, bitorder="little").astype(bool)
        at = (places[own, None] % per_cta * WORD + np.arange(WORD))[which] + self.x.window_begin
        first, last = int(at[0]), int(at[-1])
        where: str = self.x.program.places.shared_named(first, last)
        has_gaps = len(at) != last - first + 1
        if has_gaps:
            where = f"{len(at)} of the {last - first + 1} bytes of {where}"
        return where + (f" of CTA {cta.number}" if self.x.launch.ctas > 1 else ""), _runs(at) if has_gaps else ""

    def _repair(self, i: Instruction, place: int, bits: int) -> str:
        """The instruction that has to write the bytes, or the guard that keeps the reader from them. An instruction may
        have written them since they were read, and later iterations may write them.
        """
        if i.op in UNWRITTEN:
            return UNWRITTEN[i.op]
        by = self.table.beside(place)
        if by is None:
            return f"write it before {i.at} reads it (a store or a copy, then a barrier); no instruction has written to the shared memory of this CTA"
        program = self.x.program
        named = f"{by.at} ({by.name})"
        left = int(self.table.blank_bytes(np.array([place]))[0]) & bits
        if left != bits:
            return f"write these bytes before {program.named(i)} reads them: {named} writes {'some of them' if left else 'them'} only after that"
        return (
            f"write these bytes first: so far {named} has written only bytes next to them (do some threads or iterations skip it, or come too late?); "
            "or read only what was written"
        )

    def nothing_came(self) -> None:
        """Nothing can continue: uninitialised reads were meant to wait for loads that are still to come."""
        loads = [i for i in self.reporting.sites.values() if i.op == "cp" and "mbarrier::complete_tx::bytes" in i.modifiers]
        for site, (i, words) in list(self._reads.items()):
            of_cta = (words != 0).reshape(len(self.x.ctas), -1).sum(axis=1).max()
            if loads and of_cta >= LOADED and self.x.launch.result.findings.take_back("R507", i):
                loads_of = Access("write", f"issued later, or never: the load{'s' * (len(loads) > 1)} at {lines_of(loads)}")
                why, repair = self.reporting.passed_early(self._waits.get(site))
                said = read_before_issue(Access("read", _reader(i), i), loads_of, why=why or "nothing makes the reader wait for the loads")
                self.reporting.find(i, np.flatnonzero(words), said, repair or self._missing_wait(i, loads))

    def _missing_wait(self, i: Instruction, loads: list[Instruction]) -> str:
        """The fix for a reader that waits for no load: the mbarriers of the variable in which the loads have theirs."""
        body, places = self.x.launch.program.inlined.body, self.x.launch.program.places
        of_loads = [
            [operand for operand in load.operands[1:] if isinstance(operand, Address) and operand.coordinates is None] for load in loads
        ]
        names = set().union(*(symbols_behind(body, addresses[-1]) for addresses in of_loads if addresses))
        at = [
            offset
            for cta in self.x.ctas.made[:1]
            for offset in sorted(mbarriers(cta))
            if (place := places.shared_at(offset)) and place.name in names
        ]
        which = f": {', '.join(map(places.mbarrier_named, at[:6]))}{' ...' * (len(at) > 6)}" if at and len(names) == 1 else ""
        return f"before {i.at}, wait for the mbarrier of the loads (mbarrier.try_wait.parity, with the parity of the round){which}"


def _reader(i: Instruction) -> str:
    """The reader: the threads that execute an instruction together."""
    return {"wgmma": "a warpgroup", "ldmatrix": "a warp"}.get(i.op, "a thread")
