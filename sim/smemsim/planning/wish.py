"""What is wished for: the tile, its type and layout, and the instruction that reads it."""

from __future__ import annotations

import dataclasses
from typing import Any

from smemsim.arguments import choice, shown, whole
from smemsim.descriptors.layout import check_major
from smemsim.errors import InputError
from smemsim.spec.architectures import Architecture, architecture
from smemsim.spec.formats import ElementFormat, element_format
from smemsim.spec.swizzles import MODES, Swizzle, SwizzleMode

__all__ = ["STACKS", "IllegalPlan", "Wish", "wish_of"]

STACKS = ("strided", "contiguous")
MOST = 1 << 16  # rows or K of a tile; shared memory has far less


class IllegalPlan(InputError):
    """A tile that the hardware cannot have: `reason`, and in `nearest` the arguments of a legal plan that differs least, or None.

    A `smemsim.InputError`.
    """

    def __init__(self, reason: str, nearest: dict[str, Any] | None = None, changed: tuple[str, ...] = ()) -> None:
        told = ", ".join(_told(name, nearest[name]) for name in changed) if nearest else ""
        super().__init__(f"{reason}; nearest that works: {told}" if told else reason)
        self.reason = reason
        self.nearest = nearest
        self.changed = changed


def _told(name: str, value: Any) -> str:
    if value is None:
        return f"{name} left out"
    return f"{name} = {value:#x}" if name == "base_address" else f"{name} = {value!r}"


@dataclasses.dataclass(frozen=True)
class Wish:
    """The arguments of `plan`, read. `m`, `n`, `kind` are None where they follow from the rest; `rows` are those of one CTA."""

    rows: int
    k: int
    fmt: ElementFormat
    major: str
    swizzle: Swizzle
    machine: Architecture
    m: int | None
    n: int | None
    side: str
    kind: str | None
    cta_group: int
    stack: str
    base_address: int
    stages: int
    matrix: tuple[int, int] | None
    pitch_bytes: int | None
    at: tuple[int, int]
    other_major: str

    @property
    def mode(self) -> SwizzleMode:
        """The row of its swizzle."""
        return MODES[self.swizzle]

    @property
    def axis(self) -> str:
        """ "m" or "n": what the rows are."""
        return "m" if self.side == "a" else "n"

    def arguments(self) -> dict[str, Any]:
        """The arguments of `plan` that give this wish."""
        return {
            "rows": self.rows, "k": self.k, "dtype": self.fmt.name, "major": self.major, "swizzle": str(self.swizzle), "arch": self.machine.name,
            "m": self.m, "n": self.n, "side": self.side, "kind": self.kind, "cta_group": self.cta_group, "stack": self.stack,
            "base_address": self.base_address, "stages": self.stages, "matrix": self.matrix,
            "pitch_bytes": self.pitch_bytes, "at": self.at, "other_major": self.other_major,
        }  # fmt: skip


def wish_of(rows: Any, k: Any, *, dtype: Any, major: Any, swizzle: Any, arch: Any, m: Any, n: Any, side: Any, kind: Any, cta_group: Any,
            stack: Any, base_address: Any, stages: Any, matrix: Any, pitch_bytes: Any, at: Any, other_major: Any) -> Wish:  # fmt: skip
    """The arguments of `plan` as a wish; InputError for what is no number, no name, no architecture."""
    check_major(major)
    machine, fmt = architecture(arch), element_format(dtype)
    side = choice("side", side.lower() if isinstance(side, str) else side, ("a", "b"), "'a' (M x K) or 'b' (N x K)")
    cta_group = whole("cta_group", cta_group)
    if cta_group not in (1, 2):
        raise InputError(f"cta_group = {cta_group}: needs 1, or 2 for a pair of CTAs")
    return Wish(
        rows=_extent("rows", rows),
        k=_extent("k", k),
        fmt=fmt,
        major=major,
        swizzle=_swizzle(swizzle),
        machine=machine,
        m=None if m is None else whole("m", m, minimum=1),
        n=None if n is None else whole("n", n, minimum=1),
        side=side,
        kind=None if kind is None else str(kind).removeprefix(".").removeprefix("kind::"),
        cta_group=cta_group,
        stack=_stack(stack, major),
        base_address=whole("base_address", base_address, minimum=0, wanted="a .shared byte address"),
        stages=_extent("stages", stages),
        matrix=None if matrix is None else _pair("matrix", matrix, 1),
        pitch_bytes=None if pitch_bytes is None else whole("pitch_bytes", pitch_bytes, minimum=1, most_bits=40),
        at=_pair("at", at, 0),
        other_major=choice("other_major", other_major, ("K", "MN"), "'K' or 'MN', of the operand that is not planned"),
    )


def _extent(name: str, value: Any) -> int:
    number = whole(name, value, minimum=1)
    if number > MOST:
        raise InputError(f"{name} = {number}: more than any shared memory holds")
    return number


def _pair(name: str, value: Any, minimum: int) -> tuple[int, int]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InputError(f"{name} = {shown(value)}: needs two numbers, that of rows and that of K")
    first, second = (whole(f"{name}[{i}]", x, minimum=minimum, most_bits=31) for i, x in enumerate(value))
    return first, second


def _swizzle(value: Any) -> Swizzle:
    text = value.removeprefix("SWIZZLE_") if isinstance(value, str) else value
    named = {"NONE": "none", "0": "none", "32": "32B", "64": "64B", "128": "128B"}.get(str(text), text)
    names = tuple(str(s) for s in MODES)
    return Swizzle(choice("swizzle", str(named) if isinstance(named, Swizzle) else named, names, f"one of {' '.join(names)}"))


def _stack(value: Any, major: str) -> str:
    """ "strided" or "contiguous" of what may also be the axis along which atoms follow one another: "MN" (or "M", "N"), "K"."""
    if value is None:
        return "strided"
    axes = {"M": "MN", "N": "MN", "m": "MN", "n": "MN", "mn": "MN", "k": "K"}
    given = axes.get(value, value) if isinstance(value, str) else value
    if given in ("MN", "K"):
        return "contiguous" if given == major else "strided"
    wanted = "'strided' (default), 'contiguous', or the axis along which atoms follow one another first: 'MN' or 'K'"
    return choice("stack", given, STACKS, wanted)
