"""Reads of shared memory before anybody had written it, whose writer may still come: then the reader did not wait (PTX ISA 8, a read that races)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from smemsim.program.barriers.causes import before_loads, is_wait
from smemsim.program.barriers.mbarrier import mbarriers
from smemsim.program.runs import Runs
from smemsim.program.watch.doubts import is_followed, uses
from smemsim.program.watch.operations import Operation
from smemsim.program.watch.telling import Telling, Waited
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.program.wave import Wave

__all__ = ["UNWRITTEN", "EarlyReads"]


LOADED = 4  # words of the smallest load
UNWRITTEN = dict.fromkeys(("wgmma", "tcgen05"), "check the descriptor, and that the load that fills the stage was issued")


class EarlyReads:
    """By line: the instruction, the words that it read before anybody had written them, and what the reader had waited for last."""

    def __init__(self, x: Wave, telling: Telling, words: int) -> None:
        self.x, self.telling, self.words = x, telling, words
        self._reads: dict[int, tuple[Instruction, np.ndarray]] = {}
        self._waits: dict[int, Waited] = {}
        self.late: dict[int, Callable[[], None]] = {}  # of those whose words came later: how to tell that once the value is used

    def note(self, i: Instruction, at: np.ndarray, warps: np.ndarray) -> None:
        """Warps read words: wrong at once, but where the value is followed, which may be thrown away."""
        if not is_followed(i):
            self.telling.find("R507", i, at, "{i} reads {where}, which nobody has written")
        words = self._reads.setdefault(i.line, (i, np.zeros(self.words, bool)))[1]
        words[at] = True
        if i.line not in self._waits and (waited := self.telling.last_wait(warps, at)) is not None:
            self._waits[i.line] = waited

    @property
    def has_read(self) -> bool:
        """Has anybody read what nobody had written?"""
        return bool(self._reads)

    def comes(self, op: Operation, runs: Runs, is_unordered: Callable[[int, np.ndarray], bool]) -> None:
        """An operation brings words; `is_unordered` says of a line and words whether it is not ordered behind those who read them there."""
        for line, (i, words) in list(self._reads.items()):
            late = runs.words[words[runs.words]]
            if late.size and is_unordered(line, late):
                del self._reads[line]
                why, repair = self.telling.other_stage(self._waits.get(line), late, op)
                sentence = f"{{i}} reads {{where}} before {op.name} has brought it{why or ': nothing makes the reader wait'}"
                repair = self._passed(i, op) or repair or "wait for the phase of its mbarrier (mbarrier.try_wait.parity) first"
                tell = functools.partial(self.telling.find, "X004", i, late, sentence, repair)
                self.telling.came_late(i, tell, self.late)

    def is_used(self, line: int, user: Instruction | None) -> None:
        """An instruction uses a value that a line read so; nobody can any more, where there is no user."""
        if line in self.late:
            self.late.pop(line)()
        elif line in self._reads:
            i, words = self._reads[line]
            sentence = f"{{i}} reads {{where}}, which nobody has written{uses(user)}"
            self.telling.find("R507", i, np.flatnonzero(words), sentence, UNWRITTEN.get(i.op, ""))

    def nothing_came(self) -> None:
        """Nothing goes on: what was read before anybody had written it was to be brought by loads that are still to come."""
        loads = [i for i in self.telling.lines.values() if i.op == "cp" and "mbarrier::complete_tx::bytes" in i.modifiers]
        for line, (i, words) in list(self._reads.items()):
            of_cta = words.reshape(len(self.x.ctas), -1).sum(axis=1).max()
            if loads and of_cta >= LOADED and self.x.launch.findings.pop(("R507", line), None) is not None:
                self.telling.find(
                    "X004", i, np.flatnonzero(words), f"{{i}} reads {{where}} before anybody has brought it (line {', '.join(str(n.line) for n in loads[:6])} "
                    "may, and never came to it): nothing made the reader wait",
                    self._passed(i) or "wait for the phase of its mbarrier (mbarrier.try_wait.parity), with the parity of this round",
                )  # fmt: skip

    def _passed(self, i: Instruction, op: Operation | None = None) -> str:
        """What to change where the last wait in front of a read, one of its consumer, passed before the first phase had ended of the mbarrier that counts `op`."""
        waits = [other for other in self.telling.lines.values() if is_wait(other) and other.line < i.line]
        last = max(waits, key=lambda wait: wait.line, default=None)
        if last is None or before_loads(last, self.x):
            return ""
        for cta in self.x.ctas.made:
            for barrier in mbarriers(cta).values():
                counts = barrier.state.is_counting if op is None else (cta, barrier.offset) in op.barriers.values()
                if last.line in barrier.state.passed and counts:
                    return (
                        f"the wait at line {last.line} for the mbarrier at {barrier.offset:#x} passed at once, before its first phase: "
                        "wait for parity 0 in the first round"
                    )
        return ""
