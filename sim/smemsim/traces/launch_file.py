"""Launch files: what a kernel is given, as TOML or JSON beside its PTX, schema smemsim.launch/1.

Recorded launches, `smemsim replay` and `smemsim run` read this one form.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import struct
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from smemsim.arguments import shown, suggestion, whole
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import InputError, SmemsimError
from smemsim.gpu.arrays import DeviceArray, storage
from smemsim.gpu.device import Device
from smemsim.gpu.launch import three
from smemsim.spec.formats import FORMATS
from smemsim.traces.launch_keys import ARGUMENTS, ARRAY_KEYS, BESIDE, KEYS
from smemsim.traces.recipes import array_of

__all__ = ["SCHEMA", "LaunchFile", "read_launch_file"]

SCHEMA = "smemsim.launch/1"
KERNEL, NAMES = "kernel.ptx", ("launch.json", "launch.toml")
VALUES = {"s8": "b", "u8": "B", "b8": "B", "s16": "h", "u16": "H", "b16": "H", "s32": "i", "u32": "I", "b32": "I", "s64": "q", "u64": "Q",
          "b64": "Q", "f16": "e", "f32": "f", "f64": "d"}  # fmt: skip
Encode = Callable[[TensorMap, int], bytes]


@dataclasses.dataclass(frozen=True, eq=False)
class LaunchFile:
    """One launch: `ptx` is the text, `about` what the file says with its shapes as three numbers each, files are looked for in `folder`."""

    name: str
    ptx: str
    about: Mapping[str, Any]
    folder: pathlib.Path = pathlib.Path()

    @property
    def shape(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """(grid, block, cluster)."""
        return tuple(self.about["grid"]), tuple(self.about["block"]), tuple(self.about["cluster"])

    def arrays(self, *, random: bool = False) -> dict[str, np.ndarray]:
        """Every array as it is before the launch, by name; those of bf16, e4m3 and e5m2 as raw bits. `random`: the second way to fill them."""
        return {one["name"]: self._array(one, random) for one in self.about["arrays"]}

    def _array(self, one: Mapping[str, Any], random: bool) -> np.ndarray:
        if "file" not in one:
            return array_of({**one, "distribution": one["random"]} if random and "random" in one else one)
        made = read_array(self.folder / one["file"])
        if "dtype" in one and storage(one["dtype"]).itemsize != made.dtype.itemsize:
            raise InputError(
                f"{self.name}: array {one['name']}: {one['file']} has elements of {made.dtype}, dtype = {one['dtype']!r} is no view of it"
            )
        return made.reshape(one["shape"]) if math.prod(one.get("shape", ())) == made.size and "shape" in one else made

    def dtype(self, name: str) -> str:
        """The element type of an array; "" where the file does not say."""
        return str(next(one for one in self.about["arrays"] if one["name"] == name).get("dtype", ""))

    def rows(self, name: str) -> int:
        """Rows of an array: its first extent, 1 where it has no other."""
        shape = next(one["shape"] for one in self.about["arrays"] if one["name"] == name)
        return int(shape[0]) if len(shape) > 1 else 1

    def tensor_map(self, arguments: Mapping[str, Any], address: int) -> TensorMap:
        """The map of an argument over an array at `address`."""
        given = dict(arguments) | {"global_address": address}
        return TensorMap.im2col(**given) if "channels_per_pixel" in given else TensorMap.tiled(**given)

    def parameters(
        self, addresses: Mapping[str, int], encode: Encode | None = None, place: Callable[[np.ndarray], int] | None = None
    ) -> list[bytes]:
        """The bytes of every parameter, arrays at `addresses`; `encode` makes the 128 bytes of a map, by default the model does.

        `place` puts scratch memory and maps whose address is passed into global memory, and says where.
        """
        return [self._parameter(n, arg, addresses, encode, place) for n, arg in enumerate(self.about["args"])]

    def _parameter(
        self, n: int, arg: Mapping[str, Any], addresses: Mapping[str, int], encode: Encode | None, place: Callable[[np.ndarray], int] | None
    ) -> bytes:
        def encoded(told: Mapping[str, Any]) -> bytes:
            address = addresses[told["global_address"]]
            tm = self.tensor_map(told, address)
            return bytes(tm) if encode is None else encode(tm, address)

        def placed(data: np.ndarray) -> bytes:
            if place is None:
                raise InputError("needs memory of its own, and nobody says where")
            return struct.pack("<Q", place(data))

        try:
            match next(kind for kind in ARGUMENTS if kind in arg):
                case "array":
                    return struct.pack("<Q", addresses[arg["array"]] + int(arg.get("offset", 0)))
                case "map":
                    return encoded(arg["map"])
                case "maps":
                    return placed(np.frombuffer(b"".join(encoded(told) for told in arg["maps"]), np.uint8))
                case "value":
                    return struct.pack("<" + VALUES[arg["type"]], arg["value"])
                case "scratch":
                    return placed(np.zeros(whole("scratch", arg["scratch"], minimum=0), np.uint8))
                case "bytes":
                    return bytes.fromhex(arg["bytes"])
                case _:
                    return bytes(8)
        except (KeyError, TypeError, ValueError, struct.error, SmemsimError) as e:
            raise InputError(f"{self.name}: args[{n}] = {shown(dict(arg))} cannot be made: {_why(e)}") from None

    def placed(self, device: Device, *, random: bool = False) -> tuple[dict[str, DeviceArray], list[bytes]]:
        """(its arrays in a device's memory by name, the arguments of a launch there)."""
        arrays = {name: device.array(x) for name, x in self.arrays(random=random).items()}
        addresses = {name: x.address for name, x in arrays.items()}
        return arrays, self.parameters(addresses, place=lambda data: device.array(data).address)


def _why(e: Exception) -> str:
    return f"there is no {e}" if isinstance(e, KeyError) else str(e)


def read_array(path: pathlib.Path) -> np.ndarray:
    """The array of an .npy file. InputError for anything else."""
    try:
        found: np.ndarray = np.load(path, allow_pickle=False)
    except OSError as e:
        raise InputError(f"{path}: {e.strerror or e}") from None
    except (ValueError, EOFError) as e:
        raise InputError(f"{path}: not an .npy file of plain numbers ({e}); numpy.save writes one") from None
    if not isinstance(found, np.ndarray):
        raise InputError(f"{path}: holds several arrays; needs an .npy file with one")
    return found


def read_launch_file(path: str | pathlib.Path, ptx: str | pathlib.Path | None = None) -> LaunchFile:
    """Read a launch file, .toml or .json, or that of a folder, with its PTX: `ptx`, else the file's key `ptx`, else kernel.ptx beside it.

    Raises InputError with the file and the key.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        path = next((path / name for name in NAMES if (path / name).exists()), path / NAMES[0])
    text = read_text(path)
    try:
        about = json.loads(text) if path.suffix == ".json" or text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError) as e:
        raise InputError(f"{path}: not TOML or JSON ({e})") from None
    about = checked(about, str(path))
    kernel = pathlib.Path(ptx) if ptx is not None else path.parent / about.get("ptx", KERNEL)
    name = path.parent.name if path.name in NAMES else path.stem
    return LaunchFile(name, read_text(kernel), about, path.parent)


def read_text(path: pathlib.Path) -> str:
    """A text file's contents. InputError names it."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as e:
        raise InputError(f"{path}: {e.strerror or e}") from None
    except UnicodeDecodeError as e:
        hint = "; a cubin? smemsim reads PTX, which `nvcc -ptx` writes" if path.suffix in (".cubin", ".o", ".fatbin", ".ptx") else ""
        raise InputError(f"{path}: byte {e.start} is not UTF-8{hint}") from None
    except ValueError:
        raise InputError(f"{shown(str(path))}: not the name of a file") from None


def checked(raw: Any, name: str) -> dict[str, Any]:
    """What a launch file says, with defaults, every key looked at. InputError names file, key and what it should be."""
    if not isinstance(raw, dict):
        raise InputError(f"{name}: needs a table with the keys of a launch, such as grid, block, args, arrays")
    if raw.get("schema", SCHEMA) != SCHEMA:
        raise InputError(f"{name}: schema = {shown(raw['schema'])}: this smemsim reads {SCHEMA!r}")
    _known(name, raw, KEYS)
    about: dict[str, Any] = {"entry": "", "arch": "", "outputs": [], "shared_bytes": 0, "args": [], **raw}
    try:
        for key in ("grid", "block", "cluster"):
            about[key] = list(three(key, raw.get(key, 1)))
        whole("shared_bytes", about["shared_bytes"], minimum=0)
    except InputError as e:
        raise InputError(f"{name}: {e}") from None
    for key in ("ptx", "entry", "arch"):
        if key in raw and not isinstance(raw[key], str):
            raise InputError(f"{name}: {key} = {shown(raw[key])}: needs a text")
    about["arrays"] = _arrays(name, raw.get("arrays", []))
    arrays = [one["name"] for one in about["arrays"]]
    if not isinstance(about["args"], list):
        raise InputError(f"{name}: args = {shown(about['args'])}: needs a list, one table for each parameter")
    for n, arg in enumerate(about["args"]):
        _argument(f"{name}: args[{n}]", arg, arrays)
    outputs = about["outputs"]
    if not isinstance(outputs, list):
        raise InputError(f"{name}: outputs = {shown(outputs)}: needs a list of arrays")
    expected = raw.get("expected", {})
    if not isinstance(expected, dict) or not all(isinstance(x, str) for x in expected.values()):
        raise InputError(f'{name}: expected = {shown(expected)}: needs {{array = "file.npy" or "sha256:..."}}')
    for one in (*outputs, *expected):
        if one not in arrays:
            raise InputError(
                f"{name}: outputs: {shown(one)} is none of the arrays{suggestion(one, arrays)} ({', '.join(arrays) or 'there are none'})"
            )
    tolerance = raw.get("tolerance", {})
    if not isinstance(tolerance, dict) or not all(isinstance(x, (int, float)) for x in tolerance.values()):
        raise InputError(f"{name}: tolerance = {shown(tolerance)}: needs {{relative = 1e-5}}")
    return about


def _known(name: str, table: Mapping[str, Any], keys: Iterable[str]) -> None:
    for key in table:
        if key not in keys:
            raise InputError(f"{name}: {shown(key)}: no such key{suggestion(key, keys)}; known are {', '.join(sorted(keys))}")


def _arrays(name: str, raw: Any) -> list[dict[str, Any]]:
    """Recipes and files as a list; tables by name are taken too."""
    listed = [{"name": key, **one} for key, one in raw.items() if isinstance(one, dict)] if isinstance(raw, dict) else raw
    if not isinstance(listed, list) or (isinstance(raw, dict) and len(listed) != len(raw)):
        raise InputError(f"{name}: arrays = {shown(raw)}: needs a list of tables")
    for n, one in enumerate(listed):
        where = f"{name}: arrays[{n}]"
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise InputError(f"{where} = {shown(one)}: needs a table with a name")
        _known(where, one, ARRAY_KEYS)
        if "file" in one and not isinstance(one["file"], str):
            raise InputError(f"{where}: file = {shown(one['file'])}: needs the name of an .npy file")
        if "dtype" in one and one["dtype"] not in FORMATS and "file" in one:
            raise InputError(f"{where}: dtype = {shown(one['dtype'])}: not an element type{suggestion(one['dtype'], FORMATS)}")
        if "file" not in one and not {"dtype", "shape", "distribution"} <= one.keys():
            raise InputError(f"{where} ({one['name']}): needs dtype, shape and distribution, or file")
    if len({one["name"] for one in listed}) != len(listed):
        raise InputError(f"{name}: arrays: two have the same name")
    return listed


def _argument(where: str, arg: Any, arrays: list[str]) -> None:
    kinds = [kind for kind in ARGUMENTS if isinstance(arg, dict) and kind in arg]
    if len(kinds) != 1:
        raise InputError(f"{where} = {shown(arg)}: needs one of {', '.join(ARGUMENTS)}")
    kind = kinds[0]
    _known(where, arg, {kind, *BESIDE.get(kind, ())})
    told = [arg["map"]] if kind == "map" else arg["maps"] if kind == "maps" else []
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told):
        raise InputError(f"{where}: {kind} = {shown(arg[kind])}: needs the arguments of the encode call by name")
    names = [arg["array"]] if kind == "array" else [one.get("global_address") for one in told]
    for one in names:
        if one not in arrays:
            key = "array" if kind == "array" else "global_address"
            raise InputError(
                f"{where}: {key} = {shown(one)}: is none of the arrays{suggestion(one, arrays)} ({', '.join(arrays) or 'there are none'})"
            )
    if kind == "value" and arg.get("type") not in VALUES:
        raise InputError(f"{where}: type = {shown(arg.get('type'))}: needs the parameter's PTX type: {' '.join(VALUES)}")
