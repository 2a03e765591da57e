"""X011 for lanes that skip a barrier of their warp and execute what stands behind it (PTX ISA 9.1 §9.7.13.1).

Lanes that leave early, by `ret` in front of the barrier, take no part in it. Those that exit in a block that threads come to from the barrier too have only
branched around it: the others of their warp waited there without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.finding import Half
from smemsim.core.ptx.module import Instruction
from smemsim.run.engine.traps import thread_name
from smemsim.run.engine.wave import WARP
from smemsim.run.lower.cfg import behind

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Program

__all__ = ["arrive", "check_skipped", "have_parted", "note_acts", "note_exits"]


_EXITED_IN = "blocks in which threads have exited"
_ACTED_IN = "blocks in which threads have last accessed memory, since others of their warps wait for them"
_ACTS = {
    "atom",
    "cp",
    "ld",
    "ldmatrix",
    "mbarrier",
    "multimem",
    "red",
    "st",
    "stmatrix",
    "suld",
    "sured",
    "sust",
    "tcgen05",
    "tex",
    "wgmma",
}


def note_acts(x: Wave, at: int) -> None:
    """The running threads begin a block, where lanes of some warps wait, or have waited, at a barrier without others of theirs."""
    acted, acting = x.state[_ACTED_IN]
    if at in acting:
        acted[x.threads] = at


def arrive(x: Wave, i: Instruction) -> None:
    """The running threads arrive at a barrier by an instruction of their whole warp: what lanes that are not there do from now on, they may do behind it."""
    threads = x.threads
    begins = threads[::WARP]
    if len(threads) == x.total or (
        len(threads) % WARP == 0 and not (begins % WARP).any() and (threads[WARP - 1 :: WARP] - begins == WARP - 1).all()
    ):
        return
    check_skipped(x, i, [x.at], threads)
    if _ACTED_IN not in x.state:
        acting = {n for n in range(len(x.program.blocks)) if _acts(x.program, n)}
        x.state[_ACTED_IN] = np.full(x.total, -1, np.int32), acting
        x.has_parted = True
    x.state[_ACTED_IN][0].reshape(-1, WARP)[distinct(threads // WARP)] = -1


def note_exits(x: Wave, threads: np.ndarray, *, is_awaited: bool) -> None:
    """Threads exit at the end of the running block; those of a whole warp have nobody to leave behind, unless some have arrived at a barrier that `is_awaited`."""
    if not is_awaited and len(threads) % WARP == 0 and (len(threads) == x.total or (np.bincount(threads // WARP) % WARP == 0).all()):
        return
    blocks = x.state.get(_EXITED_IN)
    if blocks is None:
        blocks = x.state[_EXITED_IN] = np.full(x.total, -1, np.int32)
    blocks[threads] = x.at


def have_parted(x: Wave) -> bool:
    """Have some threads of a warp exited before others?"""
    return _EXITED_IN in x.state


def check_skipped(x: Wave, i: Instruction, at: list[int], threads: np.ndarray) -> None:
    """Threads have arrived at a barrier in one of some blocks, by an instruction of their whole warp: have others of their warps exited behind it?"""
    blocks = x.state.get(_EXITED_IN)
    if blocks is None:
        return
    warps = distinct(threads // WARP)
    others = np.setdiff1d((warps[:, None] * WARP + np.arange(WARP)).ravel(), threads)
    others = others[blocks[others] >= 0]
    if _ACTED_IN in x.state:
        acted, _ = x.state[_ACTED_IN]
        blocks = np.where(acted >= 0, acted, blocks)
    late = next(
        (n for n in distinct(blocks[others]).tolist() if _acts(x.program, n) and all(n in behind(x.program, one) for one in at)), None
    )
    if late is None:
        return
    thread = int(others[blocks[others] == late][0])
    warp = threads[threads // WARP == thread // WARP]
    x.launch.find(
        "X011", i, f"only {len(warp)} threads of a warp execute {i.name}, which the whole warp must execute together",
        "move the barrier out of the branch", because="PTX ISA 9.1 §9.7.13.1",
        halves=(
            Half("arrive", f"{thread_name(x, int(warp[0]))} ({i.name})", i),
            Half("skip", f"{thread_name(x, thread)}, which branches to line {_first_line(x.program, late)}"),
        ),
    )  # fmt: skip


def _acts(program: Program, n: int) -> bool:
    """Does a block access memory?"""
    return any(i.op in _ACTS and "param" not in i.modifiers for i in program.blocks[n].instructions)


def _first_line(program: Program, n: int) -> int:
    return next(i.line for i in program.blocks[n].instructions if i.op in _ACTS)
