"""Files of tables, scenarios and launches: which keys a table has, what each holds and means, and where in the file a
mistake stands.

A table is a frozen dataclass whose fields say all of that once, with `key`. Reading (`read_table`), writing (`plain`),
changing one value (`with_value`), the JSON schema (`schema_of`), the tables of the documentation and the sentence about
every mistake come from these fields.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from smemsim.base.arguments import closest, shown
from smemsim.base.errors import InputError
from smemsim.base.files import read_bytes
from smemsim.core.finding import Path

__all__ = [
    "Key",
    "Kind",
    "Source",
    "TableError",
    "as_in",
    "check_table",
    "frozen",
    "is_list_of",
    "is_number",
    "key",
    "keys_of",
    "made",
    "mistake",
    "name_told",
    "parse_toml",
    "plain",
    "read_table",
    "schema_of",
    "with_value",
]

Made = TypeVar("Made")


# ---- The value of a key: its description, its check, and its JSON schema


MOST_NUMBER = 1 << 48
MOST_NAME = 60  # characters of a name in a sentence
MOST_PARTS = 64  # of a dotted key
_LONG_KEY = re.compile(rf"(?<![\w-])(?:(?>[\w-]+|\"[^\"\n]*\"|'[^'\n]*')[ \t]*\.[ \t]*){{{MOST_PARTS}}}")


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML text as a dict. ValueError for what is none, InputError for keys of so many parts that reading them would
    take for ever.

    >>> parse_toml("a.b = 1")
    {'a': {'b': 1}}
    """
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise InputError(f"line {line}: a key of more than {MOST_PARTS} parts")
    return tomllib.loads(text)


class Kind(NamedTuple):
    """A kind of value: what a mistake about it says is needed, the test, and its JSON schema."""

    needs: str
    is_one: Callable[[object], bool]
    schema: Mapping[str, object]


def is_number(value: object) -> bool:
    """A whole number that could be an address, a size or a count."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST_NUMBER


def is_list_of(value: object, is_one: Callable[[Any], bool], count: int | None = None) -> bool:
    """A list, of `count` entries where that is given, all of which are such."""
    return isinstance(value, list) and all(map(is_one, value)) and count in (None, len(value))


def _is_word(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_measure(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


def _is_pair(value: object) -> bool:
    return is_list_of(value, is_number, 2)


def _is_nested(value: object, is_one: Callable[[Any], bool]) -> bool:
    """A list, or a list of lists; none of them empty."""
    return bool(value) and (is_list_of(value, is_one) or is_list_of(value, lambda inner: bool(inner) and is_list_of(inner, is_one)))


_HEX: dict[str, object] = {"type": "string", "pattern": "^0[xX][0-9a-fA-F_]+$"}
_NUMBER: dict[str, object] = {"anyOf": [{"type": "integer"}, _HEX]}
_LIST: dict[str, object] = {"type": "array", "items": _NUMBER}
_NESTED: dict[str, object] = {"anyOf": [_LIST, {"type": "array", "items": _LIST}]}
_PAIR: dict[str, object] = {**_LIST, "minItems": 2, "maxItems": 2}
KINDS: dict[str, Kind] = {
    "text": Kind("a text", _is_text, {"type": "string"}),
    "int": Kind("a whole number below 2^48", is_number, _NUMBER),
    "word": Kind("a word of at most 64 bits", _is_word, {"anyOf": [{"type": "integer", "minimum": 0}, _HEX]}),
    "bool": Kind("true or false", lambda x: isinstance(x, bool), {"type": "boolean"}),
    "table": Kind("a table", lambda x: isinstance(x, dict), {"type": "object"}),
    "any": Kind("a value", lambda x: True, {}),
    "enum": Kind("a name, or its number", lambda x: _is_text(x) or is_number(x), {"type": ["string", "integer"]}),
    "place": Kind("an address, or a name", lambda x: _is_text(x) or is_number(x), {"type": ["string", "integer"]}),
    "ints": Kind("a whole number, or a list of them", lambda x: is_number(x) or (bool(x) and is_list_of(x, is_number)), {"anyOf": [_NUMBER, _LIST]}),
    # none for a tensor of one dimension
    "strides": Kind("a whole number of bytes, or a list of them", lambda x: is_number(x) or is_list_of(x, is_number), {"anyOf": [_NUMBER, _LIST]}),
    "pair": Kind("two whole numbers", _is_pair, _PAIR),
    "pairs": Kind("[[size, stride], ...]", lambda x: bool(x) and is_list_of(x, _is_pair), {"type": "array", "items": _PAIR}),
    "axes": Kind("two axes: that of rows, that of K", lambda x: is_list_of(x, _is_text, 2), {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}),
    "texts": Kind("a list of texts", lambda x: is_list_of(x, _is_text), {"type": "array", "items": {"type": "string"}}),
    "places": Kind("coordinates, or a list of them", lambda x: _is_nested(x, is_number), _NESTED),
    "words": Kind("words, one a K step, or a list of them for each block", lambda x: _is_nested(x, _is_word), _NESTED),
    "grid": Kind("a whole number, one a K step, or a list of them for each block",
                 lambda x: is_number(x) or (isinstance(x, list) and _is_nested(x, is_number)), {"anyOf": [_NUMBER, _LIST, {"type": "array", "items": _LIST}]}),
    "measure": Kind("a number, 0 or more", _is_measure, {"type": "number", "minimum": 0}),
}  # fmt: skip


# ---- The keys of a table


@dataclasses.dataclass(frozen=True)
class Key:
    """One key of a table.

    Its kind is `holds`, a name of `KINDS`, or a kind of its own. Its meaning is `says`. If `required` is set, it must
    be there. The attribute of the table that has its value is `attribute`. The value that is assumed without the key is
    `default`, in words.
    """

    holds: str | Kind
    says: str
    required: bool = False
    attribute: str = ""
    default: str = ""

    @property
    def kind(self) -> Kind:
        """The kind of its content."""
        return KINDS[self.holds] if isinstance(self.holds, str) else self.holds


def key(holds: str, says: str, *, name: str = "", required: bool = False, default: str = "") -> Any:
    """The field of a dataclass that is a key of a table. It is None if the key is absent. `name` is the name of the
    key, if the attribute has another one.
    """
    metadata = {"name": name, "key": Key(holds, says, required, default=default)}
    return dataclasses.field(metadata=metadata) if required else dataclasses.field(default=None, metadata=metadata)


def keys_of(table: type) -> Mapping[str, Key]:
    """The keys of a table, in the order in which files and the documentation have them."""
    if table not in _KEYS:
        fields = [field for field in dataclasses.fields(table) if "key" in field.metadata]
        names = [field.metadata["name"] or field.name for field in fields]
        _KEYS[table] = {name: dataclasses.replace(of.metadata["key"], attribute=of.name) for name, of in zip(names, fields, strict=True)}
    return _KEYS[table]


_KEYS: dict[type, Mapping[str, Key]] = {}

# How keys are written, for messages. Where tables use one name for several kinds of value, there is a line of each.
LINES = """
arch = "sm_90a"
dtype = "bf16"
extent = { m = 256, k = 512 }
stride = { m = 1024, k = 2 }
address = 0x400
bytes = 8192
bytes = "0000803f00000040"
layout = { swizzle = "128B", xor = "address", mn = [[8, 128], [8, 1024]], k = [[128, 1]] }
xor = "address"
mn = [[8, 128], [8, 1024]]
k = [[128, 1]]
k = 16
m = 64
n = 128
of = "A"
data_type = "BFLOAT16"
global_address = "A"
global_dim = [512, 256]
global_strides = [1024]
box_dim = [64, 64]
swizzle = "128B"
stages = 4
stage_bytes = 8192
op = "mma"
map = "tmA"
map = { data_type = "bf16", global_address = "A", global_dim = [64, 64], global_strides = [128], box_dim = [64, 64], swizzle = "128B" }
to = "sA"
from = "sA"
at = [64, 128]
offset = 0
expect_bytes = 8192
kind = "wgmma"
major = "K"
word = 0x4000004000010040
words = [0x4000004000010040, 0x4000004000010042]
start = "sA"
k_add = [0, 32, 64, 96]
tensor = "A"
axes = ["m", "k"]
meant = { tensor = "A", axes = ["m", "k"], at = [0, 0] }
idesc = 0x08200490
findings = ["D308"]
grid = [4, 1, 1]
block = [128, 1, 1]
cluster = [2, 1, 1]
shared_bytes = 65536
args = [{array = "A"}, {value = 128, type = "u32"}]
arrays = [{name = "A", dtype = "bf16", shape = [64, 64], distribution = {normal = [0, 1]}, seed = 1}]
outputs = ["D"]
expected = {D = "expected.npy"}
distribution = {normal = [0, 1]}
shape = [64, 64]
file = "a.npy"
array = "A"
value = 128
type = "u32"
tolerance = {relative = 1e-5}
ptx = "kernel.ptx"
entry = "gemm"
rtol = 1e-5
atol = 1e-6
""".strip().splitlines()


def as_in(name: str, of: Key) -> str:
    """`; as in: KEY = VALUE`, the line to write for a key; nothing where no line is known.

    >>> as_in("extent", Key("table", "elements by axis"))
    '; as in: extent = { m = 256, k = 512 }'
    """
    for line in LINES:
        if line.partition(" = ")[0] == name and of.kind.is_one(tomllib.loads(line)[name]):
            return f"; as in: {line}"
    return ""


def schema_of(keys: Mapping[str, Key], inner: Mapping[str, Mapping[str, object]] | None = None) -> dict[str, object]:
    """The JSON schema of a table; `inner` are those of the tables in it, by key."""
    inner = inner or {}
    return {
        "type": "object",
        "properties": {name: {**inner.get(name, of.kind.schema), "description": of.says} for name, of in keys.items()},
        "required": [name for name, of in keys.items() if of.required],
        "additionalProperties": False,
    }


# ---- A mistake in a file


class TableError(InputError):
    """A scenario or launch file has a mistake. `path` is the path of the value; the message of a file starts with its
    name and line.

    >>> import smemsim
    >>> smemsim.check({"arch": "sm_90a", "stepp": []})
    Traceback (most recent call last):
    smemsim.core.tables.TableError: scenario: stepp: not a key here; did you mean 'step'?; there are arch, title, source, cta_group, excerpt, tensor, buffer, map, step, expect
    """

    def __init__(self, message: str, path: Path | None = None, *, located: bool = False) -> None:
        super().__init__(message)
        self.path = path or Path()
        self.located = located


def mistake(path: Path, says: str, between: str = ": ") -> TableError:
    """The error about what stands at a path."""
    return TableError(f"{_spelled(path)}{between}{says}" if path else says, path)


def _spelled(path: Path) -> str:
    """The path with its names as sentences have them."""
    return str(Path(tuple(part if isinstance(part, int) else name_told(part) for part in path.keys)))


def name_told(name: str) -> str:
    """Somebody's name for a thing, as it stands in a sentence."""
    text = name if name.isprintable() else repr(name)[1:-1]
    return text if len(text) <= MOST_NAME else text[: MOST_NAME - 1] + "…"


# ---- Reading tables: what does not fit is a mistake


def check_table(table: object, keys: Mapping[str, Key], path: Path, *, between: str = ": ") -> None:
    """The table has known keys, each with what it holds, and the required ones; `between` stands in sentences between a
    path and what is there.
    """
    if not isinstance(table, dict):
        raise mistake(path, f"{shown(table)}: needs a table", between)
    for name, value in table.items():
        if name not in keys:
            near = closest(name, keys)
            meant = f"; did you mean {near!r}?{as_in(near, keys[near])}" if near else ""
            raise mistake(path / name, f"not a key here{meant}; there are {', '.join(keys)}")
        if not keys[name].kind.is_one(value):
            raise mistake(path / name, f"{shown(value)}: needs {keys[name].kind.needs}{as_in(name, keys[name])}", between)
    for name, of in keys.items():
        if of.required and name not in table:
            raise mistake(path, f"{name} is missing: needs {of.kind.needs}{as_in(name, of)}")


def read_table(table: type[Made], raw: object, path: Path) -> Made:
    """The dataclass of a table of a file. Raises TableError."""
    check_table(raw, keys_of(table), path)
    assert isinstance(raw, dict)
    return made(table, raw)


def made(table: type[Made], raw: Mapping[str, object], **inner: object) -> Made:
    """The dataclass of a table that has been looked at; `inner` are the values of tables in it, by attribute."""
    keys = keys_of(table)
    return table(**{keys[name].attribute: frozen(value) for name, value in raw.items()} | inner)


def frozen(value: object) -> Any:
    """A value of a file for a dataclass: lists become tuples."""
    if isinstance(value, dict):
        return {name: frozen(inner) for name, inner in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def plain(value: object) -> Any:
    """The content for a file: a table without the keys that are not given, lists, numbers and texts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        keys = keys_of(type(value))
        return {name: plain(there) for name, of in keys.items() if (there := getattr(value, of.attribute)) is not None}
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def with_value(table: Made, path: Path, value: object) -> Made:
    """The same tables with another value at a path, as a file has it or as a dataclass; all others are shared. Raises
    TableError for what cannot stand there.
    """
    return _with(table, path.keys, value, path)  # type: ignore[return-value]


def _with(there: object, keys: Sequence[str | int], value: object, path: Path) -> object:
    if not keys:
        return frozen(value)
    part, *rest = keys
    if dataclasses.is_dataclass(there) and not isinstance(there, type) and part in keys_of(type(there)):
        of = keys_of(type(there))[str(part)]
        if not rest and not dataclasses.is_dataclass(value) and not of.kind.is_one(value):
            raise mistake(path, f"{shown(value)}: needs {of.kind.needs}")
        return dataclasses.replace(there, **{of.attribute: _with(getattr(there, of.attribute), rest, value, path)})
    if isinstance(there, tuple) and isinstance(part, int) and part < len(there):
        return (*there[:part], _with(there[part], rest, value, path), *there[part + 1 :])
    if isinstance(there, Mapping) and isinstance(part, str) and part in there:
        return {**there, part: _with(there[part], rest, value, path)}
    raise mistake(path, f"there is no {part}")


# ---- The text of a file, and where in it a key stands


@dataclasses.dataclass(frozen=True)
class Source:
    """The source of tables: the name that messages have for it, and the text of the file, "" if it is no file."""

    name: str
    text: str = ""
    is_toml: bool = False

    @classmethod
    def of_file(cls, path: pathlib.Path, most: int, what: str) -> Source:
        """A file of at most `most` bytes, TOML or JSON by its ending, or by how it begins; `what` it is, for messages.
        Raises TableError.
        """
        try:
            if os.path.isdir(path):
                raise TableError(f"{path}: is a folder; {what} is a file, .toml or .json", located=True)
            data = read_bytes(path, most)
        except (InputError, ValueError) as e:
            raise TableError(str(e), located=True) from None
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as e:
            raise TableError(f"{path}: not a text file (byte {e.start} is not UTF-8); needs TOML or JSON", located=True) from None
        return cls.of_text(path, text)

    @classmethod
    def of_text(cls, path: pathlib.Path, text: str) -> Source:
        """A file's text: JSON by the file's ending, or by how it begins, else TOML."""
        return cls(str(path), text, path.suffix.lower() != ".json" and not text.lstrip().startswith("{"))

    def line(self, path: Path) -> int:
        """The line (from 1 on) of the deepest part of the path that stands in the text; 1 for none.

        >>> text = '{"step": [\\n {"op": "mma"},\\n {"op": "bulk",\\n  "byts": 3}]}'
        >>> Source("a.json", text).line(Path.of("step", 1, "byts"))
        4
        >>> text = 'arch = "sm_90a"\\n[[step]]\\nop = "mma"\\n[[step]]\\nop = "bulk"\\nbyts = 3'
        >>> Source("a.toml", text, is_toml=True).line(Path.of("step", 1, "byts"))
        6
        """
        places = _toml_places(self.text) if self.is_toml else _json_places(self.text)
        return next((places[path.keys[:n]] for n in range(len(path), 0, -1) if path.keys[:n] in places), 1)

    def located(self, error: InputError) -> TableError:
        """The error with the name, and the line of what it is about."""
        if isinstance(error, TableError) and error.located:
            return error
        path = error.path if isinstance(error, TableError) else Path()
        line = f":{self.line(path)}" if self.text else ""
        return TableError(f"{self.name}{line}: {error}", path, located=True)

    def parsed(self) -> Any:
        """The tables of the text. TOMLDecodeError or JSONDecodeError for what is no TOML or JSON. InputError for a key
        that stands twice, and for numbers and keys that take for ever to read.
        """
        if not self.text.strip():
            return {}
        try:
            return parse_toml(self.text) if self.is_toml else json.loads(self.text, object_pairs_hook=_each_once)
        except (InputError, tomllib.TOMLDecodeError, json.JSONDecodeError):
            raise
        except ValueError:  # Python reads no decimal number of more than 4300 digits
            raise InputError("holds a number of thousands of digits; a word has at most 64 bits") from None


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise InputError(f"{name!r} stands twice in one table")
        found[name] = value
    return found


_HEADER = re.compile(r"^\s*(\[{1,2})([^\]]+)\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\"'-]+)\s*=")
_INNER = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z0-9_]++)\s*+=")
_COLON = re.compile(r"\s*+:")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n|[^\s{}\[\],:"]+')
Places = dict[tuple[str | int, ...], int]


def _toml_places(text: str) -> Places:
    """Headers and keys at the beginning of lines; inline tables count as the line of their key."""
    places: Places = {}
    counts: Places = {}
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
        elif begin := _KEY.match(line):
            path = (*here, *(part.strip().strip("\"'") for part in begin[1].split(".")))
            places.setdefault(path, number)
            for name in _INNER.findall(line, begin.end()):
                places.setdefault((*path, name), number)
    return places


def _json_places(text: str) -> Places:
    """Every key and every entry of a list, by walking over the tokens."""
    places: Places = {}
    stack: list[list[str | int]] = []  # of every open bracket: the key or the index that is next
    line = 1
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word == "\n":
            line += 1
        elif word in "{[":
            if stack:
                places.setdefault(tuple(at[0] for at in stack), line)
            stack.append([0 if word == "[" else ""])
        elif word in "}]":
            stack.pop()
        elif word == "," and stack and isinstance(stack[-1][0], int):
            stack[-1][0] += 1
        elif word.startswith('"') and stack and isinstance(stack[-1][0], str) and _COLON.match(text, token.end()):
            stack[-1][0] = json.loads(word)
            places.setdefault(tuple(at[0] for at in stack), line)
        elif stack and isinstance(stack[-1][0], int):
            places.setdefault(tuple(at[0] for at in stack), line)
    return places
