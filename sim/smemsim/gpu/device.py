"""`Device`: simulated global memory, and launches on it, as they execute: no judgement beyond what the watch sees.

>>> device = Device("sm_90a")
>>> a = device.array(np.arange(4, dtype=np.float32))
>>> a.numpy()
array([0., 1., 2., 3.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.arguments import whole
from smemsim.errors import InputError, Unmodelled
from smemsim.gpu import operations  # noqa: F401  (registers the builders)
from smemsim.gpu.execute import execute
from smemsim.gpu.launch import Launch, check_shape, three
from smemsim.gpu.parameters import pack
from smemsim.gpu.program import Program, link
from smemsim.machine.region import GlobalMemory
from smemsim.ptx.module import Module
from smemsim.ptx.parser import read_module
from smemsim.spec.architectures import architecture

__all__ = ["Device", "DeviceArray"]


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


class Device:
    """Global memory of an architecture ("sm_90a", "sm_100a", "sm_103a"), and the PTX that was loaded."""

    def __init__(self, arch: str = "sm_90a") -> None:
        self.arch = architecture(arch).name
        self.memory = GlobalMemory()
        self._modules: dict[str, Module] = {}
        self._programs: dict[tuple[str, str], Program] = {}
        self._variables: dict[tuple[str, str], int] = {}

    def array(self, array: Any) -> DeviceArray:
        """Put an array into global memory."""
        return DeviceArray(self.memory, np.asarray(array))

    def module(self, ptx: str) -> Module:
        """A PTX text, read."""
        if ptx not in self._modules:
            self._modules[ptx] = read_module(ptx)
        return self._modules[ptx]

    def prepare(
        self,
        ptx: str,
        entry: str,
        *,
        grid: Any = (1, 1, 1),
        block: Any = (1, 1, 1),
        cluster: Any = (1, 1, 1),
        shared_bytes: int = 0,
        args: Sequence[Any] = (),
    ) -> Launch:
        """Everything before the first instruction: what cannot run is refused here, with a sentence."""
        module = self.module(ptx)
        _check_target(module, self.arch)
        if (ptx, entry) not in self._programs:
            self._programs[ptx, entry] = link(module, entry, self.arch)
        program = self._programs[ptx, entry]
        parameters = pack(program.places, args)
        at = self.memory.place(parameters)
        launch = Launch(
            program,
            self.arch,
            self.memory,
            three("grid", grid),
            three("block", block),
            three("cluster", cluster),
            whole("shared_bytes", shared_bytes, minimum=0),
            self._place_variables(ptx, program),
            at,
            self.memory.span(at, len(parameters)),
        )
        check_shape(launch, module.functions[entry].directives)
        return launch

    def launch(self, ptx: str, entry: str, **given: Any) -> Launch:
        """Prepare a launch and execute it; arguments as for `prepare`."""
        launch = self.prepare(ptx, entry, **given)
        execute(launch)
        return launch

    def _place_variables(self, ptx: str, program: Program) -> dict[str, int]:
        """Variables keep their contents from launch to launch, as those of a loaded module do."""
        new = [v for v in program.places.globals if (ptx, v.name) not in self._variables]
        for v in new:
            data = np.frombuffer(v.initial or bytes(max(v.size, 1)), np.uint8)
            self._variables[ptx, v.name] = self.memory.place(data)
        addresses = {v.name: self._variables[ptx, v.name] for v in program.places.globals}
        for v in new:
            for offset, name, addend in v.references:
                if name in program.functions:
                    value = program.functions[name]
                elif name in addresses:
                    value = addresses[name]
                else:
                    raise Unmodelled(
                        f"line {v.line}: {v.name} holds the address of {name}, which is neither a function nor a variable in global memory: not modelled"
                    )
                where = self.memory.span(addresses[v.name] + offset, 8)
                where[:] = np.frombuffer(np.uint64(value + addend).tobytes(), np.uint8)
        return addresses


def _check_target(module: Module, arch: str) -> None:
    target = next((t for t in module.target if t.startswith(("sm_", "compute_"))), "")
    own = target.replace("compute_", "sm_")
    if own[-1:] in ("a", "f") and own != arch:
        family = own.endswith("f") and own[:-2] == arch[:-2]
        if not family and not (own == "sm_100f" and arch == "sm_103a"):
            raise InputError(f"arch = {arch}: the PTX is for {target} alone (.target); make a Gpu({own!r}), or compile for {arch}")
    number = "".join(ch for ch in own if ch.isdigit())
    if number and int(number) > int("".join(ch for ch in arch if ch.isdigit())):
        raise InputError(f"arch = {arch}: the PTX is for {target}, which is newer (.target)")
