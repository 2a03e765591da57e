"""The encode calls in a text of C, C++ or Python: which they are, where they stand, and their arguments by our names."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from smemsim.arguments import shown
from smemsim.descriptors.tensor_map.arguments import LISTS, member
from smemsim.descriptors.tensor_map.expression import Definition, value
from smemsim.descriptors.tensor_map.names import definitions, outside_strings, without_comments
from smemsim.descriptors.tensor_map.pointers import refused_nulls
from smemsim.descriptors.tensor_map.rule import Call
from smemsim.errors import InputError, TensorMapError
from smemsim.spec.tensor_map import DATA_TYPES, LIMITS

__all__ = ["Pasted", "find_calls", "parse_call"]

# The parameters of each call in the driver's order: the header's name and ours.
_FIRST = {
    "tensorDataType": "data_type",
    "tensorRank": "rank",
    "globalAddress": "global_address",
    "globalDim": "global_dim",
    "globalStrides": "global_strides",
}
_STEPS = {"elementStrides": "element_strides", "interleave": "interleave"}
_LAST = {"swizzle": "swizzle", "l2Promotion": "l2_promotion", "oobFill": "oob_fill"}
_COLUMN = {"channelsPerPixel": "channels_per_pixel", "pixelsPerColumn": "pixels_per_column"}
_PARAMETERS: dict[Call, dict[str, str]] = {
    "tiled": {**_FIRST, "boxDim": "box_dim", **_STEPS, **_LAST},
    "im2col": {**_FIRST, "pixelBoxLowerCorner": "pixel_box_lower_corner", "pixelBoxUpperCorner": "pixel_box_upper_corner", **_COLUMN, **_STEPS, **_LAST},
    "im2col_wide": {
        **_FIRST, "pixelBoxLowerCornerWidth": "pixel_box_lower_corner_width", "pixelBoxUpperCornerWidth": "pixel_box_upper_corner_width",
        **_COLUMN, **_STEPS, "mode": "mode", **_LAST,
    },
}  # fmt: skip
_DRIVER: dict[str, Call] = {"Tiled": "tiled", "Im2col": "im2col", "Im2colWide": "im2col_wide"}
_CALLED = re.compile(
    r"\b(?!PFN_)\w*?cuTensorMapEncode(?P<driver>Tiled|Im2colWide|Im2col)\w*+\s*+\(|"
    r"\bTensorMap\s*+\.\s*+(?P<ours>tiled|im2col_wide|im2col)\s*+\(|"
    r"\b(?P<pointer>[A-Za-z_]\w*+)\s*+(?:\)\s*+)?\(\s*+&[^,;()]{1,80},\s*+[\w:.]{0,80}CU_TENSOR_MAP_DATA_TYPE_\w++\s*+,"
)
_OPTIONAL = ("element_strides", "interleave", "mode", "swizzle", "l2_promotion", "oob_fill")
_LONGEST, _LONGEST_LINE, _LONGEST_CALL = 1 << 20, 1 << 13, 1 << 13  # characters of a source file, of a line of it, and of a call
_LINE = re.compile(rf"[^\n]{{{_LONGEST_LINE}}}[^\n]")


@dataclasses.dataclass(frozen=True)
class Pasted:
    """One call in a text: the name it has there, its line from 1 on, and the text between its brackets."""

    call: Call
    name: str
    line: int
    body: str
    names: dict[str, Definition] = dataclasses.field(repr=False)

    @property
    def is_driver(self) -> bool:
        """A call of the driver's function, not of `TensorMap`?"""
        return not self.name.startswith("TensorMap")

    def hints(self) -> list[str]:
        """What the numbers look like, where they are not what the call reads.

        >>> call = "cuTensorMapEncodeTiled(&tm, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void*)64, {64, 8}, {2, 128}, {64, 8}, {1, 1}, 0, 0, 0, 0)"
        >>> find_calls(call)[0].hints()
        ['globalStrides = {2, 128}: begins with the step of dimension 1; dimension 0 is contiguous and has no entry: {128}']
        """
        plain, named = _separated(self.body)
        names = list(_PARAMETERS[self.call])
        plain = plain[len(plain) + len(named) - len(names) :] if self.is_driver else []
        try:
            read = {
                name: value(ours, plain[names.index(name)], self.names) for name, ours in _FIRST.items() if names.index(name) < len(plain)
            }
            read |= {name: value(ours, named[key], self.names) for name, ours in _FIRST.items() for key in (name, ours) if key in named}
        except InputError:
            return []
        kind, strides, dims = member("data_type", read.get("tensorDataType", 0), []), read.get("globalStrides"), read.get("globalDim")
        if kind is None or not isinstance(strides, list) or not isinstance(dims, list):
            return []
        first = DATA_TYPES[kind].itemsize
        if len(strides) < 2 or len(strides) < len(dims) or strides[0] not in (first, 1):
            return []
        listed = ", ".join(map(str, strides))
        rest = f": {{{', '.join(map(str, strides[1:]))}}}" if strides[0] == first else ""
        return [f"globalStrides = {{{listed}}}: begins with the step of dimension 1; dimension 0 is contiguous and has no entry{rest}"]

    def arguments(self) -> dict[str, Any]:
        """The arguments by our names; InputError, or TensorMapError for null pointers, with a sentence.

        >>> text = "TensorMap.tiled(data_type='u8', global_address=0x100, global_dim=[64 * 2], global_strides=[], box_dim=[1 << 6])"
        >>> find_calls(text)[0].arguments()["box_dim"]
        [64]
        """
        plain, named = _separated(self.body)
        if self.is_driver:
            return _driver_arguments(self, plain, named)
        parameters = [name for name in _PARAMETERS[self.call].values() if name != "rank"]
        if plain:
            raise InputError(f"TensorMap.{self.call}: the argument {shown(plain[0])} has no name; write data_type=…, global_address=…")
        for other in named.keys() - {*parameters, "arch"}:
            raise InputError(f"TensorMap.{self.call} has no argument {other}; it has {', '.join(parameters)}, arch")
        if missing := [name for name in parameters if name not in {*named, *_OPTIONAL}]:
            raise InputError(f"TensorMap.{self.call}: {', '.join(missing)} missing")
        return {name: value(name, source, self.names) for name, source in named.items()}


def find_calls(text: str) -> list[Pasted]:
    """Every encode call of a text in its order; comments, `#if 0`, strings, and declarations of the function are none.

    >>> [(c.name, c.line) for c in find_calls("// cuTensorMapEncodeTiled(&a)\\nencode(&b, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, p, 0, 0, 0, 0, 0, 0, 0, 0)")]
    [('encode', 2)]
    """
    if len(text) > _LONGEST:
        raise InputError(f"a text of {len(text):,} characters: paste the encode call with the constants it uses")
    if not _CALLED.search(text):
        return []
    if long := _LINE.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise InputError(f"line {line} has more than {_LONGEST_LINE} characters: paste the encode call with the constants it uses")
    text = without_comments(text)
    searched = outside_strings(text)
    if not _CALLED.search(searched) and text.strip()[:1] in ("'", '"') and text.strip()[-1:] == text.strip()[:1]:
        text = searched = text.strip()[1:-1]  # a call in quotation marks
    names = definitions(text)
    found, doubtful, end = [], [], 0
    for m in _CALLED.finditer(searched):
        if m.start() < end:
            continue
        opened = searched.index("(", m.end() - 1) if m[0].endswith("(") else m.start() + m[0].index("(", m[0].find(")") + 1)
        body = _body(text, searched, opened + 1)
        call: Call | None = _DRIVER[m["driver"]] if m["driver"] else m["ours"]  # type: ignore[assignment]
        if call is None:
            counted = sum(map(len, _separated(body)))
            call = next((name for name, parameters in _PARAMETERS.items() if len(parameters) + 1 == counted), None)
        name = m["pointer"] or " ".join(m[0][:-1].split())
        if call is None:
            doubtful.append(f"{name} has {counted} arguments")
            continue
        if not _declares(body):
            found.append(Pasted(call, name, text.count("\n", 0, m.start()) + 1, body, names))
            end = opened + len(body)
    if doubtful and not found:
        raise InputError(f"{doubtful[0]}: cuTensorMapEncodeTiled has 12, …Im2col 15, …Im2colWide 16; paste the driver's call")
    return found


def parse_call(text: str) -> tuple[Call, dict[str, Any]] | None:
    """(which call, its arguments by our names) of the encode call in a text; None when there is none, InputError for several.

    >>> parse_call("TensorMap.tiled(data_type='u8', global_address=0x100, global_dim=[64 * 2], global_strides=[], box_dim=[1 << 6])")
    ('tiled', {'data_type': 'u8', 'global_address': 256, 'global_dim': [128], 'global_strides': [], 'box_dim': [64]})
    """
    calls = find_calls(text)
    if len(calls) > 1:
        lines = ", ".join(str(c.line) for c in calls)
        raise InputError(f"{len(calls)} encode calls, in lines {lines}: pass the text of one")
    return (calls[0].call, calls[0].arguments()) if calls else None


def _declares(body: str) -> bool:
    """
    >>> _declares("CUtensorMap* tensorMap, CUtensorMapDataType type"), _declares("&tm, CU_TENSOR_MAP_DATA_TYPE_UINT8")
    (True, False)
    """
    return bool(re.match(r"\s*(?:const\s+)?CUtensorMap\s*\*\s*(?:\w+\s*)?(?:,|$)", body))


def _separated(body: str) -> tuple[list[str], dict[str, str]]:
    """Arguments without and with a name.

    >>> _separated("&tm, {1, 2}, rank=3,")
    (['&tm', '{1, 2}'], {'rank': '3'})
    """
    plain, named = [], {}
    for piece in _split(body):
        name = re.match(r"\.?\s*([A-Za-z_]\w*)\s*=(?!=)\s*", piece)
        if not name:
            plain.append(piece)
        elif name[1] in named:
            raise InputError(f"the argument {name[1]} is there twice")
        else:
            named[name[1]] = piece[name.end() :]
    return plain, named


def _driver_arguments(pasted: Pasted, plain: list[str], named: dict[str, str]) -> dict[str, Any]:
    """The arguments of the driver's call; as in C the first is the map to write, in cuda.bindings there is none."""
    parameters = _PARAMETERS[pasted.call]
    title = next(f"cuTensorMapEncode{name}" for name, call in _DRIVER.items() if call == pasted.call)
    named = {name: source for name, source in named.items() if name != "tensorMap"}
    if plain and (plain[0].startswith("&") or len(plain) + len(named) == len(parameters) + 1):
        plain = plain[1:]
    if len(plain) + len(named) != len(parameters):
        raise InputError(
            f"{title} has {len(plain) + len(named)} arguments here besides the map to write: needs {len(parameters)}: "
            f"{', '.join(parameters)}"
        )
    sources = dict(zip(parameters.values(), plain, strict=False))
    for name, source in named.items():
        ours = parameters.get(name, name)
        if ours not in parameters.values() or ours in sources:
            raise InputError(f"{title}: the argument {name} is not one of its own, or is there twice; it has {', '.join(parameters)}")
        sources[ours] = source
    given = {name: value(name, source, pasted.names) for name, source in sources.items()}
    rank = given.pop("rank")
    if not isinstance(rank, int):
        raise InputError(f"tensorRank = {shown(rank)}: needs a whole number")
    for name in LISTS:
        if name in given:
            given[name] = _entries(name, given[name], rank)
    return given


def _entries(name: str, values: Any, rank: int) -> Any:
    """The entries that the driver reads: as many as the rank says; arrays may be longer, up to those of the highest rank. Null pointers are refused (trace encode_pointers)."""
    if values in (0, None):
        raise TensorMapError(refused_nulls([name]))
    if not isinstance(values, list):
        return values  # said to be no list by those who take it
    wanted = {"global_strides": rank - 1, "pixel_box_lower_corner": rank - 2, "pixel_box_upper_corner": rank - 2}.get(name, rank)
    if name == "global_dim" and len(values) < rank:
        raise InputError(f"global_dim has {len(values)} entries: tensorRank = {rank} reads {rank}")
    most = wanted + LIMITS.max_rank - rank  # what the driver reads of a map of the highest rank
    if len(values) > max(most, wanted, 0):
        raise InputError(
            f"{name} has {len(values)} entries: tensorRank = {rank} reads {max(wanted, 0)}, and no rank reads more than {most}"
        )
    return values[: max(wanted, 0)]


def _body(text: str, searched: str, begin: int) -> str:
    """What stands between the call's brackets; `searched` is the text without strings."""
    depth = 1
    for i in range(begin, min(len(searched), begin + _LONGEST_CALL)):
        depth += (searched[i] in "([{") - (searched[i] in ")]}")
        if depth == 0:
            return text[begin:i]
    if begin + _LONGEST_CALL < len(searched):
        raise InputError(f"the call has no closing bracket within {_LONGEST_CALL} characters")
    raise InputError("the call ends before its closing bracket")


def _split(text: str) -> list[str]:
    """Arguments at the top level, without a trailing comma.

    >>> _split("a, std::array<int, 2>{1, 2}, f(3, 4),")
    ['a', 'std::array<int, 2>{1, 2}', 'f(3, 4)']
    """
    text = re.sub(r"\b[\w:]+\s*<[^<>]*>\s*(?=\{)", lambda m: m[0].replace(",", "\0"), text)
    pieces, depth, begin = [], 0, 0
    for i, letter in enumerate(outside_strings(text)):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            pieces.append(text[begin:i])
            begin = i + 1
    pieces.append(text[begin:])
    stripped = [piece.strip().replace("\0", ",") for piece in pieces]
    return stripped[:-1] if not stripped[-1] else stripped
