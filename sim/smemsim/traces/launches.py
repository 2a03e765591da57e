"""A recorded launch: the folder with `kernel.ptx` and `launch.json`, and what a GPU made of it.

launch.json   schema, title, entry, arch, grid, block, cluster, shared_bytes, cooperative,
              args: [{"array": name} | {"map": {arguments of the encode call, "global_address": array}} | {"value": n, "type": "u32"} | {"null": true}],
              arrays: [recipe ...] (`recipes`), outputs: [array ...], exact, why_not_exact, tolerance
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from smemsim.arguments import shown
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import InputError, TraceError
from smemsim.traces.recipes import array_of

__all__ = ["SCHEMA", "LaunchFile", "load_launch_file", "sample_places"]

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
        except (KeyError, TypeError, ValueError, struct.error, InputError) as e:
            raise TraceError(f"{self.name}: argument {shown(dict(arg))} cannot be made ({e})") from None
        raise TraceError(f"{self.name}: argument {shown(dict(arg))}: needs array, map, value or null")


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
