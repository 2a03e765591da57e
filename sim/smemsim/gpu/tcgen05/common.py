"""What the tcgen05 instructions have in common: their CTA group, whose memories they work on, and what becomes of what the model refuses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from smemsim.errors import HardwareTrap, InputError, Unmodelled
from smemsim.gpu.asynchronous import stop
from smemsim.gpu.modifiers import Modifiers
from smemsim.machine.tcgen05_checks import BrokenRule
from smemsim.machine.tmem.allocation import AllocationError
from smemsim.machine.tmem.memory import TensorMemory
from smemsim.ptx.module import Instruction
from smemsim.spec.tensor_memory import COLUMNS, LANES
from smemsim.spec.traps import ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION

if TYPE_CHECKING:
    from smemsim.gpu.wave import Cta, Wave

__all__ = ["cells_at", "cta_group", "group_of", "refusals", "tensor_of"]


def cta_group(words: Modifiers) -> int:
    """1 or 2, of `.cta_group::1` and `.cta_group::2`."""
    return int(words.need("cta_group::1", "cta_group::2")[-1])


def tensor_of(cta: Cta) -> TensorMemory:
    """The tensor memory of a CTA."""
    if cta.tensor is None:
        raise InputError("there is no tensor memory")
    return cta.tensor


def cells_at(cta: np.ndarray | int, lane: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The places of cells among those of all CTAs of a wave, which are named by their index."""
    found: np.ndarray = (cta * LANES + lane) * COLUMNS + column
    return found


def group_of(x: Wave, i: Instruction, cta: Cta, group: int) -> tuple[Cta, ...]:
    """The CTAs an instruction works on: the own one, or the even one of the pair and its peer. X015 where there is no peer."""
    if group == 1:
        return (cta,)
    if x.launch.cluster_size % 2:
        message = f"{i.name}: CTA {cta.number} has no peer; pairs are CTAs of a cluster whose ranks differ in bit 0, and the cluster has {x.launch.cluster_size}"
        stop(x, i, "X015", message, "launch with clusters of an even number of CTAs", ILLEGAL_INSTRUCTION)
    first = cta.index - cta.rank % 2
    return x.ctas[first], x.ctas[first + 1]


@contextlib.contextmanager
def refusals(x: Wave, i: Instruction) -> Iterator[None]:
    """Give what the machine refuses a finding at the instruction, and end the kernel there; Unmodelled gets the line."""
    try:
        yield
    except HardwareTrap as trap:
        if not any(line == i.line for _, line, *_ in x.launch.findings):
            code = "A107" if trap.cuda_error == ILLEGAL_ADDRESS else "X015"
            repair = "check the descriptor's start address, LBO and SBO, and shared_bytes of the launch" if code == "A107" else ""
            x.launch.find(code, i, f"{i.name} traps (CUDA error {trap.cuda_error}): {trap.reason}", repair)
        raise
    except BrokenRule as rule:
        found = rule.finding
        x.launch.find(found.code, i, f"{i.name}: {found.message}", found.repair, because=found.because)
        raise HardwareTrap(str(rule), cuda_error=ILLEGAL_INSTRUCTION) from None
    except AllocationError as problem:
        stop(x, i, "X009", f"{i.name}: {problem}", "", ILLEGAL_INSTRUCTION)
    except InputError as problem:
        stop(x, i, "X015", f"{i.name}: {problem}", "", ILLEGAL_INSTRUCTION)
    except Unmodelled as problem:
        if str(problem).startswith("line "):
            raise
        raise Unmodelled(f"line {i.line}: {i.name}: {problem}") from None
