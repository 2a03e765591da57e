"""Races of whole launches: machine code against closures, with the sanitizer and without it, and against simulators
that users would pick.

The programs are recorded launches of golden/, which an H200 has run, on more data. Times are of the processor, in one
process.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import pathlib
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import smemsim
from smemsim.diagnosis.gpu import Gpu
from smemsim.evidence.launches import LaunchFile, load_launch_file
from smemsim.run.engine.launch import RunOptions
from smemsim.run.jit.tier import TIERS
from tools.speeds.peers import simulators
from tools.speeds.race import Differs, LeftOut, Race, Row, processor, same

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "golden" / "sm_90a" / "launches" / "kernels"
LAUNCHES, COMPILED = KERNELS.parents[2] / "compiled" / "launches_sm_100a" / "launches.tar.xz", "triton_tma_large"
ROWS, ELEMENTS, PAIRS = 4096, 1 << 20, 1 << 17
PEER_ROWS = 256


@dataclasses.dataclass(frozen=True)
class Grown:
    """A recorded launch on more data: its grid, shapes of arrays by name, and arguments by their place."""

    kernel: str
    grid: tuple[int, int, int]
    shapes: dict[str, tuple[int, ...]]
    values: dict[int, float] = dataclasses.field(default_factory=dict)
    maps: dict[str, tuple[int, int]] = dataclasses.field(
        default_factory=dict
    )  # of tensor maps by their array: the extents, of two-byte elements

    def file(self) -> LaunchFile:
        """The launch."""
        file = load_launch_file(KERNELS / self.kernel)
        about: dict[str, Any] = copy.deepcopy(dict(file.about)) | {"grid": self.grid}
        for array in about["arrays"]:
            array["shape"] = list(self.shapes.get(array["name"], array["shape"]))
        for place, value in self.values.items():
            about["args"][place]["value"] = value
        for argument in about["args"]:
            extents = self.maps.get(argument.get("map", {}).get("global_address", ""))
            if extents is not None:
                argument["map"] |= {"global_dim": list(extents), "global_strides": [2 * extents[0]]}
        return dataclasses.replace(file, about=about)


GROWN = {
    "an elementwise sum": Grown("triton_add_f32", (ELEMENTS // 1024, 1, 1), dict.fromkeys(("x", "y", "out"), (ELEMENTS,)), {3: ELEMENTS}),
    "softmax of rows": Grown("triton_softmax", (ROWS, 1, 1), dict.fromkeys(("x", "out"), (ROWS, 704))),
    "layernorm of rows": Grown("triton_layernorm", (ROWS, 1, 1), dict.fromkeys(("x", "out"), (ROWS, 600))),
    "dropout by Philox": Grown("triton_dropout", (ELEMENTS // 512, 1, 1), dict.fromkeys(("x", "out"), (ELEMENTS,)), {2: ELEMENTS}),
    "a bitonic sort of pairs in shared memory": Grown("bitonic_sort", (PAIRS // 256, 1, 1), dict.fromkeys(("keys", "values"), (PAIRS,))),
    "mandelbrot": Grown("mandelbrot", (32, 32, 1), {"out": (256, 512)}, {1: 512, 4: 0.00625}),
    "SGEMM on CUDA cores, 512 x 512 x 512": Grown("matmul_simt", (16, 16, 1), dict.fromkeys("ABC", (512, 512)), dict.fromkeys((3, 4, 5), 512)),
}  # fmt: skip
WORK = {
    "an elementwise sum": (ELEMENTS, "elements"), "softmax of rows": (ROWS, "rows"), "layernorm of rows": (ROWS, "rows"),
    "dropout by Philox": (ELEMENTS, "elements"), "a bitonic sort of pairs in shared memory": (PAIRS, "pairs"), "mandelbrot": (256 * 512, "points"),
    "SGEMM on CUDA cores, 512 x 512 x 512": (512**3, "MAC"),
}  # fmt: skip


@contextlib.contextmanager
def _tier(mode: str | None) -> Iterator[None]:
    """Programs that first run here run so."""
    before = os.environ.pop(TIERS, None)
    if mode is not None:
        os.environ[TIERS] = mode
    try:
        yield
    finally:
        os.environ.pop(TIERS, None)
        if before is not None:
            os.environ[TIERS] = before


def started(
    file: LaunchFile, *, sanitizer: bool, mode: str | None = None, arch: str = "sm_90a", workers: int = 1, counters: bool = False
) -> tuple[Callable[[], object], dict[str, Any]]:
    """A launch that has run once, and finds nothing; its arrays."""
    gpu = Gpu(arch)
    arrays, args = file.placed(gpu)
    # programs of one text are one
    text = f"{file.ptx}\n// {mode or 'as it comes'}, {'watched' if sanitizer else 'unwatched'}\n"

    def call() -> object:
        with _tier(mode):
            run = gpu.run(text, file.config(args), RunOptions(progress=False, workers=workers, sanitize=sanitizer, counters=counters))
        if run.findings:
            raise Differs(f"{file.name}: {run.findings[0]}")
        return run.counters if counters else run.findings

    call()
    return call, arrays


def _tiers(grown: Grown, *, sanitizer: bool) -> Callable[[], Race]:
    """Machine code against closures."""

    def start() -> Race:
        file = grown.file()
        (ours, mine), (closures, theirs) = (started(file, sanitizer=sanitizer, mode=mode) for mode in (None, "closures"))
        for name, array in mine.items():
            if array.numpy().tobytes() != theirs[name].numpy().tobytes():
                raise Differs(f"{file.name}: {name} is another one than that of closures")
        return Race(processor(ours), processor(closures), "equal: all bytes")

    return start


def _watch(grown: Grown) -> Callable[[], Race]:
    def start() -> Race:
        ours, without = (started(grown.file(), sanitizer=sanitizer)[0] for sanitizer in (True, False))
        return Race(processor(ours), processor(without), "2.0x the time: the sanitizer costs as much as the launch")

    return start


def _counted(grown: Grown, calls: int = 1) -> Callable[[], Race]:
    """The counters alone against the sanitizer alone; small launches several times."""

    def start() -> Race:
        sides = [started(grown.file(), sanitizer=not counters, counters=counters)[0] for counters in (True, False)]
        ours, watched = (lambda call=call: [call() for _ in range(calls)] for call in sides)
        return Race(processor(ours), processor(watched), "counting costs at most the sanitizer's time")

    return start


def on_blackwell() -> LaunchFile:
    """A product of tcgen05.mma that Triton compiled, made one of 512 x 512 x 512: its maps, and the extents among its
    arguments.
    """
    names = [f"{COMPILED}/{name}" for name in ("kernel.ptx", "launch.json")]
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(LAUNCHES) as packed:
            packed.extractall(folder, members=[packed.getmember(name) for name in names], filter="data")
        file = load_launch_file(pathlib.Path(folder) / COMPILED)
    about: dict[str, Any] = copy.deepcopy(dict(file.about)) | {"grid": (4, 4, 1)}
    for array in about["arrays"]:
        array["shape"] = [512, 512]
    for argument in about["args"]:
        if "map" in argument:
            argument["map"] |= {"global_dim": [512, 512], "global_strides": [1024]}
        elif argument.get("value") in (256, 1024):
            argument["value"] = 512
    return dataclasses.replace(file, about=about)


def _products(sanitizer: bool, arch: str = "sm_90a") -> Callable[[], Race]:
    """A Triton kernel that multiplies matrices of bf16, against the products in it alone: for each K of an instruction
    one `mma` of the whole result.
    """

    def start() -> Race:
        file = on_blackwell() if arch == "sm_100a" else Grown("triton_matmul_512", (4, 4, 1), {}).file()
        ours, arrays = started(file, sanitizer=sanitizer, arch=arch)
        a, b, c = (array.numpy().view(np.uint16) for array in arrays.values())

        def products() -> np.ndarray:
            d, kind = np.zeros((len(a), len(b)), np.uint32), "f16" if arch == "sm_100a" else "wgmma"
            for k in range(0, a.shape[1], 16):
                d = smemsim.mma(a[:, k : k + 16], b[:, k : k + 16], d, arch=arch, kind=kind, a_type="bf16", b_type="bf16", d_type="f32")
            return d

        wanted = smemsim.from_float64(smemsim.to_float64(products(), "f32"), "bf16")
        return Race(processor(ours), processor(products), same(c, wanted, "elements"))

    return start


COUNTED = {
    **{name: (grown, 1) for name, grown in GROWN.items()},
    "Triton's bf16 product, 512 x 512 x 512": (Grown("triton_matmul_512", (4, 4, 1), {}), 1),
    "an elementwise sum of 4 CTAs": (Grown("triton_add_f32", (4, 1, 1), dict.fromkeys(("x", "y", "out"), (4096,)), {3: 4096}), 20),
    "softmax of 4 rows": (Grown("triton_softmax", (4, 1, 1), dict.fromkeys(("x", "out"), (4, 704))), 20),
    "SGEMM on CUDA cores, one CTA": (Grown("matmul_simt", (1, 1, 1), dict.fromkeys("ABC", (32, 32)), dict.fromkeys((3, 4, 5), 32)), 20),
}
COUNTED_WORK = {**WORK, "Triton's bf16 product, 512 x 512 x 512": (512**3, "MAC"), "an elementwise sum of 4 CTAs": (4096, "elements"),
                "softmax of 4 rows": (4, "rows"), "SGEMM on CUDA cores, one CTA": (32**3, "MAC")}  # fmt: skip


PEERED = {
    "add": Grown("triton_add_f32", (256, 1, 1), dict.fromkeys(("x", "y", "out"), (1 << 18,)), {3: 1 << 18}),
    "softmax": Grown("triton_softmax", (PEER_ROWS, 1, 1), dict.fromkeys(("x", "out"), (PEER_ROWS, 704))),
    "layernorm": Grown("triton_layernorm", (PEER_ROWS, 1, 1), dict.fromkeys(("x", "out"), (PEER_ROWS, 600))),
    "matmul": Grown("triton_matmul_512", (4, 4, 1), {}),
}
PEERED["few add"] = Grown("triton_add_f32", (16, 1, 1), dict.fromkeys(("x", "y", "out"), (1 << 14,)), {3: 1 << 14})
PEER_WORK = {
    "few add": (1 << 14, "elements"),
    "add": (1 << 18, "elements"),
    "softmax": (PEER_ROWS, "rows"),
    "layernorm": (PEER_ROWS, "rows"),
    "matmul": (512**3, "MAC"),
}


def _beside(name: str, peer: str) -> Callable[[], Race]:
    """A Triton kernel as an H200 runs it, bit-exact and watched, against another simulator that runs its source."""

    def start() -> Race:
        other = simulators()
        if f"{peer} {name}" not in other.said:
            raise LeftOut(f"{peer} is not there")
        ours, _ = started(PEERED[name].file(), sanitizer=True)
        return Race(processor(ours), other.timer(peer, name), other.said[f"{peer} {name}"])

    return start


# fmt: off
ROWS_OF_PROGRAMS = (
    *(Row("run", f"{name}, {'watched' if sanitizer else 'unwatched'}", "closures", *WORK[name], _tiers(grown, sanitizer=sanitizer), rounds=2, long=True)
      for name, grown in GROWN.items() for sanitizer in (False, True)),
    *(Row("run", f"{name}, the sanitizer on", "without the sanitizer", *WORK[name], _watch(grown), rounds=2, long=True) for name, grown in GROWN.items()),
    *(Row("run", f"{name}, counted", "the sanitizer in place of the counters", *COUNTED_WORK[name], _counted(grown, calls), asked=1.0, rounds=5, long=True)
      for name, (grown, calls) in COUNTED.items()),
    *(Row("run", f"Triton's bf16 product, 512 x 512 x 512, {'watched' if sanitizer else 'unwatched'}", "its products alone, by smemsim.mma", 512**3, "MAC",
          _products(sanitizer), asked=1 / 3 if sanitizer else 1 / 1.8, rounds=8, long=True) for sanitizer in (False, True)),
    *(Row("run", f"Triton's bf16 product by tcgen05, 512 x 512 x 512, {'watched' if sanitizer else 'unwatched'}", "its products alone, by smemsim.mma", 512**3, "MAC",
          _products(sanitizer, "sm_100a"), rounds=8, long=True) for sanitizer in (False, True)),
    *(Row("run", f"Triton's {name}, the sanitizer on", "TRITON_INTERPRET=1", *PEER_WORK[name], _beside(name, "triton"), peer=True, long=True) for name in ("add", "softmax", "layernorm", "matmul")),
    Row("run", "Triton's add, the sanitizer on, beside numba", "numba's CUDA simulator", *PEER_WORK["few add"], _beside("few add", "numba"), rounds=1, peer=True, long=True),
)
# fmt: on
