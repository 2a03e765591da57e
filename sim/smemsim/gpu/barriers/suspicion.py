"""Of the waits at mbarriers that never end: which is likeliest the cause of the hang, and what to change there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.gpu.wave import WARP
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.gpu.barriers.mbarrier import Mbarrier
    from smemsim.gpu.wave import Wave

__all__ = ["before_loads", "is_wait", "suspicion"]


def suspicion(barrier: Mbarrier, i: Instruction, x: Wave) -> tuple[int, str]:
    """Of a wait at a barrier that never ends: how far it is from the cause of the hang (0 is nearest), and what to change."""
    if unseen := barrier.phase - barrier.seen:
        last = barrier.phase - 1
        if unseen == 1:
            return 0, f"phase {last} is over, and no wait has seen it: wait for parity {last & 1}, or one arrival fewer"
        return 0, (
            f"phases {barrier.seen} to {last} went by without a wait: more arrive in a round than the {barrier.expected} that mbarrier.init "
            "says; correct that count, or let fewer threads arrive"
        )
    if barrier.pending != barrier.expected and barrier.pending:
        return 1, f"mbarrier.init says {barrier.expected} arrivals a phase: correct it, or let the others arrive too"
    if barrier.tx or barrier.pending != barrier.expected:
        return 4 if barrier.is_late else 1, ""
    if not any(barrier.done.values()):
        if not before_loads(i, x):
            return 3, ""
        if barrier.passed:
            return 2, "whoever reads a stage must arrive here when it has (mbarrier.arrive, tcgen05.commit)"
        return 2, "a stage is free in the first round: wait for parity 1 there, which passes at once at a new mbarrier"
    stuck = {int(warp) for wait in x.waiting for warp in np.unique(wait.threads // WARP)}
    return (1 if barrier.arrived_from and not barrier.arrived_from & stuck else 4), ""  # who arrived before goes on, or waits as well


def before_loads(i: Instruction, x: Wave) -> bool:
    """Do loads that complete on an mbarrier come behind this wait, before the next: does a producer wait here for a free stage?"""
    body = x.program.inlined.body
    at = next((n for n, other in enumerate(body) if other is i), len(body))
    for other in body[at + 1 :]:
        if is_wait(other):
            return False
        if other.op == "cp" and "mbarrier::complete_tx::bytes" in other.modifiers:
            return True
    return False


def is_wait(i: Instruction) -> bool:
    """Is it a wait at an mbarrier?"""
    return i.op == "mbarrier" and i.modifiers[0] in ("try_wait", "test_wait")
