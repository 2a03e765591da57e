"""Tensor maps as people paste them: encode calls in C, C++ or Python.

Nothing is executed: the text of a value is brought into Python's grammar, parsed with `ast`, and only these forms are
read.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError
from smemsim.core.finding import Finding, TensorMapError
from smemsim.core.spec.tensor_map import DATA_TYPES, LIMITS, POINTERS
from smemsim.core.words.tensor_map.arguments import ENUMS, LISTS, Call, member
from smemsim.core.words.tensor_map.rules import refused

__all__ = [
    "Definition",
    "Pasted",
    "definitions",
    "find_calls",
    "into_python",
    "is_python",
    "outside_strings",
    "parse_call",
    "refused_nulls",
    "value",
    "without_comments",
]


# ---- Values as they stand in C, C++ and Python sources: whole numbers and their arithmetic, lists, casts, sizeof,
# names defined in the same text


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
_LONGEST_VALUE = 2000  # characters of a value
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
    if len(source) > _LONGEST_VALUE:
        raise InputError(f"{name} = {shown(source)}: {len(source)} characters; a value has at most {_LONGEST_VALUE}")
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

    def size(match: re.Match[str]) -> str:
        written = match[1] if match[1] is not None else match[2]
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
            given = f", or give it: smemsim decode -D {word}=VALUE" if isinstance(node, ast.Name) else ""
            raise refuse(f"{word} is a name; put its value there{given}")
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
    """The value of a name in the text."""
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
    """Whole numbers of at most 128 bits, a list repeated a few times, or a list from its n-th entry on (C: strides +
    1).
    """
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


# ---- A source text as its reader sees it: without comments and dead code, and the constants and arrays that it defines


_STRING = r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
_C_COMMENT = re.compile(rf"/\*.*?(?:\*/|\Z)|//[^\n]*|({_STRING})", re.DOTALL)
_PYTHON_COMMENT = re.compile(rf"#[^\n]*|({_STRING})")
_LONGEST_MARKED = 2000  # characters of a value
_OPENED, _CLOSED = "([{", ")]}"
_MARK = re.compile(r"[()\[\]{};,\n]")


def is_python(text: str) -> bool:
    """Python or C? In Python // divides and # begins a comment.

    >>> is_python("x = f(64 // 2)  # half"), is_python("f(&tm, {64});  // all")
    (True, False)
    """
    plain = outside_strings(text)
    if re.search(r"(?m)^[ \t]*#\s*(?:define|include|if|pragma)|;\s*(?:$|//|/\*)|/\*", plain):
        return False
    return bool(re.search(r"(?m)\bTensorMap\s*\.\s*\w+\s*\(|^[ \t]*(?:import|from|def|with)\s|^[ \t]*#", plain)) or not re.search(
        r"[;{&]|\(\w+\s*\*\)", plain
    )


def _blank(text: str) -> str:
    """A text of the same lines and lengths that is all spaces.

    >>> _blank("a\\nbc")
    ' \\n  '
    """
    return re.sub(r"[^\n]", " ", text)


def outside_strings(text: str) -> str:
    """The text with its string literals blanked, every character at its place.

    >>> outside_strings("f('a)', 3)")
    'f(    , 3)'
    """
    return re.sub(_STRING, lambda m: _blank(m[0]), text)


def without_comments(text: str) -> str:
    """Comments, `#if 0` and Python's docstrings blanked, separators inside numbers taken out; every line at its place.

    >>> without_comments("f(64, /* K */ 1'000);  // rows")
    'f(64,         1000);         '
    """
    text = re.sub(r"(?<=\b\d)'(?=\d)|(?<=[0-9a-fA-F]{2})'(?=[0-9a-fA-F]{3}\b)|(?<=[0-9a-fA-F]{3})'(?=[0-9a-fA-F])", "", text)
    if is_python(text):
        text = re.sub(r"\"\"\".*?\"\"\"|'''.*?'''", lambda m: _blank(m[0]), text, flags=re.DOTALL)
        return _PYTHON_COMMENT.sub(lambda m: m[1] or _blank(m[0]), text)
    text = _C_COMMENT.sub(lambda m: m[1] or _blank(m[0]), text)
    return _without_dead(text)


def _without_dead(text: str) -> str:
    """
    >>> _without_dead("#if 0\\na\\n#else\\nb\\n#endif")
    '     \\n \\n     \\nb\\n      '
    """
    kept, dead, depth = [], 0, 0  # `dead` is the depth of the #if 0 that is open
    for line in text.split("\n"):
        directive = re.match(r"\s*#\s*(if|ifdef|ifndef|else|elif|endif)\b\s*(.*)", line)
        word = directive[1] if directive else ""
        depth += word.startswith("if")
        if word == "if" and directive and directive[2].strip() in ("0", "false") and not dead:
            dead = depth
        elif word in ("else", "elif") and dead == depth:
            dead = 0
        live = not dead and not word and not re.match(r"\s*#(?!\s*define\b)", line)
        if word == "endif":
            dead = 0 if dead == depth else dead
            depth -= 1
        kept.append(line if live else _blank(line))
    return "\n".join(kept)


def definitions(text: str) -> dict[str, Definition]:
    """Names that a text (without comments) defines once, or again with the same value: #define, constants, arrays,
    type aliases.

    >>> definitions("#define M 4096\\nconstexpr int K = M / 2, N = 8; uint64_t dims[2] = {K, N}; using T = half; int i = 0; i++;")["dims"]
    '{K, N}'
    """
    definitions_by_name: dict[str, Definition] = {}
    unsure = _unsure(text)
    for name, source in [*_macros(text), *_aliases(text), *_assigned(text)]:
        if name in unsure:
            definitions_by_name[name] = Definition(source, unsure[name])
        elif not source:
            definitions_by_name[name] = Definition(
                source, "is changed in the text" if name in definitions_by_name else "has no value in the text"
            )
        elif name not in definitions_by_name:
            definitions_by_name[name] = source
        elif " ".join(definitions_by_name[name].split()) != " ".join(source.split()) and not definitions_by_name[name].why_not:
            definitions_by_name[name] = Definition(source, "has more than one value in the text")
    return definitions_by_name


_PARAMETER = re.compile(r"[(,<]\s*(?:const\s+)?[A-Za-z_][\w:]*(?:<[^<>()]*>)?[\s*&]+([A-Za-z_]\w*)\s*(?=[,)>=])")
_WRITTEN = re.compile(r"[(,=]\s*&\s*([A-Za-z_]\w*)\b(?!\s*\[)|\bcin\s*>>\s*([A-Za-z_]\w*)|\bfor\s+([A-Za-z_]\w*)\s+in\b")


def _unsure(text: str) -> dict[str, str]:
    """Names that may have another value at the call. These are parameters, and names that others may write to.

    >>> _unsure("void f(int M) {} ... scanf(s, &N);")
    {'M': 'is a parameter too in the text', 'N': 'is changed in the text'}
    """
    plain = outside_strings(text)
    reasons = dict.fromkeys(_PARAMETER.findall(plain), "is a parameter too in the text")
    for listed in re.findall(r"(?m)^[ \t]*def\s+\w+\s*\(([^)]{0,2000})\)", plain):
        reasons |= dict.fromkeys(re.findall(r"[A-Za-z_]\w*", listed), "is a parameter too in the text")
    return reasons | {name: "is changed in the text" for m in _WRITTEN.finditer(plain) if (name := m[1] or m[2] or m[3])}


def _macros(text: str) -> list[tuple[str, Definition]]:
    """Macros without arguments. A sum without brackets is none: next to another operator it would not be a sum any
    more.

    >>> _macros("#define M (2 + 3)\\n#define N M+1")[1][1].why_not
    'is a macro without brackets around its value'
    """
    macros = []
    for name, source in re.findall(r"(?m)^[ \t]*#\s*define\s+([A-Za-z_]\w*)[ \t]+(\S[^\n]*)$", text):
        loose = re.search(r"[-+*/%<>&|^]", re.sub(r"^\s*-", "", source)) and not _bracketed(source.strip())
        macros.append((name, Definition(source.strip(), "is a macro without brackets around its value" if loose else "")))
    return macros


def _bracketed(source: str) -> bool:
    """Does one pair of brackets hold everything?

    >>> _bracketed("(1 + 2)"), _bracketed("(1) + (2)")
    (True, False)
    """
    if source[:1] != "(":
        return False
    depth = 0
    for i, letter in enumerate(source):
        depth += (letter in _OPENED) - (letter in _CLOSED)
        if depth == 0:
            return i == len(source) - 1
    return False


def _aliases(text: str) -> list[tuple[str, Definition]]:
    """
    >>> _aliases("typedef __nv_bfloat16 T;")
    [('T', '__nv_bfloat16')]
    """
    return [(name, Definition(kind.strip())) for kind, name in re.findall(r"\btypedef\s+([\w:][\w:\s]{0,200}?)\s+([A-Za-z_]\w*)\s*;", text)]


_NAME = re.compile(
    r"(?<![\w.>])(?P<name>[A-Za-z_]\w*)\s*(?P<index>\[[^\[\]\n]*\])?\s*"
    r"(?:(?P<change>(?:[-+*/%&|^]|<<|>>|//|\*\*)=|\+\+|--)|=(?![=])|(?P<brace>(?=\{)))|(?:\+\+|--)\s*(?P<before>[A-Za-z_]\w*)"
)


def _assigned(text: str) -> list[tuple[str, Definition]]:
    """Assignments outside of round and square brackets. The value is "" for a name that is changed, or set entry by
    entry.

    >>> _assigned("int M = 4 * (1 + 1), N = 3; f(K=5)"), _assigned("dims[0] = 4; n += 1")
    ([('M', '4 * (1 + 1)'), ('N', '3')], [('dims', ''), ('n', '')])
    """
    plain = outside_strings(text)
    depths, depth = [], 0
    for letter in plain:
        depth += (letter in "([") - (letter in ")]")
        depths.append(depth)
    assigned = []
    for m in _NAME.finditer(plain):
        if m["before"] or m["change"]:
            assigned.append((m["before"] or m["name"], Definition("")))
            continue
        line = plain[plain.rfind("\n", 0, m.start()) + 1 : m.start()][-200:]
        if depths[m.start()] > 0 or line.lstrip().startswith("#"):
            continue
        source = _until_end(plain, m.end())
        if m["brace"] is not None:
            if not re.search(r"(?:\w|>)\s+$", line) or re.search(r"\b(?:struct|class|enum|namespace|union|return|else|do|try)\s+$", line):
                continue  # a block, not `int M{64}`
            source = source.strip()
            source = source if m["index"] or "," in source else source[1:-1]
        is_list = source.lstrip()[:1] in "{["
        several = re.fullmatch(r"[\s\w,]*,\s*", line) and not re.search(r"\w\s+\w", line)  # M, N = 64, 128
        assigned.append((m["name"], Definition("" if (m["index"] and not is_list) or several else source.strip())))
    return assigned


def _until_end(text: str, begin: int) -> str:
    """The value from here to the semicolon, the comma or the end of the line.

    >>> _until_end("M = 64 *\\n 2, N = 3;", 3)
    ' 64 *\\n 2'
    """
    depth = 0
    for found in _MARK.finditer(text, begin, begin + _LONGEST_MARKED):
        i, letter = found.start(), found[0]
        depth += (letter in _OPENED) - (letter in _CLOSED)
        if depth < 0 or (depth == 0 and letter in ";,"):
            return text[begin:i]
        if letter == "\n" and depth == 0 and text[begin:i].strip():
            rest = text[i:].lstrip()[:1]
            if not (rest and rest in "+-*/%<>&|^?") and text[begin:i].rstrip()[-1] not in "+-*/%<>&|^?=":
                return text[begin:i]
    return text[begin : begin + _LONGEST_MARKED]


# ---- Null pointers in an encode call: they break a rule of their own, because there is no list to check


_CORNERS = ("pixel_box_lower_corner", "pixel_box_upper_corner")  # of cuTensorMapEncodeIm2col: inferred


def refused_nulls(names: Iterable[str]) -> list[Finding]:
    """A finding for every argument, by smemsim's name, that must not be a null pointer in an encode call.

    No document states it. Measured for cuTensorMapEncodeTiled (driver 580 on an H200): trace encode_pointers. For the
    im2col calls, and on Blackwell, inferred.

    >>> [refusal.message for refusal in refused_nulls(["box_dim", "global_address"])]
    ['box_dim is a null pointer: the driver refuses it']
    """
    also = {"global_strides": ", also for rank 1, which has no stride"}
    nulls = [name for name in names if name in POINTERS or name in _CORNERS]
    return [refused(f"{name} is a null pointer: the driver refuses it{also.get(name, '')}", "null_pointer") for name in nulls]


# ---- The encode calls in a text of C, C++ or Python: their kind, their place, and their arguments by our names


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
# characters of a source file, of a line of it, and of a call
_LONGEST_SOURCE, _LONGEST_LINE, _LONGEST_CALL = 1 << 20, 1 << 13, 1 << 13
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
        """Likely mistakes in the numbers, such as elements instead of bytes.

        >>> call = "cuTensorMapEncodeTiled(&tm, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void*)64, {64, 8}, {2, 128}, {64, 8}, {1, 1}, 0, 0, 0, 0)"
        >>> find_calls(call)[0].hints()
        ['globalStrides = {2, 128}: begins with the step of dimension 1; dimension 0 is contiguous and has no entry: {128}']
        """
        plain, named = _separated(self.body)
        names = list(_PARAMETERS[self.call])
        if self.is_driver and len(plain) + len(named) < len(names):
            return []
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


def find_calls(text: str, values: Mapping[str, str] | None = None) -> list[Pasted]:
    """Every encode call of a text in order, without comments, `#if 0`, strings, and declarations of the function.
    `values` of names override those of the text.

    >>> [(c.name, c.line) for c in find_calls("// cuTensorMapEncodeTiled(&a)\\nencode(&b, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, p, 0, 0, 0, 0, 0, 0, 0, 0)")]
    [('encode', 2)]
    """
    if len(text) > _LONGEST_SOURCE:
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
    names = definitions(text) | {name: Definition(value) for name, value in (values or {}).items()}
    calls, doubtful, end = [], [], 0
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
            calls.append(Pasted(call, name, text.count("\n", 0, m.start()) + 1, body, names))
            end = opened + len(body)
    if doubtful and not calls:
        raise InputError(f"{doubtful[0]}: cuTensorMapEncodeTiled has 12, …Im2col 15, …Im2colWide 16; paste the driver's call")
    return calls


def parse_call(text: str) -> tuple[Call, dict[str, Any]] | None:
    """(call, arguments by our names) of the encode call in a text. None if there is none, InputError if there are
    several.

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
    if plain and (plain[0].startswith("&") or "DATA_TYPE" in "".join(plain[1:2]) or len(plain) + len(named) == len(parameters) + 1):
        plain = plain[1:]
    count = len(plain) + len(named)
    if count > len(parameters):
        raise InputError(f"{title} has {count} arguments here besides the map to write: needs {len(parameters)}: {', '.join(parameters)}")
    if count < len(parameters):
        unnamed = {name: ours for name, ours in parameters.items() if not {name, ours} & named.keys()}
        places = _places(list(unnamed.values()), plain)
        missing = [name for n, name in enumerate(unnamed) if n not in places]
        unknown = _undefined(pasted, {list(unnamed.values())[n]: source for n, source in zip(places, plain, strict=True)})
        names = f"; without a value in the text: {', '.join(unknown)} (-D {unknown[0]}=VALUE)" if unknown else ""
        raise InputError(
            f"{title} has {count} of {len(parameters)} arguments besides the map to write; missing: {', '.join(missing)}{names}"
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


_ENUMERATORS = {
    "data_type": "DATA_TYPE", "interleave": "INTERLEAVE", "swizzle": "SWIZZLE", "l2_promotion": "L2_PROMOTION", "oob_fill": "OOB_FILL", "mode": "WIDE_MODE",
}  # fmt: skip


def _places(names: list[str], sources: list[str]) -> tuple[int, ...]:
    """Which of these parameters the arguments of an incomplete call are, by their form; the first ones if several fit.

    >>> _places(["rank", "global_dim", "swizzle", "oob_fill"], ["{64, 64}", "CU_TENSOR_MAP_SWIZZLE_NONE"])
    (1, 2)
    """
    fits = (
        places
        for places in itertools.combinations(range(len(names)), len(sources))
        if all(map(_may_be, (names[n] for n in places), sources))
    )
    return next(fits, tuple(range(len(sources))))


def _may_be(name: str, source: str) -> bool:
    """May an argument be this parameter, by its form?"""
    enumerators = [of for of, word in _ENUMERATORS.items() if f"_{word}" in source]
    if enumerators:
        return name in enumerators
    if name == "rank" and not re.fullmatch(r"[1-5]|[A-Za-z_][\w:.]*", source.strip()):
        return False
    is_list = into_python(source).strip().startswith(("[", "("))
    is_number = bool(re.fullmatch(r"\d+", source.strip()))
    return name in LISTS if is_list else name not in LISTS if is_number else True


def _undefined(pasted: Pasted, sources: Mapping[str, str]) -> list[str]:
    """The names in arguments that the text does not define and that are no enumerators."""
    words = [source.strip() for name, source in sources.items() if name not in ENUMS]
    return [word for word in words if re.fullmatch(r"[A-Za-z_]\w*", into_python(word)) and word not in pasted.names]


def _entries(name: str, values: Any, rank: int) -> Any:
    """The entries that the driver reads: as many as the rank says; arrays may be longer, up to those of the highest
    rank. Null pointers are refused (trace encode_pointers).
    """
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
    """The text between the call's brackets. The text without strings is `searched`."""
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
