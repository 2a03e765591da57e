"""Recording what a kernel does on the GPU at hand, as a golden trace that `smemsim replay` and the pytest plugin hold the model against.

    from smemsim.testing.recorder import MapOf, Step, record_loads

    tm = smemsim.TensorMap.tiled(data_type="bf16", global_address=0, global_dim=(64, 128), global_strides=(128,), box_dim=(64, 64), swizzle="128B")
    record_loads("golden/a_tile", tensors={"A": a}, maps={"tmA": MapOf("A", tm)}, steps=[Step("tmA", (0, 64), 0x400)])

`record_loads` brings its own kernel; `record` runs yours, which makes the same transfers on its own and copies its shared memory out. One CTA is
launched. Needs cuda-bindings (smemsim[cuda]) and a GPU that smemsim models.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from smemsim.descriptors.tensor_map import TensorMap
from smemsim.descriptors.tensor_map.replace import tensormap_replace
from smemsim.errors import HardwareTrap, InputError, SmemsimError, TraceError
from smemsim.machine.tma import tma_load
from smemsim.spec.architectures import architecture
from smemsim.testing.cuda import Gpu, compile_cuda, why_no_gpu
from smemsim.testing.launch import ARGUMENTS, DUMP, Kernel, Launch, MapOf, Recorded, Step, write_recorded
from smemsim.testing.load_kernel import BARRIER_BYTES, FILL, KERNEL_NAME, MOST_STEPS, load_kernel
from smemsim.traces.format import Suite, load_suite
from smemsim.traces.kinds.smem_dump import STEPS, TENSOR_FLAGS, SmemDump

__all__ = [
    "DUMP",
    "Kernel",
    "Launch",
    "MapOf",
    "Recorder",
    "Step",
    "differences",
    "launch_of",
    "load_launch",
    "record",
    "record_loads",
    "why_no_gpu",
]

GUARD = 4096  # bytes around the tensors, so that a store past an end does not meet a neighbour
COMPLETED = "completed"


class Recorder:
    """A GPU on which launches are run and recorded; `arch` is the architecture it is.

    Raises InputError without cuda-bindings or for a card that smemsim does not model, `CudaError` for what the driver refuses.
    """

    def __init__(self, ordinal: int = 0) -> None:
        self.gpu = Gpu(ordinal)
        self.arch, self.device = self.gpu.arch, self.gpu.describe()

    def compile(self, source: str, name: str, *, options: Sequence[str] = ()) -> Kernel:
        """A kernel of CUDA C++ text, by NVRTC or nvcc; `name` is that of an extern "C" entry. InputError with the compiler's words."""
        image, compiler = compile_cuda(source, self.arch, options)
        return Kernel(image, name, compiler, source)

    def run(self, kernel: Kernel, launch: Launch) -> Recorded:
        """Launch once, and copy back the dump and the outputs. A trap is an outcome too, and the last one: it ends CUDA for the whole process.

        Raises InputError after a trap; what follows one is recorded by another process.
        """
        gpu, launch = self.gpu, launch.checked()
        if Gpu.ended:
            raise InputError(
                f"a launch before trapped (CUDA error {Gpu.ended}), which ends CUDA for this process: record traps last, or each in a process"
            )
        function = gpu.function(kernel.image, kernel.name, launch.shared_bytes)
        end = architecture(self.arch).shared_begin + gpu.static_shared_bytes(function) + launch.shared_bytes
        rows = launch.argument_rows()
        sizes = gpu.parameters(function)
        if sizes is not None and sizes != [row[2] for row in rows]:
            raise InputError(f"arguments: {kernel.name} takes parameters of {sizes} B, given are {[row[2] for row in rows]} B")
        try:
            addresses = {name: self._placed(array) for name, array in launch.tensors.items()}
            dump = gpu.allocate(launch.dump_bytes, 0)
            maps = tuple(self._map(one, addresses) for one in launch.maps.values())
            held = [_bytes_of(row, maps, list(addresses.values()), dump) for row in rows]
            status = gpu.launch(function, (1, 1, 1), launch.block, launch.shared_bytes, held)
            if status:
                Gpu.ended = status
                return Recorded(launch, status, end, addresses, maps, np.zeros(0, np.uint8), np.zeros(0, np.uint8))
            after = [gpu.get(addresses[name], launch.tensors[name].nbytes) for name in launch.tensors if name in launch.outputs]
            got = gpu.get(dump, launch.dump_bytes)
            self._completed(launch, addresses)
            return Recorded(launch, 0, end, addresses, maps, got, np.concatenate(after) if after else np.zeros(0, np.uint8))
        finally:
            if not Gpu.ended:
                gpu.free()

    def _placed(self, array: np.ndarray) -> int:
        address = self.gpu.allocate(array.nbytes + 2 * GUARD, 0) + GUARD
        self.gpu.put(address, array)
        return address

    def _map(self, one: MapOf, addresses: Mapping[str, int]) -> bytes:
        """The 128 bytes over the tensor: as the driver encodes them, or those given with another address."""
        address = addresses[one.tensor] + one.offset
        if isinstance(one.tensor_map, TensorMap):
            return self.gpu.encode(one.tensor_map, address)
        return tensormap_replace(one.tensor_map, "global_address", address, arch=self.arch)

    def _completed(self, launch: Launch, addresses: Mapping[str, int]) -> None:
        """The built-in kernel says whether its barrier's phase completed."""
        if COMPLETED in launch.tensors and not self.gpu.get(addresses[COMPLETED], 4).any():
            raise SmemsimError(
                "the loads did not credit the bytes that smemsim computed: the barrier's phase did not complete; please report the map"
            )

    def rerun(self, suite: Suite, case: int) -> Recorded:
        """Run a recorded case again. Raises TraceError for a trace that has no kernel, InputError for one of another architecture."""
        if suite.kind != "smem_dump":
            raise TraceError(f"{suite.path}: only smem_dump traces hold their kernel; kind {suite.kind!r} was recorded by tools/capture")
        if suite.arch != self.arch:
            raise InputError(f"{suite.path} was recorded on {suite.arch}, the GPU here is {self.arch}")
        image = suite.arrays.get("kernel_image", np.zeros(0, np.uint8)).tobytes()
        if not image:
            raise TraceError(f"{suite.path}: the trace has no kernel image; record it again to run it")
        return self.run(Kernel(image, str(suite.manifest["source"].get("kernel", ""))), launch_of(suite, case))

    def write(self, folder: str | pathlib.Path, kernel: Kernel, recorded: Sequence[Recorded], *, title: str, command: str = "") -> Suite:
        """Write a trace folder and read it back, verified."""
        source = {"command": command or "smemsim.testing.recorder", "seed": 0, "files": {}}
        write_recorded(folder, title=title, kernel=kernel, recorded=recorded, arch=self.arch, device=self.device, source=source)
        return load_suite(pathlib.Path(folder))


def _bytes_of(row: tuple[int, int, int], maps: Sequence[bytes], tensors: Sequence[int], dump: int) -> bytes:
    kind, value, size = row
    if kind == ARGUMENTS["map"]:
        return maps[value]
    number = {ARGUMENTS["tensor"]: tensors[value] if kind == ARGUMENTS["tensor"] else 0, ARGUMENTS["dump"]: dump}.get(kind, value)
    return number.to_bytes(size, "little")


def launch_of(suite: Suite, case: int) -> Launch:
    """The launch of a recorded case: the maps are its 128 bytes, the arguments its raw bits."""
    a = suite.arrays
    if missing := sorted({"block", "shared_bytes", "arguments_start", "map_tensor_start", "map_offset_start"} - a.keys()):
        raise TraceError(f"{suite.path}: the trace lacks {', '.join(missing)}, without which its kernel cannot be run again")
    tensors, at, contents = {}, 0, suite.ragged("tensor_bytes", case)
    rows = suite.ragged("tensors", case).tolist()
    for i, (_, size, _) in enumerate(rows):
        tensors[f"tensor{i}"] = contents[at : at + size]
        at += size
    outputs = tuple(f"tensor{i}" for i, row in enumerate(rows) if row[2] == TENSOR_FLAGS["output"])
    places, offsets = suite.ragged("map_tensor", case).tolist(), suite.ragged("map_offset", case).tolist()
    raws = [raw.tobytes() for raw in suite.ragged("maps", case)]
    maps = {f"map{i}": MapOf(f"tensor{of}", raw, offset) for i, (of, raw, offset) in enumerate(zip(places, raws, offsets, strict=True))}
    steps = [
        Step(f"map{row[1]}", tuple(row[4 : 4 + row[3]]), row[2], STEPS[row[0]][0] == "store", tuple(row[9 : 9 + row[3] - 2]) if STEPS[row[0]][1] == "im2col" else ())
        for row in suite.ragged("steps", case).tolist()
    ]  # fmt: skip
    names = {ARGUMENTS["map"]: "map{}", ARGUMENTS["tensor"]: "tensor{}", ARGUMENTS["dump"]: DUMP}
    sizes = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
    arguments = [
        names[kind].format(value) if kind in names else sizes[size](value) for kind, value, size in suite.ragged("arguments", case).tolist()
    ]
    fill = int(a["fill"][case])
    return Launch(
        tensors=tensors, maps=maps, steps=steps, arguments=arguments, dump_address=int(a["dump_address"][case]),
        dump_bytes=len(suite.ragged("dump", case)) or 1, shared_bytes=int(a["shared_bytes"][case]), block=tuple(a["block"][case].tolist()),
        fill=None if fill < 0 else fill, outputs=outputs,
    )  # fmt: skip


def load_launch(
    arch: str, *, tensors: Mapping[str, np.ndarray], maps: Mapping[str, MapOf], steps: Sequence[Step], outputs: Sequence[str] = ()
) -> tuple[Kernel, Launch]:
    """(kernel, launch) that makes the steps, loads before stores, and dumps shared memory from its first byte to the last one of a box.

    The barrier expects what `smemsim.tma_load` says that the loads credit. Maps are `TensorMap`s. Raises InputError for more than 16 steps and
    boxes that leave no room for the barrier.

    >>> tm = TensorMap.tiled(data_type="u8", global_address=0, global_dim=(256,), global_strides=(), box_dim=(128,))
    >>> kernel, launch = load_launch("sm_90a", tensors={"A": np.arange(256, dtype=np.uint8)}, maps={"tmA": MapOf("A", tm)},
    ...                              steps=[Step("tmA", (64,), 0x480)])
    >>> hex(launch.dump_address), launch.dump_bytes, len(launch.arguments)
    ('0x400', 256, 9)
    """
    machine = architecture(arch)
    if not 0 < len(steps) <= MOST_STEPS:
        raise InputError(f"steps: {len(steps)} of them; the built-in kernel makes 1 to {MOST_STEPS}")
    if any(step.is_store for step in steps) != any(step.is_store for step in steps[-1:]):
        raise InputError("steps: the built-in kernel makes all loads before the first store")
    names, kinds, values, expect, end = list(maps), [], [], 0, machine.shared_begin
    for step in steps:
        one = maps[step.map].tensor_map if step.map in maps else None
        if not isinstance(one, TensorMap):
            raise InputError(f"step of map {step.map!r}: needs one of the maps ({', '.join(names)}), made of a TensorMap")
        row = step.row(names, one.is_im2col)
        kinds.append((*STEPS[row[0]], len(step.at), row[1]))
        values += [step.smem_address, *(int(c) & 0xFFFFFFFF for c in step.at), *(int(o) & 0xFFFFFFFF for o in step.im2col_offsets)]
        if not step.is_store:
            try:
                transfer = tma_load(one, step.at, smem_address=step.smem_address, im2col_offsets=step.im2col_offsets, arch=arch)
            except HardwareTrap:  # silicon is to say so
                end = max(end, step.smem_address + 128)
                continue
            expect, end = expect + transfer.transaction_bytes, max(end, transfer.shared_end)
    end = -(-end // 128) * 128
    if end + BARRIER_BYTES > machine.shared_end:
        raise InputError(f"steps: the boxes end at {end:#x}, which leaves no room for the barrier below {machine.shared_end:#x}")
    size = end - machine.shared_begin
    kernel = Kernel(load_kernel(machine.name, len(names), kinds).encode(), KERNEL_NAME, "the driver, from PTX")
    arguments = [DUMP, COMPLETED, machine.shared_begin, size, end, expect, *names, *values]
    held = {**tensors, COMPLETED: np.zeros(1, np.uint32)}
    return kernel, Launch(
        tensors=held, maps=maps, steps=steps, arguments=arguments, dump_address=machine.shared_begin, dump_bytes=size,
        shared_bytes=size + BARRIER_BYTES, fill=FILL, outputs=tuple(outputs),
    ).checked()  # fmt: skip


def record(folder: str | pathlib.Path, kernel: Kernel, launches: Sequence[Launch], *, title: str, command: str = "") -> Suite:
    """Run launches of one kernel on the GPU at hand and write them as a trace folder, one case each; the trace, read back.

    Raises InputError without a GPU, and for launches that do not fit the kernel.
    """
    if reason := why_no_gpu():
        raise InputError(f"nothing to record on: {reason}")
    recorder = Recorder()
    return recorder.write(folder, kernel, [recorder.run(kernel, one) for one in launches], title=title, command=command)


def record_loads(
    folder: str | pathlib.Path,
    *,
    tensors: Mapping[str, np.ndarray],
    maps: Mapping[str, MapOf],
    steps: Sequence[Step],
    outputs: Sequence[str] = (),
    title: str = "Tensor transfers, and the shared memory after them",
) -> Suite:
    """Record tensor transfers with the built-in kernel: which bytes your maps bring where. Arguments as of `load_launch`."""
    if reason := why_no_gpu():
        raise InputError(f"nothing to record on: {reason}")
    recorder = Recorder()
    kernel, launch = load_launch(recorder.arch, tensors=tensors, maps=maps, steps=steps, outputs=outputs)
    return recorder.write(folder, kernel, [recorder.run(kernel, launch)], title=title)


def differences(suite: Suite, case: int, again: Recorded) -> str:
    """How hardware's second answer differs from the recorded one, as a sentence; empty where it does not.

    Compared are what the trace compares with the model: with `fill` every byte of the dump, else those that its loads wrote, and the outputs.
    """
    a = suite.arrays
    if int(a["status"][case]) != again.status:
        return f"case {case}: recorded was CUDA error {int(a['status'][case])}, now {again.status} (0 is none)"
    if again.status:
        return ""
    begin = int(a["dump_address"][case])
    seen = SmemDump(suite).written(case)
    for what, old, new, mask, first in (
        ("shared", suite.ragged("dump", case), again.dump, seen, begin),
        ("outputs", suite.ragged("after", case), again.after, slice(None), 0),
    ):
        wrong = np.flatnonzero((old != new)[mask]) if len(old) == len(new) else np.zeros(1, np.int64)
        if wrong.size:
            at = int(np.flatnonzero(mask)[wrong[0]]) if isinstance(mask, np.ndarray) else int(wrong[0])
            return f"case {case}: {wrong.size:,} bytes of {what} differ, the first at {first + at:#x}: recorded {int(old[at]):#04x}, now {int(new[at]):#04x}"
    return ""
