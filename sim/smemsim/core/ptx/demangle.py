"""Readable C++ names: `_Z4gemmILi3E4TileILi64EEEvPfi` is gemm<3, Tile<64>>.

The input are names of the Itanium C++ ABI (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling), which nvcc and
clang give kernels and variables. Long parts are left out. These are the parameters of the function, template arguments
below two levels, and substitutions (`S1_`). Left-out arguments become an ellipsis. The demangler of libstdc++ is not
used. It needs unbounded time and memory for some names.
"""

from __future__ import annotations

import functools
import re

__all__ = ["demangled", "pointed_types", "readable", "shorter_name"]


MOST_CHARACTERS = 80  # of a name in a sentence
_LONGEST = 8192  # characters of a name that is looked into
_DEEPEST = 60  # types within one another
_SHOWN = 2  # levels of template arguments that are shown
_MANGLED = re.compile(r"\b(?:_Z[\w$]+|kernel_cutlass_\w+)")
# CuTe DSL: kernel_cutlass_<function>_<types of its arguments>_<number>; those of classes end in _object_at__
_OF_CUTE = re.compile(
    r"kernel_cutlass_(\w+?)_(?:object_at__|[Tt]ensor|Tiled|Copy|Mma|Layout|Compos|Shape|Pointer|ptr|None|True|False|Int|Float|\d)"
)
_PARAMETER = re.compile(r"_param_\d+$")
_ELLIPSIS = "…"
# fmt: off
_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short", "t": "unsigned short", "i": "int",
    "j": "unsigned", "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128",
    "f": "float", "d": "double", "e": "long double", "g": "__float128", "z": "...",
}
_STANDARD = {"St": "std", "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string", "Si": "std::istream", "So": "std::ostream", "Sd": "std::iostream"}
_TWO = {"Dn": "nullptr_t", "Dh": "half", "Df": "decimal32", "Dd": "decimal64", "De": "decimal128", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t", "Da": "auto", "Dc": "decltype(auto)"}
_SUFFIX = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile", "r": " restrict", "C": " complex", "G": " imaginary"}
# fmt: on


class _Unknown(Exception):
    """A part of a name that is not looked into."""


class _Reader:
    """Reads a name from the front; `parts` are the components of the outermost name as far as they are known."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth, self.level = text, 0, 0, 0
        self.parts: list[str] = []

    def peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def accept(self, word: str) -> bool:
        if self.text.startswith(word, self.at):
            self.at += len(word)
            return True
        return False

    def need(self, word: str) -> None:
        if not self.accept(word):
            raise _Unknown

    def digits(self) -> str:
        begin = self.at
        while self.peek().isdigit():
            self.at += 1
        return self.text[begin : self.at]

    # ---- names

    def encoding(self, parts: list[str]) -> None:
        """A function or a variable; its parameters are left where they are."""
        if self.accept("Z"):
            self.local(parts)
        elif self.accept("N"):
            self.nested(parts)
        else:
            self.prefix(parts)
            if self.peek() == "I":
                self.arguments(parts)

    def local(self, parts: list[str]) -> None:
        """`Z <function> E <name>`: a variable of a function. The function's parameters lie between."""
        self.encoding(parts)
        while not self.accept("E"):
            self.type()
        if self.accept("s"):
            parts.append("a string")
            return
        self.encoding(parts)

    def nested(self, parts: list[str]) -> None:
        while self.peek() in ("r", "V", "K", "R", "O") and self.peek():
            self.at += 1
        while not self.accept("E"):
            if self.peek() == "I":
                self.arguments(parts)
            else:
                self.prefix(parts)

    def prefix(self, parts: list[str]) -> None:
        """Append a component of a qualified name to those read so far."""
        self.accept("L")
        if self.peek().isdigit():
            parts.append(self.source_name())
        elif (two := self.peek(2)) in _STANDARD:
            self.at += 2
            parts.append(_STANDARD[two])
            if two == "St" and self.peek().isdigit():
                parts.append(self.source_name())
        elif self.accept("S"):
            self.substitution()
            if not parts:
                parts.append(_ELLIPSIS)
        elif re.match(r"[CD]\d", self.peek(2)):
            destructor = "~" * self.accept("D")
            self.at += 2 - len(destructor)
            parts.append(destructor + parts[-1].partition("<")[0] if parts else _ELLIPSIS)
        elif self.accept("Ul"):
            while not self.accept("E"):
                self.type()
            self.digits()
            self.need("_")
            parts.append("lambda")
        elif self.accept("T"):
            self.digits()
            self.need("_")
            parts.append(_ELLIPSIS)
        else:
            raise _Unknown

    def substitution(self) -> None:
        while self.peek() and self.peek() in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ":
            self.at += 1
        self.need("_")

    def source_name(self) -> str:
        count = int(self.digits()[:6])
        name = self.peek(count)
        if len(name) < count or not count:
            raise _Unknown
        self.at += count
        return "(anonymous)" if name.startswith("_GLOBAL__N") else name

    # ---- template arguments

    def arguments(self, parts: list[str]) -> None:
        """Template arguments (`I … E`) after a component."""
        where = len(parts) - 1
        if where >= 0:
            parts[where] += f"<{_ELLIPSIS}>"  # until they are known
        self.need("I")
        self.level += 1
        items = self.items()
        if where >= 0:
            shown = ", ".join(items) if self.level <= _SHOWN else _ELLIPSIS if items else ""
            parts[where] = f"{parts[where][: -len(_ELLIPSIS) - 2]}<{shown}>"
        self.level -= 1

    def items(self) -> list[str]:
        """Arguments up to their E."""
        self.depth += 1
        items = []
        while not self.accept("E"):
            if self.accept("J"):
                items += self.items()
            elif self.accept("L"):
                items.append(self.literal())
            else:
                items.append(self.type())
        self.depth -= 1
        return items

    def literal(self) -> str:
        if self.accept("_Z"):
            parts: list[str] = []
            self.encoding(parts)
            while not self.accept("E"):
                self.type()
            return _joined(parts)
        kind = self.type()
        begin = self.at
        while self.peek() and self.peek() != "E":
            self.at += 1
        value = self.text[begin : self.at].replace("n", "-")
        self.need("E")
        return {"0": "false", "1": "true"}.get(value, value) if kind == "bool" else value

    # ---- types

    def type(self) -> str:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _Unknown
        name = self._type()
        self.depth -= 1
        return name

    def _type(self) -> str:
        letter, letters = self.peek(), self.peek(2)
        if letter in _SUFFIX and letter:
            self.at += 1
            inner = self.type()
            return inner if inner == _ELLIPSIS else inner + _SUFFIX[letter]
        if letters in _TWO:
            self.at += 2
            return _TWO[letters]
        if self.accept("DF"):
            bits = self.digits()
            self.at += 1
            return f"_Float{bits}" if self.text[self.at - 1] == "_" else f"bfloat{bits}"
        if self.accept("Dp"):
            return self.type()
        if letter in _BUILTIN and letter:
            self.at += 1
            return _BUILTIN[letter]
        if (compound := self._compound()) is not None:
            return compound
        parts: list[str] = []
        if self.accept("N"):
            self.nested(parts)
        elif letter == "Z" or letters in ("DT", "Dt"):
            raise _Unknown
        else:
            self.prefix(parts)
            if self.peek() == "I":
                self.arguments(parts)
        return _joined(parts)

    def _compound(self) -> str | None:
        """An array, a function or a pack; None where another type stands."""
        if self.accept("A"):
            size = self.digits()
            self.need("_")
            return f"{self.type()}[{size}]"
        if self.accept("F"):
            while not self.accept("E"):
                self.type()
            return "function"
        if self.accept("J"):
            return ", ".join(self.items())
        return None


def _joined(parts: list[str]) -> str:
    """Components as a name, without what a substitution at its begin stands for."""
    return "::".join(parts[1:] if len(parts) > 1 and parts[0] == _ELLIPSIS else parts)


@functools.lru_cache(maxsize=512)
def demangled(name: str) -> str:
    """The C++ name of a symbol, short; the symbol itself where it is none of C++.

    >>> demangled("_Z4gemmILi3E4TileILi64EEEvPfi"), demangled("saxpy")
    ('gemm<3, Tile<64>>', 'saxpy')
    >>> demangled("_ZZ4gemmE4smem")
    'gemm::smem'
    """
    suffix = _PARAMETER.search(name)
    symbol = name[: suffix.start()] if suffix else name
    if not symbol.startswith("_Z") or len(symbol) > _LONGEST:
        return name
    reader = _Reader(symbol[2:])
    try:
        reader.encoding(reader.parts)
    except (_Unknown, RecursionError):  # what is known so far, and an ellipsis
        if reader.parts and not reader.parts[-1].endswith(f"<{_ELLIPSIS}>"):
            reader.parts.append(_ELLIPSIS)
    return (_joined(reader.parts) + suffix[0] if suffix else _joined(reader.parts)) or name


_POINTER = re.compile(r"(?P<levels>[PR]?)(?P<const>[rVK]*)(?:(?P<built>[abcdefhijlmstxy])|(?P<count>\d+)|S(?P<seen>[0-9A-Z]*)_)")
_ELEMENTS = {  # C++ types by the letters of the ABI, and those of CUDA's headers
    "a": "s8", "c": "s8", "h": "u8", "s": "s16", "t": "u16", "i": "s32", "j": "u32", "l": "s64", "m": "u64", "x": "s64", "y": "u64", "f": "f32", "d": "f64",
    "__half": "f16", "__nv_bfloat16": "bf16", "__nv_fp8_e4m3": "e4m3", "__nv_fp8_e5m2": "e5m2",
}  # fmt: skip


def pointed_types(name: str) -> list[str]:
    """The element type that each parameter of a C++ function points to, if its symbol has it; "" for other parameters.

    >>> pointed_types("_Z4gemmPK13__nv_bfloat16S1_Pfi"), pointed_types("_Z3runI5PolicyEvT_Pf")
    (['bf16', 'bf16', 'f32', ''], [])
    """
    head = re.match(r"_Z(\d+)", name)
    if head is None:  # of a namespace, or no C++
        return []
    at = head.end() + int(head[1][:6])
    seen: list[tuple[str, str]] = []  # what a later parameter may name again: pointer or not, type
    types = []
    while at < len(name) and (found := _POINTER.match(name, at)) is not None:
        at = found.end()
        if found["built"] is not None:
            kind = "", found["built"]
        elif found["count"] is not None:
            kind = "", name[at : at + int(found["count"][:6])]
            at += len(kind[1])
            seen.append(kind)
        else:
            number = 0 if not found["seen"] else int(found["seen"], 36) + 1
            if number >= len(seen):
                break
            kind = seen[number]
        if found["const"]:
            seen.append(kind)
        if found["levels"]:
            kind = "*" + kind[0], kind[1]
            seen.append(kind)
        types.append(_ELEMENTS.get(kind[1], "") if kind[0] == "*" else "")
    return types


def shorter_name(name: str, most: int = MOST_CHARACTERS) -> str:
    """A symbol as C++ or CuTe DSL's Python has it, cut in the middle where it is too long for a sentence.

    >>> shorter_name("_Z" + "7" + "kernel_" + "v")
    'kernel_'
    >>> shorter_name("kernel_cutlass_reverse_kernel_tensorptrf32gmemo1281_tensorptrf32gmemo1281_0")  # CuTe DSL adds the arguments' types
    'reverse_kernel'
    """
    of_cute, suffix = _OF_CUTE.match(name), _PARAMETER.search(name)
    told = of_cute[1] + (suffix[0] if suffix else "") if of_cute else demangled(name)
    half = (most - 1) // 2
    return told if len(told) <= most else f"{told[: most - half - 1]}{_ELLIPSIS}{told[-half:]}"


def readable(text: str) -> str:
    """A sentence in which the symbols of C++ and CuTe DSL are names."""
    return _MANGLED.sub(lambda found: shorter_name(found[0]), text)
