"""Which threads run next: those at the lowest block, of all warps together, so that warps that part meet again behind the branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.errors import SmemsimError
from smemsim.gpu.wave import ALL, EXITED, GATHERING, YIELDED

if TYPE_CHECKING:
    from smemsim.gpu.program import Block
    from smemsim.gpu.wave import Wave

__all__ = ["Stuck", "run_wave"]

PATIENCE = 256  # blocks one group may execute in loops while others could run
ROUNDS = 4096  # turns of everybody without a store or an arrival, after which nothing will ever come
ENDLESS = 3_000_000  # blocks of one loop without a store or an arrival


class Stuck(Exception):
    """A wave that cannot go on by itself: all its threads wait, or poll something that does not change."""


def run_wave(wave: Wave) -> bool:
    """Run a wave until all its threads have exited (True), or until it can only wait for another wave (False).

    Errors of the hardware's rules (`SmemsimError`) get the wave's position: `wave.at` is the block, `wave.step` the instruction within it.
    """
    blocks, key = wave.program.blocks, wave.key
    end = len(blocks)
    turns, quiet, seen, loops, since = 0, 0, wave.changes, 0, 0
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
            if wave.changes != seen:
                seen, quiet = wave.changes, 0
            else:
                quiet += 1
                if quiet > ROUNDS or (turns & 63 == 0 and wave.launch.others_wait(wave)):
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
                since, loops = wave.changes, min(loops, PATIENCE)
            if loops % PATIENCE == 0:
                group = key == after
                others = (key < EXITED) & ~group & (key < GATHERING)
                if others.any():
                    key[group] += YIELDED
                elif loops > ENDLESS:
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
