"""Damage: to bytes, to texts word by word, and to structures of tables and lists."""

from __future__ import annotations

import copy
import random
import re
from typing import Any

__all__ = ["ANYTHING", "damaged_bytes", "damaged_text", "damaged_value"]

NUMBERS = [0, 1, -1, 2, 3, 7, 8, 16, 31, 64, 128, 255, 256, 257, 1024, 65535, 65536, 1 << 20, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 40) + 1, 1 << 47,
           (1 << 48) - 1, 1 << 48, 1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 31), -(1 << 63), 1 << 130, 10**400]  # fmt: skip
TEXTS = ["", " ", "K", "MN", "k", "bf16", "e2m1", "f64", "tf32", "s8", "none", "128B", "32B", "128B_ATOM_32B", "sm_90a", "sm_100a", "sm_103a", "wgmma",
         "f16", "mxf4", "A", "sA", "tmA", "tma_load", "mma", "0x10", "0x" + "f" * 16, "-1", "nan", "\x00", "é∘", "x" * 3000, "../..", "step[0].a", "16"]  # fmt: skip
ANYTHING = [*NUMBERS, *TEXTS, None, True, False, 0.5, 1e308, float("nan"), float("inf"), [], {}, [[]], [0], [[0, 0]], [None], {"": 0}, {"a": {}}, [1] * 70,
            [[1, 2], [3]], [[[[]]]]]  # fmt: skip
WORDS = ["(", ")", "((", "{", "}", "{}", "[", "]", "[]", "[[", ",", ",,", ":", ";", "=", "==", '"', "'", "'''", '"""', "#", "//", "/*", "*/", "\\", "\n", "\t", "\x00",
         "0", "1", "-1", "0x", "0xg", "1e9", "08", "_", "_8", "?", "<", ">", "**", "<<", ">>", "/", "%", "~", "!", "&", "|", "^", "lambda", "None", "sizeof", "sizeof(",
         "#define M M", "#if 0", "#endif", "constexpr int", "99999999999999999999999999", "9" * 5000, "<<100000", "**99999999", "é", "\ufeff", "\u0661", "o", "∘"]  # fmt: skip


def damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    """One to eight injuries: bits and bytes changed, stretches cut out, doubled, moved, or replaced; cut off;
    lengthened.
    """
    raw = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        at = rng.randrange(len(raw) + 1)
        length = rng.choice((1, 1, 2, 4, 8, 64))
        match rng.randrange(8):
            case 0 | 1 if at < len(raw):
                raw[at] ^= 1 << rng.randrange(8)
            case 2 if at < len(raw):
                raw[at] = rng.choice((0, 255, 127, 128, 10, 34, 48, rng.randrange(256)))
            case 3:
                del raw[at : at + length]
            case 4:
                raw[at:at] = raw[at : at + length]
            case 5:
                raw[at : at + length] = rng.randbytes(length)
            case 6:
                del raw[at:]
            case 7:
                raw[at:at] = rng.randbytes(length)
    return bytes(raw)


def damaged_text(rng: random.Random, text: str, among: list[str] | None = None) -> str:
    """Words and signs taken out, doubled, exchanged, or replaced by others of the text, of `among`, or by numbers that
    nobody expects.
    """
    if rng.random() < 0.15:
        return damaged_bytes(rng, text.encode("utf-8", "replace")).decode("utf-8", "replace")
    words = re.findall(r"\w+|\s+|[^\w\s]", text)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4, 12))):
        if not words:
            break
        at = rng.randrange(len(words))
        match rng.randrange(7):
            case 0:
                del words[at : at + rng.choice((1, 1, 1, 3, 20))]
            case 1:
                words[at:at] = words[at : at + rng.choice((1, 1, 5, 40))]
            case 2:
                words[at] = rng.choice(words)
            case 3:
                words[at] = rng.choice(WORDS + (among or []))
            case 4:
                words[at] = str(rng.choice(NUMBERS[:-1]))
            case 5:
                words.insert(at, rng.choice(WORDS))
            case 6:
                words[at] = words[at][:-1] if rng.random() < 0.5 else words[at] + rng.choice("0x(,B")
    return "".join(words)


def _places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [way] if way else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        found += _places(one, (*way, key))
    return found


def _number(rng: random.Random, value: int) -> int:
    return rng.choice(
        (value + 1, value - 1, -value, value * 2, value // 2, value ^ 1 << rng.randrange(64), value * 1000, value << 20, value + 16)
    )


def damaged_value(rng: random.Random, value: Any) -> Any:
    """Keys and entries taken out, renamed, moved, of another type or beyond all bounds; the value itself stays."""
    made = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3, 6))):
        places = _places(made)
        if not places:
            break
        *path, last = rng.choice(places)
        holder = made
        for key in path:
            holder = holder[key]
        old = holder[last]
        match rng.randrange(8):
            case 0:
                del holder[last]
            case 4:
                other = made
                for key in rng.choice(places):
                    other = other[key] if isinstance(other, (dict, list)) and (not isinstance(other, list) or key < len(other)) else other
                holder[last] = copy.deepcopy(other)
            case 6 if isinstance(holder, dict):
                holder[rng.choice((*TEXTS[:8], f"{last}s", str(last)[:-1], "op", "raw", "word", "words", "layout"))] = holder.pop(last)
            case 7 if isinstance(holder, list):
                rng.shuffle(holder)
            case way:
                holder[last] = _other(rng, old, way)
    return made


def _other(rng: random.Random, old: Any, way: int) -> Any:
    """Another value than `old`, for one of the ways of `damaged_value`."""
    match way:
        case 1:
            return copy.deepcopy(rng.choice(ANYTHING))
        case 2 | 3 if isinstance(old, int) and not isinstance(old, bool):
            return _number(rng, old)
        case 2:
            return rng.choice(([old], [old, old], {"x": old}, str(old)[:200]))
        case 3 if isinstance(old, str):
            return rng.choice(TEXTS)
        case 5 if isinstance(old, list) and old:
            return old * rng.choice((2, 3)) if rng.random() < 0.5 else old[: rng.randrange(len(old))]
    return rng.choice(NUMBERS)
