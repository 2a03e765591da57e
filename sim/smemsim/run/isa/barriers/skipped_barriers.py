"""X011 for lanes that skip a barrier of their warp and execute what follows it (PTX ISA 9.1 §9.7.13.1).

Lanes that leave early, by `ret` before the barrier, take no part in it. Lanes that exit in a block that threads reach
from the barrier too have only branched around it: the others of their warp waited there without them.

Lanes may also come to a barrier alone that is not .aligned. If the others of their warp wait for them before they exit
or come to such a barrier, the kernel hangs (rule barrier.alone).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.finding import Half
from smemsim.core.ptx.module import Instruction
from smemsim.run.engine.traps import thread_name
from smemsim.run.engine.wave import EXITED, WARP
from smemsim.run.lower.cfg import behind, leads_past
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Program

__all__ = ["ACTED_IN", "check_missing", "check_skipped", "come", "have_parted", "meet", "note_alone", "note_exits"]


# by thread, the block in which it has exited, or -1
_EXITED_IN: Slot[np.ndarray] = Slot(lambda x: np.full(x.total, -1, np.int32))
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


class _LastActs:
    """By thread, the block in which it has last accessed memory since others of its warp wait for it, or -1; `acting`
    are the blocks that access memory.
    """

    def __init__(self, x: Wave) -> None:
        self.blocks = np.full(x.total, -1, np.int32)
        self.acting = {n for n in range(len(x.program.blocks)) if _acts(x.program, n)}

    def begins(self, x: Wave, at: int) -> None:
        """The running threads begin a block."""
        if at in self.acting:
            self.blocks[x.threads] = at


# there if lanes of a warp have come to a barrier of the whole warp without others
ACTED_IN: Slot[_LastActs] = Slot(_LastActs)


def come(x: Wave, i: Instruction, *, is_aligned: bool, waits: bool) -> None:
    """The running threads come to a barrier of their CTA."""
    if is_aligned:
        _arrive(x, i)
    if waits:
        meet(x, i)
    if not is_aligned:
        note_alone(x, i)


def _arrive(x: Wave, i: Instruction) -> None:
    """The running threads arrive at a barrier by an instruction of their whole warp: lanes that are not there may
    execute only what follows it.
    """
    threads = x.threads
    if _are_whole(x, threads):
        return
    check_skipped(x, i, [x.at], threads)
    ACTED_IN(x).blocks.reshape(-1, WARP)[distinct(threads // WARP)] = -1


def _are_whole(x: Wave, threads: np.ndarray) -> bool:
    """Are threads those of whole warps?"""
    begins = threads[::WARP]
    return len(threads) == x.total or (
        len(threads) % WARP == 0 and not (begins % WARP).any() and bool((threads[WARP - 1 :: WARP] - begins == WARP - 1).all())
    )


class _Alone:
    """By thread: the site of the barrier to which it has come without others of its warp, and the site of the barrier
    at which its warp meets; 0 if there is none.
    """

    def __init__(self, x: Wave) -> None:
        shape = x.total // WARP, WARP
        self.at, self.met = np.zeros(shape, np.int32), np.zeros(shape, np.int32)


# there if some lanes of a warp have executed a barrier that is not for the whole warp
_ALONE: Slot[_Alone] = Slot(_Alone)


def note_alone(x: Wave, i: Instruction) -> None:
    """The running threads execute a barrier that lanes of a warp may execute alone."""
    if _are_whole(x, x.threads):
        return
    here = np.zeros((x.total // WARP, WARP), bool)
    here.reshape(-1)[x.threads] = True
    some = here & (~here & (x.pc.reshape(-1, WARP) < EXITED)).any(axis=1, keepdims=True)
    if some.any():
        _ALONE(x).at[some] = i.site


def meet(x: Wave, i: Instruction) -> None:
    """The running threads come to a barrier at which they wait. X011 if all of a warp come here, and some had come to
    another barrier before, where an H200 keeps them until the others come to one, too.
    """
    alone = _ALONE.peek(x)
    if alone is None:
        return
    alone.met.reshape(-1)[x.threads] = i.site
    lives = x.pc.reshape(-1, WARP) < EXITED
    kept = lives & (alone.at != 0) & (alone.at != i.site)
    for warp in np.flatnonzero(kept.any(axis=1) & (~lives | (alone.met == i.site)).all(axis=1)).tolist():
        own, others = np.flatnonzero(kept[warp]), np.flatnonzero(lives[warp] & ~kept[warp])
        first = x.program.sites.get(int(alone.at[warp, own[0]]))
        alone.at[warp], alone.met[warp] = 0, 0
        if len(others) and first is not None:
            waits = f"{thread_name(x, warp * WARP + int(others[0]))} ({i.name}), without the first barrier"
            x.launch.find(
                "X011", first, f"{_lanes(len(own))} of a warp came to {first.name} alone, and the other lanes wait for {'it' if len(own) == 1 else 'them'}: the kernel hangs",
                "move the barrier out of the branch", why="such a barrier keeps lanes until all others of their warp exit or come to one",
                because="seen on an H200 (rule barrier.alone)", halves=(
                    Half("arrive", f"{thread_name(x, warp * WARP + int(own[0]))} ({first.name})", first), Half("wait", waits, i),
                ),
            )  # fmt: skip


def note_exits(x: Wave, threads: np.ndarray, *, is_awaited: bool) -> None:
    """Threads exit at the end of the running block. If a whole warp exits, no lane of it stays, unless some have
    arrived at a barrier that `is_awaited`.
    """
    if not is_awaited and len(threads) % WARP == 0 and (len(threads) == x.total or (np.bincount(threads // WARP) % WARP == 0).all()):
        return
    _EXITED_IN(x)[threads] = x.at


def have_parted(x: Wave) -> bool:
    """Have some threads of a warp exited before others?"""
    return _EXITED_IN.peek(x) is not None


# the barriers that lanes have skipped, each with the block after it that they executed
_SKIPPED: Slot[list[tuple[Instruction, int]]] = Slot(lambda x: [])


def _is_of_branch(x: Wave, i: Instruction, late: int) -> bool:
    """Does a barrier follow another one that lanes have skipped, on all paths from there to the block `late`?"""
    known, after = _SKIPPED(x), x.program.blocks[late].instructions[0]
    for before, block in known:
        is_next = before is not i and block == late and leads_past(x.program, before, i, [])
        if is_next and not leads_past(x.program, before, after, [i]):
            return True
    known.append((i, late))
    return False


def check_skipped(x: Wave, i: Instruction, at: list[int], threads: np.ndarray) -> None:
    """Threads have arrived at a barrier in one of some blocks, by an instruction of their whole warp: have others of
    their warps exited after it? Later barriers of the same branch are not reported.
    """
    blocks = _EXITED_IN.peek(x)
    if blocks is None:
        return
    warps = distinct(threads // WARP)
    others = np.setdiff1d((warps[:, None] * WARP + np.arange(WARP)).ravel(), threads)
    others = others[blocks[others] >= 0]
    acts = ACTED_IN.peek(x)
    if acts is not None:
        blocks = np.where(acts.blocks >= 0, acts.blocks, blocks)
    late = next(
        (n for n in distinct(blocks[others]).tolist() if _acts(x.program, n) and all(n in behind(x.program, one) for one in at)), None
    )
    if late is None or _is_of_branch(x, i, late):
        return
    thread = int(others[blocks[others] == late][0])
    skips = f"{thread_name(x, thread)}, which executes {_first(x.program, late)} without the barrier"
    _find(x, i, threads[threads // WARP == thread // WARP], Half("skip", skips))


def check_missing(x: Wave, i: Instruction, threads: np.ndarray, missing: np.ndarray) -> None:
    """Threads of a warp have passed a barrier by an instruction of their whole warp. Others of the warp, `missing`, had
    not come to it.
    """
    _find(x, i, threads, Half("missing", f"{thread_name(x, int(missing[0]))}, which has not come to the barrier"))


def _find(x: Wave, i: Instruction, threads: np.ndarray, other: Half) -> None:
    x.launch.find(
        "X011", i, f"only {len(threads)} threads of a warp execute {i.name}, which the whole warp must execute together",
        "move the barrier out of the branch", because="PTX ISA 9.1 §9.7.13.1",
        halves=(Half("arrive", f"{thread_name(x, int(threads[0]))} ({i.name})", i), other),
    )  # fmt: skip


def _lanes(count: int) -> str:
    return "one lane" if count == 1 else f"{count} lanes"


def _acts(program: Program, n: int) -> bool:
    """Does a block access memory?"""
    return any(i.op in _ACTS and "param" not in i.modifiers for i in program.blocks[n].instructions)


def _first(program: Program, n: int) -> str:
    return program.named(next(i for i in program.blocks[n].instructions if i.op in _ACTS))
