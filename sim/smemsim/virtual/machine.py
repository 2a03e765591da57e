"""The interface of the virtual device to `smemsim.Gpu`. It is one place, so that a change of its launches changes
nothing else here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from smemsim.core.machine.global_memory import GlobalMemory, Region
from smemsim.core.machine.stored_taint import Saved
from smemsim.core.ptx.module import Function
from smemsim.core.spec.traps import TIMEOUT
from smemsim.diagnosis.gpu import Gpu
from smemsim.diagnosis.run import Run
from smemsim.run.engine.device import LoadedPtx
from smemsim.run.engine.launch import LaunchConfig, LinkedKernel, RunOptions
from smemsim.virtual.memory import Allocation, DeviceMemory, bytes_at

__all__ = ["Machine", "Parameter", "parameters_of"]


PARAMETERS_BASE = 0x1000_0000_0000  # below HOST_BASE and DEVICE_BASE of memory.py
MOST_UNMAPPED = 64  # arrays whose taint is kept until they are mapped again
BANK_BYTES, MOST_BANKS = 1 << 16, 1 << 28  # a kernel has at most 32,764 bytes of parameters (PTX ISA 9.1 §5.4.1)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A kernel's parameter: its first byte in the parameter bank, and its bytes."""

    offset: int
    size: int


class _HostMemory(GlobalMemory):
    """Global memory that lies in a `DeviceMemory`: what a `Gpu` places itself, such as variables, does so too."""

    def __init__(self, shared: DeviceMemory) -> None:
        super().__init__()
        self.shared = shared
        self.kind = "own"  # of what is placed now
        self.taint.due = []
        self._unmapped: list[Saved] = []  # the taint of arrays of mappings that are being arranged anew
        self._banks = 0

    def place(self, array: np.ndarray, address: int | None = None, *, name: str = "") -> int:
        """Place an array; arguments are those of `GlobalMemory.place`."""
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        allocation = self.shared.allocate(max(raw.size, 1), self.kind)
        self.shared.view(allocation.address, raw.size)[:] = raw
        return self.add(allocation)

    def place_parameters(self, bank: np.ndarray) -> int:
        """Place kernel parameters at an address that is neither an allocation of the device nor memory of the host. A
        program never has this address.
        """
        self._banks += 1
        return GlobalMemory.place(self, bank, PARAMETERS_BASE + self._banks % MOST_BANKS * BANK_BYTES)

    def place_heap(self, size: int) -> int:
        """Place the heap of kernels: memory that the host cannot copy from."""
        return self.add(self.shared.allocate(size, "heap"))

    def add(self, allocation: Allocation) -> int:
        """Make an allocation known to kernels, without a copy."""
        begin = self.bind(
            bytes_at(allocation.place, allocation.size, self.shared if allocation.owner is None else allocation.owner),
            allocation.address,
            name=allocation.name,
        )
        if allocation.is_littered:
            self.declare_garbage(begin)
        if allocation.kind == "mapped" and self._unmapped:
            for saved in self._unmapped:
                self.taint.join(self.find(begin), saved)
        return begin

    def is_hosts_too(self, words: np.ndarray, at: int) -> bool:
        """Can the host use this memory, too? True for pinned, managed and registered memory. torch's "cuda" memory is
        the device's.
        """
        region = next((region for region in self._regions if region.words is words), None)
        found = None if region is None else self.shared.at(region.words_begin + at)
        return found is not None and found.is_on_host and not found.elements[0]

    def are_outputs(self, region: Region) -> bool:
        """Does the program get the values of an array, without a copy? That of memory which it can touch itself."""
        found = self.shared.at(region.begin)
        return found is None or (found.is_on_host and not found.elements[0])

    def free(self, address: int) -> None:
        """Free an array; arguments are those of `GlobalMemory.free`."""
        found = self.shared.at(address)
        if self.taint and found is not None and found.kind == "mapped":
            self._unmapped = [*self._unmapped[-MOST_UNMAPPED:], *self.taint.saved()]
        super().free(address)
        if found is not None and found.kind in ("own", "managed variable"):
            self.shared.free(found)


class Machine:
    """A `Gpu` whose global memory is that of the host's process."""

    def __init__(self, arch: str, shared: DeviceMemory) -> None:
        self.gpu = Gpu(arch)
        self.memory = _HostMemory(shared)
        self.gpu.memory = self.memory

    def bind(self, allocation: Allocation) -> None:
        """Make an allocation known to kernels, without a copy."""
        self.memory.add(allocation)

    def free(self, address: int) -> None:
        """Take an allocation away from kernels."""
        self.memory.free(address)

    def load(self, ptx: str, managed: Iterable[str] = ()) -> LoadedPtx:
        """Load a PTX text, with variables of its own; the host can touch them where some are `managed`. Raises as
        `Gpu.load` does.
        """
        self.memory.kind = "managed variable" if list(managed) else "own"
        try:
            return self.gpu.load(ptx)
        finally:
            self.memory.kind = "own"

    def forget(self, loaded: LoadedPtx) -> None:
        """A module is gone."""
        loaded.unload()

    def set_heap(self, limit: int, *, is_littered: bool) -> None:
        """How many bytes kernels may allocate, and whether these hold garbage."""
        self.memory.heap.limit, self.memory.heap.is_littered = limit, is_littered

    @property
    def has_used_heap(self) -> bool:
        """Has a kernel been launched that allocates?"""
        return self.memory.heap.is_used

    def forget_garbage(self) -> None:
        """A launch has not run, or not as it is: its writes are not known."""
        self.memory.forget_garbage()

    def run(self, kernel: LinkedKernel, arguments: Sequence[bytes], config: dict[str, Any], **options: Any) -> tuple[Run, int]:
        """(the run, the CUDA error that it ended with)."""
        cancel = options.pop("cancel")
        run = self.gpu.run_and_compare(kernel, LaunchConfig(args=tuple(arguments), cancel=cancel, **config), RunOptions(**options))
        return run, TIMEOUT if run.out_of_time or run.interrupted else run.launch.status


def parameters_of(function: Function) -> tuple[Parameter, ...]:
    """The places of a kernel's given parameters in its parameter bank: one after the other, each at its own alignment
    (PTX ISA 9.1 §5.1.6).
    """
    found, end = [], 0
    for p in function.parameters:
        begin = -(-end // max(p.align, 1)) * max(p.align, 1)
        if not p.is_hidden:
            found.append(Parameter(begin, p.size))
        end = begin + p.size
    return tuple(found)
