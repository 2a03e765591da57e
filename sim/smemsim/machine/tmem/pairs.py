"""The memories that an instruction works on: those of one CTA, or of the even CTA of a pair and of its peer."""

from __future__ import annotations

from typing import Any

from smemsim.arguments import shown, whole
from smemsim.errors import InputError
from smemsim.machine.memory import SharedMemory
from smemsim.machine.tmem.memory import TensorMemory

__all__ = ["check_together", "memories_of"]


def memories_of(name: str, given: Any, kind: type, cta_group: Any) -> tuple[Any, ...]:
    """One memory for each CTA of the group; InputError for anything else."""
    group = whole("cta_group", cta_group)
    if group not in (1, 2):
        raise InputError(f"cta_group = {group}: there are .cta_group::1 and .cta_group::2")
    found = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if len(found) != group or not all(isinstance(memory, kind) for memory in found):
        wanted = f"a {kind.__name__}" if group == 1 else f"a pair of {kind.__name__}, of the even CTA and of its peer"
        raise InputError(f"{name} = {shown(given)}: .cta_group::{group} needs {wanted}")
    if len({id(memory) for memory in found}) < group:
        raise InputError(f"{name}: the two CTAs of a pair have a {kind.__name__} each, and both are the same one here")
    return found


def check_together(tensor: tuple[TensorMemory, ...], shared: tuple[SharedMemory, ...], cta_group: int) -> None:
    """InputError unless all memories are of one architecture and their instructions of one cta_group."""
    archs = sorted({*(memory.arch for memory in tensor), *(memory.arch for memory in shared)})
    if len(archs) > 1:
        raise InputError(f"the memories are those of {', '.join(archs)}: an instruction has one architecture")
    for memory in tensor:
        memory.check_group(cta_group)
