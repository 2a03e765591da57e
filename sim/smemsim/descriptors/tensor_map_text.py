"""Texts of tensor maps as people paste them: encode calls in C, C++ and Python, and 128 bytes as debuggers print them.

Nothing is executed: the text of a call is brought into Python's grammar, parsed with `ast`, and only literals, names of enumerators, casts
and arithmetic of whole numbers are read.
"""

from __future__ import annotations

import ast
import operator
import re
from typing import Any

from smemsim.arguments import shown
from smemsim.descriptors.tensor_map_arguments import ENUMS, LISTS
from smemsim.descriptors.tensor_map_pointers import refused_nulls
from smemsim.descriptors.tensor_map_rule import Call
from smemsim.errors import InputError, TensorMapError
from smemsim.spec.tensor_map import LIMITS, TENSOR_MAP

__all__ = ["parse_bytes", "parse_call"]

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
_OURS: dict[str, Call] = {call: call for call in _PARAMETERS}
_CALLED = re.compile(r"\b(?:cuTensorMapEncode(Tiled|Im2colWide|Im2col)\w*|TensorMap\s*\.\s*(tiled|im2col_wide|im2col))\s*\(")
_OPTIONAL = ("element_strides", "interleave", "mode", "swizzle", "l2_promotion", "oob_fill")
_LONGEST = 1 << 16  # characters of a text that is still a call

# C into Python, in this order.
_REWRITES = (
    (re.compile(r"\b\w+_cast\s*<[^<>]*>"), ""),
    (re.compile(r"\(\s*(?:const\s+)?[A-Za-z_][\w:]*(?:\s+[A-Za-z_]\w*)*\s*(?:const\s*)?\*+\s*(?:const\s*)?\)"), ""),
    (
        re.compile(
            r"\(\s*(?:const\s+)?[\w:\s]*?(?:\w+_t|int|long|short|unsigned|signed|char|CUdeviceptr|CUtensorMap\w+)\s*(?:\[\s*\w*\s*\])?\s*\)"
        ),
        "",
    ),
    (re.compile(r"\b[\w:]+\s*(?:<[^<>]*>)?\s*(?=\{)"), ""),
    (re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])"), ""),
    (re.compile(r"\b(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uUlLzZ]+\b"), r"\1"),
    (re.compile(r"\b(?:nullptr|NULL)\b"), "0"),
    (re.compile(r"::"), "."),
    (re.compile(r"\{"), "["),
    (re.compile(r"\}"), "]"),
)
_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*|#[^\n]*|(\"[^\"\n]*\"|'[^'\n]*')", re.DOTALL)

_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
    ast.Pow: operator.pow, ast.Div: operator.floordiv,
}  # fmt: skip
_MOST_BITS = 128


def parse_call(text: str) -> tuple[Call, dict[str, Any]] | None:
    """(which call, its arguments by our names) of the first encode call in a text; None when there is none.

    >>> parse_call("TensorMap.tiled(data_type='u8', global_address=0x100, global_dim=[64 * 2], global_strides=[], box_dim=[1 << 6])")
    ('tiled', {'data_type': 'u8', 'global_address': 256, 'global_dim': [128], 'global_strides': [], 'box_dim': [64]})
    """
    found = _CALLED.search(text[:_LONGEST])
    if found is None:
        return None
    driver, ours = found.groups()
    call: Call = _DRIVER[driver] if driver else _OURS[ours]
    body = _body(_COMMENTS.sub(lambda m: m[1] or " ", text[found.end() : found.end() + _LONGEST]))
    for pattern, instead in _REWRITES:
        body = pattern.sub(instead, body)
    named: dict[str, str] = {}
    plain: list[str] = []
    for piece in _split(body):
        name = re.match(r"\.?\s*([A-Za-z_]\w*)\s*=(?!=)", piece)
        if name:
            named[name[1]] = piece[name.end() :]
        else:
            plain.append(piece)
    parameters = _PARAMETERS[call]
    if driver:
        return call, _driver_arguments(call, plain, named)
    if plain:
        raise InputError(f"TensorMap.{call}: the argument {shown(plain[0])} has no name; write data_type=…, global_address=…")
    known = {*parameters.values(), "arch"} - {"rank"}
    for other in named.keys() - known:
        raise InputError(
            f"TensorMap.{call} has no argument {other}; it has {', '.join(n for n in parameters.values() if n != 'rank')}, arch"
        )
    if missing := [n for n in parameters.values() if n not in {*named, "rank", *_OPTIONAL}]:
        raise InputError(f"TensorMap.{call}: {', '.join(missing)} missing")
    return call, {name: _value(name, source) for name, source in named.items()}


def _driver_arguments(call: Call, plain: list[str], named: dict[str, str]) -> dict[str, Any]:
    """The arguments of the driver's call; as in C the first is the map to write, in cuda.bindings there is none."""
    parameters = _PARAMETERS[call]
    title = next(f"cuTensorMapEncode{name}" for name, value in _DRIVER.items() if value == call)
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
    given = {name: _value(name, source) for name, source in sources.items()}
    rank = given.pop("rank")
    if not isinstance(rank, int):
        raise InputError(f"tensorRank = {shown(rank)}: needs a whole number")
    for name in LISTS:
        if name in given:
            given[name] = _entries(name, given[name], rank)
    return given


def _entries(name: str, values: Any, rank: int) -> Any:
    """The entries that the driver reads: as many as the rank says; arrays may be longer. Null pointers are refused (trace encode_pointers)."""
    if values in (0, None):
        raise TensorMapError(refused_nulls([name]))
    if not isinstance(values, list):
        return values  # said to be no list by those who take it
    wanted = {"global_strides": rank - 1, "pixel_box_lower_corner": rank - 2, "pixel_box_upper_corner": rank - 2}.get(name, rank)
    if name == "global_dim" and len(values) < rank:
        raise InputError(f"global_dim has {len(values)} entries: tensorRank = {rank} reads {rank}")
    return values[: max(wanted, 0)]


def _body(text: str) -> str:
    """What stands between the call's brackets; `text` begins behind the first."""
    depth = 1
    for i, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0:
            return text[:i]
    raise InputError("the call ends before its closing bracket")


def _split(text: str) -> list[str]:
    """Arguments at the top level, without a trailing comma."""
    pieces, depth, begin = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            pieces.append(text[begin:i])
            begin = i + 1
    pieces.append(text[begin:])
    stripped = [piece.strip() for piece in pieces]
    return stripped[:-1] if not stripped[-1] else stripped


def _value(name: str, source: str) -> Any:
    """A whole number, a list of them, or the name of an enumerator."""
    text = " ".join(source.split())
    quoted = re.fullmatch(r"\"([^\"]*)\"|'([^']*)'", text)
    if quoted:
        return quoted[1] or quoted[2] or ""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"{name} = {shown(source)}: cannot be read; write whole numbers, lists of them, or an enumerator's name") from None
    return _read(name, tree, source)


def _read(name: str, node: ast.expr, source: str) -> Any:
    def refuse(why: str) -> InputError:
        return InputError(f"{name} = {shown(source)}: {why}")

    match node:
        case ast.Constant(value=value) if value is None or (isinstance(value, (int, str)) and not isinstance(value, bool)):
            return value
        case ast.Name(id=word) | ast.Attribute(attr=word):
            if name in ENUMS or name == "arch":
                return word
            raise refuse(f"{word} is a name; put its value there")
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            return [_read(f"{name}[{i}]", entry, source) for i, entry in enumerate(entries)]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert() as sign, operand=operand):
            value = _read(name, operand, source)
            if isinstance(value, int):
                return -value if isinstance(sign, ast.USub) else ~value if isinstance(sign, ast.Invert) else value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _arithmetic(_read(name, left, source), op, _read(name, right, source), refuse)
        case ast.Call(
            func=ast.Name() | ast.Attribute(), args=[inner], keywords=[]
        ):  # a cast: cuuint64_t(64), int(64), CUdeviceptr(0x10000)
            return _read(name, inner, source)
        case ast.Call(func=ast.Attribute(value=ast.List() as entries, attr="data" | "begin"), args=[], keywords=[]):
            return _read(name, entries, source)
    raise refuse("only whole numbers, their arithmetic, lists of them and enumerators' names are read")


def _arithmetic(left: Any, op: ast.operator, right: Any, refuse: Any) -> Any:
    """Whole numbers of at most 128 bits, or a list repeated a few times."""
    if isinstance(left, list) and isinstance(op, ast.Mult) and isinstance(right, int) and len(left) * right <= 2 * LIMITS.max_rank:
        return left * right
    if not (isinstance(left, int) and isinstance(right, int)):
        raise refuse("arithmetic is read of whole numbers only")
    if isinstance(op, (ast.LShift, ast.RShift, ast.Pow)) and not 0 <= right <= _MOST_BITS:
        raise refuse(f"{right} is no sensible number of bits")
    if isinstance(op, (ast.FloorDiv, ast.Div, ast.Mod)) and right == 0:
        raise refuse("divides by zero")
    if isinstance(op, ast.Div) and left % right:
        raise refuse(f"{left} / {right} is no whole number")
    result = _OPERATORS[type(op)](left, right)
    if result.bit_length() > _MOST_BITS:
        raise refuse("far beyond anything the hardware has")
    return result


_ADDRESS_COLUMN = re.compile(r"(?m)^\s*(?:0x)?[0-9a-fA-F]+\s*(?:<[^>\n]*>)?\s*:(?!:)")
_HEXDUMP_LINE = re.compile(r"(?m)^\s*[0-9a-fA-F]{7,8}\s{2}((?:\s*[0-9a-fA-F]{2}\b){1,16})\s*\|.*\|\s*$")
_XXD_LINE = re.compile(r"(?m)^\s*[0-9a-fA-F]+:\s((?:[0-9a-fA-F]{2,16}\s)+)\s\S.*$")
_REPEATS = re.compile(r"((?:0x)?[0-9a-fA-F]+)\s*<repeats\s+(\d{1,3})\s+times>,?")
_LABEL = re.compile(r"\$\d+\s*=|\b[A-Za-z_]\w*\s*=(?=\s*[\[{(0-9])")


def parse_bytes(text: str) -> bytes | None:
    """The 128 bytes of a tensor map from hex as debuggers print it; None when the text is something else.

    Bytes in order, in any grouping; or 32-bit or 64-bit little-endian words, each in its own token, behind an address column or not.

    >>> parse_bytes("00 " * 128) == bytes(128), parse_bytes("0x00000001, " + "0x00000000 " * 31)[:2], parse_bytes("0x4000404000010040")
    (True, b'\\x01\\x00', None)
    """
    text = _XXD_LINE.sub(r"\1", _HEXDUMP_LINE.sub(r"\1", text[:_LONGEST]))
    text = _LABEL.sub(" ", _ADDRESS_COLUMN.sub(" ", text))
    text = _REPEATS.sub(lambda m: f"{m[1]} " * int(m[2]), text)
    tokens = [t for t in re.split(r"[\s,;:|\[\](){}\"']+", text.lower().replace("\\x", " 0x")) if t]
    if not tokens or not all(re.fullmatch(r"(?:0x)?[0-9a-f_]+(?:u?l{0,2})", t) for t in tokens):
        return None
    size = TENSOR_MAP.parts.size
    prefixed = [t.startswith("0x") for t in tokens]
    digits = [re.sub(r"[_ul]", "", t.removeprefix("0x")) for t in tokens]
    # One number a token: 16 or 32 words, or all bytes, whatever zeros were left out.
    if (all(prefixed) or _decimals(tokens)) and (width := {16: 8, 32: 4, 128: 1}.get(len(tokens))):
        numbers = [int(d, 16 if p else 10) for d, p in zip(digits, prefixed, strict=True)]
        if max(numbers).bit_length() <= 8 * width:
            return b"".join(number.to_bytes(width, "little") for number in numbers)
    if sum(map(len, digits)) != 2 * size:
        return None
    if len(digits[0]) in (8, 16) and len({*map(len, digits)}) == 1:
        return b"".join(int(d, 16).to_bytes(len(d) // 2, "little") for d in digits)
    return bytes.fromhex("".join(digits))


def _decimals(tokens: list[str]) -> bool:
    """Numbers as a debugger prints an array without a format: decimal, without leading zeros, of differing widths or all 0."""
    plain = all(t.isdigit() and (t == "0" or t[0] != "0") for t in tokens)
    return plain and sum(map(len, tokens)) != 2 * TENSOR_MAP.parts.size
