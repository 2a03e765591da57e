"""X011 for lanes that skip a barrier of their warp and execute what follows it (PTX ISA 9.1 §9.7.13.1).

Lanes that leave early, by `ret` before the barrier, take no part in it. Lanes that exit in a block that threads reach
from the barrier too have only branched around it: the others of their warp waited there without them.

Lanes may also come alone to a barrier that is not .aligned. It keeps them until all others of their warp exit or come
to the same barrier (rule barrier.alone). If these never do, the launch hangs (`engine.hangs`).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.finding import Half
from smemsim.core.ptx.module import Instruction
from smemsim.run.engine.traps import thread_name
from smemsim.run.engine.wave import EXITED, GATHERING, PARKED, WARP
from smemsim.run.lower.cfg import behind, leads_past
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Program

__all__ = ["ACTED_IN", "check_missing", "check_skipped", "come", "come_whole", "have_parted", "keeps_lanes", "note_exits", "were_kept"]

NUMBERS = 1 << 16  # of barriers and of thread counts that are told apart


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


def come(x: Wave, i: Instruction) -> None:
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


class _Kept:
    """By thread: the barrier to which it has come without others of its warp, as a number that says which (0: none).
    Those whose warp has come meanwhile `pass`, and have not gone on yet. Those that were kept last `were_first`.
    """

    def __init__(self, x: Wave) -> None:
        self.at, self.passes, self.were_first = np.zeros(x.total, np.int64), np.zeros(x.total, bool), np.zeros(x.total, bool)


# there if some lanes of a warp have come alone to a barrier that keeps them
_KEPT: Slot[_Kept] = Slot(_Kept)


def keeps_lanes(i: Instruction) -> bool:
    """Does an instruction keep lanes that come to it without their warp, until the others exit or come to it, too?

    A barrier for all threads of the CTA waits for them in any case.
    """
    if i.op != "barrier" or "warp" in i.modifiers:
        return False
    if "cluster" in i.modifiers:
        return True
    return "aligned" not in i.modifiers and ("arrive" in i.modifiers or len(i.operands) == (4 if "red" in i.modifiers else 2))


def _kind(i: Instruction) -> int:
    """A number for the words of a barrier: lanes meet at those with the same words."""
    return zlib.crc32(" ".join(sorted({*i.modifiers} - {"cta", "release", "acquire"})).encode()) >> 1


def come_whole(x: Wave, i: Instruction, number: Any = 0, count: Any = 0) -> bool:
    """Narrow the selection to the running threads whose warps have come to a barrier as a whole, with one number and
    thread count. The others wait here. False if no thread goes on.
    """
    threads, is_one = x.threads, np.ndim(number) == np.ndim(count) == 0
    if is_one and _are_whole(x, threads):
        return True
    kept = _KEPT(x)
    which = (_kind(i) << 32) + (np.asarray(number, np.int64) % NUMBERS * NUMBERS) + np.asarray(count, np.int64) % NUMBERS
    passing = threads[kept.passes[threads]]
    kept.passes[passing] = False
    come = np.isin(threads, passing, assume_unique=True, invert=True)
    kept.were_first[threads] = ~come | (kept.at[threads] == which)
    kept.at[threads[come]] = np.broadcast_to(which, threads.shape)[come]
    at, lives = kept.at.reshape(-1, WARP), x.pc.reshape(-1, WARP) < EXITED
    first = np.take_along_axis(at, lives.argmax(axis=1)[:, None], axis=1)
    over = np.repeat((first[:, 0] != 0) & ((at == first) | ~lives).all(axis=1), WARP)
    own = threads[come]
    x.pc[own] = x.at + GATHERING
    others = over & (kept.at != 0)
    others[own] = False
    x.pc[others & (x.pc >= GATHERING) & (x.pc < PARKED)] -= GATHERING
    kept.passes |= others
    kept.at[over] = 0
    go = np.union1d(passing, own[over[own]])
    x.pc[go] = x.at
    x.select(go)
    return len(go) > 0


def were_kept(x: Wave, threads: np.ndarray) -> np.ndarray:
    """Which threads were kept at their last barrier until others of their warp came, or exited?"""
    kept = _KEPT.peek(x)
    return np.zeros(len(threads), bool) if kept is None else kept.were_first[threads]


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


def _acts(program: Program, n: int) -> bool:
    """Does a block access memory?"""
    return any(i.op in _ACTS and "param" not in i.modifiers for i in program.blocks[n].instructions)


def _first(program: Program, n: int) -> str:
    return program.named(next(i for i in program.blocks[n].instructions if i.op in _ACTS))
