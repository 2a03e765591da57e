"""`malloc` and `free` as calls of a kernel, of which `new` and `delete` are made (CUDA C++ programming guide, dynamic
global memory allocation).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.errors import HardwareTrap
from smemsim.core.ptx.module import Instruction, Operand
from smemsim.core.spec.launches import LOCAL_WINDOW, SHARED_WINDOW
from smemsim.core.spec.traps import ILLEGAL_ADDRESS, LAUNCH_FAILURE
from smemsim.run.engine.traps import thread_name
from smemsim.run.isa.registry import Plain
from smemsim.run.isa.threads.system import parameter, provides, value_at

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker


_WINDOWS = (LOCAL_WINDOW >> 32, SHARED_WINDOW >> 32)


@provides("malloc", 1, 1)
def build_malloc(i: Instruction, c: Linker, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> Plain:
    """`malloc(bytes)`: each thread an allocation of its own, or a null pointer where the heap is full."""
    size, to = parameter(i, c, arguments[0]), parameter(i, c, results[0])

    def run(x: Wave) -> None:
        memory, kernel = x.launch.memory, x.launch.program.name
        for thread in x.threads.tolist():
            address = memory.heap.allocate(value_at(x, thread, size(x, thread), 8), i.line, kernel, memory.heap_array)
            at = to(x, thread)
            x.memories.local[thread, at : at + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)
        x.progress.changes += 1

    return run


@provides("free", 1)
def build_free(i: Instruction, c: Linker, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> Plain:
    """`free(pointer)`: of a null pointer nothing; X001 for what is no allocation's address."""
    pointer = parameter(i, c, arguments[0])

    def run(x: Wave) -> None:
        heap, kernel = x.launch.memory.heap, x.launch.program.name
        for thread in x.threads.tolist():
            address = value_at(x, thread, pointer(x, thread), 8)
            if address and not heap.free(address, i.line, kernel):
                _wrong(x, i, thread, address)
        x.progress.changes += 1

    return run


def _wrong(x: Wave, i: Instruction, thread: int, address: int) -> None:
    """A pointer that malloc did not return, or that was freed: X001, and the kernel ends. A card reads the bytes before
    it: it may go on.
    """
    chunk = x.launch.memory.heap.near(address)
    if chunk is None:
        where, error = "which malloc of a kernel did not give", 0 if address >> 32 in _WINDOWS else ILLEGAL_ADDRESS
    elif chunk.freed and chunk.begin == address:
        where, error = f"{chunk}, which free at line {chunk.freed} of {chunk.freed_by} has given back already", LAUNCH_FAILURE
    else:
        where, error = f"{address - chunk.begin} bytes after the begin of {chunk}", ILLEGAL_ADDRESS
    message = f"free of {thread_name(x, thread)}: {address:#x}, {where}"
    kind = "" if error else "goes on"  # after one of these another free may fail
    x.launch.find("X001", i, message, "free once, and what malloc gave", because="golden/sm_90a/heap", operation=kind, kind=kind)
    if error:
        raise HardwareTrap(message, cuda_error=error)
