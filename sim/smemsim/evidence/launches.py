"""Launch files: their keys, their checks, and recorded launches.

`smemsim replay` and `smemsim run` read the same form. A suite of kind "launch" has a folder `kernels` with its cases.
Its arrays have the SHA-256 of every output and of every row, some elements, and the bytes of small outputs and of
approximate ones.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import math
import os
import pathlib
import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from smemsim.base.arguments import SAMPLE, is_whole, shown, suggestion, whole
from smemsim.base.array_files import read_array
from smemsim.base.budget import ask, hold
from smemsim.base.errors import InputError, SmemsimError, TraceError
from smemsim.base.files import named_inside, read_bytes
from smemsim.core.finding import Path
from smemsim.core.machine.global_memory import LINE
from smemsim.core.ptx.demangle import shorter_name
from smemsim.core.ptx.module import Address, Function, Module, Parameter, Register, Symbol
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.tensor_map import MAP_BYTES
from smemsim.core.tables import Key, Kind, Source, TableError, as_in, check_table, is_list_of, mistake
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.numbers import Tolerance
from smemsim.evidence.format import Suite
from smemsim.evidence.recipes import EMPTY, WIDTHS, array_of, extents
from smemsim.run.engine.arrays import DeviceArray, number_bytes, storage
from smemsim.run.engine.device import Device
from smemsim.run.engine.launch import LaunchConfig, RunOptions, three

__all__ = [
    "ARGUMENTS",
    "ARRAY_KEYS",
    "BESIDE",
    "IS_DIGEST",
    "KEYS",
    "OPTION_KEYS",
    "SCHEMA",
    "TOLERANCES",
    "VALUES",
    "WORDS",
    "LaunchFile",
    "RecordedLaunches",
    "checked",
    "example_args",
    "launch_text",
    "load_launch_file",
    "read_launch_file",
    "row_digest",
    "sample_places",
    "sketch",
]


# ---- The keys of launch files: what they hold and what they mean


SCHEMA = "smemsim.launch/1"
# bytes
VALUES = {f"{kind}{bits}": bits // 8 for bits in (8, 16, 32, 64) for kind in "sub"} | {"f16": 2, "f32": 4, "f64": 8}
TOLERANCES, WORDS = ("relative", "absolute"), ("rtol", "atol")
MOST_SCRATCH = 1 << 34  # bytes
MOST_NAME = 200  # characters of an array's name
# over the arrays as they were, which recorded launches have (golden/compiled/README.md)
_EXPRESSION = re.compile(r"[\s()\[\]*+&|^]")
IS_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_BYTES = re.compile(r"(\s*[0-9a-fA-F]{2})*\s*")


def _is_measures(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(x, (int, float)) and 0 <= x < math.inf for x in value.values())


def _is_address(value: Any) -> bool:
    return is_whole(value) and value >= 0


def _are_ctas(value: Any) -> bool:
    return value == SAMPLE or (bool(value) and is_list_of(value, lambda n: n == SAMPLE or _is_address(n)))


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(x, str) for x in value.values())


def _are_tables(value: Any) -> bool:
    return is_list_of(value, lambda table: isinstance(table, dict))


_LIST, _TABLE = {"type": "array"}, {"type": "object"}
_ENCODE = "the arguments of the encode call by name"
KEYS: dict[str, Key] = {
    "schema": Key("any", f'the version of the format, "{SCHEMA}"', default="this version"),
    "title": Key("any", "a title"),
    "ptx": Key("text", "the PTX file, in the folder of this file or below", default="kernel.ptx"),
    "entry": Key("text", "the name of the kernel", default="the only kernel of the PTX"),
    "arch": Key("text", "the architecture, such as sm_90a", default="`.target` of the PTX"),
    "grid": Key("any", "the grid: CTAs, one to three numbers", default="1"),
    "block": Key("any", "the block: threads of a CTA, one to three numbers", default="`.reqntid` of the kernel, or 1"),
    "cluster": Key("any", "the CTAs of a cluster, one to three numbers", default="that of the kernel, or no cluster"),
    "shared_bytes": Key("any", "the dynamic shared memory of a CTA, in bytes", default="0"),
    "limit": Key("any", "after this many basic blocks (instructions without a branch between) that a wave of CTAs executes, the kernel counts as endless (X006)", default="20,000,000"),
    "limit_seconds": Key("any", "after this many seconds the kernel is stopped, without a finding", default="no limit"),
    "cooperative": Key("bool", "true: a cooperative launch. A kernel that calls grid.sync() needs it", default="false"),
    "cancel": Key("any", 'how clusterlaunchcontrol.try_cancel is answered. "resident": the clusters that fit on the card together begin, and the others can be taken over. "never": every request is declined. "one": each cluster takes over one other. "always": a cluster takes over all that have not begun. "all": a run with each of never, one and always', default="resident"),
    "schedule": Key("any", "the order in which effects come: a seed, earliest or latest. With all:N, the launch runs with earliest, latest and N seeds", default="every effect is immediate"),
    "sanitize": Key("any", "false: run without the sanitizer (`--no-sanitize`)", default="true"),
    "watch_global": Key("any", "false: do not look for races in global memory (`--no-global-races`)", default="true"),
    "counters": Key("any", "upper bounds of counters (P905), for the launch or for a line. Example: {shared_wavefronts = 1024, global_sectors = {\"gemm.cu:91\" = 64}}"),
    "ctas": Key(Kind('a list of numbers of CTAs, or "sample"', _are_ctas, {"type": ["array", "string"]}), 'run only these CTAs, and the others of their clusters. "sample": CTAs that represent the grid', default="all"),
    "multiprocessors": Key("any", "the number of multiprocessors (%nsmid). It decides how many CTAs run at the same time", default="that of the card"),
    "overrun": Key("any", "a number of bytes. An access that ends at most that far past an array is reported (X001), and the thread continues (`--overrun`)", default="the kernel ends at such an access"),
    "assume": Key("any", "an alternative of a rule, as `--assume` takes it. Example: \"operand.base_offset=ignored\"", default="the rules as they are"),
    "args": Key(Kind("a list, one table for each parameter", lambda value: isinstance(value, list), _LIST), "the parameters of the kernel in their order, a table for each (see args)"),
    "arrays": Key("any", "the arrays: a list, or a table by name (see arrays)"),
    "outputs": Key(Kind("a list of arrays", lambda value: isinstance(value, list), _LIST), "the names of the arrays that are printed", default="all that changed"),
    "expected": Key(Kind('{array = "file.npy" or "sha256:..."}', _are_texts, _TABLE), 'the expected contents of arrays, by name: "file.npy", or "sha256:" and 64 hexadecimal digits, the SHA-256 of the array\'s bytes in C order (`smemsim run` prints it for each output)', default="nothing is compared"),
    "exact": Key("bool", "true: every bit counts (`--exact`). It excludes `rtol` and `atol`", default="false"),
    "why_not_exact": Key("any", "a reason, for readers"),
    "rtol": Key("measure", "the relative tolerance: |found - expected| <= atol + rtol * |expected|, as in numpy", default="0, if `atol` is given"),
    "atol": Key("measure", "the absolute tolerance. Without `rtol` and `atol`, differences that look like rounding are printed and do not count", default="0, if `rtol` is given"),
    "tolerance": Key(Kind("{relative = 1e-5}", _is_measures, _TABLE), "older form of `rtol` and `atol`: {relative = 1e-5, absolute = 0}. With `exact = true` it has no effect. With `rtol` or `atol` it is an error"),
    "name": Key("any", "the name of a recorded launch"),
    "compiler": Key("any", "the compiler of a recorded launch"),
}  # fmt: skip
ARRAY_KEYS: dict[str, Key] = {
    "name": Key("any", "the name that arguments and outputs use. Required if `arrays` is a list; in a table the key is the name"),
    "dtype": Key("any", "required without `file`: the element type: f16 bf16 f32 f64 e4m3 e5m2 s8 u8 ... u64"),
    "shape": Key("any", "required without `file`: the extents, the slowest first"),
    "distribution": Key("any", '"zeros", "empty" (uninitialised), "bits" (random bits), "floats" (random numbers of every kind, infinities and NaNs too), {fill = x}, {iota = [first, step]}, '
    "{integers = [low, high]} (both included), {uniform = [low, high]}, {normal = [mean, deviation]}, {values = [...]} (repeated to the shape), {permutation = n} (numbers below n, each once a row)"),
    "seed": Key("any", "the seed of random contents"),
    "random": Key("any", "a distribution that replaces `distribution` if the command has `--random`. Example: {normal = [0, 1]}"),
    "file": Key(Kind("the name of an .npy file", lambda value: isinstance(value, str), {"type": "string"}), "instead of `distribution`: an .npy file with the contents, in the folder of this file or below. Bytes (uint8) are read as elements of `dtype`"),
    "address": Key(Kind("an address, 0 or more", _is_address, {"type": "integer"}), "the address of the first byte in global memory", default="any free address"),
    "variable": Key("text", "the name of a `.global` or `.const` variable of the PTX, such as \"table\". The array is the content of the variable before the launch"),
}  # fmt: skip
ARGUMENTS: dict[str, Key] = {
    "array": Key("any", "the address of an array"),
    "map": Key(Kind(_ENCODE, lambda value: isinstance(value, dict), _TABLE), "a tensor map, passed by value: the arguments of the encode call by name. `global_address` is the name of an array"),
    "maps": Key(Kind(_ENCODE, _are_tables, _LIST), "the address of several tensor maps, one after the other in global memory. The value is a list of tables like that of `map`: [{data_type = \"bf16\", ...}, {...}]"),
    "value": Key(Kind("a number", lambda value: isinstance(value, (int, float)), {"type": "number"}), "a number"),
    "null": Key(Kind("true", lambda value: value is True, {"const": True}), "true: a null pointer"),
    "scratch": Key("any", "the address of this many bytes, all 0"),
    "bytes": Key(Kind("hexadecimal digits, two for each byte", lambda value: isinstance(value, str) and bool(_BYTES.fullmatch(value)), {"type": "string"}), "a structure passed by value, as hexadecimal digits. Example: \"0100000000000000\" is 8 bytes"),
}  # fmt: skip
_TYPE = Kind(f"the parameter's PTX type: {' '.join(VALUES)}", lambda value: isinstance(value, str) and value in VALUES, {"enum": [*VALUES]})
BESIDE: dict[str, dict[str, Key]] = {
    "array": {"offset": Key("any", "bytes that are added to the address of `array`", default="0")},
    "value": {"type": Key(_TYPE, "the PTX type of `value`, such as u32, s64 or f32. It is required with `value`", required=True)},
}
SOME = 'for example {array = "A"} or {value = 128, type = "u32"}'  # arguments, for messages
CONFIG_KEYS = ("grid", "block", "cluster", "shared_bytes", "cancel")  # members of LaunchConfig, checked there
OPTION_KEYS = (
    "counters",
    "limit",
    "limit_seconds",
    "schedule",
    "sanitize",
    "watch_global",
    "ctas",
    "assume",
    "multiprocessors",
    "overrun",
)  # members of RunOptions, too


# ---- Reading a launch file: every key looked at, and a sentence with file, line and key for what does not fit


def checked(raw: object, source: Source) -> dict[str, Any]:
    """The content of a launch file, with defaults, every key looked at. TableError names file, line, key and what it
    should be.
    """
    try:
        return _launch(raw)
    except TableError as e:
        raise source.located(e) from None


def _launch(raw: object) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise TableError("needs a table with the keys of a launch, such as grid, block, args, arrays")
    if raw.get("schema", SCHEMA) != SCHEMA:
        raise _mistake(Path.of("schema"), raw["schema"], f"this smemsim reads {SCHEMA!r}")
    check_table(raw, KEYS, Path(), between=" = ")
    about: dict[str, Any] = {"entry": "", "arch": "", "outputs": [], "shared_bytes": 0, "args": [], **raw}
    for members, keys in ((LaunchConfig, CONFIG_KEYS), (RunOptions, OPTION_KEYS)):
        for key in keys:
            if key in raw:
                _member(members, key, raw[key])
    config = LaunchConfig(**{key: raw[key] for key in CONFIG_KEYS if key in raw})
    about |= {key: getattr(config, key) for key in ("grid", "block", "cluster")}
    about["arrays"] = _arrays(raw.get("arrays", []))
    arrays = dict.fromkeys(array["name"] for array in about["arrays"])
    for n, argument in enumerate(about["args"]):
        _argument(Path.of("args", n), argument, arrays)
    _check_names(about["outputs"], raw.get("expected", {}), arrays)
    for name, wanted in raw.get("expected", {}).items():
        if wanted.startswith("sha256:") and not IS_DIGEST.fullmatch(wanted):
            raise _mistake(Path.of("expected", name), wanted, "needs sha256: and 64 hexadecimal digits")
        if not wanted.startswith("sha256:") and not wanted.endswith(".npy") and not _EXPRESSION.search(wanted):
            raise _mistake(Path.of("expected", name), wanted, "needs the name of an .npy file, or sha256: and 64 hexadecimal digits")
    check_table(raw.get("tolerance", {}), dict.fromkeys(TOLERANCES, Key("any", "")), Path.of("tolerance"))
    _check_tolerances(raw)
    return about


def _check_names(outputs: Sequence[str], expected: Mapping[str, str], arrays: Collection[str]) -> None:
    """Names of arrays, in `outputs` and `expected`."""
    if len(outputs) > len(arrays):
        raise TableError(f"outputs: {len(outputs)} names of {len(arrays)} arrays; each is named once at most", Path.of("outputs"))
    for key, names in (("outputs", outputs), ("expected", expected)):
        for n, name in enumerate(names):
            _check_array(Path.of(key, n if key == "outputs" else name), f"{key}: {shown(name)}", name, arrays)


def _mistake(path: Path, value: object, says: str) -> TableError:
    return mistake(path, f"{shown(value)}: {says}", " = ")


def _member(members: type[LaunchConfig | RunOptions], key: str, value: object) -> None:
    """A key that a launch or its options check themselves."""
    try:
        members(**{key: value})  # type: ignore[arg-type]
    except InputError as e:
        raise TableError(str(e), Path.of(key)) from None


def _at(path: Path, taken: Callable[..., Any], value: object, **more: Any) -> Any:
    """An argument as `taken` makes it; what it refuses is a mistake at the path."""
    try:
        return taken(str(path), value, **more)
    except InputError as e:
        raise TableError(str(e), path) from None


def _check_tolerances(raw: dict[str, Any]) -> None:
    """rtol and atol exclude what says the same in other words."""
    given = [key for key in WORDS if key in raw]
    for other in ("exact", "tolerance") if given else ():
        if raw.get(other):
            raise TableError(f"{' and '.join(given)} and {other} = {shown(raw[other])}: needs one of the two", Path.of(given[0]))


def _check_array(path: Path, told: str, name: object, arrays: Collection[str]) -> None:
    if not isinstance(name, str) or name not in arrays:
        raise TableError(f"{told} is none of the arrays{suggestion(name, arrays)} ({', '.join(arrays) or 'there are none'})", path)


def _arrays(raw: object) -> list[dict[str, Any]]:
    """Recipes and files as a list; tables by name are taken too."""
    entries: list[tuple[str | int, Any]] = []
    if isinstance(raw, dict) and all(isinstance(table, dict) for table in raw.values()):
        entries = [(name, {"name": name, **table}) for name, table in raw.items()]
    elif isinstance(raw, list):
        entries = list(enumerate(raw))
    else:
        raise _mistake(Path.of("arrays"), raw, f"needs a list of tables, or a table of tables{as_in('arrays', KEYS['arrays'])}")
    for place, table in entries:
        _check_recipe(Path.of("arrays", place), table)
    names = [table["name"] for _, table in entries]
    if len(set(names)) != len(names):
        raise mistake(Path.of("arrays"), "two have the same name")
    return [table for _, table in entries]


def _check_recipe(path: Path, table: Any) -> None:
    """One array: its name, and a file or a recipe."""
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        raise _mistake(path, table, f"needs a table with a name{as_in('arrays', KEYS['arrays'])}")
    name = table["name"]
    if not name or not name.isprintable() or len(name) > MOST_NAME:
        raise _mistake(path / "name", name, f"needs 1 to {MOST_NAME} characters that can be printed")
    check_table(table, ARRAY_KEYS, path, between=" = ")
    if "file" in table and table.keys() & {"distribution", "random"}:
        raise TableError(f"{path} ({name}): has a file and a distribution; needs one of the two", path)
    if not isinstance(table.get("dtype", ""), str):
        raise _mistake(path / "dtype", table["dtype"], "needs the name of an element type")
    if "dtype" in table and "file" in table and (not isinstance(table["dtype"], str) or table["dtype"] not in FORMATS):
        raise _mistake(path / "dtype", table["dtype"], f"not an element type{suggestion(table['dtype'], FORMATS)}")
    if "shape" in table:
        try:
            extents(table["shape"])
        except ValueError as e:
            raise TableError(f"{path} ({name}): {e}", path / "shape") from None
    if "file" not in table and not {"dtype", "shape", "distribution"} <= table.keys():
        raise TableError(f"{path} ({name}): needs dtype, shape and distribution, or file{as_in('arrays', KEYS['arrays'])}", path)


def _argument(path: Path, table: Any, arrays: Collection[str]) -> None:
    """One argument: one kind, with its further keys."""
    kinds = [kind for kind in ARGUMENTS if isinstance(table, dict) and kind in table]
    if len(kinds) != 1:
        raise _mistake(path, table, f"needs one of {', '.join(ARGUMENTS)}{', and no two of them' if kinds else ''}; {SOME}")
    kind = kinds[0]
    check_table(table, {kind: ARGUMENTS[kind], **BESIDE.get(kind, {})}, path, between=" = ")
    match kind:
        case "array":
            _check_array(path / kind, f"{path}.array = {shown(table[kind])}:", table[kind], arrays)
        case "map":
            _check_map(path / kind, table[kind], arrays)
        case "maps":
            for n, arguments in enumerate(table[kind]):
                _check_map(path / kind / n, arguments, arrays)
        case "scratch" if _at(path / kind, whole, table[kind], minimum=0) > MOST_SCRATCH:
            raise TableError(f"{path / kind} = {table[kind]} B: at most {MOST_SCRATCH} B", path / kind)
        case "value":
            _check_range(path / kind, table[kind], table["type"])
    if "offset" in table:
        _at(path / "offset", whole, table["offset"], most_bits=48)


def _check_range(path: Path, value: float, kind: str) -> None:
    """A whole number that its PTX type has not: its bits would be another number's."""
    if kind[0] == "f" or not float(value).is_integer():
        return
    bits = 8 * VALUES[kind]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    if not low <= value <= high:
        other = f"u{bits}" if kind[0] == "s" else f"s{bits}"
        fits = f"; write {other}" if (low < 0) == (value > high) and abs(value) < 1 << bits - (value < 0) else ""
        raise _mistake(path, value, f"needs {low} to {high} for type {kind}{fits}")


def _check_map(path: Path, arguments: dict[str, Any], arrays: Collection[str]) -> None:
    """The arguments of an encode call: those that it has, and all that it needs."""
    call = "im2col" if "channels_per_pixel" in arguments else "tiled"
    known = inspect.signature(getattr(TensorMap, call)).parameters
    check_table(arguments, dict.fromkeys(known, Key("any", "")), path)
    if missing := [name for name, p in known.items() if p.default is p.empty and name not in arguments]:
        raise mistake(path, f"{', '.join(missing)} not given ({', '.join(known)} are those of {call}){as_in('map', ARGUMENTS['map'])}")
    address = arguments.get("global_address")
    _check_array(path / "global_address", f"{path}.global_address = {shown(address)}:", address, arrays)


# ---- Launch files: what a kernel is given, as TOML or JSON beside its PTX, schema smemsim.launch/1


KERNEL, NAMES = "kernel.ptx", ("launch.json", "launch.toml")
MOST_PTX, MOST_LAUNCH = 1 << 28, 1 << 24  # bytes of a PTX file, and of a launch file
Encode = Callable[[TensorMap, int], bytes]


@dataclasses.dataclass(frozen=True, eq=False)
class LaunchFile:
    """One launch.

    `ptx` is the text. `about` is the content of the file, with each shape as three numbers (None if it has none). Files
    are looked for in `folder`. `path` is the name of the launch file in messages (default: `name`).
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
    def files(self) -> dict[str, pathlib.Path]:
        """The file of each key that names one: arrays and expected contents."""
        return {key: self.folder / name for key, name in _files(self.about, named_ptx=False)}

    @property
    def options(self) -> dict[str, Any]:
        """The members of `RunOptions` that the file says."""
        return {key: self.about[key] for key in OPTION_KEYS if key in self.about}

    def arrays(self, *, random: bool = False) -> dict[str, np.ndarray]:
        """Every array as it is before the launch, by name; those of bf16, e4m3 and e5m2 as raw bits. `random`: the
        second way to fill them.
        """
        return {one["name"]: self._array(one, random) for one in self.about["arrays"]}

    @property
    def array_bytes(self) -> int:
        """Bytes of all arrays that have recipes; those of files are known when they are read."""
        return sum(math.prod(one["shape"]) * WIDTHS.get(one["dtype"], 1) for one in self.about["arrays"] if "file" not in one)

    def _array(self, recipe: Mapping[str, Any], random: bool) -> np.ndarray:
        where = f"{self.called}: array {recipe['name']}"
        if "file" not in recipe:
            try:
                return array_of({**recipe, "distribution": recipe["random"]} if random and "random" in recipe else recipe)
            except TraceError as e:
                raise InputError(f"{self.called}: {e}") from None
        made = read_array(self.folder / recipe["file"])
        if made.dtype.kind == "V" and made.dtype.names is None:
            made = made.view(f"u{made.dtype.itemsize}")
        if "dtype" in recipe:
            made = _elements(made, recipe["dtype"], f"{where}: {recipe['file']}")
        if math.prod(recipe.get("shape", made.shape)) != made.size:
            raise InputError(f"{where}: {recipe['file']} has {made.size} elements, {made.shape}; shape = {recipe['shape']} has others")
        return made.reshape(recipe.get("shape", made.shape))

    def dtype(self, name: str) -> str:
        """The element type of an array; "" where the file does not say."""
        return str(next(one for one in self.about["arrays"] if one["name"] == name).get("dtype", ""))

    @property
    def tolerance(self) -> Tolerance | None:
        """The tolerance of outputs: `rtol` and `atol`, or their older names; a missing one
        is 0. None if there is none.
        """
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
        """The bytes of every parameter, with arrays at `addresses`. The 128 bytes of a map are made by `encode`
        (default: the model).

        The function `place` puts scratch memory and maps with a pointer into global memory, and returns the address.
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
                    ask(f"args[{n}].scratch", arg["scratch"])
                    return placed(np.zeros(arg["scratch"] + LINE, np.uint8)[: arg["scratch"]])
                case "bytes":
                    return bytes.fromhex(arg["bytes"])
                case _:
                    return bytes(8)
        except (KeyError, TypeError, ValueError, struct.error, SmemsimError) as e:
            raise InputError(f"{self.called}: args[{n}] = {shown(dict(arg))} cannot be made: {_why(e)}") from None

    def check_types(self, parameters: Sequence[Parameter], *, are_options: bool = False) -> None:
        """InputError if a value's type is floating point and the kernel's parameter is an integer, or the other way
        round: its bytes would fit. The fix is an option --arg if `are_options`, else an entry of the file.
        """
        for n, (arg, parameter) in enumerate(zip(self.about["args"], parameters, strict=False)):
            given, wanted = str(arg.get("type", "b"))[0], parameter.type[0]
            if given != wanted and "f" in (given, wanted) and "b" not in (given, wanted):
                fix = _option_for(parameter, arg["value"]) if are_options else _line_for(parameter)
                raise InputError(
                    f"{self.called}: args[{n}]: type = {arg['type']}, parameter {parameter.name} is .{parameter.type}; write {fix}"
                )

    def check_count(self, function: Function) -> None:
        """Raise InputError, with the lines to write, if the file does not have one argument for each parameter."""
        given, wanted = len(self.about["args"]), len(function.parameters)
        if given == wanted:
            return
        told = f"remove {given - wanted} from args"
        if given < wanted:
            missing = _sketched(function)[given:]
            told = "\n    ".join(["add to args:", *(_listed(arg) for arg, _ in missing)])
            if arrays := [_listed(array) for _, array in missing if array is not None]:
                told += "\n    ".join(["\n  and to arrays:", *arrays])
        raise InputError(f"{self.called}: args: the file has {given}, the kernel has {wanted} parameters; {told}")

    def placed(self, device: Device, *, random: bool = False) -> tuple[dict[str, DeviceArray], list[bytes]]:
        """(its arrays in a device's memory by name, the arguments of a launch there)."""
        ask(f"{self.called}: all arrays together", self.array_bytes)
        arrays = {
            recipe["name"]: device.array(self._array(recipe, random), name=recipe["name"], address=recipe.get("address"))
            for recipe in self.about["arrays"]
            if "variable" not in recipe
        }
        for recipe in self.about["arrays"]:
            name = recipe["name"]
            if recipe.get("distribution") == EMPTY and not (random and "random" in recipe) and name in arrays and arrays[name].nbytes:
                device.memory.declare_blank(arrays[name].address)
            if "variable" in recipe:
                device.put(device.kernel(self.ptx, self.about["entry"] or None).variable(recipe["variable"]), self._array(recipe, random))
        addresses = {name: x.address for name, x in arrays.items()}
        return arrays, self.parameters(addresses, place=functools.partial(_placed, device))


def _elements(made: np.ndarray, dtype: str, where: str) -> np.ndarray:
    """An array of a file as elements of the type that the launch file gives it. Bytes (uint8) become elements of any
    type, because recorded arrays are bytes.
    """
    kind = storage(dtype)
    size = kind.itemsize
    if made.dtype == np.uint8 and size > 1:
        if made.nbytes % size:
            raise InputError(f"{where} has {made.nbytes} bytes; dtype = {dtype!r} needs a multiple of {size} bytes")
        return np.ascontiguousarray(made).reshape(-1).view(kind if kind.kind in "fiu" else f"u{size}")
    if made.dtype.itemsize != size:
        raise InputError(
            f"{where} has elements of {made.dtype}, of {made.dtype.itemsize} bytes; dtype = {dtype!r} has {size}. "
            f"Give the element type of the file, or save its bytes as uint8"
        )
    return made


def _placed(device: Device, data: np.ndarray) -> int:
    """The address of further bytes in a device's memory. No page of zeros is touched before a kernel does."""
    ask("scratch memory and tensor maps", data.nbytes)
    own = data if data.flags.writeable else data.copy()
    hold(own, own.nbytes)
    return device.memory.bind(own)


def _line_for(parameter: Parameter) -> str:
    """The entry of `args` for a parameter, as a launch file has it.

    >>> _line_for(Parameter("n", "u32", align=4, size=4))
    '{value = 0, type = "u32"}'
    """
    if parameter.size == MAP_BYTES and parameter.align >= MAP_BYTES // 2:
        return _toml({"map": {"global_address": "ARRAY", **_MAP}})
    kind = f"u{8 * parameter.size}" if parameter.type[0] == "b" else parameter.type
    if kind == "u64":
        return '{array = "NAME"}, or {value = 0, type = "u64"} if it is not a pointer'
    return _toml({"value": 0, "type": kind} if VALUES.get(kind) == parameter.size else {"bytes": "00" * parameter.size})


def _option_for(parameter: Parameter, value: float) -> str:
    """The option --arg for a parameter that a number of another type was given for.

    >>> _option_for(Parameter("n", "u32", align=4, size=4), 3.0), _option_for(Parameter("a", "u64", align=8, size=8), 0.5)
    ('--arg u32:3', '--arg zeros:f32:1024 for an array, --arg u64:0 for a number')
    """
    if parameter.type == "u64":
        return "--arg zeros:f32:1024 for an array, --arg u64:0 for a number"
    return f"--arg {parameter.type}:{int(value) if float(value).is_integer() else 0}"


def _why(e: Exception) -> str:
    return f"there is no {e}" if isinstance(e, KeyError) else str(e)


def read_launch_file(
    path: str | pathlib.Path, ptx: str | pathlib.Path | None = None, *, allowed: Sequence[pathlib.Path] = ()
) -> LaunchFile:
    """Read a launch file (.toml or .json) or its folder, with its PTX: `ptx`, else the key `ptx` of the file, else
    kernel.ptx next to it.

    Files that it names must be in its folder, or in one of the `allowed` folders. Raises InputError with the file and
    the key.
    """
    path = pathlib.Path(path)
    if os.path.isdir(path):
        file = next((path / name for name in NAMES if (path / name).exists()), None)
        if file is None:
            raise InputError(f"{path}: there is no {' or '.join(NAMES)} in this folder")
        path = file
    source = Source.of_text(path, read_text(path, MOST_LAUNCH))
    try:
        raw = source.parsed()
    except InputError as e:
        raise InputError(f"{path}: {e}") from None
    except ValueError as e:
        raise InputError(f"{path}: not TOML or JSON ({e})") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    _not_a_launch(raw, path)
    about = checked(raw, source)
    for where, name in _files(about, named_ptx=ptx is None):
        if named_inside(path.parent, name, allowed) is None:
            raise InputError(
                f"{path}: {where} = {shown(name)}: lies outside of the folder of the launch file; put it there, name it on the command line, or "
                "allow its folder with --source FOLDER"
            )
    kernel = pathlib.Path(ptx) if ptx is not None else path.parent / about.get("ptx", KERNEL)
    if ptx is None and "ptx" not in about and not os.path.exists(kernel):
        raise InputError(f'{path}: has no key ptx, and {kernel} is not there; add ptx = "FILE", or smemsim run FILE --launch {path}')
    name = path.parent.name if path.name in NAMES else path.stem
    return LaunchFile(name, read_text(kernel), about, path.parent, str(path))


def _not_a_launch(raw: object, path: pathlib.Path) -> None:
    """InputError for a file that says nothing, and for a scenario."""
    if isinstance(raw, dict) and not raw:
        raise InputError(
            f"{path}: holds nothing; write grid, block, args and arrays, or let `smemsim run kernel.ptx --init > {path.name}` write a launch file "
            "that fits the kernel"
        )
    if isinstance(raw, dict) and {"step", "tensor", "buffer", "map"} & set(raw):
        raise InputError(f"{path}: is a scenario, not a launch file: smemsim check {path}")


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
    data = read_bytes(path, most)
    if data.startswith(b"\x7fELF"):
        raise InputError(
            f"{path}: a program or a cubin, and needs to be PTX: `smemsim exec -- {path}` runs a program, `cuobjdump -ptx` takes PTX out of it, `nvcc -ptx` writes it"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        hint = ""
        if b".version" in data.replace(b"\0", b""):  # UTF-16, as PowerShell writes it, or Latin-1
            hint = "; PTX is ASCII: save the file as ASCII or UTF-8"
        elif path.suffix in (".cubin", ".o", ".fatbin", ".ptx"):
            hint = "; a cubin? smemsim reads PTX, which `nvcc -ptx` writes"
        raise InputError(f"{path}: not a text file (byte {e.start} is not UTF-8){hint}") from None


# ---- Recorded launches: the folder with `kernel.ptx` and `launch.json` (see `launch_file`), and what a GPU made of it


DESCRIPTION = "launch.json"
SAMPLES = 64


def load_launch_file(folder: str | pathlib.Path) -> LaunchFile:
    """Read the folder of a recorded launch. Raises TraceError with what is wrong."""
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
        """The launched kernel. TraceError if the folder's kernel is not the one that ran."""
        name = str(self.suite.arrays["name"][case])
        folder = named_inside(self.suite.path / "kernels", name)
        if folder is None:
            raise TraceError(f"{self.suite.path}: case {case} is called {shown(name)}, which is not a folder of its kernels")
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
        """All bytes of an output, if they were stored."""
        stored = self.suite.ragged("bytes", output)
        return stored if len(stored) else None

    def difference(self, case: int, name: str, produced: np.ndarray) -> str:
        """The difference between an output and the GPU's, as a sentence; empty if every byte is equal."""
        output, launch = self.outputs(case)[name], self.launch(case)
        data = np.ascontiguousarray(produced).reshape(-1)
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


# ---- Writing launch files: those of launches that ran, and one to begin with


def launch_text(about: dict[str, Any], arrays: list[dict[str, Any]]) -> str:
    """A launch file as TOML. The "comment" of an array or an argument is written after its line. Example:

    >>> print(launch_text({"entry": "k", "grid": (1, 1, 1), "args": [{"array": "a"}]}, [{"name": "a", "file": "a.npy", "address": 512}]))
    schema = "smemsim.launch/1"
    entry = "k"
    grid = [1, 1, 1]
    args = [
        {array = "a"},
    ]
    arrays = [
        {name = "a", file = "a.npy", address = 0x200},
    ]
    <BLANKLINE>
    """
    lines = ['schema = "smemsim.launch/1"']
    lines += [f"{key} = {_toml(value)}" for key, value in about.items() if key != "args" and value not in ([], "")]
    for key, entries in (("args", about.get("args", [])), ("arrays", arrays)):
        told_of = [
            (", ".join(f"{k} = {_toml(v, k)}" for k, v in entry.items() if k != "comment"), entry.get("comment")) for entry in entries
        ]
        lines += [f"{key} = [", *(f"    {{{text}}}," + (f"  # {comment}" if comment else "") for text, comment in told_of), "]"]
    return "\n".join(lines) + "\n"


def _toml(value: Any, key: str = "") -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_toml(v, k)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, int):
        return hex(value) if key == "address" else str(value)
    return repr(value) if isinstance(value, float) else json.dumps(str(value), ensure_ascii=False)


DEFAULT_THREADS = 128
_ELEMENTS = {"b8": "u8", "b16": "f16", "b32": "f32", "b64": "u64", "bf16x2": "bf16", "f16x2": "f16", "b128": "u32"}
_MAP = {
    "data_type": "bf16", "global_dim": [64, 64], "global_strides": [128], "box_dim": [64, 64], "swizzle": "128B",
}  # fmt: skip


def sketch(module: Module, entry: str) -> str:
    """A launch file for a kernel, to be filled in: the shape from its directives, one argument for each parameter, one
    array for each pointer.

    Unknown values are examples with a comment. The text is a valid launch file. Example:

    >>> from smemsim.core.ptx.parser import read_module
    >>> head = ".version 8.0 .target sm_90a .address_size 64"
    >>> print(sketch(read_module(head + " .visible .entry k(.param .u32 n) .reqntid 64, 1, 1 { ret; }"), "k"))
    schema = "smemsim.launch/1"
    title = "k"
    entry = "k"
    grid = [1, 1, 1]
    block = [64, 1, 1]
    args = [
        {value = 0, type = "u32"},  # n
    ]
    arrays = [
    ]
    <BLANKLINE>
    """
    function = module.functions[entry]
    threads = function.directives.get("reqntid") or function.directives.get("maxntid") or (DEFAULT_THREADS,)
    about: dict[str, Any] = {"title": shorter_name(entry), "entry": entry, "grid": (1, 1, 1), "block": three("block", threads)}
    if "reqnctapercluster" in function.directives:
        about["cluster"] = about["grid"] = three("cluster", function.directives["reqnctapercluster"])
    if any(v.space == "shared" and not v.size for v in (*module.variables.values(), *function.variables)):
        about["shared_bytes"] = 1024
    args = _sketched(function)
    return launch_text({**about, "args": [arg for arg, _ in args]}, [array for _, array in args if array is not None])


def _sketched(function: Function) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """An entry of `args` for each parameter, as an example, and the entry of `arrays` that it names."""
    accessed = _accessed(function)
    found: list[tuple[dict[str, Any], dict[str, Any] | None]] = []
    for n, p in enumerate(function.parameters):
        name = f"arg{n}"
        kind = f"u{8 * p.size}" if p.type[0] == "b" and p.size <= VALUES["u64"] else p.type
        if p.name in accessed and p.size == VALUES["u64"]:
            array = {"name": name, "dtype": accessed[p.name], "shape": [1024], "distribution": "zeros", "comment": f"{p.name} points here"}
            found.append(({"array": name, "comment": p.name}, array))
        elif p.size == MAP_BYTES and p.align >= MAP_BYTES // 2:
            array = {"name": name, "dtype": "bf16", "shape": [64, 64], "distribution": "zeros", "comment": f"the tensor of {p.name}"}
            comment = f"{p.name}, as an example: the arguments of the encode call"
            found.append(({"map": {"global_address": name, **_MAP}, "comment": comment}, array))
        elif kind in VALUES and VALUES[kind] == p.size:
            found.append(({"value": 0, "type": kind, "comment": p.name}, None))
        else:
            found.append(({"bytes": "00" * p.size, "comment": f"{p.name}: a structure of {p.size} bytes"}, None))
    return found


def example_args(function: Function, after: int = 0) -> str:
    """Options --arg for a kernel, one for each parameter, the first `after` left out."""
    found = []
    for arg, array in _sketched(function):
        if array is not None and "array" in arg:
            found.append(f"--arg zeros:{array['dtype']}:1024")
        else:
            found.append(f"--arg {arg['type']}:1" if "type" in arg else f"--arg bytes:{arg.get('bytes', '00')}")
    return " ".join(found[after:])


def _listed(entry: Mapping[str, Any]) -> str:
    """An entry of `args` or `arrays` as a line of a launch file."""
    also = '; or {array = "NAME"}, if it is a pointer' * (entry.get("type") == "u64")
    return f"{_toml({key: value for key, value in entry.items() if key != 'comment'})},  # {entry['comment']}{also}"


def _accessed(function: Function) -> dict[str, str]:
    """The parameters whose values are used as addresses, and the element type of the first access through them."""
    origin: dict[int, str] = {}
    accessed: dict[str, str] = {}
    for i in function.body or ():
        *targets, source = i.operands if len(i.operands) > 1 else (*i.operands, None)
        if i.op == "ld" and "param" in i.modifiers and isinstance(source, Address) and isinstance(source.base, Symbol):
            origin |= {r.slot: source.base.name for r in targets if isinstance(r, Register)}
            continue
        for operand in i.operands:
            if isinstance(operand, Address) and isinstance(operand.base, Register) and operand.base.slot in origin:
                kind = i.modifiers[-1] if i.modifiers else "b32"
                accessed.setdefault(origin[operand.base.slot], _ELEMENTS.get(kind, kind if kind in WIDTHS else "f32"))
        first, *rest = i.operands or (None,)
        if isinstance(first, Register) and i.op in ("add", "sub", "mov", "cvta", "mad", "selp", "and", "or"):
            names = [origin[r.slot] for r in rest if isinstance(r, Register) and r.slot in origin]
            if names:
                origin[first.slot] = names[0]
    return accessed
