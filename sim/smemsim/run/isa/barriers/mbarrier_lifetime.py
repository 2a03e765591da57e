"""The lifetime of an mbarrier: mbarrier.init, mbarrier.inval, and other uses of its bytes (PTX ISA 9.1 §9.7.13.15.9,
9.7.13.15.10).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.finding import Half
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.barriers import MBARRIER_ARRIVALS
from smemsim.core.spec.findings import Severity
from smemsim.run.engine.traps import find_misuse, misuse
from smemsim.run.engine.wave import THREADS, Cta
from smemsim.run.isa.barriers.hang_causes import check_bytes
from smemsim.run.isa.barriers.mbarrier import Mbarrier, State, mbarrier_of, mbarriers, overwritten_by, state_of_all

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave

__all__ = ["check_reused", "initialise", "invalidate"]


LIVES = "PTX ISA 9.1 §9.7.13.15.9, 9.7.13.15.10 (no other use of its bytes before mbarrier.inval)"


def initialise(x: Wave, ctas: Sequence[Cta], offset: int, count: int, i: Instruction, threads: np.ndarray) -> State:
    """`mbarrier.init` at one place of CTAs' windows, by threads of each: those of the first one, and the same of the
    others.
    """
    if not 1 <= count <= MBARRIER_ARRIVALS:
        find_misuse(x, i, f"a count of {count}: needs 1 to {MBARRIER_ARRIVALS}", "correct the count")
    for cta in ctas:
        old = mbarriers(cta).get(offset)
        if old is not None:
            _replaces(x, old, i, threads + (cta.first - ctas[0].first))
    made = State([Mbarrier(cta, offset, cta.index * x.pitch + offset - x.window_begin, i) for cta in ctas], count & MBARRIER_ARRIVALS)
    made.phase = count - 1 >> 20 & 1  # measured on an H200: what the count's 20 bits do not hold goes on into the phase
    for barrier in made.members:
        barrier.is_again = offset in mbarriers(barrier.cta)
        mbarriers(barrier.cta)[offset] = barrier
    made.store(x)
    if x.memories.has_owners:
        x.memories.owners.touch(made.words >> 1, THREADS)
    return made


def _replaces(x: Wave, old: Mbarrier, i: Instruction, threads: np.ndarray) -> None:
    """Threads initialise an mbarrier where there is one."""
    offset, number = old.offset, old.cta.number
    if old.waits:
        misuse(
            x,
            i,
            f"the mbarrier at {offset:#x} is initialised again while threads wait at it",
            "mbarrier.inval after the last use",
        )
    if x.events.mbarrier_ends:
        x.events.mbarrier_ends(x, i, old, threads)
    check_bytes(old, x)
    if any(old.state.done.values()) or old.made.site != i.site:  # threads of one instruction that all do it do no harm
        x.launch.find(
            "X010", i, f"the mbarrier at {offset:#x} of CTA {number} is initialised again, and was not invalidated", "mbarrier.inval first, after the last use",
            because=LIVES, milder=Severity.LUCK, halves=(Half("init", i.name, i), Half("init", old.made.name, old.made)),
        )  # fmt: skip
    old.alone()


def invalidate(x: Wave, ctas: Sequence[Cta], offset: int, i: Instruction, threads: np.ndarray) -> None:
    """`mbarrier.inval` by such threads: the bytes are free again. Silicon does nothing: an H100 left the word as it
    was, with and without an mbarrier there.
    """
    of_all = state_of_all(x, offset) if len(ctas) == len(x.ctas) else None
    for cta in ctas:
        if offset in mbarriers(cta):
            barrier = mbarrier_of(x, cta, offset, i) if of_all is None else mbarriers(cta)[offset]
            if of_all is None:
                barrier.alone()
            _ends(x, barrier, i, threads + (cta.first - ctas[0].first))
        else:
            x.launch.find(
                "X010", i, f"there is no mbarrier at {offset:#x} of CTA {cta.number}: none was initialised, or it was invalidated before",
                "one mbarrier.inval for each mbarrier.init", because=LIVES, milder=Severity.LUCK,
            )  # fmt: skip


def _ends(x: Wave, barrier: Mbarrier, i: Instruction, threads: np.ndarray) -> None:
    """Threads invalidate an mbarrier."""
    offset, cta = barrier.offset, barrier.cta
    check_bytes(barrier, x)
    if barrier.waits:
        misuse(
            x,
            i,
            f"the mbarrier at {offset:#x} of CTA {cta.number} is invalidated while threads wait at it",
            "a barrier (bar.sync) before it",
        )
    if x.events.mbarrier_ends:
        x.events.mbarrier_ends(x, i, barrier, threads)
    if x.events.mbarrier_invalidated:
        x.events.mbarrier_invalidated(x, i, barrier, threads)
    del mbarriers(cta)[offset]


def check_reused(x: Wave, barrier: Mbarrier) -> None:
    """X010 if a write has overwritten an mbarrier without mbarrier.inval; at the end. Stores of threads work by
    accident; an asynchronous copy is wrong (rule order.mbarrier_lives).
    """
    i = overwritten_by(x, barrier)
    if i is not None:
        is_copy = i.op == "cp"
        measured = "; triton-lang/triton issue 10106: what a load brought there was wrong on an H200 and a B200" if is_copy else ""
        x.launch.find(
            "X010", i, f"the mbarrier at {barrier.offset:#x} of CTA {barrier.cta.number} is overwritten, and was not invalidated",
            halves=(Half("write", i.name, i), Half("init", barrier.made.name, barrier.made)), repair="mbarrier.inval before its bytes are used for something else, or keep them apart from all buffers",
            because=LIVES + measured, milder=Severity.WRONG if is_copy else Severity.LUCK,
        )  # fmt: skip
