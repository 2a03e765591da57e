"""Branches and exits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.gpu.registry import End, Plain, Step, implements, unmodelled
from smemsim.gpu.wave import EXITED, YIELDED
from smemsim.ptx.module import Instruction, Label

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Wave

__all__: list[str] = []


@implements("bra")
def build_bra(i: Instruction, c: Linker) -> Step:
    """`bra target`; its guard, if any, parts the threads."""
    label = i.operands[0]
    if not isinstance(label, Label):
        raise unmodelled(i, "the target is no label")
    target = c.target(label.name)

    def end(x: Wave, following: int) -> None:
        x.key[x.sel] = target()

    return End(end)


@implements("brx")
def build_brx(i: Instruction, c: Linker) -> Step:
    """`brx.idx index, targets`: a jump table."""
    index, labels = c.read(i.operands[0], "u32"), i.operands[1]
    if not isinstance(labels, Label) or labels.name not in c.inlined.targets:
        raise unmodelled(i, "the targets are no .branchtargets list")
    targets = [c.target(name) for name in c.inlined.targets[labels.name]]

    def end(x: Wave, following: int) -> None:
        table = np.array([target() for target in targets], np.int32)
        x.key[x.sel] = table[np.minimum(index(x), len(table) - 1)]

    return End(end)


@implements("exit", "ret")
def build_exit(i: Instruction, c: Linker) -> Step:
    """`exit`, and `ret` of the entry: the threads are done."""

    def end(x: Wave, following: int) -> None:
        threads = x.threads.copy()
        x.key[threads] = EXITED
        x.launch.exited(x, threads)

    return End(end)


@implements("nanosleep")
def build_nanosleep(i: Instruction, c: Linker) -> Step:
    """`nanosleep`: others first."""

    def end(x: Wave, following: int) -> None:
        x.key[x.sel] = following + YIELDED

    return End(end)


@implements("griddepcontrol", "setmaxnreg", "pmevent", "prefetch", "prefetchu", "applypriority", "discard")
def build_nothing(i: Instruction, c: Linker) -> Step:
    """Instructions that change nothing a kernel can see."""
    run: Plain = lambda x: None  # noqa: E731
    return run
