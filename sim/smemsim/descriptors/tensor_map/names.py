"""A source text as its reader sees it: without comments and dead code, and the constants and arrays that it defines."""

from __future__ import annotations

import re

from smemsim.descriptors.tensor_map.expression import Definition

__all__ = ["definitions", "is_python", "outside_strings", "without_comments"]

_STRING = r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
_C_COMMENT = re.compile(rf"/\*.*?(?:\*/|\Z)|//[^\n]*|({_STRING})", re.DOTALL)
_PYTHON_COMMENT = re.compile(rf"#[^\n]*|({_STRING})")
_LONGEST = 2000  # characters of a value
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
    """As many spaces, in the same lines.

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
    """Names that a text (without comments) defines once, or again with the same value: #define, constants, arrays, type aliases.

    >>> definitions("#define M 4096\\nconstexpr int K = M / 2, N = 8; uint64_t dims[2] = {K, N}; using T = half; int i = 0; i++;")["dims"]
    '{K, N}'
    """
    found: dict[str, Definition] = {}
    unsure = _unsure(text)
    for name, source in [*_macros(text), *_aliases(text), *_assigned(text)]:
        if name in unsure:
            found[name] = Definition(source, unsure[name])
        elif not source:
            found[name] = Definition(source, "is changed in the text" if name in found else "has no value in the text")
        elif name not in found:
            found[name] = source
        elif " ".join(found[name].split()) != " ".join(source.split()) and not found[name].why_not:
            found[name] = Definition(source, "has more than one value in the text")
    return found


_PARAMETER = re.compile(r"[(,<]\s*(?:const\s+)?[A-Za-z_][\w:]*(?:<[^<>()]*>)?[\s*&]+([A-Za-z_]\w*)\s*(?=[,)>=])")
_WRITTEN = re.compile(r"[(,=]\s*&\s*([A-Za-z_]\w*)\b(?!\s*\[)|\bcin\s*>>\s*([A-Za-z_]\w*)|\bfor\s+([A-Za-z_]\w*)\s+in\b")


def _unsure(text: str) -> dict[str, str]:
    """Names that may stand for something else where the call is: parameters, and what others may write to.

    >>> _unsure("void f(int M) {} ... scanf(s, &N);")
    {'M': 'is a parameter too in the text', 'N': 'is changed in the text'}
    """
    plain = outside_strings(text)
    found = dict.fromkeys(_PARAMETER.findall(plain), "is a parameter too in the text")
    for listed in re.findall(r"(?m)^[ \t]*def\s+\w+\s*\(([^)]{0,2000})\)", plain):
        found |= dict.fromkeys(re.findall(r"[A-Za-z_]\w*", listed), "is a parameter too in the text")
    return found | {name: "is changed in the text" for m in _WRITTEN.finditer(plain) if (name := m[1] or m[2] or m[3])}


def _macros(text: str) -> list[tuple[str, Definition]]:
    """Macros without arguments. A sum without brackets is none: beside another operator it would not be a sum any more.

    >>> _macros("#define M (2 + 3)\\n#define N M+1")[1][1].why_not
    'is a macro without brackets around its value'
    """
    found = []
    for name, source in re.findall(r"(?m)^[ \t]*#\s*define\s+([A-Za-z_]\w*)[ \t]+(\S[^\n]*)$", text):
        loose = re.search(r"[-+*/%<>&|^]", re.sub(r"^\s*-", "", source)) and not _bracketed(source.strip())
        found.append((name, Definition(source.strip(), "is a macro without brackets around its value" if loose else "")))
    return found


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
    """Assignments that stand in no round or square brackets; "" for a name that is changed, or set entry by entry.

    >>> _assigned("int M = 4 * (1 + 1), N = 3; f(K=5)"), _assigned("dims[0] = 4; n += 1")
    ([('M', '4 * (1 + 1)'), ('N', '3')], [('dims', ''), ('n', '')])
    """
    plain = outside_strings(text)
    depths, depth = [], 0
    for letter in plain:
        depth += (letter in "([") - (letter in ")]")
        depths.append(depth)
    found = []
    for m in _NAME.finditer(plain):
        if m["before"] or m["change"]:
            found.append((m["before"] or m["name"], Definition("")))
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
        found.append((m["name"], Definition("" if (m["index"] and not is_list) or several else source.strip())))
    return found


def _until_end(text: str, begin: int) -> str:
    """The value that begins there: to the semicolon, the comma or the line's end behind it.

    >>> _until_end("M = 64 *\\n 2, N = 3;", 3)
    ' 64 *\\n 2'
    """
    depth = 0
    for found in _MARK.finditer(text, begin, begin + _LONGEST):
        i, letter = found.start(), found[0]
        depth += (letter in _OPENED) - (letter in _CLOSED)
        if depth < 0 or (depth == 0 and letter in ";,"):
            return text[begin:i]
        if letter == "\n" and depth == 0 and text[begin:i].strip():
            rest = text[i:].lstrip()[:1]
            if not (rest and rest in "+-*/%<>&|^?") and text[begin:i].rstrip()[-1] not in "+-*/%<>&|^?=":
                return text[begin:i]
    return text[begin : begin + _LONGEST]
