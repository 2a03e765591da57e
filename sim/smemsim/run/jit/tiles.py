"""A segment with accesses, a tile of threads at a time: the addresses of a tile stay in the processor's cache until its
bytes are moved.

A tile is whole CTAs if the sanitizer checks it: then accesses to a word reach its tables in the order of the
instructions, as from the interpreter. If an address is outside, or the sanitizer needs single accesses, the loop
stops before the tile: nothing has happened there.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from smemsim.base.cache_lines import zeros_in_lines
from smemsim.run.jit import objects
from smemsim.run.jit.vectors import LANES

__all__ = ["LOOK", "LOOK_NUMBERS", "NO_LOOKS", "RUN", "Looks", "Tiles"]


LOOK, RUN = 1, 2  # the work of a call: checks addresses and asks the sanitizer, moves bytes; both are one pass
# of places in a tile: without, and with observers that count, which get each tile
_BYTES, _COUNTED_BYTES = 1 << 15, 1 << 19
LOOK_NUMBERS = (
    # of each access that the sanitizer checks: a function's address, the row, the line, the token, the distance from
    # the row's places
    5
)
_ENTRIES = ("prepare", "run", "regs", "mask", "places", "shapes", "memory", "tile", "looks", "count", "context")
_POINTERS = {"prepare", "run", "regs", "mask", "places", "shapes", "memory", "looks", "context"}
_CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * 3)
_GIVEN = "ptr %regs, ptr %mask, i64 %begin, i64 %end, ptr %pl, ptr %sh, i64 %tile, ptr %memory"


def _text() -> str:
    lines = ["define i64 @tiles(ptr %plan, i64 %first, i64 %last, i64 %mode) {", "entry:"]
    for n, entry in enumerate(_ENTRIES):
        kind = "ptr" if entry in _POINTERS else "i64"
        lines += [f"%e{n} = getelementptr i64, ptr %plan, i64 {n}", f"%{entry} = load {kind}, ptr %e{n}, align 8"]
    lines += f"""%looks.bit = and i64 %mode, {LOOK}
%is.look = icmp ne i64 %looks.bit, 0
%runs.bit = and i64 %mode, {RUN}
%is.run = icmp ne i64 %runs.bit, 0
br label %loop
loop:
%begin = phi i64 [ %first, %entry ], [ %end, %next ]
%whole = udiv i64 %begin, %tile
%base = mul i64 %whole, %tile
%full = add i64 %base, %tile
%is.short = icmp slt i64 %last, %full
%end = select i1 %is.short, i64 %last, i64 %full
%back = sub i64 0, %base
%groups.back = ashr exact i64 %back, {LANES.bit_length() - 1}
%pl = getelementptr i64, ptr %places, i64 %back
%sh = getelementptr i8, ptr %shapes, i64 %groups.back
%bad = call i64 %prepare({_GIVEN})
%is.bad = icmp ne i64 %bad, 0
br i1 %is.bad, label %stop, label %good
good:
%some = icmp sgt i64 %count, 0
%asks = and i1 %some, %is.look
br i1 %asks, label %look, label %looked
look:
%k = phi i64 [ 0, %good ], [ %k.next, %look.next ]
%row = mul i64 %k, {LOOK_NUMBERS}
%f.at = getelementptr i64, ptr %looks, i64 %row
%f = load ptr, ptr %f.at, align 8
%n.at = getelementptr i64, ptr %f.at, i64 1
%n = load i64, ptr %n.at, align 8
%line.at = getelementptr i64, ptr %f.at, i64 2
%line = load i64, ptr %line.at, align 8
%token.at = getelementptr i64, ptr %f.at, i64 3
%token = load i64, ptr %token.at, align 8
%apart.at = getelementptr i64, ptr %f.at, i64 4
%apart = load i64, ptr %apart.at, align 8
%skipped = mul i64 %n, %tile
%skipped.groups = lshr i64 %skipped, {LANES.bit_length() - 1}
%own.pl = getelementptr i64, ptr %pl, i64 %skipped
%own.sh = getelementptr i8, ptr %sh, i64 %skipped.groups
%clear = call i64 %f(ptr %own.pl, ptr %own.sh, ptr %mask, i64 %begin, i64 %end, i64 %line, i64 %token, i64 %apart, ptr %context)
%is.clear = icmp ne i64 %clear, 0
br i1 %is.clear, label %look.next, label %stop
look.next:
%k.next = add i64 %k, 1
%more.looks = icmp slt i64 %k.next, %count
br i1 %more.looks, label %look, label %looked
looked:
br i1 %is.run, label %work, label %next
work:
call void %run({_GIVEN})
br label %next
next:
%more = icmp slt i64 %end, %last
br i1 %more, label %loop, label %done
done:
ret i64 %last
stop:
ret i64 %begin
}}""".splitlines()
    return "\n".join(lines)


@functools.cache
def _function() -> Any:
    (found,) = objects.functions(_text(), ("tiles", _CALL))
    return found


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Looks(NamedTuple):
    """Checks of the sanitizer, each by its LOOK_NUMBERS, and the address of these rows in the host's memory."""

    rows: np.ndarray
    at: int

    @classmethod
    def of(cls, rows: np.ndarray) -> Looks:
        """Those of rows (n, LOOK_NUMBERS) of int64."""
        return cls(rows, rows.ctypes.data)


NO_LOOKS = Looks.of(np.zeros((0, LOOK_NUMBERS), np.int64))


class Tiles:
    """The inputs of the loop over the tiles of a segment: `count` rows of places, of `total` threads. Threads that stay
    together are `unit`.
    """

    def __init__(
        self, functions: Sequence[Any], registers: int, memory: int, count: int, total: int, unit: int, *, is_counted: bool = False
    ) -> None:
        size = _COUNTED_BYTES if is_counted else _BYTES
        self.tile = min(total, unit * max(1, size // (8 * count * unit)))
        self.places = zeros_in_lines((count, self.tile), np.int64)
        self.shapes = np.empty((count, self.tile // LANES), np.uint8)
        self.looks = NO_LOOKS
        self.plan = np.zeros(len(_ENTRIES), np.int64)
        given = (_address(functions[0]), _address(functions[-1]), registers, 0, self.places.ctypes.data, self.shapes.ctypes.data, memory)
        self.plan[:7] = given
        self.plan[7:9] = self.tile, self.looks.at
        self._at = self.plan.ctypes.data
        self._functions = functions  # whose addresses the plan has
        self._call = _function()

    def asks(self, looks: Looks, context: int) -> None:
        """Call these checks of the sanitizer."""
        self.plan[8:11] = looks.at, len(looks.rows), context
        self.looks = looks

    def go(self, first: int, last: int, mask: int | None, mode: int) -> int:
        """Do what `mode` says for threads from `first` on. The first thread of the tile that it stopped at; `last`
        where all is done.
        """
        self.plan[3] = mask or 0
        return int(self._call(self._at, first, last, mode))
