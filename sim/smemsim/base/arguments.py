"""Taking arguments from people: whole numbers, lists of them, choices. What does not fit raises InputError with a
sentence.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from typing import Any

from smemsim.base.errors import InputError

__all__ = [
    "MOST_BITS",
    "SAMPLE",
    "choice",
    "closest",
    "cta_numbers",
    "flag",
    "in_grid",
    "in_steps",
    "is_whole",
    "shown",
    "suggestion",
    "whole",
    "wholes",
]


# what Python says of an object that says nothing of itself
OBJECT = re.compile(r"<(?:[\w.<>]*\.)?(\w+) object at 0x[0-9a-f]+>")
SAMPLE = "sample"  # stands for a few CTAs of every grid, where CTAs are numbered
MOST_CTAS = 1 << 22
MOST_BITS = 128  # no argument of any call is larger


def shown(value: Any) -> str:
    """A short text of any value, for error messages."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"{value:#x}"[:20] + "…"  # decimal text of a huge integer is refused by Python itself
    try:
        text = OBJECT.sub(r"<\1>", " ".join(repr(value).split()))  # arrays print several lines
    except Exception:  # an object of any class
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:79] + "…"


def is_whole(value: Any) -> bool:
    """Does the value count as one whole number? bool does not, numpy integers and cuda.bindings' integer types do."""
    try:
        whole("value", value)
    except InputError:
        return False
    return True


def whole(name: str, value: Any, *, minimum: int | None = None, wanted: str = "a whole number", most_bits: int = MOST_BITS) -> int:
    """The value as an int.

    >>> whole("rows", 2.0)
    Traceback (most recent call last):
    smemsim.base.errors.InputError: rows = 2.0: needs a whole number
    """
    number: int | None = None
    if type(value) is int:
        number = value
    elif not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:
            # cuda.bindings' cuuint32_t, cuuint64_t and CUdeviceptr know __int__ only
            if type(value).__module__.startswith("cuda.") and not isinstance(value, type):
                number = int(value)
    if number is None:
        raise InputError(f"{name} = {shown(value)}: needs {wanted}")
    if number.bit_length() > most_bits:
        raise InputError(f"{name} = {shown(number)}: far beyond anything the hardware has")
    if minimum is not None and number < minimum:
        raise InputError(f"{name} = {number}: needs {wanted} from {minimum} on")
    return number


def wholes(name: str, values: Any, *, wanted: str) -> tuple[int, ...]:
    """A list of whole numbers as a tuple. `wanted` describes it in the error message."""
    if type(values) in (tuple, list) and len(values) < 9:
        for value in values:
            if type(value) is not int or value.bit_length() > MOST_BITS:
                break
        else:
            return tuple(values)  # the common case
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"{name} = {shown(values)}: needs {wanted}")
    try:
        # Nine entries are enough to see that there are too many; an endless iterator must not hang the caller.
        taken = [value for value, _ in zip(values, range(9), strict=False)]
    except Exception as e:  # a 0-d array, or another iterator
        raise InputError(f"{name} = {shown(values)}: needs {wanted} ({e})") from None
    return tuple(whole(f"{name}[{i}]", value) for i, value in enumerate(taken))


def in_steps(values: Iterable[int]) -> str:
    """Return the allowed numbers as text for error messages. Up to four numbers are listed; more become a range.

    >>> in_steps((64, 128)), in_steps(range(8, 257, 8)), in_steps((8, 16, 24, 32, 48, 64))
    ('64, 128', '8 to 256 in steps of 8', '8, 16, 24, 32 to 64 in steps of 16')
    """
    known = sorted(values)
    if len(known) < 5:
        return ", ".join(map(str, known))
    step = known[-1] - known[-2]
    first = next(i for i, x in enumerate(known) if known[i:] == list(range(x, known[-1] + 1, step)))
    return ", ".join([*map(str, known[:first]), f"{known[first]} to {known[-1]} in steps of {step}"])


def suggestion(value: Any, known: Iterable[str]) -> str:
    """ "; did you mean '…'?" for a near miss, or nothing."""
    near = closest(value, known)
    return f"; did you mean {near!r}?" if near else ""


def closest(value: Any, known: Iterable[str]) -> str:
    """The known name that is closest to a misspelt one; "" if none is close, or if the name is known."""
    names = list(known)
    if not isinstance(value, str) or value in names:
        return ""
    import difflib  # only a typo pays for it

    return next(iter(difflib.get_close_matches(value, names, 1) or difflib.get_close_matches(value.lower(), names, 1)), "")


def cta_numbers(name: str, text: str) -> tuple[int | str, ...]:
    """Numbers of CTAs as they are written: "0-3", "0,5,7", "sample", "sample,5". InputError for anything else.

    >>> cta_numbers("--ctas", "0-3,8"), cta_numbers("--ctas", "sample,5")
    ((0, 1, 2, 3, 8), ('sample', 5))
    """
    found: list[int | str] = []
    is_long = False
    try:
        for part in text.split(","):
            if part.strip() == SAMPLE:
                found.append(SAMPLE)
                continue
            first, _, last = part.partition("-")
            begin, end = int(first), int(last or first)
            if not 0 <= begin <= end:
                raise ValueError
            is_long = end - begin + len(found) > MOST_CTAS
            found += () if is_long else range(begin, end + 1)
            if is_long:
                break
    except ValueError:
        raise InputError(f"{name} {shown(text)}: needs numbers of CTAs, as 0-3 or 0,5, or {SAMPLE}") from None
    if is_long:
        raise InputError(f"{name} {shown(text)}: names more than {MOST_CTAS:,} CTAs; without {name} all CTAs run")
    return tuple(found)


def in_grid(name: str, number: int, count: int) -> None:
    """InputError if a grid of `count` CTAs has no CTA of this number.

    >>> in_grid("--cta", 99, 4)
    Traceback (most recent call last):
    smemsim.base.errors.InputError: --cta 99: the grid has 4 CTAs, needs 0 to 3
    """
    if not 0 <= number < count:
        between = " " if name.startswith("-") else " = "
        has = "1 CTA, CTA 0" if count == 1 else f"{count:,} CTAs, needs 0 to {count - 1}"
        raise InputError(f"{name}{between}{number}: the grid has {has}")


def choice(name: str, value: Any, options: tuple[str, ...], wanted: str) -> str:
    """One of the options."""
    if isinstance(value, str) and value in options:
        return str(value)
    raise InputError(f"{name} = {shown(value)}: needs {wanted}{suggestion(value, options)}")


def flag(name: str, value: Any) -> bool:
    """True or False; immediates 1 and 0 count as these.

    >>> flag("ws", 1), flag("ws", False)
    (True, False)
    """
    if type(value) is bool:
        return value
    if type(value).__name__ in ("bool", "bool_") and not getattr(value, "shape", ()):
        return bool(value)  # numpy's
    if is_whole(value) and whole(name, value) in (0, 1):
        return bool(whole(name, value))
    raise InputError(f"{name} = {shown(value)}: needs True or False")
