"""Loads and stores whose addresses stay in registers: if the sanitizer does not check a segment, no table of addresses
is needed.

A segment that only loads is one function. It checks all addresses of a group before a register gets a new value, so
that it can stop before the group. A segment that stores has two: the first checks all addresses, the second moves the
bytes. For an address that is outside, its lanes and its array are left in the table `places`, a row for each access.

If observers count, there are always two. The first also notes the places it looked at (`tallies.CompiledAccesses`). For
each group it notes the first place, and how far the others are from it. Only groups in which that is not enough have
all places.
"""

from __future__ import annotations

import dataclasses
import functools

from smemsim.run.jit.memory import (
    ALL_LANES,
    GENERAL,
    ONE_PLACE,
    V64,
    Access,
    Moving,
    Row,
    extension,
    move,
    note_running,
    shape_of,
    stored,
    table_of,
    widened,
)
from smemsim.run.jit.vectors import LANES, Value, Vectors, vector
from smemsim.run.tallies import NOWHERE

__all__ = ["NOTED", "ROOM", "emit_direct"]


ROOM = (
    f"  %lanes = alloca [{LANES} x i64], align 64",
    "  %bad.p = alloca i8",
)  # in the entry: a group's places, and whether one of its addresses is outside


NOTED = (
    "  %leads.p = getelementptr i64, ptr %memory, i64 4",
    "  %leads = load ptr, ptr %leads.p, align 8",
    "  %forms.p = getelementptr i64, ptr %memory, i64 5",
    "  %forms = load ptr, ptr %forms.p, align 8",
    "  %noted.p = getelementptr i64, ptr %memory, i64 6",
    "  %noted = load ptr, ptr %noted.p, align 8",
)  # in the entry: the tables of what is noted


@dataclasses.dataclass(frozen=True)
class _Base:
    """A register of addresses, or a variable's: its lanes, the first of them, and the distance of the last one from it
    if `shape` is simple.
    """

    at: Value
    first: str
    span: str
    shape: str


def _base(v: Vectors, access: Access) -> _Base:
    slot = access.slot
    if slot is None:
        at = v.alike("i64", "%window.begin")
        return _Base(at, "%window.begin", "0", "1")
    at = v.slot(slot)
    known: _Base | None = v.bases.get((at.name, access.size))
    if known is None:
        first = v.line(f"extractelement {vector(at.type)} {at.name}, i64 0")
        if at.type != "i64":
            first = v.line(f"{extension(at.type)} {at.type} {first} to i64")
        step, shape = shape_of(v, at, access.size)
        known = v.bases[at.name, access.size] = _Base(at, first, v.line(f"mul i64 {step}, {LANES - 1}"), shape)
    return known


def emit_direct(
    v: Vectors, access: Access, guard: Value | None, active: Value | None, *, looks: bool, moves: bool, row: Row | None = None
) -> None:
    """The text of an access for the lanes that are `active`, and whose guard holds: `looks` at addresses, `moves`
    bytes. The first access of a `row` notes the places of all, and looks for all if they are in shared memory.
    """
    n = access.number
    mask = guard if active is None else active if guard is None else v.binary("and", guard, active)
    if looks and mask is not None and access.instruction.guard is not None and not access.is_load:
        note_running(v, n, mask)
    if row is not None and row.lead != n and access.space == "shared":
        return
    apart, reach = _distances(access, row)
    base, whole = _base(v, access), stored(v, access) if moves else None
    first = v.line(f"add i64 {base.first}, {apart}") if apart else base.first
    bits = None if mask is None else v.line(f"bitcast <{LANES} x i1> {mask.name} to i{LANES}")
    conditions = [] if bits is None else [v.line(f"icmp eq i{LANES} {bits}, -1")]
    begin, limit, host = table_of(v, access)
    if row is not None and row.lead == n:
        _note(v, access, base, row, mask, bits)
    if looks:
        span = v.line(f"add i64 {base.span}, {reach}") if reach else base.span
        conditions += _inside(v, first, span, begin, limit, access.size)
    good = functools.reduce(lambda one, other: v.line(f"and i1 {one}, {other}"), conditions) if conditions else "true"
    v.lines += [f"  br i1 {good}, label %fast{n}, label %slow{n}", f"fast{n}:"]

    def places() -> str:
        v.lines.append(f"slow{n}:")
        if bits is not None:
            v.lines += [f"  %idle{n} = icmp eq i{LANES} {bits}, 0", f"  br i1 %idle{n}, label %after{n}, label %some{n}", f"some{n}:"]
        wide = widened(v, base.at)
        if apart:
            wide = v.binary("add", wide, v.number("i64", apart))
        within = v.binary("sub", wide, v.alike("i64", begin))
        if looks:
            _look(v, access, wide, within, mask, limit, reach)
        if not moves:
            return ""
        place = v.binary("add", within, v.alike("i64", host))
        if mask is not None:
            place = v.select(mask, place, v.alike("i64", "%nowhere"))
        v.lines += [f"  store {V64} {place.name}, ptr %lanes, align 64", f"  br label %general{n}", f"general{n}:"]
        return v.line(f"inttoptr {V64} {place.name} to <{LANES} x ptr>")

    if not moves:
        v.lines += [f"  %simple{n} = icmp ne i8 {base.shape}, {GENERAL}", f"  br i1 %simple{n}, label %after{n}, label %slow{n}"]
        places()
        v.lines += [f"  br label %after{n}", f"after{n}:"]
        return
    at = v.line(f"add i64 {first}, {v.line(f'sub i64 {host}, {begin}')}")
    v.lines.append(f"  %first{n} = inttoptr i64 {at} to ptr")
    off = (*((f"slow{n}",) if bits is not None else ()), *((f"note{n}",) if looks else ()))
    moving = Moving(
        f"fast{n}",
        base.shape,
        f"%first{n}",
        f"slow{n}",
        "%lanes",
        places,
        ALL_LANES if mask is None else f"{vector('i1')} {mask.name}",
        off,
    )
    move(v, access, moving, guard, whole)


def _distances(access: Access, row: Row | None) -> tuple[int, int]:
    """How far from its base an access looks first, and how much further last: in shared memory for its whole row."""
    if access.slot is None:
        return access.within or 0, 0
    return (row.begin, row.reach) if row is not None and access.space == "shared" else (access.offset, 0)


def _note(v: Vectors, access: Access, base: _Base, row: Row, mask: Value | None, bits: str | None) -> None:
    """The places of the lanes, NOWHERE of those that do not run: in global memory the address, in shared memory the
    place in the host's memory.
    """
    n, number, begin = access.number, row.number, row.begin if access.slot is not None else access.within or 0
    apart = str(begin)
    if access.space == "shared":
        apart = v.line(f"add i64 {v.line('sub i64 %window.host, %window.begin')}, {begin}")
    first, shape = v.line(f"add i64 {base.first}, {apart}"), base.shape
    if bits is not None:
        whole, none = v.line(f"icmp eq i{LANES} {bits}, -1"), v.line(f"icmp eq i{LANES} {bits}, 0")
        shape = v.line(f"select i1 {none}, i8 {ONE_PLACE}, i8 {v.line(f'select i1 {whole}, i8 {shape}, i8 {GENERAL}')}")
        first = v.line(f"select i1 {none}, i64 {NOWHERE}, i64 {first}")
    v.lines += [
        f"  %lead{n} = add i64 %srow{number}, %group", f"  %lead.p{n} = getelementptr i64, ptr %leads, i64 %lead{n}",
        f"  store i64 {first}, ptr %lead.p{n}, align 8", f"  %form.p{n} = getelementptr i8, ptr %forms, i64 %lead{n}",
        f"  store i8 {shape}, ptr %form.p{n}, align 1", f"  %is.form{n} = icmp ne i8 {shape}, {GENERAL}",
        f"  br i1 %is.form{n}, label %noted{n}, label %every{n}", f"every{n}:",
    ]  # fmt: skip
    every = v.binary("add", widened(v, base.at), v.alike("i64", apart))
    if mask is not None:
        every = v.select(mask, every, v.number("i64", NOWHERE))
    v.lines += [
        f"  %every.at{n} = add i64 %row{number}, %t", f"  %every.p{n} = getelementptr i64, ptr %noted, i64 %every.at{n}",
        f"  store {V64} {every.name}, ptr %every.p{n}, align 8", f"  br label %noted{n}", f"noted{n}:",
    ]  # fmt: skip


def _inside(v: Vectors, first: str, span: str, begin: str, limit: str, size: int) -> list[str]:
    """Are a group's accesses in the memory, and aligned, if they begin with the first lane's?"""
    within = v.line(f"sub i64 {first}, {begin}")
    found = [v.line(f"icmp ult i64 {within}, {limit}"), v.line(f"icmp ult i64 {span}, {v.line(f'sub i64 {limit}, {within}')}")]
    if size > 1:
        found.append(v.line(f"icmp eq i64 {v.line(f'and i64 {first}, {size - 1}')}, 0"))
    return found


def _look(v: Vectors, access: Access, wide: Value, within: Value, mask: Value | None, limit: str, reach: int) -> None:
    """Check the address of each lane, and the one `reach` bytes further; an address outside is recorded, and nothing
    is done.
    """
    n, size = access.number, access.size
    bad = v.compare("icmp uge", within, v.alike("i64", limit))
    if reach:
        last = v.binary("add", within, v.number("i64", reach))
        bad = v.binary("or", bad, v.compare("icmp uge", last, v.alike("i64", limit)))
    if size > 1:
        low = v.binary("and", wide, v.number("i64", size - 1))
        bad = v.binary("or", bad, v.compare("icmp ne", low, v.number("i64", 0)))
    if mask is not None:
        bad = v.binary("and", bad, mask)
    v.lines += [
        f"  %bits{n} = bitcast <{LANES} x i1> {bad.name} to i{LANES}", f"  %outside{n} = icmp ne i{LANES} %bits{n}, 0",
        f"  br i1 %outside{n}, label %note{n}, label %inside{n}", f"note{n}:",
    ]  # fmt: skip
    kept = wide if mask is None else v.select(mask, wide, v.alike("i64", "%nowhere"))
    v.lines += [
        f"  %kept.p{n} = getelementptr {V64}, ptr %places, i64 {n}", f"  store {V64} {kept.name}, ptr %kept.p{n}, align 8",
        "  store i8 1, ptr %bad.p, align 1", f"  br label %after{n}", f"inside{n}:",
    ]  # fmt: skip
