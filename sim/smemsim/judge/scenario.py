"""Scenario files: their keys, their meanings, and their reading with line and key of every mistake."""

from __future__ import annotations

import dataclasses
import difflib
import json
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from smemsim.arguments import shown
from smemsim.errors import InputError
from smemsim.files import parse_toml, read_bytes
from smemsim.spec.formats import element_format

__all__ = ["MEANINGS", "OPERAND", "STEPS", "TABLES", "Key", "ScenarioError", "json_schema", "line_of", "located", "read_scenario"]


# ---- Where in a file a key stands, so that a complaint can point at its line


Path = Sequence[str | int]


def line_of(text: str, path: Path, *, toml: bool) -> int:
    """The line (from 1 on) of the deepest part of the path that stands in the text; 1 for none.

    >>> line_of('{"step": [\\n {"op": "mma"},\\n {"op": "bulk",\\n  "byts": 3}]}', ["step", 1, "byts"], toml=False)
    4
    >>> line_of('arch = "sm_90a"\\n[[step]]\\nop = "mma"\\n[[step]]\\nop = "bulk"\\nbyts = 3', ["step", 1, "byts"], toml=True)
    6
    """
    places = _toml_places(text) if toml else _json_places(text)
    for length in range(len(path), 0, -1):
        if tuple(path[:length]) in places:
            return places[tuple(path[:length])]
    return 1


_HEADER = re.compile(r"^\s*(\[{1,2})([^\]]+)\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\"'-]+)\s*=")
_INNER = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z0-9_]++)\s*+=")
_COLON = re.compile(r"\s*+:")


def _toml_places(text: str) -> dict[tuple[str | int, ...], int]:
    """Headers and keys at the beginning of lines; inline tables count as the line of their key."""
    places: dict[tuple[str | int, ...], int] = {}
    counts: dict[tuple[str | int, ...], int] = {}
    here: tuple[str | int, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            here = ()
            names = [name.strip().strip("\"'") for name in header[2].split(".")]
            for depth, name in enumerate(names):
                here = (*here, name)
                if header[1] == "[[" and depth == len(names) - 1:
                    counts[here] = counts.get(here, -1) + 1
                if here in counts:
                    here = (*here, counts[here])
            places.setdefault(here, number)
        elif key := _KEY.match(line):
            path = (*here, *(part.strip().strip("\"'") for part in key[1].split(".")))
            places.setdefault(path, number)
            for name in _INNER.findall(line, key.end()):
                places.setdefault((*path, name), number)
    return places


def _json_places(text: str) -> dict[tuple[str | int, ...], int]:
    """Every key and every entry of a list, by walking over the tokens."""
    places: dict[tuple[str | int, ...], int] = {}
    stack: list[list[str | int]] = []  # of every open bracket: the key or the index that is next
    line = 1
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n|[^\s{}\[\],:"]+', text):
        word = token[0]
        if word == "\n":
            line += 1
        elif word in "{[":
            if stack:
                places.setdefault(tuple(x[0] for x in stack), line)
            stack.append([0 if word == "[" else ""])
        elif word in "}]":
            stack.pop()
        elif word == "," and stack and isinstance(stack[-1][0], int):
            stack[-1][0] += 1
        elif word.startswith('"') and stack and isinstance(stack[-1][0], str) and _COLON.match(text, token.end()):
            stack[-1][0] = json.loads(word)
            places.setdefault(tuple(x[0] for x in stack), line)
        elif stack and isinstance(stack[-1][0], int):
            places.setdefault(tuple(x[0] for x in stack), line)
    return places


# ---- What every key of a scenario file says, in a sentence each: for the JSON schema, for the README, and for error messages to come


_ISSUE = {
    "op": "what the step does",
    "map": "the tensor map, by its name",
    "to": "the buffer that is written",
    "from": "the buffer that is read",
    "stage": "which stage of the buffer, from 0 on",
    "offset": "bytes from the stage's beginning; a list has one entry for each issue",
    "at": "coordinates of the box, dimension 0 first; a list of them is one issue each",
    "im2col_offsets": "the offsets of an im2col load, W first",
    "expect_bytes": "what the mbarrier expects, of all issues of the step together",
    "reduce": "the operation: add, min, max, inc, dec, and, or, xor",
}
MEANINGS: dict[str, dict[str, str]] = {
    "scenario": {
        "arch": "sm_90a, sm_100a or sm_103a", "title": "free text", "source": "free text, a link", "cta_group": "1 or 2, of all tcgen05 steps",
        "excerpt": "true: there were other steps, which may bring what is missing here, and read what nobody reads here",
        "tensor": "what lies in global memory, by name", "buffer": "shared buffers, by name", "map": "tensor maps, by name",
        "step": "what happens, in order", "expect": "the findings that should come",
    },
    "tensor": {
        "dtype": "element type: f16 bf16 tf32 f32 e4m3 e5m2 e3m2 e2m3 e2m1 s8 u8 ...", "extent": "elements by axis; any names",
        "stride": "bytes from one element to the next, by axis; 1 along packed 4- and 6-bit elements", "address": "where it begins; made up if left out",
        "scale_blocks": "scale factors that lie in 512-byte blocks already: the axis of rows, that of scales",
        "walks": "axes that run through several dimensions of memory: of each [[indices, bytes from one to the next, the first inside, the end of these], ...], fastest first",
    },
    "buffer": {
        "address": "the .shared address, as cvta.to.shared gives it", "offset": "instead of address: bytes from base", "base": "where the pool begins",
        "base_align": "the alignment that the pool is known to have, in bytes", "bytes": "its size, all stages together",
        "declared_align": "the alignment that the source declares, in bytes", "stages": "how many stages it has",
        "stage_bytes": "from one stage to the next; the buffer in equal parts if left out",
        "layout": "what software believes, for threads steps: a table, or CuTe's text 'Sw<3,4,3> o ((8,8),64):((64,512),1)', (M or N, K) in elements",
    },
    "layout": {
        "swizzle": "none, 32B, 64B, 128B, 128B_ATOM_32B", "xor": "what software XORs: 'address' (as hardware does) or 'offset' from the buffer's beginning",
        "mn": "[[size, stride in bytes], ...] of M or N, fastest first; the contiguous axis counts bytes, the other one elements",
        "k": "the same of K",
    },
    "map": {
        "of": "the tensor that it is meant to describe", "raw": "the 128 bytes of the CUtensorMap as 256 hex digits, instead of the arguments",
        "data_type": "the driver's argument", "global_address": "a number, or a tensor's name", "global_offset": "bytes added to it",
        "object_address": "where the CUtensorMap itself lies", "global_dim": "elements, dimension 0 first", "global_strides": "bytes, of dimension 1 on",
        "box_dim": "elements, dimension 0 first", "element_strides": "1 each if left out", "interleave": "none, 16B, 32B",
        "swizzle": "none, 32B, 64B, 128B, ...", "l2_promotion": "none, 64B, 128B, 256B", "oob_fill": "zeros, nan",
        "pixel_box_lower_corner": "with it the map is im2col", "pixel_box_upper_corner": "of im2col", "channels_per_pixel": "of im2col",
        "pixels_per_column": "of im2col",
    },
    "meant": {
        "tensor": "where the operand should come from", "axes": "its axis of rows (M or N), its axis of K", "at": "the element at row 0, K 0 of the first step; [0, 0] if left out",
        "k_step": "elements of K from one step to the next; k if left out", "mn_step": "rows from one block to the next; rows if left out",
        "scale_block": "each word reads whole blocks of scale factors",
    },
    "expect": {"findings": "codes; exit code 0 when exactly these come"},
    "tma_load": _ISSUE, "tma_store": _ISSUE, "tma_reduce": _ISSUE,
    "bulk": _ISSUE | {"bytes": "size of each copy", "tensor": "what is copied", "global_offset": "bytes from the tensor's beginning; a list has one for each issue"},
    "threads": _ISSUE | {
        "load": "true: threads read, and should find the tensor's elements", "tensor": "whose elements", "axes": "its axes of the layout's mn and k",
        "contiguous": "which of the two counts bytes: 'mn' or 'k', or the name of the axis", "at": "the element at (0, 0) of the layout",
    },
    "mma": {
        "op": "what the step does", "kind": "wgmma, or a kind of tcgen05: f16 tf32 f8f6f4 i8 mxf8f6f4 mxf4 mxf4nvf4",
        "instruction": "instead of kind: the instruction as it is written", "m": "M of one instruction, of both CTAs of a pair", "n": "N of one instruction",
        "k": "K of one instruction, in elements", "idesc": "the 32 bits of the instruction descriptor", "transpose": "wgmma's transpose flags",
        "cta_group": "1 or 2", "sparse": "an .sp instruction", "ws": "a .ws instruction", "scale_vec": "1X, 2X or 4X", "a": "operand A", "b": "operand B",
        "scale_a": "scale factors of A: tmem, id, meant", "scale_b": "the same of B",
    },
    "copy": {
        "op": "tcgen05.cp", "instruction": "the instruction as it is written", "shape": "128x256b, 4x256b, 128x128b, 64x128b, 32x128b",
        "multicast": "warpx4, warpx2::02_13, warpx2::01_23", "to_tmem": "tensor memory address; a list has one for each K step",
        "m": "rows, if not those of the shape", "n": "not used", "k": "elements a line, if not those of the shape", "rows": "as m", "cta_group": "1 or 2", "a": "what is copied",
    },
    "operand": {
        "dtype": "element type", "major": "K or MN: which axis is contiguous", "rows": "rows that one instruction reads, if not m or n",
        "words": "raw descriptors, one for each K step; a list of such lists has blocks of M or N", "word": "one raw descriptor; start, k_add and mn_add move its start",
        "start": "a buffer's name or an address, added to the word's start field", "start_offset": "bytes added", "k_add": "bytes added for each K step",
        "mn_add": "bytes added for each block of M or N", "meant": "what it was meant to be; without it only the descriptor itself is looked at",
        "tmem": "tensor memory address, one or one for each step", "id": "scale factor id, one or one for each step", "stage": "which stage of the buffer",
    },
}  # fmt: skip


# ---- The keys of a scenario file, as data: what each table may and must have. Files written to them exist elsewhere; keys are only ever
# added


@dataclasses.dataclass(frozen=True)
class Key:
    """One key: what it holds, by the names of the JSON schema below, and whether it must be there."""

    holds: str
    required: bool = False


def _keys(text: str) -> dict[str, Key]:
    """`name:holds`, with `!` behind what is required."""
    found = {}
    for part in text.split():
        name, _, holds = part.partition(":")
        found[name] = Key(holds.rstrip("!"), holds.endswith("!"))
    return found


TABLES: dict[str, dict[str, Key]] = {
    "scenario": _keys(
        "arch:text! title:text source:text cta_group:int excerpt:bool tensor:table buffer:table map:table step:any expect:table"
    ),
    "tensor": _keys("dtype:text! extent:table! stride:table! address:int scale_blocks:axes walks:table"),
    "buffer": _keys("address:int offset:int base:int base_align:int bytes:int declared_align:int stages:int stage_bytes:int layout:any"),
    "layout": _keys("swizzle:text xor:text mn:pairs! k:pairs!"),
    "map": _keys(
        "of:text raw:text data_type:enum global_address:place global_offset:int object_address:int global_dim:ints global_strides:strides "
        "box_dim:ints element_strides:ints interleave:enum swizzle:enum l2_promotion:enum oob_fill:enum pixel_box_lower_corner:ints "
        "pixel_box_upper_corner:ints channels_per_pixel:int pixels_per_column:int"
    ),
    "meant": _keys("tensor:text! axes:axes! at:pair k_step:int mn_step:int scale_block:bool"),
    "expect": _keys("findings:texts!"),
}
_TENSOR_STEP = "op:text! map:text! stage:int offset:ints at:places! im2col_offsets:ints expect_bytes:int"
STEPS: dict[str, dict[str, Key]] = {
    "tma_load": _keys(f"{_TENSOR_STEP} to:text!"),
    "tma_store": _keys(f"{_TENSOR_STEP} from:text!"),
    "tma_reduce": _keys(f"{_TENSOR_STEP} from:text! reduce:text!"),
    "bulk": _keys(
        "op:text! to:text from:text bytes:int! reduce:text stage:int offset:ints tensor:text global_offset:ints expect_bytes:int"
    ),
    "threads": _keys("op:text! to:text from:text load:bool tensor:text! axes:axes! contiguous:text! at:pair stage:int"),
    "mma": _keys(
        "op:text! kind:text instruction:text m:int! n:int! k:int! idesc:int transpose:any cta_group:int sparse:bool ws:bool scale_vec:text a:table b:table "
        "scale_a:table scale_b:table"
    ),
    "copy": _keys("op:text! instruction:text shape:text multicast:text to_tmem:grid m:int n:int k:int rows:int cta_group:int a:table!"),
}
OPERAND = _keys(
    "dtype:text! major:text! rows:int words:words word:word start:place start_offset:int k_add:ints mn_add:ints meant:table tmem:grid id:grid stage:int"
)

_HEX = {"type": "string", "pattern": "^0[xX][0-9a-fA-F_]+$"}
_NUMBER = {"anyOf": [{"type": "integer"}, _HEX]}
_LIST = {"type": "array", "items": _NUMBER}
_TYPES = {
    "text": {"type": "string"}, "int": _NUMBER, "word": {"anyOf": [{"type": "integer", "minimum": 0}, _HEX]}, "bool": {"type": "boolean"}, "table": {"type": "object"},
    "any": {}, "enum": {"type": ["string", "integer"]}, "place": {"type": ["string", "integer"]}, "ints": {"anyOf": [_NUMBER, _LIST]}, "strides": {"anyOf": [_NUMBER, _LIST]},
    "pair": {**_LIST, "minItems": 2, "maxItems": 2}, "pairs": {"type": "array", "items": {**_LIST, "minItems": 2, "maxItems": 2}},
    "axes": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}, "texts": {"type": "array", "items": {"type": "string"}},
    "places": {"anyOf": [_LIST, {"type": "array", "items": _LIST}]}, "grid": {"anyOf": [_NUMBER, _LIST, {"type": "array", "items": _LIST}]},
    "words": {"anyOf": [_LIST, {"type": "array", "items": _LIST}]},
}  # fmt: skip


def _schema_of(table: str, keys: dict[str, Key], **inner: object) -> dict[str, object]:
    properties: dict[str, object] = {}
    for name, key in keys.items():
        held: object = inner.get(name, _TYPES[key.holds])
        properties[name] = {**held, "description": MEANINGS[table][name]} if isinstance(held, dict) else held
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name, key in keys.items() if key.required],
        "additionalProperties": False,
    }


def json_schema() -> dict[str, object]:
    """The JSON schema of scenario files."""
    meant = _schema_of("meant", TABLES["meant"])
    operand, scale = (
        _schema_of("operand", OPERAND, meant=meant),
        _schema_of("operand", {name: Key(key.holds) for name, key in OPERAND.items()}, meant=meant),
    )
    sides = {"a": operand, "b": operand, "scale_a": scale, "scale_b": scale}
    steps = []
    for op, keys in STEPS.items():
        inner: dict[str, object] = {"op": {"const": op}, **{name: of for name, of in sides.items() if name in keys}}
        steps.append(_schema_of(op, keys, **inner))
    layout = {"anyOf": [{"type": "string"}, _schema_of("layout", TABLES["layout"])]}
    tables = {
        "tensor": _schema_of("tensor", TABLES["tensor"]),
        "buffer": _schema_of("buffer", TABLES["buffer"], layout=layout),
        "map": _schema_of("map", TABLES["map"]),
    }
    inner = {name: {"type": "object", "additionalProperties": of} for name, of in tables.items()}
    found = _schema_of(
        "scenario",
        TABLES["scenario"],
        **inner,
        step={"type": "array", "items": {"anyOf": steps}},
        expect=_schema_of("expect", TABLES["expect"]),
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "smemsim scenario", **found}


# ---- Reading a scenario: from a TOML or JSON file, or the same structure as a dict; what does not fit is a sentence with the line and the
# key


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
    except InputError as e:
        raise ScenarioError(f"{path}: {e}") from None
    except ValueError:  # Python reads no decimal number of thousands of digits
        raise ScenarioError(f"{path}: holds a number of thousands of digits; a word has at most 64 bits") from None
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
