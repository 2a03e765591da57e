"""Accesses to shared memory that one epoch of their CTA orders (`run/sanitizer/epochs.py`), compiled: checked, and
recorded in the sanitizer's tables.

If a group of threads reads one place, or neighbouring places, all words are checked together. If a word is not ordered
so, nothing of a write is recorded, and of a read only what will be recorded again: then `run/sanitizer/shared_loops.py`
checks it.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.run.jit import objects
from smemsim.run.jit.memory import GENERAL, NEIGHBOURS, ONE_PLACE, Access
from smemsim.run.jit.segments import MOST_ACCESSES
from smemsim.run.jit.tiles import LOOK_NUMBERS, Looks
from smemsim.run.jit.vectors import LANES
from smemsim.run.marks import LANE_BITS, MANY, MANY_THREADS, PART_BITS, SEVERAL

if TYPE_CHECKING:
    from smemsim.run.checks import SharedChecks
    from smemsim.run.engine.wave import Wave
    from smemsim.run.jit.segments import Code

__all__ = ["Shadow"]


# What a function gets in one table of 64-bit numbers, by place: pointers and numbers that stay what they are for a
# wave.
_POINTERS = (
    "written", "read", "epoch", "cta_of", "clock", "now", "read_when", "read_line", "read_mark", "who", "when", "line", "strong", "mark", "claim", "columns",
)  # fmt: skip
_NUMBERS = ("host", "nowhere", "stride", "readers", "pitch")
_FOLDED = ("kept_places", "kept_shapes")  # pointers after those, of the first CTA's threads: the place of each access
_CALL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 5, ctypes.c_void_p)
_SIZES = (1, 2, 4)  # words of a thread
_LANE_PART = (1 << LANE_BITS) - 1


class _Text:
    """Lines of a function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names = 0

    def name(self) -> str:
        self._names += 1
        return f"%n{self._names}"

    def add(self, text: str) -> str:
        """A line that gives a value; its name."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        self.lines.append(text if text.endswith(":") else f"  {text}")

    def at(self, kind: str, table: str, index: str) -> str:
        """A pointer to an entry of a table."""
        return self.add(f"getelementptr {kind}, ptr %{table}, i64 {index}")

    def splat(self, kind: str, count: int, value: str) -> str:
        """A vector, all of whose entries are a value."""
        vector = f"<{count} x {kind}>"
        first = self.add(f"insertelement {vector} poison, {kind} {value}, i32 0")
        return self.add(f"shufflevector {vector} {first}, {vector} poison, <{count} x i32> zeroinitializer")

    def require(self, condition: str, count: int, then: str) -> None:
        """Go on where all entries of a condition hold, else fail."""
        bits = self.add(f"bitcast <{count} x i1> {condition} to i{count}")
        every = self.add(f"icmp eq i{count} {bits}, {'true' if count == 1 else -1}")
        self.line(f"br i1 {every}, label %{then}, label %fail")
        self.line(f"{then}:")


class _Body:
    """An access to `count` words from a place on by `lanes` neighbouring threads. With `lanes` 0, all threads of a
    group access the same words.
    """

    def __init__(self, text: _Text, place: str, words: int, lanes: int, lane: str | None, label: str) -> None:
        self.text, self.label = text, label
        self.count = count = words * max(lanes, 1)
        self.is_one = lanes == 0
        self.word = text.add(f"lshr i64 {text.add(f'sub i64 {place}, %begin.host')}, 2")
        if not self.is_one:
            ramp = [n // words for n in range(count)]
            tid, mine = "%tid", "%mine"
            if lane is not None:
                tid = text.add(f"add i32 %tid, {text.add(f'trunc i64 {lane} to i32')}")
                mine = text.add(f"add i64 %mine, {lane}")
            self.tids = text.splat("i32", count, tid)
            self.mines = text.splat("i64", count, mine)
            if lane is None:
                self.tids = text.add(f"add <{count} x i32> {self.tids}, <{', '.join(f'i32 {k}' for k in ramp)}>")
                self.mines = text.add(f"add <{count} x i64> {self.mines}, <{', '.join(f'i64 {k}' for k in ramp)}>")
        self.limit = text.splat("i32", count, "%limit")

    def load(self, table: str, kind: str = "i32") -> tuple[str, str]:
        """(pointer, values) of the words in a table."""
        pointer = self.text.at(kind, table, self.word)
        return pointer, self.text.add(f"load <{self.count} x {kind}>, ptr {pointer}, align 1")

    def store(self, table: str, value: str, kind: str = "i32") -> None:
        self.text.line(f"store <{self.count} x {kind}> {value}, ptr {self.text.at(kind, table, self.word)}, align 1")

    def is_ordered(self, stamps: str) -> str:
        """Is what the stamps say of an epoch that is over, or of the same thread?"""
        text, count = self.text, self.count
        older = text.add(f"icmp ult <{count} x i32> {stamps}, {self.limit}")
        if self.is_one:
            return older
        by = text.add(f"and <{count} x i32> {stamps}, {text.splat('i32', count, str(MANY_THREADS))}")
        own = text.add(f"icmp eq <{count} x i32> {by}, {self.tids}")
        return text.add(f"or <{count} x i1> {older}, {own}")

    def read(self) -> None:
        text, count = self.text, self.count
        _, stamps = self.load("written")
        is_there = text.add(f"icmp ne <{count} x i32> {stamps}, zeroinitializer")
        text.require(text.add(f"and <{count} x i1> {self.is_ordered(stamps)}, {is_there}"), count, f"{self.label}.note")
        pointer, reads = self.load("read")
        many = text.splat("i32", count, "%many")
        joined = self._larger(reads, many)
        if not self.is_one:
            own = text.add(f"or <{count} x i32> {self.limit}, {self.tids}")
            fresh = text.add(f"icmp ult <{count} x i32> {reads}, {self.limit}")
            same = text.add(f"icmp eq <{count} x i32> {reads}, {own}")
            alone = text.add(f"or <{count} x i1> {fresh}, {same}")
            joined = text.add(f"select <{count} x i1> {alone}, <{count} x i32> {own}, <{count} x i32> {joined}")
        text.line(f"store <{count} x i32> {joined}, ptr {pointer}, align 1")
        self.store("read_line", text.splat("i32", count, "%line32"))
        self._mark_read()
        at = text.at("i32", "read_when", text.add(f"add i64 {text.add(f'mul i64 {self.word}, %readers')}, %column"))
        for n in range(count):
            at = text.add(f"getelementptr i32, ptr {at}, i64 %readers") if n else at
            text.line(f"store i32 %clock32, ptr {at}, align 1")

    def _larger(self, a: str, b: str) -> str:
        more = self.text.add(f"icmp ugt <{self.count} x i32> {a}, {b}")
        return self.text.add(f"select <{self.count} x i1> {more}, <{self.count} x i32> {a}, <{self.count} x i32> {b}")

    def _mark_read(self) -> None:
        """The mark of the reader, or that several lanes have read."""
        text, count = self.text, self.count
        several = text.splat("i64", count, "%several")
        if self.is_one:
            self.store("read_mark", several, "i64")
            return
        pointer, marks = self.load("read_mark", "i64")
        # Another lane at the same time, from the low bits of the difference: 1 to the largest lane, less than that
        # after a subtraction of one.
        differ = text.add(f"xor <{count} x i64> {marks}, {self.mines}")
        less = text.add(f"add <{count} x i64> {differ}, {text.splat('i64', count, '-1')}")
        other = text.add(f"icmp ult <{count} x i64> {less}, {text.splat('i64', count, str(_LANE_PART))}")
        kept = text.add(f"select <{count} x i1> {other}, <{count} x i64> {several}, <{count} x i64> {self.mines}")
        text.line(f"store <{count} x i64> {kept}, ptr {pointer}, align 1")

    def check_write(self) -> None:
        """Is it ordered, and does no other warp write the words by this instruction? One of the values of several lanes
        of a warp stays; `claim` has the writers.
        """
        text, count = self.text, self.count
        (_, written), (_, reads) = self.load("written"), self.load("read")
        pointer, claims = self.load("claim", "i64")
        mine = text.splat("i64", count, "%claimed")
        warp = text.splat("i64", count, "-2")
        again = text.add(f"icmp eq <{count} x i64> {text.add(f'and <{count} x i64> {claims}, {warp}')}, {mine}")
        shift = text.splat("i64", count, "32")
        token = text.add(f"lshr <{count} x i64> {claims}, {shift}")
        others = text.add(f"icmp ne <{count} x i64> {token}, {text.splat('i64', count, '%token64')}")
        free = text.add(f"or <{count} x i1> {others}, {again}")
        both = text.add(f"and <{count} x i1> {self.is_ordered(written)}, {self.is_ordered(reads)}")
        text.require(text.add(f"and <{count} x i1> {both}, {free}"), count, f"{self.label}.claim")
        several = text.splat("i64", count, "1") if self.is_one else text.add(f"zext <{count} x i1> {again} to <{count} x i64>")
        text.line(f"store <{count} x i64> {text.add(f'or <{count} x i64> {mine}, {several}')}, ptr {pointer}, align 1")

    def note_write(self) -> None:
        text, count = self.text, self.count
        for table, value in (("who", "%warp32"), ("when", "%clock32"), ("line", "%line32")):
            self.store(table, text.splat("i32", count, value))
        self.store("strong", "zeroinitializer", "i8")
        by_many, of_many = text.splat("i32", count, "%many"), text.splat("i64", count, "%nobody")
        if self.is_one:
            self.store("written", by_many)
            self.store("mark", of_many, "i64")
            return
        _, claims = self.load("claim", "i64")
        several = text.add(f"trunc <{count} x i64> {claims} to <{count} x i1>")
        own = text.add(f"or <{count} x i32> {self.limit}, {self.tids}")
        self.store("written", text.add(f"select <{count} x i1> {several}, <{count} x i32> {by_many}, <{count} x i32> {own}"))
        self.store("mark", text.add(f"select <{count} x i1> {several}, <{count} x i64> {of_many}, <{count} x i64> {self.mines}"), "i64")


def _head(text: _Text, name: str) -> None:
    text.lines += [f"define i64 @{name}({_TABLES}) {{", "entry:"]
    for n, entry in enumerate((*_POINTERS, *_NUMBERS, *_FOLDED)):
        kind = "i64" if entry in _NUMBERS else "ptr"
        text.line(f"%c{n} = getelementptr i64, ptr %context, i64 {n}")
        text.line(f"%{entry} = load {kind}, ptr %c{n}, align 8")
    text.line("%line32 = trunc i64 %line64 to i32")
    text.line("%token = shl i64 %token64, 32")
    text.line("%is.masked = icmp ne ptr %mask, null")
    text.line("%begin.host = sub i64 %host, %apart")


def _group(text: _Text) -> None:
    """The values that are the same for all threads of a group."""
    for line in (
        "%group = lshr i64 %t, 4", "%sp = getelementptr i8, ptr %shapes, i64 %group", "%shape = load i8, ptr %sp, align 1",
        "%cp = getelementptr i64, ptr %cta_of, i64 %t", "%cta = load i64, ptr %cp, align 8", "%ep = getelementptr i32, ptr %epoch, i64 %cta",
        "%limit = load i32, ptr %ep, align 4", "%begin = mul i64 %cta, %stride", "%tid64 = sub i64 %t, %begin", "%tid1 = add i64 %tid64, 1",
        "%tid = trunc i64 %tid1 to i32", "%warp = lshr i64 %t, 5", "%warp32 = trunc i64 %warp to i32", "%kp = getelementptr i32, ptr %clock, i64 %warp",
        "%clock32 = load i32, ptr %kp, align 4", "%np = getelementptr i64, ptr %now, i64 %warp", "%now64 = load i64, ptr %np, align 8",
        f"%time = shl i64 %now64, {LANE_BITS}", "%lane0 = and i64 %t, 31", "%mine = or i64 %time, %lane0", f"%several = or i64 %time, {SEVERAL}",
        f"%nobody = or i64 %time, {MANY}", "%warp2 = shl i64 %warp, 1", "%claimed = or i64 %token, %warp2",
        "%op = getelementptr i64, ptr %columns, i64 %warp", "%column = load i64, ptr %op, align 8", f"%many = or i32 %limit, {MANY_THREADS}", "%pp = getelementptr i64, ptr %places, i64 %t",
        "%place0 = load i64, ptr %pp, align 8",
    ):  # fmt: skip
        text.line(line)


_TABLES = "ptr %places, ptr %shapes, ptr %mask, i64 %first, i64 %last, i64 %line64, i64 %token64, i64 %apart, ptr %context"
_BEGIN = f"""br label %loop
loop:
%t = phi i64 [ %first, %entry ], [ %t.next, %next ]
br i1 %is.masked, label %look, label %work
look:
%mp = getelementptr i8, ptr %mask, i64 %t
%some = load i{8 * LANES}, ptr %mp, align 1
%none = icmp eq i{8 * LANES} %some, 0
br i1 %none, label %next, label %work
work:"""
_ONE = """one:
%idle = icmp eq i64 %place0, %nowhere
br i1 %idle, label %next, label %one.work
one.work:"""
_GENERAL = """br label %next
general:
%k = phi i64 [ 0, %work ], [ %k.next, %lane.next ]
%pk = getelementptr i64, ptr %pp, i64 %k
%place = load i64, ptr %pk, align 8
%off = icmp eq i64 %place, %nowhere
br i1 %off, label %lane.next, label %lane.work
lane.work:"""
_END = f"""br label %lane.next
lane.next:
%k.next = add i64 %k, 1
%lanes.left = icmp slt i64 %k.next, {LANES}
br i1 %lanes.left, label %general, label %next
next:
%t.next = add i64 %t, {LANES}
%more = icmp slt i64 %t.next, %last
br i1 %more, label %loop, label %done
done:"""


def _loop(name: str, words: int, does: str, after: str) -> list[str]:
    """A function that loops over the groups; `does` is what it does with words, `after` the function
    that it ends with.
    """
    text = _Text()
    _head(text, name)
    text.lines += _BEGIN.splitlines()
    _group(text)
    text.line(f"switch i8 %shape, label %general [ i8 {ONE_PLACE}, label %one i8 {NEIGHBOURS}, label %wide ]")
    text.lines += _ONE.splitlines()
    getattr(_Body(text, "%place0", words, 0, None, "one"), does)()
    text.line("br label %next")
    text.line("wide:")
    getattr(_Body(text, "%place0", words, LANES, None, "wide"), does)()
    text.lines += _GENERAL.splitlines()
    getattr(_Body(text, "%place", words, 1, "%k", "lane"), does)()
    text.lines += _END.splitlines()
    text.line(f"%rest = call i64 @{after}({_TABLES})" if after else "%rest = add i64 0, 1")
    return [*text.lines, "  ret i64 %rest", "fail:", "  ret i64 0", "}"]


def _written(name: str, body: str) -> list[str]:
    """A function whose text stands here."""
    text = _Text()
    _head(text, name)
    return [*text.lines, *body.splitlines()]


@functools.cache
def _functions() -> dict[tuple[bool, int], Any]:
    """The functions, by whether they are of a load, and by their words."""
    lines: list[str] = []
    for words in _SIZES:
        lines += _loop(f"read{words}", words, "read", "")
        lines += _loop(f"note{words}", words, "note_write", "")
        lines += _loop(f"write{words}", words, "check_write", f"note{words}")
    lines += _written("alike", _ALIKE) + _written("of_one", _ONE_CTA)
    names = [(is_load, words) for is_load in (True, False) for words in _SIZES]
    of_names = ((f"{'read' if is_load else 'write'}{words}", _CALL) for is_load, words in names)
    *found, alike, of_one = objects.functions("\n".join(lines), *of_names, ("alike", _CALL), ("of_one", _CALL))
    return dict(zip(names, found, strict=True)) | {ALIKE: alike, OF_ONE: of_one}


_V64, _V8 = f"<{LANES} x i64>", f"i{8 * LANES}"
# Are the threads of all CTAs where those of the first one are, in their own windows? Where these are is kept. The
# line is the number of their row.
_ALIKE = f"""br label %loop
loop:
%t = phi i64 [ %first, %entry ], [ %t.next, %next ]
%cp = getelementptr i64, ptr %cta_of, i64 %t
%cta = load i64, ptr %cp, align 8
%begin = mul i64 %cta, %stride
%tid = sub i64 %t, %begin
%sub = mul i64 %cta, %pitch
br i1 %is.masked, label %look, label %work
look:
%mp = getelementptr i8, ptr %mask, i64 %t
%some = load {_V8}, ptr %mp, align 1
%mp0 = getelementptr i8, ptr %mask, i64 %tid
%some0 = load {_V8}, ptr %mp0, align 1
%same.mask = icmp eq {_V8} %some, %some0
br i1 %same.mask, label %runs, label %fail
runs:
%none = icmp eq {_V8} %some, 0
br i1 %none, label %next, label %work
work:
%row = mul i64 %line64, %stride
%at0 = add i64 %row, %tid
%group = lshr i64 %t, {LANES.bit_length() - 1}
%group0 = lshr i64 %at0, {LANES.bit_length() - 1}
%sp = getelementptr i8, ptr %shapes, i64 %group
%shape = load i8, ptr %sp, align 1
%pp = getelementptr i64, ptr %places, i64 %t
%sp0 = getelementptr i8, ptr %kept_shapes, i64 %group0
%pp0 = getelementptr i64, ptr %kept_places, i64 %at0
%is.first = icmp eq i64 %cta, 0
br i1 %is.first, label %keep, label %compare
keep:
store i8 %shape, ptr %sp0, align 1
%all = load {_V64}, ptr %pp, align 8
store {_V64} %all, ptr %pp0, align 8
br label %next
compare:
%shape0 = load i8, ptr %sp0, align 1
%same.shape = icmp eq i8 %shape, %shape0
br i1 %same.shape, label %places.of, label %fail
places.of:
%place = load i64, ptr %pp, align 8
%place0 = load i64, ptr %pp0, align 8
%back = sub i64 %place, %sub
%same.place = icmp eq i64 %back, %place0
%off = icmp eq i64 %place, %nowhere
%off0 = icmp eq i64 %place0, %nowhere
%both.off = and i1 %off, %off0
%same.first = or i1 %same.place, %both.off
br i1 %same.first, label %lanes, label %fail
lanes:
%is.general = icmp eq i8 %shape, {GENERAL}
br i1 %is.general, label %general, label %next
general:
%them = load {_V64}, ptr %pp, align 8
%mine = load {_V64}, ptr %pp0, align 8
%sub.one = insertelement {_V64} poison, i64 %sub, i32 0
%subs = shufflevector {_V64} %sub.one, {_V64} poison, <{LANES} x i32> zeroinitializer
%off.one = insertelement {_V64} poison, i64 %nowhere, i32 0
%offs = shufflevector {_V64} %off.one, {_V64} poison, <{LANES} x i32> zeroinitializer
%backs = sub {_V64} %them, %subs
%same.places = icmp eq {_V64} %backs, %mine
%them.off = icmp eq {_V64} %them, %offs
%mine.off = icmp eq {_V64} %mine, %offs
%all.off = and <{LANES} x i1> %them.off, %mine.off
%each = or <{LANES} x i1> %same.places, %all.off
%bits = bitcast <{LANES} x i1> %each to i{LANES}
%every = icmp eq i{LANES} %bits, -1
br i1 %every, label %next, label %fail
next:
%t.next = add i64 %t, {LANES}
%more = icmp slt i64 %t.next, %last
br i1 %more, label %loop, label %done
done:
ret i64 1
fail:
ret i64 0
}}"""
ALIKE, OF_ONE = (True, 0), (False, 0)  # among functions by whether they are of a load, and by their words
# What `Shadow.looks_at_one` calls with pointers to `looks` and the mask, the number of warps, and the number of
# looks: are the warps of all CTAs in step (`Folding.are_in_step`), and do the checks pass for the first CTA, at the
# places that `alike` has kept?
_ONE_CTA = f"""%warps.of = lshr i64 %stride, 5
br label %warps
warps:
%w = phi i64 [ 0, %entry ], [ %w.next, %in.step ]
%c = udiv i64 %w, %warps.of
%w.first = mul i64 %c, %warps.of
%w0 = sub i64 %w, %w.first
%kp = getelementptr i32, ptr %clock, i64 %w
%kp0 = getelementptr i32, ptr %clock, i64 %w0
%clock.w = load i32, ptr %kp, align 4
%clock.0 = load i32, ptr %kp0, align 4
%same.clock = icmp eq i32 %clock.w, %clock.0
%np = getelementptr i64, ptr %now, i64 %w
%np0 = getelementptr i64, ptr %now, i64 %w0
%now.w = load i64, ptr %np, align 8
%now.0 = load i64, ptr %np0, align 8
%numbers = shl i64 %w.first, {PART_BITS}
%now.back = sub i64 %now.w, %numbers
%same.now = icmp eq i64 %now.back, %now.0
%ep = getelementptr i32, ptr %epoch, i64 %c
%epoch.w = load i32, ptr %ep, align 4
%epoch.0 = load i32, ptr %epoch, align 4
%same.epoch = icmp eq i32 %epoch.w, %epoch.0
%same.two = and i1 %same.clock, %same.now
%same = and i1 %same.two, %same.epoch
br i1 %same, label %in.step, label %fail
in.step:
%w.next = add i64 %w, 1
%w.more = icmp slt i64 %w.next, %first
br i1 %w.more, label %warps, label %looks
looks:
%k = phi i64 [ 0, %in.step ], [ %k.next, %clear ]
%row = mul i64 %k, {LOOK_NUMBERS}
%f.at = getelementptr i64, ptr %places, i64 %row
%f = load ptr, ptr %f.at, align 8
%n.at = getelementptr i64, ptr %f.at, i64 1
%n = load i64, ptr %n.at, align 8
%line.at = getelementptr i64, ptr %f.at, i64 2
%line.k = load i64, ptr %line.at, align 8
%token.at = getelementptr i64, ptr %f.at, i64 3
%token.k = load i64, ptr %token.at, align 8
%apart.at = getelementptr i64, ptr %f.at, i64 4
%apart.k = load i64, ptr %apart.at, align 8
%skipped = mul i64 %n, %stride
%skipped.groups = lshr i64 %skipped, {LANES.bit_length() - 1}
%own.places = getelementptr i64, ptr %kept_places, i64 %skipped
%own.shapes = getelementptr i8, ptr %kept_shapes, i64 %skipped.groups
%clear.k = call i64 %f(ptr %own.places, ptr %own.shapes, ptr %mask, i64 0, i64 %stride, i64 %line.k, i64 %token.k, i64 %apart.k, ptr %context)
%is.clear = icmp ne i64 %clear.k, 0
br i1 %is.clear, label %clear, label %fail
clear:
%k.next = add i64 %k, 1
%k.more = icmp slt i64 %k.next, %last
br i1 %k.more, label %looks, label %done
done:
ret i64 1
fail:
ret i64 0
}}"""
# see `Shadow.looks`
_ROWS: weakref.WeakKeyDictionary[Code, tuple[np.ndarray, list[int]] | None] = weakref.WeakKeyDictionary()


class Shadow:
    """The functions over the tables of one wave. `context` has the arguments that an access needs."""

    def __init__(self, x: Wave, nowhere: int) -> None:
        shared: SharedChecks = x.checks.shared.table
        tables = shared.noted
        self.shared, self.tables = shared, tables
        self.total, self.stride, self._warps = x.total, x.stride, len(tables.clock)
        self.token = 0
        cta_of = x.alike("cta_of as int64", lambda: np.ascontiguousarray(x.cta_of, np.int64))
        self.claim = np.zeros(len(tables.who), np.uint64)
        readers = tables.read_when.shape[1]
        columns = x.alike("columns of warps", lambda: np.arange(len(tables.clock), dtype=np.int64) % readers)
        rows = MOST_ACCESSES if self.is_folded else 0
        self._places, self._kept_shapes = np.empty((rows, x.stride), np.int64), np.empty((rows, x.stride // LANES), np.uint8)
        arrays = (
            tables.epoch_written, tables.epoch_read, tables.epoch, cta_of, tables.clock, tables.now, tables.read_when, tables.read_line,
            tables.read_mark, tables.who, tables.when, tables.line, tables.strong, tables.mark, self.claim, columns,
        )  # fmt: skip
        numbers = x.shared.ctypes.data, nowhere, x.stride, readers, x.pitch
        self.arrays = arrays
        kept = self._places.ctypes.data, self._kept_shapes.ctypes.data
        self.context = np.array([*(array.ctypes.data for array in arrays), *numbers, *kept], np.int64)
        self._context = self.context.ctypes.data
        self._host = numbers[0]
        self._shapes = x.alike("places of any shape", lambda: np.full(x.total // LANES, GENERAL, np.uint8))
        shared.by_epochs = self.reads
        self.functions = _functions()
        self._rows: dict[Code, tuple[Looks, list[int]] | None] = {}
        self._alike: dict[Code, Looks] = {}

    @property
    def is_stale(self) -> bool:
        """Has the sanitizer other tables now?"""
        return self.tables.folding is not self.shared.folding

    def _has_epochs(self) -> bool:
        """Do epochs order all accesses, in these tables?"""
        return self.shared.has_epochs() and not self.is_stale

    @property
    def is_folded(self) -> bool:
        """Does the first CTA stand for all?"""
        return self.tables.folding is not None

    @property
    def at(self) -> int:
        """The address of `context` in the host's memory."""
        return self._context

    def looks(self, code: Code) -> Looks | None:
        """The functions that say whether the epoch orders all accesses of shared memory, and note them then. None: one
        has none.
        """
        if not self._has_epochs():
            return None
        if code not in self._rows:
            known = _ROWS[code] if code in _ROWS else _ROWS.setdefault(code, self._made(code))
            # tokens are the wave's own
            self._rows[code] = None if known is None else (Looks.of(known[0].copy()), known[1])
        rows = self._rows[code]
        if rows is not None:
            found, is_store = rows
            for n in is_store:
                self.token += 1
                found.rows[n, 3] = self.token
            return found
        return None

    def _made(self, code: Code) -> tuple[np.ndarray, list[int]] | None:
        rows = []
        for access in code.of_shared:
            function = self.functions.get((access.is_load, access.size // 4))
            if function is None or access.size < 4:
                return None
            at = ctypes.cast(function, ctypes.c_void_p).value or 0
            rows.append((at, access.row.number, access.instruction.site, 0, access.apart))
        return np.array(rows, np.int64), [n for n, access in enumerate(code.of_shared) if not access.is_load]

    def alike(self, code: Code) -> Looks:
        """The check of all rows of places in shared memory whether the CTAs do the same, as `looks`."""
        if code not in self._alike:
            function = ctypes.cast(self.functions[ALIKE], ctypes.c_void_p).value or 0
            rows = dict.fromkeys(access.row.number for access in code.of_shared)
            self._alike[code] = Looks.of(np.array([(function, row, row, 0, 0) for row in rows], np.int64))
        return self._alike[code]

    def looks_at_one(self, looks: Looks, mask: int | None) -> bool:
        """Does the epoch order all accesses of the first CTA, for those that `alike` has kept? Then they are noted,
        for all CTAs.
        """
        return bool(self.functions[OF_ONE](looks.at, None, mask, self._warps, len(looks.rows), 0, 0, 0, self._context))

    def reads(self, line: int, words: int, places: np.ndarray) -> bool:
        """Does the epoch order reads of all threads, so many words each from the places (int64, bytes) on? Then they
        are noted.
        """
        function = self.functions.get((True, words))
        if function is None or not self._has_epochs():
            return False
        hosts = places + self._host
        return self._passes(function, hosts.ctypes.data, self._shapes.ctypes.data, None, 0, len(places), line, 0, 0)

    def passes(self, access: Access, places: int, shapes: int, mask: int | None, first: int, last: int) -> bool:
        """Does the epoch order all of an access? Then it is noted."""
        function = self.functions.get((access.is_load, access.size // 4))
        if function is None or access.size < 4 or not self._has_epochs():
            return False
        self.token += not access.is_load
        return self._passes(function, places, shapes, mask, first, last, access.instruction.site, self.token, access.apart)

    def _passes(
        self, function: Any, places: int, shapes: int, mask: int | None, first: int, last: int, line: int, token: int, apart: int
    ) -> bool:
        if self.is_folded:
            if first or not self.shared.are_in_step():
                return False
            if not self.functions[ALIKE](places, shapes, mask, 0, self.total, 0, 0, 0, self._context):
                return False
            last = self.stride
        return bool(function(places, shapes, mask, first, last, line, token, apart, self._context))
