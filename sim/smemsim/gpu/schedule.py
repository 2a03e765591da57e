"""Which threads run next: those at the lowest block, of all warps together, so that warps that part meet again behind the branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.errors import SmemsimError
from smemsim.gpu.endless import Endless
from smemsim.gpu.wave import ALL, EXITED, GATHERING, WARP, YIELDED

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Block
    from smemsim.gpu.wave import Wave

__all__ = ["OutOfTime", "Stuck", "run_wave"]

PATIENCE = 256  # blocks one group may execute in loops while others could run
GLANCES = 8  # the same of a group that polls: nothing it does brings it further
TURNS = 64  # turns of everybody, after which a wave that stored nothing gives way though nobody is seen to poll
QUIET = 20  # one in so many blocks of a launch's limit may be executed in loops without a store or an arrival
LEAST_QUIET = 1_000_000  # blocks that it may in any case
LOOK = 64  # blocks from one look at the clock to the next


class Stuck(Exception):
    """A wave that has executed as many blocks as its launch allows."""


class OutOfTime(Exception):
    """A launch that has run for as many seconds as it may."""


def run_wave(wave: Wave, *, gives_way: bool = False) -> bool:
    """Run a wave until all its threads have exited (True), or until it can only wait for another wave, or gives way to it (False).

    `gives_way` says that other waves could bring what this one polls. `wave.gave_way` is that it could go on, `wave.endless` why it cannot.
    Errors of the hardware's rules (`SmemsimError`) get the wave's position: `wave.at` is the block, `wave.step` the instruction within it.
    """
    blocks, key = wave.program.blocks, wave.key
    end = len(blocks)
    turns, loops = 0, 0
    seen = since = wave.changes
    looked = polls = asked = wave.polls  # in the last turn, since the last change, since a group last gave way
    works = False  # does somebody do more than poll in this turn?
    endless, limit = Endless(), wave.launch.limit
    wave.endless, wave.gave_way = "", False
    while True:
        at = int(key.min())
        if at >= YIELDED:
            if at >= EXITED:
                return True
            yielded = (key >= YIELDED) & (key < GATHERING)
            if not yielded.any():
                if wave.expire():
                    continue
                return False  # everybody waits
            key[yielded] -= YIELDED
            turns += 1
            idle = wave.polls != looked and not works
            looked, works = wave.polls, False
            if wave.changes != seen:
                seen, wave.quiet = wave.changes, wave.steps
                wave.rounds.forget()
                continue
            wave.endless = wave.rounds.turn(wave, 0) or _quiet(wave)
            wave.gave_way = not wave.endless and gives_way and (idle or turns % TURNS == 0)
            if wave.endless or wave.gave_way:
                key[key < YIELDED] += YIELDED
                return False
            continue
        if at >= end:
            threads = np.flatnonzero(key == at)
            key[threads] = EXITED
            wave.launch.exited(wave, threads)
            continue
        here = key == at
        wave.sel = ALL if here.all() else np.flatnonzero(here)
        wave.at = at
        _run_block(wave, blocks[at])
        wave.steps += 1
        if wave.steps % LOOK == 0 and wave.launch.is_over:
            raise OutOfTime
        if wave.steps > limit:
            wave.endless = (
                f"still runs after {limit:,} blocks of instructions, the limit of this launch: it is endless, or needs a higher limit"
            )
            key[key < YIELDED] += YIELDED
            raise Stuck
        # A loop that others could be needed to end gives way to them now and then.
        after = int(key.min())
        if after <= at:
            loops += 1
            if wave.changes != since:
                since = seen = wave.changes
                loops, polls, wave.quiet = min(loops, PATIENCE), wave.polls, wave.steps
                endless.forget()
                wave.rounds.forget()
            reason = endless.turn(wave, after) or _quiet(wave)
            polled = wave.polls != polls
            if loops % (GLANCES if polled else PATIENCE) == 0 or reason:
                group = key == after
                needs_no_one = wave.polls == asked and loops < TURNS * PATIENCE and not reason
                giving = _warps_of(group) if needs_no_one else group
                if ((key < GATHERING) & ~giving).any():
                    key[giving & (key < YIELDED)] += YIELDED
                    works |= not polled
                    loops, polls, asked = 0, wave.polls, wave.polls
                elif reason or (gives_way and (polled or loops >= TURNS * PATIENCE)):
                    wave.endless, wave.gave_way = reason, not reason
                    key[group] += YIELDED
                    return False


def _warps_of(threads: np.ndarray) -> np.ndarray:
    """All threads of the warps that any of `threads` is of: those behind a loop that looks at nothing wait there for those that are in it."""
    return np.repeat(threads.reshape(-1, WARP).any(axis=1), WARP)


def _quiet(wave: Wave) -> str:
    most = max(LEAST_QUIET, wave.launch.limit // QUIET)
    if wave.steps - wave.quiet <= most:
        return ""
    return (
        f"has executed {most:,} blocks of instructions in loops without a store or an arrival of anybody: it is endless, or needs a limit "
        f"above {QUIET * most:,}"
    )


def _run_block(wave: Wave, block: Block) -> None:
    wave.step = 0
    at = block.index
    watch = wave.watch
    marks = watch.unwritten if watch is not None and (block.has_loads or watch.unwritten.concerns(block.slots)) else None
    try:
        if block.gate is not None:
            if not block.gate.opens(wave):
                return
            if marks is None:
                block.gate.run(wave)
            else:
                marks.run(wave, block.instructions[0], block.gate.run)
            wave.step = 1
        if watch is not None and block.slots & (watch.in_flight | watch.of_sums):
            watch.check_registers(wave, block)
        if watch is not None and block.slots & watch.tensor.loading:
            watch.tensor.names(wave, block)
        for step in block.steps:
            if marks is None:
                step(wave)
            else:
                marks.run(wave, block.instructions[wave.step], step)
            wave.step += 1
        if block.end is None:
            wave.key[wave.sel] = at + 1
        else:
            end = block.end
            if marks is None:
                end.run(wave, at + 1)
            else:
                marks.run(wave, block.instructions[-1], lambda x: end.run(x, at + 1))
    except SmemsimError as problem:
        problem.instruction = block.instructions[min(wave.step, len(block.instructions) - 1)]  # type: ignore[attr-defined]
        raise
