"""Tensor memory addresses: the lane in the upper half, the column in the lower one.

>>> TmemAddress.decode(0x100000), TmemAddress(64, 2).encode()
(TmemAddress(lane=16, column=0), 4194306)
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from smemsim.base.arguments import shown, whole
from smemsim.base.errors import InputError, Unmodelled
from smemsim.base.members import OwnMembers
from smemsim.core.spec.tensor_memory import COLUMNS, LANE_SHIFT, LANES

__all__ = ["TmemAddress", "check_columns", "indices", "layout_repr", "plain", "together"]


_COLUMN_MASK = (1 << LANE_SHIFT) - 1


@dataclasses.dataclass(frozen=True)
class TmemAddress(metaclass=OwnMembers):
    """The 32-bit operand `taddr`: lane (0 to 127) in bits 31:16, column (0 to 511) in bits 15:0. Documented: PTX ISA
    9.1 §9.7.16.1.1.

    >>> import smemsim
    >>> hex(smemsim.TmemAddress(lane=32, column=8).encode())
    '0x200008'
    """

    lane: int = 0
    column: int = 0

    def __post_init__(self) -> None:
        for name, end in (("lane", LANES), ("column", COLUMNS)):
            value = whole(name, getattr(self, name))
            if not 0 <= value < end:
                raise InputError(f"{name} = {value}: tensor memory has {name}s 0 to {end - 1} (PTX ISA 9.1 §9.7.16.1)")
            object.__setattr__(self, name, value)

    @classmethod
    def decode(cls, taddr: Any, name: str = "taddr") -> TmemAddress:
        """The address of a 32-bit word. A TmemAddress is returned as it is. InputError if the lane or the column does
        not exist.
        """
        if isinstance(taddr, TmemAddress):
            return taddr
        word = whole(name, taddr, minimum=0, wanted="a tensor memory address, lane << 16 | column")
        lane, column = word >> LANE_SHIFT, word & _COLUMN_MASK
        if lane >= LANES or column >= COLUMNS:
            raise InputError(
                f"{name} = {shown(word)} ({word:#x}): lane {lane}, column {column}; tensor memory has lanes 0 to {LANES - 1} in bits 31:16 "
                f"and columns 0 to {COLUMNS - 1} in bits 15:0 (PTX ISA 9.1 §9.7.16.1.1)"
            )
        return cls(lane, column)

    def encode(self) -> int:
        """The 32-bit word."""
        return self.lane << LANE_SHIFT | self.column

    def __add__(self, offset: int) -> TmemAddress:
        """The address whose word is larger by `offset`, as kernels compute it: columns, or lanes << 16."""
        return TmemAddress.decode(self.encode() + whole("offset", offset))

    def __or__(self, bits: int) -> TmemAddress:
        """The address with bits set, as kernels put the lane in: `taddr | 16 << 16`."""
        return TmemAddress.decode(self.encode() | whole("bits", bits))

    def __str__(self) -> str:
        return f"{self.encode():#x} (lane {self.lane}, column {self.column})"

    def advance(self, *, lanes: int = 0, columns: int = 0) -> TmemAddress:
        """The address that is some lanes and columns further.

        The hardware adds to the word. A column past 511 does not exist, and only past 65535 would it carry into the
        lane. The effect of such an access is not known: Unmodelled.

        >>> TmemAddress(0, 480).advance(columns=64)
        Traceback (most recent call last):
        smemsim.base.errors.Unmodelled: lane 0, column 480, 64 columns further: past column 511; whether hardware wraps around or faults there is not known
        """
        lane, column = self.lane + whole("lanes", lanes), self.column + whole("columns", columns)
        for name, by, at, end in (("lane", lanes, lane, LANES), ("column", columns, column, COLUMNS)):
            if not 0 <= at < end:
                edge = f"past {name} {end - 1}" if at >= end else f"before {name} 0"
                raise Unmodelled(
                    f"lane {self.lane}, column {self.column}, {by} {name}s further: {edge}; whether hardware wraps around or faults there "
                    "is not known"
                )
        return TmemAddress(lane, column)


def plain(holder: Any, *names: str) -> None:
    """Make whole numbers of a frozen dataclass Python's own: numpy's wrap around when something is added to them."""
    for name in names:
        value = getattr(holder, name)
        if value is not None:
            object.__setattr__(holder, name, whole(name, value))


def layout_repr(layout: Any) -> str:
    """The call that makes a layout, arguments with their defaults left out, and its grade."""
    values = [(f, getattr(layout, f.name)) for f in dataclasses.fields(layout)]
    given = [f"{f.name}={value!r}" for f, value in values if f.default is dataclasses.MISSING or value != f.default]
    return f"{type(layout).__name__}({', '.join(given)})  # {layout.grade}"


def check_columns(what: str, column: int, count: int) -> None:
    """Unmodelled where `count` columns from `column` on pass the last one."""
    if column + count > COLUMNS:
        raise Unmodelled(
            f"{what}: {count} columns from column {column} on pass column {COLUMNS - 1}; whether hardware wraps around or faults is not known"
        )


def indices(name: str, value: Any, end: int, what: str) -> Any:
    """A whole number from 0 to `end` - 1, or an int64 array of such; `what` says in an
    error what there are so many of.
    """
    if isinstance(value, (list, tuple, range)):
        value = np.array([whole(f"{name}[{i}]", v) for i, v in enumerate(value)], np.int64)
    if not isinstance(value, np.ndarray):
        number = whole(name, value)
        if not 0 <= number < end:
            raise InputError(f"{name} = {number}: {what} 0 to {end - 1}")
        return number
    if value.dtype.kind not in "iu":
        raise InputError(f"{name}: needs whole numbers, not an array of {value.dtype}")
    if value.size and not 0 <= int(value.min()) <= int(value.max()) < end:
        low, high = int(value.min()), int(value.max())
        raise InputError(f"{name} from {low} to {high}: {what} 0 to {end - 1}")
    return value.astype(np.int64)


def together(*values: Any) -> tuple[Any, ...]:
    """Numbers unchanged; if one is an array, all as arrays of one shape."""
    if not any(isinstance(value, np.ndarray) for value in values):
        return values
    try:
        return tuple(np.broadcast_arrays(*values))
    except ValueError:
        shapes = ", ".join(str(np.shape(value)) for value in values)
        raise InputError(f"arrays of shapes {shapes} do not go together; give arrays that broadcast to one shape") from None
