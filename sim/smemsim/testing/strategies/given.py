"""Options of strategies, taken from people: what does not fit is a sentence, raised where the strategy is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from smemsim.arguments import choice, shown
from smemsim.errors import InputError
from smemsim.planning.instruction import GRAVE
from smemsim.spec.findings import Finding
from smemsim.spec.swizzles import Swizzle

__all__ = ["chosen", "is_grave", "legality", "swizzles_of"]

LEGALITY = ("legal", "near", "any")


def is_grave(findings: Iterable[Finding]) -> bool:
    """Does one of them trap, or make wrong numbers?"""
    return any(f.severity in GRAVE for f in findings)


def legality(value: Any) -> str:
    """One of `LEGALITY`."""
    return choice("legal", value, LEGALITY, "'legal', 'near' (one field away from it, and wrong) or 'any' (every word there is)")


def chosen(name: str, values: Any, known: Iterable[str]) -> tuple[str, ...]:
    """Some of the known names; None is all of them.

    >>> chosen("majors", "K", ("K", "MN")), chosen("majors", None, ("K", "MN"))
    (('K',), ('K', 'MN'))
    """
    options = tuple(known)
    if values is None:
        return options
    listed = (values,) if isinstance(values, str) else values
    if isinstance(listed, (bytes, dict)) or not isinstance(listed, Iterable):
        raise InputError(f"{name} = {shown(values)}: needs names out of {' '.join(options)}")
    found = tuple(choice(name, str(value), options, f"names out of {' '.join(options)}") for value in listed)
    if not found:
        raise InputError(f"{name}: the list is empty; needs one of {' '.join(options)} at least")
    return found


def swizzles_of(values: Any, known: Iterable[Swizzle]) -> tuple[Swizzle, ...]:
    """Some of the known swizzle modes."""
    return tuple(Swizzle(name) for name in chosen("swizzles", values, (str(mode) for mode in known)))
