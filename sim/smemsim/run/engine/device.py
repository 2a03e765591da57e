"""`Card`: what a GPU can do, simulated or real. `Device`: the simulated one; it reports what the sanitizer finds.

>>> device = Device("sm_90a")
>>> a = device.array(np.arange(4, dtype=np.float32))
>>> a.numpy()
array([0., 1., 2., 3.], dtype=float32)
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any, Protocol

import numpy as np

from smemsim.base.arguments import shown, suggestion, whole
from smemsim.base.budget import ask
from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.machine.global_memory import GlobalMemory
from smemsim.core.ptx.module import Module, Variable
from smemsim.core.spec.architectures import ARCHITECTURES, MACHINES, any_architecture
from smemsim.core.spec.assumptions import in_force
from smemsim.core.spec.ptx import CONSTANT_BYTES, PARAMETER_BYTES
from smemsim.core.spec.targets import FIRST_VERSIONS, how_it_runs, target_number
from smemsim.core.words.tensor_map import TensorMap
from smemsim.run.engine.arrays import MOST_BYTES, DeviceArray, as_numpy, converted, element_strides, pack, shape_of, storage
from smemsim.run.engine.grid import execute
from smemsim.run.engine.launch import EVERY, Launch, LaunchConfig, LinkedKernel, LoadedKernel, RunOptions, check_given, check_shape
from smemsim.run.engine.schedule import seeds_of
from smemsim.run.lower.inline import FunctionAddresses, interface
from smemsim.run.lower.program import Program, linked, module_of

__all__ = ["Card", "Device", "LoadedModule", "LoadedPtx", "entry_of", "target_of"]


# ---- What a GPU can do, in the driver's terms


class LoadedModule(Protocol):
    """A module that a card has loaded, with memory for its variables: what `cuModuleLoadData` gives."""

    def kernel(self, name: str | None = None) -> LoadedKernel:
        """A kernel of the module (`cuModuleGetFunction`); the only one where none is named. InputError where there is
        no such kernel.
        """

    def variable(self, name: str) -> tuple[int, int]:
        """(address, bytes) of a variable in global or constant memory (`cuModuleGetGlobal`). InputError where there
        is none.
        """


class Card(Protocol):
    """A GPU: `smemsim.Gpu` is a simulated one, `smemsim.testing.recorder.Gpu` a real one. The same description runs
    on either.

    All addresses are bytes in global memory. Raises InputError for what no launch could be, a real card also the
    driver's errors.
    """

    arch: str

    def allocate(self, size: int, fill: int | None = None) -> int:
        """Allocate `size` bytes of global memory; returns the address, a multiple of 256. `fill` is the value of each
        byte, if given.
        """

    def free(self, address: int) -> None:
        """Give back what `allocate` gave."""

    def put(self, address: int, data: np.ndarray) -> None:
        """Copy an array's bytes to the card."""

    def get(self, address: int, size: int) -> np.ndarray:
        """Copy bytes from the card, as uint8."""

    def load(self, image: bytes | str) -> LoadedModule:
        """Load a module: PTX text, which every card takes, or machine code, which a real one does."""

    def encode(self, tm: TensorMap, global_address: int) -> bytes:
        """The 128 bytes of a map's arguments over another global address."""

    def execute(self, kernel: LoadedKernel, config: LaunchConfig) -> int:
        """Launch a kernel and wait: 0, or the CUDA error that it ended with. The arguments are the bytes of each
        parameter.
        """


# ---- The simulated one


class LoadedPtx:
    """A PTX module in a simulated card's memory: its variables keep their contents from launch to launch. `addresses`
    are where they lie.
    """

    def __init__(self, module: Module, arch: str, memory: GlobalMemory) -> None:
        self.module, self.arch, self.memory = module, arch, memory
        self.addresses: dict[str, int] = {}
        self._kernels: dict[tuple[str, str], LinkedKernel] = {}
        _check_target(module, arch)
        _check_sizes(module)
        self._place([v for v in module.variables.values() if v.space in ("global", "const") and not v.is_extern])

    def kernel(self, name: str | None = None) -> LinkedKernel:
        """A kernel that can be launched. Raises Unmodelled with a line for every instruction that is not modelled,
        InputError without such a kernel.
        """
        entry = entry_of(self.module, name)
        key = entry, in_force()
        if key not in self._kernels:
            program = linked(self.module, entry, self.arch)
            self._place([v for v in program.places.globals if v.name not in self.addresses], program)
            self._kernels[key] = LinkedKernel.of(program, self.module.text, self.module.functions[entry].directives, self.addresses)
        return self._kernels[key]

    def variable(self, name: str) -> tuple[int, int]:
        """(address, bytes) of a variable of the file in global or constant memory."""
        if name not in self.addresses:
            raise InputError(f"variable {shown(name)}: the PTX has no such variable{suggestion(name, self.addresses)}")
        return self.addresses[name], self.module.variables[name].size

    def unload(self) -> None:
        """Give back the memory of the module's variables."""
        for address in self.addresses.values():
            self.memory.free(address)
        self.addresses.clear()

    def _place(self, variables: list[Variable], program: Program | None = None) -> None:
        for v in variables:
            if v.size > MOST_BYTES:
                raise InputError(f"line {v.line}: {v.name} has {v.size} bytes; smemsim takes {MOST_BYTES} at most")
        ask("the variables of the PTX in global memory", sum(v.size for v in variables))
        for v in variables:
            data = np.frombuffer(v.initial, np.uint8) if v.initial else np.zeros(max(v.size, 1), np.uint8)
            self.addresses[v.name] = self.memory.place(data)
        values = {**self.addresses, **(FunctionAddresses(self.module) if program is None else program.functions)}
        for v in variables:
            for offset, name, addend in v.references:
                if name not in values:
                    raise Unmodelled(
                        f"{v.name} holds the address of {name}, which is neither a function nor a variable in global memory: not modelled",
                        line=v.line,
                    )
                where = self.memory.span(self.addresses[v.name] + offset, 8)
                where[:] = np.frombuffer(np.uint64(values[name] + addend).tobytes(), np.uint8)


class Device:
    """A simulated card of an architecture ("sm_90a", "sm_120a" …): its global memory, and the PTX that was loaded."""

    def __init__(self, arch: str = "sm_90a") -> None:
        self.arch = any_architecture(arch).name
        self.memory = GlobalMemory()
        self._loaded: dict[str, LoadedPtx] = {}  # by its text

    def array(self, array: Any, dtype: Any = None, *, name: str = "", address: int | None = None) -> DeviceArray:
        """Copy an array into global memory: an array of numpy, ml_dtypes, PyTorch or CuPy, or any object with numpy's
        array protocol or DLPack.

        With `dtype` it is converted first, to a type of numpy, or an element type by name ("bf16" ...). The strides
        stay, in elements, as PyTorch keeps them when it moves a tensor to a GPU. So `gpu.array(x.T)` is a transposed
        view there too (`.stride()`). Other byte orders become the byte order of this machine.

        The name in findings is `name`. Without it, findings use the parameter that points there. The address of the
        first byte is `address`. Without it, a free place is taken.

        Raises InputError if the object is no array of plain numbers, or if the address is not free.
        """
        raw = as_numpy(_name(name) or "array", array)
        if dtype is None:
            return DeviceArray(self.memory, raw, name, address=address)
        return DeviceArray(self.memory, converted(raw, dtype), name, steps=element_strides(name or "array", raw), address=address)

    def zeros(self, shape: Any, dtype: Any = np.float32, *, name: str = "") -> DeviceArray:
        """A new array of zeros, for example for a result. `dtype` and `name` are those of `array`.

        >>> Device().zeros((2, 3), "f16").numpy().shape
        (2, 3)
        """
        try:
            extents, kind = shape_of(shape), storage(dtype)
            ask(f"shape = {shown(shape)}", 2 * math.prod(extents) * kind.itemsize)
            return DeviceArray(self.memory, np.zeros(extents, kind), _name(name))
        except MemoryError:
            raise InputError(f"shape = {shown(shape)}: more bytes than this machine has room for") from None

    def empty(self, shape: Any, dtype: Any = np.float32, *, name: str = "") -> DeviceArray:
        """A new array of uninitialised memory, like that of cudaMalloc or torch.empty. `dtype` and `name` are those
        of `array`.

        Its bytes are 0xff: NaN, or -1. A kernel that uses an element before a write gets the finding R507. `zeros`
        are initialised.

        >>> Device().empty(2, np.int32).numpy().tolist()
        [-1, -1]
        """
        array = self.zeros(shape, dtype, name=name)
        if array.nbytes:
            self.memory.span(array.address, array.nbytes)[:] = 0xFF
            self.memory.declare_blank(array.address)
        return array

    def allocate(self, size: int, fill: int | None = None) -> int:
        """Allocate `size` bytes of global memory. Each byte is `fill`, or 0. Returns the address, a multiple of 256."""
        data = np.full(whole("size", size, minimum=0), 0 if fill is None else whole("fill", fill, minimum=0, most_bits=8), np.uint8)
        return self.memory.place(data)

    def free(self, address: int) -> None:
        """Free what `allocate` returned. InputError if nothing begins at the address."""
        self.memory.free(address)

    def put(self, address: int, data: np.ndarray) -> None:
        """Copy an array's bytes to an address. InputError unless one allocation holds them all."""
        raw = np.ascontiguousarray(as_numpy("data", data)).reshape(-1).view(np.uint8)
        if raw.size:
            self.memory.span(address, raw.size)[:] = raw
            self.memory.wrote(address, address + raw.size)

    def get(self, address: int, size: int) -> np.ndarray:
        """Copy `size` bytes from an address, as uint8. InputError unless one allocation holds them all."""
        return self.memory.span(address, size).copy() if size else np.zeros(0, np.uint8)

    def encode(self, tm: TensorMap, global_address: int) -> bytes:
        """The 128 bytes of a tensor map with these arguments and another global address."""
        if not isinstance(tm, TensorMap):
            raise InputError(f"tm = {shown(tm)}: needs a TensorMap")
        return bytes(getattr(TensorMap, tm.call)(**{**tm.arguments, "global_address": global_address}, arch=self.arch))

    def load(self, image: bytes | str | Module) -> LoadedPtx:
        """Load a PTX text again. Each load has variables of its own, also if the text was loaded before."""
        text = image.rstrip(b"\0").decode(errors="replace") if isinstance(image, bytes) else image
        return LoadedPtx(module_of(text), self.arch, self.memory)

    def kernel(self, ptx: str | Module | LinkedKernel, entry: str | None = None) -> LinkedKernel:
        """A kernel of a PTX text or module. `entry` may be left out if the PTX has one entry. A text is loaded once."""
        if isinstance(ptx, LinkedKernel):
            return ptx
        module = module_of(ptx)
        if module.text not in self._loaded:
            self._loaded[module.text] = LoadedPtx(module, self.arch, self.memory)
        return self._loaded[module.text].kernel(entry)

    def prepare(self, ptx: str | Module | LinkedKernel, config: LaunchConfig, options: RunOptions | None = None) -> Launch:
        """Everything before the first instruction. A launch that cannot run is refused here, with a sentence."""
        check_given(config, options)
        kernel = self.kernel(ptx, config.entry)
        config = config.of(kernel)
        if options is not None and options.schedule is not None:
            kernel = _in_small_blocks(kernel, options.schedule)
        if config.cancel == EVERY:
            raise InputError(f"cancel = {EVERY!r}: is several launches, and one is asked for")
        check_shape(config, kernel, self.arch)
        if kernel.program.allocates:
            self.memory.heap.begin()
        parameters = pack(kernel.program.places, config.args, self.memory)
        at = self.memory.place_parameters(parameters)
        launch = Launch(
            kernel=kernel, config=config, options=options or RunOptions(), memory=self.memory, parameter_address=at,
            parameters=self.memory.span(at, len(parameters)),
        )  # fmt: skip
        launch.own(at)
        return launch

    def execute(self, kernel: LoadedKernel, config: LaunchConfig) -> int:
        """Launch a kernel. Returns 0, or the CUDA error that it ended with."""
        if not isinstance(kernel, LinkedKernel):
            raise InputError(f"kernel = {shown(kernel)}: was loaded by another card; load its PTX into this one")
        launch = self.prepare(kernel, config)
        execute(launch, sanitizer=False)
        return launch.status


def _in_small_blocks(kernel: LinkedKernel, schedule: int | str) -> LinkedKernel:
    """The same kernel with a block for every access to memory, so that a schedule can let others run
    between any two.
    """
    if seeds_of(schedule) is not None:
        raise InputError(f"schedule = {shown(schedule)}: is several launches, and one is asked for")
    return dataclasses.replace(kernel, program=linked(module_of(kernel.text), kernel.name, kernel.program.arch, in_small_blocks=True))


def relinked(kernel: LinkedKernel) -> LinkedKernel:
    """The same kernel, linked by the rules that hold now: what is assumed may have changed since it was loaded."""
    return dataclasses.replace(kernel, program=linked(module_of(kernel.text), kernel.name, kernel.program.arch))


def entry_of(module: Module, entry: Any = None) -> str:
    """The name of the kernel to launch; the only one if `entry` names none. InputError lists the names."""
    known = [f.name for f in module.entries]
    if entry is None and len(known) == 1:
        return known[0]
    if isinstance(entry, str) and entry in known:
        return entry
    said = (
        "entry is missing: name one kernel"
        if entry is None
        else f"entry = {shown(entry)}: there is no such kernel{suggestion(entry, known)}"
    )
    raise InputError(f"{said}; the PTX has {', '.join(known) or 'no .entry at all'}")


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise InputError(f"name = {shown(name)}: needs a text")
    return name


def target_of(module: Module) -> str:
    """The architecture to run a PTX file on: that of its .target, for an older or a more general one the oldest that
    smemsim knows.

    >>> from smemsim.core.ptx.parser import read_module
    >>> target_of(read_module(".version 8.8 .target sm_100a .address_size 64"))
    'sm_100a'
    """
    own = module.own_target
    if own in ARCHITECTURES or own[-1:] in ("a", "f"):
        return own[:-1] + "a" if own[-1:] == "f" and own[:-1] + "a" in MACHINES else own
    if own + "a" in MACHINES:
        return own + "a"
    return next((name for name in ARCHITECTURES if target_number(own) <= target_number(name)), own)


def _check_target(module: Module, arch: str) -> None:
    own = module.own_target
    if not re.fullmatch(r"sm_\d+[af]?", own):
        raise InputError(f".target {', '.join(module.target)}: names no architecture; sm_90a, sm_100a ... are needed")
    if module.address_size != 64:
        raise InputError(f".address_size {module.address_size}: sm_90 and higher have addresses of 64 bits alone; ptxas refuses it")
    version = _version(module)
    if version < (first := FIRST_VERSIONS.get(own, (0, 0))):
        raise InputError(
            f".version {module.version}: knows no .target {own}: it needs .version {first[0]}.{first[1]} or later; ptxas refuses it"
        )
    if how_it_runs(own, arch):
        return
    if own[-1:] in ("a", "f"):
        raise InputError(f"arch = {arch}: the PTX is for {own} only (.target); choose {own} (--arch, Gpu({own!r})), or compile for {arch}")
    raise InputError(f"arch = {arch}: the PTX is for {own}, which is newer (.target)")


def _check_sizes(module: Module) -> None:
    constant = sum(v.size for v in module.variables.values() if v.space == "const" and not v.is_extern)
    if constant > CONSTANT_BYTES:
        raise InputError(f"the .const variables have {constant} bytes; {CONSTANT_BYTES} are there, and ptxas refuses more")
    most = max((since, size) for since, size in PARAMETER_BYTES.items() if since <= _version(module))[1]
    for entry in module.entries:
        if (size := interface((), entry.parameters)[2]) > most:
            raise InputError(
                f"line {entry.line}: the parameters of {entry.name} take {size} bytes; {most} are possible under .version {module.version}"
            )


def _version(module: Module) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", module.version)[:2]))
