"""Which threads run next: those at the lowest block, of all warps together, so that warps that part meet again behind the branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.errors import SmemsimError
from smemsim.gpu.wave import ALL, EXITED, GATHERING, YIELDED

if TYPE_CHECKING:
    from smemsim.gpu.program import Block
    from smemsim.gpu.wave import Wave

__all__ = ["GIVE_WAY", "ROUNDS", "run_wave"]

PATIENCE = 256  # blocks one group may execute in loops while others could run
GLANCES = 8  # the same of a group that polls: nothing it does brings it further
LONG = 1 << 16  # blocks of loops without a store, an arrival or a poll, after which it is time to ask whether they ever end
ROUNDS = 1024  # turns of everybody in which threads polled and nobody stored or arrived, the same
GIVE_WAY = 0  # the same where other waves could bring it


def run_wave(wave: Wave, rounds: int = ROUNDS) -> bool:
    """Run a wave until all its threads have exited (True), or until it can only wait for another wave (False).

    It is False after `rounds` turns of everybody in which threads polled and nobody brought anything about, and after `LONG`. Errors of the hardware's rules
    (`SmemsimError`) get the wave's position: `wave.at` is the block, `wave.step` the instruction within it.
    """
    blocks, key = wave.program.blocks, wave.key
    end = len(blocks)
    quiet, busy, seen, looked, works = 0, 0, wave.changes, wave.polls, False
    loops, since, polls = 0, wave.changes, wave.polls
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
            if wave.changes != seen:
                seen, quiet, busy = wave.changes, 0, 0
            elif works or wave.polls == looked:
                busy += 1
            else:
                quiet += 1
            looked, works = wave.polls, False
            if quiet > rounds or busy > LONG // PATIENCE:
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
        # A loop that others could be needed to end gives way to them now and then.
        after = int(key.min())
        if after <= at:
            loops += 1
            if wave.changes != since:
                since, polls, loops = wave.changes, wave.polls, min(loops, PATIENCE)
            polled = wave.polls != polls
            if loops % (GLANCES if polled else PATIENCE) == 0:
                group = key == after
                if ((key < GATHERING) & ~group).any():
                    key[group] += YIELDED
                    works |= not polled
                    loops, polls = 0, wave.polls
                elif loops > (GLANCES * rounds if polled else LONG):
                    key[group] += YIELDED
                    return False


def _run_block(wave: Wave, block: Block) -> None:
    wave.step = 0
    at = block.index
    try:
        if block.gate is not None:
            if not block.gate.opens(wave):
                return
            block.gate.run(wave)
            wave.step = 1
        if wave.watch is not None and block.slots & wave.watch.in_flight:
            wave.watch.check_registers(wave, block)
        for step in block.steps:
            step(wave)
            wave.step += 1
        if block.end is None:
            wave.key[wave.sel] = at + 1
        else:
            block.end.run(wave, at + 1)
    except SmemsimError as problem:
        problem.instruction = block.instructions[min(wave.step, len(block.instructions) - 1)]  # type: ignore[attr-defined]
        raise
