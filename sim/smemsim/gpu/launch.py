"""`Gpu`: arrays in simulated global memory, and kernels launched on them.

>>> gpu = Gpu("sm_90a")
>>> a = gpu.array(np.arange(4, dtype=np.float32))
>>> a.numpy()
array([0., 1., 2., 3.], dtype=float32)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smemsim.arguments import shown, whole
from smemsim.errors import InputError, SmemsimError
from smemsim.gpu import operations
from smemsim.gpu.events import Event
from smemsim.gpu.parameters import pack
from smemsim.gpu.program import Program, link
from smemsim.gpu.schedule import run_wave
from smemsim.gpu.wave import Wave
from smemsim.machine.region import GlobalMemory
from smemsim.ptx.module import Module
from smemsim.ptx.parser import read_module
from smemsim.spec.architectures import architecture

__all__ = ["DeviceArray", "Gpu", "Launch", "Run"]

WAVE_THREADS = 4096  # threads that are executed together, where registers do not take too much room
WAVE_BYTES = 1 << 28


class DeviceArray:
    """An array in simulated global memory: `address` is its first byte, `numpy()` its contents now."""

    def __init__(self, memory: GlobalMemory, array: np.ndarray) -> None:
        self.dtype, self.shape = array.dtype, array.shape
        self.address = memory.place(array)
        self._bytes = memory.span(self.address, array.nbytes) if array.nbytes else np.zeros(0, np.uint8)

    def numpy(self) -> np.ndarray:
        """A copy of the array as it is now."""
        return self._bytes.copy().view(self.dtype).reshape(self.shape)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype} {self.shape} at {self.address:#x}>"


@dataclasses.dataclass(eq=False)
class Launch:
    """One launch: the program, the grid, and where its parameters and variables are."""

    program: Program
    arch: str
    memory: GlobalMemory
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    addresses: dict[str, int]
    parameter_address: int
    parameters: np.ndarray
    waves: list[Wave] = dataclasses.field(default_factory=list)
    findings: dict[tuple[str, int], tuple[Any, str, str, str]] = dataclasses.field(default_factory=dict)
    output: list[str] = dataclasses.field(default_factory=list)  # of printf
    events: list[Event] = dataclasses.field(default_factory=list)  # transfers and matrix instructions, as they were executed
    judge: Callable[[Event, Any], None] | None = None  # called with each event and what the machine says of it

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def cluster_size(self) -> int:
        """CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def window_bytes(self) -> int:
        """Bytes of a CTA's shared window."""
        machine = architecture(self.arch)
        asked = self.program.places.dynamic_begin - machine.shared_begin + self.shared_bytes
        return -(-asked // machine.shared_granularity) * machine.shared_granularity

    def cta(self, cluster: int, rank: int) -> tuple[int, tuple[int, int, int]]:
        """(number in the grid, ctaid) of a CTA by its cluster's number and its rank there."""
        counts = [g // c for g, c in zip(self.grid, self.cluster, strict=True)]
        at = (cluster % counts[0], cluster // counts[0] % counts[1], cluster // (counts[0] * counts[1]))
        within = (rank % self.cluster[0], rank // self.cluster[0] % self.cluster[1], rank // (self.cluster[0] * self.cluster[1]))
        x, y, z = (a * c + w for a, c, w in zip(at, self.cluster, within, strict=True))
        return x + self.grid[0] * (y + self.grid[1] * z), (x, y, z)

    def find(self, code: str, i: Any, message: str, repair: str = "", *, because: str = "") -> None:
        """Note a finding at an instruction; the same code at the same line is noted once."""
        self.findings.setdefault((code, i.line), (i, message, repair, because))

    def exited(self, wave: Wave, threads: np.ndarray) -> None:
        """Threads are done: barriers no longer wait for them."""
        for hook in operations.ON_EXIT:
            hook(wave, threads)

    def others_wait(self, wave: Wave) -> bool:
        """Could another wave, running or not yet begun, change what this one polls?"""
        return len(self.waves) > 1


class Run:
    """What a launch did: `findings`, and `output` (printf)."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.findings: list[Any] = []

    @property
    def output(self) -> list[str]:
        """What printf wrote, an entry for every thread that came to it."""
        return self.launch.output


class Gpu:
    """A simulated GPU of an architecture ("sm_90a", "sm_100a", "sm_103a") with its global memory."""

    def __init__(self, arch: str = "sm_90a") -> None:
        self.arch = architecture(arch).name
        self.memory = GlobalMemory()
        self._modules: dict[str, Module] = {}

    def array(self, array: Any) -> DeviceArray:
        """Put an array into global memory."""
        return DeviceArray(self.memory, np.asarray(array))

    def launch(
        self,
        ptx: str,
        entry: str,
        *,
        grid: Sequence[int] = (1, 1, 1),
        block: Sequence[int] = (1, 1, 1),
        cluster: Sequence[int] = (1, 1, 1),
        shared_bytes: int = 0,
        args: Sequence[Any] = (),
    ) -> Run:
        """Run an entry of a PTX text over a grid."""
        if ptx not in self._modules:
            self._modules[ptx] = read_module(ptx)
        module = self._modules[ptx]
        program = link(module, entry, self.arch)
        launch = self._prepare(module, program, grid, block, cluster, shared_bytes, args)
        run = Run(launch)
        per_cluster = launch.cluster_size * (-(-launch.threads // 32) * 32)
        room = max(1, WAVE_BYTES // (8 * max(1, len(program.registers)) * per_cluster))
        at_once = max(1, min(WAVE_THREADS // per_cluster, room))
        clusters = launch.ctas // launch.cluster_size
        with np.errstate(all="ignore"):
            for first in range(0, clusters, at_once):
                wave = Wave(launch, first, min(at_once, clusters - first))
                launch.waves.append(wave)
                if not run_wave(wave):
                    raise SmemsimError("hang")
                launch.waves.remove(wave)
        return run

    def _prepare(
        self, module: Module, program: Program, grid: Any, block: Any, cluster: Any, shared_bytes: Any, args: Sequence[Any]
    ) -> Launch:
        shape = {name: _three(name, value) for name, value in (("grid", grid), ("block", block), ("cluster", cluster))}
        addresses = {v.name: self._variable(v) for v in program.places.globals}
        parameters = pack(program.places, args)
        at = self.memory.place(parameters)
        return Launch(
            program,
            self.arch,
            self.memory,
            shape["grid"],
            shape["block"],
            shape["cluster"],
            whole("shared_bytes", shared_bytes, minimum=0),
            addresses,
            at,
            self.memory.span(at, len(parameters)),
        )

    def _variable(self, v: Any) -> int:
        data = np.frombuffer(v.initial or bytes(v.size), np.uint8)
        return self.memory.place(data if len(data) else np.zeros(1, np.uint8))


def _three(name: str, value: Any) -> tuple[int, int, int]:
    values = (value,) if isinstance(value, int) else tuple(value)
    if not 1 <= len(values) <= 3:
        raise InputError(f"{name} = {shown(value)}: needs one to three numbers")
    x, y, z = (whole(name, n, minimum=1) for n in (*values, 1, 1)[:3])
    return x, y, z
