"""Launch files: their keys, their checks, and recorded launches.

Recorded launches, `smemsim replay` and `smemsim run` read this one form.

A suite of kind "launch" has a folder `kernels` with those of its cases, and in its arrays the SHA-256 of every output, of every row of it, some elements,
and the bytes of small ones and of those that approximate instructions made.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import math
import pathlib
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from smemsim.arguments import is_whole, shown, suggestion, whole
from smemsim.budget import ask
from smemsim.errors import InputError, SmemsimError, TraceError
from smemsim.evidence.format import Suite
from smemsim.evidence.recipes import WIDTHS, array_of
from smemsim.files import named_inside, parse_toml, read_array, read_bytes
from smemsim.judge.numbers import Tolerance
from smemsim.program.arrays import DeviceArray, number_bytes, storage
from smemsim.program.device import Device
from smemsim.program.launch import LaunchConfig, RunOptions
from smemsim.ptx.module import Parameter
from smemsim.spec.formats import FORMATS
from smemsim.words.tensor_map import TensorMap

__all__ = [
    "ARGUMENTS",
    "ARRAY_KEYS",
    "BESIDE",
    "KEYS",
    "SCHEMA",
    "TOLERANCES",
    "VALUES",
    "WORDS",
    "LaunchFile",
    "RecordedLaunches",
    "checked",
    "load_launch_file",
    "read_launch_file",
    "row_digest",
    "sample_places",
]


# ---- The keys of launch files and what they say


KEYS = {
    "schema": "smemsim.launch/1",
    "title": "free text",
    "ptx": "the PTX file, in the folder of this one or below; kernel.ptx if left out",
    "entry": "the kernel; may be left out where the PTX has only one",
    "arch": "sm_90a, sm_100a or sm_103a; else what .target says",
    "grid": "CTAs, one to three numbers",
    "block": "threads of a CTA, one to three numbers",
    "cluster": "CTAs of a cluster, one to three numbers",
    "shared_bytes": "dynamic shared memory",
    "limit": "blocks of instructions that CTAs may execute until the kernel counts as endless",
    "limit_seconds": "how long the kernel may run; it is ended then, without a finding",
    "cooperative": "true: a cooperative launch (of recorded launches)",
    "cancel": "how clusterlaunchcontrol.try_cancel is answered: resident, never, one, always, or all for each of them",
    "args": "a list: the parameters in their order",
    "arrays": "a list of arrays, or a table of them by name",
    "outputs": "the arrays that are printed; all that changed, if left out",
    "expected": 'what they must hold, by name: "file.npy" or "sha256:..."',
    "exact": "true: every bit counts, as with `--exact`",
    "why_not_exact": "free text",
    "rtol": "how far an element may be off, as a part of the expected number: |found - expected| <= atol + rtol * |expected|, as in numpy",
    "atol": "how far it may be off besides; where one of the two is given, the other is 0. Without both, rounding is told and no difference",
    "tolerance": "{relative, absolute}: older words for rtol and atol; where `exact` is true, every bit counts all the same",
    "name": "of a kept launch",
    "compiler": "of a kept launch",
}
ARRAY_KEYS = {
    "name": "how arguments and outputs call it",
    "dtype": "element type: f16 bf16 f32 f64 e4m3 e5m2 s8 u8 ... u64",
    "shape": "extents, the slowest first",
    "distribution": '"zeros", "bits", "floats", {fill = x}, {iota = [first, step]}, {integers = [low, high]}, {uniform = [low, high]}, '
    "{normal = [mean, deviation]}, {values = [...]}, {permutation = n}",
    "seed": "of what is drawn",
    "random": "a second distribution, for `--random`",
    "file": "instead of a distribution: an .npy file, in the folder of this one or below",
}
ARGUMENTS = {
    "array": "the address of an array",
    "map": "the 128 bytes of a tensor map: the arguments of the encode call by name, `global_address` an array",
    "maps": "the address of such maps, one behind the other in global memory",
    "value": "a number",
    "null": "true: a null pointer",
    "scratch": "the address of so many zeroed bytes",
    "bytes": "a structure, as hexadecimal digits",
}
BESIDE = {"array": {"offset": "bytes that are added to the address"}, "value": {"type": "its PTX type: u32, s64, f32 ..."}}


CONFIG_KEYS = ("grid", "block", "cluster", "shared_bytes", "cancel")  # members of LaunchConfig, checked there
OPTION_KEYS = ("limit", "limit_seconds")  # members of RunOptions, likewise


# ---- What launch files may say: every key looked at, and a sentence with file and key for what does not fit


SCHEMA = "smemsim.launch/1"
VALUES = {f"{kind}{bits}": bits // 8 for bits in (8, 16, 32, 64) for kind in "sub"} | {"f16": 2, "f32": 4, "f64": 8}  # bytes
TOLERANCES, WORDS = ("relative", "absolute"), ("rtol", "atol")
MOST_SCRATCH = 1 << 34  # bytes
MOST_NAME = 200  # characters of an array's name
_DIGEST = re.compile("sha256:[0-9a-f]{64}")


def checked(raw: Any, name: str) -> dict[str, Any]:
    """What a launch file says, with defaults, every key looked at. InputError names file, key and what it should be."""
    if not isinstance(raw, dict):
        raise InputError(f"{name}: needs a table with the keys of a launch, such as grid, block, args, arrays")
    if raw.get("schema", SCHEMA) != SCHEMA:
        raise InputError(f"{name}: schema = {shown(raw['schema'])}: this smemsim reads {SCHEMA!r}")
    _known(name, raw, KEYS)
    about: dict[str, Any] = {"entry": "", "arch": "", "outputs": [], "shared_bytes": 0, "args": [], **raw}
    try:
        config = LaunchConfig(**{key: raw[key] for key in CONFIG_KEYS if key in raw})
        RunOptions(**{key: raw[key] for key in OPTION_KEYS if key in raw})
    except InputError as e:
        raise InputError(f"{name}: {e}") from None
    about |= {key: getattr(config, key) for key in ("grid", "block", "cluster")}
    for key in ("ptx", "entry", "arch"):
        if key in raw and not isinstance(raw[key], str):
            raise InputError(f"{name}: {key} = {shown(raw[key])}: needs a text")
    for key in ("exact", "cooperative"):
        if key in raw and not isinstance(raw[key], bool):
            raise InputError(f"{name}: {key} = {shown(raw[key])}: needs true or false")
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
    for one, wanted in expected.items():
        if wanted.startswith("sha256:") and not _DIGEST.fullmatch(wanted):
            raise InputError(f"{name}: expected: {one} = {shown(wanted)}: needs sha256: and 64 hexadecimal digits")
    for key, names in (("outputs", outputs), ("expected", expected)):
        for one in names:
            _an_array(f"{name}: {key}: {shown(one)}", one, arrays)
    tolerance = raw.get("tolerance", {})
    if not isinstance(tolerance, dict) or not all(isinstance(x, (int, float)) and 0 <= x < math.inf for x in tolerance.values()):
        raise InputError(f"{name}: tolerance = {shown(tolerance)}: needs {{relative = 1e-5}}")
    _known(f"{name}: tolerance", tolerance, TOLERANCES)
    given = {key: raw[key] for key in WORDS if key in raw}
    for key, x in given.items():
        if isinstance(x, bool) or not isinstance(x, (int, float)) or not 0 <= x < math.inf:
            raise InputError(f"{name}: {key} = {shown(x)}: needs a number, 0 or more")
    for other in ("exact", "tolerance") if given else ():
        if raw.get(other):
            raise InputError(f"{name}: {' and '.join(given)} and {other} = {shown(raw[other])}: needs one of the two")
    return about


def _known(name: str, table: Mapping[str, Any], keys: Iterable[str]) -> None:
    for key in table:
        if key not in keys:
            raise InputError(f"{name}: {shown(key)}: no such key{suggestion(key, keys)}; known are {', '.join(sorted(keys))}")


def _an_array(where: str, name: Any, arrays: list[str]) -> None:
    if name not in arrays:
        raise InputError(f"{where} is none of the arrays{suggestion(name, arrays)} ({', '.join(arrays) or 'there are none'})")


def _arrays(name: str, raw: Any) -> list[dict[str, Any]]:
    """Recipes and files as a list; tables by name are taken too."""
    listed = [{"name": key, **one} for key, one in raw.items() if isinstance(one, dict)] if isinstance(raw, dict) else raw
    if not isinstance(listed, list) or (isinstance(raw, dict) and len(listed) != len(raw)):
        raise InputError(f"{name}: arrays = {shown(raw)}: needs a list of tables, or a table of tables")
    for n, one in enumerate(listed):
        where = f"{name}: arrays[{n}]"
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise InputError(f"{where} = {shown(one)}: needs a table with a name")
        if not one["name"] or not one["name"].isprintable() or len(one["name"]) > MOST_NAME:
            raise InputError(f"{where}: name = {shown(one['name'])}: needs 1 to {MOST_NAME} characters that can be printed")
        _known(where, one, ARRAY_KEYS)
        if "file" in one and not isinstance(one["file"], str):
            raise InputError(f"{where}: file = {shown(one['file'])}: needs the name of an .npy file")
        if "file" in one and one.keys() & {"distribution", "random"}:
            raise InputError(f"{where} ({one['name']}): has a file and a distribution; needs one of the two")
        if "dtype" in one and "file" in one and (not isinstance(one["dtype"], str) or one["dtype"] not in FORMATS):
            raise InputError(f"{where}: dtype = {shown(one['dtype'])}: not an element type{suggestion(one['dtype'], FORMATS)}")
        if "shape" in one and not (isinstance(one["shape"], list) and all(is_whole(x) and x >= 0 for x in one["shape"])):
            raise InputError(f"{where} ({one['name']}): shape = {shown(one['shape'])}: needs a list of whole numbers, such as [128, 64]")
        if "file" not in one and not {"dtype", "shape", "distribution"} <= one.keys():
            raise InputError(f"{where} ({one['name']}): needs dtype, shape and distribution, or file")
    if len({one["name"] for one in listed}) != len(listed):
        raise InputError(f"{name}: arrays: two have the same name")
    return listed


def _argument(where: str, arg: Any, arrays: list[str]) -> None:
    kinds = [kind for kind in ARGUMENTS if isinstance(arg, dict) and kind in arg]
    if len(kinds) != 1:
        raise InputError(f"{where} = {shown(arg)}: needs one of {', '.join(ARGUMENTS)}{', and no two of them' if kinds else ''}")
    kind = kinds[0]
    _known(where, arg, {kind, *BESIDE.get(kind, ())})
    told = [arg["map"]] if kind == "map" else arg["maps"] if kind == "maps" else []
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told):
        raise InputError(f"{where}: {kind} = {shown(arg[kind])}: needs the arguments of the encode call by name")
    for one in told:
        call = "im2col" if "channels_per_pixel" in one else "tiled"
        known = inspect.signature(getattr(TensorMap, call)).parameters
        _known(f"{where}: {kind}", one, known)
        if missing := [key for key, p in known.items() if p.default is p.empty and key not in one]:
            raise InputError(f"{where}: {kind}: {', '.join(missing)} not given ({', '.join(known)} are those of {call})")
    key, names = ("array", [arg["array"]]) if kind == "array" else ("global_address", [one.get("global_address") for one in told])
    for one in names:
        _an_array(f"{where}: {key} = {shown(one)}:", one, arrays)
    if kind == "value" and (not isinstance(arg.get("type"), str) or arg["type"] not in VALUES):
        raise InputError(f"{where}: type = {shown(arg.get('type'))}: needs the parameter's PTX type: {' '.join(VALUES)}")
    if kind == "value" and not isinstance(arg["value"], (int, float)):
        raise InputError(f"{where}: value = {shown(arg['value'])}: needs a number")
    if "offset" in arg:
        whole(f"{where}: offset", arg["offset"], most_bits=48)
    if kind == "scratch" and whole(f"{where}: scratch", arg["scratch"], minimum=0) > MOST_SCRATCH:
        raise InputError(f"{where}: scratch = {arg['scratch']} B: at most {MOST_SCRATCH} B")
    if kind == "null" and arg["null"] is not True:
        raise InputError(f"{where}: null = {shown(arg['null'])}: needs true")
    if kind == "bytes" and not (isinstance(arg["bytes"], str) and re.fullmatch(r"(\s*[0-9a-fA-F]{2})*\s*", arg["bytes"])):
        raise InputError(f"{where}: bytes = {shown(arg['bytes'])}: needs hexadecimal digits, two for each byte")


# ---- Launch files: what a kernel is given, as TOML or JSON beside its PTX, schema smemsim.launch/1


KERNEL, NAMES = "kernel.ptx", ("launch.json", "launch.toml")
MOST_PTX, MOST_LAUNCH = 1 << 28, 1 << 24  # bytes of a PTX file, and of a launch file
Encode = Callable[[TensorMap, int], bytes]


@dataclasses.dataclass(frozen=True, eq=False)
class LaunchFile:
    """One launch: `ptx` is the text, `about` what the file says with its shapes as three numbers each (None where it says none), files are looked for in `folder`.

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

    def config(self, args: Sequence[Any] = ()) -> LaunchConfig:
        """The launch that the file describes, with its arguments."""
        given = {key: self.about[key] for key in CONFIG_KEYS if key in self.about}
        return LaunchConfig(**given, args=args, entry=self.about["entry"] or None, cooperative=self.about.get("cooperative", False))

    @property
    def options(self) -> dict[str, Any]:
        """The members of `RunOptions` that the file says."""
        return {key: self.about[key] for key in OPTION_KEYS if key in self.about}

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


# ---- Recorded launches: the folder with `kernel.ptx` and `launch.json` (see `launch_file`), and what a GPU made of it


DESCRIPTION = "launch.json"
SAMPLES = 64


def load_launch_file(folder: str | pathlib.Path) -> LaunchFile:
    """Read a recorded launch's folder. TraceError says what is wrong with it."""
    path = pathlib.Path(folder)
    try:
        return read_launch_file(path / DESCRIPTION, path / KERNEL)
    except InputError as e:
        raise TraceError(f"{e}; a recorded launch is a folder with {KERNEL} and {DESCRIPTION}: restore it from version control") from None


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
        name = str(self.suite.arrays["name"][case])
        folder = named_inside(self.suite.path / "kernels", name)
        if folder is None:
            raise TraceError(f"{self.suite.path}: case {case} is called {shown(name)}, which is no folder of its kernels")
        file = load_launch_file(folder)
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
