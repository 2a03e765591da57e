"""Loads and stores whose addresses stay in registers: if the sanitizer does not check a segment, no table of addresses
is needed.

A segment that only loads is one function. It checks all addresses of a group before a register gets a new value, so
that it can stop before the group. A segment that stores has two: the first checks all addresses, the second moves the
bytes. For an address that is outside, its lanes and its array are left in the table `places`, a row for each access.
"""

from __future__ import annotations

import dataclasses

from smemsim.run.jit.memory import (
    ALL_LANES,
    GENERAL,
    V64,
    Access,
    Moving,
    extension,
    move,
    note_running,
    shape_of,
    stored,
    table_of,
    widened,
)
from smemsim.run.jit.vectors import LANES, Value, Vectors, vector

__all__ = ["ROOM", "emit_direct"]


ROOM = (
    f"  %lanes = alloca [{LANES} x i64], align 64",
    "  %bad.p = alloca i8",
)  # in the entry: a group's places, and whether one of its addresses is outside


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


def emit_direct(v: Vectors, access: Access, guard: Value | None, active: Value | None, *, looks: bool, moves: bool) -> None:
    """The text of an access for the lanes that are `active`, and whose guard holds: `looks` at addresses, `moves`
    bytes.
    """
    n = access.number
    mask = guard if active is None else active if guard is None else v.binary("and", guard, active)
    if looks and mask is not None and access.instruction.guard is not None and not access.is_load:
        note_running(v, n, mask)
    base, whole = _base(v, access), stored(v, access) if moves else None
    apart = access.offset if access.slot is not None else access.within or 0
    first = v.line(f"add i64 {base.first}, {apart}") if apart else base.first
    bits = None if mask is None else v.line(f"bitcast <{LANES} x i1> {mask.name} to i{LANES}")
    conditions = [] if bits is None else [v.line(f"icmp eq i{LANES} {bits}, -1")]
    begin, limit, host = table_of(v, access)
    if looks:
        conditions += _inside(v, first, base.span, begin, limit, access.size)
    good = "true"
    for condition in conditions:
        good = condition if good == "true" else v.line(f"and i1 {good}, {condition}")
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
            _look(v, access, wide, within, mask, limit)
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


def _inside(v: Vectors, first: str, span: str, begin: str, limit: str, size: int) -> list[str]:
    """Are a group's accesses in the memory, and aligned, if they begin with the first lane's?"""
    within = v.line(f"sub i64 {first}, {begin}")
    found = [v.line(f"icmp ult i64 {within}, {limit}"), v.line(f"icmp ult i64 {span}, {v.line(f'sub i64 {limit}, {within}')}")]
    if size > 1:
        found.append(v.line(f"icmp eq i64 {v.line(f'and i64 {first}, {size - 1}')}, 0"))
    return found


def _look(v: Vectors, access: Access, wide: Value, within: Value, mask: Value | None, limit: str) -> None:
    """Check the address of each lane; an address outside is recorded, and nothing is done."""
    n, size = access.number, access.size
    bad = v.compare("icmp uge", within, v.alike("i64", limit))
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
        f"  %noted{n} = getelementptr {V64}, ptr %places, i64 {n}", f"  store {V64} {kept.name}, ptr %noted{n}, align 8",
        "  store i8 1, ptr %bad.p, align 1", f"  br label %after{n}", f"inside{n}:",
    ]  # fmt: skip
