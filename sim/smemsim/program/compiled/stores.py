"""Weak stores to global memory that nobody else has accessed, as machine code: seen to be so, and noted in the watch's cells (`watch/global_loops.py`).

It does, thread by thread, what `global_loops.write` does; where a cell says anything but that nobody, or the same warp, has been there, it stops, and that looks.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.program.compiled import objects
from smemsim.program.compiled.memory import Access
from smemsim.program.compiled.vectors import LANES
from smemsim.program.watch.global_loops import CLOCK, WHEN, WHO

if TYPE_CHECKING:
    from smemsim.program.wave import Wave

__all__ = ["Stores"]


# What the function gets in one table of 64-bit numbers, by place. A table that is not there is a null pointer.
_POINTERS = ("writers", "earlier", "readers", "others", "split", "line_writers", "line_readers", "line_others", "clock")
_NUMBERS = ("host", "first_warp", "shift", "line", "nowhere")
_CALL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 4, ctypes.c_void_p)


def _text() -> str:
    lines = ["define i64 @stores(ptr %places, ptr %mask, i64 %first, i64 %last, i64 %index, i64 %size, ptr %context) {", "entry:"]
    for n, entry in enumerate((*_POINTERS, *_NUMBERS)):
        kind = "ptr" if entry in _POINTERS else "i64"
        lines += [f"%c{n} = getelementptr i64, ptr %context, i64 {n}", f"%{entry} = load {kind}, ptr %c{n}, align 8"]
    lines += f"""%is.masked = icmp ne ptr %mask, null
%has.readers = icmp ne ptr %readers, null
%has.earlier = icmp ne ptr %earlier, null
%count = lshr i64 %size, %shift
%line.bytes = shl i64 1, %line
%inside = sub i64 %line.bytes, 1
%per.line = udiv i64 %line.bytes, %size
%is.odd = icmp ne i64 %per.line, {2 * LANES}
br label %loop
loop:
%n = phi i64 [ %first, %entry ], [ %n.next, %next ]
br i1 %is.masked, label %look, label %may.run
look:
%m.at = getelementptr i8, ptr %mask, i64 %n
%m = load i8, ptr %m.at, align 1
%is.off = icmp eq i8 %m, 0
br i1 %is.off, label %one, label %may.run
may.run:
%pn = getelementptr i64, ptr %places, i64 %n
%place = load i64, ptr %pn, align 8
%is.idle = icmp eq i64 %place, %nowhere
br i1 %is.idle, label %one, label %runs
runs:
%warp = lshr i64 %n, 5
%clock.at = getelementptr i32, ptr %clock, i64 %warp
%clock32 = load i32, ptr %clock.at, align 4
%clock64 = zext i32 %clock32 to i64
%is.late = icmp ugt i64 %clock64, {CLOCK}
%when = select i1 %is.late, i64 {CLOCK}, i64 %clock64
%when.bits = shl i64 %when, {WHEN}
%number = add i64 %warp, %first_warp
%number1 = add i64 %number, 1
%who.bits = shl i64 %number1, {WHO}
%own.low = or i64 %when.bits, %index
%own = or i64 %who.bits, %own.low
%at = sub i64 %place, %host
%ln = lshr i64 %at, %line
%split.at = getelementptr i8, ptr %split, i64 %ln
%is.split8 = load i8, ptr %split.at, align 1
%is.split = icmp ne i8 %is.split8, 0
br i1 %is.split, label %cells, label %whole
whole:
%low = and i64 %at, %inside
%is.begin = icmp eq i64 %low, 0
%lane = and i64 %n, {2 * LANES - 1}
%lane.last = add i64 %lane, %per.line
%fits = icmp ule i64 %lane.last, {2 * LANES}
%n.last = add i64 %n, %per.line
%is.there = icmp sle i64 %n.last, %last
%may.fit = and i1 %fits, %is.there
%may.be = and i1 %is.begin, %may.fit
br i1 %may.be, label %compare, label %part
compare:
%j = phi i64 [ 1, %whole ], [ %j.next, %equal ]
%is.all = icmp sge i64 %j, %per.line
br i1 %is.all, label %free, label %other
other:
br i1 %is.masked, label %other.look, label %other.runs
other.look:
%nj = add i64 %n, %j
%mj.at = getelementptr i8, ptr %mask, i64 %nj
%mj = load i8, ptr %mj.at, align 1
%is.off.too = icmp eq i8 %mj, 0
br i1 %is.off.too, label %hole, label %other.runs
hole:
br i1 %is.odd, label %fail, label %part
other.runs:
%pj = getelementptr i64, ptr %pn, i64 %j
%other.place = load i64, ptr %pj, align 8
%step = mul i64 %j, %size
%wanted = add i64 %place, %step
%is.next = icmp eq i64 %other.place, %wanted
br i1 %is.next, label %equal, label %gap
equal:
%j.next = add i64 %j, 1
br label %compare
gap:
%is.hole = icmp eq i64 %other.place, %nowhere
%unclear = and i1 %is.hole, %is.odd
br i1 %unclear, label %fail, label %part
free:
%lw.at = getelementptr i64, ptr %line_writers, i64 %ln
%lw = load i64, ptr %lw.at, align 8
%lw.none = icmp eq i64 %lw, 0
%lw.own = icmp eq i64 %lw, %own
%lw.good = or i1 %lw.none, %lw.own
br i1 %lw.good, label %free.reads, label %fail
free.reads:
br i1 %has.readers, label %free.look, label %take
free.look:
%lr.at = getelementptr i64, ptr %line_readers, i64 %ln
%lr = load i64, ptr %lr.at, align 8
%lr.none = icmp eq i64 %lr, 0
br i1 %lr.none, label %take, label %fail
take:
store i64 %own, ptr %lw.at, align 8
br label %next
part:
%pw.at = getelementptr i64, ptr %line_writers, i64 %ln
%pw = load i64, ptr %pw.at, align 8
%pw.none = icmp eq i64 %pw, 0
br i1 %pw.none, label %part.reads, label %fail
part.reads:
br i1 %has.readers, label %part.look, label %splits
part.look:
%pr.at = getelementptr i64, ptr %line_readers, i64 %ln
%pr = load i64, ptr %pr.at, align 8
%pr.none = icmp eq i64 %pr, 0
br i1 %pr.none, label %splits, label %fail
splits:
store i8 1, ptr %split.at, align 1
br label %cells
cells:
%cell0 = lshr i64 %at, %shift
br label %cell.loop
cell.loop:
%k = phi i64 [ 0, %cells ], [ %k.next, %cell.take ]
%cell = add i64 %cell0, %k
%w.at = getelementptr i64, ptr %writers, i64 %cell
%w = load i64, ptr %w.at, align 8
%w.none = icmp eq i64 %w, 0
%w.own = icmp eq i64 %w, %own
%w.good = or i1 %w.none, %w.own
br i1 %w.good, label %cell.reads, label %fail
cell.reads:
br i1 %has.readers, label %cell.look, label %cell.before
cell.look:
%r.at = getelementptr i64, ptr %readers, i64 %cell
%r = load i64, ptr %r.at, align 8
%o.at = getelementptr i64, ptr %others, i64 %cell
%o = load i64, ptr %o.at, align 8
%ro = or i64 %r, %o
%ro.none = icmp eq i64 %ro, 0
br i1 %ro.none, label %cell.before, label %fail
cell.before:
br i1 %has.earlier, label %cell.earlier, label %cell.take
cell.earlier:
%e.at = getelementptr i64, ptr %earlier, i64 %cell
%e = load i64, ptr %e.at, align 8
%e.none = icmp eq i64 %e, 0
br i1 %e.none, label %cell.take, label %fail
cell.take:
store i64 %own, ptr %w.at, align 8
%k.next = add i64 %k, 1
%more.cells = icmp slt i64 %k.next, %count
br i1 %more.cells, label %cell.loop, label %one
one:
br label %next
next:
%by = phi i64 [ %per.line, %take ], [ 1, %one ]
%n.next = add i64 %n, %by
%more = icmp slt i64 %n.next, %last
br i1 %more, label %loop, label %done
done:
ret i64 1
fail:
ret i64 0
}}""".splitlines()
    return "\n".join(lines)


@functools.cache
def _function() -> Any:
    (found,) = objects.functions(_text(), ("stores", _CALL))
    return found


class Stores:
    """The function over the cells of one wave's launch."""

    def __init__(self, x: Wave, nowhere: int) -> None:
        self.globals, self.nowhere = x.watch.globals, nowhere
        self.context = np.zeros(len(_POINTERS) + len(_NUMBERS), np.int64)
        self._at = self.context.ctypes.data
        self._call = _function()

    def passes(self, x: Wave, access: Access, memory: np.ndarray, places: int, given: tuple[int, int, int | None]) -> bool:
        """Has nobody else been where a store goes? Then it is noted."""
        found = self.globals.cells_of_store(access.instruction, memory, access.size, x.n)
        if found is None:
            return False
        index, cells = found
        tables = (
            cells.writers, cells.earlier, cells.readers, cells.others, cells.split, cells.line_writers, cells.line_readers, cells.line_others,
            self.globals.order.clock,
        )  # fmt: skip
        pointers = [array.ctypes.data if len(array) else 0 for array in tables]
        self.context[:] = *pointers, memory.ctypes.data - access.apart, self.globals.first, cells.shift, cells.line, self.nowhere
        first, last, mask = given
        return bool(self._call(places, mask, first, last, index, access.size, self._at))
