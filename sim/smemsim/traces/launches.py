"""A recorded launch: the folder with `kernel.ptx` and `launch.json`, and what a GPU made of it.

launch.json   schema, title, entry, arch, grid, block, cluster, shared_bytes, cooperative,
              args: [{"array": name} | {"map": {arguments of the encode call, "global_address": array}} | {"value": n, "type": "u32"} | {"null": true} |
              {"bytes": hexadecimal}],
              arrays: [recipe ...] (`recipes`), outputs: [array ...], exact, why_not_exact, tolerance

A suite of kind "launch" has a folder `kernels` with those of its cases, and in its arrays the SHA-256 of every output, of every row of it, some elements,
and the bytes of small ones and of those that approximate instructions made.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from smemsim.arguments import shown
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import InputError, TraceError
from smemsim.traces.format import Suite
from smemsim.traces.recipes import array_of

__all__ = ["SCHEMA", "LaunchFile", "RecordedLaunches", "load_launch_file", "row_digest", "sample_places"]

SCHEMA = "smemsim.launch/1"
KERNEL, DESCRIPTION = "kernel.ptx", "launch.json"
VALUES = {"s8": "b", "u8": "B", "s16": "h", "u16": "H", "s32": "i", "u32": "I", "s64": "q", "u64": "Q", "f32": "f", "f64": "d"}
SAMPLES = 64


@dataclasses.dataclass(frozen=True, eq=False)
class LaunchFile:
    """One launch as its folder describes it; `ptx` is the text that ran."""

    name: str
    ptx: str
    about: Mapping[str, Any]

    @property
    def shape(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """(grid, block, cluster)."""
        return tuple(self.about["grid"]), tuple(self.about["block"]), tuple(self.about["cluster"])

    def arrays(self) -> dict[str, np.ndarray]:
        """Every array as it is before the launch, by name; those of bf16, e4m3 and e5m2 as raw bits."""
        return {one["name"]: array_of(one) for one in self.about["arrays"]}

    def rows(self, name: str) -> int:
        """Rows of an array: its first extent, 1 where it has no other."""
        shape = next(one["shape"] for one in self.about["arrays"] if one["name"] == name)
        return int(shape[0]) if len(shape) > 1 else 1

    def tensor_map(self, arguments: Mapping[str, Any], address: int) -> TensorMap:
        """The map of an argument over an array at `address`."""
        given = dict(arguments) | {"global_address": address}
        return TensorMap.im2col(**given) if "channels_per_pixel" in given else TensorMap.tiled(**given)

    def parameters(self, addresses: Mapping[str, int], encode: Callable[[TensorMap, int], bytes] | None = None) -> list[bytes]:
        """The bytes of every parameter, arrays at `addresses`; `encode` makes the 128 bytes of a map, by default the model does."""
        return [self._parameter(arg, addresses, encode) for arg in self.about["args"]]

    def _parameter(self, arg: Mapping[str, Any], addresses: Mapping[str, int], encode: Callable[[TensorMap, int], bytes] | None) -> bytes:
        try:
            if "array" in arg:
                return struct.pack("<Q", addresses[arg["array"]])
            if "map" in arg:
                address = addresses[arg["map"]["global_address"]]
                tm = self.tensor_map(arg["map"], address)
                return bytes(tm) if encode is None else encode(tm, address)
            if "value" in arg:
                return struct.pack("<" + VALUES[arg["type"]], arg["value"])
            if "null" in arg:
                return bytes(8)
            if "bytes" in arg:
                return bytes.fromhex(arg["bytes"])
        except (KeyError, TypeError, ValueError, struct.error, InputError) as e:
            raise TraceError(f"{self.name}: argument {shown(dict(arg))} cannot be made ({e})") from None
        raise TraceError(f"{self.name}: argument {shown(dict(arg))}: needs array, map, value, bytes or null")


def load_launch_file(folder: str | pathlib.Path) -> LaunchFile:
    """Read a launch's folder. TraceError says what is wrong with it."""
    path = pathlib.Path(folder)
    try:
        about = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
        ptx = (path / KERNEL).read_text(encoding="utf-8")
    except OSError as e:
        raise TraceError(f"{path}: cannot be read ({e.strerror or e}); a launch is a folder with {KERNEL} and {DESCRIPTION}") from None
    except (ValueError, RecursionError) as e:
        raise TraceError(f"{path}: not a launch ({e}); restore it from version control") from None
    if not isinstance(about, dict) or about.get("schema") != SCHEMA:
        raise TraceError(f"{path / DESCRIPTION}: not a launch that this smemsim reads; needs schema {SCHEMA!r}")
    wanted = {
        "entry": str,
        "arch": str,
        "grid": list,
        "block": list,
        "cluster": list,
        "shared_bytes": int,
        "args": list,
        "arrays": list,
        "outputs": list,
    }
    for key, kind in wanted.items():
        if not isinstance(about.get(key), kind):
            raise TraceError(f"{path / DESCRIPTION}: {key!r} is missing or not a {kind.__name__}; restore it from version control")
    return LaunchFile(path.name, ptx, about)


def sample_places(count: int) -> np.ndarray:
    """The places of an array's samples: at most 64 of `count`, spread evenly, the first and the last among them.

    >>> sample_places(5).tolist(), sample_places(1000)[[0, 1, -1]].tolist()
    ([0, 1, 2, 3, 4], [0, 15, 999])
    """
    if count <= SAMPLES:
        return np.arange(count)
    return np.arange(SAMPLES) * (count - 1) // (SAMPLES - 1)


def row_digest(row: np.ndarray) -> int:
    """The first 64 bits of the SHA-256 of a row's bytes."""
    return int.from_bytes(hashlib.sha256(np.ascontiguousarray(row).tobytes()).digest()[:8], "big")


class RecordedLaunches:
    """The cases of a suite of kind "launch": what was launched, and what the GPU left in memory."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def __len__(self) -> int:
        return len(self.suite)

    def launch(self, case: int) -> LaunchFile:
        """What was launched. TraceError where the folder's kernel is not the one that ran."""
        file = load_launch_file(self.suite.path / "kernels" / str(self.suite.arrays["name"][case]))
        if hashlib.sha256(file.ptx.encode()).hexdigest() != self.suite.arrays["ptx_sha256"][case]:
            raise TraceError(f"{file.name}: {KERNEL} is not the text that was recorded; restore it from version control")
        return file

    def status(self, case: int) -> int:
        """0, or the CUDA error that ended the launch."""
        return int(self.suite.arrays["status"][case])

    def outputs(self, case: int) -> dict[str, int]:
        """The numbers of a case's outputs in the suite's arrays, by name."""
        first, end = (int(x) for x in self.suite.arrays["output_start"][case : case + 2])
        return {str(self.suite.arrays["output"][i]): i for i in range(first, end)}

    def recorded_bytes(self, output: int) -> np.ndarray | None:
        """All bytes of an output, where they were stored."""
        stored = self.suite.ragged("bytes", output)
        return stored if len(stored) else None

    def difference(self, case: int, name: str, found: np.ndarray) -> str:
        """Where an output differs from what the GPU left, in a sentence; empty where every byte is the same."""
        output, launch = self.outputs(case)[name], self.launch(case)
        data = np.ascontiguousarray(found).reshape(-1)
        raw = data.view(np.uint8)
        if hashlib.sha256(raw.tobytes()).hexdigest() == self.suite.arrays["output_sha256"][output]:
            return ""
        recorded = self.recorded_bytes(output)
        bits = data.view(f"u{data.itemsize}")
        if recorded is not None:
            if len(recorded) != len(raw):
                return f"{name}: {len(raw)} bytes, the GPU left {len(recorded)}"
            wanted = recorded.view(bits.dtype)
            wrong = np.flatnonzero(wanted != bits)
            return f"{name}[{wrong[0]}] is {int(bits[wrong[0]]):#x}, the GPU left {int(wanted[wrong[0]]):#x} ({len(wrong)} of {len(bits)} elements differ)"
        digests = self.suite.ragged("row_sha256", output)
        rows = [i for i, row in enumerate(np.split(raw, launch.rows(name))) if row_digest(row) != int(digests[i])]
        samples, places = self.suite.ragged("sample", output), sample_places(len(bits))
        wrong = np.flatnonzero(samples != bits[places].astype(np.uint64))
        seen = f"; [{places[wrong[0]]}] is {int(bits[places[wrong[0]]]):#x}, the GPU left {int(samples[wrong[0]]):#x}" if len(wrong) else ""
        return f"{name}: {len(rows)} of {len(digests)} rows differ, the first is row {rows[0]}{seen}"
