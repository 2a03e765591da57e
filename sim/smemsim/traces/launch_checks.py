"""What launch files may say: every key looked at, and a sentence with file and key for what does not fit."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from smemsim.arguments import is_whole, shown, suggestion, whole
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import InputError
from smemsim.gpu.launch import CANCEL, three
from smemsim.spec.formats import FORMATS
from smemsim.traces.launch_keys import ARGUMENTS, ARRAY_KEYS, BESIDE, KEYS

__all__ = ["SCHEMA", "TOLERANCES", "VALUES", "WORDS", "checked"]

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
        for key in ("grid", "block", "cluster"):
            about[key] = list(three(key, raw.get(key, 1)))
        whole("shared_bytes", about["shared_bytes"], minimum=0)
        whole("limit", raw.get("limit", 1), minimum=1)
    except InputError as e:
        raise InputError(f"{name}: {e}") from None
    seconds = raw.get("limit_seconds", 1)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise InputError(f"{name}: limit_seconds = {shown(seconds)}: needs a number of seconds above 0")
    for key in ("ptx", "entry", "arch"):
        if key in raw and not isinstance(raw[key], str):
            raise InputError(f"{name}: {key} = {shown(raw[key])}: needs a text")
    for key in ("exact", "cooperative"):
        if key in raw and not isinstance(raw[key], bool):
            raise InputError(f"{name}: {key} = {shown(raw[key])}: needs true or false")
    if "cancel" in raw and raw["cancel"] not in (*CANCEL, "all"):
        raise InputError(f"{name}: cancel = {shown(raw['cancel'])}: needs one of {', '.join((*CANCEL, 'all'))}")
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
