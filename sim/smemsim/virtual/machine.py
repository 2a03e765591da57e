"""What the virtual device asks of `smemsim.Gpu`: one place, so that a change of its launches changes nothing else here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from smemsim.judge.gpu import Gpu
from smemsim.judge.run import Run
from smemsim.machine.region import Region
from smemsim.program.linking.program import Program, link
from smemsim.ptx.module import Function, Module
from smemsim.spec.architectures import architecture
from smemsim.spec.traps import ASSERTION, ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, LAUNCH_FAILURE, MISALIGNED_ADDRESS
from smemsim.virtual.memory import LINE, Allocation, bytes_at

__all__ = ["LAUNCH_TIMEOUT", "Machine", "Parameter", "parameters_of"]


LAUNCH_TIMEOUT = 702  # CUDA driver API, CUDA_ERROR_LAUNCH_TIMEOUT: what a card that draws a screen says of kernels without end
OWN_ADDRESSES = 0x2800_0000_0000  # where the parameters of launches lie: between the ranges of smemsim.virtual.memory
_ERRORS = {"X001": ILLEGAL_ADDRESS, "X002": MISALIGNED_ADDRESS, "X006": LAUNCH_TIMEOUT}


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A kernel's parameter: its first byte in the parameter bank, and its bytes."""

    offset: int
    size: int


class Machine:
    """A `Gpu` whose global memory is that of the host's process."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.gpu = Gpu(arch)
        self.gpu.memory._next = OWN_ADDRESSES

    def bind(self, allocation: Allocation) -> None:
        """Make an allocation known to kernels, without a copy."""
        begin = allocation.address - allocation.address % LINE
        shift = allocation.address - begin
        words = bytes_at(allocation.place - shift, -(-(shift + allocation.size) // LINE) * LINE).view(np.uint64)
        data = words.view(np.uint8)[shift : shift + allocation.size]
        self.gpu.memory._regions.append(Region(allocation.address, data, words, begin, allocation.name))
        self.gpu.memory._table = None

    def free(self, address: int) -> None:
        """Take an allocation away from kernels."""
        self._drop({address})

    def _drop(self, begins: set[int]) -> None:
        self.gpu.memory._regions = [r for r in self.gpu.memory._regions if r.begin not in begins]
        self.gpu.memory._table = None
        self.gpu._programs.clear()  # linked programs remember the arrays that they found last

    def read(self, ptx: str) -> Module:
        """A PTX text, read. Raises as `Gpu.module` does."""
        return self.gpu.module(ptx)

    def place(self, ptx: str, name: str, address: int) -> None:
        """A variable of a module lies at an address."""
        self.gpu._variables[ptx, name] = address

    def forget(self, ptx: str) -> None:
        """A module is gone."""
        for known in (self.gpu._programs, self.gpu._variables):
            for key in [key for key in known if key[0] == ptx]:
                del known[key]
        self.gpu._modules.pop(ptx, None)

    def program(self, ptx: str, name: str) -> Program:
        """A kernel, linked. Raises InputError and Unmodelled as `Gpu.launch` does."""
        if (ptx, name) not in self.gpu._programs:
            self.gpu._programs[ptx, name] = link(self.gpu.module(ptx), name, self.arch)
        return self.gpu._programs[ptx, name]

    def static_shared(self, ptx: str, name: str) -> int:
        """Bytes of shared memory that a kernel declares."""
        return self.program(ptx, name).places.static_end - architecture(self.arch).shared_begin

    def local_bytes(self, ptx: str, name: str) -> int:
        """Bytes of local memory of a thread."""
        return self.program(ptx, name).places.local_bytes

    def launch(
        self, ptx: str, entry: str, arguments: Iterable[bytes], grid: tuple[int, ...], block: tuple[int, ...], cluster: tuple[int, ...],
        shared_bytes: int, **options: Any,
    ) -> tuple[Run, int]:  # fmt: skip
        """(the run, the CUDA error that it ended with)."""
        before = {r.begin for r in self.gpu.memory._regions}
        try:
            run = self.gpu.launch(
                ptx, entry, grid=grid, block=block, cluster=cluster, shared_bytes=shared_bytes, args=list(arguments), **options
            )
            return run, _error_of(run)
        finally:
            kept = before | set(self.gpu._variables.values())
            self.gpu.memory._regions = [r for r in self.gpu.memory._regions if r.begin in kept]
            self.gpu.memory._table = None


def parameters_of(function: Function) -> tuple[Parameter, ...]:
    """Where the parameters of a kernel lie in its parameter bank: one behind the other, each at its own alignment (PTX ISA 5.1.6)."""
    found, end = [], 0
    for p in function.parameters:
        begin = -(-end // max(p.align, 1)) * max(p.align, 1)
        found.append(Parameter(begin, p.size))
        end = begin + p.size
    return tuple(found)


def _error_of(run: Run) -> int:
    if run.out_of_time or run.interrupted:
        return LAUNCH_TIMEOUT
    trap = next((f for f in run.launch.findings.values() if f.ends), None)
    if trap is None or run.ctas == run.launch.ctas:
        return 0
    if trap.code == "X013":
        return LAUNCH_FAILURE if trap.instruction.op == "trap" else ASSERTION
    return _ERRORS.get(trap.code, ILLEGAL_INSTRUCTION)
