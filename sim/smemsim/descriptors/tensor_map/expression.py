"""Values as they stand in C, C++ and Python sources: whole numbers and their arithmetic, lists, casts, sizeof, names defined in the same text.

Nothing is executed: the text of a value is brought into Python's grammar, parsed with `ast`, and only these forms are read.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from smemsim.arguments import shown, suggestion
from smemsim.descriptors.tensor_map.arguments import ENUMS
from smemsim.errors import InputError
from smemsim.spec.tensor_map import LIMITS

__all__ = ["Definition", "into_python", "value"]

# Bytes of C and CUDA types; those whose size differs between systems are not among them.
_BYTES = {
    1: "char bool int8_t uint8_t __nv_fp8_e4m3 __nv_fp8_e5m2 __nv_fp8_e8m0 float_e4m3_t float_e5m2_t float_ue8m0_t float_ue4m3_t byte",
    2: "short half __half __nv_bfloat16 nv_bfloat16 bfloat16 bfloat16_t half_t int16_t uint16_t BFloat16 Half __bf16 _Float16",
    4: "int unsigned float int32_t uint32_t tfloat32_t cuuint32_t __half2 half2 __nv_bfloat162",
    8: "double int64_t uint64_t size_t cuuint64_t CUdeviceptr ptrdiff_t intptr_t uintptr_t",
}
SIZES = {name: size for size, names in _BYTES.items() for name in names.split()}
_CASTS = re.compile(r"u?int\d*|long|c_\w+|CUtensorMap\w+")  # besides: cuuint64_t(64), int(64), ctypes.c_uint64(64)
_DIFFERS = ("long", "unsigned long", "long int", "wchar_t")

_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
    ast.Pow: operator.pow, ast.Div: operator.floordiv,
}  # fmt: skip
_MOST_BITS = 128
_LONGEST = 2000  # characters of a value
_DEEPEST = 16  # names defined by names

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
    (re.compile(r"\b(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uUlLzZ]+\b"), r"\1"),
    (re.compile(r"\b(?:nullptr|NULL)\b"), "0"),
    (re.compile(r"::"), "."),
    (re.compile(r"\{"), "["),
    (re.compile(r"\}"), "]"),
    (re.compile(r"&\s*([A-Za-z_]\w*)\s*\[\s*0\s*\]"), r"\1"),
)
_SIZEOF = re.compile(r"\bsizeof\s*(?:\(\s*([^()]*?)\s*\)|([A-Za-z_]\w*))")


class Definition(str):
    """The source of what a name stands for, and why it may not be used ("" where it may)."""

    why_not: str

    def __new__(cls, source: str, why_not: str = "") -> Definition:
        self = super().__new__(cls, source)
        self.why_not = why_not
        return self


Names = Mapping[str, Definition]


def into_python(source: str) -> str:
    """C's casts, braces, suffixes and null pointers in Python's grammar.

    >>> into_python("(cuuint64_t[2]){64ull, (int)0x80}")
    '[64, 0x80]'
    """
    for pattern, instead in _REWRITES:
        source = pattern.sub(instead, source)
    return source


def value(name: str, source: str, names: Names | None = None) -> Any:
    """A whole number, a list of them, or the name of an enumerator; `names` are those that the text defines.

    >>> value("global_dim", "{M, 4096 * sizeof(float)}", {"M": Definition("2 * 64")})
    [128, 16384]
    """
    if len(source) > _LONGEST:
        raise InputError(f"{name} = {shown(source)}: {len(source)} characters; a value has at most {_LONGEST}")
    try:
        return _read(name, _tree(name, source, names or {}), source, names or {}, 0)
    except RecursionError:
        raise InputError(
            f"{name} = {shown(source)}: nested too deeply; write whole numbers, lists of them, or an enumerator's name"
        ) from None


def _tree(name: str, source: str, names: Names) -> ast.expr:
    text = into_python(_with_sizes(name, " ".join(source.split()), names)).strip()
    if quoted := re.fullmatch(r"\"([^\"]*)\"|'([^']*)'", text):
        return ast.Constant(quoted[1] or quoted[2] or "")
    if name in ENUMS and re.fullmatch(r"\d+[A-Za-z]\w*", text):  # the short names 128B, 16U4_ALIGN8B
        return ast.Constant(text)
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"{name} = {shown(source)}: cannot be read; write whole numbers, lists of them, or an enumerator's name") from None


def _with_sizes(name: str, source: str, names: Names) -> str:
    """
    >>> _with_sizes("global_strides", "{64 * sizeof(T), sizeof(uint16_t)}", {"T": Definition("cutlass::half_t")})
    '{64 * 2, 2}'
    """

    def size(found: re.Match[str]) -> str:
        written = found[1] if found[1] is not None else found[2]
        kind = " ".join(written.replace("*", " * ").split())
        for _ in range(_DEEPEST):
            if kind in names and not names[kind].why_not:
                kind = names[kind].strip()
        plain = re.sub(r"^(?:const |unsigned |signed )(?=\w)", "", kind)
        last = plain.split("::")[-1]
        if kind.endswith("*"):
            return "8"
        if plain == "long long":
            return "8"
        if kind in _DIFFERS:
            raise InputError(f"{name}: sizeof({kind}) is 8 B on Linux and 4 B on Windows; write the number")
        if last not in SIZES:
            raise InputError(
                f"{name}: sizeof({written}): no type whose size is known here{suggestion(last, SIZES)}; write the size of the element in bytes"
            )
        return str(SIZES[last])

    return _SIZEOF.sub(size, source)


def _read(name: str, node: ast.expr, source: str, names: Names, depth: int) -> Any:
    def refuse(why: str) -> InputError:
        return InputError(f"{name} = {shown(source)}: {why}")

    match node:
        case ast.Constant(value=known) if known is None or (isinstance(known, (int, str)) and not isinstance(known, bool)):
            return known
        case ast.Name(id=word) if word in names:
            return _defined(name, word, names, depth, refuse)
        case ast.Name(id=word) | ast.Attribute(attr=word):
            if name.partition("[")[0] in ENUMS or name == "arch":
                return word
            raise refuse(f"{word} is a name; put its value there")
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            read = [_read(f"{name}[{i}]", entry, source, names, depth) for i, entry in enumerate(entries)]
            return read[0] if len(read) == 1 and isinstance(read[0], list) else read  # {{64, 128}} of std::array
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert() as sign, operand=operand):
            number = _read(name, operand, source, names, depth)
            if isinstance(number, int):
                return -number if isinstance(sign, ast.USub) else ~number if isinstance(sign, ast.Invert) else number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _arithmetic(_read(name, left, source, names, depth), op, _read(name, right, source, names, depth), refuse)
        case ast.Call(func=ast.Name(id=cast) | ast.Attribute(attr=cast), args=[inner], keywords=[]) if cast in SIZES or _CASTS.fullmatch(
            cast
        ):
            return _read(name, inner, source, names, depth)
        case ast.Call(func=ast.Attribute(value=ast.List() | ast.Name() as entries, attr="data" | "begin"), args=[], keywords=[]):
            return _read(name, entries, source, names, depth)
    raise refuse("only whole numbers, their arithmetic, lists of them and enumerators' names are read")


def _defined(name: str, word: str, names: Names, depth: int, refuse: Callable[[str], InputError]) -> Any:
    """What a name of the text stands for."""
    given = names[word]
    if given.why_not:
        raise refuse(f"{word} {given.why_not}; put its value there")
    if depth >= _DEEPEST:
        raise refuse(f"{word} is defined by itself")
    try:
        return _read(name, _tree(name, given, names), given, names, depth + 1)
    except InputError as e:
        if depth:
            raise
        raise refuse(f"{word} is {shown(str(given))[1:-1]} in the text, which cannot be read ({e}); put its value there") from None


def _arithmetic(left: Any, op: ast.operator, right: Any, refuse: Callable[[str], InputError]) -> Any:
    """Whole numbers of at most 128 bits, a list repeated a few times, or a list from its n-th entry on (C: strides + 1)."""
    if isinstance(left, list) and isinstance(right, int) and isinstance(op, ast.Add) and 0 <= right <= len(left):
        return left[right:]
    if (
        isinstance(left, list)
        and isinstance(op, ast.Mult)
        and isinstance(right, int)
        and 0 <= len(left) * right <= 2 * LIMITS.max_rank
        and right.bit_length() < 32
    ):
        return left * right
    if not (isinstance(left, int) and isinstance(right, int)):
        raise refuse("arithmetic is read of whole numbers only")
    if isinstance(op, (ast.LShift, ast.RShift, ast.Pow)) and not 0 <= right <= _MOST_BITS:
        raise refuse(f"{right} is no sensible number of bits")
    if isinstance(op, (ast.FloorDiv, ast.Div, ast.Mod)) and right == 0:
        raise refuse("divides by zero")
    if isinstance(op, (ast.FloorDiv, ast.Div, ast.Mod)) and (left < 0 or right < 0):
        raise refuse(f"{left} and {right}: C and Python divide negative numbers differently; put the value there")
    if isinstance(op, ast.Div) and left % right:
        raise refuse(f"{left} / {right} is no whole number")
    result = _OPERATORS[type(op)](left, right)
    if result.bit_length() > _MOST_BITS:
        raise refuse("far beyond anything the hardware has")
    return result
