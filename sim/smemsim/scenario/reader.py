"""Reading a scenario: from a TOML or JSON file, or the same structure as a dict; what does not fit is a sentence with the line and the key."""

from __future__ import annotations

import difflib
import json
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from smemsim.arguments import shown
from smemsim.errors import InputError
from smemsim.files import parse_toml, read_bytes
from smemsim.scenario.keys import OPERAND, STEPS, TABLES, Key
from smemsim.scenario.places import Path, line_of
from smemsim.spec.formats import element_format

__all__ = ["ScenarioError", "located", "read_scenario"]

MOST_BYTES = 1 << 24  # a larger file is no scenario
MOST_NAME = 60  # characters of a name in a sentence


class ScenarioError(InputError):
    """A scenario that cannot be read; the message begins with the file, the line and the key."""


def located(source: Any, error: InputError) -> ScenarioError:
    """The error with the file and the line of the path that its message begins with."""
    message = str(error)
    if isinstance(source, Mapping) or isinstance(error, ScenarioError):
        return ScenarioError(message)
    text, toml = _text_of(pathlib.Path(source))
    begin = re.match(r"(?:arch|(?:step|tensor|buffer|map)\b)[\w.\[\]]*", message)
    path = [int(part) if part.isdigit() else part for part in re.findall(r"\w+", begin[0])] if begin else []
    return ScenarioError(f"{source}:{line_of(text, path, toml=toml)}: {message}")


def read_scenario(source: Any) -> dict[str, Any]:
    """The scenario as a dict whose keys and types are those of the format. Raises ScenarioError."""
    if isinstance(source, Mapping):
        raw: Any = json.loads(json.dumps(source, default=_plain))
        return _checked(raw, "scenario", "", False)
    if not isinstance(source, (str, pathlib.Path)):
        raise ScenarioError(f"scenario = {shown(source)}: needs a path, or the same structure as a dict")
    path = pathlib.Path(source)
    text, toml = _text_of(path)
    try:
        raw = parse_toml(text) if toml else json.loads(text, object_pairs_hook=_once)
    except tomllib.TOMLDecodeError as e:
        raise ScenarioError(f"{path}: {e}") from None
    except ScenarioError:
        raise
    except json.JSONDecodeError as e:
        raise ScenarioError(f"{path}:{e.lineno}: {e.msg} (column {e.colno})") from None
    except RecursionError:
        raise ScenarioError(f"{path}: nested too deeply") from None
    except ValueError as e:
        why = (
            "holds a number of thousands of digits; a word has at most 64 bits" if "digits" in str(e) else str(e)
        )  # Python reads no such number
        raise ScenarioError(f"{path}: {why}") from None
    return _checked(raw, str(path), text, toml)


def _text_of(path: pathlib.Path) -> tuple[str, bool]:
    """(text, is it TOML?) of a file."""
    try:
        if path.is_dir():
            raise ScenarioError(f"{path}: is a folder; a scenario is a file, .toml or .json")
        data = read_bytes(path, MOST_BYTES)
    except (InputError, ValueError) as e:
        raise ScenarioError(str(e)) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise ScenarioError(f"{path}: byte {e.start} is not UTF-8") from None
    return text, path.suffix.lower() == ".toml" or (path.suffix.lower() != ".json" and not text.lstrip().startswith("{"))


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays, paths and enums, as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (pathlib.Path, bytes)):
        return value.hex() if isinstance(value, bytes) else str(value)
    raise ScenarioError(f"{shown(value)} in a scenario: needs numbers, texts, lists and tables")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ScenarioError(f"{name!r} stands twice in one table")
        found[name] = value
    return found


TEXTS = ("title", "source", "raw", "layout")  # what stays a text though it looks like a number


def _hex(value: Any, key: str = "") -> Any:
    """Words and addresses as JSON cannot write them, "0x4000...", as numbers."""
    if isinstance(value, dict):
        return {name: _hex(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_hex(inner, key) for inner in value]
    is_number = isinstance(value, str) and key not in TEXTS and re.fullmatch(r"0[xX][0-9a-fA-F_]{1,20}", value)
    return int(value, 16) if is_number else value


def _checked(raw: Any, name: str, text: str, toml: bool) -> dict[str, Any]:
    raw = _hex(raw)
    for path, complaint in _complaints(raw):
        line = f":{line_of(text, path, toml=toml)}" if text else ""
        raise ScenarioError(f"{name}{line}: {spelled(path)}{': ' if path else ''}{complaint}")
    return raw  # type: ignore[no-any-return]


def spelled(path: Path) -> str:
    """`step[1].a.words`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{_name(part)}" if text else _name(part)
    return text


def _name(key: str) -> str:
    """A key as it stands in a sentence."""
    text = key if key.isprintable() else repr(key)[1:-1]
    return text if len(text) <= MOST_NAME else text[: MOST_NAME - 1] + "…"


Complaints = Iterator[tuple[tuple[str | int, ...], str]]


def _complaints(raw: Any) -> Complaints:
    if not isinstance(raw, dict):
        yield (), f"a {type(raw).__name__}; needs tables arch, tensor, buffer, map, step"
        return
    yield from _table(raw, TABLES["scenario"], ())
    if "expect" in raw:
        yield from _table(raw["expect"], TABLES["expect"], ("expect",))
    for kind in ("tensor", "buffer", "map"):
        for name, table in (raw.get(kind) or {}).items():
            yield from _table(table, TABLES[kind], (kind, name))
    for name, buffer in (raw.get("buffer") or {}).items():
        if not isinstance(buffer.get("layout", ""), str):
            yield from _table(buffer["layout"], TABLES["layout"], ("buffer", name, "layout"))
    for name, table in (raw.get("map") or {}).items():
        missing = [
            key for key in ("data_type", "global_dim", *(() if "pixel_box_lower_corner" in table else ("box_dim",))) if key not in table
        ]
        if "raw" not in table and missing:
            yield ("map", name), f"{' and '.join(missing)} missing: needs the arguments of the encode call, or raw"
        if isinstance(table.get("global_address"), str) and table["global_address"] not in (raw.get("tensor") or {}):
            yield (
                ("map", name, "global_address"),
                f"{shown(table['global_address'])}: there is no [tensor.{_name(table['global_address'])}]",
            )
    yield from _tensors(raw)
    steps = raw.get("step", [])
    if not isinstance(steps, list):
        yield ("step",), "needs a list of steps ([[step]] in TOML)"
        return
    for number, step in enumerate(steps):
        path = ("step", number)
        if not isinstance(step, dict) or not isinstance(step.get("op"), str) or step["op"] not in STEPS:
            op = step.get("op") if isinstance(step, dict) else step
            yield (*path, "op"), f"{shown(op)}: needs one of {' '.join(STEPS)}{_hint(op, STEPS)}"
            return
        yield from _table(step, STEPS[step["op"]], path)
        yield from _names(raw, step, path)
        if step["op"] in ("bulk", "threads") and not {"to", "from"} & step.keys():
            yield path, "to is missing: needs the name of a buffer (from, where it is read)"
        for side in ("a", "b", "scale_a", "scale_b"):
            if side in step:
                keys = OPERAND if side in "ab" else {k: Key(v.holds) for k, v in OPERAND.items()}
                yield from _table(step[side], keys, (*path, side))
                yield from _operand(raw, step[side], (*path, side))
    for code in (raw.get("expect") or {}).get("findings", []):
        if not (isinstance(code, str) and re.fullmatch(r"[A-Z]\d{3}", code)):
            yield ("expect", "findings"), f"{shown(code)}: needs codes as 'R503'"


def _type(dtype: str, path: tuple[str | int, ...]) -> Complaints:
    try:
        element_format(dtype)
    except InputError as e:
        yield (*path, "dtype"), str(e).removeprefix("dtype = ")


def _listed(names: Iterable[str]) -> str:
    """Names of people's own, as short as a sentence needs them."""
    text = ", ".join(names)
    return text if len(text) <= 120 else text[:119] + "…"


def _tensors(raw: dict[str, Any]) -> Complaints:
    for name, tensor in (raw.get("tensor") or {}).items():
        yield from _type(tensor["dtype"], ("tensor", name))
        if set(tensor["extent"]) != set(tensor["stride"]):
            yield (
                ("tensor", name, "stride"),
                f"has {_listed(tensor['stride'])}, extent has {_listed(tensor['extent'])}: needs the same axes",
            )
        for key in ("extent", "stride"):
            for axis, value in tensor[key].items():
                if not _whole(value) or value < (1 if key == "extent" else 0):
                    wanted = "a whole number of bytes from 0 on" if key == "stride" else "a whole number of elements from 1 on"
                    yield ("tensor", name, key), f"{axis} = {shown(value)}: needs {wanted}"
        for axis, modes in tensor.get("walks", {}).items():
            if axis not in tensor["extent"]:
                yield ("tensor", name, "walks"), f"{_name(axis)}: needs axes of {_name(name)} ({_listed(tensor['extent'])})"
            elif not (
                bool(modes)
                and _list_of(modes, lambda mode: _list_of(mode, _whole, 4) and mode[0] > 0 <= mode[1] and 0 <= mode[2] <= mode[3])
            ):
                yield (
                    ("tensor", name, "walks"),
                    f"{_name(axis)} = {shown(modes)}: needs [[indices, bytes from one to the next, the first inside, the end of these], ...]",
                )
        if odd := _apart(tensor):
            yield ("tensor", name, "stride"), odd


def _apart(tensor: dict[str, Any]) -> str:
    """What is odd about byte strides: elements that overlap along their closest axis look like a stride in elements."""
    bits = element_format(tensor["dtype"]).bits
    close = [axis for axis, stride in tensor["stride"].items() if 0 < 8 * stride < bits and tensor["extent"][axis] > 1]
    return f"{close[0]} = {tensor['stride'][close[0]]}: strides are bytes, and {tensor['dtype']} has {bits // 8}" if close else ""


def _names(raw: dict[str, Any], step: dict[str, Any], path: tuple[str | int, ...]) -> Complaints:
    for key, kind in (("map", "map"), ("to", "buffer"), ("from", "buffer"), ("tensor", "tensor")):
        if key in step and step[key] not in (raw.get(kind) or {}):
            yield (*path, key), f"{shown(step[key])}: there is no [{kind}.{_name(step[key])}]{_hint(step[key], raw.get(kind) or {})}"


def _operand(raw: dict[str, Any], operand: dict[str, Any], path: tuple[str | int, ...]) -> Complaints:
    if "major" in operand and operand["major"] not in ("K", "MN"):
        yield (*path, "major"), f"{shown(operand['major'])}: needs 'K' (K is contiguous) or 'MN'"
    if isinstance(operand.get("start"), str) and operand["start"] not in (raw.get("buffer") or {}):
        yield (
            (*path, "start"),
            f"{shown(operand['start'])}: there is no [buffer.{_name(operand['start'])}]{_hint(operand['start'], raw.get('buffer') or {})}",
        )
    if "dtype" in operand:
        yield from _type(operand["dtype"], path)
    meant = operand.get("meant")
    if meant is None:
        return
    yield from _table(meant, TABLES["meant"], (*path, "meant"))
    tensor = (raw.get("tensor") or {}).get(meant["tensor"])
    if tensor is None:
        yield (
            (*path, "meant", "tensor"),
            f"{shown(meant['tensor'])}: there is no [tensor.{_name(meant['tensor'])}]{_hint(meant['tensor'], raw.get('tensor') or {})}",
        )
        return
    if any(axis not in tensor["extent"] for axis in meant["axes"]):
        yield (
            (*path, "meant", "axes"),
            f"{shown(meant['axes'])}: needs two axes of {meant['tensor']} ({_listed(tensor['extent'])}): that of rows, that of K",
        )


def _table(table: Any, keys: Mapping[str, Key], path: tuple[str | int, ...]) -> Complaints:
    if not isinstance(table, dict):
        yield path, f"{shown(table)}: needs a table"
        return
    for name, value in table.items():
        if name not in keys:
            yield (*path, name), f"not a key here{_hint(name, keys)}; there are {', '.join(keys)}"
        elif not _TESTS[keys[name].holds](value):
            yield (*path, name), f"{shown(value)}: needs {_WORDS[keys[name].holds]}"
    for name, key in keys.items():
        if key.required and name not in table:
            yield path, f"{name} is missing: needs {_WORDS[key.holds]}"


_WORDS = {
    "text": "a text", "int": "a whole number below 2^48", "word": "a word of at most 64 bits", "bool": "true or false", "table": "a table",
    "ints": "a whole number, or a list of them", "strides": "a whole number of bytes, or a list of them", "any": "a value", "enum": "a name, or its number", "place": "an address, or a name",
    "pair": "two whole numbers", "pairs": "[[size, stride], ...]", "axes": "two axes: that of rows, that of K", "texts": "a list of texts",
    "places": "coordinates, or a list of them", "grid": "a whole number, one a K step, or a list of them for each block",
    "words": "words, one a K step, or a list of them for each block",
}  # fmt: skip
MOST_NUMBER = 1 << 48


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST_NUMBER


def _list_of(value: Any, one: Callable[[Any], bool], count: int | None = None) -> bool:
    return isinstance(value, list) and all(one(x) for x in value) and count in (None, len(value))


def _word(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _nested(value: Any, one: Callable[[Any], bool]) -> bool:
    """A list, or a list of lists; none of them empty."""
    return bool(value) and (_list_of(value, one) or _list_of(value, lambda x: bool(x) and _list_of(x, one)))


_TESTS: dict[str, Callable[[Any], bool]] = {
    "text": _text,
    "int": _whole,
    "word": _word,
    "bool": lambda x: isinstance(x, bool),
    "table": lambda x: isinstance(x, dict),
    "any": lambda x: True,
    "enum": lambda x: _text(x) or _whole(x),
    "place": lambda x: _text(x) or _whole(x),
    "ints": lambda x: _whole(x) or (bool(x) and _list_of(x, _whole)),
    "strides": lambda x: _whole(x) or _list_of(x, _whole),  # none for a tensor of one dimension
    "pair": lambda x: _list_of(x, _whole, 2),
    "pairs": lambda x: bool(x) and _list_of(x, lambda y: _list_of(y, _whole, 2)),
    "axes": lambda x: _list_of(x, _text, 2),
    "texts": lambda x: _list_of(x, _text),
    "places": lambda x: _nested(x, _whole),
    "words": lambda x: _nested(x, _word),
    "grid": lambda x: _whole(x) or (isinstance(x, list) and _nested(x, _whole)),
}


def _hint(name: Any, among: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(str(name), [str(x) for x in among], 1)
    return f"; did you mean {close[0]!r}?" if close else ""
