"""`Device`: simulated global memory, and launches on it, as they execute: no judgement beyond what the watch sees.

>>> device = Device("sm_90a")
>>> a = device.array(np.arange(4, dtype=np.float32))
>>> a.numpy()
array([0., 1., 2., 3.], dtype=float32)
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.arguments import shown, suggestion, whole
from smemsim.budget import ask
from smemsim.errors import InputError, Unmodelled
from smemsim.machine.region import GlobalMemory
from smemsim.program import operations  # noqa: F401  (registers the builders)
from smemsim.program.arrays import MOST_BYTES, DeviceArray, as_numpy, converted, element_strides, pack, shape_of, storage
from smemsim.program.execute import execute
from smemsim.program.launch import CANCEL, Launch, check_shape, three
from smemsim.program.linking.program import Program, link
from smemsim.ptx.module import Module
from smemsim.ptx.parser import read_module
from smemsim.spec.architectures import ARCHITECTURES, architecture
from smemsim.spec.launches import LAUNCH_LIMITS
from smemsim.spec.targets import target_number

__all__ = ["Device", "target_of"]


class Device:
    """Global memory of an architecture ("sm_90a", "sm_100a", "sm_103a"), and the PTX that was loaded."""

    def __init__(self, arch: str = "sm_90a") -> None:
        self.arch = architecture(arch).name
        self.memory = GlobalMemory()
        self._modules: dict[str, Module] = {}
        self._programs: dict[tuple[str, str], Program] = {}
        self._variables: dict[tuple[str, str], int] = {}

    def array(self, array: Any, dtype: Any = None, *, name: str = "", address: int | None = None) -> DeviceArray:
        """Put a copy of an array into global memory: of numpy, ml_dtypes, PyTorch, CuPy, or whatever knows numpy's array protocol or DLPack.

        `dtype` converts it first: a type of numpy, or an element type by name ("bf16" ...). It keeps its strides, in elements, as a tensor that
        PyTorch moves to a GPU does: `gpu.array(x.T)` is a transposed view there too, `.stride()` tells. Bytes of other orders become this machine's.
        `name` is how findings call it; without one that is the parameter which points there. `address` is where its first byte lies, a free place
        without it. InputError for what is no array of plain numbers, and where something lies at the address.
        """
        found = as_numpy(name or "array", array)
        if dtype is None:
            return DeviceArray(self.memory, found, _name(name), address=address)
        return DeviceArray(self.memory, converted(found, dtype), _name(name), steps=element_strides(name or "array", found), address=address)

    def zeros(self, shape: Any, dtype: Any = np.float32, *, name: str = "") -> DeviceArray:
        """A new array of zeros, such as for a kernel's result; `dtype` and `name` as for `array`.

        >>> Device().zeros((2, 3), "f16").numpy().shape
        (2, 3)
        """
        try:
            extents, kind = shape_of(shape), storage(dtype)
            ask(f"shape = {shown(shape)}", 2 * math.prod(extents) * kind.itemsize)
            return DeviceArray(self.memory, np.zeros(extents, kind), _name(name))
        except MemoryError:
            raise InputError(f"shape = {shown(shape)}: more bytes than this machine has room for") from None

    def module(self, ptx: str, name: str = "<ptx>") -> Module:
        """A PTX text, read; `name` is how messages call it."""
        if isinstance(ptx, str) and len(ptx) < 1024 and ptx.strip().endswith(".ptx"):
            raise InputError(f"ptx = {shown(ptx)}: the name of a file; give its text: open({ptx.strip()!r}).read()")
        if not isinstance(ptx, str):
            raise InputError(f"ptx = {shown(ptx)}: needs the text of a PTX file, a str")
        if ptx not in self._modules:
            self._modules[ptx] = read_module(ptx, name=name)
        return self._modules[ptx]

    @staticmethod
    def entry(module: Module, entry: Any = None) -> str:
        """The name of the kernel that is meant; the only one where none is named. InputError says which there are."""
        known = [f.name for f in module.entries]
        if entry is None and len(known) == 1:
            return known[0]
        if isinstance(entry, str) and entry in known:
            return entry
        said = (
            "entry: which kernel is not said"
            if entry is None
            else f"entry = {shown(entry)}: there is no such kernel{suggestion(entry, known)}"
        )
        raise InputError(f"{said}; the PTX has {', '.join(known) or 'no .entry at all'}")

    def prepare(
        self,
        ptx: str,
        entry: str | None = None,
        *,
        grid: Any = (1, 1, 1),
        block: Any = (1, 1, 1),
        cluster: Any = (1, 1, 1),
        shared_bytes: int = 0,
        args: Sequence[Any] = (),
        cancel: str = "resident",
    ) -> Launch:
        """Everything before the first instruction: what cannot run is refused here, with a sentence. `entry` may be left out where there is one."""
        module = self.module(ptx)
        _check_target(module, self.arch)
        entry = self.entry(module, entry)
        if (ptx, entry) not in self._programs:
            self._programs[ptx, entry] = link(module, entry, self.arch)
        program = self._programs[ptx, entry]
        if program.places.parameter_bytes > LAUNCH_LIMITS.parameter_bytes:
            raise InputError(
                f"{entry} has {program.places.parameter_bytes} B of parameters; a kernel takes {LAUNCH_LIMITS.parameter_bytes} B at most "
                f"({LAUNCH_LIMITS.source})"
            )
        parameters = pack(program.places, args, self.memory)
        at = self.memory.place(parameters)
        launch = Launch(
            ptx=ptx, arch=self.arch, grid=three("grid", grid), block=three("block", block), cluster=three("cluster", cluster),
            shared_bytes=whole("shared_bytes", shared_bytes, minimum=0), addresses=self._place_variables(ptx, program), parameter_address=at,
            program=program, memory=self.memory, parameters=self.memory.span(at, len(parameters)), cancel=_cancel(cancel),
        )  # fmt: skip
        check_shape(launch, module.functions[entry].directives)
        return launch

    def launch(self, ptx: str, entry: str | None = None, **given: Any) -> Launch:
        """Prepare a launch and execute it; arguments as for `prepare`."""
        launch = self.prepare(ptx, entry, **given)
        execute(launch)
        return launch

    def _place_variables(self, ptx: str, program: Program) -> dict[str, int]:
        """Variables keep their contents from launch to launch, as those of a loaded module do."""
        new = [v for v in program.places.globals if (ptx, v.name) not in self._variables]
        for v in new:
            if v.size > MOST_BYTES:
                raise InputError(f"line {v.line}: {v.name} has {v.size} bytes; smemsim takes {MOST_BYTES} at most")
        ask("the variables of the PTX in global memory", sum(v.size for v in new))
        for v in new:
            data = np.frombuffer(v.initial, np.uint8) if v.initial else np.zeros(max(v.size, 1), np.uint8)
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


def _cancel(cancel: Any) -> str:
    if cancel not in CANCEL:
        raise InputError(f"cancel = {shown(cancel)}: needs one of {', '.join(CANCEL)}{suggestion(cancel, CANCEL)}")
    return str(cancel)


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise InputError(f"name = {shown(name)}: needs a text")
    return name


def target_of(module: Module) -> str:
    """The architecture to run a PTX file on: that of its .target, for an older or a more general one the oldest that smemsim knows.

    >>> target_of(read_module(".version 8.8 .target sm_100a .address_size 64"))
    'sm_100a'
    """
    own = module.own_target
    if own in ARCHITECTURES or own[-1:] in ("a", "f"):
        return {"sm_100f": "sm_100a", "sm_103f": "sm_103a"}.get(own, own)
    return next((name for name in ARCHITECTURES if target_number(own) <= target_number(name)), own)


def _check_target(module: Module, arch: str) -> None:
    own = module.own_target
    if not re.fullmatch(r"sm_\d+[af]?", own):
        raise InputError(f".target {', '.join(module.target)}: names no architecture; sm_90a, sm_100a ... are needed")
    if own[-1:] in ("a", "f") and own != arch:
        family = own.endswith("f") and own[:-2] == arch[:-2]
        if not family and not (own == "sm_100f" and arch == "sm_103a"):
            raise InputError(f"arch = {arch}: the PTX is for {own} alone (.target); make a Gpu({own!r}), or compile for {arch}")
    if target_number(own) > target_number(arch):
        raise InputError(f"arch = {arch}: the PTX is for {own}, which is newer (.target)")
