"""Executing a block for the threads at it: JIT-compiled if that saves time and no check needs the instructions one by
one, else by the interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smemsim.base.errors import SmemsimError
from smemsim.run.engine.wave import ALL, Wave
from smemsim.run.jit.constants import is_joint
from smemsim.run.jit.tier import CompiledChain, Segment, tier_of

if TYPE_CHECKING:
    from smemsim.run.checks import Checks, Taint
    from smemsim.run.isa.registry import Plain
    from smemsim.run.lower.program import Block

__all__ = ["run_block"]


def run_block(wave: Wave, block: Block) -> None:
    """Execute a block for `wave.sel`. An error of the hardware's rules gets the `instruction` that it comes from."""
    wave.step = 0
    chain = None if block.gate is None or wave.sel is not ALL or wave.is_stepwise else _chain(wave, block)
    if chain is not None:
        chain(wave)
        block = chain.last
    marks = _marks(wave, block)
    try:
        if block.gate is not None and chain is None:
            if not _passes_gate(wave, block, marks):
                return
            wave.step = 1
        if wave.events.executes:
            wave.events.executes(wave, block.instructions)
        is_over = _run_plain(wave, block, marks, None if chain is None else chain.steps)
        while not is_over and (tail := _tail(wave, block)) is not None:
            tail(wave)
            block = tail.last
            marks = _marks(wave, block)
            is_over = _run_plain(wave, block, marks, tail.steps)
        if not is_over:
            _end(wave, block, marks)
    except SmemsimError as problem:
        problem.instruction = block.instructions[min(wave.step, len(block.instructions) - 1)]  # type: ignore[attr-defined]
        raise


def _marks(wave: Wave, block: Block) -> Taint | None:
    """The part of the taint that follows values in doubt through a block, if the block may read or load some."""
    checks: Checks | None = wave.checks
    if checks is None:
        return None
    is_near = checks.wants.declared or (checks.wants.shared and block.has_loads) or checks.taint.concerns(block.slots)
    return checks.taint if is_near else None


def _passes_gate(wave: Wave, block: Block, marks: Taint | None) -> bool:
    """Execute the instruction that a block begins with, for which lanes wait for each other; False
    where they still do.
    """
    gate: Any = block.gate
    if wave.registers.held & block.slots & ~gate.keeps:
        wave.materialize(block.slots & ~gate.keeps)
    if not gate.opens(wave):
        return False
    checks: Checks | None = wave.checks
    if checks is not None and checks.wants.registers and checks.may_wait_in(block):
        checks.waits_at(wave, block.instructions[0])
    if marks is None:
        gate.run(wave)
    else:
        marks.run(wave, block.instructions[0], gate.run)
    return True


def _end(wave: Wave, block: Block, marks: Taint | None) -> None:
    """Execute a block's last instruction, which says where its threads go; they go on with the next block where it
    has none.
    """
    after, end = block.index + 1, block.end
    if end is None:
        wave.jump(after)
        return
    marks = _near(wave, block, marks)
    if marks is None:
        end.run(wave, after)
    else:
        marks.run(wave, block.instructions[-1], lambda x: end.run(x, after))


def _chain(wave: Wave, block: Block) -> CompiledChain | None:
    """The chain of blocks that begins here, if all threads of the wave run it as machine code."""
    tier = block.tier or tier_of(wave.program, block)
    if not tier.is_done and is_joint(wave.program, block.instructions[0]):
        tier.pays(wave.n, is_watched=wave.checks is not None, is_counted=wave.is_counted)
    chain = tier.chain
    return chain if chain is not None and chain.chain.may_run(wave) else None


def _tail(wave: Wave, block: Block) -> CompiledChain | None:
    """The chain that begins with the branch at the end of a block, if all threads of the wave run it as
    machine code.
    """
    tail = None if block.tier is None or wave.sel is not ALL or wave.is_stepwise else block.tier.tail
    return tail if tail is not None and tail.chain.may_run(wave) else None


def _run_plain(wave: Wave, block: Block, marks: Taint | None, left: Sequence[Any] | None) -> bool:
    """Run the plain steps of a block, or those that are `left`. Is the block's end done too?"""
    if wave.registers.held & block.behind:
        wave.materialize(block.behind)
    if wave.events.block_entered:
        wave.events.block_entered(wave, block)
    checks: Checks | None = wave.checks
    if checks is not None and checks.wants.registers and checks.may_wait_in(block):
        _run_one_by_one(wave, block, marks, left, checks)
        return False
    return _run_steps(wave, block, marks, left)


def _run_one_by_one(wave: Wave, block: Block, marks: Taint | None, left: Sequence[Any] | None, checks: Checks) -> None:
    """Run the plain steps of a block that names registers of operations in flight."""
    for step in block.steps if left is None else left:
        for closure in step.steps if isinstance(step, Segment) else (step,):
            checks.waits_at(wave, block.instructions[wave.step])
            _run_step(wave, block, closure, _near(wave, block, marks))
    if block.end is not None:
        checks.waits_at(wave, block.instructions[-1])


def _run_steps(wave: Wave, block: Block, marks: Taint | None, left: Sequence[Any] | None) -> bool:
    """Run the plain steps of a block, or those that are `left`: those that are machine code so, where no value in
    doubt is near. Is the block's end done too, as that of a loop is?
    """
    steps: Sequence[Any] = block.steps if left is None else left
    taint = wave.taint
    is_doubtful = taint is not None and taint.concerns(block.slots)  # its gate may have brought some
    if left is None and steps and not is_doubtful and wave.in_flight is None and not wave.is_stepwise:
        tier = block.tier or tier_of(wave.program, block)
        if not tier.is_done:
            tier.pays(wave.n, is_watched=wave.checks is not None, is_counted=wave.is_counted)
        if tier.loop is not None:
            tier.loop(wave)
            return True
        steps = tier.steps or steps
    for step in steps:
        if not isinstance(step, Segment):
            _run_step(wave, block, step, taint if is_doubtful else marks)
        else:
            threads = wave.sel if is_doubtful else step.run(wave)
            if threads is None:
                continue  # machine code brings no doubts
            _run_closures(wave, block, step.steps, marks, threads)
        is_doubtful = taint is not None and taint.concerns(block.slots)
    return False


def _run_closures(wave: Wave, block: Block, steps: Sequence[Plain], marks: Taint | None, threads: Any) -> None:
    """Run plain steps for some of the running threads; the others have run them."""
    kept = wave.sel
    if threads is not kept:
        wave.select(threads)
    try:
        for closure in steps:
            _run_step(wave, block, closure, _near(wave, block, marks))
    finally:
        if threads is not kept:
            wave.select(kept)


def _near(wave: Wave, block: Block, marks: Taint | None) -> Taint | None:
    """The part of the taint that follows values in doubt through a block. It begins with the block, or with a load of
    its own that read uninitialised memory.
    """
    taint = wave.taint
    return taint if marks is None and taint is not None and taint.concerns(block.slots) else marks


def _run_step(wave: Wave, block: Block, step: Plain, marks: Taint | None) -> None:
    """Run one plain step; `marks` is the part of the taint that follows values in doubt through it, if any are near."""
    if marks is None:
        step(wave)
        if wave.taint is not None:
            wave.taint.came(block.instructions[wave.step])
    else:
        marks.run(wave, block.instructions[wave.step], step)
    wave.step += 1
