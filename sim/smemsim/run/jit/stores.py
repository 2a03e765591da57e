"""Weak stores to global memory without another access, compiled: checked, and recorded in the cells of the sanitizer
(`run/sanitizer/global_loops.py`).

It does, thread by thread, what `global_loops.write` does. If a cell has an access of another warp, it stops, and
`global_loops.write` checks the store. Reads of the own warp are dropped, as there: kernels that work in place load
what they store.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.core.machine.uninitialised import WORD
from smemsim.run.engine.wave import WARP
from smemsim.run.jit import objects
from smemsim.run.jit.memory import Access
from smemsim.run.marks import CLOCK, WHEN, WHO

if TYPE_CHECKING:
    from smemsim.run.checks import Cells
    from smemsim.run.engine.wave import Wave

__all__ = ["Stores"]


# What the function gets in one table of 64-bit numbers, by place. A table that is not there is a null pointer.
_POINTERS = ("writers", "earlier", "readers", "others", "split", "line_writers", "line_readers", "line_others", "clock")
_NUMBERS = ("host", "first_warp", "shift", "line", "nowhere")
_HOST = len(_POINTERS)
_CALL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 4, ctypes.c_void_p)


_WIDE, _BITS = f"<{WARP} x i64>", f"<{WARP} x i1>"


def _whole_line(name: str, line: str) -> str:
    """From %`name`.whole on: a store to a whole line, without an access of another warp."""
    return f"""{name}.whole:
%{name}.lw.at = getelementptr i64, ptr %line_writers, i64 {line}
%{name}.lw = load i64, ptr %{name}.lw.at, align 8
%{name}.lw.none = icmp eq i64 %{name}.lw, 0
%{name}.lw.own = icmp eq i64 %{name}.lw, %own
%{name}.lw.good = or i1 %{name}.lw.none, %{name}.lw.own
br i1 %{name}.lw.good, label %{name}.whole.reads, label %fail
{name}.whole.reads:
br i1 %has.readers, label %{name}.whole.look, label %{name}.take
{name}.whole.look:
%{name}.lr.at = getelementptr i64, ptr %line_readers, i64 {line}
%{name}.lr = load i64, ptr %{name}.lr.at, align 8
%{name}.lr.none = icmp eq i64 %{name}.lr, 0
br i1 %{name}.lr.none, label %{name}.take, label %{name}.whole.read
{name}.whole.read:
%{name}.lo.at = getelementptr i64, ptr %line_others, i64 {line}
%{name}.lo = load i64, ptr %{name}.lo.at, align 8
%{name}.lr.who = lshr i64 %{name}.lr, {WHO}
%{name}.lr.own = icmp eq i64 %{name}.lr.who, %number1
%{name}.lo.none = icmp eq i64 %{name}.lo, 0
%{name}.lr.good = and i1 %{name}.lr.own, %{name}.lo.none
br i1 %{name}.lr.good, label %{name}.whole.forget, label %fail
{name}.whole.forget:
store i64 0, ptr %{name}.lr.at, align 8
br label %{name}.take
{name}.take:
store i64 %own, ptr %{name}.lw.at, align 8
br label %next"""


def _part_of_line(name: str, line: str, after: str) -> str:
    """From %`name`.part on: a store to a part of a line is recorded in its cells, if the line has no access."""
    return f"""{name}.part:
%{name}.pw.at = getelementptr i64, ptr %line_writers, i64 {line}
%{name}.pw = load i64, ptr %{name}.pw.at, align 8
%{name}.pw.none = icmp eq i64 %{name}.pw, 0
br i1 %{name}.pw.none, label %{name}.part.reads, label %fail
{name}.part.reads:
br i1 %has.readers, label %{name}.part.look, label %{name}.splits
{name}.part.look:
%{name}.pr.at = getelementptr i64, ptr %line_readers, i64 {line}
%{name}.pr = load i64, ptr %{name}.pr.at, align 8
%{name}.pr.none = icmp eq i64 %{name}.pr, 0
br i1 %{name}.pr.none, label %{name}.splits, label %fail
{name}.splits:
store i8 1, ptr %{name}.split.at, align 1
br label {after}"""


def _wide_text() -> str:
    """A warp's threads that store neighbouring cells, as many as a line has: all of a line, or the end of one and the
    begin of the next.
    """
    lines = f"""wide:
br i1 %is.masked, label %wide.look, label %wide.places
wide.look:
%wm.at = getelementptr i8, ptr %mask, i64 %n
%wm = load <{WARP} x i8>, ptr %wm.at, align 1
%wm.on = icmp ne <{WARP} x i8> %wm, zeroinitializer
%wm.bits = bitcast {_BITS} %wm.on to i{WARP}
%wm.all = icmp eq i{WARP} %wm.bits, -1
br i1 %wm.all, label %wide.places, label %single
wide.places:
%wp.at = getelementptr i64, ptr %places, i64 %n
%wp = load {_WIDE}, ptr %wp.at, align 8
%wp.first = shufflevector {_WIDE} %wp, {_WIDE} poison, <{WARP} x i32> zeroinitializer
%wp.steps = sub {_WIDE} %wp, %wp.first
%wp.next = icmp eq {_WIDE} %wp.steps, %ramp
%wp.bits = bitcast {_BITS} %wp.next to i{WARP}
%wp.all = icmp eq i{WARP} %wp.bits, -1
br i1 %wp.all, label %wide.at, label %single
wide.at:
%wp0 = extractelement {_WIDE} %wp, i64 0
%wat = sub i64 %wp0, %host
%wln = lshr i64 %wat, %line
%wsplit.at = getelementptr i8, ptr %split, i64 %wln
%wsplit = load i8, ptr %wsplit.at, align 1
%w.split = icmp ne i8 %wsplit, 0
%wlow = and i64 %wat, %inside
%w.begins = icmp eq i64 %wlow, 0
br i1 %w.begins, label %wide.begin, label %wide.first
wide.begin:
br i1 %w.split, label %wide.cells, label %wide.whole
{_whole_line("wide", "%wln")}
""".splitlines()
    for part, line, after in (("first", "%wln", "%wide.second"), ("second", "%wln.behind", "%wide.cells")):
        if part == "second":
            lines += ["wide.second:", "%wln.behind = add i64 %wln, 1"]
        else:
            lines += ["wide.first:"]
        lines += f"""%{part}.split.at = getelementptr i8, ptr %split, i64 {line}
%{part}.split = load i8, ptr %{part}.split.at, align 1
%{part}.is.split = icmp ne i8 %{part}.split, 0
br i1 %{part}.is.split, label {after}, label %{part}.part
{_part_of_line(part, line, after)}""".splitlines()
    lines += f"""wide.cells:
%wcell = lshr i64 %wat, %shift
%ww.at = getelementptr i64, ptr %writers, i64 %wcell
%ww = load {_WIDE}, ptr %ww.at, align 8
%own.one = insertelement {_WIDE} poison, i64 %own, i32 0
%owns = shufflevector {_WIDE} %own.one, {_WIDE} poison, <{WARP} x i32> zeroinitializer
%ww.none = icmp eq {_WIDE} %ww, zeroinitializer
%ww.own = icmp eq {_WIDE} %ww, %owns
%ww.good = or {_BITS} %ww.none, %ww.own
%ww.bits = bitcast {_BITS} %ww.good to i{WARP}
%ww.all = icmp eq i{WARP} %ww.bits, -1
br i1 %ww.all, label %wide.cell.reads, label %fail
wide.cell.reads:
br i1 %has.readers, label %wide.cell.readers, label %wide.before
wide.cell.readers:
%wr.at = getelementptr i64, ptr %readers, i64 %wcell
%wr = load {_WIDE}, ptr %wr.at, align 8
%wo.at = getelementptr i64, ptr %others, i64 %wcell
%wo = load {_WIDE}, ptr %wo.at, align 8
%wr.who = lshr {_WIDE} %wr, <{", ".join([f"i64 {WHO}"] * WARP)}>
%who.one = insertelement {_WIDE} poison, i64 %number1, i32 0
%whos = shufflevector {_WIDE} %who.one, {_WIDE} poison, <{WARP} x i32> zeroinitializer
%wr.none = icmp eq {_WIDE} %wr, zeroinitializer
%wr.own = icmp eq {_WIDE} %wr.who, %whos
%wr.good = or {_BITS} %wr.none, %wr.own
%wo.none = icmp eq {_WIDE} %wo, zeroinitializer
%wro.good = and {_BITS} %wr.good, %wo.none
%wro.bits = bitcast {_BITS} %wro.good to i{WARP}
%wro.all = icmp eq i{WARP} %wro.bits, -1
br i1 %wro.all, label %wide.cell.forget, label %fail
wide.cell.forget:
store {_WIDE} zeroinitializer, ptr %wr.at, align 8
br label %wide.before
wide.before:
br i1 %has.earlier, label %wide.earlier, label %wide.note
wide.earlier:
%we.at = getelementptr i64, ptr %earlier, i64 %wcell
%we = load {_WIDE}, ptr %we.at, align 8
%we.some = icmp ne {_WIDE} %we, zeroinitializer
%we.bits = bitcast {_BITS} %we.some to i{WARP}
%we.none = icmp eq i{WARP} %we.bits, 0
br i1 %we.none, label %wide.note, label %fail
wide.note:
store {_WIDE} %owns, ptr %ww.at, align 8
br label %next""".splitlines()
    return "\n".join(lines)


def _constants() -> str:
    """The values that are the same for all threads."""
    return f"""%is.masked = icmp ne ptr %mask, null
%has.readers = icmp ne ptr %readers, null
%has.earlier = icmp ne ptr %earlier, null
%count = lshr i64 %size, %shift
%line.bytes = shl i64 1, %line
%inside = sub i64 %line.bytes, 1
%per.line = udiv i64 %line.bytes, %size
%is.odd = icmp ne i64 %per.line, {WARP}
%is.cell = icmp eq i64 %count, 1
%is.even = xor i1 %is.odd, true
%is.wide = and i1 %is.cell, %is.even
%size.one = insertelement {_WIDE} poison, i64 %size, i32 0
%sizes = shufflevector {_WIDE} %size.one, {_WIDE} poison, <{WARP} x i32> zeroinitializer
%ramp = mul {_WIDE} %sizes, <{", ".join(f"i64 {k}" for k in range(WARP))}>
br label %loop"""


def _thread() -> str:
    """The thread's mark, and whether it begins a warp that stores whole lines."""
    return f"""loop:
%n = phi i64 [ %first, %entry ], [ %n.next, %next ]
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
%lane = and i64 %n, {WARP - 1}
%is.warp = icmp eq i64 %lane, 0
%n.warp = add i64 %n, {WARP}
%has.warp = icmp sle i64 %n.warp, %last
%is.whole = and i1 %is.warp, %has.warp
%may.wide = and i1 %is.whole, %is.wide
br i1 %may.wide, label %wide, label %single"""


def _lane() -> str:
    """A thread alone: is it there, and where does it store?"""
    return """single:
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
%at = sub i64 %place, %host
%ln = lshr i64 %at, %line
%one.split.at = getelementptr i8, ptr %split, i64 %ln
%is.split8 = load i8, ptr %one.split.at, align 1
%is.split = icmp ne i8 %is.split8, 0
br i1 %is.split, label %cells, label %whole"""


def _whole_line_of_lanes() -> str:
    """Do the following lanes fill the line?"""
    return f"""whole:
%low = and i64 %at, %inside
%is.begin = icmp eq i64 %low, 0
%lane.last = add i64 %lane, %per.line
%fits = icmp ule i64 %lane.last, {WARP}
%n.last = add i64 %n, %per.line
%is.there = icmp sle i64 %n.last, %last
%may.fit = and i1 %fits, %is.there
%may.be = and i1 %is.begin, %may.fit
br i1 %may.be, label %compare, label %one.part
compare:
%j = phi i64 [ 1, %whole ], [ %j.next, %equal ]
%is.all = icmp sge i64 %j, %per.line
br i1 %is.all, label %one.whole, label %other
other:
br i1 %is.masked, label %other.look, label %other.runs
other.look:
%nj = add i64 %n, %j
%mj.at = getelementptr i8, ptr %mask, i64 %nj
%mj = load i8, ptr %mj.at, align 1
%is.off.too = icmp eq i8 %mj, 0
br i1 %is.off.too, label %hole, label %other.runs
hole:
br i1 %is.odd, label %fail, label %one.part
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
br i1 %unclear, label %fail, label %one.part"""


def _cells() -> str:
    """The words of a line that is not one's own, one by one."""
    return f"""cells:
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
%r.who = lshr i64 %r, {WHO}
%r.own = icmp eq i64 %r.who, %number1
%r.none = icmp eq i64 %r, 0
%r.good = or i1 %r.none, %r.own
%o.none = icmp eq i64 %o, 0
%ro.good = and i1 %r.good, %o.none
br i1 %ro.good, label %cell.forget, label %fail
cell.forget:
store i64 0, ptr %r.at, align 8
br label %cell.before
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
br i1 %more.cells, label %cell.loop, label %one"""


def _text() -> str:
    lines = ["define i64 @stores(ptr %places, ptr %mask, i64 %first, i64 %last, i64 %index, i64 %size, ptr %context) {", "entry:"]
    for n, entry in enumerate((*_POINTERS, *_NUMBERS)):
        kind = "ptr" if entry in _POINTERS else "i64"
        lines += [f"%c{n} = getelementptr i64, ptr %context, i64 {n}", f"%{entry} = load {kind}, ptr %c{n}, align 8"]
    lines += f"""{_constants()}
{_thread()}
{_wide_text()}
{_lane()}
{_whole_line_of_lanes()}
{_whole_line("one", "%ln")}
{_part_of_line("one", "%ln", "%cells")}
{_cells()}
one:
br label %next
next:
%by = phi i64 [ %per.line, %one.take ], [ 1, %one ], [ {WARP}, %wide.take ], [ {WARP}, %wide.note ]
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


def _fill_words(access: Access, places: int, first: int, last: int, mask: int | None) -> bool:
    """Do neighbouring threads, of those from `first` to `last` whose places in the host's memory lie at `places`,
    write all bytes of each word?
    """
    each = WORD // access.size
    if mask is not None or (last - first) % each:
        return False
    at = np.ctypeslib.as_array((ctypes.c_int64 * (last - first)).from_address(places + 8 * first)).reshape(-1, each)
    first_of_each = at[:, 0]
    are_beside = all((at[:, n] - first_of_each == n * access.size).all() for n in range(1, each))
    return are_beside and not ((first_of_each + access.apart) & WORD - 1).any()


class Stores:
    """The function over the cells of one wave's launch."""

    def __init__(self, x: Wave, nowhere: int) -> None:
        self.globals, self.nowhere = x.checks.globals, nowhere
        self.context = np.zeros(len(_POINTERS) + len(_NUMBERS), np.int64)
        self._at = self.context.ctypes.data
        self._call = _function()
        self._of: tuple[Any, ...] = ()  # the tables that the context points at

    def passes(self, x: Wave, access: Access, memory: np.ndarray, places: int, given: tuple[int, int, int | None]) -> bool:
        """Has no other warp accessed the place of a store? Then it is recorded."""
        fills_words = functools.partial(_fill_words, access, places, *given)
        found = self.globals.cells_of_store(access.instruction, memory, access.size, x.n, fills_words=fills_words)
        if found is None:
            return False
        index, cells = found
        self._look_at(cells, self.globals.clock)
        self.context[_HOST] = memory.ctypes.data - access.apart
        first, last, mask = given
        return bool(self._call(places, mask, first, last, index, access.size, self._at))

    def _look_at(self, cells: Cells, clock: np.ndarray) -> None:
        if len(self._of) == 2 and self._of[0] is cells and self._of[1] is clock:
            return
        self._of = cells, clock
        tables = (
            cells.writers, cells.earlier, cells.readers, cells.others, cells.split, cells.line_writers, cells.line_readers, cells.line_others, clock,
        )  # fmt: skip
        pointers = [array.ctypes.data if len(array) else 0 for array in tables]
        self.context[:] = *pointers, 0, self.globals.first, cells.shift, cells.line, self.nowhere
