"""Launch files: what a kernel is given, as TOML or JSON beside its PTX, schema smemsim.launch/1.

Recorded launches, `smemsim replay` and `smemsim run` read this one form.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from smemsim.arguments import shown
from smemsim.budget import ask
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.diagnose.tolerances import Tolerance
from smemsim.errors import InputError, SmemsimError, TraceError
from smemsim.files import named_inside, parse_toml, read_array, read_bytes
from smemsim.gpu.arrays import DeviceArray, storage
from smemsim.gpu.device import Device
from smemsim.gpu.parameters import number_bytes
from smemsim.ptx.module import Parameter
from smemsim.traces.launch_checks import TOLERANCES, VALUES, WORDS, checked
from smemsim.traces.launch_keys import ARGUMENTS
from smemsim.traces.recipes import WIDTHS, array_of

__all__ = ["LaunchFile", "read_launch_file"]

KERNEL, NAMES = "kernel.ptx", ("launch.json", "launch.toml")
MOST_PTX, MOST_LAUNCH = 1 << 28, 1 << 24  # bytes of a PTX file, and of a launch file
Encode = Callable[[TensorMap, int], bytes]


@dataclasses.dataclass(frozen=True, eq=False)
class LaunchFile:
    """One launch: `ptx` is the text, `about` what the file says with its shapes as three numbers each, files are looked for in `folder`.

    `path` is how messages call the launch file; without it that is `name`.
    """

    name: str
    ptx: str
    about: Mapping[str, Any]
    folder: pathlib.Path = pathlib.Path()
    path: str = ""

    @property
    def called(self) -> str:
        """The file, as messages name it."""
        return self.path or self.name

    @property
    def shape(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """(grid, block, cluster)."""
        return tuple(self.about["grid"]), tuple(self.about["block"]), tuple(self.about["cluster"])

    def arrays(self, *, random: bool = False) -> dict[str, np.ndarray]:
        """Every array as it is before the launch, by name; those of bf16, e4m3 and e5m2 as raw bits. `random`: the second way to fill them."""
        return {one["name"]: self._array(one, random) for one in self.about["arrays"]}

    @property
    def array_bytes(self) -> int:
        """Bytes of all arrays that have recipes; those of files are known when they are read."""
        return sum(math.prod(one["shape"]) * WIDTHS.get(one["dtype"], 1) for one in self.about["arrays"] if "file" not in one)

    def _array(self, one: Mapping[str, Any], random: bool) -> np.ndarray:
        where = f"{self.called}: array {one['name']}"
        if "file" not in one:
            try:
                return array_of({**one, "distribution": one["random"]} if random and "random" in one else one)
            except TraceError as e:
                raise InputError(f"{self.called}: {e}") from None
        made = read_array(self.folder / one["file"])
        if "dtype" in one and storage(one["dtype"]).itemsize != made.dtype.itemsize:
            raise InputError(f"{where}: {one['file']} has elements of {made.dtype}, dtype = {one['dtype']!r} is no view of it")
        if math.prod(one.get("shape", made.shape)) != made.size:
            raise InputError(f"{where}: {one['file']} has {made.size} elements, {made.shape}; shape = {one['shape']} has others")
        return made.reshape(one.get("shape", made.shape))

    def dtype(self, name: str) -> str:
        """The element type of an array; "" where the file does not say."""
        return str(next(one for one in self.about["arrays"] if one["name"] == name).get("dtype", ""))

    @property
    def tolerance(self) -> Tolerance | None:
        """How far outputs may be off: `rtol` and `atol`, or the older words for them, the one that is not given 0; None where nothing is said."""
        older = self.about.get("tolerance") or {}
        given = [self.about.get(new, older.get(old)) for new, old in zip(WORDS, TOLERANCES, strict=True)]
        return None if given == [None, None] else Tolerance(*(0.0 if x is None else float(x) for x in given))

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
                    return number_bytes("value", arg["type"], VALUES[arg["type"]], arg["value"])
                case "scratch":
                    return placed(np.zeros(arg["scratch"], np.uint8))
                case "bytes":
                    return bytes.fromhex(arg["bytes"])
                case _:
                    return bytes(8)
        except (KeyError, TypeError, ValueError, struct.error, SmemsimError) as e:
            raise InputError(f"{self.called}: args[{n}] = {shown(dict(arg))} cannot be made: {_why(e)}") from None

    def check_types(self, parameters: Sequence[Parameter]) -> None:
        """InputError where a value's type is floating point and the kernel's parameter is an integer, or the other way round: its bytes would fit."""
        for n, (arg, parameter) in enumerate(zip(self.about["args"], parameters, strict=False)):
            given, wanted = str(arg.get("type", "b"))[0], parameter.type[0]
            if given != wanted and "f" in (given, wanted) and "b" not in (given, wanted):
                raise InputError(f"{self.called}: args[{n}]: type = {arg['type']}, parameter {parameter.name} is .{parameter.type}")

    def placed(self, device: Device, *, random: bool = False) -> tuple[dict[str, DeviceArray], list[bytes]]:
        """(its arrays in a device's memory by name, the arguments of a launch there)."""
        ask(f"{self.called}: all arrays together", self.array_bytes)
        arrays = {one["name"]: device.array(self._array(one, random), name=one["name"]) for one in self.about["arrays"]}
        addresses = {name: x.address for name, x in arrays.items()}
        return arrays, self.parameters(addresses, place=lambda data: device.array(data).address)


def _why(e: Exception) -> str:
    return f"there is no {e}" if isinstance(e, KeyError) else str(e)


def read_launch_file(
    path: str | pathlib.Path, ptx: str | pathlib.Path | None = None, *, allowed: Sequence[pathlib.Path] = ()
) -> LaunchFile:
    """Read a launch file, .toml or .json, or that of a folder, with its PTX: `ptx`, else the file's key `ptx`, else kernel.ptx beside it.

    Files that it names must lie in its folder, or in one of the `allowed` ones. Raises InputError with the file and the key.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        found = next((path / name for name in NAMES if (path / name).exists()), None)
        if found is None:
            raise InputError(f"{path}: there is no {' or '.join(NAMES)} in this folder")
        path = found
    text = read_text(path, MOST_LAUNCH)
    try:
        about = json.loads(text) if path.suffix == ".json" or text.lstrip().startswith("{") else parse_toml(text)
    except RecursionError:
        raise InputError(f"{path}: not TOML or JSON (nested too deeply)") from None
    except ValueError as e:
        raise InputError(f"{path}: not TOML or JSON ({e})") from None
    about = checked(about, str(path))
    for where, name in _files(about, named_ptx=ptx is None):
        if named_inside(path.parent, name, allowed) is None:
            raise InputError(
                f"{path}: {where} = {shown(name)}: lies outside of the folder of the launch file; put it there, name it on the command line, or "
                "allow its folder with --source FOLDER"
            )
    kernel = pathlib.Path(ptx) if ptx is not None else path.parent / about.get("ptx", KERNEL)
    name = path.parent.name if path.name in NAMES else path.stem
    return LaunchFile(name, read_text(kernel), about, path.parent, str(path))


def _files(about: Mapping[str, Any], *, named_ptx: bool) -> Iterator[tuple[str, str]]:
    """(key, file) of every file that a launch file makes smemsim read."""
    if named_ptx:
        yield "ptx", about.get("ptx", KERNEL)
    for one in about["arrays"]:
        if "file" in one:
            yield f"array {one['name']}: file", one["file"]
    for name, wanted in about.get("expected", {}).items():
        if wanted.endswith(".npy"):
            yield f"expected: {name}", wanted


def read_text(path: pathlib.Path, most: int = MOST_PTX) -> str:
    """A text file's contents, of at most `most` bytes. InputError names it."""
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as e:
        hint = "; a cubin? smemsim reads PTX, which `nvcc -ptx` writes" if path.suffix in (".cubin", ".o", ".fatbin", ".ptx") else ""
        raise InputError(f"{path}: byte {e.start} is not UTF-8{hint}") from None
