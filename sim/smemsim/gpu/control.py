"""Branches and exits, and what has no effect here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.errors import InputError, Unmodelled
from smemsim.gpu.modifiers import Modifiers
from smemsim.gpu.registry import End, Plain, Step, implements, unmodelled
from smemsim.gpu.wave import EXITED, WARP, YIELDED
from smemsim.ptx.module import Immediate, Instruction, Label
from smemsim.spec.launches import REGISTERS
from smemsim.spec.ptx import SETMAXNREG

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Wave

__all__ = ["check_registers"]


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
        chosen = np.asarray(index(x))
        if (chosen >= len(table)).any():
            raise Unmodelled(f"line {i.line}: {i.text}: index {int(chosen.max())} of a list of {len(table)} targets: undefined in PTX")
        x.key[x.sel] = table[chosen]

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
    """`nanosleep.u32`: others first."""
    if i.modifiers != ("u32",):
        raise unmodelled(i)

    def end(x: Wave, following: int) -> None:
        x.key[x.sel] = following + YIELDED

    return End(end)


# Instructions that change nothing a kernel can see, with the words that they may have.
_WITHOUT_EFFECT = {
    "griddepcontrol": ("launch_dependents", "wait"),
    "pmevent": ("mask",),
    "prefetch": ("global", "local", "const", "param", "tensormap", "L1", "L2", "L2::evict_last", "L2::evict_normal"),
    "prefetchu": ("L1",),
    "applypriority": ("global", "L2::evict_normal"),
    "discard": ("global", "L2"),
}


@implements(*_WITHOUT_EFFECT)
def build_nothing(i: Instruction, c: Linker) -> Step:
    """Only what they may not be given is looked at."""
    unknown = [word for word in i.modifiers if word not in _WITHOUT_EFFECT[i.op]]
    if unknown:
        raise unmodelled(i, f".{unknown[0]}")
    run: Plain = lambda x: None  # noqa: E731
    return run


@implements("setmaxnreg")
def build_setmaxnreg(i: Instruction, c: Linker) -> Step:
    """`setmaxnreg.inc|dec.sync.aligned.u32 N`: nobody waits here; what a CTA ends with has to fit what it began with (PTX ISA 9.7.19.5)."""
    words = Modifiers(i, "sync", "aligned", "u32")
    words.need("inc", "dec")
    words.end()
    (count,) = i.operands
    if not isinstance(count, Immediate) or count.value not in SETMAXNREG:
        raise InputError(f"needs a number of registers from {SETMAXNREG[0]} to {SETMAXNREG[-1]}, a multiple of {SETMAXNREG.step}")
    registers = count.value
    threads, ctas = (c.directives.get(name) or (0,) for name in ("maxntid", "minnctapersm"))
    at_entry = REGISTERS.at_entry((c.directives.get("maxnreg") or (0,))[0], int(np.prod(threads)), ctas[0])

    def run(x: Wave) -> None:
        for first in x.threads[np.flatnonzero(np.diff(x.threads // WARP, prepend=-1))].tolist() if at_entry else ():
            x.ctas[int(x.cta_of[first])].state.setdefault("registers", {"at entry": (at_entry, i)})[first // WARP] = registers, i

    return run


def check_registers(x: Wave) -> None:
    """X006 where the warps of a CTA that has ended had asked for more registers than it had: an inc waits until others have given some back."""
    for cta in x.ctas:
        of_warps = dict(cta.state.get("registers", {}))
        if not of_warps:
            continue
        at_entry, _ = of_warps.pop("at entry")
        warps = x.stride // WARP
        total = sum(count for count, _ in of_warps.values()) + (warps - len(of_warps)) * at_entry
        most, i = max(of_warps.values(), key=lambda one: one[0])
        if total > warps * at_entry and "inc" in i.modifiers:
            x.launch.find(
                "X006", i, f"{i.name} waits for ever: with {most} registers a thread here the {warps} warps would have {WARP * total}, and the CTA has "
                f"{WARP * warps * at_entry}, {at_entry} a thread, since its launch", "setmaxnreg.dec in the warps that need fewer", because="PTX ISA 9.7.19.5",
            )  # fmt: skip
