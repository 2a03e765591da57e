"""What is recorded of a kernel: the launch as the user describes it, and what came of it. Nothing here needs a GPU."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smemsim.arguments import shown, whole, wholes
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.descriptors.tensor_map.bits import raw_bytes
from smemsim.errors import InputError
from smemsim.spec.architectures import ARCHITECTURES
from smemsim.spec.traps import ILLEGAL_ADDRESS
from smemsim.traces.format import write_suite
from smemsim.traces.kinds.smem_dump import STEPS, TENSOR_FLAGS, WIDTH

__all__ = ["DUMP", "Kernel", "Launch", "MapOf", "Recorded", "Step", "suite_arrays", "write_recorded"]

DUMP = "<dump>"  # the argument that is the address of the buffer to which the kernel copies its shared memory
ARGUMENTS = {"map": 0, "tensor": 1, "dump": 2, "value": 3}  # column 0 of `arguments`
MOST_DUMP = max(machine.shared_end for machine in ARCHITECTURES.values())


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel: a cubin, fatbin or PTX text, the entry's name, and where it came from."""

    image: bytes = dataclasses.field(repr=False)
    name: str
    compiler: str = ""
    source: str = dataclasses.field(default="", repr=False)

    @classmethod
    def of_file(cls, path: str | pathlib.Path, name: str) -> Kernel:
        """A kernel of a file. InputError where it cannot be read."""
        try:
            return cls(pathlib.Path(path).read_bytes(), name)
        except OSError as e:
            raise InputError(f"{path}: {e.strerror or e}; needs a cubin, a fatbin or PTX") from None


@dataclasses.dataclass(frozen=True)
class MapOf:
    """A tensor map over a tensor: its arguments, or 128 bytes; the address in it is replaced by that of the tensor plus `offset` bytes."""

    tensor: str
    tensor_map: TensorMap | bytes
    offset: int = 0


@dataclasses.dataclass(frozen=True)
class Step:
    """A tensor transfer that the kernel makes: a load, or with `is_store` a store of what loads brought.

    `at` are the coordinates, dimension 0 first; `im2col_offsets` those of an im2col load, W first.
    """

    map: str
    at: tuple[int, ...]
    smem_address: int
    is_store: bool = False
    im2col_offsets: tuple[int, ...] = ()

    def row(self, names: Sequence[str], is_im2col: bool) -> list[int]:
        """The step as a row of the trace's `steps`."""
        if self.map not in names:
            raise InputError(f"step: there is no map {shown(self.map)} ({', '.join(names) or 'none at all'})")
        at = wholes("at", self.at, wanted="the coordinates of a box, dimension 0 first")
        offsets = wholes("im2col_offsets", self.im2col_offsets, wanted="one offset for each of W, H, D")
        if not 1 <= len(at) <= 5 or len(offsets) > 3:
            raise InputError(f"at = {at}: needs 1 to 5 coordinates, and at most 3 im2col_offsets")
        mode = ("im2col_no_offs" if self.is_store else "im2col") if is_im2col else "tile"
        code = STEPS.index(("store" if self.is_store else "load", mode))
        address = whole("smem_address", self.smem_address, minimum=0, wanted="a .shared byte address")
        row = [code, list(names).index(self.map), address, len(at), *at, *[0] * (5 - len(at)), *offsets]
        return [*row, *[0] * (WIDTH - len(row))]


@dataclasses.dataclass(frozen=True)
class Launch:
    """One launch of a kernel by one CTA, and the tensor transfers it makes.

    `arguments` are the kernel's parameters in order: the name of a map (its 128 bytes by value), the name of a tensor (its address), `DUMP`, a
    descriptor, an int (32 bits) or a numpy scalar. The kernel copies `dump_bytes` bytes of shared memory from address `dump_address` on to the buffer
    `DUMP`. With `fill` it has filled all of shared memory with that byte before the first load; without, only bytes that loads write are compared.
    `outputs` are tensors that are compared after the kernel, which the steps store to.
    """

    tensors: Mapping[str, np.ndarray]
    maps: Mapping[str, MapOf]
    steps: Sequence[Step]
    arguments: Sequence[Any]
    dump_address: int
    dump_bytes: int
    shared_bytes: int
    block: tuple[int, int, int] = (128, 1, 1)
    fill: int | None = None
    outputs: tuple[str, ...] = ()

    def checked(self) -> Launch:
        """The launch itself, if it can be one. Raises InputError."""
        for name, tensor in self.tensors.items():
            if not isinstance(tensor, np.ndarray) or tensor.dtype.hasobject or not tensor.size:
                raise InputError(f"tensors[{name!r}]: needs a numpy array of numbers, not {shown(tensor)}")
        if both := sorted(set(self.tensors) & set(self.maps)):
            raise InputError(f"{both[0]!r} is both a tensor and a map; arguments could not tell them apart")
        for name, one in self.maps.items():
            if not isinstance(one, MapOf) or one.tensor not in self.tensors:
                raise InputError(f"maps[{name!r}] = {shown(one)}: needs a MapOf one of the tensors ({', '.join(self.tensors)})")
        for name in self.outputs:
            if name not in self.tensors:
                raise InputError(f"outputs: there is no tensor {shown(name)} ({', '.join(self.tensors)})")
        for name, most in (("dump_address", MOST_DUMP), ("dump_bytes", MOST_DUMP), ("shared_bytes", MOST_DUMP)):
            if whole(name, getattr(self, name), minimum=0) > most:
                raise InputError(f"{name} = {getattr(self, name):#x}: shared memory ends at {MOST_DUMP:#x}")
        if self.fill is not None and not 0 <= whole("fill", self.fill) < 256:
            raise InputError(f"fill = {self.fill}: needs a byte")
        if len(self.block) != 3 or not 0 < self.block[0] * self.block[1] * self.block[2] <= 1024:
            raise InputError(f"block = {self.block}: needs three sizes, at most 1,024 threads in all")
        self.step_rows()
        self.argument_rows()
        return self

    def is_im2col(self, name: str) -> bool:
        """Is the map one of the im2col encode call?"""
        one = self.maps[name].tensor_map if name in self.maps else None
        if one is None:
            return False
        return (one if isinstance(one, TensorMap) else TensorMap.from_bytes(raw_bytes(one))).is_im2col

    def step_rows(self) -> list[list[int]]:
        """The steps as rows of the trace."""
        return [step.row(list(self.maps), self.is_im2col(step.map)) for step in self.steps]

    def argument_rows(self) -> list[tuple[int, int, int]]:
        """(code of `ARGUMENTS`, number or raw bits, bytes) of every parameter."""
        return [self._argument(i, value) for i, value in enumerate(self.arguments)]

    def _argument(self, i: int, value: Any) -> tuple[int, int, int]:
        if isinstance(value, str):
            if value == DUMP:
                return ARGUMENTS["dump"], 0, 8
            for kind, names, size in (("map", list(self.maps), 128), ("tensor", list(self.tensors), 8)):
                if value in names:
                    return ARGUMENTS[kind], names.index(value), size
            raise InputError(f"arguments[{i}] = {value!r}: needs a map, a tensor, DUMP, a descriptor or a number")
        if isinstance(value, (SmemDescriptor, InstrDescriptor)):
            return ARGUMENTS["value"], value.encode(), 8 if isinstance(value, SmemDescriptor) else 4
        if isinstance(value, np.generic) and value.dtype.kind in "iuf" and value.nbytes <= 8:
            return ARGUMENTS["value"], int.from_bytes(value.tobytes(), "little"), value.nbytes
        number = whole(f"arguments[{i}]", value, wanted="a map, a tensor, DUMP, a descriptor, a 32-bit int or a numpy scalar")
        if not -(1 << 31) <= number < 1 << 32:
            raise InputError(f"arguments[{i}] = {shown(value)}: does not fit 32 bits; give np.uint64 or np.int64 for 64")
        return ARGUMENTS["value"], number & 0xFFFFFFFF, 4


@dataclasses.dataclass(frozen=True, eq=False)
class Recorded:
    """What a launch did: `status` 0 or the CUDA error, `dump` and `after` (the outputs' bytes, one after the other), and what it worked on."""

    launch: Launch
    status: int
    window_end: int
    addresses: Mapping[str, int]  # of the tensors
    maps: tuple[bytes, ...]
    dump: np.ndarray
    after: np.ndarray

    @property
    def trapped(self) -> bool:
        """Did hardware stop the kernel?"""
        return self.status >= ILLEGAL_ADDRESS


def _ragged(name: str, parts: list[np.ndarray], shape: tuple[int, ...], dtype: Any) -> dict[str, np.ndarray]:
    start = np.cumsum([0, *(len(part) for part in parts)]).astype(np.int64)
    body = np.concatenate([np.asarray(part, dtype).reshape(-1, *shape) for part in parts]) if parts else np.zeros((0, *shape), dtype)
    return {name: body, f"{name}_start": start}


def suite_arrays(kernel: Kernel, recorded: Sequence[Recorded]) -> dict[str, np.ndarray]:
    """The arrays of a `smem_dump` suite."""
    launches = [one.launch for one in recorded]
    tensors = [
        [
            (r.addresses[name], array.nbytes, TENSOR_FLAGS["output" if name in r.launch.outputs else "input"])
            for name, array in r.launch.tensors.items()
        ]
        for r in recorded
    ]
    places = [[list(r.launch.tensors).index(one.tensor) for one in r.launch.maps.values()] for r in recorded]
    offsets = [[one.offset for one in launch.maps.values()] for launch in launches]
    contents = [np.concatenate([np.frombuffer(array.tobytes(), np.uint8) for array in launch.tensors.values()] or [np.zeros(0, np.uint8)]) for launch in launches]  # fmt: skip
    return {
        "status": np.array([r.status for r in recorded], np.uint16),
        "window_end": np.array([r.window_end for r in recorded], np.uint32),
        "dump_address": np.array([launch.dump_address for launch in launches], np.uint32),
        "fill": np.array([-1 if launch.fill is None else launch.fill for launch in launches], np.int16),
        "block": np.array([launch.block for launch in launches], np.uint32).reshape(-1, 3),
        "shared_bytes": np.array([launch.shared_bytes for launch in launches], np.uint32),
        "kernel_image": np.frombuffer(kernel.image, np.uint8),
        **_ragged("steps", [np.array(launch.step_rows(), np.int64) for launch in launches], (WIDTH,), np.int64),
        **_ragged("arguments", [np.array(launch.argument_rows(), np.uint64) for launch in launches], (3,), np.uint64),
        **_ragged("maps", [np.frombuffer(b"".join(r.maps), np.uint8).reshape(-1, 128) for r in recorded], (128,), np.uint8),
        **_ragged("map_tensor", [np.array(p) for p in places], (), np.uint32),
        **_ragged("map_offset", [np.array(p) for p in offsets], (), np.uint64),
        **_ragged("tensors", [np.array(rows, np.int64) for rows in tensors], (3,), np.int64),
        **_ragged("tensor_bytes", contents, (), np.uint8),
        **_ragged("dump", [r.dump for r in recorded], (), np.uint8),
        **_ragged("after", [r.after for r in recorded], (), np.uint8),
    }


def write_recorded(
    folder: str | pathlib.Path,
    *,
    title: str,
    kernel: Kernel,
    recorded: Sequence[Recorded],
    arch: str,
    device: dict[str, Any],
    source: dict[str, Any],
) -> None:
    """Write a trace folder of kind `smem_dump`; the kernel's image is in it, so that the launches can be run again."""
    path = pathlib.Path(folder)
    about = {"kernel": kernel.name, "compiler": kernel.compiler, **source, **({"cuda": kernel.source} if kernel.source else {})}
    write_suite(path, suite=path.name, kind="smem_dump", arch=arch, title=title, device=device, source=about, cases=len(recorded),
                arrays=suite_arrays(kernel, recorded))  # fmt: skip
